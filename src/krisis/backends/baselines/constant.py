"""Baselines that look at no value: they show what a score is worth without any judgement."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.data.base import BaseDataSuite, Label, PatientRecord, content_hash
from krisis.errors import InvalidValue

T = TypeVar("T")


class AlwaysAnswer(BaseBackend):
    """Answers every case at random among the allowed answers, stating the confidence of chance.

    The answer follows from the features, so that the same case gets the same answer every time.
    """

    name = "always-answer"

    def __init__(self) -> None:
        self._answers: list[Label] = []

    def prepare(self, suite: BaseDataSuite) -> None:
        """Take the allowed answers."""
        self._answers = list(suite.task.answers)

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Answer without looking."""
        answers = prepared(self, self._answers)
        draw = int(content_hash([record.features, record.context])[:12], 16)
        return BackendResponse(answers[draw % len(answers)], confidence=1.0 / len(answers))


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
        self._response: list[tuple[Label, float]] = []

    def prepare(self, suite: BaseDataSuite) -> None:
        """Count the training labels."""
        labels = Counter(record.label for record in training_of(self, suite))
        answer, count = min(labels.items(), key=lambda item: (-item[1], str(item[0])))
        self._response = [(answer, count / labels.total())]

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Answer without looking."""
        answer, share = prepared(self, self._response)[0]
        return BackendResponse(answer, confidence=share)


def training_of(backend: BaseBackend, suite: BaseDataSuite) -> list[PatientRecord]:
    """Return the training records that are of the same source as the records of the suite.

    A baseline that is fitted on real people says nothing about synthetic ones, nor the reverse.
    """
    records = suite.training_records()
    if not records:
        raise InvalidValue(
            f"{backend.name!r} is fitted on training records and the suite {suite.name!r} has "
            "none; choose 'always-answer' or 'always-abstain', or add training_records() to it"
        )
    asked = sorted({record.source for record in suite.records()})
    if len(asked) > 1:
        raise InvalidValue(
            f"{backend.name!r} is fitted on people like those it is scored on, and the suite "
            f"{suite.name!r} asks about {' and '.join(asked)} records; run them apart"
        )
    alike = [record for record in records if not asked or record.source == asked[0]]
    if not alike:
        fitted = " and ".join(sorted({record.source for record in records}))
        raise InvalidValue(
            f"{backend.name!r} would be fitted on {fitted} records and scored on {asked[0]} ones; "
            "choose a baseline that is not fitted, or set metadata['synthetic'] alike in both"
        )
    return alike


def prepared(backend: BaseBackend, state: list[T]) -> list[T]:
    """Return what `prepare` left behind, or say that it must be called first."""
    if not state:
        raise InvalidValue(f"{backend.name!r} was not prepared; call prepare(suite) before it")
    return state
