"""The probability of every score of an item, given what an interview says of this item."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from krisis.data.phq8.interviews import LOADINGS, SEVERITY, THRESHOLDS, Cohort
from krisis.data.phq8.items import ITEM_KEYS

FloatArray = NDArray[np.floating[Any]]


def score_probabilities(
    evidence: Mapping[str, tuple[float, ...]], cohort: Cohort
) -> dict[str, tuple[float, ...]]:
    """Return P(score | what is said of the item) of each item, in the order of the scores.

    ``evidence`` gives P(what is said of the item | score) up to a factor, for the four scores. An
    item is read on its own, as the prompt asks, so P(s | said) ∝ evidence(s) · P(s): where nobody
    talked about it, the shares of the cohort. Rounded to six digits.
    """
    found = {}
    for key, share in zip(ITEM_KEYS, score_shares(cohort), strict=True):
        chances = np.array(evidence[key]) * share
        found[key] = tuple((chances / chances.sum()).round(6).tolist())
    return found


@cache
def score_shares(cohort: Cohort) -> FloatArray:
    """Return P(score) of every item in a cohort: items × scores.

    The liability λ·θ + √(1 − λ²)·ε with θ ~ N(m, d²) is normal around λ·m.
    """
    mean, deviation = SEVERITY[cohort]
    spread = np.sqrt(1 - LOADINGS**2 + (LOADINGS * deviation) ** 2)
    cuts = np.pad(THRESHOLDS, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
    return np.diff(norm.cdf((cuts - LOADINGS[:, None] * mean) / spread[:, None]), axis=1)
