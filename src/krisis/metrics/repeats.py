"""Several askings of one record made one row: the modal answer and how consistent it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from krisis.metrics.base import EvaluationResult
from krisis.statistics.consistency import consistency_of

Answer = int | str | None


def collapse_repeats(rows: Iterable[EvaluationResult]) -> list[EvaluationResult]:
    """Return one row per record, in order of first appearance.

    The answer is the mode of the samples, abstention being an answer like any other; of equally
    frequent ones abstention comes first, then the smaller score. The other fields are those of
    the first sample that gave the mode. Failed samples are left out unless all failed. Records
    asked once are returned as they are, without consistency signals.
    """
    samples: dict[str | int, list[EvaluationResult]] = {}
    for position, row in enumerate(rows):
        samples.setdefault(row.record_id or position, []).append(row)  # unnamed rows stay apart
    return [_collapsed(group) for group in samples.values()]


def _collapsed(group: Sequence[EvaluationResult]) -> EvaluationResult:
    settled = [row for row in group if row.error is None]
    if len(group) == 1 or not settled:
        return group[0]
    answers = [_answer(row) for row in settled]
    mode = consistency_of(answers).mode
    chosen = settled[answers.index(mode)]
    signals = {**chosen.signals, **consistency_signals(answers)}
    metadata = {key: value for key, value in chosen.metadata.items() if key != "sample_index"}
    return replace(chosen, signals=signals, metadata=metadata)


def consistency_signals(answers: Sequence[Answer]) -> dict[str, object]:
    """Return the share of the mode, the spread of the scores and the samples themselves.

    >>> consistency_signals([1, 1, 2, None])["consistency_modal_confidence"]
    0.5
    """
    consistency = consistency_of(answers)
    return {
        "consistency_modal_confidence": consistency.modal_confidence,
        "consistency_score_std": consistency.score_std,
        "consistency_samples": list(answers),
    }


def _answer(row: EvaluationResult) -> Answer:
    return None if row.abstained else row.prediction
