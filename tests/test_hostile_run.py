"""One hostile run, opened by every command and page: nothing is executed, written or sent."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.commands import krisis, offered
from tests.invented_runs import (
    forge_description,
    forge_run,
    invented_rows,
    result_of,
    write_run,
)
from tests.stranger import Counting, counting_server, write_payload

from krisis.results.loading import load_result
from krisis.runs import door
from krisis.runs.read import open_run
from krisis.viewer.app import PAGES, create_app

COMMANDS = offered(
    [
        *(["resume"], ["resume", "--failed"], ["show"], ["doctor"], ["doctor", "--repair"]),
        *(["report", "-o", "out/r.html"], ["compare", "good.krisis"], ["audit"], ["info"]),
        *(["export", "--to", "csv", "-o", "out/r.csv"], ["selective"], ["sheet"], ["decide"]),
        *(
            ["export", "--to", "inspect", "-o", "out/r.json"],
            ["check", "--require", "accuracy >= 0.1"],
        ),
        *(["certify", "--risk", "0.3"], ["figure", "-o", "out/f.svg"]),
        *(["batches", "list"], ["batches", "wait"], ["batches", "collect"], ["batches", "cancel"]),
    ]
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    """Return the stranger's server, with keys in the environment."""
    for name in ("OPENAI_API_KEY", "COMPATIBLE_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-of-the-user-0123456789")
    with counting_server() as counting:
        yield counting


@pytest.fixture
def folder(tmp_path: Path, server: Counting) -> Path:
    """Return a folder with a hostile run and its result, and a good run beside it."""
    place = write_payload(tmp_path, tmp_path / "canary")
    (tmp_path / "victim").write_text("mine\n")
    (tmp_path / "out").mkdir()
    for name in ("good", "evil"):
        write_run(tmp_path / name, result_of(invented_rows(60), name))
    (tmp_path / "evil.json").unlink(missing_ok=True)
    config = {
        "suite": place,
        "model": place,
        "base_url": server.address,
        "metrics": [place, 7],
        "stop_when": f"{place} >= 0.5",
        "cluster": "tcp://127.0.0.1:9",
        "batch": True,
        "data_path": str(tmp_path / "victim"),
        "cache_path": str(tmp_path / "victim"),
        "prompt": str(tmp_path / "victim"),
        "prices": str(tmp_path / "victim"),
        "suite_options": {"path": place},
        "model_options": {"base_url": server.address},
        "limit": 10**30,
    }
    described = {"suite": place, "task": "<script>", "content_hash": "ab" * 32}
    evil, mimic = tmp_path / "evil.krisis", tmp_path / "mimic.krisis"
    # One run that this user made, by the id and the places that it names, and one of a stranger.
    shutil.copy(evil, mimic)
    forge_description(evil, config=config, run_id="../../victim", suite_description=described)
    forge_description(mimic, suite_description=described)
    for path in (evil, mimic):
        # Values that no run has: odd types, huge ones, JSON as deep as a well.
        forge_run(path, "rows", "position = 3", metadata="[" * 100_000, signals="[]")
        forge_run(path, "rows", "position = 4", prediction=b"x" * 1_000_000, confidence="high")
        forge_run(path, "rows", "position = 5", prompt=2**62, reply="text", model=7.5)
        forge_run(path, "cases", "position = 6", metadata='{"__class__": "os.system"}')
        forge_run(path, "usage", counts='{"n_calls": "many", "latencies_seconds": 7}')
    for path in (tmp_path / "good.krisis", evil, mimic):  # the hash of the rows comes last
        with open_run(path) as run:
            kept, hashed = run.scores(), run.rows_hash
        assert kept is not None
        kept.scores["Accuracy"] |= {"key": place, "parameters": {"n": 10**30}}
        forge_run(path, "scores", scores=json.dumps(kept.scores), rows_hash=hashed)
    shutil.copy(evil, tmp_path / "computing.krisis")
    with closing(sqlite3.connect(tmp_path / "computing.krisis")) as connection:
        connection.execute("CREATE VIEW runs AS SELECT load_extension('x') FROM rows")
        connection.execute("CREATE TRIGGER t AFTER INSERT ON scores BEGIN DELETE FROM rows; END")
        connection.execute("CREATE TABLE more (x DEFAULT (load_extension('x')))")
        connection.commit()
    result = result_of(invented_rows(60), place).to_dict()
    result["metric_scores"]["Accuracy"]["key"] = place
    result["extras"]["config"] = config
    (tmp_path / "evil.json").write_text(json.dumps(result))
    plan = {"models": [place], "suite": place, "base_url": server.address}
    grid = {"kind": "krisis.grid", "schema_version": 1, "grid_id": "a", "created_at": "x"}
    (tmp_path / "grid").mkdir()
    (tmp_path / "grid" / "grid.json").write_text(json.dumps({**grid, "plan": plan}))
    return tmp_path


def _nothing_happened(folder: Path, server: Counting) -> None:
    assert not (folder / "canary").exists()
    assert (folder / "victim").read_text() == "mine\n"
    assert server.requests == []


def test_the_hostile_runs_are_sealed_and_pass_the_door(folder: Path) -> None:
    """Otherwise the tests below would prove nothing."""
    for name in ("evil", "mimic"):
        result = load_result(folder / f"{name}.krisis")
        assert result.damage.startswith("DAMAGED: 3 damaged rows left out"), result.damage
        assert len(result.evaluation_results) == 57
        assert door.is_own(folder / f"{name}.krisis") == (name == "mimic")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("target", ["evil.krisis", "mimic.krisis", "evil.json"])
def test_a_command_does_nothing_that_a_hostile_run_asks_for(
    words: list[str], target: str, folder: Path, server: Counting
) -> None:
    n_named = 2 if words[0] in ("doctor", "batches") and not words[-1].startswith("-") else 1
    done = krisis(*words[:n_named], target, *words[n_named:], cwd=folder)
    assert done.returncode in (0, 1, 2)
    assert "Traceback" not in done.stderr
    _nothing_happened(folder, server)


@pytest.mark.parametrize(
    "words",
    [
        ["resume", "grid"],
        ["run", "--config", "grid/grid.json"],
        ["run", "--config", "grid/grid.json", "--dry-run"],
        ["run", "--config", "evil.krisis"],
        ["run", "--config", "evil.krisis", "--dry-run"],
    ],
    ids=" ".join,
)
def test_settings_of_a_stranger_are_refused(
    words: list[str], folder: Path, server: Counting
) -> None:
    assert krisis(*words, cwd=folder).returncode == 2
    _nothing_happened(folder, server)


@pytest.mark.parametrize("has_link", [False, True])
def test_no_page_does_what_a_hostile_run_asks_for(
    has_link: bool, folder: Path, server: Counting
) -> None:
    if has_link and os.name != "nt":
        (folder / "evil.krisis-wal").symlink_to(folder / "victim")
    client = TestClient(create_app(folder), base_url="http://127.0.0.1")
    for name in ("evil", "mimic", "computing"):
        for route in PAGES:
            path = route.replace("{run}", name).replace("{position:int}", "0")
            for form in (path, "/index.json" if path == "/" else f"{path}.json"):
                assert client.get(f"{form}?run={name}&run=good").status_code < 500, form
    _nothing_happened(folder, server)
