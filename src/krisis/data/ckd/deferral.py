"""Why a case asks to be deferred: rules that read nothing but what the model is shown.

`visible_reasons` returns every reason but one; the last, ``category_uncertain``, comes from the
probability of another answer and is added by `DeferralRule`. Sources stand in the suite's page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from krisis.data.base import Features, Task
from krisis.data.ckd.egfr import (
    ADULT_AGE_YEARS,
    REFERENCE_AGES,
    below_60_probability,
    category_index,
    category_probabilities,
    ckd_epi_2021,
)
from krisis.data.ckd.schema import is_implausible, usable
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping

CHRONIC_DAYS = 90
DeferralKind = Literal["measurement_error", "margin"]
KINDS = ("measurement_error", "margin")

# Every reason in words; the docs list the same keys with their sources.
REASONS: Mapping[str, str] = {
    "category_uncertain": "another answer is too probable given what is shown",
    "creatinine_missing": "no usable creatinine where the answer needs one",
    "albuminuria_missing": "no albuminuria where the answer needs it",
    "sex_missing": "sex is not shown and decides the category",
    "age_missing": "age is not shown and the equation needs it",
    "age_below_18": "the equation holds for adults only",
    "chronicity_not_shown": "observed for less than 90 days",
    "implausible_value": "a value cannot be right in its unit",
    "markers_contradict": "two findings cannot both be right",
    "change_within_variability": "a change of 12.5 to 20 % is neither stability nor progression",
    "too_few_visits": "fewer than two usable estimates",
    "within_margin": "the estimate lies within the fixed margin of a limit",
    "label_conflicts_with_estimate": "the diagnosis and the estimate disagree",
}


@dataclass(frozen=True, slots=True)
class DeferralRule:
    """When a case counts as one to defer.

    ``measurement_error``: at any visible reason, or when the probability of another answer reaches
    ``risk``. ``margin``: the fixed distance to a category limit, kept for comparison.
    """

    kind: DeferralKind = "measurement_error"
    risk: float = 0.20
    margin_ml_min: float = 3.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName.among("deferral rule", str(self.kind), KINDS)
        for name in ("risk", "margin_ml_min"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidValue(f"{name} of the deferral rule must be a number, not {value!r}")
        if not 0.0 < self.risk < 1.0:
            raise InvalidValue(f"the deferral risk must lie between 0 and 1, not {self.risk!r}")
        if not self.margin_ml_min >= 0.0:
            raise InvalidValue(f"margin_ml_min must be 0 or more, not {self.margin_ml_min!r}")

    @classmethod
    def of(cls, given: DeferralKind | DeferralRule | JsonMapping) -> DeferralRule:
        """Take a rule, its name, or its fields as a configuration file states them."""
        if isinstance(given, DeferralRule):
            return given
        if not isinstance(given, Mapping):
            return cls(given)
        for name in given:
            if name not in cls.__slots__:
                raise UnknownName.among("field of the deferral rule", str(name), cls.__slots__)
        return cls(**given)

    def reasons(self, visible: list[str], p_misclass: float) -> list[str]:
        """Return all reasons of the measurement-error rule."""
        return [*(["category_uncertain"] if p_misclass >= self.risk else []), *visible]


def visible_reasons(features: Features, task: str) -> list[str]:
    """Return the reasons for which a shown case should be deferred."""
    found = _value_reasons(features)
    if task == Task.DETECTION:
        return found + _detection_reasons(features)
    if task == Task.STAGING:
        return found + _staging_reasons(features)
    return found


def _value_reasons(features: Features) -> list[str]:
    found = []
    if any(is_implausible(name, value) for name, value in features.items()):
        found.append("implausible_value")
    if _markers_contradict(features):
        found.append("markers_contradict")
    age = usable(features, "age")
    if age is not None and age < ADULT_AGE_YEARS:
        found.append("age_below_18")
    days = usable(features, "days_observed")
    if days is not None and days < CHRONIC_DAYS:
        found.append("chronicity_not_shown")
    return found


def _markers_contradict(features: Features) -> bool:
    """Compare the pairs that measure the same thing.

    Packed cell volume is about three times haemoglobin; urea and creatinine rise together.
    """
    haemoglobin, cells = usable(features, "hemo"), usable(features, "pcv")
    if haemoglobin is not None and cells is not None and not 2.0 <= cells / haemoglobin <= 4.0:
        return True
    creatinine, urea = usable(features, "sc"), usable(features, "bu")
    if creatinine is None or urea is None:
        return False
    return (creatinine >= 4.0 and urea < 20.0) or (creatinine <= 1.2 and urea >= 120.0)


def _detection_reasons(features: Features) -> list[str]:
    albumin, creatinine = usable(features, "al"), usable(features, "sc")
    if albumin is not None and albumin >= 1:
        return []  # damage is shown; no further value is needed
    if creatinine is None:
        return ["creatinine_missing"]
    found = []
    ages, sexes = candidates(features)
    low = below_60_probability(category_probabilities(creatinine, ages, sexes))
    if albumin is None and low < 0.5:
        found.append("albuminuria_missing")
    if len(ages) == 1 and _sex_decides(creatinine, ages[0], sexes, limit_60_only=True):
        found.append("sex_missing")
    return found


def _staging_reasons(features: Features) -> list[str]:
    creatinine, age = usable(features, "sc"), usable(features, "age")
    found = ["creatinine_missing"] if creatinine is None else []
    if age is None:
        found.append("age_missing")
    _, sexes = candidates(features)
    if creatinine is not None and age is not None and _sex_decides(creatinine, age, sexes):
        found.append("sex_missing")
    return found


def candidates(features: Features) -> tuple[tuple[float, ...], tuple[bool, ...]]:
    """Return the ages and sexes (``True`` is female) that the shown values leave open."""
    age, sex = usable(features, "age"), usable(features, "sex")
    ages = tuple(map(float, REFERENCE_AGES)) if age is None else (float(age),)
    return ages, (False, True) if sex is None else (bool(sex),)


def _sex_decides(
    creatinine: float, age: float, sexes: tuple[bool, ...], *, limit_60_only: bool = False
) -> bool:
    found = {int(category_index(ckd_epi_2021(creatinine, age, female=sex))) for sex in sexes}
    return len({index >= 4 for index in found} if limit_60_only else found) > 1
