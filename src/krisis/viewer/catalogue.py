"""Which runs a folder holds, how far each has come, and the runs that are held in memory."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from krisis.errors import InvalidFile, KrisisError, UnknownName
from krisis.json_values import JsonMapping, read_object
from krisis.metrics.base import EvaluationResult
from krisis.metrics.table import Table
from krisis.reporting.breakdown import group_headings
from krisis.reporting.report import RunReport, build_report
from krisis.results.base import BenchmarkResult
from krisis.results.journal_reading import JournalTail
from krisis.results.loading import load_result, reproduce_command
from krisis.results.store import RunDirectory, is_run, read_manifest, read_run, seems_whole
from krisis.viewer.row_index import IntArray, RowFilter, RowIndex

N_RUNS_IN_MEMORY = 4
_QUIET_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; ``state`` is ended, running, stopped or unreadable.

    ``damage`` says what is damaged in a run that can be read all the same.
    """

    state: str
    n_cases: int
    counts: Mapping[str, int]
    backend_name: str = ""
    suite: str = ""
    created_at: str = ""
    problem: str = ""
    damage: str = ""

    @property
    def n_done(self) -> int:
        """Return how many records have a row."""
        return sum(self.counts.values())


class LoadedRun:
    """One run in memory: its rows, their index and its report."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.result = load_result(path)
        self.rows = self.result.rows

    @cached_property
    def features(self) -> Mapping[int, JsonMapping]:
        """Return what the model was shown of each record, where the run stored it."""
        if not self.path.is_dir() or not read_manifest(self.path).stores_features:
            return {}
        stored = read_run(self.path).journal
        # A run that was cut short lacks rows, so the place of a row is not its position there.
        return {
            place: stored.features[position]
            for place, position in enumerate(sorted(stored.rows))
            if position in stored.features
        }

    @property
    def n_rows(self) -> int:
        """Return how many rows the run has."""
        return len(self.rows)

    @property
    def table(self) -> Table:
        """Return the rows as columns."""
        return self.rows.table

    def row(self, position: int) -> EvaluationResult:
        """Return one row."""
        return self.rows[position]

    def select(self, wanted: RowFilter) -> IntArray:
        """Return the positions of the rows that pass a filter, in the order asked for."""
        return self.index.select(wanted)

    def choices(self, column: str) -> list[str]:
        """Return what occurs under group, reason, failure, predicted or truth."""
        return self.index.groups if column == "group" else self.index.values(column)

    @cached_property
    def index(self) -> RowIndex:
        """Return the searchable columns."""
        return RowIndex(self.rows, group_headings(self.rows.answers))

    @cached_property
    def report(self) -> RunReport:
        """Return the report, drawn once."""
        return build_report(self.result, reproduce=reproduce_command(self.path))


class Catalogue:
    """The runs of a folder by name; nothing outside the folder can be named."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        if not self.folder.is_dir():
            raise InvalidFile(f"{folder} is not a folder; name the one that holds your runs")
        self._lock = threading.Lock()
        self._loaded: OrderedDict[str, tuple[object, LoadedRun]] = OrderedDict()
        self._tails: dict[str, JournalTail] = {}
        self._files: dict[str, tuple[object, Progress]] = {}

    def paths(self) -> dict[str, Path]:
        """Return every run and saved result of the folder, newest name first."""
        if is_run(self.folder):
            return {_page_name(self.folder): self.folder}
        inside = (path for path in self.folder.iterdir() if _stays_inside(path, self.folder))
        found = [path for path in inside if is_run(path) or _is_result(path)]
        return {_page_name(path): path for path in sorted(found)[::-1]}

    def path(self, name: str) -> Path:
        """Return the place of a run by its name in the list, and of nothing else."""
        known = self.paths()
        if name not in known:
            raise UnknownName.among("run", name, known)
        return known[name]

    def load(self, name: str) -> LoadedRun:
        """Return a run, read again only when its files have changed."""
        path = self.path(name)
        signature = _signature(path)
        with self._lock:
            held = self._loaded.get(name)
            if held is None or held[0] != signature:
                held = (signature, LoadedRun(name, path))
                self._loaded[name] = held
            self._loaded.move_to_end(name)
            while len(self._loaded) > N_RUNS_IN_MEMORY:
                self._loaded.popitem(last=False)
            return held[1]

    def progress(self, name: str) -> Progress:
        """Return how far a run has come without loading its rows."""
        path = self.path(name)
        try:
            return self._run_progress(name, path) if path.is_dir() else self._of_file(path, name)
        except (KrisisError, OSError) as error:
            return Progress("unreadable", 0, {}, problem=str(error))

    def _of_file(self, path: Path, name: str) -> Progress:
        """Return what a saved result or an ended run says, read again only when it changed."""
        signature = _signature(path)
        held = self._files.get(name)
        if held is None or held[0] != signature:
            read = _ended_progress if path.is_dir() else _file_progress
            held = self._files[name] = (signature, read(path))
        return held[1]

    def _run_progress(self, name: str, path: Path) -> Progress:
        manifest, directory = read_manifest(path), RunDirectory(path)
        ended = directory.metrics.is_file()
        counts: Mapping[str, int] = {}
        damage = ""
        if ended:
            found = self._of_file(path, name)
            counts, damage = found.counts, found.damage
        elif directory.rows.exists():
            with self._lock:
                counts = self._tails.setdefault(name, JournalTail()).read_on(directory.rows)
        return Progress(
            "ended" if ended else ("running" if _is_written(directory) else "stopped"),
            manifest.n_cases,
            counts,
            manifest.backend_name,
            _suite_words(manifest.suite_description) + " · imported" * bool(manifest.imported),
            manifest.created_at,
            damage=damage,
        )


