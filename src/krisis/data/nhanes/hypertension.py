"""The suite `hypertension`: the category of a third reading, from the two readings before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from krisis.data.base import (
    Features,
    FeatureValue,
    Judgement,
    Label,
    Rule,
    SuiteConfig,
    Task,
)
from krisis.data.nhanes.suite import SurveySuite
from krisis.data.nhanes.survey import N_READINGS, Person
from krisis.data.real_people import RealPeopleSuite
from krisis.errors import UnknownName
from krisis.json_values import JsonMapping, JsonObject

# Within-visit standard deviation of one reading (systolic, diastolic), over the adults of the
# survey with two readings or more: the root of the mean of their variances.
READING_SD_MMHG = (3.75, 3.49)
THIRD_READING = "third-reading"
_SIDES = ("systolic", "diastolic")

# Category k ends below these readings (systolic, diastolic), in mmHg.
Limits = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BloodPressureGuideline:
    """The categories of a guideline, lowest first."""

    name: str
    categories: tuple[str, ...]
    limits: Limits


GUIDELINES = {
    one.name: one
    for one in (
        # The categories of 2025 are those of 2017.
        BloodPressureGuideline(
            "ACC/AHA 2025",
            ("normal", "elevated", "stage 1", "stage 2"),
            ((120, 80), (130, 80), (140, 90)),
        ),
        BloodPressureGuideline(
            "ESC 2024", ("non-elevated", "elevated", "hypertension"), ((120, 70), (140, 90))
        ),
    )
}
DEFAULT_GUIDELINE = "ACC/AHA 2025"


def category_of(systolic: float, diastolic: float, limits: Limits) -> int:
    """Return the number of limits that either value reaches: the higher category counts.

    >>> category_of(118, 82, GUIDELINES["ACC/AHA 2025"].limits)
    2
    """
    return sum(systolic >= high or diastolic >= low for high, low in limits)


def chance_below(limit: float, value: float, sd: float) -> float:
    """Return the probability that a normal variable with this mean is below a limit."""
    return math.erfc((value - limit) / (sd * math.sqrt(2.0))) / 2.0


@dataclass(frozen=True, slots=True)
class TwoReadings:
    """Expects the third reading around the mean of the first two, with the scatter of one visit.

    The mean of two readings scatters by sd/√2 around the level of the visit and a third reading by
    sd, so the third scatters by sd·√1.5 around that mean.
    """

    guideline: BloodPressureGuideline
    risk: float = 0.20

    def chances(self, features: Features) -> list[float]:
        """Return the probability of every category."""
        means = [
            (_number(features[f"{side}_1"]) + _number(features[f"{side}_2"])) / 2 for side in _SIDES
        ]
        sds = [sd * math.sqrt(1.5) for sd in READING_SD_MMHG]
        # P(category <= k) is the chance that both numbers are below the limits of k.
        up_to = [
            chance_below(high, means[0], sds[0]) * chance_below(low, means[1], sds[1])
            for high, low in self.guideline.limits
        ]
        edges = [0.0, *up_to, 1.0]
        return [after - before for before, after in pairwise(edges)]

    def __call__(self, features: Features, context: str) -> Judgement:
        """Give the most probable category; abstain where it is wrong with the stated risk."""
        chances = self.chances(features)
        best = max(range(len(chances)), key=lambda k: chances[k])
        confidence = round(chances[best], 6)
        signals = {"confidence": confidence}
        if 1.0 - confidence >= self.risk:
            return Judgement(None, signals=signals, abstain=True)
        return Judgement(self.guideline.categories[best], confidence, signals)


def _number(value: FeatureValue) -> float:
    assert isinstance(value, int | float)
    return value


_SETTING = (
    "Adults examined once in a population survey; after five minutes of rest a trained examiner "
    "took three readings of blood pressure."
)


class HypertensionSuite(SurveySuite):
    """Blood pressure of real adults (NHANES): the third reading was taken and is not shown.

    ``guideline`` is ``ACC/AHA 2025`` (its categories are those of 2017) or ``ESC 2024``.
    """

    name = "hypertension"
    option_words: Mapping[str, str] = {
        **RealPeopleSuite.option_words,
        "guideline": "ACC/AHA 2025 (categories as in 2017) or ESC 2024",
    }
    baselines = (*RealPeopleSuite.baselines, "guideline")
    prices: Mapping[str, float] = MappingProxyType({THIRD_READING: 0.20})
    tasks: Mapping[str, Task | Callable[..., Task]] = MappingProxyType(
        {THIRD_READING: lambda suite: suite.third_reading_task()}
    )

    def __init__(
        self,
        config: SuiteConfig | None = None,
        *,
        guideline: str = DEFAULT_GUIDELINE,
        deferral: JsonMapping | None = None,
    ) -> None:
        known = {name.casefold(): one for name, one in GUIDELINES.items()}
        chosen = known.get(str(guideline).strip().casefold())
        if chosen is None:
            raise UnknownName.among("guideline", str(guideline), GUIDELINES)
        self.guideline = chosen
        super().__init__(config, deferral=deferral)

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the rule that expects what was read twice."""
        return {"guideline": TwoReadings(self.guideline, self.price)}

    def left_out(self, person: Person) -> str:
        """Leave out people without three whole readings."""
        names = [f"{side}_{k}" for side in _SIDES for k in range(1, N_READINGS + 1)]
        whole = all(person.values[name] is not None for name in names)
        return "" if whole else "fewer than three whole readings"

    def truth(self, person: Person) -> Label:
        """Return the category of the third reading."""
        systolic, diastolic = (_number(person.values[f"{side}_{N_READINGS}"]) for side in _SIDES)
        return self.guideline.categories[category_of(systolic, diastolic, self.guideline.limits)]

    def describe(self) -> JsonObject:
        """Add the guideline."""
        return {**super().describe(), "guideline": self.guideline.name}

    def account(self) -> str:
        """Add the guideline."""
        return f"{super().account()}; guideline: {self.guideline.name}"

    def third_reading_task(self) -> Task:
        """Ask for the category of the reading that is not shown."""
        guideline = self.guideline
        words = zip(guideline.categories, _in_words(guideline.limits), strict=True)
        return self.asked(
            "Two readings are shown, and a third was taken at the same visit. In which category of "
            f"the guideline {guideline.name} is the third reading? The higher category of its two "
            "numbers counts.",
            {name: f"{name} blood pressure, {limits}" for name, limits in words},
            paraphrase="After the two readings shown, blood pressure was measured once more at the "
            f"same visit. Which category of the guideline {guideline.name} did that third reading "
            "have? If its two numbers differ in category, the higher one counts.",
            aliases=_aliases(guideline.categories),
            setting=_SETTING,
            metrics=("quadratic_weighted_kappa", "mean_absolute_error"),
        )


def _in_words(limits: Limits) -> list[str]:
    """Return what each category means, lowest first."""
    below = [f"systolic below {high} and diastolic below {low} mmHg" for high, low in limits]
    high, low = limits[-1]
    return [
        below[0],
        *(f"in none of the lower categories, and {words}" for words in below[1:]),
        f"systolic of {high} mmHg or more, or diastolic of {low} mmHg or more",
    ]


def _aliases(categories: Sequence[str]) -> dict[str, Label | None]:
    stages = {name.replace(" ", form): name for name in categories for form in ("", "_", "-")}
    return {**stages, **{f"{name} hypertension": name for name in categories if "stage" in name}}
