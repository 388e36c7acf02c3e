"""Risk–coverage figures of many bootstrap resamples at once, from one sort of the items."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from krisis.metrics.risk_coverage import check_coverage

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Added to the counts before anything is accepted, so that 0 / 0 becomes 0 and the first real
# count wipes it out by rounding.
_NOTHING = 1e-300
_LEAST = 0.25  # half of the least weight that an answer can have, that of a pseudo-answer
_REACHED = 1 - 1e-12  # sums of weights differ in their last digits
_PLATEAUS_PER_BLOCK = 64


@dataclass(frozen=True, slots=True, eq=False)
class CurveItems:
    """The predicted items with the cluster of each, and how many items every cluster has."""

    losses: FloatArray
    confidence: FloatArray
    clusters: IntArray
    items_per_cluster: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PseudoAnswers:
    """One answer more in every resample: the item whose confidence it has, its weight and loss."""

    item: IntArray
    weight: FloatArray
    loss: float


def risk_key(coverage: float) -> str:
    """Return the name of the figure that holds the risk at a coverage."""
    return f"risk_at_{coverage:.2f}"


def area_key(area: str, coverage: float) -> str:
    """Return the name of the figure that holds an area up to a coverage."""
    return f"{area}_until_{coverage!r}"


@dataclass(eq=False)
class CurveStatistic:
    """A bootstrap statistic: every figure of a risk–coverage curve, for each column of counts.

    ``coverages`` asks for the risk at these coverages, ``area_coverages`` for areas cut there,
    ``optimal`` for the areas of the best ranking and the excess over them. The risk is that of the
    first working point which covers enough; ``exact`` risks are at the coverage itself.
    """

    items: CurveItems
    coverages: Sequence[float] = ()
    area_coverages: Sequence[float] = ()
    optimal: bool = False
    exact: bool = False
    _plateaus: _PlateauRows = field(init=False)
    _levels: _LossLevels | None = field(init=False)

    def __post_init__(self) -> None:
        for coverage in (*self.coverages, *self.area_coverages):
            check_coverage(coverage)
        self._plateaus = _PlateauRows(self.items)
        self._levels = _LossLevels(self.items) if self.optimal else None

    def __call__(
        self, counts: FloatArray, unseen: PseudoAnswers | None = None
    ) -> dict[str, FloatArray]:
        """Return one value per column for every figure; NaN where nothing was predicted.

        ``unseen`` adds one answer to every column.
        """
        n_items = self.items.items_per_cluster @ counts
        rows = self._plateaus.rows(counts)
        if unseen is not None:
            n_items = n_items + unseen.weight
            rows = self._plateaus.with_one_more(rows, unseen)
        sweep = _Sweep(n_items, self.coverages, self.area_coverages, exact=self.exact)
        for accepted, half_lost in rows:
            sweep.accept(accepted, half_lost)
        figures = sweep.figures()
        if unseen is not None:
            figures["mean_loss"] = sweep.lost / sweep.accepted
        if self._levels is not None:
            figures |= self._levels.areas(counts, n_items, unseen)
            for name in ("aurc", "augrc"):
                figures[f"e{name}"] = figures[name] - figures[f"{name}_optimal"]
        return figures


class _PlateauRows:
    """Yields, plateau by plateau in falling confidence, the items and half of their loss."""

    def __init__(self, items: CurveItems) -> None:
        order = np.argsort(items.confidence, kind="stable")[::-1]
        confidence = items.confidence[order]
        self.clusters, self.half_losses = items.clusters[order], items.losses[order] / 2
        starts = np.concatenate([[True], confidence[1:] != confidence[:-1]])[: order.size]
        self.plateau = np.cumsum(starts) - 1
        self.order = order
        self.n_plateaus = int(np.count_nonzero(starts))
        self.n_clusters = items.items_per_cluster.size

    def rows(self, counts: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        if self.n_plateaus == self.plateau.size:
            return self._single_items(counts)
        return self._grouped_items(counts)

    def with_one_more(
        self, rows: Iterator[tuple[FloatArray, FloatArray]], unseen: PseudoAnswers
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the plateaus with the pseudo-answer of every column where its confidence is."""
        plateau = np.empty(self.order.size, dtype=np.int64)
        plateau[self.order] = self.plateau
        place = plateau[unseen.item]
        columns = np.argsort(place, kind="stable")
        bounds = np.searchsorted(place[columns], np.arange(self.n_plateaus + 1))
        for row, first, last in zip(rows, bounds, bounds[1:], strict=False):
            if last == first:
                yield row
                continue
            accepted, half_lost = (part.copy() for part in row)
            here = columns[first:last]
            accepted[here] += unseen.weight[here]
            half_lost[here] += unseen.weight[here] * unseen.loss / 2
            yield accepted, half_lost

    def _single_items(self, counts: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        half_lost = np.empty(counts.shape[1])
        for cluster, half in zip(self.clusters.tolist(), self.half_losses.tolist(), strict=True):
            accepted = counts[cluster]
            np.multiply(accepted, half, out=half_lost)
            yield accepted, half_lost

    def _grouped_items(self, counts: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        shape = (self.n_plateaus, self.n_clusters)
        place = (self.plateau, self.clusters)
        number = sparse.csr_array((np.ones(self.plateau.size), place), shape=shape)
        half = sparse.csr_array((self.half_losses, place), shape=shape)
        dense = number.nnz > 0.1 * self.n_plateaus * self.n_clusters
        for start in range(0, self.n_plateaus, _PLATEAUS_PER_BLOCK):
            rows = slice(start, start + _PLATEAUS_PER_BLOCK)
            parts = number[rows], half[rows]
            accepted, half_lost = ((part.toarray() if dense else part) @ counts for part in parts)
            yield from zip(accepted, half_lost, strict=True)


class _Sweep:
    """Lowers the threshold plateau by plateau and sums up the areas of all resamples."""

    def __init__(
        self,
        n_items: FloatArray,
        coverages: Sequence[float],
        area_coverages: Sequence[float],
        *,
        exact: bool,
    ) -> None:
        self.n_items = n_items
        width = n_items.size
        self.accepted = np.full(width, _NOTHING)
        self.lost, self.risk = np.zeros(width), np.zeros(width)
        # In items (and twice the area for AURC): divided once, at the end.
        self.aurc, self.augrc = np.zeros(width), np.zeros(width)
        self.next_risk, self.scratch = np.empty(width), np.empty(width)
        self.started = False
        target = _ExactRisk if exact else _RiskTarget
        self.targets = [target(coverage, n_items) for coverage in coverages]
        self.cuts = [_AreaCut(coverage, n_items) for coverage in area_coverages]

    def accept(self, accepted: FloatArray, half_lost: FloatArray) -> None:
        """Accept one plateau: its items and half of their loss, in every resample.

        Half the loss, because the trapezoids of the generalized risk meet the curve halfway.
        """
        if not self.started:
            self._begin(accepted, half_lost)
        self.accepted += accepted
        self.lost += half_lost
        np.multiply(self.lost, accepted, out=self.scratch)
        self.lost += half_lost
        np.divide(self.lost, self.accepted, out=self.next_risk)
        for cut in self.cuts:
            cut.add(self, accepted, half_lost)
        self.augrc += self.scratch
        self.risk += self.next_risk
        self.risk *= accepted
        self.aurc += self.risk
        self.risk, self.next_risk = self.next_risk, self.risk
        if self.targets:
            self._settle_targets(accepted, half_lost)

    def _begin(self, accepted: FloatArray, half_lost: FloatArray) -> None:
        """Give the first plateau of a resample its own risk on its left: the curve starts flat."""
        first = (self.accepted < _LEAST) & (accepted > 0)
        np.divide(2 * half_lost, accepted, out=self.risk, where=first)
        self.started = not bool(((self.accepted < _LEAST) & ~first).any())

    def _settle_targets(self, accepted: FloatArray, half_lost: FloatArray) -> None:
        most, least = float(self.accepted.max()), float(self.accepted.min())
        for target in self.targets:
            if target.lowest <= most and not target.settled:
                target.note(self, accepted, half_lost, least)

    def figures(self) -> dict[str, FloatArray]:
        n_accepted = np.where(self.accepted < _LEAST, np.nan, self.accepted)
        cmax = np.where(self.accepted < _LEAST, 0.0, self.accepted) / self.n_items
        known = n_accepted / n_accepted
        figures = {
            "cmax": cmax,
            "aurc": self.aurc / (2 * self.n_items) * known,
            "augrc": self.augrc / self.n_items**2 * known,
        }
        figures["aurc_normalized"] = figures["aurc"] * self.n_items / n_accepted
        figures["augrc_normalized"] = figures["augrc"] * (self.n_items / n_accepted) ** 2
        figures |= {risk_key(target.coverage): target.risk for target in self.targets}
        for cut in self.cuts:
            aurc, augrc = cut.areas(self)
            figures[area_key("aurc", cut.coverage)] = aurc / (2 * self.n_items) * known
            figures[area_key("augrc", cut.coverage)] = augrc / self.n_items**2 * known
        return figures


class _RiskTarget:
    """The selective risk at the first plateau of each resample that reaches a coverage."""

    def __init__(self, coverage: float, n_items: FloatArray) -> None:
        self.coverage = coverage
        needed = np.ceil(coverage * n_items)
        # The comparison that counts is accepted / items ≥ coverage, as floating point sees it.
        needed = np.where((needed - 1) / n_items >= coverage, needed - 1, needed)
        self.needed = np.where(needed / n_items < coverage, needed + 1, needed)
        self.lowest, self.highest = float(self.needed.min()), float(self.needed.max())
        self.open = np.ones(n_items.size, dtype=np.bool_)
        self.risk = np.full(n_items.size, np.nan)
        self.settled = False

    def note(
        self, sweep: _Sweep, accepted: FloatArray, half_lost: FloatArray, least: float
    ) -> None:
        reached = sweep.accepted >= self.needed
        reached &= self.open
        np.copyto(self.risk, sweep.risk, where=reached)
        self.open ^= reached
        self.settled = least >= self.highest


class _ExactRisk:
    """The selective risk at exactly a coverage c.

    Which answers of a plateau are accepted first is left to chance, so that the loss accepted grows
    linearly over it: at c it is L₀ + ℓ(cN − A₀)/a, with L₀ and A₀ the loss and the answers before
    the plateau, ℓ its loss and a its answers; the risk is that over cN.
    """

    def __init__(self, coverage: float, n_items: FloatArray) -> None:
        self.coverage = coverage
        self.needed = coverage * n_items
        self.lowest = float(self.needed.min()) * _REACHED
        self.open = np.ones(n_items.size, dtype=np.bool_)
        self.risk = np.full(n_items.size, np.nan)
        self.settled = False

    def note(
        self, sweep: _Sweep, accepted: FloatArray, half_lost: FloatArray, least: float
    ) -> None:
        reached = self.open & (sweep.accepted >= self.needed * _REACHED)
        loss = 2 * half_lost[reached]
        beyond = np.maximum(sweep.accepted[reached] - self.needed[reached], 0.0)
        lost = sweep.lost[reached] - loss * beyond / accepted[reached]
        self.risk[reached] = lost / self.needed[reached]
        self.open ^= reached
        self.settled = not self.open.any()


class _AreaCut:
    """The areas up to a coverage; the plateau that crosses it is cut by linear interpolation."""

    def __init__(self, coverage: float, n_items: FloatArray) -> None:
        self.coverage = coverage
        self.limit = coverage * n_items
        self.lowest, self.highest = float(self.limit.min()), float(self.limit.max())
        self.aurc, self.augrc = np.zeros(n_items.size), np.zeros(n_items.size)
        self.crossing = self.settled = False

    def add(self, sweep: _Sweep, accepted: FloatArray, half_lost: FloatArray) -> None:
        """Add the part of the sweep's newest plateau that lies below the limit."""
        if self.settled:
            return
        if not self.crossing and float(sweep.accepted.max()) <= self.lowest:
            return
        before = sweep.accepted - accepted
        if not self.crossing:
            np.copyto(self.aurc, sweep.aurc)
            np.copyto(self.augrc, sweep.augrc)
            self.crossing = True
        width = np.minimum(np.maximum(self.limit - before, 0.0), accepted)
        share = np.divide(width, accepted, out=np.zeros_like(width), where=accepted > 0)
        start = sweep.lost - 2 * half_lost
        self.aurc += width * (2 * sweep.risk + (sweep.next_risk - sweep.risk) * share)
        self.augrc += width * (start + half_lost * share)
        self.settled = float(before.min()) >= self.highest

    def areas(self, sweep: _Sweep) -> tuple[FloatArray, FloatArray]:
        """Return both areas: those of the whole sweep where no resample came so far."""
        return (self.aurc, self.augrc) if self.crossing else (sweep.aurc, sweep.augrc)


class _LossLevels:
    """Areas of the optimal ranking: inside one loss level they are sums of 1/k."""

    def __init__(self, items: CurveItems) -> None:
        self.values, level = np.unique(items.losses, return_inverse=True)
        shape = (self.values.size, items.items_per_cluster.size)
        place = (level, items.clusters)
        self.numbers = sparse.csr_array((np.ones(level.size), place), shape=shape)

    def areas(
        self, counts: FloatArray, n_items: FloatArray, unseen: PseudoAnswers | None
    ) -> dict[str, FloatArray]:
        """Return the optimal areas of every resample."""
        harmonic = self._harmonic(n_items)
        width = counts.shape[1]
        accepted, lost = np.zeros(width), np.zeros(width)
        first = np.full(width, np.nan)
        risks, losses = np.zeros(width), np.zeros(width)
        for value, number in self._levels(counts, unseen):
            done = accepted + number
            # The k-th item of a level leaves the mean risk value + (lost − value·accepted) / k.
            gap = _between(harmonic, done) - _between(harmonic, accepted)
            risks += value * number + (lost - value * accepted) * gap
            losses += number * (lost + value * (number + 1) / 2)
            np.copyto(first, value, where=np.isnan(first) & (number > 0))
            accepted, lost = done, lost + value * number
        with np.errstate(invalid="ignore"):
            final = lost / accepted
        return {
            "aurc_optimal": (risks + (first - final) / 2) / n_items,
            "augrc_optimal": (losses - lost / 2 + 0.0 * first) / n_items**2,
        }

    def _numbers(self, counts: FloatArray) -> Iterator[FloatArray]:
        for start in range(0, self.values.size, _PLATEAUS_PER_BLOCK):
            yield from self.numbers[start : start + _PLATEAUS_PER_BLOCK] @ counts

    def _levels(
        self, counts: FloatArray, unseen: PseudoAnswers | None
    ) -> Iterator[tuple[float, FloatArray]]:
        """Yield every loss, rising, with the number of its items, the pseudo-answer among them."""
        values = self.values.tolist()
        if unseen is None:
            yield from zip(values, self._numbers(counts), strict=True)
            return
        numbers = dict(zip(values, self._numbers(counts), strict=True))
        seen = numbers.get(unseen.loss, np.zeros(counts.shape[1]))
        numbers[unseen.loss] = seen + unseen.weight
        yield from sorted(numbers.items(), key=lambda level: level[0])

    def _harmonic(self, n_items: FloatArray) -> FloatArray:
        most = math.ceil(n_items.max(initial=0.0)) + 1
        return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, most + 1))])


def _between(table: FloatArray, place: FloatArray) -> FloatArray:
    """Return the entries of a table at whole places, and between them on a straight line."""
    whole = place.astype(np.int64)
    part = place - whole
    found: FloatArray = table[whole]
    if part.any():
        found = found + part * (table[np.minimum(whole + 1, table.size - 1)] - found)
    return found
