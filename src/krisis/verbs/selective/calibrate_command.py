"""`krisis calibrate`: fit a calibrator on a run and write it as a JSON artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.confidence.calibrators import Calibrator, fit_calibrator, missing_lines
from krisis.json_values import JsonObject, dumps, write_text
from krisis.metrics.items import ELICITED, STATED, RunItems
from krisis.pages.numbers import Estimate, figure
from krisis.results.run_items import read_items

app = new_app()


@command(
    app,
    "krisis calibrate runs/TRAIN --calibrator logistic --output l.json",
    "krisis calibrate train.json --mode few_shot --output calibrator.json",
)
def calibrate(
    run: Path = typer.Argument(..., help="A run, a saved result or a run file."),
    output: Path = typer.Option(..., "--output", "-o"),
    mode: str | None = typer.Option(None, "--mode"),
    calibrator: str = typer.Option(
        "logistic",
        "--calibrator",
    ),
    signals: str = typer.Option("", "--signals"),
    target: str = typer.Option("correctness", "--target"),
    seed: int = typer.Option(42, "--seed"),
    force: bool = typer.Option(False, "--force"),
) -> None:
    """Fit a calibrator on a run: from signals of confidence to a probability."""
    items = read_items(run, mode)
    named = [name.strip() for name in signals.split(",") if name.strip()]
    chosen = named or [_default_feature(items)]
    how: JsonObject = {"method": calibrator, "target": target}  # checked where they are used
    fitted = fit_calibrator(items, chosen, **how, seed=seed, force=force)
    write_text(output, dumps(fitted.model_dump(mode="json")) + "\n")
    for line in summary(fitted, items.words):
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
    return ", ".join(
        f"{name.upper()} {figure(Estimate(value, *((intervals or {}).get(name) or ())))}"
        for name, value in figures.items()
    )
