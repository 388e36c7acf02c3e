"""The four calibration models: their parameters, how they are fitted and how they are applied."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
import scipy
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy import special

from krisis.errors import InvalidValue
from krisis.metrics.calibration import confidence_bin
from krisis.metrics.table import FloatArray
from krisis.statistics.logistic import fit_logistic, standards

LOWEST_PROBABILITY = 1e-6
N_BINS = 15
_TEMPERATURES = (0.05, 10.0)
_PENALTY = 1.0

# An artifact may have been sent by anybody: products of such numbers do not overflow.
LARGEST = 1e12
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @property
    def at_bound(self) -> str:
        """Say which parameter sits at the bound of its range; most models have no bounds."""
        return ""


class TemperatureScalingCalibrator(_Model):
    """σ(logit(p) / T): one number that softens or sharpens a probability."""

    method: Literal["temperature_scaling"] = "temperature_scaling"
    temperature: Annotated[float, Field(ge=_TEMPERATURES[0], le=_TEMPERATURES[1])]

    @classmethod
    def fit(cls, features: FloatArray, target: FloatArray) -> TemperatureScalingCalibrator:
        """Choose the temperature of the least log loss."""
        logits = _logit(features[:, 0])

        def loss(temperature: float) -> float:
            return compute_binary_nll(special.expit(logits / temperature), target)

        best = scipy.optimize.minimize_scalar(loss, bounds=_TEMPERATURES, method="bounded")
        # The search stops short of its bounds; a loss that still falls there belongs to the bound.
        chosen = min((*_TEMPERATURES, float(best.x)), key=lambda t: round(loss(t), 12))
        return cls(temperature=chosen)

    @property
    def at_bound(self) -> str:
        """Say which bound the temperature sits at, if it does."""
        if self.temperature in _TEMPERATURES:
            return f"the temperature {self.temperature:g} sits at the bound of its range"
        return ""

    def predict(self, features: FloatArray) -> FloatArray:
        """Return σ(logit(p) / T)."""
        return np.asarray(special.expit(_logit(features[:, 0]) / self.temperature))

    @property
    def order(self) -> Literal["kept", "merged", "changed"]:
        """What the model does to the ranking of its input."""
        return "kept"


class _Weighted(_Model):
    means: list[Number]
    scales: list[Annotated[float, Field(ge=1 / LARGEST, le=LARGEST)]]
    weights: list[Number]
    intercept: Number

    @model_validator(mode="after")
    def _same_lengths(self) -> _Weighted:
        if not len(self.means) == len(self.scales) == len(self.weights) > 0:
            raise ValueError("means, scales and weights must have one number per feature")
        return self

    def _linear(self, features: FloatArray) -> FloatArray:
        standardised = (features - np.array(self.means)) / np.array(self.scales)
        linear: FloatArray = standardised @ np.array(self.weights) + self.intercept
        return linear


class LogisticCalibrator(_Weighted):
    """Logistic regression on standardised features with an L2 penalty (C = 1)."""

    method: Literal["logistic"] = "logistic"

    @classmethod
    def fit(cls, features: FloatArray, target: FloatArray) -> LogisticCalibrator:
        """Minimise |w|²/2 + log loss; the intercept is free."""
        model = fit_logistic(features, np.column_stack([1.0 - target, target]))
        return cls(
            means=model.means.tolist(),
            scales=model.scales.tolist(),
            weights=model.weights[:, 1].tolist(),
            intercept=float(model.intercepts[1]),
        )

    def predict(self, features: FloatArray) -> FloatArray:
        """Return the probability of the target."""
        return np.asarray(special.expit(self._linear(features)))

    @property
    def order(self) -> Literal["kept", "merged", "changed"]:
        """What the model does to the ranking of its input."""
        return "kept" if len(self.weights) == 1 and self.weights[0] > 0 else "changed"


class LinearCalibrator(_Weighted):
    """Ridge regression (alpha = 1) on standardised features, clipped to [0, 1]."""

    method: Literal["linear"] = "linear"

    @classmethod
    def fit(cls, features: FloatArray, target: FloatArray) -> LinearCalibrator:
        """Solve the normal equations; the intercept is free."""
        means, scales = standards(features)
        design = (features - means) / scales
        gram = design.T @ design + _PENALTY * np.eye(design.shape[1])
        weights = np.linalg.solve(gram, design.T @ (target - target.mean()))
        return cls(
            means=means.tolist(),
            scales=scales.tolist(),
            weights=weights.tolist(),
            intercept=float(target.mean()),
        )

    def predict(self, features: FloatArray) -> FloatArray:
        """Return the clipped estimate."""
        return np.clip(self._linear(features), 0.0, 1.0)

    @property
    def order(self) -> Literal["kept", "merged", "changed"]:
        """What the model does to the ranking of its input."""
        return "merged" if len(self.weights) == 1 and self.weights[0] > 0 else "changed"


class IsotonicCalibrator(_Model):
    """The monotone step function nearest to the target, joined by straight lines."""

    method: Literal["isotonic"] = "isotonic"
    increasing: bool
    inputs: list[Number]
    outputs: list[Annotated[float, Field(ge=0, le=1)]]

    @model_validator(mode="after")
    def _same_lengths(self) -> IsotonicCalibrator:
        if not len(self.inputs) == len(self.outputs) > 0:
            raise ValueError("inputs and outputs must have the same length, at least 1")
        if any(b <= a for a, b in zip(self.inputs, self.inputs[1:], strict=False)):
            raise ValueError("inputs must rise strictly")
        steps = np.diff(self.outputs) * (1 if self.increasing else -1)
        if (steps < 0).any():
            raise ValueError("outputs must be monotone")
        return self

    @classmethod
    def fit(cls, features: FloatArray, target: FloatArray) -> IsotonicCalibrator:
        """Pool adjacent violators; the direction is that of the rank correlation."""
        if features.shape[1] != 1:
            raise InvalidValue(
                f"isotonic calibration takes one feature, not {features.shape[1]}; "
                "name one or use the method logistic"
            )
        inputs, group = np.unique(features[:, 0], return_inverse=True)
        weight = np.bincount(group).astype(np.float64)
        mean = np.bincount(group, target) / weight
        increasing = bool(np.cov(group, target)[0, 1] >= 0) if len(group) > 1 else True
        fitted = scipy.optimize.isotonic_regression(mean, weights=weight, increasing=increasing).x
        return cls(
            increasing=increasing,
            inputs=inputs.tolist(),
            outputs=np.clip(fitted, 0.0, 1.0).tolist(),
        )

    def predict(self, features: FloatArray) -> FloatArray:
        """Interpolate between the fitted points; flat beyond them."""
        return np.interp(features[:, 0], self.inputs, self.outputs)

    @property
    def order(self) -> Literal["kept", "merged", "changed"]:
        """What the model does to the ranking of its input."""
        return "merged" if self.increasing else "changed"


AnyModel = TemperatureScalingCalibrator | LogisticCalibrator | LinearCalibrator | IsotonicCalibrator
Model = Annotated[AnyModel, Field(discriminator="method")]
Method = Literal["temperature_scaling", "temperature", "logistic", "linear", "isotonic"]
SHORT_NAMES = {"temperature": "temperature_scaling"}
MODELS: dict[str, type[AnyModel]] = {
    "temperature_scaling": TemperatureScalingCalibrator,
    "logistic": LogisticCalibrator,
    "linear": LinearCalibrator,
    "isotonic": IsotonicCalibrator,
}


def softened(target: FloatArray) -> FloatArray:
    """Return targets that are all alike moved towards the other kind, as if that was seen once.

    Laplace's rule of succession, (n·y + 1)/(n + 2): a handful of right answers is no proof that
    none can be wrong.
    """
    if target.size == 0 or np.ptp(target) > 0:
        return target
    return np.asarray((target.size * target + 1) / (target.size + 2))


def log_losses(probability: FloatArray, target: FloatArray) -> FloatArray:
    """Return the negative log-likelihood of every item, probabilities kept 1e-6 off 0 and 1."""
    clipped = np.clip(probability, LOWEST_PROBABILITY, 1 - LOWEST_PROBABILITY)
    return np.asarray(-(target * np.log(clipped) + (1 - target) * np.log1p(-clipped)))


def compute_binary_nll(probability: FloatArray, target: FloatArray) -> float:
    """Return the mean negative log-likelihood."""
    return float(log_losses(probability, target).mean())


def _logit(probability: FloatArray) -> FloatArray:
    clipped = np.clip(probability, LOWEST_PROBABILITY, 1 - LOWEST_PROBABILITY)
    return np.asarray(special.logit(clipped))


def compute_ece(probability: FloatArray, target: FloatArray) -> float:
    """Return the expected calibration error against a target in [0, 1]."""
    if not probability.size:
        return math.nan
    index = confidence_bin(probability, N_BINS)
    return float(np.abs(np.bincount(index, target - probability)).sum() / probability.size)
