"""Local workers against one on CPU-bound work, and what a batch costs on its way to a worker.

`python -m benchmarks.cluster ROUNDS` for other than 3 rounds. They are interleaved, so that a busy
machine is equally busy for all. Seconds are those of the run; starting the processes is told apart.
"""

from __future__ import annotations

import pickle
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median

from benchmarks.timing import line
from krisis import BackendResponse, BaseBackend, Benchmark, PatientRecord, SuiteConfig
from krisis.data.base import BaseDataSuite, RecordListSuite, Task
from krisis.data.ckd.suite import CKDSuite
from krisis.execution.cluster import Cluster
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.metrics import Accuracy

PARITY = Task("parity", "Is the marker odd?", {0: "even", 1: "odd"})


class Burn(BaseBackend):
    """Works in Python for a number of steps, a record at a time."""

    name, max_retries = "burn", 0

    def __init__(self, n_steps: int) -> None:
        self.n_steps = n_steps

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        total = sum(i * i % 7 for i in range(self.n_steps))
        return BackendResponse((int(str(record.features["marker"])) + 0 * total) % 2)


class BurnTogether(Burn):
    """The same, a batch in one call."""

    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        return [self.evaluate(record) for record in records]


def cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(-1)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def run(backend: BaseBackend, n: int, place: str | None) -> tuple[float, float, float]:
    """Return the seconds of a run, of its start, and its CPU seconds, all processes included."""
    records = [PatientRecord({"marker": i}, i % 2, record_id=f"r{i}") for i in range(n)]
    cluster = None if place is None else Cluster(place)
    began, cpu = time.perf_counter(), cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        execution = Execution(recorder=Recorder(folder), cluster=cluster)
        suite = RecordListSuite(records, PARITY)
        result = Benchmark(suite, backend, [Accuracy()], execution=execution).run()
    whole = time.perf_counter() - began
    assert result.metric_scores["accuracy"].value == 1.0
    seconds = float(result.spending.elapsed_seconds or 0.0)
    return seconds, whole - seconds, cpu_seconds() - cpu


def speed_up(rounds: int, n: int = 240, n_steps: int = 200_000) -> None:
    """Compare one and two workers, and one with the plain engine."""
    took: dict[str | None, list[float]] = {None: [], "local:1": [], "local:2": []}
    work: dict[str | None, list[float]] = {None: [], "local:1": [], "local:2": []}
    starts = []
    for _ in range(rounds):
        for place, seconds_of in took.items():
            seconds, start, cpu = run(Burn(n_steps), n, place)
            seconds_of.append(seconds)
            work[place].append(cpu)
            starts += [start] if place else []
    one, two = took["local:1"], took["local:2"]
    ratios = [first / second for first, second in zip(one, two, strict=True)]
    said = " ".join(f"{ratio:.2f}" for ratio in ratios)
    middle, best = median(ratios), min(one) / min(two)
    line(f"2 workers against 1, median of {said}", f"{middle:.2f}", ">= 1.6", middle >= 1.6)
    line("2 workers against 1, best seconds of each", f"{best:.2f}", ">= 1.6", best >= 1.6)
    whole = min(took[None]) / min(two)
    line("2 workers against the plain engine, best of each", f"{whole:.2f}", ">= 1.6", whole >= 1.6)
    more = min(work["local:2"]) - min(work[None])
    line(
        "CPU of start, work and end beyond the plain engine", f"{more:.1f} s", "<= 12 s", more <= 12
    )
    print(f"       start and end of a local cluster: {median(starts):.1f} s")


def overhead(rounds: int, n: int = 4000) -> None:
    """Say what a batch of 8 costs beyond the plain engine when the backend does nothing."""
    for kind in (Burn, BurnTogether):
        spent: dict[str | None, list[float]] = {None: [], "local:2": []}
        for _ in range(rounds):
            for place, seconds_of in spent.items():
                seconds_of.append(run(kind(0), n, place)[0])
        more = (min(spent["local:2"]) - min(spent[None])) / (n / 8) * 1e3
        name = "one by one" if kind is Burn else "in one call"
        line(f"a batch of 8, asked {name}, 2 workers", f"+{more:.1f} ms", "<= 30 ms", more <= 30)


def shipping(n: int = 2000) -> None:
    """Compare sending records with making them again from the seed."""
    suite: BaseDataSuite = CKDSuite(SuiteConfig(n_synthetic=n))
    began = time.perf_counter()
    records = suite.load()
    made = (time.perf_counter() - began) / n * 1e6
    began = time.perf_counter()
    sent = [pickle.dumps(records[at : at + 8]) for at in range(0, n, 8)]
    for batch in sent:
        pickle.loads(batch)
    shipped = (time.perf_counter() - began) / n * 1e6
    size = sum(map(len, sent)) / n
    what = f"a CKD record sent ({size:.0f} bytes), {shipped:.0f} µs, against made"
    line(what, f"{made:.0f} µs", "sent <= made", shipped <= made)


def main(rounds: int = 3) -> None:
    speed_up(rounds)
    overhead(rounds)
    shipping()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
