"""The verdict of a run: six questions, answered by rules that simulations hold to their error.

The first two lines compare the model with the guideline and with the best constant policy on the
same cases; where a suite has no guideline, with the people who read them, and right answers else
with the best baseline. *Yes* when the whole interval is on the good side of both, *no* when it is
on the bad side of the constant policy, *partly* when it is above the constant policy and not shown
to be above the other, otherwise *cannot tell*, with the difference that decided. A verdict is a
view and no claim: it is not a certificate, and the ledger of a run does not record it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from krisis.decisions.run_sample import MOST_NOT_EVALUATED
from krisis.decisions.threshold_in_force import RiskBound, ThresholdInForce, threshold_of_run
from krisis.metrics.calibration import ExpectedCalibrationError
from krisis.metrics.decision import decisions_of
from krisis.metrics.forms import Share, Undefined, prior_icc
from krisis.metrics.table import BoolArray, FloatArray, Table
from krisis.pages.document import Reply, Stated, Verdict, VerdictLine
from krisis.pages.numbers import Estimate, count, counted, given, level
from krisis.results.base import BenchmarkResult, one_kind
from krisis.results.group_labels import group_words
from krisis.results.run_items import items_of_result, source_of
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.group_gaps import SMALLEST_GROUP
from krisis.statistics.intervals import DEFAULT_LEVEL, Interval
from krisis.statistics.shares import share_interval

GUIDELINE = "guideline"
PEOPLE = ("physician", "reader")  # baselines that are people
# Baselines that show a limit and are no rival: constant policies, and the reader who knows it all.
LIMITS = ("always-abstain", "majority", "ideal")
# How far mean confidence may be from the share of right answers and still be called trustworthy.
TRUSTED_GAP = 0.05
_MOST_CONFIDENT = 0.1  # the share of answers whose risk is looked at apart
_GROUP_ERROR = 0.05  # chance of naming any group where none differs


def verdict_of(result: BenchmarkResult, bound: RiskBound | None = None) -> Verdict:
    """Answer the six questions about a run, beside the baselines on the same cases.

    >>> from krisis import EvaluationResult
    >>> rows = [EvaluationResult(1, 1, confidence=0.9), EvaluationResult(0, 1, confidence=0.8)]
    >>> verdict = verdict_of(BenchmarkResult(rows, {}, {}))
    >>> verdict.line("correctness").answer
    'cannot tell'
    """
    result, about = one_kind(result)
    run = items_of_result(result, source_of(result))
    guideline = _guideline(run.table, result, about)
    in_force = threshold_of_run(run, bound)
    return Verdict(
        [
            _knew_when(run.table, guideline),
            _right(run.table, guideline or _best_baseline(run.table, result, about)),
            _trusted(run.table),
            usable_line(in_force),
            left_line(run.table, in_force),
            groups_line(run.table, in_force),
        ],
        about,
    )


def threshold_verdict(table: Table, in_force: ThresholdInForce) -> Verdict:
    """Return the lines that a threshold decides; where none is certified, the lowest risk alone."""
    lines = [usable_line(in_force)]
    if in_force.certified:
        lines += [left_line(table, in_force), groups_line(table, in_force)]
    return Verdict(lines)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the verdict whose answer is still to be found."""

    key: str
    question: str

    def __call__(
        self,
        answer: Reply | None,
        figures: Sequence[Stated] = (),
        compared: Sequence[Stated] = (),
        *,
        reason: str = "",
    ) -> VerdictLine:
        return VerdictLine(
            key=self.key,
            question=self.question,
            answer=answer,
            figures=figures,
            compared=compared,
            reason=reason,
        )


@dataclass(frozen=True, slots=True)
class _Comparator:
    """What the guideline, a person or a baseline did with the cases of a table, row by row.

    Both may lack some cases.
    """

    name: str
    known: BoolArray
    answered: BoolArray
    abstained: BoolArray
    correct: BoolArray


def is_itself(model: str, baseline: str) -> bool:
    """Tell whether a baseline, of all patients or of one kind, is the model that was run.

    >>> is_itself("guideline", "guideline (real)"), is_itself("openai/x", "guideline")
    (True, False)
    """
    return baseline == model or (bool(model) and baseline.startswith(f"{model} ("))


