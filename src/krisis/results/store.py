"""Run directories: which files they hold, and how to read them back.

::

    runs/20260102T030405Z_ckd_openai-gpt-5_3fa94c/
        manifest.json   what was run: configuration, identity, versions, hashes
        rows.jsonl      journal: one line per finished record, in order of completion
        metrics.json    scores with backend, suite and execution, written when the run ends
        report.txt      the text report, written when the run ends
        lock            held by the one process that writes
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from krisis.errors import InvalidFile
from krisis.json_values import JsonObject, dumps, read_object
from krisis.results.account import Attrition, Prompts, Provenance, RunFacts, Spending, TaskFacts
from krisis.results.base import BenchmarkResult
from krisis.results.journal import JournalContents, read_journal
from krisis.results.repeats import mark_agreement
from krisis.results.stops import Unfinished

RUN_SCHEMA_VERSION = 2


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
    batch_size: int = 1
    backend: JsonObject = {}
    prompts: dict[str, str] = {}


class Manifest(BaseModel):
    """What a run is: enough to repeat it, and to refuse to continue another one under its name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["krisis.run"] = "krisis.run"
    schema_version: Literal[2] = 2
    run_id: str
    created_at: str
    backend_name: str
    n_cases: int = Field(ge=1)
    identity: Identity = Identity()
    task: TaskFacts | None = None
    suite_description: JsonObject
    config: JsonObject = {}
    versions: dict[str, str] = {}
    git_commit: str | None = None
    stores_features: bool = False


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
    def metrics(self) -> Path:
        """Where the scores are written at the end."""
        return self.path / "metrics.json"

    @property
    def report(self) -> Path:
        """Where the text report is written at the end."""
        return self.path / "report.txt"

    @property
    def lock(self) -> Path:
        """What the writing process holds."""
        return self.path / "lock"


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
    with suppress(InvalidFile, ValueError):
        created_at = datetime.fromisoformat(read_manifest(path).created_at)
        return created_at if created_at.tzinfo else created_at.replace(tzinfo=UTC)
    return datetime.min.replace(tzinfo=UTC)


def read_manifest(path: str | Path) -> Manifest:
    """Read the manifest of a run directory."""
    directory = RunDirectory(Path(path))
    if not directory.path.is_dir():
        raise InvalidFile(f"{path} is not a folder; name a run directory such as runs/NAME")
    if not directory.manifest.is_file():
        raise InvalidFile(f"{path} is not a krisis run (no manifest.json)")
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


def load_run(path: str | Path) -> BenchmarkResult:
    """Read a run back as a result: the journal's rows, and the scores if the run has ended."""
    directory = RunDirectory(Path(path))
    manifest, journal = read_manifest(path), read_journal(directory.rows)
    rows = journal.in_order()
    agreement = mark_agreement(rows) if manifest.identity.repeats > 1 else None
    if directory.metrics.is_file():
        ended = BenchmarkResult.load(directory.metrics)
        result = BenchmarkResult(
            rows, ended.metric_scores, ended.suite_description, ended.backend_name, facts=ended
        )
    else:
        facts = _facts_so_far(manifest, journal)
        facts.agreement = agreement
        name = manifest.backend_name
        result = BenchmarkResult(rows, {}, manifest.suite_description, name, facts=facts)
    result.provenance = replace(
        result.provenance,
        run_id=manifest.run_id,
        run_directory=str(directory.path),
        git_commit=manifest.git_commit,
        versions=manifest.versions,
        config=manifest.config,
    )
    return result


def _facts_so_far(manifest: Manifest, journal: JournalContents) -> RunFacts:
    identity, rows = manifest.identity, journal.in_order()
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
        prompts=Prompts.of(rows),
        attrition=Attrition(n_loaded=manifest.n_cases),
        stop=journal.stop
        or Unfinished("the run has not ended: resume it, or wait for its process"),
    )
