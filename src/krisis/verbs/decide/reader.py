"""A model and a reader on the same cases: each alone, and the model with deferral to the reader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np

from krisis.decisions.run_sample import ScoreOptions, shared_rows
from krisis.decisions.sample import Candidates, accepts
from krisis.display import Documented
from krisis.json_values import JsonObject
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray, IntArray
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval
from krisis.verbs.decide.population import Population, Quantity
from krisis.verbs.decide.team import PER

_N_RESAMPLES = 2000


def best_threshold(score: FloatArray, extra: FloatArray) -> float | None:
    """Return the threshold with the least cost; None is to defer everything.

    ``extra`` is what answering a row costs beyond deferring it, times its weight. Of thresholds
    with equal costs the strictest is taken.

    >>> best_threshold(np.array([0.9, 0.8, 0.7]), np.array([-2.0, 1.0, -3.0]))
    0.7
    """
    found = Candidates.of(score, extra)
    chosen = int(np.argmin(np.append(0.0, found.loss_sum)))
    return None if chosen == 0 else float(found.threshold[chosen - 1])


def cross_fitted(
    score: FloatArray, extra: FloatArray, patient: IntArray, *, n_folds: int, seed: int
) -> BoolArray:
    """Accept the rows of each fold of patients by the threshold that the other folds choose."""
    n_patients = int(patient.max()) + 1
    fold = np.random.default_rng(seed).permutation(n_patients) % min(n_folds, n_patients)
    accepted = np.zeros(score.size, dtype=np.bool_)
    for k in range(min(n_folds, n_patients)):
        held_out = fold[patient] == k
        threshold = best_threshold(np.where(held_out, math.nan, score), extra)
        accepted |= held_out & accepts(score, threshold)
    return accepted


@dataclass(frozen=True, slots=True)
class Rate:
    """A figure per 1,000 cases with its interval by patient."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Way:
    """One way to answer the cases; ``read`` are those that the reader is asked about."""

    name: str
    wrong: Rate
    no_answer: Rate
    read: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderDecision(Documented):
    """What model, reader and team get wrong on the cases that both have.

    ``threshold`` is the confidence from which on the model answers, chosen on all common cases;
    None defers everything. Where it was not ``given``, the team's figures are cross-fitted: the
    threshold of every fold of patients was chosen on the others.
    """

    model: str
    reader: str
    n_common: int
    n_model: int
    n_reader: int
    n_patients: int
    confidence: str
    threshold: float | None
    given: bool
    ways: Sequence[Way]
    # The team's wrong answers minus those of the model and of the reader.
    beyond_model: Rate
    beyond_reader: Rate
    level: float
    seed: int
    n_folds: int

    builder: ClassVar[str] = "krisis.verbs.decide.page:reader_document"

    def to_json(self) -> JsonObject:
        """Return everything that is known, as JSON values."""
        return {"kind": "krisis reader decision", "per": PER, **asdict(self)}


def decide_with_reader(
    model: RunItems,
    reader: RunItems,
    score: ScoreOptions,
    *,
    answer_from: float | None = None,
    n_folds: int = 10,
    level: float = 0.95,
) -> ReaderDecision:
    """Compare a model, a reader, and the model that leaves its unsure cases to the reader.

    Pairs use the cases that both runs have. The model answers from a confidence on, the reader
    everything below and where the model gave no answer. Unless ``answer_from`` gives it, the
    threshold is the one with the fewest wrong answers of the team, chosen for each fold of patients
    on the other folds.
    """
    shared = shared_rows(model, reader, f"the reader's run {reader.source.path}")
    kept = np.zeros(model.n_items, dtype=np.bool_)
    kept[list(shared)] = True
    run = model if kept.all() else replace(model, table=model.table.restricted(kept))
    there = np.array(list(shared.values()))
    confidence = score.scores(run)
    answered, read = run.predicted, reader.predicted[there]
    wrong = (answered & ~run.table.correct).astype(np.float64)
    read_wrong = (read & ~reader.table.correct[there]).astype(np.float64)
    # A case without a final answer is not a wrong one, and no threshold may be rewarded for it.
    extra = (wrong + ~answered) - (read_wrong + ~read)
    best = best_threshold(confidence, extra) if answer_from is None else answer_from
    if answer_from is None and run.table.patients.n > 1:
        code = run.table.patients.code
        accepted = cross_fitted(confidence, extra, code, n_folds=n_folds, seed=score.seed)
    else:
        accepted = accepts(confidence, best)
    accepted &= answered
    quantities = _quantities(accepted, answered, read, wrong, read_wrong)
    population = Population.of(run)
    options = BootstrapOptions(_N_RESAMPLES, seed=score.seed, level=level)
    intervals = population.intervals(quantities, options)

    def rate(key: tuple[str, str]) -> Rate:
        return _rate(population.mean(quantities[key].values), intervals[key])

    ways = [
        Way(name, rate((name, "wrong")), rate((name, "no answer")), rate((name, "read")))
        for name in ("model alone", "reader alone", "model with reader")
    ]
    return ReaderDecision(
        model=model.source.model or model.source.path,
        reader=reader.source.model or reader.source.path,
        n_common=run.n_items,
        n_model=model.n_items,
        n_reader=reader.n_items,
        n_patients=run.table.patients.n,
        confidence=score.variant(run),
        threshold=best,
        given=answer_from is not None,
        ways=ways,
        beyond_model=rate(("team", "beyond model")),
        beyond_reader=rate(("team", "beyond reader")),
        level=level,
        seed=score.seed,
        n_folds=min(n_folds, run.table.patients.n),
    )


def _quantities(
    accepted: BoolArray,
    answered: BoolArray,
    read: BoolArray,
    wrong: FloatArray,
    read_wrong: FloatArray,
) -> dict[tuple[str, str], Quantity]:
    team = np.where(accepted, wrong, read_wrong)
    found = {
        ("model alone", "wrong"): wrong,
        ("model alone", "no answer"): ~answered,
        ("model alone", "read"): np.zeros(wrong.size),
        ("reader alone", "wrong"): read_wrong,
        ("reader alone", "no answer"): ~read,
        ("reader alone", "read"): np.ones(wrong.size),
        ("model with reader", "wrong"): team,
        ("model with reader", "no answer"): ~accepted & ~read,
        ("model with reader", "read"): ~accepted,
    }
    quantities = {key: Quantity(values.astype(np.float64)) for key, values in found.items()}
    quantities["team", "beyond model"] = Quantity(team - wrong, -1.0, 1.0)
    quantities["team", "beyond reader"] = Quantity(team - read_wrong, -1.0, 1.0)
    return quantities


def _rate(mean: float, interval: Interval) -> Rate:
    return Rate(PER * mean, PER * interval.low, PER * interval.high)
