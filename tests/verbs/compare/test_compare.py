"""Comparisons are paired, honest about what they leave out, and right about chance."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.documents import said
from tests.invented_runs import invented_rows, result_of, write_run
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.metrics import (
    AUGRC,
    AURC,
    Accuracy,
    BootstrapOptions,
    DiseaseSensitivity,
    ExpectedCalibrationError,
    default_benchmark_metrics,
    score_all,
)
from krisis.metrics.base import Direction, EvaluationResult, MetricScore, MetricScores, Rows
from krisis.metrics.scoring import metrics_from_names
from krisis.pages.document import Table
from krisis.pages.numbers import Estimate
from krisis.pages.shell import page as page_of
from krisis.results.base import RunFacts
from krisis.results.loading import load_results
from krisis.results.result import BenchmarkResult
from krisis.results.side_by_side import warned
from krisis.statistics.intervals import Interval
from krisis.task_facts import TaskFacts
from krisis.verbs.compare.agreement import reader_agreement
from krisis.verbs.compare.page import margin_words
from krisis.verbs.compare.pairs import (
    CompareOptions,
    Comparison,
    MetricDelta,
    Pair,
    compare_runs,
    unpaired_interval,
)

QUICK = CompareOptions(n_permutations=399)
KEYS = tuple(metric.key for metric in default_benchmark_metrics() if metric.compared_by_default)


def answers(pattern: str, *, prefix: str = "r", confidence: float = 0.8) -> BenchmarkResult:
    """Return a run from its outcomes: + right, - wrong, a abstained, x failed."""
    rows = Rows(
        EvaluationResult(
            {"+": 1, "-": 0}.get(mark),
            1 if i % 2 else "1",
            mark == "a",
            confidence,
            record_id=f"{prefix}{i}",
            error="timeout" if mark == "x" else None,
            metadata={"should_abstain": i % 3 == 0},
        )
        for i, mark in enumerate(pattern)
    )
    return result_of(rows)


def delta_of(comparison: Comparison, key: str) -> MetricDelta:
    return comparison.pairs[0].deltas[key]


def test_the_level_asked_for_is_that_of_the_interval_and_of_the_margin() -> None:
    runs = {"a": answers("++++-+-++-" * 4), "b": answers("+-++-+-+--" * 4)}
    wide, narrow = (
        delta_of(
            compare_runs(runs, CompareOptions(("accuracy",), 400, level=level)), "accuracy"
        ).interval
        for level in (0.95, 0.5)
    )
    assert narrow is not None
    assert wide is not None
    assert narrow.level == 0.5
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_hand_counted_difference_has_the_exact_p_value_of_its_permutations() -> None:
    """Of 10 patients 2 differ, both one way: 2 of the 4 sign patterns are as extreme."""
    comparison = compare_runs({"a": answers("++++++----"), "b": answers("++++++++--")}, QUICK)
    delta = delta_of(comparison, "accuracy")
    assert (delta.left, delta.right, delta.delta) == (0.6, 0.8, pytest.approx(0.2))
    assert (delta.test, delta.p_value) == ("paired permutation by patient", 0.5)
    assert delta.p_adjusted >= delta.p_value


def test_five_discordant_pairs_of_200_are_no_significant_difference() -> None:
    """Exact p .0625; the interval must hold 0 as long as p is above 5 %."""
    comparison = compare_runs(
        {"a": answers("+" * 200), "b": answers("-" * 5 + "+" * 195)},
        CompareOptions(("accuracy",), 3999),
    )
    delta = delta_of(comparison, "accuracy")
    assert delta.interval is not None
    assert delta.p_value == pytest.approx(0.0625, abs=0.01)
    assert (delta.interval.low, delta.interval.high) == pytest.approx((-0.050, 0.0), abs=0.002)
    assert delta.interval.high >= 0
    six = delta_of(
        compare_runs(
            {"a": answers("+" * 200), "b": answers("-" * 6 + "+" * 194)},
            CompareOptions(("accuracy",), 3999),
        ),
        "accuracy",
    )
    assert six.interval is not None
    assert six.p_value == pytest.approx(0.03125, abs=0.006)
    assert six.interval.high < 0


def test_the_p_value_and_the_interval_never_contradict_each_other() -> None:
    for seed in range(12):
        runs = {
            "a": result_of(invented_rows(60, seed=seed)),
            "b": result_of(invented_rows(60, seed=seed, skill=0.8)),
        }
        named = CompareOptions(KEYS, n_permutations=399)
        for delta in compare_runs(runs, named).pairs[0].deltas.values():
            interval = delta.interval
            if interval is not None:
                apart = not interval.low <= 0 <= interval.high
                assert (delta.p_adjusted <= 0.05) == apart, delta


def test_identical_and_jointly_perfect_runs_are_decided_at_a_margin() -> None:
    for pattern in ("+" * 200, "+" * 150 + "-" * 50):
        run = answers(pattern)
        comparison = compare_runs({"a": run, "b": run}, CompareOptions(margin=0.05))
        for key, delta in comparison.pairs[0].deltas.items():
            if delta.direction != "neither" and not math.isnan(delta.left):
                assert delta.non_inferior is True, key


def test_a_lower_is_better_metric_is_inferior_when_it_grows() -> None:
    sure, unsure = answers("+" * 100, confidence=0.99), answers("+" * 100, confidence=0.6)
    options = CompareOptions(("brier_score",), margin={"brier_score": 0.05})
    worse = delta_of(compare_runs({"a": sure, "b": unsure}, options), "brier_score")
    better = delta_of(compare_runs({"a": unsure, "b": sure}, options), "brier_score")
    assert worse.delta == pytest.approx(0.4**2 - 0.01**2)
    assert (worse.non_inferior, better.non_inferior) == (False, True)


def test_a_metric_that_only_one_run_reaches_is_not_comparable_and_never_best() -> None:
    runs = {"all": answers("+" * 15 + "-" * 5), "few": answers("+" * 10 + "a" * 10)}
    comparison = compare_runs(runs, replace(QUICK, primary="risk_at_80_coverage"))
    delta = delta_of(comparison, "risk_at_80_coverage")
    assert delta.verdict() == "not comparable"
    assert delta.reason == "coverage_is_never_reached"
    assert "risk_at_80_coverage" not in comparison.tied_with_best()


def test_a_primary_metric_is_tested_alone() -> None:
    runs = {"a": result_of(invented_rows(160)), "b": result_of(invented_rows(160, skill=0.9))}
    key = "expected_calibration_error"
    several = CompareOptions((key, "accuracy", "brier_score", "answer_rate"), 399)
    together = compare_runs(runs, several).pairs[0].deltas[key]
    named = CompareOptions(n_permutations=399, primary=key)
    alone = compare_runs(runs, named).pairs[0].deltas
    assert alone[key].primary
    assert alone[key].p_adjusted == alone[key].p_value == together.p_value <= together.p_adjusted
    assert [one.key for one in alone.values() if one.test] == [key]


def test_the_headline_of_the_task_is_the_primary_metric_and_the_others_are_described() -> None:
    runs = {"a": result_of(invented_rows(160)), "b": result_of(invented_rows(160, skill=0.9))}
    deltas = compare_runs(runs, QUICK).pairs[0].deltas
    first, *others = deltas.values()
    assert (first.key, first.primary, first.p_adjusted) == ("accuracy", True, first.p_value)
    for delta in others:
        assert delta.verdict() == "not tested"
        assert math.isnan(delta.p_value)
        assert delta.interval is not None
    # Their intervals are those of a metric that is tested alone.
    alone = compare_runs(runs, CompareOptions(("brier_score",), 399, primary="brier_score"))
    assert alone.pairs[0].deltas["brier_score"].interval == deltas["brier_score"].interval
    task = TaskFacts("kidneys", metrics=("decision_skill", "decision_cost"))
    priced = {
        name: BenchmarkResult(
            run.rows,
            score_all(metrics_from_names(["accuracy", *task.metrics]), run.rows),
            {},
            name,
            facts=RunFacts(provenance=replace(run.provenance, task_facts=task)),
        )
        for name, run in runs.items()
    }
    found = compare_runs(priced, QUICK).pairs[0].deltas
    assert [one.key for one in found.values() if one.primary] == ["decision_cost"]


def test_the_numbers_of_a_row_are_one_quantity() -> None:
    runs = {"a": result_of(invented_rows(160)), "b": result_of(invented_rows(160, skill=0.9))}
    comparison = compare_runs(runs, CompareOptions(("aurc", "accuracy"), 399))
    (table,) = comparison.document().section("scores").parts
    assert isinstance(table, Table)
    assert [cells[0] for cells in table.rows] == ["AURC / Cmax", "Accuracy"]
    for _, left, right, difference, _ in table.rows:
        assert isinstance(difference, Estimate)
        assert right - left == pytest.approx(difference.value)
    delta = comparison.pairs[0].deltas["aurc"]
    assert delta.shown == (delta.left_compared, delta.right_compared) != (delta.left, delta.right)
    frame = comparison.to_frame()
    found = (frame["right_value"] - frame["left_value"]).tolist()
    assert found == pytest.approx(frame["delta"].tolist())


def test_a_margin_prints_the_two_sided_verdict() -> None:
    run = answers("+" * 150 + "-" * 50)
    same = compare_runs({"a": run, "b": run}, CompareOptions(("accuracy",), margin=0.05))
    assert margin_words(delta_of(same, "accuracy")) == "equivalent (margin 0.05)"
    verdict = same.document().verdict
    assert verdict is not None
    assert verdict.line("margin").question == "At most 0.05 worse?"
    assert [verdict.line(key).answer for key in ("headline", "margin")] == ["cannot tell", "yes"]
    worse = {"a": answers("+" * 200), "b": answers("+" * 100 + "-" * 100)}
    found = delta_of(compare_runs(worse, CompareOptions(("accuracy",), margin=0.05)), "accuracy")
    assert found.to_dict(0.95)["margin_verdict"] == "worse"
    verdict = compare_runs(worse, CompareOptions(("accuracy",), margin=0.05)).document().verdict
    assert verdict is not None
    assert [verdict.line(key).answer for key in ("headline", "margin")] == ["no", "no"]


def test_parameters_of_a_metric_are_those_it_was_scored_with() -> None:
    metrics = [
        ExpectedCalibrationError(n_bins=10),
        Accuracy(treat_abstention_as_neutral=True),
        AURC(loss="abs"),
    ]
    runs = {}
    for name, skill in (("a", 1.0), ("b", 0.8)):
        run = result_of(invented_rows(skill=skill))
        scores = score_all(metrics, [r for r in run.evaluation_results if r.error is None])
        runs[name] = BenchmarkResult(
            run.evaluation_results, scores, run.suite_description, run.backend_name
        )
    comparison = compare_runs(runs, QUICK)
    for metric in metrics:
        delta = comparison.pairs[0].deltas[metric.identifier]
        assert delta.left == runs["a"].metric_scores[metric.label].value, metric.label
        assert delta.right == runs["b"].metric_scores[metric.label].value, metric.label


def test_runs_scored_with_other_parameters_are_not_compared_under_one_name() -> None:
    runs = {}
    for name, n_bins in (("a", 10), ("b", 15)):
        rows = invented_rows(40)
        scores = score_all([Accuracy(), ExpectedCalibrationError(n_bins)], rows)
        runs[name] = BenchmarkResult(rows, scores, {}, name)
    comparison = compare_runs(runs, QUICK)
    assert list(comparison.pairs[0].deltas) == ["accuracy"]
    assert "these parameters" in comparison.left_out["expected_calibration_error[n_bins=10]"]


def test_one_label_with_other_parameters_is_not_compared_either() -> None:
    """A label leaves defaults out, and another version may have had others."""
    runs = {name: result_of(invented_rows(40)) for name in ("a", "b")}
    runs["b"].metric_scores["Expected Calibration Error"].parameters["n_bins"] = 10
    comparison = compare_runs(runs, QUICK)
    assert "these parameters" in comparison.left_out["expected_calibration_error"]
    assert "expected_calibration_error" not in comparison.pairs[0].deltas


def test_abstaining_at_random_does_not_look_better() -> None:
    """The same answers with a third dropped by lot: the areas are compared as if none were."""
    generator, found = np.random.default_rng(5), []
    for seed in range(20):
        rows = [row for row in invented_rows(120, seed=seed) if not row.abstained and not row.error]
        dropped = generator.random(len(rows)) < 0.35
        fewer = [
            replace(row, abstained=True, prediction=None) if drop else row
            for row, drop in zip(rows, dropped, strict=True)
        ]
        runs = {"a": BenchmarkResult(rows, {}, {}), "b": BenchmarkResult(fewer, {}, {})}
        deltas = compare_runs(runs, CompareOptions((AURC(), AUGRC()), 199)).pairs[0].deltas
        found += [delta.verdict() for delta in deltas.values()]
    assert found.count("no significant difference") >= 0.9 * len(found)


def test_a_run_equals_itself() -> None:
    run = result_of(invented_rows())
    comparison = compare_runs({"a": run, "b": run}, CompareOptions(KEYS, n_permutations=399))
    for delta in comparison.pairs[0].deltas.values():
        assert delta.delta == 0
        assert delta.p_value == 1
        assert delta.verdict() == "no significant difference"
    assert not any(comparison.pairs[0].changes.values())


def test_unmatched_and_failed_rows_are_listed_and_left_out() -> None:
    left, right = answers("++x-a+"), answers("+-+-")
    comparison = compare_runs({"a": left, "b": right}, QUICK)
    matched = comparison.pairs[0].matched
    assert matched is not None
    assert matched.unmatched == {"a": ["r4", "r5"], "b": []}
    assert matched.n_not_evaluated == {"a": 1, "b": 0}
    assert (matched.n_matched, matched.n_compared) == (4, 3)


def test_rows_are_matched_by_name_whatever_their_order() -> None:
    run = result_of(invented_rows(50))
    turned = result_of(Rows(reversed(run.evaluation_results)))
    comparison = compare_runs({"a": run, "b": turned}, QUICK)
    assert all(d.delta == pytest.approx(0) for d in comparison.pairs[0].deltas.values())
    assert not any(comparison.pairs[0].changes.values())


def test_changed_rows_are_named_by_what_became_of_them() -> None:
    comparison = compare_runs({"a": answers("++--aa+"), "b": answers("+-+a+-a")}, QUICK)
    changes = {
        change: [row.record_id for row in rows]
        for change, rows in comparison.pairs[0].changes.items()
        if rows
    }
    assert changes == {
        ("right", "wrong"): ["r1"],
        ("wrong", "right"): ["r2"],
        ("right", "abstained"): ["r6"],
        ("wrong", "abstained"): ["r3"],
        ("abstained", "right"): ["r4"],
        ("abstained", "wrong"): ["r5"],
    }


def test_runs_on_different_data_are_refused_with_their_hashes() -> None:
    left, right = answers("+-"), answers("+-")
    right.suite_description["content_hash"] = "cd" * 32
    with pytest.raises(InvalidValue, match=r"a: (ab){32}, b: (cd){32}"):
        compare_runs({"a": left, "b": right}, QUICK)


def test_runs_with_other_right_answers_are_refused() -> None:
    left, right = answers("+-"), answers("+-")
    first, second = right.evaluation_results
    right.evaluation_results = Rows([first, replace(second, ground_truth=0)])
    with pytest.raises(InvalidValue, match="record 'r1' has different right answers"):
        compare_runs({"a": left, "b": right}, QUICK)


def test_runs_without_a_common_record_are_refused() -> None:
    with pytest.raises(InvalidValue, match="share no record_id"):
        compare_runs({"a": answers("+-"), "b": answers("+-", prefix="s")}, QUICK)


def test_repeated_askings_are_matched_one_by_one() -> None:
    def twice(pattern: str) -> BenchmarkResult:
        first, second = answers(pattern[:2]), answers(pattern[2:])
        return result_of(Rows([*first.evaluation_results, *second.evaluation_results]))

    comparison = compare_runs({"a": twice("++--"), "b": twice("-+-+")}, QUICK)
    matched = comparison.pairs[0].matched
    assert matched is not None
    assert matched.n_compared == 4
    changes = comparison.pairs[0].changes
    assert [row.record_id for row in changes["wrong", "right"]] == ["r1"]
    assert [row.record_id for row in changes["right", "wrong"]] == ["r0"]


def test_the_best_and_all_that_tie_with_it_are_one_set() -> None:
    rows = invented_rows(400)
    runs = {
        "good": result_of(rows),
        "twin": result_of(rows),
        "poor": result_of(invented_rows(400, skill=0.5)),
    }
    comparison = compare_runs(runs, CompareOptions(("accuracy",), 2000))
    assert comparison.tied_with_best() == {"accuracy": ["good", "twin"]}
    assert len(comparison.pairs) == 3


def test_non_inferiority_needs_the_whole_interval_above_the_margin() -> None:
    left, right = answers("+" * 95 + "-" * 5), answers("+" * 94 + "-" * 4 + "+" + "-")
    runs = {"a": left, "b": right}
    wide = compare_runs(runs, CompareOptions(("accuracy",), 2000, margin=0.2))
    narrow = compare_runs(runs, CompareOptions(("accuracy",), 2000, margin=0.001))
    assert delta_of(wide, "accuracy").non_inferior is True
    assert delta_of(narrow, "accuracy").non_inferior is False


def test_a_share_and_its_complement_are_one_test() -> None:
    runs = {"a": answers("+" * 40), "b": answers("+" * 20 + "a" * 20)}
    options = CompareOptions(("answer_rate", "abstention_rate"), 2000)
    deltas = compare_runs(runs, options).pairs[0].deltas
    assert deltas["answer_rate"].p_adjusted == deltas["abstention_rate"].p_value
    assert deltas["answer_rate"].p_value == deltas["abstention_rate"].p_value


def test_files_without_rows_compare_unpaired_and_say_so(tmp_path: Path) -> None:
    paths = []
    for name, skill in (("a", 1.0), ("b", 0.7)):
        path = tmp_path / f"{name}.json"
        text = result_of(invented_rows(skill=skill), name).metrics_to_json()
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    comparison = compare_runs(load_results(paths), QUICK)
    delta = delta_of(comparison, "accuracy")
    assert not comparison.paired
    assert delta.interval is not None
    assert delta.interval.low < delta.delta < delta.interval.high
    assert math.isnan(delta.p_value)
    paired = compare_runs(
        {"a": result_of(invented_rows()), "b": result_of(invented_rows(skill=0.7))}, QUICK
    )
    tighter = delta_of(paired, "accuracy").interval
    assert tighter is not None
    assert tighter.high - tighter.low < delta.interval.high - delta.interval.low
    shown = CliRunner().invoke(app, ["compare", *map(str, paths)])
    assert shown.output.startswith("UNPAIRED")


def test_the_unpaired_interval_by_hand() -> None:
    """.9 [.6, .95] − .8 [.7, .85]: below √(.3² + .05²), above √(.05² + .1²)."""
    left = MetricScore("Accuracy", 0.8, interval=Interval(0.7, 0.85))
    right = MetricScore("Accuracy", 0.9, interval=Interval(0.6, 0.95))
    interval = unpaired_interval(left, right)
    assert interval is not None
    ends = (0.1 - 0.3041381, 0.1 + 0.1118034)
    assert (interval.low, interval.high) == pytest.approx(ends, abs=1e-6)


def test_p_values_of_several_pairs_are_multiplied_by_their_number() -> None:
    runs = {"a": answers("-" * 40), "b": answers("+" * 10 + "-" * 30), "c": answers("-" * 40)}
    comparison = compare_runs(runs, CompareOptions(("accuracy",), 1999))
    first, second, _ = (pair.deltas["accuracy"] for pair in comparison.pairs)
    assert 0 < first.p_value < 0.01
    assert first.p_adjusted == pytest.approx(3 * first.p_value)
    assert second.p_adjusted == 1.0


@pytest.mark.parametrize(
    ("direction", "delta", "p_value", "p_adjusted", "expected"),
    [
        ("higher", 0.1, 0.01, 0.04, "better"),
        ("higher", -0.1, 0.01, 0.04, "worse"),
        ("lower", 0.1, 0.01, 0.04, "worse"),
        ("lower", -0.1, 0.01, 0.04, "better"),
        ("neither", 0.1, 0.01, 0.04, "different"),
        ("higher", 0.1, 0.01, 0.06, "no significant difference"),
        ("higher", 0.1, math.nan, math.nan, "not tested"),
        ("higher", math.nan, 0.01, 0.01, "not comparable"),
    ],
)
def test_a_verdict_follows_the_direction_and_the_adjusted_p_value(
    direction: Direction, delta: float, p_value: float, p_adjusted: float, expected: str
) -> None:
    found = MetricDelta("m", "M", direction, 0.5, 0.5 + delta, delta, None, p_value, p_adjusted)
    assert found.verdict() == expected


def test_the_best_is_that_of_the_numbers_compared_in_the_direction_of_the_metric() -> None:
    """b has the larger area only because it answers more: as if all were answered it is better."""
    area = MetricDelta(
        "aurc", "AURC", "lower", 0.05, 0.1, -0.1, None, 0.001, 0.001,
        left_compared=0.2, right_compared=0.1,
    )  # fmt: skip
    run = answers("+-")
    comparison = Comparison(
        {"a": run, "b": run},
        {"a": MetricScores(), "b": MetricScores()},
        [Pair("a", "b", {"aurc": area})],
        CompareOptions(),
    )
    assert comparison.tied_with_best() == {"aurc": ["b"]}


def test_the_same_seed_gives_the_same_bytes() -> None:
    runs = {"a": result_of(invented_rows()), "b": result_of(invented_rows(skill=0.9))}
    texts = {json.dumps(compare_runs(runs, QUICK).to_dict(), default=str) for _ in range(2)}
    assert len(texts) == 1


def test_what_the_runs_took_is_in_the_terminal_the_json_and_the_page() -> None:
    took = {"elapsed_seconds": 12.34, "token_total": 4321, "cost": 0.0125}
    runs = {
        name: BenchmarkResult(answers(pattern * 5).evaluation_results, {}, {}, name, extras)
        for name, pattern, extras in (("paid", "++-a", took), ("rule", "+++a", {}))
    }
    comparison = compare_runs(runs, QUICK)
    assert comparison.to_dict()["spending"] == {"paid": took, "rule": dict.fromkeys(took)}
    table = comparison.document().section("spending").parts[0]
    assert isinstance(table, Table)
    assert table.rows == [
        ["paid", 12.34, 4321, 0.0125],
        ["rule", "not known", "not known", "not known"],
    ]
    page = page_of(comparison.document())
    assert all(f">{cell}</t" in page for row in table.written() for cell in row)


def test_the_command_prints_tables_json_and_a_page(tmp_path: Path) -> None:
    left = write_run(tmp_path / "left", result_of(invented_rows(40), "model/a"))
    right = write_run(tmp_path / "right", result_of(invented_rows(40, skill=0.6), "model/b"))
    page = tmp_path / "comparison.html"
    options = ["--permutations", "200", "--html", str(page), "--margin", "0.1"]
    shown = CliRunner().invoke(app, ["compare", str(left), str(right), *options])
    assert shown.exit_code == 0, shown.output
    assert "b compared with a" in shown.output
    assert "right → wrong" in page.read_text(encoding="utf-8")
    as_json = CliRunner().invoke(
        app,
        [
            "compare",
            str(left),
            str(right),
            "--permutations",
            "200",
            "--format",
            "json",
            "-m",
            "accuracy",
        ],
    )
    assert list(json.loads(as_json.stdout)["pairs"][0]["deltas"]) == ["accuracy"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["compare", "{run}"], InvalidValue),
        (["compare", "{run}", "{run}"], InvalidValue),
        (["compare", "{run}", "nowhere.json"], InvalidFile),
        (["compare", "{run}", "{other}", "-m", "acuracy"], UnknownName),
        (["compare", "{run}", "{other}", "--primary", "acuracy"], UnknownName),
        (["compare", "{run}", "{other}", "--margin", "wide"], InvalidValue),
        (["compare", "{run}", "{run}", "--margin", "-5"], InvalidValue),
    ],
)
def test_bad_requests_are_refused_in_one_sentence(
    tmp_path: Path, arguments: list[str], problem: type[Exception]
) -> None:
    run = answers("+-").save(tmp_path / "run.json")
    other = answers("++").save(tmp_path / "other.json")
    given = [argument.format(run=run, other=other) for argument in arguments]
    done = CliRunner().invoke(app, given)
    assert isinstance(done.exception, problem)


def test_a_comparison_without_areas_agrees_with_one_that_has_them() -> None:
    runs = {"a": result_of(invented_rows()), "b": result_of(invented_rows(skill=0.8))}
    few = compare_runs(runs, CompareOptions(("accuracy", "brier_score"), 1000)).pairs[0].deltas
    more = compare_runs(runs, CompareOptions(KEYS, n_permutations=1000)).pairs[0].deltas
    for key, delta in few.items():
        assert delta.p_value == more[key].p_value
        assert delta.p_adjusted <= more[key].p_adjusted


def _sensitivity(run: BenchmarkResult) -> float:
    (score,) = run.scored([DiseaseSensitivity()], BootstrapOptions()).metric_scores.values()
    return score.value


def test_figures_of_the_disease_are_compared_where_they_are_named() -> None:
    runs = {"a": result_of(invented_rows(80)), "b": result_of(invented_rows(80, skill=0.7))}
    unasked = compare_runs(runs, QUICK).pairs[0].deltas
    assert "accuracy" in unasked
    assert not [key for key in unasked if key.startswith("disease")]
    primary = compare_runs(runs, replace(QUICK, primary="disease_npv")).pairs[0].deltas
    assert primary["disease_npv"].primary
    assert len(primary) == len(unasked) + 1
    named = compare_runs(runs, replace(QUICK, metrics=["disease_sensitivity"])).pairs[0].deltas
    (delta,) = named.values()
    left, right = (_sensitivity(run) for run in runs.values())
    assert (delta.left, delta.right) == (left, right)
    assert delta.interval.low <= delta.delta <= delta.interval.high


def test_the_risk_in_force_and_a_mixture_of_patients_are_said_first() -> None:
    runs = {name: result_of(invented_rows(40), name) for name in ("a", "b")}
    for run in runs.values():
        run.suite_description["deferral"] = {"risk": 0.1}
        run.scores_by_source = {"real": run.metric_scores, "synthetic": run.metric_scores}
    words = " ".join(compare_runs(runs, QUICK).document().lead)
    assert words.count("wrong with a probability of 0.1 or more") == 1
    assert words.count("is over real and synthetic patients") == 2
    assert warned(runs["a"]) == ["2 not evaluated", "real and synthetic patients together"]


class Odds(Accuracy):
    """A metric of one's own whose other number begins with the word log and is no ratio."""

    name, key, comparison_name = "Odds", "odds", "log odds"


