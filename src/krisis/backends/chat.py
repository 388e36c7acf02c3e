"""The chat contract: build a request from features, let a provider complete it, read the reply."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self, TypedDict, TypeVar

from krisis.backends import blocking
from krisis.backends.base import BackendResponse, BaseBackend, believable_count
from krisis.backends.elicitation import Asking
from krisis.backends.prompt import build_prompt
from krisis.backends.reply import read_answers, read_probabilities, responses_of
from krisis.backends.retry import RetryPolicy, call_with_retries
from krisis.backends.schema import reply_schema
from krisis.backends.scrubbing import without_values
from krisis.backends.second_call import (
    FirstCall,
    SecondCall,
    all_answered,
    second_call,
    second_template,
    with_probabilities,
)
from krisis.backends.signals import TokenLogprob
from krisis.data.base import BaseDataSuite, Features, PatientRecord, Task, content_hash
from krisis.errors import BackendError, ContentFiltered, InvalidValue
from krisis.json_values import JsonMapping, JsonObject

PromptMode = Literal["single", "batch"]
R = TypeVar("R")


class _Form(TypedDict):
    """In which form cases are put into words."""

    batch: bool
    context: str
    asking: Asking


# Finish reasons by which a provider says that it withheld the answer.
FILTER_REASONS = frozenset(
    {"content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii"}
)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One provider call, complete but for the key: what it contains is what identifies it.

    ``template`` is the same text with every patient value redacted; it is built beside the prompt,
    not cut out of it, and is what a run stores. ``n_shared_characters`` is the length of the text
    that the cases share, such as an interview. ``history`` are earlier turns of the conversation,
    each with what was asked and what was replied. ``asking`` is how `build` put the question.
    """

    provider: str
    model: str
    system: str
    user: str
    schema: JsonMapping
    parameters: JsonMapping
    mode: PromptMode
    template: str
    n_records: int
    base_url: str = ""
    sample_index: int = 0
    n_shared_characters: int = 0
    history: tuple[tuple[str, str], ...] = ()
    asking: Asking = field(default_factory=Asking, compare=False)

    @property
    def turns(self) -> list[tuple[Literal["user", "assistant"], str]]:
        """Return who says what after the system message, ending with what is asked now."""
        earlier = [turn for asked, said in self.history for turn in (asked, said)]
        speakers: tuple[Literal["user", "assistant"], ...] = ("user", "assistant")
        return [(speakers[i % 2], text) for i, text in enumerate([*earlier, self.user])]

    @property
    def shown(self) -> str:
        """Return all that may show a patient's values."""
        return "\n".join(text for _, text in self.turns)

    def key(self) -> str:
        """Hash everything that can change the answer."""
        parts: list[object] = [self.provider, self.base_url, self.model, self.system, self.user]
        parts += [self.schema, self.parameters, self.sample_index]
        return content_hash([*parts, *([self.history] if self.history else [])])


@dataclass(slots=True)
class ChatReply:
    """What a provider returned for one request, before anything is believed of it.

    ``n_dropped_fields`` counts the members beside the answer that could not be read.
    """

    text: str
    finish_reason: str = ""
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    latency_seconds: float | None = None
    n_dropped_fields: int = 0

    def __post_init__(self) -> None:
        # No prompt is empty and no text is written with 0 tokens: such a count says nothing.
        self.input_tokens = believable_count(self.input_tokens) or None
        n_output = believable_count(self.output_tokens)
        self.output_tokens = n_output or (None if self.text else n_output)


