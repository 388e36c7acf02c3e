"""The charts of `krisis selective --plot`."""

from __future__ import annotations

from pathlib import Path

from krisis.confidence.evaluation import Evaluation
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import write_text
from krisis.reporting.figure import Figure, altair, themed
from krisis.reporting.risk_coverage import named_curve, risk_coverage_figure

_MOST_CURVES = 3
_SUFFIXES = (".svg", ".png", ".html")


def draw_evaluation(evaluation: Evaluation, path: Path) -> None:
    """Draw the first variants (or both runs of the first) to an SVG, PNG or HTML file."""
    runs = [
        (variant if len(both) == 1 else f"{variant}, input_{position}", run)
        for variant, both in evaluation.curves.items()
        for position, run in enumerate(both)
        if run.losses.size
    ]
    curves = [named_curve(name, run.statistic().items) for name, run in runs[:_MOST_CURVES]]
    if not curves:
        raise InvalidValue("nothing was predicted, so there is no curve to draw")
    _write(risk_coverage_figure(curves), path)


def check_plot(path: Path | None) -> None:
    """Refuse a file that could not be drawn, before any work is done."""
    if path is None:
        return
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidValue(f"--plot draws .svg, .png or .html files, not {path.name!r}")
    if path.exists():
        raise InvalidFile(f"{path} exists already; choose another name")
    altair()


def _write(figure: Figure, path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix == ".svg":
        write_text(path, figure.svg)
    elif suffix == ".html":
        write_text(path, themed(figure.chart).to_html(inline=True))
    else:
        picture = figure.png()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)
        except OSError as error:
            raise InvalidFile(f"{path} cannot be written: {error.strerror}") from None
