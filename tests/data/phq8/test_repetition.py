"""Nobody repeats themselves or one another, the cohorts share nobody, and readers are printed."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from krisis.backends.catalogue import backend_from_name
from krisis.benchmark import Benchmark
from krisis.data.base import SuiteConfig
from krisis.data.phq8.interviews import Cohort, Split, draw_cohort, write_interview
from krisis.data.phq8.suite import PHQ8Suite


def repeated(context: str) -> float:
    """Return the share of a participant's 4-grams that they have said before."""
    turns = [line for line in context.lower().splitlines() if line.startswith("participant: ")]
    words = [re.findall(r"[\w']+", turn.partition(": ")[2]) for turn in turns]
    grams = Counter(tuple(turn[i : i + 4]) for turn in words for i in range(len(turn) - 3))
    return sum(count - 1 for count in grams.values()) / max(1, grams.total())


def five_grams(text: str) -> set[tuple[str, ...]]:
    """Return the runs of five words within a turn, of either speaker."""
    words = [re.findall(r"[\w']+", turn.partition(": ")[2]) for turn in text.lower().splitlines()]
    return {tuple(turn[i : i + 5]) for turn in words for i in range(len(turn) - 4)}


@pytest.mark.parametrize("cohort", list(Cohort))
@pytest.mark.parametrize("split", [Split.TEST, Split.TRAIN])
def test_a_third_of_what_is_said_is_said_in_another_interview_of_forty_eight(
    cohort: Cohort, split: Split
) -> None:
    said = [
        five_grams(write_interview(one, seed=42, withheld_rate=0.3, split=split).transcript.text())
        for one in draw_cohort(48, seed=42, cohort=cohort)
    ]
    n_people = Counter(gram for grams in said for gram in grams)
    shares = [sum(n_people[gram] > 1 for gram in grams) / len(grams) for grams in said]
    assert sum(shares) / len(shares) < 0.35


@pytest.mark.parametrize("cohort", list(Cohort))
@pytest.mark.parametrize("split", ["test", "train"])
def test_no_interview_repeats_its_own_words(cohort: Cohort, split: str) -> None:
    suite = PHQ8Suite(SuiteConfig(n_synthetic=150), cohort=cohort, split=split)
    contexts = {record.context for record in suite.load()}
    assert max(map(repeated, contexts)) <= 0.05


def test_community_and_clinic_of_one_seed_share_nobody() -> None:
    community, clinic = (draw_cohort(60, seed=3, cohort=cohort) for cohort in Cohort)
    assert not {p.participant_id for p in community} & {p.participant_id for p in clinic}
    gaps = {round(b.severity - a.severity, 6) for a, b in zip(community, clinic, strict=True)}
    assert len(gaps) == 60  # else they were the same people, only worse
    suites = [PHQ8Suite(SuiteConfig(n_synthetic=30), cohort=cohort) for cohort in Cohort]
    said = [{record.context for record in suite.load()} for suite in suites]
    assert not said[0] & said[1]


def test_the_reader_without_error_makes_only_right_decisions() -> None:
    suite = PHQ8Suite(SuiteConfig(n_synthetic=40), cohort="clinic")
    assert "ideal" in suite.baselines
    result = Benchmark(suite, backend_from_name("ideal")).run()
    assert result.metric_scores["right_decisions"].value == 1.0
    for row in result.evaluation_results:
        assert row.abstained is row.metadata["should_abstain"]
        assert row.abstained or row.prediction == row.ground_truth
