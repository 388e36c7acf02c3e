"""Selective prediction of items, by the names that its definitions were published under.

One item is one question about one participant: its true score, the predicted score (None where
the model abstained) and a confidence that ranks the predictions. The functions are thin: curves,
bootstrap and calibrators are those that `krisis selective` and `krisis calibrate` use.

>>> items = [
...     Item("p1", "sleep", pred=2, gt=2, confidence=3),
...     Item("p1", "mood", pred=1, gt=3, confidence=3),
...     Item("p2", "sleep", pred=0, gt=0, confidence=1),
...     Item("p2", "mood", pred=None, gt=1),
... ]
>>> compute_cmax(items)
0.75
>>> curve = compute_risk_coverage_curve(items, loss="abs")
>>> curve.coverage.tolist(), curve.selective_risk.tolist()
([0.5, 0.75], [1.0, 0.6666666666666666])
>>> compute_risk_at_coverage(items, 0.6, loss="abs")
0.6666666666666666
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from krisis.confidence.calibrators import Calibrator
from krisis.confidence.models import (
    IsotonicCalibrator,
    LinearCalibrator,
    LogisticCalibrator,
    TemperatureScalingCalibrator,
    compute_binary_nll,
    compute_ece,
)
from krisis.confidence.signals import signal_of
from krisis.confidence.variants import confidence_of
from krisis.errors import InvalidValue
from krisis.metrics.risk_coverage import RiskCoverageCurve, risk_coverage_curve
from krisis.results.run_items import read_items
from krisis.statistics.bootstrap import BootstrapOptions, draw_clusters
from krisis.statistics.intervals import Interval, Replicates

__all__ = [
    "CalibratorFeatureExtractor",
    "IsotonicCalibrator",
    "Item",
    "LinearCalibrator",
    "LogisticCalibrator",
    "ParsedItems",
    "TemperatureScalingCalibrator",
    "bootstrap_by_participant",
    "compute_binary_nll",
    "compute_cmax",
    "compute_ece",
    "compute_loss",
    "compute_risk_at_coverage",
    "compute_risk_coverage_curve",
    "paired_bootstrap_delta_by_participant",
    "parse_items",
]

LossName = Literal["abs", "abs_norm"]
HIGHEST_SCORE = 3  # of a PHQ-8 item


@dataclass(frozen=True, slots=True)
class Item:
    """One item of one participant; ``pred`` is None where the model abstained."""

    participant_id: str
    item: str
    pred: int | None
    gt: int
    confidence: float = math.nan


class ParsedItems(NamedTuple):
    """The items of the participants whose run succeeded, and who succeeded and who failed."""

    items: list[Item]
    included: set[str]
    failed: set[str]


Metric = Callable[[Sequence[Item]], float | None]
T = TypeVar("T")


def parse_items(
    path: str | Path,
    mode: str | None = None,
    confidence: str = "llm",
    *,
    calibrator: Calibrator | None = None,
) -> ParsedItems:
    """Read the items of a run, each prediction with its confidence.

    Participants with ``success: false`` are counted as failed and have no items.

    Arguments:
        path: A PHQ-8 run file, a run of krisis or a saved result.
        mode: The experiment, such as few_shot; required where a run file has several.
        confidence: The variant that ranks the predictions.
        calibrator: For the variants ``calibrated`` and ``verbalized_calibrated``.
    """
    run = read_items(path, mode)
    values = np.full(run.n_items, np.nan)
    values[run.predicted] = confidence_of(run, confidence, calibrator=calibrator)
    rows = zip(run.table.rows, run.predicted.tolist(), values.tolist(), strict=True)
    items = [
        Item(
            str(row.cluster_id),
            str(row.metadata.get("item", row.record_id)),
            _score(row.prediction) if has_prediction else None,
            _score(row.ground_truth),
            value,
        )
        for row, has_prediction, value in rows
    ]
    return ParsedItems(items, set(run.participants), set(run.failed))


def _score(label: object) -> int:
    """Return a score; items are scored in whole numbers."""
    if isinstance(label, int):
        return label
    raise InvalidValue(f"an item must be scored in whole numbers, not {label!r}")


def compute_loss(item: Item, loss: LossName = "abs_norm") -> float:
    """Return |pred - gt|, divided by 3 for ``abs_norm``; the item must have a prediction."""
    if item.pred is None:
        raise InvalidValue(f"{item.participant_id}, {item.item}: an abstention has no loss")
    distance = abs(item.pred - item.gt)
    return distance / HIGHEST_SCORE if loss == "abs_norm" else float(distance)


def compute_cmax(items: Sequence[Item]) -> float:
    """Return the share of items with a prediction: the coverage that no threshold can exceed."""
    if not items:
        return math.nan
    return sum(item.pred is not None for item in items) / len(items)


def compute_risk_coverage_curve(
    items: Sequence[Item], *, loss: LossName = "abs_norm"
) -> RiskCoverageCurve:
    """Return the working points, one per distinct confidence, strictest first.

    Its methods ``aurc(max_coverage)`` and ``augrc(max_coverage)`` are the areas, whole or
    truncated.
    """
    predicted = [item for item in items if item.pred is not None]
    return risk_coverage_curve(
        [compute_loss(item, loss) for item in predicted],
        [item.confidence for item in predicted],
        len(items),
    )


def compute_risk_at_coverage(
    items: Sequence[Item], coverage: float, *, loss: LossName = "abs_norm"
) -> float | None:
    """Return the selective risk at the first working point that covers at least ``coverage``.

    None where even accepting every prediction covers less.
    """
    reached = compute_risk_coverage_curve(items, loss=loss).risk_at(coverage)
    return None if reached is None else reached[0]


def bootstrap_by_participant(
    items: Sequence[Item],
    metric: Metric,
    *,
    n_resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
) -> Interval:
    """Return the percentile interval of a metric; participants are drawn with all their items.

    >>> some = [Item(f"p{i}", "mood", i % 2, 1, 1.0) for i in range(20)]
    >>> interval = bootstrap_by_participant(some, compute_cmax, n_resamples=200)
    >>> interval.low, interval.high
    (1.0, 1.0)
    """
    return _percentiles(_by_participant(items), metric, n_resamples, seed, level)


def paired_bootstrap_delta_by_participant(
    left: Sequence[Item],
    right: Sequence[Item],
    metric: Metric,
    *,
    n_resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
) -> Interval:
    """Return the interval of metric(right) - metric(left) over the participants of both.

    Each resample draws the same participants from both inputs.
    """
    sides = _by_participant(left), _by_participant(right)
    common = sorted(sides[0].keys() & sides[1].keys())
    pairs = {name: [(0, one) for one in sides[0][name]] for name in common}
    for name in common:
        pairs[name] += [(1, one) for one in sides[1][name]]

    def delta(drawn: Sequence[tuple[int, Item]]) -> float | None:
        values = [metric([item for side, item in drawn if side == which]) for which in (0, 1)]
        return None if values[0] is None or values[1] is None else values[1] - values[0]

    return _percentiles(pairs, delta, n_resamples, seed, level)


def _by_participant(items: Sequence[Item]) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item.participant_id, []).append(item)
    return found


def _percentiles(
    groups: Mapping[str, Sequence[T]],
    value: Callable[[Sequence[T]], float | None],
    n_resamples: int,
    seed: int,
    level: float,
) -> Interval:
    """Draw groups in the order of their names, so that the order of items changes nothing."""
    if not groups:
        raise InvalidValue("the bootstrap was given no participants; give at least one item")
    ordered = [groups[name] for name in sorted(groups)]

    def of(places: Sequence[int]) -> float:
        found = value([one for place in places for one in ordered[place]])
        return math.nan if found is None else found

    options = BootstrapOptions(n_resamples=n_resamples, seed=seed, level=level)
    draws = [row for block in draw_clusters(len(ordered), options) for row in block.tolist()]
    estimate = of(range(len(ordered)))
    replicates = Replicates(estimate, np.array([of(row) for row in draws]), len(ordered))
    return replicates.interval("percentile", level=level)


class CalibratorFeatureExtractor:
    """Turns the signals of items into the numbers that a calibrator is fitted on.

    A missing or null signal becomes a value that claims no confidence, as in `krisis calibrate`:
    fixed for most signals, the least favourable or mean value among the given items for others.

    >>> CalibratorFeatureExtractor(["token_msp"]).extract([{}, {"token_msp": 0.9}]).tolist()
    [[0.5], [0.9]]
    """

    def __init__(self, features: Sequence[str]) -> None:
        self.features = list(features)

    def extract(self, item_signals: Sequence[Mapping[str, float | None]]) -> NDArray[np.float64]:
        """Return one row per item and one column per feature."""
        return np.column_stack([self._column(name, item_signals) for name in self.features])

    @staticmethod
    def _column(
        name: str, item_signals: Sequence[Mapping[str, float | None]]
    ) -> NDArray[np.float64]:
        given = [signals.get(name) for signals in item_signals]
        values = np.array([math.nan if one is None else float(one) for one in given])
        return np.where(np.isnan(values), signal_of(name).default_among(values), values)
