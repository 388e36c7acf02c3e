"""The cases to look at first: confident errors, and wrong decisions to answer or to defer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from krisis.json_values import JsonMapping
from krisis.metrics.base import EvaluationResult, table_of
from krisis.pages.groups import spaced
from krisis.pages.numbers import count

N_SHOWN = 10
REPLY_LETTERS = 600


@dataclass(frozen=True, slots=True)
class WorstRows:
    """One kind of error: how many cases there are, and the worst of them with their positions."""

    key: str
    title: str
    meaning: str
    n_rows: int
    rows: tuple[tuple[int, EvaluationResult], ...]


def worst_rows(rows: Sequence[EvaluationResult]) -> list[WorstRows]:
    """Return each kind of error: the most confident answers first, or the least confident silence.

    Replies without an answer are a kind of their own where there are any.
    """
    table = table_of(rows)
    stated = np.nan_to_num(table.confidence)
    kinds = (
        (
            "confident_wrong",
            "Wrong answers, the most confident first",
            "Answered and wrong: what a reader would have believed.",
            table.answered & ~table.correct,
            -stated,
        ),
        (
            "answer_when_should_defer",
            "Answered when deferral was due",
            "The case could not be settled from what was shown, and was answered all the same.",
            table.answered & (table.should_abstain == 1),
            -stated,
        ),
        (
            "abstain_when_should_answer",
            "Deferred needlessly",
            "The case could be settled, and was left to others.",
            table.abstained & (table.should_abstain == 0),
            stated,
        ),
        (
            "no_answer",
            "Replies without an allowed answer",
            "The reply is no answer: cut off, malformed or not allowed.",
            table.no_answer,
            -stated,
        ),
    )
    found = []
    for key, title, meaning, mask, order in kinds:
        chosen = np.flatnonzero(mask)
        if key == "no_answer" and not chosen.size:
            continue
        worst = table.positions[chosen[np.argsort(order[chosen], kind="stable")][:N_SHOWN]]
        shown = tuple((int(i), rows[int(i)]) for i in worst)
        found.append(WorstRows(key, title, meaning, int(chosen.size), shown))
    return found


def answer_given(row: EvaluationResult) -> str:
    """Return what a row says in place of, or as, its answer."""
    if row.outcome == "abstained":
        return "abstained"
    said = "none" if row.prediction is None else str(row.prediction)
    return said if row.outcome == "answered" else f"{said} ({row.failure_class})"


def reasons_of(metadata: JsonMapping) -> str:
    """Return why a case should be deferred, as its metadata say."""
    reasons = metadata.get("abstain_reasons") or metadata.get("abstain_reason") or ""
    if isinstance(reasons, list | tuple):
        reasons = ", ".join(map(str, reasons))
    return spaced(str(reasons))


def shortened(text: str, *, n_letters: int = REPLY_LETTERS) -> str:
    """Cut a long reply, saying how much is missing.

    >>> shortened("abcdef", n_letters=4)
    'abcd … (2 more characters)'
    """
    n_more = len(text) - n_letters
    return text if n_more <= 0 else f"{text[:n_letters]} … ({count(n_more)} more characters)"
