"""Means over the rows of a run, as they are or re-weighted to another prevalence."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np

from krisis.answers import is_label
from krisis.decisions.answers import answers_of, positive_of
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Units
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts
from krisis.statistics.intervals import Interval
from krisis.statistics.pseudo_answer import FigureRange, Lots, bootstrap_interval

Key = TypeVar("Key", bound=Hashable)
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Prevalence:
    """The share that every true answer is to have; under ``""`` that of the positive one alone."""

    of: Mapping[str, float]

    @classmethod
    def from_text(cls, text: str) -> Prevalence:
        """Read ``0.1`` or ``0=0.9,1=0.1``."""
        parts = [part.rpartition("=") for part in text.split(",")]
        if len(parts) == 1 and not parts[0][0]:
            return cls({"": _share(text, text)})
        found: dict[str, float] = {}
        for name, equals, share in parts:
            if not (equals and name.strip()) or name.strip() in found:
                raise InvalidValue(f"{text!r} is no list of shares; write each NAME=SHARE once")
            found[name.strip()] = _share(share, text)
        return cls(found)


def _share(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise InvalidValue(
            f"{text.strip()!r} in {whole!r} is no share; give numbers between 0 and 1"
        )
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A number per row whose mean is wanted, NaN where a row has none, and its bounds."""

    values: FloatArray
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True, eq=False)
class Population:
    """Rows in strata of stated shares; a mean is Σ share · mean of the stratum.

    ``pools`` are the units that are resampled: patients, or pools of very many.
    """

    pools: Units
    stratum: IntArray
    shares: FloatArray
    names: Sequence[str] = field(default_factory=tuple)

    @classmethod
    def of(cls, run: RunItems, prevalence: Prevalence | None = None) -> Population:
        """Return the rows as they are, or in strata of one true answer each."""
        table = run.table
        if prevalence is None:
            return cls(table.pools, np.zeros(table.n_scored, dtype=np.int64), np.ones(1))
        names = tuple(str(label) for label in table.labels)
        return cls(table.pools, table.truth, _shares(prevalence, run), names)

    @property
    def reweighted(self) -> bool:
        """Tell whether the true answers were given another prevalence."""
        return bool(self.names)

    @cached_property
    def weights(self) -> FloatArray:
        """How much every row counts, constant within a stratum; they add up to 1."""
        count = np.bincount(self.stratum, minlength=self.shares.size)
        each = np.divide(self.shares, count, out=np.zeros(self.shares.size), where=count > 0)
        return np.asarray(each[self.stratum], dtype=np.float64)

    @cached_property
    def effective_rows(self) -> float:
        """Return Kish's number of rows: (Σ w)² / Σ w²."""
        return float(1 / np.square(self.weights).sum())

    def mean(self, values: FloatArray | BoolArray) -> float:
        """Return the mean of the rows that have a value; NaN where a stratum has none."""
        known = ~np.isnan(values)
        n = self.shares.size
        rows = np.bincount(self.stratum[known], minlength=n)
        sums = np.bincount(self.stratum[known], values[known].astype(np.float64), n)
        used = self.shares > 0
        if (rows[used] == 0).any():
            return math.nan
        return float((self.shares[used] * sums[used] / rows[used]).sum())

    def intervals(
        self, quantities: Mapping[Key, Quantity], options: BootstrapOptions
    ) -> dict[Key, Interval]:
        """Return the interval of every mean, all from one draw of patients.

        The patient bootstrap with one pseudo-answer at either end of the range, shared out over
        the strata: a cost that was never seen may still exist.
        """
        pools = self.pools
        unit = np.bincount(pools.code, weights=self.weights, minlength=pools.n)
        n_units = max(2, round(1 / float(np.square(unit).sum()))) if self.reweighted else pools.n
        n_units = min(n_units, pools.n)
        counts = np.concatenate(list(resample_counts(pools.n, options)), axis=1)
        factor = Lots.drawn(1, options).factor
        found = {}
        for name, q in quantities.items():
            value = self.mean(q.values)
            if math.isnan(value):
                found[name] = Interval.undefined("a_stratum_has_no_rows", level=options.level)
                continue
            below, above = self._resampled(q, counts, factor)
            figure = FigureRange(value=value, low=q.low, high=q.high)
            found[name] = bootstrap_interval(
                below, above, figure, n_units=n_units, level=options.level
            )
        return found

    def _resampled(self, q: Quantity, counts: FloatArray, factor: FloatArray) -> FloatArray:
        """Return the mean under drawn patients, with the pseudo-answer at the low and high end."""
        shape = (self.shares.size, self.pools.n)
        known = ~np.isnan(q.values)
        cell = (self.stratum * self.pools.n + self.pools.code)[known]
        size = self.shares.size * self.pools.n
        rows = np.bincount(cell, minlength=size).reshape(shape).astype(np.float64)
        sums = np.bincount(cell, q.values[known], size).reshape(shape)
        extra = 1 / np.count_nonzero(self.shares)
        ends = np.array([q.low, q.high])[:, None, None] * extra
        means: FloatArray = np.einsum(
            "k,ekr->er",
            self.shares,
            (sums @ counts + ends * factor) / (rows @ counts + extra * factor),
        )
        return means


def _shares(prevalence: Prevalence, run: RunItems) -> FloatArray:
    """Return the share of every true answer, refusing shares that do not fit the rows."""
    answers = run.table.answers
    names = [str(label) for label in run.table.labels]
    present = {names[index] for index in np.unique(run.table.truth).tolist()}
    stated = prevalence.of
    given = _positive(stated[""], run) if "" in stated else stated
    found = dict.fromkeys(names, 0.0)
    for name, share in given.items():
        label = str(answers.key(name)) if is_label(name) else name
        if label not in found:
            raise UnknownName.among("name among the true answers:", name, sorted(present))
        if share > 0 and label not in present:
            raise InvalidValue(
                f"the share of {name!r} is {share:g} and no row has it; give it the share 0"
            )
        found[label] = share
        present.discard(label)
    if present:
        raise InvalidValue(
            f"the shares leave out {', '.join(sorted(present))}; name all true answers, 0 for "
            "those to leave out"
        )
    total = sum(found.values())
    if not math.isclose(total, 1.0, abs_tol=_ROUNDING):
        raise InvalidValue(f"the shares of the true answers add up to {total:g}, not 1")
    return np.array(list(found.values())) / total


def _positive(share: float, run: RunItems) -> Mapping[str, float]:
    """Return the shares of two answers from that of the positive one."""
    labels = answers_of(run)
    positive = positive_of(run)
    if positive is None or len(labels) != 2:
        raise InvalidValue(
            f"one share is for two answers with a positive one, and {run.source.path} has "
            f"{', '.join(map(str, labels))}; write --prevalence ANSWER=SHARE,…"
        )
    other = next(label for label in labels if label != positive)
    return {str(positive): share, str(other): 1 - share}
