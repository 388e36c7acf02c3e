"""Courses over several visits: how a change is drawn, labelled by the definition, and judged.

Worsening, KDIGO 2012 and 2024, 2.1.3: a drop in category with a fall of at least 25 %, or a
sustained fall of more than 5 mL/min/1.73 m² per year that also exceeds the expected variability of
20 %. Where a RAS or SGLT2 inhibitor was started, a rise in creatinine of up to 30 % is its expected
effect and no worsening. Improving, which mirrors the first, is a word of krisis; everything else is
stable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.special import ndtri

from krisis.data.base import Features, Label, Task
from krisis.data.ckd import setting
from krisis.data.ckd.deferral import CHRONIC_DAYS, sheet_cannot_be_right, visible_reasons
from krisis.data.ckd.egfr import (
    LOG_CREATININE_SD,
    Array,
    Numbers,
    category_index,
    ckd_epi_2021,
    creatinine_for,
    printed_down,
)
from krisis.data.ckd.posterior import printed_probability
from krisis.data.ckd.schema import Value, is_implausible, usable

MAX_VISITS = 4
DAYS_PER_YEAR = 365.25
Visit = tuple[int, float | None, float | None]  # day, creatinine, estimate
LABELS = ("stable", "worsening", "improving")
WORSENING = np.array([False, True, False])
STABLE_CHANGE, VARIABILITY, PROGRESSION_FALL = 0.125, 0.20, 0.25
RAPID_ML_MIN_PER_YEAR = 5.0
# The fall that goes with a rise in creatinine of 30 % above the knee of the equation.
DRUG_FALL = 1 - 1.3**-1.2


@dataclass(frozen=True, slots=True)
class Course:
    """The visits of one patient: days and printed creatinine (``None``: not measured)."""

    days: tuple[int, ...]
    creatinine: tuple[float | None, ...]


def course_label(first: Numbers, last: Numbers, n_days: float, *, drug: bool = False) -> Array:
    """Return the position in `LABELS` by the definition, for numbers or arrays."""
    first, last = np.asarray(first), np.asarray(last)
    ratio = last / first
    step = np.asarray(category_index(last)) - np.asarray(category_index(first))
    per_year = (first - last) * DAYS_PER_YEAR / n_days
    rapid = (per_year > RAPID_ML_MIN_PER_YEAR) & (ratio <= 1 - VARIABILITY)
    rapid &= n_days >= DAYS_PER_YEAR
    worse = ((ratio <= 1 - PROGRESSION_FALL) & (step < 0)) | rapid
    if drug:
        worse &= ratio <= 1 - DRUG_FALL
    better = (ratio >= 1 + PROGRESSION_FALL) & (step > 0)
    return np.where(worse, 1, np.where(better, 2, 0))


def change_limits(first: Array, n_days: float, *, drug: bool = False) -> tuple[Array, Array]:
    """Return the log changes at which a course that begins here becomes worsening and improving.

    The definition of `course_label`, solved for the change: any larger fall is worsening too, any
    larger rise improving.
    """
    edges = np.array([1e-9, *setting.EGFR_EDGES[1:-1], 1e9])  # below G5 and above G1 lies nothing
    category = category_index(first)
    worse = np.minimum(math.log1p(-PROGRESSION_FALL), np.log(edges[category] / first))
    if n_days >= DAYS_PER_YEAR:
        loss = RAPID_ML_MIN_PER_YEAR * n_days / DAYS_PER_YEAR
        left = np.log(np.maximum(first - loss, 1e-9) / first)
        worse = np.maximum(worse, np.minimum(math.log1p(-VARIABILITY), left))
    if drug:
        worse = np.minimum(worse, math.log1p(-DRUG_FALL))
    better = np.maximum(math.log1p(PROGRESSION_FALL), np.log(edges[category + 1] / first))
    return worse, better


_CELLS_PER_BAND = 16


@cache
def _changes() -> tuple[Array, Array, Array]:
    """Return middle, width and probability of the cells of the log change."""
    bands = np.array(setting.CHANGE_BANDS)
    low, high = np.log1p(bands[:, 0]), np.log1p(bands[:, 1])
    width = np.repeat((high - low) / _CELLS_PER_BAND, _CELLS_PER_BAND)
    place = np.tile(np.arange(_CELLS_PER_BAND) + 0.5, len(bands))
    share = np.repeat(bands[:, 2] / _CELLS_PER_BAND, _CELLS_PER_BAND)
    return np.repeat(low, _CELLS_PER_BAND) + place * width, width, share


def change_prior(first: Array) -> Array:
    """Return the probability of each change; the last eGFR must stay in the range of the first."""
    middle, _, share = _changes()
    last = np.log(first)[:, None] + middle
    low, high = np.log(setting.EGFR_RANGE)
    weights = np.where((last >= low) & (last <= high), share, 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def draw_changes(first: Array, draw: Array) -> Array:
    """Return the log change that a uniform number chooses for each first eGFR."""
    middle, width, _ = _changes()
    prior = change_prior(first)
    cumulative = np.cumsum(prior, axis=1)
    cell = (draw[:, None] >= cumulative[:, :-1]).sum(axis=1)
    rows = np.arange(len(first))
    into = 1.0 - (cumulative[rows, cell] - draw) / prior[rows, cell]
    return np.asarray(middle[cell] + (np.clip(into, 0.0, 1.0) - 0.5) * width[cell])


def course_features(
    days: Sequence[int], creatinine: Sequence[float | None], *, age: float, female: bool
) -> dict[str, Value]:
    """Return the visits as features: day, creatinine, and the estimate that follows from it."""
    features: dict[str, Value] = {}
    for number, (day, value) in enumerate(zip(days, creatinine, strict=True), 1):
        features[f"visit_{number}_day"] = day
        features[f"visit_{number}_sc"] = value
        features[f"visit_{number}_egfr"] = (
            None
            if value is None or is_implausible("sc", value)
            else shown_egfr(value, age=age, female=female, days_before_last=days[-1] - day)
        )
    return features


def shown_egfr(creatinine: float, *, age: float, female: bool, days_before_last: float) -> float:
    """Return the estimate at a visit, to one decimal, with the age that the patient had then."""
    then = age - days_before_last / DAYS_PER_YEAR
    return printed_down(float(ckd_epi_2021(creatinine, then, female=female)), 1)


def course_reasons(features: Features) -> list[str]:
    """Return the reasons by rule to defer a shown course."""
    visits = shown_visits(features)
    reasons = visible_reasons(features, Task.PROGRESSION)
    known = [(day, egfr) for day, _, egfr in visits if egfr is not None]
    if len(known) < 2:
        return [*reasons, "too_few_visits"]
    if visits[0][2] is None or visits[-1][2] is None:
        return [*reasons, "creatinine_missing"]
    ratio = known[-1][1] / known[0][1]
    if known[-1][0] - known[0][0] < CHRONIC_DAYS:
        reasons.append("chronicity_not_shown")
    if STABLE_CHANGE <= round(abs(ratio - 1), 9) < VARIABILITY:
        reasons.append("change_within_variability")
    return reasons


def shown_visits(features: Features) -> list[Visit]:
    """Return day, creatinine and estimate of each shown visit."""
    days = [(k, usable(features, f"visit_{k}_day")) for k in range(1, MAX_VISITS + 1)]
    return [
        (int(day), usable(features, f"visit_{k}_sc"), usable(features, f"visit_{k}_egfr"))
        for k, day in days
        if day is not None
    ]


def by_label(probabilities: Array) -> dict[Label, float]:
    """Return the probabilities under the names of the answers."""
    return dict(zip(LABELS, map(float, probabilities), strict=True))


def reader_probabilities(features: Features) -> Array:
    """Return what the first and last estimate say, each with the error of one creatinine."""
    visits = [(day, egfr) for day, _, egfr in shown_visits(features) if egfr is not None]
    if len(visits) < 2:
        return np.full(3, 1 / 3)
    quantiles = ndtri((np.arange(60) + 0.5) / 60) * 1.2 * LOG_CREATININE_SD
    first = visits[0][1] * np.exp(quantiles)[:, None]
    last = visits[-1][1] * np.exp(quantiles)[None, :]
    drug = bool(usable(features, "drug_started"))
    labels = course_label(first, last, visits[-1][0] - visits[0][0], drug=drug)
    return np.bincount(labels.ravel(), minlength=3) / labels.size


def course_posterior(features: Features) -> tuple[Array, Array]:
    """Return the probability of each answer given what is shown, and before anything was seen.

    Summed over the first usual eGFR and the change; before means given the days and the drug.
    """
    visits = shown_visits(features)
    n_days, drug = visits[-1][0], bool(usable(features, "drug_started"))
    parts, before = _parts(n_days, drug)
    known = usable(features, "dm")
    weight = _prior(0) + _prior(1) if known is None else _prior(int(known))
    likelihood = _first_likelihood(features, visits[0], n_days)
    kept = likelihood > 1e-12 * likelihood.max()  # the rest could not be seen in any printed digit
    weight = weight[kept] * likelihood[kept, None]
    for visit in visits[1:]:
        if visit[1] is not None:
            log_egfr = _log_first()[kept, None] + _changes()[0] * (visit[0] / n_days)
            weight = weight * _visit_likelihood(features, visit, n_days, log_egfr)
    # A course that the cohort cannot hold teaches nothing.
    found = before
    if weight.sum() > 0.0:
        found = _sums(weight, parts[0][kept], parts[1][kept])
    if sheet_cannot_be_right(features):
        mixed = setting.MIXED_UP_PROBABILITY
        found = mixed * before + (1 - mixed) * found
    return found, before


def _first_likelihood(features: Features, visit: Visit, n_days: int) -> Array:
    if visit[1] is None:
        return np.ones(len(_log_first()))
    return _visit_likelihood(features, visit, n_days, _log_first())


def _sums(weight: Array, worse: Array, better: Array) -> Array:
    """Return the share of each answer in the weight of all cells."""
    total = float(weight.sum())
    p_worse, p_better = float((weight * worse).sum()), float((weight * better).sum())
    return np.array([max(0.0, total - p_worse - p_better), p_worse, p_better]) / total


@lru_cache(maxsize=64)
def _parts(n_days: int, drug: bool) -> tuple[tuple[Array, Array], Array]:
    """Return which part of every cell is worsening and improving, and the prior of the answers."""
    middle, width, _ = _changes()
    worse_at, better_at = change_limits(np.exp(_log_first())[:, None], n_days, drug=drug)
    # A limit may cut through a cell: each part of the cell counts for its own answer.
    worse = np.clip((worse_at - middle) / width + 0.5, 0.0, 1.0)
    better = np.clip((middle - better_at) / width + 0.5, 0.0, 1.0)
    return (worse, better), _sums(_prior(0) + _prior(1), worse, better)


_GRID_STEP = 0.025


def _log_first() -> Array:
    return setting.egfr_grid(_GRID_STEP).log_egfr


@cache
def _prior(diabetes: int) -> Array:
    """Return the probability of diabetes, each first eGFR and each change."""
    grid = setting.egfr_grid(_GRID_STEP)
    chance = setting.DIABETES_PROBABILITY if diabetes else 1 - setting.DIABETES_PROBABILITY
    first = chance * setting.CATEGORY_SHARES[diabetes][grid.category] * grid.share_of_category
    return np.asarray(first[:, None] * change_prior(np.exp(grid.log_egfr)))


_FINE_LOG_EGFR = np.linspace(math.log(2.0), math.log(300.0), 1500)


def _visit_likelihood(features: Features, visit: Visit, n_days: int, log_egfr: Array) -> Array:
    """Return the probability of a printed creatinine, read off a fine table."""
    day, printed, _ = visit
    age, sex = usable(features, "age"), usable(features, "sex")
    assert age is not None
    assert printed is not None
    then = age - (n_days - day) / DAYS_PER_YEAR
    mean = np.log(creatinine_for(np.exp(_FINE_LOG_EGFR), then, female=bool(sex)))
    may_be_acute = n_days < CHRONIC_DAYS and day == n_days
    table = printed_probability(printed, mean, may_be_acute=may_be_acute)
    return np.interp(log_egfr, _FINE_LOG_EGFR, table)
