"""Plans for metrics that no formula covers: studies of all sizes drawn from a pilot's patients."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import special

from krisis.decisions.plan_answer import Plan, Point, Study, inputs
from krisis.decisions.plan_pilot import N_EXCHANGES, Pilot
from krisis.errors import InvalidValue

N_WIDTHS = 80
N_TESTS = 300
_MOST_ROWS = 50_000
_N_STEPS = 4


def resampled_width_plan(study: Study, pilot: Pilot, half_width: float | None) -> Plan:
    """Plan for the width of any metric's interval, by drawing the pilot's patients."""
    if half_width is not None and not half_width > 0:
        raise InvalidValue(f"the half width must be above 0, not {half_width!r}")

    @cache
    def widths(n: int) -> tuple[float, ...]:
        _check_rows(pilot, n)
        drawn = pilot.half_widths(pilot.n_scored(n), 1 - study.alpha, N_WIDTHS, study.seed)
        return tuple(drawn.tolist())

    def reached(n: int) -> float:
        return float(np.quantile(widths(n), study.power))

    if half_width is None:
        if study.n_patients is None:
            raise InvalidValue("give --half-width, or --n for the half width that is reached")
        half_width = reached(study.n_patients)
    found = study.n_patients or _sought_width(reached, half_width, pilot)
    sizes = sorted({max(2, round(found * share)) for share in (0.75, 1.0, 1.25)})
    power = {n: float(np.mean(np.array(widths(n)) <= half_width * (1 + 1e-9))) for n in sizes}
    return _plan(
        study,
        pilot,
        found,
        power,
        "assurance",
        f"that the interval of {pilot.metric.key} is at most ± {half_width:.4g} wide",
        f"Every figure is the share of {N_WIDTHS} studies drawn from the pilot's patients.",
        half_width=half_width,
    )


def _sought_width(reached: Callable[[int], float], half_width: float, pilot: Pilot) -> int:
    """Return the patients whose width is as asked; widths shrink about as 1/√n."""
    n = pilot.table.patients.n
    for _ in range(_N_STEPS):
        if not math.isfinite(width := reached(n)):
            raise InvalidValue(
                f"{pilot.metric.key} has no interval in studies drawn from the pilot; run a "
                "larger pilot"
            )
        n = max(2, math.ceil(n * min(max((width / half_width) ** 2, 0.05), 20.0)))
    return n


def resampled_power_plan(study: Study, pilot: Pilot, margin: float | None) -> Plan:
    """Plan for the test of any metric, by drawing the patients of two pilots."""

    @cache
    def power(n: int) -> float:
        _check_rows(pilot, n)
        return pilot.power(
            pilot.n_scored(n), margin=margin or 0.0, alpha=study.alpha, n=N_TESTS, seed=study.seed
        )

    found = study.n_patients or _sought_power(power, study, pilot)
    sizes = sorted({max(2, round(found * share)) for share in (0.75, 1.0, 1.25)})
    key = pilot.metric.key
    aim = f"to find the pilots' own difference in {key}"
    if margin:
        aim = f"to show that {key} is at most {margin:g} worse, as different as in the pilots"
    return _plan(
        study,
        pilot,
        found,
        {n: power(n) for n in sizes},
        "power",
        aim,
        f"Every figure is the share of {N_TESTS} studies drawn from the pilots' patients that the "
        f"test of `krisis compare` ({N_EXCHANGES} exchanges) decides.",
        margin=margin,
    )


def _sought_power(power: Callable[[int], float], study: Study, pilot: Pilot) -> int:
    """Return the patients with the power: probit(power) + z grows about as √n."""
    z = float(special.ndtri(1 - study.alpha / 2))
    aimed = float(special.ndtri(study.power)) + z
    n = pilot.table.patients.n
    for _ in range(_N_STEPS):
        share = min(max(power(n), 1 / N_TESTS), 1 - 1 / N_TESTS)
        seen = max(float(special.ndtri(share)) + z, 0.1)
        n = max(2, math.ceil(n * min(max((aimed / seen) ** 2, 0.1), 10.0)))
    return n


def _check_rows(pilot: Pilot, n_patients: int) -> None:
    if n_patients * pilot.rows_per_patient > _MOST_ROWS:
        raise InvalidValue(
            f"more than {_MOST_ROWS:,} rows would have to be drawn from a pilot of "
            f"{pilot.table.patients.n:,} patients, which says too little of so large a study; ask "
            "for less or plan with rates of your own"
        )


def _plan(
    study: Study,
    pilot: Pilot,
    found: int,
    power: dict[int, float],
    reached: str,
    *words: str,
    **given: object,
) -> Plan:
    drawn = (
        f"The {pilot.table.patients.n:,} patients of the pilot are drawn with replacement, with "
        "all their rows; a small pilot knows its own rates roughly."
    )
    points = [Point(n, math.ceil(n * pilot.rows_per_patient), p) for n, p in power.items()]
    aim, how = words
    return Plan(
        {"assurance": "estimate"}.get(
            reached, "non-inferior" if given.get("margin") else "compare"
        ),
        aim,
        found,
        math.ceil(found * pilot.rows_per_patient),
        power[found],
        reached,
        tuple(points),
        {},
        (
            how,
            drawn,
            f"{pilot.facts()['runs'][0]['not_evaluated']:.1%} of the rows have no reply, as there.",
        ),
        inputs(study, pilot.metric, **given),
        pilot.facts(),
    )
