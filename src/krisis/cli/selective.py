"""`krisis selective`: risk–coverage figures of one run, or of two runs on the same patients."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from krisis.cli.formats import Answer, AsJson, Format, chosen_format
from krisis.cli.help import command, new_app
from krisis.cli.selective_output import (
    check_plot,
    draw_evaluation,
    evaluation_text,
    run_names,
    with_progress,
)
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
from krisis.metrics.totals_report import totals_report
from krisis.reporting.run_tables import selective_tables
from krisis.results.run_items import read_items
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import REPLICATE_METHODS

app = new_app()
_GRID = ",".join(map(str, DEFAULT_GRID))

# The options, one name each.
Runs = Annotated[list[Path] | None, typer.Argument(metavar="RUN", help="The same as --input.")]
Inputs = Annotated[
    list[Path],
    typer.Option(
        "--input",
        help="A PHQ-8 run file, a run, a result or rows in Parquet; at most twice.",
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
    int, typer.Option("--bootstrap-resamples", help="Number of resamples of patients.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the resamples.")]
Generator = Annotated[
    str, typer.Option("--rng", help="default, or legacy to repeat published draws.")
]
IntervalMethod = Annotated[
    str, typer.Option("--interval-method", help="One of: " + ", ".join(REPLICATE_METHODS) + ".")
]
Calibration = Annotated[
    Path | None,
    typer.Option(
        "--calibration", help="Artifact of `krisis calibrate` for the calibrated variants."
    ),
]
IntersectionOnly = Annotated[
    bool,
    typer.Option("--intersection-only", help="Compare the patients that both runs have."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Write the JSON artifact to this new file, or into this folder under a new name.",
    ),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", help="Draw the curves to a new .svg, .png or .html file.")
]


@command(
    app,
    "krisis selective --input run.json --mode few_shot",
    "krisis selective --input runs/RUN --confidence all --plot curves.svg",
    "krisis selective --input runs/A --input runs/B --output compared.json",
)
def selective(
    named: Runs = None,
    inputs: Inputs = [],  # noqa: B006 - typer copies defaults
    mode: Modes = [],  # noqa: B006
    confidence: Confidence = ["default"],  # noqa: B006
    loss: LossName = "",
    coverage_grid: Grid = _GRID,
    area_coverage: AreaCoverage = 0.5,
    bootstrap_resamples: Resamples = 10_000,
    seed: Seed = 42,
    rng: Generator = "default",
    interval_method: IntervalMethod = "",
    calibration: Calibration = None,
    intersection_only: IntersectionOnly = False,
    output: Output = None,
    plot: Plot = None,
    output_format: Format = "",
    as_json: AsJson = False,
) -> None:
    """Judge how well confidence ranks the answers of one run, or of two runs compared."""
    chosen = chosen_format(output_format, as_json)
    check_plot(plot)
    if output is not None and output.exists() and not output.is_dir():
        raise InvalidFile(f"{output} exists already; choose another name")
    inputs = [*(named or ()), *inputs]
    if not inputs:
        raise InvalidValue("name a run, or two to compare; type for instance: krisis selective RUN")
    runs = _runs(inputs, mode, intersection_only=intersection_only)
    options = SelectiveOptions(
        bootstrap=BootstrapOptions(bootstrap_resamples, seed, rng),  # type: ignore[arg-type]
        loss=_known("loss", loss or runs[0].table.answers.default_loss, LOSSES),
        method=_known("interval method", interval_method or None, (None, *REPLICATE_METHODS)),
        coverages=_grid(coverage_grid),
        area_coverage=area_coverage,
    )
    calibrator = None if calibration is None else _calibrator(calibration, runs)
    values, absent = _confidences(runs, confidence, calibrator)
    with with_progress(options.bootstrap.n_resamples, quiet=chosen == "json") as progress:
        evaluation = evaluate(runs, values, options=options, absent=absent, progress=progress)
    wanted = None if evaluation.without_intervals else BootstrapOptions(seed=seed)
    artifact = artifact_of(
        evaluation,
        created_at=datetime.now(UTC),
        totals=[totals_report(run.table, wanted) for run in runs],
        intersection_only=intersection_only,
    )
    if calibrator is not None:
        found = [calibrator.missing_in(run) for run in runs]
        artifact["calibrator"] = {
            "path": str(calibration),
            "missing": [{name: one.model_dump() for name, one in run.items()} for run in found],
        }
    if output is not None:
        output = new_name(output, runs) if output.is_dir() else output
        write_text(output, dumps(artifact) + "\n")
    if plot is not None:
        draw_evaluation(evaluation, plot)
    Answer(
        text=lambda: evaluation_text(evaluation, artifact, calibrator),
        tables=lambda: selective_tables(evaluation, run_names(runs)),
        json=lambda: dumps(artifact),
    ).give(chosen)
    for written in filter(None, (output, plot)):
        typer.echo(f"wrote {written}", err=chosen != "table")


def new_name(folder: Path, runs: Sequence[RunItems]) -> Path:
    """Return a path in the folder that no file has yet, named after the inputs and their modes."""
    sources = [run.source for run in runs]
    names = [Path(one.path).name.removesuffix(".json") for one in sources]
    modes = [f".{one.mode}" if one.mode else "" for one in sources]
    parts = map("".join, zip(names, modes, strict=True))
    stem = f"{'_vs_'.join(parts)}.selective"
    path, number = folder / f"{stem}.json", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.json", number + 1
    return path


def _runs(
    inputs: Sequence[Path], modes: Sequence[str], *, intersection_only: bool
) -> list[RunItems]:
    if len(inputs) == 1 and len(modes) == 2:
        inputs = [inputs[0], inputs[0]]
    if len(inputs) > 2:
        raise InvalidValue(f"{len(inputs)} runs were named; name one run, or two to compare")
    if len(modes) not in (0, 1, len(inputs)):
        raise InvalidValue(f"{len(modes)} modes came with {len(inputs)} inputs; give one per input")
    chosen: list[str | None] = list(modes)
    if len(modes) < len(inputs):
        chosen = [modes[0] if modes else None] * len(inputs)
    runs = [read_items(path, mode) for path, mode in zip(inputs, chosen, strict=True)]
    if len(runs) == 2:
        runs[:] = same_participants(*runs, intersection_only=intersection_only)
    return runs


def _known(what: str, name: str | None, offered: Sequence[str | None]) -> Any:
    if name not in offered:
        raise UnknownName.among(what, str(name), [one for one in offered if one])
    return name


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
        typer.echo(
            f"warning: {path} was fitted on {n_seen} of the {runs[0].words[0]}s evaluated here; "
            "results will be optimistic, evaluate on others",
            err=True,
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
        chosen = runs[0].default_confidence
        chosen = chosen if chosen in absent else next(iter(absent))
        raise InvalidValue(
            f"no variant can be evaluated for {runs[0].source.path}; {chosen}: {absent[chosen]}"
        )
    return values, absent
