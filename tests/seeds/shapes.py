"""The shapes that the seeds publish: names, parameters, fields, and what an own class needs."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.seeds.checks import DETECTION, agree, cases, check, command, refusal

import krisis.selective_prediction as sp
from krisis.backends.anthropic import AnthropicBackend
from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.gemini import GeminiBackend
from krisis.backends.grok import GrokBackend
from krisis.backends.openai import OpenAIBackend
from krisis.benchmark import Benchmark
from krisis.data.base import BaseDataSuite, PatientRecord, RecordListSuite, SuiteConfig
from krisis.data.ckd.suite import CKDSuite
from krisis.metrics import abstention, accuracy, calibration
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore
from krisis.results.report import format_report
from krisis.results.result import BenchmarkResult


@check
def the_parameters_of_a_benchmark(folder: Path) -> None:
    found = inspect.signature(Benchmark).parameters
    assert list(found)[:5] == ["suite", "backend", "metrics", "batch_size", "max_concurrency"]
    empty = inspect.Parameter.empty
    assert [found[name].default for name in list(found)[:5]] == [empty, empty, None, 8, 1]
    run = inspect.signature(Benchmark.run).parameters
    assert run["records"].default is run["suite_description"].default is None
    assert run["suite_description"].kind is inspect.Parameter.KEYWORD_ONLY


FIELDS = {
    PatientRecord: "features label metadata",
    BackendResponse: "prediction abstained confidence raw_response prompt prompt_mode "
    "input_tokens output_tokens total_tokens",
    EvaluationResult: "prediction ground_truth abstained confidence raw_response prompt "
    "prompt_mode metadata",
    MetricScore: "name value breakdown n_evaluated n_abstained details",
    BenchmarkResult: "evaluation_results metric_scores suite_description backend_name extras",
}


@check
def the_fields_of_the_objects(folder: Path) -> None:
    for kind, names in FIELDS.items():
        found = list(inspect.signature(kind).parameters)
        assert found[: len(names.split())] == names.split(), f"{kind.__name__}: {found}"
    record = PatientRecord(
        features={"sc": 2.4, "hemo": 10.1, "htn": 1},
        label=0,
        metadata={"ckd_stage": 3, "egfr": 42.1, "should_abstain": False},
    )
    assert (record.label, record.metadata["egfr"]) == (0, 42.1)
    assert EvaluationResult(1, 1).confidence is None
    for number in (1.2, -0.1):
        said = refusal(lambda number=number: EvaluationResult(1, 1, confidence=number))
        assert "between 0 and 1" in said, f"a confidence of {number}: {said!r}"


class MyMetric(BaseMetric):
    """The metric that a seed writes."""

    name = "My Metric"

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        return MetricScore(self.name, float(len(results)), n_evaluated=len(results))


class Rule(BaseBackend):
    """Answers 1, and states only a total of tokens."""

    name = "rule"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(1, confidence=0.8, total_tokens=7)


@check
def a_metric_of_ones_own(folder: Path) -> None:
    assert MyMetric()([EvaluationResult(1, 1)]).value == 1.0
    run = Benchmark(RecordListSuite(cases(3), DETECTION), Rule(), [MyMetric()]).run()
    assert list(run.metric_scores) == ["My Metric"]
    assert run.metric_scores["My Metric"].value == 3.0
    empty = type("Empty", (BaseMetric,), {"name": "Empty"})
    assert inspect.isabstract(empty), "a metric without compute can be made"
    assert math.isnan(accuracy.Accuracy()([]).value)


@check
def which_way_a_metric_is_better(folder: Path) -> None:
    assert accuracy.Accuracy.direction == "higher"
    assert calibration.ExpectedCalibrationError.direction == "lower"
    assert calibration.BrierScore.direction == "lower"
    assert abstention.AbstentionRate.direction == "neither"


@check
def a_total_of_tokens_alone(folder: Path) -> None:
    run = Benchmark(RecordListSuite(cases(3), DETECTION), Rule()).run()
    agree(run.extras, {"token_total": 21, "input_tokens": None})


class MySuite(BaseDataSuite):
    """A suite that is only `load`."""

    def load(self) -> list[PatientRecord]:
        return cases(4)


@check
def a_suite_of_ones_own(folder: Path) -> None:
    suite = MySuite()
    assert suite.load() == cases(4)
    assert suite.describe()["n_records"] == 4
    run = Benchmark(suite, Rule()).run()
    assert [row.metadata for row in run.evaluation_results] == [r.metadata for r in cases(4)]
    assert run.suite_description["n_records"] == 4
    assert "Accuracy" in format_report(run)


@check
def the_records_that_are_given(folder: Path) -> None:
    suite = CKDSuite(SuiteConfig(n_synthetic=12))
    own, some = suite.describe(), suite.load()[:5]
    part = Benchmark(suite, Rule()).run(some)
    assert len(part.evaluation_results) == 5
    agree(part.suite_description, {"n_records": 5, "records": "given"})
    assert part.suite_description["content_hash"] != own["content_hash"]
    fewer = Benchmark(suite, Rule()).run(some[:4])
    assert fewer.suite_description != part.suite_description
    for run in (Benchmark(suite, Rule()).run(suite.load()), Benchmark(suite, Rule()).run()):
        assert run.suite_description == own
    told = Benchmark(suite, Rule()).run(some, suite_description={"suite": "mine"})
    assert told.suite_description == {"suite": "mine"}


class Saying(Rule):
    """Answers one label to every question."""

    def __init__(self, label: int | str) -> None:
        self.label = label

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(self.label, confidence=0.8)


@check
def the_brier_score_of_a_task(folder: Path) -> None:
    """It is undefined by the task, whichever labels were drawn."""
    for task, label in (("staging", 1), ("progression", "stable")):
        suite = CKDSuite(SuiteConfig(task=task, n_synthetic=5))
        records = [PatientRecord({"sc": 1 + i / 10}, label) for i in range(6)]
        run = Benchmark(suite, Saying(label)).run(records)
        loaded = BenchmarkResult.from_dict(json.loads(run.to_json()))
        scores = [run.metric_scores["Brier Score"], calibration.BrierScore()(loaded.rows)]
        for score in scores:
            agree(score.value, None, f"Brier score of {task}")
            assert score.details["reason"] == "non_binary_labels_or_predictions"
        brief = json.loads(run.metrics_to_json())["metric_scores"]
        assert brief["Brier Score"]["value"] is None


CAPS: dict[Any, str] = {
    OpenAIBackend: "max_completion_tokens",
    GrokBackend: "max_completion_tokens",
    AnthropicBackend: "max_tokens",
    GeminiBackend: "max_output_tokens",
}


@check
def the_settings_of_the_backends(folder: Path) -> None:
    retries = {"max_retries": 2, "retry_base_seconds": 0.1, "retry_max_seconds": 3.0}
    for kind, cap in CAPS.items():
        assert cap in inspect.signature(kind).parameters, f"{kind.__name__} has no {cap}"
        backend = kind("a-model", api_key="none", **{cap: 99}, **retries)
        assert {name: getattr(backend, name) for name in retries} == retries
    code, said = command(folder, "run", "ckd", "--max-output-tokens", "many")
    assert code == 2
    assert "--max-output-tokens takes a whole number" in said, said


SOURCE_OF_TRUTH = (
    *("compute_cmax", "compute_risk_coverage_curve", "compute_risk_at_coverage", "compute_loss"),
    *("bootstrap_by_participant", "paired_bootstrap_delta_by_participant", "compute_ece"),
    *("compute_binary_nll", "TemperatureScalingCalibrator", "LogisticCalibrator"),
    *("LinearCalibrator", "IsotonicCalibrator", "CalibratorFeatureExtractor", "parse_items"),
)


@check
def the_names_of_selective_prediction(folder: Path) -> None:
    for name in SOURCE_OF_TRUTH:
        assert name in sp.__all__, f"{name} is not published"
        assert callable(getattr(sp, name))
