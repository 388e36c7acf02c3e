"""The suite through the engine: batches, halving, quotes and what a run directory may hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from krisis.backends.baselines.rules import Lexicon
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.reply import read_answers
from krisis.backends.scripted import ScriptedBackend
from krisis.backends.signals import TokenLogprob
from krisis.benchmark import Benchmark
from krisis.data.base import SuiteConfig
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.task import TASK
from krisis.errors import MalformedReply
from krisis.execution.cache import ReplyCache
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.runs.read import open_run

CONFIG = SuiteConfig(n_synthetic=15)  # three participants are held out
ANSWER = {
    "evidence_quotes": ["Bit", "I made this up"],
    "verbalized_confidence": 4,
    "abstained": False,
    "prediction": 1,
    "confidence": 0.7,
}


def answers(n_records: int) -> str:
    return json.dumps({"results": [{"id": f"case_{i}", **ANSWER} for i in range(n_records)]})


def test_one_call_scores_the_eight_items_of_one_participant() -> None:
    seen: list[ChatRequest] = []

    def script(request: ChatRequest) -> str:
        seen.append(request)
        return answers(request.n_records)

    suite = PHQ8Suite(CONFIG)
    contexts = {record.context for record in suite.load()}
    result = Benchmark(suite, ScriptedBackend(script), batch_size=8).run()
    assert [request.n_records for request in seen] == [8, 8, 8]
    for request in seen:
        assert sum(request.user.count(context) for context in contexts) == 1
    row = result.evaluation_results[0]
    assert row.signals["llm_evidence_count"] == 0
    assert row.signals["quotes_not_found"] == ANSWER["evidence_quotes"]


def test_a_malformed_batch_is_halved_and_keeps_the_transcript() -> None:
    sizes: list[int] = []

    def script(request: ChatRequest) -> str:
        sizes.append(request.n_records)
        assert suite.load()[0].context in request.user
        if request.n_records > 2:
            return "{}"
        return answers(request.n_records) if request.mode == "batch" else json.dumps(ANSWER)

    suite = PHQ8Suite(SuiteConfig(n_synthetic=2))
    result = Benchmark(suite, ScriptedBackend(script)).run()
    assert sizes == [8, 4, 2, 2, 4, 2, 2]
    assert all(row.prediction == 1 for row in result.evaluation_results)


def test_token_signals_are_those_of_the_items_own_score() -> None:
    def script(request: ChatRequest) -> ChatReply:
        text = answers(request.n_records)
        pieces = text.split('"prediction": 1')
        tokens: list[TokenLogprob] = []
        for number, piece in enumerate(pieces):
            tokens.append(TokenLogprob(piece, -0.01, ((piece, -0.01),)))
            if number < len(pieces) - 1:
                tokens.append(TokenLogprob('"prediction": ', 0.0, (("x", 0.0),)))
                score = -0.1 * (number + 1)
                tokens.append(TokenLogprob("1", score, (("1", score), ("2", -3.0))))
        return ChatReply(text, "stop", logprobs=tuple(tokens))

    rows = Benchmark(PHQ8Suite(CONFIG), ScriptedBackend(script)).run().evaluation_results
    found = [row.signals["token_msp"] for row in rows[:8]]
    assert found == pytest.approx([2.718281828459045 ** (-0.1 * (i + 1)) for i in range(8)])
    assert {"token_pe", "token_energy"} <= set(rows[0].signals)


@pytest.mark.parametrize("value", [0, 6, True, 2.5, "4"])
def test_a_verbalized_confidence_off_the_scale_is_malformed(value: object) -> None:
    reply = json.dumps({**ANSWER, "verbalized_confidence": value})
    with pytest.raises(MalformedReply, match="verbalized_confidence"):
        read_answers(reply, TASK)


def test_not_applicable_is_an_abstention_and_never_an_answer() -> None:
    reply = {**ANSWER, "prediction": "N/A", "confidence": None}
    (answer,) = read_answers(json.dumps({**reply, "abstained": True}), TASK)
    assert (answer.prediction, answer.abstained) == (None, True)
    with pytest.raises(MalformedReply, match="neither answers nor abstains"):
        read_answers(json.dumps(reply), TASK)


def test_a_verbalized_confidence_may_be_null() -> None:
    (answer,) = read_answers(json.dumps({**ANSWER, "verbalized_confidence": None}), TASK)
    assert answer.signals["verbalized_confidence"] is None


def write_users_interviews(folder: Path) -> None:
    """Lay out the synthetic cohort as a user's licensed directory, with marked words."""
    lines = ["Participant_ID," + ",".join(f"PHQ8_{key}" for key in _keys())]
    for number in range(300, 306):
        place = folder / f"{number}_P"
        place.mkdir(parents=True)
        (place / f"{number}_TRANSCRIPT.csv").write_text(
            "start_time\tstop_time\tspeaker\tvalue\n"
            "0\t1\tEllie\thow do you sleep\n"
            "1\t2\tParticipant\txylophone i lie awake most nights xylophone\n"
        )
        lines.append(f"{number},0,0,2,0,0,0,0,0")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")


def _keys() -> list[str]:
    return [
        "NoInterest", "Depressed", "Sleep", "Tired", "Appetite", "Failure", "Concentrating",
        "Moving",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["zero_shot", "few_shot"])
def test_a_run_on_a_users_interviews_holds_ids_and_figures_only(tmp_path: Path, mode: str) -> None:
    write_users_interviews(tmp_path / "daic")
    suite = PHQ8Suite(data=tmp_path / "daic", mode=mode)
    cache = ReplyCache(tmp_path / "cache.sqlite")
    execution = Execution(recorder=Recorder(tmp_path / "runs"), cache=cache)
    result = Benchmark(suite, Lexicon(), execution=execution).run()
    cache.close()
    answered = [row for row in result.evaluation_results if not row.abstained]
    assert [row.prediction for row in answered] == [2]
    assert answered[0].signals["llm_evidence_count"] == 1
    files = [path for path in tmp_path.rglob("*") if path.is_file() and "daic" not in path.parts]
    assert len(files) > 1
    for path in files:
        assert b"xylophone" not in path.read_bytes(), path
    assert any(b"Sleep" in path.read_bytes() for path in files)


def test_a_reply_about_a_users_interviews_that_cannot_be_read_is_not_quoted(tmp_path: Path) -> None:
    write_users_interviews(tmp_path / "daic")
    suite = PHQ8Suite(data=tmp_path / "daic")
    backend = ScriptedBackend(lambda request: "they said xylophone and more xylophone")
    execution = Execution(recorder=Recorder(tmp_path / "runs"))
    result = Benchmark(suite, backend, execution=execution).run()
    assert result.attrition.n_lost == 8
    for path in (tmp_path / "runs").rglob("*"):
        assert path.is_dir() or b"xylophone" not in path.read_bytes(), path


def test_a_run_holds_the_transcript_of_synthetic_interviews_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    suite = PHQ8Suite(CONFIG)
    Benchmark(suite, Lexicon(), execution=Execution(repeats=2, recorder=recorder)).run()
    assert recorder.path is not None
    with open_run(recorder.path) as run:
        features = run.features()
        for context in {record.context for record in suite.load()}:
            found = run.select("SELECT count(*) FROM texts WHERE text = ?", context)
            assert found == [(1,)]
    assert [features[i]["context"] for i in range(24)] == [r.context for r in suite.load()]
    assert features[0]["item"].startswith("interest: ")
