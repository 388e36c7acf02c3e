"""The table suite: questions over a table of the user's own, declared in a YAML file."""

# SQL is put together from checked expressions, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from krisis.data.base import (
    BaseDataSuite,
    Features,
    Judgement,
    Label,
    PatientRecord,
    Records,
    Rule,
    SuiteConfig,
    Task,
    content_hash,
)
from krisis.data.table.cases import TaskTable
from krisis.data.table.declaration import Declaration, read_declaration
from krisis.data.table.expressions import duckdb_says, quoted, sql_text
from krisis.data.table.leaks import accepted, copies_of_chosen, findings
from krisis.data.table.source import TABLE, Source, open_source
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonObject, JsonValue

# Baselines learn from at most so many training records, drawn by the seed.
MOST_TRAINING_RECORDS = 10_000
_DEFER = "defer"


@contextmanager
def readable_rows(path: Path) -> Iterator[None]:
    """Say in one sentence what DuckDB says of a file that breaks while it is read."""
    try:
        yield
    except Exception as error:
        if type(error).__module__ not in ("duckdb", "_duckdb"):
            raise
        raise InvalidFile(
            f"{path}: its rows cannot be read: {duckdb_says(error)}; the source may be broken, or "
            "too large for the memory"
        ) from error


class TableSuite(BaseDataSuite):
    """A table of one's own as a suite, declared in a YAML file: `krisis run clinic.yaml`.

    Rows stay in DuckDB; records are made for the cases that are used. The first look at the data
    runs the leak guard, and a file that gives its labels away is refused.
    """

    name = "table"
    option_words: Mapping[str, str] = {
        "data_path": "A file of data in place of the one that the YAML file names"
    }

    def __init__(
        self,
        path: str | Path | None = None,
        config: SuiteConfig | None = None,
        *,
        data_path: str | Path | None = None,
    ) -> None:
        if path is None:
            raise InvalidValue(
                "the suite 'table' is a YAML file of your own; type: krisis run clinic.yaml"
            )
        self.path = Path(path).expanduser()
        self.data_path = None if data_path is None else Path(data_path).expanduser()
        self.declaration: Declaration = read_declaration(self.path)
        self.name = self.declaration.name
        self.tasks = dict.fromkeys(self.declaration.tasks, TableSuite._task)
        super().__init__(config)
        self._refuse_choices(source=self.path)

    def _task(self) -> Task:
        return self.table.task

    @property
    def terms(self) -> str:  # type: ignore[override]
        """Return what the file says of licence and consent; nothing where people are invented."""
        if self.declaration.synthetic:
            return ""
        stated = self.declaration.provenance
        given = [f"{key}: {stated[key]}" for key in ("licence", "consent") if key in stated]
        return "; ".join(given) or "licence and consent are not stated"

    @cached_property
    def source(self) -> Source:
        """Return the rows behind their locked connection."""
        with readable_rows(self.path):
            return open_source(self.declaration, self.path.parent, self.data_path)

    @cached_property
    def table(self) -> TaskTable:
        """Return the cases of the chosen task, checked for leaks."""
        with readable_rows(self.path):
            table = TaskTable(self.declaration, self.task_name, self.source, self.config)
            for finding in findings(table):
                raise InvalidFile(finding)
            self._rule = declared_rule(table)
            return table

    def load(self) -> list[PatientRecord]:
        """Return the records of the rows to evaluate, in an order drawn by the seed."""
        with readable_rows(self.path):
            return self._checked(self.table.records("use"))

    def first(self, limit: int | None) -> Records:
        """Return the first records without making any other."""
        if limit is None or self._loaded is not None:
            return super().first(limit)
        with readable_rows(self.path):
            return Records(self._checked(self.table.records("use", limit)))

    def _checked(self, records: list[PatientRecord]) -> list[PatientRecord]:
        if not records:
            raise InvalidFile(
                f"{self.source.name} leaves no row to evaluate: {self._parts()}; check split"
            )
        for finding in copies_of_chosen(self.table) if self.table.is_large else ():
            raise InvalidFile(finding)
        return records

    def _parts(self) -> str:
        split = self.declaration.split
        if split is None or split.column is None:
            return "no row has a label"
        column = quoted(split.column)
        found = self.source.query(
            f"select {column}::varchar, count(*) from {TABLE} group by 1 order by 2 desc limit 6"
        )
        counts = ", ".join(f"{value!r} {n_rows} times" for value, n_rows in found)
        return f"the column {split.column} holds {counts}, and {split.use!r} is to be evaluated"

    def training_records(self) -> list[PatientRecord]:
        """Return records of rows that are held back for baselines."""
        with readable_rows(self.path):
            return (
                self.table.records("train", MOST_TRAINING_RECORDS) if self.table.has_split else []
            )

    @property
    def to_get_training_records(self) -> str:  # type: ignore[override]
        """Say what the file needs, so that a baseline can be fitted."""
        return f"add `split:` to {self.path.name}"

    @property
    def baselines(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return what every result is read against."""
        logistic = ("logistic",) if self.declaration.baselines.logistic else ()
        rule = ("rule/declared",) if self.rules else ()
        readers = (f"reader/{name}" for name in self.table.spec.readers)
        return ("always-abstain", "majority", *logistic, *rule, *readers)

    @property
    def readers(self) -> Mapping[str, Mapping[str, Judgement]]:
        """Return what the readers of the file said."""
        with readable_rows(self.path):
            return {name: self.table.readings(name) for name in self.table.spec.readers}

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the rule of the file, where it speaks of the answers of this task."""
        assert self.table
        return {} if self._rule is None else {"declared": self._rule}

    def describe(self) -> JsonObject:
        """Say where the rows come from, how they were split, and what was accepted."""
        table, declared = self.table, self.declaration
        n_records = table.n_cases("use")
        return {
            "suite": self.name,
            "task": table.name,
            "seed": self.config.seed,
            "n_records": n_records,
            "content_hash": self._content_hash(),
            "account": self._account(n_records),
            "version": str(declared.version),
            **({"accepted": accepted(table)} if accepted(table) else {}),
            **({"merged": self.source.merged} if self.source.merged else {}),
            "labels": dict(sorted(table.label_counts("use").items())),
            "deferral_reasons": table.reason_counts("use"),
            "provenance": [
                {
                    **declared.provenance,
                    "files": [one.path.name for one in self.source.readings],
                    "sha256": self.source.sha256,
                    "n_rows": self.source.n_rows,
                }
            ],
        }

    def _content_hash(self) -> str:
        """Hash what the records follow from, so that a million rows need not become objects."""
        return content_hash(
            [
                self.source.sha256,
                self.declaration.model_dump(mode="json", exclude={"provenance", "baselines"}),
                self.table.name,
                self.config.seed,
                self.config.test_size,
            ]
        )

    def _account(self, n_records: int) -> str:
        table = self.table
        n_training = table.n_cases("train")
        n_left = self.source.n_rows - n_records - n_training
        parts = [f"{self.source.n_rows} rows read", f"{n_records} to evaluate"]
        if n_training:
            parts.append(f"{n_training} for fitting baselines")
        if n_left:
            parts.append(f"{n_left} left out (other part, or no label)")
        names = ", ".join(one.path.name for one in self.source.readings[:3])
        more = " …" if len(self.source.readings) > 3 else ""
        hidden = "".join(f"; {sentence}" for sentence in accepted(table))
        return f"{names}{more}: {'; '.join(parts)}{hidden}"


def declared_rule(table: TaskTable) -> Rule | None:
    """Return the rule of a task, checked to read its features alone."""
    given = table.declaration.rule(table.name)
    return TableRule(table, given) if given else None


class TableRule:
    """The rule of a file: for each answer a condition over what is shown, and one to defer."""

    def __init__(self, table: TaskTable, conditions: Mapping[str, str]) -> None:
        self._table = table
        shown = {name: table.source.columns[name] for name in table.spec.features}
        for key, text in conditions.items():
            place = f"{'tasks.' + table.name if table.spec.rule else 'baselines'}.rule.{key}"
            found = table.condition(text, place)
            unseen = [name for name in found.columns if name not in shown]
            if unseen:
                raise InvalidFile(
                    f"{place}: {text!r} reads {unseen[0]!r}, which the model is not shown; use "
                    f"features of the task {table.name!r}"
                )
            table.execute(f"create or replace table krisis_rule as select {found.sql} from {TABLE}")
        cells = ", ".join(f"?::{kind} as {quoted(name)}" for name, kind in shown.items())
        chosen = " ".join(
            f"when ({conditions[key]}\n) then {sql_text(key)}"
            for key in sorted(conditions, key=lambda key: key != _DEFER)
        )
        self._names = list(shown)
        self._sql = f"select case {chosen} end from (select {cells})"
        self._answers: dict[str, Label] = {str(a): a for a in table.task.answers}
        self._other = [a for key, a in self._answers.items() if key not in conditions]

    def __call__(self, features: Features, context: str) -> Judgement:
        """Judge by the first condition that holds, else by the one answer without a condition."""
        values: list[JsonValue] = [features.get(name) for name in self._names]
        verdict = self._table.source.query(self._sql, values)[0][0]
        if verdict == _DEFER:
            return Judgement(None, abstain=True)
        if verdict is not None:
            return Judgement(self._answers[str(verdict)], confidence=1.0)
        if len(self._other) == 1:
            return Judgement(self._other[0], confidence=1.0)
        return Judgement(None, abstain=True)
