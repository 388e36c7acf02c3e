"""How a run came about and went, in typed parts; the flat mapping `extras` is derived from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Self, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonMapping, JsonObject, plain
from krisis.metrics.base import EvaluationResult, MetricScore, MetricScores, Rows
from krisis.results.attrition import Attrition
from krisis.results.call_totals import CallTotals
from krisis.results.rows import scores_from_dict, scores_to_dict
from krisis.results.stops import StopCause, StopRule
from krisis.task_facts import TaskFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingFacts:
    """How a model was asked that was not asked in the usual way.

    ``prompt`` is the name of a prompt of the user's own, ``prompt_text`` all that its file holds.
    """

    elicit: str = "answer"
    prompt: str = ""
    prompt_sha256: str = ""
    prompt_text: str = ""
    instructions: str = "price"
    perturb: str = ""

    def __str__(self) -> str:
        named = f"prompt {self.prompt} (SHA-256 {self.prompt_sha256[:12]})" if self.prompt else ""
        way = f"confidence by --elicit {self.elicit}" if self.elicit != "answer" else ""
        said = f"{self.instructions} instructions" if self.instructions != "price" else ""
        form = f"every record by --perturb {self.perturb}" if self.perturb else ""
        return ", ".join(filter(None, (named, way, said, form)))


Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Where the rows of a run come from that krisis did not ask a model for.

    ``files`` maps names to SHA-256 hashes; ``taken_for`` says where each field was read. Of
    ``n_read`` rows ``n_not_taken`` could not be taken; the run lists them. A log that
    was stopped has fewer rows than ``n_expected``.
    """

    format: str
    files: Mapping[str, str]
    taken_for: Mapping[str, str]
    notes: tuple[str, ...] = ()
    command: str = ""
    n_expected: int = 0
    n_read: int = 0
    n_not_taken: int = 0

    def __str__(self) -> str:
        names = ", ".join(self.files)
        lost = (
            f"{self.n_not_taken} of {self.n_read} rows could not be taken (to list them, type: "
            "krisis export --to not-taken)"
        )
        all_rows = f"all {self.n_read} rows were taken"
        source = f"{self.format}: {names}" if names else self.format
        taken = lost if self.n_not_taken else all_rows
        return f"from {source}; {taken}; krisis asked no model"


