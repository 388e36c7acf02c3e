"""Grok models of xAI, through the openai SDK."""

from __future__ import annotations

from typing import ClassVar, Unpack

from krisis.backends.openai import OpenAIFamilyBackend
from krisis.backends.provider import CallOptions


class GrokBackend(OpenAIFamilyBackend):
    """Models of xAI; its key is read from ``XAI_API_KEY``."""

    name = "grok"
    provider = "grok"
    key_variables = ("XAI_API_KEY",)
    default_base_url = "https://api.x.ai/v1"
    output_cap_option: ClassVar[str] = "max_completion_tokens"

    def __init__(
        self,
        model: str,
        *,
        max_completion_tokens: int | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        super().__init__(model, max_completion_tokens, options)
