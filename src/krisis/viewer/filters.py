"""Which rows of a run to show, as SQL: every filter, order and page is one SELECT.

A filter that asks about metadata (groups, reasons, whether deferral was due) is answered in two
steps: SQLite lists the different values once, Python says what each of them means, and the rows
are found by the values that mean what was asked for. What a value means is decided in one place,
for a filter as for a report.
"""

# SQL is put together from constants; every value is bound.
# ruff: noqa: S608
from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult
from krisis.metrics.labels import Answers
from krisis.metrics.partition import DEFERRAL_CELLS, deferral_cell
from krisis.outcomes import EVALUATED, NO_PREDICTION
from krisis.pages.cases import IN_FORCE, SCORED, UNANSWERED, RowFilter, label_text
from krisis.results.attrition import UNCLASSIFIED
from krisis.results.group_labels import group_headings, group_label
from krisis.runs.read import RunFile
from krisis.runs.schema import Value, storable

NO_ANSWER = "no answer"  # a reply that is none of the labels
DUE = {
    "yes": tuple(name for name, cell in DEFERRAL_CELLS.items() if cell.due),
    "no": tuple(name for name, cell in DEFERRAL_CELLS.items() if not cell.due),
    "stated": tuple(DEFERRAL_CELLS),
}
ORDERS = {
    "position": "r.position",
    # Rows that state no confidence come last in either direction.
    "confidence": "r.confidence IS NULL, r.confidence, r.position",
    "-confidence": "r.confidence IS NULL, r.confidence DESC, r.position",
}
_TABLES = "rows AS r LEFT JOIN cases AS c ON c.position = r.case_position"
_METADATA = "coalesce(r.metadata, c.metadata)"
_CHOSEN = "IN (SELECT value FROM json_each(?))"


def reasons_listed(metadata: JsonObject) -> list[str]:
    """Return why a case asked for deferral, reason by reason, as its metadata name them."""
    found = metadata.get("abstain_reasons") or metadata.get("abstain_reason") or ()
    return [str(one) for one in (found if isinstance(found, list | tuple) else (found,))]


@dataclass(frozen=True, slots=True)
class Condition:
    """What follows FROM, and the values that are bound in it."""

    sql: str
    values: tuple[Value, ...]


