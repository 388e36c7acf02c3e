"""JSON values and their files: NaN is written as null, and no file is ever half written."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from krisis.errors import InvalidFile

# Values from a file, a reply or a column of the user's own, before they are checked: the one
# place where such values are typed as Any.
JsonValue: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]
JsonMapping: TypeAlias = Mapping[str, Any]
# A result of a million rows with their replies is smaller; what is larger was not made by krisis,
# and would take the memory of the machine before anything can be said about it.
LARGEST_FILE = 2_000_000_000


class NoValues(JsonMapping):
    """The empty mapping that all rows without signals share, for rows are made by the million."""

    __slots__ = ()

    def __getitem__(self, key: str) -> JsonValue:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __hash__(self) -> int:
        return hash(())

    def __repr__(self) -> str:
        return "{}"

    def __reduce__(self) -> str:
        return "NO_VALUES"


NO_VALUES = NoValues()


def plain(value: object) -> JsonValue:
    """Return a value with nothing in it that strict JSON cannot hold; NaN becomes None."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if type(value).__name__ == "datetime64":  # of NumPy; as a list it would be a bare number
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    tolist = getattr(value, "tolist", None)  # NumPy arrays and scalars
    return plain(tolist()) if tolist is not None else str(value)


def with_nan(value: JsonValue) -> JsonValue:
    """Return a value in which every null reads as the NaN that it was."""
    if value is None:
        return math.nan
    if isinstance(value, dict):
        return {key: with_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_nan(item) for item in value]
    return value


def dumps(value: object, *, indent: int | None = 2) -> str:
    """Write strict JSON."""
    return json.dumps(plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def read_object(path: Path, *, lenient: bool = False) -> JsonObject:
    """Read a file that must hold one JSON object; ``lenient`` lets NaN and Infinity through."""
    try:
        if (n_bytes := path.stat().st_size) > LARGEST_FILE:
            raise InvalidFile(
                f"{path} has {n_bytes:,} bytes; a JSON file of more than {LARGEST_FILE:,} is not "
                "read; is it the right file?"
            )
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidFile(f"{path} does not exist; check the path") from None
    except IsADirectoryError:
        raise InvalidFile(f"{path} is a folder; name the JSON file in it") from None
    except UnicodeDecodeError:
        raise InvalidFile(f"{path} is not text in UTF-8; is it a krisis result?") from None
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}") from None
    return parse_object(text, str(path), lenient=lenient)


def parse_object(text: str, place: str, *, lenient: bool = False) -> JsonObject:
    """Parse one JSON object, naming the place where it breaks off."""
    try:
        value: JsonValue = (_LENIENT if lenient else _STRICT).decode(text)
    except ValueError as error:
        raise InvalidFile(
            f"{place} is not complete JSON ({error}); it may have been cut, restore or rerun it"
        ) from None
    except RecursionError:
        raise InvalidFile(f"{place} is JSON nested too deeply to be a krisis file") from None
    if not isinstance(value, dict):
        raise InvalidFile(f"{place} holds a JSON {type(value).__name__}, not an object")
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


# Made once: a file of lines is parsed line by line.
_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)
_LENIENT = json.JSONDecoder(parse_constant=float)


def write_text(
    path: Path, text: str | Iterable[str], *, overwrite: bool = False, private: bool = True
) -> None:
    """Write a file whole or not at all, and replace an older one only with ``overwrite``.

    A text that is too long to be held at once is given in parts. Only its owner may read what is
    ``private``: everything that can hold rows or replies. The umask is respected in both cases.
    """
    if path.exists() and not overwrite:
        raise InvalidFile(f"{path} exists already; choose another name or remove it first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(temporary, flags, 0o600 if private else 0o666)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error.strerror}") from None
    try:
        # Half of a surrogate pair, as error messages may hold, is written as its JSON escape.
        with os.fdopen(
            handle, "w", encoding="utf-8", errors="backslashreplace", newline=""
        ) as file:
            file.writelines([text] if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise InvalidFile(f"{path} cannot be written: {error.strerror}") from None


def open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, never through a link; an ``opener`` of `open`."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
