"""What a paper about a run must say: the items of TRIPOD-LLM, a model card and a data sheet."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from krisis import __version__
from krisis.json_values import JsonObject, plain
from krisis.pages.wording import number
from krisis.reporting.provenance import execution_facts
from krisis.reporting.sheet_data import described
from krisis.reporting.sheet_facts import FACTS, scores_by_kind
from krisis.reporting.sheet_flow import Box, flow
from krisis.reporting.sheet_run import STATES, Fact, SheetRun, no_model

GUIDELINE = (
    "TRIPOD-LLM: Gallifant et al., The TRIPOD-LLM reporting guideline for studies using large "
    "language models, Nature Medicine 31, 60-69 (2025), doi:10.1038/s41591-024-03425-5"
)
DISCLAIMER = (
    "This sheet does not claim compliance with TRIPOD-LLM or any other guideline, and nobody has "
    "checked it. It says what the run knows; its items are in krisis's own words, and only the "
    "guideline itself says what to report."
)
Status = Literal["filled", "author must fill", "not applicable"]
AUTHOR: Status = "author must fill"
NOT_IN_RUN = "not in the run"
# What the cards must say, each with the names of the facts that say it.
_MODEL_TOPICS = {
    "model": "model asked|models that answered",
    "settings": "temperature|parameters",
    "prompts": "prompts",
    "date of the answers": "started",
    "tokens": "token total|token total reported",
    "cost": "cost",
}
_DATA_TOPICS = {
    "provenance": "provenance.*|imported|account",
    "version": "version|.*sha256|content hash",
    "licence": ".*licen[cs]e",
    "splits": "split|account|n training participants",
    "deferral": "deferral",
    "groups": "group .*",
    "missing values": "missing values",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One item of the guideline, as the table of items has it."""

    number: str
    section: str
    asks: str
    write: str
    facts: tuple[str, ...] = ()
    enough: bool = False
    absent: str = ""
    because: str = ""


@cache
def entries() -> tuple[Entry, ...]:
    """Return the items of the guideline in order."""
    text = files("krisis.reporting").joinpath("sheet_items.toml").read_text(encoding="utf-8")
    return tuple(
        Entry(**{**one, "facts": tuple(one.get("facts", ()))})
        for one in tomllib.loads(text)["items"]
    )


@dataclass(frozen=True, slots=True)
class Item:
    """An item with what the run says to it.

    ``words`` are what the author must write, or why the item does not apply. Facts of an item
    that the author must fill are a part of the answer.
    """

    number: str
    section: str
    asks: str
    status: Status
    words: str
    facts: tuple[Fact, ...]

    @property
    def source(self) -> str:
        """Return the files and fields that the facts are from, each once."""
        return "; ".join(dict.fromkeys(fact.source for fact in self.facts)) or NOT_IN_RUN


@dataclass(frozen=True, slots=True)
class Sheet:
    """The items, the flow of records, a model card and a data sheet of one run."""

    title: str
    file: str
    items: tuple[Item, ...]
    flow: tuple[Box, ...]
    model_card: tuple[Fact, ...]
    data_sheet: tuple[Fact, ...]
    scores: tuple[JsonObject, ...]
    person: str
    warnings: tuple[str, ...] = ()

    def count(self, status: Status) -> int:
        """Count the items of one status."""
        return sum(item.status == status for item in self.items)

    def to_dict(self) -> JsonObject:
        """Return the sheet as JSON values."""
        return {
            "kind": "krisis.sheet",
            "krisis_version": __version__,
            "title": self.title,
            "file": self.file,
            "guideline": GUIDELINE,
            "disclaimer": DISCLAIMER,
            "warnings": list(self.warnings),
            "items": [{**asdict(item), "source": item.source} for item in self.items],
            "flow": [asdict(box) for box in self.flow],
            "model_card": [asdict(fact) for fact in self.model_card],
            "data_sheet": [asdict(fact) for fact in self.data_sheet],
            "scores": plain(self.scores),
        }


def build_sheet(run: SheetRun) -> Sheet:
    """Fill what the run can say, and name what its author must."""
    result, made = run.result, run.result.provenance
    known = {name: tuple(of(run)) for name, of in FACTS.items()}
    about = " / ".join(filter(None, (made.suite, made.task, made.mode))) or "unnamed suite"
    return Sheet(
        f"{result.backend_name or 'unnamed model'} on {about}",
        run.file,
        tuple(_item(entry, run, known) for entry in entries()),
        tuple(flow(result)),
        _model_card(run, known),
        _data_sheet(run, known),
        tuple(_score_lines(run)),
        made.task_facts.person if made.task_facts else "patient",
        tuple(filter(None, (result.damage, result.stop.sentence if result.stop else ""))),
    )


def _item(entry: Entry, run: SheetRun, known: dict[str, tuple[Fact, ...]]) -> Item:
    named = (entry.number, entry.section, entry.asks)
    reason = STATES[entry.absent](run) if entry.absent else None
    if reason is not None:
        return Item(*named, "not applicable", f"{reason.value}: {entry.because}", (reason,))
    parts = [known[name] for name in entry.facts]
    facts = tuple(dict.fromkeys(fact for part in parts for fact in part))
    if entry.enough and all(parts):
        return Item(*named, "filled", "", facts)
    return Item(*named, AUTHOR, entry.write, facts)


def _model_card(run: SheetRun, known: dict[str, tuple[Fact, ...]]) -> tuple[Fact, ...]:
    no = no_model(run)
    place = run.of_run("").removesuffix(".")
    imported = run.result.provenance.imported
    more = [
        Fact("imported at" if imported and name == "started" else name, number(value), place)
        for name, value in execution_facts(run.result)
    ]
    named = ("model", "settings", "prompts", "dates", "baselines", "abstentions", "failures")
    first = [fact for name in named for fact in known[name]]
    taken = {fact.name for fact in first}
    found = [*first, *(fact for fact in more if fact.name not in taken)]
    gaps = () if no else _gaps(found, _MODEL_TOPICS)
    return (*([Fact("kind", no.value, no.source)] if no else []), *found, *gaps)


def _gaps(found: Sequence[Fact], topics: Mapping[str, str]) -> Iterator[Fact]:
    """Name what a card must say and no fact is about."""
    for topic, names in topics.items():
        if not any(re.fullmatch(names, fact.name, re.DOTALL) for fact in found):
            yield Fact(topic, AUTHOR, NOT_IN_RUN)


def _data_sheet(run: SheetRun, known: dict[str, tuple[Fact, ...]]) -> tuple[Fact, ...]:
    named = ("task", "labels", "deferral", "groups", "missing", "classes")
    found = [fact for name in named for fact in known[name]]
    taken = {fact.name for fact in found}
    imported = [fact for fact in known["source"] if fact.name == "imported"]
    found += [*imported, *(fact for fact in described(run) if fact.name not in taken)]
    return (*found, *_gaps(found, _DATA_TOPICS))


def _score_lines(run: SheetRun) -> Sequence[JsonObject]:
    name = "extras.scores_by_source" if run.result.scores_by_source else "metric_scores"
    return [
        {
            "name": f"{score.name}{kind}",
            "key": score.identifier,
            "value": score.value,
            "low": score.interval.low if score.interval else None,
            "high": score.interval.high if score.interval else None,
            "level": score.interval.level if score.interval else None,
            "method": score.interval.method if score.interval else "",
            "n": score.n_evaluated,
            "undefined": str(score.details.get("reason", "")),
            "no_interval": score.interval.reason if score.interval else "",
            "source": run.of_scores(name),
        }
        for kind, found in scores_by_kind(run.result).items()
        for score in found.values()
    ]
