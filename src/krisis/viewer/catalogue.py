"""Which run files a folder holds, and one of them as pages look at it: by SELECT."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from krisis.decisions.hand_over import HandOver, hand_over
from krisis.errors import InvalidFile, InvalidValue, KrisisError, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.labels import Answers
from krisis.metrics.table import Table
from krisis.pages.cases import IN_FORCE, RowFilter
from krisis.pages.document import Document
from krisis.pages.run import run_document
from krisis.results.base import BenchmarkResult
from krisis.results.error_kinds import error_kind
from krisis.results.ids import ShownIds
from krisis.results.loading import (
    place_in_commands,
    reproduce_command,
    scored_as_it_is,
    short_models,
)
from krisis.results.repeats import mark_agreement
from krisis.runs.description import RunDescription
from krisis.runs.load import result_of
from krisis.runs.places import is_run_file, is_written
from krisis.runs.read import CaseOf, Progress, RunFile, open_run, state_of
from krisis.runs.review import CaseKey, keys_in_state, read_reviews
from krisis.runs.schema import Value
from krisis.runs.text_cache import remove_outlived_indices
from krisis.viewer.entries import Entry, Look, found_in, objection, read_entry, shown
from krisis.viewer.filters import ORDERS, RowFilters
from krisis.viewer.index import Index
from krisis.viewer.search import TextSearch

# So many rows of all runs together are held in memory for pages that score them; a run with more
# is left to the commands: the first page of 100,000 rows takes 7 s of CPU, and the server 560 MB.
MOST_ROWS = 250_000
# So many runs are remembered: what their columns hold, and their reports.
_N_REMEMBERED = 32
_MOST_REMEMBERED = 2000  # counts, charts and choices of one run

CONFIDENT = 0.8  # from here on a wrong answer is called confident

State = tuple[int, ...]
Made = TypeVar("Made")


class ViewedRun:
    """One state of a run. Nothing is kept open: every look is a connection of its own."""

    def __init__(self, name: str, path: Path, state: State, catalogue: Catalogue) -> None:
        self.name, self.path, self.state = name, path, state
        self._catalogue = catalogue
        self._remembered: dict[object, object] = {}
        self._places: list[int] | None = None
        self._lock, self._reporting = threading.Lock(), threading.Lock()
        with self._open() as run:
            self.description: RunDescription = run.description
            look = catalogue.look(run, state)
            self.damage = look.damage_of(path)
            self._filters = RowFilters(run, self.answers, look.damaged)
        self.n_rows = self.count(RowFilter())

    def _open(self) -> RunFile:
        return self._catalogue.opened(self.path, self.state)

    @property
    def model(self) -> str:
        """Return the name of the model."""
        return self.description.backend_name

    @property
    def short_model(self) -> str:
        """Return the name of the model without its maker, as headings have it."""
        return short_models([self.model])[0] or self.name

    @cached_property
    def answers(self) -> Answers | None:
        """Return what is known of the answers of the task."""
        task = self.description.task
        return None if task is None else Answers.of(task)

    def words(self, answer: object, *, whole: bool = False) -> str:
        """Name an answer: by its short name, or by its whole meaning."""
        answers = self.answers or Answers()
        return answers.meaning(answer) if whole else answers.name(answer)

    def _select(self, wanted: RowFilter, what: str, further: str = "", *values: int) -> list[int]:
        found = self._listed(wanted)
        with self._open() as run, self._lock:
            if wanted.text:
                said = self._catalogue.search.positions(run, self.state, wanted.text)
                found = said if found is None else sorted(set(said) & set(found))
            condition = self._filters.condition(run, wanted, found)
            sql = f"SELECT {what} {condition.sql} {further}"
            lines = run.select(sql, *condition.values, *values)
        return [int(line[0]) for line in lines]  # type: ignore[arg-type]

    def _listed(self, wanted: RowFilter) -> list[int] | None:
        """Return the rows of the lists that a filter names, which no SQL makes; None without."""
        lists: list[list[int]] = []
        if wanted.error:
            lists.append(self.confident_errors().get(wanted.error, []))
        if wanted.left == IN_FORCE:
            lists.append(self.remembered("left", self._left_positions))
        if wanted.review:
            lists.append(self._reviewed_positions(wanted.review))
        if not lists:
            return None
        return sorted(set(lists[0]).intersection(*lists[1:]))

    def hand_over(self) -> HandOver:
        """Return the cases that are left for people."""
        return self.remembered("hand-over", lambda: hand_over(self.result))

    def _left_positions(self) -> list[int]:
        left = {case.record_id for case in self.hand_over().cases}
        found = self._askings().items()
        return [at for (record_id, asking), at in found if asking == 1 and record_id in left]

    def _reviewed_positions(self, state: str) -> list[int]:
        askings = self._askings()
        keys = keys_in_state(read_reviews(self.path), state, askings)
        return [askings[key] for key in keys if key in askings]

    def _askings(self) -> dict[CaseKey, int]:
        """Return the position of every asking of a record."""
        with self._open() as run:
            lines = run.select(
                "SELECT c.record_id, r.repeat, r.position FROM rows AS r JOIN cases AS c "
                "ON c.position = r.case_position WHERE r.position < ?",
                run.description.n_cases,
            )
        return {(str(name), int(repeat) + 1): int(at) for name, repeat, at in lines}  # type: ignore[arg-type]

    def count(self, wanted: RowFilter) -> int:
        """Return how many rows pass a filter, counted once; reviews change without the run."""
        if wanted.review:
            return self._select(wanted, "count(*)")[0]
        return self.remembered(wanted, lambda: self._select(wanted, "count(*)")[0])

    def select(self, wanted: RowFilter, *, start: int = 0, most: int = -1) -> list[int]:
        """Return the positions of the rows that pass a filter, in its order: one page, or all."""
        order = f"ORDER BY {ORDERS[wanted.sort]} LIMIT ? OFFSET ?"
        return self._select(wanted, "r.position", order, most, start)

    def confident_errors(self) -> dict[str, list[int]]:
        """Return the positions of confident wrong answers by what would have prevented them."""
        return self.remembered("errors", self._sort_errors)

    def _sort_errors(self) -> dict[str, list[int]]:
        wrong = self.select(RowFilter(correct="no", confidence_min=CONFIDENT))
        found: dict[str, list[int]] = {}
        with self._open() as run:
            lines = run.select(
                "SELECT r.position, r.case_position, r.prediction, r.truth, "
                "coalesce(r.metadata, c.metadata) FROM rows AS r LEFT JOIN cases AS c "
                "ON c.position = r.case_position "
                "WHERE r.position IN (SELECT value FROM json_each(?))",
                json.dumps(wrong),
            )
            answered = run.baseline_answers([int(line[1]) for line in lines])  # type: ignore[arg-type]
        for position, case, prediction, truth, metadata in lines:
            row = EvaluationResult(prediction, truth, metadata=_object(metadata))  # type: ignore[arg-type]
            kind = error_kind(row, answered.get(int(case), {}), self.answers)  # type: ignore[arg-type]
            found.setdefault(kind, []).append(int(position))  # type: ignore[arg-type]
        return found

    def baselines_on(self, position: int) -> dict[str, Value]:
        """Return what the baselines of the run answered to the case of a row."""
        with self._open() as run:
            (line,) = run.select("SELECT case_position FROM rows WHERE position = ?", position)
            case = int(line[0])  # type: ignore[arg-type]
            return run.baseline_answers([case]).get(case, {})

    def choices(self, column: str) -> list[str]:
        """Return what occurs under group, reason, failure, predicted or truth."""

        def found() -> list[str]:
            with self._open() as run, self._lock:
                return self._filters.choices(run, column)

        return self.remembered(("choices", column), found)

    def row(self, position: int) -> EvaluationResult:
        """Return the row of a position."""
        found = self.rows([position])
        if not found:
            raise InvalidValue(f"the run has no case {position} that can be read; choose another")
        return found[0][1]

    def rows(self, positions: Sequence[int]) -> list[tuple[int, EvaluationResult]]:
        """Return the rows of some positions that can be believed."""
        with self._open() as run:
            read = self._repeated if self.description.identity.repeats > 1 else RunFile.row
            found = [(position, read(run, position)) for position in positions]
        return [(position, row) for position, row in found if row is not None]

    def _repeated(self, run: RunFile, position: int) -> EvaluationResult | None:
        """Return a row with what the other askings of its record say of it."""
        lines = run.select(
            "SELECT position FROM rows WHERE position < ? AND case_position = "
            "(SELECT case_position FROM rows WHERE position = ?) ORDER BY position",
            run.description.n_cases,
            position,
        )
        found = {int(at): run.row(int(at)) for (at,) in lines}  # type: ignore[arg-type]
        mark_agreement([row for row in found.values() if row is not None])
        return found.get(position)

    def case(self, position: int) -> CaseOf | None:
        """Return the record that a row asks about."""
        with self._open() as run:
            return run.case(position)

    def prompts(self) -> list[tuple[str, str]]:
        """Return the first two prompts of the run, each with its mode."""
        with self._open() as run:
            lines = run.select(
                "SELECT DISTINCT prompt, prompt_mode FROM rows WHERE prompt IS NOT NULL LIMIT 2"
            )
            return [(run.text(number), str(mode)) for number, mode in lines]  # type: ignore[arg-type]

    def bare_result(self) -> BenchmarkResult:
        """Return what the run is, without rows or scores."""
        described = self.description
        result = BenchmarkResult(
            Rows((), self.answers), {}, described.suite_description, described.backend_name
        )
        made = replace(result.provenance, run_id=described.run_id, task_facts=described.task)
        result.provenance = made
        return result

    @property
    def result(self) -> BenchmarkResult:
        """Return the run with all its rows, scored; held while there is room."""
        return self._catalogue.result(self)

    @property
    def table(self) -> Table:
        """Return the rows as columns."""
        return self.result.rows.table

    @property
    def places(self) -> list[int]:
        """Return the position of every row of the result."""
        if self._places is None:
            self._catalogue.result(self)
        return self._places or []

    @property
    def document(self) -> Document:
        """Return all there is to show of the run, made once."""
        with self._reporting:  # whoever asks meanwhile waits for it
            return self.remembered(
                "document",
                lambda: run_document(
                    self.result,
                    reproduce=reproduce_command(self.path),
                    ids=ShownIds(),  # on one's own machine patients must be found again
                ),
            )

    def remembered(self, key: object, build: Callable[[], Made]) -> Made:
        """Return what was worked out from this state of the run before, and never rows."""
        if key not in self._remembered:
            if len(self._remembered) > _MOST_REMEMBERED:  # many searches
                self._remembered.clear()
            self._remembered[key] = build()
        return self._remembered[key]  # type: ignore[return-value]

    def read_result(self) -> BenchmarkResult:
        """Read all rows; refuse more than the server may hold."""
        if self.n_rows > MOST_ROWS:
            raise InvalidValue(
                f"this run has {self.n_rows:,} rows and a page reads at most {MOST_ROWS:,} of "
                f"them; type: krisis report {place_in_commands(self.path)}"
            )
        places = self.select(RowFilter())
        with self._open() as run:
            result = result_of(run)
            if len(result.evaluation_results) < len(places):  # rows that only their content betrays
                lost = set(run.damaged_positions())
                places = [position for position in places if position not in lost]
        self._places = places
        return scored_as_it_is(result)


def _object(text: object) -> JsonObject:
    """Return metadata as stored; of a damaged text nothing."""
    with suppress(ValueError, RecursionError):
        found = json.loads(str(text))
        return found if isinstance(found, dict) else {}
    return {}


class Catalogue:
    """The runs of a folder by name; nothing outside the folder can be named."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        if not self.folder.exists():
            raise InvalidFile(
                f"{folder} is not a folder; name the one that holds your runs, or type: "
                "krisis run ckd --model guideline"
            )
        if self.folder.is_file() and not is_run_file(self.folder):
            raise InvalidFile(
                f"{folder} is no run; name a run file or a folder that holds runs, or print a "
                "saved result with: krisis show"
            )
        self.index = Index(self.folder)
        self.search = TextSearch(self.index.place)
        remove_outlived_indices()
        self._scanning, self._changing = threading.Lock(), threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._names: dict[str, Path] = {}
        self._entries: dict[bytes, tuple[str, Entry]] = {}
        self._looks: OrderedDict[Path, tuple[State, Look]] = OrderedDict()
        self._viewed: OrderedDict[str, ViewedRun] = OrderedDict()
        self._results: OrderedDict[ViewedRun, BenchmarkResult] = OrderedDict()

    def opened(self, path: Path, state: State) -> RunFile:
        """Open a run file; its structure is looked through once in every state."""
        known = self._looks.get(path)
        return open_run(path, checked=known is not None and known[0] == state)

    def look(self, run: RunFile, state: State) -> Look:
        """Look through the rows of a run once in every state."""
        known = self._looks.get(run.path)
        if known is None or known[0] != state:
            mark, entry = self._entries.get(os.fsencode(run.path), ("", None))
            is_sound = entry is not None and mark == str(state) and not entry.damage
            known = state, Look() if is_sound else Look.at(run)
            with self._changing:
                self._looks[run.path] = known
                while len(self._looks) > _N_REMEMBERED:
                    self._looks.popitem(last=False)
        return known[1]

    def entries(self) -> list[Entry]:
        """Return every run, newest name first; only those that have changed are read."""
        with self._scanning:
            names = self._names = found_in(self.folder)
            known = self._entries or self._kept(names)
            seen: dict[bytes, tuple[str, Entry]] = {}
            for name, path in names.items():
                key, state = os.fsencode(path), str(state_of(path))
                held = known.get(key)
                if held is None or held[0] != state or held[1].name != name:
                    held = (state, read_entry(name, path, self))
                seen[key] = held
            fresh = [(k, mark, e) for k, (mark, e) in seen.items() if known.get(k) != (mark, e)]
            gone = known.keys() - seen.keys()
            if fresh or gone:
                self.index.keep([(k, mark, e.to_json()) for k, mark, e in fresh], gone)
            remove_outlived_indices([self.index.place])
            self._entries = seen
            return [self._live(entry) for _, entry in seen.values()]

    def _kept(self, names: dict[str, Path]) -> dict[bytes, tuple[str, Entry]]:
        """Return the entries that an earlier viewer left in the index."""
        places = {os.fsencode(path): (name, path) for name, path in names.items()}
        found: dict[bytes, tuple[str, Entry]] = {}
        for key, (mark, facts) in self.index.facts().items():
            name, path = places.get(key, ("", Path(os.fsdecode(key))))
            try:
                found[key] = mark, Entry.from_json(facts, name=name, path=path)
            except (KeyError, TypeError, ValueError, AttributeError):
                continue  # of another version, or damaged: it is read again
        return found

    def entry(self, name: str) -> Entry:
        """Return one line of the list."""
        path = self.path(name)
        key, state = os.fsencode(path), str(state_of(path))
        held = self._entries.get(key)
        if held is None or held[0] != state:
            held = (state, read_entry(name, path, self))
            self._entries[key] = held
        return self._live(held[1])

    def _live(self, entry: Entry) -> Entry:
        """Return an entry with what changes without its file changing: whether it is written."""
        if entry.state not in ("running", "stopped"):
            return entry
        return replace(entry, state="running" if is_written(entry.path) else "stopped")

    def progress(self, entry: Entry) -> Progress | None:
        """Return what a run that has not ended took so far."""
        if entry.state not in ("running", "stopped"):
            return None
        with self.opened(entry.path, state_of(entry.path)) as run:
            return run.progress()

    def paths(self) -> dict[str, Path]:
        """Return the place of every run, newest name first."""
        self._names = found_in(self.folder)
        return self._names

    def path(self, name: str) -> Path:
        """Return the place of a run by its name in the list, and of nothing else."""
        known = self._names if name in self._names else self.paths()
        if name not in known:
            raise UnknownName.among("run", name, known)
        return known[name]

    def load(self, name: str) -> ViewedRun:
        """Return a run in its present state."""
        path = self.path(name)
        with self._changing:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:  # others may be looked at meanwhile
            state = state_of(path)
            viewed = self._viewed.get(name)
            if viewed is None or (viewed.path, viewed.state) != (path, state):
                viewed = self._said(path, lambda: ViewedRun(name, path, state, self))
        with self._changing:
            self._viewed[name] = viewed
            self._viewed.move_to_end(name)
            while len(self._viewed) > _N_REMEMBERED:
                self._viewed.popitem(last=False)
            for other in [one for one in self._results if one not in self._viewed.values()]:
                del self._results[other]
        return viewed

    def result(self, viewed: ViewedRun) -> BenchmarkResult:
        """Return the rows of a run, read once while there is room for them."""
        with self._changing:
            lock = self._locks.setdefault(viewed.name, threading.Lock())
        with lock:
            held = self._results.get(viewed)
            if held is None:
                held = self._said(viewed.path, viewed.read_result)
        with self._changing:
            self._results[viewed] = held
            self._results.move_to_end(viewed)
            while len(self._results) > 1 and sum(one.n_rows for one in self._results) > MOST_ROWS:
                self._results.popitem(last=False)
        return held

    def _said(self, path: Path, make: Callable[[], Made]) -> Made:
        """Say what is odd about a run in one sentence, and end nothing else."""
        if problem := objection(path):
            raise UnknownName(problem) if path.is_symlink() else InvalidFile(problem)
        try:
            return make()
        except InvalidFile as error:
            raise InvalidFile(shown(str(error).replace(str(path), path.name))) from None
        except KrisisError:
            raise
        except Exception as error:
            words = f"{path.name} cannot be read ({type(error).__name__}); try: krisis doctor"
            raise InvalidFile(shown(words)) from error
