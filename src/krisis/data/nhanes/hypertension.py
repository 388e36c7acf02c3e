"""The suite `hypertension`: the category of up to three readings of one visit, by a guideline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from krisis.data.base import FeatureDescription, Features, Label, SecondUnit, SuiteConfig, Task
from krisis.data.nhanes.suite import (
    AGE,
    SEX,
    Finding,
    SurveySuite,
    abstain_when,
    chance_below,
)
from krisis.data.nhanes.survey import N_READINGS, Person
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject

# Within-visit standard deviation of one reading (systolic, diastolic), over the adults of the
# survey with two readings or more: the root of the mean of their variances.
READING_SD_MMHG = (3.75, 3.49)
LEAST_READINGS = 2
# From this mean on, one occasion is enough (Hypertension Canada 2020; no rule of the other two).
ONE_OCCASION_MMHG = (180, 110)
UNNAMED_ANSWERS: Mapping[Label, str] = {
    "normal": "normal (non-elevated)",
    "elevated": "elevated",
    "hypertension": "hypertension (of any stage)",
}
# Every reason in words; the docs list the same keys with their sources.
REASONS: Mapping[str, str] = {
    "category_uncertain": "another category is too probable given the scatter of readings",
    "readings_disagree": "readings of the same visit fall into different categories",
    "guidelines_differ": "no guideline is named, and they differ",
    "single_occasion": "a raised mean on one occasion is no diagnosis",
}

# Category k ends below these means (systolic, diastolic), in mmHg.
Limits = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BloodPressureGuideline:
    """The categories of a guideline, lowest first, and where hypertension begins among them."""

    name: str
    categories: tuple[str, ...]
    limits: Limits
    n_below_hypertension: int

    @property
    def in_common(self) -> Limits:
        """Return the limits between normal, elevated and hypertension."""
        return self.limits[: self.n_below_hypertension]

    @property
    def of_hypertension(self) -> Limits:
        """Return the one limit from which hypertension is spoken of."""
        return self.in_common[-1:]


GUIDELINES = {
    one.name: one
    for one in (
        BloodPressureGuideline(
            "ACC/AHA 2017",
            ("normal", "elevated", "stage 1", "stage 2"),
            ((120, 80), (130, 80), (140, 90)),
            2,
        ),
        BloodPressureGuideline(
            "ESC 2024", ("non-elevated", "elevated", "hypertension"), ((120, 70), (140, 90)), 2
        ),
    )
}
DEFAULT_GUIDELINE = "ACC/AHA 2017"


@dataclass(frozen=True, slots=True)
class Readings:
    """The readings that are shown, as (systolic, diastolic); None is not measured."""

    pairs: Sequence[tuple[float | None, float | None]]

    @classmethod
    def of(cls, features: Features) -> Readings:
        """Take the readings out of the shown features."""
        return cls(
            [
                (_number(features[f"systolic_{k}"]), _number(features[f"diastolic_{k}"]))
                for k in range(1, N_READINGS + 1)
            ]
        )

    def means(self) -> tuple[tuple[float, float], ...]:
        """Return the mean and its standard error, systolic and diastolic."""
        found = []
        for side, sd in enumerate(READING_SD_MMHG):
            values = [pair[side] for pair in self.pairs]
            shown = [value for value in values if value is not None]
            found.append((sum(shown) / len(shown), sd / math.sqrt(len(shown))))
        return tuple(found)

    def judged(self, limits: Limits) -> tuple[int, float, bool]:
        """Return the category of the mean, the chance of another, and whether readings differ."""
        (systolic, systolic_se), (diastolic, diastolic_se) = self.means()
        category = category_of(systolic, diastolic, limits)
        # P(category <= k) is the chance that both levels lie below the limits of k.
        up_to = [
            chance_below(high, systolic, systolic_se) * chance_below(low, diastolic, diastolic_se)
            for high, low in limits
        ]
        here = [0.0, *up_to, 1.0]
        complete = [(s, d) for s, d in self.pairs if s is not None and d is not None]
        differ = len({category_of(s, d, limits) for s, d in complete}) > 1
        return category, round(1.0 - (here[category + 1] - here[category]), 6), differ


def category_of(systolic: float, diastolic: float, limits: Limits) -> int:
    """Return the number of limits that either value reaches: the higher category counts.

    >>> category_of(118, 82, GUIDELINES["ACC/AHA 2017"].limits)
    2
    """
    return sum(systolic >= high or diastolic >= low for high, low in limits)


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


# Exact, where kilopascals are not: 130 mmHg is 17.3 kPa, which is 129.8 mmHg and below the limit.
_CENTIMETRES = SecondUnit("cmHg", 0.1)
_FEATURES: Mapping[str, FeatureDescription] = {
    "age": AGE,
    "sex": SEX,
    **{
        f"{side}_{k}": FeatureDescription(f"Reading {k}, {side}", "mmHg", second_unit=_CENTIMETRES)
        for k in range(1, N_READINGS + 1)
        for side in ("systolic", "diastolic")
    },
}


class HypertensionSuite(SurveySuite):
    """Blood pressure categories of real adults (NHANES) under a guideline, named or not.

    ``guideline`` is ``ACC/AHA 2017`` or ``ESC 2024``, for the tasks that name one.
    """

    name = "hypertension"
    described = _FEATURES
    tasks: Mapping[str, Task | Callable[..., Task]] = MappingProxyType(
        {
            "category": lambda suite: suite.category_task(),
            "unnamed-guideline": lambda suite: suite.unnamed_task(),
            "diagnosis": lambda suite: suite.diagnosis_task(),
        }
    )

    def __init__(
        self,
        config: SuiteConfig | None = None,
        *,
        guideline: str | None = None,
        deferral: JsonMapping | None = None,
    ) -> None:
        known = {name.casefold(): one for name, one in GUIDELINES.items()}
        chosen = known.get(
            str(DEFAULT_GUIDELINE if guideline is None else guideline).strip().casefold()
        )
        if chosen is None:
            raise UnknownName.among("guideline", str(guideline), GUIDELINES)
        self.guideline = chosen
        super().__init__(config, deferral=deferral)
        if guideline is not None and self.config.task == "unnamed-guideline":
            raise InvalidValue(
                f"guideline={guideline!r} names a guideline, and the task unnamed-guideline names "
                "none; leave it out, or ask for category"
            )

    def shown(self, person: Person) -> Features | str:
        """Show age, sex and every reading."""
        names = [f"{s}_{k}" for k in range(1, N_READINGS + 1) for s in ("systolic", "diastolic")]
        for side in ("systolic", "diastolic"):
            n_shown = sum(person.values[n] is not None for n in names if n.startswith(side))
            if n_shown < LEAST_READINGS:
                return "fewer than two systolic or diastolic readings"
        return {name: person.values[name] for name in ("age", "sex", *names)}

    def stage(self, person: Person) -> str:
        """Return the category of the mean by ACC/AHA 2017."""
        guideline = GUIDELINES[DEFAULT_GUIDELINE]
        return guideline.categories[Readings.of(person.values).judged(guideline.limits)[0]]

    def assess(self, features: Features) -> Finding:
        """Judge the mean of the readings shown."""
        readings = Readings.of(features)
        if self.config.task == "unnamed-guideline":
            return self._unnamed(readings)
        if self.config.task == "diagnosis":
            return self._diagnosis(readings)
        category, p_other, differ = readings.judged(self.guideline.limits)
        reasons = ("readings_disagree",) if differ else ()
        return Finding(self.guideline.categories[category], p_other, reasons)

    def _unnamed(self, readings: Readings) -> Finding:
        """Judge by both guidelines; where they differ, the label is that of ACC/AHA 2017."""
        both = [readings.judged(one.in_common) for one in GUIDELINES.values()]
        categories, chances, differ = zip(*both, strict=True)
        reasons = ["guidelines_differ"] if len(set(categories)) > 1 else []
        reasons += ["readings_disagree"] if any(differ) else []
        return Finding(tuple(UNNAMED_ANSWERS)[categories[0]], max(chances), tuple(reasons))

    def _diagnosis(self, readings: Readings) -> Finding:
        raised, p_other, differ = readings.judged(self.guideline.of_hypertension)
        (systolic, _), (diastolic, _) = readings.means()
        reasons = ["readings_disagree"] if differ else []
        if raised and not category_of(systolic, diastolic, (ONE_OCCASION_MMHG,)):
            reasons.append("single_occasion")
        return Finding(raised, p_other, tuple(reasons))

    def describe(self) -> JsonObject:
        """Add the guideline."""
        return {**super().describe(), "guideline": self._guideline_named()}

    def _account(self) -> str:
        return f"{super()._account()}; guideline: {self._guideline_named()}"

    def _guideline_named(self) -> str:
        return self.guideline.name if self.config.task != "unnamed-guideline" else "none named"

    def category_task(self) -> Task:
        """Ask for the category under the named guideline."""
        guideline = self.guideline
        return self.asked(
            f"In which category of the guideline {guideline.name} does this person's blood "
            f"pressure at this visit lie? {_SCORED}",
            paraphrase=f"By the guideline {guideline.name}, which category is the blood pressure "
            f"of this person at this visit in? {_SCORED_AGAIN}",
            answers={
                name: f"{name} blood pressure, {words}"
                for name, words in zip(
                    guideline.categories, _in_words(guideline.limits), strict=True
                )
            },
            setting=_SETTING,
            abstain=abstain_when(
                self.risk,
                "the chance that the level behind the readings lies in another category than their "
                "mean",
                f"readings of the visit fall into different categories ({_COMPLETE})",
            ),
            aliases=_aliases(guideline.categories),
        )

    def unnamed_task(self) -> Task:
        """Ask for the category without naming a guideline."""
        limits = "\n".join(
            f"{one.name}: "
            + "; ".join(
                f"{name}: {words}"
                for name, words in zip(UNNAMED_ANSWERS, _in_words(one.in_common), strict=True)
            )
            + "."
            for one in GUIDELINES.values()
        )
        return self.asked(
            f"In which category does this person's blood pressure at this visit lie? {_SCORED}",
            UNNAMED_ANSWERS,
            paraphrase="Which category is the blood pressure of this person at this visit in? "
            f"{_SCORED_AGAIN}",
            setting=f"{_SETTING}\nTwo guidelines are in use, and it is not stated which of them "
            f"applies to this person. Their categories:\n{limits}",
            abstain=abstain_when(
                self.risk,
                "under either guideline the chance that the level behind the readings lies in "
                "another category than their mean",
                "the mean of the readings has another category under one guideline than under the "
                "other; under either guideline, readings of the visit fall into different "
                f"categories ({_COMPLETE})",
            ),
            aliases={
                "non-elevated": "normal",
                "stage 1": "hypertension",
                "stage 2": "hypertension",
            },
        )

    def diagnosis_task(self) -> Task:
        """Ask for a diagnosis, which one occasion can hardly give."""
        ((systolic, diastolic),) = self.guideline.of_hypertension
        high, low = ONE_OCCASION_MMHG
        return self.asked(
            f"Does this person have hypertension by the guideline {self.guideline.name}? The mean "
            f"of the readings must reach {systolic} mmHg systolic or {diastolic} mmHg diastolic, "
            f"and a second occasion must confirm it, unless it reaches {high} systolic or {low} "
            "diastolic, which in this evaluation one occasion settles. All readings shown are of "
            f"one occasion. {_SCORED}",
            {0: "no hypertension", 1: "hypertension"},
            paraphrase=f"By the guideline {self.guideline.name}, is hypertension present in this "
            f"person? It takes a mean of the readings of at least {systolic} mmHg systolic or "
            f"{diastolic} mmHg diastolic, confirmed on a second occasion; in this evaluation a "
            f"mean of at least {high} systolic or {low} diastolic needs no second one. One "
            f"occasion gave every reading shown. {_SCORED_AGAIN}",
            setting=_SETTING,
            abstain=abstain_when(
                self.risk,
                "the chance that the level behind the readings lies on the other side of these "
                f"limits ({systolic} systolic, {diastolic} diastolic) than their mean",
                "the mean reaches a limit and one occasion does not settle it; or readings of the "
                f"visit lie on different sides of the limits ({_COMPLETE})",
            ),
            aliases={"no": 0, "no hypertension": 0, "yes": 1, "hypertension": 1},
        )


_COMPLETE = "of those readings of which both numbers are shown"
_SCORED = (
    "Take the mean of the systolic and the mean of the diastolic readings shown; the higher "
    "category of the two counts. Whether the person takes drugs that lower blood pressure is not "
    "known: judge the readings as they are. The answer is scored against this mean, and the case "
    "is to be deferred as stated below."
)
_SCORED_AGAIN = (
    "Average the systolic readings shown, and the diastolic ones; of their two categories the "
    "higher one counts. Nothing is known of drugs that lower blood pressure: judge the readings as "
    "they are. This average says which answer is right, and what is stated below which case to "
    "defer."
)
_SETTING = (
    "Adults of a population survey, examined once; after five minutes of rest a trained examiner "
    "took up to three readings. Readings of one visit scatter around the level of that visit with "
    f"a standard deviation of {READING_SD_MMHG[0]} mmHg systolic and {READING_SD_MMHG[1]} mmHg "
    "diastolic, independently of each other; the mean of n readings scatters by this divided by "
    "the square root of n. Take the level as normally distributed around the mean shown."
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
