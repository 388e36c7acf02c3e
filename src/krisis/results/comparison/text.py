"""A comparison for people: who was compared, what differs, and what that proves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from krisis.display import html_line, html_table
from krisis.json_values import JsonObject
from krisis.metrics.explanations import explained
from krisis.results.comparison.where import FIGURES, GroupDifference, Where
from krisis.results.report_tables import mixture, optional_stopping, risk_sentence
from krisis.statistics.intervals import interval_heading

if TYPE_CHECKING:
    from rich.table import Table

    from krisis.results.comparison.base import Comparison, MetricDelta, Pair
    from krisis.results.result import BenchmarkResult

N_IDS_SHOWN = 5
N_GROUPS_SHOWN = 5
_COLUMNS = ("left", "right", "difference", "interval", "p", "adjusted p")
_NARROW_COLUMNS = ("difference", "interval", "adjusted p")
_WIDE = 110


def comparison_parts(comparison: Comparison, *, width: int = 140) -> Iterator[Any]:
    """Yield what the terminal shows, line by line and table by table."""
    yield heading(comparison)
    yield from overview_lines(comparison)
    for index, pair in enumerate(comparison.pairs):
        yield pair_table(pair, comparison, width=width)
        if comparison.where:
            yield from where_lines(comparison.where[index])
        yield from change_lines(pair)
    yield from closing_lines(comparison)


def overview_lines(comparison: Comparison) -> Iterator[str]:
    """Yield time, tokens and cost of every run and, of more than two, their figures."""
    yield "Time, tokens and cost:"
    yield from (f"  {name}: {words}" for name, words in spending_words(comparison.runs).items())
    if len(comparison.runs) > 2:
        yield ""
        yield from comparison.side_by_side().lines()
        yield ""


def heading(comparison: Comparison) -> str:
    """Say how many cases and patients every pair rests on, and what was left out."""
    about = _about(comparison)
    if not comparison.paired:
        unpaired = (
            "UNPAIRED: at least one file holds scores but no rows, so the runs are compared as if "
            "they had no case in common. Name full results or runs for a paired test."
        )
        return "\n".join([unpaired, *about])
    bases = {pair.basis for pair in comparison.pairs}
    lines = [f"{bases.pop()} in every pair"] if len(bases) == 1 else []
    if not lines:
        lines = [f"{pair.left} and {pair.right}: {pair.basis}" for pair in comparison.pairs]
    for pair in comparison.pairs:
        lines += _left_out(pair)
    return "\n".join([*dict.fromkeys(lines), *about])


def _left_out(pair: Pair) -> Iterator[str]:
    """Yield what of two runs is not compared, and whether that is like the rest."""
    matched = pair.matched
    if matched is None:
        return
    for name, n in matched.n_not_evaluated.items():
        if n:
            yield f"  {name}: {n:,} matched cases not evaluated"
    for name, ids in matched.unmatched.items():
        if ids:
            more = ", …" if len(ids) > N_IDS_SHOWN else ""
            named = f"{', '.join(ids[:N_IDS_SHOWN])}{more}"
            yield f"  {name}: {len(ids):,} cases have no partner ({named})"
    yield from (f"  {one.sentence}" for one in pair.missing)


def _about(comparison: Comparison) -> list[str]:
    """Say when a case was to be deferred, and which runs mix patients or ended themselves."""
    runs = list(comparison.runs.values())
    risks = dict.fromkeys(risk_sentence(run.suite_description) for run in runs)
    cautions = (caution(run) for run in runs for caution in (mixture, optional_stopping))
    return [sentence for sentence in (*risks, *cautions) if sentence]


def comparison_html(comparison: Comparison) -> str:
    """Return what a notebook shows: the basis, a table per pair, and how the tests were made."""
    level = comparison.options.level
    parts = [html_line(line) for line in heading(comparison).splitlines()]
    for pair in comparison.pairs:
        lines = [
            (row_name(delta), *delta_cells(delta), _verdict_words(delta, level))
            for delta in pair.deltas.values()
        ]
        named = {"left": pair.left, "right": pair.right, "interval": pair_interval_heading(pair)}
        head = ("Metric", *(named.get(column, column) for column in _COLUMNS), "verdict")
        parts.append(html_table(head, lines, caption=f"{pair.right} minus {pair.left}"))
    closing = "\n".join(closing_lines(comparison)).splitlines()
    return "".join([*parts, *(html_line(line) for line in closing if line)])


def _verdict_words(delta: MetricDelta, level: float) -> str:
    verdict = delta.verdict(level)
    return f"{verdict}: {explained(delta.reason)}" if delta.reason else verdict


def spending_of(run: BenchmarkResult) -> JsonObject:
    """Return what a whole run took; None is not known."""
    took = run.spending
    return {
        "elapsed_seconds": took.elapsed_seconds,
        "token_total": took.token_total,
        "cost": took.cost,
    }


def spending_words(runs: Mapping[str, BenchmarkResult]) -> dict[str, str]:
    """Return the seconds, tokens and cost of every run in words."""

    def words(elapsed_seconds: float | None, token_total: int | None, cost: float | None) -> str:
        seconds = "not known" if elapsed_seconds is None else f"{elapsed_seconds:,.1f}"
        tokens = "not known" if token_total is None else f"{token_total:,}"
        dollars = "not known" if cost is None else f"${cost:,.4f}"
        return f"elapsed seconds {seconds}, token total {tokens}, cost {dollars}"

    return {name: words(**spending_of(run)) for name, run in runs.items()}


def pair_table(pair: Pair, comparison: Comparison, *, width: int = 140) -> Table:
    """Return the differences of two runs, metric by metric; a narrow one without the scores."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    columns = _COLUMNS if width >= _WIDE else _NARROW_COLUMNS
    title = Text(f"{pair.right}  minus  {pair.left}", style="bold")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    # Words may take several lines, so that no digit is cut off.
    table.add_column("Metric", max_width=22 if width < _WIDE else None)
    for name in columns:
        heading = pair_interval_heading(pair) if name == "interval" else name
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    with_margin = comparison.options.margin is not None
    if with_margin:
        table.add_column("within the margin")
    for delta in pair.deltas.values():
        figures = dict(zip(_COLUMNS, delta_cells(delta), strict=True))
        cells = [figures[name] for name in columns]
        ending = [delta.verdict(comparison.options.level)]
        # As a text, for a metric's parameters are in brackets, which would be taken for markup.
        metric = Text(row_name(delta))
        table.add_row(metric, *cells, *ending, *([margin_words(delta)] * with_margin))
    return table


