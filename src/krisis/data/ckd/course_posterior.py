"""The exact posterior of a course: P(answer | all visits and findings).

Not shown are the first level, the slope, the dip after a drug, and the acute injury with its visit,
factor and recovery. First level, slope and dip have finitely many values; for each of them the
injury is summed out visit by visit. Creatinine is raised by nothing, by an injury of one of six
factors, or by what a partial recovery leaves of it: the thirteen columns of `_LOG_RAISED`.

Cases with as many visits are worked out together. What is found of one does not depend on the
others, to the last bit: every sum runs through the courses of one case in their order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

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
    COURSES,
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
    Visit,
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
_CASES_AT_ONCE = 12  # enough that calls cost little, few enough that the arrays stay in the cache
_INJURED = slice(1, 1 + len(LOG_FACTORS))
_PARTIAL = slice(_INJURED.stop, _INJURED.stop + len(LOG_FACTORS))
_LOG_RAISED = np.concatenate([[0.0], LOG_FACTORS, LASTING[1] * LOG_FACTORS])
_LINE_STEP, _BEYOND = 0.002, 7.5 * CREATININE_SD


def course_posterior(
    shown: Sequence[Features],
    *,
    parameters: Parameters = PARAMETERS,
    courses: CourseParameters = COURSE_PARAMETERS,
    decline: Decline = linear_decline,
) -> Array:
    """Return P(answer | everything that is shown): cases × answers, as in `courses.COURSES`.

    Other parameters make a reader with wrong numbers, another ``decline`` one who believes in
    another model.
    """
    model, found = _Model(parameters, courses, decline), np.empty((len(shown), len(COURSES)))
    alike = defaultdict[tuple[int, ...], list[tuple[int, _Case]]](list)
    for place, features in enumerate(shown):
        one = _case(features)
        alike[one.shape].append((place, one))
    for group in alike.values():
        for start in range(0, len(group), _CASES_AT_ONCE):
            places, cases = zip(*group[start : start + _CASES_AT_ONCE], strict=True)
            found[list(places)] = _answers(_Cases.of(cases), model)
    return found


@dataclass(frozen=True, slots=True)
class _Model:
    """What a reader believes."""

    parameters: Parameters
    courses: CourseParameters
    decline: Decline


class _Case(NamedTuple):
    """What is shown of a case; ``findings`` are diabetes, hypertension and the dipstick."""

    visits: list[Visit]
    age: float
    female: bool
    findings: tuple[int | None, int | None, int | None]
    drug_day: float | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of visits, and of those before a drug."""
        n, day = len(self.visits), self.drug_day
        return (n,) if day is None else (n, sum(one[0] < day for one in self.visits))


def _case(features: Features) -> _Case:
    diabetes, hypertension, grade = (_whole(features, name) for name in ("dm", "htn", "al"))
    return _Case(
        shown_visits(features),
        _number(features, "age"),
        bool(features["sex"]),
        (diabetes, hypertension, grade),
        usable(features, "drug_day") if features.get("drug_started") else None,
    )


@dataclass(frozen=True, slots=True)
class _Cases:
    """Cases of one shape: arrays with a line per case."""

    cases: Sequence[_Case]
    days: Array
    age: Array
    female: Array
    drug_day: Array | None

    @classmethod
    def of(cls, cases: Sequence[_Case]) -> _Cases:
        """Put cases together."""
        drug_days = [one.drug_day for one in cases]
        return cls(
            cases,
            np.array([[day for day, _, _ in one.visits] for one in cases], dtype=float),
            np.array([one.age for one in cases]),
            np.array([one.female for one in cases]),
            None if None in drug_days else np.array(drug_days, dtype=float),
        )

    def age_at(self, visit: int) -> Array:
        """Return the ages at a visit."""
        return np.asarray(self.age - (self.days[:, -1] - self.days[:, visit]) / DAYS_PER_YEAR)

    def readings(self, visit: int) -> list[_Reading | None]:
        """Return what the creatinine of a visit says."""
        printed = (one.visits[visit][1] for one in self.cases)
        return [None if value is None else _reading(value) for value in printed]


