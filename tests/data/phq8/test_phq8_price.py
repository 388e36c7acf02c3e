"""What a decision costs: losses by distance, a known posterior, an ideal reader with skill 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from krisis.backends.catalogue import backend_from_name
from krisis.benchmark import Benchmark
from krisis.data.base import SuiteConfig
from krisis.data.instructions import abstention_text
from krisis.data.phq8.commands import synthetic_interviews
from krisis.data.phq8.corpus import write_directory
from krisis.data.phq8.interviews import Cohort, Split, draw_cohort, scores_of, write_interview
from krisis.data.phq8.items import ITEM_KEYS, ITEMS
from krisis.data.phq8.posterior import score_probabilities
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.task import PRICE, TASK
from krisis.metrics import DecisionCost, DecisionSkill, EvaluationResult
from krisis.metrics.base import Rows
from krisis.metrics.labels import Answers

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
def test_the_posterior_is_the_share_among_people_with_the_same_other_items(cohort: Cohort) -> None:
    drawn = simulated(cohort)
    # Sleep shown as 1 and fatigue as 1; mood contradicted between 0 and 2; the rest never raised.
    evidence = dict.fromkeys(ITEM_KEYS, NOTHING)
    evidence |= {"Sleep": SHOWN[1], "Tired": SHOWN[1], "Depressed": (0.08, 0.0, 0.24, 0.0)}
    found = score_probabilities(evidence, cohort)
    place = {key: drawn[:, number] for number, key in enumerate(ITEM_KEYS)}
    same = (place["Sleep"] == 1) & (place["Tired"] == 1)
    weight = np.array([0.08, 0.0, 0.24, 0.0])[place["Depressed"]] * same
    for key in ITEM_KEYS:
        share = np.array([weight[place[key] == score].sum() for score in range(4)]) / weight.sum()
        assert found[key] == pytest.approx(share, abs=0.02), key
        assert sum(found[key]) == pytest.approx(1.0, abs=1e-5)
    assert found["Sleep"] == SHOWN[1]


def test_a_sum_over_twice_as_many_severities_gives_the_same_six_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    person = draw_cohort(1, seed=8, cohort=Cohort.CLINIC)[0]
    said = write_interview(person, seed=8, withheld_rate=0.5).evidence
    found = score_probabilities(said, Cohort.CLINIC)
    monkeypatch.setattr("krisis.data.phq8.posterior._NODES", np.linspace(-7.0, 7.0, 701))
    from krisis.data.phq8.posterior import _scores_at_severities

    _scores_at_severities.cache_clear()
    again = score_probabilities(said, Cohort.CLINIC)
    _scores_at_severities.cache_clear()
    for key in ITEM_KEYS:
        assert again[key] == pytest.approx(found[key], abs=2e-6)


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
        EvaluationResult(1, 3),  # two points too low: 2
        EvaluationResult(3, 1),  # two points too high: 1
        EvaluationResult(None, 1, True),  # deferred: .2
        # expected: .7 · 0 + .2 · 1 + .1 · 2 = .4, however the label was drawn
        EvaluationResult(0, 3, metadata={"answer_probabilities": known}),
    ]
    score = DecisionCost()(Rows(rows, answers))
    assert score.value == pytest.approx((0 + 2 + 1 + 0.2 + 0.4) / 5)
    # To an ideal reader the fifth costs the price, which is less than .4; the others nothing.
    facts = DecisionSkill()(Rows(rows, answers)).details
    assert facts["ideal_cost"] == pytest.approx(0.2 / 5)
    assert facts["constant_cost"] == pytest.approx(0.2)
    assert facts["constant_policy"] == "defer"


@pytest.mark.parametrize("cohort", list(Cohort))
def test_the_ideal_reader_has_skill_1_and_the_best_constant_0(cohort: Cohort) -> None:
    suite = PHQ8Suite(SuiteConfig(n_synthetic=60), cohort=cohort)
    skills = {
        name: Benchmark(suite, backend_from_name(name)).run().metric_scores["decision_skill"].value
        for name in ("ideal", "rule/evidence-only", "always-abstain", "lexicon")
    }
    assert skills["ideal"] == pytest.approx(1.0, abs=1e-9)
    assert skills["always-abstain"] == pytest.approx(0.0, abs=1e-9)
    assert 0.7 < skills["rule/evidence-only"] < 1.0
    assert skills["lexicon"] < skills["rule/evidence-only"]


def test_the_headline_is_decision_skill_for_own_interviews_too_and_their_ideal_cost_is_0(
    tmp_path: Path,
) -> None:
    write_directory(tmp_path / "corpus", synthetic_interviews(30, seed=4, withheld_rate=0.3))
    suite = PHQ8Suite(data=tmp_path / "corpus")
    assert suite.task.metrics[:2] == TASK.metrics[:2] == ("decision_skill", "decision_cost")
    scores = Benchmark(suite, backend_from_name("lexicon")).run().metric_scores
    assert next(iter(scores.values())).key == "decision_skill"
    assert scores["decision_skill"].details["ideal_cost"] == 0.0
    assert scores["decision_skill"].details["n_expected_loss"] == 0


def test_the_prompt_states_the_costs_that_are_scored() -> None:
    said = abstention_text(TASK)
    assert "a point too low costs as much as five abstentions" in said
    assert TASK.losses[1][0] == pytest.approx(5 * PRICE)
    assert "a point too high half of that" in said
    assert TASK.losses[0][1] == pytest.approx(2.5 * PRICE)
    assert TASK.losses[3][0] == pytest.approx(3 * TASK.losses[1][0])
