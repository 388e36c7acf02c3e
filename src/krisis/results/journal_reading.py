"""Reading a journal back: intact rows count, damage is listed, set aside and asked again.

A line counts when its checksum is right, its content is that of a journal line and, where the cases
of the run are known, its row is the one of its position. Everything else is damage: it is left out
of the result, its text is never shown, and `mend` moves it into a file next to the journal.
"""

from __future__ import annotations

import math
import os
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from krisis.json_values import JsonObject, open_private
from krisis.metrics.base import EvaluationResult
from krisis.outcomes import OUTCOMES
from krisis.results.call_totals import CallTotals
from krisis.results.cases import Cases
from krisis.results.journal_lines import Piece, pieces, sealed
from krisis.results.provider_batches import ProviderBatchLog
from krisis.results.rows import row_from_dict
from krisis.results.stops import StopCause

# How many of the last records the rate of a run is taken from.
_N_OF_RATE = 200
_PRICES = ("input_per_million", "output_per_million")


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of a journal that cannot be believed; ``start`` is its first byte."""

    line: int
    start: int
    reason: str


def damaged_lines(n: int) -> str:
    """Count damaged lines in words."""
    return f"{n} damaged line{'' if n == 1 else 's'}"


class _Unfit(Exception):
    """A line that is intact and yet no line of this run."""


@dataclass(slots=True)
class JournalContents:
    """What a journal holds: the last row of every position, and the totals of all sessions.

    ``stop`` is why the last session ended early; it is None while that session goes on, after it
    reached its last record, and after it was killed. ``n_set_aside`` counts the damaged stretches
    that `mend` took out of the journal.
    """

    rows: dict[int, EvaluationResult] = field(default_factory=dict)
    features: dict[int, JsonObject] = field(default_factory=dict)
    spent: CallTotals = field(default_factory=CallTotals)
    elapsed_seconds: float = 0.0
    stop: StopCause | None = None
    damage: list[Damage] = field(default_factory=list)
    n_set_aside: int = 0
    provider_batches: ProviderBatchLog = field(default_factory=ProviderBatchLog)
    _n_sent: int = 0
    _most_sent: tuple[int, int] = (0, 0)
    _texts: dict[str, str] = field(default_factory=dict)
    _context_ids: dict[int, str] = field(default_factory=dict)
    _session_seconds: float = 0.0

    @property
    def n_rows(self) -> int:
        """Return how many positions have a row."""
        return len(self.rows)

    def in_order(self, start: int = 0, below: float = math.inf) -> Sequence[EvaluationResult]:
        """Return the rows of these positions in the order of the records."""
        return [self.rows[position] for position in sorted(self.rows) if start <= position < below]

    @property
    def loss(self) -> str:
        """Say what the totals lack because damaged lines were set aside; "" if nothing."""
        if not self.n_set_aside:
            return ""
        lines = f"{damaged_lines(self.n_set_aside)} of rows.jsonl set aside in rows.damaged.jsonl"
        return f"Mended: {lines}; calls, tokens and cost lack what was in them"

    def take(self, piece: Piece, cases: Cases | None) -> None:
        """Add one intact line, or note why it does not count."""
        line = piece.content
        if line is None:
            self.damage.append(Damage(piece.number, piece.start, "its checksum is wrong"))
            return
        try:
            spent = CallTotals(**line["calls"]) if "calls" in line else None
            CallTotals().add(spent or CallTotals())  # refuses what does not add up
            self._take(piece, line, cases)
        except _Unfit as unfit:
            self.damage.append(Damage(piece.number, piece.start, str(unfit)))
        except (KeyError, TypeError, ValueError, AttributeError):
            reason = "its content is not that of a journal line"
            self.damage.append(Damage(piece.number, piece.start, reason))
        else:
            if spent is not None:
                self.spent.add(spent)

    def _take(self, piece: Piece, line: JsonObject, cases: Cases | None) -> None:
        kind = line["kind"]
        if kind == "row":
            self._take_row(piece, line, cases)
        elif kind in ("prompt", "context"):
            self._texts[str(line["id"])] = str(line["text"])
        elif kind == "session":
            self.stop, self._session_seconds = None, 0.0
        elif kind == "stop":
            self.stop = StopCause.named(line["cause"], str(line["sentence"]))
        elif kind == "set_aside":
            self.n_set_aside += int(line["n"])
        elif kind == "sent":
            self._take_sent(1, *line["most"])
        elif kind == "provider_batch":
            self._take_sent(*self.provider_batches.take(line))
        elif kind != "calls":
            raise _Unfit("it is of an unknown kind")
        if "at" in line:
            at = float(line["at"])
            # A clock that went back belongs to a session whose first line was lost.
            before = self._session_seconds if at >= self._session_seconds else 0.0
            self.elapsed_seconds += at - before
            self._session_seconds = at

    def _take_sent(self, n_calls: int, n_input: int, n_output: int) -> None:
        self._n_sent += n_calls
        self._most_sent = self._most_sent[0] + n_input, self._most_sent[1] + n_output

    def _take_row(self, piece: Piece, line: JsonObject, cases: Cases | None) -> None:
        position, row = line["position"], row_from_dict(line["row"], "row")
        if type(position) is not int or position < 0:
            raise _Unfit("its position is outside the run")
        reason = cases.objection(position, row) if cases is not None else ""
        if reason:
            raise _Unfit(reason)
        self.keep(position, row, piece, line)

    def keep(self, position: int, row: EvaluationResult, piece: Piece, line: JsonObject) -> None:
        """Keep the row of a position in the place of an earlier one."""
        self.rows[position] = row
        self.features.pop(position, None)
        self._context_ids.pop(position, None)
        if "features" in line:
            self.features[position] = dict(line["features"])
            self._context_ids[position] = str(line.get("context", ""))

    def with_open_calls(self) -> JournalContents:
        """Charge calls that were sent and of which no line tells the end with their bound.

        A process was killed while they were in progress, or the line is damaged. What provider
        batches still hold is not over: whoever continues the run sets it aside.
        """
        waiting = self.provider_batches.pending(self.rows)
        held = waiting.most_input, waiting.most_output
        n_input = max(0, self._most_sent[0] - self.spent.reserved_input_tokens - held[0])
        n_output = max(0, self._most_sent[1] - self.spent.reserved_output_tokens - held[1])
        if n_input or n_output:
            n_calls = max(1, self._n_sent - self.spent.n_calls - waiting.n_calls)
            open_calls = CallTotals(n_calls_without_usage=n_calls, n_calls=n_calls)
            open_calls.assumed_input_tokens = open_calls.reserved_input_tokens = n_input
            open_calls.assumed_output_tokens = open_calls.reserved_output_tokens = n_output
            self.spent.add(open_calls)
        return self

    def with_texts(self) -> JournalContents:
        """Put the texts that rows share in the place of their names.

        At the end, so that a text which a later session wrote again helps the earlier rows too.
        """
        for row in self.rows.values():
            row.prompt = self._texts.get(row.prompt, "")
        for position, name in self._context_ids.items():
            if name in self._texts:
                self.features[position]["context"] = self._texts[name]
        return self


def read_journal(
    path: Path, cases: Cases | None = None, contents: JournalContents | None = None
) -> JournalContents:
    """Read a journal, rows that are not of these cases left out; a missing file is empty.

    ``contents`` may keep rows elsewhere than in memory.
    """
    contents = JournalContents() if contents is None else contents
    if path.exists():
        for piece in pieces(path):
            contents.take(piece, cases)
    return contents.with_open_calls().with_texts()


def mend(path: Path, damage: Sequence[Damage], damaged_path: Path) -> None:
    """Move the damaged stretches of a journal into a file beside it, losing no byte.

    They are in that file before they leave the journal, so a mending that is cut off can be
    repeated; a stretch that is already there is not written again.
    """
    if not damage:
        return
    starts = {one.start for one in damage}
    temporary = path.with_name(f".{path.name}.mending")
    aside = []
    with open(temporary, "wb", opener=open_private) as file:
        for piece in pieces(path):
            if piece.start in starts:
                aside.append(piece.text.strip(b"\n"))
            else:
                file.write(piece.text.removesuffix(b"\n") + b"\n")
        file.write(sealed({"kind": "set_aside", "n": len(damage)}))
        file.flush()
        os.fsync(file.fileno())
    known = damaged_path.read_bytes().split(b"\n") if damaged_path.exists() else []
    with open(damaged_path, "ab", opener=open_private) as file:
        file.write(b"".join(text + b"\n" for text in aside if text not in known))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@dataclass(frozen=True, slots=True)
class SoFar:
    """What a run that goes on has come to; ``per_minute`` is how many records end in a minute.

    ``cost`` is in dollars, and the most that it can be where a call did not say what it took
    (``cost_is_bound``); None where the price is not known.
    """

    failures: Mapping[str, int]
    spent: CallTotals
    per_minute: float | None
    cost: float | None

    @property
    def cost_is_bound(self) -> bool:
        """Say whether the cost is the most that it can be."""
        return self.cost is not None and self.spent.n_calls_without_usage > 0


class JournalTail:
    """Follows a growing journal, reading on from where it was."""

    def __init__(self) -> None:
        self._reading = threading.Lock()  # read twice at once, calls would count twice
        self._begin()

    def _begin(self) -> None:
        self._n_bytes = 0
        self._outcomes: dict[int, str] = {}
        self._classes: dict[int, str] = {}
        self._spent = CallTotals()
        self._price: dict[str, float] = {}
        self._started_at = 0.0
        self._ends: deque[float] = deque(maxlen=_N_OF_RATE)

    def read_on(self, path: Path, n_bytes: float = math.inf) -> Mapping[str, int]:
        """Return how many positions came to each outcome so far, reading so much at most."""
        with self._reading:
            if path.stat().st_size < self._n_bytes:  # mended, or cut: begin again
                self._begin()
            start = self._n_bytes
            for piece in pieces(path, start):
                # A piece without an end may still be growing: it is read again.
                if piece.content is not None or piece.text.endswith(b"\n"):
                    self._n_bytes = piece.end
                    with suppress(KeyError, TypeError, ValueError, AttributeError):
                        self._take(piece.content or {})  # what is no line of a journal is left out
                if piece.end - start > n_bytes:
                    break
            seen = Counter(self._outcomes.values())
            return {outcome: seen[outcome] for outcome in OUTCOMES}

    def so_far(self, now: float) -> SoFar:
        """Return what was read, at this time (seconds since 1970)."""
        spent = self._spent
        return SoFar(
            Counter(self._classes.values()),
            spent,
            self._per_minute(now),
            self._cost(),
        )

    def _cost(self) -> float | None:
        if not self._price:
            return None
        saved = 1 - self._price["batch_share"]
        tokens = zip(self._spent.most_tokens, self._spent.batch_tokens, strict=True)
        paid = [most - saved * batch for most, batch in tokens]
        return sum(n * self._price[name] / 1e6 for n, name in zip(paid, _PRICES, strict=True))

    def _take(self, line: JsonObject) -> None:
        kind = line.get("kind")
        if kind == "session":
            self._started_at = float(line["started_at"])
            self._ends.clear()
            price = line.get("price")
            # Journals of versions without provider batches state no share.
            self._price = {name: float(price[name]) for name in _PRICES} if price else {}
            self._price |= {"batch_share": float(price.get("batch_share", 1))} if price else {}
        elif kind == "row":
            position, row = int(line["position"]), line["row"]
            self._outcomes[position] = str(row["outcome"])
            self._classes.pop(position, None)
            if row["outcome"] not in ("answered", "abstained"):
                self._classes[position] = str(row.get("failure_class") or "unclassified")
            self._ends.append(float(line["at"]))
        if "calls" in line:
            self._spent.add(CallTotals(**line["calls"]))
            self._spent.latencies_seconds.clear()

    def _per_minute(self, now: float) -> float | None:
        """Return the rate of the last records of this session, waiting included."""
        if len(self._ends) < 2:
            return None
        since = max(now - self._started_at, self._ends[-1]) - self._ends[0]
        return (len(self._ends) - 1) / since * 60 if since > 0 else None
