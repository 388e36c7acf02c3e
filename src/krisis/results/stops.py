"""Why a run ended before its last record, as types: what follows is decided on the type alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from krisis.errors import InvalidFile


@dataclass(frozen=True)
class StopCause:
    """A cause with its sentence for people; files hold the name of the type and the sentence."""

    sentence: str
    exit_code: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """Return the name under which files hold this cause."""
        return type(self).__name__

    def __str__(self) -> str:
        return self.sentence

    @classmethod
    def named(cls, name: str, sentence: str, *, place: str = "extras") -> StopCause:
        """Read a cause back from its name and its sentence."""
        if name not in STOP_CAUSES:
            raise InvalidFile(
                f"{place}: unknown stop cause {name!r}; known: {', '.join(STOP_CAUSES)}"
            )
        return STOP_CAUSES[name](sentence)


class Interrupted(StopCause):
    """The run was stopped: Ctrl-C, SIGTERM, SIGHUP, or a program that holds the `Stop`."""

    exit_code: ClassVar[int] = 130


class BudgetReached(StopCause):
    """The next call could exceed ``max_cost`` or ``max_tokens``: a result, as far as it goes."""

    exit_code: ClassVar[int] = 0


class Decided(StopCause):
    """What ``stop_when`` asks is known: the wanted end."""

    exit_code: ClassVar[int] = 0


class Detached(StopCause):
    """Provider batches go on without the run, which collects them later: the wanted end."""

    exit_code: ClassVar[int] = 0


class TooManyFailures(StopCause):
    """More records failed than ``max_failures`` allows."""


class UnusableConfidence(StopCause):
    """The backend states a confidence that is no number between 0 and 1: its code must change."""

    exit_code: ClassVar[int] = 2


class KeyRefused(StopCause):
    """The provider does not accept the key."""


class AccountRefused(StopCause):
    """The account has no credit left, or its quota is used up for hours."""


class RequestsRefused(StopCause):
    """The provider refused the first request, so every other would be refused as well."""


class ProviderUnreachable(StopCause):
    """No connection to the provider can be made: nothing listens there, or the name is unknown."""


class ClusterLost(StopCause):
    """The scheduler of the cluster that did the work cannot be reached any more."""


class Unfinished(StopCause):
    """No session of the run has reached its end: it is still running, or was killed."""


STOP_CAUSES: dict[str, type[StopCause]] = {
    kind.__name__: kind
    for kind in (
        StopCause,
        Interrupted,
        BudgetReached,
        Decided,
        Detached,
        TooManyFailures,
        UnusableConfidence,
        KeyRefused,
        AccountRefused,
        RequestsRefused,
        ProviderUnreachable,
        ClusterLost,
        Unfinished,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """What ``stop_when`` asked and what the records said to it, in the order they were asked in.

    ``n_records`` of ``n_patients`` were looked at, ``n_failed`` that were not evaluated and those
    that the other run did not score among them; ``found`` says it in words. A width has no e-value.
    """

    rule: str
    answer: Literal["yes", "no", "not decided"]
    found: str
    n_records: int
    n_patients: int
    n_failed: int = 0
    n_skipped: int = 0
    e_value: float | None = None

    @property
    def sentence(self) -> str:
        """Return the rule and what was found."""
        return f"{self.rule}: {self.found}"
