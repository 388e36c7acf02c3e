"""The cohort: people who look like people, slips that look like slips, an exact posterior."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import spearmanr

from krisis.data.ckd import cohort_model as model
from krisis.data.ckd.cohort import SLIP_SHARE, draw_cohort
from krisis.data.ckd.egfr import creatinine_for, log_creatinine_for
from krisis.data.ckd.posterior import posterior, red_cells
from krisis.data.ckd.reading import Question, ideal_probabilities

N = 6000


@pytest.fixture(scope="module")
def patients():
    return draw_cohort(N, seed=1)


def column(patients, name):
    values = [patient.visible[name] for patient in patients]
    return np.array([np.nan if value is None else value for value in values], dtype=float)


@pytest.fixture(scope="module")
def stage(patients):
    egfr = [patient.truth.egfr for patient in patients]
    return np.array([5, 4, 3, 3, 2, 1])[np.searchsorted([15, 30, 45, 60, 90], egfr, side="right")]


def test_age_and_function_go_together(patients):
    age, egfr = column(patients, "age"), np.array([p.truth.egfr for p in patients])
    assert -0.65 < spearmanr(age, egfr)[0] < -0.35
    assert (egfr[age >= 75] >= 90).mean() <= 0.05


def test_hypertension_and_anaemia_follow_the_stage(patients, stage):
    hypertension = column(patients, "htn")
    assert 0.30 < np.nanmean(hypertension[stage == 1]) < 0.45
    assert np.nanmean(hypertension[stage >= 4]) > 0.75
    blood, sex = column(patients, "hemo"), column(patients, "sex")
    blood = np.where(blood > 25, blood / 10, blood)
    known = ~np.isnan(blood) & ~np.isnan(sex)
    low = np.where(sex == 1, blood <= 12, blood <= 13)
    for number, published in zip(range(1, 6), (0.08, 0.12, 0.17, 0.50, 0.53), strict=True):
        here = known & (stage == number)
        assert low[here].mean() == pytest.approx(published, abs=0.07)


def test_every_stage_has_its_share_and_creatinine_is_possible(patients, stage):
    assert all((stage == number).mean() >= 0.05 for number in range(1, 6))
    creatinine = column(patients, "sc")
    in_mg = creatinine[creatinine < 20]
    assert (in_mg < 0.4).mean() <= 0.005
    old = column(patients, "age") >= 80
    assert np.nanmin(np.where(old, creatinine, np.nan)) >= 0.5
    urea = column(patients, "bu")
    both = ~np.isnan(urea) & (creatinine < 20)
    assert np.corrcoef(np.log(creatinine[both]), np.log(urea[both]))[0, 1] > 0.8


def test_a_slip_is_the_patients_own_value_in_the_other_unit(patients):
    slips = [p for p in patients if (p.visible["sc"] or 0) > 20]
    assert 0.3 * SLIP_SHARE * N < len(slips) < 2 * SLIP_SHARE * N
    for patient in slips:
        sex, shown = patient.visible["sex"], patient.visible["sc"]
        assert isinstance(shown, int)
        if sex is None or patient.acute:
            continue
        usual = creatinine_for(patient.truth.egfr, patient.visible["age"], female=bool(sex))
        assert abs(math.log(shown / 88.4 / usual)) < 0.25
    haemoglobin = [p.visible["hemo"] for p in patients if (p.visible["hemo"] or 0) > 25]
    assert haemoglobin
    assert all(50 < value < 220 for value in haemoglobin)


def test_the_first_patients_of_a_larger_cohort_are_those_of_a_smaller_one():
    assert draw_cohort(50, seed=3) == draw_cohort(80, seed=3)[:50]
    assert draw_cohort(50, seed=3) != draw_cohort(50, seed=3, stream=1)


def test_creatinine_by_the_line_is_creatinine_by_the_equation():
    for female in (True, False):
        for rate in (5.0, 40.0, 90.0, 120.0):
            line = log_creatinine_for(math.log(rate), 50, female=female)
            assert math.exp(line) == pytest.approx(float(creatinine_for(rate, 50, female=female)))


def naive(shown):
    """Sum over every latent at once: eGFR, ACR, haematuria, infection, acute injury."""
    made, p = model.tables(), model.PARAMETERS
    lx, egfr = made.lx, made.grid
    acr = model.acr_cells()
    factors = np.log(model.ACUTE_FACTORS)
    dm, htn, female, age = shown["dm"], shown["htn"], shown["sex"], shown["age"]
    raised = made.hypertension(age, dm, lx)
    prior = made.egfr[dm, age - 18] * (raised if htn else 1 - raised)
    joint = prior[:, None] * made.acr[dm, htn]
    joint = joint[:, :, None, None, None] * np.ones((1, 1, 2, 2, len(factors)))
    joint[:, :, 1] *= made.haematuria[None, :, None, None]
    joint[:, :, 0] *= 1 - made.haematuria[None, :, None, None]
    infected = float(made.infection(age, female))
    joint[:, :, :, 1] *= infected
    joint[:, :, :, 0] *= 1 - infected
    acute = np.where(egfr.value > 15, p.acute if shown["days_observed"] < 90 else 0.0, 0.0)
    shares = np.concatenate([1 - acute[:, None], np.repeat(acute[:, None] / 6, 6, axis=1)], axis=1)
    joint *= shares[:, None, None, None, :]
    mean = log_creatinine_for(egfr.log_value, age, female=bool(female))[:, None] + factors
    creatinine = model.CREATININE.probability(np.array(shown["sc"]), mean, model.CREATININE_SD)
    mean = p.urea + p.urea_per_lx * lx[:, None] + p.urea_per_log_factor * factors
    urea = model.UREA.probability(np.array(shown["bu"]), mean, p.urea_sd)
    poor = expit(
        p.appetite + p.appetite_per_lx * np.maximum(lx, 0)[:, None]
        + p.appetite_per_log_factor * factors
    )  # fmt: skip
    joint *= (creatinine * urea * (poor if shown["appet"] else 1 - poor))[:, None, None, None, :]
    gravity = model.GRAVITIES.index(shown["sg"])
    joint *= made.gravity[:, gravity][:, None, None, None, None]
    dipstick = made.dipstick[gravity, :, :, shown["al"]]
    joint *= dipstick.T[None, :, None, :, None]
    for blood in (0, 1):
        for infection in (0, 1):
            chance = float(red_cells(blood, infection))
            joint[:, :, blood, infection] *= chance if shown["rbc"] else 1 - chance
    pus = np.array(model.URINE["pc"])
    joint *= (pus if shown["pc"] else 1 - pus)[None, None, None, :, None]
    swollen = made.oedema if shown["pe"] else 1 - made.oedema
    joint *= swollen[:, :, None, None, None]
    place = round((shown["hemo"] - 2.5) * 10)
    joint *= made.haemoglobin[female, dm, :, place][:, None, None, None, None]
    table = joint.sum(axis=(3, 4))
    found = np.zeros((6, 3, 2))
    np.add.at(found, (egfr.group[:, None], acr.group[None, :]), table)
    return found / found.sum()


@pytest.mark.parametrize(
    "changed",
    [{}, {"days_observed": 30}, {"al": 3, "rbc": 1, "pc": 1}, {"sc": 4.2, "bu": 60, "pe": 1}],
)
def test_the_posterior_is_the_sum_over_every_latent(changed):
    shown = {
        "age": 66, "sex": 1, "dm": 1, "htn": 0, "sc": 1.3, "bu": 41, "sg": 1.010, "al": 1,
        "rbc": 0, "pc": 0, "pe": 0, "appet": 0, "hemo": 12.1, "days_observed": 200, **changed,
    }  # fmt: skip
    assert posterior([shown])[0] == pytest.approx(naive(shown), abs=1e-9)


def test_what_is_not_shown_is_summed_out():
    shown = {"age": 66, "sex": 1, "dm": 1, "htn": 0, "sc": 1.3, "al": 1, "days_observed": 200}
    made, found = model.tables(), np.zeros((6, 3, 2))
    p_sex = {0: 0.5, 1: 0.5}
    for sex, chance in p_sex.items():
        case = {**shown, "sex": sex}
        # The weight of each sex is the probability of everything shown, which a posterior drops.
        weight = float(
            (
                made.egfr[1, 66 - 18]
                * (1 - made.hypertension(66, 1, made.lx))
                * model.CREATININE.probability(
                    np.array(1.3),
                    log_creatinine_for(made.grid.log_value, 66, female=bool(sex)),
                    model.CREATININE_SD,
                )
                * _of_dipstick(sex, 1)
            ).sum()
        )
        found += chance * weight * posterior([case])[0]
    assert posterior([{**shown, "sex": None}])[0] == pytest.approx(found / found.sum(), abs=1e-9)


def _of_dipstick(sex, grade):
    made = model.tables()
    infected = float(made.infection(66, sex))
    readings = (1 - infected) * made.dipstick[:, 0, :, grade] + infected * made.dipstick[
        :, 1, :, grade
    ]
    return np.einsum("gs,sa,ga->g", made.gravity, readings, made.acr[1, 0])


@pytest.mark.parametrize("task", ["detection", "staging", "risk", "albuminuria"])
def test_the_posterior_is_calibrated(task, patients):
    question = Question(task)
    found = ideal_probabilities(question, [p.visible for p in patients])
    truth = np.array([_code(task, patient.truth) for patient in patients])
    for answer in range(found.shape[1]):
        chance, is_so = found[:, answer], truth == answer
        bins = np.minimum((chance * 10).astype(int), 9)
        for place in range(10):
            here = bins == place
            spread = math.sqrt(float((chance[here] * (1 - chance[here])).sum()))
            if spread > 1:
                assert abs(float((is_so[here] - chance[here]).sum())) / spread < 4


def _code(task, truth):
    category = int(np.searchsorted([15, 30, 45, 60, 90], truth.egfr, side="right"))
    raised = int(truth.acr_mg_g >= 30) + int(truth.acr_mg_g > 300)
    return {
        "detection": int(not truth.has_ckd),
        "staging": (4, 3, 2, 2, 1, 0)[category],
        "risk": ((3, 3, 3), (3, 3, 3), (2, 3, 3), (1, 2, 3), (0, 1, 2), (0, 1, 2))[category][
            raised
        ],
        "albuminuria": int(not raised),
    }[task]


def test_a_slip_is_read_as_an_expert_would():
    plain = {"age": 60, "sex": 0, "dm": 0, "htn": 1, "sc": 1.3, "al": 0, "days_observed": 300}
    question = Question("staging")
    slip = ideal_probabilities(question, [{**plain, "sc": 115}])[0]
    assert slip == pytest.approx(ideal_probabilities(question, [plain])[0], abs=0.1)
    gram = ideal_probabilities(question, [{**plain, "hemo": 131}, {**plain, "hemo": 13.1}])
    assert gram[0] == pytest.approx(gram[1])


def test_other_findings_carry_information():
    shown = {"age": 60, "sex": 0, "dm": 0, "htn": 1, "sc": 2.2, "al": 0, "days_observed": 30}
    question = Question("detection")
    lasting = {**shown, "hemo": 9.8, "bu": 80}
    passing = {**shown, "hemo": 15.2, "bu": 60}
    chances = ideal_probabilities(question, [lasting, passing])[:, 0]
    assert chances[0] > chances[1] + 0.1


def test_a_patient_the_cohort_cannot_hold_teaches_nothing():
    shown = {"age": 85, "sex": 1, "sc": 0.1, "days_observed": 300}
    found = ideal_probabilities(Question("staging"), [shown])[0]
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)
