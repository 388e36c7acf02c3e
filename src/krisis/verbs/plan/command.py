"""`krisis plan`: the sample size of a study, before the money is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.console import warn_of_damage
from krisis.cli.formats import Format, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.results.loading import load_result
from krisis.verbs import plan as verbs

app = new_app()


@command(
    app,
    "krisis plan estimate --expected 0.9 --half-width 0.03",
    "krisis plan estimate -m aurc --from runs/PILOT --half-width 0.02",
    "krisis plan compare --difference 0.05 --discordance 0.15",
    "krisis plan compare --from runs/OLD --from runs/NEW --power 0.9",
    "krisis plan non-inferior --margin 0.05 --discordance 0.1",
    "krisis plan certify --risk 0.05 --delta 0.1 --expected-risk 0.02",
)
def plan(
    question: Annotated[
        str, typer.Argument(help="estimate, compare, non-inferior or certify: what to succeed in.")
    ],
    metric: Annotated[str | None, typer.Option("--metric", "-m")] = None,
    expected: Annotated[float | None, typer.Option("--expected")] = None,
    half_width: Annotated[float | None, typer.Option("--half-width")] = None,
    difference: Annotated[float | None, typer.Option("--difference")] = None,
    discordance: Annotated[float | None, typer.Option("--discordance")] = None,
    margin: Annotated[float | None, typer.Option("--margin", metavar="SHARE")] = None,
    risk: Annotated[float | None, typer.Option("--risk")] = None,
    delta: Annotated[float | None, typer.Option("--delta")] = None,
    expected_risk: Annotated[float | None, typer.Option("--expected-risk")] = None,
    power: Annotated[float, typer.Option("--power")] = 0.8,
    alpha: Annotated[float | None, typer.Option("--alpha")] = None,
    cluster_size: Annotated[float | None, typer.Option("--cluster-size")] = None,
    icc: Annotated[float | None, typer.Option("--icc")] = None,
    n: Annotated[int | None, typer.Option("--n")] = None,
    pilots: Annotated[list[Path] | None, typer.Option("--from")] = None,
    simulations: Annotated[int | None, typer.Option("--simulations")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 42,
    output_format: Format = "",
) -> None:
    """Estimate the sample size of a study, or the power of one of a given size.

    estimate: an interval of a target width. compare: `krisis compare` finds a difference.
    non-inferior: it excludes a loss of the margin. certify: `krisis certify` finds a threshold.
    """
    chosen = chosen_format(output_format)
    warn_of_damage(load_result(path) for path in pilots or ())
    found = verbs.plan(
        question,  # type: ignore[arg-type] # checked there
        metric=metric,
        expected=expected,
        half_width=half_width,
        difference=difference,
        discordance=discordance,
        margin=margin,
        risk=risk,
        delta=delta,
        expected_risk=expected_risk,
        power=power,
        alpha=alpha,
        cluster_size=cluster_size,
        icc=icc,
        n=n,
        pilots=pilots or (),
        simulations=simulations,
        seed=seed,
    )
    give(found, found.to_json, chosen)
