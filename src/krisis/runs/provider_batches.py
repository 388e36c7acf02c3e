"""Provider batches of a run: which were submitted and collected, and what is left of them.

A *batch* is the records that share one call; a *provider batch* is many such calls that a provider
takes at once and answers within a day. One is kept before it is submitted, with its marker, its
requests and the most that each can take; when the provider has given it a name; and when it needs
no more attention, with the requests that it left without a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from krisis.json_values import JsonValue

# Ends of a provider batch after which nobody is charged for any of its requests.
NOT_CHARGED = ("not_submitted", "failed")


class BatchRequest(NamedTuple):
    """One request of a provider batch: its records by position, and the most that it can take.

    ``n_rounds`` provider batches ended without an answer to it, ``n_malformed`` of its replies
    could not be read; ``is_part`` says that it is half of a request whose reply could not.
    """

    positions: tuple[int, ...]
    most_input: int = 0
    most_output: int = 0
    n_rounds: int = 0
    n_malformed: int = 0
    is_part: bool = False

    @property
    def was_malformed(self) -> bool:
        """Say whether a malformed reply led to it."""
        return self.is_part or self.n_malformed > 0

    @classmethod
    def read(cls, content: JsonValue) -> BatchRequest:
        """Read a request as a run file holds it."""
        positions, most_input, most_output, n_rounds, n_malformed, is_part = content
        figures = int(most_input), int(most_output), int(n_rounds), int(n_malformed)
        return cls(tuple(map(int, positions)), *figures, bool(is_part))


@dataclass(slots=True)
class ProviderBatch:
    """A provider batch as the run file knows it; without a ``batch_id`` it may not exist.

    ``number`` counts the provider batches of the run; ``dialect`` is the reply format that its
    requests ask for; ``again`` are the requests that it left without a row when it was closed.
    """

    marker: str
    requests: tuple[BatchRequest, ...]
    dialect: Literal["json_schema", "json_object", "text"]
    intended_at: float
    batch_id: str = ""
    end: str = ""
    again: tuple[BatchRequest, ...] = ()
    number: int = 0

    def key(self, index: int) -> str:
        """Name a request; the provider gives the name back with its result."""
        return f"{self.marker}-{index}"


class Sent(NamedTuple):
    """Calls and the most that they can take."""

    n_calls: int = 0
    most_input: int = 0
    most_output: int = 0


@dataclass(slots=True)
class ProviderBatchLog:
    """The provider batches of a run, by marker, and the requests that closed ones left."""

    batches: dict[str, ProviderBatch] = field(default_factory=dict)
    again: dict[tuple[int, ...], BatchRequest] = field(default_factory=dict)

    @classmethod
    def of(cls, batches: Iterable[ProviderBatch]) -> ProviderBatchLog:
        """Return the log of provider batches in the order in which they were made.

        A request is handed to another provider batch only after the one before it was closed.
        """
        log = cls()
        for batch in sorted(batches, key=lambda batch: batch.number):
            log.batches[batch.marker] = batch
            for request in batch.requests:
                log.again.pop(request.positions, None)
            log.again |= {request.positions: request for request in batch.again}
        return log

    @property
    def open(self) -> list[ProviderBatch]:
        """Return the provider batches that are not closed."""
        return [batch for batch in self.batches.values() if not batch.end]

    @property
    def sent(self) -> Sent:
        """Return the requests of all provider batches that somebody can be charged for."""
        charged = (one for one in self.batches.values() if one.end not in NOT_CHARGED)
        return _sum([request for batch in charged for request in batch.requests])

    def pending(self, rows: Mapping[int, object]) -> Sent:
        """Return what open provider batches can still take for records without a row."""
        return _sum([one for batch in self.open for one in unsettled(batch, rows)])

    def left(self, rows: Mapping[int, object]) -> list[BatchRequest]:
        """Return the requests to be asked again; none that an open provider batch still holds."""
        held = {at for batch in self.open for one in batch.requests for at in one.positions}
        return [
            one
            for one in self.again.values()
            if not any(at in rows or at in held for at in one.positions)
        ]

    def taken(self, rows: Mapping[int, object]) -> set[int]:
        """Return the positions that open provider batches or requests left over account for."""
        waiting = [one for batch in self.open for one in batch.requests]
        return {at for one in (*waiting, *self.left(rows)) for at in one.positions}


def unsettled(batch: ProviderBatch, rows: Mapping[int, object]) -> list[BatchRequest]:
    """Return the requests of a provider batch that lack a row."""
    return [one for one in batch.requests if any(at not in rows for at in one.positions)]


def _sum(requests: Collection[BatchRequest]) -> Sent:
    return Sent(
        len(requests),
        sum(one.most_input for one in requests),
        sum(one.most_output for one in requests),
    )
