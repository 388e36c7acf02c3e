"""Every filter finds the rows that reading all of them finds, and a search what is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.invented_runs import (
    edit_run,
    forge_run,
    result_of,
    rows_of_every_outcome,
    write_run,
)

from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.partition import deferral_cell, verdict
from krisis.results.group_labels import group_headings, group_label
from krisis.runs.load import load_run
from krisis.runs.read import open_run, state_of
from krisis.viewer.catalogue import Catalogue, ViewedRun
from krisis.viewer.filters import DUE, NO_ANSWER, RowFilter, label_text
from krisis.viewer.search import TextSearch, sought


def as_is(path: Path) -> None:
    pass


def damaged(path: Path) -> None:
    """Rows whose checksum is wrong, a row of a damaged case, a row that contradicts itself."""
    edit_run(path, "UPDATE rows SET confidence = 0.999 WHERE position IN (3, 40, 41)")
    edit_run(path, "UPDATE cases SET metadata = '{' WHERE position = 60")
    edit_run(path, "UPDATE cases SET cluster_id = 'x' WHERE position = 61")


def lacking(path: Path) -> None:
    """Rows 5 to 20 were never asked."""
    edit_run(path, "DELETE FROM rows WHERE position BETWEEN 5 AND 20")


def odd_metadata(path: Path) -> None:
    """Texts, numbers and lists where one value was expected, under checksums that are right."""
    odd: dict[int, Any] = {
        1: {"should_abstain": 1, "abstain_reason": "one reason"},
        2: {"should_abstain": "perhaps", "abstain_reasons": "not a list"},
        3: {"should_abstain": [], "sex": ["female"], "ckd_stage": 3.0},
        4: {"should_abstain": None, "age": True, "ckd_stage": "  3 "},
        5: {"sex": 'quoted " sex', "age_band": "old", "synthetic": True},
        6: {"synthetic": False, "abstain_reasons": [1, None, "x"], "stage": 4},
        7: {},
    }
    for position, metadata in odd.items():
        forge_run(path, "cases", f"position = {position}", metadata=json.dumps(metadata))
    forge_run(path, "rows", "position = 9", metadata=json.dumps({"sex": "of the row alone"}))


@pytest.fixture(scope="module", params=[as_is, damaged, lacking, odd_metadata])
def viewed(request: Any, tmp_path_factory: pytest.TempPathFactory) -> ViewedRun:
    folder = tmp_path_factory.mktemp("runs")
    rows = rows_of_every_outcome()
    for position, row in enumerate(rows):
        row.raw_response = f"Reply {position} – ÄÖ ß 血清\x00\n{row.raw_response}"
    rows[30].prediction, rows[31].prediction, rows[32].prediction = None, " 1 ", "1.0"
    rows[33].confidence = None
    request.param(write_run(folder / "run", result_of(rows)))
    return Catalogue(folder).load("run")


def held(run: ViewedRun) -> dict[int, EvaluationResult]:
    """Return the rows as loading gives them, by position."""
    with open_run(run.path) as file:
        return file.contents().rows


def passes(row: EvaluationResult, wanted: RowFilter, run: ViewedRun) -> bool:
    """Say whether a row passes a filter, in the words of the documentation."""
    answers, headings = run.answers, group_headings(run.answers)
    found = verdict(row, answers)
    no_label = row.outcome == "no_answer" or (row.outcome == "answered" and row.prediction is None)
    predicted = NO_ANSWER if no_label else label_text(row.prediction)
    reasons = row.metadata.get("abstain_reasons") or row.metadata.get("abstain_reason") or []
    name, _, group = wanted.group.partition(": ")
    text = "\n".join((row.record_id, str(row.prediction), row.raw_response, row.error or ""))
    stated = -1.0 if row.confidence is None else row.confidence
    return all(
        (
            wanted.outcome in ("", row.outcome)
            or (wanted.outcome == "scored" and row.outcome != "not_evaluated"),
            not wanted.correct or found == {"yes": "right", "no": "wrong"}[wanted.correct],
            wanted.cell in ("", deferral_cell(row)),
            not wanted.due or deferral_cell(row) in DUE[wanted.due],
            not wanted.reason
            or wanted.reason in map(str, reasons if isinstance(reasons, list) else [reasons]),
            not wanted.failure or (row.error is not None and row.failure_class == wanted.failure),
            not wanted.predicted
            or (row.outcome in ("answered", "no_answer") and predicted == wanted.predicted),
            wanted.truth in ("", label_text(row.ground_truth)),
            not wanted.group
            or (name in headings and group_label(row, name, headings[name]) == group),
            wanted.record in ("", row.record_id),
            all(part in text.casefold() for part in sought(wanted.text.casefold())),
            wanted.confidence_min is None or stated >= wanted.confidence_min,
            wanted.confidence_max is None or -1 < stated <= wanted.confidence_max,
            wanted.deferred_at is None
            or (row.outcome == "answered" and stated < wanted.deferred_at),
        )
    )


FILTERS = [
    RowFilter(),
    RowFilter(correct="yes"),
    RowFilter(correct="no", sort="-confidence"),
    RowFilter(outcome="not_evaluated"),
    RowFilter(outcome="scored", sort="confidence"),
    RowFilter(cell="answer_when_should_defer"),
    RowFilter(cell="no_answer_when_safe"),
    RowFilter(due="yes", reason="egfr_near_threshold"),
    RowFilter(due="no"),
    RowFilter(due="stated"),
    RowFilter(reason="one reason"),
    RowFilter(reason="not a list"),
    RowFilter(reason="None"),
    RowFilter(predicted="1", truth="0"),
    RowFilter(predicted=NO_ANSWER),
    RowFilter(failure="timeout"),
    RowFilter(group="stage: 3"),
    RowFilter(group="stage: nothing"),
    RowFilter(group="nothing: 3"),
    RowFilter(group='sex: quoted " sex'),
    RowFilter(group="sex: of the row alone"),
    RowFilter(group="sex: not stated"),
    RowFilter(group="age band: 75+"),
    RowFilter(group="age band: old"),
    RowFilter(group="source: synthetic"),
    RowFilter(record="case-000030"),
    RowFilter(record="case-00003"),
    RowFilter(text="REPLY 1"),
    RowFilter(text="reply CASE-00001"),
    RowFilter(text="äö SS"),
    RowFilter(text="清"),
    RowFilter(text="'; DROP TABLE rows; --"),
    RowFilter(text='"reply 12"'),
    RowFilter(text='a "b'),
    RowFilter(text="case-00001 –"),
    RowFilter(text="AND OR NOT *"),
    RowFilter(confidence_min=0.5, confidence_max=0.8, deferred_at=0.7),
]


@pytest.mark.parametrize("wanted", FILTERS, ids=lambda wanted: str(wanted)[10:60])
def test_a_filter_finds_what_reading_every_row_finds(viewed: ViewedRun, wanted: RowFilter) -> None:
    rows = held(viewed)
    expected = [position for position in sorted(rows) if passes(rows[position], wanted, viewed)]
    if wanted.sort != "position":
        sign = -1 if wanted.sort.startswith("-") else 1
        expected.sort(
            key=lambda at: (rows[at].confidence is None, sign * (rows[at].confidence or 0))
        )
    assert viewed.select(wanted) == expected
    assert viewed.count(wanted) == len(expected)
    pages = [viewed.select(wanted, start=start, most=7) for start in range(0, len(expected), 7)]
    assert [position for page in pages for position in page] == expected


@pytest.mark.parametrize("column", ["group", "reason", "failure", "predicted", "truth"])
def test_every_choice_of_a_filter_finds_a_row(viewed: ViewedRun, column: str) -> None:
    choices = viewed.choices(column)
    assert choices == sorted(choices) or column == "group"
    for value in choices:
        assert viewed.count(RowFilter(**{column: value})) > 0 or "DAMAGED" in viewed.result.damage


def test_no_row_that_cannot_be_believed_is_counted(viewed: ViewedRun) -> None:
    assert viewed.n_rows == len(viewed.result.evaluation_results) == len(viewed.places)
    found = dict(viewed.rows(range(160)))
    assert sorted(found) == viewed.places
    assert list(found.values()) == list(load_run(viewed.path).evaluation_results)


TEXTS = [
    "the egfr is 43.2, near the threshold",
    "albumin not stated; egfr_new is 12",
    "Straße naïve 血清 肌酐 end İ ﬁne",
    "",
    "the the the threshold \x00 after nothing",
    "ab 😀😁 \U0001f3f3\ufe0f\u200d\U0001f308 \u202e x",
]


def searched(folder: Path, texts: list[str]) -> Callable[[str], list[int]]:
    rows = Rows(
        EvaluationResult(1, 1, raw_response=text, record_id=f"r{i}") for i, text in enumerate(texts)
    )
    path = write_run(folder / "run", result_of(rows), n_cases=len(texts))
    search = TextSearch(folder)

    def found(text: str) -> list[int]:
        with open_run(path) as run:
            return search.positions(run, state_of(path), text)

    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[int]]:
    return searched(tmp_path_factory.mktemp("texts"), TEXTS)


@pytest.mark.parametrize(
    "needle",
    [
        *("the", "thr", "egfr", "43.2", "EGFR_N", '"is 12"', '"the the"', "e", "0", '"ß na"', "清"),
        *("血清", '"the threshold"', '"hold the"', "nowhere", '"stated; e"', "1", '", near"', "İ"),
        *("😀", "😀😁", "\u202e", "\U0001f308", "ﬁ", "fi", "STRASSE", '"d \x00 a"', "%", "_", "*"),
    ],
)
def test_a_text_is_found_where_it_is(found: Callable[[str], list[int]], needle: str) -> None:
    parts = sought(needle.casefold())
    expected = [
        number
        for number, text in enumerate(TEXTS)
        if all(part in f"r{number}\n1\n{text}".casefold() for part in parts)
    ]
    assert found(needle) == expected


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text('abAé血_ .-\n"*', max_size=12), min_size=1, max_size=8),
    st.lists(st.text('abAé血_ .-"*', min_size=1, max_size=5), min_size=1, max_size=6),
)
def test_any_text_is_found_as_by_reading(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], needles: list[str]
) -> None:
    found = searched(tmp_path_factory.mktemp("texts"), texts)
    for needle in needles:
        parts = sought(needle.casefold())
        expected = [
            number
            for number, text in enumerate(texts)
            if parts and all(part in f"r{number}\n1\n{text}".casefold() for part in parts)
        ]
        assert found(needle) == expected


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("egfr 43.2", ["egfr", "43.2"]),
        (" case-07  case-07 ", ["case-07"]),
        (' "is not" ', ["is not"]),
        ('"is" "not"', ['is" "not']),
        ('""', ['""']),
        ("→", ["→"]),
    ],
)
def test_a_search_is_for_every_word_or_for_the_phrase_in_quotes(
    typed: str, parts: list[str]
) -> None:
    assert sought(typed) == parts


def test_an_index_is_of_one_state_of_its_run_and_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = rows_of_every_outcome()
    path = write_run(tmp_path / "runs" / "run", result_of(rows))
    catalogue = Catalogue(tmp_path / "runs")
    wanted = RowFilter(text="case-00001")
    assert catalogue.load("run").select(wanted) == list(range(10, 20))
    kept = list((tmp_path / "cache").rglob("*.sqlite"))
    (index,) = [file for file in kept if file.parent.name == "texts"]
    assert index.stat().st_mode & 0o777 == 0o600
    made = index.stat().st_ino
    assert Catalogue(tmp_path / "runs").load("run").select(wanted) == list(range(10, 20))
    assert index.stat().st_ino == made
    forge_run(path, "cases", "position = 30", record_id="case-00001x")
    assert catalogue.load("run").select(wanted) == [*range(10, 20), 30]
    assert index.stat().st_ino != made
    assert [file for file in index.parent.iterdir() if file != index] == []
    index.write_bytes(b"no database")
    assert catalogue.load("run").select(wanted) == [*range(10, 20), 30]
    path.unlink()
    assert catalogue.entries() == []
    assert not index.exists()


def test_the_repeats_of_a_record_tell_how_far_they_agree(tmp_path: Path) -> None:
    from krisis.runs.description import Identity

    rows = [
        replace(row, record_id=f"r{i // 2}", metadata={"sample_index": i % 2} if i % 2 else {})
        for i, row in enumerate(rows_of_every_outcome()[:4])
    ]
    path = write_run(tmp_path / "run", result_of(Rows(rows)))
    identity = Identity(n_records=2, repeats=2).model_dump(mode="json")
    forge_run(path, "run", "key = 'identity'", value=json.dumps(identity))
    forge_run(path, "cases", "position = 1", record_id="r1")
    for i in range(4):
        forge_run(path, "rows", f"position = {i}", case_position=i // 2, repeat=i % 2)
    run = Catalogue(tmp_path).load("run")
    expected = [row.signals for row in load_run(path).evaluation_results]
    assert [row.signals for _, row in run.rows(range(4))] == expected
