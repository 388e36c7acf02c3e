"""The parts that figures of several runs share: grids of panels, the key, names and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from krisis.json_values import JsonObject
from krisis.pages.figure import Chart, alt, data
from krisis.reporting.style import Look, Series

_LETTERS = 15  # of a panel's width, at least


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a kind of figure hands on: ``draw`` makes the chart for a width of its plots.

    ``reasons`` says of every run that is not drawn why; ``notes`` are lines under the title. Where
    runs are not named in the drawing, ``with_key`` asks for a key.
    """

    title: str
    reading: str
    draw: Callable[[float], Chart]
    table: Sequence[JsonObject]
    reasons: Mapping[str, str]
    notes: Sequence[str] = ()
    with_key: bool = False


def n_columns(look: Look, n_panels: int) -> int:
    """Return how many panels fit beside each other."""
    return max(1, min(n_panels, int(look.width // (_LETTERS * look.font))))


def grid(panels: Sequence[Chart], look: Look) -> Chart:
    """Return panels in rows from left to right."""
    columns = n_columns(look, len(panels))
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    made = [alt.hconcat(*row, spacing=look.font * 1.5) for row in rows]
    return alt.vconcat(*made, spacing=look.font * 1.5)


def panel_titles(titles: Mapping[str, Sequence[str]], look: Look) -> dict[str, Chart]:
    """Return the names of panels; in a row of the grid all have as many lines as the longest."""
    columns = n_columns(look, len(titles))
    names = list(titles)
    made: dict[str, Chart] = {}
    for start in range(0, len(names), columns):
        row = names[start : start + columns]
        n_lines = max(len(titles[name]) for name in row)
        made |= {name: _panel_title(titles[name], look, n_lines) for name in row}
    return made


def _panel_title(lines: Sequence[str], look: Look, n_lines: int) -> Chart:
    """Return the name of a panel over as many lines as its neighbours have."""
    padded = [*lines, *[" "] * (n_lines - len(lines))]
    return alt.TitleParams(
        padded, fontSize=look.font, fontWeight="normal", anchor="start", offset=look.font / 2
    )


def key_chart(marks: Mapping[str, Series], words: Mapping[str, str], look: Look) -> Chart:
    """Return a line of mark and words for every run."""
    height = look.font * 1.5
    width = look.width * 0.8
    lines = {name: look.broken(words[name], width) for name in marks}
    layers: list[Chart] = []
    below = 0.0
    for name, one in marks.items():
        middle = below + height / 2
        line = alt.Chart(data([{"run": name}]))
        ends = {"x": alt.value(0), "x2": alt.value(look.font * 3), "y": alt.value(middle)}
        dash = {"strokeDash": list(one.dash), "strokeWidth": look.stroke}
        layers.append(line.mark_rule(color=str(one.tone), **dash).encode(**ends))
        place = {"x": alt.value(look.font * 1.5), "y": alt.value(middle)}
        layers.append(line.mark_point(**point_of(one, look)).encode(**place))
        text = {"align": "left", "baseline": "middle", "lineHeight": height}
        for number, part in enumerate(lines[name]):
            place = {"x": alt.value(look.font * 3.7), "y": alt.value(middle + number * height)}
            shown = alt.Chart(data([{"words": part}])).mark_text(**text)
            layers.append(shown.encode(**place, text=alt.Text("words:N")))
        below += height * len(lines[name])
    # The words may be wider than the plots: the drawing is as wide as it must be.
    return alt.layer(*layers).properties(width=1, height=max(below, 1))


def point_of(one: Series, look: Look) -> JsonObject:
    """Return the mark of a run."""
    return {
        "shape": one.shape,
        "filled": True,
        "color": str(one.tone),
        "opacity": 1,
        "size": look.font**2 * 0.7,
        "stroke": look.ground,
        "strokeWidth": look.stroke / 3,
    }
