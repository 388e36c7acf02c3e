"""The names that users import stay where they are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import krisis

SOURCE = Path(krisis.__file__).parent
PROMISED = """
krisis: Benchmark BenchmarkResult PatientRecord SuiteConfig Task FeatureSet BaseDataSuite
krisis: BackendResponse BaseBackend BaseMetric EvaluationResult MetricScore KrisisError
krisis: run load score certify verify figure
krisis.benchmark: Benchmark
krisis.metrics: default_benchmark_metrics default_accuracy_metrics default_abstention_metrics
krisis.metrics: default_calibration_metrics
krisis.metrics.base: EvaluationResult MetricScore BaseMetric
krisis.metrics.accuracy: Accuracy BalancedAccuracy
krisis.metrics.abstention: AbstentionRate AnswerRate SelectiveAccuracy DeferralAlignment
krisis.metrics.calibration: ExpectedCalibrationError BrierScore
krisis.results.report: format_report format_json_report format_metrics_json_report
krisis.results.result: BenchmarkResult
krisis.data.base: PatientRecord SuiteConfig Task FeatureSet BaseDataSuite
krisis.backends.base: BackendResponse BaseBackend
"""
NAMES = [
    (module, name)
    for line in PROMISED.strip().splitlines()
    for module, _, names in [line.partition(": ")]
    for name in names.split()
]


# A verb with a folder offers the function that has its name.
VERBS = [path.parent.name for path in SOURCE.glob("verbs/*/__init__.py")]
NAMES += [("krisis", v) for v in sorted(VERBS) if hasattr(import_module(f"krisis.verbs.{v}"), v)]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_promised_name_can_be_imported(module: str, name: str) -> None:
    assert getattr(import_module(module), name).__name__ == name


def test_the_top_level_offers_exactly_the_nouns_and_verbs() -> None:
    top_level = {name for module, name in NAMES if module == "krisis"}
    assert set(krisis.__all__) == top_level | {"__version__"}
    assert dir(krisis) == sorted(krisis.__all__)


def test_an_unknown_top_level_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Benchmrk'"):
        krisis.Benchmrk  # noqa: B018
