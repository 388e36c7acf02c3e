"""`krisis retry-failed`: retry the records that failed."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.carry_out import announce, carry_out, write_run_file
from krisis.cli.help import command, new_app
from krisis.cli.resume import TRUST_OPTION, stored_config
from krisis.cli.run_options import with_options
from krisis.execution.config import RESUMABLE
from krisis.execution.recorder import Recorder
from krisis.json_values import JsonValue

app = new_app()


def retry_failed(
    run: Path = typer.Argument(..., help="A run directory."),
    trust: bool = TRUST_OPTION,
    **options: JsonValue,
) -> None:
    """Retry the failed records of a run, and ask those that have no row yet."""
    config = stored_config(run, options, trust=trust)
    recorder = Recorder.resume(run, retry_failed=True, announce=announce)
    write_run_file(config, [carry_out(config, recorder)])


command(app, "krisis retry-failed runs/RUN --max-concurrency 2")(
    with_options(retry_failed, RESUMABLE)
)
