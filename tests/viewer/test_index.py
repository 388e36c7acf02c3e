"""What is behind the pages: the index of runs, the rows of long runs, and odd folders."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from benchmarks.viewer import Server, write_long_run
from krisis.results.journal_lines import sealed
from krisis.viewer.long_runs import LongRun, build
from tests.invented_runs import edited_line, invented_rows, result_of, write_run
from tests.viewer.conftest import Answer, Site

from krisis.errors import InvalidFile
from krisis.reporting import report
from krisis.reporting.figure import Figure
from krisis.reporting.report import report_html
from krisis.results import loading
from krisis.results.loading import load_result
from krisis.results.rows import row_to_dict
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.viewer import catalogue as catalogue_module
from krisis.viewer import entries, indexing, long_runs, stored_columns
from krisis.viewer.catalogue import Catalogue, LoadedRun
from krisis.viewer.index import index_folder
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


def few_resamples() -> BootstrapOptions:
    return BootstrapOptions(n_resamples=20)


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
        row.cluster_id = "" if position == 30 else f"p{position // 2}"  # p1 comes before p10
    del rows[9].metadata["ckd_stage"]
    path = write_run(folder / "run", result_of(rows), features={"x": 1.5})
    (path / "rows.jsonl").write_bytes(b"".join(request.param(lines_of(path))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_columns, "_MOST_VALUES", 50)  # some columns become numbers
        patch.setattr(loading, "BootstrapOptions", few_resamples)
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


@pytest.mark.slow
@pytest.mark.parametrize("both", [as_is], indirect=True)
def test_a_long_run_has_the_report_that_loading_gives(
    both: tuple[LoadedRun, LoadedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stored = both
    monkeypatch.setattr(Figure, "svg", "<svg/>")
    assert report_html(stored.report) == report_html(whole.report)


def same_table(left: Any, right: Any) -> None:
    assert (left.n_rows, left.n_not_evaluated, left.labels) == (
        right.n_rows,
        right.n_not_evaluated,
        right.labels,
    )
    for name in (
        *("truth", "prediction", "abstained", "no_answer", "confidence", "correct"),
        "should_abstain",
    ):
        assert np.array_equal(getattr(left, name), getattr(right, name), equal_nan=name[0] == "c")
    assert left.patients.n == right.patients.n
    assert np.array_equal(left.patients.code, right.patients.code)
    assert left.patient_names == right.patient_names
    assert (left.repeats_cases, left.says_why_deferred) == (
        right.repeats_cases,
        right.says_why_deferred,
    )
    assert left.missing_truths == right.missing_truths
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
    RowFilter(outcome="not_evaluated"),
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
    RowFilter(text="}case-"),
    RowFilter(text="}\ncase-"),
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


def _edit(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")


def _special(make: Callable[[str], object]) -> Callable[[Path], None]:
    return lambda run: (shutil.rmtree(run), make(os.fspath(run)))[0]


def _socket(place: str) -> None:
    folder = os.getcwd()
    os.chdir(os.path.dirname(place))  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.basename(place))
    os.chdir(folder)


def _rows_fifo(run: Path) -> None:
    (run / "rows.jsonl").unlink()
    os.mkfifo(run / "rows.jsonl")


def _linked(name: str) -> Callable[[Path], None]:
    def link(run: Path) -> None:
        elsewhere = run.parents[1] / f"elsewhere-{run.name}"
        shutil.move(run / name, elsewhere)
        (run / name).symlink_to(elsewhere)

    return link


def _link_to(target: str) -> Callable[[Path], None]:
    return lambda run: (shutil.rmtree(run), run.symlink_to(target))[1]


def _appended(*lines: bytes) -> Callable[[Path], None]:
    def append(run: Path) -> None:
        with (run / "rows.jsonl").open("ab") as file:
            file.writelines(lines)

    return append


def _only(name: str) -> Callable[[Path], None]:
    return lambda run: [f.unlink() for f in run.iterdir() if f.name != name][:0] and None


def _as_file(content: bytes) -> Callable[[Path], None]:
    return lambda run: (shutil.rmtree(run), run.write_bytes(content))[0]


def _deep(run: Path) -> None:
    nested = b'{"kind": "row", "position": 0, "row": ' + b"[" * 100_000 + b"]" * 100_000
    digest = hashlib.sha256(nested).hexdigest()[:16].encode()
    _appended(nested + b', "check": "' + digest + b'"}\n')(run)


def _result(run: Path) -> bytes:
    return result_of(invented_rows(4)).to_json().encode()


# Name in the folder → what is done to a good run there, and a word that its line or page must say.
ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "loop": (_link_to("loop"), "is a link"),
    "loop-of-two": (_link_to("loop"), "is a link"),
    "dangling": (_link_to("/nowhere/at/all"), "is a link"),
    "outside": (_link_to("/etc"), "is a link"),
    "link.json": (_link_to("/etc/hostname"), "is a link"),
    "linked-rows": (_linked("rows.jsonl"), "is a link"),
    "linked-manifest": (_linked("manifest.json"), "is a link"),
    "linked-metrics": (_linked("metrics.json"), "is a link"),
    "linked-cases": (_linked("cases.txt"), "is a link"),
    "fifo.json": (_special(os.mkfifo), "regular file"),
    "socket.json": (_special(_socket), "regular file"),
    "rows-fifo": (_rows_fifo, "regular file"),
    "rows-folder": (
        lambda run: ((run / "rows.jsonl").unlink(), (run / "rows.jsonl").mkdir()),
        "regular file",
    ),
    "manifest-folder": (
        lambda run: ((run / "manifest.json").unlink(), (run / "manifest.json").mkdir()),
        "regular file",
    ),
    "empty-folder": (lambda run: (shutil.rmtree(run), run.mkdir()), "empty folder"),
    "empty.json": (_as_file(b""), "empty"),
    "empty-rows": (lambda run: (run / "rows.jsonl").write_bytes(b""), "DAMAGED"),
    "empty-manifest": (lambda run: (run / "manifest.json").write_bytes(b""), "not complete JSON"),
    "cut-manifest": (
        lambda run: os.truncate(run / "manifest.json", 100),
        "not complete JSON",
    ),
    "cut-rows": (lambda run: os.truncate(run / "rows.jsonl", 5000), "DAMAGED"),
    "cut-metrics": (lambda run: os.truncate(run / "metrics.json", 900), "DAMAGED"),
    "cut.json": (
        lambda run: (shutil.rmtree(run), run.write_bytes(_result(run)[:4000])),
        "not complete JSON",
    ),
    "list-manifest": (lambda run: (run / "manifest.json").write_bytes(b"[]"), "not an object"),
    "future": (lambda run: _edit(run / "manifest.json", schema_version=99), "schema version 99"),
    "future-metrics": (lambda run: _edit(run / "metrics.json", schema_version=99), "DAMAGED"),
    "extra-field": (lambda run: _edit(run / "manifest.json", surprise=1), "surprise"),
    "nan-cases": (
        lambda run: (run / "manifest.json").write_bytes(b'{"schema_version": NaN}'),
        "not JSON",
    ),
    "nul-manifest": (
        lambda run: (run / "manifest.json").write_bytes(b"\0" * 300),
        "not complete JSON",
    ),
    "nul-rows": (_appended(b"\0" * 5000 + b"\n"), "DAMAGED"),
    "bom": (
        lambda run: (run / "manifest.json").write_bytes(
            b"\xef\xbb\xbf" + (run / "manifest.json").read_bytes()
        ),
        "not complete JSON",
    ),
    "utf-16.json": (
        lambda run: (shutil.rmtree(run), run.write_bytes(_result(run).decode().encode("utf-16"))),
        "UTF-8",
    ),
    "long-line": (_appended(b'{"kind": "row", "x": "' + b"y" * 5_000_000 + b'"}\n'), "DAMAGED"),
    "deep-line": (_deep, "DAMAGED"),
    "wrong-sums": (
        lambda run: (run / "rows.jsonl").write_bytes(
            (run / "rows.jsonl").read_bytes().replace(b"case", b"cases")
        ),
        "DAMAGED",
    ),
    "only-metrics": (_only("metrics.json"), "no manifest.json"),
    "only-rows": (_only("rows.jsonl"), "no manifest.json"),
    "no-rows": (lambda run: (run / "rows.jsonl").unlink(), "rows.jsonl is missing"),
    "no-cases": (lambda run: (run / "cases.txt").unlink(), ""),
    "strange-lock": (lambda run: (run / "writer").write_bytes(b"\xff\0pid 99999999999"), ""),
    "folder.json": (lambda run: None, ""),
    "q\"uote'<b>%2e%": (lambda run: None, ""),
    "new\nline": (lambda run: None, ""),
    "dots..x": (lambda run: None, ""),
    "Twin": (lambda run: None, ""),
    "twin": (lambda run: None, ""),
    os.fsdecode(b"not-utf8-\xff\xfe"): (lambda run: None, ""),
    "a": (lambda run: None, ""),
    "a.json": (lambda run: (shutil.rmtree(run), run.write_bytes(_result(run))), ""),
    "a.json.json": (lambda run: None, ""),
    "a-json": (lambda run: None, ""),
}


@pytest.fixture(scope="module")
def odd_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd") / "runs"
    good = write_run(folder / "good", result_of(invented_rows(20), "openai/good"))
    for name, (change, _) in ODD.items():
        shutil.copytree(good, folder / name)
        change(folder / name)
    return folder


PAGES = ("", "/progress", "/cases", "/cases/0", "/decide", ".json", "/cases.json")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
@pytest.mark.parametrize("drawn", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_page_of_an_odd_folder_answers_and_says_what_is_wrong(
    odd_folder: Path,
    serve: Callable[[Path], Site],
    monkeypatch: pytest.MonkeyPatch,
    drawn: bool,
) -> None:
    if not drawn:
        monkeypatch.setattr(loading, "BootstrapOptions", few_resamples)
        monkeypatch.setattr(report, "chart_sections", lambda result: [])
        monkeypatch.setattr(report, "metric_tables", lambda result, baselines: [])
    site = serve(odd_folder)
    listed = {run["name"]: run for run in site.get("/index.json").json["runs"]}
    assert len(listed) == len(ODD) + 1
    assert site.get("/").status == 200
    by_file = {path.name: name for name, path in Catalogue(odd_folder).paths().items()}
    assert set(by_file.values()) == set(listed)
    for file, (_, word) in ODD.items():
        name = by_file[file]
        assert word in listed[name]["problem"] + listed[name]["damage"], file
        for page in PAGES:
            answer = site.get(f"/runs/{quote(name, safe='')}{page}")
            assert answer.status in ((200, 400, 404) if word else (200,)), (file, page)
            if answer.status != 200 and page == ".json":
                assert word in answer.json["error"], file
    assert listed["good"]["state"] == "ended"


def test_entries_of_one_name_have_pages_of_their_own(odd_folder: Path) -> None:
    names = Catalogue(odd_folder).paths()
    files = {names[name].name: name for name in names}
    assert files["a"] == "a"
    assert len({files[file] for file in ("a", "a.json", "a.json.json", "a-json")}) == 4
    assert not any(name.endswith(".json") for name in names)


def test_a_run_that_vanishes_while_it_is_shown_is_said_to_be_gone(
    tmp_path: Path, serve: Callable[[Path], Site]
) -> None:
    for name in ("stays", "goes"):
        write_run(tmp_path / name, result_of(invented_rows(5)))
    site = serve(tmp_path)
    assert len(site.get("/index.json").json["runs"]) == 2
    shutil.rmtree(tmp_path / "goes")
    assert site.get("/runs/goes/cases").status == 400
    assert site.get("/runs/goes/progress.json").status in (200, 404)
    assert [run["name"] for run in site.get("/index.json").json["runs"]] == ["stays"]
    assert site.get("/runs/goes/cases").status == 404


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of three runs, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("one", "two", "three"):
        write_run(tmp_path / "runs" / name, result_of(invented_rows(5), f"model/{name}"))
    return tmp_path / "runs"


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count the entries that are read from the runs."""
    read: list[str] = []
    as_ever = entries.read_entry

    def read_entry(name: str, path: Path) -> entries.Entry:
        read.append(name)
        return as_ever(name, path)

    monkeypatch.setattr(catalogue_module, "read_entry", read_entry)
    return read


