"""Item instances as columns: one participant, one item, what was true and what was predicted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.columns import BoolArray, FloatArray, IntArray

ItemLoss = Literal["abs", "abs_norm", "error"]
LOSSES: tuple[ItemLoss, ...] = ("abs", "abs_norm", "error")

ParticipantId = int | str

# The signal that holds the confidence which a krisis backend returned.
STATED = "stated_confidence"


@dataclass(frozen=True, slots=True)
class Source:
    """Where items come from, as artifacts name it; ``kind`` says which default variant is meant."""

    path: str
    run_id: str | None = None
    git_commit: str | None = None
    mode: str | None = None
    kind: Literal["phq8_run", "krisis_run"] = "phq8_run"


@dataclass(frozen=True, slots=True, eq=False)
class ItemTable:
    """All items of the participants whose run succeeded; failures are only counted.

    ``participants`` is sorted and ``participant`` holds, per item, the position in it.
    ``prediction`` is NaN where the model abstained. ``scale`` is the largest distance between two
    scores, or NaN for labels that have no order. ``n_left_out`` counts the participants that
    succeeded and are not here because another run lacks them, ``n_not_asked`` the items that a run
    which has not ended still owes.
    """

    participants: Sequence[ParticipantId]
    participant: IntArray
    item_names: Sequence[str]
    truth: FloatArray
    prediction: FloatArray
    signals: Sequence[Mapping[str, Any]]
    scale: float
    source: Source
    failed: Sequence[ParticipantId] = ()
    n_failed_items: int = 0
    n_left_out: int = 0
    n_not_asked: int = 0
    wrong: BoolArray | None = field(default=None)

    @property
    def n_items(self) -> int:
        """Count all items, with and without a prediction."""
        return self.truth.size

    @property
    def predicted(self) -> BoolArray:
        """True where the model gave a score."""
        return ~np.isnan(self.prediction)

    @property
    def items_per_participant(self) -> FloatArray:
        """How many items every participant contributes."""
        counts = np.bincount(self.participant, minlength=len(self.participants))
        return counts.astype(np.float64)

    def errors(self) -> FloatArray:
        """Return, per predicted item, the distance from the truth; 0 or 1 without an order."""
        if self.wrong is not None:
            return self.wrong[self.predicted].astype(np.float64)
        return np.abs(self.prediction - self.truth)[self.predicted]

    def losses(self, loss: ItemLoss) -> FloatArray:
        """Return the loss of every predicted item."""
        if loss not in LOSSES:
            raise UnknownName.among("loss", loss, LOSSES)
        if loss == "error":
            return (self.errors() > 0).astype(np.float64)
        if math.isnan(self.scale):
            raise InvalidValue(
                f"the loss {loss!r} needs scores with an order and {self.source.path} has none; "
                "use the loss 'error'"
            )
        return self.errors() / (self.scale if loss == "abs_norm" else 1.0)

    def place(self, index: int) -> str:
        """Name an item in a message."""
        name = self.item_names[index]
        participant = f"participant {self.participants[int(self.participant[index])]}"
        return f"{participant}, item {name}" if name else participant

    def restricted(self, participants: Collection[ParticipantId]) -> ItemTable:
        """Return the table of these participants only."""
        kept = [i for i, name in enumerate(self.participants) if name in participants]
        code = np.full(len(self.participants), -1, dtype=np.int64)
        code[kept] = np.arange(len(kept))
        rows = np.flatnonzero(code[self.participant] >= 0)
        positions: list[int] = rows.tolist()
        return replace(
            self,
            participants=[self.participants[i] for i in kept],
            participant=code[self.participant[rows]],
            item_names=[self.item_names[i] for i in positions],
            truth=self.truth[rows],
            prediction=self.prediction[rows],
            signals=[self.signals[i] for i in positions],
            wrong=None if self.wrong is None else self.wrong[rows],
            n_left_out=self.n_left_out + len(self.participants) - len(kept),
        )


def span_of(*scores: FloatArray) -> float:
    """Return the distance between the lowest and the highest of all scores; NaN is none."""
    known = np.concatenate(scores)
    known = known[~np.isnan(known)]
    # Where every score is the same, every distance is 0 and any span does.
    return float(np.ptp(known)) or 1.0 if known.size else 1.0
