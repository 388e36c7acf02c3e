"""A gate says of every requirement whether it is met, failed or cannot be judged."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.commands import krisis
from tests.invented_runs import forge_run, invented_rows, result_of, write_run
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.errors import InvalidValue, KrisisError, UnknownName
from krisis.metrics import DeferralAlignment, score_all
from krisis.metrics.base import EvaluationResult, MetricScore, Rows
from krisis.pages.markdown import markdown_text
from krisis.results.result import BenchmarkResult
from krisis.results.stops import BudgetReached, Decided, Interrupted, StopCause
from krisis.runs.read import open_run
from krisis.verbs.check.gate import Check, Gate, Judged, State, check_run
from krisis.verbs.check.page import junit_xml
from krisis.verbs.compare.pairs import CompareOptions


def states(run: BenchmarkResult, *require: str) -> list[str]:
    return [verdict.state for verdict in check_run(run, Gate(require))]


def run_of(n_right: int, n_wrong: int) -> BenchmarkResult:
    rows = Rows(
        EvaluationResult(int(i < n_right), 1, confidence=0.8, record_id=f"r{i}")
        for i in range(n_right + n_wrong)
    )
    return result_of(rows)


def test_a_requirement_speaks_of_the_estimate_or_of_an_end_of_its_interval() -> None:
    run = run_of(90, 10)
    assert states(
        run,
        "accuracy >= 0.9",
        "accuracy > 0.9",
        "Accuracy >= 0.85",
        "lower(accuracy) >= 0.9",
        "lower( accuracy ) >= 0.8",
        "upper(accuracy) <= 1",
        "upper(accuracy) <= 0.9",
        "brier_score <= 0.5",
    ) == ["met", "failed", "met", "failed", "met", "met", "failed", "met"]


def test_an_undefined_metric_cannot_be_judged() -> None:
    run = run_of(5, 0)
    verdicts = check_run(run, Gate(["balanced_accuracy >= 0.5"]))
    assert verdicts[0].state == "not judged"
    assert "needs_at_least_two_classes" in verdicts[0].reason
    assert Check(tuple(verdicts)).exit_code == 2
    both = check_run(run, Gate(["balanced_accuracy >= 0.5", "accuracy < 0.1"]))
    assert Check(tuple(both)).exit_code == 1


@pytest.mark.parametrize(
    "text",
    ["accuracy", "accuracy = 0.8", "accuracy >= high", "middle(accuracy) >= 1", ">= 0.5", ""],
)
def test_a_sentence_that_is_no_requirement_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        Gate([text])


def test_an_unknown_metric_is_named_with_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="did you mean 'accuracy'"):
        check_run(run_of(5, 5), Gate(["acuracy >= 0.5"]))


def test_no_worse_needs_a_loss_beyond_the_margin_that_is_more_than_chance() -> None:
    old = run_of(95, 5)
    clearly_worse, slightly_worse = run_of(75, 25), run_of(94, 6)
    gate = Gate(no_worse=["accuracy by 0.03"])
    options = CompareOptions(n_permutations=399)
    assert check_run(clearly_worse, gate, against=old, options=options)[0].state == "failed"
    assert check_run(slightly_worse, gate, against=old, options=options)[0].state == "met"
    assert check_run(old, gate, against=clearly_worse, options=options)[0].state == "met"
    by_chance = run_of(91, 9)  # four points less, as four of four coins fall with p = 0.125
    assert check_run(by_chance, gate, against=old, options=options)[0].state == "met"
    strict = Gate(non_inferior=["accuracy by 0.03"])
    assert check_run(slightly_worse, strict, against=old, options=options)[0].state == "failed"


def test_lower_is_better_metrics_fail_when_they_grow() -> None:
    old, new = run_of(95, 5), run_of(70, 30)
    gate = Gate(no_worse=["brier_score by 0.03"], non_inferior=["brier_score by 0.03"])
    options = CompareOptions(n_permutations=399)
    worse = check_run(new, gate, against=old, options=options)
    assert [v.state for v in worse] == ["failed"] * 2
    assert [v.requirement.partition(":")[0] for v in worse] == ["no worse", "non-inferior"]
    assert [v.state for v in check_run(old, gate, against=new, options=options)] == ["met"] * 2


def test_the_command_exits_by_what_it_found_and_writes_reports(tmp_path: Path) -> None:
    run = run_of(90, 10).save(tmp_path / "run.json")
    junit, table = tmp_path / "check.xml", tmp_path / "check.md"
    met = CliRunner().invoke(app, ["check", str(run), "--require", "accuracy >= 0.85"])
    assert met.exit_code == 0
    assert met.output.startswith("krisis check run.json: 1 met, 0 failed, 0 not judged")
    failed = CliRunner().invoke(
        app,
        [
            *("check", str(run), "--require", "accuracy >= 0.95", "--format", "json"),
            *("--junit", str(junit), "--markdown", str(table)),
        ],
    )
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["requirements"][0]["state"] == "failed"
    suite = ET.parse(junit).getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    assert "| FAILED | accuracy &#62;= 0.95 | 0.900 |" in table.read_text(encoding="utf-8")
    written = junit.read_text(encoding="utf-8"), table.read_text(encoding="utf-8")
    files = ["--junit", str(junit), "--markdown", str(table)]
    CliRunner().invoke(app, ["check", str(run), "--require", "accuracy >= 0.95", *files])
    assert (junit.read_text(encoding="utf-8"), table.read_text(encoding="utf-8")) == written
    gate = tmp_path / "gate.yaml"
    gate.write_text("require: ['balanced_accuracy >= 0.5']\n", encoding="utf-8")
    assert CliRunner().invoke(app, ["check", str(run), "--gate", str(gate)]).exit_code == 2
    gate.write_text("demand: 3\n", encoding="utf-8")
    refused = CliRunner().invoke(app, ["check", str(run), "--gate", str(gate)])
    assert "unknown entry 'demand'" in str(refused.exception)
    assert isinstance(
        CliRunner().invoke(app, ["check", str(run), "--no-worse", "accuracy by 0.1"]).exception,
        InvalidValue,
    )


def test_the_sensitivity_of_the_disease_can_be_required_alone_and_against_another_run() -> None:
    run, other = result_of(invented_rows(300)), result_of(invented_rows(300, skill=0.5))
    gate = Gate(
        ("disease_sensitivity >= 0.6", "Disease Specificity > 0.99"),
        no_worse=("disease_sensitivity by 0.03",),
    )
    some = {"max_not_evaluated": 0.05}
    found = check_run(run, gate, against=other, **some)
    assert [v.state for v in found] == ["met", "failed", "met"]
    assert [v.state for v in check_run(other, gate, against=run, **some)][-1] == "failed"


def requested(*words: str) -> tuple[int, str]:
    """Return the exit code that a shell would see, and what is said."""
    done = CliRunner().invoke(app, ["check", *words])
    if isinstance(done.exception, KrisisError):
        return done.exception.exit_code, str(done.exception)
    return done.exit_code, done.output


def test_other_data_and_a_baseline_without_rows_are_not_judged_and_the_rest_is(
    tmp_path: Path,
) -> None:
    run, other, bare = run_of(90, 10), run_of(90, 10), run_of(95, 5)
    other.suite_description["task"] = "staging"
    gate = Gate(["accuracy >= 0.5"], no_worse=["accuracy by 0.01"], non_inferior=["aurc by 1"])
    verdicts = check_run(run, gate, against=other)
    assert [v.state for v in verdicts] == ["met", "not judged", "not judged"]
    assert "different data (task differs" in verdicts[1].reason
    assert Check(tuple(verdicts)).exit_code == 2
    bare.evaluation_results = Rows([])
    assert "cannot be paired" in check_run(run, gate, against=bare)[1].reason
    scores = {"Accuracy": bare.metric_scores["Accuracy"]}
    unlike = BenchmarkResult(run.evaluation_results, scores, run.suite_description)
    asked = check_run(run, Gate(no_worse=["aurc by 0.1"]), against=unlike)
    assert asked[0].state == "met"  # neither was scored with it, and both have rows
    run.metric_scores["Own"] = MetricScore("Own", 0.5, key="own")
    missing = check_run(run, Gate(no_worse=["own by 0.1"]), against=unlike)
    assert (missing[0].state, "not scored with it" in missing[0].reason) == ("not judged", True)
    neither = check_run(run, Gate(no_worse=["answer_rate by 0.1"]), against=run)
    assert neither[0].state == "not judged"
    paths = [one.save(tmp_path / f"{i}.json") for i, one in enumerate((run, other))]
    words = (str(paths[0]), "--against", str(paths[1]), "--no-worse", "accuracy by 0.1")
    assert requested(*words, "--require", "accuracy >= 0.5")[0] == 2
    assert requested(*words, "--require", "accuracy >= 0.95")[0] == 1


@pytest.mark.parametrize("cause", [Interrupted("Ctrl-C"), BudgetReached("spent")])
def test_a_run_that_was_cut_short_cannot_be_judged(cause: StopCause) -> None:
    run, whole = run_of(90, 10), run_of(90, 10)
    run.attrition = replace(run.attrition, n_loaded=120)
    run.stop = cause
    gate = Gate(["accuracy >= 0.5", "accuracy >= 0.95"], no_worse=["accuracy by 0.1"])
    verdicts = check_run(run, gate, against=whole)
    assert {v.state for v in verdicts} == {"not judged"}
    assert "20 records not asked yet" in verdicts[0].reason
    assert Check(tuple(verdicts)).exit_code == 2
    relative = check_run(whole, gate, against=run)
    assert [v.state for v in relative] == ["met", "failed", "not judged"]
    assert "the baseline is incomplete" in relative[2].reason
    run.stop = Decided("as asked")
    assert [v.state for v in check_run(run, gate, against=whole)] == ["met", "failed", "met"]


def test_a_loss_of_just_the_margin_is_not_beyond_it() -> None:
    old, new = run_of(1000, 0), run_of(970, 30)  # 0.97 - 1 is not -0.03 in floating point
    gate = Gate(no_worse=["accuracy by 0.03"])
    assert check_run(new, gate, against=old)[0].state == "met"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--require", "acuracy >= 0.5"), "did you mean 'accuracy'"),
        (("--require", "accuracy >= nan"), "must end with a number, not 'nan'"),
        (("--require", "accuracy >= 1e999"), "must end with a number"),
        (("--require", "accuracy at least 0.5"), "is not a requirement"),
        (("--no-worse", "accuracy by 0.1"), "--against BASELINE"),
        (("--no-worse", "accuracy by -1", "--against", "RUN"), "is not a margin"),
        (("--no-worse", "accuracy by nan", "--against", "RUN"), "must end with a number"),
        (("--no-worse", "acuracy by 0.1", "--against", "RUN"), "did you mean 'accuracy'"),
        (("--no-worse", "accuracy by 0.1", "--against", "nowhere"), "does not exist"),
        (("--require", "accuracy > 0", "--against", "RUN"), "nothing is required against it"),
        (("--gate", "nowhere.yaml"), "check --gate"),
        (("--gate", "GATE"), "require must hold sentences, not 3"),
        (("--gate", "LIST"), "must hold sentences under require"),
        (("--gate", "CUT"), "is not YAML: line 1"),
        ((), "nothing is required"),
        (("--require", "accuracy > 0", "--junit", "RUN"), "is no report of a check"),
        (("--require", "accuracy > 0", "--markdown", "RUN"), "is no report of a check"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    run = run_of(9, 1).save(tmp_path / "run.json")
    before = run.read_bytes()
    gates = {"GATE": "require: 3", "LIST": "[1]", "CUT": "require: [accuracy"}
    for name, content in gates.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    places = {"RUN": str(run), **{name: str(tmp_path / name) for name in gates}}
    code, told = requested(str(run), *(places.get(word, word) for word in words))
    assert code == 2
    assert said in told
    assert "\n" not in told.strip()
    assert run.read_bytes() == before


def test_the_yaml_of_a_gate_says_the_same_as_the_options(tmp_path: Path) -> None:
    run, old = run_of(90, 10).save(tmp_path / "a.json"), run_of(95, 5).save(tmp_path / "b.json")
    gate = tmp_path / "gate.yaml"
    gate.write_text(
        f"require: accuracy >= 0.85\nno-worse: [accuracy by 0.1]\nagainst: {old}\n", "utf-8"
    )
    options = ("--require", "accuracy >= 0.85", "--no-worse", "accuracy by 0.1")
    by_options = requested(str(run), *options, "--against", str(old))
    assert requested(str(run), "--gate", str(gate)) == by_options
    assert by_options[0] == 0
    more = requested(str(run), "--gate", str(gate), "--require", "accuracy >= 0.95")
    assert more[0] == 1
    assert "2 met, 1 failed, 0 not judged" in more[1]


def junit_faults(text: str) -> list[str]:
    """Return what the strictest of the JUnit readers in use would object to."""
    root = ET.fromstring(text)
    faults = [] if root.tag == "testsuites" else [root.tag]
    numbers = {"tests", "failures", "errors", "time"}
    for suite in root:
        cases = list(suite)
        counted = {
            "tests": len(cases),
            "failures": len(suite.findall("testcase/failure")),
            "errors": len(suite.findall("testcase/error")),
            "skipped": len(suite.findall("testcase/skipped")),
        }
        faults += [n for n, found in counted.items() if suite.get(n) != str(found)]
        faults += [n for n in numbers if root.get(n) != suite.get(n) or suite.get(n) is None]
        faults += [case.tag for case in cases if case.tag != "testcase"]
        for case in cases:
            faults += [n for n in ("name", "classname", "time") if case.get(n) is None]
            faults += [c.tag for c in case if c.tag not in ("failure", "error", "system-out")]
            for told in (*case.findall("failure"), *case.findall("error")):
                faults += [n for n in ("message", "type") if told.get(n) is None]
    return faults


NASTY = 'a|b `c` ``d`` <e> & "f" \x00\x1b[31m\x0b \ud800 \uffff\nnew *line* \\ ]]> é 𝛼'


def test_the_xml_is_what_junit_readers_take_whatever_is_in_a_name() -> None:
    told: tuple[State, ...] = ("met", "failed", "not judged")
    verdicts = [Judged(requirement=f"{state} {NASTY}", state=state, reason=NASTY) for state in told]
    text = junit_xml(Check(tuple(verdicts), run=NASTY))
    assert junit_faults(text) == []
    (suite,) = ET.fromstring(text.encode("utf-8"))
    assert [[outcome.tag for outcome in case] for case in suite] == [
        ["system-out"],
        ["failure"],
        ["error"],
    ]
    assert "\ufffd" in suite[1].get("name", "")
    assert '<e> & "f"' in suite[1].get("name", "")
    assert junit_faults(text.replace(' type="failed"', "")) == ["type"]


def test_a_markdown_table_keeps_its_columns_whatever_is_in_a_name() -> None:
    nasty = Judged(requirement=NASTY, state="failed", reason=NASTY)
    lines = markdown_text(Check((nasty,), run=NASTY).document()).splitlines()
    assert lines[0].startswith("### ")
    assert lines[0].endswith("0 met, 1 failed, 0 not judged")
    (row,) = [line for line in lines if line.startswith("| FAILED")]
    assert row.count("|") == 5
    assert not re.search(r"[`<*]", row)


def test_the_summary_of_a_step_is_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, summary = run_of(9, 1).save(tmp_path / "run.json"), tmp_path / "summary"
    summary.write_text("what another command wrote", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for _ in range(2):
        words = (str(run), "--require", "accuracy > 0", "--markdown", str(summary))
        assert requested(*words)[0] == 0
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("what another command wrote\n### krisis check run.json")
    assert text.count("### krisis check") == 2


def alarms(loss: float, differing: float, *, n_pairs: int, n_permutations: int) -> float:
    """Return how often the gate fails on pairs of runs that truly differ by a loss."""
    generator = np.random.default_rng(int(1000 * (loss + differing)))
    gate = Gate(no_worse=["deferral_alignment by 0.03"])
    options, n_failed = CompareOptions(n_permutations=n_permutations), 0
    for _ in range(n_pairs):
        drawn = generator.random(400)
        worse = (differing + loss) / 2
        aligned = np.where(generator.random(400) < 0.8, 1, 0)  # where the runs agree
        old = np.where(drawn < worse, 1, np.where(drawn < differing, 0, aligned))
        new = np.where(drawn < worse, 0, np.where(drawn < differing, 1, aligned))
        found = check_run(deferring(new), gate, against=deferring(old), options=options)
        assert Check(tuple(found)).exit_code in (0, 1)
        n_failed += Check(tuple(found)).exit_code
    return n_failed / n_pairs


def deferring(aligned: np.ndarray) -> BenchmarkResult:
    due = np.arange(400) % 4 == 0
    rows = Rows(
        EvaluationResult(1, 1, bool(d == a), metadata={"should_abstain": bool(d)}, record_id=str(i))
        for i, (d, a) in enumerate(zip(due, aligned == 1, strict=True))
    )
    return BenchmarkResult(rows, score_all([DeferralAlignment()], rows), {})


def test_a_gate_tells_eight_points_from_none() -> None:
    assert alarms(0.08, 0.2, n_pairs=10, n_permutations=199) >= 0.75
    assert alarms(0.0, 0.2, n_pairs=10, n_permutations=199) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("differing", [0.1, 0.2, 0.3])
def test_eight_points_are_caught_in_84_percent_and_unchanged_pairs_alarm_in_at_most_6(
    differing: float,
) -> None:
    caught, unchanged = (
        alarms(loss, differing, n_pairs=200, n_permutations=399) for loss in (0.08, 0.0)
    )
    print(differing, caught, unchanged)
    assert unchanged <= 0.06
    assert caught >= 0.84


def test_a_score_that_was_edited_in_a_run_passes_no_check(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", result_of(invented_rows(120)))
    words = ("check", str(run), "--require", "accuracy >= 0.95", "--max-not-evaluated", "0.05")
    before = krisis(*words, cwd=tmp_path)
    assert before.returncode == 1
    with open_run(run) as opened:
        kept = opened.scores()
    assert kept is not None
    kept.scores["Accuracy"]["value"] = 0.99
    kept.scores["Accuracy"]["interval"] |= {"low": 0.98, "high": 1.0}
    forge_run(run, "scores", scores=json.dumps(kept.scores))
    after = krisis(*words, cwd=tmp_path)
    assert (after.returncode, after.stdout) == (1, before.stdout)


def test_scores_without_rows_pass_no_check(tmp_path: Path) -> None:
    (tmp_path / "scores.json").write_text(result_of(invented_rows(120)).metrics_to_json())
    done = krisis("check", "scores.json", "--require", "accuracy >= 0.1", cwd=tmp_path)
    assert done.returncode == 2


@pytest.mark.parametrize("margin", ["0", "-0.1"])
def test_a_margin_is_above_zero(margin: str) -> None:
    with pytest.raises(InvalidValue, match="is not a margin"):
        check_run(run_of(9, 1), Gate(no_worse=[f"accuracy by {margin}"]), against=run_of(9, 1))


def test_only_an_accident_that_left_records_makes_a_run_incomplete() -> None:
    gate = Gate(["accuracy >= 0.5"])
    unasked, stopped = run_of(90, 10), run_of(90, 10)
    unasked.attrition = replace(unasked.attrition, n_loaded=120)
    stopped.stop = Interrupted("Ctrl-C")
    assert [check_run(run, gate)[0].state for run in (unasked, stopped)] == ["met", "met"]


def test_of_a_run_with_missing_cases_the_share_of_these_is_judged_alone() -> None:
    rows = [EvaluationResult(1, 1, record_id=f"r{i}") for i in range(90)]
    rows += [EvaluationResult(None, 1, error="down", record_id=f"x{i}") for i in range(10)]
    gate = Gate(["accuracy >= 0.5", "not_evaluated_rate <= 0.2", "not_evaluated_rate <= 0.05"])
    verdicts = check_run(result_of(Rows(rows)), gate)
    assert [one.state for one in verdicts] == ["not judged", "met", "failed"]
    assert verdicts[1].value == 0.1


def test_no_answers_are_counted_among_the_cases_that_were_evaluated() -> None:
    rows = [EvaluationResult(1, 1, record_id=f"r{i}") for i in range(150)]
    rows += [
        EvaluationResult("?", 1, error="no", failure_class="not_allowed", record_id=f"n{i}")
        for i in range(50)
    ]
    rows += [EvaluationResult(None, 1, error="down", record_id="x")]
    run = result_of(Rows(rows))
    run.metric_scores.pop("No-Answer Rate", None)
    (found,) = check_run(run, Gate(["no_answer_rate <= 0.25"]))
    assert (found.state, found.value) == ("met", 0.25)


def test_a_run_without_rows_is_not_paired() -> None:
    run, bare = run_of(90, 10), run_of(90, 10)
    bare.evaluation_results = Rows([])
    (found,) = check_run(bare, Gate(no_worse=["accuracy by 0.1"]), against=run)
    assert "cannot be paired" in found.reason


def test_as_json_what_is_not_known_is_null() -> None:
    met, unknown = check_run(run_of(90, 10), Gate(["accuracy >= 0.5", "lower(aurc) >= 0"]))
    assert (met.to_dict()["metric"], met.to_dict()["reason"]) == ("Accuracy", None)
    bare = replace(unknown, metric="", reason="because")
    assert (bare.to_dict()["metric"], bare.to_dict()["reason"]) == (None, "because")


def test_a_check_passes_when_every_requirement_is_met() -> None:
    run = run_of(90, 10)
    found = [
        Check(tuple(check_run(run, Gate([text])))) for text in ("accuracy >= 0.5", "accuracy > 0.9")
    ]
    assert [(one.passed, one.exit_code) for one in found] == [(True, 0), (False, 1)]


def test_the_limit_of_a_change_lies_on_the_side_of_a_loss() -> None:
    gate = Gate(no_worse=["accuracy by 0.1", "brier_score by 0.1"])
    assert [one.limit for one in check_run(run_of(90, 10), gate, against=run_of(90, 10))] == [
        -0.1,
        0.1,
    ]


def test_bounds_are_shown_where_missing_cases_could_turn_the_answer() -> None:
    rows = [EvaluationResult(int(i < 90), 1, record_id=f"r{i}") for i in range(99)]
    rows += [EvaluationResult(None, 1, error="down", record_id="x")]
    sure, open_ = check_run(result_of(Rows(rows)), Gate(["accuracy >= 0.5", "accuracy >= 0.905"]))
    assert sure.bounds is None
    assert open_.bounds == (0.9, 0.91)
