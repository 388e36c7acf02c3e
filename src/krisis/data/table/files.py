"""Files of rows as DuckDB reads them, and one sentence for a file that cannot be read."""

# SQL is put together from quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import codecs
import csv
import gzip
import json
import re
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from glob import escape, glob
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from krisis.data.table.expressions import duckdb_says, quoted, sql_text
from krisis.errors import InvalidFile

if TYPE_CHECKING:
    import duckdb

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".json": "json",
    ".parquet": "parquet",
}


@dataclass(slots=True)
class Reading:
    """One file as DuckDB reads it."""

    path: Path
    form: str
    call: str
    columns: dict[str, str] = field(default_factory=dict)
    n_rows: int | None = None
    # A copy in UTF-8 of a file in another encoding, to be deleted once it is loaded.
    copy: Path | None = None

    def close(self) -> None:
        """Delete the copy, if there is one."""
        if self.copy is not None:
            self.copy.unlink(missing_ok=True)


def paths_of(folder: Path, name: str) -> list[Path]:
    """Return the files that a name or a pattern stands for, in the order of their names.

    Only ``*`` and ``?`` make a pattern: file names have brackets, as in ``visits[1].csv``, and
    must not stand for the file of other patients when theirs is missing.
    """
    if re.search(r"[*?]", name) and not (folder / name).exists():
        pattern = Path(escape(str(folder))) / name.replace("[", "[[]")
        found = sorted(Path(path) for path in glob(str(pattern), recursive=True))
        if not found:
            raise InvalidFile(f"no file matches {folder / name}; check source in the YAML file")
        return [existing(inside(folder, path)) for path in found]
    return [existing(inside(folder, folder / name))]


