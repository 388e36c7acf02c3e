"""The risk–coverage curve: what is lost, and on how many items, at each level of confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krisis.display import Documented, format_value
from krisis.errors import InvalidValue

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Space = Literal["selective", "generalized"]


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverageCurve(Documented):
    """Working points in the order of falling confidence; one per distinct confidence.

    ``n_accepted`` and ``loss_accepted`` count the items and sum the losses accepted at each
    working point; ``n_items`` also counts the items without a prediction.
    """

    builder: ClassVar[str] = "krisis.pages.risk_coverage:curve_document"

    n_items: int
    n_accepted: IntArray
    loss_accepted: FloatArray
    threshold: FloatArray

    def __repr__(self) -> str:
        areas = f"AURC {format_value(self.aurc())}, AUGRC {format_value(self.augrc())}"
        return (
            f"RiskCoverageCurve({self.n_accepted.size:,} working points, {self.n_items:,} items, "
            f"Cmax {format_value(self.cmax)}, {areas})"
        )

    @property
    def coverage(self) -> FloatArray:
        """The share of all items that is accepted."""
        return self.n_accepted / self.n_items

    @property
    def selective_risk(self) -> FloatArray:
        """The mean loss of the accepted items."""
        return self.loss_accepted / self.n_accepted

    @property
    def generalized_risk(self) -> FloatArray:
        """The loss of the accepted items as a share of all items."""
        return self.loss_accepted / self.n_items

    @property
    def cmax(self) -> float:
        """The coverage at which everything predicted is accepted; NaN without items."""
        if self.n_items == 0:
            return math.nan
        return float(self.n_accepted[-1] / self.n_items) if self.n_accepted.size else 0.0

    def aurc(self, max_coverage: float | None = None) -> float:
        """Return the area under the selective risk; NaN when nothing was predicted.

        Trapezoids over [0, Cmax], the risk at 0 being that of the first working point; with
        ``max_coverage`` the curve is cut there by linear interpolation.
        """
        if self.n_accepted.size == 0:
            return math.nan
        risk = self.selective_risk
        return self._area(risk, float(risk[0]), max_coverage)

    def augrc(self, max_coverage: float | None = None) -> float:
        """Return the area under the generalized risk, which is 0 at coverage 0."""
        if self.n_accepted.size == 0:
            return math.nan
        return self._area(self.generalized_risk, 0.0, max_coverage)

    @property
    def aurc_normalized(self) -> float:
        """AURC / Cmax: the area as if every item had been predicted."""
        return self.aurc() / self.cmax if self.n_accepted.size else math.nan

    @property
    def augrc_normalized(self) -> float:
        """AUGRC / Cmax²: the area as if every item had been predicted."""
        return self.augrc() / self.cmax**2 if self.n_accepted.size else math.nan

    def risk_at(self, coverage: float) -> tuple[float, float] | None:
        """Return (selective risk, achieved coverage) at the first working point that covers enough.

        None where even accepting everything predicted covers less.
        """
        check_coverage(coverage)
        reached = self.coverage
        index = int(np.searchsorted(reached, coverage, side="left"))
        if index == reached.size:
            return None
        return float(self.selective_risk[index]), float(reached[index])

    def risk_exactly_at(self, coverage: float) -> float | None:
        """Return the selective risk of the most confident answers that cover exactly a coverage.

        Within a plateau of equal confidence the loss accepted grows linearly, as if its answers
        were accepted in random order. None where everything predicted covers less.

        >>> curve = risk_coverage_curve([0] * 30 + [1] * 6 + [0] * 24, [2] * 30 + [1] * 30, 60)
        >>> curve.risk_at(0.75), round(curve.risk_exactly_at(0.75), 3)
        ((0.1, 1.0), 0.067)
        """
        check_coverage(coverage)
        n = self.n_items * coverage
        if not self.n_accepted.size or n > self.n_accepted[-1] * (1 + 1e-12):
            return None
        accepted, lost = np.append(0, self.n_accepted), np.append(0.0, self.loss_accepted)
        return float(np.interp(n, accepted, lost)) / n

    def achievable(self, space: Space = "selective") -> RiskCoverageCurve:
        """Return the curve through the working points on the lower convex hull only.

        The first and the last point are always kept. Choosing between two working points by lot
        moves along a straight line in generalized risk, not in selective risk: there the hull
        shows which thresholds are worth using, not a risk that a mixture would reach.
        """
        if self.n_accepted.size <= 2:
            return self
        risk = self.selective_risk if space == "selective" else self.loss_accepted
        return self.thinned(_lower_hull(self.n_accepted.astype(np.float64), risk))

    def thinned(self, kept: IntArray) -> RiskCoverageCurve:
        """Return the curve through some of the working points."""
        return RiskCoverageCurve(
            self.n_items, self.n_accepted[kept], self.loss_accepted[kept], self.threshold[kept]
        )

    def augrc_achievable(self) -> float:
        """Return the area under the lower convex hull of the generalized risk, origin included."""
        if self.n_accepted.size == 0:
            return math.nan
        x = np.concatenate([[0.0], self.coverage])
        y = np.concatenate([[0.0], self.generalized_risk])
        kept = _lower_hull(x, y)
        return float(np.trapezoid(y[kept], x[kept]))

    def _area(self, height: FloatArray, first: float, max_coverage: float | None) -> float:
        """Integrate in units of items, so that nothing is rounded before the end."""
        if max_coverage is not None:
            return self._area_until(height, first, check_coverage(max_coverage))
        ends = float(height[0]), float(height[-1])
        total = float(self.n_accepted[0]) * (first + ends[0]) / 2
        if self.n_accepted.size == self.n_accepted[-1]:
            total += float(height.sum()) - (ends[0] + ends[1]) / 2  # every step is one item
        else:
            widths = np.diff(self.n_accepted).astype(np.float64)
            total += (float(widths @ height[1:]) + float(widths @ height[:-1])) / 2
        return total / self.n_items

    def _area_until(self, height: FloatArray, first: float, limit: float) -> float:
        x = np.concatenate([[0.0], self.coverage])
        y = np.concatenate([[first], height])
        inside = int(np.searchsorted(x, min(limit, float(x[-1])), side="right"))
        area = float(np.trapezoid(y[:inside], x[:inside]))
        if inside == x.size:
            return area
        x0, y0 = float(x[inside - 1]), float(y[inside - 1])
        slope = (float(y[inside]) - y0) / (float(x[inside]) - x0)
        return area + (limit - x0) * (y0 + slope * (limit - x0) / 2)


def spread_evenly(n_points: int, most: int) -> IntArray:
    """Return which of very many points are shown, both ends among them; all where they are few.

    >>> spread_evenly(9, 3).tolist(), spread_evenly(2, 3).tolist()
    ([0, 4, 8], [0, 1])
    """
    return np.unique(np.linspace(0, n_points - 1, min(n_points, most)).astype(np.int64))


def check_coverage(coverage: float) -> float:
    """Return a coverage above 0 and at most 1."""
    if not 0.0 < coverage <= 1.0:
        raise InvalidValue(f"a coverage must be above 0 and at most 1, not {coverage!r}")
    return float(coverage)


def risk_coverage_curve(
    losses: ArrayLike, confidence: ArrayLike, n_items: int
) -> RiskCoverageCurve:
    """Return the curve of the predicted items among ``n_items`` items.

    Equal confidences are one working point: no threshold can tell them apart.

    >>> curve = risk_coverage_curve([0, 2, 0], [2, 2, 1], 4)
    >>> curve.coverage.tolist(), curve.generalized_risk.tolist()
    ([0.5, 0.75], [0.5, 0.5])
    >>> round(curve.aurc(), 6), curve.augrc()
    (0.708333, 0.25)
    """
    loss = _finite("losses", losses)
    level = _finite("confidence", confidence)
    if loss.shape != level.shape:
        raise InvalidValue(
            f"{loss.size} losses came with {level.size} confidences; give one of each per "
            "predicted item"
        )
    _check_items(loss.size, n_items)
    order = np.argsort(level)[::-1]
    level, total = level[order], np.cumsum(loss[order])
    last = np.append(np.flatnonzero(level[1:] != level[:-1]), np.arange(level.size)[-1:])
    return RiskCoverageCurve(n_items, last + 1, total[last], level[last])


def optimal_curve(losses: ArrayLike, n_items: int) -> RiskCoverageCurve:
    """Return the curve of a confidence that ranks every item by its loss, none tied.

    The items without a prediction stay in ``n_items``, so the curve has the Cmax of the original.
    """
    loss = np.sort(_finite("losses", losses))
    _check_items(loss.size, n_items)
    return RiskCoverageCurve(n_items, np.arange(1, loss.size + 1), np.cumsum(loss), -loss)


def _finite(name: str, values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise InvalidValue(f"{name} must be one list of numbers, not {array.ndim}-dimensional")
    # One pass: a sum is finite unless a term is not (or huge terms overflow, which is checked).
    if not math.isfinite(float(array.sum())) and not np.isfinite(array).all():
        index = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidValue(
            f"{name}[{index}] is {array[index]}; every predicted item needs a finite number"
        )
    return array


def _check_items(n_predicted: int, n_items: int) -> None:
    if n_items < n_predicted:
        raise InvalidValue(
            f"n_items is {n_items} but {n_predicted} items are predicted; count all items, "
            "with and without a prediction"
        )


def _lower_hull(x: FloatArray, y: FloatArray) -> IntArray:
    """Return the indices of the lower convex hull of points with rising x, both ends kept.

    A point on or above the chord of its neighbours is no corner of the hull, so all such points
    leave at once, until none is left.
    """
    kept = np.arange(x.size)
    while kept.size > 2:
        px, py = x[kept], y[kept]
        turn = (px[1:-1] - px[:-2]) * (py[2:] - py[:-2]) - (py[1:-1] - py[:-2]) * (px[2:] - px[:-2])
        corner = turn > 0
        if corner.all():
            break
        kept = kept[np.concatenate([[True], corner, [True]])]
    return kept
