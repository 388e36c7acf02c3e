"""Stage 1: what a suite hands on (`PatientRecord`), what it asks (`Task`), what it must offer."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Self, TypeVar

from krisis.answers import Label
from krisis.cost_file import AnyCosts, stated_costs
from krisis.costs import check_price
from krisis.data.patient_record import (
    PatientRecord,
    Records,
    content_hash,
    content_id,
    first_records,
    records_hash,
)
from krisis.data.task import Features, FeatureValue, Judgement, ReplyField, Rule, Task
from krisis.display import cut
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject
from krisis.task_facts import FeatureDescription, SecondUnit, TotalScale

__all__ = [
    "BaseDataSuite",
    "FeatureDescription",
    "FeatureSet",
    "FeatureValue",
    "Features",
    "Judgement",
    "Label",
    "PatientRecord",
    "RecordListSuite",
    "Records",
    "ReplyField",
    "Rule",
    "SecondUnit",
    "SuiteConfig",
    "Task",
    "TotalScale",
    "age_band",
    "content_hash",
    "content_id",
    "first_records",
    "member_of",
    "options_from",
    "records_hash",
]


Choice = TypeVar("Choice", bound=StrEnum)
Options = TypeVar("Options")


class FeatureSet(StrEnum):
    """How much of the record the model may see."""

    REDUCED = "reduced"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class SuiteConfig:
    """The choices that every suite understands; None is: as the suite has it.

    ``task`` is a name that the suite must know, by default its first one. ``n_synthetic`` is by
    default 200, or none beside a file; ``test_size`` is what a file states, or 0.2. ``costs``
    replaces what the task says that answers cost, ``price`` only what a deferral does.
    ``by_policy`` asks by the policy of the task: a case is due, too, where a rule of it says so.

    >>> config = SuiteConfig(seed=7)
    >>> config.n_synthetic, config.synthetic_count, config.held_out_share
    (None, 200, 0.2)
    """

    features: FeatureSet = FeatureSet.REDUCED
    task: str | None = None
    seed: int = 42
    n_synthetic: int | None = None
    test_size: float | None = None
    costs: AnyCosts | None = None
    price: float | None = None
    by_policy: bool = False

    def __post_init__(self) -> None:
        if self.price is not None:
            object.__setattr__(self, "price", check_price(self.price))
        object.__setattr__(self, "features", member_of(FeatureSet, self.features, "feature set"))
        object.__setattr__(self, "task", _task_name(self.task))
        n = self.n_synthetic
        if isinstance(n, bool) or not isinstance(n, int | None):
            raise InvalidValue(f"n_synthetic must be a whole number, not {n!r}")
        if n is not None and n < 0:
            raise InvalidValue(f"n_synthetic must be 0 or more, not {n}")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise InvalidValue(f"seed must be a whole number of 0 or more, not {self.seed!r}")
        if self.test_size is not None and not 0 < self.test_size < 1:
            raise InvalidValue(f"test_size must be between 0 and 1, not {self.test_size!r}")

    @property
    def synthetic_count(self) -> int:
        """Return how many synthetic patients a suite without a file has."""
        return 200 if self.n_synthetic is None else self.n_synthetic

    @property
    def held_out_share(self) -> float:
        """Return the share of a file that is held out where the file does not state one."""
        return 0.2 if self.test_size is None else self.test_size


def member_of(kind: type[Choice], value: object, what: str) -> Choice:
    """Return the member of an enumeration that a user names, or say which there are."""
    try:
        return kind(str(value).strip().lower().replace("-", "_"))
    except ValueError:
        raise UnknownName.among(what, str(value), [member.value for member in kind]) from None


def options_from(kind: type[Options], given: object, what: str) -> Options:
    """Return options as a program gives them, or by their names as a configuration file does."""
    if given is None or isinstance(given, kind):
        return given or kind()
    names = [str(name) for name in vars(kind)["__dataclass_fields__"]]
    if not isinstance(given, Mapping):
        raise InvalidValue(f"{what} must be a mapping of {' or '.join(names)}, not {given!r}")
    for name in given:
        if name not in names:
            raise UnknownName.among(f"option of {what}", str(name), names)
    return kind(**given)


def age_band(age: float, starts: Sequence[int] = (0, 18, 40, 60, 75)) -> str:
    """Return the group of an age, by the first years of the groups.

    >>> age_band(39.5), age_band(90)
    ('18–39', '75+')
    """
    place = sum(age >= start for start in starts)
    return f"{starts[place - 1]}–{starts[place] - 1}" if place < len(starts) else f"{starts[-1]}+"


def _task_name(value: object) -> str | None:
    if isinstance(value, Task):
        value = value.name
    if not isinstance(value, str | None):
        raise InvalidValue(f"task must be the name of a task, not {value!r}")
    return (value or "").strip().lower() or None


class BaseDataSuite(ABC):
    """A clinical benchmark: it produces records and owns everything that is said about them.

    A subclass must implement `load`. ``tasks`` are the questions it can ask, the first being the
    default; an entry may be a function that makes the task from the suite. ``rules`` judge in place
    of a model, and ``readers`` are people who did. With ``stores_text`` false, nothing that a model
    wrote about the records is kept in a run, because it may quote them; ``notice`` is shown before
    the records are put to a model, such as the terms of a licence; ``terms`` are those under which
    real people gave their data, which are kept with the run and recalled before a provider is sent
    them; ``baselines`` names the backends that every result is read against; ``feature_sets`` are
    those that `load` tells apart; ``run_format`` is the registered file format that finished runs
    are also written in; ``rows_per_patient`` is the largest number of records that a patient can
    have, where there is one; ``option_words`` says what each option of `__init__` means, for
    `krisis info`. A subclass without a ``name`` is called after its class.

    >>> class SepsisSuite(BaseDataSuite):
    ...     tasks = {"onset": Task("onset", "Will sepsis begin?", {0: "no", 1: "yes"})}
    ...     def load(self):
    ...         return [PatientRecord({"lactate": 4.1}, 1)]
    >>> SepsisSuite().describe()["suite"], SepsisSuite().task.name
    ('sepsis', 'onset')
    """

    name: str = "suite"
    tasks: Mapping[str, Task | Callable[..., Task]] = MappingProxyType({})
    stores_text: bool = True
    baselines: tuple[str, ...] = ()
    to_get_training_records: str = "add training_records() to it"
    notice: str = ""
    terms: str = ""
    feature_sets: tuple[FeatureSet, ...] = ()
    run_format: str = ""
    rows_per_patient: int | None = None
    option_words: Mapping[str, str] = MappingProxyType({})
    config: SuiteConfig = SuiteConfig()
    _loaded: Records | None = None

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        if cls.name == BaseDataSuite.name:
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__.removesuffix("Suite"))
            cls.name = words.lower() or "suite"
        tasks: object = cls.tasks
        if isinstance(tasks, list | tuple):  # tasks are called by their own names anyway
            cls.tasks = {task.name: task for task in tasks}

    def __init__(self, config: SuiteConfig | None = None) -> None:
        self.config = config or SuiteConfig()
        if self.tasks:
            self.config = replace(self.config, task=self.task_name)

    def _refuse_choices(self, *, source: object) -> None:
        """Refuse a feature set and synthetic patients, of a suite that has the people of a source.

        What they are shown, the tasks say.
        """
        if self.config.features is not FeatureSet.REDUCED:
            raise InvalidValue(
                f"features={self.config.features.value!r} is no choice of the suite {self.name!r}, "
                "whose tasks say what is shown; leave it out"
            )
        if self.config.n_synthetic:
            raise InvalidValue(
                f"n_synthetic={self.config.n_synthetic} asks for synthetic patients, and the suite "
                f"{self.name!r} has the people of {source} only; leave it out"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({cut(self.name)!r}, task={cut(self.task_name)!r})"

    @abstractmethod
    def load(self) -> list[PatientRecord]:
        """Return the records to evaluate; the same bytes every time for one configuration."""

    @property
    def task(self) -> Task:
        """Return the chosen task; of a suite that states none, only the name can be known."""
        name = self.task_name
        entry = self.tasks.get(name)
        if entry is None:
            return self._as_configured(Task(name))
        return self._as_configured(entry if isinstance(entry, Task) else entry(self))

    def _as_configured(self, task: Task) -> Task:
        """Return the task at the costs of the configuration, and by its policy if it asks so."""
        config = self.config
        if config.by_policy and not task.policy:
            raise InvalidValue(
                f"the task {task.name!r} of the suite {self.name!r} states no policy; omit "
                "--instructions policy"
            )
        if config.costs is None and config.price is None and not config.by_policy:
            return task
        costs = stated_costs(task.costs, config.costs, config.price)
        return replace(task, costs=costs, due_by="policy" if config.by_policy else task.due_by)

    @property
    def task_name(self) -> str:
        """Return the name of the chosen task as the suite spells it, by default of its first."""
        chosen = self.config.task or ""
        if not self.tasks or not chosen:
            return chosen or next(iter(self.tasks), "")
        for name in self.tasks:
            if name.casefold() == chosen.casefold():
                return name
        raise UnknownName.among(f"task of the suite {self.name!r}:", chosen, self.tasks)

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the rules that can judge the records in place of a model, by name."""
        return {}

    @property
    def readers(self) -> Mapping[str, Mapping[str, Judgement]]:
        """Return what people said about the records, by their name and by record id.

        A case that a reader never read is not in the mapping.
        """
        return {}

    def training_records(self) -> list[PatientRecord]:
        """Return records that baselines may be fitted on; never one that `load` returns."""
        return []

    def review(self, record: PatientRecord, signals: JsonMapping) -> JsonMapping:
        """Return the signals of a response as the suite finds them, such as quotes checked."""
        return signals

    def records(self) -> Records:
        """Return what `load` produces, loaded once and kept."""
        if self._loaded is None:
            loaded: object = self.load()
            if not isinstance(loaded, list | tuple) or not all(
                isinstance(record, PatientRecord) for record in loaded
            ):
                raise InvalidValue(
                    f"load() of the suite {self.name!r} must return a list of PatientRecord, "
                    f"not {type(loaded).__name__ if not loaded else repr(loaded)[:60]}"
                )
            self._loaded = Records(loaded)
        return self._loaded

    def first(self, limit: int | None) -> Records:
        """Return the first records, and the rest of the last one's group: groups stay whole."""
        return first_records(self.records(), limit)

    def restricted(self, records: Sequence[PatientRecord]) -> Self:
        """Return the suite as if these were the records that it produces."""
        part = copy(self)
        part._loaded = Records(records)
        return part

    def describe(self) -> JsonObject:
        """Say what the suite is, where its data come from and what was produced."""
        records = self.records()
        features = self.config.features
        tells_features_apart = self.feature_sets or features is not FeatureSet.REDUCED
        return {
            "suite": self.name,
            "task": self.task.name,
            **({"features": features.value} if tells_features_apart else {}),
            "seed": self.config.seed,
            "n_records": len(records),
            "costs": self.task.costs.to_json(),
            "content_hash": records.content_hash,
            "case_hash": records.case_hash,
        }


class RecordListSuite(BaseDataSuite):
    """A suite over records that the user already holds."""

    name = "records"

    def __init__(
        self,
        records: Sequence[PatientRecord],
        task: Task | None = None,
        config: SuiteConfig | None = None,
        *,
        name: str = "",
    ) -> None:
        self.name = name or self.name
        self.tasks = {task.name: task} if task is not None else self.tasks
        super().__init__(config)
        self._records = list(records)

    def load(self) -> list[PatientRecord]:
        """Return the given records in the given order."""
        return list(self._records)
