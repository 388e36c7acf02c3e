"""What the list says of one run or saved result, read without its rows; odd ones say why."""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, count
from pathlib import Path

from krisis.errors import InvalidFile, KrisisError
from krisis.json_values import JsonMapping, JsonObject, parse_object, read_object
from krisis.metrics.base import MetricScore, MetricScores
from krisis.outcomes import OUTCOMES
from krisis.results.base import BenchmarkResult
from krisis.results.rows import scores_from_dict, scores_to_dict
from krisis.results.store import RunDirectory, read_manifest, read_run, seems_whole

# A journal up to this size is read in the server, a longer one in a process of its own.
SMALL_BYTES = 16_000_000
# How the files begin that other commands write into the folder of a run → what they are.
ARTEFACTS = {
    "krisis.certificate": "certificate",
    "krisis decision": "decision",
    "krisis.audit": "audit",
}
_QUIET_SECONDS = 90.0
_RUN_FILES = ("manifest.json", "rows.jsonl", "metrics.json", "cases.txt", "writer")
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
    if _is_file(folder / "manifest.json"):
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
    plain = text.removesuffix(".json").replace(".json", "-json")
    others = chain((plain, text.replace(".json", "-json")), (f"{plain}-{n}" for n in count(2)))
    return next(one for one in others if one and one not in taken)


def _is_of_interest(one: os.DirEntry[str]) -> bool:
    """Say whether something is a run, a result, or looks as if it should be one."""
    try:
        if one.is_symlink():
            return True
        if one.is_dir(follow_symlinks=False):
            inside = (os.path.join(one.path, name) for name in _RUN_FILES[:4])
            return any(map(os.path.lexists, inside)) or _is_empty(one.path)
        if not one.name.endswith(".json"):
            return False
        return not one.is_file(follow_symlinks=False) or _seems_a_result(one.path)
    except OSError:
        return True


def _is_empty(path: str) -> bool:
    with os.scandir(path) as inside:
        return next(inside, None) is None


def _seems_a_result(path: str) -> bool:
    with open(path, "rb") as file:
        start = file.read(400).replace(b"\0", b"")  # UTF-16 has zeros between the letters
    return not start.strip() or b'"krisis.' in start[:200]


def _is_file(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def artefacts_in(run: Path) -> list[tuple[Path, str]]:
    """Return the certificates, decisions and audits in the folder of a run, with their kinds."""
    found = []
    for path in sorted(run.glob("*.json")) if run.is_dir() else ():
        with suppress(OSError):
            if _is_file(path):  # opening a pipe would wait for ever
                with path.open("rb") as file:
                    head = file.read(200)
                kind = next((kind for kind in ARTEFACTS if f'"{kind}"'.encode() in head), "")
                found += [(path, kind)] if kind else []
    return found


def objection(path: Path) -> str:
    """Say why the viewer opens nothing of this run or file, or nothing."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return f"{path.name} {_LINK}"
        if not stat.S_ISDIR(mode):
            return "" if stat.S_ISREG(mode) else f"{path.name} is not a regular file"
        for name in _RUN_FILES:
            with suppress(FileNotFoundError):
                inside = (path / name).lstat().st_mode
                if stat.S_ISLNK(inside):
                    return f"{path.name}/{name} {_LINK}"
                if not stat.S_ISREG(inside):
                    return f"{path.name}/{name} is not a regular file"
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    return ""


def signature(path: Path) -> str:
    """Return a text that changes when anything changes that an entry is read from."""

    def parts() -> Iterator[str]:
        for file in (path, *(path / name for name in _RUN_FILES)):
            with suppress(OSError, ValueError):
                found = file.lstat()
                time_and_size = "" if stat.S_ISDIR(found.st_mode) else found.st_size
                yield f"{file.name}:{found.st_mode}:{found.st_mtime_ns}:{time_and_size}"

    return os.fsencode("|".join(parts())).decode("utf-8", "backslashreplace")


def read_entry(name: str, path: Path) -> Entry:
    """Read one entry; whatever is wrong with it is said in the entry and raised nowhere."""
    problem = objection(path)
    if not problem:
        try:
            return _run_entry(name, path) if path.is_dir() else _file_entry(name, path)
        except (KrisisError, OSError) as error:
            problem = str(error)
        except Exception as error:  # one odd entry may never take the others with it
            problem = f"{path.name} cannot be read ({type(error).__name__}); is it a krisis run?"
    return Entry(name=name, path=path, state="unreadable", problem=shown(problem))


def shown(text: str) -> str:
    """Return a text without half characters, which no page can send."""
    return text.encode("utf-8", "backslashreplace").decode()


def _run_entry(name: str, path: Path) -> Entry:
    directory = RunDirectory(path)
    if not directory.manifest.exists():
        empty = "is an empty folder" if _is_empty(str(path)) else "has no manifest.json"
        raise InvalidFile(f"{path.name} {empty}, so it is no krisis run; restore it or remove it")
    manifest, ended = read_manifest(path), directory.metrics.exists()
    entry = Entry(
        name=name,
        path=path,
        state="ended" if ended else "stopped",
        model=manifest.backend_name,
        created_at=manifest.created_at,
        n_cases=manifest.n_cases,
        imported=manifest.imported is not None,
        headline=manifest.task.metrics[0] if manifest.task and manifest.task.metrics else "",
        **_described(manifest.suite_description),
    )
    return _ended_entry(entry, directory) if ended else entry


def _ended_entry(entry: Entry, directory: RunDirectory) -> Entry:
    """Return what the scores say; of rows that changed after the scores, what these say."""
    has_rows = directory.rows.exists()
    with suppress(InvalidFile, OSError):
        content = read_object(directory.metrics)
        if not has_rows or seems_whole(directory, content):
            result = BenchmarkResult.from_dict(content, place=str(directory.metrics))
            lost = "" if has_rows else "DAMAGED: rows.jsonl is missing: there are scores, no rows"
            return replace(entry, damage=lost, **_scored(result))
    if has_rows and directory.rows.stat().st_size > SMALL_BYTES:
        changed = "rows.jsonl changed after its scores were made; open the run to have it checked"
        return replace(entry, damage=changed)
    run = read_run(entry.path)
    counts = Counter[str](row.outcome for row in run.journal.rows.values())
    return replace(entry, damage=run.damage, counts=dict(counts))


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
    if size <= SMALL_BYTES // 16:
        return {**read_object(path), "evaluation_results": [], "perturbed_results": []}
    with path.open("rb") as file:
        head = file.read(SMALL_BYTES)
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


def is_written(path: Path) -> bool:
    """Say whether the process that holds the lock of a run lives, or rows came in a moment ago."""
    directory = RunDirectory(path)
    newest = directory.rows if directory.rows.exists() else directory.manifest
    if time.time() - newest.stat().st_mtime < _QUIET_SECONDS:
        return True
    holder = ""
    with suppress(OSError, UnicodeDecodeError):
        holder = directory.writer.read_text(encoding="ascii")[:40].removeprefix("pid ").strip()
    if not holder.isdigit() or sys.platform == "win32":
        return False
    try:
        os.kill(int(holder), 0)  # signal 0 asks whether the process exists and does nothing
    except (OSError, OverflowError) as error:
        return isinstance(error, PermissionError)
    return True
