"""`krisis audit`: whether a run holds in every group, twice, and if labels are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.certify import AsJson, Calibration, Confidence, LossName, Mode, calibrator_of
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json, echo_lines
from krisis.decisions.audit_groups import audit_groups
from krisis.decisions.audit_labels import LabelOptions, audit_labels, label_lines
from krisis.decisions.group_findings import group_lines
from krisis.decisions.group_tests import GroupOptions
from krisis.decisions.label_noise import FlipRates
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.stability import stability_of_saved
from krisis.decisions.stability_text import stability_lines
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject, dumps
from krisis.results.run_items import read_items

app = new_app()

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
FlipRateOption = Annotated[
    str,
    typer.Option(
        "--flip-rate", help="Share of wrong labels, or one per true answer: 0:0.02,1:0.08."
    ),
]
FlipRange = Annotated[
    str, typer.Option("--flip-range", help="Bound the risk over these flip rates: 0:0.1.")
]
LabelColumns = Annotated[
    str,
    typer.Option(
        "--labels",
        metavar="COLUMNS",
        help="Metadata columns with further labels, with commas; `truth` is the label.",
    ),
]
Against = Annotated[
    list[Path],
    typer.Option("--against", help="Another run on the same records; repeatable."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of permutations and resamples.")]


@command(
    app,
    "krisis audit runs/RUN --by sex,age:40:60",
    "krisis audit runs/RUN --coverage 0.8 --json",
    "krisis audit runs/RUN --flip-rate 0.05 --against runs/OTHER",
    "krisis audit runs/RUN --labels reader_1,reader_2",
)
def audit(
    run: Annotated[Path, typer.Argument(help="A run directory, a saved result or a run file.")],
    by: By = "",
    threshold: ThresholdOption = None,
    coverage: CoverageOption = None,
    confidence: Confidence = "",
    calibration: Calibration = None,
    loss: LossName = "",
    flip_rate: FlipRateOption = "",
    flip_range: FlipRange = "",
    labels: LabelColumns = "",
    against: Against = [],  # noqa: B006 - never changed
    mode: Mode = None,
    seed: Seed = 42,
    as_json: AsJson = False,
) -> None:
    """Audit a run: does it hold in every group, twice, and what if labels are wrong."""
    score = ScoreOptions(
        confidence=confidence, calibrator=calibrator_of(calibration), loss=loss, seed=seed
    )
    options = GroupOptions(
        by=_names(by),
        threshold=threshold,
        coverage=coverage,
        score=score,
    )
    items = read_items(run, mode)
    groups = audit_groups(items, options)
    # Every part of the audit adds its facts and its lines.
    facts: JsonObject = {"groups": groups.to_json()}
    lines = group_lines(groups)
    if flip_rate or flip_range or labels or against:
        asked = LabelOptions(
            flip_rates=FlipRates.parsed(flip_rate) if flip_rate else None,
            flip_range=_range(flip_range) if flip_range else None,
            columns=_names(labels),
            score=score,
        )
        found = audit_labels(items, asked, [read_items(path, mode) for path in against])
        facts["labels"] = found.to_json()
        lines += ["", *label_lines(found)]
    steady = stability_of_saved(run, against, seed=seed)
    if steady is not None:
        facts["stability"] = steady.to_json()
        lines += ["", *stability_lines(steady)]
    if as_json:
        echo_json(dumps({"kind": "krisis.audit", "schema_version": 1, **facts}))
    else:
        echo_lines(lines)


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _range(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise InvalidValue(
            f"--flip-range must be two numbers with a colon, such as 0:0.1, not {text!r}"
        ) from None
    return low, high
