"""Every number of every page that leads to cases is the number of cases that it leads to."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.invented_runs import (
    ANSWERS,
    invented_rows,
    result_of,
    rows_of_every_outcome,
    write_run,
)
from tests.viewer.conftest import Site, payload_run
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.metrics.base import EvaluationResult, Rows

LINK = re.compile(r'<a [^>]*?href="([^"]+)"[^>]*>(.*?)</a>', re.DOTALL)
NUMBER = re.compile(r"(?:^|<strong>)([\d,]+)(?:</strong>)?$")


def changed(rows: Rows, change: Callable[[int, EvaluationResult], Any]) -> Rows:
    return Rows((change(i, row) for i, row in enumerate(rows)), ANSWERS)


def in_small_group(i: int, row: EvaluationResult) -> EvaluationResult:
    return replace(row, metadata={**row.metadata, "ckd_stage": 5 if i < 12 else 1 + i % 2})


def without_label(_: int, row: EvaluationResult) -> EvaluationResult:
    rest = {name: value for name, value in row.metadata.items() if "abstain" not in name}
    return replace(row, metadata=rest)


def never_deferring(_: int, row: EvaluationResult) -> EvaluationResult:
    return replace(row, abstained=False, prediction=1) if row.abstained else row


RUNS: dict[str, Callable[[], Rows]] = {
    "outcomes": rows_of_every_outcome,
    "worse": lambda: rows_of_every_outcome(skill=0.6),
    "unsure": lambda: changed(invented_rows(), lambda _, row: replace(row, confidence=None)),
    "small-group": lambda: changed(invented_rows(), in_small_group),
    "no-labels": lambda: changed(invented_rows(90), without_label),
    "no-deferral": lambda: changed(invented_rows(), never_deferring),
    "good": lambda: invented_rows(skill=1.6),
}


@pytest.fixture(scope="module")
def site(serve: Callable[..., Site], tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("varied")
    for name, rows in RUNS.items():
        write_run(folder / name, result_of(rows(), f"maker/{name}"))
    hostile = payload_run(2_000)
    hostile.suite_description["content_hash"] = "cd" * 32  # on cases of its own
    write_run(folder / "hostile", hostile)
    for words in (["ckd", "--model", "guideline"], ["phq8", "--model", "lexicon"]):
        made = CliRunner().invoke(app, ["run", *words, "--limit", "60", "-o", str(folder)])
        assert made.exit_code == 0, made.output
    return serve(folder)


CHART = re.compile(r"<summary>The numbers of this chart</summary>.*?</table>", re.DOTALL)


def counts_of_chart(match: re.Match[str]) -> str:
    """Return the counts in the numbers of a chart; a threshold of 1 or a stage 2 is none."""
    head, *rows = match[0].split("<tr>")[1:]
    counts = [name.split("</th>")[0].startswith("n") for name in head.split('<th scope="col">')[1:]]
    cells = (zip(counts, row.split("<td>")[1:], strict=True) for row in rows)
    return "".join(cell for row in cells for counted, cell in row if counted)


def numbered_links(page: str) -> dict[str, int]:
    """Return the addresses of lists of cases under a number, or under words with their number."""
    found = {}
    for address, inside in LINK.findall(CHART.sub(counts_of_chart, page)):
        place, count = html.unescape(address), NUMBER.search(inside.strip())
        if "/cases?" in place and count:
            found[place] = int(count[1].replace(",", ""))
    return found


def differing(site: Site, pages: list[str]) -> tuple[int, list[str]]:
    """Return how many links were followed, and those that lead to another number of cases."""
    followed, wrong = 0, []
    for page in pages:
        answer = site.get(page)
        assert answer.status == 200, (page, answer.text[:500])
        for place, count in numbered_links(answer.text).items():
            found = site.get(place.replace("/cases?", "/cases.json?") + "&size=1").json["n_found"]
            followed += 1
            wrong += [f"{page}: {place} says {count}, leads to {found}"] * (found != count)
    return followed, wrong


@pytest.mark.parametrize(
    "words",
    [
        "outcomes",
        "ckd",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("phq8", "hostile", *RUNS)
            if one != "outcomes"
        ),
    ],
)
def test_every_number_of_a_run_leads_to_as_many_cases(site: Site, words: str) -> None:
    runs = [one["name"] for one in site.get("/index.json").json["runs"]]
    run = next(name for name in runs if words in name)
    asked = ("wrong=30", "answer=40")
    decide = [f"/runs/{run}/decide?max_not_evaluated=1&{one}" for one in asked]
    followed, wrong = differing(site, [f"/runs/{run}", *decide])
    assert wrong == []
    assert followed > 30


def test_every_number_of_a_comparison_leads_to_as_many_cases(site: Site) -> None:
    others = ("worse", "unsure", "small-group", "no-deferral")
    pages = [f"/compare?run=outcomes&run={other}" for other in others]
    followed, wrong = differing(site, [*pages, "/compare?run=outcomes&run=worse&run=good"])
    assert wrong == []
    assert followed > 15 * len(pages)


def test_every_link_of_every_page_leads_somewhere(site: Site) -> None:
    pages = ["/", "/compare?run=outcomes&run=worse", "/compare/cases?run=outcomes&run=worse"]
    pages += ["/compare/cases/3?run=outcomes&run=worse"]
    for run in ("outcomes", "hostile", "unsure"):
        pages += [f"/runs/{run}{rest}" for rest in ("", "/cases", "/cases/3", "/decide")]
    seen: set[str] = set()
    for page in pages:
        base = page.partition("?")[0]
        for address, _ in LINK.findall(site.get(page).text):
            place = html.unescape(address).partition("#")[0]
            place = f"{base}{place}" if place.startswith("?") else place
            if place and re.sub(r"\d+", "0", place) not in seen:
                seen.add(re.sub(r"\d+", "0", place))
                assert site.get(place).status == 200, (page, place)
    assert len(seen) > 100
