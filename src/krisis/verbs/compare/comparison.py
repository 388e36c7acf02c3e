"""What a comparison hands on: its options, differences, pairs and verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from krisis.display import Documented, ShortRepr, cut, listed
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric, Direction, MetricScores
from krisis.results.frames import frame_of
from krisis.results.matching import ChangedRow, MatchedRuns
from krisis.results.missing import MissingCases
from krisis.results.result import BenchmarkResult
from krisis.results.side_by_side import SideBySide, side_by_side
from krisis.statistics.intervals import Interval
from krisis.verbs.compare.agreement import ReaderAgreement, reader_agreement

if TYPE_CHECKING:
    import pandas as pd

NO_DIFFERENCE = "no significant difference"
NOT_COMPARABLE = "not comparable"
_EXCHANGES_PER_PAIR = 40


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What to compare and how; without ``metrics``, all that every run was scored with,
    but for those whose class has ``compared_by_default = False``. The headline
    of the task is then the primary metric, and the others are described, not tested.

    ``primary`` names another metric that is tested alone; ``metrics`` are adjusted together.
    ``margin`` is how much worse would not matter: one number for every metric, or one per key in
    the metric's own units.
    """

    metrics: Sequence[BaseMetric | str] = ()
    n_permutations: int = 1999
    seed: int = 42
    level: float = 0.95
    margin: float | Mapping[str, float] | None = None
    primary: str | None = None

    def __post_init__(self) -> None:
        given = self.margin if isinstance(self.margin, Mapping) else {"margin": self.margin}
        for name, value in given.items():
            if value is not None and not 0 < value < math.inf:
                raise InvalidValue(f"{name} must be a number above 0, not {value!r}")
        if self.n_permutations < 1:
            raise InvalidValue(f"n_permutations must be 1 or more, not {self.n_permutations!r}")

    def n_exchanges(self, n_pairs: int) -> int:
        """Return how many are drawn: many pairs multiply the smallest possible p-value."""
        return max(self.n_permutations, _EXCHANGES_PER_PAIR * n_pairs - 1 if n_pairs > 1 else 1)

    def margin_of(self, key: str) -> float | None:
        """Return the margin of a metric, where one was given."""
        return self.margin.get(key) if isinstance(self.margin, Mapping) else self.margin


