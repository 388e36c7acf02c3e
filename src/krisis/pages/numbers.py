"""How figures are written, in every medium: the one place that rounds.

A figure has two decimals at least where it is between 0 and 1, a percentage one below 10 and above
90; an interval adds decimals where its half-width needs them and never takes any away. No figure is
rounded across the bound that it is judged by. JSON and CSV keep every digit and do not come here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from krisis.statistics.intervals import Interval

MINUS = "\u2212"
UNDEFINED = "undefined"
_MOST_DECIMALS = 6
_EXACT = 9  # decimals in which sums and differences of shares are exact
_SAME = 0.5 * 10**-_EXACT
_DECIMALS_OF_A_FIGURE = 3  # of one without an interval
_LAST_OF_A_THRESHOLD = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, its interval where it has one, and the bound that it is judged by."""

    value: float
    low: float = math.nan
    high: float = math.nan
    level: float = 0.95
    bound: float | None = None

    @classmethod
    def of(cls, value: float, interval: Interval | None, *, bound: float | None = None) -> Estimate:
        """Return a figure with an interval of the statistics."""
        if interval is None or not interval.defined:
            return cls(value, bound=bound)
        return cls(value, interval.low, interval.high, interval.level, bound)

    def negated(self) -> Estimate:
        """Return the figure with the other sign."""
        bound = None if self.bound is None else -self.bound
        return Estimate(-self.value, -self.high, -self.low, self.level, bound)

    def moved(self, to: Callable[[float], float]) -> Estimate:
        """Return the figure, its interval and its bound on another, increasing scale."""
        bound = None if self.bound is None else to(self.bound)
        return Estimate(to(self.value), to(self.low), to(self.high), self.level, bound)

    @property
    def has_interval(self) -> bool:
        """Tell whether the interval has ends, and is not that of a constant."""
        is_known = math.isfinite(self.low) and math.isfinite(self.high)
        return is_known and max(self.high - self.value, self.value - self.low) > _SAME


def count(n: int) -> str:
    """Write a count.

    >>> count(9105)
    '9,105'
    """
    return f"{n:,}"


def counted(n: int, noun: str) -> str:
    """Write a count of things.

    >>> counted(1, "case"), counted(1200, "case")
    ('1 case', '1,200 cases')
    """
    return f"{count(n)} {noun}{'' if n == 1 else 's'}"


def share(estimate: Estimate, *, interval: bool = True, decimals: int = 0) -> str:
    """Write a share as a percentage.

    >>> share(Estimate(0.7013, 0.656, 0.7469)), share(Estimate(0.0504, bound=0.05))
    ('70 % (66–75)', '5.04 %')
    """
    if math.isnan(estimate.value):
        return UNDEFINED
    value, ends = _rounded(
        estimate, scale=100, least=max(decimals, least_decimals("share", estimate))
    )
    return f"{value} % ({ends})" if ends and interval else f"{value} %"


def difference(estimate: Estimate, *, interval: bool = True, decimals: int = 0) -> str:
    """Write the difference of two shares in percentage points, with its sign.

    >>> difference(Estimate(-0.021, -0.053, 0.011))
    '−2.1 points (−5.3 to 1.1)'
    """
    if math.isnan(estimate.value):
        return UNDEFINED
    text = points(_judged_by_0(estimate), interval=interval, decimals=decimals)
    is_nothing = not text.partition(" ")[0].strip("0.")
    return text if estimate.value <= 0 or is_nothing else f"+{text}"


def points(estimate: Estimate, *, interval: bool = True, decimals: int = 0) -> str:
    """Write a number of percentage points, without a plus.

    >>> points(Estimate(0.139, 0.063, 0.214))
    '14 points (6–21)'
    """
    if math.isnan(estimate.value):
        return UNDEFINED
    least = max(decimals, least_decimals("points", estimate))
    value, ends = _rounded(estimate, scale=100, least=least)
    unit = "point" if value.lstrip(MINUS) == "1" else "points"
    return f"{value} {unit} ({ends})" if ends and interval else f"{value} {unit}"


