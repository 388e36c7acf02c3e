"""Shared timing: the best of a few runs, for the machine is noisy."""

from __future__ import annotations

import time
from collections.abc import Callable


def best_seconds(action: Callable[[], object], *, repeats: int = 3) -> float:
    durations = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        durations.append(time.perf_counter() - start)
    return min(durations)


def line(what: str, measured: str, floor: str, met: bool) -> None:
    print(f"  {'ok  ' if met else 'MISS'} {what:<58} {measured:>18}   wanted {floor}", flush=True)
