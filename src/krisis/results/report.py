"""Reports for people and programs: compact text, full JSON, metrics-only JSON."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from krisis.display import format_interval, format_value
from krisis.json_values import JsonMapping, JsonValue
from krisis.metrics.base import MetricScore, MetricScores
from krisis.metrics.explanations import explained, method_lines, methods_of
from krisis.results.account import EXECUTION_FIELDS, Spending, TaskFacts
from krisis.results.attrition import Attrition
from krisis.results.report_tables import (
    DISEASE_KEYS,
    deferral_table,
    deferral_words,
    disease_table,
    disease_words,
    has_no_disease,
    headline_words,
    matrix_table,
    mixture,
    note_lines,
    reason_table,
    risk_sentence,
    rule_table,
    rule_words,
    stopping_lines,
)
from krisis.statistics.intervals import interval_heading

if TYPE_CHECKING:
    from krisis.results.base import BenchmarkResult

NOTHING_ANSWERED = "No record was answered, so there is nothing to score."
MOST_ANSWERS_SHOWN = 12  # a wider matrix does not fit a terminal
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Wider tables are turned: a line per figure.
_WIDEST_TABLE = 160
_BASELINE_COLUMNS = {
    "Accuracy": "Accuracy",
    "Selective Accuracy (answered only)": "Selective",
    "Answer Rate (Coverage)": "Coverage",
    "Deferral Alignment": "Deferral",
    "Expected Calibration Error": "Calibration",
}


def format_report(result: BenchmarkResult) -> str:
    """Return the compact text report, its first line being what became of the records.

    Where no reply came, no figure is shown: it would be read as the model's.
    """
    counts = result.attrition
    opening = [
        [*([result.damage] if result.damage else []), str(counts), *stopping_lines(result)],
        failure_lines(counts),
        heading_lines(result),
    ]
    if counts.says_nothing:
        return _joined([*opening, [NOTHING_ANSWERED], _execution(result)])
    task = result.provenance.task_facts
    if result.scores_by_source:
        figures = [[mixture(result)]]
        for source, found in result.scores_by_source.items():
            figures += [
                [f"══ {source.capitalize()} patients ══"],
                *_figures(MetricScores(found), task),
            ]
    else:
        figures = _figures(result.metric_scores, task)
    leading = headline_words(result)
    opening += [[f"Headline: {leading}"] if leading else []]
    risk = risk_sentence(result.suite_description)
    return _joined(
        [*opening, *figures, [risk] if risk else [], _baseline_lines(result), _execution(result)]
    )


def _figures(scores: MetricScores, task: TaskFacts | None) -> list[list[str]]:
    """Return every block about the scores of one kind of patients."""
    return [
        _metric_table(scores),
        method_lines(methods_of(scores.values())),
        _undefined(scores),
        note_lines(scores),
        _calibration(scores),
        _confident_errors(scores),
        _disease(scores, task),
        _deferral(scores),
    ]


def failure_lines(attrition: Attrition) -> list[str]:
    """Return why records have no answer: each class with its count and one example."""
    if not attrition.failures:
        return []
    width = max(map(len, attrition.failures))
    n_width = len(str(attrition.n_lost))
    return [
        "Records without an answer by class, with one example each:",
        *(
            f"  {name.ljust(width)}  {str(kind.n).rjust(n_width)}  {_one_line(kind.example)}"
            for name, kind in attrition.failures.items()
        ),
    ]


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:199]}…"


def _joined(blocks: Sequence[Sequence[str]]) -> str:
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    return _CONTROL.sub("\ufffd", text)  # words of a model must not steer the terminal


def format_json_report(result: BenchmarkResult) -> str:
    """Return the full result as strict JSON."""
    return result.to_json()


def format_metrics_json_report(result: BenchmarkResult) -> str:
    """Return the scores with backend, suite and execution as strict JSON."""
    return result.metrics_to_json()


def heading_lines(result: BenchmarkResult) -> list[str]:
    """Return the suite, the backend and where the data come from."""
    made = result.provenance
    parts = [part for part in (made.suite, made.task, made.features, made.mode) if part]
    first = f" (first {made.limit} of {made.n_records} records)"
    cut = first if made.limit and made.n_records else ""
    lines = [f"Suite:   {' / '.join(parts) or 'unnamed'}{cut}"]
    account = result.suite_description.get("account")
    data = [f"Data:    {account}"] if isinstance(account, str) and account else []
    if isinstance(read := result.suite_description.get("read"), str):
        data.append(f"Read:    {read} records; the others are not part of this run")
    lines.append(f"Backend: {result.backend_name or 'unnamed'}")
    asked = [f"Asked:   {made.asking}"] if made.asking else []
    return [*lines, *asked, *data, *import_lines(result)]


def import_lines(result: BenchmarkResult) -> list[str]:
    """Return where imported rows come from and what each field was taken for."""
    imported = result.provenance.imported
    if imported is None:
        return []
    width = max(map(len, imported.taken_for), default=0)
    return [
        f"IMPORTED {imported}",
        *(f"  {name.ljust(width)}  {place}" for name, place in imported.taken_for.items()),
        *(f"  {note}" for note in imported.notes),
    ]


def _metric_table(scores: MetricScores) -> list[str]:
    general = [score for score in scores.values() if score.key not in DISEASE_KEYS]
    heading = interval_heading(score.interval for score in general)
    head = ("Metric", "Value", heading, "Method", "n")
    rows = [head, *map(_metric_row, general)]
    if not any(row[2] for row in rows[1:]):
        rows = [(row[0], row[1], row[4]) for row in rows]  # type: ignore[misc]
    lines = _aligned(rows)
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]] if general else []


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _table_lines(rows: Sequence[JsonMapping]) -> list[str]:
    """Write a table of named cells, none where there is no row."""
    if not rows:
        return []
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    return _aligned([[_one_line(cell) for cell in row] for row in cells])


def _cell(value: object) -> str:
    return format_value(value) if isinstance(value, float) else str(value)


def _metric_row(score: MetricScore) -> tuple[str, str, str, str, str]:
    interval = format_interval(score.interval)
    method = score.interval.method if score.interval and interval else ""
    return score.name, format_value(score.value), interval, method, str(score.n_evaluated)


def _calibration(scores: MetricScores) -> list[str]:
    score = scores.get("expected_calibration_error")
    if score is None or math.isnan(score.value) or "null_value" not in score.details:
        return []
    null_value = format_value(score.details["null_value"])
    expected = f"a perfectly calibrated model would show an error of {null_value}"
    return [f"Calibration: {expected} on {score.n_evaluated} rows"]


def _confident_errors(scores: MetricScores) -> list[str]:
    score = scores.get("aurc")
    details = score.details if score is not None else {}
    right, wrong = (details.get(f"mean_confidence_{kind}") for kind in ("right", "wrong"))
    # Means of equal confidences differ in their last bits.
    if right is None or wrong is None or wrong <= right or math.isclose(wrong, right):
        return []
    means = f"({format_value(wrong)} on average) than right ones ({format_value(right)})"
    advice = "the interval of AURC may be short, prefer AUGRC"
    return [f"Confidence: wrong answers are more confident {means}; {advice}"]


def _undefined(scores: MetricScores) -> list[str]:
    without: dict[str, list[str]] = {}  # names by the reason why they have no interval
    for score in scores.values():
        if score.interval and score.interval.reason and not math.isnan(score.value):
            without.setdefault(score.interval.reason, []).append(score.name)
    return [
        f"{score.name} is undefined: "
        + explained(str(score.details.get("reason", "no reason was given")))
        for score in scores.values()
        if math.isnan(score.value) and not has_no_disease(score)
    ] + [
        f"{', '.join(names)} {'have' if names[1:] else 'has'} no interval: {explained(reason)}"
        for reason, names in without.items()
    ]


def _disease(scores: MetricScores, task: TaskFacts | None) -> list[str]:
    """Return the figures of the disease and what was answered to which truth."""
    matrix = matrix_table(scores, task)
    words = disease_words(scores, task)
    lines = [*([words] if words else []), *_table_lines(disease_table(scores))]
    if not matrix or len(matrix) > MOST_ANSWERS_SHOWN:
        return lines
    return [*lines, *([""] if lines else []), *_table_lines(matrix)]


def _deferral(scores: MetricScores) -> list[str]:
    score = scores.get("deferral_alignment")
    if score is None or math.isnan(score.value):
        return []
    counts = ", ".join(f"{count} {name}" for name, count in score.details["confusion"].items())
    reasons, rules = (_table_lines(made(score)) for made in (reason_table, rule_table))
    return [
        f"Deferral: {counts}",
        *_table_lines(deferral_table(score)),
        *textwrap.wrap(deferral_words(score), 100),
        *(["", *reasons] if reasons else []),
        *(["", *rules, *textwrap.wrap(rule_words(score), 100)] if rules else []),
    ]


def _baseline_lines(result: BenchmarkResult) -> list[str]:
    """Return the run first, then every baseline on the same records."""
    shown = baseline_table(result)
    if not shown:
        return []
    head = next(iter(shown.values()))
    width = max(map(len, shown))
    widths = [max(13, len(heading) + 2) for heading in head]
    if width + sum(widths) > _WIDEST_TABLE:
        return _aligned(list(zip(*([one, *cells] for one, cells in shown.items()), strict=True)))
    return [
        one.ljust(width) + "".join(map(str.rjust, cells, widths)) for one, cells in shown.items()
    ]


def baseline_table(result: BenchmarkResult) -> dict[str, list[str]]:
    """Return the headings, the run and its baselines by name; nothing where there are none."""
    if not result.baselines:
        return {}
    own = {
        f"this run: {result.backend_name} ({source})": scores
        for source, scores in result.scores_by_source.items()
    } or {f"this run: {result.backend_name}": result.metric_scores}
    table = {**own, **result.baselines}
    task = result.provenance.task_facts
    own_metrics = [result.metric_scores.get(key) for key in (task.metrics if task else ())]
    named = {score.name: score.name for score in own_metrics if score is not None}
    columns = {**named, **_BASELINE_COLUMNS}
    names = [name for name in columns if name in result.metric_scores]
    if not names:  # the run was scored with others
        scored = {name for scores in result.baselines.values() for name in scores}
        names = [name for name in result.metric_scores if name in scored]
        columns = dict(zip(names, names, strict=True))
    if not names:
        return {}
    shown = {one: [_baseline_cell(found.get(n)) for n in names] for one, found in table.items()}
    return {"Baselines on the same records": [columns[name] for name in names], **shown}


def _baseline_cell(score: MetricScore | None) -> str:
    return "not scored" if score is None else format_value(score.value)


def _execution(result: BenchmarkResult) -> list[str]:
    """Return how the run went, under the names that the JSON reports have in ``extras``."""
    took, known = result.spending, result.extras
    if known.get("prompt_templates"):
        n = len(known["prompt_templates"])
        known["prompt_templates"] = f"{n} in extras.prompt_templates of the JSON report"
    unknown = None if result.provenance.batch_size is None else "not known"
    facts: dict[str, JsonValue] = {
        **{name: unknown if known.get(name) is None else known[name] for name in EXECUTION_FIELDS},
        "tokens_lost": _lost_tokens(took) or None,
        "token_total_reported": took.token_total_reported,
        "n_api_calls": took.n_api_calls,
        "n_batch_calls": took.n_batch_calls,
        # Most runs ask a model that has no cache: there a zero would only raise a question.
        "n_cache_hits": took.n_cache_hits or None,
        "n_retries": took.n_retries,
        "n_batch_splits": took.n_batch_splits,
        "cost": took.cost if took.cost_unknown is None else f"unknown, {took.cost_unknown}",
        "n_dropped_fields": took.n_dropped_fields or None,
        "models_answered": list(result.provenance.models_answered) or None,
        "seed": result.provenance.seed,
    }
    shown = {name: value for name, value in facts.items() if value is not None}
    width = max(map(len, shown), default=0)
    return [f"{name.ljust(width)}  {_figure(value)}" for name, value in shown.items()]


def _lost_tokens(took: Spending) -> str:
    """Say how many of the tokens led to no answer; nothing where none did."""
    lost = took.lost_input_tokens or 0, took.lost_output_tokens or 0
    return f"{lost[0]:,} in, {lost[1]:,} out, of the above" if any(lost) else ""


def _figure(value: JsonValue) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
