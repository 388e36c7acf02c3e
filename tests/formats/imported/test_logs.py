"""Logs of the real tools come in without loss: counts, answers, abstentions, errors, tokens."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from krisis.errors import InvalidFile, InvalidValue, UnknownName, UserError
from krisis.formats.base import ImportOptions
from krisis.formats.imported_run import ReadFile, read_file, write_run
from krisis.formats.inspect_writer import inspect_log
from krisis.formats.row_import import MARKED_WRONG
from krisis.json_values import dumps
from krisis.metrics.base import EvaluationResult
from krisis.results.rows import row_to_dict
from krisis.runs.load import load_run

HERE = Path(__file__).parent
LOGS = HERE.parents[1] / "fixtures" / "imported"
CONFIDENCE = {"confidence": r"pattern:Confidence: (\d+)%", "confidence_scale": 100.0}
KEYS = {"patient": "patient", "should_defer": "should_defer", "group": ["sex"]}


def read(path: Path, kind: str = "inspect", **options: Any) -> ReadFile:
    return read_file(path, kind, ImportOptions(**options))


def rows_of(path: Path, kind: str = "inspect", **options: Any) -> list[EvaluationResult]:
    return read(path, kind, **options).taken.rows


def log(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((LOGS / name).read_text(encoding="utf-8"))
    return content


def reported(content: dict[str, Any], scorer: str) -> dict[str, Any]:
    found: dict[str, Any] = next(s for s in content["results"]["scores"] if s["name"] == scorer)
    return found


def n_right(rows: list[EvaluationResult]) -> int:
    return sum(r.outcome == "answered" and r.prediction == r.ground_truth for r in rows)


def samples_of(task: str, folder: Path = LOGS) -> Path:
    [path] = folder.glob(f"samples_{task}_*.jsonl")
    return path


def check_inspect(folder: Path) -> None:
    """Compare what was imported with what Inspect itself reports in its log."""
    content = json.loads((folder / "triage.json").read_text(encoding="utf-8"))
    rows = rows_of(folder / "triage.json", **CONFIDENCE, **KEYS)
    assert [row_to_dict(row) for row in rows_of(folder / "triage.eval", **CONFIDENCE, **KEYS)] == [
        row_to_dict(row) for row in rows
    ]
    results = content["results"]
    samples = {(s["id"], s["epoch"]): s for s in content["samples"]}
    assert len(rows) == results["total_samples"] == 16
    errors = [row for row in rows if row.failure_class == "refused_request"]
    assert len(rows) - len(errors) == results["completed_samples"] == 14
    accuracy = reported(content, "choice")["metrics"]["accuracy"]["value"]
    assert n_right(rows) / results["completed_samples"] == pytest.approx(accuracy) == 8 / 14
    usage = content["stats"]["model_usage"]["openai-api/loop/small"]
    for kind in ("input_tokens", "output_tokens", "total_tokens"):
        assert sum(getattr(row, kind) or 0 for row in rows) == usage[kind]
    for row in rows:
        sample = samples[row.record_id, row.metadata.get("sample_index", 0) + 1]
        score = sample["scores"].get("choice", {})
        assert row.ground_truth == sample["target"]
        assert row.prediction == (score.get("answer") or None)
        assert row.abstained == (score.get("value") == "N")
        assert row.raw_response == sample["output"].get("completion", "")
        assert row.cluster_id == sample["metadata"]["patient"]
        assert row.metadata["should_abstain"] == sample["metadata"]["should_defer"]
    assert Counter(row.outcome for row in rows) == {
        "answered": 10,
        "abstained": 2,
        "no_answer": 2,
        "not_evaluated": 2,
    }


def test_an_inspect_log_comes_in_as_inspect_reports_it() -> None:
    check_inspect(LOGS)


def test_a_sample_keeps_confidence_token_figures_model_and_latency() -> None:
    first = rows_of(LOGS / "triage.eval", **CONFIDENCE)[0]
    assert (first.confidence, first.model, first.finish_reason) == (0.9, "small-2", "stop")
    assert first.latency_seconds == log("triage.json")["samples"][0]["output"]["time"]
    # The token " A": probability 0.8 of a list that covers 0.9.
    assert first.signals["token_msp"] == pytest.approx(0.8)
    assert first.signals["token_energy"] == pytest.approx(math.log(0.9))
    shares = (8 / 9, 1 / 9)
    assert first.signals["token_pe"] == pytest.approx(-sum(p * math.log(p) for p in shares))
    assert first.metadata == {}  # no key that was not named


def test_errors_become_failures_that_say_nothing_of_the_case() -> None:
    rows = [row for row in rows_of(LOGS / "triage.json") if row.error]
    assert Counter(row.failure_class for row in rows) == {
        "refused_request": 2,
        "malformed_reply": 2,
    }
    [text] = {row.error for row in rows if row.failure_class == "refused_request"}
    assert text is not None
    assert text.startswith("BadRequestError: Error code: 400")
    for word in ("Case", "patient", "choice", "theatre", "question"):
        assert word not in text


def test_a_choice_that_means_i_do_not_know_is_an_abstention_and_a_deferral_label() -> None:
    read_ = read(LOGS / "triage.eval", abstain_answer=["I don't know"])
    rows = read_.taken.rows
    assert Counter(row.outcome for row in rows) == {
        "answered": 7,
        "abstained": 5,
        "no_answer": 2,
        "not_evaluated": 2,
    }
    assert {r.record_id for r in rows if r.metadata["should_abstain"]} == {"case-4"}
    assert any("deferral label" in note and "2 of 16" in note for note in read_.imported.notes)
    by_letter = rows_of(LOGS / "triage.eval", abstain_answer=["d"])
    assert [r.outcome for r in by_letter] == [r.outcome for r in rows]
    assert read_.task.answers[3] == ("D", "I don't know")


def test_what_an_empty_reply_means_can_be_said() -> None:
    failed = rows_of(LOGS / "triage.json", empty="no_answer")
    assert Counter(r.failure_class for r in failed if r.error)["no_prediction"] == 4
    abstained = rows_of(LOGS / "triage.json", empty="abstained")
    assert sum(r.abstained for r in abstained) == 4


@pytest.mark.parametrize(
    ("scorer", "accuracy", "abstained", "not_taken"),
    [("match", 2 / 6, 0, 0), ("judged", 2 / 5, 1, 1)],
)
def test_a_scorer_is_chosen_and_its_verdict_counts(
    scorer: str, accuracy: float, abstained: int, not_taken: int
) -> None:
    found = read(LOGS / "advice.json", scorer=scorer, confidence="score:surety")
    rows, said = found.taken.rows, reported(log("advice.json"), scorer)
    assert n_right(rows) / len(rows) == pytest.approx(said["metrics"]["accuracy"]["value"])
    assert n_right(rows) / len(rows) == pytest.approx(accuracy)
    assert len(rows) == said["scored_samples"]
    assert [one.reason for one in found.taken.not_taken] == [
        "it was not scored (grader_failed)"
    ] * not_taken
    assert sum(row.abstained for row in rows) == abstained
    assert rows[0].confidence == 0.23
    assert rows[1].ground_truth == "insulin"  # the first of several targets


def test_a_verdict_without_an_answer_is_right_or_marked_wrong() -> None:
    rows = rows_of(LOGS / "advice.json", scorer="judged")
    said = {row.record_id: row.prediction for row in rows if not row.abstained}
    assert said == {"1": "metformin", "2": "insulin", "3": MARKED_WRONG, "5": MARKED_WRONG}
    answers = "metformin,insulin,x,aspirin,lisinopril"
    again = rows_of(LOGS / "advice.json", scorer="judged", answers=answers)
    assert [row.outcome for row in again] == [row.outcome for row in rows]


def test_a_log_that_was_stopped_is_incomplete(tmp_path: Path) -> None:
    result = write_run(read(LOGS / "stopped.json"), tmp_path)
    assert result.attrition.n_left == 8
    assert "the log has 8 of 16 samples and the status 'error'" in str(result.stop)
    assert set(result.attrition.failures) == {"malformed_reply", "refused_request", "cancelled"}
    assert load_run(Path(str(result.provenance.run_file))).stop == result.stop


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"scores": {"choice": {"value": "P", "answer": "A"}}}, "neither right nor wrong: P"),
        ({"scores": {"choice": {"value": 0.4, "answer": "A"}}}, "neither right nor wrong: 0.4"),
        (
            {"scores": {"choice": {"value": {"a": 1, "b": 0}}}},
            "several values (a, b), one of which is taken with --scorer choice.KEY",
        ),
        ({"scores": {"choice": {"value": "I", "answer": "A"}}}, "marks it wrong though"),
        ({"scores": {}}, "has not scored it"),
        ({"target": ""}, "no right answer"),
        ({"target": 3}, "its target is not text"),
        ({"epoch": "two"}, "its epoch"),
        ({"output": 3, "scores": [], "metadata": None}, "has not scored it"),
        ({"id": None}, "its id is empty"),
        ({"id": "case-2", "target": "B"}, "its id has appeared before"),
    ],
)
def test_samples_that_cannot_be_taken_are_listed(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    found = read(changed_log(tmp_path, **changes))
    assert len(found.taken.rows) == 15
    [one] = found.taken.not_taken
    assert reason in one.reason
    assert found.imported.n_not_taken == 1


def test_one_of_several_values_of_a_scorer_is_taken_by_its_key(tmp_path: Path) -> None:
    content = log("triage.json")
    plain = [row.outcome for row in rows_of(LOGS / "triage.json")]
    for sample in content["samples"]:
        for score in (sample.get("scores") or {}).values():
            score["value"] = {"correct": score["value"], "brief": 1}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    found = read(path, scorer="choice.correct")
    assert [row.outcome for row in found.taken.rows] == plain
    assert found.imported.taken_for["answer"] == "answer and value correct of the scorer choice"
    with pytest.raises(
        UserError, match=r"value of the scorer 'choice' of log.json: 'corect'.*corr"
    ):
        read(path, scorer="choice.corect")
    with pytest.raises(UserError, match=r"scorer of log.json: 'choose.correct'"):
        read(path, scorer="choose.correct")


def changed_log(tmp_path: Path, **changes: Any) -> Path:
    content = log("triage.json")
    content["samples"][0] |= changes
    path = tmp_path / "log.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_limit_keeps_an_answer_and_else_is_a_failure(tmp_path: Path) -> None:
    limit = {"limit": {"type": "token", "limit": 5}}
    kept = rows_of(changed_log(tmp_path, **limit))[0]
    assert (kept.outcome, kept.finish_reason) == ("answered", "limit: token")
    lost = rows_of(changed_log(tmp_path, **limit, scores={}))[0]
    assert (lost.error, lost.failure_class) == ("the token limit was reached", "limit")


@pytest.mark.parametrize("value", ["I", "N", 0])
def test_a_limit_before_any_reply_is_a_failure_however_it_was_scored(
    value: str | int, tmp_path: Path
) -> None:
    [scorer] = log("triage.json")["samples"][0]["scores"]
    cut = {"limit": {"type": "time", "limit": 2}, "output": {"choices": [], "completion": ""}}
    for answer in ("", None):
        path = changed_log(tmp_path, **cut, scores={scorer: {"value": value, "answer": answer}})
        row = rows_of(path, empty="abstained")[0]
        assert (row.outcome, row.failure_class) == ("not_evaluated", "limit")
    right = changed_log(tmp_path, **cut, scores={scorer: {"value": "C", "answer": "x"}})
    assert rows_of(right)[0].outcome == "answered"


def test_an_empty_answer_that_is_marked_wrong_stops_the_import(tmp_path: Path) -> None:
    path = changed_log(tmp_path, scores={"choice": {"value": "I", "answer": ""}})
    with pytest.raises(UserError, match=r"1 row has no answer .*--empty abstained, no_answer or"):
        rows_of(path)


def test_an_empty_reply_that_is_marked_wrong_is_no_answer_unless_a_tool_was_called(
    tmp_path: Path,
) -> None:
    [scorer] = log("triage.json")["samples"][0]["scores"]
    scores = {scorer: {"value": "I", "answer": None}}
    for calls, outcome in ((None, "abstained"), ([{"function": "f"}], "answered")):
        message = {"message": {"content": "", "tool_calls": calls}}
        silent = {"output": {"choices": [message], "completion": ""}}
        path = changed_log(tmp_path, **silent, scores=scores)
        assert rows_of(path, empty="abstained")[0].outcome == outcome


def test_a_multiple_choice_may_have_several_right_letters(tmp_path: Path) -> None:
    score = {"choice": {"value": "C", "answer": "A, C"}}
    row = rows_of(changed_log(tmp_path, target=["C", "A"], scores=score, id="x", epoch=3))[-1]
    assert (row.ground_truth, row.prediction) == ("A, C", "A, C")


def test_an_archive_of_an_older_inspect_needs_no_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = log("triage.json")
    samples = content.pop("samples")
    path = tmp_path / "old.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(content))
        for sample in reversed(samples):  # in order of completion
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json.dumps(sample))
    monkeypatch.setitem(sys.modules, "duckdb", None)
    old = [row_to_dict(row) for row in rows_of(path)]
    assert old == [row_to_dict(row) for row in rows_of(LOGS / "triage.json")]
    if sys.version_info < (3, 14):
        with pytest.raises(UserError, match=r".\[tables\]"):
            read(LOGS / "triage.eval")


def test_damage_of_an_archive_is_one_sentence_or_does_no_harm(tmp_path: Path) -> None:
    data = (LOGS / "triage.eval").read_bytes()
    whole = [row_to_dict(row) for row in rows_of(LOGS / "triage.eval")]
    path, n_refused = tmp_path / "log.eval", 0
    for place in range(960, len(data), 4000):
        changed = bytearray(data)
        changed[place] ^= 0x55
        path.write_bytes(changed)
        try:
            found = read(path)
        except UserError:
            n_refused += 1
            continue
        # Parts that are not read may be damaged; a sample that is not found is missed.
        same = [row_to_dict(row) for row in found.taken.rows] == whole
        assert same or "has 15 of 16 samples" in str(found.reading.stop)
    assert n_refused >= 3
    # Content that can be unpacked, but is not what the archive says that it is.
    entry = data.rindex(b"samples/case-1_epoch_1.json") - 46
    changed = bytearray(data)
    changed[entry + 16] ^= 1
    path.write_bytes(changed)
    with pytest.raises(InvalidFile, match=r"case-1_epoch_1\.json is damaged"):
        read(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scorer": "chioce"}, "did you mean 'choice'"),
        ({"confidence": "Confidence"}, "score:…, metadata:…, pattern:…"),
        ({"confidence": "pattern:("}, "is no pattern"),
        ({"confidence": r"pattern:\d+"}, "needs a group"),
        ({"confidence": r"pattern:Confidence: (\d+)%"}, "--confidence-scale 100"),
        ({"truth": "x"}, "--truth does not go with --as inspect"),
        ({"positive": "Z"}, "none of the answers (A, B, C, D)"),
        ({"ordinal": True}, "--ordinal needs --answers"),
    ],
)
def test_wrong_options_of_a_log_are_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidValue, UnknownName), match=None) as raised:
        read(LOGS / "triage.json", **options)
    assert message in str(raised.value)


def test_several_scorers_must_be_chosen_from() -> None:
    with pytest.raises(InvalidFile, match="match, judged, surety"):
        read(LOGS / "advice.json")
    with pytest.raises(InvalidFile, match="none of 6 rows can be taken"):
        read(LOGS / "advice.json", scorer="surety")


def check_lm_eval(folder: Path) -> None:
    """Compare what was imported with what lm_eval itself reports."""
    [results] = folder.glob("results_*.json")
    said = json.loads(results.read_text(encoding="utf-8"))["results"]
    for metric, share in (("acc", 3 / 5), ("acc_norm", 2 / 5)):
        rows = rows_of(samples_of("ward_triage", folder), "lm-eval", judged_by=metric)
        assert len(rows) == said["ward_triage"]["sample_len"]
        assert n_right(rows) / len(rows) == said["ward_triage"][f"{metric},none"] == share
    for name in ("number", "whole"):
        rows = rows_of(samples_of("dose", folder), "lm-eval", filter=name)
        assert len(rows) == said["dose"]["sample_len"]
        assert n_right(rows) / len(rows) == said["dose"][f"exact_match,{name}"]


def test_samples_of_lm_eval_come_in_as_it_reports_them() -> None:
    check_lm_eval(LOGS)


def test_confidence_is_the_share_of_the_likeliest_option() -> None:
    path = samples_of("ward_triage")
    plain = rows_of(path, "lm-eval")
    assert plain[0].confidence == pytest.approx(1 / (1 + math.exp(-1) + math.exp(-3)))
    assert [row.prediction for row in plain] == [0, 1, 2, 0, 0]
    scores = [-1 / len("home"), -2 / len("the general medical ward"), -4 / len("I don't know")]
    total = sum(map(math.exp, scores))
    first = rows_of(path, "lm-eval", judged_by="acc_norm")[0]
    assert first.prediction == 1
    assert first.confidence == pytest.approx(math.exp(scores[1]) / total)
    found = read(path, "lm-eval", abstain_answer=["i don't know"])
    assert [row.abstained for row in found.taken.rows] == [False, False, True, False, False]
    assert found.reading.model == "scripted"
    assert (found.task.name, found.task.answers[0]) == ("ward_triage", (0, "home"))


def test_text_that_a_filter_could_not_read_is_a_failure_unless_it_is_said_to_be_more() -> None:
    path = samples_of("dose")
    assert [r.outcome for r in rows_of(path, "lm-eval", filter="number")] == [
        "answered",
        "no_answer",
        "no_answer",
    ]
    rows = rows_of(path, "lm-eval", filter="number", empty="abstained")
    assert [r.outcome for r in rows] == ["answered", "abstained", "abstained"]
    with pytest.raises(InvalidFile, match="number, whole"):
        read(path, "lm-eval")
    assert "asked 2 times" in read(path, "lm-eval", filter="whole").imported.notes[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"acc": 0.0}, "which its likelihoods and its target contradict"),
        ({"target": "[0, 1]"}, "not the number or the words of one option"),
        ({"target": "7"}, "not the number or the words of one option"),
        ({"arguments": {}}, "0 options and 3 likelihoods"),
    ],
)
def test_samples_that_contradict_themselves_are_listed(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    first, *others = samples_of("ward_triage").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "samples.jsonl"
    lines = [json.dumps(json.loads(first) | changes), *others, "{broken"]
    path.write_text("\n".join(lines), encoding="utf-8")
    listed = read(path, "lm-eval").taken.not_taken
    assert sorted(one.place for one in listed) == ["doc 0", "line 6"]
    assert any(reason in one.reason for one in listed)


@pytest.mark.parametrize(
    ("kind", "path"), [("lm-eval", "triage.json"), ("inspect", "dose"), ("inspect", "nothing.eval")]
)
def test_a_wrong_file_is_one_sentence(kind: str, path: str) -> None:
    place = samples_of(path) if path == "dose" else LOGS / path
    with pytest.raises(UserError):
        read(place, kind)


def test_the_same_file_gives_the_same_rows(tmp_path: Path) -> None:
    twice = [
        write_run(read(LOGS / "triage.eval", **CONFIDENCE), tmp_path / name) for name in ("a", "b")
    ]
    loaded = [load_run(Path(str(run.provenance.run_file))) for run in twice]
    assert len({json.dumps([row_to_dict(r) for r in run.rows]) for run in loaded}) == 1
    assert len({run.metrics_to_json().split('"extras"')[0] for run in loaded}) == 1


def environment(folder: Path, *packages: str) -> Path:
    """Return the Python of a new environment with packages, or skip where none can be made."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    command = [python, "-m", "pip", "install", "--quiet", *packages]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip(f"{packages} cannot be installed here")
    return python


