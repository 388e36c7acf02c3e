"""How objects show themselves in a shell or a notebook: short, escaped, without a script."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Collection
from dataclasses import MISSING, Field, fields
from enum import Enum
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from krisis.pages.document import Document

MOST_LETTERS = 60
MOST_ENTRIES = 12
# Controls, zero-width and direction-changing characters, soft hyphens, tags, lone surrogates.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


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


class TextOrJson(Enum):
    """The formats of a command that prints text or JSON."""

    TABLE = "table"
    JSON = "json"


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
