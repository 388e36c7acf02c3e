"""The embedded cohort and the exactness of its posterior."""

from __future__ import annotations

import numpy as np
import pytest

from krisis.data.base import SuiteConfig
from krisis.data.ckd import cohort, setting
from krisis.data.ckd import posterior as module
from krisis.data.ckd.assessment import Assessor
from krisis.data.ckd.cohort import Draws, draw_cohort, draw_people
from krisis.data.ckd.deferral import sheet_cannot_be_right
from krisis.data.ckd.egfr import ckd_epi_2021, stage
from krisis.data.ckd.posterior import posterior, prior
from krisis.data.ckd.schema import FEATURES
from krisis.data.ckd.suite import CKDSuite


def expected_and_observed(probabilities, outcomes):
    """Return the largest standardised gap over ten bins of probability."""
    chance, truth = np.array(probabilities), np.array(outcomes, dtype=float)
    bins = np.minimum((chance * 10).astype(int), 9)
    gaps = []
    for index in range(10):
        inside = bins == index
        spread = np.sqrt((chance[inside] * (1 - chance[inside])).sum())
        if inside.sum() >= 20:
            gaps.append((truth[inside].sum() - chance[inside].sum()) / spread)
    return gaps


def test_a_larger_cohort_begins_with_the_smaller_one():
    assert draw_cohort(50, seed=7)[:20] == draw_cohort(20, seed=7)


def test_streams_and_seeds_differ():
    assert draw_cohort(5, seed=7) != draw_cohort(5, seed=8)
    assert draw_cohort(5, seed=7) != draw_cohort(5, seed=7, stream=1)


def test_all_stages_and_both_answers_occur_often():
    cohort = draw_cohort(3000, seed=1)
    stages = np.bincount([int(stage(patient.truth.egfr)) for patient in cohort], minlength=6)[1:]
    assert stages.min() > 200
    assert 0.45 < np.mean([patient.truth.has_ckd for patient in cohort]) < 0.70


def test_urea_follows_creatinine_and_cells_follow_haemoglobin():
    seen = [patient.visible for patient in draw_cohort(3000, seed=2)]

    def correlation(one, other):
        pairs = [(v[one], v[other]) for v in seen if None not in (v[one], v[other])]
        pairs = [pair for pair in pairs if pair[0] < 40]
        return np.corrcoef(np.log(np.array(pairs).T))[0, 1]

    assert correlation("sc", "bu") == pytest.approx(0.84, abs=0.03)
    assert correlation("hemo", "pcv") > 0.9


TASKS = ("detection", "staging", "albuminuria", "risk", "progression")


