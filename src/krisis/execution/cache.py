"""Replies that were paid for once, kept in SQLite under the hash of their request."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.signals import TokenLogprob
from krisis.errors import InvalidFile
from krisis.json_values import open_private
from krisis.runs.schema import storable
from krisis.sqlite_edge import address

FLUSH_SECONDS = 0.5
FLUSH_ROWS = 64
_TABLE = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    saved_at REAL NOT NULL,
    reply TEXT NOT NULL
) WITHOUT ROWID
"""


def default_cache_path() -> Path:
    """Return where the replies of this user are kept."""
    return platformdirs.user_cache_path("krisis") / "replies.sqlite"


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What a cache holds; ``oldest`` and ``newest`` are seconds since 1970."""

    path: Path
    n_replies: int
    size_bytes: int
    models: Mapping[str, int]
    oldest: float | None
    newest: float | None


class ReplyCache:
    """Looks replies up by request and keeps new ones; several processes may share the file.

    The key covers provider, address, model, messages, schema, parameters and sample index, never
    credentials. A file that can no longer be written turns the cache off, not the run.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.fault = ""
        self._fresh: dict[str, tuple[str, str, str, float, str]] = {}
        self._flushed_at = time.monotonic()
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(open_private(str(self.path), os.O_RDWR | os.O_CREAT))
            if self.path.stat().st_mode & 0o077:  # of an earlier version; side files follow it
                self.path.chmod(0o600)
            self._connection = sqlite3.connect(
                address(self.path, "rw"),
                uri=True,
                timeout=10,
                isolation_level=None,
                check_same_thread=False,
            )
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise InvalidFile(
                f"the reply cache {self.path} cannot be opened ({error}); "
                "move it away, or run with --no-cache"
            ) from None

    def get(self, key: str) -> ChatReply | None:
        """Return the reply to a request that was made before."""
        if key in self._fresh:
            return _reply(self._fresh[key][4])
        try:
            found = self._connection.execute(
                "SELECT reply FROM replies WHERE key = ?", (key,)
            ).fetchone()
        except sqlite3.Error as error:
            self.fault = self.fault or str(error)
            return None
        try:
            return None if found is None else _reply(found[0])
        except (ValueError, TypeError, KeyError):  # damaged, or kept by another version: ask again
            return None

    def put(self, key: str, request: ChatRequest, reply: ChatReply) -> None:
        """Keep a reply that was read and found good."""
        if self.fault:
            return
        self._fresh[key] = (key, request.provider, request.model, time.time(), _text(reply))
        late = time.monotonic() - self._flushed_at > FLUSH_SECONDS
        if late or len(self._fresh) >= FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is still in memory."""
        self._flushed_at = time.monotonic()
        if not self._fresh:
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?)", self._fresh.values()
            )
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self.fault = str(error)
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self._fresh.clear()

    def info(self) -> CacheInfo:
        """Say where the cache is, how large it is and which models it knows."""
        rows = self._connection.execute(
            "SELECT provider || '/' || model, count(*), min(saved_at), max(saved_at) "
            "FROM replies GROUP BY 1 ORDER BY 1"
        ).fetchall()
        return CacheInfo(
            path=self.path,
            n_replies=sum(row[1] for row in rows),
            size_bytes=self.path.stat().st_size,
            models={row[0]: row[1] for row in rows},
            oldest=min((row[2] for row in rows), default=None),
            newest=max((row[3] for row in rows), default=None),
        )

    def clear(self, *, older_than_seconds: float = 0.0) -> int:
        """Remove replies that are older, and return how many; without an age, all of them."""
        if not older_than_seconds:
            return self._delete("DELETE FROM replies")
        saved_before = time.time() - older_than_seconds
        return self._delete("DELETE FROM replies WHERE saved_at < ?", [(saved_before,)])

    def remove_texts(self, texts: Collection[str]) -> int:
        """Remove the replies that contain one of these texts, and return how many.

        Requests are kept as hashes, so a reply is found by what it says; another one that says the
        same goes with it.
        """
        found = []
        for key, held in self._connection.execute("SELECT key, reply FROM replies"):
            try:
                text = storable(_reply(held).text)
            except (ValueError, TypeError, KeyError):  # damaged: nobody can say whose it is
                found.append((key,))
                continue
            if any(one in text for one in texts):
                found.append((key,))
        return self._delete("DELETE FROM replies WHERE key = ?", found) if found else 0

    def _delete(self, sql: str, values: Sequence[tuple[str | float, ...]] = ((),)) -> int:
        """Delete replies so that no byte of them is left in the file or the log beside it."""
        try:
            n_before = self._connection.total_changes
            self._connection.execute("PRAGMA secure_delete = ON")
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(sql, values)
            self._connection.execute("COMMIT")
            n_deleted = self._connection.total_changes - n_before
            self._connection.execute("VACUUM")
            (is_busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise InvalidFile(f"the reply cache {self.path} cannot be changed: {error}") from None
        if is_busy:
            raise InvalidFile(
                f"the reply cache {self.path} is in use by another process, and the log beside it "
                "still holds what was removed; wait for it to end, then try again"
            )
        return n_deleted

    def close(self) -> None:
        """Write what is in memory and release the file."""
        self.flush()
        self._connection.close()


def _text(reply: ChatReply) -> str:
    content = asdict(reply)
    del content["headers"]
    return json.dumps(content)


def _reply(text: str) -> ChatReply:
    content = json.loads(text)
    content["logprobs"] = tuple(
        TokenLogprob(
            item["token"], item["logprob"], tuple((token, value) for token, value in item["top"])
        )
        for item in content["logprobs"]
    )
    return ChatReply(**content)
