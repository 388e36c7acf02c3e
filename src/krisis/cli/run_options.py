"""The options of `krisis run`, made from its configuration, so that none is missing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

import typer

from krisis.errors import InvalidValue
from krisis.execution.config import RunConfig, is_flag
from krisis.json_values import JsonObject, JsonValue
from krisis.pages.numbers import given
from krisis.yaml_values import parse_yaml

# Repeated options are named in the singular.
_SINGULAR = {
    "suite_options": "suite_option",
    "model_options": "model_option",
    "metrics": "metric",
}
# The setting `out` is a folder in a configuration; typed, it is the option of every command.
_TYPED = {**_SINGULAR, "out": "output"}
# The two options that are typed most.
_SHORT = {"max_concurrency": ("-j",), "out": ("-o",)}
# Group of the help → option → what is written for its value, in the order of the help.
GROUPS: dict[str, dict[str, str]] = {
    "What to run": {
        "model": "MODEL",
        "task": "TASK",
        "mode": "MODE",
        "features": "NAME",
        "limit": "NUMBER",
        "seed": "NUMBER",
        "n_synthetic": "NUMBER",
        "data_path": "PATH",
        "test_size": "SHARE",
        "sex": "SEX",
        "costs": "FILE",
        "price": "SHARE",
        "preset": "NAME",
        "suite_options": "NAME=VALUE",
        "config": "FILE",
    },
    "How to ask": {
        "prompt": "FILE",
        "elicit": "WAY",
        "instructions": "KIND",
        "batch_size": "NUMBER",
        "repeats": "NUMBER",
        "perturb": "FORM",
        "temperature": "NUMBER",
        "max_output_tokens": "NUMBER",
        "base_url": "URL",
        "model_options": "NAME=VALUE",
    },
    "Limits and money": {
        "max_cost": "DOLLARS",
        "prices": "FILE",
        "max_tokens": "NUMBER",
        "max_failures": "NUMBER",
        "stop_when": "RULE",
        "batch": "",
        "batch_then_live": "",
        "detach": "",
        "poll_seconds": "SECONDS",
    },
    "Speed": {
        "max_concurrency": "NUMBER",
        "adaptive": "",
        "requests_per_minute": "NUMBER",
        "tokens_per_minute": "NUMBER",
        "timeout_seconds": "SECONDS",
        "max_retries": "NUMBER",
        "cluster": "PLACE",
        "cache": "",
        "cache_path": "FILE",
    },
    "What comes out": {
        "out": "FOLDER",
        "metrics": "METRIC",
        "baselines": "",
        "store_features": "",
        "display": "HOW",
    },
    "Before and after": {
        "dry_run": "",
        "print_config": "",
        "print_prompt": "",
        "resume": "",
    },
}
_PLACES = {
    name: (group, value) for group, options in GROUPS.items() for name, value in options.items()
}
_ORDER = list(_PLACES)


def flag_of(name: str) -> str:
    """Return how a setting is given on the command line."""
    return "--" + _TYPED.get(name, name).replace("_", "-")


def _parameter(name: str) -> inspect.Parameter:
    field = RunConfig.model_fields[name]
    flag = flag_of(name)
    annotation: object
    default: JsonValue = None
    if name in _SINGULAR:
        annotation, default = list[str], []
    elif is_flag(name):
        annotation, flag = bool | None, f"{flag}/--no-{flag[2:]}"
    else:
        members = getattr(field.annotation, "__args__", (field.annotation,))
        annotation = next((kind for kind in (str, int, float) if kind in members), str) | None
    text = field.description or ""
    if field.default not in (None, {}, []) and not field.is_required():
        in_words = {True: "on", False: "off"} if is_flag(name) else {}
        text += f" Default: {in_words.get(field.default, _plain(field.default))}."
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(default, flag, *_SHORT.get(name, ()), help=text, show_default=False),
        annotation=annotation,
    )


def _plain(value: JsonValue) -> JsonValue:
    return given(value) if isinstance(value, float) else value


def with_options(function: Callable[..., object], names: Iterable[str]) -> Callable[..., object]:
    """Give a function that takes ``**options`` one option per field, in a way typer can read.

    None of the options has a default of its own. They are shown in the groups of `GROUPS`.
    """
    own = [
        parameter
        for parameter in inspect.signature(function, eval_str=True).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    options = [one for one in own if one.name in _PLACES]
    arguments = [one for one in own if one not in options]
    grouped = sorted([*options, *map(_parameter, names)], key=lambda one: _ORDER.index(one.name))
    for one in grouped:
        group, value = _PLACES[one.name]
        one.default.rich_help_panel, one.default.metavar = group, value or None
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in grouped]
    function.__signature__ = inspect.Signature([*arguments, *parameters])  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in (*arguments, *parameters)}
    return function


def given_options(options: JsonObject) -> JsonObject:
    """Return what was really given, with NAME=VALUE pairs read as YAML values."""
    given = {name: value for name, value in options.items() if value not in (None, [])}
    for name in ("suite_options", "model_options"):
        if name in given:
            given[name] = _pairs(given[name], f"--{_SINGULAR[name].replace('_', '-')}")
    return given


def _pairs(texts: Iterable[str], flag: str) -> JsonObject:
    found: JsonObject = {}
    for text in texts:
        name, value = _pair(text, flag)
        if name in found:
            raise InvalidValue(f"{flag} {name} is given twice; give it once")
        found[name] = value
    return found


def _pair(text: str, flag: str) -> tuple[str, JsonValue]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidValue(f"{flag} takes NAME=VALUE, not {text!r}")
    return name.strip().replace("-", "_"), parse_yaml(value, f"{flag} {text!r}")
