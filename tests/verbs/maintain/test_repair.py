"""What a damaged run file loses: the lines on its damaged pages, and nothing else."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.invented_runs import ANSWERS, invented_rows, result_of
from typer.testing import CliRunner

from krisis import __version__
from krisis.errors import InvalidFile
from krisis.metrics.base import EvaluationResult, Rows
from krisis.results.base import BenchmarkResult
from krisis.results.call_totals import CallTotals
from krisis.runs.description import Identity, RunDescription
from krisis.runs.ledger import note_decision
from krisis.runs.load import load_run, stored_parts
from krisis.runs.provider_batches import BatchRequest, ProviderBatch
from krisis.runs.read import open_run
from krisis.runs.schema import PAGE_SIZE, TABLES, Checksums, bytes_id, columns, text_id
from krisis.runs.write import RowPlace, RunWriter, StoredCase
from krisis.verbs.maintain import repair as module
from krisis.verbs.maintain.doctor_command import app as doctor
from krisis.verbs.maintain.repair import repair

# Before a page of the run is read: SQLite, and what Python needs to run it.
N_BYTES_AT_REST = 4_000_000

# Of a run that is damaged again and again.
N_ROWS = 60
T = TypeVar("T")
Tables = dict[str, dict[object, tuple[object, ...]]]


def write(
    path: Path, rows: list[EvaluationResult], *, per_batch: int = 8, ends: bool = True
) -> Path:
    """Write a run with a line in every table."""
    result = result_of(Rows(rows, ANSWERS))
    description = RunDescription(
        run_id=f"id of {path.stem}",
        created_at="2026-01-02T03:04:05Z",
        backend_name=result.backend_name,
        n_cases=len(rows),
        identity=Identity(n_records=len(rows)),
        task=result.provenance.task_facts,
        suite_description=result.suite_description,
        config={"sources": ["a source of records"] * 100},
        stores_features=True,
    )
    cases = [
        StoredCase(
            record_id=row.record_id,
            cluster_id=row.cluster_id,
            label=row.ground_truth,
            metadata=row.metadata,
            features={"age": 60 + at % 20},
        )
        for at, row in enumerate(rows)
    ]
    writer = RunWriter.create(path, description, cases)
    writer.begin_session({"input_per_million": 1.0})
    for start in range(0, len(rows), per_batch):
        some = rows[start : start + per_batch]
        writer.note_call(100, 20)
        places = [RowPlace(at, at) for at in range(start, start + len(some))]
        writer.append(places, some, CallTotals(n_calls=1))
    batch = ProviderBatch("marker", (BatchRequest((0,), 9, 9),), "text", intended_at=1.0)
    writer.note_provider_batch(batch)
    writer.note_not_taken([("line 3", "no truth")])
    writer.keep_baselines({"always ill": [replace(row, confidence=1.0) for row in rows]})
    if ends:
        facts, scores = stored_parts(result)
        writer.finish(facts=facts, scores=scores, version=__version__)
    writer.close()
    note_decision(path, kind="check", question={"accuracy": 0.5}, answer="yes")
    return path


def rows_of(kind: str, n: int = 120) -> list[EvaluationResult]:
    """Return rows as a model of some kind gives them."""
    change: Mapping[str, object] = {
        "certain": {"confidence": 1.0, "latency_seconds": 2.0},
        "hopeless": {"confidence": 0.0, "latency_seconds": 0.0},
        "wordy": {"raw_response": "a long reply " * 330},
        "mixed": {},
    }[kind]
    rows = [replace(row, **change) for row in invented_rows(n)]  # type: ignore[arg-type]
    for at, row in enumerate(rows):
        row.raw_response += f" {at}"
        if kind == "wordy" and at % 20 == 0:  # a row that needs pages of its own
            row.signals = {f"token {n}": n / 1000 for n in range(400)}
    return rows


def content_of(path: Path) -> Tables:
    """Return every line of every table as SQLite gives it."""
    with closing(sqlite3.connect(path)) as connection:
        found: Tables = {
            table: {
                line[0]: line
                for line in connection.execute(f"SELECT {columns(table)} FROM {table}")
            }
            for table in TABLES
        }
        found["texts"] = {
            line[0]: line for line in connection.execute("SELECT id, text FROM texts")
        }
        return found


def places_of(path: Path) -> dict[int, set[tuple[str, object]]]:
    """Return the lines that each page holds a part of, as SQLite itself accounts for its pages."""
    found: dict[int, set[tuple[str, object]]] = defaultdict(set)
    with closing(sqlite3.connect(path)) as connection:
        for table in (*TABLES, "texts"):
            keys = [key for (key,) in connection.execute(f"SELECT rowid FROM {table}")]
            names = keys
            if table != "texts":
                first = next(iter(TABLES[table]))
                names = [
                    key for (key,) in connection.execute(f"SELECT {first} FROM {table} NOT INDEXED")
                ]
            pages = connection.execute(
                "SELECT path, pageno, ncell FROM dbstat WHERE name = ? AND pagetype = 'leaf' "
                "ORDER BY path",
                (table,),
            ).fetchall()
            further = connection.execute(
                "SELECT path, pageno FROM dbstat WHERE name = ? AND pagetype = 'overflow'",
                (table,),
            ).fetchall()
            chains = defaultdict(list)
            for place, page in further:
                chains[place.split("+")[0]].append(page)
            at = 0
            for place, page, n_cells in pages:
                for cell in range(n_cells):
                    line = (table, names[at])
                    found[page].add(line)
                    for other in chains[f"{place}{cell:03x}"]:
                        found[other].add(line)
                    at += 1
            assert at == len(names), table
    return found


def has_dbstat() -> bool:
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("SELECT 1 FROM dbstat")
        except sqlite3.OperationalError:
            return False
    return True


needs_dbstat = pytest.mark.skipif(not has_dbstat(), reason="this SQLite does not account for pages")


@dataclass(frozen=True)
class Whole:
    """A run before it is damaged."""

    content: bytes
    tables: Tables
    places: Mapping[int, set[tuple[str, object]]]
    result: BenchmarkResult

    @property
    def n_pages(self) -> int:
        return len(self.content) // PAGE_SIZE


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Whole]:
    folder = tmp_path_factory.mktemp("whole")
    found = {}
    for kind in ("certain", "hopeless", "wordy", "mixed"):
        path = write(folder / f"{kind}.krisis", rows_of(kind, N_ROWS))
        found[kind] = Whole(path.read_bytes(), content_of(path), places_of(path), load_run(path))
        assert found[kind].result.damage == ""
        assert len(found[kind].result.rows) == N_ROWS
    return found


def damages(whole: Whole, n: int, seed: int) -> Iterator[tuple[bytes, set[int]]]:
    """Yield damaged contents and the pages that were hit: nine flips of a bit, then a cut."""
    draw, content = random.Random(seed), whole.content
    for number in range(n):
        at = draw.randrange(len(content))
        if number % 10 == 9:
            yield content[:at], set(range(at // PAGE_SIZE + 1, whole.n_pages + 1))
        else:
            flipped = bytes([content[at] ^ 1 << draw.randrange(8)])
            yield content[:at] + flipped + content[at + 1 :], {at // PAGE_SIZE + 1}


def outcome_of(step: Callable[[], T]) -> T | str:
    """Return what a step gives, or the sentence in which it is refused."""
    try:
        return step()
    except InvalidFile as error:
        return str(error)


def check_shown(path: Path, whole: Whole) -> bool:
    """What is shown is right, or the damage is said; tell whether the file could be read."""
    seen = outcome_of(lambda: load_run(path))
    if isinstance(seen, str):
        assert any(word in seen for word in ("krisis doctor", "version", "is empty", "is damaged"))
        return False
    right = {row.record_id: row for row in whole.result.rows}
    for row in seen.rows:
        expected = right[row.record_id]
        assert replace(row, raw_response="", prompt="") == replace(
            expected, raw_response="", prompt=""
        )
        assert row.raw_response in ("", expected.raw_response)
    assert seen.damage or len(seen.rows) == len(right) or seen.stop is not None
    if len(seen.rows) < len(right):
        assert not seen.metric_scores  # they are computed again, from what is left
    elif seen.metric_scores:
        assert seen.metric_scores == whole.result.metric_scores
    assert seen.provenance.task_facts == whole.result.provenance.task_facts
    assert seen.suite_description == whole.result.suite_description
    return True


def check_damage(content: bytes, pages: set[int], whole: Whole, path: Path) -> Counter[str]:
    """Damage a run, look at it, repair it, and count what that cost."""
    found = Counter[str]()
    target = path.with_name("saved.krisis")
    target.unlink(missing_ok=True)
    path.write_bytes(content)
    found["read"] = check_shown(path, whole)
    on_pages = set().union(*(whole.places.get(page, set()) for page in pages))
    lost_settings = {key for table, key in on_pages if table == "run"}
    saved = outcome_of(lambda: repair(path, target))
    if isinstance(saved, str):
        assert "both copies" in saved
        assert not target.exists()
        assert len(pages) > 1, "one flip cost the whole run"
        assert lost_settings, "a cut behind the settings cost the whole run"
        return Counter({"whole runs": 1, "whole runs by a flip": len(pages) == 1})
    tables = content_of(target)
    for table, lines in whole.tables.items():
        assert tables[table].items() <= lines.items(), table
        lost = {(table, key) for key in lines.keys() - tables[table].keys()}
        if table == "run":
            assert not lost
        assert lost <= on_pages, (table, pages, lost - on_pages)
        if table == "rows":
            found["rows lost"] = len(lost)
    found["rows on damaged pages"] = sum(table == "rows" for table, _ in on_pages)
    assert saved.n_rows == len(tables["rows"])
    with open_run(target) as run:
        assert not run.is_broken
        assert not run.left_out["run"]
    if found["rows lost"]:
        assert check_shown(target, whole)
    return found


KINDS = ("certain", "hopeless", "wordy", "mixed")


@needs_dbstat
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [50, pytest.param(2500, marks=pytest.mark.slow)])
def test_a_flip_or_cut_loses_no_line_of_another_page_and_changes_no_figure(
    wholes: dict[str, Whole], kind: str, n: int, tmp_path: Path
) -> None:
    whole, found = wholes[kind], Counter[str]()
    for content, pages in damages(whole, n, seed=7):
        found += check_damage(content, pages, whole, tmp_path / "run.krisis")
    print(f"{kind}: {n} damages of {len(whole.content):,} bytes: {dict(found)}")
    assert found["whole runs by a flip"] == 0
    assert found["rows lost"] <= found["rows on damaged pages"]
    assert found["read"] > n / 2


def test_a_key_that_a_flip_moved_behind_the_others_costs_no_case_but_its_neighbours(
    wholes: dict[str, Whole], tmp_path: Path
) -> None:
    whole, path = wholes["certain"], tmp_path / "run.krisis"
    content = bytearray(whole.content)
    name = content.index(b"case-000035patient-")  # a line of cases
    key = name - 11  # SQLite keeps it before the line, whose header has ten bytes
    assert content[key] == 35
    content[key] ^= 64
    path.write_bytes(content)
    assert check_shown(path, whole)
    with open_run(path) as run:
        kept = {line[0] for line in run.believed("cases")}
        assert run.damage
    assert kept >= {*range(35), *range(37, 60)}


def destroyed(content: bytes, page: int) -> bytes:
    start = (page - 1) * PAGE_SIZE
    return content[:start] + b"\xa5" * PAGE_SIZE + content[start + PAGE_SIZE :]


@needs_dbstat
@pytest.mark.parametrize("kind", ["certain", pytest.param("wordy", marks=pytest.mark.slow)])
def test_whichever_page_is_destroyed_every_line_of_the_others_is_saved(
    wholes: dict[str, Whole], kind: str, tmp_path: Path
) -> None:
    whole = wholes[kind]
    for page in range(1, whole.n_pages + 1):
        check_damage(destroyed(whole.content, page), {page}, whole, tmp_path / "run.krisis")


certainties = st.sampled_from([0.0, 1.0, -0.0, 0.5, 5e-324, 0.1])
times = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3600.0, 1e15, 2.0**53, 1e300, 0.25, None])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.lists(st.tuples(certainties, times), min_size=1, max_size=40))
def test_without_its_first_page_a_run_keeps_every_line(
    drawn: list[tuple[float, float | None]],
) -> None:
    rows = [
        replace(row, confidence=confidence, latency_seconds=seconds)
        for row, (confidence, seconds) in zip(invented_rows(len(drawn)), drawn, strict=True)
    ]
    with TemporaryDirectory() as folder:
        path, target = Path(folder, "run.krisis"), Path(folder, "saved.krisis")
        before = content_of(write(path, rows))
        assert load_run(path).damage == ""  # a negative zero comes back as zero
        path.write_bytes(destroyed(path.read_bytes(), 1))
        saved = repair(path, target)
        assert content_of(target) == before
        assert (saved.n_rows, saved.n_missing, saved.n_without_case) == (len(rows), 0, 0)
        result = load_run(target)
        assert [row.confidence for row in result.rows] == [confidence for confidence, _ in drawn]
        assert result.metric_scores  # of the same rows: nothing is computed or asked again


def test_answers_that_are_whole_floats_stay_floats(tmp_path: Path) -> None:
    rows = [replace(row, prediction=1.0) for row in invented_rows(6) if row.prediction is not None]
    path = write(tmp_path / "run.krisis", rows)
    before = content_of(path)
    assert {type(line[4]) for line in before["rows"].values()} == {float}
    path.write_bytes(destroyed(path.read_bytes(), 1))
    repair(path, tmp_path / "saved.krisis")
    assert content_of(tmp_path / "saved.krisis") == before


def test_lines_of_every_length_about_that_of_a_page_are_saved(tmp_path: Path) -> None:
    lengths = [n for near in (4061, 4550, 8150, 12240) for n in range(near - 40, near + 40)]
    rows = invented_rows(len(lengths))
    for row, n in zip(rows, lengths, strict=True):
        row.raw_response = f"{n} ".ljust(n, "x")
    path = write(tmp_path / "run.krisis", list(rows))
    before = content_of(path)
    path.write_bytes(destroyed(path.read_bytes(), 1))
    repair(path, tmp_path / "saved.krisis")
    assert content_of(tmp_path / "saved.krisis") == before


# The settings.


def pages_of(path: Path, table: str) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT pageno FROM dbstat WHERE name = ? ORDER BY pageno"
        return [page for (page,) in connection.execute(sql, (table,))]


@needs_dbstat
def test_the_settings_are_kept_twice_on_pages_that_are_far_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain"))
    first, second = pages_of(path, "run"), pages_of(path, "run_copy")
    cases = pages_of(path, "cases")
    assert max(first) < min(second)
    assert max(cases) < min(second)
    with closing(sqlite3.connect(path)) as connection:
        both = [
            connection.execute(f"SELECT * FROM {table} ORDER BY key").fetchall()
            for table in ("run", "run_copy")
        ]
    assert both[0] == both[1] != []


@pytest.mark.parametrize("table", ["run", "run_copy"])
def test_a_damaged_setting_is_read_from_the_other_copy_and_the_file_says_so(
    tmp_path: Path, table: str
) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain"))
    whole = load_run(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE {table} SET value = '7' WHERE key = 'n_cases'")
        connection.commit()
    seen = load_run(path)
    assert seen.damage == (
        f"DAMAGED: 1 damaged setting read from the other copy; type: krisis doctor {path}"
    )
    assert list(seen.rows) == list(whole.rows)
    assert seen.metric_scores == whole.metric_scores
    told = CliRunner().invoke(doctor, [str(path)])
    assert told.exit_code == 1
    assert "run 1" in " ".join(told.output.split())
    repair(path, tmp_path / "saved.krisis")
    assert load_run(tmp_path / "saved.krisis").damage == ""
    assert CliRunner().invoke(doctor, [str(tmp_path / "saved.krisis")]).exit_code == 0


def test_settings_whose_copies_differ_are_those_of_the_first_and_said_to_be_damaged(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain"))
    sealed = Checksums("id of run").sealed("run", "backend_name", '"another"')
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM run_copy WHERE key = 'backend_name'")
        connection.execute("INSERT INTO run_copy VALUES (?, ?, ?)", sealed)
        connection.commit()
    with open_run(path) as run:
        assert run.description.backend_name == "openai/some-model"
        assert "1 damaged setting" in run.damage


def test_settings_that_are_damaged_in_both_copies_are_not_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE run SET value = 'null' WHERE key = 'imported'")
        for table in ("run", "run_copy"):
            connection.execute(f"UPDATE {table} SET value = '{{}}' WHERE key = 'imported'")
        connection.commit()
    with pytest.raises(InvalidFile, match=r"what it says of itself is damaged.*--repair"):
        load_run(path)
    target = tmp_path / "saved.krisis"
    with pytest.raises(InvalidFile, match="both copies of its settings"):
        repair(path, target)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run.krisis"]


def test_a_file_of_the_first_minor_version_has_no_copy_and_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE run_copy")
        connection.execute("PRAGMA user_version = 1000")
        connection.commit()
    before = content_of(path)
    assert load_run(path).damage == ""
    path.write_bytes(destroyed(path.read_bytes(), 1))
    repair(path, tmp_path / "saved.krisis")
    assert content_of(tmp_path / "saved.krisis") == before
    with closing(sqlite3.connect(tmp_path / "saved.krisis")) as connection:
        assert connection.execute("SELECT count(*) FROM run_copy").fetchone()[0] > 10


def test_lines_with_columns_of_a_later_version_are_saved(tmp_path: Path) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain"))
    before = content_of(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE rows ADD COLUMN mood TEXT")
        connection.execute("UPDATE rows SET mood = 'calm'")
        connection.commit()
    path.write_bytes(destroyed(path.read_bytes(), 1))
    repair(path, tmp_path / "saved.krisis")
    assert content_of(tmp_path / "saved.krisis") == before


# States of a line.


def test_a_line_that_was_replaced_or_deleted_does_not_come_back(tmp_path: Path) -> None:
    rows = rows_of("mixed", 200)
    path = write(tmp_path / "run.krisis", rows)
    with open_run(path) as run:
        description = run.description
    cases = [
        StoredCase(record_id=r.record_id, cluster_id=r.cluster_id, label=r.ground_truth)
        for r in rows
    ]
    # Rows that grow and shrink move to other pages, and pages become free.
    for n_letters in (900, 2000, 1):
        writer = RunWriter.resume(path, description, cases)
        some = [replace(row, error="x" * n_letters, failure_class="timeout") for row in rows]
        writer.append([RowPlace(at, at) for at in range(len(rows))], some, CallTotals())
        if n_letters == 1:
            writer.drop_rows(range(50, 200))
        writer.close()
    before = content_of(path)
    assert [len(str(line[15])) for line in before["rows"].values()] == [1] * 50
    path.write_bytes(destroyed(path.read_bytes(), 1))
    repair(path, tmp_path / "saved.krisis")
    assert content_of(tmp_path / "saved.krisis") == before


@pytest.mark.parametrize("loses_first_page", [False, True])
def test_rows_in_the_log_of_a_killed_writer_are_saved_as_they_were_last(
    tmp_path: Path, loses_first_page: bool
) -> None:
    rows = rows_of("wordy", 60)
    path = write(tmp_path / "run.krisis", rows, ends=False)
    with open_run(path) as run:
        description = run.description
    cases = [
        StoredCase(record_id=r.record_id, cluster_id=r.cluster_id, label=r.ground_truth)
        for r in rows
    ]
    writer = RunWriter.resume(path, description, cases)
    copy = tmp_path / "copy.krisis"
    try:
        places = [RowPlace(at, at) for at in range(len(rows))]
        for words in ("first", "second"):
            changed = [
                replace(row, error=words * (2000 if at % 2 else 1), failure_class="timeout")
                for at, row in enumerate(rows)
            ]
            writer.append(places, changed, CallTotals())
            writer.flush()
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    finally:
        writer.close()
    assert copy.with_name("copy.krisis-wal").stat().st_size > 100_000
    if loses_first_page:
        copy.write_bytes(destroyed(copy.read_bytes(), 1))
    repair(copy, tmp_path / "saved.krisis")
    saved = content_of(tmp_path / "saved.krisis")["rows"]
    assert len(saved) == 60
    assert {str(line[15]) for line in saved.values()} == {"second", "second" * 2000}


# Hostile bytes.


def varint(number: int) -> bytes:
    parts = [number & 0x7F]
    while number := number >> 7:
        parts.append(number & 0x7F | 0x80)
    return bytes(reversed(parts))


def peak_of_repair(path: Path, target: Path) -> int:
    tracemalloc.start()
    try:
        repair(path, target)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Count how often each page of a file is read."""
    found = Counter[int]()
    page_of = module._Pages._page

    def counted(self: module._Pages, number: int, *, in_log: bool = False) -> bytes:
        found[number] += 1
        return page_of(self, number, in_log=in_log)

    monkeypatch.setattr(module._Pages, "_page", counted)
    return found


