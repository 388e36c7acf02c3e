"""Keep a run in a file while it goes on, so that a later session can continue it."""

from __future__ import annotations

import asyncio
import platform
import re
import secrets
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from krisis import __version__
from krisis.errors import InvalidFile, InvalidValue, RunConflict
from krisis.json_values import JsonMapping, JsonObject, JsonValue, plain
from krisis.metrics.base import EvaluationResult
from krisis.results.account import AskingFacts, Imported, Provenance
from krisis.results.base import BenchmarkResult
from krisis.results.call_totals import CallTotals
from krisis.results.stops import StopCause
from krisis.results.suite_facts import SuiteFacts
from krisis.runs.description import NEVER, Identity, RunDescription
from krisis.runs.ledger import STOPPING_RULE, add_decision
from krisis.runs.load import list_runs, stored_parts
from krisis.runs.provider_batches import ProviderBatch, ProviderBatchLog
from krisis.runs.read import RunContents, open_run
from krisis.runs.schema import SUFFIX, Checksums
from krisis.runs.write import RowPlace, RunWriter, StoredCase, Work
from krisis.task_facts import TaskFacts


@dataclass(slots=True)
class PriorSessions:
    """What previous sessions of the run left: their rows, what they took, their time, damage."""

    rows: dict[int, EvaluationResult] = field(default_factory=dict)
    totals: CallTotals = field(default_factory=CallTotals)
    elapsed_seconds: float = 0.0
    damage: str = ""
    provider_batches: ProviderBatchLog = field(default_factory=ProviderBatchLog)


@dataclass(frozen=True, slots=True)
class Opening:
    """What a recorder needs to know when a run begins."""

    identity: Identity
    task: TaskFacts
    suite_description: JsonObject
    backend_name: str
    cases: Sequence[StoredCase]
    n_cases: int
    is_synthetic: bool = False
    may_store_features: bool = True
    imported: Imported | None = None
    asking: AskingFacts | None = None
    price: Mapping[str, float] = field(default_factory=dict)
    # Kept of a run that was made from Python objects, which has no configuration.
    objects: JsonObject = field(default_factory=dict)


