from __future__ import annotations

import contextlib
import json
import logging
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from krisis import registry
from krisis.backends.anthropic import AnthropicBackend
from krisis.backends.catalogue import backend_from_name
from krisis.backends.chat import ChatRequest
from krisis.backends.compatible import CompatibleBackend
from krisis.backends.failures import as_backend_error
from krisis.backends.gemini import GeminiBackend
from krisis.backends.grok import GrokBackend
from krisis.backends.openai import OpenAIBackend, _refuse_error
from krisis.backends.provider import ProviderBackend, _telling, silence_talkative_loggers
from krisis.backends.response_fields import reply_from_completion
from krisis.backends.secrets import Secret, find_key
from krisis.data.base import RecordListSuite
from krisis.errors import (
    AuthenticationFailed,
    BackendError,
    CallTimedOut,
    ContentFiltered,
    InvalidValue,
    MissingExtra,
    MissingKey,
    OutOfCredit,
    ProviderUnavailable,
    RateLimited,
    UnknownName,
)

CLOUD = ["openai", "anthropic", "grok", "gemini", "openrouter"]


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in CLOUD:
        for variable in registry.find("backends", name).key_variables:
            monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("name", CLOUD)
@pytest.mark.usefixtures("no_keys")
def test_a_missing_key_says_what_to_type(name: str) -> None:
    variable = registry.find("backends", name).key_variables[0]
    with pytest.raises(MissingKey, match=f"type: export {variable}=…"):
        backend_from_name(f"{name}/some-model")


@pytest.mark.parametrize("name", [*CLOUD, "compatible", "local"])
def test_a_missing_extra_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = registry.find("backends", name)
    sdk, extra = getattr(kind, "sdk", "xllamacpp"), getattr(kind, "extra", "local")
    monkeypatch.setattr("importlib.util.find_spec", lambda wanted: None)
    assert sdk
    options: dict[str, Any] = {"base_url": "http://127.0.0.1:1"} if name == "compatible" else {}
    with pytest.raises(MissingExtra, match=rf"type: pip install '\.\[{extra}\]'"):
        backend_from_name(f"{name}/some-model", **options)


@pytest.mark.usefixtures("no_keys")
def test_a_key_is_found_in_a_dotenv_file_and_the_environment_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path(".env").write_text("# mine\nexport XAI_API_KEY='from-file'\nbroken\n", encoding="utf-8")
    assert find_key(["XAI_API_KEY"], "grok").reveal() == "from-file"
    monkeypatch.setenv("XAI_API_KEY", "from-environment")
    assert find_key(["XAI_API_KEY"], "grok").reveal() == "from-environment"


def test_a_secret_never_shows_itself() -> None:
    secret = Secret("sk-1234")
    for shown in (repr(secret), str(secret), f"{secret}", repr([secret]), repr({"k": secret})):
        assert "sk-1234" not in shown
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert secret.removed_from("bad key sk-1234!") == "bad key …!"


def test_keys_do_not_appear_in_what_identifies_a_backend() -> None:
    backend = OpenAIBackend("m", api_key="sk-1234")
    assert "sk-1234" not in repr(backend) + repr(vars(backend)) + repr(backend.identity())


def test_the_key_of_one_provider_is_not_sent_to_another_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1234")
    monkeypatch.delenv("COMPATIBLE_API_KEY", raising=False)
    backend = CompatibleBackend("m", base_url="http://127.0.0.1:1/v1")
    assert backend._key.reveal() == ""
    assert backend.make_client(backend._key.reveal(), None).api_key == "none"


@pytest.mark.parametrize(
    ("name", "kind", "cap"),
    [
        ("openai/gpt-x", OpenAIBackend, "max_completion_tokens"),
        ("grok/grok-x", GrokBackend, "max_completion_tokens"),
        ("anthropic/claude-x", AnthropicBackend, "max_tokens"),
        ("gemini/gemini-x", GeminiBackend, "max_output_tokens"),
    ],
)
def test_a_backend_is_made_from_its_name(name: str, kind: type, cap: str) -> None:
    backend = backend_from_name(name, api_key="k", max_output_tokens=99, temperature=None)
    assert type(backend) is kind
    assert isinstance(backend, ProviderBackend)
    assert backend.model == name.partition("/")[2]
    assert backend.parameters(8)[cap] == 99
    assert "temperature" not in backend.parameters(8)


