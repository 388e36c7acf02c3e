"""How large a study must be: a plan for the interval or the test that krisis itself will run."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from krisis.decisions.plan_answer import (
    Plan,
    Study,
    inputs,
    paired_assumptions,
    planned,
    shared_assumptions,
    width_assumptions,
)
from krisis.decisions.plan_patients import Patients
from krisis.decisions.plan_pilot import N_RESAMPLES, Pilot
from krisis.decisions.plan_power import N_CONFIRMED, PairedQuestion, paired_power
from krisis.decisions.plan_resampled import resampled_power_plan, resampled_width_plan
from krisis.decisions.plan_search import Asked, answered, smallest
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
    patients, asked = study.patients, Asked(study.patients, pilot)
    start = max(2, math.ceil(question.wilson_n() * patients.design_effect / patients.mean_size))
    near = study.n_patients or start
    stretch = stretched(question, near, patients, study.power, seed=study.seed)

    @cache
    def power(n: int) -> float:
        return assurance(question, n, patients, seed=study.seed, stretch=stretch)

    point, points = answered(
        study, power, start, asked, exact=lambda _: patients.mean_size == 1, confirmed=power
    )
    beside = _beside_width(question, study, asked.n_counted(point.n_patients))
    if pilot is not None:
        half = pilot.half_widths(
            pilot.n_scored(point.n_patients), 1 - study.alpha, N_RESAMPLES, study.seed
        )
        label = f"assurance by drawing {point.n_patients:,} patients of the pilot"
        beside[label] = float((half <= question.half_width * (1 + 1e-9)).mean())
    aim = (
        f"that the interval of {metric.key} around {question.expected:.4g} is at most "
        f"± {question.half_width:.4g} wide"
    )
    return planned(
        ("estimate", aim, "assurance"),
        (point, points),
        beside,
        width_assumptions(metric, study) + shared_assumptions(study, pilot, paired=False),
        inputs(study, metric, expected=question.expected, half_width=question.half_width),
        pilot,
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
    patients, asked = study.patients, Asked(study.patients, pilot)

    @cache
    def power(n: int) -> float:
        return paired_power(question, n, patients, seed=study.seed)

    start = question.normal_n(study.power, patients)
    point, points = answered(
        study,
        power,
        start,
        asked,
        exact=lambda n: patients.mean_size == 1 and n <= MOST_POOLS,
        confirmed=lambda n: paired_power(
            question, n, patients, seed=study.seed, n_worlds=N_CONFIRMED
        ),
    )
    beside: dict[str, object] = {}
    if patients.mean_size > 1:
        beside["design effect 1 + (k - 1)*ICC"] = patients.design_effect
    if not question.margin:
        beside["rows by Connor's formula, one row per patient"] = question.connor(study.power)
    if pilot is not None and pilot.right is not None:
        beside |= _drawn_power(pilot, question.margin, study, point.n_patients)
    told = {"difference": question.difference, "discordance": question.discordance}
    sized = replace(study, n_patients=point.n_patients)
    return planned(
        ("non-inferior" if question.margin else "compare", _paired_aim(question, metric), "power"),
        (point, points),
        beside,
        paired_assumptions(question, metric, sized) + shared_assumptions(study, pilot, paired=True),
        inputs(study, metric, **told, margin=question.margin or None),
        pilot,
    )


def _drawn_power(pilot: Pilot, margin: float, study: Study, n_asked: int) -> dict[str, object]:
    """Return the power in studies drawn from the pilot, and what other metrics take of it."""
    n, alpha, seed = pilot.n_scored(n_asked), study.alpha, study.seed
    drawn = f"by drawing {n_asked:,} patients of the pilot"
    found: dict[str, object] = {
        f"power {drawn}": pilot.power(n, margin=margin, alpha=alpha, n=N_RESAMPLES, seed=seed)
    }
    if not margin:
        n_metrics, alone, together = pilot.family_power(n, alpha=alpha, seed=seed)
        studies = f"found in {pilot.n_families(n)} such studies"
        label = f"{studies}, as primary / with {n_metrics} metrics adjusted"
        found[label] = f"{alone} / {together}"
    return found


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
