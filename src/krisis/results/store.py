"""Run directories: which files they hold, and how to read them back.

::

    runs/20260102T030405Z_ckd_openai-gpt-5_3fa94c/
        manifest.json       what was run: configuration, identity, versions, hashes
        cases.txt           which record belongs at each position, as hashes
        rows.jsonl          journal: one line per finished record, in order of completion
        rows.damaged.jsonl  lines of the journal that were damaged, set aside
        not_taken.jsonl     rows of an imported file that could not be taken, with the reason
        metrics.json        scores with backend, suite and execution, written when the run ends
        lock, writer        held by the one process that writes, and its number
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from krisis.errors import InvalidFile
from krisis.json_values import JsonObject, dumps, read_object
from krisis.results.account import Imported, Prompts, Provenance, RunFacts, Spending, TaskFacts
from krisis.results.artefacts import refused
from krisis.results.asking import AskingFacts
from krisis.results.attrition import Attrition
from krisis.results.base import BenchmarkResult
from krisis.results.cases import Cases
from krisis.results.journal_reading import JournalContents, damaged_lines, read_journal
from krisis.results.repeats import mark_agreement
from krisis.results.rows import rows_fingerprint
from krisis.results.stops import Unfinished

RUN_SCHEMA_VERSION = 3
# Copies of a run may get their times in any order.
_SECONDS_OF_COPYING = 60.0
_NOT_ENDED = "the run has not ended: resume it, or wait for its process"
NEVER = datetime.min.replace(tzinfo=UTC)


class Identity(BaseModel):
    """Everything that can change an answer; two runs are the same when all of it is equal."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    suite: str = ""
    task: str = ""
    features: str = ""
    mode: str = ""
    seed: int | None = None
    data: str = ""
    n_records: int = 0
    repeats: int = 1
    perturb: list[str] = []  # other forms in which each record is asked as well
    batch_size: int = 1
    stop_when: JsonObject = {}  # a rule asks the records in another order
    asking: JsonObject = {}  # a prompt of the user's own, another way to ask for confidence
    backend: JsonObject = {}
    prompts: dict[str, str] = {}


class Manifest(BaseModel):
    """What a run is: enough to repeat it, and to refuse to continue another one under its name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["krisis.run"] = "krisis.run"
    schema_version: Literal[3] = 3
    run_id: str
    created_at: str
    backend_name: str
    n_cases: int = Field(ge=1)
    cases_hash: str = ""
    identity: Identity = Identity()
    task: TaskFacts | None = None
    suite_description: JsonObject
    config: JsonObject = {}
    config_missing: str = ""  # why the command line cannot make the run again
    versions: dict[str, str] = {}
    git_commit: str | None = None
    stores_features: bool = False
    imported: Imported | None = None
    asking: AskingFacts | None = None

    @property
    def n_plain(self) -> int:
        """Return how many cases ask a record as it is; all others follow them."""
        identity = self.identity
        return identity.n_records * identity.repeats if identity.perturb else self.n_cases


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The places inside one run directory."""

    path: Path

    @property
    def manifest(self) -> Path:
        """Where it says what was run."""
        return self.path / "manifest.json"

    @property
    def rows(self) -> Path:
        """Where finished records are appended."""
        return self.path / "rows.jsonl"

    @property
    def cases(self) -> Path:
        """Where it says which record belongs at each position."""
        return self.path / "cases.txt"

    @property
    def damaged(self) -> Path:
        """Where damaged lines of the journal are set aside."""
        return self.path / "rows.damaged.jsonl"

    @property
    def not_taken(self) -> Path:
        """Where rows of an imported file are listed that could not be taken."""
        return self.path / "not_taken.jsonl"

    @property
    def metrics(self) -> Path:
        """Where the scores are written at the end."""
        return self.path / "metrics.json"

    @property
    def lock(self) -> Path:
        """What the writing process holds."""
        return self.path / "lock"

    @property
    def writer(self) -> Path:
        """Where the writing process leaves its number."""
        return self.path / "writer"

    def refuse_links(self) -> None:
        """Refuse a folder with links or devices in it: nothing is read or written through them."""
        refuse_links(self.path)

    def remove_half_written(self) -> None:
        """Remove what a process that was killed in the middle of a file left; hold the lock."""
        for file in (self.manifest, self.cases, self.metrics):
            for left in self.path.glob(f".{file.name}.*"):
                left.unlink()


