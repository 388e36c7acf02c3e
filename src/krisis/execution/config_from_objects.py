"""From the objects of a run that was started in Python to the configuration that makes them again.

A suite, a backend or a metric can be made again when its class can be found by a name and the
arguments that it was made with are plain values. Keys are never among them. The identity of a run
is checked when it is continued, so a part that was changed after it was made is noticed there.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from enum import Enum
from pathlib import Path

from krisis import registry
from krisis.backends.base import BaseBackend
from krisis.backends.elicitation import Asking
from krisis.data.base import BaseDataSuite, Records, SuiteConfig, first_records
from krisis.data.perturbation import NONE
from krisis.errors import InvalidValue, KrisisError
from krisis.execution.batches import with_distinct_ids
from krisis.execution.config import checked_config
from krisis.execution.options import Batching, Execution, asking_of
from krisis.execution.recorder import Recorder, RunSettings
from krisis.execution.session import Job
from krisis.json_values import JsonObject, JsonValue
from krisis.metrics import usual_metrics
from krisis.metrics.base import BaseMetric
from krisis.metrics.scoring import metric_from_name

# Options of a backend that are settings of every run.
_COMMON = ("temperature", "base_url", "max_retries")


def settings_of(
    job: Job, metrics: Sequence[BaseMetric], execution: Execution, recorder: Recorder
) -> RunSettings:
    """Return the configuration of a run that was put together in Python, or why there is none."""
    try:
        content = {
            **_suite_settings(job.suite, job.records),
            **_model_settings(job.backend),
            "metrics": _metric_names(metrics, job.suite.task.metrics),
            "batch_size": job.batch_size,
            "max_concurrency": job.max_concurrency,
            "repeats": execution.repeats,
            **_asking(asking_of(job.backend)),
            "stop_when": execution.stop_when,
            "baselines": execution.baselines,
            "cluster": None if execution.cluster is None else execution.cluster.place,
            "cache": execution.cache is not None,
            "cache_path": None if execution.cache is None else str(execution.cache.path),
            "out": str(recorder.out),
            "store_features": recorder.store_features,
            **asdict(execution.limits),
            **_batching(execution.batching),
        }
        # Without a limit of its own, a call is timed as the command line times it.
        content = {name: value for name, value in content.items() if value is not None}
        return RunSettings(checked_config(content, "the run").model_dump(mode="json"))
    except KrisisError as error:
        return RunSettings(missing=str(error))


def _asking(asking: Asking) -> JsonObject:
    prompt = None if asking.prompt is None else asdict(asking.prompt)
    return {
        "prompt": prompt,
        "elicit": str(asking.elicit),
        "instructions": asking.instructions.value,
        "perturb": NONE if asking.perturbed is None else asking.perturbed.kind.value,
    }


def _batching(batching: Batching | None) -> JsonObject:
    if batching is None:
        return {}
    seconds = batching.poll_seconds
    return {"batch": True, "batch_then_live": batching.then_live, "poll_seconds": seconds}


def _suite_settings(suite: BaseDataSuite, records: Records) -> JsonObject:
    options = _arguments(suite)
    config = options.pop("config", None) or SuiteConfig()
    usual = SuiteConfig()
    chosen = {
        field.name: _plain(getattr(config, field.name), field.name)
        for field in fields(SuiteConfig)
        if _was_chosen(getattr(config, field.name), getattr(usual, field.name))
    }
    named = {"suite": registry.name_of("suites", type(suite)), **chosen}
    plain = {name: _plain(value, name) for name, value in options.items()}
    return {**named, "suite_options": plain, "limit": _limit(suite, records)}


def _was_chosen(value: object, usual: object) -> bool:
    """Say whether a choice was made: a default is of a type of its own, or another value."""
    return value != usual or type(value) is not type(usual)


def _limit(suite: BaseDataSuite, records: Records) -> int | None:
    whole = with_distinct_ids(suite.records())  # as the run names them
    if records.content_hash == whole.content_hash:
        return None
    if first_records(whole, len(records)).content_hash == records.content_hash:
        return len(records)
    raise InvalidValue("it was given records of its own, not those that the suite loads")


def _model_settings(backend: BaseBackend) -> JsonObject:
    options = {name: _plain(value, name) for name, value in _arguments(backend).items()}
    name = registry.name_of("backends", type(backend))
    if "model" in options and not registry.is_place(name):
        name = f"{name}/{options.pop('model')}"
    common = {option: options.pop(option) for option in _COMMON if option in options}
    return {
        "model": name,
        "max_retries": backend.max_retries,
        **common,
        "model_options": options,
    }


def _metric_names(metrics: Sequence[BaseMetric], also: Sequence[str]) -> list[str]:
    usual = usual_metrics(also)
    if [one.identifier for one in metrics] == [one.identifier for one in usual]:
        return []
    names = []
    for metric in metrics:
        name = registry.name_of("metrics", type(metric))
        name += metric.identifier.removeprefix(metric.key)
        if metric_from_name(name).identifier != metric.identifier:
            raise InvalidValue(f"the parameters of the metric {metric.label!r} cannot be written")
        names.append(name)
    return names


def _arguments(made: BaseDataSuite | BaseBackend) -> JsonObject:
    """Return the arguments that an object was made with, by name."""
    signature = inspect.signature(type(made))
    arguments, options = made.made_with
    found: JsonObject = {}
    for name, value in signature.bind_partial(*arguments, **options).arguments.items():
        kind = signature.parameters[name].kind
        if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise InvalidValue(f"{type(made).__name__} was made with arguments without a name")
        found |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return found


def _plain(value: object, name: str) -> JsonValue:
    """Return a value as a configuration file holds it, or say that it cannot."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, str | int | float):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Path):
        return str(value.resolve())
    if isinstance(value, Mapping):
        return {str(key): _plain(item, name) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    raise InvalidValue(f"the argument {name} is a {type(value).__name__}, not a plain value")
