"""The rows of a run file by column: every line is checked once, and no row is built.

A run that asks its cases more than once is read as rows: what one asking says of another needs them
together.
"""

# What a method returns is said once, in `metrics.columns.Columns`.
# ruff: noqa: D102
from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidFile
from krisis.json_values import JsonObject, JsonValue
from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import Coded, Coder, Columns, PickedColumns, as_numbers
from krisis.metrics.labels import FloatArray, IntArray
from krisis.outcomes import OUTCOMES, outcome_of
from krisis.runs.read import (
    ALLOWED_TYPES,
    N_PER_BLOCK,
    Lines,
    RunFile,
    blocks,
    objects,
    open_run,
    without_collector,
)
from krisis.runs.schema import TABLES, Value
from krisis.task_facts import OWN_PROBABILITIES

_AT = {name: place for place, name in enumerate(TABLES["rows"])}

Sizes = tuple[int, int]


class RunColumns(Columns):
    """The rows of a run file that can be believed, by column."""

    def __init__(self, path: Path, cases: _Cases, lines: _RowLines) -> None:
        self.place, self._path, self._cases, self._lines = str(path), path, cases, lines
        self._case = cases.index[lines.numbers("case_position")]
        self._metadata = np.where(lines.own_metadata < 0, self._case, lines.own_metadata)
        self.n_rows = int(self._case.size)

    @classmethod
    def of(cls, run: RunFile) -> RunColumns | None:
        """Read a run; None where a case is asked more than once."""
        if run.description.identity.repeats > 1:
            return None
        with without_collector():
            cases = _Cases.read(run)
            lines = _RowLines(cases.known, run.sizes)
            for block in blocks(run.believed("rows")):
                lines.add(block, run.is_row)
        if lines.are_repeated:
            return None
        lines.add_own_metadata(cases)
        return cls(run.path, cases, lines)

    def rows_at(self, places: Sequence[int]) -> list[EvaluationResult]:
        if "rows" in self.__dict__:
            return [self.rows[place] for place in places]
        positions = self._lines.numbers("position")[np.asarray(places, dtype=np.int64)].tolist()
        if not positions:
            return []
        with open_run(self._path, checked=True) as run:
            found = run.rows_at(positions)
        try:
            return [found[position] for position in positions]
        except KeyError:
            raise InvalidFile(f"{self._path} changed while it was read; try again") from None

    @cached_property
    def outcome(self) -> NDArray[np.int8]:
        return self._lines.coded("outcome").mapped(OUTCOMES.index).astype(np.int8)

    @cached_property
    def truth(self) -> Coded:
        return self._lines.coded("truth")

    @cached_property
    def prediction(self) -> Coded:
        return self._lines.coded("prediction")

    @cached_property
    def confidence(self) -> FloatArray:
        return self._lines.numbers("confidence").astype(np.float64)

    @cached_property
    def clusters(self) -> Coded:
        return self._cases.clusters.coded().taken(self._case)

    @cached_property
    def records(self) -> Coded:
        return self._cases.records.coded().taken(self._case)

    def metadata(self, key: str) -> Coded:
        coder = self._cases.metadata.get(key)
        if coder is None:
            return Coded.empty(self.n_rows)
        return coder.coded().taken(self._metadata)

    def metadata_keys(self) -> list[str]:
        return list(self._cases.metadata)

    def signal(self, name: str) -> FloatArray | None:
        return as_numbers(self._signals.get(name, [None] * self.n_rows))

    def signal_names(self) -> list[str]:
        return sorted(self._signals)

    @cached_property
    def _signals(self) -> dict[str, list[JsonValue]]:
        """The signals by name: one list of values each."""
        found: dict[str, list[JsonValue]] = {}
        for place, held in self._lines.signals():
            for name, value in held.items():
                found.setdefault(name, [None] * self.n_rows)[place] = value
        return found


