"""Reports for people and programs: compact text, full JSON, metrics-only JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from krisis.metrics.base import MetricScore
from krisis.results.beside import baseline_lines
from krisis.results.result import BenchmarkResult
from krisis.results.sources import source_lines
from krisis.statistics.intervals import Interval

NOTHING_ANSWERED = "No record was answered, so there is nothing to score."
_EXECUTION = (
    ("batch size", "batch_size"),
    ("max concurrency", "max_concurrency"),
    ("planned batches", "n_api_batches"),
    ("calls made", "n_api_calls"),
    ("replies from the cache", "n_cache_hits"),
    ("retries", "n_retries"),
    ("batch splits", "n_batch_splits"),
    ("input tokens", "input_tokens"),
    ("output tokens", "output_tokens"),
    ("token total", "token_total"),
    ("cost", "cost"),
    ("seed", "seed"),
    ("prompt modes", "prompt_modes"),
    ("prompt data", "prompt_data_policy"),
    ("elapsed seconds", "elapsed_seconds"),
    ("records per second", "records_per_second"),
)


def attrition_line(attrition: Mapping[str, int]) -> str:
    """Say what became of every record; failures come first.

    >>> print(attrition_line({"n_loaded": 5, "n_sent": 4, "n_answered": 2, "n_abstained": 1,
    ...                       "n_failed": 1}))
    1 of 4 records FAILED: 5 loaded → 4 sent → 2 answered / 1 abstained / 1 failed
    """
    flow = (
        f"{attrition['n_loaded']} loaded → {attrition['n_sent']} sent → "
        f"{attrition['n_answered']} answered / {attrition['n_abstained']} abstained / "
        f"{attrition['n_failed']} failed"
    )
    if attrition["n_failed"]:
        return f"{attrition['n_failed']} of {attrition['n_sent']} records FAILED: {flow}"
    return f"Records: {flow}"


def format_report(result: BenchmarkResult) -> str:
    """Return the compact text report, its first line being what became of the records.

    Where calls failed and none was answered, no figure is shown: it would be read as the model's.
    """
    counts = result.attrition()
    opening = [[attrition_line(counts)], _heading(result)]
    if counts["n_failed"] and not counts["n_answered"]:
        return _joined([*opening, [NOTHING_ANSWERED], _execution(result.extras)])
    blocks = [
        *opening,
        _metric_table(result),
        [line.rstrip() for line in source_lines(result.extras)],
        baseline_lines(result),
        _undefined(result),
        _calibration(result),
        _deferral(result),
        _execution(result.extras),
    ]
    return _joined(blocks)


def _joined(blocks: Sequence[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(block) for block in blocks if block)


def format_json_report(result: BenchmarkResult) -> str:
    """Return the full result as strict JSON."""
    return result.to_json()


def format_metrics_json_report(result: BenchmarkResult) -> str:
    """Return the scores with backend, suite and execution as strict JSON."""
    return result.metrics_to_json()


def format_value(value: float) -> str:
    """Write a figure to four decimals, and an undefined one as such.

    >>> format_value(0.5), format_value(math.nan)
    ('0.5000', 'undefined')
    """
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def format_interval(interval: Interval | None) -> str:
    """Write an interval as its bounds, or nothing where there is none."""
    if interval is None or math.isnan(interval.low):
        return ""
    return f"[{interval.low:.4f}, {interval.high:.4f}]"


def _heading(result: BenchmarkResult) -> list[str]:
    suite = result.suite_description
    parts = [str(suite[key]) for key in ("suite", "task", "features", "mode") if suite.get(key)]
    limit, n_records = suite.get("limit"), suite.get("n_records")
    cut = f" (first {limit} of {n_records} records)" if limit and n_records else ""
    lines = [f"Suite:   {' / '.join(parts) or 'unnamed'}{cut}"]
    return [*lines, f"Backend: {result.backend_name or 'unnamed'}"]


def _metric_table(result: BenchmarkResult) -> list[str]:
    head = ("Metric", "Value", "95 % interval", "Method", "n")
    rows = [head, *(_metric_row(score) for score in result.metric_scores.values())]
    if not any(row[2] for row in rows[1:]):
        rows = [(row[0], row[1], row[4]) for row in rows]  # type: ignore[misc]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def _metric_row(score: MetricScore) -> tuple[str, str, str, str, str]:
    interval = format_interval(score.interval)
    method = score.interval.method if score.interval and interval else ""
    return score.name, format_value(score.value), interval, method, str(score.n_evaluated)


def _calibration(result: BenchmarkResult) -> list[str]:
    score = result.metric_scores.get("expected_calibration_error")
    if score is None or math.isnan(score.value) or "null_value" not in score.details:
        return []
    null_value = format_value(score.details["null_value"])
    expected = f"a perfectly calibrated model would show an error of {null_value}"
    return [f"Calibration: {expected} on {score.n_evaluated} rows"]


def _undefined(result: BenchmarkResult) -> list[str]:
    return [
        f"{score.name} is undefined: {score.details.get('reason', 'no reason was given')}"
        for score in result.metric_scores.values()
        if math.isnan(score.value)
    ] + [
        f"{score.name} has no interval: {score.interval.reason}"
        for score in result.metric_scores.values()
        if score.interval and score.interval.reason and not math.isnan(score.value)
    ]


def _deferral(result: BenchmarkResult) -> list[str]:
    score = result.metric_scores.get("deferral_alignment")
    if score is None or math.isnan(score.value):
        return []
    details = score.details
    counts = ", ".join(f"{count} {name}" for name, count in details["confusion"].items())
    return [
        f"Deferral: {counts}",
        (
            f"  sensitivity {format_value(details['sensitivity'])}, "
            f"specificity {format_value(details['specificity'])}, "
            f"balanced {format_value(details['balanced_alignment'])}, "
            f"MCC {format_value(details['mcc'])}"
        ),
        (
            f"  always answering would score {format_value(details['always_answer'])}, "
            f"always deferring {format_value(details['always_defer'])}"
        ),
    ]


def _execution(extras: Mapping[str, Any]) -> list[str]:
    shown = [
        (label, extras[key])
        for label, key in _EXECUTION
        # Most runs ask a model that has no cache: there a zero would only raise a question.
        if extras.get(key) is not None and (extras[key] or key != "n_cache_hits")
    ]
    width = max((len(label) for label, _ in shown), default=0)
    return [f"{label.ljust(width)}  {_figure(value)}" for label, value in shown]


def _figure(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
