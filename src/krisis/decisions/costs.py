"""What answers and deferrals cost, and how well deferred cases are read: a file or a preset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import yaml

from krisis.answers import Label, canonical_label, is_label
from krisis.decisions.answers import answers_of, is_positive, positive_of
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject, JsonValue, dumps
from krisis.metrics.items import RunItems
from krisis.metrics.table import FloatArray, IntArray
from krisis.yaml_values import read_mapping

Costs = Mapping[tuple[Label, Label], float]
_FIELDS = ("costs", "defer", "unit", "note", "team")
# Costs and rates are given per so many cases.
PER = 1000
# Beyond this, sums of costs lose the small ones and at last overflow.
_MOST = 1e12
OWNERSHIP = "These costs are value judgements; replace them with your own."


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """How well deferred cases are read.

    Either ``sensitivity`` and ``specificity`` (two answers), ``accuracy``, or a metadata
    ``column`` that holds the reader's answer.
    """

    sensitivity: float | None = None
    specificity: float | None = None
    accuracy: float | None = None
    column: str = ""

    def __post_init__(self) -> None:
        for name in ("sensitivity", "specificity", "accuracy"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InvalidValue(f"the reader's {name} must be between 0 and 1, not {value!r}")
        pair = (self.sensitivity, self.specificity)
        ways = (pair != (None, None), self.accuracy is not None, bool(self.column))
        if sum(ways) != 1 or pair.count(None) == 1:
            raise InvalidValue(
                "say once how well deferred cases are read: sensitivity and specificity, accuracy, "
                "or the column with the reader's answers"
            )

    def errors(self, run: RunItems) -> FloatArray:
        """Return the chance that the reader is wrong, per row; 0 or 1 by the reader's answers."""
        if self.column:
            return np.where(self._answers(run) != run.table.truth, 1.0, 0.0)
        if self.accuracy is not None:
            return np.full(run.n_items, 1 - self.accuracy)
        if positive_of(run) is None or len(answers_of(run)) > 2:
            raise InvalidValue(
                f"sensitivity and specificity are for two answers with a positive one, which "
                f"{run.source.path} has not; give --reader-accuracy"
            )
        found = (self.sensitivity or 0.0, self.specificity or 0.0)
        return np.where(is_positive(run), 1 - found[0], 1 - found[1])

    def _answers(self, run: RunItems) -> IntArray:
        values = run.table.metadata(self.column)
        if not any(self.column in row.metadata for row in run.table.rows):
            known = {str(key) for row in run.table.rows for key in row.metadata}
            raise UnknownName.among("metadata column", self.column, known)
        seen = {label: index for index, label in enumerate(run.table.labels)}
        code = {label: seen.get(label, -2) for label in answers_of(run)}
        found = []
        for index, value in enumerate(values):
            label = run.table.answers.key(value) if is_label(value) else None
            if label is None or label not in code:
                raise InvalidValue(
                    f"{run.place(index)}: the reader's answer in {self.column!r} is {value!r}; it "
                    f"must be one of {', '.join(map(str, code))} in every row"
                )
            found.append(code[label])
        return np.array(found)

    def assumption(self) -> str:
        """State what the figures of a team assume."""
        if self.column:
            return f"The reader's answers are those in the column {self.column!r}."
        if self.accuracy is not None:
            return f"A reader is right in {self.accuracy:.4g} of the cases, whichever are deferred."
        return (
            f"A reader finds {self.sensitivity:.4g} of the positive and {self.specificity:.4g} "
            "of the negative cases, no fewer among those that are deferred."
        )


