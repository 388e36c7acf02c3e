"""Home: per task a forest of its runs beside their baselines, what is running, and what is odd."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlencode

from krisis.decisions.certify import certificate_from
from krisis.errors import KrisisError, UnknownName
from krisis.json_values import JsonObject, read_object
from krisis.metrics.base import Direction, MetricScore
from krisis.metrics.explanations import reason_words
from krisis.outcomes import OUTCOMES
from krisis.pages.cases import ChartFile
from krisis.pages.certify import promise
from krisis.pages.charts.forest import forest
from krisis.pages.document import Cell, Chart, Column, Document, Section, Table
from krisis.pages.html import table_html
from krisis.pages.numbers import Estimate, count, dollars, figure, given
from krisis.pages.strip import Strip
from krisis.pages.style import style_of
from krisis.pages.tabs import Page, choice_of, text_of, whole_of
from krisis.results.account import RunFacts
from krisis.results.artefacts import SAVED_BESIDE, saved_beside
from krisis.results.base import BenchmarkResult
from krisis.results.loading import distinct_names, short_models
from krisis.results.report_tables import has_no_disease
from krisis.results.side_by_side import (
    BESIDE_HEADLINE,
    HEADINGS,
    ON_REQUEST,
    cell_dict,
    metric_cell,
)
from krisis.runs.read import Progress, state_of
from krisis.statistics.intervals import interval_heading
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.entries import Entry, shown

STATES = ("ended", "running", "stopped", "unreadable")
# As many runs of a task are shown until one asks for the task alone, and then on one page.
N_SHOWN, PAGE_SIZE, LARGEST_PAGE = 10, 50, 500
N_COLUMNS = 4
_USUAL = ("accuracy", "selective_accuracy", "abstention_rate", "deferral_alignment")
_MAJORITY = "majority"
_CEILING = "ideal"  # knows how the cases were made: no model is asked to be better
_UNNAMED = "unnamed model"
Key: TypeAlias = Callable[[Entry], float | str]
Certificates: TypeAlias = Mapping[Path, Sequence[JsonObject]]
# What a table can be sorted by besides its metrics.
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
class Metric:
    """One metric of a task."""

    key: str
    heading: str
    direction: Direction
    is_headline: bool = False

    @property
    def best_first(self) -> str:
        """Return the order from the best to the worst; of one that has no better end, by date."""
        if self.direction == "neither":
            return "-date"
        return f"-{self.key}" if self.direction == "higher" else self.key

    def estimate(self, scores: Mapping[str, MetricScore]) -> Estimate:
        """Return the figure that runs are compared by."""
        cell = metric_cell(scores.get(self.key))
        return Estimate.of(cell.value, cell.interval)


def page(catalogue: Catalogue, query: Mapping[str, str], metrics: Sequence[str]) -> Page:
    """Show the results of the folder, as far as the address asks for them."""
    entries = catalogue.entries()
    known = _headings(entry.scores for entry in entries)
    view = _view(query, metrics, known)
    found = [entry for entry in entries if view.lets_through(entry)]
    certificates = _certificates(catalogue)
    listed = [e for e in found if e.state in ("ended", "stopped")]
    tasks = _tasks(listed, view, certificates)
    content: JsonObject = {
        "folder": catalogue.folder.name,
        "filter": asdict(view),
        "n_runs": len(entries),
        "n_found": len(found),
        "runs": [line(entry) for entry in found],
        "running": [line(entry) for entry in found if entry.state == "running"],
        "tables": [task.facts for task in tasks],
        "odd": [line(entry) for entry in found if entry.problem or entry.damage],
    }
    context: JsonObject = {
        "view": view,
        "metrics": known,
        "forests": [task.drawn() for task in tasks],
        "files": lambda key, suffix: ChartFile(key, suffix).below("", view.address()[1:]),
        "sorts": {name: (name, *_ENDS.get(name, _ENDS[""])) for name in _SORTS}
        | {name: (words, *_ENDS[""]) for name, words in known.items()},
        "states": [state for state in STATES if any(e.state == state for e in entries)],
        "suites": sorted({entry.suite for entry in entries if entry.suite}),
        "tasks": sorted({e.task for e in entries if e.task and view.suite in ("", e.suite)}),
        "models": sorted({entry.model for entry in entries if entry.model}, key=str.casefold),
    }
    charts = [task.chart() for task in tasks if task.by.key]
    section = Section(key="tasks", title="Results", parts=charts)
    document = Document(title="Results", sections=[section])
    return Page("runs.html", "Results", content, context, document=document)


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
            if SAVED_BESIDE[kind] == "certificate"
        ]
        for run, saved in saved_beside(catalogue.folder).items()
    }


def _tasks(entries: Sequence[Entry], view: View, certificates: Certificates) -> list[TaskForest]:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.suite, entry.task), []).append(entry)
    ordered = sorted(groups.items(), key=lambda one: [name.casefold() for name in one[0]])
    return [
        TaskForest.of(at, found, view, certificates, alone=len(groups) == 1)
        for at, (_, found) in enumerate(ordered)
    ]


@dataclass(frozen=True, slots=True)
class TaskForest:
    """The runs of a task as they are drawn by one metric; ``facts`` are those of the twin."""

    facts: JsonObject
    key: str
    by: Metric
    page: Sequence[Entry]
    baselines: Mapping[str, Mapping[str, MetricScore]]

    @classmethod
    def of(
        cls, at: int, entries: list[Entry], view: View, certificates: Certificates, *, alone: bool
    ) -> TaskForest:
        """Take the runs of one task, best first; ``alone`` it is shown page by page."""
        metrics = _metrics(entries, view)
        sort = view.sort or _usual_sort(metrics)
        ordered = _ordered(entries, sort)
        n_pages = max(1, -(-len(ordered) // view.size)) if alone else 1
        number = min(view.page, n_pages)
        start = (number - 1) * view.size
        page = ordered[start : start + view.size] if alone else ordered[:N_SHOWN]
        by = next((one for one in metrics if one.key == sort.removeprefix("-")), None)
        by = by or next(iter(metrics), Metric("", "not scored", "neither"))
        baselines = _baselines(entries)
        names = short_models([entry.model for entry in page])
        facts: JsonObject = {
            "suite": entries[0].suite,
            "task": entries[0].task,
            "sort": sort,
            "columns": [asdict(metric) for metric in metrics],
            "n_runs": len(ordered),
            "n_sets_of_cases": len({entry.content_hash for entry in entries}),
            "page": number,
            "n_pages": n_pages,
            "rows": [
                {
                    **line(entry),
                    "figures": _figures(entry.scores, metrics),
                    "sources": list(entry.scores_by_source) if entry.is_mixed else [],
                    "certificates": list(certificates.get(entry.path, ())),
                    "short_name": name or _UNNAMED,
                    "is_ambiguous": Counter(names)[name] > 1,
                    "tags": _tags(entry, by, _majority(entries, by)),
                }
                for entry, name in zip(page, names, strict=True)
            ],
            "baselines": [
                {"name": name, "figures": _figures(scores, metrics)}
                for name, scores in baselines.items()
            ],
            "finding": _finding(baselines, entries, by),
        }
        return cls(facts, f"task-{at}", by, page, baselines)

    def drawn(self) -> JsonObject:
        """Return the strips of runs and baselines on one scale, and every figure as a table."""
        figures = [self.by.estimate(entry.scores) for entry in self.page]
        references = [Estimate(self.by.estimate(one).value) for one in self.baselines.values()]
        strip = Strip.over(figures, (one.value for one in references))
        known = [self.by.key in entry.scores and entry.scores[self.by.key] for entry in self.page]
        level = interval_heading(score.interval for score in known if score)
        better = f", {self.by.direction} is better" if self.by.direction != "neither" else ""
        return {
            "key": self.key,
            "heading": f"{self.by.heading}{f' ({level})' if any(known) else ''}{better}",
            "axis": strip.axis(),
            "strips": [strip.row(one) for one in figures],
            "written": [_written(entry.scores, self.by.key) for entry in self.page],
            "ticks": [(strip.row(one, tick=True), figure(one)) for one in references],
            "all_figures": table_html(self._all_figures()),
        }

    def chart(self) -> Chart:
        """Return the same runs as one drawing, to be downloaded."""
        names = distinct_names([one.model for one in self.page], [one.name for one in self.page])
        runs = {
            name: BenchmarkResult(
                (), one.scores, {}, one.model, facts=RunFacts(baselines=one.baselines)
            )
            for name, one in zip(names, self.page, strict=True)
        }
        style = style_of("screen")
        about = " · ".join(filter(None, (self.facts["suite"], self.facts["task"])))
        return Chart(
            key=self.key,
            draw=lambda: forest(runs, style, [self.by.key]).figure(style, about=[about]),
        )

    def _all_figures(self) -> Table:
        """Return every figure and count of the runs that are shown."""
        metrics = [(one["key"], one["heading"]) for one in self.facts["columns"]]
        priced = any(entry.cost is not None for entry in self.page)
        columns = [
            Column("name", "run"),
            *(Column("figure", heading) for _, heading in metrics),
            Column("count", "cases"),
            *(Column("count", outcome.replace("_", " ")) for outcome in OUTCOMES),
            *([Column("name", "cost")] if priced else []),
            Column("name", "date"),
            Column("name", "state"),
        ]
        rows: list[list[Cell]] = [
            [
                entry.name,
                *(_cell(entry.scores, key) for key, _ in metrics),
                entry.n_cases,
                *(entry.counts.get(outcome, 0) for outcome in OUTCOMES),
                *([dollars(entry.cost)] if priced else []),
                entry.created_at[:16].replace("T", " "),
                entry.state,
            ]
            for entry in self.page
        ]
        n_others = len(columns) - 1 - len(metrics)
        rows += [
            [
                f"{name} (baseline)",
                *(_cell(scores, key) for key, _ in metrics),
                *([None] * n_others),
            ]
            for name, scores in self.baselines.items()
        ]
        return Table(columns=columns, rows=rows)


def _figures(scores: Mapping[str, MetricScore], metrics: Sequence[Metric]) -> JsonObject:
    return {metric.key: cell_dict(metric_cell(scores.get(metric.key))) for metric in metrics}


def _cell(scores: Mapping[str, MetricScore], key: str) -> Estimate | str:
    """Return the figure that runs are compared by, or why there is none."""
    found = metric_cell(scores.get(key))
    if math.isnan(found.value):
        return f"undefined: {reason_words(found.reason)}" if found.reason else "undefined"
    return Estimate.of(found.value, found.interval)


def _written(scores: Mapping[str, MetricScore], key: str) -> str:
    return Column("figure", "").write(_cell(scores, key))


def _baselines(entries: Sequence[Entry]) -> dict[str, Mapping[str, MetricScore]]:
    """Return what was scored when the runs were made and has no run of its own here.

    A baseline on other cases has the number of its set of cases.
    """
    models = {entry.model for entry in entries}
    found: dict[tuple[str, str], Mapping[str, MetricScore]] = {}
    for entry in entries:
        for name, scores in entry.baselines.items():
            if name not in models:
                found.setdefault((name, entry.content_hash), scores)
    seen = Counter[str]()
    named = {}
    for (name, _), scores in found.items():
        seen[name] += 1
        named[name if seen[name] == 1 else f"{name} ({seen[name]})"] = scores
    return named


def _majority(entries: Sequence[Entry], by: Metric) -> list[float]:
    """Return the figures of the majority baseline, which may also be a run of its own."""
    return [
        by.estimate(scores).value
        for entry in entries
        for name, scores in entry.baselines.items()
        if name.partition(" ")[0] == _MAJORITY
    ]


def _tags(entry: Entry, by: Metric, majority: Sequence[float]) -> list[str]:
    """Return what a reader must know of a run before its figure.

    A run is worse than the majority baseline where its whole interval is.
    """
    counts, one = entry.counts, by.estimate(entry.scores)
    best_end = one.high if by.direction == "higher" else one.low
    best_end = best_end if one.has_interval else one.value
    sign = {"higher": 1, "lower": -1}.get(by.direction, math.nan)
    said = {
        "never defers": bool(counts.get("answered")) and not counts.get("abstained"),
        "worse than majority": any(sign * best_end < sign * value for value in majority),
        f"{count(counts.get('no_answer', 0))} without an answer": counts.get("no_answer"),
        f"{count(counts.get('not_evaluated', 0))} not evaluated": counts.get("not_evaluated"),
        "mixed patients": entry.is_mixed,
        "imported": entry.imported,
        "damaged": entry.damage,
        entry.state: entry.state != "ended",
    }
    return [words for words, holds in said.items() if holds]


def _finding(
    baselines: Mapping[str, Mapping[str, MetricScore]], entries: Sequence[Entry], by: Metric
) -> str:
    """Say which run is best by a metric, and how it compares with the best baseline."""
    best = _ordered(entries, by.best_first)[0]
    estimate = by.estimate(best.scores)
    if by.direction == "neither" or math.isnan(estimate.value):
        return ""
    name = short_models([best.model])[0] or _UNNAMED
    one = len(entries) == 1
    said = f"{name}: {by.heading}" if one else f"{name} has the best {by.heading}:"
    said = f"{said} {figure(estimate)}."
    sign = 1 if by.direction == "higher" else -1
    known = [
        (sign * value, name)
        for name, scores in baselines.items()
        if not math.isnan(value := by.estimate(scores).value) and name.partition(" ")[0] != _CEILING
    ]
    if not known:
        return said
    value, baseline = max(known)
    said += f" Best baseline: {baseline} {figure(Estimate(sign * value))}"
    found = (by.estimate(entry.scores) for entry in entries)
    n = sum(sign * (run.low if sign > 0 else run.high) > value for run in found)
    if one:
        return f"{said}; its interval is {'wholly' if n else 'not wholly'} better."
    return f"{said}; {n} of {len(entries)} runs are better with their whole interval."


def _metrics(entries: Sequence[Entry], view: View) -> list[Metric]:
    """Return the metrics of a table: those chosen, else a few, the headline of the task first."""
    found = {score.identifier: score for entry in entries for score in entry.scores.values()}
    # A metric that few of the runs have, such as one that needs a price, cannot rank them.
    headlines = Counter(e.headline for e in entries if e.headline and e.headline in e.scores)
    headline, n = headlines.most_common(1)[0] if headlines else ("", 0)
    headline = headline if 2 * n >= len(entries) else ""
    known = _headings([found])
    usual = [name for name in HEADINGS if name not in BESIDE_HEADLINE] if headline else _USUAL
    wanted = view.metrics or [headline, *(name for name in (*usual, *known) if name != headline)]
    names = [name for name in dict.fromkeys(wanted) if name in known]
    names.sort(key=lambda name: name != headline)
    shown = names if view.metrics else names[:N_COLUMNS]
    by = view.sort.removeprefix("-")
    shown += [by] if by in known and by not in shown else []
    return [Metric(name, known[name], found[name].direction, name == headline) for name in shown]


def _usual_sort(metrics: Sequence[Metric]) -> str:
    """Return the best headline first, where it can rank models, else the newest run first."""
    first = metrics[0] if metrics and metrics[0].is_headline else None
    return "-date" if first is None or first.key == "accuracy" else first.best_first


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


@lru_cache(maxsize=2000)
def _certificate(path: Path, _: tuple[int, ...]) -> JsonObject:
    """Say what a certificate beside a run promises."""
    try:
        certificate = certificate_from(read_object(path), place=path.name)
    except KrisisError as error:
        return {"file": path.name, "words": "certificate not valid", "promise": str(error)}
    met = any(part.threshold is not None for part in certificate.parts)
    words = f"{'' if met else 'not '}certified: risk ≤ {given(certificate.risk)}"
    stated = promise(certificate) if met else "no threshold is known to hold this risk"
    return {"file": path.name, "words": words, "promise": stated}
