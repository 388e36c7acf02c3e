"""The rows of a long run, read from its columns and its journal: few are ever in memory."""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidFile
from krisis.json_values import NO_VALUES, JsonMapping, JsonObject, JsonValue, read_object
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import numbered_as_seen
from krisis.metrics.labels import Label, hashable
from krisis.metrics.row_order import patient_order
from krisis.metrics.table import (
    DEFERRAL,
    NO_LABEL,
    UNREADABLE,
    WHY_DEFERRED,
    Answers,
    BoolArray,
    IntArray,
    Table,
    Units,
)
from krisis.outcomes import NO_ANSWER_CLASSES
from krisis.results.journal_lines import opened
from krisis.results.rows import row_from_dict
from krisis.viewer.row_index import AnyArray
from krisis.viewer.stored_columns import CODED, NUMBERS, first_places, renumbered
from krisis.viewer.words import END

_BLOCK = 8192
_ABSENT = object()


class Columns:
    """The columns of one run on disk, and the lines of its journal."""

    def __init__(self, folder: Path, journal: Path) -> None:
        self.folder, self.journal = folder, journal
        content = read_object(folder / "columns.json", lenient=True)
        self._described: dict[str, tuple[str, list[JsonValue] | None] | None] = content["columns"]
        for described in self._described.values():
            if described is not None and described[1] is not None:
                described[1].append(_ABSENT)  # what the code −1 leads to
        self._texts: dict[str, str] = content["texts"]
        self._arrays: dict[str, AnyArray] = {}
        self._held: list[EvaluationResult] | None = None
        self.n_rows = int(self.array("start").size)

    def array(self, name: str) -> AnyArray:
        """Return an array of the folder, of which only what is looked at is read."""
        if name not in self._arrays:
            self._arrays[name] = np.load(self.folder / f"{name}.npy", mmap_mode="r")
        return self._arrays[name]

    def give_back(self) -> None:
        """Give back the memory that the arrays are mapped to; what is looked at is read again."""
        bases: list[object] = [array.base for array in self._arrays.values()]
        for mapped in bases:
            if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)

    def add_numbers(self, name: str, array: str) -> None:
        """Take an array of the folder as the field of that name, for ever."""
        path = self.folder / "columns.json"
        content = read_object(path, lenient=True)
        content["columns"][name] = self._described[name] = (array, None)
        path.write_text(json.dumps(content), encoding="utf-8", newline="")

    def has(self, name: str) -> bool:
        """Tell whether any row has a field."""
        return name in self._described

    def keys(self, kind: str) -> list[str]:
        """Return the names under ``metadata`` or ``signals`` that any row has."""
        return [n.partition(":")[2] for n in self._described if n.startswith(f"{kind}:")]

    def coded(self, name: str) -> tuple[NDArray[np.int32], list[JsonValue]] | None:
        """Return codes into values, −1 being the last of these; None where there are too many."""
        described = self._described[name]
        if described is None or described[1] is None:
            return None
        return self.array(described[0]), described[1]

    def values(self, name: str, places: AnyArray) -> list[JsonValue]:
        """Return a field of some rows; a row that lacks it has `_ABSENT`."""
        described = self._described.get(name)
        if described is None:
            if name not in self._described:
                return [_ABSENT] * places.size
            return [self._looked_up(name, place) for place in places.tolist()]
        codes, values = described
        found = self.array(codes)[places].tolist()
        if values is None:
            return [_ABSENT if math.isnan(value) else value for value in found]
        return [values[code] for code in found]

    def _looked_up(self, name: str, place: int) -> JsonValue:
        field, colon, key = name.partition(":")
        value = getattr(self.row(place), field)
        return value.get(key, _ABSENT) if colon else value

    def line(self, place: int) -> JsonObject:
        """Return the journal's line of a row, if it is still the one that was indexed."""
        start, length = int(self.array("start")[place]), int(self.array("length")[place])
        try:
            with self.journal.open("rb") as file:
                file.seek(start)
                text = file.read(length)
        except OSError as error:
            raise InvalidFile(f"{self.journal} cannot be read: {error.strerror}") from None
        content = opened(text.removesuffix(b"\n"))
        if content is None or content.get("position") != int(self.array("position")[place]):
            raise InvalidFile(f"{self.journal} changed while it was shown; load this page again")
        return content

    def row(self, place: int) -> EvaluationResult:
        """Return one row with its reply and its prompt."""
        row = row_from_dict(self.line(place)["row"], "row")
        row.prompt = self._texts.get(row.prompt, "")
        row.signals = {**row.signals, **self._agreement(place)}
        return row

    def features(self, place: int) -> JsonObject | None:
        """Return what the model was shown of one record, where the run stored it."""
        line = self.line(place)
        if "features" not in line:
            return None
        context = self._texts.get(str(line.get("context", "")))
        return {**line["features"], **({} if context is None else {"context": context})}

    def _agreement(self, place: int) -> dict[str, float]:
        if not (self.folder / "agreement.npy").exists():
            return {}
        share = float(self.array("agreement")[place])
        return {} if math.isnan(share) else {"sample_agreement": share}

    def hold(self) -> None:
        """Keep the rows without their replies in memory, for a process that loops often."""
        self._held = list(self.brief_rows(np.arange(self.n_rows)))

    def keep_order(self) -> None:
        """Keep the place of every row in the order by patient, in which tables are read."""
        rank = np.empty(self.n_rows, dtype=np.int64)
        rank[patient_order(list(self.brief_rows(np.arange(self.n_rows))))] = np.arange(self.n_rows)
        np.save(self.folder / "rank.npy", rank)

    def brief_rows(self, places: IntArray) -> Iterator[EvaluationResult]:
        """Yield rows without their replies, made of the columns."""
        if self._held is not None:
            yield from map(self._held.__getitem__, places.tolist())
            return
        for start in range(0, places.size, _BLOCK):
            yield from self._block(places[start : start + _BLOCK])

    def _block(self, places: IntArray) -> Iterator[EvaluationResult]:
        columns = [self.values(name, places) for name in CODED]
        for name in NUMBERS:
            found = self.array(name)[places].tolist()
            as_it_is = int if name.endswith("tokens") else float
            columns.append([None if math.isnan(value) else as_it_is(value) for value in found])
        names = (*CODED, *NUMBERS, "abstained", "metadata", "signals", "record_id", "cluster_id")
        columns.append(self.array("abstained")[places].tolist())
        columns += [self._mappings(kind, places) for kind in ("metadata", "signals")]
        for *fields, (record, cluster) in zip(*columns, self.names(places), strict=True):
            row = EvaluationResult(**dict(zip(names, (*fields, record, cluster), strict=True)))
            row.prompt = self._texts.get(row.prompt, "")
            yield row

    def _mappings(self, kind: str, places: IntArray) -> list[JsonMapping]:
        """Return the metadata or the signals of some rows."""
        keys = self.keys(kind)
        if not keys:
            return [NO_VALUES if kind == "signals" else {} for _ in range(places.size)]
        columns = [self.values(f"{kind}:{key}", places) for key in keys]
        return [
            {key: value for key, value in zip(keys, row, strict=True) if value is not _ABSENT}
            for row in zip(*columns, strict=True)
        ]

    def names(self, places: IntArray) -> list[tuple[str, str]]:
        """Return the record and the patient of some rows."""
        ends = self.array("name_end")
        if not places.size:
            return []
        low, high = int(places.min()), int(places.max())
        offset = int(ends[low - 1]) if low else 0
        with (self.folder / "names").open("rb") as file:
            file.seek(offset)
            parts = file.read(int(ends[high]) - offset).split(END)
        pairs = ((parts[i], parts[i + 1]) for i in (2 * (places - low)).tolist())
        return [
            (record.decode("utf-8", "surrogatepass"), cluster.decode("utf-8", "surrogatepass"))
            for record, cluster in pairs
        ]


