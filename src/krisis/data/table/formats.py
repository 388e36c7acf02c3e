"""How hospitals write numbers and dates, as SQL that reads them.

Nothing is guessed: a text that fits no stated format is no number and no date. `krisis init` looks
at the values and states the formats in the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from krisis.data.table.expressions import sql_text

DecimalSign = Literal[".", ","]
ThousandsSign = Literal[".", ",", " ", "'"]
BelowDetection = Literal["half", "bound", "missing"]
AboveDetection = Literal["bound", "missing"]
DateOrder = Literal["day first", "month first", "year first"]

# Signs before a bound of detection, as in <0.5 and ≥ 90.
BELOW, ABOVE = r"(?:<=?|≤)\s*", r"(?:>=?|≥)\s*"
_CLOCK = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
# Two digits of a year are tried first: %Y would read 24 as the year 24.
_DAYS: dict[DateOrder, tuple[str, ...]] = {
    "day first": tuple(f"%d{s}%m{s}%{y}" for s in "./-" for y in "yY"),
    "month first": tuple(f"%m{s}%d{s}%{y}" for s in "/-" for y in "yY"),
    "year first": ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d"),
}
_NAMED_MONTHS = ("%d-%b-%y", "%d-%b-%Y", "%d %b %Y", "%d%b%Y")
LOOKS_LIKE_DATE = r"\d{1,4}[-./ ]?(\d{1,2}|[A-Za-z]{3})[-./ ]?\d{1,4}([ T]\d{1,2}:\d{2}.*)?"


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How the numbers of a column are written, and what is done with values beyond detection."""

    decimal: DecimalSign = "."
    thousands: ThousandsSign | None = None
    below: BelowDetection | None = None
    above: AboveDetection | None = None
    unit: str = ""

    @property
    def pattern(self) -> str:
        """The regular expression of a number."""
        whole = r"\d+"
        if self.thousands:
            # The grouped form first: of two that fit, the first is taken.
            whole = rf"(?:\d{{1,3}}(?:{re.escape(self.thousands)}\d{{3}})+|\d+)"
        point = re.escape(self.decimal)
        return rf"[+-]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"

    @property
    def unit_pattern(self) -> str:
        """The regular expression of the unit, which cells may repeat after the number."""
        written = {self.unit, re.sub(r"[\[\]]", "", self.unit)} - {""}
        return rf"(?:\s*(?i:{'|'.join(map(re.escape, sorted(written)))}))?" if written else ""

    def number(self, text: str) -> str:
        """Return SQL of the number that a text means; null where it is no number."""
        plain = f"trim({text})"
        if self.thousands == " ":  # a space that does not break a line is a space
            plain = f"regexp_replace({plain}, '[\u00a0\u202f]', ' ', 'g')"
        exact = f"(?:{self.pattern}){self.unit_pattern}"
        read = f"case when {_is(plain, exact)} then {self._value(plain)} end"
        signed = [
            (BELOW, {"half": "{} / 2", "bound": "{}"}.get(self.below or "")),
            (ABOVE, {"bound": "{}"}.get(self.above or "")),
        ]
        for sign, rule in signed:
            if rule:
                found = f"case when {_is(plain, sign + exact)} then {self._value(plain)} end"
                read = f"coalesce({read}, {rule.format(f'({found})')})"
        return read

    def _value(self, plain: str) -> str:
        digits = f"regexp_extract({plain}, {sql_text(self.pattern)})"
        if self.thousands:
            digits = f"replace({digits}, {sql_text(self.thousands)}, '')"
        if self.decimal != ".":
            digits = f"replace({digits}, {sql_text(self.decimal)}, '.')"
        return f"try_cast({digits} as double)"

    def dropped(self, text: str) -> str:
        """Return SQL of whether a text is a bound of detection that counts as missing."""
        signs = [BELOW] if self.below == "missing" else []
        signs += [ABOVE] if self.above == "missing" else []
        if not signs:
            return "false"
        pattern = f"(?:{'|'.join(signs)}){self.pattern}{self.unit_pattern}"
        return _is(f"trim({text})", pattern)

    def is_bound(self, text: str, sign: str) -> str:
        """Return SQL of whether a text is a number after a sign such as `BELOW`."""
        return _is(f"trim({text})", f"{sign}{self.pattern}{self.unit_pattern}")


def _is(text: str, pattern: str) -> str:
    return f"regexp_full_match({text}, {sql_text(pattern)})"


def is_grouped(text: str, sign: str) -> str:
    """Return SQL of whether a text is a number in groups of three digits, as in 250,000."""
    return _is(f"trim({text})", rf"[+-]?\d{{1,3}}(?:{re.escape(sign)}\d{{3}})+")


def is_code(text: str) -> str:
    """Return SQL of whether a text is digits that begin with 0, which no number does."""
    return _is(f"trim({text})", r"0\d+")


def looks_like_date(text: str) -> str:
    """Return SQL of whether a text may be a date: digits, separators and perhaps a clock."""
    is_date = _is(f"trim({text})", LOOKS_LIKE_DATE)
    return f"({is_date} and not {_is(f'trim({text})', r'[0-9.]*')} or {is_dotted_date(text)})"


def is_dotted_date(text: str) -> str:
    """Return SQL of whether a text is a date with dots, which is day first everywhere."""
    return _is(f"trim({text})", r"\d{1,2}\.\d{1,2}\.(\d{2}|\d{4})([ T]\d{1,2}:\d{2}.*)?")


def parsed_date(text: str, order: DateOrder) -> str:
    """Return SQL of the time that a text means when its parts come in an order; else null."""
    days = (*_DAYS[order], *_DAYS["year first"], *_NAMED_MONTHS)
    formats = ", ".join(sql_text(day + clock) for day in dict.fromkeys(days) for clock in _CLOCK)
    return f"try_strptime(trim({text}), [{formats}])"
