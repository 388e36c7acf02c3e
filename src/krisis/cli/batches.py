"""`krisis batches`: list, await, collect or cancel the provider batches of a run."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import typer

from krisis.backends.batch_api import BatchApi
from krisis.cli.carry_out import announce, carry_out, write_run_file
from krisis.cli.help import command, new_app
from krisis.cli.resume import TRUST_OPTION, stored_config
from krisis.cli.streams import echo_json
from krisis.errors import BackendError, InvalidFile
from krisis.execution.assembly import backend_of
from krisis.execution.config import RunConfig
from krisis.execution.options import batch_api_of
from krisis.execution.recorder import Recorder
from krisis.json_values import JsonObject, dumps
from krisis.results.journal import Journal
from krisis.results.journal_reading import JournalContents, read_journal
from krisis.results.lock import RunLock
from krisis.results.provider_batches import ProviderBatch, unsettled
from krisis.results.store import RunDirectory, read_manifest

app = new_app("List, await, collect or cancel the provider batches of a run.")
_RUN = typer.Argument(..., help="A run directory.")
_POLL = typer.Option(None, "--poll-seconds")


@command(app, "krisis batches list runs/RUN", name="list")
def list_batches(
    run: Path = _RUN,
    trust: bool = TRUST_OPTION,
    as_json: bool = typer.Option(False, "--json"),
) -> None:
    """List the provider batches of a run; the provider is asked about those that are open."""
    config, journal = _read(run, trust)
    found = asyncio.run(_states(batch_api_of(backend_of(config)), journal))
    if as_json:
        echo_json(dumps({"run": str(run), "provider_batches": found}))
        return
    for one in found:
        counted = f"{one['n_requests']} requests, {one['n_without_row']} without a row"
        name = one["batch_id"] or f"(marker {one['marker']})"
        typer.echo(f"{one['submitted_at']}  {name}  {one['state']}  {counted}")
    if not found:
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
    config, journal = _read(run, trust)
    api = batch_api_of(backend_of(config))
    lock = RunLock(run)  # nobody may submit or collect meanwhile
    try:
        _, journal = _read(run, trust)
        for batch in journal.provider_batches.open:
            typer.echo(asyncio.run(_cancelled(api, batch, journal, run)))
    finally:
        lock.release()
    if not journal.provider_batches.open:
        typer.echo(f"{run} has no open provider batches")
        return
    typer.echo(f"to collect what was answered, type: krisis batches wait {run}")


def _read(run: Path, trust: bool) -> tuple[RunConfig, JournalContents]:
    config = stored_config(run, {"batch": True}, trust=trust)
    if not read_manifest(run).config.get("batch"):
        journal = read_journal(RunDirectory(run).rows)
        if not journal.provider_batches.batches:
            raise InvalidFile(f"{run} asks in ordinary calls: it has no provider batches")
        return config, journal
    return config, read_journal(RunDirectory(run).rows)


def _take_up(run: Path, trust: bool, *, wait: bool, poll_seconds: float | None = None) -> None:
    _read(run, trust)
    config = stored_config(run, {"batch": True, "poll_seconds": poll_seconds}, trust=trust)
    recorder = Recorder.resume(run, announce=announce)
    write_run_file(config, [carry_out(config, recorder, submit=False, wait=wait)])


async def _states(api: BatchApi, journal: JournalContents) -> list[JsonObject]:
    try:
        return [
            {
                "marker": batch.marker,
                "batch_id": batch.batch_id,
                "submitted_at": _minute(batch.intended_at),
                "state": await _state(api, batch),
                "n_requests": len(batch.requests),
                "n_without_row": len(unsettled(batch, journal.rows)),
            }
            for batch in journal.provider_batches.batches.values()
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
    api: BatchApi, batch: ProviderBatch, journal: JournalContents, run: Path
) -> str:
    if not batch.batch_id:
        return f"marker {batch.marker}: its submission is not confirmed; type: krisis resume {run}"
    try:
        await api.cancel(batch.batch_id)
    except BackendError as error:
        if error.status != 404:
            return f"{batch.batch_id}: not cancelled: {error}"
        again = list(map(list, unsettled(batch, journal.rows)))
        line = batch.line("closed", end="given_up", again=again, calls={})
        writer = Journal(RunDirectory(run).rows)
        writer.note_provider_batch(line)
        writer.close()
        return f"{batch.batch_id}: the provider does not know it; given up"
    finally:
        await api.close()
    return f"{batch.batch_id}: asked to cancel"


def _minute(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="minutes")
