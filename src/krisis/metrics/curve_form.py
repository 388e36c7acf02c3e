"""Figures of the risk–coverage curve as forms: areas and the risk at a coverage."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from krisis.errors import UnknownName
from krisis.metrics.forms import Form, Uncertainty, Weighted, prior_icc, ratio
from krisis.metrics.risk_coverage import (
    RiskCoverageCurve,
    optimal_curve,
    risk_coverage_curve,
)
from krisis.metrics.table import BoolArray, FloatArray, Loss, Table, Units
from krisis.metrics.weighted_curve import (
    CurveItems,
    CurveStatistic,
    PseudoAnswers,
    area_key,
    risk_key,
)
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts
from krisis.statistics.intervals import Interval
from krisis.statistics.pseudo_answer import (
    METHOD,
    N_RESAMPLES,
    RIGHT_WEIGHT,
    FigureRange,
    Lots,
    bootstrap_interval,
    error_weight,
)

# Weighted curves walk every item: beyond this many, confidences are grouped into equal shares of
# the rows and the values shifted by what the grouping changed.
MOST_ITEMS = 20_000
N_GROUPS = 200
_MOST_PLACES = 100
_CELLS_PER_BLOCK = 4_000_000
STANDARD_COVERAGE = 0.8


def curve_of(table: Table, loss: Loss) -> RiskCoverageCurve:
    """Return the risk–coverage curve of a table, by falling confidence."""
    return table.shared(
        ("curve", loss),
        lambda: risk_coverage_curve(
            table.losses(loss)[table.answered], table.confidence[table.answered], table.n_scored
        ),
    )


def items_of(table: Table, loss: Loss, units: Units) -> CurveItems:
    """Return the answered rows with the unit of each and the rows of every unit."""
    answered = table.answered
    return CurveItems(
        table.losses(loss)[answered],
        table.confidence[answered],
        units.code[answered],
        units.sums(table.everyone),
    )


def optimal_of(table: Table, loss: Loss) -> RiskCoverageCurve:
    """Return the curve of a confidence that would rank every answer by its loss."""
    return optimal_curve(table.losses(loss)[table.answered], table.n_scored)


def optimal_areas(table: Table, loss: Loss) -> dict[str, float]:
    """Return AURC and AUGRC of that curve, which is not kept."""

    def build() -> dict[str, float]:
        best = optimal_of(table, loss)
        return {"aurc": best.aurc(), "augrc": best.augrc()}

    return table.shared(("optimal", loss), build)


_FIGURES: dict[str, Callable[[RiskCoverageCurve, Mapping[str, float]], float]] = {
    "cmax": lambda curve, best: curve.cmax,
    "aurc": lambda curve, best: curve.aurc(),
    "augrc": lambda curve, best: curve.augrc(),
    "aurc_normalized": lambda curve, best: curve.aurc_normalized,
    "augrc_normalized": lambda curve, best: curve.augrc_normalized,
    "aurc_optimal": lambda curve, best: best["aurc"],
    "augrc_optimal": lambda curve, best: best["augrc"],
    "eaurc": lambda curve, best: curve.aurc() - best["aurc"],
    "eaugrc": lambda curve, best: curve.augrc() - best["augrc"],
    "aurc_achievable": lambda curve, best: curve.achievable().aurc(),
    "augrc_achievable": lambda curve, best: curve.augrc_achievable(),
}


@dataclass(frozen=True, slots=True)
class CurvePlan:
    """What is asked of a curve: the loss, the coverages of its risks, and where areas are cut.

    The risk is that at exactly a coverage, or else at the first working point that covers as much.
    """

    loss: Loss = "error"
    coverages: tuple[float, ...] = (STANDARD_COVERAGE,)
    cuts: tuple[float, ...] = ()
    exact: bool = True

    def statistic(self, items: CurveItems, *, optimal: bool) -> CurveStatistic:
        """Return the figures of the curve of items under weights."""
        return CurveStatistic(items, self.coverages, self.cuts, optimal=optimal, exact=self.exact)

    def names(self) -> list[str]:
        """Return the names of all figures."""
        areas = [area_key(area, cut) for cut in self.cuts for area in ("aurc", "augrc")]
        return [*_FIGURES, *areas, *map(risk_key, self.coverages)]

    def value(self, name: str, table: Table) -> float:
        """Return one figure of the curve of a table; NaN where it is undefined."""
        curve = curve_of(table, self.loss)
        if name in _FIGURES:
            return _FIGURES[name](curve, optimal_areas(table, self.loss))
        for coverage in self.coverages:
            if name == risk_key(coverage):
                exactly, first = curve.risk_exactly_at(coverage), curve.risk_at(coverage)
                if exactly is None or first is None:
                    return math.nan
                return exactly if self.exact else first[0]
        for cut in self.cuts:
            if name == area_key("aurc", cut):
                return curve.aurc(cut)
            if name == area_key("augrc", cut):
                return curve.augrc(cut)
        raise UnknownName.among("figure of the curve", name, self.names())


class CurveFigure(Form):
    """One figure of the risk–coverage curve of a table."""

    def __init__(self, name: str, table: Table, plan: CurvePlan) -> None:
        self.name, self.plan, self._table = name, plan, table
        self.high = largest_loss(table, plan.loss)

    @property
    def slope(self) -> float:  # type: ignore[override]
        """How far one wrong answer in place of a right one moves the figure, times the answers.

        The mean over where by confidence the answer is: 1 for an AURC, ½ for an AUGRC, less for an
        area that is cut or in excess of the optimal one. Each figure has its own.
        """
        one = Units(np.zeros(self._table.n_scored, dtype=np.int64), 1)
        items = grouped_confidence(items_of(self._table, self.plan.loss, one))
        n = items.losses.size
        if not n or self.name == "cmax":
            return 0.0
        m = min(n, _MOST_PLACES)
        middle = ((np.arange(m) + 0.5) * n / m).astype(np.int64)
        place = np.argsort(-items.confidence, kind="stable")[middle]
        statistic = self.plan.statistic(items, optimal=needs_optimal(self.name))
        wrong, right = (
            statistic(np.ones((1, place.size)), PseudoAnswers(place, np.ones(place.size), loss))[
                self.name
            ]
            for loss in (self.high, 0.0)
        )
        return float(np.abs(wrong - right).mean()) * (n + 1)

    @property
    def curve(self) -> RiskCoverageCurve:
        """The curve that the figure belongs to."""
        return curve_of(self._table, self.plan.loss)

    @property
    def n_evaluated(self) -> int:
        """Count the answers on the curve, up to the coverage for a risk."""
        for coverage in self.plan.coverages:
            if self.name == risk_key(coverage):
                found = self.curve.risk_at(coverage)
                return round(found[1] * self._table.n_scored) if found else 0
        return int(self.curve.n_accepted[-1])

    def value(self) -> float:
        """Return the exact figure."""
        return self.plan.value(self.name, self._table)

    def on(self, units: Units) -> Weighted:
        """Collect the answers by confidence and unit."""
        items = items_of(self._table, self.plan.loss, units)
        grouped = grouped_confidence(items)
        weighted = _WeightedCurve(grouped, self.name, self.plan)
        if grouped is not items:
            weighted.shift = self.value() - float(weighted.values(np.ones((units.n, 1)))[0])
        return weighted

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the interval of the patient bootstrap, one draw for all figures of the curve."""
        plan = self.plan
        names = ["aurc", "augrc", "aurc_normalized", "augrc_normalized"]
        names += map(risk_key, plan.coverages)
        found = table.shared(
            ("curve_intervals", plan, options),
            lambda: curve_intervals(table, plan, names, options=options),
        )
        details: dict[str, object] = {}
        if f"{self.name}_normalized" in found:
            normalized = found[f"{self.name}_normalized"]
            details["normalized_interval"] = [normalized.low, normalized.high]
        return Uncertainty(found[self.name], details)


