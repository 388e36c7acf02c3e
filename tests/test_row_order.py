"""The order of the rows in a run changes no figure, in no command and on no page."""

from __future__ import annotations

import json
import random
import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.commands import krisis
from tests.invented_runs import ANSWERS, invented_rows, result_of, write_run

from krisis.confidence.variants import scores_of
from krisis.metrics import BootstrapOptions, usual_metrics
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import RowColumns
from krisis.metrics.items import RunItems, Source
from krisis.metrics.selective_prediction import AURC
from krisis.metrics.table import Table
from krisis.verbs.selective.evaluation import SelectiveOptions, evaluate
from krisis.viewer.app import create_app

# What says where a row is, or when a file was made, is no figure.
NO_FIGURES = {"position", "left_position", "right_position", "index", "created_at", "commands"}
CHECK = (
    "check run.krisis --require 'lower(accuracy) >= 0.1' --against other.krisis "
    "--no-worse 'accuracy by 0.1'"
)
COMMANDS = {
    "show": "show run.krisis --format json",
    "score": "show run.krisis --metric aurc --metric accuracy --format json",
    "selective": "selective run.krisis --format json",
    "selective of two": "selective run.krisis other.krisis --format json",
    "compare": "compare run.krisis other.krisis --format json",
    "certify": "certify run.krisis --risk 0.3 --max-not-evaluated 0.1 --format json",
    "certify by patient": (
        "certify run.krisis --risk 0.3 --by sex --max-not-evaluated 0.1 --format json"
    ),
    "decide": "decide run.krisis --costs costs.yaml --max-not-evaluated 0.1 --format json",
    "audit": "audit run.krisis --format json",
    "check": f"{CHECK} --max-not-evaluated 0.1 --format json",
    "report": "report run.krisis -o page.html",
}
COSTS = "costs: {0: {1: 1}, 1: {0: 4}}\nprice: 0.5\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write two runs as they were made, and the same two with their rows shuffled."""
    plain, shuffled = (tmp_path_factory.mktemp(name) for name in ("plain", "shuffled"))
    for name, skill in (("run", 1.0), ("other", 0.8)):
        rows = invented_rows(140, skill=skill)
        mixed = list(rows)
        random.Random(name).shuffle(mixed)
        for folder, one in ((plain, rows), (shuffled, Rows(mixed, ANSWERS))):
            made = result_of(one, f"local/{name}")
            scored = made.scored([*usual_metrics(), AURC()], BootstrapOptions())
            write_run(folder / name, scored)
    for folder in (plain, shuffled):
        (folder / "costs.yaml").write_text(COSTS, encoding="utf-8")
    return plain, shuffled


def figures(value: Any) -> Any:
    """Return JSON without what is no figure; rows that are listed may be in any order."""
    if isinstance(value, Mapping):
        return {key: figures(one) for key, one in value.items() if key not in NO_FIGURES}
    if isinstance(value, list):
        found = [figures(one) for one in value]
        named = all(isinstance(one, dict) and "record_id" in one for one in found)
        return sorted(found, key=lambda one: json.dumps(one, sort_keys=True)) if named else found
    return value


@pytest.mark.parametrize("command", COMMANDS)
def test_a_shuffled_run_has_the_same_figures(folders: tuple[Path, Path], command: str) -> None:
    done = [krisis(*shlex.split(COMMANDS[command]), cwd=folder) for folder in folders]
    assert {one.returncode for one in done} <= {0, 1}, done[0].stderr
    if command == "report":
        pages = [(folder / "page.html").read_text(encoding="utf-8") for folder in folders]
        assert pages[0] == pages[1]
        return
    found = [json.dumps(figures(json.loads(one.stdout))) for one in done]
    assert found[0] == found[1]
    assert len(found[0]) > 100


