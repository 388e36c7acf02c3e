"""How far repeated answers to one record agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from krisis.answers import AnswerSet
from krisis.metrics.base import EvaluationResult
from krisis.results.account import RepeatAgreement


def mark_agreement(rows: Sequence[EvaluationResult]) -> RepeatAgreement:
    """Give each row the share of its record's answers that came out as it did, and sum up.

    The share goes to ``signals["sample_agreement"]``; rows that were not evaluated take no part.
    An abstention agrees with an abstention, an answer with the same answer.

    >>> a = EvaluationResult(1, 1, record_id="r")
    >>> b = EvaluationResult(0, 1, record_id="r")
    >>> mark_agreement([a, b, EvaluationResult(1, 1, record_id="r")]).mean_agreement
    0.6666666666666666
    >>> a.signals["sample_agreement"] == 2 / 3
    True
    """
    answers = getattr(rows, "answers", None) or AnswerSet()
    outcomes: dict[str, Counter[Hashable]] = defaultdict(Counter)
    for row in rows:
        if row.outcome != "not_evaluated":
            outcomes[row.record_id][_given(row, answers)] += 1
    for row in rows:
        if row.outcome != "not_evaluated":
            counts = outcomes[row.record_id]
            share = counts[_given(row, answers)] / counts.total()
            row.signals = {**row.signals, "sample_agreement": share}
    shares = [max(counts.values()) / counts.total() for counts in outcomes.values()]
    return RepeatAgreement(
        n_records=len(shares),
        mean_agreement=sum(shares) / len(shares) if shares else None,
        n_unanimous=sum(share == 1.0 for share in shares),
    )


def _given(row: EvaluationResult, answers: AnswerSet) -> Hashable:
    if row.outcome != "answered" or row.prediction is None:
        return row.outcome
    return (answers.key(row.prediction),)
