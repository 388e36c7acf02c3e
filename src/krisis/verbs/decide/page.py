"""The documents of what a run costs, of its decision curve, and of a model with its reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from krisis.costs import TOLERANCE
from krisis.decisions.answers import answers_of, positive_of
from krisis.metrics.decision import PER as SAVED_PER
from krisis.metrics.items import RunItems
from krisis.pages.certify import disease_sentence
from krisis.pages.document import (
    Cell,
    Column,
    Content,
    Document,
    Finding,
    Reply,
    Section,
    Sentences,
    Stated,
    Table,
    Verdict,
)
from krisis.pages.numbers import (
    Estimate,
    count,
    figure,
    given,
    level,
    score_name,
    share,
    threshold,
    whole,
)
from krisis.pages.verdict import threshold_verdict
from krisis.verbs.decide.curve import ALL, DEFERRAL, MODEL, NONE, DecisionCurve, useful_ranges
from krisis.verbs.decide.policies import AS_RUN, Decision, Policy
from krisis.verbs.decide.population import Population
from krisis.verbs.decide.reader import Rate, ReaderDecision
from krisis.verbs.decide.team import PER

OWNERSHIP = "These costs are value judgements; replace them with your own."
_MOST_LINES = 11
# More answers than these make a table of costs too wide for a page.
_MOST_ANSWERS = 6


# --- What a run costs ------------------------------------------------------------------------


def decide_document(decision: Decision) -> Document:
    """Return all there is to show of a decision: the certified threshold first.

    Where no threshold is certified, the headline is the lowest risk that is reached, and no more.
    """
    return Document(
        title=f"{_whose(decision)} · what answering and deferring cost",
        lead=[
            *price_sentences(decision.run),
            _population(decision),
            *_prevalence(decision),
            *filter(None, [decision.note]),
        ],
        verdict=threshold_verdict(decision.run, decision.in_force),
        sections=[
            Section(key="costs", title="Mean cost per case", parts=_costs(decision)),
            *_coverage(decision),
            *_team(decision),
            Section.of_sentences("assumptions", "Assumptions", decide_assumptions(decision)),
        ],
    )


def _whose(decision: Decision) -> str:
    source = decision.run.source
    return " · ".join(filter(None, (source.model, source.suite, source.task))) or "unnamed run"


def price_sentences(run: RunItems) -> list[str]:
    """Say at which price a run is judged, where the prompt told another or where it is assumed."""
    costs = run.table.answers.costs
    found = []
    if run.told is not None and abs(run.told - costs.price) > TOLERANCE:
        found.append(
            f"Told {_percent(run.told)}, judged at {_percent(costs.price)}: the prompt stated "
            "another cost of a deferral."
        )
    if costs.assumed:
        found.append(
            f"That a deferral costs {_percent(costs.price)} of an error is assumed: set `price:`, "
            "or ask what if with --price."
        )
    return found


def cost_figures(run: RunItems) -> list[Content]:
    """Return what answers and deferrals cost, the costliest error being 1."""
    answers = run.table.answers
    costs, allowed = answers.costs, answers.allowed
    price = f"A deferral costs {given(costs.price)}"
    if costs.are_equal:
        return [Sentences([f"Every wrong answer costs 1. {price}. {costs.why or OWNERSHIP}"])]
    if len(allowed) > _MOST_ANSWERS:
        return [Sentences([f"The costliest error costs 1. {price}. {costs.why or OWNERSHIP}"])]
    table = Table(
        columns=[
            Column("name", "right answer"),
            *(Column("figure", f"answer {answers.name(one)}") for one in allowed),
            Column("figure", "deferral"),
        ],
        rows=[
            [answers.name(truth), *(costs.of(truth, one) for one in allowed), costs.price]
            for truth in allowed
        ],
        title="What answers and deferrals cost",
        note=costs.why or OWNERSHIP,
    )
    return [table]


def _population(decision: Decision) -> str:
    run, (person, unit) = decision.run, decision.run.words
    return (
        f"{count(run.n_items)} {unit}s of {count(run.table.patients.n)} {person}s: "
        f"{count(int(run.predicted.sum()))} answered ({count(decision.n_scored)} with a score), "
        f"{count(run.table.n_abstained)} abstained, {count(run.table.n_no_answer)} without an "
        f"answer; {count(run.table.n_not_evaluated)} not evaluated and left out."
    )


def _prevalence(decision: Decision) -> list[str]:
    if not decision.population.reweighted:
        return []
    answers = decision.run.table.answers
    names = {str(one): answers.name(one) for one in answers_of(decision.run)}
    listed = ", ".join(f"{names[one]} {_percent(part)}" for one, part in decision.shares.items())
    return [_moved(decision.population, listed, decision.run.words[1], decision.run.n_items)]


def _percent(value: float) -> str:
    return share(Estimate(value))


def _moved(population: Population, to: str, unit: str, n: int) -> str:
    effective = figure(Estimate(population.effective_rows))
    return (
        f"Re-weighted to another prevalence ({to}); all figures rest on {effective} effective "
        f"{unit}s of {count(n)}."
    )


def _cost_of(policy: Policy, decision: Decision) -> Estimate:
    return Estimate(policy.cost, policy.low, policy.high, decision.options.level)


def _policies(
    decision: Decision, points: Sequence[Policy], heading: str, names: Sequence[Cell]
) -> Table:
    rows: list[list[Cell]] = [
        [
            name,
            point.n_answered,
            point.n_rows,
            *([point.effective_rows] if decision.population.reweighted else []),
            point.coverage,
            _cost_of(point, decision),
        ]
        for name, point in zip(names, points, strict=True)
    ]
    columns = [
        Column("name", heading),
        Column("count", "answered"),
        Column("count", "of"),
        *([Column("figure", "effective")] if decision.population.reweighted else []),
        Column("share", "coverage"),
        Column("figure", "cost"),
    ]
    return Table(columns=columns, rows=rows)


def _costs(decision: Decision) -> list[Content]:
    known = [policy for policy in decision.policies if not policy.reason]
    missing = [policy for policy in decision.policies if policy.reason]
    parts: list[Content] = [_policies(decision, known, "policy", [one.name for one in known])]
    lines = [f"{one.name} is undefined: {one.reason}." for one in missing]
    lines += [
        f"To {one.name} is a what-if: a threshold chosen on these cases looks better than it is."
        for one in known
        if one.kind == "given"
    ]
    if decision.disease is not None:
        certified = disease_sentence(decision.disease, _positive_name(decision.run))
        lines.append(f"At the certified threshold: {certified}")
    return [
        *parts,
        _savings(decision),
        *cost_figures(decision.run),
        *([Sentences(lines)] if lines else []),
    ]


def _positive_name(run: RunItems) -> str:
    return run.table.answers.name(positive_of(run))


def _savings(decision: Decision) -> Table:
    (saver,) = {one.policy for one in decision.savings}
    whose = "the run as it is" if saver == AS_RUN else f"the {saver}"
    title = f"Saved by {whose}, per {SAVED_PER} cases, in costliest errors"
    return Table.of(
        decision.savings,
        {
            Column("name", "compared with"): lambda one: one.against,
            Column("count", "n"): lambda one: one.n_rows,
            Column("change", "saved"): lambda one: Estimate(
                one.saved, one.low, one.high, decision.options.level
            ),
        },
        title=title,
    )


def shown_points(curve: Sequence[Policy]) -> list[Policy]:
    """Return the points of a curve that fit a table."""
    picked = np.linspace(0, len(curve) - 1, min(len(curve), _MOST_LINES)).round().astype(int)
    return [curve[index] for index in dict.fromkeys(picked.tolist())]


def _threshold(point: Policy) -> str:
    return "defer all" if point.threshold is None else f"≥ {threshold(point.threshold)}"


def _coverage(decision: Decision) -> list[Section]:
    if len(decision.curve) < 2:
        return []
    points = shown_points(decision.curve)
    table = _policies(decision, points, "threshold", list(map(_threshold, points)))
    name = score_name(decision.options.score.variant(decision.run))
    return [Section(key="coverage", title=f"Along the coverage, by {name}", parts=[table])]


def _team(decision: Decision) -> list[Section]:
    """Return what model and readers do together, along the coverage."""
    if decision.options.team is None:
        return []
    unit, at = decision.run.words[1], decision.options.level
    named = [(_threshold(point), point) for point in shown_points(decision.curve)]
    named += [(point.name, point) for point in decision.policies]
    worked = [
        (name, point.coverage, work)
        for name, point in named
        if (work := point.workload) is not None
    ]
    positive = positive_of(decision.run)
    note = (
        "Missed cases are undefined: the task names no positive answer."
        if positive is None
        else f"Missed are {unit}s whose true answer is {decision.run.table.answers.name(positive)} "
        "and whose final answer is not."
    )
    title = f"Model and readers together, per {count(PER)} {unit}s"
    table = Table.of(
        worked,
        {
            Column("name", "threshold"): lambda item: item[0],
            Column("share", "coverage"): lambda item: item[1],
            Column("figure", "wrong"): lambda item: Estimate(
                item[2].wrong, item[2].wrong_low, item[2].wrong_high, at
            ),
            Column("figure", "missed"): lambda item: item[2].missed,
            Column("figure", "read"): lambda item: whole(item[2].read),
        },
        note=note,
    )
    return [Section(key="team", title=title, parts=[table])]


def decide_assumptions(decision: Decision) -> list[str]:
    """State what the figures assume, one sentence each."""
    run, options = decision.run, decision.options
    person, unit = run.words
    n_patients = run.table.patients.n
    found = [
        f"Future {person}s are like these {n_patients} {person}s, and their labels are right.",
        "Rows without an answer, or without a score, are deferred at any threshold.",
        "A deferral costs its price; errors of the people who then read are not priced.",
        f"Intervals resample {person}s and take thresholds as given."
        if n_patients > 1
        else f"One {person} cannot be resampled: intervals are all that the costs allow.",
    ]
    if run.table.patients.n < run.n_items:
        found.append(f"The figures count {unit}s, of which a {person} has several.")
    if run.table.n_not_evaluated:
        n = run.table.n_not_evaluated
        found.append(f"The {n} {unit}s that were not evaluated are like the others.")
    if decision.population.reweighted:
        found.append(
            "For each true answer the model answers as it did here, and its confidence does not "
            "know of the other prevalence."
        )
    return found + ([options.team.assumption()] if options.team else [])


# --- The decision curve ----------------------------------------------------------------------


def curve_document(curve: DecisionCurve) -> Document:
    """Return all there is to show of a decision curve."""
    run, (person, unit) = curve.run, curve.run.words
    positive = run.table.answers.name(curve.positive)
    ranges = " and ".join(
        given(low) if low == high else f"{given(low)} to {given(high)}"
        for low, high in useful_ranges(curve)
    )
    verdict = (
        f"{curve.last}: more benefit than treating all and none at the thresholds {ranges}."
        if ranges
        else f"{curve.last}: at no threshold is more benefit shown than treating all and none."
    )
    about = (
        f"{count(run.n_items)} {unit}s of {count(run.table.patients.n)} {person}s, "
        f"{count(curve.n_positive)} of them positive: {count(run.table.n_abstained)} abstained, "
        f"{count(run.table.n_no_answer)} without an answer, {count(curve.n_deferred)} deferred; "
        f"{count(run.table.n_not_evaluated)} not evaluated and left out."
    )
    moved = []
    if curve.population.reweighted:
        moved = [_moved(curve.population, _percent(curve.prevalence), unit, run.n_items)]
    sections = [
        Section(
            key="curve",
            title=f"Net benefit per {unit}, the positive answer being {positive}",
            parts=[_benefits(curve)],
        ),
        Section.of_sentences("assumptions", "Assumptions", curve_assumptions(curve)),
    ]
    source = run.source
    whose = " · ".join(filter(None, (source.model, source.suite, source.task)))
    return Document(
        title=f"Decision curve · {whose or 'unnamed run'}",
        lead=[verdict, about, *moved],
        sections=sections,
    )


def _benefits(curve: DecisionCurve) -> Table:
    """Return up to 12 thresholds, one row each."""
    n = len(curve.options.thresholds)
    shown = np.unique(np.linspace(0, n - 1, min(n, _MOST_LINES + 1)).round().astype(np.int64))
    judged = [name for name in (MODEL, DEFERRAL) if name in curve.curves]
    rows: list[list[Cell]] = []
    for index in shown.tolist():
        last = curve.curves[curve.last][index]
        points = [curve.curves[name][index] for name in judged]
        rows.append(
            [
                given(last.threshold),
                *(curve.curves[name][index].net_benefit for name in (ALL, NONE)),
                *(Estimate(p.net_benefit, p.low, p.high, curve.options.level, 0.0) for p in points),
                last.standardized,
                "yes" if last.useful else "no",
            ]
        )
    columns = [
        Column("name", "threshold"),
        *(Column("figure", name) for name in (ALL, NONE, *judged)),
        Column("figure", "std.", "standardized net benefit"),
        Column("name", "useful"),
    ]
    return Table(columns=columns, rows=rows)


def curve_assumptions(curve: DecisionCurve) -> list[str]:
    """State what a decision curve assumes, one sentence each."""
    options, unit = curve.options, curve.run.words[1]
    variant = score_name(options.score.variant(curve.run))
    positive = curve.run.table.answers.name(curve.positive)
    action = "treated" if options.default_action == "treat" else "not treated"
    found = [
        (
            f"The probability of {positive} is the {variant} where the model gave that answer, and "
            "1 − that confidence where it gave the other; a case is treated where it reaches the "
            "threshold."
        ),
        (
            "At a threshold t, a case that is treated in vain weighs t/(1 − t) as much as a case "
            "that is found; the threshold must come from those who decide."
        ),
        f"Without the model's answer a {unit} is {action}"
        + (", but for those that a reader decides." if options.team else "."),
    ]
    if DEFERRAL in curve.curves:
        limit = options.answer_from
        below = "" if limit is None else f" or the confidence is below {given(limit)}"
        found.append(f"With deferral, a {unit} is deferred where the model abstained{below}.")
    if options.team is not None:
        found.append(options.team.assumption())
    if curve.population.reweighted:
        found.append(
            "For each true answer the cases are those of the other population; the model's "
            "probabilities are taken as they are."
        )
    patients = f", {curve.run.words[0]}s being independent of each other"
    found.append(
        f"Intervals hold at one threshold at a time with {level(options.level)}{patients}."
    )
    return found


# --- A model with its reader -----------------------------------------------------------------


def reader_document(decision: ReaderDecision) -> Document:
    """Return all there is to show of a model, its reader, and both together."""
    at, n = decision.level, count(decision.n_common)
    ways = Table.of(
        decision.ways,
        {
            Column("name", f"per {count(PER)} cases"): lambda way: way.name,
            Column("figure", "wrong"): lambda way: _rate(way.wrong, at),
            Column("figure", "no answer"): lambda way: _rate(way.no_answer, at),
            Column("figure", "read", "read by the reader"): lambda way: whole(way.read.value),
        },
    )
    rule = (
        "defer every case"
        if decision.threshold is None
        else f"answer from a confidence of {threshold(decision.threshold)} on"
    )
    chosen = (
        f"The model's threshold was given: {rule}."
        if decision.given
        else f"Fewest wrong answers on these cases: {rule}. The figures of the team are "
        f"cross-fitted over {decision.n_folds} folds of patients, so that no case chose its own "
        "threshold."
    )
    unseen = (
        "The reader judged these cases without the model's answer; a reader who sees it may decide "
        "otherwise."
    )
    sections = [
        Section(key="ways", title="Each alone, and together", parts=[ways]),
        Section.of_sentences("how", "How to read it", [chosen, unseen]),
    ]
    return Document(
        title=f"Model {decision.model} with reader {decision.reader}",
        lead=[
            f"{n} common cases of {count(decision.n_patients)} patients.",
            f"The reader read {n} of the {count(decision.n_model)} cases of the model.",
        ],
        verdict=Verdict(list(_compared(decision)), level=at),
        sections=sections,
    )


def _rate(rate: Rate, at: float) -> Estimate:
    return Estimate(rate.value, rate.low, rate.high, at, bound=0.0)


def _compared(decision: ReaderDecision) -> Iterator[Finding]:
    gaps = decision.ways[0].no_answer.value > 0
    for name, rate in (("reader", decision.beyond_reader), ("model", decision.beyond_model)):
        answer: Reply = "cannot tell"
        if rate.high < 0 or rate.low > 0:
            answer = "yes" if rate.high < 0 else "no"
        more = "the team has an answer where the model has none" if gaps and name == "model" else ""
        yield Finding(
            key=name,
            question=f"Better than the {name}?",
            answer=answer,
            figures=[
                Stated(
                    words=f"{{}} wrong per {count(PER)} compared with the {name} alone",
                    estimate=_rate(rate, decision.level),
                    kind="change",
                )
            ],
            reason=more,
        )
