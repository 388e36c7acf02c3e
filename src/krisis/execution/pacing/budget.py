"""What a run may spend: a bound that calls in progress cannot carry it beyond."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from krisis.errors import InvalidValue
from krisis.execution.pacing.prices import Price
from krisis.execution.stopping import Stop
from krisis.metrics.base import EvaluationResult
from krisis.results.stops import BudgetReached

CHARACTERS_PER_TOKEN = 4
FIRST_GUESS_OF_OUTPUT = 64
# What a provider may add to a request before its first reply has said so: roles, marks, a format.
FRAME_TOKENS = 256
# English takes a token for four bytes; where a budget is too small to begin otherwise, it is
# trusted that the first call takes no more than one for two and a half.
_TOKENS_PER_BYTE_OF_PROSE = 0.4


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may do per minute, per call and altogether; ``None`` means unbounded.

    ``adaptive`` lets the number of simultaneous calls move below ``max_concurrency``.
    ``max_failures`` is a share of the records below 1, a number of them from 1 on.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_seconds: float | None = 300.0
    max_cost: float | None = None
    max_tokens: int | None = None
    max_failures: float | None = None
    adaptive: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("adaptive", "max_failures") or value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise InvalidValue(f"{field.name} must be a number above 0, not {value!r}")
        if self.max_failures is not None and not self.max_failures >= 0:
            raise InvalidValue(f"max_failures must be 0 or more, not {self.max_failures!r}")


@dataclass(frozen=True, slots=True)
class CallSize:
    """The size of a call: bytes going in, records asked about, and the cap on what comes out.

    ``instructions`` is what it shares with other calls, ``n_bytes`` the size of all the rest.
    ``output_cap`` is None where the backend sets none; then the replies so far must serve.
    ``then`` is the second call of an answer in two, to be set aside with its first; ``promise`` is
    what was set aside so for this one.
    """

    n_bytes: int
    n_records: int
    output_cap: int | None = None
    instructions: str = ""
    then: FollowUpReservation | None = None
    promise: FollowUpReservation | None = None


@dataclass(slots=True, eq=False)
class FollowUpReservation:
    """The second call of an answer in two: its size, and what is set aside once the first goes.

    It keeps the slot of the first as well, since one that waited for a slot while others wait for
    what it has set aside would wait for ever. ``era`` is that of the slot.
    """

    asked: CallSize
    held: Reservation | None = None
    era: int | None = None


class Tokens(NamedTuple):
    """Tokens going in and coming out."""

    input: float = 0.0
    output: float = 0.0

    @property
    def total(self) -> float:
        """Return both together."""
        return self.input + self.output

    def plus(self, other: Tokens, sign: int = 1) -> Tokens:
        """Return the sum, or with a sign of -1 the difference."""
        return Tokens(self.input + sign * other.input, self.output + sign * other.output)


@dataclass(slots=True)
class Reservation:
    """What is set aside for one call: the most that it can take, and what it probably will.

    ``lowered_cap`` is the output cap that the call must be sent with, None for its own.
    """

    most: Tokens
    expected: Tokens
    asked: CallSize
    lowered_cap: int | None = None
    then: Reservation | None = None


class SharedBudget:
    """What one run, or several together, may spend: each brings a price and what it has learnt.

    ``earlier`` holds, by the name of a run, the tokens and dollars of one that has not begun in
    this session.
    """

    def __init__(
        self, limits: Limits, earlier: Mapping[str, tuple[float, float]] | None = None
    ) -> None:
        self.limits = limits
        self.is_bound = limits.max_cost is not None or limits.max_tokens is not None
        self.members: dict[str, Budget] = {}
        self.earlier = dict(earlier or {})
        self.turn = asyncio.Lock()
        self.settled = asyncio.Event()

    @property
    def is_in_use(self) -> bool:
        """Say whether any call is in progress."""
        return any(member.in_progress for member in self.members.values())

    def beside(self, name: str) -> tuple[float, float]:
        """Return the tokens and dollars that all others took and have set aside."""
        others = [taken for one, taken in self.earlier.items() if one != name]
        others += [one.taken for other, one in self.members.items() if other != name]
        return sum(tokens for tokens, _ in others), sum(dollars for _, dollars in others)


class Budget:
    """Keeps what was paid and sets aside, for every call in progress, the most that it can take.

    Output is bounded by the cap that the call is sent with. Input is bounded by its bytes, since no
    tokenizer makes more tokens than bytes; instructions that were sent before take no more than the
    whole call did that took least. The first call goes alone: what it takes beyond its bytes, all
    others are expected to take as well. A call that does not fit waits for calls in progress, which
    give back what they did not need; when there is none, its cap is lowered to what is left; and
    when that is too little for an answer, the run stops. A budget that is too small to begin at all
    trusts that the first call takes no more than a token for every two and a half bytes. Of a
    backend of the user's own nothing is known before its first call, which goes alone; then the
    most that a record took so far is set aside for every record. Requests of a provider batch are
    set aside at its price until they are collected; no call waits for them. Runs that share a
    budget wait for each other's calls as for their own.
    """

    def __init__(
        self,
        limits: Limits,
        price: Price | None,
        stop: Stop,
        *,
        shared_budget: SharedBudget | None = None,
        name: str = "",
    ) -> None:
        self._shared_budget = shared_budget or SharedBudget(limits)
        self._name = name
        limits = self._shared_budget.limits
        if limits.max_cost is not None and price is None:
            raise InvalidValue(
                f"max_cost is {limits.max_cost} but the price of this model is not known; "
                "give a price table (--prices FILE), or limit the run by max_tokens instead"
            )
        self._price = price
        self._stop = stop
        self._paid = Tokens()
        self._held = Tokens()
        self._batch = Tokens()  # what of these two is charged at the price of provider batches
        self.in_progress: dict[int, Reservation] = {}
        self._seen_output = 0.0
        self._n_seen_records = 0
        self._most_output = 0.0
        self._least_input: dict[str, int] = {}
        self._most_own_input = 0.0
        self._excess = 0
        self._has_settled = False
        self._shared_budget.members[name] = self

    @property
    def taken(self) -> tuple[float, float]:
        """Return the tokens and dollars that were paid or are set aside."""
        total = self._paid.plus(self._held)
        return total.total, self.cost(*total, self._batch) or 0.0

    def start_from(
        self,
        input_tokens: int,
        output_tokens: int,
        rows: Iterable[EvaluationResult] = (),
        batch: tuple[int, int] = (0, 0),
    ) -> None:
        """Count what earlier sessions of the run paid, or may have, and what a record took most."""
        self._paid, self._batch = Tokens(input_tokens, output_tokens), Tokens(*batch)
        self._shared_budget.earlier.pop(self._name, None)
        for row in rows:
            self._most_own_input = max(self._most_own_input, row.input_tokens or 0)
            self._most_output = max(self._most_output, row.output_tokens or 0)

    async def reserve(self, asked: CallSize) -> Reservation:
        """Set aside the most that a call can take; wait, or stop the run, where it does not fit."""
        async with (
            self._shared_budget.turn
        ):  # whoever came first is served first, however small the others are
            while (reservation := self._fitting(asked)) is None:
                if not self._shared_budget.is_in_use:
                    self.stop(self._too_much(asked))
                self._shared_budget.settled.clear()
                await self._shared_budget.settled.wait()
                self._stop.check()
            self._begin(reservation)
            if asked.then is not None and reservation.then is not None:
                self._begin(reservation.then)
                asked.then.held = reservation.then
        return reservation

    def _too_much(self, asked: CallSize) -> str:
        n_tokens = self._most_input(asked, trusting=not self._paid.total)
        n_tokens += self._least_output(asked)
        what = "call"
        if asked.then is not None:
            following, what = asked.then.asked, "answer, in two calls,"
            n_tokens += self._most_input(following) + self._least_output(following)
        return f"the next {what} may take {n_tokens:,} tokens and could exceed the budget"

    def _begin(self, reservation: Reservation) -> None:
        self._held = self._held.plus(reservation.most)
        self.in_progress[id(reservation)] = reservation

    def hold(self, asked: CallSize) -> Tokens | None:
        """Set aside the most that a request of a provider batch can take; None without room."""
        most = Tokens(self._most_input(asked), asked.output_cap or self._least_output(asked))
        if not self._allows(most, by_batch=True):
            return None
        self.hold_again(most)
        return most

    def hold_again(self, most: Tokens, sign: int = 1) -> None:
        """Set aside what an earlier session did; with a sign of -1, give it back."""
        self._held, self._batch = self._held.plus(most, sign), self._batch.plus(most, sign)

    def settle_batch(
        self, most: Tokens, asked: CallSize, n_input: int | None, n_output: int | None
    ) -> Tokens:
        """Replace what was held by what was used; return what was assumed where nobody said."""
        self.hold_again(most, -1)
        assumed = self._book(Reservation(most, most, asked), n_input, n_output)
        self._batch = self._batch.plus(Tokens(n_input or 0, n_output or 0)).plus(assumed)
        return assumed

    def give_back(self, held: Reservation) -> None:
        """Take back a reservation of which nothing was used."""
        self._held = self._held.plus(held.most, -1)
        del self.in_progress[id(held)]
        self._shared_budget.settled.set()

    def settle(self, held: Reservation, n_input: int | None, n_output: int | None) -> Tokens:
        """Replace a reservation by what was used; return what was assumed where nobody said."""
        self.give_back(held)
        return self._book(held, n_input, n_output)

    def _book(self, held: Reservation, n_input: int | None, n_output: int | None) -> Tokens:
        self._has_settled = True
        assumed = Tokens(
            held.most.input if n_input is None else 0.0,
            held.most.output if n_output is None else 0.0,
        )
        self._paid = self._paid.plus(Tokens(n_input or 0, n_output or 0)).plus(assumed)
        asked = held.asked
        if n_input and asked.n_bytes:
            self._learn_input(held, n_input)
        elif n_input:
            self._most_own_input = max(self._most_own_input, n_input / asked.n_records)
        if n_output is not None:
            self._seen_output += n_output
            self._n_seen_records += asked.n_records
            self._most_output = max(self._most_output, n_output / asked.n_records)
        return assumed

    def _learn_input(self, held: Reservation, n_input: int) -> None:
        """Keep what instructions take at most; set more aside where a call took more than that."""
        known = self._least_input.setdefault(held.asked.instructions, n_input)
        self._least_input[held.asked.instructions] = min(known, n_input)
        more = math.ceil(n_input - held.most.input)
        if more > 0:
            self._excess += more
            for other in self.in_progress.values():
                other.most = other.most.plus(Tokens(more))
                self._held = self._held.plus(Tokens(more))

    def stop(self, reason: str) -> None:
        """End the run at its budget."""
        limits = self._shared_budget.limits
        named = {"max_cost": limits.max_cost, "max_tokens": limits.max_tokens}
        bounds = ", ".join(f"{name} {value:g}" for name, value in named.items() if value)
        self._stop.request(BudgetReached(f"{reason} ({bounds})"))
        self._stop.check()

    def cost(
        self, input_tokens: float, output_tokens: float, batch: tuple[float, float] = (0.0, 0.0)
    ) -> float | None:
        """Return the dollars for these tokens, where the price is known."""
        if self._price is None:
            return None
        return self._price.cost(input_tokens, output_tokens, batch)

    def expected(self, asked: CallSize) -> Tokens:
        """Guess what a call takes, from the replies so far."""
        per_record = float(FIRST_GUESS_OF_OUTPUT)
        if self._n_seen_records:
            per_record = self._seen_output / self._n_seen_records
        n_letters = asked.n_bytes + len(asked.instructions)
        return Tokens(n_letters / CHARACTERS_PER_TOKEN, per_record * asked.n_records)

    def _fitting(self, asked: CallSize) -> Reservation | None:
        """Return what can be set aside for a call now, if anything."""
        if self.in_progress and self._shared_budget.is_bound and not self._has_settled:
            return None
        expected, then = self.expected(asked), None
        most = after = self._most(asked)
        if asked.then is not None:
            following = asked.then.asked
            then = Reservation(self._most(following), self.expected(following), following)
            after = most.plus(then.most)
        if self._allows(after):
            return Reservation(most, expected, asked, then=then)
        if self._shared_budget.is_in_use or asked.output_cap is None:
            return None
        inputs = [self._most_input(asked)]
        if not self._paid.total:
            inputs.append(self._most_input(asked, trusting=True))
        least = Tokens()
        if then is not None:
            then.lowered_cap = self._least_output(then.asked)
            then.most = least = Tokens(then.most.input, then.lowered_cap)
        for n_input in inputs:
            lowered = self._room(least.plus(Tokens(n_input)), asked.output_cap)
            if lowered >= self._least_output(asked):
                most = Tokens(n_input, lowered)
                return Reservation(most, expected, asked, lowered, then)
        return None

    def _most(self, asked: CallSize) -> Tokens:
        cap = self._least_output(asked) if asked.output_cap is None else asked.output_cap
        return Tokens(self._most_input(asked), cap)

    def _least_output(self, asked: CallSize) -> int:
        """Return what an answer needs, by the longest so far."""
        guess = FIRST_GUESS_OF_OUTPUT if asked.n_bytes else 0
        return (math.ceil(self._most_output) or guess) * asked.n_records

    def _most_input(self, asked: CallSize, *, trusting: bool = False) -> int:
        if not asked.n_bytes:
            return math.ceil(self._most_own_input * asked.n_records)
        n_shared = len(asked.instructions.encode("utf-8", "surrogatepass"))
        if trusting:
            return math.ceil((n_shared + asked.n_bytes) * _TOKENS_PER_BYTE_OF_PROSE) + FRAME_TOKENS
        shared = n_shared + FRAME_TOKENS
        shared = min(shared, self._least_input.get(asked.instructions, shared))
        return shared + asked.n_bytes + self._excess

    def _room(self, beside: Tokens, cap: int) -> int:
        """Return the largest cap below the one given that the budget allows, by halving."""
        low, high = 0, cap
        while low < high:
            middle = (low + high + 1) // 2
            if self._allows(beside.plus(Tokens(0, middle))):
                low = middle
            else:
                high = middle - 1
        return low

    def _allows(self, most: Tokens, *, by_batch: bool = False) -> bool:
        if not self._shared_budget.is_bound:
            return True
        total, limits = self._paid.plus(self._held).plus(most), self._shared_budget.limits
        n_tokens, dollars = self._shared_budget.beside(self._name)
        if limits.max_tokens is not None and n_tokens + total.total > limits.max_tokens:
            return False
        cost = self.cost(*total, self._batch.plus(most) if by_batch else self._batch)
        return limits.max_cost is None or cost is None or dollars + cost <= limits.max_cost
