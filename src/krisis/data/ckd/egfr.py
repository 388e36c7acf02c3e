"""The filtration rate by creatinine (CKD-EPI 2021), the KDIGO categories, and their uncertainty.

Equation: Inker et al., N Engl J Med 2021;385:1737 (creatinine, without race; adults only).
Categories: KDIGO 2024 guideline, G1 to G5. Units are mg/dL, years and mL/min/1.73 m². Creatinine
varies by 5.0 % within a person and by 1.1 % analytically (meta-analysis of 37 studies, Front Med
2022, doi 10.3389/fmed.2022.1009358).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

# Numbers or arrays that broadcast together, which NumPy's types cannot say.
Numbers: TypeAlias = Any
Array: TypeAlias = npt.NDArray[Any]

MICROMOL_PER_MG_DL = 88.4
ADULT_AGE_YEARS = 18

# The lower limits of G4, G3b, G3a, G2 and G1.
CATEGORY_LIMITS = (15.0, 30.0, 45.0, 60.0, 90.0)
CATEGORY_NAMES = ("G5", "G4", "G3b", "G3a", "G2", "G1")
CATEGORY_STAGES = (5, 4, 3, 3, 2, 1)

WITHIN_PERSON_CV = 0.050
ANALYTICAL_CV = 0.011
LOG_CREATININE_SD = math.hypot(WITHIN_PERSON_CV, ANALYTICAL_CV)


@dataclass(frozen=True, slots=True)
class _Coefficients:
    """The constants of the equation that depend on sex."""

    knee_mg_dl: float
    exponent_below: float
    factor: float


_FEMALE = _Coefficients(0.7, -0.241, 1.012)
_MALE = _Coefficients(0.9, -0.302, 1.0)
_EXPONENT_ABOVE = -1.200


def ckd_epi_2021(creatinine_mg_dl: Numbers, age_years: Numbers, *, female: bool) -> Numbers:
    """Estimate the filtration rate of an adult from serum creatinine.

    >>> round(ckd_epi_2021(1.2, 55, female=False))
    71
    >>> round(ckd_epi_2021(200 / MICROMOL_PER_MG_DL, 70, female=True))
    23
    """
    constants = _FEMALE if female else _MALE
    ratio = np.asarray(creatinine_mg_dl) / constants.knee_mg_dl
    return (
        _at_knee(age_years, constants)
        * np.minimum(ratio, 1.0) ** constants.exponent_below
        * np.maximum(ratio, 1.0) ** _EXPONENT_ABOVE
    )


def creatinine_for(gfr: Numbers, age_years: Numbers, *, female: bool) -> Numbers:
    """Invert `ckd_epi_2021`: the creatinine at which the estimate equals a filtration rate.

    >>> round(float(creatinine_for(ckd_epi_2021(0.6, 40, female=True), 40, female=True)), 6)
    0.6
    """
    constants = _FEMALE if female else _MALE
    ratio = np.asarray(gfr) / _at_knee(age_years, constants)
    below = np.maximum(ratio, 1.0) ** (1.0 / constants.exponent_below)
    above = np.minimum(ratio, 1.0) ** (1.0 / _EXPONENT_ABOVE)
    return constants.knee_mg_dl * below * above


def log_creatinine_for(log_gfr: Numbers, age_years: Numbers, *, female: Numbers) -> Array:
    """Return the logarithm of `creatinine_for` for sex as an array; two lines meet at the knee."""
    knee = np.where(female, math.log(_FEMALE.knee_mg_dl), math.log(_MALE.knee_mg_dl))
    below = np.where(female, 1.0 / _FEMALE.exponent_below, 1.0 / _MALE.exponent_below)
    factor = np.where(female, math.log(_FEMALE.factor), math.log(_MALE.factor))
    ratio = log_gfr - (math.log(142.0) + math.log(0.9938) * np.asarray(age_years) + factor)
    return np.asarray(knee + ratio * np.where(ratio > 0.0, below, 1.0 / _EXPONENT_ABOVE))


def _at_knee(age_years: Numbers, constants: _Coefficients) -> Numbers:
    return 142.0 * 0.9938 ** np.asarray(age_years) * constants.factor


def printed_down(gfr: float, n_decimals: int) -> float:
    """Cut a rate to some decimals: rounding up could print it into a better category.

    >>> printed_down(59.97, 1), stage(59.97) == stage(printed_down(59.97, 1))
    (59.9, True)
    """
    scale = 10.0**n_decimals
    return math.floor(gfr * scale + 1e-9) / scale


def category_index(gfr: Numbers) -> Numbers:
    """Return the position in `CATEGORY_NAMES`, worst first: 0 is G5, 5 is G1."""
    return np.searchsorted(CATEGORY_LIMITS, gfr, side="right")


def stage_labels(split_stage_3: bool) -> tuple[int | str, ...]:
    """Return the answer for each category, worst first; G3a and G3b are both 3 unless split."""
    return CATEGORY_NAMES if split_stage_3 else CATEGORY_STAGES


def stage(gfr: float, *, split_stage_3: bool = False) -> int | str:
    """Return the stage of a filtration rate.

    >>> stage(59.9), stage(60.0), stage(59.9, split_stage_3=True)
    (3, 2, 'G3a')
    """
    return stage_labels(split_stage_3)[int(category_index(gfr))]


def category_probabilities(
    creatinine_mg_dl: float, ages: Iterable[float], sexes: Iterable[bool]
) -> npt.NDArray[np.float64]:
    """Return the probability of each category, worst first, given one measured creatinine.

    Category limits are translated into creatinine by inverting the equation, so the bend below the
    knee needs no approximation. Several ages or sexes (``True`` is female) count alike; they are
    what is not known.

    >>> category_probabilities(1.0, [50], [True]).round(3).tolist()
    [0.0, 0.0, 0.0, 0.014, 0.986, 0.0]
    """
    years = np.asarray(list(ages), dtype=float)
    limits = np.asarray(CATEGORY_LIMITS)[:, None]
    at_limit = np.concatenate(
        [creatinine_for(limits, years, female=female) for female in sexes], axis=1
    )
    below = 1.0 - ndtr((np.log(at_limit) - math.log(creatinine_mg_dl)) / LOG_CREATININE_SD)
    cumulative = np.concatenate([[0.0], below.mean(axis=1), [1.0]])
    probabilities: npt.NDArray[np.float64] = np.diff(cumulative)
    return probabilities
