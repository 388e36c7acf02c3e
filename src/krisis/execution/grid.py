"""Several runs as one grid: models × tasks × prompts and so on, and the folder that holds them.

::

    runs/20260102T030405Z_grid_3fa94c/
        grid.json          the plan, so that the grid can be finished or repeated
        grid.html          its cells side by side and compared, written when it ends
        20260102T…/         one ordinary run for each cell
        lock, writer        held by the one process that writes, and its number
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from krisis.backends.template import read_template
from krisis.errors import InvalidFile, InvalidValue, UnknownName, UserError
from krisis.execution.config import RESUMABLE, RunConfig, checked_config, config_of_run
from krisis.execution.recorder import versions
from krisis.json_values import JsonObject, JsonValue, read_object, write_text
from krisis.runs.load import list_runs, read_description
from krisis.runs.places import is_run_file, refuse_links
from krisis.runs.read import open_run
from krisis.runs.trust import OWN_PLAN, OWN_SETTINGS, TRUST, note_own, require_own
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
# Said once for the whole grid.
_OF_THE_GRID = ("max_cost", "max_tokens", "out", "display", "cache", "cache_path", "prices")
_NOT_OF_AN_ENTRY = {
    "tasks": {*_OF_THE_GRID, "model"},
    "models": {*_OF_THE_GRID, "suite", "task", "mode", "seed", "prompt", "elicit", "instructions"},
}


class ParallelCells(BaseModel):
    """How many cells run at the same time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_cells: int = Field(4, ge=1, description="Maximum cells that run at the same time.")
    max_local_cells: int = Field(
        1, ge=1, description="Of these, maximum cells whose model runs on this machine."
    )


@dataclass(frozen=True, slots=True)
class GridCell:
    """One run of a grid, under the name that tells it apart from the others."""

    name: str
    config: RunConfig


@dataclass(frozen=True, slots=True)
class Grid:
    """All cells of a grid in the order in which they begin, and the words that it was made of."""

    cells: list[GridCell]
    side_by_side: ParallelCells
    content: JsonObject

    @property
    def settings(self) -> RunConfig:
        """Return the settings that all cells share, such as the budget and the display."""
        return self.cells[0].config


def read_settings(path: Path, *, check: bool = True) -> JsonObject:
    """Read what `krisis run` is given as ``--config``: YAML or JSON, a run, the plan of a grid.

    With ``check`` the settings of a stranger's run or grid are refused.
    """
    if is_run_file(path):
        described = read_description(path)
        config = config_of_run(path, described)
        if check:
            instead = OWN_SETTINGS.format(path)
            require_own(path, described.run_id, config, instead=instead)
        return config
    if path.is_dir():
        raise InvalidFile(f"{path} is a folder; to finish what it holds: krisis resume {path}")
    content = read_mapping(path, "options such as `suite: ckd`", option="--config")
    if content.get("kind") == "krisis.grid":
        found = GridManifest.checked(content, path)
        if check:
            require_own(path, found.grid_id, found.plan, instead=OWN_PLAN)
        return found.plan
    if isinstance(content.get("tasks"), Mapping):
        raise InvalidFile(
            f"{path} is a suite, not the settings of a run; type: krisis run {path} --model NAME"
        )
    return dict(content)


def with_axes(content: JsonObject, given: Mapping[str, Sequence[JsonValue]]) -> JsonObject:
    """Return settings in which what is given of an axis replaces what was there of it.

    >>> with_axes({"models": ["a", "b"], "seed": 1}, {"models": ["c"], "seeds": [1, 2]})
    {'model': 'c', 'seeds': [1, 2]}
    """
    chosen = {axis: list(dict.fromkeys(values)) for axis, values in given.items() if values}
    gone = {name for axis in chosen for name in (axis, AXES[axis])}
    kept = {name: value for name, value in content.items() if name not in gone}
    single = {AXES[axis]: values[0] for axis, values in chosen.items() if len(values) == 1}
    return {**kept, **single, **{axis: many for axis, many in chosen.items() if len(many) > 1}}


def grid_of(content: JsonObject, place: str) -> Grid:
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
        if not any(config == other for other, _ in found):
            found.append((config, chosen))
    names = _names(found, with_seed=len(lists["seeds"]) > 1)
    cells = [GridCell(name, config) for name, (config, _) in zip(names, found, strict=True)]
    return Grid(cells, _side_by_side(content, place), content)


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
                f"{place}: {name} cannot be set for one of the {axis}; set it for the whole grid"
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


class GridManifest(BaseModel):
    """What a grid is: enough to finish it and to repeat it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["krisis.grid"] = "krisis.grid"
    schema_version: Literal[1] = 1
    grid_id: str
    created_at: str
    versions: dict[str, str] = {}
    plan: JsonObject

    @classmethod
    def checked(cls, content: JsonObject, path: Path) -> GridManifest:
        """Return the manifest, or one sentence about what is wrong with it."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InvalidFile(f"{path}: {place}: {first['msg']}; was it edited?") from None


@dataclass(frozen=True, slots=True)
class GridFolder:
    """The places inside the folder of a grid."""

    path: Path

    @property
    def manifest(self) -> Path:
        """Where it says what was planned."""
        return self.path / "grid.json"

    @property
    def page(self) -> Path:
        """Where the page of the cells and comparisons is written at the end: next to the folder."""
        return self.path.with_name(f"{self.path.name}.html")

    @property
    def exists(self) -> bool:
        """Say whether the folder is that of a grid."""
        return self.manifest.is_file()

    @classmethod
    def created(cls, grid: Grid) -> GridFolder:
        """Make the folder of a new grid."""
        created_at, grid_id = datetime.now(UTC), secrets.token_hex(3)
        name = f"{created_at.strftime('%Y%m%dT%H%M%SZ')}_grid_{grid_id}"
        folder = cls(Path(grid.settings.out) / name)
        manifest = GridManifest(
            grid_id=grid_id,
            created_at=created_at.isoformat(timespec="milliseconds"),
            versions=versions(),
            plan=grid.content,
        )
        try:
            folder.path.parent.mkdir(parents=True, exist_ok=True)
            folder.path.mkdir(mode=0o700)
            note_own(grid_id, manifest.plan)
            write_text(folder.manifest, manifest.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise InvalidFile(
                f"{folder.path} cannot be written ({error.strerror}); choose another folder "
                "(--output)"
            ) from None
        return folder

    def grid(self, given: JsonObject, *, trust: bool = False) -> Grid:
        """Return the grid as it was planned, changed where that cannot change an answer.

        A stranger's is refused unless it is to be trusted.
        """
        refuse_links(self.manifest)
        found = GridManifest.checked(read_object(self.manifest), self.manifest)
        if trust:
            note_own(found.grid_id, found.plan)
        require_own(self.path, found.grid_id, found.plan, instead=TRUST)
        return grid_of({**found.plan, **given}, str(self.path))

    def runs(self, grid: Grid) -> dict[str, Path]:
        """Return the run of every cell that has one, by the name of the cell."""
        found: dict[str, Path] = {}
        keys = {cell.name: _key(cell.config) for cell in grid.cells}
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
