"""The page on own data is typed in, with its edits, and prints what it shows."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.pages import ROOT, assert_shown_in_order, follow

PAGE = ROOT / "docs" / "how-to" / "own-data.md"


def test_the_page_goes_from_a_csv_to_a_report(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "tables" / "patients.csv", tmp_path)
    pairs = follow(PAGE, tmp_path)
    assert len(pairs) == 6
    for shown, printed in pairs:
        assert_shown_in_order(shown, printed)
    assert '"TODO' not in (tmp_path / "patients.yaml").read_text(encoding="utf-8")
    assert (tmp_path / "report.html").stat().st_size > 10_000
