"""The verdict, by hand: with and without labels, prices, groups, missing cases and repeats."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

from krisis.decisions.threshold_in_force import RiskBound
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.disease import default_classification_metrics
from krisis.metrics.scoring import score_all
from krisis.pages.document import Verdict
from krisis.pages.groups import ANSWERED, RIGHT, group_figures
from krisis.pages.numbers import Estimate
from krisis.pages.verdict import verdict_of
from krisis.results.base import scores_by_source
from krisis.results.result import BenchmarkResult
from krisis.task_facts import TaskFacts

ANSWERS = ((0, "no"), (1, "yes"))


def row(number: int, said: str, *, due: bool | None = None, **more: Any) -> EvaluationResult:
    """Return a case of truth 1 (odd numbers) or 0: right, wrong, deferred, broken or lost."""
    truth = number % 2
    metadata: dict[str, Any] = {} if due is None else {"should_abstain": due}
    metadata |= more.pop("metadata", {})
    given: dict[str, Any] = {"record_id": f"r{number}", "metadata": metadata} | more
    if said == "lost":
        return EvaluationResult(None, truth, error="down", failure_class="timeout", **given)
    if said == "broken":
        return EvaluationResult("?", truth, error="no", failure_class="not_allowed", **given)
    if said == "deferred":
        return EvaluationResult(None, truth, True, **given)
    return EvaluationResult(truth if said == "right" else 1 - truth, truth, **given)


def rows_of(*parts: tuple[int, str], start: int = 0, **more: Any) -> list[EvaluationResult]:
    """Return so many rows of each kind, numbered on."""
    said = [kind for n, kind in parts for _ in range(n)]
    return [row(start + place, kind, **more) for place, kind in enumerate(said)]


def judged(
    rows: Iterable[EvaluationResult],
    guideline: Iterable[EvaluationResult] = (),
    bound: RiskBound | None = None,
    **facts: Any,
) -> Verdict:
    task = TaskFacts("t", ANSWERS, **facts)
    result = BenchmarkResult(list(rows), {}, {}, "m", {"task_facts": task})
    if guideline:
        result.baseline_rows = {"guideline": Rows(guideline, result.rows.answers)}
    return verdict_of(result, bound)


def answers(verdict: Verdict) -> dict[str, str | None]:
    return {line.key: line.answer for line in verdict.lines}


DUE = {"start": 0, "due": True}
SAFE = {"start": 100, "due": False}


def test_labels_are_judged_by_both_shares_with_their_denominators() -> None:
    rows = [
        *rows_of((30, "deferred"), (10, "wrong"), **DUE),
        *rows_of((54, "right"), (6, "deferred"), **SAFE),
    ]
    line = judged(rows).line("deferral")
    assert line.answer == "yes"
    assert [one.estimate.value for one in line.figures] == [30 / 40, 54 / 60]
    assert str(line.figures[0]).endswith("of the 40 due")
    assert str(line.figures[1]).endswith("of the 60 safe")


def test_a_reply_that_is_no_answer_is_no_deferral() -> None:
    rows = [
        *rows_of((5, "deferred"), (35, "broken"), **DUE),
        *rows_of((60, "right"), **SAFE),
    ]
    assert judged(rows).line("deferral").figures[0].estimate.value == 5 / 40


@pytest.mark.parametrize(
    ("said", "reason"), [("right", "never deferred"), ("deferred", "answered")]
)
def test_a_constant_policy_is_no(said: str, reason: str) -> None:
    line = judged([*rows_of((40, said), **DUE), *rows_of((60, said), **SAFE)]).line("deferral")
    assert line.answer == "no"
    assert reason in line.reason


def test_a_handful_of_cases_or_many_missing_ones_do_not_show_that_it_never_defers() -> None:
    few = [*rows_of((3, "wrong"), **DUE), *rows_of((60, "right"), **SAFE)]
    line = judged(few).line("deferral")
    assert (line.answer, line.reason) == ("cannot tell", "it never deferred")
    many = [*rows_of((40, "wrong"), **DUE), *rows_of((60, "right"), **SAFE)]
    lost = judged([*many, *rows_of((50, "lost"), start=200, due=True)])
    assert lost.line("deferral").answer == "cannot tell"
    assert "50 more not evaluated" in lost.line("left_for_people").sentence()


def test_deferring_the_wrong_cases_is_no_and_at_random_cannot_be_told() -> None:
    upside_down = [
        *rows_of((30, "right"), (10, "deferred"), **DUE),
        *rows_of((15, "right"), (45, "deferred"), **SAFE),
    ]
    assert judged(upside_down).line("deferral").answer == "no"
    at_random = [
        *rows_of((20, "right"), (20, "deferred"), **DUE),
        *rows_of((30, "right"), (30, "deferred"), **SAFE),
    ]
    assert judged(at_random).line("deferral").answer == "cannot tell"


def test_what_is_above_the_constant_policy_and_not_the_guideline_is_partly() -> None:
    model = [
        *rows_of((30, "deferred"), (10, "wrong"), **DUE),
        *rows_of((54, "right"), (6, "deferred"), **SAFE),
    ]
    perfect = [*rows_of((40, "deferred"), **DUE), *rows_of((60, "right"), **SAFE)]
    poor = [
        *rows_of((4, "deferred"), (36, "wrong"), **DUE),
        *rows_of((30, "right"), (30, "deferred"), **SAFE),
    ]
    line = judged(model, perfect).line("deferral")
    assert line.answer == "partly"
    assert [one.estimate.value for one in line.compared] == [1.0, 1.0]
    assert judged(model, poor).line("deferral").answer == "yes"


def test_right_answers_are_compared_where_the_guideline_answered_too() -> None:
    # The first 50 of 100 answers were answered by the guideline too: there 45 right against 25.
    model = rows_of((45, "right"), (5, "wrong"), (45, "right"), (5, "wrong"))
    half = rows_of((25, "right"), (25, "wrong"), (50, "deferred"))
    line = judged(model, half).line("correctness")
    assert line.answer == "yes"
    assert line.figures[0].estimate.value == 0.9
    assert [one.estimate.value for one in line.compared] == [0.5, 0.9, 0.5]
    assert [one.brief for one in line.compared] == [True, False, False]
    assert "on 50 of them" in str(line.compared[0])
    equal = judged(model, model).line("correctness")
    assert equal.answer == "partly"


def test_without_a_guideline_right_answers_are_compared_with_the_commonest_truth() -> None:
    line = judged(rows_of((90, "right"), (10, "wrong"))).line("correctness")
    assert line.answer == "yes"
    assert str(line.compared[0]) == "always answering no: 50 %"
    assert judged(rows_of((10, "right"), (90, "wrong"))).line("correctness").answer == "no"
    open_ = judged(rows_of((52, "right"), (48, "wrong"))).line("correctness")
    assert open_.answer == "cannot tell"
    # What decided is shown: the constant answer, and the interval of the difference to it.
    assert open_.brief().endswith(str(open_.compared[-1]) + ")")
    assert open_.compared[-1].estimate.low < 0 < open_.compared[-1].estimate.high
    silent = judged(rows_of((5, "deferred"))).line("correctness")
    assert (silent.answer, silent.reason) == ("cannot tell", "it answered no case")


def test_without_labels_deferral_is_judged_by_what_it_saved_at_the_price() -> None:
    # 70 right (0), 30 deferred at 0.2: 6 of 100 cases. Always deferring costs 20, always "no" 50
    # wrong answers of 100. So what 14 wrong answers of 100 cases cost is saved.
    line = judged(rows_of((70, "right"), (30, "deferred")), price=0.2).line("deferral")
    assert line.answer == "yes"
    assert line.figures[0].estimate.value == pytest.approx(14)
    assert "always deferring" in str(line.compared[0])
    # 65 right, 15 wrong (15), 20 deferred (4): 19, no better than always deferring.
    equal = rows_of((65, "right"), (15, "wrong"), (20, "deferred"))
    close = judged(equal, price=0.2).line("deferral")
    assert close.answer == "cannot tell"
    assert close.figures[0].estimate.value == pytest.approx(1)
    worse = judged(rows_of((40, "wrong"), (60, "deferred")), price=0.2).line("deferral")
    assert worse.answer == "no"
    assert worse.figures[0].estimate.value == pytest.approx(20 - 40 - 12)
    # Of a model that never defers it is not known whether it would: only that it cost too much.
    never = judged(rows_of((100, "right")), price=0.2).line("deferral")
    assert (never.answer, never.reason) == ("cannot tell", "it never deferred")
    costly = judged(rows_of((100, "wrong")), price=0.2).line("deferral")
    assert (costly.answer, costly.reason) == ("no", "it never deferred")


def test_without_labels_the_guideline_is_priced_too() -> None:
    model = rows_of((70, "right"), (30, "deferred"))
    perfect = rows_of((100, "right"))
    line = judged(model, perfect, price=0.2).line("deferral")
    assert line.answer == "partly"
    assert line.compared[1].estimate.value == pytest.approx(20)
    poor = rows_of((50, "wrong"), (50, "deferred"))
    assert judged(model, poor, price=0.2).line("deferral").answer == "yes"


def test_without_a_guideline_right_answers_are_compared_with_the_best_baseline() -> None:
    rows = rows_of((80, "right"), (20, "wrong"))
    result = BenchmarkResult(rows, {}, {}, "m", {"task_facts": TaskFacts("t", ANSWERS)})
    result.baseline_rows = {
        "ideal": Rows(rows_of((100, "right")), result.rows.answers),
        "logistic": Rows(rows_of((70, "right"), (30, "wrong")), result.rows.answers),
        "rules": Rows(rows_of((90, "right"), (10, "wrong")), result.rows.answers),
    }
    line = verdict_of(result).line("correctness")
    assert str(line.compared[0]) == "rules 90 % on 100 of them"
    assert line.answer == "partly"


def test_groups_of_like_names_are_not_mixed_up() -> None:
    rows = [
        *rows_of((60, "right"), metadata={"g": "a_b"}),
        *rows_of((30, "right"), (30, "wrong"), start=100, metadata={"g": "a b"}),
    ]
    line = judged(rows, groups={"g": "g"}).line("groups")
    assert [one.words for one in line.figures] == ["g: a b {} wrong"]


def test_labels_of_one_kind_say_so() -> None:
    line = judged(rows_of((70, "right"), (30, "deferred"), due=True)).line("deferral")
    assert line.reason.startswith("all labelled cases should be deferred")


def test_without_labels_and_without_a_price_it_cannot_be_told() -> None:
    line = judged(rows_of((70, "right"), (30, "deferred"))).line("deferral")
    assert line.answer == "cannot tell"
    assert "no price of deferring" in line.reason


@pytest.mark.parametrize(
    ("stated", "n_right", "answer"),
    [(0.9, 360, "yes"), (0.99, 320, "no"), (0.6, 360, "no"), (0.95, 361, "cannot tell")],
)
def test_confidence_is_trusted_within_five_points(stated: float, n_right: int, answer: str) -> None:
    rows = rows_of((n_right, "right"), (400 - n_right, "wrong"), confidence=stated)
    line = judged(rows).line("confidence")
    assert line.answer == answer
    assert line.figures[0].estimate.value == pytest.approx(abs(stated - n_right / 400))
    said = str(line.figures[0])
    assert ("too high" in said, "too low" in said) == (stated > 0.9, stated == 0.6)


def test_a_confidence_that_nobody_stated_cannot_be_judged() -> None:
    line = judged(rows_of((10, "right"))).line("confidence")
    assert (line.answer, line.reason) == ("cannot tell", "it stated no confidence")


def by_confidence(*parts: tuple[int, str, float]) -> list[EvaluationResult]:
    rows: list[EvaluationResult] = []
    for n, said, stated in parts:
        rows += rows_of((n, said), start=len(rows), confidence=stated)
    return rows


def test_a_certified_threshold_makes_it_usable_and_what_is_below_is_left_for_people() -> None:
    rows = by_confidence((300, "right", 0.9), (60, "wrong", 0.5), (40, "right", 0.5))
    verdict = judged(rows)
    line = verdict.line("usable")
    assert line.answer == "yes"
    threshold, coverage = (one.estimate.value for one in line.figures)
    assert (threshold, coverage) == (0.9, 300 / 400)
    left = verdict.line("left_for_people")
    assert left.answer is None
    assert left.figures[0].estimate.value == 100 / 400
    assert "100 of 400" in str(left.figures[0])


def test_a_hopeless_model_is_not_usable_and_few_cases_cannot_tell() -> None:
    hopeless = by_confidence((200, "right", 0.9), (200, "wrong", 0.9))
    line = judged(hopeless).line("usable")
    assert line.answer == "no"
    assert line.figures[0].estimate.value == 0.5
    few = judged(by_confidence((20, "right", 0.9))).line("usable")
    assert few.answer == "cannot tell"
    allowed = judged(hopeless, bound=RiskBound(risk=0.6)).line("usable")
    assert allowed.answer == "yes"
    assert allowed.question == "Usable at a risk of 60 %?"


def test_a_mean_loss_is_not_called_a_risk() -> None:
    """Half of the answers are three places off on a scale of 0 to 3: a mean loss of 0.5."""
    answers = ((0, "never"), (1, "rarely"), (2, "often"), (3, "always"))
    task = TaskFacts("t", answers, default_loss="abs")
    rows = [
        EvaluationResult(3 * (i % 2), 0, confidence=0.9, record_id=str(i), cluster_id=str(i))
        for i in range(200)
    ]
    verdict = verdict_of(BenchmarkResult(rows, {}, {}, "m", {"task_facts": task}))
    line = verdict.line("usable")
    assert line.question == "Usable at a mean loss of 0.05?"
    assert str(line.figures[0]) == "lowest tested mean loss 0.500 in its 200 most confident answers"


def test_without_a_threshold_abstentions_and_no_answers_are_left_for_people() -> None:
    rows = rows_of((10, "right"), (4, "deferred"), (3, "broken"), (2, "lost"))
    left = judged(rows).line("left_for_people").figures[0]
    assert "7 of 17" in str(left)


def test_too_many_missing_cases_make_every_answer_that_they_could_turn_cannot_tell() -> None:
    model = [
        *rows_of((30, "deferred"), (10, "wrong"), **DUE),
        *rows_of((48, "right"), (12, "deferred"), **SAFE),
    ]
    assert answers(judged(model))["deferral"] == "yes"
    lost = [*model, *rows_of((40, "lost"), start=200)]
    found = answers(judged(lost))
    assert found["deferral"] == found["correctness"] == found["usable"] == "cannot tell"
    one_lost = [*model * 1, row(999, "lost")]
    assert answers(judged(one_lost))["deferral"] == "yes"


def in_group(name: str, *parts: tuple[int, str], start: int) -> list[EvaluationResult]:
    return rows_of(*parts, start=start, metadata={"site": name})


def test_groups_that_are_worse_are_named_and_small_ones_are_not() -> None:
    rows = [
        *in_group("north", (190, "right"), (10, "wrong"), start=0),
        *in_group("south", (20, "right"), (30, "wrong"), start=1000),
        *in_group("tiny", (10, "wrong"), start=2000),
    ]
    line = judged(rows, groups={"site": "site"}).line("groups")
    assert line.answer is None
    assert [str(one).split()[1] for one in line.figures] == ["south"]
    assert line.figures[0].estimate.value == 0.6
    assert line.compared[0].estimate.value == 50 / 260
    even = in_group("north", (90, "right"), (10, "wrong"), start=0)
    even += in_group("south", (90, "right"), (10, "wrong"), start=1000)
    assert (
        judged(even, groups={"site": "site"}).line("groups").reason.startswith("none of 2 groups")
    )
    assert judged(even).line("groups").reason == "the task declares no groups"


def test_the_worst_group_comes_first_and_a_share_of_few_is_not_shown() -> None:
    rows = [
        *in_group("good", (38, "right"), (2, "wrong"), start=0),
        *in_group("bad", (20, "right"), (20, "wrong"), start=1000),
        *in_group("silent", (10, "right"), (30, "deferred"), start=2000),
    ]
    result = BenchmarkResult(
        rows, {}, {}, "m", {"task_facts": TaskFacts("t", ANSWERS, groups={"site": "site"})}
    )
    found = group_figures(result.rows)
    assert [one.name for one in found] == ["bad", "good", "silent"]
    assert found[-1].figures[RIGHT] == "fewer than 20 patients"
    answered = found[-1].figures[ANSWERED]
    assert isinstance(answered, Estimate)
    assert (found[-1].n, answered.value) == (40, 0.25)


def test_repeats_of_a_case_are_one_case_by_the_answer_given_most() -> None:
    rows = [
        row(number, said, due=False) for number in range(40) for said in ("right", "right", "wrong")
    ]
    line = judged(rows).line("correctness")
    assert line.figures[0].estimate.value == 1.0
    assert "of 40 answers" in str(line.figures[0])


def test_rows_of_few_patients_count_as_few() -> None:
    apart = rows_of((36, "right"), (24, "wrong"))
    alone = judged(apart).line("correctness").figures[0].estimate
    together = [
        row(number, "right" if number < 36 else "wrong", cluster_id=str(number // 12))
        for number in range(60)
    ]
    line = judged(together).line("correctness")
    assert line.answer == "cannot tell"
    estimate = line.figures[0].estimate
    assert estimate.value == alone.value
    assert estimate.high - estimate.low > 1.5 * (alone.high - alone.low)


def test_real_and_synthetic_patients_are_not_judged_together() -> None:
    real = rows_of((30, "right"), (10, "wrong"), metadata={"synthetic": False})
    made_up = rows_of((60, "wrong"), start=500, metadata={"synthetic": True})
    metrics = default_classification_metrics()
    result = BenchmarkResult([*real, *made_up], score_all(metrics, real), {}, "m")
    result.scores_by_source = scores_by_source(metrics, [*real, *made_up])
    verdict = verdict_of(result)
    assert verdict.about == "real patients"
    assert verdict.line("correctness").figures[0].estimate.value == 0.75


def test_as_json_a_verdict_has_every_digit_and_no_sentence() -> None:
    found = judged(rows_of((2, "right"), (1, "wrong"))).to_dict()
    assert list(found) == [
        *("deferral", "correctness", "confidence", "usable", "left_for_people", "groups"),
    ]
    figure = found["correctness"]["figures"][0]
    assert figure["estimate"]["value"] == 2 / 3
    assert not math.isnan(figure["estimate"]["low"])


def test_where_there_is_no_guideline_the_model_is_read_beside_the_people_who_read() -> None:
    rows = rows_of((60, "right"), (20, "wrong"), (20, "deferred"), due=False)
    result = BenchmarkResult(rows, {}, {}, "m", {"task_facts": TaskFacts("t", ANSWERS)})
    read = rows_of((30, "wrong"), (40, "right"), due=False)
    result.baseline_rows = {
        "majority": Rows(rows_of((100, "wrong")), result.rows.answers),
        "physician (read 70 of 100)": Rows(read, result.rows.answers),
    }
    line = verdict_of(result).line("correctness")
    assert str(line.compared[0]) == "physician (read 70 of 100) 57 % on 70 of them"
    assert line.answer == "yes"
    result.baseline_rows = {"guideline": Rows(rows, result.rows.answers), **result.baseline_rows}
    assert str(verdict_of(result).line("correctness").compared[0]).startswith("guideline ")


def test_a_run_is_never_its_own_baseline() -> None:
    rows = rows_of((60, "right"), (20, "wrong"), (20, "deferred"), due=False)
    facts = {"task_facts": TaskFacts("t", ANSWERS)}
    for own in ("guideline", "guideline (real)"):
        result = BenchmarkResult(rows, {}, {}, "guideline", facts)
        result.baseline_rows = {own: Rows(rows, result.rows.answers)}
        for line in verdict_of(result).lines:
            assert not any("guideline" in str(one) for one in line.compared), line
    result = BenchmarkResult(rows, {}, {}, "guideline", facts)
    result.baseline_rows = {
        "guideline": Rows(rows, result.rows.answers),
        "physician (read 100)": Rows(rows, result.rows.answers),
    }
    line = verdict_of(result).line("correctness")
    assert str(line.compared[0]).startswith("physician ")  # the next best comparison is used


def test_right_answers_are_compared_with_always_giving_the_commonest_one() -> None:
    """Of 100 cases 80 have the truth "no": who always says so is right in 80 %."""
    rows = [EvaluationResult(0, int(i < 20), record_id=str(i)) for i in range(100)]
    line = judged(rows).line("correctness")
    assert line.answer == "cannot tell"
    assert [str(one).partition(" (")[0] for one in line.compared] == [
        "always answering no: 80 %",
        "difference 0 points",
    ]
    assert all(one.brief for one in line.compared)


def test_the_constant_answer_is_brief_only_where_it_decides() -> None:
    model, poor = rows_of((100, "right")), rows_of((50, "wrong"), (50, "right"))
    compared = judged(model, poor).line("correctness").compared
    assert [one.brief for one in compared] == [True, False, False]
    assert judged(model).line("correctness").compared[0].brief
    no = judged(rows_of((100, "wrong")), poor).line("correctness")
    assert (no.answer, no.compared[-1].brief) == ("no", True)


def test_the_guideline_comes_before_a_better_baseline_and_one_without_rows_is_none() -> None:
    rows = rows_of((80, "right"), (20, "wrong"))
    result = BenchmarkResult(rows, {}, {}, "m", {"task_facts": TaskFacts("t", ANSWERS)})
    known = result.rows.answers
    result.baseline_rows = {
        "rules": Rows(rows_of((90, "right"), (10, "wrong")), known),
        "guideline": Rows(rows_of((70, "right"), (30, "wrong")), known),
    }
    assert str(verdict_of(result).line("correctness").compared[0]).startswith("guideline 70 %")
    result.baseline_rows["guideline"] = Rows([], known)
    assert str(verdict_of(result).line("correctness").compared[0]).startswith("rules 90 %")


def test_a_guideline_without_safe_or_due_cases_is_not_compared() -> None:
    due = rows_of((30, "deferred"), (10, "wrong"), **DUE)
    safe = rows_of((48, "right"), (12, "deferred"), **SAFE)
    for known in (due, safe):
        line = judged([*due, *safe], known).line("deferral")
        assert (line.answer, line.compared) == ("yes", [])


@pytest.mark.parametrize(("due", "word"), [(True, "deferred"), (False, "answered")])
def test_labels_of_one_kind_are_named(due: bool, word: str) -> None:
    rows = [*rows_of((20, "right"), due=due), *rows_of((20, "right"), start=100)]
    reason = judged(rows).line("deferral").reason
    assert reason.startswith(f"all labelled cases should be {word}")


def test_a_guideline_that_lacks_a_case_is_not_priced() -> None:
    model, perfect = rows_of((70, "right"), (30, "deferred")), rows_of((99, "right"))
    line = judged(model, perfect, price=0.2).line("deferral")
    assert line.answer == "yes"
    assert len(line.compared) == 1


@pytest.mark.parametrize(
    ("parts", "said", "why"),
    [
        ([(40, "right", 0.9)], "0 of 40 cases (0 %)", "abstained or gave no answer"),
        (
            [(30, "right", 0.9), (9, "wrong", 0.5), (1, "right", 0.5)],
            "10 of 40 cases (25 %), all below that confidence",
            "",
        ),
        (
            [(30, "right", 0.9), (1, "wrong", 0.5), (9, "deferred", 0.5)],
            "10 of 40 cases (25 %), 1 of them below that confidence",
            "the others abstained or gave no answer",
        ),
        (
            [(30, "right", 0.9), (10, "deferred", 0.5)],
            "10 of 40 cases (25 %)",
            "abstained or gave no answer",
        ),
        # Without a certified threshold no confidence decides.
        (
            [(9, "wrong", 0.9), (1, "deferred", 0.5)],
            "1 of 10 cases (10 %)",
            "abstained or gave no answer",
        ),
    ],
)
def test_who_is_left_for_people_and_why(
    parts: list[tuple[int, str, float]], said: str, why: str
) -> None:
    left = judged(by_confidence(*parts), bound=RiskBound(risk=0.1)).line("left_for_people")
    assert (str(left.figures[0]), left.reason) == (said, why)


def test_groups_at_a_certified_threshold_are_held_to_the_bound() -> None:
    rows = [
        *rows_of((930, "right"), (10, "wrong"), start=0, confidence=0.9, metadata={"site": "a"}),
        *rows_of((40, "right"), (20, "wrong"), start=2000, confidence=0.9, metadata={"site": "b"}),
    ]
    line = judged(rows, groups={"site": "site"}).line("groups")
    (group,) = line.figures
    assert (group.words, group.estimate.value) == ("site: b {} wrong", 1 / 3)
    assert (line.compared[0].words, line.compared[0].estimate.value) == ("at most {} allowed", 0.05)
    worse = [*rows, *rows_of((200, "wrong"), start=5000, confidence=0.9, metadata={"site": "a"})]
    assert str(judged(worse, groups={"site": "site"}).line("groups").compared[0]).startswith(
        "all answers "
    )


@pytest.mark.parametrize(("n", "counted"), [(19, 1), (20, 2)])
def test_a_group_of_twenty_patients_is_large_enough(n: int, counted: int) -> None:
    rows = [
        *in_group("north", (30, "right"), start=0),
        *in_group("south", (n, "right"), (5, "deferred"), start=1000),
    ]
    reason = judged(rows, groups={"site": "site"}).line("groups").reason
    assert reason.startswith(f"none of {counted} group")


def test_the_most_confident_tenth_keeps_equal_confidences_together() -> None:
    rows = by_confidence((15, "right", 0.9), (5, "wrong", 0.9), (80, "right", 0.5))
    line = judged(rows).line("confidence")
    assert str(line.figures[-1]).endswith("of its 20 most confident answers wrong")
    assert line.figures[-1].estimate.value == 0.25
    assert any(one.words.startswith("calibration error") for one in line.figures)


@pytest.mark.parametrize(("n_lost", "answer"), [(1, "no"), (2, "cannot tell")])
def test_one_missing_case_of_a_hundred_is_passed_over_and_two_are_not(
    n_lost: int, answer: str
) -> None:
    rows = [
        *rows_of((50, "wrong"), **DUE),
        *rows_of((50 - n_lost, "right"), **SAFE),
        *rows_of((n_lost, "lost"), start=500),
    ]
    line = judged(rows).line("deferral")
    assert (line.answer, line.reason) == (answer, "it never deferred")


def test_cases_that_do_not_count_do_not_narrow_an_interval() -> None:
    few = rows_of((7, "right"), (3, "wrong"))
    alone = judged(few).line("correctness").compared[-1].estimate
    beside = judged([*few, *rows_of((90, "deferred"), start=100)]).line("correctness")
    assert beside.compared[-1].estimate == alone


def test_of_two_kinds_of_patients_each_has_its_guideline_and_people_read_both() -> None:
    real = rows_of((30, "right"), (10, "wrong"), metadata={"synthetic": False})
    made_up = rows_of((60, "wrong"), start=500, metadata={"synthetic": True})
    metrics = default_classification_metrics()
    result = BenchmarkResult([*real, *made_up], score_all(metrics, real), {}, "m")
    result.scores_by_source = scores_by_source(metrics, [*real, *made_up])
    right, wrong = (Rows(rows_of((40, kind)), result.rows.answers) for kind in ("right", "wrong"))
    result.baseline_rows = {"guideline (synthetic)": wrong, "physician (read 40)": right}
    compared = verdict_of(result).line("correctness").compared
    assert str(compared[0]).startswith("physician (read 40) 100 %")
    result.baseline_rows["guideline (real)"] = wrong
    assert str(verdict_of(result).line("correctness").compared[0]).startswith("guideline 0 %")


def test_groups_are_held_to_the_bound_of_a_mean_loss() -> None:
    """One place off on a scale of 0 to 3 loses a third; 50 of 60 in one group, none elsewhere."""
    answers = ((0, "never"), (1, "rarely"), (2, "often"), (3, "always"))
    task = TaskFacts("t", answers, default_loss="abs", groups={"site": "site"})
    rows = [
        EvaluationResult(
            int(i < 50),
            0,
            confidence=0.9,
            record_id=str(i),
            metadata={"site": "b" if i < 60 else "a"},
        )
        for i in range(1500)
    ]
    line = verdict_of(BenchmarkResult(rows, {}, {}, "m", {"task_facts": task})).line("groups")
    (group,) = line.figures
    assert (group.words, group.estimate.value) == ("site: b {} mean loss", pytest.approx(50 / 180))
    assert line.compared[0].words == "at most {} allowed"


def test_a_lead_that_is_not_shown_is_called_better() -> None:
    line = judged(rows_of((24, "right"), (16, "wrong"))).line("correctness")
    assert (line.answer, line.compared[-1].words) == ("cannot tell", "better by {}")


def test_no_label_at_all_is_not_called_a_label() -> None:
    reason = judged(rows_of((20, "right"))).line("deferral").reason
    assert reason.startswith("no case says whether it should be left to a person")


def test_never_deferring_is_shown_below_a_half_alone() -> None:
    """None of 4 due cases leaves a deferral of half of them possible, none of 5 does not."""
    highs, found = [], []
    for n in (4, 5):
        line = judged([*rows_of((n, "wrong"), **DUE), *rows_of((30, "right"), **SAFE)])
        highs.append(line.line("deferral").figures[0].estimate.high)
        found.append(line.line("deferral").answer)
    assert highs[1] < 0.5 < highs[0] < 0.6
    assert found == ["cannot tell", "no"]


def test_groups_of_a_mean_loss_without_a_threshold_are_judged_by_wrong_answers() -> None:
    answers = ((0, "never"), (1, "rarely"), (2, "often"), (3, "always"))
    task = TaskFacts("t", answers, default_loss="abs", groups={"site": "site"})
    rows = [
        EvaluationResult(
            3 * (i % 2), 0, confidence=0.9, record_id=str(i), metadata={"site": "ab"[i % 2]}
        )
        for i in range(200)
    ]
    line = verdict_of(BenchmarkResult(rows, {}, {}, "m", {"task_facts": task})).line("groups")
    assert [one.words for one in line.figures] == ["site: b {} wrong"]
