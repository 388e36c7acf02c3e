"""By what name a report or an export shows a record and its patient.

Ids of real patients stay in the run file, in the full JSON and in the viewer on one's own machine,
where a clinic must find the patient again. What is made to be shared shows numbers in their place,
counted in the order of the ids: patients keep their records, and rows their order, so that every
figure of a file that was exported and read again is the same. Ids of synthetic patients say nothing
of anybody and are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import Coded, seen
from krisis.results.base import BenchmarkResult


def is_synthetic(result: BenchmarkResult) -> bool:
    """Say whether every patient of a run is synthetic, by what the suite or each record states.

    A run that does not say is one of real patients; so is one that holds both, since numbers of
    some of them alone would change the order of rows.
    """
    if isinstance(stated := result.suite_description.get("synthetic"), bool):
        return stated
    column = result.rows.columns.metadata("synthetic")
    return bool(len(result.rows)) and all(
        column.values[code] is True for code in seen(column.code, len(column.values))
    )


@dataclass(frozen=True, slots=True)
class ShownIds:
    """The names under which the records and patients of a run are shown; others as they are."""

    records: Mapping[str, str] = field(default_factory=dict)
    patients: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, result: BenchmarkResult, *, with_ids: bool = False) -> ShownIds:
        """Number the cases and patients of a run in the order of their ids, where that is due."""
        if with_ids or is_synthetic(result):
            return cls()
        columns = result.rows.columns
        order = columns.order(np.arange(columns.n_rows))
        return cls(
            _numbered("case", columns.records.taken(order)),
            _numbered("patient", columns.clusters.taken(order)),
        )

    def record(self, name: str) -> str:
        """Return the name under which a record is shown."""
        return self.records.get(name, name)

    def row(self, row: EvaluationResult) -> EvaluationResult:
        """Return a row under the names that are shown, also where its metadata repeat them."""
        if not self.records and not self.patients:
            return row
        own = {
            row.cluster_id: self.patients.get(row.cluster_id, row.cluster_id),
            row.record_id: self.records.get(row.record_id, row.record_id),
        }
        metadata = {
            key: own.get(value, value) if isinstance(value, str) and value else value
            for key, value in row.metadata.items()
        }
        return replace(
            row,
            record_id=own[row.record_id],
            cluster_id=self.patients.get(row.cluster_id, row.cluster_id),
            metadata=metadata,
        )


def _numbered(word: str, column: Coded) -> dict[str, str]:
    """Number names as they appear; zeros in front keep the order of numbers as text.

    >>> _numbered("case", Coded.of(["r7", "r9", "r7"]))
    {'r7': 'case 1', 'r9': 'case 2'}
    """
    names = [str(column.values[code]) for code in seen(column.code, len(column.values))]
    named = [name for name in names if name]
    width = len(str(len(named)))
    return {name: f"{word} {number:0{width}d}" for number, name in enumerate(named, start=1)}


def shareable(result: BenchmarkResult, *, with_ids: bool = False) -> BenchmarkResult:
    """Return a result whose rows are under the names that may be shared."""
    shown = ShownIds.of(result, with_ids=with_ids)
    if not shown.records and not shown.patients:
        return result
    return BenchmarkResult(
        [shown.row(row) for row in result.rows],
        result.metric_scores,
        result.suite_description,
        result.backend_name,
        facts=result,
    )
