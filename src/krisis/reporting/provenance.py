"""Where the numbers come from: execution, data, prompts, configuration and how to run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from krisis.json_values import JsonMapping, JsonValue, dumps
from krisis.results.base import BenchmarkResult

N_PROMPTS_SHOWN = 4


def execution_facts(result: BenchmarkResult) -> list[tuple[str, JsonValue]]:
    """Return how the run went: first the figures that everyone asks for, then every other."""
    made, took, prompts = result.provenance, result.spending, result.prompts
    first = {
        "imported": made.imported and str(made.imported),
        "asked": made.asking and str(made.asking),
        "started": made.started_at,
        "krisis version": made.krisis_version,
        "models that answered": ", ".join(made.models_answered),
        "seed": made.seed,
        "batch size": made.batch_size,
        "max concurrency": made.max_concurrency,
        "planned batches": made.n_api_batches,
        "calls made": took.n_api_calls,
        "calls by provider batches": took.n_batch_calls,
        "retries": took.n_retries,
        "batch splits": took.n_batch_splits,
        "answers from the cache": took.n_cache_hits,
        "input tokens": took.input_tokens,
        "output tokens": took.output_tokens,
        "token total": took.token_total,
        "cost": took.cost if took.cost_unknown is None else f"unknown, {took.cost_unknown}",
        "elapsed seconds": took.elapsed_seconds,
        "records per second": took.records_per_second,
        "prompt modes": list(prompts.prompt_modes),
        "prompt data policy": prompts.prompt_data_policy,
        "stopped": result.stop and result.stop.sentence,
        "git commit": made.git_commit,
        "run": made.run_id,
    }
    return [
        *((words, value) for words, value in first.items() if value not in (None, "", [])),
        *data_facts(_further(result)),
    ]


def _further(result: BenchmarkResult) -> JsonMapping:
    took, imported = result.spending, result.provenance.imported
    return {
        "tokens of unusable replies": _pair(took.lost_input_tokens, took.lost_output_tokens),
        "tokens from the cache": _pair(took.cached_input_tokens, took.cached_output_tokens),
        "latency seconds": took.latency_seconds,
        "price per million tokens": took.price_per_million_tokens,
        "cache fault": took.cache_fault,
        "repeats": result.provenance.repeats,
        "taken for": imported.taken_for if imported else {},
        "notes of the import": list(imported.notes) if imported else [],
        "agreement": asdict(result.agreement) if result.agreement else None,
        "versions": result.provenance.versions,
        **result.other,
    }


def _pair(n_input: int | None, n_output: int | None) -> str:
    return f"{n_input} in, {n_output} out" if n_input or n_output else ""


def data_facts(description: JsonMapping) -> list[tuple[str, JsonValue]]:
    """Return what the suite says of itself, nested facts by their path."""
    return [(name.replace("_", " "), _short(value)) for name, value in _flat(description)]


def _flat(content: JsonMapping, prefix: str = "") -> list[tuple[str, JsonValue]]:
    pairs: list[tuple[str, JsonValue]] = []
    for key, value in content.items():
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{prefix}{key} · ")
        elif value not in (None, "", []):
            pairs.append((f"{prefix}{key}", value))
    return pairs


def _short(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping | list | tuple):
        text = dumps(value, indent=None)
        return text if len(text) <= 400 else f"{text[:400]} …"
    return value


def prompt_templates(result: BenchmarkResult) -> list[tuple[str, str]]:
    """Return the redacted prompts, each once, with the mode that it was used in."""
    modes = {row.prompt: row.prompt_mode for row in result.evaluation_results if row.prompt}
    stored = result.prompts.prompt_templates or tuple(modes)
    return [(modes.get(text) or f"template {i + 1}", text) for i, text in enumerate(stored)]
