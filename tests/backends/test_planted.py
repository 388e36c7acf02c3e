"""A key and a patient are planted in what providers say: neither is found anywhere afterwards."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llmock.scenarios import Fail, Match, Reply
from llmock.testing import LLMockServer
from tests.backends.conftest import PROVIDERS

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.openai import OpenAIBackend
from krisis.backends.provider import ProviderBackend
from krisis.backends.reply import MAX_REPLY_CHARACTERS, read_answers
from krisis.backends.scripted import ScriptedBackend
from krisis.backends.scrubbing import provider_words, without_values
from krisis.backends.secrets import Secret
from krisis.benchmark import Benchmark
from krisis.data.base import FeatureDescription, PatientRecord, RecordListSuite, Task
from krisis.errors import AuthenticationFailed, MalformedReply
from krisis.execution.cache import ReplyCache
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.metrics import Accuracy
from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of
from krisis.results.loading import load_result
from krisis.results.report import format_report
from krisis.runs.load import list_runs

KEY = "sk-Zq7Xw9Kp2Lm4Nv8Bt6Rc1Yd5Fh3"


def in_parts(text: str, length: int, between: str) -> str:
    return between.join(text[i : i + length] for i in range(0, len(text), length))


KEY_DISGUISES: dict[str, str] = {
    "whole": KEY,
    "capitals": KEY.upper(),
    "swapped case": KEY.swapcase(),
    "head": KEY[:13],
    "tail": KEY[-9:],
    "middle": KEY[10:18],
    "spaces": in_parts(KEY, 4, " "),
    "hyphens": in_parts(KEY, 3, "-"),
    "line breaks": in_parts(KEY, 5, "\n"),
    "masked": f"{KEY[:5]}****{KEY[-4:]}",
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 behind a word": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "base64 for addresses": base64.urlsafe_b64encode(f"me:{KEY}".encode()).decode(),
    "hexadecimal": KEY.encode().hex(),
    "percent": "".join(f"%{ord(letter):02X}" for letter in KEY),
    "escapes": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
}


def traces_of_key() -> set[str]:
    """Return every stretch of 8 letters and digits of the key, by means of its own."""
    forms = [KEY, KEY.encode().hex()]
    forms += [
        base64.b64encode(b"abc"[:n] + KEY.encode()).decode()[4 if n else 0 :] for n in (0, 1, 2)
    ]
    plain = [re.sub(r"[^a-z0-9]", "", form.lower()) for form in forms]
    return {form[i : i + 8] for form in plain for i in range(len(form) - 7)}


def key_found_in(text: str) -> set[str]:
    text = re.sub(
        r"\\+u00([0-9a-fA-F]{2})|%([0-9a-fA-F]{2})", lambda m: chr(int(m[1] or m[2], 16)), text
    )
    text = re.sub(r"\\+[nrt]", "", text).lower()
    plain = re.sub(r"[^a-z0-9]", "", text)
    return {trace for trace in traces_of_key() if trace in plain}


@pytest.mark.parametrize("disguise", KEY_DISGUISES.values(), ids=KEY_DISGUISES)
def test_a_key_is_found_in_every_disguise_and_the_words_around_it_stay(disguise: str) -> None:
    assert key_found_in(disguise) or "****" in disguise  # the search itself finds it
    shown = Secret(KEY).removed_from(f"the key <{disguise}> is not valid")
    assert not key_found_in(shown)
    assert shown.startswith("the key <")
    assert shown.endswith("> is not valid")


@pytest.mark.parametrize(
    "text",
    [
        '{"abstained": false, "prediction": 3, "confidence": 0.8}',
        "a sketch of seven words that no key was hidden in, at 50% of 100 %",
        KEY[:7],
        "1234567 89 \\u00e9 … ***",
    ],
)
def test_a_text_without_the_key_stays_as_it_is(text: str) -> None:
    assert Secret(KEY).removed_from(text) == text


def test_a_word_that_is_too_short_for_a_key_spoils_no_reply() -> None:
    assert not Secret("none").is_recognisable
    assert Secret("k").removed_from("the key is like that") == "the key is like that"


PATIENT = PatientRecord(
    {"sc": 7.3519, "htn": 1, "age": 83, "note": "Fernhoven, Amalie"}, 3, record_id="p1"
)
TASK = Task(
    name="staging",
    question="Which stage? Say yes or no first.",
    answers={3: "30 to 59", 5: "below 15"},
    features={
        "sc": FeatureDescription("serum creatinine", "mg/dL"),
        "htn": FeatureDescription("hypertension", values={0: "no", 1: "yes"}),
        "age": FeatureDescription("age", "years"),
        "note": FeatureDescription("name on the letter"),
    },
)
ECHO = (
    "serum creatinine: 7.3519 mg/dL, hypertension: yes, age: 83 years, "
    "name on the letter: Fernhoven, Amalie"
)
PATIENT_SPELLINGS: dict[str, str] = {
    "as it was": ECHO,
    "equals signs": ECHO.replace(": ", "="),
    "quotes": re.sub(r"([^:,]+): ([^,]+)", r"'\1': '\2'", ECHO),
    "JSON": json.dumps({"sc": 7.3519, "htn": "yes", "age": 83, "note": "Fernhoven, Amalie"}),
    "JSON in JSON": json.dumps(json.dumps({"hypertension": "yes", "note": "Amalie", "age": "83"})),
    "capitals": ECHO.upper(),
    "small letters": ECHO.lower(),
    "without spaces": ECHO.replace(" ", ""),
    "without anything": re.sub(r"[ :,/]", "", ECHO),
    "decimal comma": ECHO.replace("7.3519", "7,3519"),
    "more decimals": ECHO.replace("7.3519", "7.351900"),
    "line breaks": ECHO.replace(", ", "\n"),
    "escaped line breaks": ECHO.replace(": ", ":\\n"),
    "an address": ECHO.replace(": ", "%3D").replace(" ", "%20"),
    "escapes": ECHO.replace("7", "\\u0037").replace("A", "\\u0041"),
    "tags": ECHO.replace(": ", "</td><td>").replace(", ", "</td></tr><tr><td>"),
    "underscores": ECHO.replace(": ", "_").replace(" ", "_"),
}
PATIENT_TRACES = re.compile(
    r"7[.,]\s?3519|fernhoven|amalie|hypertension\W*(\\+n)?yes|age\W*(\\+n)?83", re.IGNORECASE
)


@pytest.mark.parametrize("spelling", PATIENT_SPELLINGS.values(), ids=PATIENT_SPELLINGS)
def test_a_patient_is_blanked_in_every_spelling(spelling: str) -> None:
    request = _Sent(TASK)
    shown = without_values(f"cannot process {spelling} of this request", request)
    assert not PATIENT_TRACES.search(re.sub(r"[_/<>]|td|tr", " ", shown)), shown
    assert shown.startswith("cannot process ")
    assert shown.endswith(" of this request")


class _Sent:
    """A request about the patient."""

    def __init__(self, task: Task) -> None:
        from krisis.backends.prompt import build_prompt

        prompt = build_prompt(task, [PATIENT.features])
        self.shown, self.template = prompt.user, prompt.template


def test_what_a_provider_says_of_itself_stays_readable() -> None:
    told = "This model's maximum context length is 8192 tokens, yet you sent 9001"
    assert without_values(told, _Sent(TASK)) == told


@pytest.fixture(params=list(PROVIDERS), ids=lambda kind: kind.name)
def planted(request: pytest.FixtureRequest, server: LLMockServer) -> Iterator[ProviderBackend]:
    kind: type[ProviderBackend] = request.param
    made = kind(
        "some-model",
        base_url=server.base_url(PROVIDERS[kind]),
        api_key=KEY,
        max_retries=0,
        timeout_seconds=20,
    )
    yield made
    made.close()


@dataclass(frozen=True)
class Turn(Match):
    """Accepts one request by its number: llmock alone would make all failures come first."""

    server: LLMockServer | None = None
    number: int = 0

    def accepts(self, info: Any) -> bool:
        assert self.server is not None
        return len(self.server.state.journal.records()) == self.number


def script(server: LLMockServer, said: list[Reply | Fail]) -> None:
    """Let the server say these things one after the other."""
    server.state.scenarios.add(
        *(replace(one, match=Turn(server=server, number=i)) for i, one in enumerate(said))
    )


def answer(**members: Any) -> str:
    return json.dumps({"abstained": False, "prediction": 3, "confidence": 0.8, **members})


def carried_out(backend: BaseBackend, out: Path, n: int, caplog: pytest.LogCaptureFixture) -> str:
    """Run n records one by one, and return everything that was written, shown, logged and told."""
    caplog.set_level(logging.DEBUG)
    records = [
        PatientRecord({**PATIENT.features, "visit": f"no{i}"}, 3, record_id=f"p{i}")
        for i in range(n)
    ]
    cache = ReplyCache(out / "cache.sqlite")
    execution = Execution(recorder=Recorder(out / "runs", store_features=False), cache=cache)
    told = ""
    try:
        Benchmark(
            RecordListSuite(records, TASK), backend, [Accuracy()], batch_size=1, execution=execution
        ).run()
    except AuthenticationFailed as error:
        told = str(error)
    cache.close()
    (run,) = list_runs(out / "runs")
    result = load_result(run)
    page = page_of(run_document(result))
    files = [path.read_bytes().decode("latin-1") for path in out.rglob("*") if path.is_file()]
    assert len(result.evaluation_results) >= n - 1
    return "\n\n".join([*files, page, format_report(result), told, caplog.text])


def test_no_disguise_of_the_key_is_found_in_any_file_page_log_or_message(
    planted: ProviderBackend,
    server: LLMockServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    said: list[Reply | Fail] = [Reply(text=answer())]
    for disguise in KEY_DISGUISES.values():
        said += [
            Reply(text=f"You sent {disguise}\n{answer(note=disguise)}"),
            Reply(text=answer(prediction=f"it is {disguise}"[:78])),
            Reply(text=answer(prediction=f"it is {disguise}"[:78])),
            Fail(400, message=f"Bad header {disguise} in the request. {disguise}"),
        ]
    said.append(Fail(401, message=f"Key {in_parts(KEY, 6, ' ')} is void"))
    script(server, said)
    n = 1 + 3 * len(KEY_DISGUISES) + 1
    found = carried_out(planted, tmp_path, n, caplog) + "".join(capfd.readouterr())
    assert len(server.state.journal.records()) == 1 + 4 * len(KEY_DISGUISES) + 1
    assert not key_found_in(found)
    assert "You sent \\u2026" in found
    assert "Bad header …" in found


def test_no_spelling_of_a_patient_is_found_where_features_are_not_stored(
    planted: ProviderBackend,
    server: LLMockServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    said: list[Reply | Fail] = [Reply(text=answer())]
    for spelling in PATIENT_SPELLINGS.values():
        said += [
            Fail(400, message=f"Cannot process {spelling}"),
            Fail(500, message=f"Crashed at {spelling}"),
        ]
    said.append(Fail(401, message=f"No access to {ECHO.replace(': ', '=')}"))
    script(server, said)
    n = 1 + 2 * len(PATIENT_SPELLINGS) + 1
    found = carried_out(planted, tmp_path, n, caplog) + "".join(capfd.readouterr())
    assert len(server.state.journal.records()) == n
    assert "answered 400: Cannot process" in found
    assert "answered 500: Crashed at" in found
    traces = re.compile(r"7[.,]\s?3519|fernhoven|amalie|hypertension[^a-z<]{0,6}yes", re.IGNORECASE)
    assert len(traces.findall(ECHO)) == 4
    assert traces.findall(found) == []


class Careless(BaseBackend):
    """A backend of the user's own, whose errors quote whatever they come across."""

    name = "careless"
    max_retries = 0

    def __init__(self, quotes: list[str]) -> None:
        self.quotes = iter(quotes)

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        quote = next(self.quotes)
        if quote.startswith(" "):
            raise AuthenticationFailed(f"No access to{quote}")
        raise OSError(13, f"Cannot send {quote}", "there")


