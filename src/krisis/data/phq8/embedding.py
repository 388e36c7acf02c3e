"""Turn passages into unit vectors: TF-IDF by default, a sentence encoder or endpoint by option."""

from __future__ import annotations

import logging
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from krisis.errors import (
    BackendError,
    InvalidFile,
    InvalidValue,
    MissingExtra,
    MissingKey,
    UnknownName,
)
from krisis.json_values import JsonValue

Matrix = NDArray[np.float64]
_WORD = re.compile(r"[a-z0-9']{2,}")


class Embedder(ABC):
    """Anything that turns texts into rows of unit length; `fit` sees training passages only."""

    name: str

    def fit(self, texts: Sequence[str]) -> None:  # noqa: B027 - most models are already trained
        """Learn what is needed from the training passages."""

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one row per text, each of length one or zero."""


class TfidfEmbedder(Embedder):
    """Term frequency times inverse document frequency over words; needs no download.

    weight = (1 + ln tf) · (ln((1 + n) / (1 + df)) + 1), rows scaled to unit length. The
    vocabulary is the ``max_terms`` most frequent words of the training passages.
    """

    name = "tfidf"

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


class SentenceEmbedder(Embedder):
    """A sentence-transformers model that is on this machine or can be fetched by its name."""

    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtra.named("embeddings", f"the embedder {model!r}") from None
        self.name = f"sentence-transformers/{model}"
        try:
            self._encoder: JsonValue = SentenceTransformer(model)
        except Exception as error:  # the library raises many kinds, all for the same reason
            reason = " ".join(str(error).split())[:200]
            raise InvalidFile(
                f"the sentence encoder {model!r} cannot be loaded ({reason}); name a folder on "
                "this machine or a model that can be fetched, or use the embedder 'tfidf'"
            ) from None

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Encode the texts."""
        return unit_rows(np.asarray(self._encoder.encode(list(texts)), dtype=float))


class EndpointEmbedder(Embedder):
    """An OpenAI-compatible embeddings endpoint; passages leave this machine."""

    def __init__(self, model: str, *, batch_size: int = 256) -> None:
        try:
            import openai
        except ImportError:
            raise MissingExtra.named("openai", f"the embedder {model!r}") from None
        base_url = os.environ.get("OPENAI_BASE_URL")
        key = os.environ.get("OPENAI_API_KEY") or ("none" if base_url else "")
        if not key:
            raise MissingKey(
                "the embedder needs OPENAI_API_KEY, or OPENAI_BASE_URL for a server without keys"
            )
        for talkative in ("openai", "httpx", "httpcore"):  # at DEBUG they log the passages
            logging.getLogger(talkative).setLevel(logging.WARNING)
        self.name = f"openai/{model}"
        self.batch_size = batch_size
        self._model = model
        self._errors = openai.OpenAIError
        self._client = openai.OpenAI(api_key=key, base_url=base_url)

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Ask the endpoint, a batch at a time."""
        rows: list[list[float]] = []
        for start in range(0, len(texts), self.batch_size):
            batch = list(texts[start : start + self.batch_size])
            try:
                reply = self._client.embeddings.create(
                    model=self._model, input=batch, encoding_format="float"
                )
            except self._errors as error:
                # The provider's own words may show a part of the key, or of a passage.
                status = getattr(error, "status_code", None)
                reason = type(error).__name__ + (f", status {status}" if status else "")
                raise BackendError(
                    f"the embeddings endpoint failed for {self._model!r} ({reason}); check the "
                    "model name, OPENAI_BASE_URL and OPENAI_API_KEY, or use the embedder 'tfidf'"
                ) from None
            rows += [entry.embedding for entry in sorted(reply.data, key=lambda e: e.index)]
        if len(rows) != len(texts):
            raise BackendError(f"{len(texts)} passages gave {len(rows)} embeddings; try 'tfidf'")
        return unit_rows(np.asarray(rows, dtype=float))


def make_embedder(name: str) -> Embedder:
    """Return the embedder of a name: tfidf, sentence-transformers/MODEL or openai/MODEL."""
    kind, _, model = name.partition("/")
    if kind == "tfidf" and not model:
        return TfidfEmbedder()
    if kind not in {"sentence-transformers", "openai"}:
        known = ["tfidf", "sentence-transformers/MODEL", "openai/MODEL"]
        raise UnknownName.among("embedder", name, known)
    if not model:
        raise InvalidValue(f"the embedder {name!r} names no model; write {kind}/MODEL")
    return SentenceEmbedder(model) if kind == "sentence-transformers" else EndpointEmbedder(model)
