"""Decision curves by hand, against dcurves, with deferral, readers and another prevalence."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from dcurves import dca
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents import said
from typer.testing import CliRunner

from krisis.errors import InvalidValue, UserError
from krisis.json_values import dumps
from krisis.metrics.base import EvaluationResult
from krisis.metrics.items import RunItems, Source
from krisis.metrics.table import Answers, Table
from krisis.pages.style import Style
from krisis.results.base import BenchmarkResult
from krisis.verbs.decide.chart import net_benefit
from krisis.verbs.decide.command import app
from krisis.verbs.decide.curve import (
    ALL,
    DEFERRAL,
    MODEL,
    NONE,
    CurveOptions,
    decision_curve,
    useful_ranges,
)
from krisis.verbs.decide.population import Prevalence
from krisis.verbs.decide.team import Team

ANSWERS = Answers((0, 1), positive=1)


def rows_of(cases):
    """Return rows of (truth, P(1) or None for an abstention, patient)."""
    rows = []
    for index, (truth, p, *patient) in enumerate(cases):
        answer = None if p is None else int(p >= 0.5)
        confidence = None if p is None else max(p, 1 - p)
        name = f"p{patient[0] if patient else index}"
        row = EvaluationResult(answer, truth, p is None, confidence, record_id=f"r{index}")
        rows.append(replace(row, cluster_id=name))
    return rows


def run_of(cases, answers=ANSWERS):
    return RunItems(Table(rows_of(cases), answers), Source("a run"))


def benefits(run, strategy=MODEL, **options):
    curve = decision_curve(run, CurveOptions(**options))
    return [point.net_benefit for point in curve.curves[strategy]]


# 4 of 10 are positive; one positive and one negative case were abstained on.
CASES = [
    *[(1, 0.9), (1, 0.6), (1, 0.2), (1, None)],
    *[(0, 0.7), (0, 0.3), (0, 0.3), (0, 0.1), (0, 0.1), (0, None)],
]


def test_by_hand():
    run, at = run_of(CASES), [0.2, 0.5]
    assert benefits(run, ALL, thresholds=at) == pytest.approx([0.4 - 0.6 / 4, 0.4 - 0.6])
    assert benefits(run, NONE, thresholds=at) == [0, 0]
    # At 0.2: 3 found, 3 alarms; at 0.5: 2 found, 1 alarm.
    assert benefits(run, thresholds=at) == pytest.approx([0.3 - 0.3 / 4, 0.2 - 0.1])
    # The two silent cases are treated: one more found, one more alarm.
    treated = benefits(run, thresholds=at, default_action="treat")
    assert treated == pytest.approx([0.4 - 0.4 / 4, 0.3 - 0.2])


def test_deferred_cases_take_the_decision_of_a_reader():
    team = Team(sensitivity=0.8, specificity=0.9)
    options = {"thresholds": [0.5], "team": team, "answer_from": 0.65}
    # Deferred: silent ones and the positive with 0.6; found 1 + 0.8·2, alarms 1 + 0.1·1.
    found = benefits(run_of(CASES), DEFERRAL, **options)
    assert found == pytest.approx([(1 + 1.6) / 10 - (1 + 0.1) / 10])
    curve = decision_curve(run_of(CASES), CurveOptions(**options))
    assert (curve.n_deferred, curve.last) == (3, DEFERRAL)


def test_prevalence_weights_the_classes():
    moved = Prevalence({"": 0.1})
    found = benefits(run_of(CASES), thresholds=[0.5], prevalence=moved)
    assert found == pytest.approx([0.1 * 2 / 4 - 0.9 * 1 / 6])
    point = decision_curve(run_of(CASES), CurveOptions(thresholds=[0.2], prevalence=moved)).curves[
        ALL
    ]
    # Whom one treats is known: with the prevalence given nothing is left to chance.
    assert (point[0].low, point[0].high) == pytest.approx((0.1 - 0.9 / 4,) * 2)
    assert point[0].standardized == pytest.approx((0.1 - 0.9 / 4) / 0.1)


def test_a_probability_at_the_threshold_is_treated():
    # 1 − 0.9 is a hair below 0.1 in floating point.
    run = run_of([(1, 0.1), (0, 0.05)])
    assert benefits(run, thresholds=[0.1]) == [0.5]


probabilities = st.sampled_from([0.02, 0.1, 0.2, 0.3, 0.49, 0.5, 0.62, 0.8, 0.97])
cases = st.lists(st.tuples(st.sampled_from([0, 1]), probabilities), min_size=1, max_size=30)


@settings(max_examples=15, deadline=None)
@given(cases=cases, prevalence=st.sampled_from([None, 0.05, 0.3]))
def test_dcurves_agrees(cases, prevalence):
    cases = [*cases, (1, 0.8), (0, 0.3)]
    frame = pd.DataFrame({"truth": [t for t, _ in cases], "p": [p for _, p in cases]})
    at = [0.05, 0.1, 0.2, 0.49, 0.5, 0.75, 0.9]
    oracle = dca(frame, "truth", ["p"], thresholds=at, prevalence=prevalence)
    moved = None if prevalence is None else Prevalence({"": prevalence})
    curve = decision_curve(run_of(cases), CurveOptions(thresholds=at, prevalence=moved))
    for ours, theirs in ((MODEL, "p"), (ALL, "all"), (NONE, "none")):
        expected = oracle[oracle.model == theirs].sort_values("threshold").net_benefit
        found = [point.net_benefit for point in curve.curves[ours]]
        assert found == pytest.approx(expected.tolist(), abs=1e-8)


@settings(max_examples=20, deadline=None)
@given(
    cases=st.lists(
        st.tuples(st.sampled_from([0, 1]), st.none() | probabilities, st.integers(0, 5)),
        max_size=20,
    ),
    team=st.sampled_from([None, Team(sensitivity=0.8, specificity=0.7)]),
    prevalence=st.sampled_from([None, 0.2]),
)
def test_laws(cases, team, prevalence):
    run = run_of([*cases, (1, 0.8, 0), (0, 0.3, 1)])
    moved = None if prevalence is None else Prevalence({"": prevalence})
    options = CurveOptions(thresholds=[0.1, 0.5, 0.8], team=team, answer_from=0.7, prevalence=moved)
    curve = decision_curve(run, options)
    for name, points in curve.curves.items():
        for point, of_all in zip(points, curve.curves[ALL], strict=True):
            assert point.low - 1e-12 <= point.net_benefit <= point.high + 1e-12
            assert point.net_benefit <= curve.prevalence + 1e-12
            above = point.net_benefit - of_all.net_benefit
            assert point.above_all == pytest.approx(above, abs=1e-12)
            assert point.above_all_low - 1e-12 <= above <= point.above_all_high + 1e-12
            if name in (MODEL, DEFERRAL):
                assert point.low < point.high
    assert json.loads(dumps(curve.to_json()))["n_rows"] == run.n_items


def test_no_false_alarm_seen_does_not_mean_that_there_is_none():
    run = run_of([*[(1, 0.9)] * 10, *[(0, 0.1)] * 40])
    point = decision_curve(run, CurveOptions(thresholds=[0.8])).curves[MODEL][0]
    # The upper limit of 0 in 50 is 0.058, and an alarm weighs four cases found.
    assert point.low < 0.2 - 4 * 0.05


def test_more_rows_of_the_same_patients_do_not_make_it_surer():
    rng = np.random.default_rng(3)
    cases = [(int(t), float(p)) for t, p in zip(rng.random(60) < 0.4, rng.random(60), strict=True)]
    copies = [(t, p, i) for i, (t, p) in enumerate(cases) for _ in range(5)]
    alone = [(t, p, f"{i}-{k}") for k, (t, p, i) in enumerate(copies)]
    widths = []
    for chosen in (alone, copies):
        point = decision_curve(run_of(chosen), CurveOptions(thresholds=[0.4])).curves[MODEL][0]
        widths.append(point.high - point.low)
    assert widths[0] < 0.7 * widths[1]


@pytest.mark.parametrize(
    ("cases", "answers", "options", "words"),
    [
        (CASES, Answers(("a", "b")), {}, "two answers"),
        (CASES, Answers((0, 1, 2), positive=1), {}, "has the answers 0, 1, 2"),
        ([(1, 0.9)], ANSWERS, {}, "every scored record"),
        ([(0, 0.9)], ANSWERS, {}, "no scored record"),
        (CASES, ANSWERS, {"thresholds": [0.5, 1.0]}, "both ends excluded, not 1.0"),
        (CASES, ANSWERS, {"thresholds": []}, "not none at all"),
        (CASES, ANSWERS, {"answer_from": 1.2}, "not 1.2"),
        (CASES, ANSWERS, {"default_action": "wait"}, "unknown default action"),
        (CASES, ANSWERS, {"prevalence": Prevalence({"": 0.0})}, "prevalence is 0"),
    ],
)
def test_what_has_no_curve_is_refused(cases, answers, options, words):
    with pytest.raises(UserError, match=words):
        decision_curve(run_of(cases, answers), CurveOptions(**options))


def test_a_score_that_is_no_probability_is_refused():
    rows = [replace(row, signals={"llm_evidence_count": 3}) for row in rows_of(CASES)]
    run = RunItems(Table(rows, ANSWERS), Source("a run"), default_confidence="llm")
    with pytest.raises(InvalidValue, match=r"gives 3 .* which is no probability"):
        decision_curve(run, CurveOptions())


def test_the_useful_range_is_where_the_limits_are_above_both_defaults():
    rng = np.random.default_rng(1)
    truth = rng.random(400) < 0.3
    p = 1 / (1 + np.exp(-(np.where(truth, 2.0, -2.0) + rng.standard_normal(400))))
    curve = decision_curve(
        run_of([(int(t), float(q)) for t, q in zip(truth, p, strict=True)]), CurveOptions()
    )
    (low, high), *others = useful_ranges(curve)
    assert not others
    for point in curve.curves[MODEL]:
        inside = low <= point.threshold <= high
        assert inside == (point.low > 0 and point.above_all_low > 0)
    assert f"at the thresholds {low:g} to {high:g}." in said(curve.document())


@pytest.fixture
def saved(tmp_path):
    result = BenchmarkResult(rows_of(CASES), {}, {}, "model")
    path = tmp_path / "result.json"
    path.write_text(result.to_json(), encoding="utf-8")
    return path


def test_the_command_and_the_section_say_the_same(saved):
    shown = CliRunner().invoke(app, [str(saved), "--curve", "--thresholds", "0.5,0.2"])
    assert shown.exit_code == 0, shown.output
    assert "0.2            0.250       0.000" in shown.output
    facts = CliRunner().invoke(
        app, [str(saved), "--curve", "--thresholds", "0.5,0.2", "--format", "json"]
    )
    points = json.loads(facts.stdout)["curves"][MODEL]
    assert [point["threshold"] for point in points] == [0.2, 0.5]
    drawn = decision_curve(run_of(CASES), CurveOptions(thresholds=[0.2]))
    figure = net_benefit({"m": drawn}, Style()).figure(Style())
    assert figure.table[-1]["net benefit"] == pytest.approx(points[0]["net_benefit"])
    assert "<svg" in figure.inline_svg


@pytest.mark.parametrize(
    "options",
    [
        ["--default-action", "treat"],
        ["--curve", "--costs", "x"],
        ["--curve", "--thresholds=a"],
    ],
)
def test_options_that_do_not_fit_are_refused(saved, options):
    shown = CliRunner().invoke(app, [str(saved), *options])
    assert isinstance(shown.exception, InvalidValue)


# Patients, rows each, prevalence, distance of the sides, correlation of a patient's rows.
WORLDS = [(100, 1, 0.3, 1.5, 0.0), (400, 1, 0.1, 2.0, 0.0), (40, 8, 0.3, 1.5, 0.4)]
OPTIONS = CurveOptions(
    thresholds=(0.02, 0.1, 0.3, 0.5, 0.8),
    answer_from=0.8,
    team=Team(sensitivity=0.9, specificity=0.8),
)


def drawn(rng, world):
    """Return truth, P(positive), abstention and patient of every row."""
    n_patients, k, prevalence, distance, icc = world
    patient = np.repeat(np.arange(n_patients), k)
    truth = rng.random(patient.size) < prevalence
    shared = rng.standard_normal(n_patients)[patient]
    noise = math.sqrt(icc) * shared + math.sqrt(1 - icc) * rng.standard_normal(patient.size)
    odds = distance * (truth * distance + noise) - distance**2 / 2
    p = 1 / (1 + (1 - prevalence) / prevalence * np.exp(-odds))
    return truth, p, rng.random(p.size) < 0.6 * (1 - np.abs(2 * p - 1)), patient


def true_benefits(world, rng, prevalence):
    """Return the net benefit by plain definition, and above treating all, on a long run."""
    truth, p, silent, _ = drawn(rng, (400_000 // world[1], *world[1:]))
    share = truth.mean() if prevalence is None else prevalence
    weight = np.where(truth, share / truth.mean(), (1 - share) / (1 - truth.mean())) / p.size
    reader = np.where(truth, 0.9, 0.2)
    deferred = silent | (np.maximum(p, 1 - p) < 0.8)
    found = {}
    for t in OPTIONS.thresholds:
        gain = weight * np.where(truth, 1, -t / (1 - t))
        model, team = np.where(silent, 0, p >= t), np.where(deferred, reader, p >= t)
        for name, treated in ((MODEL, model), (DEFERRAL, team)):
            found[name, t] = gain @ treated, gain @ (treated - 1)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("prevalence", [None, 0.05])
@pytest.mark.parametrize("world", WORLDS)
def test_intervals_cover(world, prevalence):
    rng = np.random.default_rng(5)
    true, n_runs = true_benefits(world, rng, prevalence), 300
    moved = None if prevalence is None else Prevalence({"": prevalence})
    held = dict.fromkeys(true, (0, 0))
    for _ in range(n_runs):
        columns = zip(*(column.tolist() for column in drawn(rng, world)), strict=True)
        run = run_of([(int(t), None if silent else p, i) for t, p, silent, i in columns])
        curves = decision_curve(run, replace(OPTIONS, prevalence=moved)).curves
        for (name, t), (benefit, above) in true.items():
            point = next(one for one in curves[name] if one.threshold == t)
            first = point.low <= benefit <= point.high
            second = point.above_all_low <= above <= point.above_all_high
            held[name, t] = held[name, t][0] + first, held[name, t][1] + second
    assert min(min(both) for both in held.values()) >= 0.91 * n_runs, held
