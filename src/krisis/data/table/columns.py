"""What the columns of a table hold, counted by DuckDB: the content that `krisis init` goes by.

Only aggregates leave the table: counts, a median for the choice of a unit, and categories that
several rows share.
"""

# SQL is put together from quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from krisis.data.table.expressions import quoted, sql_text
from krisis.data.table.formats import ABOVE, BELOW, NumberFormat, is_code, looks_like_date
from krisis.data.table.source import SHARE_OF_NUMBERS, is_number
from krisis.data.table.vocabulary import has_role, vocabulary
from krisis.json_values import JsonValue

if TYPE_CHECKING:
    import duckdb

# A category is named only where this many rows share it; a column has categories up to this many.
FEWEST_ROWS, MOST_CATEGORIES = 5, 12
_MOST_LETTERS = 40
_LONG_TEXT = 40
_CELL_UNIT = r"^[^0-9]*[0-9][0-9.,' ]*?\s*([A-Za-zµ%°/\[\]][A-Za-z0-9µ%°/\[\]^]*)$"


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """What is known of one column: counts and categories, never a value of one patient."""

    name: str
    kind: str
    n_rows: int
    n_given: int = 0
    n_distinct: int = 0
    n_numbers: int = 0
    n_whole: int = 0
    n_below: int = 0
    n_above: int = 0
    n_dates: int = 0
    mean_length: float = 0.0
    median: float | None = None
    span: float | None = None
    unit: str = ""
    missing: tuple[JsonValue, ...] = ()
    # Value as it is most often written → rows; all of them where there are few.
    categories: dict[JsonValue, int] = field(default_factory=dict)
    is_list: bool = False
    format: NumberFormat = field(default_factory=NumberFormat)

    @property
    def is_number(self) -> bool:
        """Tell whether the values are numbers."""
        return is_number(self.kind) or 0 < self.n_given * SHARE_OF_NUMBERS <= self.n_numbers

    @property
    def is_date(self) -> bool:
        """Tell whether the values are dates or times."""
        typed = self.kind.startswith(("DATE", "TIMESTAMP", "TIME"))
        return typed or (0 < self.n_given == self.n_dates and not self.is_number)

    @property
    def is_text(self) -> bool:
        """Tell whether the values are free text: long, or called so and mostly different."""
        if self.kind != "VARCHAR" or self.is_number or self.is_date:
            return False
        many = self.n_distinct > max(MOST_CATEGORIES, 0.2 * self.n_given)
        return self.mean_length > _LONG_TEXT or (has_role(self.name, "text") and many)

    @property
    def is_unique(self) -> bool:
        """Tell whether every row has a value of its own."""
        return self.n_given == self.n_distinct == self.n_rows

    @property
    def has_few_values(self) -> bool:
        """Tell whether the values may be classes."""
        return 2 <= self.n_distinct <= MOST_CATEGORIES and len(self.categories) >= 2

    @property
    def shared(self) -> list[JsonValue]:
        """The categories that tell nobody apart: many rows share them, or they are codes."""
        return [value for value, n in self.categories.items() if _may_be_named(value, n)]


def _may_be_named(value: JsonValue, n_rows: int) -> bool:
    if isinstance(value, bool | int):
        return n_rows >= FEWEST_ROWS or abs(value) < 10
    return n_rows >= FEWEST_ROWS and len(str(value)) <= _MOST_LETTERS


@dataclass(frozen=True, slots=True)
class TableSummary:
    """What is known of a table."""

    n_rows: int
    columns: list[ColumnSummary]
    format: NumberFormat


def decimal_format(
    connection: duckdb.DuckDBPyConnection, rows: str, texts: Sequence[str]
) -> NumberFormat:
    """Return how most numbers that DuckDB read as text are written."""
    found = NumberFormat()
    n_most = 0
    for form in (
        NumberFormat(","),
        NumberFormat(",", "."),
        NumberFormat(",", " "),
        NumberFormat(".", ","),
        NumberFormat(".", "'"),
        NumberFormat(".", " "),
    ):
        read = replace(form, below="bound", above="bound")
        usual = NumberFormat(below="bound", above="bound")
        n_columns = 0
        for name in texts:
            column = quoted(name)
            n_given, n_read, n_usual = connection.execute(
                f"select count({column}), count({read.number(column)}), "
                f"count({usual.number(column)}) from {rows}"
            ).fetchall()[0]
            n_columns += n_given and n_read > n_usual and n_read >= 0.8 * n_given
        # The first that reads most columns: a plain comma rather than thousands as well.
        if n_columns > n_most:
            found, n_most = form, n_columns
    return found


