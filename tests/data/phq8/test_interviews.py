from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from krisis.data.phq8.interviews import (
    OFTEN,
    TOPICS,
    WITHHELD_REASONS,
    Interview,
    draw_cohort,
    write_interview,
)
from krisis.data.phq8.items import ITEM_KEYS

COHORT = draw_cohort(400, seed=11)


@pytest.fixture(scope="module")
def interviews() -> list[Interview]:
    return [write_interview(person, seed=11, withheld_rate=0.3) for person in COHORT]


def test_the_same_seed_writes_the_same_bytes(interviews: list[Interview]) -> None:
    again = write_interview(COHORT[3], seed=11, withheld_rate=0.3)
    assert again.transcript.text() == interviews[3].transcript.text()
    other = write_interview(COHORT[3], seed=12, withheld_rate=0.3)
    assert other.transcript.text() != interviews[3].transcript.text()


def test_every_reason_occurs_at_about_its_share(interviews: list[Interview]) -> None:
    reasons = Counter(reason for one in interviews for reason in one.withheld.values())
    n_withheld = sum(reasons.values())
    assert n_withheld / (400 * 8) == pytest.approx(0.3, abs=0.04)
    assert set(reasons) == set(WITHHELD_REASONS)
    assert min(reasons.values()) > 0.7 * n_withheld / len(WITHHELD_REASONS)


def test_withholding_tells_nothing_about_the_score(interviews: list[Interview]) -> None:
    positive = np.array([[score > 0 for score in person.scores] for person in COHORT])
    withheld = np.array([[key in one.withheld for key in ITEM_KEYS] for one in interviews])
    difference = positive[withheld].mean() - positive[~withheld].mean()
    assert abs(difference) < 4 * np.sqrt(0.24 * (1 / withheld.sum() + 1 / (~withheld).sum()))


def test_a_topic_not_raised_leaves_no_sentence_of_it(interviews: list[Interview]) -> None:
    checked = 0
    for interview in interviews:
        for key, reason in interview.withheld.items():
            if reason == "topic_not_raised":
                said = {turn.text for turn in interview.transcript.turns}
                assert not said & {*TOPICS[key].ask, *TOPICS[key].absent, *TOPICS[key].bare}
                checked += 1
    assert checked > 50


def test_a_shown_item_is_stated_and_a_withheld_one_is_not(interviews: list[Interview]) -> None:
    """The last words of the symptom sentence are looked for, since the frequency moves."""
    for person, interview in zip(COHORT, interviews, strict=True):
        text = interview.transcript.text().lower()
        for key, score in zip(ITEM_KEYS, person.scores, strict=True):
            if key in interview.withheld or score == 0:
                continue
            assert any(phrase.strip(",:").lower() in text for phrase in OFTEN[score])


def test_nothing_is_withheld_at_rate_zero_and_all_at_rate_one() -> None:
    assert write_interview(COHORT[0], seed=1, withheld_rate=0.0).withheld == {}
    assert set(write_interview(COHORT[0], seed=1, withheld_rate=1.0).withheld) == set(ITEM_KEYS)


def test_interviews_vary_and_read_as_sentences(interviews: list[Interview]) -> None:
    texts = [one.transcript.text() for one in interviews]
    assert len(set(texts)) == len(texts)
    for text in texts:
        assert "{" not in text
        assert ",," not in text
        assert ",." not in text
