"""The model of the embedded cohort: its parameters, and the tables that follow from them.

The latent quantities (usual eGFR, albumin-creatinine ratio, haemoglobin) have finitely many values,
the cells of the grids below. `cohort` draws from these tables and `posterior` sums over them, so a
posterior is exact and not an approximation. Which parameters are published and which were chosen,
with sources, is in docs/reference/suites/ckd.md.

lx is log(90 / eGFR), floored at -0.3: 0 at the lower limit of G1, 1.8 at the upper limit of G5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import expit, gammaincinv, ndtr, ndtri

from krisis.data.ckd.egfr import CATEGORY_LIMITS, LOG_CREATININE_SD, Array, Numbers

AGES = np.arange(18, 91)
ACR_LIMITS = (30.0, 300.0)
EGFR_STEP, ACR_STEP = 0.025, 0.16
EGFR_RANGE, ACR_RANGE = (4.0, 140.0), (0.4, 12_000.0)
HAEMOGLOBIN = np.arange(25, 235) / 10.0
GRAVITIES = (1.005, 1.010, 1.015, 1.020, 1.025)
CHRONIC_DAYS = 90
# Below these a value is in the stated unit, above in the other one: see `posterior`.
LARGEST_CREATININE, LARGEST_HAEMOGLOBIN = 20.0, 25.0


@dataclass(frozen=True, slots=True)
class Parameters:
    """Every number of the model; a logit where a probability depends on something."""

    age_mean: float = 60.0
    age_sd: float = 16.0
    female: float = 0.5
    diabetes: float = -0.95
    diabetes_per_year: float = 0.022
    # Usual eGFR: log-normal around an expectation that falls with age; disease lowers its
    # logarithm by a gamma variable.
    expected_at_25: float = 116.0
    expected_loss_per_year: float = 0.82
    spread: float = 0.13
    diseased: float = -0.02
    diseased_if_diabetes: float = 0.70
    diseased_per_year: float = 0.026
    loss_shape: float = 2.0
    loss_scale: float = 0.50
    hypertension: float = -0.40
    hypertension_per_lx: float = 1.02
    hypertension_per_year: float = 0.022
    hypertension_if_diabetes: float = 0.60
    log_acr: float = 2.10
    log_acr_per_lx: float = 1.50
    log_acr_if_diabetes: float = 0.45
    log_acr_if_hypertension: float = 0.30
    log_acr_sd: float = 1.40
    haematuria: float = 0.04
    haematuria_if_proteinuria: float = 0.12
    infection: float = 0.04
    infection_if_female: float = 0.05
    infection_after_70: float = 0.02
    short: float = 0.40
    acute: float = 0.35
    urea: float = math.log(32.0)
    urea_per_lx: float = 0.72
    urea_per_log_factor: float = 1.0
    urea_sd: float = 0.27
    potassium: float = 4.2
    potassium_per_lx: float = 0.34
    potassium_per_log_factor: float = 0.30
    potassium_sd: float = 0.43
    sodium: float = 139.8
    sodium_per_lx: float = -0.6
    sodium_sd: float = 2.8
    glucose: float = math.log(112.0)
    glucose_if_diabetes: float = 0.45
    glucose_sd: float = 0.22
    diastolic: float = 76.0
    diastolic_if_hypertension: float = 7.0
    diastolic_sd: float = 9.5
    haemoglobin_women: float = 13.75
    haemoglobin_men: float = 15.05
    haemoglobin_if_diabetes: float = -0.15
    haemoglobin_sd: float = 1.25
    haemoglobin_drop: float = 1.0
    gravity_centre: float = 2.9
    gravity_per_lx: float = -0.75
    dipstick_sd: float = 0.90
    dipstick_per_gravity: float = 0.40
    dipstick_if_infection: float = 1.2
    dipstick_shift: float = 0.0
    false_trace: float = 0.05
    appetite: float = -3.0
    appetite_per_lx: float = 1.15
    appetite_per_log_factor: float = 0.8
    oedema: float = -3.0
    oedema_per_lx: float = 0.65
    oedema_per_log_acr: float = 0.75
    coronary: float = -2.6
    coronary_per_year: float = 0.05
    coronary_if_diabetes: float = 0.6
    coronary_if_hypertension: float = 0.4
    coronary_per_lx: float = 0.3
    # Measured GFR against the usual eGFR, on the log scale; used by `measured_gfr` alone.
    equation_sd: float = 0.20

    # What a finding is expected to be: the cohort is drawn by it and the posterior judges by it.

    def expected_urea(self, lx: Array, log_factor: Numbers) -> Array:
        """Return the mean of log urea; an acute injury raises it."""
        by_injury = self.urea_per_log_factor * log_factor
        return np.asarray(self.urea + self.urea_per_lx * lx + by_injury)

    def expected_potassium(self, lx: Array, log_factor: Numbers) -> Array:
        """Return the mean of potassium."""
        by_injury = self.potassium_per_log_factor * log_factor
        return np.asarray(self.potassium + self.potassium_per_lx * lx + by_injury)

    def expected_sodium(self, lx: Array) -> Array:
        """Return the mean of sodium."""
        return np.asarray(self.sodium + self.sodium_per_lx * np.maximum(lx, 0.0))

    def expected_glucose(self, diabetes: Array) -> Array:
        """Return the mean of log glucose."""
        return self.glucose + self.glucose_if_diabetes * diabetes

    def expected_diastolic(self, hypertension: Array) -> Array:
        """Return the mean of the diastolic pressure."""
        return self.diastolic + self.diastolic_if_hypertension * hypertension

    def poor_appetite(self, lx: Array, log_factor: Numbers) -> Array:
        """Return the probability of a poor appetite."""
        by_function = self.appetite_per_lx * np.maximum(lx, 0.0)
        by_injury = self.appetite_per_log_factor * log_factor
        return np.asarray(expit(self.appetite + by_function + by_injury))


PARAMETERS = Parameters()
_DROP_AT = (0.0, 0.15, 0.65, 1.0, 1.25, 2.1, 3.2)
_DROP = (0.08, 0.36, 0.40, 1.10, 1.85, 1.90, 2.2)
_DIPSTICK_CUTS = np.log((80.0, 250.0, 700.0, 1800.0, 4200.0))
# Acute injury multiplies creatinine by one of these, log-evenly; 1 is no injury.
ACUTE_FACTORS = np.concatenate([[1.0], np.exp(np.linspace(math.log(1.5), math.log(3.0), 6))])
LOWEST_EGFR_WITH_ACUTE = 15.0
# With and without infection: pus cells, clumps, bacteria.
URINE = {"pc": (0.08, 0.88), "pcc": (0.03, 0.55), "ba": (0.03, 0.75)}
RED_CELLS, RED_CELLS_IF_HAEMATURIA, RED_CELLS_IF_INFECTION = 0.04, 0.82, 0.45
URINE_SUGAR = np.array(
    [[0.93, 0.03, 0.02, 0.01, 0.005, 0.005], [0.55, 0.12, 0.13, 0.12, 0.06, 0.02]]
)
PCV_PER_HAEMOGLOBIN, PCV_SD = 3.0, 1.3
RED_COUNT_PER_HAEMOGLOBIN, RED_COUNT_SD = 1 / 2.95, 0.3
EQUATION_NODES = ndtri((np.arange(11) + 0.5) / 11)


@dataclass(frozen=True, slots=True)
class Cells:
    """A grid on the log scale whose cells never straddle a limit."""

    log_value: Array
    group: Array

    @property
    def value(self) -> Array:
        """Return the value in the middle of each cell."""
        return np.asarray(np.exp(self.log_value))

    @property
    def starts(self) -> Array:
        """Return the first cell of each group."""
        return np.searchsorted(self.group, np.arange(self.group[-1] + 1))


def cells(limits: tuple[float, ...], step: float) -> Cells:
    """Cut the range between the outer limits into cells of about ``step``, grouped by limits."""
    middles, groups = [], []
    for group, (low, high) in enumerate(pairwise(np.log(limits))):
        n_cells = math.ceil((high - low) / step)
        middles.append(low + (np.arange(n_cells) + 0.5) * (high - low) / n_cells)
        groups.append(np.full(n_cells, group))
    return Cells(np.concatenate(middles), np.concatenate(groups))


@lru_cache(maxsize=4)
def egfr_cells(step: float = EGFR_STEP) -> Cells:
    """Return the cells of the usual eGFR; the groups are G5 to G1."""
    return cells((EGFR_RANGE[0], *CATEGORY_LIMITS, EGFR_RANGE[1]), step)


@lru_cache(maxsize=1)
def acr_cells() -> Cells:
    """Return the cells of the albumin-creatinine ratio; the groups are A1 to A3."""
    return cells((ACR_RANGE[0], *ACR_LIMITS, ACR_RANGE[1]), ACR_STEP)


def lx_of(egfr: Numbers) -> Array:
    """Return log(90 / eGFR), floored."""
    return np.maximum(np.log(90.0 / np.asarray(egfr)), -0.3)


def largest_egfr(age: Numbers) -> Array:
    """Return the highest usual eGFR of an age: a creatinine of 0.5 in women and 0.6 in men."""
    return np.asarray(155.0 * 0.9938 ** np.asarray(age, dtype=float))


@dataclass(frozen=True, slots=True)
class Tables:
    """The probabilities that follow from the parameters, by cell.

    ``egfr``: diabetes × age × eGFR. ``acr``: diabetes × hypertension × eGFR × ACR.
    ``haemoglobin``: sex × diabetes × eGFR × bin. ``gravity``: eGFR × step. ``dipstick``: gravity ×
    infection × ACR × grade. ``haematuria``: ACR. ``oedema``: eGFR × ACR.
    """

    parameters: Parameters
    grid: Cells
    lx: Array
    ages: Array
    egfr: Array
    acr: Array
    haemoglobin: Array
    gravity: Array
    dipstick: Array
    haematuria: Array
    oedema: Array

    def diabetes(self, age: Numbers) -> Array:
        """Return the probability of known diabetes."""
        p = self.parameters
        return np.asarray(expit(p.diabetes + p.diabetes_per_year * (np.asarray(age) - 60)))

    def hypertension(self, age: Numbers, diabetes: Numbers, lx: Numbers) -> Array:
        """Return the probability of known hypertension."""
        p = self.parameters
        return np.asarray(
            expit(
                p.hypertension
                + p.hypertension_per_lx * lx
                + p.hypertension_per_year * (age - 60)
                + p.hypertension_if_diabetes * diabetes
            )
        )

    def infection(self, age: Numbers, female: Numbers) -> Array:
        """Return the probability of a urinary infection."""
        p = self.parameters
        return np.asarray(
            p.infection
            + p.infection_if_female * np.asarray(female)
            + p.infection_after_70 * (np.asarray(age) > 70)
        )

    def coronary(
        self, age: Numbers, diabetes: Numbers, hypertension: Numbers, lx: Numbers
    ) -> Array:
        """Return the probability of known coronary disease."""
        p = self.parameters
        return np.asarray(
            expit(
                p.coronary
                + p.coronary_per_year * (age - 60)
                + p.coronary_if_diabetes * diabetes
                + p.coronary_if_hypertension * hypertension
                + p.coronary_per_lx * np.maximum(lx, 0.0)
            )
        )


@lru_cache(maxsize=8)
def tables(parameters: Parameters = PARAMETERS, step: float = EGFR_STEP) -> Tables:
    """Build the tables; about 0.05 s, once per process."""
    p, grid = parameters, egfr_cells(step)
    lx = lx_of(grid.value)
    ages = np.exp(-0.5 * ((AGES - p.age_mean) / p.age_sd) ** 2)
    return Tables(
        p,
        grid,
        lx,
        ages / ages.sum(),
        _egfr_table(p, grid),
        _acr_table(p, lx),
        _haemoglobin_table(p, lx),
        _gravity_table(p, lx),
        _dipstick_table(p),
        _haematuria_table(p),
        _oedema_table(p, lx),
    )


def _egfr_table(p: Parameters, grid: Cells) -> Array:
    """Return P(cell | diabetes, age): healthy and diseased people mixed, cut by age."""
    losses = p.loss_scale * gammaincinv(p.loss_shape, (np.arange(200) + 0.5) / 200)
    # The density at a distance from the expectation, healthy and diseased, on a fine line.
    line = np.arange(-5.0, 1.2, 0.01)
    healthy = np.exp(-0.5 * (line / p.spread) ** 2) / p.spread
    diseased = np.exp(-0.5 * ((line[:, None] + losses) / p.spread) ** 2).mean(axis=1) / p.spread
    expected = np.log(p.expected_at_25 - p.expected_loss_per_year * (AGES - 25.0))
    distance = grid.log_value - expected[:, None]
    inside = grid.value <= largest_egfr(AGES)[:, None]
    width = np.gradient(grid.log_value)
    parts = [
        np.interp(distance, line, density, left=0.0, right=0.0) * width * inside
        for density in (healthy, diseased)
    ]
    healthy, diseased = (part / part.sum(axis=1, keepdims=True) for part in parts)
    logit = p.diseased + p.diseased_per_year * (AGES - 60.0)
    share = expit(np.stack([logit, logit + p.diseased_if_diabetes]))[..., None]
    return np.asarray((1 - share) * healthy + share * diseased)


def _acr_table(p: Parameters, lx: Array) -> Array:
    log_acr = acr_cells().log_value
    found = np.empty((2, 2, len(lx), len(log_acr)))
    for diabetes in (0, 1):
        for hypertension in (0, 1):
            mean = (
                p.log_acr
                + p.log_acr_per_lx * np.maximum(lx, 0.0)
                + p.log_acr_if_diabetes * diabetes
                + p.log_acr_if_hypertension * hypertension
            )
            weights = np.exp(-0.5 * ((log_acr - mean[:, None]) / p.log_acr_sd) ** 2)
            weights *= np.gradient(log_acr)
            found[diabetes, hypertension] = weights / weights.sum(axis=1, keepdims=True)
    return found


def _haemoglobin_table(p: Parameters, lx: Array) -> Array:
    drop = p.haemoglobin_drop * np.interp(lx, _DROP_AT, _DROP)
    usual = np.array([p.haemoglobin_men, p.haemoglobin_women])
    diabetes = np.array([0.0, p.haemoglobin_if_diabetes])
    mean = (usual[:, None] + diabetes)[:, :, None] - drop
    edges = (HAEMOGLOBIN[:-1] + HAEMOGLOBIN[1:]) / 2
    below = ndtr((edges - mean[..., None]) / p.haemoglobin_sd)
    ends = (*below.shape[:-1], 1)
    return np.diff(np.concatenate([np.zeros(ends), below, np.ones(ends)], axis=-1), axis=-1)


def _gravity_table(p: Parameters, lx: Array) -> Array:
    centre = p.gravity_centre + p.gravity_per_lx * lx[:, None]
    weights = np.exp(-0.5 * (np.arange(5) - centre) ** 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _dipstick_table(p: Parameters) -> Array:
    """Return P(grade | gravity, infection, ACR): a dilute urine reads low, pus reads high."""
    log_acr = acr_cells().log_value + p.dipstick_shift
    gravity = p.dipstick_per_gravity * (np.arange(5) - 2)
    infection = np.array([0.0, p.dipstick_if_infection])
    read = gravity[:, None, None] + infection[:, None] + log_acr
    below = ndtr((_DIPSTICK_CUTS - read[..., None]) / p.dipstick_sd)
    ends = (*below.shape[:-1], 1)
    found = np.diff(np.concatenate([np.zeros(ends), below, np.ones(ends)], axis=-1), axis=-1)
    trace = p.false_trace * found[..., 0]
    found[..., 0] -= trace
    found[..., 1] += trace
    return found


def _haematuria_table(p: Parameters) -> Array:
    proteinuria = expit((acr_cells().log_value - math.log(300.0)) / 0.6)
    return np.asarray(p.haematuria + p.haematuria_if_proteinuria * proteinuria)


def _oedema_table(p: Parameters, lx: Array) -> Array:
    above = np.maximum(acr_cells().log_value - math.log(300.0), 0.0)
    by_function = p.oedema_per_lx * np.maximum(lx, 0.0)[:, None]
    return np.asarray(expit(p.oedema + by_function + p.oedema_per_log_acr * above))


@dataclass(frozen=True, slots=True)
class Printed:
    """How a laboratory prints a number with normal scatter: in steps, on the log scale if so."""

    step: float
    logarithmic: bool = False
    lowest: float = 0.0

    def draw(self, mean: Array, sd: float, scatter: Array) -> Array:
        """Return what is printed for standard normal scatter."""
        raw = mean + sd * scatter
        raw = np.exp(raw) if self.logarithmic else raw
        steps = np.maximum(np.round(raw / self.step), np.round(self.lowest / self.step))
        return np.asarray(np.round(steps * self.step, 6))

    def probability(self, printed: Array, mean: Array, sd: float) -> Array:
        """Return P(printed | mean); the lowest step takes everything below it."""
        low, high = printed - self.step / 2, printed + self.step / 2
        if self.logarithmic:
            low, high = np.log(np.maximum(low, 1e-9)), np.log(high)
        below = np.where(printed <= self.lowest + 1e-9, 0.0, ndtr((low - mean) / sd))
        return np.asarray(ndtr((high - mean) / sd) - below)


CREATININE = Printed(0.1, logarithmic=True, lowest=0.1)
CREATININE_SD = LOG_CREATININE_SD
UREA = Printed(1.0, logarithmic=True, lowest=1.0)
POTASSIUM = Printed(0.1, lowest=1.5)
SODIUM = Printed(1.0, lowest=90.0)
GLUCOSE = Printed(1.0, logarithmic=True, lowest=15.0)
DIASTOLIC = Printed(10.0, lowest=30.0)
PACKED_CELLS = Printed(1.0, lowest=5.0)
RED_COUNT = Printed(0.1, lowest=0.8)
