"""A finished run in plain values, as the file format of a suite reads and writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from krisis.answers import Label
from krisis.json_values import JsonMapping
from krisis.outcomes import NO_ANSWER_CLASSES
from krisis.task_facts import TaskFacts


@dataclass(frozen=True, slots=True)
class PlainRow:
    """One record of a finished run as a file format knows it.

    ``prediction`` is None where the model abstained; ``failed`` says why there is no answer, in a
    class of failures where it is known, and ``truth`` may then be unknown.
    """

    cluster_id: Label
    item: str
    truth: Label | None
    prediction: Label | None
    signals: JsonMapping = field(default_factory=dict)
    failed: str | None = None
    failure_class: str = ""

    @property
    def has_no_answer(self) -> bool:
        """Tell whether the model replied, and not with an answer."""
        return self.failed is not None and self.failure_class in NO_ANSWER_CLASSES


@dataclass(frozen=True, slots=True)
class PlainRun:
    """A finished run in plain values: what a file format reads and what it writes."""

    suite: str
    task: TaskFacts
    rows: Sequence[PlainRow]
    run_id: str | None = None
    git_commit: str | None = None
    mode: str | None = None
    provenance: JsonMapping = field(default_factory=dict)
