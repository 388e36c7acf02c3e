"""Costs as a user gives them: a YAML file with `costs:`, `price:` and `why:`, or a price alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from krisis.answers import Label, canonical_label, is_label
from krisis.costs import Costs
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonValue
from krisis.yaml_values import read_mapping

# What a user may give in place of the costs of a task: a table, or the file that holds one.
AnyCosts: TypeAlias = Costs | str | Path
_FIELDS = ("costs", "price", "why")


def read_costs(path: str | Path) -> Costs:
    """Read the costs of a YAML file."""
    place = Path(path)
    return costs_from(read_mapping(place, "costs", option="--costs"), str(place))


def costs_from(content: JsonMapping, place: str) -> Costs:
    """Read ``costs: {truth: {answer: cost}}``, ``price`` in the same unit, and ``why``."""
    for name in content:
        if name not in _FIELDS:
            raise UnknownName.among(f"field of the costs in {place}:", str(name), _FIELDS)
    table, price = content.get("costs"), content.get("price")
    if table is not None and price is None:
        raise InvalidValue(f"{place} says nothing of what a deferral costs; add `price:`")
    if table is None and price is None:
        raise InvalidValue(f"{place} holds neither `costs:` nor `price:`; add one")
    wrong = {} if table is None else _table(table, place)
    try:
        return Costs(wrong, _number(price), str(content.get("why") or ""))
    except InvalidValue as error:
        raise InvalidValue(f"{place}: {error}") from None


def _table(table: JsonValue, place: str) -> dict[Label, dict[Label, JsonValue]]:
    if not (isinstance(table, Mapping) and all(isinstance(r, Mapping) for r in table.values())):
        raise InvalidValue(
            f"{place}: `costs` must map each true answer to what the others cost, such as "
            "{ill: {well: 1}, well: {ill: 0.5}}"
        )
    found: dict[Label, dict[Label, JsonValue]] = {}
    for truth, row in table.items():
        entry = found.setdefault(_label(truth, place), {})
        for answer, cost in row.items():
            label = _label(answer, place)
            if label in entry:
                raise InvalidValue(
                    f"{place}: the cost of the answer {label!r} is listed twice where {truth!r} is "
                    "right; remove one"
                )
            entry[label] = _number(cost)
    return found


def _number(value: JsonValue) -> JsonValue:
    """Return a number, also one that YAML reads as a text, such as 1e-3."""
    with suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return value  # refused with its name where it is used


def _label(value: JsonValue, place: str) -> Label:
    if isinstance(value, bool):
        raise InvalidValue(
            f"{place}: YAML reads yes, no, on and off as true and false; write the answer in quotes"
        )
    if not is_label(value):
        raise InvalidValue(f"{place}: {value!r} is not an answer; use a whole number or a text")
    return canonical_label(value)


def stated_costs(own: Costs, costs: AnyCosts | None = None, price: float | None = None) -> Costs:
    """Return the costs of a task unless a table replaces them, at another price if one is given."""
    if isinstance(costs, str | Path):
        costs = read_costs(costs)
    found = own if costs is None else costs
    return found if price is None else found.at(price)
