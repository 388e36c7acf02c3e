"""`krisis run`: put the records of a suite to a model and score what comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from krisis.cli.carry_out import carry_out
from krisis.cli.run_options import given_options, option_parameters, with_parameters
from krisis.execution.assembly import assemble
from krisis.execution.config import RunConfig, checked_config, config_text, read_config
from krisis.execution.dry_run import dry_run_text
from krisis.execution.prices import price_for, read_prices
from krisis.execution.recorder import Recorder
from krisis.execution.unfinished import newest_unfinished

app = typer.Typer(
    add_completion=False, help="Put the records of a suite to a model and score what comes back."
)

_EXAMPLES = (
    "Examples:  krisis run ckd --model guideline  |  krisis run ckd --task staging --model "
    "openai/NAME --limit 50 --max-concurrency 8 --max-cost 2 --prices prices.yaml  |  "
    "krisis run --config runs/RUN/manifest.json"
)


def run(
    suite: str | None = typer.Argument(None, help="Suite to run, see `krisis list suites`."),
    config: Path | None = typer.Option(
        None, "--config", help="YAML file, or manifest.json of a run; options given here win."
    ),
    print_config: bool = typer.Option(
        False, "--print-config", help="Print the effective configuration as YAML and stop."
    ),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print the first prompt and the estimates; send nothing."
    ),
    resume: bool = typer.Option(
        False, "--resume", help="Take up the newest unfinished run of this suite and model."
    ),
    **options: Any,
) -> None:
    """Put the records of a suite to a model and score what comes back."""
    stored = read_config(config) if config is not None else {}
    given = {**given_options(options), **({"suite": suite} if suite else {})}
    settings = checked_config({**stored, **given}, str(config or "krisis run"))
    if print_config:
        typer.echo(config_text(settings), nl=False)
    elif dry_run:
        typer.echo(_dry_run(settings), nl=False)
    else:
        unfinished = newest_unfinished(settings) if resume else None
        carry_out(
            settings,
            Recorder(
                settings.out,
                config=settings.model_dump(mode="json"),
                store_features=settings.store_features,
            )
            if unfinished is None
            else Recorder.resume(unfinished),
        )


def _dry_run(settings: RunConfig) -> str:
    parts = assemble(settings)
    parts.backend.prepare(parts.suite)
    prices = read_prices(settings.prices) if settings.prices else {}
    return dry_run_text(
        parts.backend,
        parts.records,
        batch_size=settings.batch_size,
        repeats=settings.repeats,
        price=price_for(settings.model, prices),
    )


_NAMES = [name for name in RunConfig.model_fields if name != "suite"]
app.command(epilog=_EXAMPLES)(with_parameters(run, option_parameters(_NAMES)))
