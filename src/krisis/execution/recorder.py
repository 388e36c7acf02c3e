"""Keep a run in a directory while it goes on, so that a later session can continue it."""

from __future__ import annotations

import platform
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from krisis import __version__
from krisis.errors import InvalidFile, InvalidValue, RunConflict
from krisis.execution.trust import note_own
from krisis.json_values import JsonMapping, JsonObject, JsonValue, plain, write_text
from krisis.metrics.base import EvaluationResult
from krisis.results.account import Imported, Provenance, TaskFacts
from krisis.results.asking import AskingFacts
from krisis.results.base import BenchmarkResult
from krisis.results.cases import Cases
from krisis.results.journal import Journal, Place, Spent
from krisis.results.journal_reading import JournalContents, damaged_lines, mend, read_journal
from krisis.results.lock import RunLock
from krisis.results.provider_batches import ProviderBatchLog
from krisis.results.stops import StopCause
from krisis.results.store import (
    NEVER,
    Identity,
    Manifest,
    RunDirectory,
    list_runs,
    metrics_text,
    read_manifest,
    started_at,
)


@dataclass(slots=True)
class Earlier:
    """What previous sessions of the run left: their rows, their spending, their time, damage."""

    rows: dict[int, EvaluationResult] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    elapsed_seconds: float = 0.0
    damage: str = ""
    provider_batches: ProviderBatchLog = field(default_factory=ProviderBatchLog)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The configuration that makes a run again, or why there is none."""

    config: JsonMapping = field(default_factory=dict)
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a recorder needs to know when a run begins."""

    identity: Identity
    task: TaskFacts
    suite_description: JsonObject
    backend_name: str
    cases: Cases
    is_synthetic: bool = False
    may_store_features: bool = True
    imported: Imported | None = None
    asking: AskingFacts | None = None
    price: Mapping[str, float] = field(default_factory=dict)


