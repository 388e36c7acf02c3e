"""A run against the bare SDK over the same transport: throughput, CPU, and length of the run.

`python -m benchmarks execution` takes a minute or two. `python -m benchmarks.execution` goes up to
1e5 records, which takes several.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.timing import line
from krisis import Benchmark, PatientRecord
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.openai import OpenAIBackend
from krisis.data.base import FeatureDescription, RecordListSuite, Task
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.metrics import Accuracy

SERVER = Path(__file__).parents[1] / "tests" / "execution" / "loopback_server.py"
CONCURRENCY = 100
PARITY = Task(
    name="parity",
    question="Is the serial marker odd?",
    answers={0: "even", 1: "odd"},
    features={"marker": FeatureDescription("serial marker")},
)


@contextmanager
def server(**options: object) -> Iterator[str]:
    """Start the loopback server and yield its address."""
    process = subprocess.Popen(
        [sys.executable, str(SERVER), json.dumps(options)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def records(n: int) -> list[PatientRecord]:
    return [PatientRecord({"marker": i}, i % 2, record_id=f"r{i}") for i in range(n)]


def suite(n: int) -> RecordListSuite:
    return RecordListSuite(records(n), PARITY)


def backend(base_url: str) -> OpenAIBackend:
    return OpenAIBackend("parity-1", api_key="none", base_url=base_url, top_logprobs=0)


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall and CPU seconds of some work."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def typed_arguments(request: ChatRequest) -> dict[str, object]:
    """Return a request as the SDK's documentation says it is to be passed."""
    schema = {"name": "reply", "strict": True, "schema": request.schema}
    return {
        "model": request.model,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
        **request.parameters,
        "response_format": {"type": "json_schema", "json_schema": schema},
    }


def bare_sdk(base_url: str, n: int) -> tuple[float, float]:
    """Send the same requests with the SDK and its own client over aiohttp, and do nothing else."""
    from openai import DefaultAioHttpClient

    asker = backend(base_url)
    asker.prepare(suite(1))
    arguments = [
        typed_arguments(asker.build([record.features], mode="single")) for record in records(n)
    ]

    async def main() -> None:
        client = asker.make_client("none", DefaultAioHttpClient())
        todo = iter(arguments)

        async def worker() -> None:
            for call in todo:
                reply = await client.chat.completions.create(**call)
                assert reply.choices[0].message.content

        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
        await client.close()

    return measured(lambda: asyncio.run(main()))


def with_krisis(base_url: str, n: int) -> tuple[float, float]:
    """Run the same records through krisis and the wire."""
    return run_of(backend(base_url), n)


def run_of(asker: OpenAIBackend, n: int) -> tuple[float, float]:
    """Return wall and CPU seconds of a run, journal on, cache off."""
    with tempfile.TemporaryDirectory() as folder:
        benchmark = Benchmark(
            suite(n),
            asker,
            [Accuracy()],
            batch_size=1,
            max_concurrency=CONCURRENCY,
            execution=Execution(recorder=Recorder(folder)),
        )
        cpu = time.process_time()
        result = benchmark.run(suite_description={"suite": "parity"})
        cpu = time.process_time() - cpu
    assert result.metric_scores["accuracy"].value == 1.0, result.extras
    return result.extras["elapsed_seconds"], cpu


LEAST_THROUGHPUT = {0.0: 0.93, 0.05: 0.88}
MOST_CPU = 1.12
N_CALLS, N_ROUNDS, SIZES = 1500, 5, (1_000, 10_000)


def compare(latency: float, n: int, rounds: int) -> None:
    """Run both in turn and compare the best and the median of each."""
    bare, ours = [], []
    with server(latency=latency) as base_url:
        bare_sdk(base_url, 200)
        with_krisis(base_url, 200)
        for _ in range(rounds):
            bare.append(bare_sdk(base_url, n))
            ours.append(with_krisis(base_url, n))
    least = LEAST_THROUGHPUT[latency]
    for word, choose in (("best", min), ("median", median)):
        bare_wall, bare_cpu = (choose(values) for values in zip(*bare, strict=True))
        wall, cpu = (choose(values) for values in zip(*ours, strict=True))
        what = f"{n} calls, {latency * 1000:.0f} ms, {word} of {rounds}"
        rates = f"{n / wall:.0f} of {n / bare_wall:.0f}/s"
        milliseconds = f"{cpu / n * 1e3:.2f} of {bare_cpu / n * 1e3:.2f} ms"
        share, factor = bare_wall / wall, cpu / bare_cpu
        line(f"{what}: {rates}", f"{share:.2f} of bare SDK", f">= {least}", share >= least)
        line(f"{what}: CPU {milliseconds}", f"{factor:.2f}", f"<= {MOST_CPU}", factor <= MOST_CPU)


class Wire(OpenAIBackend):
    """A provider without a wire: it answers at once, so that only krisis is measured."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        marker = int(request.user.rpartition(" ")[2])
        text = json.dumps({"abstained": False, "prediction": marker % 2, "confidence": 0.9})
        await asyncio.sleep(0)
        return ChatReply(text, "stop", "parity-1", 100, 10)


def scale(sizes: tuple[int, ...]) -> None:
    """Show that a run does not slow down with its length, nor swell; the wire is left out."""
    milliseconds = []
    for n in sizes:
        asker = Wire("parity-1", api_key="none", base_url="http://127.0.0.1:1", top_logprobs=0)
        _, cpu = run_of(asker, n)
        milliseconds.append(cpu / n * 1e3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        what = f"{n} records, {milliseconds[-1]:.2f} ms CPU each, memory"
        line(what, f"{peak:.0f} MB", "<= 600 MB", peak <= 600)
    growth = milliseconds[-1] / milliseconds[0]
    line(f"CPU of {sizes[-1]} against {sizes[0]} records", f"{growth:.2f}", "<= 1.2", growth <= 1.2)


def main() -> None:
    for latency in (0.0, 0.05):
        compare(latency, n=N_CALLS, rounds=N_ROUNDS)
    scale(SIZES)


if __name__ == "__main__":
    scale((1_000, 10_000, 100_000))
