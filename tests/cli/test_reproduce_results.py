"""`scripts/reproduce_results.py`: a PHQ-8 run file that selective prediction reads."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from krisis.backends.baselines.rules import Lexicon
from krisis.cli import app as command_line
from krisis.data.phq8.items import ITEM_KEYS
from krisis.errors import BackendError

SCRIPT = Path(__file__).parents[2] / "scripts" / "reproduce_results.py"
_SPEC = importlib.util.spec_from_file_location("reproduce_results", SCRIPT)
assert _SPEC is not None
reproduce = importlib.util.module_from_spec(_SPEC)
assert _SPEC.loader is not None
_SPEC.loader.exec_module(reproduce)

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    monkeypatch.chdir(tmp_path)

    def called(*arguments: str, command: object = reproduce.app) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["reproduce_results.py", *arguments])
        with pytest.raises(SystemExit) as caught:
            command_line.main(command)  # type: ignore[arg-type]
        printed = capsys.readouterr()
        return int(caught.value.code or 0), printed.out, printed.err

    return called


# With this seed the answers of an item differ in their scores too, not only in being given.
SMALL = ("--model", "lexicon", "--n-synthetic", "20", "--seed", "3", "--no-baselines")


def test_the_run_file_has_both_modes_and_every_consistency_variant_can_be_evaluated(
    call: Call,
) -> None:
    code, out, err = call(
        *SMALL,
        "--consistency-samples",
        "3",
        "--temperature",
        "0.7",
        "--output",
        "out/your_run.json",
    )
    assert code == 0, err
    assert "32/32" in err or "96/96" in err  # progress: 4 participants × 8 items × 3 samples
    assert "Run file: out/your_run.json" in out
    content = json.loads(Path("out/your_run.json").read_text())
    assert {"run_id", "git_commit"} <= set(content["run_metadata"])
    assert [e["provenance"]["mode"] for e in content["experiments"]] == ["zero_shot", "few_shot"]
    participant = content["experiments"][1]["results"]["results"][0]
    assert participant["success"] is True
    assert set(participant["item_signals"]) == set(ITEM_KEYS)
    assert len(participant["item_signals"]["Sleep"]["consistency_samples"]) == 3
    code, out, err = call(
        "selective", "out/your_run.json", "--mode", "few_shot", "--confidence", "all",
        "--bootstrap-resamples", "0", "--format", "json", command=command_line.app,
    )  # fmt: skip
    assert code == 0, err
    artifact = json.loads(out)
    found = set(artifact["confidence_variants"])
    # The signals of so few answers can all be alike and then rank nothing, with that reason.
    few = {"llm", "consistency_inverse_std"}
    unranked = artifact["variants_not_evaluated"]
    assert few <= found | set(unranked)
    assert all("so it ranks nothing" in unranked[name] for name in few - found)
    assert {"verbalized", "retrieval_similarity_mean"} <= found
    assert {"consistency", "hybrid_consistency"} <= found


@pytest.mark.parametrize(
    ("environment", "arguments", "n_samples"),
    [
        ({}, (), 1),
        ({"CONSISTENCY_ENABLED": "true"}, (), 5),
        ({"CONSISTENCY_ENABLED": "True", "CONSISTENCY_SAMPLES": "2"}, (), 2),
        ({"CONSISTENCY_ENABLED": "false", "CONSISTENCY_SAMPLES": "2"}, (), 1),
        ({"CONSISTENCY_ENABLED": "true"}, ("--consistency-samples", "3"), 3),
    ],
)
def test_the_environment_enables_samples_and_the_option_wins(
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    arguments: tuple[str, ...],
    n_samples: int,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code, _, err = call(*SMALL, "--mode", "zero_shot", "--limit", "1", *arguments)
    assert code == 0, err
    (path,) = Path("runs").glob("*.json")
    assert json.loads(path.read_text())["experiments"][0]["provenance"]["repeats"] == n_samples


def test_a_participant_that_fails_is_recorded_without_success(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, failing = Lexicon.evaluate_sample, "S0003"

    def evaluate_sample(self, record, sample_index):  # type: ignore[no-untyped-def]
        if record.cluster_id == failing:
            raise BackendError("no answer today")
        return judged(self, record, sample_index)

    monkeypatch.setattr(Lexicon, "evaluate_sample", evaluate_sample)
    code, _, err = call(*SMALL, "--mode", "zero_shot", "--display", "none")
    assert code == 0, err
    (path,) = Path("runs").glob("*.json")
    results = json.loads(path.read_text())["experiments"][0]["results"]["results"]
    assert {one["participant_id"]: one["success"] for one in results}[failing] is False
    assert sum(one["success"] for one in results) == len(results) - 1


@pytest.mark.parametrize(
    ("environment", "arguments", "message"),
    [
        ({"CONSISTENCY_ENABLED": "maybe"}, (), "CONSISTENCY_ENABLED must be true or false"),
        (
            {"CONSISTENCY_ENABLED": "true", "CONSISTENCY_SAMPLES": "0"},
            (),
            "CONSISTENCY_SAMPLES must be a whole number of 1 or more, not '0'",
        ),
        ({}, ("--output", "taken.json"), "taken.json exists already"),
        ({}, ("--mode", "zero_shot", "--mode", "one_shot"), "unknown mode 'one_shot'"),
        ({}, ("--data-path", "nowhere"), "nowhere does not exist"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_is_run(
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    Path("taken.json").write_text("kept")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code, _, err = call(*SMALL, *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not Path("runs").exists()
    assert Path("taken.json").read_text() == "kept"


def test_the_help_has_an_example(call: Call) -> None:
    code, out, _ = call("--help")
    assert code == 0
    assert "python scripts/reproduce_results.py --model lexicon" in " ".join(out.split())
