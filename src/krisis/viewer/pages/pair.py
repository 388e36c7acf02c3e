"""The cases on which two runs differ, a page at a time, and both replies to one of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from urllib.parse import quote, urlencode

import numpy as np

from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.partition import DEFERRAL_CELLS, deferral_cell, verdicts
from krisis.metrics.table import BoolArray, IntArray, Table
from krisis.pages.tabs import Page, choice_of, text_of, whole_of
from krisis.pages.worst import reasons_of
from krisis.results.group_labels import group_columns
from krisis.results.loading import distinct_names, place_in_commands
from krisis.results.matching import (
    OUTCOMES,
    match_runs,
    refuse_other_data,
)
from krisis.viewer.catalogue import MOST_ROWS, Catalogue, ViewedRun
from krisis.viewer.pages.cases import LONGEST_CHOICE, tone_of

PAGE_SIZE, LARGEST_PAGE = 50, 500
SHOWN_CHARACTERS = 50_000
SORTS = ("position", "gap")
_LEFT = {"left": ("abstained", "no answer")}  # what is left to a person
CHOICES = (*OUTCOMES, *_LEFT)


@dataclass(frozen=True, slots=True)
class PairFilter:
    """Which of the matched cases to show; an empty field asks for nothing.

    ``left`` and ``right`` are what became of the case in each run.
    """

    show: str = "differ"
    left: str = ""
    right: str = ""
    surer: str = ""
    group: str = ""
    sort: str = "position"


def refuse_too_many(runs: Sequence[ViewedRun]) -> None:
    """Refuse runs with more rows than the server may hold."""
    n_rows = sum(run.n_rows for run in runs)
    if n_rows > MOST_ROWS:
        places = " ".join(place_in_commands(run.path) for run in runs)
        raise InvalidValue(
            f"these runs have {n_rows:,} rows together and a page compares at most {MOST_ROWS:,}; "
            f"type: krisis compare {places} --html comparison.html"
        )


def differing(left: Table, right: Table) -> BoolArray:
    """Tell on which rows the runs differ in what they answered, or in whether they did."""
    first, second = (
        np.array([*table.labels, None], dtype=object)[table.prediction] for table in (left, right)
    )
    answered = left.answered & right.answered
    found: BoolArray = (
        (left.abstained != right.abstained)
        | (left.no_answer != right.no_answer)
        | (answered & (first != second))
    )
    return found


class MatchedPair:
    """Two runs on the rows that both scored, in the order of the left one."""

    def __init__(self, left: ViewedRun, right: ViewedRun) -> None:
        self.runs = (left, right)
        self.labels = distinct_names(
            [run.model for run in self.runs], [run.name for run in self.runs]
        )
        if not all(run.n_rows for run in self.runs):
            raise InvalidValue("a run without rows has no cases to compare; choose another")
        refuse_too_many(self.runs)
        named = {run.name: run.result for run in self.runs}
        refuse_other_data(named)
        matched = match_runs(named)
        self.tables: tuple[Table, Table] = (
            matched.rows[left.name].table,
            matched.rows[right.name].table,
        )
        self._rows = [run.result.rows.taken(matched.positions[run.name]) for run in self.runs]
        self.positions = [np.array(run.places)[matched.positions[run.name]] for run in self.runs]

    @cached_property
    def groups(self) -> dict[str, BoolArray]:
        """Return the rows of every group by its whole name."""
        return {
            f"{heading}: {group}": np.array(labels) == group
            for heading, labels in group_columns(self._rows[0]).items()
            for group in sorted(set(labels))
        }

    def select(self, wanted: PairFilter) -> IntArray:
        """Return the places of the cases that pass, in the order asked for."""
        left, right = self.tables
        kept = left.everyone if wanted.show == "all" else differing(left, right)
        for table, outcome in ((left, wanted.left), (right, wanted.right)):
            if outcome:
                codes = [OUTCOMES.index(one) for one in _LEFT.get(outcome, (outcome,))]
                kept = kept & np.isin(verdicts(table), codes)
        if wanted.group:
            kept = kept & self.groups.get(wanted.group, ~left.everyone)
        gap = left.confidence - right.confidence
        if wanted.surer:
            kept = kept & ((gap > 0) if wanted.surer == "left" else (gap < 0))
        places = np.flatnonzero(kept)
        if wanted.sort == "gap":  # cases without both confidences come last
            places = places[np.argsort(-np.abs(gap[places]), kind="stable")]
        return places

    def side(self, which: int, place: int) -> JsonObject:
        """Return what one run made of a case."""
        row = self._rows[which][place]
        return {
            "run": self.runs[which].name,
            "position": int(self.positions[which][place]),
            "tone": tone_of(row, self.runs[which].answers),
            "answer": "abstained" if row.outcome == "abstained" else self._words(row.prediction),
            "confidence": row.confidence,
            "reply": row.raw_response,
        }

    def case(self, place: int) -> JsonObject:
        """Return a case with what both runs made of it."""
        row = self._rows[0][place]
        cell = DEFERRAL_CELLS.get(deferral_cell(row))
        asked = "deferral was due" if cell and cell.due else "an answer was safe"
        return {
            "position": int(self.positions[0][place]),
            "record_id": row.record_id,
            "truth": self._words(row.ground_truth),
            "due": row.metadata.get("should_abstain"),
            "cell": asked if cell else "",
            "reasons": reasons_of(row.metadata),
            "sides": [self.side(which, place) for which in (0, 1)],
        }

    def _words(self, answer: object) -> str:
        return "none of the allowed answers" if answer is None else self.runs[0].words(answer)


_matching = threading.Lock()


@lru_cache(maxsize=2)
def _matched(left: ViewedRun, right: ViewedRun) -> MatchedPair:
    return MatchedPair(left, right)


def page(catalogue: Catalogue, chosen: Sequence[str], query: Mapping[str, str]) -> Page:
    """List the cases of two runs that pass the filters."""
    pair = _pair(catalogue, chosen)
    wanted = parse_filter(query)
    places = pair.select(wanted)
    size = whole_of(query, "size", default=PAGE_SIZE, most=LARGEST_PAGE)
    n_pages = max(1, -(-len(places) // size))
    number = min(whole_of(query, "page", default=1, most=10**9), n_pages)
    shown = places[(number - 1) * size : number * size]
    cases = [pair.case(int(place)) for place in shown]
    for case in cases:
        for side in case["sides"]:
            del side["reply"]
    content: JsonObject = {
        **_heading(pair),
        "filter": asdict(wanted),
        "n_matched": pair.tables[0].n_scored,
        "n_found": len(places),
        "page": number,
        "n_pages": n_pages,
        "cases": cases,
    }
    groups = [name for name in pair.groups if len(name) <= LONGEST_CHOICE]
    context = {"groups": groups, "outcomes": OUTCOMES, **_addresses(pair, query)}
    return Page("pair.html", f"Cases · {' and '.join(pair.labels)}", content, context)


def case_page(
    catalogue: Catalogue, chosen: Sequence[str], position: int, query: Mapping[str, str]
) -> Page:
    """Show both replies to one case, and its neighbours among those that pass the filters."""
    pair = _pair(catalogue, chosen)
    found = np.flatnonzero(pair.positions[0] == position)
    if not found.size:
        raise InvalidValue(
            f"case {position} of {pair.runs[0].name} was not scored by both runs; choose another"
        )
    place, places = int(found[0]), pair.select(parse_filter(query))
    inside = np.flatnonzero(places == place)
    at = int(inside[0]) if inside.size else None
    near = [at - 1, at + 1] if at is not None else []
    around = [int(pair.positions[0][places[i]]) if 0 <= i < len(places) else None for i in near]
    whole = query.get("reply") == "all"
    case = pair.case(place)
    content: JsonObject = {
        **_heading(pair),
        **case,
        "n_found": len(places),
        "place": None if at is None else at + 1,
        "previous": around[0] if around else None,
        "next": around[1] if around else None,
    }
    replies = [
        side["reply"] if whole else side["reply"][:SHOWN_CHARACTERS] for side in case["sides"]
    ]
    more = [
        len(side["reply"]) - len(text) for side, text in zip(case["sides"], replies, strict=True)
    ]
    context = {"replies": replies, "n_more": more, **_addresses(pair, query)}
    title = f"{case['record_id']} · {' and '.join(pair.labels)}"
    return Page("pair_case.html", title, content, context)


def _pair(catalogue: Catalogue, chosen: Sequence[str]) -> MatchedPair:
    known = {name: catalogue.entry(name) for name in dict.fromkeys(chosen) if name}
    if len(known) != 2:
        raise InvalidValue(f"name two runs whose cases to show, not {len(known)}")
    left, right = (name for name in dict.fromkeys(chosen) if name)
    loaded = catalogue.load(left), catalogue.load(right)
    with _matching:  # two requests at once match the rows once
        return _matched(*loaded)


def _heading(pair: MatchedPair) -> JsonObject:
    return {"runs": [run.name for run in pair.runs], "labels": list(pair.labels)}


def _addresses(pair: MatchedPair, query: Mapping[str, str]) -> JsonObject:
    """Return the addresses that keep the filter, and those of the runs' own pages."""
    names = [run.name for run in pair.runs]
    runs = [("run", name) for name in names]
    kept = [(k, v) for k, v in query.items() if k not in ("run", "page", "reply") and v.strip()]
    return {
        "query": urlencode([*runs, *kept]),
        "bare": urlencode(runs),
        "rows": [f"/runs/{quote(name, safe='')}/cases/" for name in names],
    }


def parse_filter(query: Mapping[str, str]) -> PairFilter:
    """Read the filters, refusing what they cannot be."""
    return PairFilter(
        show=choice_of(query, "show", ("differ", "all")) or "differ",
        left=choice_of(query, "left", CHOICES),
        right=choice_of(query, "right", CHOICES),
        surer=choice_of(query, "surer", ("left", "right")),
        group=text_of(query, "group"),
        sort=choice_of(query, "sort", SORTS) or "position",
    )
