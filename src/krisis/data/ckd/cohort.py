"""Draw the embedded cohort: synthetic adults whose usual eGFR and albuminuria are known.

Every variable has a generator of its own, so the first patients of a larger cohort are those of a
smaller one, and hiding a value never moves another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from krisis.data.ckd import cohort_model as model
from krisis.data.ckd.cohort_model import CHRONIC_DAYS, Tables, tables
from krisis.data.ckd.egfr import MICROMOL_PER_MG_DL, Array, Numbers, log_creatinine_for
from krisis.data.ckd.posterior import anaemia_noted, red_cells
from krisis.data.ckd.schema import CONTEXT, FEATURES, Value

# The share of values that is not shown. It depends on nothing, so it can reveal nothing.
MISSING_SHARE: Mapping[str, float] = {
    **dict.fromkeys(FEATURES, 0.15),
    "age": 0.0,
    "sc": 0.03,
    "al": 0.08,
    "dm": 0.04,
    "htn": 0.04,
    "sex": 0.02,
}
SLIP_SHARE = 0.01  # of creatinine in µmol/L and of haemoglobin in g/L, in the column of the other


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of a patient with one visit."""

    egfr: float
    acr_mg_g: float
    haematuria: bool

    @property
    def has_ckd(self) -> bool:
        """Say whether a lasting eGFR below 60 or a lasting marker of damage is present."""
        return self.egfr < 60.0 or self.acr_mg_g >= 30.0 or self.haematuria


@dataclass(frozen=True, slots=True)
class SyntheticPatient:
    """What can be seen of a patient (``None``: not measured) and what is true."""

    number: int
    visible: dict[str, Value]
    truth: Truth
    acute: bool = False


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

    def chosen(self, name: str, probabilities: Array) -> Array:
        """Return the position drawn by the probabilities of each row."""
        cumulative = np.cumsum(probabilities, axis=1)
        draw = self.uniform(name)[:, None] * cumulative[:, -1:]
        return np.asarray((draw >= cumulative[:, :-1]).sum(axis=1))

    def yes(self, name: str, probability: Array | float) -> Array:
        """Return 1 with the probability, else 0."""
        return np.asarray(self.uniform(name) < probability).astype(int)

    def _generator(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.stream, crc32(name.encode())])


@dataclass(frozen=True, slots=True)
class People:
    """Who the patients are, one entry each; ``cell`` is the place of the usual eGFR on the grid."""

    age: Array
    female: Array
    diabetes: Array
    hypertension: Array
    cell: Array
    acr_cell: Array


def draw_people(draws: Draws, made: Tables) -> People:
    """Draw age, sex, diabetes, usual eGFR, hypertension and albuminuria, in this order."""
    age = model.AGES[np.searchsorted(np.cumsum(made.ages)[:-1], draws.uniform("age"), side="right")]
    female = draws.yes("sex", made.parameters.female)
    diabetes = draws.yes("dm", made.diabetes(age))
    cell = draws.chosen("egfr", made.egfr[diabetes, age - 18])
    hypertension = draws.yes("htn", made.hypertension(age, diabetes, made.lx[cell]))
    acr_cell = draws.chosen("acr", made.acr[diabetes, hypertension, cell])
    return People(age, female, diabetes, hypertension, cell, acr_cell)


def draw_cohort(
    n_patients: int, *, seed: int, stream: int = 0, measured_gfr: bool = False
) -> list[SyntheticPatient]:
    """Draw patients with one visit; another ``stream`` of the same seed shares none of them.

    With ``measured_gfr``, creatinine follows the measured rate with the error of the equation.
    """
    draws, made = Draws(seed, stream, n_patients), tables()
    people = draw_people(draws, made)
    haematuria = draws.yes("haematuria", made.haematuria[people.acr_cell])
    columns, acute = _columns(people, haematuria, draws, made, measured_gfr=measured_gfr)
    hidden = {name: draws.uniform(f"hide {name}") < share for name, share in MISSING_SHARE.items()}
    names = (*FEATURES, "sex", "days_observed")
    shown = {
        name: [
            None if hide else _plain(name, value)
            for value, hide in zip(
                columns[name], hidden.get(name, np.zeros(n_patients)), strict=True
            )
        ]
        for name in names
    }
    egfr, acr = made.grid.value[people.cell], model.acr_cells().value[people.acr_cell]
    return [
        SyntheticPatient(
            index,
            {name: shown[name][index] for name in names},
            Truth(
                round(float(egfr[index]), 2), round(float(acr[index]), 2), bool(haematuria[index])
            ),
            bool(acute[index]),
        )
        for index in range(n_patients)
    ]


