"""Whether the cases that one of two runs lacks are like the cases that both have."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import scipy  # its parts are imported when they are first used

from krisis.json_values import JsonObject
from krisis.results.matching import MatchedRuns
from krisis.results.result import BenchmarkResult

_LIKELY = 0.05


@dataclass(frozen=True, slots=True)
class MissingCases:
    """The cases that ``lacks`` has no reply to, and how ``other`` did on them and on the rest.

    ``p_value`` is that of Fisher's exact test that ``other`` is as often right on both. Rows count
    as independent.

    Reference: Fisher, Statistical Methods for Research Workers, 5th edition (1934), section 21.02.
    """

    lacks: str
    other: str
    n_missing: int
    n_right_missing: int
    n_common: int
    n_right_common: int
    p_value: float

    @property
    def differs(self) -> bool:
        """Tell whether the missing cases are unlike the rest, as far as accuracy shows it."""
        return self.p_value <= _LIKELY

    def to_dict(self) -> JsonObject:
        """Return everything as JSON values."""
        return {**asdict(self), "differs": self.differs}


def missing_cases(runs: dict[str, BenchmarkResult], matched: MatchedRuns) -> list[MissingCases]:
    """Return, for each of two runs that lacks cases, how the other did on them."""
    left, right = runs
    found = []
    for lacks, other in ((left, right), (right, left)):
        if not matched.lacking[other]:
            continue
        lacking = runs[other].rows.taken(matched.lacking[other]).table
        n_missing, n_right_missing = lacking.n_scored, int(lacking.correct.sum())
        table = matched.rows[other].table
        n_common, n_right_common = table.n_scored, int(table.correct.sum())
        counts = [
            [n_right_missing, n_missing - n_right_missing],
            [n_right_common, n_common - n_right_common],
        ]
        found.append(
            MissingCases(
                lacks=lacks,
                other=other,
                n_missing=n_missing,
                n_right_missing=n_right_missing,
                n_common=n_common,
                n_right_common=n_right_common,
                p_value=float(scipy.stats.fisher_exact(counts).pvalue),
            )
        )
    return found
