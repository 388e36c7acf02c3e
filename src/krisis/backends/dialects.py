"""How a schema is put to a server, from the strictest way to the plainest, and what it bears."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.json_text import NotStrictJson, loads_strict
from krisis.backends.reply import CUT_REASONS, REFUSAL_REASON
from krisis.errors import BackendError, OutOfCredit, ProviderUnavailable

Dialect = Literal["json_schema", "json_object", "text"]


class DialectRejected(ProviderUnavailable):
    """The server does not bear the way it was asked; the next attempt asks in a plainer one."""


@dataclass(slots=True)
class DialectLadder:
    """Remembers, per backend, the strictest way of asking that a server has shown to honour.

    A server may reject a schema (400, 422) or ignore it (200 with other text). Once a way of asking
    has worked, later errors are taken for what they say. ``breaks_on_schemas`` is for servers of
    unknown make, where 500 twice in a row may mean the same; with a large provider it means trouble
    of its own.
    """

    steps: Sequence[Dialect] = ("json_schema", "json_object", "text")
    place: int = 0
    proven: bool = False
    n_server_errors: int = 0
    with_logprobs: bool = True
    breaks_on_schemas: bool = False

    @property
    def current(self) -> Dialect:
        """Return the way to ask now."""
        return self.steps[self.place]

    def note_reply(self, reply: ChatReply, asked: Dialect) -> None:
        """Learn from a reply: strict JSON proves the way of asking, other text steps down."""
        self.n_server_errors = 0
        reason = reply.finish_reason.lower()
        if self.proven or asked != self.current or reason in CUT_REASONS | {REFUSAL_REASON}:
            return
        try:
            self.proven = isinstance(loads_strict(reply.text), dict)
        except NotStrictJson:
            if reply.text.strip():
                self._step_down()

    def note_failure(self, error: BackendError, asked: Dialect) -> BackendError:
        """Learn from an error; return it, or one that is retried where asking plainer may help."""
        if (
            self.with_logprobs
            and error.status in (400, 403, 422)
            and "logprob" in str(error).lower()
        ):
            self.with_logprobs = False
            return self._rejected(error, "log-probabilities")
        self.n_server_errors += self.breaks_on_schemas and error.status in (500, 501)
        refused = error.status in (400, 422) or self.n_server_errors >= 2
        if self.proven or not refused or isinstance(error, OutOfCredit):
            return error
        if asked == self.current and not self._step_down():
            self.place = 0  # refused in every way: the reason lies elsewhere
            return error
        return self._rejected(error, f"the {asked} format")

    def _step_down(self) -> bool:
        self.n_server_errors = 0
        if self.place + 1 >= len(self.steps):
            return False
        self.place += 1
        return True

    def _rejected(self, error: BackendError, what: str) -> DialectRejected:
        return DialectRejected(f"{error} (asked without {what} from now on)", status=error.status)


def schema_in_words(request: ChatRequest) -> str:
    """Return the system message with the schema written out, for servers that take none."""
    schema = json.dumps(request.schema, ensure_ascii=False)
    return f"{request.system}\n\nThe reply must satisfy this JSON schema:\n{schema}"
