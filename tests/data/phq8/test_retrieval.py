from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from krisis.data.base import SuiteConfig
from krisis.data.phq8.interviews import Cohort, Split, draw_cohort, write_interview
from krisis.data.phq8.items import ITEM_KEYS
from krisis.data.phq8.retrieval import (
    MAX_REFERENCE_WORDS,
    Passage,
    ReferenceLibrary,
    RetrievalOptions,
    ScoredInterview,
    Tfidf,
    about_items,
    passages,
    teaches,
)
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.transcripts import SENTENCE_END, Transcript, Turn, plain_words


def people(first: int, last: int) -> list[ScoredInterview]:
    cohort = draw_cohort(last, seed=3)[first:]
    return [
        ScoredInterview(
            write_interview(person, seed=3, withheld_rate=0.2, split=Split.TRAIN).transcript,
            dict(zip(ITEM_KEYS, person.scores, strict=True)),
        )
        for person in cohort
    ]


def texts(interviews: list[ScoredInterview]) -> list[str]:
    return [passage.text for one in interviews for passage in passages(one.transcript)]


def test_passages_are_exchanges() -> None:
    turns = (
        Turn("participant", "hello"),
        Turn("interviewer", "right."),
        Turn("interviewer", "sleep?"),
        Turn("participant", "badly"),
        Turn("participant", "mostly"),
    )
    assert passages(Transcript("1", turns)) == [
        Passage("", "hello"),
        Passage("right. sleep?", "badly mostly"),
    ]


def test_the_question_tells_the_item_and_otherwise_the_reply_does() -> None:
    cut = [
        Passage("How is your sleep?", "I can't eat."),
        Passage("Go on.", "I can't sleep or eat."),
        Passage("How often?", "Every day."),
    ]
    assert about_items(cut) == {"Sleep": [0, 1], "Appetite": [1]}


@pytest.mark.parametrize(
    ("said", "score", "expected"),
    [
        ("I'd rather not say, thanks.", 0, False),
        ("Can we skip that?", 2, False),
        ("Um, pass. No offence.", 0, False),
        ("That is between me and my doctor.", 1, False),
        ("I told my son I would not talk about it.", 1, False),
        ("I wouldn't say I sleep badly.", 0, True),
        ("That's between two and three in the morning.", 2, True),
        ("I can't get into anything, I can't move on.", 3, True),
        ("No, not really.", 1, False),
        ("No, not really.", 0, True),
        ("No, I mean yes, nearly every day I lay awake.", 3, True),
        ("", 1, False),
    ],
)
def test_no_refusal_and_no_bare_denial_teaches_a_score(
    said: str, score: int, expected: bool
) -> None:
    assert teaches(said, score) is expected


def test_tfidf_equals_scikit_learn() -> None:
    known, unseen = texts(people(0, 30)), texts(people(30, 35))
    ours = Tfidf()
    ours.fit(known)
    theirs = TfidfVectorizer(token_pattern=r"[a-z0-9']{2,}", sublinear_tf=True).fit(known)
    expected = theirs.transform(unseen) @ theirs.transform(known).T
    np.testing.assert_allclose(
        ours.embed(unseen) @ ours.embed(known).T, expected.toarray(), atol=1e-12
    )


def test_a_training_participant_never_gets_a_passage_of_their_own() -> None:
    training = people(0, 60)
    library = ReferenceLibrary(training)
    n_references = 0
    for transcript in (one.transcript for one in training):
        own = {turn.text for turn in transcript.turns if turn.speaker == "participant"}
        for key, retrieved in library.retrieve(transcript).items():
            n_references += len(retrieved.references)
            for one in retrieved.references:
                assert one.item == key
                assert one.participant_id != transcript.participant_id
                assert not any(said in one.passage for said in own if len(said.split()) > 3)
    assert n_references > 400


def test_nothing_of_the_held_out_split_is_ever_retrieved() -> None:
    training, held_out = people(0, 40), people(40, 55)
    library = ReferenceLibrary(training)
    scores = {one.transcript.participant_id: one.scores for one in training}
    for interview in [*held_out, *training]:
        for key, retrieved in library.retrieve(interview.transcript).items():
            for reference in retrieved.references:
                assert reference.score == scores[reference.participant_id][key]


