"""The flow of records through a run: boxes whose counts add up, as a diagram and as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from krisis.display import spelled_out
from krisis.metrics.base import EvaluationResult
from krisis.outcomes import EVALUATED, NO_ANSWER_CLASSES, WORDS
from krisis.results.attrition import UNCLASSIFIED
from krisis.results.base import BenchmarkResult


@dataclass(frozen=True, slots=True)
class Box:
    """A count of records or askings; ``n_patients`` is None where no row tells it.

    A box of one parent is a part of it: the parts of a box add up to it. ``evaluated`` has three
    parents and is their sum.
    """

    key: str
    label: str
    n: int
    unit: str
    n_patients: int | None = None
    parents: tuple[str, ...] = ()

    def words(self, person: str) -> str:
        """Return the count with its unit, and the patients beside it."""
        counted = f"{self.n:,} {self.unit if self.n == 1 else f'{self.unit}s'}"
        if self.n_patients is None:
            return counted
        return f"{counted}, {self.n_patients:,} {person if self.n_patients == 1 else f'{person}s'}"


def n_patients(rows: Iterable[EvaluationResult]) -> int:
    """Count patients; a row that names none is a patient of its own."""
    return len({row.cluster_id or i for i, row in enumerate(rows)})


def flow(result: BenchmarkResult) -> list[Box]:
    """Return what became of the records of a suite, from the source to the evaluation."""
    made, counts = result.provenance, result.attrition
    task, rows = made.task_facts, result.rows
    repeats = 1 if made.imported else made.repeats or 1
    unit = "asking" if repeats > 1 else (task.unit if task else "record")
    everyone = n_patients(rows) if rows else None
    boxes = _before(result, repeats, everyone)
    whole = None if counts.n_left else everyone
    last = tuple(box.key for box in boxes if box.key != "unselected")[-1:]
    first = "rows expected" if made.imported else "to be asked"
    boxes.append(Box("planned", first, counts.n_loaded, unit, whole, last))
    boxes += _never_asked(result, unit)
    asked = "taken from the file" if made.imported else "asked"
    boxes.append(Box("asked", asked, counts.n_sent, unit, everyone, ("planned",)))
    for outcome, words in WORDS.items():
        n, who = getattr(counts, f"n_{outcome}"), [row for row in rows if row.outcome == outcome]
        boxes.append(Box(outcome, words, n, unit, n_patients(who) if rows else None, ("asked",)))
    for number, (name, failure) in enumerate(counts.failures.items(), start=1):
        lost = [row for row in rows if row.error is not None and _class(row) == name]
        who_lost = n_patients(lost) if rows else None
        parent = "no_answer" if name in NO_ANSWER_CLASSES else "not_evaluated"
        boxes.append(Box(f"class{number}", name, failure.n, unit, who_lost, (parent,)))
    scored = [row for row in rows if row.outcome in EVALUATED]
    who_scored = n_patients(scored) if rows else None
    return [*boxes, Box("evaluated", "evaluated", counts.n_evaluated, unit, who_scored, EVALUATED)]


def _class(row: EvaluationResult) -> str:
    return row.failure_class or UNCLASSIFIED


def _before(result: BenchmarkResult, repeats: int, everyone: int | None) -> list[Box]:
    """Return the records of the suite and those that a limit left out, where they are counted."""
    made, n_selected = result.provenance, result.attrition.n_loaded // repeats
    unit = made.task_facts.unit if made.task_facts else "record"
    n_suite = None if made.imported else made.n_records
    boxes = []
    if n_suite is not None and n_suite >= n_selected:
        n_out = n_suite - n_selected
        boxes.append(Box("suite", "in the suite", n_suite, unit, None if n_out else everyone))
        if n_out:
            limit = f" (limit {made.limit})" if made.limit else ""
            boxes.append(Box("unselected", f"not selected{limit}", n_out, unit, None, ("suite",)))
    if repeats > 1:
        parents = ("suite",) if boxes else ()
        boxes.append(Box("selected", "selected", n_selected, unit, None, parents))
    return boxes


def _never_asked(result: BenchmarkResult, unit: str) -> Iterable[Box]:
    """Return what has no row, and why."""
    n_left, imported = result.attrition.n_left, result.provenance.imported
    parts: dict[str, int] = {}
    if imported:
        parts["not in the file"] = max(0, imported.n_expected - imported.n_read)
        parts["could not be taken"] = imported.n_not_taken
    lost = "lost" if imported or result.damage else "not asked"
    parts[lost] = n_left - sum(parts.values())
    for number, (label, n) in enumerate(parts.items(), start=1):
        if n > 0:
            yield Box(f"left{number}", label, n, unit, None, ("planned",))


# The diagram


def mermaid(boxes: Sequence[Box], person: str) -> str:
    """Return the flow as a Mermaid flowchart."""
    lines = ["flowchart TD"]
    for box in boxes:
        text = f"{_label(box.label)}<br/>{_label(box.words(person))}"
        lines.append(f'    {box.key}["{text}"]')
    lines += [f"    {parent} --> {box.key}" for box in boxes for parent in box.parents]
    return "\n".join(lines)


def _label(text: str) -> str:
    """Write every sign that could end a label, or be read as HTML, as its number."""
    return re.sub(r"[^\w .,()/+-]", lambda match: f"#{ord(match[0])};", _line(text))


def _line(text: str) -> str:
    return " ".join(spelled_out(text).split())


def flow_text(boxes: Sequence[Box], person: str) -> str:
    """Return the flow as text that reads everywhere: parts are indented under their whole."""
    depth: dict[str, int] = {}
    lines: list[tuple[str, str]] = []
    for box in _in_order(boxes):
        is_sum = len(box.parents) > 1
        depth[box.key] = 0 if is_sum or not box.parents else depth[box.parents[0]] + 1
        summed = " + ".join(parent.replace("_", " ") for parent in box.parents)
        label = f"{box.label} = {summed}" if is_sum else box.label
        lines.append((f"{'  ' * depth[box.key]}{_line(label)}", _line(box.words(person))))
    width = max(len(label) for label, _ in lines)
    return "\n".join(f"{label.ljust(width)}  {words}" for label, words in lines).replace("`", "'")


def _in_order(boxes: Sequence[Box], parent: str = "") -> Iterable[Box]:
    """Return each box before its parts; the sum of two boxes comes last."""
    for box in boxes:
        if len(box.parents) < 2 and "".join(box.parents) == parent:
            yield box
            yield from _in_order(boxes, box.key)
    if not parent:
        yield from (box for box in boxes if len(box.parents) > 1)
