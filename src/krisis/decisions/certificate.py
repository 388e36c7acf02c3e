"""The certificate: what `krisis certify` found, as a checked JSON file and in words."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from krisis.confidence.patient_keys import PatientKeys
from krisis.decisions.sample import Method
from krisis.errors import InvalidFile
from krisis.json_values import JsonMapping, JsonObject, dumps
from krisis.metrics.items import RunItems

SCHEMA_VERSION = 2

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
        source = run.source
        return cls(
            suite=source.suite,
            task=source.task,
            features=source.features,
            mode=source.mode or "",
            model=source.model,
        )


class TestedThreshold(_Part):
    """One threshold that was tested, on the rows that were tested."""

    threshold: float
    n_accepted: Count
    loss_sum: float
    p: Share
    level: Share


class Threshold(_Part):
    """The threshold of all rows or of one group, or the reason why there is none.

    Counts, coverage and risk are of all rows of the population, also where one row per patient was
    drawn for the test.
    """

    group: str
    delta: Inside | None
    threshold: float | None
    reason: str
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
    tests: list[TestedThreshold]


class Certificate(_Part):
    """Everything that a certificate promises, of whom, and what it rests on."""

    kind: Literal["krisis.certificate"] = "krisis.certificate"
    schema_version: Literal[3] = 3
    krisis_version: str
    method: Method
    risk: Inside
    delta: Inside | None
    threshold: float | None
    loss: str
    costs: list[tuple[int | str, int | str, Annotated[float, Field(ge=0, le=1e12)]]]
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

    def __str__(self) -> str:
        return "\n".join(certificate_lines(self))

    def to_json(self) -> JsonObject:
        """Return plain JSON with a checksum of everything else in it."""
        content: JsonObject = self.model_dump()
        return {**content, "check": _checksum(content)}

    @property
    def promise(self) -> str:
        """Say in one sentence what is promised."""
        loss = "risk" if self.loss == "error" else f"mean loss ({self.loss})"
        if self.method == "crc":
            return (
                f"In expectation over the calibration patients, the {loss} per case, deferred "
                f"cases counting 0, is at most {self.risk:g}: another promise than a bound on the "
                "risk of the answered cases, and without a probability."
            )
        return (
            f"With a probability of at least {1 - (self.delta or 0):g} over the calibration "
            f"patients, the {loss} among future answered cases is at most {self.risk:g}."
        )


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


def certificate_lines(certificate: Certificate) -> list[str]:
    """Return the certificate in words, one sentence or figure a line."""
    lines = [_part_line(certificate, part) for part in certificate.parts]
    if any(part.threshold is not None for part in certificate.parts):
        lines.insert(0, certificate.promise)
    return [*lines, "Assumptions:", *(f"  - {one}" for one in certificate.assumptions)]


def _part_line(certificate: Certificate, part: Threshold) -> str:
    whose = f"{part.group}: " if part.group else ""
    rows, people = "rows"[: 3 + (part.n_rows != 1)], "patients"[: 7 + (part.n_patients != 1)]
    counts = f"{part.n_rows} {rows} of {part.n_patients} {people}, {part.n_answered} answered"
    if part.threshold is None:
        return f"{whose}none can be certified ({counts}): {part.reason}."
    tested = "" if part.test == "none" else f"; {part.test} test on {part.n_tested} rows"
    return (
        f"{whose}answer where {certificate.confidence} ≥ {part.threshold!r}: accepts "
        f"{part.n_accepted} of {part.n_rows} rows, coverage {part.coverage:.3f} "
        f"({part.coverage_low:.3f} to {part.coverage_high:.3f}), observed risk {part.risk:.4f} "
        f"({part.loss_sum:g} lost); {counts}{tested}"
    )
