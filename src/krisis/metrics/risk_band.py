"""The band of a risk–coverage curve: the interval of the risk at thresholds along it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from krisis.metrics.curve_form import CurvePlan, largest_loss, resampled_intervals, weight_of
from krisis.metrics.forms import Share
from krisis.metrics.risk_coverage import RiskCoverageCurve, risk_coverage_curve
from krisis.metrics.table import FloatArray, IntArray, Loss, Table
from krisis.metrics.weighted_curve import CurveItems, risk_key
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval

# The band has this many points; each costs a look at all rows.
_POINTS, _POINTS_OF_MANY, _MANY = 30, 10, 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BandPoint:
    """One threshold of a curve: what it covers and risks, with intervals by patient.

    ``selective`` is the interval of the risk among the answers kept, ``generalized`` that of the
    loss of the answers kept over all cases.
    """

    threshold: float
    coverage: float
    risk: float
    selective: Interval
    generalized: Interval


def evenly_covering(curve: RiskCoverageCurve, n_points: int) -> IntArray:
    """Return which working points are shown: all, or some that are even in coverage."""
    coverage = curve.coverage
    if coverage.size <= n_points:
        return np.arange(coverage.size)
    return np.unique(np.searchsorted(coverage, np.linspace(coverage[0], coverage[-1], n_points)))


def risk_band(
    table: Table,
    *,
    score: FloatArray | None = None,
    loss: Loss = "error",
    options: BootstrapOptions | None = None,
) -> list[BandPoint]:
    """Return the band of the curve of a table, in the order of rising coverage.

    ``score`` ranks the answers, by default the stated confidence; an answer without a score is not
    kept at any threshold. The loss ``error`` makes each risk a share, whose interval by patient
    allows for errors that were not seen. The risk of a graded loss has the interval of the same
    figure in `krisis selective`, which allows for them too.
    """
    options = options or BootstrapOptions()
    ranked = table.confidence if score is None else score
    known = table.answered & ~np.isnan(ranked)
    curve = risk_coverage_curve(table.losses(loss)[known], ranked[known], table.n_scored)
    n_points = _POINTS if table.n_scored <= _MANY else _POINTS_OF_MANY
    places = evenly_covering(curve, n_points)
    shown = curve.thinned(places)
    intervals = (
        _of_shares(table, ranked, shown, options)
        if loss == "error"
        else _of_graded_losses(table, ranked, shown, loss=loss, options=options)
    )
    return [
        BandPoint(
            threshold=float(shown.threshold[at]),
            coverage=float(shown.coverage[at]),
            risk=float(shown.selective_risk[at]),
            selective=selective,
            generalized=generalized,
        )
        for at, (selective, generalized) in enumerate(intervals)
    ]


def _of_shares(
    table: Table, score: FloatArray, curve: RiskCoverageCurve, options: BootstrapOptions
) -> list[tuple[Interval, Interval]]:
    wrong = table.answered & ~table.correct
    found = []
    for threshold in curve.threshold.tolist():
        with np.errstate(invalid="ignore"):
            kept = table.answered & (score >= threshold)
        selective = Share(wrong, among=kept).uncertainty(table, options).interval
        generalized = Share(wrong & kept, among=table.everyone).uncertainty(table, options).interval
        found.append((selective, generalized))
    return found


def _of_graded_losses(
    table: Table,
    score: FloatArray,
    curve: RiskCoverageCurve,
    *,
    loss: Loss,
    options: BootstrapOptions,
) -> list[tuple[Interval, Interval]]:
    coverage = curve.coverage.tolist()
    plan = CurvePlan(loss, tuple(coverage))
    known = table.answered & ~np.isnan(score)
    pools = table.pools
    items = CurveItems(
        table.losses(loss)[known], score[known], pools.code[known], pools.sums(table.everyone)
    )
    names = [risk_key(share) for share in coverage]
    found = resampled_intervals(
        items,
        dict(zip(names, curve.selective_risk.tolist(), strict=True)),
        plan,
        options=options,
        largest=largest_loss(table, loss),
        weight=weight_of(table, known, options.level),
    )
    # The coverage is that of these cases: the generalized risk is the risk times it.
    return [
        (one, replace(one, low=one.low * share, high=one.high * share))
        for name, share in zip(names, coverage, strict=True)
        for one in [found[name]]
    ]
