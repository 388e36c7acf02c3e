"""Find scored passages of other participants that resemble what this participant said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krisis.data.phq8.items import ITEMS
from krisis.data.phq8.transcripts import SENTENCE_END, Transcript, plain_words
from krisis.errors import InvalidValue

Matrix = NDArray[np.float64]
_WORD = re.compile(r"[a-z0-9']{2,}")
MAX_REFERENCE_WORDS = 250
# So many words in a row, or a sentence so long, are somebody's own.
_OWN_RUN, _OWN_SENTENCE = 6, 4
_FEW_WORDS = 8
_REFUSAL = re.compile(
    r"\b(?:rather not|sooner not|prefer not|i'd better not|no comment|next question|"
    r"not comfortable|i(?:'ll| will) pass|(?:skip|leave out|pass on) (?:that|this|it)|"
    r"none of your business|"
    r"(?:don'?t|do not) want to (?:talk|speak|say|answer|discuss|get into|go into|go there)|"
    r"(?:don'?t|won'?t|wouldn'?t|(?:do|will|would) not) (?:discuss|talk about|go there|answer)|"
    r"(?:let's|(?:can|could|might) we) (?:move|turn|change)|anything but that|"
    r"(?:that|this)(?:'s| is) (?:private|personal|my own business)|"
    r"(?:between|for) me and|between [\w ]{1,20} and me)\b|^\W*(?:\w+\W+)?pass\b",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"\W*(?:um+|uh|well|oh)?\W*(?:no|nope|nah|not really|never|nothing)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A passage of a training participant with that participant's score for one item."""

    participant_id: str
    item: str
    passage: str
    score: int


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The references for one item of one participant, the most similar first."""

    references: tuple[Reference, ...] = ()
    similarities: tuple[float, ...] = ()

    def signals(self) -> dict[str, float | int | None]:
        """Return the retrieval figures of the item; null where nothing was retrieved."""
        found = self.similarities
        return {
            "retrieval_reference_count": len(found),
            "retrieval_similarity_mean": float(np.mean(found)) if found else None,
            "retrieval_similarity_max": max(found) if found else None,
        }


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """How many references to show and how similar they must be."""

    n_references: int = 2
    min_similarity: float = 0.1

    def __post_init__(self) -> None:
        whole = isinstance(self.n_references, int) and not isinstance(self.n_references, bool)
        if not whole or self.n_references < 1:
            raise InvalidValue(f"n_references must be 1 or more, not {self.n_references!r}")
        if not 0 <= self.min_similarity <= 1:
            raise InvalidValue(
                f"min_similarity must be between 0 and 1, not {self.min_similarity!r}"
            )


@dataclass(frozen=True, slots=True)
class ScoredInterview:
    """A training participant with their scores.

    ``exchanges`` are the numbers of the exchanges that show each item's score, where the author of
    the interview knows them; an item that is not among them is no reference. Otherwise the
    exchanges about an item are found by their words.
    """

    transcript: Transcript
    scores: Mapping[str, int]
    exchanges: Mapping[str, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """An exchange: what the interviewer asks and all that the participant replies."""

    asked: str
    said: str

    @property
    def text(self) -> str:
        """Return both."""
        return f"{self.asked} {self.said}".strip()


def passages(transcript: Transcript) -> list[Passage]:
    """Cut a transcript into exchanges; a new one begins where the interviewer takes over.

    Where nobody asks, each turn is a passage: the reader of files parts them at pauses.
    """
    nobody_asks = all(turn.speaker != "interviewer" for turn in transcript.turns)
    exchanges: list[tuple[list[str], list[str]]] = []
    for turn in transcript.turns:
        is_question = turn.speaker == "interviewer"
        if not exchanges or nobody_asks or (is_question and exchanges[-1][1]):
            exchanges.append(([], []))
        exchanges[-1][0 if is_question else 1].append(turn.text)
    return [Passage(" ".join(asked), " ".join(said)) for asked, said in exchanges]


def about_items(cut: Sequence[Passage]) -> dict[str, list[int]]:
    """Find the exchanges about each item by its evidence words.

    The question decides; where it names no item, as a follow-up does, the reply does.
    """
    about: dict[str, list[int]] = {}
    for number, passage in enumerate(cut):
        for text in (passage.asked, passage.said):
            keys = [item.key for item in ITEMS if item.bears_on(text)]
            for key in keys:
                about.setdefault(key, []).append(number)
            if keys:
                break
    return about


def teaches(said: str, score: int) -> bool:
    """Say whether a reply can show a score: no refusal does, and no bare denial a score above 0."""
    if not said or _REFUSAL.search(said):
        return False
    return not (score and _DENIAL.match(said) and len(said.split()) < _FEW_WORDS)


@dataclass(frozen=True, slots=True)
class _Wording:
    """The words of a text, and what of them is somebody's own: sentences and runs of words."""

    text: str
    sentences: Sequence[str]
    runs: frozenset[str]

    @classmethod
    def of(cls, text: str) -> _Wording:
        sentences = [plain_words(sentence) for sentence in SENTENCE_END.split(text)]
        # Longer sentences have a run of their own.
        lengths = range(_OWN_SENTENCE, _OWN_RUN)
        own = [f" {one} " for one in sentences if one.count(" ") + 1 in lengths]
        words = " ".join(sentences).split()
        starts = range(len(words) - _OWN_RUN + 1)
        runs = frozenset(" ".join(words[start : start + _OWN_RUN]) for start in starts)
        return cls(f" {' '.join(words)} ", own, runs)

    def repeats(self, other: _Wording) -> bool:
        """Say whether one of the texts has something of the other's own."""
        pairs = (self, other), (other, self)
        return not self.runs.isdisjoint(other.runs) or any(
            sentence in within.text for one, within in pairs for sentence in one.sentences
        )


