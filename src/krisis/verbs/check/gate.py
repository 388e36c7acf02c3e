"""A gate for continuous integration: requirements on a run, each met, failed or not judged."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from krisis.decisions.run_sample import MOST_NOT_EVALUATED, check_limit, too_many_missing
from krisis.display import Documented
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics.abstention import NoAnswerRate, NotEvaluatedRate
from krisis.metrics.base import MetricScore
from krisis.results.result import BenchmarkResult
from krisis.results.stops import Decided
from krisis.statistics.intervals import Interval
from krisis.verbs.compare.pairs import CompareOptions, MetricDelta, compare_runs

State = Literal["met", "failed", "not judged"]
_COUNTED = {metric.key: metric.name for metric in (NoAnswerRate, NotEvaluatedRate)}
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_REQUIREMENT = re.compile(
    r"\s*(?:(?P<end>lower|upper)\s*\(\s*(?P<inner>[^()]+?)\s*\)"
    r"|(?P<metric>[^()<>=\[\]]+?(?:\[[^\[\]]*\])?))\s*"
    r"(?P<operator>>=|<=|>|<)\s*(?P<limit>\S+)\s*"
)
# A difference of shares such as 0.97 − 1 differs from 0.03 in its last digit.
_ROUNDING = 1e-9
_TOLERANCE = re.compile(r"\s*(?P<metric>.+?)\s+by\s+(?P<margin>\S+)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One requirement and what the run says to it.

    ``value`` is that of the metric, or its change against another run where ``is_change``, and
    ``limit`` is what it is judged by;
    ``bounds`` is what it may be once the cases that were not evaluated are known, where that would
    decide otherwise. ``reason`` says why a requirement is not judged.
    """

    requirement: str
    state: State
    metric: str = ""
    value: float | None = None
    limit: float | None = None
    interval: Interval | None = None
    is_change: bool = False
    bounds: tuple[float, float] | None = None
    n_not_evaluated: int = 0
    reason: str = ""

    def to_dict(self) -> JsonObject:
        """Return everything as JSON values."""
        ends = self.interval
        return {
            "requirement": self.requirement,
            "state": self.state,
            "metric": self.metric or None,
            "value": self.value,
            "limit": self.limit,
            "interval": None if ends is None else [ends.low, ends.high],
            "level": None if ends is None else ends.level,
            "is_change": self.is_change,
            "bounds": None if self.bounds is None else list(self.bounds),
            "reason": self.reason or None,
        }


@dataclass(frozen=True)
class Check(Documented):
    """What became of every requirement; ``n_checks`` different ones were made on these rows."""

    verdicts: tuple[Judged, ...]
    n_checks: int = 1
    run: str = ""
    builder: ClassVar[str] = "krisis.verbs.check.page:check_document"

    @property
    def exit_code(self) -> int:
        """Return how the command ends: 0, 1 if a requirement fails, 2 if one cannot be judged."""
        states = {verdict.state for verdict in self.verdicts}
        if "failed" in states:
            return 1
        return 2 if "not judged" in states else 0

    @property
    def passed(self) -> bool:
        """Tell whether every requirement is met."""
        return self.exit_code == 0

    def to_json(self) -> JsonObject:
        """Return exit_code and, under requirements, each of them with what was found."""
        return {
            "kind": "krisis.check",
            "schema_version": 2,
            "exit_code": self.exit_code,
            "n_checks": self.n_checks,
            "requirements": [one.to_dict() for one in self.verdicts],
        }


@dataclass(frozen=True, slots=True)
class Gate:
    """What a run must fulfil.

    ``require`` are sentences such as ``accuracy >= 0.85`` or ``lower(accuracy) >= 0.8``, which
    speaks of the lower end of the interval. ``no_worse`` and ``non_inferior`` are sentences such
    as ``deferral_alignment by 0.03``, judged against another run on the same cases: the first
    fails when the estimate is worse by more than the margin and the paired interval excludes no
    change, the second when the interval does not exclude a change worse than the margin.
    """

    require: Sequence[str] = ()
    no_worse: Sequence[str] = ()
    non_inferior: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not (self.require or self.no_worse or self.non_inferior):
            raise InvalidValue("nothing is required; add for instance --require 'accuracy >= 0.85'")
        for text in self.require:
            _parsed(text)
        for text in (*self.no_worse, *self.non_inferior):
            _tolerance(text)