def test_only_runs_that_changed_are_read_again(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch)
    first = Catalogue(few)
    before = first.entries()
    assert sorted(read) == ["one", "three", "two"]
    assert first.entries() == before
    assert Catalogue(few).entries() == before  # a new viewer reads the index alone
    assert len(read) == 3
    metrics = few / "two" / "metrics.json"
    os.utime(metrics, (1, 1))
    shutil.rmtree(few / "one")
    assert [entry.name for entry in Catalogue(few).entries()] == ["two", "three"]
    assert read[3:] == ["two"]


def test_an_entry_says_what_the_home_page_shows(few: Path) -> None:
    entry = Catalogue(few).entries()[0]
    whole = load_result(few / "two")
    assert (entry.name, entry.state, entry.model) == ("two", "ended", "model/two")
    assert (entry.suite, entry.task, entry.n_cases) == ("ckd", "detection", 5)
    assert entry.n_done == sum(entry.counts.values()) == 5
    kept = Catalogue(few).entries()[0].scores
    for label, score in whole.metric_scores.items():
        assert kept[label].interval == score.interval or math.isnan(score.interval.low)
        assert kept[label].value == score.value or math.isnan(score.value)


def _foreign(index: Path) -> None:
    index.unlink()
    with sqlite3.connect(index) as other:
        other.execute("CREATE TABLE entries (song TEXT)")


