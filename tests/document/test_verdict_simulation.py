"""The rules of the verdict by simulation: at the comparator, "yes" and "no" are rare.

400 runs of each world (200 of 1,000 cases). With the true error of 5 % the number of wrong answers
has a standard deviation of 4.4 (3.1), so 32 (18) of them would be a surprise.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from krisis.decisions.threshold_in_force import RiskBound, ThresholdInForce
from krisis.metrics.base import EvaluationResult, Rows
from krisis.pages.verdict import (
    _guideline,
    _knew_when,
    _right,
    _trusted,
    groups_line,
)
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import items_of_result, source_of
from krisis.task_facts import TaskFacts

FACTS = {"task_facts": TaskFacts("t", ((0, "no"), (1, "yes")), groups={"g": "g"})}


@dataclass(frozen=True)
class Reader:
    """How often it defers what is due, answers what is safe, and answers right."""

    due: float
    safe: float
    right: float


GUIDELINE = Reader(0.7, 0.7, 0.8)
COIN = Reader(0.5, 0.5, 0.5)


@dataclass(frozen=True)
class World:
    n_patients: int
    n_rows: int
    model: Reader
    against: Reader | None = GUIDELINE
    too_confident: float = 0.05

    def answers(self, seed: int) -> dict[str, object]:
        """Draw a run and answer the questions about it."""
        draw = np.random.default_rng(seed)
        rows, guide = [], []
        for patient in range(self.n_patients):
            shared = 0.5 * draw.normal() if self.n_rows > 1 else 0.0
            for k in range(self.n_rows):
                due, truth = draw.random() < 0.4, int(draw.random() < 0.5)
                metadata = {"should_abstain": bool(due), "g": "ab"[int(draw.random() < 0.4)]}
                named = {"record_id": f"{patient}-{k}", "cluster_id": str(patient)}
                for reader, kept in ((self.model, rows), (self.against, guide)):
                    if reader is None:
                        continue
                    deferred = bool(draw.random() < (reader.due if due else 1 - reader.safe))
                    odds = np.log(reader.right / (1 - reader.right)) + shared
                    said = truth if draw.random() < 1 / (1 + np.exp(-odds)) else 1 - truth
                    confidence = (
                        None if deferred else min(1.0, self.model.right + self.too_confident)
                    )
                    kept.append(
                        EvaluationResult(
                            None if deferred else said,
                            truth,
                            deferred,
                            confidence=confidence,
                            metadata=metadata,
                            **named,
                        )
                    )
        result = BenchmarkResult(rows, {}, {}, extras=FACTS)
        run = items_of_result(result, source_of(result))
        result.baseline_rows = {"guideline": Rows(guide, result.rows.answers)} if guide else {}
        theirs = _guideline(run.table, result, "")
        return {
            "deferral": _knew_when(run.table, theirs).answer,
            "correctness": _right(run.table, theirs).answer,
            "confidence": _trusted(run.table).answer,
            "groups": bool(
                groups_line(
                    run.table, ThresholdInForce(bound=RiskBound(), answered=run.predicted)
                ).figures
            ),
        }

    def frequencies(self, n: int) -> dict[str, Counter[object]]:
        found: dict[str, Counter[object]] = {}
        for seed in range(n):
            for key, answer in self.answers(seed).items():
                found.setdefault(key, Counter())[answer] += 1
        return found


WRONG = {"deferral": ("yes", "no"), "correctness": ("yes", "no"), "confidence": ("yes", "no")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_patients", "n_rows", "n_runs"), [(60, 1, 400), (200, 1, 400), (50, 8, 400), (1000, 1, 200)]
)
@pytest.mark.parametrize("at", ["guideline", "constant"])
def test_at_the_comparator_yes_and_no_are_rare(
    at: str, n_patients: int, n_rows: int, n_runs: int
) -> None:
    world = (
        World(n_patients, n_rows, GUIDELINE)
        if at == "guideline"
        else World(n_patients, n_rows, COIN, against=None)
    )
    found = world.frequencies(n_runs)
    most = {400: 32, 200: 18}[n_runs]
    # With shared effects a mean confidence of 85 % is no longer exactly five points too high.
    for key in ("deferral", "correctness", *(("confidence",) if n_rows == 1 else ())):
        counts = found[key]
        assert counts["yes"] + counts["no"] <= most, (at, n_patients, key, counts)
    assert found["groups"][True] <= most, (at, n_patients, found["groups"])


@pytest.mark.slow
def test_a_clearly_better_and_a_clearly_worse_model_are_found() -> None:
    better = World(600, 1, Reader(0.95, 0.95, 0.97), too_confident=0.0).frequencies(40)
    assert better["deferral"]["yes"] >= 38
    assert better["correctness"]["yes"] >= 38
    assert better["confidence"]["yes"] >= 38
    worse = World(200, 1, Reader(0.3, 0.3, 0.3), too_confident=0.3).frequencies(60)
    assert worse["deferral"]["no"] >= 55
    assert worse["correctness"]["no"] >= 55
    assert worse["confidence"]["no"] >= 55
