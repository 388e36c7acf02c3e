"""A forest as cells of a table: in each row a figure with its interval, all on one scale.

The figure is written in the next cell, so that a strip is for the eye alone and assistive
technology passes over it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from krisis.pages.numbers import Estimate, decimal

_WIDTH, _HEIGHT, _MARGIN = 300.0, 26.0, 12.0
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_LABELS = 5


@dataclass(frozen=True, slots=True)
class Strip:
    """The scale that the rows of a forest share; ``ticks`` are baselines, drawn in every row."""

    low: float
    high: float
    ticks: Sequence[float] = ()

    @classmethod
    def over(cls, estimates: Iterable[Estimate], ticks: Iterable[float] = ()) -> Strip:
        """Return the scale of all figures and intervals, and of baselines that are not far off.

        >>> Strip.over([Estimate(0.5, 0.4, 0.6)], [0.3, -7.0, math.nan])
        Strip(low=0.3, high=0.6, ticks=(0.3,))
        """
        ends = [end for one in estimates for end in (one.value, one.low, one.high)]
        known = [end for end in ends if math.isfinite(end)]
        baselines = [tick for tick in ticks if math.isfinite(tick)]
        low, high = min(known or baselines or [0.0]), max(known or baselines or [0.0])
        span = high - low or 0.5
        near = tuple(tick for tick in baselines if low - span <= tick <= high + span)
        low, high = min((low, *near)), max((high, *near))
        return cls(low, high, near) if high > low else cls(low - span, high + span, near)

    def row(self, estimate: Estimate, *, tick: bool = False) -> str:
        """Draw a figure as a dot with its interval; a baseline as a tick, or an arrow to it."""
        marks = [_line(self._x(one), self._x(one), 0, _HEIGHT, "tick") for one in self.ticks]
        middle = _HEIGHT / 2
        if estimate.has_interval:
            marks.append(
                _line(self._x(estimate.low), self._x(estimate.high), middle, middle, "bar")
            )
        if math.isfinite(estimate.value):
            marks.append(self._tick(estimate.value) if tick else _dot(self._x(estimate.value)))
        return _svg(marks)

    def _tick(self, value: float) -> str:
        x, middle = self._x(value), _HEIGHT / 2
        if self.low <= value <= self.high:
            return _line(x, x, 4, _HEIGHT - 4, "baseline")
        back = 8 if value < self.low else -8
        points = f"{x:g},{middle:g} {x + back:g},{middle - 6:g} {x + back:g},{middle + 6:g}"
        return f'<polygon class="baseline" points="{points}"/>'

    @classmethod
    def dumbbell(cls, first: Estimate, second: Estimate) -> str:
        """Draw two figures of one metric, the first hollow, with ticks at 0 and 1."""
        known = [one.value for one in (first, second) if math.isfinite(one.value)]
        strip = cls(min(0.0, *known), max(1.0, *known), (0.0, 1.0)) if known else cls(0.0, 1.0)
        marks = [_line(strip._x(one), strip._x(one), 4, _HEIGHT - 4, "tick") for one in strip.ticks]
        places = [strip._x(value) for value in known]
        if len(places) == 2:
            marks.append(_line(places[0], places[1], _HEIGHT / 2, _HEIGHT / 2, "bar"))
        for one, kind in ((first, "dot hollow"), (second, "dot")):
            if math.isfinite(one.value):
                marks.append(_dot(strip._x(one.value), kind))
        return _svg(marks)

    def axis(self) -> str:
        """Draw the numbers of the scale."""
        step = self._step()
        places = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        decimals = next(n for n in range(20) if math.isclose(round(step, n), step))
        return _svg(
            f'<text x="{self._x(step * place):.1f}" y="20" text-anchor="middle">'
            f"{decimal(step * place, decimals)}</text>"
            for place in places
        )

    def _step(self) -> float:
        rough = (self.high - self.low) / _MOST_LABELS
        scale = 10.0 ** math.floor(math.log10(rough))
        return next(one * scale for one in _STEPS if one * scale >= rough * (1 - 1e-9))

    def _x(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return _MARGIN + (_WIDTH - 2 * _MARGIN) * min(1.0, max(0.0, share))


def _dot(x: float, kind: str = "dot") -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{_HEIGHT / 2:g}" r="4.5"/>'


def _line(x1: float, x2: float, y1: float, y2: float, name: str) -> str:
    return f'<line class="{name}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:g}" y2="{y2:g}"/>'


def _svg(marks: Iterable[str]) -> str:
    box = f'viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}"'
    return f'<svg class="strip" {box} aria-hidden="true">{"".join(marks)}</svg>'
