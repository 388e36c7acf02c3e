"""What differs between two runs, in cases: who answered what the other left to a person."""

from __future__ import annotations

import numpy as np

from krisis.metrics.partition import verdicts
from krisis.metrics.table import BoolArray
from krisis.metrics.table import Table as Cases
from krisis.pages.document import Cell, Column, Document, Section, Sentences, Table
from krisis.pages.numbers import count
from krisis.results.comparison.base import Comparison, Pair

OUTCOMES = ("right", "wrong", "left")  # left to a person: abstained, or without an answer


def cases_document(comparison: Comparison) -> Document:
    """Return what differs in cases, pair by pair; nothing of runs whose rows are not there."""
    return Document(
        title=" and ".join(comparison.runs),
        sections=[
            Section(
                key=f"cases-{place}",
                title=f"{pair.right} compared with {pair.left}",
                parts=[Sentences(case_sentences(pair)), _outcomes(pair)],
            )
            for place, pair in enumerate(comparison.pairs)
            if pair.matched is not None
        ],
    )


def case_sentences(pair: Pair) -> list[str]:
    """Say which cases one run answers and the other left to a person, and who was right where.

    Both rest on the cases that both runs evaluated.
    """
    if pair.matched is None:
        return []
    left, right = (pair.matched.rows[name].table for name in (pair.left, pair.right))
    found = [_answered_alone(pair.right, right, pair.left, left)]
    found.append(_answered_alone(pair.left, left, pair.right, right))
    both = left.answered & right.answered
    better, worse = right.correct & ~left.correct & both, left.correct & ~right.correct & both
    found.append(
        f"Both answer {count(int(both.sum()))} cases: {pair.right} alone is right in "
        f"{count(int(better.sum()))}, {pair.left} alone in {count(int(worse.sum()))}."
    )
    return found


def _answered_alone(name: str, table: Cases, other: str, others: Cases) -> str:
    """Say how many cases one run answers that the other left, and whether it should have."""
    alone = table.answered & ~others.answered
    n = int(alone.sum())
    words = f"{name} answers {count(n)} cases that {other} left to a person"
    if not n:
        return f"{words}."
    due = ""
    if (table.should_abstain[alone] >= 0).all():
        due = f"; {count(_n(alone, table.should_abstain == 1))} of them should have been left"
    right = _n(alone, table.correct)
    return f"{words}{due}; right {count(right)}, wrong {count(n - right)}."


def _n(first: BoolArray, second: BoolArray) -> int:
    return int(np.count_nonzero(first & second))


def _outcomes(pair: Pair) -> Table:
    """Return how many cases had which outcome in both runs."""
    assert pair.matched is not None
    codes = [
        np.minimum(verdicts(pair.matched.rows[name].table), 2) for name in (pair.left, pair.right)
    ]
    counts = np.zeros((3, 3), dtype=np.int64)
    np.add.at(counts, tuple(codes), 1)
    rows: list[list[Cell]] = [
        [f"{pair.left} {before}", *line.tolist(), int(line.sum())]
        for before, line in zip(OUTCOMES, counts, strict=True)
    ]
    headings = [f"{pair.right} {after}" for after in OUTCOMES]
    columns = (Column("name", "cases"), *(Column("count", one) for one in (*headings, "all")))
    return Table(columns=columns, rows=rows)