def test_a_model_name_may_hold_slashes() -> None:
    backend = backend_from_name("openrouter/vendor/model:free", api_key="k")
    assert isinstance(backend, ProviderBackend)
    assert backend.model == "vendor/model:free"


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("openai", {}, "write openai/NAME"),
        ("openai/m", {"api_key": "k", "speed": 3}, "no option 'speed'"),
        ("openai/m", {"api_key": "k", "max_output_tokens": 0}, "must be 1 or more"),
        ("openai/m", {"api_key": "k", "timeout_seconds": 0}, "must be above 0"),
        (
            "openai/m",
            {"api_key": "k", "max_retries": -1},
            "numbers of 0 or more, not max_retries=-1",
        ),
        ("anthropic/m", {"api_key": "k", "temperature": 0.5}, "takes no temperature"),
        ("compatible/m", {}, "needs base_url"),
        ("lexicon/m", {}, "has no models"),
    ],
)
def test_what_cannot_be_made_is_refused_in_words(
    name: str, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidValue, match=told):
        backend_from_name(name, **options)


def test_an_unknown_provider_is_named_with_the_nearest_known() -> None:
    with pytest.raises(UnknownName, match="did you mean 'openai'"):
        backend_from_name("openia/gpt")


def test_the_token_cap_grows_with_the_batch_unless_it_is_set() -> None:
    backend = OpenAIBackend("m", api_key="k")
    small, large = (backend.parameters(n)["max_completion_tokens"] for n in (1, 8))
    assert large > small >= 2000


def test_the_loggers_of_the_sdks_keep_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger("anthropic").setLevel(logging.DEBUG)
    silence_talkative_loggers()
    for name in (
        "anthropic._base_client",
        "openai._base_client",
        "httpx",
        "httpx2",
        "google_genai",
    ):
        assert not logging.getLogger(name).isEnabledFor(logging.INFO)


def test_patient_text_does_not_reach_the_log_even_when_the_sdk_is_told_to_log(
    backend: ProviderBackend,
    suite: RecordListSuite,
    caplog: pytest.LogCaptureFixture,
    server: Any,
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger(backend.sdk).setLevel(logging.DEBUG)
    backend.max_retries = 0
    with contextlib.suppress(BackendError):
        backend.evaluate(suite.load()[0])
    told = " ".join(record.getMessage() for record in caplog.records)
    assert "2.41" not in told
    assert "sk-secret" not in told


def test_an_injected_client_is_used_and_left_open(suite: RecordListSuite) -> None:
    class Completions:
        def __init__(self) -> None:
            self.with_raw_response = self
            self.headers = {"x": "y"}
            self.asked: list[dict[str, Any]] = []

        async def create(self, **arguments: Any) -> Any:
            self.asked.append(arguments)
            return self

        @property
        def content(self) -> bytes:
            text = '{"abstained": false, "prediction": 2, "confidence": 1}'
            choice = {"message": {"content": text}, "finish_reason": "stop"}
            return json.dumps({"choices": [choice]}).encode()

    class Client:
        def __init__(self) -> None:
            self.chat = self
            self.completions = Completions()

    client = Client()
    backend = OpenAIBackend("m", client=client)
    backend.prepare(suite)
    assert backend.evaluate(suite.load()[0]).prediction == 2
    backend.close()
    assert client.completions.asked[0]["extra_body"]["response_format"]["type"] == "json_schema"


def test_of_the_headers_only_limits_and_request_ids_are_kept() -> None:
    headers = {"X-RateLimit-Remaining": "3", "Set-Cookie": "a=b", "x-request-id": "r1", "org": "me"}
    assert _telling(headers) == {"x-ratelimit-remaining": "3", "x-request-id": "r1"}


def request() -> ChatRequest:
    return ChatRequest("p", "m", "s", "u", {}, {}, "single", "t", 1)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), CallTimedOut),
        (ConnectionResetError("reset"), ProviderUnavailable),
        (KeyError("x"), BackendError),
    ],
)
def test_exceptions_without_a_status_are_told_apart(
    error: Exception, kind: type[BackendError]
) -> None:
    assert type(as_backend_error(error, request(), Secret(""))) is kind


