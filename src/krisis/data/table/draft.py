"""`krisis init`: a first YAML file for a table, with what can be guessed and TODO for the rest.

Of the values only aggregates are written: rounded ranges, and the names of frequent categories.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from krisis.data.table.databases import new_connection
from krisis.data.table.expressions import quoted
from krisis.data.table.files import Reading, existing, reading_of, unreadable
from krisis.data.table.source import is_number
from krisis.data.table.suite_file import TODO
from krisis.errors import InvalidFile
from krisis.json_values import JsonValue

if TYPE_CHECKING:
    import duckdb

# A category is named only where so many rows share it, and a column has categories up to so many.
_FEWEST_ROWS, _MOST_CATEGORIES = 5, 12
_LONG_TEXT = 40
_MOST_LETTERS = 40
# Numbers of so few different values may be codes of categories.
_MOST_CODES = 6
_UNITS = {
    "mg_dl": "mg/dL", "mmol_l": "mmol/L", "umol_l": "umol/L", "nmol_l": "nmol/L", "g_dl": "g/dL",
    "g_l": "g/L", "mg_l": "mg/L", "mg_g": "mg/g", "ng_ml": "ng/mL", "pg_ml": "pg/mL",
    "iu_l": "IU/L", "u_l": "U/L", "mmol_mol": "mmol/mol", "meq_l": "meq/L", "kg_m2": "kg/m2",
    "ml_min": "mL/min", "mmhg": "mm[Hg]", "mm_hg": "mm[Hg]", "bpm": "/min", "kg": "kg", "cm": "cm",
    "pct": "%", "percent": "%", "years": "years", "yrs": "years", "days": "days",
}  # fmt: skip
_NAMES = {
    "record": r"(visit|record|row|encounter|case|sample|exam|stay|hadm)_?(id|nr|no|number)?|id",
    "cluster": r"(patient|subject|participant|person|pat|subj)_?(id|nr|no|number)?|mrn|pid|seqn",
    "split": r"split|part|partition|subset|fold|set",
    "label": r"label|target|outcome|diagnosis|class|y|disease|event|died|death|readmitted|positive",
    "deferral": r"should_(defer|abstain)|defer|deferral|needs_review|uncertain",
    "group": r"sex|gender|race|ethnicity|site|hospital|cent(er|re)|region|ward|age_(band|group)",
    "text": r"(.*_)?(note|notes|text|letter|report|comment|comments|narrative|history|summary)",
    "identity": (
        r"(.*_)?(name|surname|firstname|lastname|address|street|phone|telephone|email|e_mail|ssn"
        r"|nhs|dob|birth|birthdate|birth_date|date_of_birth|zip|zipcode|postcode|city)"
    ),
}
_MISSING_WORDS = ("?", "na", "n/a", "nan", "null", "none", "unknown", "missing", "not done", "-")
_MISSING_NUMBERS = (-9, -99, -999, -9999, 999, 9999, 99999)
_ALL_CODES = ", ".join(map(str, _MISSING_NUMBERS))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of one column: counts and rounded bounds, never a value of a patient."""

    name: str
    kind: str
    n_given: int
    n_distinct: int
    n_numbers: int
    mean_length: float
    low: float | None
    high: float | None
    missing: tuple[JsonValue, ...]
    categories: tuple[JsonValue, ...]
    n_rare: int

    def is_called(self, role: str) -> bool:
        """Say whether the name is one that columns of a role bear."""
        return re.fullmatch(_NAMES[role], re.sub(r"\W", "_", self.name.lower())) is not None

    @property
    def is_number(self) -> bool:
        return is_number(self.kind) or self.n_numbers > 0.9 * max(self.n_given, 1)

    @property
    def is_date(self) -> bool:
        return self.kind.startswith(("DATE", "TIMESTAMP", "TIME"))

    @property
    def is_text(self) -> bool:
        long = self.mean_length > _LONG_TEXT
        return self.kind == "VARCHAR" and not self.is_number and (long or self.is_called("text"))

    @property
    def is_identity(self) -> bool:
        """Say whether the values may tell who somebody is: by the name, or all different words."""
        words = self.kind == "VARCHAR" and not self.is_number and not self.is_text
        return self.is_called("identity") or (words and self.n_distinct > 0.5 * self.n_given > 5)


