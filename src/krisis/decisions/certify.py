"""A confidence threshold above which the risk is bounded, certified on the rows of one run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from krisis import __version__
from krisis.confidence.patient_keys import PatientKeys
from krisis.decisions.answers import disease_counts
from krisis.decisions.patients import Patients, intraclass_correlation
from krisis.decisions.run_sample import (
    ScoreOptions,
    groups_of,
    named_patients,
    patient_scores,
    rows_hash,
    sample_of,
    suite_rows,
)
from krisis.decisions.sample import (
    DEFAULT_DELTA,
    FIRST_SHARE,
    METHODS,
    Method,
    Sample,
    ThresholdSearch,
    check_bounds,
    divided,
    find_threshold,
    ratio_interval,
)
from krisis.display import Documented
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject, dumps
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray
from krisis.statistics.risk_tests import fewest_rows
from krisis.statistics.sample_size import assured_rows

SCHEMA_VERSION = 4

# A certificate may have been sent by anybody, with a checksum that fits: every number is checked.
Count = Annotated[int, Field(ge=0, le=10**12)]
Share = Annotated[float, Field(ge=0, le=1)]
Inside = Annotated[float, Field(gt=0, lt=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Identity(_Part):
    """What a run must share with the calibration run for a certificate to speak of it."""

    suite: str
    task: str
    features: str
    mode: str
    model: str

    @classmethod
    def of(cls, run: RunItems) -> Identity:
        """Take it from where a run comes from."""
        return cls(**{name: getattr(run.source, name) or "" for name in cls.model_fields})


class TestedThreshold(_Part):
    """One threshold that was tested, on the rows that were tested."""

    threshold: float
    n_accepted: Count
    loss_sum: float
    p: Share
    level: Share


class Diseased(_Part):
    """What becomes of the diseased at a threshold."""

    n: Count
    found: Count
    told_otherwise: Count
    left_for_people: Count


class Threshold(_Part):
    """The threshold of all rows or of one group, or the reason why there is none.

    ``threshold`` is the cheapest of those that were certified and ``laxest`` the lowest. Counts,
    coverage and risk are of all rows of the population, also where one row per patient was drawn
    for the test. ``disease`` says what becomes of the diseased, where an answer means disease.
    """

    group: str
    delta: Inside | None
    threshold: float | None
    laxest: float | None
    reason: str
    no_size_helps: bool = False
    test: str
    n_patients: Count
    n_rows: Count
    n_answered: Count
    n_scored: Count
    n_tested: Count
    n_accepted: Count
    loss_sum: float
    coverage: Share
    coverage_low: Share
    coverage_high: Share
    risk: float | None
    cost: Share
    laxest_coverage: Share
    laxest_cost: Share
    disease: Diseased | None
    tests: list[TestedThreshold]


class Certificate(Documented, _Part):
    """Everything that a certificate promises, of whom, and what it rests on."""

    builder: ClassVar[str] = "krisis.pages.certify:certificate_document"
    kind: Literal["krisis.certificate"] = "krisis.certificate"
    schema_version: Literal[4] = 4
    krisis_version: str
    method: Method
    risk: Inside
    delta: Inside | None
    threshold: float | None
    loss: str
    costs: list[tuple[int | str, int | str, Share]]
    price: Inside
    confidence: str
    calibrator_hash: str | None
    rows_per_patient: Annotated[int, Field(ge=1, le=10**6)]
    seed: Count
    by: list[str]
    parts: list[Threshold]
    identity: Identity
    n_no_answer: Count
    n_not_evaluated: Count
    calibration_rows_hash: str
    calibration_patients: PatientKeys
    calibration_scores: list[float | None]
    assumptions: list[str]

    def to_json(self) -> JsonObject:
        """Return plain JSON with a checksum of everything else in it."""
        content: JsonObject = self.model_dump()
        return {**content, "check": _checksum(content)}


def _checksum(content: JsonMapping) -> str:
    return hashlib.sha256(dumps(content, indent=None).encode()).hexdigest()


def certificate_from(content: JsonMapping, *, place: str | Path) -> Certificate:
    """Read a certificate back; one that was cut or edited is refused."""
    stated = content.get("check")
    rest = {name: value for name, value in content.items() if name != "check"}
    if content.get("kind") != "krisis.certificate":
        raise InvalidFile(
            f"{place} is no certificate (its kind is {content.get('kind')!r}); name a file that "
            "`krisis certify` wrote"
        )
    if content.get("schema_version") != SCHEMA_VERSION:
        raise InvalidFile(
            f"{place} has schema version {content.get('schema_version')!r} and this krisis reads "
            f"{SCHEMA_VERSION}; certify again"
        )
    if stated != _checksum(rest):
        raise InvalidFile(f"{place} was changed after it was written; certify again")
    try:
        lists = {**rest, "costs": [tuple(one) for one in rest.get("costs") or []]}
        return Certificate.model_validate(lists)
    except (ValidationError, TypeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"msg": str(error)}
        where = ".".join(str(part) for part in first.get("loc", ())) or "costs"
        raise InvalidFile(
            f"{place} is no usable certificate: {where}: {first['msg']}; certify again"
        ) from None


PLANNED_POWER = 0.8
"""How often a study of the size that is named succeeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyOptions:
    """What is to be certified, and how; ``by`` names groups that get a threshold each."""

    risk: float
    delta: float | None = None
    method: Method = "fixed-sequence"
    by: Sequence[str] = ()
    score: ScoreOptions = field(default_factory=ScoreOptions)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UnknownName.among("method", self.method, METHODS)
        if self.method == "crc" and self.delta is not None:
            raise InvalidValue("crc bounds the expected risk; --delta does not apply")
        if self.method == "crc" and self.by:
            raise InvalidValue(
                "crc has no delta to divide over groups; omit --by or use fixed-sequence"
            )
        if self.method == "sgr" and self.score.loss != "error":
            raise InvalidValue(
                f"sgr is for the loss 'error', not {self.score.loss!r}; use fixed-sequence"
            )
        check_bounds(self.risk, self.chance)

    @property
    def chance(self) -> float:
        """The delta: 0.1 unless another is given."""
        return DEFAULT_DELTA if self.delta is None else self.delta


