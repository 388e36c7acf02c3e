"""What a run is judged by: which losses its rows have, and how many of them may be missing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krisis.decisions.certify import CertifyOptions, certify_run, patients_to_show
from krisis.decisions.run_sample import (
    ScoreOptions,
    check_limit,
    losses_of,
    most_rows,
    too_many_missing,
)
from krisis.decisions.sample import (
    CandidateTest,
    Sample,
    check_bounds,
    crc,
    find_threshold,
    sgr,
)
from krisis.errors import InvalidValue
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.items import RunItems, Source
from krisis.metrics.labels import Answers
from krisis.results.base import BenchmarkResult
from krisis.results.run_items import items_of_result
from krisis.task_facts import TaskFacts

SCALE = TaskFacts("scale", answers=((0, ""), (1, ""), (2, "")), ordered=True)


def run_of(answers: list[tuple[int | None, int]], suite: str = "") -> RunItems:
    """Return a run of what was said and what is true; two rows are one patient's."""
    rows = [
        EvaluationResult(said, truth, said is None, 0.9, record_id=f"r{i}", cluster_id=f"p{i // 2}")
        for i, (said, truth) in enumerate(answers)
    ]
    result = BenchmarkResult(Rows(rows, Answers.of(SCALE)), {}, {}, "m", {"task_facts": SCALE})
    return items_of_result(result, Source("runs/one", suite=suite))


@pytest.mark.parametrize("limit", [0, 0.01, 1])
def test_a_limit_is_a_share(limit: float) -> None:
    assert check_limit(limit) == limit


@pytest.mark.parametrize("limit", [True, -0.01, 1.01, 2, math.nan])
def test_a_limit_that_is_no_share_is_refused(limit: float) -> None:
    with pytest.raises(InvalidValue, match="from 0 to 1, not"):
        check_limit(limit)


def test_a_run_without_rows_misses_none() -> None:
    assert too_many_missing(0, 0, 0.01) == ""
    assert too_many_missing(1, 100, 0.01) == ""
    assert too_many_missing(2, 100, 0.01).startswith("2 of 100 cases (2 %)")


def test_every_error_counts_once_and_an_abstention_not_at_all() -> None:
    run = run_of([(0, 2), (1, 2), (2, 2), (None, 2)])
    wrong = losses_of(run, ScoreOptions(loss="error"))
    assert sorted(one for one in wrong.tolist() if not math.isnan(one)) == [0, 1, 1]
    assert np.isnan(wrong).sum() == 1


def test_a_run_of_abstentions_has_no_losses() -> None:
    assert np.isnan(losses_of(run_of([(None, 0), (None, 1)]), ScoreOptions(loss="error"))).all()


def test_the_rows_of_a_patient_are_those_declared_else_the_suites_else_the_ones_seen() -> None:
    other, scored = run_of([(0, 0)]), run_of([(0, 0)], suite="phq8")
    assert most_rows(other, 2, None) == 2
    assert most_rows(scored, 2, None) == 8
    assert most_rows(scored, 2, 5) == 5
    with pytest.raises(InvalidValue, match="--rows-per-patient 3"):
        most_rows(other, 3, 2)


def test_only_crc_has_no_delta() -> None:
    run = run_of([(i % 3 if i % 9 else (i + 1) % 3, i % 3) for i in range(400)])
    score = ScoreOptions(loss="error")
    found = {
        method: certify_run(run, CertifyOptions(risk=0.3, method=method, score=score))  # type: ignore[arg-type]
        for method in ("fixed-sequence", "crc")
    }
    assert found["crc"].delta is None
    assert found["fixed-sequence"].delta == pytest.approx(0.1)


def shown_by(losses: list[float], patient: list[int], kept: list[bool]) -> float:
    """Return how many such patients show a risk below a fifth."""
    of = Sample(
        np.linspace(1, 0.5, len(losses)),
        np.array(losses, dtype=float),
        np.array(patient),
        max(patient) + 1,
        most_rows=max(np.bincount(patient)),
    )
    return patients_to_show(of, of.loss, np.array(kept), risk=0.2, level=0.05)


def test_rows_of_one_patient_ask_for_more_patients_where_they_are_alike() -> None:
    losses = [1.0, 1.0, *[0.0] * 58]
    two_each = [i // 2 for i in range(60)]
    alike = shown_by(losses, two_each, [True] * 60)
    apart = shown_by([1.0, 0.0, 1.0, *[0.0] * 57], two_each, [True] * 60)
    assert alike > apart


def test_without_a_kept_row_no_number_of_patients_is_known() -> None:
    assert math.isnan(shown_by([0.0, 1.0], [0, 1], [False, False]))
    assert math.isnan(shown_by([0.5, 0.0], [0, 1], [True, True]))


def test_bisecting_tests_no_candidate_twice_and_leaves_none_out() -> None:
    accepted, errors = np.array([100, 200, 300]), np.array([0, 0, 60])
    assert [test.candidate for test in sgr(accepted, errors, 0.1, 0.1)] == [1, 2]
    assert [test.candidate for test in sgr(accepted[:1], errors[:1], 0.1, 0.1)] == [0]
    assert [test.candidate for test in sgr(accepted, errors + 60, 0.1, 0.1)] == [1, 0]


def test_an_expected_loss_may_be_as_high_as_the_bound() -> None:
    assert crc(np.array([0.0, 1.0, 1.5]), 9, 0.2) == 1  # (1 + 1)/(9 + 1) = 0.2


def test_of_an_expected_loss_it_is_never_said_that_no_size_helps() -> None:
    losses = [1.0] * 300
    of = Sample(np.linspace(1, 0.5, 300), np.array(losses), np.arange(300), 300, most_rows=1)
    assert find_threshold(of, "fixed-sequence", 0.1, 0.1).exceeds_everywhere()
    assert not find_threshold(of, "crc", 0.1, 0.1).exceeds_everywhere()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1, "not 1; for 1 % write 0.01"),
        (5, "not 5; for 5 % write 0.05"),
        (99, "not 99; for 99 % write 0.99"),
        (100, "not 100"),
        (0, "not 0"),
    ],
)
def test_a_bound_in_per_cent_is_answered_with_the_share_to_write(value: float, said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        check_bounds(value, 0.1)
    assert str(refused.value) == f"the risk must be between 0 and 1, {said}"
    with pytest.raises(InvalidValue, match="the delta must"):
        check_bounds(0.1, value)


def test_a_p_at_its_level_passes() -> None:
    assert CandidateTest(0, 0.1, 0.1).passed
    assert not CandidateTest(0, 0.1000001, 0.1).passed
