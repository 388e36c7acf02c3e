"""What the user says about a file (`ImportOptions`) and what a format reads of it (`Reading`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from krisis.answers import Label
from krisis.backends.secrets import recognisable_keys
from krisis.costs import Costs
from krisis.errors import InvalidValue
from krisis.json_values import NO_VALUES, JsonMapping, JsonObject, JsonValue
from krisis.results.stops import StopCause

LONGEST_TEXT, LONGEST_ERROR = 1_000_000, 300
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_CLASS_NAME = re.compile(r"[a-z][a-z_]{1,39}")


class CannotTake(Exception):
    """Why one row of a file cannot become a row of a run."""


class ImportOptions(BaseModel):
    """What the user says about a file; every field is an option of `krisis import`."""

    model_config = ConfigDict(extra="forbid")

    truth: str = ""
    prediction: str = ""
    confidence: str = ""
    confidence_scale: float | None = Field(default=None, gt=0)
    abstained: str = ""
    error: str = ""
    id: str = ""
    repeat: str = ""
    patient: str = ""
    should_defer: str = ""
    group: list[str] = []
    answers: str | list[Label] | dict[Label, str] = ""
    ordinal: bool = False
    positive: Label | None = None
    costs: Costs | str | None = None
    price: float | None = Field(default=None, gt=0, lt=1)
    abstain_answer: list[str] = []
    empty: Literal["abstained", "no_answer", "unread"] | None = None
    scorer: str = ""
    judged_by: str = ""
    filter: str = ""
    model: str = ""
    reader: str = ""
    task: str = ""
    suite: str = ""

    def given(self) -> JsonObject:
        """Return the options that say something."""
        values = ((name, getattr(self, name)) for name in sorted(self.model_fields_set))
        values = ((n, v.to_json() if isinstance(v, Costs) else v) for n, v in values)
        return {
            n: value for n, value in values if value is not False and value not in ("", [], None)
        }

    def answer_pairs(self) -> list[tuple[Label, str]]:
        """Return the answers with their words, as `0=no,1=yes`, a list or a mapping gives them."""
        if isinstance(self.answers, Mapping):
            return [(answer, str(words)) for answer, words in self.answers.items()]
        if isinstance(self.answers, list):
            return [(answer, "") for answer in self.answers]
        parts = [part.partition("=") for part in self.answers.split(",") if part.strip()]
        return [(answer.strip(), words.strip()) for answer, _, words in parts]


class ConfidencePlace:
    """Where the confidence of a reply is: `score:NAME`, `metadata:KEY` or `pattern:REGEX`.

    A score that has several values, or a confidence in its metadata, is `score:NAME.KEY`. Of
    several matches of a pattern the last counts, its first group being the number.
    """

    def __init__(self, place: str, kinds: Sequence[str] = ("score", "metadata", "pattern")) -> None:
        self._kind, colon, self._name = place.partition(":")
        self._pattern = re.compile("")
        if not place:
            return
        if not colon or self._kind not in kinds or not self._name:
            known = ", ".join(f"{kind}:…" for kind in kinds)
            raise InvalidValue(f"--confidence {place!r} is none of {known}")
        if self._kind == "pattern":
            try:
                self._pattern = re.compile(self._name)
            except re.error as error:
                raise InvalidValue(f"--confidence {place!r} is no pattern: {error}") from None
            if not self._pattern.groups:
                raise InvalidValue(f"--confidence {place!r} needs a group, such as (\\d+)")

    def taken_for(self) -> dict[str, str]:
        """Say where it is, if anywhere."""
        return {"confidence": f"{self._kind} {self._name}"} if self._kind else {}

    def find(self, text: str, metadata: JsonMapping, scores: JsonMapping) -> JsonValue:
        """Return what is there, None if nothing is."""
        if self._kind == "pattern":
            found = [match[1] for match in self._pattern.finditer(text)]
            return found[-1] if found else None
        if self._kind == "metadata":
            return metadata.get(self._name)
        name, _, key = self._name.rpartition(".")
        score = scores.get(self._name) or scores.get(name)
        if not isinstance(score, dict):
            return None
        if self._name in scores:
            return score.get("value")
        held = [score.get("value"), score.get("metadata")]
        return next((one[key] for one in held if isinstance(one, dict) and key in one), None)


@dataclass(slots=True, kw_only=True)
class SourceRow:
    """One row as its file has it, nothing checked yet.

    ``answer`` None is not recorded, "" is looked for and not found; ``is_right`` is what a scorer
    says, None where answer and truth are compared. ``choices`` are labels with their words;
    ``values`` hold what cluster, deferral label and groups are looked up in.
    """

    place: str
    record_id: JsonValue
    repeat: int = 0
    truth: JsonValue = None
    answer: JsonValue = None
    is_right: bool | None = None
    abstained: bool = False
    error: str | None = None
    failure_class: str = ""
    confidence: JsonValue = None
    values: JsonMapping = field(default_factory=dict)
    choices: tuple[tuple[Label, str], ...] = ()
    raw_response: str = ""
    signals: JsonMapping = NO_VALUES
    tokens: tuple[int | None, int | None, int | None] = (None, None, None)
    model: str = ""
    finish_reason: str = ""
    latency_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A row of a file that is not in the run, and why."""

    place: str
    record_id: str
    reason: str


@dataclass(slots=True)
class Reading:
    """Everything that a format finds in one file; ``n_expected`` rows should have been there."""

    rows: list[SourceRow | NotTaken]
    taken_for: dict[str, str]
    model: str
    task: str
    suite: str
    notes: list[str] = field(default_factory=list)
    n_expected: int = 0
    stop: StopCause | None = None
    read: str = ""  # how many of the rows a reader read, where not all


def as_number(value: JsonValue) -> float | None:
    """Return a finite number, None for anything else."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None  # not NaN, not infinite


def as_truth(value: JsonValue) -> bool | None:
    """Return true or false as tables write them; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _TRUTHS.get(str(value).strip().casefold())


def without_keys(text: str) -> str:
    """Return the words of a failure on one line, shortened and without known keys."""
    for key in recognisable_keys():
        text = key.removed_from_error(text)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 1]}…"


def class_in(text: str) -> str:
    """Return a text that is the name of a failure class, else nothing."""
    return text if _CLASS_NAME.fullmatch(text) else ""
