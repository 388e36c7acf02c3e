"""The rows of a run as one tidy table with a data dictionary, for R, Stata, pandas and others."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from krisis.csv_lines import FORMULA, TableCell, csv_line, guarded
from krisis.json_values import JsonValue, dumps, plain
from krisis.metrics.base import EvaluationResult
from krisis.metrics.partition import verdict
from krisis.outcomes import OUTCOMES
from krisis.results.base import BenchmarkResult
from krisis.runs.review import MARKS, Reviews, case_key

_LONGEST_NAME = 32  # of a variable in Stata


@dataclass(frozen=True, slots=True)
class Field:
    """One column of the table, as the data dictionary describes it."""

    name: str
    type: str  # text, integer or number
    meaning: str
    values: str = ""
    source: tuple[str, str] | None = None  # metadata or signals, and the key there


@dataclass(frozen=True, slots=True)
class TidyTable:
    """One line per asking; None is a value that is not known or does not apply."""

    columns: Sequence[Field]
    lines: Sequence[Sequence[TableCell]]

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]


YES_NO = "1 yes, 0 no"
_FIXED = (
    Field("run_id", "text", "Run that the row belongs to"),
    Field("suite", "text", "Suite of the run"),
    Field("task", "text", "Task of the run"),
    Field("model_asked", "text", "Model that the run names"),
    Field("record_id", "text", "Record that was asked about"),
    Field("cluster_id", "text", "Patient of the record: the unit of resampling"),
    Field("asking", "integer", "Number of the asking of the record", "1 is the first"),
    Field("ground_truth", "text", "Right answer"),
    Field("outcome", "text", "What became of the asking", ", ".join(OUTCOMES)),
    Field("prediction", "text", "Answer of the model, or what it said instead", "empty: none"),
    Field("abstained", "integer", "Whether the model abstained", f"{YES_NO}, empty: no reply"),
    Field("correct", "integer", "Whether the answer is right", f"{YES_NO}, empty: not answered"),
    Field("confidence", "number", "Confidence in the answer", "0 to 1, empty: not stated"),
    Field("should_abstain", "integer", "Whether the case asks for deferral", YES_NO),
    Field("no_answer", "integer", "Whether the reply is no answer", f"{YES_NO}, empty: no reply"),
    Field("not_evaluated", "integer", "Whether no reply exists", YES_NO),
    Field("failure_class", "text", "Why there is no answer", "empty: there is one"),
    Field("error", "text", "What was said about that"),
    Field("model_answered", "text", "Model that answered, as the provider names it"),
    Field("finish_reason", "text", "Why the reply ended, as the provider says"),
    Field("latency_seconds", "number", "Seconds from the call to its answer"),
    Field("input_tokens", "integer", "Tokens of the prompt"),
    Field("output_tokens", "integer", "Tokens of the reply"),
    Field("total_tokens", "integer", "Tokens in all, as the backend says"),
    Field("raw_response", "text", "Reply of the model as it wrote it, where the run keeps it"),
)
_REVIEW = (
    Field("review", "text", "Latest mark of a reviewer", ", ".join(MARKS)),
    Field("review_note", "text", "Note of the reviewer"),
    Field("review_by", "text", "Who reviewed"),
    Field("review_at", "text", "When, in UTC"),
)
NOT_REVIEWED = Reviews({})
_ELSEWHERE = ("should_abstain", "sample_index")  # metadata that have a column of their own


Further = Mapping[tuple[str, str], str]


def tidy_table(result: BenchmarkResult, reviews: Reviews = NOT_REVIEWED) -> TidyTable:
    """Return the rows of a result: the fixed columns, then metadata and signals by name.

    Where reviewers noted anything, their latest note of each row comes last.
    """
    rows = result.evaluation_results
    further = further_columns(rows)
    lines = [tidy_line(result, row, further, reviews) for row in rows]
    columns = list(_FIXED)
    for place, ((of, key), name) in enumerate(further.items(), len(_FIXED)):
        words = "Metadata of the record" if of == "metadata" else "Signal of the reply"
        kind = _type([line[place] for line in lines])
        told = {type(getattr(row, of).get(key)) for row in rows} - {type(None)}
        values = YES_NO if told == {bool} else "lists and objects as JSON"
        columns.append(Field(name, kind, f"{words}: {key}", values, (of, key)))
    return TidyTable([*columns, *(_REVIEW if reviews.notes else ())], lines)


def further_columns(rows: Iterable[EvaluationResult]) -> Further:
    """Return the columns that rows have beside the fixed ones: field and key to their name."""
    keys: dict[str, set[str]] = {"metadata": set(_ELSEWHERE), "signals": set()}
    for row in rows:
        keys["metadata"].update(map(str, row.metadata))
        keys["signals"].update(map(str, row.signals))
    wanted = {("metadata", k): f"meta_{k}" for k in sorted(keys["metadata"] - set(_ELSEWHERE))}
    wanted |= {("signals", k): f"signal_{k}" for k in sorted(keys["signals"])}
    names = _stata_names([column.name for column in _FIXED], list(wanted.values()))
    return dict(zip(wanted, names, strict=True))


def tidy_line(
    result: BenchmarkResult,
    row: EvaluationResult,
    further: Further,
    reviews: Reviews = NOT_REVIEWED,
) -> list[TableCell]:
    """Return one line of the table."""
    cells = [*_fixed_cells(result, row), *(_cell(getattr(row, of).get(key)) for of, key in further)]
    if reviews.notes:
        note = reviews.notes.get(case_key(row))
        known = (None,) * 4 if note is None else (note.mark, note.note or None, note.by, note.at)
        cells += known
    return cells


def csv_lines(
    result: BenchmarkResult,
    rows: Callable[[], Iterable[EvaluationResult]],
    reviews: Reviews = NOT_REVIEWED,
) -> Iterator[str]:
    """Yield the table of some rows of a result as CSV, line by line, formulas guarded.

    ``rows`` is called twice: once for the columns, once for the lines; none is kept.
    """
    further = further_columns(rows())
    last = [column.name for column in _REVIEW] if reviews.notes else []
    yield csv_line([*(column.name for column in _FIXED), *further.values(), *last])
    for row in rows():
        yield csv_line(guarded(tidy_line(result, row, further, reviews)))


def _stata_names(taken: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return names of at most 32 letters, digits and underscores, each different."""
    used, names = set(taken), []
    for one in wanted:
        stem = re.sub(r"[^a-z0-9_]+", "_", one.lower())[:_LONGEST_NAME]
        name, number = stem, 1
        while name in used:
            number += 1
            name = f"{stem[: _LONGEST_NAME - len(str(number)) - 1]}_{number}"
        used.add(name)
        names.append(name)
    return names


