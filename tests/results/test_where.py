"""Where two runs differ: hand-counted groups, another implementation, and how often it errs."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from tests.documents import said
from tests.invented_runs import invented_rows, result_of
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.json_values import dumps
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.labels import Answers
from krisis.metrics.paired import Exchanges
from krisis.pages.compare import where_lines
from krisis.results.comparison.compare import CompareOptions, compare_runs
from krisis.results.comparison.where import GroupDifference, Where, where_they_differ
from krisis.statistics.paired_groups import PairedGroup, paired_groups

FEW = Exchanges(399, 1)


def rows_of(marks: str, stages: str, *, confidence: float = 0.8, per_patient: int = 1) -> Rows:
    """Return rows from their outcomes (+ right, - wrong, a abstained) and their stages."""
    return Rows(
        (
            EvaluationResult(
                {"+": 1, "-": 0}.get(mark),
                1,
                mark == "a",
                confidence,
                record_id=f"r{i}",
                cluster_id=f"p{i // per_patient}",
                metadata={"ckd_stage": int(stage)},
            )
            for i, (mark, stage) in enumerate(zip(marks, stages, strict=True))
        ),
        Answers((0, 1), groups={"stage": "ckd_stage"}),
    )


def where_of(left: Rows, right: Rows, exchanges: Exchanges = FEW) -> Where:
    return where_they_differ(("a", "b"), (left.table, right.table), exchanges)


def found(where: Where, name: str, figure: str = "right") -> GroupDifference:
    return next(one for one in where.differences if (one.name, one.figure) == (name, figure))


def test_a_group_is_counted_by_hand_and_named_first() -> None:
    """In stage 3 of 40 rows 20 turn from wrong to right, elsewhere 2 of 80: gap .5 − .025."""
    stages = "3" * 40 + "4" * 80
    left = rows_of("-" * 20 + "+" * 20 + "-" * 2 + "+" * 78, stages)
    right = rows_of("+" * 120, stages)
    where = where_of(left, right)
    first = where.standing_out[0]
    assert (first.name, first.figure, first.n_rows, first.n_patients) == (
        "stage: 3",
        "right",
        40,
        40,
    )
    assert (first.left, first.right, first.delta) == (0.5, 1.0, 0.5)
    assert first.gap == pytest.approx(0.475)
    assert first.interval.low < 0.5 < first.interval.high
    assert first.gap_interval.low > 0
    assert where.outcomes["wrong", "right"] == 22
    assert where.outcomes["right", "right"] == 98
    assert where.overall["right"].delta == pytest.approx(22 / 120)
    (line, *_) = where_lines(where)
    assert line.startswith("Largest difference: stage 3, right answers +50 points (")
    assert "elsewhere +2.5 points" in line


def test_few_patients_are_neither_tested_nor_shown_and_one_group_is_no_group() -> None:
    left, right = rows_of("+" * 60, "3" * 19 + "4" * 41), rows_of("-" * 60, "3" * 19 + "4" * 41)
    where = where_of(left, right)
    assert where.differences == []
    assert set(where.skipped) == {"stage: 3", "stage: 4"}
    assert list(where_lines(where)) == [
        "No group has enough patients inside and outside to be tested."
    ]


def test_an_even_difference_does_not_stand_out_and_is_said_to_be_even() -> None:
    stages = "34" * 100
    left, right = rows_of("-+++++++++" * 20, stages), rows_of("+" * 200, stages)
    uneven = rows_of(("-" + "+" * 9 + "+" * 10) * 5 + ("+-" + "+" * 8 + "+" * 10) * 5, stages)
    even = where_of(uneven, right)
    assert even.standing_out == []
    assert where_lines(even)[0].startswith("No group stands out: right answers ")
    assert where_of(left, right).standing_out  # all in stage 3: every tenth row
    same = where_of(right, right)
    assert all(one.p_adjusted == 1 for one in same.differences)
    assert all(one.interval.low < 0 < one.interval.high for one in same.differences)
    assert "no overall difference is shown" in where_lines(same)[0]


def test_abstentions_are_a_figure_of_their_own_and_a_smaller_difference_is_called_so() -> None:
    stages = "3" * 60 + "4" * 60
    where = where_of(rows_of("+" * 120, stages), rows_of("a" * 60 + "+" * 60, stages))
    assert {one.figure for one in where.standing_out} == {"right", "abstained"}
    assert found(where, "stage: 3", "abstained").delta == 1.0
    least = where_of(
        rows_of("+" * 240, stages * 2), rows_of("-" * 60 + "+" * 60 + "-" * 120, stages * 2)
    )
    assert [one.name for one in least.standing_out] == ["stage: 3", "stage: 4"]
    assert [one.more for one in least.standing_out] == [True, False]


def test_groups_are_of_the_task_the_truth_the_deferral_and_both_confidences() -> None:
    left, right = invented_rows(400), invented_rows(400, skill=0.9)
    for row in right:
        row.confidence = None if row.confidence is None else 1 - row.confidence
    where = where_of(left, right)
    headings = {one.heading for one in where.differences}
    assert headings == {"stage", "sex", "truth", "deferral", "reason for deferral"}
    sure = where_of(left, invented_rows(400, skill=0.9))
    bands = [one for one in sure.differences if one.heading == "mean confidence of both"]
    n_sure = sum(0.7 <= row.confidence < 0.8 for row in left.table.rows)
    assert next(one.n_rows for one in bands if one.group == "0.7 to below 0.8") == n_sure


def every_sign(groups: list[PairedGroup], unit: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return gaps, standard errors and the largest statistic of every pattern of signs."""
    n_units, gaps, parts, errors = unit.max() + 1, [], [], []
    for group in groups:
        d, inside = group.difference, group.inside
        e, part = d - d.mean(), []
        for patient in range(n_units):
            mine = unit == patient
            part.append(
                sum(e[mine & inside]) / inside.sum() - sum(e[mine & ~inside]) / (~inside).sum()
            )
        alike = np.mean(e**2) * (1 / inside.sum() + 1 / (~inside).sum())
        gaps.append(d[inside].mean() - d[~inside].mean())
        parts.append(part)
        errors.append(max(np.sqrt(max(np.sum(np.square(part)), alike)), np.hypot(*group.floors)))
    largest = [
        max(abs(np.dot(signs, part)) / error for part, error in zip(parts, errors, strict=True))
        for signs in product((-1, 1), repeat=n_units)
    ]
    return np.array(gaps), np.array(errors), np.array(largest)


