"""Confidence against confidence: how sure two runs were of the same cases, by who was right."""

from __future__ import annotations

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Table
from krisis.pages.charts.spec import FigureSpec, grid, n_columns, nothing_to_draw, panel_titles
from krisis.pages.figure import Chart, alt, data, unit_scale
from krisis.pages.numbers import count
from krisis.pages.palette import ABSTAINED, CORRECT
from krisis.pages.style import Mark, Series, Style

N_BINS = 10
# Whether the left and the right run are right.
QUADRANTS = ((True, True), (True, False), (False, True), (False, False))
_SMALLEST = 8  # square pixels of a single case


def paired_confidence(
    left: Table, right: Table, names: tuple[str, str], style: Style
) -> FigureSpec:
    """Draw the matched cases of two runs in 10 × 10 bins, for each of the four ways to be right."""
    stated = ~np.isnan(left.confidence + right.confidence)
    if not stated.any():
        return nothing_to_draw("paired_confidence", "No case has a confidence of both runs")
    titles = ("both right", f"only {names[0]} right", f"only {names[1]} right", "neither right")
    sides = [(left.correct == a) & (right.correct == b) for a, b in QUADRANTS]
    code = N_BINS * _bins(left, stated) + _bins(right, stated)
    rows: list[JsonObject] = []
    for quadrant, (title, side) in enumerate(zip(titles, sides, strict=True), start=1):
        counts = np.bincount(code[side & stated], minlength=N_BINS**2)
        for place in np.flatnonzero(counts).tolist():
            bins = {
                name: at / N_BINS
                for name, at in zip(("left", "right"), divmod(place, N_BINS), strict=True)
            }
            rows.append({"panel": title, "quadrant": quadrant, **bins, "n": int(counts[place])})
    most = max(row["n"] for row in rows)

    def draw(width: float) -> Chart:
        each = width / n_columns(style, len(titles))
        headings = {
            title: [*style.broken(title, each), f"{count(int(side.sum()))} cases"]
            for title, side in zip(titles, sides, strict=True)
        }
        shown = panel_titles(headings, style)
        return grid(
            [
                _panel(
                    [row for row in rows if row["panel"] == title], names, most, each, style
                ).properties(title=shown[title])
                for title in titles
            ],
            style,
        )

    n_surer = [
        int((left.confidence > right.confidence).sum()),
        int((left.confidence < right.confidence).sum()),
    ]
    n, missing = int(stated.sum()), int((~stated).sum())
    lost = f" {count(missing)} cases without both confidences are not drawn." if missing else ""
    return FigureSpec(
        name="paired_confidence",
        title=_finding(names, n_surer, n),
        reading=(
            "Each square is a tenth by a tenth of confidence; its area is the number of cases, on "
            f"one scale. On the diagonal both are equally sure.{lost}"
        ),
        draw=draw,
        table=rows,
        key=[
            Mark("box", Series(CORRECT), "both right, or both not"),
            Mark("box", Series(ABSTAINED), "only one of them is right"),
        ],
    )


def _finding(names: tuple[str, str], n_surer: list[int], n: int) -> str:
    most = max(n_surer)
    if n_surer[0] == n_surer[1]:
        return f"Each is the more confident in {count(most)} of {count(n)} cases"
    surer, other = names if n_surer[0] == most else names[::-1]
    said = f"{surer} is the more confident in {count(most)} of {count(n)} cases"
    return f"{said}, {other} in {count(min(n_surer))}"


def _panel(
    rows: list[JsonObject], names: tuple[str, str], most: int, width: float, style: Style
) -> Chart:
    """Draw the squares of one quadrant on the diagonal."""
    side = width * 0.72
    centre = {"left": 0.5 / N_BINS, "right": 0.5 / N_BINS}
    placed = [
        row | {f"{name}_middle": row[name] + half for name, half in centre.items()} for row in rows
    ]
    agree = bool(rows) and rows[0]["quadrant"] in (1, 4)
    axes = {
        axis: alt.Axis(
            title=style.broken(name, side)[0], values=[0, 0.5, 1], format=".1f", grid=False
        )
        for axis, name in zip("xy", names, strict=True)
    }
    places = {
        "x": alt.X("left_middle:Q", scale=unit_scale(), axis=axes["x"]),
        "y": alt.Y("right_middle:Q", scale=unit_scale(), axis=axes["y"]),
    }
    ends = [{"left_middle": end, "right_middle": end} for end in (0, 1)]
    diagonal = alt.Chart(data(ends)).mark_line(color="gray", strokeDash=[4, 4], strokeWidth=1)
    size = alt.Size(
        "n:Q",
        scale=alt.Scale(domain=[0, most], range=[_SMALLEST, (0.92 * side / N_BINS) ** 2]),
        legend=None,
    )
    tone = str(CORRECT if agree else ABSTAINED)
    squares = alt.Chart(data(placed)).mark_point(shape="square", filled=True, opacity=1, color=tone)
    layers = [diagonal.encode(**places)]
    layers += [squares.encode(**places, size=size)] if placed else []
    return alt.layer(*layers).properties(width=side, height=side)


def _bins(table: Table, stated: BoolArray) -> IntArray:
    """Return the bin of every confidence; the last one holds 1 as well.

    A hair more, so that 0.7 · 10 is not taken for less than 7.
    """
    filled = np.where(stated, table.confidence, 0.0)
    return np.minimum(np.floor(filled * N_BINS + 1e-9).astype(np.int64), N_BINS - 1)


def in_bin(confidence: FloatArray, low: float) -> BoolArray:
    """Tell which confidences lie in the bin that begins at a number."""
    found: BoolArray = np.floor(confidence * N_BINS + 1e-9) == round(low * N_BINS)
    return found | (confidence == 1.0) if round(low * N_BINS) == N_BINS - 1 else found
