"""Does it hold for everyone: the figures of every group, their gaps to the rest, and flags."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from krisis.confidence.variants import scores_of
from krisis.decisions.group_findings import MEASURES, Group, GroupAudit, Measure
from krisis.decisions.group_tests import (
    ALPHA,
    GroupOptions,
    by_patient,
    flag_tests,
    interval_of_gap,
    n_patients_of,
    power_doubled,
    ratio_limits,
    tested_gaps,
)
from krisis.decisions.groups_by_column import Parts, columns_of
from krisis.decisions.run_sample import losses_of
from krisis.decisions.sample import Sample
from krisis.decisions.threshold_in_force import threshold_of_run
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.calibration import ExpectedCalibrationError
from krisis.metrics.forms import prior_icc
from krisis.metrics.gap_form import GapSum
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibration_gap import calibration_gap_interval
from krisis.statistics.group_gaps import SMALLEST_GROUP, GapTests, holm

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


def _chosen(sample: Sample, options: GroupOptions) -> float | None:
    """Return the threshold that was asked for, if any."""
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
    candidates = np.unique(np.searchsorted(sample.curve.n_accepted, np.ceil(steps - 1e-9)))
    points: list[JsonObject] = []
    for candidate in candidates[candidates < sample.curve.threshold.size].tolist():
        threshold = float(sample.curve.threshold[candidate])
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
