"""What a decision costs: losses by distance, a known posterior, an ideal reader with skill 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.catalogue import backend_from_name
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, SuiteConfig
from krisis.data.instructions import abstention_text
from krisis.data.phq8.commands import synthetic_interviews
from krisis.data.phq8.corpus import write_directory
from krisis.data.phq8.interviews import (
    _CHANCES_OF_REASONS,
    WITHHELD_REASONS,
    Cohort,
    Split,
    draw_cohort,
    scores_of,
    write_interview,
)
from krisis.data.phq8.items import ITEM_KEYS, ITEMS
from krisis.data.phq8.posterior import score_probabilities
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.task import TASK
from krisis.metrics import DecisionCost, DecisionSkill, EvaluationResult
from krisis.metrics.base import Rows
from krisis.metrics.labels import Answers

ROOT = Path(__file__).parents[3]
SHOWN = {score: tuple(float(other == score) for other in range(4)) for score in range(4)}
NOTHING = (1.0, 1.0, 1.0, 1.0)


def simulated(cohort: Cohort, n: int = 400_000) -> np.ndarray:
    """Draw scores by the model as its docs state it, without the code of the posterior."""
    generator = np.random.default_rng(3)
    mean = 0.0 if cohort is Cohort.COMMUNITY else 0.85
    severity = mean + generator.standard_normal(n)
    loadings = np.array([item.loading for item in ITEMS])
    noise = generator.standard_normal((n, len(ITEMS)))
    return scores_of(loadings * severity[:, None] + np.sqrt(1 - loadings**2) * noise)


@pytest.mark.parametrize("cohort", list(Cohort))
def test_the_posterior_is_the_share_among_people_of_whom_the_same_is_said(cohort: Cohort) -> None:
    drawn = simulated(cohort)
    # Sleep shown as 1; mood contradicted between 0 and 2; the rest never raised.
    weights = dict.fromkeys(ITEM_KEYS, NOTHING)
    weights |= {"Sleep": SHOWN[1], "Depressed": (0.08, 0.0, 0.24, 0.0)}
    found = score_probabilities(weights, cohort)
    for number, key in enumerate(ITEM_KEYS):
        weight = np.bincount(drawn[:, number], minlength=4) * weights[key]
        assert found[key] == pytest.approx(weight / weight.sum(), abs=0.005), key
    assert found["Sleep"] == SHOWN[1]


@pytest.mark.parametrize("cohort", list(Cohort))
def test_what_is_said_of_another_item_changes_nothing(cohort: Cohort) -> None:
    silent = score_probabilities(dict.fromkeys(ITEM_KEYS, NOTHING), cohort)
    said = dict.fromkeys(ITEM_KEYS, SHOWN[3]) | {"Moving": NOTHING}
    assert score_probabilities(said, cohort)["Moving"] == silent["Moving"]


@pytest.mark.parametrize("cohort", list(Cohort))
@pytest.mark.parametrize("reason", WITHHELD_REASONS)
def test_an_item_that_cannot_be_scored_is_cheaper_to_leave_than_to_guess(
    cohort: Cohort, reason: str
) -> None:
    found = score_probabilities(dict.fromkeys(ITEM_KEYS, _CHANCES_OF_REASONS[reason]), cohort)
    by_distance = np.abs(np.subtract.outer(range(4), range(4))) / 3
    for key in ITEM_KEYS:
        # One point is a third, an abstention .05 (.056 for the psychomotor item of the community).
        assert (np.array(found[key]) @ by_distance).min() >= 0.05, key
        assert TASK.costs.is_due(TASK.costs.best(dict(enumerate(found[key])))[1])


@pytest.mark.parametrize("cohort", list(Cohort))
def test_the_posterior_of_withheld_items_is_calibrated(cohort: Cohort) -> None:
    chances, hits = [], []
    for person in draw_cohort(700, seed=21, cohort=cohort):
        interview = write_interview(person, seed=21, withheld_rate=0.3, split=Split.TEST)
        known = score_probabilities(interview.evidence, cohort)
        for key in interview.withheld:
            chances.append(known[key])
            hits.append(person.scores[ITEM_KEYS.index(key)])
    found, truth = np.array(chances), np.array(hits)
    for score in range(4):
        bins = np.minimum((found[:, score] * 5).astype(int), 4)
        for place in range(5):
            here = found[bins == place, score]
            variance = float((here * (1 - here)).sum())
            if variance > 3.0:
                gap = float(((truth[bins == place] == score) - here).sum())
                assert abs(gap) / np.sqrt(variance) < 3.5, (score, place)


def test_the_cost_of_five_decisions_by_hand() -> None:
    answers = Answers.of(TASK.facts())
    known = {"0": 0.7, "1": 0.2, "2": 0.1, "3": 0.0}
    rows = [
        EvaluationResult(2, 2),  # right: 0
        EvaluationResult(1, 3),  # two points off: 2/3
        EvaluationResult(3, 0),  # three points off: 1
        EvaluationResult(None, 1, True),  # deferred: .05
        # expected: (.7 · 0 + .2 · 1 + .1 · 2) / 3 = .4 / 3, however the label was drawn
        EvaluationResult(0, 3, metadata={"answer_probabilities": known}),
    ]
    score = DecisionCost()(Rows(rows, answers))
    assert score.value == pytest.approx((0 + 2 / 3 + 1 + 0.05 + 0.4 / 3) / 5)
    assert score.details["constant_cost"] == pytest.approx(0.05)
    assert score.details["constant_policy"] == "defer"
    # To an ideal reader the fifth costs the price, which is less than .4 / 3.
    assert DecisionSkill()(Rows(rows[4:], answers)).details["ideal_cost"] == pytest.approx(0.05)


@pytest.mark.parametrize("cohort", list(Cohort))
def test_the_ideal_reader_has_skill_1_and_the_best_constant_0(cohort: Cohort) -> None:
    suite = PHQ8Suite(SuiteConfig(n_synthetic=60), cohort=cohort)
    skills = {
        name: Benchmark(suite, backend_from_name(name)).run().metric_scores["decision_skill"].value
        for name in ("ideal", "always-abstain", "lexicon")
    }
    assert skills["ideal"] == pytest.approx(1.0, abs=1e-9)
    assert skills["always-abstain"] == pytest.approx(0.0, abs=1e-9)
    assert skills["lexicon"] < 0.5


class Obedient(BaseBackend):
    """Does what the prompt says: scores what is shown of an item, and abstains where nothing is."""

    name = "obedient"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        due = record.metadata["should_abstain"]
        return BackendResponse(None if due else record.label, abstained=due)


@pytest.mark.parametrize("cohort", list(Cohort))
def test_who_does_what_the_prompt_says_is_the_ideal_reader(cohort: Cohort) -> None:
    suite = PHQ8Suite(SuiteConfig(n_synthetic=200), cohort=cohort)
    skill = Benchmark(suite, Obedient()).run().metric_scores["decision_skill"].value
    assert skill == pytest.approx(1.0, abs=1e-9)


def test_the_prompt_says_that_an_item_nobody_talks_about_has_no_score() -> None:
    for asked in (TASK.question, TASK.paraphrase):
        assert "nobody talks about" in asked
        assert "has no score" in asked


def test_the_page_quotes_the_prompt() -> None:
    page = " ".join((ROOT / "docs/reference/suites/phq8.md").read_text(encoding="utf-8").split())
    for said in (TASK.question, abstention_text(TASK)):
        assert said in page


def test_of_own_interviews_nobody_knows_an_ideal_reader_and_the_saving_leads(
    tmp_path: Path,
) -> None:
    write_directory(tmp_path / "corpus", synthetic_interviews(30, seed=4, withheld_rate=0.3))
    suite = PHQ8Suite(data=tmp_path / "corpus")
    assert suite.task.metrics[:2] == TASK.metrics[:2] == ("decision_skill", "cost_saved")
    scores = Benchmark(suite, backend_from_name("lexicon")).run().metric_scores
    assert "decision_skill" not in scores
    saved = next(iter(scores.values()))
    assert saved.key == "cost_saved"
    assert saved.value == pytest.approx(
        100 * (saved.details["constant_cost"] - scores["decision_cost"].value)
    )
    assert saved.details["n_expected_loss"] == 0


def test_the_prompt_states_the_costs_that_are_scored() -> None:
    assert abstention_text(TASK) == (
        "The cost of a wrong answer grows evenly with the steps between it and the right one. An "
        "abstention costs 15 % of one step."
    )
    one = TASK.costs.of(0, 1)
    assert one == pytest.approx(1 / 3)
    assert TASK.costs.price == pytest.approx(0.15 * one)
    for truth in range(4):
        for answer in range(4):
            assert TASK.costs.of(truth, answer) == pytest.approx(abs(truth - answer) * one)