class ReasonedOdds(Odds):
    """The same, with a reason."""

    comparison_reason = "as odds multiply"


@pytest.mark.parametrize(
    ("metric", "line"),
    [
        (AURC(), "AURC is compared by AURC / Cmax, so that abstaining more is no advantage."),
        (Odds(), "Odds is compared by log odds."),
        (ReasonedOdds(), "Odds is compared by log odds, as odds multiply."),
    ],
)
def test_a_metric_says_itself_why_it_is_compared_by_another_number(
    metric: Accuracy | AURC, line: str
) -> None:
    runs = {"a": result_of(invented_rows(60)), "b": result_of(invented_rows(60, skill=0.8))}
    comparison = compare_runs(runs, CompareOptions((metric,), 99))
    assert line in said(comparison.document()).splitlines()


# --- Readers ---------------------------------------------------------------------------------


def readers(*answers: list[int | None], names: str = "abc") -> list[BenchmarkResult]:
    return [
        BenchmarkResult(
            [
                EvaluationResult(
                    said, 0, abstained=said is None, record_id=f"r{at}", cluster_id=f"p{at}"
                )
                for at, said in enumerate(given)
            ],
            {},
            {"suite": "s", "task": "t"},
            f"reader/{name}",
        )
        for name, given in zip(names, answers, strict=False)
    ]