@pytest.mark.parametrize(
    ("n_patients", "largest_mean_square"),
    # With few patients the rare bins are far from normal, so their squares scatter widely.
    [(700, 2.0), pytest.param(40_000, 1.6, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
@pytest.mark.parametrize("task", TASKS)
def test_probabilities_are_the_frequencies_of_the_truth(task, n_patients, largest_mean_square):
    """Of every answer and of the error of the best, acute injury and mixed-up sheets included."""
    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=n_patients // 4, seed=101))
    records, assessor = suite.training_records(), Assessor(task, exact=True)
    assert sum(record.metadata["acute_injury"] for record in records) > n_patients / 50
    assert any(record.metadata["mixed_up"] for record in records)
    found = [assessor(record.features) for record in records]
    wrong = [f.answer != record.label for f, record in zip(found, records, strict=True)]
    gaps = expected_and_observed([f.p_misclass for f in found], wrong)
    for answer in suite.task.answers:
        gaps += expected_and_observed(
            [f.probabilities[answer] for f in found], [r.label == answer for r in records]
        )
    assert len(gaps) >= 8
    assert np.max(np.abs(gaps)) < 4.0
    assert np.mean(np.square(gaps)) < largest_mean_square


@pytest.mark.parametrize("task", ["detection", "staging", "risk"])
def test_they_are_with_the_error_of_the_equation_too(task):
    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=250, seed=7), equation_error=True)
    records, assessor = suite.training_records(), suite.rules["bayes-optimal"].assessor
    found = [assessor(record.features) for record in records]
    wrong = [f.answer != record.label for f, record in zip(found, records, strict=True)]
    assert np.max(np.abs(expected_and_observed([f.p_misclass for f in found], wrong))) < 4.0


def test_a_patient_that_the_cohort_cannot_hold_is_one_of_whom_nothing_is_known():
    impossible = posterior({"sc": 39.0, "age": 90, "sex": 1})
    assert impossible == pytest.approx(prior(False))
    assert impossible.sum() == pytest.approx(1)


def test_the_posterior_agrees_with_rejection_sampling():
    """Draw many patients and keep those that look like the case: no sum over anything."""
    draws = Draws(21, 0, 400_000)
    people = draw_people(draws)
    for days in (30, 400):
        creatinine, _ = cohort._creatinine(people, np.full(draws.n, days), draws)
        alike = (np.abs(creatinine - 1.3) < 0.01) & (people.female == 0) & (people.diabetes == 1)
        assert alike.sum() > 2000
        simulated = float((people.egfr[alike] < 60).mean())
        spread = np.sqrt(simulated * (1 - simulated) / alike.sum())
        found = posterior({"sc": 1.3, "sex": 0, "dm": 1, "days_observed": days})
        assert found[:4].sum() == pytest.approx(simulated, abs=4 * spread)


def test_a_finer_grid_changes_no_probability_by_a_thousandth(monkeypatch):
    names = ("sc", "age", "sex", "al", "dm", "days_observed")
    cases = [{n: p.visible[n] for n in names} for p in draw_cohort(60, seed=4)]
    coarse = [posterior(case) for case in cases]
    fine_grid = setting.egfr_grid(0.004)
    module._of_creatinine.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(setting, "egfr_grid", lambda: fine_grid)
        fine = [posterior(case) for case in cases]
    module._of_creatinine.cache_clear()
    assert max(np.abs(one - other).max() for one, other in zip(coarse, fine, strict=True)) < 1e-3


def test_presence_of_values_is_independent_of_the_truth():
    cohort = draw_cohort(20_000, seed=3)
    truth = np.array([patient.truth.has_ckd for patient in cohort], dtype=float)
    for name in FEATURES:
        absent = np.array([patient.visible[name] is None for patient in cohort], dtype=float)
        if absent.any():
            assert abs(np.corrcoef(absent, truth)[0, 1]) < 4 / np.sqrt(len(cohort))


def test_creatinine_scatters_as_stated():
    cohort = [
        p for p in draw_cohort(6000, seed=9) if None not in map(p.visible.get, ("age", "sex"))
    ]
    high = [p for p in cohort if p.visible["sc"] is not None and 3 < p.visible["sc"] < 40]
    ratios = [
        ckd_epi_2021(p.visible["sc"], p.visible["age"], female=bool(p.visible["sex"]))
        / p.truth.egfr
        for p in high
        if not p.acute
    ]
    assert np.std(np.log(ratios)) == pytest.approx(1.2 * np.hypot(0.05, 0.011), rel=0.08)


def test_acute_injury_and_mixed_up_sheets_are_as_frequent_as_stated():
    cohort = draw_cohort(8000, seed=5)
    short = [p for p in cohort if p.visible["days_observed"] < 90]
    assert np.mean([p.acute for p in short]) == pytest.approx(0.35, abs=0.06)
    assert not any(p.acute for p in cohort if p.visible["days_observed"] >= 90)
    wrong = [p for p in cohort if sheet_cannot_be_right(p.visible)]
    assert len(wrong) > 150
    mixed = [p.truth_behind(p.visible) is not p.truth for p in wrong]
    assert np.mean(mixed) == pytest.approx(0.5, abs=0.15)
    right = [p for p in cohort if not sheet_cannot_be_right(p.visible)]
    assert all(p.truth_behind(p.visible) is p.truth for p in right)
