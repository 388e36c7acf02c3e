"""What calibrators learn and how good it is: targets, figures with intervals, cross-fitting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from krisis.confidence.models import (
    MODELS,
    N_BINS,
    Method,
    compute_ece,
    log_losses,
    softened,
)
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.calibration import confidence_bin
from krisis.metrics.items import RunItems
from krisis.metrics.table import FloatArray, IntArray
from krisis.statistics.bootstrap import BootstrapOptions, cluster_bootstrap
from krisis.statistics.calibrated_bins import BinnedAnswers
from krisis.statistics.calibration_gap import calibration_gap_interval
from krisis.statistics.intervals import Interval

N_FOLDS = 5

Figures = dict[str, float]
Target = Literal["correctness", "near_correct", "loss"]
TARGETS: tuple[Target, ...] = ("correctness", "near_correct", "loss")


def target_values(run: RunItems, target: Target) -> FloatArray:
    """Return what a calibrator learns for every predicted item."""
    errors: FloatArray = run.errors()
    if target == "correctness":
        return np.asarray(errors == 0, dtype=np.float64)
    if np.isnan(run.scale):
        raise InvalidValue(f"the target {target!r} needs scores with an order; use correctness")
    if target == "near_correct":
        return np.asarray(errors <= 1, dtype=np.float64)
    return np.asarray(1.0 - errors / run.scale)


def figures_of(probability: FloatArray, target: FloatArray) -> Figures:
    """Return log loss, calibration error and Brier score."""
    means = {name: float(loss(probability, target).mean()) for name, loss in _LOSSES.items()}
    return {**means, "ece": compute_ece(probability, target)}


def cross_fitted(
    run: RunItems,
    inputs: FloatArray,
    goal: FloatArray,
    before: FloatArray,
    *,
    method: Method,
    seed: int,
) -> JsonObject:
    """Predict every participant by a model that has not seen any of their items."""
    participant = run.participant[run.predicted]
    present = np.unique(participant)
    n_folds = min(N_FOLDS, present.size)
    if n_folds < 2:
        return {"n_folds": 0, "before": None, "after": None, "reason": "one participant only"}
    shuffled = np.random.default_rng(seed).permutation(present)
    fold_of = np.zeros(int(present.max()) + 1, dtype=np.int64)
    fold_of[shuffled] = np.arange(present.size) % n_folds
    fold = fold_of[participant]
    predicted = np.empty(goal.size)
    for k in range(n_folds):
        model = MODELS[method].fit(inputs[fold != k], softened(goal[fold != k]))
        predicted[fold == k] = model.predict(inputs[fold == k])
    return {
        "n_folds": n_folds,
        "seed": seed,
        "before": figures_of(before, goal),
        "after": figures_of(predicted, goal),
        "intervals": {
            "before": _intervals(before, goal, participant),
            "after": _intervals(predicted, goal, participant),
        },
        "change": {
            name: _change(loss(predicted, goal) - loss(before, goal), participant)
            for name, loss in _LOSSES.items()
        },
        "note": "every participant was predicted by a model fitted on the others",
    }


_LOSSES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "nll": log_losses,
    "brier": lambda probability, target: np.square(probability - target),
}


def _intervals(
    probability: FloatArray, goal: FloatArray, participant: IntArray
) -> dict[str, list[float] | None]:
    """Return 95 % intervals by participant of every figure that has one."""
    found = {
        name: _mean_interval(loss(probability, goal), participant) for name, loss in _LOSSES.items()
    }
    if np.isin(goal, (0.0, 1.0)).all():
        bins = confidence_bin(probability, N_BINS)
        answers = BinnedAnswers(probability, goal == 1, bins, participant)
        found["ece"] = calibration_gap_interval(answers).interval
    return {name: [one.low, one.high] if one.defined else None for name, one in found.items()}


def _change(differences: FloatArray, participant: IntArray) -> JsonObject:
    """Return after − before with its interval and what it shows; lower is better."""
    interval = _mean_interval(differences, participant)
    verdict = "no significant change"
    if interval.defined and not interval.low <= 0 <= interval.high:
        verdict = "worse" if interval.low > 0 else "better"
    ends = [interval.low, interval.high] if interval.defined else None
    return {"delta": float(differences.mean()), "interval": ends, "verdict": verdict}


def _mean_interval(values: FloatArray, participant: IntArray) -> Interval:
    _, code = np.unique(participant, return_inverse=True)
    sums, rows = np.bincount(code, values), np.bincount(code).astype(np.float64)

    def mean(counts: FloatArray) -> dict[str, FloatArray]:
        return {"mean": (sums @ counts) / (rows @ counts)}

    options = BootstrapOptions()
    return cluster_bootstrap(mean, rows.size, options=options).interval("mean")
