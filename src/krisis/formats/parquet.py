"""Rows in a Parquet file as a result, by column."""

# SQL is put together from quoted names and constants.
# ruff: noqa: S608
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from krisis.answers import canonical_label, is_label
from krisis.errors import InvalidFile, InvalidValue, MissingExtra
from krisis.json_values import JsonMapping, JsonObject, JsonValue
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import Coded, Columns, numbered
from krisis.metrics.labels import FloatArray, IntArray
from krisis.outcomes import NO_ANSWER_CLASSES, NO_PREDICTION, OUTCOMES
from krisis.results.base import BenchmarkResult

if TYPE_CHECKING:
    import duckdb


# Under this key a file says of what run its rows are, so that they can be scored as the run is.
FACTS = "krisis"
PREFIXES = {"metadata": "meta_", "signals": "signal_"}


class ParquetFile:
    """One Parquet file behind a connection: its columns under the names that krisis exports."""

    n_rows: int

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self.connection = _connected()
        quoted = str(path).replace("'", "''")
        self.lines = f"read_parquet('{quoted}', file_row_number = true)"
        with self.translated_errors():
            described = self.query(f"describe select * from {self.lines}")
            self.types = {str(row[0]): str(row[1]) for row in described}
            self.n_rows = int(self.query(f"select count(*) from {self.lines}")[0][0])
        self._check()

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Say in one sentence what DuckDB cannot read."""
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise InvalidFile(f"{self.place} cannot be read as Parquet: {reason}") from None

    def query(self, sql: str) -> list[tuple[JsonValue, ...]]:
        """Return the rows of a query."""
        return self.connection.execute(sql).fetchall()

    def array(self, expression: str) -> NDArray[np.generic]:
        """Return an expression of every row, in the order of the file."""
        with self.translated_errors():
            found = self.connection.execute(f"select {expression} as v from {self.lines}")
            column: NDArray[np.generic] = found.fetchnumpy()["v"]  # type: ignore[assignment]
            return column

    def has(self, name: str) -> bool:
        """Say whether there is a column."""
        return name in self.types

    @property
    def failed(self) -> str:
        """The condition of a row with neither an answer nor an abstention."""
        conditions = ["coalesce(failed::boolean, false)"] if self.has("failed") else []
        conditions += ["error is not null"] if self.has("error") else []
        lost = "('no_answer', 'not_evaluated')"
        conditions += [f"coalesce(outcome, '') in {lost}"] if self.has("outcome") else []
        return " or ".join(conditions) or "false"

    @property
    def no_answer(self) -> str:
        """The condition of a row whose reply is no answer."""
        classes = ", ".join(f"'{name}'" for name in sorted(NO_ANSWER_CLASSES))
        conditions = (
            [f"coalesce(failure_class, '') in ({classes})"] if self.has("failure_class") else []
        )
        conditions += ["coalesce(outcome, '') = 'no_answer'"] if self.has("outcome") else []
        return f"(({self.failed}) and ({' or '.join(conditions) or 'false'}))"

    @property
    def not_evaluated(self) -> str:
        """The condition of a row of which no reply exists."""
        return f"(({self.failed}) and not {self.no_answer})"

    @property
    def abstained(self) -> str:
        """The condition of a row on which the model abstained."""
        if self.has("abstained"):
            return "coalesce(abstained::boolean, false)"
        return "outcome = 'abstained'" if self.has("outcome") else "prediction is null"

    @property
    def confidence_cell(self) -> str:
        """The expression of the confidence."""
        return "confidence::double" if self.has("confidence") else "null::double"

    def text(self, name: str) -> str:
        """Return the expression of a column as text, empty where there is none."""
        return f"coalesce({name}::varchar, '')" if self.has(name) else "''"

    @property
    def cluster(self) -> str:
        """The expression of the patient; a row without one is a patient of its own."""
        own = "'row ' || file_row_number"
        names = [f"nullif({name}::varchar, '')" for name in ("cluster_id", "record_id")]
        known = [
            one
            for one, name in zip(names, ("cluster_id", "record_id"), strict=True)
            if self.has(name)
        ]
        return f"coalesce({', '.join([*known, own])})"

    def _check(self) -> None:
        """Refuse a file that is no table of one run's rows, naming the first row that is wrong."""
        missing = [name for name in ("ground_truth", "prediction") if not self.has(name)]
        if missing:
            raise InvalidFile(
                f"{self.place} has no column {missing[0]!r}; rows to score have ground_truth and "
                "prediction, and as far as they are known abstained, confidence, cluster_id, "
                "record_id, should_abstain and failed (`krisis export --to parquet` writes them)"
            )
        if not self.n_rows:
            raise InvalidFile(f"{self.place} holds no rows")
        wrong = {"ground_truth": "ground_truth is null"}
        if self.has("confidence"):
            wrong["confidence"] = (
                "confidence is not null and not (confidence::double between 0 and 1)"
            )
        for name in ("abstained", "failed", "should_abstain"):
            if self.has(name):
                wrong[name] = (
                    f"{name} is not null and {name}::varchar not in ('0', '1', 'true', 'false')"
                )
        if self.has("outcome"):
            wrong["outcome"] = (
                "outcome is null or outcome not in ("
                + ", ".join(f"'{one}'" for one in OUTCOMES)
                + ")"
            )
        with self.translated_errors():
            cells = ", ".join(f"min(file_row_number) filter ({sql})" for sql in wrong.values())
            firsts = self.query(f"select {cells} from {self.lines}")[0]
        for name, row in zip(wrong, firsts, strict=True):
            if row is not None:
                self._refuse(name, int(row))
        self._refuse_runs()

    def _refuse(self, name: str, row: int) -> None:
        value = self.query(f"select {name} from {self.lines} where file_row_number = {row}")[0][0]
        wanted = {
            "ground_truth": "give every row the right answer",
            "confidence": "it lies between 0 and 1, and is null where none was stated",
            "outcome": f"it is {', '.join(OUTCOMES[:-1])} or {OUTCOMES[-1]}",
        }.get(name, "it is 0, 1 or null")
        raise InvalidFile(f"{self.place} row {row + 1}: {name} is {value!r}; {wanted}")

    def _refuse_runs(self) -> None:
        if not self.has("run_id"):
            return
        runs = self.query(f"select distinct run_id from {self.lines} order by 1 limit 3")
        if len(runs) > 1:
            names = ", ".join(repr(row[0]) for row in runs)
            raise InvalidFile(f"{self.place} holds rows of several runs ({names} …); give one run")

    @cached_property
    def facts(self) -> JsonObject:
        """Return what `krisis export` wrote beside the rows; nothing in files of others."""
        quoted = self.place.replace("'", "''")
        with self.translated_errors():
            found = self.query(
                f"select decode(value) from parquet_kv_metadata('{quoted}') "
                f"where decode(key) = '{FACTS}'"
            )
        content: JsonValue = json.loads(found[0][0]) if found else {}
        return content if isinstance(content, dict) else {}

    def described(self) -> JsonObject:
        """Return what the columns say of the run, in the form of a result without rows."""
        names = [name for name in ("suite", "task", "model_asked") if self.has(name)]
        first = (
            self.query(f"select {', '.join(names)} from {self.lines} limit 1")[0] if names else ()
        )
        known = {name: str(value or "") for name, value in zip(names, first, strict=True)}
        model = known.pop("model_asked", "")
        empty = BenchmarkResult([], {}, {name: word for name, word in known.items() if word}, model)
        return empty.to_dict(include_results=False)

    def names(self, kind: str) -> dict[str, tuple[str, bool]]:
        """Map the keys of metadata or signals to their columns, and whether they hold flags."""
        given = self.facts.get("columns")
        if isinstance(given, dict):
            listed = ((name, *entry) for name, entry in given.items())
            return {key: (name, bool(flag)) for name, of, key, flag in listed if of == kind}
        prefix = PREFIXES[kind]
        return {n.removeprefix(prefix): (n, False) for n in self.types if n.startswith(prefix)}


