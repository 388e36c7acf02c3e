"""Comparisons are paired, honest about what they leave out, and right about chance."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.invented_runs import invented_rows, result_of, write_run
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.metrics import score_all
from krisis.metrics.base import EvaluationResult, Rows
from krisis.results.compare import CompareOptions, Comparison, MetricDelta, compare_runs
from krisis.results.exchange import Permutations, exchange_test
from krisis.results.leaderboard import leaderboards
from krisis.results.loading import load_results
from krisis.results.result import BenchmarkResult
from krisis.results.weighted_scores import METRICS, WeightedScores
from krisis.statistics.comparison import sign_flip_test

QUICK = CompareOptions(n_resamples=400)


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


def test_the_statistic_of_runs_as_they_are_equals_every_metric() -> None:
    rows = invented_rows(300)
    units = rows.columns.cluster
    n_units = int(units.max()) + 1
    values = WeightedScores(rows.columns, units, n_units)(np.ones((n_units, 1)))
    scores = score_all([metric() for metric in METRICS.values()], rows)
    assert {key: value[0] for key, value in values.items()} == pytest.approx(
        {key: scores[key].value for key in METRICS}, abs=1e-12
    )


def test_counting_a_patient_twice_equals_repeating_the_rows() -> None:
    rows = invented_rows(60)
    units = rows.columns.cluster
    n_units = int(units.max()) + 1
    counts = np.ones((n_units, 1))
    counts[3], counts[5] = 2, 0
    scored = [row for row in rows if row.error is None]
    repeated = [row for row, u in zip(scored, units, strict=True) for _ in range(int(counts[u, 0]))]
    values = WeightedScores(rows.columns, units, n_units)(counts)
    scores = score_all([metric() for metric in METRICS.values()], repeated)
    for key, value in values.items():
        assert value[0] == pytest.approx(scores[key].value, abs=1e-12, nan_ok=True), key


def test_a_hand_counted_difference_has_the_p_value_of_mcnemar() -> None:
    comparison = compare_runs({"a": answers("++++++----"), "b": answers("++++++++--")}, QUICK)
    delta = delta_of(comparison, "accuracy")
    assert (delta.left, delta.right, delta.delta) == (0.6, 0.8, pytest.approx(0.2))
    assert (delta.test, delta.p_value) == ("exact McNemar", 0.5)
    assert delta.p_adjusted >= delta.p_value


def test_with_several_rows_per_patient_the_patients_are_exchanged() -> None:
    comparison = compare_runs(
        {"a": result_of(invented_rows()), "b": result_of(invented_rows(skill=0.8))}, QUICK
    )
    assert delta_of(comparison, "accuracy").test == "patients exchanged"


def test_the_exchange_of_a_mean_is_the_sign_flip_test() -> None:
    generator = np.random.default_rng(3)
    left = Rows(EvaluationResult(int(generator.random() < 0.5), 1) for _ in range(60))
    right = Rows(EvaluationResult(int(generator.random() < 0.75), 1) for _ in range(60))
    p_values = exchange_test(left, right, np.arange(60), Permutations(20_000, seed=1))
    differences = right.columns.correct.astype(float) - left.columns.correct.astype(float)
    assert p_values["accuracy"] == pytest.approx(sign_flip_test(differences).p_value, abs=0.01)


def test_a_run_equals_itself() -> None:
    run = result_of(invented_rows())
    comparison = compare_runs({"a": run, "b": run}, QUICK)
    for delta in comparison.pairs[0].deltas.values():
        assert delta.delta == 0
        assert delta.p_value == 1
        assert delta.verdict() == "not told apart"
    assert not any(comparison.pairs[0].changes.values())


def test_unmatched_and_failed_rows_are_listed_and_left_out() -> None:
    left, right = answers("++x-a+"), answers("+-+-")
    comparison = compare_runs({"a": left, "b": right}, QUICK)
    matched = comparison.matched
    assert matched is not None
    assert matched.unmatched == {"a": ["r4", "r5"], "b": []}
    assert matched.n_failed == {"a": 1, "b": 0}
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
    }
    assert changes == {
        "right → wrong": ["r1"],
        "wrong → right": ["r2"],
        "right → abstained": ["r6"],
        "wrong → abstained": ["r3"],
        "abstained → right": ["r4"],
        "abstained → wrong": ["r5"],
    }


def test_runs_on_different_data_are_refused_with_their_hashes() -> None:
    left, right = answers("+-"), answers("+-")
    right.suite_description["content_hash"] = "cd" * 32
    with pytest.raises(InvalidValue, match=r"a: (ab){32}, b: (cd){32}"):
        compare_runs({"a": left, "b": right}, QUICK)


def test_runs_with_other_right_answers_are_refused() -> None:
    left, right = answers("+-"), answers("+-")
    right.evaluation_results[1] = replace(right.evaluation_results[1], ground_truth=0)
    with pytest.raises(InvalidValue, match="record 'r1' has different right answers"):
        compare_runs({"a": left, "b": right}, QUICK)


def test_runs_without_a_common_record_are_refused() -> None:
    with pytest.raises(InvalidValue, match="share no record_id"):
        compare_runs({"a": answers("+-"), "b": answers("+-", prefix="s")}, QUICK)


def test_repeated_askings_are_matched_one_by_one() -> None:
    def twice(pattern: str) -> BenchmarkResult:
        first, second = answers(pattern[:2]), answers(pattern[2:])
        return result_of(Rows([*first.evaluation_results, *second.evaluation_results]))

    comparison = compare_runs({"a": twice("++--"), "b": twice("++-+")}, QUICK)
    assert [row.record_id for row in comparison.pairs[0].changes["wrong → right"]] == ["r1"]


def test_the_best_and_all_not_told_apart_from_it_are_one_set() -> None:
    rows = invented_rows(400)
    runs = {
        "good": result_of(rows),
        "twin": result_of(rows),
        "poor": result_of(invented_rows(400, skill=0.5)),
    }
    comparison = compare_runs(runs, CompareOptions(("accuracy",), n_resamples=2000))
    assert comparison.indistinguishable() == {"accuracy": ["good", "twin"]}
    assert len(comparison.pairs) == 3


def test_non_inferiority_needs_the_whole_interval_above_the_margin() -> None:
    left, right = answers("+" * 95 + "-" * 5), answers("+" * 94 + "-" * 4 + "+" + "-")
    runs = {"a": left, "b": right}
    wide = compare_runs(runs, CompareOptions(("accuracy",), 2000, margin=0.2))
    narrow = compare_runs(runs, CompareOptions(("accuracy",), 2000, margin=0.001))
    assert delta_of(wide, "accuracy").non_inferior is True
    assert delta_of(narrow, "accuracy").non_inferior is False


def test_holm_counts_a_share_and_its_complement_once() -> None:
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


def test_the_same_seed_gives_the_same_bytes() -> None:
    runs = {"a": result_of(invented_rows()), "b": result_of(invented_rows(skill=0.9))}
    texts = {json.dumps(compare_runs(runs, QUICK).to_dict(), default=str) for _ in range(2)}
    assert len(texts) == 1


def test_the_command_prints_tables_json_and_a_page(tmp_path: Path) -> None:
    left = write_run(tmp_path / "left", result_of(invented_rows(40), "model/a"))
    right = write_run(tmp_path / "right", result_of(invented_rows(40, skill=0.6), "model/b"))
    page = tmp_path / "comparison.html"
    options = ["--resamples", "200", "--html", str(page), "--margin", "0.1"]
    shown = CliRunner().invoke(app, ["compare", str(left), str(right), *options])
    assert shown.exit_code == 0, shown.output
    assert "model/b  minus  model/a" in shown.output
    assert "right → wrong" in page.read_text(encoding="utf-8")
    as_json = CliRunner().invoke(
        app, ["compare", str(left), str(right), "--resamples", "200", "--json", "-m", "accuracy"]
    )
    assert list(json.loads(as_json.stdout)["pairs"][0]["deltas"]) == ["accuracy"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["compare", "{run}"], InvalidValue),
        (["compare", "{run}", "{run}"], InvalidValue),
        (["compare", "{run}", "nowhere.json"], InvalidFile),
        (["compare", "{run}", "{run}", "-m", "acuracy"], UnknownName),
        (["compare", "{run}", "{run}", "--margin", "5"], InvalidValue),
        (["leaderboard", "{run}", "--sort", "accuracy"], InvalidValue),
        (["leaderboard", "{run}", "--sort", "accuracy", "--sort", "accuracy"], InvalidValue),
        (["leaderboard", "{run}", "--sort", "abstention_rate"], InvalidValue),
        (["leaderboard", "{run}", "--sort", "speed"], UnknownName),
    ],
)
def test_bad_requests_are_refused_in_one_sentence(
    tmp_path: Path, arguments: list[str], problem: type[Exception]
) -> None:
    run = answers("+-").save(tmp_path / "run.json")
    done = CliRunner().invoke(app, [argument.format(run=run) for argument in arguments])
    assert isinstance(done.exception, problem)


def test_a_leaderboard_is_not_ranked_until_asked(tmp_path: Path) -> None:
    runs = {
        "zebra": result_of(invented_rows()),
        "ape": result_of(invented_rows(skill=0.5)),
    }
    (plain,) = leaderboards(runs)
    assert [entry.name for entry in plain.entries] == ["ape", "zebra"]
    assert all(entry.rank is None for entry in plain.entries)
    (ranked,) = leaderboards(runs, sort=["accuracy", "selective_accuracy"])
    assert [(entry.name, entry.rank) for entry in ranked.entries] == [("zebra", 1), ("ape", 2)]


def test_a_leaderboard_has_one_table_per_suite_and_task(tmp_path: Path) -> None:
    other = result_of(invented_rows(30))
    other.suite_description["task"] = "staging"
    write_run(tmp_path / "a", result_of(invented_rows(30), "m/a"))
    write_run(tmp_path / "b", result_of(invented_rows(20), "m/b"), n_cases=30)
    write_run(tmp_path / "c", other)
    done = CliRunner().invoke(app, ["leaderboard", str(tmp_path), "--json"])
    tables = {table["task"]: table for table in json.loads(done.stdout)}
    assert set(tables) == {"detection", "staging"}
    first, second = tables["detection"]["entries"]
    assert (first["ended"], second["ended"]) == (True, False)
    assert {"accuracy", "balanced_accuracy", "selective_accuracy", "abstention_rate"} <= set(
        first["figures"]
    )
    printed = CliRunner().invoke(app, ["leaderboard", str(tmp_path)]).output
    assert "Not ranked" in printed
    assert "tokens" in printed


def test_a_comparison_without_areas_agrees_with_one_that_has_them() -> None:
    runs = {"a": result_of(invented_rows()), "b": result_of(invented_rows(skill=0.8))}
    few = compare_runs(runs, CompareOptions(("accuracy", "brier_score"), 1000)).pairs[0].deltas
    all_of_them = compare_runs(runs, CompareOptions(n_resamples=1000)).pairs[0].deltas
    for key, delta in few.items():
        assert delta.interval == all_of_them[key].interval
        assert delta.p_value == all_of_them[key].p_value
