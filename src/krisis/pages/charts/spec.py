"""What every chart builder returns, and the parts that they share: panels, names, levels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from krisis.json_values import JsonObject
from krisis.metrics.base import MetricScore
from krisis.pages.cases import MarkCases
from krisis.pages.document import Chart as PageChart
from krisis.pages.figure import Chart, Figure, alt
from krisis.pages.style import Mark, Style
from krisis.statistics.intervals import common_level

_LETTERS = 15  # of a panel's width, at least
_MOST_FITTINGS = 3
SIZE = re.compile(r'(<svg [^>]*?)width="([\d.]+)" height="([\d.]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSpec:
    """A chart before it has its size: ``draw`` makes it for a width of its plots.

    ``title`` states the finding, ``reading`` says how to read the chart on a page, and ``notes``
    say the same in a file of its own. ``reasons`` says of every run that is not drawn why. Where
    several runs are not named in the drawing, it ``needs_key``.
    """

    name: str
    title: str
    reading: str
    draw: Callable[[float], Chart]
    table: Sequence[JsonObject]
    key: Sequence[Mark] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    needs_key: bool = False

    def figure(
        self,
        style: Style,
        *,
        about: Sequence[str] = (),
        title: str = "",
        cases: MarkCases | None = None,
    ) -> Figure:
        """Return the figure in a style; on a page the browser fits its width."""
        lines = [
            line
            for text in (*about, *self.notes, *self._gaps())
            for line in style.broken(text, style.width * 1.05)
        ]

        def made(plots: float) -> Figure:
            return Figure(
                self.name,
                title or self.title,
                self.reading,
                self.draw(plots),
                self.table,
                self.key,
                lines,
                style,
                self.needs_key,
                cases,
            )

        if style.name == "page":
            return made(style.width * 0.85)
        return _fitted(made, style.width)

    def _gaps(self) -> list[str]:
        return [f"Not drawn: {name}: {why}." for name, why in self.reasons.items()]


def page_chart(
    key: str,
    build: Callable[[Style], FigureSpec],
    *,
    wide: bool = False,
    about: Sequence[str] = (),
    cases: MarkCases | None = None,
) -> PageChart:
    """Return a chart of a page, drawn when it is asked for, and then once."""
    style = Style().whole_width if wide else Style()
    draw = cache(lambda: build(style).figure(style, about=about, cases=cases))
    return PageChart(key=key, draw=draw, wide=wide)


def nothing_to_draw(name: str, why: str) -> FigureSpec:
    """Return what a builder returns where there is nothing to draw: a chart of no rows."""
    return FigureSpec(name=name, title=why, reading="", draw=lambda _: alt.layer(), table=())


def _fitted(made: Callable[[float], Figure], width: float) -> Figure:
    """Return a figure of a width: what axes and names take is measured, then left to the plots."""
    plots = width * 0.75
    for _ in range(_MOST_FITTINGS):
        figure = made(plots)
        match = SIZE.search(figure.svg)
        missing = width - float(match[2]) if match else 0.0
        if abs(missing) <= 0.01 * width:
            break
        plots = max(width * 0.2, plots + missing)
    return figure


def level_of(scores: Mapping[str, MetricScore]) -> float:
    """Return the level of the intervals of a run, which its charts have too."""
    return common_level(score.interval for score in scores.values())


def n_columns(style: Style, n_panels: int) -> int:
    """Return how many panels fit next to each other."""
    return max(1, min(n_panels, int(style.width // (_LETTERS * style.font))))


def grid(panels: Sequence[Chart], style: Style) -> Chart:
    """Return panels in rows from left to right."""
    columns = n_columns(style, len(panels))
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    made = [alt.hconcat(*row, spacing=style.font * 1.5) for row in rows]
    return alt.vconcat(*made, spacing=style.font * 1.5)


def panel_titles(titles: Mapping[str, Sequence[str]], style: Style) -> dict[str, Chart]:
    """Return the names of panels; in a row of the grid all have as many lines as the longest."""
    columns = n_columns(style, len(titles))
    names = list(titles)
    made: dict[str, Chart] = {}
    for start in range(0, len(names), columns):
        row = names[start : start + columns]
        n_lines = max(len(titles[name]) for name in row)
        for name in row:
            lines = [*titles[name], *[" "] * (n_lines - len(titles[name]))]
            made[name] = panel_title(lines, style)
    return made


def panel_title(text: str | Sequence[str], style: Style) -> Chart:
    """Return the heading of a panel."""
    return alt.TitleParams(
        text, fontSize=style.font, fontWeight="normal", anchor="start", offset=style.font / 2
    )
