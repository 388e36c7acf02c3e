"""Which rows of several runs are the same case, and what became of each in the other run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from krisis.answers import AnswerSet
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import NOT_EVALUATED
from krisis.metrics.partition import VERDICTS, verdicts
from krisis.results.result import BenchmarkResult
from krisis.task_facts import TaskFacts

# The k-th asking of a record in one run is matched with the k-th asking in another.
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MatchedRuns:
    """The rows that every run evaluated, ordered by patient; and what had to be left out.

    ``lacking`` are, of every run, the positions of the rows that it evaluated and another run did
    not.
    """

    rows: Mapping[str, Rows]
    positions: Mapping[str, Sequence[int]]
    unmatched: Mapping[str, Sequence[str]]
    n_matched: int
    n_not_evaluated: Mapping[str, int]
    lacking: Mapping[str, Sequence[int]]

    @property
    def n_compared(self) -> int:
        """Return the number of rows that all runs evaluated."""
        return len(next(iter(self.rows.values())))

    @property
    def n_patients(self) -> int:
        """Return the number of their patients."""
        return next(iter(self.rows.values())).table.patients.n


def refuse_other_data(runs: Mapping[str, BenchmarkResult]) -> None:
    """Refuse runs whose cases differ, naming what differs."""
    for field in ("suite", "task", "content_hash"):
        said = {name: run.suite_description.get(field) for name, run in runs.items()}
        known = {name: value for name, value in said.items() if value is not None}
        if len(set(map(str, known.values()))) > 1:
            listed = ", ".join(f"{name}: {value}" for name, value in known.items())
            raise InvalidValue(
                f"the runs were made on different data ({field.replace('_', ' ')} differs: "
                f"{listed}); compare runs of the same suite, task, seed and file"
            )


def refuse_other_costs(runs: Mapping[str, BenchmarkResult]) -> None:
    """Refuse runs that were told different costs: one table must judge both."""
    tasks = {name: run.provenance.task_facts or TaskFacts("") for name, run in runs.items()}
    (first, one), *others = tasks.items()
    for name, other in others:
        if not one.costs.same(other.costs):
            prices = f"a deferral costs {one.costs.price:g} and {other.costs.price:g}"
            differ = prices if one.costs.price != other.costs.price else "their tables differ"
            raise InvalidValue(
                f"{first} and {name} state different costs ({differ}); judge both by one table: "
                "--costs FILE or --price SHARE"
            )


@dataclass(slots=True)
class RowKeys:
    """What rows must tell to be matched, by column."""

    keyed: dict[Key, int]
    truths: Sequence[object]
    missing: Sequence[bool]

    @classmethod
    def by(cls, name: str, rows: Rows) -> RowKeys:
        """Read the rows of a run."""
        columns, seen = rows.columns, Counter[str]()
        missing = (columns.outcome == NOT_EVALUATED).tolist()
        told = cls({}, columns.truth.cells(), missing)
        records = list(map(str, columns.records.cells()))
        for position in columns.order(np.arange(columns.n_rows)).tolist():
            record = records[position]
            if not record:
                raise InvalidValue(
                    f"row {position} of {name} has no record_id, so it cannot be matched; run "
                    "again with records that carry one"
                )
            told.keyed[record, seen[record]] = position
            seen[record] += 1
        return told


def match_runs(
    runs: Mapping[str, BenchmarkResult], keys: Mapping[str, RowKeys] | None = None
) -> MatchedRuns:
    """Match rows by record_id and keep those that every run has and evaluated.

    ``keys`` are those of the rows where they were read before.
    """
    told = {
        name: RowKeys.by(name, run.evaluation_results) if keys is None else keys[name]
        for name, run in runs.items()
    }
    first, *others = told.values()
    common = [key for key in first.keyed if all(key in other.keyed for other in others)]
    names = " and ".join(runs)
    if not common:
        raise InvalidValue(f"{names} share no record_id, so there is nothing to compare")
    answers = next(iter(runs.values())).rows.answers or AnswerSet()
    _refuse_other_truth(common, told, answers)
    scored = [k for k in common if not any(one.missing[one.keyed[k]] for one in told.values())]
    if not scored:
        raise InvalidValue(f"no record was evaluated by both {names}; resume the runs first")
    positions = {name: [one.keyed[key] for key in scored] for name, one in told.items()}
    kept, compared = set(common), set(scored)
    return MatchedRuns(
        rows={name: run.rows.taken(positions[name]) for name, run in runs.items()},
        positions=positions,
        unmatched={name: [k[0] for k in one.keyed if k not in kept] for name, one in told.items()},
        n_matched=len(common),
        n_not_evaluated={
            name: sum(one.missing[one.keyed[k]] for k in common) for name, one in told.items()
        },
        lacking={
            name: [at for k, at in one.keyed.items() if k not in compared and not one.missing[at]]
            for name, one in told.items()
        },
    )


def _refuse_other_truth(
    common: Sequence[Key], told: Mapping[str, RowKeys], answers: AnswerSet
) -> None:
    canonical = lru_cache(maxsize=None)(answers.key)
    for key in common:
        truths = {name: one.truths[one.keyed[key]] for name, one in told.items()}
        if len({canonical(truth) for truth in truths.values()}) > 1:
            listed = ", ".join(f"{name}: {truth!r}" for name, truth in truths.items())
            raise InvalidValue(
                f"record {key[0]!r} has different right answers ({listed}); the runs were made "
                "on different data"
            )


OUTCOMES = tuple(name.replace("_", " ") for name in VERDICTS)
# What became of a row → what became of it in the other run, in the order in which it matters.
CHANGES = (
    ("right", "wrong"),
    ("wrong", "right"),
    ("right", "no answer"),
    ("wrong", "no answer"),
    ("right", "abstained"),
    ("wrong", "abstained"),
    ("abstained", "right"),
    ("abstained", "wrong"),
    ("abstained", "no answer"),
    ("no answer", "right"),
    ("no answer", "wrong"),
    ("no answer", "abstained"),
)


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """One record that two runs treated differently; positions are those in the runs."""

    change: str
    record_id: str
    left_position: int
    right_position: int
    ground_truth: int | str
    left_answer: int | str | None
    right_answer: int | str | None
    left_confidence: float | None
    right_confidence: float | None
    should_abstain: bool | None

    def to_dict(self) -> JsonObject:
        """Return the row as JSON values."""
        return asdict(self)


def changed_rows(
    matched: MatchedRuns, left: str, right: str
) -> dict[tuple[str, str], list[ChangedRow]]:
    """Return the matched rows of each kind of change, those of the surest new answer first."""
    found: dict[tuple[str, str], list[ChangedRow]] = {change: [] for change in CHANGES}
    sides = (left, right)
    codes = [verdicts(matched.rows[name].table) for name in sides]
    places = np.flatnonzero(codes[0] != codes[1])
    kinds = (code[places].tolist() for code in codes)
    positions = (np.array(matched.positions[name])[places].tolist() for name in sides)
    rows = (matched.rows[name].taken(places) for name in sides)
    for a, b, i, j, before, after in zip(*kinds, *positions, *rows, strict=True):
        change = OUTCOMES[a], OUTCOMES[b]
        found[change].append(_changed(" → ".join(change), (i, before), (j, after)))
    for changed in found.values():
        changed.sort(key=lambda row: (-(row.right_confidence or 0.0), row.right_position))
    return found


def _changed(
    change: str, before: tuple[int, EvaluationResult], after: tuple[int, EvaluationResult]
) -> ChangedRow:
    (i, left), (j, right) = before, after
    due = left.metadata.get("should_abstain")
    return ChangedRow(
        change=change,
        record_id=left.record_id,
        left_position=i,
        right_position=j,
        ground_truth=left.ground_truth,
        left_answer=left.prediction if left.outcome == "answered" else None,
        right_answer=right.prediction if right.outcome == "answered" else None,
        left_confidence=left.confidence,
        right_confidence=right.confidence,
        should_abstain=None if due is None else bool(due),
    )
