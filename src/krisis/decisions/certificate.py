"""The certificate: what `krisis certify` found, as a checked JSON file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from krisis.confidence.patient_keys import PatientKeys
from krisis.decisions.sample import Method
from krisis.display import Documented
from krisis.errors import InvalidFile
from krisis.json_values import JsonMapping, JsonObject, dumps
from krisis.metrics.items import RunItems

SCHEMA_VERSION = 3

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


class Certificate(Documented, _Part):
    """Everything that a certificate promises, of whom, and what it rests on."""

    builder: ClassVar[str] = "krisis.pages.certify:certificate_document"
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
