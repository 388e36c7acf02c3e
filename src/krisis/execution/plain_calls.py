"""One call of a plain backend, on this machine or on a worker: what goes in, what may come out.

A worker of a cluster imports this and little else, so that it starts quickly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.chat import PromptMode
from krisis.backends.failures import own_backend_error
from krisis.data.base import PatientRecord
from krisis.errors import BackendError, CallTimedOut, MalformedReply, MissingExtra, MissingKey


@dataclass(frozen=True, slots=True)
class PlainCall:
    """Records that share a call, and which of the repeats it is."""

    records: Sequence[PatientRecord]
    mode: PromptMode
    sample_index: int

    @property
    def n_records(self) -> int:
        """Return how many records share the call."""
        return len(self.records)


def error_text(error: BaseException) -> str:
    """Return the kind and the words of an unexpected error."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an error of the user's own may not even be able to say what it is
        return type(error).__name__


def timed_out_error(seconds: float) -> CallTimedOut:
    """Return the error of a call that was cut by its clock."""
    return CallTimedOut(
        f"no reply within {seconds:g} seconds; raise timeout_seconds if the model is slow"
    )


def known_error(error: BaseException) -> BaseException:
    """Return an error of krisis for whatever a backend raised; the user's own pass as they are."""
    if isinstance(error, asyncio.CancelledError) and not _is_being_cancelled():
        return BackendError("CancelledError: the backend cancelled its own call")
    known = (BackendError, MissingKey, MissingExtra)
    if isinstance(error, known) or not isinstance(error, Exception):
        return error
    return own_backend_error(error, error_text(error))


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def evaluated(backend: BaseBackend, call: PlainCall) -> list[BackendResponse]:
    """Call the backend; however it ends, what comes out is an exception that can travel."""
    # Whatever the backend does to a record must not reach the row.
    given = [copied(record) for record in call.records]
    try:
        if call.mode == "single":
            return _checked_kind([backend.evaluate_sample(given[0], call.sample_index)])
        responses = _checked_kind(list(backend.evaluate_batch(given)))
    except (Exception, KeyboardInterrupt) as error:
        if not isinstance(error, StopIteration | CancelledError):
            raise
        # A future cannot carry the one, and would take the other for its own end.
        raise BackendError(f"{type(error).__name__}: the backend gave no answer") from error
    except BaseException as error:  # sys.exit() in a backend is its own end, not the run's
        raise BackendError(error_text(error)) from error
    return checked_count(responses, len(call.records))


def copied(record: PatientRecord) -> PatientRecord:
    """Return a record with mappings of its own."""
    return replace(record, features=dict(record.features), metadata=dict(record.metadata))


def checked_count(responses: list[BackendResponse], n_records: int) -> list[BackendResponse]:
    """Return the responses of a call, if there is one for every record."""
    if len(responses) != n_records:
        raise MalformedReply(
            f"{len(responses)} responses came back for {n_records} records", **paid(responses)
        )
    return responses


def _checked_kind(responses: list[BackendResponse]) -> list[BackendResponse]:
    for response in responses:
        if not isinstance(response, BackendResponse):
            raise BackendError(
                f"the backend returned {type(response).__name__} instead of a BackendResponse; "
                "return one for every record",
                **paid([one for one in responses if isinstance(one, BackendResponse)]),
            )
    return responses


def paid(responses: list[BackendResponse]) -> dict[str, int]:
    """Return the tokens of responses, also of those that cannot be used: they were paid for.

    What a backend states only as a total counts as output, the dearer kind.
    """
    return {
        "input_tokens": sum(response.input_tokens or 0 for response in responses),
        "output_tokens": sum(_output_tokens(response) for response in responses),
    }


def _output_tokens(response: BackendResponse) -> int:
    if response.output_tokens is None and response.total_tokens is not None:
        return max(response.total_tokens - (response.input_tokens or 0), 0)
    return response.output_tokens or 0
