"""The reporting sheet: what a paper about a run must say, and what the run says of it already.

The items are those of TRIPOD-LLM, in `sheet_items.toml`. Each is filled from the run, answered by
the author in a YAML file, left to the author, or not applicable.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from krisis import __version__, registry
from krisis.display import Documented
from krisis.errors import InvalidFile, UnknownName
from krisis.json_values import JsonMapping, JsonObject, JsonValue, read_object
from krisis.metrics.base import EvaluationResult
from krisis.outcomes import EVALUATED, NO_ANSWER_CLASSES, WORDS
from krisis.pages.document import Cell, Column, Document, Facts, Section, Table
from krisis.pages.groups import spaced
from krisis.pages.numbers import Estimate, count, share, stored
from krisis.pages.run import execution_facts, flat_facts, run_document
from krisis.results.artefacts import kind_of
from krisis.results.attrition import UNCLASSIFIED
from krisis.results.base import BenchmarkResult
from krisis.results.loading import is_run, reproduce_command
from krisis.results.report_tables import has_no_disease, note_lines, stopping_lines
from krisis.results.run_items import read_result
from krisis.runs.description import RunDescription
from krisis.runs.load import stored_result
from krisis.runs.read import open_run
from krisis.texts import stated_in
from krisis.yaml_values import Noted, read_mapping, yaml_text

GUIDELINE = (
    "TRIPOD-LLM: Gallifant et al., The TRIPOD-LLM reporting guideline for studies using large "
    "language models, Nature Medicine 31, 60-69 (2025), doi:10.1038/s41591-024-03425-5"
)
DISCLAIMER = (
    "This sheet does not claim compliance with TRIPOD-LLM or any other guideline, and nobody has "
    "checked it. Its items are in krisis's own words; what to report is for the guideline to say."
)
Status = Literal["filled", "answered by the author", "author must fill", "not applicable"]
AUTHOR: Status = "author must fill"
Source = Literal[
    "settings of the run",
    "description of the data",
    "rows of the run",
    "stored scores",
    "scored for this sheet",
]
RUN: Source = "settings of the run"
DATA: Source = "description of the data"
ROWS: Source = "rows of the run"
_MOST_VALUES = 12
_BASELINES = "krisis.backends.baselines."  # rules and fitted models: no language model
# Sections of the run's own document that belong in a sheet; none shows a case.
_SHOWN = ("eight", "deferral", "baselines", "metrics", "disease")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that the run says, in words, and the part of the run that says it."""

    name: str
    value: str
    source: Source


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
    return tuple(
        Entry(**{**one, "facts": tuple(one.get("facts", ()))})
        for one in stated_in(__package__, "sheet_items.toml")["items"]
    )


