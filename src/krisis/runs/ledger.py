"""The ledger of a run: every certificate, check and stopping rule that was asked of its rows.

Asking again and again until one passes makes a false pass likely, so the number of questions is
part of every answer. Pages and sliders are exploration and are not noted. The ledger guards against
honest mistakes, not against forgery.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from krisis.errors import InvalidFile
from krisis.json_values import JsonMapping, JsonObject, plain
from krisis.runs.load import removal_sentence
from krisis.runs.places import is_run_file
from krisis.runs.read import open_run
from krisis.runs.schema import Checksums, insert, storable
from krisis.runs.write import rows_hash, write_briefly

CERTIFICATE, CHECK, STOPPING_RULE = "certificate", "check", "stopping rule"
REMOVAL = "removal"
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


@dataclass(frozen=True, slots=True)
class Noted:
    """What the ledger says of a question: all questions of its kind on these rows, this one last.

    ``is_recorded`` is false where the file could not be written. ``removal`` says what a patient
    who was removed from the run makes stale.
    """

    questions: Sequence[JsonObject]
    is_recorded: bool
    removal: str | None = None


def note_decision(
    path: Path, *, kind: str, question: JsonMapping, answer: str, at: datetime | None = None
) -> Noted:
    """Note a question and its answer in a run; an identical question on the same rows is one."""
    questions: list[JsonObject] = [dict(plain(question))]
    if not is_run_file(path):
        return Noted(questions, is_recorded=False)
    try:
        with open_run(path, checked=True) as run:
            checksums = Checksums(run.description.run_id)
            removal = removal_sentence(run.description, run.ledger())
    except InvalidFile:
        return Noted(questions, is_recorded=False)

    def note(connection: sqlite3.Connection) -> None:
        questions[:] = add_decision(
            connection, checksums, kind=kind, question=question, answer=answer, at=at
        )

    return Noted(questions, is_recorded=write_briefly(path, note), removal=removal)


def add_decision(
    connection: sqlite3.Connection,
    checksums: Checksums,
    *,
    kind: str,
    question: JsonMapping,
    answer: str,
    at: datetime | None = None,
) -> list[JsonObject]:
    """Write a line of the ledger unless it is there; return the questions of its kind so far."""
    hashed, asked = rows_hash(connection), json.dumps(plain(question), sort_keys=True)
    found = connection.execute(
        "SELECT id, question FROM ledger WHERE kind = ? AND rows_hash = ? ORDER BY id",
        (kind, hashed),
    ).fetchall()
    if asked not in [text for _, text in found]:
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM ledger").fetchone()
        now = (at or datetime.now(UTC)).isoformat(timespec="seconds")
        line = (last + 1, now, kind, hashed, asked, storable(answer))
        connection.execute(insert("ledger"), checksums.sealed("ledger", *line))
        found.append((last + 1, asked))
    questions: list[JsonObject] = [json.loads(text) for _, text in found]
    this: JsonObject = json.loads(asked)
    return [*(one for one in questions if one != this), this]


def certificate_sentence(noted: Noted) -> str:
    """Say how many certificates were requested on these rows, where it is not the first.

    >>> asked = [{"risk": 0.05}, {"risk": 0.08}, {"risk": 0.1}]
    >>> certificate_sentence(Noted(asked, is_recorded=True))
    'third certificate requested on these rows: risk 0.05, 0.08, 0.1'
    """
    sentences = [noted.removal] if noted.removal else []
    n = len(noted.questions)
    if n > 1:
        number = _ORDINALS[n - 1] if n <= len(_ORDINALS) else f"{n}th"
        risks = ", ".join(f"{one.get('risk')!s:.12}" for one in noted.questions)
        sentences.append(f"{number} certificate requested on these rows: risk {risks}")
    if not noted.is_recorded:
        sentences.append("not recorded: requests on these rows are not counted in this file")
    return "; ".join(sentences)
