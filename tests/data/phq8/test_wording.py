"""The phrase banks: disjoint, decidable, and too varied to look up."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from krisis.data.phq8.interviews import (
    Cohort,
    Interview,
    Split,
    draw_cohort,
    draw_splits,
    write_interview,
)
from krisis.data.phq8.items import ITEM_KEYS, ITEMS
from krisis.data.phq8.lexicon import score_of_days
from krisis.data.phq8.retrieval import passages
from krisis.data.phq8.transcripts import SENTENCE_END, normalized
from krisis.data.phq8.wording import Bank, Voice

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
           "twelve", "thirteen", "fourteen")  # fmt: skip
N_WORDS = {**{word: n for n, word in enumerate(NUMBERS, 1)}, "once": 1, "twice": 2}
NUMBER = "(" + "|".join(N_WORDS) + ")"
UNITS = "(?:day|night|morning|afternoon|evening)s?"
# Counts in words, each with the number of days of fourteen that they come to.
COUNTS = [
    (rf"{NUMBER} {UNITS} (?:in|out of) the fortnight", lambda n: n),
    (rf"on {NUMBER} {UNITS} of the fourteen", lambda n: n),
    (rf"{NUMBER} {UNITS}(?:, [a-z ]+)? (?:in|over|across) the two weeks", lambda n: n),
    (rf"{NUMBER} out of fourteen {UNITS}", lambda n: n),
    (rf"(?<!one ){NUMBER} of the {UNITS}", lambda n: n),
    (rf"{NUMBER} {UNITS} last week, {NUMBER} this", lambda a, b: a + b),
    (rf"{NUMBER} {UNITS} one week and {NUMBER} the (?:other|next)", lambda a, b: a + b),
    (rf"{NUMBER} {UNITS} the first week and {NUMBER} the second", lambda a, b: a + b),
    (rf"{NUMBER} {UNITS} one week, {NUMBER} the next", lambda a, b: a + b),
    (rf"every {UNITS} (?:but|except) {NUMBER}(?: {UNITS}| in the fortnight)", lambda n: 14 - n),
    (rf"always, apart from {NUMBER} {UNITS} over the two weeks", lambda n: 14 - n),
    (rf"all but {NUMBER} {UNITS} of the two weeks", lambda n: 14 - n),
]
Span = tuple[int, int, int]


def counted(text: str) -> list[Span]:
    """Return where days are counted, and the score of the count; written without the banks."""
    found = []
    for pattern, days in COUNTS:
        for match in re.finditer(rf"\b{pattern}", text):
            n_days = days(*(N_WORDS[group] for group in match.groups()))
            found.append((*match.span(), score_of_days(n_days)))
    return found


def longest(spans: Sequence[Span]) -> list[Span]:
    """Keep what is not part of something longer: "every day" says less than "every day but two"."""
    kept: list[Span] = []
    for one in sorted(spans, key=lambda span: span[0] - span[1]):
        if not any(one[0] < other[1] and other[0] < one[1] for other in kept):
            kept.append(one)
    return sorted(kept)


def plain(text: str) -> str:
    """Write short forms out, in lower case."""
    for short, full in (("n't", " not"), ("'m", " am"), ("'ve", " have"), ("'ll", " will")):
        text = text.replace(f"ca{short}" if full == " not" else "\0", "cannot").replace(short, full)
    return text.lower()


SLOTS = {
    **dict.fromkeys(("{unit}", "{units}", "{a_unit}"), f"(?:an? )?{UNITS}"),
    "{two_days}": r"\w+days and \w+days",
    "{day}": r"\w+day",
}


@cache
def pattern(templates: tuple[str, ...]) -> re.Pattern[str]:
    """Return what any of the templates can become."""

    def one(template: str) -> str:
        pieces = re.split(r"(\[[^\]]*\]|\{\w+\})", plain(template))
        return "".join(
            "(?:" + "|".join(one(part) for part in piece[1:-1].split("|")) + ")"
            if piece.startswith("[")
            else SLOTS.get(piece, "[^.!?;]{1,90}?")
            if piece.startswith("{")
            else re.escape(piece)
            for piece in pieces
        )

    return re.compile("|".join(rf"\b{one(template)}" for template in templates))


class Reader:
    """Knows how each split talks, reads the exchanges of an item and scores or abstains."""

    def __init__(self, split: Split) -> None:
        self.bank = Bank.of(split)
        often = self.bank.phrases["often"]
        self.bands = {score: pattern(tuple(often[str(score)])) for score in (1, 2, 3)}
        says = self.bank.phrases["says"]
        self.cues = {
            # A claim that is withdrawn ends its sentence; one that is held to goes on.
            "takes_back": pattern(tuple(one.partition(" {why}")[0] for one in says["takes_back"])),
            "unknown": pattern(tuple(one.strip(".") for one in says["unknown"])),
        }
        self.claims = {kind: pattern(tuple(said)) for kind, said in says["claims"].items()}
        self.whys = {kind: pattern(tuple(said)) for kind, said in says["whys"].items()}

    def spans(self, key: str, text: str) -> list[Span]:
        """Return where a score is stated, in order."""
        found = counted(text)
        for score, band in self.bands.items():
            found += [(*match.span(), score) for match in band.finditer(text)]
        well = pattern(tuple(self.bank.topics[key].well))
        return longest([*found, *((*match.span(), 0) for match in well.finditer(text))])

    def statements(self, key: str, text: str) -> list[int]:
        """Return the scores that are stated, in order."""
        return [score for _, _, score in self.spans(key, text)]

    def read(self, key: str, exchanges: Sequence[str]) -> int | None:
        """Return the score that the exchanges show, or None."""
        texts = [plain(text) for text in exchanges]
        stated = [score for text in texts for score in self.statements(key, text)]
        if not stated or any(self.cues["unknown"].search(text) for text in texts):
            return None
        if len(set(stated)) > 1 and not self.cues["takes_back"].search(texts[-1]):
            return None
        return stated[-1]


def interviews(
    n: int, split: Split, cohort: Cohort = Cohort.CLINIC, seed: int = 11
) -> Iterator[tuple[dict[str, int], Interview]]:
    for person in draw_cohort(n, seed=seed, cohort=cohort):
        scores = dict(zip(ITEM_KEYS, person.scores, strict=True))
        yield scores, write_interview(person, seed=seed, withheld_rate=0.3, split=split)


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_a_careful_reader_recovers_every_score_and_every_gap(split: Split) -> None:
    reader = Reader(split)
    for scores, interview in interviews(120, split):
        cut = passages(interview.transcript)
        for key in ITEM_KEYS:
            said = [cut[number].said for number in interview.exchanges.get(key, ())]
            expected = None if key in interview.withheld else scores[key]
            assert reader.read(key, said) == expected, (key, interview.withheld.get(key), said)


def recalled(reader: Reader, key: str, first: str, later: str) -> int:
    """Return the score that was claimed first, once it was found to be recalled in its words."""
    ((start, end, score),) = reader.spans(key, first)
    kinds = {kind for kind, claim in reader.claims.items() if claim.search(later)} - {"often"}
    if score and first[start:end].partition(",")[0] in later:
        assert not kinds
    else:
        assert kinds in ([{str(score)}] if score else [{"never"}, {"once"}]), (first, later)
    return score


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_what_is_taken_back_is_named_with_why_and_no_stock_phrase_gives_it_away(
    split: Split,
) -> None:
    """Whether a statement is withdrawn follows from what is said of the first one.

    What opens the second reply also opens contradictions and corrections of other things.
    """
    reader = Reader(split)
    openers = [pattern((one,)) for one in reader.bank.phrases["says"]["returns"]]
    opened: dict[str, Counter[int]] = defaultdict(Counter)
    for scores, interview in interviews(300, split):
        cut = [plain(part.said) for part in passages(interview.transcript)]
        about = {number for numbers in interview.exchanges.values() for number in numbers}
        for number in set(range(len(cut))) - about:
            opened["other"].update(k for k, one in enumerate(openers) if one.search(cut[number]))
        for key, numbers in interview.exchanges.items():
            claimed, later = interview.first_claims.get(key), cut[numbers[-1]]
            kind = "taken back" if claimed is not None else interview.withheld.get(key, "")
            opened[kind].update(k for k, one in enumerate(openers) if one.search(later))
            given = {name for name, why in reader.whys.items() if why.search(later)}
            if claimed is None:
                assert not given
                continue
            assert recalled(reader, key, cut[numbers[0]], later) == claimed
            assert given == {"too_little" if claimed < scores[key] else "too_much"}
    for kind in ("taken back", "statements_contradict", "other"):
        assert len(opened[kind]) == len(openers), kind


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_symptoms_are_played_down_as_often_at_every_score(split: Split) -> None:
    told: dict[int, list[bool]] = defaultdict(list)
    for scores, interview in interviews(400, split):
        cut = [plain(part.said) for part in passages(interview.transcript)]
        for key, numbers in interview.exchanges.items():
            if key in interview.withheld or key in interview.first_claims or not scores[key]:
                continue
            down = pattern(tuple(Bank.of(split).topics[key].plays_down))
            told[scores[key]].append(any(down.search(cut[number]) for number in numbers))
    shares = {score: float(np.mean(found)) for score, found in told.items()}
    assert all(0.1 < share < 0.3 for share in shares.values()), shares


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_a_frequency_denotes_one_score_and_counts_fall_into_its_band(split: Split) -> None:
    voice = Voice(Bank.of(split), np.random.default_rng(0))
    reader = Reader(split)
    n_counted = n_said = 0
    for score in (1, 2, 3):
        for _ in range(600):
            phrase = plain(voice.often(score, "night"))
            ((_, _, read),) = reader.spans("Sleep", phrase)
            assert read == score, phrase
            assert [n for _, _, n in longest(counted(phrase))] in ([], [score]), phrase
            n_counted += bool(counted(phrase))
            n_said += 1
    assert 0.1 < n_counted / n_said < 0.4  # most people do not count


def leaves(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    else:
        for part in node.values() if isinstance(node, dict) else node:  # type: ignore[attr-defined]
            yield from leaves(part)


def own_phrases(bank: dict[str, Any]) -> set[str]:
    """Return all that can be said; relations, units and names of subjects are nobody's own."""
    life = {name: part for name, part in bank["life"].items() if name not in ("mates", "kin")}
    topics = [[p for n, p in said.items() if n != "unit"] for said in bank["topics"].values()]
    talk = [(subject["ask"], subject["answers"]) for subject in bank["small_talk"]]
    rest = {name: bank[name] for name in bank if name not in ("life", "topics", "small_talk")}
    return {normalized(text) for text in leaves([life, topics, talk, rest])}


