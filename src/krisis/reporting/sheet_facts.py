"""What a run says to the items of a reporting guideline, each fact with the field it is from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping

from krisis import registry
from krisis.display import format_interval, format_value
from krisis.json_values import JsonValue, dumps
from krisis.metrics.base import MetricScore
from krisis.metrics.explanations import explained
from krisis.outcomes import EVALUATED
from krisis.pages import wording
from krisis.reporting.sheet_data import (
    deferral_facts,
    groups_facts,
    label_words,
    labels_facts,
    missing_facts,
    preparation_facts,
    source_facts,
    splits_facts,
)
from krisis.reporting.sheet_flow import flow, n_patients
from krisis.reporting.sheet_run import Fact, SheetRun
from krisis.results.base import BenchmarkResult
from krisis.results.report_tables import (
    has_no_disease,
    headline,
    headline_words,
    note_lines,
    perturbed_lines,
    stopping_lines,
)

_MOST_VALUES = 12
_COMPARED = ("accuracy", "selective_accuracy", "deferral_alignment")


# Facts, by the names that the items have for them; an empty list is: the run does not say


def _task(run: SheetRun) -> list[Fact]:
    made = run.result.provenance
    words = " / ".join(filter(None, (made.suite, made.task, made.features, made.mode)))
    return [Fact("task", words, run.of_suite("task"))] if words else []


def _model(run: SheetRun) -> list[Fact]:
    made = run.result.provenance
    asked, found = made.model, []
    if asked:
        found.append(Fact("model asked", asked, run.of_run("backend_name", "backend_name")))
    provider, slash, _ = asked.partition("/")
    if slash and provider in registry.BUILT_IN["backends"]:
        found.append(Fact("provider", provider, run.of_run("backend_name", "backend_name")))
    if made.models_answered:
        words = ", ".join(f"{name} ({n:,} rows)" for name, n in made.models_answered.items())
        found.append(Fact("models that answered", words, run.of_run("models_answered")))
    return found


def _flow(run: SheetRun) -> list[Fact]:
    words = "; ".join(f"{box.label}: {box.n:,}" for box in flow(run.result))
    return [Fact("flow of records", words, run.of_rows("outcome"))]


def _headline(run: SheetRun) -> list[Fact]:
    result = run.result
    if not result.attrition.n_answered:
        return []
    if result.scores_by_source:  # of real and synthetic patients, never together
        return _scores(run)
    words = headline_words(result) or wording.headline(result.metric_scores, result.attrition)
    return [Fact("headline", words, run.of_scores("metric_scores"))]


def _prompts(run: SheetRun) -> list[Fact]:
    prompts = run.result.prompts
    found = [
        Fact(
            f"SHA-256 of prompt template {i}",
            hashlib.sha256(text.encode()).hexdigest(),
            run.of_run("prompt_templates"),
        )
        for i, text in enumerate(prompts.prompt_templates[:_MOST_VALUES], start=1)
    ]
    for kind, digest in (run.description.identity.prompts if run.description else {}).items():
        words = f"hash of {kind} prompt, schema and parameters"
        found.append(Fact(words, digest, f"run: identity.prompts.{kind}"))
    if found:
        n = len(prompts.prompt_templates)
        modes = ", ".join(prompts.prompt_modes) or "not stated"
        policy = f"sent as: {modes}; values of patients: {prompts.prompt_data_policy}"
        words = f"{n:,} template{'' if n == 1 else 's'}, {policy}"
        found.insert(0, Fact("prompts", words, run.of_run("prompt_templates")))
    return found


def _settings(run: SheetRun) -> list[Fact]:
    made = run.result.provenance
    asked: dict[str, JsonValue] = dict(run.description.identity.backend) if run.description else {}
    named = ("temperature", "max_output_tokens", "model_options")
    given = {name: made.config[name] for name in named if name in made.config}
    if made.imported or not (asked or given):
        return []
    found = [
        Fact(name.replace("_", " "), _plain(value), "run: identity.backend")
        for name, value in asked.items()
        if name not in ("backend", "provider", "model")
    ]
    place = run.of_run("config", "config")
    sent = {**asked, **dict(asked.get("parameters") or {})}
    for name, value in given.items():
        if name not in sent and (value or name == "temperature"):
            words = "not set: the default of the provider" if value is None else _plain(value)
            found.append(Fact(name.replace("_", " "), words, f"{place}.{name}"))
    for name in ("seed", "batch_size", "repeats"):
        if (number := getattr(made, name)) is not None:
            words = name.replace("_", " ")
            found.append(Fact(words, str(number), run.of_run(name, f"identity.{name}")))
    return found


def _plain(value: JsonValue) -> str:
    return value if isinstance(value, str) else dumps(value, indent=None)


def _output(run: SheetRun) -> list[Fact]:
    rows = run.result.rows
    if not rows:
        return []
    n_stated = sum(row.confidence is not None for row in rows)
    n_raw = sum(bool(row.raw_response) for row in rows)
    n = len(rows)
    imported = run.result.provenance.imported
    taken = imported.taken_for if imported else {}
    return [
        Fact("answers", f"{run.result.attrition}", run.of_rows("outcome")),
        Fact("confidence", f"stated in {n_stated:,} of {n:,} rows", run.of_rows("confidence")),
        Fact(
            "replies as they came", f"kept of {n_raw:,} of {n:,} rows", run.of_rows("raw_response")
        ),
        *(
            Fact(f"{name} taken from", place, "run: imported.taken_for")
            for name, place in taken.items()
        ),
    ]


def _reading(run: SheetRun) -> list[Fact]:
    made = run.result.provenance
    if made.imported or made.batch_size is None:
        return []
    words = (
        "krisis read every reply as one of the answers or as an abstention; a reply that is "
        "neither is a failure. The answer is the model's own: no threshold was applied to its "
        "confidence"
    )
    return [Fact("reading", words, run.of_run("krisis_version", "versions.krisis"))]


def _classes(run: SheetRun) -> list[Fact]:
    task = run.result.provenance.task_facts
    if task is None or not task.answers:
        return []
    place = "run file: format" if run.is_run_file else run.of_run("task_facts", "task")
    words = ", ".join(f"{answer} = {said}" for answer, said in task.answers)
    found = [Fact("answers of the task", words, f"{place}.answers")]
    if task.positive is not None:
        found.append(Fact("outcome of interest", task.words(task.positive), f"{place}.positive"))
    return found


def _metrics(run: SheetRun) -> list[Fact]:
    shown = [one for one in run.result.metric_scores.values() if not has_no_disease(one)]
    names = ", ".join(score.name for score in shown)
    return [Fact("measures", names, run.of_scores("metric_scores"))] if names else []


def _dates(run: SheetRun) -> list[Fact]:
    made = run.result.provenance
    if made.imported or not made.started_at:  # the moment of an import is not that of the answers
        return []
    return [Fact("started", made.started_at, run.of_run("started_at", "created_at"))]


def score_words(score: MetricScore) -> str:
    """Write a score with its interval and count, or why it is undefined."""
    if math.isnan(score.value):
        return f"undefined: {explained(str(score.details.get('reason', 'no reason was given')))}"
    interval = format_interval(score.interval)
    why = f" (no interval: {explained(score.interval.reason)})" if score.interval else ""
    ends = f" {interval}" if interval else why
    return f"{format_value(score.value)}{ends}, n = {score.n_evaluated:,}"


def scores_by_kind(result: BenchmarkResult) -> dict[str, Mapping[str, MetricScore]]:
    """Return the scores, of real and synthetic patients apart; none where nothing was answered."""
    if result.attrition.says_nothing:
        return {}
    parts = {f" ({kind} patients)": found for kind, found in result.scores_by_source.items()}
    return {
        kind: {name: score for name, score in found.items() if not has_no_disease(score)}
        for kind, found in (parts or {"": result.metric_scores}).items()
        if not all(math.isnan(score.value) for score in found.values())
    }


def _scores(run: SheetRun) -> list[Fact]:
    name = "extras.scores_by_source" if run.result.scores_by_source else "metric_scores"
    return [
        Fact(f"{score.name}{kind}", score_words(score), run.of_scores(name))
        for kind, found in scores_by_kind(run.result).items()
        for score in found.values()
    ]


def _baselines(run: SheetRun) -> list[Fact]:
    own, leading = run.result.metric_scores, headline(run.result)
    names = [leading.name] if leading else []
    names += [own[key].name for key in _COMPARED if key in own and own[key].name not in names]
    found = []
    for name, scores in run.result.baselines.items():
        shown = [scores[one] for one in names or scores if one in scores]
        words = ", ".join(f"{score.name} {format_value(score.value)}" for score in shown)
        found.append(Fact(f"baseline {name}", words or "scored", run.of_run("baselines")))
    return found


def _spending(run: SheetRun) -> list[Fact]:
    took = run.result.spending
    if run.result.provenance.imported or took.elapsed_seconds is None:
        return []
    cost = took.cost if took.cost_unknown is None else f"unknown, {took.cost_unknown}"
    known = {
        "elapsed_seconds": took.elapsed_seconds,
        "n_api_calls": took.n_api_calls,
        "n_retries": took.n_retries,
        "input_tokens": took.input_tokens,
        "output_tokens": took.output_tokens,
        "cost": cost,
    }
    return [
        Fact(
            name.removeprefix("n_").replace("_", " "),
            "not known" if value is None else wording.number(value),
            run.of_run(name),
        )
        for name, value in known.items()
    ]


def _identity(run: SheetRun) -> list[Fact]:
    made = run.result.provenance
    known = {"content_hash": made.content_hash}
    found = [
        Fact("hash of the cases", text, run.of_suite(name)) for name, text in known.items() if text
    ]
    if made.run_id:
        found.append(Fact("run", made.run_id, run.of_run("run_id", "run_id")))
    return found


def _code(run: SheetRun) -> list[Fact]:
    made = run.result.provenance
    found = []
    if made.krisis_version:
        place = run.of_run("krisis_version", "versions.krisis")
        found.append(Fact("krisis", made.krisis_version, place))
    if made.git_commit:
        found.append(Fact("git commit", made.git_commit, run.of_run("git_commit", "git_commit")))
    if made.versions:
        words = ", ".join(f"{name} {version}" for name, version in made.versions.items())
        found.append(Fact("versions", words, run.of_run("versions", "versions")))
    if run.reproduce:
        found.append(Fact("again", run.reproduce, run.of_run("config", "config")))
    return found


def _analyses(run: SheetRun) -> list[Fact]:
    result = run.result
    scored = [row for row in result.rows if row.outcome in EVALUATED]
    if not scored:
        return []
    task = result.provenance.task_facts
    person = task.person if task else "patient"
    patients = f"{n_patients(scored):,} {person}s in {len(scored):,} evaluated rows"
    return [
        Fact("patients", patients, run.of_rows("cluster_id")),
        Fact(
            "labels of evaluated rows", label_words(run, scored, "row"), run.of_rows("ground_truth")
        ),
        *(
            Fact(
                f"rows in {score.name}",
                f"{score.n_evaluated:,}",
                run.of_scores("metric_scores"),
            )
            for score in result.metric_scores.values()
            if not has_no_disease(score)
        ),
    ]


def _limits(run: SheetRun) -> list[Fact]:
    result = run.result
    other = set(perturbed_lines(result))
    found = [
        Fact("other forms", line, run.of_rows("metadata.perturbation"))
        if line in other
        else Fact("stopped", line, run.of_run("stopped"))
        for line in stopping_lines(result)
    ]
    if result.damage:
        found.append(Fact("damage", result.damage, run.of_rows("check")))
    found += [
        Fact("note", line, run.of_scores("metric_scores"))
        for line in note_lines(result.metric_scores)
    ]
    return [*found, *_failures(run)]


def _abstentions(run: SheetRun) -> list[Fact]:
    counts = run.result.attrition
    n = counts.n_evaluated
    shown = {"abstained": counts.n_abstained, "no answer": counts.n_no_answer}
    return [
        Fact(name, f"{n_such:,} of {n:,} evaluated rows", run.of_rows("outcome"))
        for name, n_such in shown.items()
        if n and (n_such or name == "abstained")
    ]


def _failures(run: SheetRun) -> list[Fact]:
    counts = run.result.attrition
    words = ", ".join(f"{name}: {one.n:,}" for name, one in counts.failures.items()) or "none"
    lost = f"{counts.n_no_answer:,} without an answer and {counts.n_not_evaluated:,} not evaluated"
    words = f"{lost} of {counts.n_sent:,} rows; {words}"
    return [Fact("lost", words, run.of_rows("failure_class"))]


FACTS: dict[str, Callable[[SheetRun], list[Fact]]] = {
    "task": _task,
    "model": _model,
    "flow": _flow,
    "headline": _headline,
    "source": source_facts,
    "labels": labels_facts,
    "groups": groups_facts,
    "deferral": deferral_facts,
    "preparation": preparation_facts,
    "missing": missing_facts,
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
    "splits": splits_facts,
    "analyses": _analyses,
    "scores": _scores,
    "limits": _limits,
    "abstentions": _abstentions,
    "failures": _failures,
}
