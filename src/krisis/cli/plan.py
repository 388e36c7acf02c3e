"""`krisis plan`: the sample size of a study, before the money is spent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.console import warn_of_damage
from krisis.cli.formats import AsJson, Format, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.decisions.plan import Plan, priced
from krisis.errors import UnknownName
from krisis.execution.pacing.prices import Price, list_price, price_for, read_prices
from krisis.results.loading import load_result
from krisis.verbs import planning as verbs

app = new_app("Estimate the sample size of a study.")

Metric = Annotated[str, typer.Option("--metric", "-m")]
Power = Annotated[float, typer.Option("--power")]
Alpha = Annotated[float, typer.Option("--alpha")]
Size = Annotated[float | None, typer.Option("--cluster-size")]
Icc = Annotated[
    float | None,
    typer.Option("--icc"),
]
Number = Annotated[int | None, typer.Option("--n")]
From = Annotated[list[Path] | None, typer.Option("--from")]
FromTwo = Annotated[
    list[Path] | None,
    typer.Option("--from"),
]
Simulations = Annotated[
    int | None,
    typer.Option("--simulations"),
]
Seed = Annotated[int, typer.Option("--seed", min=0)]
Prices = Annotated[Path | None, typer.Option("--prices")]
Model = Annotated[
    list[str] | None,
    typer.Option("--model"),
]
InputTokens = Annotated[float | None, typer.Option("--input-tokens")]
OutputTokens = Annotated[float | None, typer.Option("--output-tokens")]
Difference = Annotated[float | None, typer.Option("--difference")]
Discordance = Annotated[
    float | None,
    typer.Option("--discordance"),
]


@command(
    app,
    "krisis plan estimate --expected 0.9 --half-width 0.03",
    "krisis plan estimate -m aurc --from runs/PILOT --half-width 0.02",
)
def estimate(
    metric: Metric = "accuracy",
    expected: float | None = typer.Option(None, "--expected"),
    half_width: float | None = typer.Option(None, "--half-width"),
    assurance: float = typer.Option(0.8, "--assurance"),
    alpha: Alpha = 0.05,
    cluster_size: Size = None,
    icc: Icc = None,
    n: Number = None,
    pilots: From = None,
    simulations: Simulations = None,
    seed: Seed = 42,
    prices: Prices = None,
    model: Model = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    output_format: Format = "",
    as_json: AsJson = False,
) -> None:
    """Sample size for a target interval width."""
    chosen, table = chosen_format(output_format, as_json), _prices(prices, model or [])
    plan = verbs.plan(
        "estimate",
        metric=metric,
        expected=expected,
        half_width=half_width,
        power=assurance,
        alpha=alpha,
        cluster_size=cluster_size,
        icc=icc,
        n=n,
        pilots=_pilots(pilots),
        simulations=simulations,
        seed=seed,
    )
    _show(plan, table, input_tokens, output_tokens, chosen)


@command(
    app,
    "krisis plan compare --difference 0.05 --discordance 0.15",
    "krisis plan compare --from runs/OLD --from runs/NEW --power 0.9",
)
def compare(
    metric: Metric = "accuracy",
    difference: Difference = None,
    discordance: Discordance = None,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    cluster_size: Size = None,
    icc: Icc = None,
    n: Number = None,
    pilots: FromTwo = None,
    simulations: Simulations = None,
    seed: Seed = 42,
    prices: Prices = None,
    model: Model = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    output_format: Format = "",
    as_json: AsJson = False,
) -> None:
    """Sample size for `krisis compare` to find a difference."""
    chosen, table = chosen_format(output_format, as_json), _prices(prices, model or [])
    plan = verbs.plan(
        "compare",
        metric=metric,
        difference=difference,
        discordance=discordance,
        power=power,
        alpha=alpha,
        cluster_size=cluster_size,
        icc=icc,
        n=n,
        pilots=_pilots(pilots),
        simulations=simulations,
        seed=seed,
    )
    _show(plan, table, input_tokens, output_tokens, chosen)


@command(app, "krisis plan non-inferior --margin 0.05 --discordance 0.1", name="non-inferior")
def non_inferior(
    metric: Metric = "accuracy",
    margin: float | None = typer.Option(None, "--margin", metavar="SHARE"),
    difference: Difference = 0.0,
    discordance: Discordance = None,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    cluster_size: Size = None,
    icc: Icc = None,
    n: Number = None,
    pilots: FromTwo = None,
    simulations: Simulations = None,
    seed: Seed = 42,
    prices: Prices = None,
    model: Model = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    output_format: Format = "",
    as_json: AsJson = False,
) -> None:
    """Sample size to show that a run is not worse by more than a margin."""
    chosen, table = chosen_format(output_format, as_json), _prices(prices, model or [])
    plan = verbs.plan(
        "non-inferior",
        metric=metric,
        margin=margin,
        difference=difference,
        discordance=discordance,
        power=power,
        alpha=alpha,
        cluster_size=cluster_size,
        icc=icc,
        n=n,
        pilots=_pilots(pilots),
        simulations=simulations,
        seed=seed,
    )
    _show(plan, table, input_tokens, output_tokens, chosen)


@command(app, "krisis plan certify --risk 0.05 --delta 0.1 --expected-risk 0.02")
def certify(
    risk: float = typer.Option(..., "--risk"),
    delta: float = typer.Option(0.1, "--delta"),
    expected_risk: float | None = typer.Option(None, "--expected-risk"),
    power: Power = 0.8,
    cluster_size: Size = None,
    icc: Icc = None,
    n: Number = None,
    pilots: From = None,
    simulations: Simulations = None,
    seed: Seed = 42,
    prices: Prices = None,
    model: Model = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    output_format: Format = "",
    as_json: AsJson = False,
) -> None:
    """Sample size for `krisis certify` to find a threshold."""
    chosen, table = chosen_format(output_format, as_json), _prices(prices, model or [])
    plan = verbs.plan(
        "certify",
        risk=risk,
        delta=delta,
        expected_risk=expected_risk,
        power=power,
        cluster_size=cluster_size,
        icc=icc,
        n=n,
        pilots=_pilots(pilots),
        simulations=simulations,
        seed=seed,
    )
    _show(plan, table, input_tokens, output_tokens, chosen)


def _pilots(paths: Sequence[Path] | None) -> Sequence[Path]:
    """Return the pilots, with a warning where one is damaged."""
    warn_of_damage(load_result(path) for path in paths or ())
    return paths or ()


def _show(
    plan: Plan,
    prices: dict[str, Price],
    input_tokens: float | None,
    output_tokens: float | None,
    chosen: str,
) -> None:
    found = priced(plan, prices, input_tokens=input_tokens, output_tokens=output_tokens)
    give(found, found.to_json, chosen)


def _prices(path: Path | None, models: Sequence[str]) -> dict[str, Price]:
    table = {} if path is None else read_prices(path)
    if not models:
        return table
    found = {name: price_for(name, table) or list_price(name) for name in models}
    unknown = next((name for name, price in found.items() if price is None), None)
    if unknown is not None:
        raise UnknownName(f"no price is known for {unknown!r}; add it to the table of --prices")
    return {name: price for name, price in found.items() if price is not None}
