"""The audit of the groups of a run: what it found, as JSON and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from krisis.decisions.group_tests import ALPHA, FlagTests
from krisis.decisions.threshold_in_force import ThresholdInForce
from krisis.json_values import JsonObject

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
