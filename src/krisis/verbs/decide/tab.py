"""Decide: the threshold for a question about risk or coverage, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import quote, urlencode

from krisis.decisions.answers import with_costs
from krisis.decisions.certify import (
    Certificate,
    CertifyOptions,
    assumptions_of,
    certificate_from,
    why_none,
)
from krisis.decisions.run_sample import rows_hash, too_many_missing
from krisis.decisions.sample import DEFAULT_DELTA, METHODS, Sample
from krisis.decisions.threshold_in_force import (
    RiskBound,
    ThresholdInForce,
    threshold_of_sample,
)
from krisis.decisions.verify import sample_for
from krisis.errors import InvalidFile, InvalidValue, KrisisError
from krisis.json_values import JsonObject, read_object
from krisis.metrics.items import RunItems
from krisis.metrics.table import BoolArray
from krisis.pages.cases import IN_FORCE, UNANSWERED, RowFilter, cases_of_marks
from krisis.pages.charts.curves import certified
from krisis.pages.document import (
    Cell,
    Chart,
    Column,
    Content,
    Document,
    Section,
    Sentences,
    Table,
)
from krisis.pages.html import chart_html, sections_html, table_html, verdict_html
from krisis.pages.numbers import Estimate, count, level, share
from krisis.pages.style import Style
from krisis.pages.tabs import OpenRun, Page, case_address, query_of
from krisis.pages.verdict import threshold_verdict
from krisis.results.artefacts import SAVED_BESIDE, saved_beside
from krisis.results.loading import place_in_commands
from krisis.results.run_items import items_of_result, source_of
from krisis.verbs.decide.page import cost_figures, price_sentences
from krisis.verbs.decide.policies import DecideOptions, Policy, price_answers
from krisis.verbs.decide.tab_form import Asked, commands
from krisis.verbs.decide.working_point import (
    ScoredRun,
    ThresholdEffect,
    ThresholdQuestion,
    variants_among,
)

# Signals and repeats are read row by row, which a page does for no more rows than these.
MOST_ROWS_READ = 100_000
# Patients × thresholds of the betting test, and exact tests, that a page waits for: about a second.
_MOST_BETS = 30_000_000
_MOST_TESTS = 10_000
_ROWS_LOOKED_AT = 200


def page(run: OpenRun, query: Mapping[str, str]) -> Page:
    """Answer the question of the address on the rows of a run."""
    asked = Asked.of(query)
    items, table = _items(run, asked.price), run.table
    available, variant = _available(run), asked.score.variant(items)
    counted = items.table
    content: JsonObject = {
        "name": run.name,
        "damage": run.damage,
        "n_rows": counted.n_rows,
        "n_scored": items.n_items,
        "n_answered": int(items.predicted.sum()),
        "n_abstained": counted.n_abstained,
        "n_no_answer": counted.n_no_answer,
        "n_not_evaluated": counted.n_not_evaluated,
        "n_patients": counted.patients.n,
        "each_asked_several_times": run.n_rows > 0 and table.repeats_cases,
        "confidence": {"used": variant, "available": available},
        "question": asdict(asked.question),
        "problem": "",
        "not_judged": too_many_missing(
            counted.n_not_evaluated, counted.n_rows, asked.score.max_not_evaluated
        ),
        "point": None,
        "found_in_the_folder": _artefacts(run),
        "commands": commands(run.path, asked),
    }
    kept = {k: v for k, v in query.items() if v.strip()}
    context: JsonObject = {
        "heading": run.short_model,
        "asked": asked,
        "methods": METHODS,
        "kept": kept,
        "price": items.table.answers.costs.price,
        "query": urlencode(kept),
        "words": items.words,
    }
    chart, evidence, filters = None, [], _filters(None)
    try:
        scored = _scored_run(items, asked, variant, available)
    except InvalidValue as error:
        content["problem"] = str(error)
    else:
        in_force = _in_force(items, scored.sample, asked)
        policies = _answer(content, items, scored, asked, in_force)
        by_confidence = variant == "stated" and not content["each_asked_several_times"]
        filters = _filters(content["point"] if by_confidence else None)
        address = case_address(run, page="/decide", query=urlencode(kept))
        chart = _chart(run, scored, asked, in_force, with_cases=by_confidence)
        evidence = _evidence(content, items, filters, policies)
        judged = threshold_verdict(items, in_force)
        context |= {
            "verdict": "" if content["not_judged"] else verdict_html(judged),
            "counts": table_html(_counts(content, filters), address),
            "chart": chart_html(chart.draw(), address, key=chart.key),
        }
    content["left_for_people"] = _left_for_people(run, content, filters)
    evidence += _saved(content["found_in_the_folder"])
    context["links"] = {key: query_of(wanted) for key, wanted in filters.items()}
    document = Document(title=run.model, sections=evidence)
    context["evidence"] = sections_html(document, case_address(run))
    charts = [Section(key="curve", title="Thresholds", parts=[chart])] if chart else []
    document = replace(document, sections=[*charts, *evidence])
    return Page("decide.html", f"Decide · {run.name}", content, context, document=document)


# --- The answer --------------------------------------------------------------------------------


def _items(run: OpenRun, price: float | None = None) -> RunItems:
    """Return the columns of a run as items at a price; of repeats, one modal answer per record."""
    result = run.result
    source = source_of(result, place_in_commands(run.path))
    found = run.table.shared(("items",), lambda: items_of_result(result, source))
    return with_costs(found, price=price)


def _available(run: OpenRun) -> list[str]:
    """Name the confidence variants that the first rows have the signals of."""
    found = variants_among(row.signals for row in run.result.rows[:_ROWS_LOOKED_AT])
    stated = bool(run.table.usable.any())
    return ["stated"] * stated + [name for name in found if name != "stated"]


def _scored_run(items: RunItems, asked: Asked, variant: str, available: Sequence[str]) -> ScoredRun:
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
        cure = f"choose another score: {others}" if others else "there is no threshold to choose"
        raise InvalidValue(f"No answered row states a confidence; {cure}.")
    if variant != "stated" and items.n_items > MOST_ROWS_READ:
        raise InvalidValue(
            f"The score {variant!r} is made row by row, which takes too long for a page of "
            f"{items.n_items:,} rows; use the command."
        )
    return items.table.shared(("decide", variant), lambda: ScoredRun.of(items, asked.score))


def _answer(
    content: JsonObject,
    items: RunItems,
    scored: ScoredRun,
    asked: Asked,
    in_force: ThresholdInForce,
) -> Sequence[Policy]:
    """Add the threshold, what it does to all cases and to every group, and what it costs."""
    question = asked.question
    naive = scored.choose(question)
    # The threshold that was asked for by its coverage, else the certified one, else none: then the
    # model's own answers count.
    explores = question.kind == "answer"
    chosen = naive if explores else in_force.threshold
    answered = scored.sample.accepts(naive) if explores else in_force.answered
    costs, policies = _costs(items, asked, None if chosen is None else answered)
    content |= {
        "cmax": scored.cmax,
        "n_levels": int(scored.sample.candidates.threshold.size),
        "point": {"threshold": chosen, **_facts(scored.part(answered), question)},
        "naive": None if explores or naive is None else _naive(scored, naive),
        "certified": _certified(items, scored.sample, asked, in_force),
        "groups": [
            {
                "by": column,
                "group": name.removeprefix(f"{column}_") if name != f"unknown_{column}" else "",
                **_facts(scored.part(answered, rows, kind=question.kind), question),
            }
            for column, parts in scored.groups().items()
            for name, rows in parts.items()
        ],
        "costs": costs,
    }
    if content["not_judged"]:  # as the commands do
        for part in (content["point"], *content["groups"]):
            part["verdict"] = "not judged"
    return policies


def _facts(part: ThresholdEffect, question: ThresholdQuestion) -> JsonObject:
    verdict = "too few to say" if part.too_few else part.verdict(question)
    return {**asdict(part), "too_few": part.too_few, "verdict": verdict}


def _naive(scored: ScoredRun, limit: float) -> JsonObject:
    """Return the laxest threshold with that risk on the rows that chose it, for the footnote."""
    kept = scored.sample.accepts(limit)
    n_wrong = int((scored.wrong & kept).sum())
    return {"threshold": limit, "n_kept": int(kept.sum()), "n_wrong": n_wrong}


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


def _costs(
    items: RunItems, asked: Asked, answered: BoolArray | None
) -> tuple[JsonObject, Sequence[Policy]]:
    """Price the threshold by the costs of the task, at the price of the address if it has one."""
    try:
        options = DecideOptions(score=asked.score)
        options.score.refuse_missing(items)
        policies = price_answers(
            items, options, {} if answered is None else {"this threshold": answered}
        )
    except InvalidValue as error:
        return {"reason": str(error), "policies": []}, []
    names = ("name", "n_answered", "n_rows", "cost", "low", "high", "reason")
    facts = {
        "reason": "",
        "level": options.level,
        "table": items.table.answers.costs.to_json(),
        "told": items.told,
        "policies": [{name: getattr(policy, name) for name in names} for policy in policies],
    }
    return facts, policies


# --- What is shown of it -----------------------------------------------------------------------


def _filters(point: JsonObject | None) -> dict[str, RowFilter]:
    """Return the rows behind every count; of other scores than the stated one the rows say nothing.

    Without a threshold the model's own answers count.
    """
    found = {one: RowFilter(outcome=one) for one in ("abstained", "no_answer", "not_evaluated")}
    found["unanswered"] = RowFilter(left=UNANSWERED)
    if point is None:
        return found
    limit = point["threshold"]
    if limit is None and not point["n_kept"]:
        return found | {
            "deferred": RowFilter(outcome="answered"),
            "wrong_deferred": RowFilter(correct="no"),
        }
    found |= {
        "kept": RowFilter(outcome="answered", confidence_min=limit),
        "wrong": RowFilter(correct="no", confidence_min=limit),
        "left": RowFilter(left=UNANSWERED if limit is None else repr(limit)),
    }
    if limit is not None:
        found["deferred"] = RowFilter(deferred_at=limit, sort="-confidence")
        found["wrong_deferred"] = RowFilter(deferred_at=limit, correct="no")
    return found


def _bounds(question: JsonObject) -> tuple[float | None, float | None]:
    """Return the risk, or else the coverage, that figures are judged by."""
    wrong = question["kind"] == "wrong"
    return (question["share"], None) if wrong else (None, question["share"])


def _estimate(part: JsonObject, name: str, bound: float | None) -> Estimate:
    ends = part[f"{name}_interval"]
    return Estimate(part[name], ends["low"], ends["high"], ends["level"], bound)


def _counts(content: JsonObject, filters: Mapping[str, RowFilter]) -> Table:
    """Return what the threshold does to all cases, each count with its cases."""
    point = content["point"]
    most, least = _bounds(content["question"])
    rows: list[tuple[str, str, int, int, Cell]] = [
        ("answered", "kept", point["n_kept"], point["n_rows"], _estimate(point, "coverage", least)),
        ("wrong", "wrong", point["n_wrong"], point["n_kept"], _estimate(point, "risk", most)),
    ]
    others = {
        "below the threshold": ("deferred", point["n_deferred"], point["n_rows"]),
        "wrong below it": ("wrong_deferred", point["n_wrong_deferred"], point["n_deferred"]),
        "abstained": ("abstained", content["n_abstained"], point["n_rows"]),
        "no answer": ("no_answer", content["n_no_answer"], point["n_rows"]),
        "not evaluated": ("not_evaluated", content["n_not_evaluated"], content["n_rows"]),
    }
    rows += [(words, key, n, of, n / of) for words, (key, n, of) in others.items() if n]
    return Table(
        columns=[
            Column("name", "at this threshold"),
            Column("count", "cases"),
            Column("count", "of"),
            Column("share", "share"),
        ],
        rows=[(words, n, of, part) for words, _, n, of, part in rows],
        cases={
            (at, 1): filters[key] for at, (_, key, n, *_) in enumerate(rows) if n and key in filters
        },
    )


def _chart(
    run: OpenRun, scored: ScoredRun, asked: Asked, in_force: ThresholdInForce, *, with_cases: bool
) -> Chart:
    """Return the curve with the certified threshold, and with the one that is explored."""
    style = Style("page")
    explored = scored.choose(asked.question) if asked.question.kind == "answer" else None
    spec = certified(
        asked.risk,
        {run.model or "this run": (scored.sample, in_force.threshold)},
        style,
        band=scored.band,
        explored=explored,
    )
    cases = cases_of_marks("risk_coverage", run.table) if with_cases else None
    return Chart(key="certificate", draw=lambda: spec.figure(style, cases=cases))


def _left_for_people(
    run: OpenRun, content: JsonObject, filters: Mapping[str, RowFilter]
) -> JsonObject | None:
    """Return the one list of cases that are left for people; None of a very large run.

    At the threshold of the verdict, or where none is certified, it is the hand-over list.
    """
    here = f"/runs/{quote(run.name, safe='')}"
    limit = content["certified"]["threshold"] if content["point"] else None
    handed = run.hand_over() if run.n_rows <= MOST_ROWS_READ else None
    if handed is not None and limit in (None, handed.in_force.threshold):
        n, of, limit = len(handed.cases), handed.n_cases, handed.in_force.threshold
        query, csv = query_of(RowFilter(left=IN_FORCE)), f"{here}/left-for-people.csv"
    elif limit is not None and "left" in filters and content["question"]["kind"] == "wrong":
        n, of = content["certified"]["n_left_for_people"], content["n_scored"]
        query = query_of(filters["left"])
        csv = f"{here}/cases.csv?{query}"
    else:
        return None
    found = {"n": n, "n_cases": of, "threshold": limit}
    return found | {"cases": f"{here}/cases?{query}", "csv": csv}


def _evidence(
    content: JsonObject,
    items: RunItems,
    filters: Mapping[str, RowFilter],
    policies: Sequence[Policy],
) -> list[Section]:
    """Return groups of a threshold, where there is one, the costs, and what its test rests on."""
    found, person = [], items.words[0]
    if content["point"]["threshold"] is not None and content["groups"]:
        table = _group_table(content, person, filters)
        found.append(Section(key="groups", title="In every group", parts=[table]))
    parts = _cost_parts(content, items, policies)
    found.append(Section(key="costs", title="Mean cost per case", parts=parts))
    rests_on = [_tested(content, person), *content["certified"]["assumptions"]]
    title = "The test and what it rests on"
    return [*found, Section(key="test", title=title, parts=[Sentences(rests_on)], folded=True)]


def _group_table(content: JsonObject, person: str, filters: Mapping[str, RowFilter]) -> Table:
    """Return what the threshold does in every group, each count with its cases."""
    most, _ = _bounds(content["question"])
    counts = {
        "answered": ("n_kept", "kept"),
        "wrong": ("n_wrong", "wrong"),
        "deferred": ("n_deferred", "deferred"),
        "not answered": ("n_unanswered", "unanswered"),
    }
    columns = (
        Column("name", "group"),
        Column("count", f"{person}s"),
        Column("count", "cases"),
        *(Column("count", heading) for heading in counts),
        Column("share", "coverage"),
        Column("share", "risk"),
        Column("name", "verdict"),
    )
    rows: list[list[Cell]] = []
    cases: dict[tuple[int, int], object] = {}
    for at, group in enumerate(content["groups"]):
        named = f"{group['by'].replace('_', ' ')}: {group['group'] or 'not stated'}"
        for place, (number, key) in enumerate(counts.values(), start=3):
            if group[number] and key in filters:
                cases[at, place] = replace(filters[key], group=named)
        rows.append(
            [
                named,
                group["n_patients"],
                group["n_rows"],
                *(group[number] for number, _ in counts.values()),
                group["coverage"],
                "too few" if group["too_few"] else _estimate(group, "risk", most),
                group["verdict"],
            ]
        )
    note = f"A risk is shown from 20 {person}s with kept answers on."
    return Table(columns=columns, rows=rows, note=note, cases=cases)


def _cost_parts(content: JsonObject, items: RunItems, policies: Sequence[Policy]) -> list[Content]:
    """Return what the policies cost and by which figures, or why that is not known."""
    costs = content["costs"]
    if costs["reason"]:
        return [Sentences([costs["reason"]])]
    table = Table(
        columns=(
            Column("name", "policy"),
            Column("count", "answered"),
            Column("count", "of"),
            Column("figure", "cost"),
        ),
        rows=[
            [
                one.name,
                one.n_answered,
                one.n_rows,
                Estimate(one.cost, one.low, one.high, costs["level"]),
            ]
            for one in policies
        ],
        note="; ".join(f"{one.name}: {one.reason}" for one in policies if one.reason),
    )
    said = price_sentences(items)
    return [table, *cost_figures(items), *([Sentences(said)] if said else [])]


def _tested(content: JsonObject, person: str) -> str:
    """Say what was tested, and what came of it."""
    found = content["certified"]
    if found["threshold"] is None:
        return f"Not {'certified' if found['tested'] else 'tested'}: {found['reason']}."
    risk = level(found["risk"])
    promise = (
        f"The expected share of wrong answers per case is at most {risk}"
        if found["delta"] is None
        else f"With a probability of {level(1 - found['delta'])} over the calibration "
        f"{person}s, at most {risk} of future answers are wrong"
    )
    return (
        f"{promise} where the score is at least {found['threshold']}. It answers "
        f"{count(found['n_kept'])} of {count(content['point']['n_rows'])} cases "
        f"({share(Estimate(found['coverage']))}), {count(found['n_wrong'])} of them wrong; "
        f"{found['test']} test on {count(found['n_tested'])} rows."
    )


# --- What commands wrote next to the run -------------------------------------------------------


def _saved(artefacts: Sequence[JsonObject]) -> list[Section]:
    """Return a section for every certificate, decision and audit of the run."""
    return [
        Section(
            key=f"saved-{at}",
            title=f"{one['kind'].capitalize()} {one['file']}",
            parts=[Sentences([one["problem"]] if one["problem"] else one["sentences"])],
        )
        for at, one in enumerate(artefacts)
    ]


def _artefacts(run: OpenRun) -> list[JsonObject]:
    """Return the certificates, decisions and audits that are saved beside a run."""
    found = []
    for path, kind in saved_beside(run.path.parent).get(run.path, ()):
        line = {"file": path.name, "kind": SAVED_BESIDE[kind]}
        try:
            found.append(line | _artefact(run, path, kind))
        except KrisisError as error:
            found.append({"file": path.name, "kind": "unreadable", "problem": str(error)})
    return found


def _artefact(run: OpenRun, file: Path, kind: str) -> JsonObject:
    content = read_object(file)
    if kind == "krisis.certificate":
        certificate = certificate_from(content, place=file.name)
        sentences = [*_whose(run, certificate), *certificate.document().sentences()]
        return {"sentences": sentences, "problem": ""}
    sentences = content.get("assumptions", [])
    if not isinstance(sentences, list):
        raise InvalidFile(f"{file.name} is no output of krisis; write it again")
    return {"sentences": [str(one) for one in sentences], "problem": ""}


def _whose(run: OpenRun, certificate: Certificate) -> list[str]:
    """Say so where a certificate was not made on the rows of the run, or nobody looked."""
    if certificate.calibrator_hash or run.n_rows > MOST_ROWS_READ:
        why = "with a calibrator" if certificate.calibrator_hash else "for a run of this size"
        return [f"Whether it was made on the rows of this run is not checked here {why}."]
    key = ("whose", certificate.calibration_rows_hash, certificate.confidence, certificate.seed)
    if run.table.shared(key, lambda: _is_of(run, certificate)):
        return []
    other = "It is of other rows than those of this run, and says nothing of them"
    return [f"{other}; `krisis verify` checks it on this run."]


def _is_of(run: OpenRun, certificate: Certificate) -> bool:
    try:
        items = _items(run)
        sample = sample_for(certificate, items)
    except KrisisError:  # the run cannot even be scored as the certificate was
        return False
    return rows_hash(items, sample) == certificate.calibration_rows_hash
