"""Rules that say which answers to accept by cost: the best threshold, cross-fitted, and Chow's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from krisis.decisions.costs import CostTable
from krisis.decisions.population import Population, answers_of
from krisis.errors import InvalidValue
from krisis.metrics.items import RunItems
from krisis.metrics.labels import Label
from krisis.metrics.table import BoolArray, FloatArray, IntArray


def accepts(score: FloatArray, threshold: float | None) -> BoolArray:
    """True where a row is answered at a threshold; None defers everything, and so does no score."""
    if threshold is None:
        return np.zeros(score.size, dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        return np.asarray(score >= threshold)


def best_threshold(score: FloatArray, extra: FloatArray) -> float | None:
    """Return the threshold with the least cost; None is to defer everything.

    ``extra`` is what answering a row costs beyond deferring it, times its weight. Of thresholds
    with equal costs the strictest is taken.

    >>> best_threshold(np.array([0.9, 0.8, 0.7]), np.array([-2.0, 1.0, -3.0]))
    0.7
    """
    scored = np.flatnonzero(~np.isnan(score))
    order = scored[np.argsort(-score[scored], kind="stable")]
    ranked = score[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))[: order.size]
    total = np.append(0.0, np.cumsum(extra[order])[last])
    chosen = int(np.argmin(total))
    return None if chosen == 0 else float(ranked[last[chosen - 1]])


def cross_fitted(
    score: FloatArray, extra: FloatArray, patient: IntArray, *, n_folds: int, seed: int
) -> BoolArray:
    """Accept the rows of each fold of patients by the threshold that the other folds choose."""
    n_patients = int(patient.max()) + 1
    fold = np.random.default_rng(seed).permutation(n_patients) % min(n_folds, n_patients)
    accepted = np.zeros(score.size, dtype=np.bool_)
    for k in range(min(n_folds, n_patients)):
        held_out = fold[patient] == k
        threshold = best_threshold(np.where(held_out, math.nan, score), extra)
        accepted |= held_out & accepts(score, threshold)
    return accepted


@dataclass(frozen=True, slots=True, eq=False)
class ChowRule:
    """The rows that Chow's rule accepts, and for each answer the probability from which it does.

    ``reason`` says why there is no rule. A threshold of 0 is always, of NaN never.
    """

    accepted: BoolArray
    thresholds: Mapping[Label, float] = field(default_factory=dict)
    reason: str = ""


def chow_rule(
    run: RunItems, costs: CostTable, score: FloatArray, population: Population
) -> ChowRule:
    """Answer where the expected cost of answering is below that of deferring.

    With p the probability of the answer a, π the shares of the truths, q_t = π_t / (1 − π_a) for
    the other truths t, c the costs of answers and d those of deferring, an answer is accepted
    where p·c(a, a) + (1 − p)·Σ q_t·c(t, a) < p·d(a) + (1 − p)·Σ q_t·d(t) + n, n being the cost of
    a needless deferral times the share of rows in which deferral is not due.

    Reference: Chow, On optimum recognition error and reject tradeoff, IEEE Transactions on
    Information Theory 16 (1970) 41–46.
    """
    nothing = np.zeros(score.size, dtype=np.bool_)
    scored = ~np.isnan(score)
    if not scored.any():
        return ChowRule(nothing, reason="no answer has a score")
    if score[scored].min() < 0 or score[scored].max() > 1:
        reason = "the score lies beyond 0 and 1, so it is no probability; add --calibration"
        return ChowRule(nothing, reason=reason)
    table = run.table
    needless = costs.needless_deferral * population.mean((table.should_abstain == 0) * 1.0)
    accepted, thresholds = nothing.copy(), dict[Label, float]()
    seen = {table.labels[code]: code for code in np.unique(table.prediction[scored]) if code >= 0}
    for answer in (label for label in answers_of(run) if label in seen):
        try:
            right, wrong = _beyond_deferring(run, costs, answer, population)
        except InvalidValue as error:
            return ChowRule(nothing, reason=str(error))
        rows = scored & (table.prediction == seen[answer])
        p = score[rows]
        accepted[rows] = p * right + (1 - p) * wrong < needless
        thresholds[answer] = _from_where(right - needless, wrong - needless)
    return ChowRule(accepted, thresholds)


def _beyond_deferring(
    run: RunItems, costs: CostTable, answer: Label, population: Population
) -> tuple[float, float]:
    """Return what an answer costs beyond deferring where it is right, and where it is wrong."""
    table = run.table
    share = {
        label: population.mean((table.truth == code) * 1.0)
        for code, label in enumerate(table.labels)
    }
    others = [label for label in answers_of(run) if label != answer]
    rest = sum(share.get(label, 0.0) for label in others)
    wrong = 0.0
    for truth in others:
        q = share.get(truth, 0.0) / rest if rest else 1 / len(others)
        if q:
            wrong += q * (costs.of(truth, answer) - costs.deferral(truth))
    return costs.of(answer, answer) - costs.deferral(answer), wrong


def _from_where(right: float, wrong: float) -> float:
    """Return the p above which p · right + (1 − p) · wrong < 0; 0 is always and NaN never."""
    if wrong < 0 and right < 0:
        return 0.0
    return wrong / (wrong - right) if right < 0 <= wrong else math.nan
