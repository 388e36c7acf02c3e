"""Which runs a folder holds, how far each has come, and the runs that are held in memory."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from krisis.errors import InvalidFile, KrisisError, UnknownName
from krisis.json_values import JsonMapping
from krisis.metrics.base import EvaluationResult
from krisis.metrics.table import Table
from krisis.reporting.breakdown import group_headings
from krisis.reporting.report import RunReport, build_report
from krisis.results.loading import load_result, reproduce_command
from krisis.runs.places import is_run_file, is_written
from krisis.runs.read import Progress, open_run
from krisis.viewer.entries import Entry, found_in, read_entry, shown, signature
from krisis.viewer.index import Index, facts_of
from krisis.viewer.row_index import IntArray, RowFilter, RowIndex

# Runs of this many bytes in all are held in memory, besides the one that was asked for last.
_HELD_BYTES = 16_000_000


class LoadedRun:
    """One run: its result, its rows and their index, and its report."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self.result = load_result(path)
        self._rows = self.result.rows

    @cached_property
    def features(self) -> Mapping[int, JsonMapping]:
        """Return what the model was shown of each record, where the run stored it."""
        if not is_run_file(self.path):
            return {}
        with open_run(self.path, checked=True) as run:
            if not run.description.stores_features:
                return {}
            return dict(enumerate(run.features()))

    @property
    def n_rows(self) -> int:
        """Return how many rows the run has."""
        return len(self._rows)

    @property
    def table(self) -> Table:
        """Return the rows as columns."""
        return self._rows.table

    def row(self, position: int) -> EvaluationResult:
        """Return one row."""
        return self._rows[position]

    def select(self, wanted: RowFilter) -> IntArray:
        """Return the positions of the rows that pass a filter, in the order asked for."""
        return self._filters.select(wanted)

    def choices(self, column: str) -> list[str]:
        """Return what occurs under group, reason, failure, predicted or truth."""
        return self._filters.groups if column == "group" else self._filters.values(column)

    @cached_property
    def _filters(self) -> RowIndex:
        return RowIndex(self._rows, group_headings(self._rows.answers))

    @cached_property
    def report(self) -> RunReport:
        """Return the report, drawn once."""
        return build_report(self.result, reproduce=reproduce_command(self.path))


class Catalogue:
    """The runs of a folder by name; nothing outside the folder can be named."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        if not self.folder.is_dir() and not is_run_file(self.folder):
            raise InvalidFile(
                f"{folder} is not a folder; name the one that holds your runs, or type: "
                "krisis run ckd --model guideline"
            )
        self.index = Index(self.folder)
        self._scanning, self._loading = threading.Lock(), threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._names: dict[str, Path] = {}
        self._entries: dict[bytes, tuple[str, Entry]] = {}
        self._loaded: OrderedDict[str, tuple[str, LoadedRun, int]] = OrderedDict()

    def entries(self) -> list[Entry]:
        """Return every run and saved result, newest name first; only changed ones are read."""
        with self._scanning:
            names = self._names = found_in(self.folder)
            known = self._entries or self._kept()
            seen: dict[bytes, tuple[str, Entry]] = {}
            for name, path in names.items():
                key, mark = os.fsencode(path), signature(path)
                held = known.get(key)
                if held is None or held[0] != mark or held[1].name != name:
                    held = (mark, read_entry(name, path))
                seen[key] = held
            fresh = [
                (e.path, mark, e.to_json())
                for k, (mark, e) in seen.items()
                if known.get(k) != (mark, e)
            ]
            gone = known.keys() - seen.keys()
            if fresh or gone:
                self.index.keep(fresh, gone)
            self._entries = seen
            return [self._live(entry) for _, entry in seen.values()]

    def _kept(self) -> dict[bytes, tuple[str, Entry]]:
        """Return the entries that an earlier viewer left in the index."""
        names = {os.fsencode(path): name for name, path in self._names.items()}
        found: dict[bytes, tuple[str, Entry]] = {}
        for key, (mark, facts) in self.index.facts().items():
            if key in names:
                path = Path(os.fsdecode(key))
                try:
                    entry = Entry.from_json(facts_of(facts), name=names[key], path=path)
                except (KeyError, TypeError, ValueError, AttributeError):
                    continue  # of another version, or damaged: it is read again
                found[key] = mark, entry
        return found

    def entry(self, name: str) -> Entry:
        """Return one line of the list."""
        return self._live(self._read_once(name))

    def _read_once(self, name: str) -> Entry:
        path = self.path(name)
        key, mark = os.fsencode(path), signature(path)
        held = self._entries.get(key)
        if held is None or held[0] != mark:
            held = (mark, read_entry(name, path))
            self._entries[key] = held
        return held[1]

    def _live(self, entry: Entry) -> Entry:
        """Return an entry with what changes without a file of it changing, or too often."""
        if entry.state not in ("running", "stopped"):
            return entry
        try:
            found = self.so_far(entry)
            state = "running" if is_written(entry.path) else "stopped"
        except (KrisisError, OSError) as error:
            return replace(entry, state="unreadable", problem=shown(str(error)))
        return replace(entry, state=state, counts=found.outcomes if found else {})

    def so_far(self, entry: Entry) -> Progress | None:
        """Return what a run that has not ended took."""
        if entry.state not in ("running", "stopped"):
            return None
        with open_run(entry.path, checked=True) as run:
            return run.progress()

    def paths(self) -> dict[str, Path]:
        """Return the place of every run and saved result, newest name first."""
        self._names = found_in(self.folder)
        return self._names

    def path(self, name: str) -> Path:
        """Return the place of a run by its name in the list, and of nothing else."""
        known = self._names if name in self._names else self.paths()
        if name not in known:
            raise UnknownName.among("run", name, known)
        return known[name]

    def load(self, name: str) -> LoadedRun:
        """Return a run, read again only when its file has changed."""
        entry, path = self._read_once(name), self.path(name)
        if entry.problem:
            raise UnknownName(entry.problem) if path.is_symlink() else InvalidFile(entry.problem)
        mark = signature(path)
        with self._loading:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:  # others may be loaded meanwhile
            held = self._loaded.get(name)
            if held is None or held[0] != mark:
                held = self._read(name, path, mark)
        with self._loading:
            self._loaded[name] = held
            self._loaded.move_to_end(name)
            while len(self._loaded) > 1 and sum(n for *_, n in self._loaded.values()) > _HELD_BYTES:
                self._loaded.popitem(last=False)
        return held[1]

    def _read(self, name: str, path: Path, mark: str) -> tuple[str, LoadedRun, int]:
        try:
            size = path.stat().st_size
        except OSError:
            size = 0
        try:
            return mark, LoadedRun(name, path), size
        except KrisisError:
            raise
        except Exception as error:  # what is odd about a run is said, and nothing else ends
            words = f"{path.name} cannot be read ({type(error).__name__}); try: krisis doctor"
            raise InvalidFile(shown(words)) from error
