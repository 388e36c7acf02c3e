"""What a run says to the items of a reporting guideline, each fact with the field it is from."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from krisis import registry
from krisis.json_values import JsonMapping, JsonValue, dumps, read_object
from krisis.metrics.base import EvaluationResult, MetricScore
from krisis.reporting import wording
from krisis.reporting.provenance import data_facts
from krisis.reporting.sheet_flow import flow, n_patients
from krisis.results.base import BenchmarkResult
from krisis.results.loading import reproduce_command
from krisis.results.report import format_interval, format_value
from krisis.results.report_tables import headline_words, note_lines, stopping_lines
from krisis.results.run_items import read_result
from krisis.results.store import Manifest, read_run

_MOST_VALUES = 12
_BASELINES = "krisis.backends.baselines."  # rules and fitted models: no language model
_SOURCE_KEYS = ("account", "citation", "licence", "license", "notice", "provenance", "version")
_PREPARATION_KEYS = ("accepted", "deferral", "impute", "sex", "target", "split_stage_3")
_SPLIT_KEYS = ("split", "n_train", "test_size", "seed", "limit", "n_participants")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that the run says, in words, and the file and field that say it."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class SheetRun:
    """A run with the names of its files; ``features`` are what the cases showed, where stored."""

    result: BenchmarkResult
    file: str
    reproduce: str = ""
    manifest: Manifest | None = None
    ended: bool = True
    is_run_file: bool = False
    features: Sequence[JsonMapping] = field(default=())

    @cached_property
    def records(self) -> Sequence[EvaluationResult]:
        """One row per record: repeats of a record have its label and groups."""
        named = {row.record_id or str(i): row for i, row in enumerate(self.result.rows)}
        return list(named.values())

    def of_rows(self, name: str) -> str:
        """Name a field of the rows."""
        if self.is_run_file:
            return f"{self.file}: experiments[].results"
        return (
            f"rows.jsonl: {name}" if self.manifest else f"{self.file}: evaluation_results[].{name}"
        )

    def of_suite(self, name: str = "") -> str:
        """Name an entry of the suite's description."""
        place = "manifest.json" if self.manifest else self.file
        if self.is_run_file:
            return f"{place}: experiments[].provenance.suite"
        return f"{place}: suite_description{f'.{name}' if name else ''}"

    def of_run(self, name: str, in_manifest: str = "") -> str:
        """Name a fact about the run, which the manifest may hold under another name."""
        if self.is_run_file:
            return f"{self.file}: experiments[].provenance"
        if self.manifest and in_manifest:
            return f"manifest.json: {in_manifest}"
        if self.manifest:
            return f"metrics.json: extras.{name}" if self.ended else "rows.jsonl"
        return f"{self.file}: {name}" if name == "backend_name" else f"{self.file}: extras.{name}"

    def of_scores(self, name: str) -> str:
        """Name a score, or say that it was computed for this sheet."""
        if self.is_run_file or (self.manifest and not self.ended):
            return f"{self.of_rows('')}, scored for this sheet".replace(": ,", ",")
        return f"{'metrics.json' if self.manifest else self.file}: {name}"


def read_run_for_sheet(path: Path, mode: str | None = None) -> SheetRun:
    """Read a run directory, a saved result or a run file."""
    result = read_result(path, mode)
    if not path.is_dir():
        is_run_file = "kind" not in read_object(path, lenient=True)
        again = "" if is_run_file else reproduce_command(path)
        return SheetRun(result, path.name, again, is_run_file=is_run_file)
    stored = read_run(path)
    return SheetRun(
        result,
        path.resolve().name,
        reproduce_command(path),
        stored.manifest,
        stored.ended is not None and stored.scores_fit,
        features=list(stored.journal.features.values()),
    )


# States of a run in which an item does not apply: the reason, or None


def no_model(run: SheetRun) -> Fact | None:
    """Say that a rule or a fitted baseline was run in place of a language model."""
    made = run.result.provenance
    asked = {made.model, str(made.config.get("model") or "")}
    known = registry.BUILT_IN["backends"]
    if made.imported or not any(known.get(name, "").startswith(_BASELINES) for name in asked):
        return None
    words = f"{made.model} is a rule or a baseline of krisis, not a language model"
    return Fact("model asked", words, run.of_run("backend_name", "backend_name"))


