"""What a run costs by every policy and threshold, and what a team makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Literal

import numpy as np

from krisis.decisions.answers import (
    DiseaseCounts,
    answers_of,
    disease_counts,
    is_positive,
    judged_by,
    positive_of,
)
from krisis.decisions.certify import Certificate
from krisis.decisions.run_sample import ScoreOptions, shared_rows
from krisis.decisions.sample import accepts
from krisis.decisions.threshold_in_force import RiskBound, ThresholdInForce, threshold_of_run
from krisis.display import Documented
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.decision import PER, Decisions, decisions_of
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval, check_level
from krisis.verbs.decide.population import Key, Population, Prevalence, Quantity
from krisis.verbs.decide.team import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What model and readers do together, per 1,000 rows.

    ``missed`` are positive cases with another final answer, NaN where the task has no positive.
    """

    wrong: float
    wrong_low: float
    wrong_high: float
    missed: float
    missed_low: float
    missed_high: float
    read: float


def team_quantities(
    run: RunItems, accepted: BoolArray, reader_errors: FloatArray
) -> dict[str, Quantity]:
    """Return the chance of a wrong final answer of every row, and of a missed positive case."""
    wrong = np.where(accepted, ~run.table.correct, reader_errors).astype(np.float64)
    low, high = float(reader_errors.min()), float(reader_errors.max())
    bounds = (0.0, 1.0) if accepted.any() else (low, high)
    if positive_of(run) is None:
        return {"wrong": Quantity(wrong, *bounds)}
    missed = Quantity(wrong * is_positive(run), 0.0, bounds[1])
    return {"wrong": Quantity(wrong, *bounds), "missed": missed}


def workload(means: Mapping[str, tuple[float, Interval]], deferred: float) -> Workload:
    """Return the figures of a team where a share of the rows is deferred."""
    none = math.nan, Interval.undefined("the_task_has_no_positive_answer")
    (wrong, of_wrong), (missed, of_missed) = means["wrong"], means.get("missed", none)
    return Workload(
        wrong=1000 * wrong,
        wrong_low=1000 * of_wrong.low,
        wrong_high=1000 * of_wrong.high,
        missed=1000 * missed,
        missed_low=1000 * of_missed.low,
        missed_high=1000 * of_missed.high,
        read=1000 * deferred,
    )


_MOST_POINTS = 50
Kind = Literal["curve", "as run", "constant", "certified", "given", "baseline"]
AS_RUN = "as run"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideOptions:
    """How rows are scored, and what else is asked about the decision.

    Costs are those of the task of the run. ``bound`` is the risk at which a threshold is certified;
    a ``certificate`` brings its own.
    """

    bound: RiskBound = field(default_factory=RiskBound)
    certificate: Certificate | None = None
    score: ScoreOptions = field(default_factory=ScoreOptions)
    prevalence: Prevalence | None = None
    team: Team | None = None
    answer_from: float | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        check_level(self.level)
        if self.answer_from is not None and not math.isfinite(self.answer_from):
            raise InvalidValue(f"answer_from must be a number, not {self.answer_from!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A way to answer or defer: its coverage, and its mean cost with an interval.

    The costliest error costs 1. ``n_rows`` is the denominator and ``effective_rows`` what it is
    worth at another prevalence; ``reason`` says why there is no cost.
    """

    name: str
    kind: Kind
    threshold: float | None = None
    coverage: float = math.nan
    n_answered: int = 0
    n_rows: int = 0
    effective_rows: float = math.nan
    cost: float = math.nan
    low: float = math.nan
    high: float = math.nan
    reason: str = ""
    workload: Workload | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What a policy saves against another one of ``n_rows``, in costliest errors per 100 cases."""

    policy: str
    against: str
    n_rows: int
    saved: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Documented):
    """The cost of every policy and of the curve over thresholds.

    ``in_force`` is the certified threshold, where there is one; savings are its own, else those of
    the run as it is. ``disease`` says what becomes of the diseased at the certified threshold.
    ``note`` says why there is no score.
    """

    run: RunItems
    options: DecideOptions
    population: Population
    in_force: ThresholdInForce
    n_scored: int
    policies: Sequence[Policy]
    curve: Sequence[Policy]
    savings: Sequence[Saving]
    disease: DiseaseCounts | None = None
    note: str = ""
    builder: ClassVar[str] = "krisis.verbs.decide.page:decide_document"

    @property
    def shares(self) -> dict[str, float]:
        """The share of every true answer at another prevalence, in the order of the task."""
        found = dict(zip(self.population.names, self.population.shares.tolist(), strict=False))
        return {str(one): found[str(one)] for one in answers_of(self.run) if str(one) in found}

    def to_json(self) -> JsonObject:
        """Return everything that is known of a decision, as JSON values."""
        run, options = self.run, self.options
        return {
            "kind": "krisis decision",
            "of": f"{run.words[1]}s",
            "costs": run.table.answers.costs.to_json(),
            "told": run.told,
            "savings_per": PER,
            "confidence": options.score.variant(run),
            "level": options.level,
            "seed": options.score.seed,
            "n_rows": run.n_items,
            "n_patients": run.table.patients.n,
            "n_answered": int(run.predicted.sum()),
            "n_scored": self.n_scored,
            "n_abstained": run.table.n_abstained,
            "n_no_answer": run.table.n_no_answer,
            "n_not_evaluated": run.table.n_not_evaluated,
            "shares": self.shares,
            "effective_rows": self.population.effective_rows,
            "threshold": self.in_force.to_json(),
            "disease": None if self.disease is None else asdict(self.disease),
            "policies": [_policy_facts(policy) for policy in self.policies],
            "savings": [asdict(saving) for saving in self.savings],
            "curve": [_policy_facts(policy) for policy in self.curve],
            "team": None if options.team is None else asdict(options.team),
            "note": self.note,
        }