def certify_run(run: RunItems, options: CertifyOptions) -> Certificate:
    """Find the cheapest threshold whose risk is bounded, for all rows or for every group."""
    options.score.refuse_missing(run)
    options.score.refuse_seen(run, "voids the guarantee")
    sample = sample_of(run, options.score)
    groups = groups_of(run, options.by)
    delta = options.chance / len(groups)
    parts = [
        _threshold(run, sample, rows, options, group=name, delta=delta)
        for name, rows in groups.items()
    ]
    calibrator, costs = options.score.calibrator, run.table.answers.costs
    made_from = rows_hash(run, sample)
    return Certificate(
        krisis_version=__version__,
        method=options.method,
        risk=options.risk,
        delta=None if options.method == "crc" else options.chance,
        threshold=None if options.by else parts[0].threshold,
        loss=options.score.loss,
        costs=[
            (truth, answer, c) for truth, row in costs.wrong.items() for answer, c in row.items()
        ],
        price=costs.price,
        confidence=options.score.variant(run),
        calibrator_hash=None if calibrator is None else calibrator.content_hash,
        rows_per_patient=sample.most_rows,
        seed=sample.seed,
        by=list(options.by),
        parts=parts,
        identity=Identity.of(run),
        n_no_answer=run.table.n_no_answer,
        n_not_evaluated=run.table.n_not_evaluated,
        calibration_rows_hash=made_from,
        calibration_patients=PatientKeys.of(named_patients(run), made_from=made_from),
        calibration_scores=[None if math.isnan(s) else s for s in patient_scores(sample)],
        assumptions=assumptions_of(run, sample, options, [part.test for part in parts]),
    )


def _threshold(
    run: RunItems,
    whole: Sample,
    rows: BoolArray,
    options: CertifyOptions,
    *,
    group: str,
    delta: float,
) -> Threshold:
    sample = whole.part(rows)
    found = find_threshold(sample, options.method, options.risk, delta)
    accepted, laxest = sample.accepts(found.threshold), sample.accepts(found.laxest_threshold)
    diseased = disease_counts(run, whole.accepts(found.threshold), rows)
    price = run.table.answers.costs.price
    coverage = ratio_interval(sample, accepted, np.ones(sample.n_rows, np.bool_))
    lost, n_accepted = float(sample.loss[accepted].sum()), int(accepted.sum())
    candidates = found.tested.candidates
    return Threshold(
        group=group,
        delta=None if options.method == "crc" else delta,
        threshold=found.threshold,
        laxest=found.laxest_threshold,
        reason="" if found.threshold is not None else _reason(sample, found, run.words[0]),
        no_size_helps=found.exceeds_everywhere(),
        test=found.test,
        n_patients=sample.n_patients,
        n_rows=sample.n_rows,
        n_answered=int(np.count_nonzero(~np.isnan(sample.loss))),
        n_scored=sample.n_scored,
        n_tested=found.tested.n_rows,
        n_accepted=n_accepted,
        loss_sum=lost,
        coverage=n_accepted / sample.n_rows,
        coverage_low=coverage.low,
        coverage_high=coverage.high,
        risk=lost / n_accepted if n_accepted else None,
        cost=_cost(sample, accepted, price),
        laxest_coverage=float(laxest.mean()),
        laxest_cost=_cost(sample, laxest, price),
        disease=None if diseased is None else Diseased(**asdict(diseased)),
        tests=[
            TestedThreshold(
                threshold=float(candidates.threshold[one.candidate]),
                n_accepted=int(candidates.n_accepted[one.candidate]),
                loss_sum=float(candidates.loss_sum[one.candidate]),
                p=one.p,
                level=one.level,
            )
            for one in found.tests
        ],
    )


def _cost(sample: Sample, accepted: BoolArray, price: float) -> float:
    """Return the mean cost where only some rows are answered and the others deferred."""
    assert sample.saved is not None
    cost = price - float(sample.saved[accepted].sum()) / sample.n_rows
    return min(1.0, max(0.0, cost))


