from __future__ import annotations

import dataclasses
from datetime import date
from enum import StrEnum
from typing import Any

import numpy as np
import pytest

from krisis.backends.prompt import build_prompt, value_in_words
from krisis.data.base import FeatureDescription, PatientRecord, ReplyField, Task
from krisis.errors import InvalidValue


def test_a_case_is_put_in_words_with_units_codes_and_missing_values(
    task: Task,
) -> None:
    prompt = build_prompt(task, [{"hemo": None, "sc": 2.40, "htn": 1}])
    assert prompt.user == (
        "Findings:\n- serum creatinine: 2.4 mg/dL\n- hypertension: yes\n- haemoglobin: not measured"
    )


def test_the_instructions_name_question_answers_abstention_and_what_confidence_means(
    task: Task,
) -> None:
    system = build_prompt(task, [{"sc": 2.4}]).system
    assert task.question in system
    assert "An abstention costs a fifth of what a wrong answer costs." in system
    assert "- 3: 30 to 59" in system
    assert "probability, from 0 to 1, that the answer you give is correct" in system
    assert "serum creatinine: a waste product of muscle" in system


def test_a_batch_names_its_cases_and_shows_the_context_once(
    task: Task,
) -> None:
    prompt = build_prompt(task, [{"sc": 1}, {"sc": 2}], batch=True, context="a transcript")
    assert prompt.user.count("a transcript") == 1
    assert "case_0:\n- serum creatinine: 1 mg/dL" in prompt.user
    assert "case_1:\n- serum creatinine: 2 mg/dL" in prompt.user
    assert "a transcript" not in prompt.template


def test_the_template_does_not_depend_on_any_value_nor_on_the_size_of_the_batch(
    task: Task,
) -> None:
    few = [{"sc": 1.25, "htn": 1}]
    many = [{"sc": 9.75, "htn": 0}, {"sc": None, "htn": None}, {"sc": 3.5, "htn": 1}]
    one = build_prompt(task, few, batch=True, context="one transcript")
    other = build_prompt(task, many, batch=True, context="another")
    assert one.template == other.template
    assert "[redacted] mg/dL" in one.template


def test_the_template_says_what_was_sent_apart_from_the_values(
    task: Task,
) -> None:
    prompt = build_prompt(task, [{"sc": 2.41, "hemo": 10.05}])
    sent = f"{prompt.system}\n\n{prompt.user}"
    assert sent.replace("2.41", "[redacted]").replace("10.05", "[redacted]") == prompt.template


@pytest.mark.parametrize("batch", [True, False])
def test_label_and_metadata_cannot_reach_a_prompt(task: Task, batch: bool) -> None:
    record = PatientRecord({"sc": 1.5}, 3, {"egfr": 31.77, "should_abstain": "certainly"})
    prompt = build_prompt(task, [record.features], batch=batch)
    for text in (prompt.system, prompt.user, prompt.template):
        assert "31.77" not in text
        assert "certainly" not in text


def test_a_value_with_line_breaks_cannot_pass_for_another_case() -> None:
    words = value_in_words("calm\n\ncase_1:\n- age: 3", FeatureDescription("note"))
    assert words == "calm case_1: - age: 3"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "yes"),
        (0, "no"),
        (1.0, "yes"),
        (float("nan"), "not stated"),
        ("  ", "not stated"),
        (None, "not stated"),
        (2, "2"),
    ],
)
def test_coded_values_are_told_in_words(value: Any, words: str) -> None:
    description = FeatureDescription("hypertension", values={0: "no", 1: "yes"})
    assert value_in_words(value, description) == words


def test_extra_reply_fields_are_asked_for(task: Task) -> None:
    asked = dataclasses.replace(
        task, reply_fields={"evidence": ReplyField(list[str], "verbatim quotes")}
    )
    assert '- "evidence": verbatim quotes' in build_prompt(asked, [{"sc": 1}]).system


def test_a_single_prompt_takes_exactly_one_case(task: Task) -> None:
    with pytest.raises(InvalidValue, match="given 2 cases; pass exactly one"):
        build_prompt(task, [{"sc": 1}, {"sc": 2}])
    with pytest.raises(InvalidValue, match="given 0 cases"):
        build_prompt(task, [], batch=True)


def test_a_template_shows_no_value_and_no_context(task: Task) -> None:
    features = {"sc": 2.41, "htn": 1, "hemo": 10.05}
    prompt = build_prompt(task, [features], context="long transcript")
    for shown in ("2.41", "10.05", "hypertension: yes", "long transcript"):
        assert shown in prompt.user
        assert shown not in prompt.template


class Colour(StrEnum):
    PALE = "pale"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.datetime64("2020-01-01T00:00:00.000000001"), "2020-01-01T00:00:00.000000001"),
        (np.datetime64("2020-01-01"), "2020-01-01"),
        (np.datetime64("NaT"), "not measured"),
        (date(2020, 1, 2), "2020-01-02"),
        (Colour.PALE, "pale"),
        (np.array([1.0, 2.5]), "1, 2.5"),
        ([], "none"),
        ([["a", "b"], None], "(a, b), not measured"),
    ],
)
def test_values_of_other_libraries_are_shown_as_they_read(value: object, words: str) -> None:
    assert value_in_words(value, FeatureDescription("finding")) == words
