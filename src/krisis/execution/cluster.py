"""`--cluster`: the calls of a run go to the workers of a Dask cluster; all else stays here.

The client places every task on a worker itself, so it knows who has what: a worker gets at most two
tasks at a time, gets none before its versions and its model were checked, and when it is lost its
calls go elsewhere. What lost a worker is asked again alone, with nothing beside it, and becomes a
failed row when that loses `MOST_LOSSES` workers more.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import logging
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from krisis import registry
from krisis.backends.base import BaseBackend
from krisis.backends.provider import ProviderBackend
from krisis.errors import InvalidValue, MissingExtra, RunFailed, WorkerLost
from krisis.execution.cluster_connection import Connection, ConnectionLost, Lost, WorkerGone
from krisis.execution.cluster_worker import Answer, Call, Outcome, Recipe, admit, perform
from krisis.execution.config import checked_place
from krisis.execution.pacing.concurrency import AdaptiveConcurrency
from krisis.execution.stopping import Stop, StopRequested
from krisis.json_values import plain
from krisis.results.stops import ClusterLost

TASKS_PER_WORKER = 2  # one at work, and the next one at hand
MOST_CALLS = 1024
MOST_LOSSES = 3
GATHERING_SECONDS = 0.001
LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the calls of a run are carried out: ``local:4`` or ``tcp://host:8786``.

    ``announce`` is called with sentences about workers: waited for, lost or refused.
    """

    place: str
    announce: Callable[[str], object] = logging.getLogger(__name__).warning

    def __post_init__(self) -> None:
        checked_place(self.place)

    def check(self, backend: BaseBackend) -> None:
        """Refuse a backend that more machines do not make faster, and a missing extra."""
        if isinstance(backend, ProviderBackend):
            raise InvalidValue(
                f"{backend.name} is asked over a network, where the provider's limit is the "
                "bottleneck and not this machine; omit --cluster and raise --max-concurrency"
            )
        if importlib.util.find_spec("distributed") is None:
            raise MissingExtra.named("cluster", "a run with --cluster")


