"""Labels that may be wrong: the risk corrected for known flip rates, and when two runs swap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import optimize

from krisis.errors import InvalidValue
from krisis.metrics.items import RunItems
from krisis.metrics.labels import Label, canonical_label
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Units
from krisis.statistics.group_gaps import student_interval
from krisis.statistics.intervals import Interval
from krisis.statistics.shares import share_interval

_N_STEPS = 1000


@dataclass(frozen=True, slots=True)
class FlipRates:
    """How often a label is wrong: one rate, or one for every true answer.

    A wrong label is any other answer with one chance, whatever the model answered.
    """

    rate: float = 0.0
    by_label: Mapping[Label, float] | None = None

    @classmethod
    def parsed(cls, text: str) -> FlipRates:
        """Read ``0.05`` or ``0:0.02,1:0.08``."""
        parts = [part.strip() for part in text.split(",")]
        try:
            if ":" not in text:
                return cls(_rate(text))
            pairs = [part.rpartition(":") for part in parts]
            found = {canonical_label(label): _rate(rate) for label, _, rate in pairs}
        except ValueError:
            raise InvalidValue(
                f"--flip-rate must be a number from 0 up to 1, or one for every answer such as "
                f"0:0.02,1:0.08, not {text!r}"
            ) from None
        if len(found) < len(parts):
            raise InvalidValue(f"--flip-rate names an answer twice: {text}; name each once")
        return cls(by_label=found)

    def matrix(self, labels: Sequence[Label], scale: float = 1.0) -> FloatArray:
        """Return the chance of every label given every true answer (truths × labels)."""
        for label in self.by_label or {}:
            if label not in labels:
                known = ", ".join(map(str, labels))
                raise InvalidValue(f"--flip-rate names {label!r}, which is no answer; use {known}")
        rates = np.array([(self.by_label or {}).get(one, self.rate) for one in labels]) * scale
        others = rates / max(1, len(labels) - 1)
        return np.diag(1 - rates - others) + others[:, None]


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 <= rate < 1:
        raise ValueError
    return rate


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Answered rows as codes of labels: what was answered (−1: none of them), label, patient."""

    labels: Sequence[Label]
    answer: IntArray
    label: IntArray
    patient: IntArray

    @classmethod
    def of(cls, run: RunItems, rows: BoolArray | IntArray) -> Judged:
        """Take some answered rows of a run."""
        table = run.table
        known = [canonical_label(one) for one in table.answers.allowed]
        given = table.truth if known else np.arange(len(table.labels))
        seen = {table.labels[code] for code in np.unique(given).tolist()}
        labels = [*known, *sorted(seen - set(known), key=str)]
        code = np.array([labels.index(x) if x in labels else -1 for x in table.labels] + [-1])
        return cls(
            labels, code[table.prediction[rows]], code[table.truth[rows]], table.patients.code[rows]
        )

    @property
    def counts(self) -> FloatArray:
        """Count the rows of every answer (the last: none of the labels) and label."""
        k = len(self.labels)
        flat = np.bincount((self.answer % (k + 1)) * k + self.label, minlength=(k + 1) * k)
        return flat.reshape(k + 1, k).astype(np.float64)

    def losses(self, chance: FloatArray) -> FloatArray:
        """Return the loss of every answer and label whose mean is the risk against the truth."""
        k = len(self.labels)
        wrong = np.vstack([1 - np.eye(k), np.ones(k)])
        return np.asarray(np.linalg.solve(chance, wrong.T).T)

    def risk(self, chance: FloatArray) -> float:
        """Return the corrected risk, which may lie outside 0 and 1."""
        counts = self.counts
        return float((counts * self.losses(chance)).sum() / counts.sum())

    def possible(self, chance: FloatArray) -> bool:
        """Tell whether any true answers could give these labels at these flip rates."""
        if np.linalg.det(chance) < 1e-6:
            return False
        share = self.counts.sum(axis=0) / self.counts.sum()
        return bool((np.linalg.solve(chance.T, share) >= -1e-9).all())


@dataclass(frozen=True, slots=True)
class CorrectedRisk:
    """A risk corrected for flip rates; ``unbounded`` is the estimate before it is kept in 0 to 1.

    ``any_low`` and ``any_high`` bound it when nothing is known of the wrong labels but their share.
    """

    flip_rate: float | None
    risk: float
    low: float
    high: float
    unbounded: float
    possible: bool
    any_low: float
    any_high: float


def corrected_risk(judged: Judged, rates: FlipRates, level: float = 0.95) -> CorrectedRisk:
    """Return the risk against the true answers, from the risk against labels with flip rates.

    Every row counts T⁻¹ℓ, T being the chance of each label given each truth and ℓ the losses of
    its answer: its mean is the true risk where labels flip independently of the answer.

    Reference: Natarajan, Dhillon, Ravikumar and Tewari, Learning with noisy labels, NeurIPS 2013.
    """
    if len(judged.labels) < 2:
        raise InvalidValue("a label can only be wrong where there are two answers or more")
    chance = rates.matrix(judged.labels)
    for label in judged.labels:
        if rates.by_label is not None and label not in rates.by_label:
            raise InvalidValue(
                f"--flip-rate has no rate for the answer {label!r}; give one for every answer, 0 "
                "where its labels are never wrong"
            )
    if np.linalg.det(chance) < 1e-6:
        raise InvalidValue(
            "with these flip rates the labels say nothing of the truth; for two answers they must "
            "add up to less than 1, for K answers one rate must be below 1 − 1/K"
        )
    losses = judged.losses(chance)
    risk = judged.risk(chance)
    interval = _interval(judged, losses, level).clipped(0.0, 1.0)
    wrong = float((judged.answer != judged.label).mean())
    most = rates.rate if rates.by_label is None else max(rates.by_label.values())
    return CorrectedRisk(
        rates.rate if rates.by_label is None else None,
        min(1.0, max(0.0, risk)),
        interval.low,
        interval.high,
        risk,
        judged.possible(chance),
        max(0.0, wrong - most),
        min(1.0, wrong + most),
    )


def _interval(judged: Judged, losses: FloatArray, level: float) -> Interval:
    """Map the interval of the observed risk where that is possible, else use Student's t."""
    units = Units(judged.patient, int(judged.patient.max()) + 1)
    value = losses[judged.answer, judged.label]
    wrong = judged.answer != judged.label
    rows = units.sums(np.ones(value.size))
    low, high = float(losses[0, 0]), float(losses[0, 1])
    if np.allclose(value, np.where(wrong, high, low)):
        share = share_interval(units.sums(wrong), rows, level=level)
        ends = [low + (high - low) * end for end in (share.low, share.high)]
        return Interval(ends[0], ends[1], level, share.method)
    return student_interval(units.sums(value)[rows > 0], rows[rows > 0], level)


def swapping_rate(left: Judged, right: Judged, flips: FlipRates) -> tuple[float | None, float]:
    """Return the least flip rate at which two runs change order, and the largest possible one.

    The rate is a factor on ``flips``. None where the order never changes.
    """

    def difference(rate: float) -> float:
        chance = flips.matrix(left.labels, rate)
        return left.risk(chance) - right.risk(chance)

    steps = (np.arange(_N_STEPS) / _N_STEPS).tolist()
    fits = [left.possible(flips.matrix(left.labels, rate)) for rate in steps]
    possible = steps[: fits.index(False) if False in fits else None]
    first = difference(0.0)
    for low, high in pairwise(possible):
        if difference(high) * first < 0:
            return float(optimize.brentq(difference, low, high, xtol=1e-12)), possible[-1]
    return None, possible[-1]