def test_gaps_and_the_largest_statistic_equal_those_of_another_implementation() -> None:
    generator = np.random.default_rng(3)
    unit = np.sort(generator.integers(0, 9, 40))
    unit = np.unique(unit, return_inverse=True)[1]
    d = generator.choice([-1.0, 0.0, 1.0], 40)
    groups = [
        PairedGroup(d, generator.random(40) < share, (0.02, 0.01)) for share in (0.3, 0.5, 0.6)
    ]
    test = paired_groups(groups, unit, n_draws=1, seed=0)
    gaps, errors, largest = every_sign(groups, unit)
    assert test.gap.difference == pytest.approx(gaps)
    widened = test.gap.standard_error / errors
    assert (widened > 1).all()
    top = np.argmax(np.abs(gaps) / test.gap.standard_error)
    t = abs(gaps[top]) / test.gap.standard_error[top]
    assert test.gap.adjusted_p_value[top] == pytest.approx(
        np.mean(largest >= t * (1 - 1e-9)), abs=1e-9
    )


def test_the_difference_within_a_group_is_that_of_a_comparison_of_its_rows_alone() -> None:
    """With 12 patients every exchange is tried by both."""
    stages = "3" * 12 + "4" * 12
    left, right = rows_of("-" * 9 + "+" * 15, stages), rows_of("+" * 8 + "-" * 16, stages)
    inside = left.table.truth[:12] >= 0
    alone = (
        compare_runs(
            {"a": result_of(Rows(left[:12])), "b": result_of(Rows(right[:12]))},
            CompareOptions(("accuracy",), 399),
        )
        .pairs[0]
        .deltas["accuracy"]
    )
    hits = [np.array([row.prediction for row in rows[:12]], float) for rows in (left, right)]
    d = hits[1] - hits[0]
    both = PairedGroup(d, inside, (0.0, 0.0))
    test = paired_groups([both], np.arange(12), n_draws=99, seed=0).within
    assert test.difference[0] == pytest.approx(alone.delta)
    assert test.p_value[0] == pytest.approx(alone.p_value, abs=0.02)


