"""`krisis calibrate`: fit a calibrator on a run and write it as a JSON artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.confidence.calibrators import Calibrator, fit_calibrator, missing_lines
from krisis.json_values import JsonObject, dumps, write_text
from krisis.metrics.items import ELICITED, STATED, RunItems
from krisis.results.run_items import read_items

app = new_app()


@command(
    app,
    "krisis calibrate --input runs/TRAIN --method logistic --output l.json",
    "krisis calibrate --input train.json --mode few_shot --output calibrator.json",
)
def calibrate(
    input_: Path = typer.Option(
        ..., "--input", help="A PHQ-8 run file, a krisis run or a krisis result."
    ),
    output: Path = typer.Option(..., "--output", "-o", help="The artifact to write (JSON)."),
    mode: str | None = typer.Option(None, "--mode", help="Experiment of the run file."),
    method: str = typer.Option(
        "logistic",
        "--method",
        help="temperature_scaling (or temperature), logistic, linear or isotonic.",
    ),
    features: str = typer.Option(
        "", "--features", help="Signals, with commas; default: the confidence asked for."
    ),
    target: str = typer.Option(
        "correctness", "--target", help="correctness, near_correct (error ≤ 1) or loss."
    ),
    seed: int = typer.Option(42, "--seed", help="Seed of the folds."),
    force: bool = typer.Option(
        False, "--force", help="Fit even with fewer than 10 right or 10 wrong answers."
    ),
) -> None:
    """Fit a calibrator on a run: from signals of confidence to a probability."""
    run = read_items(input_, mode)
    named = [name.strip() for name in features.split(",") if name.strip()]
    chosen = named or [_default_feature(run)]
    how: JsonObject = {"method": method, "target": target}  # checked where they are used
    calibrator = fit_calibrator(run, chosen, **how, seed=seed, force=force)
    write_text(output, dumps(calibrator.model_dump(mode="json")) + "\n")
    for line in summary(calibrator, run.words):
        typer.echo(line)
    typer.echo(f"wrote {output}")


def _default_feature(run: RunItems) -> str:
    """Return the signal that holds the confidence which the model was asked for."""
    given = {name for one in run.signals for name, value in one.items() if value is not None}
    known = (*ELICITED, STATED)
    return next((name for name in known if name in given), "verbalized_confidence")


def summary(calibrator: Calibrator, words: tuple[str, str]) -> list[str]:
    """Return what was fitted and how it does on people it has not seen, in the task's ``words``."""
    people, items = (f"{word}s" for word in words)
    fitted = calibrator.fitted_on
    what = f"{calibrator.method} on {', '.join(calibrator.features)} → {calibrator.target}"
    lines = [f"{what}: {fitted.n_samples} {items} of {fitted.n_participants} {people}"]
    lines += missing_lines(calibrator.missing)
    crossed = calibrator.metrics["cross_fitted"]
    if crossed["after"] is None:
        lines.append(f"not judged on others: {crossed['reason']}")
    else:
        ends = crossed["intervals"]
        before = _words(crossed["before"], ends["before"])
        lines.append(f"before (= {calibrator.metrics['before_is']}): {before}")
        after = _words(crossed["after"], ends["after"])
        lines.append(f"after, cross-fitted in {crossed['n_folds']} folds: {after}")
        changes = [f"{name.upper()} {one['verdict']}" for name, one in crossed["change"].items()]
        lines.append(f"change on unseen {people}: {', '.join(changes)}")
    lines.append(
        f"after, on the training set (optimistic): "
        f"{_words(calibrator.metrics['training_set']['after'])}"
    )
    lines += [f"warning: {warning}" for warning in calibrator.warnings()]
    note = calibrator.order_note()
    return [*lines, f"note: {note}"] if note else lines


def _words(
    figures: Mapping[str, float], intervals: Mapping[str, Sequence[float] | None] | None = None
) -> str:
    known = intervals or {}
    ends = {name: f" [{e[0]:.4f}, {e[1]:.4f}]" for name, e in known.items() if e}
    return ", ".join(
        f"{name.upper()} {value:.4f}{ends.get(name, '')}" for name, value in figures.items()
    )
