"""The one place that talks to Dask: connect, see the workers, give one of them a task, leave."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from krisis.errors import InvalidValue
from krisis.execution.cluster_worker import forget

CONNECT_SECONDS = 10.0
REPLY_SECONDS = 60.0
LEAVE_SECONDS = 5.0
DEAD_SECONDS = 2.0


class Lost(Exception):
    """A task that will give no result, for no fault of its own."""


class WorkerGone(Lost):
    """The worker that had the task is no longer there."""


class ConnectionLost(Lost):
    """The scheduler cannot be reached, or has forgotten the task."""


class Connection:
    """A client of Dask in the running event loop; for ``local:N`` also the cluster itself."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._client: Any = None
        self._own_cluster: Any = None
        self._own_settings: Any = None
        self._dead_since: dict[object, float] = {}
        self._log_levels: dict[str, int] = {}

    @property
    def is_local(self) -> bool:
        """Say whether the workers are processes that end with this run."""
        return self._place.startswith("local:")

    async def open(self) -> None:
        """Connect, in place of an earlier connection; start the processes of ``local:N``."""
        from distributed import Client

        await self._close_client()
        self._silence()
        asyncio.get_running_loop().set_exception_handler(_without_dask)
        try:
            if self.is_local and self._own_cluster is None:
                await self._start_cluster(int(self._place.partition(":")[2]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # other versions are refused, worker by worker
                self._client = Client(  # type: ignore[no-untyped-call]
                    self._own_cluster or self._place,
                    asynchronous=True,
                    set_as_default=False,
                    direct_to_workers=False,
                    timeout=CONNECT_SECONDS,
                )
                await self._client
        except (OSError, TimeoutError, TypeError, ValueError, RuntimeError) as error:
            await self._close_client()
            raise InvalidValue(self._refusal(error)) from None

    def _refusal(self, error: Exception) -> str:
        """Say why there is no connection, and what to do."""
        if self._place.startswith("tls:"):
            settings = "ca-file, client.cert and client.key under distributed.comm.tls in Dask's"
            help_ = f"check the address and {settings} configuration"
        elif isinstance(error, OSError | TimeoutError):
            help_ = "start one with `dask scheduler`, check the address, or take --cluster local:N"
        else:
            help_ = (
                "check Dask's configuration; where it requires encryption, take a tls:// address"
            )
        return f"no Dask scheduler answers at {self._place} ({_words(error)}); {help_}"

    async def workers(self) -> set[str]:
        """Return the addresses of the workers that the scheduler knows now."""
        try:
            if self._client.status != "running":
                raise ConnectionLost("the scheduler closed the connection")
            self._replace_dead()
            async with asyncio.timeout(REPLY_SECONDS):
                return set((await self._client.scheduler.identity())["workers"])
        except (OSError, TimeoutError, AttributeError) as error:
            raise ConnectionLost(_words(error)) from None

    async def other_versions(self, address: str, expected: Mapping[str, str | None]) -> str:
        """Say in which versions a worker differs from this process; nothing where it does not."""
        asked = {"op": "versions", "packages": list(expected)}
        try:
            replies = await self._client.scheduler.broadcast(msg=asked, workers=[address])
        except (OSError, TimeoutError, AttributeError) as error:
            raise WorkerGone(_words(error)) from None
        there = replies[address]["packages"]
        python = ".".join(str(there["python"]).split(".")[:2])
        found = {**{name: there.get(name) for name in expected}, "Python": python}
        here = {**expected, "Python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
        return "; ".join(
            f"it has {name} {found[name] or '(missing)'}, this machine {here[name] or '(missing)'}"
            for name in here
            if found[name] != here[name]
        )

    async def result(
        self,
        address: str,
        gone: asyncio.Future[type[Lost]],
        function: Callable[..., Any],
        *arguments: object,
    ) -> Any:
        """Have a worker call a function; raise what ``gone`` holds once that is known of it."""
        try:
            future = self._client.submit(
                function, *arguments, workers=[address], allow_other_workers=False, pure=False
            )
        except (OSError, RuntimeError, AttributeError) as error:
            raise ConnectionLost(_words(error)) from None
        arriving = asyncio.ensure_future(_arrived(future))
        try:
            await asyncio.wait({arriving, gone}, return_when=asyncio.FIRST_COMPLETED)
            if arriving.done():
                return arriving.result()
            raise gone.result()
        finally:
            arriving.cancel()
            with suppress(Exception):
                future.release()

    async def close(self, key: str = "", addresses: Sequence[str] = ()) -> None:
        """Leave; workers that stay may forget the model, those that were started here end."""
        if key and not self.is_local and self._client is not None:
            with suppress(Exception):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._client.run(forget, key, workers=list(addresses), on_error="ignore")
        await self._close_client()
        if self._own_cluster is not None:
            with suppress(Exception):
                await self._own_cluster.close()
            self._own_cluster = None
        if self._own_settings is not None:
            self._own_settings.__exit__(None, None, None)
            self._own_settings = None
        for name, level in self._log_levels.items():
            logging.getLogger(name).setLevel(level)

    async def _close_client(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._client.close()
            self._client = None

    async def _start_cluster(self, n_workers: int) -> None:
        """Start processes of one thread each, on loopback, without a dashboard or web pages."""
        import dask
        from distributed import LocalCluster, Security

        self._own_settings = dask.config.set(
            {
                "distributed.worker.multiprocessing-method": "spawn",
                "distributed.scheduler.http.routes": [],
                "distributed.worker.http.routes": [],
                # It looks at every thread a hundred times a second, at the cost of the work.
                "distributed.worker.profile.enabled": False,
                # A busy machine takes its time to start a process again.
                "distributed.deploy.lost-worker-timeout": "1 hour",
            }
        )
        self._own_cluster = await LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            # Without the certificate, which is in the memory of these processes alone, nobody
            # else on this machine can connect: a connection can have any code carried out.
            protocol="tls",
            security=Security.temporary(),  # type: ignore[no-untyped-call]
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            memory_limit=0,
            asynchronous=True,
            silence_logs=logging.CRITICAL + 1,
        )

    def _replace_dead(self) -> None:
        """Start a process in place of one that Dask gave up, since it died while it started."""
        if self._own_cluster is None:
            return
        now, nannies = time.monotonic(), self._own_cluster.workers
        for name, nanny in list(nannies.items()):
            if nanny.is_alive():
                self._dead_since.pop(name, None)
            elif now - self._dead_since.setdefault(name, now) > DEAD_SECONDS:
                del nannies[name], self._dead_since[name]
        if len(nannies) < len(self._own_cluster.worker_spec):
            self._own_cluster.scale(len(self._own_cluster.worker_spec))

    def _silence(self) -> None:
        """Keep Dask from logging: what matters to the user is told in sentences."""
        for name in list(logging.root.manager.loggerDict):
            if name.partition(".")[0] in ("distributed", "tornado"):
                logger = logging.getLogger(name)
                self._log_levels.setdefault(name, logger.level)
                logger.setLevel(logging.CRITICAL + 1)


def _without_dask(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what no task awaited, but for a wait inside Dask whose worker was killed."""
    from distributed.client import AllExit

    if not isinstance(context.get("exception"), AllExit):
        loop.default_exception_handler(context)


async def _arrived(future: Any) -> Any:
    """Return the result of a task; one that was cancelled was forgotten with its scheduler."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    try:
        return await future
    except FutureCancelledError:
        raise ConnectionLost("the scheduler has forgotten the task") from None
    except KilledWorker:
        raise WorkerGone("the worker was lost") from None


def _words(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
