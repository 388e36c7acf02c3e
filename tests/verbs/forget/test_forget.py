"""A patient who is forgotten is in no byte, and the figures are those of a run without them."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tests.commands import krisis
from tests.invented_runs import (
    begin_run,
    edit_run,
    forge_description,
    forge_run,
    invented_rows,
    only_run,
    result_of,
    write_run,
)

import krisis as api
from krisis import Benchmark, PatientRecord, SuiteConfig
from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.scripted import ScriptedBackend
from krisis.data.base import FeatureDescription, RecordListSuite, SecondUnit, Task
from krisis.errors import InvalidFile, RunConflict, UserError
from krisis.execution.cache import ReplyCache, default_cache_path
from krisis.execution.options import Execution
from krisis.execution.pacing.prices import Price
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.json_values import plain
from krisis.pages.cases import RowFilter
from krisis.results.stops import Interrupted
from krisis.runs.load import load_run
from krisis.runs.places import WriterLock, lock_file
from krisis.runs.provider_batches import BatchRequest, ProviderBatch
from krisis.runs.read import open_run
from krisis.runs.review import add_review, read_reviews, review_file
from krisis.runs.write import RunWriter
from krisis.verbs.audit.stability import stability_of
from krisis.verbs.forget import removal as forgetting
from krisis.viewer import search
from krisis.viewer.catalogue import Catalogue

PATIENT = "ZQXpatient-0815"
NUMBER = 731.2593  # a creatinine that nobody else has
SURE = 0.73519
TASK = Task(
    "high",
    "Is the creatinine high?",
    {0: "no", 1: "yes"},
    {
        "sc": FeatureDescription("Creatinine", "mg/dL", second_unit=SecondUnit("µmol/L", 88.4)),
        "age": FeatureDescription("Age", "years"),
        "history": FeatureDescription("History", text=True),
    },
    paraphrase="Would you call the creatinine high?",
)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cache", "state"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))


def suite_of(n: int = 12, *, without: str = "", context: str = "ZQXcontext") -> RecordListSuite:
    """Return two records of every patient; of the marked one, the third, every text is marked."""
    records = []
    for i in range(n):
        patient = PATIENT if i // 2 == 2 else f"person-{i // 2:04d}"
        is_marked = patient == PATIENT
        if patient == without:
            continue
        features: dict[str, Any] = {
            "sc": NUMBER if is_marked else 0.8 + i / 10,
            "age": 40 + i,
            "history": "ZQXfeature" if is_marked else "nothing of note",
        }
        records.append(
            PatientRecord(
                features,
                int(i % 4 > 1),
                record_id=f"{'ZQXrecord' if is_marked else 'visit'}-{i:04d}",
                cluster_id=patient,
                context=context if is_marked else "",
                metadata={"ward": "ZQXmetadata" if is_marked else "north", "site": i % 2},
            )
        )
    return RecordListSuite(records, TASK, SuiteConfig(seed=3))


class Model(ScriptedBackend):
    """Answers by what it reads, so that a patient is answered alike in whatever company."""

    def __init__(self, stop_after: int = 0) -> None:
        super().__init__(self.reply, retry_base_seconds=0.001, max_retries=0)
        self.sent: list[ChatRequest] = []
        self.stop, self._stop_after = Stop(), stop_after

    def reply(self, request: ChatRequest) -> ChatReply:
        self.sent.append(request)
        if len(self.sent) == self._stop_after:
            self.stop.request_from_outside(Interrupted("enough"))
        blocks = [block for block in request.user.split("\n\n") if "Age" in block]
        answers = [_answer(block) for block in blocks]
        text = json.dumps(answers[0])
        if request.mode == "batch":
            named = [{"id": f"case_{i}", **one} for i, one in enumerate(answers)]
            text = json.dumps({"results": named})
        return ChatReply(text, "stop", "script", 100 + len(blocks), 20)


def _answer(block: str) -> dict[str, Any]:
    age = int(block.partition("Age: ")[2][:2])
    is_marked = "ZQXfeature" in block
    return {
        "abstained": age % 5 == 0,
        "prediction": None if age % 5 == 0 else int(age % 3 == 0),
        "confidence": SURE if is_marked else 0.5 + (age % 7) / 20,
        "reason": "ZQXreply" if is_marked else f"by the age of {age}",
    }


def run_of(
    out: Path,
    suite: RecordListSuite,
    backend: BaseBackend | None = None,
    *,
    batch_size: int = 1,
    **options: Any,
) -> Path:
    recorder = Recorder(out, store_features=True)
    model = backend or Model()
    execution = Execution(recorder=recorder, stop=getattr(model, "stop", None), **options)
    Benchmark(suite, model, batch_size=batch_size, execution=execution).run()
    return only_run(out)


def where(needle: bytes, folder: Path) -> list[str]:
    """Return the files below a folder that hold some bytes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.name for path in files if needle in path.read_bytes())