@needs_dbstat
@pytest.mark.parametrize("back", [0, 1, 2])
def test_pages_that_form_a_circle_cost_one_text_and_no_memory(
    tmp_path: Path, read: Counter[int], back: int
) -> None:
    rows = rows_of("mixed")
    rows[5].raw_response = "a reply that fills many pages " * 3000
    path = write(tmp_path / "run.krisis", rows)
    before = content_of(path)
    with closing(sqlite3.connect(path)) as connection:
        sql = (
            "SELECT pageno FROM dbstat WHERE name = 'texts' AND pagetype = 'overflow' ORDER BY path"
        )
        further = [page for (page,) in connection.execute(sql)]
    assert len(further) > 15
    content = bytearray(path.read_bytes())
    start = (further[5] - 1) * PAGE_SIZE
    content[start : start + 4] = further[5 - back].to_bytes(4, "big")
    path.write_bytes(content)
    target = tmp_path / "saved.krisis"
    assert peak_of_repair(path, target) < 4 * len(content) + N_BYTES_AT_REST
    # The run's id is found before the text, so that the text is met once: alone, and as a page.
    assert {read[page] for page in further[:5]} == {2}
    assert max(read.values()) <= 2
    after = content_of(target)
    assert len(before["texts"]) - len(after["texts"]) == 1
    del before["texts"], after["texts"]
    assert after == before


