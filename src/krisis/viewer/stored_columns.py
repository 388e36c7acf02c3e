"""Columns of a long journal on disk: values and their codes, written in one pass over its lines."""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from krisis.json_values import JsonObject, JsonValue
from krisis.metrics.base import EvaluationResult
from krisis.results.journal_lines import Piece
from krisis.results.journal_reading import JournalContents
from krisis.viewer.row_index import AnyArray, searched
from krisis.viewer.words import END, Words, WordWriter

# A column of more different values is kept as numbers, or else looked up in the journal.
_MOST_VALUES = 100_000
CODED = (
    *("prediction", "ground_truth", "error", "failure_class", "model", "finish_reason"),
    *("prompt", "prompt_mode"),
)
NUMBERS = ("confidence", "input_tokens", "output_tokens", "total_tokens", "latency_seconds")
_READ_BYTES = 1_000_000
_READ_ONE_BY_ONE = 5_000


class Column:
    """The values of one field, line by line; −1 is the code of a line that lacks the field.

    A column with too many values for codes becomes one of numbers (NaN where a line lacks it),
    and is given up where the values are anything but floats.
    """

    def __init__(self) -> None:
        self.values: list[JsonValue] = []
        self.codes = array("i")
        self.numbers: array[float] | None = None
        self.is_given_up = False
        self._known: dict[object, int] = {}

    def add(self, line: int, value: JsonValue) -> None:
        """Set the value of a line; lines before it that have none lack the field."""
        if self.is_given_up:
            return
        if self.numbers is not None:
            self._pad(self.numbers, line, float("nan"))
            self.numbers.append(value if type(value) is float else float("nan"))
            self.is_given_up = type(value) is not float or math.isnan(value)
            return
        self._pad(self.codes, line, -1)
        try:
            code = self._known.setdefault((type(value), value), len(self.values))
        except TypeError:  # a list or an object
            code = self._known.setdefault(json.dumps(value), len(self.values))
        if code == len(self.values):
            self.values.append(value)
        self.codes.append(code)
        if len(self.values) > _MOST_VALUES:
            self._widen()

    def _widen(self) -> None:
        if all(type(value) is float and not math.isnan(value) for value in self.values):
            found = np.array([*self.values, np.nan])[np.frombuffer(self.codes, np.int32)]
            self.numbers = array("d", found.tobytes())
        else:
            self.is_given_up = True
        self.values, self.codes, self._known = [], array("i"), {}

    @staticmethod
    def _pad(column: array[float] | array[int], n: int, blank: float) -> None:
        if len(column) < n:
            column.extend([blank] * (n - len(column)))  # type: ignore[list-item]

    def arrays(self, n_lines: int) -> tuple[AnyArray, list[JsonValue] | None] | None:
        """Return codes with their values, or numbers without; None where it was given up."""
        if self.is_given_up:
            return None
        if self.numbers is not None:
            self._pad(self.numbers, n_lines, float("nan"))
            return np.frombuffer(self.numbers, np.float64), None
        self._pad(self.codes, n_lines, -1)
        return np.frombuffer(self.codes, np.int32), self.values


