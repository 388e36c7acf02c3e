"""Rows in a Parquet file as a result: a small file as rows, a large one by columns alone."""

# SQL is put together from quoted names and constants.
# ruff: noqa: S608
from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonMapping, JsonObject, JsonValue
from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import Coded, ColumnTable, ScoredColumns, numbered, numbered_as_seen
from krisis.metrics.labels import Label, canonical_label
from krisis.metrics.table import NO_LABEL, Answers, FloatArray, IntArray
from krisis.outcomes import NO_ANSWER_CLASSES, NO_PREDICTION
from krisis.results.attrition import UNCLASSIFIED, Attrition, FailureClass
from krisis.results.base import BenchmarkResult
from krisis.results.column_rows import ColumnRows
from krisis.results.parquet_file import PREFIXES, ParquetFile

if TYPE_CHECKING:
    pass

# Rows of a file up to this size are held in memory, where everything can be asked of them.
MOST_IN_MEMORY = 200_000
# A column with more different values than this is no label and no group.
MOST_VALUES = 10_000
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN")


def is_parquet(path: Path) -> bool:
    """Say whether a path names a Parquet file."""
    return path.suffix.lower() in (".parquet", ".pq")


def load_parquet(path: Path) -> BenchmarkResult:
    """Read the rows of one run that `krisis export` or another program wrote."""
    file = _Rows(path)
    described = file.facts.get("result") or file.described()
    try:
        about = BenchmarkResult.from_dict(described, place=str(path))
    except InvalidValue as error:
        raise InvalidFile(f"{path}: what it says of its run cannot be read: {error}") from None
    task = about.provenance.task_facts
    answers = None if task is None else task.answers_to_score()
    if file.n_rows > MOST_IN_MEMORY:
        rows: Sequence[EvaluationResult] = ColumnRows(file.table(answers), file.attrition())
    else:
        rows = list(file.rows())
    return BenchmarkResult(rows, {}, about.suite_description, about.backend_name, facts=about)


