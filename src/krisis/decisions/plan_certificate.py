"""How many patients a certified threshold needs, by the procedure of `krisis certify`."""

from __future__ import annotations

import math

from krisis.decisions.plan_answer import (
    Plan,
    Point,
    Study,
    certify_assumptions,
    inputs,
    planned,
    shared_assumptions,
)
from krisis.decisions.plan_certify import certify_power, plan_certify
from krisis.decisions.plan_pilot import N_RESAMPLES, Pilot
from krisis.decisions.plan_search import Asked
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.statistics.risk_tests import allowed_errors, binomial_p


def plan_certificate(
    study: Study,
    *,
    risk: float,
    delta: float,
    expected_risk: float | None = None,
    pilot: Pilot | None = None,
) -> Plan:
    """Plan for `krisis certify` to find a threshold; a pilot must be one of selective accuracy."""
    if expected_risk is None:
        if pilot is None:
            raise InvalidValue("give --expected-risk, or a pilot with --from RUN")
        expected_risk = 1 - float(pilot.values()[0].mean())
        if expected_risk >= risk:
            raise InvalidValue(
                f"all answers of the pilot together have a risk of {expected_risk:.4g}, which is "
                f"not below {risk:g}; give the risk above a stricter threshold as --expected-risk"
            )
    world = _certified_world(study, pilot, risk=risk, delta=delta, expected_risk=expected_risk)
    point, points = _certificate_points(study, world, Asked(study.patients, pilot))
    n_counted = Asked(study.patients, pilot).n_counted(point.n_patients)
    n_rows = round(n_counted * study.patients.mean_size)
    allowed = int(allowed_errors(n_rows, risk, delta))
    one_test = float(binomial_p(allowed, n_rows, expected_risk)) if allowed >= 0 else 0.0
    beside: dict[str, object] = {
        "power of one test at one threshold, which is not what runs": one_test
    }
    if pilot is not None:
        label = f"certified in {N_RESAMPLES} studies of so many patients of the pilot"
        drawn = pilot.n_scored(point.n_patients)
        beside[label] = pilot.certified(drawn, risk, delta, n=N_RESAMPLES, seed=study.seed)
    aim = f"to certify a risk of at most {risk:g} at some threshold, {expected_risk:.4g} being true"
    assumptions = certify_assumptions(study, pilot, delta)
    return planned(
        ("certify", aim, "power"),
        (point, points),
        beside,
        assumptions + shared_assumptions(study, pilot, differing=""),
        inputs(study, None, risk=risk, delta=delta, expected_risk=expected_risk),
        pilot,
    )


def _certified_world(study: Study, pilot: Pilot | None, **bounds: float) -> JsonObject:
    """Return what the plan of a certificate is told: the most rows of a patient, and their mix."""
    patients = study.patients
    size = math.floor(patients.mean_size)
    if pilot is not None and patients.sizes:
        size = pilot.most_rows
    elif size != patients.mean_size:
        raise InvalidValue(
            f"a certificate is planned with a whole number of rows per patient, not "
            f"{patients.mean_size!r}; round --cluster-size"
        )
    icc = patients.icc if size > 1 else 0.0
    mix = patients.sizes if size > 1 else ()
    return {**bounds, "cluster_size": size, "icc": icc, "seed": study.seed, "sizes": mix}


def _certificate_points(
    study: Study, world: JsonObject, asked: Asked
) -> tuple[Point, tuple[Point, ...]]:
    """Return the answer and the power around it; simulated, it takes long."""
    if study.n_patients is None:
        found = plan_certify(**world, power=study.power)
        if found.n is None:
            raise InvalidValue(f"nothing can be certified: {found.reason}")
        n, point = found.n, asked.point(found.n, found.power)
    else:
        n = asked.n_counted(study.n_patients)
        point = asked.asked(study.n_patients, certify_power(n, **world))
    shares = (0.5, 0.75, 0.9, 1.1, 1.25, 1.5) if world["cluster_size"] == 1 else (0.75, 1.25)
    sizes = sorted({max(1, round(n * share)) for share in shares} - {n})
    points = [asked.point(one, certify_power(one, **world)) for one in sizes]
    return point, tuple(sorted((point, *points), key=lambda one: one.n_patients))
