"""The tutorial from a run to a decision is typed in, and prints what it shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.data.phq8.test_phq8_tutorial import BLOCK, assert_shown_in_order
from tests.data.table.test_own_data_tutorial import edited, typed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorials" / "decision.md").read_text(encoding="utf-8")


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copy(ROOT / "examples" / "ward_model.py", tmp_path)
    return tmp_path


def follow(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[tuple[str, str]]:
    """Type the commands of a page and make its edits; return what it shows and what was printed."""
    printed, found = "", []
    for kind, content in BLOCK.findall(page):
        if kind == "bash":
            printed = typed(content, monkeypatch, capsys)
            found.append(("", printed))
        elif kind == "diff":
            file = Path("costs.yaml")
            file.write_text(edited(file.read_text(encoding="utf-8"), content), encoding="utf-8")
        elif kind == "output":
            found.append((content, printed))
    return found


@pytest.mark.slow
def test_the_commands_of_the_tutorial_end_as_it_says(
    ward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("krisis.reporting.figure.Figure.svg", "<svg></svg>")  # drawing takes long
    page = PAGE.replace("--n-synthetic 600", "--n-synthetic 70 --no-baselines")
    page = page.replace("--risk 0.1 ", "--risk 0.3 ").replace(
        "--half-width 0.04", "--half-width 0.3"
    )
    blocks = follow(page, monkeypatch, capsys)
    ends = [re.findall(r"^exit \d$", printed, re.MULTILINE) for shown, printed in blocks if shown]
    assert ends == [[]] * 7 + [["exit 1"], []]
    sheet = (ward / "sheet.md").read_text(encoding="utf-8")
    assert "other forms: Asked in another form as well: 70 of 70" in sheet
    assert "of 70 stored rows" in sheet
    refused = typed("krisis report second/* --prevalence 0.1 -o r.html", monkeypatch, capsys)
    assert "add --cost or --curve" in refused
    pilot = typed("krisis plan certify --risk 0.01 --from first/*", monkeypatch, capsys)
    assert "which is not below 0.01; give the risk above a stricter threshold" in pilot
    report = (ward / "report.html").read_text(encoding="utf-8")
    for title in ("Certified threshold", "Costs", "Decision curve", "Audit"):
        assert f">{title}</h2>" in report
    assert report.count("Moved to") == 2


@pytest.mark.slow
def test_the_tutorial_prints_what_it_shows(
    ward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [pair for pair in follow(PAGE, monkeypatch, capsys) if pair[0]]
    assert len(shown) == 9
    for content, printed in shown:
        assert_shown_in_order(content, printed)
    sheet = (ward / "sheet.md").read_text(encoding="utf-8")
    assert "Of 49 items, 10 are filled from the run, 32 must be filled by the author" in sheet
