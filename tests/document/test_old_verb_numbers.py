"""Every number of the texts that documents replaced is in the document, or is named here.

`fixtures/old_verb_numbers.json` holds, for each result of `fixture_results`, the beginning of each
line that its verb printed with each number in it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.document.with_areas import with_areas
from tests.documents import said, values
from tests.fixture_results import RESULTS, lossy, run, weak

import krisis

HELD = Path(__file__).parents[1] / "fixtures" / "old_verb_numbers.json"
OLD: dict[str, list[tuple[str, str]]] = json.loads(HELD.read_text(encoding="utf-8"))
# Comparisons of runs that hold the areas, which are compared where they were scored.
ASKED = {
    "compare": lambda: (run("careful"), weak()),
    "compare.three": lambda: (run("careful"), weak(), lossy("lossy")),
}
# Why a number left or changed: verb, a pattern of its line and its number.
LEFT: dict[tuple[str, str, str], str] = {
    (
        "compare",
        "^No group stands out|nearest (truth|mean)|confidence of both",
        r"[\d.]+",
    ): "a comparison does not name groups; an audit judges them",
    ("compare", "^lossy lacks", r"25\.0"): "shares of cases are whole: 25 %",
    (
        "compare",
        r"^(lossy|careful|eager) +0\.(1282|1570|4129)",
        r"0\.(0239|1668|2031|3209)",
    ): "calibration errors are redrawn patient by patient",
    (
        "audit",
        "^(all rows|sex_|age_|ckd_stage_|stage_)",
        r"0\.(026|201|179|315|036|268|167|236|368|180|031|250|383|095|291|169)",
    ): "calibration errors are redrawn patient by patient",
    (
        "audit",
        "^(Agreement of|risk against|Disputed labels|case-)",
        r"[\d.,]+",
    ): "the audit judges no labels",
    ("certify", "answer where", r"0\.5\d?"): "thresholds have two decimals or more: 0.50",
    ("verify", "^against", r"0\.0010"): "p < 0.001",
    ("decide", "in-sample", r"[\d.]+"): "no threshold is priced on the rows that chose it",
    ("decide", "≥ 0|^Least cost", r"0\.\d\d"): "thresholds are cut, not rounded: 0.74",
    ("decide", "Chow's rule", r"[\d.,]+"): "decide has no Chow's rule",
    ("decide", "cross-fit|Cross-fit|^Least cost", r"[\d.,]+"): "no threshold is cross-fitted",
    (
        "decide",
        "per 1,000|^policy|^always (answer|defer)|^defer all|^≥ 0",
        r"1,0\d\d|[2-9]\d\d(?:\.\d)?",
    ): "costs are those of the task's table, per case, and no longer those of a preset",
    (
        "certify",
        "answer where stated",
        r"196|1[28]|0\.(988|995|887|984|0600|0612|0421)",
    ): "the cheapest certified threshold has the figures, the lowest coverage and cost",
    ("plan", "^Exactly one", r"20\.0"): "written as given: 20 %",
    ("plan", "^Simulation", r"\d\d\.\d"): "shares of simulated studies are whole: 80 %",
    ("plan.n", "^Simulation", r"2\.7"): "the half-width is given, not searched",
    ("plan.n", "^200 patients", "80"): "of a given size the power is that which it reaches",
    ("selective", "^80 patients", r"0\.7688"): "in a sentence it is 77 % of all records",
    ("selective", "^variant", r"0\.\d"): "coverages are percentages: 40 %",
}


def excused(name: str, line: str, number: str) -> bool:
    """Tell whether a number is named as one that left."""
    return any(
        name.startswith(verb) and re.search(pattern, line) and re.fullmatch(which, number)
        for verb, pattern, which in LEFT
    )


def missing_numbers(name: str) -> list[tuple[str, str]]:
    """Return the old numbers of a result that are neither in its document nor named above."""
    if name in ASKED:
        document = krisis.compare(*map(with_areas, ASKED[name]()), permutations=199).document()
    else:
        document = RESULTS[name]().document()
    whole = {one.replace(",", "") for one in re.findall(r"\d[\d,]*(?:\.\d+)?", said(document))}
    cells = np.abs(np.array(values(document)))
    cells = np.concatenate([cells, 100 * cells])  # shares are percentages in sentences
    found = []
    for line, number in OLD[name]:
        plain = number.replace(",", "")
        decimals = len(plain.partition(".")[2])
        near = np.abs(cells - float(plain)) <= 0.500001 * 10**-decimals
        if plain not in whole and not near.any() and not excused(name, line, number):
            found.append((line, number))
    return found


DONE = ("compare", "selective", "certify", "verify", "plan", "check", "decide", "audit")


@pytest.mark.parametrize("name", [name for name in RESULTS if name.startswith(DONE)])
def test_every_number_of_the_old_text_is_in_the_document(name: str) -> None:
    assert not missing_numbers(name)


def test_nothing_is_excused_that_did_not_leave() -> None:
    for verb, pattern, number in LEFT:
        assert any(
            name.startswith(verb) and re.search(pattern, line) and re.fullmatch(number, old)
            for name, lines in OLD.items()
            for line, old in lines
        ), (verb, pattern, number)
