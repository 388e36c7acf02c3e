"""Figures of ranked answers from the masses of right and wrong answers, many draws at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidValue, UnknownName

FloatArray = NDArray[np.float64]

FigureKind = Literal[
    "brier",
    "mean_loss",
    "risk",
    "aurc",
    "augrc",
    "aurc_normalized",
    "augrc_normalized",
    "aurc_optimal",
    "augrc_optimal",
    "eaurc",
    "eaugrc",
]
_WITH_COVERAGE = ("risk", "aurc", "augrc")
# Coverages are ratios of sums: so near to the coverage asked for counts as reached.
_REACHED = 1 - 1e-12


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of answers ranked by confidence.

    ``risk`` needs a ``coverage``: that of the first plateau which covers so many of all rows.
    ``aurc`` and ``augrc`` may have one, at which the area is cut. The normalised areas are as if
    every row had been answered; ``eaurc`` and ``eaugrc`` are the excess over the optimal ranking.
    """

    kind: FigureKind
    coverage: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(FigureKind):
            raise UnknownName.among("figure", self.kind, get_args(FigureKind))
        if self.coverage is None:
            if self.kind == "risk":
                raise InvalidValue("the figure 'risk' needs a coverage, such as 0.8")
        elif self.kind not in _WITH_COVERAGE or not 0 < self.coverage <= 1:
            raise InvalidValue(
                f"{self.kind!r} at coverage {self.coverage!r} is no figure; only "
                f"{', '.join(_WITH_COVERAGE)} have a coverage, above 0 and at most 1"
            )

    @property
    def needs_losses(self) -> bool:
        """Tell whether the optimal ranking is part of the figure."""
        return self.kind in ("aurc_optimal", "augrc_optimal", "eaurc", "eaugrc")

    @property
    def lowest(self) -> float:
        """The least value; the excess of tied answers over a ranking without ties can be below 0.

        Multiplied with the largest loss, as is the greatest value, 1.
        """
        return -1.0 if self.kind in ("eaurc", "eaugrc") else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Masses:
    """Of every draw (column), the shares of the answers by falling confidence.

    ``accepted`` and ``lost`` are cumulated over the plateaus: the share of the answers that is as
    confident as this, and its loss. ``answer_rate`` is the share of rows with an answer, ``brier``
    the score itself, ``wrong`` the share of the answers at each of the ``losses`` above 0, rising.
    """

    accepted: FloatArray
    lost: FloatArray
    answer_rate: FloatArray
    brier: FloatArray
    losses: FloatArray
    wrong: FloatArray

    def values(self, figures: Mapping[str, Figure]) -> dict[str, FloatArray]:
        """Return one value per draw for every figure."""
        return {name: self.value(figure) for name, figure in figures.items()}

    def value(self, figure: Figure) -> FloatArray:
        """Return one value per draw; the risk at a coverage never reached is that of all answers.

        With r = L/A: AURC = a Σ ΔA (r_k + r_{k−1})/2, flat before the first plateau;
        AUGRC = a² Σ ΔA (L_k + L_{k−1})/2, rising from 0.
        """
        kind = figure.kind
        found: FloatArray
        if kind == "brier":
            found = self.brier
        elif kind == "mean_loss":
            found = self.lost[-1]
        elif kind == "risk":
            found = self._risk_at(figure.coverage or 1.0)
        elif figure.coverage is not None:
            found = self._cut_area(kind, figure.coverage)
        elif kind.endswith("optimal"):
            found = self._optimal(kind)
        elif kind.endswith("normalized"):
            found = self._area(kind)
        else:
            found = self._area(kind) * self.answer_rate ** _powers(kind)
        return found - self._optimal(kind) if kind in ("eaurc", "eaugrc") else found

    def _area(self, kind: str) -> FloatArray:
        """Return the area as if every row had been answered."""
        selective = "aurc" in kind
        height = self._risk() if selective else self.lost
        first = height[0] if selective else 0.0
        area: FloatArray = self.accepted[0] * (height[0] + first) / 2
        if len(height) > 1:
            widths = np.diff(self.accepted, axis=0)
            area = area + np.einsum("kb,kb->b", widths, height[1:] + height[:-1]) / 2
        return area

    def _risk(self) -> FloatArray:
        """Return the risk of every plateau; before the first that was drawn, that of the first."""
        if self.accepted[0].all():
            risk: FloatArray = self.lost / self.accepted
            return risk
        drawn = self.accepted > 0
        first = np.argmax(drawn, axis=0)[None, :]
        lost, accepted = (np.take_along_axis(a, first, 0) for a in (self.lost, self.accepted))
        risk = np.broadcast_to(lost / accepted, drawn.shape).copy()
        return np.divide(self.lost, self.accepted, out=risk, where=drawn)

    def _risk_at(self, coverage: float) -> FloatArray:
        n_below = np.count_nonzero(
            self.accepted * self.answer_rate < coverage * _REACHED, axis=0, keepdims=True
        )
        place = np.minimum(n_below, len(self.accepted) - 1)
        lost, accepted = (np.take_along_axis(a, place, 0)[0] for a in (self.lost, self.accepted))
        risk: FloatArray = lost / accepted
        return risk

    def reaches(self, coverage: float) -> bool:
        """Tell whether the first draw covers so many rows at all."""
        return float(self.answer_rate[0]) >= coverage * _REACHED

    def _cut_area(self, kind: str, coverage: float) -> FloatArray:
        """Return the area up to a coverage, the last part by linear interpolation."""
        x = self.accepted * self.answer_rate
        y = self._risk() if kind == "aurc" else self.lost * self.answer_rate
        before_x = np.vstack([np.zeros_like(x[:1]), x[:-1]])
        before_y = np.vstack([y[:1] if kind == "aurc" else np.zeros_like(y[:1]), y[:-1]])
        step = x - before_x
        width = np.clip(coverage - before_x, 0.0, step)
        # The height where the part ends is y₀ + (y − y₀)·width/step.
        end = before_y + (y - before_y) * np.divide(width, step, where=step > 0, out=step * 0)
        area: FloatArray = np.einsum("kb,kb->b", width, before_y + end) / 2
        return area

    def _optimal(self, kind: str) -> FloatArray:
        """Return the area if answers came in the order of their loss.

        From A₀ to A₁ answers of loss ℓ follow: L = L₀ + ℓ(A − A₀), and the integral of L/A is
        ℓ(A₁ − A₀) + (L₀ − ℓA₀) ln(A₁/A₀).
        """
        accepted = 1 - self.wrong.sum(axis=0)
        lost, area = np.zeros_like(accepted), np.zeros_like(accepted)
        for loss, share in zip(self.losses, self.wrong, strict=True):
            end = accepted + share
            if "aurc" in kind:
                with np.errstate(divide="ignore", invalid="ignore"):
                    log = (lost - loss * accepted) * np.log(end / accepted)
                area += loss * share + np.where((accepted > 0) & (share > 0), log, 0.0)
            else:
                area += share * (lost + loss * share / 2)
            accepted, lost = end, lost + loss * share
        optimal: FloatArray = area * self.answer_rate ** _powers(kind)
        return optimal


def _powers(kind: str) -> int:
    return 2 if "augrc" in kind else 1


def optimal_areas(loss: FloatArray, n_rows: float) -> dict[str, float]:
    """Return the areas of answers ranked by their loss, none tied, among ``n_rows`` rows."""
    if loss.size == 0:
        return {"aurc_optimal": math.nan, "augrc_optimal": math.nan}
    lost = np.cumsum(np.sort(loss))
    risk = lost / np.arange(1, loss.size + 1)
    aurc = float(risk.sum() + (risk[0] - risk[-1]) / 2)
    augrc = float(lost.sum() - lost[-1] / 2)
    return {"aurc_optimal": aurc / n_rows, "augrc_optimal": augrc / n_rows**2}
