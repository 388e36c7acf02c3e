"""Home: the results of all runs by suite and task, what is running, and what is odd."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlencode

from krisis.decisions.certificate import certificate_from
from krisis.errors import KrisisError, UnknownName
from krisis.json_values import JsonObject, read_object
from krisis.metrics.base import MetricScore
from krisis.outcomes import OUTCOMES
from krisis.pages.certify import promise
from krisis.results.report_tables import has_no_disease
from krisis.results.side_by_side import (
    BESIDE_HEADLINE,
    HEADINGS,
    ON_REQUEST,
    cell_dict,
    metric_cell,
)
from krisis.runs.read import Progress, state_of
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.entries import ARTEFACTS, Entry, artefacts_in, shown
from krisis.viewer.page import Page, choice_of, text_of, whole_of

STATES = ("ended", "running", "stopped", "unreadable")
# So many runs of a task are shown until one asks for the task alone, and then on one page.
N_SHOWN, PAGE_SIZE, LARGEST_PAGE = 10, 50, 500
N_COLUMNS = 4
_USUAL = ("accuracy", "selective_accuracy", "abstention_rate", "deferral_alignment")
Key: TypeAlias = Callable[[Entry], float | str]
Certificates: TypeAlias = Mapping[Path, Sequence[JsonObject]]
# What a table can be sorted by beside its metrics.
_SORTS: dict[str, Key] = {
    "model": lambda entry: entry.model.casefold(),
    "run": lambda entry: entry.name,
    "date": lambda entry: entry.created_at,
    "state": lambda entry: entry.state,
    "n": lambda entry: entry.n_done,
    "answered": lambda entry: entry.counts.get("answered", 0),
    "abstained": lambda entry: entry.counts.get("abstained", 0),
    "no_answer": lambda entry: entry.counts.get("no_answer", 0),
    "not_evaluated": lambda entry: entry.counts.get("not_evaluated", 0),
    "cost": lambda entry: math.nan if entry.cost is None else entry.cost,
}

_ENDS = {
    "": ("lowest first", "highest first"),
    "date": ("oldest first", "newest first"),
    **dict.fromkeys(("model", "run", "state"), ("a to z", "z to a")),
}


@dataclass(frozen=True, slots=True)
class View:
    """What the address asks for; ``sort`` begins with a minus for the highest first."""

    text: str = ""
    suite: str = ""
    task: str = ""
    state: str = ""
    model: str = ""
    metrics: Sequence[str] = ()
    sort: str = ""
    page: int = 1
    size: int = PAGE_SIZE

    def lets_through(self, entry: Entry) -> bool:
        """Say whether an entry passes the filters; all words of the text must be in it."""
        if any(
            wanted and wanted != getattr(entry, name)
            for name in ("suite", "task", "state", "model")
            if (wanted := getattr(self, name))
        ):
            return False
        words = f"{entry.model} {entry.name} {entry.suite} {entry.task} {entry.features}".casefold()
        return all(word in words for word in self.text.casefold().split())

    def address(self, **changes: object) -> str:
        """Return the query of the same view with something else in it."""
        content = asdict(self) | {"page": 1} | changes
        content["metric"] = content.pop("metrics")
        usual = asdict(View())
        kept = {k: v for k, v in content.items() if v and v != usual.get(k)}
        return "?" + urlencode(kept, doseq=True)


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of a table."""

    key: str
    heading: str
    direction: str
    is_headline: bool = field(default=False)


def page(catalogue: Catalogue, query: Mapping[str, str], metrics: Sequence[str]) -> Page:
    """Show the results of the folder, as far as the address asks for them."""
    entries = catalogue.entries()
    known = _headings(entry.scores for entry in entries)
    view = _view(query, metrics, known)
    found = [entry for entry in entries if view.lets_through(entry)]
    certificates = _certificates(catalogue)
    listed = [e for e in found if e.state in ("ended", "stopped")]
    tables = _tables(listed, view, certificates)
    content: JsonObject = {
        "folder": catalogue.folder.name,
        "filter": asdict(view),
        "n_runs": len(entries),
        "n_found": len(found),
        "runs": [line(entry) for entry in found],
        "running": [line(entry) for entry in found if entry.state == "running"],
        "tables": tables,
        "odd": [line(entry) for entry in found if entry.problem or entry.damage],
    }
    context: JsonObject = {
        "view": view,
        "metrics": known,
        "chosen": view.metrics or [c["key"] for c in (tables[0]["columns"] if tables else ())],
        "sorts": {name: (name, *_ENDS.get(name, _ENDS[""])) for name in _SORTS}
        | {name: (words, *_ENDS[""]) for name, words in known.items()},
        "states": [state for state in STATES if any(e.state == state for e in entries)],
        "suites": sorted({entry.suite for entry in entries if entry.suite}),
        "tasks": sorted({e.task for e in entries if e.task and view.suite in ("", e.suite)}),
        "models": sorted({entry.model for entry in entries if entry.model}, key=str.casefold),
    }
    return Page("runs.html", "Results", content, context)


