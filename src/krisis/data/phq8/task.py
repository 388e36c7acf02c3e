"""What is asked about each item, and the reply that is expected."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BeforeValidator

from krisis.costs import Costs
from krisis.data.base import FeatureDescription, ReplyField, Task, TotalScale
from krisis.data.phq8.items import SCORE_MEANINGS, Item
from krisis.data.phq8.retrieval import Retrieved
from krisis.texts import stated_in

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
_STATED = stated_in(__package__, "task.toml")
TASK = Task(
    name="phq8",
    question=_STATED["question"],
    paraphrase=_STATED["paraphrase"],
    answers=SCORE_MEANINGS,
    features={name: FeatureDescription(**one) for name, one in _STATED["features"].items()},
    policy=tuple(_STATED["policy"]),
    aliases={**_STATED["aliases"], "n/a": None, "not applicable": None},
    ordered=True,
    groups={"item": "item"},
    default_loss="abs_norm",
    default_confidence="llm",
    metrics=(
        "right_decisions",
        "answerable_accuracy",
        "inappropriate_answer_rate",
        *_ON_THE_SCALE,
    ),
    total=TotalScale(n_items=8, max_missing=2, cut_off=10, bands=(5, 10, 15, 20)),
    person="participant",
    unit="item",
    costs=Costs.by_distance(SCORE_MEANINGS, **_STATED["costs"]),
    reply_fields={
        "evidence_quotes": ReplyField(list[str], _STATED["reply"]["evidence_quotes"]),
        "verbalized_confidence": ReplyField(
            Certainty | None, _STATED["reply"]["verbalized_confidence"]
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
