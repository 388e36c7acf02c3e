"""Draw the embedded cohort: synthetic adults with a latent filtration rate that is known.

Every variable has a generator of its own, so the first patients of a larger cohort are those of a
smaller one, and hiding a value never moves another.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from krisis.data.ckd import latent
from krisis.data.ckd.egfr import Array, Numbers
from krisis.data.ckd.schema import CONTEXT, FEATURES, Value

# The share of values that is not measured. It depends on nothing, so it can reveal nothing.
MISSING_SHARE: dict[str, float] = {
    "rbc": 0.25, "rbcc": 0.20, "wbcc": 0.18, "pot": 0.12, "sod": 0.12, "pcv": 0.12, "pc": 0.12,
    "hemo": 0.08, "su": 0.10, "sg": 0.08, "al": 0.08, "bgr": 0.08, "bu": 0.05, "sc": 0.04,
    "bp": 0.03, "age": 0.02, "sex": 0.05, "htn": 0.02, "dm": 0.02, "cad": 0.01, "appet": 0.01,
    "pe": 0.01, "ane": 0.01,
}  # fmt: skip

# Slips of the pen: share, and the range of values, all impossible, drawn without regard to the
# patient. Ignoring such a value is therefore exactly what the posterior should do.
SLIPS: dict[str, tuple[float, float, float]] = {
    "sc": (0.015, 45.0, 160.0),
    "sod": (0.01, 2.0, 15.0),
    "pot": (0.01, 20.0, 50.0),
}

SHORT_OBSERVATION_SHARE = 0.08


@dataclass(frozen=True, slots=True)
class SyntheticPatient:
    """What can be seen of a patient (``None``: not measured) and what is true."""

    number: int
    visible: dict[str, Value]
    gfr: float
    acr_mg_g: float

    @property
    def has_ckd(self) -> bool:
        """Say whether a filtration rate below 60 or raised albuminuria is truly present."""
        return self.gfr < 60.0 or self.acr_mg_g >= 30.0


@dataclass(frozen=True, slots=True)
class Draws:
    """Named streams of random numbers: one generator per variable."""

    seed: int
    stream: int
    n: int

    def uniform(self, name: str) -> Array:
        """Return one uniform number per patient."""
        return self._generator(name).random(self.n)

    def normal(self, name: str) -> Array:
        """Return one standard normal number per patient."""
        return self._generator(name).standard_normal(self.n)

    def _generator(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.stream, crc32(name.encode())])


def draw_cohort(n_patients: int, *, seed: int, stream: int = 0) -> list[SyntheticPatient]:
    """Draw patients; another ``stream`` of the same seed shares none of them."""
    draws = Draws(seed, stream, n_patients)
    person = draw_people(draws)
    log_acr = latent.log_acr_mean(person) + latent.LOG_ACR_SD * draws.normal("acr")
    acr = np.round(10.0**log_acr, 1)
    columns = _findings(person, np.log10(np.maximum(acr, 0.1)), draws)
    columns |= {"sex": person.female, "days_observed": _days_observed(draws)}
    hidden = {
        name: draws.uniform(f"hide {name}") < MISSING_SHARE.get(name, 0.0) for name in columns
    }
    return [
        SyntheticPatient(
            index,
            {
                name: None if hidden[name][index] else _plain(name, columns[name][index])
                for name in (*FEATURES, *CONTEXT)
            },
            float(person.gfr[index]),
            float(acr[index]),
        )
        for index in range(n_patients)
    ]


def draw_people(draws: Draws) -> latent.Person:
    """Draw sex, age, causes and the latent filtration rate, to two decimals."""
    female = (draws.uniform("sex") < latent.FEMALE_PROBABILITY).astype(int)
    ages = np.cumsum(latent.AGE_PROBABILITIES)
    age = latent.AGES[np.searchsorted(ages[:-1], draws.uniform("age"), side="right")]
    diabetes = (draws.uniform("dm") < latent.DIABETES_PROBABILITY).astype(int)
    chance = latent.hypertension_probability(diabetes)
    hypertension = (draws.uniform("htn") < chance).astype(int)
    cumulative = latent.category_weights(age, diabetes, hypertension).cumsum(axis=1)[:, :-1]
    category = (draws.uniform("category")[:, None] >= cumulative).sum(axis=1)
    edges = np.log(latent.GFR_EDGES)
    place = draws.uniform("gfr")
    log_gfr = edges[category] + place * (edges[category + 1] - edges[category])
    # Rounding down keeps a rounded value inside its own category.
    gfr = np.maximum(np.floor(np.exp(log_gfr) * 100) / 100, latent.GFR_RANGE[0])
    return latent.Person(gfr, age, female, diabetes, hypertension)


def _findings(person: latent.Person, log_acr: Array, draws: Draws) -> dict[str, Array]:
    columns: dict[str, Array] = {
        "age": person.age,
        "dm": person.diabetes,
        "htn": person.hypertension,
    }
    for name, measurement in latent.MEASUREMENTS.items():
        columns[name] = measurement.value(person, draws.normal(name))
    for name, (factor, sd, step) in latent.FROM_HAEMOGLOBIN.items():
        raw = columns["hemo"] * factor + sd * draws.normal(name)
        columns[name] = np.round(raw / step) * step
    for name, probabilities in latent.GRADES.items():
        cumulative = probabilities(person).cumsum(axis=1)[:, :-1]
        grade = (draws.uniform(name)[:, None] >= cumulative).sum(axis=1)
        values = latent.GRADE_VALUES.get(name)
        columns[name] = np.asarray(values)[grade] if values else grade
    read = log_acr + latent.DIPSTICK_SD * draws.normal("al")
    columns["al"] = np.searchsorted(latent.DIPSTICK_LIMITS, read, side="right")
    for name, (share, low, high) in SLIPS.items():
        slipped = draws.uniform(f"slip {name}") < share
        wrong = np.round(low + draws.uniform(f"slip value {name}") * (high - low), 1)
        columns[name] = np.where(slipped, wrong, columns[name])
    return columns


def _days_observed(draws: Draws) -> Array:
    short = draws.uniform("short observation") < SHORT_OBSERVATION_SHARE
    days = draws.uniform("days")
    chosen = np.where(short, 7 + np.floor(days * 80), 95 + np.floor(days * 1400))
    return np.asarray(chosen.astype(int))


def _plain(name: str, value: Numbers) -> Value:
    feature = FEATURES.get(name) or CONTEXT[name]
    number = round(float(value), 3)
    return int(number) if feature.codes or number.is_integer() else number
