"""The curves of `krisis selective` in a file of their own."""

from __future__ import annotations

from pathlib import Path

from krisis.errors import InvalidValue
from krisis.pages.charts.curves import Curve, risk_coverage
from krisis.pages.charts.files import write_figure
from krisis.pages.numbers import count
from krisis.pages.style import style_of
from krisis.verbs.selective.evaluation import Evaluation
from krisis.verbs.selective.page import run_names

_MOST_CURVES = 3


def _about(evaluation: Evaluation) -> list[str]:
    """Say whose curves are drawn, and of how many items."""
    found = []
    for run in evaluation.runs:
        source = run.source
        whose = filter(None, (source.model, source.suite, source.task, source.mode))
        counts = f"n = {count(run.n_items)}, {count(int(run.predicted.sum()))} predicted"
        found.append(" · ".join([*whose, counts]))
    return found


def draw_evaluation(evaluation: Evaluation, path: Path) -> None:
    """Draw the first variants (or both runs of the first) to a PDF, SVG or PNG file."""
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
    write_figure(drawn, path)