def inside(folder: Path, path: Path) -> Path:
    """Return a path below a folder; one that leads out of it, by a link as well, is refused."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InvalidFile(
            f"{path} is outside {folder}, the folder of the YAML file, which may have come from "
            "somebody else; if it is yours to read, name it: --data-path FILE"
        )
    return path


def literal(path: Path) -> str:
    """Return a path in which DuckDB takes no letter for a pattern.

    >>> literal(Path("d[1].csv"))
    'd[[]1].csv'
    """
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


def existing(path: Path) -> Path:
    """Return the path of a file that is there and not empty, or say what is wrong with it."""
    if path.is_dir():
        raise InvalidFile(f"{path} is a directory; name files in it, as in {path / '*.csv'}")
    if not path.is_file():
        raise InvalidFile(f"there is no file {path}; check source in the YAML file")
    if path.stat().st_size == 0 or (path.stat().st_size < 100 and not path.read_bytes().strip()):
        raise InvalidFile(f"{path} is empty; give a file with rows")
    return path


def reading_of(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    ids: Sequence[str],
    *,
    encoding: str = "utf-8",
    numbers_as_text: bool = False,
) -> Reading:
    """Return how a file is read, by its ending, and the columns that it has.

    ``numbers_as_text`` leaves numbers of a CSV file as written, for formats that DuckDB would
    misread: with a decimal comma, 1.234 is 1234.
    """
    name = path.name.lower().removesuffix(".gz")
    form = FORMATS.get(Path(name).suffix, "")
    if not form:
        hint = "; name a database as {database: FILE, query: SELECT …}"
        known = ", ".join(FORMATS)
        raise InvalidFile(f"{path} has no known ending; give one of {known}{hint}")
    copy = None
    if encoding != "utf-8":
        if form not in ("csv", "tsv"):
            raise InvalidFile(f"{path} is read as UTF-8; encoding is for CSV and TSV files")
        copy = _in_utf8(path, encoding)
    read = copy or path
    place = sql_text(literal(read.resolve()))
    options = {
        "lines": ", format = 'newline_delimited', sample_size = -1",
        "json": ", format = 'array', sample_size = -1",
        "parquet": ", file_row_number = true",
    }.get(form) or _dialect(read, form)
    function = {"csv": "read_csv", "tsv": "read_csv", "parquet": "read_parquet"}
    call = f"{function.get(form, 'read_json')}({place}{options})"
    reading = Reading(path, form, call, copy=copy)
    columns = _described(connection, reading)
    as_written: list[str] = []
    if form in ("csv", "tsv"):
        as_written = [name for name in ids if name in columns]
        call = f"read_csv({place}{options}"
        flags = [name for name, kind in columns.items() if kind == "BOOLEAN"]
        as_written += _where_all(connection, call, flags, r"[A-Za-z]")  # F may be sex, not false
        dates = [name for name, kind in columns.items() if kind in ("DATE", "TIMESTAMP")]
        iso = _where_all(connection, call, dates, r"\d{4}-\d{2}-\d{2}.*")
        as_written += [name for name in dates if name not in iso]  # their order must be stated
        whole = [name for name, kind in columns.items() if kind == "BIGINT"]
        plain = _where_all(connection, call, whole, r"[+-]?(0|[1-9]\d*)")
        as_written += [name for name in whole if name not in plain]  # 07 is a code
        if numbers_as_text:
            numbers = ("BIGINT", "DOUBLE", "HUGEINT")
            as_written += [n for n, kind in columns.items() if kind in numbers]
    if as_written:
        types = ", ".join(f"{sql_text(name)}: 'VARCHAR'" for name in dict.fromkeys(as_written))
        reading.call = f"read_csv({place}{options}, types = {{{types}}})"
        columns = {n: "VARCHAR" if n in as_written else kind for n, kind in columns.items()}
    reading.columns = {name: kind for name, kind in columns.items() if name != "file_row_number"}
    return reading


def _where_all(
    connection: duckdb.DuckDBPyConnection, call: str, names: Sequence[str], pattern: str
) -> list[str]:
    """Return the columns of a CSV file all of whose values match a pattern as written."""
    if not names:
        return []
    cells = ", ".join(
        f"bool_and(regexp_full_match(trim({quoted(name)}), {sql_text(pattern)}) or "
        f"trim({quoted(name)}) = '')"
        for name in names
    )
    types = ", ".join(f"{sql_text(name)}: 'VARCHAR'" for name in names)
    found = connection.execute(f"select {cells} from {call}, types = {{{types}}})").fetchall()[0]
    return [name for name, fits in zip(names, found, strict=True) if fits]


def guessed_encoding(path: Path) -> str:
    """Return the encoding of a text file: by its mark, else UTF-8 where it fits, else cp1252.

    cp1252 is what Windows writes in Western Europe; every byte of a file in latin-1 that is not a
    control character means the same in it.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        content = file.read()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _in_utf8(path: Path, encoding: str) -> Path:
    """Write a text file again in UTF-8, as a private temporary file."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        content = file.read()
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidFile(
            f"{path} line {line} is not text in {encoding}; correct source.encoding"
        ) from None
    with tempfile.NamedTemporaryFile(
        "w", suffix=".csv", delete=False, encoding="utf-8", newline=""
    ) as copy:
        copy.write(text.removeprefix("\ufeff"))
    return Path(copy.name)


def _opened(path: Path) -> TextIO:
    opened = gzip.open if path.suffix == ".gz" else open
    return cast("TextIO", opened(path, "rt", encoding="utf-8-sig", newline=""))


def _separator(path: Path) -> str:
    with _opened(path) as file:
        return max(",;\t|", key=file.readline().count)


def _dialect(path: Path, form: str) -> str:
    """Return how a CSV file is read: nothing about it is guessed but its separator."""
    try:
        separator = "\t" if form == "tsv" else _separator(path)
        with _opened(path) as file:
            names = [name.strip() for name in next(csv.reader(file, delimiter=separator), [])]
    except UnicodeDecodeError:
        line = _line_not_utf8(path)
        raise InvalidFile(
            f"{path} line {line} is not text in UTF-8; save the file as UTF-8, or name its "
            "encoding: source: {files: …, encoding: cp1252}"
        ) from None
    except (OSError, EOFError, csv.Error) as error:
        raise InvalidFile(f"{path} cannot be read as CSV: {error}") from None
    for number, name in enumerate(names):
        if name.lower() in [other.lower() for other in names[:number]]:
            raise InvalidFile(f"{path} line 1: the column {name!r} appears twice; rename one")
    return (
        f", header = true, sample_size = -1, delim = {sql_text(separator)}, quote = '\"', "
        "escape = '\"', strict_mode = true"
    )


def _described(connection: duckdb.DuckDBPyConnection, reading: Reading) -> dict[str, str]:
    import duckdb

    try:
        rows = connection.execute(f"describe select * from {reading.call}").fetchall()
    except duckdb.Error as error:
        raise unreadable(reading, error) from None
    return {str(row[0]): str(row[1]) for row in rows}


def unreadable(reading: Reading, error: Exception) -> InvalidFile:
    """Say in one sentence why a file cannot be read, with the line where it can be found."""
    path, form = reading.copy or reading.path, reading.form
    if form != "parquet" and path.suffix != ".gz" and (line := _line_not_utf8(path)):
        return InvalidFile(
            f"{path} line {line} is not text in UTF-8; save the file as UTF-8, or name its "
            "encoding: source: {files: …, encoding: cp1252}"
        )
    if form in ("csv", "tsv") and (fault := _csv_fault(path, form)):
        return InvalidFile(f"{path} {fault}")
    if form == "lines" and path.suffix != ".gz" and (fault := _line_not_json(path)):
        return InvalidFile(f"{path} {fault}; the file may be cut or broken")
    says = duckdb_says(error).replace(f"{path.resolve()}", path.name)
    says = re.split(r"\.? Try (?:setting|increasing)", says)[0]
    line_of = re.search(r"(?:on Line|[Ll]ine): (\d+)", str(error))
    where = f" line {line_of[1]}" if line_of else ""
    kind = path.name.removesuffix(".gz").rpartition(".")[2].upper()
    return InvalidFile(
        f"{path}{where} cannot be read as {kind}: {says}; the file may be cut or broken"
    )


def _line_not_utf8(path: Path) -> int:
    data = path.read_bytes()
    try:
        data.decode("utf-8")
        start = data.find(b"\0")  # UTF-16 without a mark
    except UnicodeDecodeError as error:
        start = error.start
    return data.count(b"\n", 0, start) + 1 if start >= 0 else 0


def _line_not_json(path: Path) -> str:
    """Find the first line that is no JSON; DuckDB counts from the line after it."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                json.loads(line) if line.strip() else None
            except ValueError as error:
                return f"line {number} cannot be read as JSON: {getattr(error, 'msg', error)}"
    return ""


def _csv_fault(path: Path, form: str) -> str:
    """Find the first row that has other fields than the header, or a quote without an end."""
    separator = "\t" if form == "tsv" else _separator(path)
    start = 1
    with _opened(path) as file:
        rows = csv.reader(file, delimiter=separator, strict=True)
        try:
            n_columns = len(next(rows))
            start = rows.line_num + 1
            for row in rows:
                if row and len(row) != n_columns:
                    return (
                        f"line {start} has {len(row)} fields where the header has {n_columns}; "
                        "put the missing or surplus separator right"
                    )
                start = rows.line_num + 1
        except (OSError, EOFError, zlib.error) as error:
            return f"cannot be unpacked after line {start}: {error}; the file may be cut"
        except csv.Error:
            return f"line {start}: a quote is not closed, or stands inside a field; correct it"
    return ""
