"""The planted bugs: one list per area in YAML, each an exact change of one place in the source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SOURCE = ROOT / "src" / "krisis"


class NotOnce(Exception):
    """The snippet of a mutant occurs never, or several times, in its file."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug: what it changes, what that breaks, and the tests that must notice.

    ``file`` lies under ``src/krisis``; ``tests`` are test files or single tests in them.
    """

    name: str
    area: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]

    def applied_to(self, text: str) -> str:
        """Return the source with the bug in it."""
        n_found = text.count(self.old)
        if n_found != 1:
            raise NotOnce(f"{self.name}: the snippet occurs {n_found} times in {self.file}")
        return text.replace(self.old, self.new)


def all_mutants() -> list[Mutant]:
    """Return every mutant, by area."""
    return [
        Mutant(area=path.stem, **{**entry, "tests": tuple(entry["tests"])})
        for path in sorted(FOLDER.glob("*.yaml"))
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))
    ]
