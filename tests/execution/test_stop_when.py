"""A run stops when its question is answered, whatever the order in which replies arrive."""

from __future__ import annotations

import math
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.documents import said
from tests.invented_runs import rows_in
from typer.testing import CliRunner

from krisis import BackendResponse, BaseBackend, Benchmark, BenchmarkResult, PatientRecord
from krisis.cli.app import app
from krisis.data.base import RecordListSuite
from krisis.errors import BackendError, KrisisError, RunConflict, UserError
from krisis.execution.config import checked_config
from krisis.execution.options import Execution
from krisis.execution.pacing.budget import Limits
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.metrics import Accuracy, DeferralAlignment
from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of
from krisis.results.side_by_side import warned
from krisis.results.stops import BudgetReached, Decided, Interrupted, StopRule
from krisis.runs.load import list_runs, load_run
from krisis.verbs.compare.pairs import CompareOptions, compare_runs


def drawn(*named: object) -> float:
    return random.Random(str(named)).random()


def some_records(n: int = 300, rows_per_patient: int = 1) -> list[PatientRecord]:
    return [
        PatientRecord(
            {"x": i},
            i % 2,
            metadata={"should_abstain": False},
            record_id=f"r{i}",
            cluster_id=f"p{i // rows_per_patient}",
        )
        for i in range(n)
    ]


class Skilled(BaseBackend):
    """Is right on a fixed share of the records; may be slow, fail, or end the run."""

    name, max_retries = "skilled", 0

    def __init__(self, skill: float, *, failing: float = 0.0, seconds: float = 0.0) -> None:
        self.skill, self.failing, self.seconds = skill, failing, seconds
        self.asked: list[str] = []
        self.stop_after: tuple[int, Stop] | None = None

    def identity(self) -> dict[str, object]:
        return {"backend": self.name}

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        self.asked.append(record.record_id)
        if self.stop_after is not None and len(self.asked) == self.stop_after[0]:
            self.stop_after[1].request_from_outside(Interrupted("the test had enough"))
        time.sleep(self.seconds * drawn("slow", record.record_id))
        if drawn("fails", record.record_id) < self.failing:
            raise BackendError("gone")
        right = drawn(record.record_id) < self.skill
        x = int(record.features["x"])
        answer = x % 2 if right else 1 - x % 2
        return BackendResponse(answer, confidence=0.8, input_tokens=5, output_tokens=5)


def run(
    backend: BaseBackend,
    rule: str | None,
    records: list[PatientRecord] | None = None,
    *,
    max_concurrency: int = 1,
    batch_size: int = 1,
    **execution: Any,
) -> BenchmarkResult:
    return Benchmark(
        RecordListSuite(records or some_records()),
        backend,
        [Accuracy(), DeferralAlignment()],
        batch_size,
        max_concurrency,
        execution=Execution(stop_when=rule, **execution),
    ).run()


def rule_of(result: BenchmarkResult) -> StopRule:
    assert result.stop_rule is not None
    return result.stop_rule


def by_product(odds: list[float]) -> tuple[int, float]:
    """Return after how many factors their running product reaches 20, and the product there."""
    product = 1.0
    for n, factor in enumerate(odds, 1):
        product *= factor
        if product >= 20:
            return n, product
    return 0, product


def toss_odds(pairs: list[tuple[bool, bool]]) -> list[float]:
    """Return the odds of Beta(5, 5) against a coin for each pair (old, new); 1 if they agree."""
    odds, wins, losses = [], 0, 0
    for old, new in pairs:
        chance = (5 + wins) / (10 + wins + losses)
        odds.append(1.0 if old == new else 2 * (chance if new else 1 - chance))
        wins, losses = wins + (new and not old), losses + (old and not new)
    return odds


