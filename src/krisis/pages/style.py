"""How charts look: sizes for page, screen and print, and a mark of its own for every run."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.pages.numbers import given
from krisis.pages.palette import (
    ABSTAINED,
    CORRECT,
    GRID,
    INK,
    MUTED,
    REFERENCE,
    SURFACE,
    WRONG,
    Tone,
)

STYLES = ("screen", "print")
POINTS_PER_MM = 72 / 25.4
# Metric-compatible with what every system has, so that measured labels fit where they are shown.
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
_WIDTHS = (40.0, 400.0)  # of a figure for print, in millimetres
_SCREEN_WIDTH, _PRINT_WIDTH = 720.0, 170.0
_PAGE_WIDTH, _WHOLE_PAGE_WIDTH = 480.0, 1000.0
_TONES = (CORRECT, WRONG, ABSTAINED, REFERENCE, INK, MUTED)
_DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [1, 3], [12, 4])
_SHAPES = (
    *("circle", "square", "triangle-up", "diamond", "cross", "triangle-down"),
    *("triangle-right", "triangle-left"),
)
MOST_RUNS = len(_TONES) * 2

_MOST_LETTERS = 400


@dataclass(frozen=True, slots=True)
class Series:
    """How one run is drawn: colour, dash and mark differ together, as in black and white."""

    tone: Tone
    dash: Sequence[int] = (1, 0)
    shape: str = "circle"


def series(names: Iterable[str]) -> Mapping[str, Series]:
    """Return the series of every run; no two have the same dash and mark."""
    return {
        name: Series(_TONES[i % len(_TONES)], _DASHES[i % len(_DASHES)], _SHAPES[i % len(_SHAPES)])
        for i, name in enumerate(names)
    }


@dataclass(frozen=True, slots=True)
class Mark:
    """One line of the key of a chart: how a mark looks, and what it means."""

    kind: Literal["dot", "box", "line", "series"]
    series: Series
    words: str


@dataclass(frozen=True, slots=True)
class Style:
    """The sizes of a figure; ``width`` is that of the whole drawing, in points or pixels."""

    name: str = "page"
    width: float = _PAGE_WIDTH
    font: float = 12
    stroke: float = 2
    ground: str = str(SURFACE)

    @property
    def whole_width(self) -> Style:
        """The style of a chart that takes the whole width of a page."""
        return replace(self, width=_WHOLE_PAGE_WIDTH) if self.name == "page" else self

    @property
    def config(self) -> JsonObject:
        """The settings of Vega-Lite in these sizes."""
        words = {"labelColor": str(INK), "titleColor": str(INK), "labelFontSize": self.font}
        return {
            "font": FONT,
            "background": self.ground,
            # A reader without Helvetica or Arial sees wider letters, which must not be cut.
            "padding": {
                **dict.fromkeys(("top", "bottom"), self.font / 3),
                **dict.fromkeys(("left", "right"), self.font * 1.5),
            },
            "axis": {
                "labelColor": str(MUTED),
                "titleColor": str(INK),
                "tickColor": str(GRID),
                "domainColor": str(GRID),
                "gridColor": str(GRID),
                "gridWidth": self.stroke / 3,
                "labelFontSize": self.font,
                "labelPadding": self.font / 4,
                "tickSize": self.font / 3,
                "titleFontSize": self.font,
                "titleFontWeight": "normal",
                "titlePadding": self.font / 2,
            },
            "view": {"stroke": None},
            "text": {"color": str(INK), "fontSize": self.font},
            "legend": words,
            "header": words,
            "title": {
                "color": str(INK),
                "anchor": "start",
                # One weight alone: a PDF holds two in an order that differs from time to time.
                "fontWeight": "normal",
                "fontSize": self.font * 1.3,
                "subtitleFontSize": self.font,
                "subtitlePadding": self.font / 3,
                "offset": self.font,
            },
        }

    @property
    def broad(self) -> bool:
        """Tell whether names fit next to the plots; else a key below names the marks."""
        return self.width >= 50 * self.font

    def broken(self, text: str, width: float) -> list[str]:
        """Break text so that it fits a width, also within names, which have few spaces.

        No chart has room for more than a few hundred letters, and every line is a mark of its own.
        """
        if len(text) > _MOST_LETTERS:
            text = f"{text[: _MOST_LETTERS - 1]}…"
        n_letters = max(8, int(width / (0.5 * self.font)))
        pieces = re.sub(r"(?<=[/_:-])", "\u200b", text)
        lines: list[str] = []
        for word in pieces.split(" "):
            parts = [part for piece in word.split("\u200b") for part in _cut(piece, n_letters)]
            for place, part in enumerate(parts):
                glue = " " if place == 0 else ""
                if lines and len(lines[-1]) + len(glue) + len(part) <= n_letters:
                    lines[-1] += glue + part
                else:
                    lines.append(part)
        return lines or [""]

    def point(self, one: Series) -> JsonObject:
        """Return the mark of a run, for `mark_point`."""
        return {
            "shape": one.shape,
            "filled": True,
            "color": str(one.tone),
            "opacity": 1,
            "size": self.font**2 * 0.7,
            "stroke": self.ground,
            "strokeWidth": self.stroke / 3,
        }

    def key(self, marks: Sequence[Mark]) -> JsonObject:
        """Return a chart with a line of mark and words for every entry of a key."""
        height, layers, below = self.font * 1.5, list[JsonObject](), 0.0
        for one in marks:
            middle = below + height / 2
            layers += _key_marks(one, self, middle)
            for number, words in enumerate(self.broken(one.words, self.width * 0.8)):
                layers.append(
                    {
                        "data": {"values": [{"words": words}]},
                        "mark": {"type": "text", "align": "left", "baseline": "middle"},
                        "encoding": {
                            "x": {"value": self.font * 3.7},
                            "y": {"value": middle + number * height},
                            "text": {"field": "words"},
                        },
                    }
                )
                below += height
        # The words may be wider than the plots: the drawing is as wide as it must be.
        return {"layer": layers, "width": 1, "height": max(below, 1)}


def _key_marks(one: Mark, style: Style, middle: float) -> list[JsonObject]:
    """Return what a line of the key shows: a stroke, a box, a point or a stroke with a point."""
    tone, y = str(one.series.tone), {"value": middle}
    ends = {"x": {"value": 0}, "x2": {"value": style.font * 3}, "y": y}
    middle_point = {"x": {"value": style.font * 1.5}, "y": y}
    stroke: JsonObject = {"type": "rule", "color": tone, "strokeWidth": style.stroke}
    stroke["strokeDash"] = list(one.series.dash)
    box = {"type": "point", "shape": "square", "size": style.font**2, "opacity": 0.3}
    drawn: dict[str, list[tuple[JsonObject, JsonObject]]] = {
        "dot": [(style.point(one.series) | {"type": "point"}, middle_point)],
        "box": [(box | {"filled": True, "color": tone}, middle_point)],
        "line": [(stroke, ends)],
        "series": [(stroke, ends), (style.point(one.series) | {"type": "point"}, middle_point)],
    }
    return [
        {"data": {"values": [{}]}, "mark": mark, "encoding": places}
        for mark, places in drawn[one.kind]
    ]


def _cut(word: str, n_letters: int) -> list[str]:
    return textwrap.wrap(word, n_letters) or [""]


def style_of(name: str, width: float | None = None) -> Style:
    """Return a style by its name; ``width`` is in millimetres and is for print."""
    if name not in STYLES:
        raise UnknownName.among("style", name, STYLES)
    if name == "screen":
        if width is not None:
            raise InvalidValue(
                f"--width {given(width)} is for print; add --style print, or leave it out"
            )
        return Style("screen", _SCREEN_WIDTH)
    chosen = _PRINT_WIDTH if width is None else width
    if not _WIDTHS[0] <= chosen <= _WIDTHS[1]:
        least, most = _WIDTHS
        raise InvalidValue(
            f"--width must be {given(least)} to {given(most)} mm, not {given(chosen)}"
        )
    return Style("print", chosen * POINTS_PER_MM, font=7, stroke=1, ground="#ffffff")
