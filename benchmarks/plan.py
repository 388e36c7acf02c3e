"""Does `krisis plan` keep its word? Studies of the planned size, drawn and judged by other code.

A scenario keeps its word if the simulated power is within 3 points of the one that the plan states.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krisis.decisions.sample import Sample, find_threshold
from krisis.metrics import Accuracy
from krisis.metrics.table import MOST_UNITS
from krisis.statistics.intervals import Interval
from krisis.statistics.paired import (
    paired_inference,
    studentised,
    swap_masks,
    unseen_disagreement,
)
from krisis.statistics.shares import share_interval
from krisis.verbs.plan.study import (
    Patients,
    Plan,
    Study,
    plan_certificate,
    plan_estimate,
    plan_paired,
)

PROMISE = 0.03
FloatArray = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True)
class Scenario:
    """What is planned: the question, its figures, rows per patient, their ICC, and the power."""

    question: str
    figures: dict[str, float]
    size: int = 1
    icc: float = 0.0
    power: float = 0.8

    def plan(self, *, n_simulations: int | None = None) -> Plan:
        """Return the plan of `krisis plan`."""
        study = Study(
            power=self.power, patients=Patients(self.size, self.icc), n_simulations=n_simulations
        )
        if self.question == "certify":
            return plan_certificate(study, delta=0.1, **self.figures)
        planned = plan_estimate if self.question == "estimate" else plan_paired
        return planned(Accuracy(), study, **self.figures)  # type: ignore[operator]

    def simulated(self, n_patients: int, n_runs: int, *, n_exchanges: int = 1999) -> float:
        """Return how often studies of so many patients succeed."""
        rng = np.random.default_rng([n_patients, n_runs])
        found = [self._succeeds(n_patients, rng, seed, n_exchanges) for seed in range(n_runs)]
        return float(np.mean(found))

    def _succeeds(self, n: int, rng: Generator, seed: int, n_exchanges: int) -> bool:
        figures = self.figures
        if self.question == "estimate":
            hits = self._drawn(n, rng, figures["expected"]).sum(axis=1)
            interval = share_interval(hits, np.full(n, self.size))
            return (interval.high - interval.low) / 2 <= figures["half_width"]
        if self.question == "certify":
            loss = self._drawn(n, rng, figures["expected_risk"]).ravel().astype(float)
            patient = np.repeat(np.arange(n), self.size)
            sample = Sample(rng.random(loss.size), loss, patient, n, most_rows=self.size, seed=seed)
            return (
                find_threshold(sample, "fixed-sequence", figures["risk"], 0.1).threshold is not None
            )
        difference, margin = figures.get("difference", 0.0), figures.get("margin", 0.0)
        net = drawn_net(n, rng, difference, figures["discordance"], self.size, self.icc)
        p_value, interval = judged(net, seed=seed, n_exchanges=n_exchanges)
        if margin:
            return interval.low > -margin
        return p_value <= 0.05 and net.sum() > 0

    def _drawn(self, n: int, rng: Generator, share: float) -> NDArray[np.bool_]:
        """Return patients × rows: true with the share, beta-binomial."""
        own = np.full(n, share)
        if self.icc:
            a = (1 - self.icc) / self.icc
            own = rng.beta(a * share, a * (1 - share), n)
        return rng.random((n, self.size)) < own[:, None]


SCENARIOS = [
    Scenario("compare", {"difference": 0.05, "discordance": 0.15}),
    Scenario("compare", {"difference": 0.1, "discordance": 0.2}, power=0.9),
    Scenario("compare", {"difference": 0.05, "discordance": 0.15}, 8, 0.1),
    Scenario("compare", {"difference": 0.1, "discordance": 0.25}, 4, 0.4),
    Scenario("compare", {"difference": 0.08, "discordance": 0.2}, 2, 0.3, power=0.9),
    Scenario("compare", {"difference": 0.03, "discordance": 0.1}),
    Scenario("compare", {"difference": 0.025, "discordance": 0.1}),
    Scenario("non-inferior", {"margin": 0.05, "discordance": 0.1}),
    Scenario("non-inferior", {"margin": 0.05, "discordance": 0.15}, 4, 0.2),
    Scenario("non-inferior", {"margin": 0.1, "difference": -0.02, "discordance": 0.3}, 8, 0.1),
    Scenario("estimate", {"expected": 0.9, "half_width": 0.03}),
    Scenario("estimate", {"expected": 0.8, "half_width": 0.025}),
    Scenario("estimate", {"expected": 0.75, "half_width": 0.06}, 8, 0.1),
    Scenario("estimate", {"expected": 0.9, "half_width": 0.05}, 4, 0.3),
    Scenario("estimate", {"expected": 0.9, "half_width": 0.03}, 4, 0.3),
    Scenario("estimate", {"expected": 0.75, "half_width": 0.03}, 8, 0.1, power=0.9),
    Scenario("certify", {"risk": 0.05, "expected_risk": 0.02}),
    Scenario("certify", {"risk": 0.15, "expected_risk": 0.08}),
    Scenario("certify", {"risk": 0.15, "expected_risk": 0.08}, 8, 0.1),
    Scenario("certify", {"risk": 0.1, "expected_risk": 0.04}, 2, 0.3),
]


def drawn_net(
    n: int, rng: Generator, difference: float, discordance: float, size: int, icc: float
) -> NDArray[np.int64]:
    """Return patients × rows: 1 where only the second run is right, −1 where only the first is."""
    better, worse = (discordance + difference) / 2, (discordance - difference) / 2
    own = np.tile([better, worse, 1 - discordance], (n, 1))
    if icc:
        own = rng.dirichlet((1 - icc) / icc * own[0] + 1e-12, n)
    luck = rng.random((n, size))
    either = own[:, :2].sum(axis=1)[:, None]
    return np.where(luck < own[:, :1], 1, np.where(luck < either, -1, 0))


def judged(net: NDArray[np.int64], *, seed: int, n_exchanges: int = 1999) -> tuple[float, Interval]:
    """Return p-value and interval as a comparison finds them, without its tables: much faster."""
    n, size = net.shape
    code = np.arange(n)
    if n > MOST_UNITS:
        code = np.random.default_rng(0).permutation(n) % MOST_UNITS
    sums, rows = np.bincount(code, net.sum(axis=1)), np.bincount(code) * float(size)
    moving = np.flatnonzero(np.bincount(code, np.abs(net).sum(axis=1)))
    floor = unseen_disagreement(np.abs(net).sum(axis=1), np.full(n, size))

    def statistic(signs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Difference and standard error; patients without a discordant row have nothing to swap."""
        net_rows, crossed = sums[moving] @ signs, (sums * rows)[moving] @ signs
        delta = net_rows / net.size
        squares = sums @ sums - 2 * delta * crossed + delta**2 * (rows @ rows)
        return delta, np.sqrt(rows.size / (rows.size - 1) * squares) / net.size

    observed, error = statistic(np.ones((moving.size, 1)))
    drawn = [np.empty(0)]
    for masks in swap_masks(moving.size, n_exchanges, seed=seed) if moving.size else ():
        delta, errors = statistic(1.0 - 2 * masks)
        drawn.append(studentised(delta, np.maximum(errors, floor)))
    found = paired_inference(
        observed,
        np.maximum(error, floor),
        np.concatenate(drawn)[None, :],
        degrees_of_freedom=rows.size - 1,
    )
    return float(found.p_value[0]), found.interval(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--only", default="", help="only this question")
    asked = parser.parse_args()
    print("| question | rows per patient, ICC | target | formula | patients | stated | simulated |")
    print("|---|---|---|---|---|---|---|")
    n_kept, start = 0, time.perf_counter()
    chosen = [one for one in SCENARIOS if asked.only in ("", one.question)]
    for one in chosen:
        plan = one.plan()
        seen = one.simulated(plan.n_patients, asked.runs)
        n_kept += abs(seen - plan.power) <= PROMISE
        figures = ", ".join(f"{name} {value:g}" for name, value in one.figures.items())
        rows = f"{one.size}" + (f", {one.icc:g}" if one.icc else "")
        print(
            f"| {one.question}: {figures} | {rows} | {one.power:.2f} | "
            f"{plan.formula_n_patients:,} | {plan.n_patients:,} | {plan.power:.3f} | {seen:.3f} |",
            flush=True,
        )
    print(f"{n_kept} of {len(chosen)} within 3 points; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
