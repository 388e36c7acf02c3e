"""The door: whatever SQLite would do with a stranger's file of its own accord does not happen."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.commands import krisis
from tests.invented_runs import (
    forge_description,
    forge_run,
    invented_rows,
    result_of,
    write_run,
)
from tests.stranger import write_journal

import krisis as package
from krisis import __version__, sqlite_edge
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.data.table import databases, draft
from krisis.errors import InvalidFile, UserError
from krisis.execution.cache import ReplyCache
from krisis.results.loading import load_result
from krisis.runs import door, read, text_cache, trust
from krisis.runs.load import keep_scores, load_run, read_description, stored_result
from krisis.runs.read import open_run
from krisis.runs.schema import Value
from krisis.runs.write import RunWriter, write_briefly
from krisis.verbs import forget as forgetting
from krisis.verbs.forget.removal import _Patient
from krisis.verbs.maintain.repair import repair
from krisis.viewer import search
from krisis.viewer.app import create_app

N = 60
SOURCE = Path(package.__file__).parent
# Where a run file is opened, and other databases: by an address that a hostile journal has not.
OPENERS = {
    "runs/door.py": "a run file",
    "data/table/databases.py": "a database that the user names as data",
    "data/table/draft.py": "a database that the user names as data",
    "execution/cache.py": "the reply cache",
    "runs/text_cache.py": "the index of texts, in the user's own cache",
    "viewer/search.py": "the index of texts, in the user's own cache",
}
UNTOUCHED = ("untouched_address", "runs/door.py")
WHOSE = pytest.mark.parametrize("whose", ["own", "a stranger's"])


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    return write_run(tmp_path / "evil", result_of(invented_rows(N), "evil"))


def make_strange(path: Path) -> None:
    forge_description(path, run_id="nobody-here-made-it")
    assert not door.is_own(path)


def content_of(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}


def test_no_other_place_opens_a_database() -> None:
    openers = set()
    for path in SOURCE.rglob("*.py"):
        place, text = path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        calls = [one for one in nodes if isinstance(one, ast.Call)]
        calls = [one for one in calls if ast.unparse(one.func) == "sqlite3.connect"]
        named = [ast.unparse(one) for one in nodes if isinstance(one, ast.Attribute)]
        assert named.count("sqlite3.connect") == len(calls), f"{place} hands sqlite3.connect on"
        assert not {"sqlite3.dbapi2", "sqlite3.Connection.__init__"} & set(named), place
        assert "import sqlite3 as" not in text, place
        assert "from sqlite3" not in text, place
        assert "sqlite3.Connection(" not in text, place
        for call in calls:
            first = call.args[0]
            choices = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
            for one in choices:
                called = ast.unparse(one.func) if isinstance(one, ast.Call) else ""
                assert called == "address" or (called, place) == UNTOUCHED, f"{place}: any journal"
            openers.add(place)
    assert openers == set(OPENERS)


# Journals.


@pytest.mark.parametrize("name", ["victim", "{folder}/victim"], ids=["relative", "absolute"])
def test_sqlite_itself_deletes_what_a_journal_names(
    run_file: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the tests below would prove nothing."""
    monkeypatch.chdir(run_file.parent)
    Path("victim").write_text("mine\n")
    write_journal(run_file, name.format(folder=run_file.parent))
    with closing(sqlite3.connect(run_file)) as connection:
        connection.execute("SELECT count(*) FROM rows").fetchone()
    assert not Path("victim").exists()


@WHOSE
@pytest.mark.parametrize("name", ["victim", "{folder}/victim"], ids=["relative", "absolute"])
@pytest.mark.parametrize(
    "words",
    [
        ["show", "evil.krisis"],
        ["doctor", "evil.krisis"],
        ["export", "evil.krisis", "--to", "csv", "-o", "out.csv"],
        ["compare", "evil.krisis", "good.krisis"],
    ],
    ids=lambda words: words[0],
)
def test_no_command_deletes_what_a_journal_names(
    run_file: Path, words: list[str], name: str, whose: str
) -> None:
    folder = run_file.parent
    write_run(folder / "good", result_of(invented_rows(N), "good"))
    if whose != "own":
        make_strange(run_file)
    (folder / "victim").write_text("mine\n")
    write_journal(run_file, name.format(folder=folder))
    before = content_of(folder)
    done = krisis(*words, cwd=folder)
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert "evil.krisis-journal" in done.stderr
    assert content_of(folder) == before


