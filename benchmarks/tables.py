"""Data sheet and first records of a table of 1,000,000 × 30, against a plain scan of the file."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import line

N_ROWS, N_NUMBERS, N_CATEGORIES = 1_000_000, 20, 6
# Each in a process of its own, so that the memory of one does not count against the next. The
# time is that of the work alone, without the start of Python.
SCAN = """
import duckdb
connection = duckdb.connect()
connection.execute("set enable_progress_bar = false")
file = "{folder}/table.parquet"
columns = connection.execute(f"describe select * from '{{file}}'").fetchall()
# Sums: smallest and largest values would be read from the statistics of the file.
cells = ", ".join(
    f"sum(length({{row[0]}}))" if row[1] == "VARCHAR" else f"sum({{row[0]}})" for row in columns
)
def work():
    connection.execute(f"select {{cells}} from '{{file}}'").fetchall()
"""
CHECK = """
import duckdb
from pathlib import Path
from krisis.data.base import SuiteConfig
from krisis.data.table.sheet import data_sheet, sheet_text
def work():
    sheet, tables = data_sheet(Path("{folder}/suite.yaml"), SuiteConfig())
    assert len(sheet_text(sheet, {{}})) > 1000
"""
FIRST = """
import duckdb
from krisis.data.table.suite import TableSuite
def work():
    assert len(TableSuite("{folder}/suite.yaml").first(1000)) == 1000
"""
MEASURED = """
import json, resource, sys, time
found = []
for _ in range({repeats}):
    start, cpu = time.perf_counter(), time.process_time()
    work()
    found.append((time.perf_counter() - start, time.process_time() - cpu))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
best = [min(column) for column in zip(*found)]
print(json.dumps([*best, peak / (1e6 if sys.platform != "darwin" else 1e9)]))
"""


def main() -> None:
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), duckdb.connect())
        floor, floor_cpu, _ = _measured(SCAN, folder, repeats=5)
        words = "plain scan of all columns"
        line(words, f"{floor:.2f} s, CPU {floor_cpu:.2f} s", "(floor)", True)
        for what, code, most in (
            ("krisis data check", CHECK, 15),
            ("loading the first 1,000 records", FIRST, 3),
        ):
            seconds, cpu, gigabytes = _measured(code, folder, repeats=3)
            ratio = seconds / floor
            line(what, f"{seconds:.2f} s, {ratio:.1f} ×", f"≤ {most} ×", ratio <= most)
            line("  CPU", f"{cpu:.2f} s, {cpu / floor_cpu:.1f} ×", "(no limit)", True)
            line("  peak memory", f"{gigabytes:.2f} GB", "≤ 1 GB", gigabytes <= 1)


def _measured(code: str, folder: str, *, repeats: int) -> tuple[float, float, float]:
    program = code.format(folder=folder) + MEASURED.format(repeats=repeats)
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )
    seconds, cpu, gigabytes = json.loads(done.stdout)
    return seconds, cpu, gigabytes


def _write(folder: Path, connection: object) -> None:
    numbers = [f"number_{i}" for i in range(N_NUMBERS)]
    categories = [f"category_{i}" for i in range(N_CATEGORIES)]
    cells = [
        "i as record_id",
        "i // 2 as patient_id",
        *(f"case when random() < 0.05 then null else random() * 100 end as {n}" for n in numbers),
        *(f"'value ' || (random() * 5)::int as {name}" for name in categories),
        "['north', 'south', 'east'][1 + i % 3] as site",
    ]
    connection.execute("set enable_progress_bar = false")  # type: ignore[attr-defined]
    connection.execute("select setseed(0.5)")  # type: ignore[attr-defined]
    connection.execute(  # type: ignore[attr-defined]
        f"copy (select *, (coalesce(number_0, 50) + random() * 40 > 70)::int as label from "
        f"(select {', '.join(cells)} from range({N_ROWS}) as r(i))) "
        f"to '{folder / 'table.parquet'}' (format parquet)"
    )
    suite = {
        "suite": "table",
        "name": "large",
        "source": "table.parquet",
        "record_id": "record_id",
        "cluster": "patient_id",
        "split": {"test_size": 0.3, "by": "cluster"},
        "tasks": {
            "main": {
                "question": "Is it so?",
                "label": {"column": "label"},
                "answers": {0: "no", 1: "yes"},
                "deferral": {"when": {"no_value": "number_0 is null"}},
                "features": [*numbers, *categories],
            }
        },
        "features": {name: {"plausible": [1, 100]} for name in numbers},
        "groups": ["site"],
    }
    (folder / "suite.yaml").write_text(json.dumps(suite), encoding="utf-8", newline="")


if __name__ == "__main__":
    main()