def needles() -> Iterator[bytes]:
    for text in ("ZQX", "zqx", str(NUMBER), str(SURE)):
        yield text.encode()
    for number in (NUMBER, SURE):
        yield struct.pack(">d", number)
        yield struct.pack("<d", number)


class Careless(BaseBackend):
    """A backend of the user's own: one text for all records of a call, and marked signals."""

    name = "careless"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return self.evaluate_batch([record])[0]

    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        said = "; ".join(f"{one.features['history']} reply" for one in records)
        return [
            BackendResponse(
                prediction=7 if one.features["sc"] == NUMBER and one.features["age"] == 45 else 1,
                confidence=SURE if one.features["sc"] == NUMBER else 0.5,
                raw_response=said,
                signals={"note": str(one.features["history"])},
                prompt_mode="batch" if len(records) > 1 else "single",
            )
            for one in records
        ]


def copies_of(path: Path, out: Path) -> None:
    """Make whatever people make of a run."""
    out.mkdir()
    for kind in ("csv", "jsonl", "inspect", "krisis"):
        target = {"krisis": "copy.krisis", "inspect": "log.json"}
        name = target.get(kind, f"rows.{kind}")
        words = ["export", str(path), "--to", kind, "--output", str(out / name)]
        more = ["--with-ids"] if kind in ("csv", "jsonl") else []
        done = krisis(*words, *more, cwd=out)
        assert done.returncode == 0, done.stderr
    for words in (["show", str(path), "--verbose"], ["show", str(path), "--format", "json"]):
        done = krisis(*words, cwd=out)
        assert done.returncode == 0, done.stderr
        (out / f"shown{len(words)}.txt").write_text(done.stdout)
    done = krisis("report", str(path), "--output", str(out / "report.html"), cwd=out)
    assert done.returncode == 0, done.stderr


def left_traces(path: Path, folder: Path) -> None:
    """Leave what people leave about the marked patient: notes and a search."""
    add_review(path, record_id="ZQXrecord-0004", asking=1, mark="unclear", note="ZQXnote")
    add_review(path, record_id="visit-0001", asking=1, mark="agree", note="stays")
    with review_file(path).open("ab") as file:
        file.write(b'{"record_id": "ZQXrec')  # cut off
    viewed = Catalogue(folder).load(path.name.removesuffix(".krisis"))
    assert len(viewed.select(RowFilter(text="zqxrecord"))) == 2
    assert list((folder.parent / "cache").rglob("texts/*.sqlite"))


