"""The one threshold of a run: the certified one, or none.

The verdict, `decide`, `audit` and the viewer ask here. A threshold that merely has a low risk on
the rows that chose it promises nothing of new patients, so it is never the threshold in force.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from krisis.decisions.certify import Certificate, similar_patients
from krisis.decisions.run_sample import ScoreOptions, groups_of, sample_of, too_many_missing
from krisis.decisions.sample import (
    DEFAULT_DELTA,
    DEFAULT_RISK,
    Method,
    Sample,
    ThresholdSearch,
    check_bounds,
    divided,
    find_threshold,
    ratio_interval,
)
from krisis.decisions.verify import refuse_other, sample_for
from krisis.errors import MissingSignal, UserError
from krisis.json_values import JsonObject
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray
from krisis.statistics.intervals import Interval
from krisis.statistics.risk_tests import fewest_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskBound:
    """The risk that answered cases may have, and the chance of certifying it wrongly."""

    risk: float = DEFAULT_RISK
    delta: float = DEFAULT_DELTA

    def __post_init__(self) -> None:
        check_bounds(self.risk, self.delta)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThresholdInForce:
    """The certified threshold and the rows that it answers; without one, the model's own answers.

    Of several certified thresholds ``threshold`` is the cheapest and ``laxest`` the lowest; both
    are None where none could be certified, or where a certificate has one per group. Then
    ``lowest_risk`` is the lowest risk of any threshold that was tested, that of its ``n_lowest``
    most confident answers, and ``patients_to_tell`` about how many patients like these would
    certify one; NaN where none could be tested, with the ``reason``.
    """

    bound: RiskBound
    answered: BoolArray
    threshold: float | None = None
    laxest: float | None = None
    certified: bool = False
    lowest_risk: float = math.nan
    n_lowest: int = 0
    reason: str = ""
    patients_to_tell: int | None = None
    search: ThresholdSearch | None = None
    sample: Sample | None = None

    def coverage(self) -> Interval:
        """Return the interval of the share of cases that are answered, valid for any number."""
        assert self.sample is not None
        return ratio_interval(self.sample, self.answered, np.ones(self.sample.n_rows, np.bool_))

    @property
    def no_size_helps(self) -> bool:
        """Tell whether every threshold is shown to exceed the bound."""
        return self.search is not None and self.search.exceeds_everywhere()

    @property
    def is_share(self) -> bool:
        """Tell whether the risk is a share of wrong answers; else it is a mean loss."""
        tested = self.search.tested if self.search is not None else self.sample
        return tested is None or tested.binary

    @property
    def n_left(self) -> int:
        """Count the cases that are left for people."""
        return int(np.count_nonzero(~self.answered))

    def to_json(self) -> JsonObject:
        """Return the figures, without the rows."""
        return {
            "risk": self.bound.risk,
            "delta": self.bound.delta,
            "certified": self.certified,
            "threshold": self.threshold,
            "laxest": self.laxest,
            "n_answered": int(self.answered.sum()),
            "n_left_for_people": self.n_left,
            "lowest_risk": None if math.isnan(self.lowest_risk) else self.lowest_risk,
            "n_lowest": self.n_lowest,
            "no_size_helps": self.no_size_helps,
            "reason": self.reason,
        }


def threshold_of_run(
    run: RunItems,
    bound: RiskBound | None = None,
    *,
    score: ScoreOptions | None = None,
    certificate: Certificate | None = None,
) -> ThresholdInForce:
    """Return the threshold of a run: that of a certificate, else the one its rows certify.

    A run that cannot be judged has no threshold, with the reason. A certificate of another model,
    task or score is refused.
    """
    score = score or ScoreOptions()
    if certificate is not None:
        return _of_certificate(run, certificate, score)
    bound = bound or RiskBound()
    table = run.table
    if too_many_missing(table.n_not_evaluated, table.n_rows, score.max_not_evaluated):
        lost = f"{table.n_not_evaluated:,} of {table.n_rows:,} cases were not evaluated"
        missing = f"{lost}: resume the run"
        return ThresholdInForce(bound=bound, answered=run.predicted, reason=missing)
    try:
        score.refuse_seen(run, "voids the guarantee")
        sample = sample_of(run, score)
    except UserError as error:
        return ThresholdInForce(
            bound=bound, answered=run.predicted, reason=_why_no_score(run, score, error)
        )
    return threshold_of_sample(sample, bound, own=run.predicted)


def _why_no_score(run: RunItems, score: ScoreOptions, error: UserError) -> str:
    table, name = run.table, score.confidence or run.default_confidence
    if not table.answered.any():
        return "it answered no case: only answers would tell"
    if np.isnan(table.confidence[table.answered]).all():
        return "it stated no confidence: ask for one"
    if isinstance(error, MissingSignal):
        return (
            f"the confidence {name!r} needs signals that this model does not give: choose another"
        )
    return str(error)


def threshold_of_sample(
    sample: Sample, bound: RiskBound, *, own: BoolArray, method: Method = "fixed-sequence"
) -> ThresholdInForce:
    """Certify a threshold on some rows; ``own`` are those that the model answered."""
    found = find_threshold(sample, method, bound.risk, bound.delta)
    if found.threshold is not None:
        return ThresholdInForce(
            bound=bound,
            answered=sample.accepts(found.threshold),
            threshold=found.threshold,
            laxest=found.laxest_threshold,
            certified=True,
            search=found,
            sample=sample,
        )
    if found.lowest is None:
        return ThresholdInForce(
            bound=bound, answered=own, reason=_too_few(sample, found), search=found
        )
    needed = similar_patients(sample, found)
    accepted = sample.accepts(float(found.tested.candidates.threshold[found.lowest]))
    return ThresholdInForce(
        bound=bound,
        answered=own,
        lowest_risk=float(sample.loss[accepted].mean()),
        n_lowest=int(accepted.sum()),
        patients_to_tell=None if math.isnan(needed) else round(needed),
        search=found,
    )


def _too_few(sample: Sample, found: ThresholdSearch) -> str:
    """Say how many answers there are, of what, and how many it takes if none is wrong."""
    tested = found.tested
    n, fewest = tested.n_scored, fewest_rows(found.risk, divided(found.delta)[1])
    if not n:
        return "no answer has a confidence: ask for one"
    end, verb = ("", "is") if n == 1 else ("s", "are")
    what = f"answer{end} with a confidence"
    if tested.clustered:
        fewest *= tested.most_rows
    elif sample.clustered:
        what = f"patient{end}, one answer of each,"
    return f"{n:,} {what} {verb} too few: without an error it takes {fewest:,}"


def _of_certificate(
    run: RunItems, certificate: Certificate, score: ScoreOptions
) -> ThresholdInForce:
    refuse_other(certificate, run, score.confidence, score.calibrator)
    bound = RiskBound(risk=certificate.risk, delta=certificate.delta or DEFAULT_DELTA)
    known = {part.group: part.threshold for part in certificate.parts}
    if all(threshold is None for threshold in known.values()):
        reason = "the certificate names no threshold"
        return ThresholdInForce(bound=bound, answered=run.predicted, reason=reason)
    sample = sample_for(certificate, run, score.calibrator)
    answered = np.zeros(run.n_items, dtype=np.bool_)
    for name, rows in groups_of(run, certificate.by).items():
        answered |= rows & sample.accepts(known.get(name))
    return ThresholdInForce(
        bound=bound,
        answered=answered,
        threshold=certificate.threshold,
        laxest=None if certificate.by else certificate.parts[0].laxest,
        certified=True,
        sample=sample,
    )
