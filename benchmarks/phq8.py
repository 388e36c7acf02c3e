"""PHQ-8: how much an interview repeats itself, and what a thousand participants cost."""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from itertools import product
from pathlib import Path

from benchmarks.timing import best_seconds, line
from krisis.backends.baselines.rules import Lexicon
from krisis.benchmark import Benchmark
from krisis.cli.run_file import write_beside
from krisis.data.base import SuiteConfig
from krisis.data.phq8.interviews import Cohort
from krisis.data.phq8.suite import PHQ8Suite
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder

N_PARTICIPANTS = 1000
SEEDS = (1, 2, 3, 7, 11, 42)


def seconds_of(action: object) -> float:
    start = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - start


def suite(mode: str) -> PHQ8Suite:
    return PHQ8Suite(SuiteConfig(n_synthetic=N_PARTICIPANTS), mode=mode, split="all")


def repeated(context: str) -> float:
    """Return the share of a participant's 4-grams that they have said before."""
    turns = [one for one in context.lower().splitlines() if one.startswith("participant: ")]
    words = [re.findall(r"[\w']+", turn.partition(": ")[2]) for turn in turns]
    grams = Counter(tuple(turn[i : i + 4]) for turn in words for i in range(len(turn) - 3))
    return sum(count - 1 for count in grams.values()) / max(1, grams.total())


def repetition() -> None:
    """Print how much the interview that repeats itself most repeats."""
    config = {"n_synthetic": min(200, N_PARTICIPANTS)}
    shares = [
        repeated(context)
        for seed, cohort in product(SEEDS, Cohort)
        for context in {
            record.context
            for record in PHQ8Suite(
                SuiteConfig(seed=seed, **config), split="all", cohort=cohort
            ).load()
        }
    ]
    what = f"4-grams said before, the worst of {len(shares):,} interviews"
    line(what, f"{max(shares):.1%}", "≤ 5 %", max(shares) <= 0.05)


def main() -> None:
    repetition()
    for mode, wanted in (("zero_shot", 2.0), ("few_shot", 15.0)):
        loading = best_seconds(lambda mode=mode: suite(mode).load())
        what = f"{N_PARTICIPANTS} participants loaded, {mode}"
        line(what, f"{loading:.2f} s", f"≤ {wanted:.0f} s", loading <= wanted)
    with tempfile.TemporaryDirectory() as name:
        recorder = Recorder(Path(name))
        ready = suite("few_shot")
        ready.load()
        execution = Execution(recorder=recorder)
        reading = seconds_of(lambda: Benchmark(ready, Lexicon(), execution=execution).run())
        assert recorder.path is not None
        original = recorder.path
        reading += seconds_of(lambda: write_beside([original]))
    what = "8,000 items by the lexicon, both run files included"
    line(what, f"{reading:.1f} s", "≤ 60 s", reading < 60)


if __name__ == "__main__":
    main()
