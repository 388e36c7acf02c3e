"""The row explorer: filters, a page of rows at a time, whatever the size of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from urllib.parse import urlencode

from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult
from krisis.reporting.costliest import is_correct, shortened
from krisis.reporting.deferral import CELLS, deferral_cell
from krisis.reporting.report import reasons_of
from krisis.viewer.catalogue import Catalogue, LoadedRun
from krisis.viewer.page import Page, choice_of, number_of, text_of, whole_of
from krisis.viewer.row_index import OUTCOMES, SORTS, RowFilter

PAGE_SIZE = 50
LARGEST_PAGE = 500
_REPLY_CHARACTERS = 160


def page(catalogue: Catalogue, name: str, query: Mapping[str, str]) -> Page:
    """Show one page of the rows that pass the filters."""
    run = catalogue.load(name)
    wanted = parse_filter(query)
    positions = run.select(wanted)
    size = whole_of(query, "size", default=PAGE_SIZE, most=LARGEST_PAGE)
    number = whole_of(query, "page", default=1, most=10**9)
    n_pages = max(1, -(-len(positions) // size))
    number = min(number, n_pages)
    shown = positions[(number - 1) * size : number * size]
    content: JsonObject = {
        "name": name,
        "filter": asdict(wanted),
        "n_rows": run.n_rows,
        "n_found": len(positions),
        "page": number,
        "n_pages": n_pages,
        "rows": [row_line(run, int(position)) for position in shown],
    }
    context = {
        "outcomes": OUTCOMES,
        "sorts": SORTS,
        "cells": {cell: words for cell, (_, _, _, words) in CELLS.items()},
        "groups": {group: group for group in run.choices("group")},
        "query": urlencode({k: v for k, v in query.items() if k != "page" and v.strip()}),
        "heading": run.result.backend_name,
    }
    return Page("rows.html", f"Rows · {name}", content, context)


def parse_filter(query: Mapping[str, str]) -> RowFilter:
    """Read the filters, refusing what they cannot be."""
    return RowFilter(
        outcome=choice_of(query, "outcome", OUTCOMES),
        correct=choice_of(query, "correct", ("yes", "no")),
        cell=choice_of(query, "cell", tuple(CELLS)),
        group=text_of(query, "group"),
        text=text_of(query, "text"),
        confidence_min=number_of(query, "confidence_min"),
        confidence_max=number_of(query, "confidence_max"),
        deferred_at=number_of(query, "deferred_at"),
        sort=choice_of(query, "sort", SORTS) or "position",
    )


def row_line(run: LoadedRun, position: int) -> JsonObject:
    """Return a row as a line of a table."""
    row = run.row(position)
    return {
        "position": position,
        "record_id": row.record_id or f"row {position}",
        "outcome": row.outcome,
        "tone": tone_of(row),
        "prediction": row.prediction,
        "ground_truth": row.ground_truth,
        "confidence": row.confidence,
        "cell": deferral_cell(row),
        "reasons": reasons_of(row.metadata),
        "reply": shortened(row.error or row.raw_response, n_characters=_REPLY_CHARACTERS),
    }


def tone_of(row: EvaluationResult) -> str:
    """Return the word, and the colour, of what became of a row."""
    if row.outcome != "answered":
        return row.outcome
    return "correct" if is_correct(row) else "wrong"
