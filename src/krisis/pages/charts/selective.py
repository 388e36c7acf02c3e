"""The curves of `krisis selective` in a file of their own."""

from __future__ import annotations

from pathlib import Path

from krisis.confidence.evaluation import Evaluation
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import write_text
from krisis.pages.charts.curves import Curve, risk_coverage
from krisis.pages.figure import altair
from krisis.pages.selective import run_names
from krisis.pages.style import style_of

_MOST_CURVES = 3
_SUFFIXES = (".svg", ".png", ".html")


def check_plot(path: Path | None) -> None:
    """Refuse a file that could not be drawn, before any work is done."""
    if path is None:
        return
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidValue(f"--plot draws .svg, .png or .html files, not {path.name!r}")
    if path.exists():
        raise InvalidFile(f"{path} exists already; choose another name")
    altair()


def _about(evaluation: Evaluation) -> list[str]:
    """Say whose curves are drawn, and of how many items."""
    found = []
    for run in evaluation.runs:
        source = run.source
        whose = filter(None, (source.model, source.suite, source.task, source.mode))
        counts = f"n = {run.n_items:,}, {int(run.predicted.sum()):,} predicted"
        found.append(" · ".join([*whose, counts]))
    return found


def draw_evaluation(evaluation: Evaluation, path: Path) -> None:
    """Draw the first variants (or both runs of the first) to an SVG, PNG or HTML file."""
    names = run_names(evaluation.runs)
    runs = [
        (variant if len(both) == 1 else f"{names[position]}, {variant}", run)
        for variant, both in evaluation.curves.items()
        for position, run in enumerate(both)
        if run.losses.size
    ]
    options = evaluation.options
    wanted = None if evaluation.without_intervals else options.bootstrap
    curves = {
        name: Curve.of(name, run.table, loss=options.loss, options=wanted)
        for name, run in runs[:_MOST_CURVES]
    }
    if not curves:
        raise InvalidValue("nothing was predicted, so there is no curve to draw")
    style = style_of("screen")
    spec = risk_coverage(curves, style, measures=("selective", "generalized"))
    drawn = spec.figure(style, about=_about(evaluation))
    suffix = path.suffix.lower()
    if suffix == ".svg":
        write_text(path, drawn.svg, private=False)
    elif suffix == ".html":
        write_text(path, drawn.html())
    else:
        picture = drawn.png()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)
        except OSError as error:
            raise InvalidFile(f"{path} cannot be written: {error.strerror}") from None
