"""What became of every record of a run, and why some failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import RowColumns
from krisis.outcomes import OUTCOMES, WORDS

UNCLASSIFIED = "unclassified"


@dataclass(frozen=True, slots=True)
class FailureClass:
    """How many records got no answer in one way, and what was said about the first of them."""

    n: int
    example: str


@dataclass(frozen=True, slots=True)
class Attrition:
    """What became of every record, from loading to outcome.

    ``failures`` are the records without an answer and those that were not evaluated, by class.

    >>> print(Attrition(5, 4, n_answered=2, n_abstained=1, n_not_evaluated=1))
    1 of 4 records NOT EVALUATED: 5 loaded → 4 sent → 2 answered / 1 abstained / 1 not evaluated
    """

    n_loaded: int = 0
    n_sent: int = 0
    n_answered: int = 0
    n_abstained: int = 0
    n_no_answer: int = 0
    n_not_evaluated: int = 0
    failures: Mapping[str, FailureClass] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[EvaluationResult], n_loaded: int | None = None) -> Attrition:
        """Count rows by outcome, failures by class with the first error as an example."""
        columns = rows.columns if isinstance(rows, Rows) else RowColumns(rows)
        found = np.bincount(columns.outcome, minlength=len(OUTCOMES)).tolist()
        return cls(
            n_loaded=len(rows) if n_loaded is None else n_loaded,
            n_sent=len(rows),
            **{f"n_{outcome}": n for outcome, n in zip(OUTCOMES, found, strict=True)},
            failures={
                name or UNCLASSIFIED: FailureClass(n, example)
                for name, n, example in columns.failures()
            },
        )

    def __str__(self) -> str:
        """Say what became of the records; what was lost comes first."""
        lost = [
            f"{n:,} of {self.n_sent:,} records {words}"
            for n, words in (
                (self.n_not_evaluated, "NOT EVALUATED"),
                (self.n_no_answer, "WITHOUT AN ANSWER"),
            )
            if n
        ]
        return (
            f"{', '.join(lost) or 'Records'}: {self.n_loaded:,} loaded → {self.n_sent:,} sent → "
            f"{' / '.join(self.parts())}"
        )

    def parts(self) -> list[str]:
        """Return the counts in words, the rarer outcomes only where there are any."""
        shown = {outcome: getattr(self, f"n_{outcome}") for outcome in OUTCOMES}
        usual = ("answered", "abstained")
        return [f"{n:,} {WORDS[one]}" for one, n in shown.items() if n or one in usual]

    @property
    def n_evaluated(self) -> int:
        """Return how many records the model replied to."""
        return self.n_answered + self.n_abstained + self.n_no_answer

    @property
    def n_lost(self) -> int:
        """Return how many records have neither an answer nor an abstention."""
        return self.n_no_answer + self.n_not_evaluated

    @property
    def says_nothing(self) -> bool:
        """Tell whether no figure would be the model's: nothing was answered, as no reply came."""
        return self.n_not_evaluated > 0 and not self.n_answered + self.n_no_answer

    @property
    def n_left(self) -> int:
        """Return how many records have no row yet."""
        return max(0, self.n_loaded - self.n_sent)

    def to_dict(self) -> JsonObject:
        """Return the counts, and the classes of failure where there are any."""
        content = asdict(self)
        if not self.failures:
            del content["failures"]
        return content
