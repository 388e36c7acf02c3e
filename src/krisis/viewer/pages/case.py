"""The card of one case: what was found, sent, answered and due, and what other runs answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict

from krisis.answers import AnswerSet
from krisis.errors import InvalidValue, KrisisError
from krisis.json_values import JsonMapping, JsonObject, JsonValue, dumps
from krisis.metrics.base import EvaluationResult
from krisis.metrics.partition import DEFERRAL_CELLS, deferral_cell
from krisis.outcomes import WORDS
from krisis.pages.cases import RowFilter
from krisis.pages.numbers import Estimate, share, stored
from krisis.pages.tabs import Page
from krisis.pages.verdict import is_itself
from krisis.pages.worst import reasons_of
from krisis.results.error_kinds import answer_chances
from krisis.results.loading import distinct_names
from krisis.results.rows import row_to_dict
from krisis.results.suite_facts import SuiteFacts
from krisis.runs.read import CaseOf
from krisis.runs.review import MARKS, ReviewNote, add_review, case_key, read_reviews
from krisis.task_facts import FeatureDescription, TaskFacts
from krisis.viewer.catalogue import Catalogue, ViewedRun
from krisis.viewer.pages.cases import Queue, case_lines, tone_of

SHOWN_CHARACTERS = 50_000
MOST_OTHERS = 12
# The features of a case in words and the text that was sent, from task, features and template.
ShownAgain = Callable[[TaskFacts, JsonMapping, str, bool], tuple[dict[str, str], str]]
# Metadata that the card says in words of its own.
_IN_WORDS = (
    *("should_abstain", "abstain_reasons", "abstain_reason", "deferral_kind"),
    *("label_depends_on_prior", "p_misclass", "sample_index", "answer_probabilities"),
)
_SHORTEST_TOLD = 4  # letters or digits of a value that no text has by chance


def page(
    catalogue: Catalogue,
    name: str,
    position: int,
    query: Mapping[str, str],
    shown_again: ShownAgain | None = None,
) -> Page:
    """Show everything that is known of one case, and its neighbours in the queue."""
    run = catalogue.load(name)
    if not 0 <= position < run.description.n_cases:
        raise InvalidValue(f"the run has cases 0 to {run.description.n_cases - 1}, not {position}")
    row, record = run.row(position), run.case(position)
    content: JsonObject = {
        "name": name,
        "position": position,
        "n_rows": run.n_rows,
        **_judged(run, row),
        **_shown(run, row, _features(record), shown_again),
        "queue": _place(run, position, query),
        "review": _review(run, row),
        **_others(catalogue, run, row.record_id, position),
        "baselines": _baselines(run, row, position),
        "likely": _likely(run, row.metadata),
    }
    content["text"] = _as_text(content)
    limit = None if query.get("show") == "all" else SHOWN_CHARACTERS
    context = {
        "heading": run.short_model,
        "marks": MARKS,
        "limit": limit,
        "sent": content["sent"] or content["template"],
        "signals": _pairs(row.signals),
        "kept": _pairs(content["kept"]),
        "facts": _facts(row),
    }
    return Page("case.html", f"{row.record_id or position} · {name}", content, context)


def _review(run: ViewedRun, row: EvaluationResult) -> JsonObject | None:
    """Return the latest note of a reviewer about the answer."""
    note = read_reviews(run.path).notes.get(case_key(row))
    return None if note is None else {**asdict(note), "words": MARKS[note.mark]}


def keep_review(
    catalogue: Catalogue, name: str, position: int, fields: Mapping[str, str]
) -> ReviewNote:
    """Keep what a reviewer says of a case, in the file next to the run."""
    run = catalogue.load(name)
    row = run.row(position)
    if not row.record_id:
        raise InvalidValue("a case without an id cannot be reviewed; import it with --id")
    return add_review(
        run.path,
        record_id=row.record_id,
        asking=case_key(row)[1],
        mark=fields.get("mark", ""),
        note=fields.get("note", ""),
    )


def _judged(run: ViewedRun, row: EvaluationResult) -> JsonObject:
    """Return the row, and in words what was answered, true and due."""
    cell = deferral_cell(row)
    return {
        "row": row_to_dict(row),
        "tone": tone_of(row, run.answers),
        "answer": _answer(run, row),
        "truth": run.words(row.ground_truth, whole=True),
        "truth_short": run.words(row.ground_truth),
        "cell": cell,
        "cell_words": DEFERRAL_CELLS[cell].words if cell else "",
        "reasons": reasons_of(row.metadata),
        "due": _due(row.metadata, run.description.suite_description),
    }


def _baselines(run: ViewedRun, row: EvaluationResult, position: int) -> list[JsonObject]:
    """Return what the baselines of the run answered to the case."""
    answers = run.answers or AnswerSet()
    return [
        {
            "name": name,
            "answer": run.words(answer),
            "tone": "correct" if answers.same(answer, row.ground_truth) else "wrong",
        }
        for name, answer in run.baselines_on(position).items()
        if not is_itself(run.model, name)
    ]


def _likely(run: ViewedRun, metadata: JsonMapping) -> str:
    """Say how likely each answer is given the findings, where the suite knows it."""
    chances = sorted(answer_chances(metadata).items(), key=lambda pair: -pair[1])
    said = ", ".join(f"{run.words(answer)} {share(Estimate(p))}" for answer, p in chances if p)
    return f"Given these findings: {said}." if said else ""


def _place(run: ViewedRun, position: int, query: Mapping[str, str]) -> JsonObject:
    """Return the queue of the address, and where in it the case is."""
    queue = Queue.of(run, query)
    positions = run.select(queue.wanted)
    at = positions.index(position) if position in positions else None
    return {
        "query": queue.query,
        "words": queue.words,
        "n": len(positions),
        "place": None if at is None else at + 1,
        "previous": positions[at - 1] if at else None,
        "next": positions[at + 1] if at is not None and at + 1 < len(positions) else None,
    }


def _features(record: CaseOf | None) -> JsonObject | None:
    """Return what the model was shown of a record, its text included; None if it is not kept."""
    if record is None or record.features is None:
        return None
    return record.features | ({"context": record.context} if record.context else {})


def _answer(run: ViewedRun, row: EvaluationResult) -> str:
    if row.outcome == "no_answer" and row.prediction is not None:
        return f"no answer ({row.prediction})"
    if row.outcome != "answered":
        return WORDS[row.outcome]
    none = "none of the allowed answers"
    return none if row.prediction is None else run.words(row.prediction, whole=True)


def _due(metadata: JsonMapping, description: JsonMapping) -> str:
    """Say whether deferral was due, why, and by which rule of the suite."""
    due = metadata.get("should_abstain")
    if due is None:
        return "The case does not say whether deferral was due."
    if not due:
        return "Deferral was not due: an answer was safe."
    kind = {"uncertain": " as uncertain", "rule": " by a rule"}
    reasons = reasons_of(metadata)
    said = f"Deferral was due{kind.get(str(metadata.get('deferral_kind')), '')}"
    parts = [f"{said}: {reasons}." if reasons else f"{said}; no reason is stated."]
    chance = metadata.get("p_misclass")
    if isinstance(chance, int | float) and not isinstance(chance, bool):
        parts.append(f"The chance that the best answer is wrong is {share(Estimate(chance))}.")
    if metadata.get("label_depends_on_prior"):
        parts.append("Whether it is due depends on the prevalence that is assumed.")
    return " ".join([*parts, SuiteFacts.of(description).deferral]).strip()


def _shown(
    run: ViewedRun,
    row: EvaluationResult,
    features: JsonMapping | None,
    shown_again: ShownAgain | None,
) -> JsonObject:
    """Return the findings in words, the text that was sent and how it is known, and the rest."""
    findings: list[JsonObject] = []
    template, batch = _template(run, row)
    sent = ""
    if features is not None:
        task = run.description.task or TaskFacts("")
        words = {name: stored(value) for name, value in features.items()}
        if shown_again is not None:
            told, sent = shown_again(task, features, template, batch)
            words |= told
        names = sorted(words, key=[*task.features, *words].index)  # as prompts have them
        findings = [
            _finding(name, words[name], features.get(name), task.features.get(name))
            for name in names
        ]
    hidden, hidden_words = _kept(row.metadata, features, sent)
    return {
        "features": features,
        "findings": findings,
        "template": template,
        "sent": sent,
        "sent_words": _sent_words(features is not None, sent, template, batch=batch),
        "kept": hidden,
        "kept_words": hidden_words,
    }


def _template(run: ViewedRun, row: EvaluationResult) -> tuple[str, bool]:
    """Return the template of a row and whether it is of a batch; of one that failed, the run's."""
    if row.error is not None and not row.prompt and len(used := run.prompts()) == 1:
        template, mode = used[0]
        return template, mode == "batch"
    return row.prompt, row.prompt_mode == "batch"


