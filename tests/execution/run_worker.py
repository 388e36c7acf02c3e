"""A process that carries out one run against the loopback server, to be killed or starved.

Usage: run_worker.py '{"out": "runs", "base_url": "http://…/v1", "n": 300, …}'. It prints
`done` when it has ended; a KrisisError is one line on stderr.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from krisis import Benchmark, PatientRecord
from krisis.backends.elicitation import Asking, Elicitation
from krisis.backends.openai import OpenAIBackend
from krisis.data.base import FeatureDescription, RecordListSuite, Task
from krisis.errors import KrisisError
from krisis.execution.cache import ReplyCache
from krisis.execution.options import Execution
from krisis.execution.pacing.budget import Limits
from krisis.execution.recorder import Recorder
from krisis.metrics import Accuracy, BrierScore
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore
from krisis.runs import write

PARITY = Task(
    name="parity",
    question="Is the serial marker odd?",
    answers={0: "even", 1: "odd"},
    features={"marker": FeatureDescription("serial marker")},
)


def suite(n: int) -> RecordListSuite:
    """Return markers whose label is their parity, but for every seventh."""
    return RecordListSuite(
        [
            PatientRecord({"marker": i}, (i + (i % 7 == 0)) % 2, record_id=f"r{i}")
            for i in range(1000, 1000 + n)
        ],
        PARITY,
    )


class KilledWhileScoring(BaseMetric):
    """Ends the process as the operating system would, after other metrics were scored."""

    name = "Killed"

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def die_when(step: str) -> None:
    """End the process as a kill would, when it comes to one of its last steps."""

    def die(*arguments: Any, **named: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if step == "storing scores":
        write.store_scores = die
    elif step == "merging":
        write.merge_and_close = die
    elif step == "releasing":
        write.WriterLock.release = die  # type: ignore[method-assign]


def die_before_second(backend: OpenAIBackend, n_calls: int) -> None:
    """End the process as a kill would, before it makes so many second calls."""
    build, left = backend.build_second, [n_calls]

    def counted(*arguments: Any) -> Any:
        left[0] -= arguments[0].text != ""  # else it only asks how large the call can be
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return build(*arguments)

    backend.build_second = counted  # type: ignore[method-assign]


def benchmark(options: dict[str, Any], recorder: Recorder | None) -> Benchmark:
    """Return the benchmark that the options describe."""
    backend = OpenAIBackend(
        "parity-1",
        base_url=options["base_url"],
        top_logprobs=0,
        max_retries=options.get("max_retries", 8),
        retry_base_seconds=0.02,
        retry_max_seconds=0.5,
        max_completion_tokens=options.get("max_output_tokens"),
        **({"api_key": options["api_key"]} if "api_key" in options else {}),
    )
    backend.asking = Asking(elicit=Elicitation.parsed(options.get("elicit", "answer")))
    if "die_before_second" in options:
        die_before_second(backend, options["die_before_second"])
    limits = Limits(timeout_seconds=options.get("timeout", 30.0), **options.get("limits", {}))
    cache = options.get("cache")
    return Benchmark(
        suite(options["n"]),
        backend,
        [
            Accuracy(),
            BrierScore(),
            *([KilledWhileScoring()] if options.get("die_at") == "scoring" else []),
        ],
        batch_size=options.get("batch_size", 1),
        max_concurrency=options.get("max_concurrency", 16),
        execution=Execution(
            recorder=recorder,
            limits=limits,
            cache=ReplyCache(cache) if cache else None,
            stop_when=options.get("stop_when"),
        ),
    )


def main() -> None:
    """Carry the run out."""
    options = json.loads(sys.argv[1])
    if "largest_file" in options:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options["largest_file"],) * 2)
    if "die_at" in options:
        die_when(options["die_at"])
    if "resume" in options:
        recorder = Recorder.resume(Path(options["resume"]))
    else:
        recorder = Recorder(options["out"])
    try:
        benchmark(options, recorder).run()
    except KrisisError as error:
        print(f"krisis: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print("done")


if __name__ == "__main__":
    main()
