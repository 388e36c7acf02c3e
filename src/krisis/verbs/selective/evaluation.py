"""Selective evaluation: every figure of each variant of one or two runs, with shared resamples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from krisis.errors import InvalidValue
from krisis.metrics.curve_form import (
    CurveFigure,
    CurvePlan,
    curve_intervals,
    curve_of,
    items_of,
)
from krisis.metrics.forms import Form, Share
from krisis.metrics.items import RunItems
from krisis.metrics.paired import Exchanges, PairedDifference, paired_differences
from krisis.metrics.risk_coverage import RiskCoverageCurve, check_coverage
from krisis.metrics.table import FloatArray, Label, Loss, Table, Units
from krisis.metrics.weighted_curve import CurveStatistic
from krisis.statistics.bootstrap import Bootstrap, BootstrapOptions, Statistic, cluster_bootstrap
from krisis.statistics.intervals import Interval, ReplicateMethod, Replicates
from krisis.statistics.shares import share_interval

DEFAULT_GRID = tuple(step / 10 for step in range(1, 10))
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SelectiveOptions:
    """What is computed: the loss, the coverages asked about, and how intervals are made."""

    loss: Loss = "abs_norm"
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
    def replicate_method(self) -> ReplicateMethod | None:
        """The bootstrap method named; legacy draws repeat published percentiles.

        None stands for the intervals that allow for errors which were not seen.
        """
        if self.method is not None:
            return self.method
        return "percentile" if self.bootstrap.rng == "legacy" else None


def coverage_key(coverage: float) -> str:
    """Return the key of a coverage in artifacts."""
    return f"{coverage:.2f}"


@dataclass(eq=False)
class VariantCurve:
    """One variant of one run: its curve, the best possible one, and the bootstrap statistic."""

    run: RunItems
    confidence: FloatArray
    options: SelectiveOptions
    common_coverage: float | None = None

    @cached_property
    def table(self) -> Table:
        """The table of the run, ranked by this variant."""
        return self.run.with_confidence(self.confidence)

    @property
    def losses(self) -> FloatArray:
        """The loss of every predicted item."""
        return self.run.losses(self.options.loss)

    @cached_property
    def curve(self) -> RiskCoverageCurve:
        """The risk–coverage curve."""
        return curve_of(self.table, self.options.loss)

    @property
    def cuts(self) -> list[float]:
        """The coverages at which areas are cut."""
        chosen = self.options.area_coverage
        common = self.common_coverage
        return [chosen] if common in (None, chosen) else [chosen, float(common or 0)]

    @property
    def plan(self) -> CurvePlan:
        """What is asked of the curve."""
        coverages = tuple(self.options.coverages)
        return CurvePlan(self.options.loss, coverages, tuple(self.cuts), exact=False)

    @cached_property
    def figures(self) -> dict[str, float]:
        """Every figure of the curve."""
        return {name: self.plan.value(name, self.table) for name in self.plan.names()}

    def statistic(self) -> CurveStatistic:
        """Return the figures as a statistic of resampled patients."""
        legacy = self.options.bootstrap.rng == "legacy"
        patients = _published_numbers(self.table) if legacy else self.table.patients
        items = items_of(self.table, self.options.loss, patients)
        return CurveStatistic(items, self.options.coverages, self.cuts, optimal=True)

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """The intervals of all figures that can be resampled, from one draw."""
        resampled = [name for name in self.figures if not name.endswith((*NOT_RESAMPLED, "cmax"))]
        return curve_intervals(self.table, self.plan, resampled, options=self.options.bootstrap)


@dataclass(eq=False)
class Evaluation:
    """The variants of one or two runs, and the replicates they share."""

    runs: Sequence[RunItems]
    options: SelectiveOptions
    curves: Mapping[str, Sequence[VariantCurve]]
    absent: Mapping[str, str]
    bootstrap: Bootstrap | None

    @property
    def n_clusters(self) -> int:
        """Count the patients that were scored."""
        return len(self.runs[0].participants)

    @property
    def without_intervals(self) -> bool:
        """Tell whether only points were wanted."""
        return self.options.bootstrap.n_resamples == 0

    def interval(self, variant: str, position: int, figure: str) -> Interval:
        """Return the interval of a figure of one run."""
        run = self.curves[variant][position]
        if self.options.replicate_method is not None:
            name = _name(variant, position, figure)
            return self._replicated(run.figures[figure], lambda values: values.get(name))
        reason = self._obstacle(run.figures[figure], figure)
        if reason:
            return Interval.undefined(reason, level=self.options.bootstrap.level)
        return _cmax_interval(run) if figure == "cmax" else run.intervals[figure]

    def _obstacle(self, estimate: float, figure: str) -> str:
        if not self.n_clusters:
            return "no_participants"
        if figure.endswith(NOT_RESAMPLED):
            return "this_figure_is_not_resampled"
        if self.without_intervals:
            return "no_resamples_wanted"
        return "the_figure_is_undefined" if math.isnan(estimate) else ""

    def drop_rate(self, variant: str, position: int, figure: str) -> float:
        """Return the share of resamples on which a figure is undefined."""
        if self.options.replicate_method is None:
            return float(math.isnan(self.curves[variant][position].figures[figure]))
        if self.bootstrap is None:
            return math.nan
        name = _name(variant, position, figure)
        known = name in self.bootstrap.replicates
        return self.bootstrap.drop_rate(name) if known else math.nan

    def delta(self, variant: str, figure: str) -> tuple[float, Interval]:
        """Return right − left of a figure and its interval, on the same patients."""
        left, right = (curve.figures[figure] for curve in self.curves[variant])
        if self.options.replicate_method is None:
            reason = self._obstacle(right - left, figure)
            if reason:
                return right - left, Interval.undefined(reason, level=self.options.bootstrap.level)
            return right - left, self._exchanged[variant][figure].interval
        names = [_name(variant, position, figure) for position in (0, 1)]

        def difference(values: Mapping[str, FloatArray]) -> FloatArray | None:
            return values[names[1]] - values[names[0]] if set(names) <= set(values) else None

        return right - left, self._replicated(right - left, difference)

    @cached_property
    def _exchanged(self) -> dict[str, dict[str, PairedDifference]]:
        """The differences of all figures, each tested by exchanging patients."""
        return {variant: self._paired(both) for variant, both in self.curves.items()}

    def _paired(self, both: Sequence[VariantCurve]) -> dict[str, PairedDifference]:
        left, right = both
        known = [
            name
            for name, value in left.figures.items()
            if not math.isnan(right.figures[name] - value) and not name.endswith(NOT_RESAMPLED)
        ]
        forms = {name: _figure_form(name, left) for name in known}
        options = self.options.bootstrap
        exchanges = Exchanges(min(options.n_resamples, 1999), options.seed, options.level)
        return paired_differences(left.table, right.table, forms, exchanges=exchanges)[0]

    def _replicated(
        self, estimate: float, pick: Callable[[Mapping[str, FloatArray]], FloatArray | None]
    ) -> Interval:
        level, method = self.options.bootstrap.level, self.options.replicate_method or "percentile"
        values = None if self.bootstrap is None else pick(self.bootstrap.replicates)
        if values is None or self.bootstrap is None:
            reason = "this_figure_is_not_resampled" if self.n_clusters else "no_participants"
            reason = "no_resamples_wanted" if self.without_intervals else reason
            return Interval.undefined(reason, level=level, method=method)
        replicates = Replicates(estimate, values, self.n_clusters)
        return replicates.interval(method, level=level)


NOT_RESAMPLED = ("_achievable",)


def _cmax_interval(run: VariantCurve) -> Interval:
    patients = run.table.patients
    return share_interval(
        patients.sums(run.table.answered),
        patients.sums(run.table.everyone),
        level=run.options.bootstrap.level,
    )


def _published_numbers(table: Table) -> Units:
    """Number the patients as published intervals do: whole numbers by their value, not as text."""
    names, patients = table.patient_names, table.patients
    if not all(name.isdecimal() for name in names):
        return patients
    number = np.empty(patients.n, dtype=np.int64)
    number[sorted(range(patients.n), key=lambda code: int(names[code]))] = np.arange(patients.n)
    return Units(number[patients.code], patients.n)


def _figure_form(name: str, run: VariantCurve) -> Callable[[Table], Form]:
    plan = run.plan
    if name == "cmax":  # a share, which is there also where nothing was predicted
        return lambda table: Share(table.answered, among=table.everyone)
    return lambda table: CurveFigure(name, table, plan)


def evaluate(
    runs: Sequence[RunItems],
    confidences: Mapping[str, Sequence[FloatArray]],
    *,
    options: SelectiveOptions,
    absent: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate every variant on one run, or on two runs of the same patients.

    ``confidences`` holds, per variant, the confidence of the predicted items of each run.
    """
    curves = _curves(runs, confidences, options)
    bootstrap = None
    wanted = options.replicate_method is not None and options.bootstrap.n_resamples > 0
    if runs[0].participants and wanted:
        bootstrap = cluster_bootstrap(
            _all_figures(curves),
            len(runs[0].participants),
            options=options.bootstrap,
            progress=progress,
        )
    return Evaluation(runs, options, curves, absent or {}, bootstrap)