class ChatBackend(BaseBackend):
    """A backend that talks to a model in three steps, so that the engine can stand between them.

    `build` turns features into a request (it never sees a label), `complete` is the provider's one
    method and makes exactly one call, `read` turns the reply into checked responses. Cache, limits,
    retries and journal belong to the engine; a call of `evaluate` on its own retries as well.
    A subclass that overrides `evaluate` is refused, since no run would call it.
    """

    provider: str = ""
    model: str = ""
    base_url: str = ""
    output_cap_option: ClassVar[str] = "max_tokens"
    task: Task | None = None
    asking: Asking = Asking()

    @property
    def asked_as(self) -> str:
        """Return the name of the model with how it is asked, where that is not the usual way."""
        return " · ".join([self.name, *self.asking.words])

    def __new__(cls, *arguments: object, **options: object) -> Self:
        """Refuse a class whose overrides no run would call."""
        for name in ("evaluate", "evaluate_batch", "evaluate_sample"):
            if getattr(cls, name) is not getattr(ChatBackend, name):
                raise InvalidValue(
                    f"{cls.__name__} overrides {name}, which runs do not call on a chat backend; "
                    "override build, complete or read, or derive it from BaseBackend"
                )
        return super().__new__(cls, *arguments, **options)

    def prepare(self, suite: BaseDataSuite) -> None:
        """Take the task from the suite; without a question, `build` will say that it is missing."""
        self.task = suite.task if suite.task.can_be_asked else None

    def parameters(self, n_records: int) -> JsonObject:
        """Return the options of a call about so many cases, under the provider's names."""
        return {}

    def build(
        self,
        cases: Sequence[Features],
        *,
        mode: PromptMode,
        sample_index: int = 0,
        context: str = "",
    ) -> ChatRequest:
        """Return the request that puts the features of these cases to the model.

        ``context`` is patient text that the cases share; it is shown once, and redacted in the
        template like every feature value.
        """
        task, batch = self._asked(), mode == "batch"
        form: _Form = {"batch": batch, "context": context, "asking": self.asking}
        prompt = build_prompt(task, cases, **form)
        second = second_template(task, cases, **form)
        task = self.asking.elicit.task(self.asking.form(task))
        request = ChatRequest(
            provider=self.provider,
            model=self.model,
            system=prompt.system,
            user=prompt.user,
            schema=reply_schema(task, len(cases) if batch else None, self.asking.elicit),
            parameters=self.parameters(len(cases)),
            mode=mode,
            template=prompt.template + second,
            n_records=len(cases),
            base_url=self.base_url,
            sample_index=sample_index,
            n_shared_characters=len(context),
            asking=self.asking,
        )
        return self.adapted(request)

    def adapted(self, request: ChatRequest) -> ChatRequest:
        """Return a request as this model takes it; the default needs no change."""
        return request

    def build_second(self, first: FirstCall, places: Sequence[int]) -> SecondCall:
        """Return the request about the answers of a first call to the cases at these places."""
        second = second_call(self._asked(), first, places, self.asking)
        request = replace(second.request, parameters=self.parameters(len(places)))
        return replace(second, request=self.adapted(request))

    def largest_second(self, first: FirstCall) -> ChatRequest:
        """Return the longest request that can follow a first one, but for what is replied to it."""
        first = all_answered(self._asked(), first)
        return self.build_second(first, first.answered).request

    def instructions(self, request: ChatRequest) -> str:
        """Return all that is sent beside the user's message, which calls of a kind share."""
        return f"{request.system}\n{json.dumps(request.schema, ensure_ascii=False)}"

    def output_cap(self, request: ChatRequest) -> int | None:
        """Return the most output tokens that a request allows, None where it sets no cap."""
        cap: int | None = request.parameters.get(self.output_cap_option)
        return cap

    def with_output_cap(self, request: ChatRequest, cap: int) -> ChatRequest:
        """Return a request that allows so many output tokens."""
        return replace(request, parameters={**request.parameters, self.output_cap_option: cap})

    async def aopen(self) -> None:
        """Get ready in the running event loop; what takes time here is on no call's clock."""
        return

    @abstractmethod
    async def complete(self, request: ChatRequest) -> ChatReply:
        """Make one provider call; raise a `BackendError` when it gives no reply."""

    def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
        """Return one response per case, in the order of the request; else `MalformedReply`."""
        elicit = self.asking.elicit
        answers = self._read(
            request,
            reply,
            lambda: read_answers(
                reply.text,
                elicit.task(self._asked()),
                n_records=request.n_records if request.mode == "batch" else None,
                finish_reason=reply.finish_reason,
                elicit=elicit,
            ),
        )
        return responses_of(request, reply, answers)

    def read_second(
        self, second: SecondCall, reply: ChatReply, responses: Sequence[BackendResponse]
    ) -> list[BackendResponse]:
        """Return the responses of a first call with their probabilities; else `MalformedReply`."""
        reason = reply.finish_reason
        said = self._read(
            second.request,
            reply,
            lambda: read_probabilities(reply.text, second.names, finish_reason=reason),
        )
        return with_probabilities(responses, said, reply, self.asking)

    def _read(self, request: ChatRequest, reply: ChatReply, read: Callable[[], R]) -> R:
        """Read a reply; an error says what it cost, and nothing of the patient."""
        try:
            _refuse_filtered(reply)
            return read()
        except BackendError as error:
            # The message may quote the reply, and the reply the patient.
            error.args = (without_values(str(error), request, only_telling=True),)
            # The tokens were paid for all the same.
            error.input_tokens, error.output_tokens = reply.input_tokens, reply.output_tokens
            error.model = reply.model or request.model
            error.finish_reason = reply.finish_reason
            error.latency_seconds = reply.latency_seconds
            raise

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Judge one record in a call of its own, with retries."""
        return self._ask([record], "single")[0]

    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        """Judge records in one call, with retries; a malformed reply is the caller's to halve."""
        return self._ask(records, "batch") if records else []

    def identity(self) -> JsonObject:
        """Return the model and the options that can change its answers."""
        return {
            "backend": self.name,
            "provider": self.provider,
            "model": self.model,
            "base_url": self.base_url,
            "parameters": self.parameters(1),
        }

    def close(self) -> None:
        """Release the connections that `evaluate` opened."""
        blocking.run(self.aclose())

    def _asked(self) -> Task:
        if self.task is None:
            raise InvalidValue(
                f"the backend {self.name!r} has no task yet; call prepare(suite) first, with a "
                "suite whose task has a question and answers"
            )
        return self.task

    def _ask(self, records: Sequence[PatientRecord], mode: PromptMode) -> list[BackendResponse]:
        contexts = {getattr(record, "context", "") for record in records}
        if len(contexts) > 1:
            raise InvalidValue(
                f"one call can show one context, not {len(contexts)}; batch the records by context"
            )
        features, context = [record.features for record in records], contexts.pop()
        request = self.build(features, mode=mode, context=context)
        check_built(self, request)
        reply = self._completed(request)
        responses = self.read(request, reply)
        check_read(self, responses)
        first = FirstCall(features, request, reply.text, responses, context)
        if not self.asking.elicit.asks_twice or not first.answered:
            return responses
        second = self.build_second(first, first.answered)
        about = [responses[place] for place in first.answered]
        asked = self.read_second(second, self._completed(second.request), about)
        done = dict(zip(first.answered, asked, strict=True))
        return [done.get(place, one) for place, one in enumerate(responses)]

    def _completed(self, request: ChatRequest) -> ChatReply:
        policy = replace(RetryPolicy.of(self), max_reconnects=1)
        return blocking.run(call_with_retries(lambda: self.complete(request), policy))


def check_built(backend: ChatBackend, request: ChatRequest) -> None:
    """Refuse a request by a `build` of the user's own that ignores how the model is to be asked."""
    if request.asking != backend.asking:
        raise InvalidValue(
            f"{type(backend).__name__}.build ignores how to ask ({', '.join(backend.asking.words)})"
            "; let it call super().build(), or leave out --prompt, --elicit, --instructions and "
            "--perturb"
        )


def check_read(backend: ChatBackend, responses: Sequence[BackendResponse]) -> None:
    """Refuse answers by a `read` of the user's own that lack what the way of asking is about."""
    member = backend.asking.elicit.member
    if any(member not in one.signals for one in responses if member and not one.abstained):
        raise InvalidValue(
            f"{type(backend).__name__}.read ignores --elicit {backend.asking.elicit}: its answers "
            f"have no {member}; let it call super().read(), or leave --elicit out"
        )


def _refuse_filtered(reply: ChatReply) -> None:
    if reply.finish_reason.lower() in FILTER_REASONS:
        raise ContentFiltered(
            f"the provider withheld the answer (finish reason {reply.finish_reason!r}); "
            "see its content policy or ask another model"
        )
