"""How large a study must be: a plan for the interval or the test that krisis itself will run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import special

from krisis.decisions.plan_answer import (
    MOST_PATIENTS,
    Plan,
    Point,
    Study,
    inputs,
    paired_assumptions,
    shared_assumptions,
    width_assumptions,
)
from krisis.decisions.plan_patients import Patients
from krisis.decisions.plan_pilot import N_RESAMPLES, Pilot
from krisis.decisions.plan_power import PairedQuestion, paired_power
from krisis.decisions.plan_resampled import resampled_power_plan, resampled_width_plan
from krisis.decisions.plan_width import (
    WidthQuestion,
    assurance,
    half_width_reached,
    stretched,
    wilson_assurance,
)
from krisis.errors import InvalidValue
from krisis.metrics.base import BaseMetric, EvaluationResult
from krisis.metrics.forms import Share
from krisis.metrics.table import Answers, Table
from krisis.statistics.bootstrap import MOST_POOLS

__all__ = [
    "PairedQuestion",
    "Patients",
    "Pilot",
    "Plan",
    "Study",
    "WidthQuestion",
    "plan_compare",
    "plan_estimate",
    "plan_non_inferior",
]

Power = Callable[[int], float]
_AROUND = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5)


def is_share(metric: BaseMetric) -> bool:
    """Tell whether a metric is a share of rows, whatever the rows."""
    rows = [
        EvaluationResult(
            int(i < 3), i % 2, i == 5, 0.8, record_id=str(i), metadata={"should_abstain": i > 3}
        )
        for i in range(6)
    ]
    answers = Answers((0, 1), positive=1)
    return isinstance(metric.comparison_form(Table(rows, answers)), Share)


@dataclass(frozen=True, slots=True)
class _Asked:
    """How patients that count become patients and rows to ask."""

    patients: Patients
    pilot: Pilot | None

    def point(self, n_counted: int, power: float) -> Point:
        share = 1.0 if self.pilot is None else self.pilot.counted_patients
        return self.asked(math.ceil(n_counted / share - 1e-9), power)

    def asked(self, n_asked: int, power: float) -> Point:
        rows = self.patients.mean_size
        if self.pilot is not None:
            rows *= self.pilot.counted_patients * self.pilot.rows_asked_per_counted
        return Point(n_asked, math.ceil(n_asked * rows - 1e-6), power)

    def n_counted(self, n_asked: int) -> int:
        share = 1.0 if self.pilot is None else self.pilot.counted_patients
        return max(1, math.floor(n_asked * share + 1e-9))


def smallest(power: Power, target: float, *, start: int, exact: Callable[[int], bool]) -> int:
    """Return the smallest number of patients from which on the power is reached.

    Where it is computed, it goes up and down a little with every patient more: the answer is the
    one after the last that misses. Where it is drawn, a line through the probits of several sizes
    steadies it.
    """
    high = max(2, start)
    while power(high) < target:
        high = 2 * high
        if high > MOST_PATIENTS:
            raise InvalidValue(
                f"more than {MOST_PATIENTS:,} patients would be needed; ask for less"
            )
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
    """Fit probit(power) = a + b√n around a size and return where it reaches the target."""
    sizes = sorted({max(2, round(near * share)) for share in (0.85, 0.92, 0.97, 1.03, 1.08, 1.15)})
    if len(sizes) < 4:
        return near
    reached = np.clip([power(n) for n in sizes], 1e-4, 1 - 1e-4)
    slope, base = map(float, np.polyfit(np.sqrt(sizes), special.ndtri(reached), 1))
    return max(2, math.ceil(((float(special.ndtri(target)) - base) / slope) ** 2 - 1e-9))


def _answer(
    study: Study, power: Power, start: int, asked: _Asked, exact: Callable[[int], bool]
) -> tuple[Point, tuple[Point, ...]]:
    """Return the answer, given or found, and the power around it."""
    if study.n_patients is not None:
        found = asked.n_counted(study.n_patients)
        point = asked.asked(study.n_patients, power(found))
    else:
        found = smallest(power, study.power, start=start, exact=exact)
        point = asked.point(found, power(found))
    sizes = sorted({max(1, round(found * share)) for share in _AROUND})
    around = [asked.point(n, power(n)) for n in sizes if n != found]
    return point, tuple(sorted((point, *around), key=lambda one: one.n_patients))


def plan_estimate(
    metric: BaseMetric,
    study: Study,
    *,
    expected: float | None = None,
    half_width: float | None = None,
    pilot: Pilot | None = None,
) -> Plan:
    """Plan for the width of a metric's interval; ``study.power`` is the assurance.

    What is not given is taken from the pilot; without a half width ``study.n_patients`` says how
    many patients there are, and the answer is the half width that they reach.
    """
    if not (is_share(metric) if pilot is None else pilot.is_share):
        if pilot is None:
            raise InvalidValue(
                f"{metric.key} is not a share of rows, so that no formula has its width; give a "
                "pilot to resample with --from RUN"
            )
        return resampled_width_plan(study, pilot, half_width)
    if expected is None:
        if pilot is None:
            raise InvalidValue("what is expected? give --expected, or a pilot with --from RUN")
        expected = pilot.share()
    given = half_width is not None
    blank = WidthQuestion(expected, half_width if half_width is not None else 0.499, study.alpha)
    return _width_plan(blank if given else _reached(blank, study), study, metric, pilot)


def plan_compare(
    metric: BaseMetric,
    study: Study,
    *,
    difference: float | None = None,
    discordance: float | None = None,
    pilot: Pilot | None = None,
) -> Plan:
    """Plan for the test of `krisis compare` that a second run is better than a first.

    What is not given is taken from the pilot; else, without a difference, the answer is the least
    one that ``study.n_patients`` show.
    """
    if _needs_resampling(metric, pilot, "difference"):
        return resampled_power_plan(study, _of_two(pilot), None)
    if discordance is None:
        discordance = _of_two(pilot).paired()[1]
    if difference is None and pilot is not None and pilot.right is not None:
        difference = pilot.paired()[0]
        if difference <= 0:
            raise InvalidValue(
                f"the second pilot is not better than the first ({difference:+.4f}); name the "
                "better one second, or give --difference"
            )
    if difference is None:
        return _paired_plan(_detectable(study, discordance, None), study, metric, pilot)
    question = PairedQuestion(difference, discordance, alpha=study.alpha)
    return _paired_plan(question, study, metric, pilot)


def plan_non_inferior(
    metric: BaseMetric,
    study: Study,
    *,
    margin: float | None = None,
    difference: float = 0.0,
    discordance: float | None = None,
    pilot: Pilot | None = None,
) -> Plan:
    """Plan for the interval of `krisis compare` to exclude that a second run is so much worse.

    Without a margin, the answer is the least one that ``study.n_patients`` show.
    """
    if margin is not None and not 0 < margin < 1:
        raise InvalidValue(
            f"the non-inferiority margin must lie above 0 and below 1, not {margin!r}"
        )
    if _needs_resampling(metric, pilot, "margin"):
        if margin is None:
            raise InvalidValue("give the --margin; it cannot be sought by resampling")
        return resampled_power_plan(study, _of_two(pilot), margin)
    if discordance is None:
        discordance = _of_two(pilot).paired()[1]
    if margin is None:
        return _paired_plan(_detectable(study, discordance, difference), study, metric, pilot)
    question = PairedQuestion(difference, discordance, margin, study.alpha)
    return _paired_plan(question, study, metric, pilot)


def _of_two(pilot: Pilot | None) -> Pilot:
    if pilot is None or pilot.right is None:
        raise InvalidValue(
            "how often do the runs differ? give --discordance, or two pilots with --from A --from B"
        )
    return pilot


def _needs_resampling(metric: BaseMetric, pilot: Pilot | None, what: str) -> bool:
    """Tell whether a metric's test is known by resampling alone; refuse it without two pilots."""
    known = is_share(metric) if pilot is None or pilot.right is None else pilot.is_share
    if not known and (pilot is None or pilot.right is None):
        raise InvalidValue(
            f"{metric.key} is not a share of rows, so that no formula has the power for its "
            f"{what}; give two pilots to resample with --from A --from B"
        )
    return not known


