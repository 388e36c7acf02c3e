"""Run a coroutine from ordinary code, also where an event loop is already running."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    # One loop for the life of the process: connections that a client keeps open belong to a loop,
    # and a loop per call would leave them dead.
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="krisis-calls", daemon=True).start()
    return loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine; an interruption cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