@WHOSE
@pytest.mark.parametrize("name", ["victim", "{folder}/victim"], ids=["relative", "absolute"])
@pytest.mark.parametrize(
    "words",
    [
        [
            "figure",
            "good.krisis",
            "evil.krisis",
            "--kind",
            "forest",
            "-m",
            "accuracy",
            "-o",
            "f.svg",
        ],
        ["plan", "estimate", "-m", "accuracy", "--from", "evil.krisis", "--half-width", "0.02"],
        ["monitor", "certificate.json", "--new", "evil.krisis"],
        ["verify", "certificate.json", "evil.krisis"],
    ],
    ids=lambda words: words[0],
)
def test_no_command_that_takes_a_run_second_deletes_what_a_journal_names(
    run_file: Path, words: list[str], name: str, whose: str
) -> None:
    folder = run_file.parent
    write_run(folder / "good", result_of(invented_rows(N), "good"))
    certify = "certify good.krisis --risk 0.9 --max-not-evaluated 0.5 -o certificate.json"
    assert krisis(*certify.split(), cwd=folder).returncode == 0
    if whose != "own":
        make_strange(run_file)
    (folder / "victim").write_text("mine\n")
    write_journal(run_file, name.format(folder=folder))
    before = content_of(folder)
    done = krisis(*words, cwd=folder)
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert "evil.krisis-journal" in done.stderr
    assert content_of(folder) == before


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "inspect", "lm-eval"])
def test_an_import_of_a_run_is_refused_without_a_look_at_its_journal(
    run_file: Path, kind: str
) -> None:
    folder = run_file.parent
    (folder / "victim").write_text("mine\n")
    write_journal(run_file, str(folder / "victim"))
    before = content_of(folder)
    columns = [] if kind in ("inspect", "lm-eval") else ["--truth", "x", "--prediction", "y"]
    done = krisis("import", "evil.krisis", "--as", kind, *columns, "-o", "out", cwd=folder)
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert "evil.krisis" in done.stderr
    assert content_of(folder) == before
    assert not (folder / "out").exists()


