"""The vignettes of the page: every score and every reason, scored by the days that they come to."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest
from tests.pages import ROOT

from krisis.data.phq8.interviews import WITHHELD_REASONS
from krisis.data.phq8.items import ITEM_KEYS, ITEMS
from krisis.data.phq8.lexicon import score_of_days
from krisis.data.phq8.wording import DAYS

FILE = files("krisis.data.phq8") / "vignettes.toml"
VIGNETTES = tomllib.loads(FILE.read_text(encoding="utf-8"))["vignette"]
PAGE = (ROOT / "docs" / "reference" / "suites" / "phq8.md").read_text(encoding="utf-8")


def answer(vignette: dict[str, object]) -> str:
    if "defer" in vignette:
        return f"defer: {str(vignette['defer']).replace('_', ' ')}"
    return str(score_of_days(int(str(vignette["days"]))))


@pytest.mark.parametrize("vignette", VIGNETTES, ids=lambda one: one["why"][:30])
def test_a_vignette_is_on_the_page_as_the_suite_scores_it(vignette: dict[str, object]) -> None:
    words = next(item.words for item in ITEMS if item.key == vignette["item"])
    said = vignette["said"] or "(nothing)"
    assert f"| {words} | {said} | {answer(vignette)} | {vignette['why']} |" in PAGE
    if "days" in vignette:
        n_days = int(str(vignette["days"]))
        score = score_of_days(n_days)
        first, last = DAYS.get(score, (0, 1))  # the days by which the interviews are written
        assert first <= n_days <= last


def test_the_vignettes_have_every_item_every_score_and_every_reason() -> None:
    assert len(VIGNETTES) >= 20
    assert {one["item"] for one in VIGNETTES} == set(ITEM_KEYS)
    assert {answer(one) for one in VIGNETTES if "days" in one} == {"0", "1", "2", "3"}
    assert {one["defer"] for one in VIGNETTES if "defer" in one} == set(WITHHELD_REASONS)
