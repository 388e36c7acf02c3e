"""Answers in two calls go the way of all others: cached, halved, counted, bounded and resumed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.commands import krisis
from tests.documents import said

from krisis import Benchmark, PatientRecord
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.elicitation import Asking, Elicitation, Way
from krisis.backends.openai import OpenAIBackend
from krisis.backends.scripted import ScriptedBackend
from krisis.backends.template import PromptTemplate
from krisis.backends.wording import built_in_prompt
from krisis.data.base import FeatureDescription, RecordListSuite, Task
from krisis.data.perturbation import Perturbation, Perturbed
from krisis.errors import InvalidValue, ProviderUnavailable, RunConflict
from krisis.execution.cache import ReplyCache
from krisis.execution.grid import grid_of
from krisis.execution.options import Execution, batch_api_of
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.results.base import BenchmarkResult
from krisis.results.stops import Interrupted
from krisis.runs.load import list_runs, load_run, read_description

TASK = Task(
    "parity",
    "Is the marker odd?",
    {0: "even", 1: "odd"},
    {"marker": FeatureDescription("marker")},
)
TWICE = [Way.P_TRUE, Way.TWO_STEP]
Script = Callable[[ChatRequest], ChatReply | str]


def records(n: int) -> list[PatientRecord]:
    return [PatientRecord({"marker": i}, i % 2, record_id=f"r{i}") for i in range(n)]


def is_second(request: ChatRequest) -> bool:
    return "probability" in json.dumps(request.schema)


def good(request: ChatRequest) -> ChatReply:
    """Answer 1, with 0.5 in the first call and 0.75 in the second; every call takes 100 and 10."""
    one = {"probability": 0.75} if is_second(request) else {"abstained": False, "prediction": 1}
    if "confidence" in json.dumps(request.schema):
        one["confidence"] = 0.5
    if request.mode == "batch":
        names = request.schema["properties"]["results"]["items"]["properties"]["id"]["enum"]
        text = json.dumps({"results": [{"id": name, **one} for name in names]})
    else:
        text = json.dumps(one)
    return ChatReply(text, "stop", "m", input_tokens=100, output_tokens=10)


def backend(way: Way, script: Script = good, **options: Any) -> ScriptedBackend:
    made = ScriptedBackend(script, retry_base_seconds=0.0, **options)
    made.asking = Asking(elicit=Elicitation(way))
    return made


def run(way: Way, script: Script, n: int, size: int, **options: Any) -> BenchmarkResult:
    suite = RecordListSuite(records(n), TASK)
    execution = Execution(**options)
    return Benchmark(suite, backend(way, script), [], size, execution=execution).run()


@pytest.mark.parametrize("way", TWICE)
def test_a_malformed_second_reply_is_halved_and_the_first_is_not_asked_again(way: Way) -> None:
    calls: list[tuple[bool, int]] = []

    def script(request: ChatRequest) -> ChatReply:
        calls.append((is_second(request), request.n_records))
        if is_second(request) and request.n_records > 1:
            return replace(good(request), text='{"results": []}')
        return good(request)

    result = run(way, script, 4, 4)
    assert [row.confidence for row in result.evaluation_results] == [0.75] * 4
    assert calls == [
        (False, 4),
        *[(True, 4), (True, 2), (True, 1), (True, 1), (True, 2), (True, 1), (True, 1)],
    ]
    took = result.spending
    assert (took.n_api_calls, took.n_batch_splits) == (8, 3)
    # 100 for the first call and for each of 7 second ones, of which 3 were malformed.
    assert (took.input_tokens, took.lost_input_tokens) == (800, 300)


@pytest.mark.parametrize("way", TWICE)
def test_one_case_whose_second_call_fails_does_not_fail_the_others(way: Way) -> None:
    def script(request: ChatRequest) -> ChatReply:
        last = "marker: 2" in request.user and request.n_records == 1
        if is_second(request) and (request.n_records > 1 or last or "case_2" in request.user):
            return replace(good(request), text="no")
        return good(request)

    result = run(way, script, 3, 3)
    rows = result.evaluation_results
    assert [row.outcome for row in rows] == ["answered", "answered", "no_answer"]
    assert rows[2].failure_class == "malformed_reply"
    # Of the first call's 100 tokens 33 are the last row's, and lost with it; of the second calls
    # those about all three, about the first two, and both about the last.
    took = result.spending
    assert took.lost_input_tokens == 33 + 400
    assert took.input_tokens == 100 + 600


def test_a_second_call_is_retried_as_any_other() -> None:
    tries: Counter[bool] = Counter()

    def script(request: ChatRequest) -> ChatReply:
        tries[is_second(request)] += 1
        if is_second(request) and tries[True] < 3:
            raise ProviderUnavailable("busy", status=503)
        return good(request)

    result = run(Way.P_TRUE, script, 1, 1)
    assert result.evaluation_results[0].confidence == 0.75
    assert tries == {False: 1, True: 3}
    assert result.spending.n_retries == 2


@pytest.mark.parametrize("way", TWICE)
def test_a_run_that_is_stopped_finishes_the_answers_that_it_has_begun(
    way: Way, tmp_path: Path
) -> None:
    stop, asked = Stop(), Counter[bool]()

    def script(request: ChatRequest) -> ChatReply:
        asked[is_second(request)] += 1
        if not is_second(request) and asked[False] == 3:
            stop.request(Interrupted("interrupted"))
        return good(request)

    cache = ReplyCache(tmp_path / "replies.sqlite")
    suite, kind = RecordListSuite(records(5), TASK), backend(way, script)
    first = Execution(recorder=Recorder(tmp_path / "runs"), cache=cache, stop=stop)
    left = Benchmark(suite, kind, [], 1, execution=first).run()
    assert (len(left.evaluation_results), asked[True]) == (3, 3)
    (path,) = list_runs(tmp_path / "runs")
    again = Execution(recorder=Recorder.resume(path), cache=cache)
    result = Benchmark(suite, kind, [], 1, execution=again).run()
    assert asked == {False: 5, True: 5}
    assert [row.confidence for row in result.evaluation_results] == [0.75] * 5
    assert load_run(path).provenance.asking == result.provenance.asking
    cache.close()


def test_killed_between_the_calls_a_run_pays_for_no_first_reply_twice(
    tmp_path: Path, loopback: Any, worker: ModuleType, start_worker: Any
) -> None:
    server = loopback()
    options = {
        "out": str(tmp_path / "runs"),
        "cache": str(tmp_path / "replies.sqlite"),
        "n": 6,
        "base_url": server.base_url,
        "max_concurrency": 1,
        "elicit": "two-step",
    }
    process = start_worker({**options, "die_before_second": 3})
    assert process.communicate(timeout=300) == ("", "")
    assert process.returncode == -signal.SIGKILL
    counts = server.counts()
    assert (sum(counts["begun"].values()), counts["kinds"]["second"]) == (5, 2)
    (path,) = list_runs(tmp_path / "runs")
    assert len(load_run(path).evaluation_results) == 2
    result = worker.benchmark(options, Recorder.resume(path)).run()
    assert [row.confidence for row in result.evaluation_results] == [0.75] * 6
    assert result.spending.n_cache_hits == 1
    counts = server.counts()
    assert counts["kinds"] == {"good": 12, "second": 6}


def test_p_true_finds_the_answers_that_were_paid_for_before(tmp_path: Path) -> None:
    """Its first call is that of the usual way, byte for byte."""
    asked: Counter[bool] = Counter()

    def script(request: ChatRequest) -> ChatReply:
        asked[is_second(request)] += 1
        return good(request)

    for way in (Way.ANSWER, Way.P_TRUE, Way.P_TRUE):
        cache = ReplyCache(tmp_path / "replies.sqlite")
        result = run(way, script, 4, 2, cache=cache)
        cache.close()
    assert asked == {False: 2, True: 2}
    assert result.spending.n_cache_hits == 4


def test_repeats_in_another_form_are_asked_twice_as_well() -> None:
    seen: Counter[tuple[bool, int]] = Counter()

    def script(request: ChatRequest) -> ChatReply:
        seen[is_second(request), request.sample_index] += 1
        return good(request)

    model = backend(Way.TWO_STEP, script)
    model.asking = replace(model.asking, perturbed=Perturbed(Perturbation.PARAPHRASE, 0))
    suite = RecordListSuite(records(2), TASK)
    result = Benchmark(suite, model, [], 1, execution=Execution(repeats=2)).run()
    assert seen == dict.fromkeys([(False, 0), (True, 0), (False, 1), (True, 1)], 2)
    assert {row.confidence for row in result.rows} == {0.75}
    (other,) = {row.prompt for row in result.rows}
    assert "Say how probable it is that your answer is right" in other


@pytest.mark.parametrize("way", list(Way))
def test_the_stored_prompt_shows_no_value_in_either_call(way: Way) -> None:
    def script(request: ChatRequest) -> ChatReply:
        one = good(request)
        if way is Way.TOP_K:
            guess = [{"answer": 1, "probability": 0.5}]
            one.text = json.dumps({"abstained": False, "guesses": guess})
        if way is Way.RATIONALE:
            one.text = json.dumps({"rationale": "odd", **json.loads(one.text)})
        return one

    suite = RecordListSuite([PatientRecord({"marker": 73519}, 1, record_id="a")], TASK)
    result = Benchmark(suite, backend(way, script), []).run()
    (row,) = result.evaluation_results
    assert row.outcome == "answered"
    assert "73519" not in row.prompt
    assert ("second call" in row.prompt) == (way in TWICE)
    assert result.prompts.prompt_data_policy == "redacted"


def test_provider_batches_are_refused_before_anything_is_sent() -> None:
    model = OpenAIBackend("m", api_key="sk-1234567890abcdef", base_url="http://127.0.0.1:9/v1")
    assert batch_api_of(model)
    model.asking = Asking(elicit=Elicitation(Way.P_TRUE))
    with pytest.raises(InvalidValue, match="--elicit p-true takes two calls for an answer"):
        batch_api_of(model)


def recorded(tmp_path: Path, asking: Asking, recorder: Recorder) -> BenchmarkResult:
    made = ScriptedBackend(good)
    made.asking = asking
    execution = Execution(recorder=recorder)
    return Benchmark(RecordListSuite(records(2), TASK), made, [], execution=execution).run()


def test_a_run_is_known_by_its_prompt_and_its_way_of_asking(tmp_path: Path) -> None:
    own = PromptTemplate("mine", built_in_prompt())
    asking = Asking(own, Elicitation(Way.P_TRUE))
    result = recorded(tmp_path, asking, Recorder(tmp_path / "runs"))
    assert result.backend_name == "scripted · prompt mine · p-true"
    (path,) = list_runs(tmp_path / "runs")
    manifest = read_description(path)
    assert manifest.identity.asking == {"prompt_sha256": own.sha256, "elicit": "p-true"}
    kept = load_run(path)
    assert kept.backend_name == result.backend_name
    assert kept.provenance.asking is not None
    assert kept.provenance.asking.prompt_text == own.text
    assert f"SHA-256 {own.sha256[:12]}" in said(kept.document())
    changed = PromptTemplate("mine", built_in_prompt().replace("You may abstain.", "Abstain!"))
    for other in (Asking(changed, asking.elicit), Asking(own), Asking()):
        with pytest.raises(RunConflict, match=r"asking\.(prompt_sha256|elicit) was"):
            recorded(tmp_path, other, Recorder.resume(path))
    assert recorded(tmp_path, asking, Recorder.resume(path)).spending.n_api_calls == 2


def test_a_run_in_the_usual_way_has_the_identity_that_it_always_had(tmp_path: Path) -> None:
    result = recorded(tmp_path, Asking(), Recorder(tmp_path / "runs"))
    (path,) = list_runs(tmp_path / "runs")
    identity = read_description(path).identity
    assert (result.backend_name, identity.asking) == ("scripted", {})
    assert result.provenance.asking is None
    # As it is stored since the prompt states what each answer costs.
    assert identity.prompts == {
        "single": "e32cdbd31f3853810a16146de94009e4a0645c400959a587c651002510a74828",
        "batch": "863b168563192c54781fc216add2476796a3aadf221e61e47d0bd79ca7b6a3c6",
    }


# ── the command line, against a server ──


@pytest.fixture
def words(tmp_path: Path) -> Callable[..., list[str]]:
    def make(base_url: str, *more: str) -> list[str]:
        return [
            *("run", "ckd", "--model", "openai/parity-1", "--base-url", base_url),
            *("--limit", "6", "--batch-size", "3", "--display", "none", "--no-baselines"),
            *("--cache-path", str(tmp_path / "replies.sqlite"), *more),
        ]

    return make


def test_prompts_and_ways_are_compared_as_models_are(
    tmp_path: Path, loopback: Any, words: Any
) -> None:
    server = loopback()
    printed = krisis("run", "--print-prompt", cwd=tmp_path).stdout
    (tmp_path / "long.txt").write_text(printed)
    (tmp_path / "short.txt").write_text(printed.replace("You take part in an", "This is an"))
    asked = words(server.base_url, "--prompt", "long.txt", "--prompt", "short.txt")
    asked += ["--elicit", "p-true", "--metric", "accuracy"]
    code, out, err = krisis(*asked, cwd=tmp_path)
    assert code == 0, err
    names = {f"openai/parity-1 · prompt {name} · p-true" for name in ("long", "short")}
    assert all(name in out for name in names)
    (grid,) = [one for one in (tmp_path / "runs").iterdir() if one.is_dir()]
    assert {load_run(one).backend_name for one in list_runs(grid)} == names
    (tmp_path / "long.txt").unlink()  # the text is kept with the run
    (tmp_path / "short.txt").unlink()
    n_calls = sum(server.counts()["kinds"].values())
    code, _, err = krisis("resume", str(grid), cwd=tmp_path)
    assert code == 0, err
    one = list_runs(grid)[0]
    code, _, err = krisis("run", "--config", str(one), "--output", "again", cwd=tmp_path)
    assert code == 0, err
    assert sum(server.counts()["kinds"].values()) == n_calls
    (again,) = list_runs(tmp_path / "again")
    assert load_run(again).evaluation_results == load_run(one).evaluation_results
    code, out, err = krisis("compare", *map(str, list_runs(grid)), cwd=tmp_path)
    assert code == 0, err
    assert all(name.removeprefix("openai/") in " ".join(out.split()) for name in names)


def test_every_prompt_and_way_is_a_cell_of_a_grid(tmp_path: Path) -> None:
    for name in ("long", "short"):
        (tmp_path / f"{name}.txt").write_text(built_in_prompt() + name)
    prompts = [str(tmp_path / f"{name}.txt") for name in ("long", "short")]
    shared = {"suite": "ckd", "models": ["openai/m"], "max_cost": 1}
    plan = grid_of({**shared, "prompts": prompts, "elicits": ["answer", "top-k:2"]}, "plan")
    assert [cell.name for cell in plan.cells] == [
        "openai/m · ckd · prompt long",
        "openai/m · ckd · prompt long · top-k:2",
        "openai/m · ckd · prompt short",
        "openai/m · ckd · prompt short · top-k:2",
    ]
    again = grid_of(plan.content, "grid.json")  # holds the texts, not the names of the files
    assert [cell.config for cell in again.cells] == [cell.config for cell in plan.cells]
    assert plan.cells[2].config.asking.prompt == PromptTemplate(
        "short", built_in_prompt() + "short"
    )


def test_a_dry_run_shows_the_users_own_prompt_filled(tmp_path: Path, words: Any) -> None:
    printed = krisis("run", "--print-prompt", cwd=tmp_path).stdout
    (tmp_path / "mine.txt").write_text(printed.replace("Allowed answers:", "Pick one:"))
    asked = ["--prompt", "mine.txt", "--elicit", "two-step", "--dry-run"]
    code, out, _ = krisis(*words("http://127.0.0.1:9/v1", *asked), cwd=tmp_path)
    assert code == 0
    assert "Pick one:\n- 0: " in out
    assert "How probable is it that the answer you gave is correct?" in out
    assert "6 records in 4 calls of up to 3" in out
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--prompt", "nowhere.txt"], "nowhere.txt does not exist; name a prompt file"),
        (["--prompt", "bad.txt"], "unknown slot 'qestion'; did you mean 'question'?"),
        (["--elicit", "ptrue"], "did you mean 'p-true'?"),
        (["--elicit", "p-true", "--batch"], "--elicit p-true takes two calls"),
        (["--model", "guideline", "--elicit", "top-k"], "'guideline' writes no prompt"),
        (["--prompt", "a/x.txt", "--prompt", "b/x.txt"], "two prompts are named 'x'"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_sent(
    tmp_path: Path, words: Any, more: list[str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789abcdef")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text(built_in_prompt() + folder)
    (tmp_path / "bad.txt").write_text(built_in_prompt().replace("{question}", "{qestion}"))
    asked = words("http://127.0.0.1:9/v1", *more)
    if "guideline" in more:
        asked = ["run", "ckd", *more]
    code, out, err = krisis(*asked, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
