"""Stage 1: what a suite hands on (`PatientRecord`) and what it must offer (`BaseDataSuite`)."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from krisis.errors import InvalidValue, UnknownName

Label = int | str


class Task(StrEnum):
    """What is asked about a patient."""

    DETECTION = "detection"
    STAGING = "staging"
    PROGRESSION = "progression"
    PHQ8 = "phq8"


class FeatureSet(StrEnum):
    """How much of the record the model may see."""

    REDUCED = "reduced"
    FULL = "full"


@dataclass(slots=True)
class PatientRecord:
    """One case to be judged: only ``features`` and ``context`` are ever shown to a model.

    ``label`` and ``metadata`` are for scoring. ``record_id`` names the case in every file and is
    derived from the content when not given; ``cluster_id`` names the patient, who may contribute
    several records. Records of the same non-empty ``group`` are put to a model together, whole
    groups only; ``context`` is text for the model that is shown once before such records.

    >>> PatientRecord({"sc": 2.4, "htn": 1}, 0, {"should_abstain": False}).cluster_id
    'auto-b326effe5591'
    """

    features: Mapping[str, Any]
    label: Label
    metadata: Mapping[str, Any] = field(default_factory=dict)
    record_id: str = ""
    cluster_id: str = ""
    group: str = ""
    context: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.features, Mapping):
            raise InvalidValue(f"features must be a mapping, not {type(self.features).__name__}")
        if not isinstance(self.metadata, Mapping):
            raise InvalidValue(f"metadata must be a mapping, not {type(self.metadata).__name__}")
        self.label = _whole_label(self.label)
        self.record_id = self.record_id or content_id(
            [self.features, self.label, self.metadata, *_optional(self.context)]
        )
        self.cluster_id = self.cluster_id or self.record_id


def _optional(*texts: str) -> tuple[str, ...]:
    """Leave out empty texts altogether, so that records without them keep their hash."""
    return texts if any(texts) else ()


def _whole_label(label: object) -> Label:
    if isinstance(label, str) and label.strip():
        return label
    whole = getattr(label, "__index__", None)  # NumPy integers and booleans are whole as well
    if whole is None:
        raise InvalidValue(f"label must be a whole number or a non-empty text, not {label!r}")
    return int(whole())


def content_id(content: object) -> str:
    """Derive a short, stable name from anything that JSON can hold."""
    return f"auto-{content_hash(content)[:12]}"


def content_hash(content: object) -> str:
    """Hash content by its canonical JSON, the same on every machine."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    item = getattr(value, "item", None)  # NumPy scalars
    return item() if callable(item) else str(value)


@dataclass(frozen=True, slots=True)
class SuiteConfig:
    """The choices that every suite understands; text is accepted in place of the enums."""

    features: FeatureSet = FeatureSet.REDUCED
    task: Task = Task.DETECTION
    seed: int = 42
    n_synthetic: int = 200
    test_size: float = 0.2

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _member(FeatureSet, self.features, "feature set"))
        object.__setattr__(self, "task", _member(Task, self.task, "task"))
        if isinstance(self.n_synthetic, bool) or not isinstance(self.n_synthetic, int):
            raise InvalidValue(f"n_synthetic must be a whole number, not {self.n_synthetic!r}")
        if self.n_synthetic < 0:
            raise InvalidValue(f"n_synthetic must be 0 or more, not {self.n_synthetic}")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise InvalidValue(f"seed must be a whole number of 0 or more, not {self.seed!r}")
        if not 0 < self.test_size < 1:
            raise InvalidValue(f"test_size must lie between 0 and 1, not {self.test_size!r}")


def _member(kind: type[StrEnum], value: object, what: str) -> StrEnum:
    try:
        return kind(str(value).strip().lower())
    except ValueError:
        raise UnknownName.among(what, str(value), [member.value for member in kind]) from None


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """A feature in the words of a prompt: its name, unit, meaning and coded values."""

    words: str
    unit: str = ""
    meaning: str = ""
    values: Mapping[Any, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplyField:
    """One more thing that a task asks for with each answer, such as quotes of evidence.

    ``type`` is a type that pydantic understands (``list[str]``, ``Annotated[int, Field(ge=1,
    le=5)]``): the JSON schema and the strict check both come from it.
    """

    type: Any
    description: str


@dataclass(frozen=True, slots=True)
class TaskSpecification:
    """All that a backend needs to ask a task: the question, the answers and the words.

    ``answers`` maps every allowed answer to its meaning, in order of severity where there is one
    (``ordinal``). ``aliases`` maps other spellings, in lower case, to an allowed answer, or to
    None where they are ways to write that there is no answer.
    ``reply_fields`` are asked for with every answer and land in the signals once checked.
    """

    name: str
    question: str
    answers: Mapping[Label, str]
    features: Mapping[str, FeatureDescription]
    abstain_when: str
    aliases: Mapping[str, Label | None] = field(default_factory=dict)
    ordinal: bool = False
    reply_fields: Mapping[str, ReplyField] = field(default_factory=dict)


class BaseDataSuite(ABC):
    """A clinical benchmark: it produces records and says what is asked about them.

    A subclass must implement `load`; `task_specification` is what model backends prompt from,
    `training_records` what baselines are fitted on. With ``stores_text`` false, nothing that a
    model wrote about the records is kept in a run, because it may quote them; ``notice`` is what
    a user must be told before the records are put to a model, such as the terms of a licence;
    ``baselines`` names the backends that every result on the suite is read against.
    """

    name: str = "suite"
    stores_text: bool = True
    baselines: tuple[str, ...] = ()
    notice: str = ""

    def __init__(self, config: SuiteConfig | None = None) -> None:
        self.config = config or SuiteConfig()

    @abstractmethod
    def load(self) -> list[PatientRecord]:
        """Return the records to evaluate; the same bytes every time for one configuration."""

    def task_specification(self) -> TaskSpecification:
        """Return the question put to the model about each record."""
        raise InvalidValue(
            f"{type(self).__name__} does not implement task_specification(), "
            "which a backend needs to build a prompt; add it to the suite"
        )

    def training_records(self) -> list[PatientRecord]:
        """Return records that baselines may be fitted on; never one that `load` returns."""
        return []

    def review(self, record: PatientRecord, signals: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the signals of a response as the suite finds them, such as quotes checked."""
        return signals

    def describe(self) -> dict[str, Any]:
        """Say what the suite is, where its data come from and what was produced."""
        records = self.load()
        return {
            "suite": self.name,
            "task": self.config.task.value,
            "features": self.config.features.value,
            "seed": self.config.seed,
            "n_records": len(records),
            "content_hash": records_hash(records),
        }


def records_hash(records: Iterable[PatientRecord]) -> str:
    """Hash what was produced, so that two runs can prove that they saw the same cases."""
    return content_hash(
        [
            [
                r.record_id,
                r.cluster_id,
                r.features,
                r.label,
                r.metadata,
                *_optional(r.group, r.context),
            ]
            for r in records
        ]
    )


class RecordListSuite(BaseDataSuite):
    """A suite over records that the user already holds."""

    name = "records"

    def __init__(
        self,
        records: Sequence[PatientRecord],
        specification: TaskSpecification | None = None,
        config: SuiteConfig | None = None,
    ) -> None:
        super().__init__(config)
        self._records = list(records)
        self._specification = specification

    def load(self) -> list[PatientRecord]:
        """Return the given records in the given order."""
        return list(self._records)

    def task_specification(self) -> TaskSpecification:
        """Return the given question."""
        return self._specification or super().task_specification()
