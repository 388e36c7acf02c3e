"""A real language model, in this process and behind llama.cpp's own server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from krisis.backends.catalogue import backend_from_name
from krisis.backends.compatible import CompatibleBackend
from krisis.backends.elicitation import Asking, Elicitation, Way
from krisis.backends.local import PULLABLE, LocalBackend
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, RecordListSuite
from krisis.errors import (
    InvalidFile,
    InvalidValue,
    RequestRefused,
    RunFailed,
    TruncatedReply,
)
from krisis.pulling import pull


@pytest.fixture(scope="session")
def smollm2() -> Path:
    try:
        return pull(PULLABLE["smollm2"])
    except RunFailed as error:
        pytest.skip(f"the model cannot be obtained here: {error}")


@pytest.fixture
def local(smollm2: Path, suite: RecordListSuite) -> LocalBackend:
    backend = LocalBackend("smollm2", n_context_tokens=2048)
    backend.prepare(suite)
    return backend


def test_the_kept_file_has_the_published_hash(smollm2: Path) -> None:
    assert PULLABLE["smollm2"].is_intact(smollm2)


@pytest.mark.slow
def test_a_batch_is_held_to_the_schema_and_each_case_has_its_own_signals(
    local: LocalBackend, records: list[PatientRecord]
) -> None:
    responses = local.evaluate_batch(records[:2])
    assert len(responses) == 2
    for response in responses:
        assert response.abstained or response.prediction in (1, 2, 3, 4, 5)
        assert response.confidence is None or 0 <= response.confidence <= 1
        assert response.input_tokens
        assert response.output_tokens
        assert response.model == "smollm2"
        if response.prediction is not None:
            assert 0 < response.signals["token_msp"] <= 1
            assert response.signals["token_pe"] >= 0
            assert response.signals["token_energy"] <= 1e-6
    told = {response.signals.get("token_msp") for response in responses}
    assert len(told) == len(responses)


@pytest.mark.slow
@pytest.mark.parametrize("way", list(Way))
def test_a_real_model_is_asked_in_every_way(
    local: LocalBackend, suite: RecordListSuite, way: Way
) -> None:
    """What it says is up to the model; that a row is an answer or a malformed one is not."""
    local.asking = Asking(elicit=Elicitation(way))
    result = Benchmark(suite, local, [], batch_size=1).run()
    rows = result.evaluation_results
    assert {row.failure_class for row in rows if row.error is not None} <= {"malformed_reply"}
    for row in rows:
        if row.outcome == "answered" and way is not Way.ANSWER:
            assert row.signals[local.asking.elicit.signal] == row.confidence
        if row.outcome == "answered" and way is Way.RATIONALE:
            assert row.signals["rationale"]
    n_answered = sum(row.outcome == "answered" for row in rows)
    # No schema holds a small model to different guesses, or to probabilities that add up to 1.
    assert n_answered or way is Way.TOP_K
    if local.asking.elicit.asks_twice:
        assert result.spending.n_api_calls >= len(rows) + n_answered


@pytest.mark.slow
def test_the_same_request_gives_the_same_reply_whatever_came_before(
    local: LocalBackend, records: list[PatientRecord]
) -> None:
    first = local.evaluate(records[0])
    local.evaluate_batch(records)
    again = local.evaluate(records[0])
    assert again.raw_response == first.raw_response
    assert again.signals == first.signals


def test_a_prompt_longer_than_the_context_is_refused_with_advice(
    smollm2: Path, suite: RecordListSuite
) -> None:
    backend = LocalBackend("smollm2", n_context_tokens=512)
    backend.prepare(suite)
    request = backend.build([suite.load()[0].features] * 30, mode="batch")
    with pytest.raises(RequestRefused, match=r"raise n_context_tokens .* smaller batch size"):
        asyncio.run(backend.complete(request))


@pytest.fixture
def address(smollm2: Path) -> Iterator[str]:
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(smollm2)
    settings.n_ctx = 2048
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.verbosity = -1
    settings.warmup = False
    server = xllamacpp.Server(settings)
    yield f"{server.listening_address}/v1"
    del server


@pytest.mark.slow
def test_the_server_of_llama_cpp_is_spoken_to_like_any_compatible_one(
    address: str, suite: RecordListSuite, records: list[PatientRecord]
) -> None:
    backend = CompatibleBackend("smollm2", base_url=address, temperature=0.0, max_tokens=400)
    backend.prepare(suite)
    response = backend.evaluate(records[0])
    backend.close()
    assert backend.ladder.current == "json_schema"
    assert backend.ladder.proven
    assert response.abstained or response.prediction in (1, 2, 3, 4, 5)
    assert response.input_tokens
    assert response.output_tokens
    if response.prediction is not None:
        assert 0 < response.signals["token_msp"] <= 1


def test_a_model_that_is_not_here_says_how_to_obtain_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if PULLABLE["smollm2"].path.is_file():
        pytest.skip("this system keeps its cache elsewhere")
    with pytest.raises(InvalidFile, match="type: krisis pull smollm2"):
        backend_from_name("local/smollm2")


def test_other_files_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="no model file"):
        LocalBackend(str(tmp_path / "none.gguf"))
    text = tmp_path / "text.gguf"
    text.write_text("hello", encoding="utf-8")
    with pytest.raises(InvalidFile, match="not a GGUF file"):
        LocalBackend(str(text))


def test_bad_numbers_are_refused(smollm2: Path) -> None:
    with pytest.raises(InvalidValue, match="n_context_tokens"):
        LocalBackend("smollm2", n_context_tokens=0)
    with pytest.raises(InvalidValue, match="n_threads"):
        LocalBackend("smollm2", n_threads=0)


@pytest.mark.slow
def test_a_cut_reply_says_to_raise_the_cap(smollm2: Path, suite: RecordListSuite) -> None:
    backend = LocalBackend("smollm2", n_context_tokens=2048, max_tokens=4)
    backend.prepare(suite)
    with pytest.raises(TruncatedReply, match="raise the token cap"):
        backend.evaluate(suite.load()[0])


@pytest.mark.slow
def test_the_example_shows_the_model_beside_the_baselines(smollm2: Path) -> None:
    program = Path(__file__).parents[2] / "examples" / "local_model.py"
    done = subprocess.run(
        [sys.executable, str(program), "4"], capture_output=True, text=True, check=True
    )
    for name in ("local/smollm2", "guideline", "logistic"):
        assert f"│ {name} " in done.stdout
