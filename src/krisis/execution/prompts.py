"""Check that stored prompts show nothing of a record, and put one together again to be read."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend, ChatRequest, PromptMode
from krisis.backends.prompt import REDACTED, build_prompt, value_in_words
from krisis.data.base import BaseDataSuite, FeatureDescription, PatientRecord, Task, content_hash
from krisis.errors import PromptWithheld
from krisis.execution.batches import Batch, Case
from krisis.json_values import JsonMapping
from krisis.task_facts import TaskFacts

_WORD = re.compile(r"\d+(?:[.,]\d+)?e[+-]?\d+|[^\W_]+(?:[.,][^\W_]+)*", re.IGNORECASE)
# Words by which a text may name the right answer, in the order in which they are said.
_LABEL_NAMES = ("label", "ground truth", "truth", "correct answer", "right answer")
# How many words after its name a value is looked for: "the label is: 1".
_REACH = 3


class PromptCheck:
    """Keeps each template once and withholds one that may show what a record holds.

    A chat backend is asked for the template of the same cases with every value taken away: it must
    be the same text, so that no value can have shaped it. Other backends hand in text of their
    own, of which nothing can be proved; what is looked for there is stated at `_shown`. A text in
    doubt is withheld and the run goes on, because its answers were paid for.
    """

    def __init__(self, backend: BaseBackend, suite: BaseDataSuite) -> None:
        self._backend = backend
        self._words_of_task = set(_words(_task_text(suite)))
        self._templates: dict[str, str] = {}
        self._bare: dict[tuple[object, ...], ChatRequest] = {}
        self._first: dict[PromptMode, Counter[str]] = {}
        self._doubts: dict[str, str] = {}

    def hashes(self, batches: Sequence[Batch]) -> dict[str, str]:
        """Hash template, schema and parameters of the first call in either mode."""
        if not isinstance(self._backend, ChatBackend) or not batches:
            return {}
        first = batches[0]
        modes: dict[PromptMode, Batch] = {"single": first[:1]}
        if len(first) > 1:
            modes["batch"] = first
        found: dict[str, str] = {}
        for mode, cases in modes.items():
            request = self._without_values(cases, mode)
            if request is not None:
                found[mode] = content_hash([request.template, request.schema, request.parameters])
        return found

    def shared(self, prompt: str, cases: Sequence[Case], mode: PromptMode) -> str:
        """Return the one copy of a checked template, or no text where it may show a record."""
        if not prompt or prompt in self._templates:
            return self._templates.get(prompt, "")
        if isinstance(self._backend, ChatBackend):
            doubt = self._shaped_by_values(prompt, cases, mode)
        else:
            doubt = self._shown_value(prompt, cases, mode)
        if doubt:
            self._doubts.setdefault(prompt, doubt)
            return ""
        # A text that is right for a record without the doubted value has it by chance.
        self._doubts.pop(prompt, None)
        return self._templates.setdefault(prompt, prompt)

    def warn_of_doubts(self) -> None:
        """Warn, once a run, that texts were withheld; called when its last row is there."""
        if self._doubts:
            warnings.warn(
                f"{next(iter(self._doubts.values()))}, so such texts are not stored; return the "
                "template with every patient value redacted, or leave BackendResponse.prompt empty",
                PromptWithheld,
                stacklevel=2,
            )

    def _shaped_by_values(self, prompt: str, cases: Sequence[Case], mode: PromptMode) -> str:
        bare = self._without_values(cases, mode)
        if bare is None or bare.template == prompt:
            return ""
        shown = next(_shown_anywhere(cases, set(_words(prompt)) - self._words_of_task), "")
        return _doubt(cases[0].record, shown or "values, for without them it is another text")

    def _shown_value(self, prompt: str, cases: Sequence[Case], mode: PromptMode) -> str:
        words = _words(prompt)
        counted = Counter(words)
        first = self._first.setdefault(mode, counted)
        for case in cases:
            for shown in _shown(case.record, words, set(counted) - self._words_of_task):
                return _doubt(case.record, shown)
            if case.record.context and case.record.context in prompt:
                return _doubt(case.record, "value of 'context'")
            # A template is the same for all records: what is new in this text may be a value.
            for what, value in _values(case.record):
                if (spoken := _words(str(value))) and not Counter(spoken) - (counted - first):
                    return _doubt(case.record, what)
        return ""

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


def shown_again(
    task: TaskFacts, stored: JsonMapping, template: str, batch: bool
) -> tuple[dict[str, str], str]:
    """Return stored features in the words of a prompt, and the text that was sent about them.

    The instructions are those of the stored template. The text is empty unless the findings, put
    together again without their values, are what the template has in their place.
    """
    described = task.features
    features = dict(stored)
    context = "" if "context" in described else str(features.pop("context", ""))
    words = {
        name: value_in_words(value, described.get(name) or FeatureDescription(name))
        for name, value in features.items()
    }
    asked = Task(task.name, features=described)
    prompt = build_prompt(asked, [features], batch=batch, context=context)
    # The template of a batch has the findings of all of its cases.
    shown = [line for line in template.replace(":\n  | ", ": ").splitlines() if REDACTED in line]
    begins = tuple(line.partition(":")[0] for line in shown)
    others = [name for name, one in described.items() if f"- {one.words or name}" in begins]
    bare = dict.fromkeys([*features, *others])
    shape = build_prompt(asked, [bare], batch=batch, context=context)
    findings = shape.template.removeprefix(shape.system).removeprefix("\n\n")
    before, found, after = template.partition(findings)
    return words, f"{before}{prompt.user}{after}" if found else ""


def _doubt(record: PatientRecord, shown: str) -> str:
    return f"the prompt returned for record {record.record_id!r} shows its {shown}"


def _shown(record: PatientRecord, words: list[str], suspects: set[str]) -> Iterator[str]:
    """Yield what one text alone gives away.

    Values that no text contains by chance: numbers of three digits, words of four letters that the
    task does not use. Of the label and the metadata, also a short value that follows its name.
    """
    yield from (
        f"value of {name!r}"
        for name, value in record.features.items()
        if _is_telling(value, suspects)
    )
    named = [("label", name, record.label) for name in _LABEL_NAMES]
    named += [(f"metadata {name!r}", name, value) for name, value in record.metadata.items()]
    for what, name, value in named:
        if _follows(_words(name), _words(str(value)), words):
            yield what
    for name, value in record.metadata.items():
        if isinstance(value, int | float) and _is_telling(value, suspects):
            yield f"metadata {name!r}"


def _shown_anywhere(cases: Sequence[Case], suspects: set[str]) -> Iterator[str]:
    for case in cases:
        yield from _shown(case.record, [], suspects)


def _follows(name: Sequence[str], value: Sequence[str], words: Sequence[str]) -> bool:
    n = len(name)
    if not n or not value:
        return False
    return any(
        list(words[at : at + n]) == list(name) and value[0] in words[at + n : at + n + _REACH]
        for at in range(len(words) - n)
    )


def _values(record: PatientRecord) -> Iterator[tuple[str, object]]:
    """Yield every value of a record with what it is, lists and mappings entry by entry."""
    for name, value in record.features.items():
        yield from ((f"value of {name!r}", leaf) for leaf in _leaves(value))
    yield "label", record.label
    for name, value in record.metadata.items():
        yield from ((f"metadata {name!r}", leaf) for leaf in _leaves(value))


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, Mapping | list | tuple):
        members = value.values() if isinstance(value, Mapping) else value
        yield from (leaf for member in members for leaf in _leaves(member))
    elif value is not None:
        yield value


def _task_text(suite: BaseDataSuite) -> str:
    task = suite.task
    shown = (task.question, task.answers, task.features, task.aliases)
    return repr((*shown, task.reply_fields, task.setting))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _is_telling(value: object, words: set[str]) -> bool:
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int | float):
        return _is_telling_number(str(value).casefold()) and float(value) in _numbers(words)
    parts = [word for word in _words(str(value)) if len(word) >= 4 or _is_telling_number(word)]
    return bool(parts) and all(part in words for part in parts)


def _numbers(words: set[str]) -> set[float]:
    """Return the numbers among words, in whatever way they are written: 731.250, 7.3125e02."""
    found = set()
    for word in words:
        if word[0].isdigit():
            with suppress(ValueError):
                found.add(float(word.replace(",", ".")))
    return found


def _is_telling_number(text: str) -> bool:
    digits = re.sub(r"\D", "", text.partition("e")[0]).strip("0")
    return len(digits) >= 3
