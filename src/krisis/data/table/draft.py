"""`krisis init`: a first YAML file for a table, which loads and checks as it is written.

Columns are recognised by their names and by what they hold. The draft is checked before it is
written; columns that give the outcome away are left out of what the model sees, with the reason.
Of the values only the answers, and categories that several rows share, are written.
"""

# SQL is put together from quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from krisis.costs import ASSUMED_PRICE
from krisis.data.table.check import CheckedSuite, check_draft
from krisis.data.table.columns import (
    MOST_CATEGORIES,
    ColumnCounter,
    ColumnSummary,
    TableSummary,
    decimal_format,
)
from krisis.data.table.databases import FILE, LOADED, load_database, new_connection
from krisis.data.table.expressions import quoted
from krisis.data.table.files import FORMATS, existing, guessed_encoding, reading_of, unreadable
from krisis.data.table.formats import NumberFormat
from krisis.data.table.suite_file import TODO
from krisis.data.table.vocabulary import (
    OutcomeName,
    has_role,
    is_called_id,
    is_dead_or_alive,
    is_event,
    matches,
    measure_name,
    outcome_name,
    value_meaning,
    vocabulary,
    words_of,
)
from krisis.errors import InvalidFile
from krisis.json_values import JsonObject, JsonValue
from krisis.sqlite_edge import address
from krisis.yaml_values import Noted, parse_yaml, yaml_text

if TYPE_CHECKING:
    import duckdb

# An outcome below this score is a disease that may as well be a finding.
_CLEAR = 2.0
_MOST_CHECKS = 12
_DATABASES = (".db", ".sqlite", ".sqlite3", ".duckdb", ".ddb", ".db3")


@dataclass(frozen=True, slots=True)
class Draft:
    """The text of a file, what its check found, and what was left out or is uncertain."""

    text: str
    checked: CheckedSuite
    remarks: list[str] = field(default_factory=list)


def draft(file: Path, out: Path, *, table: str | None = None) -> Draft:
    """Return the YAML file for a table; ``out`` is where it will be written.

    ``table`` names the table of a database of SQLite or DuckDB.
    """
    if file.is_dir():
        raise InvalidFile(
            f"{file} is a folder; name one table in it, or see the docs for FHIR sources"
        )
    if not file.is_file():
        raise InvalidFile(f"there is no file {file}; give the path of a table")
    if file.suffix.lower() in (".yaml", ".yml"):
        raise InvalidFile(f"{file} is a YAML file, not a table; type: krisis data check {file}")
    name = Path(os.path.relpath(file.resolve(), out.resolve().parent)).as_posix()
    if is_database(file):
        summary, source = _summary_of_database(file, name, table)
    elif table is not None:
        raise InvalidFile(f"--table is for a database, and {file} is one table")
    else:
        summary, source = _summary_of_file(file, name)
    columns = Columns(summary)
    checked, text = CheckedSuite(), ""
    for _ in range(_MOST_CHECKS):
        text = _text(file, out, summary, source, columns)
        content = parse_yaml(text, str(out))
        assert isinstance(content, dict)
        checked = check_draft(out, content, text, file)
        if not columns.learn(checked):
            break
    return Draft(text, checked, list(columns.remarks()))


def is_database(file: Path) -> bool:
    """Tell whether a file is a database of SQLite or DuckDB, by its name or its first bytes."""
    with file.open("rb") as opened:
        start = opened.read(16)
    return (
        file.suffix.lower() in _DATABASES or start.startswith(b"SQLite format 3")
    ) and file.suffix.lower() not in FORMATS


# What is in the table


