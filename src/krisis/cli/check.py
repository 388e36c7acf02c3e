"""`krisis check`: requirements on a run, for continuous integration."""

from __future__ import annotations

from pathlib import Path

import typer
import yaml

from krisis.cli.console import warn_of_damage
from krisis.cli.streams import echo_json
from krisis.decisions.check import Gate, check_run, exit_code, to_json, to_junit, to_markdown
from krisis.errors import InvalidFile
from krisis.json_values import dumps, write_text
from krisis.results.loading import load_result
from krisis.results.report_tables import mixture, optional_stopping

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:  krisis check runs/RUN --require 'accuracy >= 0.85' --require "
    "'lower(selective_accuracy) >= 0.9'  |  krisis check runs/NEW --against runs/OLD --no-worse "
    "'deferral_alignment by 0.03' --junit check.xml  |  krisis check runs/RUN --gate gate.yaml",
)
def check(  # noqa: PLR0913, PLR0917 - each parameter is one option of the command line
    run: Path = typer.Argument(..., help="A run directory or a saved result."),
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
        None, "--gate", help="YAML file with require, no_worse and non_inferior as lists."
    ),
    junit: Path | None = typer.Option(None, "--junit", help="Write JUnit XML to this file."),
    markdown: Path | None = typer.Option(
        None, "--markdown", help="Write a Markdown table to this file."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, not lines."),
) -> None:
    """Check a run against requirements: exit 1 when one fails, 2 when one cannot be judged."""
    wanted = _gate_of(gate, require=require, no_worse=no_worse, non_inferior=non_inferior)
    baseline = None if against is None else load_result(against)
    checked = load_result(run)
    warn_of_damage(result for result in (checked, baseline) if result is not None)
    for caution in filter(None, (mixture(checked), optional_stopping(checked))):
        typer.echo(caution, err=True)
    verdicts = check_run(checked, wanted, against=baseline)
    if junit is not None:
        write_text(junit, to_junit(verdicts, f"krisis check {run.name}"), overwrite=True)
    if markdown is not None:
        write_text(markdown, to_markdown(verdicts), overwrite=True)
    if as_json:
        echo_json(dumps(to_json(verdicts)))
    else:
        typer.echo("\n".join(verdict.line() for verdict in verdicts))
    raise typer.Exit(exit_code(verdicts))


def _gate_of(path: Path | None, **given: list[str]) -> Gate:
    stored = {} if path is None else _read_gate(path, set(given))
    return Gate(**{name: [*stored.get(name, []), *texts] for name, texts in given.items()})


def _read_gate(path: Path, known: set[str]) -> dict[str, list[str]]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path} cannot be read as a gate: {error}") from None
    usable = isinstance(content, dict) and set(content) <= known
    if not usable or not all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts)
        for texts in content.values()
    ):
        raise InvalidFile(f"{path} must hold lists of sentences under {', '.join(sorted(known))}")
    return dict(content)
