"""Confidence variants: how the signals of an item become one number, higher being surer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from krisis.confidence.calibrators import Calibrator
from krisis.confidence.signals import known_signals, require_signal, signal_of, signal_values
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.items import STATED, RunItems
from krisis.metrics.table import FloatArray

Signals = Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant: the signals it reads and the rule that makes one number of them.

    ``present`` names signals that every item must carry, a null included, though the rule reads
    others: a run that recorded retrieval recorded how many references it found.
    """

    signals: tuple[str, ...]
    rule: Callable[[Signals], FloatArray]
    present: tuple[str, ...] = ()


def _evidence(signals: Signals) -> FloatArray:
    return np.minimum(signals["llm_evidence_count"], 3.0) / 3.0


def _similarity(signals: Signals) -> FloatArray:
    return signals["retrieval_similarity_mean"]


def _verbalized(signals: Signals) -> FloatArray:
    return (signals["verbalized_confidence"] - 1.0) / 4.0


_COUNT, _MEAN, _SPOKEN = "llm_evidence_count", "retrieval_similarity_mean", "verbalized_confidence"
_MODAL = "consistency_modal_confidence"
_RETRIEVAL = ("retrieval_reference_count", "retrieval_similarity_mean", "retrieval_similarity_max")


def _as_it_is(signal: str, *, present: tuple[str, ...] = ()) -> Variant:
    return Variant((signal,), lambda signals: signals[signal], present)


def _one_over(signal: str) -> Variant:
    return Variant((signal,), lambda signals: 1.0 / (1.0 + signals[signal]))


VARIANTS: dict[str, Variant] = {
    "llm": _as_it_is(_COUNT),
    "total_evidence": _as_it_is(_COUNT),  # another name of llm
    "retrieval_similarity_mean": _as_it_is(_MEAN, present=_RETRIEVAL),
    "retrieval_similarity_max": _as_it_is("retrieval_similarity_max", present=_RETRIEVAL),
    "hybrid_evidence_similarity": Variant(
        (_COUNT, _MEAN), lambda s: 0.5 * _evidence(s) + 0.5 * _similarity(s), _RETRIEVAL
    ),
    "verbalized": Variant((_SPOKEN,), _verbalized),
    "hybrid_verbalized": Variant(
        (_SPOKEN, _COUNT, _MEAN),
        lambda s: 0.4 * _verbalized(s) + 0.3 * _evidence(s) + 0.3 * _similarity(s),
        _RETRIEVAL,
    ),
    "token_msp": _as_it_is("token_msp"),
    "token_pe": _one_over("token_pe"),
    "token_energy": Variant(("token_energy",), lambda s: np.exp(s["token_energy"])),
    "consistency": _as_it_is(_MODAL),
    "consistency_inverse_std": _one_over("consistency_score_std"),
    "hybrid_consistency": Variant(
        (_MODAL, _COUNT, _MEAN),
        lambda s: 0.4 * s[_MODAL] + 0.3 * _evidence(s) + 0.3 * _similarity(s),
        _RETRIEVAL,
    ),
    "stated": _as_it_is(STATED),  # the confidence that a krisis backend returned
    # By `krisis run --elicit`: each of these ways to ask writes a signal of its own.
    "rationale": _as_it_is("rationale_confidence"),
    "p_true": _as_it_is("p_true_confidence"),
    "top_k": _as_it_is("top_k_confidence"),
    "two_step": _as_it_is("two_step_confidence"),
}
OWN = "signals."  # before the name of a signal that is taken as it is
CALIBRATED = ("verbalized_calibrated", "calibrated")
KNOWN = (*VARIANTS, *CALIBRATED)
_COMBINATIONS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "average": lambda first, second: (first + second) / 2.0,
    "product": lambda first, second: first * second,
}


def confidence_of(
    run: RunItems, variant: str, *, calibrator: Calibrator | None = None
) -> FloatArray:
    """Return the confidence of every predicted item, in the order of the run."""
    if variant.startswith("secondary:"):
        return _secondary(run, variant, calibrator)
    if variant in CALIBRATED:
        return _calibrated(run, variant, calibrator)
    chosen = _plain_variant(run, variant)
    needed_by = f"the variant {variant!r}"
    signals = {name: signal_values(run, name, needed_by=needed_by) for name in chosen.signals}
    for name in chosen.present:
        require_signal(run, name, needed_by=needed_by)
    with np.errstate(over="ignore"):
        values = chosen.rule(signals)
    return _finite(run, variant, values)


