"""`krisis selective`: risk–coverage figures of one run, or of two runs on the same patients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from krisis.cli.formats import Format, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import dumps, write_text
from krisis.metrics.items import RunItems
from krisis.pages.charts.files import check_figure_file
from krisis.terminal_edge import live_console
from krisis.verbs import selective as verbs
from krisis.verbs.selective.chart import draw_evaluation
from krisis.verbs.selective.evaluation import DEFAULT_GRID

app = new_app()
_GRID = ",".join(map(str, DEFAULT_GRID))

# The options, one name each.
Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN", help="A run, a saved result, a run file or rows in Parquet; two to compare."
    ),
]
Modes = Annotated[list[str], typer.Option("--mode")]
Confidence = Annotated[
    list[str],
    typer.Option("--confidence"),
]
LossName = Annotated[
    str,
    typer.Option("--loss"),
]
Grid = Annotated[str, typer.Option("--coverage-grid")]
AreaCoverage = Annotated[float, typer.Option("--area-coverage")]
Resamples = Annotated[int, typer.Option("--bootstrap-resamples")]
Seed = Annotated[int, typer.Option("--seed")]
Generator = Annotated[str, typer.Option("--rng")]
IntervalMethod = Annotated[str, typer.Option("--interval-method")]
Calibration = Annotated[
    Path | None,
    typer.Option("--calibration"),
]
IntersectionOnly = Annotated[
    bool,
    typer.Option("--intersection-only"),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
    ),
]
Plot = Annotated[Path | None, typer.Option("--plot")]


@command(
    app,
    "krisis selective run.json --mode few_shot",
    "krisis selective runs/RUN --confidence all --plot curves.svg",
    "krisis selective runs/RUN --confidence signals.mine --confidence stated",
    "krisis selective runs/A runs/B --output compared.json",
)
def selective(
    runs: Runs,
    mode: Modes = [],  # noqa: B006 - typer copies defaults
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
) -> None:
    """Judge how well confidence ranks the answers of one run, or of two runs compared."""
    chosen = chosen_format(output_format)
    if plot is not None:
        check_figure_file(plot)
    if output is not None and output.exists() and not output.is_dir():
        raise InvalidFile(f"{output} exists already; choose another name")
    inputs, modes = _inputs(runs, mode)
    with with_progress(bootstrap_resamples, quiet=chosen == "json") as progress:
        found = verbs.selective(
            *inputs,
            confidence=confidence,
            calibration=calibration,
            loss=loss,
            coverage_grid=_grid(coverage_grid),
            area_coverage=area_coverage,
            resamples=bootstrap_resamples,
            seed=seed,
            rng=rng,
            interval_method=interval_method,
            intersection_only=intersection_only,
            mode=modes[0],
            against_mode=modes[-1],
            progress=progress,
        )
    evaluation = found.evaluation
    for warning in found.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if output is not None:
        output = new_name(output, evaluation.runs) if output.is_dir() else output
        write_text(output, dumps(found.to_json()) + "\n")
    if plot is not None:
        draw_evaluation(evaluation, plot)
    give(found, found.to_json, chosen)
    for written in filter(None, (output, plot)):
        typer.echo(f"wrote {written}", err=chosen != "table")


@contextmanager
def with_progress(n_resamples: int, *, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Show a bar of the resamples on a terminal, nothing elsewhere."""
    console = live_console()
    if quiet or not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("resampling patients", total=n_resamples)
        yield lambda n_done: bar.advance(task, n_done)


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


def _inputs(
    runs: Sequence[Path], modes: Sequence[str]
) -> tuple[Sequence[Path], Sequence[str | None]]:
    """Return one run or two, with the mode of each; two modes of one file are two runs."""
    if not runs:
        raise InvalidValue("name a run, or two to compare; type for instance: krisis selective RUN")
    if len(runs) == 1 and len(modes) == 2:
        runs = [runs[0], runs[0]]
    if len(runs) > 2:
        raise InvalidValue(f"{len(runs)} runs were named; name one run, or two to compare")
    if len(modes) not in (0, 1, len(runs)):
        raise InvalidValue(f"{len(modes)} modes came with {len(runs)} runs; give one per run")
    return runs, list(modes) or [None]


def _grid(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidValue(
            f"--coverage-grid must be numbers with commas such as 0.1,0.5,0.9, not {text!r}"
        ) from None
