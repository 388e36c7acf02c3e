"""What suites on real people share: who is asked about, the split and the account."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from krisis.data.base import (
    BaseDataSuite,
    FeatureDescription,
    PatientRecord,
    SecondUnit,
    SuiteConfig,
)
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject

P = TypeVar("P")


def described(entries: JsonObject) -> dict[str, FeatureDescription]:
    """Return findings in the words of a prompt."""
    found = {}
    for name, given in entries.items():
        entry = dict(given)
        codes = {int(k) if k.isdigit() else k: v for k, v in entry.pop("values", {}).items()}
        second = entry.pop("second_unit", None)
        unit = None if second is None else SecondUnit(**second)
        found[name] = FeatureDescription(values=codes, second_unit=unit, **entry)
    return found


@dataclass(frozen=True, slots=True)
class Parts(Generic[P]):
    """The people held out, those to fit on, and how many were left out and why."""

    held_out: Sequence[P]
    training: Sequence[P]
    left_out: Counter[str]


def split(
    people: Sequence[P], left_out: Callable[[P], str], *, test_size: float, seed: int
) -> Parts[P]:
    """Hold people out by the seed alone, so that one held out in one task is so in all."""
    n_held_out = min(max(1, round(len(people) * test_size)), len(people) - 1)
    order = np.random.default_rng(seed).permutation(len(people))
    held_out: list[P] = []
    training: list[P] = []
    reasons: Counter[str] = Counter()
    for place, index in enumerate(order):
        if reason := left_out(people[index]):
            reasons[reason] += 1
        else:
            (held_out if place < n_held_out else training).append(people[index])
    if not held_out:
        raise InvalidValue(
            f"test_size={test_size:g} holds out {n_held_out} people, and none of them has the "
            "values that the task needs; give a larger test_size"
        )
    return Parts(held_out, training, reasons)


class RealPeopleSuite(BaseDataSuite, Generic[P]):
    """People of one source, some held out; what happened to them is the truth, never shown."""

    name = "real_people"
    source_name: str = ""
    baselines: tuple[str, ...] = ("always-abstain", "majority", "logistic")

    def __init__(self, config: SuiteConfig | None = None) -> None:
        super().__init__(config)
        self._refuse_choices(source=self.source_name)

    @abstractmethod
    def people(self) -> Sequence[P]:
        """Return everybody in the order of the source."""

    @abstractmethod
    def left_out(self, person: P) -> str:
        """Return why a person cannot be asked about; nothing where they can."""

    @abstractmethod
    def record(self, person: P) -> PatientRecord:
        """Return the case of a person."""

    @abstractmethod
    def provenance(self) -> JsonObject:
        """Return the source, its licence, and the file with its hash."""

    @cached_property
    def parts(self) -> Parts[P]:
        """Return who is held out and who is fitted on."""
        share, seed = self.config.held_out_share, self.config.seed
        return split(self.people(), self.left_out, test_size=share, seed=seed)

    def load(self) -> list[PatientRecord]:
        """Return the people held out, in an order drawn by the seed."""
        self.notice = f"{self.account()}\n{self.terms}"
        return [self.record(person) for person in self.parts.held_out]

    def training_records(self) -> list[PatientRecord]:
        """Return everybody else."""
        return [self.record(person) for person in self.parts.training]

    def describe(self) -> JsonObject:
        """Say who is asked about, how their answers fall, and under which terms."""
        labels = Counter(str(record.label) for record in self.records())
        return {
            **super().describe(),
            "account": self.account(),
            "labels": dict(sorted(labels.items())),
            "terms": self.terms,
            "provenance": [self.provenance()],
        }

    def account(self) -> str:
        """Return how many people there are in each part, with the reasons of those left out."""
        parts = self.parts
        why = "; ".join(f"{reason}: {n}" for reason, n in sorted(parts.left_out.items()))
        return (
            f"{self.source_name}: {len(self.people())} adults read; {parts.left_out.total()} left "
            f"out{f' ({why})' if why else ''}; {len(parts.held_out)} evaluated; "
            f"{len(parts.training)} kept for fitting baselines (test_size "
            f"{self.config.held_out_share:g})"
        )
