"""Several askings of one record made one row: the modal answer and how consistent it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from krisis.metrics.base import EvaluationResult

Answer = int | str | None


def collapse_repeats(rows: Iterable[EvaluationResult]) -> list[EvaluationResult]:
    """Return one row per record, in order of first appearance.

    The answer is the mode of the samples, abstention being an answer like any other; of equally
    frequent ones abstention comes first, then the smaller score. The other fields are those of
    the first sample that gave the mode. Failed samples are left out unless all failed. Records
    asked once are returned as they are, without consistency signals.
    """
    samples: dict[str, list[EvaluationResult]] = {}
    for row in rows:
        samples.setdefault(row.record_id, []).append(row)
    return [_collapsed(group) for group in samples.values()]


def _collapsed(group: Sequence[EvaluationResult]) -> EvaluationResult:
    settled = [row for row in group if row.error is None]
    if len(group) == 1 or not settled:
        return group[0]
    answers = [_answer(row) for row in settled]
    mode = modal_answer(answers)
    chosen = settled[answers.index(mode)]
    signals = {**chosen.signals, **consistency_signals(answers)}
    metadata = {key: value for key, value in chosen.metadata.items() if key != "sample_index"}
    return replace(chosen, signals=signals, metadata=metadata)


def consistency_signals(answers: Sequence[Answer]) -> dict[str, object]:
    """Return the share of the mode and the population standard deviation of the scores.

    The deviation is null when no sample has a numeric score.

    >>> consistency_signals([1, 1, 2, None])["consistency_modal_confidence"]
    0.5
    """
    mode = modal_answer(answers)
    scores = [answer for answer in answers if isinstance(answer, int)]
    return {
        "consistency_modal_confidence": sum(answer == mode for answer in answers) / len(answers),
        "consistency_score_std": float(np.std(scores)) if scores else None,
        "consistency_samples": list(answers),
    }


def modal_answer(answers: Sequence[Answer]) -> Answer:
    """Return the most frequent answer.

    >>> modal_answer([2, 1, None, 2, None]), modal_answer([3, 1])
    (None, 1)
    """
    counts = Counter(answers)
    return min(counts, key=lambda answer: (-counts[answer], answer is not None, _order(answer)))


def _order(answer: Answer) -> tuple[bool, float, str]:
    """Order numbers before texts, so that mixed answers can be compared."""
    if isinstance(answer, str):
        return True, 0.0, answer
    return False, float(answer or 0), ""


def _answer(row: EvaluationResult) -> Answer:
    return None if row.abstained else row.prediction
