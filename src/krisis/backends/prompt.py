"""Turn features and a task into a prompt, and build its redacted template beside it.

Nothing here ever sees a record: label and metadata cannot reach a prompt. The template is built
from the names of the features alone, so no value can reach it either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from krisis.backends.elicitation import Asking, Elicitation, Way
from krisis.backends.schema import case_name
from krisis.backends.template import filled
from krisis.backends.wording import PLAIN, Wording, wording_of
from krisis.data.base import FeatureDescription, Features, Label, Task
from krisis.data.instructions import abstention_text
from krisis.data.perturbation import Perturbation, in_second_unit, is_missing, reordered
from krisis.errors import InvalidValue

REDACTED = "[redacted]"
# Begins every line of a free text, so that no line of it can pass for a finding or an instruction.
_QUOTE = "\n  | "
IN_THE_USUAL_WAY = Asking()


@dataclass(frozen=True, slots=True)
class Prompt:
    """The two messages that are sent, and the text that is stored in their place."""

    system: str
    user: str
    template: str


def build_prompt(
    task: Task,
    features: Sequence[Features],
    *,
    batch: bool = False,
    context: str = "",
    asking: Asking = IN_THE_USUAL_WAY,
) -> Prompt:
    """Put one case, or a batch of them, into words.

    ``context`` is a longer text that all cases share, such as a transcript; it is shown once.
    ``asking`` is in whose words and form it is said, and how the confidence is asked for.
    """
    if not features or (not batch and len(features) != 1):
        raise InvalidValue(
            f"a {'batch' if batch else 'single'} prompt was given {len(features)} cases; "
            f"pass {'at least one' if batch else 'exactly one'}"
        )
    words = _Words(task, _names_in_order(task, features), asking)
    text = words.wording.template if asking.prompt is None else asking.prompt.text
    slots = words.slots(asking, batch=batch)
    shown = words.findings(features, batch=batch)
    return _prompt(text, slots, shown, words.redacted(batch=batch), context)


def build_reader_text(task: Task, features: Features, *, context: str = "") -> Prompt:
    """Put one case into words for a person: a model's prompt without the form of the reply."""
    words = _Words(task, _names_in_order(task, [features]), IN_THE_USUAL_WAY)
    text = words.wording.template.replace("{reply}\n\n", "")
    slots = words.slots(IN_THE_USUAL_WAY, batch=False)
    shown = words.findings([features], batch=False)
    return _prompt(text, slots, shown, words.redacted(batch=False), context)


def build_p_true_prompt(
    task: Task,
    features: Sequence[Features],
    answers: Sequence[Label],
    *,
    batch: bool = False,
    context: str = "",
    asking: Asking = IN_THE_USUAL_WAY,
) -> Prompt:
    """Ask, of each case, for the probability that the answer proposed to it is true."""
    words = _Words(task, _names_in_order(task, features), asking)
    slots = words.about(_probability_format(words.wording, batch=batch))
    shown = words.findings(features, [words.proposal(one) for one in answers], batch=batch)
    bare = words.redacted(f"{words.wording.proposed} {REDACTED}", batch=batch)
    return _prompt(words.wording.p_true_template, slots, shown, bare, context)


def how_sure_text(names: Sequence[str], asking: Asking) -> str:
    """Ask, in a second turn, how probable the answer is, or each of those to the cases named."""
    wording = wording_of(asking.perturbed)
    which = [f"{wording.each_of} {', '.join(names)}."] if names else []
    asked = _probability_format(replace(wording, each=""), batch=bool(names))
    return "\n\n".join([wording.how_sure, *which, asked])


def _prompt(text: str, slots: dict[str, str], shown: str, bare: str, context: str) -> Prompt:
    """Fill a template with the findings, and beside it with the same without their values."""
    real = "\n\n".join([*_shared(context), shown])
    redacted = "\n\n".join([*_shared(REDACTED if context else ""), bare])
    system, user = filled(text, {**slots, "findings": real})
    _, stored = filled(text, {**slots, "findings": redacted})
    return Prompt(system, user, f"{system}\n\n{stored}")


