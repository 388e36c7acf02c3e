"""What is asked about a kidney patient, in words: question, answers, stated facts, when to abstain.

Whatever a deferral label uses is said here, with the figures of `setting` and the price in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from krisis.data.base import FeatureDescription, Label, Task
from krisis.data.ckd import setting
from krisis.data.ckd.assessment import CKD_ABSENT, CKD_PRESENT, RISKS
from krisis.data.ckd.posterior import prior
from krisis.data.ckd.progression import DRUG_FALL, MAX_VISITS
from krisis.data.ckd.schema import CONTEXT, FEATURES


class Asking(Protocol):
    """What a question needs to know of the suite that asks it."""

    @property
    def risk(self) -> float:
        """Return the price of deferring, as a share of the price of a wrong answer."""

    @property
    def split_stage_3(self) -> bool:
        """Say whether stage 3 is asked for in two parts."""

    @property
    def equation_error(self) -> bool:
        """Say whether the measured rate is asked about."""


_STAGES: Mapping[Label, str] = {
    1: "90 or more",
    2: "at least 60, below 90",
    3: "at least 30, below 60",
    4: "at least 15, below 30",
    5: "below 15",
}
_SPLIT_STAGES: Mapping[Label, str] = {
    "G1": "90 or more",
    "G2": "at least 60, below 90",
    "G3a": "at least 45, below 60",
    "G3b": "at least 30, below 45",
    "G4": "at least 15, below 30",
    "G5": "below 15",
}
_CATEGORY_COLUMNS = ("below 15", "15-29", "30-44", "45-59", "60-89", "90 or more")

# Words instead of values, so that few groups are unique; the metadata keys are set in `records`.
_GROUPS: Mapping[str, str] = {"stage": "ckd_stage", "sex": "sex", "age_band": "age_band"}
_LASTING = (
    "Take the findings shown as having been like this for at least three months, unless a shorter "
    "period is stated."
)
_CANNOT_BE_RIGHT = (
    "a shown value lies outside its possible range; or two contradict each other (packed cell "
    "volume not two to four times the haemoglobin; creatinine of 4 or more with urea below 20, or "
    "of 1.2 or less with urea of 120 or more)"
)
_NOT_FOR_ADULTS_OR_SHORT = "the patient is under 18, or was observed for less than 90 days"


def _descriptions() -> dict[str, FeatureDescription]:
    return {name: f.description() for name, f in (*CONTEXT.items(), *FEATURES.items())}


def _percent(share: float) -> str:
    return f"{100 * share:.3g}"


def _row(name: str, shares: Iterable[float]) -> str:
    return " | ".join([name, *map(_percent, shares)])


def _table(columns: Iterable[str], rows: Iterable[tuple[str, Iterable[float]]]) -> list[str]:
    return ["  " + " | ".join(columns), *("  " + _row(name, shares) for name, shares in rows)]


def _level(asking: Asking) -> str:
    """Name the target: the rate that creatinine estimates, or the measured one."""
    return "measured filtration rate" if asking.equation_error else "usual eGFR"


def _who() -> list[str]:
    return [
        "Take these figures as given for the patients of this evaluation.",
        (
            f"- Adults of {setting.AGES[0]} to {setting.AGES[-1]} years, normally distributed "
            f"around {setting.AGE_MEAN} with a standard deviation of {setting.AGE_SD}; "
            f"{_percent(setting.FEMALE_PROBABILITY)} % are women and "
            f"{_percent(setting.DIABETES_PROBABILITY)} % have known diabetes."
        ),
    ]


def _shares(when: str = "") -> list[str]:
    rows = [("no", setting.CATEGORY_SHARES[0]), ("yes", setting.CATEGORY_SHARES[1])]
    low, high = setting.EGFR_RANGE
    return [
        f"- Usual eGFR{when}: percentage of patients with it, by known diabetes.",
        *_table(("known diabetes", *_CATEGORY_COLUMNS), rows),
        (
            f"  Inside a range all levels are equally likely on the logarithmic scale; the lowest "
            f"is {low:g}, the highest {high:g}. Age, sex and hypertension do not change this."
        ),
    ]


def _creatinine(*, courses: bool) -> list[str]:
    low, high = setting.ACUTE_FACTORS
    chance = _percent(setting.ACUTE_PROBABILITY)
    who = "of courses shorter than 90 days" if courses else "of patients observed less than 90 days"
    when = " at the last visit" if courses else ""
    return [
        (
            "- The usual eGFR is that of the patient's own steady creatinine (CKD-EPI 2021). One "
            "creatinine scatters around the steady level by 5.0 % within the person and 1.1 % in "
            "the laboratory (log-normal), and is printed to 0.1 mg/dL."
        ),
        (
            f"- In {chance} % {who}, acute kidney injury has raised creatinine{when} to {low:g} to "
            f"{high:g} times the steady level (all factors equally likely on the logarithmic "
            "scale); it recovers and leaves the usual eGFR as it was. In the others, none has."
        ),
    ]


def _albuminuria() -> list[str]:
    groups = (("60 or more", 5), ("30-59", 3), ("below 30", 0))
    rows = [
        (f"{words}, {known}", setting.ALBUMINURIA_SHARES[diabetes, category])
        for words, category in groups
        for diabetes, known in enumerate(("no", "yes"))
    ]
    names = ("below 30", "30 to 300", "above 300")
    dipstick = [(name, setting.DIPSTICK[index]) for index, name in enumerate(names)]
    return [
        (
            "- Albumin-creatinine ratio (ACR) in mg/g: percentage of patients with it, by usual "
            "eGFR and known diabetes."
        ),
        *_table(("usual eGFR, known diabetes", *names), rows),
        "- Dipstick: percentage of readings of each grade, by ACR.",
        *_table(("ACR", *(f"grade {grade}" for grade in range(6))), dipstick),
    ]


def _closing(*, courses: bool = False) -> list[str]:
    given = "the visits" if courses else "creatinine, dipstick, age, sex and diabetes"
    return [
        (
            f"- Where a shown value is impossible or two contradict each other, the record is "
            f"another patient's in {_percent(setting.MIXED_UP_PROBABILITY)} % of cases; what it "
            "shows then says nothing about the patient asked about."
        ),
        f"- Given {given}, the other findings say nothing more about the answer.",
    ]


def _setting(asking: Asking) -> str:
    lines = [*_who(), *_shares(), *_albuminuria(), *_creatinine(courses=False)]
    if asking.equation_error:
        lines.append(
            f"- The measured filtration rate scatters around the usual eGFR by "
            f"{_percent(setting.EQUATION_SD)} % (log-normal): the estimate lies within 30 % of it "
            "in 87 % of people."
        )
    prevalence = float(prior(asking.equation_error)[setting.IS_CKD].sum())
    lines.append(f"- It follows that {_percent(prevalence)} % have chronic kidney disease.")
    return "\n".join([*lines, *_closing()])


def _course_setting() -> str:
    bands = ", ".join(
        f"from {100 * low:+.3g} to {100 * high:+.3g} % in {_percent(share)} %"
        for low, high, share in setting.CHANGE_BANDS
    )
    low, high = setting.EGFR_RANGE
    return "\n".join(
        [
            *_who(),
            *_shares(" at the first visit"),
            (
                f"- Change of the usual eGFR from the first visit to the last: {bands} of "
                "patients. Inside a range all changes are equally likely on the logarithmic "
                f"scale; changes to below {low:g} or above {high:g} do not occur. Between the "
                "visits the logarithm changes evenly with time."
            ),
            *_creatinine(courses=True),
            *_closing(courses=True),
        ]
    )


def _abstain(asking: Asking, rules: str) -> str:
    price = _percent(asking.risk)
    return (
        f"Abstaining costs {price} % of what a wrong answer costs. So abstain when the chance that "
        f"your best answer is wrong is {price} % or more. Abstain as well when the rules leave the "
        f"question undecided: {rules}."
    )


def detection(asking: Asking) -> Task:
    """Ask whether chronic kidney disease is present."""
    level = _level(asking)
    return Task(
        name=Task.DETECTION,
        question=(
            "Does this patient have chronic kidney disease? It is present when, for at least three "
            f"months, the {level} lies below 60 mL/min/1.73 m² or the albumin-creatinine ratio "
            f"(ACR) is 30 mg/g or more. {_LASTING}"
        ),
        answers={
            CKD_PRESENT: "chronic kidney disease is present",
            CKD_ABSENT: "chronic kidney disease is absent",
        },
        features=_descriptions(),
        setting=_setting(asking),
        abstain_when=_abstain(
            asking,
            "unless the dipstick shows grade 3 or more, creatinine or age is not shown or not "
            "possible, or sex is not shown and the eGFR by the shown creatinine is below 60 for "
            "one sex only, or the dipstick was not measured and this eGFR is 60 or more (for "
            f"either sex, where sex is not shown); {_NOT_FOR_ADULTS_OR_SHORT}; {_CANNOT_BE_RIGHT}",
        ),
        aliases={
            **dict.fromkeys(("ckd", "present", "yes", "ckd present"), CKD_PRESENT),
            **dict.fromkeys(
                ("notckd", "not ckd", "no ckd", "absent", "no", "ckd absent"), CKD_ABSENT
            ),
        },
        positive=CKD_PRESENT,
        groups=_GROUPS,
    )


def staging(asking: Asking) -> Task:
    """Ask for the stage of the usual eGFR, with stage 3 in two parts where wanted."""
    answers = _SPLIT_STAGES if asking.split_stage_3 else _STAGES
    level = _level(asking)
    return Task(
        name=Task.STAGING,
        question=(
            f"In which stage does this patient's {level} lie, in mL/min/1.73 m², whether or not "
            "kidney disease is present? The right answer is the stage of the patient's own steady "
            f"level, not that of the single creatinine shown. {_LASTING}"
        ),
        answers={answer: f"{level} of {words}" for answer, words in answers.items()},
        features=_descriptions(),
        setting=_setting(asking),
        abstain_when=_abstain(
            asking,
            "creatinine or age is not shown or not possible; sex is not shown and the eGFR by the "
            "shown creatinine has another stage for women than for men; "
            f"{_NOT_FOR_ADULTS_OR_SHORT}; {_CANNOT_BE_RIGHT}",
        ),
        aliases=_stage_aliases(answers),
        ordered=True,
        positive="G5" if asking.split_stage_3 else 5,
        groups=_GROUPS,
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
    return Task(
        name=Task.ALBUMINURIA,
        question=(
            "In which category does this patient's usual albumin-creatinine ratio (ACR) lie? It "
            "was measured in the laboratory and is not shown; the dipstick reads it with error."
        ),
        answers={
            "A1": "ACR below 30 mg/g: normal to mildly increased",
            "A2": "ACR of 30 to 300 mg/g: moderately increased",
            "A3": "ACR above 300 mg/g: severely increased",
        },
        features=_descriptions(),
        setting=_setting(asking),
        abstain_when=_abstain(asking, f"the dipstick was not measured; {_CANNOT_BE_RIGHT}"),
        aliases={"1": "A1", "2": "A2", "3": "A3"},
        ordered=True,
        positive="A3",
        groups=_GROUPS,
    )


def risk(asking: Asking) -> Task:
    """Ask for the risk by category and albuminuria, the KDIGO heat map."""
    level = _level(asking)
    return Task(
        name=Task.RISK,
        question=(
            f"What is this patient's risk by the KDIGO map of {level} and albumin-creatinine ratio "
            f"(ACR in mg/g)? With an ACR below 30, 30 to 300, and above 300 it is: {level} of 60 "
            "or more: low, moderate, high; of 45-59: moderate, high, very high; of 30-44: high, "
            "very high, very high; below 30: very high at any ACR. The patient's own steady level "
            f"and true ACR count, not the single readings shown. {_LASTING}"
        ),
        answers={
            "low": "low risk",
            "moderate": "moderately increased risk",
            "high": "high risk",
            "very high": "very high risk",
        },
        features=_descriptions(),
        setting=_setting(asking),
        abstain_when=_abstain(
            asking,
            "creatinine or age is not shown or not possible; sex is not shown and the eGFR by the "
            "shown creatinine falls into another row of the map for women than for men; the "
            "dipstick was not measured and this eGFR is 30 or more (for either sex, where sex is "
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
    )


def progression(asking: Asking) -> Task:
    """Ask how the usual eGFR developed over the visits."""
    return Task(
        name=Task.PROGRESSION,
        question=(
            "How has this patient's usual eGFR developed from the first visit to the last? Judge "
            "the true course behind the shown estimates (CKD-EPI 2021), which scatter around it. "
            "The age is that at the last visit. 'Improving' and the band of 12.5 to 20 % are "
            "terms of this evaluation, not of a guideline."
        ),
        answers={
            "stable": "neither of the other two",
            "worsening": (
                "a drop into a lower eGFR category (limits 90, 60, 45, 30, 15) with a fall of at "
                "least 25 %, or over a year or more a fall of more than 5 mL/min/1.73 m² per year "
                "that amounts to at least 20 %; but where a RAS inhibitor or SGLT2 inhibitor was "
                "started after the first visit, a fall of less than "
                f"{_percent(DRUG_FALL)} % (which goes with a rise in creatinine of up to 30 %) is "
                "its expected effect and no worsening"
            ),
            "improving": "a rise into a higher eGFR category with a rise of at least 25 %",
        },
        features=_descriptions() | _visit_descriptions(),
        setting=_course_setting(),
        abstain_when=_abstain(
            asking,
            "there is no estimate at the first or at the last visit; less than 90 days lie between "
            "them; from the first to the last the shown estimate changed by at least 12.5 % and "
            f"less than 20 %; the patient is under 18; {_CANNOT_BE_RIGHT}",
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
    )


def _visit_descriptions() -> dict[str, FeatureDescription]:
    words: dict[str, FeatureDescription] = {}
    for k in range(1, MAX_VISITS + 1):
        words[f"visit_{k}_day"] = FeatureDescription(f"Visit {k}, day", "days since visit 1")
        possible = FEATURES["sc"].description().meaning
        words[f"visit_{k}_sc"] = FeatureDescription(f"Visit {k}, creatinine", "mg/dL", possible)
        words[f"visit_{k}_egfr"] = FeatureDescription(f"Visit {k}, eGFR", "mL/min/1.73 m²")
    return words
