"""Decide: the threshold for a question about risk or coverage, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import urlencode

from krisis.decisions.certify import (
    Certificate,
    CertifyOptions,
    assumptions_of,
    certificate_from,
    why_none,
)
from krisis.decisions.costs import OWNERSHIP, PER
from krisis.decisions.decide import DecideOptions, price_answers
from krisis.decisions.run_sample import rows_hash, sample_of, too_many_missing
from krisis.decisions.sample import METHODS, Sample
from krisis.decisions.threshold_in_force import (
    DEFAULT_DELTA,
    RiskBound,
    ThresholdInForce,
    threshold_of_sample,
)
from krisis.decisions.verify import score_options
from krisis.decisions.working_point import Desk, Part, Question, variants_among
from krisis.errors import InvalidFile, InvalidValue, KrisisError
from krisis.json_values import JsonObject, read_object
from krisis.metrics.items import RunItems, Source
from krisis.metrics.risk_coverage import spread_evenly
from krisis.metrics.table import BoolArray
from krisis.pages.cases import RowFilter
from krisis.pages.charts.curves import not_drawable
from krisis.pages.document import Cell, Column
from krisis.pages.document import Table as PageTable
from krisis.pages.html import table_html, verdict_html
from krisis.pages.numbers import Estimate, threshold_above
from krisis.pages.verdict import threshold_verdict
from krisis.results.loading import place_in_commands
from krisis.results.run_items import items_of_result
from krisis.task_facts import TaskFacts
from krisis.viewer.catalogue import Catalogue, ViewedRun
from krisis.viewer.entries import ARTEFACTS, artefacts_in
from krisis.viewer.filters import UNANSWERED
from krisis.viewer.page import Page
from krisis.viewer.pages.cases import case_address, query_of
from krisis.viewer.pages.decide_asked import Asked, commands, cost_fields, cost_table
from krisis.viewer.pages.decide_drawing import drawing

# Signals and repeats are read row by row, which a page does for no more rows than these.
MOST_ROWS_READ = 100_000
# Patients × thresholds of the betting test, and exact tests, that a page waits for: about a second.
_MOST_BETS = 30_000_000
_MOST_TESTS = 10_000
_ROWS_LOOKED_AT = 200

_MOST_POINTS = 400  # of a smooth line


def page(catalogue: Catalogue, name: str, query: Mapping[str, str]) -> Page:
    """Answer the question of the address on the rows of a run."""
    run, asked = catalogue.load(name), Asked.of(query)
    items, collapsed = _items(run, asked)
    available = _available(run)
    variant = asked.score.variant(items)
    content: JsonObject = {
        "name": name,
        "words": list(items.words),
        "damage": run.damage,
        "n_rows": items.table.n_rows,
        "n_scored": items.n_items,
        "n_answered": int(items.predicted.sum()),
        "n_abstained": items.table.n_abstained,
        "n_no_answer": items.table.n_no_answer,
        "n_not_evaluated": items.table.n_not_evaluated,
        "n_patients": items.table.patients.n,
        "each_asked_several_times": collapsed,
        "confidence": {"used": variant, "available": available},
        "question": asdict(asked.question),
        "problem": "",
        "left_for_people": _left_for_people(run),
        "not_judged": too_many_missing(
            items.table.n_not_evaluated, items.table.n_rows, asked.score.max_not_evaluated
        ),
        "point": None,
        "curve": [],
        "found_in_the_folder": _artefacts(run),
        "commands": commands(run.path, asked, items),
    }
    verdict = ""
    try:
        desk = _desk(items, asked, variant, available)
        in_force = _in_force(items, desk.sample, asked)
        content |= _answered(items, desk, asked, in_force)
        if not content["not_judged"]:
            verdict = verdict_html(threshold_verdict(items.table, in_force))
        if content["not_judged"]:
            _take_back_verdicts(content)
    except InvalidValue as error:
        content["problem"] = str(error)
    filters = _filters(content, variant == "stated" and not collapsed)
    context: JsonObject = {
        "heading": run.model,
        "has_curve": not not_drawable(run.table),
        "asked": asked,
        "methods": METHODS,
        "kept": {k: v for k, v in query.items() if v.strip()},
        "cost_fields": cost_fields(items, asked),
        "drawing": drawing(content),
        "own": OWNERSHIP,
        "query": urlencode({k: v for k, v in query.items() if v.strip()}),
        "verdict": verdict,
        "links": {key: query_of(wanted) for key, wanted in filters.items()},
        "groups": "",
        "costs": "",
    }
    if content["point"]:
        context["groups"] = table_html(_group_table(content, filters), case_address(run))
        context["costs"] = table_html(_cost_table(content["costs"]))
    return Page("decide.html", f"Decide · {name}", content, context)


def _left_for_people(run: ViewedRun) -> JsonObject | None:
    """Return the count of the hand-over list, which is the verdict's; None of a very large run."""
    if run.n_rows > MOST_ROWS_READ:
        return None
    found = run.hand_over()
    threshold = found.in_force.threshold
    return {"n": len(found.cases), "n_cases": found.n_cases, "threshold": threshold}


