"""The rules of the verdict, line by line, on rows whose limits can be counted by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.verdict import Acts, World, deferring, ideal, judged, noisy, slipping
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from krisis.decisions.judged_rows import ALWAYS_DEFER, JudgedRows, Rival, patients_to_tell
from krisis.decisions.judging import (
    confidence_bins,
    confidence_trustworthy,
    deferral_skill,
    knew_when,
    left_for_people,
    missed_disease,
    prices_that_keep,
    right_when_answered,
    skill_of,
    usable_alone,
    worth_using,
)
from krisis.decisions.sample import Sample, ThresholdSearch, find_threshold
from krisis.errors import InvalidValue
from krisis.statistics.row_mean import row_mean, with_one_more
from krisis.statistics.shares import share_interval

RULES = (worth_using, knew_when, right_when_answered, confidence_trustworthy)


def column(values, n: int, kind: type = float) -> np.ndarray:
    return np.broadcast_to(np.asarray(values, dtype=kind), (n,)).copy()


def rows_of(n: int, **given) -> JudgedRows:
    """Rows of n patients, answered rightly at a cost of 0, where a deferral costs .2."""
    answered = column(given.pop("answered", True), n, bool)
    cost = np.where(answered, column(given.pop("answer_cost", 0.0), n), np.nan)
    known = {
        "price": 0.2,
        "patients": np.arange(n),
        "cost": np.where(answered, cost, 0.2),
        "answer_cost": cost,
        "constants": {ALWAYS_DEFER: np.full(n, 0.2), "ill": np.full(n, 0.5)},
        "answered": answered,
        "correct": answered,
        "evaluated": np.ones(n, dtype=bool),
        "no_answer": np.zeros(n, dtype=bool),
        "confidence": np.full(n, np.nan),
    }
    return JudgedRows(**(known | given))


def rival(name: str, cost) -> Rival:
    cost = np.asarray(cost, dtype=float)
    return Rival(name=name, cost=cost, answer_cost=cost)


# --- Worth using? -----------------------------------------------------------------------------


def test_what_is_shown_to_cost_less_than_every_constant_is_partly_worth_using():
    found = worth_using(rows_of(60, answer_cost=0.05))
    assert (found.word, found.reason) == ("partly", "no rival")
    assert found.comparator == ALWAYS_DEFER
    assert found.figure.name == "saved per 100"
    assert found.figure.value == pytest.approx(15)
    # One more patient who lost 1: L⁺ of .15 in 60 and −1 in one.
    limit = with_one_more(np.full(60, 0.15), range(60), -1.0).lower()
    assert found.figure.low == pytest.approx(100 * limit)
    assert found.figure.high == pytest.approx(15)


def test_disasters_too_rare_to_be_seen_are_allowed_for():
    """A cost of .15 in every row is below .2, and 60 rows do not show it."""
    found = worth_using(rows_of(60, answer_cost=0.15))
    assert found.word == "cannot tell"
    assert found.figure.low < 0
    assert worth_using(rows_of(6000, answer_cost=0.15)).word == "partly"
    low = with_one_more(np.full(60, 0.05), range(60), -1.0).lower()
    assert found.patients_to_tell == patients_to_tell(60, 0.05 - low, 0.05)
    # Where it rather costs more, so many would show that.
    dearer = np.where(np.arange(60) % 2, 0.1, 0.31)
    found = worth_using(rows_of(60, answer_cost=dearer, correct=np.zeros(60, bool)))
    loss = row_mean(0.2 - dearer, range(60))
    assert found.word == "cannot tell"
    assert found.patients_to_tell == patients_to_tell(60, loss.upper() - loss.value, -loss.value)


def test_the_patient_in_thought_has_one_row_that_lost_everything_whatever_his_size():
    one = rows_of(400, answer_cost=0.1)
    alike = replace(one, patients=np.repeat(np.arange(40), 10))
    low = with_one_more(np.full(400, 0.1), alike.patients, -0.1).lower()
    assert worth_using(alike).figure.low == pytest.approx(100 * low)


def test_a_rival_that_is_not_shown_to_cost_more_keeps_it_at_partly():
    rows = rows_of(100, answer_cost=0.02)
    beaten = rival("logistic", np.where(np.arange(100) % 2, 0.05, 0.15))
    found = worth_using(replace(rows, rivals=[beaten]))
    assert (found.word, found.comparator) == ("yes", "logistic")
    even = rival("guideline", np.where(np.arange(100) % 2, 0.0, 0.045))
    found = worth_using(replace(rows, rivals=[beaten, even]))
    assert (found.word, found.reason, found.comparator) == (
        "partly",
        "rival not beaten",
        "guideline",
    )
    against = {figure.name: figure.value for figure in found.beside}
    assert against["saved per 100 against logistic"] == pytest.approx(8)
    assert against["saved per 100 against guideline"] == pytest.approx(0.25)


def test_a_rival_dearer_than_a_constant_or_with_few_patients_is_none():
    rows = rows_of(100, answer_cost=0.02)
    dear = rival("guideline", np.full(100, 0.2))
    few = rival("people", np.where(np.arange(100) < 19, 0.01, np.nan))
    assert worth_using(replace(rows, rivals=[dear, few])).reason == "no rival"
    enough = rival("people", np.where(np.arange(100) < 20, 0.01, np.nan))
    assert worth_using(replace(rows, rivals=[dear, enough])).comparator == "people"


def test_no_is_said_where_a_constant_is_as_good_and_the_ideal_is_better():
    same = rows_of(60, answered=False)
    assert worth_using(same).word == "no"
    assert worth_using(same).comparator == ALWAYS_DEFER
    # Where deferring everything is ideal, it is not blamed.
    assert worth_using(replace(same, ideal=np.full(60, 0.2))).word == "cannot tell"
    assert worth_using(replace(same, ideal=np.full(60, 0.1))).word == "no"
    assert worth_using(rows_of(60, answer_cost=0.7)).comparator == ALWAYS_DEFER


def test_who_answers_every_case_rightly_is_never_no():
    """Expected costs may say so where the truth of each case was somehow known."""
    rows = rows_of(60, answer_cost=0.4, ideal=np.full(60, 0.1))
    assert worth_using(rows).word == "cannot tell"
    assert worth_using(replace(rows, correct=np.arange(60) > 0)).word == "no"


def test_a_skill_needs_room_for_one():
    answer = np.where(np.arange(400) % 4, 0.02, 0.1)
    rows = rows_of(400, answer_cost=answer, ideal=np.full(400, 0.02))
    assert worth_using(rows).figure.name == "skill"
    assert worth_using(rows).figure.value == pytest.approx((0.2 - 0.04) / (0.2 - 0.02))
    near = replace(rows, ideal=np.full(400, 0.171))
    assert worth_using(near).figure.name == "saved per 100"
    assert {figure.name for figure in worth_using(near).beside} == {
        "cost",
        "best constant cost",
        "ideal cost",
    }
    assert skill_of(replace(rows, ideal=np.full(400, 0.1699))) is not None
    # Nor is there one where the room is not shown to be any.
    shaky = np.where(np.arange(400) == 0, -40.0, 0.2)
    assert skill_of(replace(rows, ideal=shaky)) is None


@given(st.integers(0, 10_000), st.sampled_from([60, 120]), st.sampled_from(["one", "unequal"]))
@settings(max_examples=60, deadline=None)
def test_the_word_and_the_limits_of_the_skill_agree(seed, n_patients, sizes):
    draw = np.random.default_rng(seed)
    cases = World(n_patients, sizes).draw(draw)
    share = draw.random()
    acts = slipping(0.3 * share, noisy(2 * share))(cases, draw)
    rows = judged(cases, acts, {"logistic": noisy(1.0)(cases, draw)})
    found = worth_using(rows)
    if found.figure.name == "skill":
        assert (found.figure.low > 0) == (found.word in ("yes", "partly"))
        assert found.figure.low <= found.figure.value <= found.figure.high
        if found.word == "no":
            assert found.figure.high <= 1e-6


def test_the_limits_of_the_skill_are_where_the_saving_is_no_longer_shown():
    draw = np.random.default_rng(3)
    cases = World(150, "unequal").draw(draw)
    rows = judged(cases, deferring(0.8, 0.9)(cases, draw))
    skill = skill_of(rows)

    def saved(s: float, name: str) -> np.ndarray:
        return rows.constants[name] - rows.cost - s * (rows.constants[name] - rows.ideal)

    average = rows.n_rows / rows.n_patients
    lows = [
        with_one_more(saved(skill.low, name), rows.patients, -1 / average).lower()
        for name in rows.constants
    ]
    highs = [row_mean(saved(skill.high, name), rows.patients).upper() for name in rows.constants]
    assert min(lows) == pytest.approx(0, abs=1e-9)
    assert min(highs) == pytest.approx(0, abs=1e-9)


# --- Knew when not to answer? -----------------------------------------------------------------


def labelled(deferred_due: int, due: int, answered_safe: int, safe: int) -> JudgedRows:
    answered = [0] * deferred_due + [1] * (due - deferred_due)
    answered += [1] * answered_safe + [0] * (safe - answered_safe)
    label = np.repeat([1, 0], [due, safe])
    return rows_of(due + safe, answered=answered, label=label)


def test_deferral_skill_by_a_label_counts_every_case_alike():
    rows = labelled(24, 30, 28, 40)
    found = knew_when(rows)
    assert found.figure.value == pytest.approx(0.8 + 0.7 - 1)
    assert (found.word, found.figure.limit) == ("partly", 0.5)
    # Σ u² = p(1 − p)/n in each of the kinds.
    error = math.sqrt(70 / 69 * (0.8 * 0.2 / 30 + 0.7 * 0.3 / 40))
    ratios = deferral_skill(rows)
    assert ratios.upper() - 1 == pytest.approx(0.5 + stats.t.ppf(0.975, 69) * error)
    assert found.figure.high == pytest.approx(
        max(ratios.upper(), ratios.with_one_more(1.0).upper()) - 1
    )
    assert found.figure.low == pytest.approx(
        min(ratios.lower(), ratios.with_one_more(0.5).lower()) - 1
    )
    assert found.counts == {
        "due": 30,
        "due deferred": 24,
        "due without an answer": 0,
        "safe": 40,
        "safe answered": 28,
        "patients": 70,
        "not evaluated": 0,
    }


def test_no_answer_is_a_deferral_and_is_named_apart():
    rows = labelled(24, 30, 28, 40)
    silent = replace(rows, no_answer=np.arange(70) < 3)
    found = knew_when(silent)
    assert found.figure == knew_when(rows).figure
    assert (found.counts["due deferred"], found.counts["due without an answer"]) == (21, 3)


@pytest.mark.parametrize(
    ("rows", "word", "limit"),
    [
        (labelled(100, 100, 100, 100), "yes", 0.5),
        (labelled(90, 100, 85, 100), "yes", 0.5),
        (labelled(65, 100, 65, 100), "partly", 0.5),
        (labelled(50, 100, 50, 100), "no", 0.2),
        (labelled(6, 12, 9, 12), "cannot tell", 0.0),
    ],
)
def test_each_word_of_knowing_when(rows, word, limit):
    found = knew_when(rows)
    assert (found.word, found.figure.limit) == (word, limit)


def test_who_deferred_nothing_or_all_did_not_know_when():
    assert knew_when(labelled(0, 12, 12, 12)).reason == "deferred nothing"
    assert knew_when(labelled(12, 12, 0, 12)).reason == "deferred all"
    for rows in (labelled(0, 12, 12, 12), labelled(12, 12, 0, 12)):
        assert knew_when(rows).word == "no"
        sure = knew_when(rows, level=0.9999)
        assert (sure.word, sure.figure.high > 0.2) == ("no", True)


def test_an_ideal_reader_of_few_cases_is_no_certainty():
    found = knew_when(labelled(10, 10, 12, 12))
    assert found.figure.value == found.figure.high == 1
    assert 0.5 < found.figure.low < 1


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (labelled(9, 9, 20, 20), "too few due cases"),
        (labelled(20, 20, 9, 9), "too few safe cases"),
        (labelled(0, 0, 40, 40), "no due case"),
        (replace(labelled(9, 20, 20, 20), offered_abstention=False), "abstention was not offered"),
        (rows_of(40), "no label"),
    ],
)
def test_what_cannot_be_told_of_knowing_when_says_why(rows, reason):
    found = knew_when(rows)
    assert (found.word, found.reason) == ("cannot tell", reason)
    assert found.patients_to_tell == (33 if reason.startswith("too few") else None)


def test_ten_due_cases_of_nine_patients_are_too_few():
    rows = labelled(10, 10, 20, 20)
    patients = np.arange(30)
    patients[1] = 0
    assert knew_when(rows).word == "yes"
    assert knew_when(replace(rows, patients=patients)).reason == "too few patients with due cases"
    rows = labelled(20, 20, 20, 20)
    nine = np.where(rows.label == 1, np.arange(40), 100 + np.arange(40) % 9)
    assert knew_when(replace(rows, patients=nine)).reason == "too few patients with safe cases"


def test_a_checklist_is_counted_and_not_judged():
    rows = replace(labelled(9, 20, 20, 20), label_kind="checklist")
    found = knew_when(rows)
    assert (found.word, found.reason, found.counts["due deferred"]) == (None, "checklist", 9)
    assert found.counts["safe"] == 20
    by_cost = knew_when(replace(rows, lowest=np.where(np.arange(40) < 9, 0.3, 0.1)))
    assert (by_cost.counts["due"], by_cost.counts["due deferred"]) == (9, 9)


def test_a_label_goes_before_the_probabilities():
    rows = labelled(20, 20, 20, 20)
    turned = replace(rows, lowest=np.where(rows.label == 1, 0.1, 0.3))
    assert knew_when(turned).word == "yes"


def test_rows_without_a_label_are_left_out():
    rows = labelled(20, 20, 20, 20)
    unknown = np.where(np.arange(40) < 5, -1, rows.label)
    assert knew_when(replace(rows, label=unknown)).counts["due"] == 15


def test_a_case_weighs_what_is_at_stake_and_a_tie_nothing():
    lowest = np.repeat([0.2, 0.3, 0.6, 0.1], [10, 20, 20, 30])
    answered = np.repeat([True, True, False, True], [10, 20, 20, 30])
    found = knew_when(rows_of(80, answered=answered, lowest=lowest))
    assert found.counts["due"] == 50  # a tie is due
    assert found.figure.value == pytest.approx(8 / 10)  # 20 × .4 of 20 × .1 + 20 × .4
    ties = np.repeat([1 - 0.8, 0.1], [30, 30])  # in floats less than .2
    found = knew_when(rows_of(60, answered=np.repeat([False, True], 30), lowest=ties))
    assert (found.word, found.reason) == ("cannot tell", "all due cases are ties")


def test_a_patient_in_thought_handles_half_of_what_is_at_stake_wrongly():
    found = knew_when(labelled(30, 30, 40, 40))
    # Both ratios are (n + n/70/2)/(n + n/70), and all but one patient are perfect.
    ratio = (1 + 0.5 / 70) / (1 + 1 / 70)
    base = np.vstack([np.append(np.repeat([1, 0], [30, 40]), 30 / 70)])
    moved = np.append(np.repeat([(1 - ratio) / 30, (1 - ratio) / 40], [30, 40]) * 70 / 71, 0.0)
    moved[-1] = 2 * (0.5 - ratio) / 71
    error = math.sqrt(71 / 70 * float(moved @ moved))
    assert base.shape == (1, 71)
    assert found.figure.low == pytest.approx(2 * ratio - 1 - stats.t.ppf(0.975, 70) * error)


def test_who_deferred_all_that_was_seen_may_yet_answer_something():
    found = knew_when(labelled(30, 30, 0, 40))
    assert found.figure.low <= found.figure.value == 0 < found.figure.high < 0.2
    assert knew_when(labelled(30, 30, 40, 40)).figure.high == 1


# --- Right when it answered? ------------------------------------------------------------------


def test_answers_that_cost_less_than_a_deferral_are_right():
    found = right_when_answered(rows_of(60, answer_cost=0.02))
    assert (found.word, found.figure.limit) == ("yes", 0.2)
    assert found.counts["right"] == 60
    high = with_one_more(np.full(60, 0.02), range(60), 1.0, size=1.0).upper()
    assert found.figure.high == pytest.approx(high)
    [share] = found.beside
    assert share.interval == share_interval(np.ones(60), np.ones(60))


def test_only_answers_count_and_a_deferral_costs_nothing_here():
    rows = rows_of(120, answered=np.arange(120) < 60, answer_cost=0.02)
    assert (
        right_when_answered(rows).figure
        == right_when_answered(rows_of(60, answer_cost=0.02)).figure
    )


def test_answers_that_cost_more_than_a_deferral_are_not_right():
    found = right_when_answered(rows_of(60, answer_cost=np.arange(60) % 2))
    assert (found.word, found.figure.value) == ("no", 0.5)
    found = right_when_answered(rows_of(60, answer_cost=0.2))
    assert found.word != "no"


def test_answers_only_better_than_the_best_constant_answer_are_partly_right():
    answer = np.where(np.arange(400) % 5, 0.0, 0.95)
    rows = rows_of(400, answer_cost=answer)
    found = right_when_answered(rows)
    assert (found.word, found.reason, found.comparator) == (
        "partly",
        "only better than constant",
        "ill",
    )
    same = replace(rows, constants={**rows.constants, "healthy": np.full(400, 0.19)})
    assert right_when_answered(same).word == "cannot tell"


def test_a_rival_with_better_answers_makes_it_partly():
    rows = rows_of(100, answer_cost=0.05)
    better = rival("people", np.full(100, 0.01))
    found = right_when_answered(replace(rows, rivals=[better]))
    assert (found.word, found.reason, found.comparator) == ("partly", "rival better", "people")
    half = rival("people", np.where(np.arange(100) < 50, 0.01, np.nan))
    assert right_when_answered(replace(rows, rivals=[half])).word == "partly"
    less = rival("people", np.where(np.arange(100) < 49, 0.01, np.nan))
    assert right_when_answered(replace(rows, rivals=[less])).word == "yes"
    for n_common, word in ((19, "yes"), (20, "partly")):
        patients = np.where(np.arange(100) < 50, np.arange(100), 50 + np.arange(100) % n_common)
        common = rival("people", np.where(np.arange(100) < 50, np.nan, 0.01))
        found = right_when_answered(replace(rows, patients=patients, rivals=[common]))
        assert found.word == word


def test_how_many_patients_would_tell_whether_answers_are_right():
    for mean in (0.19, 0.21):
        cost = np.where(np.arange(60) % 2, mean - 0.15, mean + 0.15)
        constants = {ALWAYS_DEFER: np.full(60, 0.2), "ill": np.full(60, 0.2)}
        rows = replace(rows_of(60, answer_cost=cost), constants=constants)
        found = right_when_answered(rows)
        assert (found.word, found.reason) == ("cannot tell", "not shown")
        low, high = found.figure.low, found.figure.high
        half = high - mean if mean < 0.2 else mean - low
        assert found.patients_to_tell == patients_to_tell(60, half, 0.01)
    only = replace(rows, constants={ALWAYS_DEFER: np.full(60, 0.2)})
    assert right_when_answered(only).reason == "not shown"


def test_nine_answers_are_too_few():
    rows = rows_of(60, answered=np.arange(60) < 9)
    assert right_when_answered(rows).reason == "too few answers"
    assert right_when_answered(rows).patients_to_tell == 67  # 60 · 10/9
    assert right_when_answered(rows_of(60, answered=np.arange(60) < 10)).word == "partly"
    assert right_when_answered(rows_of(60, answered=False)).reason == "no answer"


def test_answers_in_order_are_off_by_a_distance():
    rows = rows_of(60, answer_cost=0.02, distance=np.arange(60) % 3)
    [off] = right_when_answered(rows).beside
    assert (off.name, off.value) == ("mean distance", 1.0)


# --- Confidence trustworthy? ------------------------------------------------------------------


def sure(confidence, correct) -> JudgedRows:
    n = len(correct)
    rows = rows_of(n, confidence=column(confidence, n))
    return replace(rows, correct=np.asarray(correct, dtype=bool))


def share_right(share: float, n: int) -> np.ndarray:
    return np.arange(n) < round(share * n)


def test_confidence_that_is_right_as_often_as_said_is_trustworthy():
    found = confidence_trustworthy(sure(0.8, share_right(0.8, 1000)))
    assert (found.word, found.figure.name) == ("yes", "mean gap")
    assert (found.reason, found.patients_to_tell) == ("", None)
    assert found.figure.value == pytest.approx(0)
    half = stats.t.ppf(0.975, 999) * math.sqrt(0.16 / 999)
    assert found.figure.high == pytest.approx(half)


def test_the_mean_gap_has_the_width_of_the_model_where_no_error_was_seen():
    found = confidence_trustworthy(sure(0.98, np.ones(100)))
    gap = next(one for one in (found.figure, *found.beside) if one.name == "mean gap")
    half = stats.t.ppf(0.975, 99) * math.sqrt(0.98 * 0.02 / 100)
    assert (gap.low, gap.high) == pytest.approx((-0.02 - half, -0.02 + half))


def test_a_gap_is_partly_small_where_only_the_estimate_is():
    found = confidence_trustworthy(sure(0.8, share_right(0.8, 60)))
    assert found.word == "partly"
    found = confidence_trustworthy(sure(0.8, share_right(0.7, 100)))
    assert (found.word, found.reason) == ("cannot tell", "not shown")
    half = found.figure.value - found.figure.low
    assert found.figure.name == "mean gap"
    assert found.patients_to_tell == patients_to_tell(100, half, 0.05)
    assert confidence_trustworthy(sure(0.8, share_right(0.6, 1000))).word == "no"
    low = confidence_trustworthy(sure(0.5, share_right(0.7, 1000)))
    assert (low.word, low.figure.name) == ("no", "mean gap")


def test_a_gap_over_the_range_is_found_where_the_mean_has_none():
    confidence = np.repeat([0.6, 0.8], 500)
    correct = np.concatenate([share_right(0.4, 500), share_right(1.0, 500)])
    found = confidence_trustworthy(sure(confidence, correct))
    assert (found.word, found.figure.name) == ("no", "gap over the range")
    s = [max(0.6 * 0.4, 0.4 * 0.6 * 500 / 499) / 500, 0.8 * 0.2 / 500]
    m = 0.5 * (0.04 - s[0]) + 0.5 * (0.04 - s[1])
    assert found.figure.value == pytest.approx(math.sqrt(m))
    variance = sum(0.25 * (4 * 0.04 * one + 2 * one * one) for one in s)
    half = stats.norm.ppf(0.975) * math.sqrt(variance)
    assert found.figure.low == pytest.approx(math.sqrt(m - half))
    assert found.figure.high == pytest.approx(math.sqrt(m + half))


def test_the_most_confident_tenth_may_be_worse_than_all():
    confidence = np.repeat([0.75, 0.99], [900, 100])
    correct = np.concatenate([share_right(0.75, 900), share_right(0.8, 100)])
    found = confidence_trustworthy(sure(confidence, correct))
    assert (found.word, found.figure.name) == ("no", "most confident tenth")
    assert found.figure.value == pytest.approx(0.2 - 0.01)
    wrong = share_interval(np.arange(100) < 20, np.ones(100))
    assert found.figure.low == pytest.approx(wrong.low - 0.01)


@pytest.mark.parametrize(
    ("counts", "top"),
    [
        ((9, 30, 21), 39),  # 9 are too few
        ((10, 30, 20), 10),
        ((95, 905), 95),  # nearer to 100 than all
        ((30, 90, 880), 120),
        ((30, 170, 800), 30),  # 100 lies between: the smaller one
        ((1,) * 300, 30),
        ((1,) * 60, 20),
    ],
)
def test_the_tenth_is_cut_where_confidence_changes(counts, top):
    confidence = np.repeat(np.linspace(0.9, 0.5, len(counts)), counts)
    correct = np.arange(confidence.size) % 5 > 0
    found = confidence_trustworthy(sure(confidence, correct))
    tenth = next(one for one in (found.figure, *found.beside) if one.name == "most confident tenth")
    allowed = 1 - confidence[:top].mean()
    assert tenth.value == pytest.approx(1 - correct[:top].mean() - allowed)


def test_bins_have_equal_counts_and_keep_equal_confidences_together():
    assert [int(one.sum()) for one in confidence_bins(np.linspace(0, 1, 100))] == [20] * 5
    assert [int(one.sum()) for one in confidence_bins(np.linspace(0, 1, 20))] == [10, 10]
    assert len(confidence_bins(np.linspace(0, 1, 1000))) == 10
    tied = confidence_bins(np.repeat([0.1, 0.9], [3, 97]))
    assert [int(one.sum()) for one in tied] == [3, 97]
    assert len(confidence_bins(np.full(50, 0.5))) == 1


def test_nineteen_confidences_are_too_few():
    confidence = np.where(np.arange(60) < 19, 0.9, np.nan)
    found = confidence_trustworthy(sure(confidence, np.ones(60)))
    assert (found.word, found.reason) == ("cannot tell", "too few confidences")
    assert found.counts["confidences"] == 19
    assert found.patients_to_tell == 64  # 60 · 20/19
    assert confidence_trustworthy(rows_of(60)).reason == "no confidence"
    assert confidence_trustworthy(rows_of(60, answered=False)).reason == "no answer"


# --- Usable alone? ----------------------------------------------------------------------------


ASKED = {"risk": 0.05, "shown_too_risky": False}


def test_a_certified_policy_that_saves_is_usable():
    rows = rows_of(200, answer_cost=0.01, diseased=np.arange(200) < 50)
    rows = replace(rows, told_positive=np.arange(200) < 45)
    found = usable_alone(rows, answers=np.arange(200) < 150, lowest_risk=0.01, **ASKED)
    assert found.word == "yes"
    assert found.figure.value == pytest.approx(100 * 0.19 * 0.75)
    assert found.counts["answered"] == 150
    assert (found.counts["diseased"], found.counts["told otherwise"]) == (50, 5)


def test_a_constant_answer_is_not_usable_however_low_its_risk():
    truth = np.arange(1000) < 36
    rows = rows_of(1000, answer_cost=truth)
    rows = replace(rows, constants={**rows.constants, "healthy": truth.astype(float)})
    found = usable_alone(rows, answers=np.ones(1000, bool), lowest_risk=0.036, **ASKED)
    assert (found.word, found.comparator) == ("no", "healthy")
    assert found.reason == "a constant does as well"


def test_what_is_certified_and_not_shown_to_save_cannot_be_told():
    rows = rows_of(200, answer_cost=0.19)
    found = usable_alone(rows, answers=np.ones(200, bool), lowest_risk=0.01, **ASKED)
    assert found.word == "cannot tell"
    assert found.patients_to_tell > 200


def test_without_a_certificate_the_tested_risks_decide():
    rows = rows_of(200)
    asked = {"answers": None, "risk": 0.05}
    risky = usable_alone(rows, lowest_risk=0.09, shown_too_risky=True, **asked)
    assert (risky.word, risky.reason) == ("no", "too risky")
    assert (risky.figure.value, risky.figure.limit) == (0.09, 0.05)
    perhaps = usable_alone(rows, lowest_risk=0.06, shown_too_risky=False, **asked)
    assert (perhaps.word, perhaps.reason) == ("cannot tell", "nothing certified")
    silent = usable_alone(
        rows,
        lowest_risk=math.nan,
        shown_too_risky=False,
        reason="no confidence",
        **asked,
    )
    assert (silent.word, silent.reason) == ("cannot tell", "no confidence")
    assert silent.figure is None


# --- Lines without a word ---------------------------------------------------------------------


def test_the_diseased_are_found_told_otherwise_or_left():
    ill, positive = np.arange(60) < 20, np.arange(60) % 2 == 0
    answered = np.arange(60) % 4 != 3
    rows = rows_of(60, answered=answered, diseased=ill)
    found = missed_disease(replace(rows, told_positive=positive))
    assert {
        name: found.counts[name] for name in ("found", "told otherwise", "left for people")
    } == {
        "found": 10,
        "told otherwise": 5,
        "left for people": 5,
    }
    assert found.counts["diseased"] == 20
    wrong = found.beside[-1]
    assert wrong.value == pytest.approx(5 / 15)
    assert wrong.interval == share_interval(ill & answered & ~positive, answered & ~positive)
    assert [one.name for one in found.beside[:3]] == ["found", "told otherwise", "left for people"]
    healthy = replace(rows, diseased=np.zeros(60, bool), told_positive=positive)
    assert missed_disease(healthy).reason == "none diseased"
    assert missed_disease(rows_of(60)).reason == "no positive answer"


def test_what_is_left_for_people():
    rows = rows_of(10, answered=np.arange(10) < 6)
    rows = replace(rows, no_answer=np.arange(10) == 9)
    below = np.arange(10) % 2 == 0
    assert left_for_people(rows, below).counts == {
        "cases": 10,
        "left": 7,
        "abstained": 3,
        "no answer": 1,
        "below the threshold": 3,
        "not evaluated": 0,
    }
    assert left_for_people(rows).figure.value == pytest.approx(0.4)


# --- What holds for all lines -----------------------------------------------------------------


def good(n: int) -> JudgedRows:
    """A run that gets a word on every line."""
    answered = np.arange(n) % 2 == 0
    rows = rows_of(n, answered=answered, answer_cost=0.01)
    return replace(
        rows,
        correct=answered & (np.arange(n) % 20 != 0),
        confidence=np.where(answered, 0.9, np.nan),
        label=(~answered).astype(np.int64),
    )


@pytest.mark.parametrize("rule", RULES)
def test_fewer_than_twenty_patients_get_figures_and_no_word(rule):
    rows = good(200)
    few = rule(replace(rows, patients=np.arange(200) % 19))
    assert (few.word, few.reason, few.patients_to_tell) == (None, "too few patients", 20)
    assert few.figure is not None
    assert rule(replace(rows, patients=np.arange(200) % 20)).reason != "too few patients"


@pytest.mark.parametrize("rule", RULES)
def test_more_than_one_row_in_a_hundred_not_evaluated_takes_the_words(rule):
    rows = good(1000)
    missing = replace(rows, evaluated=np.arange(1000) >= 11)
    assert (rule(missing).word, rule(missing).reason) == (None, "too many not evaluated")
    ten = rule(replace(rows, evaluated=np.arange(1000) >= 10))
    assert ten.word == rule(rows).word in ("yes", "partly")
    assert ten.counts["not evaluated"] == 10
    nothing = replace(rows, evaluated=np.zeros(1000, bool))
    assert rule(nothing).reason == "nothing evaluated"


def test_a_word_falls_where_the_rows_not_evaluated_could_change_it():
    n = 2000
    evaluated = np.arange(n) >= 20
    worth = rows_of(n, answer_cost=0.19)
    assert worth_using(worth).word == "partly"
    assert worth_using(worth.only(evaluated)).word == "partly"
    found = worth_using(replace(worth, evaluated=evaluated))
    assert (found.word, found.reason) == ("cannot tell", "not evaluated")
    right = right_when_answered(replace(worth, evaluated=evaluated))
    # It still is shown to be better than the best constant answer, at both bounds.
    assert (right.word, right.reason) == ("partly", "not evaluated")
    sixty = labelled(1000, 1500, 375, 500)  # its lower limit is .36
    edge = replace(labelled(790, 1000, 755, 1000), evaluated=evaluated)
    assert knew_when(edge.only(evaluated)).word == "yes"
    assert knew_when(edge).word == "partly"
    assert knew_when(edge).reason == "not evaluated"
    assert knew_when(replace(sixty, evaluated=evaluated)).word == "partly"


def test_what_could_not_be_told_anyway_keeps_its_reason():
    """290 patients who save .01 each do not show it; two more who save .2 would."""
    rows = rows_of(292, answer_cost=np.where(np.arange(292) < 290, 0.19, 0.0))
    assert worth_using(rows).word == "partly"
    found = worth_using(replace(rows, evaluated=np.arange(292) < 290))
    assert (found.word, found.reason) == ("cannot tell", "not shown")


def test_a_no_falls_too_where_the_rows_not_evaluated_could_change_it():
    n = 2000
    evaluated = np.arange(n) >= 20
    rows = rows_of(n, answer_cost=0.201, ideal=np.full(n, 0.1))
    rows = replace(rows, correct=np.zeros(n, bool))
    assert worth_using(rows).word == "no"
    assert worth_using(replace(rows, evaluated=evaluated)).word == "cannot tell"
    assert right_when_answered(rows).word == "no"
    assert right_when_answered(replace(rows, evaluated=evaluated)).word == "cannot tell"
    gap = sure(0.8, share_right(0.732, n))
    assert confidence_trustworthy(gap.only(evaluated)).word == "no"
    assert confidence_trustworthy(replace(gap, evaluated=evaluated)).word == "cannot tell"


def test_the_level_decides_words():
    knew = labelled(38, 60, 38, 60)
    assert (knew_when(knew).word, knew_when(labelled(44, 60, 48, 60)).word) == ("partly", "partly")
    assert knew_when(labelled(49, 60, 49, 60)).word == "partly"
    assert knew_when(labelled(49, 60, 49, 60), level=0.8).word == "yes"
    rows = rows_of(60, answer_cost=0.15)
    assert [worth_using(rows, level).word for level in (0.95, 0.8)] == ["cannot tell", "partly"]
    assert [right_when_answered(rows, level).word for level in (0.999, 0.8)] == ["partly", "yes"]
    gap = sure(0.8, share_right(0.71, 150))
    assert [confidence_trustworthy(gap, level).word for level in (0.95, 0.6)] == [
        "cannot tell",
        "no",
    ]


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_order_and_names_of_patients_change_no_judgement(seed):
    draw = np.random.default_rng(seed)
    cases = World(40, "unequal").draw(draw)
    rows = judged(cases, noisy(1.5)(cases, draw), {"ideal": ideal(cases, draw)})
    order = draw.permutation(rows.n_rows)
    names = draw.permutation(1000)[rows.patients]
    moved = replace(rows, patients=names).only(order)
    for rule in RULES:
        first, second = rule(rows), rule(moved)
        assert first.word == second.word
        if first.figure is not None:
            assert first.figure.low == pytest.approx(second.figure.low, abs=1e-9)
            assert first.figure.high == pytest.approx(second.figure.high, abs=1e-9)


def test_a_running_run_gets_figures_without_words():
    found = worth_using(good(200)).so_far()
    assert (found.word, found.provisional, found.reason) == (None, True, "running")
    assert found.figure is not None


def test_an_assumed_price_keeps_a_word_over_a_range():
    def word_at(price: float) -> str:
        rows = replace(rows_of(400, answer_cost=0.1), correct=np.arange(400) > 0)
        constants = {ALWAYS_DEFER: np.full(400, price), "ill": np.full(400, 0.5)}
        return worth_using(replace(rows, price=price, constants=constants)).word

    low, high = prices_that_keep(word_at)
    assert (low, high) == (0.11, 0.99)
    assert word_at(0.11) == "partly"
    assert word_at(0.10) == "no"
    assert prices_that_keep(lambda price: "no" if price < 0.205 else "yes") == (0.01, 0.2)
    seen = []
    prices_that_keep(lambda price: seen.append(price) or ("yes" if price == 0.2 else "no"))
    assert sorted(seen) == [0.19, 0.2, 0.21]


def test_patients_to_tell_grow_with_the_square_of_what_is_missing():
    assert patients_to_tell(100, 0.2, 0.1) == 400
    assert patients_to_tell(100, 0.37, 0.1) == 1400
    assert patients_to_tell(100, 0.01, 0.1) == 110
    assert patients_to_tell(100, math.inf, 0.1) is None
    assert patients_to_tell(100, 0.1, 1e-6) is None


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(InvalidValue, match="label has 3 rows, not 5"):
        rows_of(5, label=np.zeros(3, np.int64))
    with pytest.raises(InvalidValue, match="between 0 and 1, not 1"):
        replace(rows_of(5), price=1.0)


def test_acts_of_the_simulation_are_those_of_its_table():
    """One patient of each kind: a missed disease 1, a false alarm .5, a deferral .15."""
    cases = World(3).draw(np.random.default_rng(0))
    cases = replace(cases, p=np.array([0.1, 0.9, 0.4]), ill=np.array([False, True, True]))
    acts = Acts(np.array([True, True, False]), np.array([True, True, False]), np.full(3, 0.9))
    rows = judged(cases, acts)
    assert rows.cost.tolist() == pytest.approx([0.45, 0.05, 0.15])
    assert rows.ideal.tolist() == pytest.approx([0.1, 0.05, 0.15])
    assert rows.correct.tolist() == [False, True, False]


# --- Too risky everywhere ---------------------------------------------------------------------


def searched(wrong, score=None, **sample) -> ThresholdSearch:
    loss = np.asarray(wrong, dtype=float)
    score = np.ones(loss.size) if score is None else np.asarray(score, dtype=float)
    known = {"patient": np.arange(loss.size), "n_patients": loss.size} | sample
    return find_threshold(Sample(score, loss, **known), "fixed-sequence", 0.05, 0.1)


def test_a_risk_that_is_shown_too_high_at_the_only_threshold_is_too_risky():
    assert searched(np.arange(100) < 30).exceeds_everywhere()
    # 8 of 100 are more than 5 %, which is not shown: the lower limit is .038.
    assert not searched(np.arange(100) < 8).exceeds_everywhere()
    assert searched(np.arange(100) < 8).exceeds_everywhere(level=0.5)
    # The limit is that of a share: 5.2 % for 10 of 100, where that of a mean is 4.0.
    assert searched(np.arange(100) < 10).exceeds_everywhere()
    assert not searched(np.zeros(100)).exceeds_everywhere()


def test_stricter_thresholds_that_look_better_may_be_enough():
    wrong = np.arange(100) >= 40
    assert not searched(wrong, score=-np.arange(100)).exceeds_everywhere()
    assert searched(np.arange(100) % 2, score=-np.arange(100)).exceeds_everywhere()


def test_too_few_rows_for_any_test_show_nothing():
    assert not searched(np.ones(10)).exceeds_everywhere()


def test_the_risk_of_several_rows_of_a_patient_is_shown_by_patient():
    patients = {"patient": np.repeat(np.arange(400), 2), "n_patients": 400, "most_rows": 2}
    assert searched(np.arange(800) % 5 == 0, **patients).exceeds_everywhere()
    graded = searched(np.where(np.arange(100) % 2, 0.4, 0.1), binary=False)
    assert graded.exceeds_everywhere()
    assert not searched(np.full(100, 0.045), binary=False).exceeds_everywhere()


def test_few_patients_with_several_rows_are_known():
    rows = rows_of(60)
    assert not rows.is_few_patients_with_several_rows
    assert replace(rows, patients=np.arange(60) % 29).is_few_patients_with_several_rows
    assert not replace(rows, patients=np.arange(60) % 30).is_few_patients_with_several_rows
    assert not rows_of(25).is_few_patients_with_several_rows