def _guideline(table: Table, result: BenchmarkResult, about: str) -> _Comparator | None:
    """Return the guideline, else a person who read the cases: that is what a model must beat."""
    known = _rivals(result, about)
    chosen = [one for one in known if known[one] == GUIDELINE]
    chosen += [one for one in known if one.partition(" ")[0] in PEOPLE]
    return _judged(table, result, chosen[0], known[chosen[0]]) if chosen else None


def _best_baseline(table: Table, result: BenchmarkResult, about: str) -> _Comparator | None:
    """Return the baseline that is most often right on the answers that it shares with the model."""
    known = _rivals(result, about)
    found = [_judged(table, result, one, known[one]) for one in known]
    both = [(one, table.answered & one.answered) for one in found]
    shares = {one.name: (float(one.correct[at].mean()), one) for one, at in both if at.any()}
    return max(shares.values(), key=lambda pair: pair[0])[1] if shares else None


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


def _judged(table: Table, result: BenchmarkResult, name: str, shown: str) -> _Comparator:
    theirs = result.baseline_rows[name].table
    at = {record: place for place, record in enumerate(theirs.record_ids)}
    places = np.array([at.get(one, -1) for one in table.record_ids], dtype=np.int64)
    found = places >= 0
    columns = (theirs.answered, theirs.abstained, theirs.correct)
    return _Comparator(shown, found, *(found & column[places] for column in columns))


# --- Comparing with two policies ------------------------------------------------------------

# What is averaged, and over which rows.
Part = tuple[FloatArray, BoolArray]


def _mean_of_parts(table: Table, parts: Sequence[Part]) -> Estimate:
    """Return the mean, over the parts, of the mean of each part's values, which lie in ±1.

    The interval is Student's, from the influence of each patient: with s and r the sum and the
    number of a patient's rows in a part of R rows with mean m, the patient moves that mean by
    (s − m·r)/R. At each end one patient with the worst value is added, for what was not seen:
    without it, values that are all equal would give an interval without width.
    """
    patients = table.patients
    value = math.fsum(float(v[among].mean()) for v, among in parts) / len(parts)
    sums = [patients.sums(np.where(among, v, 0.0)) for v, among in parts]
    rows = [patients.sums(among) for _, among in parts]
    low = min(value, _end(sums, rows, -1.0))
    high = max(value, _end(sums, rows, 1.0))
    return Estimate(value, max(-1.0, low), min(1.0, high), DEFAULT_LEVEL, bound=0.0)


def _end(sums: Sequence[FloatArray], rows: Sequence[FloatArray], worst: float) -> float:
    added = [(np.append(s, worst), np.append(r, 1.0)) for s, r in zip(sums, rows, strict=True)]
    means = [s.sum() / r.sum() for s, r in added]
    moved = sum((s - m * r) / r.sum() for m, (s, r) in zip(means, added, strict=True)) / len(added)
    n = int(np.any([r > 0 for _, r in added], axis=0).sum())
    error = math.sqrt(n / (n - 1) * float(moved @ moved))
    t = float(special.stdtrit(n - 1, 1 - (1 - DEFAULT_LEVEL) / 2))
    return float(np.mean(means)) + math.copysign(t * error, worst)


def _compared(table: Table, constant: Estimate, guideline: Estimate | None, n: int) -> Reply:
    """Answer by two differences, both positive where the model is better."""
    low, high = _with_missing(table, constant, n)
    if high < 0:
        return "no"
    if low <= 0:
        return "cannot tell"
    if guideline is None or _with_missing(table, guideline, n)[0] > 0:
        return "yes"
    return "partly"


def _is_too_incomplete(table: Table) -> bool:
    """Tell whether cases that were not evaluated are too many to be passed over."""
    return table.n_not_evaluated > MOST_NOT_EVALUATED * table.n_rows


def _with_missing(table: Table, estimate: Estimate, n: int) -> tuple[float, float]:
    """Return the ends of an interval, moved as far as cases that were not evaluated could."""
    if not _is_too_incomplete(table):
        return estimate.low, estimate.high
    missing = table.n_not_evaluated
    share = missing / (n + missing)
    return (1 - share) * estimate.low - share, (1 - share) * estimate.high + share


