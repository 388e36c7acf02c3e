"""The viewer over 1,000 runs and over a run of 1,000,000 rows: times and memory of the server.

``python -m benchmarks.viewer [N_ROWS [N_RUNS]]``, 0 for none; all takes minutes and 4 GB of disk.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import uvicorn
from tests.invented_runs import invented_rows, result_of, write_run

from benchmarks.timing import line
from krisis.results.call_totals import CallTotals
from krisis.runs.description import Identity, RunDescription
from krisis.runs.write import RowPlace, RunWriter, StoredCase
from krisis.viewer.app import create_app
from krisis.viewer.pages.pair import MOST_ROWS

QUERIES: dict[str, dict[str, str]] = {
    "unfiltered": {},
    "last page": {"page": "1000000"},
    "outcome": {"outcome": "not_evaluated"},
    "correctness, surest first": {"correct": "no", "sort": "-confidence"},
    "cell": {"cell": "answer_when_should_defer"},
    "group": {"group": "stage: 3"},
    "range": {"confidence_min": "0.5", "confidence_max": "0.6"},
    "deferred at": {"deferred_at": "0.7", "sort": "confidence"},
}
TEXTS = {
    "rare word": "0777777",
    "common word": "confidence",
    "one letter": "e",
    "word that is nowhere": "qqzzy",
    "name of a record": "case-0777777",
    "three common words": "albumin is not",
}
COMMON_PHRASE = '"albumin is not"'
_REPLY = "The patient has an eGFR near the threshold and the albumin is not stated. " * 5


class Server:
    """A viewer in a process of its own, over a cache of its own."""

    def __init__(self, folder: Path, cache: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.viewer", "serve", str(folder)]
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def get(self, path: str, **query: str) -> tuple[float, int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        with closing(connection):
            start = time.perf_counter()
            connection.request("GET", f"{path}?{urlencode(query)}" if query else path)
            answer = connection.getresponse()
            body = answer.read()
            return time.perf_counter() - start, answer.status, body

    def best(self, path: str, *, repeats: int = 5, **query: str) -> float:
        return min(self.get(path, **query)[0] for _ in range(repeats))

    def megabytes(self, pid: int | None = None) -> float:
        """Return the most memory that a process has had."""
        status = Path(f"/proc/{pid or self._process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1000

    def worker(self) -> int | None:
        """Return the process that indexes, while there is one, or else that which draws."""
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            found = (task / "children").read_text(encoding="ascii").split()
            if found:
                return int(found[0])
        return None

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()


def serve(folder: Path) -> None:
    configuration = uvicorn.Config(create_app(folder), port=0, log_level="warning", lifespan="off")
    socket = configuration.bind_socket()
    socket.listen()
    print(socket.getsockname()[1], flush=True)
    uvicorn.Server(configuration).run(sockets=[socket])


def write_long_run(path: Path, n_rows: int, *, skill: float = 1.0) -> Path:
    """Write a long run ``PATH.krisis`` that has not ended, of about 1 kB a row."""
    draws = np.random.default_rng(0)
    kinds = invented_rows(997, skill=skill)
    egfr = draws.uniform(10, 90, n_rows).round(3).tolist()
    cases = [
        StoredCase(
            record_id=f"case-{i:07d}",
            cluster_id=f"patient-{i // 2:07d}",
            label=kinds[i % 997].ground_truth,
            metadata={**kinds[i % 997].metadata, "egfr": egfr[i]},
        )
        for i in range(n_rows)
    ]
    described = RunDescription(
        run_id=path.name,
        created_at="2026-01-02T03:04:05Z",
        backend_name="openai/long",
        n_cases=n_rows,
        identity=Identity(n_records=n_rows),
        suite_description={"suite": "ckd", "task": "detection"},
    )
    run = path.with_name(f"{path.name}.krisis")
    writer = RunWriter.create(run, described, cases)
    writer.begin_session({})
    order = draws.permutation(n_rows).tolist()  # calls end in no order
    for start in range(0, n_rows, 8):
        places = order[start : start + 8]
        rows = [
            replace(
                kinds[i % 997],
                record_id=cases[i].record_id,
                cluster_id=cases[i].cluster_id,
                metadata=cases[i].metadata,
                raw_response=f"{_REPLY}{i:07d}{kinds[i % 997].raw_response}",
            )
            for i in places
        ]
        writer.append([RowPlace(i, i) for i in places], rows, CallTotals())
    writer.close()
    return run


def _runs(folder: Path, n_runs: int) -> None:
    seconds = {}
    for number in (n_runs // 4, n_runs):
        runs = folder / f"runs-{number}"
        one = write_run(folder / f"one-{number}", result_of(invented_rows(60)))
        for i in range(number):
            runs.mkdir(exist_ok=True)
            shutil.copy(one, runs / f"run-{i:04d}.krisis")
        server = Server(runs, folder / "cache")
        seconds[number] = server.get("/index.json")[0]
        again = server.best("/")
        server.close()
        server = Server(runs, folder / "cache")
        from_index = server.get("/")[0]
        server.close()
    line(f"first scan of {n_runs:,} runs", f"{seconds[n_runs]:.2f} s", "(no limit)", True)
    ratio = seconds[n_runs] / seconds[n_runs // 4]
    line("… against a quarter of them", f"{ratio:.1f} ×", "≤ 6 × (linear: 4)", ratio <= 6)
    line(f"list of {n_runs:,} runs afterwards", f"{again * 1000:.0f} ms", "≤ 300 ms", again <= 0.3)
    line("… first view of a new server", f"{from_index * 1000:.0f} ms", "(no limit)", True)


def _rows(folder: Path, n_rows: int) -> None:
    runs = folder / "long"
    if not runs.is_dir():
        write_long_run(runs / "long", n_rows)
        write_run(runs / "small", result_of(invented_rows(160)))
    size = (runs / "long.krisis").stat().st_size
    print(f"  a run of {size / 1e6:,.0f} MB and {n_rows:,} rows")
    server = Server(runs, folder / "cache")
    server.get("/runs/small/cases")
    usual = float(np.median([server.get("/runs/small/cases")[0] for _ in range(40)]))
    start = time.perf_counter()
    beside, worker_peak = [], 0.0
    while server.get("/runs/long/cases.json")[1] == 202:
        beside += [server.get("/runs/small/cases")[0] for _ in range(3)]
        worker = server.worker()
        if worker is not None:
            worker_peak = max(worker_peak, server.megabytes(worker))
        time.sleep(0.2)
    line("indexing, report included", f"{time.perf_counter() - start:.0f} s", "(no limit)", True)
    sizes = [path.stat().st_size for path in (folder / "cache").rglob("*") if path.is_file()]
    line("the index on disk", f"{sum(sizes) / 1e6:,.0f} MB", "(no limit)", True)
    line("memory of the process that indexes", f"{worker_peak:,.0f} MB", "(no limit)", True)
    ratio = float(np.median(beside)) / usual
    words = f"{1000 * usual:.1f} ms, {ratio:.2f} ×"
    line("page of a small run before and meanwhile (medians)", words, "≤ 2 ×", ratio <= 2)
    for words, query in QUERIES.items():
        seconds = server.best("/runs/long/cases", **query)
        line(f"cases, {words}", f"{seconds * 1000:.0f} ms", "≤ 150 ms", seconds <= 0.15)
    for words, text in TEXTS.items():
        seconds = server.get("/runs/long/cases", text=text)[0]
        line(f"cases, {words}, first time", f"{seconds * 1000:.0f} ms", "≤ 150 ms", seconds <= 0.15)
    seconds = server.get("/runs/long/cases", text=COMMON_PHRASE)[0]
    line("cases, common phrase, first time", f"{seconds * 1000:.0f} ms", "(no limit)", True)
    seconds = server.best("/runs/long/cases", text=COMMON_PHRASE)
    line("cases, common phrase, again", f"{seconds * 1000:.0f} ms", "≤ 150 ms", seconds <= 0.15)
    for page in (*("", "/cases/777", "/decide", "/decide?wrong=5", "/decide?answer=60"), ".json"):
        first = server.get(f"/runs/long{page}")
        words = f"{first[0] * 1000:.0f}, {server.best(f'/runs/long{page}') * 1000:.0f} ms"
        line(f"page {page or 'of the run'}, first and again", words, "(no limit)", first[1] == 200)
    server.get("/runs/small")
    if n_rows > MOST_ROWS:
        refused = server.get("/compare?run=long&run=small")[1]
        line("comparison of that run", f"status {refused}", "refused: 400", refused == 400)
    _memory(server)
    server.close()


def _memory(server: Server) -> None:
    peak, drawing = server.megabytes(), server.worker()
    line("memory of the server, all pages seen", f"{peak:,.0f} MB", "≤ 400 MB", peak <= 400)
    if drawing is not None:
        words = f"{server.megabytes(drawing):,.0f} MB"
        line("memory of the process that draws", words, "(no limit)", True)


def _pair(folder: Path, n_rows: int) -> None:
    runs = folder / "pair"
    for name, skill in (("left", 1.0), ("right", 0.9)):
        write_long_run(runs / name, n_rows, skill=skill)
    server = Server(runs, folder / "cache")
    for name in ("left", "right"):
        while server.get(f"/runs/{name}/cases.json")[1] == 202:
            time.sleep(0.2)
    start, status = time.perf_counter(), 202
    while status == 202:
        status = server.get("/compare?run=left&run=right")[1]
    seconds = time.perf_counter() - start
    line(f"comparison of 2 × {n_rows:,} rows", f"{seconds:.1f} s", "(no limit)", status == 200)
    again = server.best("/compare?run=left&run=right")
    line("… again", f"{again * 1000:.0f} ms", "(no limit)", True)
    for page in ("/compare/cases?run=left&run=right", "/runs/left", "/runs/right/decide?wrong=5"):
        first = server.get(page)
        line(f"page {page}", f"{first[0] * 1000:.0f} ms", "(no limit)", first[1] == 200)
    _memory(server)
    server.close()


def main() -> None:
    given = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    n_rows, n_runs = (*given, *(1_000_000, 1_000)[len(given) :])
    with tempfile.TemporaryDirectory() as folder:
        if n_runs:
            _runs(Path(folder), n_runs)
        if n_rows:
            _rows(Path(folder), n_rows)
            _pair(Path(folder), n_rows // 10)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]))
    else:
        main()
