"""What a page of the viewer is, and what a tab that a verb adds to the pages of a run is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlencode

from krisis.decisions.hand_over import HandOver
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics.table import Table
from krisis.pages.cases import ChartFile, OneCase, RowFilter
from krisis.pages.document import Document
from krisis.pages.html import FILES
from krisis.results.base import BenchmarkResult


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


class OpenRun(Protocol):
    """A run that the viewer has open, as a tab is given it."""

    name: str
    path: Path
    damage: str
    n_rows: int

    @property
    def model(self) -> str:
        """Name the model."""

    @property
    def short_model(self) -> str:
        """Name the model as headings do."""

    @property
    def result(self) -> BenchmarkResult:
        """Return the run with all its rows, scored."""

    @property
    def table(self) -> Table:
        """Return the rows as columns."""

    @property
    def places(self) -> Sequence[int]:
        """Return the position of every row of the result."""

    def hand_over(self) -> HandOver:
        """Return the cases that are left for people."""


# A function of the kind `tabs` of the registry; its name is the last part of the address.
Tab = Callable[[OpenRun, Mapping[str, str]], Page]


def case_address(run: OpenRun, *, page: str = "", query: str = "") -> Callable[[object], str]:
    """Return what leads from the cases behind a number to their list, or to one of them.

    The charts of a ``page`` of the run are files below it, by its own ``query``.
    """
    base = f"/runs/{quote(run.name, safe='')}"

    def address(behind: object) -> str:
        if isinstance(behind, ChartFile):
            return behind.below(f"{base}{page}", query)
        if isinstance(behind, OneCase):
            return f"{base}/cases/{run.places[behind.row]}?{query_of(behind.queue)}"
        assert isinstance(behind, RowFilter)
        return f"{base}/cases?{query_of(behind)}"

    return address


def query_of(wanted: RowFilter) -> str:
    """Return a filter as part of an address, without what it does not ask for.

    >>> query_of(RowFilter(correct="no", confidence_min=0.8))
    'correct=no&confidence_min=0.8'
    """
    asked = {f.name: getattr(wanted, f.name) for f in fields(wanted)}
    return urlencode({n: v for n, v in asked.items() if v not in ("", None) and v != "position"})


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
