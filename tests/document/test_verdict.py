"""The lines of the verdict as a page shows them: word, figures, limits, and what would tell.

The rules are tested in `tests/decisions/test_judging.py`; here a word is read beside its figures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.invented_runs import invented_rows, result_of

from krisis.costs import ASSUMED, Costs
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.threshold_in_force import RiskBound, ThresholdInForce, threshold_of_run
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.disease import default_classification_metrics
from krisis.metrics.items import RunItems
from krisis.metrics.scoring import metrics_from_names, score_all
from krisis.pages.document import Finding, Verdict
from krisis.pages.groups import ANSWERED, RIGHT, group_figures
from krisis.pages.numbers import Estimate
from krisis.pages.terminal import terminal_text
from krisis.pages.verdict import groups_line, threshold_verdict, usable_line, verdict_of
from krisis.results.attrition import Attrition
from krisis.results.base import scores_by_source
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import items_of_result, source_of
from krisis.results.stops import Unfinished
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.task_facts import TaskFacts

ANSWERS = ((0, "CKD is absent now"), (1, "CKD is present now"))
SHORT = ((0, "no CKD"), (1, "CKD"))
FIFTH = Costs(price=0.2)


def row(number: int, said: str, *, due: bool | None = None, **more: Any) -> EvaluationResult:
    """Return a case, of truth 1 if odd or as given: right, wrong, deferred, broken or lost."""
    truth = more.pop("truth", number % 2)
    metadata: dict[str, Any] = {} if due is None else {"should_abstain": due}
    metadata |= more.pop("metadata", {})
    told: dict[str, Any] = {"record_id": f"r{number}", "metadata": metadata} | more
    if said == "lost":
        return EvaluationResult(None, truth, error="down", failure_class="timeout", **told)
    if said == "broken":
        return EvaluationResult("?", truth, error="no", failure_class="not_allowed", **told)
    if said == "deferred":
        return EvaluationResult(None, truth, True, **told)
    return EvaluationResult(truth if said == "right" else 1 - truth, truth, **told)


def rows_of(*parts: tuple[int, str], start: int = 0, **more: Any) -> list[EvaluationResult]:
    """Return so many rows of each kind, numbered on."""
    said = [kind for n, kind in parts for _ in range(n)]
    return [row(start + place, kind, **more) for place, kind in enumerate(said)]


def by_confidence(*parts: tuple[int, str, float]) -> list[EvaluationResult]:
    rows: list[EvaluationResult] = []
    for n, said, stated in parts:
        rows += rows_of((n, said), start=len(rows), confidence=stated)
    return rows


def run_of(
    rows: Iterable[EvaluationResult], *, costs: Costs = FIFTH, **facts: Any
) -> BenchmarkResult:
    task = TaskFacts("t", ANSWERS, short_names=SHORT, positive=1, costs=costs, **facts)
    return BenchmarkResult(list(rows), {}, {}, "m", {"task_facts": task})


def judged(
    rows: Iterable[EvaluationResult],
    bound: RiskBound | None = None,
    baselines: dict[str, list[EvaluationResult]] | None = None,
    **facts: Any,
) -> Verdict:
    result = run_of(rows, **facts)
    result.baseline_rows = {
        name: Rows(read, result.rows.answers) for name, read in (baselines or {}).items()
    }
    return verdict_of(result, bound)


def answers(verdict: Verdict) -> dict[str, str | None]:
    return {line.key: line.answer for line in verdict.lines}


DUE = {"start": 0, "due": True}
SAFE = {"start": 1000, "due": False}


def labelled(due: tuple[int, int], safe: tuple[int, int]) -> list[EvaluationResult]:
    """Return rows of a reader who deferred (so many, of so many due), answered (of the safe)."""
    return [
        *rows_of((due[0], "deferred"), (due[1] - due[0], "wrong"), **DUE),
        *rows_of((safe[0], "right"), (safe[1] - safe[0], "deferred"), **SAFE),
    ]


# --- What was found to be false on the first screen ------------------------------------------


def rare_disease(n: int = 1400, n_ill: int = 50) -> list[EvaluationResult]:
    """Return what "no" to everybody says of a disease that 3.6 % have."""
    return [
        EvaluationResult(0, int(i < n_ill), confidence=0.97, record_id=str(i), cluster_id=str(i))
        for i in range(n)
    ]


def test_no_to_everybody_is_neither_usable_nor_worth_using() -> None:
    verdict = judged(rare_disease())
    assert answers(verdict)["worth"] == "no"
    line = verdict.line("usable")
    assert (line.answer, line.reason) == ("no", "answering no CKD to everybody does as well")
    assert "misses 50 of 50 diseased" in line.sentence()
    # Where deferring is dear the constant answer is the best policy, and still no good.
    assert answers(judged(rare_disease(), costs=Costs(price=0.9)))["usable"] == "no"


def test_who_finds_no_diseased_says_so_on_the_first_screen() -> None:
    line = judged(rare_disease()).line("missed")
    assert line.answer is None
    assert line.brief() == "of 50 with CKD: 0 found, 50 told no CKD, 0 left for people"
    assert "3.6 % (2.7–4.6) of those told no CKD have CKD" in line.sentence()


def test_two_thirds_rightly_deferred_and_answered_are_partly() -> None:
    line = judged(labelled((47, 72), (83, 128))).line("deferral")
    assert line.answer == "partly"
    assert line.brief().startswith("deferred 47 of 72 due, answered 83 of 128 safe; deferral skill")
    assert line.figures[1].estimate.value == pytest.approx(47 / 72 + 83 / 128 - 1)


@pytest.mark.parametrize("kind", ["coin", "inverted"])
def test_confidence_that_says_nothing_or_the_reverse_is_no(kind: str) -> None:
    draw = np.random.default_rng(5)
    stated = 0.5 + draw.random(400) / 2
    chance = np.full(400, 0.5) if kind == "coin" else 1.5 - stated
    rows = [
        row(i, "right" if draw.random() < p else "wrong", confidence=float(c))
        for i, (c, p) in enumerate(zip(stated, chance, strict=True))
    ]
    line = judged(rows).line("confidence")
    assert line.answer == "no"
    assert "(limit" in line.brief()


def test_half_right_on_an_exam_is_no_and_says_what_a_deferral_costs() -> None:
    line = judged(rows_of((49, "right"), (51, "wrong"))).line("correctness")
    assert line.answer == "no"
    assert line.brief() == (
        "an answer costs 0.51 (0.41–0.61), deferring 0.2; right in 49 % (39–59) of 100: a deferral "
        "costs as much as being wrong in 20 %"
    )


def test_what_an_extra_computes_changes_no_word() -> None:
    rows = rows_of((190, "right"), (10, "wrong"), confidence=0.95)
    stored = {"logistic": rows_of((165, "right"), (35, "wrong"))}
    without = judged(rows, baselines=stored)
    beside = {**stored, "boosting": rows_of((200, "right")), "ideal": rows_of((200, "right"))}
    assert judged(rows, baselines=beside) == without
    assert answers(without)["worth"] == "yes"


def test_a_run_that_goes_on_gives_figures_without_words() -> None:
    rows = labelled((40, 40), (160, 160))
    result = run_of([*rows, *rows_of((20, "right"), start=5000, due=False)])
    whole = verdict_of(result)
    assert answers(whole)["deferral"] == "yes"
    result.stop = Unfinished("5 records have no answer yet")
    result.attrition = Attrition.of(result.rows, len(result.rows) + 5)
    going_on = verdict_of(result)
    assert set(answers(going_on).values()) == {None}
    line = going_on.line("deferral")
    assert line.provisional
    assert line.brief().endswith(": so far")
    assert line.figures == whole.line("deferral").figures


def test_the_level_of_the_page_decides_words() -> None:
    rows = labelled((30, 40), (54, 60))
    result = run_of(rows)
    words = {}
    for level in (0.8, 0.95):
        asked = BootstrapOptions(level=level, n_resamples=20)
        scored = result.scored(metrics_from_names(["accuracy"]), asked)
        verdict = verdict_of(scored)
        assert verdict.level == level
        assert verdict.line("deferral").figures[1].estimate.level == level
        words[level] = answers(verdict)["deferral"]
    assert words == {0.8: "yes", 0.95: "partly"}


EIGHT = (
    "Accuracy",
    "Balanced Accuracy",
    "Selective Accuracy (answered only)",
    "Abstention Rate",
    "Answer Rate (Coverage)",
    "Deferral Alignment",
    "Expected Calibration Error",
    "Brier Score",
)


def test_the_eight_metrics_are_on_the_first_screen_with_both_counts() -> None:
    result = result_of(invented_rows(160))
    screen = terminal_text(result.document(), verbose=False)
    for name in EIGHT:
        score = result.metric_scores[name]
        (line,) = [one for one in screen.splitlines() if one.startswith(f"{name}  ")]
        assert line.split()[-2:] == [str(score.n_evaluated), str(score.n_abstained)]


def test_a_share_is_the_same_number_in_words_and_in_the_table() -> None:
    rows = rows_of((15, "right"), (5, "wrong"))
    result = run_of(rows)
    scored = result.scored(metrics_from_names(["accuracy"]), BootstrapOptions(n_resamples=20))
    screen = terminal_text(scored.document(), verbose=False)
    (accuracy,) = [one for one in screen.splitlines() if one.startswith("Accuracy ")]
    assert "0.75 (" in accuracy
    assert "75 % (" in " ".join(screen.split())


def test_a_group_left_for_people_is_watched() -> None:
    rows = [
        *rows_of((190, "right"), (10, "wrong"), metadata={"stage": "1"}),
        *rows_of((6, "right"), (15, "deferred"), start=1000, metadata={"stage": "5"}),
    ]
    line = judged(rows, groups={"stage": "stage"}).line("groups")
    assert line.brief() == "stage 5: 71 % of 21 left for people (the others 0 %)"


def test_a_group_whose_disease_is_missed_is_watched() -> None:
    ill = {"truth": 1}
    rows = [
        *rows_of((95, "right"), (5, "wrong"), metadata={"sex": "male"}, **ill),
        *rows_of((30, "right"), (20, "wrong"), start=500, metadata={"sex": "female"}, **ill),
        *rows_of((5, "right"), (95, "wrong"), start=1000, metadata={"sex": "male"}, truth=0),
        *rows_of((50, "right"), start=1500, metadata={"sex": "female"}, truth=0),
    ]
    line = judged(rows, groups={"sex": "sex"}).line("groups")
    assert "sex female: 40 % of 50 with CKD told no CKD (the others 5.0 %)" in map(
        str, line.figures
    )
    assert not any(
        str(one).startswith("sex female: 2") and "wrong" in str(one) for one in line.figures
    )


def test_an_answer_count_says_what_it_counts() -> None:
    """92 rows of 46 patients: one answer of each is tested, and no more than 46."""
    rows = [row(i, "right", confidence=0.9, cluster_id=str(i % 46), due=False) for i in range(92)]
    reason = judged(rows).line("usable").reason
    assert reason.startswith("46 patients, one answer of each, are too few")


# --- Words and figures never contradict each other ---------------------------------------------


@st.composite
def runs(draw: st.DrawFn) -> list[EvaluationResult]:
    """Draw a run of a reader of any quality, with labels, confidences and losses or without."""
    n = draw(st.integers(20, 150))
    seed = draw(st.integers(0, 10_000))
    right, deferred, gap = (draw(st.floats(0, 1)) for _ in range(3))
    random = np.random.default_rng(seed)
    has_labels, states = draw(st.booleans()), draw(st.booleans())
    n_patients = draw(st.sampled_from([n, max(1, n // 3)]))
    rows = []
    for i in range(n):
        due = bool(random.random() < 0.4)
        knows = random.random() < gap
        defers = due if knows else random.random() < deferred
        said = "deferred" if defers else "right" if random.random() < right else "wrong"
        stated = float(np.round(np.clip(random.normal(right, 0.15), 0.01, 0.99), 2))
        rows.append(
            row(
                i,
                said,
                due=due if has_labels else None,
                confidence=stated if states else None,
                cluster_id=str(i % n_patients),
            )
        )
    return rows


TELLS = re.compile(
    r"would tell$|resume the run$|with --[a-z-]+|^declare|: (add|name|declare|include|ask)|"
    r"ask for one$|`price:`|it takes [\d,]+$"
)


@given(runs())
@settings(max_examples=60, deadline=None)
def test_a_word_never_contradicts_its_figures(rows: list[EvaluationResult]) -> None:
    for line in judged(rows).lines:
        assert not math.isnan(sum(one.estimate.bound or 0 for one in line.figures))
        agrees(line)
        if line.answer == "cannot tell":
            assert TELLS.search(line.reason), line
            assert line.brief().endswith(line.reason)


def agrees(line: Finding) -> None:
    """Check that a word is on the side of its limit on which its figures are, also as printed."""
    word = line.answer
    figure = line.figures[0].estimate if line.figures else Estimate(math.nan)
    if line.key == "worth" and word in ("yes", "partly"):
        assert str(line.figures[0]).startswith("saves ")
        assert figure.low > 0
    if line.key == "worth" and word == "no" and "does as well" not in line.reason:
        assert str(line.figures[0]).startswith("costs ")
        assert figure.low >= 0
    if line.key == "deferral" and word in ("yes", "partly", "no"):
        skill = line.figures[1].estimate
        low, high = {"yes": (0.5, 1), "partly": (0, 1), "no": (-1, 1)}[word]
        assert low <= skill.low <= high
        assert word != "no" or skill.high < 0.2 or "never" in line.reason
    if line.key == "correctness" and word in ("yes", "no"):
        cost = re.match(
            r"an answer costs ([\d.]+)(?: \(([\d.]+)–([\d.]+)\))?, deferring ([\d.]+)",
            str(line.figures[0]),
        )
        assert cost is not None
        value, low, high, price = (float(one or cost[1]) for one in cost.groups())
        assert low <= value <= high
        assert high < price if word == "yes" else low > price
    if line.key == "confidence" and word in ("yes", "no"):
        assert figure.bound is not None
        assert figure.low > figure.bound if word == "no" else figure.value <= figure.bound
    if line.key == "usable" and word == "no" and "wrong in its" in str(line.figures[0]):
        assert figure.bound is not None
        assert figure.value >= figure.bound


def test_a_saving_below_0_is_a_cost() -> None:
    dear = str(judged(rows_of((60, "right"), (40, "wrong"))).line("worth").figures[0])
    assert re.match(r"costs 20\.0 \(\d.*\) more per 100 records than always deferring$", dear)
    cheap = str(judged(rows_of((95, "right"), (5, "wrong"))).line("worth").figures[0])
    assert re.match(r"saves 15\.0 \(.*\) per 100 records against always deferring$", cheap)


@pytest.mark.parametrize(
    ("shift", "said"),
    [
        (0.1, "too high on average"),
        (-0.1, "too low on average"),
        (0.0, "between mean confidence and share right"),
    ],
)
def test_confidence_is_off_to_a_side(shift: float, said: str) -> None:
    rows = rows_of((320, "right"), (80, "wrong"), confidence=0.8 + shift)
    assert f"{said} (limit 5)" in judged(rows).line("confidence").sentence()


def test_confidence_is_partly_trusted_where_an_interval_reaches_too_far() -> None:
    line = judged(rows_of((40, "right"), (10, "wrong"), confidence=0.8)).line("confidence")
    assert line.answer == "partly"
    beyond = re.fullmatch(r"its interval reaches beyond (\d+) points", line.reason)
    assert beyond is not None
    figure = line.figures[0].estimate
    assert max(figure.high, -figure.low) > int(beyond[1]) / 100


def test_a_sentence_as_an_answer_is_quoted() -> None:
    task = TaskFacts("t", ANSWERS, positive=1, costs=FIFTH)
    rows = rows_of((60, "right"), (10, "wrong"))
    verdict = verdict_of(BenchmarkResult(rows, {}, {}, "m", {"task_facts": task}))
    assert verdict.line("missed").brief() == (
        "of 35 with “CKD is present now”: 30 found, 5 told “CKD is absent now”, 0 left for people"
    )


# --- What a word holds for, and what would tell -------------------------------------------------


def test_an_assumed_price_states_the_range_in_which_the_word_holds() -> None:
    rows = rows_of((90, "right"), (10, "wrong"))
    line = judged(rows, costs=ASSUMED).line("correctness")
    assert line.answer == "yes"
    found = re.fullmatch(
        r"if a deferral costs (\d+) to (\d+) % of an error \(20 % assumed: set `price:`\)",
        line.condition,
    )
    assert found is not None
    low, high = (int(one) / 100 for one in found.groups())
    for price in (low, high):
        assert judged(rows, costs=Costs(price=price)).line("correctness").answer == "yes"
    assert judged(rows, costs=Costs(price=low - 0.01)).line("correctness").answer != "yes"
    assert judged(rows).line("correctness").condition == ""


def test_an_assumed_price_is_named_where_it_cannot_be_told() -> None:
    line = judged(rows_of((16, "right"), (4, "wrong")), costs=ASSUMED).line("worth")
    assert line.answer == "cannot tell"
    assert line.condition == "a deferral is assumed to cost 20 % of an error: set `price:`"


def test_fewer_than_twenty_patients_get_figures_and_no_word() -> None:
    verdict = judged(by_confidence((15, "right", 0.9), (4, "wrong", 0.6)))
    assert set(answers(verdict).values()) - {"cannot tell"} == {None}
    line = verdict.line("correctness")
    assert line.figures[1].estimate.value == 15 / 19
    assert line.reason == "fewer than 20 patients: figures, no word"


@pytest.mark.parametrize(
    ("rows", "key", "reason"),
    [
        (rows_of((60, "right")), "deferral", "only a label would tell"),
        (rows_of((60, "right")), "confidence", "it stated no confidence: ask for one"),
        (rows_of((60, "right")), "usable", "it stated no confidence: ask for one"),
        (rows_of((60, "deferred")), "correctness", "only answers would tell"),
        (rows_of((60, "right"), due=False), "deferral", "include some that are"),
        (rows_of((60, "right"), due=True), "deferral", "include some that are safe to answer"),
        (labelled((4, 4), (50, 60)), "deferral", "fewer than 10 due cases; about 160 patients"),
        (
            [*rows_of((60, "right")), *rows_of((2, "lost"), start=500)],
            "usable",
            "resume the run",
        ),
        (by_confidence((30, "right", 0.9)), "usable", "are too few: without an error it takes"),
        (by_confidence((58, "right", 0.9), (2, "wrong", 0.9)), "usable", "patients would tell"),
    ],
)
def test_what_cannot_be_told_says_what_would_tell(
    rows: list[EvaluationResult], key: str, reason: str
) -> None:
    line = judged(rows).line(key)
    assert reason in line.reason
    if line.answer is not None:
        assert line.answer == "cannot tell"
        assert TELLS.search(line.reason)


def test_the_best_constant_policy_is_named_once() -> None:
    line = judged(rows_of((82, "right"), (18, "wrong"))).line("worth")
    assert line.answer == "cannot tell"
    assert re.fullmatch(
        r"saves .* per 100 records against always deferring: about [\d,]+ patients would tell",
        line.brief(),
    )


@pytest.mark.parametrize(("n_lost", "answer"), [(1, "no"), (3, None)])
def test_one_missing_case_of_a_hundred_leaves_a_word_and_three_do_not(
    n_lost: int, answer: str | None
) -> None:
    rows = [*rows_of((60, "wrong"), (60, "right")), *rows_of((n_lost, "lost"), start=500)]
    line = judged(rows).line("correctness")
    assert line.answer == answer
    if answer is None:
        assert line.reason == "3 records were not evaluated: resume the run for a word"


# --- Rivals -------------------------------------------------------------------------------------


def test_beside_a_rival_the_word_is_partly_until_it_is_beaten() -> None:
    rows = rows_of((190, "right"), (10, "wrong"))
    alone = judged(rows).line("worth")
    assert alone.answer == "partly"
    assert alone.reason == "no rival to compare with: run it with baselines"
    equal = judged(rows, baselines={"guideline": rows}).line("worth")
    assert equal.answer == "partly"
    assert equal.reason == "not shown to be cheaper than guideline"
    poor = rows_of((165, "right"), (35, "wrong"))
    beaten = judged(rows, baselines={"guideline": poor}).line("worth")
    assert beaten.answer == "yes"
    assert str(beaten.compared[0]).endswith(" more than guideline")
    good = rows_of((200, "right"))
    line = judged(rows, baselines={"guideline": good, "logistic": poor}).line("worth")
    assert line.answer == "partly"
    assert str(line.compared[0]).startswith("guideline saves 5.0 (")
    assert [one.brief for one in line.compared] == [True, False]


def test_a_rival_with_cheaper_answers_is_named_beside_right_answers() -> None:
    rows, good = rows_of((185, "right"), (15, "wrong")), rows_of((200, "right"))
    line = judged(rows, baselines={"logistic": good}).line("correctness")
    assert line.answer == "partly"
    assert re.match(
        r"logistic is cheaper by 0\.08 \(.*\) where both answered$", str(line.compared[0])
    )


def test_a_run_is_never_its_own_rival() -> None:
    rows = rows_of((190, "right"), (10, "wrong"))
    task = TaskFacts("t", ANSWERS, costs=FIFTH)
    for own in ("guideline", "guideline (real)"):
        result = BenchmarkResult(rows, {}, {}, "guideline", {"task_facts": task})
        result.baseline_rows = {own: Rows(rows, result.rows.answers)}
        for line in verdict_of(result).lines:
            assert not any("guideline" in str(one) for one in line.compared), line


def test_policies_that_show_a_limit_are_no_rivals() -> None:
    rows = rows_of((190, "right"), (10, "wrong"))
    names = ("always-abstain", "majority", "ideal", "boosting", "rule/always-0")
    perfect = {name: rows_of((200, "right")) for name in names}
    line = judged(rows, baselines=perfect).line("worth")
    assert (line.answer, line.compared) == ("partly", [])
    assert line.reason.startswith("no rival")
    assert judged(rows, baselines={"empty": []}).line("worth").reason.startswith("no rival")


def test_of_two_kinds_of_patients_each_has_its_rivals_and_people_read_both() -> None:
    real = rows_of((38, "right"), (2, "wrong"), metadata={"synthetic": False})
    made_up = rows_of((60, "wrong"), start=500, metadata={"synthetic": True})
    metrics = default_classification_metrics()
    task = TaskFacts("t", ANSWERS, costs=FIFTH)
    scores = score_all(metrics, real)
    result = BenchmarkResult([*real, *made_up], scores, {}, "m", {"task_facts": task})
    result.scores_by_source = scores_by_source(metrics, [*real, *made_up])
    known = result.rows.answers
    result.baseline_rows = {
        "guideline (synthetic)": Rows(rows_of((40, "right")), known),
        "physician (read 40)": Rows(rows_of((40, "right")), known),
    }
    verdict = verdict_of(result)
    assert verdict.about == "real patients"
    assert verdict.line("correctness").figures[1].estimate.value == 38 / 40
    (compared,) = verdict.line("worth").compared
    assert str(compared).startswith("physician (read 40) saves ")


# --- A threshold, and who is left for people ------------------------------------------------------


def test_a_certified_threshold_that_saves_makes_it_usable() -> None:
    rows = by_confidence((300, "right", 0.9), (60, "wrong", 0.5), (40, "right", 0.5))
    verdict = judged(rows)
    line = verdict.line("usable")
    assert line.answer == "yes"
    threshold, coverage, saved, _ = line.figures
    assert (threshold.estimate.value, coverage.estimate.value) == (0.9, 300 / 400)
    assert saved.estimate.value == pytest.approx(15)  # 300 of 400 cases at 0.2 each, per 100
    assert saved.estimate.low > 0
    assert str(verdict.line("left_for_people").figures[0]).startswith("100 of 400 cases (25 %)")


def test_a_hopeless_model_is_not_usable() -> None:
    hopeless = by_confidence((200, "right", 0.9), (200, "wrong", 0.9))
    line = judged(hopeless).line("usable")
    assert (line.answer, line.reason) == ("no", "")
    assert line.sentence() == "50 % wrong in its 400 most confident answers"
    assert judged(hopeless, bound=RiskBound(risk=0.6)).line("usable").question == (
        "Usable alone at 60 %?"
    )


SCALE = ((0, "never"), (1, "rarely"), (2, "often"), (3, "always"))
BY_DISTANCE = Costs.by_distance(range(4), price=0.2)


def by_mean_cost(rows: list[EvaluationResult]) -> tuple[RunItems, ThresholdInForce]:
    """Return rows on a scale of 0 to 3, and the threshold that their mean cost certifies."""
    task = TaskFacts(
        "t", SCALE, ordered=True, default_loss="abs", costs=BY_DISTANCE, groups={"site": "site"}
    )
    result = BenchmarkResult(rows, {}, {}, "m", {"task_facts": task})
    run = items_of_result(result, source_of(result))
    return run, threshold_of_run(run, score=ScoreOptions(loss="cost"))


def test_a_mean_cost_is_not_called_a_risk() -> None:
    """Half of the answers are three places off, which costs 1 each."""
    rows = [EvaluationResult(3 * (i % 2), 0, confidence=0.9, record_id=str(i)) for i in range(200)]
    line = usable_line(*by_mean_cost(rows))
    assert line.question == "Usable alone at a mean cost of 0.05?"
    assert str(line.figures[0]) == "mean cost 0.500 in its 200 most confident answers"


def test_answers_in_order_are_off_by_a_distance() -> None:
    task = TaskFacts("t", SCALE, ordered=True, default_loss="abs", costs=BY_DISTANCE)
    rows = [EvaluationResult(3 * (i % 2), 0, record_id=str(i)) for i in range(200)]
    line = verdict_of(BenchmarkResult(rows, {}, {}, "m", {"task_facts": task})).line("correctness")
    assert "off by 1.5 (1.3–1.7) on average in 200 answers" in line.brief()
    assert line.reason == "deferring would be cheaper"


@pytest.mark.parametrize(
    ("parts", "said", "why"),
    [
        ([(40, "right", 0.9)], "0 of 40 cases (0 %)", ""),
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


def test_missing_cases_are_not_left_for_people() -> None:
    rows = rows_of((10, "right"), (4, "deferred"), (3, "broken"), (2, "lost"))
    left = str(judged(rows).line("left_for_people").figures[0])
    assert left == "7 of 17 cases (41 %); 2 more not evaluated"


def test_an_answer_that_is_none_is_deferred_and_named_apart() -> None:
    rows = [*rows_of((25, "deferred"), (5, "broken"), **DUE), *rows_of((60, "right"), **SAFE)]
    line = judged(rows).line("deferral")
    assert line.answer == "yes"
    assert "no answer 5, of 30 due" in line.brief()


# --- Groups to watch ------------------------------------------------------------------------------


def in_group(name: str, *parts: tuple[int, str], start: int) -> list[EvaluationResult]:
    return rows_of(*parts, start=start, metadata={"site": name})


SITES = {"groups": {"site": "site"}}


def test_groups_that_are_worse_are_named_and_small_ones_are_not() -> None:
    rows = [
        *in_group("north", (190, "right"), (10, "wrong"), start=0),
        *in_group("south", (20, "right"), (30, "wrong"), start=1000),
        *in_group("tiny", (10, "wrong"), start=2000),
    ]
    line = judged(rows, **SITES).line("groups")
    assert line.answer is None
    assert {str(one).partition(":")[0] for one in line.figures} == {"site south"}
    assert line.figures[0].estimate.value == 0.6
    assert line.figures[0].estimate.bound == 20 / 210
    even = in_group("north", (90, "right"), (10, "wrong"), start=0)
    even += in_group("south", (90, "right"), (10, "wrong"), start=1000)
    assert judged(even, **SITES).line("groups").reason.startswith("none stands out of 2 groups")
    assert judged(even).line("groups").reason == "the task declares no groups"


def test_a_group_is_not_worse_than_six_others_without_an_error() -> None:
    """Six answers without an error do not show that errors are rare elsewhere."""
    rows = [
        *in_group("north", (190, "right"), (10, "wrong"), start=0),
        *in_group("south", (6, "right"), (15, "deferred"), start=1000),
    ]
    assert not any("wrong" in str(one) for one in judged(rows, **SITES).line("groups").figures)


@pytest.mark.parametrize(("n", "counted"), [(19, 1), (20, 2)])
def test_a_group_of_twenty_patients_is_large_enough(n: int, counted: int) -> None:
    rows = [
        *in_group("north", (30, "right"), start=0),
        *in_group("south", (n, "right"), start=1000),
    ]
    reason = judged(rows, **SITES).line("groups").reason
    assert reason.startswith(f"none stands out of {counted} group")


def test_groups_at_a_certified_threshold_are_held_to_the_bound() -> None:
    rows = [
        *rows_of((930, "right"), (10, "wrong"), confidence=0.9, metadata={"site": "a"}),
        *rows_of((40, "right"), (20, "wrong"), start=2000, confidence=0.9, metadata={"site": "b"}),
    ]
    line = judged(rows, **SITES).line("groups")
    assert line.figures[0].estimate.value == 1 / 3
    assert str(line.figures[0]).endswith("wrong (at most 5 % allowed)")


def test_groups_are_held_to_the_bound_of_a_mean_cost() -> None:
    """One place off costs a third; 50 of 60 in one group, none elsewhere."""
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
    run, in_force = by_mean_cost(rows)
    table = run.table
    assert in_force.certified
    (found,) = groups_line(table, in_force).figures
    assert str(found).startswith("site b: mean cost 0.28 (")
    assert found.estimate.value == pytest.approx(50 / 180)
    assert str(found).endswith(" (at most 0.05 allowed)")


def test_groups_of_like_names_are_not_mixed_up() -> None:
    rows = [
        *rows_of((60, "right"), metadata={"g": "a_b"}),
        *rows_of((30, "right"), (30, "wrong"), start=100, metadata={"g": "a b"}),
    ]
    line = judged(rows, groups={"g": "g"}).line("groups")
    assert {one.words.partition(":")[0] for one in line.figures} == {"g a b"}


def test_the_worst_group_comes_first_and_a_share_of_few_is_not_shown() -> None:
    rows = [
        *in_group("good", (38, "right"), (2, "wrong"), start=0),
        *in_group("bad", (20, "right"), (20, "wrong"), start=1000),
        *in_group("silent", (10, "right"), (30, "deferred"), start=2000),
    ]
    found = group_figures(run_of(rows, **SITES).rows)
    assert [one.name for one in found] == ["bad", "good", "silent"]
    assert found[-1].figures[RIGHT] == "fewer than 20 patients"
    answered = found[-1].figures[ANSWERED]
    assert isinstance(answered, Estimate)
    assert (found[-1].n, answered.value) == (40, 0.25)


@pytest.mark.slow
@pytest.mark.parametrize(("n_patients", "n_rows"), [(60, 1), (200, 1), (50, 8), (1000, 1)])
def test_of_like_groups_none_is_named_in_more_than_one_run_of_twenty(
    n_patients: int, n_rows: int
) -> None:
    """400 runs, 30 % wrong and 30 % left: with a true share of 5 %, 32 would be a surprise."""
    named = 0
    for seed in range(400):
        draw = np.random.default_rng(seed)
        rows = []
        for patient in range(n_patients):
            shared = 0.5 * draw.normal() if n_rows > 1 else 0.0
            for k in range(n_rows):
                chance = 1 / (1 + np.exp(-(0.85 + shared)))
                said = "deferred" if draw.random() < 0.3 else "right"
                if said == "right" and draw.random() > chance:
                    said = "wrong"
                group = {"site": "abc"[int(3 * draw.random() ** 1.5)]}
                number = patient * n_rows + k
                rows.append(row(number, said, cluster_id=str(patient), metadata=group))
        result = run_of(rows, **SITES)
        run = items_of_result(result, source_of(result))
        in_force = ThresholdInForce(bound=RiskBound(), answered=run.predicted)
        named += bool(groups_line(run.table, in_force).figures)
    assert named <= 32, named


# --- What several rows, notes and programs need ---------------------------------------------------


def test_rows_of_few_patients_count_as_few() -> None:
    apart = judged(rows_of((36, "right"), (24, "wrong"))).line("correctness").figures[1].estimate
    together = [
        row(number, "right" if number < 36 else "wrong", cluster_id=str(number // 3))
        for number in range(60)
    ]
    verdict = judged(together)
    estimate = verdict.line("correctness").figures[1].estimate
    assert estimate.value == apart.value
    assert estimate.high - estimate.low > 1.4 * (apart.high - apart.low)
    assert "With fewer than 30 patients of several rows each" in verdict.note
    assert judged(rows_of((20, "right"))).note == "Costs: a wrong answer 1, a deferral 0.2."


def test_another_price_than_that_of_the_prompt_is_said() -> None:
    rows = rows_of((60, "right"))
    assert judged(rows, told=0.3).note.endswith(
        " The price of a deferral: told 30 %, judged at 20 %."
    )
    assert "told" not in judged(rows, told=0.2).note


def test_as_json_a_verdict_has_every_digit_and_no_rounding() -> None:
    found = judged(rows_of((20, "right"), (10, "wrong"))).to_dict()
    assert list(found) == [
        *("worth", "deferral", "correctness", "missed", "confidence", "usable"),
        *("left_for_people", "groups"),
    ]
    figure = found["correctness"]["figures"][1]
    assert figure["estimate"]["value"] == 2 / 3
    assert not math.isnan(figure["estimate"]["low"])


def test_a_threshold_has_its_lines_alone() -> None:
    result = run_of(by_confidence((300, "right", 0.9), (60, "wrong", 0.5)))
    run = items_of_result(result, source_of(result))
    none = ThresholdInForce(bound=RiskBound(), answered=run.predicted, reason="it answered no case")
    assert [one.key for one in threshold_verdict(run, none).lines] == ["usable"]