def _plain_variant(run: RunItems, name: str) -> Variant:
    """Return a variant by its name; ``signals.NAME`` is any signal of the run as it is."""
    if name.startswith(OWN):
        signal = name.removeprefix(OWN)
        if run.predicted.any() and not (run.given(signal) & run.predicted).any():
            raise UnknownName.among("signal", signal, known_signals(run))
        return _as_it_is(signal)
    if name not in VARIANTS:
        known = [*KNOWN, "signals.NAME", "secondary:A+B:average", "secondary:A+B:product"]
        raise UnknownName.among("confidence variant", name, known)
    return VARIANTS[name]


def _signals_of(name: str) -> tuple[str, ...]:
    """Return the signals that a variant reads, none where its name is not known."""
    if name.startswith(OWN):
        return (name.removeprefix(OWN),)
    return VARIANTS[name].signals if name in VARIANTS else ()


def scores_of(run: RunItems, variant: str, *, calibrator: Calibrator | None = None) -> FloatArray:
    """Return the confidence of every item; NaN where it was not predicted or lacks a signal."""
    scores = np.full(run.n_items, np.nan)
    needed = [
        name
        for part in [*variant.removeprefix("secondary:").rpartition(":")[0].split("+"), variant]
        for name in _signals_of(part)
        if signal_of(name).null_means is None
    ]
    rows = run.predicted.copy()
    for name in needed:
        rows &= run.given(name)
    if rows.any() or not run.predicted.any():
        part = replace(run, table=run.table.restricted(rows))
        scores[rows] = confidence_of(part, variant, calibrator=calibrator)
    else:
        confidence_of(run, variant, calibrator=calibrator)  # says what is missing
    return scores


def _secondary(run: RunItems, variant: str, calibrator: Calibrator | None) -> FloatArray:
    _, _, rest = variant.partition(":")
    pair, _, combination = rest.rpartition(":")
    first, plus, second = pair.partition("+")
    if not (plus and first and second) or combination not in _COMBINATIONS:
        raise InvalidValue(
            f"{variant!r} is no combination; write secondary:A+B:average or secondary:A+B:product "
            "with two variants A and B"
        )
    if "secondary:" in pair:
        raise InvalidValue(f"{variant!r} combines a combination; name two plain variants")
    parts = [confidence_of(run, name, calibrator=calibrator) for name in (first, second)]
    return _finite(run, variant, _COMBINATIONS[combination](*parts))


def _calibrated(run: RunItems, variant: str, calibrator: Calibrator | None) -> FloatArray:
    if calibrator is None:
        raise InvalidValue(
            f"the variant {variant!r} needs a fitted calibrator; add --calibration ARTIFACT, "
            "which `krisis calibrate` writes"
        )
    if variant == "verbalized_calibrated" and not calibrator.is_temperature_of(_SPOKEN):
        raise InvalidValue(
            "the variant 'verbalized_calibrated' needs a temperature fitted on "
            "verbalized_confidence and the artifact is another one; use the variant 'calibrated'"
        )
    return calibrator.apply(run)


def _finite(run: RunItems, variant: str, values: FloatArray) -> FloatArray:
    if not np.isfinite(values).all():
        index = int(np.flatnonzero(run.predicted)[np.flatnonzero(~np.isfinite(values))[0]])
        raise InvalidValue(f"{run.place(index)}: the variant {variant!r} is not a finite number")
    return values


def available_variants(
    run: RunItems, *, calibrator: Calibrator | None = None
) -> tuple[dict[str, FloatArray], dict[str, str]]:
    """Return the values of every variant that ranks the items, and why the others do not."""
    found: dict[str, FloatArray] = {}
    absent: dict[str, str] = {}
    for name in KNOWN:
        try:
            values = confidence_of(run, name, calibrator=calibrator)
        except InvalidValue as reason:
            absent[name] = str(reason)
            continue
        same = constant_value(run, values)
        if same:
            absent[name] = same
        else:
            found[name] = values
    return found, absent


def constant_value(run: RunItems, values: FloatArray) -> str:
    """Say that a variant gives all answered items of a run one value, or nothing."""
    if values.size < 2 or (values != values[0]).any():
        return ""
    mode = f", mode {run.source.mode}" if run.source.mode else ""
    return (
        f"it is {values[0]:g} for each of the {values.size} answered {run.words[1]}s of "
        f"{run.source.path}{mode}, so it ranks nothing"
    )
