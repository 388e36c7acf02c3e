"""A chat backend of the user's own asks as it is told to, or the run is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from krisis import Benchmark, PatientRecord, Task
from krisis.backends.base import BackendResponse
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.backends.elicitation import Asking, Elicitation
from krisis.backends.template import PromptTemplate
from krisis.backends.wording import built_in_prompt
from krisis.data.base import Features, RecordListSuite
from krisis.errors import InvalidValue
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder

RECORD = PatientRecord({"lactate": 4.2}, 1)
SUITE = RecordListSuite([RECORD], Task("sepsis", "Is it sepsis?", {0: "no", 1: "yes"}))
MINE = PromptTemplate("mine", built_in_prompt())


class Adding(ChatBackend):
    """Changes what the usual `build` made; its model knows nothing of ways to ask."""

    name = provider = model = "own"

    def build(self, cases: Sequence[Features], **form: Any) -> ChatRequest:
        request = super().build(cases, **form)
        return replace(request, user=f"{request.user}!")

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply(json.dumps({"abstained": False, "prediction": 1, "confidence": 0.5}))


class Building(Adding):
    """Builds alone."""

    def build(self, cases: Sequence[Features], **form: Any) -> ChatRequest:
        return ChatRequest("own", "own", "s", str(cases), {}, {}, form["mode"], "t", len(cases))


class Reading(Adding):
    """Reads alone."""

    def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
        return [BackendResponse(1, confidence=0.5)]


def asked(backend: ChatBackend, way: str, prompt: PromptTemplate | None = None) -> ChatBackend:
    backend.asking = Asking(prompt, Elicitation.parsed(way))
    backend.prepare(SUITE)
    return backend


@pytest.mark.parametrize("prompt", [None, MINE])
@pytest.mark.parametrize("way", ["answer", "rationale", "top-k", "p-true", "two-step"])
def test_a_build_that_ignores_how_to_ask_is_refused_before_the_run_is_opened(
    way: str, prompt: PromptTemplate | None, tmp_path: Path
) -> None:
    backend = asked(Building(), way, prompt)
    if not backend.asking.words:
        assert backend.evaluate(RECORD).prediction == 1
        return
    with pytest.raises(InvalidValue, match=r"Building.build ignores how to ask \("):
        backend.evaluate(RECORD)
    execution = Execution(recorder=Recorder(tmp_path / "runs"))
    with pytest.raises(InvalidValue, match=r"Building.build ignores how to ask \("):
        Benchmark(SUITE, backend, [], execution=execution).run()
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("way", "member"), [("rationale", "rationale"), ("top-k:2", "guesses")])
def test_a_read_that_ignores_the_way_of_asking_is_refused(way: str, member: str) -> None:
    backend = asked(Reading(), way)
    problem = f"Reading.read ignores --elicit {way}: its answers have no {member}"
    with pytest.raises(InvalidValue, match=problem):
        backend.evaluate(RECORD)
    with pytest.raises(InvalidValue, match=problem):
        Benchmark(SUITE, backend, []).run()


def test_a_build_that_changes_what_super_built_asks_in_the_users_words() -> None:
    backend = asked(Adding(), "answer", MINE)
    assert backend.build([RECORD.features], mode="single").user.endswith("!")
    (row,) = Benchmark(SUITE, backend, []).run().evaluation_results
    assert row.prediction == 1


@pytest.mark.parametrize("text", ["top-k:0", "top-k:100", "top-k:", "top-k: 3", "top-k:-1"])
def test_a_number_of_guesses_out_of_range_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(InvalidValue, match="the guesses of top-k are 1 to 99, as in top-k:5, not"):
        Elicitation.parsed(text)


@pytest.mark.parametrize("name", ["two\nlines", "a\x1b[31m", " ", ""])
def test_a_prompt_whose_name_would_break_a_table_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match="rename its file"):
        PromptTemplate(name, built_in_prompt())
