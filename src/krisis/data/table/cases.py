"""One task over the table: its expressions, its cases, and the records of those that are used.

``krisis_cases`` holds a few narrow columns for every row, so that splitting, counting and checking
need neither Python objects nor the wide table. Records are made for the rows that are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from functools import cached_property
from typing import Literal

from krisis.data.base import FeatureDescription, Label, PatientRecord, SuiteConfig, Task
from krisis.data.table.choices import Options, compiled_options, shuffled
from krisis.data.table.declaration import Declaration, TaskSpec, UncertaintySpec
from krisis.data.table.expressions import Expression, checked_expression, quoted
from krisis.data.table.source import ROW, TABLE, Source, is_number
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.json_values import JsonObject, JsonValue

CASES = "krisis_cases"
QUESTION = "question"
Part = Literal["use", "train"]
BY_LABEL, UNCERTAIN, IMPLAUSIBLE = "deferral_label", "category_uncertain", "implausible_value"
_YES = ("yes", "true", "1", "y", "defer")
_NO = ("no", "false", "0", "n", "answer")
# More different labels than this are no classes.
MOST_LABELS = 200
_OF_EACH = {True: "What is the answer to the question of the case?"}
_ASK_OPTIONS = "Which of the options of the case answers its question best?"


def sql_text(value: object) -> str:
    """Return a constant as SQL writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a case is to be deferred: the name and the condition, and the columns that it reads."""

    name: str
    expression: Expression
    place: str


@dataclass(slots=True)
class Compiled:
    """What a task of the YAML became: SQL that DuckDB has accepted."""

    label: Expression
    reasons: list[Reason] = field(default_factory=list)
    deferral_column: Expression | None = None
    options: Options | None = None
    question_column: str | None = None


class TaskTable:
    """The cases of one task: who is evaluated, who may train, and their records."""

    def __init__(
        self, declaration: Declaration, name: str, source: Source, config: SuiteConfig
    ) -> None:
        self.declaration, self.name, self.source, self.config = declaration, name, source, config
        self.spec: TaskSpec = declaration.tasks[name]
        self.place = f"tasks.{name}"
        self._check_columns()
        self.compiled = self._compile()
        self._make_cases()
        self.answer_of = self._answers_by_label()

    # What is shown and what is not

    @property
    def shown(self) -> list[str]:
        """Return the columns that the model sees, the question and its options included."""
        compiled = self.compiled
        own = [compiled.question_column] if compiled.question_column else []
        return [*self.spec.features, *own, *(compiled.options.columns if compiled.options else ())]

    def _column(self, name: str, key: str) -> str:
        if name not in self.source.columns:
            unknown = UnknownName.among("column", name, self.source.columns)
            raise InvalidFile(f"{self.source.name}: {key}: {unknown}")
        return name

    def _check_columns(self) -> None:
        declared, spec = self.declaration, self.spec
        named = {
            "record_id": declared.record_id,
            "cluster": declared.cluster,
            "split.column": declared.split.column if declared.split else None,
            f"{self.place}.label": spec.label.column,
            f"{self.place}.deferral": spec.deferral.column if spec.deferral else None,
        }
        for key, name in named.items():
            if name is not None:
                self._column(name, key)
        for name in spec.features:
            self._column(name, f"{self.place}.features")
        for name in declared.features:
            self._column(name, "features")
        for name in declared.groups:
            self._column(name, "groups")

    # Expressions

    def expression(self, text: str, place: str) -> Expression:
        """Check an expression of the YAML over the columns of the table."""
        source = self.source
        return checked_expression(
            source.connection, text, place, table=TABLE, columns=source.columns
        )

    def condition(self, text: str, place: str) -> Expression:
        """Check an expression that must be true or false."""
        found = self.expression(text, place)
        if found.kind != "BOOLEAN":
            raise InvalidFile(
                f"{place}: {text!r} gives {found.kind}, not true or false; write a comparison"
            )
        return found

    def _compile(self) -> Compiled:
        spec, columns = self.spec, self.source.columns
        label_sql = spec.label.sql or quoted(str(spec.label.column))
        compiled = Compiled(self.expression(label_sql, f"{self.place}.label"))
        if not isinstance(spec.question, str):
            compiled.question_column = self._column(spec.question.column, f"{self.place}.question")
        if spec.answers.per_row:
            compiled.options = compiled_options(
                self.source, spec, compiled.label, f"{self.place}.answers"
            )
        taken = {QUESTION} if compiled.question_column else set()
        if clash := taken & set(spec.features) - {compiled.question_column}:
            raise InvalidFile(f"{self.place}.features: rename the column {clash.pop()!r}")
        if spec.deferral and spec.deferral.column:
            compiled.deferral_column = self._deferral_label(spec.deferral.column)
        for reason, text in (spec.deferral.when if spec.deferral else {}).items():
            place = f"{self.place}.deferral.when.{reason}"
            compiled.reasons.append(Reason(reason, self.condition(text, place), place))
        for number, one in enumerate(spec.uncertainty):
            place = f"{self.place}.uncertainty" + (f".{number}" if number else "")
            compiled.reasons.append(Reason(UNCERTAIN, self._uncertain(one, place), place))
        bounds = {name: self.declaration.feature(name).plausible for name in spec.features}
        for name, bound in bounds.items():
            if bound is not None:
                self._number(name, f"features.{name}.plausible")
                sql = f"(not ({quoted(name)} between {bound[0]!r} and {bound[1]!r}))"
                found = Expression(sql, (name,), "BOOLEAN")
                compiled.reasons.append(Reason(IMPLAUSIBLE, found, f"features.{name}.plausible"))
        for name in self.declaration.features:
            if self.declaration.feature(name).is_number:
                self._number(name, f"features.{name}")
        assert columns
        return compiled

    def _number(self, name: str, key: str) -> None:
        kind = self.source.columns[name]
        if not is_number(kind):
            raise InvalidFile(
                f"{self.source.name}, column {name}: it holds {kind}, and {key} asks for numbers"
            )

    def _uncertain(self, given: UncertaintySpec, place: str) -> Expression:
        value = self.expression(given.value, f"{place}.value")
        if not is_number(value.kind):
            raise InvalidFile(f"{place}.value: {given.value!r} gives {value.kind}, not a number")
        sql = f"({p_other_side(value.sql, given.cv, given.limits)} >= {given.risk!r})"
        return Expression(sql, value.columns, "BOOLEAN")

    def _deferral_label(self, name: str) -> Expression:
        """Return whether a column says: defer; null where it says nothing."""
        column, kind = quoted(name), self.source.columns[name]
        chosen = self.spec.deferral.values if self.spec.deferral else None
        if chosen is not None:
            listed = ", ".join(sql_text(str(value)) for value in chosen)
            return Expression(f"({column}::varchar in ({listed}))", (name,), "BOOLEAN")
        text = f"lower(trim({column}::varchar))"
        if kind in ("FLOAT", "DOUBLE"):
            text = f"{column}::bigint::varchar"
        known = ", ".join(map(sql_text, (*_YES, *_NO)))
        strange = self.source.query(
            f"select min({ROW}), arg_min({column}, {ROW}) from {TABLE} "  # noqa: S608
            f"where {column} is not null and {text} not in ({known})"
        )[0]
        if strange[0] is not None:
            raise InvalidFile(
                f"{self.source.place(strange[0])}, column {name}: {strange[1]!r} is not yes or no; "
                f"list the values that mean: defer, as {self.place}.deferral.is"
            )
        yes = ", ".join(map(sql_text, _YES))
        return Expression(f"({text} in ({yes}))", (name,), "BOOLEAN")

    # Cases

    @property
    def has_split(self) -> bool:
        """Say whether some rows are held out from others."""
        return self.declaration.split is not None or self.config.has_chosen_test_size

    def _make_cases(self) -> None:
        declared, seed = self.declaration, self.config.seed
        record = quoted(declared.record_id) if declared.record_id else ROW
        cluster = quoted(declared.cluster) if declared.cluster else record
        options = self.compiled.options
        label = options.position if options else self.compiled.label.sql
        shown = ", ".join(quoted(name) for name in self.shown)
        floats = [n for n in self.shown if self.source.columns[n] in ("FLOAT", "DOUBLE")]
        infinite = " or ".join(f"coalesce(isinf({quoted(n)}), false)" for n in floats) or "false"
        self.source.connection.execute(
            f"create or replace table {CASES} as select {ROW}, {record}::varchar as record_id, "  # noqa: S608
            f"{cluster}::varchar as cluster_id, {self._part_sql()} as part, {label} as label, "
            f"hash({shown}) as shown, {infinite} as infinite from {TABLE}"
        )
        self._check_cases(floats)
        if declared.split is None or declared.split.column is None:
            self._draw_part(seed)

    def _part_sql(self) -> str:
        split = self.declaration.split
        if split is None or split.column is None:
            return "'use'"
        if self.config.has_chosen_test_size:
            raise InvalidValue(
                f"test_size={self.config.test_size:g} is given, and {self.source.name} states its "
                f"split in the column {split.column!r}; leave out test_size"
            )
        column = quoted(self._column(split.column, "split.column"))
        kinds = [_listed(split.use), _listed(split.train)]
        whens = [
            f"when {column}::varchar in ({', '.join(sql_text(str(v)) for v in values)}) then '{part}'"
            for part, values in zip(("use", "train"), kinds, strict=True)
            if values
        ]
        return f"case {' '.join(whens)} end"

    def _draw_part(self, seed: int) -> None:
        """Hold out whole clusters, by the seed and their names alone: no label is looked at."""
        if not self.has_split:
            return
        split = self.declaration.split
        share = self.config.test_size
        if split is not None and split.test_size and not self.config.has_chosen_test_size:
            share = split.test_size
        drawn = f"md5_number_lower('{seed}:' || cluster_id)"
        n_clusters = int(self.source.query(f"select count(distinct cluster_id) from {CASES}")[0][0])  # noqa: S608
        if n_clusters < 2:
            raise InvalidFile(
                f"{self.source.name} holds one cluster, which cannot be split; give more, or no split"
            )
        n_held_out = min(max(1, round(n_clusters * share)), n_clusters - 1)
        cut = self.source.query(
            f"select d from (select distinct {drawn} as d from {CASES}) order by d "  # noqa: S608
            f"limit 1 offset {n_held_out - 1}"
        )[0][0]
        self.source.connection.execute(
            f"update {CASES} set part = 'train' where {drawn} > {cut}"  # noqa: S608
        )

    def _check_cases(self, floats: Sequence[str]) -> None:
        """Refuse what no row may hold: no id, the same id twice, no cluster, infinity."""
        declared, source = self.declaration, self.source
        for key, name in (("record_id", declared.record_id), ("cluster", declared.cluster)):
            if name is None:
                continue
            row = source.query(
                f"select min({ROW}) from {CASES} where {key if key == 'record_id' else 'cluster_id'} "  # noqa: S608
                "is null"
            )[0][0]
            if row is not None:
                raise InvalidFile(f"{source.place(row)}, column {name}: the {key} is missing")
        if declared.record_id:
            twice = source.query(
                f"select record_id, list({ROW} order by {ROW})[1:2] from {CASES} group by 1 "  # noqa: S608
                f"having count(*) > 1 order by 2 limit 1"
            )
            if twice:
                name, (first, second) = twice[0]
                raise InvalidFile(
                    f"{source.place(second)}, column {declared.record_id}: {name!r} is already in "
                    f"row {first}; give every row an id of its own, or name patients as cluster"
                )
        row = source.query(f"select min({ROW}) from {CASES} where infinite")[0][0]  # noqa: S608
        if row is not None:
            cells = ", ".join(quoted(name) for name in floats)
            values = source.query(f"select {cells} from {TABLE} where {ROW} = {row}")[0]  # noqa: S608
            name = next(n for n, v in zip(floats, values, strict=True) if v and math.isinf(v))
            raise InvalidFile(
                f"{source.place(row)}, column {name}: the value is infinite; give a number, or "
                "leave the cell empty"
            )

    def _answers_by_label(self) -> dict[JsonValue, Label]:
        """Map every value of the label to an answer; refuse the first row without one."""
        rows = self.source.query(
            f"select label, min({ROW}) from {CASES} group by 1 order by 2 limit {MOST_LABELS + 1}"  # noqa: S608
        )
        column = self.spec.label.column
        where = f", column {column}" if column else f", {self.place}.label"
        if len(rows) > MOST_LABELS:
            raise InvalidFile(
                f"{self.source.name}{where}: more than {MOST_LABELS} different values; a label has "
                "as many as the answers"
            )
        found: dict[JsonValue, Label] = {}
        for value, row in rows:
            if value is None:
                self._leave_out(row, where)
                continue
            answer = self._answer(value)
            if answer is None:
                allowed = ", ".join(map(str, self.spec.answers.fixed))
                raise InvalidFile(
                    f"{self.source.place(row)}{where}: the label {value!r} is none of the answers "
                    f"({allowed}); correct it, or add it to {self.place}.answers"
                )
            found[value] = answer
        return found

    def _leave_out(self, row: int, where: str) -> None:
        if self.spec.label.missing is None:
            raise InvalidFile(
                f"{self.source.place(row)}{where}: the label is missing; complete or remove the "
                "row, or write {missing: leave out} beside the label's column"
            )

    def _answer(self, value: JsonValue) -> Label | None:
        if self.compiled.options:
            return self.compiled.options.letters[int(value) - 1]
        forms = [value]
        if isinstance(value, bool):
            forms = ["yes", "true", 1] if value else ["no", "false", 0]
        elif isinstance(value, float | Decimal) and value == int(value):
            forms = [int(value)]
        written = {str(form).strip().casefold() for form in forms}
        for answer in self.spec.answers.fixed:
            if str(answer).strip().casefold() in written:
                return answer
        return None

    # Rows and records

    def n_cases(self, part: Part) -> int:
        """Count the cases of a part that have a label."""
        return int(
            self.source.query(
                f"select count(*) from {CASES} where part = '{part}' and label is not null"  # noqa: S608
            )[0][0]
        )

    def label_counts(self, part: Part) -> dict[str, int]:
        """Count the cases of a part by their answer."""
        rows = self.source.query(
            f"select label, count(*) from {CASES} where part = '{part}' and label is not null "  # noqa: S608
            "group by 1"
        )
        found: dict[str, int] = {}
        for value, n_cases in rows:
            answer = str(self.answer_of[value])
            found[answer] = found.get(answer, 0) + int(n_cases)
        return found

    def reason_counts(self, part: Part) -> dict[str, int]:
        """Count the cases of a part by every reason to defer them."""
        named: dict[str, str] = {}
        if self.compiled.deferral_column is not None:
            named[BY_LABEL] = self.compiled.deferral_column.sql
        for reason in self.compiled.reasons:
            sql = reason.expression.sql
            named[reason.name] = f"{named[reason.name]} or {sql}" if reason.name in named else sql
        if not named:
            return {}
        cells = ", ".join(f"count(*) filter ({sql})" for sql in named.values())
        found = self.source.query(
            f"select {cells} from {TABLE} where {ROW} in (select {ROW} from {CASES} "  # noqa: S608
            f"where part = '{part}' and label is not null)"
        )[0]
        return {name: int(n) for name, n in zip(named, found, strict=True)}

    def records(self, part: Part, limit: int | None = None) -> list[PatientRecord]:
        """Return the records of a part in the drawn order, or the first of them."""
        # In drawn order, neither a limit nor a batch follows the order of the file.
        drawn = f"md5_number_lower('{self.config.seed}:row:' || {ROW})"
        cut = "" if limit is None else f" limit {int(limit)}"
        self.source.connection.execute(
            f"create or replace table krisis_chosen as select {ROW} as chosen, record_id, "  # noqa: S608
            f"cluster_id, label, row_number() over (order by {drawn}, {ROW}) as place from {CASES} "
            f"where part = '{part}' and label is not null order by place{cut}"
        )
        compiled = self.compiled
        shown = [quoted(name) for name in self.spec.features]
        question = quoted(compiled.question_column) if compiled.question_column else "null"
        options = compiled.options.listed if compiled.options else "null"
        due = compiled.deferral_column.sql if compiled.deferral_column else "null"
        reasons = [reason.expression.sql for reason in compiled.reasons]
        groups = [quoted(name) for name in self.declaration.groups]
        cells = ", ".join([question, options, due, *reasons, *groups, *shown])
        rows = self.source.connection.execute(
            f"select chosen, record_id, cluster_id, label, {cells} from krisis_chosen "  # noqa: S608
            f"join {TABLE} on {ROW} = chosen order by place"
        )
        return [self._record(row) for row in iter(rows.fetchone, None)]

    def _record(self, row: Sequence[JsonValue]) -> PatientRecord:
        number, record_id, cluster_id, label, question, options, due = row[:7]
        n_reasons, n_groups = len(self.compiled.reasons), len(self.declaration.groups)
        held = row[7 : 7 + n_reasons]
        groups = row[7 + n_reasons : 7 + n_reasons + n_groups]
        values = row[7 + n_reasons + n_groups :]
        features = {
            name: plain_value(value)
            for name, value in zip(self.spec.features, values, strict=True)
        }
        if self.compiled.question_column:
            features[QUESTION] = question
        answer = self.answer_of[label]
        if self.compiled.options:
            given = list(options)
            if self.spec.answers.shuffle:
                given, label = shuffled(given, int(label), f"{self.config.seed}:{number}")
            answer = self.compiled.options.letters[int(label) - 1]
            features |= {
                f"option_{letter}": text
                for letter, text in zip(self.compiled.options.letters, given, strict=False)
            }
        names = {r.name: None for r, h in zip(self.compiled.reasons, held, strict=True) if h}
        metadata: JsonObject = {"synthetic": self.declaration.synthetic, "row": number}
        metadata |= self._deferral(due, [*([BY_LABEL] if due else []), *names])
        metadata |= {n: plain_value(v) for n, v in zip(self.declaration.groups, groups, strict=True)}
        identity = record_id if self.declaration.record_id else f"row-{number}"
        cluster = cluster_id if self.declaration.cluster else identity
        return PatientRecord(features, answer, metadata, identity, cluster)

    def _deferral(self, due: bool | None, reasons: list[str]) -> JsonObject:
        compiled = self.compiled
        if not compiled.reasons and compiled.deferral_column is None:
            return {}
        if not reasons and compiled.deferral_column is not None and due is None:
            return {"should_abstain": None}
        kind = ("uncertain" if UNCERTAIN in reasons else "rule") if reasons else None
        return {
            "should_abstain": bool(reasons),
            "abstain_reasons": reasons,
            "deferral_kind": kind,
        }

    @cached_property
    def task(self) -> Task:
        """Return the task as prompts and metrics know it."""
        spec, options = self.spec, self.compiled.options
        answers: Mapping[Label, str] = spec.answers.fixed
        question = spec.question if isinstance(spec.question, str) else _OF_EACH[True]
        if options:
            answers = {letter: f"option {letter} of the case" for letter in options.letters}
            question = spec.question if isinstance(spec.question, str) else _ASK_OPTIONS
        positive = spec.positive
        if positive is None and set(answers) == {0, 1}:
            positive = 1
        if positive is not None and positive not in answers:
            raise InvalidFile(
                f"{self.place}.positive: {positive!r} is none of the answers "
                f"({', '.join(map(str, answers))})"
            )
        told = {"abstain_when": spec.abstain_when} if spec.abstain_when else {}
        return Task(
            self.name,
            question,
            answers,
            self._descriptions(),
            ordered=spec.ordinal,
            positive=positive,
            groups={name: name for name in self.declaration.groups},
            **told,
        )

    def _descriptions(self) -> dict[str, FeatureDescription]:
        found = {}
        for name in self.spec.features:
            spec = self.declaration.feature(name)
            meaning = [f"usual {spec.usual}"] if spec.usual else []
            if spec.plausible is not None:
                meaning.append(f"possible {spec.plausible[0]:g} to {spec.plausible[1]:g}")
            values: dict[Label, str] = dict(spec.values)
            if self.source.columns[name] == "BOOLEAN" and not values:
                values = {0: "no", 1: "yes"}
            words = spec.label or name
            found[name] = FeatureDescription(
                words, spec.unit, "; ".join(meaning), values, text=spec.text
            )
        if self.compiled.question_column:
            found[QUESTION] = FeatureDescription("Question", text=True)
        for letter in self.compiled.options.letters if self.compiled.options else ():
            found[f"option_{letter}"] = FeatureDescription(f"Option {letter}")
        return found


def _listed(value: JsonValue) -> list[JsonValue]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def plain_value(value: JsonValue) -> JsonValue:
    """Return a cell as records hold it: whole numbers, numbers, text, lists and mappings."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if value is None or isinstance(value, int | float | str):
        return value
    return str(value)


