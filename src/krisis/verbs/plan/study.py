"""How large a study must be: a formula for the size, then a simulation of the verb at that size.

The formula is that of the textbook, times the design effect of rows that share a patient. It is
then confirmed: studies of that size are simulated and judged by the interval, the test or the
certificate that krisis will use. Where the two disagree, the simulation is believed and the size
is corrected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy import special

from krisis.decisions.patients import Patients
from krisis.decisions.sample import (
    DEFAULT_DELTA,
    FEWEST_FOR_BETTING,
    chain_starts,
    check_bounds,
    divided,
)
from krisis.display import Documented
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric, EvaluationResult
from krisis.metrics.forms import Share
from krisis.metrics.table import Answers, FloatArray, Table
from krisis.statistics.risk_tests import allowed_errors, binomial_p, fewest_rows
from krisis.statistics.sample_size import (
    difference_power,
    non_inferiority_power,
    wilson_assurance,
)
from krisis.verbs.plan.simulated_studies import (
    AssumedPatients,
    Judge,
    Pilot,
    Studies,
    certified,
    found_better,
    narrow,
)

__all__ = [
    "Patients",
    "Pilot",
    "Plan",
    "Study",
    "plan_certificate",
    "plan_estimate",
    "plan_paired",
]

DEFAULT_ALPHA = 0.05
MOST_PATIENTS = 1_000_000
N_STUDIES = 1000
N_COMPARISONS = 400
"""Simulated comparisons: each draws exchanges of its own, which takes longer."""
MOST_SIMULATED_ROWS = 50_000
_MOST_SIMULATIONS = 12
# A corrected size is accepted when its simulated power is as near as this to the one asked for.
_NEAR = 0.02
_SAME = 1e-9

Power = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Study:
    """What every plan needs: the power, the error of the test, the patients, and perhaps a size.

    Without ``patients`` they are those of the pilot, or have one row each. ``n_simulations`` is
    1,000 unless given, and 400 for comparisons.
    """

    power: float = 0.8
    alpha: float = DEFAULT_ALPHA
    patients: Patients | None = None
    n_patients: int | None = None
    n_simulations: int | None = None
    seed: int = 42

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 0.5:
            raise InvalidValue(f"alpha must be above 0 and at most 0.5, not {self.alpha!r}")
        if not self.alpha < self.power < 1:
            raise InvalidValue(
                f"the power must be above alpha ({self.alpha!r}) and below 1, not {self.power!r}"
            )
        if self.n_patients is not None and not 1 <= self.n_patients <= MOST_PATIENTS:
            raise InvalidValue(
                f"--n must be between 1 and {MOST_PATIENTS:,} patients, not {self.n_patients!r}"
            )
        if self.n_simulations is not None and self.n_simulations < 1:
            raise InvalidValue(f"--simulations must be 1 or more, not {self.n_simulations!r}")


@dataclass(frozen=True, slots=True)
class Simulation:
    """How often simulated studies of the planned size reached their goal."""

    power: float
    n_studies: int
    source: str

    @property
    def standard_error(self) -> float:
        """The Monte-Carlo error √(p(1 − p)/S), with p = (successes + 1)/(S + 2), never 0."""
        p = (self.power * self.n_studies + 1) / (self.n_studies + 2)
        return math.sqrt(p * (1 - p) / self.n_studies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Documented):
    """The size of a study and how often it will reach its goal.

    ``power`` is that of the formula at this size, or of the simulation where that corrected it; for
    `estimate` it is the probability that the interval is narrow enough.
    """

    question: str
    goal: str
    n_patients: int
    n_rows: int
    power: float
    formula_n_patients: int | None
    design_effect: float
    simulation: Simulation | None
    inputs: Mapping[str, object]
    assumptions: tuple[str, ...] = ()
    pilot: Pilot | None = None
    target_power: float
    builder: ClassVar[str] = "krisis.verbs.plan.page:plan_document"

    def to_json(self) -> JsonObject:
        """Return the plan as JSON values."""
        found = self.simulation
        return {
            "kind": "krisis.plan",
            "schema_version": 2,
            "question": self.question,
            "n_patients": self.n_patients,
            "n_rows": self.n_rows,
            "power": self.power,
            "formula_n_patients": self.formula_n_patients,
            "design_effect": self.design_effect,
            "simulation": None
            if found is None
            else {**asdict(found), "standard_error": found.standard_error},
            "inputs": dict(self.inputs),
        }


def is_share(metric: BaseMetric) -> bool:
    """Tell whether a metric is a share of rows."""
    rows = [
        EvaluationResult(
            int(i < 3), i % 2, i == 5, 0.8, record_id=str(i), metadata={"should_abstain": i > 3}
        )
        for i in range(6)
    ]
    # F1 is a function of a share, with a form derived from it: it is none itself.
    return type(metric.comparison_form(Table(rows, Answers((0, 1), positive=1)))) is Share


def plan_estimate(
    metric: BaseMetric,
    study: Study,
    *,
    expected: float | None = None,
    half_width: float | None = None,
    pilot: Pilot | None = None,
) -> Plan:
    """Plan for the width of a metric's interval.

    Args:
        metric: the metric that will be estimated.
        study: ``study.power`` is the probability that the interval is at most this wide.
        expected: the expected share; taken from the pilot if not given.
        half_width: half the width of the interval.
        pilot: a run to take rates from; needed for metrics that are not a share of rows.

    >>> from krisis.metrics import Accuracy
    >>> plan = plan_estimate(Accuracy(), Study(), expected=0.9, half_width=0.03)
    >>> plan.n_patients, round(plan.power, 2)
    (428, 0.82)
    """
    share = is_share(metric) if pilot is None else pilot.is_share
    if not share and pilot is None:
        raise InvalidValue(
            f"{metric.key} is not a share of rows, so no formula gives its width; add a pilot with "
            "--from RUN"
        )
    if half_width is None:
        raise InvalidValue("missing --half-width")
    if not 0 < half_width < (0.5 if share else math.inf):
        limit = " and below 0.5" if share else ""
        raise InvalidValue(f"--half-width must be above 0{limit}, not {half_width!r}")
    patients = _patients(study, pilot)
    studies: Studies | None = pilot
    if share:
        studies = _drawn_from(pilot if expected is None else None, study)
        expected = _expected(pilot) if expected is None else expected
        if not 0 < expected < 1:
            raise InvalidValue(f"--expected must be between 0 and 1, not {expected!r}")
        studies = studies or AssumedPatients(patients, (expected, 1 - expected))
    assert studies is not None
    simulator = _Simulator(study, patients, pilot, narrow(studies, 1 - study.alpha), studies.source)
    wanted = half_width * (1 + _SAME)

    def formula(n: int) -> float:
        rows, z = patients.effective_rows(n), _interval_quantile(study.alpha, n, patients)
        return wilson_assurance(rows, expected or 0.0, wanted, z)

    def rescaled(n: int, widths: FloatArray) -> float:
        # Widths shrink as 1/√n, so n·(W/w)² patients bring the quantile W to the wanted w.
        return n * (_quantile_of(widths, study.power) / half_width) ** 2

    around = "" if expected is None else f" around {expected:.3g}"
    return simulator.plan(
        "estimate",
        f"for an interval of {metric.key}{around} of at most ± {half_width:.3g}",
        formula=formula if share else None,
        succeeded=lambda widths: widths <= wanted,
        rescaled=rescaled,
        inputs={"metric": metric.identifier, "expected": expected, "half_width": half_width},
        assumptions=(f"The interval is that of a run, at {100 * (1 - study.alpha):g} %.",),
    )


def plan_paired(
    metric: BaseMetric,
    study: Study,
    *,
    difference: float | None = None,
    discordance: float | None = None,
    margin: float | None = None,
    pilot: Pilot | None = None,
) -> Plan:
    """Plan for `krisis compare` to find that a second run is better than a first.

    With a margin, plan for the interval of `krisis compare --margin` to exclude so large a loss.

    Args:
        metric: the metric that is compared.
        study: power, alpha and patients.
        difference: how much better the second run is; 0 unless given where there is a margin.
        discordance: the share of rows that exactly one of the two runs has right.
        margin: the largest acceptable loss.
        pilot: two runs on the same cases, whose difference (without a margin) and discordance are
            taken as they are if not given.
    """
    inferior = margin is not None
    if inferior and not 0 < (margin or 0.0) < 1:
        raise InvalidValue(f"--margin must be above 0 and below 1, not {margin!r}")
    two = pilot if pilot is not None and pilot.right is not None else None
    share = is_share(metric) if two is None else two.is_share
    if not share and two is None:
        raise InvalidValue(
            f"{metric.key} is not a share of rows, so no formula gives its power; add two pilots "
            "with --from A --from B"
        )
    if not share and (difference is not None or discordance is not None):
        raise InvalidValue(
            f"{metric.key} is not a share of rows, so its difference is that of the pilots; omit "
            "--difference and --discordance"
        )
    patients = _patients(study, pilot)
    studies: Studies | None = two
    if share:
        given = discordance is not None or difference is not None
        if discordance is None:
            if two is None:
                raise InvalidValue("missing --discordance (or two pilots: --from A --from B)")
            discordance = float(np.abs(two.values[0]).mean())
            if discordance == 0:
                raise InvalidValue("the two pilots agree on every row; add --discordance")
        if difference is None and inferior:
            difference = 0.0
        elif difference is None:
            if two is None:
                raise InvalidValue("missing --difference (or two pilots: --from A --from B)")
            difference = float(two.values[0].mean())
            if difference <= 0:
                raise InvalidValue(
                    f"the second pilot is not better than the first ({difference:+.4f}); name the "
                    "better one second, or add --difference"
                )
        _check_paired(difference, discordance, margin)
        # The pilots' own difference is not 0 as non-inferiority assumes, so it is not drawn then.
        studies = None if given or inferior else _drawn_from(two, study)
        better, worse = (discordance + difference) / 2, (discordance - difference) / 2
        shares = (better, worse, 1 - discordance)
        studies = studies or AssumedPatients(patients, shares)
    assert studies is not None
    size, lost = difference or 0.0, margin or 0.0

    def formula(n: int) -> float:
        return _paired_power(
            n, size, discordance or 0.0, lost, alpha=study.alpha, patients=patients
        )

    shown = f"in {metric.key} that the pilots have" if not share else f"of {size:.3g}"
    goal = f"to find a difference {shown}" + ("" if not share else f" in {metric.key}")
    if lost:
        goal = f"to show that {metric.key} is at most {lost:.3g} worse"
    judge = found_better(studies, lost, study.alpha)
    simulator = _Simulator(study, patients, pilot, judge, studies.source, n_studies=N_COMPARISONS)
    test = f"The test is that of `krisis compare --primary {metric.key}`, two-sided at "
    if lost:
        test = "Shown means that the interval of `krisis compare --margin` excludes it, at "
    assumptions = [f"{test}{study.alpha:g}."]
    if lost:
        assumptions.append(f"The true difference is assumed to be {size:.3g}.")
    if discordance is not None:
        alone = f"{100 * discordance:.3g} %"
        assumptions.append(f"Exactly one of the two runs is right on {alone} of rows.")
    return simulator.plan(
        "non_inferior" if inferior else "compare",
        goal,
        formula=formula if share else None,
        succeeded=lambda found: found > 0,
        rescaled=lambda n, found: n * _probit_factor(found.mean(), study.power, study.alpha / 2),
        inputs={
            "metric": metric.identifier,
            "difference": difference,
            "discordance": discordance,
            **({"margin": margin} if inferior else {}),
        },
        assumptions=tuple(assumptions),
    )


def plan_certificate(
    study: Study,
    *,
    risk: float,
    delta: float = DEFAULT_DELTA,
    expected_risk: float | None = None,
    pilot: Pilot | None = None,
) -> Plan:
    """Plan for `krisis certify` to find a threshold with a bounded risk.

    Args:
        study: power and patients; ``study.alpha`` is not used.
        risk: the bound on the share of errors among the answers.
        delta: how often a certificate may be wrong.
        expected_risk: the true share of errors; taken from the pilot if not given.
        pilot: a run, with the metric `SelectiveAccuracy`.

    >>> plan_certificate(Study(), risk=0.1, expected_risk=0.0).n_patients
    24
    """
    check_bounds(risk, delta)
    studies = None
    if expected_risk is None:
        if pilot is None:
            raise InvalidValue("missing --expected-risk (or a pilot: --from RUN)")
        expected_risk = 1 - float(pilot.values[0].mean())
        if expected_risk >= risk:
            raise InvalidValue(
                f"all answers of the pilot together have a risk of {expected_risk:.4g}, which is "
                f"not below {risk:g}; give the risk above a stricter threshold as --expected-risk"
            )
        studies = _drawn_from(pilot, study)
    _check_expected_risk(expected_risk, risk)
    patients = _patients(study, pilot)
    drawn: Studies = studies or AssumedPatients(patients, (1 - expected_risk, expected_risk))
    judge = certified(drawn, risk, delta)
    simulator = _Simulator(study, patients, pilot, judge, drawn.source)
    return simulator.plan(
        "certify",
        f"to certify a risk of at most {risk:g} where {expected_risk:.3g} is true",
        formula=certificate_formula(risk, delta, expected_risk, patients),
        succeeded=lambda found: found > 0,
        rescaled=lambda n, found: n * _probit_factor(found.mean(), study.power, delta),
        inputs={"risk": risk, "delta": delta, "expected_risk": expected_risk},
        assumptions=(
            "Certified means that `krisis certify` with its default method finds any threshold.",
            "The formula assumes the same risk at every threshold, and distinct confidences.",
            *(
                []
                if pilot
                else ["Patients are those with an answer; plan for more if some abstain."]
            ),
        ),
    )


# The formulas ------------------------------------------------------------------------------------


def _paired_power(
    n_patients: int,
    difference: float,
    discordance: float,
    margin: float,
    *,
    alpha: float,
    patients: Patients,
) -> float:
    """Return the power to find a difference, or with a margin that no more is lost."""
    n, z = patients.effective_rows(n_patients), _student(alpha, n_patients)
    if margin:
        return non_inferiority_power(n, difference, discordance, margin, z)
    return difference_power(n, difference, discordance, z)


def certificate_formula(
    risk: float, delta: float, expected_risk: float, patients: Patients
) -> Power:
    """Return the power of `krisis certify` by the number of patients.

    With several rows per patient the exact power is taken at the effective rows. With too few
    patients to bet on their sums, one row of each is tested: so many rows count.
    """
    betting = FEWEST_FOR_BETTING * fewest_rows(risk, divided(delta)[1])

    def power(n: int) -> float:
        drawn = n * patients.mean_size / patients.most_rows  # rows of one draw per patient
        rows = patients.effective_rows(n) if n >= betting else drawn
        return certificate_power(math.floor(rows + _SAME), risk, delta, expected_risk)

    return power


def certificate_power(n: int, risk: float, delta: float, expected_risk: float) -> float:
    """Return the chance that `krisis certify` finds any threshold on n independent answers.

    A test of m answers at level l allows a(m, l) errors, the largest k with P(Bin(m, risk) ≤ k) ≤ l
    (Clopper and Pearson, Biometrika 26 (1934) 404–413). There is a threshold unless the test of all
    answers and the first test of each chain fail; each tests the answers of the one before among
    others. The number of errors is followed from test to test, so that the power is exact for one
    risk at all thresholds.

    >>> round(certificate_power(320, 0.05, 0.1, 0.02), 3)
    0.857
    """
    whole_level, chains = divided(delta)
    starts = [(start, level) for level, start in chain_starts(n, risk, chains)]
    if starts[-1][0] > n or allowed_errors(n, risk, chains) < 0:
        return 0.0
    steps = tuple(
        (start, int(allowed_errors(start, risk, level)))
        for start, level in [*starts, (n, whole_level)]
    )
    return 1 - float(_all_failed(steps, expected_risk))


@lru_cache(maxsize=256)
def _all_failed(steps: tuple[tuple[int, int], ...], expected_risk: float) -> float:
    """Return the chance that every step has more errors than it allows."""
    chance, before = np.ones(1), 0  # of 0, 1, … errors so far, all tests having failed
    for n, allowed in steps[:-1]:
        fresh = np.arange(n - before + 1)
        chance = np.convolve(chance, _binomial(fresh, n - before, expected_risk))
        chance[: allowed + 1], before = 0.0, n
    n, allowed = steps[-1]
    errors = np.arange(chance.size)
    passed = binomial_p(np.maximum(allowed - errors, 0), n - before, expected_risk)
    return float(chance @ (1 - np.where(errors <= allowed, passed, 0.0)))


def _binomial(k: np.ndarray, n: int, p: float) -> FloatArray:
    log = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    mass: FloatArray = np.exp(log + special.xlogy(k, p) + special.xlog1py(n - k, -p))
    return mass


def _student(alpha: float, n_patients: float) -> float:
    """Return Student's two-sided quantile with a degree of freedom less than patients."""
    return float(special.stdtrit(max(n_patients - 1, 1), 1 - alpha / 2))


