"""Draw the embedded cohort: synthetic adults whose usual eGFR and albuminuria are known.

Every variable has a generator of its own, so the first patients of a larger cohort are those of a
smaller one, and hiding a value never moves another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from krisis.data.base import Features
from krisis.data.ckd import setting
from krisis.data.ckd.deferral import CHRONIC_DAYS, sheet_cannot_be_right
from krisis.data.ckd.egfr import LOG_CREATININE_SD, Array, Numbers, ckd_epi_2021, creatinine_for
from krisis.data.ckd.progression import DAYS_PER_YEAR, MAX_VISITS, Course, draw_changes
from krisis.data.ckd.schema import CONTEXT, FEATURES, Value

# The share of values that is not measured. It depends on nothing, so it can reveal nothing.
MISSING_SHARE: dict[str, float] = {
    "rbc": 0.25, "rbcc": 0.20, "wbcc": 0.18, "pot": 0.12, "sod": 0.12, "pcv": 0.12, "pc": 0.12,
    "hemo": 0.08, "su": 0.10, "sg": 0.08, "al": 0.08, "bgr": 0.08, "bu": 0.05, "sc": 0.04,
    "bp": 0.03, "age": 0.02, "sex": 0.05, "htn": 0.02, "cad": 0.01, "appet": 0.01,
    "pe": 0.01, "ane": 0.01,
}  # fmt: skip

# Impossible values: share, and their range, drawn without regard to the patient.
SLIPS: dict[str, tuple[float, float, float]] = {
    "sc": (0.015, 45.0, 160.0),
    "hemo": (0.01, 90.0, 160.0),
}
CONTRADICTION_SHARE = 0.01  # packed cell volume five times the haemoglobin
SHORT_OBSERVATION_SHARE = 0.12


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of a patient: the level that a stage is read from, and the albuminuria."""

    egfr: float
    acr_mg_g: float
    first_egfr: float | None = None

    @property
    def has_ckd(self) -> bool:
        """Say whether an eGFR below 60 or raised albuminuria is truly and lastingly present."""
        return self.egfr < 60.0 or self.acr_mg_g >= 30.0


@dataclass(frozen=True, slots=True)
class SyntheticPatient:
    """What can be seen of a patient (``None``: not measured) and what is true.

    ``other`` is the patient whose truth counts if the sheet cannot be right, or None where such a
    sheet would still be the patient's own.
    """

    number: int
    visible: dict[str, Value]
    truth: Truth
    other: Truth | None = None
    course: Course | None = None
    acute: bool = False

    def truth_behind(self, shown: Features) -> Truth:
        """Return what is true of the patient whom the question is about."""
        mixed_up = self.other is not None and sheet_cannot_be_right(shown)
        return self.other if mixed_up and self.other is not None else self.truth


@dataclass(frozen=True, slots=True)
class Draws:
    """Named streams of random numbers: one generator per variable."""

    seed: int
    stream: int
    n: int
    prefix: str = ""

    def uniform(self, name: str) -> Array:
        """Return one uniform number per patient."""
        return self._generator(name).random(self.n)

    def normal(self, name: str) -> Array:
        """Return one standard normal number per patient."""
        return self._generator(name).standard_normal(self.n)

    def within(self, name: str, cumulative: Array) -> Array:
        """Return the position drawn by cumulative probabilities, whose last column is 1."""
        return np.asarray((self.uniform(name)[:, None] >= cumulative[:, :-1]).sum(axis=1))

    def _generator(self, name: str) -> np.random.Generator:
        key = crc32((self.prefix + name).encode())
        return np.random.default_rng([self.seed, self.stream, key])


@dataclass(frozen=True, slots=True)
class People:
    """Latent state and risk factors, one entry per patient."""

    egfr: Array
    acr: Array
    age: Array
    female: Array
    diabetes: Array
    hypertension: Array
    log_change: Array

    @property
    def last_egfr(self) -> Array:
        """Return the usual eGFR at the last visit; without a course that at the only one."""
        return np.asarray(self.egfr * np.exp(self.log_change))

    def creatinine(self, egfr: Array, age: Array) -> Array:
        """Return the creatinine that belongs to an eGFR."""
        women, men = (creatinine_for(egfr, age, female=sex) for sex in (True, False))
        return np.asarray(np.where(self.female, women, men))


