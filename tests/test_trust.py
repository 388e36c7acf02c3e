"""What a stranger sent is data: no name in it is executed, no address asked, no link followed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.commands import Done, krisis
from tests.invented_runs import forge_description, invented_rows, result_of
from tests.stranger import Counting, counting_server, edit_json, write_payload

from krisis import registry
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.scoring import metric_from_name, registered_metrics
from krisis.results.base import BenchmarkResult
from krisis.runs.trust import is_own, note_own, places_of, require_own

KEY = "sk-of-the-user-0123456789"


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Return the file that the stranger's code writes once it is executed."""
    return tmp_path / "canary"


@pytest.fixture
def payload(tmp_path: Path, canary: Path) -> str:
    """Write code of a stranger and return its place."""
    return write_payload(tmp_path, canary)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    """Return a server that counts what it is sent, with a key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with counting_server() as counting:
        yield counting


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a finished run of the user's own."""
    done = krisis("run", "ckd", "--model", "guideline", "--limit", "6", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return next((tmp_path / "runs").iterdir())


def test_a_place_is_no_registered_name(payload: str, canary: Path) -> None:
    with pytest.raises(UnknownName):
        registry.find("metrics", payload)
    assert not canary.exists()
    assert metric_from_name(payload).key == payload  # the user typed it
    assert canary.exists()


@pytest.mark.parametrize("form", ["{}", "{} ", " {}", "{}[n=1]", "\t{}\n"])
def test_a_place_in_a_list_of_stored_names_is_left_out(
    form: str, payload: str, canary: Path
) -> None:
    assert registered_metrics([form.format(payload)]) == []
    assert not canary.exists()


def test_comparing_executes_no_code_that_a_result_names(
    payload: str, canary: Path, tmp_path: Path
) -> None:
    for name in ("evil", "good"):
        content = result_of(invented_rows(40), name).to_dict()
        content["metric_scores"]["Accuracy"]["key"] = payload
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    done = krisis("compare", "evil.json", "good.json", cwd=tmp_path)
    assert done.returncode == 0
    assert "its class is not installed here" in " ".join(done.stdout.split())
    assert not canary.exists()
    assert BenchmarkResult.load(tmp_path / "evil.json").metric_scores["Accuracy"].key == payload


def test_a_run_of_ones_own_is_resumed_from_any_folder(run: Path, tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    assert krisis("resume", str(run), cwd=elsewhere).returncode == 0
    shutil.copy(run, elsewhere / "copy.krisis")
    assert krisis("resume", "copy.krisis", cwd=elsewhere).returncode == 0


@pytest.mark.parametrize("more", [[], ["--failed"]])
def test_a_strangers_run_is_resumed_only_on_trust(
    more: list[str], run: Path, payload: str, canary: Path
) -> None:
    forge_description(run, run_id="abcdef", config={"suite": payload})
    _is_refused(krisis("resume", str(run), *more, cwd=run.parent), f"suite: {payload}", "--trust")
    assert not canary.exists()
    krisis("resume", str(run), "--trust", *more, cwd=run.parent)
    assert canary.exists()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("suite", "PAYLOAD"),
        ("model", "PAYLOAD"),
        ("metrics", ["PAYLOAD"]),
        ("stop_when", "PAYLOAD >= 0.5"),
        ("base_url", "http://127.0.0.1:1/v1"),
        ("model_options", {"base_url": "http://127.0.0.1:1/v1"}),
        ("cluster", "tcp://127.0.0.1:1"),
        ("data_path", "/etc/passwd"),
        ("suite_options", {"path": {"deep": ["/etc/passwd"]}}),
        ("cache_path", "/tmp/cache.sqlite"),
        ("prices", "/etc/passwd"),
        ("prompt", "/etc/passwd"),
    ],
)
def test_the_id_of_ones_own_run_with_another_place_is_not_ones_own(
    setting: str, value: object, run: Path, payload: str, canary: Path
) -> None:
    edited = json.loads(json.dumps(value).replace("PAYLOAD", payload))
    forge_description(run, config={setting: edited})
    _is_refused(krisis("resume", str(run), cwd=run.parent), setting, "--trust")
    assert not canary.exists()


