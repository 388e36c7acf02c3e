"""The files of Inspect's logs: JSON, and zip archives of JSON, which may be Zstandard inside."""

from __future__ import annotations

import json
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from krisis.errors import InvalidFile, MissingExtra
from krisis.json_values import JsonObject, JsonValue, read_object

_LARGEST_MEMBER, _PORTION = 1 << 28, 1 << 25
_ZSTANDARD = 93
_LINE_END = bytes.fromhex("28b52ffd2001090000") + b"\n"  # a Zstandard frame that holds one


def header_and_samples(path: Path) -> tuple[JsonObject, Iterator[JsonObject]]:
    """Return what a log says of the whole evaluation, and its samples one by one."""
    if zipfile.is_zipfile(path):
        return _archive(path)
    if path.suffix == ".eval":
        raise InvalidFile(f"{path} is not a whole zip archive, as .eval is; copy the log again")
    content = read_object(path, lenient=True)
    samples = content.get("samples")
    listed = samples if isinstance(samples, list) else []
    return content, (one if isinstance(one, dict) else {} for one in listed)


def _archive(path: Path) -> tuple[JsonObject, Iterator[JsonObject]]:
    """Return the header of an `.eval` file and its samples; an unfinished one has no header."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = list(dict.fromkeys(archive.namelist()))
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidFile(f"{path} is damaged ({error}); copy the log again") from None
    first = next((n for n in ("header.json", "_journal/start.json") if n in names), None)
    if first is None:
        raise InvalidFile(f"{path} is a zip file, but not a log of Inspect; check --as")
    header = next(_members(path, [first]))
    samples = sorted(name for name in names if re.fullmatch(r"samples/.+\.json", name))
    return {"status": "started", **header}, _members(path, samples)


def _members(path: Path, names: Sequence[str]) -> Iterator[JsonObject]:
    """Read files of an archive, in portions that fit into memory."""
    with zipfile.ZipFile(path) as archive:
        portion: list[zipfile.ZipInfo] = []
        n_bytes = 0
        for name in names:
            entry = archive.getinfo(name)
            if entry.file_size > _LARGEST_MEMBER:
                size = _LARGEST_MEMBER >> 20
                raise InvalidFile(f"{path}: {name} has more than {size} MiB; leave out its events")
            if portion and n_bytes + entry.file_size > _PORTION:
                yield from _parsed(path, archive, portion)
                portion, n_bytes = [], 0
            portion.append(entry)
            n_bytes += entry.file_size
        yield from _parsed(path, archive, portion)


def _parsed(
    path: Path, archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo]
) -> Iterator[JsonObject]:
    packed = [one for one in entries if one.compress_type == _ZSTANDARD]
    unpacked = {} if hasattr(zipfile, "ZIP_ZSTANDARD") else _unpacked(path, packed)
    for entry in entries:
        place = f"{path}: {entry.filename}"
        try:
            data = unpacked.get(entry.filename) or archive.read(entry)
            content: JsonValue = json.loads(data)
        except NotImplementedError:
            raise InvalidFile(f"{place} is compressed in a way that cannot be read") from None
        except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, EOFError) as error:
            raise InvalidFile(f"{place} is damaged ({error}); copy the log again") from None
        except ValueError:
            raise InvalidFile(f"{place} is not complete JSON; copy the log again") from None
        if not isinstance(content, dict):
            raise InvalidFile(f"{place} is not a JSON object; is it a log of Inspect?")
        yield content


def _unpacked(path: Path, entries: Sequence[zipfile.ZipInfo]) -> dict[str, bytes]:
    """Unpack Zstandard, which `zipfile` knows from Python 3.14 on, with DuckDB's reader.

    The files are put behind each other with frames between them that hold a line end.
    """
    if not entries:
        return {}
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.named(
            "tables", "reading a log that is compressed with Zstandard (before Python 3.14)"
        ) from None
    longest = max(one.file_size for one in entries) + 2
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:") as base:
        joined = Path(folder) / "members.zst"
        joined.write_bytes(_LINE_END.join(_packed(path, entries)))
        try:
            lines = base.execute(
                "select line from read_csv(?, "  # noqa: S608 - numbers of our own are put in
                "compression='zstd', header=false, auto_detect=false, "
                "delim='\x01', quote='', escape='', columns={'line': 'VARCHAR'}, parallel=false, "
                f"max_line_size={longest}, buffer_size={max(4 * longest, 1 << 20)})",
                [str(joined)],
            ).fetchall()
        except duckdb.Error:
            raise InvalidFile(f"{path} is damaged; copy the log again") from None
    data = "\n".join(line or "" for (line,) in lines).encode()
    found, start = {}, 0
    for entry in entries:
        part = data[start : start + entry.file_size]
        if zlib.crc32(part) != entry.CRC:
            raise InvalidFile(f"{path}: {entry.filename} is damaged; copy the log again")
        found[entry.filename] = part
        start += entry.file_size + 1
    return found


def _packed(path: Path, entries: Sequence[zipfile.ZipInfo]) -> Iterator[bytes]:
    with path.open("rb") as file:
        for entry in entries:
            file.seek(entry.header_offset + 26)  # the lengths of two fields before the content
            sizes = file.read(4)
            file.seek(sum(int.from_bytes(sizes[i : i + 2], "little") for i in (0, 2)), 1)
            yield file.read(entry.compress_size)
