"""Grids of runs with the real SDKs against one server in three dialects, from plan to page."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.commands import krisis
from tests.execution.test_accounts import most_in

from krisis.execution.grid import grid_of
from krisis.pages import shell
from krisis.runs.load import list_runs, load_run
from krisis.runs.places import WriterLock

KEYS = {
    "OPENAI_API_KEY": "sk-planted-openai-0123456789",
    "ANTHROPIC_API_KEY": "sk-planted-anthropic-0123456789",
    "GEMINI_API_KEY": "planted-gemini-0123456789",
}
TWO_RULES = (
    *("--model", "guideline", "--model", "majority", "--limit", "4", "--display", "none"),
    *("--no-baselines", "--metric", "accuracy", "--n-synthetic", "20"),
)
CASE = re.compile(r"^case_\d+:", re.MULTILINE)
ENUM = re.compile(r'"enum": (\[[^\]]*\])')


class Provider:
    """OpenAI, Anthropic and Gemini at one address; counts every request, and may refuse one."""

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        self.latency_seconds = 0.0
        self.asked: list[tuple[float, str, str]] = []  # when, by whom, what
        self.answered: Counter[tuple[str, str]] = Counter()
        self.n_open = self.most_open = 0
        self._lock = threading.Lock()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, content = provider.reply(self.path, json.loads(body))
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *words: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

            def handle_error(self, *words: object) -> None:
                return  # a client that is killed hangs up

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer one request in the dialect of its path."""
        if "generateContent" in path:
            dialect, user = "gemini", body["contents"][-1]["parts"][0]["text"]
        else:
            dialect = "anthropic" if path.endswith("/messages") else "openai"
            user = body["messages"][-1]["content"]
        with self._lock:
            self.asked.append((time.monotonic(), dialect, user))
            self.n_open += 1
            self.most_open = max(self.most_open, self.n_open)
        try:
            time.sleep(self.latency_seconds)
        finally:
            with self._lock:
                self.n_open -= 1
        for name in {dialect, body.get("model", "")} & self.refused.keys():
            kind = {"type": "error", "message": "there is no such account or model"}
            return self.refused[name], {"type": "error", "error": kind}
        with self._lock:
            self.answered[dialect, json.dumps(body)] += 1
        return 200, _IN_DIALECT[dialect](_answer(json.dumps(body), user))


def _answer(body: str, user: str) -> str:
    choices = [json.loads(found) for found in ENUM.findall(body.replace('\\"', '"'))]
    answers = next((one for one in choices if "case_0" not in one), [1])
    n_cases = max(1, len(CASE.findall(user)))
    one = {"abstained": False, "prediction": answers[0], "confidence": 0.75}
    if "case_0" not in user:
        return json.dumps(one)
    return json.dumps({"results": [{"id": f"case_{i}", **one} for i in range(n_cases)]})


_IN_DIALECT: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai": lambda text: {
        "id": "1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    },
    "anthropic": lambda text: {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 100, "output_tokens": 10},
    },
    "gemini": lambda text: {
        "candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 10},
        "modelVersion": "m",
    },
}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = Provider()
    yield server
    server.close()


def three_models(address: str) -> list[dict[str, Any]]:
    return [
        {"model": "openai/m", "base_url": f"{address}/v1"},
        {"model": "anthropic/m", "base_url": address},
        {"model": "gemini/m", "base_url": address},
    ]


def write_plan(folder: Path, provider: Provider, **more: Any) -> Path:
    plan = {
        "suite": "ckd",
        "models": three_models(provider.address),
        "tasks": ["detection", "staging", "risk"],
        "limit": 12,
        "n_synthetic": 40,
        "batch_size": 4,
        "max_concurrency": 4,
        "display": "none",
        "baselines": False,
        "metrics": ["accuracy"],
        **more,
    }
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in plan.items() if v is not None}))
    return path