def test_the_banks_have_the_same_parts_and_share_no_phrase() -> None:
    train, test = Bank.of("train").phrases, Bank.of("test").phrases
    assert {key: set(part) for key, part in train.items() if isinstance(part, dict)} == {
        key: set(part) for key, part in test.items() if isinstance(part, dict)
    }
    assert not own_phrases(train) & own_phrases(test)


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_no_phrase_bears_on_an_item_that_it_is_not_about(split: Split) -> None:
    phrases = dict(Bank.of(split).phrases)
    topics, life = phrases.pop("topics"), dict(phrases.pop("life"))
    phrases.pop("traps")
    hobby = life.pop("hobbies")
    for item in ITEMS:
        others = [topic for key, topic in topics.items() if key != item.key]
        hobbies = [] if item.key == "NoInterest" else [hobby]
        for text in leaves([phrases, life, others, hobbies]):
            flat = re.sub(r"\{\w+\}", "it", text)
            for choice in re.findall(r"\[([^\]]*)\]", flat):
                assert not any(item.bears_on(part) for part in choice.split("|")), (item.key, text)
            assert not item.bears_on(re.sub(r"\[|\]|\|", " ", flat)), (item.key, text)


def check_withheld(n: int, split: Split, cohort: Cohort) -> None:
    n_checked = 0
    for _, interview in interviews(n, split, cohort):
        cut = passages(interview.transcript)
        for item in ITEMS:
            if item.key in interview.withheld:
                own = set(interview.exchanges.get(item.key, ()))
                others = [one.text for number, one in enumerate(cut) if number not in own]
                assert not item.bears_on(" ".join(others)), (item.key, others)
                n_checked += 1
    assert n_checked > n


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_nothing_outside_its_exchanges_bears_on_a_withheld_item(split: Split) -> None:
    check_withheld(60, split, Cohort.COMMUNITY)


