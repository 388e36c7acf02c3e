"""`krisis check`: requirements on a run, for continuous integration."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from krisis.cli.certify import MaxNotEvaluated
from krisis.cli.console import warn_of_damage
from krisis.cli.formats import Format, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.decisions.run_sample import MOST_NOT_EVALUATED
from krisis.errors import InvalidFile, UnknownName
from krisis.json_values import write_text
from krisis.results.loading import load_result
from krisis.results.report_tables import mixture, optional_stopping
from krisis.verbs import check as verbs
from krisis.verbs.check.gate import Gate
from krisis.verbs.check.page import junit_xml
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
    require: list[str] = typer.Option([], "--require"),
    against: Path | None = typer.Option(None, "--against"),
    no_worse: list[str] = typer.Option([], "--no-worse"),
    non_inferior: list[str] = typer.Option(
        [],
        "--non-inferior",
    ),
    gate: Path | None = typer.Option(None, "--gate"),
    max_not_evaluated: MaxNotEvaluated = MOST_NOT_EVALUATED,
    junit: Path | None = typer.Option(None, "--junit"),
    markdown: Path | None = typer.Option(None, "--markdown"),
    output_format: Format = "",
) -> None:
    """Check a run against requirements: exit 1 when one fails, 2 when one cannot be judged."""
    chosen = chosen_format(output_format)
    given = {"require": require, "no_worse": no_worse, "non_inferior": non_inferior}
    wanted, against = _gate_of(gate, given, against)
    checked = load_result(run)
    baseline = None if against is None else load_result(against)
    warn_of_damage(result for result in (checked, baseline) if result is not None)
    for caution in filter(None, (mixture(checked), optional_stopping(checked))):
        typer.echo(caution, err=True)
    found = verbs.check(
        run,
        require=wanted.require,
        against=against,
        no_worse=wanted.no_worse,
        non_inferior=wanted.non_inferior,
        max_not_evaluated=max_not_evaluated,
    )
    if junit is not None:
        _write(junit, junit_xml(found), f'<testsuites name="{_OWN}')
    if markdown is not None:
        _write(markdown, found.written("markdown") + "\n", f"### {_OWN}")
    give(found, found.to_json, chosen)
    if found.n_checks > 1:
        typer.echo(f"{found.n_checks} different checks were made on these rows", err=True)
    raise typer.Exit(found.exit_code)


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
