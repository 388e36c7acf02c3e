"""The rows of a result that stay in their file: counted, scored by columns, never listed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn, SupportsIndex

import numpy as np

from krisis.errors import InvalidValue
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import ColumnTable
from krisis.metrics.labels import Answers
from krisis.results.attrition import Attrition


class ColumnRows(Rows):
    """Rows of which there is only the table."""

    __slots__ = ("attrition",)

    def __init__(self, table: ColumnTable, attrition: Attrition) -> None:
        super().__init__((), table.answers)
        self._table = table
        self.attrition = attrition

    @property
    def table(self) -> ColumnTable:
        """Return the columns."""
        assert isinstance(self._table, ColumnTable)
        return self._table

    def with_answers(self, answers: Answers | None) -> Rows:
        """Return the same rows with another knowledge of their task."""
        known = answers or Answers()
        if self.answers == known:
            return self
        return ColumnRows(self.table.with_answers(known), self.attrition)

    def __len__(self) -> int:
        return self.table.n_rows

    def __iter__(self) -> Iterator[EvaluationResult]:
        self._refuse()

    def __getitem__(self, index: SupportsIndex | slice) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        place = self.table.reader.place
        raise InvalidValue(
            f"{place} has {len(self):,} rows, which are scored by columns and not listed one by "
            "one; use a smaller file or a run"
        )

    def by_source(self) -> dict[str, Rows]:
        """Return the rows of real patients, of synthetic ones and of those that do not say.

        Which source a row without a reply is of is not read: the parts do not count those.
        """
        codes = {False: 0, True: 1}
        column = self.table.reader.metadata_column("synthetic")
        if column is None:
            return {"unstated": self}
        told = [codes[v] if isinstance(v, bool) else 2 for v in column.values]
        stated = np.array(told, dtype=np.int64)[column.code]
        found: dict[str, Rows] = {}
        for code, name in enumerate(("real", "synthetic", "unstated")):
            if (stated == code).any():
                part = self.table.restricted(stated == code)
                counts = (part.n_answered, part.n_abstained, part.n_no_answer)
                found[name] = ColumnRows(part, Attrition(part.n_scored, part.n_scored, *counts))
        return found
