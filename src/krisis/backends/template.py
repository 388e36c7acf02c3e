"""Prompts in the user's own words: a text file with named slots, checked before the first call."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from krisis.errors import InvalidFile, InvalidValue, UnknownName

# What each slot is filled with; `krisis run --print-prompt` writes this above its template.
SLOTS = {
    "question": "the question of the task",
    "answers": "the allowed answers, one a line, with their meaning",
    "meanings": "what the findings mean, one a line",
    "setting": "who the patients are",
    "abstention": "what --instructions says about abstaining",
    "confidence": "what confidence means, as --elicit asks for it",
    "reply": "the JSON object to reply with",
    "findings": "the findings of the patient, of every case of a batch, after what they share",
}
# The one slot that a prompt cannot do without; a prompt may leave out any other.
REQUIRED = "findings"
# A paragraph is left out with such a slot where there is nothing to fill it with.
_MAY_BE_EMPTY = ("meanings", "setting", "confidence")
MAX_BYTES = 100_000
_HEADING = re.compile(r"^(\[(?:system|user)\])[ \t]*$", re.MULTILINE)
_MARK = re.compile(r"(\{\{[A-Za-z_]+\}\}|\{\s*[A-Za-z_]+\s*\})")

Paragraphs = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with slots, ``{question}``; the file has a part [system] and a part [user].

    A name in braces that is no slot is written with two: ``{{name}}``. All other braces, as those
    of JSON, stand for themselves.
    """

    name: str
    text: str

    def __post_init__(self) -> None:
        _check(self.name, self.text)

    @property
    def sha256(self) -> str:
        """Return the hash by which two templates are told apart."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def filled(self, slots: Mapping[str, str]) -> tuple[str, str]:
        """Return the system and the user message."""
        return filled(self.text, slots)


def filled(text: str, slots: Mapping[str, str]) -> tuple[str, str]:
    """Fill both parts of a template, in one pass: what fills a slot is not looked at again.

    >>> filled("[system]\\nAsk: {question}\\n\\nNote: {setting}\\n[user]\\n{findings}",
    ...        {"question": "is it {findings}?", "setting": "", "findings": "- age: 5"})
    ('Ask: is it {findings}?', '- age: 5')
    """
    system, user = _parts(text)
    return _filled(system, slots), _filled(user, slots)


def read_template(path: str | Path) -> PromptTemplate:
    """Read a template from a file, or say in one sentence what is wrong with it."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InvalidFile(
            f"{path} does not exist; name a prompt file, or write one to start from: krisis run "
            "--print-prompt > prompt.txt"
        ) from None
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read ({error.strerror}); name a text file") from None
    if len(content) > MAX_BYTES:
        raise InvalidFile(f"{path} is larger than {MAX_BYTES:,} bytes; give a shorter prompt")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFile(
            f"{path} is not UTF-8 text (byte {error.start}); save it in that encoding"
        ) from None
    return PromptTemplate(path.stem, text.replace("\r\n", "\n"))


def _check(name: str, text: str) -> None:
    """Raise for a template that lacks something, or says something twice."""
    where = f"the prompt {name!r}"
    if not name.strip() or not name.isprintable():
        raise InvalidValue(f"{where} has a name that cannot be printed on a line; rename its file")
    if not text.strip():
        raise InvalidValue(f"{where} is empty; begin with: krisis run --print-prompt")
    before, *rest = _HEADING.split(text)
    if rest[::2] != ["[system]", "[user]"]:
        raise InvalidValue(
            f"{where} must have the line [system] once and below it the line [user] once, not "
            f"{' '.join(rest[::2]) or 'neither'}"
        )
    stray = [line for line in before.splitlines() if line.strip() and not line.startswith("#")]
    if stray:
        raise InvalidValue(
            f"{where} has {stray[0][:60]!r} above [system], where only notes that begin with # may "
            "stand, which are not sent; move it below"
        )
    _check_slots(where, *_parts(text))


def _check_slots(where: str, system: Paragraphs, user: Paragraphs) -> None:
    marks = [mark for paragraph in (*system, *user) for mark in paragraph[1::2]]
    slots = [mark[1:-1] for mark in marks if not mark.startswith("{{")]
    for slot in slots:
        if slot not in SLOTS:
            unknown = UnknownName.among("slot", slot.strip().lower(), SLOTS)
            raise InvalidValue(
                f"{where}: {unknown} Slots are written {{question}}; for the very letters "
                f"{{{slot}}}, write {{{{{slot.strip()}}}}}"
            )
        if slots.count(slot) > 1:
            raise InvalidValue(f"{where} has the slot {{{slot}}} twice; keep one of them")
    if REQUIRED not in slots:
        doubled = f"{{{{{REQUIRED}}}}}" in marks
        hint = "write it with single braces" if doubled else f"it stands for {SLOTS[REQUIRED]}"
        raise InvalidValue(f"{where} lacks the slot {{{REQUIRED}}}; {hint}")
    if not any("{findings}" in paragraph[1::2] for paragraph in user):
        raise InvalidValue(
            f"{where} has {{findings}} below [system]; findings belong below [user], since the "
            "system message is the same for all patients"
        )
    if not system:
        raise InvalidValue(f"{where} has nothing below [system]; put the instructions there")


@cache
def _parts(text: str) -> tuple[Paragraphs, Paragraphs]:
    """Return the paragraphs of the system and of the user message, each cut at its slots."""
    _, _, system, _, user = _HEADING.split(text)
    return _paragraphs(system), _paragraphs(user)


def _paragraphs(text: str) -> Paragraphs:
    """Cut a text at its blank lines and at its marks; every second piece is a mark."""
    text = text.strip()
    return tuple(tuple(_MARK.split(one)) for one in text.split("\n\n")) if text else ()


def _filled(paragraphs: Paragraphs, slots: Mapping[str, str]) -> str:
    kept = []
    for pieces in paragraphs:
        marks = pieces[1::2]
        if any(not slots[m[1:-1]] for m in marks if m[1:-1] in _MAY_BE_EMPTY):
            continue
        values = [m[1:-1] if m.startswith("{{") else slots[m[1:-1]] for m in marks]
        woven = [text for pair in zip(pieces[::2], [*values, ""], strict=True) for text in pair]
        kept.append("".join(woven))
    return "\n\n".join(kept)