def draft(file: Path, out: Path) -> str:
    """Return the text of the YAML file for a table; ``out`` is where it will be written."""
    if file.is_dir():
        raise InvalidFile(
            f"{file} is a folder; name one table in it, or see the docs for FHIR sources"
        )
    if not file.is_file():
        raise InvalidFile(f"there is no file {file}; give the path of a table")
    connection = new_connection()
    reading = reading_of(connection, existing(file), [])
    looked = _Look(connection, _rows(connection, reading))
    n_rows = int(looked.ask("count(*)")[0][0])
    if not n_rows:
        raise InvalidFile(f"{file} holds no rows; give a table with rows")
    seen = [looked.at(name, kind) for name, kind in reading.columns.items()]
    return "\n".join(_lines(file, out, n_rows, seen)) + "\n"


def _rows(connection: duckdb.DuckDBPyConnection, reading: Reading) -> str:
    """Return what rows are selected from: Parquet stays in its file, other files are read once."""
    import duckdb

    if reading.form == "parquet":
        return reading.call
    try:
        connection.execute(f"create table krisis_rows as select * from {reading.call}")  # noqa: S608
    except duckdb.Error as error:
        raise unreadable(reading, error) from None
    return "krisis_rows"


def n_todo(text: str) -> int:
    """Count the lines of a draft that are still to be written."""
    return sum(TODO in line and not line.startswith("#") for line in text.splitlines())


@dataclass(frozen=True, slots=True)
class _Look:
    """Aggregates of the columns of one file."""

    connection: duckdb.DuckDBPyConnection
    rows: str

    def ask(self, cells: str, tail: str = "") -> list[tuple[JsonValue, ...]]:
        return self.connection.execute(f"select {cells} from {self.rows} {tail}").fetchall()  # noqa: S608

    def at(self, name: str, kind: str) -> _Seen:
        """Return what is known of one column."""
        column, text = quoted(name), f"lower(trim({quoted(name)}::varchar))"
        number = "null::double"
        if is_number(kind) or kind == "VARCHAR":
            number = f"try_cast({column} as double)"
        words = ", ".join(f"'{word}'" for word in _MISSING_WORDS)
        others = f"isfinite({number}) and {number} not in ({_ALL_CODES})"
        coded = ", ".join(f"count(*) filter ({number} = {code})" for code in _MISSING_NUMBERS)
        n_given, n_distinct, n_numbers, length, n_words, low, high, *n_coded = self.ask(
            f"count({column}), count(distinct {column}), count({number}), avg(length({text})), "
            f"count(*) filter ({text} in ({words})), min({number}) filter ({others}), "
            f"max({number}) filter ({others}), {coded}"
        )[0]
        missing: list[JsonValue] = []
        if n_numbers and n_words and kind == "VARCHAR":  # among numbers, a word is no value
            n_given -= n_words
            spelled = f"distinct trim({column})"
            rows = self.ask(spelled, f"where {text} in ({words}) order by 1")
            missing += [row[0] for row in rows]
        for code, n in zip(_MISSING_NUMBERS, n_coded, strict=True):
            if n and low is not None and (low >= 0 if code < 0 else 2 * high < code):
                missing.append(code)
            elif n:
                low, high = min(low or code, code), max(high or code, code)
        found = []
        if n_distinct <= _MOST_CATEGORIES:
            found = self.ask(
                f"{column}, count(*)", f"where {column} is not null group by 1 order by 1"
            )
        named = [v for v, n in found if _may_be_named(v, n)]
        return _Seen(
            *(name, kind, n_given, n_distinct, n_numbers, float(length or 0), low, high),
            *(tuple(missing), tuple(named), len(found) - len(named)),
        )


def _may_be_named(value: JsonValue, n_rows: int) -> bool:
    """Say whether a category tells nobody apart: many rows share it, or it is a one-digit code."""
    if isinstance(value, bool | int):
        return n_rows >= _FEWEST_ROWS or abs(value) < 10
    return n_rows >= _FEWEST_ROWS and len(str(value)) <= _MOST_LETTERS


