"""`krisis data check`: everything that is wrong with the file of a table suite, at once.

Problems are listed by severity, each with the line of the file to change. Only columns that a task
uses are looked at: what is wrong with the others changes no result.
"""

# SQL is put together from quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from krisis.data.base import PatientRecord, SuiteConfig
from krisis.data.table.cases import TaskTable
from krisis.data.table.declaration import Declaration, checked_declaration, declaration_faults
from krisis.data.table.expressions import quoted
from krisis.data.table.questions import Question
from krisis.data.table.sheet import sheet_of_suite, sheet_of_task
from krisis.data.table.source import TABLE, Source, open_source
from krisis.data.table.suite import declared_rule, readable_rows
from krisis.data.table.suite_file import TODO, open_todos, suite_content
from krisis.data.table.vocabulary import has_role
from krisis.errors import InvalidFile, UnknownName
from krisis.json_values import JsonObject
from krisis.yaml_values import key_lines

Severity = Literal["error", "leak", "to do", "warning", "note"]
# With one of these a suite cannot be run.
FATAL: tuple[Severity, ...] = ("error", "leak")
# More missing values than this share of the rows are worth a warning.
# Of so many cases the ids are looked at.
_N_IDS = 500
_MOSTLY_MISSING = 0.5
# Six to ten digits, as hospitals number patients, also with letters such as MRN in front.
_NUMBER = re.compile(r"(?:MRN|PID|PAT|HN)?[-_ #:]?(\d{6,10})", re.IGNORECASE)
_FEWEST = 5
_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to change or to know, and the line of the file where that is done."""

    severity: Severity
    sentence: str
    line: int | None = None
    column: str | None = None


@dataclass(slots=True)
class CheckedSuite:
    """What a check found, and the data sheet as far as the file can be read."""

    sheet: JsonObject = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    tables: dict[str, tuple[TaskTable, PatientRecord | None]] = field(default_factory=dict)

    @property
    def fatal(self) -> list[Problem]:
        """The problems with which the suite cannot be run."""
        return [problem for problem in self.problems if problem.severity in FATAL]


def check_suite(path: Path, config: SuiteConfig, data_path: Path | None = None) -> CheckedSuite:
    """Check the file of a suite and its rows."""
    content = suite_content(path)
    return _Check(path, content, path.read_text(encoding="utf-8-sig")).run(config, data_path)


def check_draft(path: Path, content: JsonObject, text: str, data_path: Path | None) -> CheckedSuite:
    """Check the text of a file that is not written yet."""
    return _Check(path, content, text).run(SuiteConfig(), data_path)


class _Check:
    """One check: what it found so far, and where the keys of the file are."""

    def __init__(self, path: Path, content: JsonObject, text: str) -> None:
        self.path, self.content = path, content
        self.lines = key_lines(text)
        self.found = CheckedSuite()

    def run(self, config: SuiteConfig, data_path: Path | None) -> CheckedSuite:
        todos = list(open_todos(self.content))
        for place, words in todos:
            sentence = f"{place} is still to be written ({words})"
            self._add("to do", [sentence], key=place)
        faults = declaration_faults(self.content)
        self._add("error", (f"{self.path}: {fault}" for fault in faults))
        if not faults:
            with readable_rows(self.path):
                try:
                    self._rows(config, data_path, {place for place, _ in todos})
                except InvalidFile as error:
                    self._add("error", [str(error)])
        order = get_args(Severity)
        self.found.problems.sort(key=lambda one: (order.index(one.severity), one.line or 0))
        return self.found

    def _rows(self, config: SuiteConfig, data_path: Path | None, todos: set[str]) -> None:
        declaration = checked_declaration(self.content, str(self.path))
        if config.task and config.task not in declaration.tasks:
            raise UnknownName.among("task", config.task, declaration.tasks)
        source = open_source(declaration, self.path.parent, data_path)
        names = [config.task] if config.task else list(declaration.tasks)
        columns: JsonObject = {}
        tasks: JsonObject = {}
        for name in names:
            # Words may be open; without its columns a task cannot be looked at.
            if any(t.startswith((f"tasks.{name}.label", f"tasks.{name}.features")) for t in todos):
                continue
            if table := self._table(declaration, name, source, config):
                tasks[name] = sheet_of_task(table, columns)
                self._add("leak", tasks[name]["leaks"], task=name)
                self._add("warning", _warnings(tasks[name], columns, table), task=name)
                first = table.records("use", 1)
                self.found.tables[name] = (table, first[0] if first else None)
        self._add("warning", _hospital_numbers(declaration, source))
        self._add("note", source.merged)
        self.found.sheet = sheet_of_suite(self.path, declaration, source, columns, tasks)

    def _table(
        self, declaration: Declaration, name: str, source: Source, config: SuiteConfig
    ) -> TaskTable | None:
        faults = Question.faults(declaration, name, source)
        table = None
        if not faults:
            try:
                table = TaskTable(declaration, name, source, config)
                assert table.task  # its answers and `positive` fit each other
                declared_rule(table)
                for reader in table.spec.readers:
                    table.readings(reader)
            except InvalidFile as error:
                faults, table = [str(error)], None
        self._add("error", faults, task=name)
        return table

    def _add(
        self, severity: Severity, sentences: Iterable[str], *, key: str = "", task: str = ""
    ) -> None:
        known = {(one.severity, one.sentence) for one in self.found.problems}
        for sentence in dict.fromkeys(sentences):
            if (severity, sentence) not in known:
                column = self._column(sentence, task)
                line = self.lines.get(key) or self._line(severity, sentence, task, column)
                self.found.problems.append(Problem(severity, sentence, line, column))

    def _column(self, sentence: str, task: str) -> str | None:
        """Return the column that a sentence is about: the longest of the names that fit."""
        tasks = self.content.get("tasks")
        spec = tasks.get(task) if isinstance(tasks, dict) else None
        names = spec.get("features") if isinstance(spec, dict) else None
        named = [n for n in names or () if f"column {n}: " in sentence]
        return max(named, key=len, default=None)

    def _line(self, severity: str, sentence: str, task: str, column: str | None) -> int | None:
        """Return the line to change: of the shown column, or of the key that is named."""
        shown = f"tasks.{task}.features.{column}"
        if severity == "leak" and shown in self.lines:
            return self.lines[shown]
        words = re.sub(r"\.(\d+)\b", r"", sentence)
        keys = sorted((k for k in self.lines if _names(words, k)), key=len, reverse=True)
        for key in keys:
            if unknown := re.search(r"unknown (?:key|column) '(.*?)'", sentence):
                return self.lines.get(f"{key}.{unknown[1]}", self.lines[key])
            if "." in key:
                return self.lines[key]
        if unknown := re.search(r"unknown key '(.*?)'", sentence):
            return self.lines.get(unknown[1])
        if column is not None:
            return self.lines.get(f"features.{column}") or self.lines.get(shown)
        return next((self.lines[key] for key in keys), None)


def _names(sentence: str, key: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(key)}(?![\w])", sentence) is not None


def _warnings(task: JsonObject, columns: JsonObject, table: TaskTable) -> Iterator[str]:
    """Say what does not forbid a run but weakens it."""
    place = table.place
    if task["saturated"]:
        best = max(task["shortcuts"], key=lambda one: one["accuracy"] or 0.0)
        what = f" ({best['rule']})" if best["rule"] else ""
        yield (
            f"{place}: {best['what']}{what} is right in {best['accuracy']:.0%} of cases, so that "
            "accuracy says little about a model; is it known before the outcome?"
        )
    absent = [str(a) for a in table.spec.answers.fixed if not task["classes"].get(str(a))]
    if absent and task["n_evaluated"]:
        yield f"{place}.answers: no case to evaluate has the answer {', '.join(absent)}"
    if len(table.spec.answers.fixed) == 2 and table.task.positive is None:
        yield f"{place}.answers: which is the disease or event? Write positive, for sensitivity"
    for name in table.spec.features:
        n_missing = columns[name]["n_missing"]
        if n_missing > _MOSTLY_MISSING * table.source.n_rows:
            share = n_missing / table.source.n_rows
            yield f"column {name}: {share:.0%} of the rows have no value"
        if columns[name]["n_implausible"]:
            low, high = columns[name]["plausible"]
            n_outside = columns[name]["n_implausible"]
            yield (
                f"column {name}: {n_outside} values are outside features.{name}.plausible, "
                f"{low:g} to {high:g}"
            )


def _hospital_numbers(declaration: Declaration, source: Source) -> Iterator[str]:
    """Name the columns of ids by which patients can be found again; runs keep these ids."""
    if declaration.synthetic:
        return
    for key, name in (("record_id", declaration.record_id), ("cluster", declaration.cluster)):
        if name is None or name not in source.columns:
            continue
        sql = f"select {quoted(name)}::varchar from {TABLE} limit {_N_IDS}"
        values = [value for (value,) in source.query(sql)]
        if has_role(name, "hospital_number") or look_like_record_numbers(values):
            yield (
                f"{key}: the column {name!r} looks like medical record numbers, and runs keep "
                "them; reports and exports show case and patient numbers unless --with-ids is "
                "given. Better give the patients study numbers"
            )


def look_like_record_numbers(names: Iterable[object]) -> bool:
    """Say whether ids look like medical record numbers: long numbers that do not just count.

    Numbers that zeros make equally long are those of a register, even if they count.

    >>> look_like_record_numbers(["4471203", "0098127", "5510934", "7782310", "1200453"])
    True
    >>> look_like_record_numbers(str(100_000 + i) for i in range(50))  # a running number
    False
    >>> look_like_record_numbers(f"{i:07d}" for i in range(50))
    True
    >>> look_like_record_numbers(f"case-{i}" for i in range(50))
    False
    """
    listed = list({str(name).strip() for name in names})
    found = [match for name in listed if (match := _NUMBER.fullmatch(name))]
    if len(listed) < _FEWEST or len(found) < _SHARE * len(listed):
        return False
    digits = [match[1] for match in found]
    if len(set(map(len, digits))) == 1 and any(one.startswith("0") for one in digits):
        return True
    numbers = [int(one) for one in digits]
    return max(numbers) - min(numbers) >= 2 * len(numbers)


def problem_lines(problems: Sequence[Problem], path: Path) -> Iterator[str]:
    """Return the problems as lines of text."""
    counts: Mapping[str, int] = {
        severity: sum(one.severity == severity for one in problems)
        for severity in get_args(Severity)
    }
    listed = ", ".join(f"{n} {what}{_plural(what, n)}" for what, n in counts.items() if n)
    yield f"Problems   {listed or 'none'}"
    for one in problems:
        where = f"{path.name} line {one.line}: " if one.line else ""
        yield f"  {one.severity.upper():8} {where}{one.sentence}"
    if counts["to do"]:
        yield f"  `krisis run` refuses the file until nothing in it begins with {TODO}."


def _plural(what: str, n: int) -> str:
    return "" if n == 1 or what == "to do" else "s"
