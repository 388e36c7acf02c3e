"""How far repeated samples of one answer agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from krisis.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class Consistency:
    """The commonest answer (None is an abstention), its share, and the spread of the scores."""

    mode: int | None
    modal_confidence: float
    score_std: float | None


def consistency_of(samples: Sequence[int | None]) -> Consistency:
    """Return mode, share of the mode and population standard deviation of the numeric samples.

    Abstentions are answers like others; a tie goes to the abstention, then to the smaller score.
    Without a numeric sample the spread is None.

    >>> consistency_of([2, 2, None, 3])
    Consistency(mode=2, modal_confidence=0.5, score_std=0.4714045207910317)
    """
    if not samples:
        raise InvalidValue("consistency needs at least one sample; draw some first")
    counts = Counter(samples)
    most = max(counts.values())
    tied = [answer for answer, count in counts.items() if count == most]
    mode = None if None in tied else min(answer for answer in tied if answer is not None)
    scores = [float(answer) for answer in samples if answer is not None]
    spread = None
    if scores:
        mean = math.fsum(scores) / len(scores)
        spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    return Consistency(mode, most / len(samples), spread)
