from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krisis.metrics.base import EvaluationResult
from krisis.metrics.repeats import Ties, collapse_repeats, consistency_signals, ties_of
from krisis.pages.ties import ties_sentence
from krisis.statistics.repeatability import consistency_of

ANSWERS = st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=9)


def row(answer: int | None, sample: int, record: str = "r", **fields: object) -> EvaluationResult:
    return EvaluationResult(
        answer,
        1,
        abstained=answer is None and "error" not in fields,
        record_id=record,
        metadata={"item": "Sleep", **({"sample_index": sample} if sample else {})},
        signals={"sample": sample},
        **fields,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("answers", "mode"),
    [
        ([1, 1, 2], 1),
        ([2, 1], 1),
        ([2, None], None),
        ([3, 3, None], 3),
        (["b", "a"], "a"),
        ([None], None),
    ],
)
def test_the_mode_prefers_abstention_and_then_the_smaller_score(
    answers: list[int | str | None], mode: int | str | None
) -> None:
    assert consistency_of(answers).mode == mode


def test_consistency_by_hand() -> None:
    signals = consistency_signals([0, 2, 2, None, 2])
    assert signals["consistency_modal_confidence"] == 0.6
    assert signals["consistency_score_std"] == pytest.approx(np.sqrt(0.75))
    assert consistency_signals([None, None])["consistency_score_std"] is None


def test_the_first_sample_with_the_mode_gives_the_other_fields() -> None:
    (one,) = collapse_repeats([row(0, 0), row(2, 1), row(2, 2)])
    assert (one.prediction, one.signals["sample"]) == (2, 1)
    assert one.signals["consistency_modal_confidence"] == pytest.approx(2 / 3)
    assert "sample_index" not in one.metadata


def test_failed_samples_are_left_out_unless_all_failed() -> None:
    (mixed,) = collapse_repeats([row(None, 0, error="timeout: x"), row(2, 1), row(2, 2)])
    assert mixed.signals["consistency_samples"] == [2, 2]
    (lost,) = collapse_repeats([row(None, i, error="timeout: x") for i in range(3)])
    assert lost.outcome == "not_evaluated"


def test_a_record_asked_once_has_no_consistency() -> None:
    single = row(2, 0)
    assert collapse_repeats([single]) == [single]


def test_rows_without_a_name_are_not_taken_for_samples() -> None:
    assert len(collapse_repeats([row(1, 0, ""), row(2, 0, "")])) == 2


def test_records_keep_their_order() -> None:
    rows = [row(1, sample, record) for sample in range(2) for record in "cab"]
    assert [one.record_id for one in collapse_repeats(rows)] == ["c", "a", "b"]


@given(ANSWERS, st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(answers: list[int | None], random: object) -> None:
    shuffled = list(answers)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert consistency_of(shuffled).mode == consistency_of(answers).mode
    one, other = consistency_signals(answers), consistency_signals(shuffled)
    assert one["consistency_modal_confidence"] == other["consistency_modal_confidence"]
    assert 1 / len(answers) <= float(str(one["consistency_modal_confidence"])) <= 1


def test_ties_are_counted_with_what_becomes_of_them() -> None:
    samples = [
        [1, 1],  # agreed
        [0, None],  # a tie that the abstention wins
        [2, 1],  # a tie that the smaller score wins
        [None, None],  # an abstention without a tie
        [1, 2, 2, None, None],  # two by two: a tie again
        [1, 2, None, 1],  # one leads
        [3],  # asked once, as far as was answered
    ]
    found = ties_of([{"consistency_samples": answers} for answers in samples])
    assert found == Ties(
        n_samples=17,
        n_samples_answered=11,
        n_items=6,
        n_items_answered=3,
        n_tied=3,
        n_tied_abstained=2,
    )
    sentence = ties_sentence(asdict(found))
    assert sentence.startswith("3 of 6 items")
    assert "(65 % of the askings were answered, 50 % of the items are)" in sentence
    assert ties_of([{"stated_confidence": 0.5}, {"consistency_samples": [[1], {}]}]) is None
