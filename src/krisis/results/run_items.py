"""Any run as items: a PHQ-8 run file, a krisis result or a krisis run directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from krisis.errors import InvalidFile
from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import Columns, FloatArray, canonical_label
from krisis.metrics.items import STATED, ItemTable, Source
from krisis.metrics.repeats import collapse_repeats
from krisis.results.phq8_run import experiment_of, is_phq8_run
from krisis.results.result import BenchmarkResult
from krisis.results.store import load_run, read_manifest
from krisis.results.strict_json import read_object


def read_items(path: str | Path, mode: str | None = None) -> ItemTable:
    """Read the items of a run, whichever of the three kinds it is."""
    path = Path(path)
    if path.is_dir():
        manifest = read_manifest(path)
        source = Source(str(path), manifest.run_id, manifest.git_commit, mode, "krisis_run")
        return items_of(load_run(path).evaluation_results, source)
    content = read_object(path)
    if is_phq8_run(content):
        return experiment_of(content, mode, place=str(path)).items()
    if "kind" not in content:
        raise InvalidFile(
            f"{path} is neither a PHQ-8 run file (no experiments) nor a krisis result (no kind); "
            "name a run"
        )
    result = BenchmarkResult.from_dict(content, place=str(path))
    if not result.evaluation_results:
        raise InvalidFile(f"{path} holds scores but no rows; name the full result")
    run_id = result.extras.get("run_id")
    return items_of(result.evaluation_results, Source(str(path), run_id, None, mode, "krisis_run"))


def items_of(rows: Sequence[EvaluationResult], source: Source) -> ItemTable:
    """Return krisis rows as items: one per record, the patient as participant.

    Repeats of a record become its modal answer with consistency signals.
    """
    rows = collapse_repeats(rows)
    scored = [row for row in rows if row.error is None]
    names = sorted({_patient(row, i) for i, row in enumerate(scored)})
    position = {name: index for index, name in enumerate(names)}
    failed_only = sorted({_patient(r, i) for i, r in enumerate(rows) if r.error is not None})
    ordered = all(
        _is_number(row.ground_truth) and (row.abstained or _is_number(row.prediction))
        for row in scored
    )
    truth, prediction = (_numbers if ordered else _codes)(scored)
    return ItemTable(
        participants=names,
        participant=np.array([position[_patient(r, i)] for i, r in enumerate(scored)], np.int64),
        item_names=[str(row.metadata.get("item", "")) for row in scored],
        truth=truth,
        prediction=prediction,
        signals=[{**row.signals, STATED: row.confidence} for row in scored],
        scale=_span(truth, prediction) if ordered else np.nan,
        source=source,
        failed=[name for name in failed_only if name not in position],
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


def _span(truth: FloatArray, prediction: FloatArray) -> float:
    known = np.concatenate([truth, prediction[~np.isnan(prediction)]])
    # Where every label is the same, every distance is 0 and any span does.
    return float(np.ptp(known)) or 1.0 if known.size else 1.0
