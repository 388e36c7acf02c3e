"""Any run as items: a PHQ-8 run file, a krisis result or a krisis run directory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from krisis.errors import InvalidFile
from krisis.json_values import read_object
from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import Columns, FloatArray, canonical_label
from krisis.metrics.items import STATED, ItemTable, Source, span_of
from krisis.metrics.repeats import collapse_repeats
from krisis.results.phq8_run import OrdinalScale, experiment_of, is_phq8_run
from krisis.results.result import BenchmarkResult
from krisis.results.store import load_run, read_manifest


def read_items(path: str | Path, mode: str | None = None) -> ItemTable:
    """Read the items of a run, whichever of the three kinds it is."""
    path = Path(path)
    if path.is_dir():
        manifest = read_manifest(path)
        suite = manifest.suite_description
        made_in = _mode(suite, mode, path)
        source = Source(str(path), manifest.run_id, manifest.git_commit, made_in, "krisis_run")
        rows = load_run(path).evaluation_results
        n_owed = max(0, manifest.n_cases - len(rows))
        n_not_asked = math.ceil(n_owed / manifest.identity.repeats)
        table = items_of(rows, source, span=_known_span(suite))
        return replace(table, n_not_asked=n_not_asked)
    # Programs write a missing signal as NaN: it is refused where a variant needs it, by name.
    content = read_object(path, lenient=True)
    if is_phq8_run(content):
        return experiment_of(content, mode, place=str(path)).items()
    content = read_object(path)
    if "kind" not in content:
        raise InvalidFile(
            f"{path} is neither a PHQ-8 run file (no experiments) nor a krisis result (no kind); "
            "name a run"
        )
    result = BenchmarkResult.from_dict(content, place=str(path))
    if not result.evaluation_results:
        raise InvalidFile(f"{path} holds scores but no rows; name the full result")
    suite = result.suite_description
    run_id, made_in = result.provenance.run_id, _mode(suite, mode, path)
    source = Source(str(path), run_id, None, made_in, "krisis_run")
    return items_of(result.evaluation_results, source, span=_known_span(suite))


def _mode(suite: Mapping[str, Any], asked: str | None, path: Path) -> str | None:
    """Return the mode that the run was made in; asking for another is an error."""
    mode = suite.get("mode")
    if asked is not None and asked != mode:
        made_in = f"was made in mode {mode!r}" if mode else "has no modes"
        raise InvalidFile(f"{path} {made_in}, not {asked!r}; leave --mode out or name another run")
    return None if mode is None else str(mode)


def _known_span(suite: Mapping[str, Any]) -> float | None:
    """Return the span of the scale where the suite fixes it, whatever scores were seen."""
    scale = OrdinalScale()
    return float(scale.highest - scale.lowest) if suite.get("suite") == "phq8" else None


def items_of(
    rows: Sequence[EvaluationResult], source: Source, *, span: float | None = None
) -> ItemTable:
    """Return krisis rows as items: one per record, the patient as participant.

    Repeats of a record become its modal answer with consistency signals. Without a ``span`` the
    scale is as wide as the labels seen.
    """
    rows = collapse_repeats(rows)
    scored = [row for row in rows if row.error is None]
    patients = [_patient(row, i) for i, row in enumerate(rows)]
    scored_patients = [p for p, row in zip(patients, rows, strict=True) if row.error is None]
    names = sorted(set(scored_patients))
    position = {name: index for index, name in enumerate(names)}
    ordered = all(
        _is_number(row.ground_truth) and (row.abstained or _is_number(row.prediction))
        for row in scored
    )
    truth, prediction = (_numbers if ordered else _codes)(scored)
    return ItemTable(
        participants=names,
        participant=np.array([position[patient] for patient in scored_patients], np.int64),
        item_names=[str(row.metadata.get("item", "")) for row in scored],
        truth=truth,
        prediction=prediction,
        signals=[{**row.signals, STATED: row.confidence} for row in scored],
        scale=(span or span_of(truth, prediction)) if ordered else np.nan,
        source=source,
        failed=sorted(set(patients) - set(names)),
        n_failed_items=len(rows) - len(scored),
        wrong=None if ordered else (prediction != truth),
    )


def _patient(row: EvaluationResult, index: int) -> str:
    return row.cluster_id or f"row {index}"


def _is_number(label: object) -> bool:
    return label is not None and isinstance(canonical_label(label), int)


def _numbers(rows: Sequence[EvaluationResult]) -> tuple[FloatArray, FloatArray]:
    truth = [float(canonical_label(row.ground_truth)) for row in rows]
    given = [np.nan if row.abstained else float(canonical_label(row.prediction)) for row in rows]
    return np.array(truth), np.array(given)


def _codes(rows: Sequence[EvaluationResult]) -> tuple[FloatArray, FloatArray]:
    columns = Columns.from_rows(rows)
    given = np.where(columns.abstained, np.nan, columns.prediction.astype(np.float64))
    return columns.truth.astype(np.float64), given
