"""Whatever a case shows, its assessment is a distribution over the allowed answers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krisis.data.base import Task
from krisis.data.ckd.assessment import Assessor
from krisis.data.ckd.deferral import DeferralRule, visible_reasons
from krisis.data.ckd.questions import detection, staging
from krisis.data.ckd.schema import CONTEXT, FEATURES


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
@pytest.mark.parametrize("task", [detection(), staging(split_stage_3=False)])
@given(features=any_case)
def test_an_assessment_is_a_distribution_over_the_answers(task, exact, features):
    found = Assessor(task.name, exact=exact)(features)
    assert list(found.probabilities) == list(task.answers)
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
    features = {"age": age, "sex": sex}
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
        ({"sc": 1.0, "al": 0, "age": 50, "sex": 0}, Task.DETECTION, []),
        ({"sc": None, "al": 0}, Task.DETECTION, ["creatinine_missing"]),
        ({"sc": None, "al": 2}, Task.DETECTION, []),
        ({"sc": 0.8, "al": None, "age": 40}, Task.DETECTION, ["albuminuria_missing"]),
        ({"sc": 4.0, "al": None, "age": 40}, Task.DETECTION, []),
        ({"sc": 1.2, "al": 0, "age": 60}, Task.DETECTION, ["sex_missing"]),
        ({"sc": 1.2, "age": 55, "sex": None}, Task.STAGING, ["sex_missing"]),
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
    ],
)  # fmt: skip
def test_reasons_by_hand(features, task, expected):
    assert visible_reasons(features, task) == expected


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
