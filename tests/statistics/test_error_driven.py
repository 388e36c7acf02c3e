"""Intervals that errors drive: hand values, a slow oracle, and the laws they keep on any data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krisis.errors import InvalidValue, UnknownName
from krisis.statistics import answered_rows, error_driven
from krisis.statistics.answered_rows import (
    AnsweredRows,
    Plateaus,
)
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.error_driven import error_driven_intervals
from krisis.statistics.risk_masses import Figure, Masses, optimal_areas
from krisis.statistics.shares import share_interval

FIGURES = {
    "brier": Figure("brier"),
    "mean_loss": Figure("mean_loss"),
    "aurc": Figure("aurc"),
    "augrc": Figure("augrc"),
    "aurc_normalized": Figure("aurc_normalized"),
    "augrc_normalized": Figure("augrc_normalized"),
    "risk_at_0.50": Figure("risk", 0.5),
    "risk_at_0.80": Figure("risk", 0.8),
    "aurc_until_0.6": Figure("aurc", 0.6),
    "augrc_until_0.6": Figure("augrc", 0.6),
    "eaurc": Figure("eaurc"),
    "eaugrc": Figure("eaugrc"),
}
FEW = BootstrapOptions(n_resamples=200, seed=4)


def answered(confidence, loss, *, unit=None, n_rows=None) -> AnsweredRows:
    confidence, loss = np.asarray(confidence, float), np.asarray(loss, float)
    unit = np.arange(loss.size) if unit is None else np.asarray(unit)
    rows = np.bincount(unit).astype(float) if n_rows is None else np.asarray(n_rows, float)
    return AnsweredRows(confidence, loss, loss > 0, unit, rows)


def sample(seed: int, n_units: int = 12, *, levels: int = 5, losses=(1.0,)) -> AnsweredRows:
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(n_units), rng.integers(0, 6, n_units))
    confidence = rng.integers(0, levels + 1, unit.size) / levels
    wrong = rng.random(unit.size) < 0.5 - 0.4 * confidence
    rows = np.bincount(unit, minlength=n_units) + rng.integers(0, 2, n_units)
    loss = np.where(wrong, rng.choice(losses, unit.size), 0.0)
    return answered(confidence, loss, unit=unit, n_rows=np.maximum(rows, 1))


def test_the_worked_example_has_its_figures():
    # (prediction, truth, confidence) = (2,2,2), (3,1,2), (1,1,1), (None,0,0), loss |difference|.
    masses = Masses(
        accepted=np.array([[2 / 3], [1.0]]),
        lost=np.array([[2 / 3], [2 / 3]]),
        answer_rate=np.array([0.75]),
        brier=np.array([0.0]),
        losses=np.array([2.0]),
        wrong=np.array([[1 / 3]]),
    )

    def value(kind, coverage=None):
        return float(masses.value(Figure(kind, coverage))[0])

    assert value("aurc") == pytest.approx(17 / 24)
    assert value("augrc") == pytest.approx(1 / 4)
    assert value("risk", 0.6) == pytest.approx(2 / 3)
    assert value("risk", 0.5) == pytest.approx(1.0)
    assert value("aurc", 0.6) == pytest.approx(89 / 150)
    assert value("augrc", 0.6) == pytest.approx(7 / 40)
    assert value("aurc", 1.0) == pytest.approx(17 / 24)
    assert value("aurc_normalized") == pytest.approx(17 / 18)
    assert value("augrc_normalized") == pytest.approx(4 / 9)
    assert value("mean_loss") == pytest.approx(2 / 3)
    # Endless right answers up to 2/3, then errors of loss 2: ∫ 2(1 − (2/3)/A) dA from 2/3 to 1.
    assert value("aurc_optimal") == pytest.approx(0.75 * (2 / 3 + 4 / 3 * math.log(2 / 3)))
    assert value("augrc_optimal") == pytest.approx(0.75**2 * 1 / 9)
    assert masses.reaches(0.75)
    assert not masses.reaches(0.76)


def test_the_optimal_ranking_by_hand():
    # Losses 0, 0, 2 in four rows: risks 0, 0, 2/3, so (0 + 0 + 1/3)/4 and (0 + 0 + 1)/16.
    found = optimal_areas(np.array([0.0, 2.0, 0.0]), 4)
    assert found == pytest.approx({"aurc_optimal": 1 / 12, "augrc_optimal": 1 / 16})
    assert math.isnan(optimal_areas(np.empty(0), 4)["aurc_optimal"])


def test_the_areas_of_two_losses_agree_with_an_integral():
    masses = Masses(
        accepted=np.ones((1, 1)),
        lost=np.ones((1, 1)),
        answer_rate=np.array([0.9]),
        brier=np.zeros(1),
        losses=np.array([1.0, 3.0]),
        wrong=np.array([[0.2], [0.1]]),
    )
    x = (np.arange(200_000) + 0.5) / 200_000
    loss = np.where(x < 0.7, 0.0, np.where(x < 0.9, 1.0, 3.0))
    lost = (np.cumsum(loss) - loss / 2) / x.size
    aurc = masses.value(Figure("aurc_optimal"))[0]
    assert aurc == pytest.approx(0.9 * (lost / x).mean(), abs=1e-5)
    augrc = masses.value(Figure("augrc_optimal"))[0]
    assert augrc == pytest.approx(0.81 * lost.mean(), abs=1e-5)
    assert masses.value(Figure("eaurc"))[0] == pytest.approx(0.9 - aurc)
    assert masses.value(Figure("eaugrc"))[0] == pytest.approx(0.81 / 2 - augrc)


def test_one_level_of_confidence_repeats_the_interval_of_the_error_share():
    wrong = np.arange(44) < 1
    rows = answered(np.full(44, 0.9), wrong)
    found = error_driven_intervals(rows, FIGURES, options=BootstrapOptions(n_resamples=4000))
    share = share_interval(wrong, np.ones(44))
    low, high = share.low, share.high
    assert (found["aurc"].low, found["aurc"].high) == pytest.approx((low, high), abs=2e-4)
    assert (found["augrc"].low, found["augrc"].high) == pytest.approx((low / 2, high / 2), abs=1e-4)
    for end, q in ((found["brier"].low, low), (found["brier"].high, high)):
        assert end == pytest.approx(q * 0.81 + (1 - q) * 0.01, abs=2e-4)
    assert found["risk_at_0.80"].high == pytest.approx(high, abs=2e-4)


def test_no_error_seen_is_no_certainty():
    rows = answered(np.linspace(0.6, 1, 44), np.zeros(44))
    found = error_driven_intervals(rows, FIGURES)
    unseen = 1 - 0.05 ** (1 / 44)
    assert found["mean_loss"].high == pytest.approx(unseen, rel=0.02)
    assert found["aurc"].low == 0.0
    # The one error that stands for all may be a confident answer: worse than errors by lot.
    assert unseen < found["aurc"].high < 3 * unseen
    assert unseen / 2 < found["augrc"].high < unseen


def slow_figures(
    rows: AnsweredRows, *, weights, share, unseen, place, unseen_loss
) -> dict[str, float]:
    """One draw, row by row, straight from the definition."""
    confidence, wrong, loss = rows.confidence, rows.wrong, rows.loss
    n = confidence.size
    seen_wrong = sum(w for w, bad in zip(weights, wrong, strict=True) if bad)
    seen_right = sum(weights) - seen_wrong
    levels = sorted(set(confidence), reverse=True)
    right_at, wrong_at, lost_at = [], [], []
    passed = 0.0
    for level in levels:
        at = [i for i in range(n) if confidence[i] == level]
        part = sum(weights[i] for i in at) / sum(weights)
        if place is None:  # the lower end: right ones at the top, wrong ones at the bottom
            right_place, wrong_place = float(level == levels[0]), float(level == levels[-1])
        else:
            right_place, wrong_place = part, float(passed < place <= passed + part)
        passed += part
        right = sum(weights[i] for i in at if not wrong[i]) + unseen * right_place
        bad = sum(weights[i] for i in at if wrong[i]) + unseen * wrong_place
        lost = sum(weights[i] * loss[i] for i in at) + unseen * wrong_place * unseen_loss
        right_at.append((1 - share) * right / (seen_right + unseen))
        wrong_at.append(share * bad / (seen_wrong + unseen))
        lost_at.append(share * lost / (seen_wrong + unseen))
    brier = sum(
        r * (1 - c) ** 2 + w * c**2 for c, r, w in zip(levels, right_at, wrong_at, strict=True)
    )
    accepted = lost = aurc = augrc = risk = 0.0
    drawn = 0
    for r, w, cost in zip(right_at, wrong_at, lost_at, strict=True):
        before, before_lost = risk, lost
        accepted, lost = accepted + r + w, lost + cost
        if accepted == 0:
            continue
        drawn, step = drawn + 1, drawn
        risk = lost / accepted
        aurc += (r + w) * (risk + (before if step else risk)) / 2
        augrc += (r + w) * (lost + before_lost) / 2
    return {"brier": brier, "aurc_normalized": aurc, "augrc_normalized": augrc, "mean_loss": lost}


@pytest.mark.parametrize("losses", [(1.0,), (1.0, 2.0, 3.0)])
def test_every_draw_is_what_the_definition_says(losses):
    rows = sample(1, losses=losses)
    plateaus = Plateaus.of(rows, largest_loss=3.0)
    errors = rows.errors()
    draws = error_driven._Draws.of(plateaus, errors, options=FEW, ranked=True)
    assert sorted(draws.share) == pytest.approx(errors.quantile((np.arange(200) + 0.5) / 200))
    matrices = [plateaus.matrix(w) for w in (None, rows.wrong.astype(float), rows.loss)]
    sums = [np.cumsum(m @ draws.counts, axis=0) for m in matrices]
    assert draws.unseen_above == errors.design_effect
    mean_loss = [rows.loss[rows.wrong].mean()] * 200
    for unseen, amount, places, unseen_losses in (
        (draws._unseen_above, errors.design_effect, draws.unseen_place, draws.unseen_loss),
        (draws._unseen_below, 0.5, [None] * 200, mean_loss),
    ):
        masses = draws._masses(slice(None), sums, unseen(slice(None), sums[0]))
        for b in (0, 1, 57, 199):
            weights = draws.counts[rows.unit, b]
            slow = slow_figures(
                rows,
                weights=weights,
                share=draws.share[b],
                unseen=amount,
                place=places[b],
                unseen_loss=unseen_losses[b],
            )
            for kind, value in slow.items():
                assert masses.value(Figure(kind))[b] == pytest.approx(value)
            rate = weights.sum() / (rows.rows_per_unit @ draws.counts[:, b])
            assert draws.answer_rate[b] == pytest.approx(rate)
            area = masses.value(Figure("augrc"))[b]
            assert area == pytest.approx(slow["augrc_normalized"] * rate**2)
            assert masses.wrong[:, b].sum() == pytest.approx(draws.share[b])


def test_the_limits_are_percentiles_of_the_two_ends():
    rows = sample(2)
    plateaus = Plateaus.of(rows)
    draws = error_driven._Draws.of(plateaus, rows.errors(), options=FEW, ranked=False)
    matrices = [plateaus.matrix(w) for w in (None, rows.wrong.astype(float))]
    sums = [np.cumsum(m @ draws.counts, axis=0) for m in matrices]
    everything = slice(None)
    low = draws._masses(everything, sums, draws._unseen_below(everything, sums[0]))
    high = draws._masses(everything, sums, draws._unseen_above(everything, sums[0]))
    found = error_driven_intervals(rows, FIGURES, options=FEW)
    for name in ("brier", "aurc", "augrc", "risk_at_0.50"):
        ends = (
            np.quantile(low.value(FIGURES[name]), 0.025),
            np.quantile(high.value(FIGURES[name]), 0.975),
        )
        assert (found[name].low, found[name].high) == pytest.approx(ends)


def test_shares_of_errors_follow_the_errors_seen_but_not_slavishly():
    generator = np.random.default_rng(0)
    grid, seen = np.linspace(0, 1, 5000), generator.random(5000)
    given = error_driven._given_by_rank(grid, seen, np.random.default_rng(1))
    assert sorted(given) == pytest.approx(grid)
    score = np.argsort(np.argsort(seen))
    assert np.corrcoef(given, score)[0, 1] == pytest.approx(0.48, abs=0.03)


def test_an_error_not_seen_lies_at_the_more_confident_of_two_answers():
    places = error_driven._places(np.random.default_rng(0), 20_000)
    assert places.mean() == pytest.approx(1 / 3, abs=0.01)
    assert np.mean(places < 0.1) == pytest.approx(0.19, abs=0.01)


def test_a_resample_without_an_answer_becomes_the_data():
    rows = answered([0.9], [1.0], unit=[0], n_rows=[1.0, 5.0, 5.0])
    found = error_driven_intervals(rows, {"aurc": Figure("aurc")}, options=FEW)
    assert found["aurc"].defined
    assert found["aurc"].high <= 1.0


def test_many_confidences_are_grouped_around_the_exact_value(monkeypatch):
    rng = np.random.default_rng(8)
    confidence = rng.beta(6, 2, 900)
    rows = answered(confidence, rng.random(900) < 0.3 * (1.2 - confidence))
    every = error_driven_intervals(rows, FIGURES)
    monkeypatch.setattr(answered_rows, "_MOST_PLATEAUS", 500)
    grouped = error_driven_intervals(rows, FIGURES)
    for name, exact in every.items():
        width = exact.high - exact.low
        assert grouped[name].low == pytest.approx(exact.low, abs=0.06 * width), name
        assert grouped[name].high == pytest.approx(exact.high, abs=0.06 * width), name


def test_grouping_shifts_the_interval_to_the_exact_value(monkeypatch):
    rng = np.random.default_rng(8)
    confidence = rng.beta(6, 2, 300)
    rows = answered(confidence, rng.random(300) < 0.3 * (1.2 - confidence))
    monkeypatch.setattr(answered_rows, "_MOST_PLATEAUS", 100)
    wanted = {"aurc": Figure("aurc")}
    near = error_driven_intervals(rows, wanted, options=FEW, estimates={"aurc": 0.10})["aurc"]
    other = error_driven_intervals(rows, wanted, options=FEW, estimates={"aurc": 0.12})["aurc"]
    assert (other.low, other.high) == pytest.approx((near.low + 0.02, near.high + 0.02))


def test_many_patients_are_pooled_but_counted_one_by_one(monkeypatch):
    rng = np.random.default_rng(8)
    confidence = rng.integers(1, 6, 900) / 5
    rows = answered(confidence, rng.random(900) < 0.3 * (1.2 - confidence))
    every = error_driven_intervals(rows, FIGURES)
    monkeypatch.setattr("krisis.statistics.bootstrap.MOST_POOLS", 100)
    monkeypatch.setattr(answered_rows, "MOST_POOLS", 100)
    pooled = error_driven_intervals(rows, FIGURES)
    for name, exact in every.items():
        width = exact.high - exact.low
        assert pooled[name].low == pytest.approx(exact.low, abs=0.1 * width), name
        assert pooled[name].high == pytest.approx(exact.high, abs=0.1 * width), name


def test_repeats_of_one_case_widen_the_interval():
    rows = sample(3)
    usual = error_driven_intervals(rows, FIGURES, options=FEW)
    repeats = error_driven_intervals(rows, FIGURES, options=FEW, prior_icc=1.0)
    assert repeats["aurc"].high > usual["aurc"].high


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    rows = sample(3)
    first, second = (error_driven_intervals(rows, FIGURES, options=FEW) for _ in range(2))
    assert first == second
    other = error_driven_intervals(rows, FIGURES, options=BootstrapOptions(n_resamples=200, seed=5))
    assert first["aurc"] != other["aurc"]


def test_the_printed_value_is_inside_whatever_it_is():
    rows = sample(3)
    found = error_driven_intervals(
        rows, FIGURES, options=FEW, estimates={"aurc": 0.9, "augrc": 0.0}
    )
    assert found["aurc"].high == 0.9
    assert found["augrc"].low == 0.0


def test_a_coverage_never_reached_has_no_interval():
    rows = answered([0.9, 0.8], [0, 1], n_rows=[2, 2])
    found = error_driven_intervals(rows, FIGURES, options=FEW)
    assert not found["risk_at_0.80"].defined
    assert found["risk_at_0.50"].defined
    nobody = answered([], [], n_rows=[3.0])
    assert error_driven_intervals(nobody, FIGURES)["aurc"].reason == "no_answered_rows"


def test_an_ordinal_error_not_seen_costs_midway_if_none_was_seen():
    rows = answered(np.full(44, 0.9), np.zeros(44))
    raw = error_driven_intervals(rows, FIGURES, largest_loss=4.0)
    scaled = error_driven_intervals(rows, FIGURES, largest_loss=0.25)
    share = 1 - 0.05 ** (1 / 44)
    assert raw["aurc"].high == pytest.approx(2.5 * share, rel=0.02)
    assert scaled["aurc"].high == pytest.approx(0.25 * share, rel=0.02)


def test_an_ordinal_error_not_seen_may_be_the_largest():
    # Losses 1, 1, 2 were seen; 3 is possible: by falling loss 3, 2, 1, 1.
    plateaus = Plateaus.of(answered([0.9] * 5, [0, 1, 1, 2, 0]), largest_loss=3.0)
    places = np.array([0.0, 0.2, 0.3, 0.45, 0.55, 0.99, 1.0])
    assert plateaus.unseen_losses(places).tolist() == [3, 3, 2, 2, 1, 1, 1]
    assert plateaus.mean_loss == pytest.approx(4 / 3)
    assert not plateaus.plain
    assert Plateaus.of(answered([0.9] * 2, [0, 1])).plain
    assert not Plateaus.of(answered([0.9] * 2, [0, 1]), largest_loss=3.0).plain


def test_what_is_no_answer_or_no_figure_is_refused():
    with pytest.raises(InvalidValue, match="one length"):
        AnsweredRows(np.ones(2), np.ones(3), np.ones(2, bool), np.arange(2), np.ones(2))
    with pytest.raises(InvalidValue, match="finite"):
        answered([math.nan], [0.0])
    with pytest.raises(InvalidValue, match="loss 0"):
        AnsweredRows(np.ones(1), np.ones(1), np.zeros(1, bool), np.arange(1), np.ones(1))
    with pytest.raises(UnknownName):
        Figure("auroc")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="coverage"):
        Figure("risk")
    with pytest.raises(InvalidValue, match="coverage"):
        Figure("risk", 0.0)
    with pytest.raises(InvalidValue, match="coverage"):
        Figure("brier", 0.5)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 14),
    st.sampled_from([1, 3, 40]),
    st.sampled_from([(1.0,), (1.0, 2.0, 4.0), (0.25, 0.5)]),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_intervals_exist_hold_the_value_and_stay_in_range(seed, n_units, levels, losses, keep):
    rows = sample(seed, n_units, levels=levels, losses=losses)
    loss = np.where(np.random.default_rng(seed).random(rows.loss.size) < keep, rows.loss, 0.0)
    rows = answered(rows.confidence, loss, unit=rows.unit, n_rows=rows.rows_per_unit)
    largest = max(losses)
    found = error_driven_intervals(rows, FIGURES, options=FEW, largest_loss=largest)
    if rows.loss.size == 0:
        assert not any(interval.defined for interval in found.values())
        return
    plateaus = Plateaus.of(rows, largest_loss=3.0)
    values = error_driven._estimates(plateaus, FIGURES)
    for name, interval in found.items():
        assert interval.defined == (not math.isnan(values[name])), name
        if interval.defined:
            least = -largest if name.startswith("e") else 0.0
            assert least <= interval.low <= values[name] <= interval.high, name
            assert interval.high <= max(largest, 1.0)
            if name != "brier":
                assert interval.low < interval.high, name
    order = np.random.default_rng(seed).permutation(rows.loss.size)
    shuffled = answered(
        rows.confidence[order], rows.loss[order], unit=rows.unit[order], n_rows=rows.rows_per_unit
    )
    again = error_driven_intervals(shuffled, FIGURES, options=FEW, largest_loss=largest)
    for name, interval in found.items():
        if interval.defined:
            assert (interval.low, interval.high) == pytest.approx(
                (again[name].low, again[name].high), abs=1e-9
            )
