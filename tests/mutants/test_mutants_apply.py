"""The list of planted bugs cannot rot: each still applies to the source, at one place only."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache

import pytest
from tests.mutants.planted import ROOT, SOURCE, Mutant, all_mutants

MUTANTS = all_mutants()


@cache
def source(file: str) -> tuple[str, str]:
    text = (SOURCE / file).read_text(encoding="utf-8")
    return text, ast.dump(ast.parse(text))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.area}-{mutant.name}")
def test_a_planted_bug_changes_one_place_of_a_source_that_still_parses(mutant: Mutant) -> None:
    original, tree = source(mutant.file)
    assert ast.dump(ast.parse(mutant.applied_to(original))) != tree


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.area}-{mutant.name}")
def test_the_tests_that_must_notice_it_exist(mutant: Mutant) -> None:
    assert mutant.tests
    assert mutant.breaks.endswith(".")
    for test in mutant.tests:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text


def test_there_are_at_least_sixty_with_names_of_their_own() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    assert len(names) >= 60
    assert names.most_common(1)[0][1] == 1
