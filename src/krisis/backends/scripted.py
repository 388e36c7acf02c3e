"""A function in place of a model: an offline double for tests, examples and trials."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest

Script = Callable[[ChatRequest], ChatReply | str | Awaitable[ChatReply | str]]


class ScriptedBackend(ChatBackend):
    """Lets a function play the provider: it sees the whole request and returns the reply.

    The reply goes the way of every other: it is parsed, checked, retried and journalled. A function
    may raise any `BackendError` to play a failing provider.

    >>> from krisis.data.base import PatientRecord, Task
    >>> backend = ScriptedBackend(
    ...     lambda request: '{"abstained": false, "prediction": 1, "confidence": 0.7}'
    ... )
    >>> backend.task = Task(
    ...     "detection", "Is it so?", {0: "no", 1: "yes"}, {}, "Abstain when unsure."
    ... )
    >>> backend.evaluate(PatientRecord({"age": 50}, 1)).prediction
    1
    """

    name = "scripted"
    provider = "scripted"

    def __init__(
        self,
        script: Script,
        *,
        model: str = "script",
        max_retries: int = 5,
        retry_base_seconds: float = 0.5,
        retry_max_seconds: float = 60.0,
    ) -> None:
        self.script = script
        self.model = model
        self.max_retries = max_retries
        self.retry_base_seconds = retry_base_seconds
        self.retry_max_seconds = retry_max_seconds

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Ask the function."""
        said: Any = self.script(request)
        if inspect.isawaitable(said):
            said = await said
        return said if isinstance(said, ChatReply) else ChatReply(said, "stop", self.model)
