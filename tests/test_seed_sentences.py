"""The documents that krisis was built from, sentence by sentence.

One line per checkable sentence, in our own words, grouped by document; each check can fail.
`test_seed_contract.py` tries the larger promises. A sentence that krisis meets in another way is in
`DIFFERENT`, with its reason.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from abc import ABC
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score
from tests.commands import krisis
from tests.confidence import phq8_run_files

import krisis.metrics as bundle
import krisis.selective_prediction as sp
from krisis.backends.anthropic import AnthropicBackend
from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.gemini import GeminiBackend
from krisis.backends.grok import GrokBackend
from krisis.backends.openai import OpenAIBackend
from krisis.backends.scripted import ScriptedBackend
from krisis.benchmark import Benchmark
from krisis.confidence.signals import SIGNALS
from krisis.confidence.variants import VARIANTS
from krisis.data.base import BaseDataSuite, PatientRecord, RecordListSuite, SuiteConfig, Task
from krisis.data.ckd.suite import CKDSuite
from krisis.metrics import abstention, accuracy, calibration
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore
from krisis.metrics.risk_coverage import optimal_curve, risk_coverage_curve
from krisis.results.report import format_json_report, format_metrics_json_report, format_report
from krisis.results.result import BenchmarkResult

Check = Callable[[], bool]
Sentence = tuple[str, Check]
close = math.isclose


# What the sentences speak of -------------------------------------------------------------------

ROWS = [
    EvaluationResult(1, 1, confidence=0.9, metadata={"should_abstain": False, "ckd_stage": 1}),
    EvaluationResult(0, 1, confidence=0.6, metadata={"should_abstain": True, "ckd_stage": 1}),
    EvaluationResult(None, 0, True, metadata={"should_abstain": True, "ckd_stage": 2}),
    EvaluationResult(None, 0, metadata={"should_abstain": False, "ckd_stage": 2}),
    EvaluationResult(None, 1, True, metadata={"should_abstain": False, "ckd_stage": 3}),
]
STAGES = [EvaluationResult(s, t, confidence=0.8) for s, t in ((1, 1), (2, 3), (5, 5), (4, 4))]
WORDS = [EvaluationResult("stable", w) for w in ("stable", "worsening", "improving", "stable")]
DETECTION = Task("detection", "Is it so?", {0: "ckd", 1: "not ckd"}, {}, "Abstain when unsure.")


def score(metric: BaseMetric, rows: Sequence[EvaluationResult] = ROWS) -> MetricScore:
    return metric(rows)


def value(metric: BaseMetric, rows: Sequence[EvaluationResult] = ROWS) -> float:
    return metric(rows).value


def names(metrics: Sequence[BaseMetric]) -> list[str]:
    return [metric.name for metric in metrics]


def answer(**fields: Any) -> str:
    return json.dumps({"abstained": False, "prediction": 1, "confidence": 0.7} | fields)


def replying(request: Any) -> str:
    """Answer every case; a batch of more than two is answered with broken JSON."""
    if request.mode == "single":
        return answer()
    if request.n_records > 2:
        return '{"results": ['
    many = [{"id": f"case_{i}", **json.loads(answer())} for i in range(request.n_records)]
    return json.dumps({"results": many})


def records(n: int) -> list[PatientRecord]:
    return [PatientRecord({"sc": 7.25 + i}, 1, {"should_abstain": False}) for i in range(n)]


@cache
def scripted() -> tuple[BenchmarkResult, list[Any]]:
    """Five records in batches of four, which the model cannot answer whole."""
    requests: list[Any] = []

    def script(request: Any) -> str:
        requests.append(request)
        return replying(request)

    backend = ScriptedBackend(script)
    suite = RecordListSuite(records(5), DETECTION)
    return Benchmark(suite, backend, batch_size=4, max_concurrency=2).run(), requests


def run_result() -> BenchmarkResult:
    return scripted()[0]


class Counting(BaseBackend):
    """Says how it was called, and states tokens."""

    name = "counting"

    def __init__(self) -> None:
        self.batches: list[int] = []

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(1, confidence=0.8, input_tokens=10, output_tokens=5)

    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        self.batches.append(len(records))
        return super().evaluate_batch(records)


@cache
def counted() -> tuple[BenchmarkResult, Counting]:
    backend = Counting()
    suite = RecordListSuite(records(20), DETECTION)
    return Benchmark(suite, backend, batch_size=8, max_concurrency=2).run(), backend


@cache
def as_json(form: str) -> Any:
    write = {"full": format_json_report, "metrics": format_metrics_json_report}[form]
    return json.loads(write(counted()[0]))


@cache
def ckd(task: str = "detection") -> CKDSuite:
    return CKDSuite(SuiteConfig(task=task, n_synthetic=300))


@cache
def ckd_records(task: str = "detection") -> list[PatientRecord]:
    return ckd(task).load()


def prompts_of(suite: BaseDataSuite, n: int) -> list[str]:
    """Return the texts that a chat model is sent about the first records of a suite."""
    sent: list[str] = []

    def script(request: Any) -> str:
        sent.append(f"{request.system}\n{request.user}")
        return json.dumps({"abstained": True, "prediction": None, "confidence": None})

    Benchmark(suite, ScriptedBackend(script), batch_size=1).run(suite.load()[:n])
    return sent


def is_unseen(key: str) -> bool:
    """Change one metadata field of every record: the prompts stay the same."""

    class Changed(BaseDataSuite):
        def __init__(self, changed: bool) -> None:
            super().__init__()
            self.changed = changed

        @property
        def task(self) -> Task:
            return DETECTION

        def load(self) -> list[PatientRecord]:
            flag = {key: self.changed}
            return [PatientRecord({"sc": 1.5}, int(self.changed), flag)]

    one, two = (prompts_of(Changed(changed), 1) for changed in (False, True))
    return one == two and len(one) == 1


@cache
def artifact(*options: str) -> Any:
    """Return what `krisis selective` writes about an invented run of 40 + 1 participants."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        modes = ("zero_shot", "few_shot")
        path.write_text(json.dumps(phq8_run_files.run_file(41, modes=modes)))
        words = ["--mode", "few_shot", *options] if "--mode" not in options else [*options]
        fast = ["--bootstrap-resamples", "200", "--json"]
        done = krisis("selective", str(path), *words, *fast, cwd=Path(folder))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def variant(name: str = "llm", *options: str) -> Any:
    found = artifact("--confidence", name, *options)["confidence_variants"]
    return found[name]


