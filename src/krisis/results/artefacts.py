"""The files and folders that commands leave behind: what a path is, and what it is for."""

from __future__ import annotations

import difflib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from krisis.errors import InvalidFile
from krisis.file_formats import format_of
from krisis.json_values import JsonMapping, read_object
from krisis.runs.schema import SUFFIX


class Artefact(NamedTuple):
    """A kind of file or folder, in words; ``use`` is what else it is for, where one refuses it."""

    words: str
    use: str = ""


ARTEFACTS: dict[str, Artefact] = {
    "run": Artefact("a run"),
    "saved result": Artefact("a saved result"),
    "metrics file": Artefact(
        "a metrics file, which holds scores but no rows", "it can be shown, compared and drawn"
    ),
    "run file": Artefact("a run file"),
    "Parquet rows": Artefact("a table of rows in Parquet"),
    "grid folder": Artefact(
        "the folder of a grid; name one of its runs", "it can be compared, resumed and viewed"
    ),
    "folder of runs": Artefact(
        "a folder of runs, not one of them", "it can be compared and viewed"
    ),
    "selective output": Artefact("the output of krisis selective", "no command takes it"),
    "calibrator": Artefact(
        "a calibrator",
        "it is given as --calibration to krisis selective, certify, decide, audit and report",
    ),
    "certificate": Artefact(
        "a certificate",
        "krisis verify and monitor take it; it is given as --certificate to krisis report",
    ),
    "old run": Artefact(
        "a run of the format before this one, which this krisis does not read",
        "use the krisis that wrote it or run again",
    ),
    "plan": Artefact("the plan of a grid", "it is given as --config to krisis run"),
    "table": Artefact(
        "a table", "of patients, krisis init takes it; of predictions, krisis import"
    ),
    "suite": Artefact("a YAML file", "if it is a suite, krisis run takes it"),
}
# How the files begin that other commands write beside a run → what they are.
SAVED_BESIDE = {
    "krisis.certificate": "certificate",
    "krisis decision": "decision",
    "krisis.audit": "audit",
}
_KINDS = {
    "krisis.result": "saved result",
    "krisis.metrics": "metrics file",
    "krisis.run": "old run",
    "krisis.grid": "plan",
    "krisis.calibrator": "calibrator",
    "krisis.certificate": "certificate",
}
_SUFFIXES = {
    SUFFIX: "run",
    **dict.fromkeys((".csv", ".tsv", ".xlsx"), "table"),
    **dict.fromkeys((".parquet", ".pq"), "Parquet rows"),
    **dict.fromkeys((".yaml", ".yml"), "suite"),
}


def kind_of(path: Path) -> str:
    """Return the key of `ARTEFACTS` that a path belongs to; "" of anything else."""
    if path.is_dir():
        return _folder(path)
    if path.suffix.lower() in _SUFFIXES:
        return _SUFFIXES[path.suffix.lower()]
    try:
        return kind_of_content(read_object(path, lenient=True))
    except InvalidFile:
        return ""


def kind_of_content(content: JsonMapping) -> str:
    """Return the key of `ARTEFACTS` that a JSON object belongs to; "" of anything else."""
    if "kind" in content:
        return _KINDS.get(str(content["kind"]), "")
    if format_of(Path(), content, can="load"):
        return "run file"
    return "selective output" if {"inputs", "population"} <= content.keys() else ""


def _folder(path: Path) -> str:
    if (path / "manifest.json").is_file():
        return "old run"
    if (path / "grid.json").is_file():
        return "grid folder"
    return "folder of runs" if any(path.glob(f"*{SUFFIX}")) else ""


def refused(path: Path, wanted: str = "a run or a saved result") -> InvalidFile | None:
    """Return the sentence for a path of another kind than wanted; None if its kind is not known."""
    if not os.path.lexists(path):
        return InvalidFile(f"{path} does not exist; give {wanted}{_such_as(path)}")
    kind = kind_of(path)
    if not kind:
        return None
    words, use = ARTEFACTS[kind]
    return InvalidFile("; ".join(filter(None, (f"{path} is {words}", use, f"give {wanted}"))))


def _such_as(path: Path) -> str:
    """Return a run to name instead of one that is not there: of a similar name, else the newest."""
    folder = path.parent if any(path.parent.glob(f"*{SUFFIX}")) else path.parent / "runs"
    runs = sorted(found.name for found in folder.glob(f"*{SUFFIX}"))
    near = difflib.get_close_matches(path.name, runs, n=1) or runs[-1:]
    return f", such as {folder / near[0]}" if near else ""


def saved_beside(folder: Path) -> dict[Path, list[tuple[Path, str]]]:
    """Return the certificates, decisions and audits beside runs: ``RUN.krisis`` → ``RUN.*.json``.

    Each comes with its kind.
    """
    found: dict[Path, list[tuple[Path, str]]] = {}
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    runs = {name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)}
    for name in names:
        stem = name
        while stem and stem not in runs:
            stem = stem.rpartition(".")[0]
        if stem and name.endswith(".json") and (kind := _kind_saved(folder / name)):
            found.setdefault(folder / f"{stem}{SUFFIX}", []).append((folder / name, kind))
    return found


def _kind_saved(path: Path) -> str:
    with suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):  # opening a pipe would wait for ever
            head = head_of(path)
            return next((kind for kind in SAVED_BESIDE if f'"{kind}"'.encode() in head), "")
    return ""


def head_of(path: Path) -> bytes:
    """Return how a file begins."""
    with path.open("rb") as file:
        return file.read(200)