def _sent_words(has_features: bool, sent: str, template: str, *, batch: bool) -> str:
    """Say how the text is known that was sent, or why it is not."""
    if not has_features:
        known = "only the template is known" if template else "no text is known"
        return f"The run did not store the features of its patients, so {known}."
    if not template:
        return "No prompt was stored: none was sent, as to a rule, or the call failed."
    if not sent:
        return (
            "The stored template is of another shape than the stored findings, so it is shown "
            "without them."
        )
    alone = " It was sent in one call with others; its own part is shown." if batch else ""
    return (
        "Put together from the stored findings by the prompt builder; without its values it is the "
        "stored template, letter for letter. A server that cannot be told the form of a reply "
        f"otherwise was sent its JSON schema as well.{alone}"
    )


def _finding(name: str, value: str, raw: JsonValue, known: FeatureDescription | None) -> JsonObject:
    known = known or FeatureDescription(name)
    is_text = "\n" in value.strip() or known.text
    usual = f"usual {known.usual}" if known.usual and known.usual not in known.meaning else ""
    return {
        "name": name,
        "words": known.words or name,
        "value": value.replace("\n  | ", "\n").strip() if known.text else value,
        "meaning": "; ".join(part for part in (usual, known.meaning) if part),
        "outside": outside_range(raw, known.usual or known.meaning.removeprefix("usual ")),
        "text": is_text,
    }


