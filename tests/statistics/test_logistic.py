"""Logistic regression and its calibration: by hand, by its gradient and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from krisis.statistics.logistic import (
    CalibratedLogistic,
    fit_logistic,
    fit_sharpness,
    standards,
    stratified_folds,
)


def sample(n_classes, n=240, seed=3):
    """Return rows with a column that never moves and two that are nearly the same, and classes."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    rows = np.column_stack([rows, np.exp(rows[:, 0] / 50), np.full(n, 1e6)])
    scores = rows[:, :3] @ rng.normal(size=(3, n_classes)) + rng.gumbel(size=(n, n_classes))
    return rows, scores.argmax(axis=1)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_gradient_vanishes_where_the_fit_ends(n_classes):
    rows, codes = sample(n_classes)
    targets = np.eye(n_classes)[codes]
    model = fit_logistic(rows, targets)
    chances = np.exp(model.logits(rows))
    excess = chances / chances.sum(axis=1, keepdims=True) - targets
    gradient = ((rows - model.means) / model.scales).T @ excess
    if n_classes == 2:
        assert (model.weights[:, 0] == 0).all()
        gradient = gradient[:, 1:]
    assert np.abs(gradient + model.weights[:, -gradient.shape[1] :]).max() < 1e-5
    assert np.abs(excess.sum(axis=0)).max() < 1e-5


def test_without_columns_the_chances_are_the_shares_of_the_classes():
    codes = np.array([0] * 6 + [1] * 3 + [2] * 1)
    model = CalibratedLogistic.fit(np.empty((10, 0)), codes)
    assert model.chances(np.empty((1, 0)))[0] == pytest.approx([0.6, 0.3, 0.1], abs=1e-6)


def test_a_column_that_never_moves_is_not_scaled():
    means, scales = standards(np.array([[1.0, 1e6], [3.0, 1e6]]))
    assert (means.tolist(), scales.tolist()) == ([2.0, 1e6], [1.0, 1.0])


def test_folds_share_out_every_class():
    codes = np.array([1, 0, 0, 1, 0, 0, 0, 1])
    assert stratified_folds(codes, 2).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert stratified_folds(codes, 3).tolist() == [0, 0, 0, 1, 1, 1, 2, 2]


def test_scores_that_are_too_sharp_are_softened():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3))
    codes = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    assert fit_sharpness(4 * logits, codes) == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_fit_is_that_of_scikit_learn(n_classes):
    linear = pytest.importorskip("sklearn.linear_model")
    rows, codes = sample(n_classes)
    model = fit_logistic(rows, np.eye(n_classes)[codes])
    standardised = (rows - model.means) / model.scales
    oracle = linear.LogisticRegression(max_iter=10_000, tol=1e-10).fit(standardised, codes)
    expected = oracle.coef_[0] if n_classes == 2 else oracle.coef_.T
    weights = model.weights[:, 1] if n_classes == 2 else model.weights
    assert weights == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("n_classes", "rarest"), [(2, 40), (3, 20), (4, 3)])
def test_calibrated_chances_are_those_of_scikit_learn(n_classes, rarest):
    pytest.importorskip("sklearn")
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, codes = sample(n_classes)
    kept = (codes > 0) | (np.cumsum(codes == 0) <= rarest)
    rows, codes = rows[kept], codes[kept]
    oracle = CalibratedClassifierCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=10_000, tol=1e-10)),
        method="temperature",
        cv=min(5, int(np.bincount(codes).min())),
    ).fit(rows, codes)
    chances = CalibratedLogistic.fit(rows, codes).chances(rows)
    assert chances == pytest.approx(oracle.predict_proba(rows), abs=1e-4)
