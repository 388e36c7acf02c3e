"""Throughput and CPU of a run against the bare SDK, with the same transport, in the same process.

Prints, for zero and 50 ms latency at concurrency 100 and batch size 1: records per second of the
bare openai SDK and of krisis with its journal on, their ratio, and the ratio of CPU per record.
With --scale: whether throughput stays flat from 1e3 to 1e5 records, and the memory of the largest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from krisis import Benchmark, PatientRecord
from krisis.backends.openai import OpenAIBackend
from krisis.data.base import FeatureDescription, RecordListSuite, TaskSpecification
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.metrics import Accuracy

SERVER = Path(__file__).parents[1] / "tests" / "execution" / "loopback_server.py"
CONCURRENCY = 100
PARITY = TaskSpecification(
    name="parity",
    question="Is the serial marker odd?",
    answers={0: "even", 1: "odd"},
    features={"marker": FeatureDescription("serial marker")},
    abstain_when="Abstain when there is no marker.",
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


def records(n: int) -> list[PatientRecord]:
    return [PatientRecord({"marker": i}, i % 2, record_id=f"r{i}") for i in range(n)]


def suite(n: int) -> RecordListSuite:
    return RecordListSuite(records(n), PARITY)


def backend(base_url: str) -> OpenAIBackend:
    return OpenAIBackend("parity-1", api_key="none", base_url=base_url, top_logprobs=0)


def measured(work) -> tuple[float, float]:
    """Return wall and CPU seconds of some work."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def typed_arguments(request) -> dict[str, object]:
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


def bare_sdk(base_url: str, n: int) -> None:
    """Send the same requests with the same client, and do nothing else."""
    asker = backend(base_url)
    asker.prepare(suite(1))
    arguments = [
        typed_arguments(asker.build([record.features], mode="single")) for record in records(n)
    ]

    async def main() -> None:
        client = asker.make_client("none")
        todo = iter(arguments)

        async def worker() -> None:
            for call in todo:
                reply = await client.chat.completions.create(**call)
                assert reply.choices[0].message.content

        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
        await client.close()

    bare_sdk.seconds = measured(lambda: asyncio.run(main()))  # type: ignore[attr-defined]


def with_krisis(base_url: str, n: int) -> dict[str, float]:
    """Run the same records through the engine, journal on, cache off."""
    with tempfile.TemporaryDirectory() as folder:
        benchmark = Benchmark(
            suite(n),
            backend(base_url),
            [Accuracy()],
            batch_size=1,
            max_concurrency=CONCURRENCY,
            execution=Execution(recorder=Recorder(folder)),
        )
        records_given = benchmark.suite.load()
        cpu = time.process_time()
        result = benchmark.run(records_given, suite_description={"suite": "parity"})
        cpu = time.process_time() - cpu
    assert result.metric_scores["accuracy"].value == 1.0, result.extras
    return {"wall": result.extras["elapsed_seconds"], "cpu": cpu}


def compare(latency: float, n: int, rounds: int) -> None:
    ratios, cpus = [], []
    with server(latency=latency) as base_url:
        bare_sdk(base_url, 200)
        with_krisis(base_url, 200)
        for _ in range(rounds):
            bare_sdk(base_url, n)
            wall, cpu = bare_sdk.seconds  # type: ignore[attr-defined]
            ours = with_krisis(base_url, n)
            ratios.append(wall / ours["wall"])
            cpus.append(ours["cpu"] / cpu)
            print(
                f"latency {latency * 1000:3.0f} ms, {n} records: bare SDK {n / wall:6.0f}/s "
                f"{cpu / n * 1e3:.2f} ms CPU; krisis {n / ours['wall']:6.0f}/s "
                f"{ours['cpu'] / n * 1e3:.2f} ms CPU; throughput {ratios[-1]:.2f}, "
                f"CPU {cpus[-1]:.2f}",
                flush=True,
            )
    middle = rounds // 2
    print(
        f"latency {latency * 1000:3.0f} ms: median throughput ratio {sorted(ratios)[middle]:.2f} "
        f"(floor 0.75), median CPU ratio {sorted(cpus)[middle]:.2f} (ceiling 1.40)"
    )


def scale(sizes: tuple[int, ...]) -> None:
    with server() as base_url:
        with_krisis(base_url, 200)
        rates = []
        for n in sizes:
            ours = with_krisis(base_url, n)
            rates.append(n / ours["wall"])
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{n:7d} records: {rates[-1]:6.0f}/s, peak {peak:.0f} MB", flush=True)
        print(f"largest / smallest throughput: {rates[-1] / rates[0]:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", action="store_true")
    chosen = parser.parse_args()
    if chosen.scale:
        scale((1_000, 10_000, 100_000))
    else:
        for seconds in (0.0, 0.05):
            compare(seconds, chosen.records, chosen.rounds)
