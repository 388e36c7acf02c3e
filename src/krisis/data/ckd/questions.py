"""What is asked about a kidney patient, in words: the question, its answers, when to abstain."""

from __future__ import annotations

from collections.abc import Mapping

from krisis.data.base import FeatureDescription, Label, Task
from krisis.data.ckd.progression import MAX_VISITS
from krisis.data.ckd.schema import CONTEXT, FEATURES

_STAGES: Mapping[Label, str] = {
    1: "GFR of 90 or more",
    2: "GFR of at least 60, below 90",
    3: "GFR of at least 30, below 60",
    4: "GFR of at least 15, below 30",
    5: "GFR below 15",
}
_SPLIT_STAGES: Mapping[Label, str] = {
    "G1": "GFR of 90 or more",
    "G2": "GFR of at least 60, below 90",
    "G3a": "GFR of at least 45, below 60",
    "G3b": "GFR of at least 30, below 45",
    "G4": "GFR of at least 15, below 30",
    "G5": "GFR below 15",
}


# Words instead of values, so that few groups are unique; the metadata keys are set in `records`.
_GROUPS: Mapping[str, str] = {"stage": "ckd_stage", "sex": "sex", "age_band": "age_band"}


def _descriptions() -> dict[str, FeatureDescription]:
    return {name: f.description() for name, f in (*CONTEXT.items(), *FEATURES.items())}


def detection() -> Task:
    """Ask whether chronic kidney disease is present."""
    return Task(
        name=Task.DETECTION,
        question=(
            "Does this patient have chronic kidney disease? It is present when, for at least three "
            "months, the glomerular filtration rate (GFR) lies below 60 mL/min/1.73 m² or there "
            "is a marker of kidney damage such as an albumin-creatinine ratio of 30 mg/g or more. "
            "Take the findings shown as having been like this for at least three months, unless "
            "a shorter period is stated."
        ),
        answers={0: "chronic kidney disease is present", 1: "chronic kidney disease is absent"},
        features=_descriptions(),
        abstain_when=(
            "Abstain when the findings shown do not settle the question: a value that the answer "
            "hangs on was not measured or cannot be right, findings contradict each other, the "
            "patient is under 18, or the GFR lies so close to 60 that another sample could well "
            "change the answer (a chance of one in five or more)."
        ),
        aliases={
            **dict.fromkeys(("ckd", "present", "yes", "ckd present"), 0),
            **dict.fromkeys(("notckd", "not ckd", "no ckd", "absent", "no", "ckd absent"), 1),
        },
        positive=0,
        groups=_GROUPS,
    )


def staging(*, split_stage_3: bool) -> Task:
    """Ask for the stage of the filtration rate, with stage 3 in two parts where wanted."""
    answers = _SPLIT_STAGES if split_stage_3 else _STAGES
    return Task(
        name=Task.STAGING,
        question=(
            "In which stage does this patient's usual glomerular filtration rate (GFR) lie, in "
            "mL/min/1.73 m², whether or not kidney disease is present? Estimate it from serum "
            "creatinine, age and sex by the CKD-EPI 2021 equation; the right answer is the stage "
            "of the patient's own steady level, around which a single creatinine varies by about "
            "5 %. Take the findings as having been like this for at least three months, unless a "
            "shorter period is stated."
        ),
        answers=answers,
        features=_descriptions(),
        abstain_when=(
            "Abstain when the stage is not settled: creatinine, age, or a sex that decides the "
            "stage is not shown, a value cannot be right, findings contradict each other, the "
            "patient is under 18 or was observed for less than 90 days, or the GFR lies so close "
            "to a limit that another sample could well change the stage (one in five or more)."
        ),
        aliases=_stage_aliases(answers),
        ordered=True,
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


def progression() -> Task:
    """Ask how the filtration rate developed over the visits."""
    return Task(
        name=Task.PROGRESSION,
        question=(
            "How has this patient's kidney function developed from the first visit to the last? "
            "Judge the true course behind the shown estimates of the glomerular filtration rate "
            "(eGFR, CKD-EPI 2021): a single estimate varies by about 6 % around it. "
            "The age is that at the last visit."
        ),
        answers={
            "stable": "neither of the other two",
            "worsening": (
                "a drop into a lower GFR category (limits 90, 60, 45, 30, 15) with a fall of at "
                "least 25 %, or over a year or more a fall of more than 5 mL/min/1.73 m² per year "
                "that amounts to at least 20 %"
            ),
            "improving": "a rise into a higher GFR category with a rise of at least 25 %",
        },
        features=_descriptions() | _visit_descriptions(),
        abstain_when=(
            "Abstain when the course is not settled: no estimate at the first or last visit, less "
            "than 90 days between them, a change of 12.5 to 20 % (more than steadiness, less than "
            "progression), a value that cannot be right, or figures so close to a limit of the "
            "definition that the answer has a chance of one in five or more of being wrong."
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
        words[f"visit_{k}_sc"] = FeatureDescription(f"Visit {k}, serum creatinine", "mg/dL")
        words[f"visit_{k}_egfr"] = FeatureDescription(f"Visit {k}, eGFR", "mL/min/1.73 m²")
    return words
