"""What a suite has to say about a response before it becomes a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from krisis.backends.base import BackendResponse
from krisis.data.base import BaseDataSuite
from krisis.errors import BackendError
from krisis.execution.batches import Case


class Review:
    """Lets the suite check the signals, and takes out text that must not be stored."""

    def __init__(self, suite: BaseDataSuite) -> None:
        self._suite = suite
        self._is_needed = not suite.stores_text or type(suite).review is not BaseDataSuite.review

    def responses(
        self, cases: Sequence[Case], responses: list[BackendResponse]
    ) -> list[BackendResponse]:
        """Return the responses as they may be kept."""
        if not self._is_needed:
            return responses
        return [
            replace(
                response,
                signals=dict(self._suite.review(case.record, response.signals)),
                raw_response=response.raw_response if self._suite.stores_text else "",
            )
            for case, response in zip(cases, responses, strict=True)
        ]

    def error(self, error: BackendError) -> str:
        """Return the text of a failure; one that may quote the model is left out where it must."""
        text = str(error) if self._suite.stores_text else "(text not stored: restricted data)"
        return f"{error.failure_class}: {text}"
