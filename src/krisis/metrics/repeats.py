"""Several askings of one record made one row: the modal answer and how consistent it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from krisis.json_values import JsonValue
from krisis.metrics.base import EvaluationResult
from krisis.statistics.repeatability import consistency_of

Answer = int | str | None
SAMPLES = "consistency_samples"


def collapse_repeats(rows: Iterable[EvaluationResult]) -> list[EvaluationResult]:
    """Return one row per record, in order of first appearance.

    The answer is the mode of the samples, abstention being an answer like any other; of equally
    frequent ones abstention comes first, then the smaller score. The other fields are those of the
    first sample that gave the mode. Samples without an answer are left out unless all are. Records
    asked once are returned as they are, without consistency signals.
    """
    samples: dict[str | int, list[EvaluationResult]] = {}
    for position, row in enumerate(rows):
        samples.setdefault(row.record_id or position, []).append(row)  # unnamed rows stay apart
    return [_collapsed(group) for group in samples.values()]


def _collapsed(group: Sequence[EvaluationResult]) -> EvaluationResult:
    settled = [row for row in group if row.error is None]
    if len(group) == 1 or not settled:
        return next((row for row in group if row.outcome == "no_answer"), group[0])
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
        SAMPLES: list(answers),
    }


def _answer(row: EvaluationResult) -> Answer:
    return None if row.abstained else row.prediction


@dataclass(frozen=True, slots=True)
class Ties:
    """What becomes of repeated answers: samples, items, and those where no answer leads."""

    n_samples: int
    n_samples_answered: int
    n_items: int
    n_items_answered: int
    n_tied: int
    n_tied_abstained: int


def ties_of(signals: Iterable[Mapping[str, JsonValue]]) -> Ties | None:
    """Count the ties among repeated answers; None where no item was asked more than once.

    >>> ties_of([{"consistency_samples": [0, None]}, {"consistency_samples": [1, 1]}]).n_tied
    1
    """
    given = [one[SAMPLES] for one in signals if isinstance(one.get(SAMPLES), list)]
    # Files are written by other programs too: what is no answer is not counted.
    known = [all(isinstance(one, int | str | None) for one in answers) for answers in given]
    items = [one for one, fine in zip(given, known, strict=True) if fine and len(one) > 1]
    if not items:
        return None
    modes = [consistency_of(answers).mode for answers in items]
    counts = [sorted(Counter(answers).values(), reverse=True) for answers in items]
    tied = [len(most) > 1 and most[0] == most[1] for most in counts]
    return Ties(
        n_samples=sum(map(len, items)),
        n_samples_answered=sum(answer is not None for answers in items for answer in answers),
        n_items=len(items),
        n_items_answered=sum(mode is not None for mode in modes),
        n_tied=sum(tied),
        n_tied_abstained=sum(t and mode is None for t, mode in zip(tied, modes, strict=True)),
    )