def _ended_progress(path: Path) -> Progress:
    """Return what the scores say in one line; the rows, where they changed after the scores."""
    directory = RunDirectory(path)
    with suppress(InvalidFile, OSError):
        if seems_whole(directory, read_object(directory.metrics)):
            return _file_progress(directory.metrics)
    run = read_run(path)
    counts = Counter[str](row.outcome for row in run.journal.rows.values())
    return Progress("ended", run.manifest.n_cases, counts, damage=run.damage)


def _suite_words(description: JsonMapping) -> str:
    return " · ".join(str(description[k]) for k in ("suite", "task") if description.get(k))


def _is_written(directory: RunDirectory) -> bool:
    """Say whether the process that holds the lock lives, or rows came in a moment ago."""
    newest = directory.rows if directory.rows.exists() else directory.manifest
    if time.time() - newest.stat().st_mtime < _QUIET_SECONDS:
        return True
    holder = (
        directory.writer.read_text(encoding="ascii").removeprefix("pid ").strip()
        if directory.writer.exists()
        else ""
    )
    if not holder.isdigit() or sys.platform == "win32":
        return False
    try:
        os.kill(int(holder), 0)  # signal 0 asks whether the process exists and does nothing
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _file_progress(path: Path) -> Progress:
    result = BenchmarkResult.load(path)
    found = result.attrition
    counts = {
        "answered": found.n_answered,
        "abstained": found.n_abstained,
        "failed": found.n_failed,
    }
    return Progress(
        "ended",
        sum(counts.values()),
        counts,
        result.backend_name,
        _suite_words(result.suite_description),
        result.provenance.started_at or "",
    )


def _page_name(path: Path) -> str:
    """Name a run in addresses, where ``.json`` at the end asks for the twin of a page."""
    return path.stem if path.is_file() else path.name.replace(".json", "-json")


def _stays_inside(path: Path, folder: Path) -> bool:
    return not path.name.startswith(".") and path.resolve().is_relative_to(folder)


def _is_result(path: Path) -> bool:
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"krisis.' in file.read(200)


def _signature(path: Path) -> tuple[tuple[int, int], ...]:
    files = (path,) if path.is_file() else (RunDirectory(path).rows, RunDirectory(path).metrics)
    stats = [file.stat() for file in files if file.exists()]
    return tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)