READ_LOG = """
import sys
from inspect_ai.log import read_eval_log
log = read_eval_log(sys.argv[1])
usage = sum(one.total_tokens for one in log.stats.model_usage.values())
values = [s.scores["krisis"].value if s.scores else "error" for s in log.samples]
print(log.status, log.results.total_samples, usage, "".join(v[0] for v in values))
"""


@pytest.mark.slow
def test_inspect_makes_logs_anew_and_reads_what_krisis_exports(tmp_path: Path) -> None:
    python = environment(tmp_path / "inspect", "inspect_ai", "openai")
    subprocess.run([python, HERE / "make_inspect_logs.py", tmp_path / "logs"], check=True)
    check_inspect(tmp_path / "logs")
    result = write_run(read(tmp_path / "logs" / "triage.eval"), tmp_path / "runs")
    (tmp_path / "out.json").write_text(dumps(inspect_log(result)), encoding="utf-8")
    command = [python, "-c", READ_LOG, tmp_path / "out.json"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert printed == ["success", "16", "1656", "CCCCNeeCCCICNeeI"]


@pytest.mark.slow
def test_lm_eval_makes_samples_anew(tmp_path: Path) -> None:
    python = environment(tmp_path / "lm", "lm_eval")
    subprocess.run([python, HERE / "make_lm_eval_logs.py", tmp_path / "logs"], check=True)
    check_lm_eval(tmp_path / "logs")


def test_a_mistyped_metadata_key_of_the_confidence_is_named() -> None:
    with pytest.raises(InvalidValue, match=r"'metadata:TYPO' was found in 0 of \d+ .*patient"):
        read(LOGS / "triage.json", confidence="metadata:TYPO")
