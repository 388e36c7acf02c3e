"""krisis against the reference: one check per thing that the seeds define.

A check runs krisis on a vector and raises `AssertionError` where the two differ. `test_seeds.py`
runs them all, and plants for each the violations that it must catch.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import math
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.seeds import make
from tests.seeds import reference as ref

import krisis.metrics as metric_bundles
import krisis.selective_prediction as sp
from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.scripted import ScriptedBackend
from krisis.benchmark import Benchmark
from krisis.cli.app import main
from krisis.data.base import BaseDataSuite, PatientRecord, RecordListSuite, SuiteConfig, Task
from krisis.data.ckd import egfr
from krisis.data.ckd.suite import CKDSuite
from krisis.errors import UserError
from krisis.metrics.accuracy import Accuracy
from krisis.metrics.base import EvaluationResult
from krisis.metrics.risk_coverage import optimal_curve
from krisis.results.report import format_json_report, format_metrics_json_report, format_report
from krisis.results.result import BenchmarkResult

Check = Callable[[Path], None]
CHECKS: dict[str, Check] = {}
SCRIPTS = Path(__file__).parents[2] / "scripts"


def check(function: Check) -> Check:
    """Add a check to those that are run, under its name in words."""
    CHECKS[function.__name__.replace("_", " ")] = function
    return function


def agree(found: Any, expected: Any, place: str = "", tolerance: float = 1e-9) -> None:
    """Compare by value; of a mapping, what is expected must be there and more may be."""
    if isinstance(expected, Mapping):
        assert isinstance(found, Mapping), f"{place}: {found!r} is not {expected!r}"
        for key, one in expected.items():
            assert key in found, f"{place}: {key!r} is missing"
            agree(found[key], one, f"{place}.{key}", tolerance)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), f"{place}: {found!r} is not {expected!r}"
        for number, (left, right) in enumerate(zip(found, expected, strict=True)):
            agree(left, right, f"{place}[{number}]", tolerance)
    elif expected is None or (isinstance(expected, float) and math.isnan(expected)):
        undefined = found is None or (isinstance(found, float) and math.isnan(found))
        assert undefined, f"{place}: {found!r} is not undefined"
    elif isinstance(expected, bool | str):
        assert found == expected, f"{place}: {found!r} is not {expected!r}"
    else:
        is_near = found is not None and math.isclose(
            found, expected, rel_tol=tolerance, abs_tol=tolerance
        )
        assert is_near, f"{place}: {found!r} is not {expected!r}"


def refusal(call: Callable[[], object]) -> str:
    """Return the sentence with which a call is refused, nothing where it is not."""
    try:
        call()
    except UserError as error:
        return str(error)
    return ""


@cache
def vector(name: str) -> Any:
    return json.loads((make.FOLDER / name).read_text(encoding="utf-8"))


# Metrics (seeds 000 and 002) ---------------------------------------------------------------------

NAMES = (
    *("Accuracy", "Balanced Accuracy", "Expected Calibration Error", "Brier Score"),
    *("Answer Rate (Coverage)", "Selective Accuracy (answered only)", "Abstention Rate"),
    "Deferral Alignment",
)


def scores_agree(rows: Sequence[ref.Row], expected: Mapping[str, Any]) -> None:
    """Compare the eight metrics on rows; a breakdown must have the same groups, too."""
    made = [EvaluationResult(**{**row, "metadata": dict(row["metadata"])}) for row in rows]
    metrics = {metric.name: metric for metric in metric_bundles.default_benchmark_metrics()}
    for name, score in expected.items():
        found = metrics[name](made)
        again = metrics[name].compute(made)
        agree((again.value, again.n_evaluated), (found.value, found.n_evaluated), name)
        agree((found.value, found.n_abstained), (score["value"], score["n_abstained"]), name)
        if math.isnan(found.value):
            assert found.details.get("reason"), f"{name}: undefined without a reason"
            continue
        agree({key: getattr(found, key) for key in score}, score, name)
        assert set(found.breakdown) == set(score["breakdown"]), name


@check
def the_eight_metrics(folder: Path) -> None:
    assert tuple(metric.name for metric in metric_bundles.default_benchmark_metrics()) == NAMES
    for case in vector("metrics.json"):
        assert set(case["scores"]) == set(NAMES)
        scores_agree(case["rows"], case["scores"])


@check
def accuracy_with_neutral_abstentions(folder: Path) -> None:
    metric = Accuracy(treat_abstention_as_neutral=True)
    for case in vector("metrics.json"):
        found = metric([EvaluationResult(**row) for row in case["rows"]])
        agree(found.value, ref.selective_accuracy(case["rows"]))
        assert found.n_abstained == sum(row["abstained"] for row in case["rows"])


@check
def the_bundles(folder: Path) -> None:
    abstention = {NAMES[i] for i in (4, 5, 6, 7)}
    for bundle, names in (
        (metric_bundles.default_accuracy_metrics, set(NAMES[:2])),
        (metric_bundles.default_calibration_metrics, set(NAMES[2:4])),
        (metric_bundles.default_abstention_metrics, abstention),
    ):
        assert names <= {metric.name for metric in bundle()}


# The kidney suite (seeds 000 and 001) ------------------------------------------------------------


@check
def the_equation_and_the_stages(folder: Path) -> None:
    for one in vector("kidney.json"):
        rate = float(egfr.ckd_epi_2021(one["creatinine"], one["age"], female=one["female"]))
        agree((rate, egfr.stage(rate)), (one["egfr"], one["stage"]), str(one))


def uci_path(folder: Path) -> Path:
    path = folder / "uci.csv"
    path.write_text((make.FOLDER / "uci.csv").read_text(encoding="utf-8"), encoding="utf-8")
    return path


def first_version(folder: Path, task: str, n_synthetic: int = 40) -> CKDSuite:
    return CKDSuite(
        SuiteConfig(task=task, n_synthetic=n_synthetic), uci_path(folder), preset="v0.1"
    )


def patient_of(record: PatientRecord) -> str:
    return str(record.record_id).removeprefix("uci-")


def shares(suite: CKDSuite) -> tuple[list[PatientRecord], list[PatientRecord]]:
    """Return the evaluated and the training records of real patients."""
    both = (suite.load(), suite.training_records())
    held_out, training = ([r for r in share if not r.metadata["synthetic"]] for share in both)
    return held_out, training


@check
def the_held_out_patients(folder: Path) -> None:
    everyone = set(ref.read_uci((make.FOLDER / "uci.csv").read_text(encoding="utf-8")))
    held_out, training = (
        {patient_of(r) for r in s} for s in shares(first_version(folder, "detection"))
    )
    assert len(held_out) == round(0.2 * len(everyone))
    assert not held_out & training
    assert held_out | training == everyone


@check
def the_records_of_a_file(folder: Path) -> None:
    patients = ref.read_uci((make.FOLDER / "uci.csv").read_text(encoding="utf-8"))
    detection = first_version(folder, "detection")
    names = [patient_of(r) for r in shares(detection)[1]]
    filling = ref.fillings([patients[name] for name in names])
    n_flagged, sexes = 0, set()
    for task, share in (("detection", 0), ("detection", 1), ("staging", 0)):
        for record in shares(first_version(folder, task))[share]:
            truth, patient = record.metadata, patients[patient_of(record)]
            expected = ref.kidney_record(patient, filling, truth["sex"], task)
            shown = {k: v for k, v in expected.pop("features").items() if k in record.features}
            agree(record.features, shown, f"features of {record.record_id}")
            if ref.is_close_call(expected["egfr"]):
                continue
            agree(truth["egfr"], expected.pop("egfr"), f"eGFR of {record.record_id}", 0.011)
            agree({"label": record.label, **truth}, expected, str(record.record_id))
            n_flagged += truth["should_abstain"]
            sexes.add(truth["sex"])
    assert n_flagged
    assert sexes == {"female", "male"}


@check
def the_synthetic_records(folder: Path) -> None:
    for task in ("detection", "staging"):
        records = [r for r in first_version(folder, task, 300).load() if r.metadata["synthetic"]]
        assert len(records) == 300
        marks = dict.fromkeys(("near_threshold", "label_conflicts_with_stage"), 0)
        for record in records:
            truth, shown = record.metadata, record.features
            sex = {None: "unknown", 0: "male", 1: "female"}[shown["sex"]]
            assert truth["sex"] == sex
            creatinine = shown["sc"]
            if creatinine is not None and creatinine > 40:  # printed in another unit by mistake
                continue
            rate = ref.estimate(creatinine, shown["age"], sex)
            if ref.is_close_call(rate):
                continue
            agree(truth["egfr"], rate, f"eGFR of {record.record_id}", 0.011)
            stage = None if rate is None else ref.stage(rate)
            agree(truth["ckd_stage"], stage, str(record.record_id))
            has_ckd = record.label == ref.PRESENT_LABEL if task == "detection" else None
            expected = ref.flags(rate, has_ckd)
            if has_ckd is None:
                del expected["label_conflicts_with_stage"]
            agree(truth, expected, str(record.record_id))
            flags = (*marks, "ambiguous_trajectory")
            assert truth["should_abstain"] is any(truth[flag] for flag in flags)
            for mark in marks:
                marks[mark] += truth[mark]
        assert all(marks.values())


def visits_of(features: Mapping[str, Any]) -> list[tuple[int, float]]:
    """Return day and estimate of the shown visits that have one."""
    found = []
    for number in range(1, 6):
        day, rate = (features.get(f"visit_{number}_{key}") for key in ("day", "egfr"))
        if day is not None and rate is not None:
            found.append((int(day), float(rate)))
    return found


@check
def the_courses(folder: Path) -> None:
    records = first_version(folder, "progression", 300).load()
    labels, n_ambiguous = set(), 0
    for record in records:
        truth, shown = record.metadata, record.features
        assert truth["synthetic"]
        days = max(shown[k] for k in shown if k.startswith("visit_") and k.endswith("_day"))
        started = shown.get("drug_day")
        window = started is not None and 0 <= days - started <= 90
        first, last = truth["first_level"], truth["last_level"]
        around = {
            ref.course_label(first, last + d, days, drug_window=window) for d in (-0.01, 0.0, 0.01)
        }
        assert record.label in around, f"{record.record_id}: {record.label} is not in {around}"
        estimates = [rate for _, rate in visits_of(shown)]
        ambiguous = ref.is_ambiguous(estimates)
        assert truth["ambiguous_trajectory"] is ambiguous, record.record_id
        assert truth["should_abstain"] is ambiguous, record.record_id
        labels.add(record.label)
        n_ambiguous += ambiguous
    assert labels == {"stable", "worsening", "improving"}
    assert 0 < n_ambiguous < len(records) / 2


@check
def every_row_has_its_estimate(folder: Path) -> None:
    """Without the preset, too: eGFR and stage by the shown creatinine, sex unknown where it is."""
    file = CKDSuite(SuiteConfig(), uci_path(folder))
    for record in [*file.load(), *CKDSuite(SuiteConfig(n_synthetic=60)).load()]:
        truth, shown = record.metadata, record.features
        sex = {None: "unknown", 0: "male", 1: "female"}[shown["sex"]]
        assert truth["sex"] == sex
        creatinine = shown["sc"]
        if creatinine is not None and creatinine > 40:
            continue
        rate = ref.estimate(creatinine, shown["age"], sex)
        agree(truth["egfr"], rate, f"eGFR of {record.record_id}", 0.011)
        if not ref.is_close_call(rate):
            agree(truth["ckd_stage"], None if rate is None else ref.stage(rate))


@check
def the_columns_of_the_file(folder: Path) -> None:
    lines = list(csv.reader((make.FOLDER / "uci.csv").read_text(encoding="utf-8").splitlines()))
    for column in ("sc", "class"):
        place = lines[0].index(column)
        path = folder / f"without_{column}.csv"
        text = "\n".join(",".join(c for i, c in enumerate(line) if i != place) for line in lines)
        path.write_text(text, encoding="utf-8")
        said = refusal(CKDSuite(SuiteConfig(), path).load)
        assert column in said, f"a file without the column {column}: {said!r}"


# Benchmark, prompts and reports (seeds 001 and 003) ----------------------------------------------

DETECTION = Task("detection", "Is it so?", {0: "ckd", 1: "not ckd"})


def cases(n: int) -> list[PatientRecord]:
    return [
        PatientRecord({"sc": 7.25 + i}, i % 2, {"should_abstain": i % 3 == 0, "ckd_stage": 3})
        for i in range(n)
    ]


def answer(number: int) -> dict[str, Any]:
    return {"abstained": False, "prediction": number % 2, "confidence": 0.75}


class Provider:
    """Plays a model that answers batches up to a size, and notes what it was sent."""

    def __init__(self, largest_answered: int) -> None:
        self.largest_answered = largest_answered
        self.requests: list[Any] = []
        self.now = self.most_at_once = 0

    async def __call__(self, request: Any) -> str:
        self.requests.append(request)
        self.now += 1
        self.most_at_once = max(self.most_at_once, self.now)
        await asyncio.sleep(0.002)
        self.now -= 1
        if request.mode == "single":
            return json.dumps(answer(1))
        if request.n_records > self.largest_answered:
            return '{"results": [{"id": "case_0", "abst'
        many = [{"id": f"case_{i}", **answer(1)} for i in range(request.n_records)]
        return json.dumps({"results": many})


def asked(
    n: int, batch_size: int, largest: int, at_once: int = 1
) -> tuple[BenchmarkResult, Provider]:
    provider = Provider(largest)
    suite = RecordListSuite(cases(n), DETECTION)
    backend = ScriptedBackend(provider)
    run = Benchmark(suite, backend, batch_size=batch_size, max_concurrency=at_once).run()
    return run, provider


@check
def the_batches(folder: Path) -> None:
    for n, batch_size in ((20, 8), (8, 8), (3, 8), (7, 2)):
        run, provider = asked(n, batch_size, 99)
        sizes = ref.batch_sizes(n, batch_size)
        assert sorted(r.n_records for r in provider.requests) == sorted(sizes)
        assert run.extras["n_api_batches"] == len(sizes)
        assert len(run.evaluation_results) == run.extras["n_input_records"] == n
        assert [row.ground_truth for row in run.evaluation_results] == [i % 2 for i in range(n)]


@check
def the_calls_in_parallel(folder: Path) -> None:
    for at_once in (1, 2):
        run, provider = asked(12, 2, 99, at_once)
        assert provider.most_at_once == at_once
        assert run.extras["max_concurrency"] == at_once


@check
def the_fallback_of_a_malformed_batch(folder: Path) -> None:
    for n, largest in ((4, 1), (8, 2), (5, 2), (8, 4)):
        run, provider = asked(n, 8, largest)
        calls = [(r.mode, r.n_records) for r in provider.requests]
        assert sorted(calls) == sorted(ref.calls_when_broken(n, largest)), calls
        assert all(row.prediction == 1 for row in run.evaluation_results)
        modes = {"batch" if size > 1 else "single" for _, size in calls if size <= largest}
        assert set(run.extras["prompt_modes"]) == modes


class Flaky(BaseBackend):
    """Loses its connection twice before each answer, and states its tokens."""

    name = "flaky"
    retry_base_seconds = 0.001
    max_retries = 2

    def __init__(self) -> None:
        self.n_calls = 0

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        self.n_calls += 1
        if self.n_calls % 3:
            raise ConnectionError("lost")
        return BackendResponse(1, False, 0.8, "one", "", "single", 10, 5, 40)


@check
def the_retries(folder: Path) -> None:
    backend = Flaky()
    run = Benchmark(RecordListSuite(cases(3), DETECTION), backend, batch_size=1).run()
    assert backend.n_calls == 9
    assert [row.prediction for row in run.evaluation_results] == [1, 1, 1]


@check
def the_execution_metadata(folder: Path) -> None:
    run = Benchmark(RecordListSuite(cases(3), DETECTION), Flaky(), batch_size=1).run()
    extras = run.extras
    expected = {
        "batch_size": 1,
        "max_concurrency": 1,
        "n_input_records": 3,
        "n_api_batches": 3,
        "input_tokens": 30,
        "output_tokens": 15,
        "token_total": 45,
        "records_per_second": 3 / extras["elapsed_seconds"],
    }
    agree(extras, expected, "extras")
    assert extras["elapsed_seconds"] > 0
    names = (
        *expected,
        *("elapsed_seconds", "prompt_capture", "prompt_data_policy", "prompt_modes"),
        *("n_prompts_captured", "prompt_templates_count", "prompt_templates"),
    )
    text, full = format_report(run), json.loads(format_json_report(run))
    brief = json.loads(format_metrics_json_report(run))
    for name in names:
        assert name in extras, name
        assert name in text, f"{name} is not in the text report"
        assert name in full["extras"], f"{name} is not in the JSON report"
    assert len(full.get("evaluation_results", [])) == 3
    assert full["evaluation_results"][0]["raw_response"] == "one"
    assert "evaluation_results" not in brief
    for name in NAMES:
        assert name in text
        agree(brief["metric_scores"][name]["value"], full["metric_scores"][name]["value"], name)
    bins = brief["metric_scores"]["Expected Calibration Error"]["details"]["bins"]
    agree([one["count"] for one in bins], [3 * (i == 12) for i in range(15)])


@check
def the_captured_prompts(folder: Path) -> None:
    run, provider = asked(5, 4, 99)
    extras = run.extras
    prompts = [row.prompt for row in run.evaluation_results]
    assert [row.prompt_mode for row in run.evaluation_results] == ["batch"] * 4 + ["single"]
    assert all(prompts)
    assert extras["n_prompts_captured"] == 5
    assert sorted(extras["prompt_templates"]) == sorted(set(prompts))
    assert extras["prompt_templates_count"] == len(set(prompts)) == 2
    assert extras["prompt_data_policy"] == "redacted"
    for number in range(5):
        value = str(7.25 + number)
        assert any(value in request.user for request in provider.requests), "a feature is not shown"
        assert not any(value in prompt for prompt in prompts), "a prompt is not redacted"


class Secret(BaseDataSuite):
    """One record whose label and metadata can be changed."""

    def __init__(self, label: int, **metadata: Any) -> None:
        super().__init__()
        self.record = PatientRecord({"sc": 1.5}, label, metadata)

    @property
    def task(self) -> Task:
        return DETECTION

    def load(self) -> list[PatientRecord]:
        return [self.record]


@check
def what_a_model_does_not_see(folder: Path) -> None:
    sent = []
    for suite in (
        Secret(0),
        Secret(1),
        Secret(0, should_abstain=True, egfr=12.5, ckd_stage=5),
    ):
        provider = Provider(1)
        run = Benchmark(suite, ScriptedBackend(provider)).run()
        sent.append([(r.system, r.user) for r in provider.requests])
        agree(run.evaluation_results[0].metadata, suite.record.metadata)
    assert sent[0] == sent[1] == sent[2]
    assert "1.5" in sent[0][0][1]


# Selective prediction (seed 004) -----------------------------------------------------------------


def run_path(folder: Path, run: Mapping[str, Any], name: str = make.RUN_PATH) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run), encoding="utf-8")
    return path


def run_with(signals: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a run file of one participant whose first items have these signals."""
    filled = [*signals, *[signals[0]] * (len(make.ITEMS) - len(signals))]
    person = {
        "participant_id": 1,
        "success": True,
        "ground_truth_items": dict.fromkeys(make.ITEMS, 1),
        "predicted_items": dict.fromkeys(make.ITEMS, 1),
        "item_signals": dict(zip(make.ITEMS, filled, strict=True)),
    }
    experiment = {"provenance": {"mode": "m"}, "results": {"mode": "m", "results": [person]}}
    return {"run_metadata": {"run_id": "r", "git_commit": "c"}, "experiments": [experiment]}


