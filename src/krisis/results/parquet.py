"""Rows in a Parquet file as a result: a small file as rows, a large one by columns alone."""

# SQL is put together from quoted names and constants.
# ruff: noqa: S608
from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidFile, InvalidValue, MissingExtra
from krisis.json_values import JsonMapping, JsonObject, JsonValue
from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import Coded, ColumnTable, ScoredColumns, numbered
from krisis.metrics.labels import Label, canonical_label
from krisis.metrics.table import NO_LABEL, Answers, FloatArray, IntArray
from krisis.results.attrition import UNCLASSIFIED, Attrition, FailureClass
from krisis.results.base import BenchmarkResult
from krisis.results.column_rows import ColumnRows
from krisis.results.export import FACTS

if TYPE_CHECKING:
    import duckdb

# Rows of a file up to this size are held in memory, where everything can be asked of them.
MOST_IN_MEMORY = 200_000
# A column with more different values than this is no label and no group.
MOST_VALUES = 10_000
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN")
_PREFIXES = {"metadata": "meta_", "signals": "signal_"}


def is_parquet(path: Path) -> bool:
    """Say whether a path names a Parquet file."""
    return path.suffix.lower() in (".parquet", ".pq")


def load_parquet(path: Path) -> BenchmarkResult:
    """Read the rows of one run that `krisis export` or another program wrote."""
    file = _File(path)
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