@dataclass(slots=True, repr=False)
class MetricDelta(ShortRepr):
    """Right minus left in one metric.

    ``left`` and ``right`` are the scores; ``delta``, ``interval`` and ``p_value`` belong to
    ``left_compared`` and ``right_compared``, which are the scores themselves unless
    ``compared_by`` names another number, and ``compared_because`` why. ``p_adjusted`` is that of
    the whole comparison; ``reason`` says why there is no test.
    """

    key: str
    name: str
    direction: Direction
    left: float
    right: float
    delta: float = math.nan
    interval: Interval | None = None
    p_value: float = math.nan
    p_adjusted: float = math.nan
    test: str = ""
    compared_by: str = ""
    compared_because: str = ""
    left_compared: float = math.nan
    right_compared: float = math.nan
    margin: float | None = None
    non_inferior: bool | None = None
    margin_verdict: str = ""
    primary: bool = False
    reason: str = ""

    @property
    def shown(self) -> tuple[float, float]:
        """The two numbers that the difference belongs to; the scores where there is none."""
        if math.isnan(self.delta):
            return self.left, self.right
        return self.left_compared, self.right_compared

    def verdict(self, level: float = 0.95) -> str:
        """Say better, worse, different, no significant difference or not comparable."""
        if math.isnan(self.delta):
            return NOT_COMPARABLE
        if math.isnan(self.p_adjusted):
            return "not tested"
        if self.p_adjusted > 1 - level + 1e-12:
            return NO_DIFFERENCE
        if self.direction == "neither":
            return "different"
        return "better" if (self.delta > 0) == (self.direction == "higher") else "worse"

    def to_dict(self, level: float) -> JsonObject:
        """Return the difference with its verdict as JSON values."""
        interval = self.interval
        ends = None if interval is None else [interval.low, interval.high]
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "interval"}
        return {
            **fields,
            "interval": ends,
            "interval_method": interval.method if interval else None,
            "verdict": self.verdict(level),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Pair(ShortRepr):
    """Two of the runs, side by side, on the cases that both evaluated.

    ``matched`` is None where files without rows were compared; ``missing`` says how the other run
    did on cases that one of the two lacks.
    """

    left: str
    right: str
    deltas: Mapping[str, MetricDelta]
    changes: Mapping[tuple[str, str], Sequence[ChangedRow]] = field(default_factory=dict)
    matched: MatchedRuns | None = None
    missing: Sequence[MissingCases] = ()

    @property
    def basis(self) -> str:
        """Say how many cases of how many patients both runs evaluated."""
        if self.matched is None:
            return "unpaired"
        n, n_patients = self.matched.n_compared, self.matched.n_patients
        return f"{n:,} common cases of {n_patients:,} patients"


@dataclass(frozen=True)
class Comparison(Documented):
    """All runs with all pairs; every pair is compared on its own common cases.

    ``scores`` are those of every run on all that it evaluated. ``left_out`` says, per metric that
    not every run has in the same form, why it is not compared.
    """

    runs: Mapping[str, BenchmarkResult]
    scores: Mapping[str, MetricScores]
    pairs: Sequence[Pair]
    options: CompareOptions
    n_permutations: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)
    builder: ClassVar[str] = "krisis.verbs.compare.page:comparison_document"

    def __repr__(self) -> str:
        basis = listed(list(dict.fromkeys(pair.basis for pair in self.pairs)))
        return f"Comparison({listed([cut(name) for name in self.runs])}; {basis})"

    @property
    def paired(self) -> bool:
        """Say whether rows were matched, or only scores compared."""
        return all(pair.matched is not None for pair in self.pairs)

    @cached_property
    def agreement(self) -> ReaderAgreement | None:
        """How far the readers among the runs agree; None where there are not two."""
        return reader_agreement(self.runs, seed=self.options.seed) if self.paired else None

    def side_by_side(self) -> SideBySide:
        """Return the figures of every run on the rows that all of them share."""
        return side_by_side(self.runs, self.scores)

    def tied_with_best(self) -> dict[str, list[str]]:
        """Return, per metric with a better end, the best run and all not significantly different.

        Runs are ranked by the number that they are compared by; a run without it is not ranked.
        Of a run with cases that were not evaluated, the worse bound counts.
        """
        groups: dict[str, list[str]] = {}
        for key, delta in self.pairs[0].deltas.items():
            known = self._comparable(key)
            is_tested = not self.paired or any(pair.deltas[key].test for pair in self.pairs)
            if len(known) < 2 or delta.direction == "neither" or not is_tested:
                continue
            better = max if delta.direction == "higher" else min
            worst = {name: self._end(name, key, delta.direction, known[name]) for name in known}
            best = better(worst, key=lambda name: worst[name])
            groups[key] = [name for name in known if name == best or self._tied(best, name, key)]
        return groups

    def depends_on_missing(self, key: str) -> bool:
        """Tell whether another run may be the best in a metric once missing cases are known."""
        best, direction = self.tied_with_best().get(key, [])[:1], self._direction(key)
        if not best or direction == "neither":
            return False
        tied = self.tied_with_best()[key]
        sign = 1 if direction == "higher" else -1
        known = self._comparable(key)
        other: Direction = "lower" if direction == "higher" else "higher"
        ends = {name: sign * self._end(name, key, other, known[name]) for name in known}
        worst = max(sign * self._end(name, key, direction, known[name]) for name in tied)
        return any(ends[name] > worst for name in known if name not in tied)

    def _direction(self, key: str) -> Direction:
        delta = self.pairs[0].deltas.get(key)
        return "neither" if delta is None else delta.direction

    def _end(self, name: str, key: str, direction: Direction, value: float) -> float:
        """Return the worse bound of a run's score, on all that it evaluated.

        A metric that is compared by another number than its score keeps that ``value``.
        """
        score = self.scores[name].get(key)
        delta = self.pairs[0].deltas.get(key)
        if score is None or math.isnan(score.value) or (delta is not None and delta.compared_by):
            return value
        if score.bounds is None:
            return float(score.value)
        return float(score.bounds[0] if direction == "higher" else score.bounds[1])

    def _comparable(self, label: str) -> dict[str, float]:
        """Return the compared number of every run that has one."""
        known: dict[str, float] = {}
        for pair in self.pairs:
            delta = pair.deltas.get(label)
            if delta is not None and not math.isnan(delta.delta):
                known |= {pair.left: delta.left_compared, pair.right: delta.right_compared}
        return {name: known[name] for name in self.runs if name in known}

    def _tied(self, first: str, second: str, label: str) -> bool:
        for pair in self.pairs:
            if {pair.left, pair.right} == {first, second} and label in pair.deltas:
                verdict = pair.deltas[label].verdict(self.options.level)
                return verdict in (NO_DIFFERENCE, "not tested")
        return False

    def to_frame(self) -> pd.DataFrame:
        """Return one line per pair of runs and metric as a pandas frame."""
        level = self.options.level
        lines = [
            {
                "left": pair.left,
                "right": pair.right,
                "key": key,
                "name": delta.compared_by or delta.name,
                "left_value": delta.shown[0],
                "right_value": delta.shown[1],
                "delta": delta.delta,
                "low": delta.interval.low if delta.interval else math.nan,
                "high": delta.interval.high if delta.interval else math.nan,
                "level": level,
                "p_value": delta.p_value,
                "p_adjusted": delta.p_adjusted,
                "verdict": delta.verdict(level),
                "direction": delta.direction,
                "compared_by": delta.compared_by,
                "reason": delta.reason,
            }
            for pair in self.pairs
            for key, delta in pair.deltas.items()
        ]
        return frame_of(lines, "to_frame()")

    def to_dict(self) -> JsonObject:
        """Return everything as JSON values."""
        options = self.options
        tied = self.tied_with_best()
        return {
            "kind": "krisis.comparison",
            "schema_version": 3,
            "paired": self.paired,
            **({"reader_agreement": self.agreement.to_json()} if self.agreement else {}),
            "runs": list(self.runs),
            "options": {
                "n_permutations": self.n_permutations,
                "seed": options.seed,
                "level": options.level,
                "margin": options.margin,
                "primary": options.primary,
            },
            "left_out": dict(self.left_out),
            "spending": {
                name: {
                    "elapsed_seconds": run.spending.elapsed_seconds,
                    "token_total": run.spending.token_total,
                    "cost": run.spending.cost,
                }
                for name, run in self.runs.items()
            },
            "scores": {
                name: {
                    score.identifier: {
                        "value": score.value,
                        "bounds": score.bounds,
                        "parameters": score.parameters,
                    }
                    for score in scores.values()
                }
                for name, scores in self.scores.items()
            },
            "pairs": [_pair_dict(pair, options.level) for pair in self.pairs],
            "tied_with_best": tied,
            "depends_on_missing": [key for key in tied if self.depends_on_missing(key)],
        }


def _pair_dict(pair: Pair, level: float) -> JsonObject:
    matched = pair.matched
    return {
        "left": pair.left,
        "right": pair.right,
        "n_matched": matched.n_matched if matched else None,
        "n_compared": matched.n_compared if matched else None,
        "n_patients": matched.n_patients if matched else None,
        "n_not_evaluated": dict(matched.n_not_evaluated) if matched else None,
        "unmatched": {k: list(v) for k, v in matched.unmatched.items()} if matched else None,
        "missing": [one.to_dict() for one in pair.missing],
        "deltas": {label: delta.to_dict(level) for label, delta in pair.deltas.items()},
        "changes": {
            " → ".join(change): [row.to_dict() for row in rows]
            for change, rows in pair.changes.items()
        },
    }
