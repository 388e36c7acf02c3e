"""The tutorial is typed in as it stands, in an empty folder, and must print what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.pages import ROOT, assert_shown_in_order, follow

PAGE = ROOT / "docs" / "tutorials" / "phq8.md"


@pytest.mark.slow
def test_the_tutorial_runs_from_an_empty_folder_and_prints_what_it_shows(tmp_path: Path) -> None:
    pairs = follow(PAGE, tmp_path)
    assert len(pairs) == 5
    for shown, printed in pairs:
        assert_shown_in_order(shown, printed)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert set(figures["confidence_variants"]) == {"verbalized", "calibrated"}
    assert (tmp_path / "curves.svg").stat().st_size > 1000
