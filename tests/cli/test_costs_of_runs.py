"""What answers cost, from `--costs` and `--price` to every place that shows what a run costs."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.commands import krisis
from tests.invented_runs import edit_run, only_run

import krisis as api
from krisis import registry
from krisis.backends.chat import ChatRequest
from krisis.backends.schema import case_name
from krisis.backends.scripted import ScriptedBackend
from krisis.costs import Costs
from krisis.errors import InvalidValue
from krisis.metrics.decision import DecisionCost
from krisis.results.base import BenchmarkResult
from krisis.runs.load import load_run, read_description
from krisis.runs.read import open_run
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.pages import run as run_page

RUN = ["run", "ckd", "--limit", "60", "--display", "none", "--no-cache"]
TABLE = "costs: {0: {1: 4}, 1: {0: 20}}\nprice: 2\nwhy: Dialysis is begun too late.\n"


class Decided(ScriptedBackend):
    """A chat model that answers 1, surely or less so, or abstains, in turn."""

    name = "decided"
    prompts: list[str]

    def __init__(self) -> None:
        Decided.prompts = []
        super().__init__(self.reply)

    def reply(self, request: ChatRequest) -> str:
        self.prompts.append(request.system + request.user)
        results = [
            {
                "id": case_name(i),
                "abstained": i % 4 == 3,
                "prediction": None if i % 4 == 3 else 1,
                "confidence": 0.6 + (i % 4) / 10,
                "reason": "",
            }
            for i in range(request.n_records)
        ]
        return json.dumps({"results": results})


@pytest.fixture(scope="module", autouse=True)
def _model() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.BUILT_IN["backends"], "decided", f"{__name__}:Decided")
        registry.table.cache_clear()
        yield
    registry.table.cache_clear()


def run_in(folder: Path, *words: str) -> Path:
    done = krisis(*RUN, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return only_run(folder / "runs")


@pytest.fixture(scope="module")
def logistic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_in(tmp_path_factory.mktemp("logistic"), "--model", "logistic")


@pytest.fixture(scope="module")
def dear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same reader at a dearer price of deferring."""
    return run_in(tmp_path_factory.mktemp("dear"), "--model", "logistic", "--price", "0.3")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a chat model that was told the costs of the task."""
    return run_in(tmp_path_factory.mktemp("told"), "--model", "decided")


def cost_of(result: BenchmarkResult) -> float:
    return float(DecisionCost().compute(result.rows).value)


def costs_of(path: Path) -> Costs:
    task = read_description(path).task
    assert task is not None
    return task.costs


def by_hand(path: Path, costs: Costs) -> tuple[float, int]:
    """Work out what the logistic reader costs, and how many cases are due, from its columns."""
    spent, due = [], 0
    for row in load_run(path).evaluation_results:
        truth = {int(k): float(v) for k, v in row.metadata["answer_probabilities"].items()}
        own = {int(k): float(v) for k, v in row.signals["own_probabilities"].items()}
        expected = {a: sum(p * costs.of(t, a) for t, p in truth.items()) for a in truth}
        stated = {a: sum(p * costs.of(t, a) for t, p in own.items()) for a in own}
        answer = min(stated, key=stated.__getitem__)
        spent.append(costs.price if stated[answer] >= costs.price - 1e-9 else expected[answer])
        due += min(expected.values()) >= costs.price - 1e-9
    return float(np.mean(spent)), due


def test_a_price_of_a_run_is_stored_told_and_judged_by(tmp_path: Path) -> None:
    path = run_in(tmp_path, "--model", "decided", "--price", "0.3")
    assert all("An abstention counts 30 % of" in prompt for prompt in Decided.prompts)
    assert costs_of(path).price == 0.3
    assert costs_of(path).of(1, 0) == 0.5  # the table of the task stays
    described = read_description(path)
    assert described.identity.costs["price"] == described.config["price"] == 0.3


def test_a_table_of_a_run_is_scaled_stored_and_resumed_without_its_file(tmp_path: Path) -> None:
    (tmp_path / "costs.yaml").write_text(TABLE)
    path = run_in(tmp_path, "--model", "decided", "--costs", "costs.yaml")
    costs = costs_of(path)
    assert (costs.price, costs.of(0, 1), costs.of(1, 0)) == (0.1, 0.2, 1.0)
    assert costs.why == "Dialysis is begun too late."
    assert not costs.assumed
    (tmp_path / "costs.yaml").unlink()
    done = krisis("resume", str(path), "--display", "none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = krisis("run", "--config", str(path), "--print-config", cwd=tmp_path)
    assert yaml.safe_load(again.stdout)["costs"]["price"] == 0.1


@pytest.mark.parametrize("given", ["costs.yaml", {"costs": {0: {1: 4}, 1: {0: 20}}, "price": 2}])
def test_costs_of_a_configuration_are_a_file_or_the_table_itself(
    given: str | dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "costs.yaml").write_text(TABLE)
    settings = {"suite": "ckd", "model": "majority", "limit": 20, "costs": given, "price": 0.05}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings))
    words = ("--no-baselines", "--display", "none")
    done = krisis("run", "--config", "run.yaml", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    costs = costs_of(only_run(tmp_path / "runs"))
    assert (costs.price, costs.of(0, 1)) == (0.05, 0.2)


def test_a_run_is_not_resumed_at_another_price(logistic: Path, tmp_path: Path) -> None:
    done = krisis("resume", str(logistic), "--price", "0.3", cwd=tmp_path)
    assert done.returncode == 2
    assert "--price" in done.stderr


def test_a_price_changes_no_case(logistic: Path, dear: Path) -> None:
    for key in ("content_hash", "case_hash"):
        first, second = (read_description(p).suite_description[key] for p in (logistic, dear))
        assert first == second


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("costs: {0: {1: 1}, 2: {0: 1}}\nprice: 0.1", "unknown answer in the costs: '2'"),
        ("costs: {0: {1: 1}}\nprice: 0.1", "nothing of the answer 0 where 1 is right; add it"),
        ("costs: {0: {1: 1}, 1: {0: 1}}", "nothing of what a deferral costs; add `price:`"),
        ("costs: [1, 2]\nprice: 0.1", "`costs` must map each true answer"),
        ("costs: {yes: {no: 1}}\nprice: 0.1", "write the answer in quotes"),
        ("costs: {0: {1: dear}, 1: {0: 1}}\nprice: 0.1", "a number of 0 or more, not 'dear'"),
        ("costs: {0: {0: 1, 1: 1}, 1: {0: 1}}\nprice: 0.1", "right answers cost nothing"),
        ("price: 1", "above 0 and below 1, the cost of a wrong answer, not 1"),
        ("price: cheap", "above 0 and below 1, the cost of a wrong answer, not 'cheap'"),
        ("prize: 0.1", "prize"),
        ("just words", "costs.yaml must hold costs"),
        (None, "costs.yaml does not exist; check --costs"),
    ],
)
def test_bad_costs_are_one_sentence_and_exit_2(
    text: str | None, message: str, logistic: Path, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "costs.yaml").write_text(text)
    given = ("--costs", "costs.yaml")
    for words in (
        (*RUN, "--model", "majority", "--no-baselines"),
        ("show", str(logistic)),
        ("decide", str(logistic)),
        ("certify", str(logistic), "--risk", "0.2", "--loss", "cost"),
        ("report", str(logistic), "-o", "report.html"),
    ):
        done = krisis(*words, *given, cwd=tmp_path)
        assert done.returncode == 2, (words, done.stdout)
        assert message in done.stderr, words
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("price", ["0", "1", "1.5", "-1", "nan", "cheap"])
def test_a_price_that_is_none_is_one_sentence_and_exit_2(
    price: str, logistic: Path, dear: Path, tmp_path: Path
) -> None:
    for words in (
        (*RUN, "--model", "majority"),
        ("show", str(logistic)),
        ("decide", str(logistic)),
        ("compare", str(logistic), str(dear)),
    ):
        done = krisis(*words, "--price", price, cwd=tmp_path)
        assert done.returncode == 2, words
        assert "price" in done.stderr
        assert done.stderr.count("\n") == 1


def test_the_table_that_a_message_suggests_can_be_read(logistic: Path, tmp_path: Path) -> None:
    (tmp_path / "costs.yaml").write_text("costs: 3\nprice: 0.1")
    done = krisis("show", str(logistic), "--costs", "costs.yaml", cwd=tmp_path)
    suggested = re.search(r"such as (\{.*\})\n", done.stderr)
    assert suggested
    (tmp_path / "costs.yaml").write_text(f"costs: {suggested[1]}\nprice: 0.1")
    done = krisis("show", str(logistic), "--costs", "costs.yaml", cwd=tmp_path)
    assert "unknown answer in the costs" in done.stderr


@pytest.mark.parametrize("price", [0.05, 0.3])
def test_what_if_judges_due_cases_ideal_and_readers_anew(logistic: Path, price: float) -> None:
    found = api.score(logistic, price=price)
    expected, due = by_hand(logistic, costs_of(logistic).at(price))
    assert cost_of(found) == pytest.approx(expected, abs=1e-9)
    assert found.metric_scores["decision_cost"].value == pytest.approx(expected, abs=1e-9)
    assert sum(bool(r.metadata["should_abstain"]) for r in found.evaluation_results) == due
    before = api.load(logistic)
    assert due != sum(bool(r.metadata["should_abstain"]) for r in before.evaluation_results)
    assert found.attrition.n_abstained != before.attrition.n_abstained


def test_what_if_a_run_had_been_made_at_the_price_is_that_run(logistic: Path, dear: Path) -> None:
    asked, made = api.score(logistic, price=0.3), api.load(dear)
    assert cost_of(asked) == pytest.approx(cost_of(made), abs=1e-9)
    assert asked.baseline_rows.keys() == made.baseline_rows.keys()
    for name, rows in made.baseline_rows.items():
        assert [row.abstained for row in asked.baseline_rows[name]] == [
            row.abstained for row in rows
        ], name
        again = asked.baseline_rows[name]
        assert float(DecisionCost().compute(again).value) == pytest.approx(
            float(DecisionCost().compute(rows).value), abs=1e-9
        )
    verdicts = [one.document().verdict for one in (asked, made)]
    said = [[(line.key, line.answer) for line in v.lines] for v in verdicts if v is not None]
    assert said[0] == said[1]


def test_what_if_stores_nothing_and_says_what_was_told(told: Path, tmp_path: Path) -> None:
    before = told.read_bytes()
    (tmp_path / "costs.yaml").write_text(TABLE)
    done = krisis("show", str(told), "--price", "0.3", cwd=tmp_path)
    words = " ".join(done.stdout.split())
    assert "told 15 %, judged at 30 %" in words
    assert "--price 0.3 --verbose" in words
    plain = " ".join(krisis("show", str(told), cwd=tmp_path).stdout.split())
    assert "judged at" not in plain
    page = tmp_path / "report.html"
    krisis("report", str(told), "--price", "0.3", "-o", str(page), cwd=tmp_path)
    assert "told 15 %, judged at 30 %" in " ".join(page.read_text().split())
    other = krisis("show", str(told), "--costs", "costs.yaml", cwd=tmp_path)
    assert "told 15 %, judged at 10 %" in " ".join(other.stdout.split())
    assert told.read_bytes() == before


def test_a_model_that_abstained_is_judged_by_what_it_did(told: Path) -> None:
    found = api.score(told, price=0.3)
    acts = [(r.prediction, r.abstained) for r in found.evaluation_results]
    assert acts == [(r.prediction, r.abstained) for r in load_run(told).evaluation_results]
    assert cost_of(found) != cost_of(load_run(told))


def test_what_if_says_so_of_a_reader_whom_nobody_told_a_price(
    logistic: Path, tmp_path: Path
) -> None:
    done = krisis("show", str(logistic), "--price", "0.3", cwd=tmp_path)
    assert "the run states 15 %, judged at 30 %" in " ".join(done.stdout.split())


def test_one_run_has_one_cost_wherever_it_is_shown(logistic: Path, tmp_path: Path) -> None:
    expected = cost_of(api.load(logistic))
    shown = krisis("show", str(logistic), "--format", "json", cwd=tmp_path)
    stored = json.loads(shown.stdout)["metric_scores"]["Decision Cost"]["value"]
    catalogue = Catalogue(logistic.parent)
    (name,) = (entry.name for entry in catalogue.entries())
    viewed = run_page.page(catalogue, name).content["metric_scores"]["Decision Cost"]["value"]
    decided = api.decide(logistic).to_json()
    acts = next(p["cost"] for p in decided["policies"] if p["name"] == "as run")
    for found in (stored, viewed, acts):
        assert found == pytest.approx(expected, abs=1e-12)


def test_runs_of_different_costs_are_compared_by_one_table_alone(
    logistic: Path, dear: Path, tmp_path: Path
) -> None:
    both = ("compare", str(logistic), str(dear), "--permutations", "99", "--format", "json")
    done = krisis(*both, cwd=tmp_path)
    assert done.returncode == 2
    assert "a deferral costs 0.15 and 0.3" in done.stderr
    assert "--costs FILE or --price SHARE" in done.stderr
    assert done.stderr.count("\n") == 1
    done = krisis(*both, "--price", "0.25", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)["scores"]
    for path, name in zip((logistic, dear), scores, strict=True):
        expected, _ = by_hand(path, costs_of(path).at(0.25))
        assert scores[name]["decision_cost"]["value"] == pytest.approx(expected, abs=1e-9)
    (pair,) = json.loads(done.stdout)["pairs"]
    assert pair["deltas"]["decision_cost"]["delta"] == pytest.approx(0.0, abs=1e-12)  # one reader


def test_tables_that_differ_at_one_price_are_refused(logistic: Path, tmp_path: Path) -> None:
    (tmp_path / "costs.yaml").write_text("costs: {0: {1: 0.2}, 1: {0: 1}}\nprice: 0.15\n")
    other = run_in(tmp_path, "--model", "guideline", "--costs", "costs.yaml")
    done = krisis("compare", str(logistic), str(other), cwd=tmp_path)
    assert done.returncode == 2
    assert "state different costs (their tables differ)" in done.stderr
    words = ("--costs", "costs.yaml", "--permutations", "99")
    assert krisis("compare", str(logistic), str(other), *words, cwd=tmp_path).returncode == 0


PREDICTIONS = "id,truth,answer,sure\n" + "".join(
    f"case-{i},{'yes' if i % 3 else 'no'},{('yes', 'yes', 'no', '')[i % 4]},{0.6 + i % 4 / 10}\n"
    for i in range(40)
)
IMPORT = ["--as", "csv", "--truth", "truth", "--prediction", "answer", "--confidence", "sure"]
OWN = "costs: {'yes': {'no': 1}, 'no': {'yes': 0.5}}\nprice: 0.1\n"


def cost_by_hand(price: float, alarm: float) -> float:
    spent = []
    for line in PREDICTIONS.splitlines()[1:]:
        _, truth, answer, _ = line.split(",")
        missed = 0.0 if truth == answer else 1.0 if truth == "yes" else alarm
        spent.append(missed if answer else price)
    return float(np.mean(spent))


@pytest.mark.parametrize(
    ("words", "price", "alarm"),
    [
        ([], 0.2, 1.0),
        (["--price", "0.3"], 0.3, 1.0),
        (["--costs", "costs.yaml"], 0.1, 0.5),
        (["--costs", "costs.yaml", "--price", "0.3"], 0.3, 0.5),
    ],
)
def test_an_import_is_judged_by_its_own_costs(
    words: list[str], price: float, alarm: float, tmp_path: Path
) -> None:
    (tmp_path / "answers.csv").write_text(PREDICTIONS)
    (tmp_path / "costs.yaml").write_text(OWN)
    given = ["answers.csv", *IMPORT, "--id", "id", "--empty", "abstained", "--model", "m"]
    done = krisis("import", *given, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    path = only_run(tmp_path / "runs")
    expected = cost_by_hand(price, alarm)
    assert cost_of(api.load(path)) == pytest.approx(expected, abs=1e-12)
    assert costs_of(path).assumed is (not words)
    assert read_description(path).identity.costs["price"] == price
    shown = " ".join(krisis("show", str(path), cwd=tmp_path).stdout.split())
    assert ("assumed: set --price" in shown) is (not words)
    options = {"costs": tmp_path / "costs.yaml"} if "--costs" in words else {}
    options |= {"price": price} if "--price" in words else {}
    in_memory = api.score(
        tmp_path / "answers.csv",
        truth="truth",
        prediction="answer",
        confidence="sure",
        id="id",
        empty="abstained",
        **options,
    )
    assert cost_of(in_memory) == pytest.approx(expected, abs=1e-12)


def test_a_frame_in_memory_takes_costs_as_an_object() -> None:
    lines = [line.split(",") for line in PREDICTIONS.splitlines()[1:]]
    table = {"t": [line[1] for line in lines], "p": [line[2] or None for line in lines]}
    costs = Costs({"yes": {"no": 2}, "no": {"yes": 1}}, 0.2)
    found = api.score(table, truth="t", prediction="p", empty="abstained", costs=costs)
    assert cost_of(found) == pytest.approx(cost_by_hand(0.1, 0.5), abs=1e-12)
    wrong = Costs({"yes": {"no": 1}}, 0.2)
    with pytest.raises(InvalidValue, match="nothing of the answer 'yes' where 'no' is right"):
        api.score(table, truth="t", prediction="p", empty="abstained", costs=wrong)


def as_minor_1(path: Path) -> None:
    """Make a run what version 1.1 wrote: without the probabilities of the baselines."""
    edit_run(path, "DROP TABLE baseline_chances")
    edit_run(path, "PRAGMA user_version = 1001")


def test_a_run_of_the_minor_version_before_is_still_read(logistic: Path, tmp_path: Path) -> None:
    old = tmp_path / logistic.name
    old.write_bytes(logistic.read_bytes())
    as_minor_1(old)
    assert cost_of(api.load(old)) == cost_of(api.load(logistic))
    with open_run(old) as run:
        assert [*run.believed("baseline_chances")] == []
    for words in (("show", str(old)), ("doctor", str(old)), ("show", str(old), "--price", "0.3")):
        done = krisis(*words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)
    # The baselines of such a run keep what they did: nothing says how they would act.
    asked, before = api.score(old, price=0.3).baseline_rows, api.load(old).baseline_rows
    for name, rows in before.items():
        assert [row.abstained for row in asked[name]] == [row.abstained for row in rows]


def test_probabilities_are_of_those_who_were_only_asked_for_some(logistic: Path) -> None:
    with closing(sqlite3.connect(logistic)) as connection:
        told = connection.execute("SELECT DISTINCT name FROM baseline_chances").fetchall()
        all_names = connection.execute("SELECT DISTINCT name FROM baselines").fetchall()
    assert ("ideal",) in told or ("guideline",) in told
    assert set(told) < set(all_names)  # constants have none


def test_a_baseline_that_defers_by_a_rule_defers_at_every_price(tmp_path: Path) -> None:
    path = run_in(tmp_path, "--model", "decided", "--instructions", "policy")
    before, after = api.load(path).baseline_rows, api.score(path, price=0.9).baseline_rows
    ruled = [
        place
        for place, row in enumerate(load_run(path).evaluation_results)
        if row.metadata.get("rules")
    ]
    assert ruled
    assert all(before["ideal"][place].abstained for place in ruled)
    assert all(after["ideal"][place].abstained for place in ruled)


def test_who_is_forgotten_leaves_no_probability_behind(logistic: Path, tmp_path: Path) -> None:
    path = tmp_path / logistic.name
    path.write_bytes(logistic.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT cluster_id, position FROM cases"
        (patient, place), *_ = connection.execute(sql).fetchall()
        count = "SELECT COUNT(*) FROM baseline_chances WHERE case_position = ?"
        (n_gone,) = connection.execute(count, (place,)).fetchone()
        (n_before,) = connection.execute("SELECT COUNT(*) FROM baseline_chances").fetchone()
    assert n_gone
    done = krisis("forget", str(path), "--patient", patient, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(only_run(tmp_path))) as connection:
        (n_after,) = connection.execute("SELECT COUNT(*) FROM baseline_chances").fetchone()
    assert n_after == n_before - n_gone
    asked = api.score(only_run(tmp_path), price=0.3)
    whole = api.score(logistic, price=0.3)
    for name, rows in asked.baseline_rows.items():
        kept = [row.abstained for row in whole.baseline_rows[name] if row.cluster_id != patient]
        assert [row.abstained for row in rows] == kept, name
