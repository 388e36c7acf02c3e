"""What a verb is given to make its section of a report: a function of the kind `sections`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from krisis.api.given import AnyRun
from krisis.decisions.certify import Certificate
from krisis.decisions.run_sample import ScoreOptions
from krisis.metrics.items import RunItems


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRequest:
    """What a report asks for: ``value`` is what its option of the section's name was given."""

    run: AnyRun
    items: RunItems
    value: str | Path
    against: Sequence[AnyRun] = ()
    score: ScoreOptions
    certificate: Certificate | None = None
    prevalence: str = ""
