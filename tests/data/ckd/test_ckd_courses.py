"""Courses: the definition by hand, its limits, an exact posterior, laws of the two readers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krisis.data.ckd.courses import (
    COURSES,
    OUTLOOKS,
    better_limit,
    course_features,
    course_label,
    course_posterior,
    draw_courses,
    guideline_course,
    in_window,
    shown_visits,
    worse_limit,
)


def features(course):
    age, sex = course.visible["age"], course.visible["sex"]
    visits = course_features(course.days, course.creatinine, age=age, female=bool(sex))
    return {**course.visible, **visits}


@pytest.fixture(scope="module")
def courses():
    return draw_courses(1500, seed=4)


@pytest.mark.parametrize(
    ("first", "last", "days", "window", "expected"),
    [
        (79, 69, 620, False, "stable"),  # 13 %: within what repeated measurements vary by
        (28.7, 16.3, 300, False, "worsening"),  # 43 %
        (80, 59, 300, False, "worsening"),  # 26 % into G3a
        (80, 59, 80, True, "stable"),  # the same within three months of a drug
        (80, 55, 80, True, "worsening"),  # 31 %: more than the drug explains
        (80, 61, 300, False, "stable"),  # 24 % inside G2 in less than a year
        (85, 62, 400, False, "worsening"),  # inside G2, but 21 a year
        (58, 46, 3000, False, "stable"),  # 21 %, but 1.5 a year inside G3a
        (19, 14, 200, False, "worsening"),  # reaches G5
        (16, 14.5, 200, False, "stable"),  # reaches G5 by 9 %: below 20 % nothing counts
        (40, 52, 300, False, "improving"),  # 30 % into G3a
        (62, 85, 300, False, "stable"),  # 37 % inside G2
        (50, 44, 400, False, "stable"),  # a drop in category by 12 %
    ],
)
def test_courses_by_hand(first, last, days, window, expected):
    assert course_label(first, last, days, drug_window=window) == expected


def by_words(first, last, n_days, window):
    """Write the definition out once more, clause by clause, from the docs."""
    edges = (15, 30, 45, 60, 90)
    step = sum(last >= e for e in edges) - sum(first >= e for e in edges)
    ratio, years = last / first, n_days / 365.25
    if abs(ratio - 1) < 0.20:
        return "stable"
    if window and 0 <= 1 - ratio <= 0.30:
        return "stable"
    falls = step < 0 and ratio <= 0.75
    rapid = years >= 1 and (first - last) / years > 5 and ratio <= 0.80
    if falls or ratio <= 0.60 or rapid or (first >= 15 > last and ratio <= 0.80):
        return "worsening"
    return "improving" if ratio >= 1.25 and step > 0 else "stable"


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("days", [60, 364, 366, 1300])
def test_the_limits_are_the_definition(days, window):
    draw = np.random.default_rng(1)
    for _ in range(3000):
        first = math.exp(draw.uniform(math.log(5), math.log(130)))
        last = first * math.exp(draw.uniform(-1.2, 0.9))
        assert course_label(first, last, days, drug_window=window) == by_words(
            first, last, days, window
        )
        assert worse_limit(first, days, drug_window=window) < first < better_limit(first)


def test_the_window_is_three_months_before_the_last_visit():
    assert in_window(100, 190)
    assert not in_window(99, 190)
    assert not in_window(200, 190)


def test_every_answer_is_frequent_enough(courses):
    for name, answers in (("label", COURSES), ("outlook", OUTLOOKS)):
        given = [getattr(course, name) for course in courses]
        assert all(given.count(answer) >= 0.05 * len(given) for answer in answers)


def test_rises_without_a_cause_are_rare_and_slopes_are_those_of_a_clinic(courses):
    slopes, rises, n = [], 0, 0
    for course in courses:
        slopes.append((course.last_egfr - course.usual_first) / (course.days[-1] / 365.25))
        rates = [egfr for _, _, egfr in shown_visits(features(course)) if egfr is not None]
        if course.first_egfr > 0.9 * course.usual_first and len(rates) > 1:
            n += 1
            rises += rates[-1] / rates[0] >= 1.25
    assert -4.0 < np.mean(slopes) < -2.0
    assert 3.5 < np.std(slopes) < 5.5
    assert rises / n <= 0.04


@pytest.mark.parametrize("name", ["course", "outlook"])
def test_the_posterior_of_a_course_is_calibrated(name, courses):
    found = np.array([getattr(course_posterior(features(c)), name) for c in courses])
    answers = COURSES if name == "course" else OUTLOOKS
    truth = [c.label if name == "course" else c.outlook for c in courses]
    codes = np.array([answers.index(one) for one in truth])
    assert found.sum(axis=1) == pytest.approx(1.0)
    for answer in range(len(answers)):
        chance, is_so = found[:, answer], codes == answer
        bins = np.minimum((chance * 10).astype(int), 9)
        for place in range(10):
            here = bins == place
            spread = math.sqrt(float((chance[here] * (1 - chance[here])).sum()))
            if spread > 1:
                assert abs(float((is_so[here] - chance[here]).sum())) / spread < 4


def shown(creatinine, days=(0, 300, 600), **more):
    base = {"age": 60, "sex": 0, "htn": 1, "dm": 0, "al": 0, "drug_started": 0, **more}
    return {**base, **course_features(days, creatinine, age=60, female=False)}


def test_a_single_jump_at_the_end_is_read_as_an_acute_injury_may_be():
    days = (0, 300, 600, 900)
    jump = course_posterior(shown((1.3, 1.3, 1.3, 2.4), days)).course[1]
    sustained = course_posterior(shown((1.3, 1.6, 2.0, 2.4), days)).course[1]
    assert sustained > 0.95
    assert jump < 0.2


def test_recovery_from_an_injury_at_the_first_visit_is_improving():
    assert course_posterior(shown((2.6, 1.2, 1.2))).course[2] > 0.9


def test_a_drug_just_started_explains_a_fall_and_one_long_ago_does_not():
    fall = (1.2, 1.2, 1.6)
    recent = shown(fall, drug_started=1, drug_day=560)
    long_ago = shown(fall, drug_started=1, drug_day=310)
    assert course_posterior(recent).course[0] > course_posterior(long_ago).course[0] + 0.2
    assert guideline_course(recent)[0] > guideline_course(long_ago)[0] + 0.2


def test_more_albumin_makes_a_worse_outlook():
    low, high = (course_posterior(shown((1.5, None, 1.5), al=g)).outlook[0] for g in (0, 5))
    assert high > low + 0.02
