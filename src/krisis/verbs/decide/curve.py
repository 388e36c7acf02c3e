"""Decision curves: the net benefit of acting on a model, with and without deferral.

At a threshold probability t a case is treated if P(positive) ≥ t, and a false alarm weighs
w = t/(1 − t) as much as a case that is found: net benefit = TP/N − w·FP/N.

Reference: Vickers and Elkin, Decision curve analysis: a novel method for evaluating prediction
models, Medical Decision Making 26 (2006) 565–574.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from krisis.answers import Label
from krisis.decisions.answers import answers_of, is_positive, positive_of
from krisis.decisions.run_sample import ScoreOptions
from krisis.display import Documented
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics.discrimination import probability_of_positive
from krisis.metrics.disease import sides_of
from krisis.metrics.forms import prior_icc
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray
from krisis.statistics.intervals import check_level
from krisis.statistics.shares import ShareDistribution, mover_limits
from krisis.verbs.decide.population import Population, Prevalence
from krisis.verbs.decide.team import Team

# The chance that each row is treated at a threshold.
Treated = Callable[[float], FloatArray]
Action = Literal["treat", "none"]
ACTIONS: tuple[Action, ...] = ("treat", "none")
THRESHOLDS = tuple(i / 100 for i in range(1, 100))
ALL, NONE, MODEL, DEFERRAL = "treat all", "treat none", "model", "model with deferral"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveOptions:
    """How rows are scored, at which threshold probabilities, and what becomes of deferred cases.

    A case is deferred where the model abstained, gave no score, or a score below
    ``answer_from``. It takes the decision of the ``team``, else the ``default_action``.
    ``prevalence`` re-weights the rows to another population.
    """

    score: ScoreOptions = field(default_factory=ScoreOptions)
    thresholds: Sequence[float] = THRESHOLDS
    answer_from: float | None = None
    team: Team | None = None
    default_action: Action = "none"
    prevalence: Prevalence | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        check_level(self.level)
        if self.default_action not in ACTIONS:
            raise UnknownName.among("default action", str(self.default_action), ACTIONS)
        wrong = [t for t in self.thresholds if not 0 < t < 1]
        if wrong or not self.thresholds:
            raise InvalidValue(
                "threshold probabilities must be between 0 and 1, both ends excluded, not "
                f"{wrong[0] if wrong else 'none at all'}"
            )
        if self.answer_from is not None and not 0 <= self.answer_from <= 1:
            raise InvalidValue(
                "the confidence from which on the model answers must be between 0 and 1, not "
                f"{self.answer_from!r}"
            )


@dataclass(frozen=True, slots=True)
class BenefitPoint:
    """The net benefit of a strategy at one threshold, and by how much it is above treating all.

    ``standardized`` is the net benefit over the prevalence, its largest value.
    """

    threshold: float
    net_benefit: float
    low: float
    high: float
    standardized: float
    above_all: float
    above_all_low: float
    above_all_high: float

    @property
    def useful(self) -> bool:
        """Tell whether the limits show more benefit than treating all, and than treating none."""
        return self.low > 0 and self.above_all_low > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCurve(Documented):
    """The curves of all strategies over the same thresholds, with the counts they rest on."""

    run: RunItems
    options: CurveOptions
    population: Population
    positive: Label
    prevalence: float
    n_positive: int
    n_deferred: int
    curves: Mapping[str, Sequence[BenefitPoint]]

    builder: ClassVar[str] = "krisis.verbs.decide.page:curve_document"

    def to_json(self) -> JsonObject:
        """Return everything that is known of a decision curve, as JSON values."""
        run, options = self.run, self.options
        shares = self.population.shares.tolist()
        return {
            "kind": "krisis decision curve",
            "positive": self.positive,
            "prevalence": self.prevalence,
            "shares": dict(zip(self.population.names, shares, strict=False)),
            "effective_rows": self.population.effective_rows,
            "confidence": options.score.variant(run),
            "answer_from": options.answer_from,
            "default_action": options.default_action,
            "team": None if options.team is None else asdict(options.team),
            "level": options.level,
            "n_rows": run.n_items,
            "n_patients": run.table.patients.n,
            "n_positive": self.n_positive,
            "n_abstained": run.table.n_abstained,
            "n_deferred": self.n_deferred,
            "n_no_answer": run.table.n_no_answer,
            "n_not_evaluated": run.table.n_not_evaluated,
            "curves": {
                name: [{**asdict(point), "useful": point.useful} for point in points]
                for name, points in self.curves.items()
            },
            "useful": useful_ranges(self),
        }

    @property
    def last(self) -> str:
        """The strategy that is judged: the model, with deferral where it is asked for."""
        return DEFERRAL if DEFERRAL in self.curves else MODEL


def decision_curve(run: RunItems, options: CurveOptions) -> DecisionCurve:
    """Return the net benefit of treating all, none, by the model, and with deferral."""
    options.score.refuse_missing(run)
    positive, truth = _disease(run)
    options.score.refuse_seen(run, "makes its probabilities look better than they are")
    score = options.score.scores(run)
    probability = _probability(run, positive, score, options.score.variant(run))
    silent = np.isnan(probability)
    with np.errstate(invalid="ignore"):
        unsure = score < (0.0 if options.answer_from is None else options.answer_from)
    deferred: BoolArray = silent | unsure
    default = np.full(run.n_items, float(options.default_action == "treat"))
    handed_on = default
    if options.team is not None:
        errors = options.team.errors(run)
        handed_on = np.where(truth, 1 - errors, errors)
    population = Population.of(run, options.prevalence)
    benefit = _Benefit(run, population, truth, options.level)
    curves = {ALL: benefit.curve(options, lambda _: np.ones(run.n_items), fixed=True)}
    curves[NONE] = benefit.curve(options, lambda _: np.zeros(run.n_items), fixed=True)
    curves[MODEL] = benefit.curve(
        options, lambda t: np.where(silent, default, probability >= t).astype(np.float64)
    )
    if options.team is not None or options.answer_from is not None:
        curves[DEFERRAL] = benefit.curve(
            options, lambda t: np.where(deferred, handed_on, probability >= t).astype(np.float64)
        )
    return DecisionCurve(
        run=run,
        options=options,
        population=population,
        positive=positive,
        prevalence=benefit.prevalence,
        n_positive=int(np.count_nonzero(truth)),
        n_deferred=int(np.count_nonzero(deferred)),
        curves=curves,
    )


def _disease(run: RunItems) -> tuple[Label, BoolArray]:
    """Return the positive answer and who truly has it, or refuse a task without two sides."""
    positive, answers = positive_of(run), answers_of(run)
    if positive is None or len(answers) != 2:
        named = ", ".join(map(str, answers)) or "none"
        raise InvalidValue(
            "a decision curve needs a task with two answers, one of them the positive one; "
            f"{run.source.path} has the answers {named}"
            + (
                ""
                if positive is not None
                else " and names no positive one: set `positive` in the suite, or import the run "
                "with --positive"
            )
        )
    truth = is_positive(run)
    if truth.all() or not truth.any():
        side = "every" if truth.any() else "no"
        raise InvalidValue(
            f"{side} scored {run.words[1]} of {run.source.path} has the positive answer "
            f"{positive!r}; a decision curve needs cases with and without it"
        )
    return positive, truth


def _probability(run: RunItems, positive: Label, score: FloatArray, variant: str) -> FloatArray:
    """Return P(positive) of every row, NaN where there is no answer with a score."""
    outside = np.flatnonzero((score < 0) | (score > 1))
    if outside.size:
        raise InvalidValue(
            f"the confidence variant {variant!r} gives {score[outside[0]]:g} "
            f"({run.place(int(outside[0]))}), which is no probability; calibrate it with "
            "`krisis calibrate` and give the artifact with --calibration"
        )
    table = run.table.with_answers(replace(run.table.answers, positive=positive))
    return probability_of_positive(sides_of(table), score)


class _Benefit:
    """Net benefit as a sum of shares of the rows, each with the limits that know of patients."""

    def __init__(
        self, run: RunItems, population: Population, truth: BoolArray, level: float
    ) -> None:
        self.patients, self.icc = run.table.patients, prior_icc(run.table)
        self.population, self.truth, self.level = population, truth, level
        self.weights = population.weights
        self.prevalence = float(self.weights @ truth)
        if not 0 < self.prevalence < 1:
            raise InvalidValue(
                f"with these shares the prevalence is {self.prevalence:g}; a decision curve needs "
                "cases with and without the positive answer"
            )
        self._known: dict[tuple[int, bytes], tuple[float, FloatArray, FloatArray]] = {}

    def curve(
        self, options: CurveOptions, treated: Treated, *, fixed: bool = False
    ) -> list[BenefitPoint]:
        """Return the points of a strategy that gives every row a chance of being treated."""
        points = []
        for t in options.thresholds:
            chance, weight = treated(t), t / (1 - t)
            gain = np.where(self.truth, 1.0, -weight)
            value = float(self.weights @ (chance * gain))
            above = float(self.weights @ ((chance - 1) * gain))
            low, high = self._limits(chance, weight, fixed=fixed)
            if options.prevalence is not None:
                high = min(high, self.prevalence)  # which is given: nothing gains more
            # Treating all gains what is gained by those whom the strategy leaves untreated too.
            least, most = self._limits(1 - chance, weight, fixed=fixed)
            points.append(
                BenefitPoint(
                    t, value, low, high, value / self.prevalence, above, -most + 0.0, -least + 0.0
                )
            )
        return points

    def _limits(self, chance: FloatArray, weight: float, *, fixed: bool) -> tuple[float, float]:
        """Return the limits of Σ share of the stratum · (TP − w·FP) over all chances but 0."""
        parts, coefficients, constant = [], [], 0.0
        for stratum in np.flatnonzero(self.population.shares).tolist():
            inside = self.population.stratum == stratum
            for side, gain in ((self.truth, 1.0), (~self.truth, -weight)):
                whole = inside & side
                # That no false alarm was seen does not mean that there can be none.
                seen = chance[side] if fixed else np.append(chance[side], 1.0)
                for each in np.unique(seen).tolist() if whole.any() else ():
                    hit = whole & (chance == each)
                    coefficient = each * gain * float(self.population.shares[stratum])
                    if fixed and np.array_equal(hit, inside):
                        constant += coefficient  # the strategy says so, whoever comes
                    elif each > 0:
                        parts.append(self._share(stratum, inside, hit))
                        coefficients.append(coefficient)
        if not parts:
            return constant, constant
        share, limits, influence = (np.array(column) for column in zip(*parts, strict=True))
        low, high = mover_limits(share, limits, influence, np.array(coefficients))
        return constant + low, constant + high

    def _share(
        self, stratum: int, inside: BoolArray, hit: BoolArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return a share of the rows of a stratum, its limits and the influence of patients."""
        key = (stratum, np.packbits(hit).tobytes())
        if key not in self._known:
            hits, rows = self.patients.sums(hit), self.patients.sums(inside)
            found = ShareDistribution.of(hits, rows, prior_icc=self.icc, level=self.level)
            tail = (1 - self.level) / 2
            limits = found.quantile([tail, 1 - tail])
            influence = (hits - found.share * rows) / rows.sum()
            self._known[key] = found.share, limits, influence
        return self._known[key]


def useful_ranges(curve: DecisionCurve) -> list[list[float]]:
    """Return the ranges of thresholds at which the limits show a benefit over both defaults."""
    found: list[list[float]] = []
    before = False
    for point in sorted(curve.curves[curve.last], key=lambda one: one.threshold):
        if point.useful and before:
            found[-1][1] = point.threshold
        elif point.useful:
            found.append([point.threshold, point.threshold])
        before = point.useful
    return found
