"""The eight PHQ-8 items: their keys, what each asks, and how adults in the United States answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist
from types import MappingProxyType

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

    ``key`` is its name in label files and run files. ``search_words`` are what people say when
    they talk about it, for retrieval. ``nhanes_counts`` are the answers 0 to 3 of
    about 5,000 adults in NHANES 2017–2018. ``loading`` is the correlation of the item's liability
    with the one latent severity: an assumption of the synthetic cohort, not an estimate.
    """

    key: str
    words: str
    question: str
    search_words: str
    nhanes_counts: tuple[int, int, int, int]
    loading: float

    def thresholds(self) -> tuple[float, float, float]:
        """Return the standard-normal cut points that give the NHANES margin.

        >>> [round(cut, 2) for cut in ITEMS[2].thresholds()]
        [0.29, 0.98, 1.36]
        """
        total = sum(self.nhanes_counts)
        first, second, third = (
            NormalDist().inv_cdf(below / total)
            for below in list(accumulate(self.nhanes_counts))[:-1]
        )
        return first, second, third


ITEMS: tuple[Item, ...] = (
    Item(
        "NoInterest",
        "interest",
        "little interest in things, or little enjoyment of them",
        "interest enjoy enjoyment fun hobby hobbies pleasure joy looking forward care",
        (3792, 816, 280, 198),
        0.80,
    ),
    Item(
        "Depressed",
        "mood",
        "low, sad or hopeless mood",
        "mood down sad depressed hopeless miserable crying spirits feeling low cheerful",
        (3865, 831, 224, 167),
        0.88,
    ),
    Item(
        "Sleep",
        "sleep",
        "trouble falling or staying asleep, or sleeping too much",
        "sleep asleep awake night nights bed bedtime insomnia waking alarm",
        (3119, 1141, 383, 443),
        0.70,
    ),
    Item(
        "Tired",
        "fatigue",
        "tiredness or lack of energy",
        "tired energy exhausted drained fatigue worn out weary",
        (2584, 1612, 457, 432),
        0.75,
    ),
    Item(
        "Appetite",
        "appetite",
        "poor appetite, or eating too much",
        "appetite eat eating food meals dinner overeating hungry breakfast",
        (3812, 778, 276, 221),
        0.72,
    ),
    Item(
        "Failure",
        "failure",
        "feeling like a failure, or of having let oneself or the family down",
        "failure worthless blame ashamed yourself myself proud let down guilt",
        (4237, 575, 147, 124),
        0.82,
    ),
    Item(
        "Concentrating",
        "concentration",
        "trouble keeping one's mind on things such as reading or watching television",
        "concentrate concentration focus focusing mind wandered reading book film television",
        (4241, 517, 156, 172),
        0.76,
    ),
    Item(
        "Moving",
        "psychomotor",
        "moving or speaking noticeably slowly, or being unusually restless",
        "restless sit still slow slowly move moving talk fidgeting pacing",
        (4541, 328, 120, 95),
        0.74,
    ),
)

ITEM_KEYS: tuple[str, ...] = tuple(item.key for item in ITEMS)