def test_signals_are_the_figures_of_the_shown_references() -> None:
    library = ReferenceLibrary(people(0, 60), RetrievalOptions(n_references=3))
    for retrieved in library.retrieve(people(60, 61)[0].transcript).values():
        signals = retrieved.signals()
        assert signals["retrieval_reference_count"] == len(retrieved.references) <= 3
        assert sorted(retrieved.similarities, reverse=True) == list(retrieved.similarities)
        if retrieved.similarities:
            assert signals["retrieval_similarity_max"] == retrieved.similarities[0]
            assert all(0.1 <= similarity <= 1 for similarity in retrieved.similarities)


def test_a_transcript_without_the_topic_retrieves_nothing() -> None:
    library = ReferenceLibrary(people(0, 30))
    silent = Transcript("x", (Turn("participant", "zzz qqq"),))
    for retrieved in library.retrieve(silent).values():
        assert retrieved.signals() == {
            "retrieval_reference_count": 0,
            "retrieval_similarity_mean": None,
            "retrieval_similarity_max": None,
        }


def own_sentences(context: str) -> set[str]:
    lines = [line for line in context.splitlines() if line.startswith("Participant: ")]
    parts = [part for line in lines for part in SENTENCE_END.split(line.partition(": ")[2])]
    return {words for part in parts if (words := plain_words(part)).count(" ") >= 3}


def check_references(n: int, cohort: Cohort, split: Split) -> None:
    """Every reference shows the score of its item: all of its exchanges, and nothing else."""
    config = SuiteConfig(n_synthetic=n)
    suite = PHQ8Suite(config, mode="few_shot", split=split, cohort=cohort)
    known = {}
    for person in draw_cohort(n, seed=config.seed, cohort=cohort):
        written = write_interview(
            person, seed=config.seed, withheld_rate=suite.withheld_rate, split=Split.TRAIN
        )
        known[person.participant_id] = person, written, passages(written.transcript)
    n_right, n_zero, n_items, n_shown = 0, 0, 0, 0
    records = suite.load()
    said = {record.cluster_id: own_sentences(record.context) for record in records}
    for record in records:
        key = record.metadata["item"]
        shown = re.findall(r"\(score (\d)\) «([^»]*)»", record.features["references"])
        for name, (score, text) in zip(
            record.metadata["reference_participants"], shown, strict=True
        ):
            person, written, cut = known[name]
            assert key not in written.withheld
            assert int(score) == person.scores[ITEM_KEYS.index(key)]
            assert int(score) == 0 or written.first_claims.get(key) != 0
            assert text == " ".join(cut[number].text for number in written.exchanges[key])
            assert len(text.split()) <= MAX_REFERENCE_WORDS
            words = plain_words(text)
            assert not any(sentence in words for sentence in said[record.cluster_id])
        if not record.metadata["should_abstain"]:
            n_right += record.label == (int(shown[0][0]) if shown else 0)
            n_zero += record.label == 0
            n_items += 1
            n_shown += bool(shown)
    assert n_shown > 0.7 * n_items
    assert n_right <= n_zero + 0.08 * n_items


@pytest.mark.parametrize("split", [Split.TEST, Split.TRAIN])
def test_a_reference_is_all_that_was_said_about_the_item_and_cannot_be_copied(split: Split) -> None:
    check_references(60, Cohort.CLINIC, split)


@pytest.mark.slow
@pytest.mark.parametrize("cohort", list(Cohort))
@pytest.mark.parametrize("split", [Split.TEST, Split.TRAIN])
def test_a_reference_is_all_that_was_said_among_a_thousand(split: Split, cohort: Cohort) -> None:
    check_references(1000, cohort, split)


def test_the_same_words_are_shown_once() -> None:
    def spoke(name: str, said: str) -> Transcript:
        return Transcript(name, (Turn("interviewer", "Do you sleep?"), Turn("participant", said)))

    training = [
        ScoredInterview(spoke(str(number), "I sleep badly."), {"Sleep": number})
        for number in range(3)
    ]
    found = ReferenceLibrary(training).retrieve(spoke("x", "Sleep? No."))["Sleep"]
    assert [reference.score for reference in found.references] == [0]


def test_an_interview_in_one_piece_is_no_reference() -> None:
    said = "I sleep badly most nights. " * 100
    giant = Transcript("1", (Turn("participant", said),))
    library = ReferenceLibrary([ScoredInterview(giant, {"Sleep": 2})])
    asked = Transcript("2", (Turn("participant", "I sleep badly."),))
    assert library.retrieve(asked)["Sleep"].references == ()
