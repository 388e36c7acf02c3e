"""The baselines answer by the same door as a model, from the features alone."""

from __future__ import annotations

import io
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from krisis import Benchmark, PatientRecord, SuiteConfig, registry
from krisis.backends.baselines.constant import AlwaysAbstain, Majority
from krisis.backends.baselines.fitted import Boosting, Logistic
from krisis.backends.baselines.rules import Guideline, Ideal, RuleBackend
from krisis.backends.catalogue import backend_from_name
from krisis.benchmark import ask_baselines, baseline_scores
from krisis.costs import Costs
from krisis.data.base import Judgement, RecordListSuite, Task
from krisis.data.ckd.suite import CKDSuite
from krisis.data.phq8.suite import PHQ8Suite
from krisis.errors import InvalidValue, MissingExtra, UnknownName
from krisis.execution.options import Execution
from krisis.metrics import Accuracy, DecisionCost, DeferralSkill
from krisis.metrics.abstention import DeferralAlignment

NAMES = (
    "always-abstain",
    "majority",
    "guideline",
    "logistic",
    "ideal",
)
TASKS = ("detection", "staging", "progression")


def run(task, name, **config):
    suite = CKDSuite(SuiteConfig(task=task, **config))
    return Benchmark(suite, registry.find("backends", name)(), batch_size=64).run()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", NAMES)
def test_a_baseline_sees_features_only(task, name):
    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=20))
    backend = registry.find("backends", name)()
    backend.prepare(suite)
    records = suite.load()
    blind = [PatientRecord(record.features, "unknown", {}, record.record_id) for record in records]
    assert backend.evaluate_batch(records) == backend.evaluate_batch(blind)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("features", ["reduced", "full"])
def test_the_ideal_reader_is_the_best_by_cost_and_defers_best(task, features):
    suite = CKDSuite(SuiteConfig(task=task, features=features, n_synthetic=60))
    both = [DeferralAlignment(), DeferralSkill(), DecisionCost()]
    runs = {}
    for name in NAMES:
        backend = registry.find("backends", name)()
        runs[name] = Benchmark(suite, backend, both, batch_size=64).run().metric_scores
    ideal = runs.pop("ideal")
    assert ideal["deferral_skill"].value == ideal["deferral_alignment"].value == 1.0
    for key in ("deferral_skill", "deferral_alignment"):
        assert max(scores[key].value for scores in runs.values()) < 1.0
    assert min(scores["decision_cost"].value for scores in runs.values()) > (
        ideal["decision_cost"].value
    )


def test_the_ideal_reader_is_right_as_often_as_it_says():
    result = run("staging", "ideal", n_synthetic=500)
    answered = [row for row in result.evaluation_results if not row.abstained]
    expected = sum(row.confidence for row in answered)
    spread = sum(row.confidence * (1 - row.confidence) for row in answered) ** 0.5
    n_right = sum(row.prediction == row.ground_truth for row in answered)
    assert abs(n_right - expected) < 4 * spread


def test_the_guideline_reader_beats_what_looks_at_nothing():
    for task in TASKS:
        guideline = run(task, "guideline", n_synthetic=100).metric_scores
        majority = run(task, "majority", n_synthetic=100).metric_scores
        gain = guideline["selective_accuracy"].value - majority["selective_accuracy"].value
        assert gain > 0.1
        assert guideline["decision_cost"].value < majority["decision_cost"].value


def test_the_guideline_reader_abstains_at_the_price_of_the_task():
    cautious, bold = Guideline(), Guideline()
    for backend, price in ((cautious, 0.02), (bold, 0.49)):
        suite = CKDSuite(SuiteConfig(task="staging", n_synthetic=200, price=price))
        backend.prepare(suite)
    records = suite.load()
    n_cautious = sum(cautious.evaluate(record).abstained for record in records)
    n_bold = sum(bold.evaluate(record).abstained for record in records)
    assert n_cautious > n_bold
    for record in records:
        response = cautious.evaluate(record)
        assert response.abstained or response.confidence > 0.98


def test_majority_counts_training_labels():
    suite = CKDSuite(SuiteConfig(n_synthetic=40))
    labels = [record.label for record in suite.training_records()]
    backend = Majority()
    backend.prepare(suite)
    response = backend.evaluate(suite.load()[0])
    assert response.prediction == 0
    assert response.confidence == labels.count(0) / len(labels)


