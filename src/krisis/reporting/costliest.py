"""The rows that cost most: confident errors, answers where deferral was due, needless silence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import canonical_label
from krisis.reporting.deferral import deferral_cell

N_SHOWN = 10
_REPLY_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class CostlyRows:
    """One kind of costly row: all that there are in number, the worst of them in full."""

    key: str
    title: str
    meaning: str
    n_rows: int
    rows: tuple[tuple[int, EvaluationResult], ...]


def is_correct(row: EvaluationResult) -> bool:
    """Say whether the model answered, and rightly."""
    if row.abstained or row.error is not None or row.prediction is None:
        return False
    return canonical_label(row.prediction) == canonical_label(row.ground_truth)


def is_wrong(row: EvaluationResult) -> bool:
    """Say whether the model answered, and wrongly."""
    return not row.abstained and row.error is None and not is_correct(row)


_KINDS: tuple[tuple[str, str, str, Callable[[EvaluationResult], bool], bool], ...] = (
    (
        "confident_wrong",
        "Confident and wrong",
        "Answered, wrong, and surest of it: what a reader would have believed.",
        is_wrong,
        True,
    ),
    (
        "answer_when_should_defer",
        "Answered when deferral was due",
        "The case could not be settled from what was shown, and the model settled it.",
        lambda row: deferral_cell(row) == "answer_when_should_defer",
        True,
    ),
    (
        "abstain_when_should_answer",
        "Abstained needlessly",
        "The case could be settled, and the model declined.",
        lambda row: deferral_cell(row) == "abstain_when_should_answer",
        False,
    ),
)


def costliest_rows(rows: Sequence[EvaluationResult], *, n_shown: int = N_SHOWN) -> list[CostlyRows]:
    """Return each kind of costly row, the worst first."""
    return [_costly(rows, kind=kind, n_shown=n_shown) for kind in _KINDS]


def _costly(
    rows: Sequence[EvaluationResult],
    *,
    kind: tuple[str, str, str, Callable[[EvaluationResult], bool], bool],
    n_shown: int,
) -> CostlyRows:
    key, title, meaning, belongs, surest_first = kind
    found = [(index, row) for index, row in enumerate(rows) if belongs(row)]
    sign = -1.0 if surest_first else 1.0
    found.sort(key=lambda pair: (sign * (pair[1].confidence or 0.0), pair[0]))
    return CostlyRows(key, title, meaning, len(found), tuple(found[:n_shown]))


def shortened(text: str, *, n_characters: int = _REPLY_CHARACTERS) -> str:
    """Cut a long reply, saying how much is missing.

    >>> shortened("abcdef", n_characters=4)
    'abcd … (2 more characters)'
    """
    n_more = len(text) - n_characters
    return text if n_more <= 0 else f"{text[:n_characters]} … ({n_more:,} more characters)"