def only_grid(folder: Path) -> Path:
    (grid,) = [one for one in (folder / "runs").iterdir() if one.is_dir()]
    return grid


def openai_plan(folder: Path, provider: Provider, *, models: int = 2, **more: Any) -> Path:
    named = [
        {"model": f"openai/{name}", "base_url": f"{provider.address}/v1"} for name in "mno"[:models]
    ]
    return write_plan(folder, provider, models=named, **{"tasks": ["detection", "staging"], **more})


@pytest.mark.parametrize(
    "refused", [{"n": 404}, pytest.param({"anthropic": 401}, marks=pytest.mark.slow)], ids=str
)
def test_one_provider_fails_for_good_and_the_others_finish(
    refused: dict[str, int], tmp_path: Path, provider: Provider
) -> None:
    provider.refused |= refused
    tasks = ["detection", "staging", "risk"]
    make = openai_plan if "n" in refused else write_plan
    plan = make(tmp_path, provider, **({"models": 3} if "n" in refused else {}), tasks=tasks)
    code, out, err = krisis("run", "--config", str(plan), cwd=tmp_path)
    assert code == 1, err
    grid = only_grid(tmp_path)
    results = [load_run(run) for run in list_runs(grid)]
    whole = [one for one in results if one.n_left == 0]
    assert len(whole) == 6
    closed = "openai/n" if "n" in refused else "anthropic/m"
    assert len(re.findall(rf"{closed} · ckd \w+: failed: .*(key|model)", out)) == 3
    assert "3 of 9 cells are not finished, 3 failed" in err
    assert f"krisis resume runs/{grid.name}" in err
    code, _, refusal = krisis("resume", f"runs/{grid.name}", "--failed", cwd=tmp_path)
    assert (code, refusal.count("\n")) == (2, 1)
    assert f"type: krisis resume runs/{grid.name}/RUN --failed" in refusal
    first = dict(provider.answered)
    assert len(provider.asked) - len(first) <= 9
    assert set(first.values()) == {1}
    assert len(first) == 6 * 3

    code, out, _ = krisis("resume", f"runs/{grid.name}", cwd=tmp_path)
    assert code == 1
    assert dict(provider.answered) == first  # nothing was asked twice
    assert out.count("finished before") == 6

    provider.refused.clear()
    code, out, err = krisis("resume", f"runs/{grid.name}", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert set(provider.answered.values()) == {1}
    assert len(provider.answered) == 9 * 3
    page = grid.with_name(f"{grid.name}.html").read_text()
    assert all(f"ckd · {task}" in page for task in ("detection", "staging", "risk"))
    pairs = re.findall(r"<summary>(ckd · \w+)[^<]*: [^<]* compared with [^<]*</summary>", page)
    assert len(pairs) == 3 * 3  # the pairs of three models in three tasks
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert not any(key.encode() in path.read_bytes() for key in KEYS.values()), path


def test_cells_of_one_account_share_its_slots_and_one_budget(
    tmp_path: Path, provider: Provider
) -> None:
    provider.latency_seconds = 0.02
    plan = openai_plan(tmp_path, provider, max_concurrency=2, batch_size=1)
    code, _, err = krisis("run", "--config", str(plan), "--max-tokens", "60000", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert provider.most_open == 2
    assert len(provider.asked) == 4 * 12
    # Each call is billed 110 tokens: a budget of 30 of them ends the grid, not each of its cells.
    again = openai_plan(tmp_path, provider, out="again", cache=False, batch_size=1)
    words = ("run", "--config", str(again), "--max-tokens", str(30 * 110))
    n_before = len(provider.asked)
    code, out, err = krisis(*words, cwd=tmp_path)
    assert code == 0, err
    n_first = len(provider.asked) - n_before
    assert 15 <= n_first <= 30
    assert "max_tokens 3300" in out
    (grid,) = [one for one in (tmp_path / "again").iterdir() if one.is_dir()]
    code, _, err = krisis("resume", str(grid), cwd=tmp_path)  # what was spent is not forgotten
    assert len(provider.asked) - n_before <= 30
    code, _, err = krisis("resume", str(grid), "--max-tokens", "60000", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert len(provider.asked) - n_before == 4 * 12


def test_several_models_of_run_are_a_grid_and_its_grid_is_shown_first(tmp_path: Path) -> None:
    words = ("run", "ckd", "--model", "guideline", "--model", "majority", "--seed", "1")
    more = ("--seed", "2", "--limit", "8", "--display", "plain", "--no-baselines")
    more += ("--n-synthetic", "20")
    code, out, err = krisis(*words, *more, "--dry-run", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out.count("8 records in 1 calls, about 0 tokens, $0.00") == 4
    assert "4 cells, about $0.00; nothing was sent" in out
    priceless = ("run", "ckd", "--model", "openai/a", "--model", "openai/b", "--limit", "2")
    _, shown, _ = krisis(*priceless, "--dry-run", cwd=tmp_path)
    assert "2 cells, cost unknown; nothing was sent" in shown
    assert not (tmp_path / "runs").exists()
    code, out, err = krisis(*words, *more, "--metric", "accuracy", cwd=tmp_path)
    assert code == 0, err
    assert "guideline · ckd · seed 1: 8/8 · " in err  # a line for each cell
    assert len(list_runs(only_grid(tmp_path))) == 4
    title = r"(?m)^ckd · detection · (seed \d): Runs, best first$"
    assert re.findall(title, out) == ["seed 1", "seed 2"]  # seeds are different patients
    page = only_grid(tmp_path).with_suffix(".html").read_text()
    for seed in ("seed 1", "seed 2"):
        pair = f"ckd · detection · {seed}: majority compared with guideline"
        assert page.count(f"<summary>{pair}</summary>") == 1
    again = str(only_grid(tmp_path) / "grid.json")
    code, out, _ = krisis("run", "--config", again, "--print-config", cwd=tmp_path)
    assert out.count("model: guideline") == 2


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({}, "suite is missing"),
        ({"models": "guideline", "suite": "ckd"}, "models must be a list, received 'guideline'"),
        ({"models": [], "suite": "ckd"}, "models must be a list, received []"),
        ({"models": ["guidelin"], "suite": "ckd"}, "did you mean 'guideline'"),
        ({"models": ["guideline"], "suite": "ckd", "tasks": ["stagin"]}, "stagin"),
        ({"models": ["guideline"], "suite": "ckd", "modes": ["few"]}, "mode"),
        ({"models": ["guideline"], "tasks": ["staging"]}, "suite is missing"),
        ({"models": ["guideline", "lexicon"], "suite": "ckd"}, "lexicon"),
        ({"models": ["guideline"], "model": "logistic", "suite": "ckd"}, "both model and models"),
        ({"models": [{"temperature": 1}], "suite": "ckd"}, "lacks its model"),
        ({"models": [{"model": "guideline", "max_cost": 1}], "suite": "ckd"}, "whole grid"),
        ({"models": [{"model": "guideline", "temprature": 1}], "suite": "ckd"}, "temperature"),
        ({"models": ["guideline"], "suite": "ckd", "seeds": [1, "x"]}, "received 'x'"),
        ({"models": ["guideline"], "suite": "ckd", "seeds": [{"seed": 1}]}, "list of values"),
        ({"models": ["guideline"], "suite": "ckd", "max_cells": 0}, "max_cells"),
        ({"models": ["guideline"], "suite": "ckd", "max_cels": 2}, "max_cells"),
        ({"models": ["openai/a", "gemini/b"], "suite": "ckd"}, "openai/a, gemini/b: no key for"),
        (
            {"models": [{"model": "openai/a", "model_options": {"api_key": "x"}}], "suite": "ckd"},
            "looks like a secret",
        ),
        (
            {"models": ["guideline"], "tasks": [{"suite": "ckd", "mode": "a"}], "modes": ["b"]},
            "mode is set by an entry of tasks and by modes",
        ),
    ],
)
def test_a_mistake_in_a_plan_is_one_sentence_before_anything_is_made(
    plan: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*KEYS, "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    code, _, err = krisis("run", "--config", "plan.yaml", cwd=tmp_path)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_cost_bound_of_a_grid_needs_every_price_and_local_models_are_free(
    tmp_path: Path, provider: Provider
) -> None:
    plan = openai_plan(tmp_path, provider, max_cost=1.0)
    code, _, err = krisis("run", "--config", str(plan), cwd=tmp_path)
    assert code == 2
    assert "the price of openai/m, openai/n is not known" in err
    assert provider.asked == []
    assert not (tmp_path / "runs").exists()
    assert krisis("run", "ckd", *TWO_RULES, "--max-cost", "1", cwd=tmp_path)[0] == 0


def test_a_second_process_on_a_grid_is_refused_and_its_plan_is_kept(tmp_path: Path) -> None:
    assert krisis("run", "ckd", *TWO_RULES, cwd=tmp_path)[0] == 0
    grid = only_grid(tmp_path)
    lock = WriterLock(grid / "grid.json")
    code, _, err = krisis("resume", str(grid), cwd=tmp_path)
    lock.release()
    assert code == 2
    assert "is being written by another process" in err
    code, _, err = krisis("show", str(grid), cwd=tmp_path)
    assert code == 2
    assert f"{grid} is the folder of a grid; name one of its runs" in err
    assert krisis("run", "--config", str(grid / "grid.json"), cwd=tmp_path)[0] == 0
    repeated = [one for one in grid.parent.iterdir() if one.is_dir() and one != grid]
    assert [len(list_runs(one)) for one in repeated] == [2]
    manifest = grid / "grid.json"
    manifest.write_text(manifest.read_text().replace('"plan"', '"plam"'))
    code, _, err = krisis("resume", str(grid), cwd=tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "was it edited?" in err


def test_without_the_extra_for_pages_the_cells_finish_and_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    shell.environment.cache_clear()  # another test may have made a page before
    code, out, err = krisis("run", "ckd", *TWO_RULES, cwd=tmp_path)
    assert (code, out.count(": finished")) == (0, 2)
    assert err.count("writing HTML needs the extra 'report'") == 1
    assert not list((tmp_path / "runs").glob("*.html"))


def test_a_hosted_model_beside_a_cluster_is_refused_before_anything_is_made(
    tmp_path: Path, provider: Provider
) -> None:
    words = ("run", "ckd", *TWO_RULES, "--model", "openai/m", "--cluster", "local:2")
    code, _, err = krisis(*words, cwd=tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "openai/m is asked over a network" in err
    assert not (tmp_path / "runs").exists()


def test_the_models_of_a_task_follow_each_other_and_repetitions_are_one_cell() -> None:
    content = {
        "suite": "ckd",
        "models": ["guideline", {"model": "openai/a", "temperature": 1}, "guideline", "openai/a"],
        "tasks": ["detection", {"suite": "diabetes"}],
    }
    names = [cell.name for cell in grid_of(content, "plan").cells]
    assert names == [
        "guideline · ckd detection",
        "openai/a · ckd detection (temperature 1)",
        "openai/a · ckd detection (as usual)",
        "guideline · diabetes",
        "openai/a · diabetes (temperature 1)",
        "openai/a · diabetes (as usual)",
    ]


def start(*words: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "krisis", *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )


# A minute that lasts four seconds, on a machine that may be too busy to send anything for as long.
QUICK_GRID = """
from krisis.execution.pacing import rates
rates.MINUTE_SECONDS, rates.TRAVEL_SECONDS, rates.BURST_SECONDS = 4.0, 30.0, 0.1
from krisis.cli.app import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "limit", [{"requests_per_minute": 40}, {"tokens_per_minute": 20_000}], ids=["calls", "tokens"]
)
def test_a_server_never_sees_more_than_the_limit_from_the_cells_of_a_grid(
    limit: dict[str, int], tmp_path: Path, provider: Provider
) -> None:
    provider.latency_seconds = 0.02
    more = {"limit": 40, "batch_size": 1, "cache": False, "max_output_tokens": 100, **limit}
    plan = openai_plan(tmp_path, provider, models=3, tasks=["detection"], **more)
    words = [sys.executable, "-c", QUICK_GRID, "run", "--config", str(plan)]
    subprocess.run(words, cwd=tmp_path, stdout=subprocess.DEVNULL, check=True, timeout=300)
    assert len(provider.asked) == 3 * 40
    n_each = 1 if "requests_per_minute" in limit else 110
    (allowed,) = limit.values()
    times = sorted(at for at, _, _ in provider.asked)
    most = most_in([(at, n_each) for at in times], 4.0)
    per_minute = n_each * (len(times) - 1) / (times[-1] - times[0]) * 4
    print(f"{most} of {allowed} in the fullest minute, {per_minute:.0f} on average")
    assert most <= allowed


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600  # only for a run that hangs
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def rows_once(grid: Path, n_cells: int, n_rows: int) -> None:
    """Check that every record of every cell has exactly one row."""
    runs = list_runs(grid)
    assert len(runs) == n_cells
    for run in runs:
        result = load_run(run)
        assert len({row.record_id for row in result.evaluation_results}) == n_rows
        assert (result.n_left, result.damage) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("n_asked", [1, 20, 47, 90])
def test_a_grid_that_is_killed_loses_and_doubles_nothing(
    tmp_path: Path, provider: Provider, n_asked: int
) -> None:
    provider.latency_seconds = 0.03
    plan = write_plan(tmp_path, provider, batch_size=1, cache=False)
    grid = start("run", "--config", str(plan), cwd=tmp_path)
    wait_until(lambda: len(provider.asked) >= n_asked)
    grid.kill()
    grid.communicate()
    finished = {
        (run.name, row.record_id)
        for run in list_runs(only_grid(tmp_path))
        for row in load_run(run).evaluation_results
    }
    time.sleep(0.1)
    n_before = len(provider.asked)
    folder = f"runs/{only_grid(tmp_path).name}"
    code, _, err = krisis("resume", folder, cwd=tmp_path)
    assert (code, err) == (0, "")
    rows_once(only_grid(tmp_path), 9, 12)
    assert len(provider.asked) - n_before == 9 * 12 - len(finished)


@pytest.mark.slow
def test_ctrl_c_once_finishes_calls_in_progress_and_twice_quits(
    tmp_path: Path, provider: Provider
) -> None:
    provider.latency_seconds = 0.4
    plan = openai_plan(tmp_path, provider, batch_size=1, cache=False)
    grid = start("run", "--config", str(plan), cwd=tmp_path)
    wait_until(lambda: len(provider.asked) >= 6)
    grid.send_signal(signal.SIGINT)
    _, err = grid.communicate(timeout=60)
    assert grid.returncode == 130, err
    assert "Finishing calls in progress" in err
    folder = only_grid(tmp_path)
    n_rows = sum(len(load_run(run).evaluation_results) for run in list_runs(folder))
    assert n_rows == len(provider.asked) == sum(provider.answered.values()) < 48
    provider.latency_seconds = 30.0
    again = start("resume", str(folder), cwd=tmp_path)
    wait_until(lambda: len(provider.asked) > n_rows)
    again.send_signal(signal.SIGINT)
    time.sleep(0.3)
    again.send_signal(signal.SIGINT)
    began = time.monotonic()
    again.communicate(timeout=20)
    assert time.monotonic() - began < 15
    assert again.returncode != 0
    provider.latency_seconds = 0.0
    code, _, err = krisis("resume", str(folder), cwd=tmp_path)
    assert (code, err) == (0, "")
    rows_once(folder, 4, 12)
