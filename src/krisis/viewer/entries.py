"""What the list says of one run, read from its file; odd ones say why they cannot be."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from krisis.errors import KrisisError
from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics.base import MetricScore, MetricScores
from krisis.outcomes import OUTCOMES
from krisis.results.base import BenchmarkResult
from krisis.results.loading import scored_as_it_is
from krisis.results.rows import scores_from_dict, scores_to_dict
from krisis.runs.load import result_of, stored_result
from krisis.runs.read import RunFile, state_of
from krisis.runs.schema import SUFFIX
from krisis.task_facts import TaskFacts

if TYPE_CHECKING:
    from krisis.viewer.catalogue import Catalogue

# How the files begin that other commands write beside a run → what they are.
ARTEFACTS = {
    "krisis.certificate": "certificate",
    "krisis decision": "decision",
    "krisis.audit": "audit",
}
# Scores of another version are computed again for the list where a run has no more rows.
_MOST_SCORED = 20_000
_KEPT_DETAILS = ("reason", "null_value", "normalized_interval", "note", "positive")
_LINK = "is a link, and the viewer follows none; copy what it leads to into the folder"


@dataclass(frozen=True, slots=True)
class Look:
    """What a look through all rows of a run found: which cannot be believed, and a sentence."""

    damaged: tuple[int, ...] = ()
    damage: str = ""

    @classmethod
    def at(cls, run: RunFile) -> Look:
        """Verify every row; of a run that is being written, the rows that a page shows are."""
        if run.is_live:
            return cls()
        return cls(tuple(run.damaged_positions()), run.damage)

    def damage_of(self, path: Path) -> str:
        """Return the sentence, with the name of the file in place of where it is."""
        return shown(self.damage.replace(str(path), path.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the list; ``state`` is ended, running, stopped or unreadable.

    ``name`` is the one in addresses. ``scores`` have their intervals, but neither breakdowns nor
    long details; ``baselines`` and ``scores_by_source`` are those stored with the run, by name.
    ``headline`` is the key of the metric that the task names first. ``problem`` says why the run
    cannot be read, ``damage`` what is damaged in one that can be read all the same.
    """

    name: str
    path: Path
    state: str
    model: str = ""
    suite: str = ""
    task: str = ""
    features: str = ""
    content_hash: str = ""
    created_at: str = ""
    imported: bool = False
    n_cases: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, MetricScore] = field(default_factory=MetricScores)
    scores_by_source: Mapping[str, Mapping[str, MetricScore]] = field(default_factory=dict)
    baselines: Mapping[str, Mapping[str, MetricScore]] = field(default_factory=dict)
    headline: str = ""
    cost: float | None = None
    elapsed_seconds: float | None = None
    problem: str = ""
    damage: str = ""

    @property
    def n_done(self) -> int:
        """Return how many records have a row."""
        return sum(self.counts.values())

    @property
    def is_mixed(self) -> bool:
        """Tell whether real and synthetic patients were scored, each apart."""
        return len(self.scores_by_source) > 1

    def to_json(self) -> JsonObject:
        """Return all but the name and the place, for the index."""
        content = asdict(self)
        del content["name"], content["path"]
        content["scores"] = scores_to_dict(self.scores)
        for key in ("scores_by_source", "baselines"):
            content[key] = {name: scores_to_dict(s) for name, s in getattr(self, key).items()}
        return content

    @classmethod
    def from_json(cls, content: JsonObject, *, name: str, path: Path) -> Entry:
        """Read back what `to_json` returned."""
        content["scores"] = scores_from_dict(content["scores"], "index")
        for key in ("scores_by_source", "baselines"):
            content[key] = {n: scores_from_dict(s, "index") for n, s in content[key].items()}
        return cls(name=name, path=path, **content)


def found_in(folder: Path) -> dict[str, Path]:
    """Return everything in a folder that is, or seems to be, a run, by page name."""
    if not folder.is_dir():
        return {_page_name(folder.name, {}): folder}
    with os.scandir(folder) as inside:
        seen = sorted((one.name, one) for one in inside if not one.name.startswith("."))
    kept = [name for name, one in seen if _is_of_interest(one)]
    # A run has its name before anything else of the same stem has it.
    named: dict[str, Path] = {}
    for name in sorted(
        kept, key=lambda name: (not name.endswith(SUFFIX), name.removesuffix(SUFFIX))
    ):
        named[_page_name(name, named)] = folder / name
    return dict(sorted(named.items(), key=lambda pair: pair[1].name, reverse=True))


