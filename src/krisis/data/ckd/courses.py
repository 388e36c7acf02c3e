"""Courses over several visits: how they are drawn, labelled by the definition, and inverted.

Progression, KDIGO 2024, in this order: a change below 20 % is stable; a fall of up to 30 % within
three months of starting a RAS or SGLT2 inhibitor is stable; worsening is a drop in category with a
fall of 25 % or more, a fall of 40 % or more, a loss of more than 5 mL/min/1.73 m² a year over at
least a year, or reaching G5; improving is a rise of 25 % or more into a higher category. Everything
else is stable. The first level counts with an acute injury that was present then, the last without:
recovery is an improvement, a fall that will recover no worsening.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from krisis.data.base import Features
from krisis.data.ckd.cohort import Draws, People, draw_people
from krisis.data.ckd.cohort_model import (
    ACUTE_FACTORS,
    CHRONIC_DAYS,
    CREATININE,
    CREATININE_SD,
    LOWEST_EGFR_WITH_ACUTE,
    PARAMETERS,
    Parameters,
    Tables,
    acr_cells,
    largest_egfr,
    tables,
)
from krisis.data.ckd.egfr import (
    CATEGORY_LIMITS,
    LOG_CREATININE_SD,
    Array,
    Numbers,
    ckd_epi_2021,
    log_creatinine_for,
    printed_down,
)
from krisis.data.ckd.schema import Value, is_implausible, usable

MAX_VISITS = 5
DAYS_PER_YEAR = 365.25
COURSES = ("stable", "worsening", "improving")
OUTLOOKS = ("worse", "not worse")
OUTLOOK_DAYS = 730.0
VARIABILITY, CATEGORY_FALL, LARGE_FALL, DRUG_FALL, RISE = 0.20, 0.25, 0.40, 0.30, 0.25
RAPID_LOSS_PER_YEAR = 5.0
FIRST_STEP = 0.05
SLOPES = np.arange(-16.0, 8.01, 0.5)
DIPS, DIP_SHARES = np.array([0.0, 0.08, 0.16, 0.26]), np.array([0.30, 0.35, 0.23, 0.12])
_NEUTRAL_GRAVITY, _NO_INFECTION = 2, 0
_LOWEST = 4.0
Visit = tuple[int, float | None, float | None]  # day, creatinine, estimate


@dataclass(frozen=True, slots=True)
class CourseParameters:
    """The numbers of a course: slopes in mL/min/1.73 m² a year at an eGFR of 60."""

    mode: float = 0.9
    mode_per_log_acr: float = -0.9
    mode_if_diabetes: float = -0.6
    sd_below: float = 6.2
    sd_above: float = 2.2
    acute_at_first: float = 0.15
    acute_later: float = 0.07
    drug: float = 0.30
    persistence: float = 0.7
    future_slope: float = -2.0
    future_sd: float = 2.5


COURSE_PARAMETERS = CourseParameters()


@dataclass(frozen=True, slots=True)
class Course:
    """A patient with visits: what is shown, the levels behind it, and what the future brings.

    ``first_egfr`` is the level of the first visit with an acute injury, ``usual_first`` without.
    """

    number: int
    visible: dict[str, Value]
    days: tuple[int, ...]
    creatinine: tuple[float | None, ...]
    usual_first: float
    first_egfr: float
    last_egfr: float
    future_egfr: float
    label: str
    outlook: str


def in_window(drug_day: Numbers, last_day: Numbers) -> Array:
    """Say whether a drug was started within three months before the last visit."""
    since = np.asarray(last_day) - np.asarray(drug_day)
    return np.asarray((since >= 0) & (since <= CHRONIC_DAYS))


def worse_limit(first: Numbers, n_days: float, *, drug_window: bool = False) -> Array:
    """Return the last level at or below which a course that began at ``first`` is worsening."""
    first = np.asarray(first, dtype=float)
    edges = np.array([0.0, *CATEGORY_LIMITS])
    category_drop = np.minimum(
        (1 - CATEGORY_FALL) * first, edges[np.searchsorted(CATEGORY_LIMITS, first, "right")] - 1e-9
    )
    limit = np.maximum(category_drop, (1 - LARGE_FALL) * first)
    limit = np.maximum(limit, np.where(first >= CATEGORY_LIMITS[0], CATEGORY_LIMITS[0] - 1e-9, 0.0))
    if n_days >= DAYS_PER_YEAR:
        lost = RAPID_LOSS_PER_YEAR * n_days / DAYS_PER_YEAR
        limit = np.maximum(limit, first - lost - 1e-9)
    most = (1 - DRUG_FALL) * first - 1e-9 if drug_window else (1 - VARIABILITY) * first
    return np.asarray(np.minimum(limit, most))


def better_limit(first: Numbers) -> Array:
    """Return the last level from which on a course that began at ``first`` is improving."""
    first = np.asarray(first, dtype=float)
    edges = np.array([*CATEGORY_LIMITS, np.inf])
    return np.asarray(
        np.maximum((1 + RISE) * first, edges[np.searchsorted(CATEGORY_LIMITS, first, "right")])
    )


def course_label(first: float, last: float, n_days: float, *, drug_window: bool = False) -> str:
    """Return the course by the definition.

    >>> course_label(79, 69, 620), course_label(28.7, 16.3, 400), course_label(40, 52, 200)
    ('stable', 'worsening', 'improving')
    """
    if last <= worse_limit(first, n_days, drug_window=drug_window):
        return "worsening"
    return "improving" if last >= better_limit(first) else "stable"


def _steepness(first: Array) -> Array:
    """Return by how much slopes are stretched: those who have more can lose more."""
    return np.asarray(np.clip(np.sqrt(first / 60.0), 0.4, 1.15))


def _level(first: Array, slope: Array, years: Numbers, top: Numbers) -> Array:
    return np.asarray(np.clip(first + _steepness(first) * slope * years, _LOWEST, top))


def draw_courses(n_patients: int, *, seed: int, stream: int = 0) -> list[Course]:
    """Draw patients with three to five visits; another ``stream`` shares none of them."""
    draws, made, p = (
        Draws(seed, stream, n_patients),
        tables(PARAMETERS, FIRST_STEP),
        COURSE_PARAMETERS,
    )
    people = draw_people(draws, made)
    slopes = slope_table(p)[people.diabetes, people.acr_cell]
    slope = SLOPES[draws.chosen("slope", slopes)]
    n_visits = 3 + np.searchsorted([0.35, 0.75], draws.uniform("n visits"), side="right")
    n_days = np.round(DAYS_PER_YEAR * (0.75 + 4.25 * draws.uniform("length")))
    drug = draws.uniform("drug") < p.drug
    recent, place = draws.uniform("recent drug") < 0.5, draws.uniform("drug day")
    drug_day = np.where(recent, n_days - np.ceil(place * 80), np.ceil(place * (n_days - 95)))
    dip = np.where(drug, DIPS[draws.chosen("dip", np.tile(DIP_SHARES, (n_patients, 1)))], 0.0)
    first, top = made.grid.value[people.cell], largest_egfr(people.age)
    days, printed = [], []
    acute_first = np.ones(n_patients)
    for visit in range(MAX_VISITS):
        jitter = (draws.uniform(f"jitter {visit}") - 0.5) * (visit > 0) * (visit < n_visits - 1)
        share = np.minimum((visit + 0.5 * jitter) / (n_visits - 1), 1.0)
        day = np.round(n_days * share)
        level = _level(first, slope, day / DAYS_PER_YEAR, top)
        level = level * np.where(drug & (day >= drug_day), 1 - dip, 1.0)
        factor = _acute_factor(draws, visit, level, p)
        acute_first = factor if visit == 0 else acute_first
        age = people.age - (n_days - day) / DAYS_PER_YEAR
        mean = log_creatinine_for(np.log(level), age, female=people.female == 1) + np.log(factor)
        days.append(day.astype(int))
        printed.append(CREATININE.draw(mean, CREATININE_SD, draws.normal(f"sc {visit}")))
    hidden = [draws.uniform(f"hide visit {visit}") < 0.03 for visit in range(MAX_VISITS)]
    last = _level(first, slope, n_days / DAYS_PER_YEAR, top) * np.where(drug, 1 - dip, 1.0)
    future = p.persistence * slope + (1 - p.persistence) * p.future_slope
    future = future + p.future_sd * draws.normal("future")
    after = last + _steepness(first) * future * OUTLOOK_DAYS / DAYS_PER_YEAR
    began = first_level(first, acute_first, people.age - n_days / DAYS_PER_YEAR, people.female == 1)
    shown = _shown(people, draws, made, drug, drug_day)
    return [
        Course(
            i,
            shown[i],
            tuple(int(days[k][i]) for k in range(n_visits[i])),
            tuple(None if hidden[k][i] else float(printed[k][i]) for k in range(n_visits[i])),
            round(float(first[i]), 2),
            round(float(began[i]), 2),
            round(float(last[i]), 2),
            round(float(after[i]), 2),
            course_label(
                began[i],
                last[i],
                n_days[i],
                drug_window=bool(drug[i] and in_window(drug_day[i], n_days[i])),
            ),
            OUTLOOKS[int(after[i] > worse_limit(last[i], OUTLOOK_DAYS))],
        )
        for i in range(n_patients)
    ]


def _acute_factor(draws: Draws, visit: int, level: Array, p: CourseParameters) -> Array:
    chance = p.acute_later if visit else p.acute_at_first
    acute = (draws.uniform(f"acute {visit}") < chance) & (level > LOWEST_EGFR_WITH_ACUTE)
    factors = ACUTE_FACTORS[1:]
    drawn = (draws.uniform(f"acute factor {visit}") * len(factors)).astype(int)
    return np.where(acute, factors[drawn], 1.0)


def first_level(level: Numbers, factor: Numbers, age: Numbers, female: Numbers) -> Array:
    """Return the level of the first visit, by the creatinine of that day, injured or not."""
    raised = np.exp(log_creatinine_for(np.log(level), age, female=female)) * factor
    women, men = (ckd_epi_2021(raised, age, female=sex) for sex in (True, False))
    return np.asarray(np.where(female, women, men))


def _shown(
    people: People, draws: Draws, made: Tables, drug: Array, drug_day: Array
) -> list[dict[str, Value]]:
    readings = made.dipstick[_NEUTRAL_GRAVITY, _NO_INFECTION, people.acr_cell]
    grade = draws.chosen("al", readings)
    hide_grade, hide_dm, hide_htn = (
        draws.uniform(f"hide {name}") < share
        for name, share in (("al", 0.08), ("dm", 0.04), ("htn", 0.04))
    )
    return [
        {
            "age": int(people.age[i]),
            "sex": int(people.female[i]),
            "htn": None if hide_htn[i] else int(people.hypertension[i]),
            "dm": None if hide_dm[i] else int(people.diabetes[i]),
            "al": None if hide_grade[i] else int(grade[i]),
            "drug_started": int(drug[i]),
            **({"drug_day": int(drug_day[i])} if drug[i] else {}),
        }
        for i in range(draws.n)
    ]


@lru_cache(maxsize=32)
def slope_table(p: CourseParameters = COURSE_PARAMETERS) -> Array:
    """Return P(slope | diabetes, ACR): a normal with a longer lower tail."""
    above = np.maximum(acr_cells().log_value - math.log(30.0), 0.0)
    mode = p.mode + p.mode_per_log_acr * above + p.mode_if_diabetes * np.arange(2)[:, None]
    distance = SLOPES - mode[..., None]
    weights = np.exp(-0.5 * (distance / np.where(distance < 0, p.sd_below, p.sd_above)) ** 2)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@lru_cache(maxsize=1024)
def _prior(
    diabetes: int | None, hypertension: int | None, grade: int | None, age: int,
    parameters: Parameters, courses: CourseParameters,
) -> Array:  # fmt: skip
    """Return P(first level, slope, what is shown of diabetes, hypertension and dipstick | age)."""
    made = tables(parameters, FIRST_STEP)
    reading = 1.0 if grade is None else made.dipstick[_NEUTRAL_GRAVITY, _NO_INFECTION, :, grade]
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


_CDF_STEP, _CDF_RANGE = 0.002, 3.0
_CDF_LINE = np.arange(-_CDF_RANGE, _CDF_RANGE + _CDF_STEP, _CDF_STEP)


@lru_cache(maxsize=32)
def _creatinine_cdf(acute: float) -> Array:
    """Return the distribution of log creatinine around its usual level, acute injury mixed in."""
    shifts = np.log(ACUTE_FACTORS[1:])
    injured = np.mean([ndtr((_CDF_LINE - s) / CREATININE_SD) for s in shifts], axis=0)
    return np.asarray((1 - acute) * ndtr(_CDF_LINE / CREATININE_SD) + acute * injured)


def _below(distance: Array, acute: float) -> Array:
    place = np.clip((distance + _CDF_RANGE) / _CDF_STEP, 0.0, len(_CDF_LINE) - 1.001)
    low = place.astype(int)
    cdf = _creatinine_cdf(acute)
    return np.asarray(cdf[low] + (place - low) * (cdf[low + 1] - cdf[low]))


def _printed_later(
    printed: float, log_level: Array, age: float, female: bool, acute: float
) -> Array:
    """Return P(creatinine | level) at a visit after the first, acute injury summed out."""
    mean = log_creatinine_for(log_level, age, female=female)
    high = math.log(printed + 0.05)
    low = math.log(printed - 0.05) if printed > 0.15 else -np.inf
    injured = _below(high - mean, acute) - (_below(low - mean, acute) if printed > 0.15 else 0.0)
    plain = ndtr((high - mean) / CREATININE_SD) - ndtr((low - mean) / CREATININE_SD)
    return np.where(log_level > math.log(LOWEST_EGFR_WITH_ACUTE), injured, plain)


@dataclass(frozen=True, slots=True)
class CoursePosterior:
    """The probability of each answer: three for the course, two for what follows."""

    course: Array
    outlook: Array


def course_posterior(
    features: Features,
    *,
    parameters: Parameters = PARAMETERS,
    courses: CourseParameters = COURSE_PARAMETERS,
) -> CoursePosterior:
    """Sum over first level, slope, dip and first injury, given everything that is shown."""
    visits, made = shown_visits(features), tables(parameters, FIRST_STEP)
    n_days, age, female = visits[-1][0], int(features["age"] or 0), bool(features["sex"])
    drug_day = usable(features, "drug_day") if features.get("drug_started") else None
    dips, shares = (DIPS, DIP_SHARES) if drug_day is not None else (DIPS[:1], np.ones(1))
    prior = _prior(
        *(_whole(features, name) for name in ("dm", "htn", "al")), age, parameters, courses
    )
    first, top = made.grid.value, float(largest_egfr(age))
    began = _first_visit(visits[0], made, age - n_days / DAYS_PER_YEAR, female, courses)
    # Rows of the grid that the first visit rules out would not be seen in any printed digit.
    kept = np.flatnonzero(began.sum(axis=1) > 1e-9 * began.sum(axis=1).max())
    began, first = began[kept], first[kept]
    weight = prior[kept][:, :, None] * shares
    steep = _level(first[:, None], SLOPES, n_days / DAYS_PER_YEAR, top)
    for day, printed, _ in visits[1:]:
        if printed is None:
            continue
        level = _level(first[:, None], SLOPES, day / DAYS_PER_YEAR, top)[:, :, None]
        if drug_day is not None and day >= drug_day:
            level = level * (1 - dips)
        years = age - (n_days - day) / DAYS_PER_YEAR
        weight = weight * _printed_later(printed, np.log(level), years, female, courses.acute_later)
    last = steep[:, :, None] * (1 - dips)
    window = drug_day is not None and bool(in_window(drug_day, n_days))
    factors = ACUTE_FACTORS
    level = first_level(first[:, None], factors, age - n_days / DAYS_PER_YEAR, female)
    worse, better = worse_limit(level, n_days, drug_window=window), better_limit(level)
    total = p_worse = p_better = 0.0
    for state in range(len(factors)):
        share = weight * began[:, state][:, None, None]
        total += float(share.sum())
        p_worse += float(share[last <= worse[:, state][:, None, None]].sum())
        p_better += float(share[last >= better[:, state][:, None, None]].sum())
    if total <= 0.0:  # a course that the cohort cannot hold teaches nothing
        return CoursePosterior(np.full(3, 1 / 3), np.full(2, 1 / 2))
    course = np.array([max(0.0, total - p_worse - p_better), p_worse, p_better]) / total
    both = weight * began.sum(axis=1)[:, None, None]
    falls = float((both * _future_worse(first, last, courses)).sum()) / total
    return CoursePosterior(course, np.array([falls, 1 - falls]))


def _whole(features: Features, name: str) -> int | None:
    value = usable(features, name)
    return None if value is None else int(value)


def _first_visit(
    visit: Visit, made: Tables, age: float, female: bool, courses: CourseParameters
) -> Array:
    """Return P(injury, creatinine of the first visit | first level): levels × factors."""
    levels = made.grid.log_value[:, None]
    possible = made.grid.value > LOWEST_EGFR_WITH_ACUTE
    injured = np.where(possible, courses.acute_at_first, 0.0)[:, None]
    n_factors = len(ACUTE_FACTORS) - 1
    chance = np.concatenate([1 - injured, np.repeat(injured / n_factors, n_factors, 1)], axis=1)
    if visit[1] is None:
        return chance
    mean = log_creatinine_for(levels, age, female=female) + np.log(ACUTE_FACTORS)
    return np.asarray(chance * CREATININE.probability(np.array(visit[1]), mean, CREATININE_SD))


def _future_worse(first: Array, last: Array, courses: CourseParameters) -> Array:
    """Return P(worse in two years | first level, slope, dip): the future slope is normal."""
    years = OUTLOOK_DAYS / DAYS_PER_YEAR
    needed = (worse_limit(last, OUTLOOK_DAYS) - last) / (years * _steepness(first)[:, None, None])
    expected = courses.persistence * SLOPES + (1 - courses.persistence) * courses.future_slope
    return np.asarray(ndtr((needed - expected[:, None]) / courses.future_sd))


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


def shown_visits(features: Features) -> list[Visit]:
    """Return day, creatinine and estimate of each shown visit."""
    days = [(k, usable(features, f"visit_{k}_day")) for k in range(1, MAX_VISITS + 1)]
    return [
        (int(day), usable(features, f"visit_{k}_sc"), usable(features, f"visit_{k}_egfr"))
        for k, day in days
        if day is not None
    ]


def guideline_course(features: Features) -> Array:
    """Return what the first and last estimate say, each with the error of one creatinine."""
    visits = [(day, egfr) for day, _, egfr in shown_visits(features) if egfr is not None]
    if len(visits) < 2:
        return np.full(3, 1 / 3)
    quantiles = np.exp(ndtri((np.arange(40) + 0.5) / 40) * 1.2 * LOG_CREATININE_SD)
    first, last = visits[0][1] * quantiles[:, None], visits[-1][1] * quantiles
    n_days = visits[-1][0] - visits[0][0]
    drug_day = usable(features, "drug_day")
    window = drug_day is not None and bool(in_window(drug_day, visits[-1][0]))
    worse = last <= worse_limit(first, n_days, drug_window=window)
    better = last >= better_limit(first)
    return np.array([1 - worse.mean() - better.mean(), worse.mean(), better.mean()])


_SLOPE_CHANGES = 3.0  # by as much does a slope change from one period to the next


def guideline_outlook(features: Features) -> Array:
    """Continue the line through the shown estimates for two years, with the error of its slope."""
    visits = [(day / DAYS_PER_YEAR, e) for day, _, e in shown_visits(features) if e is not None]
    if len(visits) < 2:
        return np.full(2, 1 / 2)
    years, rates = np.array(visits).T
    spread = years - years.mean()
    slope = float(spread @ rates / (spread @ spread))
    error = 1.2 * LOG_CREATININE_SD * float(rates.mean()) / math.sqrt(float(spread @ spread))
    error = math.hypot(error, _SLOPE_CHANGES)
    now = float(rates.mean() + slope * (years[-1] - years.mean()))
    needed = (float(worse_limit(max(now, 1.0), OUTLOOK_DAYS)) - now) / (
        OUTLOOK_DAYS / DAYS_PER_YEAR
    )
    worse = float(ndtr((needed - slope) / error))
    return np.array([worse, 1 - worse])
