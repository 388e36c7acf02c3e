"""SQL of the user's own: read by DuckDB's parser, and refused unless it only computes.

An expression may use columns, constants, operators and functions that give the same value every
time. Everything that could reach another table, a file, a setting or a second statement is no part
of what is allowed, and the locked connection would refuse it as well.
"""

# SQL is put together from checked expressions, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from krisis.errors import InvalidFile, UnknownName
from krisis.json_values import JsonMapping, JsonObject, JsonValue

if TYPE_CHECKING:
    import duckdb

_COMPUTES = {
    *("COLUMN_REF", "CONSTANT", "FUNCTION", "COMPARISON", "CONJUNCTION", "OPERATOR", "CASE"),
    *("CAST", "TYPE", "BETWEEN", "COLLATE"),
}
_WHY_NOT = {
    "SUBQUERY": "it holds a subquery",
    "WINDOW": "it looks at other rows",
    "STAR": "it holds a star",
    "PARAMETER": "it has a parameter that nobody fills in",
    "LAMBDA": "it holds a function of its own",
}
_ROWS_FROM = ("unnest", "range", "generate_series")
_HIDDEN_SCHEMAS = ("information_schema", "pg_catalog")
_HIDDEN_TABLES = ("duckdb_", "sqlite_", "pragma_", "pg_")


def quoted(name: str) -> str:
    """Return a column as SQL names it."""
    return '"' + name.replace('"', '""') + '"'


def sql_text(value: object) -> str:
    """Return a text constant as SQL writes it."""
    return "'" + str(value).replace("'", "''") + "'"


def duckdb_says(error: Exception) -> str:
    """Return the first sentence of an error of DuckDB, without its kind and its drawing."""
    text = re.split(r"\n\s*\n|\nLINE |\n\nLINE ", str(error).strip())[0]
    text = re.sub(r"^(?:[A-Z]\w+ )+Error: ", "", " ".join(text.split()))
    return text.rstrip(".;! ")


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression: its SQL in brackets, the columns it reads, and its type."""

    sql: str
    columns: tuple[str, ...]
    kind: str


def checked_expression(
    connection: duckdb.DuckDBPyConnection,
    text: str,
    place: str,
    *,
    table: str,
    columns: Mapping[str, str],
) -> Expression:
    """Return an expression over columns of a table, or say at which place of the YAML it fails."""
    import duckdb

    if not text.strip():
        raise InvalidFile(f"{place}: the expression is empty; write one over the columns")
    node = _only_select(connection, f"select ({text}\n) from {table}", f"{place}: {text!r}")
    if len(node.get("select_list", ())) != 1 or text.count("(") < text.count(")"):
        raise InvalidFile(f"{place}: {text!r} is not one expression; write one value per row")
    read: dict[str, None] = {}
    for part in _parts(node["select_list"]):
        kind = str(part["class"])
        if kind not in _COMPUTES:
            why = _WHY_NOT.get(kind, f"it holds a {kind.lower()}")
            raise InvalidFile(f"{place}: {text!r} is refused: {why}; use columns and functions")
        if kind == "FUNCTION":
            _check_function(connection, part, f"{place}: {text!r}")
        if kind == "COLUMN_REF":
            read[_column(part, columns, f"{place}: {text!r}")] = None
    sql = f"({text}\n)"
    try:
        found = connection.execute(f"describe select {sql} as v from {table}").fetchall()
    except duckdb.Error as error:
        raise InvalidFile(f"{place}: {text!r} cannot be evaluated: {duckdb_says(error)}") from None
    return Expression(sql, tuple(read), str(found[0][1]))


def check_query(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Refuse a query unless it is one SELECT over the tables of its database."""
    place = "source.query"
    tree = _only_select(connection, text, place)
    for part in _nodes(tree):
        if part.get("sample"):
            raise InvalidFile(f"{place} draws a sample, which differs every time; name the rows")
        kind, name = part.get("type"), str(part.get("table_name", "")).lower()
        if kind == "BASE_TABLE" and (
            str(part.get("schema_name", "")).lower() in _HIDDEN_SCHEMAS
            or name.startswith(_HIDDEN_TABLES)
        ):
            raise InvalidFile(f"{place} reads {name!r}, a table of the system; name your tables")
        if kind == "TABLE_FUNCTION":
            function = str(part.get("function", {}).get("function_name", ""))
            if function.lower() not in _ROWS_FROM:
                raise InvalidFile(f"{place} reads from {function}(); name tables of the database")
        elif part.get("class") == "FUNCTION":
            _check_function(connection, part, place, aggregates=True)


def _only_select(connection: duckdb.DuckDBPyConnection, sql: str, place: str) -> JsonObject:
    """Return the tree of a single SELECT; nothing else can be written as a tree."""
    found: JsonObject = json.loads(
        connection.execute("select json_serialize_sql(?::varchar)", [sql]).fetchall()[0][0]
    )
    if found["error"]:
        says = str(found["error_message"]).strip().rstrip(".!")
        if "SELECT" in says:
            raise InvalidFile(f"{place} holds a statement that is no SELECT; it may only read")
        raise InvalidFile(f"{place} is not valid SQL: {says}")
    if len(found["statements"]) != 1:
        raise InvalidFile(f"{place} holds several statements; write one")
    node: JsonObject = found["statements"][0]["node"]
    return node


def _nodes(tree: JsonValue) -> Iterator[JsonMapping]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _parts(tree: JsonValue) -> Iterator[JsonMapping]:
    return (node for node in _nodes(tree) if "class" in node)


def _check_function(
    connection: duckdb.DuckDBPyConnection,
    part: JsonMapping,
    place: str,
    *,
    aggregates: bool = False,
) -> None:
    name = str(part["function_name"])
    found = connection.execute(
        "select distinct function_type, stability from duckdb_functions() where "
        "function_name = lower(?) and database_name = 'system'",
        [name],
    ).fetchall()
    kinds = {str(kind) for kind, _ in found}
    allowed = {"scalar", "macro", "aggregate"} if aggregates else {"scalar", "macro"}
    if not kinds:
        raise InvalidFile(
            f"{place} calls {name}(), which DuckDB does not have here; put a column name that has "
            "spaces or brackets in double quotes"
        )
    if not kinds & allowed:
        raise InvalidFile(
            f"{place} calls {name}(), which is no function of one row; use columns of the row"
        )
    if any(stability not in (None, "CONSISTENT") for _, stability in found) or _is_outside(name):
        raise InvalidFile(
            f"{place} calls {name}(), whose value does not follow from the row; leave it out"
        )


def _is_outside(name: str) -> bool:
    """Say whether a function tells of the session or the clock, though DuckDB calls it stable."""
    return bool(
        re.match(
            r"(?i)current_|pg_|inet_|has_|session_user|user$|version$|ago$|getenv|json_serialize",
            name,
        )
    )


def _column(part: JsonMapping, columns: Mapping[str, str], place: str) -> str:
    """Return the column that a reference names; DuckDB does not tell cases apart."""
    names = part["column_names"]
    by_name = {name.lower(): name for name in columns}
    for name in (names[0], names[-1]):
        if str(name).lower() in by_name and (len(names) == 1 or name is names[0]):
            return by_name[str(name).lower()]
    raise InvalidFile(f"{place}: {UnknownName.among('column', '.'.join(names), columns)}")
