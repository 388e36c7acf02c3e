"""The suite `support2`: whether a seriously ill patient dies within two or six months."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from krisis.costs import Costs
from krisis.data.base import (
    FeatureValue,
    Judgement,
    Label,
    PatientRecord,
    SuiteConfig,
    Task,
    age_band,
)
from krisis.data.real_people import (
    Parts,
    RealPeopleSuite,
    described,
)
from krisis.data.support2.file import DISEASES, SUPPORT2, Patient, read_patients
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.texts import stated_in

TERMS = (
    "SUPPORT2 is licensed CC BY 4.0: name its source. Make no attempt to learn who anybody is. For "
    "evaluation, never for the care of a patient"
)
_AGE_BANDS = (18, 45, 65, 75)
_GROUPS = {name: name for name in ("disease", "sex", "age_band", "race")}
_SETTING = (
    "Seriously ill adults in five teaching hospitals in the USA, 1989 to 1994; the findings are "
    "those of the third day of the study."
)
CASES = ("held-out", "all")


FINDINGS = described(stated_in(__package__, "findings.toml"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is asked about: by which day, and who foresaw it, by the columns of the file."""

    question: str
    paraphrase: str
    answers: Mapping[Label, str]
    # Columns with the probability of survival, by who gave it.
    readers: Mapping[str, str]
    within_days: float | None = None


OUTCOMES: Mapping[str, Outcome] = {
    name: Outcome(**{**one, "answers": dict(enumerate(one["answers"]))})
    for name, one in stated_in(__package__, "outcomes.toml").items()
}


COSTS = Costs(
    why="Every error costs the same, and a second look by a person a fifth of one: a convention, "
    "to be replaced by your own figures."
)


class Support2Suite(RealPeopleSuite[Patient]):
    """Death of seriously ill adults (SUPPORT2), beside the forecasts of their own physicians.

    ``cases`` is ``held-out`` (the default) or ``all``, which leaves nobody to fit baselines on.
    ``without`` names a disease group that is neither asked about nor fitted on; ``only`` asks about
    all patients of one group, with baselines fitted on patients of the others.
    """

    name = "support2"
    source_name = "SUPPORT2"
    terms = TERMS
    option_words: Mapping[str, str] = {
        "cases": "held-out, or all patients, which leaves nobody to fit baselines on",
        "without": "A disease group to leave out: " + ", ".join(DISEASES.values()),
        "only": "The one disease group to ask about; baselines are fitted on the others",
    }
    # Where nobody gave a forecast (death in hospital), the last two are left out.
    baselines = (*RealPeopleSuite.baselines, "physician", "reader/support-model")
    tasks: Mapping[str, Task | Callable[..., Task]] = MappingProxyType(
        {name: lambda suite: suite.asked() for name in OUTCOMES}
    )

    def __init__(
        self,
        config: SuiteConfig | None = None,
        *,
        cases: Literal["held-out", "all"] = "held-out",
        without: str | None = None,
        only: str | None = None,
    ) -> None:
        super().__init__(config)
        if cases not in CASES:
            raise UnknownName.among("choice of cases:", str(cases), CASES)
        if without is not None and only is not None:
            raise InvalidValue("without and only both choose disease groups; give one of them")
        for name in (without, only):
            if name is not None and name not in DISEASES.values():
                raise UnknownName.among("disease group", str(name), DISEASES.values())
        self.cases, self.without, self.only = cases, without, only

    @property
    def outcome(self) -> Outcome:
        """Return what the chosen task asks about."""
        return OUTCOMES[self.task_name]

    to_get_training_records = "leave out cases=all"

    def people(self) -> Sequence[Patient]:
        """Return the patients in the order of the file."""
        return read_patients(tuple(FINDINGS))

    def left_out(self, person: Patient) -> str:
        """Leave out nobody: every outcome is known (no censoring before day 344)."""
        return ""

    @cached_property
    def parts(self) -> Parts[Patient]:
        """Return who is asked about and who is fitted on."""
        drawn = super().parts
        everybody = [*drawn.held_out, *drawn.training]
        training = [] if self.cases == "all" else drawn.training
        asked = everybody if self.cases == "all" or self.only else drawn.held_out
        apart = self.without or self.only
        if apart:
            training = [one for one in training if one.disease != apart]
            asked = [one for one in asked if (one.disease == apart) == bool(self.only)]
        return Parts(asked, training, drawn.left_out)

    def record(self, person: Patient) -> PatientRecord:
        """Return the case of a patient: findings of day 3, and what became of them."""
        age = person.number_in("age")
        assert age is not None
        metadata = {
            "synthetic": False,
            "source": "SUPPORT2",
            "disease": person.disease,
            "sex": person.cells["sex"],
            "age_band": age_band(age, _AGE_BANDS),
            "race": person.cells["race"] or "not stated",
        }
        shown = {name: _finding(person, name) for name in FINDINGS}
        return PatientRecord(shown, self.truth(person), metadata, f"support2-{person.number}")

    def truth(self, person: Patient) -> Label:
        """Return whether the patient died by the day that is asked about."""
        days = self.outcome.within_days
        if days is None:
            return int(person.number_in("hospdead") == 1)
        time = person.number_in("d.time")
        assert time is not None
        return int(person.number_in("death") == 1 and time <= days)

    @property
    def readers(self) -> Mapping[str, Mapping[str, Judgement]]:
        """Return what the physician and the model of the study foresaw for each patient."""
        found: dict[str, dict[str, Judgement]] = {}
        for reader, column in self.outcome.readers.items():
            found[reader] = {
                f"support2-{person.number}": Judgement.by_cost(
                    self.task.costs, {0: survival, 1: 1.0 - survival}
                )
                for person in self.people()
                if (survival := person.number_in(column)) is not None
            }
        return found

    def provenance(self) -> JsonObject:
        """Return the source, its licence and the hash of the file."""
        return {
            "source": SUPPORT2.source,
            "licence": SUPPORT2.licence,
            "file": SUPPORT2.path.name,
            "sha256": SUPPORT2.sha256,
            "n_adults": len(self.people()),
        }

    def account(self) -> str:
        """Add which disease group was set apart."""
        apart = f"; without {self.without}" if self.without else ""
        apart = f"; only {self.only}" if self.only else apart
        return f"{super().account()}{apart}"

    def asked(self) -> Task:
        """Return the chosen task."""
        outcome = self.outcome
        return Task(
            self.task_name,
            outcome.question,
            outcome.answers,
            FINDINGS,
            {"no": 0, "alive": 0, "yes": 1, "dead": 1},
            paraphrase=outcome.paraphrase,
            positive=1,
            groups=_GROUPS,
            metrics=("disease_auroc", "brier_score"),
            setting=_SETTING,
            costs=COSTS,
        )


def _finding(person: Patient, name: str) -> FeatureValue:
    """Return a finding at the precision at which it is shown: the file has stray digits."""
    described = FINDINGS[name]
    if described.decimals is not None:
        number = person.number_in(name)
        return None if number is None else round(number, described.decimals)
    text = person.cells[name]
    if not text:
        return None
    return int(text) if text.isdigit() else text
