"""How well `krisis init` reads a list of headers: what it finds, and what it shows by mistake."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from tests.data.table.invented_tables import Header, names_of_survival, write_table

from krisis.data.table.draft import draft
from krisis.data.table.suite import TableSuite


@dataclass
class DraftScores:
    n_tables: int = 0
    n_with_outcome: int = 0
    not_checked: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    wrong_positive: list[str] = field(default_factory=list)
    n_without_key: int = 0


def drafted(chosen: Iterable[Header], folder: Path) -> DraftScores:
    """Draft a file for each table, write it, load it, and compare it with what the list says."""
    scores = DraftScores()
    survival = names_of_survival()
    for number, header in enumerate(chosen):
        file = write_table(header, folder / f"t{number}.csv", seed=number)
        out = file.with_suffix(".yaml")
        made = draft(file, out)
        out.write_text(made.text, encoding="utf-8")
        scores.n_tables += 1
        place = f"{header.style} {header.outcome or ' '.join(header.names)}"
        found = yaml.safe_load(made.text)
        task = found["tasks"]["main"]
        is_open = str(task["question"]).startswith("TODO")
        if made.checked.fatal:
            scores.not_checked.append(f"{place}: {made.checked.fatal[0].sentence}")
        elif "TODO" not in made.text:
            TableSuite(out).load()
        label = task["label"]
        label = str(label["column"] if isinstance(label, dict) else label)
        if header.outcome is None:
            scores.invented += [] if is_open else [f"{place}: {label}"]
            scores.shown += _shown(header, task, place)
            continue
        scores.n_with_outcome += 1
        if is_open or header.outcome not in label:
            scores.missed.append(f"{place} ({'-' if is_open else label})")
            continue
        scores.shown += _shown(header, task, place)
        expected = None
        if header.pair and header.content not in ("Q", "C"):
            yes, no = header.pair
            expected = no if header.outcome in survival else yes
        positive = task.get("positive")
        if _written(positive) != _written(expected):
            scores.wrong_positive.append(f"{place}: {positive!r} for {expected!r}")
        if expected is None and header.pair and "positive:" not in made.text:
            scores.n_without_key += 1
    return scores


def _written(value: object) -> str:
    """Return a value in small letters; true and yes are the same, and so are false and no."""
    text = str(value).lower()
    return {"true": "yes", "false": "no"}.get(text, text)


def _shown(header: Header, task: dict[str, list[str]], place: str) -> list[str]:
    return [f"{place}: {name}" for name in task["features"] if name in header.never_shown]
