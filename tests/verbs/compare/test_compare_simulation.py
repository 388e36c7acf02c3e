"""Simulated models compared: no false alarms beyond 5 %, and intervals that hold the truth."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from krisis.metrics.base import BaseMetric, EvaluationResult, Rows
from krisis.metrics.forms import Form
from krisis.metrics.scoring import metrics_from_names, score_all
from krisis.results.result import BenchmarkResult
from krisis.verbs.compare.pairs import CompareOptions, Comparison, compare_runs

METRICS = metrics_from_names(["default", "selective"])
N_PATIENTS = 80
N_WORLDS = 1000


def simulated_pair(
    generator: np.random.Generator, n_patients: int, skills: tuple[float, float]
) -> tuple[Rows, Rows]:
    """Return two models on the same patients, two visits each, alike within a patient."""
    ease = np.repeat(generator.normal(0.8, 0.8, n_patients), 2)
    ease += generator.normal(0, 0.6, ease.size)
    return tuple(_answers(generator, ease, skill) for skill in skills)  # type: ignore[return-value]


def _answers(generator: np.random.Generator, ease: np.ndarray, skill: float) -> Rows:
    chance = 1 / (1 + np.exp(-(ease + skill)))
    felt = 1 / (1 + np.exp(-(ease + skill + generator.normal(0.3, 0.7, ease.size))))
    right = generator.random(ease.size) < chance
    stated = np.round(felt, 2)
    abstained = generator.random(ease.size) < np.where(felt < 0.5, 0.6, 0.05)
    return Rows(
        EvaluationResult(
            i % 2 if right[i] else 1 - i % 2,
            i % 2,
            bool(abstained[i]),
            float(stated[i]),
            record_id=str(i),
            cluster_id=f"p{i // 2}",
            metadata={"should_abstain": bool(ease[i] < 0)},
        )
        for i in range(ease.size)
    )


def worlds(skills: tuple[float, float]) -> list[Comparison]:
    found = []
    for seed in range(N_WORLDS):
        left, right = simulated_pair(np.random.default_rng(seed), N_PATIENTS, skills)
        runs = {"a": scored(left), "b": scored(right)}
        options = CompareOptions(n_permutations=399, seed=seed)
        found.append(compare_runs(runs, options))
    return found


def scored(rows: Rows) -> BenchmarkResult:
    return BenchmarkResult(rows, score_all(METRICS, rows), {})


@cache
def true_deltas(skills: tuple[float, float]) -> dict[str, float]:
    left, right = simulated_pair(np.random.default_rng(10**6), 150_000, skills)
    values = [{metric.key: _compared(metric, rows) for metric in METRICS} for rows in (left, right)]
    return {key: values[1][key] - values[0][key] for key in values[0]}


def _compared(metric: BaseMetric, rows: Rows) -> float:
    form = metric.comparison_form(rows.table)
    return form.value() if isinstance(form, Form) else math.nan


@pytest.mark.slow
def test_alike_models_differ_significantly_in_at_most_six_of_a_hundred_worlds() -> None:
    comparisons = worlds((0.4, 0.4))
    alarms = {
        key: float(np.mean([c.pairs[0].deltas[key].p_value <= 0.05 for c in comparisons]))
        for key in comparisons[0].pairs[0].deltas
    }
    any_alarm = float(
        np.mean(
            [
                any(delta.p_adjusted <= 0.05 for delta in c.pairs[0].deltas.values())
                for c in comparisons
            ]
        )
    )
    print("type-I error at nominal 5 %:", alarms, "any, adjusted by max-T:", any_alarm)
    assert max(alarms.values()) <= 0.06
    assert any_alarm <= 0.06


@pytest.mark.slow
def test_intervals_of_a_known_difference_hold_it_as_often_as_they_say() -> None:
    skills = (0.4, -0.2)
    truth = true_deltas(skills)
    held: dict[str, list[bool]] = {key: [] for key in truth}
    for comparison in worlds(skills):
        for key, delta in comparison.pairs[0].deltas.items():
            interval = delta.interval
            if interval is not None:
                held[key].append(interval.low <= truth[key] <= interval.high)
    coverage = {key: float(np.mean(values)) for key, values in held.items() if values}
    print("coverage of 95 % intervals:", coverage, {k: len(v) for k, v in held.items()})
    for key, value in coverage.items():
        assert value >= 0.92, key


LEVELS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])


def leveled_pair(
    generator: np.random.Generator,
    n_rows: int,
    accuracies: tuple[float, float],
    *,
    abstains: float = 0.0,
    alike: float = 0.0,
) -> tuple[Rows, Rows]:
    """Return two models with six levels of confidence.

    With ``alike`` they state the same level of a case, and in this share of the cases the same luck
    decides about both; otherwise nothing connects them.
    """
    truth = generator.random(n_rows) < 0.5
    level, luck = generator.integers(0, 6, n_rows), generator.random(n_rows)
    runs = []
    for accuracy in accuracies:
        own = generator.random(n_rows)
        if alike:
            own = np.where(generator.random(n_rows) < alike, luck, own)
        else:
            level = generator.integers(0, 6, n_rows)
        runs.append(_leveled(generator, truth, level, own, (accuracy, abstains)))
    return runs[0], runs[1]


def _leveled(
    generator: np.random.Generator,
    truth: np.ndarray,
    level: np.ndarray,
    luck: np.ndarray,
    rates: tuple[float, float],
) -> Rows:
    accuracy, abstains = rates
    chance = np.clip(accuracy + 0.4 * (LEVELS[level] - LEVELS.mean()), 0.0, 1.0)
    right = luck < chance
    abstained = generator.random(truth.size) < abstains
    due = {"should_abstain": False} if abstains else {}
    return Rows(
        EvaluationResult(
            int(truth[i] == right[i]),
            int(truth[i]),
            bool(abstained[i]),
            float(LEVELS[level[i]]),
            record_id=str(i),
            metadata=due,
        )
        for i in range(truth.size)
    )


def compared(left: Rows, right: Rows, seed: int, primary: str | None = None) -> Comparison:
    runs = {"a": scored(left), "b": scored(right)}
    return compare_runs(runs, CompareOptions(n_permutations=399, seed=seed, primary=primary))


@pytest.mark.slow
def test_a_difference_of_ten_points_is_found_as_often_as_the_design_allows() -> None:
    # The more two models agree beyond chance, the more their metrics move together, and the less
    # the adjustment costs.
    least = {0.3: (0.42, 0.47), 0.0: (0.35, 0.47)}
    for alike, bounds in least.items():
        adjusted, alone, n_worlds = 0, 0, 600
        for seed in range(n_worlds):
            pair = leveled_pair(np.random.default_rng(seed), 160, (0.8, 0.7), alike=alike)
            delta = compared(*pair, seed).pairs[0].deltas["accuracy"]
            adjusted += delta.p_adjusted <= 0.05
            alone += delta.p_value <= 0.05
        power = (adjusted / n_worlds, alone / n_worlds)
        print("power for accuracy, 160 rows, alike", alike, "adjusted, as primary:", power)
        assert power[0] >= bounds[0]
        assert power[1] >= bounds[1]


@pytest.mark.slow
def test_dropping_answers_by_lot_is_no_significant_difference() -> None:
    same, n_worlds = {"aurc": 0, "augrc": 0}, 300
    for seed in range(n_worlds):
        generator = np.random.default_rng(seed)
        left, _ = leveled_pair(generator, 300, (0.85, 0.85))
        dropped = generator.random(len(left)) < 0.35
        right = Rows(
            replace(row, abstained=True, prediction=None) if drop else row
            for row, drop in zip(left, dropped, strict=True)
        )
        deltas = compared(left, right, seed).pairs[0].deltas
        for key in same:
            same[key] += deltas[key].verdict() == "no significant difference"
    print("no significant difference after dropping 35 % by lot:", same, "of", n_worlds)
    assert min(same.values()) >= 0.93 * n_worlds


@pytest.mark.slow
def test_p_and_interval_of_the_calibration_error_never_contradict_each_other() -> None:
    for seed in range(300):
        pair = leveled_pair(np.random.default_rng(seed), 160, (0.85, 0.85), abstains=0.1)
        for delta in compared(*pair, seed).pairs[0].deltas.values():
            interval = delta.interval
            assert interval is not None
            outside = not interval.low <= 0 <= interval.high
            assert outside == (delta.p_value <= 0.05), delta


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [50, 160, 400])
@pytest.mark.parametrize("accuracy", [0.8, 0.95, 0.98])
def test_null_worlds_alarm_in_at_most_six_of_a_hundred(n_rows: int, accuracy: float) -> None:
    found = []
    for seed in range(400):
        generator = np.random.default_rng(seed)
        pair = leveled_pair(generator, n_rows, (accuracy, accuracy), abstains=0.1)
        found.append(compared(*pair, seed))
    keys = found[0].pairs[0].deltas
    rates = {
        key: float(np.mean([c.pairs[0].deltas[key].p_value <= 0.05 for c in found])) for key in keys
    }
    family = float(
        np.mean([any(d.p_adjusted <= 0.05 for d in c.pairs[0].deltas.values()) for c in found])
    )
    print(n_rows, accuracy, {k: round(v, 3) for k, v in rates.items()}, "family-wise", family)
    # Two standard errors of 400 runs at 6 %.
    assert max(rates.values()) <= 0.06 + 2 * math.sqrt(0.06 * 0.94 / 400)
    assert family <= 0.06 + 2 * math.sqrt(0.06 * 0.94 / 400)
