"""Stage 3: what a metric scores (`EvaluationResult`), returns (`MetricScore`) and must offer."""

from __future__ import annotations

import inspect
import math
import re
from abc import ABC
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, SupportsIndex, overload

import numpy as np

from krisis.display import Documented, ShortRepr, cut, format_value, listed
from krisis.errors import InvalidValue
from krisis.json_values import NO_VALUES, JsonMapping, JsonObject, JsonValue
from krisis.metrics.columns import Columns, RowColumns
from krisis.metrics.forms import Form, Undefined
from krisis.metrics.rescored import Rescored
from krisis.metrics.table import Answers, IntArray, Table
from krisis.outcomes import Outcome, outcome_of
from krisis.statistics.intervals import Interval

Direction = Literal["higher", "lower", "neither"]
NOT_BOUNDED = "not bounded"


@dataclass(slots=True, repr=False)
class EvaluationResult(ShortRepr):
    """One record with what the model made of it.

    ``error`` says why there is no answer, and ``failure_class`` in which way: from both follows the
    ``outcome``. A prediction that the task does not allow is kept with its error. ``prompt`` is the
    redacted template, shared in memory by all rows that used it. ``model`` is the one that
    answered, as the provider names it.

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
    metadata: JsonMapping = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    record_id: str = ""
    cluster_id: str = ""
    signals: JsonMapping = NO_VALUES
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
                    f"confidence must be between 0 and 1, not {confidence!r}; "
                    "divide percentages by 100 and leave an unknown confidence None"
                )
        if not self.cluster_id:
            self.cluster_id = self.record_id

    @property
    def outcome(self) -> Outcome:
        """What became of the case: answered, abstained, no_answer or not_evaluated."""
        return outcome_of(
            abstained=self.abstained, error=self.error, failure_class=self.failure_class
        )


def _as_float(value: object) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        raise InvalidValue(f"confidence must be a number between 0 and 1, not {value!r}")
    return float(value)


@dataclass(slots=True, repr=False)
class MetricScore(ShortRepr):
    """The value of a metric with the counts it rests on.

    An undefined value is NaN, and ``details["reason"]`` says why. ``bounds`` are the least and the
    largest value that the score can have once the rows that were not evaluated are known; None
    where all were, or where the figure cannot be bounded (``details["bounds"]``). ``key``,
    ``direction`` and ``parameters`` are those of the metric, so that a stored score can be compared
    and ranked without it.
    """

    name: str
    value: float
    breakdown: dict[str, float] = field(default_factory=dict)
    n_evaluated: int = 0
    n_abstained: int = 0
    details: JsonObject = field(default_factory=dict)
    interval: Interval | None = None
    key: str = ""
    direction: Direction = "neither"
    parameters: JsonObject = field(default_factory=dict)
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self.key = self.key or key_of(self.name)

    @property
    def identifier(self) -> str:
        """The key, with the parameters that the label names; programs refer to scores by it."""
        return self.key + self.name[len(_plain_name(self.name)) :].strip()


class Rows(Sequence[EvaluationResult]):
    """Evaluation results by column: they turn into one table, once, and into rows on a look.

    ``answers`` is what is known of the task that the rows answer. The table orders them by patient
    unless they are to be taken ``as_given``.

    >>> rows = Rows([EvaluationResult(1, 1), EvaluationResult(0, 1)])
    >>> len(rows), rows[1].prediction, rows.table.n_answered
    (2, 0, 2)
    """

    __slots__ = ("_table", "answers", "as_given", "columns")

    def __init__(
        self,
        results: Iterable[EvaluationResult] | Columns = (),
        answers: Answers | None = None,
        *,
        as_given: bool = False,
    ) -> None:
        if isinstance(results, Rows):
            self.columns: Columns = results.columns
        else:
            self.columns = results if isinstance(results, Columns) else RowColumns(list(results))
        self.as_given = as_given
        self.answers = answers or getattr(results, "answers", None)
        self._table: Table | None = None

    def with_answers(self, answers: Answers | None) -> Rows:
        """Return the same rows with another knowledge of their task."""
        return self if self.answers == answers else Rows(self, answers, as_given=self.as_given)

    @property
    def table(self) -> Table:
        """Return the table, converting on first use."""
        if self._table is None:
            self._table = Table(self.columns, self.answers, as_given=self.as_given)
        return self._table

    def taken(self, places: Sequence[int] | IntArray) -> Rows:
        """Return the rows at some places, in that order, which their table keeps."""
        picked = self.columns.taken(np.asarray(places, dtype=np.int64))
        return Rows(picked, self.answers, as_given=True)

    def __len__(self) -> int:
        return self.columns.n_rows

    def __iter__(self) -> Iterator[EvaluationResult]:
        return iter(self.columns.rows)

    @overload
    def __getitem__(self, index: SupportsIndex) -> EvaluationResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[EvaluationResult]: ...
    def __getitem__(
        self, index: SupportsIndex | slice
    ) -> EvaluationResult | list[EvaluationResult]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return self.columns.rows_at(places)
        return self.columns.rows_at([places])[0]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Rows | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} rows)"


def table_of(results: Sequence[EvaluationResult] | Table) -> Table:
    """Return the table of rows that have one, else convert."""
    if isinstance(results, Table):
        return results
    return results.table if isinstance(results, Rows) else Table(results)


def key_of(name: str) -> str:
    """Return the snake_case key of a metric's name, without what stands in brackets.

    >>> key_of("Selective Accuracy (answered only)")
    'selective_accuracy'
    """
    return "_".join(re.findall(r"[a-z0-9]+", re.sub(r"\(.*?\)|\[.*?\]", "", name.lower())))


class MetricScores(Documented, dict[str, MetricScore]):
    """Scores by metric label, which can also be read by name or key where only one has it."""

    builder: ClassVar[str] = "krisis.pages.run:scores_document"

    def __missing__(self, key: str) -> MetricScore:
        known = [score for score in self.values() if key == score.identifier] or [
            score for score in self.values() if key in (score.key, _plain_name(score.name))
        ]
        if len(known) != 1:
            raise KeyError(key)
        return known[0]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """Return the score of a name or key, else the default."""
        try:
            return self[key]
        except KeyError:
            return default

    def __repr__(self) -> str:
        shown = [f"{cut(one.identifier)}={format_value(one.value)}" for one in self.values()]
        return f"MetricScores({listed(shown)})"


def _plain_name(label: str) -> str:
    return label.partition(" [")[0]


class BaseMetric(ABC):
    """A figure of evaluation results; a new one implements `form`, or only `compute`.

    ``name`` is the label in reports and ``key`` its snake_case form; ``direction`` says which way
    is better. From a form follow the score, its breakdown, its interval and paired comparisons.
    A metric with `compute` alone has them too, by scoring resampled rows again.

    >>> from krisis.metrics.forms import Share
    >>> class AnsweredRight(BaseMetric):
    ...     name, direction = "Answered right", "higher"
    ...     def form(self, table):
    ...         return Share(table.correct, among=table.answered)
    >>> AnsweredRight()([EvaluationResult(1, 1), EvaluationResult(0, 1)]).value
    0.5
    """

    name: ClassVar[str]
    key: ClassVar[str]
    direction: ClassVar[Direction] = "neither"
    compared_by_default: ClassVar[bool] = True  # False: compared only where it is named
    group_by: str | None = None
    omit_zero: bool = False  # True: a score of 0 says nothing and is left out
    omit_undefined: bool = False  # True: it does not apply to every run, and is left out there

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__ and "key" not in cls.__dict__:
            cls.key = key_of(cls.name)
        if cls.form is not BaseMetric.form and cls.compute is BaseMetric.compute:
            cls.compute = _computed_by_form  # type: ignore[method-assign]

    def form(self, table: Table) -> Form | Undefined:
        """Return the number that a table has, or why it has none."""
        return self._rescored(table)[1]

    def _rescored(self, table: Table) -> tuple[MetricScore, Form | Undefined]:
        """Return the score of a metric that has no form, and what is used in place of the form."""
        self.check()
        computed: object = self.compute(Rows(table.rows, table.answers))
        if not isinstance(computed, MetricScore):
            raise InvalidValue(
                f"compute(results) must return a MetricScore, not {type(computed).__name__}"
            )
        score = replace(computed, **self.identity())
        if math.isnan(score.value):
            score.details.setdefault("reason", "the metric gave no reason")
            return score, Undefined(str(score.details["reason"]))

        def value(rows: Sequence[EvaluationResult]) -> float:
            try:
                return float(self.compute(Rows(rows, table.answers)).value)
            except Exception:  # drawn rows may lack what the metric needs
                return math.nan

        return score, Rescored(table, value, n_evaluated=score.n_evaluated)

    def check(self) -> None:
        """Refuse a metric that cannot be computed."""
        if self.direction not in ("higher", "lower", "neither"):
            raise InvalidValue(
                f"the direction of the metric {self.name!r} must be higher, lower or neither, "
                f"not {self.direction!r}"
            )

    @property
    def _has_form(self) -> bool:
        return type(self).compute is _computed_by_form

    def comparison_form(self, table: Table) -> Form | Undefined:
        """Return the number that two runs are compared by, where it is another than the score."""
        return self.form(table)

    comparison_name: ClassVar[str] = ""
    comparison_reason: ClassVar[str] = ""  # why it is compared by that number, as half a sentence

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return what a reader should know beside the value."""
        return {}

    def breakdown(self, table: Table, form: Form) -> dict[str, float]:
        """Return the value of every group of the column that the metric is broken down by."""
        column = self.group_by
        if column == "":
            column = next(iter(table.answers.groups), None)
        if not column:
            return {}
        names, codes = table.grouped(column)
        values = form.by_group(codes, len(names)).tolist()
        return {
            name: value for name, value in zip(names, values, strict=True) if not math.isnan(value)
        }

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return the score; of an empty list, NaN with a reason.

        Rows that were not evaluated are among the results: count them, but in no denominator. A
        metric that has a `form` gets this from it.
        """
        raise NotImplementedError  # pragma: no cover

    # Abstract where there is no form either; for a type checker a form is enough.
    compute.__isabstractmethod__ = True  # type: ignore[attr-defined]

    def scored(self, table: Table) -> tuple[MetricScore, Form | Undefined]:
        """Return the score of a table and the form that it is the value of."""
        if not self._has_form:
            return self._rescored(table)
        form, identity = self.form(table), self.identity()
        if isinstance(form, Undefined):
            details = {"reason": form.reason, **form.details}
            score = MetricScore(
                self.name, math.nan, n_abstained=table.n_abstained, details=details, **identity
            )
            return score, form
        score = MetricScore(
            self.name,
            form.value(),
            self.breakdown(table, form),
            form.n_evaluated,
            table.n_abstained,
            self.details(table, form),
            **identity,
        )
        if table.n_not_evaluated:
            score.bounds = form.bounds(self.n_missing(table))
            if score.bounds is None:
                score.details["bounds"] = NOT_BOUNDED
        return score, form

    def n_missing(self, table: Table) -> int:
        """Count the rows that were not evaluated and could be in the denominator."""
        return table.n_not_evaluated

    def identity(self) -> JsonObject:
        """Return what a score keeps of its metric."""
        return {
            "key": self.key,
            "direction": self.direction,
            "parameters": self.parameters(),
        }

    def parameters(self) -> JsonObject:
        """Return the arguments that the metric was made with, where it keeps them."""
        names = _defaults(type(self))
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    @property
    def label(self) -> str:
        """The name, with the parameters that differ from their defaults."""
        return f"{self.name} {self._changes}".strip()

    @property
    def identifier(self) -> str:
        """The key, with the parameters that differ from their defaults."""
        return self.key + self._changes

    @property
    def _changes(self) -> str:
        defaults = _defaults(type(self))
        changed = [
            f"{name}={value}"
            for name, value in self.parameters().items()
            if value != defaults[name]
        ]
        return f"[{', '.join(changed)}]" if changed else ""

    def __call__(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return `compute(results)`."""
        return self.compute(results)


class GroupedMetric(BaseMetric):
    """A metric broken down by a metadata column, the first of the task unless another is named."""

    def __init__(self, *, group_by: str = "") -> None:
        self.group_by = group_by


def _computed_by_form(self: BaseMetric, results: Sequence[EvaluationResult]) -> MetricScore:
    """Return the score of the form; of an empty list, NaN with a reason."""
    return self.scored(table_of(results))[0]


_ARGUMENTS: dict[type, dict[str, object]] = {}


def _defaults(kind: type[BaseMetric]) -> dict[str, object]:
    """Return the arguments of a metric's class with their defaults, looked up once."""
    if kind not in _ARGUMENTS:
        arguments = list(inspect.signature(kind).parameters.values())
        _ARGUMENTS[kind] = {argument.name: argument.default for argument in arguments}
    return _ARGUMENTS[kind]
