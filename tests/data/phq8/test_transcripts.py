from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from krisis.data.phq8.transcripts import Transcript, Turn, check_quotes

TRANSCRIPT = Transcript(
    "300",
    (
        Turn("interviewer", "How is your sleep?"),
        Turn("participant", "I don’t sleep well — most nights."),
        Turn("interviewer", "I see."),
        Turn("participant", "That's all."),
    ),
)


def test_a_quote_is_found_whatever_its_case_spacing_and_quote_marks() -> None:
    assert TRANSCRIPT.contains("i don't   SLEEP well")
    assert TRANSCRIPT.contains('Participant: "I don\'t sleep well - most nights."')


def test_a_quote_may_run_over_turns_but_needs_the_participant() -> None:
    assert TRANSCRIPT.contains("How is your sleep? I don't sleep well")
    assert not TRANSCRIPT.contains("How is your sleep?")


def test_an_invented_or_empty_quote_is_not_evidence() -> None:
    checked = check_quotes(TRANSCRIPT, ["I never sleep", "most nights", "Most nights ", "", "..."])
    assert checked.found == ("Most nights ",)
    assert checked.not_found == ("I never sleep", "...")


@given(st.text(max_size=40))
def test_any_text_can_be_asked_for(quote: str) -> None:
    assert TRANSCRIPT.contains(quote) in {True, False}


@given(st.integers(0, 30), st.integers(3, 20))
def test_every_cut_of_the_participants_words_is_found(start: int, length: int) -> None:
    cut = "I don’t sleep well — most nights."[start : start + length]
    assert not cut.strip(" .—’'") or TRANSCRIPT.contains(cut)
