"""The artifact of a selective evaluation: every key of its schema, from the figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import ClassVar

from krisis.confidence.calibrators import Calibrator
from krisis.display import Documented
from krisis.json_values import JsonObject
from krisis.metrics.items import RunItems
from krisis.metrics.repeats import SAMPLES, ties_of
from krisis.metrics.risk_coverage import RiskCoverageCurve, spread_evenly
from krisis.metrics.table import Loss
from krisis.metrics.weighted_curve import area_key, risk_key
from krisis.statistics.intervals import Interval
from krisis.statistics.pseudo_answer import METHOD
from krisis.verbs.selective.evaluation import (
    NOT_RESAMPLED,
    Evaluation,
    VariantCurve,
    coverage_key,
)

SCHEMA_VERSION = "1"
# Of more working points an artifact holds as many, evenly chosen.
_MOST_POINTS = 100_000
NOTHING_PREDICTED = "no_predicted_items"
EXCESS_NOTE = (
    "equal confidences are one working point, so a perfect ranking with ties can have an excess "
    "below 0"
)

# Figure → key of the artifact; the cut areas and the risks have keys of their own below.
_AREAS = {
    "cmax": "cmax",
    "aurc": "aurc_full",
    "augrc": "augrc_full",
    "aurc_optimal": "aurc_optimal",
    "augrc_optimal": "augrc_optimal",
    "eaurc": "eaurc",
    "eaugrc": "eaugrc",
    "aurc_achievable": "aurc_achievable",
    "augrc_achievable": "augrc_achievable",
    "aurc_normalized": "aurc_normalized",
    "augrc_normalized": "augrc_normalized",
}


def artifact_of(
    evaluation: Evaluation,
    *,
    created_at: datetime,
    totals: Sequence[JsonObject | None],
    intersection_only: bool = False,
) -> JsonObject:
    """Return the whole artifact as plain values; undefined figures are NaN (null in JSON).

    ``totals`` holds what the suite of each run makes of the items of one patient together.
    """
    runs = evaluation.runs
    return {
        "schema_version": SCHEMA_VERSION,
        "created_at": created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "inputs": [run.source.named() for run in runs],
        "population": population(runs[0]) if len(runs) == 1 else _populations(runs),
        "loss": _loss(evaluation.options.loss, runs[0].scale),
        "confidence_variants": {
            name: _runs_of(evaluation, name, curves) for name, curves in evaluation.curves.items()
        },
        "variants_not_evaluated": dict(evaluation.absent),
        "ties": [_ties(run) for run in runs],
        "totals": list(totals),
        "comparison": _comparison(evaluation, intersection_only),
    }


def _ties(run: RunItems) -> JsonObject | None:
    if SAMPLES not in run.table.columns.signal_names():
        return None
    ties = ties_of(run.signals)
    return asdict(ties) if ties else None


def population(run: RunItems) -> JsonObject:
    """Return every denominator; end-to-end coverage also counts items that were not evaluated."""
    n_predicted = int(run.predicted.sum())
    n_not_evaluated = run.table.n_not_evaluated
    n_asked = run.n_items + n_not_evaluated
    return {
        "participants_total": run.n_participants + len(run.failed) + len(run.left_out),
        "participants_included": run.n_participants,
        "participants_failed": len(run.failed),
        "participants_left_out": len(run.left_out),
        "items_total": run.n_items,
        "items_predicted": n_predicted,
        "items_abstained": run.table.n_abstained,
        "items_no_answer": run.table.n_no_answer,
        "items_not_evaluated": n_not_evaluated,
        "items_not_asked": run.n_not_asked,
        "coverage_end_to_end": n_predicted / n_asked if n_asked else math.nan,
    }


def _populations(runs: Sequence[RunItems]) -> JsonObject:
    """Return the denominators of the comparison, then those of every input.

    The comparison includes the participants that both inputs scored; a participant has failed
    where either input failed.
    """
    items = [Counter(run.names()) for run in runs]
    failed = {one for run in runs for one in run.failed}
    outside = failed.union(*(run.left_out for run in runs))
    compared = {
        "participants_total": len(runs[0].participants) + len(outside),
        "participants_included": len(runs[0].participants),
        "participants_failed": len(failed),
        "items_total": (items[0] & items[1]).total(),
    }
    return {**compared, **{f"input_{i}": population(run) for i, run in enumerate(runs)}}


def _loss(loss: Loss, scale: float) -> JsonObject:
    definition = {
        "abs_norm": f"abs(pred - gt) / {scale:g}",
        "abs": "abs(pred - gt)",
        "error": "1 if pred != gt else 0",
    }[loss]
    multiplier = scale if loss == "abs_norm" else 1.0
    whole = int(multiplier) if float(multiplier).is_integer() else multiplier
    return {"name": loss, "definition": definition, "raw_multiplier": whole}


def _runs_of(evaluation: Evaluation, name: str, curves: Sequence[VariantCurve]) -> JsonObject:
    parts = [_variant(evaluation, name, position) for position in range(len(curves))]
    if len(parts) == 1:
        return parts[0]
    return {f"input_{position}": part for position, part in enumerate(parts)}


def _variant(evaluation: Evaluation, name: str, position: int) -> JsonObject:
    run = evaluation.curves[name][position]
    figures = run.figures
    cut = run.options.area_coverage
    content: JsonObject = {key: figures[figure] for figure, key in _AREAS.items()}
    if not run.losses.size:
        content["reason"] = NOTHING_PREDICTED
    content["interpretation"] = _interpretation(figures)
    for area in ("aurc", "augrc"):
        content[f"{area}_at_c"] = {
            "requested": cut,
            "used": min(cut, run.curve.cmax) if run.losses.size else math.nan,
            "value": figures[area_key(area, cut)],
        }
    content["mae_at_coverage"] = {
        coverage_key(coverage): _risk(run, coverage) for coverage in run.options.coverages
    }
    content["bootstrap"] = _bootstrap(evaluation, name, position)
    content["curve"] = _curve(run.curve)
    return content


def _curve(whole: RiskCoverageCurve) -> JsonObject:
    """Return the working points; of very many, evenly chosen ones and how many there are."""
    n_points = whole.n_accepted.size
    curve = whole.thinned(spread_evenly(n_points, _MOST_POINTS))
    return {
        "coverage": curve.coverage,
        "selective_risk": curve.selective_risk,
        "generalized_risk": curve.generalized_risk,
        "threshold": curve.threshold,
        **({"n_working_points": n_points} if n_points > _MOST_POINTS else {}),
    }


def _interpretation(figures: Mapping[str, float]) -> JsonObject:
    return {
        "aurc_gap_pct": _percentage(figures["eaurc"], figures["aurc_optimal"]),
        "augrc_gap_pct": _percentage(figures["eaugrc"], figures["augrc_optimal"]),
        "achievable_gain_pct": _percentage(
            figures["aurc"] - figures["aurc_achievable"], figures["aurc"]
        ),
        "note": EXCESS_NOTE,
    }


def _percentage(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else math.nan


def _risk(run: VariantCurve, coverage: float) -> JsonObject:
    found = run.curve.risk_at(coverage)
    risk, achieved = (math.nan, math.nan) if found is None else found
    return {"requested": coverage, "achieved": achieved, "value": risk}


def _resampled(run: VariantCurve) -> dict[str, str]:
    cut = run.options.area_coverage
    keys = {figure: key for figure, key in _AREAS.items() if not figure.endswith(NOT_RESAMPLED)}
    return {**keys, area_key("aurc", cut): "aurc_at_c", area_key("augrc", cut): "augrc_at_c"}


def _bootstrap(evaluation: Evaluation, name: str, position: int) -> JsonObject:
    options = evaluation.options
    areas = _resampled(evaluation.curves[name][position])
    risks = {risk_key(coverage): coverage_key(coverage) for coverage in options.coverages}
    found = {figure: evaluation.interval(name, position, figure) for figure in (*areas, *risks)}

    def shaped(value: Callable[[str], object]) -> JsonObject:
        by_area = {key: value(figure) for figure, key in areas.items()}
        return {**by_area, "mae_at_coverage": {key: value(figure) for figure, key in risks.items()}}

    return {
        "seed": options.bootstrap.seed,
        "n_resamples": options.bootstrap.n_resamples,
        "rng": options.bootstrap.rng,
        "method": options.replicate_method or METHOD,
        "methods": {key: found[figure].method for figure, key in areas.items()},
        "n_clusters": evaluation.n_clusters,
        "ci95": shaped(lambda figure: _ends(found[figure])),
        "drop_rate": shaped(lambda figure: evaluation.drop_rate(name, position, figure)),
        "reasons": {
            key: found[figure].reason
            for figure, key in {**areas, **risks}.items()
            if found[figure].reason
        },
    }


def _ends(interval: Interval) -> list[float] | None:
    return [interval.low, interval.high] if interval.defined else None


def _comparison(evaluation: Evaluation, intersection_only: bool) -> JsonObject:
    enabled = len(evaluation.runs) > 1
    deltas = {name: _deltas(evaluation, name) for name in evaluation.curves} if enabled else None
    comparison: JsonObject = {
        "enabled": enabled,
        "intersection_only": intersection_only,
        "deltas": deltas,
    }
    if enabled:
        comparison["direction"] = "input_1 - input_0"
        comparison["participants_compared"] = evaluation.n_clusters
    return comparison


def _deltas(evaluation: Evaluation, name: str) -> JsonObject:
    run = evaluation.curves[name][0]
    keys = {**_AREAS, **_resampled(run)}
    deltas = {key: _delta(evaluation, name, figure) for figure, key in keys.items()}
    common = run.common_coverage
    if common is not None:
        deltas["at_common_coverage"] = {
            "coverage": common,
            "aurc": _delta(evaluation, name, area_key("aurc", common)),
            "augrc": _delta(evaluation, name, area_key("augrc", common)),
        }
    deltas["mae_at_coverage"] = {
        coverage_key(coverage): _delta(evaluation, name, risk_key(coverage))
        for coverage in run.options.coverages
    }
    return deltas


def _delta(evaluation: Evaluation, name: str, figure: str) -> JsonObject:
    value, interval = evaluation.delta(name, figure)
    content: JsonObject = {"delta": value, "ci95": _ends(interval)}
    return {**content, "reason": interval.reason} if interval.reason else content


@dataclass(frozen=True, eq=False)
class Selective(Documented):
    """How well confidence ranks the answers: the figures, and the artifact that is saved.

    ``evaluation.curves`` holds the curve of every confidence and run; ``warnings`` are sentences
    that must be read with the figures.
    """

    evaluation: Evaluation
    artifact: JsonObject
    calibrator: Calibrator | None = None
    warnings: tuple[str, ...] = ()
    builder: ClassVar[str] = "krisis.verbs.selective.page:selective_document"

    def figures(self, run: int = 0) -> dict[str, dict[str, float]]:
        """Return the figures of every confidence of one run, such as aurc and augrc."""
        curves = self.evaluation.curves
        return {name: dict(of_runs[run].figures) for name, of_runs in curves.items()}

    def to_json(self) -> JsonObject:
        """Return the artifact: every key of docs/reference/selective-artifact.md."""
        return self.artifact
