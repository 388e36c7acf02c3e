"""`krisis resume`: finish a run or a grid of runs that was cut short."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.cli.run_command import announce, execute_run, resume_grid, write_run_file
from krisis.cli.run_options import given_options, with_options
from krisis.errors import InvalidValue
from krisis.execution.config import RESUMABLE, RunConfig, checked_config, config_of_run
from krisis.execution.grid import GridFolder
from krisis.execution.recorder import Recorder
from krisis.json_values import JsonObject, JsonValue
from krisis.runs.load import read_description
from krisis.runs.trust import TRUST, note_own, require_own

app = new_app()
TRUST_OPTION = typer.Option(False, "--trust")


def resume(
    run: Path = typer.Argument(..., help="A run, or the folder of a grid."),
    failed: bool = typer.Option(False, "--failed"),
    trust: bool = TRUST_OPTION,
    **options: JsonValue,
) -> None:
    """Finish a run or a grid that was cut short; records that have a row are not asked again."""
    grid = GridFolder(run)
    if grid.exists:
        if failed:
            raise InvalidValue(
                f"{run} is a grid, and --failed is for one run; type: krisis resume {run}/RUN "
                "--failed"
            )
        resume_grid(grid, given_options(options), trust=trust)
        return
    config = stored_config(run, options, trust=trust)
    recorder = Recorder.resume(run, retry_failed=failed, announce=announce)
    write_run_file(config, [execute_run(config, recorder)])


def stored_config(run: Path, options: JsonObject, *, trust: bool) -> RunConfig:
    """Return the configuration of a run, changed where that cannot change an answer.

    That of a stranger's run is refused unless it is to be trusted.
    """
    described = read_description(run)
    config = config_of_run(run, described)
    if trust:
        note_own(described.run_id, config)
    require_own(run, described.run_id, config, instead=TRUST)
    return checked_config({**config, **given_options(options)}, str(run))


command(
    app,
    "krisis resume runs/RUN --max-cost 10",
    "krisis resume runs/RUN --failed --max-concurrency 2",
)(with_options(resume, RESUMABLE))
