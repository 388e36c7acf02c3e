"""Every exception that krisis raises on purpose.

::

    KrisisError
    ├── UserError (also a ValueError)      bad input: the command line exits 2
    │   ├── InvalidValue                   a field holds a value it must not hold
    │   ├── InvalidFile                    a file is not what it was taken for
    │   ├── UnknownName                    no suite, backend, metric … of that name
    │   ├── MissingExtra                   an optional part is not installed
    │   ├── MissingKey                     no credentials for a provider
    │   ├── ChartFailed                    the renderer refuses a chart, or died of it
    │   ├── PlugInFault                    code of the user's own raised an error
    │   └── RunConflict                    the run is locked, or is another run
    ├── BackendError                       one call failed: the row becomes `failed`
    │   ├── MalformedReply                 the text is not the answer asked for
    │   │   ├── TruncatedReply             … because the token cap cut it
    │   │   ├── ContentFiltered            … because the provider withheld the answer
    │   │   └── WorkerLost                 … because it loses every worker of a cluster
    │   ├── RateLimited                    429 and its kin; retried
    │   ├── ProviderUnavailable            5xx, connection lost; retried
    │   │   └── Unreachable                no connection can be made: nothing was sent
    │   │       └── TlsRefused             … because of a certificate or no TLS; not retried
    │   ├── CallTimedOut                   no answer in time; retried
    │   ├── RequestRefused                 400, 404, 422: the request must change
    │   │   └── OutOfCredit                402 and its kin: the account must be filled
    │   └── AuthenticationFailed           401, 403: the key must change
    └── RunFailed                          a run ended without a usable result: exits 1

Every message says what is wrong, names the value received and says what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class KrisisError(Exception):
    """Anything that krisis itself reports."""

    exit_code: ClassVar[int] = 1


class UserError(KrisisError, ValueError):
    """Input that krisis cannot accept."""

    exit_code: ClassVar[int] = 2


class InvalidValue(UserError):
    """A field or option holds a value that it must not hold."""


class MissingSignal(InvalidValue):
    """A confidence needs a signal that a case does not have."""


class InvalidFile(UserError):
    """A file cannot be read as what it was taken for."""


# Other names of metrics, which no likeness of letters would find.
_ALSO_CALLED = {
    "auc": "disease_auroc",
    "roc_auc": "disease_auroc",
    "recall": "disease_sensitivity",
    "precision": "disease_ppv",
    "coverage": "answer_rate",
}


def _initials(name: str) -> str:
    """Return the first letters of the words of a name: ece of expected_calibration_error."""
    return "".join(word[:1] for word in name.split("_")) if name.count("_") > 1 else ""


class UnknownName(UserError):
    """A name that no suite, backend, metric or option bears."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> UnknownName:
        """Build the error with the nearest known name as a suggestion.

        >>> print(UnknownName.among("metric", "acuracy", ["accuracy", "brier_score"]))
        unknown metric 'acuracy'; did you mean 'accuracy'? Known: accuracy, brier_score.
        >>> print(UnknownName.among("metric", "acc", ["accuracy", "aurc"]))
        unknown metric 'acc'; did you mean 'accuracy'? Known: accuracy, aurc.
        """
        names = sorted(known)
        listed = ", ".join(names) or "none"
        return cls(f"unknown {kind} {name!r}{suggestion(name, names)} Known: {listed}.")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the nearest known one, or a full stop."""
    names = sorted(known)
    # People shorten names: acc is the beginning of accuracy, though aurc has more such letters.
    near = sorted((one for one in names if name and one.startswith(name)), key=len)
    near = near or [one for one in names if _ALSO_CALLED.get(name.lower()) == one]
    near = near or [one for one in names if _initials(one) == name.lower()]
    near = near or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else "."


def install_command(extra: str) -> str:
    """Return the command that installs an extra, typed in the folder of the repository.

    The name krisis on the package index belongs to another project, so no message names it.
    """
    return f"pip install '.[{extra}]'"


class MissingExtra(UserError):
    """An optional part of krisis is not installed."""

    @classmethod
    def named(cls, extra: str, purpose: str) -> MissingExtra:
        """Build the error with the command that installs the part."""
        return cls(f"{purpose} needs the extra {extra!r}; type: {install_command(extra)}")


class MissingKey(UserError):
    """No credentials were found for a provider."""


class ChartFailed(UserError):
    """The renderer could not draw a chart."""


class PlugInFault(UserError):
    """A suite, backend or metric of the user's own failed in its own code."""


class RunConflict(UserError):
    """A run is in use, or belongs to another configuration."""


class BackendError(KrisisError):
    """One provider call that gave no usable answer.

    ``failure_class`` is what the failed row records. Tokens that were paid for all the same, the
    model, the finish reason and the latency are carried along where they are known.
    ``may_be_billed`` says that the provider may have worked, and charge for it, without telling.
    """

    failure_class: str = "backend"
    retryable: ClassVar[bool] = False
    may_be_billed: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.model = ""
        self.finish_reason = ""
        self.latency_seconds: float | None = None


class MalformedReply(BackendError):
    """The reply is not the answer that was asked for; a batch is halved and asked again."""

    failure_class = "malformed_reply"
    may_be_billed = True


class TruncatedReply(MalformedReply):
    """The reply ends in the middle: the output-token cap is too low."""


class RateLimited(BackendError):
    """The provider asks for patience."""

    failure_class = "rate_limit"
    retryable = True


class ProviderUnavailable(BackendError):
    """The provider failed or could not be reached."""

    failure_class = "unavailable"
    retryable = True
    may_be_billed = True


class Unreachable(ProviderUnavailable):
    """No connection can be made: refused, no such host, no route."""

    may_be_billed = False


class TlsRefused(Unreachable):
    """The server's certificate is not accepted, or it speaks no TLS: no later call will differ."""

    retryable = False


class CallTimedOut(BackendError):
    """The provider did not answer in time."""

    failure_class = "timeout"
    retryable = True
    may_be_billed = True


class ContentFiltered(MalformedReply):
    """The provider withheld the answer; in a batch, halving finds the case that it minds."""

    failure_class = "content_filter"


class WorkerLost(MalformedReply):
    """Every worker of a cluster that was given the call was lost; halving finds the record."""

    failure_class = "worker_lost"
    may_be_billed = False


class RequestRefused(BackendError):
    """The provider refuses this request, however often it is sent."""

    failure_class = "refused_request"


class OutOfCredit(RequestRefused):
    """The account has no money or quota left, so no further call can succeed."""


class AuthenticationFailed(BackendError):
    """The provider does not accept the credentials."""

    failure_class = "auth"


class RunFailed(KrisisError):
    """A run ended without a usable result."""


class PromptWithheld(UserWarning):
    """Prompts of a backend seem to show patient data, so their text was not stored."""


class ThirdPartyWarning(UserWarning):
    """Rows of real people are about to leave this machine."""
