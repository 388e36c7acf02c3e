"""Stage 3: metrics, which score evaluation results and nothing else."""

from collections.abc import Sequence

from krisis.metrics.abstention import (
    AbstentionRate,
    AnswerableAccuracy,
    AnswerRate,
    DeferralAlignment,
    InappropriateAnswerRate,
    NoAnswerRate,
    NotEvaluatedRate,
    RightDecisions,
    SelectiveAccuracy,
    default_abstention_metrics,
)
from krisis.metrics.accuracy import Accuracy, BalancedAccuracy, default_accuracy_metrics
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore, Rows
from krisis.metrics.calibration import (
    BrierScore,
    ExpectedCalibrationError,
    default_calibration_metrics,
)
from krisis.metrics.clinical_calibration import CalibrationSlope, clinical_calibration_metrics
from krisis.metrics.decision import CostSaved, DecisionCost, DecisionSkill, DeferralSkill
from krisis.metrics.discrimination import DiseaseAUPRC, DiseaseAUROC, binary_metrics
from krisis.metrics.disease import (
    DiseaseF1,
    DiseaseNPV,
    DiseasePPV,
    DiseaseSensitivity,
    DiseaseSpecificity,
    NegativeLikelihoodRatio,
    PositiveLikelihoodRatio,
    default_classification_metrics,
)
from krisis.metrics.forms import Share
from krisis.metrics.ordinal import MeanAbsoluteError, QuadraticWeightedKappa
from krisis.metrics.scoring import metric_from_name, score_all
from krisis.metrics.selective_prediction import (
    AUGRC,
    AURC,
    RiskAtCoverage,
    default_selective_metrics,
    optimal_curve,
    risk_coverage_curve,
)
from krisis.metrics.table import Answers
from krisis.metrics.totals import (
    ScreeningSensitivity,
    ScreeningSpecificity,
    TotalBias,
    TotalCorrelation,
    TotalMAE,
)
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval

__all__ = [
    "AUGRC",
    "AURC",
    "AbstentionRate",
    "Accuracy",
    "AnswerRate",
    "AnswerableAccuracy",
    "Answers",
    "BalancedAccuracy",
    "BaseMetric",
    "BootstrapOptions",
    "BrierScore",
    "CalibrationSlope",
    "CostSaved",
    "DecisionCost",
    "DecisionSkill",
    "DeferralAlignment",
    "DeferralSkill",
    "DiseaseAUPRC",
    "DiseaseAUROC",
    "DiseaseF1",
    "DiseaseNPV",
    "DiseasePPV",
    "DiseaseSensitivity",
    "DiseaseSpecificity",
    "EvaluationResult",
    "ExpectedCalibrationError",
    "InappropriateAnswerRate",
    "Interval",
    "MeanAbsoluteError",
    "MetricScore",
    "NegativeLikelihoodRatio",
    "NoAnswerRate",
    "NotEvaluatedRate",
    "PositiveLikelihoodRatio",
    "QuadraticWeightedKappa",
    "RightDecisions",
    "RiskAtCoverage",
    "Rows",
    "ScreeningSensitivity",
    "ScreeningSpecificity",
    "SelectiveAccuracy",
    "Share",
    "TotalBias",
    "TotalCorrelation",
    "TotalMAE",
    "binary_metrics",
    "clinical_calibration_metrics",
    "default_abstention_metrics",
    "default_accuracy_metrics",
    "default_benchmark_metrics",
    "default_calibration_metrics",
    "default_classification_metrics",
    "default_selective_metrics",
    "optimal_curve",
    "risk_coverage_curve",
    "score_all",
    "usual_metrics",
]


def default_benchmark_metrics() -> list[BaseMetric]:
    """Return the eight metrics of every run: accuracy, calibration, then abstention and deferral.

    >>> len(default_benchmark_metrics())
    8
    """
    return [
        *default_accuracy_metrics(),
        *default_calibration_metrics(),
        *default_abstention_metrics(),
    ]


def usual_metrics(of_task: Sequence[str] = ()) -> list[BaseMetric]:
    """Return what is scored when no metric is named: those of the task, then the eight.

    The No-Answer Rate is among them and left out of the scores where it is 0.

    >>> [metric.key for metric in usual_metrics(["decision_cost"])][:2]
    ['decision_cost', 'accuracy']
    """
    named = [metric_from_name(name) for name in of_task]
    for metric in named:
        metric.omit_undefined = metric.key in ("decision_skill", "deferral_skill")
    no_answer = NoAnswerRate()
    no_answer.omit_zero = True  # most models always reply with an allowed answer
    taken = {metric.label for metric in named}
    usual = [*default_benchmark_metrics(), no_answer]
    return [*named, *(metric for metric in usual if metric.label not in taken)]
