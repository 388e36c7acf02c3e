"""One task over the table: its expressions, its cases, and the records of those that are used.

``krisis_cases`` holds a few narrow columns for every row, so that splitting, counting and checking
need neither Python objects nor the wide table. Records are made for the rows that are asked for.
"""

# SQL is put together from checked expressions, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from krisis.data.base import Judgement, Label, PatientRecord, SuiteConfig
from krisis.data.table.choices import N_DRAWN, drawn_number, shuffled, shuffled_position
from krisis.data.table.declaration import Declaration, ReaderSpec
from krisis.data.table.expressions import quoted, sql_text
from krisis.data.table.questions import BY_LABEL, QUESTION, UNCERTAIN, Question
from krisis.data.table.source import ROW, TABLE, Source, plain_value
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonObject, JsonValue

CASES, CHOSEN, _CLUSTERS = "krisis_cases", "krisis_chosen", "krisis_clusters"
# Some rows, which tell at once what cannot hold for all of them, and how they were drawn.
SAMPLE, _DRAWN, N_SAMPLED = "krisis_sample", "krisis_drawn", 2048
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
# Of a larger table, copies and equal ids are looked for among the rows that are used.
LARGE = 200_000
Part = Literal["use", "train"]
# A byte for each row, where texts would take sixteen.
_USE, _TRAIN = "'use'::krisis_parts", "'train'::krisis_parts"
# More different labels than this are no classes.
MOST_LABELS = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """What the sample shows of a column: how many values, and whether one has several labels."""

    n_given: int = 0
    n_values: int = 0
    is_mixed: bool = False