def _fixed_cells(result: BenchmarkResult, row: EvaluationResult) -> list[TableCell]:
    made, found = result.provenance, verdict(row, result.rows.answers)
    missing = found == "not_evaluated"
    due = row.metadata.get("should_abstain")
    return [
        made.run_id or "",
        made.suite,
        made.task,
        result.backend_name,
        row.record_id,
        row.cluster_id,
        int(row.metadata.get("sample_index") or 0) + 1,
        str(row.ground_truth),
        row.outcome,
        None if row.prediction is None else str(row.prediction),
        None if missing else int(found == "abstained"),
        int(found == "right") if found in ("right", "wrong") else None,
        row.confidence,
        int(due) if due in (0, 1) else None,
        None if missing else int(found == "no_answer"),
        int(missing),
        row.failure_class or None,
        row.error,
        row.model or None,
        row.finish_reason or None,
        row.latency_seconds,
        row.input_tokens,
        row.output_tokens,
        row.total_tokens,
        row.raw_response or None,
    ]


def _cell(value: JsonValue) -> TableCell:
    value = plain(value)
    if isinstance(value, bool):
        return int(value)
    return dumps(value, indent=None) if isinstance(value, dict | list) else value


def _type(cells: Iterable[TableCell]) -> str:
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int}:
        return "integer"
    return "number" if kinds and kinds <= {int, float} else "text"


def csv_parts(table: TidyTable) -> Iterator[str]:
    """Yield the table as CSV, line by line, formulas guarded."""
    yield csv_line(table.names)
    for line in table.lines:
        yield csv_line(guarded(line))


def count_guarded(table: TidyTable) -> int:
    """Count the texts that get an apostrophe in front: a spreadsheet would compute them."""
    return sum(isinstance(c, str) and bool(FORMULA.match(c)) for line in table.lines for c in line)


def jsonl_parts(table: TidyTable) -> Iterator[str]:
    """Yield the table as JSON Lines; what is not known is null."""
    for line in table.lines:
        yield dumps(dict(zip(table.names, line, strict=True)), indent=None) + "\n"


def dictionary_text(table: TidyTable) -> str:
    """Return the data dictionary as CSV: one line per column."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("column", "type", "meaning", "values"))
    writer.writerows((one.name, one.type, one.meaning, one.values) for one in table.columns)
    return out.getvalue()