def test_a_thousand_lines_that_end_on_the_same_pages_are_not_all_followed(
    tmp_path: Path, read: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain", 40))
    before = content_of(path)
    content = path.read_bytes()
    n_further = 200
    first = len(content) // PAGE_SIZE + 11
    # Ten pages of lines, each as long as the two hundred pages after them and beginning there.
    n_bytes = (n_further - 1) * (PAGE_SIZE - 4)
    length = n_bytes - 5
    header = bytes([5, 0]) + varint(13 + 2 * length)
    while len(header) != header[0]:
        header = bytes([len(header), 0]) + varint(13 + 2 * (n_bytes - len(header)))
    cell = varint(n_bytes) + varint(7) + header
    least = (PAGE_SIZE - 12) * 32 // 255 - 23
    here = least + (n_bytes - least) % (PAGE_SIZE - 4)
    here = here if here <= PAGE_SIZE - 35 else least
    cell += bytes(here - len(header)) + first.to_bytes(4, "big")
    # Many names for one place would be read once, so that each line begins a byte further.
    leaves = b""
    n_cells = (PAGE_SIZE - 8 - len(cell)) // (2 + len(cell)) or 1
    for _ in range(10):
        places = [PAGE_SIZE - (at + 1) * len(cell) for at in range(n_cells)]
        page = bytes([0x0D, 0, 0]) + n_cells.to_bytes(2, "big") + bytes(3)
        page += b"".join(place.to_bytes(2, "big") for place in places)
        leaves += page + bytes(PAGE_SIZE - len(page) - n_cells * len(cell)) + cell * n_cells
    chained = b"".join(
        (first + at + 1).to_bytes(4, "big") + bytes(PAGE_SIZE - 4) for at in range(n_further)
    )
    path.write_bytes(content + leaves + chained)
    monkeypatch.setattr(module, "_MOST_VISITS", 3)
    peak = peak_of_repair(path, tmp_path / "saved.krisis")
    assert peak < 4 * path.stat().st_size + N_BYTES_AT_REST
    assert read[first] > 3  # the lines are long enough to be followed
    assert max(read.values()) <= 3 + 1
    assert content_of(tmp_path / "saved.krisis") == before


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_bytes_make_repair_fail_otherwise_than_in_a_sentence(data: st.DataObject) -> None:
    content = bytearray(_small_run())
    for _ in range(data.draw(st.integers(0, 30))):
        start = data.draw(st.integers(0, len(content) - 1))
        part = data.draw(st.binary(min_size=1, max_size=12))
        content[start : start + len(part)] = part
    if data.draw(st.booleans()):
        content = content[data.draw(st.integers(0, len(content))) :]
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.krisis")
        path.write_bytes(content)
        saved = outcome_of(lambda: repair(path, Path(folder, "saved.krisis")))
        if isinstance(saved, str):
            assert "both copies" in saved
            assert os.listdir(folder) == ["run.krisis"]
        else:
            with open_run(Path(folder, "saved.krisis")) as run:
                assert not run.is_broken


@cache
def _small_run() -> bytes:
    with TemporaryDirectory() as folder:
        return write(Path(folder, "run.krisis"), rows_of("certain", 20)).read_bytes()


def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    path = write(tmp_path / "run.krisis", rows_of("mixed", 3000), per_batch=500)
    path.write_bytes(destroyed(path.read_bytes(), 1))
    peak = peak_of_repair(path, tmp_path / "saved.krisis")
    print(f"{peak:,} bytes for a file of {path.stat().st_size:,}")
    assert peak < path.stat().st_size


def test_a_long_text_takes_less_than_four_times_its_file(tmp_path: Path) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain", 20))
    text = "x" * 6_000_000 + "\N{GRINNING FACE}"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO texts VALUES (?, ?)", (text_id(text), text))
        connection.commit()
    peak = peak_of_repair(path, tmp_path / "saved.krisis")
    assert peak < 4 * path.stat().st_size
    assert content_of(tmp_path / "saved.krisis")["texts"][text_id(text)][1] == text


def test_a_text_that_is_no_text_is_not_saved_though_it_has_its_hash(tmp_path: Path) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain", 20))
    before, wrong = content_of(path), b"\xff\xfe no letters"
    with closing(sqlite3.connect(path)) as connection:
        sql = "INSERT INTO texts VALUES (?, CAST(? AS TEXT))"
        connection.execute(sql, (bytes_id(wrong), wrong))
        connection.commit()
    repair(path, tmp_path / "saved.krisis")
    assert content_of(tmp_path / "saved.krisis") == before


# What it says.


def test_the_sentence_counts_what_is_saved_and_lost_and_asks_for_nothing_where_all_is_saved(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain"))
    whole = path.read_bytes()
    path.write_bytes(destroyed(whole, 1))
    saved = path.with_name("run.repaired.krisis")
    told = CliRunner().invoke(doctor, [str(path), "--repair"])
    assert told.output.splitlines() == [
        f"Saved 120 of 120 rows into {saved}; none is lost; {path} was not changed"
    ]


def test_rows_without_their_record_are_saved_and_restored_without_a_call(tmp_path: Path) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE cases SET record_id = 'x' WHERE position IN (3, 4)")
        connection.commit()
    saved = path.with_name("run.repaired.krisis")
    told = CliRunner().invoke(doctor, [str(path), "--repair"])
    assert told.output.splitlines() == [
        f"Saved 120 of 120 rows into {saved}; none is lost; {path} was not changed",
        "2 of them cannot be shown, because the records they belong to are lost",
        f"To restore these records without a call, type: krisis resume {saved}",
    ]


def test_of_a_run_that_goes_on_nobody_knows_what_was_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "run.krisis", rows_of("certain"), ends=False)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE rows SET truth = 9 WHERE position >= 100")
        connection.commit()
    rest = "the other 20 are lost or were never asked"
    saved = path.with_name("run.repaired.krisis")
    told = CliRunner().invoke(doctor, [str(path), "--repair"])
    assert told.output.splitlines() == [
        f"Saved 100 of 120 rows into {saved}; {rest}; {path} was not changed",
        f"To ask only the records without a row, type: krisis resume {saved}",
    ]
