"""`krisis decide`: what answering and deferring cost, and from which confidence on to answer."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.certify import Calibration, Confidence, CostFile, MaxNotEvaluated, Mode, Price
from krisis.cli.formats import Format, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.decisions.run_sample import MOST_NOT_EVALUATED
from krisis.decisions.sample import DEFAULT_DELTA, DEFAULT_RISK
from krisis.errors import InvalidValue
from krisis.verbs import decide as verbs

app = new_app()

# The options, one name each; those that `certify` has too are taken from there.
Against = Annotated[
    list[Path],
    typer.Option("--against"),
]
PrevalenceText = Annotated[
    str,
    typer.Option("--prevalence"),
]
Sensitivity = Annotated[
    float | None,
    typer.Option("--reader-sensitivity"),
]
Specificity = Annotated[
    float | None,
    typer.Option("--reader-specificity"),
]
Accuracy = Annotated[float | None, typer.Option("--reader-accuracy")]
ReaderRun = Annotated[
    Path | None,
    typer.Option(
        "--reader",
        metavar="RUN",
    ),
]
ReaderColumn = Annotated[str, typer.Option("--reader-column")]
Seed = Annotated[int, typer.Option("--seed", min=0)]
Curve = Annotated[bool, typer.Option("--curve")]
Thresholds = Annotated[str, typer.Option("--thresholds")]
ThresholdOption = Annotated[
    float | None,
    typer.Option("--threshold"),
]
Risk = Annotated[float, typer.Option("--risk")]
Delta = Annotated[float, typer.Option("--delta")]
CertificateFile = Annotated[Path | None, typer.Option("--certificate")]
DefaultAction = Annotated[
    str,
    typer.Option(
        "--default-action",
    ),
]


@command(
    app,
    "krisis decide runs/RUN",
    "krisis decide runs/RUN --price 0.1",
    "krisis decide runs/RUN --costs costs.yaml --prevalence 0.1",
    "krisis decide runs/RUN --curve --prevalence 0.1",
    "krisis decide runs/RUN --reader runs/PHYSICIAN",
    "krisis decide runs/RUN --reader-accuracy 0.9",
)
def decide(
    run: Annotated[Path, typer.Argument(help="A run, a saved result or a run file.")],
    costs: CostFile = None,
    price: Price = None,
    confidence: Confidence = "",
    calibration: Calibration = None,
    against: Against = [],  # noqa: B006 - never changed
    prevalence: PrevalenceText = "",
    reader: ReaderRun = None,
    reader_sensitivity: Sensitivity = None,
    reader_specificity: Specificity = None,
    reader_accuracy: Accuracy = None,
    reader_column: ReaderColumn = "",
    curve: Curve = False,
    thresholds: Thresholds = "",
    threshold: ThresholdOption = None,
    risk: Risk = DEFAULT_RISK,
    delta: Delta = DEFAULT_DELTA,
    certificate: CertificateFile = None,
    default_action: DefaultAction = "",
    max_not_evaluated: MaxNotEvaluated = MOST_NOT_EVALUATED,
    mode: Mode = None,
    seed: Seed = 42,
    output_format: Format = "",
) -> None:
    """Estimate what answering and deferring cost, and from which confidence on to answer."""
    chosen = chosen_format(output_format)
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always", UserWarning)
        found = verbs.decide(
            run,
            costs=costs,
            price=price,
            confidence=confidence,
            calibration=calibration,
            against=against,
            prevalence=prevalence,
            reader=reader,
            reader_sensitivity=reader_sensitivity,
            reader_specificity=reader_specificity,
            reader_accuracy=reader_accuracy,
            reader_column=reader_column,
            curve=curve,
            thresholds=_numbers(thresholds),
            threshold=threshold,
            risk=risk,
            delta=delta,
            certificate=certificate,
            default_action=default_action,
            max_not_evaluated=max_not_evaluated,
            mode=mode,
            seed=seed,
        )
    for one in noticed:
        typer.echo(f"krisis: {one.message}", err=True)
    give(found, found.to_json, chosen)


def _numbers(text: str) -> list[float]:
    try:
        return sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        raise InvalidValue(
            f"{text!r} is no list of numbers; write for instance --thresholds 0.1,0.2,0.3"
        ) from None
