"""The options of `krisis selective`, one name each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.statistics.intervals import REPLICATE_METHODS

METHODS = REPLICATE_METHODS
Inputs = Annotated[
    list[Path],
    typer.Option(
        "--input", help="A PHQ-8 run file, a krisis run directory or result; at most twice."
    ),
]
Modes = Annotated[
    list[str], typer.Option("--mode", help="Experiment of the input at this position.")
]
Confidence = Annotated[
    list[str],
    typer.Option("--confidence", help="Variants by name, `default` or `all`; repeatable."),
]
LossName = Annotated[
    str,
    typer.Option("--loss", help="abs, abs_norm or error; default: that of the task."),
]
Grid = Annotated[
    str, typer.Option("--coverage-grid", help="Coverages to give the risk at, with commas.")
]
AreaCoverage = Annotated[
    float, typer.Option("--area-coverage", help="Give the areas up to this coverage too.")
]
Resamples = Annotated[
    int, typer.Option("--bootstrap-resamples", help="Number of resamples of participants.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the resamples.")]
Generator = Annotated[
    str, typer.Option("--rng", help="default, or legacy to repeat published draws.")
]
IntervalMethod = Annotated[
    str, typer.Option("--interval-method", help="One of: " + ", ".join(METHODS) + ".")
]
Calibration = Annotated[
    Path | None,
    typer.Option(
        "--calibration", help="Artifact of `krisis calibrate` for the calibrated variants."
    ),
]
IntersectionOnly = Annotated[
    bool,
    typer.Option("--intersection-only", help="Compare the participants that both runs have."),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the JSON artifact to this new file.")
]
Plot = Annotated[
    Path | None, typer.Option("--plot", help="Draw the curves to a new .svg, .png or .html file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the JSON artifact, not the table.")]
