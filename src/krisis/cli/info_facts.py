"""What `krisis info` knows of a suite, a backend or a metric, as JSON values."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping

from krisis import registry
from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend
from krisis.backends.provider import ProviderBackend, is_installed
from krisis.cli.run_options import flag_of
from krisis.data.base import BaseDataSuite, Task
from krisis.data.instructions import abstention_text
from krisis.errors import InvalidValue, MissingExtra, PlugInFault, UnknownName, suggestion
from krisis.execution.assembly import suite_of
from krisis.execution.config import RunConfig, checked_config
from krisis.json_values import JsonObject, JsonValue, plain
from krisis.metrics.base import BaseMetric

# The options of a suite that have a flag of their own; all others are given as --suite-option.
_FLAGS = {
    **{name: name for name in ("data_path", "sex", "mode", "price")},
    "data": "data_path",
    "deferral": "price",
}
# Of more records than this, the patients are not counted.
_MOST_COUNTED = 100_000
# What every suite understands, and where it is left out because the suite does not support it.
_SHARED = ("seed", "n_synthetic", "test_size", "features")
_KIND = "krisis.info"
_OTHER_KINDS: tuple[registry.Kind, ...] = ("backends", "metrics", "bundles")
# What stands for the backend where its name alone does not run.
_MODELS = {
    "rule": "rule/guideline",
    "compatible": "compatible/NAME --base-url http://localhost:8000/v1",
}
# Backends without a provider that need an extra, and the package by which it is known.
_EXTRAS = {
    "local": ("local", "xllamacpp"),
    "logistic": ("baselines", "sklearn"),
}


def facts_of(name: str, task: str | None = None) -> JsonObject:
    """Return what is known under a name, whichever kind of thing it is."""
    family = name.partition("/")[0].partition("[")[0]
    known = {kind: registry.table(kind) for kind in ("suites", *_OTHER_KINDS)}
    if name == "table":
        return _table_facts()
    if registry.is_suite_file(name) or name in known["suites"]:
        return suite_facts(name, task)
    if registry.is_place(name):
        found = registry.find_or_load("suites", name)
        is_backend = isinstance(found, type) and issubclass(found, BaseBackend)
        is_metric = isinstance(found, type) and issubclass(found, BaseMetric)
        if not (is_backend or is_metric):
            return suite_facts(name, task)
        return backend_facts(name, found) if is_backend else metric_facts(name, found)
    if family in known["backends"]:
        return backend_facts(family, registry.find("backends", family))
    for kind in ("metrics", "bundles"):
        if family in known[kind]:
            return metric_facts(family, registry.find(kind, family))
    raise _unknown(name, [one for table in known.values() for one in table])


def _unknown(name: str, known: list[str]) -> UnknownName:
    missing = f"no suite, backend or metric is called {name!r}"
    for suite in registry.names("suites"):
        if name in registry.find("suites", suite).tasks:
            return UnknownName(f"{missing}; for the task, type: krisis info {suite} --task {name}")
    return UnknownName(f"{missing}{suggestion(name, known)} To see them, type: krisis info")


def listed_names() -> JsonObject:
    """Return everything that can be named, plug-ins included, without loading any data."""
    return {
        "kind": _KIND,
        "of": "names",
        "suites": [_listed_suite(name) for name in registry.names("suites")],
        **{kind: [_listed(kind, name) for name in registry.names(kind)] for kind in _OTHER_KINDS},
    }


def _listed_suite(name: str) -> JsonObject:
    try:
        kind = registry.find("suites", name)
    except (MissingExtra, PlugInFault) as error:
        return {"name": name, "about": str(error), "tasks": [], "first_command": ""}
    return {
        "name": name,
        "about": _summary(kind),
        "tasks": list(kind.tasks),
        "first_command": _first_command(name),
    }


def _listed(kind: registry.Kind, name: str) -> JsonObject:
    try:
        found = registry.find(kind, name)
    except (MissingExtra, PlugInFault) as error:
        return {"name": name, "about": str(error)}
    direction = getattr(found, "direction", "")
    better = f" ({direction} is better)" if direction in ("higher", "lower") else ""
    return {"name": name, "about": f"{_summary(found)}{better}"}


def suite_facts(name: str, task: str | None = None) -> JsonObject:
    """Return everything about a suite; the records of one task are loaded."""
    suite = _made(name, task=task)
    chosen = suite.config.task
    tasks = {one: suite if one == chosen else _made(name, task=one) for one in suite.tasks}
    described, missing = _described(suite)
    return {
        "kind": _KIND,
        "of": "suite",
        "name": name,
        "about": _summary(type(suite)),
        "tasks": [_task_facts(_task(*one)) for one in tasks.items()] or [_task_facts(suite.task)],
        "options": _suite_options(name, suite),
        "loaded": {
            "task": suite.task.name,
            "missing": missing,
            "n_records": described.get("n_records"),
            "n_patients": _n_patients(suite, described.get("n_records")),
            "labels": described.get("labels"),
            "n_to_defer": described.get("n_should_abstain"),
            "deferral_reasons": described.get("abstain_reasons")
            or described.get("deferral_reasons"),
            "content_hash": described.get("content_hash"),
            **_source(described),
        },
        "baselines": list(suite.baselines),
        "rules": list(suite.rules),
        "terms": suite.terms or ("" if described.get("account") else suite.notice),
        "first_command": _first_command(name, suite) + (f" --task {chosen}" if task else ""),
    }


def _described(suite: BaseDataSuite) -> tuple[Mapping[str, JsonValue], str | None]:
    """Return what a suite says of its records, or what must be installed to read them."""
    try:
        return suite.describe(), None
    except MissingExtra as error:
        return {}, str(error)


def _table_facts() -> JsonObject:
    """Return what there is to say of tables before there is a file of one."""
    return {
        "kind": _KIND,
        "of": "suite file",
        "name": "table",
        "about": _about(registry.find("suites", "table")),
        "first_command": _first_command("table"),
    }


def _n_patients(suite: BaseDataSuite, n_records: JsonValue) -> int | None:
    if not isinstance(n_records, int) or n_records > _MOST_COUNTED:
        return None
    return len({record.cluster_id or position for position, record in enumerate(suite.records())})


def _made(name: str, **chosen: JsonValue) -> BaseDataSuite:
    given = {option: value for option, value in chosen.items() if value is not None}
    return suite_of(checked_config({"suite": name, "model": "always-abstain", **given}, name))


def _task(name: str, suite: BaseDataSuite) -> Task:
    """Return the task of a suite; one that is worded from data needs what reads them."""
    try:
        return suite.task
    except MissingExtra as error:
        return Task(name, str(error))


def _task_facts(task: Task) -> JsonObject:
    return {
        "name": task.name,
        "question": task.question,
        "answers": {str(answer): words for answer, words in task.answers.items()},
        "ordered": task.ordered,
        "abstain_when": abstention_text(task),
        "headline": task.metrics[0] if task.metrics else None,
        "metrics": list(task.metrics),
        "groups": list(task.groups),
        "person": task.person,
        "unit": task.unit,
    }


def _suite_options(name: str, suite: BaseDataSuite) -> list[JsonObject]:
    """Return the options of a suite: how each is given, its default and its meaning."""
    parameters = inspect.signature(type(suite)).parameters
    found = []
    for option in _SHARED if "config" in parameters else ():
        default = plain(getattr(suite.config, option))
        if _takes(name, option, default):
            words = (RunConfig.model_fields[option].description or "").rstrip(".")
            found.append(_option(option, flag_of(option), default, words))
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for option, parameter in parameters.items():
        if option in ("config", "path") or parameter.kind not in named:
            continue
        flag = _FLAGS.get(option)
        typed = f"--suite-option {option}=…" if flag is None else flag_of(flag)
        has_default = parameter.default is not inspect.Parameter.empty and flag != "price"
        default = plain(parameter.default) if has_default else None
        found.append(_option(option, typed, default, suite.option_words.get(option, "")))
    return found


def _option(name: str, typed: str, default: JsonValue, meaning: str) -> JsonObject:
    return {"name": name, "typed": typed, "default": default, "meaning": meaning}


def _takes(suite: str, option: str, value: JsonValue) -> bool:
    """Say whether a suite has a use for an option: one that has none refuses it."""
    try:
        _made(suite, **{option: "full" if option == "features" else value})
    except InvalidValue:
        return False
    return True


def _source(described: Mapping[str, JsonValue]) -> JsonObject:
    """Return source, licence and hash of the data, wherever a suite states them."""
    stated = described.get("provenance")
    first: Mapping[str, JsonValue] = {}
    if isinstance(stated, list) and stated and isinstance(stated[0], Mapping):
        first = stated[0]
    return {
        "source": first.get("source") or (stated if isinstance(stated, str) else None),
        "licence": first.get("licence") or described.get("licence"),
        "sha256": first.get("sha256") or described.get("data_sha256"),
        "account": described.get("account"),
    }


def backend_facts(name: str, kind: type) -> JsonObject:
    """Return everything about a backend, without asking or loading a model."""
    facts: JsonObject = {
        "kind": _KIND,
        "of": "backend",
        "name": name,
        "about": _about(kind),
        "asks_a_model": issubclass(kind, ChatBackend),
        "first_command": f"krisis run {_suite_for(name)} --model {_MODELS.get(name, name)}",
    }
    if issubclass(kind, ChatBackend):
        takes_model = "model" in registry.options_of(kind)[0]
        typed = f"{name}/NAME" if takes_model and not registry.is_place(name) else name
        facts["first_command"] = (
            f"krisis run ckd --model {_MODELS.get(name, typed)} --limit 20 --dry-run"
        )
    if name in _EXTRAS:
        extra, package = _EXTRAS[name]
        facts |= {"extra": extra, "is_installed": is_installed(package)}
    if issubclass(kind, ProviderBackend):
        keys = {variable: bool(os.environ.get(variable)) for variable in kind.key_variables}
        facts |= {
            "key_variables": keys,
            "address": kind.default_base_url or None,
            "needs_address": name == "compatible",
            "has_provider_batches": kind.batch_api is not None,
            "extra": kind.extra,
            "is_installed": is_installed(kind.sdk),
        }
    return facts


def _suite_for(backend: str) -> str:
    """Return the first suite that names a backend among its baselines; most take any suite."""
    named = (
        suite
        for suite in registry.names("suites")
        if suite != "table" and backend in registry.find("suites", suite).baselines
    )
    return next(named, "ckd")


def metric_facts(name: str, found: JsonValue) -> JsonObject:
    """Return everything about a metric or a bundle of metrics."""
    return {
        "kind": _KIND,
        "of": "metric" if isinstance(found, type) else "bundle",
        "name": name,
        "label": getattr(found, "name", None) if isinstance(found, type) else None,
        "about": _about(found),
        "direction": getattr(found, "direction", None),
        "first_command": f"krisis show runs/RUN -m {name}",
    }


def _first_command(name: str, suite: BaseDataSuite | None = None) -> str:
    """Return what to type first: a baseline that needs no key."""
    if name == "table":
        return "krisis init patients.csv"
    kind = suite or registry.find_or_load("suites", name)
    own = [one for one in kind.baselines if not one.startswith(("always-", "rule/", "logistic"))]
    return f"krisis run {name} --model {own[-1] if own else 'always-abstain'}"


def _summary(found: JsonValue) -> str:
    return (inspect.getdoc(found) or "").split("\n")[0].replace("``", "`")


def _about(found: JsonValue) -> list[str]:
    """Return the paragraphs of a documentation string that are words, not examples."""
    # A class of one's own that says nothing is not described in the words of its base class.
    text = inspect.cleandoc(found.__doc__ or "")
    paragraphs = text.replace("``", "`").split("\n\n")
    words = [" ".join(part.split()) for part in paragraphs if not part.lstrip().startswith(">" * 3)]
    return [re.sub(r":class:`~?([\w.]+)`", r"\1", one) for one in words if one]
