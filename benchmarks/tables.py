"""Data sheet and first records of a table of 1,000,000 × 30, against a plain scan of the file."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import line

N_ROWS, N_NUMBERS, N_CATEGORIES = 1_000_000, 20, 6
# The floor: every value of every column is read once and summed, of texts the length. Smallest and
# largest values would be no scan, since DuckDB takes them from the statistics of the file, and
# dearer aggregates would measure themselves. It opens a connection, as each work does; half of its
# time is that of memory asked for the first time, which a connection that has read the file before
# does not spend: the ratio to such a scan is printed beside it.
SCAN = """
import duckdb
warm = duckdb.connect()
file = "{folder}/table.parquet"
columns = warm.execute(f"describe select * from '{{file}}'").fetchall()
cells = ", ".join(
    f"sum(length({{row[0]}}))" if row[1] == "VARCHAR" else f"sum({{row[0]}})" for row in columns
)
def scan():
    warm.execute("set enable_progress_bar = false")
    warm.execute(f"select {{cells}} from '{{file}}'").fetchall()
def opened():
    with duckdb.connect() as connection:
        connection.execute("set enable_progress_bar = false")
        connection.execute(f"select {{cells}} from '{{file}}'").fetchall()
"""
CHECK = """
from pathlib import Path
from krisis.data.base import SuiteConfig
from krisis.data.table.check import check_suite
from krisis.data.table.sheet import sheet_text
def work():
    sheet = check_suite(Path("{folder}/suite.yaml"), SuiteConfig()).sheet
    assert len(sheet_text(sheet, {{}})) > 1000
"""
FIRST = """
from krisis.data.table.suite import TableSuite
def work():
    assert len(TableSuite("{folder}/suite.yaml").first(1000)) == 1000
"""
# Scan and work take turns, so that a busy machine slows both; each work has a process of its own
# for its memory. The times are those of the work alone, without the start of Python.
MEASURED = """
import json, resource, sys, time
def timed(action):
    start, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - start, time.process_time() - cpu
scan()
found = [(*timed(scan), *timed(opened), *timed(work)) for _ in range({repeats})]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
best = [min(column) for column in zip(*found)]
print(json.dumps([*best, peak / (1e6 if sys.platform != "darwin" else 1e9)]))
"""


def main() -> None:
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), duckdb.connect())
        for what, code, most in (
            ("krisis data check", CHECK, 15),
            ("loading the first 1,000 records", FIRST, 3),
        ):
            again, again_cpu, floor, floor_cpu, seconds, cpu, gigabytes = _measured(
                code, folder, repeats=5
            )
            ratio, cpu_ratio = seconds / floor, cpu / floor_cpu
            line("plain scan of all columns", f"{floor:.2f} s", "(floor)", True)
            line(what, f"{seconds:.2f} s, {ratio:.1f} ×", f"≤ {most} ×", ratio <= most)
            line("  CPU", f"{cpu:.2f} s, {cpu_ratio:.1f} ×", "(no limit)", True)
            beside = f"{seconds / again:.1f} ×, CPU {cpu / again_cpu:.1f} ×"
            line("  against a second scan by one connection", beside, "(no limit)", True)
            line("  peak memory", f"{gigabytes:.2f} GB", "≤ 1 GB", gigabytes <= 1)


def _measured(code: str, folder: str, *, repeats: int) -> list[float]:
    program = (SCAN + code).format(folder=folder) + MEASURED.format(repeats=repeats)
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )
    found: list[float] = json.loads(done.stdout)
    return found


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
