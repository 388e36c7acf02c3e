"""Showing how a run goes: a live line in a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

Display = Literal["auto", "rich", "plain", "none"]
PLAIN_SECONDS = 5.0


@dataclass(slots=True)
class Tally:
    """How far a run is.

    ``is_at_most`` says that calls which did not report their tokens are counted with the most that
    they can have taken. ``waiting`` says how far provider batches are.
    """

    n_cases: int = 0
    n_answered: int = 0
    n_abstained: int = 0
    n_failed: int = 0
    n_retries: int = 0
    n_tokens: int = 0
    cost: float | None = None
    is_at_most: bool = False
    limit: int = 0
    waiting: str = ""

    @property
    def n_done(self) -> int:
        """Return how many cases are settled."""
        return self.n_answered + self.n_abstained + self.n_failed

    def text(self) -> str:
        """Return everything but the share in one line."""
        parts = [
            f"{self.n_answered} answered / {self.n_abstained} abstained / {self.n_failed} failed",
        ]
        most = "at most " if self.is_at_most else ""
        if self.n_tokens:
            parts.append(f"{most}{self.n_tokens:,} tokens")
        if self.cost is not None:
            parts.append(f"{most}${self.cost:.2f}")
        if self.n_retries:
            parts.append(f"{self.n_retries} retries")
        parts.append(self.waiting or f"{self.limit} concurrent")
        return " · ".join(parts)


class ProgressDisplay(Protocol):
    """Receives the tally when a run begins, whenever rows are finished, and at the end."""

    def begin(self, tally: Tally) -> None:
        """Show the start."""

    def advance(self, tally: Tally) -> None:
        """Show how far it is."""

    def end(self, tally: Tally) -> None:
        """Show the last state."""


class NoProgress:
    """Shows nothing."""

    def begin(self, tally: Tally) -> None:
        """Do nothing."""

    def advance(self, tally: Tally) -> None:
        """Do nothing."""

    def end(self, tally: Tally) -> None:
        """Do nothing."""


class PlainProgress:
    """Prints a line every few seconds, for logs."""

    def __init__(
        self, write: Callable[[str], object] | None = None, *, every_seconds: float = PLAIN_SECONDS
    ) -> None:
        self._write = write or (lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201
        self._every_seconds = every_seconds
        self._began = self._last = time.monotonic()
        self._n_before = 0

    def begin(self, tally: Tally) -> None:
        """Print what is ahead."""
        self._began = self._last = time.monotonic()
        self._n_before = tally.n_done
        self._print(tally)

    def advance(self, tally: Tally) -> None:
        """Print a line when the last one is old."""
        now = time.monotonic()
        if now - self._last >= self._every_seconds:
            self._last = now
            self._print(tally)

    def end(self, tally: Tally) -> None:
        """Print the last line."""
        self._print(tally)

    def _print(self, tally: Tally) -> None:
        line = f"{tally.n_done}/{tally.n_cases} · {tally.text()}"
        elapsed_seconds = time.monotonic() - self._began
        n_new = tally.n_done - self._n_before
        if n_new and tally.n_done < tally.n_cases:
            remaining_seconds = elapsed_seconds / n_new * (tally.n_cases - tally.n_done)
            line += f" · about {remaining_seconds:.0f} s left"
        self._write(line)


class RichProgress:
    """A live bar on the terminal; under a ``name``, one of the bars that share ``progress``."""

    def __init__(
        self,
        console: Console | None = None,
        *,
        name: str = "",
        progress: Progress | None = None,
    ) -> None:
        self._progress = progress or bars(console)
        self._is_own = progress is None
        self._name = name
        self._task = TaskID(0)

    def begin(self, tally: Tally) -> None:
        """Draw the bar."""
        self._task = self._progress.add_task(
            tally.text(), total=tally.n_cases, completed=tally.n_done, cell=self._name
        )
        self._progress.start()

    def advance(self, tally: Tally) -> None:
        """Move the bar; it is drawn a few times a second."""
        self._progress.update(self._task, completed=tally.n_done, description=tally.text())

    def end(self, tally: Tally) -> None:
        """Leave the bar as it is."""
        self.advance(tally)
        if self._is_own:
            self._progress.stop()
        else:
            self._progress.stop_task(self._task)


def bars(console: Console | None = None, *, named: bool = False) -> Progress:
    """Return a place for live bars, each with its name in front where there are several."""
    return Progress(
        *([TextColumn("{task.fields[cell]}")] if named else []),
        TextColumn("{task.completed}/{task.total}"),
        BarColumn(bar_width=24),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
        refresh_per_second=4,
    )


def progress_display(display: Display = "auto") -> ProgressDisplay:
    """Choose a display: ``auto`` is live in a terminal and plain elsewhere."""
    if display == "none":
        return NoProgress()
    return RichProgress() if _is_live(display) else PlainProgress()


def _is_live(display: Display) -> bool:
    return display == "rich" or (display == "auto" and sys.stderr.isatty())


class SweepDisplay:
    """One display for all cells of a sweep, a line for each."""

    def __init__(self, display: Display = "auto") -> None:
        self._display = display
        self._bars = bars(named=True) if _is_live(display) else None

    def line(self, name: str) -> ProgressDisplay:
        """Return the line of one cell."""
        if self._display == "none":
            return NoProgress()
        if self._bars is not None:
            return RichProgress(name=name, progress=self._bars)
        return PlainProgress(lambda line: print(f"{name}: {line}", file=sys.stderr, flush=True))  # noqa: T201

    def end(self) -> None:
        """Leave the lines as they are."""
        if self._bars is not None:
            self._bars.stop()
