"""One process at a time indexes long runs; a page that needs one meanwhile says how far it is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from krisis import __version__

# After this many seconds a page that is asked for again has a failed indexing tried again.
_RETRY_SECONDS = 30.0
_FORMAT = 2


@dataclass(slots=True)
class Job:
    """The indexing of one run; ``problem`` says why it ended without an index."""

    run: Path
    target: Path
    stage: str = "waiting for another run to be indexed"
    n_done: int = 0
    n_total: int = 0
    problem: str = ""
    ended_at: float = field(default=0.0)

    def __str__(self) -> str:
        if self.problem:
            return f"{self.run.name} could not be indexed: {self.problem}"
        if not self.n_total:
            return f"{self.run.name} is being indexed: {self.stage}"
        rows = f"{self.n_done:,} of {self.n_total:,} rows"
        return f"{self.run.name} is being indexed: {rows} {self.stage}"


class BeingIndexed(Exception):
    """A page of a long run was asked for before its rows could be looked at."""

    def __init__(self, job: Job) -> None:
        super().__init__(str(job))
        self.job = job


class Indexing:
    """The queue of runs to be indexed, and the folders of those that are."""

    def __init__(self, place: Path) -> None:
        self._place = place / "rows"
        self._jobs: dict[Path, Job] = {}
        self._waiting: deque[Job] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def folder(self, run: Path, mark: str) -> Path:
        """Return the index of a run in this state; if there is none yet, have it made."""
        target = self._target(run, mark)
        if target.is_dir():
            return target
        with self._lock:
            job = self._jobs.get(target)
            is_old = job is not None and 0 < job.ended_at < time.monotonic() - _RETRY_SECONDS
            if job is None or is_old or (job.ended_at and not job.problem):
                job = self._jobs[target] = Job(run, target)
                self._waiting.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        raise BeingIndexed(job)

    def earlier(self, run: Path) -> Path | None:
        """Return an index of the run in an earlier state, made by this version."""
        found = self._place.glob(f"{_short(os.fsencode(run))}-{_made_by()}-*")
        return next((folder for folder in found if folder.is_dir()), None)

    def forget(self, run: Path, *, but: Path | None = None) -> None:
        """Remove what is kept of a run, and what a process that was killed left of it."""
        for begun in ("", "."):
            for folder in self._place.glob(f"{begun}{_short(os.fsencode(run))}-*"):
                if folder != but:
                    shutil.rmtree(folder, ignore_errors=True)

    def _target(self, run: Path, mark: str) -> Path:
        names = (_short(os.fsencode(run)), _made_by(), _short(mark.encode()))
        return self._place / "-".join(names)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                job = self._waiting.popleft()
            try:
                _indexed(job)
            except OSError as error:
                job.problem = f"no process can be started ({error.strerror})"
            if not job.problem:
                self.forget(job.run, but=job.target)
            job.ended_at = time.monotonic()


def _indexed(job: Job) -> None:
    """Run the process of one job to its end, noting what it says."""
    job.stage = "reading begins"
    command = [sys.executable, "-m", "krisis.viewer.long_runs", str(job.run), str(job.target)]
    job.target.parent.mkdir(mode=0o700, exist_ok=True)
    with subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.PIPE,  # its end tells the process that the server is gone
        stdout=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    ) as process:
        for line in process.stdout or ():
            with suppress(ValueError, AttributeError):
                said = json.loads(line)
                job.problem = str(said.get("error", ""))
                job.stage = str(said.get("stage", job.stage))
                job.n_done = int(said.get("n_done", job.n_done))
                job.n_total = int(said.get("n_total", job.n_total))
    if process.returncode and not job.problem:
        how = f"signal {-process.returncode}" if process.returncode < 0 else "an error of its own"
        job.problem = f"its process was ended by {how}; load this page again to begin anew"
    if not job.problem and not job.target.is_dir():
        job.problem = "its process left no index; load this page again to begin anew"


def _made_by() -> str:
    return _short(f"{_FORMAT} {__version__}".encode())


def _short(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:20]