def _older(index: Path) -> None:
    with sqlite3.connect(index) as old:
        old.execute("PRAGMA user_version=0")


def _odd_facts(index: Path) -> None:
    with sqlite3.connect(index) as odd:
        odd.execute("UPDATE entries SET facts = '{\"scores\": 3}'")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda index: index.write_bytes(b"no database" * 500),
        lambda index: os.truncate(index, 3000),
        lambda index: (index.unlink(), index.mkdir()),
        lambda index: shutil.rmtree(index.parent),
        lambda index: (shutil.rmtree(index.parent), index.parent.write_text("a file")),
        lambda index: (shutil.rmtree(index.parents[1]), index.parents[1].write_text("a file")),
        _foreign,
        _older,
        _odd_facts,
    ],
)
def test_an_index_that_cannot_be_used_is_made_again_or_done_without(
    few: Path, spoil: Callable[[Path], object]
) -> None:
    before = Catalogue(few).entries()
    spoil(index_folder(few) / "index.sqlite")
    assert Catalogue(few).entries() == before
    assert Catalogue(few).entries() == before


def test_an_index_that_is_spoilt_in_use_is_done_without(few: Path) -> None:
    catalogue = Catalogue(few)
    before = catalogue.entries()
    index = index_folder(few) / "index.sqlite"
    for file in index.parent.glob("index.sqlite*"):
        file.write_bytes(b"no database" * 500)
    write_run(few / "zero", result_of(invented_rows(5)))
    assert [entry.name for entry in catalogue.entries()[1:]] == [e.name for e in before]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_the_index_is_for_this_user_alone(few: Path) -> None:
    Catalogue(few).entries()
    place = index_folder(few)
    assert place.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in place.iterdir() if file.is_file()} == {0o600}


