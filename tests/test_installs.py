"""The wheel, and every line of the documentation that installs krisis, in fresh environments."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINE = re.compile(r"pip install (-c constraints\.txt )?'?\.(?:\[([a-z,]+)\])?'?")
VERSIONS = ("3.11", "3.12", "3.13")


def install_lines() -> list[tuple[str, bool]]:
    """Return the extras of every line that installs, and whether it names the constraints."""
    found = {
        (extras, bool(constrained))
        for page in PAGES
        if "decisions" not in page.parts
        for constrained, extras in LINE.findall(page.read_text(encoding="utf-8"))
    }
    return sorted(found)


def test_the_documentation_installs_the_core_and_extras() -> None:
    lines = install_lines()
    assert ("", False) in lines
    assert ("tables,report", False) in lines
    assert any(constrained for _, constrained in lines)


def _python(version: str) -> str | None:
    """Return the interpreter of a version, on the path or under pyenv."""
    if found := shutil.which(f"python{version}"):
        works = subprocess.run([found, "--version"], capture_output=True, check=False)
        if works.returncode == 0:
            return found
    under = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(under[-1]) if under else None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    (built,) = folder.glob("*.whl")
    return built


def _installed(python: str, folder: Path, what: list[str]) -> Path:
    """Install into a fresh environment and return its folder of commands."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(commands / "python"), "-m", "pip"]
    subprocess.run([*pip, "install", "-q", "--disable-pip-version-check", *what], check=True)
    subprocess.run([*pip, "check"], check=True, capture_output=True)
    return commands


def _first_number(commands: Path, folder: Path) -> str:
    command = [str(commands / "krisis"), "run", "ckd", "--model", "guideline"]
    done = subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_runs_in_a_bare_environment(wheel: Path, tmp_path: Path, version: str) -> None:
    python = _python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    commands = _installed(python, tmp_path / "venv", [str(wheel)])
    shown = _first_number(commands, tmp_path)
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(("Knew when not", "Right when it", "Usable at a risk")):
            assert line in shown


@pytest.mark.slow
@pytest.mark.parametrize(("extras", "constrained"), install_lines())
def test_every_install_line_of_the_documentation(
    wheel: Path, tmp_path: Path, extras: str, constrained: bool
) -> None:
    what = [f"{wheel}[{extras}]" if extras else str(wheel)]
    what += ["-c", str(ROOT / "constraints.txt")] if constrained else []
    commands = _installed(sys.executable, tmp_path / "venv", what)
    assert "108 answered / 92 abstained" in _first_number(commands, tmp_path)
    if "report" in extras:
        (run,) = (tmp_path / "runs").glob("*.krisis")
        report = [str(commands / "krisis"), "report", str(run), "-o", "report.html"]
        subprocess.run(report, check=True, cwd=tmp_path, capture_output=True)
        assert (tmp_path / "report.html").stat().st_size > 10_000
