"""From a file to a run: read, take, score and write with the recorder of every run."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from krisis import __version__
from krisis.answers import AnswerSet
from krisis.cost_file import stated_costs
from krisis.costs import ASSUMED, Costs
from krisis.data.task import HEADLINE
from krisis.errors import InvalidFile, InvalidValue
from krisis.execution.recorder import Opening, Recorder
from krisis.file_formats import format_named
from krisis.formats.base import OF_ALL, OF_TABLES, ImportOptions, Reading, Reads, SourceRow
from krisis.formats.prediction_table import read_frame
from krisis.formats.row_import import Taken, take_all
from krisis.json_values import plain
from krisis.metrics import BootstrapOptions, usual_metrics
from krisis.metrics.base import BaseMetric, EvaluationResult, Rows
from krisis.metrics.labels import Answers
from krisis.metrics.scoring import score_all
from krisis.results.account import Imported, Provenance, RepeatAgreement, RunFacts, Spending
from krisis.results.attrition import Attrition
from krisis.results.base import BenchmarkResult
from krisis.results.call_totals import CallTotals
from krisis.results.repeats import mark_agreement
from krisis.runs.description import Identity
from krisis.runs.write import RowPlace, StoredCase
from krisis.task_facts import TaskFacts


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that was read and can be written as a run."""

    path: Path
    reading: Reading
    taken: Taken
    imported: Imported
    task: TaskFacts


def read_file(path: Path, kind: str, options: ImportOptions) -> ReadFile:
    """Read a file and take its rows; refuse one of which no row can be taken."""
    found: Reads = format_named(kind, "read")
    for name in options.given():
        if name not in getattr(found, "options", OF_ALL):
            raise InvalidValue(f"--{name.replace('_', '-')} does not go with --as {kind}; omit it")
    if not path.is_file():
        raise InvalidFile(f"{path} is not a file; name the log or the table to import")
    files = {path.name: _sha256(path)}
    command = _command(path, kind, options)
    return _taken(found.read(path, options), options, path, kind, files, command)


def read_in_memory(frame: object, options: ImportOptions) -> ReadFile:
    """Take the rows of a table in memory; refuse one of which no row can be taken."""
    for name in options.given():
        if name not in OF_TABLES:
            raise InvalidValue(f"{name} does not go with a table; omit it")
    path = Path(options.model or "the table")
    return _taken(read_frame(frame, options), options, path, "frame", {}, "")


def _taken(
    reading: Reading,
    options: ImportOptions,
    path: Path,
    kind: str,
    files: Mapping[str, str],
    command: str,
) -> ReadFile:
    for name in ("model", "task", "suite"):
        setattr(reading, name, getattr(options, name) or getattr(reading, name))
    taken = take_all(reading.rows, options)
    if not taken.rows and not taken.not_taken:
        raise InvalidFile(f"{path}: none of {taken.n_unread} cases was read, so there is no row")
    if not taken.rows:
        first = taken.not_taken[0]
        raise InvalidFile(
            f"{path}: none of {len(taken.not_taken)} rows can be taken; {first.place}: "
            f"{first.reason}"
        )
    _refuse_missing_confidence(reading, taken, options)
    imported = Imported(
        format=kind,
        files=files,
        taken_for=reading.taken_for,
        notes=(*reading.notes, *taken.notes),
        command=command,
        n_expected=max(reading.n_expected, len(reading.rows)) - taken.n_unread,
        n_read=len(reading.rows) - taken.n_unread,
        n_not_taken=len(taken.not_taken),
    )
    return ReadFile(path, reading, taken, imported, _task(reading, taken, options))


