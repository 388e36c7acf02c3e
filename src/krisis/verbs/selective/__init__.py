"""How well confidence ranks the answers of one run, or of two runs compared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from krisis.api.given import AnyCalibrator, AnyRun, calibrator_of
from krisis.confidence.calibrators import Calibrator
from krisis.confidence.variants import available_variants, confidence_of
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.items import RunItems
from krisis.metrics.table import LOSSES, FloatArray
from krisis.metrics.totals import totals_report
from krisis.results.run_items import items_of
from krisis.statistics.bootstrap import BootstrapOptions, Progress
from krisis.statistics.intervals import REPLICATE_METHODS
from krisis.verbs.selective.artifact import Selective, artifact_of
from krisis.verbs.selective.evaluation import (
    DEFAULT_GRID,
    SelectiveOptions,
    evaluate,
    same_participants,
)


def selective(
    run: AnyRun,
    against: AnyRun | None = None,
    *,
    confidence: str | Sequence[str] = "default",
    calibration: AnyCalibrator = None,
    loss: str = "",
    coverage_grid: Sequence[float] = DEFAULT_GRID,
    area_coverage: float = 0.5,
    resamples: int = 10_000,
    seed: int = 42,
    rng: str = "default",
    interval_method: str | None = None,
    intersection_only: bool = False,
    mode: str | None = None,
    against_mode: str | None = None,
    progress: Progress | None = None,
) -> Selective:
    """Judge how well confidence ranks the answers of one run, or of two runs compared.

    Arguments:
        run: A run by its path, or in memory.
        against: Another run on the same patients.
        confidence: Confidences by name, several to compare them: a variant such as ``stated``,
            ``signals.NAME`` for a signal of your backend or a numeric column of an import,
            ``default`` for that of the task, or ``all``.
        calibration: Calibrator of `krisis calibrate`, for the calibrated variants.
        loss: error, abs or abs_norm; that of the task unless given.
        coverage_grid: Coverages at which to report risk.
        area_coverage: Report the areas up to this coverage too.
        resamples: Number of bootstrap resamples of patients.
        seed: Seed of the resamples.
        rng: default, or legacy to draw as published intervals were drawn.
        interval_method: percentile, as published, or expanded_percentile, in place of
            the method that covers for each figure.
        intersection_only: Compare the patients that both runs have.
        mode: The experiment of a PHQ-8 run file.
        against_mode: The experiment of the second run file.

    Returns:
        A `Selective` with curves, areas and risks, each with its interval.

    >>> import krisis
    >>> rows = {"y": [0, 1] * 30, "p": [0, 1, 1, 1] * 15, "a": [0.9, 0.8, 0.6, 0.7] * 15}
    >>> rows["b"] = [0.6, 0.9, 0.9, 0.9] * 15
    >>> run = krisis.score(rows, truth="y", prediction="p")
    >>> found = krisis.selective(run, confidence=["signals.a", "signals.b"], resamples=200)
    >>> {name: round(one["aurc"], 3) for name, one in found.figures().items()}
    {'signals.a': 0.031, 'signals.b': 0.323}
    """
    runs = [items_of(run, mode)]
    if against is not None:
        runs.append(items_of(against, against_mode if against_mode is not None else mode))
        runs[:] = same_participants(*runs, intersection_only=intersection_only)
    options = SelectiveOptions(
        bootstrap=BootstrapOptions(resamples, seed, rng),  # type: ignore[arg-type]
        loss=_known("loss", loss or runs[0].table.answers.default_loss, LOSSES),
        method=_known("interval method", interval_method or None, (None, *REPLICATE_METHODS)),
        coverages=list(coverage_grid),
        area_coverage=area_coverage,
    )
    calibrator = calibrator_of(calibration)
    names = [confidence] if isinstance(confidence, str) else list(confidence)
    values, absent = _confidences(runs, names, calibrator)
    evaluation = evaluate(runs, values, options=options, absent=absent, progress=progress)
    wanted = None if evaluation.without_intervals else BootstrapOptions(seed=seed)
    artifact = artifact_of(
        evaluation,
        created_at=datetime.now(UTC),
        totals=[totals_report(one.table, wanted) for one in runs],
        intersection_only=intersection_only,
    )
    warnings: tuple[str, ...] = ()
    if calibrator is not None:
        found = [calibrator.missing_in(one) for one in runs]
        place = "the calibrator" if isinstance(calibration, Calibrator) else str(calibration)
        artifact["calibrator"] = {
            "path": place,
            "missing": [{name: one.model_dump() for name, one in part.items()} for part in found],
        }
        if n_seen := max(calibrator.overlap(one) for one in runs):
            optimistic = (
                f"{place} was fitted on {n_seen} of the {runs[0].words[0]}s evaluated here; "
                "results will be optimistic, evaluate on others"
            )
            warnings = (optimistic,)
    return Selective(evaluation, artifact, calibrator, warnings)


def _known(what: str, name: str | None, offered: Sequence[str | None]) -> Any:
    if name not in offered:
        raise UnknownName.among(what, str(name), [one for one in offered if one])
    return name


def _confidences(
    runs: Sequence[RunItems], names: Sequence[str], calibrator: Calibrator | None
) -> tuple[dict[str, list[FloatArray]], dict[str, str]]:
    wanted = [part.strip() for name in names for part in name.split(",") if part.strip()]
    absent: dict[str, str] = {}
    values: dict[str, list[FloatArray]] = {}
    for name in wanted:
        if name == "all":
            found = [available_variants(run, calibrator=calibrator) for run in runs]
            for _, missing in found:
                absent.update(missing)
            kept = [variant for variant in found[0][0] if variant not in absent]
            values.update({variant: [part[0][variant] for part in found] for variant in kept})
            continue
        variant = runs[0].default_confidence if name == "default" else name
        values[variant] = [confidence_of(t, variant, calibrator=calibrator) for t in runs]
    if not values:
        chosen = runs[0].default_confidence
        chosen = chosen if chosen in absent else next(iter(absent))
        raise InvalidValue(
            f"no variant can be evaluated for {runs[0].source.path}; {chosen}: {absent[chosen]}"
        )
    return values, absent
