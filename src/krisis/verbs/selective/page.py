"""The document of selective prediction: areas and risks of every confidence, and differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from krisis.confidence.calibrators import missing_lines
from krisis.confidence.variants import CALIBRATED, constant_value
from krisis.errors import InvalidValue
from krisis.json_values import JsonMapping
from krisis.metrics.explanations import method_lines, reason_words
from krisis.metrics.items import RunItems
from krisis.metrics.weighted_curve import area_key
from krisis.pages.document import Cell, Column, Document, Section, Table
from krisis.pages.numbers import Estimate, count, figure, given, level, share
from krisis.pages.ties import ties_sentence
from krisis.results.loading import distinct_names
from krisis.verbs.selective.artifact import EXCESS_NOTE, NOTHING_PREDICTED, Selective, population
from krisis.verbs.selective.evaluation import Evaluation

# Figure of selective prediction → its heading.
AREAS = {
    "cmax": "Cmax",
    "aurc": "AURC",
    "augrc": "AUGRC",
    "eaurc": "excess AURC",
    "eaugrc": "excess AUGRC",
    "aurc_normalized": "AURC / Cmax",
    "augrc_normalized": "AUGRC / Cmax²",
}
_LOSSES = {
    "error": "1 for a wrong answer, 0 for a right one",
    "abs": "the distance of the answer from the truth",
    "abs_norm": "the distance of the answer from the truth, as a share of the scale",
}
NOT_REACHED = "coverage_is_never_reached"
# The smallest number of patients in the simulation that the intervals were checked by.
_FEW = 15


def selective_document(found: Selective) -> Document:
    """Return all there is to show of how well confidence ranks answers."""
    evaluation = found.evaluation
    names, source = run_names(evaluation.runs), evaluation.runs[0].source
    suite = " / ".join(filter(None, (source.suite or "unnamed suite", source.task)))
    sections = [
        part
        for place, name in enumerate(names)
        for part in _of_run(evaluation, place, name if len(names) > 1 else "")
    ]
    if len(names) > 1:
        sections.append(_differences(evaluation, names))
    sections.append(Section.of_sentences("notes", "How to read it", _notes(found, names)))
    return Document(
        title=f"{' and '.join(names)} · {suite}",
        lead=[
            *found.warnings,
            *(_population(run, name) for run, name in zip(evaluation.runs, names, strict=True)),
        ],
        sections=sections,
    )


def run_names(runs: Sequence[RunItems]) -> list[str]:
    """Name every run by its model; by mode or file as well where one model ran twice."""
    sources = [run.source for run in runs]
    files = [Path(one.path).name.removesuffix(".json") for one in sources]
    models = [one.model or file for one, file in zip(sources, files, strict=True)]
    modes = [one.mode or "" for one in sources]
    places = [one.path for one in sources] if len(set(files)) < len(files) else files
    return distinct_names(models, places if len(set(modes)) < len(modes) else modes)


def _population(run: RunItems, name: str) -> str:
    """Say what became of the items of a run, and how many more were not evaluated."""
    counts, source = population(run), run.source
    people, items = (f"{word}s" for word in run.words)
    parts = []
    if run.n_not_asked:
        parts.append(f"INCOMPLETE: {count(run.n_not_asked)} {items} not asked yet")
    if missing := counts["participants_failed"]:
        total = counts["participants_total"]
        parts.append(f"{count(missing)} of {count(total)} {people} NOT EVALUATED")
    if run.left_out:
        parts.append(f"{count(len(run.left_out))} left out because the other run lacks them")
    parts.append(
        f"{count(counts['participants_included'])} {people}, {count(counts['items_total'])} {items}"
    )
    parts.append(_outcomes(counts))
    covered = share(Estimate(counts["coverage_end_to_end"]))
    mode = f", mode {source.mode}" if source.mode else ""
    return f"{name}{mode}: {'; '.join(parts)}; {covered} of all {items} answered"


def _outcomes(counts: JsonMapping) -> str:
    found = [
        f"{count(counts['items_predicted'])} answered",
        f"{count(counts['items_abstained'])} abstained",
    ]
    if counts["items_no_answer"]:
        found.append(f"{count(counts['items_no_answer'])} no answer")
    missing = counts["items_not_evaluated"]
    more = f"; {count(missing)} more not evaluated" if missing else ""
    return " / ".join(found) + more


def _of_run(evaluation: Evaluation, place: int, name: str) -> Iterator[Section]:
    """Yield the areas of a run, and its risks along the coverage."""
    of, key = (f", {name}", f"-{place}") if name else ("", "")
    variants = list(evaluation.curves)
    columns = [Column("name", "figure"), *(Column("figure", variant) for variant in variants)]
    areas: list[list[Cell]] = [
        [heading, *(_estimate(evaluation, variant, place, area) for variant in variants)]
        for area, heading in AREAS.items()
    ]
    table = Table(columns=columns, rows=areas, keys=list(AREAS))
    yield Section(key=f"areas{key}", title=f"Areas{of}", parts=[table])
    coverages = evaluation.options.coverages
    columns = [Column("name", "coverage"), *(Column("figure", variant) for variant in variants)]
    # The risk is a mean loss, which is a share only for the plain error.
    risks: list[list[Cell]] = [
        [
            share(Estimate(coverage)),
            *(_risk(evaluation, variant, place, coverage) for variant in variants),
        ]
        for coverage in coverages
    ]
    table = Table(columns=columns, rows=risks, keys=list(map(given, coverages)))
    yield Section(key=f"risks{key}", title=f"Risk at coverage{of}", parts=[table])


def _estimate(evaluation: Evaluation, variant: str, place: int, area: str) -> Estimate:
    value = evaluation.curves[variant][place].figures[area]
    return Estimate.of(value, evaluation.interval(variant, place, area))


def _risk(evaluation: Evaluation, variant: str, place: int, coverage: float) -> Cell:
    found = evaluation.curves[variant][place].curve.risk_at(coverage)
    return found[0] if found else "–"


def _differences(evaluation: Evaluation, names: Sequence[str]) -> Section:
    """Return the second run minus the first, on the same patients, variant by variant."""
    common = next(iter(evaluation.curves.values()))[0].common_coverage
    shown = dict(AREAS)
    if common is not None:
        reach = figure(Estimate(common))
        shown[area_key("aurc", common)] = f"AURC to {reach}, which both reach"
        shown[area_key("augrc", common)] = f"AUGRC to {reach}, which both reach"
    columns = (
        Column("name", "figure"),
        Column("figure", names[0]),
        Column("figure", names[1]),
        Column("change", "difference", f"{names[1]} minus {names[0]}"),
    )
    tables = []
    for variant, runs in evaluation.curves.items():
        rows: list[list[Cell]] = [
            [
                heading,
                *(run.figures[name] for run in runs),
                Estimate.of(*evaluation.delta(variant, name)),
            ]
            for name, heading in shown.items()
        ]
        tables.append(Table(columns=columns, rows=rows, keys=list(shown), title=variant))
    people = f"{evaluation.runs[0].words[0]}s"
    title = f"{names[1]} minus {names[0]}, on the same {people}"
    return Section(key="differences", title=title, parts=tables)


def _notes(found: Selective, names: Sequence[str]) -> Iterator[str]:
    """Yield what must be known to read the figures."""
    evaluation, artifact = found.evaluation, found.artifact
    people = f"{evaluation.runs[0].words[0]}s"
    yield f"Loss: {_LOSSES[evaluation.options.loss]}."
    yield _interval_note(evaluation, people)
    if evaluation.n_clusters < _FEW and not evaluation.without_intervals:
        yield f"Only {evaluation.n_clusters} {people}: the intervals were checked from {_FEW} on."
    for name, report, ties in zip(names, artifact["totals"], artifact["ties"], strict=True):
        if report is not None:
            yield f"Totals ({name}): {_totals(report)}."
        if ties and ties["n_tied"]:
            yield f"Ties ({name}): {ties_sentence(ties)}."
    for variant, both in evaluation.curves.items():
        for one in both:
            if why := constant_value(one.run, one.confidence):
                yield f"No ranking: {variant}: {why}."
    curves = [curve for both in evaluation.curves.values() for curve in both]
    if any(curve.figures[excess] < 0 for curve in curves for excess in ("eaurc", "eaugrc")):
        yield f"Excess: {EXCESS_NOTE}."
    if not all(curve.losses.size for curve in curves):
        yield f"All areas are undefined: {reason_words(NOTHING_PREDICTED)}."
    yield from _calibration_lines(found, names)
    yield from (f"Not evaluated: {name}: {why}" for name, why in evaluation.absent.items())
    asked = evaluation.options.coverages
    if any(c.losses.size and c.curve.risk_at(at) is None for c in curves for at in asked):
        yield f"Risk at coverage –: {reason_words(NOT_REACHED)}."
    yield from method_lines(_methods(evaluation))


# Metric of totals → its name, and where the report of totals has its value.
_TOTALS = {
    "total_mae": ("Total MAE", "total", "mae"),
    "total_bias": ("Total Bias", "total", "bias"),
    "total_correlation": ("Total Correlation", "total", "pearson"),
    "screening_sensitivity": ("Screening Sensitivity", "screening", "recall"),
    "screening_specificity": ("Screening Specificity", "screening", "specificity"),
}


def _totals(report: JsonMapping) -> str:
    """Write the figures of totals, and what the first of either kind rests on."""
    parts = []
    for key, (name, part, place) in _TOTALS.items():
        ends = report["intervals"][key] or (math.nan, math.nan)
        reason = report["reasons"].get(key)
        value = f"undefined: {reason_words(reason)}" if reason else ""
        text = f"{name} {value or figure(Estimate(report[part][place], *ends))}"
        noted = key in ("total_mae", "screening_sensitivity")
        parts.append(f"{text} ({report['notes'][key]})" if noted else text)
    return "; ".join(parts)


def _methods(evaluation: Evaluation) -> Iterator[str]:
    """Yield the methods of the intervals shown, those of differences last."""
    for variant in evaluation.curves:
        for place in range(len(evaluation.runs)):
            shown = [evaluation.interval(variant, place, area) for area in AREAS]
            yield from (one.method for one in shown if one.defined)
    if len(evaluation.runs) > 1:
        deltas = [evaluation.delta(v, area)[1] for v in evaluation.curves for area in AREAS]
        yield from (one.method for one in deltas if one.defined)


def _interval_note(evaluation: Evaluation, people: str) -> str:
    """Say how the intervals were made."""
    options = evaluation.options
    if evaluation.without_intervals:
        return "No intervals: no resamples were wanted."
    size = f"{count(evaluation.n_clusters)} {people}, seed {options.bootstrap.seed}"
    percent = level(options.bootstrap.level)
    if options.replicate_method is None:
        return f"Intervals: {percent}, allowing for errors not seen; {size}."
    n, method = count(options.bootstrap.n_resamples), options.replicate_method
    return f"Intervals: {percent} {method} over {n} resamples of {size}."


def _calibration_lines(found: Selective, names: Sequence[str]) -> Iterator[str]:
    """Say what a calibrator changed, and which of its inputs are missing."""
    evaluation, calibrator = found.evaluation, found.calibrator
    if calibrator is None or not set(evaluation.curves) & set(CALIBRATED):
        return
    if note := calibrator.order_note():
        yield f"Calibrated: {note}."
    for name, run in zip(names, evaluation.runs, strict=True):
        if not run.predicted.any():
            continue
        for line in missing_lines(calibrator.missing_in(run)):
            yield f"Calibrated ({name}): {line}."
        try:
            before, old, new = calibrator.judged_on(run)
        except InvalidValue:
            continue
        changes = ", ".join(
            f"{key.upper()} {figure(Estimate(old[key]))} → {figure(Estimate(new[key]))}"
            for key in old
            if not math.isnan(old[key])
        )
        yield f"Calibrated ({name}), against {before} as it is: {changes}."
