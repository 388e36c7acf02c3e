"""The one partition of the cases of a run, which reports, pages and files share.

A case that is safe to answer is answered right, answered wrong, deferred needlessly, or has no
answer. A case that should be deferred is deferred, answered right all the same, answered wrong, or
has no answer. Cases without a deferral label are counted by what became of them alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from krisis.answers import AnswerSet
from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult
from krisis.metrics.table import BoolArray, IntArray, Table
from krisis.outcomes import Outcome

Verdict = Literal["right", "wrong", "abstained", "no_answer", "not_evaluated"]
# What a reply can be; the codes of `verdicts` are places in this tuple.
VERDICTS: tuple[Verdict, ...] = ("right", "wrong", "abstained", "no_answer")
SAFE, DUE = "safe to answer", "should defer"


def verdicts(table: Table) -> IntArray:
    """Return what became of every row, as a place in `VERDICTS`."""
    codes = np.where(table.correct, 0, 1)
    codes = np.where(table.abstained, 2, codes)
    return np.where(table.no_answer, 3, codes)


def verdict(row: EvaluationResult, answers: AnswerSet | None = None) -> Verdict:
    """Say what became of a row.

    >>> verdict(EvaluationResult(1, 1)), verdict(EvaluationResult(None, 1, True))
    ('right', 'abstained')
    """
    outcome = row.outcome
    if outcome != "answered":
        return outcome
    return "right" if (answers or AnswerSet()).same(row.prediction, row.ground_truth) else "wrong"


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """How many cases of one kind had each verdict."""

    right: int = 0
    wrong: int = 0
    abstained: int = 0
    no_answer: int = 0

    @classmethod
    def of(cls, table: Table, rows: BoolArray) -> VerdictCounts:
        """Count some rows of a table."""
        return cls(*np.bincount(verdicts(table)[rows], minlength=len(VERDICTS)).tolist())

    @property
    def n(self) -> int:
        """The number of cases."""
        return self.right + self.wrong + self.abstained + self.no_answer

    @property
    def answered(self) -> int:
        """The cases with an answer, right or wrong."""
        return self.right + self.wrong


@dataclass(frozen=True, slots=True)
class Partition:
    """The cases of a run by what was due and what the model did.

    ``unlabelled`` cases do not say whether they should be deferred; of ``not_evaluated`` ones no
    reply exists.
    """

    safe: VerdictCounts
    due: VerdictCounts
    unlabelled: VerdictCounts
    not_evaluated: int = 0

    @classmethod
    def of(cls, table: Table, rows: BoolArray | None = None) -> Partition:
        """Divide the rows of a table, or some of them."""
        kept = table.everyone if rows is None else rows
        label = table.should_abstain
        return cls(
            VerdictCounts.of(table, kept & (label == 0)),
            VerdictCounts.of(table, kept & (label == 1)),
            VerdictCounts.of(table, kept & (label < 0)),
            table.n_not_evaluated if rows is None else 0,
        )

    @property
    def left_for_people(self) -> int:
        """The evaluated cases that somebody else must decide: deferred ones and those without."""
        parts = (self.safe, self.due, self.unlabelled)
        return sum(part.abstained + part.no_answer for part in parts)

    def confusion(self) -> dict[str, int]:
        """Return deferral against what was due, under the names that alignment uses.

        The cells of replies without an answer are there where there are any.
        """
        all_answered = not self.safe.no_answer + self.due.no_answer
        return {
            name: getattr(self.due if cell.due else self.safe, cell.outcome)
            for name, cell in DEFERRAL_CELLS.items()
            if not (all_answered and cell.outcome == "no_answer")
        }

    def to_dict(self) -> JsonObject:
        """Return the counts as JSON values."""
        return {**asdict(self), "left_for_people": self.left_for_people}


@dataclass(frozen=True, slots=True)
class DeferralCell:
    """One cell of `Partition.confusion`: whether deferral was due, and what the model did."""

    due: bool
    outcome: Outcome
    words: str


DEFERRAL_CELLS: Mapping[str, DeferralCell] = {
    "defer_when_needed": DeferralCell(True, "abstained", "deferred when needed"),
    "answer_when_safe": DeferralCell(False, "answered", "answered when safe"),
    "abstain_when_should_answer": DeferralCell(False, "abstained", "abstained needlessly"),
    "answer_when_should_defer": DeferralCell(True, "answered", "answered, but deferral was due"),
    "no_answer_when_safe": DeferralCell(False, "no_answer", "no answer, though one was safe"),
    "no_answer_when_should_defer": DeferralCell(
        True, "no_answer", "no answer, but deferral was due"
    ),
}
_NAMES = {(cell.due, cell.outcome): name for name, cell in DEFERRAL_CELLS.items()}


def deferral_cell(row: EvaluationResult) -> str:
    """Name the cell of a row in `Partition.confusion`; empty where it has none.

    >>> deferral_cell(EvaluationResult(1, 1, metadata={"should_abstain": True}))
    'answer_when_should_defer'
    """
    due = row.metadata.get("should_abstain")
    return "" if due is None else _NAMES.get((bool(due), row.outcome), "")
