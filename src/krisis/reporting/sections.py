"""The chart sections of a report, and what a reader is told where one cannot be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from krisis.metrics.base import MetricScore, Rows
from krisis.metrics.calibration import ExpectedCalibrationError
from krisis.reporting.breakdown import breakdown_figures
from krisis.reporting.confidence_histogram import histogram_figure
from krisis.reporting.deferral import alignment_of, confusion_figure, two_sided_facts
from krisis.reporting.figure import Figure
from krisis.reporting.reliability import reliability_figure
from krisis.reporting.risk_curves import risk_figures


@dataclass(frozen=True, slots=True)
class Section:
    """Charts under one heading; ``absent`` is said in place of charts that have no data."""

    anchor: str
    title: str
    figures: Sequence[Figure]
    absent: str
    words: str = ""
    wide: bool = False
    facts: Sequence[tuple[str, Any]] = field(default_factory=tuple)


def chart_sections(rows: Rows, scores: Mapping[str, MetricScore]) -> list[Section]:
    """Draw every chart that the rows allow; of a metrics-only file, none."""
    if not rows:
        return []
    columns, alignment = rows.table, alignment_of(rows)
    return [
        Section(
            "confidence",
            "Confidence",
            _drawn(reliability_figure(columns, n_bins=_n_bins(scores)), histogram_figure(columns)),
            "No answered row states a confidence, so there is nothing to calibrate.",
        ),
        Section(
            "risk",
            "Risk and coverage",
            risk_figures(columns),
            "There is no curve: no row was answered, or an answer states no confidence.",
        ),
        Section(
            "deferral",
            "Deferral",
            _drawn(confusion_figure(alignment)),
            "No row says whether deferral was due.",
            facts=two_sided_facts(alignment),
        ),
        Section(
            "groups",
            "Groups",
            breakdown_figures(rows),
            "The metadata name no group of the task, sex, age, item or site that divides the rows.",
            wide=True,
        ),
    ]


def _n_bins(scores: Mapping[str, MetricScore]) -> int:
    """Return the bins of the calibration error that the run was scored with."""
    found = [s for s in scores.values() if s.key == ExpectedCalibrationError.key]
    return int(found[0].parameters.get("n_bins", 15)) if found else 15


def _drawn(*figures: Figure | None) -> list[Figure]:
    return [figure for figure in figures if figure is not None]