def _group_table(content: JsonObject, filters: Mapping[str, RowFilter]) -> PageTable:
    """Return what the threshold does in every group, each count with its cases."""
    question = content["question"]
    bound = question["share"] if question["kind"] == "wrong" else None
    counts = {
        "answered": ("n_kept", "kept"),
        "wrong": ("n_wrong", "wrong"),
        "deferred": ("n_deferred", "deferred"),
        "abstained": ("n_abstained", "abstained"),
    }
    columns = (
        Column("name", "group"),
        Column("count", f"{content['words'][0]}s"),
        Column("count", "cases"),
        *(Column("count", heading) for heading in counts),
        Column("share", "coverage"),
        Column("share", "risk"),
        Column("name", "verdict"),
    )
    rows: list[list[Cell]] = []
    cases: dict[tuple[int, int], object] = {}
    for at, group in enumerate(content["groups"]):
        named = f"{group['by']}: {group['group']}" if group["group"] else ""
        for place, (number, key) in enumerate(counts.values(), start=3):
            if named and group[number] and key in filters:
                cases[at, place] = replace(filters[key], group=named)
        ends = group["risk_interval"]
        risk = Estimate(group["risk"], ends["low"], ends["high"], ends["level"], bound)
        rows.append(
            [
                f"{group['by'].replace('_', ' ')}: {group['group'] or 'not stated'}",
                group["n_patients"],
                group["n_rows"],
                *(group[number] for number, _ in counts.values()),
                group["coverage"],
                "too few" if group["too_few"] else risk,
                group["verdict"],
            ]
        )
    note = f"A risk is shown from 20 {content['words'][0]}s with kept answers on."
    return PageTable(columns=columns, rows=rows, note=note, cases=cases)


def _cost_table(costs: JsonObject) -> PageTable:
    """Return what the policies cost."""
    columns = (
        Column("name", "policy"),
        Column("count", "answered"),
        Column("count", "of"),
        Column("figure", f"cost per {costs.get('per', '')}"),
    )
    level = costs.get("level", 0.95)
    rows: list[list[Cell]] = [
        [
            one["name"],
            one["n_answered"],
            one["n_rows"],
            Estimate(one["cost"], one["low"], one["high"], level),
        ]
        for one in costs["policies"]
    ]
    notes = dict.fromkeys(f"{o['name']}: {o['reason']}" for o in costs["policies"] if o["reason"])
    return PageTable(columns=columns, rows=rows, note="; ".join(notes))


def _take_back_verdicts(content: JsonObject) -> None:
    """Judge nothing on a run of which too many cases were not evaluated, as the commands do."""
    for part in [content["point"], *content["groups"]]:
        part["verdict"] = part["verdict"] and "not judged"


