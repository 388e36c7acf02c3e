"""The findings of the kidney suite, read from ``features.toml``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from krisis.data.base import (
    FeatureDescription,
    Features,
    FeatureSet,
    FeatureValue,
    Label,
    SecondUnit,
)
from krisis.json_values import JsonObject
from krisis.texts import stated_in

Value = int | float | None


@dataclass(frozen=True, slots=True)
class Feature:
    """One column: how it reads in a prompt and which values it may hold.

    ``codes`` maps the words of the file to numbers; without codes the column is a measurement,
    and a value outside ``low`` to ``high`` is not compatible with a living patient or its unit.
    ``usual`` is the reference range that a reader of a case is shown.
    """

    words: str
    unit: str = ""
    meaning: str = ""
    codes: Mapping[str, int] = field(default_factory=dict)
    low: float = -math.inf
    high: float = math.inf
    decimals: int = 0
    second_unit: SecondUnit | None = None
    usual: str = ""

    @classmethod
    def stated(cls, entry: JsonObject) -> Feature:
        """Read one entry of the file."""
        second = entry.pop("second_unit", None)
        return cls(**entry, second_unit=None if second is None else SecondUnit(**second))

    def description(self, number: int | None = None) -> FeatureDescription:
        """Return the words that a prompt may use, of a visit with its number."""
        shown: dict[Label, str] = {
            code: _SHOWN.get(word, word) for word, code in self.codes.items()
        }
        return FeatureDescription(
            self.words if number is None else self.words.format(number),
            self.unit,
            self.meaning,
            shown,
            second_unit=self.second_unit,
            decimals=self.decimals or None,
            usual=self.usual,
        )


_SHOWN = {"notpresent": "not present"}
_STATED = stated_in(__package__, "features.toml")
FEATURES, CONTEXT, VISIT = (
    {name: Feature.stated(entry) for name, entry in _STATED[part].items()}
    for part in ("uci", "context", "visit")
)
REDUCED = ("htn", "dm", "sg", "hemo", "pcv", "rbcc", "rbc", "pc", "al", "bgr", "sc", "bu")


def feature_names(feature_set: FeatureSet) -> tuple[str, ...]:
    """Return the columns of a feature set, in the order of the prompt."""
    return REDUCED if feature_set is FeatureSet.REDUCED else tuple(FEATURES)


def is_implausible(name: str, value: FeatureValue) -> bool:
    """Say whether a measurement cannot be right in its unit."""
    feature = _measured(name)
    if feature is None or not isinstance(value, (int, float)):
        return False
    return not feature.low <= value <= feature.high


@lru_cache(maxsize=1024)
def _measured(name: str) -> Feature | None:
    """Return the feature of a name if it is measured; visit_2_sc, of a visit, is a creatinine."""
    feature = FEATURES.get(name.rpartition("_")[2]) or CONTEXT.get(name)
    return None if feature is None or feature.codes else feature


def in_other_unit(name: str, value: FeatureValue) -> bool:
    """Say whether a value that cannot be right would be right in the other unit of the finding."""
    feature = FEATURES.get(name.rpartition("_")[2])
    if feature is None or feature.second_unit is None or not isinstance(value, int | float):
        return False
    return is_implausible(name, value) and not is_implausible(
        name, value / feature.second_unit.factor
    )


def usable(features: Features, name: str) -> Value:
    """Return a visible value, or ``None`` where it is hidden, not measured or implausible."""
    value = features.get(name)
    if not isinstance(value, int | float) or is_implausible(name, value):
        return None
    return value
