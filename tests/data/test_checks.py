"""What a user brings is checked before the first call, and a bad record is named."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest

from krisis import BackendResponse, BaseBackend, Benchmark, PatientRecord, Task
from krisis.data.base import RecordListSuite
from krisis.data.checks import check_records
from krisis.errors import InvalidValue
from krisis.metrics import Accuracy

YES_NO = Task("onset", "Will it?", {0: "no", 1: "yes"}, aliases={"yes": 1, "no": 0})


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


class Counting(BaseBackend):
    name = "counting"

    def __init__(self) -> None:
        self.n_calls = 0

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        self.n_calls += 1
        return BackendResponse(1)


def hundred_records(**last: Any) -> list[PatientRecord]:
    fields: list[dict[str, Any]] = [{"features": {"x": i}, "label": i % 2} for i in range(100)]
    fields[-1] |= {"record_id": "the-last", **last}
    return [PatientRecord(**one) for one in fields]


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ({"metadata": {"should_abstain": "yes"}}, r"metadata\['should_abstain'\].*not 'yes'"),
        ({"metadata": {"should_abstain": 1}}, r"metadata\['should_abstain'\].*not 1"),
        ({"metadata": {"synthetic": "no"}}, r"metadata\['synthetic'\].*not 'no'"),
        ({"metadata": {"seen": object()}}, "the metadata entry 'seen' holds a object"),
        ({"metadata": {3: "x"}}, "the metadata entry 3 must be named by a text"),
        ({"label": "yes"}, r"the label 'yes' is none of the answers.*\(0, 1\); write 1"),
        ({"label": 2}, r"the label 2 is none of the answers.*\(0, 1\); change the label"),
        ({"features": {"scan": b"\x00"}}, "the feature 'scan' holds a bytes"),
        ({"features": {"x": {1, 2}}}, "the feature 'x' holds a set"),
        ({"features": {"x": [1, float("inf")]}}, "the feature 'x' is infinite"),
        ({"features": {"x": {"a": {1: 2}}}}, "the feature 'x' holds a mapping whose keys"),
        ({"features": {"note": "no \ud83d"}}, "the feature 'note' holds half a character"),
        ({"features": {"x": 10**5000}}, "the feature 'x' is too large a number"),
        ({"features": {"x": ENDLESS}}, "a value is nested too deeply"),
        ({"features": {7: 1}}, "the feature 7 must be named by a text"),
    ],
)
def test_a_bad_last_record_fails_before_the_first_call(last: dict[str, Any], words: str) -> None:
    backend = Counting()
    benchmark = Benchmark(RecordListSuite(hundred_records(**last), YES_NO), backend)
    with pytest.raises(InvalidValue, match=f"record 'the-last': {words}"):
        benchmark.run()
    assert backend.n_calls == 0


def test_values_that_can_be_shown_and_stored_pass() -> None:
    features = {
        "age": np.int64(48),
        "drugs": ["aspirin", {"name": "insulin", "units": 12.5}],
        "course": np.array([1.0, 2.5]),
        "seen": date(2026, 3, 1),
        "gap": None,
        "unknown": float("nan"),
    }
    metadata = {"should_abstain": np.bool_(True), "note": ["a", None], "p": np.float64(0.5)}
    check_records([PatientRecord(features, 1, metadata)], YES_NO)
    # Scoring takes 1 and "1" for one answer, so neither is refused.
    check_records([PatientRecord({}, "1"), PatientRecord({}, True)], YES_NO)
    check_records([PatientRecord({}, "anything")], Task("open"))


def test_numbers_name_records_and_patients() -> None:
    record = PatientRecord({}, 1, {}, 17, np.int64(4))  # type: ignore[arg-type]
    assert (record.record_id, record.cluster_id) == ("17", "4")
    with pytest.raises(InvalidValue, match=r"record_id and cluster_id must be text.*\[1\]"):
        PatientRecord({}, 1, {}, [1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ([Accuracy], r"give the metric Accuracy\(\), not its class"),
        (["accuracy"], "'accuracy' is not a metric"),
        ([Accuracy(), Accuracy()], "'Accuracy' appears twice"),
    ],
)
def test_metrics_are_checked_when_the_benchmark_is_made(metrics: list[Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        Benchmark(RecordListSuite([PatientRecord({}, 1)]), Counting(), metrics)


@pytest.mark.parametrize("label", [np.bool_(True), np.int8(1), 1.0, np.float32(1.0), True])
def test_whole_numbers_of_any_kind_are_labels(label: Any) -> None:
    assert PatientRecord({}, label).label == 1


@pytest.mark.parametrize("label", [1.5, None, "", np.array([1]), float("nan"), {}])
def test_a_label_that_is_none_names_its_record(label: Any) -> None:
    with pytest.raises(InvalidValue, match="record 'p7': label must be a whole number"):
        PatientRecord({}, label, {}, "p7")


def test_a_confidence_of_numpy_is_a_number() -> None:
    assert BackendResponse(1, confidence=np.float32(0.5)).confidence == 0.5  # type: ignore[arg-type]
    assert BackendResponse(1, confidence="0.5").confidence is None  # type: ignore[arg-type]
