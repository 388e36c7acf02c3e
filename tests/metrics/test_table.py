"""One table of rows: what it reads, what it refuses, and how it counts patients."""

from __future__ import annotations

import numpy as np
import pytest

from krisis.errors import InvalidValue
from krisis.metrics import columns
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.labels import Answers
from krisis.metrics.table import MOST_UNITS, Table


def row(i: int = 0, **fields: object) -> EvaluationResult:
    """Return a right answer of one patient."""
    given = {"record_id": f"case-{i}", "cluster_id": f"patient-{i}", **fields}
    return EvaluationResult(1, 1, False, 0.8, "", **given)


def test_a_row_without_the_right_answer_is_named() -> None:
    rows = [row(0), row(1)]
    rows[1].ground_truth = None
    with pytest.raises(InvalidValue, match=r"row 1 \(case-1\): ground_truth is None"):
        Table(rows)


def test_a_prediction_that_is_no_label_is_named() -> None:
    rows = [row(0), row(1)]
    rows[1].prediction = [1]  # type: ignore[assignment]
    with pytest.raises(InvalidValue, match=r"row 1 \(case-1\): prediction \[1\] is not a label"):
        Table(rows)


def test_a_prediction_that_is_no_whole_number_is_a_wrong_answer() -> None:
    rows = [row(0), row(1)]
    rows[1].prediction = 0.5  # type: ignore[assignment]
    table = Table(rows)
    assert table.answered.tolist() == [True, True]
    assert not table.correct[1]


def test_a_confidence_that_is_no_number_is_not_taken_for_a_bad_label() -> None:
    rows = [row(0), row(1)]
    rows[1].confidence = "high"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="could not convert string"):
        Table(rows)


def test_metadata_that_cannot_be_read_at_once_is_read_or_refused_where_it_is_needed() -> None:
    answers = Answers(groups={"stage": "stage"})
    rows = [row(i, metadata={"stage": 3, "should_abstain": False}) for i in range(5)]
    rows[1].metadata = {"stage": ["3a"], "should_abstain": "perhaps"}
    table = Table(rows, answers)
    assert table.unreadable_deferral.startswith("row 1 (case-1): metadata['should_abstain']")
    assert table.should_abstain.tolist() == [0, -1, 0, 0, 0]
    rows[1].metadata = {"stage": ["3a"], "should_abstain": True}
    assert Table(rows, answers).unreadable_deferral == ""
    names, group = table.grouped("stage")
    assert [names[code] for code in group] == ["stage_3", "stage_['3a']", *["stage_3"] * 3]


def test_codes_are_seen_in_the_order_of_the_rows() -> None:
    assert columns.seen(np.array([3, 3, 1, 3, 0, 1]), 5) == [3, 1, 0]
    assert columns.seen(np.array([], dtype=np.int64), 5) == []


def test_very_many_patients_are_pooled_at_random_and_evenly() -> None:
    n_patients = 2 * MOST_UNITS + 500
    table = Rows(row(i // 2) for i in range(2 * n_patients)).table
    pools = table.pools
    assert pools.n == MOST_UNITS
    # All rows of a patient share a pool, pools have 2 or 3 patients, and neighbours are apart.
    np.testing.assert_array_equal(pools.code[::2], pools.code[1::2])
    assert set(np.bincount(pools.code[::2]).tolist()) == {2, 3}
    assert np.count_nonzero(np.diff(pools.code[::2]) == 1) < n_patients / 10
    few = Rows(row(i) for i in range(MOST_UNITS)).table
    assert few.pools is few.patients


def test_patients_are_in_the_order_of_their_names_and_rows_without_one_bear_their_own() -> None:
    names = ["p10", "p1", "", "p2", "p1", ""]
    table = Table([row(i, cluster_id=name) for i, name in enumerate(names)])
    assert table.patient_names == ["case-2", "case-5", "p1", "p10", "p2"]
    assert table.patients.code.tolist() == [0, 1, 2, 2, 3, 4]
