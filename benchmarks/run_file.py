"""A run file of 100,000 rows: `krisis show`, resuming, and loading a million rows.

``python -m benchmarks.run_file [N_ROWS [N_LARGE]]``; times are CPU seconds, the best of five.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.execution import CONCURRENCY, Wire, suite
from benchmarks.timing import line
from benchmarks.viewer import write_long_run
from krisis import Benchmark
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.metrics import Accuracy
from krisis.runs.load import load_run

N_ROUNDS = 5


def command(*words: str, rounds: int = N_ROUNDS) -> float:
    """Return the CPU seconds of a command, the best of some rounds."""
    found = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def shown(folder: Path, n_rows: int) -> None:
    """Compare `krisis show` of many rows with that of 200."""
    many, few = (write_long_run(folder / f"{n}.krisis", n) for n in (n_rows, 200))
    for options in ((), ("--verbose",)):
        small, large = (
            command("-m", "krisis", "show", str(path), *options) for path in (few, many)
        )
        what = " ".join(("show", *options))
        words = f"{large:.2f} − {small:.2f} = {large - small:.2f} s"
        line(f"{what} of {n_rows:,} rows above 200", words, "aim: 1 s", large - small <= 1)


def resumed(folder: Path, n_rows: int) -> None:
    """Resume a run that has all its rows: everything is read, checked and scored again."""
    asker = Wire("parity-1", api_key="none", base_url="http://127.0.0.1:1", top_logprobs=0)

    def run(recorder: Recorder) -> float:
        benchmark = Benchmark(
            suite(n_rows),
            asker,
            [Accuracy()],
            batch_size=1,
            max_concurrency=CONCURRENCY,
            execution=Execution(recorder=recorder),
        )
        cpu = time.process_time()
        benchmark.run(suite_description={"suite": "parity"})
        return time.process_time() - cpu

    recorder = Recorder(folder)
    first = run(recorder)
    assert recorder.path is not None
    again = min(run(Recorder.resume(recorder.path)) for _ in range(N_ROUNDS))
    words = f"{again:.2f} s (the run: {first:.1f} s)"
    line(f"resume of {n_rows:,} rows, scores included", words, "aim: 2 s", again <= 2)


def loaded(path: str) -> None:
    """Load a run and build its table; print CPU seconds and the peak memory of this process."""
    cpu = time.process_time()
    found = load_run(path)
    table = found.rows.table
    assert table.n_rows
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{time.process_time() - cpu:.1f} s of CPU, {peak:,.0f} MB", flush=True)


def main() -> None:
    given = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    n_rows, n_large = (*given, *(100_000, 1_000_000)[len(given) :])
    print(f"  load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shown(folder, n_rows)
        resumed(folder / "runs", n_rows)
        if n_large:
            path = write_long_run(folder / "large.krisis", n_large)
            words = [sys.executable, "-m", "benchmarks.run_file", "load", str(path)]
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            line(f"loading {n_large:,} rows", done.stdout.strip(), "(no limit)", True)
            seconds = command("-m", "krisis", "show", str(path), rounds=1)
            line(f"show of {n_large:,} rows", f"{seconds:.1f} s of CPU", "(no limit)", True)
    print(f"  load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        loaded(sys.argv[2])
    else:
        main()