@dataclass(frozen=True, slots=True)
class ColumnCounter:
    """Counts what is in the columns of one table."""

    connection: duckdb.DuckDBPyConnection
    rows: str
    n_rows: int
    format: NumberFormat

    def _ask(self, cells: str, tail: str = "") -> list[tuple[JsonValue, ...]]:
        return self.connection.execute(f"select {cells} from {self.rows} {tail}").fetchall()

    def summary(self, name: str, kind: str) -> ColumnSummary:
        """Return what is known of one column."""
        column = quoted(name)
        if kind == "JSON":  # SQLite keeps numbers and words in one column
            column, kind = f"json_extract_string({column}, '$')", "VARCHAR"
        known = vocabulary()["values"]
        words = ", ".join(map(sql_text, known["missing"]))
        text = f"trim({column}::varchar)"
        is_word = f"lower({text}) in ({words})"
        given = f"nullif({text}, '')" if kind == "VARCHAR" else column
        unit = self._cell_unit(text) if kind == "VARCHAR" else ""
        form = replace(self._own_format(column, kind), below="bound", above="bound", unit=unit)
        number = "null::double"
        if is_number(kind):
            number = f"{column}::double"
        elif kind == "VARCHAR":
            number = form.number(column)
        is_varchar = kind == "VARCHAR"
        if is_varchar and self._ask(f"count(*) filter ({is_code(column)})")[0][0]:
            number = "null::double"  # 07 is a code
        below = form.is_bound(column, BELOW) if is_varchar else "false"
        above = form.is_bound(column, ABOVE) if is_varchar else "false"
        dates = looks_like_date(column) if is_varchar else "false"
        (n_given, n_distinct, n_numbers, n_whole, n_below, n_above, n_dates, length, n_words) = (
            self._ask(
                f"count({given}), count(distinct lower({text})) filter ({given} is not null), "
                f"count({number}), count(*) filter ({number} = floor({number})), "
                f"count(*) filter ({below}), count(*) filter ({above}), count(*) filter ({dates}), "
                f"avg(length({text})), count(*) filter ({is_word})"
            )[0]
        )
        missing: list[JsonValue] = []
        # Among numbers, dates and answers a word such as NA is no value.
        others = n_given - n_words
        few_others = n_distinct <= MOST_CATEGORIES
        if (
            n_words
            and kind == "VARCHAR"
            and others
            and (max(n_numbers, n_dates) >= SHARE_OF_NUMBERS * others or few_others)
        ):
            found = self._ask(f"distinct {text}", f"where {is_word} order by 1")
            missing += [row[0] for row in found]
            n_given -= n_words
            n_distinct -= len({str(word).lower() for word in missing})
        codes = [code for code in known["codes"] if n_numbers]
        middle = span = None
        if codes:
            kept = f"isfinite({number}) and {number} not in ({', '.join(map(str, codes))})"
            middle, low, high = self._ask(
                f"median({number}) filter ({kept}), min({number}) filter ({kept}), "
                f"max({number}) filter ({kept})"
            )[0]
            n_kept = self._ask(f"count(distinct {number}) filter ({kept})")[0][0]
            held = {row[0] for row in self._ask(f"distinct {number}", f"where not ({kept})")}
            span = None if low is None else high - low
            for code in codes:
                is_out = low is not None and (low >= 0 if code < 0 else 2 * high < code)
                if float(code) in held and is_out and n_kept > 1:
                    missing.append(code)
        is_list = False
        if kind == "VARCHAR" and n_given:
            is_list = bool(self._ask(f"bool_and({text} like '[%]' or {text} like '{{%}}')")[0][0])
        return ColumnSummary(
            name=name,
            kind=kind,
            n_rows=self.n_rows,
            n_given=n_given,
            n_distinct=n_distinct,
            n_numbers=n_numbers,
            n_whole=n_whole,
            n_below=n_below,
            n_above=n_above,
            n_dates=n_dates,
            mean_length=float(length or 0),
            median=middle,
            span=span,
            unit=unit if n_numbers else "",
            missing=tuple(missing),
            categories=self._categories(column, text, missing) if few_others else {},
            format=replace(form, below=None, above=None, unit=""),
            is_list=is_list or kind.endswith("[]") or kind.startswith("STRUCT("),
        )

    def _own_format(self, column: str, kind: str) -> NumberFormat:
        """Return the format of the table, unless a column is plainly written in the usual one."""
        if kind != "VARCHAR" or self.format == NumberFormat():
            return self.format
        n_stated, n_usual = self._ask(
            f"count({self.format.number(column)}), count({NumberFormat().number(column)})"
        )[0]
        return NumberFormat() if n_usual > n_stated else self.format

    def _categories(
        self, column: str, text: str, missing: Sequence[JsonValue]
    ) -> dict[JsonValue, int]:
        """Count the categories, each in its most frequent spelling."""
        rows = self._ask(
            f"{column} as v, count(*) as n, lower({text}) as k",
            "where v is not null and k <> '' group by v, k order by n desc, v",
        )
        usual: dict[JsonValue, JsonValue] = {}
        counts: dict[JsonValue, int] = {}
        for value, n, key in rows:
            if value in missing or (isinstance(value, str) and value.strip() in missing):
                continue
            kept = usual.setdefault(key, value.strip() if isinstance(value, str) else value)
            counts[kept] = counts.get(kept, 0) + n
        return dict(sorted(counts.items(), key=lambda one: (str(type(one[0])), one[0])))

    def _cell_unit(self, text: str) -> str:
        """Return the unit that all numbers of a column are written with, as in 120 mmHg."""
        found = self._ask(
            f"regexp_extract({text}, {sql_text(_CELL_UNIT)}, 1) as u, count(*)",
            f"where {text} is not null and {text} <> '' group by 1 order by 2 desc limit 2",
        )
        if not found or not found[0][0] or len(str(found[0][0])) > 12:
            return ""
        total = self._ask(f"count(nullif({text}, ''))")[0][0]
        return str(found[0][0]) if found[0][1] >= 0.8 * total else ""
