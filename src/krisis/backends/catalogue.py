"""From a name such as `openai/NAME` or `guideline` to a backend that is ready to be asked."""

from __future__ import annotations

import difflib
from typing import Any

from krisis import registry
from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.backends.provider import CallOptions, ProviderBackend
from krisis.errors import InvalidValue, MissingKey, UnknownName
from krisis.json_values import JsonObject


def backend_from_name(name: str, **options: Any) -> BaseBackend:
    """Return the backend of a name: `PROVIDER/MODEL`, or the plain name of one without models.

    The place of a class of the user's own, such as `my_backend.py:Rule`, is a name as well.
    Options that are None are taken as not given. ``max_output_tokens`` is passed on under the
    name that the provider uses.
    """
    family, slash, model = name.partition("/")
    is_own = family not in registry.table("backends") and registry.is_place(name)
    if is_own:
        family, slash, model = name, "", ""
    if not (is_own or slash or family in registry.table("backends")):
        _refuse_model_alone(name)
    kind = registry.find_or_load("backends", family)
    if not (isinstance(kind, type) and issubclass(kind, BaseBackend)):
        raise InvalidValue(f"{family!r} is not a backend; name a class derived from BaseBackend")
    given = {option: value for option, value in options.items() if value is not None}
    accepted = _accepted_options(kind)
    if (cap := given.pop("max_output_tokens", None)) is not None:
        given[getattr(kind, "output_cap_option", "max_output_tokens")] = cap
    if "model" in accepted and not is_own:
        if not model:
            raise InvalidValue(f"the backend {name!r} lacks a model; write {family}/NAME")
        given["model"] = model
    elif slash:
        raise InvalidValue(f"the backend {family!r} has no models, received {name!r}; omit /…")
    max_retries = None if "max_retries" in accepted else given.pop("max_retries", None)
    if not getattr(kind, "takes_any_option", is_own and registry.options_of(kind)[1]):
        _refuse_unknown(family, given, accepted)
    backend = registry.made(kind, given, f"the backend {family!r}", "--model-option NAME=VALUE")
    if max_retries is not None:
        backend.max_retries = max_retries
    return backend


def _refuse_model_alone(name: str) -> None:
    """Refuse a model without its provider, unless the name is close to that of a backend."""
    known = registry.names("backends")
    if not difflib.get_close_matches(name, known, n=1, cutoff=0.5):
        raise UnknownName(
            f"unknown backend {name!r}; a model is named with its provider, such as "
            f"openai/{name}. Known: {', '.join(known)}."
        )


def _accepted_options(kind: type[BaseBackend]) -> set[str]:
    named, takes_any = registry.options_of(kind)
    return named | (set(CallOptions.__annotations__) if takes_any else set())


def _refuse_unknown(family: str, given: JsonObject, accepted: set[str]) -> None:
    unknown = sorted(set(given) - accepted)
    if unknown:
        known = ", ".join(sorted(accepted - {"model"})) or "none"
        raise InvalidValue(
            f"the backend {family!r} has no option {unknown[0]!r}; it understands: {known}"
        )


class DryRunBackend(ChatBackend):
    """A model that is not here: it has its name and builds prompts, no more."""

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


def dry_run_backend(name: str, **options: Any) -> BaseBackend:
    """Return the backend of a name for its prompts alone.

    A provider's class checks its options as ever and, given a client that is never asked, needs
    neither key nor SDK.
    """
    family, _, model = name.partition("/")
    stand_in = DryRunBackend(family, model)
    kind = _chat_backend(name)
    if kind is not None and issubclass(kind, ProviderBackend):
        return backend_from_name(name, **options, client=stand_in)
    return stand_in


def _chat_backend(name: str) -> type[ChatBackend] | None:
    family = name.partition("/")[0]
    kind = registry.find("backends", family) if family in registry.table("backends") else None
    return kind if isinstance(kind, type) and issubclass(kind, ChatBackend) else None
