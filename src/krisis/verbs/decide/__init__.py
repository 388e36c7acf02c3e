"""`krisis.decide`: what answering and deferring cost, and with which reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from krisis.api.given import AnyCertificate, AnyRun, calibrator_of, certificate_of
from krisis.confidence.calibrators import Calibrator
from krisis.cost_file import AnyCosts
from krisis.decisions.answers import with_costs
from krisis.decisions.run_sample import MOST_NOT_EVALUATED, ScoreOptions
from krisis.decisions.sample import DEFAULT_DELTA, DEFAULT_RISK
from krisis.decisions.threshold_in_force import RiskBound, threshold_of_run
from krisis.errors import InvalidValue
from krisis.metrics.items import RunItems, Source
from krisis.results.artefacts import kind_of
from krisis.results.base import BenchmarkResult
from krisis.results.loading import load_result
from krisis.results.run_items import items_of, items_of_result
from krisis.verbs.decide.curve import THRESHOLDS, CurveOptions, DecisionCurve, decision_curve
from krisis.verbs.decide.policies import DecideOptions, Decision, decide_run
from krisis.verbs.decide.population import Prevalence
from krisis.verbs.decide.reader import ReaderDecision, decide_with_reader
from krisis.verbs.decide.team import stated_team

AnyDecision: TypeAlias = Decision | DecisionCurve | ReaderDecision


def decide(
    run: AnyRun,
    *,
    costs: AnyCosts | None = None,
    price: float | None = None,
    confidence: str = "",
    calibration: str | Path | Calibrator | None = None,
    against: Sequence[AnyRun] = (),
    prevalence: float | str | None = None,
    reader: AnyRun | None = None,
    reader_sensitivity: float | None = None,
    reader_specificity: float | None = None,
    reader_accuracy: float | None = None,
    reader_column: str = "",
    curve: bool = False,
    thresholds: Sequence[float] = (),
    threshold: float | None = None,
    risk: float = DEFAULT_RISK,
    delta: float = DEFAULT_DELTA,
    certificate: AnyCertificate = None,
    default_action: str = "",
    max_not_evaluated: float = MOST_NOT_EVALUATED,
    mode: str | None = None,
    seed: int = 42,
) -> AnyDecision:
    """Estimate what answering and deferring cost, and from which confidence on to answer.

    Arguments:
        run: A run by its path, or in memory.
        costs: What if answers and deferrals cost this? A `Costs`, or the YAML file of one, in
            place of the costs of the task.
        price: What if one deferral costs this share of the costliest error?
        confidence: A confidence variant, or ``signals.NAME``; that of the task unless given.
        calibration: Calibrator of `krisis calibrate` that makes the score.
        against: Other runs of the same cases to price.
        prevalence: Share of the positive answer, or ``ANSWER=SHARE,…`` of all, to re-weight to.
        reader: Run of a reader on the same cases, for model, reader and both together.
        reader_sensitivity: Stated sensitivity of a reader.
        reader_specificity: Stated specificity of a reader.
        reader_accuracy: Stated accuracy of a reader.
        reader_column: Metadata column with the reader's answers.
        curve: Return the decision curve of a binary task in place of costs.
        thresholds: Threshold probabilities of the curve.
        threshold: Also price deferring below this confidence; of a curve or with a reader, in
            place of the certified one.
        risk: Risk at which a threshold is certified.
        delta: Probability that the certificate is wrong.
        certificate: Certificate of `krisis certify`, whose threshold is taken instead.
        default_action: Of the curve: treat or none, where neither model nor reader decides.
        max_not_evaluated: Largest share of cases without a reply on which a run is judged.
        mode: The experiment of a PHQ-8 run file.
        seed: Seed of folds and drawn patients.

    Returns:
        A `Decision`; with ``curve`` a `DecisionCurve`, with ``reader`` a `ReaderDecision`.

    >>> import krisis
    >>> rows = {"y": [0, 1] * 50, "p": [0, 1, 0, 0] * 25, "c": [0.9, 0.8, 0.7, 0.6] * 25}
    >>> run = krisis.score(rows, truth="y", prediction="p", confidence="c", answers=[0, 1])
    >>> krisis.decide(run, curve=True).positive
    1
    """
    items = items_of(run, mode)
    score = ScoreOptions(
        confidence=confidence,
        calibrator=calibrator_of(calibration),
        seed=seed,
        max_not_evaluated=max_not_evaluated,
    )
    team = stated_team(
        sensitivity=reader_sensitivity,
        specificity=reader_specificity,
        accuracy=reader_accuracy,
        column=reader_column,
    )
    sealed = certificate_of(certificate)
    bound = RiskBound(risk=risk, delta=delta)
    answer_from = threshold
    if (curve or reader is not None) and threshold is None:
        answer_from = threshold_of_run(items, bound, score=score, certificate=sealed).threshold
    if reader is not None:
        _refuse_beside_reader(
            costs=costs,
            price=price,
            against=against,
            prevalence=prevalence,
            curve=curve,
            reader_sensitivity=reader_sensitivity,
            reader_specificity=reader_specificity,
            reader_accuracy=reader_accuracy,
            reader_column=reader_column,
            thresholds=thresholds,
            default_action=default_action,
        )
        return decide_with_reader(items, items_of(reader, mode), score, answer_from=answer_from)
    _refuse_mixture(curve, (costs, price, *against), (*thresholds, default_action))
    population = None if prevalence in (None, "") else Prevalence.from_text(str(prevalence))
    if curve:
        return decision_curve(
            items,
            CurveOptions(
                score=score,
                thresholds=sorted(set(thresholds)) or THRESHOLDS,
                answer_from=answer_from,
                team=team,
                default_action=default_action or "none",  # type: ignore[arg-type] # checked there
                prevalence=population,
            ),
        )
    options = DecideOptions(
        bound=bound,
        certificate=sealed,
        score=score,
        prevalence=population,
        team=team,
        answer_from=threshold,
    )
    judged = with_costs(items, costs, price)
    return decide_run(judged, options, baselines=baselines_of(run, against, mode))


def _refuse_mixture(curve: bool, of_costs: Sequence[object], of_curves: Sequence[object]) -> None:
    """Refuse options of costs for a decision curve, and the other way round."""
    if curve and any(value is not None for value in of_costs):
        raise InvalidValue(
            "--curve has neither costs nor other runs; omit --costs, --price and --against"
        )
    if not curve and any(of_curves):
        raise InvalidValue(
            "--thresholds and --default-action are of the decision curve; add --curve or omit them"
        )


def _refuse_beside_reader(**others: object) -> None:
    """Refuse options that the comparison with a reader does not use."""
    for name, value in others.items():
        if value:
            raise InvalidValue(
                f"--reader compares wrong answers; --{name.replace('_', '-')} does not apply to it"
            )


def baselines_of(
    run: AnyRun, others: Sequence[AnyRun], mode: str | None = None
) -> dict[str, RunItems]:
    """Return the runs that are named, and the suite's baselines on the same records."""
    named = {
        other.backend_name
        if isinstance(other, BenchmarkResult)
        else Path(other).resolve().name.removesuffix(".json"): items_of(other, mode)
        for other in others
    }
    if len(named) < len(others):
        raise InvalidValue("two baselines have one name; rename one of them")
    return {**own_baselines(run), **named}


def own_baselines(run: AnyRun) -> dict[str, RunItems]:
    """Return the baselines that a run was scored beside; other files keep none."""
    if isinstance(run, BenchmarkResult):
        result = run
    elif kind_of(Path(run)) == "run":
        result = load_result(Path(run))
    else:
        return {}
    return {
        name: items_of_result(BenchmarkResult(rows, {}, {}, name, facts=result), Source(name))
        for name, rows in result.baseline_rows.items()
        if name != result.backend_name
    }