def draw_cohort(
    n_patients: int,
    *,
    seed: int,
    stream: int = 0,
    with_visits: bool = False,
    equation_error: bool = False,
) -> list[SyntheticPatient]:
    """Draw patients; another ``stream`` of the same seed shares none of them.

    ``with_visits`` gives each a course, ``equation_error`` a measured rate that scatters around the
    usual eGFR and takes its place as the truth.
    """
    draws = Draws(seed, stream, n_patients)
    people, others = (draw_people(d, with_visits=with_visits) for d in (draws, _others(draws)))
    columns = {"sex": people.female, **_time(draws)}
    courses: list[Course | None] = [None] * n_patients
    if with_visits:
        made = _courses(people, draws)
        columns["sc"], courses = made.last_creatinine, list(made.courses)
        acute = made.acute
    else:
        columns["sc"], acute = _creatinine(people, columns["days_observed"], draws)
    columns |= _findings(people, columns["sc"], draws)
    hidden = {name: draws.uniform(f"hide {name}") < share for name, share in MISSING_SHARE.items()}
    if with_visits:  # a course of estimates implies both
        hidden["age"] = hidden["sex"] = np.zeros(n_patients, dtype=bool)
    own = _truths(people, draws, with_visits, equation_error)
    foreign = _truths(others, _others(draws), with_visits, equation_error)
    mixed = draws.uniform("mixed up") < setting.MIXED_UP_PROBABILITY
    return [
        SyntheticPatient(
            index,
            _visible(columns, hidden, index),
            own[index],
            foreign[index] if mixed[index] else None,
            courses[index],
            bool(acute[index]),
        )
        for index in range(n_patients)
    ]


def _others(draws: Draws) -> Draws:
    return Draws(draws.seed, draws.stream, draws.n, "other ")


def draw_people(draws: Draws, *, with_visits: bool = False) -> People:
    """Draw sex, age, causes, usual eGFR (at the first visit of a course) and albuminuria."""
    female = (draws.uniform("sex") < setting.FEMALE_PROBABILITY).astype(int)
    ages = np.cumsum(setting.AGE_PROBABILITIES)
    age = setting.AGES[np.searchsorted(ages[:-1], draws.uniform("age"), side="right")]
    diabetes = (draws.uniform("dm") < setting.DIABETES_PROBABILITY).astype(int)
    chance = setting.hypertension_probability(diabetes)
    hypertension = (draws.uniform("htn") < chance).astype(int)
    category = draws.within("category", setting.CATEGORY_SHARES[diabetes].cumsum(axis=1))
    egfr = _between(setting.EGFR_EDGES, category, draws.uniform("egfr"))
    log_change = np.zeros(draws.n)
    if with_visits:
        log_change = draw_changes(egfr, draws.uniform("change"))
        last = np.clip(egfr * np.exp(log_change), *setting.EGFR_RANGE)
        category = np.minimum(np.searchsorted(setting.EGFR_EDGES[1:], last, side="right"), 5)
    raised = draws.within(
        "albuminuria", setting.ALBUMINURIA_SHARES[diabetes, category].cumsum(axis=1)
    )
    acr = _between(setting.ACR_EDGES, raised, draws.uniform("acr"))
    return People(egfr, acr, age, female, diabetes, hypertension, log_change)


def _between(edges: tuple[float, ...], index: Array, place: Array) -> Array:
    """Return a value between two edges, uniform on the log scale, to two decimals."""
    logs = np.log(edges)
    value = np.exp(logs[index] + place * (logs[index + 1] - logs[index]))
    # Rounding down, but not below the edge, keeps a rounded value inside its own category.
    return np.asarray(np.maximum(np.floor(value * 100) / 100, np.asarray(edges)[index]))


def _truths(people: People, draws: Draws, with_visits: bool, equation_error: bool) -> list[Truth]:
    egfr = people.last_egfr
    if equation_error:
        egfr = egfr * np.exp(setting.EQUATION_SD * draws.normal("equation"))
    return [
        Truth(float(e), float(a), float(f) if with_visits else None)
        for e, a, f in zip(egfr, people.acr, people.egfr, strict=True)
    ]


def _time(draws: Draws) -> dict[str, Array]:
    short = draws.uniform("short observation") < SHORT_OBSERVATION_SHARE
    days = draws.uniform("days")
    chosen = np.where(short, 7 + np.floor(days * 80), 95 + np.floor(days * 1400))
    drug = draws.uniform("drug") < setting.DRUG_PROBABILITY
    return {"days_observed": chosen.astype(int), "drug_started": drug.astype(int)}


