"""Penalised logistic regression for two or more classes, and its calibration on left-out folds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

N_FOLDS = 5
_PENALTY = 1.0
_LEAST_SCALE = 1e-12  # equal values have a deviation of a few roundings
_LOG_SHARPNESS = (-10.0, 10.0)


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """Linear scores of standardised columns, one per class; ``weights`` is columns × classes."""

    means: FloatArray
    scales: FloatArray
    weights: FloatArray
    intercepts: FloatArray

    def logits(self, rows: FloatArray) -> FloatArray:
        """Return the score of every class for each row, whose softmax is its probability."""
        scores: FloatArray = (rows - self.means) / self.scales @ self.weights + self.intercepts
        return scores


def fit_logistic(rows: FloatArray, targets: FloatArray) -> LogisticModel:
    """Minimise Σ log loss + |w|²/2 over weights w of standardised columns; intercepts are free.

    ``targets`` is rows × classes, each row a distribution: a class as 0 and 1, or softer. Two
    classes share one column of weights, as in the usual binary regression; more have one each
    (Hastie, Tibshirani and Friedman 2009, 4.4 and 18.3.2). The loss is convex, so that L-BFGS finds
    the same minimum on every machine but for rounding.
    """
    means, scales = standards(rows)
    design = np.column_stack([(rows - means) / scales, np.ones(len(rows))])
    n_classes = targets.shape[1]
    first = 1 if n_classes == 2 else 0  # of two classes, the first keeps the score 0
    shape = design.shape[1], n_classes - first
    penalty = np.diag([*np.full(rows.shape[1], _PENALTY), 0.0])
    # Columns such as x and log x are nearly the same, and the search would creep along a valley. Of
    # two classes the curvature is at most X'X/4 + penalty; in its coordinates the valley is round.
    back = np.linalg.inv(np.linalg.cholesky(design.T @ design / 4 + penalty)).T
    columns, ridge = design @ back, back.T @ penalty @ back

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        beta = parameters.reshape(shape)
        logits = np.zeros(targets.shape)
        logits[:, first:] = columns @ beta
        log_chances = special.log_softmax(logits, axis=1)
        excess = (np.exp(log_chances) - targets)[:, first:]
        value = 0.5 * (beta * (ridge @ beta)).sum() - (targets * log_chances).sum()
        return float(value), (columns.T @ excess + ridge @ beta).ravel()

    best = optimize.minimize(
        loss,
        np.zeros(shape[0] * shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": 1e-9, "ftol": 1e-15},
    )
    beta = np.zeros((design.shape[1], n_classes))
    beta[:, first:] = back @ best.x.reshape(shape)
    return LogisticModel(means, scales, beta[:-1], beta[-1])


def standards(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of each column; one that never moves keeps scale 1."""
    means, scales = rows.mean(axis=0), rows.std(axis=0)
    still = scales < _LEAST_SCALE * np.maximum(1.0, np.abs(means))
    return means, np.where(still | ~np.isfinite(scales), 1.0, scales)


@dataclass(frozen=True, slots=True)
class CalibratedLogistic:
    """Regressions on all folds but one, each with the temperature that fits the fold left out.

    The probability of a class is the mean of theirs. Dividing scores by a temperature does not
    change which class is the most probable (Guo et al. 2017).
    """

    models: list[LogisticModel]
    sharpness: list[float]  # one over the temperature of each model

    @classmethod
    def fit(cls, rows: FloatArray, codes: IntArray) -> CalibratedLogistic:
        """Fit to classes 0, 1, …; a class with one row alone leaves nothing to calibrate with."""
        targets = np.eye(int(codes.max()) + 1)[codes]
        n_folds = min(N_FOLDS, int(np.bincount(codes).min()))
        if n_folds < 2:
            return cls([fit_logistic(rows, targets)], [1.0])
        fold = stratified_folds(codes, n_folds)
        models = [fit_logistic(rows[fold != k], targets[fold != k]) for k in range(n_folds)]
        sharpness = [
            fit_sharpness(model.logits(rows[fold == k]), codes[fold == k])
            for k, model in enumerate(models)
        ]
        return cls(models, sharpness)

    def chances(self, rows: FloatArray) -> FloatArray:
        """Return the probability of each class for every row."""
        fitted = zip(self.models, self.sharpness, strict=True)
        each = [special.softmax(sharp * model.logits(rows), axis=1) for model, sharp in fitted]
        return np.asarray(np.mean(each, axis=0))


def stratified_folds(codes: IntArray, n_folds: int) -> IntArray:
    """Return the fold of each row, so that every fold has nearly the same mix of classes.

    How many rows of a class a fold gets is found by dealing the rows, sorted by class, like cards;
    within a class, the folds are runs of rows in their given order.
    """
    classes, first_seen = np.unique(codes, return_index=True)
    by_appearance = classes[np.argsort(first_seen)]
    dealt = np.concatenate([codes[codes == one] for one in by_appearance])
    fold = np.empty(codes.size, dtype=np.int64)
    for one in classes:
        counts = [int((dealt[k::n_folds] == one).sum()) for k in range(n_folds)]
        fold[codes == one] = np.repeat(np.arange(n_folds), counts)
    return fold


def fit_sharpness(logits: FloatArray, codes: IntArray) -> float:
    """Return the factor on the scores with the least log loss, between e⁻¹⁰ and e¹⁰."""
    given = np.arange(codes.size), codes

    def loss(log_sharpness: float) -> float:
        scores = np.exp(log_sharpness) * logits
        return float((special.logsumexp(scores, axis=1) - scores[given]).mean())

    best = optimize.minimize_scalar(
        loss, bounds=_LOG_SHARPNESS, method="bounded", options={"xatol": 1e-10}
    )
    return float(np.exp(best.x))
