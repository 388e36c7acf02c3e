"""Confidence against confidence: how sure two runs were of the same cases, by who was right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Table

N_BINS = 10
_CELL, _SMALLEST = 24.0, 4.0
# Whether the left and the right run are right.
QUADRANTS = ((True, True), (True, False), (False, True), (False, False))


@dataclass(frozen=True, slots=True)
class Panel:
    """The cases that both, one or neither of two runs has right, binned by both confidences.

    ``cells`` have their place in a drawing of 240 × 240 whose area grows with the number of cases.
    """

    title: str
    left_right: bool
    right_right: bool
    n_rows: int
    n_without: int
    n_left_surer: int
    n_right_surer: int
    cells: list[JsonObject]


def confidence_panels(left: Table, right: Table, names: tuple[str, str]) -> list[Panel]:
    """Count the matched cases in 10 × 10 bins, for each of the four ways to be right."""
    stated = ~np.isnan(left.confidence + right.confidence)
    if not stated.any():
        return []
    titles = ("both right", f"only {names[0]} right", f"only {names[1]} right", "neither right")
    sides = [
        (left.correct if a else ~left.correct) & (right.correct if b else ~right.correct)
        for a, b in QUADRANTS
    ]
    code = N_BINS * _bins(left, stated) + _bins(right, stated)
    counts = [np.bincount(code[side & stated], minlength=N_BINS**2) for side in sides]
    most = max(int(count.max()) for count in counts)
    return [
        Panel(
            title,
            *quadrant,
            n_rows=int(side.sum()),
            n_without=int((side & ~stated).sum()),
            n_left_surer=int((side & (left.confidence > right.confidence)).sum()),
            n_right_surer=int((side & (left.confidence < right.confidence)).sum()),
            cells=[
                _cell(place, int(count[place]), most) for place in np.flatnonzero(count).tolist()
            ],
        )
        for title, quadrant, side, count in zip(titles, QUADRANTS, sides, counts, strict=True)
    ]


def _bins(table: Table, stated: BoolArray) -> IntArray:
    """Return the bin of every confidence; the last one holds 1 as well.

    A hair more, so that 0.7 · 10 is not taken for less than 7.
    """
    filled = np.where(stated, table.confidence, 0.0)
    return np.minimum(np.floor(filled * N_BINS + 1e-9).astype(np.int64), N_BINS - 1)


def _cell(place: int, n_rows: int, most: int) -> JsonObject:
    left, right = divmod(place, N_BINS)
    side = max(_SMALLEST, (_CELL - 2) * (n_rows / most) ** 0.5)
    return {
        "left": left / N_BINS,
        "right": right / N_BINS,
        "n_rows": n_rows,
        "x": round(_CELL * (left + 0.5) - side / 2, 1),
        "y": round(_CELL * (N_BINS - right - 0.5) - side / 2, 1),
        "side": round(side, 1),
        "frame_x": _CELL * left,
        "frame_y": _CELL * (N_BINS - 1 - right),
    }


def in_bin(confidence: FloatArray, low: float) -> BoolArray:
    """Tell which confidences lie in the bin that begins at a number."""
    found: BoolArray = np.floor(confidence * N_BINS + 1e-9) == round(low * N_BINS)
    return found | (confidence == 1.0) if round(low * N_BINS) == N_BINS - 1 else found