def why_none(found: ThresholdSearch) -> tuple[str, bool]:
    """Say why there is no threshold, and whether the best risk tested is below the bound."""
    candidates, best, risk = found.tested.candidates, found.best, found.risk
    if best is None:
        return "no answered row has a score", False
    if found.method == "crc":
        return f"(loss + 1)/(N + 1) exceeds {risk:g} at the strictest threshold", False
    seen, n = candidates.risk(best), int(candidates.n_accepted[best])
    whose = f"all {n}" if best == candidates.threshold.size - 1 else f"the {n} most confident"
    if found.tested.binary:
        wrong = f"{100 * seen:.3g} % of {whose} answers are wrong"
    else:
        wrong = f"{whose} answers have a mean loss of {seen:.3g}"
    if not found.tests:
        most = found.tested.most_rows if found.tested.clustered else 1
        fewest = fewest_rows(risk, divided(found.delta)[1]) * most
        few = f"{n} answers with a score are too few: without a single error it takes {fewest}"
        words = f"{few}, and {wrong}"
    elif seen < risk:
        words = f"{wrong}, but they are too few to show a risk of at most {risk:g}"
    else:
        words = f"{wrong}, and the bound is {risk:g}"
    return f"{words}, so no sample size helps" if found.exceeds_everywhere() else words, seen < risk


def _reason(sample: Sample, found: ThresholdSearch, person: str) -> str:
    """Say why there is no threshold, and how many patients could give one."""
    words, size_helps = why_none(found)
    if not size_helps:
        return words
    n = similar_patients(sample, found)
    if math.isnan(n):
        return f"{words}; how many would be enough cannot be told from so few"
    chance = f"{100 * PLANNED_POWER:g} % chance of a certificate"
    return f"{words}; with about {n:,.0f} similar {person}s you would have an {chance}"


def similar_patients(sample: Sample, found: ThresholdSearch) -> float:
    """Return how many patients give a certificate in 80 % of studies; NaN where it is not known.

    The best threshold tested must be certified on the rows at or above it.
    """
    best = found.best
    if best is None:
        return math.nan
    kept = sample.accepts(float(found.tested.candidates.threshold[best]))
    level = (1 - FIRST_SHARE) * divided(found.delta)[1]
    return patients_to_show(sample, sample.loss, kept, risk=found.risk, level=level)


def patients_to_show(
    sample: Sample, losses: FloatArray, kept: BoolArray, *, risk: float, level: float
) -> float:
    """Return how many patients like these show, in 80 % of studies, that a risk is below a bound.

    Only ``kept`` rows are counted: where they are a fifth of all, five times as many patients are
    needed. Rows of one patient are worth fewer by their design effect. NaN where it is not known.
    """
    n_kept = int(np.count_nonzero(kept))
    if not sample.binary or not n_kept:  # of losses between 0 and 1 the spread is not modelled
        return math.nan
    code, lost, effect = sample.patient[kept], float(losses[kept].sum()), 1.0
    if sample.clustered:
        sizes = np.bincount(code, minlength=sample.n_patients)
        icc = intraclass_correlation(losses[kept], code)
        effect = Patients(1.0, icc, tuple(sizes.tolist())).design_effect
    needed = assured_rows(
        lost / effect, n_kept / effect, risk=risk, level=level, power=PLANNED_POWER
    )
    return needed if math.isnan(needed) else math.ceil(needed * effect * sample.n_patients / n_kept)


def assumptions_of(
    run: RunItems, sample: Sample, options: CertifyOptions, tests: Sequence[str]
) -> list[str]:
    """State what a certificate rests on, one sentence each; ``tests`` are those of its parts."""
    person, unit = run.words
    found = [
        (
            f"Future {person}s are exchangeable with the {sample.n_patients} calibration "
            f"{person}s: same setting, case mix, model and prompt."
        ),
        (
            f"The score ({options.score.variant(run)}), the bound and the method were chosen "
            "before these rows were looked at."
        ),
        "The labels are right.",
    ]
    if run.table.n_not_evaluated:
        found.append(
            f"The {run.table.n_not_evaluated} rows that were not evaluated, which are left out, "
            "are like the others."
        )
    if not sample.clustered:
        found.append(f"Every {person} has one {unit}, independent of the others.")
    else:
        source = "as declared" if options.score.rows_per_patient else "as in the suite"
        if not options.score.rows_per_patient and suite_rows(run) is None:
            source = "the most that was seen: declare it with --rows-per-patient"
        found.append(
            f"{person.capitalize()}s are independent of each other, their rows need not be, and "
            f"none has more than {sample.most_rows} rows ({source})."
        )
        if options.method == "crc":
            found.append(f"Every {person} counts once, with the mean of its rows.")
        elif any(test != "betting" for test in tests):
            found.append(
                f"One row per {person} was tested, drawn by lot; the cases fix the lot, so that it "
                "cannot be drawn again."
            )
    if options.method == "sgr":
        found.append("The risk never falls as the threshold is lowered, which sgr needs.")
    if options.by:
        found.append(f"Delta is divided by {len(tests)}, the number of groups.")
    return found
