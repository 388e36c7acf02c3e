"""A reader's pages: what a model sees and nothing more, by keyboard, kept at once, not forged."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn
from tests.viewer.conftest import ARTIFACTS
from tests.viewer.test_axe import violations

import krisis
from krisis.backends.prompt import build_prompt, build_reader_text
from krisis.data.base import BaseDataSuite
from krisis.errors import InvalidValue, RunConflict, UserError
from krisis.execution.assembly import suite_of
from krisis.execution.config import RunConfig
from krisis.runs.read import open_run
from krisis.runs.write import RunWriter
from krisis.verbs.read.desk import ReadingDesk
from krisis.verbs.read.site import create_reading_app
from krisis.viewer.security import FORM, LONGEST_FORM

TOKEN = "reader-token-0123456789"


def suite(name: str = "ckd", **settings: Any) -> BaseDataSuite:
    return suite_of(RunConfig(suite=name, model="reader", **settings))


def answer_all(desk: ReadingDesk, answer: str = "1", confidence: float = 0.8) -> None:
    while shown := desk.show():
        assert desk.answer(shown.position, shown.step, answer=answer, confidence=confidence)


# --- The desk --------------------------------------------------------------------------------


def test_what_is_shown_is_the_prompt_of_a_model_without_the_reply_format(tmp_path: Path) -> None:
    made = suite()
    desk = ReadingDesk(made, "A", out=tmp_path, limit=20)
    for case in desk.cases:
        prompt = build_prompt(made.task, [case.record.features], context=case.record.context)
        text = build_reader_text(made.task, case.record.features, context=case.record.context)
        assert text.user == prompt.user
        before, reply, _ = prompt.system.partition("\n\nReply with this JSON object")
        assert reply
        assert text.system == before
    shown = desk.show()
    assert shown is not None
    assert shown.findings == build_prompt(made.task, [desk.cases[0].record.features]).user
    desk.close()


def test_readers_read_the_same_cases_each_in_an_order_of_their_own(tmp_path: Path) -> None:
    desks = [ReadingDesk(suite(), name, out=tmp_path, limit=20) for name in ("A", "B")]
    orders = [[case.position for case in desk.cases] for desk in desks]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(20))
    assert orders[0] != orders[1]
    for desk in desks:
        desk.close()
    again = ReadingDesk(suite(), "A", out=tmp_path, limit=20)
    assert [case.position for case in again.cases] == orders[0]
    again.close()


def test_a_reader_pauses_goes_on_and_reads_more_later_in_one_run(tmp_path: Path) -> None:
    desk = ReadingDesk(suite(), "A", out=tmp_path, limit=5)
    for number in range(3):
        shown = desk.show()
        assert shown is not None
        abstains = number == 1
        desk.answer(
            shown.position,
            1,
            answer=None if abstains else "0",
            confidence=None if abstains else 0.7,
            comment="unsure" if abstains else "",
        )
    desk.close()
    (path,) = tmp_path.glob("*.krisis")
    result = krisis.load(path)
    assert result.backend_name == "reader/A"
    assert result.suite_description["read"] == "3 of 200"
    assert (result.attrition.n_answered, result.attrition.n_abstained) == (2, 1)
    assert result.stop is None
    assert all(row.latency_seconds is not None for row in result.rows)
    assert [row.raw_response for row in result.rows if row.abstained] == ["unsure"]
    assert "guideline" in result.baselines
    for limit in (5, 8):
        desk = ReadingDesk(suite(), "A", out=tmp_path, limit=limit)
        assert desk.n_read == (3 if limit == 5 else 5)
        answer_all(desk)
        desk.close()
    assert list(tmp_path.glob("*.krisis")) == [path]
    assert len(krisis.load(path).rows) == 8


def test_an_answer_is_on_disk_before_the_next_case_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = RunWriter._commit

    def slow(self: RunWriter, pending: Any) -> None:
        time.sleep(0.3)
        commit(self, pending)

    desk = ReadingDesk(suite(), "A", out=tmp_path, limit=3)
    shown = desk.show()
    assert shown is not None
    monkeypatch.setattr(RunWriter, "_commit", slow)
    desk.answer(shown.position, 1, answer="1", confidence=0.9)
    with open_run(desk.first.path) as run:
        assert run.n_rows == 1
    desk.close()


def test_two_readers_are_compared_on_their_common_cases_and_scored_like_models(
    tmp_path: Path,
) -> None:
    for name, answer in (("A", "0"), ("B", "1")):
        desk = ReadingDesk(suite(), name, out=tmp_path, limit=12)
        answer_all(desk, answer)
        desk.close()
    runs = sorted(tmp_path.glob("*.krisis"), key=lambda path: path.name[17:])
    (pair,) = krisis.compare(*runs, metrics=["accuracy"]).pairs
    assert pair.matched is not None
    assert {len(rows) for rows in pair.matched.rows.values()} == {12}


def test_with_a_model_its_answer_comes_after_the_first_answer_and_both_are_kept(
    tmp_path: Path,
) -> None:
    model = krisis.run("ckd", model="guideline", limit=6, out=tmp_path / "model").provenance
    model_run = Path(str(model.run_file))
    desk = ReadingDesk(suite(), "A", out=tmp_path / "read", limit=6, with_run=model_run)
    shown = desk.show()
    assert shown is not None
    assert (shown.step, shown.own, shown.shown) == (1, "", "")
    desk.answer(shown.position, 1, answer="0", confidence=0.6)
    second = desk.show()
    assert second is not None
    assert (second.step, second.position) == (2, shown.position)
    assert second.own == "chronic kidney disease is present, confidence 60 %"
    assert second.shown
    # Cut between the two: the same command goes on with the second answer.
    desk.close()
    desk = ReadingDesk(suite(), "A", out=tmp_path / "read", limit=6, with_run=model_run)
    again = desk.show()
    assert again is not None
    assert (again.step, again.position) == (2, shown.position)
    answer_all(desk, "1")
    desk.close()
    first, both = sorted(
        (krisis.load(path) for path in (tmp_path / "read").glob("*.krisis")),
        key=lambda run: len(run.backend_name),
    )
    assert (first.backend_name, both.backend_name) == ("reader/A", "reader/A with guideline")
    assert len(first.rows) == len(both.rows) == 6
    (pair,) = krisis.compare(first, both, metrics=["accuracy"]).pairs
    assert pair.matched is not None
    assert {len(rows) for rows in pair.matched.rows.values()} == {6}


def test_an_answer_outside_the_set_or_sent_twice_changes_nothing(tmp_path: Path) -> None:
    desk = ReadingDesk(suite(), "A", out=tmp_path, limit=3)
    shown = desk.show()
    assert shown is not None
    bad: list[tuple[str | None, float | None]] = [("7", 0.5), ("1", None), ("1", 1.5), (None, 0.5)]
    for answer, confidence in bad:
        with pytest.raises(InvalidValue):
            desk.answer(shown.position, 1, answer=answer, confidence=confidence)
    with pytest.raises(InvalidValue, match="at most 5,000 letters"):
        desk.answer(shown.position, 1, answer="1", confidence=1, comment="x" * 5001)
    assert desk.n_read == 0
    assert desk.answer(shown.position, 1, answer="1", confidence=0.9)
    assert not desk.answer(shown.position, 1, answer="0", confidence=0.9)
    assert desk.first.rows[shown.position].prediction == 1
    with pytest.raises(RunConflict):
        ReadingDesk(suite(), "A", out=tmp_path, limit=3)  # somebody else reads under that name
    desk.close()


@pytest.mark.parametrize("name", ["", "a/b", "../x", "x" * 41, "a\nb", " a"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="is no name for a reader"):
        ReadingDesk(suite(), name, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_may_not_be_shown_and_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    restricted = suite()
    restricted.stores_text = False
    with pytest.raises(InvalidValue, match="may not be shown"):
        ReadingDesk(restricted, "A", out=tmp_path)
    other = krisis.run("ckd", model="guideline", task="staging", limit=3, out=tmp_path / "x")
    with pytest.raises(InvalidValue, match="name a run of the same suite and task"):
        ReadingDesk(suite(), "A", out=tmp_path, with_run=Path(str(other.provenance.run_file)))
    with pytest.raises(UserError, match="nowhere"):
        ReadingDesk(suite(), "A", out=tmp_path, with_run=tmp_path / "nowhere.krisis")
    assert list(tmp_path.glob("*.krisis")) == []


def test_pausing_stops_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("krisis.verbs.read.desk.time.monotonic", lambda: now[0])
    desk = ReadingDesk(suite(), "A", out=tmp_path, limit=2)
    shown = desk.show()
    assert shown is not None
    now[0] += 7
    desk.pause()
    now[0] += 1000
    desk.show()
    now[0] += 5
    desk.answer(shown.position, 1, answer="1", confidence=0.5)
    assert desk.first.rows[shown.position].latency_seconds == 12
    desk.close()


# --- The pages -------------------------------------------------------------------------------


@dataclass
class Visitor:
    """Somebody at the pages, with the cookie or without."""

    port: int
    cookie: str = ""
    origin: str = field(init=False)

    def __post_init__(self) -> None:
        self.origin = f"http://127.0.0.1:{self.port}"

    def send(
        self, path: str, fields: dict[str, Any] | None = None, **headers: str | None
    ) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent: dict[str, str | None] = {"Cookie": self.cookie} if self.cookie else {}
        body = None
        if fields is not None:
            body = urlencode(fields)
            sent |= {"Content-Type": FORM, "Origin": self.origin}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        kept = {name: value for name, value in sent.items() if value is not None}
        connection.request("GET" if fields is None else "POST", path, body, kept)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(), dict(answer.getheaders())
        connection.close()
        return found

    def enter(self, token: str = TOKEN) -> None:
        status, _, headers = self.send(f"/?token={token}")
        assert status == 303
        self.cookie = headers["set-cookie"].partition(";")[0]


def served(desk: ReadingDesk) -> AbstractContextManager[Visitor]:
    return serving(create_reading_app(desk, token=TOKEN))


@contextmanager
def serving(site: Any) -> Iterator[Visitor]:
    configuration = uvicorn.Config(site, port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(configuration)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Visitor(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ReadingDesk]:
    made = ReadingDesk(suite(), "A", out=tmp_path / "runs", limit=4)
    yield made
    made.close()


def place_in(page: str) -> dict[str, str]:
    found = re.findall(r'type="hidden" name="(\w+)" value="(\d+)"', page)
    return dict(found)


def test_a_case_is_answered_by_its_form_and_the_next_one_follows(desk: ReadingDesk) -> None:
    with served(desk) as visitor:
        visitor.enter()
        for number in range(1, 5):
            status, page, _ = visitor.send("/")
            assert status == 200
            assert f"Case {number} of 4" in page
            fields = {**place_in(page), "answer": "answer 1", "confidence": "85", "comment": "hm"}
            status, _, headers = visitor.send("/answer", fields)
            assert (status, headers["location"]) == (303, "/")
        assert "all 4 cases are read" in visitor.send("/")[1]
    assert {row.confidence for row in desk.first.rows.values()} == {0.85}


def test_the_page_knows_no_truth_no_id_and_no_model(tmp_path: Path) -> None:
    made = krisis.run("ckd", model="guideline", limit=4, out=tmp_path / "model")
    path = Path(str(made.provenance.run_file))
    desk = ReadingDesk(suite(), "A", out=tmp_path / "runs", limit=4, with_run=path)
    case = desk.cases[0]
    with served(desk) as visitor:
        visitor.enter()
        _, page, headers = visitor.send("/")
        told = page + "".join(f"{name}: {value}" for name, value in headers.items())
        assert case.record.record_id not in told
        assert "guideline" not in told
        kept_back = {
            name: value
            for name, value in case.record.metadata.items()
            if isinstance(value, str) and len(value) > 3 and value not in desk.show().findings  # type: ignore[union-attr]
        }
        assert kept_back
        assert [name for name, value in kept_back.items() if value in told] == []
        twins = [c for c in desk.cases if c.record.label != case.record.label]
        assert twins  # what follows would prove nothing if all truths were alike
        outline = re.sub(r'<div class="written".*?</div>', "", page, flags=re.DOTALL)
        desk.cases = [twins[0], *(c for c in desk.cases if c is not twins[0])]
        _, other, _ = visitor.send("/")
        other = re.sub(r'<div class="written".*?</div>', "", other, flags=re.DOTALL)
        assert outline.replace(f'"{case.position}"', "") == other.replace(
            f'"{twins[0].position}"', ""
        )
    desk.close()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "choose an answer, or abstain"),
        ({"answer": "answer 1"}, "give a confidence between 0 and 100 %"),
        ({"answer": "answer 1", "confidence": "101"}, "give a confidence"),
        ({"answer": "answer 1", "confidence": "nan"}, "give a confidence"),
        ({"answer": "answer 9", "confidence": "50"}, "is not one of the allowed answers"),
        ({"answer": "1e400", "confidence": "50"}, "is not one of the allowed answers"),
        ({"position": "x"}, "does not say which case"),
    ],
)
def test_a_form_that_lacks_something_comes_back_with_what_was_typed(
    desk: ReadingDesk, fields: dict[str, str], sentence: str
) -> None:
    with served(desk) as visitor:
        visitor.enter()
        place = place_in(visitor.send("/")[1])
        given = {**place, "comment": "<b>typed</b>", **fields}
        status, page, _ = visitor.send("/answer", given)
    assert status == 422
    assert sentence in page
    assert "&lt;b&gt;typed&lt;/b&gt;" in page
    assert desk.n_read == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Cookie": None}, 403),
        ({"Cookie": "krisis-view-1=wrong"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Content_Type": "text/plain"}, 403),
        ({"Content_Type": "multipart/form-data; boundary=x"}, 403),
    ],
)
def test_a_forged_answer_is_refused(
    desk: ReadingDesk, headers: dict[str, str | None], status: int
) -> None:
    with served(desk) as visitor:
        visitor.enter()
        place = place_in(visitor.send("/")[1])
        fields = {**place, "answer": "answer 1", "confidence": "85"}
        found, page, _ = visitor.send("/answer", fields, **headers)
        assert found == status
        assert "reader-token" not in page
        assert desk.n_read == 0
        assert visitor.send("/", fields)[0] == 405
        assert visitor.send("/pause", fields)[0] == 405
        assert visitor.send("/answer", {**fields, "comment": "x" * LONGEST_FORM})[0] == 403
        assert visitor.send("/answer", fields)[0] == 303
    assert desk.n_read == 1


def test_a_stranger_sees_neither_case_nor_reader(desk: ReadingDesk) -> None:
    with served(desk) as visitor:
        for path in ("/", "/pause", "/?token=wrong"):
            status, page, _ = visitor.send(path)
            assert status in (303, 403)
            assert "Findings" not in page
            assert "A ·" not in page


# --- The command, killed ---------------------------------------------------------------------


@contextmanager
def command(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Visitor]]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "krisis", "read", "ckd", "--reader", "A", "--port", "0"),
            *("--no-browser", "--limit", "5", "-o", "runs"),
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", line):
                visitor = Visitor(int(found[1]))
                visitor.enter(found[2])
                yield process, visitor
                return
        raise AssertionError("the command printed no address")
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_kill_between_two_answers_loses_none_and_the_command_goes_on(tmp_path: Path) -> None:
    for n in range(1, 4):
        with command(tmp_path) as (process, visitor):
            page = visitor.send("/")[1]
            assert f"Case {n} of 5" in page
            fields = {**place_in(page), "answer": "answer 0", "confidence": "70"}
            assert visitor.send("/answer", fields)[0] == 303
            process.send_signal(signal.SIGKILL)
            process.wait()
        (path,) = (tmp_path / "runs").glob("*.krisis")
        result = krisis.load(path)
        assert len(result.rows) == n
        assert result.suite_description["read"] == f"{n} of 200"
        assert result.stop is None
        assert all(row.latency_seconds and row.latency_seconds > 0 for row in result.rows)
    with command(tmp_path) as (process, visitor):
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
    assert "Run: runs/" in printed
    assert process.returncode == 0


# --- In a browser ----------------------------------------------------------------------------


@pytest.mark.browser
def test_a_case_is_read_with_the_keyboard_alone(chromium: Any, desk: ReadingDesk) -> None:
    with served(desk) as visitor:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{visitor.origin}/?token={TOKEN}")
        shown = desk.show()
        assert shown is not None
        # textContent, so that the eye of a person and the string are the same letters
        assert page.locator("#findings").inner_text() == shown.findings
        assert page.locator("#about").inner_text() == shown.about
        page.keyboard.press("2")
        assert page.evaluate("document.activeElement.id") == "confidence"
        page.keyboard.type("90")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Case 2 of 4")
        # Without the single keys: arrows choose, Tab goes on.
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        page.keyboard.type("55")
        page.keyboard.press("Tab")
        page.keyboard.type("a 1 is typed here, not chosen")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Case 3 of 4")
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Case 4 of 4")
        context.close()
    rows = {row.record_id: row for row in desk.first.rows.values()}
    found = [rows[case.record.record_id] for case in desk.cases[:3]]
    assert [(row.prediction, row.confidence) for row in found] == [
        (1, 0.9),
        (0, 0.55),
        (None, None),
    ]
    assert found[1].raw_response == "a 1 is typed here, not chosen"
    assert found[2].abstained


@pytest.mark.browser
@pytest.mark.parametrize("state", ["case", "second", "error", "pause", "end", "refused"])
def test_axe_finds_nothing_on_the_pages_of_a_reader(
    chromium: Any, tmp_path: Path, state: str
) -> None:
    made = krisis.run("ckd", model="guideline", limit=2, out=tmp_path / "model")
    path = Path(str(made.provenance.run_file))
    desk = ReadingDesk(suite(), "A", out=tmp_path / "runs", limit=2, with_run=path)
    with served(desk) as visitor:
        context = chromium.new_context()
        page = context.new_page()
        if state != "refused":
            page.goto(f"{visitor.origin}/?token={TOKEN}")
        if state == "second":
            page.keyboard.press("1")
            page.keyboard.type("80")
            page.keyboard.press("Enter")
            page.wait_for_selector("#shown")
        elif state == "error":
            page.click("button[type=submit]")
            page.wait_for_selector("#error")
        elif state == "pause":
            page.goto(f"{visitor.origin}/pause")
        elif state == "end":
            answer_all(desk)
            page.goto(visitor.origin)
        elif state == "refused":
            page.goto(visitor.origin)
        ARTIFACTS.mkdir(exist_ok=True)
        found = []
        for width in (1280, 390):
            for scheme in ("light", "dark"):
                page.set_viewport_size({"width": width, "height": 900})
                page.emulate_media(color_scheme=scheme)
                found += [f"{width} {scheme}: {one}" for one in violations(page)]
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                name = f"reading-{state}-{width}-{scheme}.png"
                page.screenshot(path=ARTIFACTS / name, full_page=True)
        context.close()
    desk.close()
    assert found == []
