"""Measure whether a language model knows when not to answer a clinical question."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from krisis.api.deciding import certify, verify
    from krisis.api.running import run
    from krisis.api.scoring import load, score
    from krisis.backends.base import BackendResponse, BaseBackend
    from krisis.benchmark import Benchmark
    from krisis.data.base import BaseDataSuite, FeatureSet, PatientRecord, SuiteConfig, Task
    from krisis.errors import KrisisError
    from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore
    from krisis.results.result import BenchmarkResult
    from krisis.verbs.audit import audit
    from krisis.verbs.check import check
    from krisis.verbs.compare import compare
    from krisis.verbs.decide import decide
    from krisis.verbs.forget import forget
    from krisis.verbs.monitor import monitor
    from krisis.verbs.plan import plan
    from krisis.verbs.report import figure, report
    from krisis.verbs.selective import selective

__version__ = "0.1.0"

# Nothing is imported until it is asked for, so that `import krisis` stays light.
_HOMES = {
    "BackendResponse": "krisis.backends.base",
    "BaseBackend": "krisis.backends.base",
    "BaseDataSuite": "krisis.data.base",
    "BaseMetric": "krisis.metrics.base",
    "Benchmark": "krisis.benchmark",
    "BenchmarkResult": "krisis.results.result",
    "EvaluationResult": "krisis.metrics.base",
    "FeatureSet": "krisis.data.base",
    "KrisisError": "krisis.errors",
    "MetricScore": "krisis.metrics.base",
    "PatientRecord": "krisis.data.base",
    "SuiteConfig": "krisis.data.base",
    "Task": "krisis.data.base",
    "audit": "krisis.verbs.audit",
    "certify": "krisis.api.deciding",
    "check": "krisis.verbs.check",
    "compare": "krisis.verbs.compare",
    "decide": "krisis.verbs.decide",
    "figure": "krisis.verbs.report",
    "forget": "krisis.verbs.forget",
    "load": "krisis.api.scoring",
    "monitor": "krisis.verbs.monitor",
    "plan": "krisis.verbs.plan",
    "report": "krisis.verbs.report",
    "run": "krisis.api.running",
    "score": "krisis.api.scoring",
    "selective": "krisis.verbs.selective",
    "verify": "krisis.api.deciding",
}

__all__ = [
    "BackendResponse",
    "BaseBackend",
    "BaseDataSuite",
    "BaseMetric",
    "Benchmark",
    "BenchmarkResult",
    "EvaluationResult",
    "FeatureSet",
    "KrisisError",
    "MetricScore",
    "PatientRecord",
    "SuiteConfig",
    "Task",
    "__version__",
    "audit",
    "certify",
    "check",
    "compare",
    "decide",
    "figure",
    "forget",
    "load",
    "monitor",
    "plan",
    "report",
    "run",
    "score",
    "selective",
    "verify",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'krisis' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