def _answers(cases: _Cases, model: _Model) -> Array:
    rows, visits = _visits(cases, model)
    steady, hurt = _possible(visits, rows)
    totals = _Totals.of(cases, rows, visits[-1])
    chances = np.moveaxis(recovery_table(model.courses) / len(LOG_FACTORS), -1, 0)
    first, (visit, *later) = rows.first(), visits
    seen = visit.seen(first)
    calm = seen[:, 0] * (1 - visit.hazard(first))
    likelihood = _without_first_injury(later, steady, calm[steady.places[0]], chances)
    totals.add(steady, likelihood, _LOG_RAISED, slice(0, 1))
    injuries = visit.injury(first, np.ones(len(calm)), seen, chances)
    after = _seen_at_all(later, hurt)
    columns = slice(0, 1), _PARTIAL, _INJURED
    for stays, injury, column in zip(LASTING, injuries, columns, strict=True):
        likelihood = injury.take(hurt.places[0], axis=0) * after[:, column]
        totals.add(hurt, likelihood, stays * LOG_FACTORS, slice(1, None))
    return totals.shares()


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

    ``table``: line × `_LOG_RAISED`; ``steps`` lead from one point to the next. ``highest`` are the
    values without an injury, the largest with one, and of either.
    """

    low: float
    table: Array
    steps: Array
    highest: Array

    @property
    def high(self) -> float:
        """Return the end of the line."""
        return self.low + _LINE_STEP * len(self.steps)

    def at(self, mean: Array, found: Array) -> None:
        """Find the probabilities, means × `_LOG_RAISED`, between two points of the line."""
        place = (mean - self.low) / _LINE_STEP
        whole = self._whole(place)
        self.steps.take(whole, axis=0, mode="clip", out=found)
        found *= (place - whole)[:, None]
        found += self.table.take(whole, axis=0, mode="clip")

    def up_to(self, highest: float, mean: Array, found: Array) -> None:
        """Find the probabilities where an injury raises the logarithm up to a limit."""
        self.at(mean, found)
        if self.high > highest:  # else nothing above the limit could be read so
            most, at_most = np.maximum(mean, highest), np.empty_like(found)
            self.at(most, at_most)
            limited = mean[:, None] + _LOG_RAISED > most[:, None]
            np.copyto(found, at_most[:, :1], where=limited)

    def most(self, mean: Array) -> Array:
        """Return what the probability can be at most: without injury, with one, either."""
        whole = self._whole((mean - self.low) / _LINE_STEP)
        return np.asarray(self.highest.take(whole, axis=1, mode="clip"))

    def _whole(self, place: Array) -> Array:
        """Return the point of the line below a place; at its ends all is next to 0."""
        return np.minimum(np.maximum(place.astype(np.intp), 0), len(self.steps) - 1)


@lru_cache(maxsize=512)
def _reading(printed: float) -> _Reading:
    """Return `CREATININE.probability` of all means; half of its work is the same for all values."""
    low, high = math.log(max(printed - 0.05, 0.01)), math.log(printed + 0.05)
    line = _line(high - low)
    table = ndtr((high - low - line) / CREATININE_SD)
    if printed > CREATININE.lowest + 1e-9:  # the lowest step takes everything below it
        table -= _below_the_value()[: len(line)]
    highest = np.stack([table[:, 0], table[:, _INJURED].max(axis=1), table.max(axis=1)])
    start = low - _LOG_RAISED.max() - _BEYOND
    return _Reading(start, table, np.diff(table, axis=0), highest)


def _line(width: float) -> Array:
    """Return means of log creatinine from the lower edge of a value of this width: × columns."""
    n = math.ceil((width + _LOG_RAISED.max() + 2 * _BEYOND) / _LINE_STEP)
    return np.asarray(
        np.arange(n)[:, None] * _LINE_STEP - _LOG_RAISED.max() - _BEYOND + _LOG_RAISED
    )


@lru_cache(maxsize=1)
def _below_the_value() -> Array:
    widest = math.log((CREATININE.lowest + 0.05) / (CREATININE.lowest - 0.05))
    return np.asarray(ndtr(-_line(widest) / CREATININE_SD))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The first levels that the first visit leaves of each case, in the order of the cases.

    ``starts`` are the first rows of the cases and the end. ``weight`` is the chance of first level,
    slope, dip and of what is shown besides the visits: rows × slopes × dips.
    """

    case: Array
    starts: Array
    level: Array
    weight: Array

    def first(self) -> _Some:
        """Return the rows themselves, as the first visit knows them."""
        row = np.arange(len(self.case))
        return _Some((row, 0 * row, 0 * row), np.ones(len(row)), self.case, self.starts)


@dataclass(frozen=True, slots=True)
class _Some:
    """Some courses in the order of the cases: the row, slope and dip of each, and its weight."""

    places: tuple[Array, ...]
    weight: Array
    case: Array
    starts: Array

    def at(self, values: Array) -> Array:
        """Return the values of these courses; axes that do not matter have a length of 1."""
        places = (k if n > 1 else 0 for k, n in zip(self.places, values.shape, strict=True))
        return np.asarray(values[tuple(places)])

    def sums(self, mass: Array) -> Array:
        """Return the sum of each case, of courses × columns."""
        found, some = np.zeros(len(self.starts) - 1), np.diff(self.starts) > 0
        starts = self.starts[:-1][some] * mass.shape[1]
        found[some] = np.add.reduceat(mass.ravel(), starts) if len(starts) else 0.0
        return found