def _source(run: ViewedRun) -> Source:
    made, place = run.result.provenance, place_in_commands(run.path)
    return Source(
        place,
        made.run_id,
        suite=made.suite,
        model=made.model,
        task=made.task,
        case_hash=made.case_hash,
    )


def _items(run: ViewedRun, asked: Asked) -> tuple[RunItems, bool]:
    """Return the columns of a run as items; of repeats, one modal answer per record."""
    task = run.result.provenance.task_facts or TaskFacts("")
    source = _source(run)
    variant = asked.confidence or task.default_confidence or "stated"
    repeated = run.n_rows > 0 and run.table.repeats_cases
    if (repeated or variant != "stated") and run.n_rows <= MOST_ROWS_READ:
        return items_of_result(run.result, source), repeated
    items = RunItems(
        run.table,
        source,
        default_confidence=task.default_confidence or "stated",
        words=(task.person, task.unit),
        costs=task.costs,
    )
    return items, False


def _available(run: ViewedRun) -> list[str]:
    """Name the confidence variants that the first rows have the signals of."""
    table = run.table
    found = variants_among(row.signals for row in run.result.rows[:_ROWS_LOOKED_AT])
    stated = bool(table.usable.any())
    return ["stated"] * stated + [name for name in found if name != "stated"]


def _desk(items: RunItems, asked: Asked, variant: str, available: list[str]) -> Desk:
    """Return the rows with their scores, made once for a run and a variant."""
    if not items.n_items:
        raise InvalidValue(
            f"There is nothing to decide: none of the {items.table.n_rows} rows was answered or "
            "abstained on."
        )
    if not items.predicted.any():
        raise InvalidValue(
            f"There is no answer to accept: the model abstained on all {items.n_items} rows."
        )
    if variant == "stated" and not items.table.usable.any():
        others = ", ".join(name for name in available if name != "stated")
        mend = f"choose another score: {others}" if others else "there is no threshold to choose"
        raise InvalidValue(f"No answered row states a confidence; {mend}.")
    if variant != "stated" and items.n_items > MOST_ROWS_READ:
        raise InvalidValue(
            f"The score {variant!r} is made row by row, which takes too long for a page of "
            f"{items.n_items:,} rows; use the command."
        )
    key = ("decide", variant, asked.rows_per_patient)
    return items.table.shared(key, lambda: Desk.of(items, asked.score))


def _answered(items: RunItems, desk: Desk, asked: Asked, in_force: ThresholdInForce) -> JsonObject:
    question = asked.question
    naive = desk.choose(question)
    # The threshold that was asked for by its coverage, else the certified one, else none: then the
    # model's own answers count.
    threshold = naive if question.kind == "answer" else in_force.threshold
    answered = desk.accepts(naive) if question.kind == "answer" else in_force.answered
    curve, n = desk.sample.candidates, desk.sample.n_rows
    places = spread_evenly(curve.threshold.size, _MOST_POINTS).tolist()
    return {
        "n_with_confidence": desk.sample.n_scored,
        "cmax": desk.cmax,
        "n_levels": int(curve.threshold.size),
        "point": _point(desk, threshold, answered, question),
        "naive": _naive(desk, naive) if question.kind == "wrong" else None,
        "certified": _certified(items, desk.sample, asked, in_force),
        "groups": _groups(desk, answered, question),
        "costs": _costs(items, asked, answered),
        "curve": [
            {
                "threshold": float(curve.threshold[index]),
                "coverage": int(curve.n_accepted[index]) / n,
                "risk": curve.risk(index),
            }
            for index in places
        ],
        "level": desk.level,
        "band": [
            {
                "coverage": point.coverage,
                "risk": point.risk,
                "low": point.selective.low,
                "high": point.selective.high,
            }
            for point in desk.band
        ],
    }


def _facts(part: Part, question: Question) -> JsonObject:
    return {**asdict(part), "too_few": part.too_few, "verdict": part.verdict(question)}


