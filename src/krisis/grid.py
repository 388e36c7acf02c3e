"""`run_grid`: the cells of a grid side by side, with one budget and one limit per account."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from krisis.backends.chat import ChatBackend
from krisis.backends.provider import ProviderBackend
from krisis.benchmark import Benchmark
from krisis.data.base import BaseDataSuite
from krisis.data.checks import check_records
from krisis.errors import (
    BackendError,
    InvalidValue,
    KrisisError,
    MissingKey,
    ThirdPartyWarning,
)
from krisis.execution.assembly import (
    Assembled,
    assemble,
    backend_for_prompts,
    checked_batches,
    execution_of,
    suite_of,
)
from krisis.execution.batches import with_distinct_ids
from krisis.execution.cache import ReplyCache, default_cache_path
from krisis.execution.cluster import Cluster
from krisis.execution.grid import Grid, GridCell, GridFolder
from krisis.execution.options import Execution, GridContext
from krisis.execution.pacing.account import accounts_of
from krisis.execution.pacing.budget import Limits, SharedBudget, Tokens
from krisis.execution.pacing.prices import Price, price_of, read_prices
from krisis.execution.progress import GridDisplay
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.registry import fault_of_own_code
from krisis.results.base import BenchmarkResult
from krisis.results.stops import Decided, Interrupted, StopCause
from krisis.runs.load import load_run
from krisis.runs.read import open_run

# What a suite is made of: cells that agree on all of it share one.
_OF_THE_SUITE = {
    *("suite", "task", "features", "seed", "n_synthetic", "test_size", "data_path", "sex"),
    *("risk", "mode", "suite_options"),
}


@dataclass(frozen=True, slots=True)
class Ready:
    """A cell with everything that it needs, made before the first call of the grid."""

    cell: GridCell
    parts: Assembled
    price: Price | None

    @property
    def priced_as(self) -> str:
        """Return the name under which a price is looked up."""
        backend = self.parts.backend
        if isinstance(backend, ChatBackend):
            return f"{backend.provider}/{backend.model}"
        return backend.name

    @property
    def is_local(self) -> bool:
        """Say whether the model runs on this machine, where cells are in each other's way."""
        return not isinstance(self.parts.backend, ProviderBackend)


@dataclass(slots=True)
class CellEnd:
    """How a cell ended: with a result, or with the reason why it failed for good."""

    cell: GridCell
    run: Path | None = None
    result: BenchmarkResult | None = None
    problem: str = ""
    was_finished: bool = False

    @property
    def is_failed(self) -> bool:
        """Say whether the cell failed: the others of the grid went on without it."""
        return bool(self.problem)

    @property
    def is_left(self) -> bool:
        """Say whether a later session has something to do for the cell."""
        if self.result is None:
            return True
        stop = self.result.stop
        return self.result.n_left > 0 and not isinstance(stop, Decided)

    @property
    def words(self) -> str:
        """Say in one line what became of the cell."""
        if self.problem:
            return f"failed: {self.problem}"
        if self.result is None:
            return "not begun"
        if self.is_left:
            return f"stopped with {self.result.n_left} records left: {self.result.stop}"
        counts = self.result.attrition
        words = "finished before" if self.was_finished else "finished"
        return ", ".join([words, *counts.parts()[2:]])


