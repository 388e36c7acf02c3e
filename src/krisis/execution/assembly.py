"""From a configuration to the objects of a run, and to an estimate of what it would cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from krisis import registry
from krisis.backends.base import BaseBackend
from krisis.backends.catalogue import backend_from_name, builds_prompts, dry_run_backend
from krisis.backends.chat import ChatBackend, ChatRequest
from krisis.backends.provider import ProviderBackend
from krisis.cost_file import costs_from
from krisis.data.base import BaseDataSuite, Records, SuiteConfig
from krisis.data.instructions import Instructions
from krisis.errors import InvalidFile, InvalidValue, MissingExtra, MissingKey, UnknownName
from krisis.execution.batches import (
    Batch,
    cases_of,
    first_call,
    in_random_order,
    plan_batches,
    request_about,
    with_distinct_ids,
)
from krisis.execution.cache import ReplyCache, default_cache_path
from krisis.execution.cluster import Cluster
from krisis.execution.config import RunConfig
from krisis.execution.options import (
    Batching,
    Execution,
    asking_of,
    batch_api_of,
    check_batching,
    check_form,
)
from krisis.execution.pacing.budget import (
    CHARACTERS_PER_TOKEN,
    FIRST_GUESS_OF_OUTPUT,
    Limits,
)
from krisis.execution.pacing.prices import Price, price_of, read_prices
from krisis.execution.progress import progress_display
from krisis.execution.recorder import Recorder
from krisis.execution.stop_when import Watch
from krisis.execution.stopping import Stop
from krisis.json_values import JsonObject
from krisis.metrics import usual_metrics
from krisis.metrics.base import BaseMetric
from krisis.metrics.labels import Answers
from krisis.metrics.scoring import metrics_from_names


@dataclass(frozen=True, slots=True)
class Assembled:
    """The parts that a configuration names."""

    suite: BaseDataSuite
    backend: BaseBackend
    metrics: list[BaseMetric]
    records: Records
    description: JsonObject


def assemble(
    config: RunConfig, suite: BaseDataSuite | None = None, backend: BaseBackend | None = None
) -> Assembled:
    """Make suite, backend and metrics, and load the records; what is given is not made again."""
    suite = suite_of(config) if suite is None else suite
    if backend is None:
        backend = backend_of(config)
    elif config.asking.words and asking_of(backend) != config.asking:
        raise InvalidValue(
            f"{type(backend).__name__} was made elsewhere, so it is not asked by "
            f"{' and '.join(config.asking.words)}; set its asking before it is run"
        )
    chosen = metrics_from_names(config.metrics)
    records = suite.first(config.limit)
    description = described(suite, None)
    if config.limit is not None:
        description["limit"] = config.limit
    metrics = chosen or usual_metrics(suite.task.metrics)
    return Assembled(suite, backend, metrics, records, description)


def backend_of(config: RunConfig, make: Callable[..., BaseBackend] | None = None) -> BaseBackend:
    """Make the backend that a configuration names."""
    options = {
        "temperature": config.temperature,
        "max_output_tokens": config.max_output_tokens,
        "base_url": config.base_url,
        "max_retries": config.max_retries,
        **config.model_options,
    }
    backend = (make or backend_from_name)(config.model, **options)
    if isinstance(backend, ProviderBackend) and "timeout_seconds" not in config.model_options:
        backend.timeout_seconds = config.timeout_seconds  # else its own, shorter one would cut
    if config.asking.words:
        if not isinstance(backend, ChatBackend):
            raise InvalidValue(
                f"the backend {config.model!r} writes no prompt, so it cannot be asked by "
                f"{' and '.join(config.asking.words)}; leave out --prompt, "
                "--elicit, --instructions and --perturb"
            )
        backend.asking = config.asking
    if config.batch:
        check_batching(config.stop_when, on_cluster=config.cluster is not None)
        batch_api_of(backend)
    return backend


def backend_for_prompts(config: RunConfig) -> tuple[BaseBackend, str]:
    """Return the backend of a dry run, which asks nobody, and what a real run would lack."""
    try:
        return backend_of(config), ""
    except (MissingExtra, MissingKey, InvalidFile) as error:
        if not builds_prompts(config.model):
            raise
        lacks = str(error)
    return backend_of(config, dry_run_backend), lacks


def described(suite: BaseDataSuite, given: Records | None) -> JsonObject:
    """Return what the suite says of itself; of records given in place of its own, their count."""
    description = suite.describe()
    if not isinstance(description, Mapping):
        raise InvalidValue(
            f"describe() of the suite {suite.name!r} must return a mapping, "
            f"not {type(description).__name__}"
        )
    if given is None:
        return description
    if "content_hash" in description:
        own = with_distinct_ids(suite.records())
        if own.content_hash == given.content_hash:
            return description
    counted = {"n_records": len(given), "content_hash": given.content_hash}
    return {**description, **counted, "records": "given"}


def readable_by(backend: BaseBackend, suite: BaseDataSuite, records: Records) -> Records:
    """Return the records that a backend can judge: a reader may have read only some."""
    read = backend.readable(suite, records)
    if not read:
        raise InvalidValue(
            f"{backend.name!r} read none of the {len(records):,} records; choose other records or "
            "another reader"
        )
    return records if len(read) == len(records) else Records(read)


def third_party_notice(suite: BaseDataSuite, backend: BaseBackend) -> str:
    """Say that rows of real people leave this machine; nothing where none do.

    Rules and models of krisis that run in this process send nothing. What a backend of the user's
    own does with the rows is not known, so it counts as sending them.
    """
    receiver = backend.third_party
    if not receiver and not type(backend).__module__.startswith("krisis."):
        receiver = f"the backend {backend.name}, which is not part of krisis"
    if not (suite.terms and receiver):
        return ""
    stated = "" if suite.terms in suite.notice else f" ({suite.terms})"
    return (
        f"{suite.name}: rows of real people are sent to a third party, {receiver}; make sure that "
        f"this keeps to the terms of the data{stated}"
    )


def suite_of(config: RunConfig) -> BaseDataSuite:
    """Make the suite that a configuration names."""
    kind = registry.find_or_load("suites", config.suite)
    is_file = registry.is_suite_file(config.suite)
    if not (isinstance(kind, type) and issubclass(kind, BaseDataSuite)):
        raise InvalidValue(
            f"{config.suite!r} is not a suite; name a class derived from BaseDataSuite"
        )
    chosen = {
        name: value
        for name in ("features", "task", "seed", "n_synthetic", "test_size", "price")
        if (value := getattr(config, name)) is not None
    }
    if config.costs is not None:
        chosen["costs"] = costs_from(config.costs, "costs")
    if config.instructions == Instructions.POLICY:
        chosen["by_policy"] = True
    options: JsonObject = {
        name: value
        for name in ("data_path", "sex", "mode", "preset")
        if (value := getattr(config, name)) is not None
    }
    options |= {**({"path": config.suite} if is_file else {}), **config.suite_options}
    known, takes_any = registry.options_of(kind)
    if "data_path" in options and "data_path" not in known and "data" in known:
        options["data"] = options.pop("data_path")
    if "config" in known:
        options["config"] = SuiteConfig(**chosen)
    elif chosen:
        raise InvalidValue(
            f"the suite {config.suite!r} takes no {next(iter(chosen))}; let its __init__ take "
            "config and hand it to super().__init__(config)"
        )
    if not takes_any:
        _refuse_unknown(config.suite, options, known)
    return registry.made(kind, options, f"the suite {config.suite!r}", "--suite-option NAME=VALUE")


def _refuse_unknown(suite: str, options: JsonObject, known: set[str]) -> None:
    for name, value in options.items():
        if name in known:
            continue
        if name in ("data_path", "sex", "mode", "preset"):
            raise InvalidValue(
                f"the suite {suite!r} does not support {name} ({value!r}); leave it out (krisis "
                f"info {suite} shows its options)"
            )
        raise UnknownName.among(f"option of the suite {suite}:", name, known - {"config"})


def execution_of(config: RunConfig, recorder: Recorder, stop: Stop) -> Execution:
    """Make everything that a configuration says about how the run is carried out."""
    return Execution(
        repeats=config.repeats,
        limits=Limits(
            requests_per_minute=config.requests_per_minute,
            tokens_per_minute=config.tokens_per_minute,
            timeout_seconds=config.timeout_seconds,
            max_cost=config.max_cost,
            max_tokens=config.max_tokens,
            max_failures=config.max_failures,
            adaptive=config.adaptive,
        ),
        recorder=recorder,
        cache=ReplyCache(config.cache_path or default_cache_path()) if config.cache else None,
        progress=progress_display(config.display),
        prices=read_prices(config.prices) if config.prices else {},
        stop=stop,
        stop_when=config.stop_when,
        baselines=config.baselines,
        batching=Batching(then_live=config.batch_then_live, poll_seconds=config.poll_seconds)
        if config.batch
        else None,
        cluster=Cluster(config.cluster, recorder.announce) if config.cluster else None,
    )


# Building every prompt of a large run takes longer than the estimate is worth.
N_BATCHES_MEASURED = 200


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would ask and cost; tokens and cost are None where no provider is called."""

    n_cases: int
    n_calls: int
    input_tokens: float | None = None
    output_tokens: float | None = None
    cost: float | None = None


