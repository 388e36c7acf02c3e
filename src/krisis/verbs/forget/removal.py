"""Take a patient out of a run: what stays is written into a new file, which replaces the old one.

No page of the old file is copied, so nothing of the patient can be left in unused space. Whenever
the process is killed, there is the old file or the new one. Notes and other copies go before the
run does: as long as anything is left, the run still knows the patient, and the command can be
repeated.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from krisis import __version__
from krisis.errors import InvalidFile, InvalidValue, KrisisError, RunConflict
from krisis.json_values import JsonObject
from krisis.results.base import BenchmarkResult, baseline_scores
from krisis.results.loading import metrics_asked, scored_from_rows
from krisis.results.stops import StopCause
from krisis.runs.description import RunDescription
from krisis.runs.ledger import CERTIFICATE, REMOVAL, add_decision
from krisis.runs.load import load_run, stored_parts, stored_result
from krisis.runs.places import WriterLock, copy_warning
from krisis.runs.read import STALE, RunFile, open_run
from krisis.runs.review import review_file, without_records
from krisis.runs.schema import SIDE_FILES, TABLES, Checksums, Value, insert, storable
from krisis.runs.write import connected, store_scores, sync_folder, write_new_run

# A shorter id is found by chance in texts that have nothing to do with the patient.
_FEWEST_LETTERS = 6
_WITHHELD = "(removed with a patient)"
_NOTES = "notes"  # beside a run that is written anew
_ZEROS = bytes(1 << 20)

Line = tuple[Value, ...]
# Hashes features and contexts of cases.
CaseHash = Callable[[Iterable[tuple[Mapping[str, object], str]]], str]


@dataclass(slots=True)
class Removed:
    """What was removed from a run with a patient.

    ``n_rows_without_text`` rows of others shared a prompt or reply with the patient and no longer
    have it, and ``n_notes_without_text`` review notes about others a text that named the patient;
    ``n_mentions`` lines of others still name the patient. ``n_stale`` certificates were made on the
    rows before. ``had_not_taken`` says that a list of rows went that could not be
    imported, which does not say whose they are; ``has_other_name`` that the old file is still there
    under another name.
    """

    n_records: int = 0
    n_rows: int = 0
    n_rows_without_text: int = 0
    n_mentions: int = 0
    n_notes: int = 0
    n_notes_without_text: int = 0
    n_stale: int = 0
    had_not_taken: bool = False
    has_other_name: bool = False


def remove_patient(
    path: Path,
    patient: str,
    *,
    case_hash: CaseHash,
    clear_copies: Callable[[Sequence[str]], None],
) -> Removed | None:
    """Remove a patient from a run and the notes beside it; None where the run has no such patient.

    ``case_hash`` hashes what is shown of cases as a suite does, and ``clear_copies`` is called with
    the replies about the patient before the run is replaced.
    """
    open_run(path).close()  # refuses what is no run, and closes the file of a writer that died
    try:
        lock = WriterLock(path)
    except OSError as error:
        raise _cannot_be_changed(path, error) from None
    folder = path.with_name(f".{path.name}.forget")
    try:
        with ExitStack() as at_the_end:
            at_the_end.callback(lock.release)
            _remove(folder, path.name)  # of a process that was killed: the lock says it is over
            at_the_end.callback(_remove, folder, path.name)
            if copy_warning(path):
                raise RunConflict(f"{copy_warning(path)}; then forget the patient in the copy")
            with open_run(path) as run:
                try:
                    found = _Patient.of(run, patient)
                    _refuse_damage(run)
                    if found is None:
                        return None
                    folder.mkdir(mode=0o700)
                    removed = _write(run, found, folder / path.name, case_hash)
                except (KeyError, ValueError, TypeError, RecursionError) as error:
                    if isinstance(error, KrisisError):
                        raise
                    raise _damaged(path) from None  # lines that nobody at krisis wrote
            notes = _remove_notes(path, found, folder / _NOTES)
            removed.n_notes, removed.n_notes_without_text = notes
            clear_copies(found.replies)
            removed.has_other_name = _put_in_place(folder / path.name, path)
    except (OSError, sqlite3.Error) as error:
        raise _cannot_be_changed(path, error) from None
    return removed


def _cannot_be_changed(path: Path, error: Exception) -> InvalidFile:
    return InvalidFile(
        f"{path} cannot be changed ({getattr(error, 'strerror', None) or error}), and still holds "
        "the patient; check the disk and the permissions of its folder, then try again"
    )


def _remove(folder: Path, run: str) -> None:
    """Remove the folder in which a run is written anew, unless anything else is in it."""
    if not os.path.lexists(folder):
        return
    is_folder = folder.is_dir() and not folder.is_symlink()
    held = list(folder.iterdir()) if is_folder else []
    own = (_NOTES, run, *(f"{run}{suffix}" for suffix in SIDE_FILES))
    others = [one for one in held if one.name not in own or one.is_dir()]
    if others or not is_folder:
        raise RunConflict(
            f"{(*others, folder)[0]} is not by krisis, and in the place where it writes the run "
            "anew; move it away, then try again"
        )
    for one in held:
        one.unlink()
    folder.rmdir()


def _refuse_damage(run: RunFile) -> None:
    if run.is_broken or run.left_out.total():
        raise _damaged(run.path)


def _damaged(path: Path) -> InvalidFile:
    return InvalidFile(
        f"{path} is damaged, so krisis cannot tell which lines are the patient's; type: krisis "
        f"doctor {path} --repair, forget the patient in the new file, and delete this one"
    )


@dataclass(slots=True)
class _Patient:
    """A patient of a run: which cases and rows are theirs, and which texts speak of them."""

    names: set[str]
    cases: set[int]
    n_cases: int
    n_askings: int  # of one record
    positions: list[int] = field(default_factory=list)  # sorted; askings without a row among them
    n_rows: int = 0
    rows_named: set[str] = field(default_factory=set)
    texts: set[Value] = field(default_factory=set)  # that go even where others share them
    replies: list[str] = field(default_factory=list)
    errors: set[str] = field(default_factory=set)
    tokens: list[int] = field(default_factory=lambda: [0, 0])

    @classmethod
    def of(cls, run: RunFile, patient: str) -> _Patient | None:
        """Find a patient by id; a record that names no patient is one."""
        named, cases = storable(patient), list(run.believed("cases"))
        theirs = [line for line in cases if str(line[2] or line[1]) == named]
        if not theirs:
            if any(line[1] == named for line in cases):
                raise InvalidValue(
                    f"{patient!r} is a record of {run.path} and not a patient; give the id of its "
                    "patient"
                )
            return None
        if len(theirs) == len(cases):
            raise InvalidValue(
                f"{run.path} holds no other patient; delete the file and its notes instead"
            )
        found = cls(
            names={named, *(str(line[1]) for line in theirs)},
            cases={int(line[0] or 0) for line in theirs},
            n_cases=len(cases),
            n_askings=run.description.identity.repeats,
        )
        found._read_rows(run)
        return found

    def _read_rows(self, run: RunFile) -> None:
        described, positions = run.description, set[int]()
        n_records, _ = run.sizes
        if n_records:  # askings that have no row yet are the patient's as well
            positions |= {
                repeat * n_records + case
                for repeat in range(self.n_askings)
                for case in self.cases
                if case < n_records
            }
        # The prompt and reply of a call about several patients are one text, unless krisis built
        # the prompt: then the prompt is a template without values, and each reply was cut out.
        are_apart = bool(described.identity.prompts)
        others: set[Value] = set()
        replies: list[int] = []
        for line in run.believed("rows"):
            row: JsonObject = dict(zip(TABLES["rows"], line, strict=False))
            if row["case_position"] not in self.cases:
                others.add(row["error"])
                continue
            self.n_rows += 1
            positions.add(row["position"])
            if not are_apart and row["prompt_mode"] != "single":
                self.texts |= {row["prompt"], row["reply"]}
            replies += [row["reply"]] if isinstance(row["reply"], int) else []
            self.errors |= {row["error"]} if isinstance(row["error"], str) else set()
            for place, name in enumerate(("input_tokens", "output_tokens")):
                self.tokens[place] += row[name] or 0
        self.texts.discard(None)
        self.errors -= others
        self.positions = sorted(positions)
        self.replies = [run.text(number) for number in dict.fromkeys(replies)]

    def mentioned_in(self, *texts: Value) -> bool:
        """Say whether a text names the patient."""
        names = [re.escape(name) for name in self.names if len(name) >= _FEWEST_LETTERS]
        if not names:
            return False
        pattern = rf"(?<![\w-])(?:{'|'.join(names)})(?![\w-])"
        return any(isinstance(text, str) and re.search(pattern, text) for text in texts)

    def new_position(self, position: int) -> int | None:
        """Return the place of an asking when the patient's are gone; None for one of these."""
        place = bisect_left(self.positions, position)
        if place < len(self.positions) and self.positions[place] == position:
            return None
        return position - place

    def without(self, sentence: str) -> str:
        """Return what was said of a stop, unless it quotes the patient."""
        quotes = any(error in sentence for error in self.errors) or self.mentioned_in(sentence)
        return _WITHHELD if quotes else sentence


