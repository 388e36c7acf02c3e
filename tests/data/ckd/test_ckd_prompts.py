"""The prompts ask and do not tell: nothing of the generator, the labels or the metadata."""

from __future__ import annotations

import re

import pytest

from krisis.backends.elicitation import Asking
from krisis.backends.prompt import build_prompt
from krisis.data.base import SuiteConfig
from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.suite import CKDSuite
from krisis.data.ckd.uci import uci_text
from krisis.data.instructions import Instructions, costs_in_words

TASKS = tuple(CKDSuite.tasks)
HIDDEN = ("usual_egfr", "true_acr_mg_g", "first_level", "last_level")


@pytest.fixture(scope="module")
def uci_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("ckd") / "cohort.csv"
    path.write_text(uci_text(draw_cohort(120, seed=8)))
    return path


def prompts(suite, instructions):
    task = suite.task
    asking = Asking(instructions=instructions)
    for record in suite.load():
        yield record, build_prompt(task, [record.features], asking=asking)


@pytest.mark.parametrize("instructions", list(Instructions))
@pytest.mark.parametrize("task", TASKS)
def test_no_label_metadata_flag_or_posterior_is_in_a_prompt(task, instructions):
    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=25))
    for record, prompt in prompts(suite, instructions):
        text = f"{prompt.system}\n{prompt.user}"
        assert not [key for key in record.metadata if "_" in key and key in text]
        for key in HIDDEN:
            secret = str(record.metadata.get(key, "not shown"))
            assert f" {secret} " not in prompt.user
        for chance in record.metadata["answer_probabilities"].values():
            assert len(str(chance)) < 5 or str(chance) not in text
        # What the system message says is the same for every patient.
        assert (
            prompt.system
            == build_prompt(suite.task, [{}], asking=Asking(instructions=instructions)).system
        )


@pytest.mark.parametrize("task", TASKS)
def test_a_prompt_has_no_table_and_by_default_no_rule(task):
    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=2))
    system = next(prompts(suite, Instructions.PRICE))[1].system
    assert " | " not in system
    assert "Adults " in system
    assert f"You may abstain. {costs_in_words(suite.task)}" in system
    assert len(system) < 1700
    assert not re.search(r"\d %(?! or more| of a missed)", system.replace("25 % or more", ""))
    policy = next(prompts(suite, Instructions.POLICY))[1].system
    assert "1. your best answer is expected to cost as much as an abstention or more\n2. " in policy


@pytest.mark.parametrize("instructions", list(Instructions))
@pytest.mark.parametrize("task", ["detection", "staging"])
def test_of_a_file_nothing_is_invented(task, instructions, uci_file):
    suite = CKDSuite(SuiteConfig(task=task), uci_file)
    for _, prompt in prompts(suite, instructions):
        assert "kidney clinic" not in prompt.system
        assert "Adults" not in prompt.system
        assert "usual eGFR" not in prompt.system
        assert "repeated" not in prompt.system
    assert suite.task.setting == ""


def test_the_digits_that_were_measured_are_shown():
    suite = CKDSuite(SuiteConfig(n_synthetic=200))
    text = "\n".join(prompt.user for _, prompt in prompts(suite, Instructions.PRICE))
    assert re.search(r"creatinine: [12]\.0 mg/dL", text)
    assert re.search(r"gravity: 1\.0[12]0\n", text)
    assert not re.search(r"creatinine: \d mg/dL", text)
