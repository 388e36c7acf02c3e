"""The verbs: on every kind of input, with the figures of the command line, errors in a sentence."""

from __future__ import annotations

import csv
import inspect
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.commands import krisis as command

import krisis
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.formats.base import ImportOptions
from krisis.formats.imported_run import read_file, write_run
from krisis.json_values import dumps

VERBS = [name for name in krisis.__all__ if inspect.isfunction(getattr(krisis, name))]
COLUMNS: dict[str, Any] = {
    "truth": "y",
    "prediction": "p",
    "confidence": "c",
    "abstained": "left",
    "patient": "who",
    "groups": ["sex"],
    "id": "case",
    "answers": [0, 1],
    "positive": 1,
}


def table(seed: int = 3, n: int = 240, error: float = 0.15) -> dict[str, list[Any]]:
    """Return predictions with a gap, two more confidences and two rows a patient."""
    draw = np.random.default_rng(seed)
    truth = np.random.default_rng(1).integers(0, 2, n)
    sure = np.round(draw.uniform(0.5, 1.0, n), 3)
    wrong = draw.random(n) < 2 * error * (1.5 - sure)
    return {
        "case": [f"case {number}" for number in range(n)],
        "who": [f"patient {number // 2}" for number in range(n)],
        "y": truth.tolist(),
        "p": np.where(wrong, 1 - truth, truth).tolist(),
        "c": [None if number == 7 else one for number, one in enumerate(sure.tolist())],
        "left": (draw.random(n) < 0.1).tolist(),
        "sex": ["f" if number % 4 < 2 else "m" for number in range(n)],
        "margin": np.round(sure * 3 - 1, 3).tolist(),
        "noise": np.round(draw.normal(0, 1, n), 3).tolist(),
    }


def written(path: Path, rows: Mapping[str, list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))
    return path


