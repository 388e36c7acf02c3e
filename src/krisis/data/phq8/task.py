"""What is asked about each item, and the reply that is expected."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BeforeValidator

from krisis.data.base import CostTable, FeatureDescription, ReplyField, Task, TotalScale
from krisis.data.phq8.items import SCORE_MEANINGS, Item
from krisis.data.phq8.retrieval import Retrieved

NO_REFERENCES = "none found"


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a confidence from 1 to 5 is not true or false")
    return value


# An enumeration, because not every provider's schema dialect knows bounds.
Certainty = Annotated[Literal[1, 2, 3, 4, 5], BeforeValidator(_no_boolean)]

_ON_THE_SCALE = (
    "quadratic_weighted_kappa",
    "mean_absolute_error",
    "total_mae",
    "total_bias",
    "total_correlation",
    "screening_sensitivity",
    "screening_specificity",
)
TASK = Task(
    name="phq8",
    question=(
        "The context is the transcript of an interview. Each case names one symptom. On how many "
        "days of the two weeks before the interview was the participant bothered by it? Judge "
        "from what the participant says about themselves in the transcript, and score each "
        "symptom on its own."
    ),
    answers=SCORE_MEANINGS,
    features={
        "item": FeatureDescription("symptom to score"),
        "references": FeatureDescription(
            "scored passages of other people",
            meaning=(
                "passages from interviews with other people, each with the score that person got "
                "for this symptom; they show how to score and say nothing about this participant"
            ),
        ),
    },
    abstain_when=(
        "Abstain on a symptom when the transcript does not show how often it was there: the topic "
        "never came up, the participant would not answer, what is said is about another person or "
        "another time, no frequency can be told, or statements contradict each other without one "
        "being taken back."
    ),
    aliases={
        "not at all": 0,
        "several days": 1,
        "more than half the days": 2,
        "nearly every day": 3,
        "n/a": None,
        "not applicable": None,
    },
    ordered=True,
    groups={"item": "item"},
    default_loss="abs_norm",
    default_confidence="llm",
    metrics=(
        "right_decisions",
        "answerable_accuracy",
        "undue_answer_rate",
        *_ON_THE_SCALE,
    ),
    total=TotalScale(n_items=8, max_missing=2, cut_off=10, bands=(5, 10, 15, 20)),
    person="participant",
    unit="item",
    costs=CostTable.by_distance(
        SCORE_MEANINGS,
        too_low=100.0,
        too_high=50.0,
        defer=20.0,
        note=(
            "Convention: every point that an item is scored too low costs 100, too high 50, and a "
            "person who asks about the item 20; no study of costs."
        ),
    ),
    reply_fields={
        "evidence_quotes": ReplyField(
            list[str],
            "the participant's own words that the score rests on, copied exactly from the "
            "transcript, at least three words or a whole turn, one quote per passage; an empty "
            "list when there are none",
        ),
        "verbalized_confidence": ReplyField(
            Certainty | None,
            "how sure you are of this score or of abstaining, from 1 (a guess) to 5 (certain)",
        ),
    },
)
# Of interviews that somebody brings nobody knows which items they give no evidence for.
TASK_WITHOUT_DEFERRAL = replace(TASK, metrics=_ON_THE_SCALE)


def item_words(item: Item) -> str:
    """Name an item for a model."""
    return f"{item.words}: {item.question}"


def references_in_words(retrieved: Retrieved) -> str:
    """Write references on one line; the order and the scores are all that a model learns."""
    shown = [f"(score {one.score}) «{one.passage}»" for one in retrieved.references]
    return " ".join(shown) or NO_REFERENCES
