"""Check, for every prompt that is stored, that it shows no patient value."""

from __future__ import annotations

import re
from collections.abc import Sequence

from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend, ChatRequest, PromptMode
from krisis.data.base import BaseDataSuite, content_hash
from krisis.errors import PromptLeak
from krisis.execution.batches import Batch, Case

_WORD = re.compile(r"[^\W_]+(?:[.,][^\W_]+)*")


class PromptCheck:
    """Keeps each template once and refuses one that shows what a record holds.

    A chat backend is asked for the template of the same cases with every value taken away: when
    that is the same text, no value can have shaped it. Other backends hand in text of their own;
    there a value that the prompt shows, yet the words of the task do not, is a leak. Values that
    any text may contain (a 1, a "yes") may be there by chance and are not looked for.
    """

    def __init__(self, backend: BaseBackend, suite: BaseDataSuite) -> None:
        self._backend = backend
        self._words_of_task = _words(_task_text(suite))
        self._templates: dict[str, tuple[str, frozenset[str]]] = {}
        self._bare: dict[tuple[object, ...], ChatRequest] = {}

    def hashes(self, first_batch: Batch) -> dict[str, str]:
        """Hash template, schema and parameters of the first call in either mode."""
        if not isinstance(self._backend, ChatBackend):
            return {}
        modes: dict[PromptMode, Batch] = {"single": first_batch[:1]}
        if len(first_batch) > 1:
            modes["batch"] = first_batch
        requests = {mode: self._without_values(cases, mode) for mode, cases in modes.items()}
        return {
            mode: content_hash([request.template, request.schema, request.parameters])
            for mode, request in requests.items()
            if request is not None
        }

    def shared(self, prompt: str, cases: Sequence[Case], mode: PromptMode) -> str:
        """Return the one copy of a checked template, raising `PromptLeak` for one that leaks."""
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
        bare = self._without_values(cases, mode)
        if bare is not None and bare.template == prompt:
            return frozenset()
        return frozenset(_words(prompt) - self._words_of_task)

    def _without_values(self, cases: Sequence[Case], mode: PromptMode) -> ChatRequest | None:
        """Return the request about these cases without their values, built once per shape."""
        if not isinstance(self._backend, ChatBackend):
            return None
        bare = [dict.fromkeys(case.record.features) for case in cases]
        context = "withheld" if cases[0].record.context else ""
        shape = (mode, context, *map(tuple, bare))
        if shape not in self._bare:
            self._bare[shape] = self._backend.build(bare, mode=mode, context=context)
        return self._bare[shape]


def _refuse_leak(prompt: str, suspects: frozenset[str], case: Case) -> None:
    record = case.record
    leaked = [name for name, value in record.features.items() if _is_shown(value, suspects)]
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
    return repr((*shown, task.reply_fields, task.setting))


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _is_shown(value: object, words: frozenset[str]) -> bool:
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
