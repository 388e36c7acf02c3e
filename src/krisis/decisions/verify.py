"""A certificate on new patients: whether its promise held, and whether they are exchangeable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from krisis.answers import Label
from krisis.confidence.calibrators import Calibrator
from krisis.costs import Costs
from krisis.decisions.answers import with_costs
from krisis.decisions.certify import Certificate, Identity, Threshold, patients_to_show
from krisis.decisions.run_sample import (
    ScoreOptions,
    groups_of,
    named_patients,
    patient_scores,
    rows_hash,
    sample_of,
)
from krisis.decisions.sample import DEFAULT_DELTA, Sample, ratio_interval
from krisis.display import Documented
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject, JsonValue
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray
from krisis.statistics.intervals import Interval

Verdict = Literal["held", "broken", "cannot tell"]
Moment: TypeAlias = float | datetime
_LEVEL = 0.95
_N_PERMUTATIONS = 1000
_VALUES_PER_BLOCK = 1_000_000


@dataclass(frozen=True, slots=True)
class Promise:
    """A bound on the risk above a threshold; with ``whole``, deferred rows count, with no loss."""

    threshold: float
    risk: float
    delta: float = DEFAULT_DELTA
    whole: bool = False

    @classmethod
    def of(cls, certificate: Certificate, part: Threshold) -> Promise:
        """Take the promise of one part of a certificate."""
        whole = certificate.method == "crc"
        return cls(
            float(part.threshold or 0.0), certificate.risk, part.delta or DEFAULT_DELTA, whole
        )

    def losses(self, sample: Sample) -> tuple[Sample, FloatArray, BoolArray]:
        """Return the losses of the accepted rows, and the rows that the risk is an average of.

        With ``whole`` the rows become patients, each with the mean of its rows.
        """
        accepted = sample.accepts(self.threshold)
        lost = np.where(accepted, sample.loss, 0.0)
        if not (self.whole and sample.clustered):
            return sample, lost, accepted | self.whole
        means = sample.patient_sums(lost) / sample.patient_sums(np.ones(sample.n_rows))
        people = replace(sample, score=means, loss=means, patient=np.arange(means.size))
        return replace(people, binary=False), means, np.ones(means.size, dtype=np.bool_)

    def judged(self, sample: Sample, *, level: float = _LEVEL) -> tuple[Verdict, Interval]:
        """Return what new rows say, with the interval of their risk, by the test that certifies.

        Held where the interval lies below the bound, broken where it lies above.
        """
        interval = ratio_interval(*self.losses(self.tested(sample)), level=level)
        if interval.defined and interval.high <= self.risk:
            return "held", interval
        if interval.defined and interval.low > self.risk:
            return "broken", interval
        return "cannot tell", interval

    def tested(self, sample: Sample) -> Sample:
        """Return the rows that are tested: one per patient where there are few of several rows."""
        few = sample.clustered and sample.few_patients(self.risk, self.delta)
        return sample.one_row_each() if few and not self.whole else sample

    def n_to_tell(self, sample: Sample, *, level: float = _LEVEL) -> int | None:
        """Return how many patients like these would decide in 80 % of studies; None if unknown.

        A risk seen below the bound would be shown to hold, one above it to be broken: that is the
        share of right answers below its own bound.
        """
        tested = self.tested(sample)
        people, lost, among = self.losses(tested)
        risk = self.risk
        if among.any() and lost[among].mean() > risk:
            lost, risk = 1 - lost, 1 - risk
        n = patients_to_show(people, lost, among, risk=risk, level=(1 - level) / 2)
        n *= sample.n_patients / max(1, tested.n_patients)  # some had no row at the place drawn
        return math.ceil(n) if n > sample.n_patients else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartVerdict:
    """What new rows say to one threshold: risk and coverage with exact intervals.

    ``n_to_tell`` is how many patients like these would decide in 80 % of studies; None where they
    decide already, or where it is not known.
    """

    group: str
    threshold: float
    verdict: Verdict
    n_patients: int
    n_rows: int
    n_accepted: int
    loss_sum: float
    risk: float
    risk_interval: Interval
    coverage: float
    coverage_interval: Interval
    n_to_tell: int | None

    def to_json(self) -> JsonObject:
        """Return the part as JSON values, intervals by their ends."""
        risk, coverage = self.risk_interval, self.coverage_interval
        return {
            **asdict(self),
            "risk_interval": [risk.low, risk.high],
            "coverage_interval": [coverage.low, coverage.high],
            "level": risk.level,
            "interval_method": risk.method,
        }


@dataclass(frozen=True, slots=True)
class Verification(Documented):
    """What new patients say to a certificate; the p-values are of exchangeable scores.

    ``not_certified`` are groups of the new run that have no threshold.
    """

    certificate: Certificate
    parts: Sequence[PartVerdict]
    not_certified: Sequence[str]
    p_scores: float
    p_time: float | None
    builder: ClassVar[str] = "krisis.pages.certify:verification_document"

    @property
    def verdict(self) -> Verdict:
        """Broken where any part is, held where all are."""
        found = {part.verdict for part in self.parts}
        if "broken" in found:
            return "broken"
        return "held" if found == {"held"} else "cannot tell"

    def to_json(self) -> JsonObject:
        """Return the verification as JSON values."""
        return {
            "kind": "krisis.verification",
            "schema_version": 1,
            "verdict": self.verdict,
            "risk_bound": self.certificate.risk,
            "method": self.certificate.method,
            "parts": [part.to_json() for part in self.parts],
            "groups_not_certified": list(self.not_certified),
            "exchangeability": {"p_scores": self.p_scores, "p_time": self.p_time},
        }


def verify_run(
    certificate: Certificate,
    run: RunItems,
    *,
    confidence: str = "",
    calibrator: Calibrator | None = None,
    time: str = "",
) -> Verification:
    """Judge a certificate on the rows of another run of the same model, suite and variant.

    ``time`` names a metadata column that orders the patients.
    """
    refuse_other(certificate, run, confidence, calibrator)
    sample = sample_for(certificate, run, calibrator)
    refuse_calibration_patients(certificate, run, sample)
    groups = groups_of(run, certificate.by)
    known = {part.group: part for part in certificate.parts if part.threshold is not None}
    if not known:
        raise InvalidValue("the certificate names no threshold, so there is nothing to verify")
    nobody = np.zeros(run.n_items, dtype=np.bool_)
    level = 1 - (1 - _LEVEL) / len(known)
    scores = patient_scores(sample)
    return Verification(
        certificate,
        [
            _judged(certificate, part, sample.part(groups.get(name, nobody)), level)
            for name, part in known.items()
        ],
        sorted(set(groups) - set(known)),
        p_scores=same_scores_p(certificate.calibration_scores, scores, sample.seed),
        p_time=None if not time else _time_p(run, np.array(scores), time, sample.seed),
    )


def refuse_other(
    certificate: Certificate, run: RunItems, confidence: str, calibrator: Calibrator | None
) -> None:
    """Refuse a run that a certificate does not speak of, naming the difference."""
    was, here = certificate.identity.model_dump(), Identity.of(run).model_dump()
    for name, value in was.items():
        if here[name] != value:
            raise InvalidValue(
                f"the certificate is of the {name} {value!r} and {run.source.path} is of "
                f"{here[name]!r}; name a run of the same {name}"
            )
    if confidence and confidence != certificate.confidence:
        raise InvalidValue(
            f"the certificate is of the confidence variant {certificate.confidence!r}, not "
            f"{confidence!r}; omit --confidence"
        )
    given = None if calibrator is None else calibrator.content_hash
    if given != certificate.calibrator_hash:
        was_with = "another calibrator" if certificate.calibrator_hash else "no calibrator"
        need = "add --calibration with that artifact" if given is None else "name the right one"
        if not certificate.calibrator_hash:
            need = "omit --calibration"
        raise InvalidValue(f"the certificate was made with {was_with}; {need}")


def sample_for(
    certificate: Certificate, run: RunItems, calibrator: Calibrator | None = None
) -> Sample:
    """Return the rows of a run as those of a certificate were scored, at its costs."""
    wrong: dict[Label, dict[Label, float]] = {}
    for truth, answer, cost in certificate.costs:
        wrong.setdefault(truth, {})[answer] = cost
    options = ScoreOptions(
        confidence=certificate.confidence,
        calibrator=calibrator,
        loss=certificate.loss,
        rows_per_patient=certificate.rows_per_patient,
    )
    return sample_of(with_costs(run, Costs(wrong, certificate.price)), options)


def refuse_calibration_patients(certificate: Certificate, run: RunItems, sample: Sample) -> None:
    """Refuse a run of patients that the certificate was made on."""
    n_seen = certificate.calibration_patients.n_among(named_patients(run))
    are_same_rows = rows_hash(run, sample) == certificate.calibration_rows_hash
    if are_same_rows:
        n_seen = sample.n_patients
    if n_seen:
        stale = "; if one was removed from that run since, the certificate is stale: certify again"
        raise InvalidValue(
            f"{n_seen} of the {sample.n_patients} {run.words[0]}s of {run.source.path} are those "
            "that the certificate was made on, by their names; name a run of others (if they are "
            "others: rows named by number need ids, as of `krisis import --id`)"
            f"{stale if n_seen == sample.n_patients and not are_same_rows else ''}"
        )


def _judged(certificate: Certificate, part: Threshold, sample: Sample, level: float) -> PartVerdict:
    promise = Promise.of(certificate, part)
    accepted = sample.accepts(promise.threshold)
    _, lost, among = promise.losses(sample)
    verdict, risk = promise.judged(sample, level=level)
    return PartVerdict(
        group=part.group,
        threshold=promise.threshold,
        verdict=verdict,
        n_patients=sample.n_patients,
        n_rows=sample.n_rows,
        n_accepted=int(accepted.sum()),
        loss_sum=float(sample.loss[accepted].sum()),
        risk=float(lost.sum()) / int(among.sum()) if among.any() else math.nan,
        risk_interval=risk,
        coverage=float(accepted.mean()) if sample.n_rows else math.nan,
        coverage_interval=ratio_interval(
            sample, accepted, np.ones(sample.n_rows, dtype=np.bool_), level=level
        ),
        n_to_tell=promise.n_to_tell(sample, level=level) if verdict == "cannot tell" else None,
    )


def same_scores_p(before: Sequence[float | None], now: Sequence[float | None], seed: int) -> float:
    """Return the p-value of a two-sample permutation test of the scores of patients.

    The statistic is that of Kolmogorov and Smirnov; a patient without a score has the lowest.
    """
    values = np.array([*before, *now], dtype=np.float64)  # None becomes NaN
    values = np.where(np.isnan(values), -np.inf, values)
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    n, m = len(before), len(now)
    if not (n and m):
        return math.nan
    step = np.where((np.arange(n + m) < n)[order], float(m), -float(n))  # whole, so that ties tie

    def distance(steps: FloatArray) -> FloatArray:
        found: FloatArray = np.abs(np.cumsum(steps, axis=1)[:, ends]).max(axis=1)
        return found

    return _permutation_p(distance, step, seed)


def _permutation_p(
    statistic: Callable[[FloatArray], FloatArray], values: FloatArray, seed: int
) -> float:
    """Return how often a statistic of the rows of a table is as large for permuted values."""
    generator = np.random.default_rng(seed)
    seen = float(statistic(values[None, :])[0]) * (1 - 1e-12)
    n_block = max(1, _VALUES_PER_BLOCK // values.size)
    n_as_large = 0
    for start in range(0, _N_PERMUTATIONS, n_block):
        n_rows = min(n_block, _N_PERMUTATIONS - start)
        block = generator.permuted(np.tile(values, (n_rows, 1)), axis=1)
        n_as_large += int(np.count_nonzero(statistic(block) >= seen))
    return (1 + n_as_large) / (1 + _N_PERMUTATIONS)


def _time_p(run: RunItems, scores: FloatArray, column: str, seed: int) -> float:
    """Return the p-value of a permutation test of no rank correlation of score and time."""
    first: dict[int, Moment] = {}
    for code, moment in zip(run.table.patients.code.tolist(), moments_of(run, column), strict=True):
        if moment is not None:
            first[code] = min(moment, first.get(code, moment))
    moments = sorted(set(first.values()))
    place = {moment: index for index, moment in enumerate(moments)}
    codes = np.array(sorted(first))
    time = np.array([place[first[code]] for code in codes.tolist()], dtype=np.float64)
    score = np.where(np.isnan(scores[codes]), -np.inf, scores[codes])
    _, score_rank = np.unique(score, return_inverse=True)
    centred = score_rank - score_rank.mean()
    return _permutation_p(lambda times: np.abs(times @ centred), time - time.mean(), seed)


def moments_of(run: RunItems, column: str) -> list[Moment | None]:
    """Return when every row arrived, by a metadata column of numbers or of ISO dates and times."""
    values = run.table.metadata(column)
    found = [None if value is None else _moment(value, column) for value in values]
    kinds = {(type(one), getattr(one, "tzinfo", None) is None) for one in found if one is not None}
    if not kinds:
        raise InvalidValue(f"no row of {run.source.path} has the time {column!r} in its metadata")
    if len(kinds) > 1:
        raise InvalidValue(_no_order(column))
    return found


def _moment(value: JsonValue, column: str) -> Moment:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        raise InvalidValue(_no_order(column)) from None


def _no_order(column: str) -> str:
    return (
        f"the values of {column!r} cannot be put in order; write all as numbers or as dates "
        "such as 2026-01-31"
    )
