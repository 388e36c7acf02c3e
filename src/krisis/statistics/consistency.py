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

    mode: int | str | None
    modal_confidence: float
    score_std: float | None


def consistency_of(samples: Sequence[int | str | None]) -> Consistency:
    """Return mode, share of the mode and population standard deviation of the numeric samples.

    Abstentions are answers like others; a tie goes to the abstention, then to the smaller score,
    then to the first word in the alphabet.
    Without a numeric sample the spread is None.

    >>> consistency_of([2, 2, None, 3])
    Consistency(mode=2, modal_confidence=0.5, score_std=0.4714045207910317)
    """
    if not samples:
        raise InvalidValue("consistency needs at least one sample; draw some first")
    counts = Counter(samples)
    most = max(counts.values())
    mode = min((answer for answer, count in counts.items() if count == most), key=_order)
    scores = [float(answer) for answer in samples if isinstance(answer, int)]
    spread = None
    if scores:
        mean = math.fsum(scores) / len(scores)
        spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    return Consistency(mode, most / len(samples), spread)


def _order(answer: int | str | None) -> tuple[int, float, str]:
    if answer is None:
        return 0, 0.0, ""
    return (2, 0.0, answer) if isinstance(answer, str) else (1, float(answer), "")
