"""What both suites on the survey share: who is asked about, the rule, the split and the account."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType

import numpy as np

from krisis.data.base import (
    BaseDataSuite,
    CostTable,
    FeatureDescription,
    Features,
    FeatureSet,
    Judgement,
    Label,
    PatientRecord,
    Rule,
    SuiteConfig,
    Task,
)
from krisis.data.nhanes.survey import (
    LICENCE,
    OLDEST_STATED_AGE_YEARS,
    SOURCE,
    SURVEY,
    TERMS,
    UNWEIGHTED,
    Person,
    read_survey,
)
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject

UNCERTAIN = "category_uncertain"
DEFAULT_RISK = 0.20
AGE = FeatureDescription(
    "Age", "years", values={OLDEST_STATED_AGE_YEARS: f"{OLDEST_STATED_AGE_YEARS} or older"}
)
SEX = FeatureDescription("Sex", values={0: "male", 1: "female"})
_GROUPS = {name: name for name in ("stage", "sex", "age_band", "race_ethnicity")}
# Where a case is due for deferral, its label is a convention: what counts is the right decision.
_METRICS = ("right_decisions", "answerable_accuracy", "undue_answer_rate")
# The preset of costs, as in the kidney suite: an answer that is too low costs three times as much.
_TOO_LOW, _TOO_HIGH = 150.0, 50.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What the stated rules make of the shown features.

    ``p_misclass`` is the probability of another answer by measurement error; ``reasons`` are the
    rules that leave the question undecided.
    """

    answer: Label
    p_misclass: float
    reasons: tuple[str, ...] = ()


Assess = Callable[[Features], Finding]


@dataclass(frozen=True, slots=True)
class SurveyRule:
    """Applies the rules that the prompt states; abstains where they ask for it."""

    assess: Assess
    risk: float = DEFAULT_RISK

    def __post_init__(self) -> None:
        number = isinstance(self.risk, int | float) and not isinstance(self.risk, bool)
        if not number or not 0.0 < self.risk < 1.0:
            raise InvalidValue(f"the deferral risk must lie between 0 and 1, not {self.risk!r}")

    def reasons(self, found: Finding) -> list[str]:
        """Return every reason to defer a case."""
        uncertain = [UNCERTAIN] if found.p_misclass >= self.risk else []
        return [*uncertain, *found.reasons]

    def __call__(self, features: Features, context: str) -> Judgement:
        """Judge the shown features."""
        found = self.assess(features)
        reasons = self.reasons(found)
        signals = {"p_misclass": found.p_misclass, "abstain_reasons": reasons}
        if reasons:
            return Judgement(None, signals=signals, abstain=True)
        return Judgement(found.answer, 1.0 - found.p_misclass, signals)


def chance_below(limit: float, value: float, sd: float) -> float:
    """Return the probability that a level lies below a limit, given its measured value."""
    return math.erfc((value - limit) / (sd * math.sqrt(2.0))) / 2.0


def abstain_when(risk: float, chance: str, rules: str = "") -> str:
    """Say when to abstain: by the price, and by the ``rules`` that leave the question undecided."""
    price = f"{(Decimal(str(risk)) * 100).normalize():f}"  # every digit, no exponent
    by_rule = f" Abstain as well when the rules leave the question undecided: {rules}."
    return (
        f"Abstaining costs {price} % of what a wrong answer costs. So abstain when {chance} is "
        f"{price} % or more.{by_rule if rules else ''}"
    )