@dataclass(frozen=True, slots=True)
class _Visit:
    """What one visit says of every possible course: rows × slopes × dips.

    ``level`` and ``mean`` (of log creatinine) are those without an injury; axes that do not matter
    have a length of 1. Each case has its reading, and in ``highest`` the log creatinine up to which
    an injury raises it. ``acute`` is the chance of an injury where one is possible.
    """

    readings: Sequence[_Reading | None]
    level: Array
    mean: Array
    highest: Array
    acute: float

    def most(self, starts: Array) -> Array:
        """Return what the likelihood can be at most: without injury, with one, either."""
        found = np.ones((3, *self.mean.shape))
        for _, reading, part in self._read(starts):
            found[:, part] = reading.most(self.mean[part])
        return found

    def raised(self, some: _Some, raised: Array) -> Array:
        """Return the log creatinine of some courses: courses × what raises it."""
        mean = some.at(self.mean)
        most = np.maximum(mean, self.highest[some.case])
        return np.asarray(np.minimum(mean[:, None] + raised, most[:, None]))

    def seen(self, some: _Some) -> Array:
        """Return the likelihood of some courses by what raises creatinine."""
        mean, found = some.at(self.mean), np.ones((len(some.case), len(_LOG_RAISED)))
        for case, reading, part in self._read(some.starts):
            reading.up_to(float(self.highest[case]), mean[part], found[part])
        return found

    def _read(self, starts: Array) -> Iterator[tuple[int, _Reading, slice]]:
        for case, reading in enumerate(self.readings):
            if reading is not None:
                yield case, reading, slice(starts[case], starts[case + 1])

    def hazard(self, some: _Some) -> Array:
        """Return P(injury at this visit | none before) of some courses."""
        return np.where(some.at(self.level) > LOWEST_EGFR_WITH_ACUTE, self.acute, 0.0)

    def injury(self, some: _Some, before: Array, seen: Array, chances: Array) -> Iterator[Array]:
        """Return the likelihood of an injury at this visit by recovery: courses × factor each."""
        diseased = (some.at(self.level) < DISEASE_BELOW).astype(np.intp)
        weight = seen[:, _INJURED] * (self.hazard(some) * before)[:, None]
        return (weight * by_disease.take(diseased, axis=0) for by_disease in chances)


def _visits(cases: _Cases, model: _Model) -> tuple[_Rows, list[_Visit]]:
    """Return the first levels that the first visits leave, and all visits."""
    made, top = tables(model.parameters, FIRST_STEP), largest_egfr(cases.age)
    n_cases, n_levels = len(top), len(made.grid.value)
    case, level = np.repeat(np.arange(n_cases), n_levels), np.tile(made.grid.value, n_cases)
    first = _visit(cases, 0, case, level[:, None], model)
    starts = np.arange(n_cases + 1) * n_levels
    most = first.most(starts)[:2, :, 0, 0].max(axis=0)
    kept = np.flatnonzero(most >= NEGLIGIBLE * np.maximum.reduceat(most, starts[:-1])[case])
    case, level = case[kept], level[kept]
    believed = model.parameters, model.courses
    prior = np.concatenate([_prior(*one.findings, int(one.age), *believed) for one in cases.cases])
    weight = prior[kept, :, None] * (1.0 if cases.drug_day is None else DIP_SHARES)
    rows = _Rows(case, np.searchsorted(case, np.arange(n_cases + 1)), level, weight)
    visits = [replace(first, level=first.level[kept], mean=first.mean[kept])]
    for number in range(1, cases.days.shape[1]):
        years = cases.days[case, number, None] / DAYS_PER_YEAR
        then = model.decline(level[:, None], SLOPES, years, top[case, None])
        visits.append(_visit(cases, number, case, then, model))
    return rows, visits


def _visit(cases: _Cases, number: int, case: Array, level: Array, model: _Model) -> _Visit:
    """Return a visit, given the levels then (rows × slopes) without the dip after a drug."""
    day, age, level = cases.days[:, number], cases.age_at(number), level[:, :, None]
    # A drug is started after the first visit; cases of one shape have as many visits before it.
    if number and cases.drug_day is not None and (day >= cases.drug_day).all():
        level = level * (1 - DIPS)
    of_case = age[case, None, None], cases.female[case, None, None]
    mean = log_creatinine_for(np.log(level), of_case[0], female=of_case[1])
    acute = model.courses.acute_later if number else model.courses.acute_at_first
    return _Visit(cases.readings(number), level, mean, highest_creatinine(age, cases.female), acute)


