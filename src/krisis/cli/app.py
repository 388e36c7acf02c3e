"""The `krisis` command: a table of sub-commands, each imported only when it is called."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from krisis import __version__
from krisis.cli.streams import prepare_streams
from krisis.errors import KrisisError
from krisis.registry import fault_of_own_code

# Command → (module that holds its `app`, one line of help). The order is that of `--help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "pull": ("krisis.cli.pull", "Download a small language model for the backend `local`."),
    "run": ("krisis.cli.run", "Run a suite on a model and score the answers."),
    "sweep": ("krisis.cli.sweep", "Run every model of a plan on every task, side by side."),
    "resume": ("krisis.cli.resume", "Finish a run or a sweep that was cut short."),
    "retry-failed": ("krisis.cli.retry_failed", "Retry the failed records of a run."),
    "batches": ("krisis.cli.batches", "List, await, collect or cancel provider batches."),
    "doctor": ("krisis.cli.doctor", "Say what is damaged in a run, and mend it."),
    "cache": ("krisis.cli.cache", "Show or clear the cache of paid replies."),
    "init": ("krisis.cli.init", "Write a first YAML file for a table of your own."),
    "data": ("krisis.cli.data", "Write the embedded cohorts, or check files of your own."),
    "list": ("krisis.cli.names", "List the suites, backends or metrics that are installed."),
    "run-file": ("krisis.cli.run_file", "Write runs in the file format of their suite."),
    "import": ("krisis.cli.import_run", "Turn predictions of other programs into runs."),
    "export": ("krisis.cli.export", "Write the rows of a run as a table, or as an Inspect log."),
    "score": ("krisis.cli.score", "Recompute the metrics of a saved result, without any model."),
    "show": ("krisis.cli.show", "Print the report of a saved result."),
    "selective": (
        "krisis.cli.selective",
        "Judge how well confidence ranks the answers of one run, or of two runs compared.",
    ),
    "calibrate": (
        "krisis.cli.calibrate",
        "Fit a calibrator on a run: from signals of confidence to a probability.",
    ),
    "certify": (
        "krisis.cli.certify",
        "Find a confidence threshold with a bounded risk, or verify one on new patients.",
    ),
    "decide": (
        "krisis.cli.decide",
        "Say what answering and deferring cost, and from which confidence on to answer.",
    ),
    "audit": (
        "krisis.cli.audit",
        "Audit a run: does it hold in every group, and what if labels are wrong.",
    ),
    "report": ("krisis.cli.report", "Write a run as one self-contained HTML page."),
    "figure": ("krisis.cli.figure", "Draw one or several runs as a figure for a paper."),
    "sheet": ("krisis.cli.sheet", "Write what a paper about a run must say, as Markdown."),
    "check": (
        "krisis.cli.check",
        "Check a run against requirements: exit 1 when one fails, 2 when one cannot be judged.",
    ),
    "plan": ("krisis.cli.plan", "Say how many patients a study needs, and what it costs."),
    "compare": ("krisis.cli.compare", "Compare runs on the same cases, pair by pair."),
    "leaderboard": ("krisis.cli.leaderboard", "Show runs side by side, per suite and task."),
    "view": ("krisis.cli.view", "Look at saved runs in a browser, on this machine only."),
}


class LazyGroup(TyperGroup):
    """Shows every command in the help, but imports only the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Replace the placeholder of the help by the real command."""
        name, _, rest = super().resolve_command(ctx, args)
        module, _ = COMMANDS[str(name)]
        return name, typer.main.get_command(import_module(module).app), rest


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure whether a language model knows when not to answer a clinical question.",
    epilog="krisis is for evaluation, never for the care of a patient.",
)


def _placeholder() -> None:  # pragma: no cover - replaced before it can run
    """Stand in the help for a command that has not been imported."""


for _name, (_, _help) in COMMANDS.items():
    app.command(_name, help=_help)(_placeholder)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"krisis {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
    debug: bool = typer.Option(
        False, "--debug", help="Show the traceback of an error; may be given anywhere."
    ),
) -> None:
    """Take the options that come before any command."""


def main(command: typer.Typer = app) -> None:
    """Run the command line: one sentence and exit 2 for a user's error, 1 for a failed run."""
    prepare_streams()
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        command(arguments)
    except Exception as error:
        told = error if isinstance(error, KrisisError) else fault_of_own_code(error)
        if told is None:
            raise
        if len(arguments) < len(sys.argv) - 1:
            traceback.print_exception(error)
        typer.echo(f"krisis: {told}", err=True)
        sys.exit(told.exit_code)
