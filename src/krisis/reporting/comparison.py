"""A comparison as a page: differences with intervals, curves together, rows that changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from krisis.json_values import JsonObject
from krisis.metrics.base import Rows
from krisis.pages import numbers
from krisis.pages.charts.curves import Curve, not_drawable, risk_coverage
from krisis.pages.charts.paired_confidence import Panel, confidence_panels
from krisis.pages.compare import (
    UNPAIRED,
    about_lines,
    case_sentences,
    group_name,
    left_out_lines,
    margin_words,
    metric_name,
    spending_table,
    test_lines,
    where_lines,
)
from krisis.pages.document import Column, Table
from krisis.pages.figure import Figure
from krisis.pages.numbers import Estimate
from krisis.pages.shell import render
from krisis.pages.style import Style
from krisis.results.account import TaskFacts
from krisis.results.comparison.compare import Comparison, MetricDelta
from krisis.results.comparison.matching import OUTCOMES, ChangedRow
from krisis.results.comparison.where import FIGURES, GroupDifference, differing
from krisis.results.ids import ShownIds
from krisis.statistics.intervals import interval_heading, level_name

N_CHANGED_SHOWN = 20
_WIDTH, _MIDDLE = 60.0, 64.0


@dataclass(frozen=True, slots=True)
class DeltaLine:
    """One difference as a page shows it, with its place on a strip around zero."""

    name: str
    arrow: str
    cells: list[str]
    verdict: str
    tone: str
    margin: str
    low: float | None
    high: float | None
    middle: float | None


@dataclass(frozen=True, slots=True)
class PairPage:
    """One pair of runs, ready for the template."""

    left: str
    right: str
    lines: list[DeltaLine]
    interval_heading: str
    widest: float
    changes: list[JsonObject]
    summary: str
    with_reference: bool
    case_words: list[str] = field(default_factory=list)
    where_words: list[str] = field(default_factory=list)
    groups: list[JsonObject] = field(default_factory=list)
    group_level: str = ""
    n_standing_out: int = 0
    skipped: str = ""
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    n_differing: int = 0
    panels: list[Panel] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """A whole comparison, ready for the template."""

    names: list[str]
    suite: str
    words: list[str]
    paired: bool
    margin: bool
    scores: list[JsonObject]
    spending: Table
    pairs: list[PairPage]
    figures: list[Figure]
    tests: list[str]
    n_permutations: int


def comparison_page(comparison: Comparison, *, with_ids: bool = False) -> ComparisonPage:
    """Work out everything that the page of a comparison shows.

    Cases of real patients are shown by number, in the order of their ids, unless ``with_ids``.
    """
    first = next(iter(comparison.runs.values())).suite_description
    parts = [str(first[key]) for key in ("suite", "task", "features") if first.get(key)]
    left_out = dict.fromkeys(line for pair in comparison.pairs for line in left_out_lines(pair))
    return ComparisonPage(
        names=list(comparison.runs),
        suite=" · ".join(parts) or "unnamed suite",
        words=[*([] if comparison.paired else [UNPAIRED]), *about_lines(comparison), *left_out],
        paired=comparison.paired,
        margin=comparison.options.margin is not None,
        scores=_score_lines(comparison),
        spending=spending_table(comparison.runs),
        pairs=[
            _pair_page(comparison, place, with_ids=with_ids)
            for place in range(len(comparison.pairs))
        ],
        figures=_curves(comparison),
        tests=test_lines(comparison),
        n_permutations=comparison.n_permutations,
    )


def _score_lines(comparison: Comparison) -> list[JsonObject]:
    groups = comparison.tied_with_best() if comparison.paired else {}
    open_labels = {label for label in groups if comparison.depends_on_missing(label)}
    arrows = {"higher": "↑", "lower": "↓", "neither": ""}
    lines = []
    for label, first in next(iter(comparison.scores.values())).items():
        values = [
            {
                "value": scores[label].value if label in scores else math.nan,
                "best": name in groups.get(first.identifier, ()),
                "open": first.identifier in open_labels,
            }
            for name, scores in comparison.scores.items()
        ]
        lines.append({"name": label, "arrow": arrows[first.direction], "values": values})
    return lines


def _pair_page(comparison: Comparison, place: int, *, with_ids: bool) -> PairPage:
    pair, level = comparison.pairs[place], comparison.options.level
    ids = ShownIds.of(comparison.runs[pair.left], with_ids=with_ids)
    task = comparison.runs[pair.left].provenance.task_facts
    widest = max(map(_reach, pair.deltas.values()), default=0.0) or 1.0
    verdicts = Counter(delta.verdict(level) for delta in pair.deltas.values())
    return PairPage(
        pair.left,
        pair.right,
        [_delta_line(delta, widest, level) for delta in pair.deltas.values()],
        interval_heading(delta.interval for delta in pair.deltas.values()),
        widest,
        [_change(change, rows, task, ids) for change, rows in pair.changes.items() if rows],
        ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common()),
        pair.left == next(iter(comparison.runs)),
        **_where_parts(comparison, place),
    )


def _where_parts(comparison: Comparison, place: int) -> JsonObject:
    """Return where two runs differ, as parts of a page; nothing where rows were not matched."""
    matched = comparison.pairs[place].matched
    if matched is None:
        return {}
    where, rows = comparison.where[place], matched.rows
    tables = (rows[where.left].table, rows[where.right].table)
    with_reference = where.left == next(iter(comparison.runs))
    n_standing_out = len(where.standing_out)
    return {
        "case_words": case_sentences(comparison.pairs[place]),
        "where_words": where_lines(where),
        "groups": [
            {**_group_line(one), "stands_out": index < n_standing_out}
            for index, one in enumerate(where.differences)
        ],
        "group_level": level_name([where.level]),
        "n_standing_out": n_standing_out,
        "skipped": "; ".join(f"{name} ({reason})" for name, reason in where.skipped.items()),
        "outcomes": {
            before: {after: where.outcomes[before, after] for after in OUTCOMES}
            for before in OUTCOMES
        },
        "n_differing": int(differing(*tables).sum()),
        "panels": confidence_panels(*tables, (where.left, where.right)) if with_reference else [],
    }


def _group_line(one: GroupDifference) -> JsonObject:
    difference, share = Column("difference", "").write, Column("share", "").write
    return {
        "name": one.name,
        "words": group_name(one),
        "n_rows": one.n_rows,
        "n_patients": one.n_patients,
        "left": share(one.left),
        "right": share(one.right),
        "figure": FIGURES[one.figure],
        "delta": difference(Estimate.of(one.delta, one.interval)),
        "gap": difference(Estimate.of(one.gap, one.gap_interval)),
        "p": numbers.p_value(one.p_adjusted),
    }


def _reach(delta: MetricDelta) -> float:
    interval = delta.interval
    ends = [delta.delta] if interval is None else [delta.delta, interval.low, interval.high]
    return max((abs(end) for end in ends if not math.isnan(end)), default=0.0)


def _delta_line(delta: MetricDelta, widest: float, level: float) -> DeltaLine:
    low = high = None
    if delta.interval is not None and delta.interval.defined:
        low, high = _place(delta.interval.low, widest), _place(delta.interval.high, widest)
    verdict, figure = delta.verdict(level), Column("figure", "").write
    return DeltaLine(
        name=metric_name(delta) + (" (primary)" if delta.primary else ""),
        arrow={"higher": "↑", "lower": "↓"}.get(delta.direction, ""),
        cells=[
            *map(figure, delta.shown),
            Column("change", "").write(Estimate.of(delta.delta, delta.interval)),
            *map(numbers.p_value, (delta.p_value, delta.p_adjusted)),
        ],
        verdict=verdict,
        tone=verdict if verdict in ("better", "worse") else "muted",
        margin=margin_words(delta),
        low=low,
        high=high,
        middle=None if math.isnan(delta.delta) else _place(delta.delta, widest),
    )


def _place(value: float, widest: float) -> float:
    return round(_MIDDLE + _WIDTH * value / widest, 1)


def _change(
    change: str, rows: Sequence[ChangedRow], task: TaskFacts | None, ids: ShownIds
) -> JsonObject:
    def in_words(row: ChangedRow) -> JsonObject:
        answers = ("ground_truth", "left_answer", "right_answer")
        given = {name: getattr(row, name) for name in answers}
        words = {name: task.words(one) for name, one in given.items() if task and one is not None}
        return row.to_dict() | {"record_id": ids.record(row.record_id)} | words

    shown = [in_words(row) for row in rows[:N_CHANGED_SHOWN]]
    return {"change": change, "n_rows": len(rows), "rows": shown}


def _curves(comparison: Comparison) -> list[Figure]:
    """Draw the risk–coverage curves of all runs together."""
    rows: Mapping[str, Rows] = {}
    if comparison.paired:  # two runs on their common cases, more of them each on its own
        matched = comparison.pairs[0].matched if len(comparison.runs) == 2 else None
        rows = matched.rows if matched else {n: run.rows for n, run in comparison.runs.items()}
    curves = {
        name: Curve.of(name, run.table, options=None)
        for name, run in rows.items()
        if not not_drawable(run.table)
    }
    style = Style().whole_width
    return [risk_coverage(curves, style).figure(style)] if curves else []


def comparison_html(comparison: Comparison, *, with_ids: bool = False) -> str:
    """Return the page as one self-contained file."""
    page = comparison_page(comparison, with_ids=with_ids)
    return render(
        "comparison.html",
        comparison=page,
        title=f"Comparison: {', '.join(page.names)}",
        heading="Comparison of "
        + (" and ".join(page.names) if len(page.names) == 2 else f"{len(page.names)} runs"),
        eyebrow=page.suite,
    )