def test_an_exhausted_account_is_not_asked_again() -> None:
    class Exhausted(Exception):
        status_code = 429
        body = {"code": "insufficient_quota"}  # noqa: RUF012

    error = as_backend_error(Exhausted("pay"), request(), Secret(""))
    assert type(error) is OutOfCredit
    assert "no quota left" in str(error)


def test_no_sdk_is_imported_before_a_client_is_made() -> None:
    import subprocess

    code = (
        "import sys\n"
        "from krisis.backends.catalogue import backend_from_name\n"
        "for name in ('openai', 'anthropic', 'gemini', 'grok'):\n"
        "    backend_from_name(name + '/m', api_key='k')\n"
        "heavy = {'openai', 'anthropic', 'google.genai', 'xllamacpp'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("Incorrect API key provided: sk-ab***wxyz. See", "Incorrect API key provided: …. See"),
        ("key ...wxyz is void", "key … is void"),
        ("wait... and **see**", "wait... and **see**"),
    ],
)
def test_a_key_is_removed_where_only_its_ends_are_quoted(told: str, shown: str) -> None:
    assert Secret("sk-abcdefghijklmnopqrstuvwxyz").removed_from(told) == shown


@pytest.mark.parametrize("address", ["https://me:word@host/v1", "https://host/v1?api-key=word"])
def test_an_address_that_holds_a_secret_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(InvalidValue, match="host holds a login or a key") as refused:
        OpenAIBackend("m", api_key="k")
    assert "word" not in str(refused.value)


def test_the_address_that_the_sdk_would_follow_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    assert AnthropicBackend("m", api_key="k").identity()["base_url"] == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (402, "pay", OutOfCredit),
        (400, "Your credit balance is too low", OutOfCredit),
        (403, "your input was flagged", ContentFiltered),
        (403, "no access", AuthenticationFailed),
    ],
)
def test_an_empty_account_and_a_flagged_case_are_told_from_other_refusals(
    status: int, words: str, kind: type[BackendError]
) -> None:
    class Refused(Exception):
        status_code = status
        body = {"message": words}  # noqa: RUF012

    request = ChatRequest("p", "m", "", "", {}, {}, "single", "", 1)
    assert type(as_backend_error(Refused(words), request, Secret(""))) is kind


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"code": 429, "message": "slow down"}}, RateLimited),
        ({"error": {"code": "odd", "message": "upstream"}}, ProviderUnavailable),
        ({"choices": [{"error": {"code": 502, "message": "upstream"}}]}, ProviderUnavailable),
    ],
)
def test_an_error_under_status_200_is_an_error_and_no_malformed_reply(
    body: dict[str, Any], kind: type[BackendError]
) -> None:
    request = ChatRequest("p", "m", "", "", {}, {}, "single", "", 1)
    with pytest.raises(Exception, match=r"slow down|upstream") as raised:
        _refuse_error(body)
    assert type(as_backend_error(raised.value, request, Secret(""))) is kind


def test_odd_usage_and_log_probabilities_do_not_cost_the_answer() -> None:
    reply = reply_from_completion(
        {
            "choices": [
                {"message": {"content": "{}"}, "logprobs": {"content": [{"logprob": None}]}}
            ],
            "usage": {"prompt_tokens": "12", "completion_tokens": 3.0},
        }
    )
    assert (reply.input_tokens, reply.output_tokens, reply.logprobs) == (None, 3, ())
