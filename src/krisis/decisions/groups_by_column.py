"""The groups that an audit compares: those of metadata columns, numbers divided into bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from krisis.decisions.run_sample import group_columns, groups_of
from krisis.errors import InvalidValue
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray

LARGEST_NUMBER_OF_GROUPS = 24
Parts = dict[str, BoolArray]


def columns_of(run: RunItems, by: Sequence[str]) -> tuple[dict[str, Parts], dict[str, str]]:
    """Return the rows of every group by column, and why other columns are skipped."""
    found: dict[str, Parts] = {}
    skipped: dict[str, str] = {}
    for named in by or run.table.answers.groups:
        column, *cuts = named.split(":")
        parts = _banded(run, column, cuts) if cuts else groups_of(run, [column])
        if column in found or column in skipped:
            raise InvalidValue(f"name every group once, not {', '.join(by)}")
        if len(parts) > LARGEST_NUMBER_OF_GROUPS:
            _refuse_many(run, column, len(parts))
        if len(parts) < 2:
            skipped[column] = f"all rows are in one group ({next(iter(parts), 'none')})"
        else:
            found[column] = parts
    if not by and not found:
        known = ", ".join(group_columns(run)) or "none"
        skipped["--by"] = f"name a metadata column with it; the rows have: {known}"
    return found, skipped


def _refuse_many(run: RunItems, column: str, n_groups: int) -> None:
    values = run.table.metadata(run.table.answers.groups.get(column, column))
    number = any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    mend = (
        f"divide it at numbers of your choice, for instance --by {column}:40:60"
        if number
        else "name a column with fewer"
    )
    raise InvalidValue(
        f"the column {column!r} has {n_groups} different values, of which at most "
        f"{LARGEST_NUMBER_OF_GROUPS} can be groups; {mend}"
    )


def _banded(run: RunItems, column: str, cuts: Sequence[str]) -> Parts:
    """Return the rows between the numbers at which a column of numbers is divided."""
    groups_of(run, [column])  # an unknown column is refused by name
    try:
        ends = [float(cut) for cut in cuts]
    except ValueError:
        ends = [math.nan]
    if not np.all(np.diff([-math.inf, *ends, math.inf]) > 0):
        raise InvalidValue(
            f"the column {column!r} must be divided at rising numbers, not {':'.join(cuts)!r}; "
            f"write for instance {column}:40:60"
        )
    given = run.table.metadata(run.table.answers.groups.get(column, column))
    numbers = [isinstance(v, int | float) and not isinstance(v, bool) for v in given]
    wrong = [v for v, number in zip(given, numbers, strict=True) if not number and v is not None]
    if wrong:
        raise InvalidValue(
            f"the column {column!r} holds {wrong[0]!r}, which is no number; omit {':'.join(cuts)}"
        )
    values = np.array([math.nan if v is None else v for v in given], dtype=np.float64)
    band = np.where(np.isnan(values), -1, np.searchsorted(ends, values, side="right"))
    shown = [f"{end:g}" for end in ends]
    between = [f"{low}–<{high}" for low, high in pairwise(shown)]
    names = [f"{column}_<{shown[0]}", *(f"{column}_{one}" for one in between)]
    names += [f"{column}_≥{shown[-1]}", f"unknown_{column}"]
    codes = [*range(len(ends) + 1), -1]
    pairs = zip(names, codes, strict=True)
    return {name: band == code for name, code in pairs if (band == code).any()}
