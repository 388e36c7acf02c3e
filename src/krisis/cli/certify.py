"""`krisis certify`: a threshold with a guarantee, or the check of one on new patients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.decisions.certificate import certificate_lines
from krisis.decisions.missing_rows import MOST_NOT_EVALUATED
from krisis.decisions.sample import METHODS
from krisis.decisions.verify import verification_json, verification_lines
from krisis.display import spelled_out
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonObject, dumps, write_text
from krisis.verbs import deciding as verbs

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
Cost = Annotated[
    Path | None,
    typer.Option("--cost"),
]
RowsPerPatient = Annotated[
    int | None,
    typer.Option("--rows-per-patient", min=1),
]
Verify = Annotated[
    Path | None,
    typer.Option("--verify"),
]
Time = Annotated[str, typer.Option("--time")]
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
AsJson = Annotated[bool, typer.Option("--json")]


@command(
    app,
    "krisis certify runs/RUN --risk 0.05 --delta 0.1 -o certificate.json",
    "krisis certify runs/RUN --risk 0.1 --by sex,site",
    "krisis certify --verify certificate.json runs/NEW",
)
def certify(
    run: Annotated[Path, typer.Argument(help="A run, a saved result or a run file.")],
    risk: Bound = None,
    delta: Delta = None,
    method: MethodName = "",
    by: By = "",
    confidence: Confidence = "",
    calibration: Calibration = None,
    loss: LossName = "",
    cost: Cost = None,
    rows_per_patient: RowsPerPatient = None,
    verify: Verify = None,
    time: Time = "",
    max_not_evaluated: MaxNotEvaluated = MOST_NOT_EVALUATED,
    mode: Mode = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Find the laxest threshold with a bounded risk, or verify one on new patients."""
    if verify is not None:
        given = (risk, delta, method, by, loss, cost, rows_per_patient, output)
        names = ("risk", "delta", "method", "by", "loss", "cost", "rows-per-patient", "output")
        for name, value in zip(names, given, strict=True):
            if value not in (None, ""):
                raise InvalidValue(f"--verify takes all from the certificate; omit --{name}")
        found = verbs.verify(
            verify, run, confidence=confidence, calibration=calibration, time=time, mode=mode
        )
        _show(verification_json(found), verification_lines(found), as_json)
        raise typer.Exit(1 if found.verdict == "broken" else 0)
    if risk is None:
        raise InvalidValue("the bound is missing; add for instance --risk 0.05")
    if time:
        raise InvalidValue("--time belongs to --verify; omit it")
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
        cost=cost,
        rows_per_patient=rows_per_patient,
        max_not_evaluated=max_not_evaluated,
        mode=mode,
    )
    if output is not None:
        write_text(output, dumps(certificate.to_json()) + "\n")
    _show(certificate.to_json(), certificate_lines(certificate), as_json)
    if output is not None:
        typer.echo(f"wrote {output}", err=as_json)
    if all(part.threshold is None for part in certificate.parts):
        raise typer.Exit(1)


def _show(facts: JsonObject, lines: list[str], as_json: bool) -> None:
    if as_json:
        echo_json(dumps(facts))
    else:
        typer.echo("\n".join(map(spelled_out, lines)))