def test_a_limit_is_decided_where_the_predictive_odds_multiply_to_20() -> None:
    whole = run(Skilled(0.97), None)
    right = [row.prediction == row.ground_truth for row in whole.evaluation_results]
    order = np.random.default_rng(42).permutation(300)  # the seed of a suite
    odds, hits = [], 0
    for n, at in enumerate(order):
        chance = (8.5 + hits) / (10 + n)  # Beta(8.5, 1.5), then the rows seen
        odds.append(chance / 0.85 if right[at] else (1 - chance) / 0.15)
        hits += right[at]
    n, product = by_product(odds)
    stopped = run(Skilled(0.97), "accuracy >= 0.85")
    rule = rule_of(stopped)
    assert (rule.answer, rule.n_records) == ("yes", n)
    assert rule.e_value == pytest.approx(product)
    assert isinstance(stopped.stop, Decided)
    assert stopped.stop.sentence == rule.sentence
    assert stopped.attrition.n_sent == n < 300
    assert stopped.attrition.n_lost == stopped.attrition.n_abstained == 0
    assert {row.record_id for row in stopped.evaluation_results} == {f"r{i}" for i in order[:n]}
    below = rule_of(run(Skilled(0.6), "accuracy >= 0.85"))
    assert below.answer == "no"
    assert rule_of(run(Skilled(0.6), "accuracy <= 0.85")).answer == "yes"


def test_patients_with_several_rows_are_bet_on_when_all_their_rows_are_there() -> None:
    records = some_records(400, rows_per_patient=4)
    whole = run(Skilled(0.97), None, records)
    right = [row.prediction == row.ground_truth for row in whole.evaluation_results]
    sums = [sum(right[4 * patient : 4 * patient + 4]) for patient in range(100)]
    bets = [sign * bet for bet in (0.99, 0.7, 0.4, 0.2, 0.1) for sign in (1, -1)]
    wealth, found = dict.fromkeys(bets, 1.0), 0
    for n, patient in enumerate(np.random.default_rng(42).permutation(100), 1):
        number = (sums[patient] - 0.8 * 4) / (4 * 0.8)
        wealth = {bet: value * (1 + bet * number) for bet, value in wealth.items()}
        if sum(wealth.values()) / 10 >= 20:
            found = n
            break
    rule = rule_of(run(Skilled(0.97), "accuracy >= 0.8", records))
    assert (rule.answer, rule.n_patients, rule.n_records) == ("yes", found, 4 * found)
    assert rule.e_value == pytest.approx(sum(wealth.values()) / 10)
    assert 0 < found < 100


def test_better_than_tosses_the_pairs_that_differ(tmp_path: Path) -> None:
    old = run(Skilled(0.6), None)
    path = old.save(tmp_path / "old run.json")
    new = run(Skilled(0.8), None)
    order = np.random.default_rng(42).permutation(300)
    right = [[r.prediction == r.ground_truth for r in one.evaluation_results] for one in (old, new)]
    n, product = by_product(toss_odds([(right[0][at], right[1][at]) for at in order]))
    stopped = run(Skilled(0.8), f"better than {path}")
    rule = rule_of(stopped)
    assert (rule.answer, rule.n_records) == ("yes", n)
    assert rule.e_value == pytest.approx(product)
    assert 0 < n < 300
    new_path = new.save(tmp_path / "new.json")
    assert rule_of(run(Skilled(0.6), f"accuracy better than {new_path}")).answer == "no"
    undecided = run(Skilled(0.6), f"deferral_alignment better than {path}")
    assert (rule_of(undecided).answer, undecided.stop) == ("not decided", None)
    assert rule_of(undecided).e_value == pytest.approx(1)
    assert "not decided by 300 of 300 records" in said(undecided.document())