def test_always_abstain_abstains():
    response = AlwaysAbstain().evaluate(PatientRecord({"sc": 1.0}, 0))
    assert response.abstained
    assert response.prediction is None


def test_logistic_answers_a_batch_as_it_answers_each_case():
    suite = CKDSuite(SuiteConfig(n_synthetic=10))
    backend = Logistic()
    backend.prepare(suite)
    records = suite.load()
    together = [r.prediction for r in backend.evaluate_batch(records)]
    assert together == [backend.evaluate(record).prediction for record in records]


def test_logistic_is_the_same_without_scikit_learn_and_boosting_says_what_to_install(monkeypatch):
    suite = CKDSuite(SuiteConfig(n_synthetic=10))
    answers = []
    for is_installed in (True, False):
        if not is_installed:
            for name in [one for one in sys.modules if one.split(".")[0] == "sklearn"]:
                monkeypatch.setitem(sys.modules, name, None)
            monkeypatch.setitem(sys.modules, "sklearn", None)
        backend = Logistic()
        backend.prepare(suite)
        answers.append(backend.evaluate_batch(suite.load()))
    assert answers[0] == answers[1]
    with pytest.raises(MissingExtra, match=r"'boosting' needs the extra 'baselines'"):
        Boosting().prepare(suite)


def test_no_suite_is_read_against_a_baseline_that_needs_an_extra():
    for name in set(registry.names("suites")) - {"table"}:  # which names its own by its file
        for baseline in registry.find("suites", name).baselines:
            kind = registry.find("backends", baseline.partition("/")[0])
            assert not kind.extra, f"{name} names {baseline}"


def test_logistic_is_not_moved_by_the_labels_of_the_cases():
    suite = CKDSuite(SuiteConfig(n_synthetic=30))
    backend, other = Logistic(answer_all=True), Logistic(answer_all=True)
    backend.prepare(suite)
    other.prepare(suite)
    flipped = [PatientRecord(r.features, 1 - r.label, {}, r.record_id) for r in suite.load()]
    assert backend.evaluate_batch(suite.load()) == other.evaluate_batch(flipped)


def test_logistic_works_with_words_and_a_single_member_of_a_class():
    class Words(RecordListSuite):
        def training_records(self):
            rows = [("red", 1), ("red", 1), ("blue", 0), ("blue", 0), ("blue", 2)]
            return [PatientRecord({"colour": c, "n": i}, y) for i, (c, y) in enumerate(rows)]

    backend = Logistic(answer_all=True)
    backend.prepare(Words([]))
    assert backend.evaluate(PatientRecord({"colour": "red", "n": None}, 0)).prediction == 1


class Gaps(RecordListSuite):
    """A value is missing exactly where the answer is 1."""

    tasks = (Task("gap", "Is it?", {0: "no", 1: "yes"}, price=0.1),)

    def training_records(self):
        rng = np.random.default_rng(0)
        rows = [(rng.normal(), k % 2) for k in range(200)]
        return [PatientRecord({"x": None if y else x, "n": 1.0}, y) for x, y in rows]


def test_boosting_sees_that_a_value_is_missing_and_logistic_does_not():
    asked = PatientRecord({"x": None, "n": 1.0}, 1)
    boosting, logistic = Boosting(), Logistic(answer_all=True)
    for backend in (boosting, logistic):
        backend.prepare(Gaps([]))
    assert boosting.evaluate(asked).prediction == 1
    assert boosting.evaluate(asked).confidence > 0.9
    assert logistic.evaluate(asked).confidence < 0.9
    again = Boosting()
    again.prepare(Gaps([]))
    assert again.evaluate(asked) == boosting.evaluate(asked)


def test_the_price_of_the_task_says_when_a_fitted_baseline_abstains():
    backend = Logistic()
    backend.prepare(Gaps([]))
    response = backend.evaluate(PatientRecord({"x": None, "n": 1.0}, 1))
    assert response.abstained
    chances = response.signals["own_probabilities"]
    assert sum(chances.values()) == pytest.approx(1)
    assert max(chances.values()) < 0.9


class Unequal(Gaps):
    """A missed answer 1 costs ten times a false one, so a reader who is unsure says 1."""

    tasks = (
        Task("gap", "?", {0: "no", 1: "yes"}, costs=Costs({1: {0: 1}, 0: {1: 0.1}}, price=0.09)),
    )


