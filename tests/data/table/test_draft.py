"""`krisis init` guesses what can be guessed, marks the rest, and shows no patient."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from krisis.cli.data import app as data_app
from krisis.cli.init import app
from krisis.data.table.draft import _bounds, draft
from krisis.errors import InvalidFile, UserError

COLUMNS = (
    "visit_id,patient_id,full_name,age_years,sex,glucose_mg_dl,hba1c_pct,note,seen_on,site,part,"
    "outcome"
)


def patients(folder: Path, n_rows: int = 80) -> Path:
    rng = random.Random(1)
    lines = [COLUMNS]
    for i in range(n_rows):
        sick = rng.random() < 0.4
        glucose = "n/a" if rng.random() < 0.2 else round(rng.gauss(170 if sick else 95, 20), 1)
        hba1c = -9 if rng.random() < 0.1 else round(rng.gauss(7.4 if sick else 5.4, 0.5), 1)
        note = f"Seen by Dr Secret{i} for a referral because of tiredness and of thirst"
        site = "tiny hamlet" if i == 0 else rng.choice(["north", "south"])
        part = "test" if i // 2 % 3 == 0 else "train"
        lines.append(
            f"v{i:04},{i // 2:03},Name{i} Secret,{rng.randint(20, 89)},{rng.choice('FM')},"
            f"{glucose},{hba1c},{note},2024-01-0{1 + i % 9},{site},{part},{int(sick)}"
        )
    file = folder / "patients.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def init(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_columns_find_their_roles_units_ranges_and_codes(tmp_path):
    done = init(patients(tmp_path))
    assert done.exit_code == 0, done.exception
    assert "krisis data check" in done.output
    found = yaml.safe_load((tmp_path / "patients.yaml").read_text(encoding="utf-8"))
    assert found["source"] == "patients.csv"
    assert (found["record_id"], found["cluster"]) == ("visit_id", "patient_id")
    assert found["split"] == {"column": "part", "use": ["test"], "train": ["train"]}
    assert found["groups"] == ["sex", "site"]
    task = found["tasks"]["main"]
    assert task["label"] == {"column": "outcome"}
    assert task["features"] == ["age_years", "sex", "glucose_mg_dl", "hba1c_pct", "site"]
    features = found["features"]
    assert features["glucose_mg_dl"]["unit"] == "mg/dL"
    assert features["glucose_mg_dl"]["missing"] == ["n/a"]
    assert features["hba1c_pct"]["missing"] == [-9]
    low, high = features["hba1c_pct"]["plausible"]
    assert low >= 0
    assert high <= 20
    assert features["age_years"] == {"label": "Age", "unit": "years", "plausible": [20, 90]}


def test_no_value_of_a_patient_is_written(tmp_path):
    text = draft(patients(tmp_path), tmp_path / "p.yaml")
    for secret in ("Secret", "v0001", "tiny hamlet", "2024-01", "tiredness"):
        assert secret not in text
    assert "values: F, M" in text
    assert "1 rare values not named" in text


def test_every_todo_is_named_until_it_is_written(tmp_path):
    init(patients(tmp_path))
    file = tmp_path / "patients.yaml"
    for place in ("question", "answers.0", "answers.1", "provenance.source"):
        done = CliRunner().invoke(data_app, ["check", str(file)])
        assert isinstance(done.exception, InvalidFile)
        assert place in str(done.exception)
        assert "\n" not in str(done.exception)
        lines = file.read_text(encoding="utf-8").splitlines()
        line = next(i for i, text in enumerate(lines) if "TODO" in text and "#" not in text)
        lines[line] = lines[line].replace("TODO", "words")
        file.write_text("\n".join(lines), encoding="utf-8")
    done = CliRunner().invoke(data_app, ["check", str(file)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "glucose_mg_dl" in done.output


def test_an_existing_file_stays_and_another_name_can_be_given(tmp_path):
    table = patients(tmp_path)
    (tmp_path / "patients.yaml").write_text("mine")
    done = init(table)
    assert isinstance(done.exception, InvalidFile)
    assert "exists already" in str(done.exception)
    assert (tmp_path / "patients.yaml").read_text() == "mine"
    assert init(table, "-o", tmp_path / "sub" / "other.yaml").exit_code == 0
    found = yaml.safe_load((tmp_path / "sub" / "other.yaml").read_text())
    assert found["source"] == "../patients.csv"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.csv", None, "no file"),
        ("empty.csv", "", "empty"),
        ("head.csv", "a,b\n", "no rows"),
        ("table.xlsx", "a", "no known ending"),
        ("broken.json", '[{"a": 1}', "cannot be read"),
        (".", None, "is a folder"),
    ],
)
def test_what_is_no_table_is_told_in_one_sentence(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_text(content)
    done = init(tmp_path / name)
    assert isinstance(done.exception, UserError), done.exception
    assert said in str(done.exception)
    assert not list(tmp_path.glob("*.yaml"))


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_every_format_of_a_table_gives_the_same_columns(tmp_path, ending):
    import duckdb

    table = patients(tmp_path)
    other = tmp_path / f"other.{ending}"
    form = {"jsonl": "json", "json": "json, array true", "tsv": "csv, delim '\t'"}
    duckdb.sql(
        f"copy (select * from read_csv('{table}', types = {{'patient_id': 'VARCHAR'}})) "
        f"to '{other}' (format {form.get(ending, ending)})"
    )
    first = yaml.safe_load(draft(table, tmp_path / "a.yaml"))
    second = yaml.safe_load(draft(other, tmp_path / "a.yaml"))
    assert first["features"].keys() == second["features"].keys()
    assert first["tasks"]["main"]["features"] == second["tasks"]["main"]["features"]


def test_strange_names_of_columns_are_still_yaml(tmp_path):
    file = tmp_path / "odd.csv"
    names = ["yes", "a: b", "# c", "{d}", "é\\f", "123", "null"]
    rows = [",".join(str(i % 3) for _ in names) for i in range(30)]
    file.write_text(",".join(names) + "\n" + "\n".join(rows) + "\n", encoding="utf-8")
    found = yaml.safe_load(draft(file, tmp_path / "odd.yaml"))
    assert list(found["features"]) == names
    assert found["tasks"]["main"]["label"] == {"column": "TODO"}


@pytest.mark.parametrize("column", ["systolic_mmhg", "a, b", "c] d", "{e}_mm_hg"])
def test_units_and_names_with_brackets_or_commas_are_still_yaml(tmp_path, column):
    file = tmp_path / "pressure.csv"
    rows = [f"{100 + i},{i % 2},{i % 2}" for i in range(30)]
    file.write_text(f'"{column}","x, [site]",outcome\n' + "\n".join(rows) + "\n", encoding="utf-8")
    found = yaml.safe_load(draft(file, tmp_path / "pressure.yaml"))
    assert list(found["features"]) == [column, "x, [site]"]
    assert found["features"][column]["plausible"] == [100, 200]
    unit = "mm[Hg]" if column.endswith("hg") else None
    assert found["features"][column].get("unit") == unit
    assert found["tasks"]["main"]["label"] == {"column": "outcome"}


@pytest.mark.parametrize(
    ("labels", "answers"),
    [
        ("01", {0: "TODO: what 0 means, in words", 1: "TODO: what 1 means, in words"}),
        ("ab", "TODO: the values of label, each with its meaning"),
    ],
)
def test_labels_of_a_few_rows_are_named_only_as_codes(tmp_path, labels, answers):
    file = tmp_path / "few.csv"
    file.write_text("x,label\n" + "".join(f"{i},{labels[i % 2]}\n" for i in range(4)))
    found = yaml.safe_load(draft(file, tmp_path / "few.yaml"))
    assert found["tasks"]["main"]["answers"] == answers


@pytest.mark.parametrize(("low", "high"), [(3.9, 14.2), (0.002, 0.0031), (-7, 120), (5, 5), (0, 0)])
def test_a_range_holds_all_values(low, high):
    first, last = _bounds(low, high)
    assert first <= low <= high <= last
    assert first < last