class _File:
    """One Parquet file behind a connection: its columns under the names that krisis exports."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._connection = _connected()
        quoted = str(path).replace("'", "''")
        self._all = f"read_parquet('{quoted}', file_row_number = true)"
        with self._told():
            described = self._query(f"describe select * from {self._all}")
            self.types = {str(row[0]): str(row[1]) for row in described}
            self.n_rows = int(self._query(f"select count(*) from {self._all}")[0][0])
        self._check()
        self._scored = f"(select * from {self._all} where not ({self._failed}))"

    @contextmanager
    def _told(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise InvalidFile(f"{self.place} cannot be read as Parquet: {reason}") from None

    def _query(self, sql: str) -> list[tuple[JsonValue, ...]]:
        return self._connection.execute(sql).fetchall()

    def _array(self, expression: str, of: str = "") -> NDArray[np.generic]:
        with self._told():
            found = self._connection.execute(f"select {expression} as v from {of or self._scored}")
            column: NDArray[np.generic] = found.fetchnumpy()["v"]  # type: ignore[assignment]
            return column

    def _has(self, name: str) -> bool:
        return name in self.types

    @property
    def _failed(self) -> str:
        told = ["coalesce(failed::boolean, false)"] if self._has("failed") else []
        told += ["error is not null"] if self._has("error") else []
        told += ["coalesce(outcome, '') = 'failed'"] if self._has("outcome") else []
        return " or ".join(told) or "false"

    @property
    def _abstained(self) -> str:
        if self._has("abstained"):
            return "coalesce(abstained::boolean, false)"
        return "outcome = 'abstained'" if self._has("outcome") else "prediction is null"

    @property
    def _confidence(self) -> str:
        return "confidence::double" if self._has("confidence") else "null::double"

    def _text(self, name: str) -> str:
        return f"coalesce({name}::varchar, '')" if self._has(name) else "''"

    @property
    def _cluster(self) -> str:
        own = "'row ' || file_row_number"
        names = [f"nullif({name}::varchar, '')" for name in ("cluster_id", "record_id")]
        known = [
            one
            for one, name in zip(names, ("cluster_id", "record_id"), strict=True)
            if self._has(name)
        ]
        return f"coalesce({', '.join([*known, own])})"

    def _check(self) -> None:
        """Refuse a file that is no table of one run's rows, naming the first row that is wrong."""
        missing = [name for name in ("ground_truth", "prediction") if not self._has(name)]
        if missing:
            raise InvalidFile(
                f"{self.place} has no column {missing[0]!r}; rows to score have ground_truth and "
                "prediction, and as far as they are known abstained, confidence, cluster_id, "
                "record_id, should_abstain and failed (`krisis export --to parquet` writes them)"
            )
        if not self.n_rows:
            raise InvalidFile(f"{self.place} holds no rows")
        wrong = {"ground_truth": "ground_truth is null"}
        if self._has("confidence"):
            wrong["confidence"] = (
                "confidence is not null and not (confidence::double between 0 and 1)"
            )
        for name in ("abstained", "failed", "should_abstain"):
            if self._has(name):
                wrong[name] = (
                    f"{name} is not null and {name}::varchar not in ('0', '1', 'true', 'false')"
                )
        if self._has("outcome"):
            wrong["outcome"] = (
                "outcome is null or outcome not in ('answered', 'abstained', 'failed')"
            )
        with self._told():
            cells = ", ".join(f"min(file_row_number) filter ({sql})" for sql in wrong.values())
            firsts = self._query(f"select {cells} from {self._all}")[0]
        for name, row in zip(wrong, firsts, strict=True):
            if row is not None:
                self._refuse(name, int(row))
        self._refuse_runs()

    def _refuse(self, name: str, row: int) -> None:
        value = self._query(f"select {name} from {self._all} where file_row_number = {row}")[0][0]
        wanted = {
            "ground_truth": "give every row the right answer",
            "confidence": "it lies between 0 and 1, and is null where none was stated",
            "outcome": "it is answered, abstained or failed",
        }.get(name, "it is 0, 1 or null")
        raise InvalidFile(f"{self.place} row {row + 1}: {name} is {value!r}; {wanted}")

    def _refuse_runs(self) -> None:
        if not self._has("run_id"):
            return
        runs = self._query(f"select distinct run_id from {self._all} order by 1 limit 3")
        if len(runs) > 1:
            names = ", ".join(repr(row[0]) for row in runs)
            raise InvalidFile(f"{self.place} holds rows of several runs ({names} …); give one run")

    @cached_property
    def facts(self) -> JsonObject:
        """Return what `krisis export` wrote beside the rows; nothing in files of others."""
        quoted = self.place.replace("'", "''")
        with self._told():
            found = self._query(
                f"select decode(value) from parquet_kv_metadata('{quoted}') "
                f"where decode(key) = '{FACTS}'"
            )
        content: JsonValue = json.loads(found[0][0]) if found else {}
        return content if isinstance(content, dict) else {}

    def described(self) -> JsonObject:
        """Return what the columns say of the run, in the form of a result without rows."""
        names = [name for name in ("suite", "task", "model_asked") if self._has(name)]
        first = (
            self._query(f"select {', '.join(names)} from {self._all} limit 1")[0] if names else ()
        )
        known = {name: str(value or "") for name, value in zip(names, first, strict=True)}
        model = known.pop("model_asked", "")
        empty = BenchmarkResult([], {}, {name: word for name, word in known.items() if word}, model)
        return empty.to_dict(include_results=False)

    def _names(self, kind: str) -> dict[str, tuple[str, bool]]:
        """Map the keys of metadata or signals to their columns, and whether they hold flags."""
        given = self.facts.get("columns")
        if isinstance(given, dict):
            listed = ((name, *entry) for name, entry in given.items())
            return {key: (name, bool(flag)) for name, of, key, flag in listed if of == kind}
        prefix = _PREFIXES[kind]
        return {n.removeprefix(prefix): (n, False) for n in self.types if n.startswith(prefix)}

    def rows(self) -> Iterator[EvaluationResult]:
        """Yield every row, failed ones included."""
        with self._told():
            # What knows of time zones would need another package to become an object.
            zoned = [name for name, kind in self.types.items() if "WITH TIME ZONE" in kind]
            texts = ", ".join(f'"{name}"::varchar as "{name}"' for name in map(_doubled, zoned))
            listed = f"* replace ({texts})" if texts else "*"
            found = self._connection.execute(
                f"select {listed} from {self._all} order by file_row_number"
            )
            names = [column[0] for column in found.description or ()]
            lines = found.fetchall()
        kinds = {kind: self._names(kind) for kind in _PREFIXES}
        for number, line in enumerate(lines, start=1):
            cells = dict(zip(names, line, strict=True))
            try:
                yield self._row(cells, kinds)
            except InvalidValue as error:
                raise InvalidFile(f"{self.place} row {number}: {error}") from None

    def _row(
        self, cells: JsonMapping, kinds: Mapping[str, Mapping[str, tuple[str, bool]]]
    ) -> EvaluationResult:
        failed = _is_set(cells.get("failed")) or cells.get("outcome") == "failed"
        error = cells.get("error")
        if failed and error is None:
            error = "not stated"
        abstained = cells.get("outcome") == "abstained" or _is_set(cells.get("abstained"))
        if not self._has("outcome") and not self._has("abstained"):
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
            None if error is not None else _label(cells["prediction"]),
            _label(cells["ground_truth"]),
            abstained and error is None,
            None if cells.get("confidence") is None else float(cells["confidence"]),
            metadata={**told["metadata"], **extra},
            record_id=record,
            cluster_id=str(cells.get("cluster_id") or record),
            signals=told["signals"],
            error=None if error is None else str(error),
            failure_class=str(cells.get("failure_class") or ""),
            raw_response=str(cells.get("raw_response") or ""),
            model=str(cells.get("model_answered") or ""),
        )

    def table(self, answers: Answers | None) -> ColumnTable:
        """Return the columns that metrics read, of the rows that did not fail."""
        labels, codes = self._labels()
        abstained = np.asarray(self._array(self._abstained), dtype=np.bool_)
        truth, prediction = (codes(name) for name in ("ground_truth", "prediction"))
        confidence = np.ma.filled(self._array(self._confidence), np.nan)
        n_failed = self.n_rows - truth.size
        columns = ScoredColumns(labels, truth, prediction, abstained, confidence, n_failed)
        return ColumnTable(columns, self, answers)

    def _labels(self) -> tuple[list[Label], Callable[[str], IntArray]]:
        """Return the labels by first appearance, and what turns a column into their codes."""
        first: dict[Label, int] = {}
        seen: dict[str, list[tuple[JsonValue, Label]]] = {}
        for place, name in enumerate(("ground_truth", "prediction")):
            with self._told():
                found = self._query(
                    f"select {name}, min(file_row_number) from {self._scored} where {name} is not "
                    f"null group by 1 order by 2 limit {MOST_VALUES + 1}"
                )
            if len(found) > MOST_VALUES:
                raise InvalidFile(
                    f"{self.place}: {name} has more than {MOST_VALUES:,} different values, which "
                    "are no labels"
                )
            seen[name] = [(value, _canonical(value, self.place, name)) for value, _ in found]
            for (_, row), (_, label) in zip(found, seen[name], strict=True):
                when = 2 * int(row) + place  # of one row the truth comes before the answer
                first[label] = min(first.get(label, when), when)
        labels = sorted(first, key=first.__getitem__)
        code_of = {label: code for code, label in enumerate(labels)}

        def codes(name: str) -> IntArray:
            values = [value for value, _ in seen[name]]
            column = self._coded(name, values)
            own = np.array([code_of[label] for _, label in seen[name]] + [NO_LABEL], np.int64)
            return own[column]

        return labels, codes

    def _coded(self, name: str, values: Sequence[JsonValue]) -> IntArray:
        """Return the place of every row's value among the values; null has the last place."""
        n = len(values)
        if self.types[name].startswith("VARCHAR") and n:
            listed = ", ".join("'" + str(value).replace("'", "''") + "'" for value in values)
            code = f'enum_code("{name}"::enum({listed}))'
            return np.asarray(np.ma.filled(self._array(f"coalesce({code}, {n})")), dtype=np.int64)
        if self.types[name] == "BOOLEAN" or self.types[name].endswith(("INT", "INTEGER")):
            low, high = int(min(values, default=0)), int(max(values, default=0))
            if high - low < MOST_VALUES:
                column = self._array(f'coalesce("{name}"::bigint - {low}, {high - low + 1})')
                place = np.full(high - low + 2, n, dtype=np.int64)
                place[np.array(values, dtype=np.int64) - low] = np.arange(n)
                return place[np.asarray(column, dtype=np.int64)]
        column = self._array(f'"{name}"::double')
        order = np.argsort(np.array(values, dtype=np.float64), kind="stable")
        ranked = np.array(values, dtype=np.float64)[order]
        place = np.searchsorted(ranked, np.ma.filled(column, np.inf))
        return np.append(order, n)[np.minimum(place, n)]

    def metadata_column(self, key: str) -> Coded | None:
        """Return a metadata column; None where there is none."""
        column, flag = self._names("metadata").get(key, ("", False))
        if key == "should_abstain" and self._has(key):
            column, flag = key, True
        if not column or column not in self.types:
            return None
        quoted = f'"{column}"'
        with self._told():
            found = self._query(
                f"select {quoted} from {self._scored} where {quoted} is not null group by 1 "
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
        column, _ = self._names("signals").get(name, ("", False))
        if not column or not self.types.get(column, "").startswith(_NUMBERS):
            return None
        return np.asarray(np.ma.filled(self._array(f'"{column}"::double'), np.nan))

    def clusters(self) -> IntArray:
        """Return a code of the patient of every row, numbered by first appearance.

        Patients are told apart by 64 bits: that two of ten million share them has odds of one in
        a few hundred thousand, and would make one patient of the two.
        """
        return numbered(self._array(f"hash({self._cluster})"))

    def repeats_records(self) -> bool:
        """Tell whether a record occurs more than once."""
        if not self._has("record_id"):
            return False
        named = f"{self._scored} where record_id::varchar <> ''"
        names = np.sort(self._array("hash(record_id)", named))
        return bool((names[1:] == names[:-1]).any())

    def row_name(self, index: int) -> str:
        """Name a row in a message."""
        row = self._query(f"select file_row_number from {self._scored} limit 1 offset {index}")
        return f"row {int(row[0][0]) + 1}"

    def cluster_name(self, code: int) -> str:
        """Return the name of a patient."""
        index = int(np.flatnonzero(self.clusters() == code)[0])
        return str(
            self._query(f"select {self._cluster} from {self._scored} limit 1 offset {index}")[0][0]
        )

    def failed_labels(self) -> list[Label]:
        """Return the right answers of the rows that failed."""
        found = self._query(f"select ground_truth from {self._all} where {self._failed}")
        return [_canonical(row[0], self.place, "ground_truth") for row in found]

    def failed_clusters(self) -> list[str]:
        """Return the patients of whom no row was scored."""
        failed = f"select distinct {self._cluster} as c from {self._all} where {self._failed}"
        names = {str(row[0]) for row in self._query(failed)}
        if names:
            scored = f"select distinct {self._cluster} as c from {self._scored}"
            names -= {str(row[0]) for row in self._query(f"{scored} where c in ({failed})")}
        return sorted(names)

    def attrition(self) -> Attrition:
        """Count the rows by outcome, failed ones by class with the first error as an example."""
        n_abstained = int(
            self._query(f"select count(*) from {self._scored} where {self._abstained}")[0][0]
        )
        kind = f"coalesce(nullif({self._text('failure_class')}, ''), '{UNCLASSIFIED}')"
        failures = {
            str(name): FailureClass(int(n), str(example))
            for name, n, example in self._query(
                f"select {kind}, count(*), arg_min({self._text('error')}, file_row_number) "
                f"from {self._all} where {self._failed} group by 1 order by 2 desc, 1"
            )
        }
        n_failed = sum(one.n for one in failures.values())
        n = self.n_rows
        return Attrition(n, n, n - n_abstained - n_failed, n_abstained, n_failed, failures)


def _connected() -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.named("tables", "reading Parquet") from None
    connection = duckdb.connect(":memory:")
    connection.execute("set enable_progress_bar = false")
    return connection


def _label(value: JsonValue) -> JsonValue:
    """Return a label as it was written; a whole number in a column of floats is whole."""
    return canonical_label(float(value)) if isinstance(value, float | Decimal) else value


def _is_set(value: JsonValue) -> bool:
    """Return a flag that is written as a number, a truth value or a text."""
    return value in (1, "1", "true")


def _doubled(name: str) -> str:
    return name.replace('"', '""')


def _canonical(value: JsonValue, place: str, name: str) -> Label:
    try:
        return canonical_label(_label(value))
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
