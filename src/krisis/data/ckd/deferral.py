"""What leaves a question undecided: the checklist of rules, and the three flags of the seeds.

Neither reads anything but what the model is shown, except that ``label_conflicts_with_stage``
compares the estimate with the recorded diagnosis. Sources are in docs/reference/suites/ckd.md,
and every rule in words in ``questions.toml``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from krisis.data.base import Features, Task
from krisis.data.ckd.cohort_model import CHRONIC_DAYS
from krisis.data.ckd.courses import shown_visits
from krisis.data.ckd.egfr import (
    ADULT_AGE_YEARS,
    CATEGORY_LIMITS,
    category_index,
    ckd_epi_2021,
    stage,
)
from krisis.data.ckd.schema import in_other_unit, is_implausible, usable
from krisis.errors import InvalidValue

_NEEDS: Mapping[str, tuple[str, ...]] = {
    Task.DETECTION: ("creatinine", "albuminuria", "chronicity"),
    Task.STAGING: ("creatinine", "chronicity"),
    Task.ALBUMINURIA: ("albuminuria",),
    Task.RISK: ("creatinine", "albuminuria", "chronicity"),
}
# Between the stages 1 to 5; below 60 (stage 3) an estimate alone means disease.
STAGE_LIMITS = (15.0, 30.0, 60.0, 90.0)
CHRONIC_LIMIT = 60.0
# A course is ambiguous where the shown change is near the limit of 20 %.
AMBIGUOUS_CHANGE = (0.15, 0.25)


@dataclass(frozen=True, slots=True)
class Deferral:
    """When the seeds flag a case as one to defer.

    ``margin_ml_min`` is the distance to a limit of staging within which they do.
    """

    margin_ml_min: float = 3.0

    def __post_init__(self) -> None:
        value = self.margin_ml_min
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidValue(f"margin_ml_min of the deferral must be a number, not {value!r}")
        if not self.margin_ml_min >= 0.0:
            raise InvalidValue(f"margin_ml_min must be 0 or more, not {self.margin_ml_min!r}")


def broken_rules(features: Features, task: str) -> list[str]:
    """Return the rules by which a shown case is not decidable."""
    found = [
        "implausible_value"
        for name, value in features.items()
        if is_implausible(name, value) and not in_other_unit(name, value)
    ][:1]
    age = usable(features, "age")
    if age is None or age < ADULT_AGE_YEARS:
        found.append("age_missing" if age is None else "age_below_18")
    if task == Task.PROGRESSION:
        estimates = [egfr for _, _, egfr in shown_visits(features) if egfr is not None]
        return [*found, *(["too_few_visits"] if len(estimates) < 2 else [])]
    return found + _missing(features, _NEEDS[task])


def _missing(features: Features, needs: Iterable[str]) -> list[str]:
    found = []
    estimates = shown_estimates(features)
    low = [rate < CATEGORY_LIMITS[3] for rate in estimates.values()]
    has_creatinine = any(
        usable(features, "sc") is not None or in_other_unit(name, value)
        for name, value in features.items()
        if name == "sc"
    )
    has_ratio = usable(features, "al") is not None or usable(features, "acr") is not None
    if "creatinine" in needs and not has_creatinine:
        found.append("creatinine_missing")
    if "albuminuria" in needs and not has_ratio and not (low and all(low)):
        found.append("albuminuria_missing")
    if "creatinine" in needs and len({int(category_index(r)) for r in estimates.values()}) > 1:
        found.append("sex_missing")
    days = usable(features, "days_observed")
    abnormal = any(low) or bool(usable(features, "al")) or bool(usable(features, "rbc"))
    if "chronicity" in needs and days is not None and days < CHRONIC_DAYS and abnormal:
        found.append("chronicity_not_shown")
    return found


def shown_estimates(features: Features) -> dict[str, float]:
    """Return the estimate by sex: of the sex that is shown, else of both; none without values."""
    creatinine, age, sex = (usable(features, name) for name in ("sc", "age", "sex"))
    if creatinine is None or age is None or age < ADULT_AGE_YEARS:
        return {}
    return {
        name: float(ckd_epi_2021(creatinine, age, female=female))
        for name, female in (("male", False), ("female", True))
        if sex is None or female == bool(sex)
    }


def shown_estimate(features: Features) -> float | None:
    """Return the one estimate of a case, both sexes averaged where none is shown."""
    rates = shown_estimates(features).values()
    return sum(rates) / len(rates) if rates else None


def seed_flags(
    features: Features,
    task: str,
    has_ckd: bool | None,
    margin_ml_min: float,
    *,
    split_stage_3: bool = False,
    sex_decides: bool = True,
) -> dict[str, bool]:
    """Return the three flags of the seeds; those that do not apply to a task are False.

    45 parts G3a from G3b and is a limit only where they are told apart. With ``sex_decides`` a
    case is near a threshold, too, where the sex that is not shown decides the stage.
    """
    near = conflict = ambiguous = False
    rate = shown_estimate(features)
    if task == Task.PROGRESSION:
        ambiguous = _is_ambiguous(features)
    elif rate is not None:
        limits = CATEGORY_LIMITS if split_stage_3 else STAGE_LIMITS
        near = any(abs(rate - limit) <= margin_ml_min for limit in limits)
        by_sex = {
            stage(one, split_stage_3=split_stage_3) for one in shown_estimates(features).values()
        }
        near = near or (sex_decides and len(by_sex) > 1)
        conflict = has_ckd is not None and (rate < CHRONIC_LIMIT) is not has_ckd
    return {
        "near_threshold": near,
        "label_conflicts_with_stage": conflict,
        "ambiguous_trajectory": ambiguous,
    }


def _is_ambiguous(features: Features) -> bool:
    estimates = [egfr for _, _, egfr in shown_visits(features) if egfr is not None]
    if len(estimates) < 2:
        return True
    change = round(abs(estimates[-1] / estimates[0] - 1), 9)
    return AMBIGUOUS_CHANGE[0] <= change < AMBIGUOUS_CHANGE[1]
