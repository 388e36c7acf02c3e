"""`krisis batches`: list, await, collect or cancel the provider batches of a run."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import typer

from krisis.backends.batch_api import BatchApi
from krisis.cli.help import command, new_app
from krisis.cli.resume import TRUST_OPTION, stored_config
from krisis.cli.run_command import announce, execute_run, write_run_file
from krisis.cli.streams import echo_json
from krisis.display import TextOrJson
from krisis.errors import BackendError, InvalidFile
from krisis.execution.assembly import backend_of
from krisis.execution.config import RunConfig
from krisis.execution.options import batch_api_of
from krisis.execution.recorder import Recorder
from krisis.json_values import JsonObject, dumps
from krisis.runs.provider_batches import ProviderBatch, unsettled
from krisis.runs.read import RunContents, open_run
from krisis.runs.write import RunWriter

app = new_app("List, await, collect or cancel the provider batches of a run.")
_RUN = typer.Argument(..., help="A run.")
_POLL = typer.Option(None, "--poll-seconds")


@command(app, "krisis batches list runs/RUN", name="list")
def list_batches(
    run: Path = _RUN,
    trust: bool = TRUST_OPTION,
    output_format: TextOrJson = typer.Option(TextOrJson.TABLE, "--format"),
) -> None:
    """List the provider batches of a run; the provider is asked about those that are open."""
    config, found = _read(run, trust)
    states = asyncio.run(_states(batch_api_of(backend_of(config)), found))
    if output_format is TextOrJson.JSON:
        echo_json(dumps({"run": str(run), "provider_batches": states}))
        return
    for one in states:
        counted = f"{one['n_requests']} requests, {one['n_without_row']} without a row"
        name = one["batch_id"] or f"(marker {one['marker']})"
        typer.echo(f"{one['submitted_at']}  {name}  {one['state']}  {counted}")
    if not states:
        typer.echo(f"{run} has no provider batches")


@command(app, "krisis batches wait runs/RUN --poll-seconds 60")
def wait(run: Path = _RUN, trust: bool = TRUST_OPTION, poll_seconds: float | None = _POLL) -> None:
    """Wait until the provider batches have ended and collect them; submit nothing."""
    _take_up(run, trust, wait=True, poll_seconds=poll_seconds)


@command(app, "krisis batches collect runs/RUN")
def collect(run: Path = _RUN, trust: bool = TRUST_OPTION) -> None:
    """Collect the provider batches that have ended, without waiting; submit nothing."""
    _take_up(run, trust, wait=False)


@command(app, "krisis batches cancel runs/RUN")
def cancel(run: Path = _RUN, trust: bool = TRUST_OPTION) -> None:
    """Cancel the open provider batches; what was answered until then can be collected.

    One that the provider no longer knows is given up, and its records are asked again by a resume.
    """
    config, _ = _read(run, trust)
    api = batch_api_of(backend_of(config))
    with open_run(run) as opened:
        description = opened.description
    writer = RunWriter.resume(run, description, ())  # nobody may submit or collect meanwhile
    try:
        _, found = _read(run, trust)
        open_batches = found.provider_batches.open
        for batch in open_batches:
            typer.echo(asyncio.run(_cancelled(api, batch, found, writer)))
    finally:
        writer.close()
    if not open_batches:
        typer.echo(f"{run} has no open provider batches")
        return
    typer.echo(f"to collect what was answered, type: krisis batches wait {run}")


def _read(run: Path, trust: bool) -> tuple[RunConfig, RunContents]:
    config = stored_config(run, {"batch": True}, trust=trust)
    with open_run(run) as opened:
        found = opened.contents()
        if not opened.description.config.get("batch") and not found.provider_batches.batches:
            raise InvalidFile(f"{run} asks in ordinary calls: it has no provider batches")
    return config, found


def _take_up(run: Path, trust: bool, *, wait: bool, poll_seconds: float | None = None) -> None:
    _read(run, trust)
    config = stored_config(run, {"batch": True, "poll_seconds": poll_seconds}, trust=trust)
    recorder = Recorder.resume(run, announce=announce)
    write_run_file(config, [execute_run(config, recorder, submit=False, wait=wait)])


async def _states(api: BatchApi, found: RunContents) -> list[JsonObject]:
    try:
        return [
            {
                "marker": batch.marker,
                "batch_id": batch.batch_id,
                "submitted_at": _minute(batch.intended_at),
                "state": await _state(api, batch),
                "n_requests": len(batch.requests),
                "n_without_row": len(unsettled(batch, found.rows)),
            }
            for batch in found.provider_batches.batches.values()
        ]
    finally:
        await api.close()


async def _state(api: BatchApi, batch: ProviderBatch) -> str:
    if batch.end:
        return batch.end.replace("_", " ")
    if not batch.batch_id:
        return "submission not confirmed"
    try:
        return (await api.state(batch.batch_id)).words
    except BackendError as error:
        return f"not known: {error}"


async def _cancelled(
    api: BatchApi, batch: ProviderBatch, found: RunContents, writer: RunWriter
) -> str:
    if not batch.batch_id:
        again = f"type: krisis resume {writer.path}"
        return f"marker {batch.marker}: its submission is not confirmed; {again}"
    try:
        await api.cancel(batch.batch_id)
    except BackendError as error:
        if error.status != 404:
            return f"{batch.batch_id}: not cancelled: {error}"
        batch.end, batch.again = "given_up", tuple(unsettled(batch, found.rows))
        writer.note_provider_batch(batch)
        return f"{batch.batch_id}: the provider does not know it; given up"
    finally:
        await api.close()
    return f"{batch.batch_id}: asked to cancel"


def _minute(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="minutes")
