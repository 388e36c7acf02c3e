"""Courses over several visits: how they are drawn, labelled on the latent course, and judged.

Definition: KDIGO 2012 and 2024, 2.1.3. Worsening is a drop in category with a fall of at least
25 %, or a sustained fall of more than 5 mL/min/1.73 m² per year that also exceeds the expected
variability of 20 %. Improving mirrors the first. Everything else is stable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr, ndtri

from krisis.data.base import Features, Label, Task
from krisis.data.ckd import latent
from krisis.data.ckd.cohort import Draws
from krisis.data.ckd.deferral import CHRONIC_DAYS, visible_reasons
from krisis.data.ckd.egfr import (
    CATEGORY_LIMITS,
    LOG_CREATININE_SD,
    Array,
    Numbers,
    category_index,
    ckd_epi_2021,
    creatinine_for,
    printed_down,
)
from krisis.data.ckd.posterior import posterior
from krisis.data.ckd.schema import Value, usable

MAX_VISITS = 4
DAYS_PER_YEAR = 365.25
Visit = tuple[int, float | None, float | None]  # day, creatinine, estimate
NOTHING_KNOWN = np.array([0.5, 0.25, 0.25])
LABELS = ("stable", "worsening", "improving")
STABLE_CHANGE, VARIABILITY, PROGRESSION_FALL = 0.125, 0.20, 0.25
RAPID_ML_MIN_PER_YEAR = 5.0
FIRST_GFR_RANGE = (4.0, 150.0)

# The prior of the log change over the course: (share, mean, standard deviation) of each kind.
_CHANGE_KINDS = ((0.36, 0.0, 0.05), (0.38, -0.50, 0.22), (0.26, 0.46, 0.20))
_CHANGE_STEP = -math.log1p(-PROGRESSION_FALL) / 24  # a fall of 25 % is the edge of a cell
_CHANGES = (np.arange(-120, 110) + 0.5) * _CHANGE_STEP
_HALF_CELL = _CHANGE_STEP / 2
_CHANGE_PRIOR = sum(
    share * (ndtr((_CHANGES + _HALF_CELL - mean) / sd) - ndtr((_CHANGES - _HALF_CELL - mean) / sd))
    for share, mean, sd in _CHANGE_KINDS
)


@dataclass(frozen=True, slots=True)
class Course:
    """The visits of one patient: days, printed creatinine (``None``: not measured), truth."""

    days: tuple[int, ...]
    creatinine: tuple[float | None, ...]
    first_gfr: float
    last_gfr: float

    @property
    def label(self) -> str:
        """Return the answer that the latent course deserves."""
        return LABELS[int(course_label(self.first_gfr, self.last_gfr, self.days[-1]))]


def course_label(first_gfr: Numbers, last_gfr: Numbers, n_days: float) -> Array:
    """Return the position in `LABELS` by the definition, for numbers or arrays."""
    first, last = np.asarray(first_gfr), np.asarray(last_gfr)
    ratio = last / first
    step = np.asarray(category_index(last)) - np.asarray(category_index(first))
    per_year = (first - last) * DAYS_PER_YEAR / n_days
    rapid = (per_year > RAPID_ML_MIN_PER_YEAR) & (ratio <= 1 - VARIABILITY)
    rapid &= n_days >= DAYS_PER_YEAR
    worse = ((ratio <= 1 - PROGRESSION_FALL) & (step < 0)) | rapid
    better = (ratio >= 1 + PROGRESSION_FALL) & (step > 0)
    return np.where(worse, 1, np.where(better, 2, 0))


def change_limits(last_gfr: Array, n_days: float) -> tuple[Array, Array]:
    """Return the log changes at which a course that ends here becomes worsening and improving.

    The definition of `course_label`, solved for the change: any larger fall is worsening too, any
    larger rise improving.
    """
    edges = np.array([1e-9, *CATEGORY_LIMITS, 1e9])  # below G5 and above G1 lies nothing
    category = category_index(last_gfr)
    from_above = np.log(last_gfr / edges[category + 1])
    worse = np.minimum(math.log1p(-PROGRESSION_FALL), from_above)
    if n_days >= DAYS_PER_YEAR:
        loss = RAPID_ML_MIN_PER_YEAR * n_days / DAYS_PER_YEAR
        rapid = np.minimum(math.log1p(-VARIABILITY), np.log(last_gfr / (last_gfr + loss)))
        worse = np.maximum(worse, rapid)
    better = np.maximum(math.log1p(PROGRESSION_FALL), np.log(last_gfr / edges[category]))
    return worse, better


def draw_courses(person: latent.Person, draws: Draws) -> list[Course]:
    """Draw a course for every person; the last visit has the person's filtration rate."""
    last = np.log(person.gfr)
    change = _draw_changes(last, draws)
    n_visits = 2 + np.searchsorted([0.35, 0.75], draws.uniform("n visits"), side="right")
    short = draws.uniform("short course") < 0.08
    length = draws.uniform("course length")
    n_days = np.where(short, 20 + np.floor(length * 65), 120 + np.floor(length * 1300)).astype(int)
    courses = []
    for index in range(draws.n):
        days = _visit_days(int(n_visits[index]), int(n_days[index]))
        courses.append(_course(person, index, days, float(change[index]), draws))
    return courses


