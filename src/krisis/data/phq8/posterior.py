"""The probability of every score of an item, given all that an interview says of all eight."""

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
# Severities at which the model is summed, in standard deviations; the sums are right to 1e-6.
_NODES = np.linspace(-6.0, 6.0, 241)


def score_probabilities(
    evidence: Mapping[str, tuple[float, ...]], cohort: Cohort
) -> dict[str, tuple[float, ...]]:
    """Return P(score | everything said) of each item, in the order of the scores, to six digits.

    ``evidence`` gives P(what is said of the item | score) up to a factor, for the four scores. The
    items are independent given the severity θ, so that with w = ∑ₜ evidence(t)·P(t | θ) of each
    other item, P(s | all) ∝ evidence(s) · ∫ P(s | θ) · ∏ w(θ) · φ(θ) dθ.
    """
    given = np.array([evidence[key] for key in ITEM_KEYS])
    model = _scores_at_severities(cohort)  # items × scores × severities
    seen = np.einsum("is,ist->it", given, model)
    weight = norm.pdf(_NODES)
    found = {}
    for place, key in enumerate(ITEM_KEYS):
        others = weight * np.delete(seen, place, axis=0).prod(axis=0)
        chances = given[place] * (model[place] @ others)
        found[key] = tuple((chances / chances.sum()).round(6).tolist())
    return found


@cache
def _scores_at_severities(cohort: Cohort) -> FloatArray:
    """Return P(score | severity) of every item: the ordinal probit of the cohort."""
    mean, deviation = SEVERITY[cohort]
    severity = mean + deviation * _NODES
    spread = np.sqrt(1 - LOADINGS**2)
    cuts = np.pad(THRESHOLDS, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
    below = norm.cdf(
        (cuts[:, :, None] - LOADINGS[:, None, None] * severity) / spread[:, None, None]
    )
    return np.diff(below, axis=1)
