"""Results of `krisis sheet` for the approved pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fixture_results import run

from krisis.verbs.sheet.page import Sheet, build_sheet


def _sheet() -> Sheet:
    """Return the sheet of a saved run that its author has begun to fill."""
    with TemporaryDirectory() as folder:
        path = run("careful").save(Path(folder) / "careful.json")
        found = build_sheet(path, answers={"1": "A study of the careful model."})
    code = [
        replace(fact, value=fact.value.replace(str(path.resolve()), path.name))
        for fact in found.facts["code"]
    ]
    return replace(found, facts={**found.facts, "code": code})


RESULTS = {"sheet": _sheet}
