"""Figures with their intervals, a line each: metrics and deferral of runs, groups, differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics.base import MetricScore
from krisis.metrics.explanations import reason_words
from krisis.metrics.forms import Share
from krisis.metrics.table import Table
from krisis.pages.charts.spec import FigureSpec, level_of, panel_title
from krisis.pages.figure import Chart, alt, data
from krisis.pages.groups import GroupFigures
from krisis.pages.numbers import Estimate, count, figure, share
from krisis.pages.palette import CORRECT, INK, MUTED, WRONG
from krisis.pages.strip import Strip
from krisis.pages.style import MOST_RUNS, Mark, Series, Style, series
from krisis.results.base import BenchmarkResult
from krisis.results.side_by_side import RunFigure, columns_of, metric_cell
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import DEFAULT_LEVEL, Interval, level_name

_MOST_METRICS, _LINES_OF_A_PAGE, _LINES_OF_A_PANEL = 8, 57, 3
_LINE = 1.7  # height of a line, in sizes of letters
_COMPLEMENT = "abstention_rate"  # coverage says the same
_READERS = "Readers without a bar: from the baselines of the run; their own run has intervals."
_DIRECTIONS = {"higher": "higher is better", "lower": "lower is better"}
PEOPLE = ("physician", "reader/")


_ENDS = ("value", "low", "high")


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: a row for each line, and grey ticks with their names at other figures."""

    heading: str
    rows: Sequence[JsonObject]
    ticks: Sequence[JsonObject] = ()
    reference: float | None = None  # where a dashed rule is drawn

    @property
    def near(self) -> list[JsonObject]:
        """Return the ticks that are not far off the figures of the lines: those are drawn."""
        strip = Strip.over(
            [
                Estimate(*(math.nan if row[end] is None else row[end] for end in _ENDS))
                for row in self.rows
            ],
            [tick["value"] for tick in self.ticks],
        )
        return [tick for tick in self.ticks if tick["value"] in strip.ticks]


def panel_row(
    panel: str, name: str, estimate: Estimate, n: int | None, words: str = ""
) -> JsonObject:
    """Return what is drawn of one estimate in a panel."""
    undefined = math.isnan(estimate.value)
    return {
        "panel": panel,
        "run": name,
        "value": None if undefined else estimate.value,
        "low": estimate.low if estimate.has_interval else None,
        "high": estimate.high if estimate.has_interval else None,
        "n": n,
        "words": words or figure(estimate),
    }


def _cell_row(panel: str, name: str, cell: RunFigure) -> JsonObject:
    why = f"undefined: {reason_words(cell.reason)}" if math.isnan(cell.value) else ""
    return panel_row(panel, name, Estimate.of(cell.value, cell.interval), cell.n_evaluated, why)


# --- Metrics of runs -------------------------------------------------------------------------


