"""What is behind the pages: the index of runs, the rows of long runs, and odd folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.invented_runs import edited_line, invented_rows, result_of, write_run

from krisis.reporting.figure import Figure
from krisis.reporting.report import report_html
from krisis.results import loading
from krisis.results.journal_lines import sealed
from krisis.results.rows import row_to_dict
from krisis.viewer import long_runs, stored_columns
from krisis.viewer.catalogue import LoadedRun
from krisis.viewer.long_runs import LongRun, build
from krisis.viewer.row_index import RowFilter


def lines_of(path: Path) -> list[bytes]:
    return (path / "rows.jsonl").read_bytes().splitlines(keepends=True)


def long_run(path: Path, folder: Path) -> LoadedRun:
    """Index a run as the process of a long one does, and load it from there."""
    folder.mkdir()
    build(path, folder, lambda stage, n_done, n_total: None)
    return LoadedRun("run", path, LongRun(folder, path))


def as_is(lines: list[bytes]) -> list[bytes]:
    return lines


def asked_again(lines: list[bytes]) -> list[bytes]:
    """Rows 3 and 7 twice, the later line with another answer, and in no order."""
    rows = [line for line in lines if b'"kind": "row"' in line]
    other = [json.loads(line)["row"] | {"confidence": 0.125} for line in (rows[3], rows[7])]
    again = [edited_line(rows[i], row=row) for i, row in zip((3, 7), other, strict=True)]
    return [*lines[:-60], again[0], *reversed(lines[-60:]), again[1]]


def damaged(lines: list[bytes]) -> list[bytes]:
    """A wrong checksum, a cut line glued to the next, a row of another place, an unknown kind."""
    return [
        *lines[:20],
        lines[20].replace(b"case", b"cAse"),
        lines[21][:50],
        *lines[22:40],
        edited_line(lines[40], position=2),
        edited_line(lines[41], position=[1]),
        sealed({"kind": "dance"}),
        edited_line(lines[42], calls={"n_calls": "many"}),
        b'{"kind": "row", ' + b"[" * 5000 + b"\n",
        *lines[43:],
        lines[50][:-20],
    ]


def lacking(lines: list[bytes]) -> list[bytes]:
    """Rows 5 to 20 were never asked."""
    return [line for line in lines if not 5 <= json.loads(line).get("position", 0) <= 20]


class RunReportStub:
    figures = ()


JOURNALS = [as_is, asked_again, damaged, lacking]


@pytest.fixture(scope="module", params=JOURNALS, ids=lambda change: change.__name__)
def both(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedRun, LoadedRun]:
    """Return one run loaded whole, and the same run from its index."""
    folder = tmp_path_factory.mktemp("runs")
    rows = invented_rows(130)
    for position, row in enumerate(rows):
        row.metadata = {**row.metadata, "egfr": 30 + position / 7, "ids": [position % 3]}
        row.signals = {"token_msp": position / 130} if position % 2 else {}
        row.raw_response = f"Reply {position} – ÄÖ\n{row.raw_response}"
    del rows[9].metadata["ckd_stage"]
    path = write_run(folder / "run", result_of(rows), features={"x": 1.5})
    (path / "rows.jsonl").write_bytes(b"".join(request.param(lines_of(path))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_columns, "_MOST_VALUES", 50)  # some columns become numbers
        patch.setattr(loading, "_N_RESAMPLES", 20)
        patch.setattr(Figure, "svg", "<svg/>")
        if request.param is not as_is:  # one report is enough: drawing takes long
            patch.setattr(long_runs, "report_of", lambda result, path: RunReportStub())
        stored = long_run(path, folder / "index")
        whole = LoadedRun("run", path)
    return whole, stored


def test_a_long_run_has_exactly_the_rows_that_loading_gives(
    both: tuple[LoadedRun, LoadedRun],
) -> None:
    whole, stored = both
    assert stored.n_rows == whole.n_rows > 100
    for position in range(whole.n_rows):
        assert stored.row(position) == whole.row(position)
        assert stored.features.get(position) == whole.features.get(position)
    for brief, row in zip(stored.result.rows, whole.result.rows, strict=True):
        assert row_to_dict(brief) == row_to_dict(row) | {"raw_response": ""}


def test_a_long_run_has_the_facts_scores_and_report_that_loading_gives(
    both: tuple[LoadedRun, LoadedRun],
) -> None:
    whole, stored = both
    assert stored.result.to_dict(include_results=False) == whole.result.to_dict(
        include_results=False
    )
    assert stored.result.damage == whole.result.damage


@pytest.mark.parametrize("both", [as_is], indirect=True)
def test_a_long_run_has_the_report_that_loading_gives(
    both: tuple[LoadedRun, LoadedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stored = both
    monkeypatch.setattr(Figure, "svg", "<svg/>")
    assert report_html(stored.report) == report_html(whole.report)


def same_table(left: Any, right: Any) -> None:
    assert (left.n_rows, left.n_failed, left.labels) == (right.n_rows, right.n_failed, right.labels)
    for name in ("truth", "prediction", "abstained", "confidence", "correct", "should_abstain"):
        assert np.array_equal(getattr(left, name), getattr(right, name), equal_nan=name[0] == "c")
    assert left.patients.n == right.patients.n
    assert np.array_equal(left.patients.code, right.patients.code)
    assert left.patient_names == right.patient_names
    assert (left.repeats_cases, left.says_why_deferred) == (
        right.repeats_cases,
        right.says_why_deferred,
    )
    assert left.failed_truths == right.failed_truths
    assert left.unreadable_deferral == right.unreadable_deferral
    for column in ("stage", "sex", "egfr", "ids", "no such"):
        assert left.metadata(column) == right.metadata(column)
        assert left.grouped(column)[0] == right.grouped(column)[0]
        assert np.array_equal(left.grouped(column)[1], right.grouped(column)[1])


def test_the_table_of_a_long_run_is_that_of_its_rows(both: tuple[LoadedRun, LoadedRun]) -> None:
    whole, stored = both
    same_table(stored.table, whole.table)
    kept = np.arange(whole.table.n_scored) % 3 == 1
    same_table(stored.table.restricted(kept), whole.table.restricted(kept))


FILTERS = [
    RowFilter(),
    RowFilter(outcome="answered", correct="no", sort="-confidence"),
    RowFilter(outcome="failed"),
    RowFilter(outcome="scored", sort="confidence"),
    RowFilter(cell="answer_when_should_defer"),
    RowFilter(due="yes", reason="egfr_near_threshold"),
    RowFilter(due="no"),
    RowFilter(predicted="1", truth="0"),
    RowFilter(failure="timeout"),
    RowFilter(group="stage: 3"),
    RowFilter(group="stage: nothing"),
    RowFilter(group="nothing: 3"),
    RowFilter(record="case-000030"),
    RowFilter(text="REPLY 1"),
    RowFilter(text="äö\n{"),
    RowFilter(text="case-00001"),
    RowFilter(text="\x00"),
    RowFilter(confidence_min=0.5, confidence_max=0.8, deferred_at=0.7),
]


@pytest.mark.parametrize("wanted", FILTERS, ids=lambda wanted: str(wanted)[10:60])
def test_a_filter_of_a_long_run_finds_the_same_rows(
    both: tuple[LoadedRun, LoadedRun], wanted: RowFilter
) -> None:
    whole, stored = both
    assert stored.select(wanted).tolist() == whole.select(wanted).tolist()
    for column in ("group", "reason", "failure", "predicted", "truth"):
        assert stored.choices(column) == whole.choices(column)
