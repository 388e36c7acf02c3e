"""Which records travel together: batches of a size, groups whole, one context per batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from krisis.data.base import PatientRecord


@dataclass(frozen=True, slots=True)
class Case:
    """One asking of one record; ``position`` is its place in the output."""

    position: int
    record: PatientRecord
    sample_index: int = 0


Batch = list[Case]


def cases_of(records: Sequence[PatientRecord], repeats: int = 1) -> list[Case]:
    """Return every asking: all records once, then all of them again for each repeat."""
    return [
        Case(sample_index * len(records) + place, record, sample_index)
        for sample_index in range(repeats)
        for place, record in enumerate(records)
    ]


def plan_batches(cases: Sequence[Case], batch_size: int) -> list[Batch]:
    """Fill batches in input order without mixing contexts or repeats, or parting a group.

    A group larger than ``batch_size`` makes a batch of its own.

    >>> records = [PatientRecord({"x": x}, 0, group=g) for x, g in enumerate("aabbb")]
    >>> [len(batch) for batch in plan_batches(cases_of(records), 4)]
    [2, 3]
    """
    batches: list[Batch] = []
    open_batch: Batch = []
    for parcel in _parcels(cases):
        if open_batch and not _fits(open_batch, parcel, batch_size):
            batches.append(open_batch)
            open_batch = []
        open_batch = [*open_batch, *parcel]
    return [*batches, open_batch] if open_batch else batches


def _parcels(cases: Sequence[Case]) -> list[Batch]:
    """Return the smallest units that may not be parted, in order of their first record."""
    parcels: list[Batch] = []
    groups: dict[tuple[str, int], Batch] = {}
    for case in cases:
        group = case.record.group
        if not group:
            parcels.append([case])
        elif (group, case.sample_index) in groups:
            groups[group, case.sample_index].append(case)
        else:
            groups[group, case.sample_index] = parcel = [case]
            parcels.append(parcel)
    return parcels


def _fits(batch: Batch, parcel: Batch, batch_size: int) -> bool:
    last, first = batch[-1], parcel[0]
    return (
        len(batch) + len(parcel) <= batch_size
        and last.record.context == first.record.context
        and last.sample_index == first.sample_index
    )
