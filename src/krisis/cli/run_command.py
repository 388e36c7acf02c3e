"""Runs from the command line, one or a grid: Ctrl-C, the report, and what to type next."""

from __future__ import annotations

import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import typer

from krisis.benchmark import Benchmark
from krisis.cli.console import print_document
from krisis.cli.run_file import companions, run_format, tell_ties, write_beside
from krisis.errors import BackendError, RunFailed, ThirdPartyWarning, UserError
from krisis.execution.assembly import (
    Assembled,
    assemble,
    checked_batches,
    estimate_of,
    execution_of,
    third_party_notice,
)
from krisis.execution.config import RunConfig
from krisis.execution.grid import Grid, GridFolder
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.grid import CellEnd, GridStop, Ready, prepare, run_grid
from krisis.json_values import JsonObject, write_text
from krisis.pages.numbers import count, dollars
from krisis.pages.shell import page
from krisis.results.base import BenchmarkResult
from krisis.results.stops import Decided, Detached, Interrupted
from krisis.runs.places import WriterLock
from krisis.verbs.compare.grid_page import GridResult, TaskRuns
from krisis.verbs.compare.pairs import compare_runs


def announce(sentence: str) -> None:
    """Tell what a recorder decided, apart from the report."""
    typer.echo(sentence, err=True)


def execute_run(
    config: RunConfig, recorder: Recorder, *, submit: bool = True, wait: bool = True
) -> Path:
    """Run, print the report, and end with a code that says how it went, or the run.

    ``submit`` and ``wait`` say how far to go with provider batches.
    """
    parts = assemble(config)
    for notice in _notices(config, parts):
        announce(notice)
    stop = Stop()
    execution = execution_of(config, recorder, stop)
    if execution.batching is not None:
        batching = replace(execution.batching, submit=submit, wait=wait)
        execution = replace(execution, batching=batching)
    benchmark = Benchmark.of(parts, config, execution)
    with ctrl_c(stop), warnings.catch_warnings():
        warnings.simplefilter("ignore", ThirdPartyWarning)  # announced above, in one line
        try:
            result = benchmark.run(parts.records, suite_description=parts.description)
        except BackendError as error:
            raise RunFailed(f"the run ended at its first call: {error}") from None
    if result.attrition.n_sent or not isinstance(result.stop, Detached | Interrupted):
        # Whoever named metrics wants to see them.
        print_document(result.document(), verbose=bool(config.metrics))
    _conclude(result)
    return Path(result.provenance.run_file or config.out)


def start_grid(grid: Grid, *, dry_run: bool = False) -> list[Path]:
    """Run every cell of a grid, or say what they would ask; return the runs of the cells."""
    ready = prepare(grid, asks=not dry_run)
    if dry_run:
        typer.echo(_grid_text(ready))
        return []
    return _carry_out(grid, GridFolder.created(grid), ready)


def resume_grid(folder: GridFolder, given: JsonObject, *, trust: bool) -> None:
    """Finish every cell of a grid; one that is finished is not asked again."""
    grid = folder.grid(given, trust=trust)
    _carry_out(grid, folder, prepare(grid))


def _carry_out(grid: Grid, folder: GridFolder, ready: list[Ready]) -> list[Path]:
    notices = [notice for one in ready for notice in _notices(one.cell.config, one.parts)]
    for notice in dict.fromkeys(notices):
        announce(notice)
    lock, stop = WriterLock(folder.manifest), GridStop()
    try:
        with ctrl_c(stop):
            ends = run_grid(grid, folder, ready=ready, stop=stop, announce=announce)
        _conclude_grid(ends, folder, stop)
    finally:
        lock.release()
    return [end.run for end in ends if end.run is not None]


def _notices(config: RunConfig, parts: Assembled) -> Iterator[str]:
    """Yield what to know before the first call."""
    yield from filter(None, (parts.suite.notice, third_party_notice(parts.suite, parts.backend)))
    if config.repeats % 2 == 0:
        yield (
            f"{config.repeats} repeats can tie, and a tie between an answer and an abstention "
            f"counts as an abstention; an odd number such as {config.repeats + 1} leaves fewer ties"
        )


def write_run_file(config: RunConfig, runs: list[Path]) -> None:
    """Write the run file that selective prediction reads, where the suite has such a format."""
    if run_format(config.suite):
        both = [*runs, *(run for run in companions(runs[0], config.suite) if run not in runs)]
        path = write_beside(both, overwrite=True)
        typer.echo(f"Run file: {path}")
        tell_ties(path)


def _conclude(result: BenchmarkResult) -> None:
    run, counts, stop = result.provenance.run_file, result.attrition, result.stop
    typer.echo(f"Run: {run}")
    if isinstance(stop, Detached):
        typer.echo(
            f"krisis: {result.n_left} records have no answer yet ({stop}); to look at the provider "
            f"batches, type: krisis batches list {run}; to collect them and finish the run, type: "
            f"krisis resume {run}",
            err=True,
        )
        return
    if isinstance(stop, Decided):
        typer.echo(f"krisis: stopped as asked ({stop})", err=True)
    elif stop is not None:
        typer.echo(
            f"krisis: stopped with {result.n_left} records left ({stop}); "
            f"to continue, type: krisis resume {run}",
            err=True,
        )
        # A budget that was reached is a result, unless it was too small for a single call.
        if stop.exit_code or counts.n_sent == 0:
            raise typer.Exit(stop.exit_code or 1)
    if counts.n_lost and not counts.n_answered:
        raise RunFailed(
            f"no record was answered ({', '.join(counts.parts()[1:])}); the report shows the "
            f"errors; to ask again, type: krisis resume {run} --failed"
        )


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


def _conclude_grid(ends: list[CellEnd], folder: GridFolder, stop: GridStop) -> None:
    """Print how each cell ended, the tables and comparisons, and what to type next."""
    if stop.cause is None:
        _show_grid(ends, folder)
    typer.echo(f"\nGrid:    {folder.path}")
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


def _show_grid(ends: list[CellEnd], folder: GridFolder) -> None:
    found = GridResult(
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


QUITTING = (signal.SIGINT, signal.SIGTERM)


def _hang_up() -> tuple[signal.Signals, ...]:
    """Return the signal of a closed terminal where there is one and nohup does not ignore it."""
    if sys.platform == "win32" or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return ()
    return (signal.SIGHUP,)


@contextmanager
def ctrl_c(stop: Stop) -> Iterator[None]:
    """Let the first Ctrl-C, SIGTERM or closing of the terminal finish calls in progress.

    The second Ctrl-C or SIGTERM quits now. What a closed terminal sends is one request: SIGHUP,
    more than once or not, and SIGTERM after it.
    """
    hang_up, came = set(_hang_up()), set[int]()

    def ask(number: int, frame: FrameType | None) -> None:
        is_of_terminal = number == signal.SIGTERM and bool(came) and came <= hang_up
        came.add(number)
        if stop.cause is None:
            stop.request_from_outside(Interrupted("interrupted"))
            typer.echo("\nFinishing calls in progress; press Ctrl-C again to quit now", err=True)
        elif number in QUITTING and not is_of_terminal:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, ask) for number in (*QUITTING, *hang_up)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
