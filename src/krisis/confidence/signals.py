"""The signals that confidence is made from: their range, what a null means, strict reading."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NoReturn

import numpy as np

from krisis.errors import InvalidValue, MissingSignal
from krisis.json_values import JsonValue
from krisis.metrics.items import STATED, RunItems
from krisis.metrics.table import FloatArray


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal: its range, what a null stands for, and what a calibrator takes for a missing one.

    ``null_means`` None is nothing. ``missing`` claims no confidence: a number, or the ``lowest``,
    ``highest`` or ``mean`` value among the items that a calibrator is fitted on. ``asked_by`` is
    the way of asking that a run must have been made with.
    """

    lowest: float = -math.inf
    highest: float = math.inf
    null_means: float | None = None
    missing: float | Literal["lowest", "highest", "mean"] = "mean"
    asked_by: str = ""

    def default_among(self, values: FloatArray) -> float:
        """Return what is taken where an item lacks the signal, NaN among the values."""
        if not isinstance(self.missing, str):
            return self.missing
        known = values[np.isfinite(values)]  # what is no number is refused when features are read
        if not known.size:
            return 0.0
        chosen = {"lowest": known.min(), "highest": known.max(), "mean": known.mean()}
        return float(chosen[self.missing])

    @property
    def bounded(self) -> bool:
        """Tell whether the signal has a scale of its own."""
        return math.isfinite(self.lowest) and math.isfinite(self.highest)

    @property
    def scale(self) -> tuple[float, float]:
        """Return the ends of the scale."""
        return self.lowest, self.highest


SIGNALS: dict[str, Signal] = {
    "llm_evidence_count": Signal(0, missing=0.0),
    "retrieval_reference_count": Signal(0, missing=0.0),
    "retrieval_similarity_mean": Signal(null_means=0.0, missing=0.0),
    "retrieval_similarity_max": Signal(null_means=0.0, missing=0.0),
    "verbalized_confidence": Signal(1, 5, null_means=3.0, missing=3.0),
    "token_msp": Signal(0, 1, missing=0.5),
    "token_pe": Signal(0, missing="highest"),
    "token_energy": Signal(missing="lowest"),
    "consistency_modal_confidence": Signal(0, 1, missing=0.5),
    "consistency_score_std": Signal(0, missing="highest"),
    STATED: Signal(0, 1, missing=0.5),
    "rationale_confidence": Signal(0, 1, missing=0.5, asked_by="rationale"),
    "p_true_confidence": Signal(0, 1, missing=0.5, asked_by="p-true"),
    "top_k_confidence": Signal(0, 1, missing=0.5, asked_by="top-k"),
    "two_step_confidence": Signal(0, 1, missing=0.5, asked_by="two-step"),
}


def signal_of(name: str) -> Signal:
    """Return what is known of a signal; one that krisis does not know may have any value."""
    return SIGNALS.get(name, Signal())


def signal_values(
    run: RunItems, name: str, *, needed_by: str, missing: float | None = None
) -> FloatArray:
    """Return a signal of every predicted item; anything that is no number in range is refused.

    ``missing`` stands for the signal where an item lacks it or has a null.
    """
    signal, rows, raw = signal_of(name), np.flatnonzero(run.predicted), _cells(run, name)
    values = np.array([_as_number(value) for value in raw], dtype=np.float64)
    is_null = np.array([value is None for value in raw], dtype=np.bool_)
    instead = signal.null_means if missing is None else missing
    if missing is None:
        for index in rows[is_null].tolist():
            _refuse_lacking(run, index, name, needed_by)
            if instead is None:  # a null, which is refused below
                break
    if instead is not None:
        values = np.where(is_null, instead, values)
    wrong = ~np.isfinite(values) | (values < signal.lowest) | (values > signal.highest)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        _complain(run, int(rows[first]), name, raw[first], needed_by=needed_by)
    return values


def _cells(run: RunItems, name: str) -> list[JsonValue]:
    """Return what every predicted item has for a signal, None where it has nothing."""
    column = run.signal(name)
    if column is None:  # an item holds something that is no number
        return [run.signals[index].get(name) for index in np.flatnonzero(run.predicted).tolist()]
    return [None if math.isnan(one) else one for one in column[run.predicted].tolist()]


def require_signal(run: RunItems, name: str, *, needed_by: str) -> None:
    """Refuse a run in which a predicted item does not carry a signal, not even a null."""
    for index in np.flatnonzero(run.predicted & ~run.given(name)).tolist():
        _refuse_lacking(run, index, name, needed_by)


def _refuse_lacking(run: RunItems, index: int, name: str, needed_by: str) -> None:
    if run.lacks(name, index):
        way = signal_of(name).asked_by
        advice = f"a run made with --elicit {way}" if way else "a run that recorded it"
        raise MissingSignal(
            f"{run.place(index)}: the signal {name} is missing and {needed_by} needs it; "
            f"choose another variant or {advice}"
        )


def default_for_missing(run: RunItems, name: str) -> float:
    """Return what a calibrator fitted on a run takes where an item lacks the signal."""
    values = np.array([_as_number(value) for value in _cells(run, name)], dtype=np.float64)
    return signal_of(name).default_among(values)


def n_missing(run: RunItems, name: str) -> int:
    """Count the predicted items that lack a signal or have a null."""
    return int(np.count_nonzero(run.predicted & ~run.given(name)))


def _as_number(value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # JSON holds whole numbers of any length
        return math.inf


def _complain(
    run: RunItems, index: int, name: str, value: JsonValue, *, needed_by: str
) -> NoReturn:
    signal = signal_of(name)
    if not run.given(name)[run.predicted].any():
        raise InvalidValue(
            f"no answer has the signal {name}, which {needed_by} needs; choose another variant or "
            "a run whose backend returned it"
        )
    if value is None:
        raise InvalidValue(
            f"{run.place(index)}: the signal {name} is null and {needed_by} needs a number; "
            "choose another variant or a run whose backend returned it"
        )
    ends = [
        f"at least {signal.lowest:g}" if math.isfinite(signal.lowest) else "",
        f"at most {signal.highest:g}" if math.isfinite(signal.highest) else "",
    ]
    wanted = " and ".join(["a finite number", *filter(None, ends)])
    raise InvalidValue(
        f"{run.place(index)}: the signal {name} must be {wanted}, not {value!r}, for {needed_by}"
    )


def known_signals(run: RunItems) -> list[str]:
    """Return the names of the signals that any predicted item has, a null with a meaning too."""
    names = {*run.table.columns.signal_names(), STATED}
    meant = {name for name, signal in SIGNALS.items() if signal.null_means is not None}
    return sorted(n for n in names if n in meant or (run.predicted & run.given(n)).any())