@pytest.mark.slow
@pytest.mark.parametrize("cohort", list(Cohort))
@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_nothing_bears_on_a_withheld_item_among_a_thousand(split: Split, cohort: Cohort) -> None:
    check_withheld(1000, split, cohort)


def check_overlap(n: int) -> None:
    """Sentences of four words or more, and a table from each to the scores it was said with."""
    people = draw_cohort(n, seed=42)
    sentences: dict[Split, list[str]] = {Split.TRAIN: [], Split.TEST: []}
    table: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    items: list[tuple[str, int, set[str]]] = []
    turns: list[str] = []
    for person, split in zip(people, draw_splits(n, seed=42, test_size=0.2), strict=True):
        interview = write_interview(person, seed=42, withheld_rate=0.3, split=split)
        turns += [turn.text for turn in interview.transcript.turns if turn.speaker != "interviewer"]
        cut = passages(interview.transcript)
        said = [
            {normalized(one) for one in SENTENCE_END.split(part.text) if one.count(" ") > 2}
            for part in cut
        ]
        sentences[split] += [sentence for part in said for sentence in part]
        for key, score in zip(ITEM_KEYS, person.scores, strict=True):
            numbers = interview.exchanges.get(key, ())
            own = set().union(*(said[number] for number in numbers))
            if key in interview.withheld:
                continue
            if split is Split.TRAIN:
                for sentence in own:
                    table[key, sentence][score] += 1
            else:
                items.append((key, score, own))
    train = set(sentences[Split.TRAIN])
    shared = [sentence for sentence in sentences[Split.TEST] if sentence in train]
    assert len(shared) <= 0.02 * len(sentences[Split.TEST])
    decided = [item for item in items if any((item[0], sentence) in table for sentence in item[2])]
    assert len(decided) <= 0.15 * len(items)
    assert len(set(turns)) >= 0.9 * len(turns)


