"""The document of an audit: the groups to watch first, then their figures and stability."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from krisis.pages.document import (
    Cell,
    Column,
    Content,
    Document,
    Finding,
    Kind,
    Section,
    Sentences,
    Stated,
    Table,
    Verdict,
)
from krisis.pages.numbers import (
    Estimate,
    change,
    count,
    difference,
    level,
    p_sentence,
    score_name,
    threshold,
)
from krisis.results.group_labels import group_words
from krisis.statistics.group_gaps import SMALLEST_GROUP
from krisis.verbs.audit.groups import ALPHA, HEADINGS, Group, GroupAudit, Measure, MissedByGroup
from krisis.verbs.audit.result import Audit
from krisis.verbs.audit.stability import Agreement, Figure, Places, Stability


def audit_document(audit: Audit) -> Document:
    """Return all there is to show of an audit."""
    groups = audit.groups
    sections = list(group_sections(groups))
    sections += [stability_section(audit.stability)] if audit.stability else []
    lines = [] if groups.usable is None else [groups.usable]
    return Document(
        title=f"Groups, {_where(groups)}",
        lead=[_counts(groups)],
        verdict=Verdict([*lines, flag_line(groups)], level=0.95),
        sections=sections,
    )


def _where(groups: GroupAudit) -> str:
    if groups.threshold is None:
        return "every answer"
    return f"{score_name(groups.confidence)} ≥ {threshold(groups.threshold)}"


def _counts(groups: GroupAudit) -> str:
    return (
        f"{count(groups.n_rows)} rows of {count(groups.n_patients)} {groups.words[0]}s, "
        f"{count(groups.n_answered)} answered, {count(groups.n_no_answer)} without an answer; "
        f"{count(groups.n_not_evaluated)} not evaluated and left out."
    )


# --- Groups ----------------------------------------------------------------------------------


def group_sections(audit: GroupAudit) -> Iterator[Section]:
    """Yield the figures of the groups, what stands out, and what that rests on."""
    parts: list[Content] = [group_table(audit), _gaps(audit)]
    lines = [f"{column}: not compared, {why}." for column, why in audit.skipped.items()]
    lines += [
        f"{group_words(one.column, one.name)}: {one.reason}." for one in audit.groups if one.reason
    ]
    parts += [Sentences(lines)] if lines else []
    yield Section(key="groups", title="Figures of the groups", parts=parts)
    if audit.missed is not None:
        yield Section(key="missed", title="Missed disease", parts=[_missed(audit.missed)])
    yield Section.of_sentences("assumptions", "Assumptions", group_assumptions(audit))


def _missed(found: MissedByGroup) -> Table:
    """Return what became of the diseased of every group."""
    headings = ("found", f"told {found.other}", "left for people", f"of those told {found.other}")
    columns = (
        Column("name", "group"),
        Column("count", f"with {found.positive}"),
        *(Column("share", heading) for heading in headings),
    )
    rows: list[list[Cell]] = [
        [name, counts[0], *shares]
        for (name, counts), shares in zip(found.counts, found.shares, strict=True)
    ]
    note = f"Shares are of those with {found.positive}; the last is of those told {found.other}."
    return Table(columns=columns, rows=rows, note=note)


def flag_line(audit: GroupAudit) -> Finding:
    """Name the groups that the tests flag, with the risk of each."""
    flagged = [group for group in audit.groups if group.flags]
    found = [stated for group in flagged for stated in _flags(group, audit.loss == "error")]
    reason = ""
    if not audit.n_tests:
        reason = "no group could be tested"
    elif not found:
        reason = f"no group is flagged ({audit.n_tests} tests together at {level(ALPHA)})"
    return Finding(
        key="groups", question="Groups unlike the rest", answer=None, figures=found, reason=reason
    )


def _flags(group: Group, is_share: bool) -> Iterator[Stated]:
    risk, name = group.measures["risk"], group_words(group.column, group.name)
    if group.tests.p_higher_risk_adjusted <= ALPHA:
        p = p_sentence(group.tests.p_higher_risk_adjusted)
        more = (difference if is_share else change)(Estimate(risk.gap))
        yield Stated(
            words=f"{name}: risk {{}}, higher than in the rest ({more}; {p} after Holm)",
            estimate=_estimate(risk),
        )
    if group.tests.p_rise_adjusted <= ALPHA:
        p = p_sentence(group.tests.p_rise_adjusted)
        yield Stated(
            words=f"{name}: risk rises as coverage falls, to {{}} among its most confident "
            f"half ({p} after Holm)",
            estimate=Estimate(group.tests.risk_of_surest_half),
        )


def _estimate(one: Measure) -> Estimate:
    return Estimate(one.value, one.low, one.high)


def group_table(audit: GroupAudit) -> Table:
    """Return one row for all rows and for every group that is large enough."""
    rows: list[list[Cell]] = [
        _row("all rows", audit.n_patients, audit.n_rows, audit.overall, audit.calibration_error)
    ]
    rows += [
        _row(
            group_words(g.column, g.name),
            g.n_patients,
            g.n_rows,
            g.measures,
            g.calibration_error,
            g.power_doubled,
        )
        for g in audit.groups
        if not g.reason
    ]
    # The loss need not be an error, and overconfidence is a difference: neither is a share.
    kinds = {"risk": "share" if audit.loss == "error" else "figure", "overconfidence": "difference"}
    columns = (
        Column("name", "group"),
        Column("count", "patients"),
        Column("count", "rows"),
        *(Column(kinds.get(key, "share"), heading) for key, heading in HEADINGS.items()),  # type: ignore[arg-type]
        Column("figure", "calibration error"),
        Column("share", "power ×2", "chance of a flag if its risk were twice that of the rest"),
    )
    return Table(columns=columns, rows=rows)


def _row(
    name: str,
    n_patients: int,
    n_rows: int,
    measures: Mapping[str, Measure],
    error: Mapping[str, float],
    power: float = math.nan,
) -> list[Cell]:
    found = [measures.get(key, Measure()) for key in HEADINGS]
    known: Cell = Estimate(error["debiased"], error["low"], error["high"]) if error else "–"
    return [
        name,
        n_patients,
        n_rows,
        *("–" if math.isnan(one.value) else _estimate(one) for one in found),
        known,
        "–" if math.isnan(power) else power,
    ]


def _gaps(audit: GroupAudit) -> Table:
    """Return the largest gap of every figure, between a group and all other rows."""
    largest = [
        (f"{heading}: {group_words(group.column, group.name)}", group.measures[key])
        for key, heading in HEADINGS.items()
        if (group := audit.largest(key)) is not None
    ]
    kind: Kind = "difference" if audit.loss == "error" else "change"
    return Table.of(
        largest,
        {
            Column("name", "largest gap to the rest"): lambda item: item[0],
            Column(kind, "gap"): lambda item: Estimate(
                item[1].gap, item[1].gap_low, item[1].gap_high
            ),
            Column("p", "p", "permutation of patients"): lambda item: item[1].p,
            Column("p", "p over all groups"): lambda item: item[1].p_adjusted,
        },
    )


def group_assumptions(audit: GroupAudit) -> list[str]:
    """Say what the audit of groups rests on, one sentence each."""
    person, unit = audit.words
    found = [
        f"{person.capitalize()}s are independent of each other; labels and groups are right.",
        (
            f"A flag is a one-sided permutation test by {person} (risk higher than in all other "
            f"rows; risk rising as coverage falls), Holm over {audit.n_tests} tests: without any "
            f"difference at most {level(ALPHA)} of audits have one."
        ),
        (
            "“power ×2” is the chance that a group of this size is flagged if its risk were twice "
            "that of the rest; no flag at low power says little."
        ),
        (
            "Other gaps are read with their p-values and flag nothing; their intervals hold for "
            "all groups together."
        ),
        f"Groups, figures and points with fewer than {SMALLEST_GROUP} {person}s are not shown (–).",
    ]
    if audit.loss != "error":
        found.append(f"The risk is the mean of the loss {audit.loss}, from 0 to 1.")
    if audit.within_patients:
        found.append(
            f"A {person} has rows in several groups of {', '.join(audit.within_patients)}: what it "
            "brings to a group and to the rest is exchanged."
        )
    if audit.no_scores:
        found.append(f"No {unit} has a score, so there is no curve: {audit.no_scores}.")
    return found


# --- Stability -------------------------------------------------------------------------------


def stability_section(found: Stability) -> Section:
    """Return how stable the answers are, or how to find out."""
    asked = [*([found.repeats] if found.repeats else []), *found.against]
    if not asked and found.places is None:
        lines = ["Each record was asked once: use --repeats, or audit with --against."]
        return Section.of_sentences("stability", "Stability", lines)
    parts: list[Content] = [part for one in asked for part in _asked_again(one)]
    parts += _places(found.places) if found.places is not None else []
    parts += [Sentences(found.assumptions)] if found.assumptions else []
    return Section(key="stability", title="Stability", parts=parts)


def _asked_again(one: Agreement) -> Iterator[Content]:
    # With --repeats every repeat of a record is one pair.
    words = "pairs of askings" if one.accuracy is not None else "records asked again"
    sentence = (
        f"{one.name}: {count(one.n_cases)} {words} of {count(one.n_patients)} patients; left out: "
        f"{count(one.n_failed)} with an asking without a reply, {count(one.n_not_asked)} not asked "
        "in both."
    )
    yield Sentences([sentence])
    figures = {
        "answer flips": one.answer_flips,
        "abstention flips": one.abstention_flips,
        "SD of confidence": one.confidence_sd,
        "variance between cases, confidence": one.confidence_between,
        "variance between cases, correctness": one.correct_between,
    }
    yield Table.of(
        figures.items(),
        {
            Column("name", "figure"): lambda item: item[0],
            Column("figure", "value"): lambda item: _figure(item[1]),
            Column("count", "n"): lambda item: item[1].n,
        },
        title=one.name,
    )
    shifts = {"accuracy": one.accuracy, "abstention rate": one.abstention}
    moved = [(name, shift) for name, shift in shifts.items() if shift is not None]
    if moved:
        yield Table.of(
            moved,
            {
                Column("name", "figure"): lambda item: item[0],
                Column("figure", "first"): lambda item: item[1].first,
                Column("figure", "second"): lambda item: item[1].second,
                Column("p", "p", "paired test by patient"): lambda item: item[1].p,
            },
        )


def _figure(one: Figure) -> Cell:
    if math.isnan(one.value):
        return f"undefined ({one.reason})"
    return Estimate(one.value, one.low, one.high)


def _places(places: Places) -> list[Content]:
    table = Table.of(
        places.shares,
        {
            Column("name", "place in the call"): lambda one: count(int(one["place"])),
            Column("figure", "accuracy"): lambda one: one["accuracy"],
            Column("figure", "abstention"): lambda one: one["abstention"],
            Column("count", "n"): lambda one: int(one["n"]),
        },
    )
    if places.reason:
        trend = f"No trend test: {places.reason}."
    else:
        accuracy = change(Estimate(places.accuracy_slope))
        abstention = change(Estimate(places.abstention_slope))
        trend = (
            f"Change per place: accuracy {accuracy} ({p_sentence(places.accuracy_p)}), abstention "
            f"{abstention} ({p_sentence(places.abstention_p)}); permutation within calls."
        )
    return [table, Sentences([trend])]
