"""Text that a model wrote, made safe to look at: escaped, and with nothing hidden in it."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

# Controls, zero-width and direction-changing characters, soft hyphens, tags, lone surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def spelled_out(text: str) -> str:
    """Return text in which hidden characters stand as their code points.

    >>> spelled_out("zero\\u200bwidth")
    'zero[U+200B]width'
    """
    return _HIDDEN.sub(lambda match: f"[U+{ord(match.group()):04X}]", text)


def visible(text: object) -> Markup:
    """Return text as escaped HTML in which hidden characters show as their code points."""
    from markupsafe import Markup, escape

    raw = str(text)
    pieces: list[Markup] = []
    end = 0
    for match in _HIDDEN.finditer(raw):
        name = unicodedata.name(match.group(), "control character").lower()
        code = f"{ord(match.group()):04X}"
        mark = Markup('<span class="hidden-character" title="{}">U+{}</span>').format(name, code)
        pieces += [escape(raw[end : match.start()]), mark]
        end = match.end()
    return Markup("").join([*pieces, escape(raw[end:])])
