"""Answers: which values mean which answer, whatever their case, type and spacing."""

from __future__ import annotations

import numpy as np
import pytest

from krisis.answers import AnswerSet, kept_value
from krisis.data.base import Task


@pytest.mark.parametrize("value", [1, 1.0, True, "1", " 1 ", "1.0", np.int64(1), np.bool_(True)])
def test_numbers_texts_and_truth_values_are_one_answer(value: object) -> None:
    assert AnswerSet((0, 1)).match(value) == 1


@pytest.mark.parametrize("value", [None, 2, "present", 1.5, float("nan"), [1], {}, "", np.nan])
def test_what_is_no_answer_is_none(value: object) -> None:
    assert AnswerSet((0, 1)).match(value) is None
    assert not AnswerSet((0, 1)).allows(value)


def test_words_are_matched_whatever_their_case_and_space() -> None:
    answers = AnswerSet(("Y", "N"))
    assert (answers.match(" y"), answers.match("N\n"), answers.match("yes")) == ("Y", "N", None)
    assert AnswerSet(("True", "False")).match(True) == "True"


def test_answers_that_would_collide_are_told_apart_by_their_text() -> None:
    answers = AnswerSet(("a", "A", "1", "01"))
    assert [answers.match(one) for one in ("a", "A", "1", "01", 1)] == ["a", "A", "1", "01", "1"]
    assert len(set(answers.keys)) == 4
    assert not answers.same("a", "A")


def test_two_answers_make_a_task_binary_whatever_they_are_called() -> None:
    assert AnswerSet(("dead", "alive")).two() == ("dead", "alive")
    assert AnswerSet((0, 1, 2)).two() is None
    assert AnswerSet().two([0, 1, 1]) == (0, 1)
    assert AnswerSet().two([0, 2]) is None


def test_only_of_0_and_1_is_a_positive_answer_known_unsaid() -> None:
    assert AnswerSet((0, 1)).positive_key() == 1
    assert AnswerSet(("N", "Y")).positive_key() is None
    assert AnswerSet(("N", "Y"), positive="Y").positive_key() == "y"


def test_names_are_short_where_they_can_be() -> None:
    long = "chronic kidney disease is present by the definition of KDIGO 2024"
    task = Task("t", "q", {0: "no CKD", 1: long}, short_names={1: "CKD"})
    answers = task.answer_set
    assert (answers.name(0), answers.name("1"), answers.name(7)) == ("no CKD", "CKD", "7")
    assert answers.meaning(1) == long
    assert Task("t", "q", {1: long}).answer_set.name(1) == "1"


def test_a_value_that_is_no_answer_is_kept_short() -> None:
    assert kept_value(1.5) == "1.5"
    assert len(str(kept_value("x" * 5000))) == 200
