"""What a run was and took is typed, derived into `extras`, and read back from files as it was."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import pytest

from krisis import BenchmarkResult, EvaluationResult
from krisis.errors import InvalidFile
from krisis.metrics import MetricScore, score_all, usual_metrics
from krisis.pages.document import Table
from krisis.results import result as seed_path
from krisis.results.account import RepeatAgreement, RunFacts
from krisis.results.base import Attrition, Prompts, Provenance, Spending
from krisis.results.call_totals import CallTotals
from krisis.results.stops import STOP_CAUSES, BudgetReached, Interrupted, StopCause
from krisis.task_facts import TaskFacts

SEED_KEYS = {
    *("batch_size", "max_concurrency", "n_input_records", "n_api_batches", "elapsed_seconds"),
    *("records_per_second", "input_tokens", "output_tokens", "token_total", "prompt_capture"),
    *("prompt_data_policy", "prompt_modes", "n_prompts_captured", "prompt_templates_count"),
    "prompt_templates",
}

ROWS = [
    EvaluationResult(
        1, 1, False, 0.9, "yes", "template", "single", {}, 10, 2, 12, "a",
        model="m-2026-01", finish_reason="stop", latency_seconds=0.25,
    ),
    EvaluationResult(None, 0, record_id="b", error="no reply within 3 s", failure_class="timeout"),
    EvaluationResult(None, 0, record_id="c", error="429", failure_class="rate_limit"),
    EvaluationResult(None, 1, record_id="d", error="no reply in time", failure_class="timeout"),
]  # fmt: skip

FACTS = RunFacts(
    provenance=Provenance(
        task_facts=TaskFacts("sepsis", ((0, "no"), (1, "yes")), positive=1, groups={"ward": "w"}),
        models_answered={"m-2026-01": 1},
        batch_size=1,
        max_concurrency=2,
        repeats=1,
        n_api_batches=4,
        seed=7,
        suite_content_hash="ab",
        krisis_version="1",
        started_at="2026-01-02T03:04:05+00:00",
        run_id="f00",
        run_file="runs/x.krisis",
        git_commit="c0ffee",
        versions={"krisis": "1"},
        config={"suite": "ckd", "metrics": ["accuracy"]},
    ),
    spending=Spending.of(
        CallTotals(n_calls=5, n_retries=1, latencies_seconds=[0.2, 0.4]), ROWS, elapsed_seconds=2.0
    ),
    prompts=Prompts.of(ROWS, verified=True),
    attrition=Attrition(n_loaded=6),
    stop=BudgetReached("the next call could exceed the budget (max_tokens 9)"),
    agreement=RepeatAgreement(4, 0.5, 1),
    baselines={"majority": {"Accuracy": MetricScore("Accuracy", 0.5, n_evaluated=4)}},
    scores_by_source={"real": {"Brier Score": MetricScore("Brier Score", math.nan)}},
    other={"ward": "B2"},
)


def a_result() -> BenchmarkResult:
    scores = score_all(usual_metrics(), ROWS)
    return BenchmarkResult(ROWS, scores, {"suite": "clinic", "task": "sepsis"}, "m", facts=FACTS)


def test_typed_facts_survive_both_files_exactly(tmp_path: Path) -> None:
    result = a_result()
    for include_results in (True, False):
        path = tmp_path / f"{include_results}.json"
        path.write_text(result.to_json(include_results), encoding="utf-8")
        loaded = BenchmarkResult.load(path)
        assert loaded.provenance == result.provenance
        assert loaded.spending == result.spending
        assert loaded.prompts == result.prompts
        assert loaded.attrition == result.attrition
        assert loaded.stop == result.stop
        assert type(loaded.stop) is BudgetReached
        assert loaded.agreement == result.agreement
        assert loaded.other == {"ward": "B2"}
        assert loaded.extras == result.extras
        assert loaded.to_json(include_results) == result.to_json(include_results)


def test_the_extras_of_the_seeds_are_all_there_and_derived() -> None:
    result = a_result()
    assert result.extras.keys() >= SEED_KEYS
    assert result.extras["token_total"] == 12
    assert result.extras["n_input_records"] == 6
    assert result.extras["prompt_templates"] == ["template"]
    result.extras["token_total"] = 0  # a copy: what is kept cannot be changed through it
    assert result.extras["token_total"] == 12
    with pytest.raises(AttributeError):
        result.extras = {}  # type: ignore[misc]


def test_a_result_can_be_made_as_the_seeds_make_it() -> None:
    extras = {"batch_size": 8, "token_total": 40, "elapsed_seconds": 1, "ward": "B2"}
    result = seed_path.BenchmarkResult(ROWS, {}, {"suite": "ckd"}, "rule", extras)
    assert (result.provenance.batch_size, result.spending.token_total) == (8, 40)
    assert result.extras.keys() >= SEED_KEYS
    assert result.extras["ward"] == "B2"
    named = BenchmarkResult(ROWS, {}, {}, extras={"ward": "B2"})
    assert named.extras == {
        "n_loaded": 4,
        "n_input_records": 4,
        "ward": "B2",
        "n_no_answer": 0,
        "n_not_evaluated": 3,
    }
    assert BenchmarkResult([], {}, {}).extras == {}


def test_an_entry_of_the_wrong_kind_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"extras: seed: .*not 'seven'"):
        BenchmarkResult(ROWS, {}, {}, "rule", {"seed": "seven"})
    content = a_result().to_dict()
    content["extras"]["stop_cause"] = "Boredom"
    with pytest.raises(InvalidFile, match="unknown stop cause 'Boredom'"):
        BenchmarkResult.from_dict(content, place="file.json")


def test_failures_are_counted_by_class_with_one_example_each() -> None:
    failures = a_result().attrition.failures
    assert {name: (kind.n, kind.example) for name, kind in failures.items()} == {
        "timeout": (2, "no reply within 3 s"),
        "rate_limit": (1, "429"),
    }
    unnamed = Attrition.of([EvaluationResult(None, 0, error="odd")])
    assert unnamed.failures["unclassified"].n == 1


def test_a_report_lists_the_classes_of_failure_and_what_is_missing() -> None:
    document = a_result().document()
    assert document.lead[0].startswith("3 of 4 records NOT EVALUATED: 6 loaded → 4 sent")
    assert document.lead[1] == (
        "INCOMPLETE: 2 records not asked yet (the next call could exceed the budget (max_tokens 9))"
    )
    (table,) = document.section("failures").parts
    assert isinstance(table, Table)
    assert table.rows == [["timeout", 2, "no reply within 3 s"], ["rate_limit", 1, "429"]]
    assert "failures" in document.first


@pytest.mark.parametrize(
    ("counts", "total"),
    [([(1, 2), (3, 4)], (4, 6, 10)), ([(1, 2), (None, 4)], (None, 6, None)), ([], (None,) * 3)],
)
def test_a_sum_with_one_unknown_part_is_unknown_and_not_zero(
    counts: list[tuple[int | None, int | None]], total: tuple[int | None, ...]
) -> None:
    rows = [EvaluationResult(1, 1, input_tokens=a, output_tokens=b) for a, b in counts]
    rows.append(EvaluationResult(None, 1, error="gone"))  # took nothing that a row could hold
    took = Spending.of(CallTotals(), rows, elapsed_seconds=1.0)
    assert (took.input_tokens, took.output_tokens, took.token_total) == total


def test_rows_carry_model_finish_reason_latency_and_failure_class_into_frames() -> None:
    frame = a_result().to_frame()
    assert frame["model"].tolist()[0] == "m-2026-01"
    assert frame["finish_reason"].tolist()[0] == "stop"
    assert frame["latency_seconds"].tolist()[0] == 0.25
    assert frame["failure_class"].tolist() == ["", "timeout", "rate_limit", "timeout"]


def test_every_stop_cause_is_kept_by_its_name_and_only_five_do_not_exit_1() -> None:
    for name, kind in STOP_CAUSES.items():
        assert StopCause.named(name, "because") == kind("because")
        assert kind("because").name == name
        assert pickle.loads(pickle.dumps(kind("because"))) == kind("because")
    codes = {name: kind.exit_code for name, kind in STOP_CAUSES.items() if kind.exit_code != 1}
    wanted = {"BudgetReached": 0, "Decided": 0, "Detached": 0}
    assert codes == {"Interrupted": 130, "UnusableConfidence": 2, **wanted}
    assert Interrupted("x") != BudgetReached("x")


def test_the_files_hold_the_stop_cause_by_type_and_sentence() -> None:
    extras = json.loads(a_result().metrics_to_json())["extras"]
    assert extras["stop_cause"] == "BudgetReached"
    assert extras["stopped"].startswith("the next call could exceed the budget")