def _share(table: Table, hits: BoolArray, among: BoolArray) -> Estimate:
    form = Share(hits, among=among)
    return Estimate.of(form.value(), form.uncertainty(table, BootstrapOptions()).interval)


# --- Knew when not to answer? ---------------------------------------------------------------


def _knew_when(table: Table, guideline: _Comparator | None) -> VerdictLine:
    line = _Line("deferral", "Knew when not to answer?")
    due, safe = (decisions_of(table).due == code for code in (1, 0))
    if not due.any() or not safe.any():
        return _saved(table, guideline, line)
    deferred, answered = table.abstained, table.answered
    shares = _share(table, deferred, due), _share(table, answered, safe)
    figures = [
        Stated(words=f"deferred {{}} of the {count(int(due.sum()))} due", estimate=shares[0]),
        Stated(words=f"answered {{}} of the {count(int(safe.sum()))} safe", estimate=shares[1]),
    ]
    compared: list[Stated] = []
    difference = None
    if guideline is not None:
        due_too, safe_too = due & guideline.known, safe & guideline.known
        left, theirs = guideline.abstained, guideline.answered
        if due_too.any() and safe_too.any():
            deferred_too, answered_too = (
                Estimate(float(column[among].mean()))
                for column, among in ((left, due_too), (theirs, safe_too))
            )
            compared = [
                Stated(words=f"{guideline.name} {{}} of due", estimate=deferred_too),
                Stated(words="{} of safe", estimate=answered_too),
            ]
            parts = [(_minus(deferred, left), due_too), (_minus(answered, theirs), safe_too)]
            difference = _mean_of_parts(table, parts)
    for one, shown, said in (
        (deferred, shares[0], "it never deferred"),
        (answered, shares[1], "it never answered"),
    ):
        if not one.any():
            # With a handful of cases even a careful model may not have met one.
            is_shown = shown.high < 0.5 and not _is_too_incomplete(table)
            return line("no" if is_shown else "cannot tell", figures, compared, reason=said)
    # Always answering and always deferring both have 1 on one side and 0 on the other: mean 1/2.
    half = np.full(table.n_scored, 0.5)
    constant = _mean_of_parts(table, [(deferred - half, due), (answered - half, safe)])
    mean = constant.moved(lambda value: min(max(0.5 + value, 0.0), 1.0))
    answer = _compared(table, constant, difference, min(int(due.sum()), int(safe.sum())))
    if answer == "cannot tell":
        figures.append(Stated(words="mean {}, constant policy 50 %", estimate=mean))
    return line(answer, figures, compared)


def _minus(first: BoolArray, second: BoolArray) -> FloatArray:
    return first.astype(np.float64) - second


def _saved(table: Table, guideline: _Comparator | None, line: _Line) -> VerdictLine:
    """Answer by what deferring saved at the price of the task, where labels say nothing."""
    decisions = decisions_of(table)
    price = decisions.price
    constant = int(decisions.policies.mean(axis=1).argmin())
    saved = _mean_saved(table, decisions.policies[constant] - decisions.cost)
    per_100 = saved.moved(lambda value: 100 * value)
    words = "saved as much as {} wrong answers cost, per 100 cases"
    figures = [Stated(words=words, estimate=per_100, kind="figure")]
    answered = decisions.names[constant].removeprefix("answer ")
    policy = f"answering {answered}" if constant else "deferring"
    words = f"against always {policy}, the best constant policy"
    compared = [Stated(words=words, estimate=Estimate(math.nan))]
    difference = None
    plain = not decisions.known.any() and table.answers.costs.are_equal
    if guideline is not None and guideline.known.all() and plain:
        theirs = np.where(guideline.answered, ~guideline.correct, price)
        difference = _mean_saved(table, theirs - decisions.cost)
        shown = Estimate(100 * float((decisions.policies[constant] - theirs).mean()))
        compared.append(Stated(words=f"{guideline.name} {{}}", estimate=shown, kind="figure"))
    answer = _compared(table, saved, difference, table.n_scored)
    if table.answered.all():
        answer = "no" if answer == "no" else "cannot tell"
        return line(answer, figures, compared, reason="it never deferred")
    return line(answer, figures, compared)


def _mean_saved(table: Table, saved: FloatArray) -> Estimate:
    """Return a mean saving per case; no case saves or loses more than 1."""
    return _mean_of_parts(table, [(saved, table.everyone)])


