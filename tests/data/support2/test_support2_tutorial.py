"""The tutorial on SUPPORT2 is typed in, and prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pages import ROOT, assert_shown_in_order, follow

PAGE = ROOT / "docs" / "tutorials" / "support2.md"


@pytest.mark.slow
def test_the_tutorial_prints_what_it_shows(
    real_support2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = follow(PAGE, tmp_path)
    assert len(pairs) == 5
    for content, printed in pairs:
        assert_shown_in_order(content, printed)
