"""The rules of the verdict: from the rows of a run to the word of each of its lines.

K is the cost of what was done, K_j that of a constant policy, K_r that of a rival. L and U are
limits of a row mean by patient, L⁺ and U⁺ those with one more patient, who met what nobody here
did: without it, disasters too rare to be seen give a false "yes". Each line is judged in the order
too few, yes, no, partly; all else is "cannot tell". `python -m benchmarks.verdict` measures how
often each word is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from krisis.decisions.judged_rows import (
    SAME_COST,
    BoolArray,
    Figure,
    FloatArray,
    JudgedRows,
    Judgement,
    Reason,
    Rival,
    Word,
    patients_to_tell,
)
from krisis.statistics.intervals import DEFAULT_LEVEL, Interval
from krisis.statistics.row_mean import (
    METHOD,
    PatientRows,
    RatioOfMeans,
    RowMean,
    row_mean,
    with_one_more,
)
from krisis.statistics.shares import share_interval
from krisis.statistics.sum_of_ratios import SumOfRatios, skill_interval

FEWEST_PATIENTS = 20
MOST_NOT_EVALUATED = 0.01
FEWEST_OF_A_KIND = 10  # due cases, safe cases and their patients, and answers
FEWEST_CONFIDENCES = 20
LEAST_ROOM = 0.03  # between the best constant policy and the ideal reader, for a skill

KNEW, KNEW_NOT = 0.5, 0.2
# How far confidence may be from the share of right answers: (the estimate, an end of its interval).
GAP, GAP_OVER_RANGE, TOP_TENTH = (0.05, 0.10), (0.10, 0.15), (0.05, 0.15)

Judge = Callable[[JudgedRows], Judgement]
Bounds = Callable[[JudgedRows], tuple[JudgedRows, JudgedRows]]


def under_missing(judge: Judge, rows: JudgedRows, bounds: Bounds) -> Judgement:
    """Judge the evaluated rows; the word stands only if both bounds of the others give it.

    Of *yes* and *partly* both bounds give at least the weaker one, and that stands. With more than
    one row in a hundred not evaluated, or fewer than 20 patients, there is no word.
    """
    missing = ~rows.evaluated
    n_missing = int(missing.sum())
    if n_missing == rows.n_rows:
        return Judgement(word=None, counts={"not evaluated": n_missing}, reason="nothing evaluated")
    found = judge(rows.only(rows.evaluated))
    n_patients = int(np.unique(rows.patients[rows.evaluated]).size)
    counts = {**found.counts, "patients": n_patients, "not evaluated": n_missing}
    found = replace(found, counts=counts)
    if found.word is None:
        return found
    if n_patients < FEWEST_PATIENTS:
        few = found.without_word("too few patients")
        return replace(few, patients_to_tell=FEWEST_PATIENTS)
    if n_missing > MOST_NOT_EVALUATED * rows.n_rows:
        return found.without_word("too many not evaluated")
    if not n_missing or found.word == "cannot tell":
        return found
    words = {found.word, *(judge(bound).word for bound in bounds(rows))}
    if words == {"yes", "partly"}:
        return replace(found, word="partly", reason="not evaluated")
    if len(words) > 1:
        return replace(found, word="cannot tell", reason="not evaluated")
    return found


def _filled(rows: JudgedRows, **values: FloatArray | BoolArray | float | bool) -> JudgedRows:
    """Return the rows as if those not evaluated had been, with these values in them."""
    missing = ~rows.evaluated
    changed: dict[str, Any] = {
        name: np.where(missing, value, getattr(rows, name)) for name, value in values.items()
    }
    changed["no_answer"] = rows.no_answer & ~missing
    changed["evaluated"] = np.ones(rows.n_rows, dtype=np.bool_)
    return replace(rows, **changed)


def _as_many_times(n_patients: int, needed: int, found: int) -> int | None:
    """Return how many patients like these bring as many of a kind as are needed."""
    return patients_to_tell(n_patients, math.sqrt(needed / found), 1.0)


# --- Worth using? -----------------------------------------------------------------------------


def worth_using(rows: JudgedRows, level: float = DEFAULT_LEVEL) -> Judgement:
    """Tell whether the run costs less than every constant policy, and than every rival.

    *Partly*: L⁺(K_j − K; −1/k̄) > 0 for every constant policy j. *Yes*: also L(K_r − K) > 0 for
    every rival cheaper than the best constant policy, of which there is one. *No*: U(K_j − K) ≤ 0
    for some j and L(K − K_ideal) > 0, unless every answer was given and right.
    """
    return under_missing(lambda these: _worth(these, level), rows, _cost_bounds)


def _cost_bounds(rows: JudgedRows) -> tuple[JudgedRows, JudgedRows]:
    least = 0.0 if rows.ideal is None else rows.ideal
    worst = _filled(rows, cost=1.0, answer_cost=1.0, answered=True, correct=False)
    return worst, _filled(rows, cost=least, answer_cost=least, answered=True, correct=True)


def _worth(rows: JudgedRows, level: float) -> Judgement:
    saved = _Saved.by(rows, level)
    figure, beside = _worth_figures(rows, saved)
    found = Judgement(word="cannot tell", figure=figure, beside=beside, reason="not shown")
    if saved.least > SAME_COST:
        return _beside_rivals(replace(found, comparator=rows.best_constant), rows, level)
    if saved.worse and not (rows.answered & rows.correct).all():
        ideal = 0.0 if rows.ideal is None else rows.ideal
        if row_mean(rows.cost - ideal, rows.patients).lower(level) > SAME_COST:
            return replace(found, word="no", comparator=saved.worse, reason="no better")
    return replace(found, comparator=saved.hardest, patients_to_tell=saved.patients_to_tell())


@dataclass(frozen=True, slots=True, eq=False)
class _Saved:
    """What a run saves against every constant policy: K_j − K by row mean, and its limits."""

    best: str
    means: Mapping[str, RowMean]
    lows: Mapping[str, float]
    level: float

    @classmethod
    def by(cls, rows: JudgedRows, level: float) -> _Saved:
        """Build from the costs of what was done.

        The lower limits are L⁺(K_j − K; −1/k̄): one more patient, in whom one row lost 1.
        """
        patients = PatientRows.of(rows.patients)
        means, lows = {}, {}
        for name, cost in rows.constants.items():
            x = cost - rows.cost
            means[name] = row_mean(x, patients)
            more = with_one_more(x, patients, -1 / patients.average)
            lows[name] = min(more.lower(level), means[name].lower(level))
        return cls(rows.best_constant, means, lows, level)

    @property
    def least(self) -> float:
        """The lowest of the lower limits: above 0 the run is better than every constant policy."""
        return min(self.lows.values())

    @property
    def hardest(self) -> str:
        """The policy with the lowest of the lower limits."""
        return min(self.lows, key=lambda name: self.lows[name])

    @property
    def worse(self) -> str:
        """The policy that is shown to be as good or better, the best of several; empty if none."""
        upper = {name: one.upper(self.level) for name, one in self.means.items()}
        found = [name for name in upper if upper[name] <= SAME_COST]
        return min(found, key=lambda name: self.means[name].value, default="")

    def figure(self) -> Figure:
        """Return what is saved per 100 rows against the best constant policy.

        The limits are the lowest of all policies, as those decide.
        """
        high = min(one.upper(self.level) for one in self.means.values())
        interval = Interval(100 * self.least, 100 * high, self.level, METHOD)
        value = 100 * self.means[self.best].value
        return Figure(name="saved per 100", value=value, interval=interval, limit=0.0)

    def patients_to_tell(self) -> int | None:
        """Return how many patients like these would show the run better, or no better."""
        mean = self.means[self.hardest]
        end = self.lows[self.hardest] if mean.value > 0 else mean.upper(self.level)
        n = mean.patients.n_patients
        return patients_to_tell(n, abs(end - mean.value), abs(mean.value))


def _worth_figures(rows: JudgedRows, saved: _Saved) -> tuple[Figure, list[Figure]]:
    """Return the skill, or the cost saved per 100 rows where there is none, and what is beside."""
    cost = row_mean(rows.cost, rows.patients)
    beside = [
        Figure(name="cost", value=cost.value, interval=cost.interval(saved.level)),
        Figure(name="best constant cost", value=float(rows.constants[saved.best].mean())),
    ]
    if rows.ideal is not None:
        beside.append(Figure(name="ideal cost", value=float(rows.ideal.mean())))
    skill = skill_of(rows, saved.level)
    return (skill, [saved.figure(), *beside]) if skill else (saved.figure(), beside)


def skill_of(rows: JudgedRows, level: float = DEFAULT_LEVEL) -> Figure | None:
    """Return (K_constant − K)/(K_constant − K_ideal) with limits by inversion, where there is room.

    The lower limit is the largest s with L⁺(K_j − K − s(K_j − K_ideal); −1/k̄) > 0 for all j, the
    upper one the smallest s with U of the same < 0 for some j. Thus 0 is below it exactly where
    the saving is shown. There is none with less than .03 between the best constant policy and the
    ideal reader, or where that room is not shown to be any.
    """
    if rows.ideal is None:
        return None
    best = rows.constants[rows.best_constant]
    if float((best - rows.ideal).mean()) < LEAST_ROOM:
        return None
    patients = PatientRows.of(rows.patients)
    ratios = {
        name: RatioOfMeans.of(cost - rows.cost, cost - rows.ideal, patients)
        for name, cost in rows.constants.items()
    }
    more = [one.with_one_more(-1 / patients.average) for one in ratios.values()]
    low = min(
        min(a.lower(level), b.lower(level)) for a, b in zip(ratios.values(), more, strict=True)
    )
    high = min(one.upper(level) for one in ratios.values())
    if math.isinf(low):
        return None
    value = ratios[rows.best_constant].value
    return Figure(
        name="skill", value=value, interval=Interval(low, high, level, "fieller"), limit=0.0
    )


def _rivals(rows: JudgedRows) -> list[Rival]:
    """Return the rivals with 20 common patients that are cheaper there than the best constant."""
    found = []
    for rival in rows.rivals:
        both = ~np.isnan(rival.cost)
        if np.unique(rows.patients[both]).size < FEWEST_PATIENTS:
            continue
        best = min(float(cost[both].mean()) for cost in rows.constants.values())
        if float(rival.cost[both].mean()) < best - SAME_COST:
            found.append(rival)
    return found


def _beside_rivals(judgement: Judgement, rows: JudgedRows, level: float) -> Judgement:
    """Turn what is better than every constant policy into *yes* or *partly* by its rivals."""
    rivals = _rivals(rows)
    if not rivals:
        return replace(judgement, word="partly", reason="no rival")
    shown: dict[str, tuple[float, Figure]] = {}
    for rival in rivals:
        both = ~np.isnan(rival.cost)
        mean = row_mean((rival.cost - rows.cost)[both], rows.patients[both])
        interval = _scaled(mean.interval(level), 100)
        figure = Figure(
            name=f"saved per 100 against {rival.name}",
            value=100 * mean.value,
            interval=interval,
            limit=0.0,
        )
        shown[rival.name] = (mean.lower(level), figure)
    hardest = min(shown, key=lambda name: shown[name][0])
    beaten = shown[hardest][0] > SAME_COST
    return replace(
        judgement,
        word="yes" if beaten else "partly",
        comparator=hardest,
        reason="" if beaten else "rival not beaten",
        beside=[*judgement.beside, *(figure for _, figure in shown.values())],
    )


def _scaled(interval: Interval, by: float) -> Interval:
    return replace(interval, low=by * interval.low, high=by * interval.high)


# --- Knew when not to answer? -----------------------------------------------------------------


def knew_when(rows: JudgedRows, level: float = DEFAULT_LEVEL) -> Judgement:
    """Tell whether the run deferred what was due and answered what was safe, by what is at stake.

    The figure is Deferral Skill = 1 − Σ answered (b − c)₊ / Σ (b − c)₊ − Σ deferred (c − b)₊ /
    Σ (c − b)₊; with a label in place of the probabilities all stakes are equal. Its limits allow
    for one more patient with average stakes, who handles half of them wrongly, or all rightly.
    *Yes*: its lower limit is at least .5, *no*: its upper limit is below .2, or all was deferred or
    nothing, *partly*: its lower limit is above 0.
    """
    if not rows.offered_abstention:
        return Judgement(word="cannot tell", reason="abstention was not offered")
    if not (_is_labelled(rows) or rows.lowest is not None):
        if rows.label is None:
            return Judgement(word="cannot tell", reason="no label")
        counts = _deferral_counts(rows, rows.label == 1, rows.label == 0)
        return Judgement(word=None, counts=counts, reason="checklist")
    return under_missing(lambda these: _knew(these, level), rows, _deferral_bounds)


def _is_labelled(rows: JudgedRows) -> bool:
    return rows.label is not None and rows.label_kind == "label"


def due_and_safe(rows: JudgedRows) -> tuple[BoolArray, BoolArray]:
    """Return which rows should be deferred and which answered: by label, else by cost, ties due."""
    if _is_labelled(rows):
        assert rows.label is not None
        return rows.label == 1, rows.label == 0
    assert rows.lowest is not None
    due = rows.lowest >= rows.price - SAME_COST
    return due, ~due


def _stakes(rows: JudgedRows) -> FloatArray:
    """Return what is lost where a row is handled wrongly: |b − c|, or 1 by a label."""
    if _is_labelled(rows):
        return np.ones(rows.n_rows)
    assert rows.lowest is not None
    stakes = np.abs(rows.lowest - rows.price)
    return np.where(stakes <= SAME_COST, 0.0, stakes)


def _deferral_bounds(rows: JudgedRows) -> tuple[JudgedRows, JudgedRows]:
    due, safe = due_and_safe(rows)
    return _filled(rows, answered=due), _filled(rows, answered=safe)


def _deferral_counts(rows: JudgedRows, due: BoolArray, safe: BoolArray) -> dict[str, int]:
    deferred = rows.deferred
    found = {
        "due": due,
        "due deferred": due & deferred & ~rows.no_answer,
        "due without an answer": due & deferred & rows.no_answer,
        "safe": safe,
        "safe answered": safe & rows.answered,
    }
    return {name: int(np.count_nonzero(which & rows.evaluated)) for name, which in found.items()}


def deferral_skill(rows: JudgedRows) -> SumOfRatios:
    """Return the two ratios of Deferral Skill, due deferred and safe answered, less 1 in all."""
    due, safe = due_and_safe(rows)
    patients = PatientRows.of(rows.patients)
    stakes = _stakes(rows)
    base = np.array([patients.sums(stakes * due), patients.sums(stakes * safe)])
    handled = (due & ~rows.answered, safe & rows.answered)
    return SumOfRatios(np.array([patients.sums(stakes * which) for which in handled]), base)


_TOO_FEW: tuple[tuple[str, Reason, Reason], ...] = (
    ("due", "too few due cases", "too few patients with due cases"),
    ("safe", "too few safe cases", "too few patients with safe cases"),
)


def _knew(rows: JudgedRows, level: float) -> Judgement:
    due, safe = due_and_safe(rows)
    counts = _deferral_counts(rows, due, safe)
    ratios = deferral_skill(rows)
    judgement = Judgement(word="cannot tell", counts=counts, reason="not shown")
    if not counts["due"]:
        return replace(judgement, reason="no due case")
    if not counts["safe"]:
        return replace(judgement, reason="no safe case")
    if not ratios.base[0].any():
        return replace(judgement, reason="all due cases are ties")
    interval = skill_interval(ratios, level)
    low, high = interval.low, interval.high
    figure = Figure(name="deferral skill", value=ratios.value - 1, interval=interval)
    judgement = replace(judgement, figure=figure)
    for which, few_cases, few_patients in _TOO_FEW:
        rows_of_kind = due if which == "due" else safe
        n_patients = np.unique(rows.patients[rows_of_kind]).size
        found = min(counts[which], n_patients)
        needed = _as_many_times(ratios.n_patients, FEWEST_OF_A_KIND, found)
        judgement = replace(judgement, patients_to_tell=needed)
        if counts[which] < FEWEST_OF_A_KIND:
            return replace(judgement, reason=few_cases)
        if n_patients < FEWEST_OF_A_KIND:
            return replace(judgement, reason=few_patients)
    judgement = replace(judgement, patients_to_tell=None)
    if low >= KNEW:
        return replace(judgement, word="yes", reason="", figure=figure.judged_by(KNEW))
    answered = rows.answered[due | safe]
    if high < KNEW_NOT or answered.all() or not answered.any():
        no = replace(judgement, word="no", reason="", figure=figure.judged_by(KNEW_NOT))
        if answered.all():
            return replace(no, reason="deferred nothing")
        return no if answered.any() else replace(no, reason="deferred all")
    if low > 0:
        return replace(judgement, word="partly", reason="", figure=figure.judged_by(KNEW))
    far = [(KNEW_NOT - figure.value, high), (figure.value, low)]
    distance, end = max(far)
    enough = patients_to_tell(ratios.n_patients, abs(end - figure.value), distance)
    limit = KNEW_NOT if distance == far[0][0] else 0.0
    return replace(judgement, figure=figure.judged_by(limit), patients_to_tell=enough)


# --- Right when it answered? ------------------------------------------------------------------


def right_when_answered(rows: JudgedRows, level: float = DEFAULT_LEVEL) -> Judgement:
    """Tell whether an answer costs less than a deferral would, and no rival's answers cost less.

    *Yes*: the upper limit of the answers' mean cost, one more patient with one answer of cost 1
    added, is below the price, and no rival is shown better where both answered. *No*: its lower
    limit is above the price. *Partly*: a rival is better, or the answers are only shown better than
    the best constant answer.
    """
    return under_missing(lambda these: _right(these, level), rows, _answer_bounds)


def _answer_bounds(rows: JudgedRows) -> tuple[JudgedRows, JudgedRows]:
    best = 0.0 if rows.lowest is None else rows.lowest
    worst = _filled(rows, answered=True, correct=False, answer_cost=1.0)
    return worst, _filled(rows, answered=True, correct=True, answer_cost=best)


def _right(rows: JudgedRows, level: float) -> Judgement:
    answers = rows.only(rows.answered)
    counts = {"answers": answers.n_rows, "right": int(answers.correct.sum())}
    judgement = Judgement(word="cannot tell", counts=counts, reason="too few answers")
    if not answers.n_rows:
        return replace(judgement, reason="no answer")
    patients = PatientRows.of(answers.patients)
    mean = row_mean(answers.answer_cost, patients)
    more = with_one_more(answers.answer_cost, patients, 1.0, size=1.0)
    low, high = mean.lower(level), max(mean.upper(level), more.upper(level))
    interval = Interval(max(low, 0.0), min(high, 1.0), level, METHOD)
    figure = Figure(name="cost of an answer", value=mean.value, interval=interval, limit=rows.price)
    judgement = replace(judgement, figure=figure, beside=[_how_right(answers, level)])
    if answers.n_rows < FEWEST_OF_A_KIND:
        needed = _as_many_times(rows.n_patients, FEWEST_OF_A_KIND, answers.n_rows)
        return replace(judgement, patients_to_tell=needed)
    better = _better_rival(answers, level)
    if high < rows.price - SAME_COST:
        if better is None:
            return replace(judgement, word="yes", reason="")
        beside = [*judgement.beside, better]
        return replace(
            judgement, word="partly", reason="rival better", comparator=better.name, beside=beside
        )
    if low > rows.price + SAME_COST:
        return replace(judgement, word="no", reason="")
    gains = {
        name: with_one_more(cost - answers.answer_cost, patients, -1.0, size=1.0).lower(level)
        for name, cost in answers.answers.items()
    }
    if min(gains.values(), default=0.0) > SAME_COST:
        named = min(gains, key=lambda name: gains[name])
        return replace(
            judgement, word="partly", reason="only better than constant", comparator=named
        )
    distance = rows.price - mean.value
    half = high - mean.value if distance > 0 else mean.value - low
    enough = patients_to_tell(patients.n_patients, half, abs(distance))
    return replace(judgement, reason="not shown", patients_to_tell=enough)


def _how_right(answers: JudgedRows, level: float) -> Figure:
    """Return the share of answers that are right, or how far they are off where that is known."""
    if answers.distance is not None:
        off = row_mean(answers.distance, answers.patients)
        return Figure(name="mean distance", value=off.value, interval=off.interval(level))
    return _share("share right", answers.correct, np.ones_like(answers.correct), answers, level)


def _share(name: str, hits: BoolArray, among: BoolArray, rows: JudgedRows, level: float) -> Figure:
    patients = PatientRows.of(rows.patients)
    x, t = patients.sums(hits & among), patients.sums(among)
    if not t.any():
        return Figure(name=name, value=math.nan)
    value = float(x.sum() / t.sum())
    return Figure(name=name, value=value, interval=share_interval(x, t, level=level))


def _better_rival(answers: JudgedRows, level: float) -> Figure | None:
    """Return what a rival's answers cost less, where one is shown to be better on common answers.

    They must be half of the answers and come from 20 patients.
    """
    found = []
    for rival in answers.rivals:
        both = ~np.isnan(rival.answer_cost)
        n_patients = np.unique(answers.patients[both]).size
        if both.sum() < answers.n_rows / 2 or n_patients < FEWEST_PATIENTS:
            continue
        more = row_mean((answers.answer_cost - rival.answer_cost)[both], answers.patients[both])
        if more.lower(level) > SAME_COST:
            found.append(
                Figure(name=rival.name, value=more.value, interval=more.interval(level), limit=0.0)
            )
    return max(found, key=lambda figure: figure.value, default=None)


# --- Confidence trustworthy? ------------------------------------------------------------------


def confidence_trustworthy(rows: JudgedRows, level: float = DEFAULT_LEVEL) -> Judgement:
    """Tell whether stated confidence is near the share of right answers.

    Three figures: the mean gap, the root-mean-square gap over the range of confidences, and the
    share wrong in the most confident tenth less what their confidence allows. *Yes*: all estimates
    are within .05, .10 and .05, and the ends of their intervals within .10, .15 and .15. *Partly*:
    the estimates are. *No*: one interval is wholly beyond.
    """
    return under_missing(lambda these: _trusted(these, level), rows, _confidence_bounds)


def _confidence_bounds(rows: JudgedRows) -> tuple[JudgedRows, JudgedRows]:
    stated = rows.confidence[rows.answered & rows.evaluated]
    least = float(np.nanmin(stated)) if np.isfinite(stated).any() else 0.0
    most = float(np.nanmax(stated)) if np.isfinite(stated).any() else 1.0
    worst = _filled(rows, answered=True, correct=False, confidence=most)
    return worst, _filled(rows, answered=True, correct=True, confidence=least)


def _trusted(rows: JudgedRows, level: float) -> Judgement:
    stated = rows.only(rows.answered & ~np.isnan(rows.confidence))
    counts = {"confidences": stated.n_rows, "answers": int(rows.answered.sum())}
    judgement = Judgement(word="cannot tell", counts=counts, reason="too few confidences")
    if not stated.n_rows:
        return replace(judgement, reason="no confidence" if rows.answered.any() else "no answer")
    if stated.n_rows < FEWEST_CONFIDENCES:
        needed = _as_many_times(rows.n_patients, FEWEST_CONFIDENCES, stated.n_rows)
        return replace(judgement, patients_to_tell=needed)
    gap = _mean_gap(stated, level)
    over_range = _gap_over_range(stated, level)
    tenth = _top_tenth(stated, level)
    figures = (gap, over_range, tenth)
    # How far estimate, nearer end and farther end of each are beyond what is allowed them.
    beyond = (
        (
            abs(gap.value) - GAP[0],
            max(gap.low, -gap.high) - GAP[0],
            max(gap.high, -gap.low) - GAP[1],
        ),
        *(
            (one.value - to[0], one.low - to[0], one.high - to[1])
            for one, to in ((over_range, GAP_OVER_RANGE), (tenth, TOP_TENTH))
        ),
    )
    value, nearer, farther = (np.array(column) for column in zip(*beyond, strict=True))
    word: Word = "cannot tell"
    decides = value
    if max(value.max(), farther.max()) <= SAME_COST:
        word = "yes"
    elif nearer.max() > SAME_COST:
        word, decides = "no", nearer
    elif value.max() <= SAME_COST:
        word, decides = "partly", farther
    at = 0 if word == "yes" else int(np.argmax(decides))
    figure = figures[at]
    enough = None
    if word == "cannot tell":
        enough = patients_to_tell(stated.n_patients, figure.value - figure.low, float(value[at]))
    return replace(
        judgement,
        word=word,
        figure=figure,
        reason="" if word != "cannot tell" else "not shown",
        beside=[one for one in figures if one is not figure],
        patients_to_tell=enough,
    )


def _mean_gap(stated: JudgedRows, level: float) -> Figure:
    """Return mean confidence less share right: Student, the larger of sandwich and model."""
    patients = PatientRows.of(stated.patients)
    mean = row_mean(stated.confidence - stated.correct, patients)
    half = patients.student(level) * max(mean.standard_error, math.sqrt(_model_variance(stated)))
    interval = Interval(mean.value - half, mean.value + half, level, METHOD)
    return Figure(name="mean gap", value=mean.value, interval=interval, limit=GAP[0])


def _model_variance(stated: JudgedRows) -> float:
    """Return Σ c(1 − c)/n², the variance of the gap if answers are right as often as said."""
    c = np.clip(stated.confidence, 0.0, 1.0)
    return float(c @ (1 - c)) / stated.n_rows**2


def confidence_bins(confidence: FloatArray) -> tuple[BoolArray, ...]:
    """Return the rows of each of clip(n/20, 2, 10) bins of equal counts.

    Rows of equal confidence stay together, and go where the middle one of them belongs.
    """
    n = confidence.size
    n_bins = int(np.clip(n / 20, 2, 10))
    _, place, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    index = np.minimum((middle * n_bins / n).astype(np.int64), n_bins - 1)[place]
    return tuple(index == one for one in np.unique(index))


def _gap_over_range(stated: JudgedRows, level: float) -> Figure:
    """Return √max(0, Σ w_b (g_b² − s_b²)) over bins of confidence, less what chance alone gives.

    The limits are √max(0, M ± z √Σ w_b² (4 g_b² s_b² + 2 s_b⁴)) for the sum M: those of a sum of
    squares of normal gaps g_b with standard errors s_b.
    """
    m = variance = 0.0
    for rows in confidence_bins(stated.confidence):
        bin_rows = stated.only(rows)
        mean = row_mean(bin_rows.confidence - bin_rows.correct, bin_rows.patients)
        g = mean.value
        s = max(mean.standard_error**2, _model_variance(bin_rows))
        s = g * g if math.isinf(s) else s  # one patient shows nothing
        w = bin_rows.n_rows / stated.n_rows
        m += w * (g * g - s)
        variance += w * w * (4 * g * g * s + 2 * s * s)
    half = float(special.ndtri(0.5 + level / 2)) * math.sqrt(variance)
    value, low, high = (math.sqrt(max(0.0, m + side * half)) for side in (0, -1, 1))
    interval = Interval(low, high, level, METHOD)
    return Figure(
        name="gap over the range", value=value, interval=interval, limit=GAP_OVER_RANGE[0]
    )


def _top_tenth(stated: JudgedRows, level: float) -> Figure:
    """Return the share wrong in the most confident tenth, less the share that it allows itself.

    At least 20 answers. Equal confidences stay together: of the groups that can be cut off at the
    top it is the one nearest to that number, of 10 at least. Taking all ties in would dilute it: of
    1,000 answers of which 95 have .9 and the others .75, the tenth would be all.
    """
    value, counts = np.unique(-stated.confidence, return_counts=True)
    n = np.cumsum(counts)
    wanted = max(FEWEST_CONFIDENCES, math.ceil(stated.n_rows / 10))
    distance = np.where(n >= FEWEST_OF_A_KIND, np.abs(n - wanted), stated.n_rows)
    top = stated.only(stated.confidence >= -value[int(np.argmin(distance))])
    allowed = float(1 - top.confidence.mean())
    wrong = _share("wrong", ~top.correct, np.ones_like(top.correct), top, level)
    interval = Interval(wrong.low - allowed, wrong.high - allowed, level, "mid_p")
    return Figure(
        name="most confident tenth",
        value=wrong.value - allowed,
        interval=interval,
        limit=TOP_TENTH[0],
    )


# --- Usable alone? ----------------------------------------------------------------------------


def usable_alone(
    rows: JudgedRows,
    *,
    answers: BoolArray | None,
    lowest_risk: float,
    shown_too_risky: bool,
    risk: float,
    reason: Reason = "",
    level: float = DEFAULT_LEVEL,
) -> Judgement:
    """Tell whether the certified threshold may answer alone, and does better than a constant.

    ``answers`` are the rows that the cheapest certified threshold answers, None where none is
    certified; ``lowest_risk`` is the lowest of all tested thresholds, NaN where none was tested,
    with the ``reason``. ``shown_too_risky`` is `ThresholdSearch.exceeds_everywhere`: that all
    estimates are too high is no proof. *Yes*: certified, and L⁺(K_j − K; −1/k̄) > 0 for the cost K
    of that policy and every constant policy j. *No*: too risky, or U(K_j − K) ≤ 0 for some j.
    """
    if answers is None:
        figure = None
        if not math.isnan(lowest_risk):
            figure = Figure(name="lowest tested risk", value=lowest_risk, limit=risk)
        found = Judgement(word="cannot tell", figure=figure, reason=reason or "nothing certified")
        if shown_too_risky:
            found = replace(found, word="no", reason="too risky")
        return under_missing(lambda _: found, rows, lambda these: (these, these))
    cost = np.where(answers, rows.answer_cost, rows.price)
    policy = replace(rows, answered=answers, cost=cost, rivals=())
    return under_missing(lambda these: _usable(these, level), policy, _cost_bounds)


def _usable(policy: JudgedRows, level: float) -> Judgement:
    counts = {"answered": int(policy.answered.sum()), "cases": policy.n_rows}
    if policy.diseased is not None and policy.told_positive is not None:
        told = policy.answered & policy.diseased & ~policy.told_positive
        counts |= {"diseased": int(policy.diseased.sum()), "told otherwise": int(told.sum())}
    saved = _Saved.by(policy, level)
    found = Judgement(
        word="cannot tell", figure=saved.figure(), counts=counts, comparator=saved.hardest
    )
    if saved.least > SAME_COST:
        return replace(found, word="yes", comparator=saved.best)
    if saved.worse:
        return replace(found, word="no", reason="a constant does as well", comparator=saved.worse)
    return replace(found, reason="not shown", patients_to_tell=saved.patients_to_tell())


# --- Lines without a word ---------------------------------------------------------------------


def missed_disease(rows: JudgedRows, level: float = DEFAULT_LEVEL) -> Judgement:
    """Count the diseased who were found, told otherwise and left for people.

    Beside them stands the share of negative answers that were wrong.
    """
    if rows.diseased is None or rows.told_positive is None:
        return Judgement(word=None, reason="no positive answer")
    known = rows.only(rows.evaluated)
    assert known.diseased is not None
    assert known.told_positive is not None
    ill, positive = known.diseased, known.told_positive
    parts = {
        "found": known.answered & positive,
        "told otherwise": known.answered & ~positive,
        "left for people": ~known.answered,
    }
    counts = {name: int(np.count_nonzero(which & ill)) for name, which in parts.items()}
    counts["diseased"] = int(ill.sum())
    counts["not evaluated"] = rows.n_rows - known.n_rows
    shares = [_share(name, which, ill, known, level) for name, which in parts.items()]
    negative = parts["told otherwise"]
    counts["negative answers"] = int(negative.sum())
    wrong = _share("negative answers wrong", ill, negative, known, level)
    found = Judgement(word=None, counts=counts, beside=[*shares, wrong])
    return found if ill.any() else replace(found, reason="none diseased")


# --- An assumed price -------------------------------------------------------------------------


def prices_that_keep(
    word_at: Callable[[float], Word | None], price: float = 0.2, step: float = 0.01
) -> tuple[float, float]:
    """Return the range of prices around an assumed one, on a grid, over which its word holds.

    >>> prices_that_keep(lambda price: "yes" if 0.115 < price < 0.357 else "no")
    (0.12, 0.35)
    """
    word, last = word_at(price), round(1 / step) - 1
    at = low = high = round(price / step)
    while low > 1 and word_at(round((low - 1) * step, 9)) == word:
        low -= 1
    while high < last and word_at(round((high + 1) * step, 9)) == word:
        high += 1
    assert low <= at <= high
    return round(low * step, 9), round(high * step, 9)
