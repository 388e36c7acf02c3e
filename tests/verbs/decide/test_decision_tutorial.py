"""The tutorial from a run to a decision is typed in, and prints what it shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.commands import krisis
from tests.pages import ROOT, assert_shown_in_order, follow

PAGE = ROOT / "docs" / "tutorials" / "decision.md"


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copy(ROOT / "examples" / "ward_model.py", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_commands_of_the_tutorial_end_as_it_says(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("krisis.pages.figure.Figure.svg", "<svg></svg>")  # drawing takes long
    page = PAGE.read_text(encoding="utf-8")
    page = page.replace("--n-synthetic 600", "--n-synthetic 70 --no-baselines")
    page = page.replace("--risk 0.2 ", "--risk 0.4 ").replace(
        "--half-width 0.04", "--half-width 0.3"
    )
    ends = [
        re.findall(r"^exit \d$", printed, re.MULTILINE) for _, printed in follow(PAGE, ward, page)
    ]
    assert ends == [[]] * 7 + [["exit 1"], []]
    sheet = (ward / "sheet.md").read_text(encoding="utf-8")
    assert "of 70 stored rows" in sheet
    (first,), (second,) = ward.glob("first/*"), ward.glob("second/*")
    refused = krisis("report", str(second), "--prevalence", "0.1", "-o", "r.html", cwd=ward)
    assert "add --decide or --curve" in refused.stderr
    pilot = krisis("plan", "certify", "--risk", "0.01", "--from", str(first), cwd=ward)
    assert "which is not below 0.01; give the risk above a stricter threshold" in pilot.stderr
    report = (ward / "report.html").read_text(encoding="utf-8")
    for title in ("Certified threshold", "Costs", "Decision curve", "Audit"):
        assert f">{title}</h2>" in report
    assert report.count("Re-weighted to") == 2


@pytest.mark.slow
def test_the_tutorial_prints_what_it_shows(ward: Path) -> None:
    pairs = follow(PAGE, ward)
    assert len(pairs) == 9
    for content, printed in pairs:
        assert_shown_in_order(content, printed)
    sheet = (ward / "sheet.md").read_text(encoding="utf-8")
    assert "49 items: 32 author must fill, 10 filled, 7 not applicable" in sheet