def figure(estimate: Estimate, *, interval: bool = True, decimals: int = 0) -> str:
    """Write a figure that is not a share, such as an area or a cost.

    >>> figure(Estimate(0.0551, 0.0238, 0.0994)), figure(Estimate(0.8336)), figure(Estimate(775.2))
    ('0.06 (0.02–0.10)', '0.834', '775')
    """
    if math.isnan(estimate.value):
        return UNDEFINED
    least = max(decimals, least_decimals("figure", estimate))
    value, ends = _rounded(estimate, scale=1, least=least)
    return f"{value} ({ends})" if ends and interval else value


def change(estimate: Estimate, *, interval: bool = True, decimals: int = 0) -> str:
    """Write the difference of two figures, with its sign.

    >>> change(Estimate(0.0551, 0.0238, 0.0994)), change(Estimate(0.26, 0.03, 0.5))
    ('+0.06 (0.02–0.10)', '+0.26 (0.03–0.50)')
    """
    text = figure(_judged_by_0(estimate), interval=interval, decimals=decimals)
    is_nothing = not text.partition(" ")[0].strip("0.,")
    return f"+{text}" if estimate.value > 0 and not is_nothing else text


def threshold(value: float) -> str:
    """Write a threshold so that whoever types it accepts the same answers: cut, never rounded up.

    >>> threshold(0.8336129), threshold(0.9), threshold(0.99999999)
    ('0.833612', '0.90', '0.999999')
    """
    cut = (
        Decimal(repr(float(value))).quantize(_LAST_OF_A_THRESHOLD, rounding=ROUND_FLOOR).normalize()
    )
    return max(f"{cut:f}", f"{cut:.2f}", key=len)


def p_value(p: float) -> str:
    """Write a p-value to two significant digits.

    >>> p_value(0.0312), p_value(0.00004), p_value(math.nan)
    ('0.031', '< 0.001', 'undefined')
    """
    if math.isnan(p):
        return UNDEFINED
    if p < 0.001:
        return "< 0.001"
    return f"{p:.2f}" if p >= 0.095 else f"{p:.3f}"


def p_sentence(p: float) -> str:
    """Write a p-value as a sentence has it.

    >>> p_sentence(0.0312), p_sentence(0.00004)
    ('p = 0.031', 'p < 0.001')
    """
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def given(value: float) -> str:
    """Write a number as it was given: a risk, a margin, a price.

    >>> given(0.05), given(12000)
    ('0.05', '12,000')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def whole(value: float) -> int | float:
    """Return a sum of losses that is a count as one, so that it is written without decimals.

    >>> whole(12.0), whole(0.5)
    (12, 0.5)
    """
    return int(value) if float(value).is_integer() else value


def score_name(variant: str) -> str:
    """Name the score that answers are ranked by.

    >>> score_name("stated"), score_name("signals.margin")
    ('stated confidence', 'signals.margin')
    """
    return "stated confidence" if variant == "stated" else variant


def level(value: float) -> str:
    """Write a share that was chosen and not measured: a confidence level, a wished risk.

    >>> level(0.95), level(0.999), level(1 - 0.1)
    ('95 %', '99.9 %', '90 %')
    """
    return f"{100 * value:g} %"


def dollars(cost: float | None) -> str:
    """Write what calls cost.

    >>> dollars(0.0123), dollars(1234.5), dollars(0.0), dollars(None)
    ('$0.0123', '$1,234.50', '$0.00', '–')
    """
    if cost is None:
        return "–"
    return f"${decimal(cost, 4 if 0 < cost < 1 else 2)}"


def megabytes(n_bytes: int) -> str:
    """Write the size of a file.

    >>> megabytes(386_404_992), megabytes(24_576)
    ('386.4 MB', '0.02 MB')
    """
    size = n_bytes / 1e6
    return f"{size:,.1f} MB" if size >= 0.1 else f"{size:.1g} MB"


def factor(value: float) -> str:
    """Write a factor of evidence; beyond a million its size says nothing more.

    >>> factor(0.0312), factor(1234.5), factor(2e9)
    ('0.031', '1,234', 'over a million')
    """
    if value >= 1e6:
        return "over a million"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def stored(value: object) -> str:
    """Write a value as a case or a call holds it, short enough to be read.

    >>> stored(78.9412), stored(0.95), stored(12345), stored(True), stored(None), stored(["a", "b"])
    ('78.94', '0.95', '12,345', 'yes', '–', 'a, b')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        short = f"{value:.4g}" if abs(value) < 1000 else f"{value:,.1f}"
        return short.replace("-", MINUS) if "e" not in short else short
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def decimal(value: float, decimals: int) -> str:
    """Write a number with so many decimals, a true minus sign and none before a zero.

    >>> decimal(-1234.56, 1), decimal(-0.001, 2)
    ('−1,234.6', '0.00')
    """
    # Half is rounded away from 0, as people do it; Python would round 86.5 to 86 and 87.5 to 88.
    last = Decimal(1).scaleb(-decimals)
    rounded = (
        Decimal(repr(float(value))).quantize(last, ROUND_HALF_UP) if math.isfinite(value) else value
    )
    text = f"{rounded:,.{decimals}f}"
    return (text if text.strip("-0.,") else text.lstrip("-")).replace("-", MINUS)