@dataclass(frozen=True, slots=True)
class Item:
    """An item and its status; ``facts`` are the names of what the run says of it.

    ``words`` are the author's answer, what the author must write, or why the item does not apply.
    """

    number: str
    section: str
    asks: str
    status: Status
    words: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A count in the flow of records; the steps of one parent add up to it.

    ``evaluated`` has three parents and is their sum. ``n_patients`` is None where no row says it.
    """

    key: str
    label: str
    n: int
    unit: str
    n_patients: int | None = None
    parents: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sheet(Documented):
    """The items, the flow of records, and what the run says, each fact once."""

    title: str
    result: BenchmarkResult
    items: tuple[Item, ...]
    flow: tuple[Step, ...]
    facts: Mapping[str, Sequence[Fact]]
    builder = "krisis.verbs.sheet.page:sheet_document"

    def count(self, status: Status) -> int:
        """Count the items of one status."""
        return sum(item.status == status for item in self.items)

    def to_dict(self) -> JsonObject:
        """Return the sheet as JSON values."""
        return {
            "kind": "krisis.sheet",
            "krisis_version": __version__,
            "title": self.title,
            "guideline": GUIDELINE,
            "disclaimer": DISCLAIMER,
            "items": [asdict(item) for item in self.items],
            "flow": [asdict(step) for step in self.flow],
            "facts": {name: [asdict(one) for one in said] for name, said in self.facts.items()},
            "scores": self.result.to_dict(include_results=False)["metric_scores"],
        }


@dataclass(frozen=True)
class _Run:
    """A run with what its file alone says; ``features`` are what the cases showed."""

    result: BenchmarkResult
    again: str
    scores: Source
    description: RunDescription | None = None
    features: Sequence[JsonMapping] = ()
    records: Sequence[EvaluationResult] = field(init=False)

    def __post_init__(self) -> None:
        """Keep one row per record: repeats of a record have its label and groups."""
        rows = enumerate(self.result.rows)
        named = {(row.cluster_id, row.record_id or i): row for i, row in rows}
        object.__setattr__(self, "records", list(named.values()))

    @property
    def unit(self) -> str:
        task = self.result.provenance.task_facts
        return task.unit if task else "record"


def build_sheet(
    path: str | Path, mode: str | None = None, *, answers: Mapping[str, str] | None = None
) -> Sheet:
    """Fill what a run, a saved result or a run file can say, and name what its author must."""
    run = _read(Path(path), mode)
    made = run.result.provenance
    known = {name: tuple(of(run)) for name, of in _FACTS.items()}
    about = " / ".join(filter(None, (made.suite, made.task, made.mode))) or "unnamed suite"
    return Sheet(
        f"{run.result.backend_name or 'unnamed model'} on {about}",
        run.result,
        tuple(
            _item(entry, run, known, (answers or {}).get(entry.number, "")) for entry in entries()
        ),
        tuple(flow(run.result)),
        known,
    )


def _read(path: Path, mode: str | None) -> _Run:
    result, path = read_result(path, mode), path.resolve()
    if is_run(path):
        with open_run(path) as run:
            run.rows()
            kept: Source = "stored scores" if stored_result(run) else "scored for this sheet"
            return _Run(result, reproduce_command(path), kept, run.description, run.features())
    kind = kind_of(path)
    is_kept = kind in ("saved result", "metrics file") and bool(
        read_object(path, lenient=True).get("metric_scores")
    )
    again = "" if kind == "run file" else reproduce_command(path)
    return _Run(result, again, "stored scores" if is_kept else "scored for this sheet")


def _item(entry: Entry, run: _Run, known: Mapping[str, Sequence[Fact]], answer: str) -> Item:
    parts = [known[name] for name in entry.facts]
    facts = tuple(dict.fromkeys(fact.name for part in parts for fact in part))
    reason = _STATES[entry.absent](run) if entry.absent else ""
    status: Status = AUTHOR
    words = answer or entry.write
    if entry.enough and all(parts) and not reason:
        status, words = "filled", answer
    elif answer:
        status = "answered by the author"
    elif reason:
        status, words, facts = "not applicable", f"{reason}: {entry.because}", ()
    return Item(entry.number, entry.section, entry.asks, status, words, facts)


# --- The author's answers ------------------------------------------------------------------------


def read_answers(path: Path) -> dict[str, str]:
    """Read the author's answers from YAML, by the numbers of the items; empty ones are none."""
    known = [entry.number for entry in entries()]
    found = {}
    for number, text in read_mapping(path, "answers by item", option="--author").items():
        if str(number) not in known:
            raise InvalidFile(f"{path}: {UnknownName.among('item', str(number), known)}")
        if text is not None and not isinstance(text, str):
            raise InvalidFile(f"{path}: the answer to {number} must be text, not {text!r}")
        found[str(number)] = (text or "").strip()
    return found


def answers_draft(sheet: Sheet) -> str:
    """Return YAML with an empty answer to each item that the author must fill."""
    return yaml_text(
        {
            item.number: Noted("", above=["", f"{item.number} {item.section}: {item.words}"])
            for item in sheet.items
            if item.status == AUTHOR
        },
        above=["Your answers for `krisis sheet --author THIS`; an empty one stays open."],
    )


# --- The document --------------------------------------------------------------------------------