class BaselineColumns(PickedColumns):
    """What a baseline answered to the cases of a run, by column."""

    def __init__(self, whole: Columns, places: IntArray, answers: Lines) -> None:
        super().__init__(whole, places)
        prediction, abstained, confidence, chances = (
            zip(*answers, strict=True) if answers else ((),) * 4
        )
        self._chances: Sequence[JsonObject | None] = chances
        self._prediction = Coded.of(prediction)
        self._abstained = np.array(abstained, dtype=np.bool_)
        self._confidence = np.array(confidence, dtype=np.float64)

    @classmethod
    def of(cls, run: RunFile, name: str, whole: Columns) -> BaselineColumns:
        """Read the answers to those cases that ``whole`` has a row of; of repeats, the first."""
        at = {record: place for place, record in reversed([*enumerate(whole.records.cells())])}
        case_at = {line[0]: at.get(str(line[1])) for line in run.believed("cases")}
        chances = {
            line[2]: json.loads(str(line[3]))
            for line in run.believed("baseline_chances")
            if line[1] == name
        }
        places, answers = [], []
        for _, who, case, prediction, abstained, confidence, _ in run.believed("baselines"):
            place = case_at.get(case)
            if who == name and place is not None and not isinstance(prediction, bytes):
                stated = confidence if isinstance(confidence, float) else None
                places.append(place)
                answers.append((prediction, bool(abstained), stated, chances.get(case)))
        return cls(whole, np.array(places, dtype=np.int64), answers)

    def rows_at(self, places: Sequence[int]) -> list[EvaluationResult]:
        predictions = self._prediction.taken(np.array(places, dtype=np.int64)).cells()
        return [
            EvaluationResult(
                prediction,  # type: ignore[arg-type]
                row.ground_truth,
                bool(self._abstained[place]),
                None if np.isnan(self._confidence[place]) else float(self._confidence[place]),
                metadata=row.metadata,
                record_id=row.record_id,
                cluster_id=row.cluster_id,
                signals={} if own is None else {OWN_PROBABILITIES: own},
            )
            for own, place, prediction, row in zip(
                (self._chances[place] for place in places),
                places,
                predictions,
                super().rows_at(places),
                strict=True,
            )
        ]

    @property
    def outcome(self) -> NDArray[np.int8]:
        names = OUTCOMES.index("answered"), OUTCOMES.index("abstained")
        return np.where(self._abstained, names[1], names[0]).astype(np.int8)

    @property
    def prediction(self) -> Coded:
        return self._prediction

    @property
    def confidence(self) -> FloatArray:
        return self._confidence

    def signal(self, name: str) -> FloatArray | None:
        return np.full(self.n_rows, np.nan)

    def signal_names(self) -> list[str]:
        return [OWN_PROBABILITIES] if any(one is not None for one in self._chances) else []


@dataclass(slots=True)
class _Cases:
    """The records of a run: names and metadata by column, and where each case is in them."""

    records: Coder = field(default_factory=Coder)
    clusters: Coder = field(default_factory=Coder)
    metadata: dict[str, Coder] = field(default_factory=dict)
    n_metadata: int = 0
    positions: list[int] = field(default_factory=list)
    index: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def read(cls, run: RunFile) -> _Cases:
        """Read every case that can be believed."""
        found = cls()
        for block in blocks(run.believed("cases")):
            held = objects([line[4] for line in block])
            known = [(line, one) for line, one in zip(block, held, strict=True) if one is not None]
            found.positions += [line[0] for line, _ in known]  # type: ignore[misc]
            found.records.add([str(line[1]) for line, _ in known])
            # A record that names no patient is one.
            found.clusters.add([str(line[2] or line[1]) for line, _ in known])
            found.add_metadata([one for _, one in known])
        found.index = np.full(max(found.positions, default=-1) + 1, -1, dtype=np.int64)
        found.index[found.positions] = np.arange(len(found.positions))
        return found

    def known(self, positions: Sequence[Value]) -> bool:
        """Say whether all these cases are here."""
        held = np.array(positions, dtype=np.int64)
        if held.size and not 0 <= held.min() <= held.max() < self.index.size:
            return False
        return bool((self.index[held] >= 0).all())

    def add_metadata(self, held: Sequence[JsonObject]) -> None:
        """Add the metadata of some cases, or those that rows have of their own."""
        for key in {key: None for one in held for key in one}:
            if key not in self.metadata:
                self.metadata[key] = Coder()
                self.metadata[key].add([None] * self.n_metadata)
        for key, coder in self.metadata.items():
            coder.add([one.get(key) for one in held])
        self.n_metadata += len(held)


