"""`krisis sweep`: models × tasks × modes × seeds × prompts as one piece of work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import typer

from krisis.cli.console import print_document
from krisis.cli.help import command, new_app
from krisis.cli.run_command import announce, ctrl_c, even_repeats, write_run_file
from krisis.cli.run_file import run_format
from krisis.cli.run_options import given_options, with_options
from krisis.errors import UserError
from krisis.execution.assembly import checked_batches, estimate_of, third_party_notice
from krisis.execution.config import RunConfig, config_text
from krisis.execution.grid import Plan, SweepFolder, plan_of, read_plan
from krisis.json_values import JsonObject, JsonValue, write_text
from krisis.pages.numbers import count, dollars
from krisis.pages.shell import page
from krisis.pages.sweep import SweepResult, TaskRuns
from krisis.results.base import BenchmarkResult
from krisis.results.comparison.compare import compare_runs
from krisis.runs.places import WriterLock
from krisis.sweep import CellEnd, Ready, SweepStop, prepare, run_sweep

app = new_app()


def sweep(
    plan: Path = typer.Argument(..., help="The plan, a YAML file; see the docs."),
    dry_run: bool = typer.Option(False, "--dry-run"),
    print_config: bool = typer.Option(False, "--print-config"),
    max_cells: int | None = typer.Option(None, "--max-cells", min=1),
    max_local_cells: int | None = typer.Option(
        None,
        "--max-local-cells",
        min=1,
    ),
    **options: JsonValue,
) -> None:
    """Run every model of a plan on every task, with one budget and one limit per account."""
    numbers = {"max_cells": max_cells, "max_local_cells": max_local_cells}
    given = {**given_options(options), **{k: n for k, n in numbers.items() if n is not None}}
    read = read_plan(plan, check=not print_config)
    start(plan_of({**read, **given}, str(plan)), dry_run, print_config)


def start(plan: Plan, dry_run: bool = False, print_config: bool = False) -> None:
    """Begin a sweep, or say what it would be."""
    if print_config:
        typer.echo("---\n".join(config_text(cell.config) for cell in plan.cells), nl=False)
        return
    ready = prepare(plan, asks=not dry_run)
    if dry_run:
        typer.echo(_grid_text(ready))
        return
    _carry_out(plan, SweepFolder.created(plan), ready)


def resume_sweep(folder: SweepFolder, given: JsonObject, *, trust: bool) -> None:
    """Finish every cell of a sweep; one that is finished is not asked again."""
    plan = folder.plan(given, trust=trust)
    _carry_out(plan, folder, prepare(plan))


def _carry_out(plan: Plan, folder: SweepFolder, ready: list[Ready]) -> None:
    for notice in dict.fromkeys(_notices(ready)):
        announce(notice)
    lock, stop = WriterLock(folder.manifest), SweepStop()
    try:
        with ctrl_c(stop):
            ends = run_sweep(plan, folder, ready=ready, stop=stop, announce=announce)
        _conclude(ends, folder, stop)
    finally:
        lock.release()


def _notices(ready: list[Ready]) -> Iterator[str]:
    for one in ready:
        suite, repeats = one.parts.suite, one.cell.config.repeats
        yield from filter(None, (suite.notice, third_party_notice(suite, one.parts.backend)))
        if repeats % 2 == 0:
            yield even_repeats(repeats)


def _grid_text(ready: list[Ready]) -> str:
    """Return a line for each cell, and the sums."""
    lines, costs, unknown = [], [], []
    width = max(len(one.cell.name) for one in ready)
    for one in ready:
        batches = checked_batches(one.cell.config, one.parts)
        estimate = estimate_of(one.parts, batches, one.price)
        cost = dollars(0) if estimate.input_tokens is None else "cost unknown"
        if estimate.cost is not None:
            cost = dollars(estimate.cost)
            costs.append(estimate.cost)
        elif estimate.input_tokens is not None:
            unknown.append(one.cell.config.model)
        tokens = (estimate.input_tokens or 0) + (estimate.output_tokens or 0)
        asked = f"{count(estimate.n_cases)} records in {count(estimate.n_calls)} calls"
        words = f"{asked}, about {count(round(tokens))} tokens, {cost}"
        lines.append(f"{one.cell.name:{width}}  {words}")
    known = f"about {dollars(sum(costs))}" if costs or not unknown else "cost unknown"
    total = f"{len(ready)} cells, {known}; nothing was sent"
    if unknown:
        models = ", ".join(dict.fromkeys(unknown))
        total += f"\nWithout the cost of {models}, whose price is not known; give --prices"
    return "\n".join([*lines, total])


def _conclude(ends: list[CellEnd], folder: SweepFolder, stop: SweepStop) -> None:
    """Print how each cell ended, the tables and comparisons, and what to type next."""
    if stop.cause is None:
        _show(ends, folder)
    typer.echo(f"\nSweep:   {folder.path}")
    for end in ends:
        typer.echo(f"  {end.cell.name}: {end.words}")
    failed = [end for end in ends if end.is_failed]
    if n_left := sum(end.is_left for end in ends):
        typer.echo(
            f"krisis: {n_left} of {len(ends)} cells are not finished, {len(failed)} failed; "
            f"to continue, type: krisis resume {folder.path}",
            err=True,
        )
    if stop.cause is not None:
        raise typer.Exit(stop.cause.exit_code)
    n_sent = sum(end.result.attrition.n_sent for end in ends if end.result is not None)
    if failed or not n_sent:
        raise typer.Exit(1)


def _show(ends: list[CellEnd], folder: SweepFolder) -> None:
    found = SweepResult(
        folder.path.name,
        [(end.cell.name, end.words, end.run.name if end.run else "") for end in ends],
        [_task(title, runs) for title, runs in _by_task(ends).items()],
    )
    document = found.document()
    print_document(document)
    try:
        write_text(folder.page, page(document), overwrite=True)
        typer.echo(f"\nPage:    {folder.page}")
    except UserError as error:  # the cells are done, with or without a page
        announce(str(error))
    for runs in _with_run_file(ends).values():
        write_run_file(runs[0].cell.config, [end.run for end in runs if end.run is not None])


def _by_task(ends: list[CellEnd]) -> dict[str, dict[str, BenchmarkResult]]:
    """Return the results that saw the same cases, under the shortest names that differ."""
    groups: dict[tuple[str, ...], list[CellEnd]] = {}
    for end in ends:
        if end.result is not None and end.result.evaluation_results:
            said = end.result.suite_description
            key = tuple(str(said.get(name, "")) for name in ("suite", "task", "content_hash"))
            groups.setdefault((*key, end.result.provenance.suite_content_hash or ""), []).append(
                end
            )
    named: dict[str, dict[str, BenchmarkResult]] = {}
    titles = Counter((suite, task) for suite, task, *_ in groups)
    for (suite, task, *_), members in groups.items():
        models = Counter(map(_model, members))
        title = f"{suite} · {task}"
        if titles[suite, task] > 1:  # of other seeds or modes, as the names of its cells say
            model, *others = members[0].cell.name.split(" · ")
            title = " · ".join([title, *others[1:]] if others[1:] else [title, model, *others])
        named[title] = {
            _model(end) if models[_model(end)] == 1 else end.cell.name: end.result
            for end in members
            if end.result is not None
        }
    return named


def _model(end: CellEnd) -> str:
    """Name the model of a cell, with how it was asked."""
    return " · ".join([end.cell.config.model, *end.cell.config.asking.words])


def _task(title: str, runs: dict[str, BenchmarkResult]) -> TaskRuns:
    try:
        return TaskRuns(title, runs, compare_runs(runs))
    except UserError as error:
        return TaskRuns(title, runs, None, str(error))


def _with_run_file(ends: list[CellEnd]) -> dict[tuple[str, str, str], list[CellEnd]]:
    """Return the finished runs that share a run file, which holds the modes of one model."""
    found: dict[tuple[str, str, str], list[CellEnd]] = {}
    for end in ends:
        config = end.cell.config
        if end.result is not None and not end.is_failed and run_format(config.suite):
            found.setdefault((config.suite, _model(end), str(config.seed)), []).append(end)
    return found


_NAMES = [
    name
    for name in RunConfig.model_fields
    if name not in ("suite", "model", "task", "mode", "seed")
]
command(
    app,
    "krisis sweep plan.yaml --dry-run",
    "krisis sweep plan.yaml --max-cost 5 --prices prices.yaml",
    "krisis sweep plan.yaml -j 8 --max-cells 6",
    "krisis resume runs/SWEEP",
    "krisis sweep runs/SWEEP/sweep.json",
)(with_options(sweep, _NAMES))