PAIRED = ("--mode", "zero_shot", "--mode", "few_shot")


@cache
def refusal(missing: str, wanted: str) -> str:
    """Return the sentence about a run whose items lack one signal."""
    with TemporaryDirectory() as folder:
        content = phq8_run_files.run_file(3)
        for one in content["experiments"][0]["results"]["results"]:
            for signals in one["item_signals"].values():
                if missing.endswith("=null"):
                    signals[missing.removesuffix("=null")] = None
                else:
                    del signals[missing]
        path = Path(folder) / "run.json"
        path.write_text(json.dumps(content))
        words = ["selective", str(path), "--confidence", wanted]
        done = krisis(*words, cwd=Path(folder))
        return done.stderr if done.returncode == 2 else ""


SIGNALS_OF_ITEM = {
    "llm_evidence_count": 2,
    "retrieval_similarity_mean": 0.5,
    "retrieval_similarity_max": 0.75,
    "verbalized_confidence": 4,
    "token_msp": 0.9,
    "token_pe": 0.25,
    "token_energy": -0.1,
    "consistency_modal_confidence": 0.8,
    "consistency_score_std": 0.6,
}


def confidence(name: str, **changed: float) -> float:
    """Return a confidence variant of one item by its rule."""
    signals = {key: np.array([one], float) for key, one in (SIGNALS_OF_ITEM | changed).items()}
    return float(VARIANTS[name].rule(signals)[0])


@cache
def items() -> list[sp.Item]:
    """Return ten items of five participants, two of them without a prediction, ties among them."""
    rows = [(2, 2, 3), (1, 3, 3), (0, 0, 2), (3, 2, 2), (1, 1, 2), (2, 0, 1), (0, 3, 1), (1, 1, 1)]
    made = [sp.Item(f"p{i // 2}", f"i{i % 2}", p, g, float(c)) for i, (p, g, c) in enumerate(rows)]
    return [*made, sp.Item("p4", "i0", None, 1), sp.Item("p4", "i1", None, 2)]


def area(heights: Sequence[float], coverage: Sequence[float], first: float) -> float:
    """Integrate by trapezoids with a first point at coverage 0, as a check of its own."""
    x, y = [0.0, *coverage], [first, *heights]
    return sum((x[i + 1] - x[i]) * (y[i + 1] + y[i]) / 2 for i in range(len(x) - 1))


def curve_of(loss: sp.LossName = "abs") -> Any:
    return sp.compute_risk_coverage_curve(items(), loss=loss)


LOSSES = [abs(i.pred - i.gt) for i in items() if i.pred is not None]
COVERAGES = (0.2, 0.5, 0.8)
RISKS = (2 / 2, 3 / 5, 8 / 8)  # sums of |pred - gt| over 2, 5 and 8 accepted items
GENERALIZED = (2 / 10, 3 / 10, 8 / 10)

# The sentences ---------------------------------------------------------------------------------

METRICS_PAGE: list[Sentence] = [
    ("accuracy is in the default stack", lambda: "Accuracy" in DEFAULT),
    ("balanced accuracy is in the default stack", lambda: "Balanced Accuracy" in DEFAULT),
    ("selective accuracy is in the stack and says answered only", lambda: SELECTIVE in DEFAULT),
    ("abstention rate is in the default stack", lambda: "Abstention Rate" in DEFAULT),
    ("answer rate is called coverage too", lambda: "Answer Rate (Coverage)" in DEFAULT),
    ("deferral alignment is in the default stack", lambda: "Deferral Alignment" in DEFAULT),
    ("ECE is in the default stack", lambda: "Expected Calibration Error" in DEFAULT),
    ("the Brier score is in the default stack", lambda: "Brier Score" in DEFAULT),
    ("metric results include n_evaluated", lambda: score(accuracy.Accuracy()).n_evaluated == 5),
    ("metric results include n_abstained", lambda: score(accuracy.Accuracy()).n_abstained == 2),
    (
        "the counts can differ by metric",
        lambda: score(abstention.SelectiveAccuracy()).n_evaluated == 3,
    ),
    ("accuracy evaluates all rows", lambda: close(value(accuracy.Accuracy()), 1 / 5)),
    (
        "selective accuracy evaluates answered rows",
        lambda: close(value(abstention.SelectiveAccuracy()), 1 / 3),
    ),
    (
        "calibration evaluates answered rows with a confidence",
        lambda: score(calibration.ExpectedCalibrationError()).n_evaluated == 2,
    ),
    (
        "Brier is nan where labels are not binary",
        lambda: math.isnan(value(calibration.BrierScore(), STAGES)),
    ),
    (
        "an abstention counts as incorrect in accuracy",
        lambda: value(accuracy.Accuracy(), [EvaluationResult(None, 1, True)]) == 0,
    ),
    (
        "balanced accuracy averages recall over labels",
        lambda: close(
            value(accuracy.BalancedAccuracy(), WORDS),
            balanced_accuracy_score(["s", "w", "i", "s"], ["s"] * 4),
        ),
    ),
    (
        "abstention rate = abstained / all",
        lambda: close(value(abstention.AbstentionRate()), 2 / 5),
    ),
    ("answer rate = answered / all", lambda: close(value(abstention.AnswerRate()), 3 / 5)),
    (
        "abstaining when it is due is not punished by deferral alignment",
        lambda: value(abstention.DeferralAlignment(), ROWS[2:3]) == 1,
    ),
    ("deferral alignment compares with should_abstain", lambda: close(ALIGNMENT.value, 3 / 5)),
    ("defer_when_needed is counted", lambda: CONFUSION["defer_when_needed"] == 1),
    ("answer_when_safe is counted", lambda: CONFUSION["answer_when_safe"] == 2),
    ("answer_when_should_defer is counted", lambda: CONFUSION["answer_when_should_defer"] == 1),
    (
        "abstain_when_should_answer is counted",
        lambda: CONFUSION["abstain_when_should_answer"] == 1,
    ),
    (
        "CKD marks eGFR close to a threshold",
        lambda: any(r.metadata["near_threshold"] for r in ckd_records("staging")),
    ),
    (
        "CKD marks labels that conflict with the stage",
        lambda: all("label_conflicts_with_stage" in r.metadata for r in ckd_records()),
    ),
    (
        "CKD marks ambiguous trajectories",
        lambda: any(r.metadata["ambiguous_trajectory"] for r in ckd_records("progression")),
    ),
    ("the model does not see should_abstain", lambda: is_unseen("should_abstain")),
    (
        "ECE compares confidence with correctness",
        lambda: close(value(calibration.ExpectedCalibrationError()), (0.1 + 0.6) / 2),
    ),
    (
        "80 % confidence with 80 % right answers has no error",
        lambda: close(
            value(
                calibration.ExpectedCalibrationError(),
                [EvaluationResult(int(i < 4), 1, confidence=0.8) for i in range(5)],
            ),
            0,
            abs_tol=1e-12,
        ),
    ),
    (
        "bins are stored in JSON so that calibration can be plotted",
        lambda: len(ECE_JSON["details"]["bins"]) == 15,
    ),
    (
        "Brier is the squared error between confidence and correctness",
        lambda: close(value(calibration.BrierScore()), (0.1**2 + 0.6**2) / 2),
    ),
    (
        "Brier is null in JSON where it is not defined",
        lambda: (
            json.loads(staged().metrics_to_json())["metric_scores"]["Brier Score"]["value"] is None
        ),
    ),
    (
        "confidence is taken as the model reports it",
        lambda: {row.confidence for row in run_result().evaluation_results} == {0.7},
    ),
    ("a comparison has elapsed seconds", lambda: counted()[0].extras["elapsed_seconds"] > 0),
    ("a comparison has the token total", lambda: counted()[0].extras["token_total"] == 300),
]

