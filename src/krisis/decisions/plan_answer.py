"""What a plan is told and what it answers: a size, the power around it, and its assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from krisis.decisions.plan_patients import Patients
from krisis.decisions.plan_pilot import Pilot
from krisis.decisions.plan_power import N_CONFIRMED, PairedQuestion
from krisis.decisions.plan_width import N_WORLDS as N_DRAWN
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric
from krisis.statistics.bootstrap import MOST_POOLS

MOST_PATIENTS = 10_000_000


@dataclass(frozen=True, slots=True)
class Study:
    """What every plan is told: power, error, the patients, and a size where that is given."""

    power: float = 0.8
    alpha: float = 0.05
    patients: Patients = field(default_factory=Patients)
    n_patients: int | None = None
    seed: int = 42

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 0.5:
            raise InvalidValue(f"alpha must lie above 0 and at most at 0.5, not {self.alpha!r}")
        if not self.alpha < self.power < 1:
            raise InvalidValue(
                f"the power must lie above alpha ({self.alpha!r}) and below 1, not {self.power!r}"
            )
        if self.n_patients is not None and not 1 <= self.n_patients <= MOST_PATIENTS:
            raise InvalidValue(
                f"n must lie between 1 and {MOST_PATIENTS:,} patients, not {self.n_patients!r}"
            )


@dataclass(frozen=True, slots=True)
class Point:
    """A size of the study and how often it reaches its aim."""

    n_patients: int
    n_rows: int
    power: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer: patients and rows to ask, the power around them, and what was assumed.

    ``reached`` names what ``power`` is: the power of a test, or the assurance of a width.
    ``beside`` are other figures, each with its words.
    """

    question: str
    aim: str
    n_patients: int
    n_rows: int
    power: float
    reached: str
    points: tuple[Point, ...] = ()
    beside: Mapping[str, object] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    inputs: Mapping[str, object] = field(default_factory=dict)
    pilot: Mapping[str, object] = field(default_factory=dict)
    cost: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self) -> JsonObject:
        """Return the plan as JSON values, for programs and for the viewer."""
        return {
            "kind": "krisis.plan",
            "schema_version": 1,
            "question": self.question,
            "aim": self.aim,
            "n_patients": self.n_patients,
            "n_rows": self.n_rows,
            self.reached: self.power,
            "points": [
                {"n_patients": p.n_patients, "n_rows": p.n_rows, self.reached: p.power}
                for p in self.points
            ],
            "beside": dict(self.beside),
            "assumptions": list(self.assumptions),
            "inputs": dict(self.inputs),
            "pilot": dict(self.pilot),
            "cost": dict(self.cost),
        }

    def text(self) -> str:
        """Return the plan in words: the answer, the table, the assumptions."""
        size = f"{self.n_patients:,} patients, {self.n_rows:,} rows"
        lines = [
            f"{size}: {self.reached} {self.power:.2f} {self.aim}",
            "",
            f"{'patients':>10} {'rows':>10} {self.reached:>10}",
        ]
        lines += [f"{p.n_patients:>10,} {p.n_rows:>10,} {p.power:>10.3f}" for p in self.points]
        if self.beside:
            width = max(map(len, self.beside))
            lines += ["", *(f"{name:<{width}}  {_said(v)}" for name, v in self.beside.items())]
        lines += ["", *self.assumptions]
        return "\n".join(lines)


