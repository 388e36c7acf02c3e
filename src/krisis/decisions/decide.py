"""What a run costs at every threshold, which rule costs least, and what a team makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Literal

import numpy as np

from krisis.confidence.variants import scores_of
from krisis.decisions.certificate import Certificate
from krisis.decisions.cost_rules import (
    ChowRule,
    accepts,
    best_threshold,
    chow_rule,
    cross_fitted,
)
from krisis.decisions.costs import PER, CostTable
from krisis.decisions.population import Population, Prevalence, Quantity, answers_of
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.team import Team, Workload, team_quantities, workload
from krisis.decisions.threshold_in_force import RiskBound, ThresholdInForce, threshold_of_run
from krisis.display import Documented
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval, check_level

_MOST_POINTS = 50
Kind = Literal["curve", "always", "certified", "chow", "cross-fitted", "given", "baseline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideOptions:
    """What answers cost, how rows are scored, and what else is asked about the decision.

    ``bound`` is the risk at which a threshold is certified; a ``certificate`` brings its own.
    """

    costs: CostTable
    bound: RiskBound = field(default_factory=RiskBound)
    certificate: Certificate | None = None
    score: ScoreOptions = field(default_factory=ScoreOptions)
    prevalence: Prevalence | None = None
    team: Team | None = None
    n_folds: int = 10
    answer_from: float | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        check_level(self.level)
        if self.n_folds < 2:
            raise InvalidValue(f"cross-fitting needs 2 folds or more, not {self.n_folds}")
        if self.answer_from is not None and not math.isfinite(self.answer_from):
            raise InvalidValue(f"answer_from must be a number, not {self.answer_from!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A way to answer or defer: its coverage, and its cost per 1,000 rows with an interval.

    ``n_rows`` is the denominator and ``effective_rows`` what it is worth at another prevalence;
    ``reason`` says why there is no cost.
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
    """What a policy saves against another one, per 1,000 of ``n_rows``."""

    policy: str
    against: str
    n_rows: int
    saved: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Documented):
    """The cost of every policy and of the curve over thresholds.

    ``in_force`` is the certified threshold, where there is one; savings are then its own, else
    those of the cross-fitted policy. ``best_threshold`` is the one with the least cost on all rows,
    None where that is to defer everything; the cross-fitted policy says what such a choice costs.
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
    best_threshold: float | None
    chow: ChowRule
    note: str = ""
    builder: ClassVar[str] = "krisis.pages.decide:decide_document"

    @property
    def shares(self) -> dict[str, float]:
        """The share of every true answer at another prevalence, in the order of the task."""
        found = dict(zip(self.population.names, self.population.shares.tolist(), strict=False))
        return {str(one): found[str(one)] for one in answers_of(self.run) if str(one) in found}

    def to_json(self) -> JsonObject:
        """Return everything that is known of a decision, as JSON values."""
        run, options, chow = self.run, self.options, self.chow
        return {
            "kind": "krisis decision",
            "per": PER,
            "of": f"{run.words[1]}s",
            "costs": options.costs.to_json(),
            "confidence": options.score.variant(run),
            "level": options.level,
            "seed": options.score.seed,
            "n_folds": min(options.n_folds, run.table.patients.n),
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
            "best_threshold": self.best_threshold,
            "chow_thresholds": {str(answer): t for answer, t in chow.thresholds.items()},
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


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a run with what answering and deferring them costs."""

    run: RunItems
    options: DecideOptions
    population: Population
    score: FloatArray
    answering: FloatArray
    deferring: FloatArray

    def asked(
        self, name: str, kind: Kind, accepted: BoolArray, threshold: float | None = None
    ) -> _Asked:
        costs = np.where(accepted, self.answering, self.deferring)
        return _Asked(name, kind, accepted.astype(np.float64), costs, threshold)

    def bounds(self, answers: FloatArray) -> tuple[float, float]:
        """Return the least and the most that a row can cost under a policy."""
        table, ends = self.options.costs, []
        if (answers == 1).any():
            ends += [0.0, table.most]
        if (answers == 0).any():
            by_truth = table.defer.values() if isinstance(table.defer, Mapping) else [table.defer]
            priced = [cost for cost in by_truth if cost is not None]
            ends += [min(priced), max(priced) + table.needless_deferral]
        return min(ends, default=0.0), max(ends, default=0.0)


def decide_run(
    run: RunItems, options: DecideOptions, *, baselines: Mapping[str, RunItems] | None = None
) -> Decision:
    """Price every policy on the rows of a run; ``baselines`` are other runs of the same cases."""
    if not run.n_items:
        raise InvalidValue(f"{run.source.path} has no row that was answered or abstained on")
    options.score.refuse_missing(run)
    options.score.refuse_seen(run, "makes its costs look too low")
    score, note = _scores(run, options.score)
    population = Population.of(run, options.prevalence)
    answering, deferring = options.costs.answer_costs(run), options.costs.deferral_costs(run)
    rows = _Rows(run, options, population, score, answering, deferring)
    chow = chow_rule(run, options.costs, score, population)
    extra = population.weights * (answering - deferring)
    best = best_threshold(score, extra)
    in_force = threshold_of_run(
        run, options.bound, score=options.score, certificate=options.certificate
    )
    asked = [*_rules(rows, in_force, chow, best, extra), *_along_coverage(rows)]
    asked += [_baseline(rows, name, other) for name, other in (baselines or {}).items()]
    priced = _priced(rows, asked)
    if chow.reason:
        place = 2 + in_force.certified
        priced.insert(place, Policy(name="Chow's rule", kind="chow", reason=chow.reason))
    return Decision(
        run=run,
        options=options,
        population=population,
        in_force=in_force,
        n_scored=int(np.count_nonzero(~np.isnan(score))),
        policies=[policy for policy in priced if policy.kind != "curve"],
        curve=[policy for policy in priced if policy.kind == "curve"],
        savings=_savings(rows, asked),
        best_threshold=best,
        chow=chow,
        note=note,
    )


def price_answers(
    run: RunItems, options: DecideOptions, answered: Mapping[str, BoolArray]
) -> list[Policy]:
    """Price always answering, always deferring and answering some rows, as `decide_run` does."""
    population = Population.of(run, options.prevalence)
    answering, deferring = options.costs.answer_costs(run), options.costs.deferral_costs(run)
    no_score = np.full(run.n_items, math.nan)
    rows = _Rows(run, options, population, no_score, answering, deferring)
    asked = [
        rows.asked("always answer", "always", run.predicted),
        rows.asked("always defer", "always", np.zeros_like(run.predicted)),
    ]
    asked += [rows.asked(name, "given", kept) for name, kept in answered.items()]
    return _priced(rows, asked)


def _scores(run: RunItems, options: ScoreOptions) -> tuple[FloatArray, str]:
    """Return the score of every row; where a run lacks the score of its task, none."""
    try:
        return scores_of(run, options.variant(run), calibrator=options.calibrator), ""
    except InvalidValue as error:
        if options.confidence or options.calibrator:
            raise
        return np.full(run.n_items, math.nan), f"There is no score and hence no curve: {error}"


def _rules(
    rows: _Rows,
    in_force: ThresholdInForce,
    chow: ChowRule,
    best: float | None,
    extra: FloatArray,
) -> list[_Asked]:
    answered, patients = rows.run.predicted, rows.run.table.patients
    found = [
        rows.asked("always answer", "always", answered),
        rows.asked("always defer", "always", np.zeros_like(answered)),
    ]
    if in_force.certified:
        name, threshold = "certified threshold", in_force.threshold
        found.append(rows.asked(name, "certified", in_force.answered, threshold))
    if not chow.reason:
        found.append(rows.asked("Chow's rule", "chow", chow.accepted))
    if patients.n > 1:
        n_folds, seed = rows.options.n_folds, rows.options.score.seed
        fitted = cross_fitted(rows.score, extra, patients.code, n_folds=n_folds, seed=seed)
        found.append(rows.asked("best threshold, cross-fitted", "cross-fitted", fitted, best))
    given = rows.options.answer_from
    if given is not None:
        name = f"answer from {given:g}"
        found.append(rows.asked(name, "given", accepts(rows.score, given), given))
    return found


def _along_coverage(rows: _Rows) -> list[_Asked]:
    """Return up to 50 thresholds that divide the scored rows evenly, from strict to lax."""
    ranked = -np.sort(-rows.score[~np.isnan(rows.score)])
    picked = np.linspace(0, ranked.size - 1, min(ranked.size, _MOST_POINTS)).astype(np.int64)
    thresholds = [None, *dict.fromkeys(ranked[picked].tolist())]
    return [rows.asked("", "curve", accepts(rows.score, t), t) for t in thresholds]


def _baseline(rows: _Rows, name: str, other: RunItems) -> _Asked:
    """Price another run on the rows of this one; rows that it lacks or failed have no cost."""
    place = {row.record_id: index for index, row in enumerate(other.table.rows)}
    shared = dict[int, int]()
    for index, row in enumerate(rows.run.table.rows):
        found = place.get(row.record_id) if row.record_id else None
        if found is None:
            continue
        truth = rows.run.table.labels[rows.run.table.truth[index]]
        if truth != other.table.labels[other.table.truth[found]]:
            raise InvalidValue(
                f"{rows.run.place(index)} has another true answer in the baseline {name}; name a "
                "run of the same cases"
            )
        shared[index] = found
    if not shared:
        raise InvalidValue(
            f"the baseline {name} shares no record_id with {rows.run.source.path}; name a run of "
            "the same cases"
        )
    answering = rows.options.costs.answer_costs(other)
    priced, answers = np.full(rows.run.n_items, math.nan), np.full(rows.run.n_items, math.nan)
    here, there = list(shared), list(shared.values())
    answers[here] = other.predicted[there]
    priced[here] = np.where(other.predicted[there], answering[there], rows.deferring[here])
    return _Asked(f"baseline {name}", "baseline", answers, priced)


def _priced(rows: _Rows, asked: Sequence[_Asked]) -> list[Policy]:
    """Return the cost of every policy, all intervals from one draw of patients."""
    quantities = {
        (index, "cost"): Quantity(one.costs, *rows.bounds(one.answers))
        for index, one in enumerate(asked)
    }
    team = rows.options.team
    if team is not None:
        errors = team.errors(rows.run)
        for index, one in enumerate(asked):
            if one.kind != "baseline":
                found = team_quantities(rows.run, one.answers == 1, errors)
                quantities |= {(index, name): quantity for name, quantity in found.items()}
    intervals = _intervals(rows, quantities)
    policies = []
    for index, one in enumerate(asked):
        shown = None
        if team is not None and one.kind != "baseline":
            means = {
                name: (rows.population.mean(quantity.values), intervals[i, name])
                for (i, name), quantity in quantities.items()
                if i == index and name != "cost"
            }
            shown = workload(means, 1 - rows.population.mean(one.answers))
        policies.append(_policy(rows, one, intervals[index, "cost"], shown))
    return policies


def _intervals(
    rows: _Rows, quantities: Mapping[tuple[int, str], Quantity]
) -> dict[tuple[int, str], Interval]:
    seed, level = rows.options.score.seed, rows.options.level
    return rows.population.intervals(quantities, BootstrapOptions(seed=seed, level=level))


def _policy(rows: _Rows, one: _Asked, interval: Interval, shown: Workload | None) -> Policy:
    known = ~np.isnan(one.costs)
    weights, cost = rows.population.weights[known], rows.population.mean(one.costs)
    return Policy(
        name=one.name,
        kind=one.kind,
        threshold=one.threshold,
        coverage=rows.population.mean(one.answers),
        n_answered=int(np.nansum(one.answers)),
        n_rows=int(known.sum()),
        effective_rows=float(weights.sum() ** 2 / np.square(weights).sum()),
        cost=PER * cost,
        low=PER * interval.low,
        high=PER * interval.high,
        reason="one of the true answers has no row here" if math.isnan(cost) else "",
        workload=shown,
    )


def _savings(rows: _Rows, asked: Sequence[_Asked]) -> list[Saving]:
    """Compare the certified threshold with the policies that look at no score, row by row.

    Where none is certified, the cross-fitted one is compared.
    """
    by_kind = {one.kind: one for one in asked}
    fitted = by_kind.get("certified", by_kind.get("cross-fitted"))
    others = [one for one in asked if one.kind in ("always", "baseline")]
    if fitted is None:
        return []
    quantities = {}
    for index, other in enumerate(others):
        (low, high), (least, most) = rows.bounds(fitted.answers), rows.bounds(other.answers)
        saved = Quantity(other.costs - fitted.costs, least - high, most - low)
        quantities[index, "saved"] = saved
    intervals = _intervals(rows, quantities)
    return [
        Saving(
            policy=fitted.name,
            against=other.name,
            n_rows=int(np.count_nonzero(~np.isnan(other.costs))),
            saved=PER * rows.population.mean(quantities[index, "saved"].values),
            low=PER * intervals[index, "saved"].low,
            high=PER * intervals[index, "saved"].high,
        )
        for index, other in enumerate(others)
    ]
