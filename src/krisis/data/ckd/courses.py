"""Courses over several visits: how they are drawn, labelled by the definition, and inverted.

Progression, KDIGO 2024, in this order: a change below 20 % is stable; a fall of up to 30 % within
three months of starting a RAS or SGLT2 inhibitor is stable; worsening is a drop in category with a
fall of 25 % or more, a fall of 40 % or more, a loss of more than 5 mL/min/1.73 m² a year over at
least a year, or reaching G5; improving is a rise of 25 % or more into a higher category.
Everything else is stable. The first level counts with an acute injury that was present then, the
last with what an injury leaves behind: recovery is an improvement, a fall that will recover is not
a worsening.

A course has at most one acute injury. Creatinine is multiplied by a factor f at the visit of the
injury and by f^λ afterwards: λ is 0 if it recovers in full, 1/2 in part, 1 if not at all. Whoever
progresses rapidly has a slope of another distribution than everybody else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit, ndtri

from krisis.data.base import Features
from krisis.data.ckd.cohort import Draws, People, draw_people
from krisis.data.ckd.cohort_model import (
    ACUTE_FACTORS,
    CHRONIC_DAYS,
    CREATININE,
    CREATININE_SD,
    LOWEST_EGFR_WITH_ACUTE,
    PARAMETERS,
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
VARIABILITY, CATEGORY_FALL, LARGE_FALL, DRUG_FALL, RISE = 0.20, 0.25, 0.40, 0.30, 0.25
RAPID_LOSS_PER_YEAR = 5.0
DISEASE_BELOW = 60.0  # an injury of a kidney below this eGFR recovers less often
FIRST_STEP = 0.05
SLOPES = np.arange(-18.0, 7.51, 0.75)
DIPS, DIP_SHARES = np.array([0.0, 0.08, 0.16, 0.26]), np.array([0.30, 0.35, 0.23, 0.12])
_LOWEST = 4.0
Visit = tuple[int, float | None, float | None]  # day, creatinine, estimate
Decline = Callable[[Array, Array, Numbers, Numbers], Array]  # first level, slope, years, top


# What stays of the logarithm of an injury's factor: after a recovery in full, in part, and none.
RECOVERIES, LASTING = ("full", "partial", "none"), np.array([0.0, 0.5, 1.0])
LOG_FACTORS = np.log(ACUTE_FACTORS[1:])
# Stages of acute injury (KDIGO 2012) by the factor of creatinine: 1.5, 2 and 3.
_STAGES = np.searchsorted((2.0, 3.0), ACUTE_FACTORS[1:] + 1e-9, side="right")


@dataclass(frozen=True, slots=True)
class CourseParameters:
    """The numbers of a course: slopes in mL/min/1.73 m² a year at an eGFR of 60.

    ``rapid`` and what is added to it are logits, as are ``full`` (recovery in full from an injury
    of stage 1, 2 and 3) and ``full_if_disease`` (added below an eGFR of 60). ``partial`` is the
    share of those who do not recover in full.
    """

    mode: float = 0.8
    mode_per_log_acr: float = -0.4
    mode_if_diabetes: float = -0.3
    sd_below: float = 3.0
    sd_above: float = 1.8
    rapid: float = -2.1
    rapid_per_log_acr: float = 0.5
    rapid_if_diabetes: float = 0.5
    rapid_slope: float = -9.0
    rapid_sd: float = 3.0
    acute_at_first: float = 0.15
    acute_later: float = 0.07
    full: tuple[float, float, float] = (0.8, 0.4, 0.0)
    full_if_disease: float = -0.4
    partial: float = 0.5
    drug: float = 0.30


COURSE_PARAMETERS = CourseParameters()


@dataclass(frozen=True, slots=True)
class Course:
    """A patient with visits: what is shown, and the levels behind it.

    ``first_egfr`` is the level of the first visit with an acute injury, ``usual_first`` without;
    ``last_egfr`` is that of the last visit once an injury has recovered as far as it will.
    """

    number: int
    visible: dict[str, Value]
    days: tuple[int, ...]
    creatinine: tuple[float | None, ...]
    usual_first: float
    first_egfr: float
    last_egfr: float
    label: str
    rapid: bool = False
    injured_at: int | None = None
    recovery: str | None = None


def in_window(drug_day: Numbers, last_day: Numbers) -> Array:
    """Say whether a drug was started within three months before the last visit."""
    since = np.asarray(last_day) - np.asarray(drug_day)
    return np.asarray((since >= 0) & (since <= CHRONIC_DAYS))


def worse_limit(first: Numbers, n_days: Numbers, *, drug_window: Numbers = False) -> Array:
    """Return the last level at or below which a course that began at ``first`` is worsening."""
    first = np.asarray(first, dtype=float)
    edges = np.array([0.0, *CATEGORY_LIMITS])
    category_drop = np.minimum(
        (1 - CATEGORY_FALL) * first, edges[np.searchsorted(CATEGORY_LIMITS, first, "right")] - 1e-9
    )
    limit = np.maximum(category_drop, (1 - LARGE_FALL) * first)
    limit = np.maximum(limit, np.where(first >= CATEGORY_LIMITS[0], CATEGORY_LIMITS[0] - 1e-9, 0.0))
    years = np.asarray(n_days) / DAYS_PER_YEAR
    rapid = first - RAPID_LOSS_PER_YEAR * years - 1e-9
    limit = np.where(years >= 1.0, np.maximum(limit, rapid), limit)
    drug_fall, usual_fall = (1 - DRUG_FALL) * first - 1e-9, (1 - VARIABILITY) * first
    return np.asarray(np.minimum(limit, np.where(drug_window, drug_fall, usual_fall)))


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
    return str(_labels(first, last, n_days, drug_window))


def _labels(first: Numbers, last: Numbers, n_days: Numbers, drug_window: Numbers) -> Array:
    is_worse = last <= worse_limit(first, n_days, drug_window=drug_window)
    return np.select([is_worse, last >= better_limit(first)], COURSES[1:], COURSES[0])


def _steepness(first: Array) -> Array:
    """Return by how much slopes are stretched: those who have more can lose more."""
    return np.asarray(np.clip(np.sqrt(first / 60.0), 0.4, 1.15))


def linear_decline(first: Array, slope: Array, years: Numbers, top: Numbers) -> Array:
    """Return the level after some years: a straight line, never below 4 nor above ``top``."""
    return np.asarray(np.clip(first + _steepness(first) * slope * years, _LOWEST, top))


def highest_creatinine(age: Numbers, female: Numbers) -> Array:
    """Return the log creatinine up to which an injury raises one: that of an eGFR of 4."""
    return log_creatinine_for(math.log(_LOWEST), age, female=female)


def raised_level(level: Numbers, raised: Numbers, age: Numbers, female: Numbers) -> Array:
    """Return the estimate where an injury has raised the logarithm of creatinine."""
    mean = log_creatinine_for(np.log(level), age, female=female)
    mean = np.exp(np.minimum(mean + raised, np.maximum(mean, highest_creatinine(age, female))))
    women, men = (ckd_epi_2021(mean, age, female=sex) for sex in (True, False))
    return np.asarray(np.where(female, women, men))


def recovery_table(p: CourseParameters = COURSE_PARAMETERS) -> Array:
    """Return P(recovery | kidney disease, factor): full, partial, none."""
    full = expit(np.asarray(p.full)[_STAGES] + p.full_if_disease * np.arange(2)[:, None])
    return np.stack([full, (1 - full) * p.partial, (1 - full) * (1 - p.partial)], axis=-1)


def draw_courses(n_patients: int, *, seed: int, stream: int = 0) -> list[Course]:
    """Draw patients with three to five visits; another ``stream`` shares none of them."""
    draws, made, p = (
        Draws(seed, stream, n_patients),
        tables(PARAMETERS, FIRST_STEP),
        COURSE_PARAMETERS,
    )
    people = draw_people(draws, made)
    rapid = draws.yes("rapid", rapid_chance(p)[people.diabetes, people.acr_cell])
    slopes = slopes_by_class(p)[rapid, people.diabetes, people.acr_cell]
    slope = SLOPES[draws.chosen("slope", slopes)]
    n_visits = 3 + np.searchsorted([0.35, 0.75], draws.uniform("n visits"), side="right")
    n_days = np.round(DAYS_PER_YEAR * (0.75 + 4.25 * draws.uniform("length")))
    drug = draws.uniform("drug") < p.drug
    recent, place = draws.uniform("recent drug") < 0.5, draws.uniform("drug day")
    drug_day = np.where(recent, n_days - np.ceil(place * 80), np.ceil(place * (n_days - 95)))
    dip = np.where(drug, DIPS[draws.chosen("dip", np.tile(DIP_SHARES, (n_patients, 1)))], 0.0)
    first, top = made.grid.value[people.cell], largest_egfr(people.age)
    female = people.female == 1
    injury = _Injuries(draws, p)
    days, printed = [], []
    for visit in range(MAX_VISITS):
        jitter = (draws.uniform(f"jitter {visit}") - 0.5) * (visit > 0) * (visit < n_visits - 1)
        share = np.minimum((visit + 0.5 * jitter) / (n_visits - 1), 1.0)
        day = np.round(n_days * share)
        level = linear_decline(first, slope, day / DAYS_PER_YEAR, top)
        level = level * np.where(drug & (day >= drug_day), 1 - dip, 1.0)
        raised = injury.raised_at(visit, level, visit < n_visits)
        age = people.age - (n_days - day) / DAYS_PER_YEAR
        mean = log_creatinine_for(np.log(level), age, female=female)
        mean = np.minimum(mean + raised, np.maximum(mean, highest_creatinine(age, female)))
        days.append(day.astype(int))
        printed.append(CREATININE.draw(mean, CREATININE_SD, draws.normal(f"sc {visit}")))
    hidden = [draws.uniform(f"hide visit {visit}") < 0.03 for visit in range(MAX_VISITS)]
    last = linear_decline(first, slope, n_days / DAYS_PER_YEAR, top) * np.where(drug, 1 - dip, 1.0)
    last = raised_level(last, injury.lasting, people.age, female)
    at_first = np.where(injury.visit == 0, injury.log_factor, 0.0)
    began = raised_level(first, at_first, people.age - n_days / DAYS_PER_YEAR, female)
    labels = _labels(began, last, n_days, drug & in_window(drug_day, n_days))
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
            str(labels[i]),
            bool(rapid[i]),
            *injury.of(i),
        )
        for i in range(n_patients)
    ]


class _Injuries:
    """The acute injury of each patient, at most one: its visit, its factor, what it leaves."""

    def __init__(self, draws: Draws, parameters: CourseParameters) -> None:
        self.draws, self.parameters = draws, parameters
        self.visit = np.full(draws.n, -1)
        self.log_factor, self.lasting = np.zeros(draws.n), np.zeros(draws.n)
        self.recovery = np.zeros(draws.n, dtype=int)

    def raised_at(self, visit: int, level: Array, is_visit: Array) -> Array:
        """Return by how much the logarithm of creatinine is raised at a visit."""
        draws, p = self.draws, self.parameters
        chance = p.acute_later if visit else p.acute_at_first
        new = (draws.uniform(f"acute {visit}") < chance) & (level > LOWEST_EGFR_WITH_ACUTE)
        new &= is_visit & (self.visit < 0)
        factor = (draws.uniform(f"acute factor {visit}") * len(LOG_FACTORS)).astype(int)
        chances = recovery_table(p)[(level < DISEASE_BELOW).astype(int), factor]
        recovery = draws.chosen(f"recovery {visit}", chances)
        before = self.lasting
        self.visit = np.where(new, visit, self.visit)
        self.log_factor = np.where(new, LOG_FACTORS[factor], self.log_factor)
        self.recovery = np.where(new, recovery, self.recovery)
        self.lasting = np.where(new, LASTING[recovery] * LOG_FACTORS[factor], before)
        return np.where(new, self.log_factor, before)

    def of(self, patient: int) -> tuple[int | None, str | None]:
        """Return visit (from 1) and recovery of a patient's injury."""
        if self.visit[patient] < 0:
            return None, None
        return int(self.visit[patient]) + 1, RECOVERIES[self.recovery[patient]]