def forest(
    runs: Mapping[str, BenchmarkResult], style: Style, metrics: Sequence[str] = ()
) -> FigureSpec:
    """Draw metrics of runs with their intervals: a panel per metric, a line per run.

    People whose answers the first run keeps as baselines have lines without intervals; other
    baselines are grey ticks.
    """
    runs = {name: run.also_scored(metrics) for name, run in runs.items()}
    people, baselines = _baselines(runs)
    marks = series([*runs, *people])
    offered = columns_of(runs.values(), metrics)
    chosen = [one for one in offered if not metrics or {one.name, one.key} & set(metrics)]
    for name in metrics:
        if not any(name in (one.name, one.key) for one in offered):
            raise UnknownName.among("metric", name, [one.name for one in offered])
    if not chosen:
        raise InvalidValue(
            "the runs have no scores; score them with krisis show RUN --metric default --save FILE"
        )
    n_lines = len(marks) * _step(_names(marks, style)) / _LINE + _LINES_OF_A_PANEL
    fitting = max(1, min(_MOST_METRICS, int(_LINES_OF_A_PAGE // n_lines)))
    usual = [column for column in chosen if column.key != _COMPLEMENT][:fitting]
    panels = []
    for column in chosen if metrics else usual:
        better = _DIRECTIONS.get(column.direction)
        heading = f"{column.heading} ({better})" if better else column.heading
        rows = [
            _cell_row(heading, name, metric_cell(run.metric_scores.get(column.name)))
            for name, run in runs.items()
        ]
        ticks: list[JsonObject] = []
        if column.key not in ("aurc", "augrc"):  # their normalized form is not kept of baselines
            rows += [
                _cell_row(heading, name, metric_cell(scores[column.name]))
                for name, scores in people.items()
                if column.name in scores
            ]
            ticks = [
                _cell_row(heading, name, metric_cell(scores[column.name]))
                for name, scores in baselines.items()
                if column.name in scores and not math.isnan(scores[column.name].value)
            ]
        panels.append(Panel(heading, rows, ticks))
    percent = level_name(level_of(run.metric_scores) for run in runs.values())
    near = dict.fromkeys(tick["run"] for panel in panels for tick in panel.near)
    far = [name for name in baselines if name not in near]
    grey = f" Grey ticks: {', '.join(near)}." if near else ""
    grey += f" Off the scale: {', '.join(far)}." if near and far else ""
    return FigureSpec(
        name="forest",
        title=_forest_finding(panels[0], chosen[0].direction),
        reading=(
            "Every metric is a panel, every run a line: value and "
            f"{percent} interval by patient.{grey}"
        ),
        draw=lambda width: _stacked(panels, marks, style, width),
        table=[row for panel in panels for row in (*panel.rows, *panel.ticks)],
        key=[] if style.broad else [Mark("series", one, name) for name, one in marks.items()],
        notes=[f"Bars: {percent} intervals by patient.{grey}", *([_READERS] if people else [])],
        needs_key=not style.broad,
    )


def _baselines(
    runs: Mapping[str, BenchmarkResult],
) -> tuple[dict[str, Mapping[str, MetricScore]], dict[str, Mapping[str, MetricScore]]]:
    """Return the people and the other baselines of the first run whose own run is not drawn."""
    drawn = {run.backend_name for run in runs.values()}
    people: dict[str, Mapping[str, MetricScore]] = {}
    others: dict[str, Mapping[str, MetricScore]] = {}
    for name, scores in next(iter(runs.values())).baselines.items():
        own = name.partition(" (")[0]
        if own not in drawn:
            (people if own.startswith(PEOPLE) else others)[name] = scores
    return dict(list(people.items())[: max(0, MOST_RUNS - len(runs))]), others


def _forest_finding(panel: Panel, direction: str) -> str:
    """Name the run with the best figure of the first metric; of one run, the figure."""
    known = [row for row in panel.rows if row["value"] is not None]
    heading = panel.heading.partition(" (")[0]
    if not known:
        return f"{heading} is undefined for every run"
    if len(known) == 1 or direction not in _DIRECTIONS:
        said = ", ".join(f"{row['run']} {row['words']}" for row in known[:3])
        return f"{heading}: {said}{' …' if len(known) > 3 else ''}"
    best = (max if direction == "higher" else min)(row["value"] for row in known)
    names = [row["run"] for row in known if row["value"] == best]
    words = next(row["words"] for row in known if row["value"] == best)
    side = "Highest" if direction == "higher" else "Lowest"
    return f"{side} {heading}: {' and '.join(names)}, {words}"


# --- Deferral of runs ------------------------------------------------------------------------


def deferral(runs: Mapping[str, BenchmarkResult], style: Style) -> FigureSpec:
    """Draw how often every run deferred where that was due, and answered where that was safe."""
    tables = {name: run.rows.table for name, run in runs.items()}
    levels = {name: level_of(run.metric_scores) for name, run in runs.items()}
    marks = series(runs)
    reason = reason_words("no_should_abstain_metadata")
    labelled = {name: bool((table.should_abstain >= 0).any()) for name, table in tables.items()}
    kept = {name: table for name, table in tables.items() if labelled[name]}
    percent = level_name(levels[name] for name in kept)
    headings = {True: "Deferred when it was due", False: "Answered when it was safe"}
    panels = [
        Panel(heading, [_side(heading, name, kept[name], due, levels[name]) for name in kept])
        for due, heading in headings.items()
    ]
    shown = {name: marks[name] for name in kept}
    return FigureSpec(
        name="deferral",
        title=_deferral_finding(panels),
        reading=(
            "How many of the cases that should be deferred were deferred, and how many of the "
            f"others were answered, with {percent} intervals by patient. Always answering has 0 "
            "and 1, always deferring 1 and 0."
        ),
        draw=lambda width: _stacked(panels, shown, style, width),
        table=[row for panel in panels for row in panel.rows],
        key=[] if style.broad else [Mark("series", one, name) for name, one in shown.items()],
        reasons={name: reason for name in runs if not labelled[name]},
        notes=[f"Bars: {percent} intervals by patient."],
        needs_key=not style.broad,
    )


def _side(panel: str, name: str, table: Table, due: bool, level: float) -> JsonObject:
    among = table.should_abstain == int(due)
    found = Share(table.abstained if due else table.answered, among=among)
    if not found.n_evaluated:
        reason = "no_case_is_to_be_deferred" if due else "every_case_is_to_be_deferred"
        return _cell_row(panel, name, RunFigure(math.nan, reason=reason, n_evaluated=0))
    interval: Interval = found.uncertainty(table, BootstrapOptions(level=level)).interval
    estimate = Estimate.of(found.value(), interval)
    words = f"{share(estimate)}, n = {count(found.n_evaluated)}"
    return panel_row(panel, name, estimate, found.n_evaluated, words)


def _deferral_finding(panels: Sequence[Panel]) -> str:
    due, safe = ([row for row in one.rows if row["value"] is not None] for one in panels)
    if not due or not safe:
        return "Only one side of deferral can be judged" if due or safe else "No deferral labels"
    if len(due) == len(safe) == 1:
        said = [share(Estimate(rows[0]["value"])) for rows in (due, safe)]
        n_due, n_safe = count(due[0]["n"]), count(safe[0]["n"])
        return (
            f"Deferred {said[0]} of the {n_due} cases due, answered {said[1]} of the {n_safe} safe"
        )
    return f"Deferred {_span(due)} of the cases due, answered {_span(safe)} of the safe"


def _span(rows: Sequence[JsonObject]) -> str:
    """Write the lowest and the highest figure with the names of their runs."""
    low, high = (pick(rows, key=lambda row: row["value"]) for pick in (min, max))
    if low["value"] == high["value"]:
        return share(Estimate(low["value"]))
    return " to ".join(f"{share(Estimate(row['value']))} ({row['run']})" for row in (low, high))


# --- Groups of one run -----------------------------------------------------------------------


def group_forest(
    groups: Sequence[GroupFigures], overall: Mapping[str, float], style: Style
) -> FigureSpec:
    """Draw the figures of groups in their order, with a dashed rule at those of all cases."""
    level = next(
        (one.level for g in groups for one in g.figures.values() if isinstance(one, Estimate)),
        DEFAULT_LEVEL,
    )
    percent = level_name([level])
    headings = list(overall)
    labels = [_group_label(group) for group in groups]
    panels = [
        Panel(
            heading,
            [
                {**_group_row(heading, label, group), "by": group.by, "group": group.name}
                for label, group in zip(labels, groups, strict=True)
            ],
            reference=overall[heading],
        )
        for heading in headings
    ]
    first = [row for row in panels[0].rows if row["value"] is not None]
    named = [{**row, "run": f"{row['by']}: {row['group']}"} for row in first]
    return FigureSpec(
        name="groups",
        title=f"{headings[0].capitalize()}: {_span(named)}"
        if named
        else "No group is large enough",
        reading=(
            f"Points are shares, bars {percent} intervals by patient; dashed rules are all cases. "
            "The number of cases follows each name. Overlapping bars do not show that groups are "
            "alike."
        ),
        draw=lambda width: panel_columns(panels, labels, style, width),
        table=[
            {
                "by": row["by"],
                "group": row["group"],
                "figure": row["panel"],
                **{name: row[name] for name in ("n", "value", "low", "high")},
                "note": row["words"] if row["value"] is None else "",
            }
            for panel in panels
            for row in panel.rows
        ],
        key=[Mark("dot", Series(CORRECT), f"share of a group, with its {percent} interval")],
    )


def _group_label(group: GroupFigures) -> str:
    counted = "" if group.n is None else f" · {count(group.n)}"
    return f"{group.by}: {group.name}{counted}"


def _group_row(heading: str, label: str, group: GroupFigures) -> JsonObject:
    found = group.figures[heading]
    if isinstance(found, str):
        return panel_row(heading, label, Estimate(math.nan), None, found)
    return panel_row(heading, label, found, group.among[heading])


# --- How panels are drawn --------------------------------------------------------------------


def _stacked(
    panels: Sequence[Panel], marks: Mapping[str, Series], style: Style, width: float
) -> Chart:
    """Return panels below each other, with the figures in words at the right."""
    made = []
    for panel in panels:
        names = [row["run"] for row in panel.rows]
        labels = _names(names, style)
        y = alt.Y("run:N", sort=names, axis=None)
        layers = (
            *_marked(panel, marks, style),
            *_labels(labels, style),
            _words(panel.rows, style, width),
        )
        drawn = alt.layer(*_ticks(panel), *(layer.encode(y=y) for layer in layers))
        height = style.font * _step(labels) * len(panel.rows)
        heading = panel_title(panel.heading, style)
        made.append(drawn.properties(width=width, height=height, title=heading))
    return alt.vconcat(*made, spacing=style.font)


def panel_columns(
    panels: Sequence[Panel], order: Sequence[str], style: Style, width: float
) -> Chart:
    """Return panels next to each other, whose names are at the left of the first."""
    labels = {name: style.broken(name, style.width * 0.22) for name in order}
    height = style.font * _step(labels) * max(2, len(order))
    each = width * 0.92 / max(1, len(panels)) - style.font * 1.5
    made = []
    for place, panel in enumerate(panels):
        y = alt.Y("run:N", sort=list(order), scale=alt.Scale(domain=list(order)), axis=None)
        marks = {row["run"]: Series(WRONG if row.get("flagged") else CORRECT) for row in panel.rows}
        layers = [layer.encode(y=y) for layer in _marked(panel, marks, style)]
        missing = [row for row in panel.rows if row["value"] is None]
        if missing:
            layers.append(_missing(missing, style).encode(y=y))
        if place == 0:
            layers += [layer.encode(y=y) for layer in _labels(labels, style)]
        drawn = alt.layer(*_reference(panel, style), *layers)
        heading = panel_title(style.broken(panel.heading, each), style)
        made.append(drawn.properties(width=each, height=height, title=heading))
    return alt.hconcat(*made, spacing=style.font * 1.5)


def _names(names: Iterable[str], style: Style) -> dict[str, list[str]]:
    """Return the lines of the names next to the plots; none where a key names the marks."""
    return {name: style.broken(name, style.width * 0.3) if style.broad else [] for name in names}


def _step(labels: Mapping[str, Sequence[str]]) -> float:
    """Return the height of a line in sizes of letters, the same for all of them."""
    return max(_LINE, 1.25 * max(map(len, labels.values()), default=1))


def _labels(labels: Mapping[str, Sequence[str]], style: Style) -> Iterator[Chart]:
    """Yield the names next to the plot, those of several lines around the middle of theirs."""
    lines: dict[float, list[JsonObject]] = {}
    for name, parts in labels.items():
        for number, part in enumerate(parts):
            below = (number - (len(parts) - 1) / 2) * style.font * 1.15
            lines.setdefault(below, []).append({"run": name, "line": part})
    for below, found in lines.items():
        mark = alt.Chart(data(found)).mark_text(
            align="right", baseline="middle", dy=below, color=str(INK)
        )
        yield mark.encode(x=alt.value(-style.font / 2), text=alt.Text("line:N"))


def _words(rows: Sequence[JsonObject], style: Style, width: float) -> Chart:
    text = alt.Chart(data(rows)).mark_text(align="left", baseline="middle")
    return text.encode(x=alt.value(width + style.font), text=alt.Text("words:N"))


def _missing(rows: Sequence[JsonObject], style: Style) -> Chart:
    """Say in its place why a figure is missing."""
    size = style.font * 0.9
    text = alt.Chart(data(rows)).mark_text(align="left", fontSize=size, color=str(MUTED))
    return text.encode(x=alt.value(3), text=alt.Text("words:N"))


def _marked(panel: Panel, marks: Mapping[str, Series], style: Style) -> tuple[Chart, Chart]:
    """Return the intervals and the values, each in the colour and with the mark of its run."""
    x = _x(panel)
    names = list(marks)
    tones, shapes = [str(marks[n].tone) for n in names], [marks[n].shape for n in names]
    colour = alt.Color("run:N", legend=None, scale=alt.Scale(domain=names, range=tones))
    shape = alt.Shape("run:N", legend=None, scale=alt.Scale(domain=names, range=shapes))
    bars = alt.Chart(data([row for row in panel.rows if row["low"] is not None]))
    points = alt.Chart(data([row for row in panel.rows if row["value"] is not None]))
    plain = style.point(Series(INK))
    del plain["shape"], plain["color"]  # the scales decide them here
    return (
        bars.mark_rule(strokeWidth=style.stroke).encode(
            x=alt.X("low:Q", **x), x2=alt.X2("high:Q"), color=colour
        ),
        points.mark_point(**plain).encode(x=alt.X("value:Q", **x), color=colour, shape=shape),
    )


def _ticks(panel: Panel) -> list[Chart]:
    """Return grey rules over the whole panel at the figures of the baselines."""
    if not panel.near:
        return []
    rule = alt.Chart(data(panel.near)).mark_rule(color=str(MUTED), opacity=0.6)
    return [rule.encode(x=alt.X("value:Q", **_x(panel)))]


def _reference(panel: Panel, style: Style) -> list[Chart]:
    if panel.reference is None or math.isnan(panel.reference):
        return []
    rule = alt.Chart(data([{"value": panel.reference}])).mark_rule(
        color=str(MUTED), strokeDash=[3, 3], strokeWidth=style.stroke / 2
    )
    return [rule.encode(x=alt.X("value:Q", **_x(panel)))]


def _x(panel: Panel) -> dict[str, Chart]:
    centred = panel.reference == 0.0
    axis = alt.Axis(
        title=None, tickCount=3 if centred else 5, **({"format": "+.2f"} if centred else {})
    )
    return {"scale": _scale([*panel.rows, *panel.near], centred=centred), "axis": axis}


def _scale(rows: Sequence[JsonObject], *, centred: bool = False) -> Chart:
    """Return the scale of a panel: around zero, from 0 to 1, or as wide as its figures."""
    ends = [row[name] for row in rows for name in _ENDS if row[name] is not None]
    if centred:
        end = 1.05 * max((abs(end) for end in ends), default=1.0)
        return alt.Scale(domain=[-end, end])
    if all(0 <= end <= 1 for end in ends):
        return alt.Scale(domain=[0, 1])
    low, high = min(ends), max(ends)
    room = 0.05 * (high - low) or 0.5
    return alt.Scale(domain=[low - room, high + room], nice=False, zero=False)