class SurveySuite(BaseDataSuite):
    """Adults of NHANES 2017–2018; a subclass says what is shown and by which rule it is judged.

    Who is held out follows from the seed alone, so a person who is held out in one task is held
    out in all. ``deferral`` is ``{"risk": …}``, the price of deferring.
    """

    name = "survey"
    option_words: Mapping[str, str] = {
        "guideline": "Of hypertension: ACC/AHA 2017 or ESC 2024",
        "deferral": "Price of deferring, in prices of a wrong answer; 0.2 unless given",
    }
    baselines = ("always-answer", "always-abstain", "majority", "logistic", "guideline")
    terms = TERMS
    described: Mapping[str, FeatureDescription] = MappingProxyType({})

    def __init__(
        self, config: SuiteConfig | None = None, *, deferral: JsonMapping | None = None
    ) -> None:
        super().__init__(config)
        if self.config.features is not FeatureSet.REDUCED:
            raise InvalidValue(
                f"features={self.config.features.value!r} is no choice of the suite {self.name!r}, "
                "whose tasks say what is shown; leave it out"
            )
        if self.config.has_chosen_n_synthetic and self.config.n_synthetic:
            raise InvalidValue(
                f"n_synthetic={self.config.n_synthetic} asks for synthetic patients, and the suite "
                f"{self.name!r} has the people of {SURVEY} only; leave it out"
            )
        self.risk = _risk(deferral)
        SurveyRule(self.assess, self.risk)  # refuses what is no risk

    @abstractmethod
    def assess(self, features: Features) -> Finding:
        """Return what the rules of the task make of the shown features."""

    @abstractmethod
    def shown(self, person: Person) -> Features | str:
        """Return what a model is shown of a person, or why nothing can be asked."""

    @abstractmethod
    def stage(self, person: Person) -> str:
        """Return how severe the disease is, for breaking results down; never shown."""

    def truth(self, person: Person, found: Finding) -> Label:
        """Return the right answer, by default the one that the shown values have."""
        return found.answer

    def asked(
        self,
        question: str,
        answers: Mapping[Label, str],
        *,
        paraphrase: str,
        setting: str,
        abstain: str,
        aliases: Mapping[str, Label | None],
    ) -> Task:
        """Return the chosen task; its answers are given from the mildest to the most severe."""
        return Task(
            self.config.task,
            question,
            answers,
            self.described,
            abstain,
            aliases,
            paraphrase=paraphrase,
            ordered=len(answers) > 2,
            positive=list(answers)[-1],
            groups=_GROUPS,
            metrics=_METRICS,
            person="person",
            setting=setting,
            costs=CostTable.by_distance(
                answers,
                too_low=_TOO_LOW,
                too_high=_TOO_HIGH,
                defer=float(Decimal(str(self.risk)) * 100),
                note="Convention: every step that the answer is too low costs 150, too high 50, a "
                "deferral the stated share of the mean of both; no study of costs.",
            ),
        )

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the reader that applies what the prompt states."""
        return {"guideline": SurveyRule(self.assess, self.risk)}

    @cached_property
    def parts(self) -> tuple[list[Person], list[Person], Counter[str]]:
        """Return the people held out and those to fit on, and how many were left out and why."""
        adults = read_survey().adults
        n_held_out = min(max(1, round(len(adults) * self.config.test_size)), len(adults) - 1)
        order = np.random.default_rng(self.config.seed).permutation(len(adults))
        held_out: list[Person] = []
        training: list[Person] = []
        left_out: Counter[str] = Counter()
        for place, index in enumerate(order):
            shown = self.shown(adults[index])
            if isinstance(shown, str):
                left_out[shown] += 1
            else:
                (held_out if place < n_held_out else training).append(adults[index])
        if not held_out:
            raise InvalidValue(
                f"test_size={self.config.test_size:g} holds out {n_held_out} adults, and none of "
                "them has the values that the task needs; give a larger test_size"
            )
        return held_out, training, left_out

    def load(self) -> list[PatientRecord]:
        """Return the people held out, in an order drawn by the seed."""
        self.notice = f"{self._account()}\n{self.terms}"
        return [self._record(person) for person in self.parts[0]]

    def training_records(self) -> list[PatientRecord]:
        """Return everybody else."""
        return [self._record(person) for person in self.parts[1]]

    def _record(self, person: Person) -> PatientRecord:
        features = self.shown(person)
        assert not isinstance(features, str)
        found = self.assess(features)
        reasons = SurveyRule(self.assess, self.risk).reasons(found)
        kind = "uncertain" if UNCERTAIN in reasons else "rule"
        metadata = {
            "synthetic": False,
            "source": SURVEY,
            "stage": self.stage(person),
            **person.groups,
            "should_abstain": bool(reasons),
            "abstain_reasons": reasons,
            "deferral_kind": kind if reasons else None,
            "p_misclass": found.p_misclass,
        }
        name = f"nhanes-{person.number}"
        return PatientRecord(features, self.truth(person, found), metadata, name)

    def describe(self) -> JsonObject:
        """Say who is asked about, how many ask to be deferred and why, and under which terms."""
        records, survey = self.records(), read_survey()
        reasons = Counter(name for r in records for name in r.metadata["abstain_reasons"])
        kinds = Counter(r.metadata["deferral_kind"] for r in records)
        return {
            **super().describe(),
            "account": self._account(),
            "labels": dict(sorted(Counter(str(r.label) for r in records).items())),
            "n_should_abstain": sum(r.metadata["should_abstain"] for r in records),
            "abstain_reasons": dict(sorted(reasons.items())),
            "deferral_kinds": {kind: kinds[kind] for kind in ("uncertain", "rule")},
            "deferral": {"kind": "measurement_error", "risk": self.risk},
            "terms": self.terms,
            "provenance": [
                {
                    "source": SOURCE,
                    "licence": LICENCE,
                    "file": survey.file,
                    "sha256": survey.sha256,
                    "n_adults": len(survey.adults),
                }
            ],
        }

    def _account(self) -> str:
        held_out, training, left_out = self.parts
        why = "; ".join(f"{reason}: {n}" for reason, n in sorted(left_out.items()))
        return (
            f"{SURVEY}: {len(read_survey().adults)} adults read; {left_out.total()} left out "
            f"({why}); {len(held_out)} held out and evaluated; {len(training)} kept for fitting "
            f"baselines (test_size {self.config.test_size:g}); {UNWEIGHTED}"
        )


def _risk(deferral: JsonMapping | None) -> float:
    given: object = {} if deferral is None else deferral
    if not isinstance(given, Mapping):
        raise InvalidValue(f"deferral must be a mapping such as {{risk: 0.1}}, not {given!r}")
    for name in given:
        if name != "risk":
            raise UnknownName.among("field of deferral", str(name), ["risk"])
    risk: float = given.get("risk", DEFAULT_RISK)
    return risk
