"""A sheet says of every item what the run knows, from which field, and what the author must."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt
from tests.documents import facts, line_of, said, unwrapped, values
from tests.invented_runs import invented_rows, result_of, write_run
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.data.phq8.items import ITEM_KEYS
from krisis.errors import InvalidFile
from krisis.metrics import BootstrapOptions, usual_metrics
from krisis.metrics.base import EvaluationResult, Rows
from krisis.pages.document import Table
from krisis.pages.markdown import escaped
from krisis.pages.numbers import Estimate
from krisis.results.account import Imported
from krisis.results.base import BenchmarkResult
from krisis.results.loading import load_result, reproduce_command
from krisis.verbs.sheet.page import (
    AUTHOR,
    DISCLAIMER,
    Sheet,
    Step,
    answers_draft,
    build_sheet,
    entries,
    flow,
    read_answers,
)

IMPORTED = Path(__file__).parents[2] / "fixtures" / "imported"
RUN_FILE = {
    "run_metadata": {"run_id": "r1", "git_commit": None},
    "experiments": [
        {
            "provenance": {"mode": "few_shot"},
            "results": {
                "mode": "few_shot",
                "results": [
                    {
                        "participant_id": n,
                        "success": True,
                        "item_signals": {},
                        "ground_truth_items": dict.fromkeys(ITEM_KEYS, 2),
                        "predicted_items": {**dict.fromkeys(ITEM_KEYS, n % 3), "Sleep": None},
                    }
                    for n in (301, 302)
                ]
                + [{"participant_id": 303, "success": False, "error": "timeout: 60 s"}],
            },
        }
    ],
}


def told(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    told("run", "ckd", "--model", "guideline", "--limit", "60", "--output", folder)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def runs(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a run of every kind: ended, cut, saved, imported, in a file of its suite."""
    folder = tmp_path_factory.mktemp("kinds")
    rows = invented_rows(90)
    saved = result_of(rows).save(folder / "result.json")
    unscored = BenchmarkResult(rows, {}, {"suite": "own"}, "m").save(folder / "unscored.json")
    told("import", IMPORTED / "stopped.json", "--as", "inspect", "--output", folder / "imported")
    (folder / "run-file.json").write_text(json.dumps(RUN_FILE), encoding="utf-8")
    return {
        "demo": demo,
        "saved": saved,
        "unscored": unscored,
        "cut": write_run(folder / "cut", result_of(rows), n_cases=200),
        "imported": next((folder / "imported").iterdir()),
        "run file": folder / "run-file.json",
    }


KINDS = ("demo", "saved", "unscored", "cut", "imported", "run file")


sheet_of = build_sheet


def facts_of(sheet: Sheet) -> dict[str, str]:
    return {fact.name: fact.value for facts in sheet.facts.values() for fact in facts}


def test_the_table_of_items_is_that_of_the_guideline() -> None:
    letters = {"3": 2, "5": 5, "6": 5, "7": 5, "8": 3, "9": 2, "14": 6, "16": 4, "19": 7}
    expected = [
        f"{main}{letter}"
        for main in map(str, range(1, 20))
        for letter in ("abcdefg"[: letters[main]] if main in letters else [""])
    ]
    assert [entry.number for entry in entries()] == expected
    assert all(entry.asks and entry.write for entry in entries())
    assert all(entry.because for entry in entries() if entry.absent)


@pytest.mark.parametrize("kind", KINDS)
def test_every_item_has_one_status_and_a_source(runs: dict[str, Path], kind: str) -> None:
    sheet = sheet_of(runs[kind])
    assert len(sheet.items) == len(entries())
    n_counted = sheet.count("filled") + sheet.count(AUTHOR) + sheet.count("not applicable")
    assert n_counted == len(sheet.items)
    known = facts_of(sheet)
    for item in sheet.items:
        assert bool(item.words) == (item.status != "filled")
        assert item.facts or item.status != "filled"
        assert set(item.facts) <= known.keys()
    assert all(f.name and f.value and f.source for facts in sheet.facts.values() for f in facts)