def check_run(
    run: BenchmarkResult,
    gate: Gate,
    *,
    against: BenchmarkResult | None = None,
    options: CompareOptions | None = None,
    max_not_evaluated: float = MOST_NOT_EVALUATED,
) -> list[Judged]:
    """Judge every requirement, in order.

    Of a run that was cut short none can be judged, and of one with more cases without a reply than
    ``max_not_evaluated``, a share, only the share of these cases.
    """
    check_limit(max_not_evaluated)
    relative = [*gate.no_worse, *gate.non_inferior]
    if relative and against is None:
        raise InvalidValue(
            f"{relative[0]!r} speaks of another run; name it with --against BASELINE"
        )
    asked = [_parsed(text)[1] for text in gate.require] + [_tolerance(one)[0] for one in relative]
    asked = [name for name in asked if name not in _COUNTED]
    run, against = run.also_scored(asked), against and against.also_scored(asked)
    verdicts = [_judged(text, run) for text in gate.require]
    if relative and against is not None:
        names = [_tolerance(text)[0] for text in relative]
        deltas, reason = _deltas(run, against, names, options or CompareOptions())
        kinds = (
            ("no worse", gate.no_worse, _is_worse),
            ("non-inferior", gate.non_inferior, _is_not_shown),
        )
        for kind, texts, fails in kinds:
            found = [_relative(text, deltas, run, fails, reason) for text in texts]
            verdicts += [replace(one, requirement=f"{kind}: {one.requirement}") for one in found]
    cut = _cut_short("the run", run)
    if cut:
        return [_not_judged(one.requirement, cut) for one in verdicts]
    missing = _missing(run, against, max_not_evaluated)
    return [
        one
        if not missing or _is_about_missing(one.requirement)
        else _not_judged(one.requirement, missing)
        for one in verdicts
    ]


def _missing(run: BenchmarkResult, against: BenchmarkResult | None, limit: float) -> str:
    """Say of which run too many cases were not evaluated; nothing if of none."""
    for name, one in (("the run", run), ("the baseline", against)):
        if one is not None:
            counts = one.attrition
            fault = too_many_missing(counts.n_not_evaluated, counts.n_sent, limit)
            if fault:
                return f"{name} is not judged: {fault}"
    return ""


def _is_about_missing(requirement: str) -> bool:
    found = _REQUIREMENT.fullmatch(requirement)
    return found is not None and found["metric"] == NotEvaluatedRate.key


def _cut_short(name: str, run: BenchmarkResult) -> str:
    """Say that a run lacks records, by an accident of how it ended; nothing if it does not."""
    n_left = run.attrition.n_left
    if run.stop is None or isinstance(run.stop, Decided) or not n_left:
        return ""
    return f"{name} is incomplete: {n_left} records not asked yet ({run.stop})"


def _deltas(
    run: BenchmarkResult,
    against: BenchmarkResult,
    names: Sequence[str],
    options: CompareOptions,
) -> tuple[Mapping[str, MetricDelta], str]:
    """Return the paired differences of the metrics named, or why there are none."""
    wanted = dict.fromkeys(_score(run, name).identifier for name in names)
    cut = _cut_short("the baseline", against)
    if cut or not (run.evaluation_results and against.evaluation_results):
        return {}, cut or "one of the runs holds no rows, so they cannot be paired"
    both = [name for name in wanted if name in against.metric_scores]
    if not both:
        return {}, "the baseline was not scored with it"
    try:
        # All requirements must hold, so that none of them needs an adjustment for the others.
        runs = {"baseline": against, "run": run}
        found: dict[str, MetricDelta] = {}
        for name in both:
            alone = replace(options, metrics=(name,), primary=name)
            found |= compare_runs(runs, alone).pairs[0].deltas
        return found, ""
    except InvalidValue as error:
        return {}, str(error)


def _not_judged(requirement: str, reason: str, metric: str = "") -> Judged:
    return Judged(requirement=requirement, state="not judged", metric=metric, reason=reason)