def test_failed_rows_and_rows_that_the_other_run_lacks_are_counted_and_left_out(
    tmp_path: Path,
) -> None:
    records = some_records()
    old = run(Skilled(0.5, failing=0.1), None, records[:200])
    # A description without hashes: rows are matched by their names.
    path = BenchmarkResult(old.evaluation_results, {}, {}).save(tmp_path / "old.json")
    stopped = run(Skilled(0.95, failing=0.1), f"better than {path}", records, max_concurrency=4)
    rule = rule_of(stopped)
    order = np.random.default_rng(42).permutation(300)[: rule.n_records].tolist()
    failed = [i for i in order if drawn("fails", f"r{i}") < 0.1]
    assert rule.n_failed == len(failed) > 0
    assert rule.n_skipped == sum(i >= 200 for i in order if i not in failed) > 0
    assert (
        f"({rule.n_failed} not evaluated, {rule.n_skipped} not scored in the other run"
        in rule.found
    )
    both = [drawn(f"r{i}") for i in order if i < 200 and i not in failed]
    _, product = by_product(toss_odds([(at < 0.5, at < 0.95) for at in both]))
    assert (rule.answer, rule.e_value) == ("yes", pytest.approx(product))


def test_the_speed_of_replies_and_batches_do_not_change_the_decision() -> None:
    alone = run(Skilled(0.97), "accuracy >= 0.85")
    together = run(Skilled(0.97, seconds=0.01), "accuracy >= 0.85", max_concurrency=16)
    assert rule_of(together) == rule_of(alone)
    assert together.attrition.n_sent >= alone.attrition.n_sent  # calls in progress are kept

    class InBatches(Skilled):
        def evaluate_batch(self, records: Any) -> list[BackendResponse]:
            return [self.evaluate(record) for record in records]

    in_batches = run(InBatches(0.97), "accuracy >= 0.85", batch_size=8)
    assert rule_of(in_batches) == rule_of(alone)
    assert in_batches.attrition.n_sent == 8 * math.ceil(rule_of(alone).n_records / 8)


def test_repeats_of_a_record_are_rows_of_one_patient() -> None:
    result = run(Skilled(0.99), "accuracy >= 0.7", some_records(100), repeats=3)
    rule = rule_of(result)
    assert rule.answer == "yes"
    assert rule.n_records == 3 * rule.n_patients
    assert result.attrition.n_loaded == 300


def test_a_decision_by_the_last_record_is_no_early_end() -> None:
    n = rule_of(run(Skilled(1.0), "accuracy >= 0.6")).n_records
    result = run(Skilled(1.0), "accuracy >= 0.6", some_records(n))
    assert result.stop is None
    assert result.attrition.n_sent == n == rule_of(result).n_records < 300
    assert "Rule to stop by: accuracy >= 0.6: yes" in said(result.document())


def test_a_narrow_interval_ends_a_run_from_30_patients_on() -> None:
    result = run(Skilled(0.9), "half_width(accuracy) <= 0.06")
    rule = rule_of(result)
    assert (rule.answer, rule.e_value) == ("yes", None)
    assert "(asymptotic)" in rule.found
    interval = result.metric_scores["Accuracy"].interval
    assert interval is not None  # one row a patient: the interval is that of the report
    assert f"interval {interval.low:.4f} to {interval.high:.4f}" in rule.found
    assert (interval.high - interval.low) / 2 <= 0.06
    assert rule_of(run(Skilled(1.0), "half_width(accuracy) <= 0.4")).n_patients == 30
    wide = rule_of(run(Skilled(0.9), "half_width(accuracy) <= 0.01"))
    assert (wide.answer, "interval 0" in wide.found) == ("not decided", False)
    few = rule_of(run(Skilled(0.9), "half_width(accuracy) <= 0.4", some_records(20)))
    assert "fewer than 30 patients" in few.found


