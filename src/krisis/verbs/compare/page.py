"""The document of a comparison: what differs in cases, the headline, then every figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from krisis.metrics.base import Rows
from krisis.metrics.explanations import reason_words
from krisis.metrics.partition import verdicts
from krisis.metrics.table import BoolArray
from krisis.metrics.table import Table as Cases
from krisis.pages import numbers
from krisis.pages.cases import PairCases
from krisis.pages.charts.curves import Curve, not_drawable, risk_coverage
from krisis.pages.charts.spec import FigureSpec, page_chart
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
from krisis.pages.missed import Missed
from krisis.pages.numbers import Estimate, count
from krisis.pages.style import Style
from krisis.results.ids import ShownIds
from krisis.results.missing import MissingCases
from krisis.results.report_tables import mixture, optional_stopping
from krisis.results.result import BenchmarkResult
from krisis.results.side_by_side import SideBySide, best_first, short_name
from krisis.statistics.intervals import DEFAULT_LEVEL
from krisis.verbs.compare.comparison import Comparison, MetricDelta, Pair

OUTCOMES = ("right", "wrong", "left")  # left to a person: abstained, or without an answer


N_IDS_SHOWN = 5
UNPAIRED = (
    "UNPAIRED: at least one file holds scores but no rows, so the runs are compared as if they had "
    "no case in common. Name full results or runs for a paired test."
)
_ANSWERS: dict[str, Reply] = {
    "better": "yes",
    "worse": "no",
    "equivalent": "yes",
    "non-inferior": "yes",
    "cannot tell": "cannot tell",
    "no significant difference": "cannot tell",
}


def comparison_document(comparison: Comparison, *, with_ids: bool = True) -> Document:
    """Return all there is to show of a comparison.

    In what is made to be shared, cases of real patients have numbers in place of ids
    (``with_ids=False``).
    """
    cautions = [] if comparison.paired else [UNPAIRED]
    ids = ShownIds.of(next(iter(comparison.runs.values())), with_ids=with_ids)
    readers = _reader_section(comparison)
    ending = [
        *_curves(comparison),
        _basis(comparison, ids),
        _tests(comparison),
        _spending(comparison),
    ]
    if len(comparison.runs) > 2:
        return Document(
            title=f"{len(comparison.runs)} runs · {_suite(comparison)}",
            lead=[*cautions, *best_sentences(comparison), *about_lines(comparison)],
            sections=[*many_runs_sections(comparison, ids), *readers, *ending],
            first=("scores", "readers"),
        )
    (pair,) = comparison.pairs
    first, *others = case_sentences(pair, comparison.options.level) or [""]
    return Document(
        title=f"{pair.right} compared with {pair.left} · {_suite(comparison)}",
        lead=[*cautions, *filter(None, [first]), *about_lines(comparison)],
        verdict=_verdict(comparison, pair),
        sections=[
            *(
                [Section(key="cases", title="Cases", parts=[_outcomes(pair, 0), Sentences(others)])]
                if pair.matched is not None
                else []
            ),
            Section(
                key="scores",
                title="Scores on the common cases" if comparison.paired else "Scores",
                parts=[_differences(comparison, pair)],
            ),
            *readers,
            *_changes_section(pair, 0, ids),
            *ending,
        ],
        first=("cases", "scores", "readers"),
    )


def _reader_section(comparison: Comparison) -> list[Section]:
    """Return how far readers agree, where two or more of the runs are of people."""
    found = comparison.agreement
    if found is None:
        return []
    named = [(f"{' and '.join(one.readers)}: Cohen's κ", one) for one in found.kappa]
    if found.alpha is not None:
        named.append((f"all {len(found.alpha.readers)} readers: Krippendorff's α", found.alpha))
    table = Table.of(
        named,
        {
            Column("name", "readers"): lambda item: item[0],
            Column("count", "cases", "cases that two or more of them answered"): lambda item: (
                item[1].n_cases
            ),
            Column("figure", "agreement", "1 is perfect, 0 is that of chance"): lambda item: (
                Estimate.of(item[1].value, item[1].interval)
            ),
        },
    )
    words = (
        "Cases are random here and readers are not: the intervals speak of these readers on other "
        "cases, not of other readers. Cases on which a reader abstained are left out."
    )
    parts: list[Content] = [table, Sentences([words])]
    return [Section(key="readers", title="Agreement between readers", parts=parts)]


def _suite(comparison: Comparison) -> str:
    first = next(iter(comparison.runs.values())).suite_description
    parts = [str(first[key]) for key in ("suite", "task", "features") if first.get(key)]
    return " / ".join(parts) or "unnamed suite"


def about_lines(comparison: Comparison) -> list[str]:
    """Say on which cases runs are compared, by which metrics not, and which mix or ended early."""
    runs = list(comparison.runs.values())
    bases = {pair.basis for pair in comparison.pairs if pair.matched is not None}
    found = [f"Compared on {bases.pop()}."] if len(bases) == 1 else []
    risks = dict.fromkeys(run.suite.deferral for run in runs)
    cautions = (caution(run) for run in runs for caution in (mixture, optional_stopping))
    reasons = dict.fromkeys(comparison.left_out.values())
    found += [
        f"Not compared: {', '.join(k for k, why in comparison.left_out.items() if why == reason)} "
        f"({reason})."
        for reason in reasons
    ]
    return [*found, *(sentence for sentence in (*risks, *cautions) if sentence)]


# --- What differs in cases -------------------------------------------------------------------


def case_sentences(pair: Pair, level: float = DEFAULT_LEVEL) -> list[str]:
    """Say which cases one run answers and the other left to a person, and who was right where.

    Both rest on the cases that both runs evaluated.
    """
    if pair.matched is None:
        return []
    left, right = (pair.matched.rows[name].table for name in (pair.left, pair.right))
    both = left.answered & right.answered
    better, worse = right.correct & ~left.correct & both, left.correct & ~right.correct & both
    shared = (
        f"Both answer {count(int(both.sum()))} cases: {pair.right} alone is right in "
        f"{count(int(better.sum()))}, {pair.left} alone in {count(int(worse.sum()))}."
    )
    if np.array_equal(left.answered, right.answered):  # who is right there is the finding
        n_left = int(np.count_nonzero(~both))
        same = f"Both leave the same {count(n_left)} cases to a person."
        return [shared, same, *_missed(pair, level)] if n_left else [shared, *_missed(pair, level)]
    alone = [
        _answered_alone(pair.right, right, pair.left, left),
        _answered_alone(pair.left, left, pair.right, right),
    ]
    if not (right.answered & ~left.answered).any():  # which is no finding
        alone.reverse()
    return [*alone, shared, *_missed(pair, level)]


def _missed(pair: Pair, level: float) -> list[str]:
    """Say of each run what became of the diseased."""
    assert pair.matched is not None
    found = {name: Missed.of(pair.matched.rows[name].table) for name in (pair.left, pair.right)}
    return [
        f"Missed disease, {name}: {one.finding('case', level).sentence()}."
        for name, one in found.items()
        if one
    ]


def _answered_alone(name: str, table: Cases, other: str, others: Cases) -> str:
    """Say how many cases one run answers that the other left, and whether it should have."""
    alone = table.answered & ~others.answered
    n = int(alone.sum())
    words = f"{name} answers {count(n)} cases that {other} left to a person"
    if not n:
        return f"{words}."
    due = ""
    if (table.should_abstain[alone] >= 0).all():
        due = f"; {count(_n(alone, table.should_abstain == 1))} of them should have been left"
    right = _n(alone, table.correct)
    return f"{words}{due}; right {count(right)}, wrong {count(n - right)}."


def _n(first: BoolArray, second: BoolArray) -> int:
    return int(np.count_nonzero(first & second))


def _outcomes(pair: Pair, place: int) -> Table:
    """Return how many cases had which outcome in both runs."""
    assert pair.matched is not None
    codes = [
        np.minimum(verdicts(pair.matched.rows[name].table), 2) for name in (pair.left, pair.right)
    ]
    counts = np.zeros((3, 3), dtype=np.int64)
    np.add.at(counts, tuple(codes), 1)
    rows: list[list[Cell]] = [
        [f"{pair.left} {before}", *line.tolist(), int(line.sum())]
        for before, line in zip(OUTCOMES, counts, strict=True)
    ]
    rows.append(["all", *counts.sum(axis=0).tolist(), int(counts.sum())])
    headings = [f"{pair.right} {after}" for after in OUTCOMES]
    columns = (Column("name", "cases"), *(Column("count", one) for one in (*headings, "all")))
    keys = [*OUTCOMES, ""]
    cases = {
        (at, 1 + by): PairCases(pair=place, left=before, right=after)
        for at, before in enumerate(keys)
        for by, after in enumerate(keys)
        if (before or after) and rows[at][1 + by]
    }
    return Table(columns=columns, rows=rows, keys=[*OUTCOMES, "all"], cases=cases)


def _changes_section(pair: Pair, place: int, ids: ShownIds) -> list[Section]:
    rows: list[list[Cell]] = []
    cases = {}
    for (before, after), found in pair.changes.items():
        if found:
            cases[len(rows), 1] = PairCases(pair=place, left=before, right=after)
            more = ", …" if len(found) > N_IDS_SHOWN else ""
            named = ", ".join(ids.record(row.record_id) for row in found[:N_IDS_SHOWN])
            rows.append([f"{before} → {after}", len(found), f"{named}{more}"])
    columns = (Column("name", "change"), Column("count", "cases"), Column("name", "most confident"))
    parts = [Table(columns=columns, rows=rows, cases=cases)]
    return [Section(key="changes", title="What changed", parts=parts)] if rows else []


# --- The headline ----------------------------------------------------------------------------


def _verdict(comparison: Comparison, pair: Pair) -> Verdict:
    """Return the headline: the primary difference, and the margin."""
    level = comparison.options.level
    headline = [delta for delta in pair.deltas.values() if delta.primary]
    headline = headline or [delta for delta in pair.deltas.values() if delta.test][:1]
    lines = [line for delta in headline for line in _difference_lines(delta, level)]
    shown = [d.interval.level for d in headline if d.interval and d.interval.defined]
    return Verdict(lines, level=shown[0] if shown else level)


def _difference_lines(delta: MetricDelta, level: float) -> Iterator[Finding]:
    words = delta.verdict(level)
    difference = Estimate.of(delta.delta, delta.interval, bound=0.0)
    left, right = (Column("figure", "").write(one) for one in delta.shown)
    p = "" if math.isnan(delta.p_adjusted) else f", {numbers.p_sentence(delta.p_adjusted)}"
    yield Finding(
        key="headline",
        question="Better?",
        answer=_ANSWERS.get(words),
        figures=[
            Stated(
                words=f"{metric_name(delta)} {{}}: {right} against {left}{p}",
                estimate=difference,
                kind="change",
            )
        ]
        if not math.isnan(delta.delta)
        else [],
        reason=reason_words(delta.reason) if math.isnan(delta.delta) else "",
    )
    if delta.margin is not None and delta.non_inferior is not None:
        limit = numbers.given(delta.margin)
        bound = -delta.margin if delta.direction == "higher" else delta.margin
        verdict = delta.margin_verdict
        yield Finding(
            key="margin",
            question=f"At most {limit} worse?",
            answer="yes" if delta.non_inferior else _margin_answer(delta),
            figures=[
                Stated(
                    words="{}" if verdict == "cannot tell" else f"{verdict}: {{}}",
                    estimate=Estimate.of(delta.delta, delta.interval, bound=bound),
                    kind="change",
                )
            ],
        )


def _margin_answer(delta: MetricDelta) -> Reply:
    """Answer no only where the whole interval is beyond the margin: a smaller loss may be shown."""
    assert delta.interval is not None
    assert delta.margin is not None
    least = -delta.interval.high if delta.direction == "higher" else delta.interval.low
    return "no" if least > delta.margin else "cannot tell"


# --- Scores and differences ------------------------------------------------------------------


def metric_name(delta: MetricDelta) -> str:
    """Return the short name of the number that is compared."""
    return delta.compared_by or short_name(delta.key, delta.name)


def _differences(comparison: Comparison, pair: Pair) -> Table:
    """Return a row per metric: both runs, the difference and its verdict."""
    level, groups = comparison.options.level, comparison.tied_with_best()
    rows: list[list[Cell]] = [
        [
            metric_name(delta),
            *delta.shown,
            Estimate.of(delta.delta, delta.interval),
            delta.verdict(level),
        ]
        for delta in pair.deltas.values()
    ]
    columns = (
        Column("name", "metric"),
        Column("figure", pair.left),
        Column("figure", pair.right),
        Column("change", "difference", f"{pair.right} minus {pair.left}"),
        Column("name", "verdict"),
    )
    best = {
        (at, 1 + side)
        for at, key in enumerate(pair.deltas)
        for side, name in enumerate((pair.left, pair.right))
        if name in groups.get(key, ())
    }
    keys = list(pair.deltas)
    return Table(columns=columns, rows=rows, keys=keys, best=best, compared=(1, 2))


def _headline(comparison: Comparison) -> str:
    """Return the metric that runs are sorted by: the primary one, else the first."""
    deltas = comparison.pairs[0].deltas
    return next((key for key, delta in deltas.items() if delta.primary), next(iter(deltas), ""))


def best_sentences(comparison: Comparison) -> list[str]:
    """Say which run leads by the headline, and which ones are not shown to differ from it."""
    tied, key = comparison.tied_with_best(), _headline(comparison)
    if key not in tied:
        return []
    name = metric_name(comparison.pairs[0].deltas[key])
    order = [entry.name for entry in _sorted(comparison.side_by_side(), key).entries]
    first, *others = sorted(tied[key], key=order.index)
    open_ = " This depends on the missing cases." if comparison.depends_on_missing(key) else ""
    rest = f"; not shown to differ from it: {', '.join(others)}" if others else ""
    return [f"Best by {name}: {first}{rest}.{open_}"]


def _sorted(found: SideBySide, key: str) -> SideBySide:
    """Return runs from the best to the worst by a metric, which becomes the first column."""
    columns = sorted(found.columns, key=lambda column: column.name != key)
    known = [column for column in columns if column.name == key]
    return SideBySide(columns, best_first(found.entries, known[0]) if known else found.entries)


def many_runs_sections(comparison: Comparison, ids: ShownIds | None = None) -> Iterator[Section]:
    """Yield runs as one table, the best by the headline first; then every pair, folded."""
    tied = comparison.tied_with_best() if comparison.paired else {}
    yield from runs_sections(_sorted(comparison.side_by_side(), _headline(comparison)), tied)
    shown = ids or ShownIds()
    yield from (_pair_section(comparison, place, shown) for place in range(len(comparison.pairs)))


def runs_sections(found: SideBySide, tied: dict[str, list[str]] | None = None) -> list[Section]:
    """Return runs side by side: the figures, what to know before them, and what is open."""
    tied = tied or {}
    rows: list[list[Cell]] = [
        [
            entry.name,
            *(
                Estimate.of(entry.cells[c.name].value, entry.cells[c.name].interval)
                for c in found.columns
            ),
        ]
        for entry in found.entries
    ]
    best = {
        (at, 1 + place)
        for at, entry in enumerate(found.entries)
        for place, column in enumerate(found.columns)
        if entry.name in tied.get(column.name, ())
    }
    columns = [Column("name", "run"), *(Column("figure", c.heading) for c in found.columns)]
    parts: list[Content] = [Table(columns=columns, rows=rows, best=best)]
    notes = [f"{e.name}: {', '.join(e.warnings)}" for e in found.entries if e.warnings]
    reasons = {
        f"{column.heading} of {entry.name} is undefined: {reason_words(cell.reason)}"
        for entry in found.entries
        for column in found.columns
        if math.isnan((cell := entry.cells[column.name]).value) and cell.reason
    }
    parts += [Sentences([*notes, *sorted(reasons)])] if notes or reasons else []
    sections = [Section(key="scores", title="Runs, best first", parts=parts)]
    missing: list[list[Cell]] = [
        [entry.name, column.heading, *cell.bounds]
        for entry in found.entries
        for column in found.columns
        if (cell := entry.cells[column.name]).bounds is not None
    ]
    if missing:
        bounds = (
            Column("name", "run"),
            Column("name", "metric"),
            Column("figure", "lowest"),
            Column("figure", "highest"),
        )
        title = "If the cases that were not evaluated were known"
        part = Table(columns=bounds, rows=missing)
        sections.append(Section(key="missing", title=title, parts=[part], folded=True))
    return sections


def _pair_section(comparison: Comparison, place: int, ids: ShownIds) -> Section:
    """Return one of many pairs, folded."""
    pair = comparison.pairs[place]
    parts: list[Content] = [_differences(comparison, pair)]
    if pair.matched is not None:
        parts = [
            Sentences(case_sentences(pair, comparison.options.level)),
            _outcomes(pair, place),
            *parts,
        ]
    parts += [part for one in _changes_section(pair, place, ids) for part in one.parts]
    title = f"{pair.right} compared with {pair.left}"
    return Section(key=f"pair-{place}", title=title, parts=parts, folded=True)


# --- Curves ----------------------------------------------------------------------------------


def _curves(comparison: Comparison) -> list[Section]:
    """Return risk over coverage of all runs, two of them on their common cases."""
    matched = comparison.pairs[0].matched if len(comparison.runs) == 2 else None
    rows: Mapping[str, Rows] = {name: run.rows for name, run in comparison.runs.items()}
    tables = {name: one.table for name, one in (matched.rows if matched else rows).items()}
    if not comparison.paired or all(map(not_drawable, tables.values())):
        return []

    def drawn(style: Style) -> FigureSpec:
        kept = {name: table for name, table in tables.items() if not not_drawable(table)}
        curves = {name: Curve.of(name, table, options=None) for name, table in kept.items()}
        return risk_coverage(curves, style)

    parts = [page_chart("risk_coverage", drawn, wide=True)]
    return [Section(key="curves", title="Risk and coverage", parts=parts, only_on_pages=True)]


# --- What it rests on ------------------------------------------------------------------------


def _basis(comparison: Comparison, ids: ShownIds) -> Section:
    lines: list[str] = []
    if len({pair.basis for pair in comparison.pairs}) > 1:
        lines += [f"{p.left} and {p.right}: {p.basis}" for p in comparison.pairs]
    for pair in comparison.pairs:
        lines += left_out_lines(pair, ids)
    reasons = {(d.name, d.reason): None for p in comparison.pairs for d in p.deltas.values()}
    lines += [f"Not comparable: {name}: {reason_words(why)}." for name, why in reasons if why]
    unique = list(dict.fromkeys(lines)) or ["Every run has every case."]
    return Section(key="basis", title="What was left out", parts=[Sentences(unique)], folded=True)


def left_out_lines(pair: Pair, ids: ShownIds) -> Iterator[str]:
    """Yield what of two runs is not compared, and whether that is like the rest."""
    matched = pair.matched
    if matched is None:
        return
    for name, n in matched.n_not_evaluated.items():
        if n:
            yield f"{name}: {count(n)} matched cases not evaluated"
    for name, unmatched in matched.unmatched.items():
        if unmatched:
            more = ", …" if len(unmatched) > N_IDS_SHOWN else ""
            named = f" ({', '.join(unmatched[:N_IDS_SHOWN])}{more})"
            # Cases of another run have no number here, so that ids in doubt are not shown.
            shown = "" if ids.records else named
            yield f"{name}: {count(len(unmatched))} cases have no partner{shown}"
    yield from map(_missing_sentence, pair.missing)


def _missing_sentence(found: MissingCases) -> str:
    """Say how the other run did on the cases that one run lacks."""
    missing, common = (
        f"{count(right)} of {count(n)} ({Column('share', '').write(right / n)})"
        for right, n in (
            (found.n_right_missing, found.n_missing),
            (found.n_right_common, found.n_common),
        )
    )
    unlike = (
        "they are unlike the rest, so the difference may not hold for all cases"
        if found.differs
        else "no sign that they are unlike the rest"
    )
    return (
        f"{found.lacks} lacks {count(found.n_missing)} cases; on these {found.other} is right on "
        f"{missing}, on the common ones on {common} (Fisher's "
        f"{numbers.p_sentence(found.p_value)}): {unlike}"
    )


def _tests(comparison: Comparison) -> Section:
    rows: list[list[Cell]] = [
        [
            *([f"{pair.right} − {pair.left}"] if len(comparison.pairs) > 1 else []),
            metric_name(delta) + (" (primary)" if delta.primary else ""),
            delta.p_value,
            delta.p_adjusted,
            margin_words(delta),
        ]
        for pair in comparison.pairs
        for delta in pair.deltas.values()
        if delta.test
    ]
    columns = [
        *([Column("name", "runs")] if len(comparison.pairs) > 1 else []),
        Column("name", "metric"),
        Column("p", "p"),
        Column("p", "adjusted p", "adjusted for all tests of this comparison"),
        Column("name", "margin"),
    ]
    if comparison.options.margin is None:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    parts: list[Content] = [Table(columns=columns, rows=rows)] if rows else []
    lines = test_lines(comparison) or ["Nothing was tested."]
    return Section(key="tests", title="Tests", parts=[*parts, Sentences(lines)], folded=True)


def margin_words(delta: MetricDelta) -> str:
    """Say how right compares to left, given how much worse would not matter."""
    if delta.margin is None or delta.non_inferior is None:
        return ""
    return f"{delta.margin_verdict} (margin {numbers.given(delta.margin)})"


def test_lines(comparison: Comparison) -> list[str]:
    """Say how the tests were made, and which metrics have none or are compared by another."""
    deltas = [delta for pair in comparison.pairs for delta in pair.deltas.values()]
    tested = {delta.name: delta for delta in deltas if delta.test}
    lines = []
    if tested:
        parts = [f"{delta.name} is tested alone" for delta in tested.values() if delta.primary]
        if together := sum(not delta.primary for delta in tested.values()):
            parts.append(f"{together} metrics are adjusted together by max-T")
        if len(comparison.pairs) > 1:
            parts.append(f"all for {len(comparison.pairs)} pairs")
        lines.append(
            f"Paired permutation by patient ({count(comparison.n_permutations)} permutations, "
            f"studentised); {', '.join(parts)}. Interval and verdict of a tested metric have the "
            "same level. No significant difference does not mean equal: use --margin to show that."
        )
    by_other = {d.name: d for d in deltas if d.compared_by}
    for name, delta in by_other.items():
        why = f", {delta.compared_because}" if delta.compared_because else ""
        lines.append(f"{name} is compared by {delta.compared_by}{why}.")
    others = {d.name: None for d in deltas if not math.isnan(d.delta) and d.name not in tested}
    if tested and others:
        lines.append(
            f"Not tested: {', '.join(others)}. Their intervals are not adjusted for each other. To "
            "test a metric, name it with --metric or --primary."
        )
    return lines


def _spending(comparison: Comparison) -> Section:
    return Section(
        key="spending",
        title="Time, tokens and cost",
        parts=[spending_table(comparison.runs)],
        folded=True,
    )


def spending_table(runs: Mapping[str, BenchmarkResult]) -> Table:
    """Return the seconds, tokens and dollars of every run."""

    def known(value: float | None) -> Cell:
        return "not known" if value is None else value

    return Table.of(
        ((name, run.spending) for name, run in runs.items()),
        {
            Column("name", "run"): lambda item: item[0],
            Column("figure", "seconds"): lambda item: known(item[1].elapsed_seconds),
            Column("count", "tokens"): lambda item: known(item[1].token_total),
            Column("figure", "cost ($)"): lambda item: known(item[1].cost),
        },
    )
