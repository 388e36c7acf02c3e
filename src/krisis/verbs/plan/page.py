"""The document of a plan: the size of a study, what confirms it, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator

from krisis.pages.document import Document, Section
from krisis.pages.numbers import Estimate, count, figure, level, points, share
from krisis.verbs.plan.study import MOST_SIMULATED_ROWS, Plan

_AIMS = {
    "estimate": "estimate a metric",
    "compare": "find a difference between two runs",
    "non_inferior": "show that a run is not worse",
    "certify": "certify a risk",
}


def plan_document(plan: Plan) -> Document:
    """Return all there is to show of a plan."""
    return Document(
        title=f"Sample size to {_AIMS[plan.question]}",
        lead=[_answer(plan)],
        sections=[
            Section.of_sentences("confirmation", "Confirmation", _confirmed(plan)),
            Section.of_sentences("assumptions", "Assumptions", plan.assumptions),
        ],
    )


def _answer(plan: Plan) -> str:
    """Return the size of the study; of a given size, the power that it reaches."""
    size = f"{count(plan.n_patients)} patients ({count(plan.n_rows)} rows)"
    chance = "probability" if plan.question == "estimate" else "power"
    if plan.inputs["n_patients"] is None:
        return f"{size} {plan.goal}, with a {chance} of {level(plan.target_power)}"
    return f"{size} reach a {chance} of {share(Estimate(plan.power))} {plan.goal}"


def _confirmed(plan: Plan) -> Iterator[str]:
    found = plan.simulation
    if found is None:
        yield (
            f"Formula: {share(Estimate(plan.power))} of such studies succeed. Not simulated: more "
            f"than {count(MOST_SIMULATED_ROWS)} rows."
        )
    else:
        source = "the pilot's patients" if found.source == "pilot" else "these assumptions"
        yield (
            f"Simulation: {share(Estimate(found.power))} of {count(found.n_studies)} studies of "
            f"this size succeeded, drawn from {source} (Monte-Carlo error ± "
            f"{points(Estimate(found.standard_error))})."
        )
    if plan.formula_n_patients is None:
        yield "No formula covers this metric: the size comes from simulation alone."
        return
    if plan.formula_n_patients != plan.n_patients:
        yield (
            f"The formula gives {count(plan.formula_n_patients)} patients; the simulation "
            "corrected it."
        )
    if plan.design_effect > 1:
        times = figure(Estimate(plan.design_effect))
        yield (
            f"Design effect {times}: rows of one patient resemble each other, so {times} times as "
            "many rows are needed."
        )