def _lines(file: Path, out: Path, n_rows: int, seen: Sequence[_Seen]) -> Iterator[str]:
    source = Path(os.path.relpath(file.resolve(), out.resolve().parent)).as_posix()
    roles = _roles(seen, n_rows)
    yield f"# A draft by `krisis init` from {file.name}: {n_rows} rows, {len(seen)} columns."
    yield "# Guesses are live; correct what is wrong. What only you can know is marked TODO."
    yield f"# Then type: krisis data check {out.name}"
    yield "suite: table"
    yield f"name: {_scalar(file.stem)}"
    yield "version: 1"
    yield f"source: {_scalar(source)}"
    yield from _identity_lines(roles)
    yield from _task_lines(roles)
    yield "features:"
    for column in roles.features:
        yield from _feature_lines(column)
    for column in roles.texts:
        parts = {"label": _words(column.name), "text": True}
        yield f"  # {_scalar(column.name)}: {_scalar(parts)}"
    groups = _scalar([column.name for column in roles.groups])
    yield f"groups: {groups}  # results are also shown for each of these"
    yield "provenance:"
    yield f'  source: "{TODO}: where the rows come from"'
    yield "  # licence: …      consent: …      synthetic: true   (for invented patients)"


@dataclass(frozen=True, slots=True)
class _Roles:
    """Which column is taken for what; a column has one role at most, but groups may be shown."""

    record: _Seen | None
    cluster: _Seen | None
    split: _Seen | None
    label: _Seen | None
    deferral: _Seen | None
    groups: list[_Seen]
    texts: list[_Seen]
    left_out: list[_Seen]
    features: list[_Seen]


def _roles(seen: Sequence[_Seen], n_rows: int) -> _Roles:
    left = list(seen)

    def taken(role: str, *, fits: Callable[[_Seen], bool]) -> _Seen | None:
        found = next((one for one in left if one.is_called(role) and fits(one)), None)
        if found:
            left.remove(found)
        return found

    def few(one: _Seen) -> bool:
        return 2 <= one.n_distinct <= _MOST_CATEGORIES

    cluster = taken("cluster", fits=lambda one: one.n_given == n_rows)
    record = taken("record", fits=lambda one: one.n_given == one.n_distinct == n_rows)
    split = taken("split", fits=lambda one: bool(_test_values(one)))
    label = taken("label", fits=lambda one: few(one) and one.n_given == n_rows)
    deferral = taken("deferral", fits=few)
    groups = [one for one in left if one.is_called("group") and few(one)]
    texts = [one for one in left if one.is_text]
    out = [
        one
        for one in left
        if one not in texts
        and (one.is_identity or one.is_date or not one.n_given or one.is_called("record"))
    ]
    features = [one for one in left if one not in texts and one not in out]
    return _Roles(record, cluster, split, label, deferral, groups, texts, out, features)


def _test_values(column: _Seen) -> list[str]:
    names = [str(value) for value in column.categories]
    return [name for name in names if name.lower() in ("test", "testing", "holdout", "eval")]


def _identity_lines(roles: _Roles) -> Iterator[str]:
    record, cluster, split = roles.record, roles.cluster, roles.split
    if record:
        yield f"record_id: {_scalar(record.name)}  # different in every row"
    else:
        yield "# record_id: COLUMN   # one that is different in every row, if there is one"
    if cluster:
        yield f"cluster: {_scalar(cluster.name)}  # rows of one patient stay together"
    else:
        yield "# cluster: COLUMN     # the patient, if one patient can have several rows"
    if split:
        use = _test_values(split)
        train = [
            value
            for value in split.categories
            if str(value) not in use and "train" in str(value).lower()
        ]
        given = {"column": split.name, "use": use, "train": train}
        yield f"split: {_scalar(given)}"
    else:
        yield "split: {test_size: 0.3, by: cluster}  # the rest fits the baselines"


