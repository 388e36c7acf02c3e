"""Find scored passages of other participants that resemble what this participant said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krisis.data.phq8.embedding import Embedder, Matrix
from krisis.data.phq8.items import ITEMS
from krisis.data.phq8.transcripts import Transcript
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping

# A question about the topic shares one word in ten or so with the item's description.
_TOPIC_SIMILARITY = 0.04


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
    """Who compares passages, how many references to show and how similar they must be."""

    embedder: str = "tfidf"
    n_references: int = 2
    min_similarity: float = 0.1

    def __post_init__(self) -> None:
        whole = isinstance(self.n_references, int) and not isinstance(self.n_references, bool)
        if not whole or self.n_references < 1:
            raise InvalidValue(f"n_references must be 1 or more, not {self.n_references!r}")
        if not 0 <= self.min_similarity <= 1:
            raise InvalidValue(
                f"min_similarity must lie between 0 and 1, not {self.min_similarity!r}"
            )

    @classmethod
    def of(cls, given: RetrievalOptions | JsonMapping | str | None) -> RetrievalOptions:
        """Return the options that a program, a configuration file or a command line gives.

        >>> RetrievalOptions.of({"n_references": 3}).n_references
        3
        """
        if given is None or isinstance(given, str):
            return cls(given or "tfidf")
        if isinstance(given, RetrievalOptions):
            return given
        if not isinstance(given, Mapping):
            raise InvalidValue(f"retrieval must name an embedder or options, not {given!r}")
        for name in given:
            if name not in cls.__slots__:
                raise UnknownName.among("retrieval option", str(name), cls.__slots__)
        return cls(**given)


def passages(transcript: Transcript) -> list[str]:
    """Cut a transcript into exchanges: what the interviewer asks and all that is replied.

    Where nobody asks, each turn is a passage: the reader of files parts them at pauses.
    """
    exchanges: list[list[str]] = []
    asked = any(turn.speaker == "interviewer" for turn in transcript.turns)
    for turn in transcript.turns:
        if turn.speaker == "interviewer" or not exchanges or not asked:
            exchanges.append([])
        exchanges[-1].append(turn.text)
    return [" ".join(exchange) for exchange in exchanges]


class ReferenceLibrary:
    """Scored passages of the training participants, one for each of their items at most.

    Only training participants enter, so nothing of the held-out split can ever be retrieved, and
    a training participant under test never gets a passage of their own.
    """

    def __init__(
        self,
        interviews: Sequence[tuple[Transcript, Mapping[str, int]]],
        embedder: Embedder,
        options: RetrievalOptions | None = None,
    ) -> None:
        self.options = options or RetrievalOptions()
        self.embedder = embedder
        embedder.fit([text for transcript, _ in interviews for text in passages(transcript)])
        self._questions = embedder.embed([f"{item.question} {item.search_words}" for item in ITEMS])
        self._references: list[list[Reference]] = [[] for _ in ITEMS]
        vectors: list[list[NDArray[np.float64]]] = [[] for _ in ITEMS]
        for transcript, scores in interviews:
            chosen = self._closest_passages(transcript)
            for column, (item, (passage, vector)) in enumerate(zip(ITEMS, chosen, strict=True)):
                if item.key in scores and vector is not None:
                    reference = Reference(
                        transcript.participant_id, item.key, passage, scores[item.key]
                    )
                    self._references[column].append(reference)
                    vectors[column].append(vector)
        self._vectors = [np.array(rows) for rows in vectors]

    def retrieve(self, transcript: Transcript) -> dict[str, Retrieved]:
        """Return the references of every item for one participant."""
        chosen = self._closest_passages(transcript)
        return {
            item.key: self._nearest(column, vector, transcript.participant_id)
            for column, (item, (_, vector)) in enumerate(zip(ITEMS, chosen, strict=True))
        }

    def _closest_passages(
        self, transcript: Transcript
    ) -> list[tuple[str, NDArray[np.float64] | None]]:
        """Choose for every item the passage nearest to its description, if any is near."""
        texts = passages(transcript)
        vectors = self.embedder.embed(texts)
        similarity = self._questions @ vectors.T
        best = similarity.argmax(axis=1)
        return [
            (texts[index], vectors[index])
            if similarity[row, index] >= _TOPIC_SIMILARITY
            else ("", None)
            for row, index in enumerate(best)
        ]

    def _nearest(
        self, column: int, vector: NDArray[np.float64] | None, participant_id: str
    ) -> Retrieved:
        if vector is None or not self._references[column]:
            return Retrieved()
        similarity: Matrix = self._vectors[column] @ vector
        kept: list[int] = []
        seen: set[str] = set()
        for index in np.argsort(-similarity, kind="stable"):
            reference = self._references[column][index]
            if similarity[index] < self.options.min_similarity:
                break
            # The same words a second time would only spend the model's attention.
            if reference.participant_id != participant_id and reference.passage not in seen:
                seen.add(reference.passage)
                kept.append(int(index))
            if len(kept) == self.options.n_references:
                break
        return Retrieved(
            tuple(self._references[column][index] for index in kept),
            tuple(round(min(1.0, float(similarity[index])), 6) for index in kept),
        )
