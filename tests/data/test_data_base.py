"""Records and suite configurations refuse what they cannot mean."""

from __future__ import annotations

import numpy as np
import pytest

from krisis.data.base import (
    FeatureSet,
    PatientRecord,
    RecordListSuite,
    SuiteConfig,
    Task,
    TaskSpecification,
    records_hash,
)


def test_positional_construction_follows_the_documented_order() -> None:
    record = PatientRecord({"sc": 2.4}, 0, {"ckd_stage": 3})
    assert (record.features, record.label, record.metadata) == ({"sc": 2.4}, 0, {"ckd_stage": 3})


def test_a_record_is_named_after_its_content_and_is_its_own_patient() -> None:
    one, same = PatientRecord({"b": 1, "a": 2}, 0), PatientRecord({"a": 2, "b": 1}, 0)
    other = PatientRecord({"a": 2, "b": 2}, 0)
    assert one.record_id == same.record_id != other.record_id
    assert one.cluster_id == one.record_id
    assert PatientRecord({}, 0, record_id="r", cluster_id="p").cluster_id == "p"


@pytest.mark.parametrize("label", [1.5, 1.0, None, "", "  ", [1], float("nan")])
def test_a_label_is_a_whole_number_or_a_text(label: object) -> None:
    with pytest.raises(ValueError, match="label must be a whole number"):
        PatientRecord({}, label)  # type: ignore[arg-type]


def test_numpy_integers_become_plain_labels() -> None:
    label = PatientRecord({}, np.int64(3)).label  # type: ignore[arg-type]
    assert label == 3
    assert type(label) is int


@pytest.mark.parametrize("field", ["features", "metadata"])
def test_features_and_metadata_are_mappings(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be a mapping, not list"):
        PatientRecord(**{"features": {}, "label": 1, field: []})  # type: ignore[arg-type]


def test_the_configuration_has_the_documented_defaults_and_accepts_texts() -> None:
    config = SuiteConfig()
    assert (config.features, config.task) == (FeatureSet.REDUCED, Task.DETECTION)
    assert (config.seed, config.n_synthetic, config.test_size) == (42, 200, 0.2)
    assert SuiteConfig(features="FULL", task=" staging").task is Task.STAGING  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("n_synthetic", -1, "n_synthetic must be 0 or more, not -1"),
        ("n_synthetic", 1.5, "n_synthetic must be a whole number"),
        ("n_synthetic", True, "n_synthetic must be a whole number"),
        ("test_size", 0, "test_size must lie between 0 and 1"),
        ("test_size", 1.0, "test_size must lie between 0 and 1"),
        ("seed", -3, "seed must be a whole number"),
        ("seed", "x", "seed must be a whole number"),
        ("task", "stageing", "unknown task 'stageing'; did you mean 'staging'"),
        ("features", "all", "unknown feature set 'all'"),
    ],
)
def test_bad_configurations_are_refused(field: str, value: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        SuiteConfig(**{field: value})  # type: ignore[arg-type]


def test_unknown_keywords_are_refused() -> None:
    with pytest.raises(TypeError, match="n_patients"):
        SuiteConfig(n_patients=3)  # type: ignore[call-arg]


def test_a_list_of_records_is_a_suite_with_a_content_hash() -> None:
    records = [PatientRecord({"a": 1}, 0), PatientRecord({"a": np.float64(2)}, 1)]
    suite = RecordListSuite(records)
    assert suite.load() == records
    assert suite.training_records() == []
    assert suite.describe()["content_hash"] == records_hash(records)
    assert suite.describe()["n_records"] == 2
    with pytest.raises(ValueError, match="does not implement task_specification"):
        suite.task_specification()


def test_a_list_of_records_can_carry_its_question() -> None:
    question = TaskSpecification("t", "Is it?", {0: "no", 1: "yes"}, {}, "unsure")
    assert RecordListSuite([], question).task_specification() is question
