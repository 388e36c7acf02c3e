"""Where run files are, what they may be read or written through, and who writes them."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from krisis.errors import InvalidFile, RunConflict
from krisis.json_values import JsonValue
from krisis.runs.door import open_to_read
from krisis.runs.schema import SIDE_FILES, SUFFIX
from krisis.sqlite_edge import has_one_name

# File systems on disks of this machine. WAL needs memory shared by all processes that open the
# file, which a network file system accepts and then corrupts the file; what is not known counts as
# a network.
_LOCAL = (
    *("apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "ntfs"),
    *("ntfs3", "overlay", "ramfs", "reiserfs", "tmpfs", "ufs", "vfat", "xfs", "zfs"),
)
# A file of this size is read quickly whatever it holds; no file system compresses a run as far.
_MOST_WITH_HOLES, _MOST_COMPRESSED = 100_000_000, 50
_ATTEMPTS, _PAUSE_SECONDS = 5, 0.02  # somebody may just be looking whether it is locked


def side_files(path: Path) -> list[Path]:
    """Return the files beside a run file that belong to it, as far as there are any."""
    found = (path.with_name(path.name + suffix) for suffix in SIDE_FILES)
    return [one for one in found if os.path.lexists(one)]


def has_unmerged(path: Path) -> bool:
    """Say whether part of a run is still in a file of its own beside it."""
    return any(one.name.endswith(("-wal", "-journal")) for one in side_files(path))


def copy_warning(path: Path) -> str:
    """Say how to copy a run of which part is in files beside it; "" where it is one file."""
    if not (is_run_file(path) and has_unmerged(path)):
        return ""
    return (
        f"{path} is being written, and part of it is in files beside it; to copy it, type: "
        f"krisis export {path} --to krisis"
    )


def refuse_links(path: Path, *, may_be_missing: bool = False) -> None:
    """Refuse a run file that is, or has beside it, a link or a device: nothing goes through one.

    What is beside a run is emptied and removed, so it may be no second name of another file either;
    a run itself may have several.
    """
    for one in (path, *side_files(path)):
        try:
            is_file = stat.S_ISREG(one.lstat().st_mode) and (one == path or has_one_name(one))
        except FileNotFoundError as error:
            if one != path or may_be_missing:  # a writer that ends removes what is beside its file
                continue
            raise InvalidFile(f"{path} cannot be read: {error.strerror}") from None
        except OSError as error:
            raise InvalidFile(f"{one} cannot be read: {error.strerror}") from None
        if not is_file:
            raise InvalidFile(
                f"{one} is a link or a device, and krisis reads and writes no run through one; "
                "put a copy in its place"
            )


def refuse_holes(path: Path) -> None:
    """Refuse a file that is nearly all holes: by its size, which costs nothing, work is bounded."""
    found = path.stat()
    n_written = 512 * getattr(found, "st_blocks", 0)  # 0 where the file system does not say
    if found.st_size > _MOST_WITH_HOLES and 0 < n_written * _MOST_COMPRESSED < found.st_size:
        raise InvalidFile(
            f"{path} claims {found.st_size // 1_000_000:,} MB, of which {n_written // 1000:,} kB "
            "were written, as in no run file; ask for a copy made with krisis export"
        )


def is_run_file(path: Path) -> bool:
    """Say whether a path is named as a run file and is one, links not followed."""
    return path.suffix == SUFFIX and _is_regular(path)


def _is_regular(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def is_local(path: Path) -> bool:
    """Say whether a folder is on a disk of this machine; what is not known is not."""
    try:
        asked = _IS_LOCAL.get(sys.platform)
        return asked is not None and asked(path.resolve())
    except (OSError, ValueError, subprocess.SubprocessError):
        return False


def _is_local_on_windows(path: Path) -> bool:
    windows: JsonValue = ctypes  # whose types are known on Windows alone
    kind: int = windows.windll.kernel32.GetDriveTypeW(path.anchor)
    return kind in (2, 3, 6)  # removable, fixed, in memory


def _is_local_on_macos(path: Path) -> bool:
    listed = subprocess.run(["/sbin/mount"], capture_output=True, text=True, check=True)
    return "local" in _mounted(path, listed.stdout)


def _linux_type(path: Path) -> str:
    """Return the type of the file system that a folder is on."""
    best, kind = -1, ""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        mount = Path(before.split()[4].encode().decode("unicode_escape"))
        if path.is_relative_to(mount) and len(mount.parts) >= best:
            best, kind = len(mount.parts), after.split()[0]
    return kind


def _mounted(path: Path, listed: str) -> list[str]:
    """Return the properties of the volume that a folder is on, as ``mount`` lists them."""
    best, found = -1, ""
    for line in listed.splitlines():
        place, _, properties = line.partition(" on ")[2].rpartition(" (")
        if path.is_relative_to(place) and len(Path(place).parts) >= best:
            best, found = len(Path(place).parts), properties.rstrip(")")
    return found.split(", ")


_IS_LOCAL: dict[str, Callable[[Path], bool]] = {
    "linux": lambda path: _linux_type(path) in _LOCAL,
    "win32": _is_local_on_windows,
    "darwin": _is_local_on_macos,
}


class WriterLock:
    """Holds a run file for this process; the system releases it however the process ends.

    The lock is a file beside the run, and is removed with the lock.
    """

    def __init__(self, path: Path) -> None:
        refuse_links(path, may_be_missing=True)
        self._lock = FileLock(lock_file(path), mode=0o600)
        for _ in range(_ATTEMPTS):
            with suppress(Timeout):
                self._lock.acquire(blocking=False)
                if lock_file(path).exists():
                    return
                self._lock.release()  # another process removed the file before it was locked here
                continue
            time.sleep(_PAUSE_SECONDS)
        raise RunConflict(
            f"{path} is being written by another process{writer_of(path)}; wait for it to end, or "
            "stop it, then resume"
        )

    def release(self) -> None:
        """Remove the file and release the lock."""
        with suppress(OSError):  # on Windows an open file cannot be removed
            Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()


def lock_file(path: Path) -> Path:
    """Return the place of the lock of a run file."""
    return path.with_name(path.name + "-lock")


def is_written(path: Path) -> bool:
    """Say whether a process holds a run file at this moment; nothing is left in the folder."""
    if not _is_regular(lock_file(path)):
        return False
    lock = FileLock(lock_file(path), mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    except OSError:  # a folder that cannot be written
        return False
    with suppress(OSError):
        lock_file(path).unlink(missing_ok=True)  # left by a process that died
    lock.release()
    return False


def writer_of(path: Path) -> str:
    """Say who wrote a run file last, in brackets; "" where that is not known."""
    with (
        suppress(sqlite3.Error, TypeError),
        closing(open_to_read(path)) as connection,
    ):
        pid, host, started_at = connection.execute(
            "SELECT pid, host, started_at FROM sessions ORDER BY id DESC LIMIT 1"
        ).fetchone()
        since = datetime.fromtimestamp(started_at, UTC).isoformat(timespec="seconds")
        return f" (pid {pid} on {host}, since {since})"
    return ""
