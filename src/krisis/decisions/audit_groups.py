"""Does it hold for everyone: the figures of every group, their gaps to the rest, and flags."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise

import numpy as np

from krisis.decisions.certify import Certificate
from krisis.decisions.run_sample import ScoreOptions, group_columns, groups_of, losses_of
from krisis.decisions.sample import Sample
from krisis.decisions.threshold_in_force import RiskBound, ThresholdInForce, threshold_of_run
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.calibration import ExpectedCalibrationError, GapSum
from krisis.metrics.forms import prior_icc
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray
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
from krisis.statistics.intervals import Interval
from krisis.statistics.shares import share_interval

LARGEST_NUMBER_OF_GROUPS = 24
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
            raise InvalidValue(f"the coverage must lie between 0 and 1, not {self.coverage!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagTests:
    """The two tests that can flag a group; ``rise`` is ∫ c·(R(c) − R(1)) dc over coverages c."""

    p_higher_risk: float = math.nan
    p_rise: float = math.nan
    rise: float = math.nan
    risk_of_surest_half: float = math.nan
    p_higher_risk_adjusted: float = math.nan
    p_rise_adjusted: float = math.nan


def n_patients_of(sample: Sample, rows: BoolArray) -> int:
    """Count the patients of some rows."""
    return int(np.unique(sample.patient[rows]).size)


def by_patient(sample: Sample, sums: FloatArray, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums and the numbers of some rows within every patient."""
    x, t = (np.bincount(sample.patient, a * rows, sample.n_patients) for a in (sums, rows * 1.0))
    return x.astype(np.float64), t.astype(np.float64)


def ratio_limits(x: FloatArray, t: FloatArray, *, name: str, level: float) -> Interval:
    """Return the interval of Σx/Σt: of a share, or of a mean that can be below 0."""
    if name == "overconfidence":
        return student_interval(x[t > 0], t[t > 0], level)
    return share_interval(np.minimum(x, t), t, level=level)


def flag_tests(
    sample: Sample, accepted: BoolArray, parts: Sequence[BoolArray], options: GroupOptions
) -> list[FlagTests]:
    """Return the unadjusted tests of every group that can flag it; NaN where one is too small."""
    gaps = tested_gaps(sample, (sample.loss * accepted, accepted), parts, options)
    found = []
    for place, inside in enumerate(parts):
        sides = (accepted & inside, accepted & ~inside)
        enough = all(n_patients_of(sample, side) >= SMALLEST_GROUP for side in sides)
        p = float(gaps.p_higher[place]) if enough else math.nan
        found.append(replace(_rise(sample, inside, options), p_higher_risk=p))
    return found


def tested_gaps(
    sample: Sample,
    pair: tuple[FloatArray, BoolArray],
    parts: Sequence[BoolArray],
    options: GroupOptions,
) -> GapTests:
    """Test the gap of every group to the rest, for one figure."""
    tables = [by_patient(sample, pair[0], pair[1] & rows) for rows in parts]
    x, t = (np.stack([one[i] for one in tables], axis=1) for i in (0, 1))
    return gap_tests(x, t, n_draws=options.n_draws, seed=options.score.seed)