def team_from(content: JsonMapping, place: str) -> Team:
    """Read a team as a cost table states it."""
    known = Team.__slots__
    for name, value in content.items():
        if name not in known:
            raise UnknownName.among(f"field of the team in {place}:", str(name), known)
        wanted = str if name == "column" else int | float
        if not isinstance(value, wanted) or isinstance(value, bool):
            what = "text" if name == "column" else "a number"
            raise InvalidValue(f"{place}: {name} of the team must be {what}, not {value!r}")
    return Team(**content)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTable:
    """What each answer costs under each truth, and what deferring costs.

    ``defer`` is one figure or one per truth, None where only answers are priced. ``team`` reads
    deferred cases. ``place`` says where the table is from.
    """

    costs: Costs
    defer: float | Mapping[Label, float] | None = None
    unit: str = "points"
    note: str = ""
    team: Team | None = None
    place: str = ""

    def of(self, truth: Label, answer: Label) -> float:
        """Return what an answer costs; a right one costs 0 unless it is listed."""
        pair = truth, answer
        if pair not in self.costs and truth != answer:
            raise InvalidValue(
                f"the cost table says nothing of the answer {answer!r} where {truth!r} is right; "
                "add it"
            )
        return self.costs.get(pair, 0.0)

    def deferral(self, truth: Label) -> float:
        """Return what deferring costs where a truth holds."""
        found = self.defer.get(truth) if isinstance(self.defer, Mapping) else self.defer
        if found is None:
            where = f" where {truth!r} is right" if isinstance(self.defer, Mapping) else ""
            raise InvalidValue(
                f"{self.place} does not say what deferring costs{where}; add it under `defer`"
            )
        return found

    @property
    def most(self) -> float:
        """Return the cost of the costliest answer, which one without a prediction costs too."""
        return max(self.costs.values())

    def answer_costs(self, run: RunItems) -> FloatArray:
        """Return the cost of every answer of a run, NaN where the model abstained."""
        table = run.table
        found = np.full(run.n_items, math.nan)
        n = len(table.labels) + 1  # −1, an answer without a prediction, becomes 0
        kinds = table.truth * n + table.prediction + 1
        for kind in np.unique(kinds[run.predicted]).tolist():
            truth, code = divmod(kind, n)
            cost = self.of(table.labels[truth], table.labels[code - 1]) if code else self.most
            found[run.predicted & (kinds == kind)] = cost
        return found

    def deferral_costs(self, run: RunItems) -> FloatArray:
        """Return what it would cost to defer each row of a run."""
        table = run.table
        seen = set(table.truth.tolist())
        by_code = [self.deferral(t) if i in seen else 0.0 for i, t in enumerate(table.labels)]
        return np.array(by_code, dtype=np.float64)[table.truth]

    def to_json(self) -> JsonObject:
        """Return the table as a file states it."""
        costs: dict[Label, dict[Label, float]] = {}
        for (truth, answer), cost in self.costs.items():
            costs.setdefault(truth, {})[answer] = cost
        return {
            "costs": costs,
            "defer": self.defer,
            "unit": self.unit,
            "note": self.note,
            "place": self.place,
        }


def costs_from(content: JsonMapping, place: str) -> CostTable:
    """Read ``costs: {truth: {answer: cost}}``, ``defer`` and the other fields of a cost table."""
    for name in content:
        if name not in _FIELDS:
            raise UnknownName.among(f"field of the cost table {place}:", str(name), _FIELDS)
    table: JsonValue = content.get("costs")
    found: dict[tuple[Label, Label], float] = {}
    usable = isinstance(table, Mapping) and all(isinstance(r, Mapping) for r in table.values())
    for truth, row in table.items() if usable else ():
        for answer, cost in row.items():
            what = f"{place}: the cost of the answer {answer!r} where {truth!r} is right"
            pair = _label(truth, place), _label(answer, place)
            if pair in found:
                raise InvalidValue(f"{what} is listed twice; remove one")
            found[pair] = _cost(cost, what)
    if not found or max(found.values()) == 0:
        raise InvalidValue(
            f"{place} must hold `costs`, a mapping of truth to answer to cost, with one above 0"
        )
    team = content.get("team")
    if not (team is None or isinstance(team, Mapping)):
        raise InvalidValue(f"{place}: team must be a mapping, such as {{accuracy: 0.9}}")
    return CostTable(
        costs=found,
        defer=_deferral(content.get("defer"), place),
        unit=str(content.get("unit") or "points"),
        note=str(content.get("note") or ""),
        team=team_from(team, place) if team else None,
        place=place,
    )


def _label(value: JsonValue, place: str) -> Label:
    if isinstance(value, bool):
        raise InvalidValue(
            f"{place}: YAML reads yes, no, on and off as true and false; write the answer in quotes"
        )
    if not is_label(value):
        raise InvalidValue(f"{place}: {value!r} is no answer; use a whole number or a text")
    return canonical_label(value)


def _cost(value: JsonValue, what: str) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 <= value <= _MOST):
        said = repr(value) if len(repr(value)) < 30 else f"{repr(value)[:30]}…"
        raise InvalidValue(
            f"{what} must be a number from 0 to {_MOST:.0e}, not {said}{_why(value)}"
        )
    return float(value)


