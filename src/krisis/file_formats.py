"""The registered file formats: which of them can load, read or write, and whose a file is."""

from __future__ import annotations

from pathlib import Path

from krisis import registry
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonValue

# What can be asked of a format. To load needs nothing but the file: it holds a finished run.
WHAT = {"load": "loaded", "read": "imported", "write": "exported to"}


def formats_that(can: str) -> list[str]:
    """Return the names of the formats that can load, read or write.

    >>> formats_that("read")
    ['csv', 'inspect', 'jsonl', 'lm-eval', 'parquet']
    """
    return [name for name in registry.names("formats") if hasattr(_class(name), can)]


def format_named(name: str, can: str, others: tuple[str, ...] = ()) -> JsonValue:
    """Return the format that the user named, or their own by its place; ``others`` go elsewhere."""
    if not registry.is_place(name) and name not in (known := formats_that(can)):
        raise UnknownName.among("format", name, [*known, *others])
    found = registry.find_or_load("formats", name)
    if not hasattr(found, can):
        raise InvalidValue(f"{name} has no {can}(), so nothing can be {WHAT[can]} it; add one")
    return found()


def format_of(path: Path, content: JsonMapping | None = None, *, can: str) -> str:
    """Return the name of the format that a file has, of those that can; "" of no known one.

    ``content`` is what the file holds, where that is a JSON object.
    """
    for name in formats_that(can):
        found = _class(name)
        if hasattr(found, "recognises") and found().recognises(path, content or {}):
            return name
    return ""


def _class(name: str) -> JsonValue:
    return registry.find("formats", name)
