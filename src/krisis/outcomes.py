"""What became of a case: answered, abstained, no answer, or not evaluated.

====================  ==============================================================
answered              an allowed answer, right or wrong
abstained             the model declined
no_answer             the model replied, and the reply is no allowed answer
not_evaluated         no reply exists: time-out, refused key, network, budget
====================  ==============================================================
"""

from __future__ import annotations

from typing import Literal, get_args

Outcome = Literal["answered", "abstained", "no_answer", "not_evaluated"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
# Those of which a reply of the model exists: the denominator of most metrics.
EVALUATED: tuple[Outcome, ...] = OUTCOMES[:3]
WORDS: dict[Outcome, str] = {
    "answered": "answered",
    "abstained": "abstained",
    "no_answer": "no answer",
    "not_evaluated": "not evaluated",
}

NOT_ALLOWED = "not_allowed"  # an answer that the task does not allow
NO_PREDICTION = "no_prediction"  # neither an answer nor an abstention
# The failure classes of a reply that came and is no answer; in every other class none came.
NO_ANSWER_CLASSES = frozenset({"malformed_reply", "content_filter", NOT_ALLOWED, NO_PREDICTION})


def outcome_of(*, abstained: bool, error: str | None, failure_class: str) -> Outcome:
    """Return the outcome of a row.

    A row without an error is an answer unless it abstains, as the seeds have it: a prediction that
    is None or unknown is then a wrong answer.

    >>> outcome_of(abstained=False, error="cut off", failure_class="malformed_reply")
    'no_answer'
    """
    if error is not None:
        return "no_answer" if failure_class in NO_ANSWER_CLASSES else "not_evaluated"
    return "abstained" if abstained else "answered"