def _why(value: JsonValue) -> str:
    """Explain a number that YAML took for text."""
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        number = math.nan
    return f", which is a text; write {_figure(number)}" if math.isfinite(number) else ""


def _deferral(value: JsonValue, place: str) -> float | Mapping[Label, float] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        what = f"{place}: the cost of deferring where %r is right"
        found = {_label(truth, place): _cost(cost, what % truth) for truth, cost in value.items()}
        if len(found) < len(value):
            raise InvalidValue(f"{place}: defer lists a true answer twice; remove one")
        return found
    return _cost(value, f"{place}: defer")


def read_costs(path: Path) -> CostTable:
    """Read the cost table of a YAML file."""
    content = read_mapping(path, "a cost table with `costs`", option="--cost")
    return costs_from(content, str(path))


def costs_of_run(run: RunItems, path: Path | None) -> CostTable:
    """Return the table of a file, else the preset of the task, checked against the answers."""
    if path is not None:
        table = read_costs(path)
    elif run.costs is not None:
        task = f" of the task {run.source.task!r}" if run.source.task else ""
        table = costs_from(asdict(run.costs), f"the preset{task}")
    elif run.table.answers.price is not None:
        table = _costs_by_price(run, run.table.answers.price)
    else:
        raise InvalidValue(
            f"the task of {run.source.path} has no preset of costs; add --cost FILE, which "
            "--write-cost FILE drafts"
        )
    known = set(answers_of(run))
    named = {label for pair in table.costs for label in pair}
    named |= set(table.defer) if isinstance(table.defer, Mapping) else set()
    for label in named:
        if label not in known:
            raise UnknownName.among(f"answer in {table.place}:", str(label), map(str, known))
    return table


def _costs_by_price(run: RunItems, price: float) -> CostTable:
    """Return the costs of a task that states only the price of deferring."""
    answers = answers_of(run)
    matrix = run.table.answers.loss_matrix(answers)
    pairs = {
        (truth, answer): float(matrix[i, j])
        for i, truth in enumerate(answers)
        for j, answer in enumerate(answers)
        if i != j
    }
    note = f"Every wrong answer costs 1, and deferring {price:g}, the price of the task."
    return CostTable(
        costs=pairs, defer=price, unit="wrong answers", note=note, place="the price of the task"
    )


def cost_file_text(run: RunItems) -> str:
    """Return a cost table to edit: that of the task, else 1 for every wrong answer."""
    is_priced = run.costs is not None or run.table.answers.price is not None
    table = costs_of_run(run, None) if is_priced else None
    note = table.note if table else "Placeholders: 1 for every wrong answer. Replace them."
    lines = [
        f"# What answers and deferrals cost, for `krisis decide` and `krisis certify`. {OWNERSHIP}",
        f"# {' '.join(note.split())}",
        f"unit: {dumps(table.unit if table else 'points')}",
        "costs: # truth, then answer; a right answer costs 0 unless it is listed",
    ]
    answers = answers_of(run)
    for truth in answers:
        priced = {a: table.costs.get((truth, a)) if table else 1.0 for a in answers}
        # What the preset does not price, such as an answer beyond the task, costs its most.
        most = table.most if table else 1.0
        row = {a: most if c is None else c for a, c in priced.items() if a != truth}
        right = table.costs.get((truth, truth)) if table else None
        lines.append(f"  {_key(truth)}: {_flow(row if right is None else {truth: right, **row})}")
    defer = 0.2 if table is None or table.defer is None else table.defer
    figure = _flow(defer) if isinstance(defer, Mapping) else _figure(defer)
    lines.append(f"defer: {figure} # one figure, or one per truth")
    return "\n".join(lines) + "\n"


def _flow(row: Mapping[Label, float]) -> str:
    return "{" + ", ".join(f"{_key(label)}: {_figure(cost)}" for label, cost in row.items()) + "}"


def _figure(cost: float) -> str:
    """Write a figure so that YAML reads it back; 1e-07, which has no point, would be a text."""
    return f"{cost:.0f}" if cost == int(cost) else str(yaml.safe_dump(cost)).split()[0]


def _key(label: Label) -> str:
    return str(label) if isinstance(label, int) else dumps(label)
