"""The chat contract: build a request from features, let a provider complete it, read the reply."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

from krisis.backends import blocking
from krisis.backends.base import BackendResponse, BaseBackend, believable_count
from krisis.backends.prompt import build_prompt
from krisis.backends.reply import Answer, read_answers
from krisis.backends.retry import RetryPolicy, call_with_retries
from krisis.backends.schema import reply_schema
from krisis.backends.scrubbing import without_values
from krisis.backends.signals import TokenLogprob, token_signals
from krisis.data.base import BaseDataSuite, Features, PatientRecord, Task, content_hash
from krisis.data.perturbation import Perturbed
from krisis.errors import BackendError, ContentFiltered, InvalidValue
from krisis.json_values import JsonMapping, JsonObject

PromptMode = Literal["single", "batch"]

# Finish reasons by which a provider says that it withheld the answer.
FILTER_REASONS = frozenset(
    {"content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii"}
)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One provider call, complete but for the key: what it contains is what identifies it.

    ``template`` is the same text with every patient value redacted; it is built beside the prompt,
    not cut out of it, and is what a run stores. ``n_shared_characters`` is the length of the text
    that the cases share, such as an interview.
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

    def key(self) -> str:
        """Hash everything that can change the answer."""
        return content_hash(
            [
                self.provider,
                self.base_url,
                self.model,
                self.system,
                self.user,
                self.schema,
                self.parameters,
                self.sample_index,
            ]
        )


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
        self.input_tokens = believable_count(self.input_tokens)
        self.output_tokens = believable_count(self.output_tokens)


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

    @property
    def is_here(self) -> bool:
        """Say whether `prepare` needs no network."""
        return True

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
        perturbed: Perturbed | None = None,
    ) -> ChatRequest:
        """Return the request that puts the features of these cases to the model.

        ``context`` is patient text that the cases share; it is shown once, and redacted in the
        template like every feature value. ``perturbed`` is given where they are asked about in
        another form.
        """
        task = self._asked()
        batch = mode == "batch"
        prompt = build_prompt(task, cases, batch=batch, context=context, perturbed=perturbed)
        task = task if perturbed is None else perturbed.task(task)
        return ChatRequest(
            provider=self.provider,
            model=self.model,
            system=prompt.system,
            user=prompt.user,
            schema=reply_schema(task, len(cases) if batch else None),
            parameters=self.parameters(len(cases)),
            mode=mode,
            template=prompt.template,
            n_records=len(cases),
            base_url=self.base_url,
            sample_index=sample_index,
            n_shared_characters=len(context),
        )

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
        try:
            _refuse_filtered(reply)
            answers = read_answers(
                reply.text,
                self._asked(),
                n_records=request.n_records if request.mode == "batch" else None,
                finish_reason=reply.finish_reason,
            )
        except BackendError as error:
            # The message may quote the reply, and the reply the patient.
            error.args = (without_values(str(error), request, only_telling=True),)
            # The tokens were paid for all the same.
            error.input_tokens, error.output_tokens = reply.input_tokens, reply.output_tokens
            error.model = reply.model or request.model
            error.finish_reason = reply.finish_reason
            error.latency_seconds = reply.latency_seconds
            raise
        return _responses(request, reply, answers)

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
        features = [record.features for record in records]
        request = self.build(features, mode=mode, context=contexts.pop())
        policy = replace(RetryPolicy.of(self), max_reconnects=1)
        reply = blocking.run(call_with_retries(lambda: self.complete(request), policy))
        return self.read(request, reply)


def _refuse_filtered(reply: ChatReply) -> None:
    if reply.finish_reason.lower() in FILTER_REASONS:
        raise ContentFiltered(
            f"the provider withheld the answer (finish reason {reply.finish_reason!r}); "
            "see its content policy or ask another model"
        )


def _responses(
    request: ChatRequest, reply: ChatReply, answers: Sequence[Answer]
) -> list[BackendResponse]:
    n = len(answers)
    shares = zip(
        _shared_out(reply.input_tokens, n),
        _shared_out(reply.output_tokens, n),
        _shared_out(reply.cached_tokens, n),
        _shared_out(reply.reasoning_tokens, n),
        strict=True,
    )
    responses = [
        _response(request, reply, answer, share)
        for answer, share in zip(answers, shares, strict=True)
    ]
    if request.mode == "batch":
        for place, response in enumerate(responses):
            response.signals["batch_position"] = place
    return responses


def _response(
    request: ChatRequest, reply: ChatReply, answer: Answer, share: tuple[int | None, ...]
) -> BackendResponse:
    n_in, n_out, n_cached, n_reasoning = share
    usage = {"cached_tokens": n_cached, "reasoning_tokens": n_reasoning}
    return BackendResponse(
        prediction=answer.prediction,
        abstained=answer.abstained,
        confidence=answer.confidence,
        raw_response=answer.text,
        prompt=request.template,
        prompt_mode=request.mode,
        input_tokens=n_in,
        output_tokens=n_out,
        total_tokens=None if n_in is None or n_out is None else n_in + n_out,
        signals={
            **answer.signals,
            **token_signals(reply.text, reply.logprobs, answer.prediction_span),
            **{name: count for name, count in usage.items() if count is not None},
        },
        latency_seconds=reply.latency_seconds,
        finish_reason=reply.finish_reason,
        model=reply.model or request.model,
    )


def _shared_out(total: int | None, n_rows: int) -> list[int | None]:
    """Share a count over the rows of a call so that the parts add up to it.

    >>> _shared_out(10, 3)
    [4, 3, 3]
    """
    if total is None:
        return [None] * n_rows
    part, rest = divmod(total, n_rows)
    return [part + (row < rest) for row in range(n_rows)]