def _write(run: RunFile, patient: _Patient, target: Path, case_hash: CaseHash) -> Removed:
    """Write a new run file with everything but the patient; a damaged run is refused."""
    described = _description(run, patient, case_hash)
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    # A file that nobody else can see needs no journal, which would be another place to clear.
    with closing(connected(target, journal="OFF")) as connection:
        write_new_run(connection, described, ())
        connection.execute("BEGIN")
        removed = _Copy(run, patient, described, connection).all_tables()
        connection.execute("COMMIT")
    _keep_result(run, patient, target, Checksums(described.run_id))
    return removed


def _description(run: RunFile, patient: _Patient, case_hash: CaseHash) -> RunDescription:
    described, n_cases = run.description, len(patient.cases)
    identity, imported = described.identity, described.imported
    if identity.n_records:
        identity = identity.model_copy(update={"n_records": identity.n_records - n_cases})
    if imported is not None:
        imported = replace(
            imported,
            n_expected=imported.n_expected - patient.n_rows,
            n_read=imported.n_read - patient.n_rows,
        )
    suite = dict(described.suite_description)
    if isinstance(n := suite.get("n_records"), int):
        suite["n_records"] = n - n_cases
    if "case_hash" in suite:
        suite["case_hash"] = _case_hash(run, patient, case_hash) or suite["case_hash"]
    return described.model_copy(
        update={
            "suite_description": suite,
            "identity": identity,
            "imported": imported,
            "n_cases": described.n_cases - len(patient.positions),
            "n_removed": described.n_removed + 1,
        }
    )


