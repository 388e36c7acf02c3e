"""What a planned run will take: tokens, dollars by model, and hours at the limits given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from krisis.decisions.plan_answer import Plan
from krisis.errors import InvalidValue
from krisis.json_values import JsonMapping, JsonObject


@dataclass(frozen=True, slots=True)
class Use:
    """What one row takes; None is not known."""

    input_tokens: float | None = None
    output_tokens: float | None = None
    rows_per_call: float = 1.0
    seconds_per_call: float | None = None

    def __post_init__(self) -> None:
        _refuse_negative(self)

    @classmethod
    def of(
        cls, facts: JsonMapping, *, input_tokens: float | None, output_tokens: float | None
    ) -> Use:
        """Take what is given, else what the first run of a pilot took."""
        run: JsonMapping = next(iter(facts.get("runs", [])), {})
        return cls(
            run.get("input_tokens_per_row") if input_tokens is None else input_tokens,
            run.get("output_tokens_per_row") if output_tokens is None else output_tokens,
            run.get("rows_per_call") or 1.0,
            run.get("seconds_per_call"),
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """The limits under which rows are asked."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_concurrency: int | None = None

    def __post_init__(self) -> None:
        _refuse_negative(self)


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Dollars for a million tokens; ``batch`` is the share of them that a provider batch costs."""

    input_per_million: float
    output_per_million: float
    batch: float | None = None


def _refuse_negative(limits: Use | Pace) -> None:
    for one in fields(limits):
        value = getattr(limits, one.name)
        if value is not None and not (math.isfinite(value) and value > 0):
            named = one.name.replace("_", "-")
            raise InvalidValue(f"--{named} must be a number above 0, not {value!r}")


def with_cost(plan: Plan, use: Use, pace: Pace, prices: Mapping[str, TokenPrice]) -> Plan:
    """Return the plan with what one run of its rows takes; nothing is guessed."""
    n_calls = math.ceil(plan.n_rows / use.rows_per_call - 1e-9)
    known = use.input_tokens is not None and use.output_tokens is not None
    if prices and not known:
        raise InvalidValue(
            "tokens per row are not known, so that nothing can be priced; give --input-tokens and "
            "--output-tokens, or a pilot that counted them with --from RUN"
        )
    n_input = plan.n_rows * use.input_tokens if use.input_tokens is not None else None
    n_output = plan.n_rows * use.output_tokens if use.output_tokens is not None else None
    cost: JsonObject = {
        "n_calls": n_calls,
        "input_tokens": n_input,
        "output_tokens": n_output,
        **_hours(n_calls, (n_input or 0) + (n_output or 0) if known else None, use, pace),
        "models": [
            _priced(name, price, n_input, n_output)
            for name, price in prices.items()
            if n_input is not None and n_output is not None
        ],
    }
    return replace(plan, cost=cost) if known or cost["hours"] is not None else plan


def _hours(n_calls: int, n_tokens: float | None, use: Use, pace: Pace) -> JsonObject:
    """Return the hours that the tightest limit leaves, and its name."""
    hours: dict[str, float] = {}
    if pace.requests_per_minute is not None:
        hours["requests per minute"] = n_calls / pace.requests_per_minute / 60
    if pace.tokens_per_minute is not None and n_tokens is not None:
        hours["tokens per minute"] = n_tokens / pace.tokens_per_minute / 60
    if pace.max_concurrency is not None and use.seconds_per_call is not None:
        hours["calls at a time"] = n_calls * use.seconds_per_call / pace.max_concurrency / 3600
    tightest = max(hours, key=lambda name: hours[name], default=None)
    return {"hours": hours[tightest] if tightest else None, "bound_by": tightest}


def _priced(name: str, price: TokenPrice, n_input: float, n_output: float) -> JsonObject:
    dollars = (n_input * price.input_per_million + n_output * price.output_per_million) / 1e6
    return {
        "model": name,
        "dollars": dollars,
        "batch_dollars": None if price.batch is None else dollars * price.batch,
    }


def cost_text(cost: JsonMapping) -> str:
    """Return the cost of one run in words; empty where nothing is known."""
    if not cost:
        return ""
    n_input, n_output, hours = cost["input_tokens"], cost["output_tokens"], cost["hours"]
    lines = [f"One run: {cost['n_calls']:,} calls"]
    if n_input is not None and n_output is not None:
        lines[0] += f", {n_input:,.0f} tokens in and {n_output:,.0f} out"
    if hours is not None:
        lines[0] += f", {hours:.2f} hours by the limit on {cost['bound_by']}"
    models = cost["models"]
    if models:
        width = max(len(model["model"]) for model in models)
        lines.append(f"{'model':<{width}} {'dollars':>10} {'as batch':>10}")
        lines += [
            f"{m['model']:<{width}} {m['dollars']:>10.2f} "
            + ("not known" if m["batch_dollars"] is None else f"{m['batch_dollars']:.2f}").rjust(10)
            for m in models
        ]
    return "\n".join(lines)