def confidence_of(folder: Path, signals: Mapping[str, Any], variant: str) -> float:
    """Return the confidence that krisis gives an item with these signals."""
    path = run_path(folder, run_with([signals]), "one.json")
    found = [one for one in sp.parse_items(path, "m", variant).items if one.item == "Sleep"]
    return found[0].confidence


@check
def the_confidence_variants(folder: Path) -> None:
    for one in vector("confidence.json"):
        path = run_path(folder, run_with([one["signals"]]), "one.json")
        for variant, expected in one["confidence"].items():
            agree(sp.parse_items(path, "m", variant).items[0].confidence, expected, variant)


REQUIRED = {
    **dict.fromkeys(
        (
            *("retrieval_similarity_mean", "retrieval_similarity_max"),
            *("hybrid_evidence_similarity", "hybrid_verbalized", "hybrid_consistency"),
        ),
        ("retrieval_reference_count", "retrieval_similarity_mean", "retrieval_similarity_max"),
    ),
    "verbalized": ("verbalized_confidence",),
    "token_msp": ("token_msp",),
    "token_pe": ("token_pe",),
    "token_energy": ("token_energy",),
    "consistency": ("consistency_modal_confidence",),
    "consistency_inverse_std": ("consistency_score_std",),
}


@check
def the_signals_that_must_be_there(folder: Path) -> None:
    full = vector("confidence.json")[0]["signals"]
    for variant, keys in REQUIRED.items():
        for key in keys:
            broken = [{k: v for k, v in full.items() if k != key}]
            if key.startswith(("token", "consistency")):
                broken.append({**full, key: None})
            for one in broken:
                said = refusal(partial(confidence_of, folder, one, variant))
                assert key in said, f"{variant} without {key}: {said!r}"


