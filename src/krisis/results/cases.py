"""Which record belongs at each position of a run, so that a row of another run is not believed.

A run keeps one short hash per position, of record id, patient and right answer; no value of a
patient is in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from krisis.json_values import plain
from krisis.metrics.base import EvaluationResult


def case_digest(record_id: str, cluster_id: str, label: object) -> str:
    """Return the hash of one case.

    >>> case_digest("r1", "r1", 1) == case_digest("r1", "r1", "1")
    False
    """
    named = "\0".join((record_id, cluster_id, repr(plain(label))))
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Cases:
    """The hashes of all positions of a run, in order."""

    digests: tuple[str, ...] = ()

    @classmethod
    def of(cls, named: Iterable[tuple[str, str, object]]) -> Cases:
        """Hash the cases of a run: record id, patient and right answer of each."""
        return cls(tuple(case_digest(*one) for one in named))

    @classmethod
    def read(cls, path: Path, expected_hash: str) -> Cases | None:
        """Read what a run stored; None if that is missing or damaged, by the manifest's hash."""
        try:
            found = cls(tuple(path.read_text(encoding="ascii").split()))
        except (OSError, UnicodeDecodeError):
            return None
        return found if found.content_hash == expected_hash else None

    @property
    def text(self) -> str:
        """Return the content of the file: one line per position."""
        return "".join(f"{digest}\n" for digest in self.digests)

    @property
    def content_hash(self) -> str:
        """Return the hash by which the manifest knows the file."""
        return hashlib.sha256(self.text.encode("ascii", "replace")).hexdigest()

    def objection(self, position: object, row: EvaluationResult) -> str:
        """Say why a row cannot be the one of its position; nothing if it can."""
        if type(position) is not int or not 0 <= position < len(self.digests):
            return "its position is outside the run"
        if case_digest(row.record_id, row.cluster_id, row.ground_truth) != self.digests[position]:
            return "its record, patient or right answer is not the one of its position"
        return ""
