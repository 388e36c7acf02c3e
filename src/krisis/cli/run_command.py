"""A run from the command line: Ctrl-C, the report, and what to type next."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import typer

from krisis.benchmark import Benchmark
from krisis.cli.console import print_document
from krisis.cli.run_file import companions, run_format, tell_ties, write_beside
from krisis.errors import BackendError, RunFailed, ThirdPartyWarning
from krisis.execution.assembly import assemble, execution_of, third_party_notice
from krisis.execution.config import RunConfig
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.results.base import BenchmarkResult
from krisis.results.stops import Decided, Detached, Interrupted


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
    if parts.suite.notice:
        typer.echo(parts.suite.notice, err=True)
    if warning := third_party_notice(parts.suite, parts.backend):
        announce(warning)
    if config.repeats % 2 == 0:
        announce(even_repeats(config.repeats))
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


def even_repeats(repeats: int) -> str:
    """Say what an even number of repeats entails."""
    return (
        f"{repeats} repeats can tie, and a tie between an answer and an abstention counts as an "
        f"abstention; an odd number such as {repeats + 1} leaves fewer ties"
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
    typer.echo(f"\nRun:     {run}")
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
