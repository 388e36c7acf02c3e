"""Does it hold for everyone: the figures of every group, their gaps to the rest, and flags."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from krisis.confidence.variants import scores_of
from krisis.decisions.audit_columns import SMALLEST_GROUP, Parts, columns_of
from krisis.decisions.run_sample import ScoreOptions, losses_of
from krisis.decisions.sample import Sample
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.calibration import ExpectedCalibrationError
from krisis.metrics.forms import Undefined
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.group_gaps import (
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

ALPHA = 0.05
_TOO_SMALL = f"fewer than {SMALLEST_GROUP} patients"
_N_POINTS = 25
_N_RESAMPLES = 500

MEASURES = (
    "coverage",
    "risk",
    "deferral_sensitivity",
    "deferral_specificity",
    "overconfidence",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """The columns (those of the task unless named), and the threshold: none, given or by coverage.

    A column of numbers is divided at the numbers after its name: ``age:40:60``.
    """

    by: Sequence[str] = ()
    threshold: float | None = None
    coverage: float | None = None
    score: ScoreOptions = field(default_factory=ScoreOptions)
    n_draws: int = 4999

    def __post_init__(self) -> None:
        if self.threshold is not None and self.coverage is not None:
            raise InvalidValue("give a threshold or a coverage, not both")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise InvalidValue(f"the threshold must be a number, not {self.threshold!r}")
        if self.coverage is not None and not 0 < self.coverage <= 1:
            raise InvalidValue(f"the coverage must lie between 0 and 1, not {self.coverage!r}")


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
    p_higher_risk: float = math.nan
    power_doubled: float = math.nan
    power_reason: str = ""
    rise: float = math.nan
    risk_of_surest_half: float = math.nan
    p_rise: float = math.nan
    p_higher_risk_adjusted: float = math.nan
    p_rise_adjusted: float = math.nan

    @property
    def flags(self) -> list[str]:
        """Say what the tests found, at 5 % for all groups and both tests together."""
        found = {
            "higher risk than the rest": self.p_higher_risk_adjusted,
            "risk rises as coverage falls": self.p_rise_adjusted,
        }
        return [words for words, p in found.items() if p <= ALPHA]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAudit:
    """The groups of a run at one threshold and along the curve."""

    threshold: float | None
    loss: str
    confidence: str
    no_scores: str
    n_rows: int
    n_patients: int
    n_answered: int
    n_failed: int
    overall: Mapping[str, Measure]
    groups: Sequence[Group]
    skipped: Mapping[str, str]
    curve: Sequence[Mapping[str, object]]
    n_tests: int
    n_draws: int
    within_patients: Sequence[str]
    words: tuple[str, str]

    def to_json(self) -> JsonObject:
        """Return plain facts, the flags of every group and the largest gaps among them."""
        groups = [{**asdict(group), "flags": group.flags} for group in self.groups]
        largest = {m: g.name for m in MEASURES if (g := self.largest(m)) is not None}
        return {**asdict(self), "groups": groups, "largest_gap": largest}

    def largest(self, measure: str) -> Group | None:
        """Return the group with the largest gap in a measure; None where there is no gap."""
        shown = [g for g in self.groups if g.measures and math.isfinite(g.measures[measure].gap)]
        return max(shown, key=lambda g: abs(g.measures[measure].gap), default=None)


def audit_groups(run: RunItems, options: GroupOptions | None = None) -> GroupAudit:
    """Audit the groups of a run."""
    options = options or GroupOptions()
    sample, no_scores = _sample(run, options)
    threshold = _threshold(sample, options, no_scores)
    accepted = run.predicted if threshold is None else sample.accepts(threshold)
    columns, skipped = columns_of(run, options.by)
    counts = _counts(run, sample, accepted)
    groups = _tested(run, sample, counts, columns, options)
    return GroupAudit(
        threshold=threshold,
        loss=options.score.loss_of(run),
        confidence=options.score.variant(run),
        no_scores=no_scores,
        n_rows=run.n_items,
        n_patients=sample.n_patients,
        n_answered=int(np.count_nonzero(run.predicted)),
        n_failed=run.table.n_failed,
        overall={name: _measure(sample, *pair, name=name) for name, pair in counts.items()},
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
    no_scores, scores = "", np.full(run.n_items, math.nan)
    try:
        scores = scores_of(run, score.variant(run), calibrator=score.calibrator)
    except InvalidValue as error:
        asked = score.confidence or score.calibrator or options.threshold or options.coverage
        if asked is not None and asked != "":
            raise
        no_scores = str(error)
    patients = table.patients
    loss = np.where(table.answered, losses_of(run, score), 0.0)
    return Sample(scores, loss, patients.code, patients.n, score.loss_of(run) == "error"), no_scores


def _threshold(sample: Sample, options: GroupOptions, no_scores: str) -> float | None:
    if options.coverage is None:
        return options.threshold
    reached = np.flatnonzero(sample.curve.n_accepted >= options.coverage * sample.n_rows - 1e-9)
    if not reached.size:
        raise InvalidValue(
            f"no threshold answers {options.coverage:g} of the rows, as {sample.n_scored} of "
            f"{sample.n_rows} have an answer with a score; choose a coverage of at most "
            f"{math.floor(1000 * sample.n_scored / sample.n_rows) / 1000:g}"
        )
    return float(sample.curve.threshold[reached[0]])


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
    interval = _limits(*_by_patient(sample, sums, rows), name=name, level=level)
    value = float(sums[rows].sum()) / n_rows
    return Measure(value, interval.low, interval.high, n_rows, n_patients)


def _by_patient(sample: Sample, sums: FloatArray, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
    x, t = (np.bincount(sample.patient, a * rows, sample.n_patients) for a in (sums, rows * 1.0))
    return x.astype(np.float64), t.astype(np.float64)


def _limits(x: FloatArray, t: FloatArray, *, name: str, level: float) -> Interval:
    """Return the interval of Σx/Σt: of a share, or of a mean that can be below 0."""
    if name == "overconfidence":
        return student_interval(x[t > 0], t[t > 0], level)
    return share_interval(np.minimum(x, t), t, level=level)


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


def _n_patients(sample: Sample, rows: BoolArray) -> int:
    return int(np.unique(sample.patient[rows]).size)


def _column(
    run: RunItems,
    sample: Sample,
    counts: Counts,
    named: tuple[str, Parts],
    options: GroupOptions,
) -> list[Group]:
    """Return the groups of one column with unadjusted tests; small ones only by name."""
    column, parts = named
    shown = [n for n, rows in parts.items() if _n_patients(sample, rows) >= SMALLEST_GROUP]
    tests = {
        name: _gap_tests(sample, pair, list(parts.values()), options)
        for name, pair in counts.items()
    }
    found = []
    for place, (name, rows) in enumerate(parts.items()):
        counted = {"n_patients": _n_patients(sample, rows), "n_rows": int(rows.sum())}
        if name not in shown:
            found.append(Group(column=column, name=name, reason=_TOO_SMALL, **counted))
            continue
        measures = {
            measure: _compared(sample, pair, rows, measure, tests[measure], place)
            for measure, pair in counts.items()
        }
        risk_gap = measures["risk"].gap
        group = Group(
            column=column,
            name=name,
            measures=measures,
            calibration_error=_calibration_error(run, sample, rows & counts["overconfidence"][1]),
            p_higher_risk=math.nan if math.isnan(risk_gap) else tests["risk"].p_higher[place],
            **counted,
        )
        found.append(_with_rise(run, sample, rows, group, options))
    return found


def _gap_tests(
    sample: Sample,
    pair: tuple[FloatArray, BoolArray],
    parts: Sequence[BoolArray],
    options: GroupOptions,
) -> GapTests:
    tables = [_by_patient(sample, pair[0], pair[1] & rows) for rows in parts]
    x, t = (np.stack([one[i] for one in tables], axis=1) for i in (0, 1))
    return gap_tests(x, t, n_draws=options.n_draws, seed=options.score.seed)


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
    if measure.reason or _n_patients(sample, rows & ~inside) < SMALLEST_GROUP:
        return measure
    p = float(tests.p_different[place])
    return replace(measure, gap=float(tests.gap[place]), p=p)


def _with_rise(
    run: RunItems, sample: Sample, inside: BoolArray, group: Group, options: GroupOptions
) -> Group:
    """Test whether the risk of a group rises as coverage falls."""
    rows = inside & run.predicted & ~np.isnan(sample.score)
    if _n_patients(sample, rows) < SMALLEST_GROUP:
        return group
    loss, score = sample.loss[rows], sample.score[rows]
    rise, p = rise_test(
        loss, score, sample.patient[rows], n_draws=options.n_draws, seed=options.score.seed
    )
    if np.ptp(score) == 0 or np.ptp(loss) == 0:
        return group  # nothing to rank, or no error to be found anywhere
    half = score >= np.sort(score)[::-1][(score.size - 1) // 2]
    surest = float(loss[half].mean())
    return replace(group, rise=rise, p_rise=p, risk_of_surest_half=surest)


def _calibration_error(run: RunItems, sample: Sample, rows: BoolArray) -> dict[str, float]:
    """Return the expected calibration error of some rows: as it is, debiased, with limits."""
    if _n_patients(sample, rows) < SMALLEST_GROUP:
        return {}
    table = run.table.with_confidence(sample.score).restricted(rows)
    form = ExpectedCalibrationError().form(table)
    if isinstance(form, Undefined):
        return {}
    found = form.uncertainty(table, BootstrapOptions(n_resamples=_N_RESAMPLES))
    limits = {"low": found.interval.low, "high": found.interval.high}
    return {"value": form.value(), "debiased": found.details["debiased"], **limits}


def _adjusted(groups: Sequence[Group]) -> list[Group]:
    """Adjust the tests that flag over groups and both tests, the other gaps over groups."""
    n = len(groups)
    both = holm([*(g.p_higher_risk for g in groups), *(g.p_rise for g in groups)])
    single = {m: holm([_p(g, m) for g in groups]) for m in MEASURES}
    found = []
    for i, group in enumerate(groups):
        measures = {
            name: replace(measure, p_adjusted=float(single[name][i]))
            for name, measure in group.measures.items()
        }
        pair = {"p_higher_risk_adjusted": both[i], "p_rise_adjusted": both[n + i]}
        found.append(replace(group, measures=measures, **pair))
    return found


def _p(group: Group, measure: str) -> float:
    return group.measures[measure].p if group.measures else math.nan


def _n_tests(groups: Sequence[Group]) -> int:
    return sum(not math.isnan(p) for g in groups for p in (g.p_higher_risk, g.p_rise))


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
        interval = _gap_interval(sample, (sums, rows), inside, name, 1 - ALPHA / n_groups)
        measures[name] = replace(measure, gap_low=interval.low, gap_high=interval.high)
    power, reason = math.nan, ""
    if not math.isnan(group.p_higher_risk):
        power, reason = _power(sample, *counts["risk"], inside, ALPHA / n_tests)
    return replace(group, measures=measures, power_doubled=power, power_reason=reason)


def _gap_interval(
    sample: Sample,
    pair: tuple[FloatArray, BoolArray],
    inside: BoolArray,
    name: str,
    level: float,
) -> Interval:
    sides = [_by_patient(sample, pair[0], pair[1] & side) for side in (inside, ~inside)]
    values = [float(x.sum() / t.sum()) for x, t in sides]
    limits = [_limits(x, t, name=name, level=level) for x, t in sides]
    pulls = [x - value * t for value, (x, t) in zip(values, sides, strict=True)]
    scale = math.sqrt(float(pulls[0] @ pulls[0]) * float(pulls[1] @ pulls[1]))
    correlation = float(pulls[0] @ pulls[1]) / scale if scale else 0.0
    return gap_interval((values[0], values[1]), (limits[0], limits[1]), correlation)


def _power(
    sample: Sample, sums: FloatArray, rows: BoolArray, inside: BoolArray, level: float
) -> tuple[float, str]:
    """Return the chance of flagging this group if its risk were double that of the rest.

    Rows count as so many independent answers as the spread between patients allows: D is the
    ratio of that spread to the one of independent answers of 0 and 1.
    """
    rest = rows & ~inside
    risk = float(sums[rest].sum() / rest.sum())
    if risk == 0:
        return math.nan, "the rest has no error to double"
    if risk > 0.5:
        return math.nan, "twice the risk of the rest is above 1"
    x, t = _by_patient(sample, sums, rows)
    mean = float(x.sum() / t.sum())
    design = float(np.square(x - mean * t).sum()) / (float(t.sum()) * mean * (1 - mean))
    effective = tuple(float((rows & side).sum()) / design for side in (inside, ~inside))
    return doubled_risk_power((effective[0], effective[1]), risk, level=level), ""


def _varies(sample: Sample, parts: Parts) -> bool:
    """Tell whether a patient has rows in several groups."""
    return sum(_n_patients(sample, rows) for rows in parts.values()) > sample.n_patients


def _curve(
    run: RunItems, sample: Sample, columns: Mapping[str, Parts], groups: Sequence[Group]
) -> list[Mapping[str, object]]:
    """Return the figures of all rows and of every group at thresholds of falling coverage."""
    shown = {("", "all rows"): run.table.everyone}
    shown |= {(g.column, g.name): columns[g.column][g.name] for g in groups if g.measures}
    steps = np.linspace(0, 1, _N_POINTS + 1)[1:] * sample.n_scored
    candidates = np.unique(np.searchsorted(sample.curve.n_accepted, np.ceil(steps - 1e-9)))
    points: list[Mapping[str, object]] = []
    for candidate in candidates[candidates < sample.curve.threshold.size].tolist():
        threshold = float(sample.curve.threshold[candidate])
        counts = _counts(run, sample, sample.accepts(threshold))
        for (column, name), inside in shown.items():
            point = {"column": column, "group": name, "threshold": threshold}
            if _n_patients(sample, inside & counts["risk"][1]) >= SMALLEST_GROUP:
                values = {
                    measure: float(sums[rows & inside].sum() / max(1, (rows & inside).sum()))
                    if _n_patients(sample, rows & inside) >= SMALLEST_GROUP
                    else math.nan
                    for measure, (sums, rows) in counts.items()
                }
                points.append({**point, **values})
    return points