def test_a_relative_place_is_that_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        found.append(places_of({"suite": "clinic.py:Clinic", "model": "openai/m", "prompt": "a"}))
    assert found[0] != found[1]
    assert found[0][1] == found[1][1] == ("model", "openai/m")


def test_a_run_is_ones_own_from_any_folder_but_what_it_names_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"suite": "clinic.py:Clinic"}
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    note_own("a-run", settings)
    require_own(Path("a.krisis"), "a-run", settings, instead="")
    monkeypatch.chdir(tmp_path / "theirs")
    assert is_own("a-run", settings)
    with pytest.raises(InvalidValue, match=f"suite: {tmp_path / 'theirs' / 'clinic.py'}"):
        require_own(Path("a.krisis"), "a-run", settings, instead="")
    assert not is_own("another", settings)
    assert not is_own("a-run", {"suite": "clinic.py:Other"})


def test_a_strangers_run_is_no_configuration(
    run: Path, payload: str, canary: Path, tmp_path: Path
) -> None:
    settings = str(run)
    assert krisis("run", "--config", settings, cwd=tmp_path).returncode == 0  # one's own
    forge_description(run, run_id="abcdef", config={"suite": payload})
    for more in ([], ["--dry-run"], ["--resume"]):
        done = krisis("run", "--config", settings, *more, cwd=tmp_path)
        _is_refused(done, payload, "--print-config")
    done = krisis("run", "--config", settings, "--print-config", cwd=tmp_path)
    assert payload in done.stdout
    assert not canary.exists()


def test_a_strangers_grid_is_finished_only_on_trust(
    tmp_path: Path, payload: str, canary: Path
) -> None:
    models = ["--model", "guideline", "--model", "majority"]
    assert krisis("run", "ckd", *models, "--limit", "6", cwd=tmp_path).returncode == 0
    (folder,) = (one for one in (tmp_path / "runs").glob("*_grid_*") if one.is_dir())
    assert krisis("resume", str(folder), cwd=tmp_path).returncode == 0
    edit_json(folder / "grid.json", plan={"models": ["guideline", payload]})
    _is_refused(krisis("resume", str(folder), cwd=tmp_path), payload, "--trust")
    _is_refused(
        krisis("run", "--config", str(folder / "grid.json"), cwd=tmp_path), payload, "its plan"
    )
    assert not canary.exists()


def test_a_key_is_not_sent_to_the_address_of_a_strangers_run(
    run: Path, server: Counting, tmp_path: Path
) -> None:
    theirs = {"model": "openai/m", "base_url": server.address, "batch": True}
    forge_description(run, run_id="abcdef", config=theirs)
    for words in (["resume"], ["resume", "--failed"], ["batches", "list"], ["batches", "collect"]):
        _is_refused(krisis(*words, str(run), cwd=tmp_path), server.address, "--trust")
    assert not server.requests


def test_a_key_is_sent_to_the_address_of_ones_own_run(server: Counting, tmp_path: Path) -> None:
    words = ["--model", "openai/m", "--base-url", server.address, "--limit", "2", "--no-baselines"]
    krisis("run", "ckd", *words, "--max-retries", "0", cwd=tmp_path)
    assert KEY in server.requests[0]
    n_before = len(server.requests)
    krisis("resume", str(next((tmp_path / "runs").iterdir())), cwd=tmp_path)
    assert len(server.requests) > n_before


def test_the_list_of_places_is_short_and_shows_hidden_characters(run: Path) -> None:
    hidden = {f"o{i}": "\x1b[2J" + "x" * 9999 for i in range(99)}
    forge_description(run, config={"model_options": hidden})
    done = krisis("resume", str(run), cwd=run.parent)
    _is_refused(done, "--trust")
    assert len(done.stderr) < 20_000
    assert "\x1b" not in done.stderr


def _is_refused(done: Done, *words: str) -> None:
    assert done.returncode == 2, done
    for word in words:
        assert word in done.stderr, done.stderr
