"""Rows, scores and columns refuse what cannot be scored and say which row it is."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Sequence

import numpy as np
import pytest

from krisis.metrics import (
    Accuracy,
    BaseMetric,
    EvaluationResult,
    MetricScore,
    default_abstention_metrics,
    default_accuracy_metrics,
    default_benchmark_metrics,
    default_calibration_metrics,
    score_all,
    usual_metrics,
)
from krisis.metrics.base import MetricScores, Rows, table_of
from krisis.metrics.forms import Share
from krisis.metrics.labels import Answers
from krisis.metrics.table import Table, canonical_label


def test_positional_construction_follows_the_documented_order() -> None:
    row = EvaluationResult(1, 0, True, 0.5, "text", "template", "batch", {"ckd_stage": 2}, 1, 2, 3)
    assert (row.prediction, row.ground_truth, row.abstained, row.confidence) == (1, 0, True, 0.5)
    assert (row.raw_response, row.prompt, row.prompt_mode) == ("text", "template", "batch")
    assert (row.metadata, row.total_tokens) == ({"ckd_stage": 2}, 3)


def test_outcomes_are_answered_abstained_and_failed() -> None:
    assert EvaluationResult(1, 1).outcome == "answered"
    assert EvaluationResult(None, 1, True).outcome == "abstained"
    assert EvaluationResult(None, 1, True, error="timeout: 30 s").outcome == "not_evaluated"


def test_a_patient_is_the_record_unless_given() -> None:
    assert EvaluationResult(1, 1, record_id="r1").cluster_id == "r1"
    assert EvaluationResult(1, 1, record_id="r1", cluster_id="p").cluster_id == "p"


@pytest.mark.parametrize(
    "confidence", [math.nan, math.inf, -0.05, 1.05, True, "0.5", np.str_("0.5"), [0.5]]
)
def test_a_confidence_that_is_no_probability_is_refused(confidence: object) -> None:
    with pytest.raises(ValueError, match="confidence must"):
        EvaluationResult(1, 1, confidence=confidence)  # type: ignore[arg-type]


def test_rows_made_of_rows_keep_what_is_known_of_their_task() -> None:
    known = Answers(((0, "no"), (1, "yes")))
    rows = Rows([EvaluationResult(1, 1)], known)
    assert Rows(rows).answers is known
    assert rows.with_answers(known) is rows
    other = rows.with_answers(Answers(((0, "no"), (1, "yes"), (2, "perhaps"))))
    assert other is not rows
    assert other.answers is not None
    assert len(other.answers.allowed) == 3
    assert rows == Rows(list(rows)) == list(rows)
    assert rows != [EvaluationResult(0, 1)]
    assert rows != 1


def test_a_score_keeps_the_key_of_its_metric() -> None:
    assert MetricScore("Right answers", 0.5, key="accuracy").key == "accuracy"
    assert MetricScore("Right answers", 0.5).key == "right_answers"


def test_a_score_is_found_by_its_identifier_before_its_key() -> None:
    plain, at_two = MetricScore("Recall", 0.1), MetricScore("Recall [at 2]", 0.2)
    scores = MetricScores({one.name: one for one in (plain, at_two)})
    assert scores["recall"] is plain
    assert scores["recall[at 2]"] is at_two
    assert 2 not in scores
    assert "precision" not in scores


def test_a_subclass_without_a_name_keeps_the_key_and_one_with_a_key_its_own() -> None:
    class Named(BaseMetric):
        name, key = "Long Name", "short"

        def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
            return MetricScore(self.name, 1.0)

        def form(self, table: Table) -> Share:
            return Share(table.correct, among=table.answered)

    class Child(Named):
        pass

    assert (Named.key, Child.key) == ("short", "short")
    assert Child().compute([EvaluationResult(0, 1)]).value == 1.0  # its own, not that of its form


def test_numbers_of_other_libraries_are_accepted_as_confidence() -> None:
    assert EvaluationResult(1, 1, confidence=np.float32(0.5)).confidence == 0.5  # type: ignore[arg-type]
    assert EvaluationResult(1, 1, confidence=1).confidence == 1.0


def test_missing_truth_and_vague_abstention_are_refused() -> None:
    with pytest.raises(ValueError, match="ground_truth is None"):
        EvaluationResult(1, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="abstained must be True or False, not 'no'"):
        EvaluationResult(1, 1, abstained="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["prediction", "ground_truth"])
@pytest.mark.parametrize("value", [[1], {"a": 1}, object])
def test_what_is_no_label_is_refused_with_its_row_and_field(field: str, value: object) -> None:
    rows = [EvaluationResult(1, 1), EvaluationResult(1, 1, record_id="p2")]
    setattr(rows[1], field, value)
    with pytest.raises(ValueError, match=rf"row 1 \(p2\): {field} .* is not a label"):
        Accuracy()(rows)


def test_a_row_changed_after_construction_is_still_checked() -> None:
    rows = [EvaluationResult(1, 1, confidence=0.5), EvaluationResult(1, 1, confidence=0.5)]
    for bad in (1.2, math.nan):
        rows[1].confidence = bad
        with pytest.raises(ValueError, match="row 1: confidence must be between 0 and 1"):
            Accuracy()(rows)
    rows[1].confidence = None
    rows[1].ground_truth = None  # type: ignore[assignment]
    with pytest.raises(ValueError, match="row 1: ground_truth is None"):
        Accuracy()(rows)


def test_labels_are_equal_across_spellings_and_none_equals_nothing() -> None:
    assert canonical_label("1") == canonical_label(1) == canonical_label(np.int64(1)) == 1
    assert canonical_label(1.0) == canonical_label(True) == 1
    assert canonical_label(" Stable ") == canonical_label("stable")
    rows = [EvaluationResult(None, "none"), EvaluationResult("01", 1)]
    table = Table(rows, as_given=True)
    assert table.correct.tolist() == [False, True]


def test_rows_convert_once_for_all_metrics() -> None:
    rows = Rows([EvaluationResult(1, 1)])
    assert table_of(rows) is table_of(rows)
    assert table_of(list(rows)) is not table_of(rows)


def test_clusters_are_patients_and_rows_without_one_stand_alone() -> None:
    rows = [EvaluationResult(1, 1, cluster_id=c) for c in ("a", "b", "a", "", "")]
    assert table_of(rows).patients.code.tolist() == [0, 1, 2, 2, 3]  # "", "", "a", "a", "b"


def test_calling_a_metric_is_computing_it_and_of_nothing_it_is_undefined() -> None:
    for score in (Accuracy()([]), Accuracy().compute([])):
        assert math.isnan(score.value)
        assert score.details["reason"] == "no_scored_rows"


def test_a_custom_metric_needs_only_a_name_and_compute() -> None:
    class LongestReply(BaseMetric):
        name = "Longest Reply (characters)"

        def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
            return MetricScore(self.name, float(max(len(row.raw_response) for row in results)))

    scores = score_all([LongestReply()], [EvaluationResult(1, 1, raw_response="four")])
    assert scores["longest_reply"].value == 4.0
    assert LongestReply.key == "longest_reply"
    assert LongestReply.direction == "neither"


def test_scores_are_read_by_name_and_by_key() -> None:
    scores = MetricScores({"Answer Rate (Coverage)": MetricScore("Answer Rate (Coverage)", 0.5)})
    assert scores["answer_rate"] is scores["Answer Rate (Coverage)"]
    assert "answer_rate" in scores
    assert "accuracy" not in scores
    assert scores.get("accuracy") is None
    with pytest.raises(KeyError, match="accuracy"):
        scores["accuracy"]


def test_the_default_is_the_eight_metrics_in_their_order() -> None:
    names = [metric.name for metric in default_benchmark_metrics()]
    assert names == [
        "Accuracy",
        "Balanced Accuracy",
        "Expected Calibration Error",
        "Brier Score",
        "Answer Rate (Coverage)",
        "Selective Accuracy (answered only)",
        "Abstention Rate",
        "Deferral Alignment",
    ]
    bundles = [
        *default_accuracy_metrics(),
        *default_calibration_metrics(),
        *default_abstention_metrics(),
    ]
    assert [metric.name for metric in bundles] == names


def test_a_task_adds_its_own_metrics_before_the_eight_and_no_answers_only_where_there_are_any():
    eight = [metric.name for metric in default_benchmark_metrics()]
    rows = [EvaluationResult(1, 1, confidence=0.9), EvaluationResult(0, 1, confidence=0.8)]
    scores = score_all(usual_metrics(["disease_auroc", "accuracy"]), rows)
    assert list(scores) == ["Disease AUROC", "Accuracy", *eight[1:]]
    silent = [*rows, EvaluationResult(None, 1, error="no JSON", failure_class="malformed_reply")]
    assert list(score_all(usual_metrics(), silent)) == [*eight, "No-Answer Rate"]


def test_rows_without_signals_share_one_empty_mapping_that_copies_as_itself() -> None:
    row = EvaluationResult(1, 1)
    assert row.signals is EvaluationResult(0, 1).signals
    assert row.signals == {}
    assert (len(row.signals), list(row.signals), repr(row.signals)) == (0, [], "{}")
    assert hash(row.signals) == hash(EvaluationResult(0, 1).signals)
    assert copy.deepcopy(row) == row
    assert pickle.loads(pickle.dumps(row)).signals is row.signals
    with pytest.raises(KeyError, match="token_msp"):
        row.signals["token_msp"]


def test_a_slice_of_rows_is_a_list_of_them() -> None:
    rows = Rows([EvaluationResult(1, place % 2) for place in range(5)])
    assert rows[1:4:2] == [rows[1], rows[3]]
    assert [row.ground_truth for row in rows[-2:]] == [1, 0]
