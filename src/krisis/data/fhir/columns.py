"""One column of a FHIR source: which values count, in which unit, and which is chosen."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, get_args

from krisis.data.fhir.moments import Moment, moment_of
from krisis.data.fhir.paths import BIRTH_DATE, CheckedPath
from krisis.data.fhir.resources import Located
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonObject, JsonValue

Pick = Literal["latest", "earliest", "highest", "lowest", "mean", "count", "all"]
Value = str | bool | int | float | None
_UCUM = "http://unitsofmeasure.org"
_QUANTITY = frozenset({"value", "comparator", "unit", "system", "code", "id", "extension"})


@dataclass(frozen=True, slots=True)
class PathColumn:
    """How one column is read: a path, which of several values, in which unit, before which date."""

    fhirpath: str
    pick: Pick | None = None
    unit: str = ""
    before: str | None = None
    factor: Mapping[str, float] = field(default_factory=dict)
    optional: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """A value of a record with its date; ``order`` decides between values of one moment."""

    value: Value
    when: Moment | None
    order: tuple[str, str, str]


@dataclass(slots=True)
class Column:
    """A column while resources pass: values where one is picked, else whole resources."""

    name: str
    wanted: PathColumn
    path: CheckedPath
    found: dict[str, list[_Found]] = field(default_factory=lambda: defaultdict(list))
    held: dict[str, list[Located]] = field(default_factory=lambda: defaultdict(list))
    n_dated: int = 0
    n_undated: int = 0
    _of_nothing: list[JsonValue] | None = None

    def take(self, located: Located, owner: str, keys: dict[tuple[str, ...], str]) -> None:
        """Keep what a resource says for its owner, named as the resource names it."""
        if not self.path.may_match(located.resource, keys):
            return
        if self.wanted.pick is None:
            self.held[owner].append(located)
            return
        when = _when(located)
        resource = located.resource
        meta = resource.get("meta")
        updated = str(meta.get("lastUpdated") or "") if isinstance(meta, dict) else ""
        order = (str(resource.get("issued") or ""), updated, located.key)
        where = f"{located.place}: the feature {self.name!r}"
        values = [self.plain(value, located.place) for value in self.path.values([resource], where)]
        given = [value for value in values if value is not None]
        if self.wanted.pick in ("latest", "earliest") and len(set(given)) > 1:
            raise InvalidValue(
                f"{where} has {len(set(given))} values in this one resource; narrow the path "
                f"{self.path.text!r}, as by .component.where(…), to one of them"
            )
        self.found[owner] += [_Found(value, when, order) for value in given]

    def plain(self, value: JsonValue, place: str) -> Value:
        """Return a value of the path as a plain one, in the unit of the column."""
        where = f"{place}: the feature {self.name!r}"
        if isinstance(value, dict) and "value" in value and value.keys() <= _QUANTITY:
            return self._in_unit(value, where)
        if isinstance(value, dict | list):
            members = ", ".join(sorted(map(str, value)))[:80]
            raise InvalidValue(
                f"{where} is an object ({members}), not a single value; let the path "
                f"{self.path.text!r} end at one of its members"
            )
        if isinstance(value, Decimal):
            value = float(value)
        if value is not None and not isinstance(value, str | bool | int | float):
            value = str(value)  # dates and times of the engine
        if self.wanted.unit and self.path.text != BIRTH_DATE and self.wanted.pick != "count":
            raise InvalidValue(
                f"{where} is {value!r}, which carries no unit, and {self.wanted.unit!r} is asked "
                "for; let the path end at the Quantity, such as .value, or leave unit out"
            )
        plain: Value = value
        return plain

    def _in_unit(self, quantity: JsonValue, where: str) -> float:
        code = quantity.get("code") if quantity.get("system") in (None, _UCUM) else None
        unit = str(code or quantity.get("unit") or "")
        number = quantity["value"]
        if quantity.get("comparator"):
            raise InvalidValue(
                f"{where} is {quantity['comparator']}{number} {unit}, which is not a number; "
                "leave such values out by ending the path with .where(comparator.empty())"
            )
        if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
            raise InvalidValue(f"{where} is a Quantity whose value {number!r} is not a number")
        if unit == self.wanted.unit and unit:
            return float(number)
        if unit in self.wanted.factor:
            return float(number) * self.wanted.factor[unit]
        if unit and not self.wanted.unit:
            raise InvalidValue(f"{where} is in {unit}, and no unit is stated; write unit: {unit}")
        wanted = self.wanted.unit or "not stated"
        raise InvalidValue(
            f"{where} is in {unit or 'no unit'} where the unit is {wanted}; "
            + (f"state factor: {{{unit}: NUMBER}}, or correct the unit" if unit else "correct it")
        )

    def settle(self, records_of: Mapping[str, Sequence[str]]) -> None:
        """Give what owners were found to have to the records that they are."""
        for kept in (self.found, self.held):
            named = dict(kept)
            kept.clear()
            for owner, values in named.items():
                for record in records_of[owner]:
                    kept[record].extend(values)  # type: ignore[arg-type]

    def refuse_undated(self) -> None:
        """Refuse a column whose values are chosen by date while none of them has one."""
        if self.n_undated and not self.n_dated:
            raise InvalidValue(
                f"feature {self.name!r} is chosen by date, and none of its {self.n_undated} values "
                "has one; leave out before and pick: latest or earliest"
            )

    def refuse_empty(self, values: Iterable[Value]) -> None:
        """Refuse a path that finds nothing for anybody: a slip of the pen looks like that."""
        is_found = any(self.found.values()) or any(self.held.values())
        if self.wanted.pick is None and self.wanted.before is None:
            is_found = is_found and any(value is not None for value in values)
        if not is_found and not self.wanted.optional:
            raise InvalidFile(
                f"feature {self.name!r}: the path {self.path.text!r} finds nothing in any record; "
                "correct it, or write optional: true beside it if nobody here has a value"
            )

    def _dated(self, whens: Sequence[Moment | None], notes: Counter[str]) -> None:
        n_undated = sum(when is None for when in whens)
        self.n_undated += n_undated
        self.n_dated += len(whens) - n_undated
        notes["values without a date, not counted"] += n_undated

    def choose(self, record: str, place: str, index: Moment | None) -> tuple[Value, Counter[str]]:
        """Return the value of one record, and what was left out."""
        notes: Counter[str] = Counter()
        if self.wanted.pick is None:
            return self._single(record, place, index, notes), notes
        found = self.found.get(record, [])
        if self.wanted.before is not None or self.wanted.pick in ("latest", "earliest"):
            self._dated([one.when for one in found], notes)
            found = [one for one in found if one.when is not None]
        if self.wanted.before is not None:
            found = [one for one in found if _is_before(one.when, index)]
        return self._picked(found, place, notes), notes

    def _single(self, record: str, place: str, index: Moment | None, notes: Counter[str]) -> Value:
        held = self.held.get(record, [])
        if self.wanted.before is not None:
            dated = [(one, _when(one)) for one in held]
            self._dated([when for _, when in dated], notes)
            held = [one for one, when in dated if _is_before(when, index)]
        where = held[0].place if len(held) == 1 else place
        values = self._values_of([one.resource for one in held], where)
        plain = [self.plain(value, where) for value in values]
        distinct = list(dict.fromkeys(value for value in plain if value is not None))
        if len(distinct) > 1:
            raise InvalidValue(
                f"{place}: the feature {self.name!r} has {len(distinct)} values; say which with "
                f"pick: {', '.join(get_args(Pick))}"
            )
        return distinct[0] if distinct else None

    def _values_of(self, resources: Sequence[JsonObject], where: str) -> list[JsonValue]:
        """Return what the path makes of all resources of a record; of none, always the same."""
        if resources:
            return self.path.values(resources, f"{where}: the feature {self.name!r}")
        if self._of_nothing is None:
            self._of_nothing = self.path.values([], f"the feature {self.name!r}")
        return self._of_nothing

    def _picked(self, found: Sequence[_Found], place: str, notes: Counter[str]) -> Value:
        pick = self.wanted.pick
        if pick == "count":
            return len(found)
        if not found:
            return None
        if pick in ("latest", "earliest"):
            return self._by_date(found, notes)
        if pick == "all":
            ordered = sorted(found, key=lambda one: (one.when is None, one.when, one.order))
            return "; ".join(dict.fromkeys(str(one.value) for one in ordered))
        numbers = [one.value for one in found]
        for number in numbers:
            if isinstance(number, bool | str) or number is None:
                raise InvalidValue(
                    f"{place}: the feature {self.name!r} holds {number!r}, and pick: {pick} "
                    "needs numbers"
                )
        floats = [float(number) for number in numbers]  # type: ignore[arg-type]
        if pick == "mean":
            return math.fsum(floats) / len(floats)
        return max(floats) if pick == "highest" else min(floats)

    def _by_date(self, found: Sequence[_Found], notes: Counter[str]) -> Value:
        moments = [one.when.start for one in found if one.when is not None]
        at = max(moments) if self.wanted.pick == "latest" else min(moments)
        tied = [one for one in found if one.when is not None and one.when.start == at]
        if len({one.value for one in tied}) > 1:
            notes["choices between values of one moment"] += 1
        return max(tied, key=lambda one: one.order).value


def _when(located: Located) -> Moment | None:
    try:
        return moment_of(located.resource)
    except InvalidValue as error:
        raise InvalidValue(f"{located.place}: {error}; correct the date") from None


def _is_before(when: Moment | None, index: Moment | None) -> bool:
    return when is not None and index is not None and when.is_before(index)
