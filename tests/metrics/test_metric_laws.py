"""Laws that every registered metric obeys, whatever it measures."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from krisis import registry
from krisis.json_values import dumps
from krisis.metrics import BaseMetric, EvaluationResult, MetricScore
from krisis.results.rows import score_from_dict

METRICS: list[BaseMetric] = [registry.find("metrics", name)() for name in registry.names("metrics")]


def every_metric(law: Callable[..., None]) -> Callable[..., None]:
    """Try a law on every metric with the same drawn rows, because drawing them takes longest."""

    def tried(**drawn: Any) -> None:
        for metric in METRICS:
            try:
                law(metric=metric, **drawn)
            except AssertionError as error:
                raise AssertionError(f"{metric.key}: {error}") from error

    tried.__name__ = law.__name__
    return tried


labels = st.sampled_from([0, 1, "0", "1", " 1", 2, "stable", "Stable", "worsening"])
metadata = st.fixed_dictionaries(
    {},
    optional={
        "should_abstain": st.booleans(),
        "ckd_stage": st.sampled_from([1, 2, 3.0, "3a", None]),
    },
)
rows = st.builds(
    EvaluationResult,
    prediction=st.none() | labels,
    ground_truth=labels,
    abstained=st.booleans(),
    confidence=st.none() | st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]),
    metadata=metadata,
    error=st.none() | st.none() | st.just("timeout: no answer"),
)
some_rows = st.lists(rows, min_size=1, max_size=30)


def same(left: float, right: float) -> bool:
    return (math.isnan(left) and math.isnan(right)) or math.isclose(
        left, right, rel_tol=1e-9, abs_tol=1e-12
    )


def same_score(left: MetricScore, right: MetricScore) -> bool:
    return (
        same(left.value, right.value)
        and left.breakdown.keys() == right.breakdown.keys()
        and all(same(value, right.breakdown[key]) for key, value in left.breakdown.items())
        and (left.n_evaluated, left.n_abstained) == (right.n_evaluated, right.n_abstained)
    )


@given(results=some_rows, seed=st.integers(0, 99))
@every_metric
def test_the_order_of_the_rows_does_not_matter(
    metric: BaseMetric, results: list[EvaluationResult], seed: int
) -> None:
    shuffled = random.Random(seed).sample(results, len(results))
    assert same_score(metric(results), metric(shuffled))


@given(results=some_rows)
@every_metric
def test_saying_everything_twice_changes_counts_only(
    metric: BaseMetric, results: list[EvaluationResult]
) -> None:
    once, twice = metric(results), metric([*results, *results])
    assert same(once.value, twice.value)
    assert twice.n_evaluated == 2 * once.n_evaluated
    assert twice.n_abstained == 2 * once.n_abstained


@given(results=some_rows)
@every_metric
def test_a_score_survives_strict_json(metric: BaseMetric, results: list[EvaluationResult]) -> None:
    score = metric(results)
    text = dumps(asdict(score))
    assert "NaN" not in text
    assert dumps(asdict(score_from_dict(json.loads(text), "score"))) == text
    assert same_score(score, score_from_dict(json.loads(text), "score"))


@given(results=some_rows)
@every_metric
def test_the_rows_are_left_as_they_were(
    metric: BaseMetric, results: list[EvaluationResult]
) -> None:
    before = copy.deepcopy(results)
    metric(results)
    assert results == before


@given(results=some_rows)
@every_metric
def test_failed_rows_change_nothing(metric: BaseMetric, results: list[EvaluationResult]) -> None:
    if metric.key == "not_evaluated_rate":
        return  # the one that counts them
    kept = [row for row in results if row.outcome != "not_evaluated"]
    assert same_score(metric.compute(results), metric.compute(kept))


@given(results=some_rows)
@every_metric
def test_an_undefined_score_says_why_and_a_defined_one_counts_its_rows(
    metric: BaseMetric, results: list[EvaluationResult]
) -> None:
    score = metric(results)
    if math.isnan(score.value):
        assert score.details["reason"]
    else:
        assert 0 < score.n_evaluated <= len(results)
    assert score.n_abstained == sum(row.outcome == "abstained" for row in results)
    assert score.name == metric.name


@given(results=some_rows)
@every_metric
def test_numbers_and_their_texts_are_the_same_labels(
    metric: BaseMetric, results: list[EvaluationResult]
) -> None:
    spelled = copy.deepcopy(results)
    for row in spelled:
        row.ground_truth = f" {row.ground_truth} "
        row.prediction = None if row.prediction is None else str(row.prediction).upper()
    assert same_score(metric(results), metric(spelled))


@every_metric
def test_all_abstained_and_single_class_runs_are_scored_or_undefined(metric: BaseMetric) -> None:
    for results in (
        [EvaluationResult(None, 1, True)] * 3,
        [EvaluationResult(1, 1, confidence=0.9)] * 3,
        [EvaluationResult(None, 1, error="auth: refused")] * 3,
    ):
        score = metric(results)
        assert not math.isnan(score.value) or score.details["reason"]


@every_metric
def test_every_metric_states_what_it_is(metric: BaseMetric) -> None:
    text = type(metric).__doc__ or ""
    assert metric.direction in ("higher", "lower", "neither")
    for part in ("Formula:", "Direction:", "Reference:", ">>>"):
        assert part in text, f"the docstring of {metric.name} lacks {part}"
