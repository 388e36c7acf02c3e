"""Score a run by the three flags of the first version instead of by its deferral label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from krisis.errors import InvalidValue
from krisis.metrics.base import BaseMetric, EvaluationResult
from krisis.results.base import BenchmarkResult
from krisis.statistics.bootstrap import BootstrapOptions

SEED_FLAGS = ("near_threshold", "label_conflicts_with_stage", "ambiguous_trajectory")
_WORDS = (
    "Scored again: a case should be deferred if it is near a threshold, its diagnosis contradicts "
    "the stage, or its course is ambiguous (the flags of the first version)."
)


def scored_by_flags(
    result: BenchmarkResult, metrics: Sequence[BaseMetric], options: BootstrapOptions
) -> BenchmarkResult:
    """Return the run with the flags in its metadata as deferral label; no model is asked.

    The baselines of the run were scored by its own label and are left out.
    """
    rows = [_flagged(row) for row in result.evaluation_results]
    described = {**result.suite_description, "deferral": {"words": _WORDS}}
    again = BenchmarkResult(rows, {}, described, result.backend_name, facts=result)
    again.baselines = {}
    return again.scored(metrics, options)


def _flagged(row: EvaluationResult) -> EvaluationResult:
    missing = [flag for flag in SEED_FLAGS if not isinstance(row.metadata.get(flag), bool)]
    if missing:
        raise InvalidValue(
            f"the record {row.record_id!r} has no flag {missing[0]}, which --deferral seed scores "
            "by; the suite ckd has the three of them"
        )
    named = [flag for flag in SEED_FLAGS if row.metadata[flag]]
    label = {
        "should_abstain": bool(named),
        "abstain_reasons": named,
        "deferral_kind": "rule" if named else None,
    }
    return replace(row, metadata={**row.metadata, **label})
