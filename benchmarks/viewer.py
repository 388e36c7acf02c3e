"""The viewer over 1,000 runs and over a run of 100,000 rows: times and memory of the server.

``python -m benchmarks.viewer [N_ROWS [N_RUNS]]``, 0 for none.
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
from pydantic import TypeAdapter
from tests.invented_runs import ANSWERS, TASK, invented_rows, result_of, write_run

from benchmarks.timing import line
from krisis import __version__
from krisis.metrics.base import Rows
from krisis.results.call_totals import CallTotals
from krisis.runs.description import Identity, RunDescription
from krisis.runs.load import stored_parts
from krisis.runs.write import RowPlace, RunWriter, StoredCase
from krisis.task_facts import TaskFacts
from krisis.viewer.app import create_app
from krisis.viewer.catalogue import MOST_ROWS

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

    def megabytes(self) -> float:
        """Return the most memory that the server has had."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1000

    def cpu_seconds(self) -> float:
        """Return the time that the process and its children have computed."""
        text = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
        return sum(map(int, text.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")

    def cost(self, path: str, **query: str) -> tuple[str, int]:
        """Ask for a page; return its time, what it computed, and its status."""
        before = self.cpu_seconds()
        seconds, status, _ = self.get(path, **query)
        return f"{seconds:.2f} s, {self.cpu_seconds() - before:.2f} s of CPU", status

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
    """Write a run that has ended, of about 1 kB a row."""
    kinds = list(invented_rows(997, skill=skill))
    egfr = np.random.default_rng(0).uniform(10, 90, n_rows).round(3).tolist()
    rows = Rows(
        (
            replace(
                kinds[i % 997],
                record_id=f"case-{i:07d}",
                cluster_id=f"patient-{i // 2:07d}",
                metadata={**kinds[i % 997].metadata, "egfr": egfr[i]},
                raw_response=f"{_REPLY}{kinds[i % 997].raw_response} {i:07d}",
            )
            for i in range(n_rows)
        ),
        ANSWERS,
    )
    result = result_of(rows, "openai/long")
    described = RunDescription(
        run_id=path.stem,
        created_at="2026-01-02T03:04:05Z",
        backend_name="openai/long",
        n_cases=n_rows,
        identity=Identity(n_records=n_rows),
        task=TypeAdapter(TaskFacts).validate_python(TASK),
        suite_description=result.suite_description,
    )
    cases = [
        StoredCase(
            record_id=row.record_id,
            cluster_id=row.cluster_id,
            label=row.ground_truth,
            metadata=row.metadata,
        )
        for row in rows
    ]
    writer = RunWriter.create(path, described, cases)
    writer.begin_session({})
    for start in range(0, n_rows, 1000):
        part = rows[start : start + 1000]
        places = [RowPlace(start + i, start + i) for i in range(len(part))]
        writer.append(places, part, CallTotals(n_calls=1))
    facts, scores = stored_parts(result)
    writer.finish(facts=facts, scores=scores, version=__version__)
    writer.close()
    return path


def _runs(folder: Path, n_runs: int) -> None:
    seconds = {}
    for number in (n_runs // 4, n_runs):
        runs = folder / f"runs-{number}"
        one = write_run(folder / f"one-{number}", result_of(invented_rows(60)))
        runs.mkdir()
        for i in range(number):
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
    path = write_long_run(folder / "long" / "long.krisis", n_rows)
    print(f"  a run of {path.stat().st_size / 1e6:,.0f} MB and {n_rows:,} rows")
    server = Server(path.parent, folder / "cache")
    cost, status = server.cost("/runs/long/cases")
    line("first page of cases", cost, "aim: 1 s of CPU at 100,000", status == 200)
    for words, query in QUERIES.items():
        first = server.get("/runs/long/cases", **query)[0]
        seconds = server.best("/runs/long/cases", **query)
        shown = f"{first * 1000:.0f}, {seconds * 1000:.0f} ms"
        line(f"cases, {words}, first and again", shown, "aim: 50 ms at 100,000", True)
    cost, status = server.cost("/runs/long/cases", text="qqzzy")
    line("first search", cost, "(no limit)", status == 200)
    for words, text in {**TEXTS, "common phrase": COMMON_PHRASE}.items():
        seconds = server.best("/runs/long/cases", text=text)
        line(f"search, {words}", f"{seconds * 1000:.0f} ms", "(no limit)", True)
    kept = sum(file.stat().st_size for file in (folder / "cache").rglob("*") if file.is_file())
    line("the cache on disk", f"{kept / 1e6:,.0f} MB", "(no limit)", True)
    line("memory of the server after these", f"{server.megabytes():,.0f} MB", "≤ 250 MB", True)
    for page in ("/cases/777", "", ".json", "/decide", "/decide?wrong=5", "/decide?answer=60"):
        cost, status = server.cost(f"/runs/long{page}")
        again = server.best(f"/runs/long{page}")
        expected = 400 if n_rows > MOST_ROWS and page != "/cases/777" else 200
        words = f"{cost}; {again * 1000:.0f} ms"
        line(f"page {page or 'of the run'}, first; again", words, "", status == expected)
    _memory(server)
    server.close()


def _memory(server: Server) -> None:
    line("memory of the server, all pages seen", f"{server.megabytes():,.0f} MB", "", True)


def _pair(folder: Path, n_rows: int) -> None:
    runs = folder / "pair"
    for name, skill in (("left", 1.0), ("right", 0.9)):
        write_long_run(runs / f"{name}.krisis", n_rows, skill=skill)
    server = Server(runs, folder / "cache")
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
    n_rows, n_runs = (*given, *(100_000, 1_000)[len(given) :])
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
