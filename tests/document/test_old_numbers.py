"""Every number of the text report that documents replaced is in the document, or is named here.

`fixtures/old_report_numbers.json` holds each line of the old reports with each number in it but the
ends of intervals, which are those of the scores.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from tests.document.with_areas import with_areas
from tests.documents import line_of, said, tables, values
from tests.fixture_reports import FIXTURES

from krisis.pages.numbers import Estimate

HELD = Path(__file__).parents[1] / "fixtures" / "old_report_numbers.json"
OLD: dict[str, list[tuple[str, str]]] = json.loads(HELD.read_text(encoding="utf-8"))
# Why a number left: the beginning of its line, and the numbers.
LEFT = {
    "Always answering would have 0": "constant policies have one sentence in the verdict's rule",
    "their mean. Always answering": "constant policies have one sentence in the verdict's rule",
}
# Numbers of sentences are rounded as sentences are: (beginning of the line, old) -> new.
ROUNDED = {
    ("Calibration: ", "0.0966"): "0.097",
    ("Calibration: ", "0.1050"): "0.105",
    ("Calibration: ", "0.0913"): "0.091",
    ("Confidence: ", "0.7057"): "71 %",
    ("Confidence: ", "0.7041"): "70 %",
    ("elapsed_seconds", "12.500"): "12.5",
    ("token_total", "40160"): "40,160",
}
# What changed on purpose: fixture, beginning of the line, number.
CHANGED = {
    ("every_outcome", "all cases", "45"): "due now counts the cases without an answer: 50",
}


@pytest.mark.parametrize("name", FIXTURES)
def test_every_number_of_the_old_report_is_in_the_document(name: str) -> None:
    document = with_areas(FIXTURES[name]()).document()
    words = said(document)
    due = line_of(document, "should defer")
    # Answers where deferral was due are right all the same or wrong, and both are shown.
    cells = [*values(document), float(int(str(due["right"])) + int(str(due["wrong"])))]
    whole = set(re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", words))
    missing = []
    for line, number in OLD[name]:
        if any(line.startswith(start) for start in LEFT):
            continue
        if any(k[0] == name and line.startswith(k[1]) and number == k[2] for k in CHANGED):
            continue
        rounded = next(
            (v for k, v in ROUNDED.items() if line.startswith(k[0]) and k[1] == number), ""
        )
        if rounded and rounded in words:
            continue
        decimals = len(number.partition(".")[2])
        value = float(number.replace(",", ""))
        near = any(abs(cell - value) <= 0.500001 * 10**-decimals for cell in cells)
        if not (near if decimals == 4 else number in whole or near):
            missing.append((line, number))
    assert not missing
    assert len(OLD[name]) > 90


@pytest.mark.parametrize("name", FIXTURES)
def test_every_score_is_in_the_document_with_both_ends_of_its_interval(name: str) -> None:
    result = FIXTURES[name]()
    document = result.document()
    found = [cell for one in tables(document) for cells in one.rows for cell in cells]
    for score in result.metric_scores.values():
        estimate = Estimate.of(score.value, score.interval)
        assert math.isnan(score.value) or estimate in found, score.name


def test_nothing_is_excused_that_did_not_leave() -> None:
    lines = [line for found in OLD.values() for line, _ in found]
    assert any(line.startswith(tuple(LEFT)) for line in lines)
    for fixture, start, number in CHANGED:
        assert [start, number] in [[line[: len(start)], n] for line, n in OLD[fixture]]
        assert 50.0 in values(FIXTURES[fixture]().document())
