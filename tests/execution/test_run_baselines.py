"""Baselines are scored on the very records of a run and printed beside it."""

from __future__ import annotations

import numpy as np
from tests.invented_runs import edit_run

from krisis import Benchmark, SuiteConfig, registry
from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.baselines.constant import Majority
from krisis.backends.baselines.rules import Guideline
from krisis.benchmark import ask_baselines, baseline_scores
from krisis.data.base import Judgement, PatientRecord, RecordListSuite
from krisis.data.ckd.suite import CKDSuite
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.metrics import BootstrapOptions, usual_metrics
from krisis.metrics.base import Rows
from krisis.metrics.scoring import metrics_from_names
from krisis.pages.document import Table
from krisis.pages.verdict import verdict_of
from krisis.results.result import BenchmarkResult
from krisis.runs.load import list_runs, load_run
from krisis.verbs.decide import own_baselines


class Guess(BaseBackend):
    def evaluate(self, record):
        return BackendResponse(0)


def test_the_scores_are_those_of_a_run_of_the_baseline():
    suite = CKDSuite(SuiteConfig(task="staging", n_synthetic=20))
    found = baseline_scores(ask_baselines(suite, suite.load()).rows, usual_metrics())
    assert list(found) == list(suite.baselines)
    for name in suite.baselines:
        result = Benchmark(suite, registry.find("backends", name)()).run()
        for metric in found[name]:
            score, value = result.metric_scores[metric], found[name][metric].value
            assert value == score.value or (value != value and score.value != score.value)
            assert found[name][metric].n_evaluated == score.n_evaluated


def test_they_follow_the_limit_of_a_run_and_survive_its_file(tmp_path):
    suite = CKDSuite(SuiteConfig(n_synthetic=30))
    benchmark = Benchmark(suite, Guideline(), execution=Execution(baselines=True))
    result = benchmark.run(suite.load()[:7])
    assert result.baselines["majority"]["accuracy"].n_evaluated == 7
    assert result.extras["baselines"]["majority"]["Accuracy"]["n_evaluated"] == 7
    path = tmp_path / "result.json"
    result.save(path)
    assert BenchmarkResult.load(path).to_json() == result.to_json()
    document = BenchmarkResult.load(path).document()
    shown = document.section("baselines").parts[0]
    assert isinstance(shown, Table)
    others = [name for name in result.baselines if name != "guideline"]  # the run itself
    assert [cells[0] for cells in shown.rows] == ["this run", *others]
    rescored = result.scored(metrics_from_names(["brier_score"]), BootstrapOptions())
    assert "baselines" in {one.key for one in rescored.document().sections}
    unknown = result.scored(metrics_from_names(["mean_absolute_error"]), BootstrapOptions())
    assert "baselines" not in {one.key for one in unknown.document().sections}


def test_nothing_is_added_unless_asked_for():
    suite = CKDSuite(SuiteConfig(n_synthetic=5))
    assert "baselines" not in Benchmark(suite, Majority()).run().extras


def test_a_baseline_that_cannot_be_prepared_is_left_out():
    class Bare(RecordListSuite):
        baselines = ("majority", "always-abstain")

    suite = Bare([PatientRecord({"x": 1}, 0)])
    found = ask_baselines(suite, suite.load())
    assert list(found.rows) == ["always-abstain"]
    assert "add training_records() to it" in found.left_out["majority"]


def test_a_run_names_the_baselines_that_could_not_be_fitted_and_why(tmp_path):
    class Bare(RecordListSuite):
        baselines = ("majority",)

    execution = Execution(baselines=True, recorder=Recorder(tmp_path))
    result = Benchmark(Bare([PatientRecord({"x": 1}, 0)]), Guess(), execution=execution).run()
    (path,) = list_runs(tmp_path)
    for one in (result, load_run(path)):
        (part,) = one.document().section("baselines").parts
        (line,) = part.lines
        assert line == (
            "Left out: 'majority' is fitted on training records and the suite 'records' has none; "
            "add training_records() to it, or choose 'always-abstain'."
        )


def test_a_rule_with_a_confidence_that_cannot_be_used_is_left_out():
    class Percent(RecordListSuite):
        rules = {"percent": lambda features, context: Judgement(0, 80)}  # noqa: RUF012
        baselines = ("rule/percent",)

    found = ask_baselines(suite := Percent([PatientRecord({"x": 1}, 0)]), suite.load())
    assert found.rows == {}
    assert "'rule/percent' gives the confidence 80" in found.left_out["rule/percent"]


def test_a_suite_without_baselines_adds_nothing():
    suite = RecordListSuite([PatientRecord({"x": 1}, 0)])
    assert baseline_scores(ask_baselines(suite, suite.load()).rows, usual_metrics()) == {}


def test_the_answers_of_baselines_are_kept_in_the_run_and_the_verdict_with_them(tmp_path):
    suite = CKDSuite(SuiteConfig(n_synthetic=40))
    execution = Execution(baselines=True, recorder=Recorder(tmp_path))
    result = Benchmark(suite, Majority(), execution=execution).run()
    (path,) = list_runs(tmp_path)
    again = load_run(path)
    assert list(again.baseline_rows) == list(result.baseline_rows)
    for name, rows in result.baseline_rows.items():
        kept = again.baseline_rows[name]
        assert [
            (r.record_id, r.prediction, r.ground_truth, r.abstained, r.confidence) for r in kept
        ] == [(r.record_id, r.prediction, r.ground_truth, r.abstained, r.confidence) for r in rows]
    assert again.baseline_rows.get("nobody") is None
    for name, kept in again.baseline_rows.items():
        ours, built = kept.table, Rows(list(kept), kept.answers).table
        assert ours.record_ids == built.record_ids
        for column in ("truth", "prediction", "abstained", "confidence", "should_abstain"):
            np.testing.assert_array_equal(getattr(ours, column), getattr(built, column), name)
        assert set(kept.columns.signal_names()) <= {"own_probabilities"}
    assert verdict_of(again).to_dict() == verdict_of(result).to_dict()
    beside = own_baselines(path)
    assert set(beside) == set(result.baselines) - {result.backend_name}
    edit_run(path, "UPDATE baselines SET prediction = 1 - prediction WHERE id = 1")
    first = next(iter(result.baseline_rows))
    assert len(load_run(path).baseline_rows[first]) == len(result.baseline_rows[first]) - 1
    edit_run(path, "DELETE FROM baselines")
    assert own_baselines(path) == {}
    assert not load_run(path).baseline_rows