class TaskTable(Question):
    """The cases of one task: who is evaluated, who may train, and their records."""

    def __init__(
        self, declaration: Declaration, name: str, source: Source, config: SuiteConfig
    ) -> None:
        super().__init__(declaration, name, source)
        self.config = config
        self._has_drawn = False
        self.seen: dict[str, Seen] = {}  # what the sample shows of the shown columns
        self._make_cases()
        self.answer_of = self._answers_by_label()

    @property
    def has_split(self) -> bool:
        """Say whether some rows are held out from others."""
        return self.declaration.split is not None or self.config.test_size is not None

    @property
    def is_large(self) -> bool:
        """Say whether rows that are not used are left to `krisis data check`."""
        return self.source.n_rows > LARGE

    def _make_cases(self) -> None:
        declared, compiled = self.declaration, self.compiled
        record = quoted(declared.record_id) if declared.record_id else ROW
        cluster = quoted(declared.cluster) if declared.cluster else record
        label = compiled.label.sql
        if compiled.options:
            label = compiled.options.position
            if self.spec.answers.shuffle:
                label = shuffled_position(compiled.options, f"{self.config.seed}:")
        self.source.query("create type if not exists krisis_parts as enum ('use', 'train')")
        joined, part = "", self._part_sql()
        if self.has_split and (declared.split is None or declared.split.column is None):
            number, joined = self._numbered(cluster)
            drawn = drawn_number(number, self.config.seed)
            part = f"case when {drawn} <= {self._cut()} then {_USE} else {_TRAIN} end"
        own = f"{part} as krisis_part, {label} as krisis_label"
        held = ", ".join(f"{sql} as {name}" for name, sql in self._deferral_sql().items())
        self._rows = f"(select *, {own} from {TABLE}{joined})"
        self.execute(
            f"create or replace table {CASES} as select {ROW}, {record} as krisis_id, {cluster} as "
            f"krisis_cluster, {own}{'' if self.is_large else f', {held}'} from {TABLE}{joined}"
        )
        self._check_ids()

    def _deferral_sql(self) -> dict[str, str]:
        """Return SQL of the deferral label and of every reason.

        They are no part of ``krisis_cases`` where the table is large: records need them of the
        chosen rows only.
        """
        label = self.compiled.deferral_column
        found = {"krisis_due": label.sql if label else "null::boolean"}
        for number, reason in enumerate(self.compiled.reasons, 1):
            found[f"krisis_reason_{number}"] = reason.expression.sql
        return found

    def make_sample(self, *, drawn: bool) -> None:
        """Keep what is read of the first rows, or of those drawn first, which make records too."""
        compiled = self.compiled
        read = [reason.expression for reason in compiled.reasons]
        read += [compiled.deferral_column] if compiled.deferral_column else []
        named = [name for expression in read for name in expression.columns]
        names = list(dict.fromkeys([*self.shown, *self.declaration.groups, *named]))
        rows = f"select {ROW} from {CASES} where {ROW} <= {N_SAMPLED}"
        if drawn:
            self._draw(_DRAWN, "use", N_SAMPLED)
            rows = f"select krisis_chosen_row from {_DRAWN}"
        self._has_drawn = drawn
        label = f"select krisis_label from {CASES} where {ROW} in ({rows})"
        self.source.keep(SAMPLE, names, rows, beside=label)

    def _numbered(self, cluster: str) -> tuple[str, str]:
        """Give every cluster a number to draw by: its own, or that of its first row."""
        name = self.declaration.cluster or self.declaration.record_id
        connection, rows = self.source.connection, f"{TABLE} where {cluster} is not null"
        if name is None or self.source.columns[name] in _WHOLE:
            connection.execute(
                f"create or replace view {_CLUSTERS} as select distinct {cluster}::bigint as "
                f"krisis_first from {rows}"
            )
            return f"{cluster}::bigint", ""
        connection.execute(
            f"create or replace table {_CLUSTERS} as select {cluster} as krisis_whose, "
            f"min({ROW}) as krisis_first from {rows} group by 1"
        )
        return "krisis_first", f" left join {_CLUSTERS} on {cluster} = krisis_whose"

    def _part_sql(self) -> str:
        split = self.declaration.split
        if split is None or split.column is None:
            return _USE
        if self.config.test_size is not None:
            raise InvalidValue(
                f"test_size={self.config.test_size:g} is given, and {self.source.name} states its "
                f"split in the column {split.column!r}; leave out test_size"
            )
        column = quoted(self._column(split.column, "split.column"))
        kinds = [_listed(split.use), _listed(split.train)]
        whens = [
            f"when {column}::varchar in ({', '.join(map(sql_text, values))}) then {part}"
            for part, values in zip((_USE, _TRAIN), kinds, strict=True)
            if values
        ]
        return f"case {' '.join(whens)} end"

    def _cut(self) -> int:
        """Return the drawn number up to which clusters are held out: no label is looked at."""
        split, share = self.declaration.split, self.config.held_out_share
        if split is not None and split.test_size and self.config.test_size is None:
            share = split.test_size
        if self.is_large:  # among so many, the share is as good as exact
            return round(share * N_DRAWN)
        n_clusters = int(self.source.query(f"select count(*) from {_CLUSTERS}")[0][0])
        if n_clusters < 2:
            raise InvalidFile(
                f"{self.source.name} holds one cluster, which cannot be split; leave out split"
            )
        n_held_out = min(max(1, round(n_clusters * share)), n_clusters - 1)
        drawn = drawn_number("krisis_first", self.config.seed)
        ranked = f"select {drawn} as d from {_CLUSTERS} order by d"
        return int(self.source.query(f"{ranked} limit 1 offset {n_held_out - 1}")[0][0])

    def _check_ids(self) -> None:
        """Refuse rows without id or cluster, and ids that occur twice."""
        declared, source = self.declaration, self.source
        for key, name in (("record_id", declared.record_id), ("cluster", declared.cluster)):
            if name is None:
                continue
            cell = f"krisis_{key.removeprefix('record_')}"
            row = source.query(f"select min({ROW}) from {CASES} where {cell} is null")[0][0]
            if row is not None:
                raise InvalidFile(f"{source.place(row)}, column {name}: the {key} is missing")
        if not self.is_large:
            self.refuse_equal_ids(CASES)

    def refuse_equal_ids(self, rows: str) -> None:
        """Refuse an id of these rows that another row of the table has too."""
        source, column = self.source, self.declaration.record_id
        chosen = "" if rows == CASES else f"where krisis_id in (select krisis_id from {rows}) "
        twice = column and source.query(
            f"select krisis_id from {CASES} {chosen}group by 1 having count(*) > 1 "
            f"order by min({ROW}) limit 1"
        )
        if twice:
            name = twice[0][0]
            (first,), (second,) = source.query(
                f"select {ROW} from {CASES} where krisis_id = ? order by 1 limit 2", [name]
            )
            raise InvalidFile(
                f"{source.place(second)}, column {column}: {str(name)!r} is already in row "
                f"{first}; give every row an id of its own, or name patients as cluster"
            )

    def _answers_by_label(self) -> dict[JsonValue, Label]:
        """Map every value of the label to an answer; refuse the first row without one."""
        rows = self.source.query(
            f"select krisis_label, min({ROW}) from {CASES} group by 1 order by 2 "
            f"limit {MOST_LABELS + 1}"
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

    def n_cases(self, part: Part) -> int:
        """Count the cases of a part that have a label."""
        return sum(self.label_counts(part).values())

    def label_counts(self, part: Part) -> dict[str, int]:
        """Count the cases of a part by their answer."""
        rows = self.source.query(
            f"select krisis_label, count(*) from {CASES} where {_of(part)} group by 1"
        )
        found: Counter[str] = Counter()
        for value, n_cases in rows:
            found[str(self.answer_of[value])] += int(n_cases)
        return dict(sorted(found.items()))

    def reason_counts(self, part: Part) -> dict[str, int]:
        """Count the cases of a part by every reason to defer them."""
        return self.deferral_counts(part)[1]

    def deferral_counts(
        self, part: Part, others: Sequence[str] = ()
    ) -> tuple[int, dict[str, int], list[int]]:
        """Count the cases of a part to defer, all and by reason, and others over all rows.

        All of it is one scan of the table.
        """
        due, *reasons = self._deferral_sql().values()
        named: dict[str, list[str]] = {}
        if self.compiled.deferral_column is not None:
            named[BY_LABEL] = [due]
        for reason, sql in zip(self.compiled.reasons, reasons, strict=True):
            named.setdefault(reason.name, []).append(sql)
        if not named and not others:
            return 0, {}, []
        # `case` stops at the first condition that holds, and passes over what is null.
        held = "".join(
            f", case when {_of(part)} and ({' or '.join(sql)}) then 1 end as krisis_held_{number}"
            for number, sql in enumerate(named.values())
        )
        cells = [f"krisis_held_{number}" for number in range(len(named))]
        counts = ", ".join(f"count({cell})" for cell in cells)
        every = f"coalesce({', '.join([*cells, 'null'])})"
        found = self.execute(
            f"select {', '.join(filter(None, [f'count({every})', counts, *others]))} "
            f"from (select *{held} from {self._rows})"
        ).fetchall()[0]
        n_due, *by_reason = map(int, found)
        return n_due, dict(zip(named, by_reason, strict=False)), by_reason[len(named) :]

    def records(self, part: Part, limit: int | None = None) -> list[PatientRecord]:
        """Return the records of a part in the drawn order, or the first of them."""
        self._draw(CHOSEN, part, limit)
        compiled = self.compiled
        held = self._deferral_sql()
        due, *reasons = held.values() if self.is_large else held
        question = quoted(compiled.question_column) if compiled.question_column else "null"
        options = compiled.options.listed if compiled.options else "null"
        kinds, wide = self.source.columns, []
        for name in (*self.declaration.groups, *self.spec.features):  # 0.1, not 0.10000000149
            as_written = "::varchar::double" if kinds[name] == "FLOAT" else ""
            wide.append(f"{quoted(name)}{as_written}")
        rows = self.execute(
            "select krisis_chosen_row, krisis_id::varchar, krisis_cluster::varchar, "
            f"{CHOSEN}.krisis_label, {due}, [{', '.join(reasons)}]::boolean[], "
            f"{', '.join([question, options, *wide])} "
            f"from {CHOSEN} join {self.chosen_rows} on {ROW} = krisis_chosen_row "
            "order by krisis_draw, krisis_chosen_row"
        )
        blocks = iter(lambda: rows.fetchmany(4096), [])
        return [self._record(row) for block in blocks for row in block]

    def _draw(self, into: str, part: Part, limit: int | None) -> None:
        """Put the first cases of a part, in drawn order, into a table."""
        # In drawn order, neither a limit nor a batch follows the order of the file.
        cut = "" if limit is None else f" limit {int(limit)}"
        drawn = drawn_number(ROW, self.config.seed, 1)
        rows = (
            f"select {ROW} as krisis_chosen_row, * exclude ({ROW}), {drawn} as krisis_draw "
            f"from {CASES} where {_of(part)}"
        )
        self.chosen_rows = self.rows_in(into, "krisis_chosen_row")
        if self._has_drawn and part == "use" and limit is not None and limit <= N_SAMPLED:
            rows, self.chosen_rows = f"from {_DRAWN}", SAMPLE
        self.source.connection.execute(
            f"create or replace table {into} as {rows} order by krisis_draw, krisis_chosen_row{cut}"
        )

    def rows_in(self, relation: str, number: str = ROW) -> str:
        """Return the relation that holds the rows of these numbers, and others if it is small."""
        if not self.is_large:
            return TABLE
        return self.source.picked(f"select {number} from {relation}")

    def _record(self, row: Sequence[JsonValue]) -> PatientRecord:
        number, record_id, cluster_id, label, due, held, question, options = row[:8]
        groups = dict(zip(self.declaration.groups, map(plain_value, row[8:]), strict=False))
        values = row[8 + len(groups) :]
        features = {
            name: _rounded(plain_value(value), self.declaration.feature(name).decimals)
            for name, value in zip(self.spec.features, values, strict=True)
        }
        if math.inf in values or -math.inf in values:
            infinite = (n for n, v in features.items() if type(v) is float and math.isinf(v))
            raise self.source.infinite(number, next(infinite))
        if self.compiled.question_column:
            features[QUESTION] = question
        if self.compiled.options:
            if self.spec.answers.shuffle:
                options = shuffled(options, f"{self.config.seed}:{number}")
            letters = self.compiled.options.letters
            features |= {f"option_{x}": t for x, t in zip(letters, options, strict=False)}
        names = [r.name for r, h in zip(self.compiled.reasons, held, strict=True) if h]
        reasons = list(dict.fromkeys([*([BY_LABEL] if due else []), *names]))
        metadata: JsonObject = {"synthetic": self.declaration.synthetic, "row": number}
        metadata |= {**self._deferral(due, reasons), **groups}
        identity = record_id if self.declaration.record_id else f"row-{number}"
        cluster = cluster_id if self.declaration.cluster else identity
        return PatientRecord(features, self._answer_of(label), metadata, identity, cluster)

    def readings(self, reader: str) -> dict[str, Judgement]:
        """Return what a reader said, by record id; a row with an empty cell was not read."""
        spec, place = self.spec.readers[reader], f"{self.place}.readers.{reader}"
        columns = [quoted(self._column(name, place)) for name in spec.columns]
        rows = self.execute(
            f"select {ROW}, krisis_id::varchar, {', '.join(columns)} from {CASES} "
            f"join {TABLE} using ({ROW}) where {columns[0]} is not null order by 1"
        ).fetchall()
        found = {}
        for number, record_id, *cells in rows:
            where = f"{self.source.place(number)}, {place}"
            identity = record_id if self.declaration.record_id else f"row-{number}"
            found[identity] = self._reading(spec, cells, where)
        return found

    def _reading(self, spec: ReaderSpec, cells: Sequence[JsonValue], where: str) -> Judgement:
        numbers = cells if spec.probability else cells[1:]
        for value in numbers:
            is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 <= value <= 1):
                raise InvalidFile(f"{where}: {value!r} is no probability between 0 and 1")
        if spec.probability:
            positive, negative = self._two_answers(where)
            chance = float(cells[0])
            return Judgement.by_cost(self.task.costs, {positive: chance, negative: 1.0 - chance})
        answer = self._answer(cells[0])
        if answer is None:
            allowed = ", ".join(map(str, self.spec.answers.fixed))
            raise InvalidFile(f"{where}: {cells[0]!r} is none of the answers ({allowed})")
        confidence = None if not numbers or numbers[0] is None else float(numbers[0])
        return Judgement(answer, confidence)

    def _two_answers(self, where: str) -> tuple[Label, Label]:
        positive, answers = self.task.positive, list(self.spec.answers.fixed)
        if positive is None or len(answers) != 2:
            raise InvalidFile(
                f"{where}: a probability is that of the positive one of two answers; name the "
                "column of the answers instead, or state positive"
            )
        return positive, next(answer for answer in answers if answer != positive)

    def _answer_of(self, label: JsonValue) -> Label:
        options = self.compiled.options
        return options.letters[int(label) - 1] if options else self.answer_of[label]

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


def _of(part: Part) -> str:
    return f"krisis_part = '{part}' and krisis_label is not null"


def _rounded(value: JsonValue, decimals: int | None) -> JsonValue:
    return round(value, decimals) if decimals is not None and type(value) is float else value


def _listed(value: JsonValue) -> list[JsonValue]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