def _summary_of_file(file: Path, name: str) -> tuple[TableSummary, JsonValue]:
    import duckdb

    connection = new_connection()
    form = FORMATS.get(Path(file.name.lower().removesuffix(".gz")).suffix, "")
    encoding = guessed_encoding(existing(file)) if form in ("csv", "tsv") else "utf-8"
    reading = reading_of(connection, existing(file), [], encoding=encoding)
    try:
        rows = reading.call
        if reading.form != "parquet":  # Parquet stays in its file, other files are read once
            connection.execute(f"create table krisis_rows as from {reading.call}")
            rows = "krisis_rows"
        texts = [n for n, kind in reading.columns.items() if kind == "VARCHAR"]
        decimal = decimal_format(connection, rows, texts)
        if form in ("csv", "tsv") and decimal.decimal != ".":
            reading.close()
            reading = reading_of(connection, file, [], encoding=encoding, numbers_as_text=True)
            connection.execute(f"create or replace table krisis_rows as from {reading.call}")
            texts = [n for n, kind in reading.columns.items() if kind == "VARCHAR"]
            decimal = decimal_format(connection, rows, texts)
    except duckdb.Error as error:
        raise unreadable(reading, error) from None
    finally:
        reading.close()
    summary = _summary(connection, rows, reading.columns, decimal, file)
    source: JsonObject = {"files": name}
    source |= {"encoding": encoding} if encoding != "utf-8" else {}
    source |= {"decimal": decimal.decimal} if decimal.decimal != "." else {}
    source |= {"thousands": decimal.thousands} if decimal.thousands else {}
    return summary, source if len(source) > 1 else name


def _summary_of_database(
    file: Path, name: str, table: str | None
) -> tuple[TableSummary, JsonValue]:
    connection = new_connection()
    tables = _tables(file)
    if table is None and len(tables) == 1:
        table = tables[0]
    if table is None or table not in tables:
        given = "name one" if table is None else f"there is none called {table!r}; name one"
        listed = ", ".join(tables) or "none"
        raise InvalidFile(f"{file} holds the tables {listed}; {given}: --table NAME")
    query = f"select * from {quoted(table)}"
    load_database(connection, existing(file), query)
    described = connection.execute(f"describe {LOADED}").fetchall()
    columns = {str(row[0]): str(row[1]) for row in described if row[0] != FILE}
    texts = [n for n, kind in columns.items() if kind == "VARCHAR"]
    decimal = decimal_format(connection, LOADED, texts)
    source: JsonObject = {"database": name, "query": query}
    source |= {"decimal": decimal.decimal} if decimal.decimal != "." else {}
    source |= {"thousands": decimal.thousands} if decimal.thousands else {}
    return _summary(connection, LOADED, columns, decimal, file), source


def _tables(file: Path) -> list[str]:
    """Return the tables and views of a database."""
    import duckdb

    with file.open("rb") as opened:
        is_sqlite = opened.read(16).startswith(b"SQLite format 3")
    try:
        if is_sqlite:
            with closing(sqlite3.connect(address(file, "ro"), uri=True)) as database:
                rows = database.execute(
                    "select name from sqlite_master where type in ('table', 'view') "
                    "and name not like 'sqlite_%' order by 1"
                ).fetchall()
        else:
            with closing(duckdb.connect(str(file), read_only=True)) as opened_database:
                rows = opened_database.execute(
                    "select table_name from information_schema.tables order by 1"
                ).fetchall()
    except (sqlite3.Error, duckdb.Error):
        raise InvalidFile(f"{file} is no database of DuckDB or SQLite; give a table") from None
    return [str(row[0]) for row in rows]


def _summary(
    connection: duckdb.DuckDBPyConnection,
    rows: str,
    columns: dict[str, str],
    decimal: NumberFormat,
    file: Path,
) -> TableSummary:
    n_rows = int(connection.execute(f"select count(*) from {rows}").fetchall()[0][0])
    if not n_rows:
        raise InvalidFile(f"{file} holds no rows; give a table with rows")
    counter = ColumnCounter(connection, rows, n_rows, decimal)
    return TableSummary(n_rows, [counter.summary(n, k) for n, k in columns.items()], counter.format)


# What the columns are


