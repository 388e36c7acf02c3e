"""`krisis run phq8`: modes, the run file, the notice and the limits that users set."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.invented_runs import edit_run

from krisis.cli import app as command_line
from krisis.confidence.calibrators import calibrator_from
from krisis.json_values import read_object
from krisis.results.run_items import read_items


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Krisis = Callable[..., Done]


@pytest.fixture
def krisis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Krisis:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(*arguments: str) -> Done:
        monkeypatch.setattr("sys.argv", ["krisis", *arguments])
        with pytest.raises(SystemExit) as caught:
            command_line.main()
        printed = capsys.readouterr()
        return Done(int(caught.value.code or 0), printed.out, printed.err)

    return call


def run_file(folder: Path) -> dict[str, object]:
    (path,) = (folder / "runs").glob("*.json")
    content: dict[str, object] = json.loads(path.read_text())
    return content


def test_two_modes_give_two_runs_and_one_run_file(tmp_path: Path, krisis: Krisis) -> None:
    done = krisis(
        "run", "phq8", "--mode", "zero_shot", "--mode", "few_shot", "--model", "lexicon",
        "--repeats", "2", "--temperature", "0.7", "--n-synthetic", "20",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    directories = list((tmp_path / "runs").glob("*.krisis"))
    assert len(directories) == 2
    experiments = run_file(tmp_path)["experiments"]
    assert isinstance(experiments, list)
    assert [one["provenance"]["mode"] for one in experiments] == ["zero_shot", "few_shot"]
    assert "Run file: runs/" in done.stdout


def test_ties_of_repeats_are_advised_against_counted_and_explained(
    tmp_path: Path, krisis: Krisis
) -> None:
    done = krisis(
        "run", "phq8", "--model", "lexicon", "--repeats", "2", "--temperature", "0.9",
        "--n-synthetic", "40", "--no-baselines",
    )  # fmt: skip
    assert "2 repeats can tie" in done.stderr
    (path,) = (tmp_path / "runs").glob("*.json")
    (experiment,) = json.loads(path.read_text())["experiments"]
    people = experiment["results"]["results"]
    pairs = [
        (signals["consistency_samples"], person["predicted_items"][key])
        for person in people
        for key, signals in person["item_signals"].items()
    ]
    tied = [answer for (first, second), answer in pairs if first != second]
    lost = [answer for (one, two), answer in pairs if answer is None and {one, two} != {None}]
    assert lost
    assert experiment["provenance"]["ties"] == {
        "n_samples": 128,
        "n_samples_answered": sum(one is not None for both, _ in pairs for one in both),
        "n_items": 64,
        "n_items_answered": sum(answer is not None for _, answer in pairs),
        "n_tied": len(tied),
        "n_tied_abstained": len(lost),
    }
    sentence = f"{len(tied)} of 64 items asked repeatedly have no single commonest answer"
    assert sentence in done.stderr
    again = krisis(
        "export",
        str(path.with_suffix(".krisis")),
        "--to",
        "run-file",
        "-o",
        str(path),
        "--overwrite",
    )
    assert again.stdout.strip() == f"wrote {path}"
    assert sentence in again.stderr
    judged = krisis("selective", str(path), "--bootstrap-resamples", "0")
    told = " ".join(judged.stdout.split())  # lines are broken anywhere
    assert f"Ties (lexicon): {sentence}" in told
    assert f"so {len(lost)} of them count as abstained" in told
    odd = krisis(
        "run", "phq8", "--model", "lexicon", "--repeats", "3", "--limit", "8", "--output", "x"
    )
    assert "repeats can tie" not in odd.stderr


def test_a_limit_keeps_participants_whole(tmp_path: Path, krisis: Krisis) -> None:
    done = krisis("run", "phq8", "--model", "lexicon", "--limit", "9")
    assert done.returncode == 0, done.stderr
    experiments = run_file(tmp_path)["experiments"]
    assert isinstance(experiments, list)
    results = experiments[0]["results"]
    assert (results["n_participants"], results["n_failed"]) == (2, 0)


def test_the_notice_is_printed_for_a_users_interviews(tmp_path: Path, krisis: Krisis) -> None:
    krisis("data", "phq8", "--output", "own", "--n-participants", "5")
    done = krisis("run", "phq8", "--model", "lexicon", "--data-path", "own")
    assert done.returncode == 0, done.stderr
    assert "may be under a licence" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--mode", "one_shot"], "unknown mode 'one_shot'"),
        (["--data-path", "nowhere"], "nowhere does not exist"),
        (["--task", "detection"], "unknown task of the suite 'phq8': 'detection'. Known: phq8"),
        (["--task", "staging"], "unknown task of the suite 'phq8': 'staging'. Known: phq8"),
        (
            ["--suite-option", "retrieval=word2vec", "--mode", "few_shot"],
            "retrieval must be a mapping of n_references or min_similarity, not 'word2vec'",
        ),
    ],
)
def test_a_wrong_option_is_one_sentence_and_exit_2(
    tmp_path: Path, krisis: Krisis, arguments: list[str], expected: str
) -> None:
    done = krisis("run", "phq8", "--model", "lexicon", *arguments)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_lexicon_refuses_another_suite_in_one_sentence(krisis: Krisis) -> None:
    done = krisis("run", "ckd", "--model", "lexicon", "--limit", "2")
    assert done.returncode == 2
    assert "the suite 'ckd' has no rule 'lexicon'" in done.stderr


@pytest.mark.slow
def test_every_variant_is_there_but_those_the_model_cannot_give(
    tmp_path: Path, krisis: Krisis
) -> None:
    krisis(
        "run", "phq8", "--mode", "few_shot", "--model", "lexicon", "--repeats", "3",
        "--temperature", "0.7", "--n-synthetic", "60", "--test-size", "0.5", "--no-cache",
    )  # fmt: skip
    (run,) = (tmp_path / "runs").glob("*.json")
    fitted = krisis(
        "calibrate", str(run), "--method", "temperature",
        "--features", "verbalized_confidence", "--output", "t.json",
    )  # fmt: skip
    assert fitted.returncode == 0, fitted.stderr
    done = krisis(
        "selective", str(run), "--confidence", "all", "--format", "json",
        "--confidence", "secondary:verbalized+consistency:average",
        "--calibration", "t.json", "--bootstrap-resamples", "100",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert set(figures["confidence_variants"]) == {
        "llm", "total_evidence", "retrieval_similarity_mean", "retrieval_similarity_max",
        "hybrid_evidence_similarity", "verbalized", "verbalized_calibrated", "hybrid_verbalized",
        "calibrated", "consistency", "consistency_inverse_std", "hybrid_consistency", "stated",
        "secondary:verbalized+consistency:average",
    }  # fmt: skip
    without = figures["variants_not_evaluated"]
    assert set(without) == {
        "token_msp", "token_pe", "token_energy", "rationale", "p_true", "top_k", "two_step"
    }  # fmt: skip
    assert all("is missing" in reason for reason in without.values())


@pytest.mark.slow
def test_a_calibrator_of_the_train_participants_lowers_the_held_out_log_loss(
    tmp_path: Path, krisis: Krisis
) -> None:
    for split in ("train", "test"):
        krisis(
            "run", "phq8", "--model", "lexicon", "--no-cache",
            "--suite-option", f"split={split}", "--output", split,
        )  # fmt: skip
    (train,), (test,) = ((tmp_path / split).glob("*.json") for split in ("train", "test"))
    features = "verbalized_confidence,llm_evidence_count,retrieval_similarity_mean"
    krisis("calibrate", str(train), "--features", features, "--output", "c.json")
    calibrator = calibrator_from(read_object(tmp_path / "c.json"), place=tmp_path / "c.json")
    table = read_items(test)
    assert calibrator.overlap(table) == 0
    _, before, after = calibrator.judged_on(table)
    assert after["nll"] is not None
    assert before["nll"] is not None
    assert after["nll"] < before["nll"]


def test_interviews_are_written_checked_and_run(tmp_path: Path, krisis: Krisis) -> None:
    assert krisis("data", "phq8", "--output", "own", "--n-participants", "10").returncode == 0
    checked = krisis("data", "check-interviews", "own")
    assert checked.returncode == 0
    assert "participants  10; split test: 2, split train: 8" in checked.stdout
    as_json = json.loads(krisis("data", "check-interviews", "own", "--format", "json").stdout)
    assert as_json["n_participants"] == 10
    assert krisis("run", "phq8", "--model", "lexicon", "--data-path", "own").returncode == 0
    refused = krisis("data", "phq8", "--output", "own")
    assert refused.returncode == 2
    assert krisis("data", "phq8", "--output", "other", "--n-participants", "0").returncode == 2


def test_a_broken_transcript_is_one_sentence_and_exit_2(tmp_path: Path, krisis: Krisis) -> None:
    krisis("data", "phq8", "--output", "own", "--n-participants", "3")
    broken = tmp_path / "own" / "S0001_P" / "S0001_TRANSCRIPT.csv"
    broken.write_bytes(broken.read_bytes() + b"9\t9\tParticipant\tcaf\xe9\n")
    for command in (["data", "check-interviews", "own"],
                    ["run", "phq8", "--model", "lexicon", "--data-path", "own"]):  # fmt: skip
        done = krisis(*command)
        assert done.returncode == 2
        told = done.stdout + done.stderr
        assert "S0001_TRANSCRIPT.csv line " in told
        assert "is not UTF-8" in told
        assert "Traceback" not in told


@pytest.mark.slow
def test_a_run_that_was_cut_is_resumed_and_its_run_file_made_whole(
    tmp_path: Path, krisis: Krisis
) -> None:
    krisis("run", "phq8", "--mode", "few_shot", "--model", "lexicon", "--limit", "40")
    (directory,) = (path for path in (tmp_path / "runs").glob("*.krisis"))
    edit_run(directory, "DELETE FROM rows WHERE position >= (SELECT max(position) / 2 FROM rows)")
    file = directory.with_suffix(".json")
    cut = krisis("export", str(directory), "--to", "run-file", "-o", str(file), "--overwrite")
    assert cut.returncode == 0
    resumed = krisis("resume", str(directory))
    assert resumed.returncode == 0, resumed.stderr
    experiments = run_file(tmp_path)["experiments"]
    assert isinstance(experiments, list)
    results = experiments[0]["results"]
    assert (results["n_participants"], results["n_failed"]) == (5, 0)
