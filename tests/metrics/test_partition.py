"""The one partition of cases, and what is known of a run without its missing cases."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from krisis.errors import InvalidValue
from krisis.metrics.abstention import NotEvaluatedRate
from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import numbered_as_seen
from krisis.metrics.forms import Mean, Undefined
from krisis.metrics.level_form import Outcomes
from krisis.metrics.partition import DEFERRAL_CELLS, Partition, deferral_cell
from krisis.metrics.table import Table
from krisis.statistics.bootstrap import BootstrapOptions

DUE, SAFE = {"should_abstain": True}, {"should_abstain": False}
ROWS = [
    EvaluationResult(1, 1, metadata=SAFE),
    EvaluationResult(0, 1, metadata=SAFE),
    EvaluationResult(None, 1, True, metadata=SAFE),
    EvaluationResult(None, 1, True, metadata=DUE),
    EvaluationResult(1, 1, metadata=DUE),
    EvaluationResult(None, 1, error="no JSON", failure_class="malformed_reply", metadata=DUE),
    EvaluationResult(None, 1, True),
    EvaluationResult(None, 1, error="too slow", failure_class="timeout", metadata=SAFE),
]


def test_the_cells_of_the_rows_add_up_to_the_confusion_of_the_run() -> None:
    cells = Counter(map(deferral_cell, ROWS))
    assert cells.pop("") == 2  # one without a label, one that failed
    assert cells == Counter(Partition.of(Table(ROWS)).confusion())


def test_the_partition_by_hand() -> None:
    found = Partition.of(Table(ROWS))
    assert (found.safe.n, found.due.n, found.unlabelled.n, found.not_evaluated) == (3, 3, 1, 1)
    assert found.left_for_people == 4  # two deferred with a label, one without, one without answer
    facts = found.to_dict()
    assert facts["safe"] == {"right": 1, "wrong": 1, "abstained": 1, "no_answer": 0}
    assert facts["due"] == {"right": 1, "wrong": 0, "abstained": 1, "no_answer": 1}
    assert facts["left_for_people"] == 4


def test_every_row_is_in_the_cell_that_the_confusion_counts() -> None:
    cells = [deferral_cell(row) for row in ROWS]
    assert cells == [
        *("answer_when_safe", "answer_when_safe", "abstain_when_should_answer"),
        *("defer_when_needed", "answer_when_should_defer", "no_answer_when_should_defer"),
        *("", ""),  # without a label, and not evaluated
    ]
    confusion = Partition.of(Table(ROWS)).confusion()
    assert confusion == {name: cells.count(name) for name in DEFERRAL_CELLS}
    answered = Partition.of(Table([row for row in ROWS if row.outcome != "no_answer"]))
    assert list(answered.confusion()) == list(DEFERRAL_CELLS)[:4]


def test_the_share_that_was_not_evaluated_is_a_count_of_this_run() -> None:
    table = Table(ROWS)
    form = NotEvaluatedRate().form(table)
    assert not isinstance(form, Undefined)
    assert form.value() == 1 / 8
    assert form.bounds(1) == (1 / 8, 1 / 8)
    assert form.on(table.patients).values(np.ones((table.patients.n, 1))).tolist() == [1 / 8]
    compared = NotEvaluatedRate().comparison_form(table)
    assert isinstance(compared, Undefined)
    interval = form.uncertainty(table, BootstrapOptions()).interval
    assert interval.reason == "it_describes_this_run_alone"


def test_a_mean_without_a_range_has_no_bounds() -> None:
    everyone = np.ones(2, dtype=np.bool_)
    assert Mean(np.array([1.0, 3.0]), among=everyone, high=math.inf).bounds(1) is None


def test_a_label_that_is_none_is_named_also_behind_a_reply_without_an_answer() -> None:
    rows = [*ROWS[5:6], EvaluationResult(1, 1, record_id="z")]
    rows[1].prediction = [1]  # type: ignore[assignment]
    with pytest.raises(InvalidValue, match=r"prediction .* is not a label"):
        Table(rows)


def test_neighbouring_levels_are_one_where_they_are_very_many() -> None:
    stated = np.linspace(0, 1, 10)
    found = Outcomes.of(stated, stated > 0.5, np.ones(10, dtype=np.bool_)).grouped(5)
    assert found.level.size <= 5
    assert found.probability.mean() == pytest.approx(stated.mean())


def test_labels_are_numbered_as_they_are_seen() -> None:
    names, truth, answered = numbered_as_seen(["a", "b"], np.array([1, 0]), np.array([-1, 0]))
    assert (names, truth.tolist(), answered.tolist()) == (["b", "a"], [0, 1], [-1, 1])


def test_a_part_of_the_rows_lacks_the_cases_that_the_whole_lacks() -> None:
    part = Table(ROWS).restricted(np.arange(7) < 2)
    assert (part.n_scored, part.missing_due.tolist(), part.missing_truths) == (2, [0], [1])