def curve_intervals(
    table: Table, plan: CurvePlan, names: Sequence[str], *, options: BootstrapOptions
) -> dict[str, Interval]:
    """Return the intervals of named figures, all from one draw of patients."""
    return resampled_intervals(
        items_of(table, plan.loss, table.pools),
        {name: plan.value(name, table) for name in names},
        plan,
        options=options,
        largest=largest_loss(table, plan.loss),
        weight=weight_of(table, table.answered, options.level),
    )


def weight_of(table: Table, among: BoolArray, level: float) -> float:
    """Return the weight of a wrong pseudo-answer among some answers of a table."""
    wrong, rows = (table.patients.sums(rows) for rows in (among & ~table.correct, among))
    return error_weight(wrong, rows, prior_icc=prior_icc(table), level=level)


def resampled_intervals(
    items: CurveItems,
    values: Mapping[str, float],
    plan: CurvePlan,
    *,
    options: BootstrapOptions,
    largest: float,
    weight: float,
) -> dict[str, Interval]:
    """Return the intervals of figures of the curve of some items, around their exact values.

    ``largest`` is the loss of the wrong pseudo-answer and ``weight`` its weight. A resample that
    never reaches a coverage has the risk of all its answers there.
    """
    if not items.losses.size:
        nothing = Interval.undefined("no_answered_rows", level=options.level, method=METHOD)
        return dict.fromkeys(values, nothing)
    n_units = items.items_per_cluster.size
    drawn = replace(options, n_resamples=min(options.n_resamples, N_RESAMPLES))
    grouped = grouped_confidence(items)
    ranked = any(needs_optimal(name) for name in values)
    statistic = plan.statistic(grouped, optimal=ranked)
    lots = Lots.drawn(items.losses.size, drawn)
    half, heavy = np.full(drawn.n_resamples, RIGHT_WEIGHT), np.full(drawn.n_resamples, weight)
    ends = {"below": (half, 0.0), "above": (heavy * lots.factor, largest)}
    if any(map(selective_area, values)):
        ends["above an AURC"] = (heavy, largest)
    found: dict[str, list[Mapping[str, FloatArray]]] = {end: [] for end in ends}
    first = 0
    for counts in resample_counts(n_units, drawn):
        here = slice(first, first + counts.shape[1])
        first = here.stop
        for end, (weights, loss) in ends.items():
            unseen = PseudoAnswers(lots.answer[here], weights[here], loss)
            found[end].append(statistic(counts, unseen))

    def replicates(name: str, end: str) -> FloatArray:
        blocks = [
            np.where(np.isnan(block[name]), block["mean_loss"], block[name]) for block in found[end]
        ]
        return np.concatenate(blocks) + shift[name]

    shift = dict.fromkeys(values, 0.0)
    if grouped is not items:
        near = statistic(np.ones((n_units, 1)))
        shift = {name: value - float(near[name][0]) for name, value in values.items()}
    return {
        name: bootstrap_interval(
            replicates(name, "below"),
            replicates(name, "above an AURC" if selective_area(name) else "above"),
            # The excess of tied answers over a ranking without ties can be below 0.
            FigureRange(value=value, low=-largest if name.startswith("e") else 0.0, high=largest),
            n_units=n_units,
            level=options.level,
        )
        for name, value in values.items()
    }


