"""Classifiers on the shown features, fitted on the training records of the suite."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.baselines.constant import fitted_on, training_by_source
from krisis.costs import Costs
from krisis.data.base import BaseDataSuite, Features, Judgement, Label, PatientRecord
from krisis.errors import InvalidValue, MissingExtra
from krisis.json_values import JsonObject

Array = npt.NDArray[np.float64]
MAX_WORDS_PER_COLUMN = 12


class Model(Protocol):
    """What is needed of a classifier of scikit-learn."""

    def fit(self, rows: Array, codes: npt.NDArray[np.int64]) -> Model:
        """Learn from rows and the codes of their answers."""

    def predict_proba(self, rows: Array) -> Array:
        """Return the probability of each answer for every row."""


class Fitted(BaseBackend):
    """A calibrated classifier of scikit-learn that acts by the costs of the task.

    With ``answer_all`` it gives its likeliest answer to every case, for a curve over all of them.
    """

    name = "fitted"
    packages = ("scikit-learn", "numpy")
    extra = "baselines"
    sdk = "sklearn"
    fills_gaps = True
    averages_folds = True

    def __init__(self, *, answer_all: bool = False) -> None:
        if not isinstance(answer_all, bool):
            raise InvalidValue(f"answer_all must be true or false, not {answer_all!r}")
        self.answer_all = answer_all
        self._costs = Costs()
        self._fitted: dict[str, _Fit] = {}

    @abstractmethod
    def model(self) -> Model:
        """Return an unfitted classifier."""

    def prepare(self, suite: BaseDataSuite) -> None:
        """Fit a model on the training records of each source."""
        self._costs = suite.task.costs
        for source, records in training_by_source(self, suite).items():
            self._fitted[source] = self._fit(records)

    def _fit(self, records: Sequence[PatientRecord]) -> _Fit:
        features = [record.features for record in records]
        table = FeatureTable.fit(features, fills_gaps=self.fills_gaps)
        answers = sorted({record.label for record in records}, key=str)
        codes = np.array([answers.index(record.label) for record in records])
        model = self._calibrated(codes)
        with _one_thread():
            model.fit(table.rows(features), codes)
        return _Fit(table, model, answers)

    def _calibrated(self, codes: npt.NDArray[np.int64]) -> Model:
        """Return the model, calibrated as far as the rarest answer allows."""
        try:
            from sklearn.calibration import CalibratedClassifierCV
        except ImportError:
            raise MissingExtra.named("baselines", f"the baseline {self.name!r}") from None
        counts = Counter(codes.tolist())
        if len(counts) < 2:
            raise InvalidValue(
                f"{self.name!r} needs training records with at least two different labels"
            )
        n_folds = min(5, *counts.values())
        model = self.model()
        if n_folds > 1:
            model = CalibratedClassifierCV(
                model, method="temperature", cv=n_folds, ensemble=self.averages_folds
            )
        return model

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Judge one record."""
        return self.evaluate_batch([record])[0]

    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        """Judge several records at once."""
        fits = [fitted_on(self, self._fitted, record) for record in records]
        responses: list[BackendResponse | None] = [None] * len(records)
        for fit in set(map(id, fits)):
            here = [place for place, one in enumerate(fits) if id(one) == fit]
            made = fits[here[0]]
            chances = made.chances([records[place].features for place in here])
            for place, row in zip(here, chances, strict=True):
                responses[place] = decide(
                    row, made.answers, self._costs, answer_all=self.answer_all
                )
        return [response for response in responses if response is not None]

    def identity(self) -> JsonObject:
        """Return the name, and that every case is answered if so."""
        return {"backend": self.name, **({"answer_all": True} if self.answer_all else {})}


def decide(
    chances: Array, answers: Sequence[Label], costs: Costs, *, answer_all: bool = False
) -> BackendResponse:
    """Act by the costs of the task, or give the likeliest answer to every case."""
    found = {answer: min(1.0, float(p)) for answer, p in zip(answers, chances, strict=True)}
    if answer_all:
        likeliest = max(found, key=found.__getitem__)
        return BackendResponse(likeliest, confidence=found[likeliest])
    return BackendResponse.of(Judgement.by_cost(costs, found))


@dataclass(frozen=True, slots=True)
class _Fit:
    """A fitted model with its columns and answers."""

    table: FeatureTable
    model: Model
    answers: list[Label]

    def chances(self, features: Sequence[Features]) -> Array:
        """Return the probability of each answer for every case."""
        with _one_thread():
            return self.model.predict_proba(self.table.rows(features))


def _one_thread() -> AbstractContextManager[object]:
    """Keep boosted trees to one thread: on a busy machine several take many times as long."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits


class Logistic(Fitted):
    """Calibrated logistic regression.

    Gaps are filled with training medians; positive numbers also enter as logarithms. That a value
    is missing is on purpose no input.
    """

    name = "logistic"

    def model(self) -> Model:
        """Return a logistic regression on standardised columns."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model: Model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        return model


class Boosting(Fitted):
    """Calibrated gradient boosting of decision trees; a missing value is an input like any other.

    Trees are shallow and few: on some thousand patients, deeper ones learn the sample.
    """

    name = "boosting"
    fills_gaps = False
    averages_folds = False  # one model instead of five, each of which is slow to ask

    def model(self) -> Model:
        """Return boosted trees with a seed of their own."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        model: Model = HistGradientBoostingClassifier(
            max_iter=150, learning_rate=0.05, max_leaf_nodes=8, min_samples_leaf=20, random_state=0
        )
        return model


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of numbers: its median, and the range beyond which values are drawn in."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> NumberColumn:
        """Learn from training values; one slip of the pen must not bend the whole model."""
        low, median, high = np.percentile(values, [2, 50, 98])
        return cls(float(median), float(low), float(high))

    def cells(self, number: float | None) -> list[float]:
        """Return the value, and its logarithm where the column is positive."""
        value = self.median if number is None else min(max(number, self.low), self.high)
        return [value, math.log(value)] if self.low > 0 else [value]


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Turns features into numbers, by columns learnt from training features."""

    numbers: dict[str, NumberColumn]
    words: dict[str, list[str]]
    fills_gaps: bool = True

    @classmethod
    def fit(cls, features: Sequence[Features], *, fills_gaps: bool = True) -> FeatureTable:
        """Learn which columns are numbers and which are words; long texts are left out."""
        numbers: dict[str, NumberColumn] = {}
        words: dict[str, list[str]] = {}
        for name in dict.fromkeys(name for row in features for name in row):
            values = [n for row in features if (n := _number(row, name)) is not None]
            given = (row.get(name) for row in features)
            spoken = sorted({value for value in given if isinstance(value, str)})
            if values:
                numbers[name] = NumberColumn.of(values)
            elif 1 < len(spoken) <= MAX_WORDS_PER_COLUMN:
                words[name] = spoken
        return cls(numbers, words, fills_gaps)

    def rows(self, features: Iterable[Features]) -> Array:
        """Return one row of numbers for each case."""
        return np.array([self._row(case) for case in features], dtype=float)

    def _row(self, case: Features) -> list[float]:
        cells: list[float] = []
        for name, column in self.numbers.items():
            number = _number(case, name)
            if self.fills_gaps:
                cells.extend(column.cells(number))
            else:  # trees split on order alone, and send what is missing its own way
                cells.append(math.nan if number is None else number)
        for name, words in self.words.items():
            cells.extend(float(case.get(name) == word) for word in words)
        return cells


def _number(case: Features, name: str) -> float | None:
    value = case.get(name)
    return float(value) if isinstance(value, int | float) else None