def checked_batches(config: RunConfig, parts: Assembled) -> list[Batch]:
    """Return the batches of a run whose backend was found to take its suite; nothing is sent."""
    records = readable_by(parts.backend, parts.suite, parts.records)
    parts.backend.prepare(parts.suite.restricted(records))
    batches = _planned(config, replace(parts, records=records))
    if isinstance(parts.backend, ChatBackend):
        request_about(batches[0], parts.backend)
    return batches


def estimate_of(
    parts: Assembled, batches: Sequence[Batch], price: Price | None, *, by_batch: bool = False
) -> Estimate:
    """Say what the calls of a run take, from the letters of its prompts."""
    n_cases, n_calls = sum(map(len, batches)), len(batches)
    n_calls *= 1 + asking_of(parts.backend).elicit.asks_twice
    if not isinstance(parts.backend, ChatBackend):
        return Estimate(n_cases, n_calls)
    tokens = _input_tokens(parts.backend, batches), float(n_cases * FIRST_GUESS_OF_OUTPUT)
    batch = tokens if by_batch else (0.0, 0.0)
    cost = None if price is None else price.cost(*tokens, batch)
    return Estimate(n_cases, n_calls, *tokens, cost)


def dry_run_text(config: RunConfig) -> str:
    """Return the first prompt, redacted and full, and the estimates; nothing is sent."""
    backend, lacks = backend_for_prompts(config)
    parts = assemble(config, backend=backend)
    batches = checked_batches(config, parts)
    prices = read_prices(config.prices) if config.prices else {}
    estimate = estimate_of(parts, batches, price_of(backend, prices), by_batch=config.batch)
    plan = f"{estimate.n_cases} records in {estimate.n_calls} calls of up to {config.batch_size}"
    if config.stop_when is not None:
        plan += f", or fewer in random order until this is known: {config.stop_when}"
    if not isinstance(backend, ChatBackend):
        return f"{plan}\n{backend.name} calls no provider: no prompt, no tokens, no cost\n"
    first = request_about(batches[0], backend)
    tokens = estimate.input_tokens, estimate.output_tokens
    cost = "unknown (no price for this model; give --prices)"
    if estimate.cost is not None:
        cost = f"${estimate.cost:.2f}"
    return "\n".join(
        [
            "── first prompt, as it is stored ──",
            first.template,
            "",
            "── first prompt, as it would be sent ──",
            first.system,
            "",
            first.user,
            "",
            *_second_lines(batches[0], first, backend),
            "── estimate; nothing was sent ──",
            plan,
            f"input tokens   about {tokens[0]:,.0f} ({CHARACTERS_PER_TOKEN} letters each)",
            f"output tokens  about {tokens[1]:,.0f} ({FIRST_GUESS_OF_OUTPUT} per record)",
            f"cost           {cost}",
            *([f"before a run   {lacks}"] if lacks else []),
            "",
        ]
    )