def test_a_fitted_baseline_gives_the_answer_of_the_lowest_expected_cost():
    asked = PatientRecord({"x": None, "n": 1.0}, 1)
    backend, all_answers = Logistic(), Logistic(answer_all=True)
    for one in (backend, all_answers):
        one.prepare(Unequal([]))
    response = backend.evaluate(asked)
    chances = response.signals["own_probabilities"]
    assert 0.1 < chances["1"] < 0.9
    assert (response.prediction, response.confidence) == (1, pytest.approx(chances["1"], abs=1e-6))
    # Who answers every case gives the likeliest answer, whatever it costs.
    likeliest = max(chances, key=chances.__getitem__)
    assert all_answers.evaluate(asked).prediction == int(likeliest)
    assert all_answers.identity() == {"backend": "logistic", "answer_all": True}


@pytest.mark.parametrize("backend", [Guideline(), Ideal()])
def test_kidney_rules_refuse_another_suite(backend):
    sentence = f"the suite 'records' has no rule '{backend.name}' .it has no rules."
    with pytest.raises(InvalidValue, match=sentence):
        backend.prepare(RecordListSuite([]))


def test_a_rule_of_another_suite_is_refused_with_the_rules_there_are():
    with pytest.raises(InvalidValue, match=r"'phq8' has no rule .*are: always-0, ideal, lexicon"):
        Guideline().prepare(PHQ8Suite())


@dataclass(frozen=True)
class Threshold:
    """A user's rule with an option, which also wants to know the repeat."""

    least: float = 2.0
    sample_index: int = 0

    def __call__(self, features, context):
        if self.sample_index > 1:
            return Judgement(None, abstain=True)
        return Judgement(int(features["lactate"] > self.least), 0.9, {"context": context})


class WithRules(RecordListSuite):
    rules = {"lactate": Threshold(), "always": lambda features, context: Judgement(1, 1.0)}  # noqa: RUF012
    baselines = ("rule/lactate", "rule/absent")


LACTATE = [PatientRecord({"lactate": 1.5}, 1, record_id="a", context="ward 3")]


def test_a_rule_of_any_suite_runs_under_its_own_name():
    suite = WithRules(LACTATE)
    result = Benchmark(suite, backend_from_name("rule/lactate", least=1.0)).run()
    row = result.evaluation_results[0]
    assert (row.prediction, row.confidence, row.signals) == (1, 0.9, {"context": "ward 3"})
    assert result.backend_name == "lactate"
    assert Benchmark(suite, RuleBackend("always")).run().evaluation_results[0].prediction == 1
    assert RuleBackend("lactate", least=1.0).identity() == {"backend": "lactate", "least": 1.0}


def test_a_rule_learns_which_repeat_it_answers_if_it_asks():
    suite = WithRules(LACTATE)
    execution = Execution(repeats=3)
    for name, expected in (("lactate", [False, False, True]), ("always", [False] * 3)):
        rows = Benchmark(suite, RuleBackend(name), execution=execution).run().evaluation_results
        assert [row.abstained for row in rows] == expected


def test_a_rule_can_be_a_baseline_and_one_that_is_missing_is_left_out():
    result = Benchmark(WithRules(LACTATE), AlwaysAbstain(), execution=Execution(baselines=True))
    assert list(result.run().extras["baselines"]) == ["rule/lactate"]


def test_a_rule_that_returns_no_judgement_and_an_option_without_a_field_are_refused():
    class Wrong(RecordListSuite):
        rules = {"wrong": lambda features, context: 1}  # noqa: RUF012

    backend = RuleBackend("wrong")
    backend.prepare(Wrong([]))
    with pytest.raises(InvalidValue, match="'wrong' returned int; return a Judgement"):
        backend.evaluate(LACTATE[0])
    with pytest.raises(UnknownName, match=r"option of the rule 'wrong': 'risk'\. Known: none"):
        RuleBackend("wrong", risk=1).prepare(Wrong([]))


@pytest.mark.parametrize("backend", [Majority(), Logistic()])
def test_a_suite_without_training_records_is_refused_in_one_sentence(backend):
    with pytest.raises(InvalidValue, match="is fitted on training records"):
        backend.prepare(RecordListSuite([]))


@pytest.mark.parametrize("backend", [Majority(), Guideline(), Logistic()])
def test_an_unprepared_baseline_says_what_to_call(backend):
    with pytest.raises(InvalidValue, match=r"call prepare\(suite\)"):
        backend.evaluate(PatientRecord({"sc": 1.0}, 0))


