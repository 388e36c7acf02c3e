"""`krisis export`: the rows of a run for other programs."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.api.given import certificate_of
from krisis.cli.console import warn_of_damage
from krisis.cli.help import command, new_app
from krisis.cli.run_file import tell_ties, write_beside
from krisis.csv_lines import csv_line, guarded
from krisis.decisions.hand_over import hand_over
from krisis.errors import InvalidFile, InvalidValue
from krisis.file_formats import format_named
from krisis.formats.tidy_table import (
    NOT_REVIEWED,
    dictionary_text,
    tidy_table,
)
from krisis.json_values import JsonValue, write_text
from krisis.pages.numbers import count
from krisis.results.base import BenchmarkResult
from krisis.results.ids import ShownIds, shareable
from krisis.results.loading import load_result, with_rows
from krisis.runs.places import copy_warning, is_run_file
from krisis.runs.read import open_run
from krisis.runs.review import read_reviews
from krisis.runs.schema import SUFFIX

app = new_app()

# What is no table of rows, and how its file ends.
_WHOLE = {
    "run-file": ".json",
    "krisis": ".copy.krisis",
    "not-taken": ".not-taken.csv",
    "left-for-people": ".left-for-people.csv",
}


@command(
    app,
    "krisis export runs/RUN --to csv",
    "krisis export runs/RUN --to parquet -o rows.parquet",
    "krisis export runs/RUN --to inspect -o log.json",
    "krisis export runs/RUN --to left-for-people",
    "krisis export runs/ZERO runs/FEW --to run-file -o both.json",
)
def export(
    runs: list[Path] = typer.Argument(
        ...,
        help="A run or a saved result (JSON); with --to run-file one run for each mode.",
    ),
    kind: str = typer.Option(..., "--to"),
    certificate: Path | None = typer.Option(None, "--certificate"),
    output: Path | None = typer.Option(None, "--output", "-o"),
    with_ids: bool = typer.Option(False, "--with-ids"),
    overwrite: bool = typer.Option(False, "--overwrite"),
) -> None:
    """Write one line per asking with a data dictionary, a log of Inspect, or a run file."""
    named = runs[0].resolve().name.removesuffix(".json").removesuffix(SUFFIX)
    form: JsonValue = None if kind in _WHOLE else format_named(kind, "write", tuple(_WHOLE))
    path = output or Path(f"{named}{_WHOLE[kind] if form is None else form.suffix}")
    if kind == "run-file":
        write_beside(runs, path, overwrite=overwrite)
        typer.echo(f"wrote {path}")
        tell_ties(path)
        return
    if certificate is not None and kind != "left-for-people":
        raise InvalidValue("--certificate is for --to left-for-people; omit it")
    if len(runs) > 1:
        raise InvalidValue(f"--to {kind} takes one run, not {len(runs)}; export each by itself")
    run = runs[0]
    if kind in ("krisis", "not-taken"):
        _copy(run, kind, path, overwrite=overwrite)
        typer.echo(f"wrote {path}")
        return
    whole = with_rows(load_result(run), run)
    if kind == "left-for-people":  # with ids: whoever takes over must find the patient again
        _write_left(whole, certificate, path, overwrite=overwrite)
        return
    result = shareable(whole, with_ids=with_ids)
    if warning := copy_warning(run):
        typer.echo(warning, err=True)
    warn_of_damage([result])
    reviews = read_reviews(run) if is_run_file(run) else NOT_REVIEWED
    shown = ShownIds.of(whole, with_ids=with_ids)
    table = tidy_table(result, reviews.renamed(shown.record))
    described = getattr(form, "has_dictionary", True)
    texts = {_dictionary(path): dictionary_text(table)} if described else {}
    for file in (path, *(file for file, text in texts.items() if not _holds(file, text))):
        if file.exists() and not overwrite:
            raise InvalidFile(f"{file} exists already; choose another name or give --overwrite")
    if note := form.write(table, result, path):
        typer.echo(note, err=True)
    for file, text in texts.items():
        write_text(file, text, overwrite=True)
    n_rows = len(result.evaluation_results)
    typer.echo(f"wrote {n_rows} rows to {' and '.join(map(str, (path, *texts)))}")


def _write_left(
    result: BenchmarkResult, certificate: Path | None, path: Path, *, overwrite: bool
) -> None:
    """Write the cases that are left for people, with their ids."""
    found = hand_over(result, certificate=certificate_of(certificate))
    write_text(path, found.csv_lines(), overwrite=overwrite)
    typer.echo(
        f"wrote {count(len(found.cases))} of {count(found.n_cases)} cases left for people to {path}"
    )


def _copy(run: Path, kind: str, path: Path, *, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise InvalidFile(f"{path} exists already; choose another name or give --overwrite")
    with open_run(run) as opened:
        if kind == "krisis":
            opened.copy_to(path)
            return
        lines = [("place", "reason"), *opened.not_taken()]
    write_text(path, "".join(csv_line(guarded(line)) for line in lines), overwrite=True)


def _dictionary(path: Path) -> Path:
    return path.with_name(f"{path.stem}.dictionary.csv")


def _holds(path: Path, text: str) -> bool:
    """Say whether a file is what would be written: the table may be wanted in two formats."""
    return path.is_file() and path.read_bytes() == text.encode()
