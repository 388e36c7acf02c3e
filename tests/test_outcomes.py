"""A case has one outcome, and nothing that a model did may vanish from a figure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.documents import said, unwrapped
from tests.invented_runs import ANSWERS, invented_rows, result_of, rows_of_every_outcome
from tests.metrics.random_rows import TASKS, random_rows
from typer.testing import CliRunner

from krisis import registry
from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.chat import ChatRequest
from krisis.backends.scripted import ScriptedBackend
from krisis.benchmark import Benchmark
from krisis.cli.app import app
from krisis.data.base import PatientRecord, RecordListSuite, Task
from krisis.decisions.certify import CertifyOptions, certify_run
from krisis.errors import InvalidValue
from krisis.metrics import usual_metrics
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.items import Source
from krisis.metrics.partition import Partition, deferral_cell, verdict
from krisis.metrics.scoring import metric_from_name, score_all
from krisis.metrics.table import Answers
from krisis.outcomes import NO_ANSWER_CLASSES, outcome_of
from krisis.results.report import format_report
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import items_of_result
from krisis.verbs.check.gate import Check, Gate, check_run
from krisis.verbs.check.page import found_words
from krisis.verbs.compare.pairs import CompareOptions, compare_runs
from krisis.verbs.decide.curve import CurveOptions, decision_curve

BEFORE = Path(__file__).parent / "fixtures" / "metrics" / "values_before_outcomes.json"
YES_NO = Task("sepsis", "Is it so?", {0: "no", 1: "yes"}, positive=1)


def suite_of(n: int, task: Task = YES_NO, n_healthy: int = 0) -> RecordListSuite:
    records = [
        PatientRecord({"marker": i}, int(i >= n_healthy), record_id=f"r{i:03d}") for i in range(n)
    ]
    return RecordListSuite(records, task)


def test_the_outcome_follows_from_the_failure_class() -> None:
    assert outcome_of(abstained=False, error=None, failure_class="") == "answered"
    assert outcome_of(abstained=True, error=None, failure_class="") == "abstained"
    for name in NO_ANSWER_CLASSES:
        assert outcome_of(abstained=False, error="x", failure_class=name) == "no_answer"
    for name in ("timeout", "auth", "rate_limit", "unavailable", "backend", ""):
        assert outcome_of(abstained=False, error="x", failure_class=name) == "not_evaluated"
    # Rows handed to a metric keep the rule of the seeds: such a prediction is a wrong answer.
    assert EvaluationResult(None, 1).outcome == "answered"
    assert verdict(EvaluationResult(None, 1)) == verdict(EvaluationResult("x", 1)) == "wrong"


def broken_on_healthy(request: ChatRequest) -> str:
    """Answer rightly, and break off the JSON on every healthy patient."""
    number = int(request.user.rpartition("marker")[2].split("\n")[0].strip(" :=-").split()[0])
    text = '{"abstained": false, "prediction": 1, "confidence": 0.9}'
    return text if number >= 23 else text[:25]


def test_a_model_that_breaks_off_on_every_healthy_patient_is_right_on_617_of_1000() -> None:
    backend = ScriptedBackend(broken_on_healthy, max_retries=0)
    result = Benchmark(suite_of(60, n_healthy=23), backend, batch_size=1).run()
    assert result.attrition.n_no_answer == 23
    scores = result.metric_scores
    assert scores["accuracy"].value == pytest.approx(37 / 60)
    assert round(scores["accuracy"].value, 3) == 0.617
    assert scores["answer_rate"].value == pytest.approx(37 / 60)
    assert scores["no_answer_rate"].value == pytest.approx(23 / 60)
    assert scores["selective_accuracy"].value == 1.0
    assert "no case of this kind was answered" in said(result.document())
    assert Check(tuple(check_run(result, Gate(("accuracy >= 0.9",))))).exit_code == 1
    assert Check(tuple(check_run(result, Gate(("no_answer_rate <= 0.01",))))).exit_code == 1
    certificate = certify_run(items_of_result(result, Source("run")), CertifyOptions(risk=0.2))
    assert (certificate.parts[0].n_rows, certificate.n_no_answer) == (60, 23)
    # A model that answers all, two of them wrongly, is better and no worse.
    good = ScriptedBackend(lambda request: '{"abstained": false, "prediction": 1}')
    rows = [
        replace(row, prediction=row.ground_truth, error=None, failure_class="")
        for row in result.evaluation_results
    ]
    rows[0] = replace(rows[0], prediction=1)
    other = BenchmarkResult(rows, score_all(usual_metrics(), rows), {}, good.name)
    delta = compare_runs({"broken": result, "good": other}).pairs[0].deltas["accuracy"]
    assert delta.delta == pytest.approx(59 / 60 - 37 / 60)
    assert delta.verdict() == "better"


class Says(BaseBackend):
    """Answers every record with one value."""

    name = "says"

    def __init__(self, value: Any) -> None:
        self.value = value

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(self.value, confidence=0.8, input_tokens=10, output_tokens=2)


@pytest.mark.parametrize(
    ("value", "kept"), [("present", "present"), (7, 7), (1.5, "1.5"), (None, None)]
)
def test_an_answer_that_is_not_allowed_is_no_answer_with_the_value_in_the_row(
    value: object, kept: object
) -> None:
    result = Benchmark(suite_of(50), Says(value)).run()
    assert {row.outcome for row in result.evaluation_results} == {"no_answer"}
    assert {row.prediction for row in result.evaluation_results} == {kept}
    assert result.attrition.n_no_answer == 50
    assert result.metric_scores["accuracy"].value == 0
    assert result.metric_scores["no_answer_rate"].value == 1
    report = format_report(result)
    assert report.startswith("50 of 50 records WITHOUT AN ANSWER")
    if kept is not None:
        assert f"{kept!r} is not one of the allowed answers (0, 1)" in said(result.document())


@pytest.mark.parametrize("value", [True, "1", 1.0, np.int64(1), " 1"])
def test_every_way_to_write_an_answer_is_that_answer(value: object) -> None:
    result = Benchmark(suite_of(3), Says(value)).run()
    assert [row.prediction for row in result.evaluation_results] == [1, 1, 1]
    assert result.metric_scores["accuracy"].value == 1


def test_a_label_outside_the_answers_is_refused_before_the_first_call() -> None:
    backend = Says(1)
    records = [PatientRecord({"a": 1}, "present", record_id="r")]
    with pytest.raises(InvalidValue, match=r"the label 'present' is none of the answers .*0, 1"):
        Benchmark(RecordListSuite(records, YES_NO), backend).run()


def lost(n: int, *, of: int, error: str = "no reply in 60 s") -> list[EvaluationResult]:
    rows = list(invented_rows(of))
    rows = [replace(row, error=None, failure_class="", prediction=row.ground_truth) for row in rows]
    rows = [replace(row, abstained=False, confidence=row.confidence or 0.5) for row in rows]
    return [
        replace(row, error=error, failure_class="timeout", prediction=None) if i < n else row
        for i, row in enumerate(rows)
    ]


def test_a_run_with_340_of_400_calls_lost_is_not_judged(tmp_path: Path) -> None:
    saved = result_of(Rows(lost(340, of=400), ANSWERS)).save(tmp_path / "run.json")
    asked = ["check", str(saved), "--require", "lower(accuracy) >= 0.9"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 2
    assert "NOT JUDGED" in done.output
    assert "340 of 400 cases (85 %) were not evaluated" in unwrapped(done.output)
    assert CliRunner().invoke(app, [*asked, "--max-not-evaluated", "0.9"]).exit_code == 0
    rate = ["check", str(saved), "--require", "not_evaluated_rate <= 0.05"]
    assert CliRunner().invoke(app, rate).exit_code == 1
    for verb in (["certify", "--risk", "0.3"], ["decide", "--curve"]):
        refused = CliRunner().invoke(app, [verb[0], str(saved), *verb[1:]])
        assert isinstance(refused.exception, InvalidValue)
        assert "is not judged: 340 of 400 cases" in str(refused.exception)


def test_shares_and_mean_losses_carry_their_bounds() -> None:
    rows = Rows(lost(4, of=100), ANSWERS)
    scores = score_all([metric_from_name(n) for n in ("accuracy", "brier_score", "aurc")], rows)
    assert scores["accuracy"].bounds == (96 / 100, 1.0)
    value = scores["brier_score"].value
    assert scores["brier_score"].bounds == pytest.approx((0.96 * value, 0.96 * value + 0.04))
    assert (scores["aurc"].bounds, scores["aurc"].details["bounds"]) == (None, "not bounded")
    diseased = sum(row.ground_truth == 1 for row in rows[:4])
    n = sum(row.ground_truth == 1 for row in rows)
    sensitivity = score_all([metric_from_name("disease_sensitivity")], rows)["disease_sensitivity"]
    assert sensitivity.bounds == pytest.approx(((n - diseased) / n, 1.0))
    stored = BenchmarkResult(rows, scores, {}, "m")
    again = BenchmarkResult.from_dict(json.loads(stored.to_json()))
    assert again.metric_scores["accuracy"].bounds == (0.96, 1.0)
    assert score_all([metric_from_name("accuracy")], rows[4:])["accuracy"].bounds is None


def test_a_verdict_that_depends_on_the_missing_cases_says_so() -> None:
    run = result_of(Rows(lost(4, of=100), ANSWERS))
    (found,) = check_run(run, Gate(("accuracy >= 0.98",)), max_not_evaluated=0.05)
    assert found.state == "met"
    assert found.bounds == (0.96, 1.0)
    assert "depends on the missing cases: 0.960 to 1.000 once the 4" in found_words(found)


def answering(pattern: Callable[[int], str], n: int = 200) -> BenchmarkResult:
    """Return a run of + right, - wrong, x without a reply, by the number of the case."""
    rows = [
        EvaluationResult(
            None if (mark := pattern(i)) == "x" else int(mark == "+"),
            1,
            confidence=None if mark == "x" else 0.9,
            record_id=f"r{i}",
            error="no reply" if mark == "x" else None,
            failure_class="timeout" if mark == "x" else "",
        )
        for i in range(n)
    ]
    return BenchmarkResult(rows, score_all(usual_metrics(), rows), {}, "m")


def test_a_third_run_with_time_outs_leaves_the_first_pair_as_it_is() -> None:
    a = answering(lambda i: "-" if i % 20 == 0 else "+")
    b = answering(lambda i: "-" if i % 8 == 0 else "+")
    c = answering(lambda i: "x" if i > 30 else "+")
    options = CompareOptions(metrics=("accuracy",))
    two = compare_runs({"a": a, "b": b}, options)
    three = compare_runs({"a": a, "b": b, "c": c}, options)
    alone, beside = (one.pairs[0].deltas["accuracy"] for one in (two, three))
    assert (alone.delta, alone.p_value) == (beside.delta, beside.p_value)
    assert alone.verdict() == beside.verdict() == "worse"
    bases = [pair.matched.n_compared for pair in three.pairs if pair.matched]
    assert bases == [200, 31, 31]
    # The run that lacks most cases is not the best: its worse bound is what counts.
    assert three.tied_with_best()["accuracy"] == ["a", "c"]
    assert three.to_dict()["pairs"][1]["n_compared"] == 31


def test_the_best_by_the_cases_it_answered_is_not_the_best_by_its_worse_bound() -> None:
    whole = answering(lambda i: "-" if i % 4 == 0 else "+")
    short = answering(lambda i: "x" if i % 4 else "+")  # right wherever the other is wrong
    found = compare_runs({"whole": whole, "short": short}, CompareOptions(metrics=("accuracy",)))
    assert found.pairs[0].deltas["accuracy"].verdict() == "better"
    assert found.tied_with_best()["accuracy"] == ["whole"]
    assert found.depends_on_missing("accuracy")
    assert found.to_dict()["depends_on_missing"] == ["accuracy"]


def test_the_missing_cases_are_tested_against_the_rest() -> None:
    whole = answering(lambda i: "-" if i < 50 else "+")
    short = answering(lambda i: "x" if i < 50 else "+")
    (found,) = compare_runs({"whole": whole, "short": short}).pairs[0].missing
    assert (found.lacks, found.other) == ("short", "whole")
    assert (found.n_missing, found.n_right_missing) == (50, 0)
    assert (found.n_common, found.n_right_common) == (150, 150)
    assert found.differs
    alike = answering(lambda i: "x" if i % 4 == 0 else "+")
    other = answering(lambda i: "-" if i % 5 == 0 else "+")
    (found,) = compare_runs({"other": other, "alike": alike}).pairs[0].missing
    assert not found.differs


@pytest.mark.parametrize("words", [("N", "Y"), ("alive", "dead")])
def test_two_words_are_scored_as_0_and_1(words: tuple[str, str]) -> None:
    coded = random_rows("two_numbers")
    named = Rows(
        (
            replace(
                row,
                ground_truth=words[int(row.ground_truth)],
                prediction=None if row.prediction is None else words[int(row.prediction)],
            )
            for row in coded
        ),
        Answers(words, ordered=True, positive=words[1]),
    )
    metrics = [metric_from_name(name) for name in sorted(registry.table("metrics"))]
    first, second = (score_all(metrics, rows) for rows in (coded, named))
    for label, score in first.items():
        assert second[label].value == pytest.approx(score.value, nan_ok=True), label
    for key in ("brier_score", "disease_sensitivity", "disease_auroc", "disease_auprc"):
        assert not math.isnan(second[key].value)
    curves = []
    for rows in (coded, named):
        items = items_of_result(BenchmarkResult(rows, {}, {}, "m"), Source("run"))
        items = replace(items, table=items.table.with_answers(rows.answers or Answers()))
        score = replace(CurveOptions().score, max_not_evaluated=1)
        found = decision_curve(items, CurveOptions(score=score))
        curves.append([[p.net_benefit for p in points] for points in found.curves.values()])
    np.testing.assert_allclose(curves[0], curves[1])


def test_words_without_a_positive_answer_name_the_key_to_set() -> None:
    rows = [EvaluationResult("Y", "Y", confidence=0.9), EvaluationResult("N", "Y", confidence=0.6)]
    facts = {"task_facts": {"name": "t", "answers": [["N", "no"], ["Y", "yes"]]}}
    named = Rows(rows, Answers(("N", "Y")))
    scores = score_all(usual_metrics(), named)
    assert not math.isnan(scores["brier_score"].value)
    result = BenchmarkResult(rows, scores, {}, "m", facts)
    assert "name it with `positive`" in said(result.document())


def test_tokens_are_everything_used_of_which_lost() -> None:
    def reply(request: ChatRequest) -> Any:
        from krisis.backends.chat import ChatReply

        broken = "marker: 1\n" in request.user or request.user.rstrip().endswith("marker: 1")
        text = '{"abstained": false, "prediction": 1, "confidence": 0.9}'
        return ChatReply(
            text[:10] if broken else text, "stop", "m", input_tokens=100, output_tokens=10
        )

    backend = ScriptedBackend(reply, max_retries=0)
    result = Benchmark(suite_of(3), backend, batch_size=1).run()
    n_lost = result.attrition.n_no_answer
    took = result.spending
    assert took.n_api_calls is not None
    assert took.input_tokens == 100 * took.n_api_calls
    assert took.output_tokens == 10 * took.n_api_calls
    assert took.token_total == 110 * took.n_api_calls
    assert n_lost == 1
    assert took.lost_input_tokens == 100 * (took.n_api_calls - 2) > 0
    own = Benchmark(suite_of(4), Says("present")).run().spending
    assert (own.token_total, own.lost_input_tokens, own.lost_output_tokens) == (48, 40, 8)


def test_the_partition_has_every_case_once() -> None:
    rows = rows_of_every_outcome()
    found = Partition.of(rows.table)
    parts = (found.safe, found.due, found.unlabelled)
    assert sum(part.n for part in parts) + found.not_evaluated == len(rows)
    cells = [deferral_cell(row) for row in rows]
    assert {cell: cells.count(cell) for cell in set(cells) - {""}} == found.confusion()
    assert found.safe.no_answer > 0
    assert found.due.no_answer > 0
    scores = score_all([metric_from_name("deferral_alignment")], rows)["deferral_alignment"]
    assert scores.details["confusion"] == found.confusion()
    aligned = found.due.abstained + found.safe.answered
    assert scores.value == pytest.approx(aligned / (found.due.n + found.safe.n))
    silent = sum(row.outcome in ("abstained", "no_answer") for row in rows)
    assert found.left_for_people == silent


@pytest.mark.parametrize("kind", TASKS)
def test_every_metric_has_the_value_it_had_on_rows_without_the_new_outcomes(kind: str) -> None:
    before = json.loads(BEFORE.read_text(encoding="utf-8"))[kind]
    known = [name for name in before if name in registry.table("metrics")]
    assert len(known) >= 30
    scores = score_all([metric_from_name(name) for name in known], random_rows(kind))
    for score in scores.values():
        value, n_evaluated, n_abstained = before[score.key]
        expected = math.nan if value is None else value
        found = score.value
        if score.key.startswith("risk_at_"):  # now at exactly the coverage; this is the old one
            found = score.details.get("risk_at_achieved_coverage", found)
        assert found == pytest.approx(expected, rel=1e-9, nan_ok=True), score.key
        assert (score.n_evaluated, score.n_abstained) == (n_evaluated, n_abstained), score.key
