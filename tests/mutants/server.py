"""A process that has krisis and all tests imported, and forks for each mutant.

It is a plugin of pytest that takes the place of the loop over the tests. A fork exchanges the code
of the functions that the mutant changes, runs the tests that reach it, and ends.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import coverage
import pytest
from tests.mutants.clauses import Mutant, mutants_of

# Seconds of recorded tests that one mutant may cost; the fastest come first.
_BUDGET_SECONDS = 30.0
# A test that needs so much more than it took without a bug counts as failed: seconds of the
# processor, which a busy machine does not change, and seconds on the clock for one that waits.
_PROCESSOR_FACTOR = 4.0
_CLOCK_SECONDS, _CLOCK_FACTOR = 40.0, 20.0
_MORE_MEMORY = 4 << 30
CAUGHT, SURVIVED, NOT_REACHED = "caught", "survived", "not reached"


@dataclass(slots=True)
class Record:
    """What a test took and which lines of which functions it ran, by test file and test.

    A function is known by its qualified name and its text, and its lines count from its first, so
    that a record outlives a move. Of a function that was changed all tests are taken.
    """

    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Record:
        """Return the stored record, or an empty one."""
        return cls(json.loads(path.read_text("utf-8"))) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Store it for the next run."""
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(self.files), "utf-8")

    def is_current(self, item: pytest.Item) -> bool:
        """Whether the tests of this test's file were recorded as they are."""
        found = self.files.get(_file_of(item))
        return found is not None and found["sha256"] == _hash(item.path)


class Reach:
    """The recorded tests that run a place of the source."""

    def __init__(self, record: Record) -> None:
        self.seconds: dict[str, float] = {}
        self._by_text: dict[str, dict[str, set[int]]] = defaultdict(dict)
        self._by_name: dict[str, set[str]] = defaultdict(set)
        for file in record.files.values():
            for test, (seconds, functions) in file["tests"].items():
                self.seconds[test] = seconds
                for function, lines in functions.items():
                    self._by_text[function].setdefault(test, set()).update(lines)
                    self._by_name[function.split("::")[0]].add(test)

    def tests_for(self, mutant: Mutant, function: Function) -> list[str]:
        """Return the tests that reach a mutant, the fastest first."""
        lines = set(
            range(mutant.first_line - function.first, mutant.last_line - function.first + 1)
        )
        if exact := self._by_text.get(function.key):
            found = {test for test, reached in exact.items() if reached & lines}
        else:
            found = self._by_name[function.name]
        return sorted(found, key=lambda test: (self.seconds[test], test))


@dataclass(frozen=True, slots=True)
class Function:
    """Where an outermost function or a method is, and what it is known by."""

    name: str
    first: int
    last: int
    text: str

    @property
    def key(self) -> str:
        """Return the name and a hash of the text."""
        return f"{self.name}::{hashlib.sha256(self.text.encode()).hexdigest()[:12]}"


@dataclass(slots=True)
class Module:
    """A module with its mutants and its outermost functions."""

    file: Path
    path: str
    tree: ast.Module = field(init=False)
    mutants: list[Mutant] = field(init=False)
    functions: dict[str, Function] = field(init=False)

    def __post_init__(self) -> None:
        text = self.file.read_text("utf-8")
        self.tree = ast.parse(text)
        self.mutants = mutants_of(self.tree, self.path)
        found = _outermost_functions(self.tree, "", text.splitlines())
        self.functions = {function.name: function for function in found}

    def function_at(self, line: int) -> Function | None:
        """Return the function that this line belongs to."""
        around = (one for one in self.functions.values() if one.first <= line <= one.last)
        return next(around, None)


def _outermost_functions(node: ast.AST, name: str, lines: list[str]) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            last = child.end_lineno or child.lineno
            text = "\n".join(lines[child.lineno - 1 : last])
            yield Function(f"{name}{child.name}", child.lineno, last, text)
        elif isinstance(child, ast.ClassDef):
            yield from _outermost_functions(child, f"{name}{child.name}.", lines)
        else:
            yield from _outermost_functions(child, name, lines)


Report = Callable[[Mutant, str, str, float], None]


