"""What a prompt says about abstaining: one place, three ways, and never the task's own secrets."""

from __future__ import annotations

import pytest

from krisis.backends.elicitation import Asking
from krisis.backends.prompt import build_prompt
from krisis.costs import Costs
from krisis.data.base import Task
from krisis.data.instructions import Instructions, abstention_text, costs_in_words
from krisis.errors import InvalidValue
from krisis.execution.config import checked_config
from krisis.execution.grid import grid_of

ANSWERS = {0: "no", 1: "yes"}
PRICED = Task(
    "sepsis", "Sepsis?", ANSWERS, price=0.2, policy=("the age is not shown", "a child is shown")
)


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
    assert (
        "An abstention costs a fifth of what a wrong answer costs. Abstain if\n1. your best answer "
        "is expected to cost as much as an abstention or more\n2. the age is not shown\n3. a child "
        "is shown"
    ) in text


def test_bare_instructions_state_neither_price_nor_rule() -> None:
    assert "You may abstain. Do so if the question cannot be answered safely." in asked(
        PRICED, Instructions.BARE
    )
    assert "fifth" not in asked(PRICED, Instructions.BARE)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            Task("t", answers=ANSWERS, positive=1, costs=Costs({1: {0: 1}, 0: {1: 0.5}}, 0.15)),
            (
                "A false alarm counts half as much as a missed disease. An abstention counts "
                "15 % of a missed disease."
            ),
        ),
        (
            Task("t", answers=ANSWERS, positive=1, costs=Costs({1: {0: 0.75}, 0: {1: 1}}, 0.2)),
            (
                "A missed disease counts three quarters as much as a false alarm. An abstention "
                "counts a fifth as much as a false alarm."
            ),
        ),
        (
            Task(
                "t",
                answers={1: "", 2: "", 3: ""},
                ordered=True,
                costs=Costs.by_distance((1, 2, 3), price=0.6),
            ),
            (
                "The cost of a wrong answer grows evenly with the steps between it and the right "
                "one. An abstention costs 120 % of one step."
            ),
        ),
        (
            Task("t", answers=ANSWERS, costs=Costs({1: {0: 1}, 0: {1: 0.5}}, 0.15)),
            (
                "These errors cost 100 points: 0 where 1 is right. These errors cost 50 points: 1 "
                "where 0 is right. An abstention costs 15 points."
            ),
        ),
        (Task("t", answers=ANSWERS), "An abstention costs a fifth of what a wrong answer costs."),
    ],
)
def test_the_words_are_made_from_the_table(task: Task, words: str) -> None:
    assert costs_in_words(task) == abstention_text(task) == words


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
