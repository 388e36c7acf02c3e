"""Stability from repeats, from other runs and over places in a call, by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from krisis.errors import InvalidValue
from krisis.metrics.base import EvaluationResult
from krisis.pages.document import Sentences
from krisis.results.account import Provenance, RunFacts
from krisis.results.base import BenchmarkResult
from krisis.verbs.audit.page import stability_section
from krisis.verbs.audit.stability import stability_of, stability_of_saved


def row(
    record: str, answer: int | None, confidence: float = 0.9, **more: object
) -> EvaluationResult:
    """Return an answer to a record whose right answer is 1; None is an abstention."""
    settled = {"confidence": None if answer is None else confidence, "abstained": answer is None}
    return EvaluationResult(answer, 1, record_id=record, **{**settled, **more})


def result(
    rows: list[EvaluationResult], *, model: str = "m", batch_size: int = 1
) -> BenchmarkResult:
    facts = RunFacts(provenance=Provenance(batch_size=batch_size))
    return BenchmarkResult(rows, {}, {"suite": "toy"}, model, facts=facts)


def test_repeats_by_hand() -> None:
    rows = [
        *(row("a", 1, 0.9), row("a", 1, 0.7), row("a", 0, 0.8)),  # 2 of 3 pairs of answers differ
        *(row("b", 1, 0.5), row("b", None), row("b", 1, 0.5)),  # 1 pair of answers; 2 of 3 abstain
        *(row("c", 1), row("c", 1, error="gone", abstained=False)),  # left out
        row("d", 1),  # asked once
    ]
    found = stability_of(result(rows)).repeats
    assert found is not None
    assert (found.n_cases, found.n_failed, found.n_not_asked) == (2, 1, 1)
    assert (found.answer_flips.value, found.answer_flips.n) == (2 / 4, 4)
    assert (found.abstention_flips.value, found.abstention_flips.n) == (2 / 6, 6)
    assert found.confidence_sd.value == pytest.approx((0.1 + 0.0) / 2)
    # Means .8 and .5 of 3 and 2 values, grand mean .68; MSW = .02/3, n₀ = 5 − 13/5 = 2.4.
    between = 3 * 0.12**2 + 2 * 0.18**2
    within = 0.02 / 3
    share = (between - within) / (between + 1.4 * within)
    assert found.confidence_between.value == pytest.approx(share)
    # Right: 1 1 0 and 1 1; means 2/3 and 1, grand mean .8: MSB = .1333, MSW = .2222: below 0.
    assert found.correct_between.value == 0
    assert found.accuracy is None


def test_an_asking_of_a_record_says_nothing_alone() -> None:
    found = stability_of(result([row("a", 1), row("b", 0)]))
    assert found.repeats is None
    assert found.places is None
    assert not found.against
    (sentences,) = stability_section(found).parts
    assert isinstance(sentences, Sentences)
    assert "--repeats" in sentences.lines[0]


def test_single_against_batch_is_mcnemars_exact_test() -> None:
    generator = np.random.default_rng(2)
    one = [row(f"r{i}", int(generator.random() < 0.8)) for i in range(60)]
    other = [replace(r, prediction=int(generator.random() < 0.6)) for r in one]
    right = np.array([[r.prediction == 1 for r in rows] for rows in (one, other)])
    lost, won = int((right[0] & ~right[1]).sum()), int((~right[0] & right[1]).sum())
    (found,) = stability_of(result(one), {"B": result(other, batch_size=8)}).against
    assert found.accuracy is not None
    assert found.accuracy.p == pytest.approx(stats.binomtest(lost, lost + won).pvalue)
    assert found.answer_flips.value == pytest.approx((lost + won) / 60)
    assert "1 here, 8 there" in found.name
    assert found.abstention is not None
    assert found.abstention.p == 1.0


def test_only_runs_of_the_same_model_on_the_same_data_are_held_against_a_run() -> None:
    run = result([row("a", 1), row("b", 0)])
    with pytest.raises(InvalidValue, match="B is a run of other, not of m"):
        stability_of(run, {"B": result([row("a", 0)], model="other")})
    with pytest.raises(InvalidValue, match="record_id"):
        stability_of(run, {"B": result([row("z", 0)])})


def test_accuracy_that_falls_with_the_place_in_the_call_is_found() -> None:
    generator = np.random.default_rng(4)
    rows = [
        row(
            f"r{i}",
            int(generator.random() < 0.95 - 0.2 * (i % 4)),
            signals={"batch_position": i % 4},
        )
        for i in range(200)
    ]
    places = stability_of(result(rows, batch_size=4)).places
    assert places is not None
    assert places.accuracy_p < 0.01
    assert places.accuracy_slope < -0.1
    assert math.isnan(places.abstention_p) or places.abstention_p == 1.0
    assert [one["n"] for one in places.shares] == [50] * 4
    again = [replace(r, cluster_id=f"p{i // 2}") for i, r in enumerate(rows)]
    refused = stability_of(result(again)).places
    assert refused is not None
    assert refused.reason
    assert math.isnan(refused.accuracy_p)


def test_a_file_without_every_asking_has_no_stability(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"experiments": []}', encoding="utf-8")
    assert stability_of_saved(path) is None
    saved = result([row("a", 1), row("a", 0)]).save(tmp_path / "full.json")
    found = stability_of_saved(saved)
    assert found is not None
    assert found.repeats is not None
    assert found.repeats.answer_flips.value == 1
    assert found.to_json()["repeats"]["answer_flips"]["n"] == 1
