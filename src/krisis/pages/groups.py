"""Groups of cases side by side: shares with intervals, and no figure for a handful of patients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from krisis.metrics.base import Rows
from krisis.metrics.forms import Share
from krisis.metrics.table import BoolArray, Table
from krisis.pages.numbers import Estimate
from krisis.results.group_labels import group_columns
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.group_gaps import SMALLEST_GROUP
from krisis.statistics.intervals import DEFAULT_LEVEL

MOST_GROUPS = 24  # of one heading
TOO_FEW = f"fewer than {SMALLEST_GROUP} patients"
RIGHT, ANSWERED, ALIGNED = "right when answered", "answered", "answered or deferred as due"
FIGURES = (RIGHT, ANSWERED, ALIGNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """A group under its heading: its cases, and its figures; a text says why one is missing.

    ``n`` is None for a group of too few patients, which is named and not counted. ``among`` is
    the number of cases that each figure is a share of.
    """

    by: str
    name: str
    n: int | None
    figures: dict[str, Estimate | str]
    among: dict[str, int]


def spaced(name: str) -> str:
    """Return the name of a group or reason as it is read.

    >>> spaced("sex_female")
    'sex female'
    """
    return name.replace("_", " ")


def group_figures(rows: Rows, level: float = DEFAULT_LEVEL) -> list[GroupFigures]:
    """Return every group that the metadata name, those most often wrong first."""
    table = rows.table
    found = []
    for heading, labels in group_columns(rows).items():
        names, codes = np.unique(np.array(labels), return_inverse=True)
        for code, name in enumerate(names[:MOST_GROUPS]):
            found.append(_figures(table, heading, str(name), codes == code, level))
    return sorted(found, key=_worst_first)


def overall_figures(rows: Rows) -> dict[str, float]:
    """Return the same figures of all cases; of a run without deferral labels without the last."""
    table = rows.table
    every = {name: _share(*one).value() for name, one in _parts(table, table.everyone).items()}
    return {name: value for name, value in every.items() if not math.isnan(value)}


def _parts(table: Table, inside: BoolArray) -> dict[str, tuple[BoolArray, BoolArray]]:
    """Return what each figure counts, and among which cases."""
    aligned = np.where(table.should_abstain == 1, table.abstained, table.answered)
    return {
        RIGHT: (table.correct, inside & table.answered),
        ANSWERED: (table.answered, inside),
        ALIGNED: (aligned, inside & (table.should_abstain >= 0)),
    }


def _share(hits: BoolArray, among: BoolArray) -> Share:
    return Share(hits, among=among)


def _figures(
    table: Table, heading: str, name: str, inside: BoolArray, level: float
) -> GroupFigures:
    figures, counts = dict[str, Estimate | str](), dict[str, int]()
    for figure, (hits, among) in _parts(table, inside).items():
        if _n_patients(table, among) < SMALLEST_GROUP:
            figures[figure] = TOO_FEW
            continue
        share = _share(hits, among)
        interval = share.uncertainty(table, BootstrapOptions(level=level)).interval
        figures[figure] = Estimate.of(share.value(), interval)
        counts[figure] = share.n_evaluated
    large = _n_patients(table, inside) >= SMALLEST_GROUP
    n = int(inside.sum()) if large else None
    return GroupFigures(by=heading, name=name, n=n, figures=figures, among=counts)


def _n_patients(table: Table, among: BoolArray) -> int:
    return int(np.unique(table.patients.code[among]).size)


def _worst_first(group: GroupFigures) -> float:
    right = group.figures[RIGHT]
    return 2.0 if isinstance(right, str) else right.value