# Hart's rational approximation in double precision, as given by West, "Better approximations to
# cumulative normal functions", Wilmott Magazine, May 2005, pp. 70-76. Horner, highest power first.
_ABOVE = (
    *(3.52624965998911e-2, 0.700383064443688, 6.37396220353165, 33.912866078383),
    *(112.079291497871, 221.213596169931, 220.206867912376),
)
_BELOW = (
    *(8.83883476483184e-2, 1.75566716318264, 16.064177579207, 86.7807322029461),
    *(296.564248779674, 637.333633378831, 793.826512519948, 440.413735824752),
)


def _horner(coefficients: Iterable[float], x: str) -> str:
    first, *rest = map(repr, coefficients)
    for coefficient in rest:
        first = f"({first} * {x} + {coefficient})"
    return first


def normal_tail(z: str) -> str:
    """Return SQL of the upper tail 1 − Φ(z) of the standard normal distribution."""
    x = f"least(abs({z}), 7.0)"  # beyond it the tail is below 1.3e-12
    lower = f"(exp(-{x} * {x} / 2) * {_horner(_ABOVE, x)} / {_horner(_BELOW, x)})"
    return f"(case when {z} >= 0 then {lower} else 1 - {lower} end)"


def p_other_side(value: str, cv: float, limits: Sequence[float]) -> str:
    """Return SQL of the probability that the true value lies between other limits than the value.

    The true value is taken as normal around the measured one with the standard deviation cv · v.
    Between the limits L ≤ v < U it is p = 1 − Φ((U − v) / (cv·v)) + Φ((L − v) / (cv·v)), where a
    limit that there is none of adds nothing.
    """
    v, spread = f"({value})::double", f"(abs(({value})::double) * {cv!r})"
    terms = []
    for limit in sorted(limits):
        z = f"(({limit!r} - {v}) / {spread})"
        tail = normal_tail(f"abs{z}")
        terms.append((limit, tail))
    below = "0"
    above = "0"
    for limit, tail in terms:  # the nearest limit at or below the value
        below = f"case when {v} >= {limit!r} then {tail} else {below} end"
    for limit, tail in reversed(terms):  # the nearest one above it
        above = f"case when {v} < {limit!r} then {tail} else {above} end"
    return f"(case when {v} = 0 then 0 else ({below}) + ({above}) end)"