@dataclass(frozen=True, slots=True)
class Outcome:
    """The column that is taken for the truth, how it is read, and why it was taken."""

    column: ColumnSummary
    name: OutcomeName
    why: str
    # An expression in place of the column: a date of death that is there or not.
    sql: str = ""
    is_guess: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The columns of questions with options."""

    question: ColumnSummary
    options: list[ColumnSummary]
    answer: ColumnSummary


class Columns:
    """Which column is taken for what, and why; a check of the draft may change it."""

    def __init__(self, summary: TableSummary) -> None:
        self.all = summary.columns
        self.left = list(summary.columns)
        self.n_rows = summary.n_rows
        self.format = summary.format
        self.leaks: dict[str, str] = {}
        self.shuffle = False
        self.label_form = ""
        self.cluster = self._cluster()
        self.record = self._record()
        self.choice = self._choice()
        self.split = self._take(
            lambda one: has_role(one.name, "split") and bool(evaluated_values(one))
        )
        self.outcome = None if self.choice else self._outcome()
        self.deferral = self._take(
            lambda one: has_role(one.name, "deferral") and one.has_few_values
        )
        self.texts = [one for one in self.left if one.is_text]
        self.out = {
            one.name: why for one in self.left if one not in self.texts and (why := self._why(one))
        }
        self.features = [
            one for one in self.left if one not in self.texts and one.name not in self.out
        ]
        # Shown in the first check only, which tells whether they do give the outcome away.
        self.suspects = {one.name: why for one in self.features if (why := self._suspicion(one))}
        self.groups = [
            one
            for one in self.left
            if one.has_few_values
            and one.shared
            and (has_role(one.name, "group") or has_role(one.name, "site"))
        ]

    def _take(self, fits: Callable[[ColumnSummary], bool]) -> ColumnSummary | None:
        found = next((one for one in self.left if fits(one)), None)
        if found:
            self.left.remove(found)
        return found

    def _cluster(self) -> ColumnSummary | None:
        def is_patient(one: ColumnSummary) -> bool:
            return has_role(one.name, "patient") and (
                ends_in_patient(one) or not has_role(one.name, "record")
            )

        def ends_in_patient(one: ColumnSummary) -> bool:
            return words_of(one.name)[-1] in vocabulary()["role"]["patient"]["words"]

        def is_key(one: ColumnSummary) -> bool:
            is_named = len(words_of(one.name)) == 1 or ends_in_patient(one)
            complete = one.n_given == self.n_rows and not one.is_date and not one.is_text
            return complete and (is_called_id(one.name) or is_named) and one.n_distinct > 1

        return self._take(lambda one: is_patient(one) and is_key(one))

    def _record(self) -> ColumnSummary | None:
        def is_record(one: ColumnSummary) -> bool:
            return has_role(one.name, "record") and one.is_unique and not one.is_date

        found = self._take(lambda one: is_record(one) and is_called_id(one.name))
        found = found or self._take(
            lambda one: (
                (is_record(one) or is_called_id(one.name))
                and one.is_unique
                and not one.is_text
                and not has_role(one.name, "identity")
            )
        )
        if found is None and self.cluster is None:
            # Rows of one stay belong together, where the table names no patient.
            self.cluster = self._take(
                lambda one: (
                    is_called_id(one.name)
                    and one.n_given == self.n_rows
                    and one.n_distinct > MOST_CATEGORIES
                )
            )
        return found

    def _choice(self) -> Choice | None:
        known = vocabulary()["choice"]
        question = next(
            (
                o
                for o in self.left
                if {*words_of(o.name)} & {*known["question"]}
                and o.kind == "VARCHAR"
                and o.n_distinct > 1
            ),
            None,
        )
        listed = [o for o in self.left if o.is_list and {*words_of(o.name)} & {*known["options"]}]
        options = listed[:1] or self._option_columns(known["prefix"])
        rest = [o for o in self.left if o not in options and o is not question]
        answer = next(
            (
                o
                for o in rest
                if {*words_of(o.name), "".join(words_of(o.name))} & {*known["answer"]}
                and not o.is_list
            ),
            None,
        )
        if question is None or answer is None or not options:
            return None
        self.left = [o for o in rest if o is not answer]
        return Choice(question, options, answer)

    def _option_columns(self, prefixes: Sequence[str]) -> list[ColumnSummary]:
        """Return columns such as opa, option_b or A, at least two of them, in their order."""
        found: dict[str, list[ColumnSummary]] = {}
        for one in self.left:
            name = "".join(words_of(one.name))
            for prefix in ("", *prefixes):
                if re.fullmatch(rf"{prefix}(?:[a-h]|[0-8])", name) and (prefix or name.isalpha()):
                    found.setdefault(prefix, []).append(one)
        best = max(found.values(), key=len, default=[])
        is_enough = len(best) >= 2 and all(one.kind == "VARCHAR" for one in best)
        return sorted(best, key=lambda one: one.name) if is_enough else []

    def _outcome(self) -> Outcome | None:
        rated = [(self._score(one), number, one) for number, one in enumerate(self.left)]
        score, _, best = max(rated, default=(0.0, 0, None))
        if best is None:
            return None
        if score < _CLEAR and (dated := self._death_date()):
            return dated
        if score > 0:
            why = f"its name and {best.n_distinct} values look like an outcome"
            if score < _CLEAR:
                why = f"{why}; it may also be a finding: check that it is what you want to predict"
            found = Outcome(best, self._said(best), why)
        else:
            guess = self._guess()
            if guess is None:
                return None
            found = guess
        self.left.remove(found.column)
        return found

    def _said(self, one: ColumnSummary) -> OutcomeName:
        """Return what name and values say of an outcome; dead and alive need no name."""
        said = outcome_name(one.name)
        if one.has_few_values and all(is_dead_or_alive(str(value)) for value in one.categories):
            return replace(outcome_name("vital status"), score=max(said.score, _CLEAR + 1))
        return said

    def _score(self, one: ColumnSummary) -> float:
        """Rate how likely a column is the outcome, by its name and its values."""
        score = self._said(one).score
        if not score and has_role(one.name, "after") and not one.is_date:
            score = 0.5  # a discharge code is better than nothing
        if not score or not one.has_few_values or one.n_given < 0.3 * self.n_rows:
            return 0.0
        if one.is_number and (one.n_whole < one.n_numbers or one.n_below or one.n_above):
            return 0.0
        if is_called_id(one.name) and one.n_distinct > 2:
            score -= 1
        score += 0.6 if one.n_distinct == 2 else 0.0
        # Tables often end with what is to be predicted.
        return score + 0.3 * (self.all.index(one) + 1) / len(self.all)

    def _death_date(self) -> Outcome | None:
        """Take a date of death that some rows lack for the outcome itself."""
        for one in self.left:
            died = matches(one.name, vocabulary()["outcome"][0]) or "dod" in words_of(one.name)
            dated = one.is_date or has_role(one.name, "time")
            if died and dated and 0 < one.n_given < self.n_rows:
                self.left.remove(one)
                name = outcome_name("death")
                why = "a date of death is given for those who died; no other outcome was found"
                return Outcome(one, name, why, sql=f"{quoted(one.name)} is not null")
        return None

    def _guess(self) -> Outcome | None:
        few = [o for o in self.left if o.has_few_values and not o.is_list and not o.is_date]
        known = [o for o in few if has_role(o.name, "group") or has_role(o.name, "site")]
        named = [o for o in few if measure_name(o.name).units or o.name in [k.name for k in known]]
        unknown = [o for o in few if o not in named]
        pairs = [o for o in unknown if o.n_distinct == 2] or unknown
        why = "no column is called like an outcome; this one is a placeholder"
        for column in (pairs or few)[-1:]:
            return Outcome(column, OutcomeName(0.0), why, is_guess=True)
        return None

    def _why(self, one: ColumnSummary) -> str:
        """Return why a column is not shown to the model; nothing where it is."""
        if one.name in self.leaks:
            return self.leaks[one.name]
        if not one.n_given:
            return "it is empty"
        if one.n_distinct == 1 and one.n_given == self.n_rows:
            return "it has the same value in every row"
        if has_role(one.name, "identity") and not one.has_few_values:
            return "it may identify somebody"
        if one.is_date:
            return "a date or time; add it if the model needs it and it is not after the outcome"
        has_decimals = one.is_number and one.n_whole < one.n_numbers
        if is_called_id(one.name) and not one.has_few_values and not has_decimals:
            return "an identifier"
        if one.looks_like_id and not measure_name(one.name).units:
            return "numbers of the same length, as identifiers have"
        if one.is_list or one.kind == "BLOB":
            return "it holds lists or bytes"
        words = one.kind == "VARCHAR" and not one.is_number
        if words and one.n_distinct > 0.5 * one.n_given > 5:
            return "nearly every row has another text, which may identify somebody"
        return ""

    def _suspicion(self, one: ColumnSummary) -> str:
        """Return why a column may be known only after the outcome, by its name."""
        # Where the outcome itself is unknown, nothing can be known to come after it.
        if self.choice or self.outcome is None or self.outcome.is_guess:
            return ""
        if has_role(one.name, "after"):
            return "it is known only after the outcome and may give it away"
        other = outcome_name(one.name)
        if other.score >= _CLEAR and one.has_few_values:
            return "it looks like another outcome"
        if other.label in ("Death", "Survival") and has_role(one.name, "time"):
            return "it is known only after the outcome and may give it away"
        return ""

    def learn(self, checked: CheckedSuite) -> bool:
        """Change what a check of the draft found wrong; tell whether anything was changed."""
        before = len(self.features), self.shuffle, self.label_form
        for problem in checked.fatal:
            column = problem.column
            if "shuffle: true" in problem.sentence:
                self.shuffle = True
            elif "say which, as in" in problem.sentence:
                self.label_form = "index from 0" if "index from 0" in problem.sentence else "letter"
            elif column is not None and len(self.features) > 1:
                self._leave_out(column, problem.sentence, is_leak=problem.severity == "leak")
        for group in list(self.groups):
            if any(f"column {group.name}: " in p.sentence for p in checked.fatal):
                self.groups.remove(group)
        if checked.tables:  # else the leaks were not looked for yet
            for name, why in self.suspects.items():
                if name not in self.out and len(self.features) > 1:
                    self.out[name] = why
                    self.features = [one for one in self.features if one.name != name]
            self.suspects = {}
        now = len(self.features), self.shuffle, self.label_form
        return before != now

    def _leave_out(self, name: str, sentence: str, *, is_leak: bool) -> None:
        why = sentence.partition(f"column {name}: ")[2].partition(";")[0]
        self.leaks[name] = f"LEAK: {why}" if is_leak else why
        self.out[name] = self.leaks[name]
        self.features = [one for one in self.features if one.name != name]

    def remarks(self) -> Iterator[str]:
        """Say what was decided and deserves a look."""
        for name, why in self.leaks.items():
            yield f"left out {name}: {why}"
        no_outcome = not self.choice and (self.outcome is None or self.outcome.is_guess)
        if no_outcome and self.cluster and any(has_role(one.name, "value") for one in self.all):
            yield (
                "the table seems to hold one row for each measurement; with one row for each "
                "patient or stay (source: {database: FILE, query: SELECT …}) it can be a suite"
            )
        if self.outcome is None and self.choice is None:
            yield "no column can be the outcome; name it under tasks.main.label"
        elif self.outcome and self.outcome.is_guess:
            yield (
                f"no column is called like an outcome; {self.outcome.column.name} is a "
                "placeholder: change tasks.main.label, answers and question"
            )
        elif self.outcome:
            yield f"outcome: {self.outcome.column.name} ({self.outcome.why})"


def evaluated_values(column: ColumnSummary) -> list[str]:
    """Return the values of a column that name the rows to evaluate."""
    names = [str(value) for value in column.categories]
    return [name for name in names if name.lower() in ("test", "testing", "holdout", "eval")]


# The file


def _text(file: Path, out: Path, summary: TableSummary, source: JsonValue, columns: Columns) -> str:
    n_columns = len(summary.columns)
    above = [
        f"A draft by `krisis init` from {file.name}: {summary.n_rows} rows, {n_columns} columns.",
        "It loads as it is. Read every line; what is wrong is yours to correct, above all the",
        f"question, the answers and what the model sees. Then type: krisis data check {out.name}",
    ]
    content: dict[str, object] = {"suite": "table", "name": file.stem, "version": 1}
    content["source"] = _source(source)
    content |= dict(_identity(columns))
    content["tasks"] = {"main": dict(_task(columns))}
    content["features"] = dict(_features(columns)) or {}
    groups = [column.name for column in columns.groups]
    content["groups"] = Noted(groups, "results are also shown for each of these")
    content["provenance"] = Noted(
        {"source": file.name},
        "add licence, consent, or synthetic: true for invented patients",
    )
    return yaml_text(content, above=above)


def _source(source: JsonValue) -> object:
    if not isinstance(source, dict):
        return source
    notes = {"decimal": "numbers are written 12,5", "encoding": "the file is not in UTF-8"}
    notes["thousands"] = "and 1234 may be written with this sign"
    notes["query"] = "any SELECT over the tables of the database"
    return {key: Noted(value, notes.get(key, "")) for key, value in source.items()}


def _identity(columns: Columns) -> Iterator[tuple[str, object]]:
    if columns.record:
        yield "record_id", Noted(columns.record.name, "different in every row")
    if columns.cluster:
        n_patients = columns.cluster.n_distinct
        yield "cluster", Noted(columns.cluster.name, f"rows of one patient; {n_patients} patients")
    if columns.split:
        use = evaluated_values(columns.split)
        names = columns.split.categories
        train = [v for v in names if str(v) not in use and "train" in str(v).lower()]
        yield "split", {"column": columns.split.name, "use": use, "train": train}
        return
    whose = columns.cluster or columns.record
    if (whose.n_distinct if whose else columns.n_rows) > 1:
        share = {"test_size": 0.3, "by": "cluster"}
        yield "split", Noted(share, "30 % of the patients are evaluated; the rest fits baselines")


def _task(columns: Columns) -> Iterator[tuple[str, object]]:
    if columns.choice:
        yield from _choice_task(columns, columns.choice)
    elif columns.outcome:
        yield from _outcome_task(columns.outcome)
    else:
        yield "question", f"{TODO}: the question that the model is asked, in one sentence"
        yield "label", Noted({"column": TODO}, "the column with the truth, or an SQL expression")
        yield "answers", {0: f"{TODO}: what 0 means", 1: f"{TODO}: what 1 means"}
    above = [
        "What does a deferral cost, if a wrong answer costs 1? 0.2 is assumed until you change it.",
        "Errors may cost different amounts: costs: {ill: {well: 1}, well: {ill: 0.5}}",
    ]
    yield "price", Noted(ASSUMED_PRICE, "a fifth of a wrong answer", above=above)
    above = []
    if columns.deferral:
        yield "deferral", {"column": columns.deferral.name}
    else:
        above += [
            "When should the model defer? A rule over the columns for each reason:",
            'deferral: {when: {no_value: "COLUMN is null"}}',
        ]
    above += [f"left out: {name} ({why})" for name, why in columns.out.items()]
    above += [
        f"left out: {one.name} (free text: does it name people, or the outcome? To show it, add it "
        "to features)"
        for one in columns.texts
    ]
    names = [one.name for one in columns.features]
    shown: list[object] = [Noted(n) for n in names]
    if not names and not columns.choice:
        shown = [Noted(f"{TODO}: the columns that the model sees")]
    yield "features", Noted(shown, "what the model sees", above=above)


def _choice_task(columns: Columns, choice: Choice) -> Iterator[tuple[str, object]]:
    yield "question", {"column": choice.question.name}
    label: JsonObject = {"column": choice.answer.name}
    if columns.label_form:
        label["as"] = columns.label_form
    yield "label", Noted(label, "the right option of each row")
    names = [one.name for one in choice.options]
    options: JsonObject = {"column": names[0]} if len(names) == 1 else {"columns": names}
    options |= {"shuffle": True} if columns.shuffle else {}
    yield "answers", Noted(options, "multiple choice: every row has options of its own")


def _outcome_task(outcome: Outcome) -> Iterator[tuple[str, object]]:
    column, said = outcome.column, outcome.name
    answers, positive = _answers(outcome)
    if outcome.is_guess:
        yield (
            "question",
            f"{TODO}: no outcome was found; name it under label and write the question",
        )
    else:
        question = f'What is "{column.name}" of this patient?'
        if positive is not None:
            if said.is_whole:
                question = said.question or f"Does this patient have {_event(outcome)}?"
            elif value_meaning(str(positive)) is not None:
                question = f'Is "{column.name}" true of this patient?'
        yield (
            "question",
            Noted(question, "in one sentence, as you would ask a colleague, and by when"),
        )
    given: JsonValue = outcome.sql or {"column": column.name}
    n_without = column.n_rows - column.n_given
    if isinstance(given, dict) and n_without:
        given["missing"] = "leave out"
    without = f"; {n_without} rows have no value" if not outcome.sql and n_without else ""
    yield "label", Noted(given, f"{outcome.why}{without}")
    shown = {value: Noted(words) for value, words in answers.items()}
    if positive is not None:
        yield "answers", shown
        yield "positive", Noted(positive, "the event, whose sensitivity is reported")
    elif len(answers) == 2:
        which = f"which is the event? Add a line, positive: {next(iter(answers))} or the other"
        yield "answers", Noted(shown, which)
    else:
        yield "answers", shown


def _event(outcome: Outcome) -> str:
    """Return what happens: in words where they are the whole name, else the name as it is."""
    label = outcome.name.label
    if not outcome.name.is_whole:
        return outcome.column.name
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def _answers(outcome: Outcome) -> tuple[dict[JsonValue, str], JsonValue]:
    """Return the values that are there with their words, and the event among two of them.

    Which of two is the event is said only where the values are yes and no, or name it.
    """
    said, column = outcome.name, outcome.column
    label = _event(outcome)
    words = {True: said.yes or label, False: said.no or f"no {label}"}
    if outcome.sql:
        return {0: words[False], 1: words[True]}, 1
    values = [_as_answer(value) for value in column.categories]
    meanings = {value: value_meaning(str(value)) for value in values}
    if len(values) != 2:
        return {v: v if isinstance(v, str) else f"{label} {v}" for v in values}, None
    if {*meanings.values()} == {True, False} and said.says_what_yes_means:
        event = next(v for v in values if meanings[v] is not said.event_is_no)
        return {value: words[bool(meanings[value])] for value in values}, event
    if all(isinstance(value, str) for value in values) and None in meanings.values():
        events = [value for value in values if is_event(str(value))]
        return {v: str(v) for v in values}, events[0] if len(events) == 1 else None
    return {value: f"{TODO}: what {value} means" for value in values}, None


def _as_answer(value: JsonValue) -> JsonValue:
    """Return a value of the outcome as the file writes it: yes, not true, and 1, not 1.0."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return int(value) if isinstance(value, float) and value == int(value) else value


