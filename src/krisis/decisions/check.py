"""A gate for continuous integration: requirements on a run, each met, failed or not judged."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics.base import MetricScore
from krisis.results.comparison.compare import CompareOptions, MetricDelta, compare_runs
from krisis.results.result import BenchmarkResult

State = Literal["met", "failed", "not judged"]
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
_TOLERANCE = re.compile(r"\s*(?P<metric>.+?)\s+by\s+(?P<margin>\S+)\s*")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One requirement and what the run says to it."""

    requirement: str
    state: State
    found: str

    def line(self) -> str:
        """Return the verdict in one line."""
        return f"{self.state.upper():<10}  {self.requirement}  ({self.found})"


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
) -> list[Verdict]:
    """Judge every requirement, in order."""
    verdicts = [_judged(text, run) for text in gate.require]
    relative = [*gate.no_worse, *gate.non_inferior]
    if not relative:
        return verdicts
    if against is None:
        raise InvalidValue(
            f"{relative[0]!r} speaks of another run; name it with --against BASELINE"
        )
    scored = [score.identifier for score in against.metric_scores.values()]
    chosen = options or CompareOptions(metrics=scored)
    comparison = compare_runs({"baseline": against, "run": run}, chosen)
    deltas = comparison.pairs[0].deltas
    verdicts += [_relative(text, deltas, run, _is_worse) for text in gate.no_worse]
    verdicts += [_relative(text, deltas, run, _is_not_shown) for text in gate.non_inferior]
    return verdicts


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """Return 1 when a requirement fails, else 2 when one could not be judged, else 0."""
    states = {verdict.state for verdict in verdicts}
    if "failed" in states:
        return 1
    return 2 if "not judged" in states else 0


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
    if score is None:
        known = [one.identifier for one in run.metric_scores.values()]
        raise UnknownName.among("metric", name, known)
    return score


def _judged(text: str, run: BenchmarkResult) -> Verdict:
    end, name, symbol, limit = _parsed(text)
    score = _score(run, name)
    if math.isnan(score.value):
        reason = score.details.get("reason", "no reason is known")
        return Verdict(text, "not judged", f"{score.name} is undefined: {reason}")
    value, words = score.value, f"{score.name} {score.value:.4f}"
    if end:
        interval = score.interval
        if interval is None or not interval.defined:
            return Verdict(text, "not judged", f"{score.name} has no interval")
        value = interval.low if end == "lower" else interval.high
        words = f"{words}, interval {interval.low:.4f} to {interval.high:.4f}"
    state: State = "met" if _OPERATORS[symbol](value, limit) else "failed"
    return Verdict(text, state, words)


def _is_worse(delta: MetricDelta, margin: float) -> bool:
    """Tell a loss beyond the margin that is more than chance."""
    interval = delta.interval
    loss = -delta.delta if delta.direction == "higher" else delta.delta
    shown = interval is not None and not interval.low <= 0 <= interval.high
    return loss > margin and shown


def _is_not_shown(delta: MetricDelta, margin: float) -> bool:
    """Tell whether a loss beyond the margin cannot be excluded."""
    interval = delta.interval
    if interval is None:
        return True
    worst = -interval.low if delta.direction == "higher" else interval.high
    return worst >= margin


def _relative(
    text: str,
    deltas: Mapping[str, MetricDelta],
    run: BenchmarkResult,
    fails: Callable[[MetricDelta, float], bool],
) -> Verdict:
    name, margin = _tolerance(text)
    identifier = _score(run, name).identifier
    delta = deltas.get(identifier)
    if delta is None or math.isnan(delta.delta):
        reason = delta.reason if delta else "the runs were not both scored with it"
        return Verdict(text, "not judged", f"{name} is not comparable: {reason}")
    if delta.direction == "neither":
        return Verdict(text, "not judged", f"of {name} neither more nor less is better")
    words = f"change {delta.delta:+.4f}"
    if delta.interval is not None:
        words += f", interval {delta.interval.low:+.4f} to {delta.interval.high:+.4f}"
    return Verdict(text, "failed" if fails(delta, margin) else "met", words)


def to_json(verdicts: Sequence[Verdict]) -> JsonObject:
    """Return the verdicts as JSON values."""
    return {
        "kind": "krisis.check",
        "schema_version": 1,
        "exit_code": exit_code(verdicts),
        "requirements": [
            {"requirement": v.requirement, "state": v.state, "found": v.found} for v in verdicts
        ],
    }


def to_markdown(verdicts: Sequence[Verdict]) -> str:
    """Return a table for the summary of a build."""
    rows = [f"| {v.state} | `{v.requirement}` | {v.found} |" for v in verdicts]
    return "\n".join(["| | requirement | found |", "|---|---|---|", *rows]) + "\n"


def to_junit(verdicts: Sequence[Verdict], name: str) -> str:
    """Return JUnit XML, a failed requirement as a failure and one not judged as an error."""
    cases = [
        f"  <testcase name={quoteattr(v.requirement)}>{_outcome(v)}</testcase>" for v in verdicts
    ]
    counts = {state: sum(v.state == state for v in verdicts) for state in ("failed", "not judged")}
    head = (
        f'<testsuite name={quoteattr(name)} tests="{len(verdicts)}" '
        f'failures="{counts["failed"]}" errors="{counts["not judged"]}">'
    )
    return (
        "\n".join(['<?xml version="1.0" encoding="utf-8"?>', head, *cases, "</testsuite>"]) + "\n"
    )


def _outcome(verdict: Verdict) -> str:
    tag = {"met": "", "failed": "failure", "not judged": "error"}[verdict.state]
    if not tag:
        return f"<system-out>{escape(verdict.found)}</system-out>"
    return f"<{tag} message={quoteattr(verdict.found)}/>"
