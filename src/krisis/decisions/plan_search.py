"""The search for a size: where the power is reached, computed or drawn, and what to ask for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from krisis.decisions.plan_answer import MOST_PATIENTS, Point, Study
from krisis.decisions.plan_patients import Patients
from krisis.decisions.plan_pilot import Pilot
from krisis.errors import InvalidValue

Power = Callable[[int], float]
_AROUND = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5)


@dataclass(frozen=True, slots=True)
class Asked:
    """How patients that count become patients and rows to ask."""

    patients: Patients
    pilot: Pilot | None

    def point(self, n_counted: int, power: float) -> Point:
        """Return what to ask so that so many patients count."""
        share = 1.0 if self.pilot is None else self.pilot.counted_patients
        return self.asked(math.ceil(n_counted / share - 1e-9), power)

    def asked(self, n_asked: int, power: float) -> Point:
        """Return the rows that so many patients are asked, failed ones among them."""
        rows = self.patients.mean_size
        if self.pilot is not None:
            rows *= self.pilot.counted_patients * self.pilot.rows_asked_per_counted
        return Point(n_asked, math.ceil(n_asked * rows - 1e-6), power)

    def n_counted(self, n_asked: int) -> int:
        """Return how many of the patients asked bring a row that counts."""
        share = 1.0 if self.pilot is None else self.pilot.counted_patients
        return max(1, math.floor(n_asked * share + 1e-9))


def smallest(power: Power, target: float, *, start: int, exact: Callable[[int], bool]) -> int:
    """Return the smallest number of patients from which on the power is reached.

    Where it is computed, it goes up and down a little with every patient more: the answer is the
    one after the last that misses. Where it is drawn, a line through the probits of several sizes
    steadies it.
    """
    high = max(2, start)
    while high > MOST_PATIENTS or power(high) < target:
        high = 2 * high
        if high > MOST_PATIENTS:
            raise InvalidValue(f"more than {MOST_PATIENTS:,} patients are needed; ask for less")
    low = high // 2 if power(high // 2) < target else 1
    while high - low > max(1, 0 if exact(high) else high // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if power(middle) < target else (low, middle)
    if not exact(high):
        return _steadied(power, target, high)
    reach = min(60, max(8, high // 25))
    window = range(high + reach, max(0, high - reach), -1)
    return next((n + 1 for n in window if power(n) < target), window[-1])


def _steadied(power: Power, target: float, near: int) -> int:
    """Fit probit(power) = a + b√n around a size and return where it reaches the target.

    The sizes lie so near that the power is between the middle of its way and its end.
    """
    for reach in (0.15, 0.08, 0.04, 0.02):
        low, high = (power(max(2, round(near * share))) for share in (1 - reach, 1 + reach))
        if low > target / 2 and high < (1 + target) / 2:
            break
    places = np.linspace(1 - reach, 1 + reach, 6)
    sizes = sorted({max(2, round(near * share)) for share in places.tolist()})
    if len(sizes) < 4:
        return near
    reached = np.clip([power(n) for n in sizes], 1e-4, 1 - 1e-4)
    slope, base = map(float, np.polyfit(np.sqrt(sizes), special.ndtri(reached), 1))
    if slope <= 0:
        return near
    return max(2, math.ceil(((float(special.ndtri(target)) - base) / slope) ** 2 - 1e-9))


def answered(
    study: Study,
    power: Power,
    start: int,
    asked: Asked,
    *,
    exact: Callable[[int], bool],
    confirmed: Power,
) -> tuple[Point, tuple[Point, ...]]:
    """Return the answer, given or found, with its ``confirmed`` power, and the power around it."""
    if study.n_patients is not None:
        found = asked.n_counted(study.n_patients)
        point = asked.asked(study.n_patients, confirmed(found))
    else:
        found = smallest(power, study.power, start=start, exact=exact)
        point = asked.point(found, confirmed(found))
    sizes = sorted({max(1, round(found * share)) for share in _AROUND})
    around = [asked.point(n, power(n)) for n in sizes if n != found]
    return point, tuple(sorted((point, *around), key=lambda one: one.n_patients))
