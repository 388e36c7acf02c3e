"""Rows as columns that can be filtered, sorted and searched without touching the rows again."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krisis.metrics.base import EvaluationResult
from krisis.metrics.partition import deferral_cell, verdict
from krisis.metrics.table import canonical_label
from krisis.outcomes import OUTCOMES
from krisis.reporting.breakdown import group_label
from krisis.reporting.deferral import CELLS
from krisis.results.attrition import UNCLASSIFIED

SCORED = "scored"  # everything of which a reply exists
NO_ANSWER = "no answer"  # a reply that is none of the labels
_DUE_CELLS = tuple(cell for cell, (asked, *_) in CELLS.items() if asked == "deferral was due")
DUE = {
    "yes": _DUE_CELLS,
    "no": tuple(cell for cell in CELLS if cell not in _DUE_CELLS),
    "stated": tuple(CELLS),
}
SORTS = ("position", "confidence", "-confidence")
# Longer replies are searched in their beginning only, so that an index stays small.
SEARCHED_CHARACTERS = 20_000

IntArray = NDArray[np.int64]
AnyArray = NDArray[Any]  # of one of several kinds of numbers


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows to show and in which order; an empty field asks for nothing.

    ``due`` is yes, no or stated: whether the case asked for deferral, of rows with a reply.
    ``predicted`` asks for rows with that answer; ``record`` is the whole name of a record.
    """

    outcome: str = ""
    correct: str = ""
    cell: str = ""
    due: str = ""
    reason: str = ""
    failure: str = ""
    predicted: str = ""
    truth: str = ""
    group: str = ""
    record: str = ""
    text: str = ""
    confidence_min: float | None = None
    confidence_max: float | None = None
    deferred_at: float | None = None
    sort: str = "position"


class RowIndex:
    """The columns of one run; ``groups`` maps headings of groups to metadata keys.

    Everything but the texts is in ``arrays`` and ``names`` (of the codes in an array); ``search``
    finds the rows that contain a text.
    """

    def __init__(self, rows: Sequence[EvaluationResult], groups: Mapping[str, str]) -> None:
        coded: dict[str, Callable[[EvaluationResult], str]] = {
            "cell": deferral_cell,
            "failure": _failure,
            "predicted": _predicted,
            "truth": lambda row: label_text(row.ground_truth),
            "reason": lambda row: "\0".join(reasons_listed(row)),
            **{f"group:{name}": _grouper(name, key) for name, key in groups.items()},
        }
        makers = list(coded.values())
        self.names: dict[str, dict[str, int]] = {name: {} for name in coded}
        values = list(self.names.values())
        codes = [array("i") for _ in coded]
        outcome, correct, confidence, record = bytearray(), bytearray(), array("d"), array("q")
        for row in rows:
            outcome.append(OUTCOMES.index(row.outcome))
            correct.append(verdict(row) == "right")
            confidence.append(math.nan if row.confidence is None else row.confidence)
            record.append(_record_code(row.record_id))
            for column, known, make in zip(codes, values, makers, strict=True):
                column.append(known.setdefault(make(row), len(known)))
        self.arrays: dict[str, AnyArray] = {
            "outcome": np.frombuffer(outcome, np.int8),
            "correct": np.frombuffer(correct, np.bool_),
            "confidence": np.frombuffer(confidence, np.float64),
            "record": np.frombuffer(record, np.int64),
            **{n: np.frombuffer(c, np.int32) for n, c in zip(coded, codes, strict=True)},
        }
        stated = self.arrays["confidence"]
        # Rows that state no confidence come last in either direction.
        self.arrays["confidence_order"] = np.argsort(stated, kind="stable").astype(np.int32)
        self.arrays["-confidence_order"] = np.argsort(-stated, kind="stable").astype(np.int32)
        self.search: Callable[[str], NDArray[np.bool_]] = lru_cache(maxsize=16)(Texts(rows))

    @property
    def correct(self) -> NDArray[np.bool_]:
        """True where the model answered, and rightly."""
        return np.asarray(self.arrays["correct"], dtype=np.bool_)

    @property
    def groups(self) -> list[str]:
        """Return the groups that occur, such as "sex: female", in order."""
        return [
            f"{column.partition(':')[2]}: {value}"
            for column, values in self.names.items()
            for value in sorted(values)
            if column.startswith("group:") and len(values) > 1
        ]

    def values(self, column: str) -> list[str]:
        """Return what occurs under ``reason``, ``failure``, ``predicted`` or ``truth``."""
        return sorted({one for value in self.names[column] for one in value.split("\0") if one})

    def select(self, wanted: RowFilter) -> IntArray:
        """Return the positions of the rows that pass, in the order asked for."""
        kept = self._of_outcome(wanted) & self._in_range(wanted)
        if wanted.reason:
            lists = self.names["reason"].items()
            those = [code for listed, code in lists if wanted.reason in listed.split("\0")]
            kept &= np.isin(self.arrays["reason"], those)
        if wanted.group:
            name, _, value = wanted.group.partition(":")
            kept &= self._coded(f"group:{name.strip()}", value.strip())
        for column in ("cell", "failure", "predicted", "truth"):
            if value := getattr(wanted, column):
                kept &= self._coded(column, value)
        if wanted.record:
            kept &= self.arrays["record"] == _record_code(wanted.record)
        if wanted.text:
            for part in sought(wanted.text.casefold()):
                kept &= self.search(part)
        return self._ordered(kept, wanted.sort)

    def _of_outcome(self, wanted: RowFilter) -> NDArray[np.bool_]:
        outcome = self.arrays["outcome"]
        kept = np.ones(outcome.size, dtype=np.bool_)
        if wanted.outcome == SCORED:
            kept &= outcome != OUTCOMES.index("not_evaluated")
        elif wanted.outcome:
            kept &= outcome == OUTCOMES.index(wanted.outcome)
        if wanted.correct:
            kept &= (outcome == 0) & (self.arrays["correct"] == (wanted.correct == "yes"))
        if wanted.due:
            codes = [self.names["cell"].get(cell, -1) for cell in DUE[wanted.due]]
            kept &= np.isin(self.arrays["cell"], codes)
        return kept

    def _coded(self, column: str, value: str) -> NDArray[np.bool_]:
        code = self.names.get(column, {}).get(value, -1)
        return np.asarray(self.arrays.get(column, self.arrays["outcome"]) == code)

    def _in_range(self, wanted: RowFilter) -> NDArray[np.bool_]:
        confidence = self.arrays["confidence"]
        kept = np.ones(confidence.size, dtype=np.bool_)
        if wanted.confidence_min is not None:
            kept &= confidence >= wanted.confidence_min
        if wanted.confidence_max is not None:
            kept &= confidence <= wanted.confidence_max
        if wanted.deferred_at is not None:
            kept &= (self.arrays["outcome"] == 0) & ~(confidence >= wanted.deferred_at)
        return kept

    def _ordered(self, kept: NDArray[np.bool_], sort: str) -> IntArray:
        if sort == "position":
            return np.flatnonzero(kept)
        order = self.arrays[f"{sort}_order"]
        return np.asarray(order[kept[order]], dtype=np.int64)