def sheet_document(sheet: Sheet) -> Document:
    """Return the sheet with the verdict and the scores of the run, as its own document has them."""
    shown = run_document(sheet.result)
    counted = ", ".join(f"{sheet.count(one)} {one}" for one in _HEADINGS if sheet.count(one))
    facts = Table.of(
        dict.fromkeys(fact for facts in sheet.facts.values() for fact in facts),
        {
            Column("name", "what"): lambda fact: fact.name,
            Column("name", "value"): lambda fact: fact.value,
            Column("name", "source"): lambda fact: fact.source,
        },
    )
    return Document(
        title=f"Reporting sheet: {sheet.title}",
        lead=shown.lead,
        urgent=shown.urgent,
        verdict=shown.verdict,
        sections=[
            Section.of_sentences(
                "about",
                f"{len(sheet.items)} items: {counted}",
                [DISCLAIMER, f"Guideline: {GUIDELINE}."],
            ),
            *_item_sections(sheet),
            Section(key="flow", title="Flow of records", parts=[_flow_table(sheet)]),
            Section(key="facts", title="What the run says", parts=[facts]),
            *(one for one in shown.sections if one.key.startswith(_SHOWN)),
            Section(key="model", title="Model card", parts=[execution_facts(sheet.result)]),
            Section(
                key="data",
                title="Data sheet",
                parts=[Facts(flat_facts(sheet.result.suite_description))],
            ),
        ],
        first=(),
    )


# What the sections of items are called, and what their last column holds.
_HEADINGS: dict[Status, tuple[str, str]] = {
    AUTHOR: ("For the author to write", "what to write"),
    "answered by the author": ("Answered by the author", "answer"),
    "filled": ("Filled from the run", "facts"),
    "not applicable": ("Not applicable", "why"),
}


def _item_sections(sheet: Sheet) -> Iterator[Section]:
    """Return the items by status; what the run says of one is named, and shown once below."""
    for status, (title, heading) in _HEADINGS.items():
        rows: list[list[Cell]] = [
            [f"{item.number} {item.section}", item.asks, _content(item)]
            for item in sheet.items
            if item.status == status
        ]
        if rows:
            columns = [Column("name", one) for one in ("item", "what it asks", heading)]
            keys = [item.number for item in sheet.items if item.status == status]
            table = Table(columns=columns, rows=rows, keys=keys)
            yield Section(key=status.replace(" ", "-"), title=title, parts=[table])


def _content(item: Item) -> str:
    facts = f"See: {', '.join(item.facts)}." if item.facts else ""
    return " ".join(filter(None, (item.words, facts)))


def _flow_table(sheet: Sheet) -> Table:
    task = sheet.result.provenance.task_facts
    labels = {step.key: step.label for step in sheet.flow}

    def whole(step: Step) -> str:
        named = ", ".join(labels[one] for one in step.parents)
        return f"sum of {named}" if len(step.parents) > 1 else named

    return Table.of(
        sheet.flow,
        {
            Column("name", "step"): lambda step: step.label,
            Column("name", "part of"): whole,
            Column("count", "n"): lambda step: step.n,
            Column("name", "of what"): lambda step: f"{step.unit}s",
            Column("count", "patients"): lambda step: step.n_patients,
        },
        note=f"Parts add up to their whole; a {task.person if task else 'patient'} with several "
        "rows may be in several parts.",
    )


# --- The flow of records -------------------------------------------------------------------------


def n_patients(rows: Iterable[EvaluationResult]) -> int:
    """Count patients; a row that names none is a patient of its own."""
    return len({row.cluster_id or i for i, row in enumerate(rows)})


