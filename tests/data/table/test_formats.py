"""Numbers, dates, codes and encodings of hospitals are read as the file states them."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from krisis.data.table.suite import TableSuite
from krisis.errors import InvalidFile
from krisis.verbs.info.data_command import app
from krisis.yaml_values import yaml_text

LABELS = "01100101"


def suite_of(
    folder: Path, values: list[str], *, feature: dict | None = None, source: dict | None = None
) -> TableSuite:
    """Return a suite over a column x and a label, separated by semicolons."""
    encoding = (source or {}).get("encoding", "utf-8")
    rows = [f"{value};{label}" for value, label in zip(values, LABELS, strict=True)]
    (folder / "t.csv").write_bytes("\n".join(["x;y", *rows]).encode(encoding))
    return written(folder, {"files": "t.csv", **(source or {})}, feature)


def written(folder: Path, source: dict, feature: dict | None) -> TableSuite:
    content = {
        "suite": "table",
        "name": "formats",
        "source": source,
        "tasks": {
            "main": {
                "question": "Is it?",
                "label": {"column": "y"},
                "answers": {0: "no", 1: "yes"},
                "features": ["x"],
            }
        },
        "features": {"x": feature or {}},
    }
    (folder / "t.yaml").write_text(yaml_text(content), encoding="utf-8")
    return TableSuite(folder / "t.yaml")


def shown(suite: TableSuite) -> list[object]:
    return [r.features["x"] for r in sorted(suite.records(), key=lambda r: r.metadata["row"])]


@pytest.mark.parametrize(
    ("values", "source", "feature", "expected"),
    [
        (["1,5", "2"], {"decimal": ","}, {}, [1.5, 2.0]),
        (["1.234,5", "1.234"], {"decimal": ",", "thousands": "."}, {}, [1234.5, 1234.0]),
        (["1,234", "12"], {"thousands": ","}, {}, [1234, 12]),
        (["1 234,5", "1\u00a0234"], {"decimal": ",", "thousands": " "}, {}, [1234.5, 1234.0]),
        (["<0.5", "3"], {}, {"below_detection": "half"}, [0.25, 3.0]),
        (["<0.5", "3"], {}, {"below_detection": "bound"}, [0.5, 3.0]),
        (["< 0.5", "3"], {}, {"below_detection": "missing"}, [None, 3]),
        (["<0,5", "3,1"], {"decimal": ","}, {"below_detection": "half"}, [0.25, 3.1]),
        ([">90", "60"], {}, {"above_detection": "bound"}, [90, 60]),
        ([">=90", "60"], {}, {"above_detection": "missing"}, [None, 60]),
        (["120 mmHg", "90"], {}, {"unit": "mmHg"}, [120, 90]),
        (["120 mmHg", "90 mmhg"], {}, {"unit": "mm[Hg]"}, [120, 90]),
        (["NA", "4"], {"missing": ["NA"]}, {}, [None, 4]),
        (["1,5", "2"], {}, {"decimal": ","}, [1.5, 2.0]),
        (["31.12.2023", "01.02.2023"], {}, {}, ["2023-12-31", "2023-02-01"]),
        (["31/12/2023", "01/02/2023"], {}, {}, ["2023-12-31", "2023-02-01"]),
        (["12/31/2023", "01/02/2023"], {}, {}, ["2023-12-31", "2023-01-02"]),
        (["03/04/23", "01/02/23"], {"dates": "day first"}, {}, ["2023-04-03", "2023-02-01"]),
        (["03/04/2023", "01/02/2023"], {"dates": "month first"}, {}, ["2023-03-04", "2023-01-02"]),
        (["31.12.2023 14:30", "01.02.2023 08:00"], {}, {}, ["2023-12-31T14:30:00", None]),
        (["07", "1"], {}, {}, ["07", "1"]),
        (["Übel", "gut"], {"encoding": "cp1252"}, {}, ["Übel", "gut"]),
        (["Übel", "gut"], {"encoding": "utf-16"}, {}, ["Übel", "gut"]),
    ],
)
def test_values_are_read_as_the_file_states(tmp_path, values, source, feature, expected):
    found = shown(suite_of(tmp_path, values * 4, source=source, feature=feature))
    assert found[0] == expected[0]
    if expected[1] is not None:
        assert found[1] == expected[1]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["1,5", "2,5"], 'decimal: ","; write that under source or features.x'),
        (["<0.5", *"2345678"], "below_detection: half .or bound, or missing. under features.x"),
        (["03/04/2023", "01/02/2023"], "write dates: day first, or dates: month first"),
    ],
)
def test_what_is_not_stated_is_refused_with_the_line_to_write(tmp_path, values, sentence):
    # Seven numbers in eight are fewer than nine in ten: the unit promises numbers.
    feature = {"unit": "mg/L"} if len(values) == 8 else {}
    suite = suite_of(tmp_path, (values * 4)[:8], feature=feature)
    with pytest.raises(InvalidFile, match=sentence):
        suite.records()


def test_spellings_that_differ_by_case_are_one_value_with_a_note(tmp_path):
    suite = suite_of(tmp_path, ["M", "M", "m", "F", "F", "f ", "M", "F"])
    assert shown(suite) == ["M", "M", "M", "F", "F", "F", "M", "F"]
    done = CliRunner().invoke(app, ["check", str(suite.path)])
    assert "NOTE     x: 'm' (1 rows) is read as 'M'" in done.output
    assert suite.describe()["merged"] == suite.source.merged


@pytest.mark.parametrize("of", ["source", "feature"])
@pytest.mark.parametrize(
    "kind", ["csv", "json", "jsonl", "parquet", "icu.sqlite", "icu.duckdb", "any.sqlite"]
)
def test_missing_codes_are_taken_out_of_every_source(tmp_path, kind, of):
    values = ["1.5", "NA", "2.5", "-9", "3.5", "n.b.", "4.5", "5.5"]
    file = tmp_path / (kind if "." in kind else f"t.{kind}")
    rows = [{"x": x, "y": int(y)} for x, y in zip(values, LABELS, strict=True)]
    if kind == "csv":
        file.write_text("\n".join(["x,y", *(f"{r['x']},{r['y']}" for r in rows)]))
    elif kind.startswith("json"):
        lines = [json.dumps(row) for row in rows]
        file.write_text(f"[{', '.join(lines)}]" if kind == "json" else "\n".join(lines))
    elif kind.endswith("sqlite"):
        with closing(sqlite3.connect(file)) as database:
            # In a column without a type SQLite keeps numbers and words as they come.
            database.execute(f"create table t (x {'' if kind == 'any.sqlite' else 'text'}, y)")
            for row in rows:
                is_bare = kind == "any.sqlite" and row["x"] not in ("NA", "n.b.")
                x = float(row["x"]) if is_bare else row["x"]
                database.execute("insert into t values (?, ?)", (x, row["y"]))
            database.commit()
    else:
        with duckdb.connect(file if kind == "icu.duckdb" else ":memory:") as database:
            database.execute("create table t (x varchar, y integer)")
            database.executemany("insert into t values (?, ?)", [list(r.values()) for r in rows])
            if kind == "parquet":
                database.execute(f"copy t to '{file}' (format parquet)")
    source = {"files": file.name}
    if "." in kind:
        source = {"database": file.name, "query": "select * from t"}
    missing = {"missing": ["NA", -9, "n.b."]}
    stated = {"source": source | missing, "feature": {}}
    if of == "feature":
        stated = {"source": source, "feature": missing}
    suite = written(tmp_path, stated["source"], stated["feature"])
    assert shown(suite) == [1.5, None, 2.5, None, 3.5, None, 4.5, 5.5]


@pytest.mark.parametrize(
    ("source", "values", "sign"),
    [({"decimal": ","}, ["250.000", "1.200"], "."), ({}, ["250,000", "1,200"], ",")],
)
def test_groups_of_three_digits_are_no_decimals(tmp_path, source, values, sign):
    with pytest.raises(InvalidFile, match=f'is a number with thousands: "{re.escape(sign)}"'):
        shown(suite_of(tmp_path, values * 4, source=source))
    suite = suite_of(tmp_path, values * 4, source=source, feature={"thousands": sign})
    assert shown(suite) == [250_000, 1_200] * 4


@pytest.mark.parametrize(
    ("name", "first", "synthetic", "is_named"),
    [
        ("MRN", 1, False, True),
        ("Patientennummer", 1, False, True),
        ("patient_id", 1, False, False),
        ("patient_id", "0000017", False, True),
        ("MRN", 1, True, False),
    ],
)
def test_ids_that_look_like_medical_record_numbers_are_named(
    tmp_path, name, first, synthetic, is_named
):
    ids = [str(first), *(str(i + 1).zfill(len(str(first))) for i in range(1, 8))]
    rows = [f"{ids[i]},{i},{LABELS[i]}" for i in range(8)]
    (tmp_path / "t.csv").write_text("\n".join([f"{name},x,y", *rows]))
    written(tmp_path, {"files": "t.csv"}, {})
    file = tmp_path / "t.yaml"
    more = f"cluster: {name}\nprovenance: {{synthetic: {str(synthetic).lower()}}}\n"
    file.write_text(file.read_text() + more)
    said = CliRunner().invoke(app, ["check", str(file)]).output
    line = file.read_text().splitlines().index(f"cluster: {name}") + 1
    assert (f"WARNING  t.yaml line {line}: cluster: the column '{name}' looks like" in said) is (
        is_named
    )


def test_the_check_lists_everything_at_once_with_lines_and_passes_over_unused_columns(tmp_path):
    lines = ["a;b;unused;y"] + [f"{i};{i},5;{i},5;{int(i > 3)}" for i in range(8)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    file = tmp_path / "t.yaml"
    file.write_text(
        "suite: table\nname: t\nsource: t.csv\ntasks:\n  main:\n    question: TODO later\n"
        "    label: {column: y}\n    answers: {0: 'no', 1: 'yes'}\n    features:\n      - a\n"
        "      - b\n      - nope\n    deferral: {when: {low: 'zzz < 1'}}\n"
    )
    done = CliRunner().invoke(app, ["check", str(file)])
    listed = [line.strip() for line in done.output.splitlines() if "t.yaml line" in line]
    assert [line.split(":")[0] for line in listed] == [
        "ERROR    t.yaml line 11",
        "ERROR    t.yaml line 12",
        "ERROR    t.yaml line 13",
        "TO DO    t.yaml line 6",
    ]
    assert "unused" not in done.output.replace("Known: a, b, unused, y", "")
    assert isinstance(done.exception, InvalidFile)
    assert "(and 2 more above)" in str(done.exception)


def test_wrong_keys_are_listed_together(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text(
        "suite: table\nname: 5\nsource: t.csv\ntasks:\n  main: {question: a, lable: 1}\n"
        "features:\n  x: {plausible: [5, 1]}\n"
    )
    done = CliRunner().invoke(app, ["check", str(file)])
    assert "line 2: " in done.output
    assert "t.yaml line 5: " in done.output
    assert "unknown key 'lable'" in done.output
    assert "t.yaml line 7: " in done.output
