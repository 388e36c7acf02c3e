"""`krisis.plan`: the sample size of a study, before the money is spent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from krisis.decisions.sample import DEFAULT_DELTA
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.abstention import SelectiveAccuracy
from krisis.metrics.accuracy import Accuracy
from krisis.metrics.base import BaseMetric
from krisis.metrics.scoring import metric_from_name
from krisis.results.base import BenchmarkResult
from krisis.results.loading import load_result, with_rows
from krisis.verbs.plan.study import (
    DEFAULT_ALPHA,
    Pilot,
    Plan,
    Study,
    patients_of,
    plan_certificate,
    plan_estimate,
    plan_paired,
)

AnyRun: TypeAlias = str | Path | BenchmarkResult
Question: TypeAlias = Literal["estimate", "compare", "non-inferior", "certify"]
# Which arguments belong to one question and not to all of them.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "estimate": ("metric", "alpha", "expected", "half_width"),
    "compare": ("metric", "alpha", "difference", "discordance"),
    "non-inferior": ("metric", "alpha", "difference", "discordance", "margin"),
    "certify": ("risk", "delta", "expected_risk"),
}


def plan(
    question: Question,
    *,
    metric: str | BaseMetric | None = None,
    expected: float | None = None,
    half_width: float | None = None,
    difference: float | None = None,
    discordance: float | None = None,
    margin: float | None = None,
    risk: float | None = None,
    delta: float | None = None,
    expected_risk: float | None = None,
    power: float = 0.8,
    alpha: float | None = None,
    cluster_size: float | None = None,
    icc: float | None = None,
    n: int | None = None,
    pilots: AnyRun | Sequence[AnyRun] = (),
    simulations: int | None = None,
    seed: int = 42,
) -> Plan:
    """Estimate the sample size of a study, or the power that the patients at hand reach.

    Arguments:
        question: estimate (an interval of a target width), compare (find a difference),
            non-inferior (exclude a loss) or certify (find a threshold).
        metric: Metric to plan for, by name or as such; accuracy unless given. Certify has its own.
        expected: Of estimate: the expected share.
        half_width: Of estimate: the target half-width of the interval.
        difference: Of compare and non-inferior: how much better the second run is.
        discordance: Of compare and non-inferior: the share of rows that exactly one run has right.
        margin: Of non-inferior: the largest acceptable loss.
        risk: Of certify: the bound.
        delta: Of certify: the probability that the certificate is wrong; 0.1 unless given.
        expected_risk: Of certify: the expected share of errors among the answers.
        power: Probability that the study succeeds; of estimate, that the interval is narrow enough.
        alpha: Two-sided error of the test, or 1 minus the level of the interval; 0.05 unless given.
        cluster_size: Rows per patient.
        icc: Correlation of two rows of one patient.
        n: Patients available; the plan reports the power that they reach.
        pilots: One pilot run, or two to compare, by path or in memory.
        simulations: Number of simulated studies.
        seed: Seed of the simulations.

    Returns:
        A `Plan`: ``n_patients``, ``power``, ``simulation``; ``text()`` says it in sentences.

    >>> import krisis
    >>> krisis.plan("estimate", expected=0.9, half_width=0.03, simulations=200).n_rows >= 380
    True
    """
    if question not in _ARGUMENTS:
        raise UnknownName.among("question of a plan", str(question), list(_ARGUMENTS))
    given = {
        "metric": metric,
        "alpha": alpha,
        "expected": expected,
        "half_width": half_width,
        "difference": difference,
        "discordance": discordance,
        "margin": margin,
        "risk": risk,
        "delta": delta,
        "expected_risk": expected_risk,
    }
    for name, value in given.items():
        if value is not None and name not in _ARGUMENTS[question]:
            option = name.replace("_", "-")
            raise InvalidValue(f"a plan to {question} has no --{option}; omit it")
    chosen = metric_from_name(metric) if isinstance(metric, str) else metric or Accuracy()
    if question == "certify":
        chosen = SelectiveAccuracy()
    most = 2 if question in ("compare", "non-inferior") else 1
    pilot = _pilot(pilots, chosen, most=most)
    study = Study(
        power=power,
        alpha=DEFAULT_ALPHA if alpha is None else alpha,
        patients=patients_of(pilot, cluster_size, icc),
        n_patients=n,
        n_simulations=simulations,
        seed=seed,
    )
    if question == "estimate":
        return plan_estimate(chosen, study, expected=expected, half_width=half_width, pilot=pilot)
    if question == "certify":
        if risk is None:
            raise InvalidValue("the bound is missing; add for instance --risk 0.05")
        delta = DEFAULT_DELTA if delta is None else delta
        return plan_certificate(
            study, risk=risk, delta=delta, expected_risk=expected_risk, pilot=pilot
        )
    if question == "non-inferior" and margin is None:
        raise InvalidValue("missing --margin")
    return plan_paired(
        chosen, study, difference=difference, discordance=discordance, margin=margin, pilot=pilot
    )


def _pilot(pilots: AnyRun | Sequence[AnyRun], metric: BaseMetric, *, most: int) -> Pilot | None:
    given = [pilots] if isinstance(pilots, str | Path | BenchmarkResult) else list(pilots)
    if not given:
        return None
    if len(given) > most:
        allowed = "one pilot" if most == 1 else "one pilot or two"
        raise InvalidValue(f"--from takes {allowed}, not {len(given)}")
    same = {id(one) if isinstance(one, BenchmarkResult) else Path(one).resolve() for one in given}
    if len(same) < len(given):
        raise InvalidValue("--from names the same run twice; name two different runs")
    results = [
        with_rows(one, Path("the result"))
        if isinstance(one, BenchmarkResult)
        else with_rows(load_result(Path(one)), Path(one))
        for one in given
    ]
    return Pilot(results[0], metric, *results[1:])
