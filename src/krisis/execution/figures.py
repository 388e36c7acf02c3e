"""What the rows of a run say about its tokens and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from krisis.metrics.base import EvaluationResult


def token_figures(rows: Sequence[EvaluationResult]) -> dict[str, Any]:
    """Sum the tokens of the rows; ``None`` where no provider reported any."""
    input_tokens, output_tokens = _total(rows, "input_tokens"), _total(rows, "output_tokens")
    both = (input_tokens or 0) + (output_tokens or 0)
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "token_total": _total(rows, "total_tokens") or both or None,
        "n_failed": sum(row.error is not None for row in rows),
    }


def prompt_figures(rows: Sequence[EvaluationResult]) -> dict[str, Any]:
    """Say which templates were used and where they are kept; each was checked before."""
    templates = list(dict.fromkeys(row.prompt for row in rows if row.prompt))
    n_captured = sum(bool(row.prompt) for row in rows)
    return {
        "prompt_capture": "evaluation_results[].prompt",
        "prompt_data_policy": "redacted" if n_captured else "no prompts captured",
        "prompt_modes": sorted({row.prompt_mode for row in rows if row.prompt_mode}),
        "n_prompts_captured": n_captured,
        "prompt_templates_count": len(templates),
        "prompt_templates": templates,
    }


def _total(rows: Sequence[EvaluationResult], name: str) -> int | None:
    counts = [count for row in rows if (count := getattr(row, name)) is not None]
    return sum(counts) if counts else None
