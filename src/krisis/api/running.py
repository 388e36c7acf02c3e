"""`krisis.run`: ask a model about the records of a suite, and score the answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from krisis.backends.base import BaseBackend
from krisis.benchmark import Benchmark
from krisis.data.base import BaseDataSuite
from krisis.execution.assembly import assemble, execution_of
from krisis.execution.config import checked_config
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.json_values import JsonValue
from krisis.results.base import BenchmarkResult


def run(
    suite: str | Path | BaseDataSuite,
    model: str | BaseBackend,
    *,
    out: str | Path | None = None,
    **settings: JsonValue,
) -> BenchmarkResult:
    """Ask a model about every record of a suite, and score the answers.

    Arguments:
        suite: The name of a suite, its YAML file, or a suite of your own as an object.
        model: A backend such as ``guideline``, PROVIDER/MODEL, or a backend of your own as an
            object.
        out: Folder in which the run is kept, so that it can be resumed; nothing is written
            unless it is given.
        settings: Every setting of `krisis run`, such as ``task``, ``limit``, ``seed``,
            ``batch_size``, ``max_cost`` or ``metrics``.

    Returns:
        Rows and scores with their intervals, as a `BenchmarkResult`.

    >>> import krisis
    >>> krisis.run("ckd", "guideline", limit=20, baselines=False).attrition.n_sent
    20
    """
    own_suite = suite if isinstance(suite, BaseDataSuite) else None
    own_backend = model if isinstance(model, BaseBackend) else None
    named = {
        "suite": str(suite) if own_suite is None else own_suite.name,
        "model": model if isinstance(model, str) else model.asked_as,
    }
    config = checked_config({"display": "none", **named, **settings}, "krisis.run")
    parts = assemble(config, own_suite, own_backend)
    # A run that is kept stores its settings; of objects, only Python can go on with it.
    stored = None if own_suite or own_backend else config.model_dump(mode="json")
    recorder = Recorder(out or config.out, config=stored, store_features=config.store_features)
    execution = execution_of(config, recorder, Stop())
    if out is None:
        execution = replace(execution, recorder=None)
    benchmark = Benchmark.of(parts, config, execution)
    return benchmark.run(parts.records, suite_description=parts.description)
