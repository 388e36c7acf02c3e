"""The exact posterior of one visit: P(category, albuminuria, haematuria | all shown findings).

Given the usual eGFR, the ratio of albumin to creatinine (ACR), sex, diabetes, hypertension and the
specific gravity of the urine, the likelihood of the findings is a product of a function of the eGFR
(creatinine, urea, potassium, haemoglobin, …; acute injury summed out) and a function of the ACR
(dipstick, sediment; infection summed out), times that of oedema, which depends on both. What is not
shown of sex, diabetes, hypertension and gravity becomes one row for each possible value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, ndtr

from krisis.data.base import Features
from krisis.data.ckd.cohort_model import (
    ACUTE_FACTORS,
    CHRONIC_DAYS,
    CREATININE,
    CREATININE_SD,
    DIASTOLIC,
    EQUATION_NODES,
    GLUCOSE,
    GRAVITIES,
    HAEMOGLOBIN,
    LARGEST_CREATININE,
    LARGEST_HAEMOGLOBIN,
    LOWEST_EGFR_WITH_ACUTE,
    PACKED_CELLS,
    PARAMETERS,
    PCV_PER_HAEMOGLOBIN,
    PCV_SD,
    POTASSIUM,
    RED_CELLS,
    RED_CELLS_IF_HAEMATURIA,
    RED_CELLS_IF_INFECTION,
    RED_COUNT,
    RED_COUNT_PER_HAEMOGLOBIN,
    RED_COUNT_SD,
    SODIUM,
    UREA,
    URINE,
    URINE_SUGAR,
    Parameters,
    Printed,
    Tables,
    acr_cells,
    largest_egfr,
    tables,
)
from krisis.data.ckd.egfr import MICROMOL_PER_MG_DL, Array, log_creatinine_for

_COLUMNS = (
    "age", "sex", "dm", "htn", "sg", "sc", "bu", "pot", "sod", "hemo", "pcv", "rbcc", "ane", "cad",
    "appet", "pe", "al", "rbc", "pc", "pcc", "ba", "bgr", "su", "bp", "days_observed",
)  # fmt: skip
_ROWS_AT_ONCE = 2000
Columns = dict[str, Array]


def posterior(
    shown: Sequence[Features],
    *,
    parameters: Parameters = PARAMETERS,
    measured_gfr: bool = False,
) -> Array:
    """Return P(category, albuminuria, haematuria) of each case: n × 6 × 3 × 2, G5 and A1 first.

    With ``measured_gfr`` the category is that of the measured rate, which creatinine follows with
    the error of the equation.
    """
    found = np.empty((len(shown), 6, 3, 2))
    for start in range(0, len(shown), _ROWS_AT_ONCE):
        part = shown[start : start + _ROWS_AT_ONCE]
        found[start : start + len(part)] = _posterior(part, tables(parameters), measured_gfr)
    return found


def _posterior(shown: Sequence[Features], made: Tables, measured_gfr: bool) -> Array:
    columns = {name: _column(shown, name) for name in _COLUMNS}
    gravity = columns["sg"]
    columns["sg"] = np.where(np.isnan(gravity), np.nan, np.round((gravity - 1.005) / 0.005))
    owner, rows = _one_row_per_possibility(columns, len(shown))
    function = _of_egfr(rows, made, measured_gfr) * _weight(rows, made)[:, None]
    by_marker = _of_acr(rows, made)
    table = _summed(rows, made, function, by_marker)
    found = np.zeros((len(shown), 6, 3, 2))
    np.add.at(found, owner, table)
    total = found.sum(axis=(1, 2, 3), keepdims=True)
    # A patient that the cohort cannot hold teaches nothing: every answer stays possible.
    return np.where(total > 0.0, found / np.where(total > 0.0, total, 1.0), 1 / found[0].size)


def _column(shown: Sequence[Features], name: str) -> Array:
    values = (case.get(name) for case in shown)
    return np.array([np.nan if value is None else float(value) for value in values])


def _one_row_per_possibility(columns: Columns, n: int) -> tuple[Array, Columns]:
    """Repeat each case for all values of what decides the shape of the likelihood and is hidden."""
    owner, rows = np.arange(n), dict(columns)
    for name, n_values in (("sex", 2), ("dm", 2), ("htn", 2), ("sg", len(GRAVITIES))):
        repeats = np.where(np.isnan(rows[name]), n_values, 1)
        index = np.repeat(np.arange(len(owner)), repeats)
        value = np.arange(len(index)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        owner, rows = owner[index], {key: column[index] for key, column in rows.items()}
        rows[name] = np.where(np.isnan(rows[name]), value, rows[name]).astype(int)
    rows["age"] = rows["age"].astype(int)
    return owner, rows


def _weight(rows: Columns, made: Tables) -> Array:
    """Return what does not depend on the kidney: sex, diabetes, and what shows them."""
    p = made.parameters
    weight = np.where(rows["sex"] == 1, p.female, 1 - p.female)
    diabetes = made.diabetes(rows["age"])
    weight = weight * np.where(rows["dm"] == 1, diabetes, 1 - diabetes)
    mean = p.expected_glucose(rows["dm"])
    weight = weight * _or_one(GLUCOSE.probability(rows["bgr"], mean, p.glucose_sd))
    sugar = np.nan_to_num(rows["su"]).astype(int)
    weight = weight * np.where(np.isnan(rows["su"]), 1.0, URINE_SUGAR[rows["dm"], sugar])
    mean = p.expected_diastolic(rows["htn"])
    return np.asarray(weight * _or_one(DIASTOLIC.probability(rows["bp"], mean, p.diastolic_sd)))


def _seen(how: Printed, printed: Array, mean: Array, sd: float) -> Array | float:
    """Return the likelihood of a column of printed numbers, 1 where none is shown."""
    if np.isnan(printed).all():
        return 1.0
    return _or_one(how.probability(printed[:, None], mean, sd))


def _or_one(likelihood: Array) -> Array:
    """Return a likelihood with 1 for what is not shown."""
    return np.where(np.isnan(likelihood), 1.0, likelihood)


def _binary(shown: Array, chance: Array) -> Array:
    """Return P(shown | chance of yes), 1 where nothing is shown."""
    shown = shown.reshape(shown.shape + (1,) * (chance.ndim - shown.ndim))
    return np.where(np.isnan(shown), 1.0, np.where(shown == 1, chance, 1 - chance))


def _of_egfr(rows: Columns, made: Tables, measured_gfr: bool) -> Array:
    """Return the prior of the usual eGFR times the likelihood of what follows it: rows × cells."""
    p, lx = made.parameters, made.lx
    age, diabetes, hypertension = rows["age"][:, None], rows["dm"][:, None], rows["htn"][:, None]
    found = made.egfr[rows["dm"], np.clip(rows["age"], 18, 90) - 18]
    found = found * _binary(rows["htn"].astype(float), made.hypertension(age, diabetes, lx))
    found = found * made.gravity.T[rows["sg"]]
    found = found * _binary(rows["cad"], made.coronary(age, diabetes, hypertension, lx))
    found = found * _seen(SODIUM, rows["sod"], p.expected_sodium(lx), p.sodium_sd)
    found = found * _of_haemoglobin(rows, made)
    return np.asarray(found * _of_acute_findings(rows, made, measured_gfr))


def _of_haemoglobin(rows: Columns, made: Tables) -> Array:
    """Return the likelihood of the blood count; printed haemoglobin is the latent one itself."""
    sex, diabetes, printed = rows["sex"], rows["dm"], rows["hemo"]
    printed = np.where(printed > LARGEST_HAEMOGLOBIN, printed / 10.0, printed)
    place = np.clip(np.round((np.nan_to_num(printed) - 2.5) * 10), 0, len(HAEMOGLOBIN) - 1)
    found = made.haemoglobin[sex, diabetes, :, place.astype(int)]
    for woman in (0, 1):
        for known_diabetes in (0, 1):
            here = np.isnan(printed) & (sex == woman) & (diabetes == known_diabetes)
            blood = _of_blood_count(
                {name: rows[name][here] for name in ("pcv", "rbcc", "ane")}, woman
            )
            found[here] = blood @ made.haemoglobin[woman, known_diabetes].T
    return np.asarray(found)


def _of_blood_count(rows: Columns, woman: int) -> Array:
    """Return the likelihood of what follows a haemoglobin that is not shown: rows × bins."""
    blood = np.ones((len(rows["pcv"]), len(HAEMOGLOBIN)))
    mean = PCV_PER_HAEMOGLOBIN * HAEMOGLOBIN
    blood = blood * _seen(PACKED_CELLS, rows["pcv"], mean, PCV_SD)
    mean = RED_COUNT_PER_HAEMOGLOBIN * HAEMOGLOBIN
    blood = blood * _seen(RED_COUNT, rows["rbcc"], mean, RED_COUNT_SD)
    noted = anaemia_noted(HAEMOGLOBIN, np.array(woman))
    return np.asarray(blood * _binary(rows["ane"], noted[None, :]))


def anaemia_noted(haemoglobin: Array, female: Array) -> Array:
    """Return the chance that anaemia stands in the notes."""
    return np.asarray(expit((np.where(female == 1, 10.6, 11.2) - haemoglobin) / 0.35))


def _of_acute_findings(rows: Columns, made: Tables, measured_gfr: bool) -> Array:
    """Sum acute injury out of creatinine, urea, potassium and appetite: rows × cells."""
    short = rows["days_observed"] < CHRONIC_DAYS  # False where it is not shown
    unknown = np.isnan(rows["days_observed"])
    chance = made.parameters.acute * (short + made.parameters.short * unknown)
    possible = made.grid.value > LOWEST_EGFR_WITH_ACUTE
    acute = chance[:, None] * possible
    found = (1 - acute) * _with_factor(rows, made, 1.0, measured_gfr)
    concerned = np.flatnonzero(chance > 0.0)
    if len(concerned):
        part = {name: column[concerned] for name, column in rows.items()}
        factors = ACUTE_FACTORS[1:]
        mixed = sum(_with_factor(part, made, factor, measured_gfr) for factor in factors)
        found[concerned] += acute[concerned] * mixed / len(factors)
    return np.asarray(found)


def _with_factor(rows: Columns, made: Tables, factor: float, measured_gfr: bool) -> Array:
    p, lx, log_factor = made.parameters, made.lx, np.log(factor)
    found = _creatinine(rows, made, log_factor, measured_gfr)
    found = found * _seen(UREA, rows["bu"], p.expected_urea(lx, log_factor), p.urea_sd)
    mean = p.expected_potassium(lx, log_factor)
    found = found * _seen(POTASSIUM, rows["pot"], mean, p.potassium_sd)
    poor = p.poor_appetite(lx, log_factor)
    return np.asarray(found * _binary(rows["appet"], np.broadcast_to(poor, (1, len(lx)))))


def _creatinine(rows: Columns, made: Tables, log_factor: float, measured_gfr: bool) -> Array:
    printed, female = rows["sc"][:, None], rows["sex"][:, None] == 1
    age = rows["age"][:, None].astype(float)
    if not measured_gfr:
        mean = log_creatinine_for(made.grid.log_value, age, female=female) + log_factor
        return _or_one(printed_creatinine(printed, mean))
    top, found = np.log(largest_egfr(age)), np.zeros((len(printed), len(made.lx)))
    for node in EQUATION_NODES:
        apparent = np.minimum(made.grid.log_value + made.parameters.equation_sd * node, top)
        mean = log_creatinine_for(apparent, age, female=female) + log_factor
        found += printed_creatinine(printed, mean)
    return _or_one(found / len(EQUATION_NODES))


def printed_creatinine(printed: Array, mean: Array) -> Array:
    """Return P(this creatinine is printed | mean of its logarithm).

    What is too large for mg/dL was printed in µmol/L by mistake, to a whole number.
    """
    slip = printed > LARGEST_CREATININE
    if slip.any():
        value = np.where(slip, printed, np.nan)
        low, high = ((value + half) / MICROMOL_PER_MG_DL for half in (-0.5, 0.5))
        in_mg = CREATININE.probability(np.where(slip, 1.0, printed), mean, CREATININE_SD)
        in_umol = ndtr((np.log(high) - mean) / CREATININE_SD)
        in_umol = in_umol - ndtr((np.log(low) - mean) / CREATININE_SD)
        return np.where(slip, in_umol, in_mg)
    return CREATININE.probability(printed, mean, CREATININE_SD)


def _of_acr(rows: Columns, made: Tables) -> Array:
    """Return the likelihood of the urine: haematuria × rows × ACR, infection summed out."""
    infected = made.infection(rows["age"], rows["sex"])
    grade = np.nan_to_num(rows["al"]).astype(int)
    found = np.zeros((2, len(grade), len(acr_cells().log_value)))
    for infection in (0, 1):
        chance = infected if infection else 1 - infected
        for name, chances in URINE.items():
            chance = chance * _binary(rows[name], np.full(len(grade), chances[infection]))
        dipstick = made.dipstick[rows["sg"], infection, :, grade]
        dipstick = np.where(np.isnan(rows["al"])[:, None], 1.0, dipstick)
        for haematuria in (0, 1):
            red = red_cells(haematuria, infection)
            weight = chance * _binary(rows["rbc"], np.full(len(grade), red))
            found[haematuria] += weight[:, None] * dipstick
    found[0] *= 1 - made.haematuria
    found[1] *= made.haematuria
    return found


def red_cells(haematuria: Array | int, infection: Array | int) -> Array:
    """Return the chance of red cells in the urine: any of three causes."""
    spared = (1 - RED_CELLS_IF_HAEMATURIA * np.asarray(haematuria)) * (
        1 - RED_CELLS_IF_INFECTION * np.asarray(infection)
    )
    return np.asarray(1 - (1 - RED_CELLS) * spared)


def _summed(rows: Columns, made: Tables, function: Array, by_marker: Array) -> Array:
    """Sum the joint of eGFR and ACR to categories, rows that share their table at once."""
    found = np.empty((len(function), 6, 3, 2))
    oedema = np.where(np.isnan(rows["pe"]), 2, np.nan_to_num(rows["pe"])).astype(int)
    starts = np.append(acr_cells().starts, len(acr_cells().log_value))
    for diabetes in (0, 1):
        for hypertension in (0, 1):
            for swelling in (0, 1, 2):
                here = np.flatnonzero(
                    (rows["dm"] == diabetes) & (rows["htn"] == hypertension) & (oedema == swelling)
                )
                if not len(here):
                    continue
                joint = made.acr[diabetes, hypertension]
                joint = joint * (1 - made.oedema, made.oedema, 1.0)[swelling]
                for group in range(3):
                    part = slice(starts[group], starts[group + 1])
                    for haematuria in (0, 1):
                        of_acr = by_marker[haematuria][here, part] @ joint[:, part].T
                        by_cell = function[here] * of_acr
                        sums = np.add.reduceat(by_cell, made.grid.starts, axis=1)
                        found[here, :, group, haematuria] = sums
    return found
