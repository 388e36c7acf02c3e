"""Questions with options in columns of each row: which options there are, and which one is right.

The answers of such a task are letters in the order of the options. A label is a letter, the text
of an option, or a number; where its values fit more than one reading, the file must say which.
"""

# SQL is put together from checked expressions, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import get_args

from krisis.data.base import content_hash
from krisis.data.table.declaration import LETTERS, LabelForm, TaskSpec
from krisis.data.table.expressions import Expression, quoted, sql_text
from krisis.data.table.source import ROW, TABLE, Source, is_number
from krisis.errors import InvalidFile, UnknownName
from krisis.json_values import JsonValue

# Rows of which all have the right option in the same place make that place the answer.
LEAST_ROWS_IN_ONE_PLACE = 8
N_DRAWN = 2**31  # numbers drawn are below it, so that no product overflows


@dataclass(frozen=True, slots=True)
class Options:
    """SQL of the list of options, of the place of the right one from 1, and the letters in use."""

    columns: tuple[str, ...]
    listed: str
    position: str
    letters: str
    form: LabelForm


def drawn_number(number: str, seed: int, stream: int = 0) -> str:
    """Return SQL of a number that the seed draws for a row, the same on every machine.

    Three rounds of x ← (x ⊕ x/2^15) · a + b modulo 2^31, a odd: different numbers below 2^31 stay
    different. DuckDB's own hash may change its values with a version.
    """
    drawn = f"({number} & {N_DRAWN - 1})"
    for turn in range(3):
        factor, added = (
            int(content_hash([seed, stream, turn, what])[:15], 16) % N_DRAWN
            for what in ("factor", "added")
        )
        drawn = f"((xor({drawn}, {drawn} >> 15) * {factor | 1} + {added}) & {N_DRAWN - 1})"
    return drawn


def shuffled(options: list[str], seed: str) -> list[str]:
    """Return the options in an order drawn from a seed.

    >>> shuffled(["a", "b", "c"], "42:8")
    ['c', 'a', 'b']
    """
    order = sorted(range(len(options)), key=lambda i: hashlib.md5(f"{seed}:{i}".encode()).digest())  # noqa: S324
    return [options[i] for i in order]


def shuffled_position(options: Options, seed: str) -> str:
    """Return SQL of the place of the right option after `shuffled` with the seed and the row."""
    drawn = f"md5({sql_text(seed)} || {ROW} || ':' || {{}})"
    right = drawn.format(f"({options.position} - 1)")
    before = f"[({drawn.format('i')} <= {right})::integer for i in range(len({options.listed}))]"
    return f"list_sum({before})::integer"


def compiled_options(source: Source, spec: TaskSpec, label: Expression, place: str) -> Options:
    """Read the options of all rows, and find or check how the label names the right one."""
    columns = tuple(spec.answers.columns or [str(spec.answers.column)])
    for name in columns:
        if name not in source.columns:
            unknown = UnknownName.among("column", name, source.columns)
            raise InvalidFile(f"{source.name}: {place}: {unknown}")
    listed = _list_sql(source, columns, place)
    most = _check_options(source, columns, listed)
    forms = _readings(listed, label)
    form = spec.label.form or _only_form(source, forms, label, place)
    position = forms[form]
    _check_positions(source, position, label, form, may_lack=spec.label.missing is not None)
    if not spec.answers.shuffle:
        _refuse_one_place(source, position, place)
    return Options(columns, listed, position, LETTERS[:most], form)


def _list_sql(source: Source, columns: tuple[str, ...], place: str) -> str:
    """Return the options of a row as a list of texts, whatever the column holds."""
    if len(columns) > 1:
        cells = ", ".join(f"nullif(trim({quoted(name)}::varchar), '')" for name in columns)
        # Trailing gaps are options that the row does not have; a gap before another is a fault.
        return f"[{cells}][1:{_last_given(columns)}]"
    column, kind = quoted(columns[0]), source.columns[columns[0]]
    if kind.startswith("STRUCT(") and kind.endswith("[]") and "key" in kind and "value" in kind:
        return f"[trim(x.value::varchar) for x in {column}]"
    if kind.endswith("[]"):
        return f"[trim(x::varchar) for x in {column}]"
    if kind.startswith("STRUCT("):
        keys = source.query(f"select json_keys(to_json({column})) from {TABLE} limit 1")[0][0]
        _check_letters(source, keys, columns[0])
        cells = ", ".join(f"trim({column}[{sql_text(key)}]::varchar)" for key in keys)
        last = " ".join(
            f"when {column}[{sql_text(key)}] is not null then {number}"
            for number, key in reversed(list(enumerate(keys, 1)))
        )
        return f"[{cells}][1:(case {last} else 0 end)]"
    if kind in ("VARCHAR", "JSON"):
        return _json_list(source, columns[0])
    raise InvalidFile(
        f"{source.name}, column {columns[0]}: it holds {kind}, not a list of options ({place})"
    )


def _last_given(columns: tuple[str, ...]) -> str:
    whens = " ".join(
        f"when nullif(trim({quoted(name)}::varchar), '') is not null then {number}"
        for number, name in reversed(list(enumerate(columns, 1)))
    )
    return f"(case {whens} else 0 end)"


