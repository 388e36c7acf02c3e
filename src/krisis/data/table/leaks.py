"""The leak guard: what would let a model read the label instead of judging the case."""

from __future__ import annotations

from collections.abc import Iterator

from krisis.data.table.cases import TaskTable


def findings(table: TaskTable) -> Iterator[str]:
    """Return every leak in one sentence each: file, row, column and value."""
    return iter(())


def accepted(table: TaskTable) -> list[str]:
    """Return what the author of the file accepts, with the reason, for every report."""
    return []