def test_what_was_interrupted_is_decided_as_if_it_had_not_been(tmp_path: Path) -> None:
    rule, whole = "accuracy >= 0.85", run(Skilled(0.97), "accuracy >= 0.85")
    backend, stop = Skilled(0.97), Stop()
    backend.stop_after = (20, stop)
    cut = run(backend, rule, recorder=Recorder(tmp_path), stop=stop)
    assert isinstance(cut.stop, Interrupted)
    assert rule_of(cut).answer == "not decided"
    (path,) = list_runs(tmp_path)
    with pytest.raises(RunConflict, match="stop_when"):
        run(Skilled(0.97), "accuracy >= 0.8", recorder=Recorder.resume(path))
    with pytest.raises(RunConflict, match="stop_when"):
        run(Skilled(0.97), None, recorder=Recorder.resume(path))
    resumed = run(Skilled(0.97, seconds=0.004), rule, recorder=Recorder.resume(path))
    assert rule_of(resumed) == rule_of(whole)
    again = Skilled(0.97)
    decided = run(again, rule, recorder=Recorder.resume(path))
    assert (again.asked, rule_of(decided)) == ([], rule_of(whole))
    loaded = load_run(path)
    assert loaded.stop_rule == rule_of(whole)
    assert isinstance(loaded.stop, Decided)


def test_a_budget_may_end_the_run_first(tmp_path: Path) -> None:
    rule, limits = "accuracy >= 0.85", Limits(max_tokens=150)
    cut = run(Skilled(0.97), rule, recorder=Recorder(tmp_path), limits=limits)
    assert isinstance(cut.stop, BudgetReached)
    assert rule_of(cut).answer == "not decided"
    assert "INCOMPLETE" in said(cut.document())
    (path,) = list_runs(tmp_path)
    resumed = run(Skilled(0.97), rule, recorder=Recorder.resume(path))
    assert rule_of(resumed) == rule_of(run(Skilled(0.97), rule))


