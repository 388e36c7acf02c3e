"""What home says of every run of a folder, kept in the user's cache: a small file for each run.

It holds nothing that cannot be read again from the runs, so that deleting it, or a file of it that
cannot be used, costs time alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from krisis.errors import InvalidFile
from krisis.json_values import JsonObject, dumps, read_object
from krisis.runs.text_cache import viewer_cache

_VERSION = 3


def index_folder(folder: Path) -> Path:
    """Return where the index of a folder of runs is kept, for this user alone."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
    return viewer_cache() / name


class Index:
    """Facts by path and signature, in files that several viewers may share.

    Where the cache cannot be written, they are in a folder that goes with the process.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self.place = _private(index_folder(folder))
        except OSError:
            self.place = Path(tempfile.mkdtemp(prefix="krisis-viewer-")).resolve()
            weakref.finalize(self, shutil.rmtree, self.place, ignore_errors=True)
        self._entries = self.place / "entries"

    def facts(self) -> dict[bytes, tuple[str, JsonObject]]:
        """Return the signature and the facts of every path."""
        found = {}
        for file in self._entries.glob("*.json"):
            with suppress(OSError, InvalidFile, KeyError, TypeError, ValueError):
                kept = read_object(file)
                if kept["version"] == _VERSION:
                    found[bytes.fromhex(kept["path"])] = kept["signature"], kept["facts"]
        return found

    def keep(self, fresh: Iterable[tuple[bytes, str, JsonObject]], gone: Iterable[bytes]) -> None:
        """Write new facts, each file at once, and forget those of paths that are gone."""
        with suppress(OSError):
            _private(self._entries)
            for path in gone:
                self._file(path).unlink(missing_ok=True)
            for path, mark, facts in fresh:
                named = {"path": path.hex(), "signature": mark, "facts": facts}
                number, begun = tempfile.mkstemp(dir=self._entries)
                with open(number, "wb") as file:
                    file.write(dumps({"version": _VERSION, **named}, indent=None).encode())
                os.replace(begun, self._file(path))

    def _file(self, path: bytes) -> Path:
        return self._entries / f"{hashlib.sha256(path).hexdigest()[:24]}.json"


def _private(place: Path) -> Path:
    """Make a folder for this user alone, in place of anything else of its name."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink() or place.is_file():
        place.unlink()
    place.mkdir(mode=0o700, exist_ok=True)
    place.chmod(0o700)
    if not os.access(place, os.W_OK):
        raise PermissionError(place)
    return place
