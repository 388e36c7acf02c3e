"""One task over the table: its expressions, its cases, and the records of those that are used.

``krisis_cases`` holds a few narrow columns for every row, so that splitting, counting and checking
need neither Python objects nor the wide table. Records are made for the rows that are asked for.
"""

# SQL is put together from checked expressions, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, time
from decimal import Decimal
from typing import Literal

from krisis.data.base import Label, PatientRecord, SuiteConfig
from krisis.data.table.choices import shuffled
from krisis.data.table.declaration import Declaration
from krisis.data.table.expressions import quoted, sql_text
from krisis.data.table.questions import BY_LABEL, QUESTION, UNCERTAIN, Question
from krisis.data.table.source import ROW, TABLE, Source
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonObject, JsonValue

CASES = "krisis_cases"
Part = Literal["use", "train"]
# More different labels than this are no classes.
MOST_LABELS = 200


class TaskTable(Question):
    """The cases of one task: who is evaluated, who may train, and their records."""

    def __init__(
        self, declaration: Declaration, name: str, source: Source, config: SuiteConfig
    ) -> None:
        super().__init__(declaration, name, source)
        self.config = config
        self._make_cases()
        self.answer_of = self._answers_by_label()

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
            f"create or replace table {CASES} as select {ROW}, {record}::varchar as record_id, "
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
            f"when {column}::varchar in ({', '.join(map(sql_text, values))}) then '{part}'"
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
        n_clusters = int(self.source.query(f"select count(distinct cluster_id) from {CASES}")[0][0])
        if n_clusters < 2:
            raise InvalidFile(
                f"{self.source.name} holds one cluster, which cannot be split; leave out split"
            )
        n_held_out = min(max(1, round(n_clusters * share)), n_clusters - 1)
        cut = self.source.query(
            f"select d from (select distinct {drawn} as d from {CASES}) order by d "
            f"limit 1 offset {n_held_out - 1}"
        )[0][0]
        self.source.connection.execute(f"update {CASES} set part = 'train' where {drawn} > {cut}")

    def _check_cases(self, floats: Sequence[str]) -> None:
        """Refuse what no row may hold: no id, the same id twice, no cluster, infinity."""
        declared, source = self.declaration, self.source
        for key, name in (("record_id", declared.record_id), ("cluster_id", declared.cluster)):
            if name is None:
                continue
            row = source.query(f"select min({ROW}) from {CASES} where {key} is null")[0][0]
            if row is not None:
                what = key.removesuffix("_id") if key == "cluster_id" else key
                raise InvalidFile(f"{source.place(row)}, column {name}: the {what} is missing")
        if declared.record_id:
            twice = source.query(
                f"select record_id, list({ROW} order by {ROW})[1:2] from {CASES} group by 1 "
                f"having count(*) > 1 order by 2 limit 1"
            )
            if twice:
                name, (first, second) = twice[0]
                raise InvalidFile(
                    f"{source.place(second)}, column {declared.record_id}: {name!r} is already in "
                    f"row {first}; give every row an id of its own, or name patients as cluster"
                )
        row = source.query(f"select min({ROW}) from {CASES} where infinite")[0][0]
        if row is not None:
            cells = ", ".join(quoted(name) for name in floats)
            values = source.query(f"select {cells} from {TABLE} where {ROW} = {row}")[0]
            name = next(n for n, v in zip(floats, values, strict=True) if v and math.isinf(v))
            raise InvalidFile(
                f"{source.place(row)}, column {name}: the value is infinite; give a number, or "
                "leave the cell empty"
            )

    def _answers_by_label(self) -> dict[JsonValue, Label]:
        """Map every value of the label to an answer; refuse the first row without one."""
        rows = self.source.query(
            f"select label, min({ROW}) from {CASES} group by 1 order by 2 limit {MOST_LABELS + 1}"
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
        return int(
            self.source.query(
                f"select count(*) from {CASES} where part = '{part}' and label is not null"
            )[0][0]
        )

    def label_counts(self, part: Part) -> dict[str, int]:
        """Count the cases of a part by their answer."""
        rows = self.source.query(
            f"select label, count(*) from {CASES} where part = '{part}' and label is not null "
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
            f"select {cells} from {TABLE} where {ROW} in (select {ROW} from {CASES} "
            f"where part = '{part}' and label is not null)"
        )[0]
        return {name: int(n) for name, n in zip(named, found, strict=True)}

    def records(self, part: Part, limit: int | None = None) -> list[PatientRecord]:
        """Return the records of a part in the drawn order, or the first of them."""
        # In drawn order, neither a limit nor a batch follows the order of the file.
        drawn = f"md5_number_lower('{self.config.seed}:row:' || {ROW})"
        cut = "" if limit is None else f" limit {int(limit)}"
        self.source.connection.execute(
            f"create or replace table krisis_chosen as select {ROW} as chosen, record_id, "
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
            f"select chosen, record_id, cluster_id, label, {cells} from krisis_chosen "
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
            name: plain_value(value) for name, value in zip(self.spec.features, values, strict=True)
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
        metadata |= {
            n: plain_value(v) for n, v in zip(self.declaration.groups, groups, strict=True)
        }
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


def _listed(value: JsonValue) -> list[JsonValue]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def plain_value(value: JsonValue) -> JsonValue:
    """Return a cell as records hold it: whole numbers, numbers, text, lists and mappings."""
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, bool | Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, date | time):
        return value.isoformat()
    return value if value is None or isinstance(value, int | float | str) else str(value)
