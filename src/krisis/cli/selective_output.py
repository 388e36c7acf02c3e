"""What `krisis selective` shows: a table per run, deltas, notes, progress, and the curves drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from krisis.cli.console import drawn
from krisis.confidence.artifact import EXCESS_NOTE, population
from krisis.confidence.calibrators import Calibrator, missing_lines
from krisis.confidence.evaluation import Evaluation, VariantCurve
from krisis.confidence.variants import CALIBRATED, constant_value
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonMapping, write_text
from krisis.metrics.explanations import explained, method_lines
from krisis.metrics.items import RunItems
from krisis.metrics.repeats import Ties
from krisis.metrics.weighted_curve import area_key
from krisis.pages.charts.curves import Curve, risk_coverage
from krisis.pages.figure import altair
from krisis.pages.style import style_of
from krisis.reporting.run_tables import AREAS, NOT_REACHED
from krisis.results.loading import distinct_names
from krisis.statistics.intervals import Interval, interval_heading, level_name

_SHOWN = {name: heading for name, heading in AREAS.items() if name != "cmax"}

# The smallest number of patients in the simulation that the intervals were checked by.
_FEW = 15
_MOST_CURVES = 3
_SUFFIXES = (".svg", ".png", ".html")


@contextmanager
def with_progress(n_resamples: int, *, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Show a bar of the resamples on a terminal, nothing elsewhere."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("resampling patients", total=n_resamples)
        yield lambda n_done: bar.advance(task, n_done)


def run_names(runs: Sequence[RunItems]) -> list[str]:
    """Name every run by its model; by mode or file as well where one model ran twice."""
    sources = [run.source for run in runs]
    files = [Path(one.path).name.removesuffix(".json") for one in sources]
    models = [one.model or file for one, file in zip(sources, files, strict=True)]
    modes = [one.mode or "" for one in sources]
    places = [one.path for one in sources] if len(set(files)) < len(files) else files
    return distinct_names(models, places if len(set(modes)) < len(modes) else modes)


def evaluation_text(
    evaluation: Evaluation, artifact: JsonMapping, calibrator: Calibrator | None
) -> str:
    """Return every run, the deltas of two, and what must be known to read them."""
    return drawn(lambda console: _print(evaluation, artifact, calibrator, console))


def _print(
    evaluation: Evaluation,
    artifact: JsonMapping,
    calibrator: Calibrator | None,
    console: Console,
) -> None:
    for position in range(len(evaluation.runs)):
        for line in _population_lines(evaluation, position):
            console.print(line, soft_wrap=True)
        console.print(_table(evaluation, position))
        console.print(_risk_table(evaluation, position))
    if len(evaluation.runs) > 1:
        console.print(_delta_table(evaluation))
    for line in _notes(evaluation, artifact, calibrator):
        console.print(line, soft_wrap=True)


def _population_lines(evaluation: Evaluation, position: int) -> list[str]:
    run = evaluation.runs[position]
    counts, source = population(run), run.source
    people, items = (f"{word}s" for word in run.words)
    mode = f", mode {source.mode}" if source.mode else ""
    missing = counts["participants_failed"]
    total = counts["participants_total"]
    start = f"{missing} of {total} {people} NOT EVALUATED; " if missing else ""
    if run.n_not_asked:
        start = f"INCOMPLETE: {run.n_not_asked} {items} not asked yet; {start}"
    if run.left_out:
        start += f"{len(run.left_out)} left out because the other run lacks them; "
    return [
        f"{run_names(evaluation.runs)[position]}: {source.path}{mode}",
        (
            f"{start}{counts['participants_included']} {people}, "
            f"{counts['items_total']} {items}: "
            f"{_outcomes(counts)}; end-to-end coverage "
            f"{figure(counts['coverage_end_to_end'])}"
        ),
        f"Cmax {_cmax(evaluation, position)}",
    ]


def _outcomes(counts: JsonMapping) -> str:
    """Say what became of the items that were evaluated, and how many more were not."""
    found = [f"{counts['items_predicted']} answered", f"{counts['items_abstained']} abstained"]
    if counts["items_no_answer"]:
        found.append(f"{counts['items_no_answer']} no answer")
    missing = counts["items_not_evaluated"]
    return " / ".join(found) + (f"; {missing} more not evaluated" if missing else "")


def _cmax(evaluation: Evaluation, position: int) -> str:
    variant, runs = next(iter(evaluation.curves.items()))
    interval = evaluation.interval(variant, position, "cmax")
    text = _with_interval(runs[position].figures["cmax"], interval).replace("\n", " ")
    return f"{text} {interval.method}" if interval.defined else text


def figure(value: float) -> str:
    """Write a figure to four decimals, and an undefined one as a dash."""
    return "–" if math.isnan(value) else f"{value:.4f}"


def _with_interval(value: float, interval: Interval) -> str:
    if not interval.defined:
        return figure(value)
    return f"{figure(value)}\n[{interval.low:.3f}, {interval.high:.3f}]"


def _empty_table(headings: Sequence[str], title: str = "") -> Table:
    shown = Text(title) if title else None  # a name may hold what rich takes for markup
    table = Table(title=shown, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("variant", overflow="fold")
    for heading in headings:
        table.add_column(heading, no_wrap=True, justify="right")
    return table


def _table(evaluation: Evaluation, position: int) -> Table:
    table = _empty_table(list(_SHOWN.values()))
    for variant, curves in evaluation.curves.items():
        figures = curves[position].figures
        cells = [
            _with_interval(figures[name], evaluation.interval(variant, position, name))
            for name in _SHOWN
        ]
        table.add_row(variant, *cells)
    return table


def _risk_table(evaluation: Evaluation, position: int) -> Table:
    coverages = evaluation.options.coverages
    table = _empty_table([f"{coverage:g}" for coverage in coverages], "Risk at coverage")
    for variant, curves in evaluation.curves.items():
        found = [curves[position].curve.risk_at(coverage) for coverage in coverages]
        table.add_row(variant, *(figure(risk[0]) if risk else "–" for risk in found))
    return table


def _delta_table(evaluation: Evaluation) -> Table:
    common = next(iter(evaluation.curves.values()))[0].common_coverage
    shown = dict(AREAS)
    if common is not None:
        shown[area_key("aurc", common)] = f"AURC to {common:.3f}, which both reach"
        shown[area_key("augrc", common)] = f"AUGRC to {common:.3f}, which both reach"
    found = {
        (variant, name): evaluation.delta(variant, name)
        for variant in evaluation.curves
        for name in shown
    }
    left, right = run_names(evaluation.runs)
    title = f"B − A, on the same {evaluation.runs[0].words[0]}s\nA: {left}\nB: {right}"
    table = _empty_table(
        ("figure", "A", "B", "difference", interval_heading(one for _, one in found.values())),
        title,
    )
    for variant, runs in evaluation.curves.items():
        for name, heading in shown.items():
            value, interval = found[variant, name]
            ends = f"[{interval.low:.3f}, {interval.high:.3f}]" if interval.defined else "–"
            sides = (figure(run.figures[name]) for run in runs)
            table.add_row(variant, heading, *sides, figure(value), ends)
    return table


def _notes(
    evaluation: Evaluation, artifact: JsonMapping, calibrator: Calibrator | None
) -> list[str]:
    people, names = f"{evaluation.runs[0].words[0]}s", run_names(evaluation.runs)
    notes = [f"Loss: {artifact['loss']['definition']}. {_interval_note(evaluation, people)}"]
    if evaluation.n_clusters < _FEW and not evaluation.without_intervals:
        notes.append(
            f"Only {evaluation.n_clusters} {people}: the intervals were checked from {_FEW} on."
        )
    notes += [
        f"Totals ({names[position]}): {report['summary']}"
        for position, report in enumerate(artifact["totals"])
        if report is not None
    ]
    notes += [
        f"Ties ({names[position]}): {Ties(**found)}."
        for position, found in enumerate(artifact["ties"])
        if found and found["n_tied"]
    ]
    notes += [
        f"No ranking: {variant}: {why}."
        for variant, both in evaluation.curves.items()
        for why in (constant_value(curve.run, curve.confidence) for curve in both)
        if why
    ]
    curves = [curve for both in evaluation.curves.values() for curve in both]
    if any(curve.figures[excess] < 0 for curve in curves for excess in ("eaurc", "eaugrc")):
        notes.append(f"Excess: {EXCESS_NOTE}.")
    if not all(curve.losses.size for curve in curves):
        notes.append("Nothing was predicted, so there is no curve: all areas are undefined.")
    if calibrator is not None and set(evaluation.curves) & set(CALIBRATED):
        note = calibrator.order_note()
        notes += [f"Calibrated: {note}."] if note else []
        notes += _calibration_lines(evaluation, calibrator)
    notes += [f"not evaluated: {name}: {why}" for name, why in evaluation.absent.items()]
    return [*notes, *_not_reached(curves, evaluation), *method_lines(_methods(evaluation))]


def _not_reached(curves: Sequence[VariantCurve], evaluation: Evaluation) -> list[str]:
    """Say why some risks are missing, where there is a curve at all."""
    asked = evaluation.options.coverages
    missing = any(
        one.losses.size and one.curve.risk_at(coverage) is None
        for one in curves
        for coverage in asked
    )
    return [f"Risk at coverage –: {explained(NOT_REACHED)}."] if missing else []


def _methods(evaluation: Evaluation) -> Iterator[str]:
    """Yield the methods of the intervals shown, those of differences last."""
    for variant in evaluation.curves:
        for position in range(len(evaluation.runs)):
            shown = [evaluation.interval(variant, position, figure) for figure in AREAS]
            yield from (one.method for one in shown if one.defined)
    if len(evaluation.runs) > 1:
        deltas = [evaluation.delta(v, figure)[1] for v in evaluation.curves for figure in AREAS]
        yield from (one.method for one in deltas if one.defined)


def _interval_note(evaluation: Evaluation, people: str) -> str:
    """Say how the intervals were made."""
    options = evaluation.options
    if evaluation.without_intervals:
        return "No intervals: no resamples were wanted."
    size = f"{evaluation.n_clusters} {people}, seed {options.bootstrap.seed}"
    percent = level_name([options.bootstrap.level])
    if options.replicate_method is None:
        return f"Intervals: {percent}, allowing for errors not seen; {size}."
    method, n_resamples = options.replicate_method, options.bootstrap.n_resamples
    return f"Intervals: {percent} {method} over {n_resamples} resamples of {size}."


def _calibration_lines(evaluation: Evaluation, calibrator: Calibrator) -> list[str]:
    lines, names = [], run_names(evaluation.runs)
    for position, run in enumerate(evaluation.runs):
        if not run.predicted.any():
            continue
        found = missing_lines(calibrator.missing_in(run))
        lines += [f"Calibrated ({names[position]}): {line}." for line in found]
        try:
            before, old, new = calibrator.judged_on(run)
        except InvalidValue:
            continue
        changes = ", ".join(
            f"{name.upper()} {figure(old[name])} → {figure(new[name])}" for name in old
        )
        lines.append(f"Calibrated ({names[position]}), against {before} as it is: {changes}.")
    return lines


def _about(evaluation: Evaluation) -> list[str]:
    """Say whose curves are drawn, and of how many items."""
    found = []
    for run in evaluation.runs:
        source = run.source
        whose = filter(None, (source.model, source.suite, source.task, source.mode))
        counts = f"n = {run.n_items:,}, {int(run.predicted.sum()):,} predicted"
        found.append(" · ".join([*whose, counts]))
    return found


def draw_evaluation(evaluation: Evaluation, path: Path) -> None:
    """Draw the first variants (or both runs of the first) to an SVG, PNG or HTML file."""
    names = run_names(evaluation.runs)
    runs = [
        (variant if len(both) == 1 else f"{names[position]}, {variant}", run)
        for variant, both in evaluation.curves.items()
        for position, run in enumerate(both)
        if run.losses.size
    ]
    options = evaluation.options
    wanted = None if evaluation.without_intervals else options.bootstrap
    curves = {
        name: Curve.of(name, run.table, loss=options.loss, options=wanted)
        for name, run in runs[:_MOST_CURVES]
    }
    if not curves:
        raise InvalidValue("nothing was predicted, so there is no curve to draw")
    style = style_of("screen")
    drawn = risk_coverage(curves, style).figure(style, about=_about(evaluation))
    suffix = path.suffix.lower()
    if suffix == ".svg":
        write_text(path, drawn.svg, private=False)
    elif suffix == ".html":
        write_text(path, drawn.html())
    else:
        picture = drawn.png()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)
        except OSError as error:
            raise InvalidFile(f"{path} cannot be written: {error.strerror}") from None


def check_plot(path: Path | None) -> None:
    """Refuse a file that could not be drawn, before any work is done."""
    if path is None:
        return
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidValue(f"--plot draws .svg, .png or .html files, not {path.name!r}")
    if path.exists():
        raise InvalidFile(f"{path} exists already; choose another name")
    altair()
