"""A decision in words and as facts: what every policy costs, along coverage, and on which terms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from krisis.decisions.costs import OWNERSHIP, PER
from krisis.decisions.population import answers_of, positive_of
from krisis.json_values import JsonObject

if TYPE_CHECKING:
    from krisis.decisions.decide import Decision, Policy

_MOST_LINES = 11


def decide_facts(decision: Decision) -> JsonObject:
    """Return everything that is known of a decision, as JSON values."""
    run, options, chow = decision.run, decision.options, decision.chow
    return {
        "kind": "krisis decision",
        "per": PER,
        "of": f"{run.words[1]}s",
        "costs": options.costs.to_json(),
        "owner": OWNERSHIP,
        "confidence": options.score.variant(run),
        "level": options.level,
        "seed": options.score.seed,
        "n_folds": min(options.n_folds, run.table.patients.n),
        "n_rows": run.n_items,
        "n_patients": run.table.patients.n,
        "n_answered": int(run.predicted.sum()),
        "n_scored": decision.n_scored,
        "n_abstained": run.table.n_abstained,
        "n_no_answer": run.table.n_no_answer,
        "n_not_evaluated": run.table.n_not_evaluated,
        "shares": decision.shares,
        "effective_rows": decision.population.effective_rows,
        "threshold": decision.in_force.to_json(),
        "best_threshold": decision.best_threshold,
        "chow_thresholds": {str(answer): t for answer, t in chow.thresholds.items()},
        "policies": [_policy_facts(policy) for policy in decision.policies],
        "savings": [asdict(saving) for saving in decision.savings],
        "curve": [_policy_facts(policy) for policy in decision.curve],
        "team": None if options.team is None else asdict(options.team),
        "note": decision.note,
        "assumptions": assumptions(decision),
    }


def _policy_facts(policy: Policy) -> JsonObject:
    return {name: value for name, value in asdict(policy).items() if name != "name" or value}


def decide_opening(decision: Decision) -> list[str]:
    """Say by which costs a run is priced, and which rows it has."""
    run, costs = decision.run, decision.options.costs
    person, unit = run.words
    return [
        f"Expected cost in {costs.unit} per {PER:,} {unit}s, by {costs.place}.",
        *([costs.note] if costs.note else []),
        OWNERSHIP,
        (
            f"{run.n_items} {unit}s of {run.table.patients.n} {person}s: "
            f"{int(run.predicted.sum())} answered ({decision.n_scored} with a score), "
            f"{run.table.n_abstained} abstained, {run.table.n_no_answer} without an answer; "
            f"{run.table.n_not_evaluated} not evaluated and left out."
        ),
        *([decision.note] if decision.note else []),
        *_prevalence_lines(decision),
    ]


def decide_lines(decision: Decision) -> list[str]:
    """Return a decision in sentences and tables."""
    found = [*decide_opening(decision), "", *policy_table(decision), "", *best_lines(decision)]
    if len(decision.curve) > 1:
        name = decision.options.score.variant(decision.run)
        found += ["", f"Along the coverage, by {name}:", *_curve_table(decision)]
    if decision.options.team is not None:
        found += ["", *team_table(decision)]
    return [*found, "Assumptions:", *(f"  - {line}" for line in assumptions(decision))]


def _prevalence_lines(decision: Decision) -> list[str]:
    population = decision.population
    if not population.reweighted:
        return []
    answers = decision.run.table.answers
    names = {str(one): answers.name(one) for one in answers_of(decision.run)}
    listed = ", ".join(f"{names[one]} = {share:.4g}" for one, share in decision.shares.items())
    return [
        (
            f"Re-weighted to the prevalence {listed}; all figures rest on "
            f"{population.effective_rows:.1f} effective {decision.run.words[1]}s of "
            f"{decision.run.n_items}."
        )
    ]


def policy_table(decision: Decision) -> list[str]:
    """Return one line per policy."""
    level = f"{100 * decision.options.level:g} % interval"
    rows = [["policy", "answered", "of", "coverage", f"cost per {PER:,}", level]]
    undefined = []
    for policy in decision.policies:
        name = policy.name
        if policy.reason:
            undefined.append(f"{name} is undefined: {policy.reason}.")
            continue
        rows.append([name, str(policy.n_answered), _denominator(policy, decision), *_cells(policy)])
    return [*_aligned(rows), *undefined]


def _denominator(policy: Policy, decision: Decision) -> str:
    effective = (
        f" (effective {policy.effective_rows:.1f})" if decision.population.reweighted else ""
    )
    return f"{policy.n_rows}{effective}"


def _cells(policy: Policy) -> list[str]:
    return [
        f"{100 * policy.coverage:.1f} %",
        number(policy.cost),
        f"{number(policy.low)} to {number(policy.high)}",
    ]


def number(value: float) -> str:
    """Write a figure with four digits, or say that it is undefined."""
    if math.isnan(value):
        return "undefined"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def best_lines(decision: Decision) -> list[str]:
    """Say which threshold is in force, what it saves, and what costs least on these rows."""
    best, found, unit = decision.best_threshold, _in_force_lines(decision), decision.run.words[1]
    name = decision.options.score.variant(decision.run)
    if decision.n_scored and not decision.in_force.certified:
        rule = "defer everything" if best is None else f"answer where {name} ≥ {exact(best)}"
        told = (
            "The cross-fitted line estimates what that will cost: its rows did not choose their "
            "own threshold."
            if decision.savings
            else f"One {decision.run.words[0]} cannot be divided into folds, so what that will "
            "cost is not known."
        )
        found.append(f"Least cost on these rows: {rule}. {told}")
    found += [
        f"Saved by the {saving.policy} against {saving.against}, per {PER:,} {unit}s on "
        f"{saving.n_rows}: {number(saving.saved)} ({number(saving.low)} to {number(saving.high)})."
        for saving in decision.savings
    ]
    if decision.chow.thresholds:
        each = (_chow_words(str(a), t) for a, t in decision.chow.thresholds.items())
        found.append(f"Chow's rule answers {', '.join(each)}.")
    return found


def _in_force_lines(decision: Decision) -> list[str]:
    found, name = decision.in_force, decision.options.score.variant(decision.run)
    risk = f"{100 * found.bound.risk:g} %"
    if found.certified:
        where = "as the certificate says for each group"
        if found.threshold is not None:
            where = f"where {name} ≥ {exact(found.threshold)}"
        return [f"Certified at a risk of {risk}: answer {where}."]
    if math.isnan(found.lowest_risk):
        return [f"No threshold is certified at a risk of {risk}: {found.reason}."]
    lowest = f"{100 * found.lowest_risk:.3g} %, in the {found.n_lowest:,} most confident answers"
    return [f"No threshold is certified at a risk of {risk}; the lowest risk reached is {lowest}."]


def exact(threshold: float) -> str:
    """Write a threshold with six digits, or all where six would answer other rows."""
    short = f"{threshold:.6g}"
    return short if float(short) == threshold else repr(threshold)


def _chow_words(answer: str, threshold: float) -> str:
    if math.isnan(threshold):
        return f"{answer} never"
    return f"{answer} above {threshold:.4g}" if threshold > 0 else f"{answer} always"


def _curve_table(decision: Decision) -> list[str]:
    level = f"{100 * decision.options.level:g} % interval"
    rows = [["threshold", "answered", "of", "coverage", f"cost per {PER:,}", level]]
    for point in shown_points(decision.curve):
        counts = [str(point.n_answered), _denominator(point, decision)]
        rows.append([_threshold(point), *counts, *_cells(point)])
    return _aligned(rows)


def team_table(decision: Decision) -> list[str]:
    """Return what a team does along the coverage."""
    unit = decision.run.words[1]
    rows = [["threshold", "coverage", "wrong", "missed", "read"]]
    points = [*shown_points(decision.curve), *decision.policies]
    done = {point: point.workload for point in points if point.workload is not None}
    for point, work in done.items():
        rows.append(
            [
                point.name or _threshold(point),
                f"{100 * point.coverage:.1f} %",
                f"{number(work.wrong)} ({number(work.wrong_low)} to {number(work.wrong_high)})",
                number(work.missed),
                number(work.read),
            ]
        )
    positive = positive_of(decision.run)
    said = (
        "Missed cases are undefined: the task names no positive answer."
        if positive is None
        else f"Missed are {unit}s whose true answer is {positive} and whose final answer is not."
    )
    return [f"Model and readers together, per {PER:,} {unit}s:", *_aligned(rows), said]


def _threshold(point: Policy) -> str:
    return "defer all" if point.threshold is None else f"≥ {exact(point.threshold)}"


def shown_points(curve: Sequence[Policy]) -> list[Policy]:
    """Return the points of a curve that fit a table."""
    picked = np.linspace(0, len(curve) - 1, min(len(curve), _MOST_LINES)).round().astype(int)
    return [curve[index] for index in dict.fromkeys(picked.tolist())]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def assumptions(decision: Decision) -> list[str]:
    """State what the figures assume, one sentence each."""
    run, options = decision.run, decision.options
    person, unit = run.words
    n_patients = run.table.patients.n
    found = [
        f"Future {person}s are like these {n_patients} {person}s, and their labels are right.",
        "Rows without an answer, or without a score, are deferred at any threshold.",
        f"Deferring costs what the table says, whatever the reader of the {unit} then does.",
        f"Intervals resample {person}s and take thresholds as given."
        if n_patients > 1
        else f"One {person} cannot be resampled: intervals are all that the costs allow.",
    ]
    if n_patients > 1:
        found.append(
            f"Cross-fitting is over {min(options.n_folds, n_patients)} folds of {person}s, seed "
            f"{options.score.seed}; its interval leaves out how the choice itself would vary."
        )
    if run.table.patients.n < run.n_items:
        found.append(f"The figures count {unit}s, of which a {person} has several.")
    if run.table.n_not_evaluated:
        n = run.table.n_not_evaluated
        found.append(f"The {n} {unit}s that were not evaluated are like the others.")
    if not decision.chow.reason:
        found.append(_chow_assumption(decision))
    if decision.population.reweighted:
        found.append(
            "For each true answer the model answers as it did here, and its confidence does not "
            "know of the other prevalence."
        )
    return found + ([options.team.assumption()] if options.team else [])


def _chow_assumption(decision: Decision) -> str:
    name = decision.options.score.variant(decision.run)
    said = f"Chow's rule takes {name} as the probability that the answer is right"
    if len(decision.run.table.labels) > 2:
        said += "; where it is wrong, the other answers are as probable as they are frequent"
    return f"{said}."
