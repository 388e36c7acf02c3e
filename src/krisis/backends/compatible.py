"""Any server that speaks OpenAI's chat completions: vLLM, Ollama, LM Studio, llama.cpp, …"""

from __future__ import annotations

import os
from typing import Unpack

from krisis.backends.openai import OpenAIFamilyBackend
from krisis.backends.provider import CallOptions, is_installed
from krisis.backends.secrets import Secret
from krisis.errors import InvalidValue, MissingExtra


class CompatibleBackend(OpenAIFamilyBackend):
    """A server at ``base_url``; a key is sent only if given or set in ``COMPATIBLE_API_KEY``.

    Keys of other providers are never sent to an address that is not theirs.
    """

    name = "compatible"
    provider = "compatible"
    is_of_unknown_make = True
    key_variables = ("COMPATIBLE_API_KEY",)

    def __init__(
        self, model: str, *, max_tokens: int | None = None, **options: Unpack[CallOptions]
    ) -> None:
        super().__init__(model, max_tokens, options)
        if self._given_client is None and not self.base_url.startswith(("http://", "https://")):
            raise InvalidValue(
                f"the backend 'compatible' needs base_url, the address of the server, not "
                f"{self.base_url!r}; for example http://localhost:8000/v1"
            )

    def _find_key(self, given: str | None) -> Secret:
        if self._given_client is None and not is_installed(self.sdk):
            raise MissingExtra.named(self.extra, f"the backend {self.provider!r}")
        return Secret(given or os.environ.get(self.key_variables[0], ""))
