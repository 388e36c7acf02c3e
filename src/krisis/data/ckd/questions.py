"""What is asked about a kidney patient: the texts of ``questions.toml`` as tasks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from krisis.costs import Costs
from krisis.data.base import FeatureDescription, Label, Task
from krisis.data.ckd.courses import MAX_VISITS
from krisis.data.ckd.deferral import Deferral
from krisis.data.ckd.schema import CONTEXT, FEATURES, VISIT
from krisis.task_facts import DueBy
from krisis.texts import stated_in

_STATED = stated_in(__package__, "questions.toml")
# Words instead of values, so that few groups are unique; the metadata keys are set in `records`.
_GROUPS: Mapping[str, str] = {"stage": "ckd_stage", "sex": "sex", "age_band": "age_band"}
_ORDERED = (Task.STAGING, Task.RISK)


class Asking(Protocol):
    """What a question needs to know of the suite that asks it."""

    @property
    def deferral(self) -> Deferral:
        """Return when the seeds flag a case."""

    @property
    def preset(self) -> str | None:
        """Return the name of the preset, under which the flags are the deferral label."""

    @property
    def data_path(self) -> Path | None:
        """Return the file of real patients, of whom nothing is stated."""

    @property
    def split_stage_3(self) -> bool:
        """Say whether stage 3 is asked for in two parts."""

    @property
    def measured_gfr(self) -> bool:
        """Say whether the measured rate is asked about."""


def task_of(name: str, asking: Asking) -> Task:
    """Return a task in the words of the file; questions about a file state no facts."""
    stated, real = _STATED[name], asking.data_path is not None
    level = "measured filtration rate" if asking.measured_gfr else "usual eGFR"
    split = name == Task.STAGING and asking.split_stage_3
    answers = _labels(stated["split_answers" if split else "answers"])
    short = _labels(stated["short_names"])
    asked = {
        part: stated.get(f"file_{part}" if real else part, stated[part]).format(level=level)
        for part in ("question", "paraphrase")
    }
    course = name == Task.PROGRESSION
    positive = _label(str(stated["positive"])) if "positive" in stated else list(answers)[-1]
    return Task(
        name=name,
        question=asked["question"],
        paraphrase=asked["paraphrase"],
        answers=answers,
        short_names={one: short[one] for one in answers},
        features=descriptions(courses=course),
        setting="" if real else _STATED["setting"]["course" if course else "visit"],
        policy=_policy(name, asking),
        aliases=_stage_aliases(answers) if name == Task.STAGING else stated["aliases"],
        ordered=name in _ORDERED,
        positive=positive,
        groups=_GROUPS,
        costs=_costs(name),
        due_by=_due_by(asking),
    )


def _costs(name: str) -> Costs:
    stated = _STATED[name]["costs"]
    wrong = {_label(truth): _numbers(row) for truth, row in stated.get("wrong", {}).items()}
    return Costs(wrong, stated["price"], stated["why"])


def _numbers(row: Mapping[str, float]) -> dict[Label, float]:
    return {_label(answer): cost for answer, cost in row.items()}


def _due_by(asking: Asking) -> DueBy:
    """Say what the flags of the seeds are: of a file a checklist, under the preset the label."""
    if asking.preset:
        return "label"
    return "costs" if asking.data_path is None else "checklist"


def _label(text: str) -> Label:
    return int(text) if text.isdigit() else text


def _labels(answers: Mapping[str, str]) -> dict[Label, str]:
    return {_label(answer): words for answer, words in answers.items()}


def _policy(name: str, asking: Asking) -> tuple[str, ...]:
    """Return the rules by which to defer, or of a file its flags."""
    stated, words = _STATED[name], _STATED["rules"]
    if asking.data_path is None:
        return tuple(words[rule] for rule in stated["rules"])
    margin = f"{asking.deferral.margin_ml_min:g}"
    limits = "15, 30, 45, 60 or 90" if asking.split_stage_3 else "15, 30, 60 or 90"
    rules = stated.get("file_rules", ())
    return tuple(words[rule].format(margin=margin, limits=limits) for rule in rules)


def descriptions(*, courses: bool = False) -> dict[str, FeatureDescription]:
    """Return the words of all findings, with those of the visits where courses are asked about."""
    found = {name: f.description() for name, f in (*CONTEXT.items(), *FEATURES.items())}
    if courses:
        for number in range(1, MAX_VISITS + 1):
            found |= {f"visit_{number}_{k}": f.description(number) for k, f in VISIT.items()}
    return found


def _stage_aliases(answers: Mapping[Label, str]) -> dict[str, Label | None]:
    aliases: dict[str, Label | None] = {}
    for answer in answers:
        bare = str(answer).lower().removeprefix("g")
        for form in (bare, f"g{bare}", f"stage {bare}", f"stage g{bare}", f"ckd stage {bare}"):
            aliases[form] = answer
    if 3 in answers:
        for part in ("3a", "3b"):
            aliases |= {part: 3, f"g{part}": 3, f"stage {part}": 3, f"stage g{part}": 3}
    return aliases