class StoredFeatures(Mapping[int, JsonMapping]):
    """What the model was shown of each record of a long run, read when it is asked for."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __getitem__(self, place: int) -> JsonMapping:
        found = self._columns.features(place) if 0 <= place < len(self) else None
        if found is None:
            raise KeyError(place)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return self._columns.n_rows


class StoredRows(Rows):
    """Rows of a long run: one by its place is whole, in a loop they come without their replies."""

    __slots__ = ("columns", "places")

    def __init__(
        self,
        columns: Columns,
        places: IntArray,
        answers: Answers | None,
        *,
        as_given: bool = False,
    ) -> None:
        super().__init__((), answers, as_given=as_given)
        self.columns, self.places = columns, places

    def with_answers(self, answers: Answers | None) -> StoredRows:
        """Return the same rows with another knowledge of their task."""
        if self.answers == answers:
            return self
        return StoredRows(self.columns, self.places, answers, as_given=self.as_given)

    def __len__(self) -> int:
        return int(self.places.size)

    def __iter__(self) -> Iterator[EvaluationResult]:
        return self.columns.brief_rows(self.places)

    def __reversed__(self) -> Iterator[EvaluationResult]:
        return (self[place] for place in reversed(range(len(self))))

    @overload
    def __getitem__(self, place: SupportsIndex) -> EvaluationResult: ...
    @overload
    def __getitem__(self, place: slice) -> StoredRows: ...
    def __getitem__(self, place: SupportsIndex | slice) -> EvaluationResult | StoredRows:
        if isinstance(place, slice):
            return StoredRows(self.columns, self.places[place], self.answers)
        return self.columns.row(int(self.places[place]))

    def taken(self, places: Sequence[int]) -> StoredRows:
        """Return the rows at some places, in that order, which their table keeps."""
        chosen = self.places[np.asarray(places)]
        return StoredRows(self.columns, chosen, self.answers, as_given=True)

    @property
    def table(self) -> Table:
        """Return the columns that metrics read."""
        if self._table is None:
            self._table = StoredTable(self)
        return self._table


class StoredTable(Table):
    """The table of a long run, equal to that of its rows and made without them."""

    rows: StoredRows

    def __init__(self, rows: StoredRows) -> None:
        columns = rows.columns
        self.answers = rows.answers or Answers()
        self.n_rows, self._given, self._shared = len(rows), rows, {}
        has_error, no_answer = self._without_answer(columns, rows)
        missing = has_error & ~no_answer
        self.n_not_evaluated = int(np.count_nonzero(missing))
        self.missing_rows = StoredRows(columns, rows.places[missing], rows.answers)
        self.positions = np.flatnonzero(~missing)
        if not rows.as_given:
            rank = columns.array("rank")[rows.places[self.positions]]
            self.positions = self.positions[np.argsort(rank)]
        places = rows.places[self.positions]
        self.no_answer = no_answer[self.positions]
        self.rows = StoredRows(columns, places, rows.answers, as_given=True)
        self._read_labels(places)
        abstained = np.array(columns.array("abstained")[places], dtype=np.bool_)
        self.abstained = abstained & ~self.no_answer
        self.confidence = np.array(columns.array("confidence")[places], dtype=np.float64)
        for column in (self.truth, self.prediction, self.abstained, self.no_answer):
            column.setflags(write=False)
        self.confidence.setflags(write=False)

    @staticmethod
    def _without_answer(columns: Columns, rows: StoredRows) -> tuple[BoolArray, BoolArray]:
        """Return which rows have an error, and of which a reply exists all the same."""
        errors, classes = columns.coded("error"), columns.coded("failure_class")
        if errors is None or classes is None:
            found = [(row.error is not None, row.outcome == "no_answer") for row in rows]
            both = np.array(found, dtype=np.bool_).reshape(-1, 2)
            return both[:, 0], both[:, 1]
        has_error = np.array([error is not None for error in errors[1]], dtype=np.bool_)
        is_reply = np.array([name in NO_ANSWER_CLASSES for name in classes[1]], dtype=np.bool_)
        failed: BoolArray = has_error[errors[0][rows.places]]
        return failed, failed & is_reply[classes[0][rows.places]]

    def _read_labels(self, places: IntArray) -> None:
        """Number the labels in the order in which they appear, a truth before its answer."""
        known: dict[Label, int] = {}
        found = []
        for name in ("ground_truth", "prediction"):
            coded = self.rows.columns.coded(name)
            if coded is None:
                raise InvalidFile(f"the run has too many different values of {name} to be labels")
            codes, values = coded
            own = [
                NO_LABEL
                if value is None or value is _ABSENT
                else known.setdefault(self.answers.key(value), len(known))
                for value in values
            ]
            column = np.array(own, dtype=np.int64)[codes[places]]
            if name == "prediction":
                column[self.no_answer] = NO_LABEL
            found.append(column)
        self.labels, self.truth, self.prediction = numbered_as_seen(list(known), *found)

    @cached_property
    def says_why_deferred(self) -> bool:  # type: ignore[override]
        """Tell whether any row says why its case is to be deferred."""
        columns, places = self.rows.columns, self.rows.places
        return any(
            any(value is not _ABSENT for value in columns.values(f"metadata:{name}", places))
            for name in WHY_DEFERRED
            if columns.has(f"metadata:{name}")
        )

    def metadata(self, key: str) -> list[object]:
        """Return a metadata value of every row, None where a row lacks it."""
        found = self.rows.columns.values(f"metadata:{key}", self.rows.places)
        return [None if value is _ABSENT else value for value in found]

    @property
    def missing_truths(self) -> list[Label]:
        """The right answers of the rows that were not evaluated."""
        places = self.missing_rows.places  # type: ignore[attr-defined]
        return [self.answers.key(v) for v in self.rows.columns.values("ground_truth", places)]

    @cached_property
    def unreadable_deferral(self) -> str:
        """Say which row has a deferral label that is neither true nor false; empty without any."""
        for place, value in enumerate(self.metadata("should_abstain")):
            if DEFERRAL.get(hashable(value), UNREADABLE) == UNREADABLE:
                name = self._row_name(self.rows[place])
                return f"{name}: metadata['should_abstain'] must be true or false, not {value!r}"
        return ""

    def _row_name(self, row: EvaluationResult) -> str:
        return f"row {row.record_id}" if row.record_id else "a row"

    @cached_property
    def patients(self) -> Units:
        """The patient of every row; a row without one is a patient of its own."""
        codes = self.rows.columns.array("cluster")
        return Units(*renumbered(codes[self.rows.places], codes.size))

    @property
    def patient_names(self) -> list[str]:
        """The name of every patient, in the order of their codes; read anew, as they are many."""
        places = self.rows.places[first_places(self.patients.code, self.patients.n)]
        blocks = (places[start : start + _BLOCK] for start in range(0, places.size, _BLOCK))
        return [cluster for block in blocks for _, cluster in self.rows.columns.names(block)]

    @cached_property
    def repeats_cases(self) -> bool:
        """Tell whether a record was asked several times."""
        if self.patients.n == self.n_scored:
            return False
        codes = self.rows.columns.array("record")[self.rows.places]
        return bool(renumbered(codes, self.rows.columns.n_rows)[1] < codes.size)

    def restricted(self, rows: BoolArray) -> Table:
        """Return the table of some of the scored rows."""
        kept = self.rows.places[rows]
        part = StoredTable(StoredRows(self.rows.columns, kept, self.answers, as_given=True))
        part.confidence = self.confidence[rows]
        part.n_not_evaluated, part.missing_rows = self.n_not_evaluated, self.missing_rows
        return part