def all_synthetic(run: SheetRun) -> Fact | None:
    """Say that no patient is real, where every row or the suite says so."""
    rows, described = run.result.rows, run.result.suite_description
    words = f"all {n_patients(rows):,} patients are synthetic"
    if rows and all(row.metadata.get("synthetic") is True for row in rows):
        return Fact("patients", words, run.of_rows("metadata.synthetic"))
    if described.get("synthetic") is True:
        return Fact("patients", "the suite is synthetic", run.of_suite("synthetic"))
    return None


def one_model(run: SheetRun) -> Fact | None:
    """Say that no second version of the model answered."""
    answered = run.result.provenance.models_answered
    if len(answered) > 1 or run.result.provenance.imported or run.is_run_file:
        return None
    words = (
        f"{next(iter(answered), '') or run.result.backend_name or 'one model'} answered every row"
    )
    return Fact("model that answered", words, run.of_rows("model"))


def always(run: SheetRun) -> Fact | None:
    """Say what every run of krisis is."""
    task = run.result.provenance.task or run.result.provenance.suite or "unnamed"
    return Fact("task", task, run.of_suite("task"))


STATES: dict[str, Callable[[SheetRun], Fact | None]] = {
    "no_model": no_model,
    "synthetic": all_synthetic,
    "one_model": one_model,
    "always": always,
}


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
        found.append(Fact("models that answered", words, run.of_rows("model")))
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


def _described(run: SheetRun, starts: Sequence[str]) -> list[Fact]:
    """Return entries of the suite's description whose names begin so."""
    wanted = {
        key: value
        for key, value in run.result.suite_description.items()
        if key.startswith(tuple(starts))
    }
    return [
        Fact(name, wording.number(value), run.of_suite(name.replace(" ", "_").split("_·")[0]))
        for name, value in data_facts(wanted)
    ]


def _source(run: SheetRun) -> list[Fact]:
    imported = run.result.provenance.imported
    found = [Fact("imported", str(imported), "manifest.json: imported")] if imported else []
    return [*found, *_described(run, _SOURCE_KEYS)]


def counted(values: Mapping[str, int], n: int, unit: str) -> str:
    """Write counts with their shares.

    >>> counted({"yes": 3, "no": 1}, 4, "record")
    'yes: 3 (75.0 %), no: 1 (25.0 %); of 4 records'
    """
    shown = dict(list(values.items())[:_MOST_VALUES])
    if len(values) > _MOST_VALUES:
        shown["other values"] = sum(values.values()) - sum(shown.values())
    parts = ", ".join(f"{name}: {k:,} ({wording.percent(k / n)})" for name, k in shown.items())
    return f"{parts}; of {n:,} {unit if n == 1 else f'{unit}s'}"


def _unit(run: SheetRun) -> str:
    task = run.result.provenance.task_facts
    return task.unit if task else "record"


def _labels(run: SheetRun) -> list[Fact]:
    task, rows = run.result.provenance.task_facts, run.records
    if not rows:
        return _described(run, ["labels"])
    order = [str(answer) for answer, _ in task.answers] if task else []
    found = Counter(str(row.ground_truth) for row in rows)
    names = [*(one for one in order if one in found), *sorted(set(found) - set(order))]
    shown = {task.words(one) if task else one: found[one] for one in names}
    return [Fact("labels", counted(shown, len(rows), _unit(run)), run.of_rows("ground_truth"))]


def _groups(run: SheetRun) -> list[Fact]:
    task, rows = run.result.provenance.task_facts, run.records
    found = []
    for name, key in (task.groups if task else {}).items():
        values = Counter(
            "missing" if (value := row.metadata.get(key)) is None else str(value) for row in rows
        )
        ordered = dict(sorted(values.items(), key=lambda pair: (-pair[1], pair[0])))
        if set(ordered) - {"missing"}:
            words = counted(ordered, len(rows), _unit(run))
            found.append(Fact(f"group {name}", words, run.of_rows(f"metadata.{key}")))
    return found


