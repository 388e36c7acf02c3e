"""The options of `krisis run`, made from its configuration, so that none is missing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

import typer
import yaml

from krisis.errors import InvalidValue
from krisis.execution.config import RunConfig, is_flag
from krisis.json_values import JsonObject, JsonValue

# Repeated options are named in the singular.
_SINGULAR = {
    "suite_options": "suite_option",
    "model_options": "model_option",
    "metrics": "metric",
    "perturb": "perturb",
}
# The two options that are typed most.
_SHORT = {"max_concurrency": ("-j",), "out": ("-o",)}


def _parameter(name: str) -> inspect.Parameter:
    field = RunConfig.model_fields[name]
    flag = "--" + _SINGULAR.get(name, name).replace("_", "-")
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
        text += f" Default: {in_words.get(field.default, field.default)}."
    if name in ("suite_options", "model_options"):
        text += " As NAME=VALUE; repeatable."
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(default, flag, *_SHORT.get(name, ()), help=text, show_default=False),
        annotation=annotation,
    )


def with_options(function: Callable[..., object], names: Iterable[str]) -> Callable[..., object]:
    """Give a function that takes ``**options`` one option per field, in a way typer can read.

    None of the options has a default of its own.
    """
    own = [
        parameter
        for parameter in inspect.signature(function, eval_str=True).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    parameters = [*own, *map(_parameter, names)]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    return function


def given_options(options: JsonObject) -> JsonObject:
    """Return what was really given, with NAME=VALUE pairs read as YAML values."""
    given = {name: value for name, value in options.items() if value not in (None, [])}
    for name in ("suite_options", "model_options"):
        if name in given:
            given[name] = dict(_pair(text, _SINGULAR[name]) for text in given[name])
    return given


def _pair(text: str, option: str) -> tuple[str, JsonValue]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        flag = option.replace("_", "-")
        raise InvalidValue(f"--{flag} takes NAME=VALUE, not {text!r}")
    return name.strip().replace("-", "_"), yaml.safe_load(value)
