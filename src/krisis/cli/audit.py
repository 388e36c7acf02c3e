"""`krisis audit`: whether a run holds in every group and twice, and whether labels agree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.certify import AsJson, Calibration, Confidence, LossName, Mode, calibrator_of
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json, echo_lines
from krisis.decisions.audit_groups import audit_groups
from krisis.decisions.audit_labels import (
    agreement_lines,
    disputed_labels,
    disputed_lines,
    label_agreement,
)
from krisis.decisions.group_findings import group_lines
from krisis.decisions.group_tests import GroupOptions
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.stability import stability_of_saved
from krisis.decisions.stability_text import stability_lines
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
Agreement = Annotated[
    str,
    typer.Option(
        "--agreement",
        metavar="COLUMNS",
        help="Comma-separated metadata columns with further labels; `truth` is the run's own.",
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
    "krisis audit runs/RUN --against runs/OTHER",
    "krisis audit runs/RUN --agreement reader_1,reader_2",
)
def audit(
    run: Annotated[Path, typer.Argument(help="A run, a saved result or a run file.")],
    by: By = "",
    threshold: ThresholdOption = None,
    coverage: CoverageOption = None,
    confidence: Confidence = "",
    calibration: Calibration = None,
    loss: LossName = "",
    agreement: Agreement = "",
    against: Against = [],  # noqa: B006 - never changed
    mode: Mode = None,
    seed: Seed = 42,
    as_json: AsJson = False,
) -> None:
    """Audit a run: does it hold in every group and when asked twice, and do labels agree."""
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
    if agreement:
        agreed = label_agreement(items, _names(agreement), seed=seed)
        facts["agreement"] = agreed.to_json()
        lines += ["", *agreement_lines(agreed)]
    if against:
        disputed = disputed_labels([items, *(read_items(path, mode) for path in against)], score)
        facts["disputed"] = disputed.to_json()
        lines += ["", *disputed_lines(disputed)]
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
