"""Vignettes: the suite labels each as its source says, and the docs print the same ones."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from krisis.data.ckd.cohort import draw_cohort
from krisis.data.ckd.courses import course_features, course_label
from krisis.data.ckd.deferral import broken_rules
from krisis.data.ckd.reading import Question, ideal_probabilities
from krisis.data.ckd.schema import CONTEXT, FEATURES

CASES = tomllib.loads((files("krisis.data.ckd") / "vignettes.toml").read_text("utf-8"))["case"]
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "suites" / "ckd.md"
WORDS = {0: "present", 1: "absent"}


def shown(case):
    found = {}
    for name, value in case["findings"].items():
        feature = FEATURES.get(name) or CONTEXT[name]
        found[name] = feature.codes[value] if isinstance(value, str) else value
    if "visits" in case:
        days, creatinine = zip(*case["visits"], strict=True)
        found |= course_features(days, creatinine, age=found["age"], female=bool(found["sex"]))
    return found


def answered(case):
    question = Question(case["task"])
    chances = ideal_probabilities(question, [shown(case)])[0]
    best = question.answers[int(chances.argmax())]
    if 1 - chances.max() >= 0.2:
        return "defer", chances
    if case["task"] == "detection":
        return WORDS[best], chances
    return (f"G{best}" if case["task"] == "staging" else best), chances


def is_like(visible, findings):
    """Say whether a patient is as old and has as low a creatinine."""
    creatinine = visible["sc"]
    return (
        creatinine is not None
        and visible["age"] >= findings["age"]
        and creatinine <= findings["sc"]
    )


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_suite_labels_a_vignette_as_its_source_says(case):
    if case["answer"] == "not in the cohort":
        assert not [p for p in draw_cohort(4000, seed=2) if is_like(p.visible, case["findings"])]
        return
    found, chances = answered(case)
    assert found == case["answer"], chances
    assert broken_rules(shown(case), case["task"]) == case["rules"]
    if "definition" in case:
        stated = dict(case["definition"])
        label = course_label(stated.pop("first"), stated.pop("last"), stated.pop("days"), **stated)
        assert label == case["answer"]


def test_the_docs_print_every_vignette():
    page = PAGE.read_text(encoding="utf-8")
    for case in CASES:
        assert f"| {case['name']} | {case['task']} | {case['answer']} | {case['why']} |" in page
    assert len(CASES) >= 20
