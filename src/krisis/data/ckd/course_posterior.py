"""The exact posterior of a course: P(answer | all visits and findings).

Not shown are the first level, the slope, the dip after a drug, and the acute injury with its visit,
factor and recovery. First level, slope and dip have finitely many values; for each of them the
injury is summed out visit by visit. Creatinine is raised by nothing, by an injury of one of six
factors, or by what a partial recovery leaves of it: the thirteen columns of `_LOG_RAISED`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from krisis.data.base import Features
from krisis.data.ckd.cohort_model import (
    ACUTE_FACTORS,
    CREATININE,
    CREATININE_SD,
    LOWEST_EGFR_WITH_ACUTE,
    PARAMETERS,
    Parameters,
    largest_egfr,
    tables,
)
from krisis.data.ckd.courses import (
    COURSE_PARAMETERS,
    DAYS_PER_YEAR,
    DIP_SHARES,
    DIPS,
    DISEASE_BELOW,
    FIRST_STEP,
    LASTING,
    LOG_FACTORS,
    SLOPES,
    CourseParameters,
    Decline,
    better_limit,
    highest_creatinine,
    in_window,
    linear_decline,
    plain_dipstick,
    raised_level,
    recovery_table,
    shown_visits,
    slope_table,
    worse_limit,
)
from krisis.data.ckd.egfr import Array, log_creatinine_for
from krisis.data.ckd.schema import usable

# Courses below this share of the likeliest are left out: no printed digit would show them.
NEGLIGIBLE = 1e-9
_INJURED = slice(1, 1 + len(LOG_FACTORS))
_PARTIAL = slice(_INJURED.stop, _INJURED.stop + len(LOG_FACTORS))
_LOG_RAISED = np.concatenate([[0.0], LOG_FACTORS, LASTING[1] * LOG_FACTORS])
_LINE_STEP, _BEYOND = 0.002, 7.5 * CREATININE_SD
Kept = tuple[Array, ...]  # places of courses: first level, slope, dip


def course_posterior(
    features: Features,
    *,
    parameters: Parameters = PARAMETERS,
    courses: CourseParameters = COURSE_PARAMETERS,
    decline: Decline = linear_decline,
) -> Array:
    """Return P(answer | everything that is shown) in the order of `courses.COURSES`.

    Other parameters make a reader with wrong numbers, another ``decline`` one who believes in
    another model.
    """
    n_days, age, female = shown_visits(features)[-1][0], _number(features, "age"), features["sex"]
    drug_day = usable(features, "drug_day") if features.get("drug_started") else None
    first, visits = _visits(features, drug_day, parameters, courses, decline)
    findings = (_whole(features, name) for name in ("dm", "htn", "al"))
    prior = _prior(*findings, int(age), parameters, courses)[first]
    weight = prior[:, :, None] * (DIP_SHARES if drug_day is not None else 1.0)
    # The answers, in the logarithm of the last creatinine: the limits follow from the first level.
    window = drug_day is not None and bool(in_window(drug_day, n_days))
    level = visits[0].level[:, :, 0]
    began = raised_level(level, np.log(ACUTE_FACTORS), age - n_days / DAYS_PER_YEAR, female)
    limits = worse_limit(began, n_days, drug_window=window), better_limit(began)
    worse, better = (log_creatinine_for(np.log(one), age, female=female) for one in limits)
    steady, hurt = _possible(visits, weight)
    chances, totals = recovery_table(courses) / len(LOG_FACTORS), np.zeros(3)

    def add(kept: Kept, likelihood: Array, raised: Array, state: slice) -> None:
        mass = likelihood * weight[kept][:, None]
        last = visits[-1].raised(kept, raised)
        falls = mass[last >= worse[kept[0], state]].sum()
        rises = mass[last <= better[kept[0], state]].sum()
        totals[:] += (mass.sum() - falls - rises, falls, rises)

    add(steady, _without_first_injury(visits, steady, chances), _LOG_RAISED, slice(0, 1))
    by_recovery = _with_first_injury(visits, hurt, chances)
    for stays, likelihood in zip(LASTING, by_recovery, strict=True):
        add(hurt, likelihood, stays * LOG_FACTORS, slice(1, None))
    if totals.sum() <= 0.0:  # a course that the cohort cannot hold teaches nothing
        return np.full(3, 1 / 3)
    return np.asarray(np.maximum(totals, 0.0) / totals.sum())


def _number(features: Features, name: str) -> float:
    value = usable(features, name)
    assert value is not None, name
    return value


def _whole(features: Features, name: str) -> int | None:
    value = usable(features, name)
    return None if value is None else int(value)


@lru_cache(maxsize=1024)
def _prior(
    diabetes: int | None, hypertension: int | None, grade: int | None, age: int,
    parameters: Parameters, courses: CourseParameters,
) -> Array:  # fmt: skip
    """Return P(first level, slope, what is shown of diabetes, hypertension and dipstick | age)."""
    made = tables(parameters, FIRST_STEP)
    reading = 1.0 if grade is None else plain_dipstick(made)[:, grade]
    found = np.zeros((len(made.lx), len(SLOPES)))
    for dm in (0, 1) if diabetes is None else (diabetes,):
        chance = made.diabetes(age)
        first = made.egfr[dm, age - 18] * (chance if dm else 1 - chance)
        raised = made.hypertension(age, dm, made.lx)
        for htn in (0, 1) if hypertension is None else (hypertension,):
            weight = first * (raised if htn else 1 - raised)
            by_slope = (made.acr[dm, htn] * reading) @ slope_table(courses)[dm]
            found += weight[:, None] * by_slope
    return found


@dataclass(frozen=True, slots=True)
class _Reading:
    """P(printed creatinine | log of the usual one, what raises it), on a fine line of the log.

    ``table``: line × `_LOG_RAISED`; ``steps`` lead from one point to the next. The highest values
    are those without an injury (``calm``), with one (``injured``), and of either.
    """

    low: float
    table: Array
    steps: Array
    calm: Array
    injured: Array
    either: Array

    @property
    def high(self) -> float:
        """Return the end of the line."""
        return self.low + _LINE_STEP * len(self.steps)

    def at(self, mean: Array) -> Array:
        """Return the probabilities, means × `_LOG_RAISED`, between two points of the line."""
        place = (mean - self.low) / _LINE_STEP
        whole = self._whole(place)
        found = self.steps.take(whole, axis=0)
        found *= (place - whole)[:, None]
        found += self.table.take(whole, axis=0)
        return np.asarray(found)

    def most(self, mean: Array) -> tuple[Array, Array, Array]:
        """Return what the probability can be at most: without injury, with one, either."""
        whole = self._whole((mean - self.low) / _LINE_STEP)
        return self.calm.take(whole), self.injured.take(whole), self.either.take(whole)

    def _whole(self, place: Array) -> Array:
        """Return the point of the line below a place; at its ends all is next to 0."""
        return np.minimum(np.maximum(place.astype(np.intp), 0), len(self.steps) - 1)


@lru_cache(maxsize=512)
def _reading(printed: float) -> _Reading:
    low = math.log(max(printed - 0.05, 0.01)) - _LOG_RAISED.max() - _BEYOND
    line = np.arange(low, math.log(printed + 0.05) + _BEYOND, _LINE_STEP)
    value = np.array(printed)
    table = CREATININE.probability(value, line[:, None] + _LOG_RAISED, CREATININE_SD)
    calm, injured = table[:, 0].copy(), table[:, _INJURED].max(axis=1)
    return _Reading(low, table, np.diff(table, axis=0), calm, injured, table.max(axis=1))


@dataclass(frozen=True, slots=True)
class _Visit:
    """What one visit says of every possible course: first level × slope × dip.

    ``level`` and ``mean`` (of log creatinine) are those without an injury; axes that do not matter
    have a length of 1. ``highest`` is the log creatinine up to which an injury raises it, ``acute``
    the chance of an injury where one is possible.
    """

    reading: _Reading | None
    level: Array
    mean: Array
    highest: float
    acute: float

    @property
    def is_limited(self) -> bool:
        """Say whether the highest creatinine could be read so; else its limit does not matter."""
        return self.reading is not None and self.reading.high > self.highest

    def most(self) -> tuple[Array | float, ...]:
        """Return what the likelihood can be at most: without injury, with one, either."""
        return (1.0, 1.0, 1.0) if self.reading is None else self.reading.most(self.mean)

    def raised(self, kept: Kept, raised: Array) -> Array:
        """Return the log creatinine of some courses: courses × what raises it."""
        mean = _at(self.mean, kept)[:, None]
        return np.asarray(np.minimum(mean + raised, np.maximum(mean, self.highest)))

    def seen(self, kept: Kept) -> Array:
        """Return the likelihood of some courses by what raises creatinine."""
        if self.reading is None:
            return np.ones((1, len(_LOG_RAISED)))
        mean = _at(self.mean, kept)
        found = self.reading.at(mean)
        if self.is_limited:
            highest = np.maximum(mean, self.highest)
            limited = mean[:, None] + _LOG_RAISED > highest[:, None]
            found = np.where(limited, self.reading.at(highest)[:, :1], found)
        return found

    def hazard(self, kept: Kept) -> Array:
        """Return P(injury at this visit | none before) of some courses."""
        return np.where(_at(self.level, kept) > LOWEST_EGFR_WITH_ACUTE, self.acute, 0.0)

    def injury(self, kept: Kept, seen: Array, chances: Array) -> Array:
        """Return the likelihood of an injury at this visit: courses × factor × recovery."""
        diseased = (_at(self.level, kept) < DISEASE_BELOW).astype(np.intp)
        weight = self.hazard(kept)[:, None] * seen[:, _INJURED]
        return np.asarray(weight[..., None] * chances[diseased])


def _visits(
    features: Features,
    drug_day: float | None,
    parameters: Parameters,
    courses: CourseParameters,
    decline: Decline,
) -> tuple[Array, list[_Visit]]:
    """Return the places of the first levels that the first visit leaves, and all visits."""
    dated, age, female = shown_visits(features), _number(features, "age"), features["sex"]
    value, top = tables(parameters, FIRST_STEP).grid.value, float(largest_egfr(age))
    kept, visits = np.arange(len(value)), list[_Visit]()
    for day, printed, _ in dated:
        years = (dated[-1][0] - day) / DAYS_PER_YEAR
        level = value[kept][:, None, None]
        if visits:
            level = decline(level[..., 0], SLOPES, day / DAYS_PER_YEAR, top)[:, :, None]
        if drug_day is not None and day >= drug_day:
            level = level * (1 - DIPS)
        mean = log_creatinine_for(np.log(level), age - years, female=female)
        reading = None if printed is None else _reading(printed)
        if not visits and reading is not None:
            most = np.maximum(*reading.most(mean)[:2])[:, 0, 0]
            kept = np.flatnonzero(most > NEGLIGIBLE * most.max())
            level, mean = level[kept], mean[kept]
        acute = courses.acute_later if visits else courses.acute_at_first
        highest = float(highest_creatinine(age - years, female))
        visits.append(_Visit(reading, level, mean, highest, acute))
    return kept, visits


def _at(values: Array, kept: Kept) -> Array:
    """Return the values of some courses; axes that do not matter have a length of 1."""
    places = (k if n > 1 else 0 for k, n in zip(kept, values.shape, strict=True))
    return np.asarray(values[tuple(places)])


def _possible(visits: Sequence[_Visit], weight: Array) -> tuple[Kept, Kept]:
    """Return the courses that can matter, without and with an injury at the first visit.

    The bound takes the best of all factors at each visit, as if they need not agree.
    """
    calm, injured, _ = visits[0].most()
    calm, at_first, later = weight * calm, weight * injured, np.zeros_like(weight)
    for visit in visits[1:]:
        plain, injured, either = visit.most()
        later = np.maximum(later * either, calm * injured)
        calm, at_first = calm * plain, at_first * either
    steady = np.maximum(calm, later)
    least = NEGLIGIBLE * max(steady.max(), at_first.max())
    return np.nonzero(steady > least), np.nonzero(at_first > least)


def _without_first_injury(visits: Sequence[_Visit], kept: Kept, chances: Array) -> Array:
    """Return the likelihood by what raises creatinine at the end: no injury, or one later."""
    n, seen = len(kept[0]), [visit.seen(kept) for visit in visits]
    before = [np.ones(n)]  # without an injury until then
    for visit, one in zip(visits, seen, strict=True):
        before.append(before[-1] * (1 - visit.hazard(kept)) * one[:, 0])
    found, after = np.zeros((n, len(_LOG_RAISED))), np.ones((n, len(_LOG_RAISED)))
    found[:, 0] = before[-1]
    for place in range(len(visits) - 1, 0, -1):
        injury = visits[place].injury(kept, seen[place], chances)
        injury *= before[place][:, None, None]
        found[:, 0] += injury[..., 0].sum(axis=1) * after[:, 0]
        found[:, _PARTIAL] += injury[..., 1] * after[:, _PARTIAL]
        found[:, _INJURED] += injury[..., 2] * after[:, _INJURED]
        after *= seen[place]
    return found


def _with_first_injury(visits: Sequence[_Visit], kept: Kept, chances: Array) -> tuple[Array, ...]:
    """Return the likelihood of an injury at the first visit by recovery: courses × factor each."""
    after = np.ones((len(kept[0]), len(_LOG_RAISED)))
    for visit in visits[1:]:
        after *= visit.seen(kept)
    injury = visits[0].injury(kept, visits[0].seen(kept), chances)
    columns = slice(0, 1), _PARTIAL, _INJURED
    return tuple(injury[..., k] * after[:, column] for k, column in enumerate(columns))
