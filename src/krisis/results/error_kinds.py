"""What would have prevented a wrong answer, as far as the data of a case say.

A case that should have been deferred counts as that, whoever else was right on it. Otherwise the
guideline knew better where it answered the case right. Nobody could tell where the truth was not
the most likely answer given the findings; where these chances are not known, where every baseline
that reads the findings and answered was wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from krisis.answers import AnswerSet, canonical_label
from krisis.json_values import JsonMapping
from krisis.metrics.base import EvaluationResult

ErrorKind = Literal["deferral", "guideline", "nobody", ""]
ERROR_KINDS: dict[ErrorKind, str] = {
    "deferral": "should have deferred",
    "guideline": "guideline knew better",
    "nobody": "nobody could tell",
}
_GUIDELINE = "guideline"
_BLIND = ("majority", "always-", "rule/always")  # baselines that answer without the findings


def error_kind(
    row: EvaluationResult,
    baselines: Mapping[str, object],
    answers: AnswerSet | None = None,
) -> ErrorKind:
    """Say what would have prevented the wrong answer of a row; nothing where the data do not.

    ``baselines`` are the answers that baselines gave to the case; one that gave none is absent.

    >>> wrong = EvaluationResult(1, 0, metadata={"should_abstain": False})
    >>> error_kind(wrong, {"guideline": 0}), error_kind(wrong, {"guideline": 1})
    ('guideline', 'nobody')
    """
    same = (answers or AnswerSet()).same
    if row.metadata.get("should_abstain") is True:
        return "deferral"
    right = {name: same(answer, row.ground_truth) for name, answer in baselines.items()}
    if any(is_right for name, is_right in right.items() if _first_word(name) == _GUIDELINE):
        return "guideline"
    if chances := answer_chances(row.metadata):
        truth = chances.get(str(canonical_label(row.ground_truth)), 0.0)
        return "nobody" if truth < max(chances.values()) else ""
    informed = [is_right for name, is_right in right.items() if not name.startswith(_BLIND)]
    return "nobody" if informed and not any(informed) else ""


def answer_chances(metadata: JsonMapping) -> dict[str, float]:
    """Return the probability of each answer given the findings, where the suite knows it."""
    stated = metadata.get("answer_probabilities")
    if not isinstance(stated, Mapping):
        return {}
    known = {str(k): v for k, v in stated.items() if isinstance(v, int | float) and 0 <= v <= 1}
    return known if len(known) == len(stated) else {}


def _first_word(name: str) -> str:
    return name.partition(" ")[0]