def pair_interval_heading(pair: Pair) -> str:
    """Return the heading above the intervals of the differences of a pair."""
    return interval_heading(delta.interval for delta in pair.deltas.values())


def row_name(delta: MetricDelta) -> str:
    """Name the number that is compared, marked where it is not the score, or tested alone."""
    name = f"{delta.compared_by} *" if delta.compared_by else delta.name
    return name + (" (primary)" if delta.primary else "")


def delta_cells(delta: MetricDelta) -> list[str]:
    """Return the figures of a difference as texts."""
    interval = delta.interval
    bounds = "–"
    if interval is not None and not math.isnan(interval.low):
        bounds = f"{interval.low:+.4f} to {interval.high:+.4f}"
    return [
        *map(figure, delta.shown),
        figure(delta.delta, signed=True),
        bounds,
        p_words(delta.p_value),
        p_words(delta.p_adjusted),
    ]


def figure(value: float, *, signed: bool = False) -> str:
    """Write a figure to four decimals, an undefined one as a dash.

    >>> figure(0.25), figure(0.25, signed=True), figure(math.nan)
    ('0.2500', '+0.2500', '–')
    """
    if math.isnan(value):
        return "–"
    return f"{value:+.4f}" if signed else f"{value:.4f}"


def p_words(p_value: float) -> str:
    """Write a p-value, the smallest as a bound.

    >>> p_words(0.04), p_words(0.00001)
    ('0.0400', '< 0.0001')
    """
    if math.isnan(p_value):
        return "–"
    return "< 0.0001" if p_value < 0.0001 else f"{p_value:.4f}"


def margin_words(delta: MetricDelta) -> str:
    """Say how right compares to left, given how much worse would not matter."""
    if delta.margin is None or delta.non_inferior is None:
        return "–"
    return f"{delta.margin_verdict} (margin {delta.margin:g})"


def change_lines(pair: Pair) -> Iterator[str]:
    """Yield how many rows changed, with the first few by name."""
    for change, rows in pair.changes.items():
        if rows:
            names = ", ".join(row.record_id for row in rows[:N_IDS_SHOWN])
            more = ", …" if len(rows) > N_IDS_SHOWN else ""
            yield f"  {change}: {len(rows):,}  ({names}{more})"


def _tested(comparison: Comparison) -> set[str]:
    """Return the names of the metrics that have a p-value in some pair."""
    return {d.name for pair in comparison.pairs for d in pair.deltas.values() if d.test}


