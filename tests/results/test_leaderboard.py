"""A leaderboard ranks by what the reader chose, in the direction of each metric."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from krisis.cli.leaderboard import draw_tables
from krisis.metrics.base import Direction, MetricScore
from krisis.results.leaderboard import Leaderboard, leaderboards
from krisis.results.result import BenchmarkResult
from krisis.statistics.intervals import Interval


def run_of(direction: Direction, value: float, **details: object) -> BenchmarkResult:
    score = MetricScore(
        "AURC", value, details=details, interval=Interval(0.0, 1.0), key="aurc", direction=direction
    )
    return BenchmarkResult([], {"AURC": score}, {"suite": "ckd", "task": "detection"})


def table_of(runs: dict[str, BenchmarkResult]) -> Leaderboard:
    (table,) = leaderboards(runs, sort=["aurc"])
    return table


@pytest.mark.parametrize(("direction", "order"), [("lower", "abc"), ("higher", "cba")])
def test_the_first_place_belongs_to_the_better_end(direction: Direction, order: str) -> None:
    values = {"a": 0.1, "b": 0.2, "c": 0.3}
    table = table_of({name: run_of(direction, value) for name, value in values.items()})
    assert "".join(entry.name for entry in table.entries) == order
    assert [entry.rank for entry in table.entries] == [1, 2, 3]


def test_equal_values_share_a_place_and_a_run_without_a_value_has_none() -> None:
    values = {"none": math.nan, "a": 0.2, "b": 0.1, "c": 0.2}
    table = table_of({name: run_of("lower", value) for name, value in values.items()})
    ranks = [(entry.name, entry.rank) for entry in table.entries]
    assert ranks == [("b", 1), ("a", 2.5), ("c", 2.5), ("none", None)]


def test_seconds_and_tokens_are_always_columns_and_the_cost_where_a_run_knows_it() -> None:
    free = run_of("lower", 0.1)
    paid = BenchmarkResult([], {}, free.suite_description, "paid", {"cost": 0.5, "token_total": 7})
    always = ["elapsed_seconds", "token_total"]
    assert [column.key for column in table_of({"free": free}).columns][-2:] == always
    (both,) = leaderboards({"free": free, "paid": paid})
    assert [column.key for column in both.columns][-3:] == [*always, "cost"]
    cells = {entry.name: entry.cells["cost"].value for entry in both.entries}
    assert cells["paid"] == 0.5
    assert math.isnan(cells["free"])


def test_an_area_is_ranked_as_if_every_row_had_been_answered() -> None:
    """Answering a tenth makes any area small: .01 at Cmax .1 is worse than .05 at Cmax 1."""
    table = table_of(
        {
            "few": run_of("lower", 0.01, aurc_normalized=0.1, normalized_interval=[0.05, 0.2]),
            "all": run_of("lower", 0.05, aurc_normalized=0.05, normalized_interval=[0.02, 0.1]),
        }
    )
    assert [entry.name for entry in table.entries] == ["all", "few"]
    cell = table.entries[1].cells["aurc"]
    assert cell.interval is not None
    assert (cell.value, cell.interval.low, cell.interval.high) == (0.1, 0.05, 0.2)


def test_a_table_too_wide_for_the_console_has_a_line_per_figure_and_keeps_every_name() -> None:
    scores = {
        f"Figure Number {i} [of=positive]": MetricScore(
            f"Figure Number {i} [of=positive]", -0.125, interval=Interval(-1.5, 1.0), key=f"f{i}"
        )
        for i in range(20)
    }
    console = Console(width=80, file=io.StringIO())
    for shown, line in ((scores, "Figure Number 19 [of=positive]"), ({}, "A")):
        runs = {name: BenchmarkResult([], shown, {"suite": "ckd"}, name) for name in ("A", "B")}
        (table,) = leaderboards(runs)
        draw_tables([table], console)
        assert any(text.strip().startswith(line) for text in _text(console).splitlines())
    assert "…" not in _text(console)
    assert "-1.50 to 1.00" in _text(console)


@pytest.mark.parametrize("n_runs", [3, 6, 9])
def test_long_names_stand_above_numbered_columns_and_no_line_is_broken(n_runs: int) -> None:
    names = [f"provider/model-with-a-long-name-{place}-2026-01-31" for place in range(n_runs)]
    ends = Interval(0.25, 0.75)
    scores = {name: MetricScore(name, 0.5, interval=ends) for name in ("Accuracy", "Answer Rate")}
    runs = {name: BenchmarkResult([], scores, {"suite": "ckd"}, name) for name in names}
    console = Console(width=80, file=io.StringIO())
    draw_tables(leaderboards(runs), console)
    lines = _text(console).splitlines()
    assert max(map(len, lines)) <= 80
    for place, name in enumerate(names, 1):
        assert f"{place:>3}  {name}" in lines
    headings = [line.split()[1:] for line in lines if line.strip().startswith("Model")]
    shown = [number for block in headings for number in block]
    assert shown == [str(place + 1) for place in range(n_runs)]
    assert sum(line.count("0.25–0.75") for line in lines) == 2 * n_runs


def _text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
