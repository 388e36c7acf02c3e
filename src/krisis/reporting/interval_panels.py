"""Figures of numbers with intervals, a line per run: metrics as a forest plot, and deferral."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics.base import MetricScore
from krisis.metrics.explanations import reason_words
from krisis.metrics.forms import Share
from krisis.metrics.table import Table
from krisis.pages.figure import Chart, alt, data
from krisis.pages.numbers import Estimate, figure
from krisis.pages.palette import INK
from krisis.reporting.panels import Drawing, point_of
from krisis.reporting.scored_as import ScoredAs
from krisis.reporting.style import Look, Series
from krisis.results.base import BenchmarkResult
from krisis.results.side_by_side import Cell, columns_of, metric_cell
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval, level_name

_MOST_METRICS, _LINES_OF_A_PAGE, _LINES_OF_A_PANEL = 8, 57, 3
_LINE = 1.7  # height of a line, in sizes of letters
_OF_RUN = ("shape", "color")  # of a mark: what a scale decides here
_COMPLEMENT = "abstention_rate"  # coverage says the same
_READERS = "Readers without a bar: from the baselines of the run; their own run has intervals."
_ARROWS = {"higher": "higher is better", "lower": "lower is better"}


def forest_drawing(
    runs: Mapping[str, BenchmarkResult],
    marks: Mapping[str, Series],
    look: Look,
    metrics: Sequence[str] = (),
    readers: Mapping[str, Mapping[str, MetricScore]] | None = None,
) -> Drawing:
    """Draw metrics of runs with their intervals, a panel per metric and a line per run.

    ``readers`` are people whose scores a run keeps as baselines: values without intervals.
    """
    people = readers or {}
    offered = columns_of(runs.values(), metrics)
    chosen = [one for one in offered if not metrics or {one.name, one.key} & set(metrics)]
    for name in metrics:
        if not any(name in (one.name, one.key) for one in offered):
            raise UnknownName.among("metric", name, [one.name for one in offered])
    if not chosen:
        raise InvalidValue(
            "the runs have no scores; score them with krisis show RUN --metric default --save FILE"
        )
    panels = {}
    n_lines = len(marks) * _step(_names(marks, look)) / _LINE + _LINES_OF_A_PANEL
    fitting = max(1, min(_MOST_METRICS, int(_LINES_OF_A_PAGE // n_lines)))
    usual = [column for column in chosen if column.key != _COMPLEMENT][:fitting]
    for column in chosen if metrics else usual:
        better = _ARROWS.get(column.direction)
        heading = f"{column.heading} ({better})" if better else column.heading
        panels[heading] = [
            _row(heading, name, metric_cell(run.metric_scores.get(column.name)))
            for name, run in runs.items()
        ]
        if column.key not in ("aurc", "augrc"):  # their normalized form is not kept of baselines
            panels[heading] += [
                _row(heading, name, metric_cell(scores[column.name]))
                for name, scores in people.items()
                if column.name in scores
            ]
    rows = [row for found in panels.values() for row in found]
    percent = level_name(ScoredAs.of(run.metric_scores).level for run in runs.values())
    return Drawing(
        f"Metrics with {percent} intervals",
        f"Every metric is a panel, every run a line: value and {percent} interval by patient.",
        lambda width: _stacked(panels, marks, look, width),
        rows,
        {},
        [f"Bars: {percent} intervals by patient.", *([_READERS] if people else [])],
        not look.broad,
    )


def _row(panel: str, name: str, cell: Cell) -> JsonObject:
    ends = cell.interval
    known = ends is not None and ends.defined
    undefined = math.isnan(cell.value)
    words = figure(Estimate.of(cell.value, ends))
    return {
        "panel": panel,
        "run": name,
        "value": None if undefined else cell.value,
        "low": ends.low if ends is not None and known else None,
        "high": ends.high if ends is not None and known else None,
        "n": cell.n_evaluated,
        "words": f"undefined: {reason_words(cell.reason)}" if undefined else words,
    }


def _stacked(
    panels: Mapping[str, Sequence[JsonObject]],
    marks: Mapping[str, Series],
    look: Look,
    width: float,
) -> Chart:
    made = [_panel(rows, heading, marks, look, width) for heading, rows in panels.items()]
    return alt.vconcat(*made, spacing=look.font)


def _panel(
    rows: Sequence[JsonObject],
    heading: str,
    marks: Mapping[str, Series],
    look: Look,
    width: float,
) -> Chart:
    names = [row["run"] for row in rows]
    labels = _names(names, look)
    y = alt.Y("run:N", sort=names, axis=None)
    layers = _marked(rows, marks, look)
    text = alt.Chart(data(rows)).mark_text(align="left", baseline="middle")
    words = text.encode(x=alt.value(width + look.font), text=alt.Text("words:N"))
    title = alt.TitleParams(
        heading, fontSize=look.font * 1.1, fontWeight="normal", anchor="start", offset=look.font / 3
    )
    step = look.font * _step(labels)
    drawn = [*layers, *_labels(labels, look), words]
    return alt.layer(*(layer.encode(y=y) for layer in drawn)).properties(
        width=width, height=step * len(rows), title=title
    )


def _names(names: Iterable[str], look: Look) -> dict[str, list[str]]:
    """Return the lines of the names beside the plots; none where a key names the marks."""
    return {name: look.broken(name, look.width * 0.3) if look.broad else [] for name in names}


def _step(labels: Mapping[str, Sequence[str]]) -> float:
    """Return the height of a run in sizes of letters, the same for all of them."""
    return max(_LINE, 1.25 * max(map(len, labels.values())))


def _labels(labels: Mapping[str, Sequence[str]], look: Look) -> Iterator[Chart]:
    """Yield the names beside the plot, those of several lines around the middle of theirs."""
    lines: dict[float, list[JsonObject]] = {}
    for name, parts in labels.items():
        for number, part in enumerate(parts):
            below = (number - (len(parts) - 1) / 2) * look.font * 1.15
            lines.setdefault(below, []).append({"run": name, "line": part})
    for below, found in lines.items():
        mark = alt.Chart(data(found)).mark_text(
            align="right", baseline="middle", dy=below, color=str(INK)
        )
        yield mark.encode(x=alt.value(-look.font / 2), text=alt.Text("line:N"))


def _marked(
    rows: Sequence[JsonObject], marks: Mapping[str, Series], look: Look
) -> tuple[Chart, Chart]:
    """Return the intervals and the values, each in the colour and with the mark of its run."""
    x = {"scale": _scale(rows), "axis": alt.Axis(title=None, tickCount=5)}
    names = list(marks)
    tones, shapes = [str(marks[n].tone) for n in names], [marks[n].shape for n in names]
    colour = alt.Color("run:N", legend=None, scale=alt.Scale(domain=names, range=tones))
    shape = alt.Shape("run:N", legend=None, scale=alt.Scale(domain=names, range=shapes))
    bars = alt.Chart(data([row for row in rows if row["low"] is not None]))
    points = alt.Chart(data([row for row in rows if row["value"] is not None]))
    plain = {k: v for k, v in point_of(marks[names[0]], look).items() if k not in _OF_RUN}
    return (
        bars.mark_rule(strokeWidth=look.stroke).encode(
            x=alt.X("low:Q", **x), x2=alt.X2("high:Q"), color=colour
        ),
        points.mark_point(**plain).encode(x=alt.X("value:Q", **x), color=colour, shape=shape),
    )


def _scale(rows: Sequence[JsonObject]) -> Chart:
    """Return the scale of a panel: from 0 to 1 where everything lies there."""
    ends = [row[name] for row in rows for name in ("value", "low", "high") if row[name] is not None]
    if all(0 <= end <= 1 for end in ends):
        return alt.Scale(domain=[0, 1])
    low, high = min(ends), max(ends)
    room = 0.05 * (high - low) or 0.5
    return alt.Scale(domain=[low - room, high + room], nice=False, zero=False)


def deferral_drawing(
    runs: Mapping[str, BenchmarkResult], marks: Mapping[str, Series], look: Look
) -> Drawing:
    """Draw how often every run deferred where that was due, and answered where that was safe."""
    tables = {name: run.rows.table for name, run in runs.items()}
    levels = {name: ScoredAs.of(run.metric_scores).level for name, run in runs.items()}
    percent = level_name(levels.values())
    reason = reason_words("no_should_abstain_metadata")
    reasons = {
        name: reason for name, table in tables.items() if not (table.should_abstain >= 0).any()
    }
    kept = {name: table for name, table in tables.items() if name not in reasons}
    headings = ("Deferred when it was due", "Answered when it was safe")
    panels = {
        heading: [
            _row(heading, name, _side(table, due, levels[name])) for name, table in kept.items()
        ]
        for heading, due in zip(headings, (True, False), strict=True)
    }
    n_due = sorted({row["n"] for row in panels[headings[0]]}) or [0]
    n = " to ".join(f"{one:,}" for one in dict.fromkeys((n_due[0], n_due[-1])))
    return Drawing(
        "Deferral",
        (
            "How many of the cases that were to be deferred were deferred, and how many of the "
            "others were answered. Always answering has 0 and 1, always deferring 1 and 0."
        ),
        lambda width: _stacked(panels, marks, look, width),
        [row for found in panels.values() for row in found],
        reasons,
        [f"Deferral was due in {n} cases. Bars: {percent} intervals by patient."],
        not look.broad,
    )


def _side(table: Table, due: bool, level: float) -> Cell:
    among = table.should_abstain == int(due)
    share = Share(table.abstained if due else table.answered, among=among)
    if not share.n_evaluated:
        reason = "no_case_is_to_be_deferred" if due else "every_case_is_to_be_deferred"
        return Cell(math.nan, reason=reason, n_evaluated=0)
    found: Interval = share.uncertainty(table, BootstrapOptions(level=level)).interval
    return Cell(share.value(), found, n_evaluated=share.n_evaluated)
