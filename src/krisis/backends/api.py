"""Models of many vendors behind OpenRouter, through the openai SDK."""

from __future__ import annotations

from typing import Unpack

from krisis.backends.openai import OpenAIFamilyBackend
from krisis.backends.provider import CallOptions


class APIBackend(OpenAIFamilyBackend):
    """Models behind OpenRouter; its key is read from ``OPENROUTER_API_KEY``."""

    name = "openrouter"
    provider = "openrouter"
    is_of_unknown_make = True
    key_variables = ("OPENROUTER_API_KEY",)
    default_base_url = "https://openrouter.ai/api/v1"

    def __init__(
        self, model: str, *, max_tokens: int | None = None, **options: Unpack[CallOptions]
    ) -> None:
        super().__init__(model, max_tokens, options)