def sp_items(items: Sequence[ref.Item]) -> list[sp.Item]:
    return [
        sp.Item(str(one["participant"]), one["item"], one["pred"], one["gt"], one["confidence"])
        for one in items
    ]


def curves_agree(items: Sequence[ref.Item], loss: Any, expected: Mapping[str, Any]) -> None:
    """Compare the published functions with the figures of the reference."""
    mine = sp_items(items)
    curve = sp.compute_risk_coverage_curve(mine, loss=loss)
    best = optimal_curve([sp.compute_loss(i, loss) for i in mine if i.pred is not None], len(mine))
    found = {
        "cmax": sp.compute_cmax(mine),
        "aurc_full": curve.aurc(),
        "augrc_full": curve.augrc(),
        "aurc_optimal": best.aurc(),
        "augrc_optimal": best.augrc(),
        "aurc_achievable": curve.achievable().aurc(),
        "curve": {key: getattr(curve, key).tolist() for key in expected["curve"]},
        "aurc_at_c": {"value": curve.aurc(0.5)},
        "augrc_at_c": {"value": curve.augrc(0.5)},
        "mae_at_coverage": {
            key: {"value": sp.compute_risk_at_coverage(mine, float(key), loss=loss)}
            for key in expected["mae_at_coverage"]
        },
    }
    agree(curve.cmax, expected["cmax"])
    agree(found, {key: only(expected[key], found[key]) for key in found})


