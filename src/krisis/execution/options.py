"""`Execution`: how a run is carried out beyond its batches, as objects that are passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from krisis.backends.base import BaseBackend
from krisis.backends.batch_api import BatchApi
from krisis.backends.chat import ChatBackend
from krisis.backends.elicitation import Asking
from krisis.backends.provider import ProviderBackend
from krisis.data.base import BaseDataSuite, Records, Task
from krisis.data.instructions import Instructions
from krisis.data.perturbation import check_changes_a_prompt
from krisis.errors import InvalidValue
from krisis.execution.cache import ReplyCache
from krisis.execution.cluster import Cluster
from krisis.execution.pacing.account import Account
from krisis.execution.pacing.budget import Limits, SharedBudget
from krisis.execution.pacing.prices import Price
from krisis.execution.progress import ProgressDisplay, progress_unasked
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.results.account import AskingFacts
from krisis.task_facts import TaskFacts


@dataclass(frozen=True, slots=True)
class Batching:
    """That a run asks by provider batches, and how far a session goes with them.

    ``then_live`` asks anew, in ordinary calls, where a reply was malformed. A session that does
    not ``submit`` buys nothing, and one that does not ``wait`` collects what has ended and leaves.
    ``poll_seconds`` is the first pause between two looks at them; later ones are longer.
    """

    then_live: bool = False
    submit: bool = True
    wait: bool = True
    poll_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not self.poll_seconds > 0:
            raise InvalidValue(f"poll_seconds must be above 0, not {self.poll_seconds!r}")


@dataclass(frozen=True, slots=True)
class GridContext:
    """What a run of a grid shares: account, budget, and its name there."""

    account: Account
    shared_budget: SharedBudget
    name: str


@dataclass(frozen=True, slots=True)
class Execution:
    """Everything about a run that is neither its suite, its backend nor its metrics.

    ``repeats`` asks every record that many times. Without a ``recorder`` nothing is written, and
    without a ``cache`` no reply is reused. ``prices`` maps ``provider/model``, or a pattern of it,
    to what its tokens cost. ``stop`` lets another part of the program end the run.
    Without a ``progress`` a notebook shows a bar where the run takes longer than a second, and a
    script nothing.
    ``stop_when`` ends it when a question is answered, such as ``"accuracy >= 0.85"``, and asks the
    records in random order. ``baselines`` scores the suite's baselines on the same records, for the
    report. With ``batching`` the provider is handed many calls at once, for half the price.
    ``cluster`` has the calls carried out by the workers of a Dask cluster. ``grid`` is given to
    the runs of a grid.
    """

    repeats: int = 1
    limits: Limits = field(default_factory=Limits)
    recorder: Recorder | None = None
    cache: ReplyCache | None = None
    progress: ProgressDisplay = field(default_factory=progress_unasked)
    prices: Mapping[str, Price] = field(default_factory=dict)
    stop: Stop | None = None
    stop_when: str | None = None
    baselines: bool = False
    batching: Batching | None = None
    cluster: Cluster | None = None
    grid: GridContext | None = None

    def __post_init__(self) -> None:
        checked_at_least_one("repeats", self.repeats)
        if self.batching is not None:
            has_recorder, on_cluster = self.recorder is not None, self.cluster is not None
            check_batching(self.stop_when, on_cluster=on_cluster, has_recorder=has_recorder)


def check_batching(
    stop_when: str | None, *, on_cluster: bool = False, has_recorder: bool = True
) -> None:
    """Refuse what cannot go with provider batches."""
    if on_cluster:
        raise InvalidValue(
            "a provider batch is carried out by the provider and a cluster by its workers; leave "
            "out --batch or --cluster (of a run to be resumed: --no-batch or --cluster none)"
        )
    if stop_when is not None:
        raise InvalidValue(
            f"stop_when ({stop_when}) looks at answers as they come, and a provider batch brings "
            "them all at once; leave out --batch or --stop-when"
        )
    if not has_recorder:
        raise InvalidValue(
            "provider batches need a recorder: without a run nobody would know what "
            "was bought when the process ends; give Execution a Recorder"
        )


def asking_of(backend: BaseBackend) -> Asking:
    """Return how a backend asks; one that calls no model asks in the usual way."""
    return backend.asking if isinstance(backend, ChatBackend) else Asking()


def asking_facts(backend: BaseBackend) -> AskingFacts | None:
    """Return what results keep of how a model is asked; nothing for the usual way."""
    asking = asking_of(backend)
    if not asking.words:
        return None
    elicit, prompt = str(asking.elicit), asking.prompt
    form = "" if asking.perturbed is None else asking.perturbed.kind.value
    facts = AskingFacts(elicit=elicit, instructions=asking.instructions.value, perturb=form)
    if prompt is None:
        return facts
    return replace(facts, prompt=prompt.name, prompt_sha256=prompt.sha256, prompt_text=prompt.text)


def task_facts(task: Task, backend: BaseBackend) -> TaskFacts:
    """Return what results keep of a task: confidence is by default what the model was asked for."""
    facts = replace(task.facts(), told=_told(task, backend))
    if facts.default_confidence != "stated":
        return facts
    return replace(facts, default_confidence=asking_of(backend).elicit.variant)


def _told(task: Task, backend: BaseBackend) -> float | None:
    """Return the price that a model is told; None where it is told none."""
    if not isinstance(backend, ChatBackend):
        return None
    is_bare = asking_of(backend).instructions is Instructions.BARE
    return None if is_bare else task.costs.price


def batch_api_of(backend: BaseBackend) -> BatchApi:
    """Return the batch API of a backend, or refuse one that has none."""
    elicit = asking_of(backend).elicit
    if elicit.asks_twice:
        raise InvalidValue(
            f"--elicit {elicit} takes two calls for an answer, and the second cannot be in the "
            "same provider batch; leave out --batch, or ask by answer, rationale or top-k"
        )
    if isinstance(backend, ProviderBackend) and backend.batch_api is not None:
        return backend.batch_api(backend)
    raise InvalidValue(
        f"the backend {backend.name!r} has no provider batches; leave out --batch, or ask a model "
        "of openai, anthropic or gemini"
    )


def check_form(backend: BaseBackend, suite: BaseDataSuite, records: Records) -> None:
    """Refuse to ask in another form where that changes no prompt."""
    perturbed = asking_of(backend).perturbed
    if perturbed is not None:
        cases = (record.features for record in records)
        check_changes_a_prompt(perturbed.kind, suite.task, cases, suite.name)


def checked_at_least_one(name: str, value: object) -> int:
    """Return a count, or refuse what is not a whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidValue(f"{name} must be a whole number of 1 or more, not {value!r}")
    return value
