from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from krisis.data.phq8.embedding import EndpointEmbedder, TfidfEmbedder, make_embedder
from krisis.data.phq8.interviews import draw_cohort, write_interview
from krisis.data.phq8.items import ITEM_KEYS
from krisis.data.phq8.retrieval import ReferenceLibrary, RetrievalOptions, passages
from krisis.data.phq8.transcripts import Transcript, Turn
from krisis.errors import BackendError, InvalidValue, MissingKey, UnknownName


def people(first: int, last: int) -> list[tuple[Transcript, dict[str, int]]]:
    cohort = draw_cohort(last, seed=3)[first:]
    return [
        (
            write_interview(person, seed=3, withheld_rate=0.2).transcript,
            dict(zip(ITEM_KEYS, person.scores, strict=True)),
        )
        for person in cohort
    ]


def test_passages_are_exchanges() -> None:
    turns = (
        Turn("participant", "hello"),
        Turn("interviewer", "sleep?"),
        Turn("participant", "badly"),
        Turn("participant", "mostly"),
    )
    assert passages(Transcript("1", turns)) == ["hello", "sleep? badly mostly"]


def test_tfidf_equals_scikit_learn() -> None:
    texts = [text for transcript, _ in people(0, 30) for text in passages(transcript)]
    ours = TfidfEmbedder()
    ours.fit(texts)
    theirs = TfidfVectorizer(token_pattern=r"[a-z0-9']{2,}", sublinear_tf=True).fit(texts)
    unseen = [text for transcript, _ in people(30, 35) for text in passages(transcript)]
    expected = theirs.transform(unseen) @ theirs.transform(texts).T
    np.testing.assert_allclose(
        ours.embed(unseen) @ ours.embed(texts).T, expected.toarray(), atol=1e-12
    )


def test_a_training_participant_never_gets_a_passage_of_their_own() -> None:
    training = people(0, 60)
    library = ReferenceLibrary(training, TfidfEmbedder())
    n_references = 0
    for transcript, _ in training:
        for key, retrieved in library.retrieve(transcript).items():
            n_references += len(retrieved.references)
            assert all(one.item == key for one in retrieved.references)
            assert transcript.participant_id not in {
                one.participant_id for one in retrieved.references
            }
    assert n_references > 500


def test_nothing_of_the_held_out_split_is_ever_retrieved() -> None:
    training, held_out = people(0, 60), people(60, 90)
    library = ReferenceLibrary(training, TfidfEmbedder())
    allowed = {transcript.participant_id for transcript, _ in training}
    scores = {transcript.participant_id: labels for transcript, labels in training}
    for transcript, _ in [*held_out, *training]:
        for key, retrieved in library.retrieve(transcript).items():
            for reference in retrieved.references:
                assert reference.participant_id in allowed
                assert reference.score == scores[reference.participant_id][key]


def test_signals_are_the_figures_of_the_shown_references() -> None:
    library = ReferenceLibrary(people(0, 60), TfidfEmbedder(), RetrievalOptions(n_references=3))
    transcript, _ = people(60, 61)[0]
    for retrieved in library.retrieve(transcript).values():
        signals = retrieved.signals()
        assert signals["retrieval_reference_count"] == len(retrieved.references) <= 3
        assert sorted(retrieved.similarities, reverse=True) == list(retrieved.similarities)
        if retrieved.similarities:
            assert signals["retrieval_similarity_max"] == retrieved.similarities[0]
            assert all(0.1 <= similarity <= 1 for similarity in retrieved.similarities)


def test_a_transcript_without_the_topic_retrieves_nothing() -> None:
    library = ReferenceLibrary(people(0, 30), TfidfEmbedder())
    silent = Transcript("x", (Turn("participant", "zzz qqq"),))
    for retrieved in library.retrieve(silent).values():
        assert retrieved.signals() == {
            "retrieval_reference_count": 0,
            "retrieval_similarity_mean": None,
            "retrieval_similarity_max": None,
        }


class _Embeddings(BaseHTTPRequestHandler):
    """A compatible endpoint: two numbers per text, in the reverse order of the input."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        vectors = [[float(len(text)), 1.0] for text in body["input"]]
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
        status = 404 if body["model"] == "absent" else 200
        reply = {"object": "list", "model": body["model"], "data": data[::-1], "usage": {}}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = HTTPServer(("127.0.0.1", 0), _Embeddings)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("endpoint")
def test_a_compatible_endpoint_embeds_in_the_order_of_the_input() -> None:
    embedder = EndpointEmbedder("tiny", batch_size=2)
    rows = embedder.embed(["a", "bbb", "ccccc"])
    np.testing.assert_allclose(rows[:, 0] / rows[:, 1], [1, 3, 5])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    with pytest.raises(BackendError, match=r"failed for 'absent'.*status 404") as caught:
        make_embedder("openai/absent").embed(["a secret passage"])
    assert "secret" not in str(caught.value)


def test_embedders_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_embedder("tfidf").name == "tfidf"
    with pytest.raises(UnknownName, match="did you mean 'tfidf'"):
        make_embedder("tfdif")
    with pytest.raises(InvalidValue, match="names no model"):
        make_embedder("openai/")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(MissingKey, match="OPENAI_API_KEY"):
        make_embedder("openai/text-embedding-3-small")
