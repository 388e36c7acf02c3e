"""From whatever an SDK raises to the error that krisis knows, in one place for all providers."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Mapping

from krisis.backends.chat import ChatRequest
from krisis.backends.retry import retry_after_seconds
from krisis.backends.scrubbing import provider_words
from krisis.backends.secrets import Secret
from krisis.errors import (
    AuthenticationFailed,
    BackendError,
    CallTimedOut,
    ContentFiltered,
    OutOfCredit,
    ProviderUnavailable,
    RateLimited,
    RequestRefused,
    TlsRefused,
    Unreachable,
)

_ADVICE = {
    400: "change the request as the provider says",
    401: "check the key",
    402: "the account has no quota left, so add credit to it",
    403: "check what the key is allowed to do",
    404: "check the name of the model and the address",
    413: "send fewer cases in one call",
    422: "change the request as the provider says",
}
_TRANSIENT = frozenset({408, 409, 425})
_NO_CREDIT = ("insufficient_quota", "billing_hard_limit", "credit balance is too low")
_TOO_LONG = (
    *("context_length", "context length", "context window", "context is too long"),
    *("prompt is too long", "input is too long", "input token count", "too many tokens"),
)
_WITHHELD = ("moderation", "flagged", "content violates")
# No connection can be made: nothing listens, or no network leads there.
_NO_ROUTE = {errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH}
# Parts of the class names by which network libraries and SDKs call a moment's trouble.
_LIMITED = ("RateLimit", "TooManyRequests", "Throttl", "ResourceExhausted")
_NETWORK = (
    *("ConnectError", "ConnectionError", "NetworkError", "TransportError", "ProtocolError"),
    *("ReadError", "WriteError", "Disconnected", "PayloadError", "ChunkedEncodingError"),
    *("IncompleteRead", "BadStatusLine", "SSLEOFError", "SSLZeroReturnError", "URLError"),
    *("ServiceUnavailable", "Overloaded", "InternalServerError"),
)
_UNREADABLE = ("DecodeError", "ValidationError", "UnknownApiResponse", "DecodingError")


def as_backend_error(error: Exception, request: ChatRequest, key: Secret) -> BackendError:
    """Return the krisis error for an exception of an SDK, free of keys and of patient text."""
    if (known := _behind(error)) is not None:
        return known
    who = f"{request.provider}/{request.model}"
    status = _status(error)
    if status is not None:
        words = provider_words(error, request, key)
        return _of_status(error, status, who, words, overlong_advice(request))
    kinds = " ".join(kind.__name__ for kind in type(error).__mro__)
    if isinstance(error, TimeoutError) or "Timeout" in kinds:
        return CallTimedOut(f"{who} gave no answer in time; raise timeout_seconds if that is usual")
    if isinstance(error, OSError):
        return ProviderUnavailable(
            f"{who} could not be reached ({provider_words(error, request, key)})"
        )
    if any(word in kinds for word in _UNREADABLE):
        return ProviderUnavailable(f"{who} sent a response that its SDK cannot read")
    return BackendError(f"{who}: {type(error).__name__}: {provider_words(error, request, key)}")


def overlong_advice(request: ChatRequest) -> str:
    """Say what helps when a request is longer than the model can read."""
    if request.n_shared_characters:
        return (
            f"the text that its cases share has {request.n_shared_characters:,} characters, and a "
            "smaller batch does not shorten it: ask a model with a longer context, or cut the text"
        )
    if request.n_records > 1:
        return "send fewer cases in one call with a smaller batch size"
    return "one case alone is too long: ask a model with a longer context, or show fewer features"


def own_backend_error(error: Exception, words: str) -> BackendError:
    """Return the krisis error for whatever a backend of the user's own raised.

    What a network library or an SDK raises for a moment's trouble is told by its base class, the
    status it carries or its name, so that it is retried as the backend's ``max_retries`` says.
    """
    if (known := _behind(error)) is not None:
        return known
    behind: BaseException | None = error
    while behind is not None:  # a library's error may be what another was raised from
        if isinstance(behind, Exception):
            status = _status(behind) or _status_of_library(behind)
            if status is not None:
                return _of_status(behind, status, "the backend", words)
            if (kind := _kind_of_own(behind)) is not BackendError:
                return kind(words)
        behind = behind.__cause__
    return BackendError(words)


def _kind_of_own(error: Exception) -> type[BackendError]:
    kinds = " ".join(kind.__name__ for kind in type(error).__mro__)
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsRefused
    if "gaierror" in kinds or getattr(error, "errno", None) in _NO_ROUTE:
        return Unreachable
    if isinstance(error, TimeoutError) or "Timeout" in kinds:
        return CallTimedOut
    if any(word in kinds for word in _LIMITED):
        return RateLimited
    if isinstance(error, ConnectionError) or any(word in kinds for word in _NETWORK):
        return ProviderUnavailable
    return BackendError


def _status_of_library(error: Exception) -> int | None:
    """Return the status of libraries that keep it elsewhere: aiohttp, urllib, google-genai."""
    for name in ("status", "code"):
        value = getattr(error, name, None)
        is_response = type(error).__name__ in ("ClientResponseError", "HTTPError") or any(
            kind.__name__ == "APIError" for kind in type(error).__mro__
        )
        if is_response and isinstance(value, int) and 400 <= value <= 599:
            return value
    return None


def _behind(error: BaseException | None) -> BackendError | None:
    """Return what the transport said, which an SDK wraps into an error of its own.

    Only what an error was raised from: its context may be the error of another call.
    """
    while error is not None and not isinstance(error, BackendError):
        error = error.__cause__
    return error


def _of_status(
    error: Exception, status: int, who: str, words: str, overlong: str = _ADVICE[413]
) -> BackendError:
    response = getattr(error, "response", None)
    headers: Mapping[str, str] = getattr(response, "headers", None) or {}
    body = getattr(error, "body", None) or getattr(error, "details", None)
    message = f"{who} answered {status}: {words}"
    said = f"{body} {words}".lower()
    if status == 402 or (status in (400, 403, 429) and any(word in said for word in _NO_CREDIT)):
        return OutOfCredit(f"{message}; {_ADVICE[402]}", status=status)
    if status == 403 and any(word in said for word in _WITHHELD):
        return ContentFiltered(
            f"{message}; see its content policy or ask another model", status=403
        )
    if status == 429:
        return RateLimited(
            message, status=status, retry_after_seconds=retry_after_seconds(headers, body)
        )
    if status in _TRANSIENT or status >= 500:
        return ProviderUnavailable(
            message, status=status, retry_after_seconds=retry_after_seconds(headers, body)
        )
    kind = AuthenticationFailed if status in (401, 403) else RequestRefused
    advice = _ADVICE.get(status, _ADVICE[400])
    if status == 413 or (status in (400, 422) and any(word in said for word in _TOO_LONG)):
        advice = overlong
    return kind(f"{message}; {advice}", status=status)


def _status(error: Exception) -> int | None:
    """Return the status of the response behind an error; a mere ``code`` may be anybody's."""
    for holder in (error, getattr(error, "response", None)):
        value = getattr(holder, "status_code", None)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    return None