def flow(result: BenchmarkResult) -> list[Step]:
    """Return what became of the records of a suite, from the source to the evaluation."""
    made, counts, rows = result.provenance, result.attrition, result.rows
    repeats = 1 if made.imported else made.repeats or 1
    record = made.task_facts.unit if made.task_facts else "record"
    unit = "asking" if repeats > 1 else record
    everyone = n_patients(rows) if rows else None
    steps: list[Step] = []

    def add(
        key: str, label: str, n: int, *parents: str, unit: str = unit, patients: int | None = None
    ) -> None:
        steps.append(
            Step(key=key, label=label, n=n, unit=unit, n_patients=patients, parents=parents)
        )

    def among(kept: Iterable[EvaluationResult]) -> int | None:
        return n_patients(kept) if rows else None

    n_suite, n_selected = made.n_records, counts.n_loaded // repeats
    last: tuple[str, ...] = ()
    if n_suite is not None and not made.imported and n_suite >= n_selected:
        n_out = n_suite - n_selected
        add("suite", "in the suite", n_suite, unit=record, patients=None if n_out else everyone)
        last = ("suite",)
        if n_out:
            limit = f" (limit {made.limit})" if made.limit else ""
            add("unselected", f"not selected{limit}", n_out, *last, unit=record)
    if repeats > 1:
        add("selected", "selected", n_selected, *last, unit=record)
        last = ("selected",)
    first = "rows expected" if made.imported else "to be asked"
    add("planned", first, counts.n_loaded, *last, patients=None if counts.n_left else everyone)
    for key, label, n in _never_asked(result):
        add(key, label, n, "planned")
    asked = "taken from the file" if made.imported else "asked"
    add("asked", asked, counts.n_sent, "planned", patients=everyone)
    for outcome, words in WORDS.items():
        who = among(row for row in rows if row.outcome == outcome)
        add(outcome, words, getattr(counts, f"n_{outcome}"), "asked", patients=who)
    for number, (name, failure) in enumerate(counts.failures.items(), start=1):
        lost = (row for row in rows if row.error is not None)
        who = among(row for row in lost if (row.failure_class or UNCLASSIFIED) == name)
        parent = "no_answer" if name in NO_ANSWER_CLASSES else "not_evaluated"
        add(f"class{number}", name, failure.n, parent, patients=who)
    who = among(row for row in rows if row.outcome in EVALUATED)
    add("evaluated", "evaluated", counts.n_evaluated, *EVALUATED, patients=who)
    return steps


def _never_asked(result: BenchmarkResult) -> Iterator[tuple[str, str, int]]:
    """Return what has no row, and why."""
    imported = result.provenance.imported
    parts: dict[str, int] = {}
    if imported:
        parts["not in the file"] = max(0, imported.n_expected - imported.n_read)
        parts["could not be taken"] = imported.n_not_taken
    lost = "lost" if imported or result.damage else "not asked"
    parts[lost] = result.attrition.n_left - sum(parts.values())
    for number, (label, n) in enumerate(parts.items(), start=1):
        if n > 0:
            yield f"left{number}", label, n


# --- What the run says, by the names that the items have for it; nothing is: it does not say -----


def _facts(source: Source, **said: JsonValue) -> list[Fact]:
    """Return facts by name, underscores as spaces; what is not known is left out."""
    return [
        Fact(spaced(name), stored(value), source)
        for name, value in said.items()
        if value not in (None, "", [], {})
    ]


def _described(run: _Run, *keys: str) -> list[Fact]:
    """Return entries of the suite's description, nested ones by their path."""
    described = run.result.suite_description
    found = flat_facts({key: described[key] for key in keys if key in described})
    return [Fact(name, value, DATA) for name, value in found]


def _task(run: _Run) -> list[Fact]:
    made = run.result.provenance
    words = " / ".join(filter(None, (made.suite, made.task, made.features, made.mode)))
    return _facts(DATA, task=words)


def _model(run: _Run) -> list[Fact]:
    made = run.result.provenance
    answered = (f"{name} ({count(n)} rows)" for name, n in made.models_answered.items())
    return _facts(RUN, model_asked=made.model, models_that_answered=", ".join(answered))


def _flow(run: _Run) -> list[Fact]:
    counts = run.result.attrition
    failed = ", ".join(f"{name}: {count(one.n)}" for name, one in counts.failures.items())
    return _facts(ROWS, flow_of_records=str(counts), failures=failed)


def _headline(run: _Run) -> list[Fact]:
    return [Fact("verdict", "see its table", ROWS)] if run.result.attrition.n_answered else []


