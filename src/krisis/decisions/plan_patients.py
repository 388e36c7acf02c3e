"""The patients of a study that is being planned: rows each, how alike, and what they may bring."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.errors import InvalidValue

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_ROWS_OF_A_PATIENT = 1000
_UNCORRELATED = 1e-7  # below it the gamma functions lose more digits than ρ changes


@dataclass(frozen=True, slots=True)
class Patients:
    """Rows per patient and ρ, the correlation of two rows of one patient.

    ``sizes`` are the rows of the patients of a pilot, whose mix the study repeats; without them
    every patient has ``cluster_size`` rows, or the two whole numbers around it.
    """

    cluster_size: float = 1.0
    icc: float = 0.0
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.cluster_size <= MOST_ROWS_OF_A_PATIENT:
            raise InvalidValue(
                f"the cluster size must lie between 1 and {MOST_ROWS_OF_A_PATIENT} rows per "
                f"patient, not {self.cluster_size!r}"
            )
        if not 0 <= self.icc < 1:
            raise InvalidValue(
                f"the ICC must be 0 or more and below 1, not {self.icc!r}; 1 would mean that "
                "further rows of a patient say nothing: plan with --cluster-size 1 then"
            )
        if self.icc > 0 and self.mean_size == 1:
            raise InvalidValue(
                f"an ICC of {self.icc!r} needs patients with several rows; add --cluster-size"
            )

    @property
    def kinds(self) -> tuple[IntArray, FloatArray]:
        """The different numbers of rows and the share of patients with each."""
        if self.sizes:
            size, count = np.unique(np.asarray(self.sizes, dtype=np.int64), return_counts=True)
            return size, count / count.sum()
        low = math.floor(self.cluster_size)
        above = self.cluster_size - low
        if above < 1e-9:
            return np.array([low]), np.array([1.0])
        return np.array([low, low + 1]), np.array([1 - above, above])

    @property
    def mean_size(self) -> float:
        """Rows per patient."""
        size, share = self.kinds
        return float(size @ share)

    @property
    def mean_square(self) -> float:
        """The mean of the squared rows per patient."""
        size, share = self.kinds
        return float(size**2 @ share)

    @property
    def design_effect(self) -> float:
        """1 + (k̄ − 1)ρ with k̄ = Σt²/Σt, the size of the patient whom a row belongs to."""
        return 1 + (self.mean_square / self.mean_size - 1) * self.icc

    def n_rows(self, n_patients: int) -> int:
        """Return the rows that so many patients bring."""
        return round(n_patients * self.mean_size)

    def hits(self, size: int, share: float) -> FloatArray:
        """Return the probabilities of 0 to ``size`` hits: beta-binomial with correlation ρ."""
        counts = np.arange(size + 1)
        return _mixed_multinomial(
            np.stack([counts, size - counts]), np.array([share, 1 - share]), self.icc
        )

    def differences(self, size: int, better: float, worse: float) -> FloatArray:
        """Return the probabilities of −size to size: rows that one run alone has right, net.

        Dirichlet-multinomial: the three outcomes of a row all have correlation ρ.
        """
        plus, minus = np.meshgrid(np.arange(size + 1), np.arange(size + 1), indexing="ij")
        kept = plus + minus <= size
        plus, minus = plus[kept], minus[kept]
        probability = _mixed_multinomial(
            np.stack([plus, minus, size - plus - minus]),
            np.array([better, worse, 1 - better - worse]),
            self.icc,
        )
        net = np.bincount(plus - minus + size, weights=probability, minlength=2 * size + 1)
        return net.astype(np.float64)


def _mixed_multinomial(counts: IntArray, shares: FloatArray, icc: float) -> FloatArray:
    """Return multinomial probabilities whose shares vary between patients with correlation ρ.

    With a = (1−ρ)/ρ: n! Γ(a)/Γ(n+a) Π Γ(c+a p)/(c! Γ(a p)); without correlation n! Π p^c/c!.
    """
    n = counts.sum(axis=0)
    p = np.maximum(shares, 0.0)[:, None]
    log = special.gammaln(n + 1) - special.gammaln(counts + 1).sum(axis=0)
    if icc > _UNCORRELATED:
        a = (1 - icc) / icc
        alpha = np.maximum(a * p, 1e-300)
        log += special.gammaln(a) - special.gammaln(n + a)
        log += (special.gammaln(counts + alpha) - special.gammaln(alpha)).sum(axis=0)
    else:
        log += special.xlogy(counts, p).sum(axis=0)
    probability: FloatArray = np.exp(log)
    scaled: FloatArray = probability / probability.sum()
    return scaled
