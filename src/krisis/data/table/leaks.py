"""The leak guard: what would let a model read the label instead of judging the case.

All of it is aggregates in DuckDB. A feature is compared with the label on the first rows, and in
full only where those leave it possible that one gives the other away.
"""

# SQL is put together from checked expressions, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from krisis.data.table.cases import CASES, CHOSEN, SAMPLE, TaskTable
from krisis.data.table.declaration import Accepted
from krisis.data.table.expressions import quoted, sql_text
from krisis.data.table.recodings import LEAST_ROWS, recodings, seen_values
from krisis.data.table.source import ROW, TABLE

_ALIKE, _TELLING, _REPEATED = "krisis_alike", "krisis_telling", "krisis_repeated"
# Equal rows are copies where at least so many times more are found than chance would give.
_MORE_THAN_CHANCE = 10
# Cells that are missing are equal too: among all pairs of rows, more columns must tell them apart.
_N_TELLING, _N_TELLING_ALL = 3, 6
# Words that stand in any letter and name no diagnosis.
_COMMON = {
    *("none", "normal", "abnormal", "positive", "negative", "present", "absent", "high", "low"),
    *("mild", "moderate", "severe", "true", "false", "other", "unknown", "stable", "maybe", "case"),
}
_LEAST_LETTERS = 4
_FREE_TEXT_LETTERS = 40
_ASSOCIATED = 2.0
_LETTER = (
    r"(?:^|\W)(?:answer|label|correct option|right option)\s*(?:is\s|[:=])\s*\W?([a-z])(?:\W|$)"
)


def findings(table: TaskTable, *, whole: bool = False) -> Iterator[str]:
    """Return every leak in one sentence each: file, row, column and value.

    Of a large table, copies are looked for by `copies_of_chosen`, or here with ``whole``.
    """
    table.make_sample(drawn=table.is_large and not whole)
    table.seen = seen_values(table)
    yield from _hidden_columns(table)
    yield from _unseen_deferral(table)
    yield from recodings(table)
    yield from _label_in_text(table)
    yield from _right_option_in_text(table)
    yield from _both_parts(table)
    if whole or not table.is_large:
        yield from _equal_rows(table)


def copies_of_chosen(table: TaskTable) -> Iterator[str]:
    """Return copies of the rows whose records were made last, in a table too large for more."""
    table.refuse_equal_ids(CHOSEN)
    yield from _equal_rows(
        table, f"{table.chosen_rows} where {ROW} in (select krisis_chosen_row from {CHOSEN})"
    )


def accepted(table: TaskTable) -> list[str]:
    """Return what the author of the file accepts, with the reason, for every report."""
    found = [
        f"deferral reads {', '.join(columns)}, which the model is not shown (accepted: {why})"
        for _, columns, why in _reads_unseen(table)
        if why
    ]
    for name in table.spec.features:
        spec = table.declaration.feature(name)
        if spec.states_label is not None:
            found.append(f"{name} may state the label (accepted: {spec.states_label.accepted})")
    return list(dict.fromkeys(found))


def _hidden_columns(table: TaskTable) -> Iterator[str]:
    declared, spec = table.declaration, table.spec
    label = table.compiled.label
    roles = {
        spec.label.column or (label.columns[0] if _is_bare(table) else None): "the label",
        spec.deferral.column if spec.deferral else None: "the deferral label",
        declared.split.column if declared.split else None: "the column of the split",
        declared.cluster: "the cluster",
        declared.record_id: "the record_id",
    }
    for name in table.shown:
        if name in roles:
            yield (
                f"{table.source.name}, column {name}: it is {roles[name]} and among the features "
                f"of {table.place}; take it out of the features"
            )


def _is_bare(table: TaskTable) -> bool:
    """Say whether a label by expression is nothing but a column."""
    label = table.compiled.label
    if len(label.columns) != 1:
        return False
    return label.sql.strip("()\n ").strip('"').lower() == label.columns[0].lower()


def _reads_unseen(table: TaskTable) -> Iterator[tuple[str, list[str], str]]:
    """Return the place of every reason that reads unseen columns, with them and why it may."""
    deferral = table.spec.deferral
    for reason in table.compiled.reasons:
        unseen = [name for name in reason.expression.columns if name not in table.shown]
        by: Accepted | None = deferral.hidden if deferral else None
        if ".uncertainty" in reason.place:
            number = int(reason.place.rpartition("uncertainty")[2].lstrip(".") or 0)
            by = table.spec.uncertainty[number].hidden or by
        if unseen:
            yield reason.place, unseen, by.accepted if by else ""


def _unseen_deferral(table: TaskTable) -> Iterator[str]:
    for place, columns, why in _reads_unseen(table):
        if not why:
            yield (
                f"{table.source.name}, column {columns[0]}: {place} decides by it and the model is "
                f"not shown it; add it to {table.place}.features, or write hidden: "
                "{accepted: the reason} there"
            )


