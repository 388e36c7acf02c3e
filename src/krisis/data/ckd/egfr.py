"""Estimated glomerular filtration rate (CKD-EPI 2021), its inverse, and the KDIGO categories.

Equation: Inker et al., N Engl J Med 2021;385:1737 (creatinine, without race; adults only).
Categories: KDIGO 2024 guideline, G1 to G5. Units are mg/dL, years and mL/min/1.73 m².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = float | npt.NDArray[np.floating[Any]]

MICROMOL_PER_MG_DL = 88.4
ADULT_AGE_YEARS = 18

# The lower limits of G4, G3b, G3a, G2 and G1.
CATEGORY_LIMITS = (15.0, 30.0, 45.0, 60.0, 90.0)
CATEGORY_NAMES = ("G5", "G4", "G3b", "G3a", "G2", "G1")
CATEGORY_STAGES = (5, 4, 3, 3, 2, 1)


@dataclass(frozen=True, slots=True)
class _Coefficients:
    """The constants of the equation that depend on sex."""

    knee_mg_dl: float
    exponent_below: float
    factor: float


_FEMALE = _Coefficients(0.7, -0.241, 1.012)
_MALE = _Coefficients(0.9, -0.302, 1.0)
_EXPONENT_ABOVE = -1.200


def ckd_epi_2021(creatinine_mg_dl: Numbers, age_years: Numbers, *, female: bool) -> Any:
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


def creatinine_for(gfr: Numbers, age_years: Numbers, *, female: bool) -> Any:
    """Invert `ckd_epi_2021`: the creatinine at which the estimate equals a filtration rate.

    >>> round(float(creatinine_for(ckd_epi_2021(0.6, 40, female=True), 40, female=True)), 6)
    0.6
    """
    constants = _FEMALE if female else _MALE
    ratio = np.asarray(gfr) / _at_knee(age_years, constants)
    below = np.maximum(ratio, 1.0) ** (1.0 / constants.exponent_below)
    above = np.minimum(ratio, 1.0) ** (1.0 / _EXPONENT_ABOVE)
    return constants.knee_mg_dl * below * above


def _at_knee(age_years: Numbers, constants: _Coefficients) -> Any:
    return 142.0 * 0.9938 ** np.asarray(age_years) * constants.factor


def printed_down(gfr: float, n_decimals: int) -> float:
    """Cut a rate to some decimals: rounding up could print it into a better category.

    >>> printed_down(59.97, 1), stage(59.97) == stage(printed_down(59.97, 1))
    (59.9, True)
    """
    scale = 10.0**n_decimals
    return math.floor(gfr * scale + 1e-9) / scale


def category_index(gfr: Numbers) -> Any:
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
