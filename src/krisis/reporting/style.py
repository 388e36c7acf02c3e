"""How figures of several runs look: sizes for print and screen, and a mark of its own per run."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.pages.figure import CONFIG
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
_WIDTHS = (40.0, 400.0)  # of a figure for print, in millimetres
_SCREEN_WIDTH, _PRINT_WIDTH = 720.0, 170.0
_TONES = (CORRECT, WRONG, ABSTAINED, REFERENCE, INK, MUTED)
_DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [1, 3], [12, 4])
_SHAPES = (
    *("circle", "square", "triangle-up", "diamond", "cross", "triangle-down"),
    *("triangle-right", "triangle-left"),
)
MOST_RUNS = len(_TONES) * 2


@dataclass(frozen=True, slots=True)
class Series:
    """How one run is drawn: colour, dash and mark differ together, as in black and white."""

    tone: Tone
    dash: Sequence[int]
    shape: str


def series(names: Sequence[str]) -> Mapping[str, Series]:
    """Return the look of every run; no two have the same dash and mark."""
    return {
        name: Series(_TONES[i % len(_TONES)], _DASHES[i % len(_DASHES)], _SHAPES[i % len(_SHAPES)])
        for i, name in enumerate(names)
    }


@dataclass(frozen=True, slots=True)
class Look:
    """The sizes of a figure; ``width`` is that of the whole drawing, in points or pixels."""

    style: str
    width: float
    font: float
    stroke: float
    ground: str

    @property
    def config(self) -> JsonObject:
        """Return the look of charts in these sizes."""
        words = {"labelColor": str(INK), "titleColor": str(INK), "labelFontSize": self.font}
        return {
            **CONFIG,
            "background": self.ground,
            # A reader without Helvetica or Arial sees wider letters, which must not be cut.
            "padding": {
                **dict.fromkeys(("top", "bottom"), self.font / 3),
                **dict.fromkeys(("left", "right"), self.font * 1.5),
            },
            "axis": {
                **CONFIG["axis"],
                "labelFontSize": self.font,
                "titleFontSize": self.font,
                "titlePadding": self.font / 2,
                "gridColor": str(GRID),
                "gridWidth": self.stroke / 3,
                "tickSize": self.font / 3,
                "labelPadding": self.font / 4,
            },
            "text": {"color": str(INK), "fontSize": self.font},
            "header": words,
            "title": {
                **CONFIG["title"],
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
        """Tell whether names fit beside the plots; else a key below names the marks."""
        return self.width >= 50 * self.font

    def broken(self, text: str, width: float) -> list[str]:
        """Break text so that it fits a width, also within names, which have few spaces."""
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


def _cut(word: str, n_letters: int) -> list[str]:
    return textwrap.wrap(word, n_letters) or [""]


def look_of(style: str, width: float | None = None) -> Look:
    """Return the sizes of a style; ``width`` is in millimetres and is for print."""
    if style not in STYLES:
        raise UnknownName.among("style", style, STYLES)
    if style == "screen":
        if width is not None:
            raise InvalidValue(
                f"--width {width:g} is for print; add --style print, or leave it out"
            )
        return Look("screen", _SCREEN_WIDTH, 12, 2, str(SURFACE))
    chosen = _PRINT_WIDTH if width is None else width
    if not _WIDTHS[0] <= chosen <= _WIDTHS[1]:
        least, most = _WIDTHS
        raise InvalidValue(f"--width must be {least:g} to {most:g} mm, not {chosen:g}")
    return Look("print", chosen * POINTS_PER_MM, 7, 1, "#ffffff")
