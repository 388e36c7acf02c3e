"""What processes on one machine know of an account: its rates, pauses and overloads, in SQLite."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from krisis.backends.retry import LONGEST_RETRY_AFTER_SECONDS
from krisis.execution.pacing.rates import Clock, Passed, Rate

# What a call took of requests and tokens per minute, None where there is no such limit.
Taken = tuple[Passed | None, Passed | None]
# A limit binds other processes for so long after its own last sign of life.
LEASE_SECONDS = 90.0
# How long another process may be waited for; the event loop stands still meanwhile.
_BUSY_SECONDS = 0.05
_UNUSED_SECONDS = 30 * 86_400.0
_TABLES = """
CREATE TABLE IF NOT EXISTS salt (value BLOB NOT NULL);
INSERT INTO salt SELECT randomblob(32) WHERE NOT EXISTS (SELECT 1 FROM salt);
CREATE TABLE IF NOT EXISTS accounts (
    account TEXT PRIMARY KEY,
    requests BLOB NOT NULL DEFAULT x'',
    tokens BLOB NOT NULL DEFAULT x'',
    paused_until REAL NOT NULL DEFAULT 0,
    n_overloads INTEGER NOT NULL DEFAULT 0,
    used_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases (
    account TEXT NOT NULL,
    owner TEXT NOT NULL,
    requests_per_minute REAL,
    tokens_per_minute REAL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (account, owner)
) WITHOUT ROWID;
"""


def default_path() -> Path:
    """Return where the limits of this user's accounts are kept."""
    return platformdirs.user_cache_path("krisis") / "limits.sqlite"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the other processes of an account left to be known."""

    pause_seconds: float
    is_overloaded: bool
    is_limited: bool


class LimitsFile:
    """The file that all processes of a user share; only this user can read it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        self._connection.execute("PRAGMA busy_timeout = 5000")  # another may just be creating it
        self._connection.execute("PRAGMA journal_mode = WAL")
        # After a crash of the machine nothing in it is true any more.
        self._connection.execute("PRAGMA synchronous = OFF")
        with self.changing() as connection:
            for statement in filter(str.strip, _TABLES.split(";")):
                connection.execute(statement)
            connection.execute(
                "DELETE FROM accounts WHERE abs(used_at - ?) > ?", (time.time(), _UNUSED_SECONDS)
            )
        self._connection.execute(f"PRAGMA busy_timeout = {round(_BUSY_SECONDS * 1000)}")
        self.salt: bytes = self.one("SELECT value FROM salt")[0]

    def one(self, statement: str, *values: object) -> tuple[Any, ...]:
        """Return the one row of a query."""
        with closing(self._connection.execute(statement, values)) as found:
            row: tuple[Any, ...] | None = found.fetchone()
        if row is None:
            raise sqlite3.DataError("a row of the limits is missing")
        return row

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Hold the file alone; a process that is killed meanwhile has changed nothing."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Release the file."""
        self._connection.close()


class SharedLimits:
    """One account as one run, or one sweep, sees and changes it.

    The lowest limit that a living run has stated binds all of them. Times are those of the
    monotonic clock, which all processes of a machine share and which nobody can set; what lies
    further ahead than it can is of the time before a restart, and is passed over.
    """

    def __init__(
        self,
        file: LimitsFile,
        account: str,
        per_minute: tuple[float | None, float | None],
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        self._file = file
        self._account = account
        self._stated = per_minute
        self._clock = clock
        self._owner = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._per_minute: tuple[float | None, ...] = per_minute
        with file.changing() as connection:
            connection.execute(
                "INSERT INTO accounts (account, used_at) VALUES (?, ?) "
                "ON CONFLICT DO UPDATE SET used_at = excluded.used_at",
                (account, time.time()),
            )
            self._renew(connection)
        self._n_overloads = self._state()[1]

    def look(self) -> Seen:
        """Return what changed, and say that this run is alive."""
        if any(self._stated):
            with self._file.changing() as connection:
                self._renew(connection)
        else:
            self._learn_limits()
        paused_until, n_overloads = self._state()
        seconds = paused_until - self._clock()
        seen = Seen(
            max(0.0, seconds) if seconds <= LONGEST_RETRY_AFTER_SECONDS else 0.0,
            n_overloads != self._n_overloads,
            any(self._per_minute),
        )
        self._n_overloads = n_overloads
        return seen

    def admit(self, expected: float, most: float) -> float | Taken:
        """Return how long to wait, or what a call takes of both rates when it may be sent now."""
        with self._file.changing() as connection:
            requests, tokens = self._rates()
            seconds = max(
                requests.wait_seconds() if requests else 0.0,
                tokens.wait_seconds(expected, most) if tokens else 0.0,
            )
            if seconds > 0:
                return seconds
            passed = (
                requests.take() if requests else None,
                tokens.take(expected, most) if tokens else None,
            )
            self._write(connection, requests, tokens)
            return passed

    def settle(self, taken: Taken, used: float) -> None:
        """Count a call that was answered for what it took."""
        with self._file.changing() as connection:
            rates = self._rates()
            for rate, passed, amount in zip(rates, taken, (1.0, used), strict=True):
                if rate is not None and passed is not None:
                    rate.settle(rate.found(passed), amount)
            self._write(connection, *rates)

    def pause(self, seconds: float) -> None:
        """Let nobody send anything for so long."""
        with self._file.changing() as connection:
            until = self._clock() + seconds
            connection.execute(
                "UPDATE accounts SET paused_until = CASE WHEN paused_until > ? OR paused_until < ? "
                "THEN ? ELSE paused_until END WHERE account = ?",
                (self._clock() + LONGEST_RETRY_AFTER_SECONDS, until, until, self._account),
            )

    def overloaded(self) -> None:
        """Let everybody halve the number of simultaneous calls."""
        with self._file.changing() as connection:
            connection.execute(
                "UPDATE accounts SET n_overloads = n_overloads + 1 WHERE account = ?",
                (self._account,),
            )
        self._n_overloads += 1

    def close(self) -> None:
        """Withdraw the limits that this run stated."""
        with suppress(sqlite3.Error), self._file.changing() as connection:
            mine = (self._account, self._owner)
            connection.execute("DELETE FROM leases WHERE account = ? AND owner = ?", mine)
        self._file.close()

    def _renew(self, connection: sqlite3.Connection) -> None:
        now = self._clock()
        if any(self._stated):
            connection.execute(
                "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?)",
                (self._account, self._owner, *self._stated, now + LEASE_SECONDS),
            )
        connection.execute(
            "DELETE FROM leases WHERE expires_at NOT BETWEEN ? AND ?", (now, now + LEASE_SECONDS)
        )
        self._learn_limits()

    def _learn_limits(self) -> None:
        now = self._clock()
        self._per_minute = self._file.one(
            "SELECT min(requests_per_minute), min(tokens_per_minute) FROM leases "
            "WHERE account = ? AND expires_at BETWEEN ? AND ?",
            *(self._account, now, now + LEASE_SECONDS),
        )

    def _state(self) -> tuple[float, int]:
        paused_until, n_overloads = self._file.one(
            "SELECT paused_until, n_overloads FROM accounts WHERE account = ?", self._account
        )
        return paused_until, n_overloads

    def _rates(self) -> tuple[Rate | None, Rate | None]:
        states = self._file.one(
            "SELECT requests, tokens FROM accounts WHERE account = ?", self._account
        )
        rates: list[Rate | None] = []
        for per_minute, state in zip(self._per_minute, states, strict=True):
            rate = None if per_minute is None else Rate(per_minute, clock=self._clock)
            if rate is not None:
                rate.read(state)
            rates.append(rate)
        return rates[0], rates[1]

    def _write(
        self, connection: sqlite3.Connection, requests: Rate | None, tokens: Rate | None
    ) -> None:
        for column, rate in (("requests", requests), ("tokens", tokens)):
            if rate is not None:
                connection.execute(
                    f"UPDATE accounts SET {column} = ? WHERE account = ?",  # noqa: S608 - fixed words
                    (rate.written(), self._account),
                )