PAGES = (
    "/runs/run.json",
    "/runs/run/decide.json?wrong=30&max_not_evaluated=0.1",
    "/compare.json?run=run&run=other",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_shuffled_run_has_the_same_pages(folders: tuple[Path, Path], page: str) -> None:
    found = []
    for folder in folders:
        with TestClient(create_app(folder), base_url="http://localhost") as client:
            while (answer := client.get(page)).status_code == 202:
                time.sleep(0.2)
            assert answer.status_code == 200, answer.text
            found.append(json.dumps(figures(answer.json())))
    assert found[0] == found[1]
    assert len(found[0]) > 100


def test_commands_and_pages_give_one_interval(folders: tuple[Path, Path]) -> None:
    """AURC had two intervals for one seed, in `score` and in `selective`."""
    folder = folders[1]
    told = {
        name: json.loads(krisis(*shlex.split(COMMANDS[name]), cwd=folder).stdout)
        for name in ("score", "selective")
    }
    shown = told["selective"]["confidence_variants"]["stated"]
    ends = shown["bootstrap"]["ci95"]["aurc_full"]
    found = told["score"]["metric_scores"]["AURC"]
    assert found["value"] == shown["aurc_full"]
    assert [found["interval"]["low"], found["interval"]["high"]] == ends
    with TestClient(create_app(folder), base_url="http://localhost") as client:
        page = client.get("/runs/run.json").text
    assert all(repr(end) in page for end in ends)


def row(name: str, patient: str = "", **fields: Any) -> EvaluationResult:
    return EvaluationResult(1, 1, confidence=0.5, record_id=name, cluster_id=patient, **fields)


def test_rows_are_ordered_by_patient_then_record_then_asking_as_text() -> None:
    rows = [
        row("r2", "p10"),
        row("r10", "p10"),
        row("r1", "p9", metadata={"sample_index": 10}),
        row("r1", "p9", metadata={"sample_index": 2}),
        row("r1", "p9"),
        row("", ""),
    ]
    assert RowColumns(rows).order(np.arange(6)).tolist() == [5, 1, 0, 4, 3, 2]
    assert [one.record_id for one in Table(rows).rows] == ["", "r10", "r2", "r1", "r1", "r1"]
    assert Table(rows).patient_names == ["", "p10", "p9"]


def test_rows_without_ids_are_ordered_by_what_they_hold() -> None:
    rows = [replace(one, record_id="", cluster_id="") for one in invented_rows(60)]
    mixed = list(rows)
    random.Random(1).shuffle(mixed)
    scores = [
        result_of(Rows(one, ANSWERS)).scored(usual_metrics(), BootstrapOptions())
        for one in (rows, mixed)
    ]
    told = [json.dumps(figures(one.to_dict()["metric_scores"])) for one in scores]
    assert told[0] == told[1]


def test_matched_rows_stay_matched_where_two_runs_name_patients_differently() -> None:
    """An imported run may lack the patients: its rows follow the order of the first run."""
    left = invented_rows(30)
    right = Rows([replace(one, cluster_id="") for one in reversed(left)], ANSWERS)
    table = right.taken([right.index(one) for one in reversed(list(right))]).table
    assert [one.record_id for one in table.rows] == [
        one.record_id for one in left if one.error is None
    ]


def test_legacy_draws_number_patients_by_value_as_published_intervals_do() -> None:
    generator = np.random.default_rng(3)
    rows = [
        EvaluationResult(
            int(generator.random() < 0.7),
            1,
            confidence=round(float(generator.random()), 2),
            record_id=f"{patient}/{item}",
            cluster_id=str(patient),
        )
        for patient in (99, 1000, 8, 210)
        for item in range(3)
    ]

    def ends(names: Mapping[str, str], rng: str) -> tuple[float, float]:
        named = [replace(one, cluster_id=names[one.cluster_id]) for one in rows]
        run = RunItems(Table(named), Source("x"))
        options = SelectiveOptions(
            loss="error", bootstrap=BootstrapOptions(200, rng=rng), method="percentile"
        )
        stated = scores_of(run, "stated")[run.predicted]
        found = evaluate([run], {"stated": [stated]}, options=options)
        interval = found.interval("stated", 0, "aurc")
        return interval.low, interval.high

    as_they_are = {str(one): str(one) for one in (99, 1000, 8, 210)}
    by_value = {"8": "a", "99": "b", "210": "c", "1000": "d"}
    by_text = {"1000": "a", "210": "b", "8": "c", "99": "d"}
    assert ends(as_they_are, "legacy") == ends(by_value, "legacy")
    assert ends(as_they_are, "default") == ends(by_text, "default")
    assert ends(by_value, "legacy") != ends(by_text, "legacy")
