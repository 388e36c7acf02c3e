"""`krisis report`: write one run as a self-contained HTML page, and its charts as files."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.certify import MaxNotEvaluated, calibrator_of
from krisis.cli.help import command, new_app
from krisis.decisions.certificate import certificate_from
from krisis.decisions.costs import costs_of_run
from krisis.decisions.decide import DecideOptions, decide_run
from krisis.decisions.decision_curve import CurveOptions, decision_curve
from krisis.decisions.missing_rows import MOST_NOT_EVALUATED
from krisis.decisions.population import Prevalence
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.team import team_from
from krisis.errors import InvalidValue
from krisis.json_values import read_object, write_text
from krisis.reporting.audit import audit_section
from krisis.reporting.certificate import certificate_section
from krisis.reporting.decide import decide_section
from krisis.reporting.decision_curve import decision_curve_section
from krisis.reporting.report import Section, build_report, report_html, save_figures
from krisis.results.comparison.matching import refuse_other_data
from krisis.results.loading import load_result, load_results, reproduce_command
from krisis.results.run_items import read_items
from krisis.verbs.costing import own_baselines

app = new_app()


@command(
    app,
    "krisis report runs/RUN -o report.html",
    "krisis report result.json --figures figures --baseline runs/GUIDELINE",
    "krisis report runs/RUN --cost costs.yaml",
    "krisis report runs/RUN --audit",
)
def report(
    runs: list[Path] = typer.Argument(..., metavar="RUN", help="A run or a saved result (JSON)."),
    output: Path = typer.Option(Path("report.html"), "--output", "-o", help="The page to write."),
    figures: Path | None = typer.Option(
        None, "--figures", help="Also write every chart as SVG, PNG and CSV into this folder."
    ),
    baseline: list[Path] = typer.Option(
        [], "--baseline", help="Another run to show beside it in the metric table; repeatable."
    ),
    certificate: Path | None = typer.Option(
        None, "--certificate", help="Show this certificate of `krisis certify`, and verify it."
    ),
    calibration: Path | None = typer.Option(
        None, "--calibration", help="The calibrator of the certificate, and of costs and curve."
    ),
    cost: str = typer.Option(
        "", "--cost", help="Show what the run costs: a cost table (YAML), or `preset`."
    ),
    curve: bool = typer.Option(
        False, "--curve", help="Show the decision curve of a binary task, as `decide --curve`."
    ),
    prevalence: str = typer.Option(
        "",
        "--prevalence",
        help="With --cost or --curve: re-weight to this prevalence, as `decide` does.",
    ),
    audit: bool = typer.Option(
        False, "--audit", help="Add the audit of the groups of the task, as `krisis audit` does."
    ),
    max_not_evaluated: MaxNotEvaluated = MOST_NOT_EVALUATED,
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an older page."),
) -> None:
    """Write a run as one self-contained HTML page that needs no network."""
    run, *others_given = runs
    if others_given:
        other = others_given[0]
        raise InvalidValue(
            f"a report is about one run, and {len(runs)} were named; to compare them, type: krisis "
            f"compare {' '.join(map(str, runs[:3]))}{' …' if len(runs) > 3 else ''} --html "
            f"comparison.html; to show others next to one, type: krisis report {run} --baseline "
            f"{other}"
        )
    result = load_result(run)
    others = load_results(baseline)
    refuse_other_data({run.name: result, **others})
    shown = [] if certificate is None else [_certified(certificate, run, calibration)]
    if prevalence and not (cost or curve):
        raise InvalidValue(
            "--prevalence re-weights costs and the decision curve; add --cost or --curve"
        )
    population = Prevalence.from_text(prevalence) if prevalence else None
    score = ScoreOptions(calibrator=calibrator_of(calibration), max_not_evaluated=max_not_evaluated)
    if cost:
        shown.append(_priced(run, cost, baseline, score, population))
    if curve:
        drawn = decision_curve(read_items(run), CurveOptions(score=score, prevalence=population))
        shown.append(decision_curve_section(drawn))
    shown += [audit_section(read_items(run))] if audit else []
    page = build_report(result, baselines=others, reproduce=reproduce_command(run), sections=shown)
    write_text(output, report_html(page), overwrite=overwrite)
    typer.echo(f"wrote {output}")
    if figures is not None:
        n_files = len(save_figures(page, figures))
        typer.echo(f"wrote {n_files} files into {figures}")


def _certified(path: Path, run: Path, calibration: Path | None) -> Section:
    certificate = certificate_from(read_object(path), place=path)
    return certificate_section(certificate, read_items(run), calibrator=calibrator_of(calibration))


def _priced(
    run: Path, cost: str, baseline: list[Path], score: ScoreOptions, prevalence: Prevalence | None
) -> Section:
    items = read_items(run)
    costs = costs_of_run(items, None if cost == "preset" else Path(cost))
    team = None if costs.team is None else team_from(costs.team, costs.place)
    options = DecideOptions(costs=costs, team=team, score=score, prevalence=prevalence)
    others = {path.resolve().name.removesuffix(".json"): read_items(path) for path in baseline}
    return decide_section(decide_run(items, options, baselines={**own_baselines(run), **others}))