class _RowLines:
    """The lines of a run's rows, block by block: what is kept of them, checked together."""

    _KEPT = ("position", "case_position", "outcome", "prediction", "truth", "confidence")
    _NUMBERS = ("position", "case_position", "confidence")

    def __init__(self, known: Callable[[Sequence[Value]], bool], sizes: Sizes) -> None:
        self._known, self._sizes = known, sizes
        self._numbers: dict[str, list[NDArray[np.generic]]] = {name: [] for name in self._NUMBERS}
        self._coders = {name: Coder() for name in self._KEPT if name not in self._NUMBERS}
        self._signals: list[Value] = []
        self._own: list[tuple[int, JsonObject]] = []
        self._n = 0
        self.are_repeated = False
        self.own_metadata: IntArray = np.empty(0, dtype=np.int64)

    def add(self, block: Lines, is_row: Callable[[tuple[Value, ...]], bool]) -> None:
        """Add the lines that make a row: at once where all of them must."""
        cells = dict(zip(TABLES["rows"], zip(*block, strict=True), strict=False))
        if not self._must_be_rows(cells):
            block = [line for line in block if is_row(line) and self._known([line[1]])]
            if not block:
                return
            cells = dict(zip(TABLES["rows"], zip(*block, strict=True), strict=False))
        self.are_repeated |= any(cells["repeat"])
        for name, parts in self._numbers.items():
            kind = np.float64 if name == "confidence" else np.int64
            parts.append(np.array(cells[name], dtype=kind))
        for name, coder in self._coders.items():
            coder.add(list(cells[name]))
        self._signals += cells["signals"]
        for place, text in enumerate(cells["metadata"], self._n):
            if text is not None:
                self._own.append((place, json.loads(text)))
        self._n += len(block)

    def _must_be_rows(self, cells: dict[str, tuple[Value, ...]]) -> bool:
        """Say whether nothing in a block can keep a line from being a row; see `RunFile._row`."""
        columns = zip(cells.values(), ALLOWED_TYPES, strict=True)
        if not all(set(map(type, column)) <= allowed for column, allowed in columns):
            return False
        if any(cells["repeat"]):
            return False
        n_records, n_cases = self._sizes
        position = np.array(cells["position"], dtype=np.int64)
        if (position >= n_cases).any() or not self._known(cells["case_position"]):
            return False
        if n_records and (position != np.array(cells["case_position"], dtype=np.int64)).any():
            return False
        stated = [one for one in cells["confidence"] if one is not None]
        if stated and not 0 <= min(stated) <= max(stated) <= 1:  # type: ignore[operator]
            return False
        held = zip(
            *(cells[name] for name in ("outcome", "abstained", "error", "failure_class")),
            strict=True,
        )
        kinds = {(name, bool(no), error is None, why) for name, no, error, why in held}
        if any(
            name != outcome_of(abstained=no, error=None if fine else "", failure_class=str(why))
            for name, no, fine, why in kinds
        ):
            return False
        texts = [text for name in ("signals", "metadata") for text in cells[name]]
        return None not in objects([text for text in texts if text is not None])

    def add_own_metadata(self, cases: _Cases) -> None:
        """Put the metadata that rows have of their own behind those of the cases."""
        self.own_metadata = np.full(self._n, -1, dtype=np.int64)
        if self._own:
            places = [place for place, _ in self._own]
            self.own_metadata[places] = cases.n_metadata + np.arange(len(places))
            cases.add_metadata([held for _, held in self._own])

    def numbers(self, name: str) -> NDArray[Any]:
        """Return a column of numbers, a missing one being NaN."""
        return np.concatenate(self._numbers[name] or [np.empty(0, dtype=np.int64)])

    def coded(self, name: str) -> Coded:
        """Return a column by its values."""
        return self._coders[name].coded()

    def signals(self) -> Iterator[tuple[int, JsonObject]]:
        """Yield the signals of every row that has any, with its place."""
        given = [(place, text) for place, text in enumerate(self._signals) if text is not None]
        texts = [text for _, text in given]
        for start in range(0, len(given), N_PER_BLOCK):
            part = slice(start, start + N_PER_BLOCK)
            for (place, _), held in zip(given[part], objects(texts[part]), strict=True):
                yield place, held or {}
