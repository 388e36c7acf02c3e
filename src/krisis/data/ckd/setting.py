"""The stated facts of the embedded cohort: what a prompt says, a patient is drawn from and a
deferral label uses.

`cohort` draws from these figures, `posterior` and `progression` invert them and `questions` puts
them into words, so the three cannot drift apart. They are plausible, and fitted to no data set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import expit, ndtr

from krisis.data.ckd.egfr import CATEGORY_LIMITS, Array, Numbers

EGFR_RANGE = (5.0, 130.0)
EGFR_EDGES = (EGFR_RANGE[0], *CATEGORY_LIMITS, EGFR_RANGE[1])
AGES = np.arange(18, 91)
AGE_MEAN, AGE_SD = 58, 17
_AGE_WEIGHTS = np.exp(-0.5 * ((AGES - AGE_MEAN) / AGE_SD) ** 2)
AGE_PROBABILITIES = _AGE_WEIGHTS / _AGE_WEIGHTS.sum()
FEMALE_PROBABILITY = 0.5
DIABETES_PROBABILITY = 0.3
# The share of each category, worst first, without and with known diabetes; inside a category the
# logarithm of the usual eGFR is uniform.
CATEGORY_SHARES = np.array(
    [[0.07, 0.09, 0.10, 0.13, 0.32, 0.29], [0.10, 0.13, 0.15, 0.17, 0.27, 0.18]]
)

ALBUMINURIA_NAMES = ("A1", "A2", "A3")
ACR_EDGES = (3.0, 30.0, 300.01, 3000.0)  # A3 lies above 300
# The share of A1, A2 and A3 below 30, from 30 to 59, and from 60 on; then by category.
_ALBUMINURIA_ROWS = np.array(
    [
        [[0.25, 0.40, 0.35], [0.60, 0.30, 0.10], [0.84, 0.14, 0.02]],
        [[0.15, 0.40, 0.45], [0.45, 0.38, 0.17], [0.70, 0.25, 0.05]],
    ]
)
ALBUMINURIA_SHARES = _ALBUMINURIA_ROWS[:, [0, 0, 1, 1, 2, 2]]
# The dipstick grade, 0 to 5, that A1, A2 and A3 give. A grade of 1 or more finds about half of A2
# and nearly all of A3 and is false in 5 % of A1, the order of White et al., Am J Kidney Dis 2011.
DIPSTICK = np.array(
    [
        [0.95, 0.04, 0.01, 0.00, 0.00, 0.00],
        [0.47, 0.33, 0.16, 0.04, 0.00, 0.00],
        [0.01, 0.09, 0.25, 0.35, 0.20, 0.10],
    ]
)
SETTLING_GRADE = 3  # never read in A1

# Acute injury among those observed for less than 90 days: it multiplies creatinine and recovers.
ACUTE_PROBABILITY = 0.35
ACUTE_FACTORS = (1.5, 3.0)
# A sheet that cannot be right is another patient's as often as this.
MIXED_UP_PROBABILITY = 0.5
# Scatter of the measured rate around the usual eGFR (log scale): within 30 % in 87 % of people.
EQUATION_SD = 0.20

# The true change of a course, from … to … in parts of the first level, and how frequent it is.
CHANGE_BANDS = (
    (-0.65, -0.40, 0.15), (-0.40, -0.25, 0.17), (-0.25, -0.125, 0.10), (-0.125, 0.125, 0.30),
    (0.125, 0.25, 0.06), (0.25, 0.60, 0.12), (0.60, 1.20, 0.10),
)  # fmt: skip
DRUG_PROBABILITY = 0.25


# Kidney disease: a category below 60, or an albumin-creatinine ratio of 30 mg/g or more.
IS_CKD = (np.arange(6)[:, None] < 4) | (np.arange(3)[None, :] > 0)


@dataclass(frozen=True, slots=True)
class EgfrGrid:
    """Cells of the log usual eGFR that never straddle a category limit."""

    log_egfr: Array
    category: Array
    share_of_category: Array
    of_category: Array
    of_measured_category: Array


@cache
def egfr_grid(step: float = 0.0125) -> EgfrGrid:
    """Return the grid on which the posterior is summed.

    ``of_category`` maps cells to categories; ``of_measured_category`` does so with the scatter of
    the equation, for the category of the measured rate.
    """
    middles, categories, shares = [], [], []
    for index in range(len(EGFR_EDGES) - 1):
        low, high = math.log(EGFR_EDGES[index]), math.log(EGFR_EDGES[index + 1])
        n_cells = math.ceil((high - low) / step)
        middles.append(low + (np.arange(n_cells) + 0.5) * (high - low) / n_cells)
        categories.append(np.full(n_cells, index))
        shares.append(np.full(n_cells, 1.0 / n_cells))
    log_egfr, category = np.concatenate(middles), np.concatenate(categories)
    below = ndtr((np.log(CATEGORY_LIMITS) - log_egfr[:, None]) / EQUATION_SD)
    ones = np.ones((len(log_egfr), 1))
    scattered = np.diff(np.concatenate([0 * ones, below, ones], axis=1), axis=1)
    return EgfrGrid(log_egfr, category, np.concatenate(shares), np.eye(6)[category], scattered)


@dataclass(frozen=True, slots=True)
class Sheet:
    """What the remaining findings follow: the printed creatinine and what it implies that day."""

    creatinine: Array
    egfr: Array
    female: Array
    diabetes: Array
    hypertension: Array

    @property
    def lost_function(self) -> Array:
        """Return how far the day's estimate lies below 60, between 0 and 1."""
        return np.maximum(60.0 - self.egfr, 0.0) / 60.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """A number with normal scatter around its mean, shown in steps; on the log scale if so said."""

    mean: Callable[[Sheet], Numbers]
    sd: float
    step: float
    logarithmic: bool = False

    def value(self, sheet: Sheet, scatter: Array) -> Array:
        """Return what the laboratory prints for standard normal scatter, cut at three SD."""
        raw = self.mean(sheet) + self.sd * np.clip(scatter, -3.0, 3.0)
        raw = np.exp(raw) if self.logarithmic else raw
        return np.asarray(np.maximum(np.round(raw / self.step), 1) * self.step)


