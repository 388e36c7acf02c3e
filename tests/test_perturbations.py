"""Every other form of a prompt shows every value: read back from the text, suite by suite."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from krisis import PatientRecord, SuiteConfig, registry
from krisis.backends.elicitation import Asking
from krisis.backends.prompt import Prompt, build_prompt
from krisis.data.base import BaseDataSuite, FeatureDescription, FeatureSet, SecondUnit, Task
from krisis.data.perturbation import (
    Perturbation,
    Perturbed,
    changes_prompt,
    in_second_unit,
    reordered,
)
from krisis.data.table.suite import TableSuite
from krisis.errors import InvalidValue

pytestmark = pytest.mark.usefixtures("made_up_support2")
TABLES = Path(__file__).parents[1] / "examples" / "tables"
# Finding and new unit → how much of it one old unit is, from molar masses in g/mol.
FACTORS = {
    ("creatinine", "µmol/L"): 10_000 / 113.12,
    ("glucose", "mmol/L"): 10 / 180.156,
    ("urea", "mmol/L"): 10 / 60.056,
    ("blood pressure", "kPa"): 0.133322,
    ("sodium", "mEq/L"): 1,
    ("potassium", "mEq/L"): 1,
    ("haemoglobin", "g/L"): 10,
    ("packed cell volume", "L/L"): 0.01,
    ("white blood cell count", "×10⁹ cells/L"): 1e6 / 1e9,
    ("red blood cell count", "×10¹² cells/L"): 1e6 * 1e6 / 1e12,
    ("reading", "cmHg"): 0.1,
    ("blood pressure", "cmHg"): 0.1,
    ("waist", "inches"): 1 / 2.54,
    ("cholesterol", "mmol/L"): 10 / 386.65,
    ("hba1c", "mmol/mol"): 10.93,
}
# What is added after the factor: the rounded master equation of the IFCC for HbA1c.
OFFSETS = {"mmol/mol": -23.5}
MISSING = {
    " not measured": " no measurement available",
    " not stated": " no information available",
}
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?")


def every_task() -> Iterator[Any]:
    for path in sorted(TABLES.glob("*.yaml")):
        if path.name != "fhir.yaml":
            for task in TableSuite(path).tasks:
                yield pytest.param(str(path), task, FeatureSet.REDUCED, id=f"{path.name}-{task}")
    for name in registry.BUILT_IN["suites"]:
        kind = registry.find("suites", name)
        for task in kind.tasks:
            for features in kind.feature_sets or (FeatureSet.REDUCED,):
                yield pytest.param(name, task, features, id=f"{name}-{task}-{features}")


@cache
def loaded(name: str, task: str, features: FeatureSet) -> tuple[BaseDataSuite, list[PatientRecord]]:
    kind, is_file = registry.find("suites", name), registry.is_suite_file(name)
    few = {} if is_file or kind.terms else {"n_synthetic": 40}
    config = SuiteConfig(task=task, features=features, **few)
    suite = TableSuite(name, config=config) if is_file else kind(config)
    return suite, suite.load()[:40]


def findings(prompt: Prompt) -> list[tuple[str, str]]:
    """Read names and values back from the text; quoted lines belong to the finding above them."""
    shown = prompt.user.rpartition("</context>")[2].split("\n- ")[1:]
    return [(name, value) for name, _, value in (one.partition(":") for one in shown)]


def converted_back(name: str, shown: str, perturbed: str) -> bool:
    """Say whether a number in another unit is the number shown, to the digits shown."""
    number, unit = re.fullmatch(r" ([\d.]+) (.+)", perturbed).groups()
    (factor,) = [f for (what, to), f in FACTORS.items() if what in name.lower() and to == unit]
    old = re.match(r" ([\d.]+) ", shown)[1]
    n_decimals = len(old.partition(".")[2])
    back = (float(number) - OFFSETS.get(unit, 0)) / factor
    # The factors of suites are rounded: 0.05 % is less than any digit that is shown.
    return abs(back - float(old)) <= 0.5 * 10**-n_decimals + 5e-4 * float(old)


@pytest.mark.parametrize("kind", Perturbation)
@pytest.mark.parametrize(("name", "task_name", "features"), list(every_task()))
def test_every_visible_value_is_kept(
    name: str, task_name: str, features: FeatureSet, kind: Perturbation
) -> None:
    suite, records = loaded(name, task_name, features)
    task, asking = suite.task, Asking(perturbed=Perturbed(kind, 7))
    for record in records:
        plain = build_prompt(task, [record.features], context=record.context)
        other = build_prompt(task, [record.features], context=record.context, asking=asking)
        if changes_prompt(kind, task, record.features):
            assert plain != other
        else:  # ranges may be in another unit where no value is shown
            assert plain.user == other.user
        before, after = findings(plain), findings(other)
        assert sorted(n for n, _ in before) == sorted(n for n, _ in after)
        assert plain.user.partition("</context>")[0] == other.user.partition("</context>")[0] or (
            not record.context
        )
        if kind is Perturbation.FEATURE_ORDER:
            assert Counter(before) == Counter(after)
            assert before != after or len(before) < 2
        elif kind is Perturbation.MISSING_WORD:
            assert [(n, MISSING.get(v, v)) for n, v in before] == after
        elif kind is Perturbation.UNIT:
            for (label, shown), (same, again) in zip(before, after, strict=True):
                assert label == same
                assert again == shown or converted_back(label, shown, again)
        else:
            assert before == after


@pytest.mark.parametrize(("name", "task_name", "features"), list(every_task()))
def test_what_is_said_before_the_findings_keeps_its_figures(
    name: str, task_name: str, features: FeatureSet
) -> None:
    suite, records = loaded(name, task_name, features)
    shown = records[0].features

    def said(kind: Perturbation | None) -> str:
        perturbed = None if kind is None else Perturbed(kind, 3)
        return build_prompt(suite.task, [shown], asking=Asking(perturbed=perturbed)).system

    plain = said(None)
    figures = Counter(NUMBER.findall(plain))
    for kind in (Perturbation.FEATURE_ORDER, Perturbation.ANSWER_ORDER, Perturbation.MISSING_WORD):
        assert Counter(said(kind).splitlines()) == Counter(plain.splitlines())
        assert Counter(NUMBER.findall(said(kind))) == figures
    assert said(Perturbation.ANSWER_ORDER) != plain
    assert set(NUMBER.findall(said(Perturbation.PARAPHRASE))) == set(figures)
    in_units = said(Perturbation.UNIT).splitlines()
    for old, new in zip(plain.splitlines(), in_units, strict=True):
        if old != new:  # a range: every end of it is converted
            label, _, meaning = new.partition(":")
            unit = meaning.rpartition(", in ")[2]
            ends = NUMBER.findall(meaning.rpartition(", in ")[0])
            assert len(ends) == len(NUMBER.findall(old.partition(":")[2]))
            for end, first in zip(ends, NUMBER.findall(old.partition(":")[2]), strict=True):
                assert converted_back(label, f" {first.replace(',', '')} ", f" {end} {unit}")


@pytest.mark.parametrize(
    ("value", "factor", "offset", "shown"),
    [
        (2.4, 88.4, 0, "212.2"),  # 212.16; 212 would be 2.398
        (1, 88.4, 0, "88.4"),
        (120, 0.05551, 0, "6.662"),  # 6.66 would be 119.98, 6.67 is 0.13 % too much
        (121, 0.05551, 0, "6.72"),
        (20, 0.1665, 0, "3.33"),  # 3.3 would be 19.8, and the kidney rules speak of below 20
        (6.5, 10.93, -23.5, "47.6"),  # HbA1c in mmol/mol: 47.545; 47.5 would be below 6.5
        (37, 1.8, 32, "98.6"),
        ("0.95", 88.4, 0, "84"),
        (0, 0.05551, 0, "0"),
        ([2.4, None], 88.4, 0, ["212.2", None]),
        ("high", 88.4, 0, None),
        (float("nan"), 88.4, 0, None),
        (True, 88.4, 0, None),
    ],
)
def test_a_value_in_its_second_unit_by_hand(
    value: object, factor: float, offset: float, shown: object
) -> None:
    assert in_second_unit(value, SecondUnit("u", factor, offset)) == shown


def test_a_value_that_is_no_number_keeps_the_unit_that_it_has() -> None:
    creatinine = FeatureDescription("Creatinine", "mg/dL", second_unit=SecondUnit("µmol/L", 88.4))
    task = Task("t", "?", {0: "no", 1: "yes"}, {"sc": creatinine})
    asked = Asking(perturbed=Perturbed(Perturbation.UNIT, 0))
    assert build_prompt(task, [{"sc": ">15"}], asking=asked).user.endswith("Creatinine: >15 mg/dL")
    assert build_prompt(task, [{"sc": 2.4}], asking=asked).user.endswith("212.2 µmol/L")


@pytest.mark.parametrize("factor", [0, float("nan"), float("inf")])
def test_a_second_unit_without_a_factor_is_refused(factor: float) -> None:
    with pytest.raises(InvalidValue, match="factor"):
        SecondUnit("µmol/L", factor)


def test_another_order_is_never_the_given_one_and_depends_on_the_seed_alone() -> None:
    names = ["a", "b"]
    assert all(reordered(names, seed) == ["b", "a"] for seed in range(20))
    orders = {tuple(reordered(list("abcdef"), seed)) for seed in range(20)}
    assert len(orders) > 10
    assert reordered(list("abcdef"), 1) == reordered(list("abcdef"), 1)