@dataclass(slots=True)
class Server:
    """Records the tests that are not recorded, then judges one mutant after the other."""

    modules: Sequence[Module]
    mutants: Sequence[tuple[Module, Mutant]]
    record: Record
    record_path: Path
    report: Report
    n_children: int
    spare_seconds: float = 3.0
    _session: pytest.Session = field(init=False)
    _items: dict[str, pytest.Item] = field(init=False)
    _functions: dict[tuple[str, str], list[FunctionType]] = field(init=False)
    _folder: Path = field(init=False)
    _n_forks: int = 0
    _failed: list[str] = field(default_factory=list)
    _killers: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def pytest_configure(self) -> None:
        """Make laws deterministic, and don't shrink or keep what breaks them."""
        from hypothesis import Phase, settings  # not before pytest, which rewrites its asserts

        settings.register_profile(
            "mutants",
            settings(),
            derandomize=True,
            database=None,
            phases=(Phase.explicit, Phase.generate),
        )
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what failed."""
        if report.failed:
            self._failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do the work in place of running each test once."""
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        self._functions = _live_functions({str(module.file) for module in self.modules})
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._folder = Path(folder)
            self._record_tests()
            self._judge_mutants()
        return True

    # Recording

    def _record_tests(self) -> None:
        files: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in self._items.values():
            if not self.record.is_current(item):
                files[_file_of(item)].append(item)
        works = [(name, lambda items=items: self._traced(items)) for name, items in files.items()]
        for n_done, (name, found, seconds) in enumerate(self._forked(works), start=1):
            tests = found or {}
            self.record.files[name] = {"sha256": _hash(files[name][0].path), "tests": tests}
            self.record.write(self.record_path)
            done = f"{len(tests)} of {len(files[name])} tests pass in a fork, {seconds:.0f} s"
            print(f"recorded {n_done} of {len(files)}: {name}, {done}")
            sys.stdout.flush()

    def _traced(self, items: Sequence[pytest.Item]) -> dict[str, Any]:
        """Return seconds and lines of each test that passes in a fork."""
        paths = {str(module.file): module for module in self.modules}
        tracer = coverage.Coverage(
            data_file=None, config_file=False, include=list(paths), messages=False
        )
        tracer.start()
        seconds = {}
        for item, following in zip(items, [*items[1:], None], strict=True):
            tracer.switch_context(item.nodeid)
            started = time.perf_counter()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds[item.nodeid] = round(time.perf_counter() - started, 4)
        tracer.stop()
        data = tracer.get_data()
        functions: dict[str, dict[str, list[int]]] = {test: {} for test in seconds}
        for path in data.measured_files():
            for line, tests in data.contexts_by_lineno(path).items():
                function = paths[path].function_at(line)
                for test in tests if function else ():
                    if test in functions:
                        reached = functions[test].setdefault(function.key, [])
                        reached.append(line - function.first)
        passed = [test for test in seconds if test not in self._failed]
        return {test: [seconds[test], functions[test]] for test in passed}

    # Mutants

    def _judge_mutants(self) -> None:
        reach = Reach(self.record)
        works = []
        for module, mutant in self.mutants:
            tests = reach.tests_for(mutant, module.functions[mutant.outermost])
            tests = [test for test in tests if test in self._items]
            if not tests:
                self.report(mutant, NOT_REACHED, "", 0.0)
                continue
            work = lambda one=(module, mutant), tests=tests: self._judged(*one, tests, reach)  # noqa: E731
            works.append((mutant, work))
        for mutant, found, seconds in self._forked(works):
            if found is None:
                self.report(mutant, CAUGHT, "no end in time, or the process died", seconds)
            elif found["by"]:
                self._killers[mutant.path, mutant.outermost].append(found["by"])
                self.report(mutant, CAUGHT, found["by"], seconds)
            else:
                self.report(mutant, SURVIVED, f"{found['n']} of {found['of']} tests", seconds)

    def _judged(
        self, module: Module, mutant: Mutant, tests: Sequence[str], reach: Reach
    ) -> dict[str, Any]:
        """Plant the mutant in this process and run its tests until one fails."""
        self._plant(module, mutant)
        # What caught another mutant of this function is likely to catch this one.
        killers = [test for test in self._killers[mutant.path, mutant.outermost] if test in tests]
        ordered = list(dict.fromkeys([*reversed(killers), *tests]))
        spent, n_run = 0.0, 0
        for test in ordered:
            if n_run and spent + reach.seconds[test] > _BUDGET_SECONDS:
                break
            spent, n_run = spent + reach.seconds[test], n_run + 1
            self._end_this_process_after(reach.seconds[test])
            item = self._items[test]
            following = self._items[ordered[n_run]] if n_run < len(ordered) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return {"by": self._failed[0], "n": n_run, "of": len(tests)}
        return {"by": "", "n": n_run, "of": len(tests)}

    def _end_this_process_after(self, usual_seconds: float) -> None:
        on_processor = self.spare_seconds + _PROCESSOR_FACTOR * usual_seconds
        on_clock = _CLOCK_SECONDS + _CLOCK_FACTOR * usual_seconds
        signal.setitimer(signal.ITIMER_PROF, on_processor)
        signal.setitimer(signal.ITIMER_REAL, on_clock)

    def _plant(self, module: Module, mutant: Mutant) -> None:
        mutant.plant()
        changed = compile(module.tree, str(module.file), "exec", dont_inherit=True)
        n_planted = 0
        for code in _codes(changed):
            name = code.co_qualname.replace(".<locals>", "")
            if mutant.function == name or mutant.function.startswith(f"{name}."):
                for function in self._functions.get((code.co_filename, code.co_qualname), ()):
                    if function.__code__.co_firstlineno == code.co_firstlineno:
                        function.__code__ = code
                        n_planted += 1
        if not n_planted:
            raise AssertionError(f"no function to plant it in: {mutant}")

    # Forks

    def _forked(
        self, works: Iterable[tuple[Any, Callable[[], Any]]]
    ) -> Iterator[tuple[Any, Any, float]]:
        """Do each work in a fork, some at a time, and return its result and processor seconds.

        No result means that the fork was ended or died.
        """
        running: dict[int, tuple[Any, Path]] = {}
        try:
            for subject, work in works:
                if len(running) == self.n_children:
                    yield _finished(running)
                self._n_forks += 1
                folder = self._folder / str(self._n_forks)
                folder.mkdir()
                sys.stdout.flush()
                pid = os.fork()
                if pid == 0:
                    self._run_in_child(work, folder)
                running[pid] = (subject, folder)
            while running:
                yield _finished(running)
        finally:
            for pid in running:
                _kill_group(pid)

    def _run_in_child(self, work: Callable[[], Any], folder: Path) -> None:
        try:
            os.setsid()
            terminal = self._session.config.pluginmanager.get_plugin("terminalreporter")
            terminal._tw._file = io.StringIO()
            factory = self._session.config._tmp_path_factory
            factory._given_basetemp, factory._basetemp = folder / "tests", None
            limit = _data_memory() + _MORE_MEMORY
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            result = json.dumps(work())
            (folder / "result").write_text(result, "utf-8")
        except BaseException:
            (folder / "error").write_text(traceback.format_exc(), "utf-8")
        finally:
            os._exit(0)


def _finished(running: dict[int, tuple[Any, Path]]) -> tuple[Any, Any, float]:
    pid, _, used = os.wait3(0)
    subject, folder = running.pop(pid)
    _kill_group(pid)  # what a test started and a killed test left
    if (folder / "error").exists():
        raise SystemExit(f"{subject}\n{(folder / 'error').read_text('utf-8')}")
    path = folder / "result"
    result = json.loads(path.read_text("utf-8")) if path.exists() else None
    shutil.rmtree(folder, ignore_errors=True)
    return subject, result, used.ru_utime + used.ru_stime


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _live_functions(files: set[str]) -> dict[tuple[str, str], list[FunctionType]]:
    found: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename in files:
            found[thing.__code__.co_filename, thing.__code__.co_qualname].append(thing)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _data_memory() -> int:
    n_pages = int(Path("/proc/self/statm").read_text("ascii").split()[5])
    return n_pages * resource.getpagesize()


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
