"""The Decide page says what certify, decide and counting by hand say, and never rounds a limit."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.invented_runs import ANSWERS, invented_rows, result_of, write_run
from tests.viewer.conftest import Site
from typer.testing import CliRunner

from krisis.cli.certify import app as certify_app
from krisis.decisions.answers import with_costs
from krisis.decisions.certify import CertifyOptions, certify_run
from krisis.decisions.run_sample import ScoreOptions
from krisis.errors import InvalidValue
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.items import RunItems, Source
from krisis.metrics.table import Table
from krisis.pages.certify import promise
from krisis.pages.numbers import Estimate, share, threshold
from krisis.results.loading import load_result, reproduce_command
from krisis.results.run_items import read_items
from krisis.verbs.decide.policies import DecideOptions, decide_run
from krisis.verbs.decide.working_point import ScoredRun


def by_hand() -> Rows:
    """Nine rows: six answers, one without confidence, an abstention and a lost call."""
    confident = [(0.9, 1), (0.9, 1), (0.8, 1), (0.7, 0), (0.7, 1), (0.6, 0)]
    rows = [EvaluationResult(right, 1, confidence=c) for c, right in confident]
    rows += [EvaluationResult(0, 1), EvaluationResult(None, 1, abstained=True)]
    rows += [EvaluationResult(None, 1, error="no reply", failure_class="timeout")]
    return Rows(
        (
            replace(row, record_id=f"r{i}", cluster_id=f"p{i}", metadata={"ckd_stage": i % 2})
            for i, row in enumerate(rows)
        ),
        ANSWERS,
    )


def without_order(rows: Rows, *, per_patient: int) -> Rows:
    """Rows in random order, so many of one patient."""
    named = [replace(row, cluster_id=f"patient {i // per_patient}") for i, row in enumerate(rows)]
    order = np.random.default_rng(1).permutation(len(named))
    return Rows((named[i] for i in order), ANSWERS)


def few_lost(rows: Rows, n: int) -> Rows:
    """Leave out the rows without a reply, but for the first of them."""
    lost = [i for i, row in enumerate(rows) if row.outcome == "not_evaluated"]
    assert len(lost) > n
    return Rows((row for i, row in enumerate(rows) if i not in lost[n:]), ANSWERS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    lossy = invented_rows(900, seed=4)
    many = few_lost(lossy, n=8)
    failed: dict[str, Any] = {"error": "x", "failure_class": "timeout", "prediction": None}
    runs = {
        "hand": by_hand(),
        "single": without_order(many, per_patient=1),
        "double": without_order(many, per_patient=3),
        "lossy": without_order(lossy, per_patient=3),
        "one-level": Rows((replace(r, confidence=0.9) for r in invented_rows(40)), ANSWERS),
        "two-patients": Rows(list(invented_rows(4))[:3], ANSWERS),
        "unsure": Rows((replace(r, confidence=None) for r in invented_rows(30)), ANSWERS),
        "all-failed": Rows((replace(r, abstained=False, **failed) for r in by_hand()), ANSWERS),
        "silent": Rows(replace(r, abstained=True, prediction=None, error=None) for r in by_hand()),
    }
    for name, rows in runs.items():
        write_run(folder / name, result_of(rows, f"m/{name}"))
    return folder


@pytest.fixture(scope="module")
def site(serve: Callable[[Path], Site], folder: Path) -> Site:
    return serve(folder)


def facts(site: Site, run: str, query: str = "") -> Any:
    answer = site.get(f"/runs/{run}/decide.json?{query}")
    assert answer.status == 200, answer.text
    return answer.json


def test_the_working_points_by_hand(site: Site) -> None:
    found = facts(site, "hand", "answer=60")
    # Wrong are 0 of 3 from 0.8 on, 1 of 5 from 0.7 on, 2 of 6 at 0.6.
    point = found["point"]
    assert point["threshold"] == 0.7
    assert (point["n_rows"], point["n_kept"], point["n_wrong"]) == (8, 5, 1)
    assert (point["n_deferred"], point["n_wrong_deferred"]) == (2, 2)
    assert (point["n_unanswered"], found["n_not_evaluated"], found["n_rows"]) == (1, 1, 9)
    assert (point["risk"], point["coverage"]) == (0.2, 0.625)
    naive = facts(site, "hand", "wrong=25")["naive"]
    assert (naive["threshold"], naive["n_kept"], naive["n_wrong"]) == (0.7, 5, 1)
    assert facts(site, "hand", "wrong=19.9")["naive"]["threshold"] == 0.8
    assert facts(site, "hand", "wrong=0")["naive"]["n_kept"] == 3
    assert facts(site, "hand", "answer=25")["point"]["threshold"] == 0.9  # 2 of 8, exactly
    assert facts(site, "hand", "answer=26")["point"]["threshold"] == 0.8
    own = facts(site, "hand")  # eight cases certify nothing: the model's own answers count
    assert (own["point"]["threshold"], own["point"]["n_kept"]) == (None, 7)
    assert own["question"] == {"kind": "wrong", "share": 0.05}
    none = facts(site, "hand", "answer=80")
    assert (none["point"]["threshold"], none["cmax"]) == (None, 0.75)
    assert "No threshold answers 80 %" in site.get("/runs/hand/decide?answer=80").text


@pytest.mark.parametrize("run", ["single", "double"])
@pytest.mark.parametrize(
    "asked", [{"risk": 0.1}, {"risk": 0.3, "delta": 0.2}, {"risk": 0.3, "method": "sgr"}]
)
def test_the_certified_threshold_is_that_of_certify(
    site: Site, folder: Path, run: str, asked: Mapping[str, Any]
) -> None:
    rest = "".join(f"&{k}={v}" for k, v in asked.items() if k != "risk")
    found = facts(site, run, f"wrong={100 * asked['risk']:g}{rest}")
    (part,) = certify_run(read_items(folder / f"{run}.krisis"), CertifyOptions(**asked)).parts
    certified = found["certified"]
    assert certified["threshold"] == part.threshold == found["point"]["threshold"]
    if part.threshold is not None:
        assert (found["point"]["n_kept"], found["point"]["n_wrong"]) == (
            part.n_accepted,
            part.loss_sum,
        )
    assert (certified["n_kept"], certified["n_wrong"]) == (part.n_accepted, part.loss_sum)
    assert (certified["test"], certified["n_tested"]) == (part.test, part.n_tested)
    assert part.reason.startswith(certified["reason"])


@pytest.mark.parametrize(
    "query", ["wrong=30&delta=0.2", "wrong=12.5&method=sgr", "wrong=30&price=0.05"]
)
def test_the_command_gives_the_threshold_of_the_page(
    site: Site, folder: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    found = facts(site, "double", query)
    command = shlex.split(found["commands"]["certify"])
    assert command[:2] == ["krisis", "certify"]
    monkeypatch.chdir(folder.parent)  # the path is absolute: the viewer was started elsewhere
    printed = CliRunner().invoke(certify_app, [*command[2:], "--format", "json"])
    assert json.loads(printed.stdout)["threshold"] == found["certified"]["threshold"]
    assert json.loads(printed.stdout)["risk"] == found["question"]["share"]


def test_a_run_with_many_cases_not_evaluated_is_judged_only_where_that_is_allowed(
    site: Site, folder: Path
) -> None:
    run = read_items(folder / "lossy.krisis")
    found = facts(site, "lossy", "wrong=30")
    with pytest.raises(InvalidValue, match="of 900 cases"):
        certify_run(run, CertifyOptions(risk=0.3))
    assert (found["certified"]["tested"], found["certified"]["threshold"]) == (False, None)
    for reason in (found["certified"]["reason"], found["costs"]["reason"], found["not_judged"]):
        assert "of 900 cases (2.33 %) were not evaluated, more than 1 %" in reason
    parts = [found["point"], *found["groups"]]
    assert {part["verdict"] for part in parts} == {"not judged"}
    text = site.get("/runs/lossy/decide?wrong=30").text
    assert "Nothing is judged on this run: 21 of 900 cases" in text
    allowed = facts(site, "lossy", "wrong=30&max_not_evaluated=0.05")
    score = ScoreOptions(max_not_evaluated=0.05)
    (part,) = certify_run(run, CertifyOptions(risk=0.3, score=score)).parts
    assert part.threshold is not None
    assert allowed["certified"]["threshold"] == part.threshold
    assert allowed["commands"]["certify"].endswith(" --max-not-evaluated 0.05")
    assert (allowed["not_judged"], allowed["costs"]["reason"]) == ("", "")
    assert allowed["point"]["verdict"] != "not judged"


def test_commands_name_a_run_as_seen_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "runs" / "-my run", result_of(invented_rows(3)))
    monkeypatch.chdir(tmp_path)
    assert reproduce_command(run).split("   ")[0].endswith("'runs/-my run.krisis'")
    monkeypatch.chdir(run.parent)
    assert shlex.split(reproduce_command(run))[3] == "./-my run.krisis"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert Path(shlex.split(reproduce_command(run))[3]).samefile(run)


def test_the_price_of_the_address_is_that_of_decide(site: Site, folder: Path) -> None:
    found = facts(site, "double", "answer=40&price=0.1")
    threshold = found["point"]["threshold"]
    run = with_costs(read_items(folder / "double.krisis"), price=0.1)
    decided = decide_run(run, DecideOptions(answer_from=threshold))
    expected = {policy.kind: policy for policy in decided.policies}["given"]
    policies = {policy["name"]: policy for policy in found["costs"]["policies"]}
    constants = {policy.name for policy in decided.policies if policy.kind == "constant"}
    assert set(policies) == {"as run", "this threshold", *constants}
    assert policies["this threshold"]["cost"] == pytest.approx(expected.cost)
    assert policies["this threshold"]["n_answered"] == found["point"]["n_kept"]
    assert policies["always defer"]["cost"] == pytest.approx(0.1)
    assert found["costs"]["table"]["price"] == 0.1
    low, high = (policies["this threshold"][end] for end in ("low", "high"))
    assert (low, high) == pytest.approx((expected.low, expected.high), rel=0.05)
    page = site.get("/runs/double/decide?price=0.1").text
    assert "Every wrong answer costs 1. A deferral costs 0.1." in page
    assumed = site.get("/runs/double/decide").text
    assert "a deferral costs 20" in assumed
    assert "of an error is assumed" in assumed


def test_the_stated_score_is_that_of_the_answer_where_another_was_asked_for_apart() -> None:
    signals = {"stated_confidence": 0.9, "p_true_confidence": 0.2}
    rows = [EvaluationResult(1, 1, confidence=0.2, cluster_id="a", signals=signals)]
    items = RunItems(Table(rows), Source(""), default_confidence="p_true")
    scores = {
        name: ScoredRun.of(items, ScoreOptions(confidence=name)).score for name in ("", "stated")
    }
    assert (scores[""].tolist(), scores["stated"].tolist()) == ([0.2], [0.9])


def test_every_count_leads_to_its_cases(site: Site) -> None:
    page = site.get("/runs/double/decide?wrong=30").text
    found = facts(site, "double", "wrong=30")
    assert found["point"]["threshold"] is not None
    links = re.findall(r'href="/runs/double/cases\?([^"]*)">([\d,]+)<', page)
    assert len(links) >= 5 + 4 * len(found["groups"])  # a count of 0 is no link
    for address, words in links:
        query, count = address.replace("&amp;", "&"), int(words.replace(",", ""))
        assert site.get(f"/runs/double/cases.json?{query}&size=1").json["n_found"] == count, query


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("unsure", "No answered row states a confidence"),
        ("all-failed", "none of the 9 rows was answered"),
        ("silent", "the model abstained on all 9 rows"),
        ("one-level", "All answers state one confidence"),
    ],
)
@pytest.mark.parametrize("query", ["wrong=30", "answer=10"])
def test_a_run_without_a_choice_says_so(site: Site, run: str, words: str, query: str) -> None:
    page = site.get(f"/runs/{run}/decide?{query}")
    assert page.status == 200
    assert words in page.text


def test_without_a_certified_threshold_the_lowest_risk_is_said_and_nothing_else(site: Site) -> None:
    page = site.get("/runs/two-patients/decide?wrong=30").text
    assert "No threshold is certified at a risk of 30 %" in page
    # What is handed over then is what the model itself left, as the verdict says.
    own = "Left for people by the model&#39;s own"
    assert page.count("Left for people") == page.count(own) == 1
    assert "In every group" not in page
    assert "this threshold" not in page
    found = facts(site, "double", "wrong=5")
    assert found["certified"]["threshold"] is None
    lowest = share(Estimate(found["certified"]["lowest_risk"], bound=0.05))
    answers = f"{found['certified']['n_lowest']:,} most confident answers"
    page = site.get("/runs/double/decide?wrong=5").text.replace("\u00a0", " ")
    assert f"{lowest} wrong in its {answers}" in page


def test_the_certified_threshold_is_the_headline_with_what_is_left_for_people(site: Site) -> None:
    found = facts(site, "double", "wrong=30")
    page = site.get("/runs/double/decide?wrong=30").text
    box, _, rest = page.partition('class="verdict"')[2].partition("</section>")
    assert f"from a confidence of {threshold(found['certified']['threshold'])}" in box
    left = found["certified"]["n_left_for_people"]
    assert f"{left:,} of {found['n_scored']:,} cases" in box
    assert "Groups to watch" in box
    query = rest.split("/cases.csv?")[1].split('"')[0]
    lines = site.get(f"/runs/double/cases.csv?{query}").text.count("\n") - 1
    assert lines == left == found["n_scored"] - found["point"]["n_kept"]
    # A coverage that is asked for is explored; what is certified stays the headline.
    explored = site.get("/runs/double/decide?answer=40").text
    assert explored.index("Usable alone at 5 %") < explored.index("Explore other thresholds")


@pytest.mark.parametrize(
    "query",
    [
        "wrong=101",
        "wrong=-1",
        "answer=a",
        "wrong=5&answer=5",
        "wrong=1e999",
        "method=x",
        "delta=2",
        "price=1",
        "price=x",
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(site: Site, query: str) -> None:
    assert site.get(f"/runs/hand/decide.json?{query}").status in (400, 404)


def test_the_folder_shows_its_certificates_and_follows_no_link(
    folder: Path, serve: Callable[[Path], Site], tmp_path: Path
) -> None:
    run = write_run(tmp_path / "runs" / "r", load_result(folder / "double.krisis"))
    certificate = certify_run(read_items(run), CertifyOptions(risk=0.3))
    text = json.dumps(certificate.to_json())
    (run.parent / "r.certificate.json").write_text(text, encoding="utf-8")
    (run.parent / "r.edited.json").write_text(text.replace("0.3", "0.2"), encoding="utf-8")
    site = serve(tmp_path / "runs")
    found = facts(site, "r")["found_in_the_folder"]
    assert [one["file"] for one in found] == ["r.certificate.json", "r.edited.json"]
    assert found[0]["sentences"][0] == promise(certificate)  # it is of these rows
    assert "was changed after it was written" in found[1]["problem"]
    (tmp_path / "outside.json").write_text(text, encoding="utf-8")
    (run.parent / "r.linked.json").symlink_to(tmp_path / "outside.json")
    again = facts(site, "r")["found_in_the_folder"]
    assert [one["file"] for one in again] == ["r.certificate.json", "r.edited.json"]


def test_a_certificate_of_other_rows_is_said_to_be_so(
    folder: Path, serve: Callable[[Path], Site], tmp_path: Path
) -> None:
    run = write_run(tmp_path / "runs" / "r", load_result(folder / "double.krisis"))
    other = load_result(folder / "double.krisis")
    row = next(row for row in other.rows if row.confidence is not None and not row.abstained)
    row.confidence = 0.123
    elsewhere = read_items(write_run(tmp_path / "other", other))
    certificate = certify_run(elsewhere, CertifyOptions(risk=0.3))
    (run.parent / "r.certificate.json").write_text(
        json.dumps(certificate.to_json()), encoding="utf-8"
    )
    site = serve(tmp_path / "runs")
    sentences = facts(site, "r")["found_in_the_folder"][0]["sentences"]
    assert "of other rows than those of this run" in sentences[0]
    assert sentences[1] == promise(certificate)
    assert "of other rows" in site.get("/runs/r/decide").text
