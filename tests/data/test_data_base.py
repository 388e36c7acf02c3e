"""Records and suite configurations refuse what they cannot mean."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from pydantic import TypeAdapter

from krisis.costs import Costs
from krisis.data.base import (
    BaseDataSuite,
    FeatureSet,
    PatientRecord,
    RecordListSuite,
    SuiteConfig,
    Task,
    records_hash,
)
from krisis.data.ckd.suite import CKDSuite
from krisis.json_values import dumps
from krisis.task_facts import TaskFacts


def test_positional_construction_follows_the_documented_order() -> None:
    record = PatientRecord({"sc": 2.4}, 0, {"ckd_stage": 3})
    assert (record.features, record.label, record.metadata) == ({"sc": 2.4}, 0, {"ckd_stage": 3})


def test_a_record_is_named_after_its_content_and_is_its_own_patient() -> None:
    one, same = PatientRecord({"b": 1, "a": 2}, 0), PatientRecord({"a": 2, "b": 1}, 0)
    other = PatientRecord({"a": 2, "b": 2}, 0)
    assert one.record_id == same.record_id != other.record_id
    assert one.cluster_id == one.record_id
    assert PatientRecord({}, 0, record_id="r", cluster_id="p").cluster_id == "p"


@pytest.mark.parametrize("label", [1.5, None, "", "  ", [1], float("nan")])
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
    assert (config.features, config.seed) == (FeatureSet.REDUCED, 42)
    assert (config.task, config.n_synthetic, config.test_size) == (None, None, None)
    assert (config.synthetic_count, config.held_out_share) == (200, 0.2)
    assert CKDSuite().config.task == Task.DETECTION
    assert SuiteConfig(features="FULL", task=" Staging").task == Task.STAGING  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("n_synthetic", -1, "n_synthetic must be 0 or more, not -1"),
        ("n_synthetic", 1.5, "n_synthetic must be a whole number"),
        ("n_synthetic", True, "n_synthetic must be a whole number"),
        ("test_size", 0, "test_size must be between 0 and 1"),
        ("test_size", 1.0, "test_size must be between 0 and 1"),
        ("seed", -3, "seed must be a whole number"),
        ("seed", "x", "seed must be a whole number"),
        ("task", 3, "task must be the name of a task, not 3"),
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
    assert (suite.task.name, suite.task.can_be_asked) == ("", False)


def test_a_list_of_records_can_carry_its_question() -> None:
    question = Task("t", "Is it?", {0: "no", 1: "yes"}, {}, "unsure")
    suite = RecordListSuite([], question, name="mine")
    assert suite.task is question
    assert (suite.describe()["suite"], suite.describe()["task"]) == ("mine", "t")


ONSET = Task("onset", "Will sepsis begin?", {0: "no", 1: "yes"}, positive=1)
SEVERITY = Task("Severity", "How bad is it?", {"mild": "m", "grave": "g"}, ordered=True)


class SepsisSuite(BaseDataSuite):
    tasks = {"onset": ONSET, "Severity": SEVERITY}  # noqa: RUF012

    def load(self) -> list[PatientRecord]:
        return [PatientRecord({"lactate": 4.1}, 1)]


def test_the_task_of_a_suite_is_its_first_unless_another_is_named() -> None:
    assert SepsisSuite().task is ONSET
    assert SepsisSuite(SuiteConfig()).config.task == "onset"
    assert SepsisSuite(SuiteConfig(task="")).task is ONSET
    assert SepsisSuite(SuiteConfig(task="SEVERITY ")).task is SEVERITY
    assert SepsisSuite(SuiteConfig(task=SEVERITY)).task is SEVERITY  # type: ignore[arg-type]
    assert SepsisSuite(SuiteConfig(task="severity")).describe()["task"] == "Severity"


@pytest.mark.parametrize("name", ["onest", "detection"])
def test_a_task_that_the_suite_lacks_is_refused_with_those_it_has(name: str) -> None:
    with pytest.raises(ValueError, match=f"'sepsis': '{name}'.*Known: Severity, onset") as caught:
        SepsisSuite(SuiteConfig(task=name))
    assert ("did you mean 'onset'" in str(caught.value)) == (name == "onest")


def test_a_suite_describes_itself_under_its_own_names_and_claims_no_others() -> None:
    described = SepsisSuite().describe()
    assert (described["suite"], described["task"]) == ("sepsis", "onset")
    assert "features" not in described
    assert SepsisSuite(SuiteConfig(features="full")).describe()["features"] == "full"  # type: ignore[arg-type]


def test_a_suite_that_only_loads_needs_neither_a_task_nor_the_constructor_of_the_base() -> None:
    class Bare(BaseDataSuite):
        def __init__(self, n: int) -> None:
            self.n = n

        def load(self) -> list[PatientRecord]:
            return [PatientRecord({"x": x}, 0) for x in range(self.n)]

    assert (Bare(2).describe()["suite"], Bare(2).describe()["task"]) == ("bare", "")
    assert Bare(2).config == SuiteConfig()


def test_a_suite_without_tasks_is_called_by_the_task_that_its_user_names() -> None:
    class Loads(BaseDataSuite):
        def load(self) -> list[PatientRecord]:
            return [PatientRecord({"x": 1}, 0)]

    assert Loads(SuiteConfig(task=Task.STAGING)).describe()["task"] == "staging"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"default_loss": "squared"}, "unknown loss 'squared'"),
        ({"default_loss": "abs"}, "needs ordered answers"),
        ({"positive": 2}, "positive answer 2 .* is none of its answers: 0, 1"),
        ({"name": 3}, "the name of a task must be text, not 3"),
    ],
)
def test_a_task_refuses_what_contradicts_itself(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Task(**{"name": "t", "answers": {0: "no", 1: "yes"}, **fields})  # type: ignore[arg-type]


def test_what_results_keep_of_a_task_is_json() -> None:
    task = Task("t", "?", {"a": "A", "b": "B"}, ordered=True, groups=["site"], unit="item")  # type: ignore[arg-type]
    assert json.loads(json.dumps(asdict(task.facts()))) == {
        "name": "t",
        "answers": [["a", "A"], ["b", "B"]],
        "ordered": True,
        "positive": None,
        "groups": {"site": "site"},
        "default_loss": "error",
        "default_confidence": "stated",
        "metrics": ["decision_skill", "cost_saved", "decision_cost", "deferral_skill"],
        "total": None,
        "person": "patient",
        "unit": "item",
        "costs": {"wrong": {}, "price": 0.2, "why": "", "assumed": True},
        "due_by": "costs",
        "told": None,
        "short_names": [],
        "features": {},
    }


def test_costs_by_distance_charge_every_step_and_are_kept_with_the_task() -> None:
    costs = Costs.by_distance(["a", 1, 2], price=0.2, why="Invented.")
    assert costs.wrong == {"a": {1: 0.5, 2: 1}, 1: {"a": 0.5, 2: 0.5}, 2: {"a": 1, 1: 0.5}}
    kept = Task("t", answers={"a": "", 1: "", 2: ""}, costs=costs).facts()
    read_back = TypeAdapter(TaskFacts).validate_json(dumps(asdict(kept)))
    assert read_back.costs == kept.costs == costs


def test_the_configuration_replaces_the_costs_of_a_task_or_only_the_price() -> None:
    costs = Costs({0: {1: 10}, 1: {0: 30}}, 3)
    assert CKDSuite(SuiteConfig(costs=costs)).task.costs == costs
    dearer = CKDSuite(SuiteConfig(price=0.3)).task.costs
    assert (dearer.price, dearer.of(0, 1), dearer.of(1, 0)) == (0.3, 1.0, 0.5)
    assert dearer.why
    both = CKDSuite(SuiteConfig(costs=costs, price=0.3)).task.costs
    assert both == costs.at(0.3)
    with pytest.raises(ValueError, match="price of deferring must be above 0 and below 1"):
        SuiteConfig(price=1.5)
