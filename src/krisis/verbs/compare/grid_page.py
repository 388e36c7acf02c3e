"""The document of a grid: the runs of every task best first, then their pairs, then the cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from krisis.display import Documented
from krisis.pages.document import Cell, Column, Document, Section, Sentences, Table
from krisis.results.base import BenchmarkResult
from krisis.results.side_by_side import side_by_side
from krisis.verbs.compare.comparison import Comparison
from krisis.verbs.compare.page import (
    best_sentences,
    many_runs_sections,
    runs_sections,
    spending_table,
)


@dataclass(frozen=True, slots=True)
class TaskRuns:
    """The runs of one task on the same cases, compared unless ``reason`` says why not."""

    title: str
    runs: Mapping[str, BenchmarkResult]
    comparison: Comparison | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GridResult(Documented):
    """How every cell of a grid ended (its name, its end, its run), and its runs by task."""

    name: str
    cells: Sequence[tuple[str, str, str]]
    tasks: Sequence[TaskRuns]
    builder: ClassVar[str] = "krisis.verbs.compare.grid_page:grid_document"


def grid_document(grid: GridResult) -> Document:
    """Return all there is to show of a grid."""
    lead = [
        f"{one.title}: {line}"
        for one in grid.tasks
        if one.comparison is not None
        for line in best_sentences(one.comparison)
    ]
    sections = [part for one in grid.tasks for part in _task(one)]
    rows: list[list[Cell]] = [[*cell] for cell in grid.cells]
    columns = [Column("name", heading) for heading in ("cell", "end", "run")]
    return Document(
        title=f"Grid of {len(grid.cells)} runs · {grid.name}",
        lead=lead,
        sections=[
            *sections,
            Section(key="cells", title="Cells", parts=[Table(columns=columns, rows=rows)]),
        ],
        first=[one.key for one in sections if not one.folded],
    )


def _task(task: TaskRuns) -> list[Section]:
    if task.comparison is None:
        first, *others = runs_sections(side_by_side(task.runs))
        reason = Sentences([f"No comparison: {task.reason}"])
        found = [replace(first, parts=[*first.parts, reason]), *others]
    else:
        found = list(many_runs_sections(task.comparison))
    found.append(
        Section(
            key="spending",
            title="Time, tokens and cost",
            parts=[spending_table(task.runs)],
            folded=True,
        )
    )
    return [
        replace(one, key=f"{task.title}: {one.key}", title=f"{task.title}: {one.title}")
        for one in found
    ]
