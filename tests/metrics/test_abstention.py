"""Answer rate, abstention rate, selective accuracy and deferral alignment, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, matthews_corrcoef

from krisis.metrics import (
    AbstentionRate,
    AnswerableAccuracy,
    AnswerRate,
    DeferralAlignment,
    EvaluationResult,
    InappropriateAnswerRate,
    RightDecisions,
    SelectiveAccuracy,
)
from krisis.metrics.base import Rows


def row(abstained: bool, due: object, **fields: object) -> EvaluationResult:
    return EvaluationResult(1, 1, abstained, metadata={"should_abstain": due, **fields})


ROWS = [
    EvaluationResult(1, 1, metadata={"ckd_stage": 1}),
    EvaluationResult(0, 1, metadata={"ckd_stage": 1}),
    EvaluationResult(None, 1, metadata={"ckd_stage": 2}),
    EvaluationResult(1, 1, abstained=True, metadata={"ckd_stage": 2}),
]


def test_answer_and_abstention_rate_share_all_rows_between_them() -> None:
    answered, abstained = AnswerRate()(ROWS), AbstentionRate()(ROWS)
    assert (answered.value, abstained.value) == (0.75, 0.25)
    assert answered.n_evaluated == abstained.n_evaluated == 4
    assert answered.n_abstained == abstained.n_abstained == 1
    assert answered.details == abstained.details == {"n_answered": 3}
    assert abstained.breakdown == {"stage_1": 0.0, "stage_2": 0.5}


def test_failed_rows_are_neither_answered_nor_abstained() -> None:
    rows = [*ROWS, EvaluationResult(None, 1, error="auth: no")]
    assert AbstentionRate()(rows).value == 0.25
    assert math.isnan(AnswerRate()(rows[-1:]).value)


def test_selective_accuracy_leaves_abstentions_out_and_counts_a_missing_answer_as_wrong() -> None:
    score = SelectiveAccuracy()(ROWS)
    assert score.value == 1 / 3
    assert (score.n_evaluated, score.n_abstained) == (3, 1)
    assert score.details == {"n_correct": 1, "n_incorrect": 2}
    assert score.breakdown == {"stage_1": 0.5, "stage_2": 0.0}


def test_selective_accuracy_without_answers_is_undefined() -> None:
    score = SelectiveAccuracy()([EvaluationResult(1, 1, True)])
    assert math.isnan(score.value)
    assert score.details["reason"] == "no_non_abstained_predictions"


def test_deferral_alignment_shows_both_sides_and_the_trivial_policies() -> None:
    rows = [
        *[row(True, True, ckd_stage=1)] * 3,
        *[row(False, True)] * 1,
        *[row(True, False)] * 2,
        *[row(False, 0)] * 4,
        EvaluationResult(1, 1, metadata={"other": 1}),
    ]
    score = DeferralAlignment()(rows)
    assert score.value == 7 / 10
    assert (score.n_evaluated, score.n_abstained) == (10, 5)
    assert score.details["n_labeled"] == 10
    assert score.details["confusion"] == {
        "defer_when_needed": 3,
        "answer_when_safe": 4,
        "abstain_when_should_answer": 2,
        "answer_when_should_defer": 1,
    }
    assert score.details["sensitivity"] == 3 / 4
    assert score.details["specificity"] == 4 / 6
    assert score.details["balanced_alignment"] == pytest.approx((3 / 4 + 4 / 6) / 2)
    assert score.details["mcc"] == pytest.approx((3 * 4 - 2 * 1) / math.sqrt(4 * 6 * 5 * 5))
    assert score.details["always_answer"] == 0.6
    assert score.details["always_defer"] == 0.4
    assert score.breakdown["stage_1"] == 1.0


def test_deferral_alignment_without_labels_is_undefined() -> None:
    score = DeferralAlignment()([EvaluationResult(1, 1), row(False, None)])
    assert math.isnan(score.value)
    assert score.details["reason"] == "no_should_abstain_metadata"


@pytest.mark.parametrize("label", ["maybe", ["maybe"]])
def test_a_deferral_label_that_is_not_a_truth_value_leaves_alignment_undefined(
    label: object,
) -> None:
    bad = EvaluationResult(1, 1, metadata={"should_abstain": label}, record_id="p7")
    rows = Rows([row(False, True), bad])
    score = DeferralAlignment()(rows)
    assert math.isnan(score.value)
    assert score.details["reason"].startswith("row 1 (p7): metadata['should_abstain'] must be")
    assert rows.table.should_abstain.tolist() == [1, -1]
    assert AbstentionRate()(rows).value == 0.0


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_the_matthews_correlation_equals_scikit_learn(cases: list[tuple[bool, bool]]) -> None:
    score = DeferralAlignment()([row(abstained, due) for abstained, due in cases])
    ours = score.details["mcc"]
    due, abstained = [d for _, d in cases], [a for a, _ in cases]
    if len(set(due)) < 2 or len(set(abstained)) < 2:
        assert math.isnan(ours)
    else:
        assert ours == pytest.approx(matthews_corrcoef(due, abstained), abs=1e-12)
    n_due = sum(due)
    assert score.details["always_answer"] == (len(due) - n_due) / len(due)


def kinds(abstained: bool, due: bool, kind: str | None = None, *reasons: str, prior: bool = False):
    metadata = {"deferral_kind": kind, "abstain_reasons": list(reasons)}
    return row(abstained, due, **metadata, label_depends_on_prior=prior)


# Uncertain: 2 of 3 deferred. By a rule: 1 of 2 deferred. Not due: 3 answered, 1 abstained.
OF_KINDS = [
    kinds(True, True, "uncertain", "category_uncertain"),
    kinds(True, True, "uncertain", "category_uncertain", prior=True),
    kinds(False, True, "uncertain", "category_uncertain"),
    kinds(True, True, "rule", "child", "implausible_value"),
    kinds(False, True, "rule", "child"),
    *[kinds(False, False)] * 2,
    kinds(False, False, prior=True),
    kinds(True, False),
]


def test_each_kind_of_deferral_is_scored_on_its_rows_and_those_not_due() -> None:
    details = DeferralAlignment()(OF_KINDS).details
    found = {
        kind: (part["n_labeled"], part["sensitivity"], part["specificity"], part["alignment"])
        for kind, part in details["by_kind"].items()
    }
    assert found == {"rule": (6, 1 / 2, 3 / 4, 4 / 6), "uncertain": (7, 2 / 3, 3 / 4, 5 / 7)}
    assert details["by_kind"]["rule"]["always_answer"] == 4 / 6


def test_rows_whose_label_hangs_on_the_prevalence_are_scored_apart() -> None:
    parts = DeferralAlignment()(OF_KINDS).details["by_prior"]
    assert {name: part["n_labeled"] for name, part in parts.items()} == {
        "depends_on_prior": 2,
        "holds_for_any_prior": 7,
    }
    assert parts["depends_on_prior"]["alignment"] == 1.0


def test_reasons_are_counted_with_how_many_of_them_were_deferred() -> None:
    single = row(True, True, abstain_reasons="child")
    assert DeferralAlignment()([*OF_KINDS, single]).details["by_reason"] == {
        "category_uncertain": {"n_due": 3, "n_deferred": 2},
        "child": {"n_due": 3, "n_deferred": 2},
        "implausible_value": {"n_due": 1, "n_deferred": 1},
    }


def test_without_such_metadata_nothing_is_added() -> None:
    found = DeferralAlignment()([row(True, True), row(False, False)]).details
    assert not {"by_kind", "by_prior", "by_reason"} & found.keys()


@given(
    st.lists(
        st.builds(
            kinds,
            st.booleans(),
            st.booleans(),
            st.sampled_from([None, "uncertain", "rule"]),
            prior=st.booleans(),
        ),
        min_size=1,
    )
)
def test_a_part_is_the_metric_on_its_rows(rows: list[EvaluationResult]) -> None:
    details = DeferralAlignment()(rows).details
    for kind, part in details.get("by_kind", {}).items():
        kept = [
            r
            for r in rows
            if not r.metadata["should_abstain"] or r.metadata["deferral_kind"] == kind
        ]
        alone = DeferralAlignment()(kept)
        assert part["alignment"] == alone.value
        assert part["confusion"] == alone.details["confusion"]
        due = [r.metadata["should_abstain"] for r in kept]
        if len(set(due)) == 2:
            found = balanced_accuracy_score(due, [r.abstained for r in kept])
            assert part["balanced_alignment"] == pytest.approx(found)


DUE, SAFE = {"should_abstain": True}, {"should_abstain": False}
DECIDED = [
    EvaluationResult(None, 0, True, metadata=DUE),
    EvaluationResult(0, 0, metadata=DUE),  # a right guess without evidence is no right decision
    EvaluationResult(0, 0, metadata=SAFE),
    EvaluationResult(1, 0, metadata=SAFE),
    EvaluationResult(0, 0, True, metadata=SAFE),
    EvaluationResult(0, 0),
]


@pytest.mark.parametrize(
    ("metric", "value", "n"),
    [
        (RightDecisions(), 2 / 5, 5),
        (AnswerableAccuracy(), 1 / 3, 3),
        (InappropriateAnswerRate(), 1 / 2, 2),
    ],
)
def test_decisions_by_hand(metric, value, n):
    score = metric(DECIDED)
    assert score.value == pytest.approx(value)
    assert score.n_evaluated == n


def test_on_a_case_to_be_deferred_only_the_deferral_is_right() -> None:
    assert RightDecisions()([row(abstained=True, due=True)]).value == 1.0
    assert RightDecisions()([row(abstained=False, due=True)]).value == 0.0  # a right guess


@pytest.mark.parametrize(
    ("metric", "rows", "reason"),
    [
        (RightDecisions(), DECIDED[5:], "no_should_abstain_metadata"),
        (AnswerableAccuracy(), DECIDED[:2], "every_case_is_to_be_deferred"),
        (InappropriateAnswerRate(), DECIDED[2:], "no_case_is_to_be_deferred"),
        (
            RightDecisions(),
            [EvaluationResult(0, 0, metadata={"should_abstain": "maybe"})],
            "row 0: metadata['should_abstain'] must be true or false, not 'maybe'",
        ),
    ],
)
def test_decisions_without_such_cases_are_undefined(metric, rows, reason):
    score = metric(rows)
    assert math.isnan(score.value)
    assert score.details["reason"] == reason


def test_compliance_is_counted_by_rule_whatever_was_due() -> None:
    due = {"should_abstain": True, "deferral_kind": "unsafe", "abstain_reasons": "age"}
    rows = [
        EvaluationResult(None, 1, True, metadata={**due, "rules": ["a", "b", "a"]}),
        EvaluationResult(1, 1, metadata={"should_abstain": False, "rules": ["a"]}),
        EvaluationResult(0, 1, metadata={"should_abstain": False}),
    ]
    details = DeferralAlignment()(rows).details
    names = ("n", "n_deferred", "n_answered", "n_right")
    counts = {rule: [part[name] for name in names] for rule, part in details["by_rule"].items()}
    assert counts == {
        "a": [2, 1, 1, 1],
        "b": [1, 1, 0, 0],
        "any rule": [2, 1, 1, 1],
        "no rule": [1, 0, 1, 0],
    }
    assert details["by_reason"] == {"age": {"n_due": 1, "n_deferred": 1}}
