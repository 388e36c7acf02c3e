"""The 24 features of the UCI file and their context: words, units, codes, plausible ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from krisis.data.base import (
    FeatureDescription,
    Features,
    FeatureSet,
    FeatureValue,
    Label,
    SecondUnit,
)

Value = int | float | None


@dataclass(frozen=True, slots=True)
class Feature:
    """One column: how it reads in a prompt and which values it may hold.

    ``codes`` maps the words of the file to numbers; without codes the column is a measurement,
    and a value outside ``low`` to ``high`` is not compatible with a living patient or its unit.
    """

    words: str
    unit: str = ""
    meaning: str = ""
    codes: Mapping[str, int] = field(default_factory=dict)
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    second_unit: SecondUnit | None = None

    def description(self) -> FeatureDescription:
        """Return the words that a prompt may use."""
        shown: dict[Label, str] = {
            code: _SHOWN.get(word, word) for word, code in self.codes.items()
        }
        possible = "" if self.low == -math.inf else f"possible {self.low:g} to {self.high:g}"
        meaning = "; ".join(part for part in (self.meaning, possible) if part)
        second = self.second_unit
        return FeatureDescription(self.words, self.unit, meaning, shown, second_unit=second)


_SHOWN = {"notpresent": "not present"}
_YES_NO = {"no": 0, "yes": 1}
_NORMAL = {"normal": 0, "abnormal": 1}
_PRESENT = {"notpresent": 0, "present": 1}
_DIPSTICK = {str(grade): grade for grade in range(6)}
# The units of the SI and of laboratories in other countries; factors by molar mass.
_KILOPASCAL = SecondUnit("kPa", 0.133322)
_GLUCOSE = SecondUnit("mmol/L", 0.05551)
_UREA = SecondUnit("mmol/L", 0.1665)
CREATININE = SecondUnit("µmol/L", 88.4)
_MILLIEQUIVALENT = SecondUnit("mEq/L", 1)

FEATURES: dict[str, Feature] = {
    "age": Feature("Age", "years", low=0, high=120, whole=True),
    "bp": Feature(
        "Diastolic blood pressure",
        "mmHg",
        "usual below 85",
        low=30,
        high=250,
        whole=True,
        second_unit=_KILOPASCAL,
    ),
    "sg": Feature(
        "Urine specific gravity",
        "",
        "usual 1.005 to 1.030; fixed near 1.010 when the kidney cannot concentrate urine",
        low=1.0,
        high=1.06,
    ),
    "al": Feature("Urine albumin by dipstick", "grade 0 to 5", "0 is none", _DIPSTICK),
    "su": Feature("Urine sugar by dipstick", "grade 0 to 5", "0 is none", _DIPSTICK),
    "rbc": Feature("Red blood cells in urine", codes=_NORMAL),
    "pc": Feature("Pus cells in urine", codes=_NORMAL),
    "pcc": Feature("Pus cell clumps in urine", codes=_PRESENT),
    "ba": Feature("Bacteria in urine", codes=_PRESENT),
    "bgr": Feature(
        "Random blood glucose", "mg/dL", "usual below 140", low=15, high=1500, second_unit=_GLUCOSE
    ),
    "bu": Feature("Blood urea", "mg/dL", "usual 15 to 45", low=1, high=1000, second_unit=_UREA),
    "sc": Feature(
        "Serum creatinine", "mg/dL", "usual 0.6 to 1.2", low=0.1, high=40, second_unit=CREATININE
    ),
    "sod": Feature(
        "Serum sodium", "mmol/L", "usual 135 to 145", low=90, high=190, second_unit=_MILLIEQUIVALENT
    ),
    "pot": Feature(
        "Serum potassium",
        "mmol/L",
        "usual 3.5 to 5.1",
        low=1.5,
        high=12,
        second_unit=_MILLIEQUIVALENT,
    ),
    "hemo": Feature(
        "Haemoglobin",
        "g/dL",
        "usual 12 to 15.5 in women, 13.5 to 17.5 in men",
        low=2,
        high=25,
        second_unit=SecondUnit("g/L", 10),
    ),
    "pcv": Feature(
        "Packed cell volume",
        "%",
        "usual 36 to 46 in women, 41 to 53 in men",
        low=5,
        high=75,
        second_unit=SecondUnit("L/L", 0.01),
    ),
    "wbcc": Feature(
        "White blood cell count",
        "cells/µL",
        "usual 4,000 to 11,000",
        low=300,
        high=300_000,
        second_unit=SecondUnit("×10⁹ cells/L", 0.001),
    ),
    "rbcc": Feature(
        "Red blood cell count",
        "million cells/µL",
        "usual 4.0 to 5.9",
        low=0.8,
        high=10,
        second_unit=SecondUnit("×10¹² cells/L", 1),
    ),
    "htn": Feature("Hypertension known", codes=_YES_NO),
    "dm": Feature("Diabetes mellitus known", codes=_YES_NO),
    "cad": Feature("Coronary artery disease known", codes=_YES_NO),
    "appet": Feature("Appetite", codes={"good": 0, "poor": 1}),
    "pe": Feature("Swelling of the feet (pedal oedema)", codes=_YES_NO),
    "ane": Feature("Anaemia known", codes=_YES_NO),
}

REDUCED = ("htn", "dm", "sg", "hemo", "pcv", "rbcc", "rbc", "pc", "al", "bgr", "sc", "bu")

# What the equation for the filtration rate and the definition of chronic ask for besides.
CONTEXT: dict[str, Feature] = {
    "sex": Feature("Sex", codes={"male": 0, "female": 1}),
    "days_observed": Feature(
        "Days over which the kidney findings have been observed",
        "days",
        "chronic means at least 90",
        low=0,
        high=40_000,
        whole=True,
    ),
    "drug_started": Feature(
        "RAS inhibitor or SGLT2 inhibitor started after the first visit", codes=_YES_NO
    ),
}


def feature_names(feature_set: FeatureSet) -> tuple[str, ...]:
    """Return the columns of a feature set, in the order of the prompt."""
    return REDUCED if feature_set is FeatureSet.REDUCED else tuple(FEATURES)


def is_implausible(name: str, value: FeatureValue) -> bool:
    """Say whether a measurement cannot be right in its unit."""
    # The creatinine of a visit, visit_2_sc, is a creatinine.
    feature = FEATURES.get(name.rpartition("_")[2]) or CONTEXT.get(name)
    if not isinstance(value, int | float) or feature is None or feature.codes:
        return False
    return not feature.low <= value <= feature.high


def usable(features: Features, name: str) -> Value:
    """Return a visible value, or ``None`` where it is hidden, not measured or implausible."""
    value = features.get(name)
    if not isinstance(value, int | float) or is_implausible(name, value):
        return None
    return value
