"""Simulated models compared: no false alarms beyond 5 %, and intervals that hold the truth."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from krisis.metrics import default_benchmark_metrics
from krisis.metrics.base import BaseMetric, EvaluationResult, Rows
from krisis.metrics.forms import Form
from krisis.results.comparison.compare import CompareOptions, Comparison, compare_runs
from krisis.results.result import BenchmarkResult

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
        runs = {"a": BenchmarkResult(left, {}, {}), "b": BenchmarkResult(right, {}, {})}
        options = CompareOptions(n_permutations=399, seed=seed)
        found.append(compare_runs(runs, options))
    return found


@cache
def true_deltas(skills: tuple[float, float]) -> dict[str, float]:
    left, right = simulated_pair(np.random.default_rng(10**6), 150_000, skills)
    values = [
        {metric.key: _compared(metric, rows) for metric in default_benchmark_metrics()}
        for rows in (left, right)
    ]
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
