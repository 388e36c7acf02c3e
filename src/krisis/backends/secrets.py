"""Keys: held in a type that never prints, found in the environment or in a `.env` file."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from dotenv import dotenv_values

from krisis.errors import MissingKey

BLANK = "…"
# A key as error messages quote it: its head, stars or dots, its tail.
# Its head begins where a word does, else a long word would be read once for each of its letters.
_MASKED = re.compile(r"((?<![\w-])[\w-]++|)(?:\*{2,}|\.{3,}|…)([\w-]*)")
_TELLING = 3
# What an error puts in place of the middle of a key: signs, crosses, or a word in brackets.
_MASK = re.compile(
    r"(?:[*#•·●∗×]+|\.{2,}|…|[xX]{3,}|_{3,}|-{3,}|[<\[(](?i:redacted|masked|hidden)[>\])])+"
)
_BEFORE, _AFTER = re.compile(r"[\w-]*\Z"), re.compile(r"[\w-]*")
_OF_KEYS = re.compile(r"key|token|secret|credential|password|bearer|authori[sz]", re.IGNORECASE)
_WORD = re.compile(r"[\w-]{2,}")
_KEY_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?$")
# A part of this many characters is recognised wherever it appears.
_PART = 8
# What a key may be split by, or its characters be written as, without becoming another.
_DISGUISE = re.compile(
    r"(?<!\\)\\+u00([0-9a-fA-F]{2})|%([0-9a-fA-F]{2})|(?<!\\)\\+[nrt]"
    r"|[\s+/_\u00ad\u200b-\u200d\u2060-]"
)


class Secret:
    """A text that shows itself only when asked to by name.

    >>> Secret("sk-123")
    Secret('…')
    >>> f"{Secret('sk-123')}"
    '…'
    """

    __slots__ = ("_hints", "_parts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        forms = ["".join(plain for plain, _, _ in _undisguised(form)) for form in _forms(text)]
        self._parts = _slices(forms, _PART)
        self._hints = _slices(forms, 4) if self._parts else frozenset()

    def reveal(self) -> str:
        """Return the text itself, for the client that must send it."""
        return self._text

    @property
    def is_recognisable(self) -> bool:
        """Say whether it is long enough that its parts cannot appear by chance."""
        return bool(self._parts)

    def removed_from(self, text: str) -> str:
        """Return a text without the secret, or any part of it of 8 characters or more.

        Case, spaces, hyphens, line breaks and escapes inside it make no difference; base64 and
        hexadecimal are recognised. Where it is quoted with stars, 3 of its characters are enough.
        """
        if not self._text:
            return text
        if len(self._text) > _TELLING:
            text = text.replace(self._text, BLANK)
        return _MASKED.sub(self._blanked, self._without_parts(text))

    def removed_from_error(self, text: str) -> str:
        """Return the words of an error without the secret, to its last letter.

        An error may quote any of its ends behind a mask, or in a sentence about a key as a word:
        "the key ending in yz". A reply is not read so closely: its "**no**" is an answer.
        """
        text = self.removed_from(text)
        if not self.is_recognisable:
            return text
        kept, done = list[str](), 0
        for match in _MASK.finditer(text):
            # No further than the secret is long, so that the time grows with the text alone.
            most = len(self._text) + 1
            head = _BEFORE.search(text, max(done, match.start() - most), match.start())
            tail = _AFTER.match(text, match.end(), match.end() + most)
            assert head is not None
            assert tail is not None
            if self._begins_in(head[0]) or (tail[0] and self._ends_with(tail[0])):
                kept += [text[done : head.start()], BLANK]
                done = tail.end()
        text = "".join([*kept, text[done:]])
        return _WORD.sub(self._without_end, text) if _OF_KEYS.search(text) else text

    def _begins_in(self, head: str) -> bool:
        """Say whether a text before a mask is, or its end clearly is, how the secret begins."""
        head, text = head.lower(), self._text.lower()
        if head and text.startswith(head):
            return True
        return any(head.endswith(text[:n]) for n in range(_TELLING + 1, len(head)))

    def _ends_with(self, tail: str) -> bool:
        return self._text.lower().endswith(tail.lower())

    def _without_end(self, match: re.Match[str]) -> str:
        word = match[0].lower()
        begins = len(word) > _TELLING and self._text.lower().startswith(word)
        return BLANK if begins or self._ends_with(word) else match[0]

    def _without_parts(self, text: str) -> str:
        if not self._may_be_in(text):
            return text
        found = list(_undisguised(text))
        plain = "".join(character for character, _, _ in found)
        kept: list[str] = []
        done = 0
        for place in range(len(plain) - _PART + 1):
            if plain[place : place + _PART] in self._parts:
                start = found[place][1]
                if not kept or start > done:  # else it goes on with the part before
                    kept += [text[done:start], BLANK]
                done = found[place + _PART - 1][2]
        return "".join([*kept, text[done:]])

    def _may_be_in(self, text: str) -> bool:
        """Look at every fifth place: a part of 8 characters cannot lie between two of them."""
        plain = _DISGUISE.sub(_meant, text).lower()
        return any(plain[at : at + 4] in self._hints for at in range(0, len(plain), 5))

    def _blanked(self, match: re.Match[str]) -> str:
        head, tail = match[1], match[2]
        quotes_head = len(head) >= _TELLING and self._text.startswith(head)
        quotes_tail = len(tail) >= _TELLING and self._text.endswith(tail)
        return "…" if quotes_head or quotes_tail else match[0]

    def __repr__(self) -> str:
        return "Secret('…')"

    def __str__(self) -> str:
        return "…"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written to files; read it again from the environment")


def _meant(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    character = chr(int(code, 16)).lower() if code else ""
    return "" if _DISGUISE.fullmatch(character) else character


def _undisguised(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the characters that count, in small letters, each with where it is written."""
    at = 0
    for match in _DISGUISE.finditer(text):
        yield from ((text[i].lower()[:1], i, i + 1) for i in range(at, match.start()))
        if meant := _meant(match):
            yield meant, match.start(), match.end()
        at = match.end()
    yield from ((text[i].lower()[:1], i, i + 1) for i in range(at, len(text)))