def _parsed(text: str) -> tuple[str, str, str, float]:
    found = _REQUIREMENT.fullmatch(text)
    if found is None:
        raise InvalidValue(
            f"{text!r} is not a requirement; write for instance 'accuracy >= 0.85' or "
            "'lower(selective_accuracy) >= 0.9'"
        )
    limit = _number(found["limit"], text)
    return found["end"] or "", (found["inner"] or found["metric"]), found["operator"], limit


def _tolerance(text: str) -> tuple[str, float]:
    found = _TOLERANCE.fullmatch(text)
    margin = _number(found["margin"], text) if found else math.nan
    if found is None or not margin > 0:
        raise InvalidValue(f"{text!r} is not a margin; write for instance 'accuracy by 0.03'")
    return found["metric"], margin


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidValue(f"{whole!r} must end with a number, not {text!r}")
    return value


def _score(run: BenchmarkResult, name: str) -> MetricScore:
    score: MetricScore | None = run.metric_scores.get(name)
    counts = run.attrition
    if score is None and name in _COUNTED and counts.n_sent:
        # Both are counts of outcomes, which every result has.
        share, n = (
            (counts.n_no_answer, counts.n_evaluated)
            if name == NoAnswerRate.key
            else (counts.n_not_evaluated, counts.n_sent)
        )
        value = share / n if n else math.nan
        return MetricScore(_COUNTED[name], value, n_evaluated=n, direction="lower")
    if score is None:
        known = {*(one.identifier for one in run.metric_scores.values()), *_COUNTED}
        raise UnknownName.among("metric", name, known)
    return score


def _judged(text: str, run: BenchmarkResult) -> Judged:
    end, name, symbol, limit = _parsed(text)
    score = _score(run, name)
    if math.isnan(score.value):
        reason = score.details.get("reason", "no reason is known")
        return _not_judged(text, f"{score.name} is undefined: {reason}", score.name)
    value, interval = score.value, score.interval if end else None
    if end:
        if interval is None or not interval.defined:
            return _not_judged(text, f"{score.name} has no interval", score.name)
        value = interval.low if end == "lower" else interval.high
    met = _OPERATORS[symbol]
    bounds = score.bounds
    if bounds is not None and met(bounds[0], limit) == met(bounds[1], limit):
        bounds = None
    return Judged(
        requirement=text,
        state="met" if met(value, limit) else "failed",
        metric=score.name,
        value=score.value,
        limit=limit,
        interval=interval,
        bounds=bounds,
        n_not_evaluated=run.attrition.n_not_evaluated,
    )


def _is_worse(delta: MetricDelta, margin: float) -> bool:
    """Tell a loss beyond the margin that is more than chance."""
    assert delta.interval is not None
    loss = -delta.delta if delta.direction == "higher" else delta.delta
    return loss > margin + _ROUNDING and not delta.interval.low <= 0 <= delta.interval.high


def _is_not_shown(delta: MetricDelta, margin: float) -> bool:
    """Tell whether a loss beyond the margin cannot be excluded."""
    assert delta.interval is not None
    worst = -delta.interval.low if delta.direction == "higher" else delta.interval.high
    return worst >= margin


def _relative(
    text: str,
    deltas: Mapping[str, MetricDelta],
    run: BenchmarkResult,
    fails: Callable[[MetricDelta, float], bool],
    reason: str,
) -> Judged:
    name, margin = _tolerance(text)
    identifier = _score(run, name).identifier
    delta = deltas.get(identifier)
    if delta is None or math.isnan(delta.delta):
        reason = reason or (delta.reason if delta else "the runs were not both scored with it")
        return _not_judged(text, f"{name} is not comparable: {reason}", name)
    if delta.direction == "neither":
        return _not_judged(text, f"of {name} neither more nor less is better", name)
    if delta.interval is None or not delta.interval.defined:
        return _not_judged(text, f"the change of {name} has no interval", name)
    return Judged(
        requirement=text,
        state="failed" if fails(delta, margin) else "met",
        metric=delta.name,
        value=delta.delta,
        limit=-margin if delta.direction == "higher" else margin,
        interval=delta.interval,
        is_change=True,
    )
