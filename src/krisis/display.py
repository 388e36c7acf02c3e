"""How objects show themselves in a shell or a notebook: short, escaped, without a script."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import MISSING, Field, fields
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from krisis.pages.document import Document

MOST_LETTERS = 60
MOST_ENTRIES = 12
MOST_LINES = 100
# Controls, zero-width and direction-changing characters, soft hyphens, tags, lone surrogates.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


class Bounds(Protocol):
    """What has two ends."""

    @property
    def low(self) -> float:
        """The lower end."""

    @property
    def high(self) -> float:
        """The upper end."""


def spelled_out(text: str) -> str:
    """Return text in which hidden characters stand as their code points.

    >>> spelled_out("zero\\u200bwidth")
    'zero[U+200B]width'
    """
    return HIDDEN.sub(lambda match: f"[U+{ord(match.group()):04X}]", text)


def cut(text: str, most: int = MOST_LETTERS) -> str:
    """Return text in one line of at most so many letters, hidden characters spelled out.

    >>> cut("many words", 6)
    'many …'
    """
    line = spelled_out(" ".join(text[: 4 * most].split()))
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def listed(parts: Collection[str]) -> str:
    """Return the first parts with commas between them, and how many are left out.

    >>> listed([str(number) for number in range(15)])
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … 3 more'
    """
    n_more = len(parts) - MOST_ENTRIES
    return ", ".join([*islice(parts, MOST_ENTRIES), *([f"… {n_more} more"] if n_more > 0 else [])])


def format_value(value: float) -> str:
    """Write a figure to four decimals, and an undefined one as such.

    >>> format_value(0.5), format_value(math.nan)
    ('0.5000', 'undefined')
    """
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def format_interval(interval: Bounds | None) -> str:
    """Write an interval as its bounds, or nothing where there is none."""
    if interval is None or math.isnan(interval.low):
        return ""
    return f"[{interval.low:.4f}, {interval.high:.4f}]"


class Documented:
    """A result that shows itself as its document, also in a notebook.

    ``builder`` names the function that writes it, as ``module:name``: no stage imports what shows
    it. ``brief_builder`` writes no more than the shortest form shows, where that takes less time.
    """

    __slots__ = ()
    builder: ClassVar[str]
    brief_builder: ClassVar[str] = ""

    def document(self, *, brief: bool = False) -> Document:
        """Return all there is to show of the result, or what its shortest form shows."""
        builder = (self.brief_builder if brief else "") or self.builder
        module, _, name = builder.partition(":")
        found: Document = getattr(import_module(module), name)(self)
        return found

    def written(self, medium: str) -> str:
        """Return all there is to show as text: table, csv, markdown, latex or html."""
        text: str = import_module("krisis.pages.media").written(self.document(), medium)
        return text

    def __str__(self) -> str:
        """Return what the command prints."""
        shown: str = import_module("krisis.pages.terminal").terminal_text(
            self.document(brief=True), verbose=False
        )
        return shown

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        shown: str = import_module("krisis.pages.html").html_fragment(self.document())
        return shown


class ShortRepr:
    """A dataclass that names only the fields that were given, and cuts long values.

    Rows hold prompts and replies: printed whole, a list of them would fill a notebook.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        given = {one.name: getattr(self, one.name) for one in fields(self) if _is_given(self, one)}  # type: ignore[arg-type]
        shown = ", ".join(f"{name}={cut(repr(value))}" for name, value in given.items())
        return f"{type(self).__name__}({shown})"


def _is_given(thing: object, one: Field[object]) -> bool:
    default = one.default_factory() if one.default_factory is not MISSING else one.default
    value = getattr(thing, one.name)
    return one.repr and (default is MISSING or (value is not default and bool(value != default)))


def escaped(text: object) -> str:
    """Return text for HTML, in which nothing is markup and hidden characters are spelled out.

    >>> escaped("<b>\\u200b")
    '&lt;b&gt;[U+200B]'
    """
    return html.escape(spelled_out(str(text)))


def html_line(text: object, *, strong: bool = False) -> str:
    """Return a paragraph."""
    return f"<p><strong>{escaped(text)}</strong></p>" if strong else f"<p>{escaped(text)}</p>"


def html_table(
    head: Sequence[str], lines: Collection[Sequence[object]], *, caption: str = ""
) -> str:
    """Return a table in the colours of the page around it; of very many lines the first ones."""

    def line(cells: Iterable[object], name: str) -> str:
        found = "".join(f'<{name} style="text-align:left">{escaped(c)}</{name}>' for c in cells)
        return f"<tr>{found}</tr>"

    title = f"<caption>{escaped(caption)}</caption>" if caption else ""
    body = "".join(line(cells, "td") for cells in islice(lines, MOST_LINES))
    n_more = len(lines) - MOST_LINES
    more = html_line(f"… {n_more:,} more") if n_more > 0 else ""
    return f"<table>{title}<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>{more}"


_WIDTH, _HEIGHT = 420, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 408, 12, 220


def html_chart(points: Sequence[tuple[float, float]], *, x: str, y: str, title: str) -> str:
    """Draw a curve over 0 to 1 as SVG, in the colour of the text around it.

    It needs no charting library, so that every notebook has it; reports have the better charts.
    """
    highest = max(height for _, height in points)
    limits = (0.05, 0.1, 0.2, 0.5, 1.0, highest)
    limit = next(one for one in limits if highest <= one)
    across = {share: _LEFT + share * (_RIGHT - _LEFT) for share in (0.0, 0.25, 0.5, 0.75, 1.0)}
    path = " ".join(
        f"{_LEFT + share * (_RIGHT - _LEFT):.1f},{_BOTTOM - height / limit * (_BOTTOM - _TOP):.1f}"
        for share, height in points
    )
    parts = [
        f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="currentColor"/>',
        *(_words(place, _BOTTOM + 16, f"{share:g}", "middle") for share, place in across.items()),
        _words(_LEFT - 6, _BOTTOM + 4, "0", "end"),
        _words(_LEFT - 6, (_TOP + _BOTTOM) / 2 + 4, f"{limit / 2:g}", "end"),
        _words(_LEFT - 6, _TOP + 4, f"{limit:g}", "end"),
        _words((_LEFT + _RIGHT) / 2, _HEIGHT - 6, x, "middle"),
        _words(_LEFT + 8, _TOP + 8, y, "start"),
        f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="2"/>',
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escaped(title)}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'style="max-width:100%;font:12px sans-serif">{"".join(parts)}</svg>'
    )


def _words(x: float, y: float, text: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" fill="currentColor" text-anchor="{anchor}"'
    return f"<text {place}>{escaped(text)}</text>"
