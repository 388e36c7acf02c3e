"""How often `--stop-when` decides wrongly when it looks after every patient, and how soon it stops.

Many runs side by side. Under the null nothing is to be decided: every decision is wrong. Elsewhere
a decision for the other side is. A rule by width stops at an interval, which must hold the truth.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numpy.typing import NDArray

from krisis.statistics.sequential import (
    FEWEST_PATIENTS,
    LOG_DECISIVE,
    BetMixture,
    CoinMixture,
    RunningShare,
)

KINDS = ("pairs", "limit", "clustered pairs", "clustered limit")
LIMIT, BETTER, WORSE = 0.85, 0.1, 0.1
ICC = 0.4
WIDTHS = ((0.9, 0.03, 1), (0.7, 0.05, 1), (0.9, 0.03, 4), (0.7, 0.05, 8))
PAIRS = ((0.20, 0.05), (0.15, 0.05), (0.10, 0.05), (0.10, 0.07))
FloatArray = NDArray[np.float64]


def _rows(generator: np.random.Generator, n_rows: int, n_runs: int) -> FloatArray:
    """Return uniforms of the rows of one patient in every run, correlated by the ICC."""
    common = generator.random((n_rows, n_runs)) < math.sqrt(ICC)
    return np.where(common, generator.random(n_runs), generator.random((n_rows, n_runs)))


def null_decisions(kind: str, *, n_runs: int, n_looks: int, seed: int = 0) -> float:
    """Return the share of runs that decide although there is nothing to decide."""
    generator = np.random.default_rng(seed)
    pairs, clustered = "pairs" in kind, "clustered" in kind
    coin, bets = CoinMixture(0.5 if pairs else LIMIT), BetMixture()
    decided = np.zeros(n_runs, dtype=bool)
    for _ in range(n_looks):
        rows = _rows(generator, 4 if clustered else 1, n_runs)
        won, lost = rows < BETTER, (rows >= BETTER) & (rows < BETTER + WORSE)
        if pairs and clustered:
            bets.add((won.astype(float) - lost).mean(axis=0))
        elif pairs:
            coin.add(won[0], (won | lost)[0])
        elif clustered:
            bets.add(((rows < LIMIT).mean(axis=0) - LIMIT) / LIMIT)
        else:
            coin.add(rows[0] < LIMIT, 1)
        decided |= (bets if clustered else coin).log_evidence >= LOG_DECISIVE
    return float(decided.mean())


def limit_decisions(truth: float, *, n_runs: int, n_looks: int) -> tuple[float, float]:
    """Return the share of runs that decide on which side of the limit a share is, and wrongly."""
    generator, test = np.random.default_rng(1), CoinMixture(LIMIT)
    wrong, done = np.zeros(n_runs, bool), np.zeros(n_runs, bool)
    for _ in range(n_looks):
        test.add(generator.random(n_runs) < truth, 1)
        now = ~done & (test.log_evidence >= LOG_DECISIVE)
        wrong |= now & (test.favours_more != (truth > LIMIT))
        done |= now
    return float(done.mean()), float(wrong.mean())


def better_than(
    better: float, worse: float, *, n_runs: int = 4000, n_records: int = 1000
) -> tuple[float, float]:
    """Return the mean number of calls and the power of `better than`."""
    generator, test = np.random.default_rng(0), CoinMixture(0.5)
    n_calls, is_better = np.full(n_runs, n_records), np.zeros(n_runs, bool)
    for at in range(n_records):
        drawn = generator.random(n_runs)
        test.add(drawn < better, drawn < better + worse)
        now = (n_calls == n_records) & (test.log_evidence >= LOG_DECISIVE)
        n_calls[now] = at + 1
        is_better |= now & test.favours_more
    return float(n_calls.mean()), float(is_better.mean())


def width_stops(p: float, half: float, n_rows: int, *, n_runs: int) -> tuple[float, float]:
    """Return the mean number of patients at the stop and how often the interval there covers."""
    generator, running = np.random.default_rng(2), RunningShare(clustered=n_rows > 1)
    n_patients, covered = np.zeros(n_runs), np.zeros(n_runs, bool)
    for at in range(1, 3000):
        running.add((_rows(generator, n_rows, n_runs) < p).sum(axis=0), n_rows)
        if at < FEWEST_PATIENTS:
            continue
        low, high = running.limits()
        now = (n_patients == 0) & ((high - low) / 2 <= half)
        n_patients[now] = at
        covered |= now & (low <= p) & (p <= high)
        if n_patients.all():
            break
    return float(n_patients.mean()), float(covered.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--looks", type=int, default=2000)
    asked = parser.parse_args()
    for kind in KINDS:
        share = null_decisions(kind, n_runs=asked.runs, n_looks=asked.looks)
        print(f"nothing to decide, {kind}: {100 * share:.2f} % decide", flush=True)
    for truth in (0.82, 0.88):
        done, wrong = limit_decisions(truth, n_runs=asked.runs, n_looks=asked.looks)
        print(f">= {LIMIT} at {truth}: {100 * done:.1f} % decide, {100 * wrong:.2f} % wrongly")
    for better, worse in PAIRS:
        n_calls, power = better_than(better, worse, n_runs=asked.runs)
        print(f"better than, {better} : {worse}: {n_calls:.0f} of 1,000 calls, power {power:.3f}")
    for p, half, n_rows in WIDTHS:
        n_patients, covered = width_stops(p, half, n_rows, n_runs=min(asked.runs, 1000))
        print(
            f"half_width {half} at {p}, {n_rows} rows: stops at {n_patients:.0f} patients, "
            f"{100 * covered:.1f} % cover",
            flush=True,
        )


if __name__ == "__main__":
    main()