def _forms(text: str) -> list[str]:
    """Return a secret as it is, in hexadecimal, and in base64 at each of its three alignments.

    Of a base64 text the characters are left out that depend on what stands before the secret.
    """
    data = text.encode("utf-8", "surrogatepass")
    aligned = [base64.b64encode(bytes(n) + data).decode()[n + (n > 0) :] for n in range(3)]
    return [text, data.hex(), *(form.rstrip("=") for form in aligned)]


def _slices(forms: Sequence[str], length: int) -> frozenset[str]:
    """Return every stretch of that length; none at all if the secret itself is shorter than 8."""
    if len(forms[0]) < _PART:
        return frozenset()
    return frozenset(
        form[at : at + length] for form in forms for at in range(len(form) - length + 1)
    )


def names_secret(option: str) -> bool:
    """Say whether an option looks, by its name, as if it held a key.

    >>> names_secret("api_key"), names_secret("auth_token"), names_secret("max_tokens")
    (True, True, False)
    """
    name = option.lower()
    words = ("key", "secret", "password", "credential")
    return any(word in name for word in words) or name.endswith("token")


def holds_secret(address: str) -> bool:
    """Say whether an address carries a login, or a parameter that looks like a key."""
    parts = urlsplit(address)
    words = ("key", "token", "secret", "password", "credential", "sig")
    names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    return parts.username is not None or any(word in name for name in names for word in words)


def find_key(variables: Sequence[str], provider: str) -> Secret:
    """Return the first key that the environment or the `.env` of this folder holds."""
    written = {**_dotenv(Path(".env")), **os.environ}
    for variable in variables:
        if value := (written.get(variable) or "").strip():
            return Secret(value)
    raise MissingKey(
        f"no key for {provider}: {' or '.join(variables)} is not set; "
        f"type: export {variables[0]}=… (or write that line into a file .env here)"
    )


def recognisable_keys() -> list[Secret]:
    """Return the keys that the environment or the `.env` of this folder names, if long enough."""
    written = {**_dotenv(Path(".env")), **os.environ}
    values = {value for name, value in written.items() if value and _KEY_NAME.search(name.upper())}
    return [key for key in map(_secret, sorted(values)) if key.is_recognisable]


@cache
def _secret(text: str) -> Secret:
    return Secret(text.strip())


def _dotenv(path: Path) -> dict[str, str | None]:
    try:
        return dotenv_values(path, interpolate=False)  # a key may hold a dollar sign
    except (OSError, UnicodeDecodeError):
        return {}
