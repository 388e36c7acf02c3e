"""Causal language models from a folder or a hub, run in this process with transformers."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from krisis.backends.base import MadeAgain, recipe
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.backends.dialects import schema_in_words
from krisis.backends.failures import as_backend_error
from krisis.backends.secrets import Secret
from krisis.backends.signals import TokenLogprob
from krisis.data.base import BaseDataSuite
from krisis.errors import InvalidFile, InvalidValue, MissingExtra, UserError
from krisis.json_values import JsonMapping, JsonObject

# Requests that arrive within this time are generated together.
GATHERING_SECONDS = 0.02

_Asked = tuple[ChatRequest, "asyncio.Future[ChatReply]"]


class TransformersBackend(ChatBackend):
    """A causal language model; concurrent calls are generated together, in one padded batch.

    ``model`` is a folder or a name on the hub (the token for gated ones stands in ``HF_TOKEN``).
    transformers cannot hold a model to a schema, so the schema is written into the prompt.
    """

    name = "hf"
    provider = "hf"
    max_retries = 0
    packages = ("torch", "transformers")
    output_cap_option = "max_new_tokens"

    def __init__(
        self,
        model: str,
        *,
        max_new_tokens: int | None = None,
        temperature: float = 0.0,
        top_logprobs: int = 5,
        device: str = "cpu",
        n_together: int = 8,
    ) -> None:
        if any(importlib.util.find_spec(part) is None for part in ("torch", "transformers")):
            raise MissingExtra.named("hf", "the backend 'hf'")
        if n_together < 1:
            raise InvalidValue(f"n_together must be 1 or more, not {n_together}")
        self.model = model
        self.name = f"hf/{model}"
        self.max_new_tokens = max_new_tokens
        self.temperature = temperature
        self.top_logprobs = top_logprobs
        self.device = device
        self.n_together = n_together
        self._gatherings: WeakKeyDictionary[asyncio.AbstractEventLoop, _Gathering]
        self._gatherings = WeakKeyDictionary()

    def __reduce__(self) -> MadeAgain:
        """Travel as a recipe: a worker of a cluster loads the model itself."""
        return recipe(self)

    def prepare(self, suite: BaseDataSuite) -> None:
        """Take the question and refuse a model of another kind before any row."""
        super().prepare(suite)
        refuse_other_architectures(self.model)

    @property
    def is_here(self) -> bool:
        """Say whether the model is a folder; of a name, the hub is asked."""
        return Path(self.model).is_dir()

    async def aopen(self) -> None:
        """Load the model."""
        await asyncio.to_thread(lambda: self._loaded)

    def parameters(self, n_records: int) -> JsonObject:
        """Return the options of a call; the cap grows with the batch unless it is set."""
        return {
            "max_new_tokens": self.max_new_tokens or 128 + 256 * n_records,
            "temperature": self.temperature,
            "top_logprobs": self.top_logprobs,
            "device": self.device,
        }

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Wait for the others that ask at this moment, then generate together with them."""
        loop = asyncio.get_running_loop()
        gathering = self._gatherings.setdefault(loop, _Gathering())
        own: _Asked = (request, loop.create_future())
        gathering.waiting.append(own)
        try:
            await asyncio.sleep(GATHERING_SECONDS)
            while not own[1].done():
                async with gathering.turn:
                    if not own[1].done():
                        await self._generate_together(gathering)
        finally:
            gathering.waiting = [pair for pair in gathering.waiting if pair is not own]
        return own[1].result()

    async def _generate_together(self, gathering: _Gathering) -> None:
        together = gathering.taken(self.n_together)
        try:
            replies = await asyncio.to_thread(self._generate, [request for request, _ in together])
        except asyncio.CancelledError:  # the clock of one call must not cost the others theirs
            gathering.waiting[:0] = together
            raise
        except Exception as error:
            for request, waiting in together:
                waiting.set_exception(as_backend_error(error, request, Secret("")))
            return
        for (_, waiting), reply in zip(together, replies, strict=True):
            waiting.set_result(reply)

    @cached_property
    def _loaded(self) -> _LoadedModel:
        try:
            return _LoadedModel.from_name(self.model, self.device)
        except UserError:
            raise
        except (OSError, ValueError, RuntimeError) as error:  # no weights, no such device, memory
            raise _not_loaded(self.model, error) from None

    def _generate(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        started = time.perf_counter()
        seed = requests[0].sample_index
        replies = self._loaded.generate(requests, requests[0].parameters, seed=seed)
        elapsed_seconds = time.perf_counter() - started
        return [
            dataclasses.replace(reply, model=self.model, latency_seconds=elapsed_seconds)
            for reply in replies
        ]


@dataclasses.dataclass(slots=True)
class _Gathering:
    """The requests of one event loop that wait for the model."""

    turn: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    waiting: list[_Asked] = dataclasses.field(default_factory=list)

    def taken(self, n_most: int) -> list[_Asked]:
        """Take out those who share the options of the first, up to a number."""
        options = self.waiting[0][0].parameters
        together = [pair for pair in self.waiting if pair[0].parameters == options][:n_most]
        self.waiting = [pair for pair in self.waiting if pair not in together]
        return together


@dataclasses.dataclass(slots=True)
class _LoadedModel:
    """A model in memory with its tokenizer."""

    model: Any
    tokenizer: Any

    @classmethod
    def from_name(cls, name: str, device: str) -> _LoadedModel:
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        refuse_other_architectures(name)
        tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        model = AutoModelForCausalLM.from_pretrained(name).to(device).eval()
        return cls(model, tokenizer)

    def generate(
        self, requests: Sequence[ChatRequest], parameters: JsonMapping, *, seed: int
    ) -> list[ChatReply]:
        """Write one reply for each request."""
        import torch

        texts = [self._text(request) for request in requests]
        inputs = self.tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        inputs = {
            name: inputs[name].to(self.model.device) for name in ("input_ids", "attention_mask")
        }
        temperature = parameters["temperature"]
        sampling = {"do_sample": True, "temperature": temperature} if temperature else {}
        torch.manual_seed(seed)
        with torch.inference_mode():
            written = self.model.generate(
                **inputs,
                **({"do_sample": False} | sampling),
                max_new_tokens=parameters["max_new_tokens"],
                pad_token_id=self.tokenizer.pad_token_id,
                return_dict_in_generate=True,
                output_logits=True,
            )
        n_prompt = inputs["input_ids"].shape[1]
        return [
            self._reply(
                written.sequences[row, n_prompt:].tolist(),
                [step[row] for step in written.logits],
                n_input=int(inputs["attention_mask"][row].sum()),
                n_alternatives=parameters["top_logprobs"],
            )
            for row in range(len(requests))
        ]

    def _text(self, request: ChatRequest) -> str:
        system, user = schema_in_words(request), request.user
        if not self.tokenizer.chat_template:
            return f"{system}\n\n{user}\n\nJSON:"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        try:
            return self._templated(messages)
        except Exception:  # templates without a system role raise errors of many kinds
            return self._templated([{"role": "user", "content": f"{system}\n\n{user}"}])

    def _templated(self, messages: list[dict[str, str]]) -> str:
        text: str = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return text

    def _reply(
        self, tokens: list[int], logits: Sequence[Any], *, n_input: int, n_alternatives: int
    ) -> ChatReply:
        ends = self._ends()
        length = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
        pieces = self._pieces(tokens[:length])
        return ChatReply(
            text="".join(pieces),
            finish_reason="stop" if length < len(tokens) else "length",
            input_tokens=n_input,
            output_tokens=min(length + 1, len(tokens)),
            logprobs=tuple(
                self._logprob(piece, token, step, n_alternatives)
                for piece, token, step in zip(pieces, tokens[:length], logits, strict=False)
            ),
        )

    def _ends(self) -> set[int]:
        end = self.model.generation_config.eos_token_id
        known = end if isinstance(end, list) else [end]
        return {token for token in [*known, self.tokenizer.eos_token_id] if token is not None}

    def _pieces(self, tokens: list[int]) -> list[str]:
        """Return the text that each token adds; decoding them one by one would lose spaces."""
        pieces, before = [], ""
        for n_tokens in range(1, len(tokens) + 1):
            text = self.tokenizer.decode(tokens[:n_tokens], skip_special_tokens=True)
            whole = text.rstrip("\ufffd")  # half a character is completed by the next token
            pieces.append(whole[len(before) :])
            before = max(before, whole, key=len)
        return pieces

    def _logprob(self, piece: str, token: int, logits: Any, n_alternatives: int) -> TokenLogprob:
        shares = logits.float().log_softmax(-1)
        values, indices = shares.topk(min(n_alternatives, shares.shape[-1]))
        alternatives = zip(
            self.tokenizer.convert_ids_to_tokens(indices.tolist()), values.tolist(), strict=True
        )
        return TokenLogprob(piece, float(shares[token]), tuple(alternatives))


def refuse_other_architectures(name: str) -> None:
    """Raise for a name that is no model, or no causal language model."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise _not_loaded(name, error) from None
    built = list(config.architectures or [])
    if not any(kind.endswith(("ForCausalLM", "LMHeadModel")) for kind in built):
        raise InvalidValue(
            f"{name!r} is a {', '.join(built) or config.model_type}; the backend 'hf' runs causal "
            "language models only (…ForCausalLM), choose one of those"
        )


def _not_loaded(name: str, error: Exception) -> InvalidFile:
    told = (str(error).splitlines() or [type(error).__name__])[0]
    return InvalidFile(f"the model {name!r} cannot be loaded: {told}")