def refuse_links(folder: Path) -> None:
    """Refuse a folder in which anything is neither a file nor a folder of its own."""
    try:
        with os.scandir(folder) as found:
            entries = list(found)
        for entry in entries:
            if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                raise InvalidFile(
                    f"{folder / entry.name} is a link or a device, and krisis reads and writes "
                    "nothing through one in the folder of a run; put a copy in its place"
                )
    except OSError as error:
        raise InvalidFile(f"{folder} cannot be read: {error.strerror}") from None


def is_run(path: Path) -> bool:
    """Say whether a folder is a run directory."""
    return RunDirectory(path).manifest.is_file()


def list_runs(folder: str | Path) -> list[Path]:
    """Return the run directories in a folder, newest first."""
    folder = Path(folder)
    if not folder.is_dir():
        return []
    found = {path: _created_at(path) for path in folder.iterdir() if is_run(path)}
    return sorted(found, key=lambda path: (found[path], path.name), reverse=True)


def _created_at(path: Path) -> datetime:
    """Return when a run began, by its manifest; one that cannot be read counts as the oldest."""
    with suppress(InvalidFile):
        return started_at(read_manifest(path))
    return NEVER


def started_at(manifest: Manifest) -> datetime:
    """Return when a run began, by its own clock."""
    with suppress(ValueError):
        created_at = datetime.fromisoformat(manifest.created_at)
        return created_at if created_at.tzinfo else created_at.replace(tzinfo=UTC)
    return NEVER


def read_manifest(path: str | Path) -> Manifest:
    """Read the manifest of a run directory."""
    directory = RunDirectory(Path(path))
    if not directory.path.exists():
        raise InvalidFile(f"{path} does not exist; name a run directory such as runs/NAME")
    if not directory.manifest.is_file():
        told = refused(directory.path, "a run directory, such as runs/NAME")
        raise told or InvalidFile(f"{path} is not a krisis run (no manifest.json)")
    directory.refuse_links()
    content = read_object(directory.manifest)
    if content.get("schema_version") != RUN_SCHEMA_VERSION:
        raise InvalidFile(
            f"{directory.manifest} has schema version {content.get('schema_version')!r} and this "
            f"krisis reads {RUN_SCHEMA_VERSION}; use the krisis that wrote it or run again"
        )
    try:
        return Manifest.model_validate_json(dumps(content, indent=None))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidFile(
            f"{directory.manifest}: {place}: {first['msg']}; was it edited?"
        ) from None


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Everything that a run directory holds, damage included.

    ``ended`` is what metrics.json says and ``scores_fit`` whether it says it about these rows;
    ``ended`` is None where the run has not ended or that file cannot be read.
    """

    directory: RunDirectory
    manifest: Manifest
    has_cases: bool
    journal: JournalContents
    ended: BenchmarkResult | None
    scores_fit: bool

    @property
    def damage(self) -> str:
        """Say in one sentence what is damaged and what was done about it; "" if nothing is."""
        journal, n_rows = self.journal, self.journal.n_rows
        found = []
        if journal.damage:
            found.append(f"{damaged_lines(len(journal.damage))} of rows.jsonl left out")
        if not self.has_cases:
            found.append("cases.txt is missing or damaged, so no row can be checked against it")
        if not self.scores_fit:
            found.append(
                "metrics.json does not fit rows.jsonl, so the scores are computed again from the "
                f"{n_rows} of {self.manifest.n_cases} rows that are intact"
            )
        if found:
            return f"DAMAGED: {'; '.join(found)}; type: krisis doctor {self.directory.path}"
        return journal.loss


def read_run(path: str | Path, contents: JournalContents | None = None) -> StoredRun:
    """Read a run directory, believing nothing that is damaged or belongs to another run.

    ``contents`` may keep rows elsewhere than in memory.
    """
    directory = RunDirectory(Path(path))
    manifest = read_manifest(path)
    cases = Cases.read(directory.cases, manifest.cases_hash)
    journal = read_journal(directory.rows, cases, contents)
    ended, fits = None, True
    if directory.metrics.is_file():
        try:
            content = read_object(directory.metrics)
            ended = BenchmarkResult.from_dict(content, place=str(directory.metrics))
            fits = content.get("rows_fingerprint") == rows_fingerprint(journal.in_order())
        except InvalidFile:
            fits = False
    return StoredRun(directory, manifest, cases is not None, journal, ended, fits)


def metrics_text(result: BenchmarkResult, n_journal_bytes: int) -> str:
    """Return the content of metrics.json: the scores, and which rows they are of.

    A hash tells for certain whether rows are the same, the size of the journal at a glance.
    """
    content = result.to_dict(include_results=False)
    rows = [*result.evaluation_results, *result.perturbed]
    content["rows_fingerprint"] = rows_fingerprint(rows)
    content["n_journal_bytes"] = n_journal_bytes
    return dumps(content) + "\n"


def seems_whole(directory: RunDirectory, metrics: JsonObject) -> bool:
    """Say whether the journal is as the scores left it, by its size and time alone."""
    rows, scores = directory.rows.stat(), directory.metrics.stat()
    is_later = rows.st_mtime > scores.st_mtime + _SECONDS_OF_COPYING
    return rows.st_size == metrics.get("n_journal_bytes") and not is_later


def load_run(path: str | Path) -> BenchmarkResult:
    """Read a run back as a result: the journal's rows, and the scores if they are of these rows."""
    return result_of(read_run(path))


