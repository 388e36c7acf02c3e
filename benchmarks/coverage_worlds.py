"""Invented worlds of patients, answers and confidences, with the true value of every metric."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Generator = np.random.Generator

SIX_LEVELS = ((0.5, 0.6, 0.7, 0.8, 0.9, 1.0), (0.05, 0.10, 0.15, 0.25, 0.30, 0.15))
N_BINS = 15


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The rows of one simulated run, as columns."""

    truth: IntArray
    prediction: IntArray
    abstained: BoolArray
    confidence: FloatArray
    patient: IntArray


@dataclass(frozen=True)
class World:
    """How rows come about.

    ``sizes`` gives the rows of every patient; ``levels`` the stated confidences and how often each
    is stated (None: all distinct); ``tilt`` how errors depend on confidence (1: less often where
    it is high; −1: more often; 0: as often); ``icc`` the correlation of errors of one patient, by
    ``copying`` one outcome or by a shared normal difficulty; ``shift`` is added to the stated
    confidence of a calibrated model, if any.
    """

    name: str
    sizes: Callable[[Generator], IntArray]
    error: float = 0.05
    icc: float = 0.0
    copying: bool = True
    levels: tuple[tuple[float, ...], tuple[float, ...]] | None = SIX_LEVELS
    tilt: float = 1.0
    one_confidence: bool = False
    shift: float | None = None
    abstention: float = 0.0
    positives: float = 0.5
    labels_by_patient: bool = False
    n_classes: int = 2
    harder_positives: float = 1.0

    def draw(self, rng: Generator, sizes: IntArray | None = None) -> Run:
        """Return one run."""
        size = self.sizes(rng) if sizes is None else sizes
        patient = np.repeat(np.arange(size.size), size)
        confidence = self._confidence(rng, size.size, patient)
        truth = self._truth(rng, size.size, patient)
        chance = self._chance_of_error(confidence)
        chance = np.where(truth == 1, np.minimum(chance * self.harder_positives, 1.0), chance)
        wrong = self._uniform(rng, size.size, patient) < chance
        other = (truth + rng.integers(1, self.n_classes, truth.size)) % self.n_classes
        stated = confidence if self.shift is None else np.clip(confidence + self.shift, 0, 1)
        chance_abstained = np.clip(self.abstention * (1.1 - confidence) / 0.3, 0.0, 0.95)
        return Run(
            truth,
            np.where(wrong, other, truth),
            rng.random(truth.size) < chance_abstained,
            stated,
            patient,
        )

    def _confidence(self, rng: Generator, n_patients: int, patient: IntArray) -> FloatArray:
        n = n_patients if self.one_confidence else patient.size
        if self.levels is None:
            drawn = 0.5 + rng.beta(3.0, 1.5, n) / 2
        else:
            drawn = rng.choice(np.array(self.levels[0]), n, p=np.array(self.levels[1]))
        return drawn[patient] if self.one_confidence else drawn

    def _truth(self, rng: Generator, n_patients: int, patient: IntArray) -> IntArray:
        n = n_patients if self.labels_by_patient else patient.size
        if self.n_classes > 2:
            label = rng.choice(self.n_classes, n, p=[0.6, 0.3, 0.1])
        else:
            label = (rng.random(n) < self.positives).astype(np.int64)
        return label[patient] if self.labels_by_patient else label

    def _chance_of_error(self, confidence: FloatArray) -> FloatArray:
        if self.shift is not None:
            return 1 - confidence
        return np.minimum(self.error * self._shape(confidence) / self._mean_shape(), 1.0)

    def _shape(self, confidence: FloatArray) -> FloatArray:
        return np.maximum(0.55 + self.tilt * (0.8 - confidence), 0.02)

    def _mean_shape(self) -> float:
        if self.levels is None:
            grid = 0.5 + special.betaincinv(3.0, 1.5, (np.arange(2000) + 0.5) / 2000) / 2
            return float(self._shape(grid).mean())
        return float(self._shape(np.array(self.levels[0])) @ np.array(self.levels[1]))

    def _uniform(self, rng: Generator, n_patients: int, patient: IntArray) -> FloatArray:
        own = rng.random(patient.size)
        if self.icc == 0:
            return own
        if self.copying:
            copied = rng.random(patient.size) < math.sqrt(self.icc)
            return np.where(copied, rng.random(n_patients)[patient], own)
        latent = latent_correlation(self.error, self.icc)
        shared = rng.standard_normal(n_patients)[patient]
        mixed = math.sqrt(latent) * shared + math.sqrt(1 - latent) * special.ndtri(own)
        return special.ndtr(mixed)