class RowFilters:
    """Every filter of one state of a run as SQL.

    ``damaged`` are the rows that cannot be believed; no filter finds them. What is kept here are
    the different values of columns, never rows.
    """

    def __init__(self, run: RunFile, answers: Answers | None, damaged: Sequence[int]) -> None:
        self._answers = answers or Answers()
        self._n_cases = run.description.n_cases
        self._damaged = list(damaged)
        self._keys = group_headings(answers)
        self._known: dict[tuple[str, ...], dict[str, JsonObject]] = {}
        self._pairs: str | None = None
        self._labels: dict[str, list[tuple[Value, str]]] = {}
        unreadable = run.select(
            "SELECT EXISTS (SELECT 1 FROM cases WHERE NOT json_valid(metadata)) OR EXISTS "
            "(SELECT 1 FROM rows WHERE NOT json_valid(metadata))"
        )
        # One damaged text would end every query that looks into it.
        self._metadata = (
            f"CASE WHEN json_valid({_METADATA}) THEN {_METADATA} END"
            if unreadable[0][0]
            else _METADATA
        )

    def condition(self, run: RunFile, wanted: RowFilter, found: Sequence[int] | None) -> Condition:
        """Return a filter as SQL; ``found`` are the rows that have its text or kind of error."""
        parts: list[tuple[str, tuple[Value, ...]]] = [("r.position < ?", (self._n_cases,))]
        if self._damaged:
            parts.append((f"r.position NOT {_CHOSEN}", (json.dumps(self._damaged),)))
        parts += self._of_outcome(run, wanted)
        parts += self._in_range(wanted)
        parts += self._of_metadata(run, wanted)
        if wanted.record:
            parts.append(("c.record_id = ?", (storable(wanted.record),)))
        if found is not None:
            parts.append((f"r.position {_CHOSEN}", (json.dumps(list(found)),)))
        text = " AND ".join(f"({sql})" for sql, _ in parts)
        tables = _TABLES if "c." in text else "rows AS r"
        return Condition(
            f"FROM {tables} WHERE {text}", tuple(value for _, values in parts for value in values)
        )

    def _of_outcome(self, run: RunFile, wanted: RowFilter) -> list[tuple[str, tuple[Value, ...]]]:
        parts: list[tuple[str, tuple[Value, ...]]] = []
        if wanted.outcome:
            names = EVALUATED if wanted.outcome == SCORED else (wanted.outcome,)
            parts.append((f"r.outcome {_CHOSEN}", (json.dumps(names),)))
        if wanted.correct:
            same = (
                "coalesce((r.prediction, r.truth) IN (SELECT json_extract(value, '$[0]'), "
                "json_extract(value, '$[1]') FROM json_each(?)), 0)"
            )
            answered = "r.outcome = 'answered' AND"
            sign = "" if wanted.correct == "yes" else "NOT "
            parts.append((f"{answered} {sign}{same}", (self._right_pairs(run),)))
        if wanted.failure:
            name = f"coalesce(nullif(r.failure_class, ''), '{UNCLASSIFIED}')"
            parts.append((f"r.error IS NOT NULL AND {name} = ?", (storable(wanted.failure),)))
        if wanted.truth:
            parts.append(self._labelled(run, "truth", wanted.truth))
        if wanted.predicted == NO_ANSWER:
            none = "r.outcome = 'answered' AND r.prediction IS NULL"
            parts.append((f"r.outcome = 'no_answer' OR {none}", ()))
        elif wanted.predicted:
            sql, values = self._labelled(run, "prediction", wanted.predicted)
            parts.append((f"r.outcome = 'answered' AND {sql}", values))
        return parts

    def _in_range(self, wanted: RowFilter) -> list[tuple[str, tuple[Value, ...]]]:
        parts: list[tuple[str, tuple[Value, ...]]] = []
        if wanted.confidence_min is not None:
            parts.append(("r.confidence >= ?", (wanted.confidence_min,)))
        if wanted.confidence_max is not None:
            parts.append(("r.confidence <= ?", (wanted.confidence_max,)))
        if wanted.deferred_at is not None:
            kept = "coalesce(r.confidence >= ?, 0)"
            parts.append((f"r.outcome = 'answered' AND NOT {kept}", (wanted.deferred_at,)))
        if wanted.left and wanted.left != IN_FORCE:
            limit = 0.0 if wanted.left == UNANSWERED else float(wanted.left)
            unstated = int(wanted.left == UNANSWERED)  # whether such an answer counts
            kept = "r.outcome = 'answered' AND coalesce(r.confidence >= ?, ?)"
            names = json.dumps(EVALUATED)
            parts.append((f"r.outcome {_CHOSEN} AND NOT ({kept})", (names, limit, unstated)))
        return parts

    def _of_metadata(self, run: RunFile, wanted: RowFilter) -> list[tuple[str, tuple[Value, ...]]]:
        asked = ((wanted.cell,) if wanted.cell else (), DUE.get(wanted.due, ()))
        parts = [self._in_cells(run, cells) for cells in asked if cells]
        if wanted.reason:
            parts.append(self._meaning(run, "reason", wanted.reason))
        if wanted.group:
            name, _, value = wanted.group.partition(":")
            parts.append(self._meaning(run, name.strip(), value.strip()))
        return parts

    def _in_cells(self, run: RunFile, cells: Sequence[str]) -> tuple[str, tuple[Value, ...]]:
        """Find the rows of some cells of the deferral confusion: by what was due and was done."""
        fields = {
            "answered": {},
            "abstained": {"abstained": True},
            "no_answer": {"error": "", "failure_class": NO_PREDICTION},
        }
        names = ("should_abstain",)
        those = [
            f"{outcome} {key}"
            for key, held in self._held(run, names).items()
            for outcome, given in fields.items()
            if deferral_cell(EvaluationResult(0, 0, metadata=held, **given)) in cells  # type: ignore[arg-type]
        ]
        sql, paths = self._key(names)
        return f"r.outcome || ' ' || {sql} {_CHOSEN}", (*paths, json.dumps(those))

    def _meaning(self, run: RunFile, column: str, meaning: str) -> tuple[str, tuple[Value, ...]]:
        """Find the rows whose metadata mean this under a column."""
        names, read = self._names(column), self._reader(column)
        those = [key for key, held in self._held(run, names).items() if meaning in read(held)]
        sql, paths = self._key(names)
        return f"{sql} {_CHOSEN}", (*paths, json.dumps(those))

    def _key(self, names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Return some metadata of a row as one JSON text, and the paths that are bound in it."""
        # A name with quotes is no path; nothing has the name that stands for it. Of one path alone
        # SQLite would return no list.
        paths = tuple(
            f'$."{name}"' if '"' not in name else "$.__none" for name in (*names, names[0])
        )
        return f"json_extract({self._metadata}, {', '.join('?' * len(paths))})", paths

    def _names(self, column: str) -> tuple[str, ...]:
        """Return the metadata that a column is read from."""
        if column == "reason":
            return ("abstain_reasons", "abstain_reason")
        key = self._keys.get(column, column)
        further = ("age",) if key == "age_band" else ()
        return (key, column.replace(" ", "_"), *further)

    def _reader(self, column: str) -> Callable[[JsonObject], Sequence[str]]:
        """Return what says what metadata mean under a column."""
        if column == "reason":
            return reasons_listed
        if column not in self._keys:
            return lambda held: ()
        key = self._keys[column]
        return lambda held: [group_label(EvaluationResult(0, 0, metadata=held), column, key)]

    def _held(self, run: RunFile, names: tuple[str, ...]) -> dict[str, JsonObject]:
        """Return the different values that cases have under some names, by their JSON text."""
        if names not in self._known:
            sql, paths = self._key(names)
            # Few rows have metadata other than those of their case.
            lines = run.select(
                f"SELECT {sql} FROM cases AS c JOIN (SELECT NULL AS metadata) AS r UNION "
                f"SELECT {sql} FROM rows AS r JOIN (SELECT NULL AS metadata) AS c "
                "WHERE r.metadata IS NOT NULL",
                *paths,
                *paths,
            )
            self._known[names] = {str(key): _metadata(names, str(key)) for (key,) in lines if key}
        return self._known[names]

    def _right_pairs(self, run: RunFile) -> str:
        """Return the answers that are right, each with its truth, as JSON."""
        if self._pairs is None:
            pairs = run.select(
                "SELECT DISTINCT prediction, truth FROM rows WHERE outcome = 'answered'"
            )
            self._pairs = json.dumps([pair for pair in pairs if self._answers.same(*pair)])
        return self._pairs

    def _labelled(self, run: RunFile, column: str, label: str) -> tuple[str, tuple[Value, ...]]:
        those = [value for value, name in self._names_of(run, column) if name == label]
        return f"r.{column} {_CHOSEN}", (json.dumps(those),)

    def _names_of(self, run: RunFile, column: str) -> list[tuple[Value, str]]:
        """Return the different answers or truths, each with its name in filters."""
        if column not in self._labels:
            among = " AND outcome = 'answered'" if column == "prediction" else ""
            lines = run.select(
                f"SELECT DISTINCT {column} FROM rows WHERE position < ? "
                f"AND {column} IS NOT NULL{among}",
                self._n_cases,
            )
            self._labels[column] = [(value, label_text(value)) for (value,) in lines]
        return self._labels[column]

    def choices(self, run: RunFile, column: str) -> list[str]:
        """Return what occurs under group, reason, failure, predicted or truth, in order."""
        if column == "group":
            return [
                f"{heading}: {value}"
                for heading, values in self._values(run, list(self._keys)).items()
                for value in values
                if len(values) > 1
            ]
        if column == "reason":
            return self._values(run, ["reason"])["reason"]
        if column == "failure":
            lines = run.select(
                "SELECT DISTINCT failure_class FROM rows WHERE error IS NOT NULL AND position < ?",
                self._n_cases,
            )
            return sorted({str(name or UNCLASSIFIED) for (name,) in lines})
        if column == "truth":
            return sorted({name for _, name in self._names_of(run, "truth")})
        found = {name for _, name in self._names_of(run, "prediction")}
        none = self.condition(run, RowFilter(predicted=NO_ANSWER), None)
        if run.select(f"SELECT 1 {none.sql} LIMIT 1", *none.values):
            found.add(NO_ANSWER)
        return sorted(found)

    def _values(self, run: RunFile, columns: Sequence[str]) -> dict[str, list[str]]:
        """Return what occurs under some columns; all but ages, which are many, in one SELECT."""
        together = [column for column in columns if "age" not in self._names(column)]
        alone = [column for column in columns if column not in together]
        found: dict[str, set[str]] = {column: set() for column in columns}
        for part in (together, *([column] for column in alone)):
            names = tuple(dict.fromkeys(name for one in part for name in self._names(one)))
            readers = [(column, self._reader(column)) for column in part]
            for held in self._held(run, names).values() if names else ():
                for column, read in readers:
                    found[column].update(read(held))
        return {column: sorted(values) for column, values in found.items()}


def _metadata(names: Sequence[str], key: str) -> JsonObject:
    """Return the metadata that a key holds; what a case lacks is null there, and absent here."""
    values = json.loads(key)
    return {name: value for name, value in zip(names, values, strict=False) if value is not None}