def result_of(run: StoredRun) -> BenchmarkResult:
    """Return the result that a run directory holds."""
    manifest, n_plain = run.manifest, run.manifest.n_plain
    rows = run.journal.in_order(below=n_plain)
    perturbed = run.journal.in_order(n_plain)
    agreement = mark_agreement(rows) if manifest.identity.repeats > 1 else None
    if run.ended is not None and run.scores_fit:
        ended = run.ended
        result = BenchmarkResult(
            rows,
            ended.metric_scores,
            ended.suite_description,
            ended.backend_name,
            facts=ended,
            perturbed=perturbed,
        )
    else:
        facts = _facts_so_far(manifest, run.journal)
        facts.agreement = agreement
        if not run.scores_fit:  # it had ended: what is missing was lost
            n_rows = run.journal.n_rows
            facts.stop = _lost(manifest) if n_rows < manifest.n_cases else None
        named = (manifest.suite_description, manifest.backend_name)
        result = BenchmarkResult(rows, {}, *named, facts=facts, perturbed=perturbed)
    result.damage = run.damage
    result.provenance = replace(
        result.provenance,
        run_id=manifest.run_id,
        run_file=str(run.directory.path),
        git_commit=manifest.git_commit,
        versions=manifest.versions,
        config=manifest.config,
        imported=manifest.imported,
        asking=manifest.asking,
    )
    return result


def _lost(manifest: Manifest) -> Unfinished:
    again = "import" if manifest.imported else "resume the run to ask"
    return Unfinished(f"their rows were lost; {again} them again")


def _facts_so_far(manifest: Manifest, journal: JournalContents) -> RunFacts:
    identity, rows, imported = manifest.identity, journal.in_order(), manifest.imported
    stop: Unfinished | None = Unfinished(_NOT_ENDED)
    if imported:  # no model was asked: rows that are not there were lost
        stop = _lost(manifest) if len(rows) < manifest.n_cases else None
    return RunFacts(
        provenance=Provenance(
            task_facts=manifest.task,
            models_answered=dict(Counter(row.model for row in rows if row.model)),
            batch_size=identity.batch_size,
            repeats=identity.repeats,
            seed=identity.seed,
            suite_content_hash=identity.data,
            krisis_version=manifest.versions.get("krisis"),
            started_at=manifest.created_at,
        ),
        spending=Spending.of(journal.spent, rows, elapsed_seconds=journal.elapsed_seconds),
        prompts=Prompts.of(rows, verified=bool(identity.prompts)),
        attrition=Attrition(n_loaded=imported.n_expected if imported else manifest.n_plain),
        n_perturbed=manifest.n_cases - manifest.n_plain,
        stop=journal.stop or stop,
    )