CONCEPTS_PAGE: list[Sentence] = [
    ("a record has features", lambda: PatientRecord({"sc": 2.4}, 0).features == {"sc": 2.4}),
    ("a record has a label", lambda: PatientRecord({"sc": 2.4}, 0).label == 0),
    (
        "a record has metadata",
        lambda: PatientRecord({}, 0, {"ckd_stage": 3}).metadata["ckd_stage"] == 3,
    ),
    ("features are visible to the model", lambda: "7.25" in sent(RecordListSuite(records(1)))),
    ("the label is not visible to the model", lambda: is_unseen("any")),
    ("metadata are not visible to the model", lambda: is_unseen("egfr")),
    ("metadata have the stage", lambda: all("ckd_stage" in r.metadata for r in ckd_records())),
    ("metadata have the eGFR", lambda: all("egfr" in r.metadata for r in ckd_records())),
    ("metadata have the sex", lambda: all("sex" in r.metadata for r in ckd_records())),
    (
        "metadata have deferral labels",
        lambda: all("should_abstain" in r.metadata for r in ckd_records()),
    ),
    ("a suite returns PatientRecords", lambda: isinstance(ckd_records()[0], PatientRecord)),
    ("a suite can be described", lambda: ckd().describe()["n_records"] == 300),
    ("synthetic records can be generated", lambda: ckd().describe()["n_synthetic"] == 300),
    (
        "a response has prediction to total_tokens",
        lambda: fields_of(BackendResponse) >= RESPONSE_FIELDS,
    ),
    (
        "the stored prompt has patient data redacted",
        lambda: not any("7.25" in row.prompt for row in run_result().evaluation_results),
    ),
    (
        "prompt_mode is batch for batched calls and single for one-row calls",
        lambda: run_result().extras["prompt_modes"] == ["batch", "single"],
    ),
    ("OpenAI has a backend", lambda: issubclass(OpenAIBackend, BaseBackend)),
    ("Anthropic has a backend", lambda: issubclass(AnthropicBackend, BaseBackend)),
    ("Grok has a backend", lambda: issubclass(GrokBackend, BaseBackend)),
    ("Gemini has a backend", lambda: issubclass(GeminiBackend, BaseBackend)),
    (
        "the benchmark loads records from the suite",
        lambda: len(counted()[0].evaluation_results) == 20,
    ),
    ("records are batched", lambda: sorted(counted()[1].batches) == [4, 8, 8]),
    ("transient failures are retried", lambda: retried() == (3, 1)),
    ("a malformed batch is shrunk", lambda: run_result().spending.n_batch_splits == 1),
    (
        "a batch that stays malformed ends in single calls",
        lambda: [r.mode for r in batches_of_broken()].count("single") == 4,
    ),
    ("shrinking loses no record", lambda: run_result().attrition.n_answered == 5),
    (
        "the run returns a BenchmarkResult with rows and scores",
        lambda: len(counted()[0].metric_scores) >= 8,
    ),
    ("metrics work on rows alone", lambda: close(value(accuracy.Accuracy()), 0.2)),
    ("a report is compact text", lambda: "Accuracy" in format_report(counted()[0])),
    ("a report is full JSON", lambda: len(as_json("full")["evaluation_results"]) == 20),
    (
        "a report is metrics-only JSON",
        lambda: (
            "evaluation_results" not in as_json("metrics") and "metric_scores" in as_json("metrics")
        ),
    ),
]

