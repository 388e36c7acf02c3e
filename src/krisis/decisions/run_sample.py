"""A run as the sample that is certified or verified: its scores, losses, patients and groups."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from krisis import registry
from krisis.confidence.calibrators import Calibrator
from krisis.confidence.variants import scores_of
from krisis.decisions.sample import Sample
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import dumps
from krisis.metrics.decision import decisions_of
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray, FloatArray, Table

# The largest share of cases without a reply on which a run is still judged.
MOST_NOT_EVALUATED = 0.01


def check_limit(limit: float) -> float:
    """Return a share, or refuse what is none."""
    if isinstance(limit, bool) or not 0 <= limit <= 1:
        raise InvalidValue(f"max_not_evaluated must be a share from 0 to 1, not {limit!r}")
    return limit


def too_many_missing(n_missing: int, n_rows: int, limit: float) -> str:
    """Say that too many cases were not evaluated; nothing where they are few enough.

    >>> too_many_missing(340, 400, 0.01).partition(";")[0]
    '340 of 400 cases (85 %) were not evaluated, more than 1 %'
    >>> too_many_missing(1, 400, 0.01)
    ''
    """
    if n_missing <= limit * n_rows:
        return ""
    return (
        f"{n_missing:,} of {n_rows:,} cases ({100 * n_missing / n_rows:.3g} %) were not evaluated, "
        f"more than {100 * limit:.3g} %; resume the run, or allow them with --max-not-evaluated"
    )


LOSSES = ("error", "cost")
_UNNAMED = re.compile(r"row \d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """How rows are scored and what a wrong answer loses; without a confidence, that of the task.

    ``loss`` is ``error``, 1 for every wrong answer, or ``cost``, what the answer costs by the task.
    ``rows_per_patient`` is the largest number of rows that a patient can have. ``seed`` is that of
    folds and permutations; what a certificate draws has no seed to choose (`drawing_seed`).
    ``max_not_evaluated`` is the largest share of cases without a reply on which a run is judged.
    """

    confidence: str = ""
    calibrator: Calibrator | None = None
    loss: str = LOSSES[0]
    rows_per_patient: int | None = None
    seed: int = 42
    max_not_evaluated: float = MOST_NOT_EVALUATED

    def __post_init__(self) -> None:
        check_limit(self.max_not_evaluated)
        if self.loss not in LOSSES:
            raise UnknownName.among("loss", self.loss, LOSSES)

    def refuse_missing(self, run: RunItems) -> None:
        """Refuse a run of which too many cases were not evaluated."""
        table = run.table
        fault = too_many_missing(table.n_not_evaluated, table.n_rows, self.max_not_evaluated)
        if fault:
            raise InvalidValue(f"{run.source.path} is not judged: {fault}")

    def variant(self, run: RunItems) -> str:
        """Return the confidence variant: the one named, else the calibrated or the task's one."""
        return self.confidence or ("calibrated" if self.calibrator else run.default_confidence)

    def scores(self, run: RunItems) -> FloatArray:
        """Return the score of every row, NaN where it has no answer or no score."""
        return scores_of(run, self.variant(run), calibrator=self.calibrator)

    def scores_if_any(self, run: RunItems) -> tuple[FloatArray, str]:
        """Return the scores; where a run lacks that of its task, none and the reason."""
        try:
            return self.scores(run), ""
        except InvalidValue as error:
            if self.confidence or self.calibrator is not None:
                raise
            return np.full(run.n_items, math.nan), str(error)

    def refuse_seen(self, run: RunItems, harm: str) -> None:
        """Refuse a calibrator that was fitted on patients of the run."""
        n_seen = 0 if self.calibrator is None else self.calibrator.overlap(run)
        if n_seen:
            raise InvalidValue(
                f"the calibrator was fitted on {n_seen} of the {run.words[0]}s of "
                f"{run.source.path}, which {harm}; fit it on others"
            )


def sample_of(run: RunItems, options: ScoreOptions) -> Sample:
    """Return the rows of a run of which a reply exists; only answers have a loss."""
    table = run.table
    if not table.n_scored:
        raise InvalidValue(f"{run.source.path} has no row that was answered or abstained on")
    if not table.answered.any():
        raise InvalidValue(
            f"the model answered none of the {table.n_scored} rows of {run.source.path}, so there "
            "is no answer to accept"
        )
    counts = np.bincount(table.patients.code, minlength=table.patients.n)
    return Sample(
        score=options.scores(run),
        loss=losses_of(run, options.loss),
        patient=table.patients.code,
        n_patients=table.patients.n,
        binary=options.loss == "error",
        most_rows=most_rows(run, int(counts.max()), options.rows_per_patient),
        seed=drawing_seed(run),
        saved=saved_by_answering(table),
    )


def saved_by_answering(table: Table) -> FloatArray:
    """Return what each answer saves against deferring its row, by the costs of the task."""
    found = decisions_of(table)
    return found.price - found.cost


