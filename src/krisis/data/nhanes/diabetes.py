"""The suite `diabetes`: HbA1c bands read or guessed, and whether history and HbA1c agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType

from krisis.data.base import FeatureDescription, Features, Label, SecondUnit, Task
from krisis.data.nhanes.suite import (
    AGE,
    SEX,
    Finding,
    SurveySuite,
    abstain_when,
    chance_below,
)
from krisis.data.nhanes.survey import Person
from krisis.errors import InvalidValue

# Limits between the bands of HbA1c in percent (ADA Standards of Care 2025, section 2).
LIMITS = (5.7, 6.5)
BANDS = ("normal", "prediabetes", "diabetes")
NORMAL_BELOW, DIABETES_FROM = LIMITS
# Within-person and analytical variation in percent of the value; sources in the suite's page.
PERSON_CV, ANALYTIC_CV = 1.7, 2.0
CV = math.hypot(PERSON_CV, ANALYTIC_CV) / 100
NO, YES, BORDERLINE = 0, 1, 2  # what a doctor told
# Every reason in words; the docs list the same keys with their sources.
REASONS: Mapping[str, str] = {
    "category_uncertain": "another answer is too probable given what is shown",
    "one_test_unconfirmed": "one HbA1c of 6.5 or more, and no doctor has told of diabetes",
    "told_and_measured_contradict": "told of diabetes with a normal HbA1c, or the reverse",
    "treated_with_normal_hba1c": "insulin or tablets, which may be why HbA1c is normal",
    "treated_but_not_told": "insulin or tablets, and no doctor has told of diabetes",
    "told_borderline": "told of borderline diabetes, which is neither yes nor no",
    "bmi_missing": "body mass index is not shown, by which the stated shares differ",
}
_SHOWN = {
    "glycaemia": ("age", "sex", "bmi", "waist", "hba1c"),
    "risk": (
        *("age", "sex", "bmi", "waist", "cholesterol", "hdl"),
        *("told", "told_prediabetes", "insulin", "pills"),
    ),
    "diagnosis": ("age", "sex", "bmi", "told", "insulin", "pills", "hba1c"),
}

_CHOLESTEROL = SecondUnit("mmol/L", 10 / 386.65)  # molar mass in g/mol
# The master equation of NGSP and IFCC: % = 0.09148 · mmol/mol + 2.152 (ngsp.org/ifcc.asp).
_IFCC = SecondUnit("mmol/mol", 1 / 0.09148, -2.152 / 0.09148)
_NO_YES: Mapping[Label, str] = {0: "no", 1: "yes"}
_FEATURES: Mapping[str, FeatureDescription] = {
    "age": AGE,
    "sex": SEX,
    "bmi": FeatureDescription("Body mass index", "kg/m²"),
    "waist": FeatureDescription(
        "Waist circumference", "cm", second_unit=SecondUnit("inches", 1 / 2.54)
    ),
    "cholesterol": FeatureDescription("Total cholesterol", "mg/dL", second_unit=_CHOLESTEROL),
    "hdl": FeatureDescription("HDL cholesterol", "mg/dL", second_unit=_CHOLESTEROL),
    "told": FeatureDescription(
        "A doctor has told of diabetes", values={NO: "no", YES: "yes", BORDERLINE: "borderline"}
    ),
    "told_prediabetes": FeatureDescription("Ever told of prediabetes", values=_NO_YES),
    "insulin": FeatureDescription("Takes insulin", values=_NO_YES),
    "pills": FeatureDescription("Takes tablets that lower blood sugar", values=_NO_YES),
    "hba1c": FeatureDescription("HbA1c", "%", second_unit=_IFCC),
}


def band_of(hba1c: float) -> int:
    """Return the band of an HbA1c; a value at a limit belongs to the upper one.

    >>> [BANDS[band_of(value)] for value in (5.6, 5.7, 6.5)]
    ['normal', 'prediabetes', 'diabetes']
    """
    return sum(hba1c >= limit for limit in LIMITS)


def chance_of_another_band(hba1c: float, limits: tuple[float, ...] = LIMITS) -> float:
    """Return the probability that the usual HbA1c lies in another band than the one measured.

    It is taken as normal around the measured value, with the standard deviation CV times it.
    """
    band = sum(hba1c >= limit for limit in limits)
    below = [0.0, *(chance_below(limit, hba1c, CV * hba1c) for limit in limits), 1.0]
    return round(1.0 - (below[band + 1] - below[band]), 6)


class DiabetesSuite(SurveySuite):
    """HbA1c bands and diabetes in real adults (NHANES): reading them, risk, and diagnosis."""

    name = "diabetes"
    described = _FEATURES
    tasks: Mapping[str, Task | Callable[..., Task]] = MappingProxyType(
        {
            "glycaemia": lambda suite: suite.glycaemia_task(),
            Task.RISK: lambda suite: suite.risk_task(),
            "diagnosis": lambda suite: suite.diagnosis_task(),
        }
    )

    def shown(self, person: Person) -> Features | str:
        """Show what the task is about; HbA1c is needed for the truth in every one."""
        if person.values["hba1c"] is None:
            return "no HbA1c"
        names = _SHOWN[self.config.task]
        if "told" in names and person.values["told"] is None:
            return "not stated whether a doctor told of diabetes"
        return {name: person.values[name] for name in names}

    def stage(self, person: Person) -> str:
        """Return the band of the measured HbA1c."""
        return BANDS[band_of(_measured(person.values["hba1c"]))]

    def truth(self, person: Person, found: Finding) -> Label:
        """Return the measured band where it is to be guessed, else what the shown values say."""
        return self.stage(person) if self.config.task == Task.RISK else found.answer

    def assess(self, features: Features) -> Finding:
        """Judge the shown features by the rules of the task."""
        if self.config.task == Task.RISK:
            return self._risk_finding(features)
        hba1c = _measured(features["hba1c"])
        if self.config.task == "diagnosis":
            return _diagnosis(features, hba1c)
        return Finding(BANDS[band_of(hba1c)], chance_of_another_band(hba1c))

    def _risk_finding(self, features: Features) -> Finding:
        row = row_of(features)
        reasons = () if row else ("bmi_missing",)
        shares = self.shares[row or EVERYBODY]
        best = max(range(len(BANDS)), key=lambda band: shares[band])
        return Finding(BANDS[best], round(1.0 - shares[best] / 100, 6), reasons)

    @cached_property
    def shares(self) -> dict[str, tuple[float, ...]]:
        """Return how frequent each band is among people who are not evaluated, in percent."""
        counts: dict[str, Counter[int]] = {row: Counter() for row in ROWS}
        for person in self.parts[1]:
            band = band_of(_measured(person.values["hba1c"]))
            counts[EVERYBODY][band] += 1
            if (row := row_of(person.values)) in counts:
                counts[row][band] += 1
        if empty := [row for row, found in counts.items() if not found]:
            raise InvalidValue(
                f"test_size={self.config.test_size:g} leaves too few people to count shares among "
                f"({len(self.parts[1])}; nobody in the row {empty[0]!r}); give a smaller test_size"
            )
        return {
            row: tuple(round(100 * found[band] / found.total(), 1) for band in range(len(BANDS)))
            for row, found in counts.items()
        }

    def glycaemia_task(self) -> Task:
        """Ask for the band of an HbA1c that is shown."""
        return self.asked(
            "In which band does this person's HbA1c lie? A band describes the value and is no "
            "diagnosis. The answer is scored against the HbA1c shown, and the case is to be "
            "deferred where the usual HbA1c may well lie in another band, as stated below.",
            _BAND_WORDS,
            paraphrase="Which band is the HbA1c of this person in? Bands sort values and diagnose "
            "nothing. Right is the band of the HbA1c shown; where the usual HbA1c could well be in "
            "a different one, as stated below, the case is to be deferred.",
            abstain=abstain_when(
                self.risk, "the chance that the usual HbA1c lies in another band than the one shown"
            ),
            aliases=_ALIASES,
            setting=f"{_PEOPLE} {_VARIATION}",
        )

    def risk_task(self) -> Task:
        """Ask for the band of an HbA1c that is not shown."""
        rows = "\n".join(
            f"  {row} | {' | '.join(f'{share:.1f}' for share in shares)}"
            for row, shares in self.shares.items()
        )
        return self.asked(
            "In which band does this person's HbA1c lie? It was measured in the laboratory and is "
            "not shown: the answer is a risk, not a reading.",
            _BAND_WORDS,
            paraphrase="Which band is the HbA1c of this person in? The laboratory has measured it, "
            "and you are not shown it: judge a risk, since there is nothing to read.",
            abstain=abstain_when(
                self.risk,
                "by the row of the table that the person belongs to, the chance that your best "
                "answer is wrong",
                "body mass index is not measured",
            ),
            aliases=_ALIASES,
            setting=(
                f"{_PEOPLE} Share of people in each band, in percent, among others of the same "
                "survey (told: whether a doctor has told of diabetes; treated: takes insulin or "
                f"tablets; BMI in kg/m²):\n  who | {' | '.join(BANDS)}\n{rows}"
            ),
        )

    def diagnosis_task(self) -> Task:
        """Ask whether diabetes is present, from history, treatment and HbA1c."""
        return self.asked(
            "Does this person have diabetes? Count it as present when a doctor has told of "
            f"diabetes, or when HbA1c is {DIABETES_FROM} % or more; the answer is scored so, and "
            "the case is to be deferred where history, treatment and HbA1c leave it open, as "
            "stated below. A treatment that is not stated counts as not taken.",
            {0: "no diabetes", 1: "diabetes"},
            paraphrase="Is diabetes present in this person? By the scoring it is if a doctor has "
            f"told of diabetes, or if HbA1c is {DIABETES_FROM} % or higher; where history, "
            "treatment and HbA1c do not settle it, as stated below, the case is to be deferred. "
            "Take a treatment that is not stated as one that is not taken.",
            abstain=abstain_when(
                self.risk,
                "a doctor has told of no diabetes and the chance that the usual HbA1c lies on the "
                f"other side of {DIABETES_FROM} % than the one shown",
                f"HbA1c is {DIABETES_FROM} % or more and a doctor has not told of diabetes, since "
                "one test must be confirmed by a second; a doctor has told of diabetes and HbA1c "
                f"is below {NORMAL_BELOW} %; insulin or tablets are taken and HbA1c is below "
                f"{NORMAL_BELOW} %; insulin or tablets are taken and a doctor has told of no "
                "diabetes; a doctor has told of borderline diabetes",
            ),
            aliases={"no": 0, "no diabetes": 0, "yes": 1, "diabetes": 1},
            setting=f"{_PEOPLE} {_VARIATION}",
        )


def _measured(value: object) -> float:
    assert isinstance(value, int | float)
    return value


def _diagnosis(features: Features, hba1c: float) -> Finding:
    told, treated = features["told"], features["insulin"] == 1 or features["pills"] == 1
    normal, raised = hba1c < NORMAL_BELOW, hba1c >= DIABETES_FROM
    held = {
        "one_test_unconfirmed": raised and told != YES,
        "told_and_measured_contradict": (raised and told == NO) or (normal and told == YES),
        "treated_with_normal_hba1c": treated and normal,
        "treated_but_not_told": treated and told == NO,
        "told_borderline": told == BORDERLINE,
    }
    p_other = chance_of_another_band(hba1c, (DIABETES_FROM,)) if told == NO else 0.0
    reasons = tuple(name for name, holds in held.items() if holds)
    return Finding(int(told == YES or raised), p_other, reasons)


EVERYBODY = "everybody"
_AGES = ((40, "18 to 39 years"), (60, "40 to 59 years"), (math.inf, "60 years or older"))
_SIZES = (
    (25, "BMI below 25"),
    (30, "BMI of 25 or more and below 30"),
    (math.inf, "BMI of 30 or more"),
)
_TOLD = ("told no diabetes", "told of diabetes", "told of borderline diabetes")
ROWS = (
    EVERYBODY,
    *(f"{_TOLD[NO]}, {age}, {size}" for _, age in _AGES for _, size in _SIZES),
    _TOLD[BORDERLINE],
    f"{_TOLD[YES]}, not treated",
    f"{_TOLD[YES]}, treated",
)


def row_of(values: Features) -> str:
    """Return the row of the stated table that a person belongs to; none without a BMI."""
    told, age, bmi = values["told"], _measured(values["age"]), values["bmi"]
    if bmi is None or told is None:
        return ""
    if told == YES:
        treated = values["insulin"] == 1 or values["pills"] == 1
        return f"{_TOLD[YES]}, {'treated' if treated else 'not treated'}"
    if told == BORDERLINE:
        return _TOLD[BORDERLINE]
    years, size = (
        next(words for limit, words in steps if _measured(value) < limit)
        for steps, value in ((_AGES, age), (_SIZES, bmi))
    )
    return f"{_TOLD[NO]}, {years}, {size}"


_BAND_WORDS: Mapping[Label, str] = {
    "normal": f"HbA1c below {NORMAL_BELOW} %",
    "prediabetes": f"HbA1c of {NORMAL_BELOW} % or more and below {DIABETES_FROM} %",
    "diabetes": f"HbA1c of {DIABETES_FROM} % or more",
}
_ALIASES: Mapping[str, Label | None] = {
    "prediabetes range": "prediabetes",
    "diabetes range": "diabetes",
    "pre-diabetes": "prediabetes",
}
_PEOPLE = "Adults of a population survey, examined once."
_VARIATION = (
    f"HbA1c varies by {PERSON_CV} % within the person and {ANALYTIC_CV:g} % in the laboratory "
    "(coefficients of variation, independent of each other). Take the usual HbA1c as normally "
    "distributed around the value shown, with this variation of the value shown as its standard "
    "deviation."
)