def _point(
    desk: Desk, threshold: float | None, answered: BoolArray, question: Question
) -> JsonObject:
    shown = None if threshold is None else threshold_above(threshold, desk.below(threshold))
    found = _facts(desk.part(answered), question)
    return {"threshold": threshold, "threshold_shown": shown, **found}


def _naive(desk: Desk, threshold: float | None) -> JsonObject | None:
    """Return the laxest threshold with that risk on the rows that chose it, for the footnote."""
    if threshold is None:
        return None
    kept = desk.accepts(threshold)
    return {
        "threshold": threshold,
        "threshold_shown": threshold_above(threshold, desk.below(threshold)),
        "n_kept": int(kept.sum()),
        "n_wrong": int((desk.wrong & kept).sum()),
    }


def _in_force(items: RunItems, sample: Sample, asked: Asked) -> ThresholdInForce:
    """Return the certified threshold, by the search of `krisis certify` on the same rows."""
    own = items.predicted
    bound = RiskBound(delta=DEFAULT_DELTA if asked.delta is None else asked.delta)
    try:
        options = _certify_options(asked)
        options.score.refuse_missing(items)
    except InvalidValue as error:
        return ThresholdInForce(bound=bound, answered=own, reason=str(error))
    bound = RiskBound(risk=asked.risk, delta=options.chance)
    if asked.method == "fixed-sequence" and _is_long(sample, bound.risk, bound.delta):
        why = (
            f"{sample.n_rows:,} rows with {sample.candidates.threshold.size:,} thresholds take "
            "longer to test than a page should; the command does it"
        )
        return ThresholdInForce(bound=bound, answered=own, reason=why)
    return threshold_of_sample(sample, bound, own=own, method=options.method)


def _certify_options(asked: Asked) -> CertifyOptions:
    return CertifyOptions(
        risk=asked.risk,
        delta=None if asked.method == "crc" else asked.delta,
        method=asked.method,  # type: ignore[arg-type] # checked when it was read
        score=asked.score,
    )


def _certified(
    items: RunItems, sample: Sample, asked: Asked, in_force: ThresholdInForce
) -> JsonObject:
    """Return what was tested and found, and what a certificate rests on."""
    found = in_force.search
    facts: JsonObject = {
        **in_force.to_json(),
        "tested": found is not None,
        "size_helps": False,
        "assumptions": [],
    }
    if found is None:
        return facts
    accepted, size_helps = sample.accepts(found.threshold), False
    if found.threshold is None:
        facts["reason"], size_helps = why_none(found)
    n_kept = int(accepted.sum())
    return {
        **facts,
        "delta": None if asked.method == "crc" else in_force.bound.delta,
        "method": asked.method,
        "test": found.test,
        "n_tested": found.tested.n_rows,
        "n_kept": n_kept,
        "n_wrong": int(sample.loss[accepted].sum()),
        "coverage": n_kept / sample.n_rows,
        "size_helps": size_helps,
        "assumptions": assumptions_of(items, sample, _certify_options(asked), [found.test]),
    }


def _is_long(sample: Sample, risk: float, delta: float) -> bool:
    """Tell whether the chains of a sample have more tests than a page waits for."""
    n_tests = min(risk * sample.n_scored / sample.most_rows, sample.candidates.threshold.size)
    if sample.clustered and not sample.few_patients(risk, delta):
        return n_tests * sample.n_patients > _MOST_BETS
    return n_tests > _MOST_TESTS


def _groups(desk: Desk, answered: BoolArray, question: Question) -> list[JsonObject]:
    found = []
    for column, parts in desk.groups().items():
        for name, rows in parts.items():
            part = desk.part(answered, rows, kind=question.kind)
            value = name.removeprefix(f"{column}_") if name != f"unknown_{column}" else ""
            facts = _facts(part, question)
            facts["verdict"] = "too few to say" if part.too_few else facts["verdict"]
            found.append({"by": column, "group": value, **facts})
    return found