def progress_page(catalogue: Catalogue, name: str) -> Page:
    """Say how far one run has come, and what it took so far."""
    entry = catalogue.entry(name)
    content = line(entry)
    so_far = catalogue.progress(entry)
    if so_far is not None:
        content |= _took(so_far, entry.n_cases - entry.n_done)
    return Page("progress.html", f"Progress · {name}", content)


def _took(so_far: Progress, n_left: int) -> JsonObject:
    spent, rate = so_far.totals, so_far.per_minute
    n_input, n_output = spent.paid_tokens
    return {
        "failures": dict(so_far.failures),
        "per_minute": rate,
        "seconds_left": n_left / rate * 60 if rate else None,
        "n_calls": spent.n_calls,
        "n_retries": spent.n_retries,
        "n_cache_hits": spent.n_cache_hits,
        "input_tokens": n_input,
        "output_tokens": n_output,
        "cost": so_far.cost,
        "cost_is_bound": so_far.cost_is_bound,
    }


def line(entry: Entry) -> JsonObject:
    """Return what is said of a run without its scores."""
    return {
        "name": entry.name,
        "file": shown(entry.path.name),
        "state": entry.state,
        "backend_name": entry.model,
        "suite": entry.suite,
        "task": entry.task,
        "features": entry.features,
        "imported": entry.imported,
        "created_at": entry.created_at,
        "n_cases": entry.n_cases,
        "n_done": entry.n_done,
        "counts": {outcome: entry.counts.get(outcome, 0) for outcome in OUTCOMES},
        "cost": entry.cost,
        "problem": entry.problem,
        "damage": entry.damage,
    }


def _view(query: Mapping[str, str], metrics: Sequence[str], known: Mapping[str, str]) -> View:
    for metric in metrics:
        if metric not in known:
            raise UnknownName.among("metric", metric, known)
    sort = text_of(query, "sort")
    if sort and sort.removeprefix("-") not in (*_SORTS, *known):
        raise UnknownName.among("column", sort.removeprefix("-"), [*_SORTS, *known])
    return View(
        text=text_of(query, "text"),
        suite=text_of(query, "suite"),
        task=text_of(query, "task"),
        state=choice_of(query, "state", STATES),
        model=text_of(query, "model"),
        metrics=list(dict.fromkeys(metrics)),
        sort=sort,
        page=whole_of(query, "page", default=1, most=10**6),
        size=whole_of(query, "size", default=PAGE_SIZE, most=LARGEST_PAGE),
    )


def _headings(all_scores: Iterable[Mapping[str, MetricScore]]) -> dict[str, str]:
    """Return every metric that a run was scored with and its heading, the well-known first."""
    headings = {**HEADINGS, **ON_REQUEST}
    found: dict[str, str] = {}
    for scores in all_scores:
        for score in scores.values():
            if score.identifier not in found and not has_no_disease(score):
                found[score.identifier] = headings.get(score.identifier, score.name)
    order = {name: place for place, name in enumerate(headings)}
    return dict(sorted(found.items(), key=lambda pair: order.get(pair[0], len(order))))


def _certificates(catalogue: Catalogue) -> Certificates:
    """Return what the certificates saved beside runs promise."""
    return {
        run: [
            _certificate(path, state_of(path))
            for path, kind in saved
            if ARTEFACTS[kind] == "certificate"
        ]
        for run, saved in artefacts_in(catalogue.folder).items()
    }


def _tables(entries: Sequence[Entry], view: View, certificates: Certificates) -> list[JsonObject]:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.suite, entry.task), []).append(entry)
    return [
        _table(suite, task, found, view, certificates, alone=len(groups) == 1)
        for (suite, task), found in sorted(groups.items())
    ]