def _columns(
    people: People, haematuria: Array, draws: Draws, made: Tables, *, measured_gfr: bool
) -> tuple[dict[str, Array], Array]:
    p, lx = made.parameters, made.lx[people.cell]
    short = draws.yes("short", p.short)
    place = draws.uniform("days")
    days = np.where(short, 7 + np.floor(place * 80), 95 + np.floor(place * 1400)).astype(int)
    possible = made.grid.value[people.cell] > model.LOWEST_EGFR_WITH_ACUTE
    acute = possible & (days < CHRONIC_DAYS) & (draws.uniform("acute") < p.acute)
    factors = model.ACUTE_FACTORS[1:]
    drawn = np.minimum(draws.uniform("acute factor") * len(factors), len(factors) - 1)
    log_factor = np.where(acute, np.log(factors[drawn.astype(int)]), 0.0)
    columns = {
        "age": people.age,
        "sex": people.female,
        "dm": people.diabetes,
        "htn": people.hypertension,
        "days_observed": days,
        "sc": _creatinine(people, log_factor, draws, made, measured_gfr=measured_gfr),
        "bu": model.UREA.draw(p.expected_urea(lx, log_factor), p.urea_sd, draws.normal("bu")),
        "pot": model.POTASSIUM.draw(
            p.expected_potassium(lx, log_factor), p.potassium_sd, draws.normal("pot")
        ),
        "sod": model.SODIUM.draw(p.expected_sodium(lx), p.sodium_sd, draws.normal("sod")),
        "bgr": model.GLUCOSE.draw(
            p.expected_glucose(people.diabetes), p.glucose_sd, draws.normal("bgr")
        ),
        "su": draws.chosen("su", model.URINE_SUGAR[people.diabetes]),
        "bp": model.DIASTOLIC.draw(
            p.expected_diastolic(people.hypertension), p.diastolic_sd, draws.normal("bp")
        ),
        "wbcc": np.round(np.exp(np.log(7600.0) + 0.25 * draws.normal("wbcc")), -2),
        "cad": draws.yes(
            "cad", made.coronary(people.age, people.diabetes, people.hypertension, lx)
        ),
        "appet": draws.yes("appet", p.poor_appetite(lx, log_factor)),
        "pe": draws.yes("pe", made.oedema[people.cell, people.acr_cell]),
        **_blood(people, draws, made),
        **_urine(people, haematuria, draws, made),
    }
    return columns, acute


def _creatinine(
    people: People, log_factor: Array, draws: Draws, made: Tables, *, measured_gfr: bool
) -> Array:
    log_egfr = made.grid.log_value[people.cell]
    if measured_gfr:
        nodes = model.EQUATION_NODES
        drawn = nodes[(draws.uniform("equation") * len(nodes)).astype(int)]
        top = np.log(model.largest_egfr(people.age))
        log_egfr = np.minimum(log_egfr + made.parameters.equation_sd * drawn, top)
    mean = log_creatinine_for(log_egfr, people.age, female=people.female == 1) + log_factor
    scatter = draws.normal("sc")
    printed = model.CREATININE.draw(mean, model.CREATININE_SD, scatter)
    in_umol = np.round(np.exp(mean + model.CREATININE_SD * scatter) * MICROMOL_PER_MG_DL)
    return np.where(draws.uniform("slip sc") < SLIP_SHARE, in_umol, printed)


def _blood(people: People, draws: Draws, made: Tables) -> dict[str, Array]:
    rows = made.haemoglobin[people.female, people.diabetes, people.cell]
    latent = model.HAEMOGLOBIN[draws.chosen("hemo", rows)]
    pcv_mean = model.PCV_PER_HAEMOGLOBIN * latent
    count_mean = model.RED_COUNT_PER_HAEMOGLOBIN * latent
    slip = draws.uniform("slip hemo") < SLIP_SHARE
    return {
        "hemo": np.where(slip, np.round(latent * 10), latent),
        "pcv": model.PACKED_CELLS.draw(pcv_mean, model.PCV_SD, draws.normal("pcv")),
        "rbcc": model.RED_COUNT.draw(count_mean, model.RED_COUNT_SD, draws.normal("rbcc")),
        "ane": draws.yes("ane", anaemia_noted(latent, people.female)),
    }


def _urine(people: People, haematuria: Array, draws: Draws, made: Tables) -> dict[str, Array]:
    infection = draws.yes("infection", made.infection(people.age, people.female))
    gravity = draws.chosen("sg", made.gravity[people.cell])
    return {
        "sg": np.asarray(model.GRAVITIES)[gravity],
        "al": draws.chosen("al", made.dipstick[gravity, infection, people.acr_cell]),
        "rbc": draws.yes("rbc", red_cells(haematuria, infection)),
        **{
            name: draws.yes(name, np.asarray(chances)[infection])
            for name, chances in model.URINE.items()
        },
    }


def _plain(name: str, value: Numbers) -> Value:
    feature = FEATURES.get(name) or CONTEXT[name]
    number = round(float(value), 3)
    # What has no digit after the point has none to show: a slip, in the other unit, among them.
    slip = feature.decimals and number > feature.high
    return number if feature.decimals and not slip else int(number)
