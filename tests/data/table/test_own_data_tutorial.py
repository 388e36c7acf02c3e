"""The tutorial from a CSV to a report is typed in, with its edits, and prints what it shows."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from tests.data.phq8.test_phq8_tutorial import BLOCK, assert_shown_in_order

from krisis.cli.app import main

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "tutorials" / "own-data.md"


def edited(text: str, difference: str) -> str:
    """Replace runs of lines with a minus by the lines with a plus that follow them."""
    old: list[str] = []
    new: list[str] = []
    for line in [*difference.splitlines(), "-"]:
        if line.startswith("-") and new:
            assert text.count("\n".join(old)) == 1, f"not in the draft: {old}"
            text = text.replace("\n".join(old), "\n".join(new))
            old, new = [], []
        (old if line.startswith("-") else new).append(line[1:])
    return text


def typed(
    commands: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Run commands in this process, and return what they print and how they end."""
    ends = []
    for line in commands.splitlines():
        words = shlex.split(line.partition(" 2>&1")[0])
        files = [sorted(map(str, Path().glob(w))) if "*" in w else [w] for w in words]
        monkeypatch.setattr("sys.argv", [word for some in files for word in some])
        with pytest.raises(SystemExit) as ended:
            main()
        ends += [f"exit {ended.value.code}"] if ended.value.code else []
    printed = capsys.readouterr()
    return "\n".join([printed.err, printed.out, *ends])


def test_the_tutorial_goes_from_a_csv_to_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "tables" / "patients.csv", tmp_path)
    file = tmp_path / "patients.yaml"
    printed, n_shown = "", 0
    for kind, content in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "bash":
            printed = typed(content, monkeypatch, capsys)
        elif kind == "diff":
            file.write_text(edited(file.read_text(encoding="utf-8"), content), encoding="utf-8")
        elif kind == "output":
            assert_shown_in_order(content, printed)
            n_shown += 1
    assert n_shown == 4
    assert '"TODO' not in file.read_text(encoding="utf-8")
    assert (tmp_path / "report.html").stat().st_size > 10_000
