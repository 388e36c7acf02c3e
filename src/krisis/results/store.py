"""Run directories: which files they hold, and how to read them back.

::

    runs/20260102T030405Z_ckd_openai-gpt-5_3fa94c/
        manifest.json   what was run: configuration, identity, versions, hashes
        rows.jsonl      journal: one line per finished record, in order of completion
        metrics.json    scores with backend, suite and execution, written when the run ends
        report.txt      the text report, written when the run ends
        lock            held by the one process that writes

The journal only grows. A later line for the same position replaces an earlier one, so a record
that failed and was asked again stands twice in the file and once in the result. A last line that
was cut off is not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from krisis.errors import InvalidFile
from krisis.json_values import read_object
from krisis.metrics.base import EvaluationResult
from krisis.results.repeats import mark_agreement
from krisis.results.result import BenchmarkResult
from krisis.results.rows import row_from_dict

RUN_SCHEMA_VERSION = 1


class Manifest(BaseModel):
    """What a run is: enough to repeat it, and to refuse to continue another one under its name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["krisis.run"] = "krisis.run"
    schema_version: Literal[1] = 1
    run_id: str
    created_at: str
    backend_name: str
    n_cases: int = Field(ge=1)
    identity: dict[str, Any]
    suite_description: dict[str, Any]
    config: dict[str, Any] = {}
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


@dataclass(slots=True)
class JournalContents:
    """What a journal holds: the last row of every position and the books of every session."""

    rows: dict[int, EvaluationResult] = field(default_factory=dict)
    features: dict[int, dict[str, Any]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    session_seconds: list[float] = field(default_factory=list)

    def take(self, line: dict[str, Any], place: str) -> None:
        """Add one line."""
        kind = line.get("kind")
        if kind == "row":
            self._take_row(line, place)
        elif kind in ("prompt", "context"):
            self.texts[str(line["id"])] = str(line["text"])
        elif kind == "session":
            self.session_seconds.append(0.0)
        elif kind != "stop":
            raise InvalidFile(f"{place} is of the unknown kind {kind!r}; was it edited?")
        if "calls" in line:
            self.calls.append(line["calls"])
        if self.session_seconds and "at" in line:
            self.session_seconds[-1] = float(line["at"])

    def _take_row(self, line: dict[str, Any], place: str) -> None:
        row = dict(line["row"])
        row["prompt"] = self.texts.get(row.get("prompt", ""), "")
        position = int(line["position"])
        self.rows[position] = row_from_dict(row, place)
        if "features" in line:
            context = self.texts.get(line.get("context", ""), "")
            self.features[position] = {
                **line["features"],
                **({"context": context} if context else {}),
            }


def is_run(path: Path) -> bool:
    """Say whether a folder is a run directory."""
    return RunDirectory(path).manifest.is_file()


def list_runs(folder: str | Path) -> list[Path]:
    """Return the run directories in a folder, newest first."""
    folder = Path(folder)
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if is_run(path)), key=_age, reverse=True)


def _age(path: Path) -> tuple[str, int]:
    # The name tells the second; runs of the same second are told apart by their files.
    return path.name.partition("_")[0], RunDirectory(path).manifest.stat().st_mtime_ns


def read_manifest(path: str | Path) -> Manifest:
    """Read the manifest of a run directory."""
    directory = RunDirectory(Path(path))
    if not directory.path.is_dir():
        raise InvalidFile(f"{path} is not a folder; name a run directory such as runs/…")
    if not directory.manifest.is_file():
        raise InvalidFile(f"{path} holds no manifest.json, so it is no run of krisis")
    content = read_object(directory.manifest)
    if content.get("schema_version") != RUN_SCHEMA_VERSION:
        raise InvalidFile(
            f"{directory.manifest} has schema version {content.get('schema_version')!r} and this "
            f"krisis reads {RUN_SCHEMA_VERSION}; use the krisis that wrote it or run again"
        )
    try:
        return Manifest.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidFile(
            f"{directory.manifest}: {place}: {first['msg']}; was it edited?"
        ) from None


def read_journal(path: Path) -> JournalContents:
    """Read a journal, leaving out a last line that was cut off."""
    contents = JournalContents()
    for number, line in enumerate(_whole_lines(path), start=1):
        place = f"{path}: line {number}"
        try:
            contents.take(_object(line), place)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidFile):
                raise
            raise InvalidFile(f"{place} cannot be read ({error!r}); was it edited?") from None
    return contents


def load_run(path: str | Path) -> BenchmarkResult:
    """Read a run back as a result: the journal's rows, and the scores if the run has ended."""
    directory = RunDirectory(Path(path))
    manifest = read_manifest(path)
    contents = read_journal(directory.rows) if directory.rows.exists() else JournalContents()
    rows = [contents.rows[position] for position in sorted(contents.rows)]
    if manifest.identity.get("repeats", 1) > 1:
        mark_agreement(rows)
    extras: dict[str, Any] = {"n_loaded": manifest.n_cases, "n_input_records": manifest.n_cases}
    if not directory.metrics.is_file():
        return BenchmarkResult(
            rows, {}, manifest.suite_description, manifest.backend_name, {**extras, "ended": False}
        )
    scored = BenchmarkResult.load(directory.metrics)
    scored.extras.pop("attrition", None)
    return BenchmarkResult(
        rows, scored.metric_scores, scored.suite_description, scored.backend_name, scored.extras
    )


def whole_length(path: Path) -> tuple[int, bool]:
    """Return how many bytes of a journal are whole lines, and whether only a newline is missing."""
    with path.open("rb") as file:
        content = file.read()
    end = content.rfind(b"\n") + 1
    try:
        _object(content[end:])
    except ValueError:
        return end, False
    return len(content), True


def _whole_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line
            else:
                try:
                    _object(line)
                except ValueError:
                    return
                yield line


def _object(line: bytes) -> dict[str, Any]:
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f"not an object but {value!r:.40}")
    return value
