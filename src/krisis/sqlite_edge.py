"""Where SQLite opens a file: never beside what would make it change another file.

After SQLite has applied the rollback journal beside a database, it deletes the file that the
journal names as its super-journal, and no setting forbids it. A log and its index it empties and
writes anew, although an archive may have made them a second name of any file of the user. So every
database is opened by the `address` that is made here: run files, reply caches, indices, and
databases that are data.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Literal

from krisis.errors import InvalidFile

# The last bytes of a rollback journal that names a super-journal, after the name, its length and
# its checksum: https://www.sqlite.org/fileformat2.html#the_rollback_journal and `readSuperJournal`
# of SQLite's pager, which takes a journal without them for one that names no other file.
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


def address(path: Path, mode: Literal["ro", "rw"], *, instead: str = "") -> str:
    """Return what SQLite opens a database by, unless that would change another file."""
    refuse_side_files(path, instead=instead)
    return f"{path.absolute().as_uri()}?mode={mode}"


def untouched_address(path: Path) -> str:
    """Return what SQLite reads a database by as if nothing were beside it and nobody wrote it."""
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"


def journal_of(path: Path) -> Path:
    """Return the place of the rollback journal of a database."""
    return path.with_name(f"{path.name}-journal")


def has_one_name(path: Path) -> bool:
    """Say whether what is there is a file of one name: no link, hard or not, and no device."""
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1


def refuse_side_files(path: Path, *, instead: str = "") -> None:
    """Refuse files beside a database through which SQLite would change or delete another one."""
    path = Path(os.path.realpath(path))  # SQLite follows links, then looks beside
    for suffix in ("-wal", "-shm", "-journal"):
        beside = path.with_name(f"{path.name}{suffix}")
        with suppress(FileNotFoundError):
            if not has_one_name(beside):  # of a pipe, a reading would never end
                raise InvalidFile(
                    f"{beside} is not a file of its own (it is a link, or has a second name), so "
                    f"{path.name} is not opened; move it away"
                )
    _refuse_super_journal(path, instead)


def _refuse_super_journal(path: Path, instead: str) -> None:
    journal = journal_of(path)
    try:
        with journal.open("rb") as file:
            n_bytes = file.seek(0, os.SEEK_END)
            file.seek(max(0, n_bytes - len(_JOURNAL_MAGIC)))
            is_naming = file.read() == _JOURNAL_MAGIC
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidFile(f"{journal} cannot be read: {error.strerror}") from None
    if is_naming:
        raise InvalidFile(
            f"{journal} names another file, which SQLite would delete, so {path.name} is not "
            f"opened; {instead or 'ask whoever made it for a copy without that journal'}"
        )