API_PAGE: list[Sentence] = [
    ("BaseMetric is an abstract base class", lambda: issubclass(BaseMetric, ABC)),
    ("compute is abstract", lambda: inspect.isabstract(BaseMetric)),
    ("a metric without compute and form cannot be made", lambda: cannot_be_made() is True),
    ("a new metric inherits and implements compute, nothing else", lambda: own_metric() == 3.0),
    ("calling a metric is computing it", lambda: value(accuracy.Accuracy()) == COMPUTED.value),
    (
        "calling it on nothing is computing it on nothing",
        lambda: math.isnan(accuracy.Accuracy()([]).value),
    ),
    ("a row has the promised fields", lambda: fields_of(EvaluationResult) >= ROW_FIELDS),
    ("a score has the promised fields", lambda: fields_of(MetricScore) >= SCORE_FIELDS),
    ("a detection answer is 0 or 1", lambda: {r.label for r in ckd_records()} == {0, 1}),
    (
        "a stage is an integer from 1 to 5",
        lambda: {r.label for r in ckd_records("staging")} == {1, 2, 3, 4, 5},
    ),
    (
        "a course is a direction in words",
        lambda: (
            {r.label for r in ckd_records("progression")} == {"stable", "worsening", "improving"}
        ),
    ),
    ("confidence lies in [0, 1]", lambda: refuses_confidence(1.2) and refuses_confidence(-0.1)),
    ("confidence is optional", lambda: EvaluationResult(1, 1).confidence is None),
    (
        "the raw response is kept",
        lambda: json.loads(run_result().evaluation_results[4].raw_response)["prediction"] == 1,
    ),
    (
        "metadata pass through to the rows",
        lambda: run_result().evaluation_results[0].metadata["should_abstain"] is False,
    ),
    (
        "abstentions are scored apart from wrong answers",
        lambda: value(abstention.SelectiveAccuracy(), [ROWS[0], ROWS[2]]) == 1.0,
    ),
    ("a score has a breakdown by stage", lambda: BREAKDOWN["stage_1"] == 0.5),
    ("accuracy is better when higher", lambda: accuracy.Accuracy.direction == "higher"),
    ("ECE is better when lower", lambda: calibration.ExpectedCalibrationError.direction == "lower"),
    (
        "abstention rate depends on context",
        lambda: abstention.AbstentionRate.direction == "neither",
    ),
    (
        "n_abstained is reported by every metric",
        lambda: {score(m).n_abstained for m in bundle.default_benchmark_metrics()} == {2},
    ),
    (
        "abstentions can be neutral in accuracy",
        lambda: close(value(accuracy.Accuracy(treat_abstention_as_neutral=True)), 1 / 3),
    ),
    (
        "neutral accuracy still reports n_abstained",
        lambda: score(accuracy.Accuracy(treat_abstention_as_neutral=True)).n_abstained == 2,
    ),
    (
        "balanced accuracy is sklearn's, abstentions encoded as wrong",
        lambda: close(
            value(accuracy.BalancedAccuracy()),
            balanced_accuracy_score([1, 1, 0, 0, 1], [1, 0, 1, 1, 0]),
        ),
    ),
    (
        "a prediction that is no whole number is wrong in an integer task",
        lambda: value(accuracy.Accuracy(), [EvaluationResult(1.5, 1)]) == 0,  # type: ignore[arg-type]
    ),
    ("labels may be words", lambda: close(value(accuracy.BalancedAccuracy(), WORDS), 1 / 3)),
    (
        "default_accuracy_metrics is the accuracy bundle",
        lambda: (
            {"Accuracy", "Balanced Accuracy"} <= set(names(accuracy.default_accuracy_metrics()))
        ),
    ),
    (
        "a None that is no abstention is wrong in selective accuracy",
        lambda: value(abstention.SelectiveAccuracy(), [EvaluationResult(None, 1)]) == 0,
    ),
    (
        "without should_abstain alignment is NaN with a reason",
        lambda: (
            UNLABELLED.details["reason"] == "no_should_abstain_metadata"
            and math.isnan(UNLABELLED.value)
        ),
    ),
    (
        "alignment is over labelled rows only",
        lambda: (
            score(abstention.DeferralAlignment(), [*ROWS, EvaluationResult(1, 1)]).n_evaluated == 5
        ),
    ),
    (
        "default_abstention_metrics has the four figures of safety",
        lambda: (
            {"Abstention Rate", "Answer Rate (Coverage)", SELECTIVE, "Deferral Alignment"}
            <= set(names(abstention.default_abstention_metrics()))
        ),
    ),
    (
        "abstentions are left out of calibration",
        lambda: score(calibration.ExpectedCalibrationError(), ROWS[:3]).n_evaluated == 2,
    ),
    (
        "ECE bins have equal width",
        lambda: ECE_JSON["details"]["bins"][12]["count"] == 20,  # 0.8 is in [12/15, 13/15)
    ),
    (
        "ECE weighs the gap by the size of the bin",
        lambda: close(
            value(
                calibration.ExpectedCalibrationError(),
                [EvaluationResult(1, 1, confidence=c) for c in (0.9, 0.9, 0.9, 0.5)],
            ),
            (3 * 0.1 + 0.5) / 4,
        ),
    ),
    (
        "ECE is NaN where nothing has a confidence",
        lambda: math.isnan(value(calibration.ExpectedCalibrationError(), WORDS)),
    ),
    (
        "Brier uses 1 - confidence for the answer 0",
        lambda: close(
            value(calibration.BrierScore(), [EvaluationResult(0, 1, confidence=0.7)]), 0.49
        ),
    ),
    (
        "one row outside the binary setting makes Brier NaN",
        lambda: math.isnan(value(calibration.BrierScore(), [*ROWS[:2], STAGES[1]])),
    ),
    (
        "default_calibration_metrics has ECE and Brier",
        lambda: (
            names(calibration.default_calibration_metrics())[:2]
            == ["Expected Calibration Error", "Brier Score"]
        ),
    ),
    (
        "the full stack begins with accuracy and calibration, then abstention and deferral",
        lambda: (
            DEFAULT[:4]
            == ["Accuracy", "Balanced Accuracy", "Expected Calibration Error", "Brier Score"]
        ),
    ),
]

