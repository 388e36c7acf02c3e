"""What may be repeated of what a provider or a model said: no value of a patient in any spelling.

An error message often echoes the request, in other quotes, in capitals, as JSON or without its
spaces. So not the spelling is compared but the words and numbers: whatever the request shows and
its template does not is a patient's, and is blanked wherever it appears.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol
from urllib.parse import unquote

from krisis.backends.prompt import REDACTED
from krisis.backends.secrets import BLANK, Secret, recognisable_keys
from krisis.data.base import PatientRecord
from krisis.errors import BackendError

_TOKEN = re.compile(r"\d+(?:\s?[.,]\s?\d+)*(?:e[+-]?\d+)?|[^\W\d_]+", re.IGNORECASE)
_ESCAPED = re.compile(r"\\+u([0-9a-fA-F]{4})|\\+[nrt]|</?\w{1,20}/?>")
_BLANKS = re.compile(rf"{BLANK}(?:[\W_]*{BLANK})+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")
_CODE = re.compile(r"[A-Za-z][A-Za-z_.-]{1,60}")
_MAX_CHARACTERS = 300


class Shown(Protocol):
    """A request: what was sent, and the same text without any value."""

    @property
    def shown(self) -> str:
        """Return the messages that show the patient's values."""

    @property
    def template(self) -> str:
        """Return the whole prompt with every value redacted."""


def provider_words(error: Exception, request: Shown, key: Secret) -> str:
    """Return the provider's code and its first sentence, free of keys and of patient values."""
    message, codes = _said(error)
    # Before the values, which would cut it into parts, and after, for what they were escaped in.
    message = without_values(key.removed_from_error(message), request)
    text = " ".join(key.removed_from_error(message).split())
    sentence = _SENTENCE_END.split(text, maxsplit=1)[0]
    if len(sentence) > _MAX_CHARACTERS:
        sentence = sentence[: _MAX_CHARACTERS - 1] + BLANK
    named = [code for code in codes if code.lower() not in sentence.lower()]
    known = without_values(key.removed_from(" ".join(named)), request)
    return f"{sentence} ({known})" if known else sentence


def scrub(error: BackendError, shown: Shown) -> None:
    """Take known keys and the patient's values out of the words of a user's own backend."""
    text = str(error)
    for key in recognisable_keys():
        text = key.removed_from_error(text)
    error.args = (without_values(text, shown, only_telling=True),)


@dataclass(frozen=True, slots=True)
class ShownRecords:
    """Records as a request would show them, for backends that build none."""

    records: Sequence[PatientRecord]

    @property
    def shown(self) -> str:
        """Return names and values of their findings, and the text that they share."""
        lines = [f"{n}: {value}" for one in self.records for n, value in one.features.items()]
        return "\n".join([*lines, *{one.context for one in self.records}])

    @property
    def template(self) -> str:
        """Return the names alone."""
        return "\n".join(f"{n}: {REDACTED}" for one in self.records for n in one.features)


def without_values(text: str, request: Shown, *, only_telling: bool = False) -> str:
    """Blank every word and number of the patient; ``only_telling`` leaves lone single digits.

    >>> from types import SimpleNamespace
    >>> sent = SimpleNamespace(shown="- creatinine: 2.4 mg/dL", template="- creatinine: [redacted]")
    >>> without_values("bad value CREATININE=2,40 in field 2", sent)
    'bad value CREATININE=… in field 2'
    """
    values = _Values(request)
    given, text = text, _unescaped(text)
    kept, done, before = [], 0, ""
    for match in _TOKEN.finditer(text):
        token = match[0].casefold()
        is_lone_digit = only_telling and token.isdigit() and len(token) == 1
        if values.hold_pair(before, token) or (values.hold(token) and not is_lone_digit):
            kept += [text[done : match.start()], BLANK]
            done = match.end()
        before = token
    return _BLANKS.sub(BLANK, "".join([*kept, text[done:]])) if kept else given


class _Values:
    """The words and numbers that a request shows and its template does not."""

    def __init__(self, request: Shown) -> None:
        shown, common = _tokens(request.shown), _tokens(request.template)
        self._common = frozenset(common)
        self._words = {word for word in shown if word.isalpha()} - self._common
        self._numbers = {n for token in shown if token[0].isdigit() for n in _read(token)}
        # "yes" may be a word of the question too; after the name of a finding it is a value.
        self._pairs = set(pairwise(shown)) - set(pairwise(common))
        labels = [line for line in request.template.splitlines() if REDACTED in line]
        # Words that were run together: a value inside, or the name of a finding and more.
        self._inside = [word for word in self._words if len(word) >= 4]
        self._inside += [word for word in set(_tokens("\n".join(labels))) if len(word) >= 5]

    def hold(self, token: str) -> bool:
        """Say whether a word or number of a message is the patient's."""
        if token[0].isdigit():
            parts = {float(part) for part in re.findall(r"\d+", token)}
            return not self._numbers.isdisjoint(_read(token) | parts)
        if token in self._common or len(token) == 1:
            return False
        inside = (word in token and len(token) > len(word) + 1 for word in self._inside)
        return token in self._words or any(inside)

    def hold_pair(self, before: str, token: str) -> bool:
        """Say whether two words follow each other as they do only where values are shown."""
        return (before, token) in self._pairs


def _tokens(text: str) -> list[str]:
    return [token.casefold() for token in _TOKEN.findall(_unescaped(text))]


def _read(number: str) -> set[float]:
    """Return the value of a number; a comma is a decimal point or parts the thousands."""
    number, _, exponent = number.lower().partition("e")
    if exponent:
        return {float(f"{value!r}e{exponent}") for value in _read(number)}
    *before, last = re.split(r"\s?[.,]\s?", number)
    decimal = float(f"{''.join(before)}.{last}") if before else float(last)
    return {decimal, float("".join([*before, last]))} if "," in number else {decimal}


def _unescaped(text: str) -> str:
    """Return a text as it reads: without tags and the escapes of JSON, HTML and addresses."""
    plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", text)
    return html.unescape(unquote(plain, errors="replace"))


def _said(error: Exception) -> tuple[str, list[str]]:
    """Return the message of an error and its codes, from the body where the SDK keeps it."""
    body = getattr(error, "body", None) or getattr(error, "details", None)
    body = body.get("error", body) if isinstance(body, Mapping) else {}
    body = body if isinstance(body, Mapping) else {}
    stated = body.get("message") or getattr(error, "message", None) or error
    names = (body.get(name) for name in ("code", "status", "type", "param"))
    codes = [name for name in names if isinstance(name, str) and _CODE.fullmatch(name)]
    return str(stated) or type(error).__name__, list(dict.fromkeys(codes))
