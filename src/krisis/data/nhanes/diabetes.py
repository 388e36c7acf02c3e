"""The suite `diabetes`: whether people who were never told of diabetes have it all the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from krisis.data.base import Label, Task
from krisis.data.nhanes.suite import SurveySuite
from krisis.data.nhanes.survey import Person

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

_PEOPLE = (
    "Adults examined once in a population survey, who say that no doctor ever told them that they "
    "have diabetes."
)
_ANSWERS: Mapping[Label, str] = {
    0: f"HbA1c below {DIABETES_FROM} %",
    1: f"HbA1c of {DIABETES_FROM} % or more",
}


class DiabetesSuite(SurveySuite):
    """Undiagnosed diabetes in real adults (NHANES): HbA1c was measured and is not shown."""

    name = "diabetes"
    # About one person in 28 has it, so at a fifth the best constant policy is always "no", and a
    # twentieth is the price of testing twenty people to find one.
    prices: Mapping[str, float] = MappingProxyType({UNDIAGNOSED: 0.05})
    tasks: Mapping[str, Task | Callable[..., Task]] = MappingProxyType(
        {UNDIAGNOSED: lambda suite: suite.undiagnosed_task()}
    )

    def left_out(self, person: Person) -> str:
        """Leave out people without an HbA1c and those who were told of diabetes."""
        if person.values["hba1c"] is None:
            return "no HbA1c"
        told = person.values["told"]
        return "" if told == NO else _LEFT_OUT[told]

    def truth(self, person: Person) -> Label:
        """Return whether HbA1c was in the range of diabetes."""
        hba1c = person.values["hba1c"]
        assert hba1c is not None
        return int(hba1c >= DIABETES_FROM)

    def undiagnosed_task(self) -> Task:
        """Ask whether HbA1c is in the range of diabetes."""
        return self.asked(
            f"Is this person's HbA1c {DIABETES_FROM} % or more? It was measured and is not shown.",
            _ANSWERS,
            paraphrase="The laboratory measured this person's HbA1c, which you are not shown: was "
            f"it at least {DIABETES_FROM} %?",
            aliases={"no": 0, "yes": 1},
            setting=_PEOPLE,
            metrics=("disease_auroc", "brier_score"),
        )
