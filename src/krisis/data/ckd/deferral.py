"""Why a case asks to be deferred: rules that read nothing but what the model is shown.

`visible_reasons` returns the reasons by rule; ``category_uncertain`` comes from the probability of
another answer and is added by `DeferralRule`. Sources stand in the suite's page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from krisis.data.base import Features, Label, Task
from krisis.data.ckd.egfr import ADULT_AGE_YEARS, category_index, ckd_epi_2021
from krisis.data.ckd.schema import is_implausible, usable
from krisis.data.ckd.setting import SETTLING_GRADE
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject

CHRONIC_DAYS = 90
RuleName = Literal["measurement_error", "margin"]
RULES = ("measurement_error", "margin")
DeferralKind = Literal["uncertain", "rule"]

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

    kind: RuleName = "measurement_error"
    risk: float = 0.20
    margin_ml_min: float = 3.0

    def __post_init__(self) -> None:
        if self.kind not in RULES:
            raise UnknownName.among("deferral rule", str(self.kind), RULES)
        for name in ("risk", "margin_ml_min"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidValue(f"{name} of the deferral rule must be a number, not {value!r}")
        if not 0.0 < self.risk < 1.0:
            raise InvalidValue(f"the deferral risk must lie between 0 and 1, not {self.risk!r}")
        if not self.margin_ml_min >= 0.0:
            raise InvalidValue(f"margin_ml_min must be 0 or more, not {self.margin_ml_min!r}")

    @classmethod
    def of(cls, given: RuleName | DeferralRule | JsonMapping) -> DeferralRule:
        """Take a rule, its name, or its fields as a configuration file states them."""
        if isinstance(given, DeferralRule):
            return given
        if not isinstance(given, Mapping):
            return cls(given)
        for name in given:
            if name not in cls.__slots__:
                raise UnknownName.among("field of the deferral rule", str(name), cls.__slots__)
        rule = cls(**given)
        if rule.kind == "margin" and "risk" in given:
            raise InvalidValue(
                f"risk {rule.risk:g} is the price of deferring, which the deferral rule 'margin' "
                "does not use; leave out the risk or the rule"
            )
        return rule

    def describe(self) -> JsonObject:
        """Return the rule and the one figure that it uses."""
        name = "margin_ml_min" if self.kind == "margin" else "risk"
        return {"rule": self.kind, name: getattr(self, name)}

    def reasons(self, visible: list[str], p_misclass: float) -> list[str]:
        """Return all reasons of the measurement-error rule."""
        return [*(["category_uncertain"] if p_misclass >= self.risk else []), *visible]


def deferral_kind(reasons: list[str]) -> DeferralKind | None:
    """Tell what is uncertain from what a rule leaves undecided; uncertainty wins where both hold.

    >>> deferral_kind(["category_uncertain", "sex_missing"]), deferral_kind(["age_below_18"])
    ('uncertain', 'rule')
    """
    if not reasons:
        return None
    return "uncertain" if "category_uncertain" in reasons else "rule"


def sheet_cannot_be_right(features: Features) -> bool:
    """Say whether a shown value is impossible or two contradict each other."""
    implausible = any(is_implausible(name, value) for name, value in features.items())
    return implausible or _markers_contradict(features)


# The answers that the six categories, worst first, are told apart by.
ROWS_OF_RISK = (0, 0, 1, 2, 3, 3)
SIDES_OF_60 = (0, 0, 0, 0, 1, 1)


def visible_reasons(
    features: Features, task: str, answers: Sequence[Label] = SIDES_OF_60
) -> list[str]:
    """Return the reasons by rule for which a shown case should be deferred.

    ``answers`` are those of the six categories, worst first, as far as the task tells them apart.
    """
    found = []
    if any(is_implausible(name, value) for name, value in features.items()):
        found.append("implausible_value")
    if _markers_contradict(features):
        found.append("markers_contradict")
    if task == Task.ALBUMINURIA:
        return found + _albuminuria_reasons(features)
    age = usable(features, "age")
    if age is not None and age < ADULT_AGE_YEARS:
        found.append("age_below_18")
    days = usable(features, "days_observed")
    if days is not None and days < CHRONIC_DAYS:
        found.append("chronicity_not_shown")
    return found if task == Task.PROGRESSION else found + _missing(features, task, answers)


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


def _albuminuria_reasons(features: Features) -> list[str]:
    return ["albuminuria_missing"] if usable(features, "al") is None else []


def _missing(features: Features, task: str, answers: Sequence[Label]) -> list[str]:
    """Return what the answer needs and is not shown."""
    creatinine, age, grade = (usable(features, name) for name in ("sc", "age", "al"))
    if task == Task.DETECTION and grade is not None and grade >= SETTLING_GRADE:
        return []  # raised albuminuria is certain, and enough
    found = ["creatinine_missing"] if creatinine is None else []
    if age is None:
        found.append("age_missing")
    categories = shown_categories(features)
    if len({answers[category] for category in categories}) > 1:
        found.append("sex_missing")
    least = {Task.DETECTION: 4, Task.RISK: 2}.get(task)  # from G2, and from G3b on
    if least is not None and grade is None and any(c >= least for c in categories):
        found.append("albuminuria_missing")
    return found


def shown_categories(features: Features) -> list[int]:
    """Return the category of the estimate, of both sexes where none is shown; else nothing."""
    creatinine, age = usable(features, "sc"), usable(features, "age")
    if creatinine is None or age is None:
        return []
    sex = usable(features, "sex")
    return [
        int(category_index(ckd_epi_2021(creatinine, age, female=female)))
        for female in ((False, True) if sex is None else (bool(sex),))
    ]
