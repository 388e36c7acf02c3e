"""The rows that cost most: confident errors, answers where deferral was due, needless silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from krisis.metrics.base import EvaluationResult, table_of

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


def costliest_rows(rows: Sequence[EvaluationResult]) -> list[CostlyRows]:
    """Return each kind of costly row: the surest answers first, or the least sure silence."""
    columns = table_of(rows)
    stated = np.nan_to_num(columns.confidence)
    kinds = (
        (
            "confident_wrong",
            "Wrong answers, the surest first",
            "Answered, wrong, and surest of it: what a reader would have believed.",
            columns.answered & ~columns.correct,
            -stated,
        ),
        (
            "answer_when_should_defer",
            "Answered when deferral was due",
            "The case could not be settled from what was shown, and the model settled it.",
            columns.answered & (columns.should_abstain == 1),
            -stated,
        ),
        (
            "abstain_when_should_answer",
            "Abstained needlessly",
            "The case could be settled, and the model declined.",
            columns.abstained & (columns.should_abstain == 0),
            stated,
        ),
        (
            "no_answer",
            "Replies without an allowed answer",
            "The model replied, and the reply is no answer: cut off, malformed or not allowed.",
            columns.no_answer,
            -stated,
        ),
    )
    costly = []
    for key, title, meaning, mask, order in kinds:
        chosen = np.flatnonzero(mask)
        if key == "no_answer" and not chosen.size:
            continue
        worst = columns.positions[chosen[np.argsort(order[chosen], kind="stable")][:N_SHOWN]]
        shown = tuple((int(i), rows[int(i)]) for i in worst)
        costly.append(CostlyRows(key, title, meaning, int(chosen.size), shown))
    return costly


def shortened(text: str, *, n_characters: int = _REPLY_CHARACTERS) -> str:
    """Cut a long reply, saying how much is missing.

    >>> shortened("abcdef", n_characters=4)
    'abcd … (2 more characters)'
    """
    n_more = len(text) - n_characters
    return text if n_more <= 0 else f"{text[:n_characters]} … ({n_more:,} more characters)"