class Texts:
    """The texts of rows in memory, to be searched."""

    def __init__(self, rows: Sequence[EvaluationResult]) -> None:
        self._rows = rows

    @cached_property
    def _texts(self) -> list[str]:
        return [searched(row) for row in self._rows]

    def __call__(self, needle: str) -> NDArray[np.bool_]:
        """Return the rows that contain a text."""
        return np.fromiter((needle in text for text in self._texts), np.bool_, len(self._texts))


def sought(text: str) -> list[str]:
    """Return what a text must contain to be found: every word, or what is in quotes as it is.

    >>> sought("albumin 3.5")
    ['albumin', '3.5']
    >>> sought('"albumin 3.5"')
    ['albumin 3.5']
    """
    quoted = text.strip()
    if len(quoted) > 2 and quoted[0] == quoted[-1] == '"':
        return [quoted[1:-1]]
    return list(dict.fromkeys(text.split()))


def _record_code(name: str) -> int:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _grouper(name: str, key: str) -> Callable[[EvaluationResult], str]:
    return lambda row: group_label(row, name, key)


def label_text(label: object) -> str:
    """Return an answer as filters name it: equal answers have one name."""
    return str(canonical_label(label))


def _predicted(row: EvaluationResult) -> str:
    if row.outcome not in ("answered", "no_answer"):
        return ""
    has_none = row.outcome == "no_answer" or row.prediction is None
    return NO_ANSWER if has_none else label_text(row.prediction)


def _failure(row: EvaluationResult) -> str:
    return "" if row.error is None else row.failure_class or UNCLASSIFIED


def reasons_listed(row: EvaluationResult) -> list[str]:
    """Return why a case asked for deferral, reason by reason, as its metadata name them."""
    found = row.metadata.get("abstain_reasons") or row.metadata.get("abstain_reason") or ()
    return [str(one) for one in (found if isinstance(found, list | tuple) else (found,))]


def searched(row: EvaluationResult) -> str:
    """Return what a search of texts looks at."""
    parts = (
        row.record_id,
        str(row.prediction),
        row.raw_response[:SEARCHED_CHARACTERS],
        row.error or "",
    )
    return "\n".join(parts).casefold()
