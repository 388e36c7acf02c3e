"""Whose run is this? Resuming one uses the code, addresses and files that it names.

A run or a grid that this user starts on this machine is noted in the user's state folder, by a
hash of its id *and* of the places that it names: a stranger's run has no such note, nor has a copy
of one's own in which an address was exchanged. It is noted twice, by the places as they are written
(`is_own`: this user made it, wherever it is looked at from) and as they are meant from the folder
that it was started in (`names_own`, `require_own`: what it names here is what it named there).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import platformdirs

from krisis import registry
from krisis.display import cut
from krisis.errors import InvalidValue, UserError
from krisis.json_values import JsonMapping, JsonValue, write_text

# What names code, addresses or files, in the settings of a run and in the plan of a grid.
_FILES = ("data_path", "cache_path", "prices", "prompt", "prompts")
_NAMES = (
    *("suite", "tasks", "model", "models", "base_url", "cluster", "metrics", "stop_when"),
    *("suite_options", "model_options", "out"),
)
# What to do instead: of what is resumed, and of what is taken as settings.
TRUST = "if you trust all of it, give --trust"
OWN_SETTINGS = (
    "if you trust all of it, save the settings as a file of your own: "
    "krisis run --config {} --print-config > FILE"
)
OWN_PLAN = "if you trust all of it, copy its plan to a file of your own and name that one"
_MOST_SHOWN = 20
_MOST_LETTERS = 200


def places_of(content: JsonValue, name: str = "") -> list[tuple[str, str]]:
    """Return the code, addresses and files that settings name, each under its option.

    >>> places_of({"suite": "ckd", "model": "guideline", "seed": 1, "base_url": None})
    [('suite', 'ckd'), ('model', 'guideline')]
    """
    return [(option, _resolved(option, text)) for option, text in _places(content, name)]


def _places(content: JsonValue, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(content, Mapping):
        if name.rpartition(".")[2] in ("prompt", "prompts"):
            return  # the text of a prompt, not the file that it came from
        for key, value in content.items():
            if name:  # an option of a suite or a backend, whatever it is called
                yield from _places(value, f"{name}.{key}")
            elif key in (*_FILES, *_NAMES):
                yield from _places(value, key)
    elif isinstance(content, list):
        for value in content:
            yield from _places(value, name)
    elif content is not None:
        yield name, str(content)


def _resolved(name: str, text: str) -> str:
    """Return a place with the folder that a relative path is meant in."""
    code, _, attribute = text.rpartition(":")
    with suppress(OSError, ValueError, RuntimeError):
        if name.rpartition(".")[2] in _FILES or registry.is_suite_file(text):
            return str(Path(text).expanduser().resolve())
        if registry.is_place(text):  # the file, or where a module is looked for
            file = Path(code).expanduser() if code.endswith(".py") else Path.cwd() / code
            return f"{file.resolve()}:{attribute}"
    return text


def note_own(run_id: str, settings: JsonMapping) -> None:
    """Note that this user started a run or a grid; without a state folder it is not noted."""
    with suppress(UserError, OSError):
        for places in (places_of(settings), list(_places(settings, ""))):
            write_text(_note(run_id, places), "", overwrite=True)


def is_own(run_id: str, settings: JsonMapping) -> bool:
    """Say whether this user started a run or a grid that names these places."""
    return _note(run_id, list(_places(settings, ""))).is_file()


def names_own(run_id: str, settings: JsonMapping) -> bool:
    """Say whether the places that a run names are, from this folder, those it was started with."""
    return _note(run_id, places_of(settings)).is_file()


def note_scores(line: Sequence[object]) -> None:
    """Note that this user computed what a line of scores states.

    A forged file can carry the id of a run of one's own, and seal scores that nobody computed.
    """
    with suppress(UserError, OSError):
        write_text(_place_of("scored", ascii(tuple(line))), "", overwrite=True)


def has_scored(line: Sequence[object]) -> bool:
    """Say whether this user computed what a line of scores states."""
    return _place_of("scored", ascii(tuple(line))).is_file()


def _note(run_id: str, places: list[tuple[str, str]]) -> Path:
    return _place_of("started", json.dumps([run_id, places]))


def _place_of(folder: str, told: str) -> Path:
    name = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    return platformdirs.user_state_path("krisis") / folder / name


def require_own(run: Path, run_id: str, settings: JsonMapping, *, instead: str) -> None:
    """Refuse settings of a run that somebody else started; say what they name."""
    if names_own(run_id, settings):
        return
    found = list(dict.fromkeys(places_of(settings)))
    lines = [f"  {cut(name)}: {cut(place, _MOST_LETTERS)}" for name, place in found[:_MOST_SHOWN]]
    if len(found) > _MOST_SHOWN:
        lines.append(f"  … {len(found) - _MOST_SHOWN} more")
    raise InvalidValue(
        "\n".join(
            [
                f"{run} was not started by you on this machine with these settings; it would use",
                *lines,
                instead,
            ]
        )
    )
