"""The gap of a group to the rest: its tests, its interval, and the power to find a doubled risk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from krisis.decisions.certificate import Certificate
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.sample import Sample
from krisis.decisions.threshold_in_force import RiskBound
from krisis.errors import InvalidValue
from krisis.metrics.table import BoolArray, FloatArray
from krisis.statistics.group_gaps import (
    SMALLEST_GROUP,
    GapTests,
    doubled_risk_power,
    gap_interval,
    gap_tests,
    rise_test,
    student_interval,
)
from krisis.statistics.intervals import Interval
from krisis.statistics.shares import share_interval

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