@dataclass(frozen=True, slots=True)
class OtherCosts:
    """Costs that judge a run in place of its own: the price it states, and what was typed."""

    stated_price: float
    options: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What was run, on which data, by which model and with which settings; None is not known.

    ``model`` is the one named, ``models_answered`` counts rows by the model that answered.
    """

    suite: str = ""
    task: str = ""
    features: str = ""
    mode: str = ""
    limit: int | None = None
    n_records: int | None = None
    content_hash: str = ""
    case_hash: str = ""
    model: str = ""
    task_facts: TaskFacts | None = None
    models_answered: Mapping[str, int] = field(default_factory=dict)
    batch_size: int | None = None
    max_concurrency: int | None = None
    repeats: int | None = None
    n_api_batches: int | None = None
    seed: int | None = None
    suite_content_hash: str | None = None
    krisis_version: str | None = None
    started_at: str | None = None
    run_id: str | None = None
    run_file: str | None = None
    git_commit: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    config: JsonMapping = field(default_factory=dict)
    imported: Imported | None = None
    asking: AskingFacts | None = None
    what_if: OtherCosts | None = None
    removed: str | None = None  # how many patients were taken out of the run, and what follows


# The fields of a provenance that the suite's description and the model's name already hold.
_DESCRIBED = (
    *("suite", "task", "features", "mode", "limit", "n_records", "content_hash", "case_hash"),
    "model",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a run took; None is not known, which is never the same as 0.

    Tokens are all that were used; of these the ``lost`` ones were paid for replies that gave no
    answer, and the ``cached`` ones were not paid again. ``token_total_reported`` is what backends
    said where that is not input + output. ``cost_unknown``
    says why only ``cost_at_most`` is known; ``dropped`` fields could not be read.
    """

    n_api_calls: int | None = None
    n_batch_calls: int | None = None
    n_retries: int | None = None
    n_batch_splits: int | None = None
    n_cache_hits: int | None = None
    n_calls_without_usage: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    token_total: int | None = None
    token_total_reported: int | None = None
    lost_input_tokens: int | None = None
    lost_output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cached_output_tokens: int | None = None
    cost: float | None = None
    cost_unknown: str | None = None
    cost_at_most: float | None = None
    n_dropped_fields: int | None = None
    price_per_million_tokens: Mapping[str, float] = field(default_factory=dict)
    elapsed_seconds: float | None = None
    records_per_second: float | None = None
    latency_seconds: Mapping[str, float] = field(default_factory=dict)
    cache_fault: str | None = None

    @classmethod
    def of(
        cls, spent: CallTotals, rows: Sequence[EvaluationResult], *, elapsed_seconds: float
    ) -> Self:
        """Add up calls and rows, those that led to no answer among them.

        A sum in which one part is not known is not known itself. A row without an answer has its
        tokens where its reply said them, else its calls have them as lost ones.
        """
        failed = [row for row in rows if row.error is not None]
        lost = [
            spent.lost_input_tokens + sum(row.input_tokens or 0 for row in failed),
            spent.lost_output_tokens + sum(row.output_tokens or 0 for row in failed),
        ]
        names = ("input_tokens", "output_tokens", "total_tokens")
        answered = [row for row in rows if row.error is None]
        used, n_output, said = (
            _sum([getattr(row, name) for row in answered]) if answered or not any(lost) else 0
            for name in names
        )
        total = said if used is None or n_output is None else used + n_output
        return cls(
            n_api_calls=spent.n_calls,
            n_batch_calls=spent.n_batch_calls or None,
            n_retries=spent.n_retries,
            n_batch_splits=spent.n_splits,
            n_cache_hits=spent.n_cache_hits,
            n_calls_without_usage=spent.n_calls_without_usage,
            n_dropped_fields=spent.n_dropped_fields,
            input_tokens=None if used is None else used + lost[0],
            output_tokens=None if n_output is None else n_output + lost[1],
            token_total=None if total is None else total + sum(lost),
            token_total_reported=None if said in (None, total) else said + sum(lost),
            lost_input_tokens=lost[0],
            lost_output_tokens=lost[1],
            cached_input_tokens=spent.cached_input_tokens,
            cached_output_tokens=spent.cached_output_tokens,
            elapsed_seconds=elapsed_seconds,
            records_per_second=len(rows) / elapsed_seconds if elapsed_seconds else None,
            latency_seconds=_percentiles(spent.latencies_seconds),
        )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    values = np.percentile(np.asarray(seconds), (50, 90, 95, 99, 100))
    return dict(zip(("p50", "p90", "p95", "p99", "max"), map(float, values), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Which redacted templates were used, and where each row's is kept."""

    prompt_capture: str = "evaluation_results[].prompt"
    prompt_data_policy: str = ""
    prompt_modes: tuple[str, ...] = ()
    n_prompts_captured: int | None = None
    prompt_templates: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: Sequence[EvaluationResult], *, verified: bool) -> Prompts:
        """Gather the templates of rows; ``verified`` says that no value can have shaped them."""
        n_captured = sum(bool(row.prompt) for row in rows)
        checked = "redacted" if verified else "not verified"
        return cls(
            prompt_data_policy=checked if n_captured else "no prompts captured",
            prompt_modes=tuple(sorted({row.prompt_mode for row in rows if row.prompt_mode})),
            n_prompts_captured=n_captured,
            prompt_templates=tuple(dict.fromkeys(row.prompt for row in rows if row.prompt)),
        )


@dataclass(frozen=True, slots=True)
class RepeatAgreement:
    """How far repeated answers to one record agree."""

    n_records: int
    mean_agreement: float | None
    n_unanimous: int


ScoresByName = Mapping[str, Mapping[str, MetricScore]]


def brief_scores(scores: Mapping[str, MetricScore]) -> MetricScores:
    """Return values and denominators alone, all that is kept of baselines."""
    return MetricScores(
        (name, MetricScore(score.name, score.value, n_evaluated=score.n_evaluated))
        for name, score in scores.items()
    )


# What the seeds promise of every run, also where the value is not known.
EXECUTION_FIELDS = (
    *("batch_size", "max_concurrency", "n_input_records", "n_api_batches", "elapsed_seconds"),
    *("records_per_second", "input_tokens", "output_tokens", "token_total", "prompt_capture"),
    *("prompt_data_policy", "prompt_modes", "n_prompts_captured", "prompt_templates_count"),
    "prompt_templates",
)
_DERIVED = (
    *("n_loaded", "n_input_records", "n_no_answer", "n_not_evaluated"),
    "prompt_templates_count",
)
_TYPED = (
    *("stopped", "stop_cause", "stop_rule", "damage", "attrition", "agreement"),
    *("baselines", "baselines_left_out"),
)


@dataclass(slots=True, kw_only=True)
class RunFacts:
    """Everything about a run but its rows and scores; ``other`` holds entries of the user's own."""

    provenance: Provenance = field(default_factory=Provenance)
    spending: Spending = field(default_factory=Spending)
    prompts: Prompts = field(default_factory=Prompts)
    attrition: Attrition = field(default_factory=Attrition)
    stop: StopCause | None = None
    stop_rule: StopRule | None = None
    damage: str = ""  # what of the stored run could not be believed
    agreement: RepeatAgreement | None = None
    baselines: ScoresByName = field(default_factory=dict)
    baseline_rows: Mapping[str, Rows] = field(default_factory=dict)
    baselines_left_out: Mapping[str, str] = field(default_factory=dict)  # and why
    scores_by_source: ScoresByName = field(default_factory=dict)
    other: JsonMapping = field(default_factory=dict)

    @property
    def extras(self) -> JsonObject:
        """Return the facts as one flat mapping of JSON values, under the names of the seeds."""
        was_run = self.provenance.batch_size is not None
        provenance = _entries(self.provenance)
        for name in _DESCRIBED:
            provenance.pop(name, None)
        content: JsonObject = {
            **(dict.fromkeys((*EXECUTION_FIELDS, "cost")) if was_run else {}),
            **provenance,
            **_entries(self.spending),
            **self._counted(),
            **(_prompt_entries(self.prompts) if self.prompts != Prompts() else {}),
            **({"stopped": self.stop.sentence, "stop_cause": self.stop.name} if self.stop else {}),
            **({"stop_rule": asdict(self.stop_rule)} if self.stop_rule else {}),
            **({"damage": self.damage} if self.damage else {}),
            **({"agreement": asdict(self.agreement)} if self.agreement else {}),
            **_score_entries("scores_by_source", self.scores_by_source),
            **_score_entries("baselines", self.baselines),
            **({"baselines_left_out": self.baselines_left_out} if self.baselines_left_out else {}),
            **self.other,
        }
        return dict(plain(content))

    def _counted(self) -> JsonObject:
        if self.attrition == Attrition():
            return {}
        loaded = dict.fromkeys(("n_loaded", "n_input_records"), self.attrition.n_loaded)
        lost = {
            "n_no_answer": self.attrition.n_no_answer,
            "n_not_evaluated": self.attrition.n_not_evaluated,
        }
        return {**loaded, **lost}

    @classmethod
    def from_extras(cls, extras: JsonMapping) -> RunFacts:
        """Read the facts back; an entry that krisis does not know is kept as the user's own."""
        provenance = _part(Provenance, extras, leaving_out=_DESCRIBED)
        spending, prompts = _part(Spending, extras), _part(Prompts, extras)
        known = {f.name for part in (Provenance, Spending, Prompts) for f in fields(part)}
        known = (known - set(_DESCRIBED)) | {*_DERIVED, *_TYPED, "scores_by_source"}
        stored = _checked(Attrition, extras.get("attrition") or {}, "attrition")
        n_loaded = extras.get("n_loaded", extras.get("n_input_records"))
        if n_loaded is not None and stored == Attrition():
            stored = _checked(Attrition, {"n_loaded": n_loaded}, "n_loaded")
        agreement, stopped = extras.get("agreement"), extras.get("stopped")
        rule = extras.get("stop_rule")
        return cls(
            provenance=provenance,
            spending=spending,
            prompts=prompts,
            attrition=stored,
            stop=StopCause.named(str(extras.get("stop_cause", "StopCause")), str(stopped))
            if stopped is not None
            else None,
            stop_rule=_checked(StopRule, rule, "stop_rule") if rule else None,
            damage=str(extras.get("damage", "")),
            agreement=_checked(RepeatAgreement, agreement, "agreement") if agreement else None,
            baselines=_scores(extras, "baselines"),
            baselines_left_out=_checked(
                dict[str, str], extras.get("baselines_left_out") or {}, "baselines_left_out"
            ),
            scores_by_source=_scores(extras, "scores_by_source"),
            other={name: value for name, value in extras.items() if name not in known},
        )


def _entries(part: object) -> JsonObject:
    """Return the fields of a part that hold something."""
    values = asdict(part)  # type: ignore[call-overload]
    return {name: value for name, value in values.items() if value not in (None, (), {}, "")}


def _prompt_entries(prompts: Prompts) -> JsonObject:
    return {**asdict(prompts), "prompt_templates_count": len(prompts.prompt_templates)}


def _score_entries(name: str, scores: ScoresByName) -> JsonObject:
    return {name: {who: scores_to_dict(found) for who, found in scores.items()}} if scores else {}


def _scores(extras: JsonMapping, name: str) -> ScoresByName:
    try:
        content = (extras.get(name) or {}).items()
        return {who: scores_from_dict(found, f"{name} of {who}") for who, found in content}
    except (AttributeError, InvalidFile) as error:
        raise InvalidValue(f"extras: scores cannot be read ({error})") from None


def _part(kind: type[Part], extras: JsonMapping, *, leaving_out: Sequence[str] = ()) -> Part:
    names = [f.name for f in fields(kind) if f.name not in leaving_out]  # type: ignore[arg-type]
    known = {name: extras[name] for name in names if extras.get(name) is not None}
    return _checked(kind, known, "")


# To build what checks a part takes longer than to use it.
_adapter = cache(TypeAdapter)


def _checked(kind: type[Part], content: object, name: str) -> Part:
    try:
        checked: Part = _adapter(kind).validate_python(content)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join([*([name] if name else []), *map(str, first["loc"])])
        raise InvalidValue(f"extras: {place}: {first['msg']}, not {first['input']!r}") from None
    return checked
