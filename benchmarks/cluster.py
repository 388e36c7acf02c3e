"""Local workers against one on CPU-bound work, and what a batch costs on its way to a worker.

`python -m benchmarks.cluster ROUNDS` for other than 5 rounds. They are interleaved. Seconds are
those of the run, from the first batch on; starting the processes is told apart. How much of the
machine other programs used is printed beside the ratios: they say little where it is not near 0.
"""

from __future__ import annotations

import pickle
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import psutil

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


class Took(NamedTuple):
    """What a run took: its seconds, those of start and end, CPU seconds, and others' share."""

    seconds: float
    start_seconds: float
    cpu_seconds: float
    others: float


def cpu_seconds() -> tuple[float, float]:
    """Return the CPU seconds of this program with its ended children, and of the machine."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(-1)
    times = psutil.cpu_times()
    mine = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return mine, sum(times) - times.idle - times.iowait


def run(backend: BaseBackend, n: int, place: str | None) -> Took:
    """Measure a run, all its processes included."""
    records = [PatientRecord({"marker": i}, i % 2, record_id=f"r{i}") for i in range(n)]
    cluster = None if place is None else Cluster(place)
    began, (mine, all_of_them) = time.perf_counter(), cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        execution = Execution(recorder=Recorder(folder), cluster=cluster)
        suite = RecordListSuite(records, PARITY)
        result = Benchmark(suite, backend, [Accuracy()], execution=execution).run()
    whole, (mine_then, all_then) = time.perf_counter() - began, cpu_seconds()
    assert result.metric_scores["accuracy"].value == 1.0
    seconds, cpu = float(result.spending.elapsed_seconds or 0.0), mine_then - mine
    others = max(0.0, all_then - all_of_them - cpu) / whole / (psutil.cpu_count() or 1)
    return Took(seconds, whole - seconds, cpu, others)


def speed_up(rounds: int, n: int = 240, n_steps: int = 200_000) -> None:
    """Compare one and two workers, and one with the plain engine."""
    took: dict[str | None, list[Took]] = {None: [], "local:1": [], "local:2": []}
    for _ in range(rounds):
        for place, list_of in took.items():
            list_of.append(run(Burn(n_steps), n, place))
    plain, one, two = ([each.seconds for each in list_of] for list_of in took.values())
    ratios = [first / second for first, second in zip(one, two, strict=True)]
    said = " ".join(f"{ratio:.2f}" for ratio in ratios)
    middle, best = median(ratios), min(one) / min(two)
    line(f"2 workers against 1, median of {said}", f"{middle:.2f}", ">= 1.6", middle >= 1.6)
    line("2 workers against 1, best seconds of each", f"{best:.2f}", ">= 1.6", best >= 1.6)
    whole = min(plain) / min(two)
    line("2 workers against the plain engine, best of each", f"{whole:.2f}", ">= 1.6", whole >= 1.6)
    cpu = {place: min(each.cpu_seconds for each in list_of) for place, list_of in took.items()}
    more = cpu["local:2"] - cpu[None]
    line(
        "CPU of start, work and end beyond the plain engine", f"{more:.1f} s", "<= 12 s", more <= 12
    )
    starts = [each.start_seconds for place in ("local:1", "local:2") for each in took[place]]
    print(f"       start and end of a local cluster: {median(starts):.1f} s")
    shares = " ".join(f"{each.others:.0%}" for each in took["local:2"])
    print(f"       other programs beside 2 workers, start and end included: {shares}")


def overhead(rounds: int, n: int = 1600) -> None:
    """Say what a batch of 8 costs beyond the plain engine when the backend does nothing."""
    for kind in (Burn, BurnTogether):
        spent: dict[str | None, list[float]] = {None: [], "local:2": []}
        for _ in range(rounds):
            for place, seconds_of in spent.items():
                seconds_of.append(run(kind(0), n, place).seconds)
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


def main(rounds: int = 5) -> None:
    speed_up(rounds)
    overhead(min(rounds, 3))
    shipping()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
