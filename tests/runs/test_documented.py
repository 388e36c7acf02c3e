"""The page of the run file is true: its tables and columns, and its queries in plain sqlite3."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.invented_runs import invented_rows, result_of, write_run

from krisis.runs.schema import APPLICATION_ID, TABLES

PAGE = (Path(__file__).parents[2] / "docs/reference/run-file.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, flags=re.DOTALL)


def test_every_table_and_column_is_on_the_page() -> None:
    lines = {line.split("`")[1]: line for line in PAGE.splitlines() if line.startswith("| `")}
    assert set(lines) == {*TABLES, "run_copy", "texts"}
    for table, columns in TABLES.items():
        for column in columns:
            assert f"`{column}`" in lines[table], f"{table}.{column}"
    assert str(APPLICATION_ID) in PAGE


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.split("\n")[0][:40])
def test_a_query_of_the_page_works(query: str, tmp_path: Path) -> None:
    rows = invented_rows(60)
    run = write_run(tmp_path / "run", result_of(rows))
    with closing(sqlite3.connect(run)) as connection:
        found = connection.execute(query).fetchall()
    assert found
    if "accuracy" in query:
        women = [r for r in rows if r.metadata["sex"] == "female" and r.outcome != "not_evaluated"]
        right = sum(r.outcome == "answered" and r.prediction == r.ground_truth for r in women)
        assert found[0] == ("female", round(right / len(women), 3), len(women))
    if shutil.which("sqlite3"):
        told = subprocess.run(
            ["sqlite3", "-readonly", str(run), query], capture_output=True, text=True, check=True
        )
        assert len(told.stdout.splitlines()) >= len(found)


def test_there_are_three_queries() -> None:
    assert len(QUERIES) == 3