def test_the_agreement_of_readers_is_that_of_the_libraries() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    library = pytest.importorskip("krippendorff")
    draw = np.random.default_rng(4)
    truth = draw.integers(0, 3, 80)
    given = [np.where(draw.random(80) < 0.7, truth, draw.integers(0, 3, 80)) for _ in range(3)]
    runs = readers(*(one.tolist() for one in given))
    found = reader_agreement(dict(zip("abc", runs, strict=True)))
    assert found is not None
    assert found.alpha is not None
    pairs = [(0, 1), (0, 2), (1, 2)]
    expected = [sklearn.cohen_kappa_score(given[i], given[j]) for i, j in pairs]
    assert [one.value for one in found.kappa] == pytest.approx(expected)
    alpha = library.alpha(np.array(given, float), level_of_measurement="nominal")
    assert found.alpha.value == pytest.approx(alpha)
    assert all(one.interval.low < one.value < one.interval.high for one in found.kappa)


def test_abstentions_are_left_out_of_agreement_and_models_are_no_readers() -> None:
    left, right = readers([0, 1, 0, None, 1, 0], [0, 1, 1, 1, None, 0])
    found = reader_agreement({"a": left, "b": right})
    assert found is not None
    assert found.alpha is None
    assert found.kappa[0].n_cases == 4
    # Three of four alike; by chance 3/4 · 2/4 + 1/4 · 2/4 = 1/2: κ = (3/4 − 1/2)/(1/2).
    assert found.kappa[0].value == pytest.approx(0.5)
    right.backend_name = "openai/x"
    assert reader_agreement({"a": left, "b": right}) is None


def test_readers_who_always_say_the_same_have_no_agreement_beyond_chance() -> None:
    left, right = readers([1, 1, 1], [1, 1, 1])
    found = reader_agreement({"a": left, "b": right})
    assert found is not None
    assert math.isnan(found.kappa[0].value)


def test_a_comparison_of_readers_says_how_far_they_agree_and_what_is_random() -> None:
    left, right = readers([0, 1, 0, 1, 1, 0] * 4, [0, 1, 1, 1, 1, 0] * 4)
    comparison = compare_runs({"a": left, "b": right}, CompareOptions(metrics=["accuracy"]))
    text = said(comparison.document())
    assert "Cohen's κ" in text
    assert "not of other readers" in text
    assert comparison.to_dict()["reader_agreement"]["kappa"][0]["n_cases"] == 24