class _Words:
    """How one prompt is worded: the task, the order of its findings, and the words around them."""

    def __init__(self, task: Task, names: list[str], asking: Asking) -> None:
        perturbed = asking.perturbed
        kind = None if perturbed is None else perturbed.kind
        self._given = task
        self._task = asking.form(task)
        self._names = names
        if perturbed is not None and kind is Perturbation.FEATURE_ORDER:
            self._names = reordered(names, perturbed.seed)
        self.wording = wording_of(perturbed)
        self._converts = kind is Perturbation.UNIT

    def findings(
        self, features: Sequence[Features], proposals: Sequence[str] = (), *, batch: bool
    ) -> str:
        """Return the findings of every case, each with what is proposed about it."""
        blocks = [
            self.block(self.values(case), case_name(i) if batch else "")
            for i, case in enumerate(features)
        ]
        if proposals:
            blocks = [f"{one}\n{said}" for one, said in zip(blocks, proposals, strict=True)]
        return "\n\n".join(blocks)

    def redacted(self, proposal: str = "", *, batch: bool) -> str:
        """Return the findings without their values, for one case or for each of a batch."""
        values = {name: _redacted(_description(self._task, name)) for name in self._names}
        block = self.block(values, "case_N (one such block for each case)" if batch else "")
        return f"{block}\n{proposal}" if proposal else block

    def proposal(self, answer: Label) -> str:
        """Return an answer as it is proposed, with its meaning."""
        return f"{self.wording.proposed} {answer}: {self._task.answers[answer]}"

    def slots(self, asking: Asking, *, batch: bool) -> dict[str, str]:
        """Return what fills the slots of a template, all but the findings."""
        elicit = asking.elicit
        task = elicit.task(self._task)
        confidence = self.wording.confidence
        if elicit.way is Way.TOP_K:
            confidence = self.wording.guesses.format(n=elicit.guesses_about(task))
        elif elicit.way is Way.TWO_STEP:
            confidence = ""
        return {
            **self.about(_reply_format(task, self.wording, elicit, batch=batch)),
            "abstention": abstention_text(task, asking.instructions),
            "confidence": confidence,
        }

    def about(self, reply: str) -> dict[str, str]:
        """Return what is said of the task, and the form of the reply."""
        task = self._task
        described = [(name, _description(task, name)) for name in self._names]
        meanings = [f"- {_label(n, d)}: {d.meaning}" for n, d in described if d.meaning]
        return {
            "question": task.question,
            "answers": "\n".join(f"- {answer}: {words}" for answer, words in task.answers.items()),
            "meanings": "\n".join(meanings),
            "setting": task.setting,
            "reply": reply,
        }

    def block(self, values: Mapping[str, str], heading: str) -> str:
        """Return the findings of one case, a line each."""
        names = [name for name in self._names if name in values]
        lines = [_finding(values[n], _label(n, _description(self._task, n))) for n in names]
        return "\n".join([f"{heading}:" if heading else self.wording.findings, *lines])

    def values(self, case: Features) -> dict[str, str]:
        """Return the values of one case in words."""
        return {name: self._value(name, value) for name, value in case.items()}

    def _value(self, name: str, value: object) -> str:
        described = _description(self._given, name)
        if self._converts and described.second_unit is not None:
            converted = in_second_unit(value, described.second_unit)
            if converted is not None:
                value, described = converted, _description(self._task, name)
        return value_in_words(value, described, self.wording)


def _redacted(description: FeatureDescription) -> str:
    if description.text:
        return f"{_QUOTE}{REDACTED}"
    return _with_unit(REDACTED, description, coded=False)


def _names_in_order(task: Task, features: Iterable[Features]) -> list[str]:
    present = dict.fromkeys(name for case in features for name in case)
    return [n for n in task.features if n in present] + [
        n for n in present if n not in task.features
    ]


def _reply_format(task: Task, wording: Wording, elicit: Elicitation, *, batch: bool) -> str:
    fields = dict.fromkeys(task.reply_fields, "<…>")
    fields["abstained"] = "<true or false>"
    if elicit.way is Way.TOP_K:
        one = '{"answer": <one of the allowed answers>, "probability": <a number from 0 to 1>}'
        fields["guesses"] = f"[{one}, …]"
    else:
        fields["prediction"] = "<one of the allowed answers, or null when you abstain>"
    if elicit.way not in (Way.TOP_K, Way.TWO_STEP):
        fields["confidence"] = "<a number from 0 to 1, or null when you abstain>"
    extra = [f'- "{name}": {field.description}' for name, field in task.reply_fields.items()]
    return "\n".join([_shape(fields, wording, batch=batch), *extra])