def test_what_the_demo_run_fills(demo: Path) -> None:
    status = {item.number: item.status for item in sheet_of(demo).items}
    filled = [number for number, one in status.items() if one == "filled"]
    absent = [number for number, one in status.items() if one == "not applicable"]
    assert filled == ["6d", "6e", "7a", "7c", "7e", "12", "16a", "16d", "17"]
    assert absent == ["6a", "6b", "6c", "8a", "8b", "8c", "9a", "9b", "10", "11", "13", "18"]


@pytest.mark.parametrize("kind", ["saved", "unscored", "cut", "imported", "run file"])
def test_what_a_run_lacks_is_left_to_the_author(runs: dict[str, Path], kind: str) -> None:
    status = {item.number: item.status for item in sheet_of(runs[kind]).items}
    always = ("1", "2", "3a", "4", "5a", "6a", "13", "14a", "15", "19a")
    assert {status[number] for number in always} == {"author must fill"}
    if kind in ("imported", "run file", "unscored"):  # krisis did not ask: who knows how
        assert {status[number] for number in ("6c", "6e", "7c", "12")} == {"author must fill"}


@pytest.mark.parametrize("kind", KINDS)
def test_figures_are_those_of_the_run(runs: dict[str, Path], kind: str) -> None:
    sheet = sheet_of(runs[kind])
    stored = load_result(runs[kind]).metric_scores if kind in ("demo", "saved", "cut") else {}
    document = sheet.document()
    for score in stored.values():
        if not math.isnan(score.value):
            shown = list(line_of(document, score.name).values())[1]
            assert isinstance(shown, Estimate)
            assert score.interval is not None
            ends = (score.value, score.interval.low, score.interval.high)
            assert (shown.value, shown.low, shown.high) == ends
    assert ("stopped" in facts_of(sheet)) == (kind in ("cut", "imported"))
    scored_here = {"unscored", "cut", "run file"}
    said = {fact.source for fact in sheet.facts["scores"]}
    assert said == {"scored for this sheet" if kind in scored_here else "stored scores"}


def check_sums(boxes: Sequence[Step]) -> None:
    by_key = {box.key: box for box in boxes}
    for box in boxes:
        parts = [one for one in boxes if one.parents == (box.key,) and one.unit == box.unit]
        if parts:
            assert sum(one.n for one in parts) == box.n, box
    evaluated = by_key["evaluated"]
    assert evaluated.n == sum(by_key[parent].n for parent in evaluated.parents)
    assert evaluated.parents == ("answered", "abstained", "no_answer")


@pytest.mark.parametrize("kind", KINDS)
def test_the_counts_of_the_flow_add_up(runs: dict[str, Path], kind: str) -> None:
    check_sums(sheet_of(runs[kind]).flow)


def test_the_flow_of_a_cut_run_with_repeats_failures_and_abstentions() -> None:
    rows = invented_rows(40)
    lost = [
        replace(row, error="x", failure_class=("timeout", "")[i % 2], abstained=False)
        for i, row in enumerate(rows[:6])
    ]
    facts = {"repeats": 2, "batch_size": 1, "attrition": {"n_loaded": 60}}
    suite = {"suite": "s", "n_records": 100, "limit": 30}
    result = BenchmarkResult([*lost, *rows[6:]], {}, suite, "m", facts)
    boxes = {box.label: box for box in flow(result)}
    check_sums(list(boxes.values()))
    n_failed = sum(row.error is not None for row in rows[6:])
    n_abstained = sum(row.abstained for row in rows[6:])
    found = {label: (box.n, box.unit) for label, box in boxes.items()}
    assert found["in the suite"] == (100, "record")
    assert found["not selected (limit 30)"] == (70, "record")
    assert found["selected"] == (30, "record")
    assert (found["to be asked"], found["not asked"]) == ((60, "asking"), (20, "asking"))
    assert (found["asked"], found["not evaluated"]) == ((40, "asking"), (6 + n_failed, "asking"))
    assert found["unclassified"] == (3, "asking")
    assert found["timeout"] == (3 + n_failed, "asking")
    assert found["abstained"] == (n_abstained, "asking")
    assert boxes["asked"].n_patients == 20  # two rows each
    assert boxes["to be asked"].n_patients is None