@dataclass(frozen=True, slots=True)
class _Phrase:
    answer: str
    words: str
    longer: tuple[str, ...]

    def in_text(self, text: str) -> str:
        for other in self.longer:
            text = f"replace({text}, {sql_text(other)}, ' ')"
        pattern = rf"(^|\W){re.escape(self.words)}(\W|$)"
        found = f"contains({text}, {sql_text(self.words)})"
        return f"({found} and regexp_matches({text}, {sql_text(pattern)}))"


def _phrases(table: TaskTable) -> list[_Phrase]:
    """Return the words that name an answer and no other, and are not of everyday use."""
    spoken: dict[str, set[str]] = {}
    by_value = [(str(value), answer) for value, answer in table.answer_of.items()]
    by_words = [(words, answer) for answer, words in table.spec.answers.fixed.items()]
    for text, answer in [*by_value, *by_words]:
        words = " ".join(text.lower().split())
        letters = re.sub(r"[^a-zà-ÿ]", "", words)
        if len(letters) >= _LEAST_LETTERS and words not in _COMMON:
            spoken.setdefault(words, set()).add(str(answer))
    return [
        _Phrase(
            next(iter(answers)),
            words,
            tuple(other for other in spoken if words in other and other != words),
        )
        for words, answers in spoken.items()
        if len(answers) == 1
    ]


def _texts(table: TaskTable) -> list[str]:
    """Return the shown columns of free text: called so, the question, long, or of many kinds."""
    found, specs = [], {name: table.declaration.feature(name) for name in table.shown}
    kinds = table.source.columns
    names = [
        n for n, s in specs.items() if kinds[n] == "VARCHAR" and not (s.values or s.states_label)
    ]
    cells = [
        f"avg(length({quoted(name)})), count({quoted(name)}), count(distinct {quoted(name)})"
        for name in names
    ]
    counts = iter(
        table.source.query(f"select {', '.join(cells)} from {SAMPLE}")[0] if cells else ()
    )
    for name, length, n_given, n_different in zip(names, counts, counts, counts, strict=True):
        spec = specs[name]
        is_text = spec.text or name == table.compiled.question_column
        if is_text or (length or 0) > _FREE_TEXT_LETTERS or 2 * n_different > n_given:
            found.append(name)
    return found


def _label_in_text(table: TaskTable) -> Iterator[str]:
    if table.compiled.options:
        return
    phrases, stated = _phrases(table), _stated(table)
    for name in _texts(table):
        text = f"lower(regexp_replace({quoted(name)}, '\\s+', ' ', 'g'))"
        tests = [(p.answer, p.words, p.in_text(text), False) for p in phrases]
        tests += [(answer, words, sql.format(text=text), True) for answer, words, sql in stated]
        for answer, words, test, always in tests:
            own = ", ".join(
                sql_text(str(value)) for value, a in table.answer_of.items() if str(a) == answer
            )
            is_own = f"krisis_label::varchar in ({own})"
            row, n_hits, n_own, n_elsewhere, n_other = table.source.query(
                f"select min(c.{ROW}) filter ({test} and {is_own}), "
                f"count(*) filter ({test} and {is_own}), count(*) filter ({is_own}), "
                f"count(*) filter ({test} and not {is_own}), count(*) filter (not {is_own}) "
                f"from {TABLE} r join {CASES} c on r.{ROW} = c.{ROW} where krisis_label is not null"
            )[0]
            share, elsewhere = n_hits / max(n_own, 1), n_elsewhere / max(n_other, 1)
            if n_hits and (always or share > _ASSOCIATED * elsewhere):
                yield (
                    f"{table.source.place(row)}, column {name}: the text states the label of its "
                    f"row, {words!r} ({n_hits} of {n_own} rows with it, {n_elsewhere} of {n_other} "
                    f"others); remove the words, or write states_label: {{accepted: the reason}} "
                    f"under features.{name}"
                )
                break


def _stated(table: TaskTable) -> list[tuple[str, str, str]]:
    """Return patterns such as ``dm: 1``: the name of the label's column and a value of it."""
    column = table.spec.label.column or (table.compiled.label.columns[0] if _is_bare(table) else "")
    names = [re.escape(column.lower())] if column else []
    names += ["label", "diagnosis", "ground truth", "answer"]
    found = []
    for value, answer in table.answer_of.items():
        written = " ".join(str(value).lower().split())
        pattern = rf"(^|\W)({'|'.join(names)})\s*[:=]\s*{re.escape(written)}(\W|$)"
        # Braces are doubled because the text is filled in later.
        sql = f"regexp_matches({{text}}, {sql_text(pattern).replace('{', '{{').replace('}', '}}')})"
        found.append((str(answer), f"{column or 'label'}: {written}", sql))
    return found


