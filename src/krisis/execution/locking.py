"""One writer at a time: a lock that the operating system drops when its process ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from krisis.errors import RunConflict

if sys.platform == "win32":  # pragma: no cover - the locks of the other family
    import msvcrt

    def _take(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class RunLock:
    """Holds a run for this process; a process that dies lets go, however it dies."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _take(self._handle)
        except OSError:
            holder = os.pread(self._handle, 20, 0).decode(errors="replace").strip()
            os.close(self._handle)
            raise RunConflict(
                f"{path.parent} is being written by another process"
                f"{f' ({holder})' if holder else ''}; wait for it to end, or stop it, "
                "then resume"
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"pid {os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let go of the run."""
        os.close(self._handle)