def _refuse_missing_confidence(reading: Reading, taken: Taken, options: ImportOptions) -> None:
    """Refuse a place of the confidence at which no row has one: its name is mistyped."""
    answered = [row for row in taken.rows if row.outcome == "answered"]
    if not options.confidence or not answered:
        return
    if any(row.confidence is not None for row in answered):
        return
    kind, colon, _ = options.confidence.partition(":")
    known = ""
    if colon and kind == "metadata":
        rows = [one for one in reading.rows if isinstance(one, SourceRow)]
        keys = sorted({str(key) for one in rows for key in one.values})
        known = f" (the keys are {', '.join(keys)[:200] or 'none'})"
    raise InvalidValue(
        f"--confidence {options.confidence!r} was found in 0 of {len(answered):,} answered rows"
        f"{known}; correct it or omit it"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _command(path: Path, kind: str, options: ImportOptions) -> str:
    words, pairs = ["krisis", "import", path.name, "--as", kind], options.answer_pairs()
    for name, value in options.given().items():
        option = f"--{name.replace('_', '-')}"
        if name == "answers" and not isinstance(value, str):
            words += [option, ",".join(f"{a}={w}" if w else str(a) for a, w in pairs)]
        elif value is True:
            words.append(option)
        else:
            given = value if isinstance(value, list) else [value]
            words += [word for one in given for word in (option, str(one))]
    return shlex.join(words)


def _task(reading: Reading, taken: Taken, options: ImportOptions) -> TaskFacts:
    known = AnswerSet(tuple(answer for answer, _ in taken.answers))
    positive = None if options.positive is None else known.match(options.positive)
    if options.positive is not None and positive is None:
        listed = ", ".join(map(str, known.allowed)) or "none is known; give --answers"
        raise InvalidValue(
            f"the positive answer {options.positive!r} is none of the answers ({listed})"
        )
    if options.ordinal and not options.answers:
        raise InvalidValue("--ordinal needs --answers, which lists the answers in their order")
    return TaskFacts(
        reading.task,
        answers=tuple(taken.answers),
        ordered=options.ordinal,
        positive=positive,
        groups={key: key for key in options.group},
        costs=_costs(options, known, taken),
        metrics=HEADLINE,
    )


def _costs(options: ImportOptions, known: AnswerSet, taken: Taken) -> Costs:
    """Return what the user says that answers cost, else what is assumed."""
    if options.price is None and options.costs is None:
        return ASSUMED
    stated = stated_costs(Costs(), options.costs, options.price)
    return stated.over_seen(known, Rows(taken.rows).table.labels)


def write_run(read: ReadFile, out: Path) -> BenchmarkResult:
    """Write the rows as a new run, scored."""
    rows, repeats, agreement = _rows(read)
    opening, stop = _opening(read, rows, repeats), read.reading.stop
    recorder = Recorder(out)
    try:
        recorder.begin(opening)
        recorder.append(_places(rows), rows, CallTotals())
        if stop is not None:
            recorder.note_stop(stop)
        recorder.note_not_taken([(one.place, one.reason) for one in read.taken.not_taken])
        facts = RunFacts(
            provenance=recorder.signed(_provenance(rows, read.task, repeats)),
            spending=_spending(rows),
            attrition=Attrition.of(rows, read.imported.n_expected),
            stop=stop,
            agreement=agreement,
        )
        metrics = usual_metrics(read.task.metrics)
        scores = score_all(metrics, rows, intervals=BootstrapOptions())
        result = BenchmarkResult(
            rows, scores, opening.suite_description, opening.backend_name, facts=facts
        )
        recorder.finish(result)
    finally:
        recorder.close()
    return result


def _rows(read: ReadFile) -> tuple[Rows, int, RepeatAgreement | None]:
    """Return the rows, how often each record was asked, and how far its answers agree."""
    rows = Rows(read.taken.rows, Answers.of(read.task))
    repeats = max((row.metadata.get("sample_index", 0) for row in rows), default=0) + 1
    return rows, repeats, mark_agreement(rows) if repeats > 1 else None


def result_of(
    read: ReadFile, metrics: Sequence[BaseMetric], options: BootstrapOptions
) -> BenchmarkResult:
    """Return the rows as a result in memory, scored; nothing is written."""
    rows, repeats, agreement = _rows(read)
    opening = _opening(read, rows, repeats)
    facts = RunFacts(
        provenance=replace(_provenance(rows, read.task, repeats), imported=read.imported),
        spending=_spending(rows),
        attrition=Attrition.of(rows, read.imported.n_expected),
        stop=read.reading.stop,
        agreement=agreement,
    )
    found = BenchmarkResult(rows, {}, opening.suite_description, opening.backend_name, facts=facts)
    return found.scored(metrics or usual_metrics(read.task.metrics), options)


def _opening(read: ReadFile, rows: Rows, repeats: int) -> Opening:
    suite, model, task = read.reading.suite, read.reading.model, read.task
    n_records = len({row.record_id for row in rows})
    identity = Identity(
        suite=suite,
        task=task.name,
        data=next(iter(read.imported.files.values()), ""),
        n_records=n_records,
        repeats=repeats,
        costs=plain(task.costs.to_json()),
        backend={"imported": read.imported.format, "model": model},
    )
    return Opening(
        identity,
        task,
        {
            "suite": suite,
            "task": task.name,
            "n_records": n_records,
            **({"read": read.reading.read} if read.reading.read else {}),
        },
        model,
        cases=[
            StoredCase(
                record_id=row.record_id,
                cluster_id=row.cluster_id,
                label=row.ground_truth,
                metadata=row.metadata,
            )
            for row in _first_rows(rows).values()
        ],
        n_cases=len(rows),
        may_store_features=False,
        imported=read.imported,
    )


def _first_rows(rows: Rows) -> dict[str, EvaluationResult]:
    """Return the first row of every record: what it says of its record goes for all."""
    found: dict[str, EvaluationResult] = {}
    for row in rows:
        found.setdefault(row.record_id, row)
    return found


def _places(rows: Rows) -> list[RowPlace]:
    """Return where each row belongs; what it says beside its record's first row stays its own."""
    place = {record_id: at for at, record_id in enumerate(_first_rows(rows))}
    return [
        RowPlace(position, place[row.record_id], int(row.metadata.get("sample_index") or 0))
        for position, row in enumerate(rows)
    ]


def _provenance(rows: Rows, task: TaskFacts, repeats: int) -> Provenance:
    return Provenance(
        task_facts=task,
        models_answered=dict(Counter(row.model for row in rows if row.model)),
        repeats=repeats,
        krisis_version=__version__,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _spending(rows: Rows) -> Spending:
    """Return what the rows say; how many calls that took is not known."""
    known = Spending.of(CallTotals(), rows, elapsed_seconds=0.0)
    return Spending(
        input_tokens=known.input_tokens,
        output_tokens=known.output_tokens,
        token_total=known.token_total,
        token_total_reported=known.token_total_reported,
        lost_input_tokens=known.lost_input_tokens or None,
        lost_output_tokens=known.lost_output_tokens or None,
    )