@lru_cache
def latent_correlation(error: float, icc: float) -> float:
    """Return the correlation of normal difficulties that gives errors this correlation."""
    grid = special.ndtri((np.arange(4000) + 0.5) / 4000)
    limit = special.ndtri(error)
    low, high = 0.0, 1.0
    for _ in range(40):
        latent = (low + high) / 2
        chance = special.ndtr((limit - math.sqrt(latent) * grid) / math.sqrt(1 - latent))
        found = float(np.square(chance).mean() - error**2) / (error * (1 - error))
        low, high = (latent, high) if found < icc else (low, latent)
    return (low + high) / 2


def figures(run: Run) -> dict[str, float]:
    """Return every metric of a run by its plain definition, as one passes over sorted rows."""
    answered = ~run.abstained
    correct = answered & (run.prediction == run.truth)
    recalls = [correct[run.truth == label].mean() for label in np.unique(run.truth)]
    found = {
        "accuracy": float(correct.mean()),
        "balanced_accuracy": float(np.mean(recalls)) if len(recalls) > 1 else math.nan,
        "answer_rate": float(answered.mean()),
    }
    names = ("selective_accuracy", "brier", "ece", "aurc", "augrc", "risk_at_80")
    if not answered.any():
        return found | dict.fromkeys(names, math.nan)
    confidence, right = run.confidence[answered], correct[answered]
    index = np.minimum((confidence * N_BINS).astype(np.int64), N_BINS - 1)
    gaps = np.bincount(index, right - confidence)
    found["selective_accuracy"] = float(right.mean())
    found["brier"] = float(np.mean((confidence - right) ** 2))
    found["ece"] = float(np.abs(gaps).sum() / right.size)
    level, place = np.unique(-confidence, return_inverse=True)
    accepted = np.cumsum(np.bincount(place, minlength=level.size))
    lost = np.cumsum(np.bincount(place, ~right, minlength=level.size))
    coverage, risk, total = accepted / run.truth.size, lost / accepted, lost / run.truth.size
    x = np.concatenate([[0.0], coverage])
    found["aurc"] = float(np.trapezoid(np.concatenate([risk[:1], risk]), x))
    found["augrc"] = float(np.trapezoid(np.concatenate([[0.0], total]), x))
    n = 0.8 * run.truth.size
    within = float(np.interp(n, np.append(0, accepted), np.append(0, lost))) / n
    found["risk_at_80"] = within if accepted[-1] >= n * (1 - 1e-12) else math.nan
    return found


def true_figures(world: World, n_rows: int = 3_000_000) -> dict[str, float]:
    """Return the metrics of a run so long that chance plays no part."""
    rng = np.random.default_rng(2024)
    sizes: list[IntArray] = []
    total = 0
    while total < n_rows:
        sizes.append(world.sizes(rng))
        total += int(sizes[-1].sum())
    return figures(world.draw(rng, np.concatenate(sizes)))


def equal(n_patients: int, n_rows: int) -> Callable[[Generator], IntArray]:
    """Return so many patients with so many rows each."""
    return lambda _: np.full(n_patients, n_rows)


def listed_worlds() -> list[World]:
    """Return the worlds of the acceptance list."""
    designs = [(f"{n} rows", equal(n, 1), 0.0) for n in (50, 160, 400)]
    designs += [(f"{c} × 8, ICC {icc}", equal(c, 8), icc) for c in (15, 40) for icc in (0.1, 0.4)]
    worlds = []
    for design, sizes, icc in designs:
        for error in (0.2, 0.05, 0.02, 0.005):
            name = f"{design}, {100 * error:g} % errors"
            worlds.append(World(name, sizes, error, icc))
        for error in (0.2, 0.02):
            name = f"{design}, {100 * error:g} % errors, 30 % abstained"
            worlds.append(World(name, sizes, error, icc, abstention=0.3))
        worlds.append(
            World(
                f"{design}, 10 % errors, 12 % positives by patient",
                sizes,
                0.1,
                icc,
                positives=0.12,
                labels_by_patient=True,
            )
        )
    return worlds