def _source(run: _Run) -> list[Fact]:
    keys = ("account", "citation", "licence", "license", "notice", "provenance", "version")
    imported = run.result.provenance.imported
    return [*_facts(RUN, imported=imported and str(imported)), *_described(run, *keys)]


def _labels(run: _Run) -> list[Fact]:
    if not run.records:
        return _described(run, "labels")
    return _facts(ROWS, labels=_label_words(run, run.records, run.unit))


def _label_words(run: _Run, rows: Sequence[EvaluationResult], unit: str) -> str:
    """Say how often each label is the truth, in the order of the answers."""
    task = run.result.provenance.task_facts
    said = {str(answer): words for answer, words in task.answers} if task else {}
    # A run file may not say the right answer to what failed.
    found = Counter(str(row.ground_truth) or "not stated" for row in rows)
    names = [*(one for one in said if one in found), *sorted(set(found) - set(said))]
    shown = {f"{one} = {said[one]}" if said.get(one) else one: found[one] for one in names}
    return counted(shown, len(rows), unit)


def counted(values: Mapping[str, int], n: int, unit: str) -> str:
    """Write counts with their shares.

    >>> counted({"yes": 3, "no": 1}, 4, "record")
    'yes: 3 (75 %), no: 1 (25 %); of 4 records'
    """
    parts = (f"{name}: {count(k)} ({share(Estimate(k / n))})" for name, k in values.items())
    return f"{', '.join(parts)}; of {count(n)} {unit if n == 1 else f'{unit}s'}"


def _groups(run: _Run) -> list[Fact]:
    task, found = run.result.provenance.task_facts, []
    for name, key in (task.groups if task else {}).items():
        values = Counter(
            "missing" if (value := row.metadata.get(key)) is None else str(value)
            for row in run.records
        )
        ordered = sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))
        if set(values) - {"missing"}:
            shown = dict(ordered[:_MOST_VALUES])
            if others := sum(n for _, n in ordered[_MOST_VALUES:]):
                shown["other values"] = others
            words = counted(shown, len(run.records), run.unit)
            found.append(Fact(f"group {name}", words, ROWS))
    return found


def _deferral(run: _Run) -> list[Fact]:
    labelled = [row for row in run.records if isinstance(row.metadata.get("should_abstain"), bool)]
    if not labelled:
        return []
    due = [row for row in labelled if row.metadata["should_abstain"]]
    of = share(Estimate(len(due) / len(labelled)))
    reasons = Counter(
        str(reason) for row in due for reason in row.metadata.get("abstain_reasons") or ()
    )
    return _facts(
        ROWS,
        deferral=f"{count(len(due))} of {count(len(labelled))} {run.unit}s should be deferred "
        f"({of})",
        reasons_to_defer=[f"{spaced(name)}: {count(n)}" for name, n in sorted(reasons.items())],
    )


def _preparation(run: _Run) -> list[Fact]:
    imported = run.result.provenance.imported
    notes = _facts(RUN, notes_of_the_import=" ".join(imported.notes if imported else ()))
    return [*notes, *_described(run, "accepted", "deferral", "impute", "sex", "target")]


def _missing(run: _Run) -> list[Fact]:
    """Count what was missing in what the model saw, row by row, where that is stored."""
    if not run.features:
        return []
    gaps = Counter(
        name
        for shown in run.features
        for name, value in shown.items()
        if value is None or (isinstance(value, float) and math.isnan(value))
    )
    words = counted(dict(sorted(gaps.items())), len(run.features), "stored row")
    return _facts(ROWS, missing_values=words if gaps else f"none{words}")


def _prompts(run: _Run) -> list[Fact]:
    prompts = run.result.prompts
    hashes = [hashlib.sha256(one.encode()).hexdigest() for one in prompts.prompt_templates]
    kinds = run.description.identity.prompts if run.description else {}
    if not hashes and not kinds:
        return []
    return _facts(
        RUN,
        prompts=f"{count(len(hashes))} templates, sent as: "
        f"{', '.join(prompts.prompt_modes) or 'not stated'}; values of patients: "
        f"{prompts.prompt_data_policy}",
        SHA256_of_prompt_templates=hashes[:_MOST_VALUES],
        hash_of_prompt_schema_and_parameters=[f"{kind}: {one}" for kind, one in kinds.items()],
    )