def only(expected: Any, found: Any) -> Any:
    """Leave out of what is expected the keys that these functions do not give."""
    if not isinstance(expected, dict):
        return expected
    return {key: only(one, found[key]) for key, one in expected.items() if key in found}


@check
def the_curves(folder: Path) -> None:
    for case in vector("curves.json"):
        curves_agree(case["items"], case["loss"], case["figures"])


def drawn_values(items: Sequence[ref.Item], value: Callable[[list[ref.Item]], float]) -> Any:
    """Return a metric for the bootstrap that notes what the reference says of each draw."""
    people = {group[0]["participant"]: group for group in ref.by_participant(items)}
    noted: list[float] = []

    def metric(drawn: Sequence[sp.Item]) -> float:
        names = [one.participant_id for one in drawn if one.item == make.ITEMS[0]]
        whole = [item for name in names for item in people[name]]
        assert len(names) == len(people), "a resample has another number of participants"
        assert len(drawn) == len(whole), "a resample lacks items of a participant"
        noted.append(value(whole))
        return noted[-1]

    return metric, noted


@check
def the_bootstrap(folder: Path) -> None:
    items = vector("curves.json")[4]["items"]
    values: Callable[[list[ref.Item]], float]
    for values in (
        ref.cmax,
        lambda some: ref.aurc(ref.curve(ref.ranked_items(some, "abs"), len(some))),
    ):
        metric, noted = drawn_values(items, values)
        found = sp.bootstrap_by_participant(sp_items(items), metric, n_resamples=200, seed=42)
        agree(noted[0], values(items), "the estimate")
        assert len(noted) == 201
        assert len(set(noted)) > 5, "every resample is alike"
        agree((found.low, found.high), ref.interval(noted[1:]))


