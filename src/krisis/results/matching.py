"""Which rows of several runs are the same case, and whether the runs may be compared at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from krisis.errors import InvalidValue
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import canonical_label
from krisis.results.result import BenchmarkResult

# The k-th asking of a record in one run is matched with the k-th asking in another.
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MatchedRuns:
    """The rows that every run scored, in one order; and what had to be left out."""

    rows: Mapping[str, Rows]
    positions: Mapping[str, Sequence[int]]
    unmatched: Mapping[str, Sequence[str]]
    n_matched: int
    n_failed: Mapping[str, int]

    @property
    def n_compared(self) -> int:
        """Return the number of rows that all runs scored."""
        return len(next(iter(self.rows.values())))


def refuse_other_data(runs: Mapping[str, BenchmarkResult]) -> None:
    """Refuse runs whose cases differ, naming what differs."""
    for field in ("suite", "task", "content_hash"):
        said = {name: run.suite_description.get(field) for name, run in runs.items()}
        known = {name: value for name, value in said.items() if value is not None}
        if len(set(map(str, known.values()))) > 1:
            listed = ", ".join(f"{name}: {value}" for name, value in known.items())
            raise InvalidValue(
                f"the runs were made on different data ({field.replace('_', ' ')} differs: "
                f"{listed}); compare runs of the same suite, task, seed and file"
            )


def match_runs(runs: Mapping[str, BenchmarkResult]) -> MatchedRuns:
    """Match rows by record_id and keep those that every run has and scored."""
    keyed = {name: _keyed(name, run.evaluation_results) for name, run in runs.items()}
    first = next(iter(keyed.values()))
    common = [key for key in first if all(key in other for other in keyed.values())]
    if not common:
        raise InvalidValue("the runs share no record_id, so there is nothing to compare")
    _refuse_other_truth(common, keyed, runs)
    rows = {name: run.evaluation_results for name, run in runs.items()}
    scored = [k for k in common if all(rows[n][keyed[n][k]].error is None for n in runs)]
    if not scored:
        raise InvalidValue("no record was scored by every run; retry the failed rows first")
    positions = {name: [keyed[name][key] for key in scored] for name in runs}
    kept = set(common)
    return MatchedRuns(
        {name: Rows(rows[name][i] for i in positions[name]) for name in runs},
        positions,
        {name: [k[0] for k in keyed[name] if k not in kept] for name in runs},
        len(common),
        {n: sum(rows[n][keyed[n][k]].error is not None for k in common) for n in runs},
    )


def _keyed(name: str, rows: Sequence[EvaluationResult]) -> dict[Key, int]:
    seen: Counter[str] = Counter()
    keyed: dict[Key, int] = {}
    for position, row in enumerate(rows):
        if not row.record_id:
            raise InvalidValue(
                f"row {position} of {name} has no record_id, so it cannot be matched; run again "
                "with records that carry one"
            )
        keyed[row.record_id, seen[row.record_id]] = position
        seen[row.record_id] += 1
    return keyed


def _refuse_other_truth(
    common: Sequence[Key],
    keyed: Mapping[str, Mapping[Key, int]],
    runs: Mapping[str, BenchmarkResult],
) -> None:
    for key in common:
        truths = {
            name: run.evaluation_results[keyed[name][key]].ground_truth
            for name, run in runs.items()
        }
        if len({canonical_label(truth) for truth in truths.values()}) > 1:
            listed = ", ".join(f"{name}: {truth!r}" for name, truth in truths.items())
            raise InvalidValue(
                f"record {key[0]!r} has different right answers ({listed}); the runs were made "
                "on different data"
            )
