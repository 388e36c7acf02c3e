"""A Parquet file of rows behind a connection: what its columns mean, checked, and its run."""

# SQL is put together from quoted names and constants.
# ruff: noqa: S608
from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidFile, MissingExtra
from krisis.json_values import JsonObject, JsonValue
from krisis.outcomes import NO_ANSWER_CLASSES, OUTCOMES
from krisis.results.base import BenchmarkResult
from krisis.results.export import FACTS

if TYPE_CHECKING:
    import duckdb

PREFIXES = {"metadata": "meta_", "signals": "signal_"}


class ParquetFile:
    """One Parquet file behind a connection: its columns under the names that krisis exports."""

    n_rows: int

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self.connection = _connected()
        quoted = str(path).replace("'", "''")
        self.lines = f"read_parquet('{quoted}', file_row_number = true)"
        with self.told():
            described = self.query(f"describe select * from {self.lines}")
            self.types = {str(row[0]): str(row[1]) for row in described}
            self.n_rows = int(self.query(f"select count(*) from {self.lines}")[0][0])
        self._check()

    @contextmanager
    def told(self) -> Iterator[None]:
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
        with self.told():
            found = self.connection.execute(f"select {expression} as v from {self.lines}")
            column: NDArray[np.generic] = found.fetchnumpy()["v"]  # type: ignore[assignment]
            return column

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """The rank of every row in the one order of rows (`metrics.columns`)."""
        # Joined to an empty text, as DuckDB refuses to order by a constant.
        record = f"concat({self.text('record_id')})"
        keys = [f"coalesce(nullif({self.text('cluster_id')}, ''), {record})", record]
        keys += ["coalesce(asking, 1)"] if self.has("asking") else []
        keys += [self.text("ground_truth"), self.text("prediction"), self.abstained]
        keys.append(f"coalesce({self.confidence_cell}, -1)")
        others = [name for name in sorted(self.types) if name.startswith(tuple(PREFIXES.values()))]
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in others)
        keys += [f"hash({listed})"] if others else []
        with self.told():
            found = self.connection.execute(
                f"select file_row_number as v from {self.lines} order by {', '.join(keys)}"
            )
            order = np.asarray(found.fetchnumpy()["v"], dtype=np.int64)
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        return rank

    def has(self, name: str) -> bool:
        """Say whether there is a column."""
        return name in self.types

    @property
    def failed(self) -> str:
        """The condition of a row with neither an answer nor an abstention."""
        told = ["coalesce(failed::boolean, false)"] if self.has("failed") else []
        told += ["error is not null"] if self.has("error") else []
        lost = "('no_answer', 'not_evaluated')"
        told += [f"coalesce(outcome, '') in {lost}"] if self.has("outcome") else []
        return " or ".join(told) or "false"

    @property
    def no_answer(self) -> str:
        """The condition of a row whose reply is no answer."""
        classes = ", ".join(f"'{name}'" for name in sorted(NO_ANSWER_CLASSES))
        told = [f"coalesce(failure_class, '') in ({classes})"] if self.has("failure_class") else []
        told += ["coalesce(outcome, '') = 'no_answer'"] if self.has("outcome") else []
        return f"(({self.failed}) and ({' or '.join(told) or 'false'}))"

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
        with self.told():
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
        with self.told():
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
