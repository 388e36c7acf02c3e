"""`krisis run`: run a suite on a model and score the answers."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.backends.wording import built_in_prompt
from krisis.cli.help import command, new_app
from krisis.cli.run_command import announce, execute_run, write_run_file
from krisis.cli.run_options import given_options, with_options
from krisis.cli.sweep import start
from krisis.errors import InvalidFile, InvalidValue
from krisis.execution.assembly import dry_run_text, suite_of
from krisis.execution.config import RunConfig, checked_config, config_text, read_config
from krisis.execution.grid import AXES, plan_of
from krisis.execution.recorder import Recorder
from krisis.json_values import JsonObject, JsonValue

# Plain help: boxes of 80 columns would cut the long names of the options.
app = new_app()
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".db", ".sqlite", ".duckdb", ".xlsx")
# The axes of a sweep: each of these options may be given several times.
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
    """Run a suite on a model and score the answers."""
    if print_prompt:
        typer.echo(built_in_prompt(), nl=False)
        return []
    _refuse_table(suite)
    stored = read_config(config, check=not print_config) if config is not None else {}
    given = {**given_options(options), **({"suite": suite} if suite else {})}
    axes: JsonObject = {"models": model, "tasks": task, "seeds": seed, "modes": mode}
    axes |= {"prompts": prompt, "elicits": elicit, "instructions": instructions}
    axes["perturb"] = perturb
    if detach and not {**stored, **given}.get("batch"):
        raise InvalidValue("--detach leaves provider batches to themselves; give --batch as well")
    lists = {axis: list(dict.fromkeys(values)) for axis, values in axes.items() if values}
    if any(len(values) > 1 for axis, values in lists.items() if axis != "modes"):
        return _sweep({**stored, **given}, lists, resume, dry_run, print_config)
    given |= {AXES[axis]: values[0] for axis, values in lists.items() if axis != "modes"}
    settings = [
        checked_config({**stored, **given, **chosen}, str(config or "krisis run"))
        for chosen in ([{"mode": name} for name in dict.fromkeys(mode)] or [{}])
    ]
    for one in settings[1:]:
        suite_of(one)  # a wrong second mode is refused before the first is paid for
    if print_config:
        typer.echo("---\n".join(map(config_text, settings)), nl=False)
        return []
    if dry_run:
        typer.echo("\n".join(map(dry_run_text, settings)), nl=False)
        return []
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


def _sweep(
    given: JsonObject, lists: JsonObject, resume: bool, dry_run: bool, print_config: bool
) -> list[Path]:
    """Take several models, tasks or seeds as the plan of a sweep."""
    if resume:
        raise InvalidValue("--resume continues one run; of a sweep type: krisis resume FOLDER")
    shared = {
        name: value
        for name, value in given.items()
        if f"{name}s" not in lists and name not in lists
    }
    start(plan_of({**shared, **lists}, "krisis run"), dry_run, print_config)
    return []


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
    "krisis run --config runs/RUN.krisis",
)(with_options(run, _NAMES))