class ColumnJournal(JournalContents):
    """What a journal holds, its rows as columns: the last line of a position counts, as ever."""

    def __init__(self, texts: BinaryIO, words: WordWriter) -> None:
        super().__init__()
        self.n_lines = 0
        self.fields: dict[str, Column] = {name: Column() for name in CODED}
        self.numbers = {name: array("d") for name in NUMBERS}
        self.places = {name: array("q") for name in ("position", "start", "length", "text_end")}
        self.abstained = bytearray()
        self.digests = {"record": bytearray(), "cluster": bytearray()}
        self.names, self.name_ends = bytearray(), array("q")
        self._texts_file, self._words = texts, words

    def keep(self, position: int, row: EvaluationResult, piece: Piece, line: JsonObject) -> None:
        """Note where a row is, and its fields."""
        number, columns = self.n_lines, self.fields
        readable = searched(row)
        self._words.add(readable)
        text = readable.encode("utf-8", "surrogatepass") + END
        self._texts_file.write(text)
        before = self.places["text_end"][-1] if number else 0
        told = (position, piece.start, len(piece.text), before + len(text))
        for place, value in zip(self.places.values(), told, strict=True):
            place.append(value)
        for name in CODED:
            columns[name].add(number, getattr(row, name))
        for name, numbers in self.numbers.items():
            value = getattr(row, name)
            numbers.append(float("nan") if value is None else value)
        for kind, mapping in (("metadata", row.metadata), ("signals", row.signals)):
            for key, value in mapping.items():
                column = columns.get(f"{kind}:{key}")
                if column is None:
                    column = columns[f"{kind}:{key}"] = Column()
                column.add(number, value)
        self.abstained.append(row.abstained)
        for name, stated in (("record", row.record_id), ("cluster", row.cluster_id)):
            self.digests[name] += _digest(stated)
            self.names += stated.encode("utf-8", "surrogatepass") + END
        self.name_ends.append(len(self.names))
        self.n_lines = number + 1

    @property
    def last_lines(self) -> NDArray[np.int64]:
        """Return the line that counts for every position, in the order of the positions."""
        positions = np.frombuffer(self.places["position"], np.int64)
        _, from_end = np.unique(positions[::-1], return_index=True)
        return np.asarray(positions.size - 1 - from_end, dtype=np.int64)

    @property
    def n_rows(self) -> int:
        """Return how many positions have a row."""
        return int(self.last_lines.size)

    def with_texts(self) -> JournalContents:
        """Leave the names of texts in the rows: they are looked up when a row is read."""
        return self

    def write(self, folder: Path) -> None:
        """Write the columns, in the order of the positions."""
        lines = self.last_lines
        row_of_line = np.full(self.n_lines, -1, dtype=np.int32)
        row_of_line[lines] = np.arange(lines.size, dtype=np.int32)
        arrays: dict[str, AnyArray] = {
            "row_of_line": row_of_line,
            "text_end": np.frombuffer(self.places["text_end"], np.int64),
            "abstained": np.frombuffer(self.abstained, np.bool_)[lines],
        }
        for name in ("position", "start", "length"):
            arrays[name] = np.frombuffer(self.places[name], np.int64)[lines]
        for name, numbers in self.numbers.items():
            arrays[name] = np.frombuffer(numbers, np.float64)[lines]
        for name, digests in self.digests.items():
            arrays[name] = _named(np.frombuffer(digests, np.uint64).reshape(-1, 2)[lines])
        described: JsonObject = {}
        for number, (name, column) in enumerate(self.fields.items()):
            found = column.arrays(self.n_lines)
            described[name] = None if found is None else [f"column{number}", found[1]]
            if found is not None:
                arrays[f"column{number}"] = found[0][lines]
        for name, values in arrays.items():
            np.save(folder / f"{name}.npy", values)
        self._write_names(folder, lines)
        self._words.write(folder)
        content = {"columns": described, "texts": self._texts}
        (folder / "columns.json").write_text(json.dumps(content), encoding="utf-8", newline="")

    def _write_names(self, folder: Path, lines: NDArray[np.int64]) -> None:
        ends = np.frombuffer(self.name_ends, np.int64)
        starts = np.concatenate([[0], ends[:-1]])
        np.save(folder / "name_end.npy", np.cumsum((ends - starts)[lines]))
        whole = memoryview(self.names)
        with (folder / "names").open("wb") as file:
            pairs = zip(starts[lines].tolist(), ends[lines].tolist(), strict=True)
            file.writelines(whole[start:end] for start, end in pairs)


def _named(digests: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Number names in the order in which they appear; a row without one has a number of its own."""
    unnamed = ~digests.any(axis=1)
    digests[unnamed, 0] = np.flatnonzero(unnamed)
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    new = np.ones(order.size, dtype=np.bool_)
    new[1:] = (digests[order[1:]] != digests[order[:-1]]).any(axis=1)
    code = np.empty(order.size, dtype=np.int64)
    code[order] = np.cumsum(new) - 1
    return renumbered(code, int(np.count_nonzero(new)))[0]


def renumbered(codes: NDArray[np.int64], n_codes: int) -> tuple[NDArray[np.int64], int]:
    """Number codes anew, in the order in which they appear, and say how many do."""
    first = first_places(codes, n_codes)
    present = np.flatnonzero(first < codes.size)
    rank = np.full(n_codes, -1, dtype=np.int64)
    rank[present[np.argsort(first[present])]] = np.arange(present.size)
    return rank[codes], int(present.size)


def _digest(name: str) -> bytes:
    """Return a hash by which two names are the same, of no name zeros."""
    if not name:
        return bytes(16)
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def first_places(codes: NDArray[np.int64], n_codes: int) -> NDArray[np.int64]:
    """Return where each code appears first; beyond the end where it does not."""
    first = np.full(n_codes, codes.size, dtype=np.int64)
    first[codes[::-1]] = np.arange(codes.size)[::-1]  # the last assignment counts
    return first


def found_texts(folder: Path, ends: NDArray[np.int64], needle: str) -> NDArray[np.int64]:
    """Return the numbers of the texts in a folder that contain a needle."""
    words, wanted = Words(folder, ends.size), needle.encode("utf-8", "surrogatepass")
    with (folder / "texts").open("rb") as file:
        if words.exists:
            among, is_exact = words.candidates(needle)
            lines = np.flatnonzero(among)
            if is_exact:
                return lines
            if lines.size <= _READ_ONE_BY_ONE:
                return lines[[wanted in _text(file, ends, line) for line in lines.tolist()]]
        hits = np.fromiter(_hits(file, ends, wanted), np.int64)
    return np.searchsorted(ends, hits, side="right")


def _text(file: BinaryIO, ends: NDArray[np.int64], line: int) -> bytes:
    start = int(ends[line - 1]) if line else 0
    file.seek(start)
    return file.read(int(ends[line]) - start)


def _hits(file: BinaryIO, ends: NDArray[np.int64], wanted: bytes) -> Iterator[int]:
    """Yield a place of every text that contains what is wanted, reading them piece by piece."""
    start = 0
    while ends.size and start < ends[-1]:
        last = min(int(np.searchsorted(ends, start + _READ_BYTES)), ends.size - 1)
        stop = int(ends[last])
        piece = file.read(stop - start)
        place = piece.find(wanted)
        while place >= 0:
            yield start + place
            place = piece.find(wanted, piece.find(END, place) + 1)
        start = stop
