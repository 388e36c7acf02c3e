"""Keep a run in a directory while it goes on, so that a later session can take it up."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from krisis.errors import InvalidFile, InvalidValue
from krisis.execution.batches import Case
from krisis.execution.identity import git_commit, refuse_other_run, versions
from krisis.execution.journal import Journal
from krisis.execution.locking import RunLock
from krisis.execution.telemetry import Spent
from krisis.json_values import plain, write_text
from krisis.metrics.base import EvaluationResult
from krisis.results.report import format_report
from krisis.results.result import BenchmarkResult
from krisis.results.store import Manifest, RunDirectory, read_journal, read_manifest


@dataclass(slots=True)
class Earlier:
    """What previous sessions of the run left: their rows, their spending, their time."""

    rows: dict[int, EvaluationResult] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    elapsed_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a recorder is told when a run begins."""

    identity: dict[str, Any]
    suite_description: dict[str, Any]
    backend_name: str
    n_cases: int
    is_synthetic: bool = False
    may_store_features: bool = True


class Recorder:
    """Creates a run directory under ``out``, or takes up the one given to `resume`.

    ``config`` is stored in the manifest, so that the run can be repeated from it. Features are
    stored only when asked for, or when every record says that it is synthetic.
    """

    def __init__(
        self,
        out: str | Path = "runs",
        *,
        config: Mapping[str, Any] | None = None,
        store_features: bool | None = None,
    ) -> None:
        self._out = Path(out)
        self._config = dict(config or {})
        self._store_features = store_features
        self._resumed: RunDirectory | None = None
        self._retry_failed = False
        self._has_old_scores = False
        self._journal: Journal | None = None
        self._lock: RunLock | None = None
        self.directory: RunDirectory | None = None

    @classmethod
    def resume(cls, run: str | Path, *, retry_failed: bool = False) -> Recorder:
        """Return a recorder that continues a run, or asks its failed records again."""
        recorder = cls()
        recorder._resumed = RunDirectory(Path(run))
        recorder._retry_failed = retry_failed
        return recorder

    def begin(self, facts: RunFacts) -> Earlier:
        """Open the directory, refuse another run's, and return what is already there."""
        try:
            if self._resumed is not None:
                return self._continue(self._resumed, facts)
            return self._create(facts)
        except OSError as error:
            place = error.filename or self._out
            raise InvalidFile(
                f"{place} cannot be written ({error.strerror}); choose another folder for runs"
            ) from None

    def append(self, cases: Sequence[Case], rows: Sequence[EvaluationResult], spent: Spent) -> None:
        """Keep finished rows; scores of an earlier session no longer fit them."""
        if self._journal is not None:
            self._journal.append(cases, rows, spent)
            if self._has_old_scores and self.directory is not None:
                self._has_old_scores = False
                self.directory.metrics.unlink(missing_ok=True)
                self.directory.report.unlink(missing_ok=True)

    def note_spent(self, spent: Spent) -> None:
        """Keep what calls cost that led to no row."""
        if self._journal is not None:
            self._journal.note_stop("left for a later session", spent)

    def note_stop(self, reason: str) -> None:
        """Keep the reason of an early end."""
        if self._journal is not None:
            self._journal.note_stop(reason)

    def finish(self, result: BenchmarkResult) -> None:
        """Write scores and report beside rows that the disk has confirmed."""
        if self.directory is not None and self._journal is not None:
            self._journal.confirm()
            write_text(self.directory.metrics, result.metrics_to_json() + "\n", overwrite=True)
            write_text(self.directory.report, format_report(result) + "\n", overwrite=True)

    def close(self) -> None:
        """Let go of the journal and the lock."""
        try:
            if self._journal is not None:
                self._journal.close()
        finally:
            self._journal = None
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def _create(self, facts: RunFacts) -> Earlier:
        stores_features = self._stores_features(facts)
        created_at = datetime.now(UTC)
        run_id = secrets.token_hex(3)
        path = self._out / run_name(facts, created_at, run_id)
        path.mkdir(parents=True)
        self.directory = RunDirectory(path)
        self._lock = RunLock(self.directory.lock)
        manifest = Manifest(
            run_id=run_id,
            created_at=created_at.isoformat(timespec="seconds"),
            backend_name=facts.backend_name,
            n_cases=facts.n_cases,
            identity=plain(facts.identity),
            suite_description=plain(facts.suite_description),
            config=plain(self._config),
            versions=versions(),
            git_commit=git_commit(),
            stores_features=stores_features,
        )
        text = manifest.model_dump_json(indent=2)
        write_text(self.directory.manifest, text + "\n")
        self._journal = Journal(self.directory.rows, stores_features=stores_features)
        return Earlier()

    def _continue(self, directory: RunDirectory, facts: RunFacts) -> Earlier:
        manifest = read_manifest(directory.path)
        refuse_other_run(str(directory.path), manifest.identity, plain(facts.identity))
        self._lock = RunLock(directory.lock)
        self.directory = directory
        self._has_old_scores = directory.metrics.exists()
        earlier = Earlier()
        if directory.rows.exists():
            contents = read_journal(directory.rows)
            earlier.rows = contents.rows
            earlier.elapsed_seconds = sum(contents.session_seconds)
            for calls in contents.calls:
                earlier.spent.add(Spent.from_dict(calls))
        if self._retry_failed:
            earlier.rows = {at: row for at, row in earlier.rows.items() if row.error is None}
        self._journal = Journal(directory.rows, stores_features=manifest.stores_features)
        return earlier

    def _stores_features(self, facts: RunFacts) -> bool:
        wanted = self._store_features
        if wanted and not facts.may_store_features:
            raise InvalidValue(
                "store_features was asked for, but the data of this suite are restricted and may "
                "not be copied; leave it out"
            )
        return facts.may_store_features and (facts.is_synthetic if wanted is None else wanted)


def run_name(facts: RunFacts, created_at: datetime, run_id: str) -> str:
    """Name a run directory after its time, suite and model, in letters that every disk takes."""
    suite = str(facts.suite_description.get("suite") or facts.identity.get("suite") or "suite")
    mode = str(facts.suite_description.get("mode") or "")
    suite = f"{suite}-{mode}" if mode else suite
    parts = (created_at.strftime("%Y%m%dT%H%M%SZ"), suite, facts.backend_name or "model", run_id)
    return "_".join(re.sub(r"[^A-Za-z0-9.+-]+", "-", part).strip("-")[:60] for part in parts)