def _curves(
    runs: Sequence[RunItems],
    confidences: Mapping[str, Sequence[FloatArray]],
    options: SelectiveOptions,
) -> dict[str, list[VariantCurve]]:
    common = _common_coverage(runs) if len(runs) > 1 else None
    return {
        variant: [
            VariantCurve(run, confidence, options, common)
            for run, confidence in zip(runs, values, strict=True)
        ]
        for variant, values in confidences.items()
    }


def _common_coverage(runs: Sequence[RunItems]) -> float | None:
    """Return the coverage that all runs reach; None where one of them predicts nothing."""
    reached = [
        float(np.count_nonzero(run.predicted) / run.n_items) if run.n_items else 0.0 for run in runs
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
    left: RunItems, right: RunItems, *, intersection_only: bool
) -> tuple[RunItems, RunItems]:
    """Return both runs on the patients that were scored in both, or refuse differing sets."""
    left, right = _on_one_scale(left, right)
    _refuse_other_truth(left, right)
    both = set(left.participants) & set(right.participants)
    if len(both) == len(left.participants) == len(right.participants):
        return left, right
    who = f"{left.words[0]}s"
    if not intersection_only:
        raise InvalidValue(
            f"the two runs have {len(left.participants)} and {len(right.participants)} successful "
            f"{who}, {len(both)} of them in both; add --intersection-only to compare those"
        )
    if not both:
        raise InvalidValue(f"the two runs have no successful {left.words[0]} in common")
    return left.restricted(both), right.restricted(both)


