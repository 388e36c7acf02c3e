"""Missed disease: of the diseased, how many were found, told otherwise or left for people."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from krisis.metrics.forms import Share
from krisis.metrics.table import BoolArray, Table
from krisis.pages.document import Finding, Stated
from krisis.pages.numbers import Estimate, count, counted
from krisis.statistics.bootstrap import BootstrapOptions

_SPACES_OF_A_NAME = 2  # such as "no kidney disease"


def _named(answer: str) -> str:
    """Return an answer as a name: a number is called one, and a whole sentence is quoted."""
    if answer.isdigit():
        return f"answer {answer}"
    return f"“{answer}”" if answer.count(" ") > _SPACES_OF_A_NAME else answer


@dataclass(frozen=True, slots=True, eq=False)
class Missed:
    """The rows of a table by what became of the diseased; ``positive`` and ``other`` are names."""

    table: Table
    ill: BoolArray
    answered: BoolArray
    told_positive: BoolArray
    positive: str
    other: str

    @classmethod
    def of(cls, table: Table, answered: BoolArray | None = None) -> Missed | None:
        """Return the rows, answered as they were or as given; None without a positive answer."""
        answers = table.answers
        two = answers.two(table.labels)
        key = answers.positive_key(table.labels)
        if key is None or (two is None and answers.positive is None):
            return None
        is_positive = np.array([label == key for label in table.labels] + [False], dtype=np.bool_)
        other = "otherwise"
        if two is not None:
            other = _named(answers.name(two[0] if two[1] == key else two[1]))
        return cls(
            table,
            is_positive[table.truth],
            table.answered if answered is None else answered,
            is_positive[table.prediction],
            _named(answers.name(key)),
            other,
        )

    def parts(self) -> dict[str, BoolArray]:
        """Return the three parts of the diseased, which add up."""
        return {
            "found": self.ill & self.answered & self.told_positive,
            f"told {self.other}": self.ill & self.answered & ~self.told_positive,
            "left for people": self.ill & ~self.answered,
        }

    def counts(self, inside: BoolArray | None = None) -> list[int]:
        """Count the diseased and their three parts, of all rows or of a group."""
        among = self.table.everyone if inside is None else inside
        return [int(np.count_nonzero(one & among)) for one in (self.ill, *self.parts().values())]

    def shares(self, level: float, inside: BoolArray | None = None) -> list[Estimate]:
        """Return the three parts as shares of the diseased, then the negative answers wrong."""
        among = self.table.everyone if inside is None else inside
        negative = self.answered & ~self.told_positive
        pairs = [*((part, self.ill) for part in self.parts().values()), (self.ill, negative)]
        return [self._estimate(hits, rows & among, level) for hits, rows in pairs]

    def words(self, unit: str = "case") -> str:
        """Say what became of the diseased."""
        n, *parts = map(count, self.counts())
        if n == "0":
            return f"none of {counted(self.table.n_scored, unit)} has {self.positive}"
        named = ", ".join(f"{m} {name}" for m, name in zip(parts, self.parts(), strict=True))
        return f"of {n} with {self.positive}: {named}"

    def finding(self, unit: str, level: float) -> Finding:
        """Return the line of the verdict, with the shares and their intervals."""
        shares = [Stated(words=self.words(unit))]
        if self.ill.any():
            shares += [
                self._share(f"{k} {{}}", v, self.ill, level) for k, v in self.parts().items()
            ]
        negative = self.answered & ~self.told_positive
        if negative.any():
            wrong = self._share(
                f"{{}} of those told {self.other} have {self.positive}", self.ill, negative, level
            )
            shares.append(wrong)
        return Finding("missed", "Missed disease", None, shares)

    def _share(self, words: str, hits: BoolArray, among: BoolArray, level: float) -> Stated:
        return Stated(words=words, estimate=self._estimate(hits, among, level), brief=False)

    def _estimate(self, hits: BoolArray, among: BoolArray, level: float) -> Estimate:
        form = Share(hits, among=among)
        if not among.any():
            return Estimate(math.nan)
        found = form.uncertainty(self.table, BootstrapOptions(level=level)).interval
        return Estimate.of(form.value(), found)
