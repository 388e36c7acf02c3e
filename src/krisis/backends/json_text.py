"""JSON as models write it: strict reading, and the repair of fences, prose and commas only."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"[ \t\r\n]*("
    r"""(?:"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")"""
    r"|(?:-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![\w.])"
    r"|(?:[{}\[\]:,])"
    r")"
)
_NOT_SPACE = re.compile(r"\S")
_OPENS, _CLOSES = frozenset("{["), frozenset("}]")
_BETWEEN = frozenset("{[:,")


class NotStrictJson(ValueError):
    """A text is not JSON, or is JSON that says two things or a number that is none."""


class Token(NamedTuple):
    """One piece of JSON with its place in the text."""

    text: str
    start: int
    end: int


def loads_strict(text: str) -> Any:
    """Read JSON; refuse repeated keys, infinite numbers, half characters and endless nesting."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_repeats,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
        if "\\u" in text:  # half of a surrogate pair could never be written to a file
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise NotStrictJson(str(error)) from None
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise NotStrictJson(f"the key {repeated[:40]!r} stands twice in one object")
    return members


def _no_constant(name: str) -> Any:
    raise NotStrictJson(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NotStrictJson(f"{digits[:20]} is too large for a number")
    return number


@dataclass(frozen=True, slots=True)
class ObjectInText:
    """An object found in a text: its tokens, and what they say or why they say nothing."""

    tokens: tuple[Token, ...]
    value: dict[str, Any] | None
    problem: str = ""


def objects_in(text: str, key: str) -> tuple[list[ObjectInText], bool]:
    """Return the outermost objects in a text that name a key, and whether the last one breaks off.

    An object names a key where it, or a text spelled like it, stands in it; others are not read.
    Commas that are missing, or left over at the end, are set right. Nothing else is: every other
    token of the result is a token of the text.
    """
    found: list[ObjectInText] = []
    named = f'"{key}"'
    # Looked up once: a search per object would make a long text of openings quadratic.
    last_break = max(text.rfind("\n", 0, len(text.rstrip())), text.rfind("}"))
    position = text.find("{")
    while position >= 0:
        pieces, complete = _one_object(text, position)
        if complete:
            if text.find(named, position, pieces[-1].end()) >= 0:
                tokens = tuple(Token(piece[1], piece.start(1), piece.end()) for piece in pieces)
                if any(token.text == named for token in tokens):
                    found.append(_read(tokens))
        elif _reaches_end(text, pieces[-1].end(), last_break):
            return found, True
        position = text.find("{", pieces[-1].end())
    return found, False


def _read(tokens: tuple[Token, ...]) -> ObjectInText:
    try:
        return ObjectInText(tokens, loads_strict(_with_commas(tokens)))
    except NotStrictJson as error:
        return ObjectInText(tokens, None, str(error))


def _one_object(text: str, start: int) -> tuple[list[re.Match[str]], bool]:
    pieces: list[re.Match[str]] = []
    depth = 0
    position = start
    while match := _TOKEN.match(text, position):
        pieces.append(match)
        position = match.end()
        last = text[position - 1]  # only a bracket ends in one: a text ends in its quote
        if last in _OPENS:
            depth += 1
        elif last in _CLOSES:
            depth -= 1
            if depth == 0:
                break
    return pieces, bool(pieces) and depth == 0


def _reaches_end(text: str, end: int, last_break: int) -> bool:
    """Say whether the text stops while it is still JSON, if need be inside its last token.

    ``last_break`` is the place of the last line end or closing brace, which no last token spans.
    """
    rest = _NOT_SPACE.search(text, end)
    return rest is None or (rest[0] in '"-0123456789tfn' and last_break < rest.start())


def _with_commas(tokens: Sequence[Token]) -> str:
    """Spell an object with the commas that are missing and without those before a closing bracket.

    A comma anywhere else stays, for the parser to refuse: a value may have been lost beside it.
    """
    texts = [token.text for token in tokens]
    pieces = texts[:1]
    for before, here, after in zip(texts, texts[1:], [*texts[2:], ""], strict=False):
        ends_value = before not in _BETWEEN
        if here == "," and after in _CLOSES and ends_value:
            continue
        if ends_value and here not in _CLOSES and here not in ":,":
            pieces.append(",")
        pieces.append(here)
    return "".join(pieces)