# --- Right when it answered? ----------------------------------------------------------------


def _right(table: Table, rival: _Comparator | None) -> VerdictLine:
    line, answered = _Line("correctness", "Right when it answered?"), table.answered
    if not answered.any():
        return line("cannot tell", reason="it answered no case")
    n = int(answered.sum())
    own = _share(table, table.correct, answered)
    figures = [Stated(words=f"right in {{}} of {counted(n, 'answer')}", estimate=own)]
    compared: list[Stated] = []
    difference = None
    if rival is not None and (both := answered & rival.answered).any():
        theirs = float(rival.correct[both].mean())
        mine = float(table.correct[both].mean())
        compared = [
            Stated(
                words=f"{rival.name} {{}} on {count(int(both.sum()))} of them",
                estimate=Estimate(theirs),
            ),
            Stated(words="on these it was right in {}", estimate=Estimate(mine), brief=False),
        ]
        difference = _mean_of_parts(table, [(_minus(table.correct, rival.correct), both)])
    # The best constant answer is the most frequent truth of the cases that were answered.
    most = int(np.bincount(table.truth[answered]).argmax())
    constant = _mean_of_parts(table, [(_minus(table.correct, table.truth == most), answered)])
    share = float((table.truth == most)[answered].mean())
    name = table.answers.name(table.labels[most])
    answer = _compared(table, constant, difference, n)
    decided = answer in ("no", "cannot tell")  # by the constant answer
    compared.append(
        Stated(
            words=f"always answering {name}: {{}}",
            estimate=Estimate(share),
            brief=decided or not compared,
        )
    )
    if answer == "cannot tell":
        words = "better by {}" if constant.value > 0 else "difference {}"
        compared.append(Stated(words=words, estimate=constant, kind="difference"))
    return line(answer, figures, compared)


# --- Can its confidence be trusted? ---------------------------------------------------------


def _trusted(table: Table) -> VerdictLine:
    line, usable = _Line("confidence", "Confidence trustworthy?"), table.usable
    if not usable.any():
        silent = "it stated no confidence" if table.answered.any() else "it answered no case"
        return line("cannot tell", reason=silent)
    found = _mean_of_parts(table, [(np.nan_to_num(table.confidence) - table.correct, usable)])
    gap = replace(found, bound=math.copysign(TRUSTED_GAP, found.value))
    low, high = _with_missing(table, gap, int(usable.sum()))
    answer: Reply = "cannot tell"
    if low >= -TRUSTED_GAP and high <= TRUSTED_GAP:
        answer = "yes"
    elif low > TRUSTED_GAP or high < -TRUSTED_GAP:
        answer = "no"
    size = gap if gap.value >= 0 else gap.negated()
    words = f"on average {{}} too {'high' if gap.value >= 0 else 'low'}"
    shown = Stated(words=words, estimate=size, kind="points")
    if low < 0 < high:
        words = "{} between mean confidence and share right"
        shown = Stated(words=words, estimate=replace(found, bound=None), kind="difference")
    figures = [shown, *_calibration(table)]
    return line(answer, [*figures, _most_confident(table)])


def _calibration(table: Table) -> list[Stated]:
    form = ExpectedCalibrationError().form(table)
    if isinstance(form, Undefined):
        return []
    interval: Interval = form.uncertainty(table, BootstrapOptions()).interval
    found = Estimate.of(form.value(), interval)
    return [Stated(words="calibration error {}", estimate=found, kind="figure", brief=False)]


def _most_confident(table: Table) -> Stated:
    """Return the risk among the most confident tenth; equal confidences stay together."""
    stated = np.sort(table.confidence[table.usable])
    limit = stated[-max(1, math.ceil(_MOST_CONFIDENT * stated.size))]
    top = table.usable & (table.confidence >= limit)
    words = f"{{}} of its {counted(int(top.sum()), 'most confident answer')} wrong"
    return Stated(words=words, estimate=_share(table, ~table.correct, top), brief=False)


# --- Usable at the risk that is allowed? ----------------------------------------------------


