"""Sentences that every report shows, from scores and from how the run went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from krisis.metrics.base import MetricScore
from krisis.metrics.disease import NO_POSITIVE, default_classification_metrics
from krisis.results.stops import Decided
from krisis.task_facts import TaskFacts

if TYPE_CHECKING:
    from krisis.results.base import BenchmarkResult

DISEASE_KEYS = tuple(metric.key for metric in default_classification_metrics())


def headline(result: BenchmarkResult) -> MetricScore | None:
    """Return the score that the task names as its headline, where the run has it."""
    task = result.provenance.task_facts
    if task is None or not task.metrics:
        return None
    score: MetricScore | None = result.metric_scores.get(task.metrics[0])
    return score


def note_lines(scores: Mapping[str, MetricScore]) -> list[str]:
    """Return what must be read beside figures, each note after the figures that have it."""
    names: dict[str, list[str]] = {}
    for score in scores.values():
        if isinstance(note := score.details.get("note"), str):
            names.setdefault(note, []).append(score.name)
    return [f"{', '.join(those)}: {note}" for note, those in names.items()]


def has_no_disease(score: MetricScore) -> bool:
    """Tell whether a score is of a disease that the task does not name."""
    return score.details.get("reason") == NO_POSITIVE


def _disease_scores(scores: Mapping[str, MetricScore]) -> list[MetricScore]:
    found = [scores.get(key) for key in DISEASE_KEYS]
    return [score for score in found if score is not None and not has_no_disease(score)]


def disease_words(scores: Mapping[str, MetricScore], task: TaskFacts | None) -> str:
    """Say which answer is the disease whose figures are shown, or that the task names none."""
    found = _disease_scores(scores)
    if found:
        positive = found[0].details["positive"]
        return f"Disease: {answer_words(positive, task)}, against all other answers."
    if DISEASE_KEYS[0] not in scores or task is None or not task.answers:
        return ""
    return (
        "The task names no positive answer, so no sensitivity of a disease is defined; name it "
        "with `positive` (in a suite or suite file) or `--positive` (of an import)."
    )


def answer_words(label: int | str, task: TaskFacts | None) -> str:
    """Name an answer by its words, where the task has them.

    >>> answer_words(1, TaskFacts("detection", ((1, "present"),))), answer_words(1, None)
    ('present', '1')
    """
    return task.words(label) if task else str(label)


def stopping_lines(result: BenchmarkResult) -> list[str]:
    """Say why rows are missing, and what a rule to stop found."""
    stop, rule, n_left = result.stop, result.stop_rule, result.n_left
    records = "1 record" if n_left == 1 else f"{n_left} records"
    lines = []
    if isinstance(stop, Decided):
        lines = [f"STOPPED AS ASKED: {records} not asked ({stop})", optional_stopping(result)]
    elif stop is not None:
        lines = [f"INCOMPLETE: {records} not asked yet ({stop})"]
    if rule is not None and not isinstance(stop, Decided):
        lines.append(f"Rule to stop by: {rule.sentence}")
    if rule is not None and rule.e_value is not None:
        lines.append(
            f"The rule assumes independent {_persons(result)}; looking after every record, it "
            "decides wrongly in at most 5 % of runs."
        )
    return lines


def _persons(result: BenchmarkResult) -> str:
    task = result.provenance.task_facts
    return f"{task.person if task else 'patient'}s"


def optional_stopping(result: BenchmarkResult) -> str:
    """Say that the figures of a run that its own answers ended lean towards their end."""
    if not isinstance(result.stop, Decided):
        return ""
    name, rule = result.backend_name or "This run", result.stop_rule
    if rule is not None and rule.e_value is None:
        return (
            f"{name} stopped when its interval was narrow enough, so the number of its records "
            "depended on its answers, and its intervals hold asymptotically (optional stopping)."
        )
    return (
        f"{name} stopped when its own answers had decided, so its estimates, intervals and "
        "p-values lean towards that decision (optional stopping); only the decision itself allows "
        "for it."
    )


def mixture(result: BenchmarkResult) -> str:
    """Say that a run is over different kinds of patients, whose figures must be read apart."""
    if not result.scores_by_source:
        return ""
    kinds = " and ".join(result.scores_by_source)
    return (
        f"{result.backend_name or 'This run'} is over {kinds} patients; "
        "a figure of all of them together is a result for neither."
    )