def test_all_rows_of_a_patient_count_as_one() -> None:
    """Ten patients of four rows that agree say no more than ten, and are too few to be a group."""
    stages = ("3" * 40 + "4" * 160) * 1
    left, right = (rows_of(m, stages, per_patient=4) for m in ("+" * 200, "-" * 40 + "+" * 160))
    assert where_of(left, right).differences == []
    apart = [rows_of(m, stages) for m in ("+" * 200, "-" * 40 + "+" * 160)]
    assert where_of(*apart).standing_out


def test_pairs_are_paid_for_and_all_outputs_say_the_same(tmp_path: Path) -> None:
    runs = {n: result_of(invented_rows(120, skill=s), n) for n, s in (("a", 1.0), ("b", 0.9))}
    options = CompareOptions(("accuracy",), 119)
    two = compare_runs(runs, options)
    three = compare_runs({**runs, "c": runs["b"]}, options)
    (alone,), (paid, *_) = two.where, three.where
    pairs = zip(alone.differences, paid.differences, strict=True)
    assert all(b.p_adjusted == min(1.0, 3 * a.p_adjusted) for a, b in pairs)
    (sentence, *_) = where_lines(alone)
    assert sentence in said(two.document())
    for name, run in runs.items():
        run.save(tmp_path / f"{name}.json")
    told = ["compare", *(str(tmp_path / f"{name}.json") for name in "ab"), "--permutations", "119"]
    facts = json.loads(CliRunner().invoke(app, [*told, "-m", "accuracy", "--json"]).stdout)
    assert facts["pairs"][0]["where"] == json.loads(dumps(alone.to_dict()))


def alike(generator: np.random.Generator, n: int, shares: tuple[float, float]) -> tuple[Rows, Rows]:
    """Return two runs that differ in the same way in every stage, two rows a patient."""
    better, worse = shares
    stages = "".join(map(str, np.repeat(generator.choice(4, n, p=(0.15, 0.2, 0.3, 0.35)), 2)))
    shared, own = np.repeat(generator.random(n), 2), generator.random(2 * n)
    u = np.where(generator.random(2 * n) < 0.5, shared, own)
    left = "".join("-" if x < better else "+" for x in u)
    right = "".join("-" if x > 1 - worse else "+" for x in u)
    return rows_of(left, stages, per_patient=2), rows_of(right, stages, per_patient=2)


@pytest.mark.slow
@pytest.mark.parametrize("n", [80, 250])
@pytest.mark.parametrize("shares", [(0.1, 0.1), (0.25, 0.05), (0.04, 0.0), (0.5, 0.1)])
def test_no_more_than_five_of_a_hundred_even_worlds_have_a_group_that_stands_out(
    n: int, shares: tuple[float, float]
) -> None:
    n_worlds = 1000
    n_found = sum(
        bool(
            where_of(
                *alike(np.random.default_rng(seed), n, shares), Exchanges(199, seed)
            ).standing_out
        )
        for seed in range(n_worlds)
    )
    assert n_found / n_worlds <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n_worlds)


@pytest.mark.slow
def test_a_planted_group_is_found_and_named() -> None:
    """Of 500 patients 100 are in stage 1, where the right run is right on 20 points more."""

    def world(seed: int) -> bool:
        generator = np.random.default_rng(seed)
        stage = generator.choice(4, 500, p=(0.1, 0.2, 0.3, 0.4))
        u = generator.random(500)
        left = "".join(
            "-" if x < 0.05 + 0.2 * (s == 1) else "+" for x, s in zip(u, stage, strict=True)
        )
        right = "".join("-" if x > 0.95 else "+" for x in u)
        stages = "".join(map(str, stage))
        where = where_of(rows_of(left, stages), rows_of(right, stages), Exchanges(199, seed))
        return [one.name for one in where.standing_out[:1]] == ["stage: 1"]

    assert np.mean([world(seed) for seed in range(200)]) >= 0.8