BENCHMARK_PAGE: list[Sentence] = [
    (
        "suite and backend are required",
        lambda: [REQUIRED(n) for n in ("suite", "backend")] == [True] * 2,
    ),
    ("metrics default to None", lambda: PARAMETERS["metrics"].default is None),
    ("None uses the default bundle", lambda: set(DEFAULT[:8]) <= set(counted()[0].metric_scores)),
    ("batch_size defaults to 8", lambda: PARAMETERS["batch_size"].default == 8),
    ("max_concurrency defaults to 1", lambda: PARAMETERS["max_concurrency"].default == 1),
    (
        "a custom metric list replaces the bundle",
        lambda: list(own_result().metric_scores) == ["Mine"],
    ),
    ("one call asks about batch_size records", lambda: max(counted()[1].batches) == 8),
    ("at most max_concurrency calls at once", lambda: most_at_once() == 2),
    (
        "the cap of OpenAI is max_completion_tokens",
        lambda: "max_completion_tokens" in inspect.signature(OpenAIBackend).parameters,
    ),
    (
        "the cap of Anthropic is max_tokens",
        lambda: "max_tokens" in inspect.signature(AnthropicBackend).parameters,
    ),
    (
        "the cap of Gemini is max_output_tokens",
        lambda: "max_output_tokens" in inspect.signature(GeminiBackend).parameters,
    ),
    (
        "--max-output-tokens is an option of the command",
        lambda: "--max-output-tokens" in run_help(),
    ),
    ("batches go through evaluate_batch", lambda: len(counted()[1].batches) == 3),
    (
        "malformed batched JSON does not fail the run",
        lambda: run_result().attrition.n_answered == 5,
    ),
    (
        "a batch is split in halves again and again",
        lambda: sorted(r.n_records for r in batches_of_broken()) == [1, 1, 1, 1, 2, 2, 4],
    ),
    ("max_retries is set on the backend", lambda: retrying().max_retries == 2),
    ("retry_base_seconds is set on the backend", lambda: retrying().retry_base_seconds == 0.1),
    ("retry_max_seconds is set on the backend", lambda: retrying().retry_max_seconds == 3.0),
    ("extras have batch_size", lambda: EXTRAS()["batch_size"] == 8),
    ("extras have max_concurrency", lambda: EXTRAS()["max_concurrency"] == 2),
    ("extras have n_input_records", lambda: EXTRAS()["n_input_records"] == 20),
    ("extras have n_api_batches, as planned", lambda: EXTRAS()["n_api_batches"] == 3),
    ("extras have elapsed_seconds", lambda: EXTRAS()["elapsed_seconds"] > 0),
    (
        "records_per_second is the throughput",
        lambda: close(EXTRAS()["records_per_second"], 20 / EXTRAS()["elapsed_seconds"]),
    ),
    ("extras have input_tokens", lambda: EXTRAS()["input_tokens"] == 200),
    ("extras have output_tokens", lambda: EXTRAS()["output_tokens"] == 100),
    ("token_total is input + output", lambda: EXTRAS()["token_total"] == 300),
    ("a total is taken where only a total is stated", lambda: only_total() == 7 * 3),
    ("extras have prompt_capture", lambda: bool(EXTRAS()["prompt_capture"])),
    (
        "extras have prompt_data_policy",
        lambda: run_result().extras["prompt_data_policy"] == "redacted",
    ),
    ("extras have prompt_modes", lambda: "batch" in run_result().extras["prompt_modes"]),
    ("extras have n_prompts_captured", lambda: run_result().extras["n_prompts_captured"] == 5),
    (
        "prompt_templates are deduplicated",
        lambda: (
            run_result().extras["prompt_templates_count"]
            == len(set(run_result().extras["prompt_templates"]))
            == len(run_result().extras["prompt_templates"])
        ),
    ),
    (
        "the fields are in the text report",
        lambda: "records_per_second" in format_report(counted()[0]),
    ),
    (
        "the fields are in the JSON report",
        lambda: as_json("full")["extras"]["n_api_batches"] == 3,
    ),
    (
        "a row has the redacted template it used",
        lambda: all(
            row.prompt in run_result().extras["prompt_templates"]
            for row in run_result().evaluation_results
        ),
    ),
    ("run takes records", lambda: RUN["records"].default is None),
    (
        "run takes suite_description by name",
        lambda: RUN["suite_description"].kind.name == "KEYWORD_ONLY",
    ),
    ("given records are the ones evaluated", lambda: len(given_records().evaluation_results) == 2),
    (
        "a given description is the one reported",
        lambda: given_records().suite_description == {"suite": "mine"},
    ),
    (
        "the description comes from the suite",
        lambda: counted()[0].suite_description["n_records"] == 20,
    ),
]

