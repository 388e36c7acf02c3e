"""Every number of the HTML report that documents replaced is in the new page, or is named here.

`fixtures/old_page_numbers.json` holds each line of the old pages with the table, chart or section
that it was in.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.document.with_areas import with_areas
from tests.documents import said, values
from tests.fixture_reports import FIXTURES

from krisis.metrics.partition import Partition
from krisis.pages.document import Document

HELD = Path(__file__).parents[1] / "fixtures" / "old_page_numbers.json"
OLD: dict[str, list[tuple[str, str]]] = json.loads(HELD.read_text(encoding="utf-8"))
NUMBER = re.compile(r"(?<![\w.·-])\d[\d,]*(?:\.\d+)?(?![\w-])")
# Why a number left: where it was, the beginning of its line, and the reason.
LEFT = (
    ("metrics", "The strip runs", "the strip is gone; the forest draws the intervals"),
    ("metrics", "| Metric | Value", "headings"),
    ("metrics", "always the commonest label", "the verdict names the best constant answer"),
    ("deferral", "Of ", "always answering has a column, always deferring is in the rule"),
    ("deferral", "Deferred when needed is", "constant policies are in the verdict's rule"),
    ("disease", "| figure | answered only", "headings"),
    ("metrics", "| Expected Calibration Error", "its interval is now redrawn patient by patient"),
)
# Runs without stored baselines had two that look at no case; the verdict names the best constant.
N_CONSTANT_COLUMNS = {"plain": 2, "every_outcome": 2, "with_kinds": 0}
# Metrics that are scored on request: the last two columns, of baselines, hold what they were scored
# with, which is no longer these.
ON_REQUEST = ("| AURC", "| AUGRC", "| Risk at 80", "| Disease ")
N_BASELINE_COLUMNS = 2
# The band of a calibrated model, the last two columns, is now redrawn patient by patient.
N_BAND_COLUMNS = 2
# The columns of groups that left, by what is shown in their place.
GROUP_COLUMNS = {
    "accuracy": "answered times right when answered",
    "abstention rate": "the share answered",
}


def in_charts(document: Document) -> list[float]:
    """Return every number of the tables under charts, and of the bars of cases."""
    found = []
    for chart in document.charts():
        for row in chart.draw().table:
            found += [float(v) for v in row.values() if isinstance(v, int | float)]
    return found


def is_rounded(value: float, written: str) -> bool:
    """Tell whether a number of a sentence is a value, rounded to three decimals at most."""
    decimals = len(written.partition(".")[2])
    exact = abs(float(written) - value) < 1e-9
    return exact or (decimals >= 3 and abs(float(written) - value) <= 0.500001 * 10**-decimals)


@pytest.mark.parametrize("name", FIXTURES)
def test_every_number_of_the_old_page_is_on_the_new_one(name: str) -> None:
    result = with_areas(FIXTURES[name](), n_resamples=50 if name == "with_kinds" else 500)
    document = result.document()
    partition = Partition.of(result.rows.table)
    cells = [*values(document), *in_charts(document)]
    for part in (partition.safe, partition.due):
        counts = (part.answered, part.abstained, part.no_answer)
        cells += [float(n) for n in counts] + [n / part.n for n in counts]
    words = said(document) + "".join(chart.draw().reading for chart in document.charts())
    written = [number.replace(",", "") for number in NUMBER.findall(words)]
    missing = []
    for place, line in OLD[name]:
        if any(place == where and line.startswith(start) for where, start, _ in LEFT):
            continue
        if any(f"| {column} |" in line for column in GROUP_COLUMNS):
            continue
        shown = line
        if place == "metrics" and line.startswith("| ") and N_CONSTANT_COLUMNS[name]:
            shown = "|".join(line.split("|")[: -N_CONSTANT_COLUMNS[name]])
        if name == "with_kinds" and line.startswith(ON_REQUEST):
            shown = "|".join(line.split("|")[:-N_BASELINE_COLUMNS])
        if place == "confidence" and line.startswith("| 0."):
            shown = "|".join(line.split("|")[:-N_BAND_COLUMNS])
        for number, percent in re.findall(rf"({NUMBER.pattern})( ?%)?", shown):
            value = float(number.replace(",", "")) / (100 if percent else 1)
            decimals = len(number.partition(".")[2]) + (2 if percent else 0)
            near = any(abs(cell - value) <= 0.500001 * 10**-decimals for cell in cells)
            if not near and not any(is_rounded(value, one) for one in written):
                missing.append((place, line, number))
    assert not missing
    assert len(OLD[name]) > 200


def test_nothing_is_excused_that_was_not_there() -> None:
    lines = [tuple(line) for found in OLD.values() for line in found]
    for where, start, _ in LEFT:
        assert any(place == where and line.startswith(start) for place, line in lines), start
    for start in ON_REQUEST:
        assert any(line.startswith(start) for _, line in OLD["with_kinds"]), start
