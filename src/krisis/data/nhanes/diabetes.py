"""The suite `diabetes`: whether people who were never told of diabetes have it all the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from krisis.costs import Costs
from krisis.data.base import Label, PatientRecord, Task
from krisis.data.nhanes.survey import (
    FILE,
    LICENCE,
    SHA256,
    SOURCE,
    SURVEY,
    TERMS,
    UNWEIGHTED,
    Person,
    read_survey,
)
from krisis.data.real_people import RealPeopleSuite, described
from krisis.json_values import JsonObject
from krisis.texts import stated_in

# HbA1c in percent from which it is in the range of diabetes (ADA Standards of Care 2026, section 2;
# one result is no diagnosis, which takes a second).
DIABETES_FROM = 6.5
NO, YES, BORDERLINE = 0, 1, 2  # whether a doctor said so
UNDIAGNOSED = "undiagnosed"
# Who is left out, by what they said when asked whether a doctor told them that they have diabetes.
_LEFT_OUT: Mapping[float | None, str] = {
    None: "not stated whether a doctor told of diabetes",
    YES: "told of diabetes",
    BORDERLINE: "told of borderline diabetes",
}

FINDINGS = described(stated_in(__package__, "findings.toml"))
_GROUPS = {name: name for name in ("sex", "age_band", "race_ethnicity")}
_PEOPLE = (
    "Adults examined once in a population survey, who say that no doctor ever told them that they "
    "have diabetes."
)
_ANSWERS: Mapping[Label, str] = {
    0: f"HbA1c below {DIABETES_FROM} %",
    1: f"HbA1c of {DIABETES_FROM} % or more",
}


# About one person in 28 has it.
COSTS = Costs(
    {1: {0: 1.0}, 0: {1: 0.1}},
    price=0.05,
    why="A person whose diabetes is missed stays untreated for years; a false alarm costs one "
    "blood test, a tenth of it; a person who looks again, a twentieth, since about one in 28 has "
    "it. Conventions, not studies: replace them with your own figures.",
)


class DiabetesSuite(RealPeopleSuite[Person]):
    """Undiagnosed diabetes in real adults (NHANES): HbA1c was measured and is not shown."""

    name = "diabetes"
    source_name = SURVEY
    terms = TERMS
    tasks: Mapping[str, Task | Callable[..., Task]] = MappingProxyType(
        {UNDIAGNOSED: lambda suite: suite.undiagnosed_task()}
    )

    def people(self) -> Sequence[Person]:
        """Return the adults of the survey."""
        return read_survey()

    def left_out(self, person: Person) -> str:
        """Leave out people without an HbA1c and those who were told of diabetes."""
        if person.values["hba1c"] is None:
            return "no HbA1c"
        told = person.values["told"]
        return "" if told == NO else _LEFT_OUT[told]

    def record(self, person: Person) -> PatientRecord:
        """Return the case of a person, with whether HbA1c was in the range of diabetes."""
        hba1c = person.values["hba1c"]
        assert hba1c is not None
        return PatientRecord(
            {finding: person.values[finding] for finding in FINDINGS},
            int(hba1c >= DIABETES_FROM),
            {"synthetic": False, "source": SURVEY, **person.groups},
            f"nhanes-{person.number}",
        )

    def provenance(self) -> JsonObject:
        """Return the public-use files and the hash of the table."""
        return {
            "source": SOURCE,
            "licence": LICENCE,
            "file": FILE,
            "sha256": SHA256,
            "n_adults": len(read_survey()),
        }

    def account(self) -> str:
        """Add that no survey weights are used."""
        return f"{super().account()}; {UNWEIGHTED}"

    def undiagnosed_task(self) -> Task:
        """Ask whether HbA1c is in the range of diabetes."""
        return Task(
            self.task_name,
            f"Is this person's HbA1c {DIABETES_FROM} % or more? It was measured and is not shown.",
            _ANSWERS,
            FINDINGS,
            {"no": 0, "yes": 1},
            paraphrase="The laboratory measured this person's HbA1c, which you are not shown: was "
            f"it at least {DIABETES_FROM} %?",
            positive=1,
            groups=_GROUPS,
            metrics=("disease_auroc", "brier_score"),
            person="person",
            setting=_PEOPLE,
            costs=COSTS,
        )
