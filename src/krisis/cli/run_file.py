"""`krisis run-file`: write the PHQ-8 run file of run directories."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.json_values import read_object
from krisis.results.phq8_run_file import run_file_of, write_run_file

app = typer.Typer(add_completion=False, help="Write the PHQ-8 run file of runs of the phq8 suite.")


@app.command(
    epilog="Examples:  krisis run-file runs/A  |  krisis run-file runs/ZERO runs/FEW -o both.json"
)
def run_file(
    runs: list[Path] = typer.Argument(..., help="Run directories, one for each mode."),
    output: Path | None = typer.Option(None, "--output", "-o", help="The file to write."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an existing file."),
) -> None:
    """Write the PHQ-8 run file of runs of the phq8 suite."""
    typer.echo(write_beside(runs, output, overwrite=overwrite))


def write_beside(runs: list[Path], output: Path | None = None, *, overwrite: bool = False) -> Path:
    """Write the run file, beside the first run directory unless told otherwise."""
    path = output or runs[0].parent / f"{runs[0].name}.json"
    write_run_file(path, run_file_of(runs), overwrite=overwrite)
    return path


def companions(run: Path) -> list[Path]:
    """Return the other runs in the run file beside this one, which a rewrite must not drop."""
    path = run.parent / f"{run.name}.json"
    if not path.exists():
        return []
    provenances = [one.get("provenance", {}) for one in read_object(path).get("experiments", [])]
    others = [run.parent / str(one.get("run_directory")) for one in provenances]
    return [other for other in others if other.name != run.name and other.is_dir()]
