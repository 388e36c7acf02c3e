"""From FHIR resources to one row per patient or encounter."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from krisis.data.fhir.columns import Column, PathColumn, Value
from krisis.data.fhir.moments import Moment, age_in_years, moment
from krisis.data.fhir.paths import BIRTH_DATE, checked_path
from krisis.data.fhir.resources import Located, read_resources
from krisis.errors import InvalidFile, InvalidValue, UnknownName

if TYPE_CHECKING:
    import duckdb

Per = Literal["patient", "encounter"]
INDEX_DATE = "index_date"
_SQL_TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}


@dataclass(frozen=True, slots=True)
class FhirTable:
    """Rows in the order of the records, and counts of what was left out of them.

    ``columns`` maps every name to its SQL type.
    """

    columns: Mapping[str, str]
    rows: Sequence[tuple[Value, ...]]
    notes: Mapping[str, int]


def fhir_table(
    place: Path,
    columns: Mapping[str, PathColumn],
    *,
    per: Per = "patient",
    index_date: PathColumn | None = None,
) -> FhirTable:
    """Read one row per patient or encounter; nothing but ids and the named paths is taken over.

    The columns are ``patient_id``, ``encounter_id`` where a row is an encounter, ``index_date``
    where one is known, and those that are named.
    """
    if index_date is None and per == "encounter":
        index_date = PathColumn("Encounter.period.start")
    wanted = {**({INDEX_DATE: index_date} if index_date else {}), **columns}
    _check_names(wanted, index_date is not None)
    reading = _Reading(
        per,
        [Column(n, one, checked_path(one.fhirpath, f"feature {n!r}")) for n, one in wanted.items()],
    )
    kinds = {"Patient", "Encounter"} if per == "encounter" else {"Patient"}
    kinds = kinds.union(*(column.path.kinds for column in reading.columns))
    for located in read_resources(place, kinds):
        reading.take(located, located.kind in kinds)
    reading.settle(place, kinds)
    return reading.table()


def create_table(
    connection: duckdb.DuckDBPyConnection, table: FhirTable, name: str, before: str
) -> None:
    """Put the rows into a table of DuckDB, after the expression ``before``."""
    columns = dict(table.columns)
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "rows.ndjson"
        with lines.open("w", encoding="utf-8", newline="") as file:
            for row in table.rows:
                file.write(json.dumps(dict(zip(columns, row, strict=True))) + "\n")
        connection.execute(
            f"create table {name} as select {before}, * from read_json(?, columns = ?, "  # noqa: S608
            "format = 'newline_delimited')",
            [str(lines), columns],
        )


def _check_names(columns: Mapping[str, PathColumn], has_index: bool) -> None:
    for name, column in columns.items():
        before = column.before
        if before == INDEX_DATE and not has_index:
            raise InvalidValue(
                f"feature {name!r} counts before index_date, and the source states none; add "
                'index_date: {fhirpath: "…", pick: earliest} to source'
            )
        if before is not None and before not in columns:
            raise UnknownName.among(f"date that feature {name!r} counts before:", before, columns)
        if before is not None and columns[before].before is not None:
            raise InvalidValue(f"feature {name!r} counts before {before!r}, which has a before too")
        if column.fhirpath.replace(" ", "") == BIRTH_DATE and not has_index:
            raise InvalidValue(
                f"feature {name!r} is an age, which needs an index date; add "
                'index_date: {fhirpath: "…", pick: earliest} to source'
            )


@dataclass(slots=True)
class _Reading:
    """What is known while resources pass; owners are settled when all were seen."""

    per: Per
    columns: list[Column]
    records: dict[str, Located] = field(default_factory=dict)
    patients: dict[str, Located] = field(default_factory=dict)
    # Every other name of a resource (fullUrl, Type/id) → its key.
    names: dict[str, str] = field(default_factory=dict)
    seen: dict[str, tuple[Path, int]] = field(default_factory=dict)
    # Who a resource is about, as it names them → where that was first read.
    owners: dict[str, Located] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    n_of_kind: Counter[str] = field(default_factory=Counter)
    encounters: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def take(self, located: Located, is_read: bool) -> None:
        """Note a resource, and what it says for every column that reads its type."""
        self.names[located.full_url or located.key] = located.key
        if not is_read:
            return
        if located.key in self.seen:
            raise InvalidFile(
                f"{located.place} appears twice, first in {self._first(located.key)}; keep one"
            )
        self.seen[located.key] = (located.file, located.line)
        self.n_of_kind[located.kind] += 1
        if located.is_withdrawn:
            self.notes["resources entered in error, cancelled, refuted or not done"] += 1
            return
        if located.kind == "Patient":
            self.patients[located.key] = located
        elif located.kind == "Encounter" and self.per == "encounter":
            self.records[located.key] = located
        owner = self._owner(located)
        if owner:
            self.owners.setdefault(owner, located)
            keys: dict[tuple[str, ...], str] = {}
            for column in self.columns:
                if located.kind in column.path.kinds:
                    column.take(located, owner, keys)

    def _first(self, key: str) -> str:
        file, line = self.seen[key]
        return f"{file}, line {line}" if line else str(file)

    def _owner(self, located: Located) -> str:
        if located.kind == "Patient" or (located.kind == "Encounter" and self.per == "encounter"):
            return located.key
        if not located.owner:
            raise InvalidFile(
                f"{located.place} names no patient as its subject; correct or remove it"
            )
        if self.per == "patient":
            return located.owner
        encounter = located.reference("encounter")
        if not encounter:
            self.notes["resources of no encounter"] += 1
        return encounter

    def settle(self, place: Path, kinds: set[str]) -> None:
        """Find the record of every owner; refuse one that is about nobody in the data."""
        for kind in sorted(kinds):
            if not self.n_of_kind[kind]:
                names = [column.name for column in self.columns if kind in column.path.kinds]
                reader = f", which feature {names[0]!r} reads" if names else ""
                raise InvalidFile(f"{place} holds no resource of the type {kind}{reader}")
        if self.per == "patient":
            self.records = self.patients
        else:
            for key, encounter in self.records.items():
                self.encounters[self._patient_of(encounter)].append(key)
        record_of = {owner: self._records_of(owner, at) for owner, at in self.owners.items()}
        for column in self.columns:
            column.settle(record_of)

    def _resolved(self, reference: str) -> str:
        """Return the key of what a reference names, by fullUrl or by its last two parts."""
        return self.names.get(reference) or "/".join(reference.split("/")[-2:])

    def _patient_of(self, located: Located) -> str:
        reference = located.owner
        key = self._resolved(reference)
        if key not in self.patients:
            contained = " (a contained resource)" if reference.startswith("#") else ""
            raise InvalidFile(
                f"{located.place} refers to the patient {reference!r}{contained}, who is not in "
                "the data; add the Patient resource"
            )
        return key

    def _records_of(self, owner: str, located: Located) -> list[str]:
        if self.per == "encounter":
            if located.kind == "Patient":
                return self.encounters[located.key]
            key = self._resolved(owner)
            if key not in self.records:
                self.notes["encounters named but not read"] += 1
            return [key] if key in self.records else []
        if located.kind == "Patient":
            return [owner]
        kind = self._resolved(owner).partition("/")[0]
        if kind in ("Group", "Device", "Location", "Practitioner", "Organization", "Substance"):
            self.notes["subjects that are no patient"] += 1
            return []
        return [self._patient_of(located)]

    def table(self) -> FhirTable:
        """Return the rows; a record without its index date is left out and counted."""
        names = ["patient_id", *(["encounter_id"] if self.per == "encounter" else [])]
        rows = list(self._rows())
        names += [column.name for column in self.columns]
        if not rows:
            raise InvalidFile("no record has an index date; check the path of index_date")
        types = {
            name: _sql_type(name, {type(row[i]) for row in rows if row[i] is not None})
            for i, name in enumerate(names)
        }
        for column in self.columns:
            if column.wanted.unit and types[column.name] == "VARCHAR":
                types[column.name] = "DOUBLE"  # no record has a value
        for number, column in enumerate(self.columns, len(names) - len(self.columns)):
            column.refuse_undated()
            column.refuse_empty(row[number] for row in rows)
        return FhirTable(types, rows, {k: n for k, n in sorted(self.notes.items()) if n})

    def _rows(self) -> Iterator[tuple[Value, ...]]:
        first = [column for column in self.columns if column.wanted.before is None]
        for key, located in self.records.items():
            patient = key if self.per == "patient" else self._patient_of(located)
            ids = [_name(patient), *([_name(key)] if self.per == "encounter" else [])]
            values: dict[str, Value] = {}
            for column in [*first, *(c for c in self.columns if c.wanted.before is not None)]:
                before = column.wanted.before
                index = _moment(values, before, located) if before is not None else None
                values[column.name], notes = column.choose(key, located.place, index)
                self.notes += notes
                if column.name == INDEX_DATE and values[INDEX_DATE] is None:
                    break
            if values.get(INDEX_DATE, "") is None:
                self.notes["records without an index date, left out"] += 1
                continue
            self._ages(values, located)
            yield (*ids, *(values[column.name] for column in self.columns))

    def _ages(self, values: dict[str, Value], located: Located) -> None:
        for column in self.columns:
            birth = values[column.name]
            if column.path.text.replace(" ", "") == BIRTH_DATE and birth is not None:
                at = _moment(values, INDEX_DATE, located)
                assert at is not None
                values[column.name] = age_in_years(str(birth), at)


def _moment(values: Mapping[str, Value], name: str, located: Located) -> Moment | None:
    value = values[name]
    try:
        return None if value is None else moment(value)
    except InvalidValue as error:
        raise InvalidValue(
            f"{located.place}: {name}: {error}; let its path end at a date"
        ) from None


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _sql_type(name: str, kinds: set[type]) -> str:
    if kinds <= {int, float} and float in kinds:
        return "DOUBLE"
    if len(kinds) > 1:
        found = " and ".join(sorted(_SQL_TYPES[kind] for kind in kinds))
        raise InvalidValue(
            f"feature {name!r} holds values of several types ({found}); narrow its path"
        )
    return next((_SQL_TYPES[kind] for kind in kinds), "VARCHAR")
