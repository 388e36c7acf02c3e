"""What became of every record of a run, and why some failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult

UNCLASSIFIED = "unclassified"


@dataclass(frozen=True, slots=True)
class FailureClass:
    """How many records failed in one way, and what was said about the first of them."""

    n: int
    example: str


@dataclass(frozen=True, slots=True)
class Attrition:
    """What became of every record, from loading to outcome; ``failures`` by class, most first.

    >>> print(Attrition(5, 4, n_answered=2, n_abstained=1, n_failed=1))
    1 of 4 records FAILED: 5 loaded → 4 sent → 2 answered / 1 abstained / 1 failed
    """

    n_loaded: int = 0
    n_sent: int = 0
    n_answered: int = 0
    n_abstained: int = 0
    n_failed: int = 0
    failures: Mapping[str, FailureClass] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[EvaluationResult], n_loaded: int | None = None) -> Attrition:
        """Count rows by outcome, failed ones by class with the first error as an example."""
        failed = [row for row in rows if row.error is not None]
        n_abstained = sum(row.abstained for row in rows if row.error is None)
        examples: dict[str, str] = {}
        for row in failed:
            examples.setdefault(row.failure_class or UNCLASSIFIED, row.error or "")
        counts = Counter(row.failure_class or UNCLASSIFIED for row in failed)
        return cls(
            len(rows) if n_loaded is None else n_loaded,
            len(rows),
            len(rows) - n_abstained - len(failed),
            n_abstained,
            len(failed),
            {name: FailureClass(n, examples[name]) for name, n in counts.most_common()},
        )

    def __str__(self) -> str:
        """Say what became of the records; failures come first."""
        lost = f"{self.n_failed} of {self.n_sent} records FAILED" if self.n_failed else "Records"
        return (
            f"{lost}: {self.n_loaded} loaded → {self.n_sent} sent → {self.n_answered} answered / "
            f"{self.n_abstained} abstained / {self.n_failed} failed"
        )

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
