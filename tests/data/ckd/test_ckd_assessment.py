"""Whatever a case shows, its assessment is a distribution over the allowed answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krisis.data.base import SuiteConfig, Task
from krisis.data.ckd import posterior, progression
from krisis.data.ckd.assessment import Assessor
from krisis.data.ckd.deferral import DeferralRule
from krisis.data.ckd.schema import CONTEXT, FEATURES
from krisis.data.ckd.suite import CKDSuite


def any_value(feature):
    if feature.codes:
        return st.none() | st.sampled_from(list(feature.codes.values()))
    beyond = st.sampled_from([0, -1, 1e9])
    inside = st.floats(feature.low, feature.high, allow_nan=False).map(lambda x: round(x, 1))
    return st.none() | inside | beyond


any_case = st.fixed_dictionaries(
    {}, optional={n: any_value(f) for n, f in (*FEATURES.items(), *CONTEXT.items())}
)


@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("task", ["detection", "staging", "albuminuria", "risk"])
@given(features=any_case)
def test_an_assessment_is_a_distribution_over_the_answers(task, exact, features):
    found = Assessor(task, exact=exact)(features)
    assert list(found.probabilities) == list(CKDSuite(SuiteConfig(task=task)).task.answers)
    assert all(0 <= p <= 1 + 1e-9 for p in found.probabilities.values())
    assert math.fsum(found.probabilities.values()) == pytest.approx(1)
    assert 0 <= found.p_misclass <= 1
    assert found.answer in found.probabilities


any_creatinine = st.none() | st.floats(0.3, 12).map(lambda x: round(x, 1))


@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("exact", [False, True])
@given(
    values=st.lists(
        st.none() | st.floats(0.3, 12).map(lambda x: round(x, 1)), min_size=2, max_size=4
    ),
    n_days=st.integers(30, 2000),
    age=st.integers(18, 90),
    sex=st.integers(0, 1),
)
def test_a_course_is_a_distribution_too(exact, values, n_days, age, sex):
    features = {"age": age, "sex": sex, "drug_started": sex}
    for k, value in enumerate(values, 1):
        features[f"visit_{k}_day"] = round(n_days * (k - 1) / (len(values) - 1))
        features[f"visit_{k}_sc"] = value
        features[f"visit_{k}_egfr"] = None if value is None else round(90 / value, 1)
    found = Assessor(Task.PROGRESSION, exact=exact)(features)
    assert math.fsum(found.probabilities.values()) == pytest.approx(1)
    assert min(found.probabilities.values()) >= -1e-9
    usable = [value for value in values if value is not None]
    assert ("too_few_visits" in found.visible_reasons) == (len(usable) < 2)


MAN = {"sc": 1.0, "age": 50, "sex": 0}


@pytest.mark.parametrize(
    ("features", "task", "expected"),
    [
        ({**MAN, "al": 0}, Task.DETECTION, []),
        ({"sc": None, "al": 2, "age": 50}, Task.DETECTION, ["creatinine_missing"]),
        ({"sc": None, "al": 3}, Task.DETECTION, []),  # never read without albuminuria
        ({"sc": 0.8, "al": None, "age": 40}, Task.DETECTION, ["albuminuria_missing"]),
        ({"sc": 4.0, "al": None, "age": 40}, Task.DETECTION, []),
        ({"sc": 1.2, "al": 0, "age": 60}, Task.DETECTION, ["sex_missing"]),
        ({"sc": 1.2, "al": 3, "age": 60}, Task.DETECTION, []),
        ({"sc": 1.2, "al": 0, "age": None, "sex": 1}, Task.DETECTION, ["age_missing"]),
        ({**MAN, "al": 4, "days_observed": 30}, Task.DETECTION, ["chronicity_not_shown"]),
        ({"sc": 1.2, "age": 55, "sex": None}, Task.STAGING, ["sex_missing"]),
        ({"sc": 1.6, "age": 55, "sex": None}, Task.STAGING, []),  # 38 and 51, both stage 3
        ({"sc": 1.2, "age": None, "sex": 1}, Task.STAGING, ["age_missing"]),
        ({"sc": 76.0, "age": 60, "sex": 1}, Task.STAGING,
         ["implausible_value", "creatinine_missing"]),
        ({"sc": 0.6, "age": 7, "sex": 1}, Task.STAGING, ["age_below_18"]),
        ({**MAN, "days_observed": 89}, Task.STAGING, ["chronicity_not_shown"]),
        ({**MAN, "days_observed": 90}, Task.STAGING, []),
        ({**MAN, "hemo": 15, "pcv": 20}, Task.STAGING, ["markers_contradict"]),
        ({**MAN, "sc": 6.0, "bu": 12}, Task.STAGING, ["markers_contradict"]),
        ({**MAN, "bu": 200}, Task.STAGING, ["markers_contradict"]),
        ({**MAN, "sod": 4.5}, Task.STAGING, ["implausible_value"]),
        ({"age": 7, "al": 2, "days_observed": 30}, Task.ALBUMINURIA, []),
        ({**MAN, "al": None}, Task.ALBUMINURIA, ["albuminuria_missing"]),
        ({**MAN, "al": 1}, Task.RISK, []),
        ({**MAN, "al": None}, Task.RISK, ["albuminuria_missing"]),
        ({**MAN, "sc": 5.0, "al": None}, Task.RISK, []),  # very high at any albuminuria
        ({"sc": 1.0, "age": 50, "al": 0}, Task.RISK, []),  # 69 and 92: one row of the map
        ({"sc": 1.6, "age": 55, "al": 0}, Task.RISK, ["sex_missing"]),
    ],
)  # fmt: skip
def test_reasons_by_hand(features, task, expected):
    assert Assessor(task)(features).visible_reasons == expected


def test_split_stages_ask_for_the_sex_that_decides_them():
    shown = {"sc": 1.6, "age": 55}
    assert Assessor(Task.STAGING, split_stage_3=True)(shown).visible_reasons == ["sex_missing"]


def test_the_posterior_by_hand():
    """Grade 1 in a man of 50 without diabetes, creatinine 0.8: surely G1, dipstick 14:84 odds."""
    shown = {"sc": 0.8, "age": 50, "sex": 0, "dm": 0, "al": 1}
    found = Assessor(Task.ALBUMINURIA, exact=True)(shown)
    weights = {"A1": 0.84 * 0.04, "A2": 0.14 * 0.33, "A3": 0.02 * 0.09}
    for answer, weight in weights.items():
        expected = weight / sum(weights.values())
        assert found.probabilities[answer] == pytest.approx(expected, abs=1e-4)
    # Where the sheet cannot be right, half of it is the prior of the setting.
    mixed = Assessor(Task.ALBUMINURIA, exact=True)({**shown, "hemo": 120})
    prior = Assessor(Task.ALBUMINURIA, exact=True)({})
    for answer in weights:
        half = (found.probabilities[answer] + prior.probabilities[answer]) / 2
        assert mixed.probabilities[answer] == pytest.approx(half)


def test_a_label_depends_on_the_prior_where_the_prevalence_moves_it_over_the_price():
    """Grade 1 above: disease 0.588, so 0.59 of 0.547; at 10 % it is absent, at 60 % uncertain."""
    found = Assessor(Task.DETECTION, exact=True)({"sc": 0.8, "age": 50, "sex": 0, "dm": 0, "al": 1})
    assert found.probabilities[0] == pytest.approx(0.5882, abs=1e-3)
    odds = [0.5882 / 0.4118 * (p / (1 - p)) * (0.4527 / 0.5473) for p in (0.1, 0.6)]
    errors = [min(o / (1 + o), 1 / (1 + o)) for o in odds]
    assert found.shifted == pytest.approx(errors, abs=1e-3)
    assert found.depends_on_prior(0.2)
    assert not found.depends_on_prior(0.05)


def test_early_injury_keeps_a_raised_creatinine_open():
    shown = {"sc": 2.2, "age": 58, "sex": 0, "al": 0, "dm": 0}
    lasting = Assessor(Task.STAGING, exact=True)({**shown, "days_observed": 400})
    early = Assessor(Task.STAGING, exact=True)({**shown, "days_observed": 30})
    assert lasting.p_misclass < 0.2 < early.p_misclass
    assert early.probabilities[2] > 0.1 > lasting.probabilities[2]


@pytest.mark.parametrize(
    ("first", "last", "days", "expected"),
    [
        (60.0, 59.0, 300, []),
        (60.0, 52.0, 300, ["change_within_variability"]),  # 13.3 %
        (60.0, 52.6, 300, []),  # 12.3 %
        (60.0, 48.0, 300, []),  # 20 %
        (60.0, 69.0, 300, ["change_within_variability"]),  # + 15 %
        (60.0, 59.0, 89, ["chronicity_not_shown"]),
        (None, 59.0, 300, ["too_few_visits"]),
    ],
)
def test_reasons_of_a_course_by_hand(first, last, days, expected):
    features = {"age": 50, "sex": 0}
    for k, (day, egfr) in enumerate(((0, first), (days, last)), 1):
        features |= {f"visit_{k}_day": day, f"visit_{k}_egfr": egfr}
        features[f"visit_{k}_sc"] = None if egfr is None else 1.4
    assert Assessor(Task.PROGRESSION)(features).visible_reasons == expected


def test_uncertainty_is_a_reason_from_the_stated_risk_on():
    rule = DeferralRule(risk=0.2)
    assert rule.reasons([], 0.2) == ["category_uncertain"]
    assert rule.reasons(["sex_missing"], 0.19) == ["sex_missing"]


@pytest.mark.slow
def test_a_finer_grid_hardly_moves_the_probability_of_a_course(monkeypatch):
    shown = [r.features for r in CKDSuite(SuiteConfig(task="progression", n_synthetic=1000)).load()]
    caches = (progression._changes, progression._prior, progression._parts)

    def errors():
        for cached in caches:
            cached.cache_clear()
        return np.array([1 - progression.course_posterior(case)[0].max() for case in shown])

    usual = errors()
    with monkeypatch.context() as finer:
        finer.setattr(progression, "_CELLS_PER_BAND", 96)
        finer.setattr(progression, "_GRID_STEP", 0.004)
        levels = np.linspace(math.log(2.0), math.log(300.0), 6000)
        finer.setattr(progression, "_FINE_LOG_EGFR", levels)
        finer.setattr(posterior, "_N_ACUTE_FACTORS", 120)
        moved = np.abs(usual - errors())
    for cached in caches:
        cached.cache_clear()
    assert np.median(moved) < 0.0001
    assert np.quantile(moved, 0.99) < 0.003
    assert 0.0 < moved.max() < 0.017
