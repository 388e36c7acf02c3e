"""The posterior of one visit: what the shown values say, given the facts that the prompt states.

Creatinine, age and sex speak about the usual eGFR, the dipstick about the albuminuria, known
diabetes about both; the other findings follow the creatinine and add nothing to it.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np
from scipy.special import ndtr

from krisis.data.base import Features
from krisis.data.ckd import setting
from krisis.data.ckd.deferral import CHRONIC_DAYS, sheet_cannot_be_right
from krisis.data.ckd.egfr import LOG_CREATININE_SD, Array, creatinine_for
from krisis.data.ckd.schema import Value, usable

_N_ACUTE_FACTORS = 24


def posterior(features: Features, *, equation_error: bool = False) -> Array:
    """Return P(category, albuminuria) given the shown features, worst category first.

    With ``equation_error`` the category is that of the measured rate, else of the usual eGFR.
    """
    creatinine, age, sex, grade, diabetes = (
        usable(features, name) for name in ("sc", "age", "sex", "al", "dm")
    )
    days = usable(features, "days_observed")
    grid = setting.egfr_grid()
    to_category = grid.of_measured_category if equation_error else grid.of_category
    seen = np.ones(len(grid.log_egfr))
    if creatinine is not None:
        seen = _of_creatinine(creatinine, age, sex, days is not None and days < CHRONIC_DAYS)
    of_grade = np.ones(3) if grade is None else setting.DIPSTICK[:, int(grade)]
    found = np.zeros((6, 3))
    for value, chance in ((0, 1 - setting.DIABETES_PROBABILITY), (1, setting.DIABETES_PROBABILITY)):
        if diabetes in (None, value):
            cells = chance * setting.CATEGORY_SHARES[value][grid.category] * grid.share_of_category
            raised = setting.ALBUMINURIA_SHARES[value][grid.category]
            found += to_category.T @ ((cells * seen)[:, None] * raised * of_grade)
    total = float(found.sum())
    # A patient that the cohort cannot hold, such as a creatinine of 32: nothing is learnt.
    found = found / total if total > 0.0 else prior(equation_error)
    if sheet_cannot_be_right(features):
        mixed = setting.MIXED_UP_PROBABILITY
        found = mixed * prior(equation_error) + (1 - mixed) * found
    return found


@cache
def prior(equation_error: bool) -> Array:
    """Return P(category, albuminuria) before anything is seen."""
    return posterior({}, equation_error=equation_error)


@lru_cache(maxsize=4096)
def _of_creatinine(printed: float, age: Value, sex: Value, may_be_acute: bool) -> Array:
    """Return the probability of a printed creatinine in each cell, over all that is not shown."""
    egfr = np.exp(setting.egfr_grid().log_egfr)
    ages = setting.AGES if age is None else np.array([age])
    weights = setting.AGE_PROBABILITIES if age is None else np.ones(1)
    found = np.zeros_like(egfr)
    for female in (False, True) if sex is None else (bool(sex),):
        mean = np.log(creatinine_for(egfr, ages[:, None], female=female))
        found += weights @ printed_probability(printed, mean, may_be_acute=may_be_acute)
    return found


def printed_probability(printed: float, mean: Array, *, may_be_acute: bool) -> Array:
    """Return P(this creatinine is printed) around a usual level, given as its logarithm."""
    plain = _between(printed, mean)
    if not may_be_acute:
        return plain
    low, high = np.log(setting.ACUTE_FACTORS)
    shifts = low + (np.arange(_N_ACUTE_FACTORS) + 0.5) * (high - low) / _N_ACUTE_FACTORS
    acute = sum(_between(printed, mean + shift) for shift in shifts) / _N_ACUTE_FACTORS
    return (1 - setting.ACUTE_PROBABILITY) * plain + setting.ACUTE_PROBABILITY * acute


def _between(printed: float, mean: Array) -> Array:
    # The lowest step takes all that lies below it.
    below = ndtr((math.log(printed - 0.05) - mean) / LOG_CREATININE_SD) if printed > 0.15 else 0.0
    return np.asarray(ndtr((math.log(printed + 0.05) - mean) / LOG_CREATININE_SD) - below)


def shifted(table: Array, prior: Array, disease: Array, prevalence: float) -> Array:
    """Return the table as it would be if the disease had another prevalence, all else alike."""
    usual = float(prior[disease].sum())
    weights = np.where(disease, prevalence / usual, (1 - prevalence) / (1 - usual))
    return np.asarray(table * weights / (table * weights).sum())