def drawing_seed(run: RunItems) -> int:
    """Return the seed of what a certificate draws, fixed by the cases it is made on.

    A seed to choose could be tried until one certifies: the best of 20 gave 58 % false
    certificates where 10 % were allowed. So it comes from what was shown of the cases and from no
    answer; where a run does not say, from the names and the truth of its rows.
    """
    truths = run.table.columns.truth.taken(run.table.positions).cells()
    named = run.source.case_hash or dumps(
        sorted([*names, str(truth)] for names, truth in zip(run.names(), truths, strict=True))
    )
    return int(hashlib.sha256(named.encode()).hexdigest()[:8], 16)


def losses_of(run: RunItems, loss: str) -> FloatArray:
    """Return the loss of every row, from 0 to 1; NaN where the model abstained.

    The loss ``cost`` is what the answer cost at the truth that was drawn, never an expected cost.
    """
    table = run.table
    if loss == "error":
        return np.where(table.answered, table.losses("error"), math.nan)
    return np.where(table.answered, decisions_of(table, expected=False).cost, math.nan)


def most_rows(run: RunItems, seen: int, declared: int | None) -> int:
    """Return the largest number of rows of a patient: declared, the suite's, else the one seen."""
    most = declared or suite_rows(run) or seen
    if most < seen:
        raise InvalidValue(
            f"a {run.words[0]} of {run.source.path} has {seen} rows and at most {most} were "
            f"declared; certify with --rows-per-patient {seen} or more"
        )
    return most


def suite_rows(run: RunItems) -> int | None:
    """Return how many rows a patient can have in the suite of a run, if it says so."""
    if run.source.suite not in registry.names("suites"):
        return None
    found: int | None = registry.find("suites", run.source.suite).rows_per_patient
    return found


def groups_of(run: RunItems, columns: Sequence[str]) -> dict[str, BoolArray]:
    """Return the rows of every combination of the groups of some columns that has rows.

    Without columns all rows are one group, which has no name.
    """
    table = run.table
    known = group_columns(run)
    for column in columns:
        if column not in known:
            raise UnknownName.among("group", column, known)
    if len(set(columns)) < len(columns):
        raise InvalidValue(f"name every group once, not {', '.join(columns)}")
    parts = [table.grouped(column) for column in columns]
    found: dict[str, BoolArray] = {}
    for combination in product(*(range(len(names)) for names, _ in parts)):
        rows = np.ones(table.n_scored, dtype=np.bool_)
        for (_, codes), code in zip(parts, combination, strict=True):
            rows &= codes == code
        if rows.any():
            named = [names[code] for (names, _), code in zip(parts, combination, strict=True)]
            found[", ".join(named)] = rows
    return found


def group_columns(run: RunItems) -> list[str]:
    """Return the groups of the task and the metadata columns of the rows."""
    table = run.table
    return sorted({*table.answers.groups, *table.columns.metadata_keys()})


def shared_rows(run: RunItems, other: RunItems, name: str) -> dict[int, int]:
    """Return the place of every row in another run of the same cases, of the rows that both have.

    Rows are matched by their record_id. Another true answer, or no row in common, is refused;
    ``name`` is what the other run is called then.
    """
    place = {row.record_id: at for at, row in enumerate(other.table.rows) if row.record_id}
    found: dict[int, int] = {}
    for at, row in enumerate(run.table.rows):
        there = place.get(row.record_id)
        if there is None:
            continue
        truth = run.table.labels[run.table.truth[at]]
        its = other.table.labels[other.table.truth[there]]
        if truth != its:
            raise InvalidValue(
                f"{run.place(at)} has another true answer in {name} ({its!r}, not {truth!r}); name "
                "a run of the same cases"
            )
        found[at] = there
    if not found:
        raise InvalidValue(
            f"{name} shares no record_id with {run.source.path}; name a run of the same cases"
        )
    return found


def rows_hash(run: RunItems, sample: Sample) -> str:
    """Return the hash of every row with its score and loss, whatever their order."""
    table = run.table
    labels = (
        column.taken(table.positions).cells()
        for column in (table.columns.truth, table.columns.prediction)
    )
    figures = (sample.score.tolist(), sample.loss.tolist())
    rows = sorted(
        dumps([record, patient, *cells])
        for (patient, record), *cells in zip(run.names(), *labels, *figures, strict=True)
    )
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def named_patients(run: RunItems) -> list[str]:
    """Return the patients who have a name."""
    return [name for name in run.participants if not _UNNAMED.fullmatch(name)]


def patient_scores(sample: Sample) -> list[float]:
    """Return the mean score of every patient, NaN without any, in the order of the patients."""
    scored = ~np.isnan(sample.score)
    count = np.bincount(sample.patient[scored], minlength=sample.n_patients)
    total = np.bincount(sample.patient[scored], sample.score[scored], sample.n_patients)
    with np.errstate(invalid="ignore"):
        means: list[float] = (total / count).tolist()
    return means


LARGEST_NUMBER_OF_GROUPS = 24