@check
def the_paired_deltas(folder: Path) -> None:
    left = vector("curves.json")[4]["items"]
    right = [{**one, "pred": None if i % 5 == 0 else one["pred"]} for i, one in enumerate(left)]
    noted: list[float] = []
    pair: list[float] = []

    def metric(drawn: Sequence[sp.Item]) -> float:
        value = sp.compute_cmax(drawn)
        pair.append(value)
        if len(pair) % 2 == 0:
            noted.append(pair[-1] - pair[-2])
        return value

    arguments = (sp_items(left), sp_items(right), metric)
    found = sp.paired_bootstrap_delta_by_participant(*arguments, n_resamples=200)
    agree(noted[0], ref.cmax(right) - ref.cmax(left), "right minus left")
    agree((found.low, found.high), ref.interval(noted[1:]))
    one = [sp.Item(i.participant_id, i.item, i.pred, i.gt, i.confidence) for i in sp_items(left)]
    same = sp.paired_bootstrap_delta_by_participant(one, one, sp.compute_cmax, n_resamples=50)
    agree((same.low, same.high), (0.0, 0.0), "the same participants on both sides")
    fewer = sp.paired_bootstrap_delta_by_participant(
        *arguments[:2], sp.compute_cmax, n_resamples=50
    )
    assert fewer.high < 0, "right minus left"


