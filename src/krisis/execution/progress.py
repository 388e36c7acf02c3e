"""Showing how a run goes: a live line in a terminal or notebook, plain lines, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from threading import RLock, Timer
from typing import Literal, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from krisis.display import escaped, spelled_out
from krisis.outcomes import OUTCOMES, WORDS
from krisis.terminal_edge import live_console

Display = Literal["auto", "rich", "plain", "none"]
PLAIN_SECONDS = 5.0
NOTEBOOK_SECONDS = 1.0
_REDRAWN_SECONDS = 0.25


# Shows content by its MIME types, and returns what replaces it.
Content = Mapping[str, str]
Replace = Callable[[Content], object]
Show = Callable[[Content], Replace]


@dataclass(slots=True)
class Tally:
    """How far a run is.

    ``is_at_most`` says that calls which did not report their tokens are counted with the most that
    they can have taken. ``waiting`` says how far provider batches are.
    """

    n_cases: int = 0
    n_answered: int = 0
    n_abstained: int = 0
    n_no_answer: int = 0
    n_not_evaluated: int = 0
    n_retries: int = 0
    n_tokens: int = 0
    cost: float | None = None
    is_at_most: bool = False
    limit: int = 0
    waiting: str = ""

    @property
    def n_done(self) -> int:
        """Return how many cases are settled."""
        return sum(getattr(self, f"n_{outcome}") for outcome in OUTCOMES)

    def text(self) -> str:
        """Return everything but the share in one line."""
        counts = [(getattr(self, f"n_{outcome}"), words) for outcome, words in WORDS.items()]
        usual = ("answered", "abstained")
        parts = [" / ".join(f"{n} {words}" for n, words in counts if n or words in usual)]
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
            spelled_out(tally.text()),
            total=tally.n_cases,
            completed=tally.n_done,
            cell=spelled_out(self._name),
        )
        self._progress.start()

    def advance(self, tally: Tally) -> None:
        """Move the bar; it is drawn a few times a second."""
        said = spelled_out(tally.text())
        self._progress.update(self._task, completed=tally.n_done, description=said)

    def end(self, tally: Tally) -> None:
        """Leave the bar as it is."""
        self.advance(tally)
        if self._is_own:
            self._progress.stop()
        else:
            self._progress.stop_task(self._task)


class NotebookProgress:
    """A bar under the cell of a notebook that works for longer than a moment.

    IPython alone can show and replace it: the bars of rich and tqdm need ipywidgets there. It is
    shown from a thread of its own, since the first call of a slow model may take minutes.
    """

    def __init__(
        self, show: Show | None = None, *, after_seconds: float = NOTEBOOK_SECONDS
    ) -> None:
        self._show = show or _shown_by_ipython
        self._after_seconds = after_seconds
        self._lock = RLock()
        self._tally = Tally()
        self._replace: Replace | None = None
        self._timer: Timer | None = None
        self._last = 0.0

    def begin(self, tally: Tally) -> None:
        """Wait a moment before anything is shown; the bar of an earlier run stays as it is."""
        self._tally, self._replace = tally, None
        # A kernel tells by the context to which cell output belongs, also when the next one runs.
        self._timer = Timer(self._after_seconds, copy_context().run, (self._appear,))
        self._timer.daemon = True
        self._timer.start()

    def advance(self, tally: Tally) -> None:
        """Move the bar, a few times a second."""
        with self._lock:
            self._tally = tally
            if self._replace and time.monotonic() - self._last >= _REDRAWN_SECONDS:
                self._draw(self._replace)

    def end(self, tally: Tally) -> None:
        """Leave the bar as it is, where it was shown."""
        with self._lock:
            self._tally = tally
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._replace:
                self._draw(self._replace)

    def _appear(self) -> None:
        with self._lock:
            if self._timer is not None and self._replace is None:
                self._last = time.monotonic()
                self._replace = self._show(self._content())

    def _draw(self, replace: Replace) -> None:
        self._last = time.monotonic()
        replace(self._content())

    def _content(self) -> Content:
        tally = self._tally
        words = f"{tally.n_done}/{tally.n_cases} · {tally.text()}"
        bar = f'<progress value="{tally.n_done}" max="{max(1, tally.n_cases)}"></progress>'
        return {"text/html": f"{bar} {escaped(words)}", "text/plain": words}


def _shown_by_ipython(content: Content) -> Replace:
    from IPython.display import display

    handle = display(content, raw=True, display_id=True)
    return lambda newer: handle.update(newer, raw=True)


def is_notebook() -> bool:
    """Say whether the program runs in the kernel of a notebook, without importing anything."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def progress_unasked() -> ProgressDisplay:
    """Return what is shown where nothing was asked for: a bar in notebooks, nothing in scripts."""
    return NotebookProgress() if is_notebook() else NoProgress()


def bars(console: Console | None = None, *, named: bool = False) -> Progress:
    """Return a place for live bars, each with its name in front where there are several."""
    return Progress(
        *([TextColumn("{task.fields[cell]}", markup=False)] if named else []),
        TextColumn("{task.completed}/{task.total}"),
        BarColumn(bar_width=24),
        TextColumn("{task.description}", markup=False),
        TimeRemainingColumn(),
        console=console or live_console(),
        refresh_per_second=4,
    )


def progress_display(display: Display = "auto") -> ProgressDisplay:
    """Choose a display: ``auto`` is live in a terminal or notebook and plain elsewhere."""
    if display == "none":
        return NoProgress()
    if display == "auto" and is_notebook():
        return NotebookProgress()
    return RichProgress() if _is_live(display) else PlainProgress()


def _is_live(display: Display) -> bool:
    return display == "rich" or (display == "auto" and sys.stderr.isatty())


class GridDisplay:
    """One display for all cells of a grid, a line for each."""

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
