"""The groups that rows are shown by: those of the task, and what any suite may state."""

from __future__ import annotations

import math

from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.table import Answers

_GENERAL = ("sex", "age_band", "item", "site")
_AGE_BANDS = ((0, 18), (18, 40), (40, 60), (60, 75), (75, 200))


def group_columns(rows: Rows) -> dict[str, list[str]]:
    """Return the group of every scored row under each heading that the metadata support.

    The headings are the groups of the task, and what any suite may state in its metadata.
    """
    scored = rows.table.rows
    labels = {
        heading: [group_label(row, heading, key) for row in scored]
        for heading, key in group_headings(rows.answers).items()
    }
    return {heading: groups for heading, groups in labels.items() if len(set(groups)) > 1}


def group_headings(answers: Answers | None) -> dict[str, str]:
    """Return every heading that rows may be grouped under, with its metadata key."""
    groups = (answers or Answers()).groups
    found = {**groups, **{name: name for name in _GENERAL if name not in groups}}
    return {**{name.replace("_", " "): key for name, key in found.items()}, "source": "synthetic"}


def group_words(column: str, group: str) -> str:
    """Name a group of a table, such as ``sex_male`` of the column ``sex``, in words.

    >>> group_words("age_band", "age_band_60–74"), group_words("site", "site_A_1")
    ('age band: 60–74', 'site: A_1')
    """
    heading = column.replace("_", " ")
    if group == f"unknown_{column}":
        return f"{heading}: not stated"
    value = group.removeprefix(f"{column}_")
    return f"{heading}: {value}" if value != group else group


def group_label(row: EvaluationResult, heading: str, key: str) -> str:
    """Return the group of a row under a heading."""
    if heading == "source":
        return _source(row) or "not stated"
    if key == "age_band":
        return _age_band(row) or "not stated"
    return group_of(row, heading.replace(" ", "_"), key) or "not stated"


def group_of(row: EvaluationResult, name: str, key: str) -> str:
    """Return the group that the metadata of a row give under a key, or under its name."""
    value = row.metadata.get(key, row.metadata.get(name))
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _source(row: EvaluationResult) -> str:
    synthetic = row.metadata.get("synthetic")
    return {True: "synthetic", False: "real"}.get(synthetic, "") if synthetic is not None else ""


def _age_band(row: EvaluationResult) -> str:
    band = group_of(row, "age_band", "age_band")
    age = row.metadata.get("age")
    if band or isinstance(age, bool) or not isinstance(age, int | float) or not 0 <= age < 200:
        return band
    low, high = next(pair for pair in _AGE_BANDS if pair[0] <= age < pair[1])
    return f"{low}+" if high == 200 else f"{low}–{high - 1}"
