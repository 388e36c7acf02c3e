"""Every command prints on streams of any encoding, and exits as documented."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from krisis.cli.app import main

ENCODINGS = ("utf-8", "cp1252", "latin-1", "ascii")
Call = Callable[..., tuple[int, str, str]]


def call(encoding: str, *arguments: str) -> tuple[int, str, str]:
    """Run the command line on streams of an encoding: exit status, output and errors."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    before = sys.stdout, sys.stderr, sys.argv
    sys.stdout, sys.stderr = streams
    sys.argv = ["krisis", *arguments]
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.stdout, sys.stderr, sys.argv = before
    written = []
    for stream in streams:
        stream.flush()
        written.append(stream.buffer.getvalue().decode(encoding))  # type: ignore[attr-defined]
    return int(ended.value.code or 0), written[0], written[1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("runs")
    for model in ("guideline", "majority"):
        options = ("--limit", "30", "--no-baselines", "-o", str(folder))
        call("utf-8", "run", "ckd", "--model", model, *options)
    return sorted(map(str, folder.iterdir()))


def commands(runs: list[str]) -> dict[str, tuple[int, list[str]]]:
    """Return commands with the exit status that is documented for them."""
    first, second = runs
    return {
        "run": (0, ["run", "ckd", "--model", "majority", "--limit", "4", "--no-baselines"]),
        "dry run": (0, ["run", "ckd", "--model", "majority", "--limit", "4", "--dry-run"]),
        "show": (0, ["show", first]),
        "show again": (0, ["show", first, "-m", "accuracy", "-m", "aurc"]),
        "compare": (0, ["compare", first, second, "--permutations", "99"]),
        "selective": (0, ["selective", first, "--bootstrap-resamples", "50"]),
        "check met": (0, ["check", first, "--require", "accuracy >= 0"]),
        "check failed": (1, ["check", first, "--require", "accuracy >= 1"]),
        "doctor": (0, ["doctor", first]),
        "info": (0, ["info"]),
        "help": (0, ["run", "--help"]),
        "unknown": (2, ["run", "ckd", "--model", "nobody–knows"]),
    }


NAMES = list(commands(["", ""]))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", NAMES)
def test_a_command_prints_in_any_encoding(
    runs: list[str], name: str, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected, arguments = commands(runs)[name]
    code, out, err = call(encoding, *arguments)
    assert code == expected, err
    assert "Traceback" not in err
    said = out if code == 0 else out + err
    assert said.strip()
    if encoding == "ascii":
        assert said.isascii()
    if name == "unknown":
        assert f"nobody{'–' if encoding in ('utf-8', 'cp1252') else '-'}knows" in err
    if name == "show":
        assert f"30 loaded {'→' if encoding == 'utf-8' else '->'} 30 sent" in out


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", ["show", "compare", "check met"])
def test_json_says_the_same_in_any_encoding(runs: list[str], name: str, encoding: str) -> None:
    arguments = [*commands(runs)[name][1], "--format", "json"]
    found = json.loads(call(encoding, *arguments)[1])
    assert found == json.loads(call("utf-8", *arguments)[1])


def test_signs_without_a_stand_in_lose_their_accent_or_become_a_question_mark() -> None:
    _, _, err = call("ascii", "show", "naïve-µ≥²-漢")
    assert "naive-u>=2-?" in err
