"""Does it hold for everyone: the figures of every group, their gaps to the rest, and flags."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Self

import numpy as np

from krisis.decisions.certify import Certificate
from krisis.decisions.run_sample import (
    LARGEST_NUMBER_OF_GROUPS,
    ScoreOptions,
    group_columns,
    groups_of,
    losses_of,
)
from krisis.decisions.sample import Sample
from krisis.decisions.threshold_in_force import RiskBound, ThresholdInForce, threshold_of_run
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.calibration import ExpectedCalibrationError, GapSum
from krisis.metrics.forms import prior_icc
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray, Table
from krisis.pages.document import Finding
from krisis.pages.missed import Missed
from krisis.pages.numbers import Estimate
from krisis.pages.verdict import usable_line
from krisis.results.group_labels import group_words
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibration_gap import calibration_gap_interval
from krisis.statistics.group_gaps import (
    SMALLEST_GROUP,
    GapTests,
    doubled_risk_power,
    gap_interval,
    gap_tests,
    holm,
    rise_test,
    student_interval,
)
from krisis.statistics.intervals import DEFAULT_LEVEL, Interval
from krisis.statistics.shares import share_interval

Parts = dict[str, BoolArray]


def columns_of(run: RunItems, by: Sequence[str]) -> tuple[dict[str, Parts], dict[str, str]]:
    """Return the rows of every group by column, and why other columns are skipped."""
    found: dict[str, Parts] = {}
    skipped: dict[str, str] = {}
    for named in by or run.table.answers.groups:
        column, *cuts = named.split(":")
        parts = _banded(run, column, cuts) if cuts else groups_of(run, [column])
        if column in found or column in skipped:
            raise InvalidValue(f"name every group once, not {', '.join(by)}")
        if len(parts) > LARGEST_NUMBER_OF_GROUPS:
            _refuse_many(run, column, len(parts))
        if len(parts) < 2:
            skipped[column] = f"all rows are in one group ({next(iter(parts), 'none')})"
        else:
            found[column] = parts
    if not by and not found:
        known = ", ".join(group_columns(run)) or "none"
        skipped["--by"] = f"name a metadata column with it; the rows have: {known}"
    return found, skipped


def _refuse_many(run: RunItems, column: str, n_groups: int) -> None:
    values = run.table.metadata(run.table.answers.groups.get(column, column))
    number = any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    mend = (
        f"divide it at numbers of your choice, for instance --by {column}:40:60"
        if number
        else "name a column with fewer"
    )
    raise InvalidValue(
        f"the column {column!r} has {n_groups} different values, of which at most "
        f"{LARGEST_NUMBER_OF_GROUPS} can be groups; {mend}"
    )


def _banded(run: RunItems, column: str, cuts: Sequence[str]) -> Parts:
    """Return the rows between the numbers at which a column of numbers is divided."""
    groups_of(run, [column])  # an unknown column is refused by name
    try:
        ends = [float(cut) for cut in cuts]
    except ValueError:
        ends = [math.nan]
    if not np.all(np.diff([-math.inf, *ends, math.inf]) > 0):
        raise InvalidValue(
            f"the column {column!r} must be divided at rising numbers, not {':'.join(cuts)!r}; "
            f"write for instance {column}:40:60"
        )
    given = run.table.metadata(run.table.answers.groups.get(column, column))
    numbers = [isinstance(v, int | float) and not isinstance(v, bool) for v in given]
    wrong = [v for v, number in zip(given, numbers, strict=True) if not number and v is not None]
    if wrong:
        raise InvalidValue(
            f"the column {column!r} holds {wrong[0]!r}, which is no number; omit {':'.join(cuts)}"
        )
    values = np.array([math.nan if v is None else v for v in given], dtype=np.float64)
    band = np.where(np.isnan(values), -1, np.searchsorted(ends, values, side="right"))
    shown = [f"{end:g}" for end in ends]
    between = [f"{low}–<{high}" for low, high in pairwise(shown)]
    names = [f"{column}_<{shown[0]}", *(f"{column}_{one}" for one in between)]
    names += [f"{column}_≥{shown[-1]}", f"unknown_{column}"]
    codes = [*range(len(ends) + 1), -1]
    pairs = zip(names, codes, strict=True)
    return {name: band == code for name, code in pairs if (band == code).any()}


# Chance of any flag where no group differs.
ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """The columns (those of the task unless named), and the threshold: given or by coverage.

    Unless either is given, it is the one certified at the ``bound``, or that of a ``certificate``.
    A column of numbers is divided at the numbers after its name: ``age:40:60``.
    """

    by: Sequence[str] = ()
    threshold: float | None = None
    coverage: float | None = None
    bound: RiskBound = field(default_factory=RiskBound)
    certificate: Certificate | None = None
    score: ScoreOptions = field(default_factory=ScoreOptions)
    n_draws: int = 4999

    def __post_init__(self) -> None:
        if self.threshold is not None and self.coverage is not None:
            raise InvalidValue("give a threshold or a coverage, not both")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise InvalidValue(f"the threshold must be a number, not {self.threshold!r}")
        if self.coverage is not None and not 0 < self.coverage <= 1:
            raise InvalidValue(f"the coverage must be between 0 and 1, not {self.coverage!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagTests:
    """The two tests that can flag a group; ``rise`` is ∫ c·(R(c) − R(1)) dc over coverages c."""

    p_higher_risk: float = math.nan
    p_rise: float = math.nan
    rise: float = math.nan
    risk_of_surest_half: float = math.nan
    p_higher_risk_adjusted: float = math.nan
    p_rise_adjusted: float = math.nan


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


# Why a measure has no rows.
_NO_ROWS = {
    "risk": "no row is answered",
    "deferral_sensitivity": "no row is to be deferred",
    "deferral_specificity": "no row is safe to answer",
    "overconfidence": "no answered row has a score between 0 and 1",
}
_TOO_SMALL = f"fewer than {SMALLEST_GROUP} patients"


@dataclass(frozen=True, slots=True, eq=False)
class Ratio:
    """One measure of a sample: what is added up per row, and the rows that it is divided by."""

    name: str
    sample: Sample
    sums: FloatArray
    rows: BoolArray

    def enough(self, inside: BoolArray) -> bool:
        """Tell whether enough patients have such a row."""
        return n_patients_of(self.sample, self.rows & inside) >= SMALLEST_GROUP

    def value(self, inside: BoolArray) -> float:
        """Return the ratio in some rows."""
        return float(self.sums[self.rows & inside].mean())

    def by_patient(self, inside: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums and the numbers of some rows within every patient."""
        rows, patient, n = self.rows & inside, self.sample.patient, self.sample.n_patients
        x, t = (np.bincount(patient, each, n) for each in (self.sums * rows, rows * 1.0))
        return x.astype(np.float64), t.astype(np.float64)

    def interval(self, inside: BoolArray, level: float = 0.95) -> Interval:
        """Return the interval of a share, or of a mean that can be below 0."""
        x, t = self.by_patient(inside)
        if self.name == "overconfidence":
            return student_interval(x[t > 0], t[t > 0], level)
        return share_interval(np.minimum(x, t), t, level=level)

    def measure(self, inside: BoolArray) -> Measure:
        """Return the ratio with its interval, or the reason why it is not shown."""
        n_rows = int(np.count_nonzero(self.rows & inside))
        if not self.enough(inside):
            return Measure(reason=_TOO_SMALL if n_rows else _NO_ROWS.get(self.name, "no row"))
        found = self.interval(inside)
        n_patients = n_patients_of(self.sample, self.rows & inside)
        return Measure(self.value(inside), found.low, found.high, n_rows, n_patients)

    def gap_tests(self, parts: Iterable[BoolArray], options: GroupOptions) -> GapTests:
        """Test the gap of every group to the rest."""
        x, t = (np.stack(one, axis=1) for one in zip(*map(self.by_patient, parts), strict=True))
        return gap_tests(x, t, n_draws=options.n_draws, seed=options.score.seed)

    def gap_interval(self, inside: BoolArray, level: float) -> Interval:
        """Return the interval of the gap between some rows and the others."""
        sides = [self.by_patient(side) for side in (inside, ~inside)]
        values = [float(x.sum() / t.sum()) for x, t in sides]
        limits = [self.interval(side, level) for side in (inside, ~inside)]
        pulls = [x - value * t for value, (x, t) in zip(values, sides, strict=True)]
        scale = math.sqrt(float(pulls[0] @ pulls[0]) * float(pulls[1] @ pulls[1]))
        correlation = float(pulls[0] @ pulls[1]) / scale if scale else 0.0
        return gap_interval((values[0], values[1]), (limits[0], limits[1]), correlation)


