"""Simulation: the intervals that krisis prints contain the truth in world after world."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from functools import partial

import pytest
from benchmarks import clinical_coverage
from benchmarks.coverage import BEGIN, END, Cell, by_product, cells, main, table
from benchmarks.coverage_worlds import (
    World,
    equal,
    few_patients_worlds,
    figures,
    listed_worlds,
    other_worlds,
)

from krisis.statistics.intervals import Interval

N_RUNS = 400
# With 400 runs the share of hits of a fair interval may lie two standard errors beside its own.
SLACK = 2 * math.sqrt(0.92 * 0.08 / N_RUNS)


def problems(found: list[Cell]) -> list[Cell]:
    return [
        cell
        for cell in found
        if cell.coverage < 0.92 - SLACK or cell.existence < 1 or cell.inside < 1
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "world", [*listed_worlds(), *other_worlds(), *few_patients_worlds()], ids=lambda w: w.name
)
def test_every_interval_covers_exists_and_holds_its_value(world):
    found = cells(world, by_product, n_runs=N_RUNS)
    print(table(found))
    # An interval of a correlation near 1 that is not told of it (`prior_icc`) may be short.
    assert not problems(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "of"), list(clinical_coverage.worlds()), ids=lambda one: str(one)[:40]
)
def test_the_intervals_of_clinical_calibration_exist_and_cover(world, of):
    metrics = clinical_coverage.chosen(of)
    method = partial(clinical_coverage.by_product, metrics)
    known = clinical_coverage.truth_of(world, metrics)
    found = cells(world, method, n_runs=200, known=known)
    print(table(found))
    slack = 3 * math.sqrt(0.92 * 0.08 / 200)
    assert not [cell for cell in found if cell.coverage < 0.92 - slack or cell.inside < 1]


@pytest.mark.slow
def test_the_simulation_itself_sees_what_is_wrong():
    """A method that always errs in one way shows it in its cells."""
    world = World("ten rows", equal(10, 1), error=0.3)

    def too_high(run, seed):
        value = figures(run)["accuracy"]
        return {"accuracy": (value, Interval(0.9, 1.0))}

    (cell,) = cells(world, too_high, n_runs=30)
    assert cell.truth == pytest.approx(0.7, abs=0.002)
    assert (cell.coverage, cell.missed_below, cell.missed_above) == (0.0, 1.0, 0.0)
    assert cell.inside < 0.5
    assert cell.too_low

    def missing(run, seed):
        return {"accuracy": (0.5, Interval.undefined("none"))}

    (cell,) = cells(world, missing, n_runs=30)
    assert (cell.existence, cell.coverage) == (0.0, 0.0)


@pytest.mark.slow
def test_the_product_gives_an_interval_to_every_metric_of_a_simulated_run():
    world = World("40 rows", equal(20, 2), error=0.2, icc=0.3)
    found = cells(world, by_product, n_runs=5)
    assert {cell.metric for cell in found} >= {"accuracy", "ece", "aurc", "augrc", "brier"}
    assert all(cell.existence == 1 and cell.inside == 1 for cell in found)


def test_the_tables_of_the_page_come_from_the_outputs(tmp_path, monkeypatch, capsys):
    world, other = (one.name for one in listed_worlds()[:2])
    cell = Cell(world, "ece", 0.1, 1000, 1000, 1.0, 0.905, 0.05, 0.045, 1.0, 0.2, 1.4, 9.0)
    bare = replace(cell, world=other, metric="risk_at_80", coverage=0.95)
    now, page = tmp_path / "now.json", tmp_path / "page.md"
    better = replace(cell, world=other, coverage=0.95)
    now.write_text(json.dumps([asdict(cell), asdict(bare), asdict(better)]))
    page.write_text(f"Before.\n{BEGIN}\nold\n{END}\nAfter.\n")
    given = ["--of", str(now), "--page", str(page)]
    monkeypatch.setattr("sys.argv", ["coverage", *given])
    main()
    written = page.read_text()
    assert written.startswith("Before.\n")
    assert written.endswith("After.\n")
    assert "old" not in written
    assert capsys.readouterr().out.strip() in written
    assert "| ece | 90.5, 92.8 (1.4×) | – | – |" in written
    assert "| risk_at_80 | 95.0, 95.0 (1.4×) | – | – |" in written
    # 90.5 % is below 92 % by 1.75 standard errors of 0.86 points.
    assert "3 cells of 1,000 runs; in 0 of them" in written
    assert "1 are below 92 %" in written
    assert "two standard errors: none." in written
