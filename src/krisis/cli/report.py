"""`krisis report`: write one run as a self-contained HTML page, and its charts as files."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.certify import Confidence, MaxNotEvaluated
from krisis.cli.help import command, new_app
from krisis.decisions.missing_rows import MOST_NOT_EVALUATED
from krisis.errors import InvalidValue
from krisis.verbs import drawing as verbs

app = new_app()


@command(
    app,
    "krisis report runs/RUN -o report.html",
    "krisis report result.json --figures figures --against runs/GUIDELINE",
    "krisis report runs/RUN --cost costs.yaml",
    "krisis report runs/RUN --audit",
)
def report(
    runs: list[Path] = typer.Argument(..., metavar="RUN", help="A run or a saved result (JSON)."),
    output: Path = typer.Option(Path("report.html"), "--output", "-o"),
    figures: Path | None = typer.Option(None, "--figures"),
    against: list[Path] = typer.Option([], "--against"),
    certificate: Path | None = typer.Option(None, "--certificate"),
    calibration: Path | None = typer.Option(None, "--calibration"),
    confidence: Confidence = "",
    cost: str = typer.Option("", "--cost"),
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
    """Write a run as one self-contained HTML page that needs no network."""
    run, *others_given = runs
    if others_given:
        other = others_given[0]
        raise InvalidValue(
            f"a report is about one run, and {len(runs)} were named; to compare them, type: krisis "
            f"compare {' '.join(map(str, runs[:3]))}{' …' if len(runs) > 3 else ''} --html "
            f"comparison.html; to show others next to one, type: krisis report {run} --against "
            f"{other}"
        )
    written = verbs.report(
        run,
        output,
        against=against,
        certificate=certificate,
        calibration=calibration,
        confidence=confidence,
        cost=cost,
        curve=curve,
        prevalence=prevalence,
        audit=audit,
        figures=figures,
        max_not_evaluated=max_not_evaluated,
        with_ids=with_ids,
        overwrite=overwrite,
    )
    typer.echo(f"wrote {output}")
    if figures is not None:
        typer.echo(f"wrote {len(written.figures)} files into {figures}")