def _width_plan(
    question: WidthQuestion, study: Study, metric: BaseMetric, pilot: Pilot | None
) -> Plan:
    patients, asked = study.patients, _Asked(study.patients, pilot)
    start = max(2, math.ceil(question.wilson_n() * patients.design_effect / patients.mean_size))
    near = study.n_patients or start
    stretch = stretched(question, near, patients, study.power, seed=study.seed)

    @cache
    def power(n: int) -> float:
        return assurance(question, n, patients, seed=study.seed, stretch=stretch)

    point, points = _answer(study, power, start, asked, lambda _: patients.mean_size == 1)
    beside = _beside_width(question, study, asked.n_counted(point.n_patients))
    if pilot is not None:
        half = pilot.half_widths(
            pilot.n_scored(point.n_patients), 1 - study.alpha, N_RESAMPLES, study.seed
        )
        label = f"assurance by drawing {point.n_patients:,} patients of the pilot"
        beside[label] = float((half <= question.half_width * (1 + 1e-9)).mean())
    return Plan(
        "estimate",
        f"that the interval of {metric.key} around {question.expected:.4g} is at most "
        f"± {question.half_width:.4g} wide",
        point.n_patients,
        point.n_rows,
        point.power,
        "assurance",
        points,
        beside,
        width_assumptions(metric, study) + shared_assumptions(study, pilot, paired=False),
        inputs(study, metric, expected=question.expected, half_width=question.half_width),
        {} if pilot is None else pilot.facts(),
    )


