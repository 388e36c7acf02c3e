"""The stated model of the embedded cohort: what a latent filtration rate makes of each finding.

`cohort` draws patients from it and `posterior` inverts it, so the two cannot drift apart. The
figures describe plausible physiology, they are fitted to no data set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from scipy.special import expit, ndtr

from krisis.data.ckd.egfr import CATEGORY_LIMITS, LOG_CREATININE_SD, Array, Numbers, creatinine_for

GFR_RANGE = (5.0, 130.0)
GFR_EDGES = (GFR_RANGE[0], *CATEGORY_LIMITS, GFR_RANGE[1])
AGES = np.arange(18, 91)
RAISED_ACR = math.log10(30.0)
_AGE_WEIGHTS = np.exp(-0.5 * ((AGES - 58) / 17) ** 2)
AGE_PROBABILITIES = _AGE_WEIGHTS / _AGE_WEIGHTS.sum()
FEMALE_PROBABILITY = 0.5
DIABETES_PROBABILITY = 0.3


@dataclass(frozen=True)  # no slots: what is derived is worked out once and kept
class Person:
    """Latent state and risk factors, as numbers or as arrays that broadcast together."""

    gfr: Numbers
    age: Numbers
    female: Numbers
    diabetes: Numbers
    hypertension: Numbers

    @cached_property
    def lost_function(self) -> Numbers:
        """Return how far the filtration rate lies below 60, between 0 and 1."""
        return np.maximum(60.0 - np.asarray(self.gfr), 0.0) / 60.0

    @cached_property
    def log_creatinine(self) -> Numbers:
        """Return the logarithm of the creatinine at the person's set point."""
        women = creatinine_for(self.gfr, self.age, female=True)
        men = creatinine_for(self.gfr, self.age, female=False)
        return np.log(np.where(self.female, women, men))


def hypertension_probability(diabetes: Numbers) -> Numbers:
    """Return the chance of known hypertension."""
    return np.where(diabetes, 0.6, 0.35)


def category_weights(age: Numbers, diabetes: Numbers, hypertension: Numbers) -> Array:
    """Return the prior of the six categories, worst first, on the last axis.

    Inside a category the logarithm of the filtration rate is uniform. Age, diabetes and
    hypertension shift weight towards the worse categories.
    """
    base = np.array([0.06, 0.10, 0.12, 0.14, 0.31, 0.27])
    severity = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])
    risk = 0.15 * np.asarray(diabetes) + 0.10 * np.asarray(hypertension)
    risk = risk + 0.012 * (np.asarray(age, dtype=float) - 55.0)
    weights = base * np.exp(risk[..., None] * severity)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def log_acr_mean(person: Person) -> Numbers:
    """Return the mean of log10 albumin-creatinine ratio in mg/g."""
    return 0.90 + 0.30 * np.asarray(person.diabetes) + 0.90 * person.lost_function


LOG_ACR_SD = 0.55
DIPSTICK_SD = 0.20
DIPSTICK_LIMITS = np.log10([30.0, 100.0, 300.0, 1000.0, 3000.0])


@dataclass(frozen=True, slots=True)
class Measurement:
    """A number with normal scatter around its mean, shown in steps; on the log scale if so said."""

    mean: Callable[[Person], Numbers]
    sd: float
    step: float
    logarithmic: bool = False

    def value(self, person: Person, scatter: Numbers) -> Array:
        """Return what the laboratory prints for standard normal scatter."""
        raw = self.mean(person) + self.sd * scatter
        raw = np.exp(raw) if self.logarithmic else raw
        return np.asarray(np.maximum(np.round(raw / self.step), 1) * self.step)

    def likelihood(self, person: Person, shown: float) -> Array:
        """Return the probability that exactly this value is printed."""
        low, high = self.edges(shown)
        return self.below(person, high) - self.below(person, low)

    def edges(self, shown: float) -> tuple[float, float]:
        """Return what is printed as this value; the lowest step takes all that lies below it."""
        low = shown - self.step / 2
        low = -math.inf if self.logarithmic and shown < 1.5 * self.step else round(low, 6)
        return low, round(shown + self.step / 2, 6)

    def below(self, person: Person, edge: float) -> Array:
        """Return the probability of a value below an edge."""
        if edge == -math.inf:
            return np.asarray(0.0)
        place = math.log(edge) if self.logarithmic else edge
        return np.asarray(ndtr((place - self.mean(person)) / self.sd))


