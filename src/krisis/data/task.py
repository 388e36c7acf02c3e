"""What a suite asks (`Task`) and what a rule of the suite says to it (`Judgement`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import ClassVar, TypeAlias

from krisis.answers import AnswerSet, Label
from krisis.costs import ASSUMED, Costs, check_price
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping
from krisis.task_facts import (
    LOSSES,
    OWN_PROBABILITIES,
    DueBy,
    FeatureDescription,
    Loss,
    TaskFacts,
    TotalScale,
)

# A value that a model is shown; None stands for "not measured". Suites may also give lists and
# mappings of such values, which prompts write out; see `krisis.backends.prompt.value_in_words`.
FeatureValue: TypeAlias = str | int | float | None
Features: TypeAlias = Mapping[str, FeatureValue]
# What leads the report of a task, as far as it is defined; accuracy rewards never deferring.
HEADLINE = ("decision_skill", "cost_saved", "decision_cost", "deferral_skill")


@dataclass(frozen=True, slots=True)
class ReplyField:
    """One more thing that a task asks for with each answer, such as quotes of evidence.

    ``type`` is a type that pydantic understands (``list[str]``, ``Annotated[int, Field(ge=1,
    le=5)]``): the JSON schema and the strict check both come from it.
    """

    type: object
    description: str


@dataclass(frozen=True, slots=True)
class Task:
    """A question that a suite asks about its records, with all that is known about the answers.

    ``answers`` maps every allowed answer to its meaning, in order of severity where there is one
    (``ordered``); ``positive`` is the answer whose sensitivity is reported. ``setting`` states what
    is known of the patients beforehand, such as how frequent each answer is. ``aliases`` maps other
    spellings, in lower case, to an allowed answer, or to None where they mean "no answer".
    ``reply_fields`` are asked for with every answer and become signals once checked. ``groups``
    maps the groups that results are broken down by to their metadata keys. ``default_loss`` and
    ``default_confidence`` are what selective prediction uses unless it is given others. ``metrics``
    are scored besides the usual ones. ``total`` says how the items of a patient add up. ``person``
    and ``unit`` are the words for one cluster and one record. ``paraphrase`` is the question in
    other words, for ``--perturb paraphrase``. ``short_names`` are what reports call the answers,
    where their meanings are long.
    ``costs`` are what wrong answers and deferrals cost, from which the words of the prompt, the
    cases due for deferral and the headline follow; ``price`` is short for costs at which every
    error costs 1 and a deferral so much. ``policy`` are rules by which to defer, for
    ``--instructions policy``. ``due_by`` says what makes a case due: the costs, a label of the
    data, a checklist that is only counted, or the policy.

    >>> sepsis = Task("sepsis", "Will this patient have sepsis?", {0: "no", 1: "yes"}, positive=1)
    >>> sepsis.name, sepsis.default_loss, sepsis.person
    ('sepsis', 'error', 'patient')
    """

    # Names of tasks that the suites of krisis have, for `SuiteConfig(task=Task.STAGING)`.
    DETECTION: ClassVar[str] = "detection"
    STAGING: ClassVar[str] = "staging"
    PROGRESSION: ClassVar[str] = "progression"
    ALBUMINURIA: ClassVar[str] = "albuminuria"
    RISK: ClassVar[str] = "risk"

    name: str
    question: str = ""
    answers: Mapping[Label, str] = field(default_factory=dict)
    features: Mapping[str, FeatureDescription] = field(default_factory=dict)
    aliases: Mapping[str, Label | None] = field(default_factory=dict)
    ordered: bool = False
    positive: Label | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    default_loss: Loss = "error"
    default_confidence: str = "stated"
    reply_fields: Mapping[str, ReplyField] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    total: TotalScale | None = None
    person: str = "patient"
    unit: str = "record"
    setting: str = ""
    costs: Costs = ASSUMED
    paraphrase: str = ""
    short_names: Mapping[Label, str] = field(default_factory=dict)
    policy: tuple[str, ...] = ()
    due_by: DueBy = "costs"
    price: InitVar[float | None] = None

    def __post_init__(self, price: float | None) -> None:
        if not isinstance(self.name, str):
            raise InvalidValue(f"the name of a task must be text, not {self.name!r}")
        if self.default_loss not in LOSSES:
            raise UnknownName.among("loss", str(self.default_loss), LOSSES)
        if self.default_loss != "error" and not self.ordered:
            raise InvalidValue(
                f"the task {self.name!r} has the loss {self.default_loss!r}, which needs ordered "
                "answers; set ordered=True or the loss 'error'"
            )
        if self.positive is not None and self.answer_set.match(self.positive) is None:
            raise InvalidValue(
                f"the positive answer {self.positive!r} of the task {self.name!r} is none of its "
                f"answers: {', '.join(map(str, self.answers)) or 'it has none'}"
            )
        costs = self.costs if price is None else self.costs.at(check_price(price))
        object.__setattr__(self, "costs", costs.over(self.answer_set))
        others = (name for name in self.metrics if name not in HEADLINE)
        object.__setattr__(self, "metrics", (*HEADLINE, *others))
        groups: object = self.groups
        if isinstance(groups, list | tuple):  # names that are their own metadata keys
            object.__setattr__(self, "groups", {str(name): str(name) for name in groups})

    @property
    def answer_set(self) -> AnswerSet:
        """The allowed answers, by which labels and predictions are read."""
        return AnswerSet(
            tuple(self.answers), self.ordered, self.positive, self.answers, self.short_names
        )

    @property
    def can_be_asked(self) -> bool:
        """Say whether a prompt can be built: there is a question and there are answers."""
        return bool(self.question and self.answers)

    def facts(self) -> TaskFacts:
        """Return what results must keep of the task."""
        return TaskFacts(
            self.name,
            answers=tuple(self.answers.items()),
            ordered=self.ordered,
            positive=self.positive,
            short_names=tuple(self.short_names.items()),
            groups=dict(self.groups),
            default_loss=self.default_loss,
            default_confidence=self.default_confidence,
            person=self.person,
            unit=self.unit,
            metrics=self.metrics,
            total=self.total,
            costs=self.costs,
            due_by=self.due_by,
            features=dict(self.features),
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule makes of one case; with ``abstain`` the answer counts for nothing."""

    answer: Label | None
    confidence: float | None = None
    signals: JsonMapping = field(default_factory=dict)
    abstain: bool = False

    @classmethod
    def by_cost(
        cls, costs: Costs, chances: Mapping[Label, float], signals: JsonMapping | None = None
    ) -> Judgement:
        """Return the judgement of a reader who was only asked for probabilities.

        It answers at the lowest expected cost, and defers where that is not below the price. The
        probabilities are kept in the signals, also where it defers.

        >>> Judgement.by_cost(Costs(), {"ill": 0.85, "well": 0.15}).answer
        'ill'
        >>> Judgement.by_cost(Costs(), {"ill": 0.75, "well": 0.25}).abstain
        True
        """
        own = {str(answer): round(float(chance), 6) for answer, chance in chances.items()}
        kept = {**(signals or {}), OWN_PROBABILITIES: own}
        decided = costs.decide(chances)
        if decided is None:
            return cls(None, signals=kept, abstain=True)
        return cls(*decided, kept)


# Sees what a model sees: the features and the context of a record. A rule that is a dataclass
# instance has its fields with a default as options.
Rule: TypeAlias = Callable[[Features, str], Judgement]
