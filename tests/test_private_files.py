"""Links in the place of a run are refused, and nobody else can read what krisis writes."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IMODE

import pytest
from tests.commands import krisis
from tests.invented_runs import invented_rows, result_of, write_run

from krisis.errors import InvalidFile
from krisis.execution.cache import ReplyCache
from krisis.json_values import write_text
from krisis.runs.load import load_run

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and modes are those of POSIX")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run of the user's own."""
    done = krisis("run", "ckd", "--model", "guideline", "--limit", "6", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return next((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal", "-lock"])
def test_nothing_is_read_or_written_through_a_link(suffix: str, run: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    file = run.with_name(run.name + suffix)
    victim.write_bytes(file.read_bytes() if file.exists() else b"alias ls=ls\n")
    before = victim.read_bytes()
    file.unlink(missing_ok=True)
    file.symlink_to(victim)
    for words in (["doctor"], ["doctor", "--repair"], ["resume"], ["show"], ["report"]):
        done = krisis(*words, str(run), cwd=tmp_path)
        assert done.returncode == 2, (words, done)
        assert "is a link" in done.stderr or "is not a file" in done.stderr
    with pytest.raises(InvalidFile, match="is a link"):
        load_run(run)
    assert victim.read_bytes() == before


def test_a_pipe_in_the_place_of_a_run_is_not_waited_for(run: Path, tmp_path: Path) -> None:
    run.unlink()
    os.mkfifo(run)
    assert krisis("show", str(run), cwd=tmp_path).returncode == 2


def test_the_plan_of_a_grid_is_no_link(tmp_path: Path) -> None:
    models = ["--model", "guideline", "--model", "majority"]
    assert krisis("run", "ckd", *models, "--limit", "6", cwd=tmp_path).returncode == 0
    (folder,) = (one for one in (tmp_path / "runs").glob("*_grid_*") if one.is_dir())
    assert {one.suffix for one in folder.iterdir()} == {".krisis", ".json"}
    victim = (folder / "grid.json").rename(tmp_path / "victim")
    (folder / "grid.json").symlink_to(victim)
    before = victim.read_bytes()
    assert krisis("resume", str(folder), cwd=tmp_path).returncode == 2
    assert victim.read_bytes() == before


def _open_to_others(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if S_IMODE(path.stat().st_mode) & 0o077]


def test_a_run_and_its_folder_are_its_owners(run: Path, tmp_path: Path) -> None:
    assert S_IMODE(run.parent.stat().st_mode) == 0o700
    assert krisis("doctor", str(run), "--repair", cwd=tmp_path).returncode == 0
    assert (
        krisis("export", str(run), "--to", "krisis", "-o", "c.krisis", cwd=tmp_path).returncode == 0
    )
    assert krisis("resume", str(run), cwd=tmp_path).returncode == 0
    assert S_IMODE((tmp_path / "c.krisis").stat().st_mode) == 0o600
    assert _open_to_others(run.parent) == []


def test_the_folder_of_a_grid_is_its_owners(tmp_path: Path) -> None:
    models = ["--model", "guideline", "--model", "majority"]
    assert krisis("run", "ckd", *models, "--limit", "6", cwd=tmp_path).returncode == 0
    (folder,) = (one for one in (tmp_path / "runs").glob("*_grid_*") if one.is_dir())
    assert S_IMODE(folder.stat().st_mode) == 0o700
    assert _open_to_others(folder) == []


def test_the_reply_cache_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "replies.sqlite"
    cache = ReplyCache(path)
    assert _open_to_others(tmp_path) == []
    assert (path.parent / "replies.sqlite-wal").exists()  # it was looked at as well
    cache.close()
    path.chmod(0o644)  # as earlier versions left it
    ReplyCache(path).close()
    assert _open_to_others(tmp_path) == []


def test_exports_and_reports_with_rows_are_their_owners(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", result_of(invented_rows(60)))
    (out := tmp_path / "out").mkdir(mode=0o700)
    for kind in ("csv", "jsonl", "parquet", "inspect"):
        words = ["export", str(run), "--to", kind, "--output", str(out / f"rows.{kind}")]
        assert krisis(*words, cwd=tmp_path).returncode == 0
    words = ["report", str(run), "--output", str(out / "report.html")]
    assert krisis(*words, cwd=tmp_path).returncode == 0
    result_of(invented_rows(60)).save(out / "result.json")
    assert len(list(out.iterdir())) >= 6
    assert _open_to_others(out) == []


@pytest.mark.parametrize(
    ("umask", "private", "mode"),
    [(0o022, True, 0o600), (0o077, False, 0o600), (0o027, False, 0o640), (0o277, True, 0o400)],
)
def test_the_umask_is_respected(umask: int, private: bool, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "file", "text", private=private)
    finally:
        os.umask(before)
    assert S_IMODE((tmp_path / "file").stat().st_mode) == mode
