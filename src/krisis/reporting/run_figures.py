"""Figures of one or several runs for a paper: one kind, one look, all runs in one drawing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.metrics.base import MetricScore
from krisis.pages.figure import Figure, alt
from krisis.reporting.curve_panels import reliability_drawing, risk_coverage_drawing
from krisis.reporting.interval_panels import deferral_drawing, forest_drawing
from krisis.reporting.panels import Drawing, key_chart
from krisis.reporting.style import MOST_RUNS, POINTS_PER_MM, Look, Series, look_of, series
from krisis.results.base import BenchmarkResult
from krisis.results.comparison.matching import refuse_other_data

KINDS = ("risk-coverage", "reliability", "forest", "deferral")
SUFFIXES = (".pdf", ".svg", ".png")
_DOTS_PER_INCH = 300
_MOST_FITTINGS = 3
_SIZE = re.compile(r'(<svg [^>]*?)width="([\d.]+)" height="([\d.]+)"')
_OF_ROWS: Mapping[
    str, Callable[[Mapping[str, BenchmarkResult], Mapping[str, Series], Look], Drawing]
] = {
    "risk-coverage": risk_coverage_drawing,
    "reliability": reliability_drawing,
    "deferral": deferral_drawing,
}


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """What is drawn and how; ``width`` is in millimetres, for print; ``metrics`` for a forest."""

    kind: str = "risk-coverage"
    style: str = "screen"
    width: float | None = None
    title: str = ""
    metrics: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName.among("kind of figure", self.kind, KINDS)
        if self.metrics and self.kind != "forest":
            raise InvalidValue(f"--metric chooses the panels of a forest, not of {self.kind}")
        look_of(self.style, self.width)


def runs_figure(
    runs: Mapping[str, BenchmarkResult], options: FigureOptions | None = None
) -> Figure:
    """Draw runs on the same cases as one figure; the names of the mapping are shown.

    A run that cannot be drawn is named in the figure with the reason.
    """
    chosen = options or FigureOptions()
    if not 1 <= len(runs) <= MOST_RUNS:
        raise InvalidValue(f"a figure has 1 to {MOST_RUNS} runs, not {len(runs)}; name fewer runs")
    refuse_other_data(runs)
    runs = {_reader_name(name, run): run for name, run in runs.items()}
    readers = _readers(runs) if chosen.kind == "forest" else {}
    look, marks = look_of(chosen.style, chosen.width), series([*runs, *readers])
    drawing = _drawing(runs, marks, look, chosen, readers)
    shown = {name: one for name, one in marks.items() if name not in drawing.reasons}
    if not shown:
        why = "; ".join(f"{name}: {reason}" for name, reason in drawing.reasons.items())
        raise InvalidValue(f"no run can be drawn as {chosen.kind} ({why}); choose another --kind")
    about = [
        line
        for text in (_about(runs), *drawing.notes, *_gaps(drawing))
        for line in look.broken(text, look.width * 1.05)
    ]
    words = {name: _key_words(name, runs[name]) if name in runs else name for name in shown}
    key = key_chart(shown, words, look)
    named = " ".join(look.broken(chosen.title or drawing.title, look.width))

    def made(width: float) -> Figure:
        chart = drawing.draw(width)
        if drawing.with_key:
            chart = alt.vconcat(chart, key, spacing=look.font * 1.2)
        return Figure(
            chosen.kind.replace("-", "_"),
            named,
            drawing.reading,
            chart,
            drawing.table,
            about=about,
            config=look.config,
        )

    return _fitted(made, look.width)


def _drawing(
    runs: Mapping[str, BenchmarkResult],
    marks: Mapping[str, Series],
    look: Look,
    options: FigureOptions,
    readers: Mapping[str, Mapping[str, MetricScore]],
) -> Drawing:
    if options.kind == "forest":
        return forest_drawing(runs, marks, look, options.metrics, readers)
    empty = [name for name, run in runs.items() if not run.rows]
    if empty:
        raise InvalidFile(
            f"{', '.join(empty)} has scores but no rows, which --kind {options.kind} needs; name "
            "the run or the full result, or draw --kind forest"
        )
    return _OF_ROWS[options.kind](runs, marks, look)


def _reader_name(name: str, run: BenchmarkResult) -> str:
    """Return the name of a run; that of a reader says how many of the cases they read."""
    read = run.suite.read
    return f"{name} (read {read})" if read else name


def _readers(runs: Mapping[str, BenchmarkResult]) -> dict[str, Mapping[str, MetricScore]]:
    """Return the people among the baselines of the first run, unless their own run is drawn."""
    drawn = {run.backend_name for run in runs.values()}
    found = {
        name: scores
        for name, scores in next(iter(runs.values())).baselines.items()
        if (own := name.partition(" (")[0]) not in drawn
        and (own == "physician" or own.startswith("reader/"))
    }
    return dict(list(found.items())[: MOST_RUNS - len(runs)])


def _about(runs: Mapping[str, BenchmarkResult]) -> str:
    """Say what was asked, of how many patients and by how many runs."""
    made = next(iter(runs.values())).provenance
    counts = [_n_scored(run) for run in runs.values()]
    n = " to ".join(f"{one:,}" for one in dict.fromkeys((min(counts), max(counts))))
    n_runs = f"{len(runs)} runs" if len(runs) > 1 else next(iter(runs))
    return " · ".join(filter(None, (made.suite, made.task, made.features, n_runs, f"n = {n}")))


def _n_scored(run: BenchmarkResult) -> int:
    return run.attrition.n_evaluated


def _gaps(drawing: Drawing) -> list[str]:
    return [f"Not drawn: {name}: {why}." for name, why in drawing.reasons.items()]


def _key_words(name: str, run: BenchmarkResult) -> str:
    counts = run.attrition
    missing = counts.n_not_evaluated
    words = f", {missing:,} not evaluated" if missing else ""
    return f"{name} ({counts.n_answered:,}/{_n_scored(run):,} answered{words})"


def _fitted(made: Callable[[float], Figure], width: float) -> Figure:
    """Return a figure of a width: what axes and names take is measured, then left to the plots."""
    plots = width * 0.75
    for _ in range(_MOST_FITTINGS):
        figure = made(plots)
        match = _SIZE.search(figure.svg)
        missing = width - float(match[2]) if match else 0.0
        if abs(missing) <= 0.01 * width:
            break
        plots = max(width * 0.2, plots + missing)
    return figure


def check_figure_file(path: Path) -> None:
    """Refuse a file that could not be drawn, before any work is done."""
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidValue(f"a figure is a .pdf, .svg or .png file, not {path.name!r}")
    if path.exists():
        raise InvalidFile(f"{path} exists already; choose another name or remove it first")


def figure_file(figure: Figure, suffix: str, style: str) -> bytes:
    """Return a figure as a file: for print in millimetres and at 300 dots per inch."""
    printed = style == "print"
    if suffix == ".pdf":
        return figure.pdf()
    if suffix == ".png":
        return figure.png(scale=_DOTS_PER_INCH / 72 if printed else 2.0)
    return (_SIZE.sub(_in_millimetres, figure.svg, count=1) if printed else figure.svg).encode()


def _in_millimetres(match: re.Match[str]) -> str:
    width, height = (float(match[place]) / POINTS_PER_MM for place in (2, 3))
    return f'{match[1]}width="{width:.2f}mm" height="{height:.2f}mm"'
