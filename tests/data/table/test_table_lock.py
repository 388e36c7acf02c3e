"""Expressions and queries only compute: no file, no setting, no second statement, no clock."""

from __future__ import annotations

import csv
import io
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import duckdb
import pytest
from tests.data.table.conftest import CSV, Clinic, task_of

from krisis.data.table.cases import TaskTable
from krisis.data.table.databases import interruptible, load_database, new_connection
from krisis.errors import UserError

ATTACKS = [
    "(select count(*) from read_csv('secret.csv')) = 1",
    "exists (select * from 'secret.csv')",
    "age in (select a from read_csv_auto('secret.csv'))",
    "read_text('secret.csv') is null",
    "(select count(*) from glob('/*')) > 0",
    "getenv('HOME') = ''",
    "age = 1); copy records to 'out.csv'; select (1",
    "age = 1; attach 'z.duckdb'",
    "age = 1) from records; install httpfs; --",
    "age = 1; load httpfs",
    "age = 1; export database 'out'",
    "age = 1; set enable_external_access = true",
    "(select count(*) from information_schema.tables) > 0",
    "(select count(*) from duckdb_settings()) > 0",
    "current_setting('threads') = 1",
    "getvariable('x') = 1",
    "query('select 1') = 1",
    "random() > 0.5",
    "now() is null",
    "current_date > date '2020-01-01'",
    "current_user = 'x'",
    "pg_sleep(1) is null",
    "max(age) = 1",
    "row_number() over () = 1",
    "columns('age') = 1",
    "*",
    "$1",
    "krisis_row = 1",
    "rowid = 1",
    "age in (select age from krisis_loaded)",
    "list_transform([age], x -> x)[1] = 1",
    "age = 1 limit 1",
    "write_log('x') is null",
]
QUERIES = [
    "select * from read_csv('secret.csv')",
    "select * from 'secret.csv'",
    "select *, (select count(*) from glob('/*')) as g from v",
    "copy v to 'out.csv'",
    "attach 'z.db'; select * from v",
    "select * from v; drop table v",
    "insert into v select * from v",
    "create table z as select * from v",
    "update v set dm = 1",
    "delete from v",
    "install httpfs",
    "load httpfs",
    "export database 'out'",
    "set enable_external_access = true",
    "pragma database_list",
    "select * from information_schema.tables",
    "select * from duckdb_tables()",
    "select * from sqlite_master",
    "select *, getenv('HOME') as h from v",
    "select *, load_extension('x') as h from v",
    "select *, random() as h from v",
    "vacuum into 'out.db'",
    "with x as (delete from v returning *) select * from x",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the clinic as CSV, as a database of DuckDB and as one of SQLite."""
    folder = tmp_path_factory.mktemp("clinic")
    (folder / "v.csv").write_text(CSV)
    (folder / "secret.csv").write_text("a\n1\n")
    with duckdb.connect(str(folder / "c.duckdb")) as connection:
        types = "types = {'patient': 'VARCHAR'}"
        connection.execute(
            f"create table v as select * from read_csv('{folder / 'v.csv'}', {types})"
        )
    rows = list(csv.reader(io.StringIO(CSV)))
    lite = sqlite3.connect(folder / "c.sqlite")
    kinds = {"age": "int", "glucose": "int", "hba1c": "real", "dm": "int"}
    columns = ", ".join(f"{name} {kinds.get(name, 'text')}" for name in rows[0])
    lite.execute(f"create table v ({columns})")
    lite.executemany(f"insert into v values ({', '.join('?' * 10)})", rows[1:])
    lite.commit()
    lite.close()
    return folder


@pytest.fixture(scope="module")
def table(folder: Path) -> TaskTable:
    """Return the cases of the clinic, to which expressions are put."""
    return Clinic(folder).suite(None, CSV).table


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_expression_that_does_more_than_compute_is_refused(
    table: TaskTable, folder: Path, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    files = sorted(folder.iterdir())
    place = "tasks.screening.deferral.when.x"
    with pytest.raises(UserError, match=f"^{place}: ") as error:
        table.condition(attack, place)
    assert "\n" not in str(error.value)
    assert sorted(folder.iterdir()) == files


@pytest.mark.parametrize("database", ["c.duckdb", "c.sqlite"])
@pytest.mark.parametrize("attack", QUERIES)
def test_a_query_that_does_more_than_read_its_database_is_refused(
    folder: Path, database: str, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    files = sorted(folder.iterdir())
    before = (folder / database).read_bytes()
    with pytest.raises(UserError, match=r"source\.query") as error:
        load_database(new_connection(), folder / database, attack)
    assert "\n" not in str(error.value)
    assert (folder / database).read_bytes() == before
    assert sorted(folder.iterdir()) == files


def test_the_suite_refuses_what_the_guard_refuses(clinic: Clinic) -> None:
    attack = "(select count(*) from read_csv('p.csv')) > 0"
    for change in (
        lambda content: task_of(content).update(label=attack),
        lambda content: task_of(content)["deferral"].update(when={"x": attack}),
        lambda content: task_of(content)["uncertainty"].update(value=attack),
        lambda content: content["baselines"].update(rule={1: attack}),
    ):
        with pytest.raises(UserError, match="is refused: it holds a subquery"):
            clinic.suite(change).records()


def test_both_databases_give_the_records_of_the_file(folder: Path) -> None:
    clinic = Clinic(folder)
    expected = clinic.suite().records().content_hash
    for database, query in {
        "c.duckdb": "select * from v",
        "c.sqlite": "with w as (select * from v) select * from w;",
    }.items():
        source = {"database": database, "query": query}
        suite = clinic.suite(lambda content, s=source: content.update(source=s), None)
        assert suite.records().content_hash == expected
    source = {"database": "c.sqlite", "query": "select * from v where 1 = 0"}
    with pytest.raises(UserError, match="holds no rows"):
        clinic.suite(lambda content: content.update(source=source), None).records()
    source = {"database": "v.csv", "query": "select 1"}
    with pytest.raises(UserError, match="no database of DuckDB or SQLite"):
        clinic.suite(lambda content: content.update(source=source), None).records()


def test_the_connection_stays_locked_after_loading(clinic: Clinic) -> None:
    connection = clinic.suite().source.connection
    for statement in (
        f"select * from '{clinic.folder / 'p.csv'}'",
        "copy records to 'out.csv'",
        "attach 'z.duckdb'",
        "set lock_configuration = false",
        "set enable_external_access = true",
        "load httpfs",
        "install httpfs",
        "select * from glob('*')",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(statement)
    assert not (clinic.folder / "out.csv").exists()


class _Endless:
    """A connection whose query ends when nobody waits for it any more, if at all."""

    def __init__(self) -> None:
        self.is_over, self.was_told = Event(), False

    def execute(self, sql: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        self.is_over.wait(60)

    def interrupt(self) -> None:
        self.was_told = True


@pytest.fixture
def _ctrl_c_is_heard() -> Iterator[None]:
    """Undo what a shell does to the programs it starts in the background: they ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c_is_heard")
def test_ctrl_c_ends_an_expression_that_never_ends() -> None:
    """DuckDB is told; where it does not listen, nobody waits for it."""
    endless: Any = _Endless()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interruptible(endless, "select 1")
    assert endless.was_told
    assert time.monotonic() - start < 30
    endless.is_over.set()
