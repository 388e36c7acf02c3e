"""What both suites on the survey share: its adults, its terms, and the groups they belong to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from krisis.data.base import (
    Label,
    PatientRecord,
    Task,
)
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
from krisis.data.real_people import RealPeopleSuite, described, equal_costs
from krisis.json_values import JsonObject
from krisis.texts import stated_in

FINDINGS = {
    name: described(entries) for name, entries in stated_in(__package__, "findings.toml").items()
}
_GROUPS = {name: name for name in ("sex", "age_band", "race_ethnicity")}


class SurveySuite(RealPeopleSuite[Person]):
    """Adults of NHANES 2017–2018; a subclass says what is shown and what was measured."""

    name = "survey"
    source_name = SURVEY
    terms = TERMS

    @abstractmethod
    def truth(self, person: Person) -> Label:
        """Return what was measured and is not shown."""

    def people(self) -> Sequence[Person]:
        """Return the adults of the survey."""
        return read_survey()

    def record(self, person: Person) -> PatientRecord:
        """Return the case of a person."""
        metadata = {"synthetic": False, "source": SURVEY, **person.groups}
        name = f"nhanes-{person.number}"
        shown = {finding: person.values[finding] for finding in FINDINGS[self.name]}
        return PatientRecord(shown, self.truth(person), metadata, name)

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

    def asked(
        self,
        question: str,
        answers: Mapping[Label, str],
        *,
        paraphrase: str,
        setting: str,
        aliases: Mapping[str, Label | None],
        metrics: tuple[str, ...],
    ) -> Task:
        """Return the chosen task; its answers are given from the mildest to the most severe."""
        return Task(
            self.config.task,
            question,
            answers,
            FINDINGS[self.name],
            "",
            aliases,
            paraphrase=paraphrase,
            ordered=len(answers) > 2,
            positive=list(answers)[-1],
            groups=_GROUPS,
            metrics=metrics,
            person="person",
            setting=setting,
            costs=equal_costs(answers, self.price),
            price=self.price,
        )