def not_tested(comparison: Comparison) -> str:
    """Name the metrics that a paired comparison shows without a test, and how to test them."""
    tested = _tested(comparison)
    deltas = [delta for pair in comparison.pairs for delta in pair.deltas.values()]
    shown = {d.name: None for d in deltas if not math.isnan(d.delta) and d.name not in tested}
    if not tested or not shown:
        return ""
    return (
        f"Not tested: {', '.join(shown)}. Their intervals are not adjusted for each other. To test "
        "a metric, name it with --metric or --primary."
    )


def compared_by_lines(comparison: Comparison) -> Iterator[str]:
    """Yield which metrics are compared by another number, and why."""
    deltas = [delta for pair in comparison.pairs for delta in pair.deltas.values()]
    for name, delta in {d.name: d for d in deltas if d.compared_by}.items():
        why = f", {delta.compared_because}" if delta.compared_because else ""
        yield f"* {name} is compared by {delta.compared_by}{why}."


def closing_lines(comparison: Comparison) -> Iterator[str]:
    """Yield who ties with the best, what was left out, and how the tests were made."""
    groups = comparison.tied_with_best()
    if comparison.paired and groups:
        yield "\nBest, with all that show no significant difference from it:"
        for label, names in groups.items():
            open_ = " (depends on the missing cases)" * comparison.depends_on_missing(label)
            yield f"  {label}: {', '.join(names)}{open_}"
    for label, reason in comparison.left_out.items():
        yield f"Not compared: {label}: {reason}."
    reasons = {(d.name, d.reason): None for p in comparison.pairs for d in p.deltas.values()}
    yield from (f"Not comparable: {n}: {explained(why)}." for n, why in reasons if why)
    yield from compared_by_lines(comparison)
    deltas = [delta for pair in comparison.pairs for delta in pair.deltas.values()]
    described = not_tested(comparison)
    if described:
        yield described
    tests = [delta for delta in deltas if delta.test]
    if tests:
        n_tested = len({delta.name for delta in tests if not delta.primary})
        primary = {delta.name: None for delta in tests if delta.primary}
        parts = [f"{name} is tested alone" for name in primary]
        if n_tested:
            parts.append(f"{n_tested} metrics are adjusted together by max-T")
        if len(comparison.pairs) > 1:
            parts.append(f"all for {len(comparison.pairs)} pairs")
        yield (
            f"\nTest: paired permutation by patient ({comparison.n_permutations:,} permutations, "
            f"studentised); {', '.join(parts)}. Interval and verdict of a tested metric have the "
            "same level. No significant difference does not mean equal: use --margin to show that."
        )


def where_lines(where: Where) -> Iterator[str]:
    """Yield the answer to where two runs differ, first in one sentence, then group by group."""
    found = where.standing_out
    yield _headline(where, found[0]) if found else _nowhere(where)
    yield from (f"  {_in_words(where, one)}" for one in found[1:N_GROUPS_SHOWN])
    if len(found) > N_GROUPS_SHOWN:
        yield f"  {len(found) - N_GROUPS_SHOWN} more groups stand out"


def _headline(where: Where, most: GroupDifference) -> str:
    return (
        f"They differ {'mostly' if most.more else 'least'} where {_in_words(where, most)} "
        f"Adjusted for {len(where.differences)} tests; groups overlap, so one may show in another."
    )


def _in_words(where: Where, one: GroupDifference) -> str:
    low, high = 100 * one.interval.low, 100 * one.interval.high
    return (
        f"{one.heading} is {one.group}: {FIGURES[one.figure]} {points(one.delta)} "
        f"({low:+.1f} to {high:+.1f}; "
        f"{where.left} {one.left:.1%}, {where.right} {one.right:.1%} of {one.n_rows:,} rows of "
        f"{one.n_patients:,} patients), elsewhere {points(one.delta - one.gap)}; "
        f"adjusted p {p_words(one.p_adjusted)}."
    )


def _nowhere(where: Where) -> str:
    n = len(where.differences)
    if not n:
        return "Where they differ: no group has enough patients inside and outside to be tested."
    least = where.differences[0]
    tested = (
        f"{n} tests, nearest {least.name}, {FIGURES[least.figure]}, adjusted p "
        f"{p_words(least.p_adjusted)}"
    )
    shown = [
        one for one in where.overall.values() if not one.interval.low <= 0 <= one.interval.high
    ]
    if not shown:
        return f"No group stands out, and no overall difference is shown by these data ({tested})."
    spread = " and ".join(f"{FIGURES[one.figure]} {points(one.delta)}" for one in shown)
    return (
        f"No group stands out: as far as these data show, the difference ({spread}) is spread "
        f"evenly ({tested})."
    )


def points(delta: float) -> str:
    """Write a difference of two shares in percentage points.

    >>> points(0.0512), points(-0.2)
    ('+5.1 points', '-20.0 points')
    """
    return f"{100 * delta:+.1f} points"
