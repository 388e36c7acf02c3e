"""`krisis certify`: a threshold with a guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.api import deciding as verbs
from krisis.cli.formats import Format, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.decisions.run_sample import MOST_NOT_EVALUATED
from krisis.decisions.sample import METHODS
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import dumps, write_text

app = new_app()


# The options, one name each.
Bound = Annotated[
    float | None,
    typer.Option("--risk"),
]
Delta = Annotated[
    float | None,
    typer.Option("--delta"),
]
MethodName = Annotated[str, typer.Option("--method")]
By = Annotated[str, typer.Option("--by")]
Confidence = Annotated[str, typer.Option("--confidence")]
Calibration = Annotated[
    Path | None,
    typer.Option("--calibration"),
]
LossName = Annotated[str, typer.Option("--loss")]
CostFile = Annotated[Path | None, typer.Option("--costs")]
Price = Annotated[float | None, typer.Option("--price")]
RowsPerPatient = Annotated[
    int | None,
    typer.Option("--rows-per-patient", min=1),
]
MaxNotEvaluated = Annotated[
    float,
    typer.Option(
        "--max-not-evaluated",
        min=0.0,
        max=1.0,
    ),
]
Mode = Annotated[str | None, typer.Option("--mode")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o"),
]


@command(
    app,
    "krisis certify runs/RUN --risk 0.05 --delta 0.1 -o certificate.json",
    "krisis certify runs/RUN --risk 0.1 --by sex,site",
    "krisis certify runs/RUN --risk 0.05 --loss cost",
)
def certify(
    run: Annotated[Path, typer.Argument(help="A run, a saved result or a run file.")],
    risk: Bound = None,
    delta: Delta = None,
    method: MethodName = "",
    by: By = "",
    confidence: Confidence = "",
    calibration: Calibration = None,
    loss: LossName = "error",
    costs: CostFile = None,
    price: Price = None,
    rows_per_patient: RowsPerPatient = None,
    max_not_evaluated: MaxNotEvaluated = MOST_NOT_EVALUATED,
    mode: Mode = None,
    output: Output = None,
    output_format: Format = "",
) -> None:
    """Find the cheapest confidence threshold with a bounded risk; exit 1 if there is none."""
    chosen = chosen_format(output_format)
    if risk is None:
        raise InvalidValue("the bound is missing; add for instance --risk 0.05")
    if output is not None and output.exists():
        raise InvalidFile(f"{output} exists already; choose another name or remove it first")
    certificate = verbs.certify(
        run,
        risk=risk,
        delta=delta,
        method=method or METHODS[0],
        by=by.split(","),
        confidence=confidence,
        calibration=calibration,
        loss=loss,
        costs=costs,
        price=price,
        rows_per_patient=rows_per_patient,
        max_not_evaluated=max_not_evaluated,
        mode=mode,
    )
    if output is not None:
        write_text(output, dumps(certificate.to_json()) + "\n")
    give(certificate, certificate.to_json, chosen)
    if output is not None:
        typer.echo(f"wrote {output}", err=chosen != "table")
    if all(part.threshold is None for part in certificate.parts):
        raise typer.Exit(1)