MEASUREMENTS: Mapping[str, Measurement] = {
    "sc": Measurement(lambda p: p.log_creatinine, LOG_CREATININE_SD, 0.1, True),
    "bu": Measurement(lambda p: math.log(32) + 0.75 * p.log_creatinine, 0.34, 1.0, True),
    "pot": Measurement(lambda p: 4.2 + 0.8 * p.lost_function, 0.4, 0.1),
    "sod": Measurement(lambda p: 139.5 - 2.7 * p.lost_function, 2.8, 1.0),
    "bgr": Measurement(lambda p: math.log(112) + 0.45 * np.asarray(p.diabetes), 0.22, 1.0, True),
    "bp": Measurement(lambda p: 76.0 + 8.0 * np.asarray(p.hypertension), 9.0, 10.0),
    "wbcc": Measurement(lambda p: math.log(7600.0) + 0.0 * np.asarray(p.gfr), 0.25, 100.0, True),
    "hemo": Measurement(lambda p: np.where(p.female, 13.6, 15.0) - 4.2 * p.lost_function, 1.1, 0.1),
}

# Both follow the printed haemoglobin: (factor, standard deviation, step).
FROM_HAEMOGLOBIN: Mapping[str, tuple[float, float, float]] = {
    "pcv": (1 / 0.33, 1.3, 1.0),
    "rbcc": (1 / 2.95, 0.3, 0.1),
}


def _two(probability: Numbers) -> Array:
    chance = np.asarray(probability, dtype=float)
    return np.stack([1.0 - chance, chance], axis=-1)


def _specific_gravity(person: Person) -> Array:
    centre = 1.0 + 2.3 * np.minimum(np.asarray(person.gfr), 100.0)[..., None] / 100.0
    weights = np.exp(-0.5 * (np.arange(5) - centre) ** 2)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _urine_sugar(person: Person) -> Array:
    diabetic = np.asarray(person.diabetes)[..., None]
    with_diabetes = np.array([0.55, 0.12, 0.13, 0.12, 0.06, 0.02])
    without = np.array([0.93, 0.03, 0.02, 0.01, 0.005, 0.005])
    return np.where(diabetic, with_diabetes, without)


# Findings with few values: the probability of each value on the last axis.
GRADES: Mapping[str, Callable[[Person], Array]] = {
    "sg": _specific_gravity,
    "su": _urine_sugar,
    "rbc": lambda p: _two(expit(-2.4 + 2.4 * p.lost_function)),
    "pc": lambda p: _two(expit(-2.2 + 2.4 * p.lost_function)),
    "pcc": lambda p: _two(0.09 + 0.0 * np.asarray(p.gfr)),
    "ba": lambda p: _two(0.06 + 0.0 * np.asarray(p.gfr)),
    "cad": lambda p: _two(0.06 + 0.10 * np.asarray(p.diabetes)),
    "appet": lambda p: _two(expit(-2.5 + 3.5 * p.lost_function)),
    "pe": lambda p: _two(expit(-2.5 + 3.0 * p.lost_function)),
    "ane": lambda p: _two(expit(-3.2 + 4.5 * p.lost_function)),
}
GRADE_VALUES: Mapping[str, tuple[float, ...]] = {"sg": (1.005, 1.010, 1.015, 1.020, 1.025)}


@dataclass(frozen=True, slots=True)
class GfrGrid:
    """Cells of the log filtration rate that never straddle a category limit."""

    log_gfr: Array
    category: Array
    share_of_category: Array

    @property
    def gfr(self) -> Array:
        """Return the filtration rate at the middle of each cell."""
        return np.exp(self.log_gfr)


@cache
def gfr_grid(step: float = 0.0125) -> GfrGrid:
    """Return the grid on which the posterior is summed."""
    middles, categories, shares = [], [], []
    for index in range(len(GFR_EDGES) - 1):
        low, high = math.log(GFR_EDGES[index]), math.log(GFR_EDGES[index + 1])
        n_cells = math.ceil((high - low) / step)
        middles.append(low + (np.arange(n_cells) + 0.5) * (high - low) / n_cells)
        categories.append(np.full(n_cells, index))
        shares.append(np.full(n_cells, 1.0 / n_cells))
    return GfrGrid(np.concatenate(middles), np.concatenate(categories), np.concatenate(shares))
