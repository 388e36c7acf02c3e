"""A run as a log of Inspect (`inspect_ai`), which its viewer and its data frames read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from krisis import __version__
from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult
from krisis.metrics.partition import verdict
from krisis.results.base import BenchmarkResult

SCORER = "krisis"


def inspect_log(result: BenchmarkResult) -> JsonObject:
    """Return the content of a `.json` log; prompts are not in it, since a run holds none."""
    rows, made = result.evaluation_results, result.provenance
    names = list(dict.fromkeys(row.record_id for row in rows))
    model = result.backend_name or "unnamed model"
    started = made.started_at or datetime.fromtimestamp(0, UTC).isoformat()
    samples = [_sample(row, model) for row in rows]
    used = _usage(rows)
    return {
        "version": 2,
        "status": "success" if result.stop is None else "error",
        "eval": {
            "run_id": made.run_id or "",
            "created": started,
            "task": made.task or "task",
            "dataset": {
                "name": made.suite or None,
                "samples": len(names),
                "sample_ids": names,
                "shuffled": False,
            },
            "model": model,
            "config": {"epochs": max((one["epoch"] for one in samples), default=1)},
            "metadata": {"exported_by": f"krisis {__version__}"},
            "scorers": [{"name": SCORER}],
        },
        "results": _results(rows),
        "stats": {
            "started_at": started,
            "completed_at": started,
            "model_usage": {model: used} if used else {},
        },
        "samples": samples,
    }


def _results(rows: Sequence[EvaluationResult]) -> JsonObject:
    scored = [row for row in rows if row.outcome != "not_evaluated"]
    metrics: JsonObject = {}
    if scored:
        share = sum(_value(row) == "C" for row in scored) / len(scored)
        metrics["accuracy"] = {"name": "accuracy", "value": share}
    score = {"name": SCORER, "scorer": SCORER, "scored_samples": len(scored), "metrics": metrics}
    return {"total_samples": len(rows), "completed_samples": len(scored), "scores": [score]}


def _usage(rows: Sequence[EvaluationResult]) -> JsonObject:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(_row_usage(row))
    return dict(total)


def _row_usage(row: EvaluationResult) -> dict[str, int]:
    if row.input_tokens is None and row.output_tokens is None and row.total_tokens is None:
        return {}
    n_input, n_output = row.input_tokens or 0, row.output_tokens or 0
    total = n_input + n_output if row.total_tokens is None else row.total_tokens
    return {"input_tokens": n_input, "output_tokens": n_output, "total_tokens": total}


def _value(row: EvaluationResult) -> str:
    """Return a verdict as Inspect writes it: a reply without an answer is incorrect."""
    return {"right": "C", "abstained": "N"}.get(verdict(row), "I")


def _sample(row: EvaluationResult, model: str) -> JsonObject:
    metadata = {key: value for key, value in row.metadata.items() if key != "sample_index"}
    usage = _row_usage(row)
    message = {"role": "assistant", "content": row.raw_response, "source": "generate"}
    choice = {"message": message, "stop_reason": _STOPS.get(row.finish_reason, "unknown")}
    output: JsonObject = {
        "model": row.model,
        "choices": [choice] if row.outcome != "not_evaluated" else [],
        "completion": row.raw_response,
        **({"usage": usage} if usage else {}),
        **({"time": row.latency_seconds} if row.latency_seconds is not None else {}),
    }
    sample: JsonObject = {
        "id": row.record_id,
        "epoch": int(row.metadata.get("sample_index") or 0) + 1,
        "input": "",
        "target": str(row.ground_truth),
        "output": output,
        "metadata": {**metadata, "cluster_id": row.cluster_id},
        "model_usage": {model: usage} if usage else {},
    }
    if row.outcome == "not_evaluated":
        words = f"{row.failure_class}: {row.error}" if row.failure_class else row.error
        return {**sample, "error": {"message": words, "traceback": "", "traceback_ansi": ""}}
    score: JsonObject = {"value": _value(row), "metadata": {"confidence": row.confidence}}
    if row.prediction is not None:
        score["answer"] = str(row.prediction)
    if row.outcome == "no_answer":
        score["metadata"] |= {"no_answer": row.failure_class, "error": row.error}
    return {**sample, "scores": {SCORER: score}}


# Reasons that Inspect knows; others are "unknown" to it.
_STOPS = {
    **{name: name for name in ("stop", "max_tokens", "model_length", "content_filter")},
    "length": "max_tokens",
    "end_turn": "stop",
    "STOP": "stop",
}