def _said(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def inputs(study: Study, metric: BaseMetric | None, **given: object) -> JsonObject:
    """Return what the plan was told, as JSON values."""
    patients = study.patients
    return {
        **({} if metric is None else {"metric": metric.identifier, "alpha": study.alpha}),
        **given,
        "power": study.power,
        "cluster_size": patients.mean_size,
        "icc": patients.icc,
        "n_patients": study.n_patients,
        "seed": study.seed,
    }


def width_assumptions(metric: BaseMetric, study: Study) -> tuple[str, ...]:
    """Say what the width of an interval rests on."""
    how = (
        "every number of hits is counted with its binomial chance"
        if study.patients.mean_size == 1
        else f"by {N_DRAWN:,} drawn studies"
    )
    level = f"{1 - study.alpha:.0%}"
    return (
        f"The interval is krisis' own of a share at {level} (mid-P, patients as clusters); {how}.",
        "Wilson's figure holds at the expected share: about half of all studies are wider.",
        f"Rows are those in the denominator of {metric.key}.",
    )


def paired_assumptions(
    question: PairedQuestion, metric: BaseMetric, study: Study
) -> tuple[str, ...]:
    """Say what the power of a paired test rests on."""
    if question.margin:
        test = (
            f"Shown means that the paired {1 - study.alpha:.0%} interval of `krisis compare "
            f"--margin` and `krisis check --non-inferior` excludes a loss of {question.margin:g}; "
            f"the true difference is taken to be {question.difference:g}."
        )
    else:
        test = (
            f"The test is that of `krisis compare --primary {metric.key}`: paired permutation by "
            f"patient, two-sided at {study.alpha:g}, which for one row per patient is McNemar's "
            "exact test; without --primary all metrics are adjusted together and the power is "
            "lower."
        )
    how = (
        "Every outcome of the pairs is counted with its chance."
        if study.patients.mean_size == 1 and (study.n_patients or 0) <= MOST_POOLS
        else f"The power is that of {N_CONFIRMED:,} drawn studies."
    )
    notes = [test, how, "Only studies that find the second run ahead count as found."]
    if question.margin:
        notes.pop()
    if study.alpha != 0.05:
        notes.append("`krisis compare` judges at 0.05; another alpha is an option in Python.")
    return tuple(notes)


def certify_assumptions(study: Study, pilot: Pilot | None, delta: float) -> tuple[str, ...]:
    """Say what the power of a certificate rests on."""
    how = "simulated" if study.patients.mean_size > 1 else "computed exactly"
    certified = (
        f"Certified means that `krisis certify --loss error` with delta {delta:g} and its default "
        f"method, fixed-sequence, finds any threshold; its power is {how}."
    )
    notes = [
        certified,
        "All scores differ, and the risk is taken to be the same at every threshold.",
    ]
    if study.n_patients is None:
        notes.append("From this number on the power stays reached; it goes up and down below.")
    if pilot is None:
        notes.append(
            "Patients are those with an answer and a score; ask for more where the model abstains."
        )
    return tuple(notes)


def shared_assumptions(
    study: Study, pilot: Pilot | None, *, paired: bool = False, differing: str = "beta"
) -> tuple[str, ...]:
    """Say what is assumed of the patients and taken from a pilot."""
    patients, notes = study.patients, []
    if patients.mean_size == 1:
        notes.append("Every patient has one row.")
    else:
        what = "of the paired difference " if paired else ""
        how = f"patients differing as in a {'Dirichlet' if paired else differing} distribution"
        if not differing:
            how = "a row repeating with probability √ICC what its patient has, right or wrong"
        notes.append(
            f"Patients have {patients.mean_size:.3g} rows each with an ICC {what}of "
            f"{patients.icc:.3g}, {how}."
        )
    if pilot is None:
        notes.append("No row fails and all count; ask for more where some will not.")
    else:
        failed = pilot.facts()["runs"][0]["not_evaluated"]
        notes.append(
            f"As in the pilot of {pilot.table.patients.n:,} patients, {failed:.1%} of the rows "
            f"fail and {pilot.counted_patients:.1%} of the patients bring a row that counts."
        )
        if paired and pilot.right is None:
            notes.append("The ICC of one pilot is that of its right answers, if none is given.")
        else:
            notes.append(
                "Drawing the pilot's patients answers for the pilot's own rates and rows per "
                "patient, whatever else is given; a small pilot knows them roughly."
            )
    return tuple(notes)


def planned(
    words: tuple[str, str, str],
    sizes: tuple[Point, tuple[Point, ...]],
    beside: dict[str, object],
    assumptions: tuple[str, ...],
    told: JsonObject,
    pilot: Pilot | None,
) -> Plan:
    """Put a plan together: question, aim and what is reached; the answer and the sizes around."""
    question, aim, reached = words
    point, points = sizes
    return Plan(
        question,
        aim,
        point.n_patients,
        point.n_rows,
        point.power,
        reached,
        points,
        beside,
        assumptions,
        told,
        {} if pilot is None else pilot.facts(),
    )
