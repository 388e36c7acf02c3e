"""The facts of `setting` in words: what every prompt states as known beforehand."""

from __future__ import annotations

from collections.abc import Iterable

from krisis.data.ckd import setting
from krisis.data.ckd.posterior import prior

_CATEGORY_COLUMNS = ("below 15", "15-29", "30-44", "45-59", "60-89", "90 or more")


def percent(share: float) -> str:
    """Write a share as a percentage of three digits."""
    return f"{100 * share:.3g}"


def _row(name: str, shares: Iterable[float]) -> str:
    return " | ".join([name, *map(percent, shares)])


def _table(columns: Iterable[str], rows: Iterable[tuple[str, Iterable[float]]]) -> list[str]:
    return ["  " + " | ".join(columns), *("  " + _row(name, shares) for name, shares in rows)]


def _who() -> list[str]:
    return [
        "Take these figures as given for the patients of this evaluation.",
        (
            f"- Adults of {setting.AGES[0]} to {setting.AGES[-1]} years, normally distributed "
            f"around {setting.AGE_MEAN} with a standard deviation of {setting.AGE_SD}; "
            f"{percent(setting.FEMALE_PROBABILITY)} % are women and "
            f"{percent(setting.DIABETES_PROBABILITY)} % have known diabetes."
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
    chance = percent(setting.ACUTE_PROBABILITY)
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
            f"another patient's in {percent(setting.MIXED_UP_PROBABILITY)} % of cases; what it "
            "shows then says nothing about the patient asked about."
        ),
        f"- Given {given}, the other findings say nothing more about the answer.",
    ]


def stated_setting(*, equation_error: bool) -> str:
    """Return what is known beforehand of a patient with one visit."""
    lines = [*_who(), *_shares(), *_albuminuria(), *_creatinine(courses=False)]
    if equation_error:
        lines.append(
            f"- The measured filtration rate scatters around the usual eGFR by "
            f"{percent(setting.EQUATION_SD)} % (log-normal): the estimate lies within 30 % of it "
            "in 87 % of people."
        )
    prevalence = float(prior(equation_error)[setting.IS_CKD].sum())
    lines.append(f"- It follows that {percent(prevalence)} % have chronic kidney disease.")
    return "\n".join([*lines, *_closing()])


def stated_course_setting() -> str:
    """Return what is known beforehand of a course over several visits."""
    bands = ", ".join(
        f"from {100 * low:+.3g} to {100 * high:+.3g} % in {percent(share)} %"
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
