"""Run the PHQ-8 suite on any model and write its run file, with several samples if wanted."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from krisis.cli.app import main
from krisis.cli.run import run
from krisis.cli.run_file import write_beside
from krisis.cli.run_options import with_options
from krisis.errors import InvalidFile, InvalidValue
from krisis.execution.config import RunConfig
from krisis.json_values import JsonObject, JsonValue

SAMPLES_IF_ENABLED = 5

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def reproduce_results(
    mode: list[str] = typer.Option(
        ["zero_shot", "few_shot"], "--mode", help="zero_shot or few_shot; repeatable."
    ),
    consistency_samples: int | None = typer.Option(
        None,
        "--consistency-samples",
        min=1,
        help="Answers asked for each item; consistency signals need more than 1. Default: 1, or "
        f"CONSISTENCY_SAMPLES ({SAMPLES_IF_ENABLED} if not set) where CONSISTENCY_ENABLED=true.",
    ),
    output: Path | None = typer.Option(
        None, "--output", help="Write the run file to this new file too, not only beside the runs."
    ),
    **options: JsonValue,
) -> None:
    """Ask a model for every PHQ-8 item and write the run file of selective prediction.

    Without --data-path the interviews are those of the embedded suite. A participant with a
    failed item is written as success: false.
    """
    if output is not None and output.exists():
        raise InvalidFile(f"{output} exists already; choose another name")
    repeats = consistency_samples or samples_from_environment()
    axes: JsonObject = {
        name: [] if (value := options.pop(name, None)) is None else [value]
        for name in ("model", "task", "seed", "prompt", "elicit")
    }
    runs = run(
        "phq8",
        config=None,
        print_config=False,
        print_prompt=False,
        dry_run=False,
        resume=False,
        detach=False,
        mode=mode,
        repeats=repeats,
        **axes,
        **options,
    )
    if output is not None:
        typer.echo(f"Run file: {write_beside(runs, output)}")


def samples_from_environment() -> int:
    """Return the number of samples that CONSISTENCY_ENABLED and CONSISTENCY_SAMPLES ask for."""
    enabled = os.environ.get("CONSISTENCY_ENABLED", "false").strip().lower()
    if enabled not in ("true", "false"):
        raise InvalidValue(f"CONSISTENCY_ENABLED must be true or false, not {enabled!r}")
    if enabled == "false":
        return 1
    samples = os.environ.get("CONSISTENCY_SAMPLES", str(SAMPLES_IF_ENABLED)).strip()
    if not samples.isdecimal() or int(samples) < 1:
        raise InvalidValue(
            f"CONSISTENCY_SAMPLES must be a whole number of 1 or more, not {samples!r}"
        )
    return int(samples)


# Options of other suites, and those that this script sets itself.
_LEFT_OUT = ("out", "suite", "task", "features", "sex", "mode", "repeats")
_NAMES = [name for name in RunConfig.model_fields if name not in _LEFT_OUT]
app.command(
    epilog="Examples:  python scripts/reproduce_results.py --model lexicon --consistency-samples 5 "
    "--output data/outputs/your_run.json  |  CONSISTENCY_ENABLED=true python "
    "scripts/reproduce_results.py --model openai/NAME --temperature 0.7 --mode few_shot "
    "--data-path INTERVIEWS",
)(with_options(reproduce_results, _NAMES))

if __name__ == "__main__":
    main(app)