def test_a_wrong_option_is_refused():
    with pytest.raises(InvalidValue, match="answer_all must be true or false, not 'yes'"):
        Logistic(answer_all="yes")
    with pytest.raises(UnknownName, match="option of the rule 'guideline': 'price'"):
        Guideline(price=0.1).prepare(CKDSuite())


@pytest.fixture(scope="module")
def demo():
    return runpy.run_path(str(Path(__file__).parents[2] / "examples" / "demo.py"))


@pytest.mark.slow
def test_every_task_has_all_baselines_in_the_demo(demo):
    results = {task: demo["run_task"](task) for task in demo["TASKS"]}
    console = Console(width=110, file=io.StringIO())
    with console.capture() as captured:
        console.print(demo["comparison"](results))
    printed = captured.get()
    assert demo["TASKS"] == TASKS
    for name in NAMES:
        assert printed.count(f" {name} ") == len(TASKS)


@pytest.mark.slow
def test_the_demo_runs_as_a_program_and_writes_a_page_per_task(tmp_path):
    program = Path(__file__).parents[2] / "examples" / "demo.py"
    subprocess.run([sys.executable, str(program)], capture_output=True, cwd=tmp_path, check=True)
    assert len(list((tmp_path / "demo").glob("*.html"))) == len(TASKS)


@pytest.mark.slow
def test_the_demo_writes_a_page_that_compares_baselines(demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = demo["run_task"]("detection")
    two = {name: results[name] for name in ("guideline", "logistic")}
    page = demo["write_comparison"]("detection", two).read_text(encoding="utf-8")
    assert all(name in page for name in two)


class Sources(RecordListSuite):
    """Training records of stated sources: real ones have the label 0, synthetic ones 1."""

    training = (False, False, True)
    baselines = ("majority", "always-abstain")

    def training_records(self):
        return [
            PatientRecord({"x": i}, int(s), {"synthetic": s}) for i, s in enumerate(self.training)
        ]


def about(*synthetic):
    answers = {0: "real", 1: "synthetic"}
    records = [PatientRecord({"x": i}, 0, {"synthetic": s}) for i, s in enumerate(synthetic)]
    return Sources(records, Task("source", "Which?", answers))


@pytest.mark.parametrize("synthetic", [False, True])
def test_a_fitted_baseline_learns_from_people_like_those_it_is_scored_on(synthetic):
    backend, suite = Majority(), about(synthetic)
    backend.prepare(suite)
    response = backend.evaluate(suite.load()[0])
    assert (response.prediction, response.confidence) == (int(synthetic), 1.0)


@pytest.mark.parametrize("backend", [Majority(), Logistic()])
def test_a_fitted_baseline_refuses_people_of_another_source(backend, monkeypatch):
    monkeypatch.setattr(Sources, "training", (False, False))
    with pytest.raises(InvalidValue, match="fitted on real records and scored on synthetic ones"):
        backend.prepare(about(True, True))
    with pytest.raises(InvalidValue, match="fitted on real records and scored on synthetic ones"):
        backend.prepare(about(True, False))


def test_baselines_of_a_mixed_run_are_told_apart_by_their_names(monkeypatch):
    suite = about(True, False, True)
    found = baseline_scores(ask_baselines(suite, suite.load()).rows, [Accuracy()])
    counts = {name: scores["accuracy"].n_evaluated for name, scores in found.items()}
    assert counts == {
        "majority (synthetic)": 2,
        "majority (real)": 1,
        "always-abstain (synthetic)": 2,
        "always-abstain (real)": 1,
    }
    assert found["majority (synthetic)"]["accuracy"].value == 0.0
    monkeypatch.setattr(Sources, "training", (False, False))
    names = list(baseline_scores(ask_baselines(suite, suite.load()).rows, [Accuracy()]))
    assert names == ["majority (real)", "always-abstain (synthetic)", "always-abstain (real)"]


def test_a_part_of_a_mixed_suite_can_be_run_by_a_fitted_baseline():
    suite = about(True, False, True)
    records = [record for record in suite.load() if record.metadata["synthetic"]]
    result = Benchmark(suite, Majority(), [Accuracy()]).run(records)
    assert [row.prediction for row in result.evaluation_results] == [1, 1]