def few_patients_worlds() -> list[World]:
    """Return worlds of six patients with fifty rows each."""
    return [
        World(f"6 × 50, ICC {icc}, {100 * error:g} % errors", equal(6, 50), error, icc)
        for icc in (0.1, 0.2, 0.4)
        for error in (0.2, 0.1, 0.05, 0.02)
    ]


def other_worlds() -> list[World]:
    """Return worlds that nothing was tuned on."""
    uneven = lambda rng: 1 + rng.geometric(0.2, 30)  # noqa: E731
    one_big = lambda rng: np.concatenate([[40], rng.integers(1, 8, 24)])  # noqa: E731
    flat = ((0.7, 0.9), (0.4, 0.6))
    three = ((0.6, 0.8, 1.0), (0.2, 0.3, 0.5))
    base = [
        World("30 rows, 10 % errors", equal(30, 1), 0.1),
        World("25 × 4, ICC 0.2", equal(25, 4), 0.1, 0.2),
        World("25 × 4, normal ICC 0.3, 5 %", equal(25, 4), 0.05, 0.3, copying=False),
        World("15 × 8, normal ICC 0.4, 20 %", equal(15, 8), 0.2, 0.4, copying=False),
        World("40 × 8, normal ICC 0.2, 2 %", equal(40, 8), 0.02, 0.2, copying=False),
        World("15 × 8, ICC 0.8, 20 %", equal(15, 8), 0.2, 0.8),
        World("40 × 8, ICC 0.8, 10 %", equal(40, 8), 0.1, 0.8),
        World("30 uneven patients, ICC 0.3", uneven, 0.1, 0.3),
        World("one big patient, ICC 0.2", one_big, 0.1, 0.2),
        World("20 × 5 repeats, ICC 0.95", equal(20, 5), 0.15, 0.95),
        World("60 distinct confidences, 10 %", equal(60, 1), 0.1, levels=None),
        World("200 distinct confidences, 3 %", equal(200, 1), 0.03, levels=None),
        World("20 × 6 distinct, ICC 0.3, 15 %", equal(20, 6), 0.15, 0.3, levels=None),
        World("50 rows, errors more confident, 10 %", equal(50, 1), 0.1, tilt=-1.0),
        World("50 rows, errors more confident, 20 %", equal(50, 1), 0.2, tilt=-1.5),
        World("160 rows, errors more confident, 5 %", equal(160, 1), 0.05, tilt=-1.0),
        World("60 distinct, errors more confident", equal(60, 1), 0.1, levels=None, tilt=-1.0),
        World("50 rows, two flat levels, 10 %", equal(50, 1), 0.1, levels=flat, tilt=0.0),
        World("160 rows, two flat levels, 3 %", equal(160, 1), 0.03, levels=flat, tilt=0.0),
        World("100 rows, three levels, 8 %", equal(100, 1), 0.08, levels=three),
        World("100 rows, confidence says nothing", equal(100, 1), 0.1, tilt=0.0),
        World("80 rows, strong ranking, 10 %", equal(80, 1), 0.1, tilt=1.7),
        World("120 calibrated rows", equal(120, 1), shift=0.0),
        World("120 rows overconfident by 0.1", equal(120, 1), shift=0.1),
        World("120 rows underconfident by 0.1", equal(120, 1), shift=-0.1),
        World(
            "25 × 5 calibrated, one confidence",
            equal(25, 5),
            icc=0.4,
            shift=0.0,
            one_confidence=True,
        ),
        World(
            "20 × 6, one confidence, overconfident",
            equal(20, 6),
            icc=0.2,
            shift=0.08,
            one_confidence=True,
        ),
        World("120 rows, 3 classes", equal(120, 1), 0.12, n_classes=3),
        World("25 × 6, 3 classes, ICC 0.3", equal(25, 6), 0.12, 0.3, n_classes=3),
        World(
            "30 × 4, positives harder",
            equal(30, 4),
            0.08,
            0.2,
            positives=0.2,
            labels_by_patient=True,
            harder_positives=3.0,
        ),
        World("60 rows, 15 % abstained", equal(60, 1), 0.08, abstention=0.15),
        World("8 × 10, ICC 0.2", equal(8, 10), 0.15, 0.2),
        World("100 × 3, ICC 0.5, 1 %", equal(100, 3), 0.01, 0.5),
        World("1000 rows, 1 %", equal(1000, 1), 0.01),
    ]
    return [replace(world) for world in base]
