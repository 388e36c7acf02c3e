"""Answers from a saved run in place of a model: the same rows again, without a call."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.json_text import NotStrictJson, loads_strict
from krisis.data.base import PatientRecord
from krisis.errors import BackendError, InvalidFile, InvalidValue
from krisis.json_values import JsonMapping, JsonObject

_COPIED = (
    *("prediction", "abstained", "confidence", "raw_response", "prompt", "prompt_mode"),
    *("input_tokens", "output_tokens", "total_tokens", "signals"),
)


class ReplayBackend(BaseBackend):
    """Answers each record as it was answered in a saved run; others are failures, not guesses.

    Give it the evaluation results of a `BenchmarkResult`, or the path of a run directory or of a
    full JSON result. What failed then fails again.
    """

    name = "replay"

    def __init__(self, model: str | Path | Iterable[Any]) -> None:
        if isinstance(model, str | Path):
            self.name = f"replay/{Path(model).name}"
            rows = _saved_rows(Path(model))
        else:
            rows = [{name: getattr(row, name) for name in _FIELDS} for row in model]
        self._rows: dict[str, JsonMapping] = {}
        for row in rows:
            self._rows.setdefault(str(row.get("record_id", "")), row)  # of repeats, the first
        if not self._rows or "" in self._rows:
            raise InvalidValue(
                f"the saved run of {self.name!r} has no rows with a record_id; "
                "give a run directory or a full JSON result"
            )

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Return what the saved run holds about this record."""
        row = self._rows.get(record.record_id)
        if row is None:
            raise BackendError(
                f"the saved run has no record {record.record_id!r}; replay it with the suite, "
                "task and seed that it was made with"
            )
        if row.get("error"):
            raise BackendError(f"failed in the saved run: {row['error']}")
        kept = {name: row[name] for name in _COPIED if row.get(name) is not None}
        return BackendResponse(
            **{"prediction": None, **kept, "signals": dict(row.get("signals") or {})}
        )

    def identity(self) -> JsonObject:
        """Return the name and the number of the saved rows."""
        return {"backend": self.name, "n_rows": len(self._rows)}


_FIELDS = ("record_id", "error", *_COPIED)


def _saved_rows(path: Path) -> list[JsonMapping]:
    if path.is_dir():
        return _journal_rows(path / "rows.jsonl")
    content = _content(path)
    rows = content.get("evaluation_results") if isinstance(content, dict) else None
    if not isinstance(rows, list):
        raise InvalidFile(
            f"{path} holds no evaluation_results; give a run directory or a full JSON result"
        )
    return [row for row in rows if isinstance(row, dict)]


def _content(path: Path) -> Any:
    try:
        return loads_strict(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidFile(
            f"{path} does not exist; name a run directory or a full JSON result"
        ) from None
    except (OSError, UnicodeDecodeError, NotStrictJson) as error:
        raise InvalidFile(f"{path} cannot be read as a saved result: {error}") from None


def _journal_rows(path: Path) -> list[JsonMapping]:
    """Return the last row of every position, with its template put back."""
    templates: dict[str, str] = {}
    rows: dict[int, JsonMapping] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path} cannot be read: {error}; give a run directory") from None
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            if entry["kind"] == "prompt":
                templates[entry["id"]] = entry["text"]
            elif entry["kind"] == "row":
                row = entry["row"]
                rows[entry["position"]] = {**row, "prompt": templates.get(row.get("prompt"), "")}
        except (ValueError, KeyError, TypeError):
            if number < len(lines):  # a run that was cut may end in half a line
                raise InvalidFile(f"{path} line {number} is not a line of a journal") from None
    return [rows[position] for position in sorted(rows)]
