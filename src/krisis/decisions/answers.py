"""The answers that a run can give, and which of them is the positive one."""

from __future__ import annotations

import numpy as np

from krisis.answers import Label
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray


def answers_of(run: RunItems) -> list[Label]:
    """Return the answers of the task and those seen, each once."""
    return list(dict.fromkeys([*run.table.answers.keys, *run.table.labels]))


def positive_of(run: RunItems) -> Label | None:
    """Return the answer that means disease: that of the task, else 1 beside 0."""
    return run.table.answers.positive_key(run.table.labels) if run.table.labels else None


def is_positive(run: RunItems) -> BoolArray:
    """True where the true answer is the positive one."""
    positive = positive_of(run)
    if positive not in run.table.labels:
        return np.zeros(run.n_items, dtype=np.bool_)
    return np.asarray(run.table.truth == run.table.labels.index(positive))