class Recorder:
    """Creates a run directory under ``out``, or continues the one given to `resume`.

    ``config`` is stored in the manifest, so that the run can be repeated from it. Features are
    stored only on request, or when every record says that it is synthetic. With ``resume_newest``
    an unfinished run in ``out`` that has the same identity is continued, the one that has come
    furthest; ``announce`` is called with sentences that say which, and what was mended.
    """

    def __init__(
        self,
        out: str | Path = "runs",
        *,
        config: JsonMapping | None = None,
        store_features: bool | None = None,
        resume_newest: bool = False,
        announce: Callable[[str], object] | None = None,
    ) -> None:
        self.out = Path(out)
        self._config = dict(config or {})
        self._config_missing = ""
        self.store_features = store_features
        self._resume_newest = resume_newest
        self.announce = announce or (lambda text: None)
        self._resumed: RunDirectory | None = None
        self._retry_failed = False
        self._has_old_scores = False
        self._journal: Journal | None = None
        self._lock: RunLock | None = None
        self._manifest: Manifest | None = None
        self.directory: RunDirectory | None = None

    @classmethod
    def resume(
        cls,
        run: str | Path,
        *,
        retry_failed: bool = False,
        announce: Callable[[str], object] | None = None,
    ) -> Recorder:
        """Return a recorder that continues a run, or asks again what was not evaluated."""
        recorder = cls(announce=announce)
        recorder._resumed = RunDirectory(Path(run))
        recorder._retry_failed = retry_failed
        return recorder

    def needs_config(self) -> bool:
        """Say whether a new run would be recorded without its configuration."""
        return not self._config and self._resumed is None

    def describe(self, settings: RunSettings) -> None:
        """Take the configuration that makes a run again, or why there is none."""
        self._config, self._config_missing = dict(settings.config), settings.missing

    def begin(self, opening: Opening) -> Earlier:
        """Open the directory, refuse another run's, and return what is already there."""
        if self._resume_newest:
            self._resumed, words = furthest_unfinished(self.out, opening)
            self.announce(words)
        try:
            if self._resumed is not None:
                return self._continue(self._resumed, opening)
            return self._create(opening)
        except OSError as error:
            place = error.filename or self.out
            raise InvalidFile(
                f"{place} cannot be written ({error.strerror}); choose another folder for runs"
            ) from None

    def signed(self, provenance: Provenance) -> Provenance:
        """Return a provenance with what the run directory knows: its name, code and settings."""
        if self._manifest is None or self.directory is None:
            return provenance
        return replace(
            provenance,
            run_id=self._manifest.run_id,
            run_directory=str(self.directory.path),
            git_commit=self._manifest.git_commit,
            versions=self._manifest.versions,
            config=self._manifest.config,
            imported=self._manifest.imported,
        )

    def append(
        self, cases: Sequence[Place], rows: Sequence[EvaluationResult], spent: Spent
    ) -> None:
        """Keep finished rows; scores of an earlier session no longer fit them."""
        if self._journal is not None:
            self._journal.append(cases, rows, spent)
            if self._has_old_scores and self.directory is not None:
                self._has_old_scores = False
                self.directory.metrics.unlink(missing_ok=True)

    def note_sent(self, n_input: float, n_output: float) -> None:
        """Keep the most that a call can take, before it is sent."""
        if self._journal is not None:
            self._journal.note_sent(n_input, n_output)

    def note_spent(self, spent: Spent) -> None:
        """Keep what calls took that led to no row."""
        if self._journal is not None:
            self._journal.note_spent(spent)

    def note_provider_batch(self, line: JsonObject) -> None:
        """Keep what became of a provider batch; on disk before anything follows from it."""
        if self._journal is not None:
            self._journal.note_provider_batch(line)

    def note_stop(self, cause: StopCause) -> None:
        """Keep the cause of an early end."""
        if self._journal is not None:
            self._journal.note_stop(cause)

    def finish(self, result: BenchmarkResult) -> None:
        """Write the scores beside rows that the disk has confirmed."""
        if self.directory is not None and self._journal is not None:
            self._journal.confirm()
            scores = metrics_text(result, self.directory.rows.stat().st_size)
            write_text(self.directory.metrics, scores, overwrite=True)

    def close(self) -> None:
        """Release the journal and the lock."""
        try:
            if self._journal is not None:
                self._journal.close()
        finally:
            self._journal = None
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def _create(self, opening: Opening) -> Earlier:
        stores_features = self._stores_features(opening)
        created_at = datetime.now(UTC)
        run_id = secrets.token_hex(3)
        path = self.out / run_name(opening, created_at, run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
        self.directory = RunDirectory(path)
        self._lock = RunLock(path)
        manifest = Manifest(
            run_id=run_id,
            created_at=created_at.isoformat(timespec="milliseconds"),
            backend_name=opening.backend_name,
            n_cases=len(opening.cases.digests),
            cases_hash=opening.cases.content_hash,
            identity=opening.identity,
            task=opening.task,
            suite_description=plain(opening.suite_description),
            config=plain(self._config),
            config_missing=self._config_missing,
            versions=versions(),
            git_commit=git_commit(),
            stores_features=stores_features,
            imported=opening.imported,
            asking=opening.asking,
        )
        note_own(run_id, manifest.config)
        write_text(self.directory.cases, opening.cases.text)
        write_text(self.directory.manifest, manifest.model_dump_json(indent=2) + "\n")
        self._manifest = manifest
        self._journal = Journal(
            self.directory.rows, stores_features=stores_features, price=opening.price
        )
        return Earlier()

    def _continue(self, directory: RunDirectory, opening: Opening) -> Earlier:
        manifest = read_manifest(directory.path)
        refuse_other_run(str(directory.path), manifest.identity, opening.identity)
        self._lock = RunLock(directory.path)
        directory.remove_half_written()
        self.directory, self._manifest = directory, manifest
        self._has_old_scores = directory.metrics.exists()
        journal = self._mended(directory, manifest, opening.cases)
        totals = (journal.spent, journal.elapsed_seconds, journal.loss)
        earlier = Earlier(journal.rows, *totals, journal.provider_batches)
        if self._retry_failed:
            earlier.rows = {
                at: row for at, row in earlier.rows.items() if row.outcome != "not_evaluated"
            }
        self._journal = Journal(
            directory.rows, stores_features=manifest.stores_features, price=opening.price
        )
        return earlier

    def _mended(self, directory: RunDirectory, manifest: Manifest, cases: Cases) -> JournalContents:
        """Read what earlier sessions left, checked against the suite; set damage aside."""
        if Cases.read(directory.cases, manifest.cases_hash) is None:
            # The identity covers the data: it is the stored file that is wrong, not the suite.
            manifest.cases_hash = cases.content_hash
            write_text(directory.cases, cases.text, overwrite=True)
            write_text(
                directory.manifest, manifest.model_dump_json(indent=2) + "\n", overwrite=True
            )
        journal = read_journal(directory.rows, cases)
        if not journal.damage:
            return journal
        mend(directory.rows, journal.damage, directory.damaged)
        self.announce(
            f"{damaged_lines(len(journal.damage))} of {directory.rows} set aside in "
            f"{directory.damaged.name}; records without a row are asked again"
        )
        return read_journal(directory.rows, cases)

    def _stores_features(self, opening: Opening) -> bool:
        wanted = self.store_features
        if wanted and not opening.may_store_features:
            raise InvalidValue(
                "store_features is on, but the data of this suite are restricted and may not be "
                "copied; omit it"
            )
        return opening.may_store_features and (opening.is_synthetic if wanted is None else wanted)


def furthest_unfinished(out: Path, opening: Opening) -> tuple[RunDirectory | None, str]:
    """Return the unfinished run of the very same identity with the most rows, and say which it is.

    Rows are what was paid for, and no clock has a say in them. Of equal ones the later start
    counts; one that lies in the future, by a clock that was ahead, counts as none.
    """
    now, found = datetime.now(UTC), []
    for path in list_runs(out):
        try:
            manifest = read_manifest(path)
        except InvalidFile:
            continue
        if manifest.identity == opening.identity:
            n_rows = len(read_journal(RunDirectory(path).rows, opening.cases).rows)
            started = started_at(manifest)
            if n_rows < manifest.n_cases:
                found.append((n_rows, started if started <= now else NEVER, path))
    if not found:
        return None, f"No unfinished run with these settings in {out}; starting a new one"
    n_rows, _, path = max(found)
    others = f", of {len(found)} unfinished runs the furthest" if len(found) > 1 else ""
    n_cases = len(opening.cases.digests)
    return RunDirectory(path), f"Continuing {path} ({n_rows} of {n_cases} records done{others})"


def run_name(opening: Opening, created_at: datetime, run_id: str) -> str:
    """Name a run directory after its time, suite, task and model, in letters any disk takes."""
    suite = str(opening.suite_description.get("suite") or opening.identity.suite or "suite")
    words = (suite, opening.task.name, str(opening.suite_description.get("mode") or ""))
    question = "-".join(dict.fromkeys(word for word in words if word))
    model = opening.backend_name or "model"
    parts = (created_at.strftime("%Y%m%dT%H%M%SZ"), question, model, run_id)
    return "_".join(re.sub(r"[^A-Za-z0-9.+-]+", "-", part).strip("-")[:60] for part in parts)


def refuse_other_run(place: str, stored: Identity, present: Identity) -> None:
    """Raise when a run is to be continued under another identity, naming every difference."""
    differences = _differences(stored.model_dump(), present.model_dump())
    if differences:
        raise RunConflict(
            f"{place} is another run: {'; '.join(differences)}. Start a new run, or go back to "
            "what it was made with"
        )


def _differences(stored: JsonValue, present: JsonValue, path: str = "") -> list[str]:
    if isinstance(stored, Mapping) and isinstance(present, Mapping):
        return [
            difference
            for key in sorted(stored.keys() | present.keys())
            for difference in _differences(
                stored.get(key), present.get(key), f"{path}.{key}" if path else str(key)
            )
        ]
    return [] if stored == present else [f"{path} was {stored!r} and is {present!r}"]


def versions() -> dict[str, str]:
    """Return the versions of everything that has a say in the numbers."""
    found = {"krisis": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "pydantic", "openai", "anthropic", "google-genai"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """Return the commit that is checked out where the run was started, if there is one."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run(  # noqa: S603 - fixed words, no input
        [git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False, timeout=10
    )
    return done.stdout.strip() or None if done.returncode == 0 else None