def _planned(config: RunConfig, parts: Assembled) -> list[Batch]:
    """Return the batches of a run; a rule to stop by is tried on its records."""
    cases = cases_of(parts.records, config.repeats)
    if config.stop_when is not None:
        seed = parts.suite.config.seed
        cases = in_random_order(cases, seed=seed, batch_size=config.batch_size)
        answers = Answers.of(parts.suite.task.facts())
        Watch(config.stop_when, cases, answers=answers, description=parts.description)
    check_form(parts.backend, parts.suite, parts.records)
    return plan_batches(cases, config.batch_size)


def _input_tokens(backend: ChatBackend, batches: Sequence[Batch]) -> float:
    step = max(1, len(batches) // N_BATCHES_MEASURED)
    chosen = batches[::step]
    requests = [request_about(batch, backend) for batch in chosen]
    if backend.asking.elicit.asks_twice:
        pairs = zip(chosen, list(requests), strict=True)
        requests += [backend.largest_second(first_call(*pair)) for pair in pairs]
    n_letters = sum(len(request.system) + len(request.shown) for request in requests)
    return n_letters / CHARACTERS_PER_TOKEN * len(batches) / len(chosen)


def _second_lines(batch: Batch, first: ChatRequest, backend: ChatBackend) -> list[str]:
    """Return the second call about the first batch, where an answer takes two."""
    if not backend.asking.elicit.asks_twice:
        return []
    second = backend.largest_second(first_call(batch, first))
    turns = "" if second.history else f"{second.system}\n\n"
    heading = "── its second call, with an answer for example ──"
    return [heading, f"{turns}{second.user}", ""]
