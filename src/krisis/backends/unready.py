"""A backend that cannot be asked yet, for want of a key, an SDK or a model: it builds prompts."""

from __future__ import annotations

from typing import Any

from krisis import registry
from krisis.backends.base import BaseBackend
from krisis.backends.catalogue import backend_from_name
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.backends.provider import ProviderBackend
from krisis.errors import MissingKey


class UnreadyBackend(ChatBackend):
    """Stands for a model that is not here: it has its name and builds prompts, no more."""

    def __init__(self, provider: str, model: str) -> None:
        self.name = f"{provider}/{model}"
        self.provider = provider
        self.model = model

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Refuse: there is nobody to ask."""
        raise MissingKey(f"{self.name} cannot be asked in a dry run")


def builds_prompts(name: str) -> bool:
    """Say whether the name is that of a chat backend of krisis or of a plug-in."""
    return _chat_backend(name) is not None


def unready_backend(name: str, **options: Any) -> BaseBackend:
    """Return the backend of a name for its prompts alone.

    A provider's class checks its options as ever and, given a client that is never asked, needs
    neither key nor SDK.
    """
    family, _, model = name.partition("/")
    stand_in = UnreadyBackend(family, model)
    kind = _chat_backend(name)
    if kind is not None and issubclass(kind, ProviderBackend):
        return backend_from_name(name, **options, client=stand_in)
    return stand_in


def _chat_backend(name: str) -> type[ChatBackend] | None:
    family = name.partition("/")[0]
    kind = registry.find("backends", family) if family in registry.table("backends") else None
    return kind if isinstance(kind, type) and issubclass(kind, ChatBackend) else None