@pytest.fixture
def long(few: Path, serve: Callable[[Path], Site], monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return a viewer to which a run of a hundred rows is a long one."""
    monkeypatch.setattr(catalogue_module, "SMALL_BYTES", 30_000)
    write_run(few / "long", result_of(invented_rows(100), "model/long"))
    result_of(invented_rows(90), "model/saved").save(few / "saved.json")
    return serve(few)


def awaited(site: Site, path: str) -> Answer:
    answer = site.get(path)
    end = time.monotonic() + 120
    while answer.status == 202 and time.monotonic() < end:
        time.sleep(0.1)
        answer = site.get(path)
    return answer


@pytest.mark.slow
def test_a_long_run_is_indexed_while_others_are_shown(long: Site, few: Path) -> None:
    first = long.get("/runs/long/cases")
    assert first.status == 202
    assert "long is being indexed" in first.text
    assert 'http-equiv="refresh"' in first.text
    assert "is being indexed" in long.get("/runs/saved.json").json["indexing"]
    assert long.get("/runs/one/cases").status == 200
    assert awaited(long, "/runs/long.json").json["heading"] == "model/long"
    found = long.get("/runs/long/cases.json?text=CASE-00003&size=5").json
    assert [row["record_id"] for row in found["rows"]] == [f"case-{i:06d}" for i in range(30, 35)]
    assert awaited(long, "/runs/saved/cases.json").json["n_found"] == 90
    kept = list((index_folder(few) / "rows").iterdir())
    assert len(kept) == 2
    assert all(folder.stat().st_mode & 0o077 == 0 for folder in kept)


def test_an_earlier_index_is_one_of_this_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, run = indexing.Indexing(tmp_path), tmp_path / "run"
    folder = made._target(run, "before")
    folder.mkdir(parents=True)
    assert made.earlier(run) == folder
    monkeypatch.setattr(indexing, "_FORMAT", indexing._FORMAT + 1)
    assert made.earlier(run) is None
    begun = folder.with_name(f".{folder.name}.17")
    begun.mkdir()
    made.forget(run)
    assert not folder.exists()
    assert not begun.exists()


def test_an_index_that_is_begun_goes_with_the_server(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "texts").write_text("of patients", encoding="utf-8")
    ended = (
        "import sys; from pathlib import Path; from krisis.viewer import long_runs; "
        "long_runs._end_with_the_server(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", ended, str(begun)]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 3
    assert not begun.exists()


@pytest.mark.slow
def test_a_process_that_dies_is_noticed_and_said(
    long: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing.sys, "executable", "/bin/false")
    assert long.get("/runs/long").status == 202
    end = time.monotonic() + 20
    while not (said := long.get("/runs/long.json").json)["problem"] and time.monotonic() < end:
        time.sleep(0.05)
    assert "could not be indexed: its process was ended" in said["indexing"]
    assert "could not be indexed" in long.get("/runs/long").text


@pytest.mark.slow
def test_a_long_run_costs_the_server_little_memory_and_others_are_shown_meanwhile(
    tmp_path: Path,
) -> None:
    write_long_run(tmp_path / "runs" / "long", 60_000)
    write_long_run(tmp_path / "runs" / "other", 60_000, skill=0.9)
    write_run(tmp_path / "runs" / "small", result_of(invented_rows(160)))
    server = Server(tmp_path / "runs", tmp_path / "cache")
    try:
        n_shown = 0
        for name in ("long", "other"):
            while server.get(f"/runs/{name}/cases.json")[1] == 202:
                assert server.get("/runs/small/cases")[1] == 200
                n_shown += 1
                time.sleep(0.1)
        assert n_shown > 10
        while (status := server.get("/compare?run=long&run=other")[1]) == 202:
            time.sleep(0.1)
        assert status == 200
        pages = ("", "/cases?text=confidence", "/cases?text=not stated", "/cases/777")
        for page in (*pages, "/decide?wrong=5", "/decide"):
            assert server.get(f"/runs/long{page}".replace(" ", "%20"))[1] == 200, page
        assert server.get("/compare/cases?run=long&run=other")[1] == 200
        assert server.megabytes() <= 400
    finally:
        server.close()


def test_a_row_whose_line_changed_since_it_was_indexed_is_not_shown(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_runs, "report_of", lambda result, path: RunReportStub())
    stored = long_run(few / "one", tmp_path / "index")
    lines = lines_of(few / "one")
    for change in (
        [*lines[:-2], lines[-2].replace(b"case", b"casE"), lines[-1]],
        [*lines[:-2], edited_line(lines[-2], position=9), lines[-1]],
    ):
        (few / "one" / "rows.jsonl").write_bytes(b"".join(change))
        with pytest.raises(InvalidFile, match="changed while it was shown"):
            stored.row(3)
    (few / "one" / "rows.jsonl").unlink()
    with pytest.raises(InvalidFile, match="cannot be read"):
        stored.row(3)