_RANGE = re.compile(r"\s*([\d.]+)\s*(?:to|-|–)\s*([\d.]+)")
_BOUND = re.compile(r"\s*(below|under|less than|<|above|over|more than|>|at least|≥)\s*([\d.]+)")
_FROM_ABOVE = ("below", "under", "less than", "<")


def outside_range(value: JsonValue, usual: str) -> str:
    """Say whether a value is below or above its usual range, which is given in words.

    >>> outside_range(60, "70 to 99 fasting"), outside_range(5.7, "below 5.7"), outside_range(3, "")
    ('below', 'above', '')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    with suppress(ValueError):  # "1.2.3" is no number
        if found := _RANGE.match(usual):
            low, high = float(found[1]), float(found[2])
            return "below" if value < low else "above" if value > high else ""
        if found := _BOUND.match(usual):
            limit = float(found[2])
            if found[1] in _FROM_ABOVE:
                return "above" if value >= limit else ""
            return "below" if value < limit else ""
    return ""


def _kept(metadata: JsonMapping, features: JsonMapping | None, sent: str) -> tuple[JsonObject, str]:
    """Return the metadata that the card does not say elsewhere and that were not sent."""
    left = {name: value for name, value in sorted(metadata.items()) if name not in _IN_WORDS}
    if features is None:
        return left, "The run did not store what was sent, so some of it may have been shown."
    text = sent.casefold()
    hidden = {
        name: value
        for name, value in left.items()
        if name not in features and not _is_told(value, text)
    }
    return hidden, "For scoring only; some of it follows from findings that were sent."


def _is_told(value: object, text: str) -> bool:
    said = str(value).casefold()
    return isinstance(value, str | int | float) and len(said) >= _SHORTEST_TOLD and said in text


def _pairs(values: JsonMapping) -> list[tuple[str, JsonValue]]:
    """Return named values to be read: what is nested as JSON, and an empty list as none."""
    return [
        (
            name.replace("_", " "),
            dumps(v, indent=None) if isinstance(v, dict) else "none" if v == [] else v,
        )
        for name, v in sorted(values.items())
    ]


def _facts(row: EvaluationResult) -> list[tuple[str, object]]:
    return [
        ("confidence", row.confidence),
        ("record", row.record_id),
        ("patient", row.cluster_id),
        ("model that answered", row.model or "–"),
        ("finish reason", row.finish_reason or "–"),
        ("input tokens", row.input_tokens),
        ("output tokens", row.output_tokens),
        ("latency in seconds", row.latency_seconds),
        ("prompt mode", row.prompt_mode or "–"),
    ]


def _others(catalogue: Catalogue, run: ViewedRun, record_id: str, position: int) -> JsonObject:
    """Return what runs over the same data answered to the record, this run's askings first."""
    others: list[JsonObject] = []
    same = [run.name, *_runs_on_same_data(catalogue, run)] if record_id else []
    for name in same[: MOST_OTHERS + 1]:
        try:
            other = catalogue.load(name)
        except (KrisisError, OSError):  # its own page says what is wrong with it
            continue
        found = case_lines(other, other.select(RowFilter(record=record_id), most=MOST_OTHERS))
        others += [
            {"run": name, "model": other.model or name, **line}
            for line in found
            if (name, line["position"]) != (run.name, position)
        ]
    names = distinct_names([one["model"] for one in others], [one["run"] for one in others])
    for one, name in zip(others, names, strict=True):
        one["name"] = name
    return {"others": others}


def _runs_on_same_data(catalogue: Catalogue, run: ViewedRun) -> Iterator[str]:
    """Yield the other runs of the folder that name the same suite, task and data, newest first."""
    description = run.description.suite_description
    mine = tuple(str(description.get(key) or "") for key in ("suite", "task", "content_hash"))
    for entry in catalogue.entries() if mine[2] else ():
        if entry.name != run.name and (entry.suite, entry.task, entry.content_hash) == mine:
            yield entry.name


def _as_text(content: JsonObject) -> str:
    """Return the case as plain text, to be copied into a message or a note."""
    row = content["row"]
    lines = [
        f"{row['record_id'] or content['position']} in {content['name']}",
        f"Answer: {content['answer']}",
        f"Truth: {content['truth']}",
        f"Confidence: {stored(row['confidence'])}",
        content["due"],
        *([f"Error: {row['error']}"] if row["error"] else []),
        *(["", "Findings:"] if content["findings"] else []),
        *(f"- {one['words']}: {one['value']}" for one in content["findings"]),
        *(["", "Reply:", row["raw_response"]] if row["raw_response"] else []),
        *(["", "Other answers:"] if content["others"] else []),
        *(
            f"- {one['model']} ({one['run']}): {one['answer']}, {one['tone']}, "
            f"confidence {stored(one['confidence'])}"
            for one in content["others"]
        ),
        *(["", f"Signals: {dumps(row['signals'], indent=None)}"] if row["signals"] else []),
    ]
    return "\n".join(lines)
