"""What every provider shares: key, client, options, one call with its clock and its errors."""

from __future__ import annotations

import asyncio
import hmac
import importlib.util
import ipaddress
import logging
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypedDict
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from krisis.backends.batch_api import MAX_RESULTS_BYTES, BatchApi
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.backends.dialects import Dialect, DialectLadder, schema_in_words
from krisis.backends.failures import as_backend_error
from krisis.backends.reply import MAX_REPLY_CHARACTERS
from krisis.backends.retry import RetryPolicy
from krisis.backends.secrets import Secret, find_key, holds_secret
from krisis.backends.transport import http_client
from krisis.errors import BackendError, InvalidValue, MissingExtra
from krisis.json_values import JsonObject

# A reply needs far fewer; models that think first spend thousands before the first word.
BASE_TOKENS = 2048
TOKENS_PER_RECORD = 512

# At DEBUG these write the whole request, and with it the patient's data, into the log.
_TALKATIVE = (
    *("openai", "anthropic", "google_genai", "google.genai", "google.auth"),
    *("httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "urllib3"),
)


class CallOptions(TypedDict, total=False):
    """Options that every provider understands.

    ``client`` is a ready asynchronous client of the provider's SDK; it is used as it is and never
    closed. ``top_logprobs`` is how many alternatives to ask for with each token, 0 for none.
    """

    api_key: str
    base_url: str
    temperature: float | None
    reasoning_effort: str | None
    top_logprobs: int
    timeout_seconds: float
    max_retries: int
    retry_base_seconds: float
    retry_max_seconds: float
    client: Any


def silence_talkative_loggers() -> None:
    """Keep SDK and HTTP libraries from logging what they send."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


def is_installed(package: str) -> bool:
    """Say whether a package can be imported; of a dotted name, the parent may be missing too."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


class ProviderBackend(ChatBackend):
    """A chat backend over a vendor's SDK; a subclass makes the client and the one call."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    dialects: ClassVar[Sequence[Dialect]] = ("json_schema", "json_object", "text")
    default_base_url: ClassVar[str] = ""
    batch_api: ClassVar[type[BatchApi] | None] = None
    is_of_unknown_make: ClassVar[bool] = False

    def __init__(self, model: str, max_tokens: int | None, options: CallOptions) -> None:
        _refuse_bad_options(self, model, max_tokens, options)
        self.model = model
        self.name = f"{self.provider}/{model}"
        self.max_tokens = max_tokens
        self.base_url = _without_login(options.get("base_url") or self.default_base_url)
        self.third_party = _third_party(self.name, self.base_url)
        self.temperature = options.get("temperature")
        self.reasoning_effort = options.get("reasoning_effort")
        self.top_logprobs = options.get("top_logprobs", 5)
        self.timeout_seconds = options.get("timeout_seconds", 300.0)
        self.max_retries = options.get("max_retries", self.max_retries)
        self.retry_base_seconds = options.get("retry_base_seconds", self.retry_base_seconds)
        self.retry_max_seconds = options.get("retry_max_seconds", self.retry_max_seconds)
        self.ladder = DialectLadder(self.dialects, breaks_on_schemas=self.is_of_unknown_make)
        self._given_client = options.get("client")
        # Per event loop: the SDK's client and the HTTP client that it sends through.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, Any]] = (
            WeakKeyDictionary()
        )
        self._key = self._find_key(options.get("api_key"))
        RetryPolicy.of(self)  # refuses negative numbers now rather than at the first failure

    def _find_key(self, given: str | None) -> Secret:
        if self._given_client is not None or given:
            return Secret(given or "")
        if not is_installed(self.sdk):
            raise MissingExtra.named(self.extra, f"the backend {self.provider!r}")
        return find_key(self.key_variables, self.provider)

    def account(self, salt: bytes) -> str:
        """Name who is billed: provider, address and key, hashed so that none can be read from it.

        "" where a client was given, whose key is its own.
        """
        if self._given_client is not None:
            return ""
        told = "\0".join((self.provider, self.base_url.rstrip("/"), self._key.reveal()))
        return hmac.new(salt, told.encode("utf-8", "surrogatepass"), "sha256").hexdigest()

    def parameters(self, n_records: int) -> JsonObject:
        """Return the options of a call; without a cap of its own, one that grows with the batch."""
        cap = self.max_tokens or BASE_TOKENS + TOKENS_PER_RECORD * n_records
        chosen = {
            "temperature": self.temperature,
            "reasoning_effort": self.reasoning_effort,
            "top_logprobs": self.top_logprobs or None,
        }
        return {
            self.output_cap_option: cap,
            **{name: value for name, value in chosen.items() if value is not None},
        }

    def instructions(self, request: ChatRequest) -> str:
        """Return the system message and the schema, by the way in which they are sent now."""
        return f"{self.ladder.current}\n{schema_in_words(request)}"

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Make one call in the strictest reply format that the server is known to accept."""
        asked = self.ladder.current
        client = self.client()  # imports the SDK the first time, which is not on the clock
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self.timeout_seconds):
                reply = await self.call(client, request, asked)
        except Exception as error:
            # The SDK's own exception holds the request and its headers, so it is not chained.
            raise self.ladder.note_failure(self.known(error, request), asked) from None
        reply.latency_seconds = time.perf_counter() - started
        return self.received(reply, asked)

    def known(self, error: Exception, request: ChatRequest) -> BackendError:
        """Return the krisis error for an exception of the SDK, without key and patient text."""
        failure = as_backend_error(error, request, self._key)
        failure.args = (self._key.removed_from(str(failure)),)
        return failure

    def received(self, reply: ChatReply, asked: Dialect) -> ChatReply:
        """Return a reply as it may be kept, and learn from it how the server can be asked.

        A text that is too long to be read is cut before anything looks at all of its letters.
        """
        if len(reply.text) > MAX_REPLY_CHARACTERS:
            reply.text, reply.logprobs = reply.text[: MAX_REPLY_CHARACTERS + 1], ()
        reply.headers = _telling(reply.headers)
        self._remove_key(reply)
        self.ladder.note_reply(reply, asked)
        return reply

    def _remove_key(self, reply: ChatReply) -> None:
        """Take the key out of a reply that echoes it: replies are cached, stored and shown."""
        if not self._key.is_recognisable:
            return
        text = self._key.removed_from(reply.text)
        if text != reply.text:
            reply.logprobs = ()  # they spell the text out, token by token
        reply.text = text
        reply.model = self._key.removed_from(reply.model)
        reply.finish_reason = self._key.removed_from(reply.finish_reason)
        reply.headers = {
            name: self._key.removed_from(value) for name, value in reply.headers.items()
        }

    def client(self) -> Any:
        """Return the client of the running event loop; connections cannot cross loops."""
        if self._given_client is not None:
            return self._given_client
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            http = http_client()
            self._clients[loop] = self.make_client(self._key.reveal(), http), http
            silence_talkative_loggers()
        return self._clients[loop][0]

    def client_for_batches(self) -> tuple[Any, Any]:
        """Return a client, and its connections, for the large files of provider batches."""
        if self._given_client is not None:
            return self._given_client, None
        http = http_client(MAX_RESULTS_BYTES)
        made = self.make_client(self._key.reveal(), http)
        silence_talkative_loggers()
        return made, http

    async def aopen(self) -> None:
        """Import the SDK and make the client."""
        self.client()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        _, http = self._clients.pop(asyncio.get_running_loop(), (None, None))
        if http is not None:
            await http.aclose()

    @abstractmethod
    def make_client(self, key: str, http: Any) -> Any:
        """Return a client of the SDK that sends through this HTTP client and never retries."""

    @abstractmethod
    async def call(self, client: Any, request: ChatRequest, dialect: Dialect) -> ChatReply:
        """Translate the request, call the SDK once, translate the reply."""


