"""`krisis init` guesses what can be guessed, marks the rest, and shows no patient."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
import yaml
from tests.data.table.draft_scores import DraftScores, drafted
from tests.data.table.invented_tables import (
    HEADERS,
    MORE_HEADERS,
    expected_labels,
    headers,
    write_messy_export,
)
from typer.testing import CliRunner

from krisis.cli.app import app as krisis_app
from krisis.data.table.draft import draft
from krisis.data.table.init_command import app
from krisis.data.table.suite import TableSuite
from krisis.data.table.vocabulary import measure_name
from krisis.errors import InvalidFile, UserError
from krisis.verbs.info.data_command import app as data_app

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
    assert features["age_years"] == {"label": "Age", "unit": "years"}
    assert task["answers"].keys() == {0, 1}
    assert task["positive"] == 1
    assert task["price"] == 0.2
    text = (tmp_path / "patients.yaml").read_text(encoding="utf-8")
    assert "0.2 is assumed until you change it" in text


def test_no_value_of_a_patient_is_written(tmp_path):
    text = draft(patients(tmp_path), tmp_path / "p.yaml").text
    for secret in ("Secret", "v0001", "tiny hamlet", "2024-01", "tiredness"):
        assert secret not in text
    assert "values: F, M" in text
    assert "1 rare values not named" in text


def test_without_an_outcome_the_question_stays_open_and_nothing_runs(tmp_path):
    file = tmp_path / "odd.csv"
    rows = "".join(f"{i},{20 + i % 50},{'FM'[i % 3 == 0]},{1.5 * i % 7}\n" for i in range(40))
    file.write_text(f"patient_id,age,sex,kalium\n{rows}", encoding="utf-8")
    done = init(file)
    assert "no column is called like an outcome" in done.output
    path = tmp_path / "odd.yaml"
    checked = CliRunner().invoke(data_app, ["check", str(path)], catch_exceptions=False)
    assert checked.exit_code == 0
    line = next(
        i for i, t in enumerate(path.read_text().splitlines(), 1) if t.startswith("    question")
    )
    assert f"TO DO    odd.yaml line {line}: tasks.main.question is still" in checked.output
    with pytest.raises(InvalidFile, match=r"tasks\.main\.question is still to be written"):
        TableSuite(path)


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
    first = yaml.safe_load(draft(table, tmp_path / "a.yaml").text)
    second = yaml.safe_load(draft(other, tmp_path / "a.yaml").text)
    assert first["features"].keys() == second["features"].keys()
    assert first["tasks"]["main"]["features"] == second["tasks"]["main"]["features"]


def test_strange_names_of_columns_are_still_yaml(tmp_path):
    file = tmp_path / "odd.csv"
    names = ["yes", "a: b", "# c", "{d}", "é\\f", "123", "null"]
    rng = random.Random(1)
    rows = [",".join(str(rng.randint(0, 2)) for _ in names) for _ in range(60)]
    file.write_text(",".join(names) + "\n" + "\n".join(rows) + "\n", encoding="utf-8")
    found = yaml.safe_load(draft(file, tmp_path / "odd.yaml").text)
    assert {*found["features"], found["tasks"]["main"]["label"]["column"]} == {*names}


@pytest.mark.parametrize("column", ["systolic_mmhg", "a, b", "c] d", "{e}_mm_hg"])
def test_units_and_names_with_brackets_or_commas_are_still_yaml(tmp_path, column):
    file = tmp_path / "pressure.csv"
    rows = [f"{100 + i},{i % 3},{i * i % 5 % 2}" for i in range(30)]
    file.write_text(f'"{column}","x, [site]",outcome\n' + "\n".join(rows) + "\n", encoding="utf-8")
    found = yaml.safe_load(draft(file, tmp_path / "pressure.yaml").text)
    assert list(found["features"]) == [column, "x, [site]"]
    unit = "mmHg" if column.endswith("hg") else None
    assert found["features"][column].get("unit") == unit
    assert found["tasks"]["main"]["label"] == {"column": "outcome"}


@pytest.mark.parametrize(
    ("outcome", "values", "answers", "positive"),
    [
        ("hospital_expire_flag", "01", {0: "survived", 1: "died"}, 1),
        ("survived", "01", {0: "died", 1: "survived"}, 0),
        ("Sepsis", "NY", {"N": "no sepsis", "Y": "sepsis"}, "Y"),
        ("sepsis_24h", "NY", {"N": "no sepsis_24h", "Y": "sepsis_24h"}, "Y"),
        ("Delir", "JN", {"J": "delirium", "N": "no delirium"}, "J"),
        ("vital_status", ["Alive", "Expired"], {"Alive": "Alive", "Expired": "Expired"}, "Expired"),
    ],
)
def test_answers_come_from_the_values_and_the_event_is_positive(
    tmp_path, outcome, values, answers, positive
):
    rng = random.Random(3)
    rows = [f"{i},{rng.randint(20, 90)},{rng.choice(values)}" for i in range(40)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join([f"stay_id,age,{outcome}", *rows]), encoding="utf-8")
    task = yaml.safe_load(draft(file, tmp_path / "t.yaml").text)["tasks"]["main"]
    assert (task["answers"], task["positive"]) == (answers, positive)


def test_questions_with_options_are_recognised(tmp_path):
    rng = random.Random(3)
    lines = ["question,opa,opb,opc,opd,cop"]
    lines += [
        f"Which drug is number {i}?,a{i},b{i},c{i},d{i},{rng.randint(0, 3)}" for i in range(20)
    ]
    file = tmp_path / "exam.csv"
    file.write_text("\n".join(lines), encoding="utf-8")
    made = draft(file, tmp_path / "exam.yaml")
    task = yaml.safe_load(made.text)["tasks"]["main"]
    assert task["question"] == {"column": "question"}
    assert task["answers"] == {"columns": ["opa", "opb", "opc", "opd"]}
    assert task["label"]["column"] == "cop"
    assert not made.checked.fatal


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_table_of_a_database_is_drafted(tmp_path, kind):
    import sqlite3

    import duckdb

    file = tmp_path / "icu.db"
    connect = sqlite3.connect if kind == "sqlite" else duckdb.connect
    with contextlib.closing(connect(str(file))) as database:
        number = "" if kind == "sqlite" else "varchar"
        database.execute(
            f"create table stays (stay_id integer, age integer, lactate {number}, died integer)"
        )
        database.execute("create table other (x integer)")
        for i in range(60):
            lactate = "NA" if i % 7 == 0 else round(1 + i % 11 / 2, 1)
            row = (i, 20 + i % 60, lactate if kind == "sqlite" else str(lactate), i * i % 5 % 2)
            database.execute("insert into stays values (?, ?, ?, ?)", row)
        database.commit()
    with pytest.raises(InvalidFile, match="tables other, stays; name one: --table NAME"):
        draft(file, tmp_path / "icu.yaml")
    done = init(file, "--table", "stays")
    assert done.exit_code == 0, done.exception
    found = yaml.safe_load((tmp_path / "icu.yaml").read_text())
    assert found["source"] == {"database": "icu.db", "query": 'select * from "stays"'}
    assert found["features"]["lactate"]["missing"] == ["NA"]
    suite = TableSuite(tmp_path / "icu.yaml")
    assert suite.source.columns["lactate"] == "DOUBLE"


def _hold(scores: DraftScores) -> None:
    assert not scores.not_checked
    assert not scores.invented
    assert len(scores.missed) <= 0.1 * scores.n_with_outcome, scores.missed
    assert not scores.shown
    assert not scores.n_without_key


def test_drafts_of_hospital_headers_load_check_and_find_the_outcome(tmp_path):
    chosen = headers()[::60] + headers(MORE_HEADERS)[::60]
    _hold(drafted(chosen, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("file", [HEADERS, MORE_HEADERS], ids=["first", "second"])
def test_all_hospital_headers_load_and_check(tmp_path, file):
    chosen = headers(file)
    assert len(chosen) >= 200
    scores = drafted(chosen, tmp_path)
    _hold(scores)
    if file == MORE_HEADERS:
        assert not scores.wrong_positive


@pytest.mark.parametrize(
    ("outcome", "question"),
    [
        ("died", "Did this patient die?"),
        ("Sepsis", "Does this patient have sepsis?"),
        ("sepsis_24h", 'Is "sepsis_24h" true of this patient?'),
        ("mort30", 'Is "mort30" true of this patient?'),
        ("hospital_expire_flag", 'Is "hospital_expire_flag" true of this patient?'),
        ("aki_stage", 'What is "aki_stage" of this patient?'),
    ],
)
def test_a_question_says_no_more_than_the_name_of_the_outcome(tmp_path, outcome, question):
    n_values = 4 if outcome == "aki_stage" else 2
    rows = [f"{i},{20 + i % 61},{i * i % 7 % n_values}" for i in range(60)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join([f"stay_id,age,{outcome}", *rows]), encoding="utf-8")
    task = yaml.safe_load(draft(file, tmp_path / "t.yaml").text)["tasks"]["main"]
    assert task["question"] == question


def test_a_label_is_the_header_unless_an_entry_is_the_whole_of_it():
    for name, expected in expected_labels().items():
        label, _, unit = expected.partition(", ")
        if unit == "motor":
            label, unit = expected, ""
        found = measure_name(name)
        assert found.label == label, name
        known = [found.unit] if found.unit else [one["unit"] for one in found.units]
        assert not unit or unit in known, name


def test_dead_and_alive_are_an_outcome_under_any_name(tmp_path):
    lines = [
        "nr,alter,stand",
        *(f"{i},{30 + i % 41},{'tot' if i % 3 else 'lebt'}" for i in range(60)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    found = yaml.safe_load(draft(tmp_path / "t.csv", tmp_path / "t.yaml").text)["tasks"]["main"]
    assert found["label"] == {"column": "stand"}
    assert (found["answers"], found["positive"]) == ({"lebt": "lebt", "tot": "tot"}, "tot")


def test_whether_one_means_alive_or_dead_is_left_to_the_owner(tmp_path):
    lines = ["nr,age,vital_status", *(f"{i},{30 + i % 41},{i % 2}" for i in range(60))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    made = draft(tmp_path / "t.csv", tmp_path / "t.yaml")
    found = yaml.safe_load(made.text)["tasks"]["main"]
    assert found["label"] == {"column": "vital_status"}
    assert found["answers"] == {0: "TODO: what 0 means", 1: "TODO: what 1 means"}
    assert "positive" not in found
    assert "which is the event? Add a line, positive: 0 or the other" in made.text
    assert not made.checked.fatal


def test_numbers_in_groups_are_no_decimals(tmp_path):
    rows = [f"{i};{1 + i % 7},5;{90 + i}.{100 + i};{i % 2}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["id;crp;thrombozyten;died", *rows]))
    made = draft(tmp_path / "t.csv", tmp_path / "t.yaml")
    found = yaml.safe_load(made.text)
    assert found["source"] == {"files": "t.csv", "decimal": ","}
    assert found["features"]["thrombozyten"]["thousands"] == "."
    (tmp_path / "t.yaml").write_text(made.text)
    values = [r.features["thrombozyten"] for r in TableSuite(tmp_path / "t.yaml").records()]
    assert min(values) >= 90_000


def test_a_messy_export_becomes_a_report_in_four_commands_and_one_edit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_messy_export(tmp_path / "export.csv")
    krisis = CliRunner()
    first = krisis.invoke(krisis_app, ["init", "export.csv"], catch_exceptions=False)
    assert first.exit_code == 0
    assert "left out Entlassart: LEAK: it gives the label away" in first.output
    text = Path("export.yaml").read_text(encoding="utf-8")
    found = yaml.safe_load(text)
    assert found["source"] == {"files": "export.csv", "encoding": "cp1252", "decimal": ","}
    assert (found["record_id"], found["cluster"]) == ("Fallnr", "PatNr")
    assert found["tasks"]["main"]["label"] == {"column": "Sepsis_48h"}
    assert found["tasks"]["main"]["answers"] == {"J": "Sepsis_48h", "N": "no Sepsis_48h"}
    assert found["features"]["RR_sys"] == {"label": "Systolic blood pressure", "unit": "mmHg"}
    assert found["features"]["CRP"]["below_detection"] == "half"
    assert found["features"]["Arztbrief"]["text"] is True
    # Whoever shows the discharge code after all is told which line gives the outcome away.
    Path("leak.yaml").write_text(text.replace("      - Alter", "      - Alter\n      - Entlassart"))
    leak = krisis.invoke(krisis_app, ["data", "check", "leak.yaml"])
    lines = Path("leak.yaml").read_text().splitlines()
    assert f"LEAK     leak.yaml line {lines.index('      - Entlassart') + 1}: " in leak.output
    assert leak.exit_code != 0
    edited = text.replace("provenance: {source: export.csv}", "provenance: {source: invented}")
    Path("export.yaml").write_text(edited, encoding="utf-8")
    for line in (
        "data check export.yaml",
        "run export.yaml --model majority --output runs",
    ):
        done = krisis.invoke(krisis_app, line.split(), catch_exceptions=False)
        assert done.exit_code == 0, done.output
    assert "sent to" not in done.output
    (run,) = Path("runs").iterdir()
    done = krisis.invoke(krisis_app, ["report", str(run), "-o", "report.html"])
    assert done.exit_code == 0, done.output
    assert Path("report.html").stat().st_size > 10_000
