"""A gate says of every requirement whether it is met, failed or cannot be judged."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.invented_runs import invented_rows, result_of
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.decisions.check import Gate, check_run, exit_code
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.base import EvaluationResult, Rows
from krisis.results.comparison.compare import CompareOptions
from krisis.results.result import BenchmarkResult


def states(run: BenchmarkResult, *require: str) -> list[str]:
    return [verdict.state for verdict in check_run(run, Gate(require))]


def run_of(n_right: int, n_wrong: int) -> BenchmarkResult:
    rows = Rows(
        EvaluationResult(int(i < n_right), 1, confidence=0.8, record_id=f"r{i}")
        for i in range(n_right + n_wrong)
    )
    return result_of(rows)


def test_a_requirement_speaks_of_the_estimate_or_of_an_end_of_its_interval() -> None:
    run = run_of(90, 10)
    assert states(
        run,
        "accuracy >= 0.9",
        "accuracy > 0.9",
        "Accuracy >= 0.85",
        "lower(accuracy) >= 0.9",
        "lower( accuracy ) >= 0.8",
        "upper(accuracy) <= 1",
        "upper(accuracy) <= 0.9",
        "brier_score <= 0.5",
    ) == ["met", "failed", "met", "failed", "met", "met", "failed", "met"]


def test_an_undefined_metric_cannot_be_judged() -> None:
    run = run_of(5, 0)
    verdicts = check_run(run, Gate(["balanced_accuracy >= 0.5"]))
    assert verdicts[0].state == "not judged"
    assert "needs_at_least_two_classes" in verdicts[0].found
    assert exit_code(verdicts) == 2
    both = check_run(run, Gate(["balanced_accuracy >= 0.5", "accuracy < 0.1"]))
    assert exit_code(both) == 1


@pytest.mark.parametrize(
    "text",
    ["accuracy", "accuracy = 0.8", "accuracy >= high", "middle(accuracy) >= 1", ">= 0.5", ""],
)
def test_a_sentence_that_is_no_requirement_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        Gate([text])


def test_an_unknown_metric_is_named_with_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="did you mean 'accuracy'"):
        check_run(run_of(5, 5), Gate(["acuracy >= 0.5"]))


def test_no_worse_needs_a_loss_beyond_the_margin_that_is_more_than_chance() -> None:
    old = run_of(95, 5)
    clearly_worse, slightly_worse = run_of(75, 25), run_of(94, 6)
    gate = Gate(no_worse=["accuracy by 0.03"])
    options = CompareOptions(n_permutations=399)
    assert check_run(clearly_worse, gate, against=old, options=options)[0].state == "failed"
    assert check_run(slightly_worse, gate, against=old, options=options)[0].state == "met"
    assert check_run(old, gate, against=clearly_worse, options=options)[0].state == "met"
    strict = Gate(non_inferior=["accuracy by 0.03"])
    assert check_run(slightly_worse, strict, against=old, options=options)[0].state == "failed"


def test_lower_is_better_metrics_fail_when_they_grow() -> None:
    old, new = run_of(95, 5), run_of(70, 30)
    gate = Gate(no_worse=["brier_score by 0.03"], non_inferior=["brier_score by 0.03"])
    options = CompareOptions(n_permutations=399)
    assert [v.state for v in check_run(new, gate, against=old, options=options)] == ["failed"] * 2
    assert [v.state for v in check_run(old, gate, against=new, options=options)] == ["met"] * 2


def test_unchanged_pairs_hardly_ever_fail() -> None:
    gate, options, n_failed = (
        Gate(no_worse=["accuracy by 0.03"]),
        CompareOptions(n_permutations=199),
        0,
    )
    for seed in range(12):
        rows = invented_rows(80, seed=seed)
        drawn = np.random.default_rng(seed).random(len(rows)) < 0.1
        other = [
            replace(row, prediction=1 - row.prediction)
            if flip and row.prediction in (0, 1)
            else row
            for row, flip in zip(rows, drawn, strict=True)
        ]
        mixed = [a if i % 2 else b for i, (a, b) in enumerate(zip(rows, other, strict=True))]
        turned = [b if i % 2 else a for i, (a, b) in enumerate(zip(rows, other, strict=True))]
        verdict = check_run(
            BenchmarkResult(mixed, result_of(Rows(mixed)).metric_scores, {}),
            gate,
            against=BenchmarkResult(turned, result_of(Rows(turned)).metric_scores, {}),
            options=options,
        )
        n_failed += verdict[0].state == "failed"
    assert n_failed <= 1


def test_the_command_exits_by_what_it_found_and_writes_reports(tmp_path: Path) -> None:
    run = run_of(90, 10).save(tmp_path / "run.json")
    junit, table = tmp_path / "check.xml", tmp_path / "check.md"
    met = CliRunner().invoke(app, ["check", str(run), "--require", "accuracy >= 0.85"])
    assert met.exit_code == 0
    assert met.output.startswith("MET")
    failed = CliRunner().invoke(
        app,
        [
            *("check", str(run), "--require", "accuracy >= 0.95", "--json"),
            *("--junit", str(junit), "--markdown", str(table)),
        ],
    )
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["requirements"][0]["state"] == "failed"
    suite = ET.parse(junit).getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    assert "`accuracy >= 0.95`" in table.read_text(encoding="utf-8")
    gate = tmp_path / "gate.yaml"
    gate.write_text("require: ['balanced_accuracy >= 0.5']\n", encoding="utf-8")
    assert CliRunner().invoke(app, ["check", str(run), "--gate", str(gate)]).exit_code == 2
    gate.write_text("demand: 3\n", encoding="utf-8")
    refused = CliRunner().invoke(app, ["check", str(run), "--gate", str(gate)])
    assert "must hold lists of sentences" in str(refused.exception)
    assert isinstance(
        CliRunner().invoke(app, ["check", str(run), "--no-worse", "accuracy by 0.1"]).exception,
        InvalidValue,
    )


def test_the_sensitivity_of_the_disease_can_be_required_alone_and_against_another_run() -> None:
    run, other = result_of(invented_rows(300)), result_of(invented_rows(300, skill=0.5))
    gate = Gate(
        ("disease_sensitivity >= 0.6", "Disease Specificity > 0.99"),
        no_worse=("disease_sensitivity by 0.03",),
    )
    assert [v.state for v in check_run(run, gate, against=other)] == ["met", "failed", "met"]
    assert [v.state for v in check_run(other, gate, against=run)][-1] == "failed"