def test_test_sentences_do_not_stand_in_train() -> None:
    check_overlap(150)


@pytest.mark.slow
def test_test_sentences_do_not_stand_in_train_among_a_thousand() -> None:
    check_overlap(1000)


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_an_answer_begins_as_its_question_asks_and_its_symptom_demands(split: Split) -> None:
    """Who is asked whether they sleep well says yes where all is well, and no where it is not."""
    bank = Bank.of(split)
    openers = bank.phrases["says"]["openers"]
    begun = 0
    for scores, interview in interviews(200, split):
        cut = passages(interview.transcript)
        for key, numbers in interview.exchanges.items():
            if key in interview.withheld:
                continue
            first = cut[numbers[0]]
            kinds = [k for k, ask in bank.topics[key].ask.items() if asks(ask, first.asked)]
            stated = interview.first_claims.get(key, scores[key])
            for kind in kinds[:1]:
                fits, wrong = (
                    openers[kind][one] for one in ("there", "absent")[:: 1 if stated else -1]
                )
                begins = [one for one in (*fits, *wrong) if first.said.startswith(f"{one} ")]
                begun += bool(begins)
                assert not begins or set(begins) & set(fits), (first, stated)
    assert begun > 200


def asks(templates: Sequence[str], question: str) -> bool:
    return pattern(tuple(templates)).search(plain(question)) is not None


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_who_corrects_how_often_does_not_change_the_kind_of_symptom(split: Split) -> None:
    topics, n_checked = Bank.of(split).topics, 0
    for scores, interview in interviews(400, split):
        cut = [plain(part.said) for part in passages(interview.transcript)]
        for key, claimed in interview.first_claims.items():
            if not claimed or not scores[key]:
                continue
            said = [one for one in (*topics[key].did, *topics[key].says) if one.kind]
            kinds = [
                {one.kind for one in said if pattern((own_words(one.text),)).search(cut[number])}
                for number in interview.exchanges[key]
            ]
            if all(len(one) == 1 for one in kinds):
                n_checked += 1
                assert kinds[0] == kinds[1], (key, [cut[n] for n in interview.exchanges[key]])
    assert n_checked > 10


def own_words(template: str) -> str:
    """Leave the frequency out, which stands at the beginning or the end."""
    return template.replace("{often}, ", "").replace(", {often}", "").rstrip(".")


def test_who_is_named_again_in_a_reply_goes_by_their_name() -> None:
    voice = Voice(Bank.of(Split.TEST), np.random.default_rng(3))
    voice.filler_rate = 0.0
    who = voice.kin[0]
    name = who.split()[-1]
    assert voice.spoken([f"I saw {who}.", f"M{who[1:]} was late."]) == (
        f"I saw {who}. {name} was late."
    )


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_an_answer_to_a_general_question_says_first_what_it_is_about(split: Split) -> None:
    bank, n_asked = Bank.of(split), 0
    for _, interview in interviews(200, split):
        cut = passages(interview.transcript)
        for key, numbers in interview.exchanges.items():
            for part in (cut[number] for number in numbers):
                if asks(bank.phrases["interviewer"]["open_asks"], part.asked):
                    n_asked += 1
                    first = plain(SENTENCE_END.split(part.said)[0])
                    assert pattern(tuple(bank.topics[key].noun)).search(first), part
    assert n_asked > 20


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_what_only_sounds_like_a_symptom_is_said_where_it_fits(split: Split) -> None:
    phrases, found = Bank.of(split).phrases, Counter[str]()
    subjects = {one["about"]: one["ask"] for one in phrases["small_talk"]}
    for _, interview in interviews(200, split):
        for part in passages(interview.transcript):
            for subject, traps in phrases["traps"].items():
                others = [one for name, said in phrases["traps"].items() if name != subject
                          for one in said]  # fmt: skip
                if pattern(tuple(traps)).search(plain(part.said)):
                    is_shared = pattern(tuple(others)).search(plain(part.said))
                    assert is_shared or asks(subjects[subject], part.asked), part
                    found[subject] += 1
    assert set(found) == set(phrases["traps"])


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST])
def test_a_long_frequency_follows_what_it_is_about(split: Split) -> None:
    often = [one for score in "123" for one in Bank.of(split).phrases["often"][score]]
    long = pattern(tuple(one for one in often if "," in one))
    for _, interview in interviews(200, split):
        for turn in interview.transcript.turns:
            for sentence in SENTENCE_END.split(plain(turn.text)):
                start = long.match(sentence)
                rest = sentence[start.end() :] if start else ""
                assert not re.match(r",? (?:i|my|i have been)\b", rest), turn