# Given creatinine, age and sex none of these says more about the usual eGFR or the albuminuria.
MEASUREMENTS: Mapping[str, Measurement] = {
    "bu": Measurement(lambda s: math.log(32) + 0.75 * np.log(s.creatinine), 0.34, 1.0, True),
    "pot": Measurement(lambda s: 4.2 + 0.8 * s.lost_function, 0.4, 0.1),
    "sod": Measurement(lambda s: 139.5 - 2.7 * s.lost_function, 2.8, 1.0),
    "bgr": Measurement(lambda s: math.log(112) + 0.45 * s.diabetes, 0.22, 1.0, True),
    "bp": Measurement(lambda s: 76.0 + 8.0 * s.hypertension, 9.0, 10.0),
    "wbcc": Measurement(lambda s: math.log(7600.0), 0.25, 100.0, True),
    "hemo": Measurement(lambda s: np.where(s.female, 13.6, 15.0) - 4.2 * s.lost_function, 1.1, 0.1),
}

# Both follow the printed haemoglobin: (factor, standard deviation, step).
FROM_HAEMOGLOBIN: Mapping[str, tuple[float, float, float]] = {
    "pcv": (1 / 0.33, 1.3, 1.0),
    "rbcc": (1 / 2.95, 0.3, 0.1),
}


def hypertension_probability(diabetes: Numbers) -> Numbers:
    """Return the chance of known hypertension."""
    return np.where(diabetes, 0.6, 0.35)


def _two(probability: Numbers) -> Array:
    chance = np.asarray(probability, dtype=float)
    return np.stack([1.0 - chance, chance], axis=-1)


def _specific_gravity(sheet: Sheet) -> Array:
    centre = 1.0 + 2.3 * np.minimum(sheet.egfr, 100.0)[..., None] / 100.0
    weights = np.exp(-0.5 * (np.arange(5) - centre) ** 2)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _urine_sugar(sheet: Sheet) -> Array:
    with_diabetes = np.array([0.55, 0.12, 0.13, 0.12, 0.06, 0.02])
    without = np.array([0.93, 0.03, 0.02, 0.01, 0.005, 0.005])
    return np.where(sheet.diabetes[..., None], with_diabetes, without)


# Findings with few values: the probability of each value on the last axis.
GRADES: Mapping[str, Callable[[Sheet], Array]] = {
    "sg": _specific_gravity,
    "su": _urine_sugar,
    "rbc": lambda s: _two(expit(-2.4 + 2.4 * s.lost_function)),
    "pc": lambda s: _two(expit(-2.2 + 2.4 * s.lost_function)),
    "pcc": lambda s: _two(0.09 + 0.0 * s.egfr),
    "ba": lambda s: _two(0.06 + 0.0 * s.egfr),
    "cad": lambda s: _two(0.06 + 0.10 * s.diabetes),
    "appet": lambda s: _two(expit(-2.5 + 3.5 * s.lost_function)),
    "pe": lambda s: _two(expit(-2.5 + 3.0 * s.lost_function)),
    "ane": lambda s: _two(expit(-3.2 + 4.5 * s.lost_function)),
}
GRADE_VALUES: Mapping[str, tuple[float, ...]] = {"sg": (1.005, 1.010, 1.015, 1.020, 1.025)}