class GridStop(Stop):
    """Ends all cells of a grid: those that run finish their calls, the others do not begin."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[Stop] = []

    def request(self, cause: StopCause) -> None:
        """Ask all of them for the end."""
        super().request(cause)
        for cell in self.cells:
            cell.request(cause)


def prepare(grid: Grid, *, asks: bool = True) -> list[Ready]:
    """Make the parts of every cell and find every mistake of the grid; nothing is sent.

    A suite is loaded once for all cells that share it. A model that takes long to load is loaded
    when its cell begins. A grid that ``asks`` nobody needs no keys.
    """
    if any(cell.config.batch for cell in grid.cells):
        raise InvalidValue(
            "the runs of a grid are asked in ordinary calls, not by provider batches; leave out "
            "batch, or start a run of its own for each model and task: krisis run --batch"
        )
    suites: dict[str, BaseDataSuite] = {}
    parts: list[Assembled] = []
    without_key: dict[str, str] = {}
    for cell in grid.cells:
        key = cell.config.model_dump_json(include=_OF_THE_SUITE)
        suites[key] = suites[key] if key in suites else suite_of(cell.config)
        try:
            backend = None if asks else backend_for_prompts(cell.config)[0]
            parts.append(assemble(cell.config, suites[key], backend))
        except MissingKey as error:
            without_key[cell.config.model] = str(error)
    if without_key:
        reasons = "; ".join(dict.fromkeys(without_key.values()))
        raise MissingKey(f"{', '.join(without_key)}: {reasons}; nothing was sent")
    settings = grid.settings
    prices = read_prices(settings.prices) if settings.prices else {}
    for cell, made in zip(grid.cells, parts, strict=True):
        if cell.config.cluster:
            Cluster(cell.config.cluster).check(made.backend)
        kind = type(made.backend)
        if not issubclass(kind, ChatBackend) or kind.prepare is ChatBackend.prepare:
            checked_batches(cell.config, made)
    for suite in suites.values():
        check_records(with_distinct_ids(suite.records()), suite.task)
    ready = [
        Ready(cell, made, _price(made, prices))
        for cell, made in zip(grid.cells, parts, strict=True)
    ]
    unknown = [one.cell.config.model for one in ready if one.price is None]
    if settings.max_cost is not None and unknown:
        raise InvalidValue(
            f"max_cost is {settings.max_cost} but the price of {', '.join(dict.fromkeys(unknown))} "
            "is not known; give a price table (--prices FILE), or limit the grid by max_tokens"
        )
    return ready


def _price(parts: Assembled, prices: Mapping[str, Price]) -> Price | None:
    """Return what a model costs; one that runs on this machine costs nothing."""
    price = price_of(parts.backend, prices)
    is_hosted = isinstance(parts.backend, ProviderBackend) or parts.backend.third_party
    return Price(0, 0) if price is None and not is_hosted else price


def run_grid(
    grid: Grid,
    folder: GridFolder,
    *,
    ready: Sequence[Ready],
    stop: GridStop | None = None,
    announce: Callable[[str], object] | None = None,
) -> list[CellEnd]:
    """Run every cell that is not finished, and return how each ended, in the order of the grid.

    The caller holds the folder's lock. A cell that fails for good does not stop the others.
    """
    session = _GridSession(grid, folder, ready, stop or GridStop(), announce or (lambda text: None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ThirdPartyWarning)  # the command says it, in one line
        return asyncio.run(session.run())


class _GridSession:
    """Carries out the cells of a grid in one event loop."""

    def __init__(
        self,
        grid: Grid,
        folder: GridFolder,
        ready: Sequence[Ready],
        stop: GridStop,
        announce: Callable[[str], object],
    ) -> None:
        self._ready, self._stop, self._announce = ready, stop, announce
        self._folder = str(folder.path)
        self._runs = folder.runs(grid)
        settings = grid.settings
        self._cache: ReplyCache | None = None
        if settings.cache:
            self._cache = ReplyCache(settings.cache_path or default_cache_path())
        self._display = GridDisplay(settings.display)
        self._slots = asyncio.Semaphore(grid.side_by_side.max_cells)
        self._local_slots = asyncio.Semaphore(grid.side_by_side.max_local_cells)
        self._shared_budget = SharedBudget(
            Limits(max_cost=settings.max_cost, max_tokens=settings.max_tokens)
        )

    async def run(self) -> list[CellEnd]:
        """Run the cells side by side."""
        self._stop.bind(asyncio.get_running_loop())
        ends = {one.cell.name: self._begun(one) for one in self._ready}
        left = [one for one in self._ready if not ends[one.cell.name].was_finished]
        if self._shared_budget.is_bound:
            self._shared_budget.earlier = {one.cell.name: self._spent(one) for one in self._ready}
        executions = [self._execution(one, Stop()) for one in left]
        accounts = accounts_of(
            [
                (one.parts.backend, execution.limits, one.cell.config.max_concurrency)
                for one, execution in zip(left, executions, strict=True)
            ]
        )
        try:
            async with asyncio.TaskGroup() as cells:
                for one, execution, account in zip(left, executions, accounts, strict=True):
                    context = GridContext(account, self._shared_budget, one.cell.name)
                    shared = replace(execution, grid=context)
                    cells.create_task(self._run_cell(one, shared, ends[one.cell.name]))
        finally:
            self._display.end()
            if self._cache is not None:
                self._cache.close()
        return list(ends.values())

    def _begun(self, one: Ready) -> CellEnd:
        """Return what earlier sessions left of a cell; one that is finished is not asked again."""
        end = CellEnd(one.cell, self._runs.get(one.cell.name))
        if end.run is not None:
            result = load_run(end.run)
            is_whole = result.n_left == 0 or isinstance(result.stop, Decided)
            end.was_finished = is_whole and bool(result.metric_scores) and not result.damage
            if end.was_finished:
                end.result, end.problem = result, _problem(result)
        return end

    def _spent(self, one: Ready) -> tuple[float, float]:
        run = self._runs.get(one.cell.name)
        if run is None:
            return 0.0, 0.0
        with open_run(run) as opened:
            found = opened.contents()
        held = Tokens(*found.provider_batches.pending(found.rows)[1:])
        most = held.plus(Tokens(*found.totals.most_tokens))
        batch = held.plus(Tokens(*found.totals.batch_tokens))
        return most.total, one.price.cost(*most, batch) if one.price is not None else 0.0

    def _execution(self, one: Ready, stop: Stop) -> Execution:
        config = one.cell.config.model_copy(update={"out": self._folder})
        run = self._runs.get(one.cell.name)

        def announce(sentence: str) -> None:
            self._announce(f"{one.cell.name}: {sentence}")

        recorder = Recorder(
            config.out,
            config=config.model_dump(mode="json"),
            store_features=config.store_features,
            announce=announce,
        )
        if run is not None:
            recorder = Recorder.resume(run, announce=announce)
        self._stop.cells.append(stop)
        # Cache, prices and display are those of the grid.
        own = config.model_copy(update={"cache": False, "prices": None, "display": "none"})
        return replace(
            execution_of(own, recorder, stop),
            cache=self._cache,
            progress=self._display.line(one.cell.name),
            prices={one.priced_as: one.price} if one.price is not None else {},
        )

    async def _run_cell(self, one: Ready, execution: Execution, end: CellEnd) -> None:
        async with AsyncExitStack() as slots:
            if one.is_local:
                await slots.enter_async_context(self._local_slots)
            await slots.enter_async_context(self._slots)
            if self._stop.cause is not None:
                return
            try:
                end.result = await self._result(one, execution)
            except BackendError as error:
                end.problem = f"the run ended at its first call: {error}"
            except KrisisError as error:
                end.problem = str(error)
            except Exception as error:  # whatever it is, the other cells go on
                told = fault_of_own_code(error)
                end.problem = str(told) if told else f"{type(error).__name__}: {error}"
            finally:
                recorder = execution.recorder
                if recorder is not None and recorder.path is not None:
                    end.run = recorder.path
            if end.result is not None and not end.problem:
                end.problem = _problem(end.result)

    async def _result(self, one: Ready, execution: Execution) -> BenchmarkResult:
        parts = one.parts
        benchmark = Benchmark.of(parts, one.cell.config, execution)
        return await benchmark.run_async(parts.records, suite_description=parts.description)


def _problem(result: BenchmarkResult) -> str:
    """Say why a cell that came to its end failed all the same, "" if it did not."""
    stop, counts = result.stop, result.attrition
    if stop is not None and stop.exit_code and not isinstance(stop, Interrupted):
        return str(stop)
    if counts.n_lost and not counts.n_answered:
        run, lost = result.provenance.run_file, ", ".join(counts.parts()[1:])
        return f"no record was answered ({lost}); type: krisis resume {run} --failed"
    return ""
