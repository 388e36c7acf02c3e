"""The second call of an answer in two: how probable it is that the first one answered rightly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from krisis.backends.base import BackendResponse
from krisis.backends.elicitation import Asking, Way
from krisis.backends.prompt import Prompt, build_p_true_prompt, how_sure_text
from krisis.backends.reply import shared_out, without_thoughts
from krisis.backends.schema import case_name, probability_schema
from krisis.data.base import Features, Label, Task

if TYPE_CHECKING:
    from krisis.backends.chat import ChatReply, ChatRequest

# The signal under which the confidence is kept that was stated with the answer itself.
STATED = "stated_confidence"
_HEADING = "── second call, about the cases that were answered ──"


@dataclass(frozen=True, slots=True)
class FirstCall:
    """What a first call was about, and what came of it: its text, and a response for each case."""

    features: Sequence[Features]
    request: ChatRequest
    text: str
    responses: Sequence[BackendResponse]
    context: str = ""

    @property
    def answered(self) -> list[int]:
        """Return the places of the cases that were answered; the others are not asked about."""
        return [
            place
            for place, one in enumerate(self.responses)
            if not one.abstained and one.prediction is not None
        ]


@dataclass(frozen=True, slots=True)
class SecondCall:
    """A request for probabilities; ``names`` are its cases in a batch, none in a single one."""

    request: ChatRequest
    names: tuple[str, ...]


def second_template(
    task: Task,
    features: Sequence[Features],
    *,
    asking: Asking,
    batch: bool,
    context: str,
) -> str:
    """Return what is stored of the second call, without any value; nothing where there is none."""
    if not asking.elicit.asks_twice:
        return ""
    text = how_sure_text(["case_N"] if batch else [], asking)
    if asking.elicit.way is Way.P_TRUE:
        answers = [next(iter(task.answers))] * len(features)
        text = build_p_true_prompt(
            task, features, answers, batch=batch, context=context, asking=asking
        ).template
    return f"\n\n{_HEADING}\n\n{text}"


def second_call(task: Task, first: FirstCall, places: Sequence[int], asking: Asking) -> SecondCall:
    """Return the request about the answers to some of the cases of a first call.

    ``p-true`` shows the case anew, with the answer proposed by nobody in particular; ``two-step``
    goes on with the conversation.
    """
    if asking.elicit.way is Way.P_TRUE:
        prompt = _p_true_prompt(task, first, places, asking)
        names = tuple(map(case_name, range(len(places)))) if len(places) > 1 else ()
        history: tuple[tuple[str, str], ...] = ()
    else:
        names = tuple(map(case_name, places)) if first.request.mode == "batch" else ()
        text = how_sure_text(names, asking)
        prompt = Prompt(first.request.system, text, "")
        history = ((first.request.user, without_thoughts(first.text).strip()),)
    request = replace(
        first.request,
        system=prompt.system,
        user=prompt.user,
        history=history,
        schema=probability_schema(names),
        mode="batch" if names else "single",
        n_records=len(places),
    )
    return SecondCall(request, names)


def _p_true_prompt(task: Task, first: FirstCall, places: Sequence[int], asking: Asking) -> Prompt:
    answers = [_answer_of(first.responses[place]) for place in places]
    return build_p_true_prompt(
        task,
        [first.features[place] for place in places],
        answers,
        batch=len(places) > 1,
        context=first.context,
        asking=asking,
    )


def _answer_of(response: BackendResponse) -> Label:
    assert response.prediction is not None
    return response.prediction


def with_probabilities(
    responses: Sequence[BackendResponse],
    said: Sequence[tuple[float, str]],
    reply: ChatReply,
    asking: Asking,
) -> list[BackendResponse]:
    """Return answers with the probabilities that the second call gave them, and what both took."""
    n = len(said)
    shares = zip(shared_out(reply.input_tokens, n), shared_out(reply.output_tokens, n), strict=True)
    return [
        _with_probability(one, probability, reply, share, asking)
        for one, probability, share in zip(responses, said, shares, strict=True)
    ]


def _with_probability(
    response: BackendResponse,
    said: tuple[float, str],
    reply: ChatReply,
    share: tuple[int | None, ...],
    asking: Asking,
) -> BackendResponse:
    probability, text = said
    n_input, n_output = (
        None if one is None or other is None else one + other
        for one, other in zip((response.input_tokens, response.output_tokens), share, strict=True)
    )
    latencies = [s for s in (response.latency_seconds, reply.latency_seconds) if s is not None]
    stated = {} if response.confidence is None else {STATED: response.confidence}
    return replace(
        response,
        confidence=probability,
        raw_response=f"{response.raw_response}\n\n{text}",
        signals={**response.signals, **stated, asking.elicit.signal: probability},
        input_tokens=n_input,
        output_tokens=n_output,
        total_tokens=None if n_input is None or n_output is None else n_input + n_output,
        latency_seconds=sum(latencies) if latencies else None,
    )


def all_answered(task: Task, first: FirstCall) -> FirstCall:
    """Return a first call that leads to the longest second one: every case has an answer."""
    longest = max(task.answers, key=lambda one: len(f"{one}: {task.answers[one]}"))
    return replace(first, responses=[BackendResponse(longest)] * len(first.features))
