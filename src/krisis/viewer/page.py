"""What every page hands to the server: its facts for the JSON twin, and more for the template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.pages.document import Document
from krisis.pages.html import FILES
from krisis.pages.shell import style_sheet


@dataclass(frozen=True, slots=True)
class Page:
    """One page: ``content`` is the JSON twin, ``context`` what only the template needs.

    ``status`` is another than 200 where the page says what is wrong and offers a way on. The charts
    of its ``document`` can be downloaded.
    """

    template: str
    title: str
    content: JsonObject
    context: JsonObject = field(default_factory=dict)
    status: int = 200
    document: Document | None = None


def chart_file(page: Page, file: str) -> tuple[str, bytes]:
    """Return a chart of a page as a file of its own: its media type and its bytes."""
    if page.document is None:
        raise InvalidValue("this page has no charts yet; try again in a moment")
    key, _, suffix = file.rpartition(".")
    known = {one.key: one for one in page.document.charts()}
    if key not in known or suffix not in FILES:
        files = [f"{one}.{ending}" for one in known for ending in FILES]
        raise UnknownName.among("chart", file, files)
    figure = known[key].draw()
    if suffix == "svg":
        return "image/svg+xml", figure.svg.encode()
    return "image/png", figure.png()


@cache
def asset(name: str) -> str:
    """Return a script or a style sheet of the pages; every style begins with the shared one."""
    text = (files("krisis.viewer") / "static" / name).read_text(encoding="utf-8")
    return style_sheet() + text if name.endswith(".css") else text


def text_of(query: Mapping[str, str], name: str) -> str:
    """Return a text of the query, without surrounding space."""
    return query.get(name, "").strip()


def choice_of(query: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """Return one of the choices, or nothing where nothing was chosen."""
    value = text_of(query, name)
    if value and value not in choices:
        raise UnknownName.among(name, value, choices)
    return value


def number_of(query: Mapping[str, str], name: str) -> float | None:
    """Return a number between 0 and 1, or None where none was given."""
    value = text_of(query, name)
    if not value:
        return None
    try:
        number = float(value)
    except ValueError:
        raise InvalidValue(f"{name} must be a number, not {value!r}") from None
    if not 0 <= number <= 1:
        raise InvalidValue(f"{name} must be between 0 and 1, not {value!r}")
    return number


def whole_of(
    query: Mapping[str, str], name: str, *, default: int, most: int, least: int = 1
) -> int:
    """Return a whole number between limits."""
    value = text_of(query, name)
    if not value:
        return default
    readable = value.isascii() and value.isdigit() and len(value) <= 12
    if not readable or not least <= int(value) <= most:
        raise InvalidValue(
            f"{name} must be a whole number from {least} to {most}, not {value[:40]!r}"
        )
    return int(value)