def _case_hash(run: RunFile, patient: _Patient, case_hash: CaseHash) -> str:
    """Return the hash of the cases that stay, by which a certificate draws; "" where unknown.

    It can be told where the run keeps the features of all cases of its suite: then the hash of all
    is the one that the suite gave. Else what is drawn stays as it was, fixed before any answer.
    """
    shown = {}
    for position, *_, features, context, _ in run.believed("cases"):
        if features is None:
            return ""
        number = context if isinstance(context, int) else None
        shown[position] = json.loads(str(features)), run.text(number)
    if case_hash(shown.values()) != run.description.suite_description["case_hash"]:
        return ""
    return case_hash(held for at, held in shown.items() if at not in patient.cases)


class _Copy:
    """Copies the lines of a run that stay, under their new numbers."""

    def __init__(
        self,
        run: RunFile,
        patient: _Patient,
        described: RunDescription,
        connection: sqlite3.Connection,
    ) -> None:
        self._run, self._patient, self._connection = run, patient, connection
        self._checksums = Checksums(described.run_id)
        self._removed = Removed(n_records=len(patient.cases), n_rows=patient.n_rows)
        kept = (line[0] for line in run.believed("cases") if line[0] not in patient.cases)
        self._case_at = {old: new for new, old in enumerate(kept)}
        self._texts: set[Value] = set()

    def all_tables(self) -> Removed:
        """Copy every table; those that nothing is known of here are copied as they are."""
        lines: Mapping[str, Callable[[], Iterator[Line]]] = {
            "cases": self._cases,
            "rows": self._rows,
            "usage": self._usage,
            "sessions": self._sessions,
            "provider_batches": self._provider_batches,
            "baselines": lambda: self._of_baselines("baselines"),
            "baseline_chances": lambda: self._of_baselines("baseline_chances"),
            "ledger": self._ledger,
            "not_taken": self._not_taken,
            "scores": lambda: iter(()),
        }
        self._find_texts()
        for table in TABLES:
            if table != "run":
                found = lines[table]() if table in lines else self._believed(table)
                sealed = (self._checksums.sealed(table, *line) for line in found)
                self._connection.executemany(insert(table), sealed)
        self._copy_texts()
        _refuse_damage(self._run)
        n = self._removed.n_stale
        stale = f"; {n} earlier {'certificate is' if n == 1 else 'certificates are'} stale"
        add_decision(
            self._connection,
            self._checksums,
            kind=REMOVAL,
            question={"n_patients": 1},
            answer=f"1 patient removed{stale if n else ''}",
        )
        return self._removed

    def _believed(self, table: str) -> Iterator[Line]:
        for line in self._run.believed(table):
            yield line[:-1]

    def _find_texts(self) -> None:
        """Add the texts that name the patient to those that go."""
        for number, text in self._run.select("SELECT id, text FROM texts"):
            if self._patient.mentioned_in(text):
                self._patient.texts.add(number)

    def _text(self, number: Value) -> Value:
        """Return the number of a text that stays, None for one that goes."""
        if number is None or number in self._patient.texts:
            return None
        self._texts.add(number)
        return number

    def _cases(self) -> Iterator[Line]:
        for position, *facts, context in self._believed("cases"):
            if position in self._case_at:
                self._removed.n_mentions += self._patient.mentioned_in(*facts)
                yield (self._case_at[position], *facts, self._text(context))

    def _rows(self) -> Iterator[Line]:
        for line in self._believed("rows"):
            row: JsonObject = dict(zip(TABLES["rows"], line, strict=True))
            position = self._patient.new_position(row["position"])
            if position is None:
                continue
            self._removed.n_mentions += self._patient.mentioned_in(*line)
            texts = {name: self._text(row[name]) for name in ("prompt", "reply")}
            lost = any(row[name] is not None and texts[name] is None for name in texts)
            self._removed.n_rows_without_text += lost
            place = {"position": position, "case_position": self._case_at[row["case_position"]]}
            yield tuple((row | place | texts).values())

    def _usage(self) -> Iterator[Line]:
        """Keep what was paid, and count the tokens of rows that are gone as those of lost ones."""
        last, session = 0, 0
        for number, by, seconds, position, n_rows, counts in self._believed("usage"):
            last, session = int(number or 0), int(by or 0)
            new = None if position is None else self._patient.new_position(int(position))
            yield number, by, seconds, new, n_rows, counts
        counted: dict[str, int] = {}
        for name, n in zip(("input_tokens", "output_tokens"), self._patient.tokens, strict=True):
            counted |= {name: -n, f"lost_{name}": n}
        yield last + 1, session, 0.0, None, 0, json.dumps(counted)

    def _sessions(self) -> Iterator[Line]:
        for *facts, sentence in self._believed("sessions"):
            yield (*facts, self._patient.without(str(sentence)))

    def _provider_batches(self) -> Iterator[Line]:
        for marker, number, batch, dialect, at, requests, end, again in self._believed(
            "provider_batches"
        ):
            if not end:
                raise RunConflict(
                    f"{self._run.path} has provider batches that are not collected and may hold "
                    "the patient; collect or cancel them with `krisis batches` first"
                )
            new, left = self._requests(requests), self._requests(again)
            # One without a record was paid for, but nothing of it is left to be asked again.
            left = [one for one in left if one[0]]
            yield marker, number, batch, dialect, at, json.dumps(new), end, json.dumps(left)

    def _requests(self, stored: Value) -> list[list[object]]:
        found = []
        for positions, *facts in json.loads(str(stored)):
            new = (self._patient.new_position(int(position)) for position in positions)
            found.append([[position for position in new if position is not None], *facts])
        return found

    def _of_baselines(self, table: str) -> Iterator[Line]:
        kept = (line for line in self._believed(table) if line[2] in self._case_at)
        for number, (_, name, case, *answer) in enumerate(kept, start=1):
            yield (number, name, self._case_at[case], *answer)

    def _not_taken(self) -> Iterator[Line]:
        """Keep none: a reason may quote the patient, and no line says whose it is."""
        self._removed.had_not_taken = any(True for _ in self._believed("not_taken"))
        return iter(())

    def _ledger(self) -> Iterator[Line]:
        for number, at, kind, rows, question, answer in self._believed("ledger"):
            said = str(answer)
            if kind == CERTIFICATE and not said.startswith(STALE):
                self._removed.n_stale += 1
                said = f"{STALE}{said}"
            yield number, at, kind, rows, question, said

    def _copy_texts(self) -> None:
        for number in self._texts:
            line = number, self._run.text(number)  # type: ignore[arg-type]
            self._connection.execute("INSERT INTO texts (id, text) VALUES (?, ?)", line)