def _rise(sample: Sample, inside: BoolArray, options: GroupOptions) -> FlagTests:
    """Test whether the risk of a group rises as coverage falls, where it can."""
    rows = inside & ~np.isnan(sample.score)
    loss, score, patient = sample.loss[rows], sample.score[rows], sample.patient[rows]
    few = np.unique(patient).size < SMALLEST_GROUP
    if few or np.ptp(score) == 0 or np.ptp(loss) == 0:  # nothing to rank, or nothing to find
        return FlagTests()
    rise, p = rise_test(loss, score, patient, n_draws=options.n_draws, seed=options.score.seed)
    half = score >= np.sort(score)[::-1][(score.size - 1) // 2]
    return FlagTests(rise=rise, p_rise=p, risk_of_surest_half=float(loss[half].mean()))


def interval_of_gap(
    sample: Sample,
    pair: tuple[FloatArray, BoolArray],
    inside: BoolArray,
    name: str,
    level: float,
) -> Interval:
    """Return the interval of the gap between some rows and the others, for one figure."""
    sides = [by_patient(sample, pair[0], pair[1] & side) for side in (inside, ~inside)]
    values = [float(x.sum() / t.sum()) for x, t in sides]
    limits = [ratio_limits(x, t, name=name, level=level) for x, t in sides]
    pulls = [x - value * t for value, (x, t) in zip(values, sides, strict=True)]
    scale = math.sqrt(float(pulls[0] @ pulls[0]) * float(pulls[1] @ pulls[1]))
    correlation = float(pulls[0] @ pulls[1]) / scale if scale else 0.0
    return gap_interval((values[0], values[1]), (limits[0], limits[1]), correlation)


def power_doubled(
    sample: Sample, accepted: BoolArray, inside: BoolArray, level: float
) -> tuple[float, str]:
    """Return the chance of flagging this group if its risk were double that of the rest.

    Rows count as so many independent answers as the spread between patients allows: they are
    divided by the ratio of that spread to the one of independent answers of 0 and 1. It is the
    spread of the gap itself where patients have rows on both sides. Sums of several rows take many
    values, so that ties hold the test back less than Fisher's: there it is the mid-p test.
    """
    (x, t), (y, u) = (by_patient(sample, sample.loss, accepted & s) for s in (inside, ~inside))
    n, m = float(t.sum()), float(u.sum())
    own, risk = float(x.sum()) / n, float(y.sum()) / m
    if risk == 0:
        return math.nan, "the rest has no error to double"
    if risk > 0.5:
        return math.nan, "twice the risk of the rest is above 1"
    pull, other = x - own * t, y - risk * u
    if (t * u).any():
        spread = float(np.square(pull / n - other / m).sum())
        design = spread / (own * (1 - own) / n + risk * (1 - risk) / m)
    else:
        design = float(pull @ pull + other @ other) / (n * own * (1 - own) + m * risk * (1 - risk))
    several = bool((t + u > 1).any())
    power = doubled_risk_power((n / design, m / design), risk, level=level, mid_p=several)
    return power, ""


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


_TOO_SMALL = f"fewer than {SMALLEST_GROUP} patients"
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
    counts = _counts(run, sample, accepted)
    groups = _tested(run, sample, counts, columns, options)
    return GroupAudit(
        threshold=threshold,
        in_force=in_force,
        loss=options.score.loss_of(run),
        confidence=options.score.variant(run),
        no_scores=no_scores,
        n_rows=run.n_items,
        n_patients=sample.n_patients,
        n_answered=int(np.count_nonzero(run.predicted)),
        n_no_answer=run.table.n_no_answer,
        n_not_evaluated=run.table.n_not_evaluated,
        overall={name: _measure(sample, *pair, name=name) for name, pair in counts.items()},
        calibration_error=_calibration_error(run, sample, counts["overconfidence"][1]),
        groups=groups,
        skipped=skipped,
        curve=_curve(run, sample, columns, groups),
        n_tests=_n_tests(groups),
        n_draws=options.n_draws,
        within_patients=[c for c, parts in columns.items() if _varies(sample, parts)],
        words=run.words,
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
    loss = np.where(table.answered, losses_of(run, score), 0.0)
    return Sample(scores, loss, patients.code, patients.n, score.loss_of(run) == "error"), no_scores


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


# One measure: what is added up per row, and the rows that it is divided by.
Counts = dict[str, tuple[FloatArray, BoolArray]]


def _counts(run: RunItems, sample: Sample, accepted: BoolArray) -> Counts:
    table = run.table
    due, safe = (table.should_abstain == code for code in (1, 0))
    scored = accepted & ~np.isnan(sample.score)
    if scored.any() and not (np.nanmin(sample.score) >= 0 and np.nanmax(sample.score) <= 1):
        scored &= False  # counts and the like are no probabilities
    return {
        "coverage": (accepted.astype(np.float64), table.everyone),
        "risk": (sample.loss * accepted, accepted),
        "deferral_sensitivity": ((due & ~accepted).astype(np.float64), due),
        "deferral_specificity": ((safe & accepted).astype(np.float64), safe),
        "overconfidence": (np.where(scored, sample.score - table.correct, 0.0), scored),
    }


_NO_ROWS = {
    "risk": "no row is answered",
    "deferral_sensitivity": "no row is to be deferred",
    "deferral_specificity": "no row is safe to answer",
    "overconfidence": "no answered row has a score between 0 and 1",
}


def _measure(
    sample: Sample, sums: FloatArray, rows: BoolArray, *, name: str, level: float = 0.95
) -> Measure:
    """Return a ratio with its interval, or the reason why it is not shown."""
    n_patients, n_rows = np.unique(sample.patient[rows]).size, int(rows.sum())
    if n_patients < SMALLEST_GROUP:
        return Measure(reason=_TOO_SMALL if n_rows else _NO_ROWS.get(name, "no row"))
    interval = ratio_limits(*by_patient(sample, sums, rows), name=name, level=level)
    value = float(sums[rows].sum()) / n_rows
    return Measure(value, interval.low, interval.high, n_rows, n_patients)


def _tested(
    run: RunItems,
    sample: Sample,
    counts: Counts,
    columns: Mapping[str, Parts],
    options: GroupOptions,
) -> list[Group]:
    """Return every group with its figures, gaps and tests, adjusted over all of them."""
    groups = [
        group
        for column, parts in columns.items()
        for group in _column(run, sample, counts, (column, parts), options)
    ]
    found = _adjusted(groups)
    n_tests = _n_tests(found)
    return [_with_gaps(sample, counts, columns, group, n_tests) for group in found]


def _column(
    run: RunItems,
    sample: Sample,
    counts: Counts,
    named: tuple[str, Parts],
    options: GroupOptions,
) -> list[Group]:
    """Return the groups of one column with unadjusted tests; small ones only by name."""
    column, parts = named
    rows = list(parts.values())
    tests = {name: tested_gaps(sample, pair, rows, options) for name, pair in counts.items()}
    found = []
    for place, (name, inside) in enumerate(parts.items()):
        group = Group(
            column=column,
            name=name,
            n_patients=n_patients_of(sample, inside),
            n_rows=int(inside.sum()),
            reason=_TOO_SMALL,
        )
        if group.n_patients >= SMALLEST_GROUP:
            measures = {
                measure: _compared(sample, pair, inside, measure, tests[measure], place)
                for measure, pair in counts.items()
            }
            usable = inside & counts["overconfidence"][1]
            group = replace(
                group,
                reason="",
                measures=measures,
                calibration_error=_calibration_error(run, sample, usable),
            )
        found.append(group)
    flagged = flag_tests(sample, counts["risk"][1], rows, options)
    pairs = zip(found, flagged, strict=True)
    return [replace(g, tests=tests) if g.measures else g for g, tests in pairs]


def _compared(
    sample: Sample,
    pair: tuple[FloatArray, BoolArray],
    inside: BoolArray,
    name: str,
    tests: GapTests,
    place: int,
) -> Measure:
    """Return a figure of a group; its gap only where both sides have enough patients."""
    sums, rows = pair
    measure = _measure(sample, sums, rows & inside, name=name)
    if measure.reason or n_patients_of(sample, rows & ~inside) < SMALLEST_GROUP:
        return measure
    p = float(tests.p_different[place])
    return replace(measure, gap=float(tests.gap[place]), p=p)


def _calibration_error(run: RunItems, sample: Sample, rows: BoolArray) -> dict[str, float]:
    """Return the expected calibration error of some rows: as it is, debiased, with limits."""
    if n_patients_of(sample, rows) < SMALLEST_GROUP:
        return {}
    table = run.table.with_confidence(sample.score).restricted(rows)
    form = ExpectedCalibrationError().form(table)
    if not isinstance(form, GapSum):
        return {}
    found = calibration_gap_interval(
        form.answers(table),
        options=BootstrapOptions(),
        prior_icc=prior_icc(table),
    )
    limits = {"low": found.interval.low, "high": found.interval.high}
    return {"value": form.value(), "debiased": found.debiased, **limits}


def _adjusted(groups: Sequence[Group]) -> list[Group]:
    """Adjust the tests that flag over groups and both tests, the other gaps over groups."""
    n = len(groups)
    both = holm([*(g.tests.p_higher_risk for g in groups), *(g.tests.p_rise for g in groups)])
    single = {m: holm([_p(g, m) for g in groups]) for m in MEASURES}
    found = []
    for i, group in enumerate(groups):
        measures = {
            name: replace(measure, p_adjusted=float(single[name][i]))
            for name, measure in group.measures.items()
        }
        higher, rising = float(both[i]), float(both[n + i])
        tests = replace(group.tests, p_higher_risk_adjusted=higher, p_rise_adjusted=rising)
        found.append(replace(group, measures=measures, tests=tests))
    return found


def _p(group: Group, measure: str) -> float:
    return group.measures[measure].p if group.measures else math.nan


def _n_tests(groups: Sequence[Group]) -> int:
    return sum(not math.isnan(p) for g in groups for p in (g.tests.p_higher_risk, g.tests.p_rise))


def _with_gaps(
    sample: Sample, counts: Counts, columns: Mapping[str, Parts], group: Group, n_tests: int
) -> Group:
    """Add the intervals of the gaps, which hold for all groups together, and the power."""
    inside = columns[group.column][group.name]
    n_groups = sum(len(parts) for parts in columns.values())
    measures = dict(group.measures)
    for name, measure in group.measures.items():
        if math.isnan(measure.gap):
            continue
        sums, rows = counts[name]
        interval = interval_of_gap(sample, (sums, rows), inside, name, 1 - ALPHA / n_groups)
        measures[name] = replace(measure, gap_low=interval.low, gap_high=interval.high)
    power, reason = math.nan, ""
    if not math.isnan(group.tests.p_higher_risk):
        power, reason = power_doubled(sample, counts["risk"][1], inside, ALPHA / n_tests)
    return replace(group, measures=measures, power_doubled=power, power_reason=reason)


def _varies(sample: Sample, parts: Parts) -> bool:
    """Tell whether a patient has rows in several groups."""
    return sum(n_patients_of(sample, rows) for rows in parts.values()) > sample.n_patients


def _curve(
    run: RunItems, sample: Sample, columns: Mapping[str, Parts], groups: Sequence[Group]
) -> list[JsonObject]:
    """Return the figures of all rows and of every group at thresholds of falling coverage."""
    shown = {("", "all rows"): run.table.everyone}
    shown |= {(g.column, g.name): columns[g.column][g.name] for g in groups if g.measures}
    steps = np.linspace(0, 1, _N_POINTS + 1)[1:] * sample.n_scored
    candidates = np.unique(np.searchsorted(sample.candidates.n_accepted, np.ceil(steps - 1e-9)))
    points: list[JsonObject] = []
    for candidate in candidates[candidates < sample.candidates.threshold.size].tolist():
        threshold = float(sample.candidates.threshold[candidate])
        counts = _counts(run, sample, sample.accepts(threshold))
        for (column, name), inside in shown.items():
            if n_patients_of(sample, inside & counts["risk"][1]) >= SMALLEST_GROUP:
                point = {"column": column, "group": name, "threshold": threshold}
                points.append({**point, **_values(sample, counts, inside)})
    return points


def _values(sample: Sample, counts: Counts, inside: BoolArray) -> dict[str, float | None]:
    """Return every figure of some rows; None where too few patients have it."""
    return {
        measure: float(sums[rows & inside].mean())
        if n_patients_of(sample, rows & inside) >= SMALLEST_GROUP
        else None
        for measure, (sums, rows) in counts.items()
    }
