"""`krisis check`: requirements on a run, for continuous integration."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from krisis.cli.certify import MaxNotEvaluated
from krisis.cli.console import warn_of_damage
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.decisions.check import Gate, check_run, exit_code, to_json, to_junit, to_markdown
from krisis.decisions.missing_rows import MOST_NOT_EVALUATED
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.json_values import dumps, write_text
from krisis.results.base import BenchmarkResult
from krisis.results.loading import load_result, scored_from_rows, with_rows
from krisis.results.report_tables import mixture, optional_stopping
from krisis.yaml_values import read_mapping

app = new_app()


@command(
    app,
    "krisis check runs/RUN --require 'accuracy >= 0.85'",
    "krisis check runs/RUN --require 'lower(selective_accuracy) >= 0.9'",
    "krisis check runs/NEW --against runs/OLD --no-worse 'accuracy by 0.03'",
    "krisis check runs/RUN --gate gate.yaml --junit check.xml",
)
def check(
    run: Path = typer.Argument(..., help="A run or a saved result."),
    require: list[str] = typer.Option(
        [], "--require", help="Such as 'accuracy >= 0.85' or 'lower(accuracy) >= 0.8'; repeatable."
    ),
    against: Path | None = typer.Option(
        None, "--against", help="Another run on the same cases, for --no-worse, --non-inferior."
    ),
    no_worse: list[str] = typer.Option(
        [], "--no-worse", help="Such as 'accuracy by 0.03': no loss beyond that; repeatable."
    ),
    non_inferior: list[str] = typer.Option(
        [],
        "--non-inferior",
        help="Such as 'accuracy by 0.03': a larger loss must be excluded; repeatable.",
    ),
    gate: Path | None = typer.Option(
        None, "--gate", help="YAML file with require, no_worse, non_inferior and against."
    ),
    max_not_evaluated: MaxNotEvaluated = MOST_NOT_EVALUATED,
    junit: Path | None = typer.Option(None, "--junit", help="Write JUnit XML to this file."),
    markdown: Path | None = typer.Option(
        None, "--markdown", help="Write a Markdown table to this file."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, not lines."),
) -> None:
    """Check a run against requirements: exit 1 when one fails, 2 when one cannot be judged."""
    given = {"require": require, "no_worse": no_worse, "non_inferior": non_inferior}
    wanted, against = _gate_of(gate, given, against)
    if against is not None and not (wanted.no_worse or wanted.non_inferior):
        raise InvalidValue(
            f"{against} is named to compare with, but nothing is required against it; add for "
            "instance --no-worse 'accuracy by 0.03'"
        )
    baseline = None if against is None else _from_rows(against)
    checked = _from_rows(run)
    warn_of_damage(result for result in (checked, baseline) if result is not None)
    for caution in filter(None, (mixture(checked), optional_stopping(checked))):
        typer.echo(caution, err=True)
    verdicts = check_run(checked, wanted, against=baseline, max_not_evaluated=max_not_evaluated)
    name = f"krisis check {run.resolve().name}"
    if junit is not None:
        _write(junit, to_junit(verdicts, name), f'<testsuites name="{_OWN}')
    if markdown is not None:
        _write(markdown, to_markdown(verdicts, name), f"### {_OWN}")
    if as_json:
        echo_json(dumps(to_json(verdicts)))
    else:
        typer.echo("\n".join(verdict.line() for verdict in verdicts))
    raise typer.Exit(exit_code(verdicts))


def _from_rows(path: Path) -> BenchmarkResult:
    """Read a run and score its rows: a gate believes no score that a file states."""
    return scored_from_rows(with_rows(load_result(path), path))


_OWN = "krisis check "


def _write(path: Path, text: str, beginning: str) -> None:
    """Write a report: over that of an earlier check, never over another file.

    The summary of a step of GitHub Actions is added to, for other commands write to it as well.
    """
    try:
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        before = "unreadable"
    if str(path) == os.environ.get("GITHUB_STEP_SUMMARY"):
        text = f"{before}\n{text}" if before else text
    elif before.strip() and beginning not in before[:200]:
        raise InvalidFile(f"{path} exists and is no report of a check; choose another name")
    write_text(path, text, overwrite=True)


def _gate_of(
    path: Path | None, given: dict[str, list[str]], against: Path | None
) -> tuple[Gate, Path | None]:
    """Put the file and the options together; the other run is the one that the options name."""
    stored = {} if path is None else _read_gate(path, set(given))
    named = stored.pop("against", [])
    if len(named) > 1:
        raise InvalidFile(f"{path} names {len(named)} runs under against; name one")
    gate = Gate(**{name: [*stored.get(name, []), *texts] for name, texts in given.items()})
    return gate, against or (Path(named[0]) if named else None)


def _read_gate(path: Path, lists: set[str]) -> dict[str, list[str]]:
    """Read the YAML of a gate: lists of sentences, or single ones; no-worse is no_worse."""
    content = read_mapping(path, "sentences under require", option="--gate")
    stored: dict[str, list[str]] = {}
    known = {*lists, "against"}
    for written, value in content.items():
        name = str(written).replace("-", "_")
        if name in stored:
            raise InvalidFile(f"{path}: {written} is given twice; put its sentences in one list")
        if name not in known:
            raise InvalidFile(f"{path}: {UnknownName.among('entry', name, known)}")
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise InvalidFile(f"{path}: {name} must hold sentences, not {value!r}")
        stored[name] = texts
    return stored
