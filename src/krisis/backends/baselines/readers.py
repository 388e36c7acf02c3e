"""People who judged the cases of a suite, as backends: what they said becomes a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.baselines.constant import prepared
from krisis.data.base import BaseDataSuite, Judgement, PatientRecord
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject


class ReaderBackend(BaseBackend):
    """Gives the answers of a reader that the suite brings along, as `reader/NAME`.

    A case that the reader never read is not part of the run.
    """

    def __init__(self, model: str) -> None:
        self.reader = model
        self.name = f"reader/{model}"
        self._readings: list[Mapping[str, Judgement]] = []

    def readable(
        self, suite: BaseDataSuite, records: Sequence[PatientRecord]
    ) -> Sequence[PatientRecord]:
        """Return the records that the reader read."""
        readings = self._readings_of(suite)
        return [record for record in records if record.record_id in readings]

    def _readings_of(self, suite: BaseDataSuite) -> Mapping[str, Judgement]:
        known = suite.readers
        if self.reader not in known:
            there = ", ".join(sorted(known)) or "nobody"
            raise InvalidValue(
                f"{self.reader!r} read no cases of the suite {suite.name!r} for the task "
                f"{suite.task.name!r} (its readers: {there}); choose another baseline"
            )
        return known[self.reader]

    def prepare(self, suite: BaseDataSuite) -> None:
        """Take the readings from the suite, or refuse with the readers it has."""
        self._readings = [self._readings_of(suite)]

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Return what the reader said about one record."""
        readings = prepared(self, self._readings)[0]
        judged = readings.get(record.record_id)
        if judged is None:
            raise InvalidValue(f"{self.name!r} never read the record {record.record_id!r}")
        return BackendResponse.of(judged)

    def identity(self) -> JsonObject:
        """Return the name of the reader."""
        return {"backend": self.name}


class Physician(ReaderBackend):
    """The physicians who treated the patients of the suite, by the probability they gave."""

    def __init__(self) -> None:
        super().__init__("physician")
        self.name = "physician"
