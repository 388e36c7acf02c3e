"""What a journal says of provider batches: which were submitted and collected, what is left.

A *batch* is the records that share one call; a *provider batch* is many such calls that a provider
takes at once and answers within a day. Lines of the kind ``provider_batch`` tell its life::

    intended    before it is submitted: its marker, its requests and the most that each can take
    submitted   the name that the provider gave it
    closed      it needs no more attention; ``again`` lists the requests that it left without a row

Requests are rows of numbers: positions, most input and output tokens, and what came before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from krisis.json_values import JsonObject, JsonValue

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
        """Read a request of a journal line."""
        positions, most_input, most_output, n_rounds, n_malformed, is_part = content
        figures = int(most_input), int(most_output), int(n_rounds), int(n_malformed)
        return cls(tuple(map(int, positions)), *figures, bool(is_part))


@dataclass(slots=True)
class ProviderBatch:
    """A provider batch as the journal knows it; without a ``batch_id`` it may not exist.

    ``dialect`` is the reply format that its requests ask for.
    """

    marker: str
    requests: tuple[BatchRequest, ...]
    dialect: Literal["json_schema", "json_object", "text"]
    intended_at: float
    batch_id: str = ""
    end: str = ""

    def key(self, index: int) -> str:
        """Name a request; the provider gives the name back with its result."""
        return f"{self.marker}-{index}"

    def line(self, event: str, **facts: JsonValue) -> JsonObject:
        """Return the journal line of an event."""
        return {"kind": "provider_batch", "marker": self.marker, "event": event, **facts}

    def intended(self) -> JsonObject:
        """Return the line that comes before the submission."""
        facts = {"dialect": self.dialect, "intended_at": self.intended_at}
        return self.line("intended", **facts, requests=list(map(list, self.requests)))


class Sent(NamedTuple):
    """Calls and the most that they can take, as a line adds or takes back."""

    n_calls: int = 0
    most_input: int = 0
    most_output: int = 0


@dataclass(slots=True)
class ProviderBatchLog:
    """The provider batches of a run, by marker, and the requests that closed ones left."""

    batches: dict[str, ProviderBatch] = field(default_factory=dict)
    again: dict[tuple[int, ...], BatchRequest] = field(default_factory=dict)

    @property
    def open(self) -> list[ProviderBatch]:
        """Return the provider batches that are not closed."""
        return [batch for batch in self.batches.values() if not batch.end]

    def take(self, line: JsonObject) -> Sent:
        """Add a line; lines that appear twice count once."""
        marker, event = str(line["marker"]), line["event"]
        known = self.batches.get(marker)
        if event == "intended":
            requests = tuple(map(BatchRequest.read, line["requests"]))
            if known is not None:
                return Sent()
            made = ProviderBatch(marker, requests, line["dialect"], float(line["intended_at"]))
            self.batches[marker] = made
            for request in requests:
                self.again.pop(request.positions, None)
            return _sum(requests)
        if known is None:
            raise ValueError(marker)
        if event == "submitted":
            known.batch_id = str(line["batch_id"])
            return Sent()
        return self._close(known, line)

    def _close(self, known: ProviderBatch, line: JsonObject) -> Sent:
        left = tuple(map(BatchRequest.read, line["again"]))
        was_open, known.end = not known.end, str(line["end"])
        self.again |= {request.positions: request for request in left}
        if was_open and known.end in NOT_CHARGED:
            return Sent(*(-count for count in _sum(known.requests)))
        return Sent()

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
