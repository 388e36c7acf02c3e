"""Two to six runs beside each other, oldest first; and which runs can be compared with them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from urllib.parse import urlencode

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.pages.cases import ChartFile, PairCases
from krisis.pages.document import Document
from krisis.pages.html import CaseAddress, body_html
from krisis.pages.tabs import Page, text_of
from krisis.results.loading import distinct_names
from krisis.runs.read import state_of
from krisis.verbs.compare.page import comparison_document
from krisis.verbs.compare.pairs import CompareOptions, Comparison, compare_runs
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.entries import Entry
from krisis.viewer.pages.pair import refuse_too_many

MOST_RUNS = 6
N_OFFERED = 50
# Rows times pairs, beyond which fewer permutations are drawn than on the command line.
_LARGE = 20_000
_FEWER = 399
# So long a page waits for a comparison before it says that it is being worked out.
_WAIT_SECONDS = 5.0
_N_KEPT = 4


def page(catalogue: Catalogue, chosen: Sequence[str], query: Mapping[str, str]) -> Page:
    """Compare the runs that were chosen, or say why that cannot be; and offer others."""
    entries = {entry.name: entry for entry in catalogue.entries()}
    names = in_order(entries, chosen, text_of(query, "reference"))
    fitting = [n for n in names if not _objection([entries[m] for m in (names[0], n)])]
    offered = _offered(entries, fitting or names, text_of(query, "text"))
    problem = _objection([entries[name] for name in names])
    content: JsonObject = {
        "chosen": [_line(entries[name]) for name in names],
        "reference": names[0] if names else None,
        "problem": problem,
        "text": text_of(query, "text"),
        "n_offered": len(offered),
        "offered": [_line(entry) for entry in offered[:N_OFFERED]],
        "comparison": None,
    }
    context: JsonObject = {"document": None, "address": _address, "names": names}
    context["fitting"] = fitting
    context["most"] = MOST_RUNS
    found = None
    if len(names) > 1 and not problem:
        try:
            found = _compared(_Asked.of(catalogue, names))
        except TimeoutError:
            return _waiting(names)
        except InvalidValue as error:  # what only the rows tell, such as other right answers
            content["problem"], context["fitting"] = str(error), names[:1]
    if found is None:
        status = 400 if content["problem"] else 200
        return Page("compare.html", "Compare", content, context, status=status)
    content["comparison"] = found.comparison.to_dict()
    address = _case_addresses(found.comparison, names)
    context |= {
        "document": found.document,
        "body": found.body,
        "pairs": [
            (f"{pair.left} and {pair.right}", address(PairCases(pair=at)))
            for at, pair in enumerate(found.comparison.pairs)
            if pair.matched is not None
        ],
        "n_permutations": found.comparison.n_permutations,
        "usual": CompareOptions().n_permutations,
    }
    return Page("compare.html", found.document.title, content, context, document=found.document)


def _case_addresses(comparison: Comparison, names: Sequence[str]) -> CaseAddress:
    """Return what leads from the cases behind a number to their list."""
    named = dict(zip(comparison.runs, names, strict=True))
    pairs = [(named[pair.left], named[pair.right]) for pair in comparison.pairs]

    def address(behind: object) -> str:
        if isinstance(behind, ChartFile):
            return behind.below("/compare", _query(names, names[0]))
        assert isinstance(behind, PairCases)
        asked = asdict(behind)
        pair = pairs[asked.pop("pair")]
        asked |= {"show": "all"} if behind.left or behind.right else {}
        kept = {"run": pair, **{k: v for k, v in asked.items() if v}}
        return f"/compare/cases?{urlencode(kept, doseq=True)}"

    return address


def _waiting(names: Sequence[str]) -> Page:
    sentence = f"{len(names)} runs are being compared: {', '.join(names)}"
    note = (
        "This page refreshes when the result is ready; all other pages can be looked at meanwhile."
    )
    facts: JsonObject = {"comparing": list(names), "problem": ""}
    context = {"sentence": sentence, "note": note}
    return Page("waiting.html", "Being compared", facts, context, status=202)


def in_order(entries: Mapping[str, Entry], chosen: Sequence[str], reference: str = "") -> list[str]:
    """Return the runs chosen, oldest first; a reference before all others."""
    names = list(dict.fromkeys(name for name in (*chosen, reference) if name))
    for name in names:
        if name not in entries:
            raise UnknownName.among("run", name, entries)
    if len(names) > MOST_RUNS:
        raise InvalidValue(
            f"this page compares two to {MOST_RUNS} runs and {len(names)} were chosen; choose "
            "fewer, or type: krisis compare RUN RUN … --html comparison.html"
        )
    names.sort(key=lambda name: (name != reference, entries[name].created_at, name))
    return names


def _objection(chosen: Sequence[Entry]) -> str:
    """Say why runs cannot be compared; nothing if they can, as far as their headings tell."""
    for entry in chosen:
        if entry.problem:
            return f"{entry.name} cannot be compared: {entry.problem}"
        if not entry.n_done:
            return f"{entry.name} cannot be compared: it has no rows yet"
    for words, part in (("suite", "suite"), ("task", "task"), ("cases", "content_hash")):
        for first, other in ((chosen[0], other) for other in chosen[1:]):
            if not _agree(first, other, part):
                mine, theirs = (getattr(one, part)[:12] for one in (first, other))
                return (
                    f"{first.name} and {other.name} cannot be compared: they are on different "
                    f"{words} ({mine} and {theirs})"
                )
    return ""


def _agree(first: Entry, other: Entry, part: str) -> bool:
    mine, theirs = getattr(first, part), getattr(other, part)
    return not mine or not theirs or mine == theirs


def _offered(entries: Mapping[str, Entry], names: Sequence[str], text: str) -> list[Entry]:
    """Return the runs that can be compared with the first one, and have the words, newest first."""
    first = [entries[name] for name in names[:1]]
    words = text.casefold().split()
    found = [
        entry
        for entry in entries.values()
        if entry.name not in names
        and not _objection([*first, entry])
        and all(word in f"{entry.model} {entry.name} {_suite(entry)}".casefold() for word in words)
    ]
    return sorted(found, key=lambda entry: (entry.created_at, entry.name), reverse=True)


def _suite(entry: Entry) -> str:
    return " · ".join(part for part in (entry.suite, entry.task, entry.features) if part)


def _line(entry: Entry) -> JsonObject:
    return {
        "name": entry.name,
        "model": entry.model or "unnamed model",
        "suite": _suite(entry),
        "created_at": entry.created_at,
        "state": entry.state,
        "n_rows": entry.n_done,
        "n_cases": entry.n_cases,
    }


def _query(names: Sequence[str], reference: str = "") -> str:
    fields = {"run": list(names), "reference": reference}
    return urlencode({k: v for k, v in fields.items() if v}, doseq=True)


def _address(names: Sequence[str], reference: str = "") -> str:
    return f"/compare?{_query(names, reference)}"


def options_for(n_rows: int, n_runs: int) -> CompareOptions:
    """Return what the command line takes, with fewer permutations where these would take long."""
    large = n_rows * n_runs * (n_runs - 1) // 2 > _LARGE
    return CompareOptions(n_permutations=_FEWER) if large else CompareOptions()


@dataclass(frozen=True, slots=True)
class _Asked:
    """Runs in their saved states; the same ones are compared once."""

    marks: tuple[tuple[str, str, tuple[int, ...]], ...]
    catalogue: Catalogue = field(compare=False)

    @classmethod
    def of(cls, catalogue: Catalogue, names: Sequence[str]) -> _Asked:
        """Take the runs as they are now."""
        paths = [(name, catalogue.path(name)) for name in names]
        return cls(tuple((name, str(path), state_of(path)) for name, path in paths), catalogue)


@dataclass(frozen=True, slots=True)
class Found:
    """A comparison with its document, drawn."""

    comparison: Comparison
    document: Document
    body: str


_made: dict[_Asked, Future[Found]] = {}
_changing, _working = threading.Lock(), threading.Lock()


def _compared(asked: _Asked) -> Found:
    """Return a comparison that is worked out once, whoever asks meanwhile; or time out."""
    with _changing:
        future = _made.get(asked)
        if future is None:
            future = _made[asked] = Future()
            ended = [one for one, made in _made.items() if made.done()]
            for one in ended[: max(0, len(_made) - _N_KEPT)]:
                del _made[one]
            threading.Thread(target=_work, args=(asked, future), daemon=True).start()
    return future.result(_WAIT_SECONDS)


def _work(asked: _Asked, future: Future[Found]) -> None:
    try:
        with _working:  # one at a time, as each holds all its runs
            found = _compare(asked)
    except BaseException as error:  # it is raised where the page is made, and not kept
        with _changing:
            del _made[asked]
        future.set_exception(error)
    else:
        future.set_result(found)


def _compare(asked: _Asked) -> Found:
    names = [name for name, *_ in asked.marks]
    loaded = [asked.catalogue.load(name) for name in names]
    refuse_too_many(loaded)
    labels = distinct_names([run.model for run in loaded], names)
    options = options_for(max(run.n_rows for run in loaded), len(loaded))
    results = [run.result for run in loaded]
    comparison = compare_runs(dict(zip(labels, results, strict=True)), options)
    document = comparison_document(comparison)
    body = body_html(document, _case_addresses(comparison, names))
    return Found(comparison, document, body)
