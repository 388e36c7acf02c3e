"""Runs side by side: the best first in every metric, on the rows that all of them share."""

from __future__ import annotations

import math

import pytest
from tests.invented_runs import invented_rows, result_of
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.metrics.base import Direction, MetricScore
from krisis.results.result import BenchmarkResult
from krisis.results.side_by_side import best_first, cell_dict, metric_cell, side_by_side
from krisis.statistics.intervals import Interval
from krisis.verbs.compare.pairs import CompareOptions, compare_runs


def run_of(direction: Direction, value: float, **details: object) -> BenchmarkResult:
    score = MetricScore(
        "AURC", value, details=details, interval=Interval(0.0, 1.0), key="aurc", direction=direction
    )
    return BenchmarkResult([], {"AURC": score}, {"suite": "ckd", "task": "detection"})


def order(runs: dict[str, BenchmarkResult]) -> list[str]:
    """Return the names in the order of the one metric."""
    found = side_by_side(runs)
    return [entry.name for entry in best_first(found.entries, found.columns[0])]


@pytest.mark.parametrize(
    ("direction", "names"), [("lower", "abcn"), ("higher", "cban"), ("neither", "cnab")]
)
def test_the_better_end_comes_first_and_a_run_without_a_value_last(
    direction: Direction, names: str
) -> None:
    values = {"c": 0.3, "n": math.nan, "a": 0.1, "b": 0.2}
    found = order({name: run_of(direction, value) for name, value in values.items()})
    assert "".join(found) == names


def test_an_area_is_shown_as_if_every_row_had_been_answered() -> None:
    """Answering a tenth makes any area small: .01 at Cmax .1 is worse than .05 at Cmax 1."""
    runs = {
        "few": run_of("lower", 0.01, aurc_normalized=0.1, normalized_interval=[0.05, 0.2]),
        "all": run_of("lower", 0.05, aurc_normalized=0.05, normalized_interval=[0.02, 0.1]),
    }
    assert order(runs) == ["all", "few"]
    cell = metric_cell(runs["few"].metric_scores["AURC"])
    assert cell_dict(cell) == {
        "value": 0.1,
        "interval": [0.05, 0.2],
        "bounds": None,
        "reason": None,
    }
    bare = MetricScore("AURC", 0.01, details={"aurc_normalized": 0.1}, key="aurc")
    assert metric_cell(bare).value == 0.1


def test_more_than_two_runs_are_compared_side_by_side_each_on_its_own_rows(tmp_path) -> None:
    whole, short = invented_rows(60), invented_rows(40)
    runs = {
        "whole": result_of(whole, "whole"),
        "poor": result_of(invented_rows(60, skill=0.6), "poor"),
        "short": result_of(short, "short"),
    }
    comparison = compare_runs(runs, CompareOptions(["accuracy"], n_permutations=99))
    entries = {entry.name: entry for entry in comparison.side_by_side().entries}
    for pair in comparison.pairs:
        delta = pair.deltas["accuracy"]
        cells = [entries[name].cells["accuracy"] for name in (pair.left, pair.right)]
        assert pair.matched is not None
        if pair.matched.n_compared == cells[0].n_evaluated:
            assert cells[0].value == delta.left
        assert all(cell.interval is not None for cell in cells)
    # Side by side, every run is shown on all that it evaluated; pairs have their common cases.
    for name, entry in entries.items():
        assert entry.cells["accuracy"].value == runs[name].metric_scores["accuracy"].value
    paths = [str(run.save(tmp_path / f"{name}.json")) for name, run in runs.items()]
    words = ["compare", *paths, "-m", "accuracy", "--permutations", "99"]
    printed = CliRunner().invoke(app, words).output
    place = printed.splitlines().index("Runs, best first")
    names = [line.split()[0] for line in printed.splitlines()[place + 2 : place + 5]]
    assert names[-1] == "poor"
    assert sorted(names) == sorted(runs)
    two = CliRunner().invoke(app, [words[0], *paths[:2], *words[4:]]).output
    assert "best first" not in two
