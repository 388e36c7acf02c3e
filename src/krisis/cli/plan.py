"""`krisis plan`: the sample size of a study, before the money is spent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.console import warn_of_damage
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.decisions.plan import (
    Pilot,
    Plan,
    Study,
    cost_of,
    cost_text,
    patients_of,
    plan_certificate,
    plan_compare,
    plan_estimate,
    plan_non_inferior,
)
from krisis.errors import InvalidValue, UnknownName
from krisis.execution.pacing.prices import Price, list_price, price_for, read_prices
from krisis.json_values import dumps
from krisis.metrics.abstention import SelectiveAccuracy
from krisis.metrics.base import BaseMetric
from krisis.metrics.scoring import metric_from_name
from krisis.results.loading import load_result, with_rows

app = new_app("Estimate the sample size of a study.")

Metric = Annotated[str, typer.Option("--metric", "-m", help="Metric to plan for.")]
Power = Annotated[float, typer.Option("--power", help="Probability that the study succeeds.")]
Size = Annotated[float | None, typer.Option("--cluster-size", help="Rows per patient; default 1.")]
Icc = Annotated[
    float | None,
    typer.Option("--icc", help="Correlation of two rows of one patient (or of their difference)."),
]
Number = Annotated[
    int | None, typer.Option("--n", help="Patients available; report what they can show.")
]
From = Annotated[
    list[Path] | None, typer.Option("--from", help="Pilot run to take rates and patients from.")
]
FromTwo = Annotated[
    list[Path] | None,
    typer.Option("--from", help="Pilot run; repeat for the one hoped to be better."),
]
Simulations = Annotated[
    int | None,
    typer.Option("--simulations", help="Simulated studies; default 1000 (comparisons: 400)."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the simulation.")]
Prices = Annotated[
    Path | None, typer.Option("--prices", help="YAML price table, as for `krisis run`.")
]
Model = Annotated[
    list[str] | None,
    typer.Option("--model", help="PROVIDER/MODEL to price; default: all of --prices."),
]
InputTokens = Annotated[float | None, typer.Option("--input-tokens", help="Input tokens per row.")]
OutputTokens = Annotated[
    float | None, typer.Option("--output-tokens", help="Output tokens per row.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, not text.")]
Difference = Annotated[
    float | None, typer.Option("--difference", help="How much better the second run is.")
]
Discordance = Annotated[
    float | None,
    typer.Option("--discordance", help="Share of rows that exactly one of the runs has right."),
]


@command(
    app,
    "krisis plan estimate --expected 0.9 --half-width 0.03",
    "krisis plan estimate -m aurc --from runs/PILOT --half-width 0.02",
)
def estimate(
    metric: Metric = "accuracy",
    expected: float | None = typer.Option(None, "--expected", help="Expected share."),
    half_width: float | None = typer.Option(
        None, "--half-width", help="Target half-width of the interval."
    ),
    assurance: float = typer.Option(
        0.8, "--assurance", help="Probability that the interval is at most this wide."
    ),
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
    as_json: Json = False,
) -> None:
    """Sample size for a target interval width."""
    chosen, table = metric_from_name(metric), _prices(prices, model or [])
    pilot = _pilot(pilots, chosen, most=1)
    study = Study(
        power=assurance,
        patients=patients_of(pilot, cluster_size, icc),
        n_patients=n,
        n_simulations=simulations,
        seed=seed,
    )
    plan = plan_estimate(chosen, study, expected=expected, half_width=half_width, pilot=pilot)
    _show(plan, table, input_tokens, output_tokens, as_json)


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
    as_json: Json = False,
) -> None:
    """Sample size for `krisis compare` to find a difference."""
    chosen, table = metric_from_name(metric), _prices(prices, model or [])
    pilot = _pilot(pilots, chosen, most=2)
    study = Study(
        power=power,
        patients=patients_of(pilot, cluster_size, icc),
        n_patients=n,
        n_simulations=simulations,
        seed=seed,
    )
    plan = plan_compare(chosen, study, difference=difference, discordance=discordance, pilot=pilot)
    _show(plan, table, input_tokens, output_tokens, as_json)


@command(app, "krisis plan non-inferior --margin 0.05 --discordance 0.1", name="non-inferior")
def non_inferior(
    metric: Metric = "accuracy",
    margin: float | None = typer.Option(
        None, "--margin", metavar="SHARE", help="Largest loss that is acceptable."
    ),
    difference: Difference = 0.0,
    discordance: Discordance = None,
    power: Power = 0.8,
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
    as_json: Json = False,
) -> None:
    """Sample size to show that a run is not worse by more than a margin."""
    chosen, table = metric_from_name(metric), _prices(prices, model or [])
    pilot = _pilot(pilots, chosen, most=2)
    study = Study(
        power=power,
        patients=patients_of(pilot, cluster_size, icc),
        n_patients=n,
        n_simulations=simulations,
        seed=seed,
    )
    plan = plan_non_inferior(
        chosen,
        study,
        margin=margin,
        difference=difference or 0.0,
        discordance=discordance,
        pilot=pilot,
    )
    _show(plan, table, input_tokens, output_tokens, as_json)


@command(app, "krisis plan certify --risk 0.05 --delta 0.1 --expected-risk 0.02")
def certify(
    risk: float = typer.Option(..., "--risk", help="Bound on the risk to be certified."),
    delta: float = typer.Option(0.1, "--delta", help="Chance that the certificate is wrong."),
    expected_risk: float | None = typer.Option(
        None, "--expected-risk", help="Expected share of errors among the answers."
    ),
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
    as_json: Json = False,
) -> None:
    """Sample size for `krisis certify` to find a threshold."""
    table = _prices(prices, model or [])
    pilot = _pilot(pilots, SelectiveAccuracy(), most=1)
    study = Study(
        power=power,
        patients=patients_of(pilot, cluster_size, icc),
        n_patients=n,
        n_simulations=simulations,
        seed=seed,
    )
    plan = plan_certificate(study, risk=risk, delta=delta, expected_risk=expected_risk, pilot=pilot)
    _show(plan, table, input_tokens, output_tokens, as_json)


def _pilot(paths: Sequence[Path] | None, metric: BaseMetric, *, most: int) -> Pilot | None:
    if not paths:
        return None
    if len(paths) > most:
        allowed = "one pilot" if most == 1 else "one pilot or two"
        raise InvalidValue(f"--from takes {allowed}, not {len(paths)}")
    if len({path.resolve() for path in paths}) < len(paths):
        raise InvalidValue("--from names the same run twice; name two different runs")
    results = [with_rows(load_result(path), path) for path in paths]
    warn_of_damage(results)
    return Pilot(results[0], metric, *results[1:])


def _show(
    plan: Plan,
    prices: dict[str, Price],
    input_tokens: float | None,
    output_tokens: float | None,
    as_json: bool,
) -> None:
    cost = cost_of(plan, prices, input_tokens=input_tokens, output_tokens=output_tokens)
    if as_json:
        echo_json(dumps({**plan.to_dict(), "cost": cost}))
        return
    typer.echo("\n\n".join(filter(None, (plan.text(), cost_text(cost)))))


def _prices(path: Path | None, models: Sequence[str]) -> dict[str, Price]:
    table = {} if path is None else read_prices(path)
    if not models:
        return table
    found = {name: price_for(name, table) or list_price(name) for name in models}
    unknown = next((name for name, price in found.items() if price is None), None)
    if unknown is not None:
        raise UnknownName(f"no price is known for {unknown!r}; add it to the table of --prices")
    return {name: price for name, price in found.items() if price is not None}
