"""Reviewers mark cases next to the run, which never changes; and one list is left for people."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Done
from tests.commands import krisis as typed
from tests.documents import said
from tests.invented_runs import invented_rows, result_of, write_run
from tests.viewer.conftest import ARTIFACTS
from tests.viewer.test_axe import violations
from tests.viewer.test_reading import TOKEN, Visitor, serving

import krisis
from krisis.decisions.hand_over import hand_over
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.metrics.base import EvaluationResult
from krisis.runs.load import load_run
from krisis.runs.review import MARKS, add_review, read_reviews, review_file
from krisis.viewer.app import create_app
from krisis.viewer.security import LONGEST_FORM


def command(*words: str | Path, cwd: Path) -> Done:
    return typed(*map(str, words), cwd=cwd)


def lines_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_run(tmp_path / "run", result_of(invented_rows(60)))
    return tmp_path


@pytest.fixture
def site(folder: Path) -> Iterator[Visitor]:
    with serving(create_app(folder, token=TOKEN)) as visitor:
        visitor.enter()
        yield visitor


def mark(visitor: Visitor, position: int, **fields: str) -> int:
    return visitor.send(f"/runs/run/cases/{position}/review", fields)[0]


# --- The file --------------------------------------------------------------------------------


def test_notes_are_added_and_the_latest_counts(folder: Path) -> None:
    run = folder / "run.krisis"
    for kind, note in (("disagree", "no"), ("label_wrong", "the label\nis of another visit")):
        add_review(run, record_id="a", asking=1, mark=kind, note=note)
    add_review(run, record_id="a", asking=2, mark="agree")
    path = review_file(run)
    assert path == folder / "run.review.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text().splitlines()) == 3
    found = read_reviews(run)
    assert found.notes["a", 1].mark == "label_wrong"
    assert found.notes["a", 1].note == "the label\nis of another visit"
    assert found.notes["a", 1].by
    assert found.notes["a", 1].at.endswith("+00:00")
    assert found.notes["a", 2].mark == "agree"


def test_a_cut_line_costs_itself_and_not_the_next_one(folder: Path) -> None:
    run = folder / "run.krisis"
    add_review(run, record_id="a", asking=1, mark="agree")
    add_review(run, record_id="b", asking=1, mark="agree")
    path = review_file(run)
    path.write_bytes(path.read_bytes()[:-9])
    add_review(run, record_id="c", asking=1, mark="unclear")
    found = read_reviews(run)
    assert set(found.notes) == {("a", 1), ("c", 1)}
    assert found.n_unreadable == 1


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "null",
        '{"record_id": "a"}',
        '{"record_id": "a", "asking": "1", "mark": "agree", "note": "", "by": "", "at": ""}',
        '{"record_id": "a", "asking": 1, "mark": "x", "note": "", "by": "", "at": ""}',
        "[" * 100_000,
    ],
)
def test_a_line_that_somebody_else_wrote_is_counted_and_left_out(folder: Path, line: str) -> None:
    review_file(folder / "run.krisis").write_text(line + "\n")
    found = read_reviews(folder / "run.krisis")
    assert (dict(found.notes), found.n_unreadable) == ({}, 1)


def test_links_unknown_marks_and_long_notes_are_refused(folder: Path, tmp_path: Path) -> None:
    run = folder / "run.krisis"
    with pytest.raises(UnknownName):
        add_review(run, record_id="a", asking=1, mark="wrong")
    with pytest.raises(InvalidValue, match="at most 5,000"):
        add_review(run, record_id="a", asking=1, mark="agree", note="x" * 5001)
    assert not review_file(run).exists()
    target = tmp_path / "elsewhere.txt"
    target.write_text("mine")
    review_file(run).symlink_to(target)
    with pytest.raises(InvalidFile):
        add_review(run, record_id="a", asking=1, mark="agree")
    with pytest.raises(InvalidFile):
        read_reviews(run)
    assert target.read_text() == "mine"


# --- In the viewer ---------------------------------------------------------------------------


def test_a_case_is_marked_filtered_and_exported_and_the_run_stays(
    site: Visitor, folder: Path
) -> None:
    run = folder / "run.krisis"
    before = hashlib.sha256(run.read_bytes()).hexdigest()
    for position, kind in enumerate(MARKS):
        assert mark(site, position, mark=kind, note=f"note {position}", queue="correct=no") == 303
    status, page, _ = site.send("/runs/run/cases/2")
    assert status == 200
    assert "Marked <strong>the label is wrong</strong>" in page
    assert "note 2" in page
    for state, n in {"agree": 1, "label_wrong": 1, "any": 4, "none": 56}.items():
        found = json.loads(site.send(f"/runs/run/cases.json?review={state}")[1])
        assert found["n_found"] == n, state
    lines = list(csv.DictReader(io.StringIO(site.send("/runs/run/cases.csv?review=any")[1])))
    assert [line["review"] for line in lines] == list(MARKS)
    command("export", run, "--to", "csv", "-o", "rows.csv", cwd=folder)
    rows = lines_of(folder / "rows.csv")
    assert len(rows) == 60
    assert sorted(row["review"] for row in rows if row["review"]) == sorted(MARKS)
    assert hashlib.sha256(run.read_bytes()).hexdigest() == before
    found = site.send("/runs/run/cases/1/review", {"mark": "agree", "queue": "//evil.example"})
    assert found[2]["location"].startswith("/runs/run/cases/1")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": None},
        {"Host": "evil.example"},
        {"Cookie": None},
        {"Cookie": "krisis-view-1=wrong"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Content_Type": "application/json"},
    ],
)
def test_a_forged_review_is_refused(
    site: Visitor, folder: Path, headers: dict[str, str | None]
) -> None:
    fields = {"mark": "label_wrong"}
    status, page, _ = site.send("/runs/run/cases/1/review", fields, **headers)
    assert status == 403
    assert TOKEN not in page
    assert not review_file(folder / "run.krisis").exists()


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("/runs/run/cases/1/review", {"mark": "maybe"}, 404),
        ("/runs/run/cases/1/review", {}, 404),
        ("/runs/run/cases/1/review", {"mark": "agree", "note": "x" * 5001}, 400),
        ("/runs/run/cases/1/review", {"mark": "agree", "note": "x" * LONGEST_FORM}, 403),
        ("/runs/run/cases/999/review", {"mark": "agree"}, 400),
        ("/runs/other/cases/1/review", {"mark": "agree"}, 404),
        ("/runs/..%2fx/cases/1/review", {"mark": "agree"}, 404),
        ("/runs/run/cases/1", {"mark": "agree"}, 405),
        ("/runs/run", {"mark": "agree"}, 405),
        ("/", {"mark": "agree"}, 405),
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_written(
    site: Visitor, folder: Path, path: str, fields: dict[str, str], status: int
) -> None:
    found, page, _ = site.send(path, fields)
    assert found in (status, 405)
    assert "Traceback" not in page
    assert list(folder.glob("*.jsonl")) == []


def test_without_a_token_nobody_writes_and_no_form_is_shown(folder: Path) -> None:
    with serving(create_app(folder)) as visitor:
        assert "review-note" not in visitor.send("/runs/run/cases/1")[1]
        assert mark(visitor, 1, mark="agree") == 405


# --- Left for people -------------------------------------------------------------------------


def sure_rows(n: int = 400) -> list[EvaluationResult]:
    """Return a model that is right where it is sure, abstains at times, and at times babbles."""
    rows = []
    for i in range(n):
        answer = dict[str, Any](prediction=int(i % 2), confidence=0.95 - 0.0001 * i)
        if i % 10 == 3:
            answer = {"prediction": None, "abstained": True, "confidence": None}
        elif i % 40 == 7:
            answer = {"prediction": None, "error": "no", "failure_class": "no_prediction"}
        elif i % 4 == 0:
            answer = {"prediction": 1 - int(i % 2), "confidence": 0.5}
        rows.append(
            EvaluationResult(
                ground_truth=int(i % 2), record_id=f"r{i:03}", cluster_id=f"p{i:03}", **answer
            )
        )
    return rows


@pytest.mark.parametrize("certified", [True, False])
def test_the_verdict_the_decide_page_the_queue_and_both_lists_count_the_same(
    tmp_path: Path, certified: bool
) -> None:
    rows = sure_rows() if certified else list(invented_rows(60))
    write_run(tmp_path / "run", result_of(rows))
    run = tmp_path / "run.krisis"
    found = hand_over(load_run(run))
    assert (found.in_force.threshold is not None) == certified
    n = len(found.cases)
    assert 0 < n < found.n_cases
    verdict = load_run(run).document().verdict
    assert verdict is not None
    assert f"{n:,} of {found.n_cases:,} cases" in str(verdict.line("left_for_people").figures[0])
    with serving(create_app(tmp_path, token=TOKEN)) as visitor:
        visitor.enter()
        page = json.loads(visitor.send("/runs/run/decide.json")[1])
        assert page["left_for_people"]["n"] == n
        shown = visitor.send("/runs/run/decide")[1]
        assert f'left=yes">{n}</a></strong> of {found.n_cases} cases' in shown
        assert json.loads(visitor.send("/runs/run/cases.json?left=yes")[1])["n_found"] == n
        sent = visitor.send("/runs/run/left-for-people.csv")[1]
    command("export", run, "--to", "left-for-people", "-o", "left.csv", cwd=tmp_path)
    path = tmp_path / "left.csv"
    assert path.read_bytes().decode() == sent
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = lines_of(path)
    assert len(lines) == n
    assert {line["why"] for line in lines} <= {"abstained", "no answer", "below the threshold"}
    assert all(line["record_id"] and line["patient"] for line in lines)
    if certified:
        by_why = [line["why"] for line in lines]
        assert by_why.count("abstained") == 40
        assert by_why.count("no answer") == 10
        assert by_why.count("below the threshold") == n - 50
        assert {row["record_id"] for row in lines if row["why"] == "abstained"} == {
            f"r{i:03}" for i in range(400) if i % 10 == 3
        }


def test_the_list_follows_a_certificate_and_refuses_one_of_another_model(tmp_path: Path) -> None:
    write_run(tmp_path / "run", result_of(sure_rows()))
    run = tmp_path / "run.krisis"
    command("certify", run, "--risk", "0.2", "-o", "c.json", cwd=tmp_path)
    words = ("export", run, "--to", "left-for-people", "--certificate", "c.json")
    command(*words, "-o", "left.csv", cwd=tmp_path)
    lax = lines_of(tmp_path / "left.csv")
    assert len(lax) == len(
        hand_over(load_run(run), certificate=krisis.certify(run, risk=0.2)).cases
    )
    write_run(tmp_path / "other", result_of(sure_rows(), "another/model"))
    other = ("export", tmp_path / "other.krisis", *words[2:], "-o", "x.csv")
    done = command(*other, cwd=tmp_path)
    assert done.returncode == 2
    assert "of the model" in done.stderr
    assert not (tmp_path / "x.csv").exists()


def test_the_document_of_the_run_says_the_same(tmp_path: Path) -> None:
    write_run(tmp_path / "run", result_of(sure_rows()))
    result = load_run(tmp_path / "run.krisis")
    n = len(hand_over(result).cases)
    assert f"{n} of 400 cases" in said(result.document())


# --- In a browser ----------------------------------------------------------------------------


@pytest.mark.browser
def test_a_case_is_reviewed_with_the_keyboard_alone_without_a_barrier(
    chromium: Any, folder: Path
) -> None:
    with serving(create_app(folder, token=TOKEN)) as visitor:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{visitor.origin}/runs/run/cases/3?token={TOKEN}")
        page.locator("input[name=mark]").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Tab")
        page.keyboard.type("the visit is another one; n and p are typed, not pressed")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("#review-state")
        assert "the label is wrong" in page.locator("#review-state").inner_text()
        found = []
        ARTIFACTS.mkdir(exist_ok=True)
        for width in (1280, 390):
            for scheme in ("light", "dark"):
                page.set_viewport_size({"width": width, "height": 900})
                page.emulate_media(color_scheme=scheme)
                found += [f"{width} {scheme}: {one}" for one in violations(page)]
                page.screenshot(path=ARTIFACTS / f"review-{width}-{scheme}.png", full_page=True)
        context.close()
    assert found == []
    (note,) = read_reviews(folder / "run.krisis").notes.values()
    assert note.mark == "label_wrong"
    assert note.note.startswith("the visit is another one; n and p")