def _policy_facts(policy: Policy) -> JsonObject:
    return {name: value for name, value in asdict(policy).items() if name != "name" or value}


@dataclass(frozen=True, eq=False)
class _Asked:
    """A policy to be priced: 1 where it answers, 0 where it defers, NaN where it has no row."""

    name: str
    kind: Kind
    answers: FloatArray
    costs: FloatArray
    threshold: float | None = None

    @property
    def leaves_to_readers(self) -> bool:
        """Tell whether it is answers of the run that count where it does not defer."""
        is_answer = self.kind == "constant" and self.answers.any()
        return self.kind != "baseline" and not is_answer


class _Rows:
    """The rows of a run with what answering and deferring them costs."""

    def __init__(self, run: RunItems, options: DecideOptions) -> None:
        self.run, self.options = run, options
        self.population = Population.of(run, options.prevalence)
        self.decisions = found = self.decided(run)
        self.as_run = self.asked(AS_RUN, "as run", run.predicted)
        self.constants = [
            _Asked(f"always {name}", "constant", np.full(run.n_items, float(name != "defer")), cost)
            for name, cost in zip(found.names, found.policies, strict=True)
        ]

    def decided(self, run: RunItems) -> Decisions:
        """Return what every row costs; known probabilities do not hold at another prevalence."""
        return decisions_of(run.table, expected=not self.population.reweighted)

    def asked(
        self, name: str, kind: Kind, accepted: BoolArray, threshold: float | None = None
    ) -> _Asked:
        """Return the policy that answers some of the answered rows and defers the others."""
        costs = np.where(accepted, self.decisions.cost, self.decisions.price)
        return _Asked(name, kind, accepted.astype(np.float64), costs, threshold)

    def bounds(self, one: _Asked) -> tuple[float, float]:
        """Return the least and the most that a row can cost under a policy."""
        price = self.decisions.price
        return (0.0, 1.0) if (one.answers == 1).any() or one.kind == "as run" else (price, price)

    def intervals(self, quantities: Mapping[Key, Quantity]) -> dict[Key, Interval]:
        """Return the intervals of some means, all from one draw of patients."""
        seed, level = self.options.score.seed, self.options.level
        return self.population.intervals(quantities, BootstrapOptions(seed=seed, level=level))


def decide_run(
    run: RunItems, options: DecideOptions, *, baselines: Mapping[str, RunItems] | None = None
) -> Decision:
    """Price every policy on the rows of a run; ``baselines`` are other runs of the same cases."""
    if not run.n_items:
        raise InvalidValue(f"{run.source.path} has no row that was answered or abstained on")
    options.score.refuse_missing(run)
    options.score.refuse_seen(run, "makes its costs look too low")
    score, missing = options.score.scores_if_any(run)
    rows = _Rows(run, options)
    in_force = threshold_of_run(
        run, options.bound, score=options.score, certificate=options.certificate
    )
    asked = [rows.as_run]
    if in_force.certified:
        name, threshold = "certified threshold", in_force.threshold
        asked.append(rows.asked(name, "certified", in_force.answered, threshold))
    given = options.answer_from
    if given is not None:
        name = f"answer from {given:g}"
        asked.append(rows.asked(name, "given", accepts(score, given), given))
    asked += rows.constants
    asked += [
        rows.asked("", "curve", accepts(score, threshold), threshold)
        for threshold in _along_coverage(score)
    ]
    asked += [_baseline(rows, name, other) for name, other in (baselines or {}).items()]
    priced = _priced(rows, asked)
    return Decision(
        run=run,
        options=options,
        population=rows.population,
        in_force=in_force,
        n_scored=int(np.count_nonzero(~np.isnan(score))),
        policies=[policy for policy in priced if policy.kind != "curve"],
        curve=[policy for policy in priced if policy.kind == "curve"],
        savings=_savings(rows, asked),
        disease=disease_counts(run, in_force.answered) if in_force.certified else None,
        note=f"No threshold can be chosen: {in_force.reason}." if missing else "",
    )