SELECTIVE_PAGE: list[Sentence] = [
    (
        "a unit is one item of one participant",
        lambda: artifact()["population"]["items_total"] == 320,
    ),
    (
        "a failed participant is counted",
        lambda: artifact()["population"]["participants_failed"] == 1,
    ),
    (
        "a failed participant is left out",
        lambda: artifact()["population"]["participants_included"] == 40,
    ),
    ("all participants are counted", lambda: artifact()["population"]["participants_total"] == 41),
    ("N is participants times eight", lambda: artifact()["population"]["items_total"] == 40 * 8),
    ("coverage = K / N", lambda: close(sp.compute_cmax(items()), 8 / 10)),
    ("Cmax is that coverage", lambda: close(curve_of().cmax, 8 / 10)),
    (
        "Cmax of a run is its predicted share",
        lambda: close(variant()["cmax"], artifact()["population"]["items_predicted"] / 320),
    ),
    ("llm is the evidence count", lambda: confidence("llm") == 2),
    (
        "total_evidence is an alias of llm",
        lambda: confidence("total_evidence") == confidence("llm"),
    ),
    ("retrieval_similarity_mean is itself", lambda: confidence("retrieval_similarity_mean") == 0.5),
    ("retrieval_similarity_max is itself", lambda: confidence("retrieval_similarity_max") == 0.75),
    (
        "a null similarity is 0",
        lambda: (
            SIGNALS["retrieval_similarity_mean"].null_means == 0.0
            and SIGNALS["retrieval_similarity_max"].null_means == 0.0
        ),
    ),
    (
        "hybrid_evidence_similarity weighs evidence and similarity equally",
        lambda: close(confidence("hybrid_evidence_similarity"), 0.5 * 2 / 3 + 0.5 * 0.5),
    ),
    (
        "evidence is cut at three",
        lambda: close(confidence("hybrid_evidence_similarity", llm_evidence_count=9), 0.75),
    ),
    ("verbalized is (v - 1) / 4", lambda: confidence("verbalized") == 0.75),
    (
        "a null verbalized confidence is the middle",
        lambda: confidence("verbalized", verbalized_confidence=SPOKEN_NULL) == 0.5,
    ),
    (
        "verbalized_calibrated needs --calibration",
        lambda: "--calibration" in needs("verbalized_calibrated"),
    ),
    (
        "hybrid_verbalized is .4 v + .3 e + .3 s",
        lambda: close(confidence("hybrid_verbalized"), 0.4 * 0.75 + 0.3 * 2 / 3 + 0.3 * 0.5),
    ),
    ("calibrated needs --calibration", lambda: "--calibration" in needs("calibrated")),
    ("token_msp is itself", lambda: confidence("token_msp") == 0.9),
    ("token_pe is 1 / (1 + entropy)", lambda: close(confidence("token_pe"), 0.8)),
    ("token_energy is its exponential", lambda: close(confidence("token_energy"), math.exp(-0.1))),
    (
        "secondary averages two variants",
        lambda: (
            "secondary:token_msp+retrieval_similarity_mean:average"
            in artifact("--confidence", "secondary:token_msp+retrieval_similarity_mean:average")[
                "confidence_variants"
            ]
        ),
    ),
    (
        "secondary multiplies two variants",
        lambda: variant("secondary:token_msp+token_pe:product")["cmax"] > 0,
    ),
    ("consistency is the modal share", lambda: confidence("consistency") == 0.8),
    (
        "consistency_inverse_std is 1 / (1 + sd)",
        lambda: close(confidence("consistency_inverse_std"), 0.625),
    ),
    (
        "hybrid_consistency is .4 c + .3 e + .3 s",
        lambda: close(confidence("hybrid_consistency"), 0.4 * 0.8 + 0.3 * 2 / 3 + 0.3 * 0.5),
    ),
    (
        "temperature scaling is sigmoid(logit(p) / T)",
        lambda: close(
            float(sp.TemperatureScalingCalibrator(temperature=2.0).predict(np.array([[0.8]]))[0]),
            1 / (1 + math.exp(-math.log(4) / 2)),
        ),
    ),
    ("a logistic calibrator is fitted on features", lambda: fitted(sp.LogisticCalibrator)),
    ("a linear calibrator is fitted on continuous targets", lambda: fitted(sp.LinearCalibrator)),
    ("an isotonic calibrator is monotone", lambda: fitted(sp.IsotonicCalibrator)),
    (
        "ECE is the weighted gap over bins",
        lambda: close(sp.compute_ece(np.array([0.9, 0.9]), np.array([1.0, 0.0])), 0.4),
    ),
    (
        "NLL is the log loss of correctness",
        lambda: close(
            sp.compute_binary_nll(np.array([0.8, 0.8]), np.array([1.0, 0.0])),
            -(math.log(0.8) + math.log(0.2)) / 2,
        ),
    ),
    (
        "missing features get conservative defaults",
        lambda: (
            sp.CalibratorFeatureExtractor(["llm_evidence_count", "token_pe"])
            .extract([{"token_pe": 0.5}, {"token_pe": None, "llm_evidence_count": 2}])
            .tolist()
            == [[0.0, 0.5], [2.0, 0.5]]
        ),
    ),
    (
        "a temperature is trained by a script",
        lambda: has_options("calibrate_verbalized_confidence.py"),
    ),
    ("a calibrator is trained by a script", lambda: has_options("train_confidence_calibrator.py")),
    (
        "a missing retrieval signal is a clear error",
        lambda: "retrieval_similarity_mean" in refusal(MEAN, MEAN),
    ),
    (
        "a missing verbalized confidence is a clear error",
        lambda: "verbalized_confidence" in refusal("verbalized_confidence", "verbalized"),
    ),
    (
        "a null token signal is a clear error",
        lambda: "token_msp" in refusal("token_msp=null", "token_msp"),
    ),
    (
        "a missing consistency signal is a clear error",
        lambda: "consistency" in refusal("consistency_modal_confidence", "consistency"),
    ),
    ("the loss abs is |pred - gt|", lambda: sp.compute_loss(items()[1], "abs") == 2),
    (
        "the loss abs_norm is a third of it",
        lambda: close(sp.compute_loss(items()[1], "abs_norm"), 2 / 3),
    ),
    (
        "a working point is a distinct confidence",
        lambda: curve_of().threshold.tolist() == [3.0, 2.0, 1.0],
    ),
    ("a plateau is added at once", lambda: curve_of().n_accepted.tolist() == [2, 5, 8]),
    ("coverage_j = k_j / N", lambda: np.allclose(curve_of().coverage, COVERAGES)),
    (
        "selective risk is the mean loss of the accepted",
        lambda: np.allclose(curve_of().selective_risk, RISKS),
    ),
    (
        "generalized risk divides by N",
        lambda: np.allclose(curve_of().generalized_risk, GENERALIZED),
    ),
    (
        "AURC is the area from the first risk at 0",
        lambda: close(curve_of().aurc(), area(RISKS, COVERAGES, RISKS[0])),
    ),
    (
        "AUGRC is the area from 0 at 0",
        lambda: close(curve_of().augrc(), area(GENERALIZED, COVERAGES, 0.0)),
    ),
    (
        "the optimal AURC ranks by loss",
        lambda: close(
            optimal_curve(LOSSES, 10).aurc(),
            risk_coverage_curve(sorted(LOSSES), range(8, 0, -1), 10).aurc(),
        ),
    ),
    (
        "the optimal AUGRC ranks by loss",
        lambda: close(
            optimal_curve(LOSSES, 10).augrc(),
            risk_coverage_curve(sorted(LOSSES), range(8, 0, -1), 10).augrc(),
        ),
    ),
    (
        "e-AURC = AURC - optimal",
        lambda: close(V()["eaurc"], V()["aurc_full"] - V()["aurc_optimal"]),
    ),
    (
        "e-AUGRC = AUGRC - optimal",
        lambda: close(V()["eaugrc"], V()["augrc_full"] - V()["augrc_optimal"]),
    ),
    (
        "aurc_gap_pct = 100 e-AURC / optimal",
        lambda: close(
            V()["interpretation"]["aurc_gap_pct"], 100 * V()["eaurc"] / V()["aurc_optimal"]
        ),
    ),
    (
        "augrc_gap_pct likewise",
        lambda: close(
            V()["interpretation"]["augrc_gap_pct"], 100 * V()["eaugrc"] / V()["augrc_optimal"]
        ),
    ),
    (
        "achievable_gain_pct is what the hull gains",
        lambda: close(
            V()["interpretation"]["achievable_gain_pct"],
            100 * (V()["aurc_full"] - V()["aurc_achievable"]) / V()["aurc_full"],
        ),
    ),
    (
        "the achievable AURC is no larger than the AURC",
        lambda: V()["aurc_achievable"] <= V()["aurc_full"],
    ),
    (
        "a truncated area lands exactly on C'",
        lambda: close(curve_of().aurc(0.35), area((1.0, 0.8), (0.2, 0.35), 1.0)),
    ),
    ("C' beyond Cmax is Cmax", lambda: close(curve_of().aurc(0.95), curve_of().aurc())),
    (
        "the used C' is stated",
        lambda: V()["aurc_at_c"]["requested"] == 0.5 and V()["aurc_at_c"]["used"] == 0.5,
    ),
    (
        "MAE@coverage is the risk of the first point that covers enough",
        lambda: close(sp.compute_risk_at_coverage(items(), 0.3, loss="abs") or 0, 0.6),
    ),
    ("MAE beyond Cmax is None", lambda: sp.compute_risk_at_coverage(items(), 0.9) is None),
    (
        "the achieved coverage is stated",
        lambda: V()["mae_at_coverage"]["0.10"]["achieved"] >= 0.1,
    ),
    (
        "participants are drawn with all their items",
        lambda: sp.bootstrap_by_participant(items(), whole_participants, n_resamples=50).low == 1.0,
    ),
    ("the bootstrap's seed is 42 and stated", lambda: V()["bootstrap"]["seed"] == 42),
    ("the number of resamples is stated", lambda: V()["bootstrap"]["n_resamples"] == 200),
    ("a delta is right minus left", lambda: close(delta().low, -0.2) and close(delta().high, -0.2)),
    (
        "a delta has the same participants on both sides",
        lambda: deltas()["llm"]["aurc_full"]["delta"] is not None,
    ),
    (
        "paired artifacts keep the flat counts of participants and items",
        lambda: (
            {k: v for k, v in paired()["population"].items() if "input" not in k}
            == {
                "participants_total": 41,
                "participants_included": 40,
                "participants_failed": 1,
                "items_total": 320,
            }
        ),
    ),
    ("schema_version is 1", lambda: artifact()["schema_version"] == "1"),
    ("created_at is in UTC", lambda: artifact()["created_at"].endswith("Z")),
    (
        "inputs have path, run_id, git_commit and mode",
        lambda: set(artifact()["inputs"][0]) == {"path", "run_id", "git_commit", "mode"},
    ),
    (
        "the loss is defined in the artifact",
        lambda: (
            artifact()["loss"]
            == {"name": "abs_norm", "definition": "abs(pred - gt) / 3", "raw_multiplier": 3}
        ),
    ),
    ("a variant has every published figure", lambda: set(V()) >= VARIANT_KEYS),
    (
        "ci95 has the Cmax and the AURC",
        lambda: {"cmax", "aurc_full"} <= set(V()["bootstrap"]["ci95"]),
    ),
    (
        "the curve has coverage, both risks and thresholds",
        lambda: (
            set(V()["curve"]) >= {"coverage", "selective_risk", "generalized_risk", "threshold"}
        ),
    ),
    (
        "a comparison of one input is not enabled",
        lambda: (
            artifact()["comparison"]["enabled"] is False
            and artifact()["comparison"]["deltas"] is None
        ),
    ),
    ("a comparison of two inputs is enabled", lambda: paired()["comparison"]["enabled"] is True),
    (
        "--confidence default is understood",
        lambda: "llm" in artifact("--confidence", "default")["confidence_variants"],
    ),
    ("--loss abs is understood", lambda: artifact("--loss", "abs")["loss"]["name"] == "abs"),
    (
        "the script of the evaluation is there",
        lambda: has_options("evaluate_selective_prediction.py"),
    ),
    ("the script that reproduces runs is there", lambda: has_options("reproduce_results.py")),
]