def _task_lines(roles: _Roles) -> Iterator[str]:
    label = roles.label
    yield "tasks:"
    yield "  main:"
    yield f'    question: "{TODO}: the question that the model is asked, in one sentence"'
    if label and len(label.categories) < 2:
        yield f"    label: {_scalar({'column': label.name})}"
        todo = f"{TODO}: the values of {label.name}, each with its meaning"
        yield f"    answers: {_scalar(todo)}"
    elif label:
        yield f"    label: {_scalar({'column': label.name})}"
        yield "    answers:"
        for value in label.categories:
            key = int(value) if isinstance(value, bool | float) and value == int(value) else value
            words = key if isinstance(key, str) else f"{TODO}: what {key} means, in words"
            yield f"      {_scalar(key)}: {_scalar(words)}"
        if label.n_rare:
            yield f"      # {label.n_rare} rare values of {label.name} are not named here"
    else:
        yield f'    label: {{column: {TODO}}}  # or an expression such as "hba1c >= 6.5"'
        yield f'    answers: {{0: "{TODO}: what 0 means", 1: "{TODO}: what 1 means"}}'
    named = [one for one in label.categories if isinstance(one, str)] if label else []
    if named:  # of 0 and 1, 1 is the positive one
        first = _scalar(named[0])
        yield f"    # positive: {first}  # the answer that is the disease: needed for sensitivity"
    yield "    # ordinal: true    # if the order of the answers means something"
    if roles.deferral:
        yield f"    deferral: {_scalar({'column': roles.deferral.name})}"
    else:
        yield "    # When should the model defer? A column, or rules with a reason each:"
        yield '    # deferral: {when: {no_value: "COLUMN is null"}}'
    yield "    features:  # what the model sees"
    for column in roles.features:
        yield f"      - {_scalar(column.name)}"
    for column in roles.texts:
        yield f"      # - {_scalar(column.name)}  # free text: does it hold names?"
    for column in roles.left_out:
        why = "a date" if column.is_date else "empty" if not column.n_given else "may identify"
        yield f"      # left out: {_scalar(column.name)} ({why})"


def _feature_lines(column: _Seen) -> Iterator[str]:
    words, unit = _label_and_unit(column.name)
    parts: dict[str, JsonValue] = {"label": words}
    if unit and column.is_number:
        parts["unit"] = unit
    is_coded = column.categories and column.n_distinct <= _MOST_CODES and column.is_number
    if column.is_number and column.low is not None and column.high is not None and not is_coded:
        parts["plausible"] = list(_bounds(column.low, column.high))
    if column.missing:
        parts["missing"] = list(column.missing)
    yield f"  {_scalar(column.name)}: {_scalar(parts)}{_remark(column, unit, bool(is_coded))}"


def _remark(column: _Seen, unit: str, is_coded: bool) -> str:
    remarks = []
    if is_coded:
        codes = ", ".join(f"{value:g}: …" for value in column.categories)
        remarks.append(f"codes? then add values: {{{codes}}}")
    elif column.is_number:
        remarks.append("the range holds all values: narrow it to what is possible")
        remarks += [] if unit else ["unit?"]
    elif column.categories:
        remarks.append("values: " + ", ".join(map(str, column.categories)))
    if column.n_rare:
        remarks.append(f"{column.n_rare} rare values not named")
    n_words = column.n_given - column.n_numbers
    if column.kind == "VARCHAR" and column.is_number and n_words and not column.missing:
        remarks.append(f"{n_words} values are not numbers: list them under missing")
    if column.missing:
        remarks.append("delete missing if these are values")
    return f"  # {'; '.join(remarks)}".replace("\n", " ") if remarks else ""


def _label_and_unit(name: str) -> tuple[str, str]:
    """Return the words of a column's name, and the unit that it ends in.

    >>> _label_and_unit("plasma_glucose_mg_dl")
    ('Plasma glucose', 'mg/dL')
    """
    plain = re.sub(r"\W+", "_", name).strip("_")
    for ending in sorted(_UNITS, key=len, reverse=True):
        if plain.lower().endswith(f"_{ending}"):
            return _words(plain[: -len(ending) - 1]), _UNITS[ending]
    return _words(plain) or name, ""


def _words(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _bounds(low: float, high: float) -> tuple[float, float]:
    """Return round numbers around all values, so that no value of a patient is shown.

    >>> _bounds(3.9, 14.2), _bounds(41, 88), _bounds(-2.5, 2.5), _bounds(0, 0)
    ((0, 20), (40, 90), (-3, 3), (0, 1))
    """
    size = max(abs(low), abs(high)) or 1.0
    step = 10.0 ** math.floor(math.log10(size))
    ends = [math.floor(low / step) * step, math.ceil(high / step) * step]
    if ends[0] == ends[1]:
        ends[1] += step
    first, last = (int(end) if end == int(end) else round(end, 12) for end in ends)
    return first, last


def _scalar(value: JsonValue) -> str:
    """Return a value as YAML writes it on one line."""
    text = yaml.safe_dump(
        value, sort_keys=False, default_flow_style=True, width=math.inf, allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...")