def _features(columns: Columns) -> Iterator[tuple[str, object]]:
    for column in columns.features:
        yield column.name, _feature(column, columns.format)
    for column in columns.texts:
        yield (
            column.name,
            Noted({"label": measure_name(column.name).label, "text": True}, "not shown yet"),
        )
    outcome = columns.outcome
    if outcome and not outcome.sql and outcome.column.missing:
        missing: JsonObject = {"missing": list(outcome.column.missing)}
        yield outcome.column.name, Noted(missing, "the outcome is not known")


def _feature(column: ColumnSummary, table_format: NumberFormat) -> Noted:
    known = measure_name(column.name)
    parts: JsonObject = {"label": known.label}
    remarks: list[str] = []
    is_coded = column.is_number and column.has_few_values and column.n_distinct <= 6
    if column.is_number and not is_coded:
        remarks += _unit(column, parts)
        if column.kind == "VARCHAR" and column.format.decimal != table_format.decimal:
            parts["decimal"] = column.format.decimal
        if column.kind == "VARCHAR" and column.format.thousands != table_format.thousands:
            parts["thousands"] = column.format.thousands
            remarks.append("every value has three digits after this sign: read as thousands")
        if column.n_below:
            parts["below_detection"] = "half"
            remarks.append(
                f"{column.n_below} values below detection (<) count as half the limit; bound or "
                "missing are the other choices"
            )
        if column.n_above:
            parts["above_detection"] = "bound"
            remarks.append(f"{column.n_above} values above detection count as the limit")
        n_words = column.n_given - column.n_numbers
        if n_words and column.kind == "VARCHAR":
            remarks.append(f"{n_words} values are no numbers")
        if known.plausible:
            low, high = known.plausible
            remarks.append(f"add plausible: [{low:g}, {high:g}] to defer impossible values")
    elif is_coded and column.n_distinct > 1:
        codes = ", ".join(f"{value:g}: …" for value in column.shared if not isinstance(value, str))
        remarks += [f"codes? then add values: {{{codes}}}"] if codes else []
    elif column.shared:
        remarks.append("values: " + ", ".join(map(str, column.shared)))
        if n_rare := len(column.categories) - len(column.shared):
            remarks.append(f"{n_rare} rare values not named")
    if column.missing:
        parts["missing"] = list(column.missing)
        remarks.append("these mean: not measured")
    return Noted(parts, "; ".join(remarks))


def _unit(column: ColumnSummary, parts: JsonObject) -> Iterator[str]:
    """Add the unit that the name or the cells state, or that fits the values."""
    known = measure_name(column.name)
    unit = known.unit or column.unit
    if unit:
        parts["unit"] = column.unit or unit
        return
    fits = [
        str(one["unit"])
        for one in known.units
        if column.median is not None and one["usual"][0] <= column.median <= one["usual"][1]  # type: ignore[index]
    ]
    if len(fits) == 1:
        parts["unit"] = fits[0]
        yield "unit by the size of the values: check it"
    else:
        yield "unit?"
