"""`krisis.report` and `krisis.figure`: a page of one run, a figure of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from krisis import registry
from krisis.api.given import AnyCalibrator, AnyCertificate, AnyRun, calibrator_of, certificate_of
from krisis.api.scoring import load, results_of
from krisis.api.sections import SectionRequest
from krisis.cost_file import AnyCosts
from krisis.decisions.answers import with_costs
from krisis.decisions.run_sample import MOST_NOT_EVALUATED, ScoreOptions
from krisis.errors import InvalidValue
from krisis.json_values import write_text
from krisis.pages.certify import certificate_section
from krisis.pages.charts.files import check_figure_file, write_figure
from krisis.pages.document import Document, Section
from krisis.pages.figure import Figure, check_charts
from krisis.pages.run import run_document
from krisis.pages.shell import page
from krisis.results.base import BenchmarkResult
from krisis.results.ids import ShownIds
from krisis.results.loading import reproduce_command
from krisis.results.matching import refuse_other_costs, refuse_other_data
from krisis.results.run_items import items_of
from krisis.results.what_if import what_if
from krisis.verbs.report.figures import FigureOptions, runs_figure


@dataclass(frozen=True)
class ReportFiles:
    """A page that was written: what it says, where it is, and the files of its charts."""

    document: Document
    path: Path
    figures: tuple[Path, ...] = ()


def report(
    run: AnyRun,
    output: str | Path = "report.html",
    *,
    against: Sequence[AnyRun] = (),
    certificate: AnyCertificate = None,
    calibration: AnyCalibrator = None,
    confidence: str = "",
    decide: bool = False,
    costs: AnyCosts | None = None,
    price: float | None = None,
    curve: bool = False,
    prevalence: float | str | None = None,
    audit: bool = False,
    figures: str | Path | None = None,
    max_not_evaluated: float = MOST_NOT_EVALUATED,
    with_ids: bool = False,
    overwrite: bool = False,
) -> ReportFiles:
    """Write a run as one self-contained HTML page that needs no network.

    Arguments:
        run: A run by its path, or in memory.
        output: The page to write.
        against: Other runs to show next to it in the metric table.
        certificate: Show this certificate of `krisis.certify`, and verify it.
        calibration: The calibrator of the certificate, and of costs and curve.
        confidence: A confidence variant of costs and curve, or ``signals.NAME``.
        decide: Show what every policy costs, as `krisis.decide` does.
        costs: Judge it by these costs, a `Costs` or the YAML file of one, in place of the task's.
        price: Judge it at this price of a deferral.
        curve: Show the decision curve of a binary task.
        prevalence: Re-weight costs and curve to this prevalence.
        audit: Add the audit of the groups of the task.
        figures: Also write every chart as SVG, PNG and CSV into this folder.
        max_not_evaluated: Largest share of cases without a reply on which a run is judged.
        with_ids: Show the ids of real patients in place of numbers.
        overwrite: Replace an older page.

    Returns:
        The `ReportFiles`: the document, its path and the files of its charts.

    >>> import tempfile, krisis
    >>> run = krisis.score({"y": [0, 1] * 20, "p": [0, 1] * 20}, truth="y", prediction="p")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = krisis.report(run, f"{folder}/report.html")
    >>> written.document.verdict.line("correctness").answer
    'yes'
    """
    check_charts()
    result = run if isinstance(run, BenchmarkResult) else load(run)
    result = what_if(result, costs, price)
    others = {name: what_if(one, costs, price) for name, one in results_of(against).items()}
    refuse_other_data({"this run": result, **others})
    refuse_other_costs({"this run": result, **others})
    score = ScoreOptions(
        confidence=confidence,
        calibrator=calibrator_of(calibration),
        max_not_evaluated=max_not_evaluated,
    )
    decide = decide or costs is not None or price is not None
    if prevalence not in (None, "") and not (decide or curve):
        raise InvalidValue(
            "--prevalence re-weights costs and the decision curve; add --decide or --curve"
        )
    wanted = {"decide": decide, "curve": curve, "audit": audit}
    asked = {name: "yes" if is_wanted else "" for name, is_wanted in wanted.items()}
    shown: list[Section] = []
    sealed = certificate_of(certificate)
    if sealed is not None or any(asked.values()):
        items = with_costs(items_of(run), costs, price)
    if sealed is not None:
        shown.append(certificate_section(sealed, items_of(run), calibrator=score.calibrator))
    for name in registry.table("sections"):
        if value := asked.get(name):
            request = SectionRequest(
                run=run,
                items=items,
                value=value,
                against=against,
                score=score,
                certificate=sealed,
                prevalence="" if prevalence is None else str(prevalence),
            )
            shown.append(registry.find("sections", name)(request))
    again = "" if isinstance(run, BenchmarkResult) else reproduce_command(Path(run))
    ids = ShownIds.of(result, with_ids=with_ids)
    document = run_document(result, against=others, reproduce=again, ids=ids)
    # What was asked for comes before what every report folds away.
    at = next(i for i, one in enumerate(document.sections) if one.folded)
    sections = [*document.sections[:at], *shown, *document.sections[at:]]
    document = replace(document, sections=sections)
    write_text(Path(output), page(document), overwrite=overwrite)
    drawn_files: list[Path] = []
    if figures is not None:
        for chart in document.charts():
            drawn_files += chart.draw().save(Path(figures))
    return ReportFiles(document, Path(output), tuple(drawn_files))


def figure(
    runs: AnyRun | Sequence[AnyRun] | Mapping[str, AnyRun],
    output: str | Path | None = None,
    *,
    kind: str = "risk-coverage",
    metrics: Sequence[str] = (),
    style: str = "screen",
    width: float | None = None,
    title: str = "",
) -> Figure:
    """Draw runs on the same cases as one figure: names, task, n, key and intervals are inside it.

    Arguments:
        runs: One to twelve runs, by path or in memory; a mapping gives them names.
        output: The new file to write: .pdf, .svg or .png.
        kind: risk-coverage, reliability, forest, deferral, decision-curve or cost.
        metrics: Metrics of a forest, by their keys.
        style: screen, or print: white, small letters, sizes in millimetres.
        width: Width for print, in millimetres: 85 for a column, 170 for a page.
        title: A title of your own.

    Returns:
        The `Figure`, whose ``svg`` and ``table`` hold drawing and numbers.

    >>> import krisis
    >>> rows = {"y": [0, 1] * 20, "p": [0, 1, 1, 1] * 10, "c": [0.9, 0.8, 0.6, 0.7] * 10}
    >>> run = krisis.score(rows, truth="y", prediction="p", confidence="c")
    >>> krisis.figure(run).svg[:4]
    '<svg'
    """
    one = isinstance(runs, str | Path | BenchmarkResult)
    given: Sequence[AnyRun] | Mapping[str, AnyRun] = [runs] if one else runs  # type: ignore[list-item,assignment]
    options = FigureOptions(kind, style, width, title, metrics)
    path = None if output is None else Path(output)
    if path is not None:
        check_figure_file(path)
    drawn = runs_figure(results_of(given), options)
    if path is not None:
        write_figure(drawn, path, style)
    return drawn
