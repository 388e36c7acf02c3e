"""Simulation: the shipped 95 % intervals contain the truth about 95 times in 100."""

from __future__ import annotations

import numpy as np
import pytest

from krisis.metrics import (
    AUGRC,
    AURC,
    Accuracy,
    AnswerRate,
    BalancedAccuracy,
    BootstrapOptions,
    BrierScore,
    EvaluationResult,
    ExpectedCalibrationError,
    RiskAtCoverage,
    SelectiveAccuracy,
    score_all,
)

ITEMS_PER_CLUSTER = 8
N_RUNS = 1500
METRICS = [
    Accuracy(),
    BalancedAccuracy(),
    SelectiveAccuracy(),
    AnswerRate(),
    BrierScore(),
    AURC(),
    AUGRC(),
    RiskAtCoverage(),
    ExpectedCalibrationError(),
]


def simulate(n_clusters: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Patients differ in difficulty; the model is overconfident and abstains now and then."""
    shape = (n_clusters, ITEMS_PER_CLUSTER)
    difficulty = rng.normal(0.0, 0.8, size=(n_clusters, 1))
    ease = rng.normal(0.9, 1.2, size=shape) - difficulty
    correct = rng.random(shape) < 1 / (1 + np.exp(-ease))
    stated = 1 / (1 + np.exp(-(1.4 * ease + rng.normal(0.6, 0.8, size=shape))))
    confidence = np.clip(0.5 + stated / 2, 0, 1)
    truth = rng.random(shape) < 0.4
    abstained = rng.random(shape) < 0.2 / (1 + np.exp(ease))
    return truth.ravel(), (truth == correct).ravel(), abstained.ravel(), confidence.ravel()


def rows_of(columns: tuple[np.ndarray, ...]) -> list[EvaluationResult]:
    return [
        EvaluationResult(int(p), int(t), bool(a), float(c), cluster_id=str(i // ITEMS_PER_CLUSTER))
        for i, (t, p, a, c) in enumerate(zip(*columns, strict=True))
    ]


def truths(seed: int) -> dict[str, float]:
    """The figures of an endless run, as far as memory goes."""
    rng = np.random.default_rng(seed)
    parts = [score_all(METRICS, rows_of(simulate(30_000, rng))) for _ in range(4)]
    return {name: float(np.mean([part[name].value for part in parts])) for name in parts[0]}


def coverage(n_clusters: int, n_runs: int, truth: dict[str, float]) -> dict[str, float]:
    rng = np.random.default_rng(n_clusters)
    hits = {metric.name: [] for metric in METRICS}
    for _ in range(n_runs):
        scores = score_all(
            METRICS,
            rows_of(simulate(n_clusters, rng)),
            intervals=BootstrapOptions(n_resamples=1000, seed=int(rng.integers(2**31))),
        )
        for name, score in scores.items():
            interval = score.interval
            if interval is not None and interval.defined:
                hits[name].append(interval.low <= truth[name] <= interval.high)
    return {name: float(np.mean(values)) for name, values in hits.items()}


@pytest.mark.slow
@pytest.mark.parametrize("n_clusters", [15, 40, 120])
def test_shipped_intervals_cover(n_clusters):
    found = coverage(n_clusters, N_RUNS, truths(seed=1))
    print(n_clusters, {name: round(100 * share, 1) for name, share in found.items()})
    error = found.pop("Expected Calibration Error")
    assert error >= 0.85
    outside = {name: share for name, share in found.items() if not 0.92 <= share <= 0.98}
    assert not outside
