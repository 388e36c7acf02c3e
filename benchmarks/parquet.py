"""Ten million rows of a Parquet file: metrics, intervals and curves by columns."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.timing import line

N_ROWS = 10_000_000
_ROWS = """
select 'r' || i as record_id, 'p' || (i // 2) as cluster_id, truth as ground_truth,
    case when not deferred then if(luck < .5 + .5 * confidence, truth, 1 - truth) end as prediction,
    deferred::int as abstained, confidence, due::int as should_abstain
from (select i, (random() < .4)::int as truth, random() as confidence, random() as luck,
    random() < .1 as deferred, random() < .15 as due from range({n}) rows(i))
"""


def write(path: str) -> None:
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads = 1; select setseed(.3)")  # one order of rows
    connection.execute(f"copy ({_ROWS.format(n=N_ROWS)}) to '{path}' (format parquet)")


def floor(path: str) -> None:
    import duckdb
    import numpy as np

    names = "ground_truth, prediction, abstained, confidence, should_abstain"
    columns = duckdb.connect().execute(f"select {names} from '{path}'").fetchnumpy()
    np.argsort(columns["confidence"])


def points(path: str, *, intervals: bool = False) -> None:
    from krisis.formats.parquet import load_parquet
    from krisis.metrics import BootstrapOptions, default_benchmark_metrics
    from krisis.metrics.scoring import score_all

    options = BootstrapOptions() if intervals else None
    score_all(default_benchmark_metrics(), load_parquet(Path(path)).rows, intervals=options)


def intervals(path: str) -> None:
    points(path, intervals=True)


def _command(*words: str) -> None:
    from krisis.cli.app import app

    app(list(words), standalone_mode=False)


def show(path: str) -> None:
    _command("show", path, "--json")


def selective(path: str) -> None:
    _command(*f"selective --input {path} --output {path}.json --plot {path}.png".split())


STEPS: dict[str, Callable[[str], None]] = {
    one.__name__: one for one in (write, floor, points, intervals, show, selective)
}


def measured(step: str, path: str) -> tuple[float, float]:
    """Return seconds and gigabytes of a step in a process of its own, imports not timed."""
    command = [sys.executable, "-m", "benchmarks.parquet", step, path]
    last = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    seconds, gigabytes = json.loads(last[-1])
    return seconds, gigabytes


def _peak_gigabytes() -> float:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e9


def run(step: str, path: str) -> None:
    import duckdb  # noqa: F401

    import krisis.cli.app
    import krisis.formats.parquet  # noqa: F401

    start = time.perf_counter()
    STEPS[step](path)
    print(json.dumps([time.perf_counter() - start, _peak_gigabytes()]))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "rows.parquet"))
        measured("write", path)
        base = min(measured("floor", path)[0] for _ in range(3))
        for step in ("points", "intervals", "show", "selective"):
            rounds = [measured(step, path) for _ in range(3 if step == "points" else 1)]
            seconds, gigabytes = min(rounds)
            if step == "points":
                ratio = seconds / base
                what = "points, times reading the columns and one argsort"
                line(what, f"{ratio:.1f}× ({seconds:.1f} s)", "≤ 4×", ratio <= 4)
            shown = f"{gigabytes:.2f} GB, {seconds:.0f} s"
            line(f"{step}: most memory", shown, "≤ 2 GB", gigabytes <= 2)


if __name__ == "__main__":
    run(*sys.argv[1:]) if sys.argv[1:] else main()