def n_patients_of(sample: Sample, rows: BoolArray) -> int:
    """Count the patients of some rows."""
    return int(np.unique(sample.patient[rows]).size)


def flag_tests(
    risk: Ratio, gaps: GapTests, place: int, inside: BoolArray, options: GroupOptions
) -> FlagTests:
    """Return the unadjusted tests that can flag a group; NaN where it is too small for one.

    ``gaps`` are the tests of the risk of all groups, of which this is the one at ``place``.
    """
    p = math.nan
    if risk.enough(inside) and risk.enough(~inside):
        p = float(gaps.p_higher[place])
    sample = risk.sample
    rows = inside & ~np.isnan(sample.score)
    loss, score, patient = sample.loss[rows], sample.score[rows], sample.patient[rows]
    few = np.unique(patient).size < SMALLEST_GROUP
    if few or np.ptp(score) == 0 or np.ptp(loss) == 0:  # nothing to rank, or nothing to find
        return FlagTests(p_higher_risk=p)
    rise, p_rise = rise_test(loss, score, patient, n_draws=options.n_draws, seed=options.score.seed)
    half = score >= np.sort(score)[::-1][(score.size - 1) // 2]
    surest = float(loss[half].mean())
    return FlagTests(p_higher_risk=p, rise=rise, p_rise=p_rise, risk_of_surest_half=surest)


def power_doubled(risk: Ratio, inside: BoolArray, level: float) -> tuple[float, str]:
    """Return the chance of flagging this group if its risk were double that of the rest.

    Rows count as so many independent answers as the spread between patients allows: they are
    divided by the ratio of that spread to the one of independent answers of 0 and 1. It is the
    spread of the gap itself where patients have rows on both sides. Sums of several rows take many
    values, so that ties hold the test back less than Fisher's: there it is the mid-p test.
    """
    (x, t), (y, u) = (risk.by_patient(side) for side in (inside, ~inside))
    n, m = float(t.sum()), float(u.sum())
    own, rest = float(x.sum()) / n, float(y.sum()) / m
    if rest == 0:
        return math.nan, "the rest has no error to double"
    if rest > 0.5:
        return math.nan, "twice the risk of the rest is above 1"
    pull, other = x - own * t, y - rest * u
    if (t * u).any():
        spread = float(np.square(pull / n - other / m).sum())
        design = spread / (own * (1 - own) / n + rest * (1 - rest) / m)
    else:
        design = float(pull @ pull + other @ other) / (n * own * (1 - own) + m * rest * (1 - rest))
    several = bool((t + u > 1).any())
    power = doubled_risk_power((n / design, m / design), rest, level=level, mid_p=several)
    return power, ""


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


@dataclass(frozen=True, slots=True)
class MissedByGroup:
    """Of the diseased of every group and of all: how many, found, told otherwise, left.

    ``shares`` are those three of the diseased, then the share of the negative answers wrong.
    """

    positive: str
    other: str
    counts: Sequence[tuple[str, Sequence[int]]]
    shares: Sequence[Sequence[Estimate]]

    @classmethod
    def of(cls, table: Table, answered: BoolArray, groups: Sequence[Group]) -> Self | None:
        """Count at the threshold in force; None without a positive answer."""
        missed = Missed.of(table, answered)
        if missed is None or not missed.ill.any():
            return None
        parts: dict[str, BoolArray] = {}
        for group in groups:
            names, codes = table.grouped(group.column)
            if not group.reason and group.name in names:
                parts[group_words(group.column, group.name)] = codes == names.index(group.name)
        parts["all"] = table.everyone
        return cls(
            missed.positive,
            missed.other,
            [(name, missed.counts(inside)) for name, inside in parts.items()],
            [missed.shares(DEFAULT_LEVEL, inside) for inside in parts.values()],
        )


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
    missed: MissedByGroup | None = None
    usable: Finding | None = None

    def to_json(self) -> JsonObject:
        """Return plain facts, the flags of every group and the largest gaps among them."""
        groups = [{**asdict(group), "flags": group.flags} for group in self.groups]
        largest = {m: g.name for m in MEASURES if (g := self.largest(m)) is not None}
        found = asdict(replace(self, in_force=None, usable=None, groups=()))
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


_N_POINTS = 25


def audit_groups(run: RunItems, options: GroupOptions | None = None) -> GroupAudit:
    """Audit the groups of a run."""
    options = options or GroupOptions()
    sample, no_scores = _sample(run, options)
    in_force, threshold = None, _chosen(sample, options)
    if threshold is not None:
        accepted = sample.accepts(threshold)
    else:
        in_force = threshold_of_run(
            run, options.bound, score=options.score, certificate=options.certificate
        )
        threshold, accepted = in_force.threshold, in_force.answered
    columns, skipped = columns_of(run, options.by)
    ratios = _ratios(run, sample, accepted)
    groups = _groups(run, ratios, columns, options)
    return GroupAudit(
        threshold=threshold,
        in_force=in_force,
        loss=options.score.loss,
        confidence=options.score.variant(run),
        no_scores=no_scores,
        n_rows=run.n_items,
        n_patients=sample.n_patients,
        n_answered=int(np.count_nonzero(run.predicted)),
        n_no_answer=run.table.n_no_answer,
        n_not_evaluated=run.table.n_not_evaluated,
        overall={name: ratio.measure(run.table.everyone) for name, ratio in ratios.items()},
        calibration_error=_calibration_error(run, sample, ratios["overconfidence"].rows),
        groups=groups,
        skipped=skipped,
        curve=_curve(run, sample, columns, groups),
        n_tests=_n_tests(groups),
        n_draws=options.n_draws,
        within_patients=[c for c, parts in columns.items() if _varies(sample, parts)],
        words=run.words,
        missed=MissedByGroup.of(run.table, accepted, groups),
        usable=None if in_force is None else usable_line(run, in_force),
    )


def _sample(run: RunItems, options: GroupOptions) -> tuple[Sample, str]:
    """Return scores and losses; without scores, the reason, unless an option needs them."""
    table, score = run.table, options.score
    if not table.answered.any():
        raise InvalidValue(
            f"none of the {table.n_scored} scored rows of {run.source.path} was answered, so there "
            "is no answer to audit"
        )
    scores, no_scores = score.scores_if_any(run)
    if no_scores and not (options.threshold is None and options.coverage is None):
        raise InvalidValue(no_scores)
    patients = table.patients
    loss = np.where(table.answered, losses_of(run, score.loss), 0.0)
    return Sample(scores, loss, patients.code, patients.n, score.loss == "error"), no_scores


def _chosen(sample: Sample, options: GroupOptions) -> float | None:
    """Return the threshold that was asked for, if any."""
    if options.coverage is None:
        return options.threshold
    reached = np.flatnonzero(
        sample.candidates.n_accepted >= options.coverage * sample.n_rows - 1e-9
    )
    if not reached.size:
        raise InvalidValue(
            f"no threshold answers {options.coverage:g} of the rows, as {sample.n_scored} of "
            f"{sample.n_rows} have an answer with a score; choose a coverage of at most "
            f"{math.floor(1000 * sample.n_scored / sample.n_rows) / 1000:g}"
        )
    return float(sample.candidates.threshold[reached[0]])


def _ratios(run: RunItems, sample: Sample, accepted: BoolArray) -> dict[str, Ratio]:
    """Return the measures of a run where some rows are answered."""
    table = run.table
    due, safe = (table.should_abstain == code for code in (1, 0))
    scored = accepted & ~np.isnan(sample.score)
    if scored.any() and not (np.nanmin(sample.score) >= 0 and np.nanmax(sample.score) <= 1):
        scored &= False  # counts and the like are no probabilities
    found = {
        "coverage": (accepted.astype(np.float64), table.everyone),
        "risk": (sample.loss * accepted, accepted),
        "deferral_sensitivity": ((due & ~accepted).astype(np.float64), due),
        "deferral_specificity": ((safe & accepted).astype(np.float64), safe),
        "overconfidence": (np.where(scored, sample.score - table.correct, 0.0), scored),
    }
    return {name: Ratio(name, sample, sums, rows) for name, (sums, rows) in found.items()}


def _groups(
    run: RunItems,
    ratios: Mapping[str, Ratio],
    columns: Mapping[str, Parts],
    options: GroupOptions,
) -> list[Group]:
    """Return every group with its figures, gaps and tests, adjusted over all of them."""
    found = []
    for column, parts in columns.items():
        tests = {name: one.gap_tests(parts.values(), options) for name, one in ratios.items()}
        for place, (name, inside) in enumerate(parts.items()):
            sample = ratios["risk"].sample
            group = Group(
                column=column,
                name=name,
                n_patients=n_patients_of(sample, inside),
                n_rows=int(inside.sum()),
                reason=_TOO_SMALL,
            )
            if group.n_patients >= SMALLEST_GROUP:
                usable = inside & ratios["overconfidence"].rows
                group = replace(
                    group,
                    reason="",
                    measures={
                        measure: _compared(ratio, tests[measure], place, inside)
                        for measure, ratio in ratios.items()
                    },
                    calibration_error=_calibration_error(run, sample, usable),
                    tests=flag_tests(ratios["risk"], tests["risk"], place, inside, options),
                )
            found.append(group)
    return _adjusted(found, ratios, columns)


def _compared(ratio: Ratio, tests: GapTests, place: int, inside: BoolArray) -> Measure:
    """Return a figure of a group; its gap only where both sides have enough patients."""
    found = ratio.measure(inside)
    if found.reason or not ratio.enough(~inside):
        return found
    return replace(found, gap=float(tests.gap[place]), p=float(tests.p_different[place]))


def _calibration_error(run: RunItems, sample: Sample, rows: BoolArray) -> dict[str, float]:
    """Return the expected calibration error of some rows: as it is, debiased, with limits."""
    if n_patients_of(sample, rows) < SMALLEST_GROUP:
        return {}
    table = run.table.with_confidence(sample.score).restricted(rows)
    form = ExpectedCalibrationError().form(table)
    if not isinstance(form, GapSum):
        return {}
    found = calibration_gap_interval(
        form.answers(table), options=BootstrapOptions(), prior_icc=prior_icc(table)
    )
    limits = {"low": found.interval.low, "high": found.interval.high}
    return {"value": form.value(), "debiased": found.debiased, **limits}


def _adjusted(
    groups: Sequence[Group], ratios: Mapping[str, Ratio], columns: Mapping[str, Parts]
) -> list[Group]:
    """Adjust the tests that flag over groups and both tests, the other gaps over groups.

    The intervals of the gaps hold for all groups together, and the power is that of the test of
    the risk after the adjustment.
    """
    n, n_tests = len(groups), _n_tests(groups)
    both = holm([*(g.tests.p_higher_risk for g in groups), *(g.tests.p_rise for g in groups)])
    single = {
        m: holm([g.measures[m].p if g.measures else math.nan for g in groups]) for m in ratios
    }
    found = []
    for i, group in enumerate(groups):
        inside = columns[group.column][group.name]
        measures = {}
        for name, one in group.measures.items():
            gap = Interval.undefined("no_gap")
            if not math.isnan(one.gap):
                gap = ratios[name].gap_interval(inside, 1 - ALPHA / n)
            p = float(single[name][i])
            measures[name] = replace(one, p_adjusted=p, gap_low=gap.low, gap_high=gap.high)
        tests = replace(
            group.tests,
            p_higher_risk_adjusted=float(both[i]),
            p_rise_adjusted=float(both[n + i]),
        )
        power, reason = math.nan, ""
        if not math.isnan(tests.p_higher_risk):
            power, reason = power_doubled(ratios["risk"], inside, ALPHA / n_tests)
        found.append(
            replace(group, measures=measures, tests=tests, power_doubled=power, power_reason=reason)
        )
    return found


def _n_tests(groups: Sequence[Group]) -> int:
    return sum(not math.isnan(p) for g in groups for p in (g.tests.p_higher_risk, g.tests.p_rise))


def _varies(sample: Sample, parts: Parts) -> bool:
    """Tell whether a patient has rows in several groups."""
    return sum(n_patients_of(sample, rows) for rows in parts.values()) > sample.n_patients


def _curve(
    run: RunItems, sample: Sample, columns: Mapping[str, Parts], groups: Sequence[Group]
) -> list[JsonObject]:
    """Return the figures of all rows and of every group at thresholds of falling coverage.

    A figure is None where too few patients have it.
    """
    shown = {("", "all rows"): run.table.everyone}
    shown |= {(g.column, g.name): columns[g.column][g.name] for g in groups if g.measures}
    steps = np.linspace(0, 1, _N_POINTS + 1)[1:] * sample.n_scored
    candidates = np.unique(np.searchsorted(sample.candidates.n_accepted, np.ceil(steps - 1e-9)))
    points: list[JsonObject] = []
    for candidate in candidates[candidates < sample.candidates.threshold.size].tolist():
        threshold = float(sample.candidates.threshold[candidate])
        ratios = _ratios(run, sample, sample.accepts(threshold))
        for (column, name), inside in shown.items():
            if ratios["risk"].enough(inside):
                point = {"column": column, "group": name, "threshold": threshold}
                for measure, ratio in ratios.items():
                    point[measure] = ratio.value(inside) if ratio.enough(inside) else None
                points.append(point)
    return points
