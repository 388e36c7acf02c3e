"""Cases: one queue of rows, by filter and order, for the list, its CSV and previous and next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from krisis.answers import AnswerSet
from krisis.formats.tidy_table import csv_lines
from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics.base import EvaluationResult
from krisis.metrics.partition import DEFERRAL_CELLS, deferral_cell, verdict
from krisis.outcomes import OUTCOMES
from krisis.pages.cases import IN_FORCE, SCORED, UNANSWERED, RowFilter
from krisis.pages.tabs import Page, choice_of, number_of, query_of, text_of, whole_of
from krisis.pages.worst import reasons_of, shortened
from krisis.results.error_kinds import ERROR_KINDS
from krisis.runs.review import MARKS, read_reviews
from krisis.viewer.catalogue import CONFIDENT, Catalogue, ViewedRun
from krisis.viewer.filters import ORDERS

PAGE_SIZE = 50
LARGEST_PAGE = 500
MOST_CHOICES = 200
LONGEST_CHOICE = 1000  # that is offered: what is chosen becomes part of an address
_REPLY_CHARACTERS = 160
# The questions that are asked first, each one click away from the report and from the list.
_FOR_PEOPLE = "left for people"
_REVIEWS = {"none": "not reviewed", "any": "reviewed", **MARKS}
PRESETS = {
    "confidently wrong": RowFilter(correct="no", confidence_min=CONFIDENT, sort="-confidence"),
    **{
        f"confidently wrong: {words}": RowFilter(error=kind, sort="-confidence")
        for kind, words in ERROR_KINDS.items()
    },
    DEFERRAL_CELLS["answer_when_should_defer"].words: RowFilter(
        cell="answer_when_should_defer", sort="-confidence"
    ),
    DEFERRAL_CELLS["abstain_when_should_answer"].words: RowFilter(
        cell="abstain_when_should_answer"
    ),
    "no answer": RowFilter(outcome="no_answer"),
    "not evaluated": RowFilter(outcome="not_evaluated"),
    _FOR_PEOPLE: RowFilter(left=IN_FORCE),
    "label disputed": RowFilter(review="label_wrong"),
}
_DUE = {
    "yes": "deferral was due",
    "no": "an answer was safe",
    "stated": "it is stated whether deferral was due",
}
_ORDERS = {"position": "as run", "-confidence": "surest first", "confidence": "least sure first"}


@dataclass(frozen=True, slots=True)
class Queue:
    """The rows that pass a filter, in its order; ``query`` is the filter as part of an address."""

    wanted: RowFilter
    query: str
    words: str

    @classmethod
    def of(cls, run: ViewedRun, query: Mapping[str, str]) -> Queue:
        """Return the queue that an address names."""
        wanted = parse_filter(query)
        return cls(wanted, query_of(wanted), filter_words(wanted, run.words))


def page(catalogue: Catalogue, name: str, query: Mapping[str, str]) -> Page:
    """Show one page of the cases that pass the filters."""
    run = catalogue.load(name)
    queue = Queue.of(run, query)
    n_found = run.count(queue.wanted)
    size = whole_of(query, "size", default=PAGE_SIZE, most=LARGEST_PAGE)
    number = whole_of(query, "page", default=1, most=10**9)
    n_pages = max(1, -(-n_found // size))
    number = min(number, n_pages)
    positions = run.select(queue.wanted, start=(number - 1) * size, most=size)
    lines = case_lines(run, positions)
    content: JsonObject = {
        "name": name,
        "filter": asdict(queue.wanted),
        "words": queue.words,
        "damage": run.damage,
        "n_rows": run.n_rows,
        "n_found": n_found,
        "page": number,
        "n_pages": n_pages,
        "n_damaged": len(positions) - len(lines),
        "rows": lines,
    }
    sized = f"{queue.query}&size={size}".strip("&") if size != PAGE_SIZE else queue.query
    context = {
        "choices": _choices(run),
        "cells": {name: cell.words for name, cell in DEFERRAL_CELLS.items()},
        "due": _DUE,
        "reviews": _REVIEWS,
        "orders": _ORDERS,
        "presets": [(words, query_of(wanted)) for words, wanted in PRESETS.items()],
        "queue": queue.query,
        "query": sized,
        "heading": run.short_model,
    }
    return Page("cases.html", f"Cases · {name}", content, context)


def _choices(run: ViewedRun) -> dict[str, list[tuple[str, str]]]:
    """Return what can be chosen under each heading that has values, with its words."""
    found: dict[str, list[tuple[str, str]]] = {}
    for column in ("group", "reason", "failure", "predicted", "truth"):
        short = [one for one in run.choices(column) if len(one) <= LONGEST_CHOICE]
        values = short[:MOST_CHOICES]
        labels = column in ("predicted", "truth")
        if values:
            found[column] = [(v, run.words(v) if labels else v.replace("_", " ")) for v in values]
    return found


def parse_filter(query: Mapping[str, str]) -> RowFilter:
    """Read the filters, refusing what they cannot be."""
    return RowFilter(
        outcome=choice_of(query, "outcome", (*OUTCOMES, SCORED)),
        correct=choice_of(query, "correct", ("yes", "no")),
        cell=choice_of(query, "cell", tuple(DEFERRAL_CELLS)),
        error=choice_of(query, "error", tuple(ERROR_KINDS)),
        due=choice_of(query, "due", tuple(_DUE)),
        **{name: text_of(query, name) for name in ("reason", "failure", "predicted", "truth")},
        **{name: text_of(query, name) for name in ("group", "record", "text")},
        confidence_min=number_of(query, "confidence_min"),
        confidence_max=number_of(query, "confidence_max"),
        deferred_at=number_of(query, "deferred_at"),
        left=_left_of(query),
        review=choice_of(query, "review", tuple(_REVIEWS)),
        sort=choice_of(query, "sort", tuple(ORDERS)) or "position",
    )


def _left_of(query: Mapping[str, str]) -> str:
    """Return the threshold below which cases are left for people: in force, none or a number."""
    if text_of(query, "left") in (IN_FORCE, UNANSWERED):
        return text_of(query, "left")
    limit = number_of(query, "left")
    return "" if limit is None else repr(limit)


def filter_words(wanted: RowFilter, name: Callable[[object], str] = str) -> str:
    """Name a queue: by its preset, else by everything that it asks for.

    >>> filter_words(RowFilter(correct="no", group="sex: female"))
    'wrong · sex: female'
    """
    for words, preset in PRESETS.items():
        if wanted == preset:
            return words
    low, high = wanted.confidence_min, wanted.confidence_max
    parts = [
        wanted.outcome.replace("_", " "),
        {"yes": "right", "no": "wrong"}.get(wanted.correct, ""),
        DEFERRAL_CELLS[wanted.cell].words if wanted.cell else "",
        f"confidently wrong: {ERROR_KINDS[wanted.error]}" if wanted.error else "",  # type: ignore[index]
        _DUE.get(wanted.due, ""),
        f"because of {wanted.reason.replace('_', ' ')}" if wanted.reason else "",
        f"no answer: {wanted.failure}" if wanted.failure else "",
        f"answer {name(wanted.predicted)}" if wanted.predicted else "",
        f"truth {name(wanted.truth)}" if wanted.truth else "",
        wanted.group,
        f"record {wanted.record}" if wanted.record else "",
        f"confidence {low or 0:.4g} to {1 if high is None else high:.4g}"
        if (low, high) != (None, None)
        else "",
        f"deferred below {wanted.deferred_at:.4g}" if wanted.deferred_at is not None else "",
        _left_words(wanted.left),
        _REVIEWS.get(wanted.review, ""),
        f"with “{shortened(wanted.text, n_letters=40)}”" if wanted.text else "",
    ]
    return " · ".join(part for part in parts if part) or "cases"


def _left_words(left: str) -> str:
    if left in ("", IN_FORCE, UNANSWERED):
        return {"": "", UNANSWERED: f"{_FOR_PEOPLE} without a threshold"}.get(left, _FOR_PEOPLE)
    return f"{_FOR_PEOPLE} below {float(left):.4g}"


def csv_of(catalogue: Catalogue, parts: JsonMapping, query: Mapping[str, str]) -> Iterator[str]:
    """Return all cases of a filter as CSV, line by line, in the columns of `krisis export`."""
    run = catalogue.load(parts["run"])
    positions = run.select(Queue.of(run, query).wanted)

    def rows() -> Iterator[EvaluationResult]:
        for start in range(0, len(positions), LARGEST_PAGE):
            yield from (row for _, row in run.rows(positions[start : start + LARGEST_PAGE]))

    return csv_lines(run.bare_result(), rows, read_reviews(run.path))


def left_csv(catalogue: Catalogue, parts: JsonMapping, query: Mapping[str, str]) -> Iterator[str]:
    """Return the cases left for people as CSV, the list that `krisis export` writes."""
    return catalogue.load(parts["run"]).hand_over().csv_lines()


def case_lines(run: ViewedRun, positions: Sequence[int]) -> list[JsonObject]:
    """Return rows as lines of a table."""
    return [
        {
            "position": position,
            "record_id": row.record_id or f"row {position}",
            "outcome": row.outcome,
            "tone": tone_of(row, run.answers),
            "prediction": row.prediction,
            "ground_truth": row.ground_truth,
            "answer": "–" if row.prediction is None else run.words(row.prediction),
            "truth": run.words(row.ground_truth),
            "confidence": row.confidence,
            "cell": deferral_cell(row),
            "reasons": reasons_of(row.metadata),
            "reply": shortened(row.error or row.raw_response, n_letters=_REPLY_CHARACTERS),
        }
        for position, row in run.rows(positions)
    ]


def tone_of(row: EvaluationResult, answers: AnswerSet | None) -> str:
    """Return the word, and the colour, of what became of a row."""
    found = verdict(row, answers)
    return "correct" if found == "right" else found.replace("_", "-")