def _costs(items: RunItems, asked: Asked, answered: BoolArray) -> JsonObject:
    """Price the threshold by the costs of the address, else by those of the task."""
    try:
        table = cost_table(items, asked)
        options = DecideOptions(costs=table, score=replace(asked.score, loss=""))
        options.score.refuse_missing(items)
        policies = price_answers(items, options, {"this threshold": answered})
    except InvalidValue as error:
        return {"reason": str(error), "policies": []}
    names = ("name", "n_answered", "n_rows", "cost", "low", "high", "reason")
    return {
        "reason": "",
        "per": PER,
        "level": options.level,
        "table": table.to_json(),
        "policies": [{name: getattr(policy, name) for name in names} for policy in policies],
    }


def _artefacts(run: ViewedRun) -> list[JsonObject]:
    """Return the certificates, decisions and audits that are saved beside a run."""
    found = []
    for path, kind in artefacts_in(run.path.parent).get(run.path, ()):
        line = {"file": path.name, "kind": ARTEFACTS[kind]}
        try:
            found.append(line | _artefact(run, path, kind))
        except KrisisError as error:
            found.append({"file": path.name, "kind": "unreadable", "problem": str(error)})
    return found


def _artefact(run: ViewedRun, file: Path, kind: str) -> JsonObject:
    content = read_object(file)
    if kind == "krisis.certificate":
        certificate = certificate_from(content, place=file.name)
        sentences = [*_whose(run, certificate), *certificate.document().sentences()]
        return {"sentences": sentences, "problem": ""}
    sentences = content.get("assumptions", [])
    if not isinstance(sentences, list):
        raise InvalidFile(f"{file.name} is no output of krisis; write it again")
    return {"sentences": [str(one) for one in sentences], "problem": ""}


def _whose(run: ViewedRun, certificate: Certificate) -> list[str]:
    """Say so where a certificate was not made on the rows of the run, or nobody looked."""
    if certificate.calibrator_hash or run.n_rows > MOST_ROWS_READ:
        why = "with a calibrator" if certificate.calibrator_hash else "for so many rows"
        return [f"Whether it was made on the rows of this run is not checked here {why}."]
    key = ("whose", certificate.calibration_rows_hash, certificate.confidence, certificate.seed)
    if run.table.shared(key, lambda: _is_of(run, certificate)):
        return []
    other = "It is of other rows than those of this run, and says nothing of them"
    return [f"{other}; krisis certify --verify tells what this run says to it."]


def _is_of(run: ViewedRun, certificate: Certificate) -> bool:
    try:
        items = items_of_result(run.result, _source(run))
        sample = sample_of(items, score_options(certificate, None))
    except KrisisError:  # the run cannot even be scored as the certificate was
        return False
    return rows_hash(items, sample) == certificate.calibration_rows_hash


def _filters(content: JsonObject, by_confidence: bool) -> dict[str, RowFilter]:
    """Return the rows behind every count; of other scores than the stated one the rows say nothing.

    Without a threshold the model's own answers count.
    """
    found = {one: RowFilter(outcome=one) for one in ("abstained", "no_answer", "not_evaluated")}
    point = content["point"]
    if point is None or not by_confidence:
        return found
    limit = point["threshold"]
    if limit is None and not point["n_kept"]:
        deferred = RowFilter(outcome="answered"), RowFilter(correct="no")
        return found | dict(zip(("deferred", "wrong_deferred"), deferred, strict=True))
    found |= {
        "kept": RowFilter(outcome="answered", confidence_min=limit),
        "wrong": RowFilter(correct="no", confidence_min=limit),
        "left": RowFilter(left=UNANSWERED if limit is None else repr(limit)),
    }
    if limit is not None:
        found["deferred"] = RowFilter(deferred_at=limit, sort="-confidence")
        found["wrong_deferred"] = RowFilter(deferred_at=limit, correct="no")
    return found
