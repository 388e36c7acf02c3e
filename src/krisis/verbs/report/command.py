"""`krisis report`: write one run as a self-contained HTML page, and its charts as files."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.certify import Confidence, CostFile, MaxNotEvaluated, Price
from krisis.cli.help import command, new_app
from krisis.decisions.run_sample import MOST_NOT_EVALUATED
from krisis.errors import InvalidFile, InvalidValue
from krisis.verbs import report as verbs

app = new_app()


@command(
    app,
    "krisis report runs/RUN -o report.html",
    "krisis report result.json --figures figures --against runs/GUIDELINE",
    "krisis report runs/RUN --decide",
    "krisis report runs/RUN --price 0.1",
    "krisis report runs/RUN --audit",
    "krisis report runs/* -o reports",
)
def report(
    runs: list[Path] = typer.Argument(..., metavar="RUN", help="A run or a saved result (JSON)."),
    output: Path = typer.Option(Path("report.html"), "--output", "-o"),
    figures: Path | None = typer.Option(None, "--figures"),
    against: list[Path] = typer.Option([], "--against"),
    certificate: Path | None = typer.Option(None, "--certificate"),
    calibration: Path | None = typer.Option(None, "--calibration"),
    confidence: Confidence = "",
    decide: bool = typer.Option(False, "--decide"),
    costs: CostFile = None,
    price: Price = None,
    curve: bool = typer.Option(False, "--curve"),
    prevalence: str = typer.Option(
        "",
        "--prevalence",
    ),
    audit: bool = typer.Option(False, "--audit"),
    max_not_evaluated: MaxNotEvaluated = MOST_NOT_EVALUATED,
    with_ids: bool = typer.Option(False, "--with-ids"),
    overwrite: bool = typer.Option(False, "--overwrite"),
) -> None:
    """Write a run as one self-contained HTML page that needs no network.

    Several runs, with a folder as --output, become a page each; to compare them, type: krisis
    compare.
    """
    in_folder = output.is_dir() or len(runs) > 1
    if len(runs) > 1 and output.suffix in (".html", ".htm"):
        folders = {run.parent for run in runs}
        named = " ".join(map(str, runs[:3])) + (" …" if len(runs) > 3 else "")
        if len(runs) > 2 and len(folders) == 1:
            named = f"{folders.pop()}/*"
        raise InvalidValue(
            f"{len(runs)} runs were named and a report is about one; for a page each, type: krisis "
            f"report {named} -o FOLDER; to compare them, type: krisis compare {named} --html "
            "comparison.html"
        )
    pages = [output / f"{run.stem}.html" if in_folder else output for run in runs]
    if twice := [page for page in pages if pages.count(page) > 1]:
        raise InvalidValue(f"two of the runs are called {twice[0].stem}; name them one by one")
    for page in pages:
        if page.exists() and not overwrite:
            raise InvalidFile(f"{page} exists already; choose another name or add --overwrite")
    if in_folder:
        output.mkdir(parents=True, exist_ok=True)
    for run, page in zip(runs, pages, strict=True):
        folder = figures / run.stem if figures is not None and in_folder else figures
        written = verbs.report(
            run,
            page,
            against=against,
            certificate=certificate,
            calibration=calibration,
            confidence=confidence,
            decide=decide,
            costs=costs,
            price=price,
            curve=curve,
            prevalence=prevalence,
            audit=audit,
            figures=folder,
            max_not_evaluated=max_not_evaluated,
            with_ids=with_ids,
            overwrite=overwrite,
        )
        typer.echo(f"wrote {page}")
        if folder is not None:
            typer.echo(f"wrote {len(written.figures)} files into {folder}")
