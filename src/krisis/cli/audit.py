"""`krisis audit`: whether a run holds in every group, and if labels are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.certify import AsJson, Calibration, Confidence, LossName, Mode, calibrator_of
from krisis.cli.streams import echo_json
from krisis.decisions.audit_groups import audit_groups
from krisis.decisions.group_audit import group_lines
from krisis.decisions.group_tests import GroupOptions
from krisis.decisions.run_sample import ScoreOptions
from krisis.json_values import JsonObject, dumps
from krisis.results.run_items import read_items

app = typer.Typer(add_completion=False)

By = Annotated[
    str,
    typer.Option(
        "--by",
        help="Metadata columns with commas, numbers divided as in age:40:60; default: the task's.",
    ),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option("--threshold", help="Answer from this confidence on; default: every answer."),
]
CoverageOption = Annotated[
    float | None,
    typer.Option("--coverage", help="Answer this share of the rows, the surest, instead."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of permutations and resamples.")]


@app.command(
    epilog="Examples:  krisis audit runs/RUN --by sex,age:40:60  |  krisis audit runs/RUN "
    "--coverage 0.8 --json",
)
def audit(  # noqa: PLR0913, PLR0917 - each parameter is one option of the command line
    run: Annotated[Path, typer.Argument(help="A run directory, a saved result or a run file.")],
    by: By = "",
    threshold: ThresholdOption = None,
    coverage: CoverageOption = None,
    confidence: Confidence = "",
    calibration: Calibration = None,
    loss: LossName = "",
    mode: Mode = None,
    seed: Seed = 42,
    as_json: AsJson = False,
) -> None:
    """Audit a run: does it hold in every group, and what if labels are wrong."""
    score = ScoreOptions(
        confidence=confidence, calibrator=calibrator_of(calibration), loss=loss, seed=seed
    )
    options = GroupOptions(
        by=[part.strip() for part in by.split(",") if part.strip()],
        threshold=threshold,
        coverage=coverage,
        score=score,
    )
    items = read_items(run, mode)
    groups = audit_groups(items, options)
    # Every part of the audit adds its facts and its lines.
    facts: JsonObject = {"groups": groups.to_json()}
    lines = group_lines(groups)
    if as_json:
        echo_json(dumps({"kind": "krisis.audit", "schema_version": 1, **facts}))
    else:
        typer.echo("\n".join(lines))
