"""What is behind the pages: the list of runs and its index, odd files, live and long runs."""

from __future__ import annotations

import json
import math
import os
import random
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

import pytest
from benchmarks.viewer import Server, write_long_run
from tests.invented_runs import (
    edit_run,
    forge_description,
    forge_run,
    invented_rows,
    result_of,
    write_run,
)
from tests.viewer.conftest import Site

from krisis.pages import run as run_pages
from krisis.pages.cases import RowFilter
from krisis.results import loading
from krisis.results.loading import load_result
from krisis.runs.schema import SIDE_FILES
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.viewer import catalogue as catalogue_module
from krisis.viewer import entries
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.index import index_folder


def few_resamples() -> BootstrapOptions:
    return BootstrapOptions(n_resamples=20)


def _socket(run: Path) -> None:
    folder = os.getcwd()
    os.chdir(run.parent)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(run.name)
    os.chdir(folder)


def _replaced(make: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda run: (run.unlink(), make(run))


def _link_to(target: str) -> Callable[[Path], object]:
    return _replaced(lambda run: run.symlink_to(target))


def _beside(suffix: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda run: make(run.with_name(run.name + suffix))


def _sql(*statements: str) -> Callable[[Path], object]:
    return lambda run: [edit_run(run, statement) for statement in statements]


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda run: run.write_bytes(change(run.read_bytes()))


def _old_folder(run: Path) -> None:
    run.unlink()
    run.mkdir()
    (run / "manifest.json").write_text("{}", encoding="utf-8")


def _other_database(run: Path) -> None:
    with sqlite3.connect(run) as other:
        other.execute("CREATE TABLE songs (name TEXT)")


def _live_elsewhere(run: Path) -> None:
    """The file of a writer that was killed: what it wrote last is in the log beside it."""
    with sqlite3.connect(run) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE ledger SET kind = kind")
        for suffix in ("", "-wal", "-shm"):
            if (held := run.with_name(run.name + suffix)).exists():
                shutil.copy(held, held.with_name(f"{held.name}.kept"))
    writer.close()
    for suffix in ("", "-wal", "-shm"):
        if (held := run.with_name(f"{run.name}{suffix}.kept")).exists():
            os.replace(held, run.with_name(run.name + suffix))


def nothing(run: Path) -> None:
    pass


DEEP = "[" * 100_000 + "]" * 100_000
# Name in the folder → what is done to a good run there, and a word that its line or page must say.
ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "loop": (_link_to("loop.krisis"), "is a link"),
    "dangling": (_link_to("/nowhere/at/all"), "is a link"),
    "outside": (_link_to("/etc"), "is a link"),
    "host": (_link_to("/etc/hostname"), "is a link"),
    "another": (_link_to("good.krisis"), "is a link"),
    "linked-wal": (_beside("-wal", lambda side: side.symlink_to("/etc/hostname")), "is a link"),
    "linked-journal": (_beside("-journal", lambda side: side.symlink_to("/x")), "is a link"),
    "linked-lock": (_beside("-lock", lambda side: side.symlink_to("/x")), "is a link"),
    "folder-wal": (_beside("-wal", Path.mkdir), "is a link or a device"),
    "fifo": (_replaced(os.mkfifo), "regular file"),
    "socket": (_replaced(_socket), "regular file"),
    "folder": (_replaced(Path.mkdir), "regular file"),
    "old-folder": (_old_folder, "regular file"),
    "empty": (_replaced(Path.touch), "is empty"),
    "one-byte": (_bytes(lambda held: held[:1]), "not a krisis run"),
    "header-only": (_bytes(lambda held: held[:100]), "cut off"),
    "cut-half": (_bytes(lambda held: held[: len(held) // 2]), "cut off"),
    "cut-end": (_bytes(lambda held: held[:-1]), "cut off"),
    "text": (_replaced(lambda run: run.write_text("a poem")), "not a krisis run"),
    "json": (_replaced(lambda run: run.write_text("{}")), "not a krisis run"),
    "nul": (_bytes(lambda held: b"\0" * len(held)), "not a krisis run"),
    "random": (_bytes(lambda held: random.Random(0).randbytes(len(held))), "not a krisis run"),
    "bom": (_bytes(lambda held: b"\xef\xbb\xbf" + held), "not a krisis run"),
    "zeroed-middle": (_bytes(lambda held: held[:5000] + bytes(len(held) - 5000)), "damaged"),
    "other-database": (_replaced(_other_database), "not a krisis run"),
    "future": (_sql("PRAGMA user_version = 99000"), "use a newer krisis"),
    "no-table": (_sql("DROP TABLE rows"), "no table rows"),
    "no-texts": (_sql("DROP TABLE texts"), "no table texts"),
    "view": (
        _sql("ALTER TABLE rows RENAME TO r2", "CREATE VIEW rows AS SELECT * FROM r2"),
        "which no run file has",
    ),
    "virtual": (_sql("CREATE VIRTUAL TABLE x USING fts5(y)"), "a virtual table"),
    "no-description": (_sql("DELETE FROM run", "DELETE FROM run_copy"), "says of itself is dam"),
    "no-settings": (_sql("DELETE FROM run"), "settings read from the other copy"),
    "no-copy": (_sql("DROP TABLE run_copy"), "settings read from the other copy"),
    "edited-description": (_sql("UPDATE run SET value = '1' WHERE key = 'n_cases'"), "1 damaged s"),
    "strange-description": (lambda run: forge_description(run, n_cases="many"), "n_cases"),
    "deep-description": (
        _sql(f"UPDATE run SET value = '{DEEP}' WHERE key = 'config'"),
        "1 damaged s",
    ),
    "edited-row": (_sql("UPDATE rows SET confidence = 1 WHERE position = 3"), "DAMAGED: 1 damaged"),
    "no-rows": (_sql("DELETE FROM rows"), ""),
    "lost-rows": (_sql("DELETE FROM rows WHERE position > 9"), ""),
    "edited-case": (_sql("UPDATE cases SET record_id = 'x' WHERE position = 3"), "DAMAGED"),
    "no-cases": (_sql("DELETE FROM cases"), "DAMAGED"),
    "deep-metadata": (_sql(f"UPDATE cases SET metadata = '{DEEP}'"), "DAMAGED"),
    "edited-reply": (_sql("UPDATE texts SET text = 'other'"), ""),
    "no-replies": (_sql("DELETE FROM texts"), ""),
    "edited-scores": (_sql("UPDATE scores SET scores = '{}'"), ""),
    "odd-types": (_sql("UPDATE rows SET outcome = x'ff', confidence = 'sure'"), "DAMAGED"),
    # Somebody else's figures under checksums that are right: a page may refuse to score them.
    "forged": (lambda run: forge_run(run, "rows", "position = 2", confidence=7.0), ""),
    "newer-column": (_sql("ALTER TABLE rows ADD COLUMN mood TEXT"), ""),
    "trigger": (
        _sql("CREATE TRIGGER t AFTER DELETE ON rows BEGIN DELETE FROM cases; END"),
        "has a trigger",
    ),
    "left-lock": (_beside("-lock", Path.touch), ""),
    "killed": (_live_elsewhere, ""),
    "q\"uote'<b>%2e%": (nothing, ""),
    "new\nline": (nothing, ""),
    "dots..x": (nothing, ""),
    "Twin": (nothing, ""),
    "twin": (nothing, ""),
    os.fsdecode(b"not-utf8-\xff\xfe"): (nothing, ""),
    "a": (nothing, ""),
    "a.json": (nothing, ""),
    "a.json.json": (nothing, ""),
    "a-json": (nothing, ""),
}


@pytest.fixture(scope="module")
def odd_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd") / "runs"
    good = write_run(folder / "good", result_of(invented_rows(20), "openai/good"))
    for name, (change, _) in ODD.items():
        run = folder / f"{name}.krisis"
        shutil.copy(good, run)
        change(run)
    (folder / "old-run").mkdir()
    (folder / "old-run" / "manifest.json").write_text("{}", encoding="utf-8")
    result_of(invented_rows(4)).save(folder / "saved.json")
    (folder / "notes.txt").write_text("nothing", encoding="utf-8")
    return folder


PAGES = ("", "/progress", "/cases", "/cases/0", "/decide", ".json", "/cases.json?text=a")


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
        monkeypatch.setattr(run_pages, "_charts", lambda *given, **named: [])
    site = serve(odd_folder)
    listed = {run["name"]: run for run in site.get("/index.json").json["runs"]}
    assert len(listed) == len(ODD) + 3
    assert site.get("/").status == 200
    by_file = {path.name: name for name, path in Catalogue(odd_folder).paths().items()}
    assert set(by_file.values()) == set(listed)
    for file, (_, word) in ODD.items():
        name = by_file[f"{file}.krisis"]
        assert word in listed[name]["problem"] + listed[name]["damage"], file
        for page in PAGES:
            answer = site.get(f"/runs/{quote(name, safe='')}{page}")
            may_refuse = word or file == "forged" or (file, page) == ("no-rows", "/cases/0")
            assert answer.status in ((200, 400, 404) if may_refuse else (200,)), (file, page)
            if answer.status != 200 and page == ".json":
                assert word in answer.json["error"], file
        if "DAMAGED" in word:
            assert "DAMAGED" in site.get(f"/runs/{quote(name, safe='')}/cases").text, file
    assert listed["good"]["state"] == "ended"
    assert "format before this one" in listed["old-run"]["problem"]
    assert "is a saved result" in listed["saved"]["problem"]
    assert site.get("/runs/saved").status == 400


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_looking_at_odd_files_changes_none_of_them(odd_folder: Path) -> None:
    def seen() -> dict[str, bytes]:
        files = (path for path in odd_folder.iterdir() if path.is_file() and not path.is_symlink())
        kept = {path.name: path.read_bytes() for path in files}
        # The file of a writer that died is put in order by its owner.
        return {
            name: held for name, held in kept.items() if not name.startswith(("killed", "left"))
        }

    before = seen()
    catalogue = Catalogue(odd_folder)
    for entry in catalogue.entries():
        if not entry.problem:
            catalogue.load(entry.name).choices("group")
    assert seen() == before


def test_entries_of_one_name_have_pages_of_their_own(odd_folder: Path) -> None:
    names = Catalogue(odd_folder).paths()
    files = {names[name].name: name for name in names}
    assert files["a.krisis"] == "a"
    shared = [f"{name}.krisis" for name in ("a", "a.json", "a.json.json", "a-json")]
    assert len({files[file] for file in shared}) == 4
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


def test_one_run_can_be_viewed_alone(tmp_path: Path, serve: Callable[[Path], Site]) -> None:
    for name in ("one", "other"):
        write_run(tmp_path / name, result_of(invented_rows(5)))
    site = serve(tmp_path / "one.krisis")
    assert [run["name"] for run in site.get("/index.json").json["runs"]] == ["one"]
    assert site.get("/runs/one/cases").status == 200
    assert site.get("/runs/other/cases").status == 404


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

    def read_entry(name: str, path: Path, catalogue: Catalogue) -> entries.Entry:
        read.append(name)
        return as_ever(name, path, catalogue)

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


def test_scores_of_another_version_or_of_other_rows_are_computed_again(few: Path) -> None:
    stored = load_result(few / "two.krisis").metric_scores["accuracy"].value
    forge_run(few / "two.krisis", "scores", version="0.0.1", scores="{}")
    edit_run(few / "one.krisis", "DELETE FROM rows WHERE position > 2")
    found = {entry.name: entry for entry in Catalogue(few).entries()}
    assert found["two"].scores["accuracy"].value == stored
    assert found["one"].scores["accuracy"].n_evaluated <= 3
    assert found["one"].n_done == 3


def _rewritten(text: str) -> Callable[[Path], object]:
    def spoil(index: Path) -> None:
        for file in (index / "entries").iterdir():
            file.write_text(text, encoding="utf-8")

    return spoil


def _older(index: Path) -> None:
    for file in (index / "entries").iterdir():
        file.write_text(file.read_text().replace('"version": 3', '"version": 2'))


def _odd_facts(index: Path) -> None:
    for file in (index / "entries").iterdir():
        kept = json.loads(file.read_text())
        file.write_text(json.dumps(kept | {"facts": {"scores": 3}}))


@pytest.mark.parametrize(
    "spoil",
    [
        *map(_rewritten, ("no JSON" * 500, "", "{", "[]", "{}", '{"version": 3}')),
        *map(_rewritten, ('{"version": 3, "path": 4, "signature": 5, "facts": 6}',)),
        lambda index: shutil.rmtree(index / "entries"),
        lambda index: (shutil.rmtree(index / "entries"), (index / "entries").write_text("a file")),
        shutil.rmtree,
        lambda index: (shutil.rmtree(index), index.write_text("a file")),
        lambda index: (shutil.rmtree(index.parent), index.parent.write_text("a file")),
        _older,
        _odd_facts,
    ],
)
def test_an_index_that_cannot_be_used_is_made_again_or_done_without(
    few: Path, spoil: Callable[[Path], object]
) -> None:
    before = Catalogue(few).entries()
    spoil(index_folder(few))
    assert Catalogue(few).entries() == before
    spoilt = Catalogue(few)
    assert spoilt.entries() == before
    assert spoilt.load("one").select(RowFilter(text="case-000003")) == [3]


def test_an_index_that_is_spoilt_in_use_is_done_without(few: Path) -> None:
    catalogue = Catalogue(few)
    before = catalogue.entries()
    shutil.rmtree(index_folder(few))
    index_folder(few).write_text("a file")
    write_run(few / "zero", result_of(invented_rows(5)))
    assert [entry.name for entry in catalogue.entries()[1:]] == [e.name for e in before]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_what_is_kept_is_for_this_user_alone(few: Path) -> None:
    catalogue = Catalogue(few)
    catalogue.entries()
    catalogue.load("one").select(RowFilter(text="case"))
    place = index_folder(few)
    kept = [place, *place.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in kept if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in kept if path.is_file()} == {0o600}


WRITER = """
import sys, time
from pathlib import Path
from tests.invented_runs import begin_run, invented_rows, result_of
from krisis.results.call_totals import CallTotals
from krisis.runs.write import RowPlace

rows = invented_rows(200)
writer = begin_run(Path(sys.argv[1]), result_of(rows, "m/live"), n_cases=200)
writer.drop_rows(range(200))
writer.flush()
print("begun", flush=True)
for number, row in enumerate(rows):
    sys.stdin.readline()
    writer.append([RowPlace(number, number)], [row], CallTotals(n_calls=1))
    writer.flush()
    print(number, flush=True)
time.sleep(600)
"""


def test_a_run_is_watched_while_another_process_writes_it(
    tmp_path: Path, serve: Callable[[Path], Site]
) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "live")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        try:
            assert writer.stdin is not None
            assert writer.stdout is not None
            assert writer.stdout.readline() == "begun\n"
            site = serve(tmp_path)
            for number in range(12):
                writer.stdin.write("\n")
                writer.stdin.flush()
                assert writer.stdout.readline() == f"{number}\n"
                facts = site.get("/runs/live/progress.json").json
                assert (facts["state"], facts["n_done"]) == ("running", number + 1)
                found = site.get("/runs/live/cases.json?sort=position").json
                assert [row["position"] for row in found["rows"]] == list(range(number + 1))
                asked = f"/runs/live/cases.json?text=case-{number:06d}"
                assert site.get(asked).json["n_found"] == 1
            assert site.get("/index.json").json["running"][0]["n_done"] == 12
            assert site.get("/runs/live/cases/11").status == 200
            assert site.get("/runs/live/cases/12").status == 400
        finally:
            writer.kill()
    killed = site.get("/runs/live/progress.json").json
    assert (killed["state"], killed["n_done"]) == ("stopped", 12)
    assert [one for one in SIDE_FILES if Path(f"{tmp_path}/live.krisis{one}").exists()] == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc on this system")
def test_no_page_leaves_a_file_open(few: Path, serve: Callable[[Path], Site]) -> None:
    site = serve(few)

    def open_runs() -> int:
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        seen = [os.readlink(link) for link in links if os.path.lexists(link)]
        return sum(".krisis" in place or "/texts/" in place for place in seen)

    before = open_runs()
    pages = ("cases", "cases?text=a", "cases/1", "cases/99", "cases.csv", "progress", "decide")
    for page in pages:
        site.get(f"/runs/one/{page}")
    site.get("/")
    end = time.monotonic() + 5
    while open_runs() > before and time.monotonic() < end:
        time.sleep(0.05)  # the last page may still be sent
    assert open_runs() == before


def test_a_run_with_more_rows_than_a_page_may_hold_shows_its_cases_and_names_the_command(
    few: Path, serve: Callable[[Path], Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue_module, "MOST_ROWS", 4)
    site = serve(few)
    assert site.get("/runs/one/cases?text=case").status == 200
    assert site.get("/runs/one/cases/3").status == 200
    for page in ("", "/decide"):
        refused = site.get(f"/runs/one{page}.json")
        assert refused.status == 400
        assert "a page reads at most 4" in refused.json["error"]


def test_rows_of_few_runs_are_held_at_once(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_module, "MOST_ROWS", 11)
    catalogue = Catalogue(few)
    held: list[Any] = [catalogue.load(name).result for name in ("one", "two", "three")]
    assert [run.name for run in catalogue._results] == ["two", "three"]
    assert catalogue.load("three").result is held[2]
    forge_run(few / "three.krisis", "rows", "position = 0", confidence=0.25)
    assert catalogue.load("three").result.rows[0].confidence == 0.25
    assert len(catalogue._results) == 2


@pytest.mark.slow
def test_a_long_run_costs_the_server_little_memory(tmp_path: Path) -> None:
    write_long_run(tmp_path / "runs" / "long.krisis", 60_000)
    write_long_run(tmp_path / "runs" / "other.krisis", 60_000, skill=0.9)
    server = Server(tmp_path / "runs", tmp_path / "cache")
    try:
        for page in ("/cases", "/cases?text=confidence", "/cases?text=not+stated", "/cases/777"):
            assert server.get(f"/runs/long{page}")[1] == 200, page
        assert server.megabytes() <= 250
        while (status := server.get("/compare?run=long&run=other")[1]) == 202:
            time.sleep(0.1)
        assert status == 200
        for page in ("", "/decide?wrong=5", "/decide"):
            assert server.get(f"/runs/long{page}")[1] == 200, page
        assert server.get("/compare/cases?run=long&run=other")[1] == 200
        assert server.megabytes() <= 900
    finally:
        server.close()
