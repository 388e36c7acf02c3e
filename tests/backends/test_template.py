"""Prompts in the user's own words: complete or refused, and the built-in one to start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.test_no_leak import every_suite

from krisis.backends.chat import ChatRequest
from krisis.backends.elicitation import Asking
from krisis.backends.prompt import build_prompt
from krisis.backends.scripted import ScriptedBackend
from krisis.backends.template import MAX_BYTES, SLOTS, PromptTemplate, read_template
from krisis.backends.wording import built_in_prompt
from krisis.data.base import FeatureDescription, Records, SuiteConfig, Task, content_hash
from krisis.data.perturbation import Perturbation, Perturbed
from krisis.errors import KrisisError
from krisis.execution.batches import cases_of, plan_batches, request_about

SHORT = """\
[system]
{question} Choose from:
{answers}

Known: {setting}

{abstention} {confidence}

Example of JSON: {"a": {"b": {}}} and {{question}}

{reply}
[user]
Here are the findings.
{findings}

Now answer.
"""
TASK = Task(
    "sepsis",
    "Is it sepsis, or {reply}?",
    {0: "no", 1: "yes"},
    {"lactate": FeatureDescription("lactate", "mmol/L", "high in shock")},
)


def test_slots_are_filled_once_and_other_braces_stand_for_themselves() -> None:
    prompt = build_prompt(TASK, [{"lactate": 4.2}], asking=Asking(PromptTemplate("short", SHORT)))
    assert prompt.system.startswith("Is it sepsis, or {reply}? Choose from:\n- 0: no\n- 1: yes\n\n")
    assert "Known:" not in prompt.system  # the task states no setting, so its paragraph goes
    assert 'Example of JSON: {"a": {"b": {}}} and {question}\n\n' in prompt.system
    assert (
        "An abstention costs a fifth of what a wrong answer costs. Confidence is the probability"
        in prompt.system
    )
    assert prompt.system.endswith("or null when you abstain>}")
    assert prompt.user == (
        "Here are the findings.\nFindings:\n- lactate: 4.2 mmol/L\n\nNow answer."
    )
    assert prompt.template == (
        f"{prompt.system}\n\nHere are the findings.\nFindings:\n- lactate: [redacted] mmol/L\n\n"
        "Now answer."
    )


def changed(old: str, new: str) -> str:
    assert old in SHORT
    return SHORT.replace(old, new)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty; begin with: krisis run --print-prompt"),
        (" \n\n", "is empty"),
        (changed("[user]\n", ""), "the line [user] once, not [system]"),
        (SHORT + "[user]\n", "not [system] [user] [user]"),
        (changed("[system]", "system:"), "the line [system] once"),
        ("You are a nurse.\n" + SHORT, "'You are a nurse.' above [system]"),
        (changed("{findings}", "{{findings}}"), "lacks the slot {findings}; write it with single"),
        (changed("{findings}", ""), "lacks the slot {findings}; it stands for the findings"),
        (changed("{reply}", "{reply} {answers}"), "has the slot {answers} twice"),
        (changed("Now", "{qestion}"), "unknown slot 'qestion'; did you mean 'question'?"),
        (changed("{answers}", "{ answers }"), "Slots are written {question}"),
        (changed("{answers}", "{Answers}"), "did you mean 'answers'?"),
        (changed("Now", "{x}"), "for the very letters {x}, write {{x}}"),
        (changed("[user]\n", "{findings}\n[user]\n").replace(
            "findings.\n{findings}", "findings."), "findings belong below [user]"),
        ("[system]\n[user]\n" + " ".join(f"{{{slot}}}" for slot in SLOTS), "nothing below [syst"),
    ],
)  # fmt: skip
def test_an_incomplete_prompt_is_refused_in_one_sentence(text: str, problem: str) -> None:
    with pytest.raises(KrisisError) as caught:
        PromptTemplate("mine", text)
    assert problem in str(caught.value)
    assert "the prompt 'mine'" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "does not exist; name a prompt file, or write one"),
        (b"\xff\xfe[system]", r"is not UTF-8 text \(byte 0\)"),
        (b"x" * (MAX_BYTES + 1), "is larger than 100,000 bytes"),
    ],
)
def test_a_file_that_is_no_prompt_is_refused(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "mine.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KrisisError, match=problem):
        read_template(path)


def test_a_folder_is_no_prompt(tmp_path: Path) -> None:
    with pytest.raises(KrisisError, match="cannot be read"):
        read_template(tmp_path)


def test_a_file_of_windows_is_the_same_prompt(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(b"\xef\xbb\xbf" + SHORT.replace("\n", "\r\n").encode())
    assert read_template(path) == PromptTemplate("mine", SHORT)


@given(st.text())
def test_no_text_is_a_prompt_that_cannot_be_filled(text: str) -> None:
    """Whatever is accepted is filled without an error, with each slot in its place."""
    try:
        template = PromptTemplate("any", f"{SHORT}{text}")
    except KrisisError:
        return
    slots = {name: f"<{name}>" for name in SLOTS}
    system, user = template.filled(slots)
    assert all(f"<{name}>" in system + user for name in SLOTS if name != "meanings")


@cache
def loaded(kind: Callable[[SuiteConfig], Any], config: SuiteConfig) -> tuple[Any, Records]:
    suite = kind(config)
    return suite, suite.first(16)


def requests(kind: Any, config: SuiteConfig, asking: Asking) -> list[ChatRequest]:
    """Return the calls of a suite, one case and four at a time, and in every form but one."""
    suite, records = loaded(kind, config)
    backend = ScriptedBackend(lambda request: "")
    backend.asking = asking
    backend.prepare(suite)
    found = [
        request_about(batch, backend)
        for size in (1, 4)
        for batch in plan_batches(cases_of(records), size)
    ]
    # A paraphrase is one of krisis's words, and these are the user's.
    forms = [kind for kind in Perturbation if kind is not Perturbation.PARAPHRASE]
    features, context = [record.features for record in records[:2]], records[0].context
    for form in forms:
        backend.asking = replace(asking, perturbed=Perturbed(form, 3))
        found.append(backend.build(features, mode="batch", context=context))
    return found


@pytest.mark.usefixtures("made_up_support2")
@pytest.mark.parametrize(("kind", "config"), list(every_suite()))
def test_the_printed_prompt_unchanged_asks_in_the_very_same_bytes(
    kind: Any, config: SuiteConfig
) -> None:
    own = Asking(PromptTemplate("mine", built_in_prompt()))
    assert requests(kind, config, own) == requests(kind, config, Asking())


def test_prompts_and_cache_keys_are_those_of_earlier_versions() -> None:
    """Replies that were paid for before must still be found in the cache."""
    found = []
    for param in every_suite():
        if param.id in PINNED:
            calls = requests(*param.values, Asking())
            found.append((param.id, content_hash([[one.key(), one.template] for one in calls])))
    assert dict(found) == PINNED


PINNED = {
    "lab.yaml-band": "62841ef5c173aff269bfd7127694c3f1d53d1c1274700313e5047893f145cfea",
    "ckd-staging-reduced": "a281f0d334a46a63435241c42f28f7425734a0380f26bc21d094dde29a588e03",
    "phq8-phq8-reduced": "22464cd49fffdd63027f5012da67fc15f6b2aeca6d1d0ee73c89d15d2661de4f",
}


@pytest.mark.parametrize("slot", [slot for slot in SLOTS if slot != "findings"])
def test_a_prompt_may_leave_out_any_slot_but_the_findings(slot: str) -> None:
    text = "[system]\nRead.\n" + " ".join(
        f"{{{one}}}" for one in SLOTS if one not in (slot, "findings")
    )
    PromptTemplate("mine", f"{text}\n[user]\n{{findings}}\n")