def _settings(run: _Run) -> list[Fact]:
    made = run.result.provenance
    asked: JsonObject = dict(run.description.identity.backend) if run.description else {}
    named = ("temperature", "max_output_tokens", "model_options")
    given = {name: made.config[name] for name in named if name in made.config}
    if made.imported or not (asked or given):
        return []
    if given.get("temperature", 0) is None:
        given["temperature"] = "not set: the default of the provider"
    settings = {**given, **asked, **dict(asked.get("parameters") or {})}
    for name in ("backend", "provider", "model", "parameters"):
        settings.pop(name, None)
    chosen = {name: getattr(made, name) for name in ("seed", "batch_size", "repeats")}
    return [Fact(name, value, RUN) for name, value in flat_facts({**settings, **chosen})]


def _output(run: _Run) -> list[Fact]:
    rows, imported = run.result.rows, run.result.provenance.imported
    if not rows:
        return []
    kept = {
        "confidence stated": sum(row.confidence is not None for row in rows),
        "replies stored": sum(bool(row.raw_response) for row in rows),
    }
    taken = imported.taken_for if imported else {}
    return [
        *(
            Fact(name, f"in {count(n)} of {count(len(rows))} rows", ROWS)
            for name, n in kept.items()
        ),
        *(Fact(f"{name} taken from", place, RUN) for name, place in taken.items()),
    ]


def _reading(run: _Run) -> list[Fact]:
    made = run.result.provenance
    if made.imported or made.batch_size is None:
        return []
    words = (
        "krisis read every reply as one of the answers or as an abstention; a reply that is "
        "neither is no answer. The answer is the model's own: no threshold was applied to its "
        "confidence"
    )
    return [Fact("reading", words, RUN)]


def _classes(run: _Run) -> list[Fact]:
    task = run.result.provenance.task_facts
    if task is None or not task.answers:
        return []
    return _facts(
        DATA,
        answers_of_the_task=[f"{answer} = {said}" for answer, said in task.answers],
        outcome_of_interest=task.words(task.positive) if task.positive is not None else None,
    )


def _dates(run: _Run) -> list[Fact]:
    made = run.result.provenance
    if made.imported or not made.started_at:  # the moment of an import is not that of the answers
        return []
    return _facts(RUN, started=made.started_at)


def _scored(run: _Run) -> list[str]:
    result = run.result
    if result.attrition.says_nothing:
        return []
    kinds = [result.metric_scores, *result.scores_by_source.values()]
    return [one.name for one in kinds[-1].values() if not has_no_disease(one)]


def _metrics(run: _Run) -> list[Fact]:
    return _facts(run.scores, measures=_scored(run))


def _baselines(run: _Run) -> list[Fact]:
    return _facts(run.scores, baselines=list(run.result.baselines))


def _spending(run: _Run) -> list[Fact]:
    took = run.result.spending
    if run.result.provenance.imported or took.elapsed_seconds is None:
        return []
    return _facts(
        RUN,
        elapsed_seconds=took.elapsed_seconds,
        calls=took.n_api_calls,
        input_tokens=took.input_tokens,
        output_tokens=took.output_tokens,
        cost=took.cost if took.cost_unknown is None else f"unknown, {took.cost_unknown}",
    )


def _identity(run: _Run) -> list[Fact]:
    made = run.result.provenance
    return [*_facts(DATA, hash_of_the_cases=made.content_hash), *_facts(RUN, run=made.run_id)]


def _code(run: _Run) -> list[Fact]:
    made = run.result.provenance
    return _facts(
        RUN,
        krisis=made.krisis_version,
        git_commit=made.git_commit,
        versions=[f"{name} {version}" for name, version in made.versions.items()],
        again=run.again,
    )


