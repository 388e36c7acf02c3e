"""Which records travel together: batches of a size, groups whole, one context per batch."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from krisis.backends.base import BackendResponse
from krisis.backends.chat import ChatBackend, ChatRequest, PromptMode, check_built
from krisis.backends.second_call import FirstCall
from krisis.data.base import PatientRecord, Records
from krisis.errors import InvalidValue
from krisis.runs.write import RowPlace, StoredCase


@dataclass(frozen=True, slots=True)
class Case:
    """One record, asked once; ``position`` is its place in the output.

    ``record_position`` is the place of its record among the records.
    """

    position: int
    record: PatientRecord
    sample_index: int = 0
    record_position: int = 0

    @property
    def row_place(self) -> RowPlace:
        """Return where the row of this case belongs in the run."""
        return RowPlace(self.position, self.record_position, self.sample_index)


Batch = list[Case]


def request_about(cases: Sequence[Case], backend: ChatBackend) -> ChatRequest:
    """Return the request that puts these cases to a model."""
    mode: PromptMode = "batch" if len(cases) > 1 else "single"
    request = backend.build(
        [case.record.features for case in cases],
        mode=mode,
        sample_index=cases[0].sample_index,
        context=cases[0].record.context,
    )
    check_built(backend, request)
    return request


def first_call(
    cases: Sequence[Case],
    request: ChatRequest,
    text: str = "",
    responses: Sequence[BackendResponse] = (),
) -> FirstCall:
    """Return the first of two calls about these cases, and what came of it."""
    features = [case.record.features for case in cases]
    return FirstCall(features, request, text, responses, cases[0].record.context)


def cases_of(records: Sequence[PatientRecord], repeats: int = 1) -> list[Case]:
    """Return every case: all records once, then all of them again for each repeat."""
    return [
        Case(sample_index * len(records) + place, record, sample_index, record_position=place)
        for sample_index in range(repeats)
        for place, record in enumerate(records)
    ]


def stored_cases(records: Sequence[PatientRecord]) -> list[StoredCase]:
    """Return the records as a run file keeps them."""
    return [
        StoredCase(
            record_id=record.record_id,
            cluster_id=record.cluster_id,
            label=record.label,
            metadata=record.metadata,
            features=record.features,
            context=record.context,
        )
        for record in records
    ]


def are_synthetic(records: Sequence[PatientRecord]) -> bool:
    """Tell whether every record says that it is of nobody."""
    return all(record.metadata.get("synthetic") is True for record in records)


def in_random_order(cases: Sequence[Case], *, seed: int, batch_size: int) -> list[Case]:
    """Return the cases in random order, all of a patient together.

    Repeats follow batch by batch, since records of different repeats never share a call.

    >>> cases = cases_of([PatientRecord({"x": x}, 0, record_id=f"{x}") for x in range(3)], 2)
    >>> [case.position for case in in_random_order(cases, seed=0, batch_size=2)]
    [2, 0, 5, 3, 1, 4]
    """
    patients: dict[str, list[Case]] = {}
    for case in cases:
        patients.setdefault(case.record.cluster_id, []).append(case)
    named = list(patients.values())
    ordered: list[Case] = []
    block: list[Case] = []
    for at in np.random.default_rng(seed).permutation(len(named)).tolist():
        block += named[at]
        if sum(case.sample_index == 0 for case in block) >= batch_size:
            ordered += sorted(block, key=lambda case: case.sample_index)
            block = []
    return [*ordered, *sorted(block, key=lambda case: case.sample_index)]


def with_distinct_ids(records: Sequence[PatientRecord]) -> Records:
    """Return the records, each under a name of its own.

    Names derived from equal content get a number; a name that was given twice is an error, since
    rows are matched by it.

    >>> twins = [PatientRecord({"x": 1}, 0), PatientRecord({"x": 1}, 0)]
    >>> [record.record_id[-2:] for record in with_distinct_ids(twins)][1]
    '-2'
    """
    seen: Counter[str] = Counter()
    distinct = []
    for record in records:
        name = record.record_id
        seen[name] += 1
        if seen[name] > 1:
            if not name.startswith("auto-"):
                raise InvalidValue(
                    f"record_id {name!r} appears twice; give each record its own, "
                    "and the same patient the same cluster_id"
                )
            own = f"{name}-{seen[name]}"
            patient = own if record.cluster_id == name else record.cluster_id
            record = replace(record, record_id=own, cluster_id=patient)  # noqa: PLW2901
        distinct.append(record)
    if isinstance(records, Records) and all(map(operator.is_, records, distinct)):
        return records  # hashed already, perhaps
    return Records(distinct)


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
    groups: dict[tuple[object, ...], Batch] = {}
    for case in cases:
        key = (case.record.group, case.sample_index)
        if not case.record.group:
            parcels.append([case])
        elif key in groups:
            groups[key].append(case)
        else:
            groups[key] = parcel = [case]
            parcels.append(parcel)
    return parcels


def _fits(batch: Batch, parcel: Batch, batch_size: int) -> bool:
    last, first = batch[-1], parcel[0]
    return (
        len(batch) + len(parcel) <= batch_size
        and last.record.context == first.record.context
        and last.sample_index == first.sample_index
    )
