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
from krisis.data.table.formats import (
    ABOVE,
    BELOW,
    NumberFormat,
    ThousandsSign,
    is_code,
    is_grouped,
    looks_like_date,
)
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
    # How many digits all values have, where they are nothing else and at least six; else 0.
    n_digits: int = 0
    median: float | None = None
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
    def looks_like_id(self) -> bool:
        """Tell whether the values are digits of one length, too many for categories."""
        return bool(self.n_digits) and self.n_distinct > MOST_CATEGORIES

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
            n_given, n_read, n_usual, n_grouped = connection.execute(
                f"select count({column}), count({read.number(column)}), "
                f"count({usual.number(column)}), "
                f"count(*) filter ({is_grouped(column, form.decimal)}) from {rows}"
            ).fetchall()[0]
            # 250,000 in every row is a number in groups, not one with three decimals.
            is_other = n_grouped == n_read
            n_columns += n_read > n_usual and n_read >= 0.8 * n_given and not is_other
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
        is_varchar = kind == "VARCHAR"
        text = f"trim({column}::varchar)"
        given = f"nullif({text}, '')" if is_varchar else column
        unit = self._cell_unit(text) if is_varchar else ""
        form = replace(self._own_format(column, kind), below="bound", above="bound", unit=unit)
        number = "null::double"
        if is_number(kind):
            number = f"{column}::double"
        elif is_varchar and not self._ask(f"count(*) filter ({is_code(column)})")[0][0]:
            number = form.number(column)  # but 07 is a code
        cells = {
            "n_given": f"count({given})",
            "n_distinct": f"count(distinct lower({text})) filter ({given} is not null)",
            "n_numbers": f"count({number})",
            "n_whole": f"count(*) filter ({number} = floor({number}))",
            "mean_length": f"coalesce(avg(length({text})), 0)",
            "n_digits": f"case when bool_and(regexp_full_match({text}, '\\d{{6,}}')) and "
            f"min(length({text})) = max(length({text})) then max(length({text})) else 0 end",
        }
        if is_varchar:
            cells |= {
                "n_below": f"count(*) filter ({form.is_bound(column, BELOW)})",
                "n_above": f"count(*) filter ({form.is_bound(column, ABOVE)})",
                "n_dates": f"count(*) filter ({looks_like_date(column)})",
                "is_list": f"coalesce(bool_and({text} like '[%]' or {text} like '{{%}}'), false)",
            }
        counts = dict(zip(cells, self._ask(", ".join(cells.values()))[0], strict=True))
        counts.setdefault("is_list", kind.endswith("[]") or kind.startswith("STRUCT("))
        has_few = counts["n_distinct"] <= MOST_CATEGORIES
        missing: list[JsonValue] = []
        if is_varchar:
            missing = self._missing_words(text, counts)
        median, codes = self._median_and_codes(number) if counts["n_numbers"] else (None, [])
        missing += codes
        return ColumnSummary(
            name=name,
            kind=kind,
            n_rows=self.n_rows,
            **counts,
            median=median,
            unit=unit if counts["n_numbers"] else "",
            missing=tuple(missing),
            categories=self._categories(column, text, missing) if has_few else {},
            format=replace(form, below=None, above=None, unit=""),
        )

    def _missing_words(self, text: str, counts: dict[str, JsonValue]) -> list[JsonValue]:
        """Return words such as NA, which are no values, and take them out of the counts.

        That holds among numbers, dates and few categories; in a free text they are words.
        """
        words = ", ".join(map(sql_text, vocabulary()["values"]["missing"]))
        rows = self._ask(
            f"{text}, count(*)", f"where lower({text}) in ({words}) group by 1 order by 1"
        )
        others = counts["n_given"] - sum(n for _, n in rows)
        mostly = max(counts["n_numbers"], counts["n_dates"]) >= SHARE_OF_NUMBERS * others
        if not others or not (mostly or counts["n_distinct"] <= MOST_CATEGORIES):
            return []
        counts["n_given"] = others
        counts["n_distinct"] -= len({str(word).lower() for word, _ in rows})
        return [word for word, _ in rows]

    def _median_and_codes(self, number: str) -> tuple[float | None, list[JsonValue]]:
        """Return the median, and codes such as -9 and 999 that are far from all other numbers."""
        codes = vocabulary()["values"]["codes"]
        is_kept = f"isfinite({number}) and {number} not in ({', '.join(map(str, codes))})"
        median, low, high, n_kept = self._ask(
            f"median({number}) filter ({is_kept}), min({number}) filter ({is_kept}), "
            f"max({number}) filter ({is_kept}), count(distinct {number}) filter ({is_kept})"
        )[0]
        if n_kept < 2:
            return median, []
        held = {row[0] for row in self._ask(f"distinct {number}", f"where not ({is_kept})")}
        far = [code for code in codes if (low >= 0 if code < 0 else 2 * high < code)]
        return median, [code for code in far if float(code) in held]

    def _own_format(self, column: str, kind: str) -> NumberFormat:
        """Return how a column is written: as the table, in groups of three, or as usual."""
        if kind != "VARCHAR" or self.format == NumberFormat():
            return self.format
        sign: ThousandsSign = "." if self.format.decimal == "," else ","
        n_stated, n_usual, n_grouped = self._ask(
            f"count({self.format.number(column)}), count({NumberFormat().number(column)}), "
            f"count(*) filter ({is_grouped(column, sign)})"
        )[0]
        if n_grouped and n_grouped == n_usual:  # 250.000 where others write 12,5
            return replace(self.format, thousands=sign)
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
