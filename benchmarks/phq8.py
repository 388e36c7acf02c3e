"""PHQ-8: a thousand participants replayed, and what the suite costs beside plain loops."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.timing import best_seconds, line
from krisis.backends.baselines.rules import Lexicon
from krisis.benchmark import Benchmark
from krisis.cli.run_file import write_beside
from krisis.data.base import SuiteConfig
from krisis.data.phq8.suite import PHQ8Suite
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.execution.replay import ReplayBackend

N_PARTICIPANTS = 1000


def seconds_of(action: object) -> float:
    start = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - start


def suite(mode: str) -> PHQ8Suite:
    return PHQ8Suite(SuiteConfig(n_synthetic=N_PARTICIPANTS), mode=mode, split="all")


def replay(folder: Path, original: Path) -> None:
    """Read the saved run, replay it into a new one and write its run file."""
    recorder = Recorder(folder)
    execution = Execution(recorder=recorder)
    result = Benchmark(suite("few_shot"), ReplayBackend(original), execution=execution).run()
    assert len(result.evaluation_results) == 8 * N_PARTICIPANTS
    assert result.attrition.n_lost == 0
    assert recorder.directory is not None
    path = recorder.directory.path
    write_beside([path])


def main() -> None:
    for mode, wanted in (("zero_shot", 2.0), ("few_shot", 15.0)):
        loading = best_seconds(lambda mode=mode: suite(mode).load())
        what = f"{N_PARTICIPANTS} participants loaded, {mode}"
        line(what, f"{loading:.2f} s", f"≤ {wanted:.0f} s", loading <= wanted)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorder = Recorder(folder / "original")
        ready = suite("few_shot")
        ready.load()
        backend = Lexicon()
        reading = seconds_of(
            lambda: Benchmark(ready, backend, execution=Execution(recorder=recorder)).run()
        )
        assert recorder.directory is not None
        original = recorder.directory.path
        replaying = seconds_of(lambda: replay(folder / "again", original))
        floor = seconds_of(lambda: original.joinpath("rows.jsonl").read_text().split())
    line("8,000 items by the lexicon, journal included", f"{reading:.1f} s", "≤ 60 s", reading < 60)
    what = "8,000 items replayed: load, few-shot, journal, run file"
    line(what, f"{replaying:.1f} s", "≤ 60 s", replaying <= 60)
    print(f"       the replay takes {replaying / floor:.0f} times splitting its journal into words")


if __name__ == "__main__":
    main()