@pytest.mark.parametrize(("batch_size", "context"), [(1, "ZQXcontext"), (4, "")])
def test_no_byte_is_left_of_a_patient_whom_a_model_was_asked_about(
    tmp_path: Path, batch_size: int, context: str
) -> None:
    cache = ReplyCache(default_cache_path())
    suite = suite_of(context=context)
    path = run_of(tmp_path / "runs", suite, batch_size=batch_size, cache=cache)
    n_replies = cache.info().n_replies
    cache.close()
    left_traces(path, tmp_path / "runs")
    for needle in (b"ZQX", str(NUMBER).encode(), struct.pack(">d", SURE)):
        assert path.name in where(needle, tmp_path)
    assert "replies.sqlite" in where(b"ZQXreply", tmp_path)
    done = krisis("forget", str(path), "--patient", PATIENT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 patient removed (2 records, 2 rows, 2 review notes, " in done.stdout
    assert "of others" not in done.stdout
    copies_of(path, tmp_path / "copies")
    for needle in needles():
        assert where(needle, tmp_path) == [], needle
    assert [note.note for note in read_reviews(path).notes.values()] == ["stays"]
    assert review_file(path).stat().st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o600
    cache = ReplyCache(default_cache_path())
    assert 0 < cache.info().n_replies < n_replies
    cache.close()
    # What nobody else is concerned by stays.
    with open_run(path) as run:
        assert run.damage == ""
        assert all(row.raw_response and row.prompt for row in run.rows())
    assert sorted(one.name for one in path.parent.iterdir()) == sorted(
        [path.name, review_file(path).name]
    )


def test_texts_that_a_patient_shares_with_others_go_and_are_counted(tmp_path: Path) -> None:
    path = run_of(tmp_path / "runs", suite_of(context=""), Careless(), batch_size=4)
    assert path.name in where(b"ZQXfeature reply; nothing of note reply", tmp_path)
    (found,) = api.forget(path, patient=PATIENT)
    assert found.removed is not None
    # Of three calls about four records each, the second is about the patient and two others.
    assert found.removed.n_rows_without_text == 2
    with open_run(path) as run:
        without = [row.record_id for row in run.rows() if not row.raw_response]
        assert without == ["visit-0006", "visit-0007"]
        assert run.damage == ""
    assert "2 rows of others lost a text shared with the patient" in str(found)
    copies_of(path, tmp_path / "copies")
    for needle in needles():
        assert where(needle, tmp_path) == [], needle


def test_what_baselines_errors_stops_and_batches_say_of_a_patient_goes_too(tmp_path: Path) -> None:
    rows = invented_rows(12)
    for i in (4, 5):
        rows[i].record_id, rows[i].cluster_id = f"ZQXrecord-{i}", PATIENT
        rows[i].error, rows[i].failure_class = "ZQXerror of the provider", "unavailable"
        rows[i].prediction, rows[i].abstained, rows[i].confidence = None, False, None
        rows[i].prompt_mode = "single"
        rows[i].signals = {"ZQXsignal": NUMBER}
    result = result_of(rows)
    result.stop = Interrupted("the last error was: ZQXerror of the provider")
    path = write_run(tmp_path / "runs" / "run", result)
    with open_run(path) as run:
        description = run.description
    writer = RunWriter.resume(path, description, ())
    writer._cases = [_Named(row.record_id) for row in rows]  # type: ignore[assignment]
    writer.begin_session({})
    answers = [
        replace(row, prediction=1, abstained=False, error=None, failure_class="") for row in rows
    ]
    writer.keep_baselines({"rule": answers})
    writer.note_not_taken([("line 3", "the right answer 'ZQXlabel' is none of the answers")])
    requests = (BatchRequest((3, 4, 5), 7, 7), BatchRequest((4, 5), 5, 5), BatchRequest((6,), 1, 1))
    batch = ProviderBatch("m", requests, "text", 1.0, "b", "ended", requests)
    writer.note_provider_batch(batch)
    writer.note_stop(result.stop)
    writer.close()
    before = load_run(path)
    assert path.name in where(b"ZQXlabel", tmp_path)
    done = krisis("forget", str(path), "--patient", PATIENT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the list of rows that could not be imported was removed" in done.stdout
    copies_of(path, tmp_path / "copies")
    for needle in needles():
        assert where(needle, tmp_path) == [], needle
    with open_run(path) as run:
        (kept,) = run.contents().provider_batches.batches.values()
        assert [one.positions for one in kept.requests] == [(3,), (), (4,)]
        assert [one.positions for one in kept.again] == [(3,), (4,)]
        cases = [line[0] for line in run.select("SELECT case_position FROM baselines ORDER BY id")]
        assert cases == list(range(10))
        assert run.damage == ""
    assert before.stop is not None
    assert load_run(path).stop is not None


class _Named:
    def __init__(self, record_id: str) -> None:
        self.record_id = record_id


def comparable(path: Path, cwd: Path) -> dict[str, Any]:
    """Return every figure of a run, as the command line gives it."""
    done = krisis("show", str(path), "--format", "json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    found = {name: content[name] for name in ("metric_scores", "attrition")}
    shown = krisis("show", str(path), cwd=cwd).stdout.partition("Every figure")[0]
    apart = ("1 patient was removed", "IMPORTED")
    shown = re.sub(r"SHA-256 of rows.csv\s+\w+\s+\w+", "", shown)
    shown = re.sub(r"(?m)^[\d.,]+ s\b.*$", "", shown)  # what was paid stays paid
    found["verdict"] = [line for line in shown.splitlines() if not line.startswith(apart)]
    return found


@pytest.mark.parametrize(
    ("options", "batch_size"),
    [
        ({}, 1),
        ({"repeats": 3}, 1),
        ({}, 4),
    ],
)
def test_figures_are_those_of_a_run_that_never_had_the_patient(
    tmp_path: Path, options: dict[str, Any], batch_size: int
) -> None:
    sized = {"batch_size": batch_size, **options}
    never = run_of(tmp_path / "never", suite_of(40, without=PATIENT), **sized)
    path = run_of(tmp_path / "runs", suite_of(40), **sized)
    assert comparable(path, tmp_path) != comparable(never, tmp_path)
    api.forget(str(path), patient=PATIENT)
    assert comparable(path, tmp_path) == comparable(never, tmp_path)
    assert where(b"ZQX", tmp_path / "runs") == []
    both = [load_run(one) for one in (path, never)]
    assert [row.record_id for row in both[0].rows] == [row.record_id for row in both[1].rows]
    if options.get("repeats"):
        first, second = (plain(asdict(stability_of(one))) for one in both)
        assert json.dumps(first) == json.dumps(second)
    places = []
    for one in (path, never):
        with open_run(one) as run:
            usage = run.select("SELECT position FROM usage WHERE position IS NOT NULL")
            places.append(
                (
                    run.select("SELECT position, case_position, repeat FROM rows"),
                    sorted(usage) if batch_size == 1 else [],
                    run.description.suite_description["n_records"],
                    run.description.n_cases,
                    run.description.identity.n_records,
                )
            )
    assert places[0] == places[1]


def test_an_imported_run_has_the_figures_of_one_without_the_patient(tmp_path: Path) -> None:
    header = "id,patient,y,p,c,asked"
    lines = [
        f"r{i // 2},{'ZQX' if i // 8 == 3 else 'pp'}{i // 8},{i // 2 % 3 % 2},{i % 2},"
        f"{0.5 + i % 9 / 20},{i % 2 + 1}"
        for i in range(160)
    ]
    kept = [line for line in lines if "ZQX" not in line]
    columns = ("--truth", "y", "--prediction", "p", "--confidence", "c", "--id", "id")
    more = ("--patient", "patient", "--repeat", "asked", "--as", "csv", "--empty", "unread")
    for name, rows in (("all", lines), ("never", kept)):
        (tmp_path / "rows.csv").write_text("\n".join([header, *rows, "x,bad,,,,1"]))
        words = ("import", "rows.csv", *columns, *more, "--model", "m", "-o", name)
        done = krisis(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    path, never = only_run(tmp_path / "all"), only_run(tmp_path / "never")
    assert krisis("forget", str(path), "--patient", "ZQX3", cwd=tmp_path).returncode == 0
    assert comparable(path, tmp_path) == comparable(never, tmp_path)
    imported = load_run(path).provenance.imported
    assert imported is not None
    assert imported.n_read == load_run(never).provenance.imported.n_read  # type: ignore[union-attr]
    assert where(b"ZQX3", tmp_path / "all") == []


@pytest.mark.parametrize(("stop_after", "killed"), [(0, False), (9, False), (9, True)])
def test_what_was_paid_stays_paid(tmp_path: Path, stop_after: int, killed: bool) -> None:
    prices = {"scripted/script": Price(1.0, 2.0)}
    path = run_of(tmp_path / "runs", suite_of(), Model(stop_after), prices=prices)
    if killed:  # before it could keep its scores
        edit_run(path, "DELETE FROM scores")
    before = load_run(path)
    with open_run(path) as run:
        cost = run.progress().cost
    api.forget(path, patient=PATIENT)
    after = load_run(path)
    names = ("n_api_calls", "input_tokens", "output_tokens", "token_total", "cost")
    for name in names:
        assert getattr(after.spending, name) == getattr(before.spending, name), name
    with open_run(path) as run:
        assert run.progress().cost == cost
        assert (run.scores() is None) == killed
    assert after.metric_scores.keys() == before.metric_scores.keys()
    n_left = before.attrition.n_loaded - 2, before.attrition.n_sent - 2
    assert (after.attrition.n_loaded, after.attrition.n_sent) == n_left
    assert (after.stop is None) == (before.stop is None) == (stop_after == 0)


def test_a_run_that_forgot_a_patient_is_not_resumed(tmp_path: Path) -> None:
    path = run_of(tmp_path / "runs", suite_of(), Model(3))
    api.forget(path, patient="person-0000")
    before, model = path.read_bytes(), Model()
    execution = Execution(recorder=Recorder.resume(path))
    with pytest.raises(RunConflict, match="a patient was removed from it"):
        Benchmark(suite_of(), model, execution=execution).run()
    assert model.sent == []
    assert path.read_bytes() == before
    execution = Execution(recorder=Recorder(tmp_path / "runs", resume_newest=True))
    Benchmark(suite_of(), model, execution=execution).run()
    assert path.read_bytes() == before


def test_a_patient_of_a_run_that_has_not_asked_about_them_is_forgotten(tmp_path: Path) -> None:
    path = run_of(tmp_path / "runs", suite_of(), Model(2), repeats=2)
    (found,) = api.forget(path, patient=PATIENT)
    assert found.removed is not None
    assert (found.removed.n_records, found.removed.n_rows) == (2, 0)
    assert load_run(path).attrition.n_loaded == 20
    assert where(b"ZQX", tmp_path) == []


def certified(tmp_path: Path) -> Path:
    rows = [row for row in invented_rows(200) if row.outcome != "not_evaluated"]
    path = write_run(tmp_path / "runs" / "run", result_of(type(invented_rows(1))(rows)))
    for risk in ("0.05", "0.1"):
        words = ("certify", str(path), "--risk", risk, "-o", f"{risk}.json")
        assert krisis(*words, cwd=tmp_path).returncode in (0, 1)
    return path


def test_certificates_made_before_are_stale_and_everybody_says_so(tmp_path: Path) -> None:
    path = certified(tmp_path)
    assert "removed" not in krisis("show", str(path), cwd=tmp_path).stdout
    done = krisis("forget", str(path), "--patient", "patient-000007", cwd=tmp_path)
    assert "2 certificates made before are stale: certify again" in done.stdout
    with open_run(path) as run:
        noted = run.ledger()
        assert [one.is_stale for one in noted] == [True, True, False]
        assert noted[-1].kind == "removal"
        assert noted[-1].answer == "1 patient removed; 2 earlier certificates are stale"
        assert noted[-1].rows_hash == run.rows_hash
        assert "000007" not in repr(noted)
    sentence = "1 patient was removed from this run; 2 earlier certificates are stale"
    assert sentence in krisis("show", str(path), cwd=tmp_path).stdout
    again = krisis("certify", str(path), "--risk", "0.05", cwd=tmp_path)
    assert sentence in again.stdout
    assert "requested on these rows" not in again.stdout
    refused = krisis("verify", "0.1.json", str(path), cwd=tmp_path)
    assert refused.returncode == 2
    assert "stale" in refused.stderr
    # A second patient makes the new certificate stale, and the old ones are not stale twice.
    done = krisis("forget", str(path), "--patient", "patient-000008", cwd=tmp_path)
    assert "1 certificate made before is stale" in done.stdout
    shown = krisis("show", str(path), cwd=tmp_path).stdout
    assert "2 patients were removed from this run; 3 earlier certificates are stale" in shown


def test_an_unknown_patient_changes_nothing(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    state = path.stat()
    done = krisis("forget", str(path), "--patient", "nobody", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"krisis: {path} has no patient 'nobody'; nothing was changed\n"
    assert path.stat() == state
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert not (tmp_path / "cache").exists()
    with pytest.raises(UserError, match="the patient is missing"):
        api.forget(path, patient="")


def test_of_several_runs_each_says_what_became_of_it(tmp_path: Path) -> None:
    first = write_run(tmp_path / "runs" / "first", result_of(invented_rows(12)))
    second = write_run(tmp_path / "runs" / "second", result_of(invented_rows(6)))
    before = second.read_bytes()
    done = krisis("forget", str(first), str(second), "--patient", "patient-000005", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    one, two = done.stdout.splitlines()
    assert one.startswith(f"{first}: 1 patient removed (2 records, 2 rows")
    assert two == f"{second}: no such patient, nothing was changed"
    assert second.read_bytes() == before
    missing = tmp_path / "runs" / "none.krisis"
    done = krisis("forget", str(first), str(missing), "--patient", "patient-000004", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.startswith(f"{first}: 1 patient removed")
    assert str(missing) in done.stderr
    done = krisis("forget", str(first), str(second), "--patient", "nobody", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "krisis: none of the 2 runs has a patient 'nobody'; nothing was changed\n"
    )


def refusal(path: Path, patient: str, cwd: Path) -> str:
    """Return why a patient is not forgotten; nothing may have changed."""
    before = {one: one.read_bytes() for one in path.parent.iterdir() if one.is_file()}
    done = krisis("forget", str(path), "--patient", patient, cwd=cwd)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert {one: one.read_bytes() for one in path.parent.iterdir() if one.is_file()} == before
    return done.stderr


def test_the_last_patient_is_not_taken_out(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(2)))
    assert "delete the file and its notes instead" in refusal(path, "patient-000000", tmp_path)


def test_a_record_is_not_a_patient(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    assert "is a record of" in refusal(path, "case-000003", tmp_path)


def test_a_run_that_is_written_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    lock = WriterLock(path)
    try:
        assert "is being written by another process" in refusal(path, "patient-000000", tmp_path)
    finally:
        lock.release()
    assert not lock_file(path).exists()


def test_a_run_with_files_beside_it_that_stay_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = begin_run(tmp_path / "live", result_of(invented_rows(12)))
    path = tmp_path / "runs" / "run.krisis"
    path.parent.mkdir()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{writer.path}{suffix}", f"{path}{suffix}")
    writer.close()
    monkeypatch.setattr("krisis.runs.read.recover", lambda path: None)  # as of somebody else's
    done = krisis("forget", str(path), "--patient", "patient-000000", cwd=tmp_path)
    assert done.returncode == 2
    assert "forget the patient in the copy" in done.stderr
    monkeypatch.undo()
    with open_run(path) as run:
        assert run.n_rows == 12


def test_a_record_that_names_no_patient_is_one(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    forge_run(path, "cases", "position = 3", cluster_id="")
    (found,) = api.forget(path, patient="case-000003")
    assert found.removed is not None
    assert found.removed.n_records == 1


def test_an_error_that_others_had_too_is_not_the_patients(tmp_path: Path) -> None:
    rows = invented_rows(12)
    for i in (0, 6):
        rows[i].error, rows[i].failure_class = "no reply in 60 s", "timeout"
        rows[i].prediction, rows[i].abstained = None, False
    result = result_of(rows)
    result.stop = Interrupted("the last error was: no reply in 60 s")
    path = write_run(tmp_path / "runs" / "run", result)
    api.forget(path, patient="patient-000000")
    assert load_run(path).stop == result.stop


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path = write_run(tmp_path / "away" / "run", result_of(invented_rows(12)))
    link = tmp_path / "runs" / "run.krisis"
    link.parent.mkdir()
    link.symlink_to(path)
    before = path.read_bytes()
    assert "is a link" in refusal(link, "patient-000000", tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE rows SET confidence = 0.5 WHERE position = 7",
        "UPDATE cases SET metadata = '{}' WHERE position = 7",
        "UPDATE texts SET text = text || '.'",
        "UPDATE sessions SET pid = 1",
        "UPDATE cases SET metadata = '{}' WHERE position < 2",  # both of the patient's own
    ],
)
def test_a_damaged_run_is_refused(tmp_path: Path, damage: str) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    edit_run(path, damage)
    assert "doctor" in refusal(path, "patient-000000", tmp_path)


def test_provider_batches_must_be_collected_first(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    with open_run(path) as run:
        description = run.description
    writer = RunWriter.resume(path, description, ())
    writer.begin_session({})
    writer.note_provider_batch(ProviderBatch("m", (BatchRequest((3,)),), "text", 1.0))
    writer.close()
    assert "collect or cancel them" in refusal(path, "patient-000000", tmp_path)


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_whenever_it_ends_there_is_the_old_run_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    add_review(path, record_id="case-000000", asking=1, mark="agree", note="x")
    before = path.read_bytes()

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(forgetting.os, moment, fail)
        done = krisis("forget", str(path), "--patient", "patient-000000", cwd=tmp_path)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "still holds the patient" in done.stderr
    assert path.read_bytes() == before
    assert not [one for one in path.parent.iterdir() if one.name.startswith(".")]
    # A process that was killed leaves a folder, which the next one removes.
    left = path.with_name(f".{path.name}.forget")
    left.mkdir()
    for name in (path.name, f"{path.name}-journal", "notes"):
        (left / name).write_bytes(before)
    assert krisis("forget", str(path), "--patient", "patient-000000", cwd=tmp_path).returncode == 0
    assert not left.exists()
    assert where(b"case-000000", tmp_path / "runs") == []


@pytest.mark.parametrize("kind", ["file", "folder", "alone", "link"])
def test_what_others_put_where_a_run_is_written_anew_stays(tmp_path: Path, kind: str) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    left = path.with_name(f".{path.name}.forget")
    if kind == "alone":
        thesis = left
    elif kind == "link":
        thesis = tmp_path / "elsewhere" / path.name
        thesis.parent.mkdir()
        left.symlink_to(thesis.parent)
    else:
        thesis = left / ("notes/thesis.txt" if kind == "folder" else "thesis.txt")
        thesis.parent.mkdir(parents=True)
    thesis.write_text("three years of work")
    assert "is not by krisis" in refusal(path, "patient-000000", tmp_path)
    assert thesis.read_text() == "three years of work"
    assert not lock_file(path).exists()


def test_the_old_file_is_overwritten_unless_it_has_another_name(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    with path.open("rb") as old:
        api.forget(path, patient="patient-000000")
        assert set(old.read()) == {0}
    other = tmp_path / "other.krisis"
    os.link(path, other)
    done = krisis("forget", str(path), "--patient", "patient-000001", cwd=tmp_path)
    assert "has another name (a hard link)" in done.stdout
    with open_run(other) as run:
        assert run.n_rows == 10


def test_others_who_name_the_patient_are_counted_and_their_texts_go(tmp_path: Path) -> None:
    rows = invented_rows(12)
    rows[8].raw_response = "like patient-000000, this one is ill"
    rows[9].raw_response = "unlike patient-0000001"
    rows[10].metadata = {**rows[10].metadata, "mother": "patient-000000"}
    for row in rows:
        row.prompt_mode = "single"
    path = write_run(tmp_path / "runs" / "run", result_of(rows))
    done = krisis("forget", str(path), "--patient", "patient-000000", cwd=tmp_path)
    assert "1 row of others lost a text shared with the patient" in done.stdout
    assert "1 line of other patients still names the patient" in done.stdout
    with open_run(path) as run:
        said = {row.record_id: row.raw_response for row in run.rows()}
        assert run.damage == ""
    assert said["case-000008"] == ""
    assert said["case-000009"] == "unlike patient-0000001"


def test_notes_about_others_lose_a_text_that_names_the_patient(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    said = {
        "case-000004": "compare with patient-000000, her mother",
        "case-000005": "first line\ncase-000001",
        "case-000006": "unlike xpatient-000001",
        "case-000007": "stays",
    }
    for record, note in said.items():
        add_review(path, record_id=record, asking=1, mark="disagree", note=note)
    line = review_file(path).read_bytes().splitlines()[-1]
    edited = {**json.loads(line), "record_id": "case-000008", "also": "patient-000000"}
    with review_file(path).open("ab") as file:
        file.write(json.dumps(edited).encode().replace(b'"at"', b'"by": "patient-000000", "at"'))
    with review_file(path).open("ab") as file:
        file.write(
            b"\n" + line.replace(b"000007", b"000009").replace(b'"at": "', b'"at": "case-000000 ')
        )
    done = krisis("forget", str(path), "--patient", "patient-000000", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0 review notes" in done.stdout
    assert "4 review notes of others lost a text that named the patient" in done.stdout
    copies_of(path, tmp_path / "copies")
    for name in (b"patient-000000", b"case-000000", b"case-000001"):
        assert where(name, tmp_path / "runs") == where(name, tmp_path / "copies") == []
    notes = read_reviews(path).notes.values()
    assert all(note.mark == "disagree" for note in notes)
    kept = {note.record_id: note.note for note in notes}
    assert kept == said | {
        "case-000004": "(removed with a patient)",
        "case-000005": "(removed with a patient)",
        "case-000008": "stays",
        "case-000009": "stays",
    }


def test_notes_that_say_nothing_of_the_patient_are_not_written_anew(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    add_review(path, record_id="case-000007", asking=1, mark="agree", note="stays")
    before = review_file(path).stat()
    (found,) = api.forget(path, patient="patient-000000")
    assert "that named the patient" not in str(found)
    assert review_file(path).stat().st_ino == before.st_ino


def test_a_cache_that_a_strangers_run_names_is_not_opened(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    named = tmp_path / "precious.sqlite"
    cache = ReplyCache(named)
    request = ChatRequest("openai", "m", "s", "u", {}, {}, "single", "x", 1)
    cache.put("key", request, ChatReply(invented_rows(1)[0].raw_response))
    cache.close()
    forge_description(path, config={"cache_path": str(named)})
    before = named.read_bytes()
    api.forget(path, patient="patient-000000")
    assert named.read_bytes() == before
    (found,) = api.forget(path, patient="patient-000001", cache_path=named)
    assert found.n_replies in (0, 1)


def test_a_cache_in_use_is_said_and_the_patient_stays(tmp_path: Path) -> None:
    import sqlite3

    cache = ReplyCache(default_cache_path())
    path = run_of(tmp_path / "runs", suite_of(), cache=cache)
    cache.flush()
    before = path.read_bytes()
    reader = sqlite3.connect(default_cache_path(), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM replies").fetchone()
    with pytest.raises(UserError, match="in use by another process"):
        api.forget(path, patient=PATIENT)
    assert path.read_bytes() == before
    reader.close()
    cache.close()
    api.forget(path, patient=PATIENT)
    assert where(b"ZQX", tmp_path) == []


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.krisis").write_text("no run")
    with pytest.raises((InvalidFile, UserError), match="is not a krisis run"):
        api.forget(tmp_path / "notes.krisis", patient="x")


def searched(folder: Path) -> Path:
    """Search a run of a folder, and return the index that this makes."""
    before = set((folder.parent / "cache").rglob("texts/*.sqlite"))
    assert Catalogue(folder).load("run").select(RowFilter(text="case-00000"))
    (index,) = set((folder.parent / "cache").rglob("texts/*.sqlite")) - before
    return index


def test_an_index_never_outlives_its_run_wherever_it_was_made(tmp_path: Path) -> None:
    kept = write_run(tmp_path / "kept" / "run", result_of(invented_rows(12)))
    gone = write_run(tmp_path / "gone" / "run", result_of(invented_rows(12)))
    changed = write_run(tmp_path / "changed" / "run", result_of(invented_rows(12)))
    indices = {path: searched(path.parent) for path in (kept, gone, changed)}
    half = indices[gone].with_suffix(".123.456")
    half.write_bytes(b"case-000001")  # of a process that was killed while it made an index
    os.utime(half, (1, 1))
    fresh = indices[kept].with_suffix(".123.456")
    fresh.write_bytes(b"being made")
    shutil.rmtree(gone.parent)
    api.forget(changed, patient="patient-000000")
    assert not indices[changed].exists()
    Catalogue(tmp_path / "kept")  # looks at no other folder
    assert indices[kept].exists()
    assert fresh.exists()
    assert not indices[gone].exists()
    assert not half.exists()


def test_an_index_of_another_state_goes_when_runs_are_listed(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    index, catalogue = searched(path.parent), Catalogue(path.parent)
    catalogue.entries()
    assert index.exists()
    edit_run(path, "UPDATE ledger SET at = ''")
    os.utime(path, (1, 1))
    catalogue.entries()
    assert not index.exists()


def test_an_index_that_another_viewer_removed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_run(tmp_path / "runs" / "run", result_of(invented_rows(12)))
    index = searched(path.parent)
    monkeypatch.setattr(search, "is_index_of", lambda *_: index.unlink() or True)
    found = Catalogue(path.parent).load("run").select(RowFilter(text="case-000001"))
    assert found == [1]