class _Rows(ParquetFile):
    """The rows of a file: as rows, or as columns that are read when something asks for them."""

    def rows(self) -> Iterator[EvaluationResult]:
        """Yield every row, those that were not evaluated included."""
        with self.told():
            # What knows of time zones would need another package to become an object.
            zoned = [name for name, kind in self.types.items() if "WITH TIME ZONE" in kind]
            texts = ", ".join(f'"{name}"::varchar as "{name}"' for name in map(_doubled, zoned))
            listed = f"* replace ({texts})" if texts else "*"
            found = self.connection.execute(
                f"select {listed} from {self.lines} order by file_row_number"
            )
            names = [column[0] for column in found.description or ()]
            lines = found.fetchall()
        kinds = {kind: self.names(kind) for kind in PREFIXES}
        for number, line in enumerate(lines, start=1):
            cells = dict(zip(names, line, strict=True))
            try:
                yield self._row(cells, kinds)
            except InvalidValue as error:
                raise InvalidFile(f"{self.place} row {number}: {error}") from None

    def _row(
        self, cells: JsonMapping, kinds: Mapping[str, Mapping[str, tuple[str, bool]]]
    ) -> EvaluationResult:
        stated, error = cells.get("outcome"), cells.get("error")
        failed = _is_set(cells.get("failed")) or stated in ("no_answer", "not_evaluated")
        failure_class = str(cells.get("failure_class") or "")
        if failed and error is None:
            error = "not stated"
        if stated == "no_answer" and failure_class not in NO_ANSWER_CLASSES:
            failure_class = NO_PREDICTION
        abstained = cells.get("outcome") == "abstained" or _is_set(cells.get("abstained"))
        if not self.has("outcome") and not self.has("abstained"):
            abstained = cells["prediction"] is None
        told = {
            kind: {
                key: _value(cells[column], flag=flag)
                for key, (column, flag) in columns.items()
                if cells.get(column) is not None
            }
            for kind, columns in kinds.items()
        }
        due, asking = cells.get("should_abstain"), cells.get("asking")
        extra: JsonObject = {} if due is None else {"should_abstain": _is_set(due)}
        extra |= {"sample_index": int(asking) - 1} if asking and int(asking) > 1 else {}
        record = str(cells.get("record_id") or "")
        return EvaluationResult(
            _label(cells["prediction"]),
            _label(cells["ground_truth"]),
            abstained and error is None,
            None if cells.get("confidence") is None else float(cells["confidence"]),
            metadata={**told["metadata"], **extra},
            record_id=record,
            cluster_id=str(cells.get("cluster_id") or record),
            signals=told["signals"],
            error=None if error is None else str(error),
            failure_class=failure_class,
            raw_response=str(cells.get("raw_response") or ""),
            model=str(cells.get("model_answered") or ""),
        )

    def table(self, answers: Answers | None) -> ColumnTable:
        """Return the columns that metrics read, of the rows of which a reply exists."""
        labels, codes = self._labels(answers or Answers())
        no_answer = np.asarray(self.array(self.no_answer), dtype=np.bool_)
        abstained = np.asarray(self.array(self.abstained), dtype=np.bool_) & ~no_answer
        truth, prediction = (codes(name) for name in ("ground_truth", "prediction"))
        prediction[no_answer] = NO_LABEL
        confidence = np.ma.filled(self.array(self.confidence), np.nan)
        labels, truth, prediction = numbered_as_seen(labels, truth, prediction)
        columns = ScoredColumns(
            labels,
            truth,
            prediction,
            abstained,
            no_answer,
            confidence,
            n_not_evaluated=self.n_rows - truth.size,
        )
        return ColumnTable(columns, self, answers)

    def _labels(self, answers: Answers) -> tuple[list[Label], Callable[[str], IntArray]]:
        """Return the labels, and what turns a column into their codes."""
        code_of: dict[Label, int] = {}
        seen: dict[str, list[tuple[JsonValue, Label]]] = {}
        answered = f"not ({self.no_answer})"
        for name in ("ground_truth", "prediction"):
            # What is no answer may be any text: it is no label.
            among = answered if name == "prediction" else "true"
            with self.told():
                found = self.query(
                    f"select distinct {name} from {self.scored} where {name} is not null "
                    f"and {among} limit {MOST_VALUES + 1}"
                )
            if len(found) > MOST_VALUES:
                raise InvalidFile(
                    f"{self.place}: {name} has more than {MOST_VALUES:,} different values, which "
                    "are no labels"
                )
            seen[name] = [
                (value, _canonical(answers, value, self.place, name)) for (value,) in found
            ]
            for _, label in seen[name]:
                code_of.setdefault(label, len(code_of))

        def codes(name: str) -> IntArray:
            values = [value for value, _ in seen[name]]
            column = self._coded(name, values, answered if name == "prediction" else "true")
            own = np.array([code_of[label] for _, label in seen[name]] + [NO_LABEL], np.int64)
            return own[column]

        return list(code_of), codes

    def _coded(self, name: str, values: Sequence[JsonValue], among: str = "true") -> IntArray:
        """Return the place of every row's value among the values; null has the last place."""
        n, cell = len(values), f'case when {among} then "{name}" end'
        if self.types[name].startswith("VARCHAR") and n:
            listed = ", ".join("'" + str(value).replace("'", "''") + "'" for value in values)
            code = f"enum_code(({cell})::enum({listed}))"
            return np.asarray(np.ma.filled(self.array(f"coalesce({code}, {n})")), dtype=np.int64)
        if self.types[name] == "BOOLEAN" or self.types[name].endswith(("INT", "INTEGER")):
            low, high = int(min(values, default=0)), int(max(values, default=0))
            if high - low < MOST_VALUES:
                column = self.array(f"coalesce(({cell})::bigint - {low}, {high - low + 1})")
                place = np.full(high - low + 2, n, dtype=np.int64)
                place[np.array(values, dtype=np.int64) - low] = np.arange(n)
                return place[np.asarray(column, dtype=np.int64)]
        column = self.array(f"({cell})::double")
        order = np.argsort(np.array(values, dtype=np.float64), kind="stable")
        ranked = np.array(values, dtype=np.float64)[order]
        place = np.searchsorted(ranked, np.ma.filled(column, np.inf))
        return np.append(order, n)[np.minimum(place, n)]

    def metadata_column(self, key: str) -> Coded | None:
        """Return a metadata column; None where there is none."""
        column, flag = self.names("metadata").get(key, ("", False))
        if key == "should_abstain" and self.has(key):
            column, flag = key, True
        if not column or column not in self.types:
            return None
        quoted = f'"{column}"'
        with self.told():
            found = self.query(
                f"select {quoted} from {self.scored} where {quoted} is not null group by 1 "
                f"order by min(file_row_number) limit {MOST_VALUES + 1}"
            )
        values = [row[0] for row in found]
        if len(values) > MOST_VALUES:
            raise InvalidValue(
                f"the column {column} of {self.place} has more than {MOST_VALUES:,} values, which "
                "are no groups"
            )
        code = self._coded(column, values)
        return Coded(code, [*(_value(value, flag=flag) for value in values), None])

    def signal_column(self, name: str) -> FloatArray | None:
        """Return a signal, NaN where a row lacks it; None where there is no such column."""
        column, _ = self.names("signals").get(name, ("", False))
        if not column or not self.types.get(column, "").startswith(_NUMBERS):
            return None
        return np.asarray(np.ma.filled(self.array(f'"{column}"::double'), np.nan))

    def signal_names(self) -> list[str]:
        """Return the names of the signals that there are columns of."""
        return sorted(self.names("signals"))

    def clusters(self) -> IntArray:
        """Return a code of the patient of every row, numbered by first appearance.

        Patients are told apart by 64 bits: that two of ten million share them has odds of one in
        a few hundred thousand, and would make one patient of the two.
        """
        return numbered(self.array(f"hash({self.cluster})"))

    def repeats_records(self) -> bool:
        """Tell whether a record occurs more than once."""
        if not self.has("record_id"):
            return False
        named = f"{self.scored} where record_id::varchar <> ''"
        names = np.sort(self.array("hash(record_id)", named))
        return bool((names[1:] == names[:-1]).any())

    def row_name(self, index: int) -> str:
        """Name a row in a message."""
        return f"row {int(self.numbers[index]) + 1}"

    def cluster_name(self, code: int) -> str:
        """Return the name of a patient."""
        number = int(self.numbers[np.flatnonzero(self.clusters() == code)[0]])
        found = self.query(
            f"select {self.cluster} from {self.lines} where file_row_number = {number}"
        )
        return str(found[0][0])

    def missing_labels(self) -> list[Label]:
        """Return the right answers of the rows that were not evaluated."""
        found = self.query(f"select ground_truth from {self.lines} where {self.not_evaluated}")
        return [_canonical(Answers(), row[0], self.place, "ground_truth") for row in found]

    def missing_deferral(self) -> list[object]:
        """Return the deferral labels of the rows that were not evaluated."""
        if not self.has("should_abstain"):
            return []
        sql = f"select should_abstain from {self.lines} where {self.not_evaluated}"
        return [None if row[0] is None else _is_set(row[0]) for row in self.query(sql)]

    def missing_clusters(self) -> list[str]:
        """Return the patients of whom no row was evaluated."""
        failed = f"select distinct {self.cluster} as c from {self.lines} where {self.not_evaluated}"
        names = {str(row[0]) for row in self.query(failed)}
        if names:
            scored = f"select distinct {self.cluster} as c from {self.scored}"
            names -= {str(row[0]) for row in self.query(f"{scored} where c in ({failed})")}
        return sorted(names)

    def attrition(self) -> Attrition:
        """Count the rows by outcome, failures by class with the first error as an example."""
        n_no_answer, n_abstained = (
            int(self.query(f"select count(*) from {self.scored} where {condition}")[0][0])
            for condition in (self.no_answer, f"{self.abstained} and not ({self.no_answer})")
        )
        kind = f"coalesce(nullif({self.text('failure_class')}, ''), '{UNCLASSIFIED}')"
        failures = {
            str(name): FailureClass(int(n), str(example))
            for name, n, example in self.query(
                f"select {kind}, count(*), arg_min({self.text('error')}, file_row_number) "
                f"from {self.lines} where {self.failed} group by 1 order by 2 desc, 1"
            )
        }
        n = self.n_rows
        n_lost = sum(one.n for one in failures.values())
        return Attrition(
            n_loaded=n,
            n_sent=n,
            n_answered=n - n_abstained - n_lost,
            n_abstained=n_abstained,
            n_no_answer=n_no_answer,
            n_not_evaluated=n_lost - n_no_answer,
            failures=failures,
        )


def _label(value: JsonValue) -> JsonValue:
    """Return a label as it was written; a whole number in a column of floats is whole."""
    return canonical_label(float(value)) if isinstance(value, float | Decimal) else value


def _is_set(value: JsonValue) -> bool:
    """Return a flag that is written as a number, a truth value or a text."""
    return value in (1, "1", "true")


def _doubled(name: str) -> str:
    return name.replace('"', '""')


def _canonical(answers: Answers, value: JsonValue, place: str, name: str) -> Label:
    try:
        return answers.key(_label(value))
    except InvalidValue as error:
        raise InvalidFile(f"{place}, column {name}: {error}") from None


def _value(cell: JsonValue, *, flag: bool) -> JsonValue:
    """Return a cell as metadata hold it: flags as such, and lists and objects out of their JSON."""
    if flag and cell in (0, 1):
        return bool(cell)
    if isinstance(cell, str) and cell[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):
            return json.loads(cell)
    return cell