def _on_one_scale(left: RunItems, right: RunItems) -> tuple[RunItems, RunItems]:
    """Refuse runs of two questionnaires; without a task the scale is that of all labels seen."""
    if not left.ordered or not right.ordered or left.scale == right.scale:
        return left, right
    if not left.table.answers.allowed and not right.table.answers.allowed:
        seen = dict.fromkeys([*left.table.labels, *right.table.labels])
        return left.with_answers(tuple(seen)), right.with_answers(tuple(seen))
    raise InvalidValue(
        f"the scores of the two runs span {left.scale:g} and {right.scale:g}; compare runs of "
        "one questionnaire"
    )


def _refuse_other_truth(left: RunItems, right: RunItems) -> None:
    """Refuse runs that disagree about a right answer, as far as items can be told apart."""
    truths = [_truth_of_items(run) for run in (left, right)]
    for (participant, item), truth in truths[0].items():
        other = truths[1].get((participant, item), truth)
        if truth != other:
            place = f"{left.words[0]} {participant}" + (f", item {item}" if item else "")
            raise InvalidValue(
                f"{place} has the right answer {truth} in {left.source.path} and {other} in "
                f"{right.source.path}; the runs were made on different data"
            )


def _truth_of_items(run: RunItems) -> dict[tuple[str, str], Label]:
    """Return the truth of every item; nothing where items have no names of their own."""
    items = ("" if item is None else str(item) for item in run.table.metadata("item"))
    keys = [(patient, item) for (patient, _), item in zip(run.names(), items, strict=True)]
    if len(set(keys)) < len(keys):
        return {}
    truths = [run.table.labels[code] for code in run.table.truth.tolist()]
    return dict(zip(keys, truths, strict=True))
