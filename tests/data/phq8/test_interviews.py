from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from krisis.data.phq8.interviews import (
    WITHHELD_REASONS,
    Interview,
    Split,
    draw_cohort,
    write_interview,
)
from krisis.data.phq8.items import ITEM_KEYS

COHORT = draw_cohort(400, seed=11)


@pytest.fixture(scope="module")
def interviews() -> list[Interview]:
    return [
        write_interview(person, seed=11, withheld_rate=0.3, split=split)
        for person, split in zip(COHORT, [Split.TRAIN, Split.TEST] * 200, strict=True)
    ]


def test_the_same_seed_writes_the_same_bytes(interviews: list[Interview]) -> None:
    again = write_interview(COHORT[3], seed=11, withheld_rate=0.3, split=Split.TEST)
    assert again.transcript.text() == interviews[3].transcript.text()
    for seed, split in ((12, Split.TEST), (11, Split.TRAIN)):
        other = write_interview(COHORT[3], seed=seed, withheld_rate=0.3, split=split)
        assert other.transcript.text() != interviews[3].transcript.text()


def test_every_reason_occurs_at_about_its_share(interviews: list[Interview]) -> None:
    reasons = Counter(reason for one in interviews for reason in one.withheld.values())
    n_withheld = sum(reasons.values())
    assert n_withheld / (400 * 8) == pytest.approx(0.3, abs=0.04)
    assert set(reasons) == set(WITHHELD_REASONS)
    assert min(reasons.values()) > 0.7 * n_withheld / len(WITHHELD_REASONS)


def test_what_is_said_of_a_withheld_item_could_be_true(interviews: list[Interview]) -> None:
    """Nobody with several days claims none and often, and every score is possible as it is told."""
    contradicted = set()
    for person, interview in zip(COHORT, interviews, strict=True):
        for key, score in zip(ITEM_KEYS, person.scores, strict=True):
            said = interview.evidence[key]
            assert said[score] > 0, (key, interview.withheld.get(key))
            if key not in interview.withheld:
                assert said == tuple(float(other == score) for other in range(4))
            elif interview.withheld[key] == "statements_contradict":
                assert sum(chance > 0 for chance in said) == 2
                contradicted.add(score)
    assert contradicted == {0, 2, 3}


def test_withholding_tells_nothing_about_the_score(interviews: list[Interview]) -> None:
    positive = np.array([[score > 0 for score in person.scores] for person in COHORT])
    withheld = np.array([[key in one.withheld for key in ITEM_KEYS] for one in interviews])
    difference = positive[withheld].mean() - positive[~withheld].mean()
    assert abs(difference) < 4 * np.sqrt(0.24 * (1 / withheld.sum() + 1 / (~withheld).sum()))


def test_every_item_but_those_not_raised_has_its_exchanges(interviews: list[Interview]) -> None:
    for interview in interviews:
        silent = {key for key, reason in interview.withheld.items() if reason == "topic_not_raised"}
        assert set(interview.exchanges) == set(ITEM_KEYS) - silent
        twice = {key for key, numbers in interview.exchanges.items() if len(numbers) > 1}
        assert set(interview.first_claims) <= twice
        numbers = [number for about in interview.exchanges.values() for number in about]
        assert len(set(numbers)) == len(numbers)


def test_nothing_is_withheld_at_rate_zero_and_all_at_rate_one() -> None:
    assert write_interview(COHORT[0], seed=1, withheld_rate=0.0).withheld == {}
    assert set(write_interview(COHORT[0], seed=1, withheld_rate=1.0).withheld) == set(ITEM_KEYS)


def n_words(interview: Interview) -> int:
    turns = interview.transcript.turns
    return sum(len(turn.text.split()) for turn in turns if turn.speaker == "participant")


def test_interviews_vary_in_length_and_read_as_sentences(interviews: list[Interview]) -> None:
    words = [n_words(interview) for interview in interviews]
    assert np.median(words) > 250
    assert 500 < max(words) <= 1500
    for text in (one.transcript.text() for one in interviews):
        for wrong in (
            "{",
            "[",
            "|",
            "  ",
            ",,",
            ",.",
            "..",
            " ,",
            "my your",
            "one days",
            " a evening",
            " a afternoon",
            "by about",
        ):
            assert wrong not in text, (wrong, text)