def _page_name(name: str, taken: Mapping[str, Path]) -> str:
    """Name a run in addresses, where ``.json`` at the end asks for the twin of a page."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace").removesuffix(SUFFIX)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    plain = text.removesuffix(".json").replace(".json", "-json")
    others = chain((plain, text.replace(".json", "-json")), (f"{plain}-{n}" for n in count(2)))
    return next(one for one in others if one and one not in taken)


def _is_of_interest(one: os.DirEntry[str]) -> bool:
    """Say whether something is a run, or looks as if it should be one."""
    try:
        if one.name.endswith(SUFFIX):
            return True
        if one.is_dir(follow_symlinks=False):
            return os.path.lexists(os.path.join(one.path, "manifest.json"))
        is_json = one.name.endswith(".json") and one.is_file(follow_symlinks=False)
        return is_json and b'"krisis.result"' in _head(Path(one.path))
    except OSError:
        return True


def artefacts_in(folder: Path) -> dict[Path, list[tuple[Path, str]]]:
    """Return the certificates, decisions and audits beside runs: ``RUN.krisis`` → ``RUN.*.json``.

    Each comes with its kind.
    """
    found: dict[Path, list[tuple[Path, str]]] = {}
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    runs = {name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)}
    for name in names:
        stem = name
        while stem and stem not in runs:
            stem = stem.rpartition(".")[0]
        if stem and name.endswith(".json") and (kind := _kind(folder / name)):
            found.setdefault(folder / f"{stem}{SUFFIX}", []).append((folder / name, kind))
    return found


def _kind(path: Path) -> str:
    with suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):  # opening a pipe would wait for ever
            head = _head(path)
            return next((kind for kind in ARTEFACTS if f'"{kind}"'.encode() in head), "")
    return ""


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(200)


def objection(path: Path) -> str:
    """Say why the viewer does not open something, or nothing."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    if stat.S_ISLNK(mode):
        return f"{path.name} {_LINK}"
    if path.name.endswith(SUFFIX) and not stat.S_ISREG(mode):
        return f"{path.name} is not a regular file"
    if stat.S_ISREG(mode) and not path.name.endswith(SUFFIX):
        return f"{path.name} is a saved result; the viewer shows run files (NAME{SUFFIX})"
    return ""


def read_entry(name: str, path: Path, catalogue: Catalogue) -> Entry:
    """Read one entry; what is wrong with it is said in the entry and raised nowhere."""
    problem = objection(path)
    if not problem:
        try:
            state = state_of(path)
            with catalogue.opened(path, state) as run:
                return _run_entry(name, run, catalogue.look(run, state))
        except (KrisisError, OSError) as error:
            problem = str(error).replace(f"{path}", path.name)
        except Exception as error:  # one odd entry may never take the others with it
            problem = f"{path.name} cannot be read ({type(error).__name__}); is it a krisis run?"
    return Entry(name=name, path=path, state="unreadable", problem=shown(problem))


def shown(text: str) -> str:
    """Return a text without half characters, which no page can send."""
    return text.encode("utf-8", "backslashreplace").decode()


def _run_entry(name: str, run: RunFile, look: Look) -> Entry:
    described = run.description
    ended = run.scores() is not None or described.imported is not None
    task = described.task
    entry = Entry(
        name=name,
        path=run.path,
        state="ended" if ended else "stopped",
        model=described.backend_name,
        created_at=described.created_at,
        n_cases=described.n_cases,
        imported=described.imported is not None,
        damage=look.damage_of(run.path),
        **_described(described.suite_description),
    )
    if not ended:
        return replace(entry, counts=dict(run.progress().outcomes))
    result = None if look.damage else stored_result(run)
    if (result is None or not result.metric_scores) and run.n_rows <= _MOST_SCORED:
        result = scored_as_it_is(result_of(run))
    if result is None:
        return replace(entry, counts=dict(run.progress().outcomes))
    scored = replace(entry, **_scored(result))
    return replace(scored, headline=_headline(task, scored.scores))


def _headline(task: TaskFacts | None, scores: Mapping[str, object]) -> str:
    """Return the first metric of the task that the run has a score of."""
    return next((name for name in (task.metrics if task else ()) if name in scores), "")


def _described(suite: JsonMapping) -> JsonObject:
    return {key: str(suite.get(key) or "") for key in ("suite", "task", "features", "content_hash")}


def _scored(result: BenchmarkResult) -> JsonObject:
    found = result.attrition
    return {
        "counts": {outcome: getattr(found, f"n_{outcome}") for outcome in OUTCOMES},
        "scores": _brief(result.metric_scores),
        "scores_by_source": {n: _brief(s) for n, s in result.scores_by_source.items()},
        "baselines": {n: _brief(s) for n, s in result.baselines.items()},
        "cost": result.spending.cost,
        "elapsed_seconds": result.spending.elapsed_seconds,
    }


def _brief(scores: Mapping[str, MetricScore]) -> MetricScores:
    """Return scores without what a list never shows."""
    return MetricScores(
        (label, replace(score, breakdown={}, details=_brief_details(score)))
        for label, score in scores.items()
    )


def _brief_details(score: MetricScore) -> JsonObject:
    kept = (*_KEPT_DETAILS, f"{score.key}_normalized")
    return {name: score.details[name] for name in kept if name in score.details}
