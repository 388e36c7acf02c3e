"""A small task that the tests of the backends share."""

from __future__ import annotations

import pytest

from krisis.data.base import FeatureDescription, PatientRecord, RecordListSuite, TaskSpecification


def staging_specification() -> TaskSpecification:
    return TaskSpecification(
        name="staging",
        question="Which stage of chronic kidney disease does the patient have?",
        answers={1: "eGFR of 90 or more", 2: "60 to 89", 3: "30 to 59", 4: "15 to 29", 5: "below"},
        features={
            "sc": FeatureDescription("serum creatinine", "mg/dL", "a waste product of muscle"),
            "htn": FeatureDescription("hypertension", values={0: "no", 1: "yes"}),
            "hemo": FeatureDescription("haemoglobin", "g/dL"),
        },
        abstain_when="Abstain when the findings contradict each other.",
        aliases={"stage 3": 3, "g3a": 3, "g3b": 3},
        ordinal=True,
    )


@pytest.fixture
def specification() -> TaskSpecification:
    return staging_specification()


@pytest.fixture
def records() -> list[PatientRecord]:
    return [
        PatientRecord({"sc": 2.41, "htn": 1, "hemo": 10.0}, 3, {"egfr": 31.77}),
        PatientRecord({"sc": 0.93, "htn": 0, "hemo": None}, 1, {"egfr": 96.25}),
        PatientRecord({"sc": 6.87, "htn": 1, "hemo": 8.35}, 5, {"egfr": 8.58}),
    ]


@pytest.fixture
def suite(records: list[PatientRecord], specification: TaskSpecification) -> RecordListSuite:
    return RecordListSuite(records, specification)
