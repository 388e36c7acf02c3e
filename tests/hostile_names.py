"""Runs in whose every name something hides that steers terminals and breaks drawings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.invented_runs import forge_description, invented_rows, result_of, write_run

from krisis.metrics.base import Rows

# A title, a cleared screen, a colour that krisis never uses, C1, bidi, zero width, delete.
NASTY = "n\x1b]0;owned\x07\x1b[2J\x1b[45mx\x9b31m\u202ey\u2066\u200bz\x7f\r\x00!"


def hostile_run(folder: Path, name: str, seed: int = 0) -> Path:
    """Return a run with hidden characters in every name and text, sealed as the writer seals."""
    rows = invented_rows(40, seed=seed)
    nasty = [
        replace(
            row,
            record_id=f"{NASTY}{i}",
            cluster_id=f"{NASTY}{i // 2}",
            error=row.error and NASTY,
            raw_response=NASTY,
            prompt=NASTY,
            metadata=row.metadata | {"sex": NASTY, f"k{NASTY}": NASTY},
        )
        for i, row in enumerate(rows)
    ]
    path = write_run(folder / name, result_of(Rows(nasty, rows.answers), f"{name}{NASTY}"))
    described = {"suite": f"ckd{NASTY}", "task": f"detection{NASTY}", "content_hash": "ab" * 32}
    forge_description(path, suite_description=described)
    return path
