"""The runs whose reports are held: plain, with every outcome, and with baselines and kinds."""

from __future__ import annotations

from collections.abc import Callable

from tests.invented_runs import invented_rows, result_of, rows_of_every_outcome

from krisis.metrics import BootstrapOptions, usual_metrics
from krisis.results.result import BenchmarkResult


def _plain() -> BenchmarkResult:
    return result_of(invented_rows(160))


def _every_outcome() -> BenchmarkResult:
    return result_of(rows_of_every_outcome())


def _with_kinds() -> BenchmarkResult:
    """Return a run with kinds and reasons of deferral, a price, and two baselines."""
    rows = invented_rows(160, seed=3)
    for i, row in enumerate(rows):
        due = row.metadata["should_abstain"]
        row.metadata |= {
            "deferral_kind": ("uncertain", "rule")[i % 2] if due else None,
            "abstain_reasons": [("category_uncertain", "child")[i % 2]] if due else [],
            "label_depends_on_prior": i % 5 == 0,
        }
    made = result_of(rows)
    made.suite_description["deferral"] = {"risk": 0.2}
    result = made.scored(usual_metrics(), BootstrapOptions(n_resamples=50))
    result.baselines = {
        name: result_of(invented_rows(160, seed=3, skill=skill)).metric_scores
        for name, skill in (("majority", 0.5), ("guideline", 0.9))
    }
    return result


FIXTURES: dict[str, Callable[[], BenchmarkResult]] = {
    "plain": _plain,
    "every_outcome": _every_outcome,
    "with_kinds": _with_kinds,
}
