"""What the documents that krisis was built from promise, tried claim by claim."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest
from sklearn.metrics import balanced_accuracy_score

from krisis import metrics as all_metrics
from krisis.backends.anthropic import AnthropicBackend
from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.gemini import GeminiBackend
from krisis.backends.grok import GrokBackend
from krisis.backends.openai import OpenAIBackend
from krisis.backends.scripted import ScriptedBackend
from krisis.benchmark import Benchmark
from krisis.data.base import BaseDataSuite, PatientRecord, RecordListSuite, SuiteConfig, Task
from krisis.data.ckd.suite import CKDSuite
from krisis.metrics import abstention, accuracy, calibration
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore
from krisis.results.account import EXECUTION_FIELDS, Spending
from krisis.results.call_totals import CallTotals
from krisis.results.report import format_json_report, format_metrics_json_report, format_report
from krisis.results.result import BenchmarkResult

RECORD = PatientRecord(
    features={"sc": 2.4, "hemo": 10.1, "htn": 1},
    label=0,
    metadata={"ckd_stage": 3, "egfr": 42.1, "should_abstain": False},
)
DETECTION = Task("detection", "Is it so?", {0: "ckd", 1: "not ckd"}, {}, "Abstain when unsure.")


class Rule(BaseBackend):
    """Answers 1 with confidence 0.8, and says 40 tokens where 10 and 5 were counted."""

    name = "rule"

    def __init__(self) -> None:
        self.batches: list[int] = []

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(
            prediction=1,
            abstained=False,
            confidence=0.8,
            raw_response="1",
            prompt="",
            prompt_mode="single",
            input_tokens=10,
            output_tokens=5,
            total_tokens=40,
        )

    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        self.batches.append(len(records))
        return super().evaluate_batch(records)


def cases(n: int, labels: Sequence[int | str] = (1,)) -> list[PatientRecord]:
    return [PatientRecord({"sc": 1 + i / 10}, labels[i % len(labels)]) for i in range(n)]


def asked(n: int = 20, backend: BaseBackend | None = None, **options: Any) -> BenchmarkResult:
    return Benchmark(RecordListSuite(cases(n)), backend or Rule(), **options).run()


def test_the_benchmark_has_the_promised_parameters_and_defaults() -> None:
    found = inspect.signature(Benchmark).parameters
    assert list(found)[:5] == ["suite", "backend", "metrics", "batch_size", "max_concurrency"]
    assert [found[name].default for name in list(found)[2:5]] == [None, 8, 1]
    run = inspect.signature(Benchmark.run).parameters
    assert run["records"].default is None
    assert run["suite_description"].default is None
    assert run["suite_description"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (PatientRecord, "features label metadata"),
        (BackendResponse, "prediction abstained confidence raw_response prompt prompt_mode"),
        (BackendResponse, "input_tokens output_tokens total_tokens"),
        (
            EvaluationResult,
            "prediction ground_truth abstained confidence raw_response prompt prompt_mode metadata",
        ),
        (MetricScore, "name value breakdown n_evaluated n_abstained details"),
        (
            BenchmarkResult,
            "evaluation_results metric_scores suite_description backend_name",
        ),
    ],
)
def test_the_objects_have_the_promised_fields(kind: Any, names: str) -> None:
    assert {field.name for field in fields(kind)} >= set(names.split())


def test_the_default_stack_has_the_promised_names_in_every_bundle() -> None:
    names = [metric.name for metric in all_metrics.default_benchmark_metrics()]
    expected = {
        accuracy.default_accuracy_metrics: {"Accuracy", "Balanced Accuracy"},
        calibration.default_calibration_metrics: {"Expected Calibration Error", "Brier Score"},
        abstention.default_abstention_metrics: {
            "Abstention Rate",
            "Answer Rate (Coverage)",
            "Selective Accuracy (answered only)",
            "Deferral Alignment",
        },
    }
    for bundle, promised in expected.items():
        assert {metric.name for metric in bundle()} >= promised
        assert promised <= set(names)
    assert names[:4] == [
        "Accuracy",
        "Balanced Accuracy",
        "Expected Calibration Error",
        "Brier Score",
    ]


def test_a_metric_of_three_lines_needs_nothing_else() -> None:
    class MyMetric(BaseMetric):
        name = "My Metric"

        def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
            return MetricScore(self.name, float(len(results)), n_evaluated=len(results))

    assert MyMetric()([EvaluationResult(1, 1)]).value == 1.0
    result = Benchmark(RecordListSuite(cases(3)), Rule(), [MyMetric()]).run()
    assert result.metric_scores["My Metric"].value == 3.0


ROWS = [
    EvaluationResult(1, 1, confidence=0.9, metadata={"should_abstain": False}),
    EvaluationResult(0, 1, confidence=0.6, metadata={"should_abstain": True}),
    EvaluationResult(None, 0, abstained=True, metadata={"should_abstain": True}),
    EvaluationResult(None, 0, metadata={"should_abstain": False}),
    EvaluationResult(None, 1, abstained=True, metadata={"should_abstain": False}),
]


@pytest.mark.parametrize(
    ("metric", "value", "n_evaluated"),
    [
        (accuracy.Accuracy(), 1 / 5, 5),
        (accuracy.Accuracy(treat_abstention_as_neutral=True), 1 / 3, 3),
        (accuracy.BalancedAccuracy(), balanced_accuracy_score([1, 1, 0, 0, 1], [1, 0, 1, 1, 0]), 5),
        (abstention.SelectiveAccuracy(), 1 / 3, 3),
        (abstention.AbstentionRate(), 2 / 5, 5),
        (abstention.AnswerRate(), 3 / 5, 5),
        (abstention.DeferralAlignment(), 3 / 5, 5),
        (calibration.ExpectedCalibrationError(), (0.1 + 0.6) / 2, 2),
        (calibration.BrierScore(), (0.1**2 + 0.6**2) / 2, 2),
    ],
)
def test_each_metric_by_hand(metric: BaseMetric, value: float, n_evaluated: int) -> None:
    score = metric(ROWS)
    assert (score.value, score.n_evaluated) == (pytest.approx(value), n_evaluated)
    assert score.n_abstained == 2


def test_the_four_cases_of_deferral_are_counted_by_name() -> None:
    details = abstention.DeferralAlignment()(ROWS).details
    assert details["confusion"] == {
        "defer_when_needed": 1,
        "answer_when_safe": 2,
        "answer_when_should_defer": 1,
        "abstain_when_should_answer": 1,
    }
    unlabelled = abstention.DeferralAlignment()([EvaluationResult(1, 1)])
    assert math.isnan(unlabelled.value)
    assert unlabelled.details["reason"] == "no_should_abstain_metadata"


class Saying(Rule):
    """Answers one label to every question."""

    def __init__(self, label: int | str) -> None:
        super().__init__()
        self.label = label

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(self.label, confidence=0.8)


@pytest.mark.parametrize(
    ("task", "labels"), [("staging", (1,)), ("staging", (1, 2)), ("progression", ("stable",))]
)
def test_brier_is_undefined_by_the_task_whatever_labels_were_drawn(
    task: str, labels: tuple[int | str, ...]
) -> None:
    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=5))
    result = Benchmark(suite, Saying(labels[0])).run(cases(6, labels))
    loaded = BenchmarkResult.from_dict(json.loads(result.to_json()))
    again = [calibration.BrierScore()(rows) for rows in (loaded.evaluation_results, loaded.rows)]
    for score in (result.metric_scores["Brier Score"], *again):
        assert math.isnan(score.value)
        assert score.details["reason"] == "non_binary_labels_or_predictions"
    assert json.loads(result.metrics_to_json())["metric_scores"]["Brier Score"]["value"] is None
    bare = calibration.BrierScore()([*loaded.evaluation_results])
    assert math.isnan(bare.value) == (labels != (1,))  # without a task, the labels must decide


def test_labels_of_progression_are_words_and_are_balanced() -> None:
    words = ["stable", "worsening", "improving", "stable"]
    rows = [EvaluationResult("stable", word) for word in words]
    assert accuracy.BalancedAccuracy()(rows).value == pytest.approx(1 / 3)


def test_execution_metadata_are_all_there_in_text_and_json() -> None:
    backend = Rule()
    result = asked(20, backend, batch_size=8, max_concurrency=2)
    extras = result.extras
    assert set(EXECUTION_FIELDS) <= set(extras)
    assert sorted(backend.batches) == [4, 8, 8]
    assert (extras["n_input_records"], extras["n_api_batches"]) == (20, 3)
    assert (extras["batch_size"], extras["max_concurrency"]) == (8, 2)
    assert extras["records_per_second"] == pytest.approx(20 / extras["elapsed_seconds"])
    text = format_report(result)
    for name in EXECUTION_FIELDS:
        assert f"\n  {name} " in text
        assert name in json.loads(format_json_report(result))["extras"]


def test_the_token_total_is_input_plus_output_and_another_total_keeps_its_name() -> None:
    extras = asked(4).extras
    assert (extras["input_tokens"], extras["output_tokens"], extras["token_total"]) == (40, 20, 60)
    assert extras["token_total_reported"] == 160
    assert asked(4).evaluation_results[0].total_tokens == 40
    took = Spending.of(CallTotals(), [EvaluationResult(1, 1, total_tokens=7)], elapsed_seconds=1.0)
    assert (took.token_total, took.token_total_reported) == (7, None)


def test_metrics_json_has_no_rows_and_bins_to_draw_calibration_from() -> None:
    result = asked(4)
    full, brief = map(json.loads, (format_json_report(result), format_metrics_json_report(result)))
    assert "evaluation_results" not in brief
    assert len(full["evaluation_results"]) == 4
    bins = brief["metric_scores"]["Expected Calibration Error"]["details"]["bins"]
    assert len(bins) == 15
    assert bins[12]["count"] == 4


def test_prompts_are_redacted_and_tell_single_calls_from_batches() -> None:
    def reply(request: Any) -> str:
        answer = {"abstained": False, "prediction": 1, "confidence": 0.7}
        many = [{"id": f"case_{i}", **answer} for i in range(request.n_records)]
        return json.dumps({"results": many} if request.mode == "batch" else answer)

    suite = RecordListSuite([PatientRecord({"sc": 7.25 + i}, 1) for i in range(3)], DETECTION)
    result = Benchmark(suite, ScriptedBackend(reply), batch_size=2).run()
    assert result.extras["prompt_modes"] == ["batch", "single"]
    assert [row.prompt_mode for row in result.evaluation_results] == ["batch", "batch", "single"]
    assert result.extras["prompt_data_policy"] == "redacted"
    assert result.extras["n_prompts_captured"] == 3
    assert result.extras["prompt_templates_count"] == 2
    for row in result.evaluation_results:
        assert row.prompt in result.extras["prompt_templates"]
        assert "7.25" not in row.prompt


def test_records_that_are_given_are_the_ones_counted_and_hashed() -> None:
    suite = CKDSuite(SuiteConfig(n_synthetic=12))
    own = suite.describe()
    some, all_of_them = suite.load()[:5], suite.load()
    part = Benchmark(suite, Rule()).run(some).suite_description
    assert (part["n_records"], part["records"]) == (5, "given")
    assert part["content_hash"] != own["content_hash"]
    assert Benchmark(suite, Rule()).run(some).suite_description == part
    assert Benchmark(suite, Rule()).run(some[:4]).suite_description != part
    assert Benchmark(suite, Rule()).run(all_of_them).suite_description == own
    assert Benchmark(suite, Rule()).run().suite_description == own
    told = Benchmark(suite, Rule()).run(some, suite_description={"suite": "mine"})
    assert told.suite_description == {"suite": "mine"}


@pytest.mark.parametrize(
    ("kind", "cap"),
    [
        (OpenAIBackend, "max_completion_tokens"),
        (GrokBackend, "max_completion_tokens"),
        (AnthropicBackend, "max_tokens"),
        (GeminiBackend, "max_output_tokens"),
    ],
)
def test_backends_take_their_cap_and_the_three_settings_of_retries(kind: Any, cap: str) -> None:
    retries = {"max_retries": 2, "retry_base_seconds": 0.1, "retry_max_seconds": 3.0}
    backend = kind("a-model", api_key="none", **{cap: 99}, **retries)
    assert {name: getattr(backend, name) for name in retries} == retries


def test_a_suite_is_load_and_describe() -> None:
    class MyClinicalSuite(BaseDataSuite):
        def load(self) -> list[PatientRecord]:
            return [RECORD]

    suite = MyClinicalSuite()
    assert suite.load() == [RECORD]
    assert suite.describe()["n_records"] == 1
    assert "Records: 1 loaded" in format_report(Benchmark(suite, Rule()).run())
