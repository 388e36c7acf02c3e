"""Baselines that look at no value: they show what a score is worth without any judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.data.base import BaseDataSuite, Label, PatientRecord
from krisis.errors import InvalidValue

T = TypeVar("T")


class AlwaysAbstain(BaseBackend):
    """Abstains from every case."""

    name = "always-abstain"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Abstain without looking."""
        return BackendResponse(None, abstained=True)


class Majority(BaseBackend):
    """Gives the most frequent training answer to every case; its share is the confidence."""

    name = "majority"

    def __init__(self) -> None:
        self._responses: dict[str, tuple[Label, float]] = {}

    def prepare(self, suite: BaseDataSuite) -> None:
        """Count the training labels of each source of records."""
        for source, records in training_by_source(self, suite).items():
            labels = Counter(record.label for record in records)
            answer, count = min(labels.items(), key=lambda item: (-item[1], str(item[0])))
            self._responses[source] = (answer, count / labels.total())

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Answer without looking."""
        answer, share = fitted_on(self, self._responses, record)
        return BackendResponse(answer, confidence=share)


def training_by_source(
    backend: BaseBackend, suite: BaseDataSuite
) -> dict[str, list[PatientRecord]]:
    """Return the training records by source, for every source that the suite asks about.

    A baseline that is fitted on real people says nothing about synthetic ones, nor the reverse.
    """
    records = suite.training_records()
    if not records:
        raise InvalidValue(
            f"{backend.name!r} is fitted on training records and the suite {suite.name!r} has "
            f"none; {suite.to_get_training_records}, or choose 'always-abstain'"
        )
    found = {}
    for source in sorted({record.source for record in suite.records() or records}):
        found[source] = [record for record in records if record.source == source]
        if not found[source]:
            fitted = " and ".join(sorted({record.source for record in records}))
            raise InvalidValue(
                f"{backend.name!r} would be fitted on {fitted} records and scored on {source} "
                "ones; choose a baseline that is not fitted, or set metadata['synthetic'] alike "
                "in both"
            )
    return found


def fitted_on(backend: BaseBackend, fits: Mapping[str, T], record: PatientRecord) -> T:
    """Return what was fitted on the source of a record."""
    fit = fits.get(record.source, next(iter(fits.values()), None))
    if fit is None:
        raise InvalidValue(f"{backend.name!r} was not prepared; call prepare(suite) before it")
    return fit


def prepared(backend: BaseBackend, state: list[T]) -> list[T]:
    """Return what `prepare` left behind, or say that it must be called first."""
    if not state:
        raise InvalidValue(f"{backend.name!r} was not prepared; call prepare(suite) before it")
    return state
