"""A sweep as a page: how each cell ended, and the runs of each task side by side and in pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from krisis.pages.shell import render
from krisis.pages.wording import number
from krisis.results.comparison.base import Comparison
from krisis.results.comparison.text import delta_cells, heading, pair_interval_heading, row_name
from krisis.results.side_by_side import Cell, SideBySide


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of one task on the same cases, what each took in time, tokens and cost, and,
    unless ``reason`` says why not, their comparison.
    """

    title: str
    table: SideBySide
    spending: Mapping[str, str]
    comparison: Comparison | None
    reason: str = ""


def sweep_html(name: str, cells: Sequence[tuple[str, str, str]], groups: Sequence[Group]) -> str:
    """Return the page as one self-contained file; a cell is its name, its end and its folder."""
    return render(
        "sweep.html",
        title=f"Sweep {name}",
        heading=f"Sweep of {len(cells)} runs",
        eyebrow=name,
        cells=cells,
        groups=[_shown(group) for group in groups],
    )


def _shown(group: Group) -> dict[str, object]:
    table, comparison = group.table, group.comparison
    return {
        "title": group.title,
        "headings": [column.heading for column in table.columns],
        "entries": [
            {
                "name": entry.name,
                "warnings": "; ".join(entry.warnings),
                "spending": group.spending[entry.name],
                "cells": [_words(entry.cells[column.name]) for column in table.columns],
            }
            for entry in table.entries
        ],
        "reason": group.reason,
        "words": heading(comparison).splitlines() if comparison else [],
        "n_permutations": comparison.n_permutations if comparison else 0,
        "pairs": [
            {
                "title": f"{pair.right} minus {pair.left}",
                "interval_heading": pair_interval_heading(pair),
                "lines": [
                    (
                        row_name(delta),
                        *delta_cells(delta)[2:],
                        delta.verdict(comparison.options.level),
                    )
                    for delta in pair.deltas.values()
                ],
            }
            for pair in comparison.pairs
        ]
        if comparison
        else [],
    }


def _words(cell: Cell) -> str:
    if math.isnan(cell.value):
        return "–"
    interval = cell.interval
    if interval is None or math.isnan(interval.low):
        return number(cell.value)
    return f"{number(cell.value)} ({interval.low:.2f} to {interval.high:.2f})"
