"""One threshold everywhere: the certified one, or none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.fixture_results import run as invented
from tests.fixture_results import sure
from tests.invented_runs import ANSWERS, invented_rows, result_of, write_run

import krisis
from krisis.costs import Costs
from krisis.decisions.answers import disease_counts, with_costs
from krisis.decisions.certify import CertifyOptions, certify_run
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.sample import Sample
from krisis.decisions.threshold_in_force import (
    RiskBound,
    threshold_of_run,
    threshold_of_sample,
)
from krisis.errors import InvalidValue
from krisis.metrics.base import Rows
from krisis.metrics.items import RunItems
from krisis.pages.verdict import usable_line, verdict_of
from krisis.results.run_items import items_of_result, source_of
from krisis.verbs.audit.groups import GroupOptions, audit_groups
from krisis.verbs.decide.policies import DecideOptions, Decision, decide_run

BOUND = RiskBound(risk=0.3, delta=0.2)
COSTS = Costs({0: {1: 1.0}, 1: {0: 5.0}}, price=0.5)


@pytest.fixture(scope="module")
def result() -> krisis.BenchmarkResult:
    return result_of(
        Rows((r for r in invented_rows(900, seed=4) if r.outcome != "not_evaluated"), ANSWERS), "m"
    )


@pytest.fixture(scope="module")
def run(result: krisis.BenchmarkResult) -> RunItems:
    return items_of_result(result, source_of(result))


def test_every_verb_uses_the_threshold_of_certify(
    run: RunItems, result: krisis.BenchmarkResult
) -> None:
    certificate = certify_run(run, CertifyOptions(risk=0.3, delta=0.2))
    (part,) = certificate.parts
    assert part.threshold is not None
    found = threshold_of_run(run, BOUND)
    assert (found.threshold, found.certified, int(found.answered.sum())) == (
        part.threshold,
        True,
        part.n_accepted,
    )
    assert found.n_left == part.n_rows - part.n_accepted
    audit = audit_groups(run, GroupOptions(bound=BOUND, n_draws=99))
    assert audit.threshold == part.threshold
    assert audit.overall["coverage"].value == part.coverage
    assert audit.overall["risk"].value == part.risk
    decision = decide_run(run, DecideOptions(bound=BOUND))
    (certified,) = [one for one in decision.policies if one.kind == "certified"]
    assert (certified.threshold, certified.n_answered) == (part.threshold, part.n_accepted)
    kept = found.answered
    cost = np.where(kept, ~run.table.correct, 0.2).mean()
    assert (certified.cost, part.cost) == (pytest.approx(cost), pytest.approx(cost))
    assert {one.policy for one in decision.savings} == {"certified threshold"}
    line = verdict_of(result, BOUND).line("left_for_people")
    assert line.figures[0].words.startswith(f"{found.n_left:,} of {part.n_rows:,}")
    given = threshold_of_run(run, certificate=certificate)
    assert (given.threshold, given.answered.tolist()) == (part.threshold, kept.tolist())
    assert given.bound == BOUND


def test_the_cheapest_of_the_certified_thresholds_is_recommended(run: RunItems) -> None:
    """A dear deferral makes the laxest the cheapest, a cheap one a stricter one."""
    found = {p: threshold_of_run(with_costs(run, price=p), BOUND) for p in (0.05, 0.99)}
    laxest = {one.laxest for one in found.values()}
    assert len(laxest) == 1
    assert laxest == {found[0.99].threshold}
    assert found[0.05].threshold > found[0.99].threshold
    for price, one in found.items():
        assert one.search is not None
        wrong = ~run.table.correct
        passed = [test.candidate for test in one.search.tests if test.passed]
        costs = {
            t: np.where(run.predicted & (run.table.confidence >= t), wrong, price).mean()
            for t in one.search.tested.candidates.threshold[passed].tolist()
        }
        assert costs[one.threshold] == pytest.approx(min(costs.values()))


def test_without_a_certified_threshold_the_lowest_risk_is_all_that_is_said(run: RunItems) -> None:
    strict = RiskBound(risk=0.01)
    found = threshold_of_run(run, strict)
    assert (found.threshold, found.certified) == (None, False)
    assert found.answered.tolist() == run.predicted.tolist()
    ranked = np.sort(run.table.confidence[run.table.usable])[::-1]
    top = run.table.usable & (run.table.confidence >= ranked[found.n_lowest - 1])
    assert int(top.sum()) == found.n_lowest
    assert found.lowest_risk == pytest.approx(1 - run.table.correct[top].mean())
    decision = decide_run(with_costs(run, COSTS), DecideOptions(bound=strict))
    assert "certified" not in {one.kind for one in decision.policies}
    assert {one.policy for one in decision.savings} == {"as run"}
    facts = decision.to_json()["threshold"]
    assert (facts["threshold"], facts["n_left_for_people"]) == (None, int((~run.predicted).sum()))
    audit = audit_groups(run, GroupOptions(bound=strict, n_draws=99))
    assert audit.threshold is None
    assert audit.overall["coverage"].value == pytest.approx(run.predicted.mean())
    assert audit.to_json()["in_force"]["lowest_risk"] == found.lowest_risk


def test_where_nothing_could_be_tested_no_risk_is_called_tested(run: RunItems) -> None:
    found = threshold_of_run(run, RiskBound(risk=0.001))
    assert (found.threshold, found.n_lowest) == (None, 0)
    assert math.isnan(found.lowest_risk)
    assert "are too few: without an error it takes " in found.reason


def test_a_threshold_that_is_asked_for_is_audited(run: RunItems) -> None:
    audit = audit_groups(run, GroupOptions(threshold=0.9, bound=BOUND, n_draws=99))
    assert (audit.threshold, audit.in_force) == (0.9, None)


def test_a_certificate_by_group_answers_by_group(run: RunItems) -> None:
    certificate = certify_run(run, CertifyOptions(risk=0.3, delta=0.2, by=["sex"]))
    found = threshold_of_run(run, certificate=certificate)
    assert found.threshold is None
    assert found.certified
    sex = np.array([str(row.metadata.get("sex")) for row in run.table.rows])
    for part in certificate.parts:
        rows = sex == part.group.removeprefix("sex_")
        if part.group.startswith("unknown"):
            continue
        limit = np.inf if part.threshold is None else part.threshold
        expected = rows & run.predicted & (np.nan_to_num(run.table.confidence, nan=-1) >= limit)
        assert (found.answered & rows).tolist() == expected.tolist()


def test_a_certificate_of_another_model_is_refused(run: RunItems) -> None:
    certificate = certify_run(run, CertifyOptions(risk=0.3))
    other = RunItems(run.table, replace(run.source, model="another"))
    with pytest.raises(InvalidValue, match="of the model"):
        threshold_of_run(other, certificate=certificate)


def test_a_run_that_cannot_be_judged_has_a_reason(run: RunItems) -> None:
    rows = Rows((replace(r, confidence=None) for r in invented_rows(60)), ANSWERS)
    unsure = result_of(Rows((r for r in rows if r.outcome != "not_evaluated"), ANSWERS), "m")
    found = threshold_of_run(items_of_result(unsure, source_of(unsure)))
    assert not found.certified
    assert found.reason
    lossy = result_of(invented_rows(900, seed=4), "m")
    assert (
        "cases were not evaluated"
        in threshold_of_run(items_of_result(lossy, source_of(lossy))).reason
    )


def test_a_certificate_can_be_given_by_its_file(
    result: krisis.BenchmarkResult, tmp_path: Path
) -> None:
    path = write_run(tmp_path / "run", result)
    certificate = krisis.certify(path, risk=0.3, delta=0.2)
    file = tmp_path / "certificate.json"
    file.write_text(json.dumps(certificate.to_json()), encoding="utf-8")
    decided = krisis.decide(path, costs=COSTS, certificate=file)
    assert isinstance(decided, Decision)
    assert decided.in_force.threshold == certificate.threshold
    assert krisis.audit(path, certificate=file).groups.threshold == certificate.threshold


def test_a_run_without_confidence_says_so_and_names_no_patient() -> None:
    result = krisis.score({"y": [0, 1] * 20, "p": [0, 1] * 20}, truth="y", prediction="p")
    found = threshold_of_run(items_of_result(result, source_of(result)))
    assert found.threshold is None
    assert found.reason == "it stated no confidence: ask for one"


def test_the_lowest_risk_is_that_of_the_best_tested_threshold() -> None:
    """12 of 60 sure answers are wrong and 30 of 60 others: 20 %, not the 35 % of all."""
    score, loss = np.repeat([0.9, 0.5], 60), np.zeros(120)
    loss[:12] = loss[60:90] = 1
    found = threshold_of_sample(
        Sample(score, loss, np.arange(120), 120), RiskBound(risk=0.1), own=np.ones(120, np.bool_)
    )
    assert found.search is not None
    assert len(found.search.tests) == 2
    assert (found.lowest_risk, found.n_lowest) == (pytest.approx(0.2), 60)


@pytest.mark.parametrize("risk", [0.02, 0.05, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("made", [sure, lambda: invented("flat", n=400, skill=0.4)])
def test_the_verdict_and_the_certificate_give_one_answer(
    made: Callable[[], krisis.BenchmarkResult], risk: float
) -> None:
    judged = made()
    certified = krisis.certify(judged, risk=risk, max_not_evaluated=0.5).document().verdict
    items = items_of_result(judged, source_of(judged))
    score = ScoreOptions(max_not_evaluated=0.5)
    in_force = threshold_of_run(items, RiskBound(risk=risk), score=score)
    assert certified is not None
    assert certified.lines[0].answer == usable_line(items, in_force).answer


def test_a_score_whose_signals_are_missing_is_named(run: RunItems) -> None:
    missing = "the confidence {!r} needs signals that this model does not give: choose another"
    found = threshold_of_run(run, score=ScoreOptions(confidence="verbalized"))
    assert found.reason == missing.format("verbalized")
    other = RunItems(run.table, run.source, default_confidence="verbalized")
    assert threshold_of_run(other).reason == missing.format("verbalized")


def test_a_score_that_does_not_exist_is_the_reason(run: RunItems) -> None:
    found = threshold_of_run(run, score=ScoreOptions(confidence="verbal"))
    assert found.reason.startswith("unknown confidence variant 'verbal'")


def test_a_run_that_answers_nothing_says_so() -> None:
    rows = Rows((replace(r, prediction=None, abstained=True) for r in invented_rows(60)), ANSWERS)
    silent = result_of(Rows((r for r in rows if r.outcome != "not_evaluated"), ANSWERS), "m")
    found = threshold_of_run(items_of_result(silent, source_of(silent)))
    assert found.reason == "it answered no case: only answers would tell"


@pytest.mark.parametrize(
    ("n_scored", "said"),
    [
        (0, "no answer has a confidence: ask for one"),
        (1, "1 answer with a confidence is too few: without an error it takes 24"),
        (2, "2 answers with a confidence are too few: without an error it takes 24"),
    ],
)
def test_few_answers_are_counted_in_words(n_scored: int, said: str) -> None:
    score = np.where(np.arange(9) < n_scored, 0.9, np.nan)
    rows = Sample(score, score * 0, np.arange(9), 9)
    found = threshold_of_sample(rows, RiskBound(risk=0.1), own=np.ones(9, np.bool_))
    assert found.reason == said


def test_the_diseased_are_found_told_otherwise_or_left_for_people(run: RunItems) -> None:
    (part,) = certify_run(run, CertifyOptions(risk=0.3, delta=0.2)).parts
    assert part.disease is not None
    diseased = run.table.truth == run.table.labels.index(1)
    answered = run.predicted & (np.nan_to_num(run.table.confidence, nan=-1) >= part.threshold)
    by_hand = [diseased & answered & run.table.correct, diseased & answered & ~run.table.correct]
    assert [part.disease.found, part.disease.told_otherwise] == [int(one.sum()) for one in by_hand]
    left = part.disease.n - part.disease.found - part.disease.told_otherwise
    assert left == part.disease.left_for_people == int((diseased & ~answered).sum())
    found = decide_run(run, DecideOptions(bound=BOUND)).disease
    assert found is not None
    assert (found.n, found.found) == (part.disease.n, part.disease.found)
    words = replace(run.table.answers, positive=None, allowed=("a", "b"))
    assert disease_counts(replace(run, table=run.table.with_answers(words)), answered) is None
