"""From the words of a configuration to the objects of a run."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from krisis import registry
from krisis.backends.base import BaseBackend
from krisis.backends.catalogue import backend_from_name
from krisis.backends.provider import ProviderBackend
from krisis.data.base import BaseDataSuite, PatientRecord, SuiteConfig
from krisis.errors import UnknownName
from krisis.execution.cache import ReplyCache, default_cache_path
from krisis.execution.config import RunConfig
from krisis.execution.limits import Limits
from krisis.execution.options import Execution
from krisis.execution.prices import read_prices
from krisis.execution.progress import progress_display
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.metrics import default_benchmark_metrics
from krisis.metrics.base import BaseMetric


@dataclass(frozen=True, slots=True)
class Assembled:
    """The parts that a configuration names."""

    suite: BaseDataSuite
    backend: BaseBackend
    metrics: list[BaseMetric]
    records: list[PatientRecord]
    description: dict[str, Any]


def assemble(config: RunConfig) -> Assembled:
    """Make suite, backend and metrics, and load the records."""
    suite = suite_of(config)
    backend = backend_from_name(
        config.model,
        temperature=config.temperature,
        max_output_tokens=config.max_output_tokens,
        base_url=config.base_url,
        max_retries=config.max_retries,
        **config.model_options,
    )
    if isinstance(backend, ProviderBackend) and "timeout_seconds" not in config.model_options:
        backend.timeout_seconds = config.timeout_seconds  # else its own, shorter one would cut
    chosen: list[BaseMetric] = [registry.find("metrics", name)() for name in config.metrics]
    description = suite.describe()
    if config.limit is not None:
        description["limit"] = config.limit
    records = first_records(suite.load(), config.limit)
    return Assembled(suite, backend, chosen or default_benchmark_metrics(), records, description)


def first_records(records: list[PatientRecord], limit: int | None) -> list[PatientRecord]:
    """Return the first records, and the rest of the last one's group: groups stay whole."""
    if limit is None or limit >= len(records):
        return records
    group, end = records[limit - 1].group, limit
    while group and end < len(records) and records[end].group == group:
        end += 1
    return records[:end]


def suite_of(config: RunConfig) -> BaseDataSuite:
    """Make the suite that a configuration names."""
    kind = registry.find("suites", config.suite)
    chosen = {
        name: value
        for name in ("features", "task", "seed", "n_synthetic", "test_size")
        if (value := getattr(config, name)) is not None
    }
    common = {"data_path": config.data_path, "sex": config.sex, "mode": config.mode}
    options = {name: value for name, value in common.items() if value is not None}
    options |= config.suite_options
    known = set(inspect.signature(kind).parameters) - {"config"}
    if "data_path" in options and "data_path" not in known and "data" in known:
        options["data"] = options.pop("data_path")
    for name in options:
        if name not in known:
            raise UnknownName.among(f"option of the suite {config.suite}:", name, known)
    suite: BaseDataSuite = kind(SuiteConfig(**chosen), **options)
    return suite


def execution_of(config: RunConfig, recorder: Recorder, stop: Stop) -> Execution:
    """Make everything that a configuration says about how the run is carried out."""
    return Execution(
        repeats=config.repeats,
        limits=Limits(
            requests_per_minute=config.requests_per_minute,
            tokens_per_minute=config.tokens_per_minute,
            timeout_seconds=config.timeout_seconds,
            max_cost=config.max_cost,
            max_tokens=config.max_tokens,
            max_failures=config.max_failures,
            adaptive=config.adaptive,
        ),
        recorder=recorder,
        cache=ReplyCache(config.cache_path or default_cache_path()) if config.cache else None,
        progress=progress_display(config.display),
        prices=read_prices(config.prices) if config.prices else {},
        stop=stop,
        baselines=config.baselines,
    )
