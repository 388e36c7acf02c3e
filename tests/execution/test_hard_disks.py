"""Disks that are full, read-only or taken: one sentence, and nothing corrupted."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.invented_runs import rows_in

from krisis.errors import InvalidFile
from krisis.runs.load import list_runs

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_the_run_can_be_resumed(
    tmp_path: Path, loopback: Any, start_worker: Start, no_key_in: Callable[..., None]
) -> None:
    server = loopback()
    out = tmp_path / "runs"
    options = {"out": str(out), "base_url": server.base_url, "n": 400}
    first = start_worker({**options, "largest_file": 300_000})
    printed, errors = first.communicate(timeout=600)
    assert first.returncode == 1
    assert errors.count("\n") == 1
    (run,) = list_runs(out)
    assert f"krisis resume {run}" in errors
    assert f"{run} cannot be written (" in errors
    before = rows_in(run)
    assert 0 < len(before) < 400
    second = start_worker({**options, "resume": str(run)})
    assert second.communicate(timeout=600) == ("done\n", "")
    after = rows_in(run)
    assert len(after) == 400
    assert before.items() <= after.items()
    no_key_in(tmp_path, printed, errors)


def test_a_read_only_folder_is_one_sentence(
    tmp_path: Path, loopback: Any, start_worker: Start, no_key_in: Callable[..., None]
) -> None:
    server = loopback()
    out = tmp_path / "runs"
    out.mkdir(mode=0o555)
    # Nothing is read-only to the superuser, who therefore gives the privilege up first.
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("the superuser needs setpriv to meet a read-only folder")
        before = (setpriv, "--bounding-set=-all", "--inh-caps=-all")
    options = {"out": str(out), "base_url": server.base_url, "n": 10}
    process = start_worker(options, before=before)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 2, errors
    assert errors.count("\n") == 1
    assert "cannot be written (Permission denied)" in errors
    assert list(out.iterdir()) == []
    assert server.counts()["kinds"] == {}
    no_key_in(tmp_path, errors)


@pytest.mark.slow
def test_two_processes_cannot_write_one_run(
    tmp_path: Path, loopback: Any, start_worker: Start, no_key_in: Callable[..., None]
) -> None:
    server = loopback(latency=3)  # the second process starts before the first can end
    out = tmp_path / "runs"
    options = {"out": str(out), "base_url": server.base_url, "n": 40, "max_concurrency": 4}
    first = start_worker(options)
    while not list(out.glob("*.krisis")) and first.poll() is None:
        time.sleep(0.01)
    (run,) = list_runs(out)
    second = start_worker({**options, "resume": str(run)})
    _, errors = second.communicate(timeout=600)
    assert second.returncode == 2
    assert errors.count("\n") == 1
    assert f"pid {first.pid}" in errors
    assert first.communicate(timeout=600) == ("done\n", "")
    assert len(rows_in(run)) == 40
    assert sum(server.counts()["begun"].values()) == 40
    no_key_in(tmp_path, errors)


def has_rows(run: Path) -> bool:
    """Tell whether rows were written; a file that was just created is no run yet."""
    with suppress(InvalidFile):
        return bool(rows_in(run))
    return False


@pytest.mark.slow
def test_a_file_deleted_under_a_run_is_one_sentence(
    tmp_path: Path, loopback: Any, start_worker: Start, no_key_in: Callable[..., None]
) -> None:
    server = loopback(latency=0.05)
    out = tmp_path / "runs"
    process = start_worker(
        {"out": str(out), "base_url": server.base_url, "n": 400, "max_concurrency": 2}
    )
    while not (found := list_runs(out)) or not has_rows(found[0]):
        time.sleep(0.1)
    found[0].unlink()
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert errors.count("\n") == 1
    assert "was deleted while the run" in errors
    no_key_in(tmp_path, errors)