# Sentences that krisis meets in another way, on purpose.
DIFFERENT = {
    "Brier: any row outside {0, 1} gives NaN": "two answers of any name are binary",
    "failures are excluded (success=False)": "only where a whole participant failed, as the seed "
    "says; other failures are outcomes of their own and stay in the denominators",
    "the prompt states when to abstain": "the default prompt states a price, not the rules",
    "the UCI file is imputed": "by --preset v0.1; else missing stays missing",
    "sex is engineered": "unknown by default, engineered on request; --preset v0.1 engineers it",
    "scripts are run with uv": "they run with any Python that has krisis installed",
    "bootstrap intervals are percentiles": "by --interval-method percentile "
    "--rng legacy, bit for bit; the default covers better",
}

PAGES = {
    "metrics": METRICS_PAGE,
    "concepts": CONCEPTS_PAGE,
    "api": API_PAGE,
    "benchmark": BENCHMARK_PAGE,
    "selective": SELECTIVE_PAGE,
}


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{page}: {words}")
        for page, sentences in PAGES.items()
        for words, check in sentences
    ],
)
def test_a_sentence_of_the_seeds_holds(check: Check) -> None:
    assert check()


def test_no_sentence_is_listed_twice() -> None:
    for sentences in PAGES.values():
        words = [one for one, _ in sentences]
        assert len(words) == len(set(words))


# Parts of the checks ---------------------------------------------------------------------------