def plain_dipstick(made: Tables) -> Array:
    """Return P(grade | ACR) of a urine of middling gravity without infection: ACR × grade."""
    return np.asarray(made.dipstick[2, 0])


def _shown(
    people: People, draws: Draws, made: Tables, drug: Array, drug_day: Array
) -> list[dict[str, Value]]:
    readings = plain_dipstick(made)[people.acr_cell]
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
def rapid_chance(p: CourseParameters = COURSE_PARAMETERS) -> Array:
    """Return P(rapid progression | diabetes, ACR)."""
    above = np.maximum(acr_cells().log_value - math.log(30.0), 0.0)
    logit = p.rapid + p.rapid_per_log_acr * above
    return np.asarray(expit(logit + p.rapid_if_diabetes * np.arange(2)[:, None]))


@lru_cache(maxsize=32)
def slopes_by_class(p: CourseParameters = COURSE_PARAMETERS) -> Array:
    """Return P(slope | rapid, diabetes, ACR): a two-piece normal, and one of rapid progression."""
    above = np.maximum(acr_cells().log_value - math.log(30.0), 0.0)
    mode = p.mode + p.mode_per_log_acr * above + p.mode_if_diabetes * np.arange(2)[:, None]
    distance = SLOPES - mode[..., None]
    usual = np.exp(-0.5 * (distance / np.where(distance < 0, p.sd_below, p.sd_above)) ** 2)
    rapid = np.exp(-0.5 * ((SLOPES - p.rapid_slope) / p.rapid_sd) ** 2)
    rapid = rapid * (SLOPES < -RAPID_LOSS_PER_YEAR)
    weights = np.stack([usual, np.broadcast_to(rapid, usual.shape)])
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@lru_cache(maxsize=32)
def slope_table(p: CourseParameters = COURSE_PARAMETERS) -> Array:
    """Return P(slope | diabetes, ACR), rapid progression summed out."""
    rapid, (usual, steep) = rapid_chance(p)[..., None], slopes_by_class(p)
    return np.asarray((1 - rapid) * usual + rapid * steep)


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
