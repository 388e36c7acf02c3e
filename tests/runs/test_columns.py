"""A run read by column is the run read by row: tables, figures, rows, and what is damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.invented_runs import invented_rows, result_of, write_run

from krisis.errors import InvalidFile
from krisis.json_values import dumps
from krisis.metrics import BootstrapOptions, score_all, usual_metrics
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import Coded
from krisis.results.attrition import Attrition
from krisis.results.rows import scores_to_dict
from krisis.results.run_items import items_of_result, source_of
from krisis.runs.columns import RunColumns
from krisis.runs.load import load_run
from krisis.runs.read import open_run

LABELS = st.sampled_from([0, 1, 2, "a", "1"])
VALUES = st.sampled_from([None, True, False, 1, 1.0, "x", [1], {"k": 2}])


@st.composite
def some_rows(draw: st.DrawFn) -> list[EvaluationResult]:
    rows = []
    for number in range(draw(st.integers(1, 14))):
        error = draw(st.sampled_from([None, None, "no JSON"]))
        kind = draw(st.sampled_from(["malformed_reply", "timeout"])) if error else ""
        abstained = error is None and draw(st.booleans())
        rows.append(
            EvaluationResult(
                None if error or abstained else draw(LABELS),
                draw(LABELS),
                abstained,
                draw(st.sampled_from([None, 0.25, 0.5, 1.0])),
                raw_response=f"reply {number}",
                metadata=draw(
                    st.dictionaries(st.sampled_from(["ckd_stage", "should_abstain"]), VALUES)
                ),
                record_id=f"r{draw(st.integers(0, 99))}-{number}",
                cluster_id=f"p{draw(st.integers(0, 5))}",
                signals=draw(st.dictionaries(st.sampled_from(["token_msp", "odd"]), VALUES)),
                error=error,
                failure_class=kind,
            )
        )
    return rows


def both_ways(path: Path) -> tuple[Rows, Rows]:
    """Return the rows of a run by column, and those that were built one by one."""
    with open_run(path) as run:
        columns = RunColumns.of(run)
        assert columns is not None
        return Rows(columns), Rows(run.rows())


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=some_rows())
def test_columns_say_what_the_rows_say(
    rows: list[EvaluationResult], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write_run(tmp_path_factory.mktemp("run"), result_of(Rows(rows)))
    ours, built = both_ways(path)
    assert len(ours) == len(rows)
    assert list(ours) == list(built)
    assert Attrition.of(ours) == Attrition.of(built)
    table, other = ours.table, built.table
    assert table.labels == other.labels
    for name in ("positions", "truth", "prediction", "abstained", "no_answer", "confidence"):
        np.testing.assert_array_equal(getattr(table, name), getattr(other, name), name)
    np.testing.assert_array_equal(table.should_abstain, other.should_abstain)
    np.testing.assert_array_equal(table.patients.code, other.patients.code)
    assert table.patient_names == other.patient_names
    assert table.record_ids == [row.record_id for row in other.rows]
    assert table.missing_patients == other.missing_patients
    assert table.unreadable_deferral == other.unreadable_deferral
    assert table.metadata("ckd_stage") == other.metadata("ckd_stage")
    assert table.grouped("stage")[0] == other.grouped("stage")[0]
    np.testing.assert_array_equal(table.grouped("stage")[1], other.grouped("stage")[1])
    assert ours.columns.signal_names() == built.columns.signal_names()
    for name in ("token_msp", "odd", "absent"):
        left, right = (columns.signal(name) for columns in (ours.columns, built.columns))
        assert (left is None) == (right is None)
        if left is not None:
            np.testing.assert_array_equal(left, right)


def test_every_figure_is_the_same_to_the_last_digit(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", result_of(invented_rows(240)))
    ours, built = both_ways(path)
    answers = load_run(path).rows.answers
    options = BootstrapOptions(n_resamples=200)
    found, expected = (
        dumps(scores_to_dict(score_all(usual_metrics(), Rows(rows, answers), intervals=options)))
        for rows in (ours, built)
    )
    assert found == expected


def test_a_score_builds_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_run(tmp_path / "run", result_of(invented_rows(60)))
    result = load_run(path)

    def built(*_: object) -> None:
        raise AssertionError("a row was built")

    monkeypatch.setattr(RunColumns, "rows_at", built)
    score_all(usual_metrics(), result.rows, intervals=BootstrapOptions(n_resamples=20))
    items = items_of_result(result, source_of(result))
    assert items.n_items == result.rows.table.n_scored
    assert items.signal("stated_confidence") is not None


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE rows SET confidence = 0.123 WHERE position = 3",
        "UPDATE rows SET checksum = 'x' WHERE position = 3",
        "UPDATE cases SET metadata = '{' WHERE position = 3",
        "DELETE FROM cases WHERE position = 3",
    ],
)
def test_a_line_that_cannot_be_believed_is_in_no_column(tmp_path: Path, damage: str) -> None:
    path = write_run(tmp_path / "run", result_of(invented_rows(20)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
        connection.commit()
    result = load_run(path)
    assert len(result.rows) == len(list(result.rows)) == 19
    assert "1 damaged" in result.damage
    assert result.attrition.n_sent == 19


def test_a_row_that_went_while_others_looked_is_one_sentence(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", result_of(invented_rows(20)))
    rows = load_run(path).rows
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM rows WHERE position = 3")
        connection.commit()
    with pytest.raises(InvalidFile, match="changed while it was read; try again"):
        list(rows)


def test_equal_values_of_other_types_keep_their_types() -> None:
    cells = [1, True, 1.0, None, "1", [1], [1], {"a": 1}, 1]
    found = Coded.of(cells)
    assert [repr(cell) for cell in found.cells()] == [repr(cell) for cell in cells]
    assert len(found.values) == 7
