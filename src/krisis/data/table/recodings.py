"""Features that are the label in other words: a copy, a recoding, or codes with one label each."""

# SQL is put together from checked expressions, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import math
from collections.abc import Iterator

from krisis.data.table.cases import CASES, SAMPLE, Seen, TaskTable
from krisis.data.table.expressions import quoted
from krisis.data.table.source import ROW, TABLE, is_number
from krisis.json_values import JsonValue

# Of fewer rows, a feature and a label may be one-to-one by chance (2 in 2^6 for two classes).
LEAST_ROWS = 6
# Codes give the label away where chance would let each have one label with this probability.
_BY_CHANCE = 1e-6
# In a sample, a column with so many values for each row says nothing about rows of equal value.
_ALL_DIFFERENT = 0.9
_EVERY = f"{TABLE} join {CASES} using ({ROW}) where krisis_label is not null"


def seen_values(table: TaskTable) -> dict[str, Seen]:
    """Return what the sample shows of every column that the model is shown, by one query."""
    cells = ", ".join(
        f"case when {quoted(name)} is not null then hash({_compared(table, name)}) end as c{number}"
        for number, name in enumerate(table.shown)
    )
    rows = table.source.query(
        "select c, sum(n), count(*), bool_or(low <> high) from (select c, v, count(*) as n, "
        "min(krisis_label) as low, max(krisis_label) as high from (from (select krisis_label, "
        f"{cells} from {SAMPLE} where krisis_label is not null) "
        f"unpivot (v for c in ({', '.join(f'c{i}' for i in range(len(table.shown)))}))) "
        "group by c, v) group by c"
    )
    found = {c: Seen(int(n_given), int(n), bool(mixed)) for c, n_given, n, mixed in rows}
    return {name: found.get(f"c{number}", Seen()) for number, name in enumerate(table.shown)}


def recodings(table: TaskTable) -> Iterator[str]:
    """Find features whose values tell the label, one for one or many for one."""
    n_labels = len(table.answer_of)
    n_rows = table.source.query(f"select count(krisis_label) from {CASES}")[0][0]
    if n_labels < 2 or n_rows < LEAST_ROWS:
        return
    for name in table.spec.features:
        seen = table.seen[name]
        if seen.is_mixed:
            continue
        found = None
        if seen.n_values <= n_labels:
            found = _one_to_one(table, name, n_labels)
        if found is None and seen.n_values <= _ALL_DIFFERENT * seen.n_given:
            found = _many_to_one(table, name)
        if found is not None:
            yield found


def _compared(table: TaskTable, name: str) -> str:
    column = quoted(name)
    return f"lower(trim({column}))" if table.source.columns[name] == "VARCHAR" else column


def _one_to_one(table: TaskTable, name: str, n_labels: int) -> str | None:
    """Name a feature that is a copy or a recoding of the label.

    Missing is a value of its own, or, where that does not fit, says nothing about its rows.
    """
    found = table.source.query(
        f"select {_compared(table, name)}, krisis_label, min({ROW}), count(*) from {_EVERY} "
        f"group by 1, 2 order by 3 limit {2 * n_labels + 1}"
    )
    given = [row for row in found if row[0] is not None]
    for some in (found, given if sum(row[3] for row in given) >= LEAST_ROWS else []):
        values, labels = {str(row[0]) for row in some}, {str(row[1]) for row in some}
        if len(values) == len(some) == len(labels) == n_labels:
            (value, label, row, _), (other, another, _, _) = some[:2]
            return (
                f"{table.source.place(row)}, column {name}: it gives the label away: {value!r} is "
                f"always {label!r}, {other!r} always {another!r} …; take it out of the features of "
                f"{table.place}"
            )
    return None


def _many_to_one(table: TaskTable, name: str) -> str | None:
    """Name a feature each of whose values has one label only, as codes of diagnoses have.

    Were values and labels independent, N patients with V values would have one label for each
    value with a probability of at most p^(N − V), p being the share of the most frequent label.
    A number that a few limits divide by label is no code: it is read by a guideline.
    """
    label, spec = table.compiled.label, table.declaration.feature(name)
    if spec.states_label or (table.spec.label.column is None and name in label.columns):
        return None
    whose = "distinct krisis_cluster" if table.declaration.cluster else "*"
    by_value = (
        f"(select {_compared(table, name)} as v, min(krisis_label) as low, max(krisis_label) as "
        f"high, count({whose}) as n, min({ROW}) as row from {_EVERY} group by 1)"
    )
    in_order = "lag(low) over (order by v)" if is_number(table.source.columns[name]) else "null"
    pure = f"(select *, {in_order} as before from {by_value} where v is not null or low = high)"
    labels: list[tuple[JsonValue, ...]] = table.source.query(
        f"select low, sum(n), count(*), arg_min(v, row), min(row), count(*) filter (low <> before),"
        f" bool_or(low <> high) from {pure} group by 1 order by 5"
    )
    n_patients, n_values, n_changes = (sum(int(row[i]) for row in labels) for i in (1, 2, 5))
    most = max(int(row[1]) for row in labels) / n_patients
    by_limits = is_number(table.source.columns[name]) and n_changes < 2 * len(labels)
    if len(labels) < 2 or by_limits or any(row[6] for row in labels):
        return None
    if (n_patients - n_values) * math.log(most) > math.log(_BY_CHANCE):
        return None
    (one, _, _, value, row, _, _), (another, _, _, other, _, _, _) = labels[:2]
    return (
        f"{table.source.place(row)}, column {name}: it gives the label away: each of its "
        f"{n_values} values has one label only, {value!r} always {one!r}, {other!r} always "
        f"{another!r} …; take it out of the features of {table.place}, or write states_label: "
        f"{{accepted: the reason}} under features.{name}"
    )