DEFAULT = names(bundle.default_benchmark_metrics())
SELECTIVE = "Selective Accuracy (answered only)"
ALIGNMENT = abstention.DeferralAlignment()(ROWS)
CONFUSION = ALIGNMENT.details["confusion"]
UNLABELLED = abstention.DeferralAlignment()([EvaluationResult(1, 1)])
COMPUTED = accuracy.Accuracy().compute(ROWS)
BREAKDOWN = accuracy.Accuracy()(ROWS).breakdown
ECE_JSON = as_json("metrics")["metric_scores"]["Expected Calibration Error"]
PARAMETERS = inspect.signature(Benchmark).parameters
RUN = inspect.signature(Benchmark.run).parameters
MEAN = "retrieval_similarity_mean"
SPOKEN_NULL = float(SIGNALS["verbalized_confidence"].null_means or 0)
RESPONSE_FIELDS = {
    "prediction",
    "abstained",
    "confidence",
    "raw_response",
    "prompt",
    "prompt_mode",
    "input_tokens",
    "output_tokens",
    "total_tokens",
}
ROW_FIELDS = {
    "prediction",
    "ground_truth",
    "abstained",
    "confidence",
    "raw_response",
    "prompt",
    "prompt_mode",
    "metadata",
}
SCORE_FIELDS = {"name", "value", "breakdown", "n_evaluated", "n_abstained", "details"}
VARIANT_KEYS = {
    *("cmax", "aurc_full", "augrc_full", "aurc_optimal", "augrc_optimal", "eaurc", "eaugrc"),
    *("aurc_achievable", "interpretation", "aurc_at_c", "augrc_at_c", "mae_at_coverage"),
    *("bootstrap", "curve"),
}
V = variant
SCRIPTS = Path(__file__).parents[1] / "scripts"


def REQUIRED(name: str) -> bool:
    return PARAMETERS[name].default is inspect.Parameter.empty


def EXTRAS() -> Any:
    return counted()[0].extras


def fields_of(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def sent(suite: BaseDataSuite) -> str:
    suite_with_task = RecordListSuite(suite.load(), DETECTION)
    return "\n".join(prompts_of(suite_with_task, 1))


@cache
def staged() -> BenchmarkResult:
    suite = CKDSuite(SuiteConfig(task="staging", n_synthetic=5))
    return Benchmark(suite, Counting()).run()


def retried() -> tuple[int, int]:
    """Return how often a record was asked that lost its connection twice, and how many answers."""
    calls = []

    class Flaky(Counting):
        retry_base_seconds = 0.001

        def evaluate(self, record: PatientRecord) -> BackendResponse:
            calls.append(1)
            if len(calls) < 3:
                raise ConnectionError("lost")
            return super().evaluate(record)

    result = Benchmark(RecordListSuite(records(1), DETECTION), Flaky()).run()
    return len(calls), result.attrition.n_answered


@cache
def batches_of_broken() -> list[Any]:
    """Return the requests about four records whose batches are never answered in JSON."""
    requests: list[Any] = []

    def script(request: Any) -> str:
        requests.append(request)
        return answer() if request.mode == "single" else "Certainly! Here are"

    backend = ScriptedBackend(script)
    Benchmark(RecordListSuite(records(4), DETECTION), backend, batch_size=4).run()
    return requests


def cannot_be_made() -> bool:
    kind = type("Empty", (BaseMetric,), {"name": "Empty"})
    with pytest.raises(TypeError, match="abstract"):
        kind()
    return True


class Mine(BaseMetric):
    name = "Mine"

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        return MetricScore(self.name, float(len(results)), n_evaluated=len(results))


@cache
def own_result() -> BenchmarkResult:
    return Benchmark(RecordListSuite(records(3), DETECTION), Counting(), [Mine()]).run()


def own_metric() -> float:
    return own_result().metric_scores["Mine"].value


def refuses_confidence(number: float) -> bool:
    with pytest.raises(ValueError, match="between 0 and 1"):
        EvaluationResult(1, 1, confidence=number)
    return True


@cache
def most_at_once() -> int:
    """Return the largest number of calls in flight at one time."""
    import asyncio

    now, most = [0], [0]

    async def script(request: Any) -> str:
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0.005)
        now[0] -= 1
        return replying(request)

    backend = ScriptedBackend(script)  # type: ignore[arg-type]
    suite = RecordListSuite(records(12), DETECTION)
    Benchmark(suite, backend, batch_size=2, max_concurrency=2).run()
    return most[0]


@cache
def run_help() -> str:
    with TemporaryDirectory() as folder:
        return krisis("run", "--help", cwd=Path(folder)).stdout


def retrying() -> BaseBackend:
    retries: dict[str, Any] = {
        "max_retries": 2,
        "retry_base_seconds": 0.1,
        "retry_max_seconds": 3.0,
    }
    return OpenAIBackend("a-model", api_key="none", **retries)


def only_total() -> int:
    class Total(Counting):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            return BackendResponse(1, total_tokens=7)

    extras = Benchmark(RecordListSuite(records(3), DETECTION), Total()).run().extras
    return int(extras["token_total"])


@cache
def given_records() -> BenchmarkResult:
    suite = RecordListSuite(records(5), DETECTION)
    return Benchmark(suite, Counting()).run(records(2), suite_description={"suite": "mine"})


@cache
def needs(name: str) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        path.write_text(json.dumps(phq8_run_files.run_file(3)))
        done = krisis("selective", str(path), "--confidence", name, cwd=Path(folder))
        assert done.returncode == 2
        return done.stderr


def fitted(kind: Any) -> bool:
    """Fit on a feature that rises with the target; the fit must rise too."""
    feature = np.linspace(0, 1, 40)[:, None]
    target = (np.arange(40) >= 20).astype(float)
    low, high = kind.fit(feature, target).predict(np.array([[0.1], [0.9]]))
    return bool(low < 0.5 < high)


def has_options(script: str) -> bool:
    return (SCRIPTS / script).is_file() and "main" in (SCRIPTS / script).read_text(encoding="utf-8")


def whole_participants(drawn: Sequence[sp.Item]) -> float:
    """Return 1 where every participant is there with both items, as often as drawn."""
    counts: dict[str, list[str]] = {}
    for one in drawn:
        counts.setdefault(one.participant_id, []).append(one.item)
    return float(all(sorted(set(c)) == ["i0", "i1"] and len(c) % 2 == 0 for c in counts.values()))


def delta() -> Any:
    """Compare ten predicted items with the same ones, of which each participant loses a fifth."""
    whole = [sp.Item(f"p{i}", f"i{j}", 1, 1, 1.0) for i in range(4) for j in range(5)]
    fewer = [dataclasses.replace(one, pred=None) if one.item == "i0" else one for one in whole]
    return sp.paired_bootstrap_delta_by_participant(
        whole, fewer, lambda found: round(sp.compute_cmax(found), 9), n_resamples=50
    )


def paired() -> Any:
    return artifact(*PAIRED)


def deltas() -> Any:
    return paired()["comparison"]["deltas"]
