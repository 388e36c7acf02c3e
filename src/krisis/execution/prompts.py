"""Check, for every prompt that is stored, that no patient value stands in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend, PromptMode
from krisis.data.base import BaseDataSuite
from krisis.errors import PromptLeak
from krisis.execution.batches import Case

_WORD = re.compile(r"[^\W_]+(?:[.,][^\W_]+)*")


class PromptCheck:
    """Keeps each template once and refuses one that shows what a record holds.

    A chat backend is asked for the template of the same cases with every value taken away: when
    that is the same text, no value can have shaped it. Other backends hand in text of their own;
    there a value that stands in the prompt, yet not in the words of the task, is a leak. Values
    that any text may contain (a 1, a "yes") cannot be told from chance and are passed over there.
    """

    def __init__(self, backend: BaseBackend, suite: BaseDataSuite) -> None:
        self._backend = backend
        self._words_of_task = _words(_task_text(suite))
        self._templates: dict[str, tuple[str, frozenset[str]]] = {}

    @property
    def templates(self) -> list[str]:
        """Return every template seen, in order of appearance."""
        return list(self._templates)

    def shared(self, prompt: str, cases: Sequence[Case], mode: PromptMode) -> str:
        """Return the one copy of a checked template, raising `PromptLeak` for a telling one."""
        if not prompt:
            return ""
        if prompt not in self._templates:
            self._templates[prompt] = prompt, self._suspects(prompt, cases, mode)
        template, suspects = self._templates[prompt]
        if suspects:
            for case in cases:
                _refuse_leak(template, suspects, case)
        return template

    def _suspects(self, prompt: str, cases: Sequence[Case], mode: PromptMode) -> frozenset[str]:
        """Return the words that may be a patient's; none if the text is the same without."""
        if isinstance(self._backend, ChatBackend):
            bare = [dict.fromkeys(case.record.features) for case in cases]
            context = "withheld" if cases[0].record.context else ""
            if self._backend.build(bare, mode=mode, context=context).template == prompt:
                return frozenset()
        return frozenset(_words(prompt) - self._words_of_task)


def _refuse_leak(prompt: str, suspects: frozenset[str], case: Case) -> None:
    record = case.record
    leaked = [name for name, value in record.features.items() if _stands_in(value, suspects)]
    if record.context and record.context in prompt:
        leaked.append("context")
    if leaked:
        raise PromptLeak(
            f"the prompt stored for record {record.record_id!r} shows its value of "
            f"{leaked[0]!r}; store the template with every patient value redacted, or leave "
            "BackendResponse.prompt empty"
        )


def _task_text(suite: BaseDataSuite) -> str:
    task = suite.task
    shown = (task.question, task.answers, task.features, task.abstain_when, task.aliases)
    return repr((*shown, task.reply_fields))


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _stands_in(value: object, words: frozenset[str]) -> bool:
    if isinstance(value, bool) or value is None:
        return False
    text = str(value).strip().casefold()
    if isinstance(value, int | float):
        return _is_telling_number(text) and text in words
    parts = [word for word in _WORD.findall(text) if len(word) >= 4 or _is_telling_number(word)]
    return bool(parts) and all(part in words for part in parts)


def _is_telling_number(text: str) -> bool:
    digits = re.sub(r"\D", "", text.partition("e")[0]).strip("0")
    return len(digits) >= 3
