"""Plant one bug at a time in a copy of the source and see whether the named tests notice it.

    python -m tests.mutants.run [--area AREA] [--only NAME] [-j 2]

Exit 0 only if every bug is caught: its tests ran and failed, while they pass without it.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.planted import ROOT, SOURCE, Mutant, NotOnce, all_mutants

TIME_LIMIT_SECONDS = 300
_ALL_TESTS_SECONDS = 3600
_QUICK = "not slow and not browser and not hf"
_PASSED, _FAILED = 0, 1  # exit codes of pytest; all others mean that the tests did not run


class Copy:
    """A copy of the source in which one bug at a time is planted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "src"
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCE, self._folder / "krisis", ignore=skipped)
        compileall.compile_dir(self._folder, quiet=2)
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(self._folder),
            # A mutant may have the size and the second of the original: no stale bytecode.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._refuse_other_source()

    def _refuse_other_source(self) -> None:
        words = [sys.executable, "-c", "import krisis; print(krisis.__file__)"]
        done = subprocess.run(
            words, env=self._environment, cwd=ROOT, capture_output=True, text=True, check=True
        )
        if not done.stdout.startswith(str(self._folder)):
            raise SystemExit(f"the tests would import {done.stdout.strip()}, not the copy")

    def outcome(self, mutant: Mutant) -> tuple[str, str]:
        """Return whether the tests notice the bug, and the first that did or what went wrong."""
        path = self._folder / "krisis" / mutant.file
        original = path.read_text(encoding="utf-8")
        try:
            changed = mutant.applied_to(original)
        except NotOnce as error:
            return "SNIPPET NOT FOUND ONCE", str(error)
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
        path.write_text(changed, encoding="utf-8")
        try:
            code, output = self.run(mutant.tests)
        finally:
            path.write_text(original, encoding="utf-8")
        if code == _FAILED:
            return "caught", _first_failure(output)
        if code == _PASSED:
            return "SURVIVED", ""
        return "TESTS DID NOT RUN", f"(exit code {code}) {output[-600:]}"

    def run(
        self, tests: Sequence[str], *, seconds: float = TIME_LIMIT_SECONDS
    ) -> tuple[int | None, str]:
        """Run tests on the copy as it is; no code means that they took too long."""
        words = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", _QUICK, *tests]
        try:
            done = subprocess.run(
                [sys.executable, *words],
                env=self._environment,
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return None, f"no end within {seconds} seconds"
        return done.returncode, done.stdout + done.stderr


def _first_failure(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return lines[0].partition(" ")[2].partition(" - ")[0] if lines else ""


def _chosen(words: argparse.Namespace) -> list[Mutant]:
    mutants = all_mutants()
    found = [
        mutant
        for mutant in mutants
        if (not words.area or mutant.area in words.area)
        and (not words.only or mutant.name in words.only)
    ]
    missing = set(words.only) - {mutant.name for mutant in found}
    if missing or not found:
        raise SystemExit(f"no such mutant: {', '.join(sorted(missing)) or words.area}")
    return found


def _check_without_bugs(copy: Copy, mutants: Sequence[Mutant]) -> None:
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    code, output = copy.run(tests, seconds=_ALL_TESTS_SECONDS)
    if code != _PASSED:
        raise SystemExit(f"the tests fail without any planted bug:\n{output[-3000:]}")


def main() -> int:
    """Run the chosen mutants and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a mutant by name; repeatable")
    parser.add_argument("--area", action="append", default=[], help="an area; repeatable")
    parser.add_argument("-j", type=int, default=1, choices=(1, 2), help="how many at a time")
    parser.add_argument(
        "--trust", action="store_true", help="skip the run of the tests without a planted bug"
    )
    words = parser.parse_args()
    mutants = _chosen(words)
    with tempfile.TemporaryDirectory() as folder:
        free: SimpleQueue[Copy] = SimpleQueue()
        for number in range(words.j):
            free.put(Copy(Path(folder) / str(number)))

        def judged(mutant: Mutant) -> tuple[str, str, float]:
            copy, started = free.get(), time.perf_counter()
            try:
                return *copy.outcome(mutant), time.perf_counter() - started
            finally:
                free.put(copy)

        if not words.trust:
            copy = free.get()
            _check_without_bugs(copy, mutants)
            free.put(copy)
        counts: Counter[str] = Counter()
        with ThreadPoolExecutor(words.j) as workers:
            for mutant, found in zip(mutants, workers.map(judged, mutants), strict=True):
                state, note, seconds = found
                counts[state] += 1
                print(f"{state:<10} {seconds:5.1f} s  {mutant.area}/{mutant.name}  {note}")
                if state != "caught":
                    print(f"           {mutant.file}: {mutant.breaks}")
                sys.stdout.flush()
    print(", ".join(f"{n} {state}" for state, n in counts.items()), f"of {len(mutants)}")
    return 0 if counts["caught"] == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