def _interval_quantile(alpha: float, n_patients: int, patients: Patients) -> float:
    """Return the quantile that an interval of a share uses: Student's if patients have many rows.

    Three degrees more than that, as the design effect is not estimated from the patients alone.
    """
    if patients.most_rows == 1:
        return float(special.ndtri(1 - alpha / 2))
    return _student(alpha, n_patients + 3)


def smallest_size(power: Power, target: float) -> int:
    """Return the size from which on the power stays reached.

    Whole errors decide, so the power falls a little with most patients and jumps with some: sizes
    up to a quarter above the first that reaches it are tried for one that misses.
    """
    high = 2
    while power(high) < target or power(high + high // 4) < target:
        high *= 2
        if high > MOST_PATIENTS:
            raise InvalidValue(f"more than {MOST_PATIENTS:,} patients are needed; ask for less")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if power(middle) < target else (low, middle)
    step = max(1, high // 1000)
    missing = [n for n in range(high, high + high // 4 + 10, step) if power(n) < target]
    return missing[-1] + step if missing else high


# The simulation ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Simulator:
    """Studies of one plan, and the correction of its size by them."""

    study: Study
    patients: Patients
    pilot: Pilot | None
    judge: Judge
    source: str
    n_studies: int = N_STUDIES

    def outcomes(self, n_asked: int) -> FloatArray:
        """Judge simulated studies of so many patients; always the same ones."""
        generator = np.random.default_rng(self.study.seed)
        n_studies = self.study.n_simulations or self.n_studies
        return np.array([self.judge(n_asked, generator) for _ in range(n_studies)])

    def corrected(
        self,
        start: int,
        formula: Power | None,
        *,
        succeeded: Callable[[FloatArray], np.ndarray],
        rescaled: Callable[[int, FloatArray], float],
    ) -> tuple[int, float, Simulation | None]:
        """Return a size in patients that count, its power, and the simulation that confirms it.

        The first simulation is held against the formula. If they disagree, sizes are corrected
        until one reaches the power that the study asks for.
        """
        stated = self.study.power if formula is None else formula(start)
        tolerance: Callable[[Simulation], float] = _chance
        n, missed, reached = start, 1, MOST_PATIENTS  # sizes between which the answer must be
        for _ in range(_MOST_SIMULATIONS):
            n_asked = self._n_asked(n)
            if self._n_rows(n_asked) > MOST_SIMULATED_ROWS:
                if formula is not None and n == start:
                    return n, stated, None
                raise InvalidValue(
                    f"more than {MOST_SIMULATED_ROWS:,} rows would have to be simulated; ask for "
                    "less power, a larger difference or a wider interval"
                )
            outcomes = self.outcomes(n_asked if self.source == "pilot" else n)
            share = float(succeeded(outcomes).mean())
            found = Simulation(share, outcomes.size, self.source)
            near = abs(share - stated) <= tolerance(found)
            if near or self.study.n_patients is not None or n == reached:
                break
            stated, tolerance = self.study.power, lambda _: _NEAR
            missed, reached = (n, reached) if share < stated else (missed, n)
            n = math.ceil(min(max(rescaled(n, outcomes), n / 5), 5 * n))
            if not missed < n < reached:
                n = math.ceil((missed + reached) / 2)
        # What confirms the formula is the first simulation; later ones are held against the target.
        confirmed = formula is not None and near and tolerance is _chance
        return n, formula(n) if formula is not None and confirmed else share, found

    def plan(
        self,
        question: str,
        goal: str,
        *,
        formula: Power | None,
        succeeded: Callable[[FloatArray], np.ndarray],
        rescaled: Callable[[int, FloatArray], float],
        inputs: JsonObject,
        assumptions: tuple[str, ...],
    ) -> Plan:
        """Find the size, or take the given one, and put the answer together."""
        study, pilot = self.study, self.pilot
        if study.n_patients is not None:
            start = study.n_patients if pilot is None else pilot.n_counted(study.n_patients)
        elif formula is not None:
            start = smallest_size(formula, study.power)
        else:
            start = pilot.n_patients if pilot is not None else 2
        n, power, simulation = self.corrected(
            start, formula, succeeded=succeeded, rescaled=rescaled
        )
        n_asked = self._n_asked(n)
        if study.n_patients is not None:
            n_asked = study.n_patients
        return Plan(
            question=question,
            goal=goal,
            n_patients=n_asked,
            n_rows=self._n_rows(n_asked),
            power=power,
            target_power=study.power,
            formula_n_patients=None if formula is None else self._n_asked(start),
            design_effect=self.patients.design_effect,
            simulation=simulation,
            inputs={
                **inputs,
                "power": study.power,
                **({} if question == "certify" else {"alpha": study.alpha}),
                "cluster_size": self.patients.mean_size,
                "icc": self.patients.icc,
                "n_patients": study.n_patients,
                "seed": study.seed,
            },
            assumptions=(*assumptions, *self._about_patients()),
            pilot=pilot,
        )

    def _n_asked(self, n_counted: int) -> int:
        return n_counted if self.pilot is None else self.pilot.n_asked(n_counted)

    def _n_rows(self, n_asked: int) -> int:
        if self.pilot is None:
            return math.ceil(n_asked * self.patients.mean_size - _SAME)
        of_pilot = self.pilot.patients.mean_size if self.pilot.is_share else 1.0
        return math.ceil(self.pilot.n_rows(n_asked) * self.patients.mean_size / of_pilot - 1e-6)

    def _about_patients(self) -> list[str]:
        if self.pilot is None:
            rows = "one row"
            if self.patients.most_rows > 1:
                rows = f"{self.patients.mean_size:.3g} rows (ICC {self.patients.icc:.3g})"
            return [f"Every patient has {rows}; every row gets a reply."]
        known = "Rows per patient, their correlation and the share of rows without a reply"
        n = self.pilot.n_patients
        return [f"{known} are as in the pilot of {n:,} patients, which knows them roughly."]


def _chance(simulation: Simulation) -> float:
    """Return how far from the formula a simulation may be, by the promise or by chance."""
    return max(0.03, 2.5 * simulation.standard_error)


def _quantile_of(widths: FloatArray, share: float) -> float:
    """Return the width that this share of studies does not exceed; some may have none."""
    return float(np.quantile(widths, share, method="higher"))


def _probit_factor(seen: float, target: float, tail: float) -> float:
    """Return how many times more patients bring the power from ``seen`` to the target.

    Φ⁻¹(power) + z grows as √n, z being the quantile of the test.
    """
    z = float(special.ndtri(1 - tail))
    reached = float(special.ndtri(min(max(seen, 0.01), 0.99))) + z
    return ((float(special.ndtri(target)) + z) / max(reached, 0.3)) ** 2


def _patients(study: Study, pilot: Pilot | None) -> Patients:
    if study.patients is not None:
        return study.patients
    return pilot.patients if pilot is not None and pilot.is_share else Patients()


def patients_of(
    pilot: Pilot | None, cluster_size: float | None, icc: float | None
) -> Patients | None:
    """Return the patients that options describe, what is missing as in the pilot; None for none."""
    if cluster_size is None and icc is None:
        return None
    known = pilot.patients if pilot is not None and pilot.is_share else None
    if cluster_size is None and known is not None:
        return replace(known, icc=icc or 0.0)
    if icc is None and (cluster_size or 1) > 1 and known is None:
        raise InvalidValue("rows of one patient resemble each other: add --icc (0 if they do not)")
    seen = 0.0 if known is None or (cluster_size or 1) == 1 else known.icc
    return Patients(1.0 if cluster_size is None else cluster_size, seen if icc is None else icc)


def _drawn_from(pilot: Pilot | None, study: Study) -> Pilot | None:
    """Return the pilot where nothing that it knows was replaced, else None."""
    return pilot if study.patients is None else None


def _expected(pilot: Pilot | None) -> float:
    if pilot is None:
        raise InvalidValue("missing --expected (or a pilot: --from RUN)")
    value = float(pilot.values[0].mean())
    if not 0 < value < 1:
        raise InvalidValue(
            f"{pilot.metric.key} is {value:g} in the pilot, which does not show how often it "
            "misses; add --expected"
        )
    return value


def _check_paired(difference: float, discordance: float, margin: float | None) -> None:
    if not 0 < discordance <= 1:
        raise InvalidValue(
            f"--discordance must be above 0 and at most 1, not {discordance!r}; it is the share of "
            "rows that exactly one of the runs has right"
        )
    if not abs(difference) <= discordance:
        raise InvalidValue(
            f"a difference of {difference!r} cannot be larger than the discordance of "
            f"{discordance!r}: runs differ only on rows that one of them alone has right"
        )
    if margin is not None and not difference + margin > 0:
        raise InvalidValue(
            f"a run that is {-difference!r} worse cannot be shown to be at most {margin!r} worse "
            "at any size; choose a larger margin"
        )
    if margin is None and not difference > 0:
        raise InvalidValue(f"--difference must be above 0, not {difference!r}")


def _check_expected_risk(expected_risk: float, risk: float) -> None:
    if not 0 <= expected_risk < 1:
        raise InvalidValue(f"--expected-risk must be between 0 and 1, not {expected_risk!r}")
    if expected_risk >= risk:
        raise InvalidValue(
            f"the expected risk {expected_risk:g} is not below {risk:g}, so no size helps"
        )