def price_answers(
    run: RunItems, options: DecideOptions, answered: Mapping[str, BoolArray]
) -> list[Policy]:
    """Price the run as it is, answering some rows, and every constant, as `decide_run` does."""
    rows = _Rows(run, options)
    given = [rows.asked(name, "given", kept) for name, kept in answered.items()]
    return _priced(rows, [rows.as_run, *given, *rows.constants])


def _along_coverage(score: FloatArray) -> list[float | None]:
    """Return up to 50 thresholds that divide the scored rows evenly, from strict to lax."""
    ranked = -np.sort(-score[~np.isnan(score)])
    picked = np.linspace(0, ranked.size - 1, min(ranked.size, _MOST_POINTS)).astype(np.int64)
    return [None, *dict.fromkeys(ranked[picked].tolist())]


def _baseline(rows: _Rows, name: str, other: RunItems) -> _Asked:
    """Price another run on the rows of this one; rows that it lacks or failed have no cost."""
    other = judged_by(other, rows.run.table.answers)
    shared = shared_rows(rows.run, other, f"the baseline {name}")
    priced, answers = np.full(rows.run.n_items, math.nan), np.full(rows.run.n_items, math.nan)
    here, there = list(shared), list(shared.values())
    answers[here] = other.predicted[there]
    priced[here] = rows.decided(other).cost[there]
    return _Asked(f"baseline {name}", "baseline", answers, priced)


def _priced(rows: _Rows, asked: Sequence[_Asked]) -> list[Policy]:
    """Return the cost of every policy, all intervals from one draw of patients."""
    quantities = {
        (index, "cost"): Quantity(one.costs, *rows.bounds(one)) for index, one in enumerate(asked)
    }
    team = rows.options.team
    if team is not None:
        errors = team.errors(rows.run)
        for index, one in enumerate(asked):
            if one.leaves_to_readers:
                found = team_quantities(rows.run, one.answers == 1, errors)
                quantities |= {(index, name): quantity for name, quantity in found.items()}
    intervals = rows.intervals(quantities)
    population, policies = rows.population, []
    for index, one in enumerate(asked):
        shown = None
        if team is not None and one.leaves_to_readers:
            means = {
                name: (population.mean(quantity.values), intervals[i, name])
                for (i, name), quantity in quantities.items()
                if i == index and name != "cost"
            }
            shown = workload(means, 1 - population.mean(one.answers))
        known = ~np.isnan(one.costs)
        weights, cost = population.weights[known], population.mean(one.costs)
        policies.append(
            Policy(
                name=one.name,
                kind=one.kind,
                threshold=one.threshold,
                coverage=population.mean(one.answers),
                n_answered=int(np.nansum(one.answers)),
                n_rows=int(known.sum()),
                effective_rows=float(weights.sum() ** 2 / np.square(weights).sum()),
                cost=cost,
                low=intervals[index, "cost"].low,
                high=intervals[index, "cost"].high,
                reason="one of the true answers has no row here" if math.isnan(cost) else "",
                workload=shown,
            )
        )
    return policies


def _savings(rows: _Rows, asked: Sequence[_Asked]) -> list[Saving]:
    """Compare the certified threshold, else the run, with what looks at no score, row by row."""
    saver = next((one for one in asked if one.kind == "certified"), rows.as_run)
    compared = ("as run", "constant", "baseline")
    others = [one for one in asked if one.kind in compared and one is not saver]
    quantities = {}
    for other in others:
        (low, high), (least, most) = rows.bounds(saver), rows.bounds(other)
        saved = Quantity(other.costs - saver.costs, least - high, most - low)
        quantities[other.name] = saved
    intervals = rows.intervals(quantities)
    return [
        Saving(
            policy=saver.name,
            against=other.name,
            n_rows=int(np.count_nonzero(~np.isnan(other.costs))),
            saved=PER * rows.population.mean(quantities[other.name].values),
            low=PER * intervals[other.name].low,
            high=PER * intervals[other.name].high,
        )
        for other in others
    ]
