"""Stage 3: metrics, which score evaluation results and nothing else."""

from krisis.metrics.abstention import (
    AbstentionRate,
    AnswerRate,
    DeferralAlignment,
    SelectiveAccuracy,
    default_abstention_metrics,
)
from krisis.metrics.accuracy import Accuracy, BalancedAccuracy, default_accuracy_metrics
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore
from krisis.metrics.calibration import (
    BrierScore,
    ExpectedCalibrationError,
    default_calibration_metrics,
)
from krisis.metrics.classification import (
    DiseaseNPV,
    DiseasePPV,
    DiseaseSensitivity,
    DiseaseSpecificity,
    default_classification_metrics,
)
from krisis.metrics.scoring import score_all
from krisis.metrics.selective_prediction import (
    AUGRC,
    AURC,
    RiskAtCoverage,
    default_selective_metrics,
)
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval

__all__ = [
    "AUGRC",
    "AURC",
    "AbstentionRate",
    "Accuracy",
    "AnswerRate",
    "BalancedAccuracy",
    "BaseMetric",
    "BootstrapOptions",
    "BrierScore",
    "DeferralAlignment",
    "DiseaseNPV",
    "DiseasePPV",
    "DiseaseSensitivity",
    "DiseaseSpecificity",
    "EvaluationResult",
    "ExpectedCalibrationError",
    "Interval",
    "MetricScore",
    "RiskAtCoverage",
    "SelectiveAccuracy",
    "default_abstention_metrics",
    "default_accuracy_metrics",
    "default_benchmark_metrics",
    "default_calibration_metrics",
    "default_classification_metrics",
    "default_selective_metrics",
    "score_all",
]


def default_benchmark_metrics() -> list[BaseMetric]:
    """Return the stack that a benchmark scores when none is named."""
    return [
        *default_accuracy_metrics(),
        *default_calibration_metrics(),
        *default_abstention_metrics(),
        *default_selective_metrics(),
        *default_classification_metrics(),
    ]
