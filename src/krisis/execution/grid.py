"""The plan of a sweep: models × tasks × prompts and so on as cells, and the folder that holds them.

::

    runs/20260102T030405Z_sweep_3fa94c/
        sweep.json          the plan, so that the sweep can be finished or repeated
        sweep.html          its cells side by side and compared, written when it ends
        20260102T…/         one ordinary run for each cell
        lock, writer        held by the one process that writes, and its number
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from krisis.backends.template import read_template
from krisis.errors import InvalidFile, InvalidValue, UnknownName, UserError
from krisis.execution.config import RESUMABLE, RunConfig, checked_config
from krisis.execution.recorder import versions
from krisis.json_values import JsonObject, JsonValue, read_object, write_text
from krisis.runs.load import list_runs, read_description
from krisis.runs.places import is_run_file, refuse_links
from krisis.runs.read import open_run
from krisis.runs.trust import OWN_PLAN, TRUST, note_own, require_own
from krisis.yaml_values import read_mapping

# The lists of a plan and the option of a run that each of their entries is.
AXES = {
    "tasks": "task",
    "modes": "mode",
    "seeds": "seed",
    "models": "model",
    "prompts": "prompt",
    "elicits": "elicit",
    "instructions": "instructions",
    "perturb": "perturb",
}
# Said once for the whole sweep.
_OF_THE_SWEEP = ("max_cost", "max_tokens", "out", "display", "cache", "cache_path", "prices")
_NOT_OF_AN_ENTRY = {
    "tasks": {*_OF_THE_SWEEP, "model"},
    "models": {*_OF_THE_SWEEP, "suite", "task", "mode", "seed", "prompt", "elicit", "instructions"},
}
_HINT = "models: [guideline, logistic]"


class ParallelCells(BaseModel):
    """How many cells run at the same time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_cells: int = Field(4, ge=1, description="Maximum cells that run at the same time.")
    max_local_cells: int = Field(
        1, ge=1, description="Of these, maximum cells whose model runs on this machine."
    )


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a sweep, under the name that tells it apart from the others."""

    name: str
    config: RunConfig


@dataclass(frozen=True, slots=True)
class Plan:
    """All cells of a sweep in the order in which they begin, and the words that it was made of."""

    cells: list[PlannedRun]
    side_by_side: ParallelCells
    content: JsonObject

    @property
    def settings(self) -> RunConfig:
        """Return the settings that all cells share, such as the budget and the display."""
        return self.cells[0].config


def read_plan(path: Path, *, check: bool = True) -> JsonObject:
    """Read the YAML or JSON file of a plan, or the plan inside the folder of a sweep.

    With ``check`` the plan of a stranger's sweep is refused.
    """
    if path.is_dir():
        raise InvalidFile(
            f"{path} is a folder; name the file of a plan, or finish a sweep: krisis resume {path}"
        )
    if is_run_file(path):
        raise InvalidFile(f"{path} is one run; to repeat it, type: krisis run --config {path}")
    content = read_mapping(path, f"the plan of a sweep such as `{_HINT}`", option="the plan's name")
    if content.get("kind") == "krisis.sweep":
        found = SweepManifest.checked(content, path)
        if check:
            require_own(path, found.sweep_id, found.plan, instead=OWN_PLAN)
        return found.plan
    if "models" not in content and "model" not in content:
        raise InvalidFile(f"{path} names no models; add a list such as `{_HINT}`")
    return dict(content)


def plan_of(content: JsonObject, place: str) -> Plan:
    """Return the cells of a plan, every one checked; the models of one task follow each other."""
    known = [*AXES, *ParallelCells.model_fields, *RunConfig.model_fields]
    for name in content:
        if name not in known:
            raise InvalidFile(f"{place}: {UnknownName.among('option', str(name), known)}")
    content = _with_prompts(content, place)
    lists = {axis: _entries(content, axis, place) for axis in AXES}
    shared = {
        name: value
        for name, value in content.items()
        if name in RunConfig.model_fields and not (name in AXES and isinstance(value, list))
    }
    found: list[tuple[RunConfig, JsonObject]] = []
    combinations: list[JsonObject] = [{}]
    for axis, entries in lists.items():
        combinations = [_joined(one, entry, axis) for one in combinations for entry in entries]
    for chosen in combinations:
        config = checked_config({**shared, **chosen}, place)
        if config.batch:
            raise InvalidValue(
                f"{place}: a sweep asks in ordinary calls, not by provider batches; leave out "
                "batch, or start a run of its own for each model and task: krisis run --batch"
            )
        if not any(config == other for other, _ in found):
            found.append((config, chosen))
    names = _names(found, with_seed=len(lists["seeds"]) > 1)
    cells = [PlannedRun(name, config) for name, (config, _) in zip(names, found, strict=True)]
    return Plan(cells, _side_by_side(content, place), content)


def _with_prompts(content: JsonObject, place: str) -> JsonObject:
    """Return a plan with the text of its prompt files: it is stored, and they may change."""
    read = dict(content)
    if isinstance(content.get("prompt"), str):
        read["prompt"] = asdict(read_template(content["prompt"]))
    if isinstance(content.get("prompts"), list):
        read["prompts"] = [
            asdict(read_template(one)) if isinstance(one, str) else one
            for one in content["prompts"]
        ]
        names = [one.get("name") for one in read["prompts"] if isinstance(one, Mapping)]
        for name in names:
            if names.count(name) > 1:
                raise InvalidValue(f"{place}: two prompts are named {name!r}; rename a file")
    return read


def _entries(content: JsonObject, axis: str, place: str) -> list[JsonObject]:
    """Return the entries of a list, each as the options that it sets."""
    option = AXES[axis]
    if axis not in content or (axis == option and isinstance(content[axis], str)):
        return [{}]
    if option in content and axis != option:
        raise InvalidValue(f"{place}: both {option} and {axis} are given; give one of them")
    entries = content[axis]
    if not isinstance(entries, list) or not entries:
        raise InvalidValue(f"{place}: {axis} must be a list, received {entries!r}")
    return [_entry(entry, axis, place) for entry in entries]


def _entry(entry: JsonValue, axis: str, place: str) -> JsonObject:
    option = AXES[axis]
    if axis == "prompts" or not isinstance(entry, Mapping):
        return {option: entry}
    if axis not in _NOT_OF_AN_ENTRY:
        raise InvalidValue(f"{place}: {axis} must be a list of values, received {dict(entry)!r}")
    for name in entry:
        if name not in RunConfig.model_fields:
            unknown = UnknownName.among("option", str(name), RunConfig.model_fields)
            raise InvalidFile(f"{place}: {axis}: {unknown}")
        if name in _NOT_OF_AN_ENTRY[axis]:
            raise InvalidValue(
                f"{place}: {name} cannot be set for one of the {axis}; set it for the whole sweep"
            )
    if option not in entry and not (axis == "tasks" and "suite" in entry):
        raise InvalidValue(f"{place}: an entry of {axis} lacks its {option}: {dict(entry)!r}")
    return dict(entry)


def _joined(one: JsonObject, entry: JsonObject, axis: str) -> JsonObject:
    for name in one.keys() & entry.keys():
        raise InvalidValue(f"{name} is set by an entry of tasks and by {axis}; set it once")
    return {**one, **entry}


def _names(found: list[tuple[RunConfig, JsonObject]], *, with_seed: bool) -> list[str]:
    """Name each cell after its model and task, with more where that is not enough."""
    names = []
    for config, _ in found:
        suite = (
            Path(config.suite).stem if config.suite.endswith((".yaml", ".yml")) else config.suite
        )
        question = f"{suite} {config.task}" if config.task else suite
        seed = f"seed {config.seed}" if with_seed else ""
        asked = (config.model, question, config.mode or "", seed, *config.asking.words)
        names.append(" · ".join(filter(None, asked)))
    counts = Counter(names)
    for place, (_, chosen) in enumerate(found):
        if counts[names[place]] > 1:
            own = {key: value for key, value in chosen.items() if key not in AXES.values()}
            words = ", ".join(f"{key} {value}" for key, value in own.items() if key != "suite")
            names[place] += f" ({words or 'as usual'})"
    return names


def _side_by_side(content: JsonObject, place: str) -> ParallelCells:
    given = {name: content[name] for name in ParallelCells.model_fields if name in content}
    try:
        return ParallelCells.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InvalidValue(
            f"{place}: {name}: {first['msg']}, received {first['input']!r}"
        ) from None


class SweepManifest(BaseModel):
    """What a sweep is: enough to finish it and to repeat it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["krisis.sweep"] = "krisis.sweep"
    schema_version: Literal[1] = 1
    sweep_id: str
    created_at: str
    versions: dict[str, str] = {}
    plan: JsonObject

    @classmethod
    def checked(cls, content: JsonObject, path: Path) -> SweepManifest:
        """Return the manifest, or one sentence about what is wrong with it."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InvalidFile(f"{path}: {place}: {first['msg']}; was it edited?") from None


@dataclass(frozen=True, slots=True)
class SweepFolder:
    """The places inside the folder of a sweep."""

    path: Path

    @property
    def manifest(self) -> Path:
        """Where it says what was planned."""
        return self.path / "sweep.json"

    @property
    def page(self) -> Path:
        """Where the page of the cells and comparisons is written at the end: next to the folder."""
        return self.path.with_name(f"{self.path.name}.html")

    @property
    def exists(self) -> bool:
        """Say whether the folder is that of a sweep."""
        return self.manifest.is_file()

    @classmethod
    def created(cls, plan: Plan) -> SweepFolder:
        """Make the folder of a new sweep."""
        created_at, sweep_id = datetime.now(UTC), secrets.token_hex(3)
        name = f"{created_at.strftime('%Y%m%dT%H%M%SZ')}_sweep_{sweep_id}"
        folder = cls(Path(plan.settings.out) / name)
        manifest = SweepManifest(
            sweep_id=sweep_id,
            created_at=created_at.isoformat(timespec="milliseconds"),
            versions=versions(),
            plan=plan.content,
        )
        try:
            folder.path.parent.mkdir(parents=True, exist_ok=True)
            folder.path.mkdir(mode=0o700)
            note_own(sweep_id, manifest.plan)
            write_text(folder.manifest, manifest.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise InvalidFile(
                f"{folder.path} cannot be written ({error.strerror}); choose another folder "
                "(--output)"
            ) from None
        return folder

    def plan(self, given: JsonObject, *, trust: bool = False) -> Plan:
        """Return the plan of the sweep, changed where that cannot change an answer.

        The plan of a stranger is refused unless it is to be trusted.
        """
        refuse_links(self.manifest)
        found = SweepManifest.checked(read_object(self.manifest), self.manifest)
        if trust:
            note_own(found.sweep_id, found.plan)
        require_own(self.path, found.sweep_id, found.plan, instead=TRUST)
        return plan_of({**found.plan, **given}, str(self.path))

    def runs(self, plan: Plan) -> dict[str, Path]:
        """Return the run of every cell that has one, by the name of the cell."""
        found: dict[str, Path] = {}
        keys = {cell.name: _key(cell.config) for cell in plan.cells}
        for path in list_runs(self.path):
            try:
                key = _key(checked_config(read_description(path).config, str(path)))
            except UserError:
                continue
            for name in (name for name, other in keys.items() if other == key):
                if name not in found or _n_rows(path) > _n_rows(found[name]):
                    found[name] = path
        return found


def _key(config: RunConfig) -> JsonObject:
    """Return what a cell is recognised by: nothing that a resume may change."""
    return config.model_dump(mode="json", exclude={*RESUMABLE, "out", "store_features"})


def _n_rows(run: Path) -> int:
    with open_run(run, checked=True) as opened:
        return opened.n_rows