def recipe_of(
    backend: BaseBackend, *, timeout_seconds: float | None, max_concurrency: int
) -> Recipe:
    """Return what a worker needs to make the backend; the user's own modules travel with it."""
    import cloudpickle  # type: ignore[import-untyped]

    own = [sys.modules[name] for name in registry.own_modules() if name in sys.modules]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        pickled = cloudpickle.dumps(backend)
    except Exception as error:
        raise InvalidValue(
            f"the backend {backend.name!r} cannot be sent to the workers of a cluster "
            f"({type(error).__name__}: {error}); let it open files, locks and models at its first "
            "call, not before, or leave them out in its __getstate__"
        ) from None
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)
    identity = plain(backend.identity())
    settings = (timeout_seconds, max_concurrency)
    key = hashlib.sha256(pickled + repr((identity, settings)).encode()).hexdigest()[:16]
    return Recipe(key, pickled, identity, backend.packages, *settings)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A call on its way; once it may have lost a worker, it travels alone."""

    call: Call
    answer: asyncio.Future[Answer]
    n_losses: int = 0
    is_suspect: bool = False

    def settle(self, outcome: Outcome | Exception) -> None:
        """Hand over what came of the call."""
        if self.answer.done():
            return
        if isinstance(outcome, Exception):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)


@dataclass(slots=True, eq=False)
class _Worker:
    """A worker of the cluster: what is known of it, and what it has to do."""

    address: str
    gone: asyncio.Future[type[Lost]]
    state: Literal["being admitted", "ready", "refused"] = "being admitted"
    n_tasks: int = 0
    has_suspect: bool = False


class Workers:
    """The workers of one run: found, checked, fed and replaced."""

    def __init__(
        self,
        cluster: Cluster,
        recipe: Recipe,
        *,
        stop: Stop,
        concurrency: AdaptiveConcurrency,
        batch_size: int,
    ) -> None:
        self._cluster = cluster
        self._recipe = recipe
        packages = ("krisis-eval", "distributed", *recipe.packages)
        self._versions = {name: _version(name) for name in packages}
        self._stop = stop
        self._concurrency = concurrency
        self._records_per_task = max(batch_size, recipe.max_concurrency)
        self._connection = Connection(cluster.place)
        self._workers: dict[str, _Worker] = {}
        self._waiting: deque[_Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._n_lost_loading = 0
        self._has_told_none = False
        self._has_begun = False
        self._fault: Exception | None = None

    async def __aenter__(self) -> Workers:
        """Connect and admit whoever is there; a worker that does not fit ends the run here."""
        try:
            await self._connection.open()
            await self._look()
            while not self._ready() or self._in_state("being admitted"):
                self._stop.check()
                await asyncio.sleep(GATHERING_SECONDS if self._workers else LOOK_SECONDS)
                await self._look()
        except BaseException as error:
            await self.__aexit__()
            if isinstance(error, StopRequested):
                told = "stopped before the cluster had a worker; nothing was asked"
                raise RunFailed(told) from None
            if isinstance(error, ConnectionLost):
                told = f"the connection to {self._cluster.place} was lost: {error}"
                raise RunFailed(told) from None
            raise
        self._has_begun = True
        self._start(self._keep())
        return self

    async def __aexit__(self, *caught: object) -> None:
        """End what is under way, and the processes that were started here."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ready = [worker.address for worker in self._ready()]
        await self._connection.close(self._recipe.key, ready)

    async def call(self, call: Call) -> Any:
        """Have a call carried out by some worker, and return or raise what came of it."""
        if self._fault is not None:
            raise self._fault
        loop = asyncio.get_running_loop()
        waiting = _Waiting(call, loop.create_future())
        self._waiting.append(waiting)
        loop.call_later(GATHERING_SECONDS, self._feed)
        return await waiting.answer

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _in_state(self, state: str) -> list[_Worker]:
        return [worker for worker in self._workers.values() if worker.state == state]

    def _ready(self) -> list[_Worker]:
        return self._in_state("ready")

    def _feed(self) -> None:
        """Hand waiting calls to workers that have room, in the order in which they came."""
        while self._waiting:
            alone = self._waiting[0].is_suspect
            room = 1 if alone else TASKS_PER_WORKER
            free = [w for w in self._ready() if w.n_tasks < room and not w.has_suspect]
            if not free:
                return
            worker = min(free, key=lambda one: one.n_tasks)
            worker.n_tasks += 1
            worker.has_suspect = alone
            group = [self._waiting.popleft()] if alone else self._group()
            self._start(self._perform(worker, group))

    def _group(self) -> list[_Waiting]:
        """Take calls for one task: as many as make a batch, at least one."""
        group = [self._waiting.popleft()]
        n_records = group[0].call.n_records
        while self._waiting and not self._waiting[0].is_suspect:
            n_records += self._waiting[0].call.n_records
            if n_records > self._records_per_task:
                break
            group.append(self._waiting.popleft())
        return group

    async def _perform(self, worker: _Worker, group: list[_Waiting]) -> None:
        calls = [waiting.call for waiting in group]
        try:
            outcomes: list[Outcome] | None = await self._connection.result(
                worker.address, worker.gone, perform, self._recipe.key, calls
            )
            if outcomes is None:  # another process at the same address: it must be admitted first
                raise ConnectionLost
        except WorkerGone:
            self._count_loss(group)
            self._drop(worker, WorkerGone)
            self._ask_again(group)
        except ConnectionLost:
            self._drop(worker, ConnectionLost)
            self._ask_again(group)
        except Exception as error:
            for waiting in group:
                waiting.settle(WorkerLost(f"what the worker sent cannot be read: {error}"))
        else:
            for waiting, outcome in zip(group, outcomes, strict=True):
                waiting.settle(outcome)
        finally:
            worker.n_tasks -= 1
            worker.has_suspect = False
            asyncio.get_running_loop().call_later(GATHERING_SECONDS, self._feed)

    def _count_loss(self, group: list[_Waiting]) -> None:
        """Suspect what a lost worker had; give up what loses one worker after another."""
        for waiting in group:
            waiting.n_losses += waiting.is_suspect  # it was sent alone: nobody else can be at fault
            waiting.is_suspect = True
            if waiting.n_losses >= MOST_LOSSES:
                told = f"{waiting.n_losses} workers were lost while each worked on this call alone"
                waiting.settle(WorkerLost(f"{told}; see their logs, it may need more memory"))

    def _ask_again(self, group: list[_Waiting]) -> None:
        self._waiting.extendleft(reversed([one for one in group if not one.answer.done()]))

    async def _keep(self) -> None:
        """Look who is there as long as the run goes on, and connect again where that is lost."""
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                try:
                    await self._look()
                except ConnectionLost as error:
                    await self._connect_again(error)
                if self._stop.cause is not None:  # left for a later session
                    self._leave(StopRequested(self._stop.cause.sentence))
        except Exception as error:  # nobody else would notice that a worker is lost
            self._fault = error
            self._leave(error)

    def _leave(self, error: Exception) -> None:
        while self._waiting:
            self._waiting.popleft().settle(error)

    async def _connect_again(self, error: Exception) -> None:
        place = self._cluster.place
        self._cluster.announce(f"the connection to {place} was lost; trying again")
        for worker in list(self._workers.values()):
            self._drop(worker, ConnectionLost)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        while self._stop.cause is None:
            try:
                await self._connection.open()
                self._cluster.announce(f"connected to {place} again")
                return
            except InvalidValue:
                if loop.time() > deadline:
                    self._stop.request(ClusterLost(f"the connection to {place} was lost: {error}"))
                await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """Take note of workers that are gone and admit new ones."""
        present = await self._connection.workers()
        for address in self._workers.keys() - present:
            self._drop(self._workers[address], WorkerGone)
        for address in present - self._workers.keys():
            gone = asyncio.get_running_loop().create_future()
            self._workers[address] = worker = _Worker(address, gone)
            self._start(self._admit(worker))
        if not present and not self._has_told_none:
            self._has_told_none = True
            self._cluster.announce(f"no worker is at {self._cluster.place}; waiting for one")
        if self._fault is not None:
            raise self._fault

    async def _admit(self, worker: _Worker) -> None:
        """Check a worker and have it load the model; refuse it with a sentence that says why."""
        try:
            reason = await self._connection.other_versions(worker.address, self._versions)
            if not reason:
                arguments = (worker.address, worker.gone, admit, self._recipe)
                reason = await self._connection.result(*arguments)
        except ConnectionLost:
            return
        except WorkerGone:
            self._n_lost_loading += 1
            if self._n_lost_loading >= MOST_LOSSES and not self._ready():
                self._fault = RunFailed(
                    f"{self._n_lost_loading} workers of {self._cluster.place} were lost while they "
                    "loaded the model; see their logs, it may need more memory"
                )
            return
        except Exception as error:
            reason = f"it cannot run krisis ({type(error).__name__}: {error})"
        if reason:
            self._refuse(worker, f"the worker {worker.address} is refused: {reason}")
            return
        worker.state, self._n_lost_loading, self._has_told_none = "ready", 0, False
        self._resize()
        self._feed()

    def _refuse(self, worker: _Worker, sentence: str) -> None:
        """Leave a worker out, with a sentence; before the first call it ends the run."""
        worker.state = "refused"
        if self._has_begun:
            self._cluster.announce(sentence)
        else:
            self._fault = InvalidValue(sentence)

    def _drop(self, worker: _Worker, why: type[Lost]) -> None:
        if self._workers.get(worker.address) is worker:
            del self._workers[worker.address]
            self._resize()
        if not worker.gone.done():
            worker.gone.set_result(why)

    def _resize(self) -> None:
        n_most = len(self._ready()) * TASKS_PER_WORKER * self._records_per_task
        self._concurrency.resize(min(MOST_CALLS, max(1, n_most)))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
