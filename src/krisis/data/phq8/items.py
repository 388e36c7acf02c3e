"""The eight PHQ-8 items: their keys, what each asks, and how adults in the United States answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from statistics import NormalDist
from types import MappingProxyType

from krisis.texts import stated_in

N_SCORES = 4
SCORE_MEANINGS: Mapping[int | str, str] = MappingProxyType(
    {
        0: "not at all, or on one day at most",
        1: "on several days (about 2 to 6 of 14)",
        2: "on more than half of the days (about 7 to 11 of 14)",
        3: "nearly every day (12 to 14 of 14)",
    }
)


@dataclass(frozen=True, slots=True)
class Item:
    """One symptom of the questionnaire.

    ``key`` is its name in label files and run files. ``evidence_words`` are patterns of words that
    bear on it: they find its exchanges, and where the synthetic interviews withhold it nothing
    else may hold them. ``nhanes_counts`` are the answers 0 to 3 of about 5,000 adults in NHANES
    2017–2018. ``loading`` is the correlation of the item's liability with the one latent severity:
    an assumption of the synthetic cohort, not an estimate.
    """

    key: str
    words: str
    question: str
    evidence_words: Sequence[str]
    nhanes_counts: Sequence[int]
    loading: float

    def thresholds(self) -> list[float]:
        """Return the standard-normal cut points that give the NHANES margin.

        >>> [round(cut, 2) for cut in ITEMS[2].thresholds()]
        [0.29, 0.98, 1.36]
        """
        total = sum(self.nhanes_counts)
        below = list(accumulate(self.nhanes_counts))[:-1]
        return [NormalDist().inv_cdf(count / total) for count in below]

    def bears_on(self, text: str) -> bool:
        """Say whether a text holds a word that would be evidence for this item.

        >>> [item.key for item in ITEMS if item.bears_on("I finished the book in one night.")]
        ['Sleep', 'Concentrating']
        """
        return _evidence(tuple(self.evidence_words)).search(text.casefold()) is not None


@cache
def _evidence(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(words)})")


_STATED = stated_in(__package__, "items.toml")
ITEMS: tuple[Item, ...] = tuple(Item(key, **stated) for key, stated in _STATED.items())
ITEM_KEYS: tuple[str, ...] = tuple(item.key for item in ITEMS)