def usable_line(in_force: ThresholdInForce) -> VerdictLine:
    """Say from which confidence on a run may answer, or the lowest risk that it reaches."""
    allowed = f"risk of {level(in_force.bound.risk)}"
    if not in_force.is_share:  # the loss of an answer is how far it is from the truth
        allowed = f"mean loss of {given(in_force.bound.risk)}"
    line = _Line("usable", f"Usable at a {allowed}?")
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
        return line("yes", figures)
    if math.isnan(in_force.lowest_risk):
        return line("cannot tell", reason=in_force.reason)
    risk = "risk" if in_force.is_share else "mean loss"
    most = counted(in_force.n_lowest, "most confident answer")
    words = f"lowest tested {risk} {{}} in its {most}"
    lowest = Estimate(in_force.lowest_risk, bound=in_force.bound.risk)
    figures = [
        Stated(words=words, estimate=lowest, kind="share" if in_force.is_share else "figure")
    ]
    return line("no" if in_force.no_size_helps else "cannot tell", figures, reason=in_force.reason)


# --- Left for people ------------------------------------------------------------------------


def left_line(table: Table, in_force: ThresholdInForce) -> VerdictLine:
    """Count the cases that are left for people."""
    n, why, below = in_force.n_left, "abstained or gave no answer", 0
    if in_force.certified:
        below = n - int(np.count_nonzero(~table.answered))
    which = "all" if below == n else f"{count(below)} of them"
    parts = f", {which} below that confidence" if below > 0 else ""
    if missing := table.n_not_evaluated:
        parts += f"; {count(missing)} more not evaluated"
    if below > 0:
        why = f"the others {why}" if below < n else ""
    return _Line("left_for_people", "Left for people")(
        None,
        [
            Stated(
                words=f"{count(n)} of {count(table.n_scored)} cases ({{}}){parts}",
                estimate=Estimate(n / table.n_scored),
            )
        ],
        reason=why,
    )


# --- Groups to watch ------------------------------------------------------------------------


def groups_line(table: Table, in_force: ThresholdInForce) -> VerdictLine:
    """Name the declared groups that are worse than they may be.

    At a certified threshold that is a risk above the bound, otherwise one above that of all
    answers. The lower limit of a group must be above it, at a level divided by the number of
    groups (Bonferroni).
    """
    line = _Line("groups", "Groups to watch")
    if not table.answers.groups:
        return line(None, reason="the task declares no groups")
    answered = in_force.answered
    if not answered.any():
        return line(None, reason="it answered no case")
    wrong, graded = answered & ~table.correct, in_force.certified and not in_force.is_share
    lost = wrong.astype(np.float64)
    if graded:  # the bound is one of the mean loss
        assert in_force.sample is not None
        lost = np.where(answered, in_force.sample.loss, 0.0)
    limit = in_force.bound.risk if in_force.certified else float(wrong[answered].mean())
    large = _large_groups(table, answered)
    level = 1 - 2 * _GROUP_ERROR / max(1, len(large))
    found = []
    for name, inside in large:
        hits, rows = (table.patients.sums(one * inside) for one in (lost, answered))
        shown = share_interval(hits, rows, level=max(level, 0.5), prior_icc=prior_icc(table))
        if shown.low > limit:
            usual = share_interval(hits, rows, prior_icc=prior_icc(table))
            mean = Estimate.of(float(hits.sum() / rows.sum()), usual)
            words = f"{name} {{}} {'mean loss' if graded else 'wrong'}"
            found.append(Stated(words=words, estimate=mean))
    against = Stated(words="all answers {}", estimate=Estimate(limit))
    if in_force.certified:
        against = Stated(words="at most {} allowed", estimate=Estimate(limit))
    if found:
        return line(None, found, [against])
    if not large:
        return line(None, reason=f"no group has {SMALLEST_GROUP} patients or more with an answer")
    named = f"none of {counted(len(large), 'group')} of {SMALLEST_GROUP} patients or more"
    return line(None, reason=named)


def _large_groups(table: Table, answered: BoolArray) -> list[tuple[str, BoolArray]]:
    """Return the rows of every declared group with enough answered patients."""
    found = []
    for column in table.answers.groups:
        names, codes = table.grouped(column)
        for code, name in enumerate(names):
            inside = codes == code
            if np.unique(table.patients.code[inside & answered]).size >= SMALLEST_GROUP:
                found.append((group_words(column, name), inside))
    return found