@check
def the_calibrators(folder: Path) -> None:
    known = vector("calibrators.json")
    features, target = np.array(known["features"]), np.array(known["target"], dtype=float)
    some = np.array(known["asked"])
    kinds: dict[str, tuple[Any, slice]] = {
        "temperature_scaling": (sp.TemperatureScalingCalibrator, slice(1)),
        "logistic": (sp.LogisticCalibrator, slice(2)),
        "linear": (sp.LinearCalibrator, slice(2)),
        "isotonic": (sp.IsotonicCalibrator, slice(1)),
    }
    for name, (kind, columns) in kinds.items():
        found = kind.fit(features[:, columns], target).predict(some[:, columns]).tolist()
        agree(found, known[name], name, 1e-4)
    first = features[:, 0]
    agree(sp.compute_ece(first, target), known["ece"], "ECE")
    agree(sp.compute_binary_nll(first, target), known["binary_nll"], "NLL")


@check
def the_features_of_a_calibrator(folder: Path) -> None:
    names = ["llm_evidence_count", "verbalized_confidence", "retrieval_similarity_mean"]
    full = vector("confidence.json")[0]["signals"]
    found = sp.CalibratorFeatureExtractor(names).extract([full, {}, dict.fromkeys(names)])
    given = [full[name] for name in names]
    low = [0.0, 3.0, 0.0]  # no evidence, the middle of 1 to 5, no similarity
    agree(
        found.tolist(),
        [[v if v is not None else d for v, d in zip(given, low, strict=True)], low, low],
    )


