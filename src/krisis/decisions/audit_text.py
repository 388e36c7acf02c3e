"""An audit in words: tables of groups, what they show, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from krisis.decisions.audit_columns import SMALLEST_GROUP
from krisis.decisions.audit_groups import ALPHA, MEASURES, Group, GroupAudit, Measure

_HEADINGS = {
    "coverage": "coverage",
    "risk": "risk",
    "deferral_sensitivity": "defers when due",
    "deferral_specificity": "answers when safe",
    "overconfidence": "overconfidence",
}


def group_lines(audit: GroupAudit) -> list[str]:
    """Return the audit of groups in words."""
    person = audit.words[0]
    where = (
        "every answer" if audit.threshold is None else f"{audit.confidence} ≥ {audit.threshold:g}"
    )
    counts = f"{audit.n_rows} rows of {audit.n_patients} {person}s, {audit.n_answered} answered"
    lines = [f"Groups, {where} ({counts}, {audit.n_failed} failed rows left out)", *_table(audit)]
    lines += [f"{column}: not compared, {reason}" for column, reason in audit.skipped.items()]
    lines += ["", *_largest_lines(audit), *_flag_lines(audit), "", "Assumptions:"]
    return [*lines, *(f"  - {one}" for one in group_assumptions(audit))]


def _table(audit: GroupAudit) -> list[str]:
    rows = [["group", f"{audit.words[0]}s", "rows", *_HEADINGS.values(), "power ×2"]]
    whole = [_cell(audit.overall[name]) for name in MEASURES]
    rows.append(["all rows", str(audit.n_patients), str(audit.n_rows), *whole, ""])
    for group in audit.groups:
        if group.reason:
            rows.append([group.name, "", "", group.reason])
            continue
        cells = [_cell(group.measures[name]) for name in MEASURES]
        power = "–" if math.isnan(group.power_doubled) else f"{group.power_doubled:.0%}"
        rows.append([group.name, str(group.n_patients), str(group.n_rows), *cells, power])
    full = [row for row in rows if len(row) == len(rows[0])]
    widths = [max(len(row[i]) for row in full) for i in range(len(rows[0]))]
    widths[0] = max(widths[0], *(len(row[0]) for row in rows))
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]  # noqa: B905


def _cell(measure: Measure) -> str:
    if math.isnan(measure.value):
        return "–"
    return f"{measure.value:.3f} ({measure.low:.3f} to {measure.high:.3f})"


def _largest_lines(audit: GroupAudit) -> list[str]:
    lines = []
    for name, heading in _HEADINGS.items():
        group = audit.largest(name)
        if group is not None:
            found = group.measures[name]
            lines.append(
                f"largest gap in {heading}: {group.name} {found.gap:+.3f} against the rest "
                f"({found.gap_low:+.3f} to {found.gap_high:+.3f}), permutation p "
                f"{found.p:.4f}, over all groups {found.p_adjusted:.4f}"
            )
    return lines


def _flag_lines(audit: GroupAudit) -> list[str]:
    flagged = [group for group in audit.groups if group.flags]
    if not audit.n_tests:
        return ["No group could be tested."]
    if not flagged:
        return [f"No group is flagged ({audit.n_tests} tests together at {ALPHA:.0%})."]
    return [line for group in flagged for line in _flags_of(group)]


def _flags_of(group: Group) -> Sequence[str]:
    risk, lines = group.measures["risk"], []
    if group.p_higher_risk_adjusted <= ALPHA:
        lines.append(
            f"FLAG {group.name}: risk {risk.value:.3f} is higher than in the rest by "
            f"{risk.gap:.3f} (p {group.p_higher_risk_adjusted:.4f} after Holm)"
        )
    if group.p_rise_adjusted <= ALPHA:
        lines.append(
            f"FLAG {group.name}: risk rises as coverage falls, {group.risk_of_surest_half:.3f} "
            f"among its surest half (p {group.p_rise_adjusted:.4f} after Holm)"
        )
    return lines


def group_assumptions(audit: GroupAudit) -> list[str]:
    """Say what the audit of groups rests on, one sentence each."""
    person, unit = audit.words
    found = [
        f"{person.capitalize()}s are independent of each other; labels and groups are right.",
        (
            f"A flag is a one-sided permutation test by {person} (risk higher than in all other "
            f"rows; risk rising as coverage falls), Holm over {audit.n_tests} tests: without any "
            f"difference at most {ALPHA:.0%} of audits have one."
        ),
        (
            "“power ×2” is the chance that a group of this size is flagged if its risk were twice "
            "that of the rest; no flag at low power says little."
        ),
        (
            "Other gaps are read with their p-values and flag nothing; their intervals hold for "
            "all groups together."
        ),
        f"Groups, and points of curves, with fewer than {SMALLEST_GROUP} {person}s are not shown.",
    ]
    if audit.within_patients:
        found.append(
            f"A {person} has rows in several groups of {', '.join(audit.within_patients)}: what it "
            "brings to a group and to the rest is exchanged."
        )
    if audit.no_scores:
        found.append(f"No {unit} has a score, so there is no curve: {audit.no_scores}.")
    return found