def _deferral(run: SheetRun) -> list[Fact]:
    stated = [row for row in run.records if isinstance(row.metadata.get("should_abstain"), bool)]
    if not stated:
        return []
    due = [row for row in stated if row.metadata["should_abstain"]]
    share = wording.percent(len(due) / len(stated))
    words = f"{len(due):,} of {len(stated):,} {_unit(run)}s ask for deferral ({share})"
    found = [Fact("deferral", words, run.of_rows("metadata.should_abstain"))]
    reasons = Counter(
        str(reason) for row in due for reason in row.metadata.get("abstain_reasons") or ()
    )
    if reasons:
        words = ", ".join(f"{name}: {n:,}" for name, n in sorted(reasons.items()))
        found.append(Fact("reasons to defer", words, run.of_rows("metadata.abstain_reasons")))
    return found


def _preparation(run: SheetRun) -> list[Fact]:
    imported = run.result.provenance.imported
    notes = [
        Fact("note of the import", note, "manifest.json: imported.notes")
        for note in (imported.notes if imported else ())
    ]
    return [*notes, *_described(run, _PREPARATION_KEYS)]


def _missing(run: SheetRun) -> list[Fact]:
    """Count what was missing in the cases that the model saw, where they are stored."""
    if not run.features:
        return []
    n = len(run.features)
    gaps = Counter(
        name
        for shown in run.features
        for name, value in shown.items()
        if value is None or (isinstance(value, float) and math.isnan(value))
    )
    words = ", ".join(
        f"{name}: {k:,} ({wording.percent(k / n)})" for name, k in sorted(gaps.items())
    )
    words = f"{words or 'no value'} missing, of {n:,} stored cases"
    return [Fact("missing values", words, "rows.jsonl: features")]


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
    for kind, digest in (run.manifest.identity.prompts if run.manifest else {}).items():
        words = f"hash of {kind} prompt, schema and parameters"
        found.append(Fact(words, digest, f"manifest.json: identity.prompts.{kind}"))
    if found:
        n = len(prompts.prompt_templates)
        modes = ", ".join(prompts.prompt_modes) or "not stated"
        words = (
            f"{n:,} templates, sent as: {modes}; values of patients: {prompts.prompt_data_policy}"
        )
        found.insert(0, Fact("prompts", words, run.of_run("prompt_templates")))
    return found


def _settings(run: SheetRun) -> list[Fact]:
    made = run.result.provenance
    given: dict[str, JsonValue] = dict(run.manifest.identity.backend) if run.manifest else {}
    place = "manifest.json: identity.backend" if given else run.of_run("config", "config")
    if not given:
        named = ("model", "temperature", "max_output_tokens", "model_options")
        given = {name: made.config.get(name) for name in named if name in made.config}
    if made.imported or not given:
        return []
    found = [
        Fact(name.replace("_", " "), "not set" if value is None else _plain(value), place)
        for name, value in given.items()
    ]
    for name in ("seed", "batch_size", "repeats"):
        value = getattr(made, name)
        if value is not None:
            words = name.replace("_", " ")
            found.append(Fact(words, str(value), run.of_run(name, f"identity.{name}")))
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
            Fact(f"{name} taken from", place, "manifest.json: imported.taken_for")
            for name, place in taken.items()
        ),
    ]


def _reading(run: SheetRun) -> list[Fact]:
    made = run.result.provenance
    if made.imported or made.batch_size is None:
        return []
    words = (
        "krisis read every reply as one of the answers or as an abstention; a reply that is neither "
        "is a failure. The answer is the model's own: no threshold was applied to its confidence"
    )
    return [Fact("reading", words, run.of_run("krisis_version", "versions.krisis"))]


def _classes(run: SheetRun) -> list[Fact]:
    task = run.result.provenance.task_facts
    if task is None or not task.answers:
        return []
    place = run.of_run("task_facts", "task")
    words = ", ".join(f"{answer} = {said}" for answer, said in task.answers)
    found = [Fact("answers of the task", words, f"{place}.answers")]
    if task.positive is not None:
        found.append(Fact("outcome of interest", task.words(task.positive), f"{place}.positive"))
    return found