def _possible(visits: Sequence[_Visit], rows: _Rows) -> tuple[_Some, _Some]:
    """Return the courses that can matter, without and with an injury at the first visit.

    The bound takes the best of all factors at each visit, as if they need not agree.
    """
    weight = rows.weight
    calm, injured, _ = visits[0].most(rows.starts)
    calm, at_first, later = weight * calm, weight * injured, np.zeros_like(weight)
    for visit in visits[1:]:
        plain, injured, either = visit.most(rows.starts)
        later = np.maximum(later * either, calm * injured)
        calm, at_first = calm * plain, at_first * either
    steady = np.maximum(calm, later)
    best = np.maximum(steady, at_first).max(axis=(1, 2))
    least = NEGLIGIBLE * np.maximum.reduceat(best, rows.starts[:-1])[rows.case, None, None]
    return _some(steady > least, rows), _some(at_first > least, rows)


def _some(kept: Array, rows: _Rows) -> _Some:
    places = np.nonzero(kept)
    starts = np.searchsorted(places[0], rows.starts)
    return _Some(places, rows.weight[places], rows.case[places[0]], starts)


def _without_first_injury(
    later: Sequence[_Visit], some: _Some, calm: Array, chances: Array
) -> Array:
    """Return the likelihood by what raises creatinine at the end: no injury, or one later.

    ``calm`` is that of the first visit without an injury.
    """
    seen, before = [visit.seen(some) for visit in later], [calm]
    for visit, one in zip(later, seen, strict=True):
        before.append(before[-1] * (1 - visit.hazard(some)) * one[:, 0])
    found = np.zeros((len(calm), len(_LOG_RAISED)))
    found[:, 0], after = before[-1], np.ones_like(found)
    for visit, one, until in reversed(list(zip(later, seen, before, strict=False))):
        full, partial, none = visit.injury(some, until, one, chances)
        found[:, 0] += full.sum(axis=1) * after[:, 0]
        found[:, _PARTIAL] += partial * after[:, _PARTIAL]
        found[:, _INJURED] += none * after[:, _INJURED]
        after *= one
    return found


def _seen_at_all(visits: Sequence[_Visit], some: _Some) -> Array:
    """Return the likelihood of several visits by what raises creatinine at all of them."""
    found = np.ones((len(some.case), len(_LOG_RAISED)))
    for visit in visits:
        found *= visit.seen(some)
    return found


@dataclass(frozen=True, slots=True)
class _Totals:
    """The answers of each case, added up from the creatinine of the last visit.

    ``worse`` and ``better`` are the limits in its logarithm: rows × injury at the first visit,
    which decides the first level that the last one is compared with.
    """

    last: _Visit
    worse: Array
    better: Array
    found: Array

    @classmethod
    def of(cls, cases: _Cases, rows: _Rows, last: _Visit) -> _Totals:
        """Return totals of nothing."""
        case, n_days = rows.case[:, None], cases.days[:, -1]
        age, female = cases.age[case], cases.female[case]
        drug_day = math.inf if cases.drug_day is None else cases.drug_day
        window = in_window(drug_day, n_days)[case]
        began = raised_level(
            rows.level[:, None], np.log(ACUTE_FACTORS), cases.age_at(0)[case], female
        )
        limits = worse_limit(began, n_days[case], drug_window=window), better_limit(began)
        worse, better = (log_creatinine_for(np.log(one), age, female=female) for one in limits)
        return cls(last, worse, better, np.zeros((len(n_days), len(COURSES))))

    def add(self, some: _Some, likelihood: Array, raised: Array, states: slice) -> None:
        """Add some courses: their likelihood by what raises creatinine at the end."""
        worse, better = (
            np.ascontiguousarray(limit[:, states]).take(some.places[0], axis=0)
            for limit in (self.worse, self.better)
        )
        mass, last = likelihood * some.weight[:, None], self.last.raised(some, raised)
        falls = some.sums(np.where(last >= worse, mass, 0.0))
        rises = some.sums(np.where(last <= better, mass, 0.0))
        self.found[:] += np.stack([some.sums(mass) - falls - rises, falls, rises], axis=1)

    def shares(self) -> Array:
        """Return the answers' shares; a course that the cohort cannot hold teaches nothing."""
        total = self.found.sum(axis=1, keepdims=True)
        possible = total > 0.0
        found = np.maximum(self.found, 0.0) / np.where(possible, total, 1.0)
        return np.where(possible, found, 1 / len(COURSES))
