"""The verdict of a run: what a head of department reads first, each line one `Finding`.

The words come from `krisis.decisions.judging`, whose rules simulations hold to their error. Here
each judgement becomes a sentence, made from the same figures, limits and comparators; no other
module writes one. A verdict is a view and no claim: it is not a certificate, and the ledger of a
run does not record it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from krisis.decisions import judging
from krisis.decisions.judged_rows import (
    ALWAYS_DEFER,
    SAME_COST,
    Figure,
    JudgedRows,
    Judgement,
)
from krisis.decisions.judged_run import JudgedRun, judged_run, judged_table
from krisis.decisions.threshold_in_force import RiskBound, ThresholdInForce, threshold_of_run
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, Table
from krisis.pages.document import Column, Finding, Stated, Verdict
from krisis.pages.missed import Missed
from krisis.pages.numbers import Estimate, count, counted, given
from krisis.results.account import OtherCosts
from krisis.results.base import BenchmarkResult, one_kind
from krisis.results.group_labels import group_words
from krisis.results.run_items import items_of_result, source_of
from krisis.results.stops import Unfinished
from krisis.statistics.group_gaps import SMALLEST_GROUP, gap_interval
from krisis.statistics.intervals import DEFAULT_LEVEL, Interval, common_level
from krisis.statistics.shares import share_interval
from krisis.task_facts import TaskFacts

PEOPLE = ("physician", "reader")  # baselines that are people
# Baselines that show a limit and are no rival: constant policies, the reader who knows it all, and
# what only an extra adds.
LIMITS = ("always-abstain", "majority", "ideal", "boosting", "rule/always-0")
FEW_PATIENTS = 30  # with several rows each, words are wrong more often
_GROUP_ERROR = 0.05  # chance of naming any group where none differs
_MORE_LEFT = 0.20  # so much more often left for people than the rest
# Of more rows, the prices that keep a word are not looked for.
_MOST_TRIED = 20_000


def verdict_of(result: BenchmarkResult, bound: RiskBound | None = None) -> Verdict:
    """Answer the questions about a run, beside the baselines that were stored with it.

    >>> from krisis import EvaluationResult
    >>> rows = [EvaluationResult(1, 1, confidence=0.9), EvaluationResult(0, 1, confidence=0.8)]
    >>> verdict = verdict_of(BenchmarkResult(rows, {}, {}))
    >>> verdict.line("correctness").answer is None
    True
    """
    result, about = one_kind(result)
    judge = _Judge.of(result, about)
    run = items_of_result(result, source_of(result))
    in_force = threshold_of_run(run, bound)
    lines = [
        judge.worth(),
        judge.knew(),
        judge.right(),
        judge.missed(),
        judge.confidence(),
        judge.usable(in_force),
        left_line(run.table, in_force),
        groups_line(run.table, in_force, judge.level),
    ]
    return Verdict([one for one in lines if one is not None], about, judge.level, judge.note())


def threshold_verdict(run: RunItems, in_force: ThresholdInForce) -> Verdict:
    """Return the lines that a threshold decides; where none is certified, the lowest risk alone."""
    lines = [usable_line(run, in_force)]
    if in_force.certified:
        lines += [left_line(run.table, in_force), groups_line(run.table, in_force)]
    return Verdict(lines)


def usable_line(run: RunItems, in_force: ThresholdInForce) -> Finding:
    """Say whether a threshold makes a run usable alone."""
    person, unit = run.words
    task = TaskFacts("", person=person, unit=unit, costs=run.table.answers.costs)
    judged = judged_table(run.table)
    return _Judge(
        run=judged,
        task=task,
        level=DEFAULT_LEVEL,
        is_running=False,
        is_imported=False,
        is_own_table=False,
        what_if=None,
    ).usable(in_force)


def is_itself(model: str, baseline: str) -> bool:
    """Tell whether a baseline, of all patients or of one kind, is the model that was run.

    >>> is_itself("guideline", "guideline (real)"), is_itself("openai/x", "guideline")
    (True, False)
    """
    return baseline == model or (bool(model) and baseline.startswith(f"{model} ("))


def _rivals(result: BenchmarkResult, about: str) -> dict[str, str]:
    """Return the baselines that a model can be compared with, and what they are called.

    Of several kinds of patients each has baselines of its own, such as "guideline (real)".
    """
    kind = f" ({about.partition(' ')[0]})" if about else ""
    own = {
        name: name.removesuffix(kind)
        for name in result.baseline_rows
        if name.endswith(kind) or name.partition(" ")[0] in PEOPLE
    }
    return {
        name: shown
        for name, shown in own.items()
        if shown not in LIMITS
        and not is_itself(result.backend_name, name)
        and len(result.baseline_rows[name])
    }


@dataclass(frozen=True, slots=True)
class _Judge:
    """A run with what its sentences need: the judged rows, the task, the level of the page."""

    run: JudgedRun
    task: TaskFacts
    level: float
    is_running: bool
    is_imported: bool
    is_own_table: bool
    what_if: OtherCosts | None

    @classmethod
    def of(cls, result: BenchmarkResult, about: str) -> _Judge:
        made = result.provenance
        rivals = {
            shown: result.baseline_rows[name] for name, shown in _rivals(result, about).items()
        }
        offered = made.imported is None or result.rows.table.n_abstained > 0
        level = common_level(score.interval for score in result.metric_scores.values())
        return cls(
            judged_run(result.rows, rivals, offered_abstention=offered),
            made.task_facts or TaskFacts(""),
            level,
            isinstance(result.stop, Unfinished) and result.n_left > 0,
            made.imported is not None,
            str(made.config.get("suite", "")).endswith((".yaml", ".yml")),
            made.what_if,
        )

    def note(self) -> str:
        """Say what the model was told of costs, and where words are wrong more often."""
        rows, said = self.run.rows, [self._costs(), *self._told()]
        if rows.n_rows > rows.n_patients < FEW_PATIENTS:
            said.append(
                f"With fewer than {FEW_PATIENTS} {self.task.person}s of several rows each, a word "
                "can be wrong in up to 8 % of studies instead of 5 %."
            )
        return " ".join(said)

    def _costs(self) -> str:
        """Say what errors and deferrals cost, in the unit of all costs above."""
        costs, answers = self.task.costs, self.task.answer_set
        price = given(round(costs.price, 9))
        if costs.are_equal:
            return f"Costs: a wrong answer 1, a deferral {price}."
        if len(answers.allowed) > 2:
            return f"Costs: the costliest error 1, a deferral {price}."
        errors = [
            f"{answers.name(truth)} called {answers.name(answer)} "
            f"{given(round(costs.of(truth, answer), 9))}"
            for truth in answers.allowed
            for answer in answers.allowed
            if truth != answer
        ]
        return f"Costs: {', '.join(errors)}, a deferral {price}."

    def _told(self) -> list[str]:
        """Say what the model was told of costs, and what else it is judged by."""
        price, told = self.task.costs.price, self.task.told
        judged = f"judged at {given(round(100 * price, 9))} %"
        if told is not None and not math.isclose(told, price):
            return [f"The price of a deferral: told {given(round(100 * told, 9))} %, {judged}."]
        if self.what_if is not None:
            stated = self.what_if.stated_price
            if math.isclose(stated, price):
                return ["Judged by other costs of errors than the run states."]
            words = f"the run states {given(round(100 * stated, 9))} %, {judged}"
            return [f"The price of a deferral: {words}."]
        return ["Nobody was told what a deferral costs."] if self.is_imported else []

    # --- One line each ---------------------------------------------------------------------

    def worth(self) -> Finding:
        found = self._judged(judging.worth_using)
        figures, compared = [], []
        saved = _named(found, "saved per 100")
        if found.figure is not None and found.figure.name == "skill":
            words = "decision skill {} (best constant policy 0, ideal 1)"
            figures.append(_stated(words, found.figure, kind="figure", brief=False))
        if saved is not None:
            figures.insert(0, self._saved(saved, self.run.rows.best_constant))
        for one in found.beside:
            rival = one.name.removeprefix("saved per 100 against ")
            if rival != one.name:
                compared.append(self._against(rival, one, brief=rival == found.comparator))
        return self._finding("worth", "Worth using?", found, figures, compared, priced=True)

    def _saved(self, saved: Figure, policy: str) -> Stated:
        """Say what is saved against a constant policy, or what more it costs."""
        estimate = Estimate.of(saved.value, saved.interval, bound=0.0)
        units, other = f"per 100 {self.task.unit}s", self._policy(policy)
        words = f"saves {{}} {units} against {other}"
        if saved.value < 0:
            words, estimate = f"costs {{}} more {units} than {other}", estimate.negated()
        return Stated(words=words, estimate=estimate, kind="figure")

    def _against(self, rival: str, saved: Figure, *, brief: bool) -> Stated:
        """Say what a rival saves more or less than the run, the larger number first."""
        estimate = Estimate.of(saved.value, saved.interval, bound=0.0)
        if saved.value < 0:
            words, estimate = f"{rival} saves {{}} more", estimate.negated()
        else:
            words = f"{{}} more than {rival}"
        return Stated(words=words, estimate=estimate, kind="figure", brief=brief)

    def knew(self) -> Finding:
        found = self._judged(judging.knew_when)
        figures = [Stated(words=self._deferred(found.counts, found.reason == "checklist"))]
        if not found.counts:
            figures = []
        if found.figure is not None:
            words = "deferral skill {}, 1 being ideal"
            figures.append(_stated(words, found.figure, kind="figure"))
        return self._finding("deferral", "Knew when not to answer?", found, figures, priced=True)

    def _deferred(self, n: dict[str, int] | object, is_checklist: bool) -> str:
        assert hasattr(n, "get")
        due, safe = ("flagged", "not flagged") if is_checklist else ("due", "safe")
        without = n.get("due without an answer", 0)
        both = f"deferred {count(n.get('due deferred', 0))}"
        both += f", no answer {count(without)}," if without else ""
        return (
            f"{both} of {count(n.get('due', 0))} {due}, answered "
            f"{count(n.get('safe answered', 0))} of {count(n.get('safe', 0))} {safe}"
        )

    def right(self) -> Finding:
        found = self._judged(judging.right_when_answered)
        figures, compared = [], []
        if found.figure is not None:
            words = "an answer costs {}, deferring {limit}"
            figures.append(_stated(words, found.figure, kind="figure"))
        n = found.counts.get("answers", 0)
        for one in found.beside:
            if one.name == "share right":
                figures.append(_stated(f"right in {{}} of {count(n)}", one))
            elif one.name == "mean distance":
                words = f"off by {{}} on average in {counted(n, 'answer')}"
                figures.append(_stated(words, one, kind="figure"))
            elif one.name == found.comparator:
                words = f"{one.name} is cheaper by {{}} where both answered"
                compared.append(_stated(words, one, kind="figure"))
        return self._finding(
            "correctness", "Right when it answered?", found, figures, compared, priced=True
        )

    def missed(self) -> Finding | None:
        found = Missed.of(self.run.scored)
        return None if found is None else found.finding(self.task.unit, self.level)

    def confidence(self) -> Finding:
        found = self._judged(judging.confidence_trustworthy)
        shown = [one for one in (found.figure, *found.beside) if one is not None]
        figures = [_confidence_figure(one, brief=one is found.figure) for one in shown]
        return self._finding("confidence", "Confidence trustworthy?", found, figures)

    def usable(self, in_force: ThresholdInForce) -> Finding:
        plain = _threshold_line(in_force, self.task.person, self.level)
        answers = self._answers_of(in_force) if in_force.certified else None
        found = self._judged(
            partial(
                judging.usable_alone,
                answers=answers,
                lowest_risk=in_force.lowest_risk,
                shown_too_risky=_is_too_risky(in_force, self.level),
                risk=in_force.bound.risk,
            )
        )
        figures = list(plain.figures)
        if answers is None:
            line = self._finding("usable", plain.question, found, figures)
            is_plain = found.reason in ("too risky", "nothing certified")
            return replace(line, reason=plain.reason) if is_plain else line
        if found.figure is not None and self.run.rows.n_patients >= judging.FEWEST_PATIENTS:
            figures.append(self._saved(found.figure, self.run.rows.best_constant))
        missed = Missed.of(self.run.scored, answers)
        if missed is not None and missed.ill.any():
            n, _, told, _ = missed.counts()
            figures.append(Stated(words=f"misses {count(told)} of {count(n)} diseased"))
        return self._finding("usable", plain.question, found, figures)

    def _answers_of(self, in_force: ThresholdInForce) -> BoolArray:
        """Return which judged rows a threshold answers: those of the items that it does."""
        rows, run = self.run.rows, self.run.table
        assert in_force.threshold is not None or in_force.answered is not None
        if in_force.answered.size == rows.n_rows:
            return in_force.answered
        assert in_force.threshold is not None
        found: BoolArray = rows.answered & (np.nan_to_num(run.confidence) >= in_force.threshold)
        return found

    # --- From a judgement to a sentence ----------------------------------------------------

    def _judged(self, rule: Callable[..., Judgement]) -> Judgement:
        found = rule(self.run.rows, level=self.level)
        return found.so_far() if self.is_running and found.reason != "checklist" else found

    def _finding(
        self,
        key: str,
        question: str,
        found: Judgement,
        figures: Sequence[Stated] = (),
        compared: Sequence[Stated] = (),
        *,
        priced: bool = False,
    ) -> Finding:
        return Finding(
            key,
            question,
            found.word,
            figures,
            compared,
            reason=self._reason(key, found),
            condition=self._condition(key, found) if priced else "",
            provisional=found.provisional,
        )

    def _condition(self, key: str, found: Judgement) -> str:
        """Say for which prices a word holds, where the task states none."""
        costs = self.task.costs
        if not costs.assumed or found.word is None:
            return ""
        price = given(round(100 * costs.price, 9))
        if found.word == "cannot tell":
            # It has nothing to hold; the first line says what to set.
            told = f"a deferral is assumed to cost {price} % of an error: set `price:`"
            return told if key == "worth" else ""
        told = f"{price} % assumed: set {'--price' if self.is_imported else '`price:`'}"
        if key == "deferral" and self.run.rows.lowest is None:
            return ""  # by a label, all stakes are equal
        if self.run.rows.n_rows > _MOST_TRIED:
            return f"if a deferral costs {price} % of an error ({told})"
        rule = _PRICED[key]
        low, high = judging.prices_that_keep(
            lambda price: rule(self.run.at(price), self.level).word, costs.price
        )
        between = f"{given(round(100 * low))} to {given(round(100 * high))} %"
        return f"if a deferral costs {between} of an error ({told})"

    def _policy(self, name: str) -> str:
        return "always deferring" if name == ALWAYS_DEFER else f"answering {name} to everybody"

    def _reason(self, key: str, found: Judgement) -> str:
        """Return why a word is what it is; of "cannot tell", also what would tell."""
        said = self._why(key, found)
        is_open = found.reason == "not shown" or found.reason.startswith("too few")
        if found.word != "cannot tell" or not is_open:
            return said
        return "; ".join(filter(None, (said, _enough(found.patients_to_tell, self.task.person))))

    def _ways_to_tell(self) -> tuple[str, str, str]:
        """Say how a user gets a rival, a deferral label and a confidence."""
        if self.is_imported:
            return (
                "name people's answers with --reader",
                "name the column with --should-defer",
                "name the column with --confidence",
            )
        if self.is_own_table:
            add = "add `split:` for a logistic baseline"
            return add, "declare `deferral:` in the task", "ask for one"
        return "run it with baselines", "only a label would tell", "ask for one"

    def _why(self, key: str, found: Judgement) -> str:
        policy = self._policy(found.comparator) if found.comparator else ""
        person, unit = self.task.person, self.task.unit
        n_missing = found.counts.get("not evaluated", 0)
        # The figure is against the best constant policy, and need not be said again.
        is_beside = found.comparator in ("", self.run.rows.best_constant)
        saved = _named(found, "saved per 100")
        is_worse = saved is not None and saved.value < -SAME_COST
        rival = _named(found, f"saved per 100 against {found.comparator}")
        is_dearer = rival is not None and rival.high < 0
        add, label, ask = self._ways_to_tell()
        price = given(100 * self.run.rows.price)
        constant = "" if is_beside and is_worse else f"{policy} does as well"
        known = {
            "not shown": "" if is_beside else f"not shown to be better than {policy}",
            "no rival": "no rival is cheaper than a constant policy"
            if self.run.rows.rivals
            else f"no rival to compare with: {add}",
            "rival not beaten": f"{found.comparator} is cheaper"
            if is_dearer
            else f"not shown to be cheaper than {found.comparator}",
            "no better": constant,
            "a constant does as well": constant,
            "too few patients": f"fewer than {judging.FEWEST_PATIENTS} {person}s: figures, no word",
            "too many not evaluated": f"{count(n_missing)} {unit}s were not evaluated: resume the "
            "run for a word",
            "not evaluated": f"it depends on the {counted(n_missing, unit)} not evaluated: resume "
            "the run",
            "nothing evaluated": f"no {unit} was evaluated",
            "running": "so far",
            "abstention was not offered": "no row abstains: name the column with --abstained, if "
            "abstaining was offered",
            "no label": f"no {unit} says whether it should be deferred: {label}",
            "checklist": "a checklist, on which no word rests",
            "no due case": f"no {unit} is due for deferral: include some that are",
            "no safe case": f"every {unit} is due for deferral: include some that are "
            "safe to answer",
            "all due cases are ties": "answering the due cases costs what deferring does: another "
            "`price:` would tell",
            "deferred nothing": "it never deferred",
            "deferred all": "it never answered",
            "no answer": f"it answered no {unit}: only answers would tell",
            "too few answers": f"fewer than {judging.FEWEST_OF_A_KIND} answers",
            "only better than constant": "only shown better than the best constant answer",
            "rival better": "",
            "no confidence": f"it stated no confidence: {ask}",
            "too few confidences": f"fewer than {judging.FEWEST_CONFIDENCES} answers with a "
            "confidence",
        }
        for kind in ("due", "safe"):
            few = f"fewer than {judging.FEWEST_OF_A_KIND}"
            known[f"too few {kind} cases"] = f"{few} {kind} cases"
            known[f"too few patients with {kind} cases"] = f"{few} {person}s with {kind} cases"
        if key == "confidence" and found.word == "partly" and not found.reason:
            assert found.figure is not None
            mean = found.figure.name == "mean gap"
            limit = judging.GAP[1] if mean else judging.TOP_TENTH[1]
            return f"its interval reaches beyond {given(round(100 * limit, 9))} points"
        if key == "correctness" and found.word == "no" and not found.reason:
            if self.task.costs.are_equal:
                return f"a deferral costs as much as being wrong in {price} %"
            return "deferring would be cheaper"
        return known.get(found.reason, found.reason)


_PRICED: dict[str, Callable[[JudgedRows, float], Judgement]] = {
    "worth": judging.worth_using,
    "deferral": judging.knew_when,
    "correctness": judging.right_when_answered,
}


def _enough(n_patients: int | None, person: str) -> str:
    """Say how many patients would tell."""
    about = f"about {count(n_patients)}" if n_patients else "more"
    return f"{about} {person}s would tell"


def _named(found: Judgement, name: str) -> Figure | None:
    """Return a figure of a judgement by its name."""
    shown = [one for one in (found.figure, *found.beside) if one is not None and one.name == name]
    return shown[0] if shown else None


def _stated(words: str, figure: Figure, *, kind: str = "share", brief: bool = True) -> Stated:
    estimate = Estimate.of(figure.value, figure.interval, bound=figure.limit)
    return Stated(words=words, estimate=estimate, kind=kind, brief=brief)  # type: ignore[arg-type]


def _confidence_figure(figure: Figure, *, brief: bool) -> Stated:
    """Say how far confidence is off: on the whole, over its range, or where it is highest."""
    estimate = Estimate.of(figure.value, figure.interval, bound=figure.limit)
    is_low = figure.value < 0
    size = replace(estimate.negated() if is_low else estimate, bound=figure.limit)
    if figure.name == "mean gap" and figure.low < 0 < figure.high:
        words = "{} between mean confidence and share right (limit {limit})"
        size = replace(estimate, bound=figure.limit)
    elif figure.name == "mean gap":
        words = f"{{}} too {'low' if is_low else 'high'} on average (limit {{limit}})"
    elif figure.name == "gap over the range":
        words = "{} off over the range (limit {limit})"
    else:
        more = "less" if is_low else "more"
        words = f"most confident tenth wrong {{}} {more} often than stated (limit {{limit}})"
    return Stated(words=words, estimate=size, kind="points", brief=brief)


# --- Usable at the risk that is allowed? ----------------------------------------------------


def _threshold_line(in_force: ThresholdInForce, person: str, level: float) -> Finding:
    """Say from which confidence on a run may answer, or the lowest risk that it reaches."""
    allowed = f"{given(round(100 * in_force.bound.risk, 9))} %"
    if not in_force.is_share:  # the loss of an answer is what it costs
        allowed = f"a mean cost of {given(in_force.bound.risk)}"
    question = f"Usable alone at {allowed}?"
    if in_force.threshold is not None:
        share = Estimate.of(float(in_force.answered.mean()), in_force.coverage())
        figures = [
            Stated(
                words="from a confidence of {}",
                estimate=Estimate(in_force.threshold),
                kind="threshold",
            ),
            Stated(words="answers {} of cases", estimate=share),
        ]
        return Finding("usable", question, "yes", figures)
    if math.isnan(in_force.lowest_risk):
        return Finding("usable", question, "cannot tell", reason=in_force.reason)
    most = counted(in_force.n_lowest, "most confident answer")
    lowest = Estimate(in_force.lowest_risk, bound=in_force.bound.risk)
    is_share = in_force.is_share
    words = f"{{}} wrong in its {most}" if is_share else f"mean cost {{}} in its {most}"
    figures = [Stated(words=words, estimate=lowest, kind="share" if is_share else "figure")]
    if _is_too_risky(in_force, level):
        return Finding("usable", question, "no", figures)
    enough = _enough(in_force.patients_to_tell, person)
    return Finding("usable", question, "cannot tell", figures, reason=enough)


def _is_too_risky(in_force: ThresholdInForce, level: float) -> bool:
    search = in_force.search
    return search is not None and search.exceeds_everywhere(level)


# --- Left for people ------------------------------------------------------------------------


def left_line(table: Table, in_force: ThresholdInForce) -> Finding:
    """Count the cases that are left for people."""
    n, below = in_force.n_left, 0
    why = "abstained or gave no answer" if n else ""
    if in_force.certified:
        below = n - int(np.count_nonzero(~table.answered))
    which = "all" if below == n else f"{count(below)} of them"
    parts = f", {which} below that confidence" if below > 0 else ""
    if missing := table.n_not_evaluated:
        parts += f"; {count(missing)} more not evaluated"
    if below > 0:
        why = f"the others {why}" if below < n else ""
    share = Stated(
        words=f"{count(n)} of {count(table.n_scored)} cases ({{}}){parts}",
        estimate=Estimate(n / table.n_scored),
    )
    return Finding("left_for_people", "Left for people", None, [share], reason=why)


# --- Groups to watch ------------------------------------------------------------------------


def groups_line(table: Table, in_force: ThresholdInForce, level: float = DEFAULT_LEVEL) -> Finding:
    """Name the declared groups with more errors, more missed disease or far more left for people.

    At a certified threshold errors are compared with the allowed risk, all else with the other
    patients. The lower limit of the gap must be above 0, at a level divided by the number of
    comparisons (Bonferroni).
    """
    question = "Groups to watch"
    if not table.answers.groups:
        return Finding("groups", question, None, reason="the task declares no groups")
    large = _large_groups(table)
    if not large:
        reason = f"no group has {SMALLEST_GROUP} patients or more"
        return Finding("groups", question, None, reason=reason)
    missed = Missed.of(table, in_force.answered)
    adjusted = 1 - 2 * _GROUP_ERROR / ((2 if missed is None else 3) * len(large))
    watched = _Watched(table, in_force, missed, max(adjusted, 0.5), level)
    found = [said for name, inside in large for said in watched.of(name, inside)]
    if found:
        return Finding("groups", question, None, found)
    groups = counted(len(large), "group")
    named = f"none stands out of {groups} of {SMALLEST_GROUP} patients or more"
    return Finding("groups", question, None, reason=named)


@dataclass(frozen=True, slots=True)
class _Watched:
    """What groups are watched for; ``adjusted`` is the level of a comparison."""

    table: Table
    in_force: ThresholdInForce
    missed: Missed | None
    adjusted: float
    level: float

    def of(self, name: str, inside: BoolArray) -> list[Stated]:
        """Return a sentence for each thing that a group is watched for."""
        return [*self._errors(name, inside), *self._missed(name, inside), *self._left(name, inside)]

    def _errors(self, name: str, inside: BoolArray) -> list[Stated]:
        in_force, answered = self.in_force, self.in_force.answered
        lost = (answered & ~self.table.correct).astype(np.float64)
        if in_force.certified and not in_force.is_share:  # the bound is one of the mean cost
            assert in_force.sample is not None
            lost = np.where(answered, in_force.sample.loss, 0.0)
        here, rest = answered & inside, answered & ~inside
        if not here.any() or not (rest.any() or in_force.certified):
            return []
        if in_force.certified:
            limit = in_force.bound.risk
            is_worse = self._share(lost, here, self.adjusted).low > limit
            beside = "at most {limit} allowed"
        else:
            limit = float(lost[rest].mean())
            is_worse = self._gap(lost, here, rest).low > 0
            beside = f"the others {_percent(limit)}"
        if not is_worse:
            return []
        usual = replace(self._share(lost, here, self.level), bound=limit)
        if in_force.certified and not in_force.is_share:
            words = f"{name}: mean cost {{}} ({beside})"
            return [Stated(words=words, estimate=usual, kind="figure")]
        return [Stated(words=f"{name}: {{}} wrong ({beside})", estimate=usual)]

    def _missed(self, name: str, inside: BoolArray) -> list[Stated]:
        if self.missed is None:
            return []
        ill, other = self.missed.ill, f"told {self.missed.other}"
        told = self.missed.parts()[other]
        here, rest = ill & inside, ill & ~inside
        if not (here.any() and rest.any() and self._gap(told, here, rest).low > 0):
            return []
        n = f"{_percent(float(told[here].mean()))} of {count(int(here.sum()))}"
        words = f"{name}: {n} with {self.missed.positive} {other} (the others {{}})"
        return [Stated(words=words, estimate=Estimate(float(told[rest].mean())))]

    def _left(self, name: str, inside: BoolArray) -> list[Stated]:
        left = ~self.in_force.answered
        if inside.all():
            return []
        others = float(left[~inside].mean())
        is_more = float(left[inside].mean()) - others >= _MORE_LEFT
        if not (is_more and self._gap(left, inside, ~inside).low > 0):
            return []
        n = f"{_percent(float(left[inside].mean()))} of {count(int(inside.sum()))}"
        words = f"{name}: {n} left for people (the others {{}})"
        return [Stated(words=words, estimate=Estimate(others))]

    def _gap(self, hits: np.ndarray, here: BoolArray, rest: BoolArray) -> Interval:
        """Return the interval of the share in a group less that in the rest."""
        parts = [self._interval(hits, rows, self.adjusted) for rows in (here, rest)]
        values = (float(hits[here].mean()), float(hits[rest].mean()))
        return gap_interval(values, (parts[0], parts[1]), 0.0)

    def _share(self, hits: np.ndarray, rows: BoolArray, level: float) -> Estimate:
        return Estimate.of(float(hits[rows].mean()), self._interval(hits, rows, level))

    def _interval(self, hits: np.ndarray, rows: BoolArray, level: float) -> Interval:
        patients = self.table.patients
        return share_interval(patients.sums(hits * rows), patients.sums(rows), level=level)


def _percent(value: float) -> str:
    return Column("share", "").write(value)


def _large_groups(table: Table) -> list[tuple[str, BoolArray]]:
    """Return the rows of every declared group with enough patients."""
    found = []
    for column in table.answers.groups:
        names, codes = table.grouped(column)
        for code, name in enumerate(names):
            inside = codes == code
            if np.unique(table.patients.code[inside]).size >= SMALLEST_GROUP:
                found.append((group_words(column, name).replace(": ", " "), inside))
    return found
