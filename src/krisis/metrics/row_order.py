"""The one order of rows: by patient, then by record, as text, so that file order changes nothing.

Whatever is drawn at random (patients, folds, exchanges) is drawn in this order, and sums are added
up in it, so that two files with the same rows give the same figures to the last digit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from krisis.metrics.base import EvaluationResult


def patient_order(rows: Sequence[EvaluationResult]) -> list[int]:
    """Return the places of the rows, ordered by patient and record.

    Repeats of a record follow each other by their number. Rows that share or lack all of these are
    ordered by what they hold, so that only rows that are alike can change places.
    """
    names = [(row.cluster_id, row.record_id) for row in rows]
    order = sorted(range(len(names)), key=names.__getitem__)
    if len(set(names)) == len(names):
        return order
    found: list[int] = []
    for _, together in groupby(order, key=names.__getitem__):
        tied = list(together)
        found += sorted(tied, key=lambda at: _held(rows[at])) if len(tied) > 1 else tied
    return found


def in_patient_order(rows: Sequence[EvaluationResult]) -> list[EvaluationResult]:
    """Return the rows ordered by patient and record."""
    held = rows if isinstance(rows, list) else list(rows)
    return [held[place] for place in patient_order(held)]


def asking_number(row: EvaluationResult) -> int:
    """Return which asking of its record a row is, from 0 on."""
    number = row.metadata.get("sample_index")
    return number if isinstance(number, int) else 0


def _held(row: EvaluationResult) -> tuple[object, ...]:
    answer = "" if row.prediction is None else str(row.prediction)
    confidence = -1.0 if row.confidence is None else row.confidence
    told = [json.dumps(one, sort_keys=True, default=str) for one in (row.metadata, row.signals)]
    return asking_number(row), str(row.ground_truth), answer, row.abstained, confidence, *told