def _right_option_in_text(table: TaskTable) -> Iterator[str]:
    """Find texts, such as an explanation, that name the right option and none of the others.

    A text may also name its letter, as in ``Answer: B``.
    """
    options = table.compiled.options
    if options is None:
        return
    for name in [n for n in _texts(table) if n not in options.columns]:
        text = f"lower({quoted(name)})"
        letter = f"regexp_extract({text}, {sql_text(_LETTER)}, 1)"
        hit = (
            f"(contains({text}, lower(x)) and length(x) >= {_LEAST_LETTERS}) or "
            f"{letter} = chr(96 + list_position({options.listed}, x))"
        )
        listed = f"[{hit} for x in {options.listed}]"
        row, n_right, n_wrong, n_rows = table.source.query(
            f"select min({ROW}) filter (hits[p]), count(*) filter (hits[p]), "
            "sum((list_sum([h::int for h in hits]) - hits[p]::int) / greatest(len(hits) - 1, 1)), "
            f"count(*) from (select {ROW}, {listed} as hits, {options.position} as p from {TABLE}) "
            "where p is not null"
        )[0]
        if n_rows >= LEAST_ROWS and n_right >= 0.3 * n_rows and n_right > 3 * n_wrong:
            yield (
                f"{table.source.place(row)}, column {name}: the text names the right option in "
                f"{n_right} of {n_rows} rows and a wrong one rarely; take it out of what is shown, "
                f"or write states_label: {{accepted: the reason}} under features.{name}"
            )


def _both_parts(table: TaskTable) -> Iterator[str]:
    split = table.declaration.split
    if split is None or split.column is None:
        return
    found = table.source.query(
        f"select krisis_cluster, min({ROW}) filter (krisis_part = 'use'), "
        f"min({ROW}) filter (krisis_part = 'train') "
        f"from {CASES} group by 1 having count(*) filter (krisis_part = 'use') > 0 and "
        "count(*) filter (krisis_part = 'train') > 0 order by 2 limit 1"
    )
    if found:
        patient, row, other = found[0]
        column = table.declaration.cluster or table.declaration.record_id
        yield (
            f"{table.source.place(row)}, column {column}: {patient!r} is evaluated here and is "
            f"training data in row {other}; put all rows of a patient into one part"
        )


def _equal_rows(table: TaskTable, chosen: str = "") -> Iterator[str]:
    """Find rows that look the same to a model, with other labels or in both parts.

    Without ids, rows that are the same in every column are copies as well.
    """
    # Of a large table, only rows that agree in the most telling columns can be equal.
    if table.is_large and not _agree(table, chosen):
        return
    shown = ", ".join(map(quoted, table.shown))
    every = f"hash({', '.join(map(quoted, table.source.columns))})"
    whole = ROW if table.declaration.record_id else every
    table.source.connection.execute(
        f"create or replace table {_ALIKE} as select hash({shown}) as krisis_shown, {ROW}, "
        f"krisis_label, krisis_part, {whole} as krisis_whole from {table.rows_in(_REPEATED)} "
        f"join {CASES} using ({ROW}) "
        "where krisis_label is not null and krisis_part is not null"
    )
    n_pairs, first = table.source.query(
        "select sum(n * (n - 1) / 2), arg_min(h, first_row) from (select krisis_shown as h, "
        f"count(*) as n, min({ROW}) as first_row from {_ALIKE} group by h having count(*) > 1 and "
        "(min(krisis_label) <> max(krisis_label) or min(krisis_part) <> max(krisis_part) or "
        "count(distinct krisis_whole) < count(*)))"
    )[0]
    if first is None or float(n_pairs) <= _MORE_THAN_CHANCE * _pairs_by_chance(table):
        return
    (row, label, part), *others = table.source.query(
        f"select {ROW}, krisis_label, krisis_part from {_ALIKE} where krisis_shown = ? order by 1",
        [first],
    )
    copy, other, where = next((o for o in others if o[1:] != (label, part)), others[0])
    how = "in everything that is shown, with another label"
    if part != where:
        how = "in everything that is shown, in both parts"
    elif label == other:
        how = "in every column"
    yield (
        f"{table.source.place(copy)}: it equals row {row} {how} ({label!r}, {other!r}); remove the "
        "copy"
    )


def _agree(table: TaskTable, chosen: str) -> bool:
    """Find the rows that share the most telling columns with another; say whether any do."""
    by_values = sorted(table.seen, key=lambda name: table.seen[name].n_values)
    most = by_values[-(_N_TELLING if chosen else _N_TELLING_ALL) :]
    telling = f"hash({', '.join(map(quoted, most))})"
    which = f" where {telling} in (select {telling} from {chosen})" if chosen else ""
    table.source.connection.execute(
        f"create or replace table {_TELLING} as select {ROW}, {telling} as krisis_telling "
        f"from {TABLE}{which}"
    )
    table.source.connection.execute(
        f"create or replace table {_REPEATED} as select {ROW} from {_TELLING} where krisis_telling "
        f"in (select krisis_telling from {_TELLING} group by 1 having count(*) > 1)"
    )
    return bool(table.source.query(f"select 1 from {_REPEATED} limit 1"))


def _pairs_by_chance(table: TaskTable) -> float:
    """Return how many pairs of equal rows independent columns would give: n²/2 · Π Σ share²."""
    n_rows = float(table.source.n_rows)
    expected = n_rows * n_rows / 2
    for name in table.shown:
        squares = table.source.query(
            f"select sum(n * n) from (select count(*)::double as n from {TABLE} "
            f"group by {quoted(name)})"
        )[0][0]
        expected *= float(squares) / (n_rows * n_rows)
    return expected