def _telling(headers: Mapping[str, str]) -> dict[str, str]:
    """Keep what limits and support need; cookies and account names have no place in a file."""
    words = ("ratelimit", "retry-after", "request-id")
    return {
        name.lower(): value
        for name, value in headers.items()
        if any(word in name.lower() for word in words)
    }


def _third_party(name: str, address: str) -> str:
    """Name who is sent the records; nobody where the server is on this machine."""
    host = urlsplit(address).hostname or ""
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may begin with 127 and be anybody's
        here = host == "localhost"
    if here:
        return ""
    return f"{name} at {host}" if host else name


def _without_login(address: str) -> str:
    """Return an address, unless it holds a secret: addresses are stored with a run."""
    if holds_secret(address):
        raise InvalidValue(
            f"the base_url of {urlsplit(address).hostname} holds a login or a key, and would be "
            "stored with the run; give the address alone and the key in its environment variable"
        )
    return address


def _refuse_bad_options(
    backend: ProviderBackend, model: str, max_tokens: int | None, options: CallOptions
) -> None:
    unknown = sorted(set(options) - set(CallOptions.__annotations__))
    if unknown:
        raise InvalidValue(
            f"{type(backend).__name__} has no option {unknown[0]!r}; it understands "
            f"{', '.join([backend.output_cap_option, *CallOptions.__annotations__])}"
        )
    if not model or not model.strip():
        raise InvalidValue(f"{type(backend).__name__} needs the name of a model, not {model!r}")
    if max_tokens is not None and max_tokens < 1:
        raise InvalidValue(f"{backend.output_cap_option} must be 1 or more, not {max_tokens}")
    if options.get("timeout_seconds", 1.0) <= 0:
        raise InvalidValue(f"timeout_seconds must be above 0, not {options['timeout_seconds']}")
