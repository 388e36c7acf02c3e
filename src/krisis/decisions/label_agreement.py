"""Two or more labels per row: how far they agree, and the risk against each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from krisis.decisions.run_sample import group_columns
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.items import RunItems
from krisis.metrics.labels import Label, canonical_label, is_label
from krisis.metrics.table import BoolArray
from krisis.statistics.agreement import krippendorff_alpha
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.shares import share_interval

TRUTH = "truth"
_N_RESAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAgreement:
    """Krippendorff's α of label columns, and the risk of the run against each of them."""

    columns: Sequence[str]
    alpha: float
    low: float
    high: float
    reason: str
    ordered: bool
    n_rows: int
    n_labels: int
    risks: Mapping[str, Mapping[str, float]]


def agreement_of(run: RunItems, columns: Sequence[str], seed: int) -> LabelAgreement:
    """Return the agreement of label columns; one alone is compared with the truth."""
    columns = list(columns)
    if len(set(columns)) < len(columns):
        raise InvalidValue(f"name every label column once, not {', '.join(columns)}")
    columns = [TRUTH, *columns] if len(columns) == 1 and columns != [TRUTH] else columns
    if len(columns) < 2:
        raise InvalidValue("agreement needs a label column beside the truth; name one")
    given = {column: _column(run, column) for column in columns}
    answers = run.table.answers
    known = list(answers.keys)
    seen = {value for values in given.values() for value in values if value is not None}
    new = sorted(seen - set(known), key=lambda v: (isinstance(v, str), v))
    ordered = bool(answers.ordered and not new)
    values = [*known, *new]
    code: dict[Label | None, int] = {None: -1}
    code |= {value: i for i, value in enumerate(values)}
    ratings = np.array([[code[v] for v in given[c]] for c in columns], dtype=np.int64).T
    paired = (ratings >= 0).sum(axis=1) >= 2
    if not paired.any():
        raise InvalidValue(f"no row has two of the labels {', '.join(columns)}")
    alpha, interval = krippendorff_alpha(
        ratings[paired],
        len(values),
        run.table.patients.code[paired],
        ordered=ordered,
        options=BootstrapOptions(n_resamples=_N_RESAMPLES, seed=seed),
    )
    same = "every label is the same, so that agreement beyond chance has no meaning"
    return LabelAgreement(
        columns=columns,
        alpha=alpha,
        low=interval.low,
        high=interval.high,
        reason=same if math.isnan(alpha) else interval.reason,
        ordered=ordered,
        n_rows=int(paired.sum()),
        n_labels=int((ratings[paired] >= 0).sum()),
        risks={column: _risk_against(run, given[column]) for column in columns},
    )


def _column(run: RunItems, column: str) -> list[Label | None]:
    """Return the labels of a column; None where one is missing."""
    table = run.table
    if column == TRUTH:
        return [table.labels[code] for code in table.truth.tolist()]
    if not any(column in row.metadata for row in table.rows):
        raise UnknownName.among("label column", column, [*group_columns(run), TRUTH])
    found: list[Label | None] = []
    for row, value in zip(table.rows, table.metadata(column), strict=True):
        missing = value is None or value == "" or (isinstance(value, float) and math.isnan(value))
        if not missing and not is_label(value):
            raise InvalidValue(
                f"{row.record_id}: the label {value!r} of the column {column!r} is neither a whole "
                "number nor a text; name a column of answers"
            )
        found.append(None if missing else canonical_label(value))
    return found


def _risk_against(run: RunItems, labels: Sequence[Label | None]) -> dict[str, float]:
    """Return the risk of the answers against some labels, with limits and rows."""
    table = run.table
    given: BoolArray = table.answered & np.array([label is not None for label in labels])
    answers = [table.labels[code] if code >= 0 else None for code in table.prediction.tolist()]
    wrong = given & np.array([a != b for a, b in zip(answers, labels, strict=True)])
    n = int(given.sum())
    if not n:
        return {"risk": math.nan, "low": math.nan, "high": math.nan, "n_rows": 0}
    interval = share_interval(table.patients.sums(wrong), table.patients.sums(given))
    risk = int(wrong.sum()) / n
    return {"risk": risk, "low": interval.low, "high": interval.high, "n_rows": n}


def agreement_lines(found: LabelAgreement) -> list[str]:
    """Return the agreement in words."""
    kind = "ordinal" if found.ordered else "nominal"
    names = ", ".join(found.columns)
    shown = f"{found.alpha:.3f} ({found.low:.3f} to {found.high:.3f})"
    if math.isnan(found.alpha):
        shown = f"undefined, {found.reason}"
    elif math.isnan(found.low):
        shown = f"{found.alpha:.3f} (no interval: {found.reason.replace('_', ' ')})"
    counts = f"{found.n_labels} labels of {found.n_rows} rows with two or more"
    lines = [f"agreement of {names}: Krippendorff's α ({kind}) {shown}; {counts}"]
    for column, risk in found.risks.items():
        value = "{risk:.4f} ({low:.4f} to {high:.4f}), {n_rows} answered rows".format(**risk)
        lines.append(f"  risk against {column}: {value if risk['n_rows'] else 'no answered row'}")
    return lines
