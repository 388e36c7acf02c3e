"""`krisis decide`: what answering and deferring cost, and from which confidence on to answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.certify import (
    AsJson,
    Calibration,
    Confidence,
    MaxNotEvaluated,
    Mode,
    calibrator_of,
)
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.decisions.costs import CostTable, cost_file_text, costs_of_run
from krisis.decisions.decide import DecideOptions, decide_run
from krisis.decisions.decide_text import decide_facts, decide_lines
from krisis.decisions.decision_curve import (
    THRESHOLDS,
    CurveOptions,
    curve_facts,
    curve_lines,
    decision_curve,
)
from krisis.decisions.missing_rows import MOST_NOT_EVALUATED
from krisis.decisions.population import Prevalence
from krisis.decisions.reader import decide_with_reader, reader_facts, reader_lines
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.team import Team, team_from
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject, dumps, write_text
from krisis.metrics.items import RunItems
from krisis.results.run_items import read_items
from krisis.verbs.costing import baselines_of

app = new_app()

# The options, one name each; those that `certify` has too are taken from there.
Cost = Annotated[
    Path | None,
    typer.Option("--cost", help="YAML with `costs` and `defer`; default: the preset of the task."),
]
WriteCost = Annotated[
    Path | None,
    typer.Option("--write-cost", help="Write the preset to this new file, to be edited, and end."),
]
Baseline = Annotated[
    list[Path] | None,
    typer.Option("--baseline", help="Another run of the same cases to price; repeatable."),
]
PrevalenceText = Annotated[
    str,
    typer.Option("--prevalence", help="Share of the positive answer, or ANSWER=SHARE,… of all."),
]
Sensitivity = Annotated[
    float | None,
    typer.Option("--reader-sensitivity", help="Share of positive cases that a reader finds."),
]
Specificity = Annotated[
    float | None,
    typer.Option("--reader-specificity", help="Share of negative cases that a reader clears."),
]
Accuracy = Annotated[
    float | None, typer.Option("--reader-accuracy", help="Share of cases that a reader has right.")
]
ReaderRun = Annotated[
    Path | None,
    typer.Option(
        "--reader",
        metavar="RUN",
        help="Run of a reader on the same cases: model, reader, and model with deferral to them.",
    ),
]
ReaderColumn = Annotated[
    str, typer.Option("--reader-column", help="Metadata column with the reader's answers.")
]
Folds = Annotated[int, typer.Option("--folds", help="Folds of patients for cross-fitting.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of folds and drawn patients.")]
Curve = Annotated[
    bool, typer.Option("--curve", help="Show the decision curve of a binary task, not the costs.")
]
Thresholds = Annotated[
    str, typer.Option("--thresholds", help="With --curve: threshold probabilities, with commas.")
]
AnswerFrom = Annotated[
    float | None,
    typer.Option(
        "--answer-from", help="Also price, or with --curve draw, deferring below this confidence."
    ),
]
DefaultAction = Annotated[
    str,
    typer.Option(
        "--default-action",
        help="With --curve: treat, or none (the default), where neither model nor reader decides.",
    ),
]


@command(
    app,
    "krisis decide runs/RUN",
    "krisis decide runs/RUN --write-cost costs.yaml",
    "krisis decide runs/RUN --cost costs.yaml --prevalence 0.1",
    "krisis decide runs/RUN --curve --prevalence 0.1",
    "krisis decide runs/RUN --reader runs/PHYSICIAN",
    "krisis decide runs/RUN --reader-accuracy 0.9",
)
def decide(
    run: Annotated[Path, typer.Argument(help="A run, a saved result or a run file.")],
    cost: Cost = None,
    write_cost: WriteCost = None,
    confidence: Confidence = "",
    calibration: Calibration = None,
    baseline: Baseline = None,
    prevalence: PrevalenceText = "",
    reader: ReaderRun = None,
    reader_sensitivity: Sensitivity = None,
    reader_specificity: Specificity = None,
    reader_accuracy: Accuracy = None,
    reader_column: ReaderColumn = "",
    folds: Folds = 10,
    curve: Curve = False,
    thresholds: Thresholds = "",
    answer_from: AnswerFrom = None,
    default_action: DefaultAction = "",
    max_not_evaluated: MaxNotEvaluated = MOST_NOT_EVALUATED,
    mode: Mode = None,
    seed: Seed = 42,
    as_json: AsJson = False,
) -> None:
    """Say what answering and deferring cost, and from which confidence on to answer."""
    items = read_items(run, mode)
    if write_cost is not None:
        _draft(items, write_cost, cost)
        return
    score = ScoreOptions(
        confidence=confidence,
        calibrator=calibrator_of(calibration),
        seed=seed,
        max_not_evaluated=max_not_evaluated,
    )
    if reader is not None:
        _refuse_beside_reader(
            cost=cost,
            baseline=baseline,
            prevalence=prevalence,
            curve=curve,
            reader_sensitivity=reader_sensitivity,
            reader_specificity=reader_specificity,
            reader_accuracy=reader_accuracy,
            reader_column=reader_column,
            thresholds=thresholds,
            default_action=default_action,
        )
        team_found = decide_with_reader(
            items, read_items(reader, mode), score, answer_from=answer_from, n_folds=folds
        )
        _show(reader_facts(team_found), reader_lines(team_found), as_json)
        return
    population = Prevalence.from_text(prevalence) if prevalence else None
    stated = {
        "sensitivity": reader_sensitivity,
        "specificity": reader_specificity,
        "accuracy": reader_accuracy,
        "column": reader_column or None,
    }
    _refuse_mixture(curve, (cost, baseline), (thresholds, default_action))
    if curve:
        asked = CurveOptions(
            score=score,
            thresholds=_numbers(thresholds) or THRESHOLDS,
            answer_from=answer_from,
            team=_team(None, **stated),
            default_action=default_action or "none",  # type: ignore[arg-type] # checked there
            prevalence=population,
        )
        found = decision_curve(items, asked)
        _show(curve_facts(found), curve_lines(found), as_json)
        return
    costs = costs_of_run(items, cost)
    options = DecideOptions(
        costs=costs,
        score=score,
        prevalence=population,
        team=_team(costs, **stated),
        n_folds=folds,
        answer_from=answer_from,
    )
    decision = decide_run(items, options, baselines=baselines_of(run, baseline or [], mode))
    _show(decide_facts(decision), decide_lines(decision), as_json)


def _draft(items: RunItems, path: Path, cost: Path | None) -> None:
    if cost is not None:
        raise InvalidValue("--write-cost drafts a cost table and --cost reads one; give one")
    write_text(path, cost_file_text(items), private=False)
    typer.echo(f"wrote {path}; edit it and use it with --cost")


def _refuse_mixture(curve: bool, of_costs: Sequence[object], of_curves: Sequence[object]) -> None:
    """Refuse options of costs for a decision curve, and the other way round."""
    if curve and any(value is not None for value in of_costs):
        raise InvalidValue("--curve has neither costs nor baselines; omit --cost and --baseline")
    if not curve and any(of_curves):
        raise InvalidValue(
            "--thresholds and --default-action are of the decision curve; add --curve or omit them"
        )


def _refuse_beside_reader(**others: object) -> None:
    """Refuse options that the comparison with a reader does not use."""
    for name, value in others.items():
        if value:
            raise InvalidValue(
                f"--reader compares wrong answers; --{name.replace('_', '-')} does not apply to it"
            )


def _show(facts: JsonObject, lines: Sequence[str], as_json: bool) -> None:
    if as_json:
        echo_json(dumps(facts))
    else:
        typer.echo("\n".join(lines))


def _team(costs: CostTable | None, **stated: float | str | None) -> Team | None:
    """Return the team of the options, else that of the cost table."""
    given = {name: value for name, value in stated.items() if value is not None}
    if given:
        return team_from(given, "the options of the reader")
    return team_from(costs.team, costs.place) if costs and costs.team else None


def _numbers(text: str) -> list[float]:
    try:
        return sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        raise InvalidValue(
            f"{text!r} is no list of numbers; write for instance --thresholds 0.1,0.2,0.3"
        ) from None
