"""Stage 3: what a metric scores (`EvaluationResult`), returns (`MetricScore`) and must offer."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from krisis.errors import InvalidValue
from krisis.metrics.columns import Columns
from krisis.metrics.intervals import Uncertainty, add_intervals
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval

Outcome = Literal["answered", "abstained", "failed"]
Direction = Literal["higher", "lower", "neither"]


class NoSignals(Mapping[str, Any]):
    """The empty mapping that all rows without signals share, for rows are made by the million."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __hash__(self) -> int:
        return hash(())

    def __repr__(self) -> str:
        return "{}"

    def __reduce__(self) -> str:
        return "NO_SIGNALS"


NO_SIGNALS = NoSignals()


@dataclass(slots=True)
class EvaluationResult:
    """One record with what the model made of it.

    ``error`` marks a call that failed: neither an abstention nor a wrong answer; ``failure_class``
    says in which way. ``prompt`` is the redacted template, shared in memory by all rows that used
    it. ``model`` is the one that answered, as the provider names it.

    >>> EvaluationResult(1, 1, confidence=0.9).outcome
    'answered'
    """

    prediction: int | str | None
    ground_truth: int | str
    abstained: bool = False
    confidence: float | None = None
    raw_response: str = ""
    prompt: str = ""
    prompt_mode: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    record_id: str = ""
    cluster_id: str = ""
    signals: Mapping[str, Any] = NO_SIGNALS
    error: str | None = None
    failure_class: str = ""
    model: str = ""
    finish_reason: str = ""
    latency_seconds: float | None = None

    def __post_init__(self) -> None:
        # Rows are made by the million: the usual case passes four cheap tests.
        if self.abstained is not True and self.abstained is not False:
            raise InvalidValue(f"abstained must be True or False, not {self.abstained!r}")
        if self.ground_truth is None:
            raise InvalidValue("ground_truth is None; every row needs the right answer")
        confidence = self.confidence
        if confidence is not None:
            if type(confidence) is not float:
                confidence = self.confidence = _as_float(confidence)
            if not 0.0 <= confidence <= 1.0:
                raise InvalidValue(
                    f"confidence must lie between 0 and 1, not {confidence!r}; "
                    "divide percentages by 100 and leave an unknown confidence None"
                )
        if not self.cluster_id:
            self.cluster_id = self.record_id

    @property
    def outcome(self) -> Outcome:
        """Say whether the model answered, abstained, or could not be asked."""
        if self.error is not None:
            return "failed"
        return "abstained" if self.abstained else "answered"


def _as_float(value: object) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        raise InvalidValue(f"confidence must be a number between 0 and 1, not {value!r}")
    return float(value)


@dataclass(slots=True)
class MetricScore:
    """The value of a metric with the counts it rests on.

    An undefined value is NaN, and ``details["reason"]`` says why.
    """

    name: str
    value: float
    breakdown: dict[str, float] = field(default_factory=dict)
    n_evaluated: int = 0
    n_abstained: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    interval: Interval | None = None

    @classmethod
    def undefined(
        cls, name: str, reason: str, *, n_abstained: int = 0, **details: Any
    ) -> MetricScore:
        """Return NaN with its reason."""
        return cls(name, math.nan, n_abstained=n_abstained, details={"reason": reason, **details})


class Rows(list[EvaluationResult]):
    """Evaluation results that turn into NumPy columns once, whatever the number of metrics."""

    __slots__ = ("_columns",)

    def __init__(self, results: Iterable[EvaluationResult] = ()) -> None:
        super().__init__(results)
        self._columns: Columns | None = None

    @property
    def columns(self) -> Columns:
        """Return the columns, converting on first use; the rows must not change afterwards."""
        if self._columns is None:
            self._columns = Columns.from_rows(self)
        return self._columns


def columns_of(results: Sequence[EvaluationResult]) -> Columns:
    """Return the shared columns of rows that have them, else convert."""
    return results.columns if isinstance(results, Rows) else Columns.from_rows(results)


def key_of(name: str) -> str:
    """Return the snake_case key of a metric's name, without what stands in brackets.

    >>> key_of("Selective Accuracy (answered only)")
    'selective_accuracy'
    """
    return "_".join(re.findall(r"[a-z0-9]+", re.sub(r"\(.*?\)", "", name.lower())))


class MetricScores(dict[str, MetricScore]):
    """Scores by metric name, which can also be read by key."""

    def __missing__(self, key: str) -> MetricScore:
        for name, score in self.items():
            if key_of(name) == key:
                return score
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or any(key_of(name) == key for name in self)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the score of a name or key, else the default."""
        try:
            return self[key]
        except KeyError:
            return default


class BaseMetric(ABC):
    """A figure computed from evaluation results alone; a new one implements `compute` only.

    ``name`` is the label in reports and ``key`` its snake_case form; ``direction`` says which way
    is better.

    >>> class AnsweredRows(BaseMetric):
    ...     name = "Answered rows"
    ...     def compute(self, results):
    ...         answered = sum(row.outcome == "answered" for row in results)
    ...         return MetricScore(self.name, float(answered), n_evaluated=len(results))
    >>> AnsweredRows()([EvaluationResult(1, 1)]).value
    1.0
    """

    name: ClassVar[str]
    key: ClassVar[str]
    direction: ClassVar[Direction] = "neither"

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__ and "key" not in cls.__dict__:
            cls.key = key_of(cls.name)

    @abstractmethod
    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return the score; of an empty list, NaN with a reason.

        Failed rows are among the results: count them, but in no denominator.
        """

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Return what an interval is made from; None where the metric has no interval."""
        return None

    def __call__(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return the score of at least one row."""
        if len(results) == 0:
            raise InvalidValue(
                f"{self.name} was given no rows; run a benchmark or load a result first"
            )
        return self.compute(results)


def score_all(
    metrics: Iterable[BaseMetric],
    results: Sequence[EvaluationResult],
    *,
    intervals: BootstrapOptions | None = None,
) -> MetricScores:
    """Compute every metric on rows that are converted to columns once.

    With ``intervals`` every metric that declares its uncertainty gets an interval as well.
    """
    rows = results if isinstance(results, Rows) else Rows(results)
    chosen = list(metrics)
    scores = MetricScores((metric.name, metric.compute(rows)) for metric in chosen)
    if intervals is not None:
        add_intervals(scores, chosen, results=rows, columns=rows.columns, options=intervals)
    return scores
