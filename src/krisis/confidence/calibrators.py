"""Calibrators: fitted on one run, judged by grouped cross-fitting, kept as a checked JSON file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from krisis.confidence.models import (
    LARGEST,
    MODELS,
    N_BINS,
    SHORT_NAMES,
    Method,
    Model,
    Number,
    TemperatureScalingCalibrator,
    compute_ece,
    log_losses,
    softened,
)
from krisis.confidence.patient_keys import PatientKeys
from krisis.confidence.signals import (
    SIGNALS,
    default_for_missing,
    known_signals,
    n_missing,
    signal_of,
    signal_values,
)
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics.calibration import confidence_bin
from krisis.metrics.items import STATED, RunItems
from krisis.metrics.table import BoolArray, FloatArray, IntArray
from krisis.statistics.bootstrap import BootstrapOptions, cluster_bootstrap
from krisis.statistics.calibrated_bins import BinnedAnswers
from krisis.statistics.calibration_gap import calibration_gap_interval
from krisis.statistics.intervals import Interval

# Fewer right or wrong answers than this say next to nothing about a probability.
FEWEST_OF_A_KIND = 10
N_FOLDS = 5

Figures = dict[str, float]
Target = Literal["correctness", "near_correct", "loss"]
TARGETS: tuple[Target, ...] = ("correctness", "near_correct", "loss")


class FittedOn(BaseModel):
    """The run behind a calibrator; of its participants the keys, enough to notice them again."""

    model_config = ConfigDict(extra="forbid", strict=True)

    path: str
    run_id: str | None
    git_commit: str | None
    mode: str | None
    n_samples: int
    n_participants: int
    participants: PatientKeys


class Missing(BaseModel):
    """What stands for a feature where an item lacks it, and for how many items it stood."""

    model_config = ConfigDict(extra="forbid", strict=True)

    default: Number
    n_items: int


class Calibrator(BaseModel):
    """A fitted calibrator with everything needed to apply it safely elsewhere."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["krisis.calibrator"] = "krisis.calibrator"
    schema_version: Literal["2"] = "2"
    method: str
    features: list[str]
    target: Target
    input_scale: dict[str, tuple[float, float]]
    missing: dict[str, Missing]
    score_scale: Annotated[float, Field(gt=0, le=LARGEST)] | None
    model: Model
    fitted_on: FittedOn
    metrics: JsonObject

    def apply(self, run: RunItems) -> FloatArray:
        """Return the calibrated confidence of every predicted item."""
        scale = _score_scale(run)
        if self.target != "correctness" and self.score_scale != scale:
            raise InvalidValue(
                f"the calibrator learnt {self.target} on scores that span {self.score_scale} and "
                f"{run.source.path} has scores that span {scale}; fit one on such a run"
            )
        for name in self.features:
            _check_scale(name, self.input_scale[name])
        if run.predicted.any():
            _refuse_unknown(run, self.features)
        missing = {name: self.missing[name] for name in self.features}
        values = _features(run, missing, needed_by="the calibrator")
        if isinstance(
            self.model, TemperatureScalingCalibrator
        ):  # the others take features as they are
            values = _unit_interval(values, self.input_scale[self.features[0]])
        return self.model.predict(values)

    def missing_in(self, run: RunItems) -> dict[str, Missing]:
        """Return the features that items of a run lack, with what is taken for them."""
        counts = {name: n_missing(run, name) for name in self.features}
        return {
            name: Missing(default=self.missing[name].default, n_items=n)
            for name, n in counts.items()
            if n
        }

    def judged_on(self, run: RunItems) -> tuple[str, Figures, Figures]:
        """Return what stood there before, its figures on a run, and those of the calibrator.

        Before is the one feature itself, or the stated confidence where several were learnt from.
        """
        goal = target_values(run, self.target)
        before = self.features[0]
        if len(self.features) > 1 or not signal_of(before).bounded:
            before = STATED
        needed_by = "the comparison with a calibrator"
        default = self.missing[before].default if before in self.missing else None
        raw = signal_values(run, before, needed_by=needed_by, missing=default)
        uncalibrated = figures_of(_unit_interval(raw, signal_of(before).scale), goal)
        return before, uncalibrated, figures_of(self.apply(run), goal)

    @property
    def content_hash(self) -> str:
        """The hash of everything in the artifact."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def is_temperature_of(self, feature: str) -> bool:
        """Tell whether this is a temperature fitted on that signal."""
        return isinstance(self.model, TemperatureScalingCalibrator) and self.features == [feature]

    def overlap(self, run: RunItems) -> int:
        """Count the participants of a run on which the calibrator was fitted."""
        return self.fitted_on.participants.n_among(run.participants)

    def warnings(self) -> list[str]:
        """Say plainly what speaks against using the calibrator."""
        found = [one for one in (self.metrics.get("one_class"), self.model.at_bound) if one]
        change = (self.metrics["cross_fitted"] or {}).get("change") or {}
        worse = [name.upper() for name, one in change.items() if one["verdict"] == "worse"]
        if worse:
            found.append(
                f"the calibrator is worse than what it starts from on people it has not seen "
                f"({' and '.join(worse)}); do not use it"
            )
        return found

    def order_note(self) -> str:
        """Say what the calibrator can do to AURC, or nothing where it really can change it."""
        feature = self.features[0]
        if self.model.order == "kept":
            return (
                f"this calibrator keeps the ranking of {feature}, so its AURC is that of {feature} "
                "and no news"
            )
        if self.model.order == "merged":
            return (
                f"this calibrator keeps the ranking of {feature} but merges levels into ties; a "
                "different AURC comes from the ties alone"
            )
        return ""


def missing_lines(missing: Mapping[str, Missing]) -> list[str]:
    """Say of each feature that items lack how many do, and what is taken for it."""
    return [
        f"{name} is missing on {one.n_items} items, taken as {one.default:g}"
        for name, one in missing.items()
        if one.n_items
    ]


def _check_scale(name: str, learnt: tuple[float, float]) -> None:
    signal = signal_of(name)
    if not signal.bounded or learnt == signal.scale:
        return
    raise InvalidValue(
        f"the calibrator was fitted on {name} from {learnt[0]:g} to {learnt[1]:g} and the run has "
        f"it from {signal.lowest:g} to {signal.highest:g}; fit it again"
    )


def _unit_interval(values: FloatArray, scale: tuple[float, float]) -> FloatArray:
    low, high = scale
    return (values - low) / (high - low)


def _features(run: RunItems, missing: Mapping[str, Missing], *, needed_by: str) -> FloatArray:
    columns = [
        signal_values(run, name, needed_by=needed_by, missing=one.default)
        for name, one in missing.items()
    ]
    return np.column_stack(columns)


def _refuse_unknown(run: RunItems, features: Sequence[str]) -> None:
    present = known_signals(run)
    for name in features:
        if name not in present:
            raise InvalidValue(
                f"no item of {run.source.path} carries the feature {name!r}; "
                f"it has: {', '.join(present) or 'no signals'}"
            )


def _score_scale(run: RunItems) -> float | None:
    return None if np.isnan(run.scale) else run.scale


def fit_calibrator(
    run: RunItems,
    features: Sequence[str],
    *,
    method: Method = "logistic",
    target: Target = "correctness",
    seed: int = 42,
    force: bool = False,
) -> Calibrator:
    """Fit a calibrator on the predicted items of a run and judge it on left-out participants.

    With fewer than 10 answers that meet the target or 10 that do not it refuses, unless ``force``
    is given.
    """
    method = SHORT_NAMES.get(method, method)  # type: ignore[assignment]
    _check_request(run, features, method, target)
    goal = target_values(run, target)
    one_class = _one_class(run, goal, target)
    if not force:
        _check_enough(run, goal == 1 if target == "near_correct" else None, one_class)
    if seed < 0:
        raise InvalidValue(f"seed must be 0 or more, not {seed!r}")
    missing = _missing(run, features)
    raw = _features(run, missing, needed_by=f"the method {method!r}")
    scales = {name: _scale_of(name, raw[:, i]) for i, name in enumerate(features)}
    takes_probability = method == "temperature_scaling"
    inputs = _unit_interval(raw, scales[features[0]]) if takes_probability else raw
    model = MODELS[method].fit(inputs, softened(goal))
    before = _uncalibrated(raw, goal, features, scales)
    return Calibrator(
        method=model.method,
        features=list(features),
        target=target,
        input_scale=scales,
        missing=missing,
        score_scale=_score_scale(run),
        model=model,
        fitted_on=_fitted_on(run, goal.size, model),
        metrics={
            **({"one_class": one_class} if one_class else {}),
            "before_is": before[1],
            "training_set": _training_set(before[0], model.predict(inputs), goal),
            "cross_fitted": cross_fitted(run, inputs, goal, before[0], method=method, seed=seed),
        },
    )


def _training_set(before: FloatArray, after: FloatArray, goal: FloatArray) -> JsonObject:
    return {
        "before": figures_of(before, goal),
        "after": figures_of(after, goal),
        "note": "computed on the items the calibrator was fitted on, hence flattering",
    }


def _missing(run: RunItems, features: Sequence[str]) -> dict[str, Missing]:
    return {
        name: Missing(default=default_for_missing(run, name), n_items=n_missing(run, name))
        for name in features
    }


def _check_request(run: RunItems, features: Sequence[str], method: str, target: str) -> None:
    if method not in MODELS:
        raise UnknownName.among("calibration method", method, MODELS)
    if target not in TARGETS:
        raise UnknownName.among("calibration target", target, TARGETS)
    if not features or len(set(features)) < len(features):
        raise InvalidValue(f"name one or more features, each once, not {list(features)}")
    if not run.predicted.any():
        raise InvalidValue(f"{run.source.path} has no predicted item to learn from")
    _refuse_unknown(run, features)
    if method in ("temperature_scaling", "logistic") and target == "loss":
        raise InvalidValue(
            f"the method {method!r} learns yes or no; use linear for the target loss"
        )
    if method == "temperature_scaling" and (
        len(features) != 1 or not signal_of(features[0]).bounded
    ):
        bounded = ", ".join(name for name, signal in SIGNALS.items() if signal.bounded)
        raise InvalidValue(
            f"a temperature takes one feature with a scale of its own, not {list(features)}; "
            f"choose one of: {bounded}"
        )


def _one_class(run: RunItems, goal: FloatArray, target: Target) -> str:
    """Say that all answers are alike, or nothing where they are not."""
    if (goal != goal[0]).any():
        return ""
    words = {
        "correctness": ("wrong", "right"),
        "near_correct": ("far off", "within 1 of the truth"),
    }
    what = words[target][int(goal[0])] if target in words else "equally far from the truth"
    return (
        f"all {goal.size} answers of {run.source.path} are {what}, so a calibrator has nothing to "
        f"learn for the target {target!r} and its figures say nothing"
    )


def _check_enough(run: RunItems, near: BoolArray | None, one_class: str) -> None:
    if one_class:
        raise InvalidValue(f"{one_class}; use a larger run or another target")
    met = run.table.correct[run.predicted] if near is None else near
    counts = int(met.sum()), int((~met).sum())
    if min(counts) < FEWEST_OF_A_KIND:
        one, other = ("right", "wrong") if near is None else ("near", "far")
        raise InvalidValue(
            f"{run.source.path} has {counts[0]} {one} and {counts[1]} {other} answers, and a "
            f"calibrator needs at least {FEWEST_OF_A_KIND} of each; use a larger run, or --force "
            "to fit it all the same"
        )


def _scale_of(name: str, values: FloatArray) -> tuple[float, float]:
    signal = signal_of(name)
    return signal.scale if signal.bounded else (float(values.min()), float(values.max()))


def _uncalibrated(
    raw: FloatArray,
    goal: FloatArray,
    features: Sequence[str],
    scales: Mapping[str, tuple[float, float]],
) -> tuple[FloatArray, str]:
    """Return what one would have without a calibrator: the only feature itself, or the mean."""
    if len(features) == 1 and signal_of(features[0]).bounded:
        return _unit_interval(raw[:, 0], scales[features[0]]), features[0]
    return np.full(goal.size, goal.mean()), "the mean of the target"


def _fitted_on(run: RunItems, n_samples: int, model: Model) -> FittedOn:
    return FittedOn(
        **run.source.named(),
        n_samples=n_samples,
        n_participants=run.n_participants,
        participants=PatientKeys.of(
            run.participants, made_from=f"{n_samples} {model.model_dump_json()}"
        ),
    )


# --- What a calibrator learns, and how good it is --------------------------------------------


def target_values(run: RunItems, target: Target) -> FloatArray:
    """Return what a calibrator learns for every predicted item."""
    errors: FloatArray = run.errors()
    if target == "correctness":
        return np.asarray(errors == 0, dtype=np.float64)
    if np.isnan(run.scale):
        raise InvalidValue(f"the target {target!r} needs scores with an order; use correctness")
    if target == "near_correct":
        return np.asarray(errors <= 1, dtype=np.float64)
    return np.asarray(1.0 - errors / run.scale)


def figures_of(probability: FloatArray, target: FloatArray) -> Figures:
    """Return log loss, calibration error and Brier score."""
    means = {name: float(loss(probability, target).mean()) for name, loss in _LOSSES.items()}
    return {**means, "ece": compute_ece(probability, target)}


def cross_fitted(
    run: RunItems,
    inputs: FloatArray,
    goal: FloatArray,
    before: FloatArray,
    *,
    method: Method,
    seed: int,
) -> JsonObject:
    """Predict every participant by a model that has not seen any of their items."""
    participant = run.participant[run.predicted]
    present = np.unique(participant)
    n_folds = min(N_FOLDS, present.size)
    if n_folds < 2:
        return {"n_folds": 0, "before": None, "after": None, "reason": "one participant only"}
    shuffled = np.random.default_rng(seed).permutation(present)
    fold_of = np.zeros(int(present.max()) + 1, dtype=np.int64)
    fold_of[shuffled] = np.arange(present.size) % n_folds
    fold = fold_of[participant]
    predicted = np.empty(goal.size)
    for k in range(n_folds):
        model = MODELS[method].fit(inputs[fold != k], softened(goal[fold != k]))
        predicted[fold == k] = model.predict(inputs[fold == k])
    return {
        "n_folds": n_folds,
        "seed": seed,
        "before": figures_of(before, goal),
        "after": figures_of(predicted, goal),
        "intervals": {
            "before": _intervals(before, goal, participant),
            "after": _intervals(predicted, goal, participant),
        },
        "change": {
            name: _change(loss(predicted, goal) - loss(before, goal), participant)
            for name, loss in _LOSSES.items()
        },
        "note": "every participant was predicted by a model fitted on the others",
    }


_LOSSES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "nll": log_losses,
    "brier": lambda probability, target: np.square(probability - target),
}


def _intervals(
    probability: FloatArray, goal: FloatArray, participant: IntArray
) -> dict[str, list[float] | None]:
    """Return 95 % intervals by participant of every figure that has one."""
    found = {
        name: _mean_interval(loss(probability, goal), participant) for name, loss in _LOSSES.items()
    }
    if np.isin(goal, (0.0, 1.0)).all():
        bins = confidence_bin(probability, N_BINS)
        answers = BinnedAnswers(probability, goal == 1, bins, participant)
        found["ece"] = calibration_gap_interval(answers).interval
    return {name: [one.low, one.high] if one.defined else None for name, one in found.items()}


def _change(differences: FloatArray, participant: IntArray) -> JsonObject:
    """Return after − before with its interval and what it shows; lower is better."""
    interval = _mean_interval(differences, participant)
    verdict = "no significant change"
    if interval.defined and not interval.low <= 0 <= interval.high:
        verdict = "worse" if interval.low > 0 else "better"
    ends = [interval.low, interval.high] if interval.defined else None
    return {"delta": float(differences.mean()), "interval": ends, "verdict": verdict}


def _mean_interval(values: FloatArray, participant: IntArray) -> Interval:
    _, code = np.unique(participant, return_inverse=True)
    sums, rows = np.bincount(code, values), np.bincount(code).astype(np.float64)

    def mean(counts: FloatArray) -> dict[str, FloatArray]:
        return {"mean": (sums @ counts) / (rows @ counts)}

    options = BootstrapOptions()
    return cluster_bootstrap(mean, rows.size, options=options).interval("mean")


# --- Artifacts of others ---------------------------------------------------------------------


def calibrator_from(content: JsonMapping, *, place: str | Path) -> Calibrator:
    """Check an artifact: every length, type and range, and that its parts belong together."""
    try:
        calibrator = Calibrator.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "artifact"
        raise InvalidFile(
            f"{place} is no usable calibrator: {where}: {first['msg']}; fit it again with "
            "`krisis calibrate`"
        ) from None
    weights = getattr(calibrator.model, "weights", [0.0])
    agree = (
        calibrator.method == calibrator.model.method
        and set(calibrator.input_scale) == set(calibrator.missing) == set(calibrator.features)
        and len(calibrator.features) == len(weights)
        and all(
            low < high or not signal_of(n).bounded
            for n, (low, high) in calibrator.input_scale.items()
        )
    )
    if not agree:
        raise InvalidFile(
            f"{place} is no usable calibrator: its method, features, scales and parameters do not "
            "belong together; fit it again with `krisis calibrate`"
        )
    return calibrator