@check
def the_items_of_a_run(folder: Path) -> None:
    sys.path.insert(0, str(SCRIPTS))
    try:
        parse_items = runpy.run_path(str(SCRIPTS / "evaluate_selective_prediction.py"))[
            "parse_items"
        ]
    finally:
        sys.path.remove(str(SCRIPTS))
    run = vector("run.json")
    items, included, failed = parse_items(run_path(folder, run), "few_shot", "llm")
    expected = ref.items_of(run, "few_shot", "llm")
    found = {(i.participant_id, i.item): (i.pred, i.gt) for i in items}
    assert found == {(str(i["participant"]), i["item"]): (i["pred"], i["gt"]) for i in expected}
    assert failed == {"302"}
    assert included == {str(i["participant"]) for i in expected}
    for one in items:
        if one.pred is not None:
            wanted = [
                i["confidence"]
                for i in expected
                if (str(i["participant"]), i["item"]) == (one.participant_id, one.item)
            ]
            agree(one.confidence, wanted[0])


# The published command lines (seed 004) ----------------------------------------------------------


def script(folder: Path, line: str) -> None:
    """Run a published command line in a folder, in this process."""
    name, *words = line.split()
    arguments, sys.argv = sys.argv, [name, *words]
    sys.path.insert(0, str(SCRIPTS))
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            runpy.run_path(str(SCRIPTS / Path(name).name), run_name="__main__")
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = arguments
        sys.path.remove(str(SCRIPTS))
        sys.modules.pop("published_options", None)
    assert code == 0, f"{line}: {err.getvalue() or out.getvalue()}"


def written(folder: Path, before: set[Path]) -> Any:
    """Return the content of the one JSON file that a command has written."""
    new = set((folder / "data/outputs").glob("*.json")) - before
    assert len(new) == 1, f"{len(new)} files were written"
    return json.loads(new.pop().read_text(encoding="utf-8"))


def artifact_of(folder: Path, line: str) -> Any:
    path = run_path(folder, vector("run.json"))
    script(folder, line)
    return written(folder, {path})


YOUR_RUN = f"--input {make.RUN_PATH}"
TRAIN_RUN = f"--input {make.TRAIN_PATH}"
EVALUATE = "scripts/evaluate_selective_prediction.py"


def artifacts_agree(found: Any, expected: Any) -> None:
    agree(found, expected)
    assert str(found["created_at"]).endswith("Z")
    assert [set(one) for one in found["inputs"]] == [set(one) for one in expected["inputs"]]


@check
def the_command_line_of_an_evaluation(folder: Path) -> None:
    line = f"{EVALUATE} {YOUR_RUN} --mode few_shot --confidence default --loss abs "
    line += "--bootstrap-resamples 10000 --seed 42"
    found = artifact_of(folder, line)
    artifacts_agree(found, vector("artifacts.json")["single"])
    bootstrap = found["confidence_variants"]["llm"]["bootstrap"]
    agree(bootstrap, {"seed": 42, "n_resamples": 10000}, "bootstrap")
    for key in ("cmax", "aurc_full"):
        low, high = bootstrap["ci95"][key]
        assert low <= found["confidence_variants"]["llm"][key] <= high


@check
def the_command_line_of_a_comparison(folder: Path) -> None:
    line = f"{EVALUATE} {YOUR_RUN} --mode zero_shot {YOUR_RUN} --mode few_shot --loss abs --seed 42"
    artifacts_agree(artifact_of(folder, line), vector("artifacts.json")["paired"])


@check
def the_published_intervals(folder: Path) -> None:
    line = f"{EVALUATE} {YOUR_RUN} --mode few_shot --loss abs "
    line += "--bootstrap-resamples 400 --rng legacy"
    artifacts_agree(artifact_of(folder, line), vector("artifacts.json")["published_intervals"])


@check
def the_published_intervals_of_deltas(folder: Path) -> None:
    line = f"{EVALUATE} {YOUR_RUN} --mode zero_shot {YOUR_RUN} --mode few_shot "
    line += "--confidence token_pe --bootstrap-resamples 400 --rng legacy"
    artifacts_agree(artifact_of(folder, line), vector("artifacts.json")["published_deltas"])


