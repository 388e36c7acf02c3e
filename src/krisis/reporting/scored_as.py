"""How a run was scored: what its charts must share with the figures that they illustrate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from krisis.metrics.base import MetricScore
from krisis.metrics.calibration import ExpectedCalibrationError
from krisis.statistics.intervals import DEFAULT_LEVEL, common_level

_DEFAULT_BINS = ExpectedCalibrationError().n_bins


@dataclass(frozen=True, slots=True)
class ScoredAs:
    """The level of the intervals, and the calibration error with the number of its bins."""

    level: float = DEFAULT_LEVEL
    n_bins: int = _DEFAULT_BINS
    calibration_error: MetricScore | None = None

    @classmethod
    def of(cls, scores: Mapping[str, MetricScore]) -> ScoredAs:
        """Read from the scores of a run; the defaults of krisis where it has none."""
        level = common_level(score.interval for score in scores.values())
        errors = [one for one in scores.values() if one.key == ExpectedCalibrationError.key]
        if not errors:
            return cls(level)
        return cls(level, int(errors[0].parameters.get("n_bins", _DEFAULT_BINS)), errors[0])