def frames() -> dict[str, Any]:
    pandas, polars, arrow = (pytest.importorskip(n) for n in ("pandas", "polars", "pyarrow"))
    rows = table()
    return {
        "pandas": pandas.DataFrame(rows),
        "polars": polars.DataFrame(rows),
        "arrow": arrow.table(rows),
        "dict": rows,
        "arrays": {name: np.array(cells, dtype=object) for name, cells in rows.items()},
    }


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The four kinds of input: a run, an imported CSV, a Parquet file, a result in memory."""
    pytest.importorskip("duckdb")
    folder = tmp_path_factory.mktemp("kinds")
    held: dict[str, Any] = {"memory": krisis.score(table(), **COLUMNS)}
    options = {**COLUMNS, "group": COLUMNS["groups"]}
    options.pop("groups")
    path = written(folder / "rows.csv", table())
    imported = write_run(read_file(path, "csv", ImportOptions(**options)), folder / "imported")
    held["imported CSV"] = imported.provenance.run_file
    export = ("export", held["imported CSV"], "--to", "parquet", "-o", "rows.parquet")
    command(*export, "--with-ids", cwd=folder)
    held["Parquet"] = folder / "rows.parquet"
    held["saved result"] = held["memory"].save(folder / "result.json")
    return held


KINDS = ("memory", "imported CSV", "Parquet", "saved result")


@pytest.mark.parametrize("kind", KINDS)
def test_every_verb_takes_every_kind_of_input(
    kind: str, kinds: dict[str, Any], tmp_path: Path
) -> None:
    run, other = kinds[kind], krisis.score(table(seed=4), **COLUMNS, model="other")
    assert krisis.score(run).attrition.n_answered > 200
    accuracy = krisis.score(run, metrics=["accuracy"]).metric_scores["accuracy"].value
    assert krisis.compare(run, other, metrics=["accuracy"]).pairs[0].deltas["accuracy"].right > 0
    found = krisis.selective(run, confidence="signals.margin", resamples=100)
    assert 0 < found.figures()["signals.margin"]["aurc"] < 0.3
    assert krisis.certify(run, risk=0.3, confidence="signals.margin").threshold is not None
    assert krisis.decide(run, curve=True).curves
    assert krisis.audit(run, by=["sex"]).groups.n_rows == 240
    size = krisis.plan("estimate", half_width=0.05, pilots=run, simulations=20).n_patients
    assert size > 50
    assert krisis.check(run, require=[f"accuracy >= {accuracy - 0.01}"]).passed
    page = krisis.report(run, tmp_path / "page.html").path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    forest = krisis.figure(
        [run, other], tmp_path / "curves.svg", kind="forest", metrics=["accuracy"]
    )
    assert forest.svg.startswith("<svg")
    assert (tmp_path / "curves.svg").exists()


def test_every_kind_of_table_gives_the_figures_of_an_import(
    kinds: dict[str, Any], tmp_path: Path
) -> None:
    path = written(tmp_path / "rows.csv", table())
    wanted = dumps(krisis.load(kinds["imported CSV"]).scores_frame().to_dict("list"))
    for name, frame in {**frames(), "file": path, "text": str(path)}.items():
        found = krisis.score(frame, **COLUMNS)
        assert dumps(found.scores_frame().to_dict("list")) == wanted, name
        assert found.provenance.imported is not None
        assert found.provenance.imported.format == ("csv" if name in ("file", "text") else "frame")


def test_the_command_line_prints_what_the_verb_returns(
    kinds: dict[str, Any], tmp_path: Path
) -> None:
    run = str(kinds["imported CSV"])
    shown = command("certify", run, "--risk", "0.3", "--format", "json", cwd=tmp_path).stdout
    assert shown.strip() == dumps(krisis.certify(run, risk=0.3).to_json()).strip()
    shown = command(
        "check", run, "--require", "accuracy >= 0.5", "--format", "json", cwd=tmp_path
    ).stdout
    assert shown.strip() == dumps(krisis.check(run, require="accuracy >= 0.5").to_json()).strip()
    shown = command("audit", run, "--by", "sex", cwd=tmp_path).stdout
    assert shown.strip() == str(krisis.audit(run, by=["sex"])).strip()


def test_three_confidences_of_one_table_are_compared_without_three_imports(
    tmp_path: Path,
) -> None:
    run = krisis.score(written(tmp_path / "rows.csv", table()), **{**COLUMNS, "confidence": ""})
    names = ["signals.c", "signals.margin", "signals.noise"]
    with pytest.raises(InvalidValue, match="the signal c is missing"):
        krisis.selective(run, confidence=names)  # one row has no c, so its curve would flatter
    rows = table()
    rows["c"][7] = 0.5
    found = krisis.selective(
        krisis.score(rows, **{**COLUMNS, "confidence": ""}), confidence=names, resamples=100
    ).figures()
    assert found["signals.c"]["aurc"] < found["signals.noise"]["aurc"]
    assert found["signals.c"]["aurc"] == pytest.approx(found["signals.margin"]["aurc"], abs=0.01)


class Surgeon(krisis.BaseBackend):
    """A backend with a signal of its own."""

    name = "surgeon"

    def evaluate(self, record: Any) -> krisis.BackendResponse:
        steadiness = (int(record.record_id.rpartition("-")[2]) * 37) % 100
        return krisis.BackendResponse(
            record.label if steadiness > 20 else 1 - record.label,
            confidence=0.5,
            signals={"steadiness": steadiness},
        )


def test_a_signal_of_an_own_backend_is_a_confidence_in_every_verb(tmp_path: Path) -> None:
    class Clinic(krisis.BaseDataSuite):
        name = "clinic"
        task = krisis.Task("stay", "Long stay?", {0: "no", 1: "yes"}, positive=1, groups=["ward"])

        def load(self) -> list[krisis.PatientRecord]:
            return [
                krisis.PatientRecord(
                    {"age": 40 + n % 50}, n % 2, {"ward": "ab"[n % 2]}, f"patient-{n}"
                )
                for n in range(200)
            ]

    run = krisis.run(Clinic(), Surgeon(), baselines=False)
    name = "signals.steadiness"
    assert krisis.selective(run, confidence=name, resamples=50).figures()[name]["aurc"] < 0.05
    certificate = krisis.certify(run, risk=0.1, confidence=name)
    assert certificate.threshold is not None
    assert certificate.threshold > 20
    assert krisis.audit(run, by=["ward"], confidence=name, threshold=50).groups.threshold == 50
    decision = krisis.decide(run, price=0.2, confidence=name)
    assert min(decision.curve, key=lambda point: point.cost).threshold > 19
    with pytest.raises(UnknownName, match=r"unknown signal 'steadines'.*steadiness"):
        krisis.certify(run, risk=0.1, confidence="signals.steadines")


MISTAKES: dict[str, tuple[Any, str]] = {
    "column": (
        lambda: krisis.score(table(), truth="yy", prediction="p"),
        r"unknown column of the table: 'yy'.*\by\b",
    ),
    "an empty answer of which nothing is said": (
        lambda: krisis.score({"y": [0, 1, 1], "p": [0, None, 1]}, truth="y", prediction="p"),
        r"1 row has no answer \(line 2\); say what that means: empty=abstained, no_answer or",
    ),
    "nothing named": (lambda: krisis.score(table(), truth="y"), "prediction is missing"),
    "lengths": (
        lambda: krisis.score({"y": [0, 1], "p": [0]}, truth="y", prediction="p"),
        "the columns differ in length",
    ),
    "no table": (lambda: krisis.score(7, truth="y", prediction="p"), "a int is no table"),
    "scalar": (lambda: krisis.score({"y": 1}, truth="y", prediction="p"), "a list or an array"),
    "percent": (
        lambda: krisis.score(
            {"y": [0], "p": [0], "c": [90]}, truth="y", prediction="p", confidence="c"
        ),
        "give confidence_scale=100",
    ),
    "price": (
        lambda: krisis.score({"y": [0], "p": [0]}, truth="y", prediction="p", price=20),
        "price: .* not 20",
    ),
    "no file": (lambda: krisis.load("nowhere"), "nowhere does not exist"),
    "question": (lambda: krisis.plan("guess"), "unknown question of a plan"),  # type: ignore[arg-type]
    "same": (
        lambda: krisis.compare(
            *[krisis.score({"y": [0], "p": [0]}, truth="y", prediction="p")] * 2
        ),
        "the same run appears twice",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_one_sentence(name: str) -> None:
    call, words = MISTAKES[name]
    with pytest.raises(krisis.KrisisError, match=words) as raised:
        call()
    text = str(raised.value)
    assert "\n" not in text
    assert "--" not in text


def test_a_table_is_not_taken_for_a_run(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", table())
    with pytest.raises(InvalidFile, match=r"krisis\.score\("):
        krisis.load(path)
    with pytest.raises(InvalidValue, match="no table whose columns could be named"):
        krisis.score(tmp_path / "rows.txt", truth="y", prediction="p")


def test_a_price_makes_the_cost_saved_the_headline() -> None:
    """The probabilities of the answers are not known, so that there is no skill."""
    found = krisis.score(table(), **COLUMNS, price=0.2)
    assert next(iter(found.metric_scores.values())).key == "cost_saved"
    assert not math.isnan(found.metric_scores["cost_saved"].value)


def test_a_kept_run_is_read_back(tmp_path: Path) -> None:
    made = krisis.run("ckd", "guideline", limit=20, baselines=False, out=tmp_path / "runs")
    assert made.provenance.run_id
    kept = krisis.load(next(iter((tmp_path / "runs").iterdir())))
    assert kept.scores_frame().equals(made.scores_frame())
    nothing = krisis.run("ckd", "guideline", limit=20, baselines=False)
    assert nothing.provenance.run_id is None


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_a_manual(name: str) -> None:
    verb = getattr(krisis, name)
    text = inspect.getdoc(verb)
    assert text is not None
    for part in ("Arguments:", "Returns:", ">>> "):
        assert part in text
    hidden = {"progress", "suite", "task", "repeat"}
    for argument in inspect.signature(verb).parameters:
        assert argument in hidden or argument in text, f"{name}: {argument}"


def test_importing_krisis_imports_no_verb() -> None:
    shown = "import sys, krisis; print([m for m in sys.modules if m.startswith('krisis.')])"
    found = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
