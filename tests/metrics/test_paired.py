"""The inference of a paired difference against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scipy import stats

from krisis.errors import InvalidValue
from krisis.metrics import Accuracy, BrierScore
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.forms import Share
from krisis.metrics.paired import Exchanges, PairedDifference, paired_differences


def difference(left: Sequence[int], right: Sequence[int], *, n_rows: int) -> PairedDifference:
    """Compare accuracies, given how many of the rows of each patient are right in either run."""
    tables = [
        Rows(
            EvaluationResult(int(j < hits), 1, record_id=f"{i}-{j}", cluster_id=f"p{i}")
            for i, hits in enumerate(run)
            for j in range(n_rows)
        ).table
        for run in (left, right)
    ]
    found, _ = paired_differences(*tables, {"accuracy": Accuracy().form}, exchanges=Exchanges(999))
    return found["accuracy"]


def test_the_standard_error_is_that_of_the_patients_differences() -> None:
    """Differences 1 × 6 and 5 × 2 of 80: Δ = .2, Σ(d − 2)² = 24, se² = 8/7 · 24/80², t₇ = 2.3646.

    Of the 128 exchanges none but the observed one is as extreme, so that Student decides.
    """
    found = difference([2] * 8, [3, 3, 3, 7, 3, 3, 3, 7], n_rows=10)
    assert found.delta == pytest.approx(0.2)
    assert found.p_value == pytest.approx(0.018452, abs=1e-6)
    ends = (found.interval.low, found.interval.high)
    assert ends == pytest.approx((0.2 - 2.364624 * 0.0654654, 0.2 + 2.364624 * 0.0654654), abs=1e-6)


def test_a_primary_metric_does_not_pay_for_the_others() -> None:
    """Six of twelve patients become right, the six others sure: p = 1/32 each by exchanging all.

    Together one of the two is as extreme in 1 − (31/32)² of the exchanges.
    """
    tables = [
        Rows(
            EvaluationResult(
                int(after and i < 6),
                1,
                confidence=0.9 if after and i >= 6 else 0.1,
                record_id=str(i),
            )
            for i in range(12)
        ).table
        for after in (False, True)
    ]
    forms = {
        "right": Accuracy().form,
        "sure": lambda table: Share(table.confidence > 0.5, among=table.everyone),
    }
    for primary, expected in ((None, 1 - (31 / 32) ** 2), ("right", 1 / 32)):
        found, _ = paired_differences(*tables, forms, exchanges=Exchanges(), primary=primary)
        assert found["right"].p_value == pytest.approx(1 / 32)
        assert found["right"].p_adjusted == pytest.approx(expected)


def test_rows_of_different_patients_are_not_compared() -> None:
    rows = [
        Rows(EvaluationResult(1, 1, record_id=f"{i}", cluster_id=f"p{i // n}") for i in range(6))
        for n in (1, 2)
    ]
    with pytest.raises(InvalidValue, match="different patients \\(6 and 3 of them\\)"):
        paired_differences(
            rows[0].table, rows[1].table, {"a": Accuracy().form}, exchanges=Exchanges(99)
        )


def test_one_patient_cannot_be_exchanged_and_decides_nothing() -> None:
    found = difference([2], [9], n_rows=10)
    assert found.delta == pytest.approx(0.7)
    assert found.p_value == 1.0
    assert found.interval.low <= 0 <= found.interval.high


def test_runs_that_differ_in_confidence_alone_are_compared() -> None:
    """Twelve right answers, stated .9 and .6: every patient's squared error rises by .15."""
    tables = [
        Rows(EvaluationResult(1, 1, confidence=stated, record_id=f"{i}") for i in range(12)).table
        for stated in (0.9, 0.6)
    ]
    found, _ = paired_differences(*tables, {"brier": BrierScore().form}, exchanges=Exchanges(999))
    assert found["brier"].delta == pytest.approx(0.16 - 0.01)
    # No exchange is as extreme and no answer differs, so that Student decides, with the standard
    # error of what nobody disagreed on: z/(12 + z²) times the slope mean(2c − 1) = ½.
    z = stats.norm.ppf(0.975)
    t = 0.15 / (0.5 * z / (12 + z * z))
    assert found["brier"].p_value == pytest.approx(2 * stats.t.sf(t, 11))


def test_a_primary_metric_may_be_the_only_one() -> None:
    tables = [
        Rows(EvaluationResult(int(i >= n), 1, record_id=f"{i}") for i in range(40)).table
        for n in (4, 12)
    ]
    results = [
        paired_differences(
            *tables, {"accuracy": Accuracy().form}, exchanges=Exchanges(199), primary=primary
        )[0]["accuracy"]
        for primary in ("accuracy", None)
    ]
    assert results[0] == results[1]
