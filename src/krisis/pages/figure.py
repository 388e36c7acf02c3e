"""A chart with its words and its numbers, drawn to SVG or PNG without a browser or a network."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from krisis.display import escaped, spelled_out
from krisis.errors import InvalidFile, MissingExtra
from krisis.json_values import JsonObject, JsonValue
from krisis.pages import palette
from krisis.pages.cases import MarkCases
from krisis.pages.palette import MUTED
from krisis.pages.renderer import RENDERER, is_installed
from krisis.pages.style import Mark, Style

# What altair gives and takes: it has no types of its own.
Chart: TypeAlias = JsonValue

_BACKGROUND = re.compile(r'<rect width="[\d.]+" height="[\d.]+" fill="[^"]+"/>')
_MARK_WORDS = re.compile(r' (?:role="graphics-[a-z]+"|aria-(?:roledescription|label)="[^"<>]*")')
_OPENING = re.compile(r'<svg xmlns="[^"]+" xmlns:xlink="[^"]+" version="1.1" class="marks"')
_LINK = re.compile(r'<a xlink:href="[^"]*?(?:mark-(\d+))?">(<[^<>]*/>)</a>')
_CLIP = re.compile(r"(?<=[\"#])clip\d+(?=[\")])")
_LINKED_MARKS = ("circle", "point", "rect")

Table = Sequence[JsonObject]
Address = Callable[[JsonObject], str]


# Neighbouring entries of a dictionary of a PDF that point to objects: `/gs0 7 0 R`.
_ENTRIES = re.compile(rb"(?:^ +/[A-Za-z]+\d+ \d+ 0 R\n){2,}", re.MULTILINE)


def in_one_order(page: bytes) -> bytes:
    """Return a PDF whose resources are in one order: the converter lists them by chance.

    No object moves or changes its length, so every place that the file names stays right.

    >>> in_one_order(b"<<\\n  /gs1 9 0 R\\n  /gs0 7 0 R\\n>>")
    b'<<\\n  /gs0 7 0 R\\n  /gs1 9 0 R\\n>>'
    """
    return _ENTRIES.sub(lambda found: b"".join(sorted(found[0].splitlines(keepends=True))), page)


@dataclass(frozen=True)
class Figure:
    """A Vega-Lite chart, a sentence on how to read it, and the table that it was drawn from.

    ``title`` states the finding. ``key`` names marks that the chart itself does not: inside every
    drawing where it ``needs_key``, else only in a file of its own, as a page says it in words.
    ``about`` are lines under the title of such a file: whose chart it is. ``cases`` finds those
    behind a number of a run's own chart.
    """

    name: str
    title: str
    reading: str
    chart: Chart
    table: Table = field(default_factory=list)
    key: Sequence[Mark] = ()
    about: Sequence[str] = ()
    style: Style = field(default_factory=Style)
    needs_key: bool = False
    cases: MarkCases | None = None

    @cached_property
    def svg(self) -> str:
        """The drawing on a light background with title and key, for papers and slides."""
        drawn = RENDERER.draw("svg", self._standing_alone()).decode()
        return self._with_own_names(drawn)

    @cached_property
    def inline_svg(self) -> str:
        """The drawing for a page: transparent, and in the page's own colours."""
        return self._drawn_inline(self._specification(), "img")

    def linked_svg(self, address: Address) -> str:
        """Return the inline drawing with links from the marks whose data have an address.

        They are for the pointer: the table beside the chart has the same links for the keyboard.
        """
        specification, found = self._specification(), list[str]()

        def numbered(row: JsonObject) -> str | None:
            found.append(address(row))
            return f"mark-{len(found) - 1}" if found[-1] else None

        def link(match: re.Match[str]) -> str:
            number, mark = match.groups()
            if number is None:
                return mark
            to = escaped(found[int(number)])
            return f'<a href="{to}" tabindex="-1" aria-hidden="true">{mark}</a>'

        _link_marks(specification, specification.get("data", {}), specification, numbered)
        return _LINK.sub(link, self._drawn_inline(specification, "graphics-document"))

    def _with_own_names(self, svg: str) -> str:
        """Name clip paths after the figure: the converter counts them through all its drawings."""
        order = {name: at for at, name in enumerate(dict.fromkeys(_CLIP.findall(svg)))}
        own = re.sub(r"\W", "-", self.name)
        return _CLIP.sub(lambda found: f"{own}-clip{order[found[0]]}", svg)

    def _drawn_inline(self, specification: JsonObject, role: str) -> str:
        drawn = RENDERER.draw("svg", specification).decode()
        body = _BACKGROUND.sub("", self._with_own_names(drawn), count=1)
        # Assistive technology reads the table beside the chart rather than mark after mark.
        body = _MARK_WORDS.sub("", body)
        opening = f'<svg role="{role}" aria-label="{escaped(self.title)}" class="chart"'
        return palette.with_variables(_OPENING.sub(lambda _: opening, body, count=1))

    def png(self, *, scale: float = 2.0) -> bytes:
        """Return the drawing as pixels."""
        return RENDERER.draw("png", self._standing_alone(), scale=scale)

    def pdf(self) -> bytes:
        """Return the drawing as a page of its own size."""
        return in_one_order(RENDERER.draw("pdf", self._standing_alone()))

    def _repr_svg_(self) -> str:
        """Return what a notebook shows."""
        return self.svg

    def csv(self) -> str:
        """Return the numbers of the chart as comma-separated values."""
        if not self.table:
            return ""
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(self.table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.table)
        return text.getvalue()

    def save(self, folder: Path) -> list[Path]:
        """Write the drawing as SVG and PNG and its numbers as CSV."""
        contents: dict[str, bytes] = {
            "svg": self.svg.encode(),
            "png": self.png(),
            "csv": self.csv().encode(),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            paths = []
            for suffix, content in contents.items():
                path = folder / f"{self.name}.{suffix}"
                path.write_bytes(content)
                paths.append(path)
        except OSError as error:
            raise InvalidFile(f"{folder} cannot be written: {error.strerror}") from None
        return paths

    def _specification(self) -> JsonObject:
        # Checking against the schema belongs in tests; here it would cost more than drawing.
        specification: JsonObject = self.chart.to_dict(validate=False)
        if self.needs_key:
            data = {"datasets": specification.pop("datasets", {})}
            parts = [specification, self.style.key(self.key)]
            specification = {**data, "vconcat": parts, "spacing": self.style.font * 1.2}
        return {**specification, "config": self.style.config}

    def _standing_alone(self) -> JsonObject:
        whole = self._specification()
        names = [name for name in ("$schema", "config", "datasets") if name in whole]
        top: JsonObject = {name: whole.pop(name) for name in names}
        whole.pop("title", None)
        # The letters of a title are larger than those of the text by a third.
        title = self.style.broken(self.title, self.style.width / 1.3)
        own_key = [self.style.key(self.key)] if self.key and not self.needs_key else []
        return {
            **top,
            "title": {"text": title, "subtitle": list(self.about), "subtitleColor": str(MUTED)},
            "spacing": 14,
            "vconcat": [whole, *own_key],
        }


def _link_marks(
    part: JsonObject,
    data: JsonObject,
    whole: JsonObject,
    numbered: Callable[[JsonObject], str | None],
) -> None:
    """Give the points and bars of a chart and of its parts addresses, and lines unseen points."""
    data = part.get("data", data)
    for name in ("layer", "vconcat", "hconcat"):
        for one in list(part.get(name, ())):
            _link_marks(one, data, whole, numbered)
            if name == "layer" and one.get("mark", {}).get("type") == "line":
                points = {"mark": {"type": "point", "opacity": 0, "size": 90, "filled": True}}
                places = {axis: one["encoding"][axis] for axis in ("x", "y")}
                points |= {"encoding": places, "data": one.get("data", data)}
                _link_marks(points, data, whole, numbered)
                if "href" in points["encoding"]:
                    part[name].append(points)
    if part.get("mark", {}).get("type") in _LINKED_MARKS and "name" in data:
        rows = json.loads(whole["datasets"][data["name"]])
        linked = [{**row, "href": numbered(row)} for row in rows]
        if any(row["href"] for row in linked):
            part["data"] = {"values": linked}
            part["encoding"]["href"] = {"field": "href", "type": "nominal"}


def check_charts() -> None:
    """Say how to install what draws charts, before any work is done."""
    altair()
    if not is_installed():
        raise MissingExtra.named("charts", "drawing charts")


def altair() -> Chart:
    """Return the charting library, or say how to install it."""
    try:
        import altair as library
    except ImportError:
        raise MissingExtra.named("charts", "drawing charts") from None
    return library


class _Altair:
    """The charting library, imported when the first chart is drawn."""

    def __getattr__(self, name: str) -> Chart:
        return getattr(altair(), name)


alt: Chart = _Altair()


def percent_axis(**settings: JsonValue) -> Chart:
    """Return an axis that is labelled in per cent."""
    label = "format(100 * datum.value, '.0f') + '\u00a0%'"
    return alt.Axis(labelExpr=label, tickCount=5, **settings)


def unit_scale() -> Chart:
    """Return a scale from 0 to 1."""
    return alt.Scale(domain=[0, 1])


def data(rows: Table) -> Chart:
    """Return rows as inline chart data.

    As text, because a chart copies its data every time it is combined with another; and so the
    renderer, which spells out what is hidden in a chart, cannot see into them.
    """
    shown = [
        {name: spelled_out(v) if isinstance(v, str) else v for name, v in row.items()}
        for row in rows
    ]
    return alt.InlineData(values=json.dumps(shown), format=alt.DataFormat(type="json"))
