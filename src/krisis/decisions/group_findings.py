"""The audit of the groups of a run: what it found, as JSON and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from krisis.decisions.group_tests import ALPHA, FlagTests
from krisis.decisions.threshold_in_force import ThresholdInForce
from krisis.json_values import JsonObject
from krisis.statistics.group_gaps import SMALLEST_GROUP

MEASURES = (
    "coverage",
    "risk",
    "deferral_sensitivity",
    "deferral_specificity",
    "overconfidence",
)


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a group with its 95 % interval, and its gap to all other rows.

    ``reason`` says why it is undefined. The intervals of gaps hold together for all groups.
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n_rows: int = 0
    n_patients: int = 0
    reason: str = ""
    gap: float = math.nan
    gap_low: float = math.nan
    gap_high: float = math.nan
    p: float = math.nan
    p_adjusted: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group: its figures, the two tests that can flag it, and the power of the first."""

    column: str
    name: str
    n_patients: int
    n_rows: int
    reason: str = ""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    calibration_error: Mapping[str, float] = field(default_factory=dict)
    tests: FlagTests = field(default_factory=FlagTests)
    power_doubled: float = math.nan
    power_reason: str = ""

    @property
    def flags(self) -> list[str]:
        """Say what the tests found, at 5 % for all groups and both tests together."""
        found = {
            "higher risk than the rest": self.tests.p_higher_risk_adjusted,
            "risk rises as coverage falls": self.tests.p_rise_adjusted,
        }
        return [words for words, p in found.items() if p <= ALPHA]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAudit:
    """The groups of a run at one threshold and along the curve.

    ``in_force`` says how the certified threshold was found, or that there is none; None where
    another threshold was asked for.
    """

    threshold: float | None
    in_force: ThresholdInForce | None
    loss: str
    confidence: str
    no_scores: str
    n_rows: int
    n_patients: int
    n_answered: int
    n_no_answer: int
    n_not_evaluated: int
    overall: Mapping[str, Measure]
    calibration_error: Mapping[str, float]
    groups: Sequence[Group]
    skipped: Mapping[str, str]
    curve: Sequence[JsonObject]
    n_tests: int
    n_draws: int
    within_patients: Sequence[str]
    words: tuple[str, str]

    def to_json(self) -> JsonObject:
        """Return plain facts, the flags of every group and the largest gaps among them."""
        groups = [{**asdict(group), "flags": group.flags} for group in self.groups]
        largest = {m: g.name for m in MEASURES if (g := self.largest(m)) is not None}
        found = asdict(replace(self, in_force=None, groups=()))
        threshold = None if self.in_force is None else self.in_force.to_json()
        return {**found, "in_force": threshold, "groups": groups, "largest_gap": largest}

    def largest(self, measure: str) -> Group | None:
        """Return the group with the largest gap in a measure; None where there is no gap.

        Of two groups, which have one gap with two signs, it is the one with more.
        """
        shown = [g for g in self.groups if g.measures and math.isfinite(g.measures[measure].gap)]
        gaps = [(round(abs(g.measures[measure].gap), 12), g.measures[measure].gap) for g in shown]
        return shown[gaps.index(max(gaps))] if gaps else None


HEADINGS = {
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
    lines = [
        (
            f"Groups, {where} ({counts}, {audit.n_no_answer} without an answer; "
            f"{audit.n_not_evaluated} not evaluated and left out)"
        ),
        *_text_table(audit),
    ]
    lines += ["", *verdict_lines(audit), "", "Assumptions:"]
    return [*lines, *(f"  - {one}" for one in group_assumptions(audit))]


def group_table(audit: GroupAudit) -> list[dict[str, str]]:
    """Return one line of cells for all rows and for every group; small groups are only named."""
    whole = _cells("all rows", (audit.n_patients, audit.n_rows), audit.overall)
    lines = [{**whole, "calibration error": _error(audit.calibration_error), "power ×2": "–"}]
    for group in audit.groups:
        if group.reason:
            lines.append({**dict.fromkeys(lines[0], ""), "group": f"{group.name}: {group.reason}"})
            continue
        power = "–" if math.isnan(group.power_doubled) else f"{group.power_doubled:.0%}"
        cells = _cells(group.name, (group.n_patients, group.n_rows), group.measures)
        cells["calibration error"] = _error(group.calibration_error)
        lines.append({**cells, "power ×2": power})
    return lines


def _cells(name: str, counts: tuple[int, int], measures: Mapping[str, Measure]) -> dict[str, str]:
    shown = {HEADINGS[m]: _limits(one.value, one.low, one.high) for m, one in measures.items()}
    return {"group": name, "patients": str(counts[0]), "rows": str(counts[1]), **shown}


def _error(found: Mapping[str, float]) -> str:
    return _limits(found["debiased"], found["low"], found["high"]) if found else "–"


def _limits(value: float, low: float, high: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f} ({low:.3f} to {high:.3f})"


def _text_table(audit: GroupAudit) -> list[str]:
    lines = group_table(audit)
    rows = [list(lines[0]), *(list(line.values()) for line in lines)]
    widths = [max(len(row[i]) for row in rows if row[1]) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def verdict_lines(audit: GroupAudit) -> list[str]:
    """Return the largest gaps and the flags in words."""
    skipped = [f"{column}: not compared, {reason}" for column, reason in audit.skipped.items()]
    return [*skipped, *_largest_lines(audit), *_flag_lines(audit)]


def _largest_lines(audit: GroupAudit) -> list[str]:
    lines = []
    for name, heading in HEADINGS.items():
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
    if group.tests.p_higher_risk_adjusted <= ALPHA:
        lines.append(
            f"FLAG {group.name}: risk {risk.value:.3f} is higher than in the rest by "
            f"{risk.gap:.3f} (p {group.tests.p_higher_risk_adjusted:.4f} after Holm)"
        )
    if group.tests.p_rise_adjusted <= ALPHA:
        lines.append(
            f"FLAG {group.name}: risk rises as coverage falls, to "
            f"{group.tests.risk_of_surest_half:.3f} among its surest half "
            f"(p {group.tests.p_rise_adjusted:.4f} after Holm)"
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