def _connected() -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.named("tables", "reading Parquet") from None
    connection = duckdb.connect(":memory:")
    connection.execute("set enable_progress_bar = false")
    return connection


# No more rows than these are built at once; columns are read of any number.
MOST_LISTED = 1_000_000
# Of more rows alike, those without a name for instance, none is built to find their order.
MOST_TIED = 100_000
# A column with more different values than this is no label and no group.
MOST_VALUES = 10_000
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN")


def load_parquet(path: Path) -> BenchmarkResult:
    """Read the rows of one run that `krisis export` or another program wrote."""
    file = ParquetColumns(path)
    described = file.facts.get("result") or file.described()
    try:
        about = BenchmarkResult.from_dict(described, place=str(path))
    except InvalidValue as error:
        raise InvalidFile(f"{path}: what it says of its run cannot be read: {error}") from None
    return BenchmarkResult(Rows(file), {}, about.suite_description, about.backend_name, facts=about)


class ParquetColumns(ParquetFile, Columns):
    """The columns of a Parquet file, read when something asks for them."""

    def rows_at(self, places: Sequence[int]) -> list[EvaluationResult]:
        """Build rows; so many that they would fill the memory are refused."""
        if len(places) > MOST_LISTED:
            raise InvalidValue(
                f"this needs every row in memory, and {self.place} has {self.n_rows:,}; it works "
                f"on files of up to {MOST_LISTED:,} rows"
            )
        if "rows" in self.__dict__:
            return [self.rows[place] for place in places]
        # What knows of time zones would need another package to become an object.
        zoned = [name for name, kind in self.types.items() if "WITH TIME ZONE" in kind]
        texts = ", ".join(f'"{name}"::varchar as "{name}"' for name in map(_doubled, zoned))
        listed = f"* replace ({texts})" if texts else "*"
        only = len(places) < self.n_rows and ", ".join(map(str, places))
        some = f"where file_row_number in ({only or -1})" if only is not False else ""
        with self.translated_errors():
            found = self.connection.execute(f"select {listed} from {self.lines} {some}")
            names = [column[0] for column in found.description or ()]
            lines = found.fetchall()
        kinds, built = {kind: self.names(kind) for kind in PREFIXES}, {}
        for line in lines:
            cells = dict(zip(names, line, strict=True))
            place = int(cells["file_row_number"])
            try:
                built[place] = self._row(cells, kinds)
            except InvalidValue as error:
                raise InvalidFile(f"{self.place} row {place + 1}: {error}") from None
        return [built[place] for place in places]

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
        given = {
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
            metadata={**given["metadata"], **extra},
            record_id=record,
            cluster_id=str(cells.get("cluster_id") or record),
            signals=given["signals"],
            error=None if error is None else str(error),
            failure_class=failure_class,
            raw_response=str(cells.get("raw_response") or ""),
            model=str(cells.get("model_answered") or ""),
        )

    @cached_property
    def outcome(self) -> NDArray[np.int8]:
        """The outcome of every row."""
        lost = f"when {self.no_answer} then 2 when {self.not_evaluated} then 3"
        code = self.array(f"(case {lost} when {self.abstained} then 1 else 0 end)::tinyint")
        return np.asarray(code, dtype=np.int8)

    @cached_property
    def truth(self) -> Coded:
        """The right answers."""
        return self._labels("ground_truth", "true")

    @cached_property
    def prediction(self) -> Coded:
        """The predictions; what is no answer may be any text and is no label."""
        return self._labels("prediction", f"not ({self.no_answer})")

    def _labels(self, name: str, among: str) -> Coded:
        cell, values = self._values(name, among)
        if len(values) > MOST_VALUES:
            raise InvalidFile(
                f"{self.place}: {name} has more than {MOST_VALUES:,} different values, which "
                "are no labels"
            )
        labels = [_label(value) for value in values]
        wrong = [one for one in labels if not is_label(one) and not isinstance(one, float)]
        if wrong:
            raise InvalidFile(
                f"{self.place}, column {name}: {wrong[0]!r} is not a label; use a whole number or "
                "a text"
            )
        return Coded(self._places(name, cell, values), [*labels, None])

    @property
    def confidence(self) -> FloatArray:
        """The confidence of every row."""
        return np.asarray(np.ma.filled(self.array(self.confidence_cell), np.nan))

    @cached_property
    def clusters(self) -> Coded:
        """The patients by name."""
        return Coded.of(self.array(self.cluster).tolist())

    @cached_property
    def records(self) -> Coded:
        """The records by name."""
        return Coded.of(self.array(f"concat({self.text('record_id')})").tolist())

    def _values(self, name: str, among: str = "true") -> tuple[str, list[JsonValue]]:
        """Return the cells of a column as SQL, and its values in the order of the file."""
        cell = f'case when {among} then "{_doubled(name)}" end'
        with self.translated_errors():
            found = self.query(
                f"select {cell} as v from {self.lines} where v is not null group by 1 "
                f"order by min(file_row_number) limit {MOST_VALUES + 1}"
            )
        return cell, [row[0] for row in found]

    def _places(self, name: str, cell: str, values: Sequence[JsonValue]) -> IntArray:
        """Return the place of every row's value among the values; null has the last place."""
        n = len(values)
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

    def metadata(self, key: str) -> Coded:
        """Return the values of a metadata key."""
        column, flag = self.names("metadata").get(key, ("", False))
        if key == "should_abstain" and self.has(key):
            column, flag = key, True
        if key == "sample_index" and self.has("asking"):
            cell, values = self._values("asking")
            numbers = [int(value) - 1 if value else None for value in values]
            return Coded(self._places("asking", cell, values), [*numbers, None])
        if not column or column not in self.types:
            return Coded.empty(self.n_rows)
        cell, values = self._values(column)
        if len(values) > MOST_VALUES:
            raise InvalidValue(
                f"the column {column} of {self.place} has more than {MOST_VALUES:,} values, which "
                "are no groups"
            )
        meant = [_value(value, flag=flag) for value in values]
        return Coded(self._places(column, cell, values), [*meant, None])

    def metadata_keys(self) -> list[str]:
        """Return the keys that there are columns of."""
        own = [key for key in ("should_abstain",) if self.has(key)]
        return [*self.names("metadata"), *own, *(["sample_index"] if self.has("asking") else [])]

    def signal(self, name: str) -> FloatArray | None:
        """Return a signal as numbers; None where its column holds texts."""
        column, _ = self.names("signals").get(name, ("", False))
        if not column or column not in self.types:
            return np.full(self.n_rows, np.nan)
        if not self.types[column].startswith(_NUMBERS):
            return None
        return np.asarray(np.ma.filled(self.array(f'"{_doubled(column)}"::double'), np.nan))

    def signal_names(self) -> list[str]:
        """Return the names of the signals that there are columns of."""
        return sorted(self.names("signals"))

    # What names every row is left to DuckDB: millions of names do not fit in memory.

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """The rank of every row in the one order of rows (`metrics.columns`)."""
        # Joined to an empty text, as DuckDB refuses to order by a constant.
        record = f"concat({self.text('record_id')})"
        keys = [f"coalesce(nullif({self.text('cluster_id')}, ''), {record})", record]
        keys += ["coalesce(asking, 1)"] if self.has("asking") else []
        keys += [self.text("ground_truth"), self.text("prediction"), self.abstained]
        keys.append(f"coalesce({self.confidence_cell}, -1)")
        # Rows that are alike so far: by what else they hold, or, of very many, by a hash of it.
        others = [name for name in sorted(self.types) if name.startswith(tuple(PREFIXES.values()))]
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in others)
        last = f", hash({listed})" if others else ""
        named = ", ".join(keys)
        with self.translated_errors():
            found = self.connection.execute(
                f"select file_row_number as v, hash({named}) as h from {self.lines} "
                f"order by {named}{last}"
            ).fetchnumpy()
        order, alike = np.asarray(found["v"], dtype=np.int64), np.asarray(found["h"])
        same = alike[1:] == alike[:-1]
        if np.count_nonzero(np.append(same, False) | np.append(False, same)) <= MOST_TIED:
            order = self.with_ties_broken(order, same)
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        return rank

    def order(self, places: IntArray) -> IntArray:
        """Return places in the one order of rows."""
        return places[np.argsort(self.ranks[places])]

    def patients(self, places: IntArray) -> IntArray:
        """Return the patient of some rows, numbered as they appear.

        Patients are told apart by 64 bits: that two of ten million share them has odds of one in
        a few hundred thousand, and would make one patient of the two.
        """
        return numbered(self.array(f"hash({self.cluster})")[places])

    @property
    def has_nameless_patients(self) -> bool:
        """Tell whether a row names no patient: it is named by its number."""
        return False

    def patient_names(self, places: IntArray) -> list[str]:
        """Name the patients of some rows."""
        return list(map(str, self.array(self.cluster)[places])) if places.size else []

    def repeats_records(self, places: IntArray) -> bool:
        """Tell whether a record occurs more than once."""
        if not self.has("record_id"):
            return False
        is_named = np.asarray(self.array(f"{self.text('record_id')} <> ''"), dtype=np.bool_)
        names = np.sort(self.array("hash(record_id)")[places[is_named[places]]])
        return bool((names[1:] == names[:-1]).any())

    def row_name(self, place: int) -> str:
        """Name a row in a message."""
        return f"row {place + 1}"

    def failures(self) -> list[tuple[str, int, str]]:
        """Count the rows without an answer by class, with the first error as an example."""
        found = self.query(
            f"select {self.text('failure_class')}, count(*), "
            f"arg_min({self.text('error')}, file_row_number) "
            f"from {self.lines} where {self.failed} group by 1 order by 2 desc, 1"
        )
        return [(str(name), int(n), str(example)) for name, n, example in found]


def _label(value: JsonValue) -> JsonValue:
    """Return a label as it was written; a whole number in a column of floats is whole."""
    return canonical_label(float(value)) if isinstance(value, float | Decimal) else value


def _is_set(value: JsonValue) -> bool:
    """Return a flag that is written as a number, a truth value or a text."""
    return value in (1, "1", "true")


def _doubled(name: str) -> str:
    return name.replace('"', '""')


def _value(cell: JsonValue, *, flag: bool) -> JsonValue:
    """Return a cell as metadata hold it: flags as such, and lists and objects out of their JSON."""
    if flag and cell in (0, 1):
        return bool(cell)
    if isinstance(cell, str) and cell[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):
            return json.loads(cell)
    return cell
