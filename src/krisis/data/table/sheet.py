"""The data sheet of a table suite: what is in it, and how far one gets without any model.

Everything is counted by DuckDB; no row becomes a Python object but the one of the first prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from krisis.data.table.cases import CASES, TaskTable
from krisis.data.table.declaration import Declaration
from krisis.data.table.expressions import quoted, sql_text
from krisis.data.table.leaks import accepted, findings
from krisis.data.table.source import ROW, TABLE, Source, is_number
from krisis.json_values import JsonObject, JsonValue

# A task is saturated where one column, or what is missing, is right in this share of cases.
SATURATED = 0.95
# Shortcuts are learned and judged on about so many cases at most, drawn by their number.
MOST_JUDGED = 10_000
_MOST_VALUES_SHOWN = 8
_SAMPLE = "krisis_sheet"
_EVALUATED = "krisis_part = 'use' and krisis_label is not null"


@dataclass(frozen=True, slots=True)
class Shortcut:
    """How often a simple guess is right on cases that it was not learned on."""

    what: str
    accuracy: float | None
    rule: str = ""


def sheet_of_suite(
    path: Path, declaration: Declaration, source: Source, columns: JsonObject, tasks: JsonObject
) -> JsonObject:
    """Return the figures of a suite file and of its tasks."""
    return {
        "file": str(path),
        "suite": declaration.name,
        "version": str(declaration.version),
        "source": source.name,
        "sha256": source.sha256,
        "n_rows": source.n_rows,
        "columns": columns,
        "left_out": dict(source.notes),
        "tasks": tasks,
    }


def _counted(table: TaskTable, columns: JsonObject) -> JsonObject:
    """Count cases to defer; add to the columns what is missing and implausible, once."""
    source = table.source
    new = [name for name in source.columns if name not in columns]
    ranges = [table.declaration.feature(name).plausible for name in new]
    cells = []
    for name, bounds in zip(new, ranges, strict=True):
        column = quoted(name)
        inside = f"case when {column} between {bounds[0]!r} and {bounds[1]!r}" if bounds else ""
        outside = f"count({inside} then null else {column} end)" if bounds else "0"
        cells += [f"count({column})", outside]
    shown = {name for task in table.declaration.tasks.values() for name in task.features}
    doubles = [n for n in new if n in shown and source.columns[n] in ("FLOAT", "DOUBLE")]
    infinite = [f"coalesce(min({ROW}) filter (isinf({quoted(name)})), 0)" for name in doubles]
    n_due, by_reason, found = table.deferral_counts("use", [*cells, *infinite])
    for name, row in zip(doubles, found[len(cells) :], strict=True):
        if row:
            raise source.infinite(row, name)
    for name, bounds, n_given, n_outside in zip(new, ranges, found[::2], found[1::2], strict=False):
        columns[name] = {
            "type": source.columns[name],
            "n_missing": source.n_rows - n_given,
            "plausible": bounds,
            "n_implausible": n_outside,
        }
    return {"n_deferred": n_due, "deferral": by_reason}


def sheet_of_task(table: TaskTable, columns: JsonObject) -> JsonObject:
    """Return the figures of a task; add those of columns that are not in ``columns`` yet."""
    deferral = _counted(table, columns)
    if table.is_large:
        table.refuse_equal_ids(CASES)
    n_evaluated, n_training = table.n_cases("use"), table.n_cases("train")
    shortcuts, how = _shortcuts(table, n_training)
    best = max((one.accuracy or 0.0 for one in shortcuts), default=0.0)
    return {
        "n_evaluated": n_evaluated,
        "n_training": n_training,
        "n_left_out": table.source.n_rows - n_evaluated - n_training,
        "n_patients": int(_one(table, f"count(distinct krisis_cluster) from {CASES}")),
        "classes": table.label_counts("use"),
        **deferral,
        "shortcuts": [asdict(one) for one in shortcuts],
        "shortcuts_judged": how,
        "saturated": best >= SATURATED,
        "groups": {name: _group(table, name, n_evaluated) for name in table.declaration.groups},
        "leaks": list(findings(table, whole=True)),
        "accepted": accepted(table),
    }


def _one(table: TaskTable, select: str) -> JsonValue:
    return table.source.query(f"select {select}")[0][0]


def _group(table: TaskTable, name: str, n_evaluated: int) -> JsonObject:
    where = f"where {ROW} in (select {ROW} from {CASES} where {_EVALUATED})"  # noqa: S608
    if n_evaluated == table.source.n_rows:
        where = ""
    rows = table.source.query(
        f"select {quoted(name)}::varchar, count(*) from {TABLE} {where} "  # noqa: S608
        f"group by 1 order by 2 desc, 1 nulls last limit {_MOST_VALUES_SHOWN + 1}"
    )
    shown = {"missing" if value is None else value: int(n) for value, n in rows}
    if len(rows) > _MOST_VALUES_SHOWN:
        shown = dict(list(shown.items())[:_MOST_VALUES_SHOWN])
        shown["other values"] = n_evaluated - sum(shown.values())
    return shown


# Shortcuts: guesses that look at nothing, at what is missing, or at one column.


def _shortcuts(table: TaskTable, n_training: int) -> tuple[list[Shortcut], str]:
    """Return how often each guess is right, and on which cases it was learned and judged."""
    answers = list(dict.fromkeys(table.answer_of.values()))
    if len(answers) < 2:
        return [], "all cases have the same label"
    n_fit, n_judged, share = _draw_sample(table, answers, has_training=n_training > 0)
    part = "the training cases" if n_training else "half of the clusters, drawn by hash,"
    rest = "the cases to evaluate" if n_training else "the other half"
    drawn = f"; {share:.1%} of all cases, drawn by hash" if share < 1 else ""
    how = f"learned on {part} (n = {n_fit}), judged on {rest} (n = {n_judged}{drawn})"
    if not n_fit or not n_judged:
        return [], f"not judged: {how}"
    judge = _Judge(table, len(answers), n_fit)
    found = [Shortcut("always answer the most frequent class", judge.by_value("0"))]
    names = [n for n in table.spec.features if not table.declaration.feature(n).text]
    if names:
        pattern = " || ".join(
            f"(case when {quoted(n)} is null then '1' else '0' end)" for n in names
        )
        found.append(Shortcut("which values are missing, alone", judge.by_value(pattern)))
        found.append(_best_feature(judge, names))
    return found, how


def _draw_sample(
    table: TaskTable, answers: Sequence[JsonValue], *, has_training: bool
) -> tuple[int, int, float]:
    """Put cases with their answer as a number and whether they are learned on into a table."""
    whens = " ".join(
        f"when krisis_label = {sql_text(value)} then {answers.index(answer)}"
        for value, answer in table.answer_of.items()
    )
    fit = (
        "krisis_part = 'train'"
        if has_training
        else "md5_number_lower('half:' || krisis_cluster) % 2 = 1"
    )
    parts = "('use', 'train')" if has_training else "('use')"
    n_cases = int(_one(table, f"count(*) from {CASES} where krisis_part in {parts}")) or 1
    share = min(1.0, MOST_JUDGED / n_cases)
    # Knuth's multiplicative hash of the number of the row: the same cases on every machine.
    drawn = f"({ROW} * 2654435761) % 4294967296 < {int(share * 4294967296)}"
    cases = f"from {CASES} where krisis_label is not null and krisis_part in {parts} and {drawn}"
    table.source.keep(
        _SAMPLE,
        table.spec.features,
        f"select {ROW} {cases}",
        beside=f"select case {whens} end as krisis_answer, {fit} as krisis_fit {cases}",
    )
    counts = table.source.query(
        f"select count(*) filter (krisis_fit), count(*) filter (not krisis_fit) from {_SAMPLE}"  # noqa: S608
    )[0]
    return int(counts[0]), int(counts[1]), share


@dataclass(frozen=True, slots=True)
class _Judge:
    """Learns a guess on some cases of the sample, and counts how often it is right on others."""

    table: TaskTable
    n_answers: int
    n_fit: int

    def by_value(self, expression: str, *, learned: bool = False) -> float:
        """Guess the most frequent answer of cases with the same value; else that of all cases."""
        judged = "krisis_fit" if learned else "not krisis_fit"
        n_right, n = self.table.source.query(
            f"with counted as (select {expression} as v, krisis_answer, count(*) as n "  # noqa: S608
            f"from {_SAMPLE} where krisis_fit group by 1, 2), "
            "guess as (select v, arg_min(krisis_answer, (-n, krisis_answer)) as answer "
            "from counted group by 1), "
            "usual as (select arg_min(krisis_answer, (-n, krisis_answer)) as answer from "
            "(select krisis_answer, sum(n) as n from counted group by 1)) "
            "select count(*) filter (krisis_answer = coalesce(guess.answer, usual.answer)), "
            f"count(*) from (select {expression} as v, krisis_answer from {_SAMPLE} "
            f"where {judged}) as cases "
            "left join guess on cases.v is not distinct from guess.v cross join usual"
        )[0]
        return float(n_right) / float(n)

    def limit(self, name: str) -> tuple[float, float] | None:
        """Return the limit that divides the learned cases best into two guesses, and how well."""
        each = range(self.n_answers)
        column = quoted(name)
        counts = ", ".join(f"count(*) filter (krisis_answer = {i}) as n{i}" for i in each)
        below = ", ".join(f"sum(n{i}) over (order by v) as l{i}" for i in each)
        total = ", ".join(f"sum(n{i}) over () as t{i}" for i in each)
        left = f"greatest({', '.join(f'l{i}' for i in each)})"
        right = f"greatest({', '.join(f't{i} - l{i}' for i in each)})"
        unknown = f"greatest({', '.join(f'n{i}' for i in each)})"
        rows = self.table.source.query(
            f"with counted as (select {column}::double as v, {counts} from {_SAMPLE} "  # noqa: S608
            f"where krisis_fit group by 1) select v, next, {left} + {right} + coalesce((select "
            f"{unknown} from counted where v is null), 0) from (select v, lead(v) over "
            f"(order by v) as next, {below}, {total} from counted where v is not null) "
            "where next is not null "
            "order by 3 desc, 1 limit 1"
        )
        return None if not rows else ((float(rows[0][0]) + float(rows[0][1])) / 2, rows[0][2])


def _best_feature(judge: _Judge, names: Sequence[str]) -> Shortcut:
    """Choose the column that is right most often where it was learned; judge that one elsewhere."""
    candidates: list[tuple[float, str, str]] = []
    for name in names:
        kind, column = judge.table.source.columns[name], quoted(name)
        if is_number(kind):
            if found := judge.limit(name):
                limit, n_right = found
                rule = f"{name} above or below {limit:.6g}"
                candidates.append((n_right / judge.n_fit, f"{column} > {limit!r}", rule))
        elif kind in ("VARCHAR", "BOOLEAN"):
            learned = judge.by_value(column, learned=True)
            candidates.append((learned, column, f"each value of {name}"))
    if not candidates:
        return Shortcut("the best single feature", None, "no feature is a number or a category")
    _, sql, rule = max(candidates, key=lambda one: one[0])
    return Shortcut("the best single feature", judge.by_value(sql), rule)


# The sheet as text


def sheet_text(sheet: JsonObject, prompts: Mapping[str, str]) -> str:
    """Return the sheet as one page of text, with the first prompt of every task."""
    return "\n".join(_text_lines(sheet, prompts))


def _text_lines(sheet: JsonObject, prompts: Mapping[str, str]) -> Iterator[str]:
    yield f"{sheet['suite']} (version {sheet['version']}): {sheet['source']}"
    yield f"  rows       {sheet['n_rows']}, sha256 {sheet['sha256']}"
    for what, n in sheet["left_out"].items():
        yield f"  FHIR       {n} {what}"
    columns = sheet["columns"]
    missing = {n: c["n_missing"] for n, c in columns.items() if c["n_missing"]}
    complete = len(columns) - len(missing)
    yield f"  columns    {len(columns)}, {complete} of them complete"
    for name, n in missing.items():
        yield f"  missing    {name}: {n} ({n / sheet['n_rows']:.1%})"
    for name, column in columns.items():
        if column["n_implausible"]:
            low, high = column["plausible"]
            yield f"  implausible  {name}: {column['n_implausible']} outside {low:g} to {high:g}"
    for name, task in sheet["tasks"].items():
        yield from _task_text(name, task)
        if name in prompts:
            yield f"  first prompt of {name}:"
            yield from (f"    {line}".rstrip() for line in prompts[name].splitlines())


def _task_text(name: str, task: JsonObject) -> Iterator[str]:
    n = task["n_evaluated"] or 1
    yield ""
    yield f"Task {name}"
    yield (
        f"  cases      {task['n_evaluated']} to evaluate, {task['n_training']} for baselines, "
        f"{task['n_left_out']} left out; {task['n_patients']} patients"
    )
    classes = ", ".join(f"{a}: {k} ({k / n:.1%})" for a, k in task["classes"].items())
    yield f"  classes    {classes}"
    share = f"{task['n_deferred']} ({task['n_deferred'] / n:.1%})" if task["deferral"] else ""
    yield f"  defer      {share or 'not stated'}"
    for reason, k in task["deferral"].items():
        yield f"    {reason}: {k} ({k / n:.1%})"
    for group, values in task["groups"].items():
        yield f"  group      {group}: " + ", ".join(f"{v}: {k}" for v, k in values.items())
    yield f"  shortcuts  {task['shortcuts_judged']}"
    for one in task["shortcuts"]:
        value = "undefined" if one["accuracy"] is None else f"{one['accuracy']:.4f}"
        yield f"    accuracy {value}  {one['what']}" + (f": {one['rule']}" if one["rule"] else "")
    if task["saturated"]:
        yield (
            f"    SATURATED: a guess without judgement is right in {SATURATED:.0%} of cases or "
            "more, so accuracy on this task says little about a model"
        )
    for sentence in task["accepted"]:
        yield f"  accepted   {sentence}"
    yield f"  leaks      {len(task['leaks']) or 'none found'}"
