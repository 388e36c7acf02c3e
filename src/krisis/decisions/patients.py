"""Rows per patient, and what their correlation costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from krisis.errors import InvalidValue
from krisis.metrics.table import FloatArray, IntArray

_MOST_ROWS_OF_A_PATIENT = 1000
_HIGHEST_ICC = 0.99


@dataclass(frozen=True, slots=True)
class Patients:
    """Rows per patient, and the correlation of two rows of one patient (ICC).

    ``sizes`` are the rows of the patients of a pilot, whose mix is kept; without them every patient
    has ``cluster_size`` rows, or one of the two whole numbers around it.
    """

    cluster_size: float = 1.0
    icc: float = 0.0
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.cluster_size <= _MOST_ROWS_OF_A_PATIENT and not self.sizes:
            raise InvalidValue(
                f"--cluster-size must be between 1 and {_MOST_ROWS_OF_A_PATIENT} rows per patient, "
                f"not {self.cluster_size!r}"
            )
        if not 0 <= self.icc < 1:
            raise InvalidValue(f"--icc must be 0 or more and below 1, not {self.icc!r}")
        if self.icc > 0 and self.most_rows == 1:
            raise InvalidValue(
                f"an ICC of {self.icc!r} needs patients with several rows; add --cluster-size"
            )

    @property
    def kinds(self) -> tuple[IntArray, FloatArray]:
        """The different numbers of rows, and the share of patients with each."""
        if self.sizes:
            size, count = np.unique(np.asarray(self.sizes, dtype=np.int64), return_counts=True)
            return size, count / count.sum()
        low = math.floor(self.cluster_size)
        above = self.cluster_size - low
        return np.array([low, low + 1]), np.array([1 - above, above])

    @property
    def most_rows(self) -> int:
        """The most rows that a patient can have."""
        size, share = self.kinds
        return int(size[share > 0].max())

    @property
    def mean_size(self) -> float:
        """Rows per patient."""
        size, share = self.kinds
        return float(size @ share)

    @property
    def design_effect(self) -> float:
        """How many times more rows are needed than if all rows were independent.

        D = 1 + (k̄ − 1)·ICC with k̄ = Σk²/Σk, the size of the patient whom a row belongs to, which
        exceeds the mean size where sizes differ.

        Reference: Kish, Survey Sampling (1965), section 5.4; for unequal sizes Eldridge, Ashby and
        Kerry, International Journal of Epidemiology 35 (2006) 1292–1300.
        """
        size, share = self.kinds
        return 1 + (float(size**2 @ share) / self.mean_size - 1) * self.icc

    def effective_rows(self, n_patients: float) -> float:
        """Return the independent rows that the rows of so many patients are worth."""
        return n_patients * self.mean_size / self.design_effect

    def drawn(
        self, shares: Sequence[float], n_patients: int, generator: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        """Draw the kind of every row, by its share, and the patient whom it belongs to.

        The shares of a patient vary as in a Dirichlet distribution with concentration
        (1 − ICC)/ICC, so that any two rows of one patient have the correlation ICC.
        """
        size, share = self.kinds
        patient = np.repeat(np.arange(n_patients), generator.choice(size, n_patients, p=share))
        own = np.tile(np.asarray(shares, dtype=np.float64), (n_patients, 1))
        if self.icc > 0:
            own = generator.dirichlet(own[0] * (1 - self.icc) / self.icc + 1e-12, n_patients)
        above = generator.random(patient.size)[:, None] >= np.cumsum(own, axis=1)[patient, :-1]
        return above.sum(axis=1), patient


def intraclass_correlation(value: FloatArray, code: IntArray) -> float:
    """Return the correlation of two rows of one patient, by analysis of variance, from 0 up.

    (MSB − MSW)/(MSB + (k₀ − 1)MSW), k₀ = (N − Σk²/N)/(C − 1).

    Reference: Donner, A review of inference procedures for the intraclass correlation coefficient
    in the one-way random effects model, International Statistical Review 54 (1986) 67–82.

    >>> intraclass_correlation(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))
    0.99
    """
    rows = np.bincount(code).astype(np.float64)
    sums = np.bincount(code, weights=value)[rows > 0]
    rows = rows[rows > 0]
    n, c = rows.sum(), rows.size
    if c < 2 or n == c:
        return 0.0
    between = float((rows * (sums / rows - value.mean()) ** 2).sum()) / (c - 1)
    within = float((value**2).sum() - (sums**2 / rows).sum()) / (n - c)
    k0 = (n - float(rows @ rows) / n) / (c - 1)
    spread = between + (k0 - 1) * within
    return float(np.clip((between - within) / spread, 0.0, _HIGHEST_ICC)) if spread > 0 else 0.0