def selective_area(name: str) -> bool:
    """Tell whether a figure is an area under the selective risk."""
    return "aurc" in name


def needs_optimal(name: str) -> bool:
    """Tell whether the optimal ranking is part of a figure."""
    return "optimal" in name or name.startswith("e")


def largest_loss(table: Table, loss: Loss) -> float:
    """Return the largest loss that an answer can have."""
    return table.answers.span(table.labels) if loss == "abs" else 1.0


def grouped_confidence(items: CurveItems) -> CurveItems:
    """Return very many items with their confidences grouped into equal shares."""
    if items.losses.size <= MOST_ITEMS:
        return items
    edges = np.quantile(items.confidence, np.linspace(0, 1, N_GROUPS + 1)[1:-1])
    level = np.searchsorted(edges, items.confidence).astype(np.float64)
    return CurveItems(items.losses, level, items.clusters, items.items_per_cluster)


class _WeightedCurve(Weighted):
    """A figure of the curve under weights, and the influence of units on the normalised areas."""

    def __init__(self, items: CurveItems, figure: str, plan: CurvePlan) -> None:
        self.figure, self.shift = figure, 0.0
        self._statistic = plan.statistic(items, optimal=needs_optimal(figure))
        levels, plateau = np.unique(-items.confidence, return_inverse=True)
        place = (plateau.astype(np.int64), items.clusters)
        shape = (levels.size, items.items_per_cluster.size)
        self._number = sparse.csr_array((np.ones(plateau.size), place), shape=shape)
        self._loss = sparse.csr_array((items.losses, place), shape=shape)

    def values(self, weights: FloatArray) -> FloatArray:
        return self._statistic(weights)[self.figure] + self.shift

    def influences(self, weights: FloatArray) -> FloatArray | None:
        if not self.figure.endswith("_normalized"):
            return None
        block = max(1, _CELLS_PER_BLOCK // max(self._number.shape))
        parts = [
            self._influences(weights[:, start : start + block])
            for start in range(0, weights.shape[1], block)
        ]
        return np.concatenate(parts, axis=1)

    def _influences(self, weights: FloatArray) -> FloatArray:
        """Return the derivative of the area by the weight of each unit, times that weight.

        An item of loss w on plateau j, where plateau k holds n_k items, A_k and L_k are accepted
        and lost up to it and r_k = L_k / A_k, moves Σ n_k (r_k + r_{k−1}) / 2 by
        (r_j + r_{j−1}) / 2 + Σ_{k ≥ j} m_k (w − r_k) / A_k with m_k = (n_k + n_{k+1}) / 2, and
        Σ n_k (L_k + L_{k−1}) / 2 by (L_j + L_{j−1}) / 2 + w (A − A_j + n_j / 2).
        """
        number, lost = self._number @ weights, self._loss @ weights
        accepted, total_loss = np.cumsum(number, axis=0), np.cumsum(lost, axis=0)
        n_all = accepted[-1]
        if self.figure == "augrc_normalized":
            before = total_loss - lost
            base, coefficient = (total_loss + before) / 2, n_all - accepted + number / 2
            area = ratio((number * base).sum(axis=0), n_all * n_all)
            pull = ratio(self._number.T @ base + self._loss.T @ coefficient, n_all) - (
                2 * self._rows()[:, None] * area
            )
        else:
            base, coefficient, area = _selective_parts(number, accepted, total_loss)
            pull = self._number.T @ base + self._loss.T @ coefficient
            pull -= self._rows()[:, None] * area
        return ratio(weights * pull, n_all)

    def _rows(self) -> FloatArray:
        rows: FloatArray = self._number.sum(axis=0)
        return rows


def _selective_parts(
    number: FloatArray, accepted: FloatArray, lost: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what an item without loss adds, what each unit of loss adds, and AURC / Cmax."""
    reached = accepted > 0
    risk = np.divide(lost, accepted, out=np.zeros_like(lost), where=reached)
    before = np.vstack([risk[:1], risk[:-1]])
    first = reached & (np.vstack([np.zeros_like(accepted[:1]), accepted[:-1]]) <= 0)
    before = np.where(first, risk, before)  # the curve starts flat
    following = np.vstack([number[1:], np.zeros_like(number[:1])])
    middle = (number + following + np.where(first, number, 0.0)) / 2
    share = np.divide(middle, accepted, out=np.zeros_like(middle), where=reached)
    coefficient = np.cumsum(share[::-1], axis=0)[::-1]
    drag = np.cumsum((share * risk)[::-1], axis=0)[::-1]
    mean = (risk + before) / 2
    area = ratio((number * mean).sum(axis=0), accepted[-1])
    return mean - drag, coefficient, area


def answered_without_confidence(table: Table) -> BoolArray:
    """Return which answered rows have no confidence to be ranked by."""
    without: BoolArray = table.answered & np.isnan(table.confidence)
    return without
