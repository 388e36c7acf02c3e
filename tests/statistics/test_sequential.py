"""Evidence may be looked at after every patient, and hardly ever decides wrongly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from benchmarks.stop_when import (
    KINDS,
    WIDTHS,
    better_than,
    limit_decisions,
    null_decisions,
    width_stops,
)
from scipy import integrate, stats
from scipy.optimize import brentq
from scipy.special import betaln, xlog1py, xlogy

from krisis.statistics.sequential import BetMixture, CoinMixture, RunningShare
from krisis.statistics.shares import share_interval


def coin(limit: float, hits: int, rows: int) -> CoinMixture:
    test = CoinMixture(limit)
    test.add(hits, rows)
    return test


def bets(*numbers: float) -> BetMixture:
    test = BetMixture()
    for number in numbers:
        test.add(number)
    return test


def test_eight_wins_of_eight_are_worked_out_by_hand() -> None:
    # Beta(5, 5): the next toss is a win with (5 + wins)/(10 + tosses), and a coin says 1/2.
    by_hand = math.prod(2 * (5 + i) / (10 + i) for i in range(8))
    assert float(coin(0.5, 8, 8).log_evidence) == pytest.approx(math.log(by_hand))
    assert float(coin(0.5, 0, 0).log_evidence) == pytest.approx(0)
    # 0.5 twice: the mean of (1 + λ/2)² over the ten bets.
    factors = [(1 + sign * bet / 2) ** 2 for bet in (0.99, 0.7, 0.4, 0.2, 0.1) for sign in (1, -1)]
    assert float(bets(0.5, 0.5).log_evidence) == pytest.approx(math.log(sum(factors) / 10))


@pytest.mark.parametrize(("limit", "hits", "rows"), [(0.85, 30, 30), (0.85, 20, 40), (0.3, 9, 12)])
def test_the_evidence_is_the_mixed_likelihood_ratio(limit: float, hits: int, rows: int) -> None:
    prior = stats.beta(10 * limit, 10 * (1 - limit))

    def mixed(low: float, high: float) -> float:
        def density(q: float) -> float:
            ratio = stats.binom.pmf(hits, rows, q) / stats.binom.pmf(hits, rows, limit)
            return float(ratio * prior.pdf(q))

        return float(integrate.quad(density, low, high, limit=200)[0])

    test = coin(limit, hits, rows)
    above, below = mixed(limit, 1) / prior.sf(limit), mixed(0, limit) / prior.cdf(limit)
    assert float(test.log_evidence) == pytest.approx(math.log(mixed(0, limit) + mixed(limit, 1)))
    assert bool(test.favours_more) == (above > below)


@pytest.mark.parametrize("limit", [0.5, 0.85, 0.02])
def test_a_coin_at_the_limit_is_a_fair_game(limit: float) -> None:
    hits = np.arange(13)
    test = CoinMixture(limit)
    test.add(hits, 12)
    expected = stats.binom.pmf(hits, 12, limit) @ np.exp(test.log_evidence)
    assert expected == pytest.approx(1)


def test_bets_on_a_mean_of_0_are_a_fair_game() -> None:
    chances = {1.0: 0.2, 0.5: 0.2, -0.6: 0.5, 0.0: 0.1}
    assert sum(value * chance for value, chance in chances.items()) == pytest.approx(0)
    expected = sum(
        math.prod(chances[x] for x in path) * math.exp(float(bets(*path).log_evidence))
        for path in itertools.product(chances, repeat=4)
    )
    assert expected == pytest.approx(1)


def test_the_side_is_that_of_the_larger_evidence() -> None:
    assert bool(coin(0.5, 9, 10).favours_more)
    assert not bool(coin(0.5, 1, 10).favours_more)
    assert bool(coin(0.85, 40, 40).favours_more)
    assert not bool(coin(0.85, 30, 40).favours_more)
    assert bool(bets(0.2, 0.2).favours_more)
    assert not bool(bets(0.2, -0.5).favours_more)


@pytest.mark.parametrize("kind", KINDS)
def test_looking_at_every_record_hardly_ever_decides_without_a_difference(kind: str) -> None:
    assert 0 < null_decisions(kind, n_runs=500, n_looks=300) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_4000_null_runs_with_2000_looks_decide_in_at_most_5_percent(kind: str) -> None:
    share = null_decisions(kind, n_runs=4000, n_looks=2000)
    print(kind, share)
    assert 0.005 < share <= 0.05


def test_a_wrong_side_is_decided_for_in_at_most_5_percent_wherever_the_truth_is() -> None:
    for truth in (0.82, 0.88):
        done, wrong = limit_decisions(truth, n_runs=800, n_looks=600)
        assert done > 0.1
        assert wrong <= 0.05


def exact_power(n: int, better: float, worse: float) -> float:
    """Return the power of the two-sided exact McNemar test on n pairs."""
    differing = np.arange(n + 1)
    enough = stats.binom.isf(0.025, differing, 0.5)
    chance = stats.binom.pmf(differing, n, better + worse)
    return float(chance @ stats.binom.sf(enough, differing, better / (better + worse)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("better", "worse", "mean_calls", "power", "fixed"),
    [
        (0.20, 0.05, 107, 1.0, 194),
        (0.15, 0.05, 185, 1.0, 359),
        (0.10, 0.05, 488, 0.917, 692),
        (0.10, 0.07, 838, 0.349, 531),
    ],
)
def test_the_table_of_savings_in_the_docs(
    better: float, worse: float, mean_calls: int, power: float, fixed: int
) -> None:
    n_calls, found = better_than(better, worse)
    assert n_calls == pytest.approx(mean_calls, abs=0.6)
    assert found == pytest.approx(power, abs=0.001)
    target = min(found, 0.99)
    n = next(n for n in range(10, 2000) if exact_power(n, better, worse) >= target)
    assert n == fixed


def test_the_interval_of_single_rows_is_the_ordinary_one() -> None:
    hits = np.random.default_rng(0).random(60) < 0.8
    running = RunningShare(clustered=False)
    for hit in hits:
        running.add(hit, 1)
        running.add(0, 0)  # a patient without a row that counts
    ordinary = share_interval(hits, np.ones(60))
    assert running.limits()[:, 0] == pytest.approx([ordinary.low, ordinary.high])
    assert running.n_patients == 60


def test_the_patient_variance_is_shrunk_by_the_weight_of_20_patients() -> None:
    patients = np.random.default_rng(1).binomial(4, 0.8, 40)
    running = RunningShare(clustered=True)
    for hits in patients:
        running.add(hits, 4)
    p = patients.mean() / 4
    # Written out with patient means, where the class keeps five sums.
    variance = (((patients / 4 - p) ** 2).sum() + 20 * p * (1 - p)) / (39 + 20)
    z = stats.t.ppf(0.975, 39) / stats.norm.ppf(0.975)
    size = 40 * p * (1 - p) / variance / z**2
    low, high = running.limits()[:, 0]
    assert (low, high) == pytest.approx(_mid_p(p * size, size), abs=1e-6)
    alike = RunningShare(clustered=True)
    for _ in range(30):
        alike.add(4, 4)
    once = share_interval(np.ones(30), np.ones(30))
    assert once.low > alike.limits()[0, 0] > once.low - 0.02
    assert alike.limits()[1, 0] == 1


def _mid_p(hits: float, rows: float) -> tuple[float, float]:
    def distribution(q: float) -> float:
        at_least = stats.beta.cdf(q, hits, rows - hits + 1)
        choices = -math.log(rows + 1) - betaln(rows - hits + 1, hits + 1)
        exactly = math.exp(choices + xlogy(hits, q) + xlog1py(rows - hits, -q))
        return float(at_least - exactly / 2)

    return tuple(
        brentq(lambda q, at=at: distribution(q) - at, 1e-9, 1 - 1e-9) for at in (0.025, 0.975)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("p", "half", "m"), WIDTHS)
def test_the_interval_at_a_stop_by_width_covers(p: float, half: float, m: int) -> None:
    n_patients, covered = width_stops(p, half, m, n_runs=1000)
    print(p, half, m, n_patients, covered)
    assert 0.93 <= covered <= 0.985
