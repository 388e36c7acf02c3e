"""Selective evaluation: every figure of each variant of one or two runs, with shared resamples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from krisis.errors import InvalidValue
from krisis.metrics.columns import FloatArray
from krisis.metrics.items import ItemLoss, ItemTable, ParticipantId, span_of
from krisis.metrics.resampled_curve import CurveItems, CurveStatistic, area_key, risk_key
from krisis.metrics.risk_coverage import (
    RiskCoverageCurve,
    check_coverage,
    optimal_curve,
    risk_coverage_curve,
)
from krisis.statistics.bootstrap import Bootstrap, BootstrapOptions, Statistic, cluster_bootstrap
from krisis.statistics.intervals import (
    ClusteredShare,
    Interval,
    ReplicateMethod,
    Replicates,
)

DEFAULT_GRID = tuple(step / 10 for step in range(1, 10))
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SelectiveOptions:
    """What is computed: the loss, the coverages asked about, and how intervals are made."""

    loss: ItemLoss = "abs_norm"
    coverages: Sequence[float] = DEFAULT_GRID
    area_coverage: float = 0.5
    bootstrap: BootstrapOptions = field(default_factory=BootstrapOptions)
    method: ReplicateMethod | None = None

    def __post_init__(self) -> None:
        check_coverage(self.area_coverage)
        keys = [coverage_key(check_coverage(coverage)) for coverage in self.coverages]
        if len(set(keys)) < len(keys):
            raise InvalidValue(
                f"two coverages of the grid {list(self.coverages)} are the same to 2 decimals; "
                "keep one of them"
            )

    @property
    def interval_method(self) -> ReplicateMethod:
        """The method named, else what covers; legacy draws repeat published percentiles."""
        if self.method is not None:
            return self.method
        return "percentile" if self.bootstrap.rng == "legacy" else "expanded_percentile"


def coverage_key(coverage: float) -> str:
    """Return the key of a coverage in artifacts."""
    return f"{coverage:.2f}"


@dataclass(eq=False)
class VariantCurve:
    """One variant of one run: its curve, the best possible one, and the bootstrap statistic."""

    table: ItemTable
    confidence: FloatArray
    options: SelectiveOptions
    common_coverage: float | None = None

    @cached_property
    def losses(self) -> FloatArray:
        """The loss of every predicted item."""
        return self.table.losses(self.options.loss)

    @cached_property
    def curve(self) -> RiskCoverageCurve:
        """The risk–coverage curve."""
        return risk_coverage_curve(self.losses, self.confidence, self.table.n_items)

    @cached_property
    def optimal(self) -> RiskCoverageCurve:
        """The curve of a perfect ranking."""
        return optimal_curve(self.losses, self.table.n_items)

    @property
    def cuts(self) -> list[float]:
        """The coverages at which areas are cut."""
        chosen = self.options.area_coverage
        common = self.common_coverage
        return [chosen] if common in (None, chosen) else [chosen, float(common or 0)]

    @cached_property
    def figures(self) -> dict[str, float]:
        """Every figure of the curve."""
        curve, best = self.curve, self.optimal
        figures = {
            "cmax": curve.cmax,
            "aurc": curve.aurc(),
            "augrc": curve.augrc(),
            "aurc_optimal": best.aurc(),
            "augrc_optimal": best.augrc(),
            "eaurc": curve.aurc() - best.aurc(),
            "eaugrc": curve.augrc() - best.augrc(),
            "aurc_normalized": curve.aurc_normalized,
            "augrc_normalized": curve.augrc_normalized,
            "aurc_achievable": curve.achievable().aurc(),
            "augrc_achievable": curve.augrc_achievable(),
        }
        for cut in self.cuts:
            figures[area_key("aurc", cut)] = curve.aurc(cut)
            figures[area_key("augrc", cut)] = curve.augrc(cut)
        for coverage in self.options.coverages:
            found = curve.risk_at(coverage)
            figures[risk_key(coverage)] = math.nan if found is None else found[0]
        return figures

    def statistic(self) -> CurveStatistic:
        """Return the figures as a statistic of resampled participants."""
        items = CurveItems(
            self.losses,
            self.confidence,
            self.table.participant[self.table.predicted],
            self.table.items_per_participant,
        )
        return CurveStatistic(items, self.options.coverages, self.cuts, optimal=True)


@dataclass(eq=False)
class Evaluation:
    """The variants of one or two runs, and the replicates they share."""

    tables: Sequence[ItemTable]
    options: SelectiveOptions
    curves: Mapping[str, Sequence[VariantCurve]]
    absent: Mapping[str, str]
    bootstrap: Bootstrap | None

    @property
    def n_clusters(self) -> int:
        """Count the participants that were resampled."""
        return len(self.tables[0].participants)

    def interval(self, variant: str, position: int, figure: str) -> Interval:
        """Return the interval of a figure of one run."""
        if figure == "cmax" and self.options.interval_method != "percentile":
            return self._cmax_interval(self.tables[position])
        estimate = self.curves[variant][position].figures[figure]
        name = _name(variant, position, figure)
        return self._interval(estimate, lambda values: values.get(name))

    def _cmax_interval(self, table: ItemTable) -> Interval:
        """Return the interval of a share: resamples of 0 or 1 would not move."""
        hits = np.bincount(
            table.participant[table.predicted], minlength=len(table.participants)
        ).astype(np.float64)
        share = ClusteredShare.of(hits, table.items_per_participant)
        return share.interval(level=self.options.bootstrap.level)

    def drop_rate(self, variant: str, position: int, figure: str) -> float:
        """Return the share of resamples on which a figure is undefined."""
        name = _name(variant, position, figure)
        if self.bootstrap is None or name not in self.bootstrap.replicates:
            return math.nan
        return self.bootstrap.drop_rate(name)

    def delta(self, variant: str, figure: str) -> tuple[float, Interval]:
        """Return right − left of a figure and its interval from the same resamples."""
        left, right = (curve.figures[figure] for curve in self.curves[variant])
        names = [_name(variant, position, figure) for position in (0, 1)]

        def difference(values: Mapping[str, FloatArray]) -> FloatArray | None:
            return values[names[1]] - values[names[0]] if set(names) <= set(values) else None

        return right - left, self._interval(right - left, difference)

    def _interval(
        self, estimate: float, pick: Callable[[Mapping[str, FloatArray]], FloatArray | None]
    ) -> Interval:
        level, method = self.options.bootstrap.level, self.options.interval_method
        values = None if self.bootstrap is None else pick(self.bootstrap.replicates)
        if values is None or self.bootstrap is None:
            reason = "this_figure_is_not_resampled" if self.n_clusters else "no_participants"
            return Interval.undefined(reason, level=level, method=method)
        left_out = pick(self.bootstrap.jackknife) if method in ("bca", "jackknife_t") else None
        replicates = Replicates(estimate, values, self.n_clusters, left_out)
        return replicates.interval(method, level=level)


def evaluate(
    tables: Sequence[ItemTable],
    confidences: Mapping[str, Sequence[FloatArray]],
    *,
    options: SelectiveOptions,
    absent: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate every variant on one run, or on two runs of the same participants.

    ``confidences`` holds, per variant, the confidence of the predicted items of each table.
    """
    curves = _curves(tables, confidences, options)
    bootstrap = None
    if tables[0].participants:
        bootstrap = cluster_bootstrap(
            _all_figures(curves),
            len(tables[0].participants),
            options=options.bootstrap,
            progress=progress,
        )
    return Evaluation(tables, options, curves, absent or {}, bootstrap)


