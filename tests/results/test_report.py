"""The report of a run says first what became of the records, then every figure."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from tests.documents import facts, has_row, line_of, said, tables
from tests.invented_runs import TASK, invented_rows
from tests.invented_runs import result_of as invented_result

from krisis.costs import Costs
from krisis.metrics import (
    BootstrapOptions,
    EvaluationResult,
    Interval,
    score_all,
    usual_metrics,
)
from krisis.metrics.scoring import metric_from_name
from krisis.pages.numbers import Estimate, figure
from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of
from krisis.pages.terminal import terminal_text
from krisis.results.account import EXECUTION_FIELDS
from krisis.results.report import (
    format_json_report,
    format_metrics_json_report,
    format_report,
)
from krisis.results.result import BenchmarkResult
from krisis.results.suite_facts import SuiteFacts
from krisis.task_facts import TaskFacts


def result_of(rows: list[EvaluationResult], **extras: object) -> BenchmarkResult:
    scores = score_all(usual_metrics(), rows)
    return BenchmarkResult(rows, scores, {"suite": "toy", "task": "detection"}, "rule", extras)


ANSWERED = EvaluationResult(1, 1, confidence=0.5, metadata={"should_abstain": False})
FAILED = EvaluationResult(None, 1, error="no answer", failure_class="timeout")


def test_the_first_line_is_the_attrition() -> None:
    first = format_report(result_of([ANSWERED], n_loaded=3)).splitlines()[0]
    assert first == "Records: 3 loaded → 1 sent → 1 answered / 0 abstained"


def test_failures_are_said_first() -> None:
    first = format_report(result_of([ANSWERED, FAILED])).splitlines()[0]
    assert first.startswith("1 of 2 records NOT EVALUATED: ")


def test_undefined_metrics_are_named_with_their_reason() -> None:
    document = result_of([ANSWERED]).document()
    assert "Balanced Accuracy is undefined: all cases have the same right answer" in said(document)
    assert "nan" not in format_report(result_of([ANSWERED]))


def test_intervals_are_shown_with_their_method() -> None:
    result = result_of([ANSWERED])
    result.metric_scores["accuracy"].interval = Interval(0.2, 1.0, method="mid_p")
    document = result.document()
    cells = line_of(document, "Accuracy")
    assert cells["value (95 % interval)"] == Estimate(1.0, 0.2, 1.0)
    assert cells["n"] == 1
    assert "mid_p: " in said(document)


def test_both_sides_of_deferral_and_the_trivial_policies_are_shown() -> None:
    document = result_of([ANSWERED]).document()
    cells = line_of(document, "all cases")
    assert (cells["n"], cells["due"], cells["answered"]) == (1, 0, 1.0)
    assert (cells["aligned"], cells["if all answered"]) == (1.0, 1.0)
    for undefined in ("deferred", "mean", "MCC"):
        value = cells[undefined]
        assert isinstance(value, float)
        assert math.isnan(value)
    assert not has_row(document, "uncertain")
    assert not any(one.columns[0].heading == "reason to defer" for one in tables(document))
    assert line_of(document, "safe to answer")["right"] == 1


def with_task(n_rows: int = 60, **metadata: object) -> BenchmarkResult:
    """Return a run whose rows say why deferral is due and whether the label hangs on a prior."""
    rows = invented_rows(n_rows)
    for i, row in enumerate(rows):
        due = row.metadata["should_abstain"]
        row.metadata |= {
            "deferral_kind": ("uncertain", "rule")[i % 2] if due else None,
            "abstain_reasons": [("category_uncertain", "child")[i % 2]] if due else [],
            "label_depends_on_prior": i % 5 == 0,
        } | {name: value(i) if callable(value) else value for name, value in metadata.items()}
    made = invented_result(rows)
    made.suite_description["deferral"] = {"risk": 0.2}
    return made.scored(usual_metrics(), BootstrapOptions(n_resamples=50))


def test_the_disease_is_named_and_shown_with_both_denominators() -> None:
    result = with_task()
    document = result.document()
    assert "Disease: the disease is present, against all other answers." in said(document)
    assert "disease_sensitivity" not in result.metric_scores  # the page asks for it
    score = result.also_scored(["disease_sensitivity"]).metric_scores["disease_sensitivity"]
    assert score.interval is not None
    (table,) = [one for one in tables(document) if one.columns[0].heading == "figure"]
    cells = next(cells for cells in table.rows if cells[0] == "Disease Sensitivity")
    assert list(cells[1:]) == [
        Estimate(score.value, score.interval.low, score.interval.high),
        f"{score.details['n_right']} of {score.n_evaluated}",
        score.details["end_to_end"],
        f"{score.details['n_right']} of {score.details['n_cases']}",
    ]
    matrix = next(one for one in tables(document) if one.columns[0].heading == "truth")
    assert [one.heading for one in matrix.columns] == [
        "truth",
        "0",
        "1",
        "abstained",
        "not evaluated",
        "all",
    ]
    assert sum(int(cells[-1]) for cells in matrix.rows) == 60


def test_sensitivity_never_stands_alone() -> None:
    made = with_task()
    for result in (made, result_of([ANSWERED])):
        for text in (said(result.document()), page_of(run_document(result))):
            places = re.finditer("sensitivity|specificity", text, flags=re.IGNORECASE)
            around = [text[max(0, found.start() - 90) : found.end() + 14] for found in places]
            assert around or result is not made
            assert all("isease" in words or "deferral" in words for words in around)


def test_a_task_without_a_positive_answer_shows_the_matrix_and_says_so() -> None:
    plain = {**TASK, "positive": None}
    result = BenchmarkResult([ANSWERED], {}, {}, "rule", {"task_facts": plain})
    document = result.scored(usual_metrics(), BootstrapOptions()).document()
    assert "The task names no positive answer, so no sensitivity of a disease" in said(document)
    assert not has_row(document, "Disease Sensitivity")
    cells = line_of(document, "1: the disease is present")
    assert list(cells.values())[1:] == [0, 1, 1]


def test_deferral_is_shown_by_kind_by_prior_and_by_reason_with_the_risk_in_force() -> None:
    result = with_task()
    document = result.document()
    details = result.metric_scores["deferral_alignment"].details
    for name, part in (
        ("uncertain", details["by_kind"]["uncertain"]),
        ("by a rule", details["by_kind"]["rule"]),
        ("depends on prior", details["by_prior"]["depends_on_prior"]),
    ):
        cells = line_of(document, name)
        assert cells["n"] == part["n_labeled"]
        assert cells["deferred"] == part["sensitivity"]
        assert cells["if all answered"] == part["always_answer"]
    counts = details["by_reason"]["child"]
    cells = line_of(document, "child")
    assert (cells["due"], cells["deferred"]) == (counts["n_due"], counts["n_deferred"])
    sentence = "A case should be deferred if the best answer is wrong with a probability of 0.2"
    assert sentence in said(document)
    page = page_of(run_document(result))
    for words in (sentence, "by a rule", "reason to defer", "What was answered to which truth"):
        assert words in page


def test_rules_are_shown_as_a_checklist_apart_from_what_was_due() -> None:
    child, plain = {"rules": ["child"]}, {"rules": []}
    due, safe = (
        {"should_abstain": flag, "abstain_reasons": [], "deferral_kind": None}
        for flag in (True, False)
    )
    rows = [
        EvaluationResult(None, 1, True, metadata=safe | child),  # follows a rule, needlessly
        EvaluationResult(1, 1, metadata=safe | child),
        EvaluationResult(None, 1, True, metadata=due | plain),  # follows none, and is due
        EvaluationResult(0, 1, metadata=safe | plain),
    ]
    result = result_of(rows)
    lines = terminal_text(result.document()).splitlines()
    cells = {line[:8].strip(): line[8:].split() for line in lines if line[:5] in RULE_LINES}
    assert cells == {
        "child": ["2", "1", "50", "%", "1", "1"],
        "any rule": ["2", "1", "50", "%", "1", "1"],
        "no rule": ["2", "1", "50", "%", "1", "0"],
    }
    said = "Rules are a checklist, not the truth: 1 of 2 deferrals follow a rule."
    assert any(line.startswith(said) for line in lines)
    page = page_of(run_document(result))
    assert '<th scope="row">any rule</th>' in page
    assert said in page
    without = result_of([EvaluationResult(1, 1, metadata=safe | plain)])
    assert "checklist" not in terminal_text(without.document())


RULE_LINES = ("child", "any r", "no ru")


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"risk": 0.1234}, "a probability of 0.1234 or more."),
        ({"risk": 0.9999}, "a probability of 0.9999 or more."),
        ({"risk": 0.000012}, "a probability of 0.000012 or more."),
        ({"margin_ml_min": 2.5}, "within 2.5 mL/min/1.73 m² of a limit of the stages."),
        ({"risk": 0.2, "words": "Defer what is not known."}, "Defer what is not known."),
    ],
)
def test_the_figure_of_the_deferral_rule_is_printed_with_all_its_digits(
    stated: dict[str, float], words: str
) -> None:
    assert words in SuiteFacts.of({"deferral": stated}).deferral


def test_what_a_suite_says_of_its_patients_stands_in_every_report() -> None:
    account = "clinic.csv: 400 patients read; " + "28 left out (why); " * 30 + "73 evaluated"
    result = result_of([ANSWERED])
    assert "Data" not in facts(result.document())
    result.suite_description["account"] = account
    assert facts(result.document())["Data"] == account
    assert result.document().title == "toy / detection · rule"
    assert f"<dt>account</dt><dd>{account}</dd>" in page_of(run_document(result))


def test_no_headline_puts_real_and_synthetic_patients_together() -> None:
    result = with_task(synthetic=lambda i: bool(i % 3))
    document, page = result.document(), page_of(run_document(result))
    together = result.metric_scores["accuracy"].value
    assert document.verdict is not None
    assert document.verdict.about == "real patients"
    for source, scores in result.scores_by_source.items():
        value = scores["accuracy"].value
        assert value != together
        for kind in ("metrics", "deferral", "disease"):
            assert document.section(f"{kind}-{source}").title.endswith(f", {source} patients")
        table, *_ = tables(replace(document, sections=[document.section(f"metrics-{source}")]))
        assert table.rows[0][0] == "Accuracy"
        cell = table.rows[0][1]
        assert isinstance(cell, Estimate)
        assert cell.value == value
        assert f"<summary>Metrics, {source} patients</summary>" in page
        assert figure(cell).replace(" (", ' <span class="nowrap">(') in page
    assert not {"metrics", "deferral", "disease"} & {one.key for one in document.sections}
    assert "is over real and synthetic patients" in page
    assert "Verdict on the real patients" in page
    assert "Verdict on the real patients:" in format_report(result)


def test_words_of_a_model_steer_no_terminal_and_stay_in_their_line() -> None:
    said = EvaluationResult("\x1b]0;t\x07\nmild", "mild", confidence=0.5, model="m\x9b2J")
    result = result_of([said, EvaluationResult("mild", "mild", confidence=0.5)])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", format_report(result))
    text = terminal_text(result.document())
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert "[U+001B]]0;t[U+0007]" in text


def test_execution_is_shown_where_known() -> None:
    found = facts(result_of([ANSWERED], elapsed_seconds=1.25, prompt_modes=["batch"]).document())
    assert (found["elapsed_seconds"], found["prompt_modes"]) == ("1.25", "batch")
    assert "token_total" not in found


def test_all_fifteen_execution_fields_are_in_the_text_report() -> None:
    unknown = facts(result_of([ANSWERED], batch_size=8).document())
    assert set(EXECUTION_FIELDS) <= set(unknown)
    assert len(EXECUTION_FIELDS) == 15
    assert unknown["token_total"] == "not known"
    known = result_of([ANSWERED], batch_size=8, input_tokens=3, prompt_templates=["a", "b"])
    found = facts(known.document())
    assert found["input_tokens"] == "3"
    assert found["prompt_templates"] == "2 in extras.prompt_templates of the JSON report"
    assert len(json.loads(format_json_report(known))["extras"]["prompt_templates"]) == 2


def test_replies_from_the_cache_explain_why_no_call_was_made() -> None:
    cached = facts(result_of([ANSWERED], n_api_calls=0, n_cache_hits=4).document())
    assert (cached["n_api_calls"], cached["n_cache_hits"]) == ("0", "4")
    called = result_of([ANSWERED], n_api_calls=4, n_cache_hits=0)
    assert "n_cache_hits" not in facts(called.document())


def test_the_json_reports_differ_only_in_the_rows() -> None:
    result = result_of([ANSWERED])
    full, metrics = (
        json.loads(format_json_report(result)),
        json.loads(format_metrics_json_report(result)),
    )
    assert full.pop("evaluation_results")
    assert (full.pop("kind"), metrics.pop("kind")) == ("krisis.result", "krisis.metrics")
    assert full == metrics


def test_a_run_over_part_of_a_suite_says_so() -> None:
    description = {"suite": "toy", "task": "detection", "limit": 1, "n_records": 200}
    result = BenchmarkResult([ANSWERED], {}, description, "rule")
    assert result.document().title == "toy / detection (first 1 of 200 records) · rule"


def test_failures_without_an_answer_show_no_figure() -> None:
    abstained = EvaluationResult(None, 1, abstained=True)
    report = format_report(result_of([FAILED, abstained]))
    assert report.startswith("1 of 2 records NOT EVALUATED: ")
    assert "No record was answered, so there is nothing to score." in report
    assert "Accuracy" not in report


def test_a_run_that_only_abstained_is_a_result() -> None:
    report = format_report(result_of([EvaluationResult(None, 1, abstained=True)]))
    assert "Abstention Rate" in report


def test_errors_that_are_more_confident_than_right_answers_are_pointed_out() -> None:
    rows = [EvaluationResult(int(stated < 0.8), 1, confidence=stated) for stated in (0.5, 0.6, 0.9)]
    shown = said(result_of(rows).also_scored(["aurc"]).document())
    assert "Wrong answers are more confident (90 % on average) than right ones (55 %)" in shown
    turned = [
        EvaluationResult(int(row.confidence > 0.8), 1, confidence=row.confidence) for row in rows
    ]
    assert "more confident (" not in format_report(result_of(turned).also_scored(["aurc"]))
    assert "more confident (" not in format_report(result_of(rows[:2]).also_scored(["aurc"]))
    # The means of nine and of fourteen times 0.6 are not the same float.
    equal = [EvaluationResult(int(n > 8), 1, confidence=0.6) for n in range(23)]
    assert "more confident (" not in format_report(result_of(equal).also_scored(["aurc"]))


def test_the_room_is_said_where_decision_skill_is_scored() -> None:
    task = TaskFacts("t", ((0, "no"), (1, "yes")), costs=Costs(price=0.2))
    sure = [{"answer_probabilities": {str(truth): 1.0}} for truth in (0, 1)]
    rows = [
        EvaluationResult(1, 1, metadata=sure[1]),
        EvaluationResult(0, 0, metadata=sure[0]),
        EvaluationResult(None, 1, True, metadata=sure[1]),
    ]
    plain = BenchmarkResult(rows, {}, {}, "m", {"task_facts": task})
    scored = plain.scored([metric_from_name("decision_skill")], BootstrapOptions())
    found = said(scored.document())
    costs = "best possible 0.000; best constant policy (always defer) 0.200; this model 0.067"
    assert f"Cost per case at a price of 0.2 per deferral: {costs}." in found
    assert "Cost per case" not in said(plain.document())
