"""What is asked about a kidney patient, in words: question, answers, stated facts, when to abstain.

Whatever a deferral label uses is said here, with the figures of `setting` and the price in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from krisis.data.base import FeatureDescription, Label, Task
from krisis.data.ckd.assessment import (
    CKD_ABSENT,
    CKD_PRESENT,
    RISKS,
    course_costs,
    detection_costs,
    step_costs,
)
from krisis.data.ckd.deferral import DeferralRule
from krisis.data.ckd.facts import percent, stated_course_setting, stated_setting
from krisis.data.ckd.progression import DRUG_FALL, MAX_VISITS
from krisis.data.ckd.schema import CONTEXT, CREATININE, FEATURES


class Asking(Protocol):
    """What a question needs to know of the suite that asks it."""

    @property
    def rule(self) -> DeferralRule:
        """Return when a case is to be deferred."""

    @property
    def data_path(self) -> Path | None:
        """Return the file of real patients, whose usual level nobody knows."""

    @property
    def split_stage_3(self) -> bool:
        """Say whether stage 3 is asked for in two parts."""

    @property
    def equation_error(self) -> bool:
        """Say whether the measured rate is asked about."""


_STAGES: Mapping[Label, str] = {
    1: "of 90 or more",
    2: "of at least 60, below 90",
    3: "of at least 30, below 60",
    4: "of at least 15, below 30",
    5: "below 15",
}
_SPLIT_STAGES: Mapping[Label, str] = {
    "G1": "of 90 or more",
    "G2": "of at least 60, below 90",
    "G3a": "of at least 45, below 60",
    "G3b": "of at least 30, below 45",
    "G4": "of at least 15, below 30",
    "G5": "below 15",
}

_COURSES: Mapping[Label, str] = {
    "stable": "neither of the other two",
    "worsening": (
        "a drop into a lower eGFR category (limits 90, 60, 45, 30, 15) with a fall of at "
        "least 25 %, or over a year or more a fall of more than 5 mL/min/1.73 m² per year "
        "that amounts to at least 20 %; but where a RAS inhibitor or SGLT2 inhibitor was "
        "started after the first visit, a fall of less than "
        f"{percent(DRUG_FALL)} % (which goes with a rise in creatinine of up to 30 %) is "
        "its expected effect and no worsening"
    ),
    "improving": "a rise into a higher eGFR category with a rise of at least 25 %",
}
# Words instead of values, so that few groups are unique; the metadata keys are set in `records`.
_GROUPS: Mapping[str, str] = {"stage": "ckd_stage", "sex": "sex", "age_band": "age_band"}
_LASTING = (
    "Take the findings shown as having been like this for at least three months, unless a shorter "
    "period is stated."
)
_COURSE_AGAIN = (
    "What course has this patient's usual eGFR taken between the first and the last visit? {} The "
    "patient's age is given for the last visit. Unless the start of a RAS inhibitor or SGLT2 "
    "inhibitor is stated, assume that there was none. No guideline defines 'improving' or the band "
    "of 12.5 to 20 %; this evaluation does."
)
_LASTING_AGAIN = (
    "Unless a shorter period is stated, assume that the findings have been so for three months or "
    "more."
)
_CANNOT_BE_RIGHT = (
    "a shown value lies outside its possible range; or two contradict each other (packed cell "
    "volume in % not two to four times the haemoglobin in g/dL; creatinine of 4 mg/dL or more with "
    "urea below 20 mg/dL, or of 1.2 mg/dL or less with urea of 120 mg/dL or more)"
)
_WRONG = "your best answer is wrong"
_NOT_FOR_ADULTS_OR_SHORT = "the patient is under 18, or was observed for less than 90 days"


def _descriptions() -> dict[str, FeatureDescription]:
    return {name: f.description() for name, f in (*CONTEXT.items(), *FEATURES.items())}


def _level(asking: Asking) -> str:
    """Name the target: the rate that creatinine estimates, or the measured one."""
    return "measured filtration rate" if asking.equation_error else "usual eGFR"


def _abstain(asking: Asking, rules: str, *, near: str = "", error: str = _WRONG) -> str:
    """Say when to abstain: by the price and the ``rules``, or by the margin around a limit."""
    if asking.rule.kind == "margin":
        return f"Abstain when {near or _near(asking)}."
    price = f"{(Decimal(str(asking.rule.risk)) * 100).normalize():f}"  # every digit, no exponent
    return (
        f"Abstaining costs {price} % of what a wrong answer costs. So abstain when the chance that "
        f"{error} is {price} % or more. Abstain as well when the rules leave the question "
        f"undecided: {rules}."
    )


def _near(asking: Asking, limits: str = "15, 30, 45, 60 or 90") -> str:
    return (
        "the eGFR by the shown creatinine (CKD-EPI 2021; for either sex, where sex is not shown) "
        f"lies within {asking.rule.margin_ml_min:g} mL/min/1.73 m² of {limits}"
    )


def _scored_stage(asking: Asking) -> str:
    """Say whose stage is the right answer; that of a file is no usual level, and is called so."""
    if asking.data_path is not None:
        return (
            "The usual level of these patients is not known, so the answer is scored against the "
            "stage of the CKD-EPI 2021 estimate from the creatinine shown (where sex is not "
            "stated, of the more probable of both estimates), and the case is to be deferred where "
            "the usual level may well lie in another stage, as stated below."
        )
    if asking.equation_error:
        return (
            "The right answer is the stage of the rate that was measured, not that of the estimate "
            "from the creatinine shown."
        )
    return (
        "The right answer is the stage of the patient's own steady level, not that of the single "
        "creatinine shown."
    )


_DETECTION_ALIASES: Mapping[str, Label] = {
    **dict.fromkeys(("ckd", "present", "yes", "ckd present"), CKD_PRESENT),
    **dict.fromkeys(("notckd", "not ckd", "no ckd", "absent", "no", "ckd absent"), CKD_ABSENT),
}


def detection(asking: Asking) -> Task:
    """Ask whether chronic kidney disease is present."""
    level = _level(asking)
    recorded = "The answer is scored against the diagnosis that the hospital recorded. "
    scored = "" if asking.data_path is None else recorded
    return Task(
        name=Task.DETECTION,
        question=(
            "Does this patient have chronic kidney disease? It is present when, for at least three "
            f"months, the {level} lies below 60 mL/min/1.73 m² or the albumin-creatinine ratio "
            f"(ACR) is 30 mg/g or more. {scored}{_LASTING}"
        ),
        paraphrase=(
            f"Is chronic kidney disease present in this patient? Call it present if the {level} "
            "has been below 60 mL/min/1.73 m², or the albumin-creatinine ratio (ACR) 30 mg/g or "
            f"more, for three months or longer. {scored}{_LASTING_AGAIN}"
        ),
        answers={
            CKD_PRESENT: "chronic kidney disease is present",
            CKD_ABSENT: "chronic kidney disease is absent",
        },
        features=_descriptions(),
        setting=stated_setting(equation_error=asking.equation_error),
        abstain_when=_abstain(
            asking,
            "unless the dipstick shows grade 3 or more, creatinine or age is not shown or not "
            "possible, or sex is not shown and the eGFR by the shown creatinine is below 60 for "
            "one sex only, or no dipstick grade is shown and this eGFR is 60 or more (for "
            f"either sex, where sex is not shown); {_NOT_FOR_ADULTS_OR_SHORT}; {_CANNOT_BE_RIGHT}",
            near=f"{_near(asking, '60')}; cases whose true answer contradicts this eGFR count as "
            "cases to defer too",
        ),
        aliases=_DETECTION_ALIASES,
        positive=CKD_PRESENT,
        groups=_GROUPS,
        costs=detection_costs(asking.rule),
    )


def staging(asking: Asking) -> Task:
    """Ask for the stage of the usual eGFR, with stage 3 in two parts where wanted."""
    answers = _SPLIT_STAGES if asking.split_stage_3 else _STAGES
    level = _level(asking)
    return Task(
        name=Task.STAGING,
        question=(
            f"In which stage does this patient's {level} lie, in mL/min/1.73 m², whether or not "
            f"kidney disease is present? {_scored_stage(asking)} {_LASTING}"
        ),
        paraphrase=(
            f"Name the stage that this patient's {level} (in mL/min/1.73 m²) falls into, be there "
            f"kidney disease or not. {_scored_stage(asking)} {_LASTING_AGAIN}"
        ),
        answers={answer: f"{level} {words}" for answer, words in answers.items()},
        features=_descriptions(),
        setting=stated_setting(equation_error=asking.equation_error),
        abstain_when=_abstain(
            asking,
            "creatinine or age is not shown or not possible; sex is not shown and the eGFR by the "
            "shown creatinine has another stage for women than for men; "
            f"{_NOT_FOR_ADULTS_OR_SHORT}; {_CANNOT_BE_RIGHT}",
            error="the usual eGFR lies in another stage than your best answer"
            if asking.data_path
            else _WRONG,
        ),
        aliases=_stage_aliases(answers),
        ordered=True,
        positive="G5" if asking.split_stage_3 else 5,
        groups=_GROUPS,
        costs=step_costs(asking.rule, answers, "stage"),
    )


def _stage_aliases(answers: Mapping[Label, str]) -> dict[str, Label]:
    aliases: dict[str, Label] = {}
    for answer in answers:
        bare = str(answer).lower().removeprefix("g")
        for form in (bare, f"g{bare}", f"stage {bare}", f"stage g{bare}", f"ckd stage {bare}"):
            aliases[form] = answer
    if 3 in answers:
        for part in ("3a", "3b"):
            aliases |= {part: 3, f"g{part}": 3, f"stage {part}": 3, f"stage g{part}": 3}
    return aliases


def albuminuria(asking: Asking) -> Task:
    """Ask for the category of the albumin-creatinine ratio."""
    answers: Mapping[Label, str] = {
        "A1": "ACR below 30 mg/g: normal to mildly increased",
        "A2": "ACR of 30 to 300 mg/g: moderately increased",
        "A3": "ACR above 300 mg/g: severely increased",
    }
    return Task(
        name=Task.ALBUMINURIA,
        question=(
            "In which category does this patient's usual albumin-creatinine ratio (ACR) lie? It "
            "was measured in the laboratory and is not shown; the dipstick reads it with error."
        ),
        paraphrase=(
            "Name the category that this patient's usual albumin-creatinine ratio (ACR) falls "
            "into. You are not shown the laboratory's measurement of it, only the dipstick, whose "
            "readings have an error."
        ),
        answers=answers,
        features=_descriptions(),
        setting=stated_setting(equation_error=asking.equation_error),
        abstain_when=_abstain(asking, f"no dipstick grade is shown; {_CANNOT_BE_RIGHT}"),
        aliases={"1": "A1", "2": "A2", "3": "A3"},
        ordered=True,
        positive="A3",
        groups=_GROUPS,
        costs=step_costs(asking.rule, answers, "category"),
    )


def _risk_again(level: str, counted: str) -> str:
    return (
        f"Which risk does the KDIGO map of {level} and albumin-creatinine ratio (ACR in mg/g) give "
        "this patient? In the order of an ACR below 30, of 30 to 300 and above 300, the map says: "
        f"low, moderate, high for a {level} of 60 or more; moderate, high, very high for 45-59; "
        "high, very high, very high for 30-44; and very high throughout below 30. What counts is "
        f"{counted[0].lower()}{counted[1:]} with the true ACR, and not one reading of them. "
        f"{_LASTING_AGAIN}"
    )


def risk(asking: Asking) -> Task:
    """Ask for the risk by category and albuminuria, the KDIGO heat map."""
    level = _level(asking)
    counted = "The measured rate" if asking.equation_error else "The patient's own steady level"
    return Task(
        name=Task.RISK,
        question=(
            f"What is this patient's risk by the KDIGO map of {level} and albumin-creatinine ratio "
            f"(ACR in mg/g)? With an ACR below 30, 30 to 300, and above 300 it is: {level} of 60 "
            "or more: low, moderate, high; of 45-59: moderate, high, very high; of 30-44: high, "
            "very high, very high; below 30: very high at any ACR. "
            f"{counted} and the true ACR count, not the single readings shown. {_LASTING}"
        ),
        paraphrase=_risk_again(level, counted),
        answers={
            "low": "low risk",
            "moderate": "moderately increased risk",
            "high": "high risk",
            "very high": "very high risk",
        },
        features=_descriptions(),
        setting=stated_setting(equation_error=asking.equation_error),
        abstain_when=_abstain(
            asking,
            "creatinine or age is not shown or not possible; sex is not shown and the eGFR by the "
            "shown creatinine falls into another row of the map for women than for men; no "
            "dipstick grade is shown and this eGFR is 30 or more (for either sex, where sex is "
            f"not shown); {_NOT_FOR_ADULTS_OR_SHORT}; {_CANNOT_BE_RIGHT}",
        ),
        aliases={
            "very_high": "very high",
            "veryhigh": "very high",
            "moderately increased": "moderate",
        },
        ordered=True,
        positive=RISKS[-1],
        groups=_GROUPS,
        costs=step_costs(asking.rule, RISKS, "step of the map"),
    )


def _scored_course(asking: Asking) -> str:
    if asking.data_path is None:
        return (
            "Judge the true course behind the shown estimates (CKD-EPI 2021), which scatter around "
            "it."
        )
    return (
        "The usual level of these patients is not known, so the answer is scored against the shown "
        "estimates (CKD-EPI 2021), and the case is to be deferred where the true course behind "
        "them, around which they scatter, may well have another answer, as stated below."
    )


def progression(asking: Asking) -> Task:
    """Ask how the usual eGFR developed over the visits."""
    return Task(
        name=Task.PROGRESSION,
        question=(
            "How has this patient's usual eGFR developed from the first visit to the last? "
            f"{_scored_course(asking)} The age is that at the last visit. Where it is not stated "
            "whether a RAS inhibitor or SGLT2 inhibitor was started, take none as started. "
            "'Improving' and the band of 12.5 to 20 % are terms of this evaluation, not of a "
            "guideline."
        ),
        paraphrase=_COURSE_AGAIN.format(_scored_course(asking)),
        answers=_COURSES,
        features=_descriptions() | _visit_descriptions(),
        setting=stated_course_setting(),
        abstain_when=_abstain(
            asking,
            "there is no estimate at the first or at the last visit; less than 90 days lie between "
            "them; from the first to the last the shown estimate changed by at least 12.5 % and "
            f"less than 20 %; the patient is under 18; {_CANNOT_BE_RIGHT}",
            near="from the first to the last visit the shown estimate changed by at least 12.5 % "
            "and less than 20 %, or fewer than two estimates are shown",
            error="the true course has another answer than your best one"
            if asking.data_path
            else _WRONG,
        ),
        aliases={
            "unchanged": "stable",
            "worse": "worsening",
            "declining": "worsening",
            "progressing": "worsening",
            "better": "improving",
            "improved": "improving",
        },
        positive="worsening",
        groups=_GROUPS,
        costs=course_costs(asking.rule),
    )


def _visit_descriptions() -> dict[str, FeatureDescription]:
    words: dict[str, FeatureDescription] = {}
    for k in range(1, MAX_VISITS + 1):
        words[f"visit_{k}_day"] = FeatureDescription(f"Visit {k}, day", "days since visit 1")
        possible = FEATURES["sc"].description().meaning
        words[f"visit_{k}_sc"] = FeatureDescription(
            f"Visit {k}, creatinine", "mg/dL", possible, second_unit=CREATININE
        )
        words[f"visit_{k}_egfr"] = FeatureDescription(f"Visit {k}, eGFR", "mL/min/1.73 m²")
    return words
