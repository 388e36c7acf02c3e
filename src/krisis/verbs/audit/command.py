"""`krisis audit`: performance by subgroup, stability of answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.certify import Calibration, Confidence, LossName, Mode
from krisis.cli.formats import Format, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.decisions.sample import DEFAULT_DELTA, DEFAULT_RISK
from krisis.verbs import audit as verbs

app = new_app()

By = Annotated[
    str,
    typer.Option(
        "--by",
    ),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option("--threshold"),
]
Risk = Annotated[float, typer.Option("--risk")]
Delta = Annotated[float, typer.Option("--delta")]
CertificateFile = Annotated[Path | None, typer.Option("--certificate")]
CoverageOption = Annotated[
    float | None,
    typer.Option("--coverage"),
]
Against = Annotated[
    list[Path],
    typer.Option("--against"),
]
Seed = Annotated[int, typer.Option("--seed", min=0)]


@command(
    app,
    "krisis audit runs/RUN --by sex,age:40:60",
    "krisis audit runs/RUN --coverage 0.8 --format json",
    "krisis audit runs/RUN --against runs/OTHER",
)
def audit(
    run: Annotated[Path, typer.Argument(help="A run, a saved result or a run file.")],
    by: By = "",
    threshold: ThresholdOption = None,
    coverage: CoverageOption = None,
    risk: Risk = DEFAULT_RISK,
    delta: Delta = DEFAULT_DELTA,
    certificate: CertificateFile = None,
    confidence: Confidence = "",
    calibration: Calibration = None,
    loss: LossName = "error",
    against: Against = [],  # noqa: B006 - never changed
    mode: Mode = None,
    seed: Seed = 42,
    output_format: Format = "",
) -> None:
    """Check performance by subgroup, and whether answers are stable."""
    chosen = chosen_format(output_format)
    found = verbs.audit(
        run,
        by=by.split(","),
        threshold=threshold,
        coverage=coverage,
        risk=risk,
        delta=delta,
        certificate=certificate,
        confidence=confidence,
        calibration=calibration,
        loss=loss,
        against=against,
        mode=mode,
        seed=seed,
    )
    give(found, found.to_json, chosen)
