"""`krisis plan`: how many patients a study needs, before the money is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    plan_compare,
    plan_estimate,
    plan_non_inferior,
)
from krisis.decisions.plan_certificate import plan_certificate
from krisis.decisions.plan_certify import check_bounds
from krisis.decisions.plan_cost import Pace, TokenPrice, Use, cost_text, with_cost
from krisis.decisions.plan_pilot import patients_of
from krisis.errors import InvalidValue, UnknownName
from krisis.execution.pacing.prices import list_price, price_for, read_prices
from krisis.json_values import dumps
from krisis.metrics.abstention import SelectiveAccuracy
from krisis.metrics.base import BaseMetric
from krisis.metrics.scoring import metric_from_name
from krisis.results.loading import load_result, with_rows

app = new_app("Say how many patients a study needs, and what it costs.")

Metric = Annotated[str, typer.Option("--metric", "-m", help="The metric that is planned for.")]
Power = Annotated[float, typer.Option("--power", help="How often the study must succeed.")]
Alpha = Annotated[float, typer.Option("--alpha", help="Error of the test; 1 - level.")]
Size = Annotated[float | None, typer.Option("--cluster-size", help="Rows per patient. Default: 1.")]
Icc = Annotated[
    float | None,
    typer.Option(
        "--icc", help="Correlation of two rows of one patient; of their paired difference."
    ),
]
Number = Annotated[
    int | None, typer.Option("--n", help="So many patients are there: what do they reach?")
]
From = Annotated[
    list[Path] | None,
    typer.Option("--from", help="Pilot run to take rates from and to resample; or two, A then B."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of drawn studies.")]
Prices = Annotated[
    Path | None, typer.Option("--prices", help="YAML price table, as of `krisis run`.")
]
Model = Annotated[
    list[str] | None,
    typer.Option("--model", help="PROVIDER/MODEL to price; by default all of --prices."),
]
InputTokens = Annotated[
    float | None, typer.Option("--input-tokens", help="Tokens going in, per row.")
]
OutputTokens = Annotated[
    float | None, typer.Option("--output-tokens", help="Tokens coming out, per row.")
]
Requests = Annotated[float | None, typer.Option("--requests-per-minute", help="Limit on requests.")]
Tokens = Annotated[float | None, typer.Option("--tokens-per-minute", help="Limit on tokens.")]
Concurrency = Annotated[
    int | None, typer.Option("--max-concurrency", "-j", help="Calls at a time.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, not text.")]
Difference = typer.Option(None, "--difference", help="How much better the second run is.")
Discordance = typer.Option(
    None, "--discordance", help="Share of rows that exactly one of the runs has right."
)


@command(
    app,
    "krisis plan estimate --expected 0.9 --half-width 0.03",
    "krisis plan estimate -m aurc --from runs/PILOT --half-width 0.02",
)
def estimate(
    metric: Metric = "accuracy",
    expected: float | None = typer.Option(None, "--expected", help="The share that is expected."),
    half_width: float | None = typer.Option(None, "--half-width", help="Half of the width."),
    assurance: float | None = typer.Option(
        None, "--assurance", help="How often it must be so narrow. Default: --power."
    ),
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    cluster_size: Size = None,
    icc: Icc = None,
    n: Number = None,
    pilots: From = None,
    seed: Seed = 42,
    prices: Prices = None,
    model: Model = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    max_concurrency: Concurrency = None,
    as_json: Json = False,
) -> None:
    """Find the patients for an interval of a wished width."""
    chosen = metric_from_name(metric)
    pace = Pace(requests_per_minute, tokens_per_minute, max_concurrency)
    use, table = (input_tokens, output_tokens), _prices(prices, model or [])
    if len(pilots or []) > 1:
        raise InvalidValue("one run is estimated: give --from once")
    pilot = _pilot(pilots, chosen)
    wished = power if assurance is None else assurance
    study = Study(wished, alpha, patients_of(pilot, cluster_size, icc), n, seed)
    plan = plan_estimate(chosen, study, expected=expected, half_width=half_width, pilot=pilot)
    _show(plan, use, pace, table, as_json)


@command(
    app,
    "krisis plan compare --difference 0.05 --discordance 0.15",
    "krisis plan compare --from runs/OLD --from runs/NEW --power 0.9",
)
def compare(
    metric: Metric = "accuracy",
    difference: float | None = Difference,
    discordance: float | None = Discordance,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    cluster_size: Size = None,
    icc: Icc = None,
    n: Number = None,
    pilots: From = None,
    seed: Seed = 42,
    prices: Prices = None,
    model: Model = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    max_concurrency: Concurrency = None,
    as_json: Json = False,
) -> None:
    """Find the patients for `krisis compare` to find a difference."""
    chosen = metric_from_name(metric)
    pace = Pace(requests_per_minute, tokens_per_minute, max_concurrency)
    use, table = (input_tokens, output_tokens), _prices(prices, model or [])
    pilot = _pilot(pilots, chosen)
    study = Study(power, alpha, patients_of(pilot, cluster_size, icc), n, seed)
    plan = plan_compare(chosen, study, difference=difference, discordance=discordance, pilot=pilot)
    _show(plan, use, pace, table, as_json)


@command(app, "krisis plan non-inferior --margin 0.05 --discordance 0.1", name="non-inferior")
def non_inferior(
    metric: Metric = "accuracy",
    margin: float | None = typer.Option(
        None, "--margin", metavar="SHARE", help="The loss to be excluded."
    ),
    difference: float = typer.Option(0.0, "--difference", help="How much better it truly is."),
    discordance: float | None = Discordance,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    cluster_size: Size = None,
    icc: Icc = None,
    n: Number = None,
    pilots: From = None,
    seed: Seed = 42,
    prices: Prices = None,
    model: Model = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    max_concurrency: Concurrency = None,
    as_json: Json = False,
) -> None:
    """Find the patients to show that a run is at most so much worse."""
    chosen = metric_from_name(metric)
    pace = Pace(requests_per_minute, tokens_per_minute, max_concurrency)
    use, table = (input_tokens, output_tokens), _prices(prices, model or [])
    pilot = _pilot(pilots, chosen)
    study = Study(power, alpha, patients_of(pilot, cluster_size, icc), n, seed)
    plan = plan_non_inferior(
        chosen, study, margin=margin, difference=difference, discordance=discordance, pilot=pilot
    )
    _show(plan, use, pace, table, as_json)


@command(app, "krisis plan certify --risk 0.05 --delta 0.1 --expected-risk 0.02")
def certify(
    risk: float = typer.Option(..., "--risk", help="The bound to be certified."),
    delta: float = typer.Option(0.1, "--delta", help="How often a certificate may be wrong."),
    expected_risk: float | None = typer.Option(
        None, "--expected-risk", help="The true share of errors among the answers."
    ),
    power: Power = 0.8,
    cluster_size: Size = None,
    icc: Icc = None,
    n: Number = None,
    pilots: From = None,
    seed: Seed = 42,
    prices: Prices = None,
    model: Model = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    max_concurrency: Concurrency = None,
    as_json: Json = False,
) -> None:
    """Find the patients for `krisis certify` to find a threshold."""
    check_bounds(risk, delta)
    pace = Pace(requests_per_minute, tokens_per_minute, max_concurrency)
    use, table = (input_tokens, output_tokens), _prices(prices, model or [])
    if len(pilots or []) > 1:
        raise InvalidValue("one run is certified: give --from once")
    pilot = _pilot(pilots, SelectiveAccuracy())
    study = Study(power, min(delta, 0.5), patients_of(pilot, cluster_size, icc), n, seed)
    plan = plan_certificate(study, risk=risk, delta=delta, expected_risk=expected_risk, pilot=pilot)
    _show(plan, use, pace, table, as_json)


def _pilot(paths: Sequence[Path] | None, metric: BaseMetric) -> Pilot | None:
    if not paths:
        return None
    if len(paths) > 2:
        raise InvalidValue(f"--from takes one pilot or two, not {len(paths)}")
    if len({path.resolve() for path in paths}) < len(paths):
        raise InvalidValue("--from names the same run twice; name two different runs")
    results = [with_rows(load_result(path), path) for path in paths]
    warn_of_damage(results)
    return Pilot(results[0], metric, *results[1:])


def _show(
    plan: Plan,
    tokens: tuple[float | None, float | None],
    pace: Pace,
    prices: Mapping[str, TokenPrice],
    as_json: bool,
) -> None:
    use = Use.of(plan.pilot, input_tokens=tokens[0], output_tokens=tokens[1])
    priced = with_cost(plan, use, pace, prices)
    if as_json:
        echo_json(dumps(priced.to_dict()))
        return
    typer.echo("\n\n".join(filter(None, (priced.text(), cost_text(priced.cost)))))


def _prices(path: Path | None, models: Sequence[str]) -> dict[str, TokenPrice]:
    table = {} if path is None else read_prices(path)
    found = {name: price_for(name, table) or list_price(name) for name in models}
    unknown = next((name for name, price in found.items() if price is None), None)
    if unknown is not None:
        raise UnknownName(f"no price is known for {unknown!r}; add it to the table of --prices")
    chosen = found if models else table
    return {
        name: TokenPrice(price.input_per_million, price.output_per_million, price.batch)
        for name, price in chosen.items()
        if price is not None
    }
