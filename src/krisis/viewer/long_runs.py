"""Long runs: indexed in a process of its own, whose outcome the server only looks at.

The process writes a folder beside the index: the columns, the texts that can be searched, the
result without its rows, and the report. ``python -m krisis.viewer.long_runs RUN FOLDER`` is that
process; it says on its output how far it has come, and ends when its input is closed.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from krisis.errors import KrisisError
from krisis.json_values import read_object
from krisis.metrics.base import EvaluationResult, Rows
from krisis.reporting.breakdown import group_headings
from krisis.reporting.report import RunReport, build_report
from krisis.results.base import BenchmarkResult
from krisis.results.cases import Cases
from krisis.results.journal_lines import Piece, sealed
from krisis.results.journal_reading import read_journal
from krisis.results.loading import reproduce_command, scored_as_it_is
from krisis.results.repeats import mark_agreement
from krisis.results.rows import row_to_dict
from krisis.results.store import RunDirectory, StoredRun, read_manifest, read_run, result_of
from krisis.viewer.row_index import RowIndex
from krisis.viewer.stored_columns import ColumnJournal, found_texts
from krisis.viewer.stored_rows import Columns, StoredRows
from krisis.viewer.words import WordWriter

Kept = TypeVar("Kept", BenchmarkResult, RunReport)
Tell = Callable[[str, int, int], None]


def report_of(result: BenchmarkResult, path: Path) -> RunReport:
    """Return the report that the page of a run shows."""
    return build_report(result, reproduce=reproduce_command(path))


class _Journal(ColumnJournal):
    """Writes the columns of a journal into a folder, saying how far it has come."""

    def __init__(self, path: Path, folder: Path, tell: Callable[[int], None]) -> None:
        self._texts_file = (folder / "texts").open("wb")
        self._pairs_file = (folder / "pairs").open("wb")
        super().__init__(self._texts_file, WordWriter(self._pairs_file))
        self._path, self._folder, self._tell = path, folder, tell
        self._stored: Columns | None = None

    def take(self, piece: Piece, cases: Cases | None) -> None:
        """Take one line."""
        super().take(piece, cases)
        if self.n_lines % 2000 == 0:
            self._tell(self.n_lines)

    @property
    def stored(self) -> Columns:
        """Return the columns, written when they are first needed."""
        if self._stored is None:
            self._texts_file.close()
            self.write(self._folder)
            self._pairs_file.close()
            Path(self._pairs_file.name).unlink()
            self._stored = Columns(self._folder, self._path)
            self._stored.hold()
            self._stored.keep_order()
        return self._stored

    def in_order(self, start: int = 0, below: float = math.inf) -> Sequence[EvaluationResult]:
        """Return the rows of these positions in the order of the records."""
        position = self.stored.array("position")
        inside = np.flatnonzero((position >= start) & (position < below))
        return StoredRows(self.stored, inside, None)


def build(path: Path, folder: Path, tell: Tell) -> None:
    """Index a run directory or a saved result into an empty folder."""
    if path.is_dir():
        n_cases = read_manifest(path).n_cases
        journal = _Journal(RunDirectory(path).rows, folder, lambda n: tell("indexed", n, n_cases))
        stored = read_run(path, journal)
        if stored.manifest.identity.repeats > 1:
            _keep_agreement(stored, journal.stored, folder)
        result = scored_as_it_is(result_of(stored))
    else:
        result = _from_file(path, folder, tell)
    n_rows = len(result.rows)
    tell("read; preparing the filters", n_rows, n_rows)
    _keep_filters(RowIndex(result.rows, group_headings(result.rows.answers)), folder)
    tell("read; working out the report", n_rows, n_rows)
    report = report_of(result, path)
    bare = copy(result)
    bare.evaluation_results = Rows((), result.rows.answers)
    bare.perturbed = Rows((), result.rows.answers)
    (folder / "result").write_bytes(pickle.dumps(bare))
    (folder / "report").write_bytes(pickle.dumps(report))


def _from_file(path: Path, folder: Path, tell: Tell) -> BenchmarkResult:
    """Index a saved result by way of a journal of its rows, which is kept in the folder."""
    result = BenchmarkResult.load(path)
    n_rows, written = len(result.rows), folder / "rows.jsonl"
    prompts = {text: str(n) for n, text in enumerate(dict.fromkeys(r.prompt for r in result.rows))}
    with written.open("wb") as file:
        for text, name in prompts.items():
            file.write(sealed({"kind": "prompt", "id": name, "text": text}))
        for position, row in enumerate(result.rows):
            content = {**row_to_dict(row), "prompt": prompts[row.prompt]}
            file.write(sealed({"kind": "row", "position": position, "row": content}))
    journal = _Journal(written, folder, lambda n: tell("indexed", n, n_rows))
    read_journal(written, None, journal)
    result.evaluation_results = StoredRows(
        journal.stored, np.arange(n_rows), result.evaluation_results.answers
    )
    return result


def _keep_agreement(stored: StoredRun, columns: Columns, folder: Path) -> None:
    """Keep the agreement of repeated answers, which is worked out from all rows together."""
    rows = list(stored.journal.in_order(below=stored.manifest.n_plain))
    mark_agreement(rows)
    shares = np.full(columns.n_rows, np.nan)
    shares[: len(rows)] = [row.signals.get("sample_agreement", math.nan) for row in rows]
    np.save(folder / "agreement.npy", shares)
    columns.add_numbers("signals:sample_agreement", "agreement")


def _keep_filters(index: RowIndex, folder: Path) -> None:
    for number, values in enumerate(index.arrays.values()):
        np.save(folder / f"filter{number}.npy", values)
    content = {"arrays": list(index.arrays), "names": index.names}
    (folder / "filters.json").write_text(json.dumps(content), encoding="utf-8", newline="")


class LongRun:
    """What the process left of one run, read as far as a page needs it."""

    def __init__(self, folder: Path, path: Path) -> None:
        rows = RunDirectory(path).rows if path.is_dir() else folder / "rows.jsonl"
        self.columns = Columns(folder, rows)
        self.result: BenchmarkResult = self._unpickled("result", BenchmarkResult)
        n_plain = read_manifest(path).n_plain if path.is_dir() else self.columns.n_rows
        position, answers = self.columns.array("position"), self.result.rows.answers
        plain = position < n_plain
        self.result.evaluation_results = self.rows = StoredRows(
            self.columns, np.flatnonzero(plain), answers
        )
        self.result.perturbed = StoredRows(self.columns, np.flatnonzero(~plain), answers)

    def _unpickled(self, name: str, kind: type[Kept]) -> Kept:
        # Written by a process of this viewer into a folder that only this user can write to.
        found = pickle.loads((self.columns.folder / name).read_bytes())  # noqa: S301
        if not isinstance(found, kind):
            raise TypeError(f"{name} of the index is no {kind.__name__}")
        return found

    def report(self) -> RunReport:
        """Return the report."""
        return self._unpickled("report", RunReport)

    def filters(self) -> RowIndex:
        """Return the columns that rows are filtered by."""
        content = read_object(self.columns.folder / "filters.json")
        arrays = {
            name: self.columns.array(f"filter{number}")
            for number, name in enumerate(content["arrays"])
        }
        return RowIndex.kept(
            arrays, content["names"], partial(_search, self.columns, len(self.rows))
        )


def _search(columns: Columns, n_rows: int, needle: str) -> NDArray[np.bool_]:
    """Return the rows that contain a text."""
    kept = np.zeros(n_rows, dtype=np.bool_)
    lines = found_texts(columns.folder, columns.array("text_end"), needle)
    rows = columns.array("row_of_line")[lines]
    kept[rows[(rows >= 0) & (rows < n_rows)]] = True
    return kept


def main(arguments: Sequence[str]) -> int:
    """Index one run as the process that does nothing else; the server reads what it says."""
    path, target = map(Path, arguments)
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is interrupted too: the input closes
    if sys.platform != "win32":
        os.nice(10)
    folder = target.with_name(f".{target.name}.{os.getpid()}")
    threading.Thread(target=_end_with_the_server, args=(folder,), daemon=True).start()
    said = 0.0

    def tell(stage: str, n_done: int, n_total: int) -> None:
        nonlocal said
        if time.monotonic() - said > 0.25 or n_done == n_total:
            said = time.monotonic()
            _say({"stage": stage, "n_done": n_done, "n_total": n_total})

    try:
        folder.mkdir(mode=0o700, parents=True)
        build(path, folder, tell)
        os.replace(folder, target)
    except (KrisisError, OSError) as error:
        _say({"error": str(error)})
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _say(content: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def _end_with_the_server(folder: Path) -> None:
    sys.stdin.read()
    while folder.exists():  # the other thread may still write into it
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
