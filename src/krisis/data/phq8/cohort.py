"""Synthetic participants: item scores with NHANES margins that depend through one severity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krisis.data.phq8.items import ITEMS

# Each purpose has a stream of its own: a new draw in one never moves the draws of another.
_SCORES, INTERVIEW, SPLIT = 1, 2, 3
_LOADINGS = np.array([item.loading for item in ITEMS])
_THRESHOLDS = np.array([item.thresholds() for item in ITEMS])


@dataclass(frozen=True, slots=True)
class Participant:
    """A synthetic person: the latent severity and the eight scores that follow from it."""

    participant_id: str
    severity: float
    scores: tuple[int, ...]


def draw_participant(index: int, *, seed: int) -> Participant:
    """Draw one participant; the same index and seed give the same person in any cohort size.

    Ordinal probit: liability = loading · severity + √(1 − loading²) · noise, and the score is the
    number of NHANES cut points that lie below it.
    """
    normals = np.random.default_rng([seed, _SCORES, index]).standard_normal(1 + len(ITEMS))
    severity, noise = float(normals[0]), normals[1:]
    scores = scores_of(_LOADINGS * severity + np.sqrt(1 - _LOADINGS**2) * noise)
    return Participant(f"S{index:04d}", severity, tuple(int(score) for score in scores))


def scores_of(liability: NDArray[np.float64]) -> NDArray[np.int64]:
    """Turn liabilities of the eight items (last axis) into scores 0 to 3."""
    return np.asarray((liability[..., None] > _THRESHOLDS).sum(axis=-1))


def draw_cohort(n_participants: int, *, seed: int) -> list[Participant]:
    """Draw participants 0 to n − 1."""
    return [draw_participant(index, seed=seed) for index in range(n_participants)]
