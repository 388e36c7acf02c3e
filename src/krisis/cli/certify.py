"""`krisis certify`: a threshold with a guarantee, or the check of one on new patients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.confidence.calibrators import Calibrator, calibrator_from
from krisis.decisions.certificate import certificate_from, certificate_lines
from krisis.decisions.certify import CertifyOptions, certify_run
from krisis.decisions.costs import read_costs
from krisis.decisions.missing_rows import MOST_NOT_EVALUATED
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.sample import METHODS
from krisis.decisions.verify import verification_json, verification_lines, verify_run
from krisis.display import spelled_out
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import dumps, read_object, write_text
from krisis.metrics.items import RunItems
from krisis.results.run_items import read_items

app = new_app()


# The options, one name each.
Bound = Annotated[
    float | None,
    typer.Option("--risk", help="Largest risk among the answered cases, between 0 and 1."),
]
Delta = Annotated[
    float | None,
    typer.Option("--delta", help="Chance that the certificate is wrong; default 0.1."),
]
MethodName = Annotated[
    str, typer.Option("--method", help="One of: " + ", ".join(METHODS) + "; default the first.")
]
By = Annotated[str, typer.Option("--by", help="Groups that get a threshold each, with commas.")]
Confidence = Annotated[
    str, typer.Option("--confidence", help="Confidence variant; default: that of the task.")
]
Calibration = Annotated[
    Path | None,
    typer.Option("--calibration", help="Artifact of `krisis calibrate` that makes the score."),
]
LossName = Annotated[
    str, typer.Option("--loss", help="error, abs_norm or cost; default: that of the task.")
]
Cost = Annotated[
    Path | None,
    typer.Option("--cost", help="YAML with `costs`, truth to answer to cost; scaled to 1."),
]
RowsPerPatient = Annotated[
    int | None,
    typer.Option("--rows-per-patient", min=1, help="Most rows that a patient can have."),
]
Verify = Annotated[
    Path | None,
    typer.Option("--verify", help="A certificate to check on this run of other patients."),
]
Time = Annotated[
    str, typer.Option("--time", help="With --verify: metadata column that orders the patients.")
]
MaxNotEvaluated = Annotated[
    float,
    typer.Option(
        "--max-not-evaluated",
        min=0.0,
        max=1.0,
        help="Largest share of cases without a reply on which a run is judged.",
    ),
]
Mode = Annotated[str | None, typer.Option("--mode", help="Experiment of a run file.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write the certificate to this new file (JSON)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, not sentences.")]


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
    calibrator = calibrator_of(calibration)
    if verify is not None:
        given = (risk, delta, method, by, loss, cost, rows_per_patient, output)
        names = ("risk", "delta", "method", "by", "loss", "cost", "rows-per-patient", "output")
        for name, value in zip(names, given, strict=True):
            if value not in (None, ""):
                raise InvalidValue(f"--verify takes all from the certificate; omit --{name}")
        _verify(verify, read_items(run, mode), confidence, calibrator, time, as_json)
    _check_output(output, risk, time)
    score = ScoreOptions(
        confidence=confidence,
        calibrator=calibrator,
        loss=loss,
        costs=None if cost is None else read_costs(cost),
        rows_per_patient=rows_per_patient,
        max_not_evaluated=max_not_evaluated,
    )
    options = CertifyOptions(
        risk=risk or 0.0,
        delta=delta,
        method=method or METHODS[0],  # type: ignore[arg-type] # checked there
        by=[part.strip() for part in by.split(",") if part.strip()],
        score=score,
    )
    certificate = certify_run(read_items(run, mode), options)
    text = dumps(certificate.to_json())
    if output is not None:
        write_text(output, text + "\n")
    if as_json:
        echo_json(text)
    else:
        typer.echo("\n".join(map(spelled_out, certificate_lines(certificate))))
    if output is not None:
        typer.echo(f"wrote {output}", err=as_json)
    if all(part.threshold is None for part in certificate.parts):
        raise typer.Exit(1)


def _check_output(output: Path | None, risk: float | None, time: str) -> None:
    if risk is None:
        raise InvalidValue("the bound is missing; add for instance --risk 0.05")
    if time:
        raise InvalidValue("--time belongs to --verify; omit it")
    if output is not None and output.exists():
        raise InvalidFile(f"{output} exists already; choose another name or remove it first")


def _verify(
    path: Path,
    run: RunItems,
    confidence: str,
    calibrator: Calibrator | None,
    time: str,
    as_json: bool,
) -> None:
    certificate = certificate_from(read_object(path), place=path)
    found = verify_run(certificate, run, confidence=confidence, calibrator=calibrator, time=time)
    if as_json:
        echo_json(dumps(verification_json(found)))
    else:
        typer.echo("\n".join(map(spelled_out, verification_lines(found))))
    raise typer.Exit(1 if found.verdict == "broken" else 0)


def calibrator_of(path: Path | None) -> Calibrator | None:
    """Read the calibrator of the option ``--calibration``, if one is named."""
    return None if path is None else calibrator_from(read_object(path), place=path)
