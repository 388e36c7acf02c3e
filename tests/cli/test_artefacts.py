"""Every artefact given to every command that takes a run: the table of the docs is what happens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.commands import Done, krisis, offered

from krisis.cli.app import COMMANDS
from krisis.errors import InvalidFile
from krisis.results.artefacts import ARTEFACTS, kind_of
from krisis.viewer.app import create_app

ROOT = Path(__file__).parents[2]
(PAGE,) = (ROOT / "docs").rglob("commands.md")
# How each command is given a run; RUN is the artefact, OTHER a second run on the same records.
TYPED = {
    "show": "show RUN",
    "report": "report RUN -o OUT.html",
    "compare": "compare RUN OTHER --permutations 99 -m accuracy",
    "figure": "figure RUN --kind forest -m accuracy -o OUT.svg",
    "sheet": "sheet RUN",
    "check": "check RUN --require RULE",
    "selective": "selective RUN --bootstrap-resamples 20",
    "calibrate": "calibrate RUN -o OUT.json --force",
    "certify": "certify RUN --risk 0.5",
    "verify": "verify certificate.json RUN",
    "monitor": "monitor certificate.json --new RUN",
    "decide": "decide RUN",
    "audit": "audit RUN",
    "plan": "plan certify --from RUN --risk 0.9 --n 3",
    "export": "export RUN --to jsonl -o OUT.jsonl",
    "doctor": "doctor RUN",
    "resume": "resume RUN",
    "batches": "batches list RUN",
}
TYPED = {words[0]: " ".join(words) for words in offered([one.split() for one in TYPED.values()])}
# Kinds that no command takes as a run.
OTHERS = ("selective output", "calibrator", "certificate", "old run", "plan", "table")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make every artefact once, of one small run of interviews."""
    path = tmp_path_factory.mktemp("artefacts")
    asked = "--limit 32 --n-synthetic 20 --no-cache --no-baselines --metric accuracy --display none"
    done(path, f"run phq8 --model lexicon -o runs {asked}")
    done(path, f"run phq8 --model majority --model rule/always-0 -o grids {asked}")
    (run,) = (path / "runs").glob("*.krisis")
    (path / "old").mkdir()
    (path / "old" / "manifest.json").write_text("{}")
    done(path, f"show runs/{run.name} -m accuracy --save result.json")
    (path / "metrics.json").write_text(done(path, f"show runs/{run.name} --format json").stdout)
    done(path, f"export runs/{run.name} --to parquet -o rows.parquet")
    done(path, f"export runs/{run.name} --to csv -o rows.csv")
    done(path, f"selective runs/{run.name} --output s.json --bootstrap-resamples 20")
    done(path, f"calibrate runs/{run.name} -o calibrator.json --force")
    # So few answers certify nothing, and that is what the certificate says.
    krisis("certify", f"runs/{run.name}", "--risk", "0.9", "-o", "certificate.json", cwd=path)
    return path


def done(path: Path, line: str) -> Done:
    result = krisis(*line.split(), cwd=path)
    assert result.returncode == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def places(folder: Path) -> Mapping[str, Path]:
    (run,) = (folder / "runs").glob("*.krisis")
    (grid,) = _grids(folder)
    return {
        "run": run,
        "saved result": folder / "result.json",
        "metrics file": folder / "metrics.json",
        "run file": run.with_suffix(".json"),
        "Parquet rows": folder / "rows.parquet",
        "grid folder": grid,
        "folder of runs": folder / "runs",
        "selective output": folder / "s.json",
        "calibrator": folder / "calibrator.json",
        "certificate": folder / "certificate.json",
        "old run": folder / "old",
        "plan": grid / "grid.json",
        "table": folder / "rows.csv",
    }


def _grids(folder: Path) -> list[Path]:
    return [one for one in (folder / "grids").iterdir() if (one / "grid.json").is_file()]


def table_of_the_docs() -> dict[str, dict[str, bool]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| command | run |"))
    _, *kinds = cells(lines[start])
    found = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *marks = cells(line)
        assert set(marks) <= {"yes", "–"}
        found[name.strip("`")] = dict(zip(kinds, (mark == "yes" for mark in marks), strict=True))
    return found


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_of_the_docs_has_every_command_that_takes_a_run() -> None:
    shown = table_of_the_docs()
    assert set(shown["show"]) == set(ARTEFACTS) - {*OTHERS, "suite"}
    assert {*TYPED, "view"} <= set(COMMANDS)
    assert set(shown) & set(COMMANDS) == {*TYPED, "view"}


def test_every_artefact_is_recognised(places: Mapping[str, Path]) -> None:
    assert {kind: kind_of(path) for kind, path in places.items()} == {kind: kind for kind in places}


@pytest.mark.parametrize("command", TYPED)
def test_a_command_takes_what_the_table_says_and_names_what_it_refuses(
    command: str, places: Mapping[str, Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("krisis.verbs.report.page", lambda document: "drawn in another test")
    taken = table_of_the_docs()[command]
    other = next(places["grid folder"].glob("*.krisis"))
    for kind, path in places.items():
        for left in folder.glob("OUT*"):
            left.unlink()
        # Run files name records by participant and item: one is compared with another.
        second = other.with_suffix(".json") if kind == "run file" else other
        named = {"RUN": str(path), "OTHER": str(second), "RULE": "accuracy >= 0"}
        words = [named.get(word, word) for word in TYPED[command].split()]
        if kind == "grid folder":  # its runs are compared with each other
            words = [word for word in words if word != str(second)]
        result = krisis(*words, cwd=folder)
        if taken.get(kind) and command == "batches":
            assert "it has no provider batches" in result.stderr
        elif taken.get(kind) and command in ("verify", "monitor"):
            assert " a run of " in result.stderr  # these patients made the certificate
        elif taken.get(kind):
            fine = (0, 1) if command == "certify" else (0,)
            assert result.returncode in fine, f"{command} of a {kind}: {result.stderr}"
        else:
            assert result.returncode == 2, f"{command} of a {kind}"
            assert f"{path} is {ARTEFACTS[kind].words}" in result.stderr
            assert result.stderr.count("\n") == 1
            assert not list(folder.glob("OUT*"))


def test_the_viewer_opens_the_folders_that_the_table_says(places: Mapping[str, Path]) -> None:
    taken = table_of_the_docs()["view"]
    for kind in taken:
        if taken[kind]:
            create_app(places[kind])
        else:
            with pytest.raises(InvalidFile):
                create_app(places[kind])
