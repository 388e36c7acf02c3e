"""The `krisis` command: a table of sub-commands, each imported only when it is called."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from typing import Any

import typer

from krisis import __version__
from krisis.cli.help import HelpGroup, mistakes_in_one_sentence
from krisis.cli.streams import echo_error, prepare_streams
from krisis.errors import KrisisError
from krisis.registry import fault_of_own_code

# Group of the help → command → (module that holds its `app`, one line of help).
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Evaluate": {
        "run": ("krisis.cli.run", "Run suites on models and score the answers."),
        "resume": (
            "krisis.cli.resume",
            "Finish a run or a grid that was cut short.",
        ),
        "read": ("krisis.verbs.read.command", "Have a person answer the cases, as a run."),
        "batches": (
            "krisis.verbs.maintain.batches_command",
            "List, await, collect or cancel provider batches.",
        ),
    },
    "Look": {
        "show": ("krisis.cli.show", "Print the report of a run, or score it again."),
        "report": ("krisis.verbs.report.command", "Write a run as one self-contained HTML page."),
        "compare": (
            "krisis.verbs.compare.command",
            "Compare runs on the same cases, pair by pair.",
        ),
        "figure": (
            "krisis.verbs.report.figure_command",
            "Draw one or several runs as a figure for a paper.",
        ),
        "view": ("krisis.viewer.command", "Browse saved runs, on this machine only."),
        "sheet": ("krisis.verbs.sheet.command", "Write the reporting sheet (TRIPOD-LLM) of a run."),
    },
    "Decide": {
        "plan": ("krisis.verbs.plan.command", "Estimate the sample size of a study."),
        "selective": (
            "krisis.verbs.selective.command",
            "Measure how well confidence ranks the answers.",
        ),
        "calibrate": (
            "krisis.verbs.selective.calibrate_command",
            "Fit a calibrator: from signals to a probability.",
        ),
        "certify": ("krisis.cli.certify", "Find a confidence threshold with a bounded risk."),
        "verify": ("krisis.cli.verify", "Check a certificate on new patients."),
        "monitor": (
            "krisis.verbs.monitor.command",
            "Check that a certified risk still holds, over time.",
        ),
        "decide": ("krisis.verbs.decide.command", "Estimate what answering and deferring cost."),
        "audit": ("krisis.verbs.audit.command", "Check performance by subgroup."),
        "check": (
            "krisis.verbs.check.command",
            "Check a run against requirements; exit 1 if one fails.",
        ),
    },
    "Data": {
        "info": (
            "krisis.verbs.info.command",
            "List suites, backends and metrics, or describe one.",
        ),
        "init": (
            "krisis.data.table.init_command",
            "Write a first YAML file for a table of your own.",
        ),
        "data": (
            "krisis.verbs.info.data_command",
            "Write the embedded cohorts, or check your own files.",
        ),
        "import": ("krisis.formats.import_command", "Import predictions from other tools."),
        "export": (
            "krisis.formats.export_command",
            "Write a run as a table, Inspect log or run file.",
        ),
    },
    "Maintain": {
        "pull": (
            "krisis.verbs.maintain.pull_command",
            "Download a small model, or the patients of a suite.",
        ),
        "doctor": ("krisis.verbs.maintain.doctor_command", "Diagnose and repair a run."),
        "forget": ("krisis.verbs.forget.command", "Remove a patient from runs and caches."),
        "cache": (
            "krisis.verbs.maintain.cache_command",
            "Show or clear the cache of paid replies.",
        ),
    },
}
COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}

_EXAMPLES = (
    "krisis run ckd --task staging --model openai/NAME --limit 20 --dry-run",
    "krisis compare runs/A runs/B --html comparison.html",
    "krisis view",
    "New here? Type: krisis run ckd --model guideline   Then: krisis info ckd",
    "Every command has a --help. For evaluation, never for the care of a patient.",
)


class LazyGroup(HelpGroup):
    """Shows every command in the help, but imports only the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Replace the placeholder of the help by the real command."""
        name, _, rest = super().resolve_command(ctx, args)
        module, _ = COMMANDS[str(name)]
        return name, typer.main.get_command(import_module(module).app), rest

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the options before a command."""
        with mistakes_in_one_sentence():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Read the rest of the line and call the command."""
        with mistakes_in_one_sentence(ctx):
            return super().invoke(ctx)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Measure whether a language model knows when not to answer a clinical question.",
    epilog="\n".join(_EXAMPLES),
)


def _placeholder() -> None:  # pragma: no cover - replaced before it can run
    """Stand in the help for a command that has not been imported."""


for _group, _commands in GROUPS.items():
    for _name, (_, _help) in _commands.items():
        app.command(_name, help=_help, rich_help_panel=_group)(_placeholder)


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
        command(arguments, prog_name="krisis")
    except Exception as error:
        told = error if isinstance(error, KrisisError) else fault_of_own_code(error)
        if told is None:
            raise
        if len(arguments) < len(sys.argv) - 1:
            traceback.print_exception(error)
        echo_error(str(told))
        sys.exit(told.exit_code)
