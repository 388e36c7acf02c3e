"""What a run would send and cost, without sending anything."""

from __future__ import annotations

from collections.abc import Sequence

from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend, ChatRequest, PromptMode
from krisis.data.base import PatientRecord
from krisis.execution.batches import Batch, cases_of, plan_batches
from krisis.execution.budget import CHARACTERS_PER_TOKEN, FIRST_GUESS_OF_OUTPUT
from krisis.execution.prices import Price

# Building every prompt of a large run takes longer than the estimate is worth.
N_BATCHES_MEASURED = 200


def dry_run_text(
    backend: BaseBackend,
    records: Sequence[PatientRecord],
    *,
    batch_size: int,
    repeats: int,
    price: Price | None,
) -> str:
    """Return the first prompt, redacted and full, and the estimates; the backend is prepared."""
    batches = plan_batches(cases_of(records, repeats), batch_size)
    n_cases = len(records) * repeats
    plan = f"{n_cases} records in {len(batches)} calls of up to {batch_size}"
    if not isinstance(backend, ChatBackend):
        return f"{plan}\n{backend.name} asks no provider: no prompt, no tokens, no cost\n"
    first = _request(backend, batches[0])
    input_tokens = _input_tokens(backend, batches)
    output_tokens = n_cases * FIRST_GUESS_OF_OUTPUT
    cost = "unknown (no price for this model; give --prices)"
    if price is not None:
        cost = f"${price.cost(input_tokens, output_tokens):.2f}"
    return "\n".join(
        [
            "── first prompt, as it is stored ──",
            first.template,
            "",
            "── first prompt, as it would be sent ──",
            first.system,
            "",
            first.user,
            "",
            "── estimate; nothing was sent ──",
            plan,
            f"input tokens   about {input_tokens:,.0f} ({CHARACTERS_PER_TOKEN} letters each)",
            f"output tokens  about {output_tokens:,} ({FIRST_GUESS_OF_OUTPUT} per record)",
            f"cost           {cost}",
            "",
        ]
    )


def _request(backend: ChatBackend, batch: Batch) -> ChatRequest:
    mode: PromptMode = "batch" if len(batch) > 1 else "single"
    features = [case.record.features for case in batch]
    return backend.build(features, mode=mode, context=batch[0].record.context)


def _input_tokens(backend: ChatBackend, batches: Sequence[Batch]) -> float:
    step = max(1, len(batches) // N_BATCHES_MEASURED)
    measured = [_request(backend, batch) for batch in batches[::step]]
    n_letters = sum(len(request.system) + len(request.user) for request in measured)
    return n_letters / CHARACTERS_PER_TOKEN * len(batches) / len(measured)
