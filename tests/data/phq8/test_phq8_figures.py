"""What a report of the suite leads with: no reader that guesses is above one that reads."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from tests.documents import line_of, said

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, SuiteConfig
from krisis.data.phq8.commands import synthetic_interviews
from krisis.data.phq8.corpus import write_directory
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.task import TASK
from krisis.execution.options import Execution
from krisis.metrics import BrierScore, TotalBias
from krisis.metrics.base import Rows
from krisis.results.base import BenchmarkResult
from krisis.results.report_tables import headline
from krisis.results.side_by_side import best_first, side_by_side
from krisis.verbs.compare.pairs import CompareOptions, compare_runs


class PerfectReader(BaseBackend):
    """Knows every score and whether the interview shows it."""

    name = "perfect-reader"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        if record.metadata.get("should_abstain"):
            return BackendResponse(None, abstained=True)
        return BackendResponse(record.label, confidence=0.9)


class AlwaysZero(BaseBackend):
    """Reads nothing."""

    name = "zero"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(0, confidence=0.5)


def run(backend: BaseBackend, suite: PHQ8Suite | None = None) -> BenchmarkResult:
    chosen = suite or PHQ8Suite(SuiteConfig(n_synthetic=200))
    return Benchmark(chosen, backend, execution=Execution(baselines=True)).run()


@pytest.fixture(scope="module")
def perfect() -> BenchmarkResult:
    return run(PerfectReader())


@pytest.fixture(scope="module")
def zero() -> BenchmarkResult:
    return run(AlwaysZero())


def test_a_perfect_reader_that_defers_is_above_every_baseline_in_the_headline(
    perfect: BenchmarkResult,
) -> None:
    names = ["rule/always-0", "majority", "lexicon", "always-abstain"]
    assert list(perfect.baselines) == [*names, "ideal"]
    leading = next(iter(perfect.metric_scores.values()))
    others = {name: scores["decision_skill"].value for name, scores in perfect.baselines.items()}
    assert leading.key == "decision_skill"
    assert others.pop("ideal") == pytest.approx(1.0)
    assert leading.value > 0.98
    assert max(others.values()) < leading.interval.low
    assert perfect.metric_scores["right_decisions"].value == 1.0
    # Plain accuracy has it the other way round, which is why it is not the headline.
    accuracy = perfect.metric_scores["accuracy"].value
    assert perfect.baselines["rule/always-0"]["accuracy"].value > accuracy
    document = perfect.document()
    assert line_of(document, "Decision Skill")["n"] == leading.n_evaluated
    for name, value in {"this run": leading.value, **others}.items():
        assert line_of(document, name)["Decision Skill"] == value


def test_answers_with_and_without_evidence_are_counted_apart(
    perfect: BenchmarkResult, zero: BenchmarkResult
) -> None:
    rows = zero.evaluation_results
    shown = [row for row in rows if not row.metadata["should_abstain"]]
    share = sum(row.ground_truth == 0 for row in shown) / len(shown)
    assert zero.metric_scores["answerable_accuracy"].value == pytest.approx(share)
    assert zero.metric_scores["inappropriate_answer_rate"].value == 1.0
    assert zero.metric_scores["quadratic_weighted_kappa"].value == 0.0
    assert perfect.metric_scores["answerable_accuracy"].value == 1.0
    assert perfect.metric_scores["inappropriate_answer_rate"].value == 0.0
    assert set(perfect.metric_scores["mean_absolute_error"].breakdown.values()) == {0.0}
    assert len(perfect.metric_scores["mean_absolute_error"].breakdown) == 8


def test_totals_of_a_perfect_reader_are_unbiased_and_say_how_many_reach_the_cut_off(
    perfect: BenchmarkResult,
) -> None:
    bias = perfect.metric_scores["total_bias"]
    assert bias.interval.low <= 0 <= bias.interval.high
    n_people = len({row.cluster_id for row in perfect.evaluation_results})
    assert bias.n_evaluated < bias.details["n_totals_due"] == n_people
    reached = bias.details["n_positive"]
    told = [line for line in said(perfect.document()).splitlines() if "truly reach 10" in line]
    # What three figures have in common is said once, and each side of the cut-off for itself.
    assert [line.split(":")[0] for line in told] == [
        "Total MAE, Total Bias, Total Correlation",
        "Screening Sensitivity",
        "Screening Specificity",
    ]
    assert told[0].endswith(f"{reached} of {n_people} truly reach 10")


def test_runs_side_by_side_begin_with_the_headline(
    perfect: BenchmarkResult, zero: BenchmarkResult
) -> None:
    table = side_by_side({"zero": zero, "perfect": perfect})
    assert [column.key for column in table.columns] == [
        *("decision_skill", "cost_saved", "decision_cost", "deferral_skill"),
        *("right_decisions", "answerable_accuracy", "inappropriate_answer_rate"),
        *("quadratic_weighted_kappa", "total_mae", "total_bias", "screening_sensitivity"),
        "answer_rate",
    ]
    assert table.columns[0].key == "decision_skill"
    best, *_ = best_first(table.entries, table.columns[0])
    assert best.name == "perfect"
    assert best.cells["decision_skill"].value == perfect.metric_scores["decision_skill"].value


def test_a_comparison_tests_the_headline_and_describes_what_the_task_names_beside_it(
    perfect: BenchmarkResult, zero: BenchmarkResult
) -> None:
    runs, options = {"zero": zero, "perfect": perfect}, CompareOptions(n_permutations=199)
    comparison = compare_runs(runs, options)
    deltas = comparison.pairs[0].deltas
    named = perfect.provenance.task_facts.metrics
    assert deltas["decision_skill"].delta > 0.3
    assert deltas["decision_cost"].verdict() == "better"
    assert deltas["quadratic_weighted_kappa"].delta == pytest.approx(1)
    assert deltas["quadratic_weighted_kappa"].interval.low > 0
    beside = [key for key in named if key != "decision_cost"]
    for key in beside:
        assert math.isnan(deltas[key].p_value)
        assert deltas[key].verdict() in ("not tested", "not comparable")
    assert not set(beside) & comparison.tied_with_best().keys()
    words = said(comparison.document())
    assert "Not tested: Decision Skill, " in words
    assert [key for key, one in deltas.items() if one.test] == ["decision_cost"]
    plain = replace(options, metrics=[key for key, one in deltas.items() if one.test])
    alone = compare_runs(runs, plain).pairs[0].deltas
    assert all(one.p_adjusted == deltas[key].p_adjusted for key, one in alone.items())
    asked = compare_runs(runs, replace(options, primary="total_mae")).pairs[0].deltas
    assert asked["total_mae"].verdict() == "better"
    both = compare_runs(runs, replace(options, metrics=["total_mae", "right_decisions"]))
    assert all(one.test for one in both.pairs[0].deltas.values())


def test_without_an_ideal_reader_every_score_right_saves_the_whole_constant_cost(
    tmp_path: Path,
) -> None:
    interviews = synthetic_interviews(12, seed=1, withheld_rate=0.0)
    write_directory(tmp_path / "own", interviews)
    own = run(PerfectReader(), PHQ8Suite(data=tmp_path / "own", split="all"))
    leading = next(iter(own.metric_scores.values()))
    assert (leading.key, leading.value) == ("cost_saved", pytest.approx(100 * TASK.costs.price))
    assert own.metric_scores["quadratic_weighted_kappa"].value == 1.0
    assert "right_decisions" not in own.metric_scores


def test_tasks_that_name_no_headline_have_none(perfect: BenchmarkResult) -> None:
    facts = replace(perfect.provenance.task_facts, metrics=())
    plain = BenchmarkResult.from_dict(perfect.to_dict())
    plain.provenance = replace(perfect.provenance, task_facts=facts)
    assert headline(plain) is None
    assert "accuracy" in {column.key for column in side_by_side({"plain": plain}).columns}


def test_baselines_are_shown_by_the_metrics_that_a_run_was_scored_with() -> None:
    suite, metrics = PHQ8Suite(SuiteConfig(n_synthetic=10)), [TotalBias(missing="zero")]
    result = Benchmark(suite, AlwaysZero(), metrics, execution=Execution(baselines=True)).run()
    cells = line_of(result.document(), "rule/always-0")
    assert cells == {
        "model": "rule/always-0",
        "Total Bias [missing=zero]": metrics[0](result.rows).value,
    }


def test_whether_there_is_a_brier_score_does_not_depend_on_the_labels_drawn(
    perfect: BenchmarkResult,
) -> None:
    drawn = [row for row in perfect.rows if row.ground_truth in (0, 1)]
    score = BrierScore()(Rows(drawn, perfect.rows.answers))
    assert math.isnan(score.value)
    assert score.details["reason"] == perfect.metric_scores["brier_score"].details["reason"]