@WHOSE
@pytest.mark.parametrize("name", ["victim", "{folder}/victim"], ids=["relative", "absolute"])
def test_the_viewer_deletes_nothing_that_a_journal_names(
    run_file: Path, name: str, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_file.parent
    monkeypatch.chdir(folder)
    if whose != "own":
        make_strange(run_file)
    (folder / "victim").write_text("mine\n")
    write_journal(run_file, name.format(folder=folder))
    before = content_of(folder)
    client = TestClient(create_app(folder), base_url="http://127.0.0.1")
    (listed,) = client.get("/index.json").json()["runs"]
    assert "evil.krisis-journal" in listed["problem"]
    assert client.get("/").status_code == 200
    for page in ("/runs/evil", "/runs/evil/cases"):
        assert 400 <= client.get(page).status_code < 500
    assert content_of(folder) == before


@WHOSE
def test_nothing_writes_to_a_run_whose_journal_names_another_file(
    run_file: Path, whose: str, tmp_path: Path
) -> None:
    described = read_description(run_file)
    if whose != "own":
        make_strange(run_file)
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    write_journal(run_file, str(victim))
    with pytest.raises(InvalidFile, match="names another file"):
        RunWriter.resume(run_file, described, ())
    assert not write_briefly(run_file, lambda connection: None)
    assert repair(run_file, tmp_path / "saved.krisis").n_rows == N  # page by page, without SQLite
    assert victim.read_text() == "mine\n"


@pytest.mark.parametrize(
    "words",
    [
        ["cache", "info", "--cache-path", "replies.sqlite"],
        ["cache", "clear", "--cache-path", "replies.sqlite"],
        ["forget", "evil.krisis", "--patient", "patient-000000", "--cache-path", "replies.sqlite"],
        ["run", "ckd", "--model", "openai/none", "--cache-path", "replies.sqlite"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_command_deletes_what_the_journal_of_a_cache_names(
    run_file: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    folder = run_file.parent
    write_hostile_cache(folder, "replies.sqlite")
    before = content_of(folder)
    done = krisis(*words, cwd=folder)
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert "sqlite-journal names another file" in done.stderr
    assert content_of(folder) == before


def write_hostile_cache(folder: Path, name: str) -> Path:
    """Write a reply cache that was downloaded with a journal that names a file of the user's."""
    path = folder / name
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE more (x)")
        connection.commit()
    (folder / "victim").write_text("mine\n")
    write_journal(path, str(folder / "victim"))
    return path


def test_a_cache_that_a_run_names_from_another_folder_is_not_opened(
    run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run names its cache by a relative path, which means another file in another folder."""
    forge_description(run_file, config={"cache_path": "replies.sqlite"})
    (there := tmp_path / "there").mkdir()
    monkeypatch.chdir(there)
    described = read_description(run_file)
    trust.note_own(described.run_id, described.config)
    (here := tmp_path / "downloads").mkdir()
    for folder in (there, here):
        cache = ReplyCache(folder / "replies.sqlite")
        request = ChatRequest("openai", "m", "s", "u", {}, {}, "single", "x", 1)
        cache.put("key", request, ChatReply(invented_rows(1)[0].raw_response))
        cache.close()
    before = (here / "replies.sqlite").read_bytes()
    monkeypatch.chdir(here)
    package.forget(run_file, patient="patient-000000")
    assert (here / "replies.sqlite").read_bytes() == before
    assert trust.is_own(described.run_id, described.config)
    monkeypatch.chdir(there)
    assert Path("replies.sqlite") in forgetting._caches(run_file, None)


@pytest.mark.parametrize("is_linked", [False, True], ids=["as it is", "through a link"])
def test_data_with_a_journal_that_names_another_file_are_refused(
    tmp_path: Path, is_linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_hostile_cache(tmp_path, "data.sqlite")
    if is_linked:
        (tmp_path / "link.sqlite").symlink_to(path)
        path = tmp_path / "link.sqlite"
    (own := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(own))
    before = content_of(tmp_path)
    with pytest.raises(InvalidFile, match=r"data\.sqlite-journal names another file"):
        databases.load_database(databases.new_connection(), path, "select * from more")
    with pytest.raises(InvalidFile, match=r"data\.sqlite-journal names another file"):
        draft._tables(path)
    assert content_of(tmp_path) == before
    assert not list(own.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="makes a pipe")
@pytest.mark.parametrize("make", ["mkfifo", "mkdir"])
def test_data_with_a_journal_that_is_no_file_are_refused_and_not_waited_for(
    tmp_path: Path, make: str
) -> None:
    path = write_hostile_cache(tmp_path, "data.sqlite")
    journal = sqlite_edge.journal_of(path)
    journal.unlink()
    getattr(os, make)(journal)
    with pytest.raises(InvalidFile, match=r"data\.sqlite-journal is not a file of its own"):
        databases.load_database(databases.new_connection(), path, "select * from more")


def test_of_a_run_that_cannot_be_written_its_own_journal_is_named_and_not_that_of_a_copy(
    run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "_may_write", lambda path: False)
    write_journal(run_file, str(tmp_path / "victim"))
    _is_refused(run_file, r"/evil\.krisis-journal names another file")


SECOND_NAMES = pytest.mark.skipif(os.name == "nt", reason="SQLite holds the files it opens there")


@SECOND_NAMES
@pytest.mark.parametrize("in_log_mode", [False, True])
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal", "-lock"])
def test_a_file_of_the_user_that_has_a_second_name_beside_a_run_is_not_changed(
    run_file: Path, suffix: str, in_log_mode: bool
) -> None:
    """An archive can make any name a hard link to a file that is already where it is unpacked."""
    described, folder = read_description(run_file), run_file.parent
    if in_log_mode:
        with closing(sqlite3.connect(run_file)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    (folder / "victim").write_text("mine\n" * 1000)
    os.link(folder / "victim", f"{run_file}{suffix}")
    before = content_of(folder)
    for words in ("show evil.krisis", "forget evil.krisis --patient patient-000000"):
        done = krisis(*words.split(), cwd=folder)
        assert done.returncode == 2, done
        assert done.stderr.count("\n") == 1, done.stderr
        assert f"evil.krisis{suffix} is a link" in done.stderr
    with pytest.raises(InvalidFile, match="is a link"):
        RunWriter.resume(run_file, described, ())
    with suppress(InvalidFile):
        write_briefly(run_file, lambda connection: None)
    assert content_of(folder) == before


def test_a_run_may_have_a_second_name_itself(run_file: Path) -> None:
    os.link(run_file, run_file.with_name("kept.krisis"))
    assert load_run(run_file).damage == ""


@SECOND_NAMES
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_file_of_the_user_that_has_a_second_name_beside_data_is_not_changed(
    tmp_path: Path, suffix: str, link: Callable[[Path, str], None]
) -> None:
    path = tmp_path / "data.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE more (x)")
        connection.commit()
    (tmp_path / "victim").write_text("mine\n" * 1000)
    link(tmp_path / "victim", f"{path}{suffix}")
    before = content_of(tmp_path)
    refused = rf"data\.sqlite{suffix} is not a file of its own"
    with pytest.raises(InvalidFile, match=refused):
        databases.load_database(databases.new_connection(), path, "select * from more")
    with pytest.raises(InvalidFile, match=refused):
        draft._tables(path)
    with pytest.raises(InvalidFile, match=refused):
        ReplyCache(path)
    assert content_of(tmp_path) == before


def test_an_index_with_a_journal_that_names_another_file_is_not_opened(tmp_path: Path) -> None:
    path = write_hostile_cache(tmp_path, "index")
    before = content_of(tmp_path)
    with pytest.raises(InvalidFile, match="names another file"):
        search._found(path, ["sepsis"])
    assert text_cache._made_of(path) is None
    assert content_of(tmp_path) == before


def half_written(path: Path, target: Path) -> None:
    """Copy a run in the middle of a commit: half of it is changed, the journal knows how it was."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # changed pages go to the file at once
        connection.execute("BEGIN")
        connection.execute("UPDATE rows SET confidence = 0.123, error = printf('%.500c', 'x')")
        for suffix in ("", "-journal"):
            shutil.copy(f"{path}{suffix}", f"{target}{suffix}")
        connection.execute("ROLLBACK")
    assert target.read_bytes() != path.read_bytes()


def test_ones_own_half_written_file_is_recovered(run_file: Path, tmp_path: Path) -> None:
    rows = load_run(run_file).evaluation_results
    target = tmp_path / "half.krisis"
    half_written(run_file, target)
    found = load_run(target)
    assert found.evaluation_results == rows
    assert found.damage == ""
    assert not sqlite_edge.journal_of(target).exists()


def test_ones_own_half_written_file_that_cannot_be_written_is_read_in_a_copy(
    run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = load_run(run_file).evaluation_results
    (folder := tmp_path / "there").mkdir()
    half_written(run_file, folder / "half.krisis")
    before = content_of(folder)
    monkeypatch.setattr(read, "_may_write", lambda path: path.parent != folder)
    assert list(load_result(folder / "half.krisis").evaluation_results) == list(rows)
    assert content_of(folder) == before


def test_a_strangers_half_written_file_is_refused_and_not_shown_half(
    run_file: Path, tmp_path: Path
) -> None:
    make_strange(run_file)
    (folder := tmp_path / "there").mkdir()
    half_written(run_file, folder / "half.krisis")
    before = content_of(folder)
    with pytest.raises(InvalidFile, match=r"was not made by you .* krisis export") as refused:
        open_run(folder / "half.krisis")
    assert "\n" not in str(refused.value)
    assert content_of(folder) == before


# Logs.


def with_log(path: Path, folder: Path) -> Path:
    """Copy a run of which the last change, one row less, is in its log."""
    folder.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("DELETE FROM rows WHERE position = 0")
        connection.execute("CREATE TABLE more (x)")  # on the first page, which counts the others
        connection.commit()
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{folder / 'log.krisis'}{suffix}")
    return folder / "log.krisis"


def test_a_strangers_log_is_read_in_a_private_copy_that_is_removed(
    run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_strange(run_file)
    path = with_log(run_file, tmp_path / "there")
    before = content_of(path.parent)
    (own := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(own))
    with open_run(path) as run:
        (private,) = own.iterdir()
        assert private.stat().st_mode & 0o777 == 0o700
        assert run.n_rows == N - 1
    assert content_of(path.parent) == before
    assert not list(own.iterdir())


@pytest.mark.parametrize("is_salted", [True, False], ids=["salts", "no salts"])
def test_of_a_strangers_log_only_what_sqlite_looks_at_is_copied(
    run_file: Path, tmp_path: Path, is_salted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three gigabytes of nothing, which take no room in the folder of the stranger."""
    make_strange(run_file)
    path = with_log(run_file, tmp_path / "there")
    log = path.with_name("log.krisis-wal")
    content = log.read_bytes()
    if not is_salted:
        log.write_bytes(content[:16] + bytes(8) + content[24:32])
    os.truncate(log, 3 * 2**30)
    (own := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(own))
    with open_run(path) as run:
        (private,) = own.iterdir()
        copied = (private / "run-wal").stat().st_size
        assert copied == (len(content) if is_salted else 32)
        assert run.n_rows == (N - 1 if is_salted else N)


@pytest.mark.parametrize("size", [0, 1, 4095, 2**31])
def test_of_a_log_with_a_page_size_that_none_has_only_the_header_is_copied(
    tmp_path: Path, size: int
) -> None:
    log = tmp_path / "log"
    log.write_bytes(bytes(8) + size.to_bytes(4, "big") + bytes(range(20)) + bytes([1]) * 9000)
    read._copy_log(str(log), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == log.read_bytes()[:32]


def test_of_a_log_that_was_begun_anew_the_old_frames_are_not_copied(tmp_path: Path) -> None:
    log, salts, others = tmp_path / "log", b"saltsalt", b"oldoldol"
    header = bytes(8) + (512).to_bytes(4, "big") + bytes(4) + salts + bytes(8)
    frames = [bytes([0, 0, 0, 7]) + bytes(4) + one + bytes(8 + 512) for one in (salts, others)]
    log.write_bytes(header + frames[0] * 2 + frames[1] + frames[0])
    read._copy_log(str(log), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == header + frames[0] * 2


def test_the_log_of_ones_own_run_is_merged_within_bounds(run_file: Path, tmp_path: Path) -> None:
    """Somebody to whom a run was sent sends it back, with definitions in a log beside it."""
    (folder := tmp_path / "there").mkdir()
    with closing(sqlite3.connect(run_file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        columns = ", ".join(f"c{number} UNIQUE" for number in range(150))
        for number in range(9):
            connection.execute(f"CREATE TABLE more{number} ({columns})")
        connection.commit()
        for suffix in ("", "-wal"):
            shutil.copy(f"{run_file}{suffix}", f"{folder / 'log.krisis'}{suffix}")
    path = folder / "log.krisis"
    assert door.is_own(path)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        door.open_to_write(path, timeout=1.0)
    _is_refused(path, "more work")


def test_ones_own_log_is_merged(run_file: Path, tmp_path: Path) -> None:
    path = with_log(run_file, tmp_path / "there")
    with open_run(path) as run:
        assert run.n_rows == N - 1
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_strangers_file_is_not_touched_by_looking_at_it(run_file: Path, tmp_path: Path) -> None:
    make_strange(run_file)
    with closing(sqlite3.connect(run_file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # as a file that was copied alone
    before = content_of(tmp_path)
    result = load_result(run_file)
    assert len(result.evaluation_results) == N
    assert not keep_scores(run_file, result)
    assert not write_briefly(run_file, lambda connection: None)
    assert content_of(tmp_path) == before


def test_a_file_that_changes_while_it_is_copied_is_copied_again(
    run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_strange(run_file)
    path = with_log(run_file, tmp_path / "there")
    copied, n_left = shutil.copyfile, [2]

    def copy_and_change(source: str, target: Path) -> object:
        if n_left[0]:
            n_left[0] -= 1
            os.utime(path, ns=(0, n_left[0]))
        return copied(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy_and_change)
    with open_run(path) as run:
        assert run.n_rows == N - 1
    n_left[0] = 10**6
    with pytest.raises(InvalidFile, match="is being written at this moment"):
        open_run(path)


def test_a_log_that_counts_more_pages_than_there_are_is_refused(
    run_file: Path, tmp_path: Path
) -> None:
    make_strange(run_file)
    path = with_log(run_file, tmp_path / "there")
    log = path.with_name("log.krisis-wal")
    log.write_bytes(sealed_log(log.read_bytes(), n_pages=2**31))
    with pytest.raises(InvalidFile, match="counts more pages than it has"):
        open_run(path)


def sealed_log(content: bytes, n_pages: int) -> bytes:
    """Return a log that says how many pages the database has, with checksums that are right.

    https://www.sqlite.org/fileformat2.html#the_write_ahead_log
    """
    order = "big" if content[3] & 1 else "little"
    size = int.from_bytes(content[8:12], "big")

    def added(sums: tuple[int, int], part: bytes) -> tuple[int, int]:
        one, two = sums
        for at in range(0, len(part), 8):
            one = (one + int.from_bytes(part[at : at + 4], order) + two) % 2**32  # type: ignore[arg-type]
            two = (two + int.from_bytes(part[at + 4 : at + 8], order) + one) % 2**32  # type: ignore[arg-type]
        return one, two

    found, sums = content[:32], added((0, 0), content[:24])
    assert found[24:32] == b"".join(one.to_bytes(4, "big") for one in sums)
    for at in range(32, len(content), 24 + size):
        frame, page = content[at : at + 24], content[at + 24 : at + 24 + size]
        if frame[4:8] != bytes(4):  # it ends a commit
            frame = frame[:4] + n_pages.to_bytes(4, "big") + frame[8:]
        if frame[:4] == b"\0\0\0\1":
            page = page[:28] + n_pages.to_bytes(4, "big") + page[32:]
        sums = added(added(sums, frame[:8]), page)
        found += frame[:16] + b"".join(one.to_bytes(4, "big") for one in sums) + page
    return found


# Schema.

HOSTILE_SCHEMA = [
    "ALTER TABLE rows ADD COLUMN slow GENERATED ALWAYS AS (length(hex(zeroblob(9)))) VIRTUAL",
    "ALTER TABLE rows ADD COLUMN slow AS (abs(confidence))",
    'ALTER TABLE cases ADD COLUMN "x" as(1)',
    "CREATE TABLE more (x DEFAULT (abs(1)))",
    "ALTER TABLE texts ADD COLUMN x CHECK (abs(id) > 0)",
    "CREATE TABLE more (x, y GENERATED ALWAYS AS (x + 1))",
    "CREATE TABLE more (x CHECK (x > 0))",
    "CREATE TABLE more (x) WITHOUT ROWID",
    "CREATE TABLE more (x UNIQUE)",
    "CREATE TABLE more (x TEXT UNIQUE, y)",
    "CREATE TABLE more (x TEXT PRIMARY KEY)",
    "CREATE TABLE more (x, y INTEGER PRIMARY KEY)",
    "CREATE TABLE more (x REFERENCES cases)",
    "CREATE TABLE more (x TEXT COLLATE NOCASE)",
    "CREATE TABLE more (x DEFAULT CURRENT_TIMESTAMP)",
    "CREATE TABLE more (x TEXT NOT NULL)",
    "ALTER TABLE rows ADD COLUMN x REFERENCES cases",
    "ALTER TABLE rows ADD COLUMN x TEXT COLLATE NOCASE",
    "ALTER TABLE rows ADD COLUMN x DEFAULT NULL",
    "CREATE VIEW more AS SELECT 1",
    "CREATE TRIGGER more AFTER INSERT ON scores BEGIN DELETE FROM rows; END",
    "CREATE INDEX more ON rows (outcome)",
    "CREATE UNIQUE INDEX more ON rows (abs(position))",
    "CREATE VIRTUAL TABLE more USING fts5(x)",
]


@WHOSE
@pytest.mark.parametrize("sql", HOSTILE_SCHEMA)
def test_a_file_in_which_sqlite_would_compute_is_refused(
    run_file: Path, sql: str, whose: str
) -> None:
    described = read_description(run_file)
    if whose != "own":
        make_strange(run_file)
    with closing(sqlite3.connect(run_file)) as connection:
        if "WITHOUT ROWID" in sql:
            sql = sql.replace("(x)", "(x PRIMARY KEY)")
        connection.execute(sql)
        connection.commit()
    assert not door.is_own(run_file)  # which looks at it before all else
    _is_refused(run_file, "which no run file has")
    with pytest.raises(InvalidFile, match="which no run file has"):
        RunWriter.resume(run_file, described, ())
    assert not write_briefly(run_file, lambda connection: None)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("rows", "confidence REAL", "confidence BLOB"),
        ("rows", "confidence REAL", "confidence REAL AS (0.99)"),
        ("rows", "confidence REAL", "confidence REAL /**/ generated always as (0.99)"),
        ("rows", "checksum BLOB)", "checksum BLOB, x AS/**/(1))"),
        ("rows", "checksum BLOB)", "checksum BLOB) STRICT"),
        ("rows", "position INTEGER PRIMARY KEY", "position INTEGER"),
        ("rows", "CREATE TABLE rows", 'CREATE TABLE "rows"'),
        ("signals", "json_each(rows.signals)", "json_each(rows.metadata)"),
        ("texts", "CREATE TABLE texts", "create table texts"),
    ],
)
def test_a_definition_that_was_edited_in_place_is_refused(
    run_file: Path, name: str, old: str, new: str
) -> None:
    _edit_schema(run_file, f"sql = replace(sql, '{old}', '{new}')", name)
    with pytest.raises(InvalidFile) as refused:
        open_run(run_file)
    assert "\n" not in str(refused.value)


def test_a_view_that_calls_itself_a_table_is_refused(run_file: Path) -> None:
    with closing(sqlite3.connect(run_file)) as connection:
        connection.execute("CREATE VIEW more AS SELECT 1")
        connection.commit()
    _edit_schema(run_file, "type = 'table'", "more")
    _is_refused(run_file, "it is damaged|a view")


def test_a_definition_in_bytes_is_refused(run_file: Path) -> None:
    with closing(sqlite3.connect(run_file)) as connection:
        connection.execute("CREATE TABLE more (x)")
        connection.commit()
    _edit_schema(run_file, "sql = CAST(sql AS BLOB)", "more")
    _is_refused(run_file, "which no run file has")


def test_plain_columns_and_tables_of_a_later_version_are_ignored(run_file: Path) -> None:
    rows = load_run(run_file).evaluation_results
    with closing(sqlite3.connect(run_file)) as connection:
        connection.execute("ALTER TABLE rows ADD COLUMN mood TEXT")
        connection.execute("ALTER TABLE rows ADD COLUMN weather")
        connection.execute("CREATE TABLE moods (id INTEGER PRIMARY KEY, mood TEXT, more)")
        connection.commit()
    found = load_run(run_file)
    assert list(found.evaluation_results) == list(rows)
    assert found.damage == ""


@pytest.mark.parametrize(
    ("n_tables", "columns", "words"),
    [
        (1, ", ".join(f"c{number} UNIQUE" for number in range(250)), "more work"),
        (1, ", ".join(f"c{number}" for number in range(201)), "it is damaged"),
        (1, f"x {'x ' * 5000}", "it is damaged"),
        (200, "x", "more work"),
    ],
    ids=["unique columns", "columns", "letters", "tables"],
)
def test_definitions_that_take_sqlite_long_are_not_parsed(
    run_file: Path, n_tables: int, columns: str, words: str
) -> None:
    make_strange(run_file)
    with closing(sqlite3.connect(run_file)) as connection:
        for number in range(n_tables):
            connection.execute(f"CREATE TABLE more{number} ({columns})")
        connection.commit()
    _is_refused(run_file, words)


def test_tables_of_a_later_version_may_be_as_many_as_those_of_this_one(run_file: Path) -> None:
    with closing(sqlite3.connect(run_file)) as connection:
        for number in range(50):
            connection.execute(f"CREATE TABLE more{number} (x)")
        connection.commit()
    with open_run(run_file) as run:
        assert run.n_rows == N


def _edit_schema(path: Path, change: str, name: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"UPDATE sqlite_schema SET {change} WHERE name = ?", (name,))
        connection.commit()


def _is_refused(path: Path, words: str) -> None:
    with pytest.raises(InvalidFile, match=words) as refused:
        open_run(path)
    assert "\n" not in str(refused.value)


# Bounds.


def test_a_statement_that_does_not_end_is_ended(run_file: Path) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT sum(x) FROM c"
    with open_run(run_file) as run:
        with pytest.raises(InvalidFile, match="more work than a file of its size can need"):
            run.select(endless)
        for _ in range(20):  # each statement has all its steps before it
            assert run.select(endless.replace("FROM c)", "FROM c LIMIT 50000)"))


@pytest.mark.skipif(os.name == "nt", reason="has no files with holes")
@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_file_of_nearly_nothing_but_holes_is_refused(run_file: Path, suffix: str) -> None:
    """A terabyte that takes no room bounds nothing, and would be copied, searched and zeroed."""
    make_strange(run_file)
    forge_description(run_file, n_cases=10**11, identity={"n_records": 10**11})
    with run_file.with_name(f"{run_file.name}{suffix}").open("ab") as file:
        file.write(b"x")
        file.truncate(2**40)
    claim = r"claims 1,099,511 MB, of which \d+ kB"
    if not suffix:
        _is_refused(run_file, claim)
    with pytest.raises(InvalidFile, match=claim) as refused:
        repair(run_file, run_file.with_name("saved.krisis"))
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match="claims"):
        package.forget(run_file, patient="patient-000000")


@pytest.mark.parametrize(
    "change",
    [
        {"n_cases": 10**12},
        {"n_cases": 10**12, "identity": {"n_records": 10**12}},
        {"n_cases": 10**12, "identity": {"n_records": N}},
        {"n_cases": 5, "identity": {"n_records": 10**6, "repeats": 10**6}},
        {"identity": {"repeats": 10**9}},
        {"identity": {"n_records": N, "repeats": 10**6}},
        {"identity": {"n_records": 10**9}},
    ],
)
def test_more_cases_than_the_file_can_hold_are_refused(
    run_file: Path, change: dict[str, object]
) -> None:
    forge_description(run_file, **change)
    _is_refused(run_file, "more than a file of its size can hold")


@pytest.mark.parametrize("change", [{"repeats": 0}, {"repeats": -1}, {"n_records": -1}])
def test_fewer_askings_than_none_are_refused(run_file: Path, change: dict[str, object]) -> None:
    forge_description(run_file, identity=change)
    _is_refused(run_file, r"identity\.\w+: Input should be greater than or equal to")


def test_more_answers_than_a_task_can_have_are_refused(run_file: Path) -> None:
    """What is computed grows with their square."""
    answers = [[number, "words"] for number in range(1001)]
    forge_description(run_file, task={"name": "detection", "answers": answers[:1000]})
    with open_run(run_file) as run:
        assert run.n_rows == N
    for name, many in (
        ("answers", answers),
        ("groups", {f"group {number}": "sex" for number in range(1001)}),
        ("metrics", ["aurc"] * 1001),
    ):
        path = write_run(run_file.with_name(name), result_of(invented_rows(N), name))
        forge_description(path, task={"name": "detection", name: many})
        _is_refused(path, f"at most 1,000 {name}, not 1,001")


def test_of_a_record_that_is_not_among_the_records_no_askings_are_removed(run_file: Path) -> None:
    """One record, asked ten million times, while the file has many: a patient has none of them."""
    forge_description(run_file, n_cases=10**7, identity={"n_records": 1, "repeats": 10**7})
    with open_run(run_file) as run:
        clusters = [str(line[2]) for line in run.believed("cases")]
        patient = next(one for one in clusters if one != clusters[0])
        found = _Patient.of(run, patient)
    assert found is not None
    assert len(found.positions) <= N


def test_pages_that_are_referred_to_again_and_again_end_a_reading(tmp_path: Path) -> None:
    """Five pages, each of which refers to the next hundreds of times: 10^11 rows in 300 kB."""
    path = write_run(tmp_path / "evil", result_of(invented_rows(600), "evil"))
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'rows'"
        ).fetchone()
    content, size = bytearray(path.read_bytes()), 4096
    leaves = [
        int.from_bytes(content[at : at + 4], "big")
        for at in _cells_of(content, (root - 1) * size, n_header=12)
    ]
    chain = [root, *leaves[1:6]]
    for page, child in zip(chain, [*chain[1:], leaves[0]], strict=True):
        content[(page - 1) * size : page * size] = _interior_page(child, size)
    path.write_bytes(content)
    done = krisis("show", path.name, cwd=tmp_path)
    assert done.returncode == 2 or "DAMAGED" in done.stdout, done
    with open_run(path) as run:
        assert run.is_broken
        with pytest.raises(InvalidFile, match="more work"):
            assert run.n_rows
        assert len(run.rows()) <= 600
    with open_run(path, checked=True) as run:
        assert len(run.rows()) <= 600
        assert "DAMAGED" in run.damage


def test_keys_of_a_damaged_table_are_looked_up_as_often_as_it_can_have_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim of ten million cases is believed, for a run may have only begun."""
    path = write_run(tmp_path / "evil", result_of(invented_rows(600), "evil"))
    forge_description(path, n_cases=10_000_000, identity={"n_records": 10_000_000})
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'rows'"
        ).fetchone()
    content, size = bytearray(path.read_bytes()), 4096
    last = (root - 1) * size + 8
    content[last : last + 4] = (1).to_bytes(4, "big")  # the last child is not of this table
    path.write_bytes(content)
    with open_run(path) as run:
        assert run.is_broken
        n_asked, ask = [0], run._line

        def count(table: str, key: Value) -> tuple[Value, ...] | None:
            n_asked[0] += 1
            return ask(table, key)

        monkeypatch.setattr(run, "_line", count)
        n_found = len(list(run.believed("rows")))
        assert 0 < n_found < 600
        assert n_asked[0] + n_found >= 600
        assert n_asked[0] <= 20_000 + len(content) // 50


def _cells_of(content: bytes, start: int, n_header: int) -> list[int]:
    n_cells = int.from_bytes(content[start + 3 : start + 5], "big")
    places = range(start + n_header, start + n_header + 2 * n_cells, 2)
    return [start + int.from_bytes(content[at : at + 2], "big") for at in places]


def _interior_page(child: int, size: int, n_cells: int = 400) -> bytes:
    """Return a page of a table that refers to one child hundreds of times."""
    cells, places, at = b"", b"", size
    for key in range(n_cells):
        cell = child.to_bytes(4, "big") + bytes([key >> 7 | 0x80, key & 0x7F])
        at -= len(cell)
        cells = cell + cells
        places += at.to_bytes(2, "big")
    head = b"\x05\0\0" + n_cells.to_bytes(2, "big") + at.to_bytes(2, "big") + b"\0"
    head += child.to_bytes(4, "big") + places
    return head + bytes(size - len(head) - len(cells)) + cells


# Texts: their number is the hash of them, which seals them.


@pytest.mark.parametrize("column", ["prompt", "reply"])
@pytest.mark.parametrize("value", ["another text", b"another text", 7, None])
def test_a_text_that_is_not_the_one_of_its_number_is_nowhere_believed(
    run_file: Path, column: str, value: object
) -> None:
    with closing(sqlite3.connect(run_file)) as connection:
        sql = f"UPDATE texts SET text = ? WHERE id = (SELECT {column} FROM rows LIMIT 1)"
        connection.execute(sql, (value,))
        connection.commit()
    name = {"prompt": "prompt", "reply": "raw_response"}[column]
    with open_run(run_file) as run:
        ((number,),) = run.select(f"SELECT {column} FROM rows LIMIT 1")
        assert run.text(number) == ""  # type: ignore[arg-type]
        assert getattr(run.row(0), name) == ""
        assert getattr(run.rows()[0], name) == ""
        assert getattr(run.rows_at([0])[0], name) == ""
        assert "1 damaged text left out" in run.damage


# Stored scores: each condition under which they are those of these rows.


def accuracy_of(path: Path) -> tuple[float | None, int]:
    score = load_result(path).metric_scores["accuracy"]
    return score.value, score.n_evaluated


def seal_scores(path: Path, *, is_noted: bool = True, **changes: object) -> None:
    """Write 0.99 as the stored accuracy, sealed again and noted; or 0.98, which nobody computed."""
    with open_run(path) as run:
        kept = run.scores()
    assert kept is not None
    kept.scores["Accuracy"] |= {"value": 0.99 if is_noted else 0.98}
    forge_run(path, "scores", scores=json.dumps(kept.scores), **changes)
    if is_noted:
        with open_run(path) as run:
            (line,) = run.believed("scores")
        trust.note_scores(line)


@pytest.fixture
def scored(tmp_path: Path) -> tuple[Path, tuple[float | None, int]]:
    path = write_run(tmp_path / "scored", result_of(invented_rows(200), "scored"))
    right = accuracy_of(path)
    seal_scores(path)
    assert accuracy_of(path)[0] == 0.99  # the cache is used: the tests below are of its conditions
    return path, right


def test_scores_of_other_rows_are_not_shown(tmp_path: Path) -> None:
    """50 of 200 rows are gone, and everything that is left is sealed."""
    path = write_run(tmp_path / "scored", result_of(invented_rows(200), "scored"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM rows WHERE position >= 150")
        connection.commit()
    forge_description(path, n_cases=150)
    left = result_of(invented_rows(200)[:150]).metric_scores["Accuracy"]
    assert accuracy_of(path) == (left.value, left.n_evaluated)


def test_scores_of_other_rows_are_not_shown_where_only_rows_were_deleted(
    scored: tuple[Path, tuple[float | None, int]],
) -> None:
    path, _ = scored
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM rows WHERE position >= 150")
        connection.commit()
    with open_run(path) as run:
        assert stored_result(run) is None
    assert accuracy_of(path)[0] != 0.99


def test_a_strangers_scores_are_not_shown(scored: tuple[Path, tuple[float | None, int]]) -> None:
    path, right = scored
    make_strange(path)
    with open_run(path) as run:
        present = run.rows_hash
    seal_scores(path, rows_hash=present, is_noted=False)
    assert accuracy_of(path) == right


def test_scores_that_nobody_here_computed_are_not_shown_under_the_id_of_ones_own_run(
    tmp_path: Path,
) -> None:
    path = write_run(tmp_path / "scored", result_of(invented_rows(200), "scored"))
    right = accuracy_of(path)
    seal_scores(path, is_noted=False)
    assert accuracy_of(path) == right


def test_scores_of_another_version_are_not_shown(
    scored: tuple[Path, tuple[float | None, int]],
) -> None:
    path, right = scored
    seal_scores(path, version=f"{__version__}.1")
    assert accuracy_of(path) == right


@pytest.mark.parametrize("table", ["rows", "cases"])
def test_scores_of_a_file_with_damaged_lines_are_not_shown(
    scored: tuple[Path, tuple[float | None, int]], table: str
) -> None:
    """A row that holds what no row can hold, sealed, in a file whose scores claim its hash."""
    path, _ = scored
    if table == "rows":
        forge_run(path, table, "position = 3", confidence=7.5)
    else:
        forge_run(path, table, "position = 3", metadata="[]")
    with open_run(path) as run:
        present = run.rows_hash
    seal_scores(path, rows_hash=present)
    value, n = accuracy_of(path)
    assert value != 0.99
    assert n < 200


def test_scores_of_a_file_with_a_damaged_structure_are_not_shown(
    scored: tuple[Path, tuple[float | None, int]],
) -> None:
    path, right = scored
    with open_run(path) as run:
        assert stored_result(run) is not None
        run.is_broken = True
        assert stored_result(run) is None
    assert right[0] != 0.99
