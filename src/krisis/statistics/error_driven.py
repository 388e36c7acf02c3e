"""Intervals of figures that errors drive (Brier, AURC, AUGRC, risk), also where none was seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.statistics.answered_rows import AnsweredRows, Plateaus
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts
from krisis.statistics.intervals import Interval
from krisis.statistics.risk_masses import Figure, Masses, optimal_areas
from krisis.statistics.shares import PRIOR_ICC, ShareDistribution

__all__ = ["METHOD", "N_RESAMPLES", "AnsweredRows", "Figure", "error_driven_intervals"]

FloatArray = NDArray[np.float64]

METHOD = "error_distribution"
N_RESAMPLES = 2000
"""Enough, because the shares of errors come from a fixed grid and not by chance."""

# How many wrong (and right) answers stand for those not seen, at the upper end (where rows of one
# patient count as one error) and at the lower end.
_UNSEEN_ABOVE, _UNSEEN_BELOW = 1.0, 0.5
# How far a resample with many errors also gets a high share of errors.
_KEPT_CORRELATION = 0.5
_CELLS_PER_BLOCK = 100_000


def error_driven_intervals(
    rows: AnsweredRows,
    figures: Mapping[str, Figure],
    *,
    options: BootstrapOptions | None = None,
    estimates: Mapping[str, float] | None = None,
    largest_loss: float = 1.0,
    prior_icc: float = PRIOR_ICC,
) -> dict[str, Interval]:
    """Return the interval of every figure, all from one draw.

    Patients are resampled, but every resample gets its share of errors from the confidence
    distribution of that share, which is wide also where no error was seen, and a pseudo-error
    stands for the wrong answers not seen: for the upper limit at the more confident of two answers
    drawn by lot, for the lower one at the least confident. The limits are percentiles, widened to
    contain the estimate (``estimates`` if given: the numbers to be printed). An interval exists
    for every figure that has a value. With losses other than 0 and 1 an error not seen costs as
    much as the worse of two errors drawn by lot, one of ``largest_loss`` among them.
    ``prior_icc`` is 1 for rows that repeat one case.

    Reference: Schweder and Hjort, Confidence, Likelihood, Probability (2016), for confidence
    distributions; the combination is described in docs/explanation/intervals.md.
    """
    drawn = options or BootstrapOptions(n_resamples=N_RESAMPLES)
    if rows.confidence.size == 0:
        nothing = Interval.undefined("no_answered_rows", level=drawn.level, method=METHOD)
        return dict.fromkeys(figures, nothing)
    errors = rows.errors(prior_icc=prior_icc, level=drawn.level)
    plateaus = Plateaus.of(rows, largest_loss=largest_loss)
    del rows  # very many rows are not held twice, with and without pools
    exact = dict(estimates or {})
    exact |= _estimates(plateaus, {name: figures[name] for name in figures if name not in exact})
    grouped = plateaus.grouped()
    shift = dict.fromkeys(figures, 0.0)
    if grouped is not plateaus:
        plateaus = grouped
        near = _estimates(grouped, figures)
        shift = {name: exact[name] - near[name] for name in figures}
    ranked = any(figure.needs_losses for figure in figures.values())
    draws = _Draws.of(grouped, errors, options=drawn, ranked=ranked)
    ends = draws.ends(figures, level=drawn.level)
    found: dict[str, Interval] = {}
    for name, figure in figures.items():
        if math.isnan(exact[name]):
            reason = "the_figure_is_undefined"
            found[name] = Interval.undefined(reason, level=drawn.level, method=METHOD)
            continue
        low, high = (end + shift[name] for end in ends[name])
        least, most = figure.lowest * largest_loss, largest_loss
        low, high = min(max(low, least), exact[name]), max(min(high, most), exact[name])
        found[name] = Interval(low, high, drawn.level, METHOD)
    return found


def _estimates(plateaus: Plateaus, figures: Mapping[str, Figure]) -> dict[str, float]:
    """Return the figures of the answers as they are."""
    rows, n_answers = plateaus.rows, plateaus.code.size
    n_rows = float(rows.rows_per_unit.sum())
    n_wrong = np.count_nonzero(rows.wrong)
    brier = np.where(rows.wrong, rows.confidence, 1 - rows.confidence)
    brier **= 2
    if all(figure.kind == "brier" for figure in figures.values()):
        return dict.fromkeys(figures, float(brier.mean()))
    masses = Masses(
        accepted=np.cumsum(plateaus.per_plateau())[:, None] / n_answers,
        lost=np.cumsum(plateaus.per_plateau(rows.loss))[:, None] / n_answers,
        answer_rate=np.array([n_answers / n_rows]),
        brier=np.array([brier.mean()]),
        losses=plateaus.losses,
        wrong=plateaus.loss_share[:, None] * n_wrong / n_answers,
    )
    found = {name: float(value[0]) for name, value in masses.values(figures).items()}
    ranked = any(figure.needs_losses for figure in figures.values())
    best = optimal_areas(rows.loss, n_rows) if ranked else {}
    for name, figure in figures.items():
        if figure.kind.endswith("optimal"):
            found[name] = best[figure.kind]
        elif figure.kind in ("eaurc", "eaugrc"):
            area = masses.value(Figure("aurc" if figure.kind == "eaurc" else "augrc"))
            found[name] = float(area[0]) - best[f"{figure.kind[1:]}_optimal"]
        elif figure.kind == "risk" and not masses.reaches(figure.coverage or 0.0):
            found[name] = math.nan
    return found


class _Unseen(NamedTuple):
    """How many right and as many wrong answers stand for those not seen, and where they lie.

    The places are cumulated over the plateaus; the scores are squared distances from the truth;
    ``loss`` is what a wrong one costs.
    """

    amount: float
    right_place: FloatArray
    wrong_place: FloatArray
    right_score: FloatArray
    wrong_score: FloatArray
    loss: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class _Draws:
    """Resampled patients (units × draws) with their sums, and the share of errors given to each.

    ``brier`` sums the squared distances of the right answers, of the wrong ones, and of all
    answers if they were right. At the upper end ``unseen_above`` answers stand for those not seen,
    the wrong ones at ``unseen_place`` among the answers by falling confidence, at ``unseen_loss``.
    """

    plateaus: Plateaus
    counts: FloatArray
    share: FloatArray
    answer_rate: FloatArray
    n_answered: FloatArray
    n_wrong: FloatArray
    brier: FloatArray
    by_loss: FloatArray
    unseen_above: float
    unseen_place: FloatArray
    unseen_loss: FloatArray

    @classmethod
    def of(
        cls,
        plateaus: Plateaus,
        errors: ShareDistribution,
        *,
        options: BootstrapOptions,
        ranked: bool,
    ) -> _Draws:
        """Draw; ``ranked`` asks for the sums by loss, which the optimal ranking needs."""
        rows = plateaus.rows
        counts = np.concatenate(list(resample_counts(rows.rows_per_unit.size, options)), axis=1)
        per_unit = [
            plateaus.per_unit(),
            plateaus.per_unit(rows.wrong),
            rows.rows_per_unit,
            plateaus.per_unit(np.where(rows.wrong, 0.0, 1 - rows.confidence) ** 2),
            plateaus.per_unit(np.where(rows.wrong, rows.confidence, 0.0) ** 2),
            plateaus.per_unit((1 - rows.confidence) ** 2),
        ]
        if ranked:
            seen = (rows.wrong & (rows.loss == value) for value in plateaus.losses)
            per_unit += [plateaus.per_unit(one) for one in seen]
        counts[:, ~np.any(counts[per_unit[0] > 0], axis=0)] = 1.0
        answered, n_wrong, n_rows, *rest = np.array(per_unit) @ counts
        grid = (np.arange(options.n_resamples) + 0.5) / options.n_resamples
        generator = np.random.default_rng([options.seed, 1])
        share = _given_by_rank(errors.quantile(grid), n_wrong / answered, generator)
        return cls(
            plateaus,
            counts,
            share,
            answer_rate=answered / n_rows,
            n_answered=answered,
            n_wrong=n_wrong,
            brier=np.array(rest[:3]),
            by_loss=np.array(rest[3:]).reshape(-1, share.size),
            unseen_above=_UNSEEN_ABOVE * errors.design_effect,
            unseen_place=_places(generator, share.size),
            unseen_loss=plateaus.unseen_losses(_places(generator, share.size)),
        )

    def ends(
        self, figures: Mapping[str, Figure], *, level: float
    ) -> dict[str, tuple[float, float]]:
        """Return the lower percentile and the upper one of every figure."""
        rows, n_draws = self.plateaus.rows, self.share.size
        values = {name: np.empty((2, n_draws)) for name in figures}
        matrices = [self.plateaus.matrix(), self.plateaus.matrix(rows.wrong)]
        if not self.plateaus.plain:
            matrices.append(self.plateaus.matrix(rows.loss))
        ends = (self._unseen_below, self._unseen_above)
        width = max(1, _CELLS_PER_BLOCK // self.plateaus.n_plateaus)
        for start in range(0, n_draws, width):
            block = slice(start, start + width)
            sums = [np.cumsum(matrix @ self.counts[:, block], axis=0) for matrix in matrices]
            for end, unseen in enumerate(ends):
                masses = self._masses(block, sums, unseen(block, sums[0]))
                for name, value in masses.values(figures).items():
                    values[name][end, block] = value
        tails = ((1 - level) / 2, (1 + level) / 2)
        return {
            name: (float(np.quantile(below, tails[0])), float(np.quantile(above, tails[1])))
            for name, (below, above) in values.items()
        }

    def _unseen_above(self, block: slice, number: FloatArray) -> _Unseen:
        """For upper limits an error not seen may be any answer, rather a confident one."""
        n_answered = self.n_answered[block]
        place = number / n_answered
        found = np.minimum(np.sum(place < self.unseen_place[block], axis=0), len(number) - 1)
        wrong_place = (np.arange(len(number))[:, None] >= found).astype(np.float64)
        right_score = self.brier[2, block] / n_answered
        wrong_score = self.plateaus.wrong_score()[found]
        loss = self.unseen_loss[block]
        return _Unseen(self.unseen_above, place, wrong_place, right_score, wrong_score, loss)

    def _unseen_below(self, block: slice, number: FloatArray) -> _Unseen:
        """For lower limits the wrong are the least confident and the right the most."""
        first, last = np.ones((2, len(number), 1))
        last[:-1] = 0.0
        least, most = self.plateaus.rows.confidence.min(), self.plateaus.rows.confidence.max()
        loss = np.full(self.share[block].shape, self.plateaus.mean_loss)
        return _Unseen(_UNSEEN_BELOW, first, last, (1 - most) ** 2, least**2, loss)

    def _masses(self, block: slice, sums: list[FloatArray], unseen: _Unseen) -> Masses:
        """Weigh right and wrong answers: wrong = q (seen + s·place)/(E + s), right likewise."""
        number, n_wrong = sums[:2]
        share, s = self.share[block], unseen.amount
        per_wrong = share / (self.n_wrong[block] + s)
        per_right = (1 - share) / (self.n_answered[block] - self.n_wrong[block] + s)
        wrong = (n_wrong + s * unseen.wrong_place) * per_wrong
        accepted = (number - n_wrong + s * unseen.right_place) * per_right
        accepted += wrong
        lost = wrong
        if not self.plateaus.plain:
            lost = (sums[2] + s * unseen.loss * unseen.wrong_place) * per_wrong
        right_score, wrong_score = self.brier[:2, block]
        by_loss = self.by_loss[:, block]
        if len(by_loss):
            by_loss = (by_loss + s * self.plateaus.loss_share[:, None]) * per_wrong
        return Masses(
            accepted=accepted,
            lost=lost,
            answer_rate=self.answer_rate[block],
            brier=per_right * (right_score + s * unseen.right_score)
            + per_wrong * (wrong_score + s * unseen.wrong_score),
            losses=self.plateaus.losses,
            wrong=by_loss,
        )


def _places(generator: np.random.Generator, n_draws: int) -> FloatArray:
    """Return a place from 0 to 1 for every draw, the first of two."""
    first: FloatArray = generator.random((2, n_draws)).min(axis=0)
    return first


def _given_by_rank(
    grid: FloatArray, seen: FloatArray, generator: np.random.Generator
) -> FloatArray:
    """Give every draw a share of the grid, more often a high one where it saw many errors."""
    ties, noise = generator.random(seen.size), generator.standard_normal(seen.size)
    rank = np.empty(seen.size)
    rank[np.lexsort((ties, seen))] = np.arange(seen.size)
    score = special.ndtri((rank + 0.5) / seen.size)
    mixed = _KEPT_CORRELATION * score + math.sqrt(1 - _KEPT_CORRELATION**2) * noise
    given = np.empty(seen.size)
    given[np.argsort(mixed, kind="stable")] = grid
    return given