def _keep_result(run: RunFile, patient: _Patient, target: Path, checksums: Checksums) -> None:
    """Score the rows that stay, of a run that had ended, and keep what it took."""
    if run.scores() is None:
        return
    old = stored_result(run)
    result = None if old is None else _rescored(old, load_run(target), patient)
    with closing(connected(target, journal="OFF")) as connection:
        connection.execute("BEGIN")
        if result is None:  # scores of other rows: that it had ended is all they say
            line = checksums.sealed("scores", "", "", "{}", "{}")
            connection.execute(insert("scores"), line)
        else:
            facts, scores = stored_parts(result)
            store_scores(connection, checksums, version=__version__, facts=facts, scores=scores)
        connection.execute("COMMIT")


def _rescored(old: BenchmarkResult, new: BenchmarkResult, patient: _Patient) -> BenchmarkResult:
    """Return the new rows with their scores, and what is true of both runs from the old one."""
    answered = new.provenance.models_answered
    new.provenance = replace(old.provenance, models_answered=answered, removed=None)
    new.spending, new.stop_rule, new.other = old.spending, old.stop_rule, old.other
    new.baselines_left_out = old.baselines_left_out
    new.stop = old.stop
    if isinstance(old.stop, StopCause):
        new.stop = type(old.stop)(patient.without(old.stop.sentence))
    new.metric_scores = old.metric_scores
    metrics = metrics_asked(new)
    kept = {name: rows for name, rows in new.baseline_rows.items() if name in old.baselines}
    new.baselines = baseline_scores(kept, metrics)
    return scored_from_rows(new)