def _analyses(run: _Run) -> list[Fact]:
    scored = [row for row in run.result.rows if row.outcome in EVALUATED]
    if not scored:
        return []
    task = run.result.provenance.task_facts
    person = task.person if task else "patient"
    return _facts(
        ROWS,
        patients=f"{count(n_patients(scored))} {person}s in {count(len(scored))} evaluated rows",
        labels_of_evaluated_rows=_label_words(run, scored, "row"),
    )


def _scores(run: _Run) -> list[Fact]:
    return [Fact("scores", "see the table of metrics", run.scores)] if _scored(run) else []


def _limits(run: _Run) -> list[Fact]:
    result = run.result
    return [
        *_facts(ROWS, damage=result.damage),
        *_facts(RUN, stopped=" ".join(stopping_lines(result))),
        *_facts(run.scores, notes=" ".join(note_lines(result.metric_scores))),
        *_failures(run),
    ]


def _abstentions(run: _Run) -> list[Fact]:
    counts = run.result.attrition
    n = counts.n_evaluated
    words = f"{count(counts.n_abstained)} of {count(n)} evaluated rows" if n else ""
    return _facts(ROWS, abstained=words)


def _failures(run: _Run) -> list[Fact]:
    counts = run.result.attrition
    words = (
        f"{count(counts.n_no_answer)} without an answer and {count(counts.n_not_evaluated)} not "
        f"evaluated, of {count(counts.n_sent)} rows"
    )
    return _facts(ROWS, lost=words)


_FACTS: dict[str, Callable[[_Run], list[Fact]]] = {
    "task": _task,
    "model": _model,
    "flow": _flow,
    "headline": _headline,
    "source": _source,
    "labels": _labels,
    "groups": _groups,
    "deferral": _deferral,
    "preparation": _preparation,
    "missing": _missing,
    "prompts": _prompts,
    "settings": _settings,
    "output": _output,
    "reading": _reading,
    "classes": _classes,
    "metrics": _metrics,
    "dates": _dates,
    "baselines": _baselines,
    "spending": _spending,
    "identity": _identity,
    "code": _code,
    "splits": lambda run: _described(
        run, "split", "n_training_participants", "n_participants", "seed", "limit", "n_records"
    ),
    "analyses": _analyses,
    "scores": _scores,
    "limits": _limits,
    "abstentions": _abstentions,
    "failures": _failures,
}


# --- States of a run in which an item does not apply: the reason, or nothing ----------------------


def _no_model(run: _Run) -> str:
    """Say that a rule or a fitted baseline was run in place of a language model."""
    made = run.result.provenance
    asked = {made.model, str(made.config.get("model") or "")}
    known = registry.BUILT_IN["backends"]
    if made.imported or not any(known.get(name, "").startswith(_BASELINES) for name in asked):
        return ""
    return f"{made.model} is a rule or a baseline of krisis, not a language model"


def _synthetic(run: _Run) -> str:
    """Say that no patient is real, where every row or the suite says so."""
    rows = run.result.rows
    if rows and all(row.metadata.get("synthetic") is True for row in rows):
        return f"all {count(n_patients(rows))} patients are synthetic"
    return "the suite is synthetic" if run.result.suite.synthetic else ""


def _drawn(run: _Run) -> str:
    """Say that a suite of krisis drew the labels; people may label other synthetic patients."""
    suite = run.result.provenance.suite
    is_own = suite in registry.BUILT_IN["suites"] and suite != "table"
    return _synthetic(run) if is_own and not run.result.provenance.imported else ""


def _one_model(run: _Run) -> str:
    """Say that no second version of the model answered."""
    made = run.result.provenance
    names = list(made.models_answered) or ([made.model] if made.batch_size is not None else [])
    return f"only {names[0]} answered" if len(names) == 1 and not made.imported else ""


_STATES: dict[str, Callable[[_Run], str]] = {
    "no_model": _no_model,
    "synthetic": _synthetic,
    "drawn": _drawn,
    "one_model": _one_model,
    "always": lambda run: run.result.provenance.task or run.result.provenance.suite or "unnamed",
}