def test_every_report_says_how_the_run_ended_and_that_its_figures_lean(tmp_path: Path) -> None:
    old, other = run(Skilled(0.6), None), run(Skilled(0.9), None)
    stopped = run(Skilled(0.97), "accuracy >= 0.85")
    caution = "lean towards that decision (optional stopping)"
    text = said(stopped.document())
    assert f"STOPPED AS ASKED: {stopped.attrition.n_left} records not asked (accuracy >= " in text
    assert caution in text
    assert "in at most 5 % of runs" in text
    assert "INCOMPLETE" not in text
    scores = stopped.metric_scores
    without_charts = BenchmarkResult([], scores, stopped.suite_description, facts=stopped)
    page = page_of(run_document(without_charts))
    assert "STOPPED AS ASKED" in page
    assert caution in page
    reread = BenchmarkResult.load(stopped.save(tmp_path / "new.json"))
    assert (reread.stop_rule, reread.stop) == (stopped.stop_rule, stopped.stop)
    quick = CompareOptions(n_permutations=99)
    assert caution in said(compare_runs({"old": old, "new": reread}, quick).document())
    assert caution not in said(compare_runs({"old": old, "other": other}, quick).document())
    assert warned(reread) == ["stopped as asked"]
    checked = CliRunner().invoke(
        app, ["check", str(tmp_path / "new.json"), "--require", "accuracy >= 0.5"]
    )
    assert caution in checked.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("accuracy", "is not a rule"),
        ("", "is not a rule"),
        ("accuracy > 0.8", "is not a rule"),
        ("better than", "is not a rule"),
        ("half_width(accuracy) >= 0.1", "is not a rule"),
        ("accuracy >= 1", "between 0 and 1"),
        ("accuracy >= nan", "between 0 and 1"),
        ("accuracy >= high", "between 0 and 1"),
        ("half_width(accuracy) <= 0.5", "between 0 and 0.5"),
    ],
)
def test_a_sentence_that_is_no_rule_is_refused_before_anything_is_made(
    text: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        checked_config({"suite": "ckd", "model": "guideline", "stop_when": text}, "here")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("brier_score >= 0.2", "by one of accuracy, answer_rate, selective_accuracy"),
        ("half_width(balanced_accuracy) <= 0.1", "by one of accuracy"),
        ("disease_sensitivity >= 0.2", "by one of accuracy"),
        (
            "selective_accuracy better than PATH",
            "by one of accuracy, deferral_alignment, no_answer_rate$",
        ),
        ("acuracy >= 0.5", "did you mean 'accuracy'"),
        ("better than PATH/nowhere", "does not exist"),
        ("better than OTHER", "different data"),
        ("better than STRANGE", "no record of this run"),
        ("better than TURNED", "different data"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused_before_the_first_call(
    tmp_path: Path, text: str, words: str
) -> None:
    rows = run(Skilled(0.6), None, some_records(10)).evaluation_results
    BenchmarkResult(rows, {}, {"suite": "ckd"}).save(tmp_path / "OTHER")
    strange = run(Skilled(0.6), None, [PatientRecord({"x": 0}, 0, record_id="z")])
    BenchmarkResult(strange.evaluation_results, {}, {}).save(tmp_path / "STRANGE")
    for row in rows:
        row.ground_truth = 1 - int(row.ground_truth)
    BenchmarkResult(rows, {}, {}).save(tmp_path / "TURNED")
    for name in ("PATH", "OTHER", "STRANGE", "TURNED"):
        text = text.replace(name, str(tmp_path / name.replace("PATH", "")))
    backend = Skilled(0.9)
    with pytest.raises(UserError, match=words):
        run(backend, text, recorder=Recorder(tmp_path / "runs"))
    assert backend.asked == []
    assert not (tmp_path / "runs").exists()


def test_the_command_exits_0_at_a_decision_and_repeats_from_its_settings(tmp_path: Path) -> None:
    words = ["run", "ckd", "--model", "guideline", "-o", str(tmp_path), "--stop-when"]
    done = CliRunner().invoke(app, [*words, "accuracy >= 0.9", "--no-baselines"])
    assert done.exit_code == 0
    assert "krisis: stopped as asked (accuracy >= 0.9: no, after" in done.stderr
    assert "krisis resume" not in done.stderr
    (path,) = list_runs(tmp_path)
    first = load_run(path)
    assert first.provenance.config["stop_when"] == "accuracy >= 0.9"
    again = CliRunner().invoke(app, ["run", "--config", str(path), "-o", str(tmp_path / "b")])
    assert again.exit_code == 0
    (other,) = list_runs(tmp_path / "b")
    assert load_run(other).stop_rule == first.stop_rule
    dry = CliRunner().invoke(app, [*words, "accuracy >= 0.9", "--dry-run"])
    assert "until this is known: accuracy >= 0.9" in dry.output
    resumed = CliRunner().invoke(app, ["resume", str(path)])
    assert resumed.exit_code == 0
    assert load_run(path).stop_rule == first.stop_rule


@pytest.mark.slow
def test_a_run_that_is_killed_decides_as_one_that_is_not(
    tmp_path: Path,
    loopback: Any,
    start_worker: Callable[..., subprocess.Popen[str]],
    worker: ModuleType,
) -> None:
    server = loopback(latency=0.03)
    options = {"base_url": server.base_url, "n": 400, "max_concurrency": 8}
    options |= {"stop_when": "accuracy >= 0.75", "out": str(tmp_path)}
    whole = worker.benchmark(options, None).run()
    assert isinstance(whole.stop, Decided)
    process = start_worker(options)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(KrisisError, IndexError):
            if len(rows_in(next(iter(tmp_path.glob("*.krisis")), tmp_path))) >= 30:
                break
        time.sleep(0.002)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    (path,) = list_runs(tmp_path)
    assert load_run(path).attrition.n_sent >= 30
    last = start_worker({**options, "resume": str(path)})
    assert last.communicate(timeout=60) == ("done\n", "")
    result = load_run(path)
    assert rule_of(result) == rule_of(whole)
    assert rule_of(result).n_records > 40  # the kill came before the decision
    assert isinstance(result.stop, Decided)
