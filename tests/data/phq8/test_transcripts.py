from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krisis.data.phq8.transcripts import Transcript, Turn, check_quotes

SAID = "I don’t sleep well — most nights. It began in spring; nobody knows why."
TRANSCRIPT = Transcript(
    "300",
    (
        Turn("interviewer", "How is your sleep these days?"),
        Turn("participant", SAID),
        Turn("interviewer", "I see."),
        Turn("participant", "Never."),
        Turn("participant", "That's all."),
        Turn("interviewer", "Go on."),
        Turn("participant", "It was <sigh> all this… café."),
    ),
)


@pytest.mark.parametrize(
    ("quote", "sentences"),
    [
        ("i don't   SLEEP well", {0}),
        ('Participant: "I don\'t sleep well - most nights."', {0}),
        ("most nights. It began", {0, 1}),
        ("I don't sleep … nobody knows why", {0, 2}),
        ("I don't sleep [...] why.", {0, 2}),
        ("…It began in spring…", {1}),
        ("Never", {3}),  # a whole turn
        ("Never. That's all", {3, 4}),  # two turns without a question between
        ("nobody knows why … I don't sleep", None),  # not in this order
        ("I don't sleep … nobody knows how", None),
        ("nobody knows why. Never.", None),  # a question stands between
        ("How is your sleep these days?", None),
        ("these days? I don't sleep well", None),
        ("I", None),
        ("most nights", None),
        ("I … why", None),
        ("on't sleep well", None),  # no cut through a word
        ("i dont sleep well", {0}),
        ("all this… cafe\u0301", {5}),  # the speaker's own pause, and an accent written apart
        ("was all <laughter> this", {5}),
        ("this … was", None),
        ("I never sleep well", None),
        ("...", None),
        ("", None),
    ],
)
def test_a_quote_is_found_where_the_participant_said_it(
    quote: str, sentences: set[int] | None
) -> None:
    assert TRANSCRIPT.find(quote) == sentences


def test_one_sentence_cut_into_four_counts_once() -> None:
    pieces = ["I don't sleep", "sleep well most", "don't sleep well", "well - most nights"]
    assert check_quotes(TRANSCRIPT, pieces).found == ("well - most nights",)
    both = check_quotes(TRANSCRIPT, [*pieces, "It began in spring"])
    assert both.found == ("well - most nights", "It began in spring")
    joined = check_quotes(TRANSCRIPT, [*pieces, "It began in spring", "most nights. It began in"])
    assert joined.found == ("most nights. It began in",)


def test_what_is_not_found_is_listed_and_nothing_is_listed_twice() -> None:
    checked = check_quotes(TRANSCRIPT, ["I never sleep", "never.", "Never.", "", "most", "..."])
    assert checked.found == ("Never.",)
    assert checked.not_found == ("I never sleep", "most", "...")


@given(st.text(max_size=40))
def test_any_text_can_be_asked_for(quote: str) -> None:
    found = TRANSCRIPT.find(quote)
    assert found is None or found <= set(range(6))


WORDS = SAID.split(" ")


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(4, 9)), max_size=5))
def test_cuts_of_the_participants_words_are_found_and_a_second_check_changes_nothing(
    cuts: list[tuple[int, int]],
) -> None:
    quotes = [" ".join(WORDS[start : start + length]) for start, length in cuts]
    whole = [quote for quote, (start, _) in zip(quotes, cuts, strict=True) if start < 11]
    once = check_quotes(TRANSCRIPT, quotes)
    assert not set(whole) & set(once.not_found)
    assert len(once.found) <= 3
    assert check_quotes(TRANSCRIPT, [*once.found, *once.not_found]) == once
