"""The embedded cohort and the exactness of its posterior."""

from __future__ import annotations

import numpy as np
import pytest
from krisis.data.ckd.latent import MEASUREMENTS

from krisis.data.base import SuiteConfig, Task
from krisis.data.ckd.assessment import Assessor
from krisis.data.ckd.cohort import Draws, draw_cohort, draw_people
from krisis.data.ckd.egfr import ckd_epi_2021, stage
from krisis.data.ckd.posterior import posterior
from krisis.data.ckd.schema import FEATURES, REDUCED
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
    stages = np.bincount([int(stage(patient.gfr)) for patient in cohort], minlength=6)[1:]
    assert stages.min() > 200
    assert 0.45 < np.mean([patient.has_ckd for patient in cohort]) < 0.70


def test_urea_follows_creatinine_and_cells_follow_haemoglobin():
    seen = [patient.visible for patient in draw_cohort(3000, seed=2)]

    def correlation(one, other):
        pairs = [(v[one], v[other]) for v in seen if None not in (v[one], v[other])]
        pairs = [pair for pair in pairs if pair[0] < 40]
        return np.corrcoef(np.log(np.array(pairs).T))[0, 1]

    assert correlation("sc", "bu") == pytest.approx(0.84, abs=0.03)
    assert correlation("hemo", "pcv") > 0.9


@pytest.mark.parametrize(
    "n_patients", [2000, pytest.param(40_000, marks=pytest.mark.slow)], ids=["short", "long"]
)
@pytest.mark.parametrize("names", [REDUCED, (*FEATURES, "sex")], ids=["reduced", "full and sex"])
def test_posterior_probabilities_are_the_frequencies_of_the_truth(names, n_patients):
    cohort = draw_cohort(n_patients, seed=11)
    found = [posterior({name: p.visible[name] for name in names}) for p in cohort]
    gaps = expected_and_observed([f.ckd for f in found], [p.has_ckd for p in cohort])
    for category in range(6):
        truth = [int(np.searchsorted((15, 30, 45, 60, 90), p.gfr, "right")) for p in cohort]
        gaps += expected_and_observed(
            [f.categories[category] for f in found], [t == category for t in truth]
        )
    # About sixty standardised gaps: mean square 1 when the posterior is right.
    assert len(gaps) > 35
    assert np.max(np.abs(gaps)) < 4.0
    assert np.mean(np.square(gaps)) < 1.5


@pytest.mark.parametrize(
    ("seed", "n_patients", "largest_mean_square"),
    # With few patients the rare bins are far from normal, so their squares scatter widely.
    [(6, 300, 2.0), pytest.param(101, 6000, 1.5, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
def test_course_probabilities_are_the_frequencies_of_the_truth(
    seed, n_patients, largest_mean_square
):
    suite = CKDSuite(SuiteConfig(task=Task.PROGRESSION, n_synthetic=n_patients, seed=seed))
    records = suite.training_records() if n_patients < 1000 else suite.load()
    assessor = Assessor(Task.PROGRESSION, exact=True)
    found = [assessor(record.features).probabilities for record in records]
    gaps = []
    for answer in ("stable", "worsening", "improving"):
        gaps += expected_and_observed(
            [f[answer] for f in found], [record.label == answer for record in records]
        )
    assert len(gaps) >= 12
    assert np.max(np.abs(gaps)) < 4.0
    assert np.mean(np.square(gaps)) < largest_mean_square


def test_a_patient_that_the_cohort_cannot_hold_is_one_of_whom_nothing_is_known():
    impossible = posterior({"sc": 32.0, "age": 40, "sex": 1, "hemo": 16.0})
    assert impossible.ckd == posterior({}).ckd
    assert impossible.categories.sum() == pytest.approx(1)


def test_the_posterior_agrees_with_rejection_sampling():
    """Draw many patients and keep those that look like the case: no sum over anything."""
    draws = Draws(21, 0, 400_000)
    person = draw_people(draws)
    creatinine = MEASUREMENTS["sc"].value(person, draws.normal("sc"))
    shown = {"sc": 1.3, "sex": 0, "htn": 1}
    alike = (np.abs(creatinine - 1.3) < 0.01) & (person.female == 0) & (person.hypertension == 1)
    assert alike.sum() > 4000
    simulated = float((person.gfr[alike] < 60).mean())
    spread = np.sqrt(simulated * (1 - simulated) / alike.sum())
    assert posterior(shown).categories[:4].sum() == pytest.approx(simulated, abs=4 * spread)


def test_a_finer_grid_changes_no_probability_by_a_thousandth(monkeypatch):
    from krisis.data.ckd import latent
    from krisis.data.ckd import posterior as module

    cases = [{n: p.visible[n] for n in (*FEATURES, "sex")} for p in draw_cohort(60, seed=4)]
    coarse = [posterior(case) for case in cases]
    fine_grid = latent.gfr_grid(0.004)
    caches = (module._person, module._prior, module._measured, module._below)
    tables = (module._haemoglobin_table, module._albuminuria)
    for cache in (*caches, *tables):
        cache.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(latent, "gfr_grid", lambda: fine_grid)
        fine = [posterior(case) for case in cases]
        fine_categories = [f.categories for f in fine]
    for cache in (*caches, *tables):
        cache.cache_clear()
    for one, other, categories in zip(coarse, fine, fine_categories, strict=True):
        assert one.ckd == pytest.approx(other.ckd, abs=1e-3)
        assert np.abs(one.categories - categories).max() < 1e-3


def test_presence_of_values_is_independent_of_the_truth():
    cohort = draw_cohort(20_000, seed=3)
    truth = np.array([patient.has_ckd for patient in cohort], dtype=float)
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
        ckd_epi_2021(p.visible["sc"], p.visible["age"], female=bool(p.visible["sex"])) / p.gfr
        for p in high
    ]
    assert np.std(np.log(ratios)) == pytest.approx(1.2 * np.hypot(0.05, 0.011), rel=0.08)