def _json_list(source: Source, name: str) -> str:
    column = f"{quoted(name)}::varchar"
    row, value = source.query(
        f"select min({ROW}), arg_min({column}, {ROW}) from {TABLE} where not coalesce(case when "
        f"json_valid({column}) then json_type({column}) in ('ARRAY', 'OBJECT') end, false)"
    )[0]
    if row is not None:
        raise InvalidFile(
            f"{source.place(row)}, column {name}: {str(value)[:60]!r} is no list of options; write "
            'JSON such as ["first", "second"]'
        )
    strange = source.query(
        f"select json_keys({column}) from {TABLE} where json_type({column}) = 'OBJECT' limit 1"
    )
    if strange:
        _check_letters(source, strange[0][0], name)
    in_order = f"list_sort(json_keys({column}))"
    of_object = f"[trim(json_extract_string({column}, '$.\"' || k || '\"')) for k in {in_order}]"
    of_list = f"[trim(x) for x in from_json({column}, '[\"VARCHAR\"]')]"
    return f"(case when json_type({column}) = 'OBJECT' then {of_object} else {of_list} end)"


def _check_letters(source: Source, keys: list[str], name: str) -> None:
    if [key.upper() for key in sorted(keys)] != list(LETTERS[: len(keys)]):
        raise InvalidFile(
            f"{source.name}, column {name}: the options are named {', '.join(keys)}; name them A, "
            "B, C …, or give a list"
        )


def _check_options(source: Source, columns: tuple[str, ...], listed: str) -> int:
    """Refuse rows with fewer than two options, gaps or equal options; return the most there are."""
    name = " or ".join(columns) if len(columns) == 1 else f"{columns[0]} to {columns[-1]}"
    faults = {
        "has fewer than two options": f"coalesce(len({listed}), 0) < 2",
        "has an option without text": f"list_contains([coalesce(x, '') for x in {listed}], '')",
        "has the same option twice": f"len(list_distinct({listed})) < len({listed})",
        f"has more than {len(LETTERS)} options": f"len({listed}) > {len(LETTERS)}",
    }
    for fault, sql in faults.items():
        row = source.query(f"select min({ROW}) from {TABLE} where {sql}")[0][0]
        if row is not None:
            raise InvalidFile(f"{source.place(row)}, column {name}: the question {fault}")
    return int(source.query(f"select max(len({listed})) from {TABLE}")[0][0])


def _readings(listed: str, label: Expression) -> dict[LabelForm, str]:
    """Return the place of the right option under every reading; null where it does not fit."""
    text = f"trim({label.sql}::varchar)"
    number = (
        f"try_cast({label.sql} as bigint)"
        if is_number(label.kind)
        else (f"case when regexp_full_match({text}, '[0-9]+') then try_cast({text} as bigint) end")
    )
    letter = f"case when regexp_full_match({text}, '[A-Za-z]') then ascii(upper({text})) - 64 end"
    places: dict[LabelForm, str] = {
        "letter": letter,
        "text": f"list_position({listed}, {text})",
        "index from 0": f"({number}) + 1",
        "index from 1": f"({number})",
    }
    return {
        form: f"(case when ({sql}) between 1 and len({listed}) then ({sql})::integer end)"
        for form, sql in places.items()
    }


def _only_form(
    source: Source, forms: dict[LabelForm, str], label: Expression, place: str
) -> LabelForm:
    """Return the reading that fits every row; two that differ must be decided by the user."""
    counted = ", ".join(f"count({sql})" for sql in forms.values())
    found = source.query(f"select count({label.sql}), {counted} from {TABLE}")[0]
    fits = [form for form, n in zip(forms, found[1:], strict=True) if n == found[0]]
    if len(fits) == 1:
        return fits[0]
    place = place.removesuffix(".answers") + ".label"
    if not fits:
        best = max(zip(found[1:], forms, strict=True))[1]
        row, value = source.query(
            f"select min({ROW}), arg_min({label.sql}, {ROW}) from {TABLE} "
            f"where {label.sql} is not null and {forms[best]} is null"
        )[0]
        raise InvalidFile(
            f"{source.place(row)}, {place}: {value!r} is no letter, number or text of an option "
            f"of its row (most rows fit {best!r})"
        )
    same = all(
        not source.query(
            f"select 1 from {TABLE} where {forms[fits[0]]} is distinct from {forms[other]} limit 1"
        )
        for other in fits[1:]
    )
    if same:
        return fits[0]
    raise InvalidFile(
        f"{source.name}: {place} can be read as {' or as '.join(map(repr, fits))}, and these "
        f"differ; say which, as in {{column: …, as: {fits[0]}}}"
    )


def _check_positions(
    source: Source, position: str, label: Expression, form: LabelForm, *, may_lack: bool
) -> None:
    assert form in get_args(LabelForm)
    row, value = _first(source, position, label)
    if row is not None and not (value is None and may_lack):
        what = "the label is missing" if value is None else f"the label {value!r} is no {form}"
        raise InvalidFile(f"{source.place(row)}: {what} of an option of its row; correct it")


def _first(source: Source, position: str, label: Expression) -> tuple[JsonValue, ...]:
    return source.query(
        f"select min({ROW}), arg_min({label.sql}, {ROW}) from {TABLE} "
        f"where {position} is null and {label.sql} is not null"
    )[0]


def _refuse_one_place(source: Source, position: str, place: str) -> None:
    """Refuse a file whose right option always stands in the same place."""
    low, high, n_rows = source.query(
        f"select min({position}), max({position}), count({position}) from {TABLE}"
    )[0]
    if low is not None and low == high and n_rows >= LEAST_ROWS_IN_ONE_PLACE:
        raise InvalidFile(
            f"{source.name}: the right option is number {low} in every row, so its place gives the "
            f"answer away; write shuffle: true under {place}"
        )