def _draw_changes(last: Array, draws: Draws) -> Array:
    weights = _change_prior(last)
    cumulative = np.cumsum(weights, axis=1)
    cell = (draws.uniform("change")[:, None] >= cumulative[:, :-1]).sum(axis=1)
    jitter: Array = (draws.uniform("change place") - 0.5) * _CHANGE_STEP
    return np.asarray(_CHANGES[cell] + jitter)


def _change_prior(last: Array) -> Array:
    """Return the prior of each change given the last log rate; the first must be possible."""
    first = last[:, None] - _CHANGES[None, :]
    low, high = np.log(FIRST_GFR_RANGE)
    weights = np.where((first >= low) & (first <= high), _CHANGE_PRIOR, 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _visit_days(n_visits: int, n_days: int) -> tuple[int, ...]:
    return tuple(round(n_days * visit / (n_visits - 1)) for visit in range(n_visits))


def _course(
    person: latent.Person, index: int, days: tuple[int, ...], change: float, draws: Draws
) -> Course:
    generator = np.random.default_rng([draws.seed, draws.stream, 1, index])
    last = math.log(float(person.gfr[index]))
    shown: list[float | None] = []
    for day in days:
        gfr = math.exp(last - change * (1 - day / days[-1]))
        age = float(person.age[index]) - (days[-1] - day) / DAYS_PER_YEAR
        exact = creatinine_for(gfr, age, female=bool(person.female[index]))
        printed = exact * math.exp(LOG_CREATININE_SD * generator.standard_normal())
        hidden = generator.random() < 0.04
        shown.append(None if hidden else max(round(float(printed), 1), 0.1))
    first = round(math.exp(last - change), 2)
    return Course(days, tuple(shown), first, float(person.gfr[index]))


def course_features(course: Course, *, age: int, female: bool) -> dict[str, Value]:
    """Return the visits as features: day, creatinine, and the estimate that follows from it."""
    features: dict[str, Value] = {}
    for number, (day, value) in enumerate(zip(course.days, course.creatinine, strict=True), 1):
        features[f"visit_{number}_day"] = day
        features[f"visit_{number}_sc"] = value
        features[f"visit_{number}_egfr"] = (
            None
            if value is None
            else shown_egfr(value, age=age, female=female, days_before_last=course.days[-1] - day)
        )
    return features


def shown_egfr(creatinine: float, *, age: float, female: bool, days_before_last: float) -> float:
    """Return the estimate at a visit, to one decimal, with the age that the patient had then."""
    then = age - days_before_last / DAYS_PER_YEAR
    return printed_down(float(ckd_epi_2021(creatinine, then, female=female)), 1)


def assess(features: Features, *, exact: bool) -> tuple[dict[Label, float], list[str]]:
    """Return the probability of each answer and the visible reasons to defer."""
    visits = shown_visits(features)
    reasons = visible_reasons(features, Task.PROGRESSION)
    known = [(day, egfr) for day, _, egfr in visits if egfr is not None]
    if len(known) < 2:
        reasons.append("too_few_visits")
    elif visits[0][2] is None or visits[-1][2] is None:
        reasons.append("creatinine_missing")
    else:
        n_days, ratio = known[-1][0] - known[0][0], known[-1][1] / known[0][1]
        if n_days < CHRONIC_DAYS:
            reasons.append("chronicity_not_shown")
        if STABLE_CHANGE <= round(abs(ratio - 1), 9) < VARIABILITY:
            reasons.append("change_within_variability")
    found = _exact_probabilities(features, visits) if exact else _reader_probabilities(known)
    return dict(zip(LABELS, map(float, found), strict=True)), reasons


def shown_visits(features: Features) -> list[Visit]:
    """Return day, creatinine and estimate of each shown visit."""
    days = [(k, usable(features, f"visit_{k}_day")) for k in range(1, MAX_VISITS + 1)]
    return [
        (int(day), usable(features, f"visit_{k}_sc"), usable(features, f"visit_{k}_egfr"))
        for k, day in days
        if day is not None
    ]


def _reader_probabilities(visits: list[tuple[int, float]]) -> Array:
    """Return what the first and last estimate say, each with the error of one creatinine."""
    if len(visits) < 2:
        return NOTHING_KNOWN
    quantiles = ndtri((np.arange(60) + 0.5) / 60) * 1.2 * LOG_CREATININE_SD
    first = visits[0][1] * np.exp(quantiles)[:, None]
    last = visits[-1][1] * np.exp(quantiles)[None, :]
    labels = course_label(first, last, visits[-1][0] - visits[0][0])
    return np.bincount(labels.ravel(), minlength=3) / labels.size


def _exact_probabilities(features: Features, visits: list[Visit]) -> Array:
    """Sum the model over the last filtration rate and the change, given all that is shown."""
    grid = latent.gfr_grid()
    cells = posterior(features, without=frozenset({"sc"})).cells
    n_days = visits[-1][0]
    if visits[-1][1] is not None:
        cells = cells * _visit_likelihood(features, visits[-1], n_days, grid.log_gfr)
    kept = cells > 1e-12 * cells.max()  # the rest could not be seen in any printed digit
    log_last = grid.log_gfr[kept, None]
    weight = cells[kept, None] * _change_table()[kept]
    for visit in visits[:-1]:
        if visit[1] is not None:
            log_gfr = log_last - _CHANGES * (1 - visit[0] / n_days)
            weight = weight * _visit_likelihood(features, visit, n_days, log_gfr)
    worse_at, better_at = change_limits(np.exp(log_last), n_days)
    # A limit may cut through a cell: each part of the cell counts for its own answer.
    worse = np.clip((worse_at - _CHANGES) / _CHANGE_STEP + 0.5, 0.0, 1.0)
    better = np.clip((_CHANGES - better_at) / _CHANGE_STEP + 0.5, 0.0, 1.0)
    total = float(weight.sum())
    if not total > 0.0:
        return NOTHING_KNOWN  # a course that the cohort cannot hold
    p_worse, p_better = float((weight * worse).sum()), float((weight * better).sum())
    return np.array([max(0.0, total - p_worse - p_better), p_worse, p_better]) / total


_FINE_LOG_GFR = np.linspace(math.log(2.0), math.log(300.0), 2500)


def _visit_likelihood(features: Features, visit: Visit, n_days: int, log_gfr: Array) -> Array:
    """Return the probability of a printed creatinine, read off a fine table."""
    age, sex = usable(features, "age"), usable(features, "sex")
    assert age is not None
    assert visit[1] is not None
    then = age - (n_days - visit[0]) / DAYS_PER_YEAR
    person = latent.Person(np.exp(_FINE_LOG_GFR), then, sex, 0, 0)
    table = latent.MEASUREMENTS["sc"].likelihood(person, visit[1])
    return np.interp(log_gfr, _FINE_LOG_GFR, table)


@cache
def _change_table() -> Array:
    return _change_prior(latent.gfr_grid().log_gfr)