def _curves(
    tables: Sequence[ItemTable],
    confidences: Mapping[str, Sequence[FloatArray]],
    options: SelectiveOptions,
) -> dict[str, list[VariantCurve]]:
    common = _common_coverage(tables) if len(tables) > 1 else None
    return {
        variant: [
            VariantCurve(table, confidence, options, common)
            for table, confidence in zip(tables, values, strict=True)
        ]
        for variant, values in confidences.items()
    }


def _common_coverage(tables: Sequence[ItemTable]) -> float | None:
    """Return the coverage that all runs reach; None where one of them predicts nothing."""
    reached = [
        float(np.count_nonzero(table.predicted) / table.n_items) if table.n_items else 0.0
        for table in tables
    ]
    return min(reached) or None


def _name(variant: str, position: int, figure: str) -> str:
    return f"{variant}|{position}|{figure}"


def _all_figures(curves: Mapping[str, Sequence[VariantCurve]]) -> Statistic:
    statistics = {
        (variant, position): curve.statistic()
        for variant, both in curves.items()
        for position, curve in enumerate(both)
    }

    def figures(counts: FloatArray) -> dict[str, FloatArray]:
        return {
            _name(variant, position, figure): values
            for (variant, position), statistic in statistics.items()
            for figure, values in statistic(counts).items()
        }

    return figures


def same_participants(
    left: ItemTable, right: ItemTable, *, intersection_only: bool
) -> tuple[ItemTable, ItemTable]:
    """Return both runs on the participants that succeeded in both, or refuse differing sets."""
    left, right = _on_one_scale(left, right)
    _refuse_other_truth(left, right)
    both = set(left.participants) & set(right.participants)
    if len(both) == len(left.participants) == len(right.participants):
        return left, right
    if not intersection_only:
        raise InvalidValue(
            f"the two runs have {len(left.participants)} and {len(right.participants)} successful "
            f"participants, {len(both)} of them in both; add --intersection-only to compare those"
        )
    if not both:
        raise InvalidValue("the two runs have no successful participant in common")
    return left.restricted(both), right.restricted(both)


def _on_one_scale(left: ItemTable, right: ItemTable) -> tuple[ItemTable, ItemTable]:
    """Return both runs with the same span, or refuse runs of two questionnaires.

    The span of a krisis run is that of the labels seen, so two runs of one suite can differ.
    """
    if left.scale == right.scale or math.isnan(left.scale) or math.isnan(right.scale):
        return left, right
    if left.source.kind == right.source.kind == "krisis_run":
        span = span_of(left.truth, left.prediction, right.truth, right.prediction)
        return replace(left, scale=span), replace(right, scale=span)
    raise InvalidValue(
        f"the scores of the two runs span {left.scale:g} and {right.scale:g}; compare runs of one "
        "questionnaire"
    )


def _refuse_other_truth(left: ItemTable, right: ItemTable) -> None:
    """Refuse runs that disagree about a right answer, as far as items can be told apart."""
    truths = [_truth_of_items(table) for table in (left, right)]
    for (participant, item), truth in truths[0].items():
        other = truths[1].get((participant, item), truth)
        if truth != other:
            place = f"participant {participant}" + (f", item {item}" if item else "")
            raise InvalidValue(
                f"{place} has the right answer {truth:g} in {left.source.path} and {other:g} in "
                f"{right.source.path}; the runs were made on different data"
            )


def _truth_of_items(table: ItemTable) -> dict[tuple[ParticipantId, str], float]:
    """Return the truth of every item; nothing where labels have no order or items no names."""
    owners = [table.participants[code] for code in table.participant.tolist()]
    keys = list(zip(owners, table.item_names, strict=True))
    if math.isnan(table.scale) or len(set(keys)) < len(keys):
        return {}
    return dict(zip(keys, table.truth.tolist(), strict=True))