def _acute_factor(days: Array, draws: Draws) -> Array:
    """Return what acute injury multiplies creatinine by; 1 for those who have none."""
    acute = (days < CHRONIC_DAYS) & (draws.uniform("acute") < setting.ACUTE_PROBABILITY)
    low, high = np.log(setting.ACUTE_FACTORS)
    return np.where(acute, np.exp(low + draws.uniform("acute factor") * (high - low)), 1.0)


def _printed(exact: Array, scatter: Array) -> Array:
    value = exact * np.exp(LOG_CREATININE_SD * scatter)
    return np.maximum(np.round(value / 0.1), 1) * 0.1


def _creatinine(people: People, days: Array, draws: Draws) -> tuple[Array, Array]:
    factor = _acute_factor(days, draws)
    exact = people.creatinine(people.egfr, people.age) * factor
    return _printed(exact, draws.normal("sc")), factor > 1.0


def _findings(people: People, creatinine: Array, draws: Draws) -> dict[str, Array]:
    day = (ckd_epi_2021(creatinine, people.age, female=sex) for sex in (True, False))
    egfr = np.where(people.female, *day)
    sheet = setting.Sheet(creatinine, egfr, people.female, people.diabetes, people.hypertension)
    columns: dict[str, Array] = {
        "age": people.age, "dm": people.diabetes, "htn": people.hypertension
    }  # fmt: skip
    for name, measurement in setting.MEASUREMENTS.items():
        columns[name] = measurement.value(sheet, draws.normal(name))
    for name, (factor, sd, step) in setting.FROM_HAEMOGLOBIN.items():
        raw = columns["hemo"] * factor + sd * draws.normal(name)
        columns[name] = np.round(raw / step) * step
    for name, probabilities in setting.GRADES.items():
        grade = draws.within(name, probabilities(sheet).cumsum(axis=1))
        values = setting.GRADE_VALUES.get(name)
        columns[name] = np.asarray(values)[grade] if values else grade
    raised = np.searchsorted(setting.ACR_EDGES[1:3], people.acr, side="right")
    columns["al"] = draws.within("al", setting.DIPSTICK[raised].cumsum(axis=1))
    contradicts = draws.uniform("contradiction") < CONTRADICTION_SHARE
    columns["pcv"] = np.where(contradicts, np.round(5 * columns["hemo"]), columns["pcv"])
    for name, (share, low, high) in SLIPS.items():
        slipped = draws.uniform(f"slip {name}") < share
        wrong = np.round(low + draws.uniform(f"slip value {name}") * (high - low), 1)
        columns[name] = np.where(slipped, wrong, creatinine if name == "sc" else columns[name])
    return columns


@dataclass(frozen=True, slots=True)
class _Courses:
    courses: list[Course]
    last_creatinine: Array
    acute: Array


def _courses(people: People, draws: Draws) -> _Courses:
    n_visits = 2 + np.searchsorted([0.35, 0.75], draws.uniform("n visits"), side="right")
    short = draws.uniform("short course") < SHORT_OBSERVATION_SHARE
    length = draws.uniform("course length")
    n_days = np.where(short, 20 + np.floor(length * 65), 120 + np.floor(length * 1300))
    factor = _acute_factor(n_days, draws)
    days, shown = [], []
    for visit in range(MAX_VISITS):
        day = np.round(n_days * np.minimum(visit / (n_visits - 1), 1.0))
        egfr = people.egfr * np.exp(people.log_change * day / n_days)
        exact = people.creatinine(egfr, people.age - (n_days - day) / DAYS_PER_YEAR)
        exact = np.where(day == n_days, exact * factor, exact)
        days.append(day.astype(int))
        shown.append(_printed(exact, draws.normal(f"visit {visit}")))
    hidden = [draws.uniform(f"hide visit {visit}") < 0.04 for visit in range(MAX_VISITS)]
    courses = [
        Course(
            tuple(int(days[k][i]) for k in range(n_visits[i])),
            tuple(
                None if hidden[k][i] else round(float(shown[k][i]), 1) for k in range(n_visits[i])
            ),
        )
        for i in range(draws.n)
    ]
    last = np.array(shown)[n_visits - 1, np.arange(draws.n)]
    return _Courses(courses, last, factor > 1.0)


def _visible(
    columns: Mapping[str, Array], hidden: Mapping[str, Array], index: int
) -> dict[str, Value]:
    return {
        name: None if name in hidden and hidden[name][index] else _plain(name, columns[name][index])
        for name in (*FEATURES, *CONTEXT)
    }


def _plain(name: str, value: Numbers) -> Value:
    feature = FEATURES.get(name) or CONTEXT[name]
    number = round(float(value), 3)
    return int(number) if feature.codes or number.is_integer() else number