def _table(
    suite: str,
    task: str,
    entries: list[Entry],
    view: View,
    certificates: Certificates,
    *,
    alone: bool,
) -> JsonObject:
    columns = _columns(entries, view)
    sort = view.sort or _usual_sort(columns)
    ordered = _ordered(entries, sort)
    n_pages = max(1, -(-len(ordered) // view.size))
    number = min(view.page, n_pages)
    start = (number - 1) * view.size
    shown = ordered[start : start + view.size] if alone else ordered[:N_SHOWN]
    return {
        "suite": suite,
        "task": task,
        "sort": sort,
        "columns": [asdict(column) for column in columns],
        "n_runs": len(ordered),
        "is_priced": any(entry.cost is not None for entry in entries),
        "n_sets_of_cases": len({entry.content_hash for entry in entries}),
        "page": number if alone else 1,
        "n_pages": n_pages if alone else 1,
        "rows": [_row(entry, columns, certificates.get(entry.path, ())) for entry in shown],
        "baselines": _baselines(entries, columns),
    }


def _columns(entries: Sequence[Entry], view: View) -> list[Column]:
    """Return the metrics of a table: those chosen, else a few, the headline of the task first."""
    found = {score.identifier: score for entry in entries for score in entry.scores.values()}
    headlines = (entry.scores.get(entry.headline) for entry in entries if entry.headline)
    headline = next((score.identifier for score in headlines if score is not None), "")
    known = _headings([found])
    usual = [name for name in HEADINGS if name not in BESIDE_HEADLINE] if headline else _USUAL
    wanted = view.metrics or [headline, *(name for name in (*usual, *known) if name != headline)]
    names = [name for name in dict.fromkeys(wanted) if name in known]
    names.sort(key=lambda name: name != headline)
    return [
        Column(name, known[name], found[name].direction, name == headline)
        for name in (names if view.metrics else names[:N_COLUMNS])
    ]


def _usual_sort(columns: Sequence[Column]) -> str:
    """Return the best headline first, where it can rank models, else the newest run first."""
    first = columns[0] if columns and columns[0].is_headline else None
    if first is None or first.direction == "neither" or first.key == "accuracy":
        return "-date"
    return f"-{first.key}" if first.direction == "higher" else first.key


def _ordered(entries: Sequence[Entry], sort: str) -> list[Entry]:
    """Return the entries in order; those without the figure come last whichever way."""
    name = sort.removeprefix("-")

    def of_metric(entry: Entry) -> float:
        score = entry.scores.get(name)
        return metric_cell(score).worse_end(score.direction if score else "neither")

    key: Key = _SORTS.get(name, of_metric)
    by_name = sorted(entries, key=lambda entry: entry.name)
    keys = {id(entry): key(entry) for entry in by_name}
    known = [entry for entry in by_name if keys[id(entry)] == keys[id(entry)]]  # NaN is not itself
    known.sort(key=lambda entry: keys[id(entry)], reverse=sort.startswith("-"))
    return [*known, *(entry for entry in by_name if keys[id(entry)] != keys[id(entry)])]


def _row(entry: Entry, columns: Sequence[Column], certificates: Sequence[JsonObject]) -> JsonObject:
    sources = list(entry.scores_by_source)
    return {
        **line(entry),
        "figures": _figures(entry.scores, columns),
        "sources": sources if len(sources) > 1 else [],
        "certificates": list(certificates),
    }


def _figures(scores: Mapping[str, MetricScore], columns: Sequence[Column]) -> JsonObject:
    return {column.key: cell_dict(metric_cell(scores.get(column.key))) for column in columns}


def _baselines(entries: Sequence[Entry], columns: Sequence[Column]) -> list[JsonObject]:
    """Return what was scored on the same cases when the runs were made, each once."""
    models = {entry.model for entry in entries}
    found: dict[tuple[str, str], JsonObject] = {}
    for entry in entries:
        for name, scores in entry.baselines.items():
            if name not in models:
                figures = _figures(scores, columns)
                found.setdefault((name, entry.content_hash), {"name": name, "figures": figures})
    return list(found.values())


@lru_cache(maxsize=2000)
def _certificate(path: Path, _: tuple[int, ...]) -> JsonObject:
    """Say what a certificate beside a run promises."""
    try:
        certificate = certificate_from(read_object(path), place=path.name)
    except KrisisError as error:
        return {"file": path.name, "words": "certificate not valid", "promise": str(error)}
    met = any(part.threshold is not None for part in certificate.parts)
    words = f"{'' if met else 'not '}certified: risk ≤ {certificate.risk:.3g}"
    stated = promise(certificate) if met else "no threshold is known to hold this risk"
    return {"file": path.name, "words": words, "promise": stated}
