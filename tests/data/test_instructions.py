"""What a prompt says about abstaining: one place, three ways, and never the task's own secrets."""

from __future__ import annotations

import pytest

from krisis.backends.elicitation import Asking
from krisis.backends.prompt import build_prompt
from krisis.data.base import Task
from krisis.data.instructions import Instructions, abstention_text
from krisis.errors import InvalidValue
from krisis.execution.config import checked_config
from krisis.execution.grid import grid_of

ANSWERS = {0: "no", 1: "yes"}
PRICED = Task(
    "sepsis", "Sepsis?", ANSWERS, price=0.2, policy=("the age is not shown", "a child is shown")
)
OWN = Task("sepsis", "Sepsis?", ANSWERS, abstain_when="Abstain when nobody could know.")


def asked(task: Task, instructions: Instructions) -> str:
    return build_prompt(task, [{"age": 60}], asking=Asking(instructions=instructions)).system


def test_the_price_is_stated_and_no_rule() -> None:
    text = asked(PRICED, Instructions.PRICE)
    assert "You may abstain. An abstention costs a fifth of what a wrong answer costs." in text
    assert "not shown" not in text


def test_another_price_is_stated_with_every_digit() -> None:
    for price, words in ((0.1, "a tenth"), (0.1234, "12.34 %"), (0.000012, "0.0012 %")):
        text = abstention_text(Task("sepsis", price=price))
        assert text == f"An abstention costs {words} of what a wrong answer costs."


def test_the_policy_is_a_numbered_list() -> None:
    text = asked(PRICED, Instructions.POLICY)
    assert "Abstain if\n1. the age is not shown\n2. a child is shown" in text
    assert "fifth" not in text


def test_bare_instructions_state_neither_price_nor_rule() -> None:
    for task in (PRICED, OWN):
        assert "You may abstain. Do so if the question cannot be answered safely." in asked(
            task, Instructions.BARE
        )
    assert "fifth" not in asked(PRICED, Instructions.BARE)


def test_a_task_without_a_price_keeps_its_own_words() -> None:
    for instructions in (Instructions.PRICE, Instructions.POLICY):
        assert abstention_text(OWN, instructions) == "Abstain when nobody could know."


def test_instructions_are_an_axis_of_a_grid_and_tell_cells_apart() -> None:
    content = {"suite": "ckd", "models": ["scripted"], "instructions": ["price", "bare", "policy"]}
    names = [cell.name for cell in grid_of(content, "plan").cells]
    assert names == [
        "scripted · ckd",
        "scripted · ckd · bare instructions",
        "scripted · ckd · policy instructions",
    ]
    one = grid_of({**content, "instructions": "bare"}, "plan")
    assert [cell.config.instructions for cell in one.cells] == ["bare"]


def test_unknown_instructions_are_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidValue, match="did you mean"):
        checked_config({"suite": "ckd", "model": "majority", "instructions": "pric"}, "here")
