"""What is behind the pages: the index of runs, and odd folders."""

from __future__ import annotations

import math
import os
import shutil
import socket
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.invented_runs import edit_run, forge_run, invented_rows, result_of, write_run
from tests.viewer.conftest import Site

from krisis.reporting import report
from krisis.results import loading
from krisis.results.loading import load_result
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.viewer import catalogue as catalogue_module
from krisis.viewer import entries
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.index import index_folder


def few_resamples() -> BootstrapOptions:
    return BootstrapOptions(n_resamples=20)


def _special(make: Callable[[str], object]) -> Callable[[Path], None]:
    return lambda run: (run.unlink(), make(str(run)))[0]


def _socket(place: str) -> None:
    """Bind a socket; its address may be no longer than a hundred letters."""
    here = os.getcwd()
    os.chdir(os.path.dirname(place))
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.basename(place))
    os.chdir(here)


def _link_to(target: str) -> Callable[[Path], None]:
    return lambda run: (run.unlink(), run.symlink_to(target))[0]


def _as_file(content: bytes) -> Callable[[Path], None]:
    return lambda run: run.write_bytes(content) and None


def _result() -> bytes:
    return result_of(invented_rows(4)).to_json().encode()


def _old(run: Path) -> None:
    run.unlink()
    run.mkdir()
    (run / "manifest.json").write_text("{}", encoding="utf-8")


# Name in the folder → what is done to a good run there, and a word that its line or page must say.
ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "loop.krisis": (_link_to("loop.krisis"), "is a link"),
    "dangling.krisis": (_link_to("/nowhere/at/all"), "is a link"),
    "outside": (_link_to("/etc"), "is a link"),
    "link.json": (_link_to("/etc/hostname"), "is a link"),
    "fifo.json": (_special(os.mkfifo), "regular file"),
    "fifo.krisis": (_special(os.mkfifo), "regular file"),
    "socket.json": (_special(_socket), "regular file"),
    "old-run": (_old, "format before this one"),
    "empty.json": (_as_file(b""), "empty"),
    "empty.krisis": (_as_file(b""), "empty"),
    "text.krisis": (_as_file(b"hello"), "not a krisis run"),
    "nul.krisis": (_as_file(b"\0" * 5000), "not a krisis run"),
    "cut.krisis": (lambda run: os.truncate(run, 9000), "was cut off"),
    "cut.json": (_as_file(_result()[:4000]), "not complete JSON"),
    "future.krisis": (lambda run: edit_run(run, "PRAGMA user_version = 9000"), "version 9.0"),
    "other.krisis": (lambda run: edit_run(run, "PRAGMA application_id = 7"), "not a krisis run"),
    "no-rows.krisis": (lambda run: edit_run(run, "DROP TABLE rows"), "no table rows"),
    "edited.krisis": (
        lambda run: edit_run(run, "UPDATE run SET value = '9' WHERE key = 'n_cases'"),
        "damaged",
    ),
    "odd.krisis": (
        lambda run: forge_run(run, "run", "key = 'n_cases'", value='"many"'),
        "n_cases",
    ),
    "utf-16.json": (_as_file(_result().decode().encode("utf-16")), "UTF-8"),
    "wrong-sums.krisis": (lambda run: edit_run(run, "UPDATE rows SET model = 'x'"), ""),
    "q\"uote'<b>%2e%.krisis": (lambda run: None, ""),
    "new\nline.krisis": (lambda run: None, ""),
    "dots..x.krisis": (lambda run: None, ""),
    "Twin.krisis": (lambda run: None, ""),
    "twin.krisis": (lambda run: None, ""),
    os.fsdecode(b"not-utf8-\xff\xfe.krisis"): (lambda run: None, ""),
    "a.krisis": (lambda run: None, ""),
    "a.json": (_as_file(_result()), ""),
    "a.json.krisis": (lambda run: None, ""),
    "a-json.krisis": (lambda run: None, ""),
}


@pytest.fixture(scope="module")
def odd_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd") / "runs"
    good = write_run(folder / "good", result_of(invented_rows(20), "openai/good"))
    for name, (change, _) in ODD.items():
        shutil.copy(good, folder / name)
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
            fine = (200,) if not word and "wrong" not in file else (200, 400, 404)
            assert answer.status in fine, (file, page)
            if answer.status != 200 and page == ".json":
                assert word in answer.json["error"], file
    assert listed["good"]["state"] == "ended"


def test_entries_of_one_name_have_pages_of_their_own(odd_folder: Path) -> None:
    names = Catalogue(odd_folder).paths()
    files = {names[name].name: name for name in names}
    assert files["a.krisis"] == "a"
    of_a = ("a.krisis", "a.json", "a.json.krisis", "a-json.krisis")
    assert len({files[file] for file in of_a}) == 4
    assert not any(name.endswith(".json") for name in names)


def test_a_run_that_vanishes_while_it_is_shown_is_said_to_be_gone(
    tmp_path: Path, serve: Callable[[Path], Site]
) -> None:
    for name in ("stays", "goes"):
        write_run(tmp_path / name, result_of(invented_rows(5)))
    site = serve(tmp_path)
    assert len(site.get("/index.json").json["runs"]) == 2
    (tmp_path / "goes.krisis").unlink()
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
    os.utime(few / "two.krisis", (1, 1))
    (few / "one.krisis").unlink()
    assert [entry.name for entry in Catalogue(few).entries()] == ["two", "three"]
    assert read[3:] == ["two"]


def test_an_entry_says_what_the_home_page_shows(few: Path) -> None:
    entry = Catalogue(few).entries()[0]
    whole = load_result(few / "two.krisis")
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