def _probability_format(wording: Wording, *, batch: bool) -> str:
    return _shape({"probability": "<a number from 0 to 1>"}, wording, batch=batch)


def _shape(fields: Mapping[str, str], wording: Wording, *, batch: bool) -> str:
    """Return the instruction to reply, and the JSON object to reply with."""
    shape = ", ".join(f'"{name}": {words}' for name, words in fields.items())
    one = "{" + shape + "}"
    if batch:
        one = '{"results": [{"id": "<name of the case>", ' + shape + "}, …]}"
    each = f"{wording.each} " if batch and wording.each else ""
    return f"{each}{wording.reply}\n{one}"


def _shared(context: str) -> list[str]:
    return [f"<context>\n{context}\n</context>"] if context else []


def _finding(value: str, label: str) -> str:
    return f"- {label}:{value}" if value.startswith(_QUOTE) else f"- {label}: {value}"


def _description(task: Task, name: str) -> FeatureDescription:
    return task.features.get(name) or FeatureDescription(name)


def _label(name: str, description: FeatureDescription) -> str:
    return description.words or name


def value_in_words(value: object, description: FeatureDescription, wording: Wording = PLAIN) -> str:
    """Write a value with its unit or its coded meaning; a missing one is said to be missing.

    >>> value_in_words(2.40, FeatureDescription("serum creatinine", "mg/dL"))
    '2.4 mg/dL'
    >>> value_in_words(2.0, FeatureDescription("serum creatinine", "mg/dL", decimals=1))
    '2.0 mg/dL'
    >>> value_in_words(1.0, FeatureDescription("hypertension", values={0: "no", 1: "yes"}))
    'yes'
    >>> value_in_words(float("nan"), FeatureDescription("albumin", "g/dL"))
    'not measured'
    >>> value_in_words(None, FeatureDescription("sex", values={0: "male", 1: "female"}))
    'not stated'

    The entries of a list are written one after the other, those of a mapping with their names,
    what is nested further in brackets, and an empty one as "none". A free text is quoted line by
    line.

    >>> value_in_words(["aspirin", {"drug": "insulin", "units": 12}], FeatureDescription("drugs"))
    'aspirin, (drug: insulin, units: 12)'
    """
    if isinstance(value, Enum):
        value = value.value
    if type(value).__name__ == "datetime64":  # of NumPy; as a list it would be a bare number
        value = str(value)
    tolist = getattr(value, "tolist", None)  # NumPy arrays and scalars
    value = tolist() if callable(tolist) else value
    if is_missing(value):
        return wording.not_stated if description.values else wording.not_measured
    if isinstance(value, Mapping | list | tuple):
        return _with_unit(_entries(value, description, wording), description, coded=not value)
    if isinstance(value, float):
        value = _number(value, description.decimals)
    known = description.values
    coded = known.get(value) if isinstance(value, int | str) else None
    coded = known.get(str(value)) if coded is None else coded
    if description.text:
        return "".join(f"{_QUOTE}{line}".rstrip() for line in str(value).strip().splitlines())
    # A line break inside a value could pass for the next finding or the next case.
    text = " ".join(str(value if coded is None else coded).split())
    return _with_unit(text, description, coded=coded is not None)


def _number(value: float, decimals: int | None) -> int | float | str:
    """Return a number with all the digits it has, and no fewer than it was measured with."""
    padded = f"{value:.{decimals or 0}f}"
    if decimals and float(padded) == value:
        return padded
    return int(value) if value.is_integer() else value


def _entries(
    value: Mapping[str, object] | Sequence[object], entry: FeatureDescription, wording: Wording
) -> str:
    named = value.items() if isinstance(value, Mapping) else [("", item) for item in value]
    bare = replace(entry, unit="", second_unit=None)
    written = []
    for name, item in named:
        text = value_in_words(item, bare, wording)
        text = f"({text})" if isinstance(item, Mapping | list | tuple) and item else text
        written.append(" ".join([*(f"{name}:".split() if name else []), text]))
    return ", ".join(written) or "none"


def _with_unit(text: str, description: FeatureDescription, *, coded: bool) -> str:
    return text if coded or not description.unit else f"{text} {description.unit}"
