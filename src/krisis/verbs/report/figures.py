"""`krisis figure`: runs on the same cases as one figure of a kind, for screen or print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from krisis import registry
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.pages.about import about_runs
from krisis.pages.charts.spec import FigureSpec
from krisis.pages.figure import Figure
from krisis.pages.style import MOST_RUNS, Style, style_of
from krisis.results.base import BenchmarkResult
from krisis.results.matching import refuse_other_data


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """What is drawn and how; ``width`` is in millimetres, for print; ``metrics`` for a forest."""

    kind: str = "risk-coverage"
    style: str = "screen"
    width: float | None = None
    title: str = ""
    metrics: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.kind not in (kinds := registry.table("figures")):
            raise UnknownName.among("kind of figure", self.kind, kinds)
        if self.metrics and self.kind != "forest":
            raise InvalidValue(f"--metric chooses the panels of a forest, not of {self.kind}")
        style_of(self.style, self.width)


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
    empty = [name for name, run in runs.items() if not run.rows]
    if empty and chosen.kind != "forest":
        raise InvalidFile(
            f"{', '.join(empty)} has scores but no rows, which --kind {chosen.kind} needs; name "
            "the run or the full result, or draw --kind forest"
        )
    style = style_of(chosen.style, chosen.width)
    spec = _spec(runs, chosen, style)
    if not spec.table:
        why = "; ".join(f"{name}: {reason}" for name, reason in spec.reasons.items())
        raise InvalidValue(f"no run can be drawn as {chosen.kind} ({why}); choose another --kind")
    return spec.figure(style, about=[about_runs(runs)], title=chosen.title)


def _spec(runs: Mapping[str, BenchmarkResult], options: FigureOptions, style: Style) -> FigureSpec:
    chosen = {"metrics": options.metrics} if options.metrics else {}
    spec: FigureSpec = registry.find("figures", options.kind)(runs, style, **chosen)
    return spec


def _reader_name(name: str, run: BenchmarkResult) -> str:
    """Return the name of a run; that of a reader says how many of the cases they read."""
    read = run.suite.read
    return f"{name} (read {read})" if read else name
