"""What the list says of one run or saved result, read without its rows; odd ones say why."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, count
from pathlib import Path

from krisis.errors import InvalidFile, KrisisError
from krisis.json_values import JsonMapping, JsonObject, parse_object, read_object
from krisis.metrics.base import MetricScore, MetricScores
from krisis.outcomes import OUTCOMES
from krisis.results.base import BenchmarkResult
from krisis.results.loading import is_run
from krisis.results.rows import scores_from_dict, scores_to_dict
from krisis.runs.load import stored_result
from krisis.runs.places import is_run_file
from krisis.runs.read import open_run, state_of
from krisis.runs.schema import SIDE_FILES, SUFFIX

# A saved result up to a sixteenth of this is read whole for the list.
_LARGE_BYTES = 16_000_000
# How the files begin that other commands write into the folder of a run → what they are.
ARTEFACTS = {
    "krisis.certificate": "certificate",
    "krisis decision": "decision",
    "krisis.audit": "audit",
}
# A saved result is indented, so that no text in it can look like the beginning of its rows.
_ROWS_BEGIN = re.compile(rb'\n  "(?:evaluation_results|perturbed_results)": \[')
_KEPT_DETAILS = ("reason", "null_value", "normalized_interval", "note", "positive")
_LINK = "is a link, and the viewer follows none; copy what it leads to into the folder"


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
    """Return everything in a folder that is, or seems to be, a run or a result, by page name."""
    if is_run_file(folder):
        return {_page_name(folder.name, {}): folder}
    with os.scandir(folder) as inside:
        seen = sorted((one.name, one) for one in inside if not one.name.startswith("."))
    kept = [name for name, one in seen if _is_of_interest(one)]
    # A run has its name before a file of the same stem has it.
    named: dict[str, Path] = {}
    for name in sorted(kept, key=lambda name: (name.endswith(".json"), name)):
        named[_page_name(name, named)] = folder / name
    return dict(sorted(named.items(), key=lambda pair: pair[1].name, reverse=True))


def _page_name(name: str, taken: Mapping[str, Path]) -> str:
    """Name a run in addresses, where ``.json`` at the end asks for the twin of a page."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    plain = text.removesuffix(SUFFIX).removesuffix(".json").replace(".json", "-json")
    others = chain((plain, text.replace(".json", "-json")), (f"{plain}-{n}" for n in count(2)))
    return next(one for one in others if one and one not in taken)


def _is_of_interest(one: os.DirEntry[str]) -> bool:
    """Say whether something is a run, a result, or looks as if it should be one."""
    try:
        if one.is_symlink() or one.name.endswith(SUFFIX):
            return not one.name.endswith(SIDE_FILES)
        if one.is_dir(follow_symlinks=False):
            return os.path.lexists(os.path.join(one.path, "manifest.json"))
        if not one.name.endswith(".json"):
            return False
        return not one.is_file(follow_symlinks=False) or _seems_a_result(one.path)
    except OSError:
        return True


def _seems_a_result(path: str) -> bool:
    with open(path, "rb") as file:
        start = file.read(400).replace(b"\0", b"")  # UTF-16 has zeros between the letters
    return not start.strip() or b'"krisis.' in start[:200]


def _is_file(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def artefacts_in(run: Path) -> list[tuple[Path, str]]:
    """Return the certificates, decisions and audits named after a run, with their kinds."""
    found = []
    named = run.name.removesuffix(SUFFIX)
    for path in sorted(run.parent.glob("*.json")) if is_run_file(run) else ():
        with suppress(OSError):
            # Opening a pipe would wait for ever.
            if path.name.startswith(f"{named}.") and _is_file(path):
                with path.open("rb") as file:
                    head = file.read(200)
                kind = next((kind for kind in ARTEFACTS if f'"{kind}"'.encode() in head), "")
                found += [(path, kind)] if kind else []
    return found


def objection(path: Path) -> str:
    """Say why the viewer opens nothing of this run or file, or nothing."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    if stat.S_ISLNK(mode):
        return f"{path.name} {_LINK}"
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return f"{path.name} is not a regular file"


def signature(path: Path) -> str:
    """Return a text that changes when anything changes that an entry is read from."""
    return ":".join(map(str, state_of(path)))


def read_entry(name: str, path: Path) -> Entry:
    """Read one entry; whatever is wrong with it is said in the entry and raised nowhere."""
    problem = objection(path)
    if not problem:
        try:
            return _run_entry(name, path) if is_run(path) else _file_entry(name, path)
        except (KrisisError, OSError) as error:
            problem = str(error)
        except Exception as error:  # one odd entry may never take the others with it
            problem = f"{path.name} cannot be read ({type(error).__name__}); is it a krisis run?"
    return Entry(name=name, path=path, state="unreadable", problem=shown(problem))


def shown(text: str) -> str:
    """Return a text without half characters, which no page can send."""
    return text.encode("utf-8", "backslashreplace").decode()


def _run_entry(name: str, path: Path) -> Entry:
    with open_run(path) as run:
        described, ended = run.description, stored_result(run)
        entry = Entry(
            name=name,
            path=path,
            state="stopped" if ended is None else "ended",
            model=described.backend_name,
            created_at=described.created_at,
            n_cases=described.n_cases,
            imported=described.imported is not None,
            headline=described.task.metrics[0] if described.task and described.task.metrics else "",
            damage=run.damage,
            **_described(described.suite_description),
        )
    return entry if ended is None else replace(entry, **_scored(ended))


def _file_entry(name: str, path: Path) -> Entry:
    result = BenchmarkResult.from_dict(_without_rows(path), place=str(path))
    task, found = result.provenance.task_facts, result.attrition
    return Entry(
        name=name,
        path=path,
        state="ended",
        model=result.backend_name,
        created_at=result.provenance.started_at or "",
        n_cases=found.n_evaluated + found.n_not_evaluated,
        imported=result.provenance.imported is not None,
        headline=task.metrics[0] if task and task.metrics else "",
        **_described(result.suite_description),
        **_scored(result),
    )


def _without_rows(path: Path) -> JsonObject:
    """Return a saved result without its rows, which are most of it."""
    size = path.stat().st_size
    if size == 0:
        raise InvalidFile(f"{path.name} is empty; it was cut, restore or rerun it")
    if size <= _LARGE_BYTES // 16:
        return {**read_object(path), "evaluation_results": [], "perturbed_results": []}
    with path.open("rb") as file:
        head = file.read(_LARGE_BYTES)
        file.seek(max(0, size - 64))
        whole = file.read().rstrip().endswith(b"}")
    found = _ROWS_BEGIN.search(head)
    if not whole:
        raise InvalidFile(f"{path.name} is not complete JSON; it was cut, restore or rerun it")
    if found is None:
        raise InvalidFile(f"{path.name} is too large for the list and not as krisis writes results")
    try:
        text = head[: found.start()].decode("utf-8").rstrip().removesuffix(",") + "}"
    except UnicodeDecodeError:
        raise InvalidFile(f"{path.name} is not text in UTF-8; is it a krisis result?") from None
    return parse_object(text, str(path))


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
