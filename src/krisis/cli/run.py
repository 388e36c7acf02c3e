"""`krisis run`: run suites on models and score the answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from krisis.backends.wording import built_in_prompt
from krisis.cli.help import command, new_app
from krisis.cli.run_command import announce, execute_run, start_grid, write_run_file
from krisis.cli.run_options import given_options, with_options
from krisis.errors import InvalidFile, InvalidValue
from krisis.execution.assembly import dry_run_text, suite_of
from krisis.execution.config import RunConfig, config_text
from krisis.execution.grid import AXES, grid_of, read_settings, with_axes
from krisis.execution.recorder import Recorder
from krisis.json_values import JsonValue

# Plain help: boxes of 80 columns would cut the long names of the options.
app = new_app()
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".db", ".sqlite", ".duckdb", ".xlsx")
# The axes of a grid: each of these options may be given several times.
_MODE = typer.Option([], "--mode")
_MODEL = typer.Option([], "--model")
_TASK = typer.Option([], "--task")
_SEED = typer.Option([], "--seed", min=0)
_PROMPT = typer.Option([], "--prompt")
_ELICIT = typer.Option(
    [],
    "--elicit",
)
_INSTRUCTIONS = typer.Option(
    [],
    "--instructions",
)
_PERTURB = typer.Option([], "--perturb")


def run(
    suite: str | None = typer.Argument(
        None, help="Suite to run, or its YAML file; see `krisis info`."
    ),
    config: Path | None = typer.Option(None, "--config"),
    print_config: bool = typer.Option(False, "--print-config"),
    dry_run: bool = typer.Option(False, "--dry-run"),
    print_prompt: bool = typer.Option(False, "--print-prompt"),
    resume: bool = typer.Option(False, "--resume"),
    detach: bool = typer.Option(False, "--detach"),
    mode: list[str] = _MODE,
    model: list[str] = _MODEL,
    task: list[str] = _TASK,
    seed: list[int] = _SEED,
    prompt: list[str] = _PROMPT,
    elicit: list[str] = _ELICIT,
    instructions: list[str] = _INSTRUCTIONS,
    perturb: list[str] = _PERTURB,
    **options: JsonValue,
) -> list[Path]:
    """Run a suite on one or several models and score the answers."""
    if print_prompt:
        typer.echo(built_in_prompt(), nl=False)
        return []
    _refuse_table(suite)
    stored = read_settings(config, check=not print_config) if config is not None else {}
    given = {**given_options(options), **({"suite": suite} if suite else {})}
    axes: dict[str, Sequence[JsonValue]]
    axes = {"models": model, "tasks": task, "seeds": seed, "modes": mode}
    axes |= {"prompts": prompt, "elicits": elicit, "instructions": instructions}
    axes["perturb"] = perturb
    content = with_axes({**stored, **given}, axes)
    if detach and not content.get("batch"):
        raise InvalidValue("--detach leaves provider batches to themselves; give --batch as well")
    grid = grid_of(content, str(config or "krisis run"))
    if print_config:
        typer.echo("---\n".join(config_text(cell.config) for cell in grid.cells), nl=False)
        return []
    settings = [cell.config for cell in grid.cells]
    if any(one.model_copy(update={"mode": settings[0].mode}) != settings[0] for one in settings):
        if resume:
            raise InvalidValue("--resume continues one run; of a grid type: krisis resume FOLDER")
        return start_grid(grid, dry_run=dry_run)
    for one in settings[1:]:
        suite_of(one)  # a wrong second mode is refused before the first is paid for
    if dry_run:
        typer.echo("\n".join(map(dry_run_text, settings)), nl=False)
        return []
    # The modes of one model follow each other: each has a report, and one run file holds them.
    runs = [execute_run(one, _recorder(one, resume=resume), wait=not detach) for one in settings]
    write_run_file(settings[0], runs)
    return runs


def _refuse_table(suite: str | None) -> None:
    """Say how a table becomes a suite, where one is named in place of it."""
    if suite is None or Path(suite).suffix.lower() not in _TABLES:
        return
    if not Path(suite).is_file():
        raise InvalidFile(f"{suite} does not exist")
    file = Path(suite).with_suffix(".yaml")
    raise InvalidValue(
        f"{suite} is a table, and a suite says what is asked about it; type: krisis init {suite}, "
        f"read {file}, then type: krisis run {file} --model NAME"
    )


def _recorder(settings: RunConfig, *, resume: bool) -> Recorder:
    return Recorder(
        settings.out,
        config=settings.model_dump(mode="json"),
        store_features=settings.store_features,
        resume_newest=resume,
        announce=announce,
    )


_NAMES = [name for name in RunConfig.model_fields if name not in ("suite", *AXES.values())]
command(
    app,
    "krisis run ckd --model guideline",
    "krisis run ckd --model openai/NAME --limit 50 --dry-run",
    "krisis run ckd --model openai/NAME -j 8 --max-cost 2 --prices prices.yaml",
    "krisis run phq8 --mode few_shot --model openai/NAME --repeats 5",
    "krisis run clinic.yaml --model openai/NAME",
    "krisis run ckd --model guideline --model logistic --task staging",
    "krisis run --config plan.yaml --dry-run",
    "krisis run --config runs/RUN.krisis",
)(with_options(run, _NAMES))
