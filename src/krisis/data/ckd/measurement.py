"""How far one creatinine can be trusted: the chance that the person's set point lies elsewhere.

Creatinine varies by 5.0 % within a person and by 1.1 % analytically (meta-analysis of 37 studies,
Front Med 2022, doi 10.3389/fmed.2022.1009358). Category limits are translated into creatinine by
inverting the equation, so the bend below the knee needs no approximation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from krisis.data.ckd.egfr import CATEGORY_LIMITS, creatinine_for

WITHIN_PERSON_CV = 0.050
ANALYTICAL_CV = 0.011
LOG_CREATININE_SD = math.hypot(WITHIN_PERSON_CV, ANALYTICAL_CV)

# Stated reference ages for a record that does not show the age: every adult age alike.
REFERENCE_AGES = tuple(range(18, 91))

Probabilities = npt.NDArray[np.float64]


def category_probabilities(
    creatinine_mg_dl: float, ages: Iterable[float], sexes: Iterable[bool]
) -> Probabilities:
    """Return the probability of each category, worst first, given one measured creatinine.

    Several ages or sexes (``True`` is female) count alike; they stand for what is not known.

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
    probabilities: Probabilities = np.diff(cumulative)
    return probabilities


def below_60_probability(categories: npt.NDArray[Any]) -> float:
    """Return the probability of a filtration rate below 60 from the six categories."""
    return float(categories[:4].sum())
