"""Figures as files: what may be written, and how large it is in print."""

from __future__ import annotations

import re
from pathlib import Path

from krisis.errors import InvalidFile, InvalidValue
from krisis.pages.charts.spec import SIZE
from krisis.pages.figure import Figure, check_charts
from krisis.pages.style import POINTS_PER_MM

SUFFIXES = (".pdf", ".svg", ".png")


_DOTS_PER_INCH = 300


def check_figure_file(path: Path) -> None:
    """Refuse a file that could not be drawn, before any work is done."""
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidValue(f"a figure is a .pdf, .svg or .png file, not {path.name!r}")
    if path.exists():
        raise InvalidFile(f"{path} exists already; choose another name or remove it first")
    check_charts()


def write_figure(figure: Figure, path: Path, style: str = "screen") -> None:
    """Write a figure to a new file: for print in millimetres and at 300 dots per inch."""
    printed, suffix = style == "print", path.suffix.lower()
    if suffix == ".pdf":
        content = figure.pdf()
    elif suffix == ".png":
        content = figure.png(scale=_DOTS_PER_INCH / 72 if printed else 2.0)
    else:
        svg = SIZE.sub(_in_millimetres, figure.svg, count=1) if printed else figure.svg
        content = svg.encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error.strerror}") from None


def _in_millimetres(match: re.Match[str]) -> str:
    width, height = (float(match[place]) / POINTS_PER_MM for place in (2, 3))
    return f'{match[1]}width="{width:.2f}mm" height="{height:.2f}mm"'
