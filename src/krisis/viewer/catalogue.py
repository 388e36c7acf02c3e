"""Which runs a folder holds, how far each has come, and the runs that are held in memory."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from krisis.errors import InvalidFile, UnknownName
from krisis.json_values import JsonMapping
from krisis.metrics.base import EvaluationResult
from krisis.metrics.table import Table
from krisis.reporting.breakdown import group_headings
from krisis.reporting.report import RunReport, build_report
from krisis.results.journal_reading import JournalTail, SoFar
from krisis.results.loading import load_result, reproduce_command
from krisis.results.store import RunDirectory, read_manifest, read_run
from krisis.viewer.entries import Entry, found_in, is_written, objection, read_entry, signature
from krisis.viewer.index import Index, facts_of
from krisis.viewer.row_index import IntArray, RowFilter, RowIndex

N_RUNS_IN_MEMORY = 4
# So much of a growing journal is counted per view, so that no list waits for a long one.
_COUNTED_BYTES = 8_000_000


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
        self.index = Index(self.folder)
        self._scanning, self._loading = threading.Lock(), threading.Lock()
        self._names: dict[str, Path] = {}
        self._entries: dict[bytes, tuple[str, Entry]] = {}
        self._loaded: OrderedDict[str, tuple[str, LoadedRun]] = OrderedDict()
        self._tails: dict[bytes, JournalTail] = {}

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
        path = self.path(name)
        key, mark = os.fsencode(path), signature(path)
        held = self._entries.get(key)
        if held is None or held[0] != mark:
            held = (mark, read_entry(name, path))
            self._entries[key] = held
        return self._live(held[1])

    def _live(self, entry: Entry) -> Entry:
        """Return an entry with what changes without a file of it changing, or too often."""
        if entry.state not in ("running", "stopped"):
            return entry
        try:
            counts: Mapping[str, int] = {}
            rows = RunDirectory(entry.path).rows
            if rows.exists():
                tail = self._tails.setdefault(os.fsencode(entry.path), JournalTail())
                counts = tail.read_on(rows, _COUNTED_BYTES)
            state = "running" if is_written(entry.path) else "stopped"
        except OSError as error:
            problem = f"{entry.path.name} cannot be read: {error.strerror}"
            return replace(entry, state="unreadable", problem=problem)
        return replace(entry, state=state, counts=counts)

    def so_far(self, entry: Entry) -> SoFar | None:
        """Return what a run that has not ended took; its line must have been asked for before."""
        tail = self._tails.get(os.fsencode(entry.path))
        return None if tail is None or entry.state == "ended" else tail.so_far(time.time())

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
        """Return a run, read again only when its files have changed."""
        path = self.path(name)
        problem = objection(path)
        if problem:
            raise UnknownName(problem) if path.is_symlink() else InvalidFile(problem)
        mark = signature(path)
        with self._loading:
            held = self._loaded.get(name)
            if held is None or held[0] != mark:
                held = (mark, LoadedRun(name, path))
                self._loaded[name] = held
            self._loaded.move_to_end(name)
            while len(self._loaded) > N_RUNS_IN_MEMORY:
                self._loaded.popitem(last=False)
            return held[1]