def least_decimals(kind: str, estimate: Estimate) -> int:
    """Return how many decimals a figure of a kind has at least, by its size and its interval.

    >>> least_decimals("figure", Estimate(0.4, 0.1, 0.7)), least_decimals("share", Estimate(0.5))
    (2, 0)
    """
    value = estimate.value
    if math.isnan(value):
        return 0
    if kind == "share":
        is_near_an_end = _SAME < value < 0.1 or 0.9 < value < 1 - _SAME
        least, scale = 1 if is_near_an_end else 0, 100
    elif kind in ("points", "difference"):
        least, scale = 1 if abs(value) < 0.1 else 0, 100
    else:
        size = abs(value)
        alone = _DECIMALS_OF_A_FIGURE if not estimate.has_interval else 2
        least, scale = alone if size <= 1 else 1 if size < 100 else 0, 1
    half_width = scale * (estimate.high - estimate.low) / 2
    if estimate.has_interval and half_width > 0:
        least = max(least, min(-math.floor(math.log10(half_width)), _MOST_DECIMALS))
    bound = estimate.bound
    if bound is None and kind in ("difference", "change"):
        bound = 0.0  # what a difference is judged by where no other is named
    values = (value, estimate.low, estimate.high) if estimate.has_interval else (value,)
    # Inside an interval that holds the bound, the side on which the figure is decides nothing.
    is_open = bound is not None and estimate.low < bound < estimate.high
    judged = values[1:] if is_open else values
    while least < _MOST_DECIMALS and any(_crosses(one, bound, scale, least) for one in judged):
        least += 1
    return least


def _rounded(estimate: Estimate, *, scale: float, least: int) -> tuple[str, str]:
    """Return the figure and its interval with so many decimals."""
    values = (estimate.value, *([estimate.low, estimate.high] if estimate.has_interval else []))
    decimals = least
    # Equal numbers differ in their last bits by how they were computed; all end in one text.
    value, *limits = (decimal(round(scale * one, _EXACT), decimals) for one in values)
    # A dash between negative numbers would be read as a sign.
    return value, (" to " if estimate.low < 0 else "–").join(limits)


def _judged_by_0(estimate: Estimate) -> Estimate:
    """Return a difference with the bound that it is judged by where no other is named."""
    return estimate if estimate.bound is not None else replace(estimate, bound=0.0)


def _crosses(value: float, bound: float | None, scale: float, decimals: int) -> bool:
    """Tell whether rounding moves a value onto or over its bound."""
    if bound is None or math.isclose(value, bound, abs_tol=_SAME) or not math.isfinite(value):
        return False
    rounded, limit = round(scale * value, decimals), round(scale * bound, _MOST_DECIMALS)
    return rounded == limit or (rounded > limit) != (value > bound)
