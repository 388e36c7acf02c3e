"""Some rows of a table keep their names and signals, also those that are no numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.items import RunItems, Source


def rows() -> Rows:
    return Rows(
        EvaluationResult(
            1, 1, confidence=0.5, record_id=f"r{i}", signals={"vote": i / 4, "words": "yes"}
        )
        for i in range(4)
    )


def test_picked_rows_keep_names_and_signals() -> None:
    whole = rows().columns
    picked = whole.taken(np.array([3, 1]))
    assert picked.signal_names() == whole.signal_names() == ["vote", "words"]
    assert [picked.row_name(place) for place in (0, 1)] == [whole.row_name(3), whole.row_name(1)]
    vote = picked.signal("vote")
    assert vote is not None
    assert vote.tolist() == [0.75, 0.25]


def test_a_signal_of_words_is_given_where_a_row_has_it() -> None:
    some = list(rows())
    some[2].signals.pop("words")
    items = RunItems(Rows(some).table, Source(Path("run")))
    assert items.signal("words") is None
    assert items.given("words").tolist() == [True, True, False, True]
