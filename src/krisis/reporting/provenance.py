"""Where the numbers come from: execution, data, prompts, configuration and how to run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from krisis.json_values import dumps
from krisis.results.result import BenchmarkResult

_EXECUTION = {
    "started_at": "started",
    "krisis_version": "krisis version",
    "model": "model",
    "seed": "seed",
    "batch_size": "batch size",
    "max_concurrency": "max concurrency",
    "n_api_batches": "planned batches",
    "n_api_calls": "calls made",
    "n_retries": "retries",
    "n_batch_splits": "batch splits",
    "n_cache_hits": "answers from the cache",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "token_total": "token total",
    "cost": "cost",
    "elapsed_seconds": "elapsed seconds",
    "records_per_second": "records per second",
    "prompt_modes": "prompt modes",
    "prompt_data_policy": "prompt data policy",
    "git_commit": "git commit",
    "python_version": "Python version",
}
# Shown elsewhere on the page, or of use to programs only.
_ELSEWHERE = {
    "attrition",
    "baselines",
    "config",
    "ended",
    "limit_history",
    "manifest",
    "n_failed",
    "n_loaded",
    "prompt_capture",
    "prompt_templates",
    "suite_content_hash",
}
N_PROMPTS_SHOWN = 4


def execution_facts(extras: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return how the run went: first the figures that everyone asks for, then every other."""
    first = [(words, extras[key]) for key, words in _EXECUTION.items() if _tells(extras, key)]
    others = {k: v for k, v in extras.items() if k not in _EXECUTION and k not in _ELSEWHERE}
    return [*first, *data_facts(others)]


def data_facts(description: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return what the suite says of itself, nested facts by their path."""
    return [(name.replace("_", " "), _short(value)) for name, value in _flat(description)]


def _flat(content: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in content.items():
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{prefix}{key} · ")
        elif value not in (None, "", []):
            pairs.append((f"{prefix}{key}", value))
    return pairs


def _tells(extras: Mapping[str, Any], key: str) -> bool:
    return extras.get(key) not in (None, "", [], {})


def _short(value: Any) -> Any:
    if isinstance(value, Mapping | list | tuple):
        text = dumps(value, indent=None)
        return text if len(text) <= 400 else f"{text[:400]} …"
    return value


def prompt_templates(result: BenchmarkResult) -> list[tuple[str, str]]:
    """Return the redacted prompts, each once, with the mode that it was used in."""
    stored = result.extras.get("prompt_templates")
    if isinstance(stored, Mapping):
        return [(str(name), _template_text(text)) for name, text in stored.items()]
    if isinstance(stored, list) and stored:
        return [(_template_name(i, item), _template_text(item)) for i, item in enumerate(stored)]
    seen = dict.fromkeys((row.prompt, row.prompt_mode) for row in result.evaluation_results)
    return [(mode or "prompt", prompt) for prompt, mode in seen if prompt]


def _template_name(index: int, item: Any) -> str:
    if isinstance(item, Mapping):
        parts = (item.get("prompt_mode") or item.get("mode"), item.get("id") or item.get("hash"))
        named = " · ".join(str(part) for part in parts if part)
        if named:
            return named
    return f"template {index + 1}"


def _template_text(item: Any) -> str:
    if isinstance(item, Mapping):
        for key in ("prompt", "text", "template"):
            if isinstance(item.get(key), str):
                return str(item[key])
        return dumps(item)
    return str(item)


def configuration_text(extras: Mapping[str, Any]) -> str:
    """Return the configuration that the run was started with, where it is known."""
    for key in ("config", "manifest"):
        if isinstance(extras.get(key), Mapping):
            return dumps(extras[key])
    return ""