def _beside_width(question: WidthQuestion, study: Study, n_patients: int) -> dict[str, object]:
    """Return Wilson's figures, and the width where just what is expected is seen."""
    wilson, patients = question.wilson_n(), study.patients
    rows = math.ceil(wilson * patients.design_effect - 1e-9)
    beside: dict[str, object] = {"rows by Wilson's interval at the expected share": rows}
    if patients.mean_size > 1:
        beside["design effect 1 + (k - 1)*ICC"] = patients.design_effect
    else:
        beside["assurance of that number"] = wilson_assurance(question, wilson)
        beside["rows by Wilson's interval with the assurance"] = smallest(
            lambda n: wilson_assurance(question, n), study.power, start=wilson, exact=lambda _: True
        )
    beside["half width of krisis' interval if just the expected share is seen"] = (
        question.expected_half_width(n_patients, patients)
    )
    return beside


def _paired_plan(
    question: PairedQuestion, study: Study, metric: BaseMetric, pilot: Pilot | None
) -> Plan:
    patients, asked = study.patients, _Asked(study.patients, pilot)

    @cache
    def power(n: int) -> float:
        return paired_power(question, n, patients, seed=study.seed)

    start = question.normal_n(study.power, patients)
    point, points = _answer(
        study, power, start, asked, lambda n: patients.mean_size == 1 and n <= MOST_POOLS
    )
    beside: dict[str, object] = {}
    if patients.mean_size > 1:
        beside["design effect 1 + (k - 1)*ICC"] = patients.design_effect
    if not question.margin:
        beside["rows by Connor's formula, one row per patient"] = question.connor(study.power)
    if pilot is not None and pilot.right is not None:
        label = f"power by drawing {point.n_patients:,} patients of the pilot"
        beside[label] = pilot.power(
            pilot.n_scored(point.n_patients),
            margin=question.margin,
            alpha=study.alpha,
            n=N_RESAMPLES,
            seed=study.seed,
        )
    return Plan(
        "non-inferior" if question.margin else "compare",
        _paired_aim(question, metric),
        point.n_patients,
        point.n_rows,
        point.power,
        "power",
        points,
        beside,
        paired_assumptions(question, metric, replace(study, n_patients=point.n_patients))
        + shared_assumptions(study, pilot, paired=True),
        inputs(
            study,
            metric,
            difference=question.difference,
            discordance=question.discordance,
            margin=question.margin or None,
        ),
        {} if pilot is None else pilot.facts(),
    )


def _paired_aim(question: PairedQuestion, metric: BaseMetric) -> str:
    rows = f"{question.discordance:.4g} of the rows being right in one run alone"
    if question.margin:
        return f"to show that {metric.key} is at most {question.margin:.4g} worse, {rows}"
    return f"to find a difference of {question.difference:.4g} in {metric.key}, {rows}"


def _detectable(study: Study, discordance: float, difference: float | None) -> PairedQuestion:
    """Turn the question round: the least difference, or margin, that so many patients show.

    Without a ``difference`` it is sought, with one the non-inferiority margin beyond it.
    """
    if study.n_patients is None:
        raise InvalidValue("give --difference or --margin, or --n for the least one that is shown")

    def question(size: float) -> PairedQuestion:
        if difference is None:
            return PairedQuestion(size, discordance, alpha=study.alpha)
        return PairedQuestion(difference, discordance, size, study.alpha)

    least = max(0.0, -(difference or 0.0))
    most = discordance if difference is None else 0.999
    n, low, high = study.n_patients, least, most
    if paired_power(question(most), n, study.patients, seed=study.seed) < study.power:
        raise InvalidValue(
            f"{n} patients reach a power of {study.power:g} at no size of the effect"
        )
    while high - low > 1e-4:
        middle = (low + high) / 2
        enough = paired_power(question(middle), n, study.patients, seed=study.seed) >= study.power
        low, high = (low, middle) if enough else (middle, high)
    return question(min(math.ceil(high * 1e4) / 1e4, most))


def _reached(blank: WidthQuestion, study: Study) -> WidthQuestion:
    """Turn the question round: the half width that so many patients reach with the assurance."""
    if study.n_patients is None:
        raise InvalidValue("give --half-width, or --n for the half width that is reached")
    stretch = stretched(blank, study.n_patients, study.patients, study.power, seed=study.seed)
    half = half_width_reached(
        blank, study.n_patients, study.patients, study.power, seed=study.seed, stretch=stretch
    )
    return replace(blank, half_width=min(math.ceil(half * 1e5) / 1e5, 0.49999))