class Tfidf:
    """Term frequency times inverse document frequency over words.

    weight = (1 + ln tf) · (ln((1 + n) / (1 + df)) + 1), rows scaled to unit length. The
    vocabulary is the ``max_terms`` most frequent words of the training passages.
    """

    def __init__(self, max_terms: int = 4096) -> None:
        self.max_terms = max_terms
        self._columns: dict[str, int] = {}
        self._inverse_frequency: Matrix = np.zeros(0)

    def fit(self, texts: Sequence[str]) -> None:
        """Take the vocabulary and the document frequencies from the training passages."""
        frequency = Counter(word for text in texts for word in set(_words(text)))
        # Ties by the alphabet: the vocabulary must not depend on the order of the passages.
        kept = sorted(frequency, key=lambda word: (-frequency[word], word))[: self.max_terms]
        self._columns = {word: column for column, word in enumerate(kept)}
        counts = np.array([frequency[word] for word in kept], dtype=float)
        self._inverse_frequency = np.log((1 + len(texts)) / (1 + counts)) + 1

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return TF-IDF rows; a text without a known word is a row of zeros."""
        rows: Matrix = np.zeros((len(texts), len(self._columns)))
        for row, text in zip(rows, texts, strict=True):
            for word, count in Counter(_words(text)).items():
                if word in self._columns:
                    row[self._columns[word]] = 1 + np.log(count)
        return unit_rows(rows * self._inverse_frequency)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("’", "'"))


def unit_rows(rows: Matrix) -> Matrix:
    """Scale rows to length one and leave rows of zeros alone."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length > 0))


class ReferenceLibrary:
    """Scored passages of the training participants, one for each of their items at most.

    A passage is every exchange about the item, in order. Only training participants enter, so
    nothing of the held-out split can ever be retrieved. A participant under test never gets a
    passage of their own, nor one that repeats a sentence of theirs or six of their words in a row.
    """

    def __init__(
        self, interviews: Sequence[ScoredInterview], options: RetrievalOptions | None = None
    ) -> None:
        self.options = options or RetrievalOptions()
        cut = [passages(interview.transcript) for interview in interviews]
        self._tfidf = Tfidf()
        self._tfidf.fit([passage.text for exchanges in cut for passage in exchanges])
        self._references: dict[str, list[Reference]] = {item.key: [] for item in ITEMS}
        for interview, exchanges in zip(interviews, cut, strict=True):
            for reference in self._scored(interview, exchanges):
                self._references[reference.item].append(reference)
        self._wordings = {
            key: [_Wording.of(reference.passage) for reference in references]
            for key, references in self._references.items()
        }
        self._vectors = {
            key: self._tfidf.embed([reference.passage for reference in references])
            for key, references in self._references.items()
            if references
        }

    def _scored(self, interview: ScoredInterview, cut: list[Passage]) -> Iterator[Reference]:
        """Yield a reference for each item that the interview shows the score of."""
        known = interview.exchanges
        found = known if known is not None else about_items(cut)
        for key, numbers in found.items():
            if key not in interview.scores:
                continue
            shown = [cut[number] for number in numbers]
            text = " ".join(passage.text for passage in shown)
            score = interview.scores[key]
            if len(text.split()) <= MAX_REFERENCE_WORDS and all(
                teaches(passage.said, score) for passage in shown
            ):
                yield Reference(interview.transcript.participant_id, key, text, score)

    def retrieve(self, transcript: Transcript) -> dict[str, Retrieved]:
        """Return the references of every item for one participant."""
        cut = passages(transcript)
        own = _Wording.of(" ".join(passage.said for passage in cut))
        retrieved = {item.key: Retrieved() for item in ITEMS}
        found = {key: about for key, about in about_items(cut).items() if key in self._vectors}
        texts = [" ".join(cut[number].text for number in about) for about in found.values()]
        if texts:
            for key, vector in zip(found, self._tfidf.embed(texts), strict=True):
                retrieved[key] = self._nearest(key, vector, transcript.participant_id, own)
        return retrieved

    def _nearest(
        self, key: str, vector: NDArray[np.float64], participant_id: str, own: _Wording
    ) -> Retrieved:
        references = self._references[key]
        similarity: Matrix = self._vectors[key] @ vector
        kept: list[int] = []
        # The same words a second time would only spend the model's attention.
        seen: set[str] = set()
        for index in np.argsort(-similarity, kind="stable"):
            if similarity[index] < self.options.min_similarity:
                break
            reference = references[index]
            is_other = reference.participant_id != participant_id
            is_new = is_other and reference.passage not in seen
            if is_new and not own.repeats(self._wordings[key][index]):
                seen.add(reference.passage)
                kept.append(int(index))
            if len(kept) == self.options.n_references:
                break
        return Retrieved(
            tuple(references[index] for index in kept),
            tuple(round(min(1.0, float(similarity[index])), 6) for index in kept),
        )