class Recorder:
    """Creates a run file in the folder ``out``, or continues the one given to `resume`.

    ``config`` is stored in it, so that the run can be repeated. Features are stored only on
    request, or when every record says that it is synthetic. With ``resume_newest`` an unfinished
    run in ``out`` that has the same identity is continued, the one that has come furthest;
    ``announce`` is called with sentences that say which, and what was damaged.
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
        self.store_features = store_features
        self._resume_newest = resume_newest
        self.announce = announce or (lambda text: None)
        self._resumed: Path | None = None
        self._retry_failed = False
        self._writer: RunWriter | None = None
        self._description: RunDescription | None = None
        self.path: Path | None = None

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
        recorder._resumed = Path(run)
        recorder._retry_failed = retry_failed
        return recorder

    def begin(self, opening: Opening) -> PriorSessions:
        """Open the file, refuse another run's, and return what is already there."""
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
        except sqlite3.Error as error:
            place = self.path or self.out
            raise InvalidFile(
                f"{place} cannot be written ({error}); choose another folder for runs"
            ) from None

    def signed(self, provenance: Provenance) -> Provenance:
        """Return a provenance with what the run file knows: its name, code and settings."""
        if self._description is None or self.path is None:
            return provenance
        return replace(
            provenance,
            run_id=self._description.run_id,
            run_file=str(self.path),
            git_commit=self._description.git_commit,
            versions=self._description.versions,
            config=self._description.config,
            imported=self._description.imported,
        )

    def append(
        self, places: Sequence[RowPlace], rows: Sequence[EvaluationResult], totals: CallTotals
    ) -> None:
        """Keep finished rows; scores of an earlier session no longer fit them."""
        if self._writer is not None:
            self._writer.append(places, rows, totals)

    def flush(self) -> None:
        """Wait until everything is on disk."""
        if self._writer is not None:
            self._writer.flush()

    async def note_call(self, n_input: float, n_output: float) -> None:
        """Have the most that a call can take on disk, before it is sent."""
        if self._writer is not None:
            await asyncio.wrap_future(self._writer.note_call(n_input, n_output))

    def note_totals(self, totals: CallTotals) -> None:
        """Keep what calls took that led to no row."""
        if self._writer is not None:
            self._writer.note_totals(totals)

    def note_provider_batch(self, batch: ProviderBatch, totals: CallTotals | None = None) -> None:
        """Keep the state of a provider batch; on disk before anything follows from it."""
        if self._writer is not None:
            self._writer.note_provider_batch(batch, totals)

    def note_not_taken(self, places_and_reasons: Sequence[tuple[str, str]]) -> None:
        """Keep the rows of an imported file that could not be taken."""
        if self._writer is not None and places_and_reasons:
            self._writer.note_not_taken(places_and_reasons)

    def note_stop(self, cause: StopCause) -> None:
        """Keep the cause of an early end."""
        if self._writer is not None:
            self._writer.note_stop(cause)

    def finish(self, result: BenchmarkResult) -> None:
        """Keep the scores beside the rows that they were computed from."""
        if self._writer is not None:
            self._writer.keep_baselines(result.baseline_rows)
            facts, scores = stored_parts(result)
            note = self._stopping_rule(result)
            self._writer.finish(facts=facts, scores=scores, version=__version__, note=note)

    def _stopping_rule(self, result: BenchmarkResult) -> Work | None:
        """Return what notes in the ledger that a rule was to end the run, and what came of it."""
        rule = result.stop_rule
        if rule is None or self._description is None:
            return None
        checksums = Checksums(self._description.run_id)

        def note(connection: sqlite3.Connection) -> None:
            question = {"rule": rule.rule}
            add_decision(
                connection, checksums, kind=STOPPING_RULE, question=question, answer=rule.found
            )

        return note

    def close(self) -> None:
        """Close the run to a single file and release it."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def _create(self, opening: Opening) -> PriorSessions:
        stores_features = self._stores_features(opening)
        created_at = datetime.now(UTC)
        run_id = secrets.token_hex(8)
        self.path = self.out / f"{run_name(opening, created_at, run_id[:6])}{SUFFIX}"
        self._description = RunDescription(
            run_id=run_id,
            created_at=created_at.isoformat(timespec="milliseconds"),
            backend_name=opening.backend_name,
            n_cases=opening.n_cases,
            identity=opening.identity,
            task=opening.task,
            suite_description=plain(opening.suite_description),
            config=plain(self._config) or opening.objects,
            versions=versions(),
            git_commit=git_commit(),
            stores_features=stores_features,
            imported=opening.imported,
            asking=opening.asking,
        )
        self._writer = RunWriter.create(self.path, self._description, opening.cases)
        self._writer.begin_session(opening.price)
        return PriorSessions()

    def _continue(self, path: Path, opening: Opening) -> PriorSessions:
        with open_run(path) as run:
            if run.description.n_removed:
                raise RunConflict(
                    f"{path} cannot be continued: a patient was removed from it, whom the suite "
                    "would bring back; start a new run without the patient's data"
                )
            refuse_other_run(str(path), run.description.identity, opening.identity)
            if run.is_broken:
                raise InvalidFile(
                    f"{path} is damaged and cannot be continued; to save what can be read into a "
                    f"new file, type: krisis doctor {path} --repair"
                )
            self.path, self._description = path, run.description
        self._writer = RunWriter.resume(path, self._description, opening.cases)
        try:
            contents, left_out = _contents_of(path)
            if contents.n_cases < len(opening.cases):
                self._writer.rewrite_cases()  # the identity covers the data: they are the same
                contents, left_out = _contents_of(path)
            if left_out["provider_batches"]:
                raise InvalidFile(
                    f"{path}: what it says of its provider batches is damaged, so that going "
                    "on could buy their answers again; look at them on the provider's page, "
                    "and start a new run for the records that have no row"
                )
            damage = self._without_damage(contents, left_out)
            self._writer.begin_session(opening.price)
        except BaseException:
            self.close()
            raise
        earlier = PriorSessions(
            contents.rows,
            contents.totals,
            contents.elapsed_seconds,
            damage,
            contents.provider_batches,
        )
        if self._retry_failed:
            earlier.rows = {
                at: row for at, row in earlier.rows.items() if row.outcome != "not_evaluated"
            }
        return earlier

    def _without_damage(self, contents: RunContents, left_out: Counter[str]) -> str:
        """Take damaged rows out, to be asked again; say what the totals lack."""
        assert self._writer is not None
        n_rows = len(contents.damaged)
        if n_rows:
            self._writer.drop_rows(contents.damaged)
            rows = "1 damaged row" if n_rows == 1 else f"{n_rows} damaged rows"
            self.announce(f"{rows} of {self.path} taken out; the records are asked again")
        n_lines = sum(left_out[table] for table in ("usage", "calls", "sessions"))
        lines = "1 damaged line" if n_lines == 1 else f"{n_lines} damaged lines"
        return f"{lines}: calls, tokens and cost lack what was in them" if n_lines else ""

    def _stores_features(self, opening: Opening) -> bool:
        wanted = self.store_features
        if wanted and not opening.may_store_features:
            raise InvalidValue(
                "store_features is on, but the data of this suite are restricted and may not be "
                "copied; omit it"
            )
        return opening.may_store_features and (opening.is_synthetic if wanted is None else wanted)


def _contents_of(path: Path) -> tuple[RunContents, Counter[str]]:
    """Return what a run holds, and how many lines of each table cannot be believed."""
    with open_run(path, checked=True) as run:
        return run.contents(), run.left_out


def furthest_unfinished(out: Path, opening: Opening) -> tuple[Path | None, str]:
    """Return the unfinished run of the very same identity with the most rows, and say which it is.

    Rows are what was paid for, and no clock has a say in them. Of equal ones the later start
    counts; one that lies in the future, by a clock that was ahead, counts as none.
    """
    now, found = datetime.now(UTC), []
    for path in list_runs(out):
        try:
            with open_run(path, checked=True) as run:
                if run.description.identity == opening.identity:
                    n_rows, started = run.n_rows, run.description.started_at
                    if n_rows < opening.n_cases:
                        found.append((n_rows, started if started <= now else NEVER, path))
        except InvalidFile:
            continue
    if not found:
        return None, f"No unfinished run with these settings in {out}; starting a new one"
    n_rows, _, path = max(found)
    others = f", of {len(found)} unfinished runs the furthest" if len(found) > 1 else ""
    done = f"{n_rows} of {opening.n_cases} records done{others}"
    return path, f"Continuing {path} ({done})"


def run_name(opening: Opening, created_at: datetime, run_id: str) -> str:
    """Name a run after its time, suite, task and model, in letters any disk takes."""
    described = SuiteFacts.of(opening.suite_description)
    suite = described.suite or opening.identity.suite or "suite"
    words = (suite, opening.task.name, described.mode)
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
