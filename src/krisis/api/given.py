"""What a verb may be given: a run, a certificate or a calibrator, as such or by path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from krisis.confidence.calibrators import Calibrator, calibrator_from
from krisis.decisions.certify import Certificate, certificate_from
from krisis.json_values import read_object
from krisis.results.base import BenchmarkResult
from krisis.results.loading import load_result, scored_from_rows, with_rows

AnyRun: TypeAlias = str | Path | BenchmarkResult
AnyCalibrator: TypeAlias = str | Path | Calibrator | None
AnyCertificate: TypeAlias = str | Path | Certificate | None


def calibrator_of(given: AnyCalibrator) -> Calibrator | None:
    """Return a calibrator that is given as such or by the path of its artifact."""
    if given is None or isinstance(given, Calibrator):
        return given
    return calibrator_from(read_object(Path(given)), place=Path(given))


def certificate_of(given: AnyCertificate) -> Certificate | None:
    """Return a certificate that is given as such or by the path of its file."""
    if given is None or isinstance(given, Certificate):
        return given
    return certificate_from(read_object(Path(given)), place=Path(given))


def run_file_of(run: AnyRun) -> Path | None:
    """Return the file in whose ledger a question about a run is noted, where there is one."""
    place = run.provenance.run_file if isinstance(run, BenchmarkResult) else run
    return None if place is None else Path(place)


def listed_names(names: str | Sequence[str]) -> list[str]:
    """Return names that are given one by one or between commas."""
    parts = names.split(",") if isinstance(names, str) else names
    return [part.strip() for part in parts if part.strip()]


def from_rows(run: AnyRun) -> BenchmarkResult:
    """Return a run whose rows were scored here and now: a gate believes no stored score."""
    if isinstance(run, BenchmarkResult):
        return scored_from_rows(with_rows(run, Path("the result")))
    return scored_from_rows(with_rows(load_result(Path(run)), Path(run)))