class CarelessChat(ScriptedBackend):
    """The same in two steps of a chat backend."""

    name = "careless-chat"
    max_retries = 0

    def __init__(self, quotes: list[str]) -> None:
        self.quotes = iter(quotes)
        super().__init__(lambda request: self.said(next(self.quotes)))

    def said(self, quote: str) -> ChatReply:
        if quote.startswith(" "):
            raise AuthenticationFailed(f"No access to{quote}")
        if len(quote) % 2:
            raise RuntimeError(f"Cannot send {quote}")
        return ChatReply(f"Cannot send {quote}", "stop")

    def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
        raise KeyError(reply.text)


@pytest.mark.parametrize("kind", [Careless, CarelessChat])
def test_errors_of_a_users_own_backend_give_neither_key_nor_patient_away(
    kind: type[Careless | CarelessChat],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_SERVICE_KEY", KEY)
    told = [*KEY_DISGUISES.values(), *PATIENT_SPELLINGS.values()]
    # A reply that cannot be read is asked for once more.
    is_asked_twice = {quote: kind is CarelessChat and not len(quote) % 2 for quote in told}
    quotes = [quote for quote in told for _ in range(1 + is_asked_twice[quote])]
    backend = kind([*quotes, f" {KEY} {ECHO}"])
    found = carried_out(backend, tmp_path, len(told) + 1, caplog) + "".join(capfd.readouterr())
    assert not key_found_in(found)
    assert re.findall(r"7[.,]\s?3519|fernhoven|amalie", found, re.IGNORECASE) == []
    assert "Cannot send …" in found
    assert " access to …" in found


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_withheld_record_is_sent_as_often_as_documented(
    planted: ProviderBackend, server: LLMockServer, batch_size: int
) -> None:
    """Alone once; in a batch of four that is halved down to it once per size: 4, 2 and 1."""
    good = {"abstained": False, "prediction": 3, "confidence": 0.8}

    def batch(n: int) -> Reply:
        return Reply(text=json.dumps({"results": [{"id": f"case_{i}", **good} for i in range(n)]}))

    withheld = Reply(text="", finish_reason="content_filter")
    alone = [withheld, Reply(text=answer()), Reply(text=answer()), Reply(text=answer())]
    halved = [withheld, withheld, withheld, Reply(text=answer()), batch(2)]
    server.state.scenarios.add(*(alone if batch_size == 1 else halved))
    records = [PatientRecord({"sc": float(i)}, 3, record_id=f"p{i}") for i in range(4)]
    result = Benchmark(RecordListSuite(records, TASK), planted, batch_size=batch_size).run()
    assert [row.failure_class for row in result.evaluation_results] == [
        "content_filter",
        "",
        "",
        "",
    ]
    assert len(server.state.journal.records()) == (4 if batch_size == 1 else 5)


@pytest.mark.parametrize("unit", ["x", "-", "\\", "x-", "*x", "..", KEY[:4], "%41", " x"])
def test_a_key_is_looked_for_in_time_that_grows_with_the_text(unit: str) -> None:
    text = unit * (400_000 // len(unit))  # a quadratic search would take minutes
    shown = Secret(KEY).removed_from(f"{text} {KEY}")
    assert not key_found_in(shown[-100:])


ENDS = {
    "two letters behind stars": f"Incorrect API key provided: sk-Zq***{KEY[-2:]}.",
    "one star": f"Incorrect API key provided: sk*{KEY[-1]}.",
    "the end alone": f"Incorrect API key provided: ****{KEY[-2:]}.",
    "the end, no word of keys": f"bad header ****{KEY[-2:]}",
    "the head, no word of keys": f"no access for {KEY[:2]}***",
    "dots": f"Incorrect API key: {KEY[:2]}...{KEY[-2:]}",
    "bullets": f"Invalid token {KEY[:4]}••••{KEY[-2:]}",
    "crosses": f"Invalid token {KEY[:4]}XXXXXXXX{KEY[-2:]}",
    "underscores": f"Invalid token {KEY[:4]}____{KEY[-2:]}",
    "a word": f"Invalid token {KEY[:4]}[REDACTED]{KEY[-2:]}",
    "a scheme before it": f"bad header Bearer-{KEY[:6]}***{KEY[-3:]}",
    "named end": f"The API key ending in {KEY[-2:]} was revoked",
    "quoted end": f"no access for the key '{KEY[-4:]}'",
    "named head": f"the key {KEY[:7]} is unknown",
    "capitals": f"API KEY {KEY[:4].upper()}****{KEY[-2:].upper()} IS VOID",
}


@pytest.mark.parametrize("told", ENDS.values(), ids=ENDS)
def test_an_error_that_echoes_an_end_of_the_key_leaves_no_letter_of_it(told: str) -> None:
    shown = Secret(KEY).removed_from_error(told)
    words = set(re.findall(r"[a-z0-9]+", shown.lower()))
    traces = {KEY[-n:].lower() for n in range(1, 9)} | {KEY[:n].lower() for n in range(2, 9)}
    assert not words & {re.sub(r"\W", "", trace) for trace in traces}, shown
    assert "…" in shown
    assert len(shown) > 8  # what is not the key's stays


def test_values_of_the_patient_do_not_cut_a_key_into_parts_too_short_to_see() -> None:
    sent = SimpleNamespace(shown="- age: 83", template="- age: [redacted]")
    key = "sk-ab 83 cd 83 ef 83 gh 83 ij".replace(" ", "")
    told = provider_words(Exception(f"bad key {key} at 83"), sent, Secret(key))
    assert told == "bad key … at …"


@pytest.mark.parametrize(
    "told",
    ["wait... and **see** the tasks…", "no reply in 60 s; h3 is a heading", "a__b xxx-large #1"],
)
def test_an_error_that_does_not_speak_of_keys_stays_as_it_is(told: str) -> None:
    assert Secret(KEY).removed_from_error(told) == told


def test_a_reply_keeps_short_words_in_bold() -> None:
    assert Secret(KEY).removed_from(f"**{KEY[-2:]}** is the key") == f"**{KEY[-2:]}** is the key"


def test_a_key_that_is_too_short_to_be_recognised_spoils_no_error() -> None:
    assert Secret("empty").removed_from_error("the key is *y") == "the key is *y"


@pytest.mark.parametrize("unit", ["xxxa", "*x", "..", "sk-Zq", "a-", "…", "key h3 "])
def test_an_error_is_looked_through_in_time_that_grows_with_the_text(unit: str) -> None:
    text = unit * (800_000 // len(unit))  # a quadratic search would take minutes
    assert not key_found_in(Secret(KEY).removed_from_error(f"{text} {KEY}")[-100:])


def test_a_text_that_is_masked_twice_loses_both_ends_of_the_key() -> None:
    shown = Secret(KEY).removed_from(f"{KEY[:4]}...{KEY[-4:]}...{KEY[-5:]} and {KEY[:3]}…")
    assert shown == "…… and …"


def test_a_reply_that_is_too_long_is_cut_before_it_is_looked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_through: list[int] = []
    removed_from = Secret.removed_from

    def noted(secret: Secret, text: str) -> str:
        looked_through.append(len(text))
        return removed_from(secret, text)

    monkeypatch.setattr(Secret, "removed_from", noted)
    backend = OpenAIBackend("m", api_key=KEY)
    reply = backend.received(ChatReply("x" * 20_000_000, output_tokens=5), "text")
    assert max(looked_through) == len(reply.text) == MAX_REPLY_CHARACTERS + 1
    assert reply.output_tokens == 5
    with pytest.raises(MalformedReply, match="more than the 500,000 characters"):
        read_answers(reply.text, Task("t", "Is it?", {0: "no", 1: "yes"}))
