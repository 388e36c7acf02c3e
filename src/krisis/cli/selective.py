"""`krisis selective`: risk–coverage figures of one run, or of two runs on the same participants."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from krisis.cli import selective_options as given
from krisis.cli.selective_output import print_evaluation, warn, with_progress
from krisis.cli.selective_plot import check_plot, draw_evaluation
from krisis.confidence.artifact import artifact_of
from krisis.confidence.calibrators import Calibrator, calibrator_from
from krisis.confidence.evaluation import (
    DEFAULT_GRID,
    SelectiveOptions,
    evaluate,
    same_participants,
)
from krisis.confidence.variants import available_variants, confidence_of
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.json_values import dumps, read_object, write_text
from krisis.metrics.items import RunItems
from krisis.metrics.table import LOSSES, FloatArray
from krisis.results.run_items import read_items, totals_of
from krisis.statistics.bootstrap import BootstrapOptions

HELP = "Judge how well confidence ranks the answers of one run, or of two runs compared."
app = typer.Typer(add_completion=False, help=HELP)
_GRID = ",".join(map(str, DEFAULT_GRID))


@app.command(
    help=HELP,
    epilog="Examples:  krisis selective --input run.json --mode few_shot  |  krisis selective "
    "--input runs/RUN --confidence all --plot curves.svg  |  krisis selective --input a.json "
    "--input b.json --intersection-only --output compared.json",
)
def selective(  # noqa: PLR0913, PLR0917 - each parameter is one option of the command line
    inputs: given.Inputs,
    mode: given.Modes = [],  # noqa: B006 - typer copies defaults
    confidence: given.Confidence = ["default"],  # noqa: B006
    loss: given.LossName = "",
    coverage_grid: given.Grid = _GRID,
    area_coverage: given.AreaCoverage = 0.5,
    bootstrap_resamples: given.Resamples = 10_000,
    seed: given.Seed = 42,
    rng: given.Generator = "default",
    interval_method: given.IntervalMethod = "",
    calibration: given.Calibration = None,
    intersection_only: given.IntersectionOnly = False,
    output: given.Output = None,
    plot: given.Plot = None,
    as_json: given.AsJson = False,
) -> None:
    """Read, evaluate, print; write only what was asked for."""
    check_plot(plot)
    if output is not None and output.exists():
        raise InvalidFile(f"{output} exists already; choose another name")
    runs = _runs(inputs, mode, intersection_only=intersection_only)
    options = _options(
        runs,
        loss=loss,
        grid=coverage_grid,
        area_coverage=area_coverage,
        bootstrap=_bootstrap(bootstrap_resamples, seed, rng),
        method=interval_method,
    )
    calibrator = None if calibration is None else _calibrator(calibration, runs)
    values, absent = _confidences(runs, confidence, calibrator)
    with with_progress(options.bootstrap.n_resamples, quiet=as_json) as progress:
        evaluation = evaluate(runs, values, options=options, absent=absent, progress=progress)
    artifact = artifact_of(
        evaluation,
        created_at=datetime.now(UTC),
        totals=[totals_of(run) for run in runs],
        intersection_only=intersection_only,
    )
    if output is not None:
        write_text(output, dumps(artifact) + "\n")
    if plot is not None:
        draw_evaluation(evaluation, plot)
    if as_json:
        typer.echo(dumps(artifact))
        return
    print_evaluation(evaluation, artifact, calibrator)
    for written in filter(None, (output, plot)):
        typer.echo(f"wrote {written}")


def _runs(
    inputs: Sequence[Path], modes: Sequence[str], *, intersection_only: bool
) -> list[RunItems]:
    if len(inputs) == 1 and len(modes) == 2:
        inputs = [inputs[0], inputs[0]]
    if len(inputs) > 2:
        raise InvalidValue(
            f"--input was given {len(inputs)} times; name one run, or two to compare"
        )
    if len(modes) not in (0, 1, len(inputs)):
        raise InvalidValue(f"{len(modes)} modes came with {len(inputs)} inputs; give one per input")
    chosen: list[str | None] = list(modes)
    if len(modes) < len(inputs):
        chosen = [modes[0] if modes else None] * len(inputs)
    runs = [read_items(path, mode) for path, mode in zip(inputs, chosen, strict=True)]
    if len(runs) == 2:
        runs[:] = same_participants(*runs, intersection_only=intersection_only)
    return runs


def _bootstrap(n_resamples: int, seed: int, rng: str) -> BootstrapOptions:
    return BootstrapOptions(n_resamples, seed, rng)  # type: ignore[arg-type]


def _options(
    runs: Sequence[RunItems],
    *,
    loss: str,
    grid: str,
    area_coverage: float,
    bootstrap: BootstrapOptions,
    method: str,
) -> SelectiveOptions:
    chosen: Any = loss or runs[0].table.answers.default_loss
    if chosen not in LOSSES:
        raise UnknownName.among("loss", chosen, LOSSES)
    offered: Any = method or None
    if offered is not None and offered not in given.METHODS:
        raise UnknownName.among("interval method", method, given.METHODS)
    return SelectiveOptions(chosen, _grid(grid), area_coverage, bootstrap, offered)


def _grid(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidValue(
            f"--coverage-grid must be numbers with commas such as 0.1,0.5,0.9, not {text!r}"
        ) from None


def _calibrator(path: Path, runs: Sequence[RunItems]) -> Calibrator:
    calibrator = calibrator_from(read_object(path), place=path)
    n_seen = max(calibrator.overlap(run) for run in runs)
    if n_seen:
        warn(
            f"{path} was fitted on {n_seen} of the {runs[0].words[0]}s evaluated here; results "
            "will be optimistic, evaluate on others"
        )
    return calibrator


def _confidences(
    runs: Sequence[RunItems], names: Sequence[str], calibrator: Calibrator | None
) -> tuple[dict[str, list[FloatArray]], dict[str, str]]:
    wanted = [part.strip() for name in names for part in name.split(",") if part.strip()]
    absent: dict[str, str] = {}
    values: dict[str, list[FloatArray]] = {}
    for name in wanted:
        if name == "all":
            found = [available_variants(run, calibrator=calibrator) for run in runs]
            for _, missing in found:
                absent.update(missing)
            kept = [variant for variant in found[0][0] if variant not in absent]
            values.update({variant: [part[0][variant] for part in found] for variant in kept})
            continue
        variant = runs[0].default_confidence if name == "default" else name
        values[variant] = [confidence_of(t, variant, calibrator=calibrator) for t in runs]
    if not values:
        raise InvalidValue(
            f"no variant can be computed for {runs[0].source.path}: it carries no known signal"
        )
    return values, absent