def _metrics(run: SheetRun) -> list[Fact]:
    names = ", ".join(score.name for score in run.result.metric_scores.values())
    return [Fact("measures", names, run.of_scores("metric_scores"))] if names else []


def _dates(run: SheetRun) -> list[Fact]:
    made = run.result.provenance
    if made.imported or not made.started_at:  # the moment of an import is not that of the answers
        return []
    return [Fact("started", made.started_at, run.of_run("started_at", "created_at"))]


def score_words(score: MetricScore) -> str:
    """Write a score with its interval and count, or why it is undefined."""
    if math.isnan(score.value):
        return f"undefined: {score.details.get('reason', 'no reason was given')}"
    interval = format_interval(score.interval)
    ends = f" {interval}" if interval else ""
    return f"{format_value(score.value)}{ends}, n = {score.n_evaluated:,}"


def scores_by_kind(result: BenchmarkResult) -> dict[str, Mapping[str, MetricScore]]:
    """Return the scores, of real and synthetic patients apart; none where nothing was answered."""
    if result.attrition.n_failed and not result.attrition.n_answered:
        return {}
    parts = {f" ({kind} patients)": found for kind, found in result.scores_by_source.items()}
    return parts or ({"": result.metric_scores} if result.metric_scores else {})


def _scores(run: SheetRun) -> list[Fact]:
    name = "extras.scores_by_source" if run.result.scores_by_source else "metric_scores"
    return [
        Fact(f"{score.name}{kind}", score_words(score), run.of_scores(f"{name}.{label}"))
        for kind, found in scores_by_kind(run.result).items()
        for label, score in found.items()
    ]


def _baselines(run: SheetRun) -> list[Fact]:
    first = next(iter(run.result.metric_scores.values()), None)
    leading = run.result.metric_scores.get("accuracy") or first
    found = []
    for name, scores in run.result.baselines.items():
        score = scores.get(leading.name) if leading else None
        words = f"{score.name} {format_value(score.value)}" if score else "scored"
        found.append(Fact(f"baseline {name}", words, run.of_run(f"baselines.{name}")))
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
    scored = [row for row in result.rows if row.error is None]
    if not scored:
        return []
    patients = f"{n_patients(scored):,} patients in {len(scored):,} evaluated rows"
    return [
        Fact("patients", patients, run.of_rows("cluster_id")),
        *(
            Fact(
                f"rows in {score.name}",
                f"{score.n_evaluated:,}",
                run.of_scores(f"metric_scores.{name}.n_evaluated"),
            )
            for name, score in result.metric_scores.items()
        ),
    ]


def _limits(run: SheetRun) -> list[Fact]:
    result = run.result
    found = [Fact("stopped", line, run.of_run("stopped")) for line in stopping_lines(result)]
    if result.damage:
        found.append(Fact("damage", result.damage, run.of_rows("check")))
    found += [
        Fact("note", line, run.of_scores("metric_scores"))
        for line in note_lines(result.metric_scores)
    ]
    return [*found, *_failures(run)]


def _abstentions(run: SheetRun) -> list[Fact]:
    counts = run.result.attrition
    n = counts.n_answered + counts.n_abstained
    words = f"{counts.n_abstained:,} of {n:,} evaluated rows"
    return [Fact("abstained", words, run.of_rows("abstained"))] if n else []


def _failures(run: SheetRun) -> list[Fact]:
    counts = run.result.attrition
    words = ", ".join(f"{name}: {one.n:,}" for name, one in counts.failures.items()) or "none"
    words = f"{counts.n_failed:,} of {counts.n_sent:,} rows; {words}"
    return [Fact("failed", words, run.of_rows("failure_class"))]


FACTS: dict[str, Callable[[SheetRun], list[Fact]]] = {
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
    "splits": lambda run: _described(run, _SPLIT_KEYS),
    "analyses": _analyses,
    "scores": _scores,
    "limits": _limits,
    "abstentions": _abstentions,
    "failures": _failures,
}
