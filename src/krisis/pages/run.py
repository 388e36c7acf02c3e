"""The document of a run: what became of the cases, the verdict, then the evidence for it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from importlib.resources import files

import numpy as np

from krisis.decisions.threshold_in_force import RiskBound
from krisis.json_values import JsonMapping, JsonValue, dumps
from krisis.metrics import default_benchmark_metrics
from krisis.metrics.base import MetricScore, MetricScores
from krisis.metrics.explanations import method_lines, methods_of, reason_words
from krisis.metrics.partition import DUE, SAFE, Partition, VerdictCounts
from krisis.metrics.table import Table as CaseTable
from krisis.pages.about import about_runs
from krisis.pages.cases import (
    SCORED,
    OneCase,
    RowFilter,
    cases_of_marks,
    label_text,
    rows_of_metric,
)
from krisis.pages.charts.curves import not_drawable, risk_coverage, run_curves
from krisis.pages.charts.forest import deferral, group_forest
from krisis.pages.charts.reliability import confidence_histogram, reliability
from krisis.pages.charts.spec import FigureSpec, level_of, page_chart
from krisis.pages.document import (
    CaseBars,
    Cell,
    Chart,
    Column,
    Content,
    Document,
    Facts,
    Listing,
    Section,
    Sentences,
    Table,
)
from krisis.pages.groups import TOO_FEW, group_figures, overall_figures, spaced
from krisis.pages.numbers import Estimate, count, decimal, dollars, given, stored
from krisis.pages.style import Style
from krisis.pages.verdict import is_itself, verdict_of
from krisis.pages.worst import answer_given, reasons_of, shortened, worst_rows
from krisis.results.account import EXECUTION_FIELDS, Spending
from krisis.results.attrition import Attrition
from krisis.results.base import BenchmarkResult, one_kind
from krisis.results.ids import ShownIds
from krisis.results.report_tables import (
    DISEASE_KEYS,
    answer_words,
    disease_words,
    has_no_disease,
    mixture,
    note_lines,
    stopping_lines,
)
from krisis.statistics.intervals import level_name
from krisis.task_facts import TaskFacts

NOTHING_ANSWERED = "No record was answered, so there is nothing to score."
MOST_ANSWERS_SHOWN = 12  # a wider matrix does not fit a page
N_PROMPTS_SHOWN = 4
_HEADING_LETTERS = 40  # of all answers, side by side
MOST_LETTERS = 400  # of a list among the facts
_BASELINE_COLUMNS = {
    "Accuracy": "Accuracy",
    "Selective Accuracy (answered only)": "Right when answered",
    "Answer Rate (Coverage)": "Answered",
    "Deferral Alignment": "Aligned",
    "Expected Calibration Error": "ECE",
}


def run_document(
    result: BenchmarkResult,
    bound: RiskBound | None = None,
    *,
    against: Mapping[str, BenchmarkResult] | None = None,
    reproduce: str = "",
    ids: ShownIds | None = None,
) -> Document:
    """Return all there is to show of a run; ``against`` are other runs next to its metrics.

    ``ids`` are the names under which records are shown, numbers for real patients unless others
    are given.

    Where no reply came, no figure is shown: it would be read as the model's.
    """
    found = brief_document(result, bound)
    how = Section(key="how", title="How it was made", parts=_how(result), folded=True)
    made_from = [*_imported(result), how, *_inputs(result, reproduce)]
    sections = [*_failures(result.attrition)]
    sections += _eight_metrics(result)
    if result.attrition.says_nothing:
        return replace(found, sections=[*sections, *made_from])
    if result.rows:  # else it holds scores alone
        sections += _cases(result)
    sections += _deferral_sections(result)
    if result.rows:
        sections += [
            *_groups(result),
            *_confidence(result),
            *_worst(result, ids or ShownIds.of(result)),
        ]
    sections += [*_baselines(result), *_scores(result, against or {}), *made_from]
    return replace(found, sections=sections)


def brief_document(result: BenchmarkResult, bound: RiskBound | None = None) -> Document:
    """Return what the shortest form shows: the verdict, and what went wrong."""
    counts = result.attrition
    warnings = [*([result.damage] if result.damage else []), *stopping_lines(result)]
    if result.scores_by_source:
        warnings.append(mixture(result))
    lead = (
        [*warnings[:1], str(counts), *warnings[1:]] if result.damage else [str(counts), *warnings]
    )
    imported = result.provenance.imported
    lead += [f"IMPORTED {imported}"] if imported is not None else []
    rows_lost = counts.n_lost or (imported is not None and imported.n_not_taken)
    if read := result.suite.read:
        lead.append(f"Read {read} records; the others are not part of this run.")
    if removed := result.provenance.removed:
        lead.append(f"{removed[0].upper()}{removed[1:]}.")
    if counts.says_nothing:
        return Document(
            title=_title(result),
            lead=[*lead, NOTHING_ANSWERED],
            urgent=True,
            sections=_failures(counts),
            first=("failures",),
        )
    return Document(
        title=_title(result),
        lead=lead,
        urgent=bool(warnings or rows_lost),
        verdict=verdict_of(result, bound) if result.rows else None,
        sections=[*_failures(counts), *_imported(result), *_eight_metrics(result)],
        first=("failures", "imported", "eight"),
        commands=_commands(result),
    )


def _eight_metrics(result: BenchmarkResult) -> list[Section]:
    """Return the eight metrics of every run, then what it took."""
    keys = [metric.key for metric in default_benchmark_metrics()]
    found = [one for key in keys if (one := result.metric_scores.get(key)) is not None]
    if not found or result.attrition.says_nothing:
        return []
    table = result.rows.table if result.rows else None
    took = " · ".join(_took(result))
    parts: list[Content] = [_metrics(found, "", {}, table, abstained=True)]
    parts += [Sentences([took])] if took else []
    return [Section(key="eight", title="Metrics", parts=parts)]


def _took(result: BenchmarkResult) -> Iterator[str]:
    took = result.spending
    if took.elapsed_seconds is not None:
        yield f"{decimal(took.elapsed_seconds, 1)} s"
    if took.token_total:
        yield f"{count(took.token_total)} tokens"
    if took.cost:
        yield dollars(took.cost)


def _commands(result: BenchmarkResult) -> list[str]:
    run, asked = result.provenance.run_file, result.provenance.what_if
    options = f" {asked.options}" if asked is not None and asked.options else ""
    return [f"Every figure: krisis show {run}{options} --verbose"] if run else []


def _title(result: BenchmarkResult) -> str:
    made = result.provenance
    parts = [part for part in (made.suite, made.task, made.features, made.mode) if part]
    first = f" (first {made.limit} of {made.n_records} records)"
    cut = first if made.n_records and (made.limit or made.n_records) < made.n_records else ""
    return f"{' / '.join(parts) or 'unnamed suite'}{cut} · {result.backend_name or 'unnamed model'}"


def _failures(counts: Attrition) -> list[Section]:
    """Return why records have no answer: each class with its count and one example."""
    if not counts.failures:
        return []
    rows: list[list[Cell]] = [
        [name, kind.n, _one_line(kind.example)] for name, kind in counts.failures.items()
    ]
    columns = (Column("name", "class"), Column("count", "n"), Column("name", "example"))
    cases = {(at, 1): RowFilter(failure=name) for at, name in enumerate(counts.failures)}
    return [
        Section(
            key="failures",
            title="Records without an answer",
            parts=[Table(columns=columns, rows=rows, name="failures", cases=cases)],
        )
    ]


def _imported(result: BenchmarkResult) -> list[Section]:
    """Return what each field of the rows was taken for, which only its owner can check."""
    imported = result.provenance.imported
    if imported is None:
        return []
    hashes = [(f"SHA-256 of {name}", digest) for name, digest in imported.files.items()]
    parts: list[Content] = [Facts([*imported.taken_for.items(), *hashes])]
    parts += [Sentences(imported.notes)] if imported.notes else []
    return [Section(key="imported", title="Imported fields", parts=parts)]


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:199]}…"


# --- What became of the cases ----------------------------------------------------------------


def _cases(result: BenchmarkResult) -> list[Section]:
    """Return the one partition, what deferral is judged by, and why cases should be deferred."""
    found = Partition.of(result.rows.table)
    kinds: dict[str, VerdictCounts] = {
        SAFE: found.safe,
        DUE: found.due,
        "not labelled": found.unlabelled,
    }
    rows: list[list[Cell]] = [
        [name, one.right, one.wrong, one.abstained, one.no_answer, one.n]
        for name, one in kinds.items()
        if one.n
    ]
    headings = ("right", "wrong", "deferred", "no answer", "all")
    columns = (Column("name", "cases"), *(Column("count", one) for one in headings))
    parts: list[Content] = [CaseBars(columns=columns, rows=rows, partition=found)]
    if room := _room(result.metric_scores.get("decision_skill")):
        parts.append(Sentences([room]))
    if risk := result.suite.deferral:
        parts.append(Sentences([risk]))
    return [Section(key="cases", title="What became of the cases", parts=parts)]


def _room(score: MetricScore | None) -> str:
    """Say what there is to gain at the price of deferring: the room that a skill is measured in."""
    if score is None or "room" not in score.details:
        return ""
    found = score.details
    constant, ideal, own = (
        Column("figure", "").write(found[name]) for name in ("constant_cost", "ideal_cost", "cost")
    )
    policy = f"best constant policy (always {found['constant_policy']})"
    return (
        f"Cost per case at a price of {given(found['price'])} per deferral: best possible {ideal}; "
        f"{policy} {constant}; this model {own}."
    )


_PARTS = {
    "uncertain": "uncertain",
    "rule": "by a rule",
    "depends_on_prior": "depends on prior",
    "holds_for_any_prior": "any prior",
}


_DUE = ("defer_when_needed", "answer_when_should_defer", "no_answer_when_should_defer")


def _deferral_sections(result: BenchmarkResult) -> list[Section]:
    """Return deferral of each kind of patients apart, with the chart of the kind judged first."""
    found = _by_source(result, _deferral)
    judged, _ = one_kind(result)
    if not found or not result.rows or not (judged.rows.table.should_abstain >= 0).any():
        return found
    chart = _charts(judged, {"deferral": deferral}, wide=True, whole=judged is result)
    return [replace(found[0], parts=[*chart, *found[0].parts]), *found[1:]]


def _by_source(
    result: BenchmarkResult, sections_of: Callable[[MetricScores], list[Section]]
) -> list[Section]:
    """Return sections of each kind of patients apart: together they are a result for neither."""
    if not result.scores_by_source:
        return sections_of(result.metric_scores)
    return [
        _of_source(one, source)
        for source, scores in result.scores_by_source.items()
        for one in sections_of(MetricScores(scores))
    ]


def _of_source(section: Section, source: str) -> Section:
    """Return a section under the name of its patients, whom no filter finds."""
    parts = [replace(p, cases={}) if isinstance(p, Table) else p for p in section.parts]
    title = f"{section.title}, {source} patients"
    return replace(section, key=f"{section.key}-{source}", title=title, parts=parts)


def _deferral(scores: MetricScores) -> list[Section]:
    """Return both sides of deferral, for all cases and for each kind, and the reasons."""
    score = scores.get("deferral_alignment")
    if score is None or math.isnan(score.value):
        return []
    details = score.details
    kinds = {**details.get("by_kind", {}), **details.get("by_prior", {})}
    named = [("all cases", details), *((_PARTS.get(n, n), part) for n, part in kinds.items())]
    rows = [
        [
            name,
            part["n_labeled"],
            sum(part["confusion"].get(cell, 0) for cell in _DUE),
            part["sensitivity"],
            part["specificity"],
            part["balanced_alignment"],
            part["mcc"],
            part.get("alignment", score.value),
            part["always_answer"],
        ]
        for name, part in named
    ]
    columns = (
        Column("name", "deferral"),
        Column("count", "n"),
        Column("count", "due", "cases that should be deferred"),
        Column("share", "deferred", "share deferred of the cases that should be"),
        Column("share", "answered", "share answered of the cases that are safe to answer"),
        Column("share", "mean", "mean of the two shares"),
        Column("figure", "MCC", "Matthews correlation coefficient"),
        Column("share", "aligned", "share of cases answered or deferred as they should be"),
        Column("share", "if all answered", "the share aligned if every case were answered"),
    )
    sides = (
        RowFilter(due="stated"),
        RowFilter(due="yes"),
        RowFilter(cell="defer_when_needed"),
        RowFilter(cell="answer_when_safe"),
    )
    behind = {(0, at): one for at, one in enumerate(sides, start=1) if rows[0][at]}
    found: list[Content] = [Table(columns=columns, rows=rows, name="deferral", cases=behind)]
    if reasons := details.get("by_reason", {}):
        found.append(_reasons(reasons))
    if rules := details.get("by_rule", {}):
        judged = (
            Column("name", "rule"),
            Column("count", "cases"),
            Column("count", "deferred"),
            Column("share", "share"),
            Column("count", "answered"),
            Column("count", "right", "answered rightly"),
        )
        rows = [
            [
                spaced(name),
                one["n"],
                one["n_deferred"],
                one["n_deferred"] / one["n"] if one["n"] else math.nan,
                one["n_answered"],
                one["n_right"],
            ]
            for name, one in rules.items()
        ]
        by_rule, others = (rules[part]["n_deferred"] for part in ("any rule", "no rule"))
        note = (
            f"Rules are a checklist, not the truth: {count(by_rule)} of {count(by_rule + others)} "
            "deferrals follow a rule. A case may break a rule and still be safe to answer."
        )
        found.append(Table(columns=judged, rows=rows, note=note))
    return [Section(key="deferral", title="Deferral", parts=found)]


def _reasons(reasons: Mapping[str, Mapping[str, int]]) -> Table:
    """Return how many cases were due for each reason, and how many of them were deferred."""
    columns = (
        Column("name", "reason to defer"),
        Column("count", "due"),
        Column("count", "deferred"),
        Column("share", "share"),
    )
    rows: list[list[Cell]] = []
    cases = {}
    for at, (reason, n) in enumerate(reasons.items()):
        due, deferred = n["n_due"], n["n_deferred"]
        rows.append([spaced(reason), due, deferred, deferred / due])
        cases[at, 1] = RowFilter(due="yes", reason=reason)
        if deferred:
            cases[at, 2] = RowFilter(cell="defer_when_needed", reason=reason)
    return Table(columns=columns, rows=rows, name="reasons", keys=list(reasons), cases=cases)


# --- Groups ----------------------------------------------------------------------------------


def _groups(result: BenchmarkResult) -> list[Section]:
    """Return every group that the metadata name, those most often wrong first."""
    judged, about = one_kind(result)
    level = level_of(result.metric_scores)
    found, overall = group_figures(judged.rows, level), overall_figures(judged.rows)
    if not found or not overall:
        return []
    columns = (
        Column("name", "group"),
        Column("count", "cases"),
        *(Column("share", heading) for heading in overall),
    )
    rows: list[list[Cell]] = [
        [
            f"{group.by}: {group.name}",
            TOO_FEW if group.n is None else group.n,
            *("" if group.n is None else group.figures[heading] for heading in overall),
        ]
        for group in found
    ]
    chart = _charts(
        judged,
        {"groups": lambda _, style: group_forest(found, overall, style)},
        wide=True,
        whole=judged is result,
    )
    cases: dict[tuple[int, int], object] = {}
    for at, group in enumerate(found if judged is result else ()):
        cases[at, 0] = named = RowFilter(group=f"{group.by}: {group.name}")
        if group.n:
            cases[at, 1] = replace(named, outcome=SCORED)
    table = Table(columns=columns, rows=rows, name="groups", cases=cases)
    title = f"By group, {about}" if about else "By group"
    return [Section(key="groups", title=title, parts=[*chart, table])]


# --- Confidence, and the cases to look at first ----------------------------------------------

Builder = Callable[[Mapping[str, BenchmarkResult], Style], FigureSpec]


def _charts(
    result: BenchmarkResult,
    builders: Mapping[str, Builder],
    *,
    wide: bool = False,
    whole: bool = True,
) -> list[Chart]:
    """Return charts of one run, drawn when they are asked for, and then once.

    Marks lead to their cases where the rows are the ``whole`` run.
    """
    runs = {result.backend_name or "unnamed model": result}
    return [
        page_chart(
            key,
            partial(builder, runs),
            wide=wide,
            about=[about_runs(runs)],
            cases=cases_of_marks(key, result.rows.table) if whole else None,
        )
        for key, builder in builders.items()
    ]


def _confidence(result: BenchmarkResult) -> list[Section]:
    """Return the charts of confidence that the rows allow, and why there is no curve."""
    judged, about = one_kind(result)
    table = judged.rows.table
    builders: dict[str, Builder] = {}
    why = not_drawable(table)
    if not why:
        builders["risk_coverage"] = lambda runs, style: risk_coverage(run_curves(runs)[0], style)
        builders["generalized_risk"] = lambda runs, style: risk_coverage(
            run_curves(runs)[0], style, measures=("generalized",)
        )
    if table.usable.any():
        builders["reliability"] = reliability
    if not np.isnan(table.confidence).all():
        builders["confidence_histogram"] = lambda runs, style: confidence_histogram(
            next(iter(runs.values())), style
        )
    parts: list[Content] = [*_charts(judged, builders, whole=judged is result)]
    if why:
        parts.append(Sentences([f"There is no risk–coverage curve: {why}."]))
    title = f"Confidence, {about}" if about else "Confidence"
    return [Section(key="confidence", title=title, parts=parts, only_on_pages=True)]


_QUEUES = {
    "confident_wrong": RowFilter(correct="no", sort="-confidence"),
    "answer_when_should_defer": RowFilter(cell="answer_when_should_defer", sort="-confidence"),
    "abstain_when_should_answer": RowFilter(cell="abstain_when_should_answer", sort="confidence"),
    "no_answer": RowFilter(outcome="no_answer", sort="-confidence"),
}


def _worst(result: BenchmarkResult, ids: ShownIds) -> list[Section]:
    """Return the cases to look at first, with what the model wrote."""
    task = result.provenance.task_facts
    columns = (
        Column("name", "case"),
        Column("name", "answer"),
        Column("name", "truth"),
        Column("figure", "confidence"),
        Column("name", "why deferral"),
        Column("name", "what was written"),
    )
    parts: list[Content] = []
    for kind in worst_rows(result.rows):
        rows: list[list[Cell]] = [
            [
                ids.record(row.record_id) or f"row {index}",
                answer_words(row.prediction, task)
                if row.outcome == "answered" and row.prediction is not None
                else answer_given(row),
                answer_words(row.ground_truth, task),
                row.confidence,
                reasons_of(row.metadata),
                shortened(row.raw_response),
            ]
            for index, row in kind.rows
        ]
        n = f"{count(kind.n_rows)} {'case' if kind.n_rows == 1 else 'cases'}"
        worst = f" The {len(rows)} worst are shown." if kind.n_rows > len(rows) else ""
        title = f"{kind.title}: {n}"
        if not rows:
            parts.append(Sentences([f"{title}."]))
            continue
        parts.append(
            Table(
                columns=columns,
                rows=rows,
                title=title,
                note=f"{kind.meaning}{worst}",
                name=f"worst {kind.key}",
                cases={
                    (at, 0): OneCase(index, _QUEUES[kind.key])
                    for at, (index, _) in enumerate(kind.rows)
                },
            )
        )
    title = "Cases to look at first"
    return [Section(key="worst", title=title, parts=parts, only_on_pages=True)]


# --- Scores ----------------------------------------------------------------------------------


def _scores(result: BenchmarkResult, against: Mapping[str, BenchmarkResult]) -> list[Section]:
    """Return the scores, of each kind of patients apart: together they are a result for neither."""
    result = result.also_scored(DISEASE_KEYS)
    against = {name: run.also_scored(DISEASE_KEYS) for name, run in against.items()}
    task = result.provenance.task_facts
    if not result.scores_by_source:
        known = {
            name: one
            for name, one in result.baselines.items()
            if not is_itself(result.backend_name, name)
        }
        others = {**known, **{n: run.metric_scores for n, run in against.items()}}
        # The eight are on the first screen; they come again only beside what others score in them.
        eight = [] if others or not _eight_metrics(result) else default_benchmark_metrics()
        return _scores_of(result, task, others, [metric.key for metric in eight])
    found = []
    for source, scores_of in result.scores_by_source.items():
        mark = f" ({source})"
        others = {
            **{
                name.removesuffix(mark): scores
                for name, scores in result.baselines.items()
                if name.endswith(mark) and not is_itself(result.backend_name, name)
            },
            **{name: run.scores_by_source.get(source, {}) for name, run in against.items()},
        }
        part = BenchmarkResult([], MetricScores(scores_of), {}, "")
        found += [_of_source(one, source) for one in _scores_of(part, task, others, ())]
    return found


def scores_document(scores: MetricScores) -> Document:
    """Return what there is to show of scores alone."""
    bare = BenchmarkResult([], scores, {}, "")
    sections = [replace(one, folded=False) for one in _scores_of(bare, None, {}, ())]
    return Document(title="Scores", sections=sections, first=[one.key for one in sections])


# Families of metrics by the beginnings of their keys; the rest is about answers.
_FAMILIES = {
    "Deferral": ("deferral", "right_decisions", "inappropriate", "accuracy_on_answerable"),
    "Decisions": ("decision_",),
    "Confidence": (
        *("expected_calibration", "brier", "calibration", "observed"),
        *("debiased", "auroc", "log_loss", "aurc", "augrc", "risk_at", "eaurc", "eaugrc"),
    ),
}


def _family(score: MetricScore) -> str:
    return next((name for name, keys in _FAMILIES.items() if score.key.startswith(keys)), "Answers")


def _scores_of(
    result: BenchmarkResult,
    task: TaskFacts | None,
    others: Mapping[str, Mapping[str, MetricScore]],
    shown: Sequence[str] = (),
) -> list[Section]:
    """Return all scores but those that are ``shown`` before, and what is to be said of any."""
    scores = result.metric_scores
    known = [score for score in scores.values() if score.key not in DISEASE_KEYS]
    general = [score for score in known if score.key not in shown]
    families: dict[str, list[MetricScore]] = {}
    for score in general:
        families.setdefault(_family(score), []).append(score)
    rows = result.rows.table if result.rows else None
    parts: list[Content] = [
        _metrics(found, family, others, rows) for family, found in families.items()
    ]
    lower = [score.name for score in known if score.direction == "lower"]
    lines = [
        *([f"Lower is better: {', '.join(lower)}."] if lower else []),
        *_undefined(scores),
        *_levels(scores),
        *note_lines(scores),
        *_calibration(scores),
        *_confident_errors(scores),
        *method_lines(methods_of(scores.values())),
    ]
    parts += [Sentences(lines)] if lines else []
    title = "Metrics" if not shown else "More metrics" if general else "About the metrics"
    section = Section(key="metrics", title=title, parts=parts, folded=True)
    return [*([section] if parts else []), *_disease(scores, task, others)]


def _metrics(
    scores: Sequence[MetricScore],
    title: str,
    others: Mapping[str, Mapping[str, MetricScore]],
    table: CaseTable | None = None,
    *,
    abstained: bool = False,
) -> Table:
    """Return a family of metrics with their intervals, and what others score in them."""
    known = {who: found for who, found in others.items() if any(s.name in found for s in scores)}
    columns = (
        Column("name", "Metrics" if abstained else "metric"),
        Column("figure", "value"),
        Column("count", "n"),
        *([Column("count", "abstained")] if abstained else []),
        *(Column("figure", who) for who in known),
    )
    rows: list[list[Cell]] = [
        [
            score.name,
            Estimate.of(score.value, score.interval),
            score.n_evaluated,
            *([score.n_abstained] if abstained else []),
            *(_value(found.get(score.name)) for found in known.values()),
        ]
        for score in scores
    ]
    keys = [score.identifier for score in scores]
    cases = {
        (at, 2): wanted
        for at, score in enumerate(scores if table is not None else ())
        if table is not None and (wanted := rows_of_metric(score, table)) is not None
    }
    return Table(columns=columns, rows=rows, title=title, name="metrics", keys=keys, cases=cases)


def _undefined(scores: Mapping[str, MetricScore]) -> list[str]:
    without: dict[str, list[str]] = {}  # names by the reason why they have no interval
    for score in scores.values():
        if score.interval and score.interval.reason and not math.isnan(score.value):
            without.setdefault(score.interval.reason, []).append(score.name)
    return [
        f"{score.name} is undefined: "
        + reason_words(str(score.details.get("reason", "no reason was given")))
        for score in scores.values()
        if math.isnan(score.value) and not has_no_disease(score)
    ] + [
        f"{', '.join(names)} {'have' if names[1:] else 'has'} no interval: {reason_words(reason)}"
        for reason, names in without.items()
    ]


def _levels(scores: Mapping[str, MetricScore]) -> list[str]:
    """Say which interval has which level, where they differ."""
    names: dict[float, list[str]] = {}
    for score in scores.values():
        if score.interval and score.interval.defined:
            names.setdefault(score.interval.level, []).append(score.name)
    mixed = sorted(names) if len(names) > 1 else []
    return [f"{level_name([level])} intervals: {', '.join(names[level])}." for level in mixed]


def _calibration(scores: MetricScores) -> list[str]:
    score = scores.get("expected_calibration_error")
    if score is None or math.isnan(score.value) or "null_value" not in score.details:
        return []
    perfect = Column("figure", "").write(score.details["null_value"])
    expected = f"an expected calibration error of {perfect} on {count(score.n_evaluated)} answers"
    return [f"A perfectly calibrated model would show {expected}."]


def _confident_errors(scores: MetricScores) -> list[str]:
    score = scores.get("aurc")
    details = score.details if score is not None else {}
    right, wrong = (details.get(f"mean_confidence_{kind}") for kind in ("right", "wrong"))
    # Means of equal confidences differ in their last bits.
    if right is None or wrong is None or wrong <= right or math.isclose(wrong, right):
        return []
    write = Column("share", "").write
    means = f"({write(wrong)} on average) than right ones ({write(right)})"
    advice = "the interval of AURC may be short; prefer AUGRC."
    return [f"Wrong answers are more confident {means}: {advice}"]


# --- The disease -----------------------------------------------------------------------------


def _disease(
    scores: MetricScores,
    task: TaskFacts | None,
    others: Mapping[str, Mapping[str, MetricScore]],
) -> list[Section]:
    """Return the figures of the positive answer, and what was answered to which truth."""
    words = disease_words(scores, task)
    known = [scores.get(key) for key in DISEASE_KEYS]
    found = [score for score in known if score is not None and not has_no_disease(score)]
    parts: list[Content] = [Sentences([words])] if words else []
    if found:
        columns = (
            Column("name", "figure"),
            Column("share", "when answered", "of answered cases"),
            Column("name", "counts"),
            Column("share", "of all", "with abstentions as errors"),
            Column("name", "counts"),
        )
        rows = [
            [
                score.name,
                Estimate.of(score.value, score.interval),
                f"{count(score.details.get('n_right') or 0)} of {count(score.n_evaluated)}",
                score.details.get("end_to_end"),
                f"{count(score.details['n_right'])} of {count(score.details['n_cases'])}"
                if "n_cases" in score.details
                else "",
            ]
            for score in found
        ]
        parts.append(Table(columns=columns, rows=rows))
        if any(score.name in known_of for score in found for known_of in others.values()):
            parts.append(_metrics(found, "The same figures of others", others))
    matrix = _matrix(scores, task)
    if matrix is not None:
        parts.append(matrix)
    return [Section(key="disease", title="By truth", parts=parts, folded=True)] if parts else []


def _matrix(scores: MetricScores, task: TaskFacts | None) -> Table | None:
    """Return how often each answer was given to each truth."""
    score = scores.get(DISEASE_KEYS[0])
    found = score.details.get("confusion_matrix") if score is not None else None
    if not found or len(found["labels"]) > MOST_ANSWERS_SHOWN:
        return None
    outcomes = {
        "no answer": "no_answer",
        "abstained": "abstained",
        "not evaluated": "not_evaluated",
    }
    shown = {name: found[key] for name, key in outcomes.items() if any(found[key])}
    names = [answer_words(label, task) for label in found["labels"]]
    headings = names
    if sum(map(len, names)) > _HEADING_LETTERS:  # the first column says what the others mean
        headings = list(map(str, found["labels"]))
        names = [n if n == h else f"{h}: {n}" for h, n in zip(headings, names, strict=True)]
    columns = [
        Column("name", "truth"),
        *(Column("count", heading, f"answered {heading}") for heading in headings),
        *(Column("count", name) for name in shown),
        Column("count", "all"),
    ]
    rows = [
        [
            name,
            *found["counts"][i],
            *(counts[i] for counts in shown.values()),
            sum(found["counts"][i]) + sum(counts[i] for counts in shown.values()),
        ]
        for i, name in enumerate(names)
    ]
    labels = [label_text(label) for label in found["labels"]]
    across = [
        *(RowFilter(predicted=label) for label in labels),
        *(RowFilter(outcome=outcomes[name]) for name in shown),
        RowFilter(),
    ]
    cases = {
        (at, 1 + place): replace(wanted, truth=truth)
        for at, truth in enumerate(labels)
        for place, wanted in enumerate(across)
        if rows[at][1 + place]
    }
    title = "What was answered to which truth"
    return Table(columns=columns, rows=rows, title=title, name="matrix", cases=cases)


# --- Baselines -------------------------------------------------------------------------------


def _baselines(result: BenchmarkResult) -> list[Section]:
    """Return the run, then every baseline on the same records, and why others are left out."""
    baselines = {
        name: scores
        for name, scores in result.baselines.items()
        if not is_itself(result.backend_name, name)
    }
    left_out = [f"Left out: {why}." for why in result.baselines_left_out.values()]
    if not baselines:
        return _baseline_section(left_out)
    own: dict[str, Mapping[str, MetricScore]] = {
        f"this run ({source})": scores for source, scores in result.scores_by_source.items()
    } or {"this run": result.metric_scores}
    task = result.provenance.task_facts
    named = [result.metric_scores.get(key) for key in (task.metrics if task else ())]
    columns = {**{one.name: one.name for one in named if one is not None}, **_BASELINE_COLUMNS}
    names = [name for name in columns if name in result.metric_scores]
    if not names:  # the run was scored with others
        scored = {name for scores in baselines.values() for name in scores}
        names = [name for name in result.metric_scores if name in scored]
        columns = dict(zip(names, names, strict=True))
    if not names:
        return _baseline_section(left_out)
    rows = [
        [who, *(_value(scores.get(name)) for name in names)]
        for who, scores in {**own, **baselines}.items()
    ]
    headed = (Column("name", "model"), *(Column("figure", columns[name]) for name in names))
    return _baseline_section(left_out, Table(columns=headed, rows=rows))


def _baseline_section(left_out: Sequence[str], *tables: Table) -> list[Section]:
    parts: list[Content] = [*tables, *([Sentences(left_out)] if left_out else [])]
    title = "Baselines on the same records"
    return [Section(key="baselines", title=title, parts=parts)] if parts else []


def _value(score: MetricScore | None) -> float | str:
    if score is None:
        return "not scored"
    return "–" if math.isnan(score.value) else score.value


# --- How it was made -------------------------------------------------------------------------


def _how(result: BenchmarkResult) -> list[Content]:
    made, account = result.provenance, result.suite.account
    lines = [("Data", account)] if account else []
    lines += [("Asked", str(made.asking))] if made.asking else []
    parts: list[Content] = [Facts(lines)] if lines else []
    return [*parts, execution_facts(result)]


def _inputs(result: BenchmarkResult, reproduce: str) -> list[Section]:
    """Return the data, the prompts, the settings and how to run it again."""
    parts: list[Content] = []
    if described := flat_facts(result.suite_description):
        parts.append(Facts(described))
    prompts = prompt_templates(result)
    parts += [
        Listing(text.splitlines(), title=f"Prompt, patient data redacted: {name}")
        for name, text in prompts[:N_PROMPTS_SHOWN]
    ]
    if len(prompts) > N_PROMPTS_SHOWN:
        more = f"{count(len(prompts) - N_PROMPTS_SHOWN)} further prompts are in the saved result."
        parts.append(Sentences([more]))
    if result.provenance.config:
        settings = dumps(result.provenance.config).splitlines()
        parts.append(Listing(settings, title="Settings that the run was started with"))
    again = reproduce or "krisis show RESULT.json --metric default"
    parts.append(Listing(again.splitlines(), title="Run it again"))
    title = "Data, prompts and settings"
    return [Section(key="inputs", title=title, parts=parts, folded=True, only_on_pages=True)]


def prompt_templates(result: BenchmarkResult) -> list[tuple[str, str]]:
    """Return the redacted prompts, each once, with the mode that it was used in."""
    modes = {row.prompt: row.prompt_mode for row in result.evaluation_results if row.prompt}
    stored = result.prompts.prompt_templates or tuple(modes)
    return [(modes.get(text) or f"template {i + 1}", text) for i, text in enumerate(stored)]


def flat_facts(content: JsonMapping, prefix: str = "") -> list[tuple[str, str]]:
    """Return what a mapping says, nested facts by their path; long lists are cut."""
    found: list[tuple[str, str]] = []
    for key, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            several = {str(i): one for i, one in enumerate(value, start=1)}
            found += flat_facts({key: value[0] if len(value) == 1 else several}, prefix)
        elif isinstance(value, Mapping):
            found += flat_facts(value, f"{prefix}{spaced(key)} · ")
        elif value not in (None, "", []):
            found.append((f"{prefix}{spaced(key)}", _fact_words(value)))
    return found


def _fact_words(value: JsonValue) -> str:
    if isinstance(value, list | tuple):
        text = dumps(value, indent=None)
        return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} …"
    return stored(value)


@cache
def _fact_names() -> dict[str, str]:
    text = files("krisis.pages").joinpath("fact_names.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def execution_facts(result: BenchmarkResult) -> Facts:
    """Return how the run went; the keys are the names that the JSON reports have in ``extras``."""
    took, made, known = result.spending, result.provenance, result.extras
    if known.get("prompt_templates"):
        n = len(known["prompt_templates"])
        known["prompt_templates"] = f"{n} in extras.prompt_templates of the JSON report"
    unknown = None if made.batch_size is None else "not known"
    facts: dict[str, JsonValue] = {
        **{name: unknown if known.get(name) is None else known[name] for name in EXECUTION_FIELDS},
        "tokens_lost": _lost_tokens(took) or None,
        "token_total_reported": took.token_total_reported,
        "n_api_calls": took.n_api_calls,
        "n_batch_calls": took.n_batch_calls,
        # Most runs ask a model that has no cache: there a zero would only raise a question.
        "n_cache_hits": took.n_cache_hits or None,
        "n_retries": took.n_retries,
        "n_batch_splits": took.n_batch_splits,
        "cost": took.cost if took.cost_unknown is None else f"unknown, {took.cost_unknown}",
        "n_dropped_fields": took.n_dropped_fields or None,
        "models_answered": list(made.models_answered) or None,
        "seed": None if made.seed is None else str(made.seed),
        "imported_at" if made.imported else "started_at": made.started_at,
        "krisis_version": made.krisis_version,
        "git_commit": made.git_commit,
        "run_id": made.run_id,
        "latency_seconds": _flat(took.latency_seconds),
        "price_per_million_tokens": _flat(took.price_per_million_tokens),
        "cache_fault": took.cache_fault or None,
        "repeats": made.repeats,
        "versions": _flat(made.versions),
        "agreement": _flat(asdict(result.agreement)) if result.agreement else None,
        **{name: _flat(value) for name, value in result.other.items()},
    }
    shown = {name: stored(value) or "none" for name, value in facts.items() if value is not None}
    names = _fact_names()
    return Facts([(names.get(name, name), value) for name, value in shown.items()], list(shown))


def _flat(value: JsonValue) -> JsonValue:
    """Return nested facts as one line; nothing where there are none."""
    if not isinstance(value, Mapping):
        return value
    return ", ".join(f"{name} {_fact_words(one)}" for name, one in value.items()) or None


def _lost_tokens(took: Spending) -> str:
    """Say how many of the tokens led to no answer; nothing where none did."""
    lost = took.lost_input_tokens or 0, took.lost_output_tokens or 0
    return f"{count(lost[0])} in, {count(lost[1])} out, of the above" if any(lost) else ""