def test_rows_that_an_import_left_behind_are_in_the_flow() -> None:
    imported = Imported(
        format="csv", files={}, taken_for={}, n_expected=14, n_read=12, n_not_taken=3
    )
    result = BenchmarkResult(
        invented_rows(8), {}, {"n_records": 8}, "m", {"attrition": {"n_loaded": 14}}
    )
    result.provenance = replace(result.provenance, imported=imported)
    boxes = {box.label: box.n for box in flow(result)}
    check_sums(flow(result))
    assert boxes["rows expected"] == 14
    assert (boxes["not in the file"], boxes["could not be taken"], boxes["lost"]) == (2, 3, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_compliance_is_disclaimed_and_never_claimed(runs: dict[str, Path], kind: str) -> None:
    page = sheet_of(runs[kind]).written("markdown")
    assert "does not claim compliance" in DISCLAIMER
    assert page.count(DISCLAIMER) == 1
    assert not re.search("complian|complies|conform", page.replace(DISCLAIMER, ""))


NASTY = (
    "a|b `c` <img src=x onerror=1> **d** [e](http://x.y) _f_ & ~g~ $h$ \\ # \n\n# z\u202e\x07 ```"
)


class Text(HTMLParser):
    """Collects the tags and the text of a rendered page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def nasty_run(words: str) -> BenchmarkResult:
    rows = Rows(
        [
            replace(
                row,
                ground_truth=words if i % 2 else "no",
                metadata={"site": words, "should_abstain": True, "abstain_reasons": [words]},
                model=words,
                error="e" if i < 3 else None,
                failure_class=words if i < 3 else "",
            )
            for i, row in enumerate(invented_rows(12))
        ]
    )
    task = {"name": words, "answers": [[words, words], ["no", words]], "groups": {words: "site"}}
    task |= {"person": words, "unit": words}
    suite = {"suite": words, "task": words, "provenance": [{words: words}, {"licence": words}]}
    return BenchmarkResult(
        rows, {}, suite, words, {"task_facts": task, "models_answered": {words: 9}, words: words}
    )


def test_nothing_that_a_model_or_user_wrote_is_markup(tmp_path: Path) -> None:
    pages = []
    for name, words in (("plain", "words"), ("nasty", NASTY)):
        path = nasty_run(words).save(tmp_path / f"{name}.json")
        markdown = sheet_of(path).written("markdown")
        renderer = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        pages.append(Text(renderer.render(markdown)))
    assert pages[0].tags == pages[1].tags
    line = " ".join(NASTY.replace("\u202e", "[U+202E]").replace("\x07", "[U+0007]").split())
    assert pages[1].text.count(line) > 10
    assert "\u202e" not in pages[1].text


def test_a_sheet_is_written_once_and_printed_otherwise(demo: Path, tmp_path: Path) -> None:
    output = tmp_path / "sheet.md"
    printed = told("sheet", demo, "--format", "markdown")
    assert told("sheet", demo, "-o", output).endswith(f"wrote {output}\n")
    assert output.read_text(encoding="utf-8") == printed
    runner = CliRunner().invoke(app, ["sheet", str(demo), "-o", str(output)])
    assert isinstance(runner.exception, InvalidFile)
    assert "exists already" in str(runner.exception)
    assert output.read_text(encoding="utf-8") == printed


def test_json_has_the_same_items(demo: Path) -> None:
    content = json.loads(told("sheet", demo, "--format", "json"))
    sheet = sheet_of(demo)
    assert [(one["number"], one["status"], one["facts"]) for one in content["items"]] == [
        (item.number, item.status, list(item.facts)) for item in sheet.items
    ]
    assert content["disclaimer"] == DISCLAIMER
    assert [one["n"] for one in content["flow"]] == [step.n for step in sheet.flow]
    assert content["scores"]["Accuracy"]["value"] == sheet.result.metric_scores["accuracy"].value


def test_the_answers_of_the_author_are_kept(demo: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.yaml"
    first = told("sheet", demo, "--author", answers, "--format", "json")
    draft = answers.read_text(encoding="utf-8")
    assert draft == answers_draft(sheet_of(demo))
    open_items = [one.number for one in sheet_of(demo).items if one.status == AUTHOR]
    assert list(read_answers(answers)) == open_items
    answers.write_text(draft.replace("14a: ''", "14a: Nobody paid."), encoding="utf-8")
    written = answers.read_text(encoding="utf-8")
    again = told("sheet", demo, "--author", answers, "--format", "json")
    assert answers.read_text(encoding="utf-8") == written  # never written over
    before, after = (
        {one["number"]: one for one in json.loads(text[text.index("{") :])["items"]}
        for text in (first, again)
    )
    changed = [number for number in after if after[number] != before[number]]
    assert changed == ["14a"]
    assert (after["14a"]["status"], after["14a"]["words"]) == (
        "answered by the author",
        "Nobody paid.",
    )
    for kind, words in {"filled": ("17", "x"), "answered by the author": ("10", "x")}.items():
        found = build_sheet(demo, answers=dict([words]))
        item = next(one for one in found.items if one.number == words[0])
        assert (item.status, item.words) == (kind, "x")


@pytest.mark.parametrize(
    ("text", "words"), [("20z: x", "unknown item '20z'"), ("1: [x]", "must be text")]
)
def test_answers_to_no_item_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "answers.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFile, match=words):
        read_answers(path)


def test_a_run_file_counts_what_failed_in_it(runs: dict[str, Path]) -> None:
    sheet = sheet_of(runs["run file"])
    counts = {box.key: (box.n, box.n_patients) for box in sheet.flow}
    assert (counts["asked"], counts["not_evaluated"]) == ((24, 3), (8, 1))
    assert (counts["answered"], counts["abstained"]) == ((14, 2), (2, 2))
    assert facts_of(sheet)["labels"].endswith("not stated: 8 (33 %); of 24 items")


def test_people_may_have_labelled_synthetic_patients(tmp_path: Path) -> None:
    rows = [replace(row, metadata={"synthetic": True}) for row in invented_rows(10)]
    for suite, expected in (("vignettes", "author must fill"), ("ckd", "not applicable")):
        path = BenchmarkResult(rows, {}, {"suite": suite}, "m").save(tmp_path / f"{suite}.json")
        status = {item.number: item.status for item in sheet_of(path).items}
        assert (status["8a"], status["13"]) == (expected, "not applicable")


def test_the_moment_of_an_import_is_not_that_of_the_answers(runs: dict[str, Path]) -> None:
    sheet = sheet_of(runs["imported"])
    assert "imported" in facts_of(sheet)
    assert "started" not in facts_of(sheet)
    assert "started_at" not in facts(sheet.document())


def test_a_file_of_scores_alone_names_no_rows(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(told("show", demo, "--format", "json"), encoding="utf-8")
    sheet = sheet_of(tmp_path / "metrics.json")
    assert {box.n_patients for box in sheet.flow} == {None}
    check_sums(sheet.flow)


def test_items_of_the_same_name_are_records_of_their_patients(tmp_path: Path) -> None:
    rows = [
        EvaluationResult(1, 1, record_id=item, cluster_id=patient)
        for patient in ("a", "b")
        for item in ("sleep", "mood", "mood")
    ]
    sheet = sheet_of(BenchmarkResult(rows, {}, {"suite": "s"}, "m").save(tmp_path / "x.json"))
    assert facts_of(sheet)["labels"] == "1: 4 (100 %); of 4 records"


def test_two_models_that_answered_must_be_explained(tmp_path: Path) -> None:
    for names, expected in ((["a"], "not applicable"), (["a", "b"], "author must fill")):
        result = result_of(invented_rows(10))
        answered = dict.fromkeys(names, 5)
        result.provenance = replace(result.provenance, models_answered=answered)
        sheet = sheet_of(result.save(tmp_path / f"{len(names)}.json"))
        assert next(one.status for one in sheet.items if one.number == "18") == expected


def test_real_and_synthetic_patients_are_told_apart(tmp_path: Path) -> None:
    rows = invented_rows(40)
    mixed = [
        replace(row, metadata={**row.metadata, "synthetic": i % 2 == 0})
        for i, row in enumerate(rows)
    ]
    plain = BenchmarkResult(mixed, {}, {"suite": "s"}, "m")
    result = plain.scored(usual_metrics(), BootstrapOptions(n_resamples=100))
    sheet = sheet_of(result.save(tmp_path / "mixed.json"))
    for kind, scores in result.scores_by_source.items():
        part = sheet.document().section(f"metrics-{kind}").parts
        rows = [row for table in part if isinstance(table, Table) for row in table.rows]
        shown = next(row[1] for row in rows if row[0] == "Accuracy")
        assert isinstance(shown, Estimate)
        assert shown.value == scores["Accuracy"].value
    assert all(section.key != "metrics" for section in sheet.document().sections)
    assert next(one.status for one in sheet.items if one.number == "13") == "author must fill"


def test_a_run_without_any_answer_has_no_performance(tmp_path: Path) -> None:
    lost = [replace(row, error="x", failure_class="timeout") for row in invented_rows(6)]
    sheet = sheet_of(BenchmarkResult(lost, {}, {"suite": "s"}, "m").save(tmp_path / "x.json"))
    status = {item.number: item.status for item in sheet.items}
    assert (status["16d"], status["17"]) == ("author must fill", "author must fill")
    assert not sheet.facts["scores"]
    assert "nothing to score" in sheet.written("markdown")
    check_sums(sheet.flow)


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "not complete JSON"), ("{}", "not a krisis result"), ('{"kind": "x"}', "not a krisis")],
)
def test_a_file_that_is_no_run_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidFile, match=words):
        build_sheet(path)


def test_entities_read_as_the_signs_they_stand_for() -> None:
    assert escaped("snake_case _x_") == "snake_case &#95;x&#95;"
    assert escaped("www.a.b http://c") == "www&#46;a.b http&#58;//c"


def test_why_a_figure_has_no_interval_is_said(demo: Path, tmp_path: Path) -> None:
    saved, reason = tmp_path / "saved.json", "it describes how this run went, and no patients"
    shown = told("show", demo, "-m", "not_evaluated_rate", "-m", "disease_f1", "--save", saved)
    words = f"Not-Evaluated Rate has no interval: {reason}"
    assert words in unwrapped(shown)
    assert "Baselines on the same records" not in shown  # they have neither figure
    assert build_sheet(saved).written("markdown").count(escaped(words)) == 1


def test_why_two_figures_have_no_interval_is_said_once(tmp_path: Path) -> None:
    rows = [replace(row, cluster_id="one") for row in invented_rows(60)]
    alone = result_of(rows).save(tmp_path / "alone.json")
    shown = told("show", alone, "-m", "calibration_slope", "-m", "calibration_in_the_large")
    names = "Calibration Slope, Calibration in the Large"
    assert f"{names} have no interval: fewer than two patients" in unwrapped(shown)


def test_a_run_is_repeated_from_where_it_is(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo.parent)
    assert reproduce_command(Path(demo.name)).split()[3] == demo.name


OLD = Path(__file__).parents[2] / "fixtures" / "old_sheet.json"


def test_every_item_and_number_of_the_old_sheet_is_in_the_new_one(runs: dict[str, Path]) -> None:
    sheet = sheet_of(runs["saved"])
    document = sheet.document()
    status = {item.number: item.status for item in sheet.items}
    cells = np.abs(np.array(values(document)))
    cells = np.concatenate([cells, 100 * cells])
    whole = {one.replace(",", "") for one in re.findall(r"\d[\d,]*(?:\.\d+)?", said(document))}
    missing = []
    for place, name, value in json.loads(OLD.read_text(encoding="utf-8")):
        if name == "status":
            assert status[place] == value
            continue
        for number in re.findall(r"(?<![\w/_])\d[\d,]*(?:\.\d+)?(?![\w/_])", value):
            plain = number.rstrip(",").replace(",", "")
            decimals = len(plain.partition(".")[2])
            shares = {f"{float(plain):.0f}", f"{float(plain):g}"}
            near = np.abs(cells - float(plain)) <= 0.500001 * 10**-decimals
            if not near.any() and plain not in whole and not shares & whole:
                missing.append((place, name, number))
    assert not missing