def _remove_notes(run: Path, patient: _Patient, target: Path) -> tuple[int, int]:
    """Take the patient out of the notes beside a run.

    Returns how many notes went, and how many of others lost a text that names the patient.
    """
    path = review_file(run)
    names = patient.names | patient.rows_named
    kept, n_removed, n_without_text = without_records(run, names, patient.mentioned_in, _WITHHELD)
    if not kept:
        if n_removed:
            _overwrite(path, path.unlink)
        return n_removed, 0
    if kept == path.read_bytes():
        return 0, 0
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(kept)
    _put_in_place(target, path)
    return n_removed, n_without_text


def _put_in_place(new: Path, path: Path) -> bool:
    """Replace a file at once; say whether the old one has another name, and is still there."""
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    return _overwrite(path, lambda: os.replace(new, path))


def _overwrite(path: Path, remove: Callable[[], None]) -> bool:
    """Write zeros over a file that has lost its name; say whether it has another."""
    handle = None
    if sys.platform != "win32":  # which removes no file that is open
        with suppress(OSError):  # somebody else's: it can be replaced all the same
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        remove()
        sync_folder(path.parent)
        if handle is None:
            return False
        state = os.fstat(handle)
        if state.st_nlink:
            return True
        for start in range(0, state.st_size, len(_ZEROS)):
            os.write(handle, _ZEROS[: state.st_size - start])
        os.fsync(handle)
    finally:
        if handle is not None:
            os.close(handle)
    return False
