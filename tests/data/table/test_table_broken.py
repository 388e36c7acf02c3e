"""A broken table or YAML file is one sentence with file, row and column, and nothing is run."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from tests.data.table.conftest import CSV, Change, Clinic, task_of

from krisis.data.table.suite import TableSuite
from krisis.errors import UserError


def put(**entries: Any) -> Change:
    return lambda content: content.update(entries)


def put_task(**entries: Any) -> Change:
    return lambda content: task_of(content).update(entries)


def put_feature(name: str, **entries: Any) -> Change:
    return lambda content: content["features"].setdefault(name, {}).update(entries)


FILES: dict[str, tuple[str | bytes, str]] = {
    "latin-1": (
        CSV.replace("Tired", "Müde").encode("latin-1"),
        "p.csv line 3 is not text in UTF-8",
    ),
    "utf-16": (CSV.encode("utf-16"), "p.csv line 1 is not text in UTF-8"),
    "open quote": (CSV.replace("Check", '"Check'), "p.csv line 4: a quote is not closed"),
    "surplus field": (
        CSV.replace("up,B", "up,B,x"),
        "line 4 has 11 fields where the header has 10",
    ),
    "missing field": (CSV.replace("Check-up,B", "Check-up"), "line 4 has 9 fields where"),
    "word among numbers": (
        CSV.replace(",130,", ",high,"),
        r"p.csv row 5 \(line 6\), column glucose: 'high' is not a number",
    ),
    "missing column": (CSV.replace("hba1c", "a1c"), "unknown column 'hba1c'; did you mean 'a1c'"),
    "column twice": (CSV.replace("site\n", "Sex\n"), "line 1: the column 'Sex' appears twice"),
    "id twice": (CSV.replace("v05", "v02"), r"row 5 \(line 6\), column visit: 'v02' is already in"),
    "no id": (CSV.replace("v05", ""), r"row 5 \(line 6\), column visit: the record_id is missing"),
    "no cluster": (CSV.replace("011", ""), "row 5 .*column patient: the cluster is missing"),
    "empty": ("", "p.csv is empty"),
    "blank": ("\n \n", "p.csv is empty"),
    "header only": (CSV.splitlines()[0], "p.csv holds no rows"),
    "label outside": (
        CSV.replace("8.1,1", "8.1,2"),
        r"row 4 \(line 5\), column dm: the label 2 is",
    ),
    "no label": (CSV.replace("8.1,1", "8.1,"), r"row 4 .*column dm: the label is missing"),
    "infinity": (CSV.replace("8.1", "inf"), r"row 4 .*column hba1c: the value is infinite"),
    "line unknown": (
        CSV.replace("Check-up", '"Check\nup"').replace("8.1,1", "8.1,7"),
        r"p.csv row 4, column dm: the label 7",
    ),
    "own name": (CSV.replace("site\n", "krisis_row\n"), "'krisis_row', a name of krisis"),
    "name of DuckDB": (CSV.replace("site\n", "rowid\n"), "'rowid', a name of krisis"),
    "utf-16 without a mark": (CSV.encode("utf-16-le"), "p.csv line 1 is not text in UTF-8"),
    "decimal comma": (
        CSV.replace(",", ";").replace(".", ","),
        r"row 1 \(line 2\), column hba1c: '5,2' is a number with decimal: .,.; write that",
    ),
}
YAMLS: dict[str, tuple[Change, str]] = {
    "unknown key": (put(taks={}), "unknown key 'taks'; did you mean 'tasks'"),
    "unknown task key": (put_task(lable="x"), "tasks.screening: unknown key 'lable'"),
    "unknown feature key": (
        put_feature("glucose", unti="g"),
        "features.glucose: unknown key 'unti'",
    ),
    "features as text": (put_task(features="age"), "tasks.screening.features: .*list.*'age'"),
    "tasks as list": (put(tasks=[1]), "tasks: .*dictionary"),
    "number for a name": (put(name=5), "name: .*string, received 5"),
    "one answer": (put_task(answers={0: "no"}), "answers: needs at least two answers"),
    "text for a number": (
        put_task(uncertainty={"value": "hba1c", "cv": "x", "limits": [6.5]}),
        "uncertainty.0.cv: .*number, received 'x'",
    ),
    "no tasks": (lambda content: content.pop("tasks"), "tasks is missing"),
    "no source": (lambda content: content.pop("source"), "source is missing"),
    "no suite": (lambda content: content.pop("suite"), "begin the file of a table suite with"),
    "a run": (
        lambda content: content.update(model="x") or content.pop("tasks"),
        "give it as --config",
    ),
    "no file": (put(source="no.csv"), "there is no file .*no.csv"),
    "a directory": (put(source="."), "is a directory"),
    "no match": (put(source="*.tsv"), r"no file matches .*\*.tsv"),
    "ending": (put(source="clinic.yaml"), "no known ending"),
    "split value": (
        put(split={"column": "part", "use": "tset"}),
        "holds 'test' 5 times, 'train' 3 times, and 'tset' is to be evaluated",
    ),
    "half a split": (put(split={"use": "test"}), "split: give {column, use, train} or"),
    "a word with a unit": (
        put_feature("sex", unit="kg"),
        "row 1 .*column sex: 'F' is not a number",
    ),
    "turned range": (put_feature("glucose", plausible=[5, 1]), "plausible must be .low, high."),
    "unknown feature": (put_task(features=["agee"]), "unknown column 'agee'; did you mean 'age'"),
    "unknown group": (put(groups=["ward"]), "groups: unknown column 'ward'"),
    "rule without task": (
        put(baselines={"rule": {7: "age > 1"}}),
        "baselines.rule: 7 is no answer of the task",
    ),
    "no question": (put_task(question=""), "question is empty"),
    "an empty expression": (put_task(label=" "), "tasks.screening.label: the expression is empty"),
    "two expressions": (put_task(label="dm) union select (1"), "is not one expression"),
    "limit without error": (
        put_task(uncertainty={"value": "hba1c", "cv": 0.1, "limits": [0]}),
        "uncertainty.0.limits.0: .*greater than 0",
    ),
    "group of krisis": (put(groups=["row"]), "groups: 'row' is a name of krisis"),
    "positive": (put_task(positive=3), "tasks.screening.positive: 3 is none of the answers"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_broken_file_is_one_sentence(clinic: Clinic, kind: str) -> None:
    data, sentence = FILES[kind]
    refused(clinic, None, data, sentence)


@pytest.mark.parametrize("kind", YAMLS)
def test_a_broken_yaml_file_is_one_sentence(clinic: Clinic, kind: str) -> None:
    change, sentence = YAMLS[kind]
    refused(clinic, change, CSV, sentence)


def refused(clinic: Clinic, change: Change | None, data: str | bytes, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as error:
        clinic.suite(change, data).records()
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("suite: table\nname: [x", r"is not YAML: line 2"),
        ("suite: table\nname: x\nname: y", r"line 3: the key 'name' is written twice"),
        ("suite: table\n? [a]\n: 1", r"line 2: a key must be a word"),
        ("suite: table\nprovenance: &x\n  a: *x", "an anchor inside itself"),
        ("- suite", "must hold a mapping"),
        ("suite: ckd", "has suite: 'ckd'; begin the file"),
    ],
)
def test_a_file_that_is_no_suite_says_so(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        TableSuite(path)


def test_cut_and_foreign_files_are_named(tmp_path: Path, clinic: Clinic) -> None:
    whole = tmp_path / "whole.parquet"
    duckdb.execute(f"copy (select 1 as visit) to '{whole}'")
    rows = json.dumps([{"visit": "v1", "dm": 1}])
    for name, data in {
        "p.parquet": whole.read_bytes()[:-20],
        "p.json": rows[:-5],
        "p.jsonl": '{"visit": "v1"}\n{"visit"',
    }.items():
        with pytest.raises(UserError, match=f"{name}.* cannot be read as") as error:
            clinic.suite(put(source=name), data, name).records()
        assert "\n" not in str(error.value)
    rows = list(csv.DictReader(CSV.splitlines()))
    ages: list[object] = [45, "old", 38, *range(5)]
    mixed = "\n".join(json.dumps({**row, "age": age}) for row, age in zip(rows, ages, strict=True))
    with pytest.raises(UserError, match=r"p.jsonl row 2 \(line 2\), column age: 'old' is not a"):
        clinic.suite(put(source="p.jsonl"), mixed, "p.jsonl").records()


def test_files_of_a_list_must_have_the_same_columns(tmp_path: Path, clinic: Clinic) -> None:
    (tmp_path / "q.csv").write_text("visit\nv99\n")
    with pytest.raises(UserError, match=r"q.csv lacks the column 'age', which .*p.csv has"):
        clinic.suite(put(source=["p.csv", "q.csv"])).records()


def test_a_mixed_column_without_description_is_refused(clinic: Clinic) -> None:
    more = "".join(f"w{i},{i},train,{i},F,{i},5.{i},0,n{i},A\n" for i in range(20, 50))
    data = CSV.replace(",38,", ",thirty,") + more
    with pytest.raises(UserError, match=r"row 3 .*column age: 'thirty' .* 37 of 38 values are"):
        clinic.suite(None, data).records()
    suite = clinic.suite(put_feature("age", missing=["thirty"]), data)
    assert suite.source.columns["age"] == "BIGINT"
    assert yaml.safe_load(suite.path.read_text())["features"]["age"] == {"missing": ["thirty"]}


def test_files_that_break_while_they_are_read_are_one_sentence(clinic: Clinic) -> None:
    whole = gzip.compress(CSV.encode())
    with pytest.raises(UserError, match=r"p.csv.gz cannot be unpacked after line \d"):
        clinic.suite(put(source="p.csv.gz"), whole[:-30], "p.csv.gz").records()
    lines = '{"dm": 0}\n{"dm": 1\n'
    with pytest.raises(UserError, match="line 2 cannot be read as JSON: Expecting"):
        clinic.suite(put(source="p.jsonl"), lines, "p.jsonl").records()
    parquet = clinic.folder / "p.parquet"
    clinic.write()
    duckdb.sql(f"copy (from '{clinic.folder / 'p.csv'}') to '{parquet}'")
    data = parquet.read_bytes()
    with pytest.raises(UserError, match="rows cannot be read") as error:
        clinic.suite(put(source="p.parquet"), data[:4] + data[100:], "p.parquet").records()
    assert "\n" not in str(error.value)


def test_two_columns_of_one_name_in_sqlite_are_refused(clinic: Clinic) -> None:
    with closing(sqlite3.connect(clinic.folder / "c.sqlite")) as database:
        database.execute("create table t as select 1 as dm, 2 as age")
        database.commit()
    query = "select a.dm, a.age, b.age from t a, t b"
    with pytest.raises(UserError, match="two columns are called 'age'"):
        clinic.suite(put(source={"database": "c.sqlite", "query": query})).records()


@pytest.mark.parametrize(
    ("query", "change", "sentence"),
    [
        ("from t", put_task(question={"column": "gap"}), "row 2, column gap: the question is miss"),
        ("from t", put_task(features=["age", "raw"]), "column raw: it holds bytes"),
        ("from t using sample 3", put(), "source.query draws a sample"),
    ],
)
def test_rows_of_a_database_that_cannot_be_asked_are_refused(
    clinic: Clinic, query: str, change: Change, sentence: str
) -> None:
    clinic.write()
    with duckdb.connect(clinic.folder / "c.duckdb") as database:
        database.execute(
            "create table t as select *, nullif(note, 'Tired and thirsty') as gap, "
            f"'x'::blob as raw from '{clinic.folder / 'p.csv'}'"
        )
    source = put(source={"database": "c.duckdb", "query": query})
    refused(clinic, lambda content: (source(content), change(content)), CSV, sentence)
