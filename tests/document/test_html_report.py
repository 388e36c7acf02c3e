"""The report of a run is one file that says everything and fetches nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.documents import line_of
from tests.invented_runs import invented_rows, result_of
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.errors import InvalidFile
from krisis.metrics.base import EvaluationResult, Rows
from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of
from krisis.pages.shell import visible
from krisis.pages.worst import worst_rows
from krisis.results.result import BenchmarkResult

PAYLOADS = [
    "<script>window.harmed = 1</script>",
    "</textarea></pre><img src=x onerror='window.harmed=1'>",
    "<svg onload=window.harmed=1><a href='javascript:window.harmed=1'>x</a></svg>",
    "[link](javascript:alert(1)) ![i](http://198.51.100.1/x.png) **bold**",
    "{{ 7 * 7 }} {% raw %}",
    "\u202eright to left\u202c zero\u200bwidth \x07 bell",
    "שלום עולם",
]


class Tags(HTMLParser):
    """Collects the elements and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page() -> str:
    return page_of(run_document(result_of(invented_rows())))


def test_the_page_fetches_nothing_and_runs_no_script(page: str) -> None:
    tags = Tags(page).found
    assert not {tag for tag, _ in tags} & {"script", "img", "link", "iframe", "object", "embed"}
    for _, attributes in tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"@import|url\((?!#)", page)  # a drawing names its own clip paths
    names = re.findall(r' id="([^"]+)"', page)
    assert len(set(names)) == len(names)


def test_the_page_has_every_part_in_order(page: str) -> None:
    anchors = [a.get("id") for tag, a in Tags(page).found if tag in ("section", "details")]
    expected = ["cases", "deferral", "groups", "confidence", "worst", "metrics", "how", "inputs"]
    assert [anchor for anchor in anchors if anchor in expected] == expected


def test_failures_are_said_before_any_figure(page: str) -> None:
    assert page.index("records NOT EVALUATED") < page.index("Knew when not to answer?")


def test_every_link_within_the_page_leads_somewhere(page: str) -> None:
    tags = Tags(page).found
    ids = {attributes.get("id") for _, attributes in tags}
    targets = {str(a["href"])[1:] for tag, a in tags if tag == "a"}
    assert targets <= ids


def test_hashes_and_versions_are_on_the_page(page: str) -> None:
    assert "ab" * 32 in page
    assert "<dt>krisis</dt>" in page


def test_the_most_confident_error_comes_first() -> None:
    rows = [
        EvaluationResult(0, 1, confidence=0.6, record_id="less"),
        EvaluationResult(0, 1, confidence=0.99, record_id="most"),
        EvaluationResult(1, 1, confidence=1.0, record_id="right"),
        EvaluationResult(None, 1, True, metadata={"should_abstain": False}, record_id="needless"),
        EvaluationResult(None, 1, error="timeout", record_id="failed"),
    ]
    confident, due, needless = worst_rows(rows)
    assert [row.record_id for _, row in confident.rows] == ["most", "less"]
    assert due.n_rows == 0
    assert [row.record_id for _, row in needless.rows] == ["needless"]


def test_what_a_model_wrote_is_text_and_hides_nothing() -> None:
    rows = Rows(
        EvaluationResult(
            0,
            1,
            confidence=0.9,
            raw_response=payload,
            prompt=payload,
            record_id=payload,
            metadata={"should_abstain": True, "abstain_reasons": [payload], "sex": payload},
        )
        for payload in PAYLOADS
        for _ in range(12)
    )
    page = page_of(run_document(result_of(rows, name=PAYLOADS[0])))
    tags = {tag for tag, _ in Tags(page).found}
    assert not tags & {"script", "img", "textarea", "iframe"}
    assert "\u202e" not in page
    assert "\u200b" not in page
    assert (
        visible("a\u200bb")
        == 'a<span class="hidden-character" title="zero width space">U+200B</span>b'
    )


def test_a_metrics_only_file_gives_a_page_without_charts(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(result_of(invented_rows()).metrics_to_json(), encoding="utf-8")
    document = run_document(BenchmarkResult.load(path))
    assert list(document.charts()) == []
    assert "Deferral Alignment" in page_of(document)


def test_a_run_without_one_scored_row_says_so() -> None:
    rows = Rows([EvaluationResult(None, 1, error="auth: no key", record_id="a")])
    document = run_document(result_of(rows))
    assert document.verdict is None
    assert "1 of 1 records NOT EVALUATED" in page_of(document)


def test_the_command_writes_page_and_figures_and_overwrites_nothing(tmp_path: Path) -> None:
    saved = result_of(invented_rows(40)).save(tmp_path / "run.json")
    output, figures = tmp_path / "out" / "report.html", tmp_path / "figures"
    arguments = ["report", str(saved), "-o", str(output), "--figures", str(figures)]
    done = CliRunner().invoke(app, [*arguments, "--against", str(saved)])
    assert done.exit_code == 0, done.output
    assert output.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (figures / "reliability.svg").exists()
    again = CliRunner().invoke(app, arguments)
    assert isinstance(again.exception, InvalidFile)


def test_baselines_that_the_run_stored_are_shown() -> None:
    plain_run = result_of(invented_rows(40), "guideline")
    baselines = {
        "majority": {
            "Accuracy": {"value": 0.625, "n_evaluated": 40},
            "Brier Score": {"value": None},
        },
        "guideline": {"Accuracy": {"value": 0.9, "n_evaluated": 40}},
    }
    run = BenchmarkResult(
        plain_run.evaluation_results,
        plain_run.metric_scores,
        plain_run.suite_description,
        "guideline",
        {"baselines": baselines},
    )
    document = run_document(run)
    beside = replace(document, sections=[document.section("metrics")])
    assert line_of(beside, "Accuracy")["majority"] == 0.625
    assert "guideline" not in line_of(beside, "Accuracy")  # it is the run itself
    assert line_of(document, "majority")["Accuracy"] == 0.625


def test_the_page_names_the_classes_of_failure_with_one_example_each() -> None:
    rows = Rows(
        [
            EvaluationResult(1, 1, record_id="a"),
            EvaluationResult(None, 1, error="no <reply>", failure_class="timeout", record_id="b"),
            EvaluationResult(None, 1, error="later", failure_class="timeout", record_id="c"),
        ]
    )
    page = page_of(run_document(result_of(rows)))
    assert '<th scope="row">timeout</th><td class="figure">2</td><td>no &lt;reply&gt;</td>' in page
    assert "Records without an answer" not in page_of(run_document(result_of(Rows(rows[:1]))))