def trained_items() -> list[Any]:
    """Return the predicted items of the run to learn from: signals, and whether they are right."""
    return [
        (person["item_signals"][key], float(guess == person["ground_truth_items"][key]))
        for person in ref.experiment(vector("train_run.json"), "few_shot")
        if person["success"]
        for key, guess in person["predicted_items"].items()
        if guess is not None
    ]


@check
def the_command_line_of_a_temperature(folder: Path) -> None:
    path = run_path(folder, vector("train_run.json"), make.TRAIN_PATH)
    name = "data/outputs/calibration_verbalized_temperature_scaling_fewshot.json"
    line = f"scripts/calibrate_verbalized_confidence.py {TRAIN_RUN} --mode few_shot --output {name}"
    script(folder, line)
    found = written(folder, {path})
    spoken = [ref.confidence("verbalized", signals) for signals, _ in trained_items()]
    temperature = ref.fit_temperature(spoken, [right for _, right in trained_items()])
    assert found["method"] == "temperature_scaling"
    assert found["fitted_on"]["n_samples"] == len(spoken)
    agree(found["model"]["temperature"], temperature, "temperature", 1e-4)
    variant, run = "verbalized_calibrated", run_path(folder, vector("run.json"))
    before = {path, run, folder / name}
    script(
        folder, f"{EVALUATE} {YOUR_RUN} --mode few_shot --confidence {variant} --calibration {name}"
    )
    figures = written(folder, before)["confidence_variants"][variant]
    items = ref.items_of(vector("run.json"), "few_shot", variant, temperature=temperature)
    expected = ref.curve_figures(items, "abs_norm")
    agree(figures["aurc_full"], expected["aurc_full"], "AURC of the calibrated confidence")
    agree(figures["curve"]["threshold"], expected["curve"]["threshold"], "thresholds", 1e-4)


@check
def the_command_line_of_a_calibrator(folder: Path) -> None:
    path = run_path(folder, vector("train_run.json"), make.TRAIN_PATH)
    features = ("verbalized_confidence", "retrieval_similarity_mean")
    name = "data/outputs/calibration_logistic_fewshot.json"
    line = f"scripts/train_confidence_calibrator.py {TRAIN_RUN} --mode few_shot --method logistic "
    line += f"--features {','.join(features)} --output {name}"
    script(folder, line)
    found = written(folder, {path})
    agree((found["method"], found["features"]), ("logistic", list(features)))
    defaults = (3.0, 0.0)
    rows = [
        [
            d if signals[key] is None else signals[key]
            for key, d in zip(features, defaults, strict=True)
        ]
        for signals, _ in trained_items()
    ]
    predict = ref.fit_logistic(rows, [right for _, right in trained_items()])
    model = sp.LogisticCalibrator(**found["model"])
    agree(model.predict(np.array(rows)).tolist(), [predict(row) for row in rows], "p", 1e-4)


@check
def the_command_line_of_a_run(folder: Path) -> None:
    """Run several samples of a model, and evaluate them by a consistency variant."""
    (folder / "data/outputs").mkdir(parents=True)
    line = "scripts/reproduce_results.py --model lexicon --n-synthetic 20 --limit 8 --seed 3 "
    line += f"--temperature 0.7 --consistency-samples 3 --no-baselines --output {make.RUN_PATH}"
    script(folder, line)
    run = json.loads((folder / make.RUN_PATH).read_text(encoding="utf-8"))
    assert [one["provenance"]["mode"] for one in run["experiments"]] == ["zero_shot", "few_shot"]
    for mode in ("zero_shot", "few_shot"):
        for person in ref.experiment(run, mode):
            assert person["success"]
            for signals in person["item_signals"].values():
                samples = signals.get("consistency_samples", [])
                assert len(samples) == 3
                share, spread = ref.consistency(samples)
                agree(signals["consistency_modal_confidence"], share, "consistency")
                agree(signals["consistency_score_std"], spread, "spread")
                retrieval = REQUIRED["retrieval_similarity_mean"]
                assert mode == "zero_shot" or set(retrieval) <= set(signals)


def command(folder: Path, *words: str) -> tuple[int, str]:
    """Run a command of krisis and return its code and what it wrote to the error stream."""
    arguments, sys.argv = sys.argv, ["krisis", *words]
    err, code = io.StringIO(), 0
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = arguments
    return code, err.getvalue()


@check
def the_calibration_that_must_be_named(folder: Path) -> None:
    run_path(folder, vector("run.json"))
    for variant in ("verbalized_calibrated", "calibrated"):
        words = ("selective", make.RUN_PATH, "--mode", "few_shot", "--confidence", variant)
        code, said = command(folder, *words)
        assert code == 2
        assert "--calibration" in said
