"""The document of a plan: the size of a study, what confirms it, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator

from krisis.decisions.plan import MOST_SIMULATED_ROWS, Plan
from krisis.pages.document import Cell, Column, Document, Section, Table
from krisis.pages.numbers import Estimate, count, figure, points, share

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
        lead=[f"{count(plan.n_patients)} patients ({count(plan.n_rows)} rows) {plan.goal}"],
        sections=[
            Section.of_sentences("confirmation", "Confirmation", _confirmed(plan)),
            Section.of_sentences("assumptions", "Assumptions", plan.assumptions),
            *_cost(plan),
        ],
    )


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


def _cost(plan: Plan) -> list[Section]:
    """Return what one run of this size takes, as far as that is known."""
    cost = plan.cost
    if cost is None:
        return []
    known: dict[str, float | None] = {
        "tokens in": cost.input_tokens,
        "tokens out": cost.output_tokens,
        "hours at the pace of the pilot": cost.hours,
    }
    rows: list[list[Cell]] = [[name, value] for name, value in known.items() if value is not None]
    for model in cost.models:
        rows.append([f"{model.model} ($)", model.dollars])
        if model.batch_dollars is not None:
            rows.append([f"{model.model} ($, as a batch)", model.batch_dollars])
    columns = (Column("name", "one run"), Column("figure", "amount"))
    parts = [Table(columns=columns, rows=rows)]
    return [Section(key="cost", title="Cost of one run", parts=parts)] if rows else []
