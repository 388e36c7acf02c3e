"""How far readers who judged the same cases agree, beyond chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from krisis.errors import MissingExtra
from krisis.json_values import JsonObject
from krisis.metrics.base import Rows
from krisis.results.result import BenchmarkResult
from krisis.statistics.agreement import cohen_kappa, krippendorff_alpha
from krisis.statistics.intervals import Interval

READER = "reader/"


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A coefficient of agreement with its interval by patient; NaN where it has no meaning."""

    readers: Sequence[str]
    n_cases: int
    value: float
    interval: Interval

    def to_json(self) -> JsonObject:
        """Return plain facts."""
        found = self.interval
        return {
            "readers": list(self.readers),
            "n_cases": self.n_cases,
            "value": self.value,
            "interval": [found.low, found.high],
            "level": found.level,
        }


@dataclass(frozen=True, slots=True)
class ReaderAgreement:
    """Cohen's κ of every two readers on the cases that both answered, and α of all of them.

    ``alpha`` is None of two readers, where it says what κ says, and where its package is missing.
    """

    kappa: Sequence[Coefficient]
    alpha: Coefficient | None

    def to_json(self) -> JsonObject:
        """Return plain facts."""
        return {
            "kappa": [one.to_json() for one in self.kappa],
            "alpha": None if self.alpha is None else self.alpha.to_json(),
        }


def is_reader(run: BenchmarkResult) -> bool:
    """Tell whether a run is of a person who read the cases."""
    return run.backend_name.startswith(READER) or run.backend_name == "physician"


def reader_agreement(
    runs: Mapping[str, BenchmarkResult], *, seed: int = 42
) -> ReaderAgreement | None:
    """Return the agreement of those runs that are of readers; None of fewer than two.

    Readers are taken as they are and cases as random: the intervals speak of these readers on
    other cases, not of other readers.
    """
    answers = {name: _answers(run.rows) for name, run in runs.items() if is_reader(run)}
    if len(answers) < 2:
        return None
    labels = sorted({one for given in answers.values() for one, _ in given.values()}, key=str)
    code = {label: place for place, label in enumerate(labels)}
    patients = sorted({who for given in answers.values() for _, who in given.values()})
    number = {who: place for place, who in enumerate(patients)}
    pairs = []
    for left, right in combinations(answers, 2):
        common = sorted(answers[left].keys() & answers[right].keys())
        if not common:
            pairs.append(Coefficient((left, right), 0, float("nan"), Interval.undefined("no_rows")))
            continue
        found = cohen_kappa(
            np.array([code[answers[left][case][0]] for case in common]),
            np.array([code[answers[right][case][0]] for case in common]),
            len(labels),
            np.array([number[answers[left][case][1]] for case in common]),
            seed=seed,
        )
        pairs.append(Coefficient((left, right), len(common), *found))
    alpha = None
    if len(answers) > 2:
        ordered = next(run for run in runs.values() if is_reader(run)).rows.table.answers.ordered
        with suppress(MissingExtra):  # κ of every two is there all the same
            alpha = _alpha(answers, code, number, ordered=ordered, seed=seed)
    return ReaderAgreement(pairs, alpha)


_Answers = Mapping[str, tuple[object, str]]


def _answers(rows: Rows) -> _Answers:
    """Return the answers of a reader by case, each with its patient."""
    table = rows.table
    return {
        row.record_id: (table.labels[code], row.cluster_id or row.record_id)
        for row, code, said in zip(
            table.rows, table.prediction.tolist(), table.answered.tolist(), strict=True
        )
        if said and row.record_id
    }


def _alpha(
    answers: Mapping[str, _Answers],
    code: Mapping[object, int],
    number: Mapping[str, int],
    *,
    ordered: bool,
    seed: int,
) -> Coefficient | None:
    counts: dict[str, list[int]] = {}
    who: dict[str, int] = {}
    for given in answers.values():
        for case, (answer, patient) in given.items():
            counts.setdefault(case, [0] * len(code))[code[answer]] += 1
            who[case] = number[patient]
    kept = sorted(case for case, labels in counts.items() if sum(labels) >= 2)
    if not kept:
        return None
    table = np.array([counts[case] for case in kept])
    found = krippendorff_alpha(
        table, np.array([who[case] for case in kept]), ordered=ordered, seed=seed
    )
    return Coefficient(tuple(answers), len(kept), *found)
